"""The statistics of a capture as an HTML, PNG, SVG or JSON file, chosen by the file's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ecmproto.report.canvas import drawn_png, drawn_svg, require_matplotlib
from ecmproto.report.capture_figures import whole
from ecmproto.report.capture_page import statistics_page
from ecmproto.report.capture_words import extent, lost_to_pause
from ecmproto.report.output import form_of
from ecmproto.report.vector import standalone_svg
from ecmproto.stats import Statistics, document_text


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
    """Return what makes the octets for a file called ``path``, with .gz or .zst behind it or not.

    Call it before the work.  Raises OutputError for another suffix and MissingDependencyError where
    matplotlib is needed and missing.
    """
    form = form_of(path, FORMS)
    if form is not statistics_json:
        require_matplotlib()
    return form
