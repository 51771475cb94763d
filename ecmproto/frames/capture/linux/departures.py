"""The loop that sends frames, each not before its time, and counts their lateness.

`depart` is one text: few frames run it interpreted, since loading a compiler would take longer; many run the
same function compiled (`capture.linux.compiled_departures`), without the interpreter's lock.  It finds the
functions for the clock, sleeping and sending by name: `clock_ns`, `nap` and `transmit` here are Python's,
the compiled ones make the same system calls.

1. Frames that are due leave by one call, at most `BURST`; frames without times by as few calls as possible.
2. With ``even`` each leaves by itself, at its distance from the previous one less an eighth at most: frames
   after a late one are as late.
3. Before a frame's time the loop sleeps, until ``spin_ns`` before it, and then reads the clock repeatedly,
   as the kernel wakes sleepers some µs late.
4. With ``uninterrupted_ns`` the loop sleeps a sixteenth of that after each such span: the kernel takes 50 ms
   of each second from real-time processes that never sleep, in one piece.
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

ALL_LEFT, LOOK, NOT_TAKEN = range(3)
"""Why `depart` returns: all frames left; the caller is to look around; the kernel did not take a frame."""
BURST = 64
"""The maximum number of timed frames in one call; more would make their recorded times inexact."""
AT_ONCE = 1024
"""Most frames by one call; the kernel takes no more than UIO_MAXIOV."""
UNINTERRUPTED_NS = 400_000
"""The longest time that a real-time process runs without sleep."""
UNEVEN = 8
"""The inverse of the share by which a frame of an even schedule may be early; so late frames do not add up,
and the rate is kept.
"""
_BITS = 7
_STEPS = 1 << _BITS
"""Buckets of counts for each doubling: percentiles are right to 1 in 128."""


@dataclass(slots=True)
class DepartureState:
    """The progress of sending; a record (``kernels.record``) for compiled code.

    Times are the monotonic clock's; ``start_ns`` is the origin of ``due``.  ``first_ns`` and ``neighbour_ns``
    are 0 until a frame has left.
    """

    paced: int = 1
    even: int = 0
    spin_ns: int = 0
    look_ns: int = 0
    """The time of the caller's next turn."""
    count: int = 0
    """Frames at hand …"""
    position: int = 0
    """… and how many of them are done with."""
    left: int = 0
    """Frames that have left, of all."""
    error: int = 0
    """The kernel's error for the next frame; 0 for none."""
    start_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    last_due_ns: int = 0
    neighbour_ns: int = 0
    uninterrupted_ns: int = 0
    rested_ns: int = 0
    """The longest time without sleep (0: no limit), and when the last sleep ended."""


def clock_ns(line: FrameSender) -> int:
    """Return the time of the monotonic clock."""
    return time.perf_counter_ns()


def nap(line: FrameSender, until_ns: int) -> bool:
    """Sleep until the clock reaches ``until_ns``; return False after an early end."""
    time.sleep(max(0, until_ns - time.perf_counter_ns()) / NS_PER_S)
    return True


def transmit(line: FrameSender, state: DepartureState, count: int) -> int:
    """Send ``count`` of the prepared frames; return the number taken, with ``state.error`` if not all."""
    taken, state.error = line.take(state.position, count)
    return taken


def depart(
    line: FrameSender,
    state: DepartureState,
    due_ns: NDArray[np.int64] | Sequence[int],
    late: NDArray[np.int64],
    apart: NDArray[np.int64],
) -> int:
    """Let the frames at hand leave, due at ``due_ns``; return why it ended: ALL_LEFT, LOOK or NOT_TAKEN.

    ``late`` and ``apart`` count how late they left and how far apart (`new_counts`).
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
                least_ns = state.last_ns + distance_ns - distance_ns // UNEVEN
                state.start_ns = max(state.start_ns, least_ns - due_ns[first])
            most = min(state.count, first + (1 if state.even else BURST))
            ready = first
            while ready < most and due_ns[ready] <= now_ns - state.start_ns:
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
        taken = transmit(line, state, ready - first)
        after_ns = clock_ns(line)
        if taken > 0:
            # They left one after the other during the call that took them.
            each_ns = max(1, (after_ns - now_ns) // taken)
            if state.first_ns == 0:
                state.first_ns = now_ns
            state.last_ns = now_ns + each_ns * (taken - 1)
            if state.paced:
                for frame in range(taken):
                    left_ns = now_ns + each_ns * frame
                    if state.neighbour_ns:
                        count_ns(apart, left_ns - state.neighbour_ns)
                    state.neighbour_ns = left_ns
                    count_ns(late, left_ns - state.start_ns - due_ns[first + frame])
                state.last_due_ns = due_ns[first + taken - 1]
            state.left += taken
            state.position += taken
        if state.error:
            return NOT_TAKEN
        if state.position < state.count and after_ns >= state.look_ns:
            return LOOK
    return ALL_LEFT


def new_counts() -> NDArray[np.int64]:
    """Return counts of times: the longest of all, then the counts of buckets.

    Buckets are 1 ns wide up to 256 ns, and 1/128 of the power of two below their times beyond.
    """
    return np.zeros(1 + (64 - _BITS) * _STEPS, np.int64)


def count_ns(counts: NDArray[np.int64], time_ns: int) -> None:
    """Count a time; one below 0 is none."""
    rest, shift = max(time_ns, 0), 0
    counts[0] = max(counts[0], rest)
    while rest >= 2 * _STEPS:
        rest >>= 1
        shift += 1
    counts[1 + (shift << _BITS) + rest] += 1


def percentile_ns(counts: NDArray[np.int64], percent: int) -> int:
    """Return the nearest-rank percentile, at most 1 in 128 too large; 0 where nothing was counted."""
    total = int(counts[1:].sum())
    if not total:
        return 0
    bucket = int(np.searchsorted(np.cumsum(counts[1:]), -(-total * percent // 100)))
    shift = max(0, (bucket >> _BITS) - 1)
    return min(((bucket - (shift << _BITS) + 1) << shift) - 1, int(counts[0]))
