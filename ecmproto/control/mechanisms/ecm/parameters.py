"""Parameters of ECM (S000); algorithms §1 decides what S000 leaves open."""

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
from ecmproto.control.mechanisms.api.parameters import Parameters, count, flag, rate

_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ECMCongestionPointParameters(aimd.AIMDCongestionPointParameters):
    """Parameters of an ECM congestion point. Raises ParameterError for inconsistent values."""

    q_bit: bool = flag(
        "q_bit", False, source="S000 3.2.1 (experimental feature)",
        doc="whether a message reports that Qdelta is saturated",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ECMReactionPointParameters(aimd.AIMDReactionPointParameters):
    """Parameters of an ECM reaction point. Raises ParameterError for a value out of range."""

    weight: float = feedback_weight(
        source="S000 3.3.1; S004 VI", doc="weight of Qdelta relative to Qoff in the feedback Fb"
    )
    rate_unit_bps: int = rate(
        "ru", 4 * _MB, (_MB, 100 * _MB), step=_MB, source="S000 3.3.1; S004 VI",
        doc="rate unit Ru of an increase",
    )  # fmt: skip
    floor_bps: int = rate(
        "floor", UNSET, (1_000, 1_000 * _MB), source="algorithms §1, RP 3",
        doc="minimum rate of a limiter, except 0 in a time-out. The default is ru",
    )  # fmt: skip
    restart_bps: int = rate(
        "rmin", 100 * _MB, (_MB, 1_000 * _MB), step=_MB, source="S000 3.3.2 (Rmin)",
        doc="rate after the first time-out; the rate halves with each time-out",
    )  # fmt: skip
    self_increase_bps: int = rate(
        "rd", _MB, (_MB, 100 * _MB), step=_MB, source="S000 3.3.1 (Rd)",
        doc="rate added at each self-increase",
    )  # fmt: skip
    rtt_shift: int = count(
        "wrtt", 3, (0, 30), source="S000 3.3; algorithms §1",
        doc="a new round-trip time has the weight 2^-wrtt in the average",
    )  # fmt: skip
    timestamp_unit: int = count(
        "unit", 0, (0, 15), source="S000 3.1; algorithms §1",
        doc="unit of the CM-Tag's timestamp, 2^unit µs",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for a value out of range."""
        if self.floor_bps is UNSET:
            object.__setattr__(self, "floor_bps", self.rate_unit_bps)
        Parameters.__post_init__(self)


_RU_SHARE = 0.0004
"""Rate unit Ru as a share of the port rate, which is 4 Mb/s at 10 Gb/s (S004)."""
_MIN_RU_BPS = _MB
_GI = 4 * 64 / 1500
"""Gain Gi of S004 per unit of 64 octets."""


def _low_rate(rate_bps: int) -> list[str]:
    # Ru is 0.0004·C. If this value is below the range of Ru, reduce the gain instead.
    gi = _GI * _RU_SHARE * rate_bps / _MIN_RU_BPS
    return ["rp.ru=1M", f"rp.gi={gi:.6f}", "rp.floor=1M", "rp.td=10ms", *sampled_often(rate_bps), "cp.qsc=0"]


ECM = Mechanism(
    name="ecm",
    title="Ethernet Congestion Manager (Cisco's proposal of 2007)",
    source="S000",
    machine="ecmproto.control.mechanisms.ecm.machine:ECMMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: ECMCongestionPointParameters,
        Role.REACTION_POINT: ECMReactionPointParameters,
        Role.EDGE: AIMDEdgeParameters,
    },
)
