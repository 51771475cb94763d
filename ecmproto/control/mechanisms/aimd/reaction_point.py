"""The rate limiters in the reaction points of ECM, BCN and E²CM (S000 3.3; algorithms §1, RP 2-6 and 8).

A reaction point has n fine limiters, each for one flow, followed by eight coarse limiters, each for one
priority. If no fine limiter is free, the coarse limiter of the priority replaces the fine limiters. The fine
limiters of this priority then change to the maximum rate, and are released when their queues are empty. A
flow moves to the coarse limiter when the flow's fine limiter is released.

The caller maps the key of each flow to a small integer; −1 is an unknown flow. The caller also stores the
queues::

    index = route(limiters, flow, priority)                    # NO_LIMITER: the frame leaves without delay
    join(limiters, index)                                      # otherwise: the frame enters the queue
    departure_ns(limiters, settings, index, now_ns)            # departure time of the first frame
    depart(limiters, settings, index, now_ns, octets)          # the first frame leaves

A frame without a limiter is never queued.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.aimd.parameters import PRIORITIES, AIMDReactionPointParameters
from ecmproto.control.mechanisms.api.machine import MessageDiscards, PortContext
from ecmproto.control.mechanisms.api.protocol import (
    NO_AVERAGE,
    NO_CPID,
    NO_LIMITER,
    Departure,
    LimiterStations,
    Sent,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leave, set_rate
from ecmproto.errors import ParameterError
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import columns, new_record, new_records, record_dtype
from ecmproto.kernels.structs import Draws, Random
from ecmproto.units import format_rate

NO_FLOW = -1

FREE, ACTIVE, TIMED_OUT = range(3)
"""Status of a limiter: unused, limiting a flow, or sending nothing until the time-out expires."""

MIN_RESTART_BPS = 1e6
LONGEST_TMAX_NS = 1_000_000_000


class Limiter(RateLimiter):
    """Record of a limiter (``kernels.record``)."""

    status: int
    """Status of the limiter: FREE, ACTIVE or TIMED_OUT."""
    draining: int
    """1 for a fine limiter that is being replaced by the coarse limiter of the priority; otherwise 0."""
    flow: int
    """Flow number, or NO_FLOW for a coarse limiter."""
    priority: int
    waiting: int
    """Number of frames in the queue of the limiter."""
    cpid: int
    """CPID of the associated congestion point, in the form of `ecmproto.control.mechanisms.api.protocol`."""
    restart_bps: float
    """Rate in bit/s after the next time-out (Rmin)."""
    tmax_ns: int
    expires_ns: int
    """End of the time-out; NEVER_NS if the limiter is not in a time-out."""
    rtt_average_ns: float
    """Average round-trip time to the associated congestion point; NO_AVERAGE before the first sample."""


class LimiterCounters:
    """Record of message counters by outcome.

    Each message is counted in ``messages`` and in exactly one other counter.
    """

    messages: int
    allocated: int
    """Number of messages that assigned a fine or coarse limiter to a flow."""
    decreased: int
    increased: int
    stopped: int
    """Number of messages that stopped an existing limiter; ``allocated`` counts stops of a new limiter."""
    neutral: int
    """Number of messages ignored because the feedback is 0."""
    in_time_out: int
    """Number of messages ignored because the limiter of the flow is in a time-out."""
    unassociated: int
    """Number of positive messages ignored because another congestion point is associated with the limiter."""
    unlimited: int
    """Number of messages ignored because the flow has no limiter, and the request is no decrease or stop."""
    unknown_flow: int
    """Number of messages ignored because the flow is unknown."""
    disabled: int
    """Number of messages ignored because the priority is missing or not rate limited."""


class LimiterTable(LimiterCounters, MessageDiscards):
    """Record of a reaction point's counters and its state outside the limiters."""

    active: int
    span: int
    """Number of leading fine limiters that may be in use; all fine limiters from this index on are free."""
    tick_ns: int
    """Time of the next self-increase."""
    expires_ns: int
    """Earliest end of a time-out, or NEVER_NS if no limiter is in a time-out."""
    time_outs: int
    restarts: int
    coarse_allocated: int
    released: int
    floored: int
    """Number of decreases limited by the minimum rate."""
    capped: int
    """Number of increases limited by the link capacity."""
    saturated: int
    """Number of changes limited by α or β."""
    replaced_tags: int
    """Number of frames whose existing tag of this mechanism was replaced."""


class TableSettings:
    """Record of the limiter parameters that the kernels read."""

    link_bps: float
    """Capacity C of the station's link in bit/s, which is the maximum rate."""
    floor_bps: float
    initial_bps: float
    """Initial rate Ri in bit/s."""
    largest_decrease: float
    """Maximum share α of the rate that one decrease removes."""
    largest_increase_bps: float
    """Maximum increase β·C in bit/s."""
    tmax_ns: int
    restart_bps: float
    """First restart rate Rmin in bit/s; each time-out halves the restart rate."""
    tick_ns: int
    """Interval Td between self-increases."""
    self_increase_bps: float
    """Self-increase Rd in bit/s; 0 disables self-increases."""
    enabled: Annotated[NDArray[np.int64], 8]
    """1 for each priority that is rate limited, otherwise 0."""


class Limiters(NamedTuple):
    """A reaction point, whose ``slots`` are the fine limiters followed by one coarse limiter per priority."""

    point: LimiterTable
    slots: Sequence[Limiter]


def table_fields(parameters: Any, link_rate_bps: int) -> dict[str, Any]:
    """Return the fields of `TableSettings` whose values differ from the parameters of the same name.

    ``parameters`` are the reaction point parameters of ECM, BCN or E²CM, and ``link_rate_bps`` is the rate of
    the station's link. Raises ParameterError if the minimum rate is above the initial rate on this link.
    """
    initial_bps = parameters.initial_share * link_rate_bps
    if parameters.floor_bps > initial_bps:
        needed = f"at most the initial rate ri·C ({format_rate(initial_bps)})"
        raise ParameterError(name="floor", needed=needed, got=format_rate(parameters.floor_bps))
    return {
        "link_bps": link_rate_bps,
        "initial_bps": initial_bps,
        "largest_increase_bps": parameters.largest_increase * link_rate_bps,
        "tick_ns": parameters.self_increase_ns,
        "enabled": [priority in parameters.enabled for priority in range(PRIORITIES)],
    }


def new_limiters(fine: int, settings: TableSettings, now_ns: int) -> Limiters:
    """Return a reaction point with ``fine`` inactive fine limiters, started at ``now_ns``."""
    point = new_record(LimiterTable)
    point.tick_ns = now_ns + settings.tick_ns
    point.expires_ns = NEVER_NS
    slots = new_records(Limiter, fine + PRIORITIES)
    for slot in slots:
        slot.flow = NO_FLOW
        slot.expires_ns = NEVER_NS
        slot.rtt_average_ns = NO_AVERAGE
    return Limiters(point, slots)


@inlined
def fine_count(limiters: Limiters) -> int:
    """Return the number n of fine limiters; the coarse limiter of a priority has the index n + priority."""
    return len(limiters.slots) - PRIORITIES


@compiled
def find_fine(limiters: Limiters, flow: int) -> int:
    """Return the index of the fine limiter of ``flow``, or NO_LIMITER."""
    point, slots = limiters
    if flow >= 0:
        for index in range(point.span):
            if slots[index].flow == flow:
                return index
    return NO_LIMITER


@compiled
def route(limiters: Limiters, flow: int, priority: int) -> int:
    """Return the index of the limiter for a frame of ``flow``, or NO_LIMITER if no limiter matches.

    The fine limiter of the flow has precedence, so that frames of a flow stay in order (rule 8).
    """
    if limiters.point.active == 0:
        return NO_LIMITER
    index = find_fine(limiters, flow)
    if index != NO_LIMITER:
        return index
    coarse = fine_count(limiters) + priority
    return coarse if limiters.slots[coarse].status != FREE else NO_LIMITER


@inlined
def join(limiters: Limiters, index: int) -> None:
    """Count a frame that enters the queue of limiter ``index``."""
    limiters.slots[index].waiting += 1


@compiled
def limiter_of(limiters: Limiters, flow: int, priority: int) -> int:
    """Return the index of the limiter for a message about ``flow``, or NO_LIMITER.

    The limiter is the fine limiter of the flow, unless the coarse limiter of the priority has replaced the
    fine limiter. A fine limiter in a time-out is not yet replaced.
    """
    index = find_fine(limiters, flow)
    coarse = fine_count(limiters) + priority
    if index != NO_LIMITER and (
        limiters.slots[index].draining == 0 or limiters.slots[index].status == TIMED_OUT
    ):
        return index
    return coarse if limiters.slots[coarse].status != FREE else NO_LIMITER


@compiled
def allocate(
    limiters: Limiters, settings: TableSettings, flow: int, priority: int, cpid: int, now_ns: int
) -> int:
    """Assign a limiter to ``flow`` at the initial rate, associate ``cpid``, and return the limiter index.

    The limiter is a fine limiter if one is free, otherwise the coarse limiter of ``priority`` (rule 8).
    """
    point, slots = limiters
    fine = fine_count(limiters)
    index = 0
    while index < fine and slots[index].status != FREE:
        index += 1
    if index < fine:
        slots[index].flow = flow
        point.span = max(point.span, index + 1)
    else:
        index = fine + priority
        point.coarse_allocated += 1
        _hand_over(limiters, settings, priority, now_ns)
    limiter = slots[index]
    limiter.rate_bps = settings.initial_bps
    limiter.debt_bits = 0.0
    limiter.drained_ns = now_ns
    limiter.status = ACTIVE
    limiter.priority = priority
    limiter.restart_bps = settings.restart_bps
    limiter.tmax_ns = settings.tmax_ns
    point.active += 1
    associate(limiter, cpid)
    return index


@inlined
def associate(limiter: Limiter, cpid: int) -> None:
    """Associate ``limiter`` with ``cpid``, and discard the average round-trip time if ``cpid`` is new."""
    if limiter.cpid != cpid:
        limiter.cpid = cpid
        limiter.rtt_average_ns = NO_AVERAGE


@compiled
def _hand_over(limiters: Limiters, settings: TableSettings, priority: int, now_ns: int) -> None:
    # Rule 8: a limiter in a time-out changes to the maximum rate at the end of the time-out.
    for index in range(limiters.point.span):
        limiter = limiters.slots[index]
        if limiter.status != FREE and limiter.priority == priority:
            limiter.draining = 1
            if limiter.status == ACTIVE:
                set_rate(limiter, now_ns, settings.link_bps)
                release_idle(limiters, settings, index)


@compiled
def release_idle(limiters: Limiters, settings: TableSettings, index: int) -> bool:
    """Release limiter ``index`` if its rate is the link rate and its queue is empty (rule 6).

    Returns whether the limiter was released.
    """
    point, slots = limiters
    limiter = slots[index]
    if limiter.status != ACTIVE or limiter.waiting > 0 or limiter.rate_bps < settings.link_bps:
        return False
    limiter.status = FREE
    limiter.draining = 0
    limiter.flow = NO_FLOW
    limiter.cpid = NO_CPID
    limiter.rtt_average_ns = NO_AVERAGE
    point.active -= 1
    point.released += 1
    while point.span > 0 and slots[point.span - 1].status == FREE:
        point.span -= 1
    if index >= fine_count(limiters):
        # Fine limiters whose queues are not yet empty are no longer replaced.
        for other in range(point.span):
            if slots[other].priority == limiter.priority:
                slots[other].draining = 0
    return True


@compiled
def next_timer_ns(limiters: Limiters) -> int:
    """Return the time of the next timer, or NEVER_NS."""
    point = limiters.point
    return min(point.expires_ns, point.tick_ns) if point.active > 0 else NEVER_NS


@compiled
def on_timer(limiters: Limiters, settings: TableSettings, now_ns: int) -> None:
    """Run all timers that are due by ``now_ns``, each with its own due time."""
    point = limiters.point
    while next_timer_ns(limiters) <= now_ns:
        if point.expires_ns <= point.tick_ns:
            _expire(limiters, settings, point.expires_ns)
        else:
            changed = _tick(limiters, settings, point.tick_ns)
            point.tick_ns += settings.tick_ns
            if not changed:
                # Further self-increases change nothing until a time-out ends.
                skip_ticks(limiters, settings, min(now_ns + 1, point.expires_ns))
    if point.active == 0:
        skip_ticks(limiters, settings, now_ns + 1)


@inlined
def skip_ticks(limiters: Limiters, settings: TableSettings, until_ns: int) -> None:
    """Postpone the next self-increase by whole intervals until ``until_ns`` or later."""
    late_ns = until_ns - limiters.point.tick_ns
    if late_ns > 0:
        limiters.point.tick_ns += -(-late_ns // settings.tick_ns) * settings.tick_ns


@compiled
def _tick(limiters: Limiters, settings: TableSettings, now_ns: int) -> bool:
    """Increase the rate of each active limiter by Rd, and return whether a limiter changed."""
    changed = False
    for index in range(len(limiters.slots)):
        limiter = limiters.slots[index]
        if limiter.status == ACTIVE:
            rate_bps = min(settings.link_bps, limiter.rate_bps + settings.self_increase_bps)
            if rate_bps != limiter.rate_bps:
                set_rate(limiter, now_ns, rate_bps)
                changed = True
            if release_idle(limiters, settings, index):
                changed = True
    return changed


@compiled
def _expire(limiters: Limiters, settings: TableSettings, now_ns: int) -> None:
    limiters.point.expires_ns = NEVER_NS
    for index in range(len(limiters.slots)):
        limiter = limiters.slots[index]
        if limiter.expires_ns <= now_ns:
            _restart(limiters, settings, limiter, now_ns)
            release_idle(limiters, settings, index)
        limiters.point.expires_ns = min(limiters.point.expires_ns, limiter.expires_ns)


@inlined
def _restart(limiters: Limiters, settings: TableSettings, limiter: Limiter, now_ns: int) -> None:
    # Rule 4: the rate restarts at the floor or above, so a flow recovers even if Rmin is halved often.
    restart_bps = max(limiter.restart_bps, settings.floor_bps)
    if limiter.draining == 1:
        restart_bps = settings.link_bps
    set_rate(limiter, now_ns, min(restart_bps, settings.link_bps))
    limiter.restart_bps = max(0.5 * limiter.restart_bps, MIN_RESTART_BPS)
    limiter.tmax_ns = min(2 * limiter.tmax_ns, LONGEST_TMAX_NS)
    limiter.status = ACTIVE
    limiter.expires_ns = NEVER_NS
    limiters.point.restarts += 1


@compiled
def depart(limiters: Limiters, settings: TableSettings, index: int, now_ns: int, octets: int) -> None:
    """Send the first frame, of ``octets``, from the queue of limiter ``index`` at ``now_ns``.

    ``now_ns`` is the result of `departure_ns`. The departure may release the limiter (rule 6).
    """
    on_timer(limiters, settings, now_ns)
    limiter = limiters.slots[index]
    leave(limiter, now_ns, octets)
    limiter.waiting -= 1
    release_idle(limiters, settings, index)


NOTHING, INCREASE, DECREASE, STOP = range(4)


class Demand(NamedTuple):
    """The rate change that a message requests."""

    kind: int
    """Type of the rate change: NOTHING, INCREASE, DECREASE or STOP."""
    cpid: int
    share: float
    """Share of the rate that a DECREASE removes; the maximum is α."""
    step_bps: float
    """Rate in bit/s that an INCREASE adds; the maximum is β·C."""
    doubled: bool
    """Whether an INCREASE or DECREASE is twice the maximum instead (S000 3.3.2, the Q bit)."""
    restart_bps: float
    """Rate in bit/s after a STOP; 0 means the limiter's own restart rate, which halves with each time-out."""


@compiled
def react(
    limiters: Limiters,
    settings: TableSettings,
    generator: Random,
    demand: Demand,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    """Apply the rate change that a message about ``flow`` requests at ``now_ns``.

    ``priority`` is the flow's priority from 0 to 7. Returns the index of the changed limiter, or NO_LIMITER
    for an ignored message, which is counted.
    """
    on_timer(limiters, settings, now_ns)
    point, slots = limiters
    point.messages += 1
    if flow < 0:
        point.unknown_flow += 1
        return NO_LIMITER
    if priority < 0 or priority >= PRIORITIES or settings.enabled[priority] == 0:
        point.disabled += 1
        return NO_LIMITER
    index = limiter_of(limiters, flow, priority)
    if index == NO_LIMITER:
        return _begin(limiters, settings, generator, demand, flow, priority, now_ns)
    limiter = slots[index]
    if limiter.status == TIMED_OUT:
        point.in_time_out += 1
        return NO_LIMITER
    if demand.kind == INCREASE:
        if limiter.cpid != demand.cpid:
            point.unassociated += 1
            return NO_LIMITER
        point.increased += 1
        increase(limiters, settings, limiter, demand.step_bps, demand.doubled, now_ns)
        limiter.tmax_ns = settings.tmax_ns
        limiter.restart_bps = settings.restart_bps
    elif demand.kind == DECREASE:
        point.decreased += 1
        associate(limiter, demand.cpid)
        decrease(limiters, settings, limiter, demand.share, demand.doubled, now_ns)
    elif demand.kind == STOP:
        point.stopped += 1
        associate(limiter, demand.cpid)
        _stop(limiters, generator, limiter, demand.restart_bps, now_ns)
    else:
        point.neutral += 1
    return index


@compiled
def _begin(
    limiters: Limiters,
    settings: TableSettings,
    generator: Random,
    demand: Demand,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    # Rule 2: negative feedback or a stop assigns a limiter; negative feedback sets the initial rate.
    if demand.kind != DECREASE and demand.kind != STOP:
        limiters.point.unlimited += 1
        return NO_LIMITER
    limiters.point.allocated += 1
    index = allocate(limiters, settings, flow, priority, demand.cpid, now_ns)
    if demand.kind == DECREASE and settings.initial_bps >= settings.link_bps:
        # The next departure would release a limiter at the link rate (rule 6), so decrease the rate now.
        decrease(limiters, settings, limiters.slots[index], demand.share, demand.doubled, now_ns)
    if demand.kind == STOP:
        _stop(limiters, generator, limiters.slots[index], demand.restart_bps, now_ns)
    return index


@inlined
def decrease(
    limiters: Limiters, settings: TableSettings, limiter: Limiter, share: float, doubled: bool, now_ns: int
) -> None:
    """Decrease the rate by min(share, α), or by min(2α, 1) if ``doubled``, down to the minimum (rule 3)."""
    if doubled:
        share = min(2.0 * settings.largest_decrease, 1.0)
    elif share > settings.largest_decrease:
        limiters.point.saturated += 1
        share = settings.largest_decrease
    rate_bps = limiter.rate_bps * (1.0 - share)
    if rate_bps < settings.floor_bps:
        limiters.point.floored += 1
        rate_bps = settings.floor_bps
    set_rate(limiter, now_ns, rate_bps)


@inlined
def increase(
    limiters: Limiters, settings: TableSettings, limiter: Limiter, step_bps: float, doubled: bool, now_ns: int
) -> None:
    """Increase the rate by min(step, β·C), or by 2·β·C if ``doubled``, up to the link rate (rule 3)."""
    if doubled:
        step_bps = 2.0 * settings.largest_increase_bps
    elif step_bps > settings.largest_increase_bps:
        limiters.point.saturated += 1
        step_bps = settings.largest_increase_bps
    rate_bps = limiter.rate_bps + step_bps
    if rate_bps > settings.link_bps:
        limiters.point.capped += 1
        rate_bps = settings.link_bps
    set_rate(limiter, now_ns, rate_bps)


@compiled
def _stop(limiters: Limiters, generator: Random, limiter: Limiter, restart_bps: float, now_ns: int) -> None:
    # Rule 4: send nothing for a random time, uniform in [0, Tmax).
    set_rate(limiter, now_ns, 0.0)
    limiter.status = TIMED_OUT
    limiter.expires_ns = now_ns + int(generator.random() * float(limiter.tmax_ns))
    limiters.point.expires_ns = min(limiters.point.expires_ns, limiter.expires_ns)
    limiters.point.time_outs += 1
    if restart_bps > 0.0:
        limiter.restart_bps = restart_bps


_Settings = TypeVar("_Settings", bound=TableSettings)
_Stations = TypeVar("_Stations", bound="Stations[Any]")

COUNTERS = tuple(
    name
    for name in record_dtype(LimiterTable).names or ()
    if name not in ("active", "span", "tick_ns", "expires_ns")
)
"""Names of the counters of a reaction point."""


class Stations(LimiterStations, Generic[_Settings]):
    """Reaction points of all stations, with the same number of consecutive records per station."""

    slots: Sequence[Limiter]
    points: Sequence[LimiterTable]
    timestamp_unit: int
    """Exponent of the timestamp unit in tags; 0 for tags without timestamps."""
    settings: _Settings
    generator: Draws

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the index of the fine or coarse limiter for ``flow``, or NO_LIMITER."""
        return route(limiters_at(self, station), flow, priority)

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Count a frame that enters the queue of ``limiter``."""
        join(limiters_at(self, station), limiter)

    def next_station_timer_ns(self, station: int) -> int:
        """Return the time of the station's next timer."""
        return next_timer_ns(limiters_at(self, station))

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the timers of the station that are due."""
        on_timer(limiters_at(self, station), self.settings, now_ns)

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return the average round-trip time RTTavg (S000).

        The result is NO_AVERAGE before the first sample, and if tags have no timestamps.
        """
        return self.slots[station * self.slots_each + limiter].rtt_average_ns


@expanded
def limiters_at(stations: Stations[_Settings], station: int) -> Limiters:
    """Return the limiters of ``station``."""
    slot = station * stations.slots_each
    return Limiters(stations.points[station], stations.slots[slot : slot + stations.slots_each])


@compiled
def send(stations: Stations[_Settings], departure: Departure, tag_octets: int, mark: int) -> Sent:
    """Send a frame from a station, and return the tag of ``tag_octets`` that a limiter adds.

    The tag contains the CPID of the limiter. An existing tag is replaced and counted. The limiter also counts
    the octets that a new tag adds.
    """
    if departure.limiter == NO_LIMITER:
        return Sent(departure.tagged, departure.tag, departure.mark, 0)
    limiters = limiters_at(stations, departure.station)
    # Read the CPID before the departure, which may release the limiter.
    cpid = limiters.slots[departure.limiter].cpid
    added = tag_octets
    if departure.tagged:
        limiters.point.replaced_tags += 1
        added = 0
    depart(limiters, stations.settings, departure.limiter, departure.now_ns, departure.octets + added)
    return Sent(True, cpid, mark, added)


def new_stations(
    kind: type[_Stations],
    parameters: AIMDReactionPointParameters,
    settings: TableSettings,
    context: PortContext,
    generator: np.random.Generator,
    *,
    timestamp_unit: int = 0,
    **parts: Any,
) -> _Stations:
    """Return the reaction points of all stations in ``context`` at time 0, without active limiters.

    ``parts`` are the additional fields of ``kind``. The number of fine limiters is at most the number of
    flows of a station.
    """
    one = new_limiters(min(parameters.limiters, max(context.flows, 0)), settings, 0)
    point: Any = one.point
    points = new_records(LimiterTable, context.stations)
    columns(points)[:] = np.asarray(point)
    slots = new_records(Limiter, context.stations * len(one.slots))
    columns(slots)[:] = np.tile(columns(one.slots), context.stations)
    return kind(slots, len(one.slots), points, timestamp_unit, settings, Draws(generator), **parts)


def rtt_gauges(slots: Sequence[Limiter]) -> dict[str, float]:
    """Return the mean of all limiters' average round-trip times; the dictionary can be empty."""
    average_ns = columns(slots)["rtt_average_ns"]
    known_ns = average_ns[average_ns >= 0]
    return {"rtt_average_ns": float(known_ns.mean())} if len(known_ns) else {}
