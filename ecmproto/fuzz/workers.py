"""Batches judged by several processes, their verdicts in the order of the batches.

A process gets one batch at a time, as numbers: what it says follows from them, whichever process says it.
It ends when the process that started it closes the pipe between them, or is killed.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from ecmproto.fuzz.judgement import Disagreement, Judge, Stretch

Verdict = tuple[Stretch, list[Disagreement]]

_AHEAD = 8
"""How many batches for each process there may be that wait for the first of them."""
_ENDING_SECONDS = 10.0
"""How long a process may take to end after its pipe is closed."""


def verdicts(judge: Judge, stretches: Iterator[Stretch], jobs: int) -> Generator[Verdict, None, None]:
    """Yield what ``judge`` says of each of ``stretches``, in their order, judged by ``jobs`` processes.

    With one job it is done here.  Of a process that a signal ends it is said that it crashed; RuntimeError
    where one ends otherwise.
    """
    if jobs == 1:
        judge.load()
        for stretch in stretches:
            yield stretch, judge.of(stretch)
        return
    with _started(judge, jobs) as workers:
        yield from _in_order(workers, stretches)


class _Workers:
    """Processes that judge; those that are ``idle``, and what each of the others is ``busy`` with."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._processes: dict[Connection, BaseProcess] = {}
        self.idle: list[Connection] = []
        self.busy: dict[Connection, Stretch] = {}

    def __len__(self) -> int:
        return len(self._processes)

    def start(self) -> None:
        """Start another process."""
        here, there = multiprocessing.Pipe()
        process = _SPAWNING.Process(target=_work, args=(there, self._judge), daemon=True)
        # Ctrl-C reaches all processes of a terminal, and is for this one alone.  Starting the tracker, which
        # the first process would do else, lets it through again
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        there.close()
        self._processes[here] = process
        self.idle.append(here)

    def judge(self, stretch: Stretch) -> None:
        """Give a batch to a process that is idle."""
        worker = self.idle.pop()
        self.busy[worker] = stretch
        # where it has ended, that is seen when its verdict is awaited
        with suppress(BrokenPipeError):
            worker.send(stretch)

    def judged(self) -> Iterator[Verdict]:
        """Wait for verdicts, and yield those that have come."""
        for worker in wait(list(self.busy)):
            assert isinstance(worker, Connection)
            stretch = self.busy.pop(worker)
            try:
                found: list[Disagreement] = worker.recv()
                self.idle.append(worker)
            except (EOFError, ConnectionResetError):
                found = [self._crash(worker)]
                self.start()
            yield stretch, found

    def _crash(self, worker: Connection) -> Disagreement:
        process = self._processes.pop(worker)
        worker.close()
        process.join()
        code = process.exitcode or 0
        if code >= 0:
            raise RuntimeError(f"a process of a campaign ended with status {code}")
        what = f"a process ended by {signal.Signals(-code).name}"
        return Disagreement(kind="crash", signature=what, detail=what, check="")

    def end(self) -> None:
        """Let each finish its batch and end; end those that do not."""
        for worker in self._processes:
            worker.close()
        for process in self._processes.values():
            process.join(_ENDING_SECONDS)
            if process.exitcode is None:
                process.kill()
                process.join()


_SPAWNING = multiprocessing.get_context("spawn")


@contextmanager
def _started(judge: Judge, jobs: int) -> Iterator[_Workers]:
    workers = _Workers(judge)
    try:
        for _ in range(jobs):
            workers.start()
        yield workers
    finally:
        workers.end()


def _in_order(workers: _Workers, stretches: Iterator[Stretch]) -> Iterator[Verdict]:
    order: deque[Stretch] = deque()
    done: dict[Stretch, list[Disagreement]] = {}
    while True:
        while workers.idle and len(order) < _AHEAD * len(workers):
            stretch = next(stretches, None)
            if stretch is None:
                break
            workers.judge(stretch)
            order.append(stretch)
        if not order:
            return
        if order[0] not in done:
            done.update(workers.judged())
        else:
            yield order[0], done.pop(order.popleft())


def _work(pipe: Connection, judge: Judge) -> None:
    """Judge batches until the pipe is closed."""
    judge.load()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            pipe.send(judge.of(pipe.recv()))
