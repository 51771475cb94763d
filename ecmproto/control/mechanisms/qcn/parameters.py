"""Parameters of QCN, with the ranges of the IEEE8021-CN-MIB if the MIB defines a range."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import (
    MAX_OCTETS,
    Parameters,
    choice,
    count,
    duration,
    flag,
    octets,
    priority_set,
    rate,
    ratio,
    redeclared,
)
from ecmproto.errors import ParameterError
from ecmproto.units import NS_PER_S, format_rate

SAMPLE_OCTETS = (150_000, 75_000, 50_000, 37_500, 30_000, 25_000, 21_500, 18_500)
"""Octets to the next sample for QntzFb div 8 = 0…7, if the minimum sample base is the default."""

WEIGHT_DENOMINATOR = 1024
"""Denominator of w; w is a multiple of 2^-10, the minimum of the MIB, so feedback stays an integer."""

_MIB = "802.1Q, IEEE8021-CN-MIB"
_CHOICE = "choice (wire-formats)"


@dataclass(frozen=True, slots=True, kw_only=True)
class QCNCongestionPointParameters(Parameters):
    """Parameters of a QCN congestion point, which apply to all CN priorities of a port.

    Raises ParameterError for a value out of range.
    """

    qeq_octets: int = octets(
        "qeq", 26_000, (100, MAX_OCTETS), source=f"{_MIB} ieee8021CnCpQueueSizeSetPoint",
        doc="equilibrium queue length of the congestion point (Qeq)",
    )  # fmt: skip
    weight: float = ratio(
        "w", 2.0, (1 / WEIGHT_DENOMINATOR, 1024), step=1 / WEIGHT_DENOMINATOR,
        source=f"{_MIB} ieee8021CnCpFeedbackWeight (its exponent, -10 to 10)",
        doc="weight of the queue change Qdelta relative to the queue offset Qoff in the feedback",
    )  # fmt: skip
    sample_base_octets: int = octets(
        "sample_base", 150_000, (10_000, MAX_OCTETS), source=f"{_MIB} ieee8021CnCpMinSampleBase",
        doc="enqueued octets between two samples without congestion; all eight sampling intervals scale "
        "with this value",
    )  # fmt: skip
    jitter: float = ratio(
        "jitter", 0.15, (0, 0.5), source="S001 (margin of randomness 30 %: the width of the interval)",
        doc="variation of the sampling interval: each interval is multiplied by a random number from 1 - "
        "jitter to 1 + jitter",
    )  # fmt: skip
    msdu_limit_octets: int = octets(
        "msdu_limit", 64, (0, 64), source="802.1Q cnmEncapsulated MSDU; wire-formats 3",
        doc="maximum octets of the sampled frame's MSDU in a CNM",
    )  # fmt: skip
    cnm_priority: int = count(
        "cnm_priority", 6, (0, 7), source="802.1Q; wire-formats 1.2",
        doc="priority of a CNM in its outermost VLAN tag",
    )  # fmt: skip
    cnm_without_cn_tag: bool = flag(
        "cnm_without_cn_tag", True, source=_CHOICE + " 2",
        doc="whether a sampled frame without a CN-TAG causes a CNM, with Flow ID 0",
    )  # fmt: skip
    cnpv: frozenset[int] = priority_set(
        "cnpv", frozenset(range(8)), source=_CHOICE + " 9",
        doc="priorities that have a congestion point (congestion notification priority values)",
    )  # fmt: skip


_MBPS = 10**6
_MAX = 4_294_967_295
"""Maximum value of the MIB's 32-bit objects."""


PSEUDOCODE, STANDARD = "pseudocode", "standard"
"""The two published variants of the rate increase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QCNReactionPointParameters(Parameters):
    """Parameters of the reaction points of a QCN station.

    Raises ParameterError for a value out of range, and if the minimum rate is above the maximum rate.
    """

    byte_reset_octets: int = octets(
        "byte_reset", 150_000, (1, _MAX), source=f"S001 BC_LIMIT; {_MIB} ieee8021CnRpgByteReset",
        doc="octets of one stage of a limiter's byte counter",
    )  # fmt: skip
    time_reset_ns: int = duration(
        "time_reset", 15_000_000, (1_000, _MAX * 10**6),
        source=f"S001 TIMER_PERIOD; {_MIB} ieee8021CnRpgTimeReset (whole ms; shorter ones are a choice)",
        doc="time of one stage of a limiter's timer",
    )  # fmt: skip
    threshold: int = count(
        "threshold", 5, (1, _MAX), source=f"S001 FAST_RECOVERY_TH; {_MIB} ieee8021CnRpgThreshold",
        doc="stage at which fast recovery ends, for each of the two counters",
    )  # fmt: skip
    ai_rate_bps: int = rate(
        "ai_rate", 5 * _MBPS, (_MBPS, _MAX * _MBPS), source=f"S001 R_AI; {_MIB} ieee8021CnRpgAiRate",
        doc="rate that active increase adds to the target rate",
    )  # fmt: skip
    hai_rate_bps: int = rate(
        "hai_rate", 50 * _MBPS, (_MBPS, _MAX * _MBPS), source=f"S001 R_HAI; {_MIB} ieee8021CnRpgHaiRate",
        doc="rate that hyper-active increase adds to the target rate, multiplied by the number of the step",
    )  # fmt: skip
    gd: float = ratio(
        "gd", 1 / 128, (2**-31, 1), source=f"S001 GD; {_MIB} ieee8021CnRpgGd (its exponent, 7)",
        doc="gain of the decrease: the share of the rate removed per unit of Quantized Feedback",
    )  # fmt: skip
    largest_decrease: float = ratio(
        "largest_decrease", 0.5, (0, 0.99),
        source=f"{_MIB} ieee8021CnRpgMinDecFac (the remainder, in percent)",
        doc="maximum share of the rate that one CNM removes",
    )  # fmt: skip
    min_rate_bps: int = rate(
        "min_rate", 10 * _MBPS, (_MBPS, _MAX * _MBPS),
        source=f"S001 MIN_RATE; {_MIB} ieee8021CnRpgMinRate, whose default is 5 Mb/s",
        doc="minimum rate of a limiter",
    )  # fmt: skip
    max_rate_bps: int = rate(
        "max_rate", 0, (0, _MAX * _MBPS), source=f"{_MIB} ieee8021CnRpgMaxRate",
        doc="rate at which a limiter starts and is released; 0 or a value above the link rate means the "
        "link rate",
    )  # fmt: skip
    max_rps: int = count(
        "max_rps", 100, (1, 100), source=f"{_MIB} ieee8021CnRpPortPriMaxRps",
        doc="number of flows with their own limiter; further flows share one additional limiter",
    )  # fmt: skip
    jitter: float = redeclared(
        QCNCongestionPointParameters, "jitter",
        doc="variation of reloads: each reload is multiplied by a number drawn "
        "uniformly from 1 ± jitter (except with variant=standard)",
    )  # fmt: skip
    variant: str = choice(
        "variant", PSEUDOCODE, (PSEUDOCODE, STANDARD),
        source="algorithms 3: the published pseudo-code, the state diagram of 802.1Q",
        doc="published version of the increase; with standard, a stage at the threshold counts as past "
        "the threshold, the hyper-active step is one larger, only hyper-active increase halves periods, "
        "and there is no jitter",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for a value out of range, and for a minimum rate above the maximum rate."""
        Parameters.__post_init__(self)
        if self.max_rate_bps:
            check_rates(self.min_rate_bps, self.max_rate_bps)

    @property
    def standard(self) -> bool:
        """Return whether the variant is the state diagram of 802.1Q."""
        return self.variant == STANDARD

    def highest_rate_bps(self, link_rate_bps: int) -> int:
        """Return the maximum rate on a link. Raises ParameterError if the minimum rate is higher."""
        highest_bps = min(self.max_rate_bps or link_rate_bps, link_rate_bps)
        check_rates(self.min_rate_bps, highest_bps)
        return highest_bps


def check_rates(min_rate_bps: int, max_rate_bps: int) -> None:
    """Raise ParameterError if the minimum rate is above the maximum rate."""
    if min_rate_bps > max_rate_bps:
        raise ParameterError(
            name="min_rate",
            needed=f"at most the maximum rate, {format_rate(max_rate_bps)}",
            got=format_rate(min_rate_bps),
        )


PRIORITIES = 8
AUTOMATIC = 0
AUTOMATIC_ALTERNATE = -1


class DefenceMode(IntEnum):
    """The CND defence mode of a port for one priority, with the numbers of the MIB (wire-formats 9)."""

    DISABLED = 1
    INTERIOR = 2
    INTERIOR_READY = 3
    EDGE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QCNEdgeParameters(Parameters):
    """Parameters of a port at the edge of a congestion notification domain.

    Raises ParameterError for a value out of range, if all eight priorities are CNPVs, and if the alternate
    priority is a CNPV.
    """

    cnpv: frozenset[int] = priority_set(
        "cnpv", frozenset(), source="802.1Q 33.5; wire-formats 9",
        doc="congestion notification priority values of the domain, at most seven",
    )  # fmt: skip
    mode: int = count(
        "mode", AUTOMATIC, (AUTOMATIC, max(DefenceMode)),
        source=f"{_MIB} ieee8021CnPortPriAdminDefenseMode; wire-formats 9",
        doc="CND defence mode of the CNPVs: 1 disabled, 2 interior, 3 interiorReady, 4 edge, 0 automatic "
        "by the neighbour's LLDP",
    )  # fmt: skip
    alternate_priority: int = count(
        "alternate_priority", AUTOMATIC_ALTERNATE, (AUTOMATIC_ALTERNATE, PRIORITIES - 1),
        source=f"{_MIB} ieee8021CnPortPriAlternatePriority; wire-formats 9",
        doc="alternate priority of CNPVs in edge mode; -1: the next lower priority that is not a CNPV, "
        "otherwise the next higher priority",
    )  # fmt: skip
    cnm_priority: int = redeclared(
        QCNCongestionPointParameters, "cnm_priority",
        doc="priority of a CNM, converted at a backbone edge, in its outermost VLAN tag",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for inconsistent values."""
        Parameters.__post_init__(self)
        if len(self.cnpv) == PRIORITIES:
            raise ParameterError(name="cnpv", needed="at most seven priorities", got="all eight")
        if self.alternate_priority in self.cnpv:
            raise ParameterError(
                name="alternate_priority",
                needed="a priority that is no CNPV",
                got=str(self.alternate_priority),
            )


_SAMPLE_NS = 4_000_000
_MIN_SAMPLE_OCTETS, _MAX_SAMPLE_OCTETS = 40_000, 150_000
"""Limits of the sampling interval at a slow port; 150 kB last too long, short intervals lack fairness."""


def _low_rate(rate_bps: int) -> list[str]:
    octets = rate_bps * _SAMPLE_NS // (8 * NS_PER_S)
    sample_base = min(_MAX_SAMPLE_OCTETS, max(_MIN_SAMPLE_OCTETS, octets))
    return ["rp.min_rate=1M", "rp.ai_rate=1M", "rp.hai_rate=5M", f"cp.sample_base={sample_base}B"]


QCN = Mechanism(
    name="qcn",
    title="Quantized Congestion Notification (802.1Qau)",
    source="S001 with the parameters of 802.1Q clauses 30-33",
    machine="ecmproto.control.mechanisms.qcn.machine:QCNMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: QCNCongestionPointParameters,
        Role.REACTION_POINT: QCNReactionPointParameters,
        Role.EDGE: QCNEdgeParameters,
    },
)
