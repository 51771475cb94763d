"""The loop that lets frames leave, each not before its time, and counts how late they were.

`depart` is one text: few frames run it interpreted, since loading a compiler would take longer than they do;
many run the same function compiled (`capture.linux.compiled_departures`), without the interpreter's
lock.  What it calls to look at the clock, to sleep and to send is found by name: `clock_ns`, `nap` and
`transmit` here are Python's, those of the compiled form make the same system calls.

1. Frames whose time has come leave by one call, at most `BURST`; those without times by as few as go.
2. With ``even`` each leaves by itself, no nearer to the one before than it was to be, but for an eighth:
   those behind a late one are as late.
3. Before a frame's time the loop sleeps, until ``spin_ns`` before it, and looks at the clock from then on:
   the kernel wakes whoever sleeps some µs late.
4. With ``interval_ns`` a lone frame leaves again and again; one whose successor is due already is left out.
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
"""Most frames that leave by one call when they have times, so that what is said of each is near the truth."""
AT_ONCE = 1024
"""Most frames by one call; the kernel takes no more than UIO_MAXIOV."""
UNEVEN = 8
"""What part of its distance a frame of an even schedule may be nearer to the one before: late ones do not add
up, and the rate is kept."""
_BITS = 7
_STEPS = 1 << _BITS
"""Buckets of counts for each doubling: percentiles are right to 1 in 128."""


@dataclass(slots=True)
class DepartureState:
    """How far sending is; a record (``kernels.record``) for compiled code.

    Times are the monotonic clock's; ``start_ns`` is when those in ``due`` count from.  ``first_ns``,
    ``neighbour_ns`` and ``earliest_ns`` are 0 as long as nothing has left since they count.
    """

    paced: int = 1
    even: int = 0
    spin_ns: int = 0
    look_ns: int = 0
    """When the caller is to look around next."""
    count: int = 0
    """Frames at hand …"""
    position: int = 0
    """… and how many of them are done with."""
    left: int = 0
    """Frames that have left, of all."""
    error: int = 0
    """What the kernel said of the next one; 0 for nothing."""
    start_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    last_due_ns: int = 0
    neighbour_ns: int = 0
    interval_ns: int = 0
    """How often a lone frame leaves again; 0 for none …"""
    until_ns: int = 0
    """… until which time from the start; below 0 for ever."""
    skipped: int = 0
    limit_ns: int = 0
    longest_ns: int = 0
    longer: int = 0
    excess_ns: int = 0
    earliest_ns: int = 0
    counted_to_ns: int = 0
    """Of gaps between lone frames: see `count_gap`."""


def clock_ns(line: FrameSender) -> int:
    """Return the time of the monotonic clock."""
    return time.perf_counter_ns()


def nap(line: FrameSender, until_ns: int) -> bool:
    """Sleep until the clock says ``until_ns``; return False where something ended it before."""
    time.sleep(max(0, until_ns - time.perf_counter_ns()) / NS_PER_S)
    return True


def transmit(line: FrameSender, state: DepartureState, count: int) -> int:
    """Send so many of the frames at hand; return how many were taken, with ``state.error`` if not all."""
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
                if not whole or clock_ns(line) >= state.look_ns:
                    return LOOK
                continue
            while clock_ns(line) < moment_ns:
                pass
            continue
        taken = transmit(line, state, ready - first)
        after_ns = clock_ns(line)
        if taken > 0:
            # They left one behind the other during the call that took them.
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
            if state.interval_ns == 0:
                state.position += taken
            else:
                count_gap(state, now_ns, now_ns + each_ns)
                due_ns[0] = renewed_ns(state, due_ns[0])  # type: ignore[index]
                if 0 <= state.until_ns <= due_ns[0]:
                    state.position = state.count
        if state.error:
            return NOT_TAKEN
        if state.position < state.count and after_ns >= state.look_ns:
            return LOOK
    return ALL_LEFT


def renewed_ns(state: DepartureState, due_ns: int) -> int:
    """Return when the frame that was due at ``due_ns`` is due again, and count those that are left out."""
    late_ns = max(0, state.last_ns - state.start_ns - due_ns)
    next_ns = due_ns + late_ns // state.interval_ns * state.interval_ns + state.interval_ns
    before_ns = next_ns if state.until_ns < 0 else min(next_ns, state.until_ns)
    state.skipped += (before_ns - due_ns - 1) // state.interval_ns
    return next_ns


def count_gap(state: DepartureState, earliest_ns: int, latest_ns: int) -> None:
    """Count the gap before a frame that left between these moments, as long as it can have been.

    It is from the earliest moment of one frame to the latest of the next.
    """
    if state.earliest_ns:
        gap_ns = latest_ns - state.earliest_ns
        state.longest_ns = max(state.longest_ns, gap_ns)
        if gap_ns > state.limit_ns:
            state.longer += 1
            # gaps overlap by the time that a call took, which counts once
            state.excess_ns += latest_ns - max(state.earliest_ns + state.limit_ns, state.counted_to_ns)
            state.counted_to_ns = latest_ns
    state.earliest_ns = earliest_ns


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
