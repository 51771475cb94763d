"""Panels of the statistics of a capture that are lines over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ecmproto.formats.text import cpid_text
from ecmproto.report.capture_panels import Panel, address_text
from ecmproto.report.palette import line_style
from ecmproto.report.panels import TimeAxis, value_axis
from ecmproto.report.reduction import Floats, coarse_edges, coarse_means, highest
from ecmproto.report.scale import Scale, rate_scale, time_scale
from ecmproto.report.sheet import Entry, Format
from ecmproto.stats import Statistics
from ecmproto.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """What the lines are ordered by."""


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
        """Return what the lines mean."""
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
    """What replies to E²CM's probes say of latency, the mean of each short span of time."""

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
