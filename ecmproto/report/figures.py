"""Figures: panels of one kind under one another, and everything on one sheet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ecmproto.report.feedback_panels import FeedbackPanels
from ecmproto.report.names import short_names
from ecmproto.report.palette import MUTED
from ecmproto.report.panels import Panels, TimeAxis, number_text, time_axis
from ecmproto.report.queue_panels import QueuePanels
from ecmproto.report.rate_panels import RatePanels, SentPanels
from ecmproto.report.row_panels import LossPanels, MessagePanels
from ecmproto.report.run import Run
from ecmproto.report.sheet import Format, Sheet, legend_px

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["queue", "losses", "delivered", "sent", "feedback", "messages"]

KINDS: Mapping[Kind, Callable[[Sequence[Run], TimeAxis, Format], Panels]] = {
    "queue": QueuePanels,
    "losses": LossPanels,
    "delivered": RatePanels,
    "sent": SentPanels,
    "feedback": FeedbackPanels,
    "messages": MessagePanels,
}
"""Every kind of panel, in the order in which a report shows them."""

HEADINGS: Mapping[Kind, str] = {
    "queue": "Queue length",
    "losses": "Drops and pauses",
    "delivered": "Rate delivered per flow",
    "sent": "Rate sent per flow",
    "feedback": "Feedback computed",
    "messages": "Messages sent to the flows",
}

_PAD_PX = 6.0
_TITLE_PX = 24.0
_READOUT_PX = 18.0
_BETWEEN_PX = 14.0
TIME_PX = 42.0
"""Room for the numbers and the name of the time axis."""
_BASE_PX = 9.0
"""How far above the axes the base line of what stands over them lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the axes of a panel stand on a sheet."""

    left_px: float
    top_px: float
    right_px: float


def panels_of(kind: Kind, runs: Sequence[Run], form: Format) -> Panels:
    """Return the panels of one kind for ``runs``; its ``runs`` are empty if none has any."""
    return KINDS[kind](runs, time_axis(runs), form)


def stacked(kind: Kind, runs: Sequence[Run], form: Format) -> Figure:
    """Draw the panels of one kind under one another, on one time axis.

    Call it inside of ``canvas.drawn_svg`` or ``canvas.drawn_png``.
    """
    panels, names, time = panels_of(kind, runs, form), short_names(runs), time_axis(runs)
    left_px, right_px = panels.left_px, form.width_px - panels.right_px
    top_px = _PAD_PX + legend_px(panels.entries(), form, form.left_px, form.width_px)
    rows_px = sum(header_px(panels, run, form) + panels.height_px(run) for run in panels.runs)
    gaps_px = _BETWEEN_PX * (len(panels.runs) - 1)
    sheet = Sheet(form, top_px + rows_px + gaps_px + TIME_PX)
    sheet.legend(panels.entries(), form.left_px, _PAD_PX, form.width_px)
    for run in panels.runs:
        top_px += header_px(panels, run, form)
        place = Place(left_px=left_px, top_px=top_px, right_px=right_px)
        title = panels.title(run) or names[runs.index(run)]
        axes = panel(sheet, panels, run, place, title=title)
        time.put_on(axes)
        if run is panels.runs[-1]:
            time_numbers(sheet, axes, time, place, panels.height_px(run))
        top_px += panels.height_px(run) + _BETWEEN_PX
    return sheet.figure


def header_px(panels: Panels, run: Run, form: Format, *, title: bool = True) -> float:
    """Return the room for what stands above a panel's axes."""
    return _TITLE_PX + (_READOUT_PX if form.narrow and title and panels.readout(run) else 0)


def panel(sheet: Sheet, panels: Panels, run: Run, place: Place, *, title: str) -> Axes:
    """Draw one run's panel with its ``title``, if any, and readout above it, and return its axes."""
    form, small_px = sheet.form, sheet.form.text_px - 1
    room_px = place.right_px - place.left_px
    axes = sheet.axes(place.left_px, place.top_px, room_px, panels.height_px(run))
    panels.draw(axes, run)
    base_px = place.top_px - _BASE_PX
    sheet.text(place.left_px - 6, base_px, panels.unit(run), align="right", colour=MUTED, size_px=small_px)
    readout = panels.readout(run)
    if form.narrow:
        sheet.text(place.left_px, base_px, readout, colour=MUTED, size_px=small_px, room_px=room_px)
        base_px -= _READOUT_PX if readout else 0
        sheet.text(place.left_px, base_px, title, bold=True, room_px=room_px)
    else:
        sheet.text(place.left_px, base_px, title, bold=True, room_px=room_px)
        sheet.text(place.right_px, base_px, readout, align="right", colour=MUTED, size_px=small_px)
    return axes


def time_numbers(sheet: Sheet, axes: Axes, time: TimeAxis, place: Place, height_px: float) -> None:
    """Write the numbers at the time axis and its name below them."""
    small_px = sheet.form.text_px - 1
    axes.tick_params(axis="x", labelbottom=True, labelsize=small_px, pad=4)
    axes.xaxis.set_major_formatter(number_text)
    base_px = place.top_px + height_px + TIME_PX - 7
    sheet.text(place.right_px, base_px, time.label, align="right", colour=MUTED, size_px=small_px)
