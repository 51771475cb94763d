"""Figures of replays: panels of one type in a column, and an overview of all types.

The overview has a column for each run and a row for each panel type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ecmproto.tools.report.panels import PanelKind, Panels, Shown, number_text, time_axis
from ecmproto.tools.report.replay_panels import (
    FeedbackPanels,
    LossPanels,
    MessagePanels,
    PhasePanels,
    QueuePanels,
    RatePanels,
    SentPanels,
    SlowdownPanels,
)
from ecmproto.tools.report.run import Report, Run
from ecmproto.tools.report.sheet import (
    GRID,
    MUTED,
    NARROW,
    WIDE,
    Format,
    Sheet,
    legend_px,
    shortened,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {"none": "no control", "pause": "PAUSE", "e2cm": "E²CM", "swift": "Swift"}
_LONGEST = 40


def short_names(runs: Sequence[Run]) -> list[str]:
    """Return a short and unique name for each run, such as ``E²CM``, ``QCN w=4`` or ``QCN (2)``."""
    names: list[str] = []
    for run in runs:
        name = shortened(_pretty(run.variant or run.name), _LONGEST) or "run"
        twins = sum(earlier == name or earlier.startswith(f"{name} (") for earlier in names)
        names.append(f"{name} ({twins + 1})" if twins else name)
    return names


def _pretty(text: str) -> str:
    """Return a run name for readers: ``qcn:w=4 over pfc`` becomes ``QCN w=4 over PFC``."""
    upper, over, lower = text.partition(" over ")
    mechanism, *assignments = upper.split(":")
    own = " ".join((_NAMES.get(mechanism, mechanism.upper()), *assignments))
    return f"{own}{over}{_NAMES.get(lower, lower.upper())}"


def listed(parts: Sequence[str]) -> str:
    """Return ``parts`` as an enumeration, such as ``QCN, ECM and FECN``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


Kind = Literal["queue", "losses", "delivered", "sent", "slowdown", "phase", "feedback", "messages"]

KINDS: Mapping[Kind, PanelKind] = {
    "queue": PanelKind(
        "Queue length", QueuePanels,
        ("The octets waiting at the port. The line is the mean of each short interval, and the shaded area "
         "extends to the longest queue in it. A good queue is short and stays near its set point. When the "
         "buffer is full, frames are lost. Each panel has its own scale; triangles at the upper end mark"
        " a few peaks far beyond it."),
        absent="no queue",
    ),
    "losses": PanelKind(
        "Drops and pauses", LossPanels,
        ("Frames lost at a full buffer, and pauses by PAUSE or PFC. The height of a mark is the loss, or "
         "the share of the time with a paused sender; the figure at the right is the sum. In an open loop "
         "no sender obeys, so the time is the requested pause time."),
        absent="nothing dropped, no pause",
    ),
    "delivered": PanelKind(
        "Rate delivered per flow", RatePanels,
        ("Frames that left the port, by flow, each with its own marker. Lines close together mean fair "
         "shares of the port."),
        absent="no flows",
    ),
    "sent": PanelKind(
        "Rate sent per flow", SentPanels,
        ("Frames that the sources sent towards the port. A dotted line is the limit set by feedback; "
        "without one, the source sends freely."),
        absent="no flows",
    ),
    "slowdown": PanelKind(
        "Slowdown by size of flow", SlowdownPanels,
        ("The completion times of flows, divided by those in an empty network. A flow that nothing delays "
         "has a slowdown of 1."),
        absent="no flow of a given size",
    ),
    "phase": PanelKind(
        "Queue and rate against each other", PhasePanels,
        ("The queue minus its set point against the rate sent to it. Each point is a short interval; the "
        "first one has a ring. A curve that spirals inward settles, and a wide loop oscillates; the cross "
        "is the ideal end."),
        absent="no set point",
    ),
    "feedback": PanelKind(
        "Feedback computed", FeedbackPanels,
        ("The congestion point's feedback at each sample. Below zero it requests less, above zero the port"
        " has capacity left; an advertised rate is drawn unchanged. Triangles mark values beyond the "
        "scale."),
        absent="no feedback",
        comparing=(
            " Mechanisms measure different quantities on their own scales: compare shapes, not heights."
        ),
    ),
    "messages": PanelKind(
        "Messages sent to the flows", MessagePanels,
        ("Each mark is a message to this flow's source that requests another rate. A higher mark is a"
        " stronger request; the figure at the right is their number."),
        absent="no messages",
    ),
}  # fmt: skip
"""Panel types by name, in report order."""

_PAD_PX = 6.0
_TITLE_PX = 24.0
_READOUT_PX = 18.0
_BETWEEN_PX = 14.0
TIME_PX = 42.0
"""Height of the numbers and the label of the time axis."""
_BASE_PX = 9.0
"""Distance between the axes and the baseline of the text above the axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxesBox:
    """Position of a panel's axes on a sheet."""

    left_px: float
    top_px: float
    right_px: float


def panels_of(kind: Kind, runs: Sequence[Run], form: Format) -> Panels[Run]:
    """Return the panels of a type for ``runs``. If no run has data, the ``runs`` of the panels are empty."""
    return KINDS[kind].panels(runs, time_axis(runs), form)


def stacked(kind: Kind, runs: Sequence[Run], form: Format) -> Figure:
    """Draw the panels of a type in one column with a common time axis.

    Call this function within ``sheet.drawn_svg`` or ``sheet.drawn_png``.
    """
    panels, names = panels_of(kind, runs, form), short_names(runs)
    left_px, right_px = panels.left_px, form.width_px - panels.right_px
    top_px = _PAD_PX + legend_px(panels.entries(), form, form.left_px, form.width_px)
    rows_px = sum(header_px(panels, run, form) + panels.height_px(run) for run in panels.runs)
    gaps_px = _BETWEEN_PX * (len(panels.runs) - 1)
    sheet = Sheet(form, top_px + rows_px + gaps_px + TIME_PX)
    sheet.legend(panels.entries(), form.left_px, _PAD_PX, form.width_px)
    for run in panels.runs:
        top_px += header_px(panels, run, form)
        box = AxesBox(left_px=left_px, top_px=top_px, right_px=right_px)
        title = panels.title(run) or names[runs.index(run)]
        axes = panel(sheet, panels, run, box, title=title)
        _put_time(axes, panels, run)
        if run is panels.runs[-1]:
            numbers_below(sheet, axes, panels, run, box)
        elif panels.axis_label:
            axes.tick_params(axis="x", labelbottom=False)
        top_px += panels.height_px(run) + _BETWEEN_PX
    return sheet.figure


def header_px(panels: Panels[Shown], run: Shown, form: Format, *, title: bool = True) -> float:
    """Return the height of the text above a panel's axes."""
    return _TITLE_PX + (_READOUT_PX if form.narrow and title and panels.readout(run) else 0)


def panel(sheet: Sheet, panels: Panels[Shown], run: Shown, box: AxesBox, *, title: str) -> Axes:
    """Draw the panel of a run with its title and readout, and return the axes."""
    form, small_px = sheet.form, sheet.form.text_px - 1
    max_px = box.right_px - box.left_px
    axes = sheet.axes(box.left_px, box.top_px, max_px, panels.height_px(run))
    panels.draw(axes, run)
    base_px = box.top_px - _BASE_PX
    sheet.text(box.left_px - 6, base_px, panels.unit(run), align="right", colour=MUTED, size_px=small_px)
    readout = panels.readout(run)
    if form.narrow:
        sheet.text(box.left_px, base_px, readout, colour=MUTED, size_px=small_px, max_px=max_px)
        base_px -= _READOUT_PX if readout else 0
        sheet.text(box.left_px, base_px, title, bold=True, max_px=max_px)
    else:
        sheet.text(box.left_px, base_px, title, bold=True, max_px=max_px)
        sheet.text(
            box.right_px, base_px, readout, align="right", colour=MUTED, size_px=small_px, max_px=max_px
        )
    return axes


def _put_time(axes: Axes, panels: Panels[Shown], run: Shown) -> None:
    """Add the time axis and shade the measured time. Panels with another horizontal axis stay unchanged."""
    if panels.axis_label:
        return
    panels.time.put_on(axes)
    if isinstance(run, Run) and run.measured_ns is not None:
        begin, end = (each / panels.time.scale.factor for each in run.measured_ns)
        axes.axvspan(begin, end, color=GRID.light, alpha=0.45, linewidth=0, zorder=0)


def numbers_below(sheet: Sheet, axes: Axes, panels: Panels[Shown], run: Shown, box: AxesBox) -> None:
    """Draw the numbers and the label of the horizontal axis."""
    small_px = sheet.form.text_px - 1
    axes.tick_params(axis="x", labelbottom=True, labelsize=small_px, pad=4)
    if not panels.axis_label:
        axes.xaxis.set_major_formatter(number_text)
    base_px = box.top_px + panels.height_px(run) + TIME_PX - 7
    name = panels.axis_label or panels.time.label
    sheet.text(box.right_px, base_px, name, align="right", colour=MUTED, size_px=small_px)


_MAX_COLUMNS = 3
"""The maximum number of runs side by side. Further runs are drawn in bands below."""
_COLUMN = replace(NARROW, width_px=440, bins=160)
_MARGIN_PX = 24.0
_REPORT_TITLE_PX = 52.0
"""Height of the name of the capture and the margins. Each line of the title adds `_TITLE_LINE_PX`."""
_TITLE_LINE_PX = 24.0
_TITLE_LINES = 3
_TITLE_SIZE_PX = 19
_NAME_PX = 24.0
_RUN_LINE_PX = 17.0
_RUN_LINES = 3
_BETWEEN_BANDS_PX = 36.0
_HEADING_PX = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _OverviewRow:
    """A row of the overview, with the panels of one type for the runs of a band."""

    kind: Kind
    panels: Panels[Run]
    legend_px: float
    height_px: float
    """Height from the heading to the label of the time axis."""

    @property
    def is_shared(self) -> bool:
        return bool(self.panels.title(self.panels.runs[0]))


def overview(report: Report, shown: Collection[Kind] = tuple(KINDS)) -> Figure:
    """Draw the panels of a report. ``shown`` contains the panel types to draw.

    Call this function within ``sheet.drawn_svg`` or ``sheet.drawn_png``.
    """
    runs = report.runs
    across = _columns(len(runs))
    form = WIDE if across == 1 else _COLUMN
    width_px = 2 * _MARGIN_PX + across * form.width_px
    types = {kind: panels_of(kind, runs, form) for kind in KINDS if kind in shown}
    bands = [runs[first : first + across] for first in range(0, len(runs), across)]
    rows = [_overview_rows(types, band, width_px - _MARGIN_PX) for band in bands]
    heads_px = [_head_px(band, form) for band in bands]
    heights_px = [
        head_px + sum(row.height_px for row in of_band)
        for head_px, of_band in zip(heads_px, rows, strict=True)
    ]
    max_px = width_px - 2 * _MARGIN_PX
    title = wrapped(report.title, max_px, _TITLE_SIZE_PX, _TITLE_LINES)
    top_px = _REPORT_TITLE_PX + _TITLE_LINE_PX * len(title)
    sheet = Sheet(
        form, top_px + sum(heights_px) + _BETWEEN_BANDS_PX * (len(bands) - 1) + _MARGIN_PX, width_px=width_px
    )
    for line, text in enumerate(title):
        base_px = 34 + _TITLE_LINE_PX * line
        sheet.text(_MARGIN_PX, base_px, text, bold=True, size_px=_TITLE_SIZE_PX, max_px=max_px)
    sheet.text(_MARGIN_PX, top_px - 20, report.capture, colour=MUTED, max_px=max_px)
    names = dict(zip(map(id, runs), short_names(runs), strict=True))
    for band, of_band, height_px in zip(bands, rows, heights_px, strict=True):
        _draw_band(sheet, band, of_band, names, top_px)
        top_px += height_px + _BETWEEN_BANDS_PX
    return sheet.figure


def _run_title(run: Run, form: Format) -> list[str]:
    return wrapped(run.title, form.width_px - 20, form.text_px, _RUN_LINES)


def _head_px(band: Sequence[Run], form: Format) -> float:
    """Return the height of the run names and titles of a band."""
    return _NAME_PX + _RUN_LINE_PX * max((len(_run_title(run, form)) for run in band), default=1)


def _columns(runs: int) -> int:
    """Return the number of columns that divides the runs most evenly into bands."""
    bands = -(-runs // _MAX_COLUMNS)
    return -(-runs // bands) if runs else 1


def _overview_rows(
    types: Mapping[Kind, Panels[Run]], band: Sequence[Run], right_px: float
) -> list[_OverviewRow]:
    """Return a row for each panel type with data in the band."""
    rows = []
    for kind, panels in types.items():
        heights_px = [
            header_px(panels, run, panels.form, title=False) + panels.height_px(run)
            for run in band
            if run in panels.runs
        ]
        if heights_px:
            legend = legend_px(panels.entries(), panels.form, _MARGIN_PX, right_px)
            height_px = _HEADING_PX + legend + max(heights_px) + TIME_PX
            rows.append(_OverviewRow(kind=kind, panels=panels, legend_px=legend, height_px=height_px))
    return rows


def _draw_band(
    sheet: Sheet, band: Sequence[Run], rows: Sequence[_OverviewRow], names: dict[int, str], top_px: float
) -> None:
    column_px = sheet.form.width_px
    for column, run in enumerate(band):
        left_px = _MARGIN_PX + column * column_px
        sheet.text(left_px, top_px + 18, names[id(run)], bold=True, size_px=16, max_px=column_px - 20)
        for line, text in enumerate(_run_title(run, sheet.form)):
            sheet.text(left_px, top_px + 35 + _RUN_LINE_PX * line, text, colour=MUTED)
    top_px += _head_px(band, sheet.form)
    for row in rows:
        sheet.text(_MARGIN_PX, top_px + 24, KINDS[row.kind].heading, bold=True)
        panels_px = top_px + _HEADING_PX + row.legend_px
        right_px = sheet.width_px - _MARGIN_PX
        sheet.legend(row.panels.entries(), _MARGIN_PX, top_px + _HEADING_PX, right_px)
        for column, run in enumerate(band):
            if run in row.panels.runs:
                draw_panel(sheet, row.panels, run, _MARGIN_PX + column * column_px, panels_px)
            else:
                absent = "as in the first run" if row.is_shared else KINDS[row.kind].absent
                sheet.text(_MARGIN_PX + column * column_px, panels_px + 20, absent, colour=MUTED)
        top_px += row.height_px


def draw_panel(
    sheet: Sheet, panels: Panels[Shown], run: Shown, left_px: float, top_px: float, *, numbers: bool = True
) -> None:
    """Draw the panel of a run with the readout above. ``numbers`` draws the axis numbers below."""
    form = sheet.form
    box = AxesBox(
        left_px=left_px + panels.left_px,
        top_px=top_px + header_px(panels, run, form, title=False),
        right_px=left_px + form.width_px - panels.right_px,
    )
    axes = panel(sheet, panels, run, box, title=panels.title(run))
    _put_time(axes, panels, run)
    if numbers:
        numbers_below(sheet, axes, panels, run, box)
