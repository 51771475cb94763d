"""The worker's side: a function found by its import path, and the batches of tasks that it is called for.

Requests and answers are octets of `ecmproto.executors.rows`; nothing of them is unpickled here.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from ecmproto.errors import ExecutorError
from ecmproto.executors.protocol import FAILED, Call, Failure, Task, TaskResult
from ecmproto.executors.rows import DIGEST, framed, pack, unframed, unpack
from ecmproto.kernels.turns import taking_turns

Function = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]

READY, REFUSED = b"ready", b"refused: "
"""What a process says that is no answer, which begins with a length of eight octets."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""What glibc calls its parameters."""
_MAPPED_OCTETS, _KEPT_OCTETS = 1 << 25, 1 << 28
"""From how many octets on memory is taken from the system by itself, the most that may be; how much that is
free is kept."""
_called: set[str] = set()
"""Functions that this process has called."""


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


# Requests and answers -------------------------------------------------------------------------------------


def request_of(tasks: Iterable[Task], call: Call) -> bytes:
    """Return what a worker is sent: a call, and the tasks that it is for."""
    listed = [{"key": task.key, "data": task.data} for task in tasks]
    return pack({"function": call.function, "options": call.options, "tasks": listed})


def answers(request: bytes) -> Iterator[bytes]:
    """Yield the answer to each task of a request, in their order, as it is done.

    Errors that the function raises are answers too.  ExecutorError where it cannot be found.
    """
    asked = unpack(request)
    name, options = asked["function"], asked["options"]
    function = function_of(name)
    # Each kernel is compiled by one process of a machine, and loaded by the others.
    with taking_turns(lambda: None):
        for task in asked["tasks"]:
            head: dict[str, Any] = {"again": name in _called, "worker": this_worker()}
            _called.add(name)
            begun_s = time.monotonic()
            row = b""
            try:
                row = pack(_with_digest(task["key"], function(task["data"], options)))
            except Exception as error:
                head["failure"] = _told(error)
            head["elapsed_s"] = time.monotonic() - begun_s
            yield framed(iter((pack(head), row)))


def _with_digest(key: str, row: Mapping[str, Any]) -> dict[str, Any]:
    if DIGEST in row:
        raise TypeError(f"{DIGEST} is no name for what a function returns")
    return {DIGEST: key, **row}


def _told(error: Exception) -> dict[str, str]:
    name = type(error).__name__
    trace = "".join(traceback.format_exception(error))
    return {"kind": FAILED, "error": name, "sentence": str(error) or name, "trace": trace}


def result_of(task: Task, answer: bytes) -> tuple[TaskResult, bool]:
    """Return the result that an answer is, and whether its process had called the function before."""
    packed_head, packed = unframed(answer)
    head = unpack(packed_head)
    failure = head.get("failure")
    result = TaskResult(
        task=task,
        row=unpack(packed) if packed else {},
        failure=Failure(**failure) if failure else None,
        elapsed_s=head["elapsed_s"],
        worker=head["worker"],
        packed=packed,
    )
    return result, head["again"]


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


def serve(descriptor: int) -> NoReturn:
    """Answer the requests that come over a socket until it is closed; say before that this process is there.

    The process ends at once when the one at the other end does.
    """
    code = 0
    try:
        _serve(descriptor)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    # what an interpreter does at its end takes time, and has nothing to do here
    os._exit(code)


def _serve(descriptor: int) -> None:
    from multiprocessing.connection import Connection

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this one is told, and tells
    signal.signal(signal.SIGTERM, _end)
    keep_freed_memory()
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()
    with Connection(descriptor) as connection, suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send_bytes(READY)
        while True:
            request = connection.recv_bytes()
            try:
                for answer in answers(request):
                    connection.send_bytes(answer)
            except ExecutorError as error:
                connection.send_bytes(REFUSED + error.got.encode())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process ends already


def _end(signum: int, frame: object) -> NoReturn:
    """Clear up and end; another signal does not disturb that."""
    signal.signal(signum, signal.SIG_IGN)
    sys.exit(128 + signum)


def _end_with(descriptor: int) -> None:
    """Wait for the other end of a socket to be closed, and end this process, whatever it is at."""
    gone = select.poll()
    gone.register(descriptor, select.POLLRDHUP)
    gone.poll()
    os.kill(os.getpid(), signal.SIGTERM)
