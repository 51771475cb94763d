"""Reports of experiments, which convert results of `lab` and add the curves of the models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.results.outcome import (
    HEADINGS,
    Outcome,
    cells_of,
    control_text,
    explanations,
    problems,
    used_columns,
)
from ecmproto.control.lab.results.sizes import HEADINGS as SIZE_HEADINGS
from ecmproto.control.lab.results.theory import curves_of
from ecmproto.control.lab.simulation.series import FlowSeries, PortSeries
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.tools.report.figures import KINDS, Kind, overview
from ecmproto.tools.report.html import FORMS
from ecmproto.tools.report.page import figure_forms, form_of
from ecmproto.tools.report.run import (
    Drops,
    FlowCurves,
    Measure,
    Messages,
    PauseCurve,
    PhaseCurve,
    QueueCurve,
    Report,
    ReportTable,
    Run,
    SlowdownCurve,
    TheoryCurve,
    quantiles,
)
from ecmproto.units import NS_PER_S, format_time, one_precision

_MESSAGE_MARKS = 2000
"""The maximum number of windows with message marks."""


def lab_report(outcomes: Sequence[Outcome]) -> Report:
    """Return the report of a scenario's outcomes.

    The report shows the first seed of each outcome, with the curves of the models.
    """
    first = outcomes[0]
    experiment = first.experiment
    names = [_name(outcome) for outcome in outcomes]
    runs = tuple(_run(outcome) for outcome in outcomes)
    begin, end = format_time(first.runs[0].from_ns), format_time(first.runs[0].until_ns)
    notes = [
        f"Figures are about {begin} to {end}, shaded in the pictures. They show all of the time, "
        f"of seed {first.seeds[0]}."
    ]
    for name, outcome in zip(names, outcomes, strict=True):
        notes += [f"{name}: {line}." for line in (*problems(outcome.runs), *explanations(outcome.runs))]
    source = f" ({experiment.source})" if experiment.source else ""
    count_text = "once" if len(outcomes) == 1 else f"in {len(outcomes)} ways"
    return Report(
        title=f"{first.name}: {experiment.title}",
        capture=first.time_text(),
        runs=runs,
        notes=tuple(notes),
        tables=(
            *(_table(outcome) for outcome in outcomes[:1]),
            *(_size_table(*each) for each in zip(names, outcomes, strict=True) if each[1].sizes),
        ),
        kicker="an experiment in a network of hosts and switches, in virtual time",
        lead=f"{experiment.title}{source}, simulated {count_text}, through {', '.join(names)}.",
    )


def picture(outcomes: Sequence[Outcome], path: str, panels: Collection[Kind] = tuple(KINDS)) -> bytes:
    """Return the whole report as HTML, or panels as PNG or SVG, as selected by the suffix of ``path``.

    ``panels`` contains the panel types of PNG and SVG. Raises the same errors as `report_form`.
    """
    pictures = figure_forms(lambda report: overview(report, panels), lambda report: report.title)
    return form_of(path, FORMS | pictures)(lab_report(outcomes))


def _name(outcome: Outcome) -> str:
    control = outcome.experiment.control
    own = control.mechanism + (f" over {control.flow_control}" if control.flow_control else "")
    return outcome.label or own


def _table(outcome: Outcome) -> ReportTable:
    seeds = ", ".join(map(str, outcome.seeds))
    cells = cells_of(outcome.rows)
    used = used_columns(cells)
    return ReportTable(
        heading="Results and published figures" if HEADINGS.index("published") in used else "Results",
        caption=f"Medians and ranges over the seeds {seeds}." if len(outcome.seeds) > 1 else f"Seed {seeds}.",
        columns=tuple(HEADINGS[column].capitalize() for column in used),
        rows=tuple(tuple(row[column] for column in used) for row in cells),
    )


def _size_table(name: str, outcome: Outcome) -> ReportTable:
    return ReportTable(
        heading=f"Completion times by size: {name}",
        caption="Of all seeds, beside those in an empty network (slowdown).",
        columns=tuple(map(str.capitalize, SIZE_HEADINGS)),
        rows=one_precision([size.cells() for size in outcome.sizes]),
    )


def _run(outcome: Outcome) -> Run:
    figures = outcome.runs[0]
    result, experiment = figures.result, outcome.experiment
    port = figures.port("")
    edges_ns, measured_ns = figures.edges_ns, (figures.from_ns, figures.until_ns)
    return Run(
        name=experiment.control.mechanism,
        variant=_name(outcome),
        title=(
            f"{find_mechanism(experiment.control.mechanism).title}, {control_text(experiment)}, "
            f"{format_time(result.duration_ns)}, seed {result.seed}, queue of {port.name}"
        ),
        duration_ns=result.duration_ns,
        measured_ns=measured_ns if measured_ns != (0, result.duration_ns) else None,
        facts=(
            ("scenario", outcome.name),
            ("queue of", port.name),
            ("time", format_time(result.duration_ns)),
            ("window", format_time(result.window_ns)),
            ("seed", str(result.seed)),
            ("sources", f"{len(result.flows)} flows"),
        ),
        measures=tuple(_measures(outcome)),
        measured=f"from {format_time(figures.from_ns)} to {format_time(figures.until_ns)}",
        queue=_queue(port, edges_ns),
        buffer_octets=port.buffer_octets or None,
        set_point_octets=port.set_point_octets,
        flows=quantiles([_flow(each, edges_ns) for each in result.flows]),
        messages=_messages(figures),
        pauses=_pauses(result.ports, edges_ns),
        drops=_drops(result.ports, edges_ns),
        theory=tuple(
            TheoryCurve(label=each.label, of=each.of, time_ns=each.time_ns, value=each.value)
            for each in curves_of(result)
        ),
        phase=_phase(figures, port),
        slowdowns=SlowdownCurve(
            up_to=tuple(size.up_to for size in outcome.sizes),
            p50=np.array([size.slowdown_p50 for size in outcome.sizes]),
            p99=np.array([size.slowdown_p99 for size in outcome.sizes]),
        ),
    )


def _measures(outcome: Outcome) -> list[Measure]:
    def measure(key: str, label: str, figure: str, unit: Any, better: Any = None) -> Measure:
        value = outcome.row(figure).medians[0]
        return Measure(key=key, label=label, value=value, unit=unit, better=better)

    return [
        measure("queue_mean_octets", "mean queue", "queue.mean", "octets"),
        measure("queue_std_octets", "its deviation", "queue.std", "octets", "low"),
        measure("queue_p99_octets", "queue, 99 % of the time at most", "queue.p99", "octets", "low"),
        measure("queue_peak_octets", "peak queue", "queue.peak", "octets", "low"),
        measure("delivered_bps", "through the port", "throughput", "bit/s", "high"),
        measure("utilisation", "utilisation", "utilisation", "share", "high"),
        measure("fairness", "Jain's index of all flows", "jain(rate(*))", "index", "high"),
        measure("dropped_frames", "dropped in the network", "drops", "frames", "low"),
        measure("pauses", "pauses", "pause.count", "count", "low"),
        measure("paused_sum_ns", "pauses summed up", "pause.time", "ns", "low"),
        measure("messages", "messages sent", "control.frames", "count"),
    ]


def _queue(port: PortSeries, edges_ns: NDArray[np.int64]) -> QueueCurve:
    lengths_ns = np.maximum(1, np.diff(edges_ns))
    return QueueCurve(
        edges_ns=edges_ns,
        mean_octets=port.octet_ns / lengths_ns,
        peak_octets=port.peak_octets.astype(np.float64),
    )


def _flow(flow: FlowSeries, edges_ns: NDArray[np.int64]) -> FlowCurves:
    limit_bps = flow.limit_bps
    return FlowCurves(
        label=flow.name,
        edges_ns=edges_ns,
        sent_bps=_rates(flow.sent_octets, edges_ns),
        delivered_bps=_rates(flow.delivered_octets, edges_ns),
        limit_bps=limit_bps if len(limit_bps) and not np.isnan(limit_bps).all() else None,
    )


def _rates(octets: NDArray[Any], edges_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    rates: NDArray[np.float64] = 8.0 * NS_PER_S * octets / np.maximum(1, np.diff(edges_ns))
    return rates


def _messages(figures: RunFigures) -> Messages:
    """Return the messages, with a row for each sender and a mark for each window with messages."""
    series = [each for each in figures.result.messages if each.frames.any()]
    labels = [f"{each.kind} of {each.port}" for each in series]
    if not series:
        return Messages()
    counts = np.stack([each.frames for each in series])
    step = max(1, -(-counts.shape[1] // _MESSAGE_MARKS))
    marks = np.add.reduceat(counts, np.arange(0, counts.shape[1], step), axis=1)
    row, window = np.nonzero(marks)
    strength = marks[row, window] / int(marks.max())
    starts_ns = figures.edges_ns[:-1]
    measured = (starts_ns >= figures.from_ns) & (starts_ns < figures.until_ns)
    return Messages(
        labels=tuple(labels),
        time_ns=figures.edges_ns[window * step],
        row=row.astype(np.int64),
        strength=strength,
        totals=tuple(counts[:, measured].sum(axis=1).tolist()),
    )


def _pauses(ports: Sequence[PortSeries], edges_ns: NDArray[np.int64]) -> tuple[PauseCurve, ...]:
    return tuple(
        PauseCurve(label=port.name, edges_ns=edges_ns, stopped_ns=port.paused_ns.astype(np.float64))
        for port in ports
        if port.paused_ns.any()
    )


def _drops(ports: Sequence[PortSeries], edges_ns: NDArray[np.int64]) -> Drops:
    lost = sum(
        (port.dropped_frames for port in ports if port.kind != "host"),
        start=np.zeros(len(edges_ns) - 1, np.int64),
    )
    windows = np.flatnonzero(lost)
    return Drops(time_ns=edges_ns[windows], count=lost[windows])


def _phase(figures: RunFigures, port: PortSeries) -> PhaseCurve:
    """Return the queue length minus the set point, and the send rate of the port's flows, in each window."""
    if port.set_point_octets is None:
        return PhaseCurve()
    edges_ns = figures.edges_ns
    crossing = [flow for flow in figures.result.flows if port.name in flow.path] or figures.result.flows
    sent = sum((flow.sent_octets for flow in crossing), start=np.zeros(len(edges_ns) - 1))
    return PhaseCurve(
        offset_octets=port.octet_ns / np.maximum(1, np.diff(edges_ns)) - port.set_point_octets,
        rate_bps=_rates(sent, edges_ns),
    )
