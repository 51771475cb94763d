"""A replay's summary for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ecmproto.units import NS_PER_S, format_octets, format_rate, format_time
from ecmproto_cli.paint import paint
from ecmproto_cli.table import bars, pairs, sparkline

if TYPE_CHECKING:
    from ecmproto.replay.summary import QueueStatistics, ReplaySummary

_WIDTH = 80
_FB_STEP = 8


def replay_table(summary: ReplaySummary, path: str) -> str:
    """Return the summary as a table, the queue over time and the histogram of the feedback."""
    parts = [
        paint(f"{path} through a QCN congestion point, open loop", "title"),
        pairs(_port(summary)),
        pairs(_counts(summary)),
        pairs(_queues(summary)),
    ]
    if summary.duration_ns:
        parts.append(_trace(summary))
    if summary.samples:
        parts.append(_feedback(summary.fb_histogram))
    return "\n\n".join(parts)


def _port(summary: ReplaySummary) -> list[tuple[str, str]]:
    shown = ", ".join(f"{name} {value}" for name, value in summary.parameters.items())
    return [
        ("port", f"{format_rate(summary.rate_bps)}, {summary.overhead_octets} octets of overhead a frame"),
        ("buffer", format_octets(summary.buffer_octets)),
        ("parameters", shown),
        ("seed", str(summary.seed)),
    ]


def _counts(summary: ReplaySummary) -> list[tuple[str, str]]:
    offered = ""
    if summary.duration_ns:
        rate_bps = 8 * summary.octets * NS_PER_S / summary.duration_ns
        offered = f" in {format_time(summary.duration_ns)} ({format_rate(rate_bps)})"
    rows = [
        ("frames", f"{summary.frames}, {format_octets(summary.octets)}{offered}"),
        ("dropped", f"{summary.dropped_frames}, {format_octets(summary.dropped_octets)}"),
        ("samples", str(summary.samples)),
        ("CNMs", str(summary.cnms)),
    ]
    others = (
        ("unanswered", summary.unanswered, "congested samples whose source no CNM can or may reach"),
        ("passed by", summary.passed_by, "frames that occupy no queue: MAC Control, link-local"),
        ("backwards", summary.backwards, "frames stamped before an earlier one, taken at that one's time"),
        ("untimed", summary.untimed, "frames without a time, taken at the time of the one before"),
    )
    return rows + [(name, f"{count}  ({meaning})") for name, count, meaning in others if count]


def _queues(summary: ReplaySummary) -> list[tuple[str, str]]:
    rows = [("queue", _lengths(summary.queue))]
    if len(summary.queue_by_priority) > 1:
        rows += [
            (f"priority {priority}", _lengths(queue)) for priority, queue in summary.queue_by_priority.items()
        ]
    return [*rows, ("line busy", f"{100 * summary.utilisation:.1f} %")]


def _lengths(queue: QueueStatistics) -> str:
    values = (
        ("mean", queue.mean_octets),
        ("p50", queue.p50_octets),
        ("p90", queue.p90_octets),
        ("p99", queue.p99_octets),
        ("peak", queue.peak_octets),
    )
    return ", ".join(f"{name} {format_octets(value)}" for name, value in values)


def _trace(summary: ReplaySummary) -> str:
    peaks = summary.trace.peak_octets
    top = max(peaks)
    line = sparkline(peaks, top=top, width=_WIDTH)
    end = format_time(summary.trace.span_ns * len(peaks))
    scale = f"0{end.rjust(len(line) - 1)}"
    title = paint(f"queue over time, full height {format_octets(top)}", "title")
    return f"{title}\n  {paint(line, 'congestion')}\n  {scale}"


def _feedback(histogram: Sequence[int]) -> str:
    """Return the histogram: no feedback by itself, then in the steps that shorten the sampling."""
    counts = [("0", histogram[0])]
    for first in range(0, len(histogram), _FB_STEP):
        low = max(1, first)
        last = first + _FB_STEP - 1
        counts.append((f"{low}–{last}", sum(histogram[low : last + 1])))
    return f"{paint('samples by quantized feedback', 'title')}\n{bars(counts, width=40)}"
