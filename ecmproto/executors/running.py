"""Runs of tasks. Earlier results are read from a store, new results are stored, and all are yielded."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ecmproto._version import __version__
from ecmproto.executors.protocol import Call, Executor, Results, Task, TaskResult
from ecmproto.executors.rows import RowStore, pack

_PLUGINS = ("ecmproto.mechanisms", "ecmproto.formats")


@functools.cache
def code_digest() -> str:
    """Return a digest of the code that determines results: this package and its plug-ins."""
    from importlib.metadata import entry_points

    root = Path(__file__).resolve().parents[1]
    whole = hashlib.sha256(__version__.encode())
    for path in sorted(root.rglob("*.py")):
        whole.update(path.relative_to(root).as_posix().encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    for group in _PLUGINS:
        for entry in sorted(entry_points(group=group)):
            version = entry.dist.version if entry.dist is not None else ""
            whole.update(f"\n{group} {entry.name} {entry.value} {version}".encode())
    return whole.hexdigest()[:16]


@functools.cache
def _source_digest(module: str) -> str:
    """Return the digest of a module outside this package."""
    if module.partition(".")[0] == "ecmproto":
        return ""
    with suppress(ImportError, ValueError, OSError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    return ""


def task_key(call: Call, *parts: object) -> str:
    """Return the key of a task: a digest of ``parts`` (plain data), the call and the code."""
    options = {name: call.options[name] for name in sorted(call.options) if name not in call.outside}
    code = [code_digest(), _source_digest(call.function.partition(":")[0])]
    given = pack({"function": call.function, "options": options, "parts": list(parts), "code": code})
    return hashlib.sha256(given).hexdigest()[:24]


@dataclass(slots=True, kw_only=True)
class Tally:
    """The progress of a run: number of tasks and amount of work, such as frames."""

    total: int = 0
    noun: str = "task"
    """Word for a task in messages."""
    unit: str = ""
    """Unit of ``amount_of``; empty if the tasks themselves are counted."""
    amount_of: Callable[[TaskResult], float] = lambda result: 1.0
    """Function that returns the amount of work in a result, in ``unit``."""
    known: int = 0
    """Number of tasks that earlier runs finished."""
    done: int = 0
    """Number of tasks that this run finished."""
    failures: list[TaskResult] = field(default_factory=list)
    """Results without a row."""
    amount: float = 0.0
    """Amount of work that this run finished."""
    workers: int = 0
    begun_s: float = field(default_factory=time.monotonic)

    def take(self, result: TaskResult) -> None:
        """Count a result."""
        if result.failure is not None:
            self.failures.append(result)
        elif result.was_known:
            self.known += 1
        else:
            self.done += 1
            self.amount += self.amount_of(result)

    @property
    def finished(self) -> int:
        """Number of tasks with a final result."""
        return self.known + self.done + len(self.failures)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of the run."""
        return time.monotonic() - self.begun_s

    @property
    def rate(self) -> float:
        """Amount of work per second, in ``unit``."""
        return self.amount / max(self.elapsed_s, 1e-9)

    @property
    def to_go_s(self) -> float | None:
        """Estimated remaining time in seconds; None while each process runs its first tasks."""
        run = self.done + len(self.failures)
        if run < 2 * max(1, self.workers):
            return None
        return self.elapsed_s * (self.total - self.finished) / run


def run_tasks(
    tasks: Collection[Task],
    call: Call,
    *,
    executor: Executor,
    store: RowStore | None = None,
    tally: Tally | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Results:
    """Yield the result of each task, in any order.

    Finished tasks are read from the store; other tasks are run.

    ``tasks`` is iterated twice, so a collection can make tasks on demand. Each task has a unique key.
    ``tally`` contains the number of tasks and counts results. ``progress`` is called with ``tally`` after
    each result. Failures are not stored.
    """
    counts = tally if tally is not None else Tally()

    def counted(result: TaskResult) -> TaskResult:
        counts.take(result)
        counts.workers = executor.workers
        progress(counts)
        return result

    def is_known(task: Task) -> bool:
        return store is not None and task.key in store

    def missing() -> Iterator[Task]:
        return (task for task in tasks if not is_known(task))

    left = len(tasks)
    if store:
        for task in tasks:
            if is_known(task):
                left -= 1
                yield counted(TaskResult(task=task, row=store[task.key], was_known=True))
    if not left:
        return
    with closing(executor.run(missing(), call, expected=left)) as results:
        for result in results:
            if store is not None and result.failure is None:
                store.add(result.task.key, result.packed)
            yield counted(result)
