"""The worker's side: a function found by its import path, and the batches of tasks that it is called for.

Requests and answers are octets of `ecmproto.executors.rows`; nothing of them is unpickled here.
"""

from __future__ import annotations

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
from typing import Any

from ecmproto.errors import ExecutorError
from ecmproto.executors.protocol import FAILED, Call, Failure, Task, TaskResult
from ecmproto.executors.rows import DIGEST, framed, pack, unframed, unpack
from ecmproto.kernels.turns import taking_turns

Function = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]

READY, REFUSED = b"ready", b"refused: "
"""What a process says that is no answer, which begins with a length of eight octets."""
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


def serve(descriptor: int) -> None:
    """Answer the requests that come over a socket until it is closed; say before that this process is there.

    The process ends at once when the one at the other end does.
    """
    from multiprocessing.connection import Connection

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this one is told, and tells
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
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


def _end_with(descriptor: int) -> None:
    """Wait for the other end of a socket to be closed, and end this process, whatever it is at."""
    gone = select.poll()
    gone.register(descriptor, select.POLLRDHUP)
    gone.poll()
    os.kill(os.getpid(), signal.SIGTERM)
