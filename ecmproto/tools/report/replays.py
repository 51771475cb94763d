"""Reports of replays, which convert results of `ecmproto.control.replay`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.statistics import FlowRates
from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND, SILENT
from ecmproto.control.replay.series import to_flows
from ecmproto.control.replay.session import Outcome
from ecmproto.control.replay.summary import PortSummary, ReplaySummary, StationsSummary
from ecmproto.tools.report.panels import PausedSpan, paused_shares
from ecmproto.tools.report.run import (
    FLOWS_SHOWN,
    Drops,
    Feedback,
    FlowCurves,
    Measure,
    Messages,
    PauseCurve,
    QueueCurve,
    Report,
    Run,
    quantiles,
)
from ecmproto.units import format_octets, format_rate, format_time, quanta_to_ns

_STRONGEST_UNITS = 5.0
"""The default saturation of QCN and ECM feedback in set points: 1 + 2w for w = 2."""


def replay_report(capture: str, outcomes: Sequence[Outcome], titles: Sequence[str]) -> Report:
    """Return the report of the replays of a capture. ``titles`` contains the mechanism names for readers."""
    names = ", ".join(outcome.summary.variant for outcome in outcomes)
    runs = tuple(_run(outcome, title) for outcome, title in zip(outcomes, titles, strict=True))
    window = [_window(outcomes[0].summary)] if outcomes and outcomes[0].summary.duration_ns else []
    called = [outcome.summary.variant for outcome in outcomes]
    notes = [
        f"{name}: of {outcome.samples.stride} samples one is drawn."
        for name, outcome in zip(called, outcomes, strict=True)
        if outcome.samples.stride > 1
    ]
    notes += [
        f"{name}: of {len(outcome.summary.ports)} ports the first is drawn."
        for name, outcome in zip(called, outcomes, strict=True)
        if len(outcome.summary.ports) > 1
    ]
    return Report(title=f"{capture} through {names}", capture=capture, runs=runs, notes=(*window, *notes))


def _window(summary: ReplaySummary) -> str:
    """Return a sentence about the time window for the figures of a report."""
    closed = (
        "" if summary.stations is None else " What still waits then is sent after it, and counts no more."
    )
    return (
        f"All figures and pictures are about the {format_time(summary.duration_ns)} from the capture's first "
        f"frame to its last. Its second half begins at "
        f"{format_time(summary.second_half_ns)}.{closed}"
    )


def _run(outcome: Outcome, title: str) -> Run:
    summary, machine = outcome.summary, outcome.plan.machine
    port = summary.ports[0]
    rows = outcome.samples.rows
    rows = rows[rows["port"] == 0]
    return Run(
        name=summary.mechanism,
        variant=summary.variant,
        title=f"{title}, {summary.loop} loop",
        duration_ns=summary.duration_ns,
        facts=tuple(_facts(summary)),
        parameters=tuple(_parameters(outcome)),
        measures=tuple(_measures(summary, port)),
        queue=_queue(port, summary.duration_ns),
        buffer_octets=None if summary.buffer_frames else summary.buffer_octets,
        set_point_octets=machine.set_point_octets,
        feedback=_feedback(rows, rates=machine.feedback_label == ""),
        feedback_label=f"{machine.feedback_label} (octets)" if machine.feedback_label else _RATE_LABEL,
        flows=_curves(summary),
        messages=_messages(rows, outcome),
        pauses=tuple(_port_pauses(rows, summary) if summary.stations is None else _pauses(summary.stations)),
        drops=_drops(port),
    )


_RATE_LABEL = "advertised rate (bit/s)"


def _curves(summary: ReplaySummary) -> tuple[FlowCurves, ...]:
    """Return the curves of flows, or quantiles of the flows without the sum of all others."""
    flows = summary.flows if summary.duration_ns else ()
    if len(flows) > FLOWS_SHOWN:
        flows = tuple(each for each in flows if each.number >= 0)
    return quantiles([_flow(each, summary) for each in flows])


def _facts(summary: ReplaySummary) -> list[tuple[str, str]]:
    facts = [
        ("port", f"{summary.rate}, {summary.overhead_octets} octets of overhead per frame"),
        ("buffer", summary.buffer),
        ("loop", summary.loop),
        ("seed", str(summary.seed)),
    ]
    if summary.stations is not None:
        stations = summary.stations
        facts += [
            ("stations", f"{stations.stations}, {stations.flows} flows"),
            ("stations' links", format_rate(stations.link_rate_bps)),
            ("feedback delay", format_time(stations.feedback_delay_ns)),
            ("a station's queue", format_octets(stations.queue_octets)),
        ]
    return facts


def _parameters(outcome: Outcome) -> list[tuple[str, str, str]]:
    rows = []
    for role, parameters in outcome.plan.machine.parameters.items():
        texts = outcome.summary.parameters.get(role.value, {})
        rows += [
            (f"{role.value}.{p.name}", texts[p.name], p.doc) for p in parameters.describe() if p.name in texts
        ]
    return rows


def _measures(summary: ReplaySummary, port: PortSummary) -> list[Measure]:
    def measure(key: str, label: str, value: float, unit: Any, better: Any = None) -> Measure:
        return Measure(key=key, label=label, value=value, unit=unit, better=better)

    rows = [
        measure("frames", "frames in the capture", summary.frames, "frames"),
        measure("port_frames", "came to the port", port.frames, "frames"),
        measure("dropped_frames", "dropped by the port", port.dropped_frames, "frames", "low"),
        measure("queue_mean_octets", "mean queue", port.queue.mean_octets, "octets"),
        measure("queue_half_octets", "mean queue, second half", port.second_half_mean_octets, "octets"),
        measure(
            "queue_p99_octets", "queue, 99 % of the time at most", port.queue.p99_octets, "octets", "low"
        ),
        measure("queue_peak_octets", "peak queue", port.queue.peak_octets, "octets", "low"),
        measure("utilisation", "utilisation", port.utilisation, "share", "high"),
        measure("messages", "messages sent", sum(port.messages.values()), "count"),
    ]
    if summary.stations is not None:
        stations = summary.stations
        passed_bps = sum(flow.second_half_bps for flow in summary.flows)
        rows += [
            measure("delivered_bps", "through the port, second half", passed_bps, "bit/s", "high"),
            measure("fairness", "Jain's index, second half", stations.fairness, "index", "high"),
            measure("fairness_flows", "flows that it is about", stations.fairness_flows, "count"),
            measure("held_out_frames", "full queue at the station", stations.held_out_frames, "frames"),
            measure("waiting_frames", "waiting at the end", _waiting(stations), "frames"),
            measure("paused_ns", "some station paused", stations.paused_ns, "ns", "low"),
            measure("paused_sum_ns", "pauses summed up", stations.paused_sum_ns, "ns", "low"),
        ]
    return rows


def _waiting(stations: StationsSummary) -> int:
    return stations.waiting_frames + stations.queued_frames


def _queue(port: PortSummary, duration_ns: int) -> QueueCurve:
    bins = len(port.trace.mean_octets)
    edges_ns = np.minimum(np.arange(bins + 1) * port.trace.span_ns, max(1, duration_ns))
    rows = np.flatnonzero(np.diff(edges_ns) > 0)
    return QueueCurve(
        edges_ns=np.append(edges_ns[rows], edges_ns[-1]) if len(rows) else edges_ns[:0],
        mean_octets=np.array(port.trace.mean_octets)[rows],
        peak_octets=np.array(port.trace.peak_octets, np.float64)[rows],
    )


def _feedback(rows: NDArray[Any], *, rates: bool) -> Feedback:
    shared = np.isin(rows["kind"], [PAUSE_KIND, PFC_KIND])
    if rates:
        chosen = rows[~shared & (rows["kind"] == SILENT) & (rows["rate_kbps"] > 0)]
        value = chosen["rate_kbps"] * 1000.0
        # One rate for all priorities of the port.
        chosen["priority"] = -1
    else:
        chosen = rows[~shared & (rows["qlen_octets"] > 0)]
        value = chosen["fb_octets"]
    return Feedback(time_ns=chosen["time_ns"], value=value.astype(np.float64), priority=chosen["priority"])


def _flow(flow: FlowRates, summary: ReplaySummary) -> FlowCurves:
    limited = summary.stations is not None and not np.isnan(flow.limit_bps).all()
    return FlowCurves(
        label=flow.label,
        edges_ns=np.arange(len(flow.passed_bps) + 1) * summary.flow_span_ns,
        sent_bps=flow.sent_bps,
        delivered_bps=flow.passed_bps,
        limit_bps=flow.limit_bps if limited else None,
    )


def _messages(rows: NDArray[Any], outcome: Outcome) -> Messages:
    chosen = rows[to_flows(rows)]
    sent = outcome.samples.sent
    numbers = np.array(sorted(sent), np.int64)
    row = np.searchsorted(numbers, chosen["flow"])
    labels = [outcome.flow_labels.get(number, f"flow {number}") for number in numbers.tolist()]
    totals = [sent[number] for number in numbers.tolist()]
    if len(labels) > FLOWS_SHOWN:
        labels = [*labels[: FLOWS_SHOWN - 1], "others"]
        totals = [*totals[: FLOWS_SHOWN - 1], sum(totals[FLOWS_SHOWN - 1 :])]
        row = np.minimum(row, FLOWS_SHOWN - 1)
    strength = None
    set_point = outcome.plan.machine.set_point_octets
    if outcome.plan.machine.feedback_label and set_point:
        strength = np.clip(-chosen["fb_octets"] / (_STRONGEST_UNITS * set_point), 0.0, 1.0)
    return Messages(
        labels=tuple(labels), time_ns=chosen["time_ns"], row=row, strength=strength, totals=tuple(totals)
    )


def _pauses(stations: StationsSummary) -> list[PauseCurve]:
    """Return the paused time of the stations by priority."""
    trace = stations.pauses
    return [
        PauseCurve(
            label=f"priority {priority}",
            edges_ns=np.arange(len(stopped_ns) + 1) * trace.span_ns,
            stopped_ns=np.array(stopped_ns, np.float64),
        )
        for priority, stopped_ns in trace.stopped_ns.items()
    ]


def _port_pauses(rows: NDArray[Any], summary: ReplaySummary) -> list[PauseCurve]:
    """Return the pauses that the port of an open loop requested with its messages."""
    longest_ns = quanta_to_ns(0xFFFF, summary.rate_bps)
    running: dict[str, tuple[int, int]] = {}
    pauses: dict[str, list[PausedSpan]] = {}

    def ends(label: str, start_ns: int, end_ns: int) -> None:
        pauses.setdefault(label, []).append(
            PausedSpan(start_ns=start_ns, end_ns=min(end_ns, summary.duration_ns))
        )

    for row in rows[np.isin(rows["kind"], [PAUSE_KIND, PFC_KIND])].tolist():
        message = dict(zip(rows.dtype.names or (), row, strict=True))
        for label in _recipients(message):
            start_ns, end_ns = running.pop(label, (message["time_ns"], -1))
            if end_ns >= 0 and end_ns < message["time_ns"]:
                ends(label, start_ns, end_ns)
                start_ns = message["time_ns"]
            if message["quanta"]:
                running[label] = (start_ns, message["time_ns"] + longest_ns)
            elif start_ns < message["time_ns"]:
                ends(label, start_ns, message["time_ns"])
    for label, (start_ns, end_ns) in running.items():
        ends(label, start_ns, end_ns)
    edges_ns = np.linspace(0, max(1, summary.duration_ns), _PAUSE_SLOTS + 1).astype(np.int64)
    slot_ns = max(1, summary.duration_ns) / _PAUSE_SLOTS
    return [
        PauseCurve(
            label=label,
            edges_ns=edges_ns,
            stopped_ns=slot_ns * paused_shares(of_label, summary.duration_ns, _PAUSE_SLOTS),
        )
        for label, of_label in pauses.items()
    ]


_PAUSE_SLOTS = 512


def _recipients(message: dict[str, Any]) -> list[str]:
    if message["kind"] == PAUSE_KIND:
        return ["for all stations"]
    return [f"for priority {n}" for n in range(8) if message["enable_vector"] >> n & 1]


def _drops(port: PortSummary) -> Drops:
    frames = np.array(port.drops.frames, np.int64)
    chosen = np.flatnonzero(frames)
    return Drops(time_ns=chosen * port.drops.span_ns, count=frames[chosen])
