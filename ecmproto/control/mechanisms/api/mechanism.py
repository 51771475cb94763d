"""The description of a mechanism: its names, its source and, for each of its roles, parameters and code.

The code of a role is named, not imported: kernels need numba, and listing mechanisms must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ecmproto.control.mechanisms.api.parameters import Parameters, unknown_name
from ecmproto.errors import ParameterError

_DEFAULTS_FROM_BPS = 10**10
"""The port rate of mechanisms' defaults."""


class Role(Enum):
    """The location of a part of a mechanism."""

    CONGESTION_POINT = "cp"
    """A switch's output queue."""

    REACTION_POINT = "rp"
    """The rate limiters of a sender."""

    EDGE = "edge"
    """The destination: removes tags, returns probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A congestion management mechanism.

    ``name`` is its name on a command line, ``title`` a line of description, ``source`` the defining document,
    ``roles`` its parts, ``machine`` the code that runs them.
    """

    name: str
    title: str
    source: str
    machine: str
    """The import path ``package.module:Class`` of its `ecmproto.control.mechanisms.api.machine.Machine`."""
    roles: Mapping[Role, type[Parameters]]
    low_rate: Callable[[int], Sequence[str]] | None = None
    """The function that returns parameters for a slower port, in bit/s, to settle as at 10 Gb/s."""

    def low_rate_parameters(self, rate_bps: int) -> list[str]:
        """Return assignments for settling at a port of ``rate_bps``; none from 10 Gb/s on."""
        if self.low_rate is None or rate_bps >= _DEFAULTS_FROM_BPS:
            return []
        return list(self.low_rate(rate_bps))

    def parse(self, assignments: Iterable[str]) -> dict[Role, Parameters]:
        """Return the parameters of all roles for texts such as ``qeq=33kB`` or ``rp.w=2``.

        A name without a role applies to every role that has it. Raises ParameterError as `Parameters.parse`.
        """
        chosen: dict[Role, list[str]] = {role: [] for role in self.roles}
        for assignment in assignments:
            for role, text in self._addressed(assignment):
                chosen[role].append(text)
        return {role: part.parse(chosen[role]) for role, part in self.roles.items()}

    def _addressed(self, assignment: str) -> list[tuple[Role, str]]:
        """Return the roles and the text of an assignment."""
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
        """Return the part for ``role``; raises ParameterError if the mechanism has none."""
        part = self.roles.get(role)
        if part is None:
            has = ", ".join(have.value for have in self.roles) or "none"
            raise ParameterError(name="role", needed=f"a role of {self.name} ({has})", got=role.value)
        return part
