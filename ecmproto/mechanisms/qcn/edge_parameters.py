"""Parameters of the edge of a QCN domain: which priorities are CNPVs, and how a port defends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.parameters import Parameters, documented

PRIORITIES = 8
AUTOMATIC = 0
AUTOMATIC_ALTERNATE = -1

_MIB = "802.1Q, IEEE8021-CN-MIB"


class DefenceMode(IntEnum):
    """A port's CND defence mode for one priority, numbered as in the MIB (wire-formats 9)."""

    DISABLED = 1
    INTERIOR = 2
    INTERIOR_READY = 3
    EDGE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeParameters(Parameters):
    """What a port at the edge of a domain is set to.

    Raises ParameterError on a value out of its range, when all eight priorities are CNPVs and when the
    alternate priority is one.
    """

    cnpv: frozenset[int] = field(
        default=frozenset(),
        metadata=documented(
            "cnpv",
            unit="priorities",
            source="802.1Q 33.5; wire-formats 9",
            doc="congestion notification priority values of the domain, at most seven",
        ),
    )
    mode: int = field(
        default=AUTOMATIC,
        metadata=documented(
            "mode",
            unit="count",
            minimum=AUTOMATIC,
            maximum=max(DefenceMode),
            source=f"{_MIB} ieee8021CnPortPriAdminDefenseMode; wire-formats 9",
            doc="CND defence mode of the CNPVs: 1 disabled, 2 interior, 3 interiorReady, 4 edge, "
            "0 by what the neighbour's LLDP says",
        ),
    )
    alternate_priority: int = field(
        default=AUTOMATIC_ALTERNATE,
        metadata=documented(
            "alternate_priority",
            unit="count",
            minimum=AUTOMATIC_ALTERNATE,
            maximum=PRIORITIES - 1,
            source=f"{_MIB} ieee8021CnPortPriAlternatePriority; wire-formats 9",
            doc="what edge mode remaps CNPVs to; -1: the next lower priority that is no CNPV, else the next "
            "higher",
        ),
    )
    cnm_priority: int = field(
        default=6,
        metadata=documented(
            "cnm_priority",
            unit="count",
            minimum=0,
            maximum=7,
            source="802.1Q; wire-formats 1.2",
            doc="priority of a CNM, converted at a backbone edge, in its outermost VLAN tag",
        ),
    )

    def __post_init__(self) -> None:
        """Check every field and how they go together; raises ParameterError."""
        Parameters.__post_init__(self)
        if len(self.cnpv) == PRIORITIES:
            raise ParameterError(name="cnpv", needed="at most seven priorities", got="all eight")
        if self.alternate_priority in self.cnpv:
            raise ParameterError(
                name="alternate_priority",
                needed="a priority that is no CNPV",
                got=str(self.alternate_priority),
            )
