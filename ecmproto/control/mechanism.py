"""What a mechanism is: its names, its source and, per role that it has, parameters and code.

The code of a role is named, not imported: kernels need numba, and listing mechanisms must not.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import ModuleType

from ecmproto.control.parameters import Parameters
from ecmproto.errors import ParameterError


class Role(Enum):
    """Where a part of a mechanism runs."""

    CONGESTION_POINT = "cp"
    """A switch's output queue."""

    REACTION_POINT = "rp"
    """The rate limiters of a sender."""

    EDGE = "edge"
    """The destination: strips tags, turns probes round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePart:
    """One role of a mechanism: the type of its ``parameters`` and the dotted name of its ``module``."""

    parameters: type[Parameters]
    module: str

    def load(self) -> ModuleType:
        """Import and return the role's code (this may import numba)."""
        return importlib.import_module(self.module)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A congestion management mechanism.

    ``name`` is what a command line calls it, ``title`` a line for a person, ``source`` the document
    that defines it, ``roles`` the parts that it has, ``machine`` what makes them run.
    """

    name: str
    title: str
    source: str
    machine: str
    """``package.module:Class`` of its `ecmproto.control.machine.Machine`."""
    roles: Mapping[Role, RolePart]

    def role(self, role: Role) -> RolePart:
        """Return the part for ``role``; raises ParameterError if the mechanism has none."""
        part = self.roles.get(role)
        if part is None:
            has = ", ".join(have.value for have in self.roles) or "none"
            raise ParameterError(name="role", needed=f"one that {self.name} has ({has})", got=role.value)
        return part
