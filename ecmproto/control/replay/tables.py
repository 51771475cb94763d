"""The result of a replay as a text table of one mechanism, or of several mechanisms side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ecmproto.control.engine.gauge import QueueStatistics, QueueTrace
from ecmproto.control.engine.statistics import FlowRates
from ecmproto.control.replay.summary import PortSummary, ReplaySummary, StationsSummary
from ecmproto.errors import counted, escaped
from ecmproto.tables import Paint, bars, columns_of, pairs, plain, queue_curves, sparkline
from ecmproto.units import (
    NS_PER_S,
    format_index,
    format_octets,
    format_rate,
    format_share,
    format_time,
    one_precision,
)

WIDTH = 80
"""The default width of a table with curves."""
_NAMES = 13
_FB_STEP = 8
_FLOWS_SHOWN = 16


def replay_table(
    summary: ReplaySummary, path: str, title: str, *, paint: Paint = plain, width: int = WIDTH
) -> str:
    """Return the summary as a table, with the queues over time and the histogram of feedback."""
    parts = [
        paint(f"{escaped(path)} through {title}, {summary.loop} loop", "title"),
        pairs(_facts(summary), width=_NAMES, paint=paint),
    ]
    parts.append(pairs(_arrivals(summary), width=_NAMES, paint=paint))
    for port in summary.ports:
        if len(summary.ports) > 1:
            parts.append(paint(port.name, "title"))
        parts.append(pairs([*_counts(port), *_queues(port, summary)], width=_NAMES, paint=paint))
        if summary.duration_ns:
            parts.append(_trace(port.trace, paint, width - 2))
        if port.fb_histogram:
            parts.append(_feedback(port.fb_histogram, paint))
    if summary.stations is not None:
        parts.append(pairs(_stations(summary.stations), width=_NAMES, paint=paint))
    if summary.flows and summary.duration_ns:
        parts.append(_flows(summary.flows, summary.duration_ns, paint))
    return "\n\n".join(parts)


def _facts(summary: ReplaySummary) -> list[tuple[str, str]]:
    rows = [
        ("port", f"{summary.rate}, {summary.overhead_octets} octets of overhead per frame"),
        ("buffer", summary.buffer),
    ]
    shown = {"cp"} if summary.stations is None else set(summary.parameters)
    for role, values in summary.parameters.items():
        if role in shown and values:
            text = ", ".join(f"{name} {value}" for name, value in values.items())
            rows.append((f"{role} parameters", text))
    return [*rows, ("seed", str(summary.seed))]


def _arrivals(summary: ReplaySummary) -> list[tuple[str, str]]:
    offered = ""
    if summary.duration_ns:
        rate_bps = 8 * summary.octets * NS_PER_S / summary.duration_ns
        offered = f" in {format_time(summary.duration_ns)} ({format_rate(rate_bps)})"
    rows = [
        ("frames", f"{summary.frames:,}, {format_octets(summary.octets)}{offered}"),
        *([("time", _window(summary))] if summary.duration_ns else []),
    ]
    passed = "frames that bypass the queues: MAC Control, link-local, or for no port"
    backwards = "frames with a time before the previous frame's, replayed at the previous time"
    untimed = "frames without a time, replayed at the previous frame's time"
    others = (
        ("passed by", summary.passed_by, passed),
        ("backwards", summary.backwards, backwards),
        ("untimed", summary.untimed, untimed),
    )
    return rows + _noted(others)


def _window(summary: ReplaySummary) -> str:
    """Return the time span that the results cover."""
    return (
        f"{format_time(summary.duration_ns)}, from the first frame to the last; second half from "
        f"{format_time(summary.second_half_ns)}"
    )


def _noted(rows: Sequence[tuple[str, int, str]]) -> list[tuple[str, str]]:
    return [(name, f"{count:,}  ({meaning})") for name, count, meaning in rows if count]


def _counts(port: PortSummary) -> list[tuple[str, str]]:
    rows = [("dropped", f"{port.dropped_frames:,}, {format_octets(port.dropped_octets)}")]
    if port.samples:
        rows.append(("samples", f"{port.samples:,}"))
    rows += [(f"{name} sent", f"{count:,}") for name, count in port.messages.items()]
    if counters := _counted(port.counters):
        rows.append(("events", counters))
    rows += [("note", remark) for remark in port.remarks]
    unanswered = "congested samples without a message, since their source cannot or must not receive one"
    return rows + _noted([("unanswered", port.unanswered, unanswered)])


def _queues(port: PortSummary, summary: ReplaySummary) -> list[tuple[str, str]]:
    rows = [("queue", _lengths(port.queue))]
    if summary.stations is not None:
        rows.append(("second half", f"mean {format_octets(port.second_half_mean_octets)}"))
    if len(port.queue_by_priority) > 1:
        rows += [
            (f"priority {priority}", _lengths(queue)) for priority, queue in port.queue_by_priority.items()
        ]
    return [*rows, ("utilisation", format_share(port.utilisation))]


def _lengths(queue: QueueStatistics) -> str:
    values = (
        ("mean", queue.mean_octets),
        ("p50", queue.p50_octets),
        ("p90", queue.p90_octets),
        ("p99", queue.p99_octets),
        ("peak", queue.peak_octets),
    )
    texts = one_precision([[f"{name} {format_octets(value)}" for name, value in values]])
    return ", ".join(texts[0])


def _stations(stations: StationsSummary) -> list[tuple[str, str]]:
    rows = [
        ("stations", f"{stations.stations:,} on {format_rate(stations.link_rate_bps)}, "
         f"{stations.flows:,} flows"),
        ("feedback", f"{stations.messages:,} messages, delayed by {format_time(stations.feedback_delay_ns)}"),
        ("station drops", (f"{stations.held_out_frames:,}, {format_octets(stations.held_out_octets)}"
         f"  (frames at a full station queue of {format_octets(stations.queue_octets)})")),
        ("limited", (f"{stations.limited_frames:,} frames waited, at most "
         f"{format_octets(stations.longest_wait_octets)} at one limiter")),
        ("delivered", f"{stations.delivered_frames:,}, {format_octets(stations.delivered_octets)}"),
    ]  # fmt: skip
    if stations.waiting_frames or stations.queued_frames:
        waiting = f"{stations.waiting_frames:,}, {format_octets(stations.waiting_octets)}, at stations"
        rows.append(("waiting", f"{waiting}, {stations.queued_frames:,} in the port at the end"))
    rows.append(("fairness", _fairness(stations)))
    if stations.probes:
        rows.append(("probes", f"{stations.probes:,}"))
    if stations.paused_ns:
        together = f"{format_time(stations.paused_ns)} with a stopped station"
        summed = f"{format_time(stations.paused_sum_ns)} summed over stations and priorities"
        rows.append(("paused", f"{together}, {summed}"))
    counters = _counted(stations.counters)
    return [*rows, *([("events", counters)] if counters else [])]


def _counted(counters: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counters.items() if count)


def _fairness(stations: StationsSummary) -> str:
    if not stations.fairness_flows:
        return "no active flow in the second half"
    flows = counted(stations.fairness_flows, "flow")
    index = format_index(stations.fairness)
    return f"{index}  (Jain's index of the rates of {flows} active in the second half)"


def _trace(trace: QueueTrace, paint: Paint, width: int) -> str:
    top = max(trace.peak_octets)
    line = sparkline(trace.peak_octets, top=top, width=width)
    end = format_time(trace.span_ns * len(trace.peak_octets))
    scale = f"0{end.rjust(len(line) - 1)}"
    title = paint(f"queue over time, full height {format_octets(top)}", "title")
    return f"{title}\n  {paint(line, 'congestion')}\n  {scale}"


def _feedback(histogram: Sequence[int], paint: Paint) -> str:
    """Return the histogram of feedback: one row for no feedback, then one row per step of values."""
    counts = [("0", histogram[0])]
    for first in range(0, len(histogram), _FB_STEP):
        low = max(1, first)
        last = first + _FB_STEP - 1
        counts.append((f"{low}–{last}", sum(histogram[low : last + 1])))
    return f"{paint('samples by quantized feedback', 'title')}\n{bars(counts, width=40)}"


def _flows(flows: Sequence[FlowRates], duration_ns: int, paint: Paint) -> str:
    rows = []
    for flow in flows[:_FLOWS_SHOWN]:
        offered = format_rate(8 * flow.offered_octets * NS_PER_S / duration_ns)
        text = f"offered {offered}, delivered {format_rate(flow.second_half_bps)} in the second half"
        if flow.dropped_octets:
            text += f", {format_octets(flow.dropped_octets)} dropped"
        rows.append((flow.label, text))
    if len(flows) > _FLOWS_SHOWN:
        rows.append(("…", f"and {len(flows) - _FLOWS_SHOWN} more"))
    return f"{paint('flows', 'title')}\n{pairs(rows, even=True, paint=paint)}"


def comparison_table(
    summaries: Sequence[ReplaySummary], path: str, *, paint: Paint = plain, width: int = WIDTH
) -> str:
    """Return a comparison of several mechanisms: one line per figure, and then each queue over time."""
    names = [summary.variant for summary in summaries]
    first = summaries[0]
    rows = [("", names)] + [(label, [show(summary) for summary in summaries]) for label, show in _MEASURES]
    if all(summary.stations is not None for summary in summaries):
        rows += [(label, [show(summary) for summary in summaries]) for label, show in _STATION_MEASURES]
    queues = [(summary.variant, summary.ports[0].trace.peak_octets) for summary in summaries]
    title = f"{escaped(path)} through {', '.join(names)}, {first.loop} loop"
    port = f"{first.rate}, buffer {first.buffer}, seed {first.seed}"
    facts = [("port", port), *([("time", _window(first))] if first.duration_ns else [])]
    remarks = [
        f"{name}: {remark}"
        for name, summary in zip(names, summaries, strict=True)
        for remark in summary.ports[0].remarks
    ]
    return "\n\n".join(
        [
            paint(title, "title"),
            pairs(facts, paint=paint),
            columns_of(rows, paint=paint),
            *(["\n".join(remarks)] if remarks else []),
            queue_curves(queues, width=width, paint=paint),
        ]
    )


_MEASURES: Sequence[tuple[str, Callable[[ReplaySummary], str]]] = (
    ("dropped frames", lambda s: f"{s.ports[0].dropped_frames:,}"),
    ("mean queue", lambda s: format_octets(s.ports[0].queue.mean_octets)),
    ("second half", lambda s: format_octets(s.ports[0].second_half_mean_octets)),
    ("p99 queue", lambda s: format_octets(s.ports[0].queue.p99_octets)),
    ("peak queue", lambda s: format_octets(s.ports[0].queue.peak_octets)),
    ("utilisation", lambda s: format_share(s.ports[0].utilisation)),
    ("messages", lambda s: f"{sum(s.ports[0].messages.values()):,}"),
)

_STATION_MEASURES: Sequence[tuple[str, Callable[[ReplaySummary], str]]] = (
    ("throughput", lambda s: format_rate(sum(flow.second_half_bps for flow in s.flows))),
    ("fairness", lambda s: format_index(s.stations.fairness) if s.stations else ""),
    ("station drops", lambda s: f"{s.stations.held_out_frames:,}" if s.stations else ""),
    ("time paused", lambda s: format_time(s.stations.paused_ns) if s.stations else ""),
    ("pauses summed", lambda s: format_time(s.stations.paused_sum_ns) if s.stations else ""),
)
