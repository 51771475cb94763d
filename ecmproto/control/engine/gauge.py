"""Time-weighted statistics of queue levels, in bounded memory for a replay of any length.

A gauge has a queue per priority, and a total for the port. Each queue has a level (the current octets in the
queue), a maximum, an integral over time, and the time spent at each level. Levels up to 1 MiB have steps of
64 octets. For higher levels, the step is a power of two that depends on the buffer. Step 0 means exactly
"empty".

The total also has a trace: the integral and the maximum in ``TRACE_BINS`` bins of equal length. When the
replay exceeds these bins, their length doubles, and neighbours are merged.

While only one priority has held frames, the counts of this priority equal the counts of the port. These
counts are stored once, and `settled` copies them to the priority.

The integrals are float64 values: exact to 2^53 octet·ns (nine million octet-seconds), then to 16 digits.
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
"""Row number of the port; rows 0 to 7 are the priorities."""

NO_PRIORITY, SEVERAL = -1, -2

TRACE_BINS = 512

_FINE_SHIFT = 6
_FINE_STEPS = 16_384
_FINE_LIMIT = _FINE_STEPS << _FINE_SHIFT
_COARSE_STEPS = 16_384
_PERCENTILES = (50, 90, 99)
_MAX_STEP = _FINE_STEPS + _COARSE_STEPS


class QueueLevel:
    """Length of a queue, and its counts over time; a record."""

    octets: int
    """Queue length in octets since ``since_ns``."""
    since_ns: int
    peak_octets: int
    octet_ns: float
    """Integral of the queue length over time up to ``since_ns``."""


class LevelBins:
    """Times that queues spent at each length, and the trace of the port; a record."""

    coarse_shift: int
    """Binary logarithm of the step above 1 MiB, in octets."""
    last_step: int
    """Last step of each row of ``Gauge.level_ns``; this step includes all larger levels."""
    trace_shift: int
    """Binary logarithm of the length of a trace bin, in ns."""
    total_only: int
    """1 if priorities have a level but no statistics, and if there is no trace."""
    only_priority: int
    """Only priority with frames so far; NO_PRIORITY before the first frame, or SEVERAL."""
    lengths_octets: Annotated[NDArray[np.int64], PRIORITIES]
    """Buffer for the result of `queue_lengths`."""
    trace_octet_ns: Annotated[NDArray[np.float64], TRACE_BINS]
    trace_peak_octets: Annotated[NDArray[np.int64], TRACE_BINS]


class TraceBin:
    """Current bin of the trace; a record.

    The bin is added to the trace when time passes its end, and when statistics are read.
    """

    end_ns: int
    """End of the bin in ns; 0 before the first bin."""
    octet_ns: float
    peak_octets: int


class Gauge(Struct):
    """State of a gauge."""

    total: QueueLevel
    queues: Sequence[QueueLevel]
    trace_bin: TraceBin
    bins: LevelBins
    level_ns: NDArray[np.int64]
    """Time at each level step (`level_times`): a row for the port, followed by rows for priorities 7 to 0."""


def new_gauge(buffer_octets: int, *, total_only: bool = False) -> Gauge:
    """Return an empty gauge for levels of 0 to ``buffer_octets``, at time 0.

    With ``total_only``, a gauge has the levels of priorities, but neither their statistics nor a trace.
    """
    shift = _FINE_SHIFT
    while (buffer_octets - _FINE_LIMIT) >> shift >= _COARSE_STEPS:
        shift += 1
    # Networks with thousands of ports use only totals. Uncounted tags never double the length of a queue.
    last_step = min(_MAX_STEP, _step(2 * buffer_octets, shift)) if total_only else _MAX_STEP
    level_ns = zeros((last_step + 1) * (1 if total_only else TOTAL + 1))
    bins = new_record(LevelBins)
    bins.coarse_shift, bins.last_step = shift, last_step
    bins.only_priority, bins.total_only = NO_PRIORITY, int(total_only)
    return Gauge(
        new_record(QueueLevel), new_records(QueueLevel, PRIORITIES), new_record(TraceBin), bins, level_ns
    )


def level_times(gauge: Gauge, row: int) -> NDArray[np.int64]:
    """Return the time at each level step, for a priority or for `TOTAL`."""
    steps = int(gauge.bins.last_step) + 1
    return gauge.level_ns[(TOTAL - row) * steps : (TOTAL - row + 1) * steps]


@expanded
def queue_lengths(gauge: Gauge) -> NDArray[np.int64]:
    """Return the length of each priority's queue."""
    for priority in range(PRIORITIES):
        gauge.bins.lengths_octets[priority] = gauge.queues[priority].octets
    return gauge.bins.lengths_octets[:]


@inlined
def step_of(bins: LevelBins, octets: int) -> int:
    """Return the histogram step of a level: 0 if empty, else the first step that reaches ``octets``."""
    # A buffer in frames, or a buffer that does not count tags, may hold more octets than the steps cover.
    return min(bins.last_step, _step(octets, bins.coarse_shift))


@inlined
def _step(octets: int, coarse_shift: int) -> int:
    if octets <= _FINE_LIMIT:
        return (octets + (1 << _FINE_SHIFT) - 1) >> _FINE_SHIFT
    return _FINE_STEPS + ((octets - _FINE_LIMIT + (1 << coarse_shift) - 1) >> coarse_shift)


def step_end(bins: LevelBins, step: int) -> int:
    """Return the largest level in ``step``; the last step also includes all larger levels."""
    if step <= _FINE_STEPS:
        return step << _FINE_SHIFT
    return _FINE_LIMIT + ((step - _FINE_STEPS) << int(bins.coarse_shift))


@inlined
def change(gauge: Gauge, priority: int, now_ns: int, octets: int) -> None:
    """Add ``octets``, which may be negative, to the levels of ``priority`` and of the port at ``now_ns``."""
    bins, queue, total = gauge.bins, gauge.queues[priority], gauge.total
    only = bins.only_priority
    if only != priority and only != SEVERAL and bins.total_only == 0:
        _add_priority(
            bins, gauge.queues, gauge.level_ns, priority, total.since_ns, total.peak_octets, total.octet_ns
        )
    if bins.only_priority == SEVERAL:
        _settle_level(bins, queue, gauge.level_ns, priority, now_ns)
        _change_level(queue, octets)
    else:
        queue.octets += octets
    settle(gauge, now_ns)
    _change_level(total, octets)


@inlined
def _change_level(level: QueueLevel, octets: int) -> None:
    level.octets += octets
    level.peak_octets = max(level.peak_octets, level.octets)


# Functions that are not inlined have numbers as arguments, not the record of the total. Otherwise, a kernel
# with its own copy of this record (`structs.local_copy`) could not keep the copy in registers.


@compiled
def _add_priority(
    bins: LevelBins,
    queues: Sequence[QueueLevel],
    level_ns: NDArray[np.int64],
    priority: int,
    since_ns: int,
    peak_octets: int,
    octet_ns: float,
) -> None:
    """Record ``priority`` as the only priority with frames, or start to count priorities separately."""
    if bins.only_priority == NO_PRIORITY:
        bins.only_priority = priority
    else:
        _enter_only(bins, queues, level_ns, since_ns, peak_octets, octet_ns)
        bins.only_priority = SEVERAL


@compiled
def _enter_only(
    bins: LevelBins,
    queues: Sequence[QueueLevel],
    level_ns: NDArray[np.int64],
    since_ns: int,
    peak_octets: int,
    octet_ns: float,
) -> None:
    """Copy the port's counts to the only priority with frames, because their levels are equal."""
    row, steps = bins.only_priority, bins.last_step + 1
    queue = queues[row]
    queue.since_ns = since_ns
    queue.peak_octets = peak_octets
    queue.octet_ns = octet_ns
    for step in range(steps):
        level_ns[(TOTAL - row) * steps + step] = level_ns[step]


@inlined
def settle(gauge: Gauge, now_ns: int) -> None:
    """Add the time up to ``now_ns`` at the current level to the port's statistics."""
    bins, total, current = gauge.bins, gauge.total, gauge.trace_bin
    since_ns, octets = total.since_ns, total.octets
    octet_ns = _settle_level(bins, total, gauge.level_ns, TOTAL, now_ns)
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
    bins: LevelBins, level: QueueLevel, level_ns: NDArray[np.int64], row: int, now_ns: int
) -> float:
    """Add the time since the last change to a queue's statistics; return the integral over this time."""
    elapsed_ns = now_ns - level.since_ns
    octet_ns = float(elapsed_ns) * level.octets
    level.since_ns = now_ns
    level.octet_ns += octet_ns
    level_ns[(TOTAL - row) * (bins.last_step + 1) + step_of(bins, level.octets)] += elapsed_ns
    return octet_ns


@inlined
def _leave_bin(bins: LevelBins, current: TraceBin) -> None:
    """Add the bin ``current`` to the trace."""
    if current.end_ns > 0:
        time_bin = (current.end_ns >> bins.trace_shift) - 1
        bins.trace_octet_ns[time_bin] = current.octet_ns
        bins.trace_peak_octets[time_bin] = current.peak_octets
        current.end_ns = 0


@compiled
def trace(bins: LevelBins, since_ns: int, now_ns: int, octets: int) -> None:
    """Add the level ``octets`` from ``since_ns`` to ``now_ns`` to the trace."""
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
    """Double the length of the trace bins until the trace includes ``now_ns``."""
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
    """Queue length over time, in octets, including waiting frames and the frame in service.

    ``pN_octets`` is the length that was not exceeded in N % of the time. This length is rounded up to a step
    of 64 octets (larger above 1 MiB), but is at most the maximum. ``mean_octets`` is the mean over time.
    """

    mean_octets: float
    p50_octets: int
    p90_octets: int
    p99_octets: int
    peak_octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTrace:
    """Port's queue length over time, for a plot: mean and maximum per bin of ``span_ns``.

    The first bin starts at the first arrival. The last bin may extend beyond the last arrival.
    """

    span_ns: int
    mean_octets: tuple[float, ...]
    peak_octets: tuple[int, ...]


@compiled
def settled(gauge: Gauge, now_ns: int) -> None:
    """Update all counts of ``gauge`` to ``now_ns`` before statistics are read; repeated calls are allowed."""
    bins, queues, total = gauge.bins, gauge.queues, gauge.total
    for priority in range(0 if bins.total_only else PRIORITIES):
        _settle_level(bins, queues[priority], gauge.level_ns, priority, now_ns)
    settle(gauge, now_ns)
    if bins.only_priority >= 0:
        _enter_only(bins, queues, gauge.level_ns, total.since_ns, total.peak_octets, total.octet_ns)
    _leave_bin(bins, gauge.trace_bin)
    fit_trace(bins, now_ns)


def queue_statistics(gauge: Gauge, row: int) -> QueueStatistics:
    """Return the statistics of a priority, or of `TOTAL`, up to the settled time; 0 at time 0."""
    level = gauge.total if row == TOTAL else gauge.queues[row]
    peak_octets, duration_ns = int(level.peak_octets), int(level.since_ns)
    level_ns = np.cumsum(level_times(gauge, row))
    steps = [_step_at(level_ns, percent, duration_ns) for percent in _PERCENTILES]
    p50, p90, p99 = (min(peak_octets, step_end(gauge.bins, step)) for step in steps)
    return QueueStatistics(
        mean_octets=float(level.octet_ns) / duration_ns if duration_ns else 0.0,
        p50_octets=p50,
        p90_octets=p90,
        p99_octets=p99,
        peak_octets=peak_octets,
    )


def _step_at(level_ns: NDArray[np.int64], percent: int, duration_ns: int) -> int:
    # This is ⌈percent·duration/100⌉ in integers: a level held for exactly half the time is p50.
    return int(np.searchsorted(level_ns, -(-percent * duration_ns // 100))) if duration_ns else 0


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
    """Return the share of time during which the port of a settled gauge was not empty."""
    duration_ns = int(gauge.total.since_ns)
    return 1.0 - int(gauge.level_ns[0]) / duration_ns if duration_ns else 0.0


def priorities_used(gauge: Gauge) -> list[int]:
    """Return the priorities whose queue has ever held a frame."""
    return [priority for priority in range(PRIORITIES) if gauge.queues[priority].peak_octets > 0]


def bin_lengths_ns(bins: int, span_ns: int, duration_ns: int) -> NDArray[np.int64]:
    """Return the lengths of bins in ns; the last bin ends with the replay."""
    lengths_ns = np.full(bins, span_ns, np.int64)
    lengths_ns[-1] = max(1, duration_ns - (bins - 1) * span_ns)
    return lengths_ns
