"""What an executor is: tasks are given to it, rows come back as they are done, in any order.

A task is plain data, and what is done with it is a function, named by its import path: a process on another
machine needs no more than this package to do it.  Rows are plain data too (`ecmproto.executors.rows`).

Executors: `Processes` of this machine (`ecmproto.executors.processes`) and a `Cluster` of Dask's
(`ecmproto.executors.cluster`).  Batch systems run the same command many times, each with a `Shard` of the
tasks.  What is kept of a run, and what a second one need not do, is in `ecmproto.executors.running`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, TypeVar

from ecmproto.errors import ParameterError, shown

T = TypeVar("T")

MOST_SHARDS = 1_000_000
FAILED, KILLED = "failed", "killed"
"""Kinds of failures: the function raised an error; the process that ran it died, twice."""
KILLS = 2
"""A task that was running when this many workers died is run no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One piece of work."""

    key: str
    """A digest of all that decides the row (`task_key`): letters, digits, dots and dashes."""
    data: Mapping[str, Any]
    """What the function is given, as plain data."""
    name: str = ""
    """What a person calls it."""
    size: float = 1.0
    """How much work it is, beside other tasks: octets of a capture, say."""


@dataclass(frozen=True, slots=True)
class Call:
    """What is done with each task: a function, and what it is told besides the task.

    >>> Call("ecmproto.control.lab.results.sweeps:run_point", {"figures": ["queue.p99"]})
    """

    function: str
    """``module:function``; takes a task's data and ``options``, returns a row: a dict of plain data."""
    options: Mapping[str, Any] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    """Options that rows do not depend on, such as a folder for outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a task has no row."""

    kind: str
    """`FAILED` or `KILLED`."""
    error: str
    """The class of the error, or the signal."""
    sentence: str
    """For a person."""
    trace: str = ""
    """Where in the code the error was raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """A task that is done, or failed."""

    task: Task
    row: Mapping[str, Any]
    """What the function returned, with the task's key as ``digest``; empty where it failed."""
    failure: Failure | None = None
    was_known: bool = False
    """Whether it was done by an earlier run."""
    elapsed_s: float = 0.0
    worker: str = ""
    was_warm: bool = True
    """Whether the worker had called the function before."""
    packed: bytes = field(default=b"", repr=False)
    """The row as it came, for a `RowStore`."""


Results = Generator[TaskResult, None, None]
"""Results as they come; whoever closes it stops the rest."""


class Executor(Protocol):
    """Runs tasks somewhere; as a context manager it keeps its workers between runs."""

    @property
    def workers(self) -> int:
        """How many processes work now."""

    def run(self, tasks: Iterable[Task], call: Call, *, expected: int = 0) -> Results:
        """Yield the result of each task as it is done, in any order.

        ``expected`` is how many tasks there are, if that is known.  ExecutorError where
        nothing can be run: no such function, no worker, no scheduler.
        """

    def __enter__(self) -> Executor:
        """Keep workers, once there are some, for the next run."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let workers go."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``number``-th of ``count`` parts of all tasks, from 1 on."""

    number: int = 1
    count: int = 1

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items of this part: every ``count``-th."""
        return items[self.number - 1 :: self.count]


def parse_shard(text: str) -> Shard:
    """Return the part that ``3/40`` is."""
    number, slash, count = text.partition("/")
    if not (
        slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= MOST_SHARDS
    ):
        raise ParameterError(name="shard", needed="a part and how many there are, as 3/40", got=shown(text))
    return Shard(int(number), int(count))


def say_nothing(sentence: str) -> None:
    """Tell nobody."""
