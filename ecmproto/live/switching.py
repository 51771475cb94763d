"""What a software switch does to frames: the loops over what came in at one of its places.

Its places are numbered: the inputs from 0 on, then the output.  The rules:

1. Frames from an input leave by the output through queues at the line's rate, as `ecmproto.engine.port` has
   it, past the congestion point, which may rewrite their tag.  They find no room when the port's buffer is
   full or its store of frames is.
2. All else is bridged at once: frames to a station that lives at an input, those from the output.  A frame to
   where it came from goes nowhere; one to a group or to nobody known goes everywhere else.
3. MAC Control and link-local frames are for the switch itself: they go nowhere.
4. A frame leaves as it came, but for the rate that the congestion point lowered.
5. Priorities that PAUSE or PFC from the output's far end has stopped start no frame.
6. At one instant departures come first, then resumes, the congestion point's timer, and arrivals last.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.classes import FrameClass, class_of
from ecmproto.batch.headers import ADDRESS_OCTETS, HEADER_OCTETS, address, is_group
from ecmproto.batch.tags import CN, NONE, OwnTag, own_tag
from ecmproto.engine.gauge import PRIORITIES, TOTAL
from ecmproto.engine.network import Pool, give_back, is_used_up, take
from ecmproto.engine.port import Port, arrive, depart, departs, stop
from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.api.protocol import NO_CAUSE, Arrival, CongestionPoint, Outbox, has_room
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.pause.reaction_point import PauseFrame, PauseReactionSettings, PauseTimers, on_frame

NOWHERE = -1

_WAYS = 4
_EMPTY = -1
_COEFFICIENT_BITS = 29
_HALF_BITS = 24
_HALF = (1 << _HALF_BITS) - 1


class Addresses(NamedTuple):
    """The table: addresses as numbers, where each lives, and when it was last heard."""

    address: NDArray[np.int64]
    place: NDArray[np.int64]
    heard_ns: NDArray[np.int64]
    coefficients: NDArray[np.int64]


def new_addresses(size: int) -> Addresses:
    """Return an empty table for ``size`` addresses, a power of two of at least four."""
    drawn = [secrets.randbits(_COEFFICIENT_BITS) | 1 for _ in range(2)]
    return Addresses(
        np.full(size, _EMPTY, np.int64),
        np.full(size, NOWHERE, np.int64),
        np.zeros(size, np.int64),
        np.array(drawn, np.int64),
    )


@inlined
def learn(addresses: Addresses, address: int, place: int, now_ns: int) -> bool:
    """Take note that ``address`` lives at ``place``; return whether it is new, or lived elsewhere."""
    known, places, heard_ns, _ = addresses
    first = _group(addresses, address)
    oldest = first
    for entry in range(first, first + _WAYS):
        if known[entry] == address:
            moved = places[entry] != place
            places[entry] = place
            heard_ns[entry] = now_ns
            return bool(moved)
        if known[entry] == _EMPTY or (known[oldest] != _EMPTY and heard_ns[entry] < heard_ns[oldest]):
            oldest = entry
    known[oldest] = address
    places[oldest] = place
    heard_ns[oldest] = now_ns
    return True


@inlined
def lookup(addresses: Addresses, address: int, since_ns: int) -> int:
    """Return where ``address`` lives; NOWHERE if it was not heard from ``since_ns`` on."""
    known, places, heard_ns, _ = addresses
    first = _group(addresses, address)
    for entry in range(first, first + _WAYS):
        if known[entry] == address and heard_ns[entry] >= since_ns:
            return int(places[entry])
    return NOWHERE


@inlined
def _group(addresses: Addresses, address: int) -> int:
    """Return the first entry of the group of ``address``."""
    coefficients = addresses.coefficients
    # Halves times coefficients: no step needs more than 54 bits, so plain Python gets the same.
    mixed = (address & _HALF) * coefficients[0] + (address >> _HALF_BITS) * coefficients[1]
    return int((mixed ^ (mixed >> _HALF_BITS)) & (len(addresses.address) // _WAYS - 1)) * _WAYS


class Incoming(NamedTuple):
    """Frames that came in together, by columns, as in `ecmproto.capture.batch.Batch`."""

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    captured: NDArray[np.int64]
    original: NDArray[np.int64]


class Leaving(NamedTuple):
    """Frames that are to leave by each of a device's places: a row a place, of which ``frames`` are there.

    Their octets lie one behind the other in ``octets``, of which ``used[0]`` are.
    """

    frames: NDArray[np.int64]
    used: NDArray[np.int64]
    octets: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]


def new_leaving(places: int, *, frames: int, largest_octets: int) -> Leaving:
    """Return room for ``frames`` frames of up to ``largest_octets`` to leave at once."""
    return Leaving(
        np.zeros(places, np.int64),
        np.zeros(1, np.int64),
        np.zeros(frames * largest_octets, np.uint8),
        np.zeros((places, frames), np.int64),
        np.zeros((places, frames), np.int64),
    )


def empty(leaving: Leaving) -> None:
    """Make room: all that was there has left."""
    leaving.frames[:] = 0
    leaving.used[0] = 0


@inlined
def has_space(leaving: Leaving, largest_octets: int) -> bool:
    """Whether one frame more may leave by every place."""
    room = leaving.offset.shape[1]
    for place in range(len(leaving.frames)):
        if leaving.frames[place] >= room:
            return False
    return bool(leaving.used[0] + largest_octets <= len(leaving.octets))


@inlined
def put(leaving: Leaving, buffer: NDArray[np.uint8], start: int, octets: int) -> int:
    """Copy a frame to the octets that leave; return where it stands there."""
    at = leaving.used[0]
    copy(buffer, start, leaving.octets, at, octets)
    leaving.used[0] = at + octets
    return int(at)


@inlined
def let_leave(leaving: Leaving, place: int, at: int, octets: int) -> None:
    """Let the frame that stands at ``at`` leave by ``place``."""
    frame = leaving.frames[place]
    leaving.offset[place, frame] = at
    leaving.length[place, frame] = octets
    leaving.frames[place] = frame + 1


@inlined
def copy(source: NDArray[np.uint8], start: int, target: NDArray[np.uint8], at: int, octets: int) -> None:
    """Copy ``octets`` octets from ``start`` on in ``source`` to ``at`` in ``target``."""
    from_, to = source[start : start + octets], target[at : at + octets]
    for i in range(len(from_)):
        to[i] = from_[i]


class Store(NamedTuple):
    """Octets of frames that wait: slot i from i · ``slot_octets`` on."""

    octets: NDArray[np.uint8]
    slot_octets: int


def new_store(slots: int, slot_octets: int) -> Store:
    """Return a store; memory that no frame has stood in yet takes no room."""
    return Store(np.zeros(slots * slot_octets, np.uint8), slot_octets)


_ROOM = 16
"""More messages than an event posts; ticks look for room themselves."""
_RATE_OCTETS = 4


class SwitchCounts:
    """What became of frames; a record (``ecmproto.record``)."""

    queued_frames: int
    queued_octets: int
    dropped_frames: int
    """They found the buffer or the store full."""
    dropped_octets: int
    departed_frames: int
    departed_octets: int
    bridged_frames: int
    """Sent on at once, to one place."""
    flooded_frames: int
    """Sent on at once to every place but their own, apart from the output's queue."""
    filtered_frames: int
    """To a station where they came from."""
    link_local_frames: int
    """MAC Control and link-local frames, which no switch sends on."""
    refused_frames: int
    """Too short for an Ethernet header, or longer than the switch takes."""
    lowered_tags: int
    learned: int
    """How often an address was new, or had moved."""


class SwitchFacts:
    """What is fixed; a record."""

    inputs: int
    largest_octets: int
    remembered_ns: int
    """How long addresses are."""
    own: int
    """The congestion point's address, as a number."""
    tag: int
    """Which tag the congestion point looks at: CN, NONE, or the Protocol of an experimental one."""


class Switch(NamedTuple):
    """A switch's state.  A waiting frame's slot in ``store`` is its number in ``pool``.

    ``pauses`` is what the output's far end has said; which priorities it stops now the port knows.
    ``roles`` are what `ecmproto.batch.headers.roles_of` makes of the EtherTypes in use.
    """

    facts: SwitchFacts
    counts: SwitchCounts
    port: Port
    pauses: PauseTimers
    pool: Pool
    store: Store
    addresses: Addresses
    leaving: Leaving
    outbox: Outbox
    roles: NDArray[np.uint8]


@compiled
def release(switch: Switch, point: CongestionPoint, now_ns: int) -> bool:
    """Let departures and ticks happen up to ``now_ns``; False if something has no more room before that."""
    line, gauge = switch.port.line, switch.port.gauge
    late = False
    while has_room(switch.outbox, _ROOM) and has_space(switch.leaving, switch.facts.largest_octets):
        tick_ns, resumes_ns = point.next_timer_ns(), _resumes_ns(switch)
        if departs(line, min(now_ns, min(tick_ns, resumes_ns))):
            when_ns = line.departure_ns
            index = depart(switch.port)
            frame = switch.pool.frames[index]
            port_octets = gauge.level_octets[TOTAL]
            point.on_dequeue(when_ns, frame.station, frame.priority, frame.octets, port_octets, switch.outbox)
            _depart(switch, index)
        elif resumes_ns <= min(now_ns, tick_ns):
            _review(switch, resumes_ns)
        elif tick_ns <= now_ns:
            # At an empty port nothing changes from tick to tick: one call catches up with all.
            when_ns = now_ns if late and gauge.level_octets[TOTAL] == 0 else tick_ns
            point.on_timer(when_ns, gauge.level_octets[:PRIORITIES], switch.outbox)
            late = True
        else:
            return True
    return False


@inlined
def _depart(switch: Switch, index: int) -> None:
    """Let the frame in slot ``index`` leave by the output."""
    octets = switch.pool.frames[index].octets
    at = put(switch.leaving, switch.store.octets, index * switch.store.slot_octets, octets)
    let_leave(switch.leaving, switch.facts.inputs, at, octets)
    give_back(switch.pool, index)
    switch.counts.departed_frames += 1
    switch.counts.departed_octets += octets


@inlined
def _resumes_ns(switch: Switch) -> int:
    """Return when the next stopped priority resumes."""
    mask, first_ns = switch.port.line.stopped_mask, NEVER_NS
    if mask != 0:
        for priority in range(PRIORITIES):
            if (mask >> priority) & 1:
                first_ns = min(first_ns, switch.pauses.until_ns[priority])
    return int(first_ns)


@inlined
def _review(switch: Switch, now_ns: int) -> None:
    """Stop the priorities that are to be stopped at ``now_ns``, let others go on."""
    mask = 0
    for priority in range(PRIORITIES):
        if switch.pauses.until_ns[priority] > now_ns:
            mask |= 1 << priority
    stop(switch.port, mask, now_ns)


@compiled
def obey(switch: Switch, settings: PauseReactionSettings, frame: PauseFrame, now_ns: int) -> None:
    """Take a PAUSE or PFC frame from the output's far end; all that was due by ``now_ns`` has happened."""
    on_frame(switch.pauses, settings, now_ns, frame)
    _review(switch, now_ns)


@compiled
def forward(
    switch: Switch,
    point: CongestionPoint,
    frames: Incoming,
    place: int,
    now_ns: int,
    until_ns: int,
    first: int,
) -> int:
    """Take ``frames`` from position ``first`` on, which came in at ``place``, after what is due by then.

    When all are taken, what is due by ``until_ns``, which is not before ``now_ns``, happens too.
    The position of the frame that caused a message is in the message's ``cause``.  Returns the position of
    the first frame that was not taken: it stops early when something has no more room.
    """
    if not release(switch, point, now_ns):
        return first
    largest_octets = switch.facts.largest_octets
    for position in range(first, len(frames.offset)):
        if not (has_room(switch.outbox, _ROOM) and has_space(switch.leaving, largest_octets)):
            return position
        octets = frames.captured[position]
        if octets < HEADER_OCTETS or octets > largest_octets or frames.original[position] > octets:
            switch.counts.refused_frames += 1
        else:
            _take(switch, point, frames, position, place, now_ns)
    release(switch, point, until_ns)
    return len(frames.offset)


@inlined
def _take(
    switch: Switch, point: CongestionPoint, frames: Incoming, position: int, place: int, now_ns: int
) -> None:
    """Let a frame come in at ``place``."""
    counts, inputs, buffer = switch.counts, switch.facts.inputs, frames.buffer
    start, octets = frames.offset[position], frames.captured[position]
    source = address(buffer, start + ADDRESS_OCTETS)
    if not is_group(source) and learn(switch.addresses, source, place, now_ns):
        counts.learned += 1
    found = class_of(buffer, start, start + octets, switch.roles, switch.facts.own)
    if not found.occupies:
        counts.link_local_frames += 1
        return
    destination = address(buffer, start)
    to = NOWHERE
    if not is_group(destination):
        to = lookup(switch.addresses, destination, now_ns - switch.facts.remembered_ns)
    if to == place:
        counts.filtered_frames += 1
        return
    if place != inputs and to in (inputs, NOWHERE):
        _enqueue(switch, point, frames, position, found, place, now_ns)
    if to == NOWHERE:
        _flood(switch, buffer, start, octets, place)
    elif to != inputs:
        let_leave(switch.leaving, to, put(switch.leaving, buffer, start, octets), octets)
        counts.bridged_frames += 1


@inlined
def _flood(switch: Switch, buffer: NDArray[np.uint8], start: int, octets: int, place: int) -> None:
    """Let a frame leave by every input but its own."""
    inputs = switch.facts.inputs
    if inputs == 1 and place == 0:
        return
    at = put(switch.leaving, buffer, start, octets)
    switch.counts.flooded_frames += 1
    for other in range(inputs):
        if other != place:
            let_leave(switch.leaving, other, at, octets)


@inlined
def _enqueue(
    switch: Switch,
    point: CongestionPoint,
    frames: Incoming,
    position: int,
    found: FrameClass,
    place: int,
    now_ns: int,
) -> None:
    """Let a frame come to the port."""
    counts, port, outbox = switch.counts, switch.port, switch.outbox
    octets, priority = frames.captured[position], found.priority
    tag = _tag(switch, frames, position, found)
    enqueued, index = not is_used_up(switch.pool, 1), NOWHERE
    if enqueued:
        index = take(switch.pool)
        enqueued = arrive(port, now_ns, priority, octets, index, tag.tagged)
        if not enqueued:
            give_back(switch.pool, index)
    outbox.posted.cause = position
    point.on_arrival(
        Arrival(
            now_ns, place, -1, priority, octets, found.sampled, found.answerable, enqueued,
            tag.tagged, tag.tag, tag.mark,
            port.gauge.level_octets[priority],
            port.gauge.level_octets[TOTAL],
        ),
        outbox,
    )  # fmt: skip
    outbox.posted.cause = NO_CAUSE
    if not enqueued:
        counts.dropped_frames += 1
        counts.dropped_octets += octets
        return
    counts.queued_frames += 1
    counts.queued_octets += octets
    frame = switch.pool.frames[index]
    frame.station, frame.priority, frame.octets = place, priority, octets
    at = index * switch.store.slot_octets
    start = frames.offset[position]
    copy(frames.buffer, start, switch.store.octets, at, octets)
    if tag.rate_at >= 0:
        lowered = point.rewrite_tag(priority, tag.tag)
        if lowered != tag.tag:
            counts.lowered_tags += 1
            for i in range(_RATE_OCTETS):
                shift = 8 * (_RATE_OCTETS - 1 - i)
                switch.store.octets[at + tag.rate_at + i] = (lowered >> shift) & 0xFF


@inlined
def _tag(switch: Switch, frames: Incoming, position: int, found: FrameClass) -> OwnTag:
    """Return what a frame says to the congestion point."""
    kind = switch.facts.tag
    if kind == NONE:
        return OwnTag(False, 0, 0, NOWHERE)
    if kind == CN:
        return OwnTag(found.cn_tagged, found.flow_id, 0, NOWHERE)
    return own_tag(frames.buffer, frames.offset[position], frames.captured[position], switch.roles, kind)


@compiled
def forwarded(point: CongestionPoint, priority: int, tag: int) -> int:
    """Return the tag that a frame carries on past ``point``."""
    return point.rewrite_tag(priority, tag)
