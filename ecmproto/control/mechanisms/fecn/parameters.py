"""Parameters of FECN. Queue lengths in S003 are packets of 1500 octets; here, queue lengths are octets."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import (
    MAX_OCTETS,
    Parameters,
    count,
    duration,
    flag,
    octets,
    rate,
    ratio,
    redeclared,
)
from ecmproto.units import NS_PER_S

_CHOICE = "choice (algorithms 5)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNCongestionPointParameters(Parameters):
    """Parameters of a switch, which apply to each output queue.

    Raises ParameterError for a value out of range, and if Qeq is not below Qsc.
    """

    interval_ns: int = duration(
        "T", 1_000_000, (1_000, 1_000_000_000), source="S003 (measurement interval)",
        doc="time between two updates of the advertised rate",
    )  # fmt: skip
    initial_sources: int = count(
        "N0", 20, (1, 1_000_000), source="S003 (20 to 200; can be set to a large value)",
        doc="number of sources expected at the start; the advertised rate and its maximum increase start "
        "at C/N0",
    )  # fmt: skip
    averaging: float = ratio(
        "alpha", 0.5, (0.01, 1), source="S003 enhancement 2",
        doc="weight of the new rate relative to the rate two updates back",
    )  # fmt: skip
    linear: bool = flag(
        "linear", False, source="S003 enhancement 1 (recommends the hyperbolic one)",
        doc="whether queue control is linear (slope k) instead of hyperbolic (a, b); c is the minimum of "
        "both",
    )  # fmt: skip
    steepness_above: float = ratio(
        "a", 1.1, (1, 100), source="S003 enhancement 1",
        doc="a of the hyperbolic queue control, for queues above Qeq",
    )  # fmt: skip
    steepness_below: float = ratio(
        "b", 1.002, (1, 100), source="S003 enhancement 1",
        doc="b of the hyperbolic queue control, for queues up to Qeq",
    )  # fmt: skip
    min_control: float = ratio(
        "c", 0.1, (0.001, 1), source="S003 enhancement 1", doc="minimum of the queue control"
    )
    slope: float = ratio("k", 0.1, (0, 100), source=_CHOICE, doc="k of the linear queue control")
    qeq_octets: int = octets(
        "qeq", 24_000, (64, MAX_OCTETS), source="S003 (16 packets, algorithms 5)",
        doc="equilibrium queue length of the switch (Qeq)",
    )  # fmt: skip
    qsc_octets: int = octets(
        "qsc", 120_000, (64, MAX_OCTETS), source="S003 (80 packets, algorithms 5)",
        doc="queue length above which the maximum increase shrinks (Qsc)",
    )  # fmt: skip
    min_load: float = ratio(
        "rho_min", 0.001, (1e-9, 1), source=_CHOICE,
        doc="minimum effective load factor ρ, the divisor of the rate",
    )  # fmt: skip
    min_rate_bps: int = rate(
        "r_min", 100_000, (1_000, 1_000_000_000), source=_CHOICE, doc="minimum advertised rate"
    )
    min_increase_bps: int = rate(
        "dr_min", 1_000_000, (1_000, 1_000_000_000), source=_CHOICE,
        doc="minimum of the maximum increase ΔR",
    )  # fmt: skip
    increase_growth: float = ratio(
        "dr_up", 1.414, (1, 10), source="S003 enhancement 3",
        doc="factor of ΔR at an update below Qeq (λ)",
    )  # fmt: skip
    increase_decay: float = ratio(
        "dr_down", 0.707, (0.01, 1), source="S003 enhancement 3",
        doc="factor of ΔR at an update above Qsc",
    )  # fmt: skip
    random_phase: bool = flag(
        "random_phase", False, source=_CHOICE,
        doc="whether updates start at a random phase instead of at multiples of T. With random phases, "
        "rates are still fair, but converge more slowly, and frames may be lost",
    )  # fmt: skip

    relations = (("qsc", "more than", "qeq"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParameters(Parameters):
    """Parameters of a source with explicit rates, which apply to all rate-limited queues of the source.

    Raises ParameterError for a value out of range.
    """

    initial_sources: int = redeclared(
        FECNCongestionPointParameters, "initial_sources",
        doc="number of sources expected at the start; a queue starts at the link rate divided by N0",
    )  # fmt: skip
    idle_ns: int = duration(
        "idle", 2_000_000, (1_000, 10_000_000_000), source="choice (algorithms 5: 2T)",
        doc="idle time after which a queue restarts, at the link rate divided by N0",
    )  # fmt: skip
    min_rate_bps: int = redeclared(
        FECNCongestionPointParameters, "min_rate_bps", doc="minimum rate of a queue, at any feedback"
    )
    queues: int = count(
        "queues", 1_024, (1, 65_535), source="choice (the RLQ-ID has 16 bits)",
        doc="number of rate-limited queues of a source; further flows share the last queue",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNReactionPointParameters(SourceParameters):
    """Parameters of a FECN source. Raises ParameterError for a value out of range."""

    tag_interval_ns: int = duration(
        "tau", 1_000_000, (1_000, 1_000_000_000), source="S003 enhancement 5 (τ = T)",
        doc="time after a queue's last tag until the queue tags another frame",
    )  # fmt: skip
    frames_per_tag: int = count(
        "tag_frames", 0, (0, 1_000_000), source="S003 (overhead: every n-th packet)",
        doc="number of frames per tag, counted from the first frame of a queue. If the value is 0, tags are "
        "sent at intervals of tau",
    )  # fmt: skip
    random_phase: bool = redeclared(
        FECNCongestionPointParameters, "random_phase",
        doc="whether a queue's first tag is sent at a random time within τ instead of with the queue's "
        "first frame (S003's sources start on a multiple of T). With random phases, rates are still fair, "
        "but converge more slowly, and frames may be lost",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNEdgeParameters(Parameters):
    """Parameters of an edge receiver. Raises ParameterError for a value out of range."""

    return_priority: int = count(
        "return_priority", 7, (0, 7), source="wire-formats 1.2 (choice)",
        doc="priority of a returning frame in its outermost VLAN tag",
    )  # fmt: skip


_INTERVAL_BITS = 600_000
"""Measurement interval at a slow port, in bits: about fifty full frames, which average out bursts."""
_MIN_INTERVAL_NS = 1_000_000


def _low_rate(rate_bps: int) -> list[str]:
    interval_ns = max(_MIN_INTERVAL_NS, _INTERVAL_BITS * NS_PER_S // rate_bps)
    return [f"cp.T={interval_ns}ns", f"rp.tau={interval_ns}ns", f"rp.idle={2 * interval_ns}ns"]


FECN = Mechanism(
    name="fecn",
    title="Forward Explicit Congestion Notification",
    source="S003 (Jiang, Jain and So-In, IEEE 802.1au, March 2007)",
    machine="ecmproto.control.mechanisms.fecn.machine:FECNMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: FECNCongestionPointParameters,
        Role.REACTION_POINT: FECNReactionPointParameters,
        Role.EDGE: FECNEdgeParameters,
    },
)
