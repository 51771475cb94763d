"""Tasks run by processes of this machine. If a process dies, only its current task is lost."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import wait
from queue import SimpleQueue

from ecmproto.errors import ExecutorError
from ecmproto.executors.batches import Batches
from ecmproto.executors.protocol import Call, Results, Task, TaskResult, ignore_message
from ecmproto.executors.work import Answer, answer, answers_or_end, begin, result_of, this_worker

_BATCH_S = 0.5
"""Target duration of a batch in seconds, a thousand times the cost of starting a batch."""
_ENDING_S = 5.0
"""Time for a process to clean up."""
_STARTS = 3
"""Number of failed starts after which a process is considered unable to start."""


@dataclass(slots=True)
class Processes:
    """``jobs`` processes of this machine. A single job runs in the calling process unless ``apart`` is set.

    Output printed by processes goes to stderr. A script that uses several processes must start them below
    ``if __name__ == "__main__":``, as with `multiprocessing`, because each process imports the script.
    """

    jobs: int = 1
    apart: bool = False
    """Whether a single job runs in a separate process, so that the caller survives if the job dies."""
    notify: Callable[[str], None] = field(default=ignore_message, repr=False)
    """Function called with a message about a process that died."""
    _stays_open: bool = field(default=False, init=False, repr=False)
    _crew: _Crew | None = field(default=None, init=False, repr=False)

    @property
    def workers(self) -> int:
        """Number of working processes."""
        return self.jobs

    def run(self, tasks: Iterable[Task], call: Call, *, expected: int = 0) -> Results:
        """Yield the result of each task when the task is done, in any order. See `Executor.run`."""
        if self.jobs == 1 and not self.apart:
            for task in tasks:
                yield result_of(task, answer(call, task))
            return
        crew, self._crew = self._crew or _Crew(self), None
        try:
            yield from crew.results(call, Batches(tasks, target_s=_BATCH_S, expected=expected))
            if self._stays_open:
                self._crew = crew
        finally:
            if self._crew is None:
                crew.end()

    def __enter__(self) -> Processes:
        """Keep the processes for the next run."""
        self._stays_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._stays_open = False
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.end()


class _Process:
    """A pool of one process, and its current batch. If the process dies, no other work is lost."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.index = context.RawValue(ctypes.c_long)
        self.pool = ProcessPoolExecutor(
            1, mp_context=context, initializer=begin, initargs=(os.getcwd(), self.index)
        )
        self.name = self.pool.submit(this_worker)
        # the pool drops a process that dies; terminate_workers exists from Python 3.14 on
        (self.process,) = self.pool._processes.values()
        self.tasks: Sequence[Task] = ()

    def give(self, tasks: Sequence[Task], call: Call) -> Future[list[Answer]]:
        """Start tasks in the idle process."""
        self.tasks = tasks
        self.index.value = 0
        try:
            return self.pool.submit(answers_or_end, tasks, call)
        except BrokenProcessPool as error:  # it died while it was idle
            future: Future[list[Answer]] = Future()
            future.set_exception(error)
            return future

    def ended(self) -> str:
        """Return the reason for the end of the process, or None while the process runs."""
        self.pool.shutdown()
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class _Crew:
    """The idle and busy processes of an executor."""

    def __init__(self, processes: Processes) -> None:
        self._jobs = processes.jobs
        self._notify = processes.notify
        self._idle: list[_Process] = []
        self._busy: dict[Future[list[Answer]], _Process] = {}
        self._done: SimpleQueue[Future[list[Answer]]] = SimpleQueue()
        self._not_started = 0
        # raise this process's limit of open files to the system's: a pool has eight
        with suppress(ImportError, ValueError, OSError):
            import resource

            _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    def results(self, call: Call, batches: Batches) -> Iterator[TaskResult]:
        """Yield results until there are no more tasks."""
        while self._give(call, batches) or self._busy:
            future = self._done.get()
            process = self._busy.pop(future)
            self._idle.append(process)
            try:
                answered = future.result()
            except BrokenProcessPool:
                yield from self._died(process, batches)
                continue
            self._not_started = 0
            results = [result_of(*each) for each in zip(process.tasks, answered, strict=True)]
            for result in results:
                batches.measure(result)
            self._give(call, batches)  # the caller takes time with results
            yield from results

    def _give(self, call: Call, batches: Batches) -> bool:
        """Give a batch to each idle process. Return whether there was a batch."""
        given = False
        while len(self._busy) < self._jobs:
            batch = [batches.next_suspected()] if batches.suspected else batches.next(self._jobs)
            if not batch:
                break
            process = self._idle.pop() if self._idle else _Process()
            future = process.give(batch, call)
            self._busy[future] = process
            future.add_done_callback(self._done.put)
            given = True
        return given

    def _died(self, process: _Process, batches: Batches) -> Iterator[TaskResult]:
        self._idle.remove(process)
        why, pid, index = process.ended(), process.process.pid, process.index.value
        if process.name.exception() is None:
            self._notify(f"process {pid} died ({why}); its task is run again")
            batches.put_back([*process.tasks[:index], *process.tasks[index + 1 :]])
            yield from batches.killed([process.tasks[index]], why, f"process {pid}")
            return
        batches.put_back(process.tasks)
        self._not_started += 1
        if self._not_started >= _STARTS:
            raise ExecutorError(where="a process of this machine", needed="one that starts", got=why)

    def end(self) -> None:
        """Terminate all processes and abandon their current tasks."""
        every = [*self._idle, *self._busy.values()]
        for each in every:
            each.process.terminate()
        for each in every:
            if not wait([each.process.sentinel], _ENDING_S):
                each.process.kill()
            each.pool.shutdown(cancel_futures=True)
