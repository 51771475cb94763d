"""The compiled loops of a software switch: frames from an interface are queued, bridged or dropped.

Interfaces are numbered: the inputs have the numbers from 0 on, and the output has the last number. The rules:

1. Frames from an input to the output pass queues at the line's rate (`engine.port`) and the congestion point,
   which may rewrite the frames' tags. A frame is dropped if the port's buffer or the frame store is full.
2. All other frames are forwarded without a queue: frames from the output, and frames to a station at an
   input. A frame to a station at the receiving interface is discarded. A frame to a group or to an unknown
   station is sent by all other interfaces.
3. MAC Control and link-local frames are for the switch itself and are not forwarded.
4. A forwarded frame is unchanged, except for a rate that the congestion point lowered.
5. No frame of a priority starts while PAUSE or PFC from the other end of the output stops the priority.
6. At equal times, the order is departures, resumes, the congestion point's timer, and arrivals.
7. A line loses no time. After a wait for the processor, the switch processes the missed events in order of
   time, in steps of a millisecond. The time of a frame is the kernel's timestamp. The congestion point's
   timer waits until the switch has caught up, because messages could not arrive earlier. After a wait of more
   than 200 ms, the switch catches up for the last 200 ms only. Late frames are sent together.

`forward` and `release` use the time that the caller passes. `drive` runs both functions on real interfaces
with the monotonic clock, and needs Python only for messages and rare events.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.frame_pool import Pool, give_back, is_used_up, take
from ecmproto.control.engine.gauge import PRIORITIES
from ecmproto.control.engine.port import Port, departs, stop
from ecmproto.control.engine.port_steps import PassingFrame, enter, leave, tick
from ecmproto.control.mechanisms.api.protocol import EVENT_MESSAGES, CongestionPoint, Outbox, has_capacity
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.reaction_point import (
    PauseFrame,
    PauseReactionSettings,
    PauseTimers,
    on_frame,
)
from ecmproto.frames.batch.classes import FrameClass, class_of
from ecmproto.frames.batch.headers import ADDRESS_OCTETS, HEADER_OCTETS, address, is_group
from ecmproto.frames.batch.parse_tables import ParseTables
from ecmproto.frames.batch.tags import TagLayout, own_tag, write_tag
from ecmproto.frames.capture.linux.departures import new_counts
from ecmproto.frames.capture.linux.wires import (
    FAILED,
    FRAMES_CAME,
    MESSAGES_POSTED,
    NOT_SENT,
    TIME_CAME,
    WOKEN,
    Wires,
    came_ns,
    count_late,
    has_frames,
    is_served,
    monotonic_ns,
    receive,
    receive_until,
    send,
    sleep,
)
from ecmproto.kernels.kernel import compiled, inlined, released

NOWHERE = -1
"""The interface number of an unknown address."""
_WAYS = 4
_EMPTY = -1
_COEFFICIENT_BITS = 29
_HALF_BITS = 24
_HALF = (1 << _HALF_BITS) - 1
_STEP_NS, _LATEST_NS = 1_000_000, 200_000_000
"""The step and the maximum delay for catching up; see rule 7."""


class SwitchCounts:
    """Counters of frames, stored in a record (``kernels.record``)."""

    queued_frames: int
    queued_octets: int
    dropped_frames: int
    """Frames for which the buffer or the frame store had no space."""
    dropped_octets: int
    departed_frames: int
    departed_octets: int
    bridged_frames: int
    """Frames that were forwarded to one interface without waiting in a queue."""
    flooded_frames: int
    """Frames that were forwarded to all other interfaces without waiting in the output's queue."""
    filtered_frames: int
    """Frames to a station at the interface where the frame was received."""
    link_local_frames: int
    """MAC Control and link-local frames, which switches do not forward."""
    refused_frames: int
    """Frames that are too short for an Ethernet header, or longer than the switch accepts."""
    lowered_tags: int
    learned: int
    """The number of addresses that were learned or that moved to another interface."""
    missed_ns: int
    """The total time for which the switch's own time did not advance."""


class SwitchFacts:
    """The constants of a switch, stored in a record."""

    inputs: int
    largest_octets: int
    remembered_ns: int
    """The ageing time of addresses."""
    own: int
    """The congestion point's address, as a number."""


class SwitchClock:
    """A switch's own time, which is never before the time of a sent frame, stored in a record."""

    start_ns: int
    """The start of the switch's own time, as a reading of the caller's clock."""
    lead_ns: int
    """The time by which the switch sends frames early."""
    until_ns: int
    """The switch's own time up to which all events are processed."""
    lag_ns: int
    """The delay of the switch's own time relative to the caller's clock, while the switch catches up."""
    timer_waits: int
    """1 while the congestion point's timer waits until the switch has caught up."""


class Switch(NamedTuple):
    """The state of a switch; a waiting frame has the same index in ``store`` and ``pool``.

    ``pauses`` has the pauses from the other end of the output; the port has the currently stopped priorities.
    ``tables`` is the result of `ecmproto.frames.batch.parse_tables.parse_tables` for the used EtherTypes.
    """

    facts: SwitchFacts
    counts: SwitchCounts
    clock: SwitchClock
    port: Port
    pauses: PauseTimers
    pool: Pool
    store: FrameStore
    addresses: Addresses
    outgoing: Outgoing
    outbox: Outbox
    tables: ParseTables
    layout: TagLayout
    """The layout of the mechanism's own tag."""


@compiled
def release(switch: Switch, point: CongestionPoint, now_ns: int) -> bool:
    """Process departures and timers until ``now_ns``; return False if the capacity is exhausted earlier."""
    line, late = switch.port.line, False
    while has_event_capacity(switch):
        tick_ns = NEVER_NS if switch.clock.lag_ns > 0 else point.next_timer_ns()
        resumes_ns = _resumes_ns(switch)
        if departs(line, min(now_ns, min(tick_ns, resumes_ns))):
            when_ns, index = line.departure_ns, line.in_service_token
            leave(switch.port, point, switch.outbox, switch.pool.frames[index].station)
            _depart(switch, index, when_ns)
        elif resumes_ns <= min(now_ns, tick_ns):
            _review(switch, resumes_ns)
        elif tick_ns <= now_ns:
            # At an empty port, nothing changes between ticks, so one call processes all ticks.
            is_one = switch.clock.timer_waits != 0 or (late and switch.port.gauge.total.octets == 0)
            tick(switch.port, point, switch.outbox, now_ns if is_one else tick_ns)
            late, switch.clock.timer_waits = True, 0
        else:
            return True
    return False


@inlined
def _depart(switch: Switch, index: int, when_ns: int) -> None:
    """Send the frame in slot ``index`` by the output; ``when_ns`` is the scheduled departure time."""
    switch.outgoing.due_ns[switch.outgoing.frames[switch.facts.inputs]] = when_ns
    octets = switch.pool.frames[index].octets
    at = append_octets(switch.outgoing, switch.store.octets, index * switch.store.slot_octets, octets)
    send_by(switch.outgoing, switch.facts.inputs, at, octets)
    give_back(switch.pool, index)
    switch.counts.departed_frames += 1
    switch.counts.departed_octets += octets


@inlined
def _resumes_ns(switch: Switch) -> int:
    """Return the time at which the next stopped priority resumes."""
    mask, first_ns = switch.port.line.stopped_mask, NEVER_NS
    if mask != 0:
        for priority in range(PRIORITIES):
            if (mask >> priority) & 1:
                first_ns = min(first_ns, switch.pauses.until_ns[priority])
    return int(first_ns)


@inlined
def _review(switch: Switch, now_ns: int) -> None:
    """Stop the priorities that are paused at ``now_ns``, and resume the other priorities."""
    mask = 0
    for priority in range(PRIORITIES):
        if switch.pauses.until_ns[priority] > now_ns:
            mask |= 1 << priority
    stop(switch.port, mask, now_ns)


@compiled
def obey(switch: Switch, settings: PauseReactionSettings, frame: PauseFrame, now_ns: int) -> None:
    """Process a PAUSE or PFC frame from the other end of the output, after all events due at ``now_ns``."""
    on_frame(switch.pauses, settings, now_ns, frame)
    _review(switch, now_ns)


@compiled
def forward(
    switch: Switch,
    point: CongestionPoint,
    frames: Incoming,
    interface: int,
    now_ns: int,
    until_ns: int,
    first: int,
    count: int,
) -> int:
    """Forward ``count`` frames of ``frames``, received at ``interface``, starting at index ``first``.

    Earlier departures are processed before each frame. The events due until ``until_ns``, which is not before
    ``now_ns``, are processed after all frames. The ``cause`` of a message is the index of the frame that
    caused the message. Returns the index of the first unprocessed frame, because the function returns early
    when a store is full.
    """
    if not release(switch, point, now_ns):
        return first
    largest_octets = switch.facts.largest_octets
    for position in range(first, count):
        if not has_event_capacity(switch):
            return position
        octets = frames.captured[position]
        if octets < HEADER_OCTETS or octets > largest_octets or frames.original[position] > octets:
            switch.counts.refused_frames += 1
        else:
            _take(switch, point, frames, position, interface, now_ns)
    release(switch, point, until_ns)
    return count


@inlined
def _take(
    switch: Switch, point: CongestionPoint, frames: Incoming, position: int, interface: int, now_ns: int
) -> None:
    """Queue, bridge, flood or discard one frame that was received at ``interface``."""
    counts, inputs, buffer = switch.counts, switch.facts.inputs, frames.buffer
    start, octets = frames.offset[position], frames.captured[position]
    source = address(buffer, start + ADDRESS_OCTETS)
    if not is_group(source) and learn(switch.addresses, source, interface, now_ns):
        counts.learned += 1
    frame_class = class_of(buffer, start, start + octets, switch.tables, switch.facts.own)
    if not frame_class.occupies:
        counts.link_local_frames += 1
        return
    destination = address(buffer, start)
    to = NOWHERE
    if not is_group(destination):
        to = lookup(switch.addresses, destination, now_ns - switch.facts.remembered_ns)
    if to == interface:
        counts.filtered_frames += 1
        return
    if interface != inputs and to in (inputs, NOWHERE):
        _arrive(switch, point, frames, position, frame_class, interface, now_ns)
    if to == NOWHERE:
        _flood(switch, buffer, start, octets, interface)
    elif to != inputs:
        send_by(switch.outgoing, to, append_octets(switch.outgoing, buffer, start, octets), octets)
        counts.bridged_frames += 1


@inlined
def _flood(switch: Switch, buffer: NDArray[np.uint8], start: int, octets: int, interface: int) -> None:
    """Send a frame by every input except the interface where the frame was received."""
    inputs = switch.facts.inputs
    if inputs == 1 and interface == 0:
        return
    at = append_octets(switch.outgoing, buffer, start, octets)
    switch.counts.flooded_frames += 1
    for other in range(inputs):
        if other != interface:
            send_by(switch.outgoing, other, at, octets)


@inlined
def _arrive(
    switch: Switch,
    point: CongestionPoint,
    frames: Incoming,
    position: int,
    kind: FrameClass,
    interface: int,
    now_ns: int,
) -> None:
    """Queue a frame for the output or drop the frame, and update the congestion point."""
    counts = switch.counts
    octets, priority = frames.captured[position], kind.priority
    tag = own_tag(frames.buffer, frames.offset[position], octets, switch.tables, switch.layout)
    passing = PassingFrame(
        position, interface, -1, priority, octets, kind.sampled, kind.answerable, tag.tagged, tag.tag,
        tag.mark,
    )  # fmt: skip
    fits = not is_used_up(switch.pool, 1)
    index = take(switch.pool) if fits else NOWHERE
    enqueued, lowered = enter(switch.port, point, switch.outbox, passing, index, fits, now_ns)
    if not enqueued:
        if fits:
            give_back(switch.pool, index)
        counts.dropped_frames += 1
        counts.dropped_octets += octets
        return
    counts.queued_frames += 1
    counts.queued_octets += octets
    frame = switch.pool.frames[index]
    frame.station, frame.priority, frame.octets = interface, priority, octets
    at = index * switch.store.slot_octets
    start = frames.offset[position]
    copy(frames.buffer, start, switch.store.octets, at, octets)
    if lowered != tag.tag:
        counts.lowered_tags += 1
        write_tag(switch.store.octets, at + tag.at, switch.layout, lowered)


@inlined
def own_time(clock: SwitchClock, now_ns: int) -> int:
    """Return the switch's own time, which is never before the time of a frame already sent."""
    time_ns = max(now_ns - clock.start_ns - clock.lag_ns, clock.until_ns)
    clock.until_ns = time_ns + clock.lead_ns
    return int(time_ns)


@compiled
def due_ns(switch: Switch, point: CongestionPoint) -> int:
    """Return the time of the next event, or NEVER_NS while no frame waits."""
    line = switch.port.line
    if line.in_service_octets != 0:
        return int(switch.clock.start_ns + min(line.departure_ns, point.next_timer_ns()))
    if line.stopped_mask != 0 and line.waiting_mask != 0:
        return int(switch.clock.start_ns + min(_resumes_ns(switch), point.next_timer_ns()))
    # Ticks at an empty port can wait until the next arrival.
    return NEVER_NS


@released
def drive(
    switch: Switch,
    point: CongestionPoint,
    wires: Wires,
    until_ns: int,
    coalesce_ns: int,
    looks_at_output: bool,
) -> int:
    """Forward received frames and send leaving frames until ``until_ns``, or until the caller must act.

    Returns a reason of `capture.linux.wires`. The caller then processes the frames in ``wires.state`` from
    ``position`` on, the messages in the outbox, or the frames in ``outgoing``. With ``looks_at_output``, the
    caller examines frames received at the output.
    """
    state, clock = wires.state, switch.clock
    while True:
        now_ns, passes_on = monotonic_ns(wires), True
        if clock.lag_ns == 0:
            if now_ns >= until_ns:
                return TIME_CAME
            sleep_ns = min(due_ns(switch, point), until_ns) - now_ns
            passes_on = is_served(wires)
            if passes_on:
                if sleep(wires, sleep_ns, coalesce_ns):
                    return WOKEN
                now_ns = monotonic_ns(wires)
                _set_back(switch, point, wires, now_ns, max(_STEP_NS, coalesce_ns))
        if clock.lag_ns > 0:
            clock.lag_ns = max(0, clock.lag_ns - _STEP_NS)
        first = state.first
        for turn in range(state.interfaces):
            interface = (first + turn) % state.interfaces
            if not has_frames(wires, interface):
                continue
            if passes_on:
                # The last frames of a batch see the longest queue, so each input is first in turn.
                state.first, passes_on = (interface + 1) % state.interfaces, False
            if clock.lag_ns > 0:
                receive_until(wires, interface, now_ns - clock.lag_ns)
            elif not receive(wires, interface):
                return FAILED
            state.position = 0
            if state.frames > 0:
                if looks_at_output and interface == switch.facts.inputs:
                    return FRAMES_CAME
                why = _forward_received(switch, point, wires, now_ns)
                if why != TIME_CAME:
                    return why
        if due_ns(switch, point) <= now_ns - clock.lag_ns:
            done, until = False, own_time(clock, now_ns) + clock.lead_ns
            state.frames = state.position = 0
            while not done:
                done = release(switch, point, until)
                why = _flush(switch, wires)
                if why != TIME_CAME:
                    return why


@inlined
def _set_back(switch: Switch, point: CongestionPoint, wires: Wires, now_ns: int, unnoticed_ns: int) -> None:
    """Set the switch's own time back to the first missed event, if the switch is late."""
    clock = switch.clock
    received_ns, due = came_ns(wires), due_ns(switch, point)
    since_ns = max(min(received_ns, due), clock.start_ns + clock.until_ns)
    late_ns = now_ns - since_ns
    if late_ns <= unnoticed_ns:
        return
    still_ns = max(late_ns - _LATEST_NS, 0)
    clock.start_ns += still_ns
    switch.counts.missed_ns += still_ns
    clock.lag_ns, clock.timer_waits = late_ns - still_ns, 1


@inlined
def _forward_received(switch: Switch, point: CongestionPoint, wires: Wires, now_ns: int) -> int:
    """Forward the received frames; return a reason as `drive` does, or TIME_CAME after all frames."""
    state, clock = wires.state, switch.clock
    frames = Incoming(wires.rings[state.interface].octets, wires.offset, wires.captured, wires.original)
    time_ns = own_time(clock, now_ns)
    until_ns = time_ns + clock.lead_ns
    while state.position < state.frames:
        state.position = forward(
            switch, point, frames, state.interface, time_ns, until_ns, state.position, state.frames
        )
        why = _flush(switch, wires)
        if why != TIME_CAME:
            return why
    return TIME_CAME


@inlined
def _flush(switch: Switch, wires: Wires) -> int:
    """Send the leaving frames; return a reason as `drive` does, or TIME_CAME if no frame remains."""
    outgoing, outbox = switch.outgoing, switch.outbox
    if outgoing.used[0] != 0:
        for interface in range(len(outgoing.frames)):
            count = outgoing.frames[interface]
            if count == 0:
                continue
            offset, length = outgoing.offset[interface], outgoing.length[interface]
            sent = send(wires, interface, outgoing.octets_at[0], offset, length, count)
            if interface == switch.facts.inputs:
                left_ns = monotonic_ns(wires) - switch.clock.start_ns
                for frame in range(sent):
                    count_late(outgoing.lateness, left_ns - outgoing.due_ns[frame])
            if sent < count:
                # The remaining frames move to the front.
                for frame in range(count - sent):
                    offset[frame], length[frame] = offset[frame + sent], length[frame + sent]
                outgoing.frames[interface] = count - sent
                return NOT_SENT
            outgoing.frames[interface] = 0
        clear(outgoing)
    for number in range(outbox.posted.count):
        if outbox.messages[number].sent != 0:
            return MESSAGES_POSTED
    outbox.posted.count = 0
    return TIME_CAME


@compiled
def forwarded(point: CongestionPoint, priority: int, tag: int) -> int:
    """Return the tag that a frame has after ``point`` has processed the frame."""
    return point.rewrite_tag(priority, tag)


class Incoming(NamedTuple):
    """Frames received together, with columns as in `ecmproto.frames.capture.batch.Batch`."""

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    captured: NDArray[np.int64]
    original: NDArray[np.int64]


class Outgoing(NamedTuple):
    """Frames to send, with one row per interface and ``frames`` used entries in a row.

    The octets of the frames are consecutive in ``octets``. The first ``used[0]`` octets are in use, and
    ``octets_at[0]`` is their memory address.
    """

    frames: NDArray[np.int64]
    used: NDArray[np.int64]
    octets_at: NDArray[np.int64]
    octets: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    due_ns: NDArray[np.int64]
    """The scheduled departure time of each frame that is sent by the output."""
    lateness: NDArray[np.int64]
    """The delays of departures, as in `ecmproto.frames.capture.linux.departures.new_counts`."""


def new_outgoing(interfaces: int, *, frames: int, largest_octets: int) -> Outgoing:
    """Return empty stores for up to ``frames`` frames of up to ``largest_octets`` octets."""
    octets = np.zeros(frames * largest_octets, np.uint8)
    return Outgoing(
        np.zeros(interfaces, np.int64),
        np.zeros(1, np.int64),
        np.array([octets.ctypes.data]),
        octets,
        np.zeros((interfaces, frames), np.int64),
        np.zeros((interfaces, frames), np.int64),
        np.zeros(frames, np.int64),
        new_counts(),
    )


@inlined
def clear(outgoing: Outgoing) -> None:
    """Remove all frames, after the frames were sent."""
    for interface in range(len(outgoing.frames)):
        outgoing.frames[interface] = 0
    outgoing.used[0] = 0


@inlined
def has_event_capacity(switch: Switch) -> bool:
    """Return whether the messages of one more event, and one more frame per interface, fit."""
    outgoing, capacity = switch.outgoing, switch.outgoing.offset.shape[1]
    for interface in range(len(outgoing.frames)):
        if outgoing.frames[interface] >= capacity:
            return False
    fits = outgoing.used[0] + switch.facts.largest_octets <= len(outgoing.octets)
    return bool(fits and has_capacity(switch.outbox, EVENT_MESSAGES))


@inlined
def append_octets(outgoing: Outgoing, buffer: NDArray[np.uint8], start: int, octets: int) -> int:
    """Append a frame to the octets to send, and return the frame's offset."""
    at = outgoing.used[0]
    copy(buffer, start, outgoing.octets, at, octets)
    outgoing.used[0] = at + octets
    return int(at)


@inlined
def send_by(outgoing: Outgoing, interface: int, at: int, octets: int) -> None:
    """Queue the frame at offset ``at`` for sending by ``interface``."""
    frame = outgoing.frames[interface]
    outgoing.offset[interface, frame] = at
    outgoing.length[interface, frame] = octets
    outgoing.frames[interface] = frame + 1


@inlined
def copy(source: NDArray[np.uint8], start: int, target: NDArray[np.uint8], at: int, octets: int) -> None:
    """Copy ``octets`` octets from offset ``start`` in ``source`` to offset ``at`` in ``target``."""
    from_, to = source[start : start + octets], target[at : at + octets]
    for i in range(len(from_)):
        to[i] = from_[i]


class FrameStore(NamedTuple):
    """Octets of waiting frames; slot i starts at offset i · ``slot_octets``."""

    octets: NDArray[np.uint8]
    slot_octets: int


def new_frame_store(slots: int, slot_octets: int) -> FrameStore:
    """Return a frame store; slots that were never used occupy no memory."""
    return FrameStore(np.zeros(slots * slot_octets, np.uint8), slot_octets)


class Addresses(NamedTuple):
    """Table of the interface of each station, learned from frames and aged out, with bounded memory.

    The table has a fixed size and consists of groups of four entries. A new address replaces an expired entry
    of the address's group, or else the least recently used entry. A flood of forged sources therefore cannot
    enlarge the table. The group of an address depends on coefficients that are random for each table, so an
    attacker cannot choose addresses of one group.
    """

    address: NDArray[np.int64]
    interface: NDArray[np.int64]
    learned_ns: NDArray[np.int64]
    coefficients: NDArray[np.int64]


def new_addresses(size: int) -> Addresses:
    """Return an empty table for ``size`` addresses; ``size`` is a power of two of at least four."""
    drawn = [secrets.randbits(_COEFFICIENT_BITS) | 1 for _ in range(2)]
    return Addresses(
        np.full(size, _EMPTY, np.int64),
        np.full(size, NOWHERE, np.int64),
        np.zeros(size, np.int64),
        np.array(drawn, np.int64),
    )


@inlined
def learn(addresses: Addresses, address: int, interface: int, now_ns: int) -> bool:
    """Record that ``address`` is at ``interface``; return whether the address is new or has moved."""
    known, interfaces, learned_ns, _ = addresses
    first = _group(addresses, address)
    oldest = first
    for entry in range(first, first + _WAYS):
        if known[entry] == address:
            moved = interfaces[entry] != interface
            interfaces[entry] = interface
            learned_ns[entry] = now_ns
            return bool(moved)
        if known[entry] == _EMPTY or (known[oldest] != _EMPTY and learned_ns[entry] < learned_ns[oldest]):
            oldest = entry
    known[oldest] = address
    interfaces[oldest] = interface
    learned_ns[oldest] = now_ns
    return True


@inlined
def lookup(addresses: Addresses, address: int, since_ns: int) -> int:
    """Return the interface of ``address``, or NOWHERE if ``address`` sent no frame since ``since_ns``."""
    known, interfaces, learned_ns, _ = addresses
    first = _group(addresses, address)
    for entry in range(first, first + _WAYS):
        if known[entry] == address and learned_ns[entry] >= since_ns:
            return int(interfaces[entry])
    return NOWHERE


@inlined
def _group(addresses: Addresses, address: int) -> int:
    """Return the index of the first entry of the group of ``address``."""
    coefficients = addresses.coefficients
    # With products of halves and coefficients, no step needs more than 54 bits, so plain Python agrees.
    mixed = (address & _HALF) * coefficients[0] + (address >> _HALF_BITS) * coefficients[1]
    return int((mixed ^ (mixed >> _HALF_BITS)) & (len(addresses.address) // _WAYS - 1)) * _WAYS
