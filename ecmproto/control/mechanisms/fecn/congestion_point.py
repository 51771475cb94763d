"""The FECN congestion point: the switch of algorithms §5 item 2, with S003's enhancements 1 to 4.

Each output queue has one record of :class:`FECNPointState`; all share one of :class:`FECNPointSettings`.
Every arriving data frame, also a dropped one, goes through :func:`count`; :func:`on_timer` runs at
:func:`next_timer_ns`, before the arrivals of that time; a passing forward RD tag gets the result of
:func:`lowered`.

The advertised rate is common to all flows, so the switch has no state of flows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import PortContext, total
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    SILENT,
    Arrival,
    NullCongestionPoint,
    Outbox,
    has_capacity,
    post,
)
from ecmproto.control.mechanisms.fecn.parameters import FECNCongestionPointParameters
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, record_from
from ecmproto.kernels.structs import Draws, Random
from ecmproto.units import BPS_PER_KBPS, NS_PER_S, RATE_INFINITY

LARGEST_RATE = RATE_INFINITY - 1
"""The largest finite rate that a tag can carry, in kb/s."""

_OCTET_BITS = 8


class FECNPointState:
    """The state of one congestion point; a record (``kernels.record``)."""

    capacity_bps: float
    """C, the rate of the output link."""
    settled_capacity_bps: float
    """C at the last tick."""
    rate_bps: float
    """r_i, the advertised rate."""
    previous_rate_bps: float
    """r_{i−1}, the previous advertised rate."""
    increase_bps: float
    """ΔR, the maximum increase of the advertised rate at an update."""
    arrived_octets: int
    """Octets that arrived since the last tick, including dropped ones."""
    arrived_ns: int
    """The time of the last arrival."""
    timer_ns: int
    """The time of the next tick."""
    updates: int
    """Ticks that updated the advertised rate."""
    idle_ticks: int
    """Ticks without arrivals, which update nothing."""
    limited_updates: int
    """Updates with an increase limited by ΔR."""
    bounded_updates: int
    """Updates with a rate limited by its bounds."""
    capacity_losses: int
    """Ticks that detected a decrease of C."""
    tags: int
    """RD tags that passed."""
    lowered_tags: int
    """RD tags whose rate was lowered."""


class FECNPointSettings:
    """The parameters as the kernels read them; a record."""

    interval_ns: int
    initial_sources: int
    averaging: float
    linear: int
    a: float
    b: float
    c: float
    k: float
    qeq_octets: int
    qsc_octets: int
    min_load: float
    min_rate_bps: float
    min_increase_bps: float
    increase_growth: float
    increase_decay: float
    random_phase: int


def settings_record(parameters: FECNCongestionPointParameters) -> FECNPointSettings:
    """Return the record of settings for ``parameters``."""
    return record_from(
        FECNPointSettings, parameters, a=parameters.steepness_above, b=parameters.steepness_below,
        c=parameters.min_control, k=parameters.slope,
    )  # fmt: skip


@compiled
def start(
    state: FECNPointState, settings: FECNPointSettings, generator: Random, now_ns: int, capacity_bps: float
) -> None:
    """Initialise ``state`` at ``now_ns``: r = ΔR = C/N0, the first tick at the next multiple of T.

    ``capacity_bps`` is above 0. Draws one random number if the phase is random.
    """
    rate_bps = bounded(settings, capacity_bps, capacity_bps / settings.initial_sources)
    state.capacity_bps = capacity_bps
    state.settled_capacity_bps = capacity_bps
    state.rate_bps = rate_bps
    state.previous_rate_bps = rate_bps
    state.increase_bps = min(capacity_bps, max(settings.min_increase_bps, rate_bps))
    state.arrived_octets = 0
    if settings.random_phase:
        state.timer_ns = now_ns + 1 + math.floor(generator.random() * settings.interval_ns)
    else:
        state.timer_ns = (now_ns // settings.interval_ns + 1) * settings.interval_ns


@inlined
def count(state: FECNPointState, octets: int, now_ns: int) -> None:
    """Count a data frame of ``octets`` that arrived for the queue, dropped or not."""
    state.arrived_octets += octets
    state.arrived_ns = now_ns


@inlined
def set_capacity(state: FECNPointState, capacity_bps: float) -> None:
    """Change C, above 0; the advertised rate follows a decrease at the next tick (enhancement 4)."""
    state.capacity_bps = capacity_bps


@inlined
def next_timer_ns(state: FECNPointState) -> int:
    """Return the time of the next tick."""
    return state.timer_ns


@compiled
def on_timer(state: FECNPointState, settings: FECNPointSettings, now_ns: int, qlen_octets: int) -> None:
    """Run the ticks that are due at ``now_ns`` with ``qlen_octets`` in the queue.

    The counted frames arrived in the intervals up to the last arrival's: these make one update, since no
    source could follow rates that were not advertised yet. The other intervals are idle.
    """
    if now_ns < state.timer_ns:
        return
    late_ticks = (now_ns - state.timer_ns) // settings.interval_ns
    more_intervals = 0
    if state.arrived_octets > 0 and state.arrived_ns >= state.timer_ns:
        more_intervals = min(late_ticks, 1 + (state.arrived_ns - state.timer_ns) // settings.interval_ns)
    tick(state, settings, qlen_octets, 1 + more_intervals)
    state.idle_ticks += late_ticks - more_intervals
    state.timer_ns += (1 + late_ticks) * settings.interval_ns


@compiled
def tick(state: FECNPointState, settings: FECNPointSettings, qlen_octets: int, intervals: int) -> None:
    """Update the advertised rate after ``intervals`` of T, unless nothing arrived in them.

    With several late intervals, the sources may have been delayed like the switch, so that few arrivals do
    not justify an increase of the rate by more than the minimum of ΔR.
    """
    if state.capacity_bps < state.settled_capacity_bps:
        scale(state, settings)
    state.settled_capacity_bps = state.capacity_bps
    if state.arrived_octets == 0:
        state.idle_ticks += 1
        return
    arrival_bps = float(_OCTET_BITS * state.arrived_octets) * NS_PER_S / (intervals * settings.interval_ns)
    load = arrival_bps / state.capacity_bps / queue_control(settings, qlen_octets)
    new_bps = state.rate_bps / max(settings.min_load, load)
    # Two steps back, as printed in S003.
    rate_bps = settings.averaging * new_bps + (1.0 - settings.averaging) * state.previous_rate_bps
    if intervals == 1:
        rate_bps = limited(state, settings, qlen_octets, rate_bps)
    else:
        rate_bps = min(rate_bps, state.rate_bps + settings.min_increase_bps)
    state.previous_rate_bps = state.rate_bps
    state.rate_bps = bounded(settings, state.capacity_bps, rate_bps)
    if state.rate_bps != rate_bps:
        state.bounded_updates += 1
    state.updates += 1
    state.arrived_octets = 0


@inlined
def scale(state: FECNPointState, settings: FECNPointSettings) -> None:
    """Lower the rates in the ratio in which C decreased (enhancement 4)."""
    ratio = state.capacity_bps / state.settled_capacity_bps
    state.rate_bps = bounded(settings, state.capacity_bps, ratio * state.rate_bps)
    state.previous_rate_bps = bounded(settings, state.capacity_bps, ratio * state.previous_rate_bps)
    state.increase_bps = min(state.capacity_bps, state.increase_bps)
    state.capacity_losses += 1


@inlined
def limited(state: FECNPointState, settings: FECNPointSettings, qlen_octets: int, rate_bps: float) -> float:
    """Adjust ΔR by the queue, and return ``rate_bps`` with its increase limited to ΔR (enhancement 3)."""
    if qlen_octets < settings.qeq_octets:
        state.increase_bps *= settings.increase_growth
    elif qlen_octets > settings.qsc_octets:
        state.increase_bps *= settings.increase_decay
    state.increase_bps = min(state.capacity_bps, max(settings.min_increase_bps, state.increase_bps))
    if rate_bps - state.rate_bps > state.increase_bps:
        state.limited_updates += 1
        return float(state.rate_bps + state.increase_bps)
    return rate_bps


@inlined
def bounded(settings: FECNPointSettings, capacity_bps: float, rate_bps: float) -> float:
    """Return ``rate_bps`` within its bounds: the minimum rate and, with precedence, C."""
    return float(min(capacity_bps, max(settings.min_rate_bps, rate_bps)))


@compiled
def queue_control(settings: FECNPointSettings, qlen_octets: int) -> float:
    """Return f(q), 1 at Qeq (enhancement 1).

    The hyperbolas a·Qeq/((a − 1)·q + Qeq) are written around q − Qeq, which is 0 at Qeq without rounding.
    """
    qeq = float(settings.qeq_octets)
    excess = float(qlen_octets - settings.qeq_octets)
    if settings.linear:
        return float(max(settings.c, 1.0 - settings.k * excess / qeq))
    if excess <= 0.0:
        return float(settings.b * qeq / (settings.b * qeq + (settings.b - 1.0) * excess))
    return float(max(settings.c, settings.a * qeq / (settings.a * qeq + (settings.a - 1.0) * excess)))


@inlined
def advertised(state: FECNPointState) -> int:
    """Return the advertised rate as on the wire: whole kb/s, at most the largest finite rate."""
    return int(min(LARGEST_RATE, math.floor(state.rate_bps / BPS_PER_KBPS)))


@compiled
def lowered(state: FECNPointState, rate: int) -> int:
    """Return the new rate of an RD tag with ``rate``: the lesser of it and the advertised rate, in kb/s.

    ``rate`` is unsigned, as on the wire: infinity is more than any advertised rate.
    """
    minimum = advertised(state)
    state.tags += 1
    if minimum >= rate:
        return rate
    state.lowered_tags += 1
    return minimum


class FECNPort(NullCongestionPoint):
    """One congestion point for all priorities: they share the port's output queue, whose octets add up."""

    state: FECNPointState
    settings: FECNPointSettings

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count a data frame, also a dropped one."""
        if arrival.sampled:
            count(self.state, arrival.octets, arrival.now_ns)

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the lesser of the rate ``tag`` and the advertised one."""
        return lowered(self.state, tag)

    def next_timer_ns(self) -> int:
        """Return the time of the next update of the advertised rate."""
        return next_timer_ns(self.state)

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Update the advertised rate; post it as a silent sample, for plots."""
        if now_ns < self.state.timer_ns:
            return
        qlen_octets = qlens_octets.sum()
        on_timer(self.state, self.settings, now_ns, qlen_octets)
        if has_capacity(outbox, 1):
            post(outbox, SILENT, now_ns, EVERY_STATION, -1, 0)
            # In plain Python a compiled function returns a copy of a record.
            message = outbox.messages[outbox.posted.count - 1]
            message.qlen_octets = qlen_octets
            message.rate_kbps = advertised(self.state)


def new_port(
    parameters: FECNCongestionPointParameters, context: PortContext, generator: np.random.Generator
) -> FECNPort:
    """Return the congestion point of a port at its start."""
    port = FECNPort(new_record(FECNPointState), settings_record(parameters))
    start(port.state, port.settings, Draws(generator), 0, float(context.rate_bps))
    return port


def port_counters(port: FECNPort) -> dict[str, int]:
    """Return the congestion point's counters, by name."""
    return total(
        port.state, "updates", "idle_ticks", "limited_updates", "bounded_updates", "tags", "lowered_tags"
    )
