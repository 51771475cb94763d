"""The statistics of a capture as one self-contained HTML page, as a PNG, an SVG or JSON, by the file's
name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ecmproto.formats.text import mac_text
from ecmproto.report.capture_panels import (
    AdvertisedPanel,
    CnpPanel,
    DelayPanel,
    HistogramPanel,
    KindPanel,
    LatencyPanel,
    MarkPanel,
    PanelKind,
    PausePanel,
    PointPanel,
    RatePanel,
)
from ecmproto.report.figures import TIME_PX, PanelPlace, header_px, time_numbers
from ecmproto.report.figures import panel as draw_panel
from ecmproto.report.page import Block, Facts, Notes, Page, Section, Table, form_of, page_html, picture
from ecmproto.report.panels import Panels, TimeAxis
from ecmproto.report.run import ABSENT, time_scale, value_text
from ecmproto.report.sheet import (
    MUTED,
    WIDE,
    Format,
    Sheet,
    drawn_png,
    drawn_svg,
    legend_px,
    require_matplotlib,
    shortened,
    standalone_svg,
)
from ecmproto.stats import ClassPause, Statistics, document_text
from ecmproto.stats.statistics import PFC_FAULTS
from ecmproto.units import NS_PER_S, format_octets, format_rate, format_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Name = Literal[
    "rate", "pauses", "marks", "cnps", "delay", "kinds", "points", "feedback", "advertised", "latency"
]

PANELS: Mapping[Name, PanelKind] = {
    "rate": RatePanel,
    "pauses": PausePanel,
    "marks": MarkPanel,
    "cnps": CnpPanel,
    "delay": DelayPanel,
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
    "marks": "RoCE frames marked CE",
    "cnps": "CNPs",
    "delay": "Delay of CNPs",
    "kinds": "Messages and flow control",
    "points": "CNMs by congestion point",
    "feedback": "CNMs by quantized feedback",
    "advertised": "Advertised rates",
    "latency": "Latency measured by E²CM probes",
}

NS_PER_MS = NS_PER_S // 1000
_PAD_PX = 6.0
_MARGIN_PX = 24.0
_TITLE_PX = 62.0
_LEAD_PX = 24.0
_HEADING_PX = 34.0


def panel_of(name: Name, statistics: Statistics, form: Format) -> Panels[Statistics]:
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


def _height_px(panel: Panels[Statistics], left_px: float, right_px: float) -> float:
    (statistics,) = panel.runs
    legend = legend_px(panel.entries(), panel.form, left_px, right_px)
    header = header_px(panel, statistics, panel.form, title=False)
    return legend + header + panel.height_px(statistics) + TIME_PX


def _put(sheet: Sheet, panel: Panels[Statistics], top_px: float, *, left_px: float, right_px: float) -> None:
    """Put a panel on a sheet between ``left_px`` and ``right_px``, its legend and readout above it."""
    (statistics,) = panel.runs
    form, height_px = panel.form, panel.height_px(statistics)
    sheet.legend(panel.entries(), left_px, top_px, right_px)
    top_px += legend_px(panel.entries(), form, left_px, right_px)
    top_px += header_px(panel, statistics, form, title=False)
    place = PanelPlace(left_px=left_px + panel.left_px, top_px=top_px, right_px=right_px - panel.right_px)
    axes = draw_panel(sheet, panel, statistics, place, title="")
    if panel.timed:
        panel.time.put_on(axes)
        time_numbers(sheet, axes, panel.time, place, height_px)
    else:
        base_px, small_px = top_px + height_px + TIME_PX - 7, form.text_px - 1
        label = getattr(panel, "axis_label", "")
        sheet.text(place.right_px, base_px, label, align="right", colour=MUTED, size_px=small_px)


READING: Mapping[Name, str] = {
    "rate": (
        "Octets of frames as they were on the wire, times eight. The line is the mean of each short span "
        "of time, the shaded area reaches up to the peak in it."
    ),
    "pauses": (
        "For how much of each short span of time a pause was in force; the figure at the right is the part "
        "of the whole capture. Whoever is named sent the pause frames: who stood still is the other end of "
        "the link. No drop counter shows this time."
    ),
    "marks": "The part of all RoCE frames whose ECN field says that a queue on the way was too long.",
    "cnps": "Congestion notification packets a second: each asks a queue pair's sender to slow down.",
    "delay": (
        "How long it took from the first marked frame of a flow, since the last CNP for it, to the next CNP. "
        "CNPs that are not known to be for one flow are not here."
    ),
    "kinds": "Congestion messages and pause frames a second, kind by kind.",
    "points": "Congestion notification messages a second of the congestion points that sent most.",
    "feedback": (
        "How strongly CNMs asked for less, from 0 to 63. The farther to the right, the more congested the "
        "queues were when they were sampled."
    ),
    "advertised": (
        "The rates that switches allow rate-limited queues, as RD tags collect them and as they come back; "
        "tags that no switch has lowered yet are not drawn."
    ),
    "latency": (
        "The time that forward probes took, as the replies carry it: the destination's clock less the "
        "source's timestamp, so a difference of the two clocks is in it."
    ),
}
"""How to read each panel."""


def extent(statistics: Statistics) -> str:
    """Return a sentence with the frames, octets and rate of the capture."""
    frames = value_text(statistics.frames, "frames")
    if not statistics.frames:
        return "There is no frame in it."
    size = f"{frames} frames, {format_octets(statistics.octets)}"
    rate = statistics.span.per_second(8 * statistics.octets)
    if rate is not None:
        size += f" in {format_time(statistics.span.duration_ns)} ({format_rate(rate)})"
    return f"{size}."


def lost_to_pause(statistics: Statistics) -> str:
    """Return a sentence on what the worst sender of pauses cost; nothing where nobody paused."""
    if statistics.pauses is None or not statistics.pauses.senders[0].paused_ns:
        return ""
    sender = statistics.pauses.senders[0]
    worst = max(sender.classes, key=lambda each: each.paused_ns)
    share = statistics.share(sender.paused_ns)
    part = "" if share is None else f"{value_text(share, 'share')} of the time, "
    source = "a sender" if sender.source is None else mac_text(sender.source)
    most = ", most of all" if worst.paused_ns != sender.paused_ns else ""
    stopped = f"{source} stopped its link partner{most}: {whom(worst)}"
    return f"Lost to pause: {part}{format_time(sender.paused_ns)}. {stopped[0].upper()}{stopped[1:]}."


def whom(each: ClassPause) -> str:
    """Return whom pauses of a class stop."""
    return "the whole link" if each.priority is None else f"priority {each.priority}"


_MOST_ROWS = 50
_MOST_CHARACTERS = 40


def statistics_page(statistics: Statistics, capture: str) -> str:
    """Return the text of an HTML file; MissingDependencyError without matplotlib or jinja2."""
    return page_html(
        Page(
            title=capture or "Statistics",
            heading=capture,
            kicker="what is in a capture",
            leads=_lead(statistics),
            sections=[
                Section("numbers", "In numbers", [Facts(list(_facts(statistics)))]),
                *(Section(name, HEADINGS[name], list(_figure(name, statistics))) for name in PANELS),
                _table("stopped", "Who stopped whom", _STOPPED, _stopped(statistics)),
                _table("storms", "Storms", _STORMS, _storms(statistics)),
                _table("faults", "PFC frames that are not valid", _FAULTS, _faults(statistics)),
                _table("roce", "RoCE by queue pair", _QUEUE_PAIRS, _queue_pairs(statistics)),
                _table("what", "Kinds of frames", _KINDS, _kinds(statistics)),
                _table("malformed", "Malformed", ("What is wrong", "Frames"), _malformed(statistics)),
                Section("notes", "Notes", [Notes(statistics.notes)] if statistics.notes else []),
            ],
        )
    )


def _table(name: str, heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Section:
    """Return a section with a table; it is empty without rows."""
    table = Table(
        name=name, label=heading, columns=columns, rows=rows[:_MOST_ROWS], css_class="results",
        more=max(0, len(rows) - _MOST_ROWS),
    )  # fmt: skip
    return Section(name, heading, [table] if rows else [])


def _facts(statistics: Statistics) -> Iterator[tuple[str, str]]:
    yield "Frames", value_text(statistics.frames, "frames")
    yield "Octets", format_octets(statistics.octets)
    if statistics.span.duration_ns:
        yield "Span", format_time(statistics.span.duration_ns)
    peak = statistics.peak_per_second(statistics.octets_over_time)
    if peak is not None:
        yield "Peak rate", f"{format_rate(8 * peak)} in {format_time(statistics.intervals.width_ns)}"
    odd = (
        ("Cut frames", statistics.cut_frames),
        ("Malformed frames", statistics.malformed_frames),
        ("Frames without a time", statistics.untimed_frames),
        ("Frames stamped backwards", statistics.backwards_frames),
    )
    for name, count in odd:
        if count:
            yield name, value_text(count, "frames")
    if statistics.problem is not None:
        yield "Read up to", str(statistics.problem)


def _figure(name: Name, statistics: Statistics) -> Iterator[Block]:
    if panel_of(name, statistics, WIDE).shown:
        yield picture(
            name,
            READING[name],
            lambda form: single(name, statistics, form),
            lambda form: f"{HEADINGS[name]}. {panel_of(name, statistics, form).readout(statistics)}",
        )


_STOPPED = (
    "Sender", "Interface", "Stopped", "Part of the time", "Time", "Pauses", "Resumes", "Transitions",
    "Latest pause at", "For", "Ran out",
)  # fmt: skip
_STORMS = ("Sender", "Interface", "Stopped", "Begun", "Detected", "Restored", "Seen")
_FAULTS = ("What is wrong", "Frames", "First from")
_QUEUE_PAIRS = (
    "Flow", "Frames", "Rate", "ECT", "CE", "CNPs for it", "Delay p50", "p99", "PSNs missing", "Repeats",
    "NAKs", "CNPs in it", "About QP", "Known by",
)  # fmt: skip
_KINDS = ("Kind", "Frames", "Part of all", "Octets", "Mean rate")


def _stopped(statistics: Statistics) -> list[list[str]]:
    if statistics.pauses is None:
        return []
    return [
        [
            "?" if sender.source is None else mac_text(sender.source),
            shortened(statistics.interface_name(sender.interface), _MOST_CHARACTERS),
            whom(each),
            ABSENT if (share := statistics.share(each.paused_ns)) is None else value_text(share, "share"),
            format_time(each.paused_ns),
            value_text(each.pauses, "count"),
            value_text(each.resumes, "count"),
            value_text(each.transitions or 0, "count"),
            ABSENT if each.recent_ns is None else _when(statistics, each.recent_ns),
            format_time(each.recent_paused_ns or 0),
            value_text(each.expired or 0, "count"),
        ]
        for sender in statistics.pauses.senders
        for each in sender.classes
    ]


def _when(statistics: Statistics, time_ns: int) -> str:
    """Return a time from the start of the picture on."""
    return f"{(time_ns - statistics.intervals.start_ns) / NS_PER_MS:,.3f} ms"


def _storms(statistics: Statistics) -> list[list[str]]:
    storms = statistics.pauses.storms if statistics.pauses is not None else ()
    return [
        [
            "?" if storm.source is None else mac_text(storm.source),
            shortened(statistics.interface_name(storm.interface), _MOST_CHARACTERS),
            "the whole link" if storm.priority is None else f"priority {storm.priority}",
            _when(statistics, storm.begun_ns),
            _when(statistics, storm.detected_ns),
            ABSENT if storm.restored_ns is None else _when(statistics, storm.restored_ns),
            f"{storm.frames_left} frames left" if storm.seen == "traffic" else storm.seen,
        ]
        for storm in storms
    ]


def _faults(statistics: Statistics) -> list[list[str]]:
    faults = statistics.pfc.faults if statistics.pfc is not None else ()
    return [
        [PFC_FAULTS[each.fault], value_text(each.frames, "frames"),
         "?" if each.source is None else mac_text(each.source)]
        for each in faults
    ]  # fmt: skip


def _queue_pairs(statistics: Statistics) -> list[list[str]]:
    rows = []
    for each in statistics.roce.queue_pairs if statistics.roce is not None else ():
        rate = statistics.span.per_second(8 * each.octets)
        refusals = each.refusals_against if each.is_settled else each.refusals_against + each.refusals
        rows.append(
            [
                f"{each.source} → {each.destination} QP {each.queue_pair:#x}",
                value_text(each.frames, "frames"),
                ABSENT if rate is None else format_rate(rate),
                value_text(each.ect_frames / each.frames, "share"),
                value_text(each.ce_frames / each.frames, "share"),
                value_text(each.cnps_against, "count") if each.other_direction else "?",
                ABSENT if each.delay_ns is None else format_time(each.delay_ns.p50),
                ABSENT if each.delay_ns is None else format_time(each.delay_ns.p99),
                value_text(each.psns_missing, "count"),
                value_text(each.psn_repeats, "count"),
                value_text(refusals, "count"),
                value_text(each.cnps, "count"),
                ", ".join(f"{qp:#x}" for qp in each.about) or ABSENT,
                each.about_by or ABSENT,
            ]
        )
    return rows


def _kinds(statistics: Statistics) -> list[list[str]]:
    rows = []
    for each in statistics.kinds:
        rate = statistics.span.per_second(8 * each.octets)
        rows.append(
            [
                each.kind.title,
                value_text(each.frames, "frames"),
                value_text(each.frames / statistics.frames, "share"),
                format_octets(each.octets),
                ABSENT if rate is None else format_rate(rate),
            ]
        )
    return rows


def _malformed(statistics: Statistics) -> list[list[str]]:
    return [[what, value_text(count, "frames")] for what, count in statistics.malformed.items()]


def statistics_html(statistics: Statistics, capture: str) -> bytes:
    """Return a self-contained HTML page; raises MissingDependencyError without matplotlib."""
    return statistics_page(statistics, capture).encode()


def statistics_png(statistics: Statistics, capture: str) -> bytes:
    """Return all panels as one PNG; raises MissingDependencyError without matplotlib."""
    return drawn_png(lambda: whole(statistics, capture, _lead(statistics)))


def statistics_svg(statistics: Statistics, capture: str) -> bytes:
    """Return all panels as one SVG; raises MissingDependencyError without matplotlib."""
    return standalone_svg(drawn_svg(lambda: whole(statistics, capture, _lead(statistics))), title=capture)


def _lead(statistics: Statistics) -> list[str]:
    return [*filter(None, [lost_to_pause(statistics)]), extent(statistics)]


def statistics_json(statistics: Statistics, capture: str) -> bytes:
    """Return the JSON document."""
    return document_text(statistics, capture).encode()


Form = Callable[[Statistics, str], bytes]

FORMS: Mapping[str, Form] = {
    ".html": statistics_html,
    ".htm": statistics_html,
    ".png": statistics_png,
    ".svg": statistics_svg,
    ".json": statistics_json,
}


def statistics_form(path: str) -> Form:
    """Return the function that makes the octets of a file ``path``, with .gz or .zst behind it or not.

    Call it before the work.  Raises OutputError for another suffix and MissingDependencyError where
    matplotlib is needed and missing.
    """
    form = form_of(path, FORMS)
    if form is not statistics_json:
        require_matplotlib()
    return form
