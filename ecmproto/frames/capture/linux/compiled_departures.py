"""Compiled `capture.linux.departures.depart`: the same source text, with system calls by name.

The compiled function runs without the interpreter's lock, so that another thread can read the next frames.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture.linux import departures
from ecmproto.frames.capture.linux.departures import DepartureState
from ecmproto.frames.capture.linux.packet_socket import MESSAGE
from ecmproto.frames.capture.linux.wires import (
    CLOCK_MONOTONIC,
    DONTWAIT,
    External,
    clock_gettime,
    last_error,
    sendmmsg,
)
from ecmproto.kernels.kernel import compiled, inlined, released
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct
from ecmproto.units import NS_PER_S

_ABSOLUTE = 1
"""Value of TIMER_ABSTIME."""
_MESSAGE_OCTETS = MESSAGE.itemsize
_clock_nanosleep = External("clock_nanosleep", "int32", "int32", "int32", "int64", "int64")


class LineFacts:
    """A socket and addresses, as a record (``kernels.record``)."""

    descriptor: int
    messages_at: int
    moment_at: int


class Line(Struct):
    """The output of frames: a socket, and its prepared messages (struct mmsghdr)."""

    facts: LineFacts
    moment: NDArray[np.int64]


def new_line(descriptor: int) -> Line:
    """Return a line for a socket; the caller must set ``facts.messages_at``."""
    line = Line(new_record(LineFacts), np.zeros(2, np.int64))
    line.facts.descriptor, line.facts.moment_at = descriptor, line.moment.ctypes.data
    return line


def as_record(state: DepartureState) -> Any:
    """Return the state as a record for compiled code."""
    record: Any = new_record(DepartureState)
    for name in record.dtype.names:
        setattr(record, name, getattr(state, name))
    return record


@inlined
def clock_ns(line: Line) -> int:
    """Return the time of the monotonic clock."""
    clock_gettime(CLOCK_MONOTONIC, line.facts.moment_at)
    return int(line.moment[0] * NS_PER_S + line.moment[1])


@compiled
def nap(line: Line, until_ns: int) -> bool:
    """Sleep until the clock reaches ``until_ns``; return False after an early end."""
    line.moment[0], line.moment[1] = until_ns // NS_PER_S, until_ns % NS_PER_S
    return bool(_clock_nanosleep(CLOCK_MONOTONIC, _ABSOLUTE, line.facts.moment_at, 0) == 0)


@compiled
def transmit(line: Line, state: DepartureState, count: int) -> int:
    """Send ``count`` of the prepared frames; return the number of frames that the kernel accepted.

    If the kernel accepted fewer frames, ``state.error`` is the error of the next frame.
    """
    facts, state.error, accepted = line.facts, 0, 0
    while accepted < count:
        messages_at = facts.messages_at + (state.position + accepted) * _MESSAGE_OCTETS
        done = int(sendmmsg(facts.descriptor, messages_at, count - accepted, DONTWAIT))
        if done <= 0:
            state.error = int(last_error()[0])
            break
        accepted += done
    return accepted


def compiled_text(**names: Any) -> Any:
    """Return `depart` as a compiled function, with ``names`` instead of the names in `departures`."""
    text: Any = FunctionType(departures.depart.__code__, {**vars(departures), **names}, "depart")
    text.__module__ = __name__
    return released(text)


count_ns: Callable[[NDArray[np.int64], int], None] = inlined(departures.count_ns)
depart: Any = compiled_text(clock_ns=clock_ns, nap=nap, transmit=transmit, count_ns=count_ns)
