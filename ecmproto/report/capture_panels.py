"""Panels of the statistics of a capture: what was in it, over time and in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.formats.text import cpid_text, mac_text
from ecmproto.report.panels import (
    BASE,
    Floats,
    TimeAxis,
    coarse_edges,
    coarse_means,
    coarse_peaks,
    highest,
    number_text,
    row_axis,
    row_reach,
    value_axis,
)
from ecmproto.report.run import Scale, rate_scale, time_scale, value_text
from ecmproto.report.sheet import ALERT, QUEUE, Entry, Format, fitting, line_style, shortened, width_em
from ecmproto.stats import Statistics
from ecmproto.units import NS_PER_S, format_rate, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = 16
_LABEL_SHARE = 0.36
_NARROW_LABEL_SHARE = 0.6
_TOTAL_PX = 74.0


class Panel:
    """A panel of the statistics, with or without a time axis; the base of every kind."""

    timed = True
    right_px = 12.0

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        self.statistics = statistics
        self.time = time
        self.form = form
        self.left_px = float(form.left_px)
        intervals = statistics.intervals
        # as floats: times that are wrong by centuries are more ns than 64 bits hold
        self._edges: NDArray[Any] = np.arange(intervals.count + 1) * float(intervals.width_ns)

    @property
    def shown(self) -> bool:
        """Whether there is anything to show."""
        raise NotImplementedError

    @property
    def unit(self) -> str:
        """The unit of the vertical axis, or nothing."""
        return ""

    @property
    def readout(self) -> str:
        """The figures that stand above the panel."""
        return ""

    @property
    def height_px(self) -> float:
        """How high the axes are."""
        return self.form.panel_px

    def entries(self) -> list[Entry]:
        """Return the legend."""
        return []

    def draw(self, axes: Axes) -> None:
        """Draw the panel."""
        raise NotImplementedError

    def _per_second(self, counts: Sequence[int], factor: int = 1) -> Floats:
        rates: Floats = np.array(counts, np.float64) * (
            factor * NS_PER_S / self.statistics.intervals.width_ns
        )
        return rates


class RatePanel(Panel):
    """The rate of all frames: the mean of each short span of time, and the peak in it."""

    @property
    def shown(self) -> bool:
        """Whether the capture has times."""
        return self.statistics.intervals.count > 1

    @property
    def unit(self) -> str:
        """The axis' prefixed unit."""
        return self._scale.unit

    @property
    def readout(self) -> str:
        """The mean and the peak."""
        mean = self.statistics.span.per_second(8 * self.statistics.octets)
        width = format_time(self.statistics.intervals.width_ns)
        peak = f"peak {format_rate(highest(self._rates))} in {width}"
        return peak if mean is None else f"mean {format_rate(mean)}, {peak}"

    @property
    def _rates(self) -> Floats:
        return self._per_second(self.statistics.octets_over_time, 8)

    @property
    def _scale(self) -> Scale:
        return rate_scale(highest(self._rates))

    def draw(self, axes: Axes) -> None:
        """Draw the panel."""
        factor = self._scale.factor
        value_axis(axes, 0, 1.06 * (highest(self._rates) or 1.0) / factor, self.form)
        edges = coarse_edges(self._edges, self.form.spans) / self.time.scale.factor
        peaks = coarse_peaks(self._rates, self.form.spans) / factor
        means = coarse_means(self._edges, self._rates, self.form.spans) / factor
        axes.stairs(peaks, edges, fill=True, color=QUEUE.light, alpha=0.25, linewidth=0)
        axes.stairs(means, edges, color=QUEUE.light, linewidth=1.3, baseline=None)


class PausePanel(Panel):
    """Who stopped which class: the share of each short span of time, a row for each."""

    right_px = _TOTAL_PX

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        senders = statistics.pauses.senders if statistics.pauses is not None else ()
        several = len({sender.interface for sender in senders}) > 1

        def where(interface: int) -> str:
            return f" on {shortened(statistics.interface_name(interface), 16)}" if several else ""

        rows = [
            (f"{address_text(sender.source)}{where(sender.interface)} {_whom(each.priority)}", each)
            for sender in senders
            for each in sender.classes
            if any(each.paused_ns_over_time)
        ]
        self._rows = sorted(rows, key=lambda row: -row[1].paused_ns)[:_ROWS]
        self._left_out = len(rows) - len(self._rows)
        share = _NARROW_LABEL_SHARE if form.narrow else _LABEL_SHARE
        self._room_px = share * form.width_px
        if form.narrow:
            self.right_px = Panel.right_px
        else:
            size = form.text_px - 1
            texts = [fitting(label, self._room_px, size) for label, _ in self._rows]
            widest = max((width_em(text) * size for text in texts), default=0.0)
            self.left_px = max(self.left_px, min(self._room_px, widest) + 12)

    @property
    def shown(self) -> bool:
        """Whether anybody was stopped."""
        return bool(self._rows)

    @property
    def readout(self) -> str:
        """How many rows are not drawn."""
        return f"{self._left_out} more not drawn" if self._left_out else ""

    @property
    def height_px(self) -> float:
        """How high the axes are."""
        return self.form.row_px * len(self._rows)

    def draw(self, axes: Axes) -> None:
        """Draw the panel."""
        size = self.form.text_px - 1
        shares = [self.statistics.share(each.paused_ns) or 0.0 for _, each in self._rows]
        labels = [
            (fitting(label, self._room_px, size), value_text(share, "share"))
            for (label, _), share in zip(self._rows, shares, strict=True)
        ]
        row_axis(axes, labels, self.form)
        edges = coarse_edges(self._edges, self.form.spans) / self.time.scale.factor
        for place, (_, each) in enumerate(self._rows):
            parts = np.array(each.paused_ns_over_time, np.float64) / self.statistics.intervals.width_ns
            heights = coarse_means(self._edges, parts, self.form.spans)
            base = place + BASE
            reach = row_reach(self.form)
            axes.stairs(
                base - reach * heights, edges, baseline=base, fill=True, color=ALERT.light, linewidth=0
            )


class HistogramPanel(Panel):
    """CNMs by their 6-bit quantized feedback."""

    timed = False

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        points = [point.fb_histogram for point in statistics.congestion_points if point.fb_histogram]
        self._counts = np.sum(np.array(points, np.int64), axis=0) if points else np.zeros(64, np.int64)

    @property
    def shown(self) -> bool:
        """Whether there are CNMs."""
        return bool(self._counts.any())

    @property
    def unit(self) -> str:
        """CNMs, which the panel counts."""
        return "CNMs"

    @property
    def readout(self) -> str:
        """How many there are."""
        return counted(int(self._counts.sum()), "CNM")

    def draw(self, axes: Axes) -> None:
        """Draw the panel."""
        value_axis(axes, 0, 1.06 * int(self._counts.max()), self.form, whole=True)
        axes.bar(np.arange(len(self._counts)), self._counts, width=0.8, color=QUEUE.light, linewidth=0)
        axes.set_xlim(-0.7, len(self._counts) - 0.3)
        axes.set_xticks([0, 8, 16, 24, 32, 40, 48, 56, 63])
        axes.tick_params(axis="x", length=3, width=0.8, labelsize=self.form.text_px - 1, pad=4)
        axes.xaxis.set_major_formatter(number_text)


def address_text(octets: bytes | None) -> str:
    """Return a MAC address, a question mark for none."""
    return "?" if octets is None else mac_text(octets)


def _whom(priority: int | None) -> str:
    return "link" if priority is None else f"priority {priority}"


PanelKind = Callable[[Statistics, TimeAxis, Format], Panel]


_LINES = 8
"""How many lines of one panel can be told apart."""
_COARSER = 3
"""How much fewer spans lines have than areas: rare frames make spikes of short ones."""
_DOTTED_BELOW = 40
"""Lines of fewer points than these get a dot at each."""
_MARKS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a panel: a value for each interval, NaN for none."""

    label: str
    values: Floats
    weight: float
    """The order of the lines: the greatest first."""


class LinePanel(Panel):
    """Several lines on one scale, the weightiest by themselves, the others joined."""

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        lines = sorted(self.lines(), key=lambda line: -line.weight)
        self._lines = lines[:_LINES]
        self._left_out = len(lines) - len(self._lines)
        self._spans = form.spans // _COARSER
        self._drawn = [coarse_means(self._edges, line.values, self._spans) for line in self._lines]
        self._top = max(map(highest, self._drawn), default=0.0) or 1.0

    def lines(self) -> list[Line]:
        """Return all lines."""
        raise NotImplementedError

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        raise NotImplementedError

    @property
    def shown(self) -> bool:
        """Whether there are lines."""
        return bool(self._lines) and self.statistics.intervals.count > 1

    @property
    def unit(self) -> str:
        """The axis' prefixed unit."""
        return self.scale(self._top).unit

    @property
    def readout(self) -> str:
        """How many lines are not drawn."""
        return f"{self._left_out} more not drawn" if self._left_out else ""

    @property
    def height_px(self) -> float:
        """How high the axes are."""
        return 1.15 * self.form.panel_px

    def entries(self) -> list[Entry]:
        """Return the legend of the lines."""
        from matplotlib.lines import Line2D

        return [
            Entry(handle=Line2D((), (), **_look(place)), text=line.label)
            for place, line in enumerate(self._lines)
        ]

    def draw(self, axes: Axes) -> None:
        """Draw the panel."""
        factor = self.scale(self._top).factor
        value_axis(axes, 0, 1.06 * self._top / factor, self.form)
        edges = coarse_edges(self._edges, self._spans) / self.time.scale.factor
        times = (edges[1:] + edges[:-1]) / 2
        for place, values in enumerate(self._drawn):
            there = ~np.isnan(values)
            count = int(there.sum())
            step = 1 if count < _DOTTED_BELOW else max(1, count // _MARKS)
            start = min(step * place // max(1, len(self._drawn)), max(0, count - 1))
            look = _look(place) | {"markevery": (start if step > 1 else 0, step)}
            axes.plot(times[there], values[there] / factor, **look)


class KindPanel(LinePanel):
    """Messages and flow control, frames a second of each kind."""

    def lines(self) -> list[Line]:
        """Return a line for each kind."""
        return [
            Line(label=each.kind.title, values=self._per_second(each.frames_over_time), weight=each.frames)
            for each in self.statistics.kinds
            if each.kind.group in ("message", "flow control") and "." not in each.kind.name
        ]

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        return _frame_scale(top)


class PointPanel(LinePanel):
    """CNMs a second of each congestion point."""

    def lines(self) -> list[Line]:
        """Return a line for each CPID."""
        return [
            Line(
                label=cpid_text(point.cpid),
                values=self._per_second(point.frames_over_time),
                weight=point.frames,
            )
            for point in self.statistics.congestion_points
            if point.kind == "cnm"
        ]

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        return _frame_scale(top)


class AdvertisedPanel(LinePanel):
    """Rates that RD tags, FECN returns and DBP reports carry, the mean of each short span of time."""

    def lines(self) -> list[Line]:
        """Return a line for each carrier and rate-limited queue."""
        return [
            Line(
                label=f"{_CARRIERS[rate.kind]} {address_text(rate.station)} RLQ {rate.rlq_id}",
                values=_means(rate.rate_sum_bps_over_time, rate.limited_over_time),
                weight=rate.frames,
            )
            for rate in self.statistics.rates
            if rate.rate_bps is not None and any(rate.limited_over_time)
        ]

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        return rate_scale(top)


class LatencyPanel(LinePanel):
    """The latency that replies to E²CM's probes state, the mean of each short span of time."""

    def lines(self) -> list[Line]:
        """Return the one line."""
        probes = self.statistics.probes
        if probes is None or not any(probes.replies_over_time):
            return []
        means = _means(probes.latency_sum_ns_over_time, probes.replies_over_time)
        return [Line(label="all flows", values=means, weight=probes.replies)]

    def entries(self) -> list[Entry]:
        """Return no legend for the one line."""
        return []

    @property
    def readout(self) -> str:
        """The percentiles."""
        probes = self.statistics.probes
        if probes is None or probes.latency_ns is None:
            return ""
        latency = probes.latency_ns
        values = (("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99), ("most", latency.maximum))
        return ", ".join(f"{name} {format_time(value)}" for name, value in values)

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        return time_scale(top)


_CARRIERS = {"rdtag": "RD tag from", "fecn": "FECN return to", "dbp": "DBP report to"}


def _look(place: int) -> dict[str, Any]:
    style = line_style(place)
    return {
        "color": style.colour.light, "marker": style.marker, "markersize": 5, "markeredgewidth": 0,
        "linewidth": 1.3,
    }  # fmt: skip


def _frame_scale(top: float) -> Scale:
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if top >= factor:
            return Scale(factor=factor, unit=f"{prefix}/s")
    return Scale(factor=1, unit="/s")


def _means(sums: Sequence[int], counts: Sequence[int]) -> Floats:
    """Return the mean of each interval, NaN where there was nothing."""
    number = np.array(counts, np.float64)
    means: Floats = np.full(len(number), np.nan)
    np.divide(np.array(sums, np.float64), number, out=means, where=number > 0)
    return means
