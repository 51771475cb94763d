"""Parameters of E²CM, from "Simulation Setup & Parameters" in S002."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from ecmproto.control.mechanisms.aimd import parameters as aimd
from ecmproto.control.mechanisms.aimd.parameters import (
    LARGEST_FIELD_UNITS,
    PACKET_OCTETS,
    UNSET,
    SamplingParameters,
    feedback_weight,
)
from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import (
    Parameters,
    count,
    duration,
    flag,
    octets,
    ratio,
    redeclared,
)
from ecmproto.control.mechanisms.ecm import parameters as ecm
from ecmproto.errors import ParameterError
from ecmproto.units import QUEUE_UNIT_OCTETS

S002 = "S002 Simulation Setup & Parameters"
QEQ_OCTETS = 75_000
LARGEST_SAMPLING_OCTETS = 256_000

_CP = aimd.AIMDCongestionPointParameters
_RP = ecm.ECMReactionPointParameters
_set = partial(redeclared, source=S002)


@dataclass(frozen=True, slots=True, kw_only=True)
class E2CMCongestionPointParameters(aimd.AIMDCongestionPointParameters):
    """Parameters of an E²CM congestion point: ECM parameters with S002 values, and more parameters.

    Raises ParameterError for inconsistent values.
    """

    fixed_octets: int = _set(
        _CP, "fixed_octets", 75_000, doc="fixed part of the sampling interval of frames without CM-Tag"
    )
    qeq_octets: int = _set(_CP, "qeq_octets", QEQ_OCTETS)
    qmc_octets: int = _set(
        _CP, "qmc_octets", 280_000, doc="threshold above which BCN_MAX is sent; 0 disables the threshold"
    )
    qsc_octets: int = _set(
        _CP, "qsc_octets", 0, doc="threshold above which BCN_ZERO is sent; 0 disables the threshold"
    )
    tagged_fixed_octets: int = octets(
        "tagged_sf", 15_000, (0, LARGEST_SAMPLING_OCTETS), source=S002,
        doc="fixed part of the sampling interval of rate-limited frames, which are counted separately",
    )  # fmt: skip
    tagged_random_octets: int = octets(
        "tagged_sr", UNSET, (0, 64_000), source="algorithms §1",
        doc="half the width of the random part of the sampling interval, at most tagged_sf; by default "
        "0.3·tagged_sf; with tagged_sf=0, the interval is entirely random, from 0 to tagged_sr",
    )  # fmt: skip
    q_bit: bool = redeclared(ecm.ECMCongestionPointParameters, "q_bit")
    increase_signals: bool = flag(
        "increase_signals", True,
        source="S002 E²CM Principles (potential optimization: bridges do not send increase signals)",
        doc="whether messages with positive feedback are sent; without such messages, only probes "
        "increase the rate",
    )  # fmt: skip
    weight: float = feedback_weight(
        source=S002, doc="weight of Qdelta in the sign of the feedback; used only if increase_signals is off"
    )

    def __post_init__(self) -> None:
        """Raise ParameterError for inconsistent values."""
        if self.tagged_random_octets is UNSET and isinstance(self.tagged_fixed_octets, int):
            object.__setattr__(self, "tagged_random_octets", min(self.tagged_fixed_octets * 3 // 10, 64_000))
        aimd.AIMDCongestionPointParameters.__post_init__(self)
        if self.tagged_fixed_octets:
            self.check_relation("tagged_sr", "at most", "tagged_sf")

    def tagged_sampling(self) -> SamplingParameters:
        """Return the sampling parameters for rate-limited frames."""
        return SamplingParameters(
            fixed_octets=self.tagged_fixed_octets,
            random_octets=self.tagged_random_octets,
            oversampling_shift=self.oversampling_shift,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class E2CMEdgeParameters(Parameters):
    """Parameters of an E²CM edge receiver."""

    max_flows: int = count(
        "max_flows", 4_096, (1, 65_536), source="choice",
        doc="number of flows measured at a time; probes of further flows are answered without a throughput",
    )  # fmt: skip
    reply_priority: int = count(
        "reply_priority", 7, (0, 7), source="wire-formats 1.2",
        doc="priority of a probe's reply in its outermost VLAN tag",
    )  # fmt: skip


OWN_PRIORITY = -1
"""Value of ``probe_priority`` for probes with the priority of their flow."""

_MB = 1_000_000
_LARGEST_QUEUE_OCTETS = LARGEST_FIELD_UNITS * QUEUE_UNIT_OCTETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Gains per octet of feedback; increases are in units of R_unit, decreases are shares of the rate."""

    increase: float
    """Gain Gi for messages of congestion points."""
    decrease: float
    """Gain Gd for messages of congestion points."""
    flow_increase: float
    """Gain Gi for probes."""
    flow_decrease: float
    """Gain Gd for probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class E2CMReactionPointParameters(ecm.ECMReactionPointParameters):
    """Parameters of an E²CM reaction point: the ECM parameters with S002 values, and probe parameters.

    Raises ParameterError for a value out of range, if no probe would ever be due, and if Qmax is not above
    the flow's Qeq.
    """

    increase_gain: float = _set(
        _RP, "increase_gain", 0.005, (0, 100),
        doc="increase gain Gi in units of Gi0 = (R_link/R_unit) / ((2w + 1)·qeq)",
    )  # fmt: skip
    decrease_gain: float = _set(
        _RP, "decrease_gain", 0.5, (0, 100),
        doc="decrease gain Gd in units of 1 / ((2w + 1)·qeq): the share removed by the largest feedback",
    )  # fmt: skip
    rate_unit_bps: int = _set(
        _RP, "rate_unit_bps", _MB,
        doc="rate unit R_unit, the default of floor; R_unit cancels out of an increase, because Gi0 is "
        "divided by R_unit",
    )  # fmt: skip
    self_increase_bps: int = _set(
        _RP, "self_increase_bps", 0, (0, 100 * _MB),
        doc="rate added at each self-increase. The value 0 disables self-increase",
    )  # fmt: skip
    qeq_octets: int = octets(
        "qeq", QEQ_OCTETS, (1, _LARGEST_QUEUE_OCTETS), source=S002,
        doc="Qeq of the congestion points, to which all four gains refer",
    )  # fmt: skip
    flow_increase_gain: float = ratio(
        "flow_gi", 0.025, (0, 100), source=S002, doc="increase gain of probes, in units of Gi0 like gi"
    )
    flow_decrease_gain: float = ratio(
        "flow_gd", 2.5, (0, 100), source=S002,
        doc="decrease gain of probes, in units of 1 / ((2w + 1)·qeq) like gd, five times as large",
    )  # fmt: skip
    flow_qeq_octets: int = octets(
        "flow_qeq", 15_000, (1, _LARGEST_QUEUE_OCTETS), source=S002,
        doc="equilibrium octets of a flow in the queues on its path, if the path has one congested hop",
    )  # fmt: skip
    flow_qmax_octets: int = octets(
        "flow_qmax", 56_000, (1, 100 * _LARGEST_QUEUE_OCTETS), source=S002,
        doc="queued octets of a flow above which the flow gets the maximum negative feedback; "
        "proportional to flow_qeq",
    )  # fmt: skip
    hops_exponent: int = count(
        "hops_exponent", 0, (-1, 1),
        source="S002 Parking Lot Scenario, Conclusion (user-defined fairness); algorithms §4, 6",
        doc="type of fairness: the equilibrium of a flow over n congested hops is flow_qeq·n^hops_exponent. "
        "The value 0 results in proportional fairness, 1 in max-min fairness, and -1 in a higher throughput",
    )  # fmt: skip
    probe_octets: int = octets(
        "probe_octets", 75_000, (0, 100_000_000), source="S002 E²CM Operation (X KB, e.g. 75 or 15)",
        doc="octets of a flow between two probes. The value 0 disables probes after a number of octets",
    )  # fmt: skip
    probe_frames: int = count(
        "probe_frames", 0, (0, 1_000_000), source="S002 Proposed Compromise Scheme details (n-pkts)",
        doc="frames of a flow between two probes. The value 0 disables probes after a number of frames",
    )  # fmt: skip
    probe_interval_ns: int = duration(
        "probe_interval", 0, (0, 10_000_000_000), source="S002 Proposed Compromise Scheme details (t)",
        doc="time between two probes of a flow. The value 0 disables probes after a time",
    )  # fmt: skip
    autonomous: bool = flag(
        "autonomous", False, source="S002 Critique 2 (triggered by BCN, or autonomous: congestion avoidance)",
        doc="whether a flow is probed from its first frame on instead of from its first message on",
    )  # fmt: skip
    probe_priority: int = count(
        "probe_priority", OWN_PRIORITY, (OWN_PRIORITY, 7), source="wire-formats 1.2",
        doc="priority of forward probes in their outermost VLAN tag; -1 selects the flow's own priority",
    )  # fmt: skip
    max_flows: int = redeclared(
        E2CMEdgeParameters, "max_flows",
        doc="number of flows that can be probed; further flows are never probed",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for inconsistent values."""
        ecm.ECMReactionPointParameters.__post_init__(self)
        if not (self.probe_octets or self.probe_frames or self.probe_interval_ns):
            needed = "one of probe_octets, probe_frames and probe_interval above 0"
            raise ParameterError(name="probe_octets", needed=needed, got="0 for all three")
        self.check_relation("flow_qmax", "more than", "flow_qeq")

    def gains(self, link_rate_bps: int) -> Gains:
        """Return the gains per octet on a link of ``link_rate_bps``.

        A slide of S002 multiplies by (2w + 1)·Qeq in Gi0, but the figures and Gd of S002 require a division.
        This method divides.
        """
        full_scale_octets = (2 * self.weight + 1) * self.qeq_octets
        gi0 = link_rate_bps / self.rate_unit_bps / full_scale_octets
        return Gains(
            increase=self.increase_gain * gi0,
            decrease=self.decrease_gain / full_scale_octets,
            flow_increase=self.flow_increase_gain * gi0,
            flow_decrease=self.flow_decrease_gain / full_scale_octets,
        )

    def path_qeq_octets(self, congested_hops: int) -> int:
        """Return Qeq in octets for a flow over ``congested_hops`` hops; the result is at least one frame.

        Raises ParameterError for fewer hops than 1.
        """
        if congested_hops < 1:
            raise ParameterError(name="congested_hops", needed="1 or more", got=str(congested_hops))
        if self.hops_exponent == 0:
            return self.flow_qeq_octets
        octets = int(self.flow_qeq_octets * Fraction(congested_hops) ** self.hops_exponent)
        return max(octets, min(PACKET_OCTETS, self.flow_qeq_octets))

    def path_qmax_octets(self, qeq_octets: int) -> int:
        """Return the Qmax for a flow with ``qeq_octets``, in the ratio of ``flow_qmax`` to ``flow_qeq``."""
        return self.flow_qmax_octets * qeq_octets // self.flow_qeq_octets


_QUICK_SAMPLES = (
    "cp.sf=15kB", "cp.sr=4500B", "cp.tagged_sf=9kB", "cp.tagged_sr=2700B", "rp.probe_octets=30kB",
)  # fmt: skip
_QUICK_GAINS = ("rp.gi=0.1", "rp.flow_gi=0.5", "rp.flow_gd=0.5")
"""Larger gains for a slow port, where few messages per second arrive."""
_PROBES_RAISE = ("cp.increase_signals=off", "rp.flow_qeq=25kB")
"""Settings without increase messages, which otherwise are most of the messages; flows share Qeq."""


def _low_rate(rate_bps: int) -> list[str]:
    return [*_QUICK_SAMPLES, *_QUICK_GAINS, *_PROBES_RAISE]


E2CM = Mechanism(
    name="e2cm",
    title="Extended Ethernet Congestion Management (IBM's proposal of 2007)",
    source="S002",
    machine="ecmproto.control.mechanisms.e2cm.machine:E2CMMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: E2CMCongestionPointParameters,
        Role.REACTION_POINT: E2CMReactionPointParameters,
        Role.EDGE: E2CMEdgeParameters,
    },
)
