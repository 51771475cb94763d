"""Parameters of enhanced BCN (S004); what S004 leaves open is as in ECM (algorithms §2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.aimd import parameters as aimd
from ecmproto.mechanisms.aimd.parameters import OFTEN, UNSET, WEIGHT_DENOMINATOR, AIMDEdgeParameters
from ecmproto.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.mechanisms.api.parameters import documented
from ecmproto.units import format_octets

_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BCNCongestionPointParameters(aimd.AIMDCongestionPointParameters):
    """The parameters of a BCN congestion point.  Raises ParameterError on values that do not go together."""

    weight: float = field(
        default=2.0,
        metadata=documented(
            "w",
            unit="ratio",
            minimum=1 / WEIGHT_DENOMINATOR,
            maximum=8,
            step=1 / WEIGHT_DENOMINATOR,
            source="S004 eq. 1, VI; range of S000 3.3.1",
            doc="weight of the queue's change against its offset in the feedback e",
        ),
    )
    probability: float = field(
        default=0.0,
        metadata=documented(
            "pm",
            unit="ratio",
            minimum=0,
            maximum=1,
            source="S004 III (Pm)",
            doc="probability with which each arriving frame is sampled, whatever its length and the queue; "
            "0 samples by octets instead, as sf, sr and sscale say",
        ),
    )
    qst_octets: int = field(
        default=0,
        metadata=documented(
            "qst",
            unit="octets",
            minimum=0,
            maximum=4_294_967_295,
            source="S004 IV.A",
            doc="queue length above which the upstream ports are sent PAUSE (Qst); 0 turns it off",
        ),
    )
    qst_low_octets: int = field(
        default=UNSET,
        metadata=documented(
            "qst_low",
            unit="octets",
            minimum=0,
            maximum=4_294_967_295,
            source="choice (S004 IV.B: some predefined level)",
            doc="queue length at or below which they may send again, less than qst; by default qsc or qeq",
        ),
    )

    def __post_init__(self) -> None:
        """Check the fields and Qsc < Qst; raises ParameterError."""
        if self.qst_low_octets is UNSET:
            object.__setattr__(self, "qst_low_octets", self.qsc_octets or self.qeq_octets)
        aimd.AIMDCongestionPointParameters.__post_init__(self)
        if not self.qst_octets:
            return
        for name, octets in (("qsc", self.qsc_octets), ("qst_low", self.qst_low_octets)):
            if octets >= self.qst_octets:
                needed = f"less than qst ({format_octets(self.qst_octets)})"
                raise ParameterError(name=name, needed=needed, got=format_octets(octets))


@dataclass(frozen=True, slots=True, kw_only=True)
class BCNReactionPointParameters(aimd.AIMDReactionPointParameters):
    """The parameters of a BCN reaction point.  Raises ParameterError on a value out of its range."""

    rate_unit_bps: int = field(
        default=4 * _MB,
        metadata=documented(
            "ru",
            unit="bit/s",
            minimum=10_000,
            maximum=100 * _MB,
            source="S004 VI; algorithms §2",
            doc="rate unit Ru of an increase, for a congested link of 10 Gb/s",
        ),
    )
    capacity_scaling: bool = field(
        default=True,
        metadata=documented(
            "capacity_scaling",
            unit="flag",
            source="S004 VI.C",
            doc="whether Ru follows the congested link's capacity, as enhanced BCN has it",
        ),
    )
    floor_bps: int = field(
        default=_MB,
        metadata=documented(
            "floor",
            unit="bit/s",
            minimum=1_000,
            maximum=1_000 * _MB,
            source="algorithms §2",
            doc="no limiter's rate falls below it, except to 0 in a time-out",
        ),
    )
    self_increase_bps: int = field(
        default=_MB,
        metadata=documented(
            "rd",
            unit="bit/s",
            minimum=0,
            maximum=100 * _MB,
            step=_MB,
            source="S000 3.3.1 (Rd); S004 does not mention it",
            doc="what a limiter gains at each self-increase; 0 turns it off",
        ),
    )


def _low_rate(rate_bps: int) -> list[str]:
    return ["rp.td=10ms", *OFTEN]


BCN = Mechanism(
    name="bcn",
    title="Backward Congestion Notification, enhanced with the link's capacity",
    source="S004",
    machine="ecmproto.mechanisms.bcn.messages:BCNMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: BCNCongestionPointParameters,
        Role.REACTION_POINT: BCNReactionPointParameters,
        Role.EDGE: AIMDEdgeParameters,
    },
)
