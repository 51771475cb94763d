"""Parameters that ECM, BCN and E²CM share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from ecmproto.control.mechanisms.api.parameters import (
    MAX_OCTETS,
    Parameters,
    count,
    duration,
    flag,
    octets,
    priority_set,
    ratio,
    redeclared,
)
from ecmproto.errors import ParameterError
from ecmproto.units import NS_PER_S, QUEUE_UNIT_OCTETS, format_octets

PRIORITIES = 8

WEIGHT_DENOMINATOR = 8
"""Denominator of w and Qscale (S000 3.3.1); both are multiples of 1/8, so feedback stays an integer."""

PACKET_OCTETS = 1500
"""Packet length in octets, in which S004 counts queue lengths."""

LARGEST_FIELD_UNITS = 16_383
"""Maximum of Qeq·Qscale, in units of 64 octets, so that 2·Qeq fits a signed 16-bit field (wire-formats 4)."""

UNSET: Any = None
"""Default of a parameter that is computed from other parameters in `Parameters.__post_init__`."""

_SAMPLE_NS = 2_400_000
_MIN_SAMPLE_OCTETS, _MAX_SAMPLE_OCTETS = 15_000, 150_000


def sampled_often(rate_bps: int) -> list[str]:
    """Return shorter ECM and BCN sampling intervals for a slow port, where 150 kB take too long to arrive."""
    octets = rate_bps * _SAMPLE_NS // (8 * NS_PER_S)
    sf = min(_MAX_SAMPLE_OCTETS, max(_MIN_SAMPLE_OCTETS, octets))
    return [f"cp.sf={sf}B", f"cp.sr={3 * sf // 10}B"]


_LAB = "S004 VI, in octets"

feedback_weight: Callable[..., float] = partial(
    ratio, "w", 2.0, (1 / WEIGHT_DENOMINATOR, 8), step=1 / WEIGHT_DENOMINATOR
)
"""Function that declares w, a parameter of BCN and E²CM congestion points and of ECM reaction points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParameters(Parameters):
    """Parameters of byte sampling.

    Raises ParameterError for a value out of range, and for Sr > Sf > 0.
    """

    fixed_octets: int = octets(
        "sf", 150_000, (0, 256_000), source="S000 3.2",
        doc="fixed part of the sampling interval; a sampling probability Pm corresponds to sf = 1500/Pm",
    )  # fmt: skip
    random_octets: int = octets(
        "sr", UNSET, (0, 64_000), source="S000 3.2",
        doc="half the width of the random part of the sampling interval, at most sf; by default 0.3·sf, "
        "at most 64 kB; with sf=0, the interval is entirely random, from 0 to sr",
    )  # fmt: skip
    oversampling_shift: int = count(
        "sscale", 0, (0, 15), source="S000 3.2",
        doc="exponent: the sampling interval is divided by 2^sscale while the queue is empty or above qmc",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for a value out of range, and for Sr > Sf > 0."""
        if self.random_octets is UNSET and isinstance(self.fixed_octets, int):
            object.__setattr__(self, "random_octets", min(self.fixed_octets * 3 // 10, 64_000))
        Parameters.__post_init__(self)
        if self.fixed_octets:
            self.check_relation("sr", "at most", "sf")


@dataclass(frozen=True, slots=True, kw_only=True)
class AIMDCongestionPointParameters(SamplingParameters):
    """Thresholds and message parameters of a congestion point."""

    qeq_octets: int = octets(
        "qeq", 16 * PACKET_OCTETS, (1, LARGEST_FIELD_UNITS * QUEUE_UNIT_OCTETS * WEIGHT_DENOMINATOR),
        source=_LAB,
        doc="equilibrium queue length of the congestion point (Qeq)",
    )  # fmt: skip
    qmc_octets: int = octets(
        "qmc",
        0,
        (0, MAX_OCTETS),
        source="S000 3.2",
        doc="mild congestion threshold (Qmc). The value 0 disables the threshold",
    )
    qsc_octets: int = octets(
        "qsc", 80 * PACKET_OCTETS, (0, MAX_OCTETS), source=_LAB,
        doc="severe congestion threshold (Qsc), above which sources stop for a while. The value 0 disables "
        "the threshold",
    )  # fmt: skip
    qscale: float = ratio(
        "qscale", 1.0, (1 / WEIGHT_DENOMINATOR, 1024), step=1 / WEIGHT_DENOMINATOR, source="S000 3.2",
        doc="factor of Qoff and Qdelta in messages, which makes congestion points with different qeq "
        "comparable",
    )  # fmt: skip
    payload_octets: int = octets(
        "payload", 48, (24, 1400), source="S000 3.1; wire-formats 4",
        doc="octets of the sampled frame, from its DA on, that a message carries (N)",
    )  # fmt: skip
    message_priority: int = count(
        "message_priority", 7, (0, 7), source="S000 3.1; wire-formats 1.2",
        doc="priority of a message in its outermost VLAN tag",
    )  # fmt: skip
    keep_priority: bool = flag(
        "keep_priority", False, source="S000 3.1",
        doc="whether a message has the priority of the sampled frame instead of message_priority",
    )  # fmt: skip
    enabled: frozenset[int] = priority_set(
        "enabled", frozenset(range(PRIORITIES)), source="S000 2.1",
        doc="priorities that have a congestion point",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for a value out of range, and unless Qeq < Qmc < Qsc."""
        SamplingParameters.__post_init__(self)
        scaled_units = Fraction(self.qeq_octets) * Fraction(self.qscale) / QUEUE_UNIT_OCTETS
        if not 1 <= scaled_units <= LARGEST_FIELD_UNITS:
            raise _relation("qeq", f"qeq·qscale of 1 to {LARGEST_FIELD_UNITS} units of 64", self.qeq_octets)
        below, limit_octets = "qeq", self.qeq_octets
        for name, threshold in (("qmc", self.qmc_octets), ("qsc", self.qsc_octets)):
            if threshold and threshold <= limit_octets:
                raise _relation(name, f"more than {below} ({format_octets(limit_octets)}), or 0", threshold)
            if threshold:
                below, limit_octets = name, threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class AIMDReactionPointParameters(Parameters):
    """Gains and limiter parameters of a reaction point. Gains apply per 64 octets of feedback."""

    increase_gain: float = ratio(
        "gi", 4 * QUEUE_UNIT_OCTETS / PACKET_OCTETS, (0, 1024), source="S004 VI: 4 per packet of 1500 octets",
        doc="increase gain Gi: multiple of Ru per unit (64 octets) of positive feedback",
    )  # fmt: skip
    decrease_gain: float = ratio(
        "gd", 0.0124 * QUEUE_UNIT_OCTETS / PACKET_OCTETS, (0, 1),
        source="S004 VI: 0.0124 per packet of 1500 octets",
        doc="decrease gain Gd: share of the rate removed per unit (64 octets) of negative feedback",
    )  # fmt: skip
    largest_decrease: float = ratio(
        "alpha", 1.0, (0, 1), source="S000 3.3.1 (α)", doc="maximum share of the rate removed by one message"
    )
    largest_increase: float = ratio(
        "beta", 1.0, (0, 1), source="S000 3.3.1 (β)",
        doc="maximum share of the link's capacity that one message adds",
    )  # fmt: skip
    initial_share: float = ratio(
        "ri", 0.5, (0.0001, 1), source="S000 3.3, footnote 3",
        doc="initial rate Ri of a limiter as a share of the link's capacity",
    )  # fmt: skip
    tmax_ns: int = duration(
        "tmax", 10_000, (1_000, 1_000_000_000), step=1_000, source="S000 3.3.2",
        doc="maximum of the first time-out; the maximum doubles with each time-out",
    )  # fmt: skip
    self_increase_ns: int = duration(
        "td", 1_000_000, (1_000, 10_000_000), step=1_000, source="S000 3.3.1 (Td)",
        doc="time between two self-increases",
    )  # fmt: skip
    limiters: int = count(
        "limiters", 64, (0, 65_536), source="S000 3.3; algorithms §1",
        doc="number of rate limiters for single flows; if no limiter is free, one limiter for the whole "
        "priority takes over",
    )  # fmt: skip
    key_vlan: bool = flag("key_vlan", True, source="S000 3.3", doc="whether the VLAN id distinguishes flows")
    key_dst: bool = flag(
        "key_dst", True, source="S000 3.3", doc="whether the destination address distinguishes flows"
    )
    key_src: bool = flag(
        "key_src", True, source="S000 3.3", doc="whether the source address distinguishes flows"
    )
    key_priority: bool = flag(
        "key_priority", True, source="S000 3.3", doc="whether the priority distinguishes flows"
    )
    hash_bits: int = count(
        "hash_bits", 0, (0, 32), source="S000 3.3 (compressed flow identifier)",
        doc="length in bits of the hash that replaces the flow key. The value 0 compares the flow key itself",
    )  # fmt: skip
    enabled: frozenset[int] = redeclared(
        AIMDCongestionPointParameters, "enabled",
        doc="priorities that are rate limited; messages for other priorities are ignored",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AIMDEdgeParameters(Parameters):
    """Parameters of an edge of a congestion management domain."""

    strip: bool = flag(
        "strip", True, source="S004 IV.C; algorithms, heading",
        doc="whether reaction points' tags are removed from frames that leave the domain",
    )  # fmt: skip


def _relation(name: str, needed: str, octets: int) -> ParameterError:
    return ParameterError(name=name, needed=needed, got=format_octets(octets))
