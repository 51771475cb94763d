"""Data of a report: runs as plain values and arrays, and a comparison of the runs.

Times are in ns since the first arrival of the replay. Curves have a few hundred to a few thousand slots for
each run, independent of the size of the capture. All data may be empty, because a report can also describe a
capture without frames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecmproto.units import NS_PER_S, format_index, format_octets, format_rate, format_share, format_time

Unit = Literal["octets", "frames", "bit/s", "ns", "share", "index", "count"]
"""The unit of a measure. A "share" is from 0 to 1. An "index" has no unit, such as Jain's index."""

FLOWS_SHOWN = 16
"""The maximum number of distinguishable flows in a run. More flows are shown as `quantiles`."""
_QUANTILES = {
    "maximum": 1.0, "90th percentile": 0.9, "median": 0.5, "10th percentile": 0.1, "minimum": 0.0,
}  # fmt: skip


def _floats() -> NDArray[np.float64]:
    return np.empty(0, dtype=np.float64)


def _integers() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure in the table that compares runs. Measures of different runs are matched by ``key``.

    ``better`` states whether low or high values are better. ``None`` means that neither is better. The
    opening sentences of a report use the keys in ``words.summary``. Other keys are only in the table.
    """

    key: str
    label: str
    value: float | int
    unit: Unit
    better: Literal["low", "high"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Columns:
    """Arrays with one entry for each sample, or for each slot between two ``edges_ns``."""

    def __post_init__(self) -> None:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        lengths = {name: len(value) for name, value in values.items() if isinstance(value, np.ndarray)}
        if "edges_ns" in lengths:
            lengths["edges_ns"] = max(0, lengths["edges_ns"] - 1)
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns: expected one value for each sample or slot, got {lengths}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueueCurve(_Columns):
    """The queue length over time, in n slots. Slot i is from ``edges_ns[i]`` to ``edges_ns[i + 1]``.

    ``edges_ns`` has n + 1 entries, or no entries if n is 0. The other arrays have n entries.
    """

    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    mean_octets: NDArray[np.float64] = field(default_factory=_floats)
    peak_octets: NDArray[np.float64] = field(default_factory=_floats)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowCurves(_Columns):
    """The rates of a flow over time, as means over slots (see :class:`QueueCurve`).

    ``limit_bps`` is the current limit of the reaction point, and NaN in slots without a limiter. ``None``
    means that the mechanism has no limiters, as in an open loop.
    """

    label: str
    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    sent_bps: NDArray[np.float64] = field(default_factory=_floats)
    """The send rate of the flow towards the congestion point."""
    delivered_bps: NDArray[np.float64] = field(default_factory=_floats)
    """The rate of the flow after the port of the congestion point."""
    limit_bps: NDArray[np.float64] | None = None


def quantiles(flows: Sequence[FlowCurves]) -> tuple[FlowCurves, ...]:
    """Return the curves of flows with common slots.

    More than FLOWS_SHOWN flows become quantiles of their rates.
    """
    if len(flows) <= FLOWS_SHOWN:
        return tuple(flows)
    of_all = [
        np.quantile(rates, [*_QUANTILES.values()], axis=0)
        for rates in ([flow.sent_bps for flow in flows], [flow.delivered_bps for flow in flows])
    ]
    return tuple(
        FlowCurves(
            label=f"{name} of {len(flows):,} flows",
            edges_ns=flows[0].edges_ns,
            sent_bps=sent_bps,
            delivered_bps=delivered_bps,
        )
        for name, sent_bps, delivered_bps in zip(_QUANTILES, *of_all, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feedback(_Columns):
    """The feedback that the congestion point calculated. All arrays have one entry for each sample."""

    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    value: NDArray[np.float64] = field(default_factory=_floats)
    priority: NDArray[np.int64] = field(default_factory=_integers)
    """The priority from 0 to 7. The value −1 means that the congestion point serves all priorities."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Messages(_Columns):
    """Messages to flows. Message i was sent to ``labels[row[i]]`` at ``time_ns[i]``.

    ``strength`` is the strength of each message, relative to the strongest possible feedback. The value is 1
    for the strongest feedback, and 0 for no feedback or positive feedback.
    """

    labels: tuple[str, ...] = ()
    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    row: NDArray[np.int64] = field(default_factory=_integers)
    strength: NDArray[np.float64] | None = None
    totals: tuple[int, ...] | None = None
    """The number of messages for each label, if the arrays contain only a part of the messages."""

    def __post_init__(self) -> None:
        if self.totals is not None and len(self.totals) != len(self.labels):
            raise ValueError(f"totals of messages: expected {len(self.labels)}, got {len(self.totals)}")
        _Columns.__post_init__(self)
        if self.row.size and not (self.row.min() >= 0 and self.row.max() < len(self.labels)):
            raise ValueError(f"rows of messages: expected 0 to {len(self.labels) - 1}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drops(_Columns):
    """Dropped frames over time. An entry is a single drop, or the sum over a time bin."""

    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    count: NDArray[np.int64] = field(default_factory=_integers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PauseCurve(_Columns):
    """The time in each slot (see :class:`QueueCurve`) during which PAUSE or PFC stopped ``label``."""

    label: str
    """The name of the paused traffic, such as "priority 3"."""
    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    stopped_ns: NDArray[np.float64] = field(default_factory=_floats)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TheoryCurve(_Columns):
    """A model's prediction for a run, with a value for each time.

    The curve is drawn over the queue or the rates.
    """

    label: str
    of: Literal["queue", "rate"]
    time_ns: NDArray[np.float64]
    value: NDArray[np.float64]
    """The predicted values in octets or bit/s."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseCurve(_Columns):
    """A curve of queue length against send rate, in order of time."""

    offset_octets: NDArray[np.float64] = field(default_factory=_floats)
    """The queue length minus the set point."""
    rate_bps: NDArray[np.float64] = field(default_factory=_floats)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlowdownCurve(_Columns):
    """Medians and 99th percentiles of the slowdown, by size of flow. The last size may have no limit."""

    up_to: tuple[str, ...] = ()
    """The upper limit of each size class, as text."""
    p50: NDArray[np.float64] = field(default_factory=_floats)
    p99: NDArray[np.float64] = field(default_factory=_floats)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A replay of the capture with one mechanism. Raises ValueError for arrays of unequal length."""

    name: str
    """The name of the mechanism as on the command line, such as "qcn" or "qcn over pfc"."""
    title: str
    """The title for readers, such as "QCN, closed loop"."""
    duration_ns: int
    """The time from the first arrival to the end of the run, which is the length of the time axis."""
    measured_ns: tuple[int, int] | None = None
    """The start and end of the measured time, which is shaded in pictures. ``None`` means the whole run."""
    variant: str = ""
    """The name among runs of the same mechanism, such as "qcn:w=4", or an empty text."""
    facts: tuple[tuple[str, str], ...] = ()
    """Facts as pairs of label and text, such as the port rate, the seed, the loop and the feedback delay."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """Parameters as tuples of name, value as text, and meaning."""
    measures: tuple[Measure, ...] = ()
    measured: str = ""
    """A description of the measured part of the run. An empty text means the whole run."""
    queue: QueueCurve = field(default_factory=QueueCurve)
    buffer_octets: int | None = None
    set_point_octets: int | None = None
    feedback: Feedback = field(default_factory=Feedback)
    feedback_label: str = "feedback"
    """The name of the feedback, with its unit in parentheses, such as "Fb (octets)"."""
    flows: tuple[FlowCurves, ...] = ()
    """At most FLOWS_SHOWN flows, or quantiles if the run has more flows."""
    messages: Messages = field(default_factory=Messages)
    pauses: tuple[PauseCurve, ...] = ()
    drops: Drops = field(default_factory=Drops)
    theory: tuple[TheoryCurve, ...] = ()
    phase: PhaseCurve = field(default_factory=PhaseCurve)
    slowdowns: SlowdownCurve = field(default_factory=SlowdownCurve)

    def is_measured(self, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each time is within the measured time."""
        if self.measured_ns is None:
            return np.ones(len(times_ns), np.bool_)
        begin_ns, end_ns = self.measured_ns
        return (times_ns >= begin_ns) & (times_ns < end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A table of texts. The first column contains the row names."""

    heading: str
    caption: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """One or several replays of a capture. The report shows the runs in order."""

    title: str
    capture: str
    """The name of the capture as given by the user."""
    runs: tuple[Run, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about the whole report, such as omissions, warnings and the command line."""
    tables: tuple[ReportTable, ...] = ()
    """Tables after the results, which compare figures with published figures."""
    kicker: str = "replay of a capture through congestion management"
    """The type of the report, displayed above the title."""
    lead: str = ""
    """The opening sentence. An empty text selects a sentence about the frames of the capture."""


ABSENT = "–"
"""The text for a value that is not a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The scale of an axis. Values divided by ``factor`` have the unit ``unit``."""

    factor: float
    unit: str


def octet_scale(greatest: float) -> Scale:
    """Return the most readable scale for octets from 0 to ``greatest``."""
    return _prefixed(greatest, "B")


def rate_scale(greatest: float) -> Scale:
    """Return the most readable scale for bit/s from 0 to ``greatest``."""
    return _prefixed(greatest, "b/s")


def frame_scale(greatest: float) -> Scale:
    """Return the most readable scale for frames per second from 0 to ``greatest``."""
    return _prefixed(greatest, "/s", _PREFIXES[1:])


def time_scale(span_ns: float) -> Scale:
    """Return the most readable scale for a time axis with a length of ``span_ns``."""
    for minimum_ns, unit, factor in _TIME_UNITS:
        if span_ns >= minimum_ns:
            return Scale(factor=factor, unit=unit)
    return Scale(factor=1, unit="ns")


_MINUTE_NS, _HOUR_NS, _DAY_NS = 60 * NS_PER_S, 3600 * NS_PER_S, 86400 * NS_PER_S
_YEAR_NS = 36525 * _DAY_NS // 100
_TIME_UNITS = (
    (4 * _YEAR_NS, "years", _YEAR_NS),
    (2 * _DAY_NS, "d", _DAY_NS),
    (2 * _HOUR_NS, "h", _HOUR_NS),
    (10 * _MINUTE_NS, "min", _MINUTE_NS),
    (NS_PER_S, "s", NS_PER_S),
    (10**6, "ms", 10**6),
    (10**3, "µs", 10**3),
)
"""Time units as minimum span in ns, name, and length in ns. The minimum span keeps the axis numbers short."""


def labelled_scale(label: str, greatest: float) -> tuple[str, Scale]:
    """Split a label such as "Fb (octets)" into the name and the scale for values up to ``greatest``."""
    match = _IN_PARENTHESES.fullmatch(label.strip())
    if match is None:
        return label.strip(), Scale(factor=1, unit="")
    name, unit = match.groups()
    scale = _SCALES.get(unit)
    return name, scale(greatest) if scale else Scale(factor=1, unit=unit)


_IN_PARENTHESES = re.compile(r"(.*?)\s*\(([^()]+)\)")
_SCALES: dict[str, Callable[[float], Scale]] = {"octets": octet_scale, "bit/s": rate_scale, "ns": time_scale}


_PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def _prefixed(greatest: float, unit: str, prefixes: Sequence[tuple[str, float]] = _PREFIXES) -> Scale:
    for prefix, factor in prefixes:
        if greatest >= factor:
            return Scale(factor=factor, unit=f"{prefix}{unit}")
    return Scale(factor=1, unit=unit)


def value_text(value: float, unit: Unit) -> str:
    """Return ``value`` with its unit as text, or ``ABSENT`` if the value is not a number."""
    return _TEXTS[unit](value) if finite(value) else ABSENT


def finite(value: float) -> bool:
    """Return whether ``value`` is a finite number."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def greatest(values: Iterable[float]) -> float:
    """Return the maximum of the finite values, or 0 if the maximum is negative or missing."""
    return max((value for value in values if finite(value)), default=0.0)


def _grouped(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if value % 1 else f"{value:,.0f}"


_TEXTS: dict[Unit, Callable[[float], str]] = {
    "octets": format_octets,
    "frames": _grouped,
    "bit/s": format_rate,
    "ns": format_time,
    "share": format_share,
    "index": format_index,
    "count": _grouped,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonCell:
    """A value as text.

    ``best`` marks the best value, and ``part`` is the value relative to the maximum of the row.

    Several runs with the same best text are all marked. If these runs are more than half of the row, no run
    is marked.
    """

    text: str
    best: bool
    part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """The values of a measure in all runs. ``better`` is the same as in `Measure`."""

    label: str
    better: str
    cells: tuple[ComparisonCell, ...]


def comparison(runs: Sequence[Run]) -> list[ComparisonRow]:
    """Return a row for each measure, in the order of the measures in the runs.

    The best values of a row are marked if another run has a worse value. A value that is not a number is
    never the best value. Runs without congestion control are never marked. Fairness indices are not compared
    if the runs have different flows.
    """
    by_run = [{measure.key: measure for measure in run.measures} for run in runs]
    keys = dict.fromkeys(key for measures in by_run for key in measures)
    contends = [run.name != "none" for run in runs]
    alike = len({tuple(flow.label for flow in run.flows) for run in runs}) == 1
    return [_comparison_row([measures.get(key) for measures in by_run], contends, alike) for key in keys]


def measured(run: Run, key: str) -> float | int | None:
    """Return the value of a measure of the run.

    The result is ``None`` if the value is missing or not a number.
    """
    return next((m.value for m in run.measures if m.key == key and finite(m.value)), None)


def _comparison_row(measures: list[Measure | None], contends: list[bool], alike: bool) -> ComparisonRow:
    known = [measure for measure in measures if measure is not None]
    values = [measure.value for measure in known if finite(measure.value)]
    better = known[0].better if alike or known[0].unit != "index" else None
    of_contenders = [
        measure.value
        for measure, contending in zip(measures, contends, strict=True)
        if contending and measure is not None and finite(measure.value)
    ]
    best = ""
    if better and len(values) > 1 and of_contenders:
        ends = value_text(min(values), known[0].unit), value_text(max(values), known[0].unit)
        first = (max if better == "high" else min)(of_contenders)
        best = value_text(first, known[0].unit) if ends[0] != ends[1] else ""
    maximum = max(map(abs, values), default=0)
    cells = tuple(
        _comparison_cell(measure, best if contending else "", maximum)
        for measure, contending in zip(measures, contends, strict=True)
    )
    if 2 * sum(cell.best for cell in cells) > len(cells):
        cells = tuple(replace(cell, best=False) for cell in cells)
    return ComparisonRow(label=known[0].label, better=better or "", cells=cells)


def _comparison_cell(measure: Measure | None, best: str, maximum: float) -> ComparisonCell:
    if measure is None or not finite(measure.value):
        return ComparisonCell(text=ABSENT, best=False, part=0.0)
    text = value_text(measure.value, measure.unit)
    return ComparisonCell(text=text, best=text == best, part=abs(measure.value) / maximum if maximum else 0.0)
