"""Compiled loop that sends streams at their times, in one or two threads.

A stream is a sequence of segments. Each segment sends its frames at an interval, from a start time to an end
time. A segment without an interval sends one frame.

1. A stream without ``every_frame`` renews. A frame of this stream may be sent twice, and a frame is skipped
   if the next frame is already due. A stream with ``every_frame`` sends each frame once, and sends late
   frames together.
2. Renewals are shared between two threads on two processors: the first thread sends even streams, and the
   second thread sends odd streams. Each thread also renews streams of the other thread that are late by a
   quarter of their interval (`STAGGER`), so that the loss of one processor causes no gap. With more than two
   streams, half of the streams renew half an interval later than the others, from the second frame of a
   segment. A late thread starts its next round with the first stream that did not fit into the last call. All
   other work is done by the first thread.
3. The first thread sends a segment without an interval while the second thread is between two rounds. A frame
   that releases the link therefore follows the last frame that holds it.
4. A thread that runs for `UNINTERRUPTED_NS` sleeps for a sixth of this time, while the other thread runs. If
   real-time threads leave less than a twentieth of each second, the kernel stops them for this time in one
   interval. Receivers of the same command are also real-time threads, with lower priority.
5. Each thread records the times at which it lost its processor to a hypervisor or an interrupt. At such a
   time the clock advances between two readings, or a sleep takes too long, while no other task of this host
   runs (``schedstat``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture.batch import Int64
from ecmproto.frames.capture.linux.departures import UNINTERRUPTED_NS, new_counts
from ecmproto.frames.capture.linux.departures import count_ns as _count_ns
from ecmproto.frames.capture.linux.packet_socket import MESSAGE
from ecmproto.frames.capture.linux.receiver import fence
from ecmproto.frames.capture.linux.wires import (
    CLOCK_MONOTONIC,
    DONTWAIT,
    External,
    clock_gettime,
    last_error,
    sendmmsg,
)
from ecmproto.kernels.kernel import compiled, inlined, released
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct
from ecmproto.units import NS_PER_S

BURST = 64
"""Maximum number of frames in one call."""
RENEWED = 8
"""Maximum number of renewals in one call, because no other frame is sent during the call.

The call takes as long as three frames.
"""
STAGGER = 2
_RESTS = 6
TAKEN_NS = 15_000
"""Minimum time without a processor that is recorded, in ns."""
MAX_STEALS = 1 << 20
NEVER_NS = 1 << 62
_LOOK_NS = 50_000_000
"""Maximum sleep of a thread between checks for a stop, in ns."""
_RETRY_NS = 50_000
_ABSOLUTE = 1
"""Value of TIMER_ABSTIME."""
_WORDS = MESSAGE.itemsize // 8
_SCHEDSTAT_OCTETS = 64
_SPACE, _DIGIT_0 = 32, 48
_pread = External("pread", "int64", "int32", "int64", "int64", "int64")
_clock_nanosleep = External("clock_nanosleep", "int32", "int32", "int32", "int64", "int64")


class StreamFacts:
    """The state that both threads share, as a record (``kernels.record``)."""

    descriptor: int
    start_ns: int
    """Origin of all times of segments, from the monotonic clock."""
    stop: int
    second_busy: int
    """Whether the second thread is in a round."""
    resting: int
    """Whether a thread sleeps because of rule 4."""


class Timetable(Struct):
    """The streams and segments, and the progress of each stream; arrays by stream, then by segment."""

    facts: StreamFacts
    messages: Int64
    """Frames of all segments as messages to the kernel (struct mmsghdr), in 64-bit words."""
    segment: Int64
    end: Int64
    """Index after the last segment of each stream; ``segment`` is the current segment."""
    next_ns: Int64
    before_ns: Int64
    """Start of the call that sent the last frame of the stream; 0 if no frame was sent since the pause began.
    """
    counted_ns: Int64
    first_ns: Int64
    until_ns: Int64
    interval_ns: Int64
    limit_ns: Int64
    """Maximum gap that a frame of the segment covers; 0 means no limit."""
    message: Int64
    count: Int64
    """Number of messages of the segment, which are sent in rotation; ``message`` is the first message."""
    every_frame: Int64


class WorkerFacts:
    """The settings of one thread, as a record (``kernels.record``)."""

    outgoing_at: int
    moment_at: int
    second: int
    alone: int
    first: int
    """Stream with which the next round begins: the first stream that did not fit into the last call."""
    spin_ns: int
    rested_ns: int
    error: int
    looked_ns: int
    """Last reading of the clock; 0 before the first reading."""
    steals: int
    """Number of recorded times without a processor."""
    schedstat: int
    """Descriptor of the thread's ``/proc/thread-self/schedstat``; negative if there is no descriptor."""
    schedstat_at: int
    waited_ns: int
    """Total time that this thread waited while other tasks ran, at the last reading."""


class Worker(Struct):
    """The memory of one thread, and its counts by stream."""

    facts: WorkerFacts
    moment: Int64
    outgoing: Int64
    picked: Int64
    segment: Int64
    due_ns: Int64
    message: Int64
    accepted: Int64
    """1 for each sent frame of a call, whose stream, segment, time and message the previous arrays have."""
    frames: Int64
    by_message: Int64
    """Number of frames sent, by message."""
    skipped: Int64
    failed: Int64
    longer: Int64
    longest_ns: Int64
    excess_ns: Int64
    begun_ns: Int64
    last_ns: Int64
    late: Int64
    schedstat: NDArray[np.uint8]
    steal_ns: Int64
    """Start and end of each time without a processor, for at most `MAX_STEALS` times."""


def new_worker(streams: int, messages: int, *, second: bool, alone: bool = False, spin_ns: int) -> Worker:
    """Return the memory of a thread."""

    def zeros(count: int) -> NDArray[np.int64]:
        return np.zeros(count, np.int64)

    facts: Any = new_record(WorkerFacts)
    worker = Worker(
        facts, zeros(2), zeros(BURST * _WORDS), *(zeros(BURST) for _ in range(5)), zeros(streams),
        zeros(messages), *(zeros(streams) for _ in range(7)), new_counts(),
        np.zeros(_SCHEDSTAT_OCTETS, np.uint8), zeros(2 * MAX_STEALS),
    )  # fmt: skip
    facts.outgoing_at, facts.moment_at = worker.outgoing.ctypes.data, worker.moment.ctypes.data
    facts.schedstat, facts.schedstat_at = -1, worker.schedstat.ctypes.data
    facts.second, facts.alone, facts.spin_ns = int(second), int(alone), spin_ns
    return worker


@inlined
def look(worker: Worker) -> int:
    """Return the time of the monotonic clock."""
    clock_gettime(CLOCK_MONOTONIC, worker.facts.moment_at)
    worker.facts.looked_ns = worker.moment[0] * NS_PER_S + worker.moment[1]
    return int(worker.facts.looked_ns)


@compiled
def record_steal(worker: Worker, since_ns: int, now_ns: int) -> None:
    """Record a time without the processor, excluding the time in which other tasks ran."""
    own, waited_ns = worker.facts, 0
    octets = int(_pread(own.schedstat, own.schedstat_at, _SCHEDSTAT_OCTETS, 0))
    at = 0
    while at < octets and worker.schedstat[at] != _SPACE:
        at += 1
    at += 1
    while at < octets and worker.schedstat[at] != _SPACE:
        waited_ns = 10 * waited_ns + worker.schedstat[at] - _DIGIT_0
        at += 1
    until_ns = now_ns - (waited_ns - own.waited_ns)
    own.waited_ns = waited_ns
    if octets > 0 and until_ns > since_ns and own.steals < MAX_STEALS:
        worker.steal_ns[2 * own.steals], worker.steal_ns[2 * own.steals + 1] = since_ns, until_ns
        own.steals += 1


@inlined
def clock_ns(worker: Worker) -> int:
    """Return the time of the monotonic clock, and record a lost processor since the last reading."""
    since_ns = worker.facts.looked_ns
    now_ns = look(worker)
    if now_ns - since_ns > TAKEN_NS and since_ns:
        record_steal(worker, since_ns, now_ns)
    return int(now_ns)


@compiled
def nap(worker: Worker, until_ns: int) -> None:
    """Sleep until the clock reaches ``until_ns``, or until a signal arrives."""
    worker.moment[0], worker.moment[1] = until_ns // NS_PER_S, until_ns % NS_PER_S
    _clock_nanosleep(CLOCK_MONOTONIC, _ABSOLUTE, worker.facts.moment_at, 0)
    now_ns = look(worker)
    if now_ns - until_ns > TAKEN_NS:
        record_steal(worker, until_ns, now_ns)


@compiled
def transmit(timetable: Timetable, worker: Worker, count: int) -> None:
    """Send the selected messages; ``worker.accepted`` is 1 for each message that the kernel accepted."""
    for k in range(count):
        at = worker.message[k] * _WORDS
        for word in range(_WORDS):
            worker.outgoing[k * _WORDS + word] = timetable.messages[at + word]
        worker.accepted[k] = 0
    done = 0
    while done < count:
        messages_at = worker.facts.outgoing_at + done * _WORDS * 8
        accepted = int(sendmmsg(timetable.facts.descriptor, messages_at, count - done, DONTWAIT))
        for k in range(done, done + accepted):
            worker.accepted[k] = 1
        if accepted <= 0:
            worker.facts.error = int(last_error()[0])
        done += max(accepted, 1)
    look(worker)  # the time of the call is not a lost processor


count_ns: Callable[[NDArray[np.int64], int], None] = inlined(_count_ns)


@inlined
def pick(worker: Worker, count: int, stream: int, segment: int, message: int, due_ns: int) -> int:
    """Add a frame to the ``count`` frames of the next call; return the new count."""
    worker.picked[count], worker.segment[count] = stream, segment
    worker.message[count], worker.due_ns[count] = message, due_ns
    return count + 1


@compiled
def count_gap(
    timetable: Timetable, worker: Worker, stream: int, segment: int, before_ns: int, after_ns: int
) -> None:
    """Count the maximum possible gap before a frame that was sent between two times.

    The gap is from the earliest time of the previous frame to the latest time of this frame.
    """
    last_ns = timetable.before_ns[stream]
    if last_ns:
        gap_ns, limit_ns = after_ns - last_ns, timetable.limit_ns[segment]
        worker.longest_ns[stream] = max(worker.longest_ns[stream], gap_ns)
        if limit_ns and gap_ns > limit_ns:
            worker.longer[stream] += 1
            # consecutive gaps overlap by the time of a call, which is counted once
            since_ns = max(last_ns + limit_ns, timetable.counted_ns[stream])
            worker.excess_ns[stream] += max(0, after_ns - since_ns)
            timetable.counted_ns[stream] = after_ns
    timetable.before_ns[stream] = max(1, before_ns)


@compiled
def settle(timetable: Timetable, worker: Worker, count: int, before_ns: int, after_ns: int) -> bool:
    """Count the frames that were sent between two times, and set the next due times of their streams.

    Return whether the kernel refused a frame that must be sent.
    """
    refused = False
    for k in range(count):
        stream, segment = worker.picked[k], worker.segment[k]
        interval_ns, every_frame = timetable.interval_ns[segment], timetable.every_frame[segment]
        if worker.accepted[k] == 0:
            worker.failed[stream] += 1
            if interval_ns == 0:
                refused = True
                continue
        else:
            worker.frames[stream] += 1
            worker.by_message[worker.message[k]] += 1
            worker.last_ns[stream] = before_ns
            if worker.begun_ns[stream] == 0:
                worker.begun_ns[stream] = max(1, before_ns)
            count_ns(worker.late, before_ns - worker.due_ns[k])
            count_gap(timetable, worker, stream, segment, before_ns, after_ns)
        if interval_ns == 0:
            timetable.before_ns[stream] = 0
            timetable.segment[stream] = segment + 1
        elif not every_frame:
            due_ns, step_ns = worker.due_ns[k], interval_ns
            if due_ns == timetable.first_ns[segment] and len(timetable.segment) > 2:
                step_ns = (interval_ns >> 1) * (1 + (stream >> 1 & 1))
            missed = -(-max(0, after_ns - due_ns - step_ns) // interval_ns)
            next_ns = min(due_ns + step_ns + missed * interval_ns, timetable.until_ns[segment])
            if next_ns > timetable.next_ns[stream]:
                worker.skipped[stream] += max(0, next_ns - due_ns - 1) // interval_ns
                timetable.next_ns[stream] = next_ns
    return refused


@released
def keep(timetable: Timetable, worker: Worker) -> None:
    """Send streams at their times until they end, or until ``facts.stop``."""
    facts, own = timetable.facts, worker.facts
    streams = len(timetable.segment)
    own.looked_ns = 0
    own.rested_ns = clock_ns(worker)
    while facts.stop == 0:
        now_ns = clock_ns(worker) - facts.start_ns
        if own.second:
            facts.second_busy = 1
            fence()
        count, open_streams, soonest_ns, following = 0, 0, NEVER_NS, own.first
        for step in range(streams):
            stream = (own.first + step) % streams
            segment, end = timetable.segment[stream], timetable.end[stream]
            if not own.second:
                while segment < end and timetable.interval_ns[segment]:
                    if timetable.next_ns[stream] < timetable.until_ns[segment]:
                        break
                    segment += 1
                timetable.segment[stream] = segment
            if segment >= end:
                continue
            open_streams += 1
            interval_ns, every_frame = timetable.interval_ns[segment], timetable.every_frame[segment]
            due_ns = max(timetable.next_ns[stream], timetable.first_ns[segment])
            if own.second and (every_frame or interval_ns == 0 or due_ns >= timetable.until_ns[segment]):
                if not every_frame:
                    soonest_ns = min(soonest_ns, max(due_ns, now_ns + _RETRY_NS))
                continue
            stagger_ns = interval_ns >> STAGGER
            if own.alone or every_frame or stream & 1 == own.second:
                stagger_ns = 0
            if interval_ns == 0:
                due_ns = timetable.first_ns[segment]
            if due_ns + stagger_ns > now_ns:
                soonest_ns = min(soonest_ns, due_ns + stagger_ns)
                continue
            if count == BURST or (count >= RENEWED and not every_frame):
                if soonest_ns > now_ns:
                    following = stream
                soonest_ns = now_ns
                continue
            if interval_ns == 0:
                fence()
                while facts.second_busy:
                    nap(worker, clock_ns(worker) + _RETRY_NS // 10)
                    fence()
            if not every_frame or interval_ns == 0:
                count = pick(worker, count, stream, segment, timetable.message[segment], due_ns)
                continue
            while count < BURST and due_ns <= now_ns and due_ns < timetable.until_ns[segment]:
                turn = (due_ns - timetable.first_ns[segment]) // interval_ns % timetable.count[segment]
                count = pick(worker, count, stream, segment, timetable.message[segment] + turn, due_ns)
                due_ns += interval_ns
            timetable.next_ns[stream] = due_ns
            soonest_ns = min(soonest_ns, due_ns)
        own.first = following
        refused = False
        if count:
            transmit(timetable, worker, count)
            refused = settle(timetable, worker, count, now_ns, clock_ns(worker) - facts.start_ns)
        if own.second:
            fence()
            facts.second_busy = 0
        if open_streams == 0:
            break
        now_ns = clock_ns(worker)
        if refused:
            nap(worker, now_ns + _RETRY_NS)
        elif now_ns - own.rested_ns > UNINTERRUPTED_NS and not facts.resting:
            facts.resting = 1
            nap(worker, now_ns + UNINTERRUPTED_NS // _RESTS)
            facts.resting = 0
        elif count:
            continue
        else:
            moment_ns = facts.start_ns + min(soonest_ns, now_ns - facts.start_ns + _LOOK_NS)
            if moment_ns - now_ns <= own.spin_ns:
                while clock_ns(worker) < moment_ns:
                    pass
                continue
            nap(worker, moment_ns - own.spin_ns)
        own.rested_ns = clock_ns(worker)
