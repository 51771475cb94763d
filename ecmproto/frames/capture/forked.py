"""Several processes that read a large plain capture, with results in order.

Each process takes the next part of the file and computes its result. The process searches for the first
record of a part and reads from this record at once. Then the process waits for the end of the previous part,
which the process with that part sends. If the records do not begin at this end, the process reads the part
again. The results are therefore correct for any contents, and no process waits for the results of another
process.

Threads would share the interpreter's lock, which statistics and checks use half of the time. Processes are
forked, so that each process has the loaded modules and kernels. Forking is only safe in a process without
other threads, such as a command.
"""

from __future__ import annotations

import dataclasses
import itertools
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ecmproto.errors import CaptureError, EcmprotoError, ExecutorError
from ecmproto.frames.capture.batch import Interface
from ecmproto.frames.capture.parts import Part, PartReader, Reached, RecordSearch, following
from ecmproto.frames.capture.reader import BATCH_FRAMES, opened_source
from ecmproto.frames.capture.source import MappedSource, Source
from ecmproto.kernels import library
from ecmproto.memory import keep_freed_memory

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

PART_OCTETS = 16 << 20
"""Size of a part in octets."""
MIN_OCTETS = 64 << 20
"""Minimum size of a capture for several processes, in octets."""
_MAX_PROCESSES = 4
_SLOT_OCTETS = 32 << 20
"""Size of each of the two output buffers of a process; one is filled while the other is read."""
_TURN_OCTETS = 8
"""Size of the index of the next part, which one process at a time reads from a pipe."""
_Slots = tuple[mmap.mmap, mmap.mmap]

Put = Callable[[bytes | memoryview], None]
Work = Callable[[PartReader, Put], Any]
"""Function that processes a part: the function passes output to the second argument and returns a result."""


class Done(NamedTuple):
    """A processed part: the state after reading it, the interfaces so far, and the result."""

    part: Part
    reached: Reached
    interfaces: list[Interface]
    result: Any


class _Handed(NamedTuple):
    """Output of a part: the index of the buffer, and the lengths of the pieces in it."""

    slot: int
    lengths: Sequence[int]


def processes_for(paths: Sequence[str | os.PathLike[str]]) -> int:
    """Return the number of processes for reading captures: 1 unless ``paths`` is one large plain file.

    Without the library of kernels the number is 1, because each process would load or compile kernels.
    """
    if not library.is_loaded() or sys.platform != "linux" or len(paths) != 1 or threading.active_count() > 1:
        return 1
    if not os.path.isfile(paths[0]) or os.path.getsize(paths[0]) < MIN_OCTETS:
        return 1
    with open(paths[0], "rb") as file, opened_source(paths[0]) as (source, name):
        divisible = isinstance(source, MappedSource) and RecordSearch(file, name).can_find
    return min(len(os.sched_getaffinity(0)), _MAX_PROCESSES) if divisible else 1


class ForkedCapture:
    """A capture that several processes read in parts; a context manager and an iterator over the parts in
    order.

    ``take`` is called with each piece of output of a part before the part is yielded. ``frames``,
    ``interfaces``, ``warnings``, ``problem`` and ``octets_read`` describe the parts that were yielded.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        work: Work,
        *,
        processes: int,
        take: Callable[[memoryview], None] | None = None,
        part_octets: int = PART_OCTETS,
    ) -> None:
        self.path: str = os.fspath(path)
        self.size_octets: int = os.path.getsize(path)
        self.octets_read: int = 0
        self.frames: int = 0
        self.interfaces: list[Interface] = []
        self.warnings: list[str] = []
        self.problem: CaptureError | None = None
        self._part_octets = part_octets
        self._work, self._take = work, take
        self._processes = processes
        self._running: list[ForkProcess] = []
        self._slots: dict[Connection, _Slots] = {}
        """The buffers of each process, by the connection to the process."""
        self._received: dict[Connection, tuple[int, Any]] = {}
        """Messages on later parts: the index of the part and the message, at most one for each process."""

    def __enter__(self) -> Self:
        """Start the processes; other threads must start later."""
        from multiprocessing import get_context  # it imports sockets and temporary files

        context, count = get_context("fork"), self._processes
        turns = os.pipe()
        ends = [context.Pipe(duplex=False) for _ in range(count + 1)]
        answers = [context.Pipe() for _ in range(count)]
        self._slots = {
            ours: (mmap.mmap(-1, _SLOT_OCTETS), mmap.mmap(-1, _SLOT_OCTETS)) for ours, _ in answers
        }

        def run(number: int) -> None:
            ours, theirs = answers[number]
            for each in itertools.chain(*answers):
                if each is not theirs:
                    each.close()
            _Worker(self, self._slots[ours], theirs, turns, ends).run()

        self._running = [context.Process(target=run, args=(number,), daemon=True) for number in range(count)]
        for process in self._running:
            process.start()
        os.write(turns[1], bytes(_TURN_OCTETS))
        ends[0][1].send(Part(path=self.path, before=0))
        for descriptor in turns:
            os.close(descriptor)
        for connection in (*itertools.chain(*ends), *(theirs for _, theirs in answers)):
            connection.close()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            if process.is_alive():
                process.kill()
                process.join()

    def __iter__(self) -> Iterator[Done]:
        for index in range(self._parts):
            done = self._result(index)
            if done is not None:
                self._follow(done)
                yield done

    @property
    def _parts(self) -> int:
        return -(-self.size_octets // self._part_octets)

    def _result(self, index: int) -> Done | None:
        """Return the result of a part, or ``None`` if no record begins in the part."""
        answer, result = self._next(index)
        while isinstance(result, _Handed):
            at, view = 0, memoryview(self._slots[answer][result.slot])
            for length in result.lengths:
                if self._take is not None:
                    self._take(view[at : at + length])
                at += length
            answer.send(None)
            answer, result = self._next(index)
        if isinstance(result, Exception):
            raise result
        done: Done | None = result
        return done

    def _next(self, index: int) -> tuple[Connection, Any]:
        """Return the next message on a part, and the connection that it came from.

        Raises ExecutorError if a process has ended.
        """
        from multiprocessing.connection import wait

        while True:
            for answer, (part, message) in self._received.items():
                if part == index:
                    del self._received[answer]
                    return answer, message
            ready: Any
            for ready in wait([each for each in self._slots if each not in self._received]):
                try:
                    self._received[ready] = ready.recv()
                except (EOFError, ConnectionError) as error:
                    raise ExecutorError(
                        where="a process of this command", needed="to end by itself", got="the end of it"
                    ) from error

    def _follow(self, done: Done) -> None:
        reached = done.reached
        self.interfaces = done.interfaces
        self.octets_read = reached.offset
        if reached.problem is not None:
            self.problem = reached.problem.counted_on(self.frames)
        self.frames += reached.frames
        self.warnings = list(dict.fromkeys([*self.warnings, *reached.warnings]))


class _Worker:
    """A forked process that takes the next part, until there is none.

    ``turns`` is a pipe with the index of the next part. The end of part k is sent through pipe k + 1 of
    ``ends``, modulo the number of pipes. There are more pipes than processes, so two processes never wait for
    the same pipe.
    """

    def __init__(
        self,
        capture: ForkedCapture,
        slots: _Slots,
        answer: Connection,
        turns: tuple[int, int],
        ends: Sequence[tuple[Connection, Connection]],
    ) -> None:
        self._capture = capture
        self._slots, self._answer = slots, answer
        self._turns, self._ends = turns, ends
        self._source: Source
        self._index = self._slot = self._used = self._handed = 0
        self._lengths: list[int] = []

    def run(self) -> None:
        """Process parts until the last part or the end of another process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles the signal
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        keep_freed_memory()
        with suppress(EOFError, ConnectionError):
            self._take_parts()
            while True:
                self._answer.recv()  # until the main process ends this process

    def _take_parts(self) -> None:
        path = self._capture.path
        try:
            with open(path, "rb") as file, opened_source(path) as (self._source, _):
                search = RecordSearch(file, path)
                while self._take_turn():
                    self._send(self._done(search))
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            if not isinstance(error, EcmprotoError):
                from traceback import format_exc

                error.add_note(format_exc())
            self._send(error)

    def _take_turn(self) -> bool:
        """Take the index of the next part; return whether there is such a part."""
        end, start = self._turns
        self._index = int.from_bytes(os.read(end, _TURN_OCTETS))
        os.write(start, (self._index + 1).to_bytes(_TURN_OCTETS))
        return self._index < self._capture._parts

    def _send(self, message: Done | _Handed | Exception | None) -> None:
        self._answer.send((self._index, message))

    def _done(self, search: RecordSearch) -> Done | None:
        """Process a part and return its result, or ``None`` if no record begins in the part."""
        index = self._index
        octets = self._capture._part_octets
        stop = None if index + 1 == self._capture._parts else (index + 1) * octets
        start = next(iter(search.near([index * octets])), None) if index else 0
        described = search.described if index else b""
        reader = None
        if start is not None and (stop is None or start < stop):
            reader = self._read(Part(path=self._capture.path, start=start, stop=stop, described=described))
        part: Part | None = self._ends[index % len(self._ends)][0].recv()
        if part is None or (stop is not None and part.start >= stop):
            self._end(part)
            return None
        part = dataclasses.replace(part, stop=stop)
        if reader is None or part.place != reader.part.place:
            reader = self._read(part)
        reached = reader.reached
        if reached.described is None and reached.problem is None and stop is not None:
            # the blocks that describe the next part are too large to send
            part = dataclasses.replace(part, stop=None)
            reader = self._read(part)
            reached = reader.reached
        over = part.stop is None or reached.problem is not None
        self._end(None if over else following(part, reached, Part(path=part.path)))
        reader.follow(part)
        result = self._capture._work(reader, self._put)
        if self._used:
            self._hand()
        return Done(part, reached, reader.interfaces, result)

    def _read(self, part: Part) -> PartReader:
        self._source.position = part.start
        reader = PartReader(self._source, part, batch_frames=BATCH_FRAMES)
        reader.read()
        return reader

    def _end(self, following: Part | None) -> None:
        """Send the start of the next part; ``None`` means that the capture has ended."""
        self._ends[(self._index + 1) % len(self._ends)][1].send(following)

    def _put(self, octets: bytes | memoryview) -> None:
        """Write output to the buffers for the main process."""
        view = memoryview(octets).cast("B")
        if self._used and self._used + len(view) > _SLOT_OCTETS:
            self._hand()
        while len(view):
            length = min(len(view), _SLOT_OCTETS - self._used)
            self._slots[self._slot][self._used : self._used + length] = view[:length]
            self._lengths.append(length)
            self._used, view = self._used + length, view[length:]
            if len(view):
                self._hand()

    def _hand(self) -> None:
        """Send a filled buffer to the main process, and wait until the other buffer is free."""
        self._send(_Handed(self._slot, self._lengths))
        self._slot, self._used, self._lengths = 1 - self._slot, 0, []
        self._handed += 1
        if self._handed == len(self._slots):
            self._answer.recv()
            self._handed -= 1
