"""The QCN reaction point: algorithms §3, rules RP 1-3, on plain state records.

A station has one :class:`QCNLimiters`. Its caller maps the key of a frame, (priority, flow id), to a small
dense ``flow``, with −1 for a key that the station never sent, and has the queues::

    index = route(limiters, flow)               # NO_LIMITER: the frame leaves at once and is never queued
    join(limiters, index)                       # else it queues for limiter ``index``
    leaves_ns(limiters.slots[index], now_ns)    # when the queue's head may leave, if nothing changes
    depart(limiters, settings, generator, index, now_ns, octets)
    receive(limiters, settings, generator, feedback, flow, now_ns)      # a CNM about one of its flows

Late timers run one by one at their own times; at equal times a timer precedes a CNM or a frame. `receive` and
`depart` ensure that; a caller of `leaves_ns` after `next_timer_ns` calls `on_timer` first. Limiters are
released inside these functions (rule 3).

Choices that the documents leave open: a counter expires when all its octets or ns have passed (S001:
"whenever a certain amount of data is accumulated"), and a frame that exceeds it causes one stage and no
credit.
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
    Message,
    NullReactionPoints,
    Outbox,
    Sent,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leave, leaves_ns, set_rate
from ecmproto.control.mechanisms.qcn.congestion_point import cnm_payload, spread
from ecmproto.control.mechanisms.qcn.parameters import QCNReactionPointParameters
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import new_record, new_records, record_from
from ecmproto.kernels.structs import Draws, Random

_FULL = 1.0 - 1e-6
"""A rate within this of the maximum counts as the maximum (rule 2)."""
_TARGET_EXCESS = 10.0
_TARGET_CUT = 8.0

FAST_RECOVERY, ACTIVE_INCREASE, HYPER_ACTIVE_INCREASE = range(3)
"""The effect of the end of a stage: the target stays, grows by R_AI, or by R_HAI times the later stages."""


class CNMFeedback(NamedTuple):
    """The CNM fields that the reaction point algorithm uses, named as on the wire.

    The key of the limiter is (``encap_prio``, ``flow_id``). CPID, cnmQOffset and cnmQDelta are not used by it
    (S001).
    """

    flow_id: int
    encap_prio: int
    qntz_fb: int


class QCNLimiter(RateLimiter):
    """One rate limiter; a record (``kernels.record``).  The last one of a station is shared."""

    target_bps: float
    byte_countdown_octets: int
    """Octets to send until the byte counter expires."""
    byte_stage: int
    time_stage: int
    expires_ns: int
    """The expiry of the timer; NEVER_NS while the limiter is free."""
    waiting: int
    """The number of frames in its queue; the caller has the frames."""
    lease: int
    """The number of uses of the limiter from 1; it no longer limits a flow of an earlier use."""
    active: int
    """1 in use, 0 free."""


class QCNFlow:
    """The limiter of a flow, while ``lease`` is still the limiter's; a record."""

    index: int
    lease: int


class QCNStation:
    """The state of a station besides its limiters, and its counters; a record."""

    due_ns: int
    """The time of the first timer of all; NEVER_NS for none."""
    due_index: int
    """The index of the limiter with the first timer."""
    active: int
    messages: int
    """CNMs, each counted as decreased, without feedback or of an unknown flow."""
    decreased: int
    without_feedback: int
    """CNMs ignored because their Quantized Feedback is 0."""
    unknown_flow: int
    """CNMs ignored because this station never sent such a flow."""
    created: int
    released: int
    sharing: int
    """Flows sent to the shared limiter because no other was free."""
    saturated: int
    """Decreases limited by the maximum decrease."""
    floored: int
    """Decreases limited by the minimum rate."""
    byte_expiries: int
    time_expiries: int
    cut: int
    """Expiries that divided a target far above the rate by 8."""
    capped: int
    """Increases of a target limited by the maximum rate."""


class QCNStationSettings:
    """The parameters as the kernels read them; a record."""

    max_rate_bps: float
    min_rate_bps: float
    ai_rate_bps: float
    hai_rate_bps: float
    gd: float
    min_factor: float
    """The factor 1 − the maximum decrease."""
    byte_reset_octets: float
    time_reset_ns: float
    past_stage: int
    """The first stage beyond fast recovery."""
    jitter: float
    halves_in_hyper_only: int


class QCNLimiters(NamedTuple):
    """A station's reaction points: ``max_rps`` limiters and the shared one, and its possible flows."""

    point: QCNStation
    slots: Sequence[QCNLimiter]
    flows: Sequence[QCNFlow]


def settings_record(parameters: QCNReactionPointParameters, *, link_rate_bps: int) -> QCNStationSettings:
    """Return the record of settings for ``parameters`` on a link; raises ParameterError if it is too slow."""
    return record_from(
        QCNStationSettings, parameters, max_rate_bps=parameters.highest_rate_bps(link_rate_bps),
        min_factor=1.0 - parameters.largest_decrease,
        past_stage=parameters.threshold if parameters.standard else parameters.threshold + 1,
        jitter=0.0 if parameters.standard else parameters.jitter, halves_in_hyper_only=parameters.standard,
    )  # fmt: skip


def new_reaction_point(parameters: QCNReactionPointParameters, *, flows: int) -> QCNLimiters:
    """Return a station's reaction points, initialised, for flows 0 to ``flows`` − 1."""
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
    """Count a frame that queues for limiter ``index``, which is not released before that frame departs."""
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
    """React to a CNM about ``flow`` (rule 1); return the limiter that it slowed, or NO_LIMITER.

    Draws the byte counter's reload if there is one, then the timer's.
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
    # The hold rule: without it a burst of CNMs loses the rate to recover to.
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
    """Send the head of limiter ``index``'s queue, a frame of ``octets``, at ``now_ns``.

    It adds to the debt and to the byte counter (rule 2); the limiter may be released (rule 3).
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
    """Run every timer that is due by ``now_ns`` at its own time, the earliest first (rule 2)."""
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
    """Free limiter ``index`` if it is at the maximum rate with an empty queue (rule 3); return whether."""
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
    """Give ``flow`` the first free limiter, or the shared one, and return its index."""
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
    """Raise the rate at the end of a stage: fast recovery, active or hyper-active increase (rule 2)."""
    low = min(limiter.byte_stage, limiter.time_stage)
    is_first = limiter.byte_stage == 1 or limiter.time_stage == 1
    target_bps = limiter.target_bps
    if is_first and target_bps > _TARGET_EXCESS * limiter.rate_bps:
        target_bps /= _TARGET_CUT
        point.cut += 1
    elif phase(settings, limiter) == HYPER_ACTIVE_INCREASE:
        # i = stage − threshold, and i + 1 in the standard: both are this.
        target_bps += float(low - settings.past_stage + 1) * settings.hai_rate_bps
    elif phase(settings, limiter) == ACTIVE_INCREASE:
        target_bps += settings.ai_rate_bps
    if target_bps > settings.max_rate_bps:
        target_bps = settings.max_rate_bps
        point.capped += 1
    limiter.target_bps = target_bps
    # The only step of fast recovery: half-way to the target, which stays.
    rate_bps = (limiter.rate_bps + target_bps) / 2.0
    if rate_bps >= settings.max_rate_bps * _FULL:
        rate_bps = settings.max_rate_bps
    set_rate(limiter, now_ns, rate_bps)


@inlined
def phase(settings: QCNStationSettings, limiter: QCNLimiter) -> int:
    """Return the phase: active increase with one counter past the threshold, hyper-active with both."""
    if min(limiter.byte_stage, limiter.time_stage) >= settings.past_stage:
        return HYPER_ACTIVE_INCREASE
    if max(limiter.byte_stage, limiter.time_stage) >= settings.past_stage:
        return ACTIVE_INCREASE
    return FAST_RECOVERY


@inlined
def _period(settings: QCNStationSettings, limiter: QCNLimiter, stage: int, reset: float) -> float:
    """Return the period that follows the counter's new ``stage``: ``reset``, or half of it."""
    if settings.halves_in_hyper_only:
        stage = min(limiter.byte_stage, limiter.time_stage)
    return reset / 2.0 if stage >= settings.past_stage else reset


@inlined
def _reload(settings: QCNStationSettings, generator: Random, period: float) -> int:
    # The whole octet or ns in which the real period ends.
    return math.ceil(period * spread(settings.jitter, generator))


@compiled
def _schedule(limiters: QCNLimiters) -> None:
    """Set the timer that is due first; of several, the lowest index's."""
    due_ns = NEVER_NS
    for index in range(len(limiters.slots)):
        if limiters.slots[index].expires_ns < due_ns:
            due_ns = limiters.slots[index].expires_ns
            limiters.point.due_index = index
    limiters.point.due_ns = due_ns


TAG_OCTETS = 4
"""The length that a CN-TAG adds to a frame."""
LAST_FLOW_ID = 0xFFFF
"""The first flow id that a station assigns, counting down: the ids in frames usually count up."""


class QCNStations(NullReactionPoints):
    """The reaction points of stations, with consecutive records per station."""

    points: Sequence[QCNStation]
    slots: Sequence[QCNLimiter]
    flows: Sequence[QCNFlow]
    slots_each: int
    flows_each: int
    has_point: NDArray[np.bool_]
    """Whether frames get a CN-TAG, by priority."""
    settings: QCNStationSettings
    generator: Draws

    def limiters(self) -> int:
        """Return the number of a station's limiters, the shared one included."""
        return self.slots_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of ``flow``."""
        return route(_limiters(self, station), flow)

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Count a frame that queues for ``limiter``."""
        join(_limiters(self, station), limiter)

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the time when the head of the queue may leave."""
        return leaves_ns(self.slots[station * self.slots_each + limiter], now_ns)

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Add the CN-TAG to a frame of a CN priority, and count it at its limiter with the tag."""
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
        """Return the time of the first timer of the station's limiters."""
        return next_timer_ns(_limiters(self, station))

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the station's timers that are due."""
        on_timer(_limiters(self, station), self.settings, self.generator, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the limiter's current rate."""
        return self.slots[station * self.slots_each + limiter].rate_bps


@expanded
def _limiters(stations: QCNStations, station: int) -> QCNLimiters:
    slot, flow = station * stations.slots_each, station * stations.flows_each
    return QCNLimiters(
        stations.points[station],
        stations.slots[slot : slot + stations.slots_each],
        stations.flows[flow : flow + stations.flows_each],
    )
