"""One picture of a whole report: a column per run, a row per kind of panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ecmproto.report.figures import (
    HEADINGS,
    KINDS,
    TIME_PX,
    Kind,
    Place,
    header_px,
    panel,
    panels_of,
    time_numbers,
)
from ecmproto.report.names import short_names
from ecmproto.report.palette import MUTED
from ecmproto.report.panels import Panels, time_axis
from ecmproto.report.run import Report, Run
from ecmproto.report.sheet import NARROW, WIDE, Format, Sheet, legend_px

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS = 3
"""The most runs that stand side by side; more go into further bands below."""
_COLUMN = replace(NARROW, width_px=440, spans=160)
_MARGIN_PX = 24.0
_TITLE_PX = 76.0
_NAME_PX = 44.0
_HEADING_PX = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One kind of panel over the whole picture."""

    kind: Kind
    panels: Panels
    legend_px: float
    height_px: float
    """Of the axes, with what stands above them."""


def overview(report: Report) -> Figure:
    """Draw everything that ``report`` shows; call it inside of ``canvas.drawn_svg`` or its PNG twin."""
    runs = report.runs
    across = _across(len(runs))
    form = replace(WIDE, spans=WIDE.spans) if across == 1 else _COLUMN
    width_px = 2 * _MARGIN_PX + across * form.width_px
    rows = _rows(runs, form, width_px)
    bands = [runs[first : first + across] for first in range(0, len(runs), across)]
    band_px = _NAME_PX + sum(_HEADING_PX + row.legend_px + row.height_px + TIME_PX for row in rows)
    sheet = Sheet(form, _TITLE_PX + band_px * len(bands) + _MARGIN_PX, width_px=width_px)
    room_px = width_px - 2 * _MARGIN_PX
    sheet.text(_MARGIN_PX, 34, report.title, bold=True, size_px=19, room_px=room_px)
    sheet.text(_MARGIN_PX, 56, report.capture, colour=MUTED, room_px=room_px)
    names = dict(zip(map(id, runs), short_names(runs), strict=True))
    for number, band in enumerate(bands):
        _draw_band(sheet, band, rows, names, _TITLE_PX + number * band_px)
    return sheet.figure


def _across(runs: int) -> int:
    """Return how many columns hold ``runs`` in bands that are as even as can be."""
    bands = -(-runs // _ACROSS)
    return -(-runs // bands) if runs else 1


def _rows(runs: Sequence[Run], form: Format, width_px: float) -> list[_Row]:
    rows = []
    for kind in KINDS:
        panels = panels_of(kind, runs, form)
        if not panels.runs:
            continue
        height_px = max(header_px(panels, run, form) + panels.height_px(run) for run in panels.runs)
        legend = legend_px(panels.entries(), form, _MARGIN_PX, width_px - _MARGIN_PX)
        rows.append(_Row(kind=kind, panels=panels, legend_px=legend, height_px=height_px))
    return rows


def _draw_band(
    sheet: Sheet, band: Sequence[Run], rows: Sequence[_Row], names: dict[int, str], top_px: float
) -> None:
    column_px = sheet.form.width_px
    for column, run in enumerate(band):
        left_px = _MARGIN_PX + column * column_px
        sheet.text(left_px, top_px + 18, names[id(run)], bold=True, size_px=16, room_px=column_px - 20)
        sheet.text(left_px, top_px + 35, run.title, colour=MUTED, room_px=column_px - 20)
    top_px += _NAME_PX
    for row in rows:
        sheet.text(_MARGIN_PX, top_px + 24, HEADINGS[row.kind], bold=True)
        top_px += _HEADING_PX
        sheet.legend(row.panels.entries(), _MARGIN_PX, top_px, sheet.width_px - _MARGIN_PX)
        top_px += row.legend_px
        for column, run in enumerate(band):
            if run in row.panels.runs:
                _draw_panel(sheet, row, run, _MARGIN_PX + column * column_px, top_px, names[id(run)])
            else:
                sheet.text(_MARGIN_PX + column * column_px, top_px + 20, _ABSENT[row.kind], colour=MUTED)
        top_px += row.height_px + TIME_PX


def _draw_panel(sheet: Sheet, row: _Row, run: Run, left_px: float, top_px: float, name: str) -> None:
    panels, form = row.panels, sheet.form
    place = Place(
        left_px=left_px + panels.left_px,
        top_px=top_px + header_px(panels, run, form),
        right_px=left_px + form.width_px - panels.right_px,
    )
    axes = panel(sheet, panels, run, place, title=panels.title(run) or name)
    time = time_axis(list(row.panels.runs))
    time.put_on(axes)
    time_numbers(sheet, axes, time, place, panels.height_px(run))


_ABSENT: dict[Kind, str] = {
    "queue": "no queue",
    "losses": "nothing dropped, nobody paused",
    "delivered": "no flows",
    "sent": "no flows",
    "feedback": "no feedback",
    "messages": "no messages",
}
"""What stands where a run has no panel of a kind."""
