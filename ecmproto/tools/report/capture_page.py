"""Capture statistics as an HTML page, a PNG or SVG picture, or a JSON document."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecmproto.frames.stats import PauseSender, PauseStorm, Statistics, document_text
from ecmproto.frames.stats.cells import ABSENT, Columns, cells
from ecmproto.tools.report.capture_panels import PANELS, Name, address_text
from ecmproto.tools.report.figures import TIME_PX, draw_panel, header_px
from ecmproto.tools.report.page import (
    Block,
    Facts,
    Notes,
    Page,
    Section,
    Table,
    file_forms,
    form_of,
    page_html,
    picture,
)
from ecmproto.tools.report.panels import Panels, TimeAxis
from ecmproto.tools.report.run import time_scale, value_text
from ecmproto.tools.report.sheet import WIDE, Format, Moments, Sheet, legend_px, require_matplotlib, shortened
from ecmproto.units import (
    NS_PER_S,
    format_octets,
    format_rate,
    format_share,
    format_time,
    one_precision,
    per_second,
)
from ecmproto.wire.formats.text import mac_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NS_PER_MS = NS_PER_S // 1000
_PAD_PX = 6.0
_MARGIN_PX = 24.0
_TITLE_PX = 62.0
_LEAD_PX = 24.0
_HEADING_PX = 38.0
_BINS_OF_MOMENT = 2
_Panels = dict[Name, Panels[Statistics]]


def panel_of(name: Name, statistics: Statistics, form: Format) -> Panels[Statistics]:
    """Return a panel by name. The panel's ``shown`` is false if the panel has no data."""
    intervals = statistics.intervals
    span_ns = intervals.count * intervals.width_ns
    return PANELS[name].panels(statistics, TimeAxis(span_ns=span_ns, scale=time_scale(span_ns)), form)


def panels_of(statistics: Statistics, form: Format, *, timed: bool) -> _Panels:
    """Return the panels with data by name. ``timed`` selects panels over time, or else all other panels.

    The axes of all panels over time have a common left edge and a common right edge.
    """
    panels = {name: panel_of(name, statistics, form) for name in PANELS}
    shown = {name: panel for name, panel in panels.items() if panel.shown and (not panel.axis_label) is timed}
    if timed:
        left_px = max((panel.left_px for panel in shown.values()), default=0.0)
        right_px = max((panel.right_px for panel in shown.values()), default=0.0)
        for panel in shown.values():
            panel.left_px, panel.right_px = left_px, right_px
    return shown


def single(name: Name, statistics: Statistics, form: Format) -> Figure:
    """Draw a figure with one panel. Call this function within ``sheet.drawn_svg`` or ``sheet.drawn_png``."""
    panel = panel_of(name, statistics, form)
    sheet = Sheet(form, _PAD_PX + _height_px(panel, form.left_px, form.width_px))
    _put(sheet, panel, _PAD_PX, 0.0)
    return sheet.figure


def timeline(panels: _Panels, form: Format) -> Figure:
    """Draw the panels over time in one column with a common time axis."""
    sheet = Sheet(form, _PAD_PX + _column_px(panels, 0.0, form.width_px))
    _put_column(sheet, panels, _PAD_PX, 0.0)
    return sheet.figure


def whole(statistics: Statistics, capture: str, lead: Sequence[str]) -> Figure:
    """Draw all panels in one column, below the name of the capture and the lines of ``lead``."""
    width_px = 2 * _MARGIN_PX + WIDE.width_px
    over_time, others = (panels_of(statistics, WIDE, timed=timed) for timed in (True, False))
    columns = [over_time, *({name: panel} for name, panel in others.items())]
    right_px = width_px - _MARGIN_PX
    top_px = _TITLE_PX + _LEAD_PX * len(lead)
    heights_px = [_column_px(panels, _MARGIN_PX, right_px) for panels in columns]
    sheet = Sheet(WIDE, top_px + sum(heights_px) + _MARGIN_PX, width_px=width_px)
    max_px = width_px - 2 * _MARGIN_PX
    sheet.text(_MARGIN_PX, 34, capture, bold=True, size_px=19, max_px=max_px)
    for line, text in enumerate(lead):
        sheet.text(_MARGIN_PX, _TITLE_PX + _LEAD_PX * line, text, size_px=15, max_px=max_px)
    for panels, height_px in zip(columns, heights_px, strict=True):
        _put_column(sheet, panels, top_px, _MARGIN_PX)
        top_px += height_px
    return sheet.figure


def _column_px(panels: _Panels, left_px: float, right_px: float) -> float:
    """Return the height of a column of panels with headings. The last panel has the numbers of the axis."""
    heights_px = [_HEADING_PX + _height_px(panel, left_px, right_px) - TIME_PX for panel in panels.values()]
    return sum(heights_px) + TIME_PX if panels else 0.0


def _put_column(sheet: Sheet, panels: _Panels, top_px: float, left_px: float) -> None:
    for name, panel in panels.items():
        sheet.text(left_px, top_px + 28, PANELS[name].heading, bold=True, max_px=panel.form.width_px)
        is_last = panel is [*panels.values()][-1]
        top_px = _put(sheet, panel, top_px + _HEADING_PX, left_px, numbers=is_last)


def _height_px(panel: Panels[Statistics], left_px: float, right_px: float) -> float:
    (statistics,) = panel.runs
    legend = legend_px(panel.entries(), panel.form, left_px, right_px)
    header = header_px(panel, statistics, panel.form, title=False)
    return legend + header + panel.height_px(statistics) + TIME_PX


def _put(
    sheet: Sheet, panel: Panels[Statistics], top_px: float, left_px: float, *, numbers: bool = True
) -> float:
    """Draw a panel with its legend and readout on a sheet, and return the bottom of the axes."""
    (statistics,) = panel.runs
    right_px = left_px + panel.form.width_px
    sheet.legend(panel.entries(), left_px, top_px, right_px)
    legend = legend_px(panel.entries(), panel.form, left_px, right_px)
    draw_panel(sheet, panel, statistics, left_px, top_px + legend, numbers=numbers)
    return top_px + _height_px(panel, left_px, right_px) - TIME_PX


def _moments(panels: _Panels, form: Format) -> Moments:
    """Return the time spans that a reader can point to."""
    panel = next(iter(panels.values()))
    bins = form.bins // _BINS_OF_MOMENT
    edges = [panel.time.span_ns * each // bins for each in range(bins + 1)]
    return Moments(
        left_px=panel.left_px,
        right_px=form.width_px - panel.right_px,
        bottom_px=_PAD_PX + _column_px(panels, 0.0, form.width_px) - TIME_PX,
        labels=[f"{format_time(start)} to {format_time(end)}" for start, end in itertools.pairwise(edges)],
    )


def extent(statistics: Statistics) -> str:
    """Return a sentence with the number of frames, the octets and the rate of a capture."""
    frames = value_text(statistics.frames, "frames")
    if not statistics.frames:
        return "The capture has no frames."
    size = f"{frames} frames, {format_octets(statistics.octets)}"
    rate = statistics.bits_per_s(statistics)
    if rate is not None:
        size += f" in {format_time(statistics.span.duration_ns)} ({format_rate(rate)})"
    return f"{size}."


def lost_to_pause(statistics: Statistics) -> str:
    """Return a sentence on the sender with the longest pause time. Without pauses, the text is empty."""
    if statistics.pauses is None or not statistics.pauses.senders[0].paused_ns:
        return ""
    sender = statistics.pauses.senders[0]
    worst = max(sender.classes, key=lambda each: each.paused_ns)
    share = statistics.share(sender.paused_ns)
    part = "" if share is None else f"{value_text(share, 'share')} of the time, "
    source = "a sender" if sender.source is None else mac_text(sender.source)
    addition = ", most of all" if worst.paused_ns != sender.paused_ns else ""
    stopped = f"{source} paused its link partner{addition}: {worst.whom}"
    return f"Lost to pause: {part}{format_time(sender.paused_ns)}. {stopped[0].upper()}{stopped[1:]}."


_MAX_ROWS = 50
_BROAD_ABOVE = 8
"""The maximum number of columns of a table that is not broader than the text."""
_MAX_CHARACTERS = 40


def statistics_page(statistics: Statistics, capture: str) -> str:
    """Return an HTML file as text. Raises MissingDependencyError if matplotlib or jinja2 is missing."""
    return page_html(
        Page(
            title=capture or "Statistics",
            heading=capture,
            kicker="what is in a capture",
            leads=_leads(statistics),
            sections=[
                Section("numbers", "In numbers", [Facts(list(_facts(statistics)))]),
                Section("time", "Over time", list(_timeline(statistics))),
                *(
                    Section(name, PANELS[name].heading, [_figure(name, statistics)])
                    for name in panels_of(statistics, WIDE, timed=False)
                ),
                *_tables(statistics),
                Section("notes", "Notes", [Notes(statistics.notes)] if statistics.notes else []),
            ],
        )
    )


def _table(name: str, heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Section:
    """Return a section with a table. Without rows, the section is empty."""
    table = Table(
        name=name, label=heading, columns=columns, rows=one_precision(rows[:_MAX_ROWS]), css_class="results",
        more=max(0, len(rows) - _MAX_ROWS), is_broad=len(columns) > _BROAD_ABOVE,
    )  # fmt: skip
    return Section(name, heading, [table] if rows else [])


def _facts(statistics: Statistics) -> Iterator[tuple[str, str]]:
    yield "Frames", value_text(statistics.frames, "frames")
    yield "Octets", format_octets(statistics.octets)
    if statistics.span.duration_ns:
        yield "Span", format_time(statistics.span.duration_ns)
    peak = statistics.peak_bits_per_s(statistics)
    if peak is not None:
        yield "Peak rate", f"{format_rate(peak)} in {format_time(statistics.intervals.width_ns)}"
    problems = (
        ("Truncated frames", statistics.cut_frames),
        ("Malformed frames", statistics.malformed_frames),
        ("Frames without a time", statistics.untimed_frames),
        ("Frames with decreasing time stamps", statistics.backwards_frames),
    )
    for name, count in problems:
        if count:
            yield name, value_text(count, "frames")
    if statistics.problem is not None:
        yield "Read up to", str(statistics.problem)


def _figure(name: Name, statistics: Statistics) -> Block:
    return picture(
        name,
        PANELS[name].reading,
        lambda form: single(name, statistics, form),
        lambda form: _description(name, panel_of(name, statistics, form)),
    )


def _timeline(statistics: Statistics) -> Iterator[Block]:
    """Yield a picture of all panels over time, and the explanations of these panels."""
    panels = functools.cache(lambda form: panels_of(statistics, form, timed=True))
    if panels(WIDE):
        yield picture(
            "time",
            "All panels have one time axis. Pointing at a moment marks it in all of them.",
            lambda form: timeline(panels(form), form),
            lambda form: " ".join(itertools.starmap(_description, panels(form).items())),
            lambda form: _moments(panels(form), form),
        )
        yield Facts([(PANELS[name].heading, PANELS[name].reading) for name in panels(WIDE)])


def _description(name: Name, panel: Panels[Statistics]) -> str:
    (statistics,) = panel.runs
    return f"{PANELS[name].heading}. {panel.readout(statistics)}"


def _time_column(name: str) -> Callable[[Any, Statistics], str | None]:
    """Return a function that formats the attribute ``name`` as time since the first interval."""

    def text(row: Any, whole: Statistics) -> str | None:
        time_ns = getattr(row, name)
        return None if time_ns is None else f"{(time_ns - whole.intervals.start_ns) / NS_PER_MS:,.3f} ms"

    return text


_STOPPED: Columns = {
    "Stopped": "whom", "Part of the time": "paused_share", "Time": "paused_ns", "Pauses": "pauses",
    "Resumes": "resumes", "Transitions": "transitions", "Latest pause at": _time_column("recent_ns"),
    "For": "recent_paused_ns", "Ran out": "expired",
}  # fmt: skip
_STORMS: Columns = {
    "Stopped": "whom", "Begun": _time_column("begun_ns"), "Detected": _time_column("detected_ns"),
    "Restored": _time_column("restored_ns"),
    "Seen": lambda each, _: f"{each.frames_left} frames left" if each.seen == "traffic" else each.seen,
}  # fmt: skip
_FAULTS: Columns = {
    "What is wrong": "meaning", "Frames": "frames", "First from": lambda each, _: address_text(each.source),
}  # fmt: skip
_QUEUE_PAIRS: Columns = {
    "Flow": lambda each, _: f"{each.source} → {each.destination} QP {each.queue_pair:#x}",
    "Frames": "frames", "Rate": "bits_per_s", "ECT": "ect_share", "CE": "ce_share",
    "CNPs for it": lambda each, _: each.cnps_against if each.other_direction else "?",
    "Delay p50": "delay_ns.p50", "p99": "delay_ns.p99", "PSNs missing": "psns_missing",
    "Repeats": "psn_repeats", "Sent again by": lambda each, _: each.retransmission or ABSENT,
    "NAKs": lambda each, _: each.refusals_against + (0 if each.is_settled else each.refusals),
    "CNPs in it": "cnps",
    "About QP": lambda each, _: ", ".join(f"{qp:#x}" for qp in each.about) or ABSENT,
    "Known by": lambda each, _: each.about_by or ABSENT,
}  # fmt: skip
_NEIGHBOURS: Columns = {
    "Neighbour": lambda each, _: address_text(each.source),
    "Interface": lambda each, whole: shortened(whole.interface_name(each.interface), _MAX_CHARACTERS),
    "Port": lambda each, _: shortened(each.port, _MAX_CHARACTERS), "DCBX": "dialects_text",
    "PFC": "pfc_text", "ETS": "ets_text", "Applications": "applications_text", "CNPV": "cnpvs_text",
}  # fmt: skip
_DISCARDS: Columns = {
    "Reason": "reason", "Packets": "frames", "In": "input", "Out": "output", "Agent": "agent",
}  # fmt: skip
_COUNT_COLUMNS: Columns = {
    "Type": "kind.title", "Frames": "frames", "Share": "frames_share", "Octets": "octets",
    "Mean rate": "bits_per_s",
}  # fmt: skip


def _bound(name: str) -> Callable[[Any, Statistics], str]:
    """Return a function that formats the attribute ``name`` of an estimate with its unit."""

    def text(row: Any, _: Statistics) -> str:
        value = getattr(row, name)
        if value is None:
            return ABSENT
        if row.unit == "bits_per_s":
            return format_rate(value)
        return format_share(value) if row.unit == "share" else per_second(value)

    return text


_ESTIMATES: Columns = {
    "All frames": lambda each, _: f"{each.figure}{f' of {each.subject}' if each.subject else ''}",
    "Estimate": _bound("value"), "From": _bound("low"), "To": _bound("high"),
}  # fmt: skip
_MALFORMED: Columns = {"What is wrong": lambda row, _: row[0], "Frames": lambda row, _: row[1]}
_SENDER = ("Sender", "Interface")


def _tables(statistics: Statistics) -> Iterator[Section]:
    """Yield a section for each table. Sections without rows are empty."""
    pauses, pfc, roce, sflow = statistics.pauses, statistics.pfc, statistics.roce, statistics.sflow
    stopped = [(sender, each) for sender in (pauses.senders if pauses else ()) for each in sender.classes]
    storms = [(storm, storm) for storm in (pauses.storms if pauses else ())]
    for name, heading, columns, pairs in (
        ("stopped", "Who paused whom", _STOPPED, stopped),
        ("storms", "Storms", _STORMS, storms),
    ):
        rows = [[*_sender(statistics, sender), *cells(each, columns, statistics)] for sender, each in pairs]
        yield _table(name, heading, (*_SENDER, *columns), rows)
    estimates = statistics.sample.estimates if statistics.sample else ()
    for name, heading, columns, items in (
        ("estimates", "Estimates from a sample, with 95 % intervals", _ESTIMATES, estimates),
        ("faults", "PFC frames that are not valid", _FAULTS, pfc.faults if pfc else ()),
        ("discards", "Discarded packets, as reported by sFlow", _DISCARDS, sflow.discards if sflow else ()),
        ("neighbours", "Neighbours by LLDP", _NEIGHBOURS, statistics.neighbours),
        ("roce", "RoCE by queue pair", _QUEUE_PAIRS, roce.queue_pairs if roce else ()),
        ("what", "Types of frames", _COUNT_COLUMNS, statistics.kinds),
        ("malformed", "Malformed", _MALFORMED, tuple(statistics.malformed.items())),
    ):
        yield _table(name, heading, tuple(columns), [cells(each, columns, statistics) for each in items])


def _sender(statistics: Statistics, item: PauseSender | PauseStorm) -> tuple[str, str]:
    return address_text(item.source), shortened(statistics.interface_name(item.interface), _MAX_CHARACTERS)


def _leads(statistics: Statistics) -> list[str]:
    return [*filter(None, [lost_to_pause(statistics)]), extent(statistics)]


def statistics_json(statistics: Statistics, capture: str) -> bytes:
    """Return the statistics as an encoded JSON document."""
    return document_text(statistics, capture).encode()


Form = Callable[[Statistics, str], bytes]
FORMS: Mapping[str, Form] = {
    **file_forms(
        statistics_page,
        lambda statistics, capture: whole(statistics, capture, _leads(statistics)),
        lambda statistics, capture: capture,
    ),
    ".json": statistics_json,
}
"""Functions that return the content of a file, by file name suffix."""

statistics_html: Callable[..., bytes] = FORMS[".html"]
statistics_png: Callable[..., bytes] = FORMS[".png"]
statistics_svg: Callable[..., bytes] = FORMS[".svg"]


def statistics_form(path: str) -> Form:
    """Return the function that creates the content of file ``path``.

    The suffix may be followed by .gz or .zst.

    Call this function before reading the capture. Raises OutputError for an unknown suffix, and
    MissingDependencyError if matplotlib is required but missing.
    """
    form = form_of(path, FORMS)
    if form is not statistics_json:
        require_matplotlib()
    return form
