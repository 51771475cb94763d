"""Base classes of panels: their size, their axes, and curves reduced to a figure's resolution.

The size of reduced curves does not depend on the capture.
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
"""Maximum number of spans between the numbers at a time axis."""
_TIME_NUMBER_PX = 46
"""Width of a number at the time axis of narrow figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """Time axis shared by all panels of a report."""

    span_ns: int
    scale: Scale

    @property
    def label(self) -> str:
        """Name of the axis, with its unit."""
        return f"time ({self.scale.unit})"

    def put_on(self, axes: Axes) -> None:
        """Give ``axes`` the time axis, without the numbers."""
        from matplotlib.ticker import MaxNLocator

        axes.set_xlim(0, max(1, self.span_ns) / self.scale.factor)
        spans = max(2, min(_TIME_NUMBERS, int(axes.bbox.width / _TIME_NUMBER_PX)))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=spans, steps=[1, 2, 2.5, 5, 10], min_n_ticks=2))
        axes.tick_params(axis="x", labelbottom=False, length=3, width=0.8)


def time_axis(runs: Sequence[Run]) -> TimeAxis:
    """Return the axis for the longest of ``runs``."""
    span_ns = int(greatest(run.duration_ns for run in runs))
    return TimeAxis(span_ns=span_ns, scale=time_scale(span_ns))


BEYOND: dict[str, Any] = {
    "color": ALERT.light, "marker": "^", "markersize": 5, "markeredgewidth": 0, "linestyle": "none",
}  # fmt: skip
"""Look of the mark at the end of a scale for values beyond it."""
Shown = TypeVar("Shown")
"""Type of the data that panels show: a run of a report, or the statistics of a capture."""


class Panels(Generic[Shown]):
    """Base class for panels of one kind, one per run, on comparable axes."""

    axis_label = ""
    """Label of the horizontal axis, with its unit; empty for time."""
    height: float = 1.0
    """Height of the axes, in heights of a form's panel."""
    right_px: float = 12.0
    """Width of the text right of the axes."""
    scale: Scale = Scale(factor=1, unit="")
    """Scale of the vertical axis, if it is the same for all runs."""

    def __init__(self, runs: Sequence[Shown], time: TimeAxis, form: Format) -> None:
        self.runs = runs
        """Runs with data for this kind."""
        self.time = time
        self.form = form
        self.left_px: float = float(form.left_px)
        """Width of the text left of the axes."""

    @property
    def shown(self) -> bool:
        """Whether there is data to show."""
        return bool(self.runs)

    def unit(self, run: Shown) -> str:
        """Return the unit of the vertical axis, with its prefix, or an empty text."""
        return self.scale.unit

    def height_px(self, run: Shown) -> float:
        """Return the height of the run's axes."""
        return self.height * self.form.panel_px

    def title(self, run: Shown) -> str:
        """Return the panel's title; empty for the run's own name."""
        return ""

    def readout(self, run: Shown) -> str:
        """Return the figures above the panel."""
        return ""

    def entries(self) -> list[LegendEntry]:
        """Return the legend."""
        return []

    def draw(self, axes: Axes, run: Shown) -> None:
        """Draw ``run`` on ``axes``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PanelKind:
    """Kind of panel: its heading, the function that creates its panels, and its texts."""

    heading: str
    panels: Callable[[Any, TimeAxis, Format], Panels[Any]]
    reading: str
    """Explanation of the figure, below its heading."""
    absent: str = ""
    """Text in place of the panel of a run without data."""
    comparing: str = ""
    """Addition to the explanation if several runs are compared."""


def value_axis(axes: Axes, minimum: float, maximum: float, form: Format, *, whole: bool = False) -> None:
    """Set the vertical axis from ``minimum`` to ``maximum``, with a few numbers and a grid line at each.

    ``whole`` is for counts: only whole numbers are shown.
    """
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(minimum, maximum)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10], integer=whole))
    axes.yaxis.set_major_formatter(number_text)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=form.text_px - 1)


def number_text(value: float, position: object = None) -> str:
    """Return the number at a tick, with a true minus sign."""
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def row_axis(axes: Axes, rows: Sequence[tuple[str, str]], form: Format) -> None:
    """Set the vertical axis to one row for each label and total, the first on top.

    The texts are left and right of the axes; in narrow figures they are above the row.
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
    """Write ``text`` at the left (0) or right (1) end of the axes: outside, or inside a narrow figure."""
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
"""Distance of a row's base line below its middle, in rows."""
_TEXT_ABOVE = 0.25


def row_reach(form: Format) -> float:
    """Return the height of the highest mark of a row, in rows."""
    return 0.45 if form.narrow else 0.8


_LABEL_SHARE = 0.32
_NARROW_LABEL_SHARE = 0.6
"""Maximum share of the width for the labels of rows."""
_TOTAL_PX = 74.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row: a height from 0 to 1 for each bin of time, and the total as text."""

    label: str
    total: str
    heights: Floats
    colour: Colour


class RowPanels(Panels[Shown]):
    """Base class for panels made of the rows that :meth:`rows_of` returns."""

    def __init__(self, runs: Sequence[Shown], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        self._rows = {id(run): self.rows_of(run) for run in runs}
        self.runs: Sequence[Shown] = [run for run in runs if self._rows[id(run)]]
        if form.narrow:
            self._room_px = _NARROW_LABEL_SHARE * form.width_px
            return
        self.right_px = _TOTAL_PX
        self._room_px = _LABEL_SHARE * form.width_px
        size = form.text_px - 1
        texts = [fitting(row.label, self._room_px, size) for run in self.runs for row in self._rows[id(run)]]
        widest = max((width_em(text) * size for text in texts), default=0.0)
        self.left_px: float = max(self.left_px, min(self._room_px, widest) + 12)

    def rows_of(self, run: Shown) -> list[Row]:
        """Return the rows of a run."""
        raise NotImplementedError

    def height_px(self, run: Shown) -> float:
        """Return the height of the axes."""
        return self.form.row_px * len(self._rows[id(run)])

    def draw(self, axes: Axes, run: Shown) -> None:
        """Draw the run's panel."""
        rows = self._rows[id(run)]
        size = self.form.text_px - 1
        row_axis(axes, [(fitting(row.label, self._room_px, size), row.total) for row in rows], self.form)
        for index, row in enumerate(rows):
            self.draw_row(axes, index, row)

    def draw_row(self, axes: Axes, index: int, row: Row) -> None:
        """Draw one row."""
        raise NotImplementedError


def draw_area(axes: Axes, index: int, row: Row, edges: Floats, form: Format) -> None:
    """Draw the heights of a row as an area above its base line."""
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
"""Maximum drawable value; sums of greater ones overflow, so they are left out like NaN."""


def drawable(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the drawable numbers in ``values``."""
    with np.errstate(invalid="ignore"):
        small: NDArray[np.bool_] = np.abs(values) <= _MAX_DRAWABLE
    return small


def highest(values: NDArray[Any]) -> float:
    """Return the maximum drawable value; 0 without one."""
    return float(values.max(initial=0.0, where=drawable(values)))


def _starts(slots: int, max_slots: int) -> Integers:
    return np.arange(0, slots, max(1, -(-slots // max_slots)), dtype=np.int64)


def coarse_edges(edges_ns: Integers, max_slots: int) -> Floats:
    """Return the edges after neighbouring slots are joined into at most ``max_slots``."""
    slots = max(0, len(edges_ns) - 1)
    if not slots:
        return np.empty(0)
    edges: Floats = np.append(edges_ns[_starts(slots, max_slots)], edges_ns[-1]).astype(np.float64)
    return edges


def coarse_means(edges_ns: Integers, values: NDArray[Any], max_slots: int) -> Floats:
    """Return the means over the joined slots, weighted by their lengths; NaN for slots without a number."""
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
    """Return the maximum of each group of joined slots; NaN for groups without a number."""
    if not len(values):
        return np.empty(0)
    floor = np.where(drawable(values), values, -np.inf)
    peaks: Floats = np.maximum.reduceat(floor, _starts(len(values), max_slots))
    peaks[np.isneginf(peaks)] = np.nan
    return peaks


def bin_of(time_ns: Integers, duration_ns: int, bins: int) -> Integers:
    """Return the index of each time's bin among ``bins`` equal parts of the run, clipped to the run."""
    position = time_ns.astype(np.float64) * (bins / max(1, duration_ns))
    return np.clip(position, 0, bins - 1).astype(np.int64)


def bin_centres(duration_ns: int, bins: int) -> Floats:
    """Return the middle of each of ``bins`` equal parts of the run, in ns."""
    centres: Floats = (np.arange(bins, dtype=np.float64) + 0.5) * (max(1, duration_ns) / bins)
    return centres


def extremes(time_ns: Integers, values: Floats, duration_ns: int, bins: int) -> tuple[Floats, Floats]:
    """Return the points, reduced to the minimum and maximum of each bin if there are many."""
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
    """Span of time of one pause."""

    start_ns: int
    end_ns: int


def paused_shares(pauses: Sequence[PausedSpan], duration_ns: int, bins: int) -> Floats:
    """Return the share of each bin with at least one of ``pauses`` in force."""
    starts, ends = _merged(pauses)
    if not len(starts):
        return np.zeros(bins)
    paused = np.concatenate(([0.0], np.cumsum(ends - starts)))
    until = np.stack((paused[:-1], paused[1:]), axis=1).ravel()
    return _shares(np.stack((starts, ends), axis=1).ravel(), until, duration_ns, bins)


def shares_of(edges_ns: Integers, stopped_ns: Floats, duration_ns: int, bins: int) -> Floats:
    """Return the share of ``stopped_ns`` (per slot) in each of ``bins`` equal parts of the run."""
    if not len(stopped_ns):
        return np.zeros(bins)
    until = np.concatenate(([0.0], np.cumsum(stopped_ns)))
    return _shares(edges_ns.astype(np.float64), until, duration_ns, bins)


def _shares(times: Floats, until: Floats, duration_ns: int, bins: int) -> Floats:
    edges = np.linspace(0.0, float(max(1, duration_ns)), bins + 1)
    shares: Floats = np.diff(np.interp(edges, times, until)) / np.diff(edges)
    return shares.clip(0.0, 1.0)


def _merged(pauses: Sequence[PausedSpan]) -> tuple[Floats, Floats]:
    """Return the starts and ends of the pauses, with overlapping ones joined."""
    stretches = np.array(sorted((p.start_ns, max(p.start_ns, p.end_ns)) for p in pauses), dtype=np.float64)
    if not len(stretches):
        return np.empty(0), np.empty(0)
    reach = np.maximum.accumulate(stretches[:, 1])
    new = np.append(True, stretches[1:, 0] > reach[:-1])
    last = np.append(np.flatnonzero(new)[1:], len(stretches)) - 1
    return stretches[new, 0], reach[last]
