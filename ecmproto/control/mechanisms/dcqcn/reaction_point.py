"""The DCQCN reaction point: a rate for each queue pair, cut by CNPs and raised in stages like QCN's.

A station has one record of :class:`DCQCNStation` and a row of :class:`DCQCNLimiter`, one per queue pair, free
until its first CNP: a queue pair starts at line rate. The caller has the waiting frames: :func:`route`
returns a frame's limiter, ``limiter.leaves_ns`` the departure time of the first, and :func:`depart` is called
at its departure. CNPs go through :func:`receive`; :func:`on_timer` runs at :func:`next_timer_ns`.

``paper``: a CNP cuts the rate by α/2 of it; a timer and a byte counter advance stages, at each of which the
rate goes half-way to a target that grows in the later ones; α decays without CNPs. ``nic``: CNPs are checked
at two intervals, one that updates α, one that cuts the rate; a timer advances the stages. At equal times α is
updated first, then the timer expires, then the rate is cut.

α determines only the depth of a cut, so it is updated when one is due. A timer without effect, when the rate
and its target are the line's, stops until the next cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext, total
from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    Departure,
    Message,
    NullReactionPoints,
    Outbox,
    Sent,
)
from ecmproto.control.mechanisms.dcqcn.parameters import BY_VARIANT, DCQCNReactionPointParameters
from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leave, leaves_ns, set_rate
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import columns, new_record, new_records, record_from
from ecmproto.wire.codec.tags import NO_IP_HEADER
from ecmproto.wire.formats.ip import ECT0, NOT_ECT

FAST_RECOVERY, ADDITIVE_INCREASE, HYPER_INCREASE = range(3)
"""The effect of the end of a stage: the target stays, grows by R_AI, or by R_HAI."""


class DCQCNLimiter(RateLimiter):
    """The reaction point of one queue pair; a record (``kernels.record``)."""

    active: int
    """1 from its first CNP on."""
    target_bps: float
    alpha: float
    """The average up to the update before ``alpha_due_ns``."""
    alpha_due_ns: int
    alpha_cnp: int
    """nic: whether a CNP came since the last update of α."""
    byte_countdown_octets: int
    """paper: octets to send until the byte counter expires."""
    byte_stage: int
    time_stage: int
    timer_ns: int
    """The expiry of the timer; NEVER_NS while it is off."""
    first_cnp_ns: int
    """nic: the start of the intervals."""
    decrease_ns: int
    """nic: the time of the next cut, if a CNP came since the last check; NEVER_NS otherwise."""


class DCQCNStation:
    """The state of a station besides its queue pairs, and its counters; a record."""

    due_ns: int
    """The time of the first timer of all; NEVER_NS for none."""
    due_index: int
    """The index of the limiter with the first timer."""
    used: int
    """The index up to which limiters may be active."""
    cnps: int
    """CNPs, each for a queue pair or counted in ``unknown_flow``."""
    unknown_flow: int
    """CNPs ignored because their queue pair is not known here."""
    limited: int
    """Queue pairs that had a first CNP."""
    decreases: int
    floored: int
    """Decreases limited by the minimum rate."""
    time_expiries: int
    byte_expiries: int
    made_ect: int
    """Frames that were not ECT and left as ECT."""


class DCQCNStationSettings:
    """The parameters as the kernels read them; a record."""

    is_nic: int
    line_bps: float
    min_rate_bps: float
    ai_rate_bps: float
    hai_rate_bps: float
    g: float
    decay: float
    """The factor 1 − g."""
    threshold: int
    timer_ns: int
    byte_counter_octets: int
    alpha_interval_ns: int
    decrease_interval_ns: int
    clamp_target: int
    first_bps: float
    """nic: the rate after the first CNP."""
    makes_ect: int


class DCQCNLimiters(NamedTuple):
    """A station's reaction points."""

    point: DCQCNStation
    slots: Sequence[DCQCNLimiter]


def settings_record(parameters: DCQCNReactionPointParameters, *, link_rate_bps: int) -> DCQCNStationSettings:
    """Return the record of settings for ``parameters`` on a link; raises ParameterError if it is too slow."""
    of_variant = {name: parameters.of_variant(name) for name in BY_VARIANT if name != "min_rate_bps"}
    return record_from(
        DCQCNStationSettings, parameters, line_bps=link_rate_bps, decay=1.0 - parameters.g,
        min_rate_bps=parameters.effective_min_rate_bps(link_rate_bps), makes_ect=parameters.ect,
        first_bps=parameters.rate_on_first_cnp * link_rate_bps, **of_variant,
    )  # fmt: skip


def new_reaction_point(queue_pairs: int) -> DCQCNLimiters:
    """Return a station's reaction points, initialised."""
    point = new_record(DCQCNStation)
    point.due_ns = NEVER_NS
    slots = new_records(DCQCNLimiter, queue_pairs)
    rows = columns(slots)
    rows["timer_ns"] = rows["decrease_ns"] = rows["alpha_due_ns"] = NEVER_NS
    return DCQCNLimiters(point, slots)


@inlined
def index_of(limiters: DCQCNLimiters, flow: int) -> int:
    """Return the index of the limiter for ``flow``: its own, or the last one for further flows."""
    return flow if flow < len(limiters.slots) else len(limiters.slots) - 1


@inlined
def route(limiters: DCQCNLimiters, flow: int) -> int:
    """Return the index of the limiter of ``flow``, or NO_LIMITER before its first CNP."""
    if flow < 0:
        return NO_LIMITER
    index = index_of(limiters, flow)
    return index if limiters.slots[index].active != 0 else NO_LIMITER


@compiled
def receive(limiters: DCQCNLimiters, settings: DCQCNStationSettings, flow: int, now_ns: int) -> int:
    """React to a CNP about ``flow``; return the index of its limiter, or NO_LIMITER for an unknown flow."""
    on_timer(limiters, settings, now_ns)
    point = limiters.point
    point.cnps += 1
    if flow < 0:
        point.unknown_flow += 1
        return NO_LIMITER
    index = index_of(limiters, flow)
    limiter = limiters.slots[index]
    is_first = limiter.active == 0
    if is_first:
        _activate(settings, limiter, now_ns)
        point.limited += 1
        point.used = max(point.used, index + 1)
    if settings.is_nic != 0:
        _note_cnp(settings, limiter, is_first, now_ns)
    else:
        update_alpha(settings, limiter, now_ns)
        limiter.target_bps = limiter.rate_bps
        _cut(point, settings, limiter, now_ns)
        limiter.alpha = settings.decay * limiter.alpha + settings.g
        limiter.alpha_due_ns = now_ns + settings.alpha_interval_ns
        limiter.byte_stage = 0
        limiter.byte_countdown_octets = settings.byte_counter_octets
    _schedule(limiters)
    return index


@inlined
def _activate(settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int) -> None:
    limiter.active = 1
    limiter.rate_bps = settings.line_bps
    limiter.target_bps = settings.line_bps
    limiter.debt_bits = 0.0
    limiter.drained_ns = now_ns
    limiter.alpha = 1.0
    limiter.alpha_due_ns = now_ns + settings.alpha_interval_ns


@inlined
def _note_cnp(settings: DCQCNStationSettings, limiter: DCQCNLimiter, is_first: bool, now_ns: int) -> None:
    """Record a CNP for the next checks (nic); the first CNP only starts the intervals, at its own rate."""
    if is_first:
        limiter.first_cnp_ns = now_ns
        limiter.rate_bps = settings.first_bps
        limiter.target_bps = settings.first_bps
    else:
        update_alpha(settings, limiter, now_ns)
        limiter.alpha_cnp = 1
    if limiter.decrease_ns == NEVER_NS:
        looks = (now_ns - limiter.first_cnp_ns) // settings.decrease_interval_ns
        limiter.decrease_ns = limiter.first_cnp_ns + (looks + 1) * settings.decrease_interval_ns


@compiled
def update_alpha(settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int) -> None:
    """Apply the updates of α that are due by ``now_ns``."""
    while limiter.alpha_due_ns <= now_ns:
        before = limiter.alpha
        limiter.alpha = settings.decay * before
        if limiter.alpha_cnp != 0:
            limiter.alpha += settings.g
            limiter.alpha_cnp = 0
        elif limiter.alpha == before:
            # Too small to decay further: all other updates leave it unchanged.
            late = (now_ns - limiter.alpha_due_ns) // settings.alpha_interval_ns
            limiter.alpha_due_ns += late * settings.alpha_interval_ns
        limiter.alpha_due_ns += settings.alpha_interval_ns


@inlined
def _cut(point: DCQCNStation, settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int) -> None:
    """Cut the rate by α/2 of it; the timer and its stage restart."""
    rate_bps = limiter.rate_bps * (1.0 - limiter.alpha / 2.0)
    if rate_bps < settings.min_rate_bps:
        rate_bps = settings.min_rate_bps
        point.floored += 1
    set_rate(limiter, now_ns, rate_bps)
    point.decreases += 1
    limiter.time_stage = 0
    limiter.timer_ns = now_ns + settings.timer_ns


@compiled
def depart(
    limiters: DCQCNLimiters, settings: DCQCNStationSettings, index: int, now_ns: int, octets: int
) -> None:
    """Send the head of limiter ``index``'s queue, a frame of ``octets``, at ``now_ns``."""
    on_timer(limiters, settings, now_ns)
    limiter = limiters.slots[index]
    leave(limiter, now_ns, octets)
    if settings.is_nic != 0:
        return
    limiter.byte_countdown_octets -= octets
    if limiter.byte_countdown_octets <= 0:
        limiters.point.byte_expiries += 1
        limiter.byte_countdown_octets = settings.byte_counter_octets
        limiter.byte_stage += 1
        _increase(settings, limiter, now_ns)
        _schedule(limiters)


@inlined
def next_timer_ns(limiters: DCQCNLimiters) -> int:
    """Return the next time to call `on_timer`, or NEVER_NS."""
    return limiters.point.due_ns


@compiled
def on_timer(limiters: DCQCNLimiters, settings: DCQCNStationSettings, now_ns: int) -> None:
    """Run every timer that is due by ``now_ns`` at its own time, the earliest first."""
    point = limiters.point
    while point.due_ns <= now_ns:
        limiter, due_ns = limiters.slots[point.due_index], point.due_ns
        if limiter.timer_ns == due_ns:
            point.time_expiries += 1
            limiter.timer_ns = due_ns + settings.timer_ns
            if settings.is_nic != 0:
                _increase_of_nic(settings, limiter, due_ns)
                limiter.time_stage += 1
            else:
                limiter.time_stage += 1
                _increase(settings, limiter, due_ns)
        else:
            limiter.decrease_ns = NEVER_NS
            update_alpha(settings, limiter, due_ns)
            if settings.clamp_target != 0 or limiter.time_stage != 0:
                limiter.target_bps = limiter.rate_bps
            _cut(point, settings, limiter, due_ns)
        _schedule(limiters)


@inlined
def phase(settings: DCQCNStationSettings, limiter: DCQCNLimiter) -> int:
    """Return the phase of the stages: the timer's alone (nic), or both counters' (paper)."""
    if settings.is_nic != 0:
        if limiter.time_stage > settings.threshold:
            return HYPER_INCREASE
        return ADDITIVE_INCREASE if limiter.time_stage == settings.threshold else FAST_RECOVERY
    if min(limiter.byte_stage, limiter.time_stage) > settings.threshold:
        return HYPER_INCREASE
    if max(limiter.byte_stage, limiter.time_stage) >= settings.threshold:
        return ADDITIVE_INCREASE
    return FAST_RECOVERY


@inlined
def _increase(settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int) -> None:
    """Raise the rate at the end of a stage (paper): fast recovery, additive or hyper increase."""
    reached = phase(settings, limiter)
    added_bps = 0.0
    if reached == HYPER_INCREASE:
        beyond = min(limiter.byte_stage, limiter.time_stage) - settings.threshold
        added_bps = float(beyond + 1) * settings.hai_rate_bps
    elif reached == ADDITIVE_INCREASE:
        added_bps = settings.ai_rate_bps
    _approach(settings, limiter, now_ns, added_bps)


@inlined
def _increase_of_nic(settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int) -> None:
    """Raise the rate when the timer expires, by the stage before it advances (nic)."""
    reached = phase(settings, limiter)
    added_bps = 0.0
    if reached == HYPER_INCREASE:
        added_bps = settings.hai_rate_bps
    elif reached == ADDITIVE_INCREASE:
        added_bps = settings.ai_rate_bps
    _approach(settings, limiter, now_ns, added_bps)


@inlined
def _approach(settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int, added_bps: float) -> None:
    """Raise the target, and move the rate half-way to it."""
    limiter.target_bps = min(limiter.target_bps + added_bps, settings.line_bps)
    rate_bps = min((limiter.target_bps + limiter.rate_bps) / 2.0, settings.line_bps)
    if rate_bps == limiter.rate_bps and limiter.target_bps == settings.line_bps:
        limiter.timer_ns = NEVER_NS
    set_rate(limiter, now_ns, rate_bps)


@compiled
def _schedule(limiters: DCQCNLimiters) -> None:
    """Set the timer that is due first; of several, the lowest index's."""
    due_ns = NEVER_NS
    for index in range(limiters.point.used):
        own_ns = min(limiters.slots[index].timer_ns, limiters.slots[index].decrease_ns)
        if own_ns < due_ns:
            due_ns = own_ns
            limiters.point.due_index = index
    limiters.point.due_ns = due_ns


class DCQCNStations(NullReactionPoints):
    """The reaction points of stations, with consecutive records per station."""

    points: Sequence[DCQCNStation]
    slots: Sequence[DCQCNLimiter]
    slots_each: int
    settings: DCQCNStationSettings

    def limiters(self) -> int:
        """Return the number of queue pairs that a station distinguishes."""
        return self.slots_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of ``flow``."""
        return route(_limiters(self, station), flow)

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the time when the head of the queue may leave."""
        return leaves_ns(self.slots[station * self.slots_each + limiter], now_ns)

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Count a frame at its limiter, and make an IP frame ECT if configured."""
        if departure.limiter != NO_LIMITER:
            limiters = _limiters(self, departure.station)
            depart(limiters, self.settings, departure.limiter, departure.now_ns, departure.octets)
        # A scenario's frame has no header yet: queue pairs send ECT.
        made = not departure.tagged and departure.mark != NO_IP_HEADER
        if made or (self.settings.makes_ect != 0 and departure.tagged and departure.tag == NOT_ECT):
            self.points[departure.station].made_ect += 1
            return Sent(True, ECT0, departure.mark, 0)
        return Sent(departure.tagged, departure.tag, departure.mark, 0)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a CNP."""
        receive(_limiters(self, message.station), self.settings, message.flow, now_ns)

    def next_station_timer_ns(self, station: int) -> int:
        """Return the time of the first timer of the station's queue pairs."""
        return next_timer_ns(_limiters(self, station))

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the station's timers that are due."""
        on_timer(_limiters(self, station), self.settings, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the queue pair's current rate."""
        return self.slots[station * self.slots_each + limiter].rate_bps


@expanded
def _limiters(stations: DCQCNStations, station: int) -> DCQCNLimiters:
    slot = station * stations.slots_each
    return DCQCNLimiters(stations.points[station], stations.slots[slot : slot + stations.slots_each])


def new_stations(parameters: DCQCNReactionPointParameters, context: PortContext) -> DCQCNStations:
    """Return stations before their first CNP.

    Flows are numbered densely, so limiters beyond a station's flows would stay unused; they are left out.
    """
    settings = settings_record(parameters, link_rate_bps=context.link_rate_bps)
    one = new_reaction_point(min(parameters.queue_pairs, max(1, context.flows)))
    slots = new_records(DCQCNLimiter, context.stations * len(one.slots))
    columns(slots)[:] = np.tile(columns(one.slots), context.stations)
    points = new_records(DCQCNStation, context.stations)
    columns(points)[:] = np.asarray(one.point)
    return DCQCNStations(points, slots, len(one.slots), settings)


def station_counters(stations: DCQCNStations) -> dict[str, int]:
    """Return the sums of the counters of all stations, by name."""
    return total(
        stations.points, "cnps", "unknown_flow", "limited", "decreases", "floored", "time_expiries",
        "byte_expiries", "made_ect",
    )  # fmt: skip
