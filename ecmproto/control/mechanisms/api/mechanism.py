"""Description of a mechanism: names, source document and, for each role, the parameters and code.

A mechanism contains the import path of the code, so that a list of mechanisms does not import numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ecmproto.control.mechanisms.api.parameters import Parameters, unknown_name
from ecmproto.errors import ParameterError

_DEFAULTS_FROM_BPS = 10**10
"""Port rate in bit/s for which the defaults of mechanisms are chosen."""


class Role(Enum):
    """Role of a device in a mechanism."""

    CONGESTION_POINT = "cp"
    """Congestion point: an output queue of a switch."""

    REACTION_POINT = "rp"
    """Reaction point: the rate limiters of a sender."""

    EDGE = "edge"
    """Edge: the destination, which removes tags and returns probes."""


def isolation_of(parameters: Mapping[Role, Parameters]) -> tuple[int, int] | None:
    """Return the watched priority and the queue of its isolated flows; ``None`` without isolation."""
    return next((each.isolation for each in parameters.values() if each.isolation), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A congestion management mechanism.

    ``name`` is the name on a command line. ``title`` is a one-line description. ``source`` is the defining
    document. ``roles`` are the parameter classes by role. ``machine`` is the import path of the code.
    """

    name: str
    title: str
    source: str
    machine: str
    """Import path ``package.module:Class`` of the `ecmproto.control.mechanisms.api.machine.Machine`."""
    roles: Mapping[Role, type[Parameters]]
    low_rate: Callable[[int], Sequence[str]] | None = None
    """Function that returns assignments for a slower port, so that rates converge as at 10 Gb/s."""

    def low_rate_parameters(self, rate_bps: int) -> list[str]:
        """Return parameter assignments for a port of ``rate_bps``; the list is empty from 10 Gb/s on."""
        if self.low_rate is None or rate_bps >= _DEFAULTS_FROM_BPS:
            return []
        return list(self.low_rate(rate_bps))

    def parse(self, assignments: Iterable[str]) -> dict[Role, Parameters]:
        """Return the parameters of all roles from texts such as ``qeq=33kB`` or ``rp.w=2``.

        A name without a role applies to each role with such a parameter. Raises the same errors as
        `Parameters.parse`.
        """
        chosen: dict[Role, list[str]] = {role: [] for role in self.roles}
        for assignment in assignments:
            for role, text in self._addressed(assignment):
                chosen[role].append(text)
        return {role: part.parse(chosen[role]) for role, part in self.roles.items()}

    def _addressed(self, assignment: str) -> list[tuple[Role, str]]:
        """Return pairs of a role and an assignment without the role prefix."""
        prefix, dot, rest = assignment.partition(".")
        if dot and prefix in {role.value for role in Role}:
            self.role(Role(prefix))
            return [(Role(prefix), rest)]
        if not self.roles:
            needed = f"none: {self.name} has no parameters"
            raise ParameterError(name="parameter", needed=needed, got=assignment)
        name, equals, _ = assignment.partition("=")
        described = {role: part.describe() for role, part in self.roles.items()}
        matches = [
            role
            for role, known in described.items()
            if any(name.strip() in (p.name, p.attribute) for p in known)
        ]
        if equals and not matches:
            names = sorted({p.name for known in described.values() for p in known})
            raise unknown_name(name, names, kind=f"parameter of {self.name}")
        return [(role, assignment) for role in matches or list(self.roles)[:1]]

    def role(self, role: Role) -> type[Parameters]:
        """Return the parameter class of ``role``.

        Raises ParameterError if the mechanism does not have this role.
        """
        part = self.roles.get(role)
        if part is None:
            has = ", ".join(have.value for have in self.roles) or "none"
            raise ParameterError(name="role", needed=f"a role of {self.name} ({has})", got=role.value)
        return part
