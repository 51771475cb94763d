"""Base classes of panels: panel size, axes, and curves with a reduced number of points.

The size of a reduced curve does not depend on the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.tools.report.run import Run, Scale, greatest, time_scale
from ecmproto.tools.report.sheet import (
    ALERT,
    GRID,
    INK,
    MUTED,
    Colour,
    Format,
    LegendEntry,
    fitting,
    width_em,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIME_NUMBERS = 8
"""The maximum number of spans between the numbers of a time axis."""
_TIME_NUMBER_PX = 46
"""Width of a number on the time axis of narrow figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """The common time axis of all panels of a report."""

    span_ns: int
    scale: Scale

    @property
    def label(self) -> str:
        """The label of the axis, with its unit."""
        return f"time ({self.scale.unit})"

    def put_on(self, axes: Axes) -> None:
        """Add the time axis to ``axes``, without the numbers."""
        from matplotlib.ticker import MaxNLocator

        axes.set_xlim(0, max(1, self.span_ns) / self.scale.factor)
        spans = max(2, min(_TIME_NUMBERS, int(axes.bbox.width / _TIME_NUMBER_PX)))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=spans, steps=[1, 2, 2.5, 5, 10], min_n_ticks=2))
        axes.tick_params(axis="x", labelbottom=False, length=3, width=0.8)


def time_axis(runs: Sequence[Run]) -> TimeAxis:
    """Return the time axis for the longest run."""
    span_ns = int(greatest(run.duration_ns for run in runs))
    return TimeAxis(span_ns=span_ns, scale=time_scale(span_ns))


BEYOND: dict[str, Any] = {
    "color": ALERT.light, "marker": "^", "markersize": 5, "markeredgewidth": 0, "linestyle": "none",
}  # fmt: skip
"""The style of a marker at the end of a scale, which stands for values beyond the scale."""
Shown = TypeVar("Shown")
"""The type of the displayed data: a run of a report, or the statistics of a capture."""


class Panels(Generic[Shown]):
    """The base class for panels of one type on comparable axes. Each run has a panel."""

    axis_label = ""
    """The label of the horizontal axis, with its unit. An empty text means that the axis is time."""
    height: float = 1.0
    """Height of the axes, relative to the panel height of the format."""
    right_px: float = 12.0
    """Width of the text to the right of the axes."""
    scale: Scale = Scale(factor=1, unit="")
    """The scale of the vertical axis, if all runs have the same scale."""

    def __init__(self, runs: Sequence[Shown], time: TimeAxis, form: Format) -> None:
        self.runs = runs
        """Runs with data for this panel type."""
        self.time = time
        self.form = form
        self.left_px: float = float(form.left_px)
        """Width of the text to the left of the axes."""

    @property
    def shown(self) -> bool:
        """Whether there is data to draw."""
        return bool(self.runs)

    def unit(self, run: Shown) -> str:
        """Return the unit of the vertical axis with its prefix, or an empty text."""
        return self.scale.unit

    def height_px(self, run: Shown) -> float:
        """Return the height of the axes of a run."""
        return self.height * self.form.panel_px

    def title(self, run: Shown) -> str:
        """Return the title of the panel. An empty text selects the name of the run."""
        return ""

    def readout(self, run: Shown) -> str:
        """Return the text with figures above the panel."""
        return ""

    def entries(self) -> list[LegendEntry]:
        """Return the legend."""
        return []

    def draw(self, axes: Axes, run: Shown) -> None:
        """Draw the panel of a run on ``axes``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PanelKind:
    """A panel type: the heading, the texts, and the function that creates the panels."""

    heading: str
    panels: Callable[[Any, TimeAxis, Format], Panels[Any]]
    reading: str
    """The explanation below the heading."""
    absent: str = ""
    """The text that replaces the panel of a run without data."""
    comparing: str = ""
    """Text that is added to the explanation if the report compares several runs."""


def value_axis(axes: Axes, minimum: float, maximum: float, form: Format, *, whole: bool = False) -> None:
    """Set the range of the vertical axis, with a few numbers and a grid line at each number.

    ``whole`` permits only whole numbers, for counts.
    """
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(minimum, maximum)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10], integer=whole))
    axes.yaxis.set_major_formatter(number_text)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=form.text_px - 1)


def number_text(value: float, position: object = None) -> str:
    """Return the number at a tick with a typographic minus sign."""
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def row_axis(axes: Axes, rows: Sequence[tuple[str, str]], form: Format) -> None:
    """Set the vertical axis to rows. Each row has a label and a total, and the first row is at the top.

    The texts are to the left and right of the axes. In narrow figures, the texts are above the row.
    """
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    across = axes.get_yaxis_transform()
    for index, (label, total) in enumerate(rows):
        axes.plot((0, 1), (index + BASE,) * 2, color=GRID.light, linewidth=0.8, transform=across)
        height = index - _TEXT_ABOVE if form.narrow else index
        _beside(axes, label, 0, height, form, INK.light if form.narrow else MUTED.light)
        _beside(axes, total, 1, height, form, MUTED.light)


def _beside(axes: Axes, text: str, side: int, height: float, form: Format, colour: str) -> None:
    """Write a text at the left (``side`` 0) or right (``side`` 1) end of the axes.

    The text is outside the axes, or inside the axes in narrow figures.
    """
    inside = form.narrow
    axes.annotate(
        text,
        (side, height),
        (0 if inside else (-6, 6)[side], 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha=("left", "right")[side if inside else 1 - side],
        va="center",
        fontsize=form.text_px - 1,
        color=colour,
        annotation_clip=False,
    )


BASE = 0.4
"""Distance from the middle of a row down to its baseline, in rows."""
_TEXT_ABOVE = 0.25


def row_reach(form: Format) -> float:
    """Return the maximum height of a mark in a row, in rows."""
    return 0.45 if form.narrow else 0.8


_LABEL_SHARE = 0.32
_NARROW_LABEL_SHARE = 0.6
"""The maximum share of the width that row labels use in narrow figures."""
_TOTAL_PX = 74.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row, with a height from 0 to 1 for each time bin, and the total as text."""

    label: str
    total: str
    heights: Floats
    colour: Colour


class RowPanels(Panels[Shown]):
    """The base class for panels with rows. Subclasses define :meth:`rows_of`."""

    def __init__(self, runs: Sequence[Shown], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        self._rows = {id(run): self.rows_of(run) for run in runs}
        self.runs: Sequence[Shown] = [run for run in runs if self._rows[id(run)]]
        if form.narrow:
            self._space_px = _NARROW_LABEL_SHARE * form.width_px
            return
        self.right_px = _TOTAL_PX
        self._space_px = _LABEL_SHARE * form.width_px
        size = form.text_px - 1
        texts = [fitting(row.label, self._space_px, size) for run in self.runs for row in self._rows[id(run)]]
        widest = max((width_em(text) * size for text in texts), default=0.0)
        self.left_px: float = max(self.left_px, min(self._space_px, widest) + 12)

    def rows_of(self, run: Shown) -> list[Row]:
        """Return the rows of a run."""
        raise NotImplementedError

    def height_px(self, run: Shown) -> float:
        """Return the height of the axes."""
        return self.form.row_px * len(self._rows[id(run)])

    def draw(self, axes: Axes, run: Shown) -> None:
        """Draw the panel of a run."""
        rows = self._rows[id(run)]
        size = self.form.text_px - 1
        row_axis(axes, [(fitting(row.label, self._space_px, size), row.total) for row in rows], self.form)
        for index, row in enumerate(rows):
            self.draw_row(axes, index, row)

    def draw_row(self, axes: Axes, index: int, row: Row) -> None:
        """Draw a row."""
        raise NotImplementedError


def draw_area(axes: Axes, index: int, row: Row, edges: Floats, form: Format) -> None:
    """Draw the heights of a row as an area above the baseline of the row."""
    base = index + BASE
    axes.stairs(
        base - row_reach(form) * row.heights,
        edges,
        baseline=base,
        fill=True,
        color=row.colour.light,
        linewidth=0,
    )


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_MAX_DRAWABLE = 1e30
"""The maximum value that is drawn. Greater values are omitted like NaN, because their sums overflow."""


def drawable(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the values that can be drawn."""
    with np.errstate(invalid="ignore"):
        small: NDArray[np.bool_] = np.abs(values) <= _MAX_DRAWABLE
    return small


def highest(values: NDArray[Any]) -> float:
    """Return the maximum of the values that can be drawn, or 0 without such a value."""
    return float(values.max(initial=0.0, where=drawable(values)))


def _starts(slots: int, max_slots: int) -> Integers:
    return np.arange(0, slots, max(1, -(-slots // max_slots)), dtype=np.int64)


def coarse_edges(edges_ns: Integers, max_slots: int) -> Floats:
    """Return the edges after merging neighbouring slots into at most ``max_slots`` slots."""
    slots = max(0, len(edges_ns) - 1)
    if not slots:
        return np.empty(0)
    edges: Floats = np.append(edges_ns[_starts(slots, max_slots)], edges_ns[-1]).astype(np.float64)
    return edges


def coarse_means(edges_ns: Integers, values: NDArray[Any], max_slots: int) -> Floats:
    """Return the means of merged slots, weighted by slot length. Slots without a number have NaN."""
    if not len(values):
        return np.empty(0)
    starts = _starts(len(values), max_slots)
    known = drawable(values)
    weight = np.where(known, np.maximum(np.diff(edges_ns), 1), 0).astype(np.float64)
    sums = np.add.reduceat(np.where(known, values, 0.0) * weight, starts)
    weights = np.add.reduceat(weight, starts)
    means: Floats = np.full(len(starts), np.nan)
    np.divide(sums, weights, out=means, where=weights > 0)
    return means


def coarse_peaks(values: NDArray[Any], max_slots: int) -> Floats:
    """Return the maximum of each merged slot. Slots without a number have NaN."""
    if not len(values):
        return np.empty(0)
    floor = np.where(drawable(values), values, -np.inf)
    peaks: Floats = np.maximum.reduceat(floor, _starts(len(values), max_slots))
    peaks[np.isneginf(peaks)] = np.nan
    return peaks


def bin_of(time_ns: Integers, duration_ns: int, bins: int) -> Integers:
    """Return the bin index of each time.

    The run has ``bins`` bins of equal length, and times are clipped to the run.
    """
    position = time_ns.astype(np.float64) * (bins / max(1, duration_ns))
    return np.clip(position, 0, bins - 1).astype(np.int64)


def bin_centres(duration_ns: int, bins: int) -> Floats:
    """Return the centre of each bin in ns. The run has ``bins`` bins of equal length."""
    centres: Floats = (np.arange(bins, dtype=np.float64) + 0.5) * (max(1, duration_ns) / bins)
    return centres


def extremes(time_ns: Integers, values: Floats, duration_ns: int, bins: int) -> tuple[Floats, Floats]:
    """Return the points of a curve. Many points are reduced to the minimum and the maximum of each bin."""
    known = drawable(values)
    time, values = time_ns[known].astype(np.float64), values[known].astype(np.float64)
    if len(values) <= 2 * bins:
        return time, values
    index = bin_of(time_ns[known], duration_ns, bins)
    order = np.lexsort((values, index))
    first = np.flatnonzero(np.diff(index[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    selected = np.unique(order[np.concatenate((first, last))])
    return time[selected], values[selected]


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedSpan:
    """The time span of a pause."""

    start_ns: int
    end_ns: int


def paused_shares(pauses: Sequence[PausedSpan], duration_ns: int, bins: int) -> Floats:
    """Return the share of each bin that is covered by at least one pause."""
    starts, ends = _merged(pauses)
    if not len(starts):
        return np.zeros(bins)
    paused = np.concatenate(([0.0], np.cumsum(ends - starts)))
    until = np.stack((paused[:-1], paused[1:]), axis=1).ravel()
    return _shares(np.stack((starts, ends), axis=1).ravel(), until, duration_ns, bins)


def shares_of(edges_ns: Integers, stopped_ns: Floats, duration_ns: int, bins: int) -> Floats:
    """Return the stopped share of each bin. ``stopped_ns`` contains the stopped time in each slot."""
    if not len(stopped_ns):
        return np.zeros(bins)
    until = np.concatenate(([0.0], np.cumsum(stopped_ns)))
    return _shares(edges_ns.astype(np.float64), until, duration_ns, bins)


def _shares(times: Floats, until: Floats, duration_ns: int, bins: int) -> Floats:
    edges = np.linspace(0.0, float(max(1, duration_ns)), bins + 1)
    shares: Floats = np.diff(np.interp(edges, times, until)) / np.diff(edges)
    return shares.clip(0.0, 1.0)


def _merged(pauses: Sequence[PausedSpan]) -> tuple[Floats, Floats]:
    """Return the starts and ends of the pauses after merging overlapping pauses."""
    spans = np.array(sorted((p.start_ns, max(p.start_ns, p.end_ns)) for p in pauses), dtype=np.float64)
    if not len(spans):
        return np.empty(0), np.empty(0)
    reach = np.maximum.accumulate(spans[:, 1])
    new = np.append(True, spans[1:, 0] > reach[:-1])
    last = np.append(np.flatnonzero(new)[1:], len(spans)) - 1
    return spans[new, 0], reach[last]
