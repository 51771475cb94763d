"""Data of a report: runs as plain values and arrays, and the comparison of their measures.

Times are ns from the first arrival of the replay. Curves are given in slots, already reduced to a page's
resolution: a few hundred to a few thousand slots per run, independent of the capture's size. All data may be
empty: a capture without frames makes a report as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ecmproto.units import NS_PER_S, format_index, format_octets, format_rate, format_share, format_time

Unit = Literal["octets", "frames", "bit/s", "ns", "share", "index", "count"]
"""Unit of a measure; "share" is a part of 1, "index" a number without a unit such as Jain's index."""

FLOWS_SHOWN = 16
"""Maximum number of distinguishable flows per run; of more there are `quantiles`."""
_QUANTILES = {
    "maximum": 1.0, "90th percentile": 0.9, "median": 0.5, "10th percentile": 0.1, "minimum": 0.0,
}  # fmt: skip


def _floats() -> NDArray[np.float64]:
    return np.empty(0, dtype=np.float64)


def _integers() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Figure of the table that compares runs; runs are matched by ``key``.

    ``better`` is the better end, None if neither is. The opening sentences of a report use the keys in
    ``words.summary``; other keys are in the table only.
    """

    key: str
    label: str
    value: float | int
    unit: Unit
    better: Literal["low", "high"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueueCurve:
    """Queue length over time, in n slots: slot i lasts from ``edges_ns[i]`` to ``edges_ns[i + 1]``.

    ``edges_ns`` has n + 1 entries (none for n = 0), the others n.
    """

    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    mean_octets: NDArray[np.float64] = field(default_factory=_floats)
    peak_octets: NDArray[np.float64] = field(default_factory=_floats)

    def __post_init__(self) -> None:
        _check_slots(self.edges_ns, self.mean_octets, self.peak_octets)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowCurves:
    """Rates of one flow over time, means over slots as in :class:`QueueCurve`.

    ``limit_bps`` is the reaction point's current limit, NaN in slots without a limiter; None if the mechanism
    has no limiters, as in an open loop.
    """

    label: str
    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    sent_bps: NDArray[np.float64] = field(default_factory=_floats)
    """Rate that the flow sent towards the congestion point."""
    delivered_bps: NDArray[np.float64] = field(default_factory=_floats)
    """Rate of the flow's frames after the congestion point's port."""
    limit_bps: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        limit = (self.limit_bps,) if self.limit_bps is not None else ()
        _check_slots(self.edges_ns, self.sent_bps, self.delivered_bps, *limit)


def quantiles(flows: Sequence[FlowCurves]) -> tuple[FlowCurves, ...]:
    """Return the curves of flows with common slots; of more than FLOWS_SHOWN the quantiles of their rates."""
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
class Feedback:
    """Feedback that the congestion point computed, one entry per sample, in arrays of equal length."""

    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    value: NDArray[np.float64] = field(default_factory=_floats)
    priority: NDArray[np.int64] = field(default_factory=_integers)
    """Priority 0 to 7; −1 for a congestion point that serves all priorities together."""

    def __post_init__(self) -> None:
        _check_lengths(self.time_ns, self.value, self.priority)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Messages:
    """Messages to flows: message i went to ``labels[row[i]]`` at ``time_ns[i]``.

    ``strength``, if given, is a share of the strongest feedback possible: 0 for none (or for positive
    feedback), 1 for the strongest.
    """

    labels: tuple[str, ...] = ()
    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    row: NDArray[np.int64] = field(default_factory=_integers)
    strength: NDArray[np.float64] | None = None
    totals: tuple[int, ...] | None = None
    """Number of messages per label, if the arrays contain only a part of them."""

    def __post_init__(self) -> None:
        if self.totals is not None and len(self.totals) != len(self.labels):
            raise ValueError(f"totals of messages: expected {len(self.labels)}, got {len(self.totals)}")
        _check_lengths(self.time_ns, self.row, *((self.strength,) if self.strength is not None else ()))
        if self.row.size and not (self.row.min() >= 0 and self.row.max() < len(self.labels)):
            raise ValueError(f"rows of messages: expected 0 to {len(self.labels) - 1}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drops:
    """Dropped frames over time: one entry per drop, or sums over bins of time."""

    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    count: NDArray[np.int64] = field(default_factory=_integers)

    def __post_init__(self) -> None:
        _check_lengths(self.time_ns, self.count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PauseCurve:
    """Share of each slot (as in :class:`QueueCurve`) in which PAUSE or PFC stopped ``label``."""

    label: str
    """Name of the paused traffic, as in "priority 3"."""
    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    stopped_ns: NDArray[np.float64] = field(default_factory=_floats)

    def __post_init__(self) -> None:
        _check_slots(self.edges_ns, self.stopped_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TheoryCurve:
    """Prediction of a model for a run, drawn over its queue or its flows' rates: a value for each time."""

    label: str
    of: Literal["queue", "rate"]
    time_ns: NDArray[np.float64]
    value: NDArray[np.float64]
    """Values in octets or bit/s."""

    def __post_init__(self) -> None:
        _check_lengths(self.time_ns, self.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseCurve:
    """Path of a queue and its sent rate against each other, in order of time."""

    offset_octets: NDArray[np.float64] = field(default_factory=_floats)
    """Queue minus its set point."""
    rate_bps: NDArray[np.float64] = field(default_factory=_floats)

    def __post_init__(self) -> None:
        _check_lengths(self.offset_octets, self.rate_bps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One replay of the capture through one mechanism. Raises ValueError for arrays of unequal length."""

    name: str
    """Name of the mechanism as on a command line: "qcn", "qcn over pfc"."""
    title: str
    """Title for readers: "QCN, closed loop"."""
    duration_ns: int
    """Time from the first arrival to the end of the run: the length of the time axis."""
    measured_ns: tuple[int, int] | None = None
    """Start and end of the time that figures are about, shaded in pictures; None for all of it."""
    variant: str = ""
    """Name among runs of the same mechanism, "qcn:w=4"; empty for the mechanism's name."""
    facts: tuple[tuple[str, str], ...] = ()
    """Facts as (label, text): port rate, seed, loop, feedback delay and others."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """Parameters as (name, value as text, meaning)."""
    measures: tuple[Measure, ...] = ()
    measured: str = ""
    """The part of the run that the measures are about, in words; "" for all of it."""
    queue: QueueCurve = field(default_factory=QueueCurve)
    buffer_octets: int | None = None
    set_point_octets: int | None = None
    feedback: Feedback = field(default_factory=Feedback)
    feedback_label: str = "feedback"
    """Name of the feedback, with its unit in parentheses: "Fb (octets)", "advertised rate (bit/s)"."""
    flows: tuple[FlowCurves, ...] = ()
    """Flows, at most FLOWS_SHOWN, or the quantiles of more."""
    messages: Messages = field(default_factory=Messages)
    pauses: tuple[PauseCurve, ...] = ()
    drops: Drops = field(default_factory=Drops)
    theory: tuple[TheoryCurve, ...] = ()
    phase: PhaseCurve = field(default_factory=PhaseCurve)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """Table of texts; the first column names its rows."""

    heading: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """One capture replayed once or several times; runs are shown in their order."""

    title: str
    capture: str
    """Name of the capture as the user gave it."""
    runs: tuple[Run, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about the whole report: omissions, warnings, the command line."""
    tables: tuple[ReportTable, ...] = ()
    """Tables after the results: figures beside published ones."""
    kicker: str = "replay of a capture through congestion management"
    """Kind of the report, above its title."""
    lead: str = ""
    """Opening sentence; empty for one about the frames of a capture."""


def _check_slots(edges_ns: NDArray[np.int64], *curves: NDArray[Any]) -> None:
    needed = max(0, len(edges_ns) - 1)
    if any(len(curve) != needed for curve in curves):
        raise ValueError(f"curves: expected one value per slot, {needed}, got {[len(c) for c in curves]}")


def _check_lengths(*columns: NDArray[Any]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"columns: expected one length, got {[len(column) for column in columns]}")


ABSENT = "–"
"""Text for a value that is not a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Scale of an axis: values divided by ``factor`` are in ``unit``."""

    factor: float
    unit: str


def octet_scale(greatest: float) -> Scale:
    """Return the most readable scale for octets up to ``greatest``."""
    return _prefixed(greatest, "B")


def rate_scale(greatest: float) -> Scale:
    """Return the most readable scale for bit/s up to ``greatest``."""
    return _prefixed(greatest, "b/s")


def frame_scale(greatest: float) -> Scale:
    """Return the most readable scale for frames per second up to ``greatest``."""
    return _prefixed(greatest, "/s", _PREFIXES[1:])


def time_scale(span_ns: float) -> Scale:
    """Return the most readable scale for a time axis of ``span_ns``."""
    for least_ns, unit, factor in _TIME_UNITS:
        if span_ns >= least_ns:
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
"""Minimum span for a unit, and the unit's length, both in ns: numbers at an axis have few digits."""


def labelled_scale(label: str, greatest: float) -> tuple[str, Scale]:
    """Split ``label`` ("Fb (octets)") into its name and the scale for values up to ``greatest``."""
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


def measure_text(measure: Measure) -> str:
    """Return a measure's value with its unit for readers; ``ABSENT`` if it is not a number."""
    return value_text(measure.value, measure.unit)


def value_text(value: float, unit: Unit) -> str:
    """Return ``value`` with its unit for readers; ``ABSENT`` if it is not a number."""
    return _TEXTS[unit](value) if finite(value) else ABSENT


def finite(value: float) -> bool:
    """Return whether ``value`` is a finite number."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def greatest(values: Iterable[float]) -> float:
    """Return the maximum of the finite ``values``, at least 0."""
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
    """Value as text; whether it is the best of its row; its share of the row's maximum, 0 to 1.

    Equal texts are best together, unless they are more than half of the row: then no run is marked.
    """

    text: str
    best: bool
    part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One measure of every run; ``better`` as in Measure."""

    label: str
    better: str
    cells: tuple[ComparisonCell, ...]


def comparison(runs: Sequence[Run]) -> list[ComparisonRow]:
    """Return a row per measure, in the order in which the runs name them.

    The best values of a row are marked if another run is worse; a value that is not a number is never best.
    A run without control controls nothing well, and indices of fairness of other flows do not compare.
    """
    by_run = [{measure.key: measure for measure in run.measures} for run in runs]
    keys = dict.fromkeys(key for measures in by_run for key in measures)
    contends = [run.name != "none" for run in runs]
    alike = len({tuple(flow.label for flow in run.flows) for run in runs}) == 1
    return [_comparison_row([measures.get(key) for measures in by_run], contends, alike) for key in keys]


def measured(run: Run, key: str) -> float | int | None:
    """Return the value of the run's measure ``key``; None if it is missing or not a number."""
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
    text = measure_text(measure)
    return ComparisonCell(text=text, best=text == best, part=abs(measure.value) / maximum if maximum else 0.0)
