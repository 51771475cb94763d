"""Sending batches by a schedule, with an honest account of what became of them."""

from __future__ import annotations

import ctypes
import select
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ecmproto.capture.batch import Batch
from ecmproto.capture.linux.gaps import GapCounts, Gaps
from ecmproto.capture.linux.lateness import Lateness
from ecmproto.capture.linux.schedule import AsFastAsPossible, BitRate, FrameRate, Schedule
from ecmproto.capture.linux.sender import FRAMES, FrameSender
from ecmproto.errors import InterfaceError
from ecmproto.units import NS_PER_S, WIRE_OVERHEAD_OCTETS

_BURST = 64
"""Most frames that leave by one call when they have times, so that what is said of each is near the truth."""
_UNEVEN = 8
"""What part of its distance a frame of an even schedule may be nearer to the one before: late ones do not add
up, and the rate is kept."""
_SPIN_NS = 120_000
"""How long before a frame's time sleeping ends and looking at the clock begins."""
_NAP_NS = 100_000_000
_PATIENCE_NS = 5 * NS_PER_S
"""How long an interface that is down, or never has room, is waited for."""
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Frames that the interface takes in no case: how many, and the first one."""

    frames: int
    number: int
    octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """How late frames left behind their times, in ns; percentiles are nearest-rank, right to 1 in 128."""

    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """How far apart frames left, in ns: from one's departure to the next one's; percentiles as of jitter."""

    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """What was sent, and how.

    ``asked`` says the schedule in words, ``asked_fps`` and ``asked_bps`` the rate where it has one.
    ``duration_ns`` is from the first frame's departure to the last one's.  ``full`` counts the times that
    there was no room, ``down`` those that the link was.  ``jitter`` and ``spacing`` are None without times to
    keep, ``gaps`` where nobody asked for them.
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
        """The part of the asked rate that was reached; None where none was asked for."""
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
        """Bits a second on the wire, with FCS, preamble and gap; None of less than two frames."""
        if not self.frames or self.rate_fps is None:
            return None
        return self.rate_fps * 8 * (self.octets / self.frames + WIRE_OVERHEAD_OCTETS)


class Transmission:
    """Sends batches through ``sender`` by ``schedule``; `report` may be asked at any time.

    Frames that are late leave together, so that the rate is reached.  With ``even`` each leaves by itself, no
    nearer to the one before than it was to be, but for an eighth: those behind a late one are as late.
    ``check`` is called often, where no frame is half sent; what it raises ends the sending.
    """

    def __init__(
        self,
        sender: FrameSender,
        schedule: Schedule,
        *,
        even: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._sender = sender
        self._schedule = schedule
        self._check = check
        self._paced = not isinstance(schedule, AsFastAsPossible)
        self._even = even and self._paced
        self._lateness = Lateness()
        self._distances = Lateness()
        self._gaps: Gaps | None = None
        self._start_ns: int | None = None
        self._first_ns = self._last_ns = self._last_due_ns = 0
        self._neighbour_ns: int | None = None
        self._resting = False
        self.rested_ns = 0
        """How long sending stood still at `rest`, which is no part of the report's duration."""
        self._refused: Refusal | None = None
        # sleeps end when they should, not up to 50 µs later
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)

    def run(self, batches: Iterable[Batch]) -> None:
        """Send the frames of ``batches`` in order; InterfaceError when the interface gives up for good."""
        for batch in batches:
            self._send(self._sendable(batch))
            self._check()

    def rest(self) -> None:
        """Let the time until the next frame not count: it and those behind it leave as much later."""
        self._resting = self._first_ns > 0

    def renew(self, batch: Batch, *, interval_ns: int, limit_ns: int, until_ns: int | None) -> None:
        """Send a lone frame again and again, the first at once, until ``until_ns`` from then (None: no end).

        It leaves every ``interval_ns``, each time by a call of its own; one whose successor is due already
        is left out, for it would come too late to be of use.  The report's ``gaps`` tell those of more
        than ``limit_ns``.
        """
        self._gaps = gaps = Gaps(limit_ns)
        batch = self._sendable(batch)
        self._sender.load(batch.buffer, batch.offset, batch.captured)
        due_ns = 0
        while len(batch) and (until_ns is None or due_ns < until_ns):
            self._push([due_ns])
            late_ns = max(0, self._last_ns - (self._start_ns or 0) - due_ns)
            next_ns = due_ns + late_ns // interval_ns * interval_ns + interval_ns
            before_ns = next_ns if until_ns is None else min(next_ns, until_ns)
            gaps.skipped += (before_ns - due_ns - 1) // interval_ns
            due_ns = next_ns
            self._check()

    def end(self, batch: Batch, *, due_ns: int | None = None) -> None:
        """Send last frames at ``due_ns`` from the first frame of all, at once without one; no gaps count.

        They are for whoever undoes what the frames before did, also where these were interrupted.
        """
        gaps, self._gaps = self._gaps, None
        if due_ns is None:
            due_ns = 0 if self._start_ns is None else time.perf_counter_ns() - self._start_ns
        self._sender.load(batch.buffer, batch.offset, batch.captured)
        try:
            self._push([due_ns] * len(batch))
        finally:
            self._gaps = gaps

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

    def _send(self, batch: Batch) -> None:
        due = self._schedule.due(batch).tolist()
        for low in range(0, len(batch), FRAMES):
            part = slice(low, low + FRAMES)
            self._sender.load(batch.buffer, batch.offset[part], batch.captured[part])
            self._push(due[part])

    def _push(self, due: list[int]) -> None:
        """Send the loaded frames, each not before its time."""
        if self._start_ns is None:
            self._start_ns = time.perf_counter_ns() - due[0]
        if self._resting:
            self._start_ns = self._rested(self._start_ns, due[0])
        done, count = 0, len(due)
        waiting_since: int | None = None
        while done < count:
            now = time.perf_counter_ns()
            ready = count
            if self._even:
                self._postpone(due[done], now)
                ready = done + (due[done] <= now - self._start_ns)
            elif self._paced:
                ready = min(bisect_right(due, now - self._start_ns, done), done + _BURST)
            if ready == done:
                self._sleep_until(self._start_ns + due[done])
                continue
            sent = self._sender.sent
            pushed = self._sender.push(done, ready - done)
            self._note(due[done : done + pushed], self._sender.sent - sent, now)
            done += pushed
            waiting_since = None if pushed else waiting_since or now
            if done < ready:
                self._wait_for_room(waiting_since or now)

    def _postpone(self, due_ns: int, now_ns: int) -> None:
        """Have the frame due at ``due_ns``, and those behind it, leave later, if it would come too soon."""
        if self._start_ns is None or not self._first_ns:
            return
        distance_ns = due_ns - self._last_due_ns
        least_ns = self._last_ns + distance_ns - distance_ns // _UNEVEN
        self._start_ns = max(self._start_ns, least_ns - due_ns)

    def _rested(self, start_ns: int, due_ns: int) -> int:
        """Count a rest; return from when on times count that the frame due at ``due_ns`` is not late."""
        # what would have passed between the two frames in any case was no rest
        next_ns = self._last_ns + due_ns - self._last_due_ns
        now_ns = time.perf_counter_ns()
        self.rested_ns += max(0, now_ns - next_ns)
        self._resting = False
        self._neighbour_ns = None
        return max(start_ns, max(now_ns, next_ns) - due_ns)

    def _note(self, due: list[int], sent: int, before_ns: int) -> None:
        """Note when frames left: one behind the other during the call that took them."""
        if not sent:
            return
        each = max(1, (time.perf_counter_ns() - before_ns) // sent)
        if not self._first_ns:
            self._first_ns = before_ns
        if self._paced:
            left = list(range(before_ns, before_ns + each * len(due), each))
            if self._neighbour_ns is not None:
                self._distances.add(before_ns, each, [self._neighbour_ns, *left[:-1]])
            elif len(left) > 1:
                self._distances.add(before_ns + each, each, left[:-1])
            self._neighbour_ns = left[-1]
        self._last_ns = before_ns + each * (len(due) - 1)
        self._last_due_ns = due[-1]
        if self._paced:
            self._lateness.add(before_ns - (self._start_ns or 0), each, due)
        if self._gaps is not None:
            self._gaps.add(before_ns, before_ns + each)

    def _sleep_until(self, moment_ns: int) -> None:
        """Sleep until shortly before the moment, and look at the clock until it is there."""
        while (left := moment_ns - time.perf_counter_ns()) > _SPIN_NS:
            time.sleep(min(left - _SPIN_NS, _NAP_NS) / NS_PER_S)
            self._check()
        while time.perf_counter_ns() < moment_ns:
            pass

    def _wait_for_room(self, since_ns: int) -> None:
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
                else "a veth says so too of frames that its other end, of a smaller MTU, refuses",
            )
        if not select.select([], [self._sender], [], 0.001)[1] or self._sender.down or self._sender.full:
            time.sleep(0.0002)

    def report(self) -> SendReport:
        """Return what was sent until now."""
        sender, late, schedule = self._sender, self._lateness, self._schedule
        apart = self._distances
        spacing = Spacing(
            p50_ns=apart.percentile_ns(50), p99_ns=apart.percentile_ns(99), max_ns=apart.greatest_ns
        )  # fmt: skip
        jitter = Jitter(
            p50_ns=late.percentile_ns(50), p99_ns=late.percentile_ns(99), max_ns=late.greatest_ns
        )  # fmt: skip
        return SendReport(
            interface=sender.facts.name,
            mtu_octets=sender.facts.mtu_octets,
            asked=str(schedule),
            asked_fps=float(schedule.frames_per_s) if isinstance(schedule, FrameRate) else None,
            asked_bps=schedule.rate_bps if isinstance(schedule, BitRate) else None,
            frames=sender.sent,
            octets=sender.octets,
            duration_ns=max(0, self._last_ns - self._first_ns - self.rested_ns),
            jitter=jitter if self._paced and sender.sent else None,
            spacing=spacing if self._paced and sender.sent > 1 else None,
            gaps=self._gaps.counts() if self._gaps is not None else None,
            refused=self._refused,
            full=sender.full,
            down=sender.down,
        )
