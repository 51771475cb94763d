"""The doors: a report as an HTML, PNG or SVG file, chosen by the file's name, or as its octets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TypeVar

from ecmproto.capture.writer import open_sink
from ecmproto.errors import OutputError
from ecmproto.report.canvas import drawn_png, drawn_svg, require_matplotlib
from ecmproto.report.html import html_page
from ecmproto.report.overview import overview
from ecmproto.report.run import Report
from ecmproto.report.vector import standalone_svg

_COMPRESSED = (".gz", ".zst")


def report_html(report: Report) -> bytes:
    """Return ``report`` as a self-contained HTML page; raises MissingDependencyError without matplotlib."""
    return html_page(report).encode()


def report_png(report: Report) -> bytes:
    """Return everything ``report`` shows as one PNG; raises MissingDependencyError without matplotlib."""
    return drawn_png(lambda: overview(report))


def report_svg(report: Report) -> bytes:
    """Return everything ``report`` shows as one SVG; raises MissingDependencyError without matplotlib."""
    return standalone_svg(drawn_svg(lambda: overview(report)), title=report.title)


FORMS: Mapping[str, Callable[[Report], bytes]] = {
    ".html": report_html,
    ".htm": report_html,
    ".png": report_png,
    ".svg": report_svg,
}
"""What makes a report's octets, by the suffix of the file's name."""


def report_form(path: str) -> Callable[[Report], bytes]:
    """Return what makes the octets for a file called ``path``, with .gz or .zst behind it or not.

    Call it before the work that fills the report.  Raises OutputError for a suffix that is none of FORMS
    and MissingDependencyError where matplotlib is missing.
    """
    form = form_of(path, FORMS)
    require_matplotlib()
    return form


_Form = TypeVar("_Form")


def form_of(path: str, forms: Mapping[str, _Form]) -> _Form:
    """Return the one of ``forms`` that the suffix of ``path`` names; OutputError for none of them."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    form = forms.get(suffixes[-1]) if suffixes else None
    if form is None:
        needed = f"a name that ends in {', '.join(forms)}"
        raise OutputError(path=path, needed=needed, got=suffixes[-1] if suffixes else "no suffix")
    return form


def write_report(report: Report, path: str, *, force: bool = False) -> None:
    """Write ``report`` to ``path``, in the form that its suffix names: beside it first, renamed when whole.

    Raises as :func:`report_form` does, and OutputError where the file cannot be written, or stands there
    already and ``force`` is not set.
    """
    octets = report_form(path)(report)
    with open_sink(path, force=force) as sink:
        sink.write(octets)
