"""The FECN congestion point: the switch of algorithms §5 item 2, with enhancements 1 to 4 of S003.

Each output queue has a record of type :class:`FECNPointState`, and all output queues share one record of type
:class:`FECNPointSettings`. The caller passes each arriving data frame, even a dropped frame, to
:func:`count`. The caller calls :func:`on_timer` at :func:`next_timer_ns`, before the arrivals of the same
time. A forward RD tag that passes the switch gets the result of :func:`lowered`.

All flows have the same advertised rate, so the switch has no state per flow.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import PortContext
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
"""Largest finite rate that a tag can contain, in kb/s."""

_OCTET_BITS = 8


class FECNPointState:
    """Record of a congestion point's state (``kernels.record``)."""

    capacity_bps: float
    """Rate C of the output link in bit/s."""
    settled_capacity_bps: float
    """Rate C at the last tick, in bit/s."""
    rate_bps: float
    """Advertised rate r_i in bit/s."""
    previous_rate_bps: float
    """Previous advertised rate r_{i−1} in bit/s."""
    increase_bps: float
    """Maximum increase ΔR of the advertised rate per update, in bit/s."""
    arrived_octets: int
    """Number of octets that arrived since the last tick, including dropped octets."""
    arrived_ns: int
    """Time of the last arrival."""
    timer_ns: int
    """Time of the next tick."""
    updates: int
    """Number of ticks that updated the advertised rate."""
    idle_ticks: int
    """Number of ticks without arrivals, which do not update the rate."""
    limited_updates: int
    """Number of updates with an increase limited by ΔR."""
    bounded_updates: int
    """Number of updates limited by the minimum rate or by C."""
    capacity_losses: int
    """Number of ticks that detected a decrease of C."""
    tags: int
    """Number of RD tags that passed the switch."""
    lowered_tags: int
    """Number of RD tags whose rate was lowered."""


class FECNPointSettings:
    """Record of the congestion point parameters that the kernels read."""

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
    """Return the settings record for ``parameters``."""
    return record_from(
        FECNPointSettings, parameters, a=parameters.steepness_above, b=parameters.steepness_below,
        c=parameters.min_control, k=parameters.slope,
    )  # fmt: skip


@compiled
def start(
    state: FECNPointState, settings: FECNPointSettings, generator: Random, now_ns: int, capacity_bps: float
) -> None:
    """Initialise ``state`` at ``now_ns`` with r = ΔR = C/N0, and schedule the first tick.

    The first tick is at the next multiple of T. If the phase is random, one random number sets the time of
    the first tick. ``capacity_bps`` is above 0.
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
    """Count an arrived data frame of ``octets``, enqueued or dropped."""
    state.arrived_octets += octets
    state.arrived_ns = now_ns


@inlined
def set_capacity(state: FECNPointState, capacity_bps: float) -> None:
    """Change C to a value above 0; the next tick applies a decrease to the rate (enhancement 4)."""
    state.capacity_bps = capacity_bps


@inlined
def next_timer_ns(state: FECNPointState) -> int:
    """Return the time of the next tick."""
    return state.timer_ns


@compiled
def on_timer(state: FECNPointState, settings: FECNPointSettings, now_ns: int, qlen_octets: int) -> None:
    """Run the ticks that are due at ``now_ns`` with ``qlen_octets`` in the queue.

    All intervals up to the last arrival make one update, since no source could follow a rate before the rate
    is advertised. The remaining intervals are idle.
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
    """Update the advertised rate after ``intervals`` of T, unless no octets arrived in these intervals.

    If several intervals are late, the sources may have been as late as the switch, so few arrivals do not
    prove a low load. The increase of the rate is then limited to the minimum of ΔR.
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
    # As in S003, the average uses r_{i−1} and not r_i.
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
    """Lower the rates in proportion to the decrease of C (enhancement 4)."""
    ratio = state.capacity_bps / state.settled_capacity_bps
    state.rate_bps = bounded(settings, state.capacity_bps, ratio * state.rate_bps)
    state.previous_rate_bps = bounded(settings, state.capacity_bps, ratio * state.previous_rate_bps)
    state.increase_bps = min(state.capacity_bps, state.increase_bps)
    state.capacity_losses += 1


@inlined
def limited(state: FECNPointState, settings: FECNPointSettings, qlen_octets: int, rate_bps: float) -> float:
    """Adjust ΔR to the queue, and return ``rate_bps`` with the increase limited to ΔR (enhancement 3)."""
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
    """Return ``rate_bps`` clamped to the minimum rate and C; C has precedence."""
    return float(min(capacity_bps, max(settings.min_rate_bps, rate_bps)))


@compiled
def queue_control(settings: FECNPointSettings, qlen_octets: int) -> float:
    """Return the queue control function f(q), which is 1 at Qeq (enhancement 1).

    The hyperbolas a·Qeq/((a − 1)·q + Qeq) are computed from q − Qeq, so that f(Qeq) has no rounding error.
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
    """Return the advertised rate in kb/s, limited to the largest finite rate."""
    return int(min(LARGEST_RATE, math.floor(state.rate_bps / BPS_PER_KBPS)))


@compiled
def lowered(state: FECNPointState, rate: int) -> int:
    """Return the new rate of an RD tag in kb/s, which is the minimum of ``rate`` and the advertised rate.

    ``rate`` is an unsigned number, so infinity is above each advertised rate.
    """
    minimum = advertised(state)
    state.tags += 1
    if minimum >= rate:
        return rate
    state.lowered_tags += 1
    return minimum


class FECNPort(NullCongestionPoint):
    """One congestion point for all priorities, which share the output queue of the port."""

    state: FECNPointState
    settings: FECNPointSettings

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count a data frame that was enqueued or dropped."""
        if arrival.sampled:
            count(self.state, arrival.octets, arrival.now_ns)

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the minimum of the rate in ``tag`` and the advertised rate."""
        return lowered(self.state, tag)

    def next_timer_ns(self) -> int:
        """Return the time of the next update of the advertised rate."""
        return next_timer_ns(self.state)

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Update the advertised rate, and post the rate as a silent sample for plots."""
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
    """Return the congestion point of a port in the initial state."""
    port = FECNPort(new_record(FECNPointState), settings_record(parameters))
    start(port.state, port.settings, Draws(generator), 0, float(context.rate_bps))
    return port
