"""Heat maps of sweeps: a grid for each figure, with a cell for each combination of the values of two keys."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ecmproto.control.lab.results.sweeps import Axis, cells
from ecmproto.control.lab.setup.figures import parse_figure
from ecmproto.errors import ParameterError
from ecmproto.executors.rows import Row
from ecmproto.tools.report.page import figure_forms, form_of
from ecmproto.tools.report.sheet import INK, MUTED, QUEUE, WIDE, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARGIN_PX, _TITLE_PX, _LABEL_PX, _CELL_PX, _LEFT_PX, _BETWEEN_PX = 24.0, 52.0, 26.0, 34.0, 150.0, 30.0
_MAX_COLUMNS = 24
_MIN_ALPHA, _MAX_ALPHA = 0.08, 0.6


def heat_maps(
    title: str, rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str], path: str
) -> bytes:
    """Return a heat map for each figure as PNG or SVG, as selected by the suffix of ``path``.

    Each cell contains the median over the seeds. The first key selects the row, and the optional second key
    selects the column. Raises ParameterError for more than two keys or too many columns. Raises OutputError
    if ``path`` ends in neither .png nor .svg.
    """
    if not 1 <= len(axes) <= 2:
        raise ParameterError(name="figure", needed="a sweep of one or two keys", got=str(len(axes)))
    if len(axes[-1].values) > _MAX_COLUMNS and len(axes) == 2:
        got = f"{len(axes[-1].values)} of {axes[-1].path}"
        raise ParameterError(name="figure", needed=f"at most {_MAX_COLUMNS} values across", got=got)
    return form_of(path, _FORMS)(title, rows, axes, figures)


def _drawn(title: str, rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str]) -> Figure:
    down = axes[0].values
    map_px = _TITLE_PX + _LABEL_PX + _CELL_PX * len(down) + _BETWEEN_PX
    sheet = Sheet(WIDE, _TITLE_PX + map_px * len(figures) + _MARGIN_PX)
    max_px = sheet.width_px - 2 * _MARGIN_PX
    sheet.text(_MARGIN_PX, 34, title, bold=True, size_px=19, max_px=max_px)
    for index, figure in enumerate(figures):
        _map(sheet, _TITLE_PX + map_px * index, rows, axes, figure)
    return sheet.figure


_FORMS = figure_forms(_drawn, lambda title, *_: title)


def _map(sheet: Sheet, top_px: float, rows: Sequence[Row], axes: Sequence[Axis], figure: str) -> None:
    """Draw the grid of a figure. Darker cells have greater values."""
    from matplotlib.patches import Rectangle

    down, across = axes[0], axes[1] if len(axes) > 1 else Axis(path="", values=("",))
    by_key = cells(rows, axes, figure)
    medians = {key: _median(values) for key, values in by_key.items()}
    known = [value for value in medians.values() if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    show = parse_figure(figure).show
    sheet.text(_MARGIN_PX, top_px + 24, figure, bold=True)
    keys = f"rows: {down.path}" + (f", columns: {across.path}" if across.path else "")
    sheet.text(sheet.width_px - _MARGIN_PX, top_px + 24, keys, align="right", colour=MUTED)
    top_px += _TITLE_PX
    width_px = (sheet.width_px - _MARGIN_PX - _LEFT_PX) / len(across.values)
    grid_px = _CELL_PX * len(down.values)
    grid = sheet.axes(_LEFT_PX, top_px + _LABEL_PX, width_px * len(across.values), grid_px)
    grid.set_axis_off()
    grid.set_xlim(0, len(across.values))
    grid.set_ylim(len(down.values), 0)
    for column, value in enumerate(across.values):
        middle_px = _LEFT_PX + width_px * (column + 0.5)
        sheet.text(middle_px, top_px + 16, value, align="center", colour=MUTED, max_px=width_px - 6)
    for line, value in enumerate(down.values):
        base_px = top_px + _LABEL_PX + _CELL_PX * (line + 0.5) + 5
        sheet.text(_LEFT_PX - 10, base_px, value, align="right", colour=MUTED, max_px=_LEFT_PX - _MARGIN_PX)
        for column, other in enumerate(across.values):
            median = medians.get((value, other) if across.path else (value,), math.nan)
            part = (median - low) / (high - low) if high > low and math.isfinite(median) else 0.0
            alpha = _MIN_ALPHA + (_MAX_ALPHA - _MIN_ALPHA) * part
            corner = (column + 0.01, line + 0.03)
            cell = Rectangle(corner, 0.98, 0.94, linewidth=0, facecolor=QUEUE.light, alpha=alpha)
            grid.add_patch(cell)
            middle_px = _LEFT_PX + width_px * (column + 0.5)
            text = show(median)
            sheet.text(middle_px, base_px, text, align="center", colour=INK, max_px=width_px - 6)


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan
