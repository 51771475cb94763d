"""The table of rate limiters of a reaction point (S000 3.3; algorithms §1, RP 2, 6 and 8).

n fine limiters, each for one flow, then eight coarse ones, each for a whole priority.  When no fine one is
free, the coarse one of the priority takes over: it takes each flow once that flow's fine queue is empty;
the fine ones go to the maximum rate meanwhile and are released as they drain.

Flows are small whole numbers that the caller has for its flows' keys; −1 is a flow it does not know.  The
caller holds the queues::

    index = route(limiters, flow, priority)                    # NO_LIMITER: the frame leaves at once
    join(limiters, index)                                      # else it queues behind limiter ``index``
    departure_ns(limiters, settings, index, now_ns)            # when the queue's head may leave
    depart(limiters, settings, index, now_ns, octets)          # it does

Frames that no limiter matches are never queued.  `ecmproto.mechanisms.aimd.departure` has the last two,
`ecmproto.mechanisms.aimd.timers` the timers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms import protocol
from ecmproto.mechanisms.aimd.envelope import Refusals
from ecmproto.mechanisms.aimd.parameters import PRIORITIES, ReactionPointParameters
from ecmproto.mechanisms.cpid import NO_CPID
from ecmproto.mechanisms.limiter import NEVER_NS, RateLimiter, set_rate
from ecmproto.record import new_record, new_records
from ecmproto.units import format_rate

NO_LIMITER = -1
NO_FLOW = -1
NO_AVERAGE = protocol.NO_AVERAGE

FREE, ACTIVE, TIMED_OUT = range(3)
"""What a limiter is: not in use, limiting, or silent until its timer expires."""

LEAST_RESTART_BPS = 1e6
LONGEST_TMAX_NS = 1_000_000_000


class Limiter(RateLimiter):
    """One limiter; a record (``ecmproto.record``)."""

    status: int
    """FREE, ACTIVE or TIMED_OUT."""
    draining: int
    """1 on a fine limiter that its priority's coarse one takes over from."""
    flow: int
    """NO_FLOW on a coarse limiter."""
    priority: int
    waiting: int
    """Frames in its queue."""
    cpid: int
    """The congestion point it is associated with, as `ecmproto.mechanisms.cpid` has it."""
    restart_bps: float
    """Rmin: the rate after the next time-out."""
    tmax_ns: int
    expires_ns: int
    """When the time-out ends; NEVER_NS outside one."""
    rtt_average_ns: float
    """Of the associated congestion point; NO_AVERAGE before the first sample."""


class Counters:
    """What became of messages; every message is counted in exactly one of those after ``messages``."""

    messages: int
    allocated: int
    """Gave a flow a limiter, fine or coarse."""
    decreased: int
    increased: int
    stopped: int
    """Silenced a limiter (one that gave a flow its limiter by that counts as ``allocated``)."""
    neutral: int
    """Ignored: feedback 0."""
    in_time_out: int
    """Ignored: the flow's limiter is in a time-out."""
    unassociated: int
    """Ignored: positive, from another congestion point than the limiter's."""
    unlimited: int
    """Ignored: neither negative nor a stop, for a flow that has no limiter."""
    unknown_flow: int
    """Ignored: for a flow that the caller does not know."""
    disabled: int
    """Ignored: for a priority that is not rate limited, or none."""


class Point(Counters, Refusals):
    """What a reaction point remembers beside its limiters, and what happened to it; a record."""

    active: int
    """Limiters in use."""
    span: int
    """Fine limiters from this index on are free."""
    tick_ns: int
    """The next self-increase."""
    expires_ns: int
    """The earliest end of a time-out, or NEVER_NS."""
    time_outs: int
    restarts: int
    coarse_allocated: int
    released: int
    floored: int
    """Decreases that the floor cut short."""
    capped: int
    """Increases that the link's capacity cut short."""
    saturated: int
    """Changes that α or β cut short."""
    replaced_tags: int
    """Tags of its own kind that its frames carried already."""


class TableSettings:
    """The parameters as the kernels read them; a record."""

    link_bps: float
    """C, the capacity of the link behind the limiters; no rate is above it."""
    floor_bps: float
    initial_bps: float
    """Ri."""
    largest_decrease: float
    """α."""
    largest_increase_bps: float
    """β·C."""
    tmax_ns: int
    restart_bps: float
    """Rmin at first; it halves at each expiry."""
    tick_ns: int
    """Td."""
    self_increase_bps: float
    """Rd; 0 for none."""
    enabled: Annotated[NDArray[np.int64], 8]
    """1 for priorities that are rate limited."""


class Limiters(NamedTuple):
    """A reaction point: ``slots`` are the fine limiters, then the coarse ones by priority."""

    point: Point
    slots: Sequence[Limiter]


def set_table(
    record: TableSettings,
    parameters: ReactionPointParameters,
    *,
    link_rate_bps: int,
    floor_bps: int,
    restart_bps: int,
    self_increase_bps: int,
) -> None:
    """Fill ``record`` for limiters in front of a link of ``link_rate_bps``.

    Raises ParameterError if the floor is above the initial rate on such a link.
    """
    record.link_bps = float(link_rate_bps)
    record.floor_bps = float(floor_bps)
    record.initial_bps = parameters.initial_share * link_rate_bps
    record.largest_decrease = parameters.largest_decrease
    record.largest_increase_bps = parameters.largest_increase * link_rate_bps
    record.tmax_ns = parameters.tmax_ns
    record.restart_bps = float(restart_bps)
    record.tick_ns = parameters.self_increase_ns
    record.self_increase_bps = float(self_increase_bps)
    record.enabled[:] = [int(priority in parameters.enabled) for priority in range(PRIORITIES)]
    if record.floor_bps > record.initial_bps:
        needed = f"at most the initial rate ri·C ({format_rate(record.initial_bps)})"
        raise ParameterError(name="floor", needed=needed, got=format_rate(floor_bps))


def new_limiters(kind: type[Limiter], fine: int, settings: TableSettings, now_ns: int) -> Limiters:
    """Return a reaction point with ``fine`` limiters of record type ``kind``, started at ``now_ns``."""
    point = new_record(Point)
    point.tick_ns = now_ns + settings.tick_ns
    point.expires_ns = NEVER_NS
    slots = new_records(kind, fine + PRIORITIES)
    for slot in slots:
        slot.flow = NO_FLOW
        slot.expires_ns = NEVER_NS
        slot.rtt_average_ns = NO_AVERAGE
    return Limiters(point, slots)


@inlined
def fine_count(limiters: Limiters) -> int:
    """Return n, the number of fine limiters; a priority's coarse one stands at n + priority."""
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
    """Return the limiter that a frame of ``flow`` queues behind, or NO_LIMITER (no match).

    A flow's own limiter comes first, so that no frame overtakes another of its flow (rule 8).
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
    """Note that a frame queues behind limiter ``index``."""
    limiters.slots[index].waiting += 1


@compiled
def limiter_of(limiters: Limiters, flow: int, priority: int) -> int:
    """Return the limiter that a message about ``flow`` is for, or NO_LIMITER.

    That is the coarse one once it has taken over, except that a flow's time-out is seen through.
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
    """Give ``flow`` a limiter at the initial rate, associated with ``cpid``; return its index.

    It is a fine one, or when none is free the coarse one of ``priority`` (rule 8).
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
    """Associate ``limiter`` with ``cpid``; another congestion point has another round-trip time."""
    if limiter.cpid != cpid:
        limiter.cpid = cpid
        limiter.rtt_average_ns = NO_AVERAGE


@compiled
def _hand_over(limiters: Limiters, settings: TableSettings, priority: int, now_ns: int) -> None:
    # Rule 8.  A time-out is seen through: the limiter goes to the maximum rate when it ends.
    for index in range(limiters.point.span):
        limiter = limiters.slots[index]
        if limiter.status != FREE and limiter.priority == priority:
            limiter.draining = 1
            if limiter.status == ACTIVE:
                set_rate(limiter, now_ns, settings.link_bps)
                release_idle(limiters, settings, index)


@compiled
def release_idle(limiters: Limiters, settings: TableSettings, index: int) -> bool:
    """Release limiter ``index`` if it limits no longer: at the link's rate, its queue empty (rule 6)."""
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
        # What still drains at full rate is a fine limiter like any other again.
        for other in range(point.span):
            if slots[other].priority == limiter.priority:
                slots[other].draining = 0
    return True
