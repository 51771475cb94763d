"""Sending of batches at the times of a schedule, with a report of frame counts, lateness and spacing.

Few frames are sent by an interpreted loop. Many frames are sent by the same loop compiled, while a thread
prepares the next frames (`ecmproto.frames.capture.linux.departures`).
"""

from __future__ import annotations

import ctypes
import itertools
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
    NOT_ACCEPTED,
    UNINTERRUPTED_NS,
    DepartureState,
    new_counts,
    percentile_ns,
)
from ecmproto.frames.capture.linux.schedule import AsFastAsPossible, BitRate, FrameRate, Schedule
from ecmproto.frames.capture.linux.sender import FrameSender, Messages
from ecmproto.units import NS_PER_S, WIRE_OVERHEAD_OCTETS

MANY_FRAMES = 2000
"""Number of frames for which the interpreted loop takes as long as loading the compiled loop."""
SPIN_NS = 120_000
"""Time before a frame at which sleep ends; nine of ten sleeps of a virtual machine end within this time."""
_PREPARED_FRAMES = 16_384
_LOOK_NS = 100_000_000
"""Interval of checks for interrupts, in ns."""
_PATIENCE_NS = 5 * NS_PER_S
"""Maximum wait for an interface that is down or has no space, in ns."""
_JOIN_S = 1.0
_PR_SET_TIMERSLACK = 29
_REALTIME = (os.SCHED_FIFO, os.SCHED_RR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Frames that the interface never accepts: their number, and the first such frame."""

    frames: int
    number: int
    octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Lateness of frames in ns; percentiles are nearest-rank, with an error of at most 1 in 128."""

    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """Intervals between departures in ns; percentiles are as in `Jitter`."""

    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCounts:
    """The maximum gap between two frames of a storm, and the number of gaps longer than ``limit_ns``.

    ``excess_ns`` is the total time beyond the limit. ``skipped`` is the number of frames that were skipped
    because the next frame was due. The values except ``skipped`` are upper bounds of the actual values.
    """

    limit_ns: int
    longest_ns: int
    longer: int
    excess_ns: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """The number of frames that were sent, and their lateness.

    ``asked`` describes the schedule. ``asked_fps`` or ``asked_bps`` is the requested rate, if there is a
    rate. ``duration_ns`` is the time from the first to the last frame. ``full`` counts waits for space, and
    ``down`` counts waits for the link. ``jitter`` and ``spacing`` are ``None`` without times. ``gaps`` is
    ``None`` except for a storm.
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
        """Achieved fraction of the requested rate; ``None`` if no rate was requested."""
        if self.asked_fps is not None and self.rate_fps is not None:
            return self.rate_fps / self.asked_fps
        if self.asked_bps is not None and self.rate_bps is not None:
            return self.rate_bps / self.asked_bps
        return None

    @property
    def rate_fps(self) -> float | None:
        """Achieved frames per second; ``None`` for fewer than two frames."""
        return (self.frames - 1) * NS_PER_S / self.duration_ns if self.duration_ns else None

    @property
    def rate_bps(self) -> float | None:
        """Achieved bits per second on the line, with FCS, preamble and gap; ``None`` below two frames."""
        if not self.frames or self.rate_fps is None:
            return None
        return self.rate_fps * 8 * (self.octets / self.frames + WIRE_OVERHEAD_OCTETS)


@dataclass(slots=True)
class _Chunk:
    """The next frames to send, and their times; ``batch`` contains their octets."""

    batch: Batch
    messages: Messages
    due_ns: Int64


class Transmission:
    """A transmission of batches through ``sender`` at the times of ``schedule``.

    `report` may be called at any time. Late frames are sent together, so that the rate is reached. With
    ``even``, each frame is sent by a separate call, at most an eighth of its interval early, so that frames
    after a late frame are also late. The transmission sleeps until ``spin_ns`` before a frame and then polls
    the clock.

    ``many`` announces many frames; without ``many`` the size of the first batch decides. ``prepared`` is
    called before the first frame, after everything is loaded. ``check`` is called often between frames, and
    an exception from ``check`` ends the transmission.
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
        """Output of the compiled loop."""
        self._messages = [sender.messages]
        self._late, self._apart = new_counts(), new_counts()
        self._started = self._resting = False
        self.rested_ns: int = 0
        """Time spent in `rest`, which is excluded from the duration in the report."""
        self._refused: Refusal | None = None
        # sleeps end on time, not up to 50 µs later
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)

    def run(self, batches: Iterable[Batch]) -> None:
        """Send the frames of ``batches`` in order.

        Raises InterfaceError if the interface fails permanently.
        """
        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return
        # Without times, the interpreter has one step per thousand frames, so that compiling gains nothing.
        self._prepare(self._many or (self._paced and len(first) >= MANY_FRAMES))
        chunks = self._chunks(itertools.chain([first], batches))
        for chunk in chunks if self._line is None else _ahead(chunks, self._check):
            self._leave(chunk)
            self._check()

    def rest(self) -> None:
        """Exclude the time until the next frame; all later frames are delayed by this time."""
        self._resting = self._state.first_ns > 0

    def _prepare(self, many: bool) -> None:
        """Load the compiled loop for many frames."""
        if many and self._line is None:
            from ecmproto.frames.capture.linux import compiled_departures

            self._line = compiled_departures.new_line(self._sender.fileno())
            self._state = compiled_departures.as_record(self._state)
            self._depart = compiled_departures.depart
            self._depart(self._line, self._state, np.zeros(0, np.int64), self._late, self._apart)
            self._messages = [Messages(_PREPARED_FRAMES), Messages(_PREPARED_FRAMES)]
        self._prepared()

    def _chunks(self, batches: Iterable[Batch]) -> Iterator[_Chunk]:
        """Yield chunks of the frames that the interface accepts; their messages are reused."""
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
        """Return the frames that the interface accepts; record the number and the first of refused ones."""
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
        """Send the frames of a chunk at their times."""
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
            sent = int(state.left) - left
            if self._line is not None and sent:
                sender.count(chunk.messages, position, sent)
            waiting_since = None if sent else waiting_since
            if why == LOOK:
                self._check()
            elif why == NOT_ACCEPTED:
                if sender.failed(int(state.error)):
                    state.position += 1
                else:
                    waiting_since = waiting_since or time.perf_counter_ns()
                    self._wait_until_writable(waiting_since)

    def _rested(self, start_ns: int, due_ns: int) -> int:
        """Record a rest; return the new start time, for which the frame due at ``due_ns`` is not late."""
        # the scheduled interval between the two frames is not part of the rest
        next_ns = int(self._state.last_ns) + due_ns - int(self._state.last_due_ns)
        now_ns = time.perf_counter_ns()
        self.rested_ns += max(0, now_ns - next_ns)
        self._resting = False
        self._state.neighbour_ns = 0
        return max(start_ns, max(now_ns, next_ns) - due_ns)

    def _wait_until_writable(self, since_ns: int) -> None:
        """Wait briefly for an interface that accepted no frame.

        Raises InterfaceError if the interface has accepted no frame for too long.
        """
        self._check()
        if time.perf_counter_ns() - since_ns > _PATIENCE_NS:
            facts = self._sender.facts
            down = self._sender.down
            raise InterfaceError(
                interface=facts.name,
                needed="to send frames",
                got=f"{'a link that stayed down' if down else 'no space for a frame'} for 5 s",
                hint=""
                if down
                else "a veth also reports this if its other end has a smaller MTU and refuses the frame",
            )
        if not select.select([], [self._sender], [], 0.001)[1] or self._sender.down or self._sender.full:
            time.sleep(0.0002)

    def report(self) -> SendReport:
        """Return the report of the frames sent so far."""
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


def _ahead(chunks: Iterator[_Chunk], check: Callable[[], None]) -> Iterator[_Chunk]:
    """Yield the chunks; a thread prepares each chunk while the previous chunk is sent."""
    requested: queue.SimpleQueue[bool] = queue.SimpleQueue()
    made: queue.SimpleQueue[_Chunk | BaseException | None] = queue.SimpleQueue()

    def prepare() -> None:
        while requested.get():
            try:
                made.put(next(chunks, None))
            except BaseException as error:  # raised in the main thread
                made.put(error)

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    requested.put(True)
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
            requested.put(True)
            yield chunk
    finally:
        requested.put(False)
        # The thread may wait for its input forever.
        thread.join(_JOIN_S)
