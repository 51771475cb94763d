"""Sending batches by a schedule, and its report: numbers of frames, lateness, spacing.

Few frames leave by an interpreted loop, many by the same one compiled, while a thread prepares the next ones
(`ecmproto.frames.capture.linux.departures`).
"""

from __future__ import annotations

import ctypes
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.batch import Batch, Int64
from ecmproto.frames.capture.linux import departures
from ecmproto.frames.capture.linux.departures import (
    LOOK,
    NOT_TAKEN,
    UNINTERRUPTED_NS,
    DepartureState,
    new_counts,
    percentile_ns,
)
from ecmproto.frames.capture.linux.schedule import AsFastAsPossible, BitRate, FrameRate, Schedule
from ecmproto.frames.capture.linux.sender import FrameSender, Messages
from ecmproto.units import NS_PER_S, WIRE_OVERHEAD_OCTETS

MANY_FRAMES = 2000
"""The number of frames whose interpreted loop takes about as long as loading the compiled one."""
SPIN_NS = 120_000
"""The end of sleep before a frame's time: nine of ten sleeps of a virtual machine end within that."""
_PREPARED_FRAMES = 16_384
_LOOK_NS = 100_000_000
"""The interval of checks for interrupts."""
_PATIENCE_NS = 5 * NS_PER_S
"""The maximum wait for an interface that is down, or has no capacity."""
_JOIN_S = 1.0
_PR_SET_TIMERSLACK = 29
_REALTIME = (os.SCHED_FIFO, os.SCHED_RR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Frames that the interface takes in no case: how many, and the first one."""

    frames: int
    number: int
    octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Lateness of frames, in ns; percentiles are nearest-rank, right to 1 in 128."""

    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """Intervals between departures, in ns; percentiles as in `Jitter`."""

    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCounts:
    """The longest gap between two frames of a storm, and the number of those longer than ``limit_ns``.

    ``excess_ns`` is the total time beyond the limit, ``skipped`` the number of frames left out because the
    next one was due.  All but the last may be smaller in truth, none larger.
    """

    limit_ns: int
    longest_ns: int
    longer: int
    excess_ns: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """The frames that were sent, and their lateness.

    ``asked`` is the schedule in words, ``asked_fps`` and ``asked_bps`` the rate where it has one.
    ``duration_ns`` is from the first frame's departure to the last one's.  ``full`` counts waits for
    capacity, ``down`` waits for the link.  ``jitter`` and ``spacing`` are None without times, ``gaps`` except
    for a storm.
    """

    interface: str
    mtu_octets: int
    asked: str
    asked_fps: float | None
    asked_bps: int | None
    frames: int
    octets: int
    duration_ns: int
    jitter: Jitter | None = None
    spacing: Spacing | None = None
    gaps: GapCounts | None = None
    refused: Refusal | None = None
    full: int = 0
    down: int = 0

    @property
    def reached(self) -> float | None:
        """The achieved part of the requested rate; None without one."""
        if self.asked_fps is not None and self.rate_fps is not None:
            return self.rate_fps / self.asked_fps
        if self.asked_bps is not None and self.rate_bps is not None:
            return self.rate_bps / self.asked_bps
        return None

    @property
    def rate_fps(self) -> float | None:
        """Frames a second, None of less than two frames."""
        return (self.frames - 1) * NS_PER_S / self.duration_ns if self.duration_ns else None

    @property
    def rate_bps(self) -> float | None:
        """Bits a second on the line, with FCS, preamble and gap; None of less than two frames."""
        if not self.frames or self.rate_fps is None:
            return None
        return self.rate_fps * 8 * (self.octets / self.frames + WIRE_OVERHEAD_OCTETS)


@dataclass(slots=True)
class _Chunk:
    """Frames that are to be sent, and when; ``batch`` holds their octets."""

    batch: Batch
    messages: Messages
    due_ns: Int64


class Transmission:
    """Sends batches through ``sender`` by ``schedule``; `report` may be read at any time.

    Late frames leave together, so that the rate is reached.  With ``even`` each leaves by itself, at its
    distance from the previous one less an eighth at most: frames after a late one are as late.  Before a
    frame's time it sleeps until ``spin_ns`` are left, and then reads the clock.  ``many`` announces many
    frames, which otherwise the first batch of `run` determines; ``prepared`` is called once all is loaded,
    before the first frame leaves.  ``check`` is called often, between frames; its exceptions end the sending.
    """

    def __init__(
        self,
        sender: FrameSender,
        schedule: Schedule,
        *,
        even: bool = False,
        spin_ns: int = SPIN_NS,
        many: bool = False,
        prepared: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._sender = sender
        self._schedule = schedule
        self._check = check
        self._prepared = prepared
        self._many = many
        self._paced = not isinstance(schedule, AsFastAsPossible)
        self._state: Any = DepartureState(
            paced=int(self._paced),
            even=int(even and self._paced),
            spin_ns=spin_ns,
            uninterrupted_ns=UNINTERRUPTED_NS if os.sched_getscheduler(0) in _REALTIME else 0,
        )
        self._depart: Any = departures.depart
        self._line: Any = None
        """The output of the compiled loop."""
        self._messages = [sender.messages]
        self._late, self._apart = new_counts(), new_counts()
        self._started = self._resting = False
        self.rested_ns: int = 0
        """The time spent in `rest`, which is no part of the report's duration."""
        self._refused: Refusal | None = None
        # sleeps end when they should, not up to 50 µs later
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)

    def run(self, batches: Iterable[Batch]) -> None:
        """Send the frames of ``batches`` in order; InterfaceError when the interface gives up for good."""
        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return
        # As fast as possible, the interpreter has one step for a thousand frames: no gain in loading more.
        self._prepare(self._many or (self._paced and len(first) >= MANY_FRAMES))
        chunks = self._chunks(_again(first, batches))
        for chunk in chunks if self._line is None else _ahead(chunks, self._check):
            self._leave(chunk)
            self._check()

    def rest(self) -> None:
        """Leave out the time until the next frame: all further frames leave later by it."""
        self._resting = self._state.first_ns > 0

    def _prepare(self, many: bool) -> None:
        """Load the compiled loop where frames are many."""
        if many and self._line is None:
            from ecmproto.frames.capture.linux import compiled_departures

            self._line = compiled_departures.new_line(self._sender.fileno())
            self._state = compiled_departures.as_record(self._state)
            self._depart = compiled_departures.depart
            self._depart(self._line, self._state, np.zeros(0, np.int64), self._late, self._apart)
            self._messages = [Messages(_PREPARED_FRAMES), Messages(_PREPARED_FRAMES)]
        self._prepared()

    def _chunks(self, batches: Iterable[Batch]) -> Iterator[_Chunk]:
        """Yield the frames that the interface takes, as messages, whose places are used again."""
        number = 0
        for each in batches:
            batch = self._sendable(each)
            due_ns = self._schedule.due(batch)
            low = 0
            while low < len(batch):
                messages = self._messages[number % len(self._messages)]
                number += 1
                high = low + messages.load(batch.buffer, batch.offset[low:], batch.captured[low:])
                yield _Chunk(batch, messages, due_ns[low:high])
                low = high

    def _sendable(self, batch: Batch) -> Batch:
        """Return the frames that the interface takes; the others are counted, the first of all remembered."""
        unsendable = self._sender.unsendable(batch.buffer, batch.offset, batch.captured)
        if not unsendable.any():
            return batch
        before = self._refused
        first = int(np.flatnonzero(unsendable)[0])
        self._refused = Refusal(
            frames=int(unsendable.sum()) + (before.frames if before else 0),
            number=before.number if before else int(batch.numbers[first]) + 1,
            octets=before.octets if before else int(batch.captured[first]),
        )
        return batch.select(~unsendable)

    def _leave(self, chunk: _Chunk) -> None:
        """Let frames leave, each not before its time."""
        state, sender, due_ns = self._state, self._sender, chunk.due_ns
        if not self._started:
            self._started, state.start_ns = True, time.perf_counter_ns() - int(due_ns[0])
        if self._resting:
            state.start_ns = self._rested(int(state.start_ns), int(due_ns[0]))
        line: Any = sender
        if self._line is not None:
            line = self._line
            line.facts.messages_at = chunk.messages.address
        times: Any = due_ns if self._line is not None else due_ns.tolist()
        state.position, state.count = 0, len(due_ns)
        waiting_since: int | None = None
        while state.position < state.count:
            position, left = int(state.position), int(state.left)
            state.look_ns = time.perf_counter_ns() + _LOOK_NS
            why = self._depart(line, state, times, self._late, self._apart)
            taken = int(state.left) - left
            if self._line is not None and taken:
                sender.count(chunk.messages, position, taken)
            waiting_since = None if taken else waiting_since
            if why == LOOK:
                self._check()
            elif why == NOT_TAKEN:
                if sender.failed(int(state.error)):
                    state.position += 1
                else:
                    waiting_since = waiting_since or time.perf_counter_ns()
                    self._wait_until_writable(waiting_since)

    def _rested(self, start_ns: int, due_ns: int) -> int:
        """Count a rest; return from when on times count that the frame due at ``due_ns`` is not late."""
        # what would have passed between the two frames in any case was no rest
        next_ns = int(self._state.last_ns) + due_ns - int(self._state.last_due_ns)
        now_ns = time.perf_counter_ns()
        self.rested_ns += max(0, now_ns - next_ns)
        self._resting = False
        self._state.neighbour_ns = 0
        return max(start_ns, max(now_ns, next_ns) - due_ns)

    def _wait_until_writable(self, since_ns: int) -> None:
        """Wait a little for an interface that took nothing; InterfaceError when it went on for too long."""
        self._check()
        if time.perf_counter_ns() - since_ns > _PATIENCE_NS:
            facts = self._sender.facts
            down = self._sender.down
            raise InterfaceError(
                interface=facts.name,
                needed="to send frames",
                got=f"{'a link that stayed down' if down else 'no room for a frame'} for 5 s",
                hint=""
                if down
                else "a veth also reports this for frames that its other end, with a smaller MTU, refuses",
            )
        if not select.select([], [self._sender], [], 0.001)[1] or self._sender.down or self._sender.full:
            time.sleep(0.0002)

    def report(self) -> SendReport:
        """Return the report of what was sent until now."""
        sender, state, schedule = self._sender, self._state, self._schedule
        late, apart = (
            {f"p{percent}_ns": percentile_ns(counts, percent) for percent in (50, 99)}
            | {"max_ns": int(counts[0])}
            for counts in (self._late, self._apart)
        )
        return SendReport(
            interface=sender.facts.name,
            mtu_octets=sender.facts.mtu_octets,
            asked=str(schedule),
            asked_fps=float(schedule.frames_per_s) if isinstance(schedule, FrameRate) else None,
            asked_bps=schedule.rate_bps if isinstance(schedule, BitRate) else None,
            frames=sender.sent,
            octets=sender.octets,
            duration_ns=max(0, int(state.last_ns) - int(state.first_ns) - self.rested_ns),
            jitter=Jitter(**late) if self._paced and sender.sent else None,
            spacing=Spacing(**apart) if self._paced and sender.sent > 1 else None,
            refused=self._refused,
            full=sender.full,
            down=sender.down,
        )


def _again(first: Batch, others: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    yield from others


def _ahead(chunks: Iterator[_Chunk], check: Callable[[], None]) -> Iterator[_Chunk]:
    """Yield the chunks, each prepared by a thread while the one before it leaves."""
    wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
    made: queue.SimpleQueue[_Chunk | BaseException | None] = queue.SimpleQueue()

    def prepare() -> None:
        while wanted.get():
            try:
                made.put(next(chunks, None))
            except BaseException as error:  # raised where chunks are taken
                made.put(error)

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    wanted.put(True)
    try:
        while True:
            try:
                chunk = made.get(timeout=_LOOK_NS / NS_PER_S)
            except queue.Empty:
                check()
                continue
            if chunk is None:
                break
            if isinstance(chunk, BaseException):
                raise chunk
            wanted.put(True)
            yield chunk
    finally:
        wanted.put(False)
        # What it reads from may never give anything more.
        thread.join(_JOIN_S)
