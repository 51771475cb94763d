"""Parameters of DCQCN. The default 0 of a parameter means a value that depends on the rate or the variant."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import (
    MAX_OCTETS,
    Parameters,
    choice,
    count,
    duration,
    flag,
    octets,
    rate,
    ratio,
)
from ecmproto.errors import ParameterError
from ecmproto.units import exact_octets, format_rate

_PAPER = "Zhu et al., SIGCOMM 2015"
_NIC = "network cards, as in a well-known simulator of RDMA networks"
_CHOICE = "choice"
_MBPS = 10**6
_MAX_BPS = 4_294_967_295 * _MBPS
_MAX_NS = 10**12

_REFERENCE_BPS = 25 * 10**9
_REFERENCE_KMIN, _REFERENCE_KMAX = 100_000, 400_000
"""Defaults of Kmin and Kmax in octets at the reference rate; the defaults grow with the port rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DCQCNCongestionPointParameters(Parameters):
    """Parameters of a port that marks frames.

    Raises ParameterError for a value out of range, and if Kmin is above Kmax.
    """

    kmin_octets: int = octets(
        "kmin", 0, (0, MAX_OCTETS), source=f"{_PAPER} K_min (5 kB at 40 Gb/s); vendors' 100 kB at 25 Gb/s",
        doc="queue length up to which no frame is marked. The value 0 means 4 kB for each Gb/s of the port",
    )  # fmt: skip
    kmax_octets: int = octets(
        "kmax", 0, (0, MAX_OCTETS), source=f"{_PAPER} K_max (200 kB at 40 Gb/s); vendors' 400 kB at 25 Gb/s",
        doc="queue length above which every ECT frame is marked. The value 0 means 16 kB for each Gb/s of "
        "the port",
    )  # fmt: skip
    pmax: float = ratio(
        "pmax", 0.2, (0, 1), source=f"{_PAPER} P_max (0.01); vendors' 0.2",
        doc="probability of a mark at kmax; the probability grows linearly from 0 at kmin",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for a value out of range, and if Kmin is above Kmax."""
        Parameters.__post_init__(self)
        if self.kmin_octets and self.kmax_octets:
            _check_thresholds(self.kmin_octets, self.kmax_octets)

    def thresholds_octets(self, rate_bps: int) -> tuple[int, int]:
        """Return Kmin and Kmax of a port in octets. Raises ParameterError if Kmin is above Kmax."""
        kmin = self.kmin_octets or max(1, _REFERENCE_KMIN * rate_bps // _REFERENCE_BPS)
        kmax = self.kmax_octets or max(1, _REFERENCE_KMAX * rate_bps // _REFERENCE_BPS)
        _check_thresholds(kmin, kmax)
        return kmin, kmax


def _check_thresholds(kmin: int, kmax: int) -> None:
    if kmin > kmax:
        raise ParameterError(
            name="kmin", needed=f"at most kmax, {exact_octets(kmax)}", got=exact_octets(kmin)
        )


PAPER, NIC = "paper", "nic"
"""Variants of the reaction point: the published algorithm, and the algorithm of network cards."""

BY_VARIANT = {
    "threshold": (5, 1),
    "timer_ns": (55_000, 300_000),
    "alpha_interval_ns": (55_000, 1_000),
    "ai_rate_bps": (40 * _MBPS, 50 * _MBPS),
    "hai_rate_bps": (400 * _MBPS, 100 * _MBPS),
    "min_rate_bps": (10 * _MBPS, 100 * _MBPS),
}
"""Defaults of parameters for the variants PAPER and NIC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DCQCNReactionPointParameters(Parameters):
    """Parameters of a station's reaction points, one reaction point per queue pair."""

    variant: str = choice(
        "variant", PAPER, (PAPER, NIC), source=f"{_PAPER}; {_NIC}",
        doc="published reaction point: paper decreases the rate at each CNP, and recovers by a timer and "
        "a byte counter; nic checks for CNPs at intervals, and recovers by a timer",
    )  # fmt: skip
    g: float = ratio(
        "g", 1 / 256, (2**-20, 1), source=f"{_PAPER} g; {_NIC}",
        doc="gain of the average α, which is the weight of a new observation",
    )  # fmt: skip
    threshold: int = count(
        "f", 0, (0, 1_000), source=f"{_PAPER} F = 5; {_NIC}: 1",
        doc="stage that ends fast recovery. The value 0 means 5 (paper) or 1 (nic)",
    )  # fmt: skip
    timer_ns: int = duration(
        "timer", 0, (0, _MAX_NS), source=f"{_PAPER} T = 55 µs; {_NIC}: 300 µs",
        doc="time of one stage of the increase. The value 0 means 55 µs (paper) or 300 µs (nic)",
    )  # fmt: skip
    byte_counter_octets: int = octets(
        "byte_counter", 10_000_000, (1, MAX_OCTETS), source=f"{_PAPER} B",
        doc="octets of one stage of the byte counter (paper only)",
    )  # fmt: skip
    alpha_interval_ns: int = duration(
        "alpha_interval", 0, (0, _MAX_NS), source=f"{_PAPER} K = 55 µs; {_NIC}: 1 µs",
        doc="time between two updates of α, without a CNP in between (paper) or in any case (nic). The "
        "value 0 means 55 µs (paper) or 1 µs (nic)",
    )  # fmt: skip
    decrease_interval_ns: int = duration(
        "decrease_interval", 4_000, (1, _MAX_NS), source=_NIC,
        doc="interval of checks for CNPs; the rate decreases if there were any (nic only)",
    )  # fmt: skip
    ai_rate_bps: int = rate(
        "ai_rate", 0, (0, _MAX_BPS), source=f"{_PAPER} R_AI = 40 Mb/s; {_NIC}: 50 Mb/s",
        doc="rate that additive increase adds to the target rate. The value 0 means 40 Mb/s (paper) or 50 "
        "Mb/s (nic)",
    )  # fmt: skip
    hai_rate_bps: int = rate(
        "hai_rate", 0, (0, _MAX_BPS), source=f"{_CHOICE} (400 Mb/s: the paper gives it no figure); {_NIC}: "
        "100 Mb/s",
        doc="rate that hyper increase adds to the target rate, multiplied by the number of the step in "
        "paper. The value 0 means 400 Mb/s (paper) or 100 Mb/s (nic)",
    )  # fmt: skip
    min_rate_bps: int = rate(
        "min_rate", 0, (0, _MAX_BPS), source=f"{_CHOICE} (10 Mb/s); {_NIC}: 100 Mb/s",
        doc="minimum rate of a queue pair. The value 0 means 10 Mb/s (paper) or 100 Mb/s (nic)",
    )  # fmt: skip
    clamp_target: bool = flag(
        "clamp_target", False, source=_NIC,
        doc="whether every decrease sets the target rate to the previous rate, instead of only the first "
        "decrease after an increase (nic only)",
    )  # fmt: skip
    rate_on_first_cnp: float = ratio(
        "rate_on_first_cnp", 1.0, (0.001, 1), source=_NIC,
        doc="rate of a queue pair after its first CNP, as a fraction of the line rate (nic only)",
    )  # fmt: skip
    queue_pairs: int = count(
        "queue_pairs", 256, (1, 4096), source=_CHOICE,
        doc="number of queue pairs of a station with their own rate; further queue pairs share the last rate",
    )  # fmt: skip
    ect: bool = flag(
        "ect", False, source=f"RFC 3168; {_CHOICE}",
        doc="whether a station sets IP frames that are not ECT to ECT(0); the frames of a scenario are "
        "always ECT",
    )  # fmt: skip

    @property
    def is_nic(self) -> bool:
        """Whether the variant is NIC."""
        return self.variant == NIC

    def of_variant(self, attribute: str) -> int:
        """Return the value of a parameter, or the default of the variant if the value is 0."""
        value: int = getattr(self, attribute)
        return value or BY_VARIANT[attribute][self.is_nic]

    def effective_min_rate_bps(self, link_rate_bps: int) -> int:
        """Return the minimum rate on a link.

        Raises ParameterError if a configured minimum is above the link rate.
        """
        minimum = self.of_variant("min_rate_bps")
        if minimum > link_rate_bps:
            # On a slow link, the link rate replaces a default minimum.
            if not self.min_rate_bps:
                return link_rate_bps
            raise ParameterError(
                name="min_rate",
                needed=f"at most the link's rate, {format_rate(link_rate_bps)}",
                got=format_rate(minimum),
            )
        return minimum


QP, ADDRESS, PORT = "qp", "address", "port"
SCOPES = (QP, ADDRESS, PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DCQCNEdgeParameters(Parameters):
    """Parameters of a notification point."""

    interval_ns: int = duration(
        "interval", 50_000, (0, _MAX_NS), source=f"{_PAPER} N",
        doc="minimum time between two CNPs for the same queue pair, address or port",
    )  # fmt: skip
    per: str = choice(
        "per", QP, SCOPES, source=f"{_PAPER} (a flow); network cards (an address, a port)",
        doc="scope of the interval: each queue pair, each destination address of CNPs, or the whole port",
    )  # fmt: skip
    cnp_priority: int = count(
        "cnp_priority", 6, (0, 7), source="vendors' default",
        doc="priority of a CNP in its outermost VLAN tag",
    )  # fmt: skip
    cnp_dscp: int = count(
        "cnp_dscp", 48, (0, 63), source="vendors' default",
        doc="DSCP of a CNP",
    )  # fmt: skip


_SLOWEST = 100


def _low_rate(rate_bps: int) -> list[str]:
    """Return parameters for a slower port: longer times, and smaller steps, down to 100 Mb/s."""
    slower = max(1, min(_SLOWEST, 10**10 // rate_bps))
    return [
        "cp.kmin=15kB", "cp.kmax=60kB", f"edge.interval={50 * slower}us", f"rp.timer={55 * slower}us",
        f"rp.alpha_interval={55 * slower}us", f"rp.byte_counter={10_000_000 // slower}B",
        f"rp.ai_rate={40_000_000 // slower}bps", f"rp.hai_rate={400_000_000 // slower}bps",
        f"rp.min_rate={10_000_000 // slower}bps",
    ]  # fmt: skip


DCQCN = Mechanism(
    name="dcqcn",
    title="Data Center QCN: ECN marks, CNPs and a rate per queue pair (RoCEv2)",
    source=f"{_PAPER}; {_NIC}",
    machine="ecmproto.control.mechanisms.dcqcn.machine:DCQCNMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: DCQCNCongestionPointParameters,
        Role.REACTION_POINT: DCQCNReactionPointParameters,
        Role.EDGE: DCQCNEdgeParameters,
    },
)

ECN = Mechanism(
    name="ecn",
    title="Explicit congestion notification: ports mark frames, and the hosts' TCP or DCTCP reacts",
    source=f"RFC 3168, RFC 8257; {_PAPER} for the thresholds",
    machine="ecmproto.control.mechanisms.dcqcn.machine:MarkingMachine",
    roles={Role.CONGESTION_POINT: DCQCNCongestionPointParameters},
)
