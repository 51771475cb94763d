"""The QCN reaction point (algorithms §3, rules RP 1-3), as functions on state records.

A station has one :class:`QCNLimiters`. The caller maps the key of a frame, (priority, flow id), to a small
integer ``flow``; −1 is a key that the station never sent. The caller also stores the queues::

    index = route(limiters, flow)               # NO_LIMITER: the frame leaves without delay, never queued
    join(limiters, index)                       # otherwise: the frame enters the queue of the limiter
    leaves_ns(limiters.slots[index], now_ns)    # departure time of the first frame
    depart(limiters, settings, generator, index, now_ns, octets)
    receive(limiters, settings, generator, feedback, flow, now_ns)      # a CNM about a flow of the station

Late timers run one after another, each with its own due time. At equal times, a timer runs before a CNM or a
frame is processed. `receive` and `depart` run due timers first. A caller of `leaves_ns` calls `on_timer`
first if `next_timer_ns` has passed. These functions also release limiters (rule 3).

The documents do not define exactly when a counter expires (S001: "whenever a certain amount of data is
accumulated"). Here, a counter expires when all its octets or ns have passed. A frame that exceeds the rest of
a counter advances one stage, and the excess is not credited.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    Departure,
    LimiterStations,
    Message,
    Outbox,
    Sent,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leave, set_rate
from ecmproto.control.mechanisms.qcn.congestion_point import cnm_payload, spread
from ecmproto.control.mechanisms.qcn.parameters import QCNReactionPointParameters
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import new_record, new_records, record_from
from ecmproto.kernels.structs import Draws, Random

_FULL = 1.0 - 1e-6
"""Share of the maximum rate from which a rate counts as the maximum rate (rule 2)."""
_TARGET_EXCESS = 10.0
_TARGET_CUT = 8.0

FAST_RECOVERY, ACTIVE_INCREASE, HYPER_ACTIVE_INCREASE = range(3)
"""Effect of the end of a stage: keep the target, add R_AI, or add a multiple of R_HAI."""


class CNMFeedback(NamedTuple):
    """The CNM fields that the reaction point algorithm uses, with the names of the wire format.

    The key of the limiter is (``encap_prio``, ``flow_id``). The algorithm does not use CPID, cnmQOffset and
    cnmQDelta (S001).
    """

    flow_id: int
    encap_prio: int
    qntz_fb: int


class QCNLimiter(RateLimiter):
    """Record of a rate limiter (``kernels.record``). The last limiter of a station is shared."""

    target_bps: float
    byte_countdown_octets: int
    """Number of octets to send until the byte counter expires."""
    byte_stage: int
    time_stage: int
    expires_ns: int
    """Expiry time of the timer; NEVER_NS while the limiter is free."""
    waiting: int
    """Number of frames in the queue of the limiter; the caller stores the frames."""
    lease: int
    """Number of the current use of the limiter, from 1 on; a flow of an earlier use has no limiter."""
    active: int
    """1 while the limiter is in use, otherwise 0."""


class QCNFlow:
    """Record of a flow's limiter, which is valid while ``lease`` equals the ``lease`` of the limiter."""

    index: int
    lease: int


class QCNStation:
    """Record of a station's counters and its state outside the limiters."""

    due_ns: int
    """Time of the next timer of all limiters; NEVER_NS if no timer is running."""
    due_index: int
    """Index of the limiter with the next timer."""
    active: int
    messages: int
    """Number of CNMs, each also counted as decreased, without feedback or of an unknown flow."""
    decreased: int
    without_feedback: int
    """Number of CNMs ignored because the Quantized Feedback is 0."""
    unknown_flow: int
    """Number of CNMs ignored because the station never sent such a flow."""
    created: int
    released: int
    sharing: int
    """Number of times that a flow got the shared limiter because no other limiter was free."""
    saturated: int
    """Number of decreases limited by the maximum decrease."""
    floored: int
    """Number of decreases limited by the minimum rate."""
    byte_expiries: int
    time_expiries: int
    cut: int
    """Number of expiries that divided a target by 8 because the target was far above the rate."""
    capped: int
    """Number of target increases limited by the maximum rate."""


class QCNStationSettings:
    """Record of the reaction point parameters that the kernels read."""

    max_rate_bps: float
    min_rate_bps: float
    ai_rate_bps: float
    hai_rate_bps: float
    gd: float
    min_factor: float
    """Minimum factor of a decrease, 1 − the maximum decrease."""
    byte_reset_octets: float
    time_reset_ns: float
    past_stage: int
    """First stage after fast recovery."""
    jitter: float
    halves_in_hyper_only: int


class QCNLimiters(NamedTuple):
    """The reaction points of one station: ``max_rps`` limiters, a shared limiter, and the possible flows."""

    point: QCNStation
    slots: Sequence[QCNLimiter]
    flows: Sequence[QCNFlow]


def settings_record(parameters: QCNReactionPointParameters, *, link_rate_bps: int) -> QCNStationSettings:
    """Return the settings record for ``parameters`` on a link.

    Raises ParameterError if the minimum rate is above the maximum rate on this link.
    """
    return record_from(
        QCNStationSettings, parameters, max_rate_bps=parameters.highest_rate_bps(link_rate_bps),
        min_factor=1.0 - parameters.largest_decrease,
        past_stage=parameters.threshold if parameters.standard else parameters.threshold + 1,
        jitter=0.0 if parameters.standard else parameters.jitter, halves_in_hyper_only=parameters.standard,
    )  # fmt: skip


def new_reaction_point(parameters: QCNReactionPointParameters, *, flows: int) -> QCNLimiters:
    """Return the initialised reaction points of a station for flows 0 to ``flows`` − 1."""
    point = new_record(QCNStation)
    point.due_ns = NEVER_NS
    slots = new_records(QCNLimiter, parameters.max_rps + 1)
    for limiter in slots:
        limiter.expires_ns = NEVER_NS
        limiter.lease = 1
    return QCNLimiters(point, slots, new_records(QCNFlow, flows))


@inlined
def route(limiters: QCNLimiters, flow: int) -> int:
    """Return the index of the limiter of ``flow``, or NO_LIMITER."""
    if flow < 0 or flow >= len(limiters.flows):
        return NO_LIMITER
    entry = limiters.flows[flow]
    return entry.index if entry.lease == limiters.slots[entry.index].lease else NO_LIMITER


@inlined
def join(limiters: QCNLimiters, index: int) -> None:
    """Count a frame that enters the queue of limiter ``index``.

    The limiter is not released before the frame departs.
    """
    limiters.slots[index].waiting += 1


@compiled
def receive(
    limiters: QCNLimiters,
    settings: QCNStationSettings,
    generator: Random,
    feedback: CNMFeedback,
    flow: int,
    now_ns: int,
) -> int:
    """React to a CNM about ``flow`` (rule 1); return the index of the slowed limiter, or NO_LIMITER.

    If the byte counter is reloaded, the function draws a random number for the counter. Then the function
    draws a random number for the timer.
    """
    on_timer(limiters, settings, generator, now_ns)
    point = limiters.point
    point.messages += 1
    if feedback.qntz_fb <= 0:
        point.without_feedback += 1
        return NO_LIMITER
    if flow < 0 or flow >= len(limiters.flows):
        point.unknown_flow += 1
        return NO_LIMITER
    point.decreased += 1
    index = route(limiters, flow)
    if index == NO_LIMITER:
        index = _assign(limiters, flow)
    limiter = limiters.slots[index]
    created = not limiter.active
    if created:
        _create(point, settings, limiter, now_ns)
    # Hold rule: keep the target during a burst of CNMs, so that the rate recovers to the rate before.
    if created or limiter.byte_stage != 0:
        limiter.target_bps = limiter.rate_bps
        limiter.byte_countdown_octets = _reload(settings, generator, settings.byte_reset_octets)
    limiter.byte_stage = 0
    limiter.time_stage = 0
    limiter.expires_ns = now_ns + _reload(settings, generator, settings.time_reset_ns)
    _schedule(limiters)
    _lower(point, settings, limiter, now_ns, feedback.qntz_fb)
    return index


@compiled
def depart(
    limiters: QCNLimiters,
    settings: QCNStationSettings,
    generator: Random,
    index: int,
    now_ns: int,
    octets: int,
) -> None:
    """Send the first frame, of ``octets``, from the queue of limiter ``index`` at ``now_ns``.

    The frame adds to the debt and advances the byte counter (rule 2). The limiter may be released (rule 3).
    """
    on_timer(limiters, settings, generator, now_ns)
    limiter = limiters.slots[index]
    if not limiter.active:
        return
    leave(limiter, now_ns, octets)
    limiter.waiting = max(0, limiter.waiting - 1)
    limiter.byte_countdown_octets -= octets
    if limiter.byte_countdown_octets <= 0:
        limiters.point.byte_expiries += 1
        limiter.byte_stage += 1
        base = _period(settings, limiter, limiter.byte_stage, settings.byte_reset_octets)
        limiter.byte_countdown_octets = _reload(settings, generator, base)
        _recover(limiters.point, settings, limiter, now_ns)
    release(limiters, settings, index)


@inlined
def next_timer_ns(limiters: QCNLimiters) -> int:
    """Return the next time to call `on_timer`, or NEVER_NS."""
    return limiters.point.due_ns


@compiled
def on_timer(limiters: QCNLimiters, settings: QCNStationSettings, generator: Random, now_ns: int) -> None:
    """Run all timers that are due by ``now_ns``, earliest first, each with its own due time (rule 2)."""
    point = limiters.point
    while point.due_ns <= now_ns:
        index = point.due_index
        limiter = limiters.slots[index]
        due_ns = limiter.expires_ns
        point.time_expiries += 1
        limiter.time_stage += 1
        base = _period(settings, limiter, limiter.time_stage, settings.time_reset_ns)
        limiter.expires_ns = due_ns + _reload(settings, generator, base)
        _recover(point, settings, limiter, due_ns)
        if not release(limiters, settings, index):
            _schedule(limiters)


@compiled
def release(limiters: QCNLimiters, settings: QCNStationSettings, index: int) -> bool:
    """Release limiter ``index`` if its rate is the maximum and its queue is empty (rule 3).

    Returns whether the limiter was released.
    """
    limiter = limiters.slots[index]
    if not limiter.active or limiter.waiting > 0 or limiter.rate_bps < settings.max_rate_bps:
        return False
    limiter.active = 0
    limiter.lease += 1
    limiter.expires_ns = NEVER_NS
    limiters.point.active -= 1
    limiters.point.released += 1
    _schedule(limiters)
    return True


@compiled
def _assign(limiters: QCNLimiters, flow: int) -> int:
    """Assign the first free limiter, or the shared limiter, to ``flow``, and return the limiter index."""
    shared = len(limiters.slots) - 1
    index = 0
    while index < shared and limiters.slots[index].active:
        index += 1
    limiters.point.sharing += index == shared
    entry = limiters.flows[flow]
    entry.index = index
    entry.lease = limiters.slots[index].lease
    return index


@inlined
def _create(point: QCNStation, settings: QCNStationSettings, limiter: QCNLimiter, now_ns: int) -> None:
    limiter.rate_bps = settings.max_rate_bps
    limiter.debt_bits = 0.0
    limiter.drained_ns = now_ns
    limiter.waiting = 0
    limiter.active = 1
    point.active += 1
    point.created += 1


@inlined
def _lower(
    point: QCNStation, settings: QCNStationSettings, limiter: QCNLimiter, now_ns: int, qntz_fb: int
) -> None:
    factor = 1.0 - settings.gd * qntz_fb
    if factor < settings.min_factor:
        factor = settings.min_factor
        point.saturated += 1
    rate_bps = limiter.rate_bps * factor
    if rate_bps < settings.min_rate_bps:
        rate_bps = settings.min_rate_bps
        point.floored += 1
    set_rate(limiter, now_ns, rate_bps)


@compiled
def _recover(point: QCNStation, settings: QCNStationSettings, limiter: QCNLimiter, now_ns: int) -> None:
    """Increase the rate at the end of a stage: fast recovery, active or hyper-active increase (rule 2)."""
    low = min(limiter.byte_stage, limiter.time_stage)
    is_first = limiter.byte_stage == 1 or limiter.time_stage == 1
    target_bps = limiter.target_bps
    if is_first and target_bps > _TARGET_EXCESS * limiter.rate_bps:
        target_bps /= _TARGET_CUT
        point.cut += 1
    elif phase(settings, limiter) == HYPER_ACTIVE_INCREASE:
        # The factor is stage − threshold, or stage − threshold + 1 in the standard.
        target_bps += float(low - settings.past_stage + 1) * settings.hai_rate_bps
    elif phase(settings, limiter) == ACTIVE_INCREASE:
        target_bps += settings.ai_rate_bps
    if target_bps > settings.max_rate_bps:
        target_bps = settings.max_rate_bps
        point.capped += 1
    limiter.target_bps = target_bps
    # In fast recovery, the rate moves half-way to the target, and the target does not change.
    rate_bps = (limiter.rate_bps + target_bps) / 2.0
    if rate_bps >= settings.max_rate_bps * _FULL:
        rate_bps = settings.max_rate_bps
    set_rate(limiter, now_ns, rate_bps)


@inlined
def phase(settings: QCNStationSettings, limiter: QCNLimiter) -> int:
    """Return the phase of the increase.

    The phase is active increase if one counter is past the threshold, and hyper-active increase if both
    counters are.
    """
    if min(limiter.byte_stage, limiter.time_stage) >= settings.past_stage:
        return HYPER_ACTIVE_INCREASE
    if max(limiter.byte_stage, limiter.time_stage) >= settings.past_stage:
        return ACTIVE_INCREASE
    return FAST_RECOVERY


@inlined
def _period(settings: QCNStationSettings, limiter: QCNLimiter, stage: int, reset: float) -> float:
    """Return the period after the new ``stage`` of a counter, which is ``reset`` or half of ``reset``."""
    if settings.halves_in_hyper_only:
        stage = min(limiter.byte_stage, limiter.time_stage)
    return reset / 2.0 if stage >= settings.past_stage else reset


@inlined
def _reload(settings: QCNStationSettings, generator: Random, period: float) -> int:
    # Round up to a whole octet or ns.
    return math.ceil(period * spread(settings.jitter, generator))


@compiled
def _schedule(limiters: QCNLimiters) -> None:
    """Store the time and the limiter index of the earliest timer.

    At equal times, the lowest index has precedence.
    """
    due_ns = NEVER_NS
    for index in range(len(limiters.slots)):
        if limiters.slots[index].expires_ns < due_ns:
            due_ns = limiters.slots[index].expires_ns
            limiters.point.due_index = index
    limiters.point.due_ns = due_ns


TAG_OCTETS = 4
"""Number of octets that a CN-TAG adds to a frame."""
LAST_FLOW_ID = 0xFFFF
"""First flow id that a station assigns; further flow ids count down, since ids in frames often count up."""


class QCNStations(LimiterStations):
    """Reaction points of all stations, with the same number of consecutive records per station."""

    slots: Sequence[QCNLimiter]
    points: Sequence[QCNStation]
    flows: Sequence[QCNFlow]
    flows_each: int
    has_point: NDArray[np.bool_]
    """Whether frames get a CN-TAG, by priority."""
    settings: QCNStationSettings
    generator: Draws

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the index of the limiter of ``flow``, or NO_LIMITER."""
        return route(_limiters(self, station), flow)

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Count a frame that enters the queue of ``limiter``."""
        join(_limiters(self, station), limiter)

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Add a CN-TAG to a frame of a CN priority, and count the frame with the tag at the limiter."""
        added, tagged, tag = 0, departure.tagged, departure.tag
        if not tagged and self.has_point[departure.priority]:
            added, tagged, tag = TAG_OCTETS, True, LAST_FLOW_ID - departure.flow
        if departure.limiter != NO_LIMITER:
            octets = departure.octets + added
            limiters = _limiters(self, departure.station)
            depart(limiters, self.settings, self.generator, departure.limiter, departure.now_ns, octets)
        return Sent(tagged, tag, 0, added)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a CNM."""
        feedback = CNMFeedback(0, message.priority, cnm_payload(message).qntz_fb)
        limiters = _limiters(self, message.station)
        receive(limiters, self.settings, self.generator, feedback, message.flow, now_ns)

    def next_station_timer_ns(self, station: int) -> int:
        """Return the time of the next timer of the station."""
        return next_timer_ns(_limiters(self, station))

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the timers of the station that are due."""
        on_timer(_limiters(self, station), self.settings, self.generator, now_ns)


@expanded
def _limiters(stations: QCNStations, station: int) -> QCNLimiters:
    slot, flow = station * stations.slots_each, station * stations.flows_each
    return QCNLimiters(
        stations.points[station],
        stations.slots[slot : slot + stations.slots_each],
        stations.flows[flow : flow + stations.flows_each],
    )
