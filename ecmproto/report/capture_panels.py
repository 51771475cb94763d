"""Panels of the statistics of a capture: what was in it, over time and in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.formats.text import mac_text
from ecmproto.report.palette import ALERT, QUEUE
from ecmproto.report.panels import BASE, TimeAxis, number_text, row_axis, row_reach, value_axis
from ecmproto.report.printable import shortened, width_em
from ecmproto.report.reduction import Floats, coarse_edges, coarse_means, coarse_peaks, highest
from ecmproto.report.scale import Scale, rate_scale, value_text
from ecmproto.report.sheet import Entry, Format, fitting
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
        """What is counted."""
        return "CNMs"

    @property
    def readout(self) -> str:
        """How many there are."""
        return f"{value_text(int(self._counts.sum()), 'count')} CNMs"

    def draw(self, axes: Axes) -> None:
        """Draw the panel."""
        value_axis(axes, 0, 1.06 * int(self._counts.max()), self.form)
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
