"""What a replay comes to: counts, the queues over time, feedback; plain values, ready for a table or JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecmproto.replay.gauge import PRIORITIES, TOTAL, TRACE_SPANS, Gauge, fit_trace, settle, step_end

_PERCENTILES = (50, 90, 99)


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
    """The port's length over time for a plot: per span of ``span_ns``, its mean and its peak.

    The first span starts at the first arrival; the last may reach beyond the last one.
    """

    span_ns: int
    mean_octets: tuple[float, ...]
    peak_octets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """A replay in numbers.  The time it is about runs from the first arrival to the last.

    ``frames`` and ``octets`` (without FCS) are all that came; of these ``passed_by`` occupied no queue (MAC
    Control, link-local, empty) and ``dropped_frames`` found the buffer full.  ``samples`` counts sampling
    instants, ``cnms`` the messages sent, ``unanswered`` congested samples that got none: a group or own
    source address, a header cut off, or no CN-TAG where that matters.  ``fb_histogram`` counts samples by
    quantized feedback 0 to 63.  ``backwards`` frames were stamped before an earlier frame,
    ``untimed`` ones not at all: both arrive at the latest time seen.  ``utilisation`` is the share of time
    in which the line was busy.
    """

    frames: int
    octets: int
    first_time_ns: int
    duration_ns: int
    passed_by: int
    dropped_frames: int
    dropped_octets: int
    samples: int
    cnms: int
    unanswered: int
    backwards: int
    untimed: int
    utilisation: float
    queue: QueueStatistics
    queue_by_priority: dict[int, QueueStatistics]
    """For each priority that had a frame in its queue."""
    fb_histogram: tuple[int, ...]
    trace: QueueTrace
    rate_bps: int
    buffer_octets: int
    overhead_octets: int
    seed: int
    parameters: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists and numbers."""
        values = dataclasses.asdict(self)
        values["queue_by_priority"] = {str(p): queue for p, queue in values["queue_by_priority"].items()}
        values["fb_histogram"] = list(self.fb_histogram)
        values["trace"]["mean_octets"] = list(self.trace.mean_octets)
        values["trace"]["peak_octets"] = list(self.trace.peak_octets)
        return values


def settled(gauge: Gauge, now_ns: int) -> None:
    """Bring every row of ``gauge`` up to ``now_ns``: before statistics are read, as often as one likes."""
    for row in range(PRIORITIES + 1):
        settle(gauge, row, now_ns)
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


def _step_at(held_ns: np.ndarray[Any, np.dtype[np.int64]], percent: int, duration_ns: int) -> int:
    # ⌈percent·duration/100⌉ in whole numbers: a level that held exactly half the time is p50.
    return int(np.searchsorted(held_ns, -(-percent * duration_ns // 100))) if duration_ns else 0


def queue_trace(gauge: Gauge) -> QueueTrace:
    """Return the trace of a settled gauge."""
    span_ns = 1 << int(gauge.trace_shift)
    duration_ns = int(gauge.since_ns[TOTAL])
    spans = min(TRACE_SPANS, max(1, -(-duration_ns // span_ns)))
    # The last span is only as long as the replay reached into it.
    lengths_ns = np.full(spans, span_ns)
    lengths_ns[-1] = max(1, duration_ns - (spans - 1) * span_ns)
    return QueueTrace(
        span_ns=span_ns,
        mean_octets=tuple((gauge.trace_octet_ns[:spans] / lengths_ns).tolist()),
        peak_octets=tuple(gauge.trace_peak_octets[:spans].tolist()),
    )


def utilisation(gauge: Gauge) -> float:
    """Return the share of time in which a settled gauge's port was not empty."""
    duration_ns = int(gauge.since_ns[TOTAL])
    return 1.0 - int(gauge.held_ns[TOTAL, 0]) / duration_ns if duration_ns else 0.0


def priorities_used(gauge: Gauge) -> list[int]:
    """Return the priorities whose queue ever held a frame."""
    return [priority for priority in range(PRIORITIES) if gauge.peak_octets[priority] > 0]
