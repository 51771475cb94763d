"""Figures of the statistics of a capture: one panel by itself, and all on one sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ecmproto.report.capture_lines import AdvertisedPanel, KindPanel, LatencyPanel, PointPanel
from ecmproto.report.capture_panels import HistogramPanel, Panel, PanelKind, PausePanel, RatePanel
from ecmproto.report.figures import TIME_PX, Place, time_numbers
from ecmproto.report.palette import MUTED
from ecmproto.report.panels import TimeAxis
from ecmproto.report.scale import time_scale
from ecmproto.report.sheet import WIDE, Format, Sheet, legend_px
from ecmproto.stats import Statistics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Name = Literal["rate", "pauses", "kinds", "points", "feedback", "advertised", "latency"]

PANELS: Mapping[Name, PanelKind] = {
    "rate": RatePanel,
    "pauses": PausePanel,
    "kinds": KindPanel,
    "points": PointPanel,
    "feedback": HistogramPanel,
    "advertised": AdvertisedPanel,
    "latency": LatencyPanel,
}
"""Every kind of panel, in the order in which a report shows them."""

HEADINGS: Mapping[Name, str] = {
    "rate": "Rate of all frames",
    "pauses": "Time stopped by PAUSE and PFC",
    "kinds": "Messages and flow control",
    "points": "CNMs by congestion point",
    "feedback": "CNMs by quantized feedback",
    "advertised": "Advertised rates",
    "latency": "Latency measured by E²CM probes",
}

_PAD_PX = 6.0
_READOUT_PX = 24.0
_BASE_PX = 9.0
_MARGIN_PX = 24.0
_TITLE_PX = 62.0
_LEAD_PX = 24.0
_HEADING_PX = 34.0


def panel_of(name: Name, statistics: Statistics, form: Format) -> Panel:
    """Return one panel; whether there is anything to show is in its ``shown``."""
    intervals = statistics.intervals
    span_ns = intervals.count * intervals.width_ns
    return PANELS[name](statistics, TimeAxis(span_ns=span_ns, scale=time_scale(span_ns)), form)


def single(name: Name, statistics: Statistics, form: Format) -> Figure:
    """Draw one panel by itself; call it inside of ``canvas.drawn_svg`` or its PNG twin."""
    panel = panel_of(name, statistics, form)
    sheet = Sheet(form, _PAD_PX + _height_px(panel, form.left_px, form.width_px))
    _put(sheet, panel, _PAD_PX, left_px=0.0, right_px=form.width_px)
    return sheet.figure


def whole(statistics: Statistics, capture: str, lead: Sequence[str]) -> Figure:
    """Draw all panels under one another, below the capture's name and lines of text."""
    width_px = 2 * _MARGIN_PX + WIDE.width_px
    panels = {name: panel_of(name, statistics, WIDE) for name in PANELS}
    shown = {name: panel for name, panel in panels.items() if panel.shown}
    right_px = width_px - _MARGIN_PX
    heights_px = [_HEADING_PX + _height_px(panel, _MARGIN_PX, right_px) for panel in shown.values()]
    top_px = _TITLE_PX + _LEAD_PX * len(lead)
    sheet = Sheet(WIDE, top_px + sum(heights_px) + _MARGIN_PX, width_px=width_px)
    room_px = width_px - 2 * _MARGIN_PX
    sheet.text(_MARGIN_PX, 34, capture, bold=True, size_px=19, room_px=room_px)
    for line, text in enumerate(lead):
        sheet.text(_MARGIN_PX, _TITLE_PX + _LEAD_PX * line, text, size_px=15, room_px=room_px)
    for (name, panel), height_px in zip(shown.items(), heights_px, strict=True):
        sheet.text(_MARGIN_PX, top_px + 24, HEADINGS[name], bold=True)
        _put(sheet, panel, top_px + _HEADING_PX, left_px=_MARGIN_PX, right_px=right_px)
        top_px += height_px
    return sheet.figure


def _height_px(panel: Panel, left_px: float, right_px: float) -> float:
    legend = legend_px(panel.entries(), panel.form, left_px, right_px)
    return legend + _READOUT_PX + panel.height_px + TIME_PX


def _put(sheet: Sheet, panel: Panel, top_px: float, *, left_px: float, right_px: float) -> None:
    """Put a panel on a sheet between ``left_px`` and ``right_px``, its legend and readout above it."""
    form, small_px = panel.form, panel.form.text_px - 1
    sheet.legend(panel.entries(), left_px, top_px, right_px)
    top_px += legend_px(panel.entries(), form, left_px, right_px) + _READOUT_PX
    place = Place(left_px=left_px + panel.left_px, top_px=top_px, right_px=right_px - panel.right_px)
    axes = sheet.axes(place.left_px, top_px, place.right_px - place.left_px, panel.height_px)
    panel.draw(axes)
    base_px = top_px - _BASE_PX
    sheet.text(place.left_px - 6, base_px, panel.unit, align="right", colour=MUTED, size_px=small_px)
    room_px = place.right_px - place.left_px
    sheet.text(
        place.right_px, base_px, panel.readout, align="right", colour=MUTED, size_px=small_px, room_px=room_px
    )
    if panel.timed:
        panel.time.put_on(axes)
        time_numbers(sheet, axes, panel.time, place, panel.height_px)
    else:
        base_px = top_px + panel.height_px + TIME_PX - 7
        sheet.text(
            place.right_px, base_px, "quantized feedback", align="right", colour=MUTED, size_px=small_px
        )
