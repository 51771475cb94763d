"""The statistics of a capture as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ecmproto.formats.text import mac_text
from ecmproto.report.canvas import drawn_svg
from ecmproto.report.capture_figures import HEADINGS, PANELS, Name, panel_of, single
from ecmproto.report.capture_words import READING, extent, lost_to_pause, whom
from ecmproto.report.html import POLICY, pairs, section
from ecmproto.report.markup import Markup, element, joined
from ecmproto.report.printable import shortened
from ecmproto.report.scale import ABSENT, value_text
from ecmproto.report.sheet import NARROW, WIDE
from ecmproto.report.stylesheet import stylesheet
from ecmproto.report.vector import page_svg
from ecmproto.stats import Statistics
from ecmproto.units import format_octets, format_rate, format_time

_MOST_ROWS = 50
_MOST_CHARACTERS = 40


def statistics_page(statistics: Statistics, capture: str) -> str:
    """Return the text of an HTML file; MissingDependencyError without matplotlib."""
    parts = [
        ("numbers", "In numbers", element("dl", *pairs(list(_facts(statistics))))),
        *((name, HEADINGS[name], _figure(name, statistics)) for name in PANELS),
        ("stopped", "Who stopped whom", _stopped(statistics)),
        ("what", "Kinds of frames", _kinds(statistics)),
        ("malformed", "Malformed", _malformed(statistics)),
        ("notes", "Notes", element("ul", *(element("li", note) for note in statistics.notes))),
    ]
    shown = [(name, heading, content) for name, heading, content in parts if content]
    items = [element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in shown]
    header = element(
        "header",
        element("p", "ecmproto · what is in a capture", class_="kicker"),
        element("h1", capture),
        *(
            element("p", text, class_="lead")
            for text in (lost_to_pause(statistics), extent(statistics))
            if text
        ),
        element("nav", element("ul", *items), aria_label="Parts of this page"),
    )
    main = element("main", *(section(name, heading, content) for name, heading, content in shown))
    body = element("body", element("div", header, main, class_="page"))
    return f"<!DOCTYPE html>\n{element('html', _head(capture), body, lang='en')}\n"


def _head(capture: str) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", capture or "Statistics"),
        element("style", Markup(stylesheet())),
    )


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


def _figure(name: Name, statistics: Statistics) -> Markup:
    if not panel_of(name, statistics, WIDE).shown:
        return Markup()
    pictures = []
    for form, width in ((WIDE, "wide"), (NARROW, "narrow")):
        svg = drawn_svg(lambda form=form: single(name, statistics, form))  # type: ignore[misc]
        description = f"{HEADINGS[name]}. {panel_of(name, statistics, form).readout}"
        pictures.append(
            Markup(page_svg(svg, name=f"{name}-{width}", description=description, css_class=f"plot {width}"))
        )
    return element("figure", element("figcaption", READING[name]), *pictures)


def _stopped(statistics: Statistics) -> Markup:
    if statistics.pauses is None:
        return Markup()
    rows = [
        [
            "?" if sender.source is None else mac_text(sender.source),
            shortened(statistics.interface_name(sender.interface), _MOST_CHARACTERS),
            whom(each),
            ABSENT if (share := statistics.share(each.paused_ns)) is None else value_text(share, "share"),
            format_time(each.paused_ns),
            value_text(each.pauses, "count"),
            value_text(each.resumes, "count"),
        ]
        for sender in statistics.pauses.senders
        for each in sender.classes
    ]
    heads = ("Sender", "Interface", "Stopped", "Part of the time", "Time", "Pauses", "Resumes")
    return _table(heads, rows)


def _kinds(statistics: Statistics) -> Markup:
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
    return _table(("Kind", "Frames", "Part of all", "Octets", "Mean rate"), rows)


def _malformed(statistics: Statistics) -> Markup:
    rows = [[what, value_text(count, "frames")] for what, count in statistics.malformed.items()]
    return _table(("What is wrong", "Frames"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    if not rows:
        return Markup()
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:]))
        for row in rows[:_MOST_ROWS]
    ]
    table = element(
        "table",
        element("thead", element("tr", *(element("th", head, scope="col") for head in heads))),
        element("tbody", *body),
        class_="results",
    )
    more = len(rows) - _MOST_ROWS
    rest = element("p", f"And {more} more.") if more > 0 else Markup()
    return joined(element("div", table, class_="scroll"), rest)
