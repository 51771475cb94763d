"""The DCQCN reaction point: a rate per queue pair, which CNPs decrease and stages increase, as in QCN.

A station has one record of :class:`DCQCNStation`, and one record of :class:`DCQCNLimiter` per queue pair. A
queue pair starts at line rate and has no active limiter before the first CNP. The caller stores waiting
frames. :func:`route` returns the limiter of a frame, ``limiter.leaves_ns`` returns the departure time of the
first frame, and the caller calls :func:`depart` at this time. The caller passes CNPs to :func:`receive` and
calls :func:`on_timer` at :func:`next_timer_ns`.

In the variant ``paper``, a CNP decreases the rate by the share α/2. A timer and a byte counter advance the
stages. At each new stage, the rate moves half-way to a target, which increases in later stages. Without CNPs,
α decays. In the variant ``nic``, CNPs are checked at two intervals: one check updates α, and the other check
decreases the rate. A timer advances the stages. At equal times, α is updated first, then the timer expires,
then the rate decreases.

Only a decrease reads α, so pending updates of α are applied at the decrease. The timer stops when the rate
and the target are both at line rate, and restarts at the next decrease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    Departure,
    LimiterStations,
    Message,
    Outbox,
    Sent,
)
from ecmproto.control.mechanisms.dcqcn.parameters import BY_VARIANT, DCQCNReactionPointParameters
from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leave, set_rate
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import columns, new_record, new_records, record_from
from ecmproto.wire.codec.tags import NO_IP_HEADER
from ecmproto.wire.formats.ip import ECT0, NOT_ECT

FAST_RECOVERY, ADDITIVE_INCREASE, HYPER_INCREASE = range(3)
"""Effect of the end of a stage: keep the target, increase the target by R_AI, or increase by R_HAI."""


class DCQCNLimiter(RateLimiter):
    """Record of the reaction point of one queue pair (``kernels.record``)."""

    active: int
    """1 from the first CNP on, otherwise 0."""
    target_bps: float
    alpha: float
    """Average α before the update that is due at ``alpha_due_ns``."""
    alpha_due_ns: int
    alpha_cnp: int
    """Whether a CNP was received since the last update of α (variant nic)."""
    byte_countdown_octets: int
    """Number of octets to send until the byte counter expires (variant paper)."""
    byte_stage: int
    time_stage: int
    timer_ns: int
    """Expiry time of the timer; NEVER_NS while the timer is stopped."""
    first_cnp_ns: int
    """Start time of the check intervals (variant nic)."""
    decrease_ns: int
    """Time of the next decrease; NEVER_NS if no CNP was received since the last check (variant nic)."""


class DCQCNStation:
    """Record of a station's counters and its state outside the queue pairs."""

    due_ns: int
    """Time of the next timer of all limiters; NEVER_NS if no timer is running."""
    due_index: int
    """Index of the limiter with the next timer."""
    used: int
    """Number of leading limiters that may be active."""
    cnps: int
    """Number of received CNPs, including CNPs for an unknown flow."""
    unknown_flow: int
    """Number of CNPs ignored because the queue pair is unknown."""
    limited: int
    """Number of queue pairs that received a CNP."""
    decreases: int
    floored: int
    """Number of decreases limited by the minimum rate."""
    time_expiries: int
    byte_expiries: int
    made_ect: int
    """Number of frames that the station changed to ECT."""


class DCQCNStationSettings:
    """Record of the reaction point parameters that the kernels read."""

    is_nic: int
    line_bps: float
    min_rate_bps: float
    ai_rate_bps: float
    hai_rate_bps: float
    g: float
    decay: float
    """Decay factor 1 − g."""
    threshold: int
    timer_ns: int
    byte_counter_octets: int
    alpha_interval_ns: int
    decrease_interval_ns: int
    clamp_target: int
    first_bps: float
    """Rate in bit/s after the first CNP (variant nic)."""
    makes_ect: int


class DCQCNLimiters(NamedTuple):
    """The reaction points of one station."""

    point: DCQCNStation
    slots: Sequence[DCQCNLimiter]


def settings_record(parameters: DCQCNReactionPointParameters, *, link_rate_bps: int) -> DCQCNStationSettings:
    """Return the settings record for ``parameters`` on a link.

    Raises ParameterError if the link is slower than the configured minimum rate.
    """
    of_variant = {name: parameters.of_variant(name) for name in BY_VARIANT if name != "min_rate_bps"}
    return record_from(
        DCQCNStationSettings, parameters, line_bps=link_rate_bps, decay=1.0 - parameters.g,
        min_rate_bps=parameters.effective_min_rate_bps(link_rate_bps), makes_ect=parameters.ect,
        first_bps=parameters.rate_on_first_cnp * link_rate_bps, **of_variant,
    )  # fmt: skip


def new_reaction_point(queue_pairs: int) -> DCQCNLimiters:
    """Return the initialised reaction points of a station."""
    point = new_record(DCQCNStation)
    point.due_ns = NEVER_NS
    slots = new_records(DCQCNLimiter, queue_pairs)
    rows = columns(slots)
    rows["timer_ns"] = rows["decrease_ns"] = rows["alpha_due_ns"] = NEVER_NS
    return DCQCNLimiters(point, slots)


@inlined
def index_of(limiters: DCQCNLimiters, flow: int) -> int:
    """Return the index of the limiter for ``flow``; all flows beyond the table share the last limiter."""
    return flow if flow < len(limiters.slots) else len(limiters.slots) - 1


@inlined
def route(limiters: DCQCNLimiters, flow: int) -> int:
    """Return the index of the limiter of ``flow``, or NO_LIMITER before the first CNP."""
    if flow < 0:
        return NO_LIMITER
    index = index_of(limiters, flow)
    return index if limiters.slots[index].active != 0 else NO_LIMITER


@compiled
def receive(limiters: DCQCNLimiters, settings: DCQCNStationSettings, flow: int, now_ns: int) -> int:
    """React to a CNP about ``flow``; return the index of the limiter, or NO_LIMITER for an unknown flow."""
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
    """Record a CNP for the next checks (variant nic).

    The first CNP starts the check intervals and sets the rate.
    """
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
    """Apply all updates of α that are due by ``now_ns``."""
    while limiter.alpha_due_ns <= now_ns:
        before = limiter.alpha
        limiter.alpha = settings.decay * before
        if limiter.alpha_cnp != 0:
            limiter.alpha += settings.g
            limiter.alpha_cnp = 0
        elif limiter.alpha == before:
            # α is too small to decay further, so skip the remaining updates.
            late = (now_ns - limiter.alpha_due_ns) // settings.alpha_interval_ns
            limiter.alpha_due_ns += late * settings.alpha_interval_ns
        limiter.alpha_due_ns += settings.alpha_interval_ns


@inlined
def _cut(point: DCQCNStation, settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int) -> None:
    """Decrease the rate by the share α/2, and restart the timer and the time stage."""
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
    """Send the first frame, of ``octets``, from the queue of limiter ``index`` at ``now_ns``."""
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
    """Run all timers that are due by ``now_ns``, earliest first, each with its own due time."""
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
    """Return the phase, from the time stage alone (nic) or from both stages (paper)."""
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
    """Increase the rate at the end of a stage by fast, additive or hyper increase (variant paper)."""
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
    """Increase the rate when the timer expires, before the stage advances (variant nic)."""
    reached = phase(settings, limiter)
    added_bps = 0.0
    if reached == HYPER_INCREASE:
        added_bps = settings.hai_rate_bps
    elif reached == ADDITIVE_INCREASE:
        added_bps = settings.ai_rate_bps
    _approach(settings, limiter, now_ns, added_bps)


@inlined
def _approach(settings: DCQCNStationSettings, limiter: DCQCNLimiter, now_ns: int, added_bps: float) -> None:
    """Increase the target by ``added_bps``, and move the rate half-way to the target."""
    limiter.target_bps = min(limiter.target_bps + added_bps, settings.line_bps)
    rate_bps = min((limiter.target_bps + limiter.rate_bps) / 2.0, settings.line_bps)
    if rate_bps == limiter.rate_bps and limiter.target_bps == settings.line_bps:
        limiter.timer_ns = NEVER_NS
    set_rate(limiter, now_ns, rate_bps)


@compiled
def _schedule(limiters: DCQCNLimiters) -> None:
    """Store the time and the limiter index of the earliest timer.

    At equal times, the lowest index has precedence.
    """
    due_ns = NEVER_NS
    for index in range(limiters.point.used):
        own_ns = min(limiters.slots[index].timer_ns, limiters.slots[index].decrease_ns)
        if own_ns < due_ns:
            due_ns = own_ns
            limiters.point.due_index = index
    limiters.point.due_ns = due_ns


class DCQCNStations(LimiterStations):
    """Reaction points of all stations, with the same number of consecutive records per station."""

    slots: Sequence[DCQCNLimiter]
    points: Sequence[DCQCNStation]
    settings: DCQCNStationSettings

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the index of the limiter of ``flow``, or NO_LIMITER."""
        return route(_limiters(self, station), flow)

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Count a frame at the limiter, and change an IP frame to ECT if configured."""
        if departure.limiter != NO_LIMITER:
            limiters = _limiters(self, departure.station)
            depart(limiters, self.settings, departure.limiter, departure.now_ns, departure.octets)
        # A frame of a scenario has no IP header yet, and queue pairs send ECT frames.
        made = not departure.tagged and departure.mark != NO_IP_HEADER
        if made or (self.settings.makes_ect != 0 and departure.tagged and departure.tag == NOT_ECT):
            self.points[departure.station].made_ect += 1
            return Sent(True, ECT0, departure.mark, 0)
        return Sent(departure.tagged, departure.tag, departure.mark, 0)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a CNP."""
        receive(_limiters(self, message.station), self.settings, message.flow, now_ns)

    def next_station_timer_ns(self, station: int) -> int:
        """Return the time of the next timer of the station."""
        return next_timer_ns(_limiters(self, station))

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the timers of the station that are due."""
        on_timer(_limiters(self, station), self.settings, now_ns)


@expanded
def _limiters(stations: DCQCNStations, station: int) -> DCQCNLimiters:
    slot = station * stations.slots_each
    return DCQCNLimiters(stations.points[station], stations.slots[slot : slot + stations.slots_each])


def new_stations(parameters: DCQCNReactionPointParameters, context: PortContext) -> DCQCNStations:
    """Return the reaction points of all stations before the first CNP.

    Flows are numbered from 0, so a station never needs more limiters than flows.
    """
    settings = settings_record(parameters, link_rate_bps=context.link_rate_bps)
    one = new_reaction_point(min(parameters.queue_pairs, max(1, context.flows)))
    slots = new_records(DCQCNLimiter, context.stations * len(one.slots))
    columns(slots)[:] = np.tile(columns(one.slots), context.stations)
    points = new_records(DCQCNStation, context.stations)
    columns(points)[:] = np.asarray(one.point)
    return DCQCNStations(slots, len(one.slots), points, settings)
