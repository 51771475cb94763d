"""Streams: frames that are sent repeatedly at their times, on several interfaces at once.

Two threads send the streams. Each thread runs on a separate processor, with real-time priority if the system
allows it. While an interrupt or a hypervisor uses one processor, the other thread renews the streams of both
threads. `ecmproto.frames.capture.linux.stream_loop` describes the rules.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ecmproto.errors import InterfaceError, ParameterError
from ecmproto.frames.capture.batch import Int64
from ecmproto.frames.capture.linux.departures import percentile_ns
from ecmproto.frames.capture.linux.interface import InterfaceFacts, interface_facts
from ecmproto.frames.capture.linux.packet_socket import PacketSocket, SocketUser, message_array
from ecmproto.frames.capture.linux.transmission import GapCounts, Jitter

if TYPE_CHECKING:
    from ecmproto.frames.capture.linux.stream_loop import Timetable, Worker

FOREVER_NS = 1 << 61
MAX_MESSAGES = 1 << 20
_SPIN_NS = 120_000
"""Time before a frame at which a thread stops sleeping and polls the clock, because sleepers wake late."""
_LEAD_NS = 2_000_000
"""Time for the start of the threads, in ns."""
_PATIENCE_S = 5.0
_JOIN_S = 0.05
_PR_SET_TIMERSLACK = 29
_PRIORITY = 2
"""Real-time priority of streams, one above the lowest priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a stream: ``frames`` in rotation every ``interval_ns`` from ``first_ns`` until ``until_ns``.

    A segment without an interval sends one frame, at ``first_ns`` or as soon as possible after it.
    ``limit_ns`` is the maximum gap that a frame covers; 0 means no limit. With ``every_frame``, each frame is
    sent, and late frames are sent together. Otherwise a frame is skipped if the next frame is already due.
    """

    frames: tuple[bytes, ...]
    first_ns: int = 0
    until_ns: int = FOREVER_NS
    interval_ns: int = 0
    limit_ns: int = 0
    every_frame: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Consecutive segments that are sent on an interface; the last segment may be a frame that releases."""

    name: str
    interface: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport:
    """The number of frames that a stream sent; ``failed`` counts frames that the interface did not accept."""

    name: str
    interface: str
    frames: int
    octets: int
    failed: int
    duration_ns: int
    """Time from the first to the last frame of the stream."""
    released: bool
    """Whether all segments of the stream have been sent."""
    gaps: GapCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsReport:
    """The reports of several streams, and the threads that sent the streams."""

    streams: tuple[StreamReport, ...]
    jitter: Jitter
    processors: tuple[int, ...]
    """Processors of real-time threads; empty if the process may not have such threads."""
    kept_by: str = ""
    """Queueing discipline of the kernel that kept the times; empty for threads of this process."""


class StreamSender(SocketUser):
    """A sender of streams at their times; `report` may be called at any time after the start of `run`.

    ``check`` is called often, and an exception from ``check`` ends `run` before `release` is called. Raises
    InterfaceError for a missing interface, and for a frame that is too long for its interface.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        *,
        bypass_queues: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.streams: tuple[Stream, ...] = tuple(streams)
        if not self.streams:
            raise ParameterError(name="streams", needed="at least one", got="none")
        self.facts: dict[str, InterfaceFacts] = {
            name: interface_facts(name) for name in {each.interface for each in self.streams}
        }
        _check_frames(self.streams, self.facts)
        self._check = check
        self._socket = PacketSocket(self.streams[0].interface)
        self.bypasses: bool = bypass_queues and self._socket.bypass_queues()
        self._prepare()
        self.processors: tuple[int, ...] = ()

    def _prepare(self) -> None:
        """Create the timetable, and the frames as messages with the addresses of interfaces (sockaddr_ll)."""
        from ecmproto.frames.capture.linux import stream_loop
        from ecmproto.kernels.record import new_record

        segments = [(stream, each) for stream in self.streams for each in stream.segments]
        frames = [(stream.interface, octets) for stream, each in segments for octets in each.frames]
        if len(frames) > MAX_MESSAGES:
            needed = f"at most {MAX_MESSAGES:,} frames of all segments"
            raise ParameterError(name="streams", needed=needed, got=f"{len(frames):,}")
        messages, parts = message_array(len(frames))
        octets, starts = _laid_out([octets for _, octets in frames])
        names = {name: _address(facts) for name, facts in self.facts.items()}
        addresses, offsets = _laid_out(list(names.values()))
        offset_of = dict(zip(names, offsets, strict=True))
        lengths = np.array([len(each) for _, each in frames], np.int64)
        parts["base"], parts["octets"] = starts + octets.ctypes.data, lengths
        messages["header"]["name"] = [offset_of[name] + addresses.ctypes.data for name, _ in frames]
        messages["header"]["name_octets"] = len(addresses) // len(names)
        self._memory = messages, parts, octets, addresses
        self._lengths = lengths
        counts = np.array([len(each.segments) for each in self.streams], np.int64)
        ends = np.cumsum(counts)
        turns = np.array([len(each.frames) for _, each in segments], np.int64)

        def column(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array(values, np.int64)

        of_streams = len(self.streams)
        facts: Any = new_record(stream_loop.StreamFacts)
        facts.descriptor = self._socket.socket.fileno()
        self._timetable: Timetable = stream_loop.Timetable(
            facts=facts,
            messages=messages.view(np.int64),
            segment=ends - counts, end=ends.copy(),
            next_ns=np.full(of_streams, -FOREVER_NS), before_ns=column([0] * of_streams),
            counted_ns=column([0] * of_streams),
            first_ns=column([each.first_ns for _, each in segments]),
            until_ns=column([each.until_ns for _, each in segments]),
            interval_ns=column([each.interval_ns for _, each in segments]),
            limit_ns=column([each.limit_ns for _, each in segments]),
            message=np.cumsum(turns) - turns, count=turns,
            every_frame=column([each.every_frame for _, each in segments]),
        )  # fmt: skip
        self._starts = ends - counts
        self._workers: list[Worker] = []

    def run(self, prepared: Callable[[], None] = lambda: None) -> None:
        """Send all streams to their ends; ``prepared`` is called after the code is loaded."""
        from ecmproto.frames.capture.linux.stream_loop import keep, new_worker

        processors = stream_processors()
        self._workers = [
            new_worker(
                len(self.streams), len(self._lengths), second=number > 0, alone=len(processors) == 1,
                spin_ns=_SPIN_NS,
            )
            for number in range(len(processors))
        ]  # fmt: skip
        facts = self._timetable.facts
        facts.stop = 1
        for worker in self._workers:
            keep(self._timetable, worker)  # loads the code
        prepared()
        facts.stop = facts.second_busy = 0
        facts.start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + _LEAD_NS
        began = _both_clocks()
        ahead: list[int] = []
        errors: list[BaseException] = []

        def work(worker: Worker, processor: int) -> None:
            try:
                if _run_ahead(processor):
                    ahead.append(processor)
                with open("/proc/thread-self/schedstat", "rb") as schedstat:
                    worker.facts.schedstat = schedstat.fileno()
                    keep(self._timetable, worker)
            except BaseException as error:  # raised where the thread is joined
                errors.append(error)
                facts.stop = 1

        threads = [
            threading.Thread(target=work, args=pair, daemon=True)
            for pair in zip(self._workers, processors, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            self._wait(threads)
        finally:
            facts.stop = 1
            for thread in threads:
                thread.join()
            self._clocks = began, _both_clocks()
            self.processors = tuple(sorted(ahead))
        if errors:
            raise errors[0]

    def _wait(self, threads: Sequence[threading.Thread]) -> None:
        """Wait for the end of the threads.

        Raises InterfaceError if an interface was removed or accepted no frame for 5 s.
        """
        since = time.monotonic()
        sent = failed = 0
        while any(thread.is_alive() for thread in threads):
            threads[0].join(_JOIN_S)
            self._check()
            now_sent = self.sent
            now_failed = sum(int(worker.failed.sum()) for worker in self._workers)
            if now_failed == failed or now_sent > sent:
                since = time.monotonic()
            elif time.monotonic() - since > _PATIENCE_S:
                raise self._full()
            if now_failed > failed:
                for name in self.facts:
                    interface_facts(name)
            sent, failed = now_sent, now_failed

    def _full(self) -> InterfaceError:
        number = next(n for n in range(len(self.streams)) if any(each.failed[n] for each in self._workers))
        name = self.streams[number].interface
        up = interface_facts(name).up
        return InterfaceError(
            interface=name, needed="to send frames",
            got=f"{'no space for a frame' if up else 'a link that stayed down'} for 5 s",
        )  # fmt: skip

    def steals(self) -> Int64:
        """Return the times at which no thread had a processor, as sorted rows of start and end.

        Times are from ``CLOCK_REALTIME``, as are the stamps of frames.
        """
        spans = np.concatenate(
            [each.steal_ns[: 2 * each.facts.steals].reshape(-1, 2) for each in self._workers]
        )
        times = spans.T.ravel()
        steps = np.repeat([1, -1], len(spans))
        order = np.lexsort((steps, times))
        begins = np.flatnonzero(np.cumsum(steps[order]) == len(self._workers))
        both = np.stack([times[order][begins], times[order][begins + 1]], axis=1)
        (first_ns, first_real_ns), (last_ns, last_real_ns) = self._clocks
        pace = (last_real_ns - first_real_ns) / (last_ns - first_ns)
        stamps: Int64 = first_real_ns + ((both - first_ns) * pace).astype(np.int64)
        return stamps

    @property
    def sent(self) -> int:
        """Number of frames sent so far."""
        return sum(int(worker.frames.sum()) for worker in self._workers)

    def release(self) -> None:
        """Send the last frame without an interval of each stream that has begun, at once."""
        table = self._timetable
        table.before_ns[:] = 0
        for number, stream in enumerate(self.streams):
            last = int(table.end[number]) - 1
            begun = any(worker.frames[number] for worker in self._workers)
            ends = stream.segments[-1].interval_ns == 0
            table.segment[number] = last if begun and ends and table.segment[number] <= last else last + 1
            if ends:
                table.first_ns[last] = 0
        if (table.segment < table.end).any():
            self._finish()

    def _finish(self) -> None:
        from ecmproto.frames.capture.linux.stream_loop import keep

        self._timetable.facts.stop = 0
        thread = threading.Thread(target=keep, args=(self._timetable, self._workers[0]), daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
        self._timetable.facts.stop = 1
        if thread.is_alive():
            raise self._full()

    def report(self) -> StreamsReport:
        """Return the report of the frames sent so far."""
        late = np.max([each.late for each in self._workers], axis=0)
        late[1:] = np.sum([each.late[1:] for each in self._workers], axis=0)
        return StreamsReport(
            streams=tuple(self._report(number, stream) for number, stream in enumerate(self.streams)),
            jitter=Jitter(
                p50_ns=percentile_ns(late, 50), p99_ns=percentile_ns(late, 99), max_ns=int(late[0])
            ),
            processors=self.processors,
        )

    def _report(self, number: int, stream: Stream) -> StreamReport:
        workers, table = self._workers, self._timetable

        def total(name: str) -> int:
            return sum(int(getattr(each, name)[number]) for each in workers)

        last_gap_ns = self._last_gap_ns(number)
        limit_ns = max(each.limit_ns for each in stream.segments)
        begun = [int(each.begun_ns[number]) for each in workers if each.begun_ns[number]]
        last = max(int(each.last_ns[number]) for each in workers)
        low = int(table.message[self._starts[number]])
        messages = slice(low, low + sum(len(each.frames) for each in stream.segments))
        octets = sum(int((each.by_message[messages] * self._lengths[messages]).sum()) for each in workers)
        return StreamReport(
            name=stream.name, interface=stream.interface, frames=total("frames"), octets=octets,
            failed=total("failed"), duration_ns=max(0, last - min(begun)) if begun else 0,
            released=bool(table.segment[number] >= table.end[number]),
            gaps=GapCounts(
                limit_ns=limit_ns,
                longest_ns=max(last_gap_ns, *(int(each.longest_ns[number]) for each in workers)),
                longer=total("longer") + (last_gap_ns > limit_ns),
                excess_ns=total("excess_ns") + max(0, last_gap_ns - limit_ns), skipped=total("skipped"),
            ),
        )  # fmt: skip

    def _last_gap_ns(self, number: int) -> int:
        """Return the time from the last frame to the end of a stream whose last segment has a limit."""
        table = self._timetable
        last = int(table.end[number]) - 1
        ended = table.segment[number] > last and table.limit_ns[last] and table.before_ns[number]
        return max(0, int(table.until_ns[last] - table.before_ns[number])) if ended else 0


def _both_clocks() -> tuple[int, int]:
    """Return the times of the monotonic clock and of ``CLOCK_REALTIME``."""
    before_ns, real_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
    return (before_ns + time.clock_gettime_ns(time.CLOCK_MONOTONIC)) // 2, real_ns


def _check_frames(streams: Sequence[Stream], facts: dict[str, InterfaceFacts]) -> None:
    """Raise InterfaceError for a frame that is too long for its interface."""
    for stream in streams:
        limit = facts[stream.interface].longest_octets
        longest = max((len(each) for segment in stream.segments for each in segment.frames), default=0)
        if longest > limit:
            raise InterfaceError(
                interface=stream.interface, needed=f"frames of at most {limit} octets", got=str(longest)
            )


def _laid_out(pieces: Sequence[bytes]) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, Any]]:
    """Return the pieces in one array of octets, and the start of each piece."""
    starts = np.array([0, *itertools.accumulate(map(len, pieces))][:-1], np.int64)
    return np.frombuffer(b"".join(pieces), np.uint8).copy(), starts


def _address(facts: InterfaceFacts) -> bytes:
    """Return the struct sockaddr_ll of an interface."""
    return struct.pack("=HHiHBB8s", socket.AF_PACKET, 0, facts.index, 0, 0, 6, b"")


def _run_ahead(processor: int) -> bool:
    """Run this thread on a processor with real-time priority; return whether the system allows it."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    try:
        os.sched_setaffinity(0, {processor})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except OSError:
        return False
    return True


def stream_processors() -> list[int]:
    """Return the processors for streams: the last two processors that this process may use."""
    return sorted(os.sched_getaffinity(0))[-2:]


def may_run_ahead() -> bool:
    """Return whether threads of this process may run with real-time priority."""
    allowed: list[bool] = []
    processor = stream_processors()[0]
    thread = threading.Thread(target=lambda: allowed.append(_run_ahead(processor)))
    thread.start()
    thread.join()
    return allowed == [True]
