"""The interface of executors. An executor runs tasks and returns rows in order of completion.

A task is plain data. The function that processes a task is named by its import path, so that a process on
another machine needs only this package. Rows are plain data too (`ecmproto.executors.rows`).

Executors are the local `Processes` (`ecmproto.executors.processes`) and a Dask `Cluster`
(`ecmproto.executors.cluster`). A batch system runs the same command many times, each time with a `Shard` of
the tasks. `ecmproto.executors.running` stores the results of a run, so that the next run skips finished
tasks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ecmproto.errors import ParameterError, shown

T = TypeVar("T")

MAX_SHARDS = 1_000_000
FAILED, KILLED = "failed", "killed"
"""Types of failure: the function raised an error, or two workers died while running the task."""
KILLS = 2
"""Number of workers that may die while running a task before the task is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A unit of work."""

    key: str
    """Digest of everything that determines the row (`task_key`): letters, digits, dots and dashes."""
    data: Mapping[str, Any]
    """Argument of the function, as plain data."""
    name: str = ""
    """Name of the task in messages."""
    size: float = 1.0
    """Amount of work relative to other tasks, such as octets of a capture."""


@dataclass(frozen=True, slots=True)
class Call:
    """The function applied to each task, with its options.

    >>> Call("ecmproto.control.lab.results.sweeps:run_point", {"figures": ["queue.p99"]})
    """

    function: str
    """Function as ``module:function``. It is called with a task's data and ``options``, and returns a row."""
    options: Mapping[str, Any] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    """Options that do not affect rows, such as the output folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason for a missing row of a task."""

    kind: str
    error: str
    """Class of the error, or the signal."""
    sentence: str
    """Error message for users."""
    trace: str = ""
    """Traceback of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of a finished or failed task."""

    task: Task
    row: Mapping[str, Any]
    """Row returned by the function, with the task's key as ``digest``; empty after a failure."""
    failure: Failure | None = None
    was_known: bool = False
    """Whether an earlier run finished the task."""
    elapsed_s: float = 0.0
    worker: str = ""
    was_warm: bool = True
    """Whether the worker had called the function before this task."""
    packed: bytes = field(default=b"", repr=False)
    """Packed row as received, for a `RowStore`."""


Results = Generator[TaskResult, None, None]
"""Results in order of completion. Closing the generator cancels the remaining tasks."""


class Executor(Protocol):
    """Runner of tasks. As a context manager, an executor keeps its workers between runs."""

    @property
    def workers(self) -> int:
        """Current number of working processes."""

    def run(self, tasks: Iterable[Task], call: Call, *, expected: int = 0) -> Results:
        """Yield the result of each task when the task is done, in any order.

        ``expected`` is the number of tasks, if known. Raises ExecutorError if the function, the workers or
        the scheduler are missing.
        """

    def __enter__(self) -> Executor:
        """Keep the workers between runs."""

    def __exit__(self, *_: object) -> None:
        """Release the workers."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Share ``number`` of ``count`` equal shares of the tasks, from 1 on."""

    number: int = 1
    count: int = 1

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items of this share: every ``count``-th item."""
        return items[self.number - 1 :: self.count]


def parse_shard(text: str) -> Shard:
    """Return the share written as ``3/40``."""
    number, slash, count = text.partition("/")
    if not (
        slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= MAX_SHARDS
    ):
        raise ParameterError(
            name="shard", needed="a part and the number of parts, such as 3/40", got=shown(text)
        )
    return Shard(int(number), int(count))


def ignore_message(sentence: str) -> None:
    """Ignore a message."""
