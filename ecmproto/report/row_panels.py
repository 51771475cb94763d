"""Panels with one row per flow or sender: messages, and what was dropped or paused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.report.comparison import measured
from ecmproto.report.palette import ALERT, QUEUE, Colour, line_style
from ecmproto.report.panels import BASE, Panels, TimeAxis, row_axis, row_reach
from ecmproto.report.printable import width_em
from ecmproto.report.reduction import Floats, bin_centres, bin_of, shares_of
from ecmproto.report.run import Run
from ecmproto.report.scale import value_text
from ecmproto.report.sheet import Entry, Format, fitting
from ecmproto.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = 16
_LABEL_SHARE = 0.32
_NARROW_LABEL_SHARE = 0.6
"""Labels of rows take this part of the width at most."""
_TOTAL_PX = 74.0
_LEAST_HEIGHT = 0.3
"""Height of the weakest message, as a part of the strongest one's."""
_PAUSE = line_style(6).colour


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: a height from 0 to 1 for each span of the run, and the whole in words."""

    label: str
    total: str
    heights: Floats
    colour: Colour


class RowPanels(Panels):
    """Panels made of rows; what they are is decided by :meth:`rows_of`."""

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        self._rows = {id(run): self.rows_of(run) for run in runs}
        self.runs = [run for run in runs if self._rows[id(run)]]
        if form.narrow:
            self._room_px = _NARROW_LABEL_SHARE * form.width_px
            return
        self.right_px = _TOTAL_PX
        self._room_px = _LABEL_SHARE * form.width_px
        size = form.text_px - 1
        texts = [fitting(row.label, self._room_px, size) for run in self.runs for row in self._rows[id(run)]]
        widest = max((width_em(text) * size for text in texts), default=0.0)
        self.left_px = max(self.left_px, min(self._room_px, widest) + 12)

    def rows_of(self, run: Run) -> list[Row]:
        """Return the rows of a run."""
        raise NotImplementedError

    def height_px(self, run: Run) -> float:
        """Return the height of the axes."""
        return self.form.row_px * len(self._rows[id(run)])

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the run's panel."""
        rows = self._rows[id(run)]
        size = self.form.text_px - 1
        row_axis(axes, [(fitting(row.label, self._room_px, size), row.total) for row in rows], self.form)
        for place, row in enumerate(rows):
            self.draw_row(axes, place, row)

    def draw_row(self, axes: Axes, place: int, row: Row) -> None:
        """Draw one row."""
        raise NotImplementedError


class MessagePanels(RowPanels):
    """The raster of messages: a tick where a flow got one, the higher the stronger it was."""

    def rows_of(self, run: Run) -> list[Row]:
        """Return the rows of a run."""
        messages, spans = run.messages, self.form.spans
        counts = np.bincount(messages.row, minlength=len(messages.labels))
        if not len(messages.row):
            return []
        strength = np.ones(len(messages.row)) if messages.strength is None else messages.strength
        strength = np.clip(np.nan_to_num(strength), 0, 1)
        place = bin_of(messages.time_ns, self.time.span_ns, spans)
        rows = []
        totals = counts if messages.totals is None else np.array(messages.totals, dtype=np.int64)
        for label, of_row in _grouped(messages.labels, totals):
            chosen = np.isin(messages.row, of_row)
            heights = np.zeros(spans)
            marked = _LEAST_HEIGHT + (1 - _LEAST_HEIGHT) * strength[chosen]
            np.maximum.at(heights, place[chosen], marked)
            total = value_text(int(totals[of_row].sum()), "count")
            rows.append(Row(label=label, total=total, heights=heights, colour=QUEUE))
        return rows

    def readout(self, run: Run) -> str:
        """Return the run's figures in short."""
        totals = run.messages.totals
        return counted(len(run.messages.row) if totals is None else sum(totals), "message")

    def draw_row(self, axes: Axes, place: int, row: Row) -> None:
        """Draw one row."""
        marked = row.heights > 0
        centres = bin_centres(self.time.span_ns, len(row.heights))[marked] / self.time.scale.factor
        gap = np.full(len(centres), np.nan)
        base = np.full(len(centres), place + BASE)
        across = np.stack((centres, centres, gap), axis=1).ravel()
        upward = np.stack((base, base - row_reach(self.form) * row.heights[marked], gap), axis=1).ravel()
        width = max(1.0, 0.4 * self.form.width_px / self.form.spans)
        axes.plot(across, upward, color=row.colour.light, linewidth=width, solid_capstyle="butt")


class LossPanels(RowPanels):
    """Dropped frames and paused senders: a row for the drops, then one per sender that was stopped."""

    def rows_of(self, run: Run) -> list[Row]:
        """Return the rows of a run."""
        drops = [self._drops(run)] if int(run.drops.count.sum()) else []
        return drops + self._pauses(run)

    def entries(self) -> list[Entry]:
        """Return what the lines mean."""
        from matplotlib.patches import Patch

        drops, pauses = (Patch(facecolor=colour.light, alpha=1, linewidth=0) for colour in (ALERT, _PAUSE))
        entries = []
        if any(int(run.drops.count.sum()) for run in self.runs):
            entries.append(Entry(handle=drops, text="frames dropped"))
        if any(run.pauses for run in self.runs):
            entries.append(Entry(handle=pauses, text="paused"))
        return entries

    def _drops(self, run: Run) -> Row:
        spans = self.form.spans
        place = bin_of(run.drops.time_ns, self.time.span_ns, spans)
        counts = np.bincount(place, weights=run.drops.count, minlength=spans)
        total = value_text(int(run.drops.count.sum()), "count")
        heights = counts / counts.max()
        return Row(label="frames dropped", total=total, heights=heights, colour=ALERT)

    def _pauses(self, run: Run) -> list[Row]:
        lengths_ns = np.array([curve.stopped_ns.sum() for curve in run.pauses])
        rows = []
        for label, members in _grouped([curve.label for curve in run.pauses], lengths_ns):
            curves = [run.pauses[member] for member in members]
            shares = [
                shares_of(curve.edges_ns, curve.stopped_ns, self.time.span_ns, self.form.spans)
                for curve in curves
            ]
            total = format_time(float(lengths_ns[members].sum()))
            rows.append(Row(label=label, total=total, heights=np.mean(shares, axis=0), colour=_PAUSE))
        return rows

    def readout(self, run: Run) -> str:
        """Return the run's figures in short."""
        paused, summed = measured(run, "paused_ns"), measured(run, "paused_sum_ns")
        if not paused or summed is None:
            return ""
        together = f"some sender stood still for {format_time(paused)}"
        return together if self.form.narrow else f"{together} · summed up {format_time(summed)}"

    def draw_row(self, axes: Axes, place: int, row: Row) -> None:
        """Draw one row."""
        edges = np.linspace(0, max(1, self.time.span_ns), len(row.heights) + 1) / self.time.scale.factor
        base = place + BASE
        axes.stairs(
            base - row_reach(self.form) * row.heights,
            edges,
            baseline=base,
            fill=True,
            color=row.colour.light,
            linewidth=0,
        )


def _grouped(labels: Sequence[str], weights: NDArray[Any]) -> list[tuple[str, list[int]]]:
    """Return the rows to show: those that weigh most by themselves, in order, and the rest together."""
    present = np.flatnonzero(weights).tolist()
    if len(present) <= _ROWS:
        return [(labels[row], [row]) for row in present]
    heaviest = sorted(present, key=lambda row: -float(weights[row]))[: _ROWS - 1]
    rest = sorted(set(present) - set(heaviest))
    return [*((labels[row], [row]) for row in sorted(heaviest)), (f"{len(rest)} others", rest)]
