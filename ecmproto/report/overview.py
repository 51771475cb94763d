"""One picture of a whole report: a column per run, a row per kind of panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ecmproto.report.panels import Panels
from ecmproto.report.run import Report, Run
from ecmproto.report.sheet import NARROW, WIDE, Format, Sheet, legend_px, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS = 3
"""The most runs that stand side by side; more go into further bands below."""
_COLUMN = replace(NARROW, width_px=440, spans=160)
_MARGIN_PX = 24.0
_TITLE_PX = 52.0
"""Room for a title of one line, and the capture's name below it; each further line takes …"""
_TITLE_LINE_PX = 24.0
_TITLE_LINES = 3
_TITLE_SIZE_PX = 19
_NAME_PX = 24.0
_RUN_LINE_PX = 17.0
_RUN_LINES = 3
_BETWEEN_PX = 36.0
_HEADING_PX = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One kind of panel over the whole picture."""

    kind: Kind
    panels: Panels
    legend_px: float
    height_px: float
    """From the heading to the name of the time axis."""

    @property
    def stands_for_all(self) -> bool:
        """Whether the one panel is every run's."""
        return bool(self.panels.title(self.panels.runs[0]))


def overview(report: Report) -> Figure:
    """Draw everything that ``report`` shows; call it inside of ``canvas.drawn_svg`` or its PNG twin."""
    runs = report.runs
    across = _across(len(runs))
    form = WIDE if across == 1 else _COLUMN
    width_px = 2 * _MARGIN_PX + across * form.width_px
    kinds = {kind: panels_of(kind, runs, form) for kind in KINDS}
    bands = [runs[first : first + across] for first in range(0, len(runs), across)]
    rows = [_rows(kinds, band, width_px - _MARGIN_PX) for band in bands]
    heads_px = [_head_px(band, form) for band in bands]
    heights_px = [
        head_px + sum(row.height_px for row in of_band)
        for head_px, of_band in zip(heads_px, rows, strict=True)
    ]
    room_px = width_px - 2 * _MARGIN_PX
    title = wrapped(report.title, room_px, _TITLE_SIZE_PX, _TITLE_LINES)
    top_px = _TITLE_PX + _TITLE_LINE_PX * len(title)
    sheet = Sheet(
        form, top_px + sum(heights_px) + _BETWEEN_PX * (len(bands) - 1) + _MARGIN_PX, width_px=width_px
    )
    for line, text in enumerate(title):
        base_px = 34 + _TITLE_LINE_PX * line
        sheet.text(_MARGIN_PX, base_px, text, bold=True, size_px=_TITLE_SIZE_PX, room_px=room_px)
    sheet.text(_MARGIN_PX, top_px - 20, report.capture, colour=MUTED, room_px=room_px)
    names = dict(zip(map(id, runs), short_names(runs), strict=True))
    for band, of_band, height_px in zip(bands, rows, heights_px, strict=True):
        _draw_band(sheet, band, of_band, names, top_px)
        top_px += height_px + _BETWEEN_PX
    return sheet.figure


def _run_title(run: Run, form: Format) -> list[str]:
    return wrapped(run.title, form.width_px - 20, form.text_px, _RUN_LINES)


def _head_px(band: Sequence[Run], form: Format) -> float:
    """Return the room for the names and titles of ``band``."""
    return _NAME_PX + _RUN_LINE_PX * max((len(_run_title(run, form)) for run in band), default=1)


def _across(runs: int) -> int:
    """Return how many columns hold ``runs`` in bands that are as even as can be."""
    bands = -(-runs // _ACROSS)
    return -(-runs // bands) if runs else 1


def _rows(kinds: Mapping[Kind, Panels], band: Sequence[Run], right_px: float) -> list[_Row]:
    """Return the kinds of which some run of ``band`` has a panel."""
    rows = []
    for kind, panels in kinds.items():
        heights_px = [
            header_px(panels, run, panels.form, title=False) + panels.height_px(run)
            for run in band
            if run in panels.runs
        ]
        if heights_px:
            legend = legend_px(panels.entries(), panels.form, _MARGIN_PX, right_px)
            height_px = _HEADING_PX + legend + max(heights_px) + TIME_PX
            rows.append(_Row(kind=kind, panels=panels, legend_px=legend, height_px=height_px))
    return rows


def _draw_band(
    sheet: Sheet, band: Sequence[Run], rows: Sequence[_Row], names: dict[int, str], top_px: float
) -> None:
    column_px = sheet.form.width_px
    for column, run in enumerate(band):
        left_px = _MARGIN_PX + column * column_px
        sheet.text(left_px, top_px + 18, names[id(run)], bold=True, size_px=16, room_px=column_px - 20)
        for line, text in enumerate(_run_title(run, sheet.form)):
            sheet.text(left_px, top_px + 35 + _RUN_LINE_PX * line, text, colour=MUTED)
    top_px += _head_px(band, sheet.form)
    for row in rows:
        sheet.text(_MARGIN_PX, top_px + 24, HEADINGS[row.kind], bold=True)
        panels_px = top_px + _HEADING_PX + row.legend_px
        right_px = sheet.width_px - _MARGIN_PX
        sheet.legend(row.panels.entries(), _MARGIN_PX, top_px + _HEADING_PX, right_px)
        for column, run in enumerate(band):
            if run in row.panels.runs:
                _draw_panel(sheet, row.panels, run, _MARGIN_PX + column * column_px, panels_px)
            else:
                absent = "as in the first run" if row.stands_for_all else _ABSENT[row.kind]
                sheet.text(_MARGIN_PX + column * column_px, panels_px + 20, absent, colour=MUTED)
        top_px += row.height_px


def _draw_panel(sheet: Sheet, panels: Panels, run: Run, left_px: float, top_px: float) -> None:
    form = sheet.form
    place = Place(
        left_px=left_px + panels.left_px,
        top_px=top_px + header_px(panels, run, form, title=False),
        right_px=left_px + form.width_px - panels.right_px,
    )
    axes = panel(sheet, panels, run, place, title=panels.title(run))
    panels.time.put_on(axes)
    time_numbers(sheet, axes, panels.time, place, panels.height_px(run))


_ABSENT: dict[Kind, str] = {
    "queue": "no queue",
    "losses": "nothing dropped, nobody paused",
    "delivered": "no flows",
    "sent": "no flows",
    "feedback": "no feedback",
    "messages": "no messages",
}
"""What stands where a run has no panel of a kind."""
