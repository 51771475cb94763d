"""The interface of executors: they are given tasks, and return rows in any order of completion.

A task is plain data; the function applied to it is named by its import path, so that a process on another
machine needs only this package. Rows are plain data too (`ecmproto.executors.rows`).

Executors: `Processes` of this machine (`ecmproto.executors.processes`) and a Dask `Cluster`
(`ecmproto.executors.cluster`). Batch systems run the same command many times, each with a `Shard` of the
tasks. `ecmproto.executors.running` stores the results of a run, so that a second one need not repeat them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, TypeVar

from ecmproto.errors import ParameterError, shown

T = TypeVar("T")

MAX_SHARDS = 1_000_000
FAILED, KILLED = "failed", "killed"
"""Kinds of failures: the function raised an error; the process that ran it died, twice."""
KILLS = 2
"""Number of workers that may die while running a task before it is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One unit of work."""

    key: str
    """Digest of everything that determines the row (`task_key`): letters, digits, dots and dashes."""
    data: Mapping[str, Any]
    """Argument of the function, as plain data."""
    name: str = ""
    """Name for users."""
    size: float = 1.0
    """Amount of work relative to other tasks, such as octets of a capture."""


@dataclass(frozen=True, slots=True)
class Call:
    """The function applied to each task, with its options.

    >>> Call("ecmproto.control.lab.results.sweeps:run_point", {"figures": ["queue.p99"]})
    """

    function: str
    """``module:function``; takes a task's data and ``options``, returns a row: a dict of plain data."""
    options: Mapping[str, Any] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    """Options without influence on rows, such as a folder for outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason for a missing row of a task."""

    kind: str
    error: str
    """Class of the error, or the signal."""
    sentence: str
    """Message for users."""
    trace: str = ""
    """Traceback of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """A task that is done, or failed."""

    task: Task
    row: Mapping[str, Any]
    """Result of the function, with the task's key as ``digest``; empty after a failure."""
    failure: Failure | None = None
    was_known: bool = False
    """Whether it was done by an earlier run."""
    elapsed_s: float = 0.0
    worker: str = ""
    was_warm: bool = True
    """Whether the worker had called the function before."""
    packed: bytes = field(default=b"", repr=False)
    """Packed row as received, for a `RowStore`."""


Results = Generator[TaskResult, None, None]
"""Results in order of completion; closing the generator stops the rest."""


class Executor(Protocol):
    """Runner of tasks; as a context manager it keeps its workers between runs."""

    @property
    def workers(self) -> int:
        """Current number of working processes."""

    def run(self, tasks: Iterable[Task], call: Call, *, expected: int = 0) -> Results:
        """Yield the result of each task as it is done, in any order.

        ``expected`` is the number of tasks, if known. ExecutorError if nothing can be run: no such function,
        no worker, no scheduler.
        """

    def __enter__(self) -> Executor:
        """Keep workers, once there are some, for the next run."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the workers."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``number`` of ``count`` of all tasks, from 1 on."""

    number: int = 1
    count: int = 1

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items of this part: every ``count``-th."""
        return items[self.number - 1 :: self.count]


def parse_shard(text: str) -> Shard:
    """Return the part written as ``3/40``."""
    number, slash, count = text.partition("/")
    if not (
        slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= MAX_SHARDS
    ):
        raise ParameterError(name="shard", needed="a part and the number of parts, as 3/40", got=shown(text))
    return Shard(int(number), int(count))


def ignore_message(sentence: str) -> None:
    """Ignore a message."""
