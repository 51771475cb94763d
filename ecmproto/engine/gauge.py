"""Time-weighted statistics of queue levels, kept in bounded memory however long a replay runs.

A gauge has one row per priority and one, :data:`TOTAL`, for the whole port.  A row knows its level (the
octets in that queue now), the peak, the integral over time, and for how long each level stood: levels up to
1 MiB in steps of 64 octets, larger ones in steps of a power of two that depend on the buffer; step 0 is
"empty" exactly.  For the port's total there is also a trace: integral and peak in ``TRACE_BINS`` bins of
equal length, which double, folding neighbours together, whenever the replay outgrows them.

As long as only one priority's queue has ever held frames, what is counted of it and of the port is the same:
it is counted once, and `settled` enters it for the priority too.

The integrals are float64: exact to 2^53 octet·ns (nine million octet-seconds), then to 16 digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.record import new_record

PRIORITIES = 8

TOTAL = PRIORITIES
"""The row of the whole port; rows 0 to 7 are the priorities."""

NO_PRIORITY, SEVERAL = -1, -2

TRACE_BINS = 512

_ROWS = PRIORITIES + 1
_FINE_SHIFT = 6
_FINE_STEPS = 16_384
_FINE_LIMIT = _FINE_STEPS << _FINE_SHIFT
_COARSE_STEPS = 16_384
_PERCENTILES = (50, 90, 99)
_STEPS = 1 + _FINE_STEPS + _COARSE_STEPS


class Gauge:
    """The state of a gauge; a record (``ecmproto.record``).  Index 0 to 7 is a priority, 8 the whole port."""

    level_octets: Annotated[NDArray[np.int64], _ROWS]
    """The level, which has stood since …"""
    since_ns: Annotated[NDArray[np.int64], _ROWS]
    peak_octets: Annotated[NDArray[np.int64], _ROWS]
    octet_ns: Annotated[NDArray[np.float64], _ROWS]
    """The integral of the level over time up to ``since_ns``."""
    coarse_shift: int
    """log2 of the steps above 1 MiB, in octets."""
    trace_shift: int
    """log2 of the length of a trace bin, in ns."""
    total_only: int
    """1: priorities have a level but no statistics, and there is no trace."""
    only_priority: int
    """The only priority whose queue has ever held frames, NO_PRIORITY before that, SEVERAL after it; unless
    ``total_only``."""
    held_ns: Annotated[NDArray[np.int64], (_ROWS, _STEPS)]
    """How long each step of the level stood."""
    trace_octet_ns: Annotated[NDArray[np.float64], TRACE_BINS]
    trace_peak_octets: Annotated[NDArray[np.int64], TRACE_BINS]


def new_gauge(buffer_octets: int) -> Gauge:
    """Return an empty gauge for levels of 0 to ``buffer_octets``, all rows at time 0."""
    gauge = new_record(Gauge)
    gauge.only_priority = NO_PRIORITY
    gauge.coarse_shift = _FINE_SHIFT
    while (buffer_octets - _FINE_LIMIT) >> int(gauge.coarse_shift) >= _COARSE_STEPS:
        gauge.coarse_shift += 1
    return gauge


@inlined
def step_of(gauge: Gauge, octets: int) -> int:
    """Return the histogram step of a level: 0 for 0, else the step whose upper end is the first ≥ it."""
    if octets <= _FINE_LIMIT:
        return (octets + (1 << _FINE_SHIFT) - 1) >> _FINE_SHIFT
    shift = gauge.coarse_shift
    # A buffer of so many frames, or one that a tag does not count in, may hold more octets than was thought.
    return _FINE_STEPS + min(_COARSE_STEPS, (octets - _FINE_LIMIT + (1 << shift) - 1) >> shift)


def step_end(gauge: Gauge, step: int) -> int:
    """Return the largest level that ``step_of`` puts into ``step``; the last one has all that are larger."""
    if step <= _FINE_STEPS:
        return step << _FINE_SHIFT
    return _FINE_LIMIT + ((step - _FINE_STEPS) << int(gauge.coarse_shift))


@inlined
def change(gauge: Gauge, priority: int, now_ns: int, octets: int) -> None:
    """Add ``octets`` (negative to take away) to the levels of ``priority`` and of the port at ``now_ns``."""
    only = gauge.only_priority
    if only != priority and only != SEVERAL and gauge.total_only == 0:
        _add_priority(gauge, priority)
    if gauge.only_priority == SEVERAL:
        _change_row(gauge, priority, now_ns, octets)
    else:
        gauge.level_octets[priority] += octets
    _change_row(gauge, TOTAL, now_ns, octets)


@inlined
def _change_row(gauge: Gauge, row: int, now_ns: int, octets: int) -> None:
    settle(gauge, row, now_ns)
    level = gauge.level_octets[row] + octets
    gauge.level_octets[row] = level
    gauge.peak_octets[row] = max(gauge.peak_octets[row], level)


@compiled
def _add_priority(gauge: Gauge, priority: int) -> None:
    """Make ``priority`` the only one with frames, or the second, from which on each is counted."""
    if gauge.only_priority == NO_PRIORITY:
        gauge.only_priority = priority
    else:
        _enter_only(gauge)
        gauge.only_priority = SEVERAL


@compiled
def _enter_only(gauge: Gauge) -> None:
    """Enter for the only priority with frames what was counted of the port; its level is the port's."""
    row, held_ns = gauge.only_priority, gauge.held_ns
    gauge.since_ns[row] = gauge.since_ns[TOTAL]
    gauge.peak_octets[row] = gauge.peak_octets[TOTAL]
    gauge.octet_ns[row] = gauge.octet_ns[TOTAL]
    for step in range(_STEPS):
        held_ns[row, step] = held_ns[TOTAL, step]


@inlined
def settle(gauge: Gauge, row: int, now_ns: int) -> None:
    """Enter into the statistics that ``row`` has stood at its level up to ``now_ns``."""
    since_ns = gauge.since_ns[row]
    level = gauge.level_octets[row]
    elapsed_ns = now_ns - since_ns
    gauge.since_ns[row] = now_ns
    gauge.octet_ns[row] += float(elapsed_ns) * level
    gauge.held_ns[row, step_of(gauge, level)] += elapsed_ns
    if row == TOTAL and level > 0 and gauge.total_only == 0:
        shift = gauge.trace_shift
        time_bin = since_ns >> shift
        if now_ns <= (time_bin + 1) << shift and time_bin < TRACE_BINS:
            gauge.trace_octet_ns[time_bin] += float(elapsed_ns) * level
            gauge.trace_peak_octets[time_bin] = max(gauge.trace_peak_octets[time_bin], level)
        else:
            trace(gauge, since_ns, now_ns, level)


@compiled
def trace(gauge: Gauge, since_ns: int, now_ns: int, octets: int) -> None:
    """Enter into the trace that the port stood at ``octets`` from ``since_ns`` to ``now_ns``."""
    fit_trace(gauge, now_ns)
    shift = gauge.trace_shift
    start_ns = since_ns
    while start_ns < now_ns:
        time_bin = start_ns >> shift
        end_ns = min(now_ns, (time_bin + 1) << shift)
        gauge.trace_octet_ns[time_bin] += float(end_ns - start_ns) * octets
        gauge.trace_peak_octets[time_bin] = max(gauge.trace_peak_octets[time_bin], octets)
        start_ns = end_ns


@compiled
def fit_trace(gauge: Gauge, now_ns: int) -> None:
    """Double the trace's bins until they reach to ``now_ns``."""
    while now_ns > TRACE_BINS << gauge.trace_shift:
        sums, peaks = gauge.trace_octet_ns, gauge.trace_peak_octets
        for time_bin in range(TRACE_BINS // 2):
            sums[time_bin] = sums[2 * time_bin] + sums[2 * time_bin + 1]
            peaks[time_bin] = max(peaks[2 * time_bin], peaks[2 * time_bin + 1])
        sums[TRACE_BINS // 2 :] = 0.0
        peaks[TRACE_BINS // 2 :] = 0
        gauge.trace_shift += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """A queue's length over time, in octets waiting and in service.

    ``pN_octets`` is the length at or under which the queue stood N % of the time, rounded up to a step of
    64 octets (a coarser one above 1 MiB) and never above the peak; ``mean_octets`` is over time too.
    """

    mean_octets: float
    p50_octets: int
    p90_octets: int
    p99_octets: int
    peak_octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTrace:
    """The port's length over time for a plot: per bin of ``span_ns``, its mean and its peak.

    The first bin starts at the first arrival; the last may reach beyond the last one.
    """

    span_ns: int
    mean_octets: tuple[float, ...]
    peak_octets: tuple[int, ...]


@compiled
def settled(gauge: Gauge, now_ns: int) -> None:
    """Bring every row of ``gauge`` up to ``now_ns``: before statistics are read, as often as one likes."""
    for row in range(PRIORITIES + 1):
        settle(gauge, row, now_ns)
    if gauge.only_priority >= 0:
        _enter_only(gauge)
    fit_trace(gauge, now_ns)


def queue_statistics(gauge: Gauge, row: int) -> QueueStatistics:
    """Return the statistics of ``row`` up to the time it is settled; all 0 if no time has passed."""
    peak_octets = int(gauge.peak_octets[row])
    duration_ns = int(gauge.since_ns[row])
    held_ns = np.cumsum(gauge.held_ns[row])
    steps = [_step_at(held_ns, percent, duration_ns) for percent in _PERCENTILES]
    p50, p90, p99 = (min(peak_octets, step_end(gauge, step)) for step in steps)
    return QueueStatistics(
        mean_octets=float(gauge.octet_ns[row]) / duration_ns if duration_ns else 0.0,
        p50_octets=p50,
        p90_octets=p90,
        p99_octets=p99,
        peak_octets=peak_octets,
    )


def _step_at(held_ns: NDArray[np.int64], percent: int, duration_ns: int) -> int:
    # ⌈percent·duration/100⌉ in whole numbers: a level that held exactly half the time is p50.
    return int(np.searchsorted(held_ns, -(-percent * duration_ns // 100))) if duration_ns else 0


def queue_trace(gauge: Gauge) -> QueueTrace:
    """Return the trace of a settled gauge."""
    span_ns = 1 << int(gauge.trace_shift)
    duration_ns = int(gauge.since_ns[TOTAL])
    bins = min(TRACE_BINS, max(1, -(-duration_ns // span_ns)))
    lengths_ns = bin_lengths_ns(bins, span_ns, duration_ns)
    return QueueTrace(
        span_ns=span_ns,
        mean_octets=tuple((gauge.trace_octet_ns[:bins] / lengths_ns).tolist()),
        peak_octets=tuple(gauge.trace_peak_octets[:bins].tolist()),
    )


def utilisation(gauge: Gauge) -> float:
    """Return the share of time in which a settled gauge's port was not empty."""
    duration_ns = int(gauge.since_ns[TOTAL])
    return 1.0 - int(gauge.held_ns[TOTAL, 0]) / duration_ns if duration_ns else 0.0


def priorities_used(gauge: Gauge) -> list[int]:
    """Return the priorities whose queue ever held a frame."""
    return [priority for priority in range(PRIORITIES) if gauge.peak_octets[priority] > 0]


def bin_lengths_ns(bins: int, span_ns: int, duration_ns: int) -> NDArray[np.int64]:
    """Return the lengths of bins, of which the last is only as long as the replay reached into it."""
    lengths_ns = np.full(bins, span_ns, np.int64)
    lengths_ns[-1] = max(1, duration_ns - (bins - 1) * span_ns)
    return lengths_ns
