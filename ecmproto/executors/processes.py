"""Tasks run by processes of this machine; one that dies is replaced, and costs the task that it was at."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import TracebackType

from ecmproto.errors import ExecutorError
from ecmproto.executors.batches import Batches
from ecmproto.executors.protocol import Call, Results, Task, TaskResult, say_nothing
from ecmproto.executors.work import READY, REFUSED, answers, function_of, request_of, result_of

_BATCH_S = 0.5
"""Work that a process is given at a time: a thousand times what giving it takes."""
_ENDING_S = 5.0
"""Time that a process has to clear up."""
_STARTS = 3
"""A process that ends this often before its first task cannot be started."""

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from ecmproto.executors.work import serve
serve(int(sys.argv[1]))
"""


@dataclass(slots=True)
class Processes:
    """``jobs`` processes of this machine; one job is done by this process itself, unless ``apart``.

    What is printed by processes goes to stderr.
    """

    jobs: int = 1
    apart: bool = False
    """Whether a single job has a process of its own, whose death this one survives."""
    tell: Callable[[str], None] = field(default=say_nothing, repr=False)
    """Called with a sentence on a process that died."""
    _are_kept: bool = field(default=False, init=False, repr=False)
    _crew: _Crew | None = field(default=None, init=False, repr=False)

    @property
    def workers(self) -> int:
        """How many processes work."""
        return self.jobs

    def run(self, tasks: Iterable[Task], call: Call, *, expected: int = 0) -> Results:
        """Yield the result of each task as it is done, in any order; `Executor.run`."""
        if self.jobs == 1 and not self.apart:
            function_of(call.function)
            for task in tasks:
                for answer in answers(request_of([task], call)):
                    yield result_of(task, answer)[0]
            return
        crew, self._crew = self._crew or _Crew(self), None
        try:
            yield from crew.results(call, Batches(tasks, target_s=_BATCH_S, expected=expected))
            if self._are_kept:
                self._crew = crew
        finally:
            if self._crew is None:
                crew.end()

    def __enter__(self) -> Processes:
        """Keep processes for the next run."""
        self._are_kept = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._are_kept = False
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.end()


class _Process:
    """A process that was started, and the tasks that it has, the first of which it is at."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)]
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()]
            )
        self.connection = Connection(ours.detach())
        self.tasks: deque[Task] = deque()
        self.is_ready = False

    def give(self, tasks: Sequence[Task], call: Call) -> None:
        """Have it run tasks; it has none."""
        self.tasks.extend(tasks)
        with suppress(OSError):  # it may have died, as will be read
            self.connection.send_bytes(request_of(tasks, call))

    def ended(self) -> str:
        """Return how it ended, once it has."""
        self.connection.close()
        code = self.process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class _Crew:
    """Processes at work, or ready for it."""

    def __init__(self, processes: Processes) -> None:
        self._jobs = processes.jobs
        self._tell = processes.tell
        self._idle: list[_Process] = []
        self._busy: dict[Connection, _Process] = {}
        self._not_started = 0

    def results(self, call: Call, batches: Batches) -> Iterator[TaskResult]:
        """Yield results until there are no more tasks."""
        while self._give(call, batches) or self._busy:
            for connection in wait(list(self._busy)):
                worker = self._busy[connection]  # type: ignore[index]
                try:
                    message = worker.connection.recv_bytes()
                except (EOFError, OSError):
                    yield from self._died(worker, batches)
                else:
                    yield from self._said(worker, message, call, batches)

    def _give(self, call: Call, batches: Batches) -> bool:
        """Give a batch to each process that has none; return whether one got some."""
        given = False
        while len(self._busy) < self._jobs:
            batch = [batches.next_suspected()] if batches.suspected else batches.next(self._jobs)
            if not batch:
                break
            worker = self._idle.pop() if self._idle else _Process()
            self._busy[worker.connection] = worker
            worker.give(batch, call)
            given = True
        return given

    def _said(self, worker: _Process, message: bytes, call: Call, batches: Batches) -> Iterator[TaskResult]:
        if message == READY:
            worker.is_ready = True
            self._not_started = 0
            return
        if message.startswith(REFUSED):
            needed, got = "a function that workers can import", message.removeprefix(REFUSED).decode()
            raise ExecutorError(where=call.function, needed=needed, got=got)
        result, was_warm = result_of(worker.tasks.popleft(), message)
        if was_warm:
            batches.measure(result)
        if not worker.tasks:
            self._idle.append(self._busy.pop(worker.connection))
        yield result

    def _died(self, worker: _Process, batches: Batches) -> Iterator[TaskResult]:
        del self._busy[worker.connection]
        why = worker.ended()
        tasks = list(worker.tasks)
        if worker.is_ready:
            self._tell(f"process {worker.process.pid} died ({why}); what it was at is run again")
            batches.put_back(tasks[1:])
            yield from batches.killed(tasks[:1], why, f"process {worker.process.pid}")
            return
        batches.put_back(tasks)
        self._not_started += 1
        if self._not_started >= _STARTS:
            raise ExecutorError(where="a process of this machine", needed="one that starts", got=why)

    def end(self) -> None:
        """End all processes: what they are at is not finished."""
        every = [*self._idle, *self._busy.values()]
        for worker in every:
            worker.connection.close()
            worker.process.terminate()
        for worker in every:
            try:
                worker.process.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
