"""Panels of the statistics of a capture: what was in it, over time and in all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.formats.text import cpid_text, mac_text
from ecmproto.report.panels import (
    Floats,
    Panels,
    Row,
    RowPanels,
    TimeAxis,
    coarse_edges,
    coarse_means,
    coarse_peaks,
    draw_area,
    highest,
    number_text,
    value_axis,
)
from ecmproto.report.run import Scale, rate_scale, time_scale, value_text
from ecmproto.report.sheet import ALERT, QUEUE, Format, LegendEntry, line_style, shortened
from ecmproto.stats import Statistics
from ecmproto.stats.statistics import kind_of
from ecmproto.units import NS_PER_S, format_rate, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = 16


class Panel(Panels[Statistics]):
    """A panel of the statistics; the base of those that are no rows."""

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__([statistics], time, form)
        self.statistics = statistics
        self._edges = _edges_ns(statistics)

    def _per_second(self, counts: Sequence[int], factor: int = 1) -> Floats:
        rates: Floats = np.array(counts, np.float64) * (
            factor * NS_PER_S / self.statistics.intervals.width_ns
        )
        return rates


def _edges_ns(statistics: Statistics) -> NDArray[Any]:
    """Return the edges of the intervals from the first one's start on."""
    intervals = statistics.intervals
    # as floats: times that are wrong by centuries are more ns than 64 bits hold
    return np.arange(intervals.count + 1) * float(intervals.width_ns)


class RatePanel(Panel):
    """The rate of all frames: the mean of each short span of time, and the peak in it."""

    @property
    def shown(self) -> bool:
        """Whether the capture has times."""
        return self.statistics.intervals.count > 1

    def unit(self, run: Statistics) -> str:
        """The axis' prefixed unit."""
        return self._scale.unit

    def readout(self, run: Statistics) -> str:
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

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        factor = self._scale.factor
        value_axis(axes, 0, 1.06 * (highest(self._rates) or 1.0) / factor, self.form)
        edges = coarse_edges(self._edges, self.form.bins) / self.time.scale.factor
        peaks = coarse_peaks(self._rates, self.form.bins) / factor
        means = coarse_means(self._edges, self._rates, self.form.bins) / factor
        axes.stairs(peaks, edges, fill=True, color=QUEUE.light, alpha=0.25, linewidth=0)
        axes.stairs(means, edges, color=QUEUE.light, linewidth=1.3, baseline=None)


class PausePanel(RowPanels[Statistics]):
    """Who stopped which class: the share of each short span of time, a row for each."""

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        self._edges = _edges_ns(statistics)
        self._left_out = 0
        super().__init__([statistics], time, form)

    def rows_of(self, run: Statistics) -> list[Row]:
        """Return the rows of those who stopped somebody for longest."""
        senders = run.pauses.senders if run.pauses is not None else ()
        several = len({sender.interface for sender in senders}) > 1

        def where(interface: int) -> str:
            return f" on {shortened(run.interface_name(interface), 16)}" if several else ""

        stopped = [
            (f"{address_text(sender.source)}{where(sender.interface)} {_whom(each.priority)}", each)
            for sender in senders
            for each in sender.classes
            if any(each.paused_ns_over_time)
        ]
        self._left_out = max(0, len(stopped) - _ROWS)
        longest = sorted(stopped, key=lambda row: -row[1].paused_ns)[:_ROWS]
        return [
            Row(
                label=label,
                total=value_text(run.share(each.paused_ns) or 0.0, "share"),
                heights=self._heights(each.paused_ns_over_time, run.intervals.width_ns),
                colour=ALERT,
            )
            for label, each in longest
        ]

    def _heights(self, paused_ns: Sequence[int], width_ns: int) -> Floats:
        return coarse_means(self._edges, np.array(paused_ns, np.float64) / width_ns, self.form.bins)

    def readout(self, run: Statistics) -> str:
        """Return how many rows are not drawn."""
        return f"{self._left_out} more not drawn" if self._left_out else ""

    def draw_row(self, axes: Axes, place: int, row: Row) -> None:
        """Draw one row."""
        edges = coarse_edges(self._edges, self.form.bins) / self.time.scale.factor
        draw_area(axes, place, row, edges, self.form)


class HistogramPanel(Panel):
    """CNMs by their 6-bit quantized feedback."""

    timed = False
    axis_label = "quantized feedback"

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        points = [point.fb_histogram for point in statistics.congestion_points if point.fb_histogram]
        self._counts = np.sum(np.array(points, np.int64), axis=0) if points else np.zeros(64, np.int64)

    @property
    def shown(self) -> bool:
        """Whether there are CNMs."""
        return bool(self._counts.any())

    def unit(self, run: Statistics) -> str:
        """CNMs, which the panel counts."""
        return "CNMs"

    def readout(self, run: Statistics) -> str:
        """How many there are."""
        return counted(int(self._counts.sum()), "CNM")

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        value_axis(axes, 0, 1.06 * int(self._counts.max()), self.form, whole=True)
        axes.bar(np.arange(len(self._counts)), self._counts, width=0.8, color=QUEUE.light, linewidth=0)
        axes.set_xlim(-0.7, len(self._counts) - 0.3)
        axes.set_xticks([0, 8, 16, 24, 32, 40, 48, 56, 63])
        axes.tick_params(axis="x", length=3, width=0.8, labelsize=self.form.text_px - 1, pad=4)
        axes.xaxis.set_major_formatter(number_text)


class DelayPanel(Panel):
    """CNPs by the time since the first CE-marked frame that they are for, on a scale of doublings."""

    timed = False
    axis_label = "from the first CE-marked frame to the CNP"

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        found = statistics.roce
        self._bars = found.delay_quarters if found is not None else ()

    @property
    def shown(self) -> bool:
        """Whether there are CNPs with a delay."""
        return bool(self._bars)

    def unit(self, run: Statistics) -> str:
        """CNPs, which the panel counts."""
        return "CNPs"

    def readout(self, run: Statistics) -> str:
        """The percentiles."""
        delay = run.roce.delay_ns if run.roce is not None else None
        if delay is None:
            return ""
        values = [("p50", delay.p50), ("p90", delay.p90), ("p99", delay.p99), ("most", delay.maximum)]
        shown = values if self._is_wide else values[0::2]
        return ", ".join(f"{name} {format_time(value)}" for name, value in shown)

    @property
    def _is_wide(self) -> bool:
        return self.form.width_px > _NARROW_PX

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        value_axis(axes, 0, 1.06 * max(count for _, _, count in self._bars), self.form, whole=True)
        lows = np.log2([max(0.5, low) for low, _, _ in self._bars])
        widths = np.log2([float(high) for _, high, _ in self._bars]) - lows
        counts = [count for _, _, count in self._bars]
        axes.bar(lows, counts, width=0.92 * widths, align="edge", color=QUEUE.light, linewidth=0)
        first, last = float(lows[0]) - 0.2, float(lows[-1] + widths[-1]) + 0.2
        axes.set_xlim(first, last)
        step = max(1, round((last - first) / (_TIMES_WIDE if self._is_wide else _TIMES_NARROW)))
        ticks = [*range(math.ceil(first), math.floor(last) + 1, step)]
        axes.set_xticks(ticks, [format_time(2**tick) if tick >= 0 else "0" for tick in ticks])
        axes.tick_params(axis="x", length=3, width=0.8, labelsize=self.form.text_px - 1, pad=4)


_TIMES_WIDE, _TIMES_NARROW, _NARROW_PX = 7, 3, 600
"""How many times stand below a histogram of delays, and the width from which on it has room for more."""


def address_text(octets: bytes | None) -> str:
    """Return a MAC address, a question mark for none."""
    return "?" if octets is None else mac_text(octets)


def _whom(priority: int | None) -> str:
    return "link" if priority is None else f"priority {priority}"


PanelKind = Callable[[Statistics, TimeAxis, Format], Panels[Statistics]]


_LINES = 8
"""How many lines of one panel can be told apart."""
_COARSER = 3
"""By how much lines have fewer bins than areas: rare frames make spikes of short ones."""
_DOTTED_BELOW = 40
"""Lines of fewer points than these get a dot at each."""
_MARKS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelLine:
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
        self._bins = form.bins // _COARSER
        self._drawn = [coarse_means(self._edges, line.values, self._bins) for line in self._lines]
        self._top = max(map(highest, self._drawn), default=0.0) or 1.0

    def lines(self) -> list[PanelLine]:
        """Return all lines."""
        raise NotImplementedError

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        raise NotImplementedError

    @property
    def shown(self) -> bool:
        """Whether there are lines."""
        return bool(self._lines) and self.statistics.intervals.count > 1

    def unit(self, run: Statistics) -> str:
        """The axis' prefixed unit."""
        return self.scale(self._top).unit

    def readout(self, run: Statistics) -> str:
        """How many lines are not drawn."""
        return f"{self._left_out} more not drawn" if self._left_out else ""

    def height_px(self, run: Statistics) -> float:
        """How high the axes are."""
        return 1.15 * self.form.panel_px

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        from matplotlib.lines import Line2D

        return [
            LegendEntry(handle=Line2D((), (), **_look(place)), text=line.label)
            for place, line in enumerate(self._lines)
        ]

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        factor = self.scale(self._top).factor
        value_axis(axes, 0, 1.06 * self._top / factor, self.form)
        edges = coarse_edges(self._edges, self._bins) / self.time.scale.factor
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

    def lines(self) -> list[PanelLine]:
        """Return a line for each kind."""
        return [
            PanelLine(
                label=each.kind.title, values=self._per_second(each.frames_over_time), weight=each.frames
            )
            for each in self.statistics.kinds
            if each.kind.group in ("message", "flow control") and "." not in each.kind.name
        ]

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        return _frame_scale(top)


class MarkPanel(LinePanel):
    """The part of RoCE frames that were marked on the way."""

    def lines(self) -> list[PanelLine]:
        """Return the one line."""
        found = self.statistics.roce
        if found is None or not any(found.ce_over_time):
            return []
        marked = _means(found.ce_over_time, found.frames_over_time)
        return [PanelLine(label="CE", values=marked, weight=1)]

    def entries(self) -> list[LegendEntry]:
        """Return no legend for the one line."""
        return []

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        return Scale(factor=0.01, unit="%")


class CnpPanel(LinePanel):
    """CNPs a second."""

    def lines(self) -> list[PanelLine]:
        """Return the one line."""
        found = self.statistics.roce
        if found is None or not any(found.cnps_over_time):
            return []
        return [PanelLine(label="CNP", values=self._per_second(found.cnps_over_time), weight=1)]

    def entries(self) -> list[LegendEntry]:
        """Return no legend for the one line."""
        return []

    def scale(self, top: float) -> Scale:
        """Return the scale of the vertical axis."""
        return _frame_scale(top)


class PointPanel(LinePanel):
    """CNMs a second of each congestion point."""

    def lines(self) -> list[PanelLine]:
        """Return a line for each CPID."""
        return [
            PanelLine(
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

    def lines(self) -> list[PanelLine]:
        """Return a line for each carrier and rate-limited queue."""
        return [
            PanelLine(
                label=f"{_carrier(rate.kind)} {address_text(rate.station)} RLQ {rate.rlq_id}",
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

    def lines(self) -> list[PanelLine]:
        """Return the one line."""
        probes = self.statistics.probes
        if probes is None or not any(probes.replies_over_time):
            return []
        means = _means(probes.latency_sum_ns_over_time, probes.replies_over_time)
        return [PanelLine(label="all flows", values=means, weight=probes.replies)]

    def entries(self) -> list[LegendEntry]:
        """Return no legend for the one line."""
        return []

    def readout(self, run: Statistics) -> str:
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


def _carrier(layer: str) -> str:
    kind = kind_of(layer)
    return f"{kind.title} {'from' if kind.group == 'tag' else 'to'}"


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
