"""The loop that sends frames at their times and counts their lateness.

`depart` runs interpreted for few frames, since loading a compiler would take longer. For many frames, the
same source text runs compiled (`capture.linux.compiled_departures`), without the interpreter's lock. `depart`
calls the functions `clock_ns`, `nap` and `transmit` by name. The functions in this module use Python, and the
compiled functions make the same system calls.

1. Frames that are due are sent by one call, at most `BURST`. Frames without times are sent by as few calls as
   possible.
2. With ``even``, each frame is sent by a separate call. Its distance from the previous frame is at most an
   eighth shorter than scheduled, so that frames after a late frame are also late.
3. The loop sleeps until ``spin_ns`` before the time of a frame and then polls the clock, because the kernel
   wakes sleepers some µs late.
4. With ``uninterrupted_ns``, the loop sleeps for a sixteenth of this time after each such time. Otherwise the
   kernel would take 50 ms of each second from real-time processes that never sleep, in one interval.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ecmproto.units import NS_PER_S

if TYPE_CHECKING:
    from ecmproto.frames.capture.linux.sender import FrameSender

ALL_LEFT, LOOK, NOT_ACCEPTED = range(3)
"""Results of `depart`: all frames were sent, the caller must run its checks, or the kernel refused a frame.
"""
BURST = 64
"""Maximum number of timed frames in one call; with more frames the recorded times would be inexact."""
AT_ONCE = 1024
"""Maximum number of frames in one call; the limit of the kernel is UIO_MAXIOV."""
UNINTERRUPTED_NS = 400_000
"""Maximum time that a real-time process runs without sleep, in ns."""
UNEVEN = 8
"""Inverse of the fraction of an interval by which a frame of an even schedule may be early.

Late frames therefore do not accumulate delay, and the rate is kept.
"""
_BITS = 7
_STEPS = 1 << _BITS
"""Number of buckets for each power of two, so that percentiles have an error of at most 1 in 128."""


@dataclass(slots=True)
class DepartureState:
    """The progress of sending, as a record (``kernels.record``) for compiled code.

    Times are from the monotonic clock. ``start_ns`` is the origin of ``due``. ``first_ns`` and
    ``neighbour_ns`` are 0 before the first frame is sent.
    """

    paced: int = 1
    even: int = 0
    spin_ns: int = 0
    look_ns: int = 0
    """Time of the next checks of the caller."""
    count: int = 0
    """Number of prepared frames."""
    position: int = 0
    """Number of prepared frames that were sent or skipped."""
    left: int = 0
    """Number of all frames sent so far."""
    error: int = 0
    """Error of the kernel for the next frame; 0 means no error."""
    start_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    last_due_ns: int = 0
    neighbour_ns: int = 0
    uninterrupted_ns: int = 0
    rested_ns: int = 0
    """End of the last sleep; ``uninterrupted_ns`` is the maximum time without sleep, 0 for no maximum."""


def clock_ns(line: FrameSender) -> int:
    """Return the time of the monotonic clock."""
    return time.perf_counter_ns()


def nap(line: FrameSender, until_ns: int) -> bool:
    """Sleep until the clock reaches ``until_ns``; return False after an early end."""
    time.sleep(max(0, until_ns - time.perf_counter_ns()) / NS_PER_S)
    return True


def transmit(line: FrameSender, state: DepartureState, count: int) -> int:
    """Send ``count`` of the prepared frames; return the number of frames that the kernel accepted.

    If the kernel accepted fewer frames, ``state.error`` is the error of the next frame.
    """
    accepted, state.error = line.take(state.position, count)
    return accepted


def depart(
    line: FrameSender,
    state: DepartureState,
    due_ns: NDArray[np.int64] | Sequence[int],
    late: NDArray[np.int64],
    apart: NDArray[np.int64],
) -> int:
    """Send the prepared frames at the times ``due_ns``; return ALL_LEFT, LOOK or NOT_ACCEPTED.

    ``late`` counts the lateness of the frames, and ``apart`` counts the intervals between them
    (`new_counts`).
    """
    while state.position < state.count:
        first = state.position
        now_ns = clock_ns(line)
        if state.uninterrupted_ns and now_ns - state.rested_ns > state.uninterrupted_ns:
            nap(line, now_ns + state.uninterrupted_ns // 16)
            now_ns = state.rested_ns = clock_ns(line)
        ready = min(state.count, first + AT_ONCE)
        if state.paced:
            if state.even and state.first_ns:
                distance_ns = due_ns[first] - state.last_due_ns
                minimum_ns = state.last_ns + distance_ns - distance_ns // UNEVEN
                state.start_ns = max(state.start_ns, minimum_ns - due_ns[first])
            maximum = min(state.count, first + (1 if state.even else BURST))
            ready = first
            while ready < maximum and due_ns[ready] <= now_ns - state.start_ns:
                ready += 1
        if ready == first:
            moment_ns = state.start_ns + due_ns[first]
            if moment_ns - now_ns > state.spin_ns:
                whole = nap(line, min(moment_ns - state.spin_ns, state.look_ns))
                state.rested_ns = clock_ns(line)
                if not whole or state.rested_ns >= state.look_ns:
                    return LOOK
                continue
            while clock_ns(line) < moment_ns:
                pass
            continue
        accepted = transmit(line, state, ready - first)
        after_ns = clock_ns(line)
        if accepted > 0:
            # The frames were sent one after the other during the call.
            each_ns = max(1, (after_ns - now_ns) // accepted)
            if state.first_ns == 0:
                state.first_ns = now_ns
            state.last_ns = now_ns + each_ns * (accepted - 1)
            if state.paced:
                for frame in range(accepted):
                    left_ns = now_ns + each_ns * frame
                    if state.neighbour_ns:
                        count_ns(apart, left_ns - state.neighbour_ns)
                    state.neighbour_ns = left_ns
                    count_ns(late, left_ns - state.start_ns - due_ns[first + frame])
                state.last_due_ns = due_ns[first + accepted - 1]
            state.left += accepted
            state.position += accepted
        if state.error:
            return NOT_ACCEPTED
        if state.position < state.count and after_ns >= state.look_ns:
            return LOOK
    return ALL_LEFT


def new_counts() -> NDArray[np.int64]:
    """Return counts of times: the maximum time, then the counts of buckets.

    Buckets are 1 ns wide up to 256 ns. The width of larger buckets is 1/128 of the next lower power of two.
    """
    return np.zeros(1 + (64 - _BITS) * _STEPS, np.int64)


def count_ns(counts: NDArray[np.int64], time_ns: int) -> None:
    """Count a time; a negative time counts as 0."""
    rest, shift = max(time_ns, 0), 0
    counts[0] = max(counts[0], rest)
    while rest >= 2 * _STEPS:
        rest >>= 1
        shift += 1
    counts[1 + (shift << _BITS) + rest] += 1


def percentile_ns(counts: NDArray[np.int64], percent: int) -> int:
    """Return the nearest-rank percentile, at most 1 in 128 too large; 0 if nothing was counted."""
    total = int(counts[1:].sum())
    if not total:
        return 0
    bucket = int(np.searchsorted(np.cumsum(counts[1:]), -(-total * percent // 100)))
    shift = max(0, (bucket >> _BITS) - 1)
    return min(((bucket - (shift << _BITS) + 1) << shift) - 1, int(counts[0]))
