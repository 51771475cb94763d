"""The worker's side: a task's function, found by its import path, and its row as octets."""

from __future__ import annotations

import ctypes
import functools
import importlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from ecmproto.errors import ExecutorError
from ecmproto.executors.protocol import FAILED, Call, Failure, Task, TaskResult
from ecmproto.executors.rows import DIGEST, pack, unpack
from ecmproto.kernels.turns import taking_turns

Function = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""What glibc calls its parameters."""
_MAPPED_OCTETS, _KEPT_OCTETS = 1 << 25, 1 << 28
"""From how many octets on memory is taken from the system by itself, the most that may be; how much that is
free is kept."""
_called: set[str] = set()
"""Functions that this process has called."""
_place = ctypes.c_long()
"""The index of the current task in its batch: memory that a pool's command sees."""


@functools.lru_cache(maxsize=64)
def function_of(name: str) -> Function:
    """Return the function that ``module:function`` names; ExecutorError if there is none here."""
    module, _, attribute = name.partition(":")
    try:
        function: Function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        needed = "a function that workers can import"
        raise ExecutorError(where=name, needed=needed, got=str(error)) from None
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A task's row, or its failure, as a worker returns it."""

    packed: bytes = b""
    """The row with its digest, empty after a failure."""
    failure: Failure | None = None
    elapsed_s: float
    worker: str
    was_warm: bool
    """Whether the worker had called the function before."""


def answer(call: Call, task: Task) -> Answer:
    """Return the answer to a task; errors of the function are failures.

    ExecutorError where the function cannot be found.
    """
    function = function_of(call.function)
    was_warm = call.function in _called
    _called.add(call.function)
    packed, failure = b"", None
    begun_s = time.monotonic()
    # Each kernel is compiled by one process of a machine, and loaded by the others.
    with taking_turns(lambda: None):
        try:
            packed = pack(_with_digest(task.key, function(task.data, call.options)))
        except Exception as error:
            failure = _failure(error)
    elapsed_s = time.monotonic() - begun_s
    return Answer(
        packed=packed, failure=failure, elapsed_s=elapsed_s, worker=this_worker(), was_warm=was_warm
    )


def _with_digest(key: str, row: Mapping[str, Any]) -> dict[str, Any]:
    if DIGEST in row:
        raise TypeError(f"{DIGEST} is no name for what a function returns")
    return {DIGEST: key, **row}


def _failure(error: Exception) -> Failure:
    name = type(error).__name__
    trace = "".join(traceback.format_exception(error))
    return Failure(kind=FAILED, error=name, sentence=str(error) or name, trace=trace)


def result_of(task: Task, answered: Answer) -> TaskResult:
    """Return the result of a task from its answer."""
    return TaskResult(
        task=task,
        row=unpack(answered.packed) if answered.packed else {},
        failure=answered.failure,
        elapsed_s=answered.elapsed_s,
        worker=answered.worker,
        was_warm=answered.was_warm,
        packed=answered.packed,
    )


@functools.cache
def this_worker() -> str:
    """Return what this process is called: its machine and its number."""
    return f"{socket.gethostname()}:{os.getpid()}"


# A process of its own -------------------------------------------------------------------------------------


def keep_freed_memory() -> None:
    """Have this process keep memory that it frees, for its next task.

    Batches come and go by tens of megabytes.  What is given back each time is zeroed page by page when it is
    taken again, a fifth of the time that statistics take.  Elsewhere than with glibc nothing changes.
    """
    with suppress(OSError, AttributeError):
        settle = ctypes.CDLL(None).mallopt
        settle(_M_MMAP_THRESHOLD, _MAPPED_OCTETS)
        settle(_M_TRIM_THRESHOLD, _KEPT_OCTETS)


def begin(folder: str, place: ctypes.c_long) -> None:
    """Prepare a process of a pool: where it works, what it prints to, and when it ends."""
    global _place
    _place = place
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets it too, and ends its processes
    os.chdir(folder)
    os.dup2(2, 1)
    keep_freed_memory()
    threading.Thread(target=_end_with_command, daemon=True).start()


def answers_or_end(tasks: Sequence[Task], call: Call) -> list[Answer]:
    """Return the answers to tasks; on SIGTERM, clear up and end this process."""
    found = []
    try:
        signal.signal(signal.SIGTERM, _end)
        try:
            for number, task in enumerate(tasks):
                _place.value = number
                found.append(answer(call, task))
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except SystemExit as ended:  # a pool would take it for a result, and go on
        sys.stderr.flush()
        os._exit(ended.code if isinstance(ended.code, int) else 1)
    return found


def _end(signum: int, frame: object) -> NoReturn:
    """Clear up and end; another signal does not disturb that."""
    signal.signal(signum, signal.SIG_IGN)
    sys.exit(128 + signum)


def _end_with_command() -> None:
    """Wait for the end of the command, and end this process: one of a pool waits for tasks forever."""
    command = multiprocessing.parent_process()
    assert command is not None
    command.join()
    os.kill(os.getpid(), signal.SIGTERM)
