"""The worker's side: a worker imports a task's function by its path, and returns its row as octets."""

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
from dataclasses import dataclass
from typing import Any, NoReturn

from ecmproto.errors import ExecutorError
from ecmproto.executors.protocol import FAILED, Call, Failure, Task, TaskResult
from ecmproto.executors.rows import DIGEST, pack, unpack
from ecmproto.memory import keep_freed_memory

Function = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]

_called: set[str] = set()
"""Functions that this process has called."""
_index = ctypes.c_long()
"""Index of the current task in its batch, in memory shared with the command."""


@functools.lru_cache(maxsize=64)
def function_of(name: str) -> Function:
    """Return the function named ``module:function``. Raises ExecutorError if the import fails."""
    module, _, attribute = name.partition(":")
    try:
        function: Function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        needed = "a function that workers can import"
        raise ExecutorError(where=name, needed=needed, got=str(error)) from None
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A worker's answer to a task: the row or the failure."""

    packed: bytes = b""
    """The row with its digest; empty after a failure."""
    failure: Failure | None = None
    elapsed_s: float
    worker: str
    was_warm: bool
    """Whether the worker had called the function before this task."""


def answer(call: Call, task: Task) -> Answer:
    """Return the answer to a task, with errors as failures. Raises ExecutorError for an unknown function."""
    function = function_of(call.function)
    was_warm = call.function in _called
    _called.add(call.function)
    packed, failure = b"", None
    begun_s = time.monotonic()
    try:
        row = function(task.data, call.options)
        if DIGEST in row:
            raise TypeError(f"{DIGEST} is reserved: expected a row without it")
        packed = pack({DIGEST: task.key, **row})
    except Exception as error:
        name = type(error).__name__
        trace = "".join(traceback.format_exception(error))
        failure = Failure(kind=FAILED, error=name, sentence=str(error) or name, trace=trace)
    elapsed_s = time.monotonic() - begun_s
    return Answer(
        packed=packed, failure=failure, elapsed_s=elapsed_s, worker=this_worker(), was_warm=was_warm
    )


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
    """Return the name of this process: its machine and its process ID."""
    return f"{socket.gethostname()}:{os.getpid()}"


# A process of its own -------------------------------------------------------------------------------------


def begin(folder: str, index: ctypes.c_long) -> None:
    """Prepare a process of a pool: its working folder, its output, and its termination."""
    global _index
    _index = index
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command receives it too, and ends its processes
    os.chdir(folder)
    os.dup2(2, 1)
    keep_freed_memory()
    threading.Thread(target=_end_with_command, daemon=True).start()


def answers_or_end(tasks: Sequence[Task], call: Call) -> list[Answer]:
    """Return the answers to tasks. On SIGTERM, clean up and terminate this process."""
    answers = []
    try:
        signal.signal(signal.SIGTERM, _end)
        try:
            for number, task in enumerate(tasks):
                _index.value = number
                answers.append(answer(call, task))
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except SystemExit as ended:  # a pool would take it for a result, and go on
        sys.stderr.flush()
        os._exit(ended.code if isinstance(ended.code, int) else 1)
    return answers


def _end(signum: int, frame: object) -> NoReturn:
    """Clean up and terminate, ignoring further signals."""
    signal.signal(signum, signal.SIG_IGN)
    sys.exit(128 + signum)


def _end_with_command() -> None:
    """Terminate this process when the command ends. A pool's process would wait for tasks forever."""
    command = multiprocessing.parent_process()
    assert command is not None
    command.join()
    os.kill(os.getpid(), signal.SIGTERM)
