"""Panels of replays: queue length, flow rates, feedback, messages, drops and pauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.tools.report.panels import (
    BASE,
    BEYOND,
    Floats,
    Panels,
    Row,
    RowPanels,
    TimeAxis,
    bin_centres,
    bin_of,
    coarse_edges,
    coarse_means,
    coarse_peaks,
    draw_area,
    drawable,
    extremes,
    highest,
    number_text,
    row_reach,
    shares_of,
    value_axis,
)
from ecmproto.tools.report.run import (
    FlowCurves,
    Run,
    Scale,
    TheoryCurve,
    greatest,
    labelled_scale,
    measured,
    octet_scale,
    rate_scale,
    value_text,
)
from ecmproto.tools.report.sheet import (
    ALERT,
    INK,
    MUTED,
    QUEUE,
    Format,
    LegendEntry,
    LineStyle,
    area_entry,
    line_entry,
    line_look,
    line_style,
)
from ecmproto.units import format_octets, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RATE = "(bit/s)"
"""The suffix of the feedback label if the feedback is a rate. A rate is valid until the next feedback."""
_USUAL_FEEDBACK_PERCENT, _ABOVE_USUAL_FEEDBACK, _FAR_BEYOND_FEEDBACK = 95, 1.5, 1.5
"""The percentile of the values that is the usual feedback. The scale ends at the usual feedback times the
second number, if the extreme value exceeds this end times the third number.
"""
_DOTTED_BELOW = 160
"""The number of points below which each point has a dot."""


class FeedbackPanels(Panels[Run]):
    """Panels of the feedback. Each run has its own scale, because mechanisms measure different quantities."""

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__([run for run in runs if drawable(run.feedback.value).any()], time, form)
        self._ends = {id(run): _feedback_ends(run) for run in self.runs}
        priorities = [np.unique(run.feedback.priority) for run in self.runs]
        self._priorities: list[int] = np.unique(np.concatenate(priorities)).tolist() if priorities else []

    def unit(self, run: Run) -> str:
        """Return the unit of the vertical axis, with its prefix."""
        return self._label(run)[1].unit

    def readout(self, run: Run) -> str:
        """Return a text with the main figures of the run."""
        return f"{self._label(run)[0]} · {counted(len(run.feedback.value), 'sample')}"

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        several = self._priorities if len(self._priorities) > 1 else []
        entries = [
            line_entry(_priority_text(priority), line_look(self._style(priority), 1.2))
            for priority in several
        ]
        if any(self._beyond(run, run.feedback.value).any() for run in self.runs):
            entries.append(line_entry("beyond the scale", BEYOND))
        return entries

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the panel of a run."""
        scale = self._label(run)[1]
        low, high = (end / scale.factor for end in self._ends[id(run)])
        margin = 0.07 * (high - low) or 1.0
        bottom, top = low - margin * (low < 0), high + margin * (high > 0 or low == 0)
        value_axis(axes, bottom, top, self.form)
        axes.axhline(0, color=INK.light, linewidth=0.8)
        for priority in self._priorities:
            chosen = run.feedback.priority == priority
            time, values = extremes(
                run.feedback.time_ns[chosen], run.feedback.value[chosen], self.time.span_ns, self.form.bins
            )
            across, upward = time / self.time.scale.factor, (values / scale.factor).clip(bottom, top)
            beyond = self._beyond(run, values)
            for end, mark in ((bottom, "v"), (top, "^")):
                points = across[beyond & (upward == end)]
                if len(points):
                    axes.plot(points, np.full(len(points), end), clip_on=False, **BEYOND | {"marker": mark})
            if run.feedback_label.endswith(_RATE):
                axes.step(
                    across, upward, where="post", **line_look(self._style(priority), 1.2) | {"marker": ""}
                )
            else:
                self._needles(axes, across, upward, self._style(priority))

    def _needles(
        self, axes: Axes, time: NDArray[np.float64], values: NDArray[np.float64], style: LineStyle
    ) -> None:
        """Draw a vertical line from 0 to each value. All lines are one path."""
        gap = np.full(len(time), np.nan)
        across = np.stack((time, time, gap), axis=1).ravel()
        upward = np.stack((np.zeros(len(time)), values, gap), axis=1).ravel()
        axes.plot(across, upward, color=style.colour.light, linewidth=0.9, solid_capstyle="butt")
        if len(self._priorities) > 1 or len(values) < _DOTTED_BELOW:
            axes.plot(time, values, **line_look(style, 1.2) | {"linestyle": "none", "markersize": 3})

    def _beyond(self, run: Run, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return a mask of the values outside the scale."""
        low, high = self._ends[id(run)]
        margin = 0.07 * (high - low)
        beyond: NDArray[np.bool_] = drawable(values) & ((values < low - margin) | (values > high + margin))
        return beyond

    def _label(self, run: Run) -> tuple[str, Scale]:
        return labelled_scale(run.feedback_label, max(map(abs, self._ends[id(run)])))

    def _style(self, priority: int) -> LineStyle:
        # The style depends only on the priority, so that a priority has the same colour in every report.
        return line_style(priority + 1)


def _feedback_ends(run: Run) -> tuple[float, float]:
    """Return the lower and upper ends of a run's feedback scale. The scale includes 0.

    If a few values are far beyond the other values, the scale does not cover these few values. A large first
    overshoot would otherwise flatten the curve.
    """
    values = run.feedback.value[drawable(run.feedback.value)]
    minimum, maximum = min(0.0, float(values.min())), max(0.0, float(values.max()))
    if run.feedback_label.endswith(_RATE):
        return minimum, maximum
    low, high = np.percentile(values, [100 - _USUAL_FEEDBACK_PERCENT, _USUAL_FEEDBACK_PERCENT]).tolist()
    reach = _ABOVE_USUAL_FEEDBACK * max(-low, high)
    if not 0 < _FAR_BEYOND_FEEDBACK * reach < max(-minimum, maximum):
        return minimum, maximum
    return max(minimum, -reach), min(maximum, reach)


def _priority_text(priority: int) -> str:
    return f"priority {priority}" if priority >= 0 else "all priorities"


_SET_POINT: dict[str, Any] = {"color": INK.light, "linewidth": 1.1, "linestyle": (0, (6, 4))}
_BUFFER: dict[str, Any] = {"color": ALERT.light, "linewidth": 1.6, "linestyle": (0, (1, 2.5))}
_PEAK_ALPHA = 0.28
_MARGIN = 1.06
_USUAL_QUEUE_PERCENT, _ABOVE_USUAL_QUEUE, _FAR_BEYOND_QUEUE = 96, 1.25, 2.0
"""The percentile of the bins that is the usual queue length. If the maximum exceeds the usual length times
the third number, the scale ends at the usual length times the second number.
"""
_STEPS_BELOW = 60
"""The number of bins below which the curve has steps instead of a line."""


class QueuePanels(Panels[Run]):
    """Panels of the queue. Each run has its own scale, because queue lengths differ by orders of magnitude.

    The scale covers the usual queue lengths. A few longer queue lengths, such as the first overshoot, have a
    mark at the upper end of the scale. The readout contains the maximum queue length.
    """

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        self._tops = {id(run): self._top_octets(run) for run in runs}

    def _top_octets(self, run: Run) -> float:
        """Return the upper end of the run's vertical axis, in octets."""
        longest = greatest([_longest(run), float(run.set_point_octets or 0)]) or 1.0
        peaks = coarse_peaks(run.queue.peak_octets, self.form.bins)
        peaks = peaks[drawable(peaks)]
        if not len(peaks):
            return longest
        usual = greatest(
            [float(np.percentile(peaks, _USUAL_QUEUE_PERCENT)), float(run.set_point_octets or 0)]
        )
        return _ABOVE_USUAL_QUEUE * usual if 0 < _FAR_BEYOND_QUEUE * usual < longest else longest

    def _scale(self, run: Run) -> Scale:
        return octet_scale(self._tops[id(run)])

    def _overshoots(self, run: Run) -> bool:
        return _longest(run) > self._tops[id(run)]

    def unit(self, run: Run) -> str:
        """Return the unit of the vertical axis, with its prefix."""
        return self._scale(run).unit

    def height_px(self, run: Run) -> float:
        """Return the height of the axes."""
        return self.form.panel_px if len(self.runs) > 1 else 1.7 * self.form.panel_px

    def readout(self, run: Run) -> str:
        """Return a text with the main figures of the run."""
        if not len(run.queue.mean_octets):
            return "nothing queued"
        mean, peak = (measured(run, f"queue_{which}_octets") for which in ("mean", "peak"))
        longest = greatest([_longest(run)]) if peak is None else peak
        parts = [*([] if mean is None else [f"mean {format_octets(mean)}"]), f"peak {format_octets(longest)}"]
        if run.measured:
            parts[-1] += f" {run.measured}"
        if run.set_point_octets is not None and not self.form.narrow:
            parts.append(f"set point {format_octets(run.set_point_octets)}")
        scales_differ = len({self._tops[id(run)] for run in self.runs}) > 1
        if scales_differ and not (run.measured and self.form.narrow):
            parts.insert(0, f"scale to {format_octets(round(self._tops[id(run)]))}")
        if run.buffer_octets is not None and not (scales_differ and self.form.narrow):
            parts.append(f"buffer {format_octets(run.buffer_octets)}")
        return " · ".join(parts)

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        mean = {"color": QUEUE.light, "linewidth": 1.6}
        entries = [line_entry("mean", mean), area_entry("up to the peak", QUEUE, _PEAK_ALPHA)]
        if any(run.set_point_octets is not None for run in self.runs):
            entries.append(line_entry("set point", _SET_POINT))
        if any(self._buffer_is_near(run) for run in self.runs):
            entries.append(line_entry("end of the buffer", _BUFFER))
        entries += _theory_entries(self.runs, "queue")
        if any(self._overshoots(run) for run in self.runs):
            entries.append(line_entry("beyond the scale", BEYOND))
        return entries

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the panel of a run."""
        top, factor = self._tops[id(run)], self._scale(run).factor
        value_axis(axes, 0, _MARGIN * top / factor, self.form)
        self._draw_curves(axes, run)
        for curve in run.theory:
            if curve.of == "queue":
                _draw_theory(axes, self.runs, curve, self.time, factor, top * _MARGIN)
        if run.set_point_octets is not None:
            axes.axhline(run.set_point_octets / factor, **_SET_POINT)
        if self._buffer_is_near(run) and run.buffer_octets is not None:
            axes.axhline(run.buffer_octets / factor, **_BUFFER)

    def _draw_curves(self, axes: Axes, run: Run) -> None:
        curve, max_slots = run.queue, self.form.bins
        if not len(curve.mean_octets):
            return
        top, factor = _MARGIN * self._tops[id(run)] / self._scale(run).factor, self._scale(run).factor
        edges = coarse_edges(curve.edges_ns, max_slots) / self.time.scale.factor
        peak = coarse_peaks(curve.peak_octets, max_slots) / factor
        mean = coarse_means(curve.edges_ns, curve.mean_octets, max_slots) / factor
        middles = (edges[1:] + edges[:-1]) / 2
        axes.stairs(
            np.minimum(peak, top), edges, fill=True, color=QUEUE.light, alpha=_PEAK_ALPHA, linewidth=0
        )
        if len(mean) < _STEPS_BELOW:
            axes.stairs(mean, edges, baseline=None, color=QUEUE.light, linewidth=1.6)
        else:
            axes.plot(middles, mean, color=QUEUE.light, linewidth=1.4)
        if self._overshoots(run):
            beyond = middles[peak > top]
            axes.plot(beyond, np.full(len(beyond), top), clip_on=False, **BEYOND)

    def _buffer_is_near(self, run: Run) -> bool:
        return run.buffer_octets is not None and run.buffer_octets <= _MARGIN * self._tops[id(run)]


def _longest(run: Run) -> float:
    return max(highest(run.queue.peak_octets), highest(run.queue.mean_octets))


_THEORY_DASHES = ((0, (6, 2, 1, 2)), (0, (2, 2)), (0, (9, 3)))


def _theory_entries(runs: Sequence[Run], of: str) -> list[LegendEntry]:
    """Return the legend of the model curves, without duplicates."""
    labels = dict.fromkeys(curve.label for run in runs for curve in run.theory if curve.of == of)
    return [line_entry(label, _theory_line(label, runs)) for label in labels]


def _theory_line(label: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the line style of a model's curves, which is the same in all panels."""
    labels = list(dict.fromkeys(curve.label for run in runs for curve in run.theory))
    dashes = _THEORY_DASHES[labels.index(label) % len(_THEORY_DASHES)]
    return {"color": INK.light, "linewidth": 1.3, "linestyle": dashes, "marker": ""}


def _draw_theory(
    axes: Axes, runs: Sequence[Run], curve: TheoryCurve, time: TimeAxis, factor: float, top: float
) -> None:
    step = max(1, len(curve.value) // _THEORY_POINTS)
    across, upward = curve.time_ns[::step] / time.scale.factor, curve.value[::step]
    axes.plot(across, np.minimum(upward, top) / factor, **_theory_line(curve.label, runs))


_THEORY_POINTS = 600


class PhasePanels(Panels[Run]):
    """Panels that plot the queue length minus the set point against the send rate, on common scales."""

    height: float = 1.7

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__([run for run in runs if len(run.phase.rate_bps) > 1], time, form)
        offsets = [np.abs(run.phase.offset_octets[drawable(run.phase.offset_octets)]) for run in self.runs]
        self._width = greatest(float(each.max(initial=0.0)) for each in offsets) or 1.0
        self._top = greatest(highest(run.phase.rate_bps) for run in self.runs) or 1.0
        rates = [run.phase.rate_bps[drawable(run.phase.rate_bps)] for run in self.runs]
        self._minimum = min((float(each.min(initial=self._top)) for each in rates), default=0.0)
        self._octets = octet_scale(self._width)
        self.scale: Scale = rate_scale(self._top)
        self.axis_label: str = f"queue less its set point ({self._octets.unit})"

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the panel of a run."""
        across = run.phase.offset_octets / self._octets.factor
        upward = run.phase.rate_bps / self.scale.factor
        max_points = self.form.bins * _PHASE_POINTS_PER_BIN
        mask = drawable(across) & drawable(upward)
        across, upward = across[mask][:max_points], upward[mask][:max_points]
        margin = _PHASE_MARGIN * max(self._top - self._minimum, _MIN_PHASE * self._top)
        bottom, top = max(0.0, self._minimum - margin), self._top + margin
        value_axis(axes, bottom / self.scale.factor, top / self.scale.factor, self.form)
        width = _MARGIN * self._width / self._octets.factor
        axes.set_xlim(-width, width)
        axes.xaxis.set_major_formatter(number_text)
        axes.axvline(0, **_SET_POINT)
        axes.plot(across, upward, color=QUEUE.light, linewidth=0.9, marker=".", markersize=4, alpha=0.8)
        axes.plot(across[:1], upward[:1], color=QUEUE.light, marker="o", markersize=9, fillstyle="none")
        end = float(np.mean(upward[-max(1, len(upward) // 10) :])) if len(upward) else 0.0
        axes.plot([0.0], [end], color=ALERT.light, marker="+", markersize=12, markeredgewidth=2)


_PHASE_POINTS_PER_BIN = 4
_PHASE_MARGIN, _MIN_PHASE = 0.1, 0.05
"""The margin above and below the rates, and the minimum height of the axis, relative to the rates."""

_MARKS = 7
"""The number of markers on a line along the whole axis."""
_LIMIT_DOTS = (0, (1, 1.6))


class SlowdownPanels(Panels[Run]):
    """Panels of the slowdown by size of flow, on a common scale."""

    axis_label = "flows up to this size"

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__([run for run in runs if run.slowdowns.up_to], time, form)
        self._top = greatest(highest(run.slowdowns.p99) for run in self.runs) or 1.0

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        return [line_entry(text, look) for text, look in self._looks()]

    def _looks(self) -> list[tuple[str, dict[str, Any]]]:
        names = ("median slowdown", "99th percentile")
        return [(name, _rate_line(line_style(index))) for index, name in enumerate(names)]

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the panel of a run."""
        value_axis(axes, 0, 1.06 * self._top, self.form)
        positions = range(len(run.slowdowns.up_to))
        axes.set_xlim(-0.5, len(positions) - 0.5)
        axes.set_xticks(positions, run.slowdowns.up_to)
        for values, (_, look) in zip((run.slowdowns.p50, run.slowdowns.p99), self._looks(), strict=True):
            axes.plot(positions, values, **look)


class RatePanels(Panels[Run]):
    """Panels of rates on a common scale. A flow has the same line style in all panels."""

    height: float = 1.15

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__([run for run in runs if any(len(flow.sent_bps) for flow in run.flows)], time, form)
        labels = dict.fromkeys(flow.label for run in self.runs for flow in run.flows)
        self._positions = {label: position for position, label in enumerate(labels)}
        drawn = [self._drawn(flow, self._curve(flow)) for run in self.runs for flow in run.flows]
        self._top_bps = greatest(map(highest, drawn)) or 1.0
        self.scale: Scale = rate_scale(self._top_bps)

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        entries = [line_entry(label, _rate_line(self._style(label))) for label in self._positions]
        return entries + _theory_entries(self.runs, "rate")

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the panel of a run."""
        value_axis(axes, 0, 1.06 * self._top_bps / self.scale.factor, self.form)
        for flow in run.flows:
            self._draw(axes, flow, self._curve(flow))
        for curve in run.theory:
            if curve.of == "rate":
                _draw_theory(axes, self.runs, curve, self.time, self.scale.factor, 1.06 * self._top_bps)

    def _draw(self, axes: Axes, flow: FlowCurves, values: Floats, **look: Any) -> None:
        edges = coarse_edges(flow.edges_ns, self.form.bins) / self.time.scale.factor
        rates = self._drawn(flow, values) / self.scale.factor
        step = max(1, len(rates) // _MARKS)
        start = step * self._positions[flow.label] // max(1, len(self._positions))
        line = _rate_line(self._style(flow.label)) | {"markevery": (min(start, len(rates) - 1), step)} | look
        if len(rates):
            axes.plot((edges[1:] + edges[:-1]) / 2, rates, **line, drawstyle="steps-mid")

    def _curve(self, flow: FlowCurves) -> Floats:
        return flow.delivered_bps

    def _drawn(self, flow: FlowCurves, values: Floats) -> Floats:
        return coarse_means(flow.edges_ns, values, self.form.bins)

    def _style(self, label: str) -> LineStyle:
        return line_style(self._positions[label])


class SentPanels(RatePanels):
    """Panels of the send rates with the limits of the reaction points.

    If all runs have the same send rates, a single panel is drawn.
    """

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        self._alike = len(self.runs) > 1 and all(_sent_alike(self.runs[0], run) for run in self.runs[1:])
        if self._alike:
            self.runs: Sequence[Run] = self.runs[:1]

    def title(self, run: Run) -> str:
        """Return the title of the panel."""
        return "All runs" if self._alike else ""

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        entries = super().entries()
        if any(flow.limit_bps is not None for run in self.runs for flow in run.flows):
            look = {"color": MUTED.light, "linewidth": 1.3, "linestyle": _LIMIT_DOTS}
            entries.append(line_entry("dotted: the flow's rate limit", look))
        return entries

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the panel of a run."""
        super().draw(axes, run)
        for flow in run.flows:
            if flow.limit_bps is not None:
                self._draw(axes, flow, flow.limit_bps, linestyle=_LIMIT_DOTS, marker="", linewidth=1.3)

    def _curve(self, flow: FlowCurves) -> Floats:
        return flow.sent_bps


def _rate_line(style: LineStyle) -> dict[str, Any]:
    return line_look(style, 1.4, 6)


def _sent_alike(one: Run, other: Run) -> bool:
    return [flow.label for flow in one.flows] == [flow.label for flow in other.flows] and all(
        a.limit_bps is None
        and b.limit_bps is None
        and np.array_equal(a.edges_ns, b.edges_ns)
        and np.array_equal(a.sent_bps, b.sent_bps, equal_nan=True)
        for a, b in zip(one.flows, other.flows, strict=True)
    )


_ROWS = 16
_MIN_HEIGHT = 0.3
"""The height of the weakest message, relative to the strongest message."""
_PAUSE = line_style(6).colour


class MessagePanels(RowPanels[Run]):
    """Panels with a tick for each message to a flow.

    The height of the tick shows the strength of the message.
    """

    def rows_of(self, run: Run) -> list[Row]:
        """Return the rows of a run."""
        messages, bins = run.messages, self.form.bins
        counts = np.bincount(messages.row, minlength=len(messages.labels))
        if not len(messages.row):
            return []
        strength = np.ones(len(messages.row)) if messages.strength is None else messages.strength
        strength = np.clip(np.nan_to_num(strength), 0, 1)
        index = bin_of(messages.time_ns, self.time.span_ns, bins)
        rows = []
        totals = counts if messages.totals is None else np.array(messages.totals, dtype=np.int64)
        for label, of_row in _grouped(messages.labels, totals):
            chosen = np.isin(messages.row, of_row)
            heights = np.zeros(bins)
            marked = _MIN_HEIGHT + (1 - _MIN_HEIGHT) * strength[chosen]
            np.maximum.at(heights, index[chosen], marked)
            total = value_text(int(totals[of_row].sum()), "count")
            rows.append(Row(label=label, total=total, heights=heights, colour=QUEUE))
        return rows

    def readout(self, run: Run) -> str:
        """Return a text with the main figures of the run."""
        totals = run.messages.totals
        return counted(len(run.messages.row) if totals is None else sum(totals), "message")

    def draw_row(self, axes: Axes, index: int, row: Row) -> None:
        """Draw a row."""
        marked = row.heights > 0
        centres = bin_centres(self.time.span_ns, len(row.heights))[marked] / self.time.scale.factor
        gap = np.full(len(centres), np.nan)
        base = np.full(len(centres), index + BASE)
        across = np.stack((centres, centres, gap), axis=1).ravel()
        upward = np.stack((base, base - row_reach(self.form) * row.heights[marked], gap), axis=1).ravel()
        width = max(1.0, 0.4 * self.form.width_px / self.form.bins)
        axes.plot(across, upward, color=row.colour.light, linewidth=width, solid_capstyle="butt")


class LossPanels(RowPanels[Run]):
    """Panels of dropped frames and paused senders.

    The first row shows drops, and each paused sender has a row.
    """

    def rows_of(self, run: Run) -> list[Row]:
        """Return the rows of a run."""
        drops = [self._drops(run)] if int(run.drops.count.sum()) else []
        return drops + self._pauses(run)

    def entries(self) -> list[LegendEntry]:
        """Return the legend of the lines."""
        dropped = any(int(run.drops.count.sum()) for run in self.runs)
        paused = any(run.pauses for run in self.runs)
        return [
            area_entry(text, colour, 1)
            for text, colour, present in (("frames dropped", ALERT, dropped), ("paused", _PAUSE, paused))
            if present
        ]

    def _drops(self, run: Run) -> Row:
        bins = self.form.bins
        index = bin_of(run.drops.time_ns, self.time.span_ns, bins)
        counts = np.bincount(index, weights=run.drops.count, minlength=bins)
        total = value_text(int(run.drops.count[run.is_measured(run.drops.time_ns)].sum()), "count")
        heights = counts / counts.max()
        return Row(label="frames dropped", total=total, heights=heights, colour=ALERT)

    def _pauses(self, run: Run) -> list[Row]:
        lengths_ns = np.array(
            [curve.stopped_ns[run.is_measured(curve.edges_ns[:-1])].sum() for curve in run.pauses]
        )
        rows = []
        for label, members in _grouped([curve.label for curve in run.pauses], lengths_ns):
            curves = [run.pauses[member] for member in members]
            shares = [
                shares_of(curve.edges_ns, curve.stopped_ns, self.time.span_ns, self.form.bins)
                for curve in curves
            ]
            total = format_time(float(lengths_ns[members].sum()))
            rows.append(Row(label=label, total=total, heights=np.mean(shares, axis=0), colour=_PAUSE))
        return rows

    def readout(self, run: Run) -> str:
        """Return a text with the main figures of the run."""
        paused, summed = measured(run, "paused_ns"), measured(run, "paused_sum_ns")
        if not paused or summed is None:
            return ""
        together = f"{format_time(paused)} with a stopped sender"
        return together if self.form.narrow else f"{together} · summed up {format_time(summed)}"

    def draw_row(self, axes: Axes, index: int, row: Row) -> None:
        """Draw a row."""
        edges = np.linspace(0, max(1, self.time.span_ns), len(row.heights) + 1) / self.time.scale.factor
        draw_area(axes, index, row, edges, self.form)


def _grouped(labels: Sequence[str], weights: NDArray[Any]) -> list[tuple[str, list[int]]]:
    """Return the rows to draw: the rows with the greatest weights in order, and one row for all others."""
    present = np.flatnonzero(weights).tolist()
    if len(present) <= _ROWS:
        return [(labels[row], [row]) for row in present]
    heaviest = sorted(present, key=lambda row: -float(weights[row]))[: _ROWS - 1]
    rest = sorted(set(present) - set(heaviest))
    return [*((labels[row], [row]) for row in sorted(heaviest)), (f"{len(rest)} others", rest)]
