"""Sending frames: many by one system call, from where they lie, nothing copied on this side of the kernel.

`Transmission` sends batches by a schedule and reports how late and how far apart frames left; `Sendable`
picks what of a capture can be sent, `repeated` gives it over and over.
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import os
import select
import socket
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import ETHERNET, Batch, Int64, Octets
from ecmproto.capture.linux.interface import ETHERNET_HEADER_OCTETS, TAG_OCTETS
from ecmproto.capture.linux.packet_socket import (
    C_TAG,
    DOWN_ERRORS,
    PacketSocket,
    message_array,
    send_messages,
)
from ecmproto.capture.linux.schedule import AsFastAsPossible, BitRate, FrameRate, Schedule
from ecmproto.capture.reader import CaptureReader
from ecmproto.errors import InterfaceError
from ecmproto.units import NS_PER_S, WIRE_OVERHEAD_OCTETS

FRAMES = 1024
"""Most frames by one call; the kernel takes no more than UIO_MAXIOV."""
_FEW = 4
_FULL = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM})
_REFUSED = frozenset({errno.EMSGSIZE, errno.EINVAL})


class FrameSender:
    """Sends frames out of an interface as they are, from the destination address to the last octet, no FCS.

    ``bypass_queues`` hands them to the driver past the queueing discipline (PACKET_QDISC_BYPASS).  Counters
    only grow: ``sent`` frames and ``octets``, ``refused`` ones that the kernel takes in no case, ``full``
    times that there was no room, ``down`` times that the interface was.  Raises InterfaceError.
    """

    def __init__(self, interface: str, *, bypass_queues: bool = False) -> None:
        self._socket = PacketSocket(interface)
        self._socket.bind(0)
        self.facts = self._socket.facts
        self.bypasses = bypass_queues and self._socket.bypass_queues()
        """Whether the queueing discipline is bypassed."""
        self._messages, self._parts = message_array(FRAMES)
        # asking an array for its address takes as long as a frame does
        self._address = self._messages.ctypes.data
        self._base, self._length = self._parts["base"], self._parts["octets"]
        self.sent = 0
        self.octets = 0
        self.refused = 0
        self.full = 0
        self.down = 0

    def fileno(self) -> int:
        """Return the descriptor to wait at: writable when there is room."""
        return self._socket.socket.fileno()

    def send(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Send frames that start at ``offset`` in ``buffer`` and have ``captured`` octets; return how many.

        Fewer than given means that there was no room for the next one (`full`) or that the interface is
        down (`down`); the call never waits.  What the kernel refuses (`refused`: longer than the MTU, no
        whole Ethernet header) counts as done.  InterfaceError when the interface was removed.
        """
        if len(offset) <= _FEW:
            return self._send_few(buffer, offset, captured)
        done = 0
        while done < len(offset):
            part = slice(done, done + FRAMES)
            count = self.load(buffer, offset[part], captured[part])
            pushed = self.push(0, count)
            done += pushed
            if pushed < count:
                break
        return done

    def _send_few(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Send frames by a system call each: less than messages to the kernel take to prepare."""
        octets, done = memoryview(buffer.data), 0
        for start, length in zip(offset.tolist(), captured.tolist(), strict=True):
            try:
                self._socket.socket.send(octets[start : start + length], socket.MSG_DONTWAIT)
            except OSError as error:
                if not self._failed(error.errno or errno.EIO):
                    break
            else:
                self.sent += 1
                self.octets += length
            done += 1
        return done

    def load(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Prepare frames for `push`, at most `FRAMES`, and return how many; ``buffer`` must stay."""
        count = min(len(offset), FRAMES)
        self._base[:count] = offset[:count] + buffer.ctypes.data
        self._length[:count] = captured[:count]
        return count

    def push(self, first: int, count: int) -> int:
        """Send ``count`` of the frames loaded, from ``first`` on, as `send` does; return how many."""
        done = 0
        while done < count:
            taken, error = self._take(first + done, count - done)
            done += taken
            if error:
                if not self._failed(error):
                    break
                done += 1
        return done

    def _take(self, first: int, count: int) -> tuple[int, int]:
        """Give messages to the kernel once; return how many it took, and its error where it took none."""
        try:
            address = self._address + first * self._messages.itemsize
            taken = send_messages(self.fileno(), address, count, socket.MSG_DONTWAIT)
        except OSError as error:
            return 0, error.errno or errno.EIO
        self.sent += taken
        # summing up an array of one takes longer than looking
        one = taken == 1
        self.octets += int(self._length[first] if one else self._length[first : first + taken].sum())
        return taken, 0

    def _failed(self, error: int) -> bool:
        """Count why a frame was not taken; return whether it is to be left out, not tried again."""
        if error in _REFUSED:
            self.refused += 1
            return True
        if error in _FULL:
            self.full += 1
        elif error in DOWN_ERRORS:
            self.down += 1
            if self._socket.gone:
                raise self._socket.vanished()
        elif error != errno.EINTR:
            raise InterfaceError(interface=self.facts.name, needed="to send frames", got=os.strerror(error))
        return False

    def unsendable(self, octets: NDArray[np.uint8], offset: Int64, captured: Int64) -> NDArray[np.bool_]:
        """Return which frames the kernel would refuse: too long for the MTU, or without a whole header.

        A frame whose first tag is a C-TAG may be 4 octets longer than others; other tags count in the MTU.
        """
        limit = np.full(len(offset), self.facts.longest_octets)
        whole = captured >= ETHERNET_HEADER_OCTETS
        at = offset[whole] + 12
        tagged = (octets[at] == C_TAG >> 8) & (octets[at + 1] == C_TAG & 0xFF)
        limit[whole] += tagged * TAG_OCTETS
        return ~whole | (captured > limit)

    def close(self) -> None:
        """Stop sending."""
        self._socket.close()

    def __enter__(self) -> FrameSender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
class GapCounts:
    """The longest gap between two frames; how many were longer than ``limit_ns``.

    ``excess_ns`` is the time in all that lay beyond the limit, ``skipped`` how many frames were left out
    because the next one's time had come.  All but the last may be less, none more.
    """

    limit_ns: int
    longest_ns: int
    longer: int
    excess_ns: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """The frames that were sent, and how late.

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
        """Leave out the time until the next frame: it and those behind it leave as much later."""
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
        """Postpone the frame due at ``due_ns``, and those behind it, if it would come too soon."""
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
        """Return the report of what was sent until now."""
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


class Gaps:
    """Counts gaps, each as long as it can have been.

    A frame leaves between the beginning and the end of the call that takes it: a gap is from the earliest
    moment of one frame to the latest of the next.
    """

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._longest_ns = self._longer = self._excess_ns = 0
        self._earliest_ns: int | None = None
        self._counted_to_ns = 0
        self.skipped = 0

    def add(self, earliest_ns: int, latest_ns: int) -> None:
        """Add the next frame, which left between these moments."""
        if self._earliest_ns is not None:
            gap_ns = latest_ns - self._earliest_ns
            self._longest_ns = max(self._longest_ns, gap_ns)
            if gap_ns > self._limit_ns:
                self._longer += 1
                # gaps overlap by the time that a call took, which counts once
                self._excess_ns += latest_ns - max(self._earliest_ns + self._limit_ns, self._counted_to_ns)
                self._counted_to_ns = latest_ns
        self._earliest_ns = earliest_ns

    def counts(self) -> GapCounts:
        """Return the counts until now."""
        return GapCounts(
            limit_ns=self._limit_ns,
            longest_ns=self._longest_ns,
            longer=self._longer,
            excess_ns=self._excess_ns,
            skipped=self.skipped,
        )


_BITS = 7
_STEPS = 1 << _BITS
"""Buckets for each doubling: percentiles are right to 1 in 128."""
_PENDING = 4096


class Lateness:
    """Counts of ns in buckets: those below 256 one by one, larger ones 128 for each doubling."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros((64 - _BITS) * _STEPS, dtype=np.int64)
        self._due: list[int] = []
        self._left: list[int] = []
        self.greatest_ns = 0

    def add(self, left_ns: int, each_ns: int, due_ns: list[int]) -> None:
        """Count frames due at ``due_ns``, the first of which left at ``left_ns`` and the others ``each_ns``
        apart."""
        self._due += due_ns
        self._left += range(left_ns, left_ns + each_ns * len(due_ns), each_ns)
        if len(self._due) >= _PENDING:
            self._settle()

    def _settle(self) -> None:
        if not self._due:
            return
        late = np.maximum(np.array(self._left, dtype=np.int64) - np.array(self._due, dtype=np.int64), 0)
        self._due.clear()
        self._left.clear()
        self.greatest_ns = max(self.greatest_ns, int(late.max()))
        # frexp gives the position of the highest bit; what lies below it by 8 bits is not looked at
        shift = np.maximum(np.frexp(late.astype(np.float64))[1].astype(np.int64) - _BITS - 1, 0)
        self._counts += np.bincount(shift * _STEPS + (late >> shift), minlength=len(self._counts))

    def percentile_ns(self, percent: int) -> int:
        """Return the nearest-rank percentile, at most 1 in 128 too large; 0 where nothing was counted."""
        self._settle()
        total = int(self._counts.sum())
        if not total:
            return 0
        rank = -(-total * percent // 100)
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        shift = max(0, bucket // _STEPS - 1)
        upper = ((bucket - shift * _STEPS + 1) << shift) - 1
        return min(upper, self.greatest_ns)


@dataclasses.dataclass(slots=True)
class Sendable:
    """The frames of a capture as they are sent; counts what is not as it was on the wire."""

    foreign: int = 0
    """Frames of other link types, left out."""
    cut: int = 0
    """Frames that the capture cut, sent as far as it has them."""

    def of(self, reader: CaptureReader) -> Iterator[Batch]:
        """Yield the Ethernet frames of ``reader``."""
        for batch in reader:
            kept = batch
            ethernet = [each.linktype == ETHERNET for each in reader.interfaces]
            if not all(ethernet):
                mask = np.array(ethernet)[batch.interface]
                self.foreign += int((~mask).sum())
                kept = batch.select(mask)
            kept = _without_fcs(kept, [each.fcs_octets for each in reader.interfaces])
            self.cut += int((kept.captured < kept.original).sum())
            yield kept


def _without_fcs(batch: Batch, fcs_octets: Sequence[int]) -> Batch:
    """Return the frames without what they have of the FCS; one that was cut lost it first."""
    lengths = np.array(fcs_octets, dtype=np.int64)
    if not lengths.any():
        return batch
    original = np.maximum(batch.original - lengths[batch.interface], 0)
    return dataclasses.replace(batch, original=original, captured=np.minimum(batch.captured, original))


_KEPT_OCTETS = 64 << 20
_TILED_FRAMES = 4096


def repeated(source: Callable[[], Iterable[Batch]], *, frames: int | None = None) -> Iterator[Batch]:
    """Yield the batches of ``source()``, again and again, until ``frames`` were yielded (None: without end).

    Each time round its times go on, its first frame behind its last at the mean distance of its frames.
    What is small is asked for once and kept.  Ends where ``source()`` gives no frame.
    """
    pass_ = _Pass(source)
    yielded = 0
    while pass_.begin():
        for batch in pass_.batches():
            if frames is not None and yielded + len(batch) >= frames:
                yield batch.select(range(frames - yielded))
                return
            yielded += len(batch)
            yield batch


class _Pass:
    """One time round after the other."""

    def __init__(self, source: Callable[[], Iterable[Batch]]) -> None:
        self._source = source
        self._kept: list[Batch] | None = []
        self._rounds = 0
        self._frames = 0
        self._first_ns = self._last_ns = 0
        self._shift_ns = 0

    def begin(self) -> bool:
        """Prepare the next time round; False when there is nothing to repeat."""
        if not self._rounds:
            return True
        if not self._frames:
            return False
        self._shift_ns += self._period_ns
        if self._kept is not None and self._rounds == 1 and self._frames < _TILED_FRAMES:
            self._kept = [self._tiled(self._kept, _TILED_FRAMES // self._frames)]
        return True

    @property
    def _period_ns(self) -> int:
        span = self._last_ns - self._first_ns
        return span + (span // (self._frames - 1) if self._frames > 1 else 0)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of this time round."""
        again = self._rounds > 0
        self._rounds += 1
        self._frames = 0
        for batch in self._kept if again and self._kept is not None else self._source():
            if len(batch):
                if not again:
                    self._keep(batch)
                self._note(batch)
                yield dataclasses.replace(batch, time_ns=batch.time_ns + self._shift_ns)

    def _keep(self, batch: Batch) -> None:
        if self._kept is not None:
            self._kept.append(batch)
            if sum(len(each.buffer) for each in self._kept) > _KEPT_OCTETS:
                self._kept = None

    def _note(self, batch: Batch) -> None:
        if not self._frames:
            self._first_ns = self._last_ns = int(batch.time_ns[0])
        self._frames += len(batch)
        self._last_ns = max(self._last_ns, int(batch.time_ns.max()))

    def _tiled(self, batches: list[Batch], times: int) -> Batch:
        """Return ``times`` rounds in one batch, so that a few frames take no more time each than many."""
        buffer = (
            np.concatenate([batch.buffer for batch in batches]) if len(batches) > 1 else batches[0].buffer
        )
        starts = np.cumsum([0, *(len(batch.buffer) for batch in batches[:-1])])
        offset = np.concatenate([each.offset + start for each, start in zip(batches, starts, strict=True)])
        shifts = np.repeat(np.arange(times, dtype=np.int64) * self._period_ns, self._frames)

        def joined(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.tile(np.concatenate([getattr(batch, name) for batch in batches]), times)

        captured = joined("captured")
        return Batch(
            buffer=buffer, offset=np.tile(offset, times), captured=captured, original=joined("original"),
            time_ns=joined("time_ns") + shifts, interface=joined("interface"),
            record_offset=np.tile(offset, times), record_length=captured, picked=joined("numbers"),
        )  # fmt: skip
