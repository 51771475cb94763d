"""Time-weighted statistics of queue levels, in bounded memory for a replay of any length.

A gauge has a queue per priority and a total for the port. Each has its level (the octets in the queue now),
the peak, the integral over time, and the time spent at each level: levels up to 1 MiB in steps of 64 octets,
larger ones in steps of a power of two that depend on the buffer; step 0 means exactly "empty". The total also
has a trace: integral and peak in ``TRACE_BINS`` bins of equal length, which double, with neighbours merged,
whenever the replay exceeds them.

While only one priority's queue has ever held frames, its counts equal the port's: they are counted once, and
`settled` copies them to the priority.

The integrals are float64: exact to 2^53 octet·ns (nine million octet-seconds), then to 16 digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import new_record, new_records, zeros
from ecmproto.kernels.structs import Struct

PRIORITIES = 8

TOTAL = PRIORITIES
"""The number of the port's row; rows 0 to 7 are the priorities."""

NO_PRIORITY, SEVERAL = -1, -2

TRACE_BINS = 512

_FINE_SHIFT = 6
_FINE_STEPS = 16_384
_FINE_LIMIT = _FINE_STEPS << _FINE_SHIFT
_COARSE_STEPS = 16_384
_PERCENTILES = (50, 90, 99)
_MAX_STEP = _FINE_STEPS + _COARSE_STEPS


class QueueLevel:
    """A queue's length and its counts over time; a record."""

    octets: int
    """The length since ``since_ns``."""
    since_ns: int
    peak_octets: int
    octet_ns: float
    """The integral of the length over time up to ``since_ns``."""


class LevelBins:
    """The times that queues spent at each length, and the trace of the port; a record."""

    coarse_shift: int
    """The log2 of the steps above 1 MiB, in octets."""
    last_step: int
    """The last step of each row of ``Gauge.held_ns``, for all larger levels too."""
    trace_shift: int
    """The log2 of the length of a trace bin, in ns."""
    total_only: int
    """1 if priorities have a level but no statistics, and there is no trace."""
    only_priority: int
    """The only priority with frames so far; NO_PRIORITY for none, SEVERAL for more."""
    lengths_octets: Annotated[NDArray[np.int64], PRIORITIES]
    """The result of `queue_lengths`."""
    trace_octet_ns: Annotated[NDArray[np.float64], TRACE_BINS]
    trace_peak_octets: Annotated[NDArray[np.int64], TRACE_BINS]


class TraceBin:
    """The current bin of the trace; a record.

    It is added to the trace when time passes its end, and when statistics are read.
    """

    end_ns: int
    """The end of the bin; 0 before the first."""
    octet_ns: float
    peak_octets: int


class Gauge(Struct):
    """The state of a gauge."""

    total: QueueLevel
    queues: Sequence[QueueLevel]
    trace_bin: TraceBin
    bins: LevelBins
    held_ns: NDArray[np.int64]
    """The time at each step of the level (`held_of`): a row for the port, then rows of priorities 7 to 0."""


def new_gauge(buffer_octets: int, *, total_only: bool = False) -> Gauge:
    """Return an empty gauge for levels of 0 to ``buffer_octets``, all queues at time 0.

    A gauge of the ``total_only`` has levels of priorities, but neither their statistics nor a trace.
    """
    shift = _FINE_SHIFT
    while (buffer_octets - _FINE_LIMIT) >> shift >= _COARSE_STEPS:
        shift += 1
    # Thousands of ports have a total alone. Tags that a buffer does not count never double its length.
    last_step = min(_MAX_STEP, _step(2 * buffer_octets, shift)) if total_only else _MAX_STEP
    held_ns = zeros((last_step + 1) * (1 if total_only else TOTAL + 1))
    bins = new_record(LevelBins)
    bins.coarse_shift, bins.last_step = shift, last_step
    bins.only_priority, bins.total_only = NO_PRIORITY, int(total_only)
    return Gauge(
        new_record(QueueLevel), new_records(QueueLevel, PRIORITIES), new_record(TraceBin), bins, held_ns
    )


def held_of(gauge: Gauge, row: int) -> NDArray[np.int64]:
    """Return the time at each step of the level of a priority, or of `TOTAL`."""
    steps = int(gauge.bins.last_step) + 1
    return gauge.held_ns[(TOTAL - row) * steps : (TOTAL - row + 1) * steps]


@expanded
def queue_lengths(gauge: Gauge) -> NDArray[np.int64]:
    """Return the length of each priority's queue."""
    for priority in range(PRIORITIES):
        gauge.bins.lengths_octets[priority] = gauge.queues[priority].octets
    return gauge.bins.lengths_octets[:]


@inlined
def step_of(bins: LevelBins, octets: int) -> int:
    """Return the histogram step of a level: 0 for 0, else the first step that reaches ``octets``."""
    # A buffer in frames, or one that does not count a tag, may hold more octets than the steps cover.
    return min(bins.last_step, _step(octets, bins.coarse_shift))


@inlined
def _step(octets: int, coarse_shift: int) -> int:
    if octets <= _FINE_LIMIT:
        return (octets + (1 << _FINE_SHIFT) - 1) >> _FINE_SHIFT
    return _FINE_STEPS + ((octets - _FINE_LIMIT + (1 << coarse_shift) - 1) >> coarse_shift)


def step_end(bins: LevelBins, step: int) -> int:
    """Return the largest level in ``step``; the last step has all larger levels too."""
    if step <= _FINE_STEPS:
        return step << _FINE_SHIFT
    return _FINE_LIMIT + ((step - _FINE_STEPS) << int(bins.coarse_shift))


@inlined
def change(gauge: Gauge, priority: int, now_ns: int, octets: int) -> None:
    """Add ``octets`` (negative to remove) to the levels of ``priority`` and of the port at ``now_ns``."""
    bins, queue, total = gauge.bins, gauge.queues[priority], gauge.total
    only = bins.only_priority
    if only != priority and only != SEVERAL and bins.total_only == 0:
        _add_priority(
            bins, gauge.queues, gauge.held_ns, priority, total.since_ns, total.peak_octets, total.octet_ns
        )
    if bins.only_priority == SEVERAL:
        _settle_level(bins, queue, gauge.held_ns, priority, now_ns)
        _change_level(queue, octets)
    else:
        queue.octets += octets
    settle(gauge, now_ns)
    _change_level(total, octets)


@inlined
def _change_level(level: QueueLevel, octets: int) -> None:
    level.octets += octets
    level.peak_octets = max(level.peak_octets, level.octets)


# Functions that are not inlined take numbers, not the record of the total: a kernel with its own copy of it
# (`structs.local_copy`) could not keep it in registers otherwise.


@compiled
def _add_priority(
    bins: LevelBins,
    queues: Sequence[QueueLevel],
    held_ns: NDArray[np.int64],
    priority: int,
    since_ns: int,
    peak_octets: int,
    octet_ns: float,
) -> None:
    """Make ``priority`` the only one with frames, or the second, after which each is counted."""
    if bins.only_priority == NO_PRIORITY:
        bins.only_priority = priority
    else:
        _enter_only(bins, queues, held_ns, since_ns, peak_octets, octet_ns)
        bins.only_priority = SEVERAL


@compiled
def _enter_only(
    bins: LevelBins,
    queues: Sequence[QueueLevel],
    held_ns: NDArray[np.int64],
    since_ns: int,
    peak_octets: int,
    octet_ns: float,
) -> None:
    """Copy the port's counts to the only priority with frames; its level is the port's."""
    row, steps = bins.only_priority, bins.last_step + 1
    queue = queues[row]
    queue.since_ns = since_ns
    queue.peak_octets = peak_octets
    queue.octet_ns = octet_ns
    for step in range(steps):
        held_ns[(TOTAL - row) * steps + step] = held_ns[step]


@inlined
def settle(gauge: Gauge, now_ns: int) -> None:
    """Add the time up to ``now_ns`` at the current level to the port's statistics."""
    bins, total, current = gauge.bins, gauge.total, gauge.trace_bin
    since_ns, octets = total.since_ns, total.octets
    octet_ns = _settle_level(bins, total, gauge.held_ns, TOTAL, now_ns)
    if now_ns < current.end_ns:
        current.octet_ns += octet_ns
        current.peak_octets = max(current.peak_octets, octets)
    elif octets > 0 and bins.total_only == 0:
        _leave_bin(bins, current)
        trace(bins, since_ns, now_ns, octets)
        time_bin = now_ns >> bins.trace_shift
        if time_bin < TRACE_BINS:
            current.end_ns = (time_bin + 1) << bins.trace_shift
            current.octet_ns = bins.trace_octet_ns[time_bin]
            current.peak_octets = bins.trace_peak_octets[time_bin]


@inlined
def _settle_level(
    bins: LevelBins, level: QueueLevel, held_ns: NDArray[np.int64], row: int, now_ns: int
) -> float:
    """Add the time up to ``now_ns`` at the current level to a queue's; return the integral over that time."""
    elapsed_ns = now_ns - level.since_ns
    octet_ns = float(elapsed_ns) * level.octets
    level.since_ns = now_ns
    level.octet_ns += octet_ns
    held_ns[(TOTAL - row) * (bins.last_step + 1) + step_of(bins, level.octets)] += elapsed_ns
    return octet_ns


@inlined
def _leave_bin(bins: LevelBins, current: TraceBin) -> None:
    """Add ``current`` to the trace."""
    if current.end_ns > 0:
        time_bin = (current.end_ns >> bins.trace_shift) - 1
        bins.trace_octet_ns[time_bin] = current.octet_ns
        bins.trace_peak_octets[time_bin] = current.peak_octets
        current.end_ns = 0


@compiled
def trace(bins: LevelBins, since_ns: int, now_ns: int, octets: int) -> None:
    """Add to the trace the level ``octets`` from ``since_ns`` to ``now_ns``."""
    fit_trace(bins, now_ns)
    shift = bins.trace_shift
    start_ns = since_ns
    while start_ns < now_ns:
        time_bin = start_ns >> shift
        end_ns = min(now_ns, (time_bin + 1) << shift)
        bins.trace_octet_ns[time_bin] += float(end_ns - start_ns) * octets
        bins.trace_peak_octets[time_bin] = max(bins.trace_peak_octets[time_bin], octets)
        start_ns = end_ns


@compiled
def fit_trace(bins: LevelBins, now_ns: int) -> None:
    """Double the trace's bins until they reach ``now_ns``."""
    while now_ns > TRACE_BINS << bins.trace_shift:
        sums, peaks = bins.trace_octet_ns, bins.trace_peak_octets
        for time_bin in range(TRACE_BINS // 2):
            sums[time_bin] = sums[2 * time_bin] + sums[2 * time_bin + 1]
            peaks[time_bin] = max(peaks[2 * time_bin], peaks[2 * time_bin + 1])
        sums[TRACE_BINS // 2 :] = 0.0
        peaks[TRACE_BINS // 2 :] = 0
        bins.trace_shift += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """A queue's length over time, in octets waiting and in service.

    ``pN_octets`` is the length not exceeded in N % of the time, rounded up to a step of 64 octets (a coarser
    one above 1 MiB) and at most the peak; ``mean_octets`` is over time too.
    """

    mean_octets: float
    p50_octets: int
    p90_octets: int
    p99_octets: int
    peak_octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTrace:
    """The port's length over time for a plot: mean and peak per bin of ``span_ns``.

    The first bin starts at the first arrival; the last may extend beyond the last arrival.
    """

    span_ns: int
    mean_octets: tuple[float, ...]
    peak_octets: tuple[int, ...]


@compiled
def settled(gauge: Gauge, now_ns: int) -> None:
    """Update all counts of ``gauge`` to ``now_ns``, before statistics are read; may be repeated."""
    bins, queues, total = gauge.bins, gauge.queues, gauge.total
    for priority in range(PRIORITIES):
        _settle_level(bins, queues[priority], gauge.held_ns, priority, now_ns)
    settle(gauge, now_ns)
    if bins.only_priority >= 0:
        _enter_only(bins, queues, gauge.held_ns, total.since_ns, total.peak_octets, total.octet_ns)
    _leave_bin(bins, gauge.trace_bin)
    fit_trace(bins, now_ns)


def queue_statistics(gauge: Gauge, row: int) -> QueueStatistics:
    """Return the statistics of a priority, or `TOTAL`, up to the settled time; all 0 at time 0."""
    level = gauge.total if row == TOTAL else gauge.queues[row]
    peak_octets, duration_ns = int(level.peak_octets), int(level.since_ns)
    held_ns = np.cumsum(held_of(gauge, row))
    steps = [_step_at(held_ns, percent, duration_ns) for percent in _PERCENTILES]
    p50, p90, p99 = (min(peak_octets, step_end(gauge.bins, step)) for step in steps)
    return QueueStatistics(
        mean_octets=float(level.octet_ns) / duration_ns if duration_ns else 0.0,
        p50_octets=p50,
        p90_octets=p90,
        p99_octets=p99,
        peak_octets=peak_octets,
    )


def _step_at(held_ns: NDArray[np.int64], percent: int, duration_ns: int) -> int:
    # ⌈percent·duration/100⌉ in integers: a level held for exactly half the time is p50.
    return int(np.searchsorted(held_ns, -(-percent * duration_ns // 100))) if duration_ns else 0


def queue_trace(gauge: Gauge) -> QueueTrace:
    """Return the trace of a settled gauge."""
    span_ns = 1 << int(gauge.bins.trace_shift)
    duration_ns = int(gauge.total.since_ns)
    bins = min(TRACE_BINS, max(1, -(-duration_ns // span_ns)))
    lengths_ns = bin_lengths_ns(bins, span_ns, duration_ns)
    return QueueTrace(
        span_ns=span_ns,
        mean_octets=tuple((gauge.bins.trace_octet_ns[:bins] / lengths_ns).tolist()),
        peak_octets=tuple(gauge.bins.trace_peak_octets[:bins].tolist()),
    )


def utilisation(gauge: Gauge) -> float:
    """Return the share of time in which the port of a settled gauge was not empty."""
    duration_ns = int(gauge.total.since_ns)
    return 1.0 - int(gauge.held_ns[0]) / duration_ns if duration_ns else 0.0


def priorities_used(gauge: Gauge) -> list[int]:
    """Return the priorities whose queue ever held a frame."""
    return [priority for priority in range(PRIORITIES) if gauge.queues[priority].peak_octets > 0]


def bin_lengths_ns(bins: int, span_ns: int, duration_ns: int) -> NDArray[np.int64]:
    """Return the lengths of bins; the last bin ends with the replay."""
    lengths_ns = np.full(bins, span_ns, np.int64)
    lengths_ns[-1] = max(1, duration_ns - (bins - 1) * span_ns)
    return lengths_ns
