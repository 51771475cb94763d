"""Panels of capture statistics, over time and in total."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.frames.stats import Statistics
from ecmproto.frames.stats.statistics import kind_of, means
from ecmproto.tools.report.panels import (
    Floats,
    PanelKind,
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
from ecmproto.tools.report.run import Scale, frame_scale, rate_scale, time_scale, value_text
from ecmproto.tools.report.sheet import (
    ALERT,
    QUEUE,
    Format,
    LegendEntry,
    line_entry,
    line_look,
    line_style,
    shortened,
)
from ecmproto.units import NS_PER_S, format_rate, format_time
from ecmproto.wire.formats.text import cpid_text, mac_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Name = Literal[
    "rate", "pauses", "marks", "cnps", "delay", "kinds", "points", "feedback", "advertised", "latency"
]

_ROWS = 16


class Panel(Panels[Statistics]):
    """The base class for panels of statistics without rows."""

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__([statistics], time, form)
        self.statistics = statistics
        self._edges = _edges_ns(statistics)


def _per_second(statistics: Statistics, counts: Sequence[int], factor: int = 1) -> Floats:
    rates: Floats = np.array(counts, np.float64) * (factor * NS_PER_S / statistics.intervals.width_ns)
    return rates


def _edges_ns(statistics: Statistics) -> NDArray[Any]:
    """Return the edges of the intervals, in ns since the start of the first interval."""
    intervals = statistics.intervals
    # floats, because invalid times may exceed 64 bits in ns
    return np.arange(intervals.count + 1) * float(intervals.width_ns)


class RatePanel(Panel):
    """The mean rate and the peak rate of all frames in each interval."""

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        self._rates = _per_second(statistics, statistics.octets_over_time, 8)
        self.scale: Scale = rate_scale(highest(self._rates))

    @property
    def shown(self) -> bool:
        """Whether the capture has times."""
        return self.statistics.intervals.count > 1

    def readout(self, run: Statistics) -> str:
        """Return the mean rate and the peak rate as text."""
        mean = run.bits_per_s(run)
        width = format_time(run.intervals.width_ns)
        peak = f"peak {format_rate(highest(self._rates))} in {width}"
        return peak if mean is None else f"mean {format_rate(mean)}, {peak}"

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        factor = self.scale.factor
        value_axis(axes, 0, 1.06 * (highest(self._rates) or 1.0) / factor, self.form)
        edges = coarse_edges(self._edges, self.form.bins) / self.time.scale.factor
        peaks = coarse_peaks(self._rates, self.form.bins) / factor
        drawn = coarse_means(self._edges, self._rates, self.form.bins) / factor
        axes.stairs(peaks, edges, fill=True, color=QUEUE.light, alpha=0.25, linewidth=0)
        axes.stairs(drawn, edges, color=QUEUE.light, linewidth=1.3, baseline=None)


class PausePanel(RowPanels[Statistics]):
    """The paused share of each interval, with a row for each sender and priority."""

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        self._edges = _edges_ns(statistics)
        self._left_out = 0
        super().__init__([statistics], time, form)

    def rows_of(self, run: Statistics) -> list[Row]:
        """Return the rows with the longest pause times."""
        senders = run.pauses.senders if run.pauses is not None else ()
        several = len({sender.interface for sender in senders}) > 1

        def suffix(interface: int) -> str:
            return f" on {shortened(run.interface_name(interface), 16)}" if several else ""

        stopped = [
            (f"{address_text(sender.source)}{suffix(sender.interface)} {_class_text(each.priority)}", each)
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
                heights=coarse_means(
                    self._edges, np.array(each.paused_ns_over_time) / run.intervals.width_ns, self.form.bins
                ),
                colour=ALERT,
            )
            for label, each in longest
        ]

    def readout(self, run: Statistics) -> str:
        """Return the number of rows that are not drawn, as text."""
        return f"{self._left_out} more not drawn" if self._left_out else ""

    def draw_row(self, axes: Axes, index: int, row: Row) -> None:
        """Draw a row."""
        edges = coarse_edges(self._edges, self.form.bins) / self.time.scale.factor
        draw_area(axes, index, row, edges, self.form)


class BarPanel(Panel):
    """The base class for bar charts of counts over a quantity other than time."""

    noun: str
    counts: Sequence[int] = ()

    @property
    def shown(self) -> bool:
        """Whether there are counts."""
        return any(self.counts)

    def unit(self, run: Statistics) -> str:
        """Return the name of the counted objects."""
        return self.noun

    def draw_bars(self, axes: Axes, lows: NDArray[Any], widths: NDArray[Any] | float) -> None:
        """Draw the bars. ``lows`` are the left edges of the bars."""
        value_axis(axes, 0, 1.06 * max(self.counts), self.form, whole=True)
        axes.bar(lows, self.counts, width=widths, align="edge", color=QUEUE.light, linewidth=0)
        axes.tick_params(axis="x", length=3, width=0.8)


class HistogramPanel(BarPanel):
    """A histogram of CNMs by 6-bit quantized feedback."""

    noun = "CNMs"
    axis_label = "quantized feedback"

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        points = [point.fb_histogram for point in statistics.congestion_points if point.fb_histogram]
        self.counts: Sequence[int] = [sum(counts) for counts in zip(*points, strict=True)]

    def readout(self, run: Statistics) -> str:
        """Return the number of CNMs."""
        return counted(sum(self.counts), "CNM")

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        self.draw_bars(axes, np.arange(len(self.counts)) - 0.4, 0.8)
        axes.set_xlim(-0.7, len(self.counts) - 0.3)
        axes.set_xticks([0, 8, 16, 24, 32, 40, 48, 56, 63])
        axes.xaxis.set_major_formatter(number_text)


class DelayPanel(BarPanel):
    """A histogram of CNPs by the delay since the first unanswered CE mark, on a scale of powers of 2."""

    noun = "CNPs"
    axis_label = "from the first CE-marked frame to the CNP"

    def __init__(self, statistics: Statistics, time: TimeAxis, form: Format) -> None:
        super().__init__(statistics, time, form)
        self._quarters = statistics.roce.delay_quarters if statistics.roce is not None else ()
        self.counts: Sequence[int] = [count for _, _, count in self._quarters]
        self._is_wide = form.width_px > _NARROW_PX

    def readout(self, run: Statistics) -> str:
        """Return the percentiles as text."""
        delay = run.roce.delay_ns if run.roce is not None else None
        return "" if delay is None else delay.as_times("p50 p90 p99 max" if self._is_wide else "p50 p99")

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        lows = np.log2([max(0.5, low) for low, _, _ in self._quarters])
        widths = np.log2([float(high) for _, high, _ in self._quarters]) - lows
        self.draw_bars(axes, lows, 0.92 * widths)
        first, last = float(lows[0]) - 0.2, float(lows[-1] + widths[-1]) + 0.2
        axes.set_xlim(first, last)
        limit = _TIMES_WIDE if self._is_wide else _TIMES_NARROW
        times = _round_times(2**first, 2**last, limit) or [round(2 ** ((first + last) / 2))]
        axes.set_xticks(np.log2(times), map(format_time, times))


_TIMES_WIDE, _TIMES_NARROW, _NARROW_PX = 9, 5, 600
"""Maximum number of times below a wide and a narrow histogram, and the minimum width of a wide histogram."""


def _round_times(low: float, high: float, limit: int) -> list[int]:
    """Return at most ``limit`` round times in ns from ``low`` to ``high``.

    The times are 1, 2 and 5 of each decade, or only 1 of each decade, or 1 of every few decades.
    """
    powers = range(math.floor(math.log10(max(1.0, low))), math.ceil(math.log10(max(1.0, high))) + 1)
    for digits in ((1, 2, 5), (1,)):
        times = [
            digit * 10**power for power in powers for digit in digits if low <= digit * 10**power <= high
        ]
        if len(times) <= limit:
            return times
    return times[:: -(-len(times) // limit)]


def address_text(octets: bytes | None) -> str:
    """Return a MAC address as text, or "?" for ``None``."""
    return "?" if octets is None else mac_text(octets)


def _class_text(priority: int | None) -> str:
    return "link" if priority is None else f"priority {priority}"


_LINES = 8
"""The maximum number of lines in a panel. More lines could not be distinguished."""
_COARSER = 3
"""The ratio of the bin width of lines to the bin width of areas. Wide bins avoid spikes from rare frames."""
_DOTTED_BELOW = 40
"""The minimum number of points for a line without dots."""
_MARKS = 7


PanelLine: TypeAlias = tuple[str, Sequence[float | None] | Floats, float]
"""A line of a panel: label, value for each interval, and weight. The greatest weight is first."""


class LinePanel(Panel):
    """Several lines on a common scale, which fits the highest value. The legend is optional."""

    height: float = 1.15

    def __init__(
        self,
        statistics: Statistics,
        time: TimeAxis,
        form: Format,
        *,
        lines_of: Callable[[Statistics], Iterable[PanelLine]],
        scale: Callable[[float], Scale],
        alone: bool = False,
        readout: Callable[[Statistics], str] = lambda statistics: "",
    ) -> None:
        super().__init__(statistics, time, form)
        self._alone, self._readout = alone, readout
        lines = sorted(lines_of(statistics), key=lambda line: -line[2])
        self._labels = [label for label, _, _ in lines[:_LINES]]
        self._left_out = len(lines) - len(self._labels)
        self._bins = form.bins // _COARSER
        self._drawn = [
            coarse_means(self._edges, np.array(values, np.float64), self._bins)
            for _, values, _ in lines[:_LINES]
        ]
        self._top = max(map(highest, self._drawn), default=0.0) or 1.0
        self.scale: Scale = scale(self._top)

    @property
    def shown(self) -> bool:
        """Whether there are lines."""
        return bool(self._labels) and self.statistics.intervals.count > 1

    def readout(self, run: Statistics) -> str:
        """Return the number of omitted lines, or the figures of the panel if no line is omitted."""
        return f"{self._left_out} more not drawn" if self._left_out else self._readout(run)

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        labels = [] if self._alone else self._labels
        return [line_entry(label, _look(index)) for index, label in enumerate(labels)]

    def draw(self, axes: Axes, run: Statistics) -> None:
        """Draw the panel."""
        factor = self.scale.factor
        value_axis(axes, 0, 1.06 * self._top / factor, self.form)
        edges = coarse_edges(self._edges, self._bins) / self.time.scale.factor
        times = (edges[1:] + edges[:-1]) / 2
        for index, values in enumerate(self._drawn):
            known = ~np.isnan(values)
            count = int(known.sum())
            step = 1 if count < _DOTTED_BELOW else max(1, count // _MARKS)
            start = min(step * index // max(1, len(self._drawn)), max(0, count - 1))
            look = _look(index) | {"markevery": (start if step > 1 else 0, step), "drawstyle": "steps-mid"}
            axes.plot(times[known], values[known] / factor, **look)


def _frame_types(statistics: Statistics) -> Iterator[PanelLine]:
    for each in statistics.kinds:
        # CNPs have a panel of their own
        name = each.kind.name
        if each.kind.group in ("message", "flow control") and "." not in name and name != "cnp":
            yield each.kind.title, _per_second(statistics, each.frames_over_time), each.frames


def _marks(statistics: Statistics) -> Iterator[PanelLine]:
    roce = statistics.roce
    if roce is not None and any(roce.ce_over_time):
        yield "CE", means(roce.ce_over_time, roce.frames_over_time), 1


def _cnps(statistics: Statistics) -> Iterator[PanelLine]:
    if statistics.roce is not None and any(statistics.roce.cnps_over_time):
        yield "CNP", _per_second(statistics, statistics.roce.cnps_over_time), 1


def _points(statistics: Statistics) -> Iterator[PanelLine]:
    for point in statistics.congestion_points:
        if point.kind == "cnm":
            yield cpid_text(point.cpid), _per_second(statistics, point.frames_over_time), point.frames


def _advertised(statistics: Statistics) -> Iterator[PanelLine]:
    for rate in statistics.rates:
        if any(rate.limited_over_time):
            label = f"{_carrier(rate.kind)} {address_text(rate.station)} RLQ {rate.rlq_id}"
            yield label, rate.rate_mean_bps_over_time, rate.frames


def _latency(statistics: Statistics) -> Iterator[PanelLine]:
    if statistics.probes is not None and any(statistics.probes.replies_over_time):
        yield "all flows", statistics.probes.latency_mean_ns_over_time, 1


def _latency_readout(statistics: Statistics) -> str:
    latency = statistics.probes.latency_ns if statistics.probes is not None else None
    return "" if latency is None else latency.as_times("p50 p90 p99 max")


def _carrier(layer: str) -> str:
    kind = kind_of(layer)
    return f"{kind.title} {'from' if kind.group == 'tag' else 'to'}"


def _look(index: int) -> dict[str, Any]:
    return line_look(line_style(index), 1.3)


_PERCENT = Scale(factor=0.01, unit="%")

PANELS: Mapping[Name, PanelKind] = {
    "rate": PanelKind(
        "Rate of all frames", RatePanel,
        ("Octets of frames on the wire, times eight. The line is the mean of each short interval, and the "
         "shaded area extends to its peak."),
    ),
    "pauses": PanelKind(
        "Time paused by PAUSE and PFC", PausePanel,
        ("The share of each short interval during which a pause was in force; the figure at the right is "
         "the share of the whole capture. The address is the sender of the pause frames; the paused station "
         "is the other end of the link. No drop counter shows this time."),
    ),
    "marks": PanelKind(
        "RoCE frames marked CE", partial(LinePanel, lines_of=_marks, scale=lambda top: _PERCENT, alone=True),
        "The share of RoCE frames that a congested queue on the path has marked (ECN).",
    ),
    "cnps": PanelKind(
        "CNPs", partial(LinePanel, lines_of=_cnps, scale=frame_scale, alone=True),
        "Congestion notification packets per second. Each CNP requests a lower rate from a queue pair's "
        "sender.",
    ),
    "delay": PanelKind(
        "Delay of CNPs", DelayPanel,
        ("The time from a flow's first marked frame after its previous CNP to the next CNP. CNPs of "
        "uncertain flows are left out."),
    ),
    "kinds": PanelKind(
        "Messages and flow control", partial(LinePanel, lines_of=_frame_types, scale=frame_scale),
        "Congestion messages other than CNPs, and pause frames, per second, by type.",
    ),
    "points": PanelKind(
        "CNMs by congestion point", partial(LinePanel, lines_of=_points, scale=frame_scale),
        "Congestion notification messages per second of the most active congestion points.",
    ),
    "feedback": PanelKind(
        "CNMs by quantized feedback", HistogramPanel,
        ("The strength of the CNMs' requests to slow down, from 0 to 63. CNMs farther to the right come "
         "from more congested queues."),
    ),
    "advertised": PanelKind(
        "Advertised rates", partial(LinePanel, lines_of=_advertised, scale=rate_scale),
        ("The rates that switches permit to rate-limited queues, in RD tags and in returning frames. Tags "
         "that have no limit yet are not drawn."),
    ),
    "latency": PanelKind(
        "Latency measured by E²CM probes",
        partial(LinePanel, lines_of=_latency, scale=time_scale, alone=True, readout=_latency_readout),
        "The time that forward probes took, as reported by the replies: the destination's clock minus the "
        "source's time stamp. It includes any offset between the two clocks.",
    ),
}  # fmt: skip
"""Panel types by name, in report order."""
