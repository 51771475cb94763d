"""Parameters of enhanced BCN (S004); algorithms §2 decides what S004 leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.aimd import parameters as aimd
from ecmproto.control.mechanisms.aimd.parameters import (
    UNSET,
    AIMDEdgeParameters,
    feedback_weight,
    sampled_often,
)
from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import MAX_OCTETS, flag, octets, rate, ratio

_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BCNCongestionPointParameters(aimd.AIMDCongestionPointParameters):
    """Parameters of a BCN congestion point. Raises ParameterError for inconsistent values."""

    weight: float = feedback_weight(
        source="S004 eq. 1, VI; range of S000 3.3.1",
        doc="weight of the queue change relative to the queue offset in the feedback e",
    )  # fmt: skip
    probability: float = ratio(
        "pm", 0.0, (0, 1), source="S004 III (Pm)",
        doc="sampling probability of each arriving frame, independent of its length and of the queue. If "
        "the value is 0, frames are sampled by octets, with sf, sr and sscale",
    )  # fmt: skip
    qst_octets: int = octets(
        "qst", 0, (0, MAX_OCTETS), source="S004 IV.A",
        doc="queue length above which PAUSE is sent to the upstream ports (Qst). The value 0 disables PAUSE",
    )  # fmt: skip
    qst_low_octets: int = octets(
        "qst_low", UNSET, (0, MAX_OCTETS), source="choice (S004 IV.B: some predefined level)",
        doc="queue length at or below which the upstream ports resume, less than qst; by default qsc or qeq",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for a value out of range, and unless Qsc < Qst."""
        if self.qst_low_octets is UNSET:
            object.__setattr__(self, "qst_low_octets", self.qsc_octets or self.qeq_octets)
        aimd.AIMDCongestionPointParameters.__post_init__(self)
        if self.qst_octets:
            self.check_relation("qsc", "less than", "qst")
            self.check_relation("qst_low", "less than", "qst")


@dataclass(frozen=True, slots=True, kw_only=True)
class BCNReactionPointParameters(aimd.AIMDReactionPointParameters):
    """Parameters of a BCN reaction point. Raises ParameterError for a value out of range."""

    rate_unit_bps: int = rate(
        "ru", 4 * _MB, (10_000, 100 * _MB), source="S004 VI; algorithms §2",
        doc="rate unit Ru of an increase, for a congested link of 10 Gb/s",
    )  # fmt: skip
    capacity_scaling: bool = flag(
        "capacity_scaling", True, source="S004 VI.C",
        doc="whether Ru is proportional to the congested link's capacity, as in enhanced BCN",
    )  # fmt: skip
    floor_bps: int = rate(
        "floor", _MB, (1_000, 1_000 * _MB), source="algorithms §2",
        doc="minimum rate of a limiter, except 0 in a time-out",
    )  # fmt: skip
    self_increase_bps: int = rate(
        "rd", _MB, (0, 100 * _MB), step=_MB, source="S000 3.3.1 (Rd); S004 does not mention it",
        doc="rate added at each self-increase. The value 0 disables self-increase",
    )  # fmt: skip


def _low_rate(rate_bps: int) -> list[str]:
    return ["rp.td=10ms", *sampled_often(rate_bps)]


BCN = Mechanism(
    name="bcn",
    title="Backward Congestion Notification, enhanced with the link's capacity",
    source="S004",
    machine="ecmproto.control.mechanisms.bcn.machine:BCNMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: BCNCongestionPointParameters,
        Role.REACTION_POINT: BCNReactionPointParameters,
        Role.EDGE: AIMDEdgeParameters,
    },
)
