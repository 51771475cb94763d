"""One self-contained HTML page: no script, no network, nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ecmproto.report.canvas import drawn_svg
from ecmproto.report.comparison import Cell, ComparisonRow, comparison
from ecmproto.report.figures import HEADINGS, KINDS, Kind, panels_of, stacked
from ecmproto.report.markup import Markup, element, joined
from ecmproto.report.names import listed, short_names
from ecmproto.report.run import Report, Run
from ecmproto.report.sheet import NARROW, WIDE, Format
from ecmproto.report.stylesheet import stylesheet
from ecmproto.report.summary import alternative, summary
from ecmproto.report.vector import page_svg
from ecmproto.report.words import COMPARING, GLOSSARY, MECHANISMS, READING

_BROAD_ABOVE = 5
"""More runs than these make a table that is broader than the text, where the screen is."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing."""


def html_page(report: Report) -> str:
    """Return ``report`` as the text of an HTML file; the same report gives the same text.

    Raises MissingDependencyError without matplotlib.
    """
    parts = [
        ("results", "What came out", _results(report.runs)),
        *((kind, HEADINGS[kind], _figure(kind, report.runs)) for kind in KINDS),
        ("runs", "What was run", _runs(report.runs)),
        ("words", "Words used", element("dl", *pairs(GLOSSARY))),
        ("notes", "Notes", _notes(report.notes)),
    ]
    shown = [(name, heading, content) for name, heading, content in parts if content]
    links = [(name, heading) for name, heading, _ in shown]
    sections = [section(name, heading, content) for name, heading, content in shown]
    body = element("div", _header(report, links), element("main", *sections), class_="page")
    return f"<!DOCTYPE html>\n{element('html', _head(report), element('body', body), lang='en')}\n"


def _head(report: Report) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", report.title or report.capture or "Replay"),
        element("style", Markup(stylesheet())),
    )


def _header(report: Report, links: Sequence[tuple[str, str]]) -> Markup:
    items = [element("li", element("a", text, href=f"#{target}")) for target, text in links]
    return element(
        "header",
        element("p", "ecmproto · replay of a capture through congestion management", class_="kicker"),
        element("h1", report.title),
        element("p", " ".join(summary(report)), class_="lead"),
        element("nav", element("ul", *items), aria_label="Parts of this page"),
    )


def section(name: str, heading: str, content: Markup) -> Markup:
    """Return a part of a page below its heading; links to ``name`` lead to it."""
    title = element("h2", heading, id=f"{name}-heading")
    return element("section", title, content, id=name, aria_labelledby=f"{name}-heading")


def _results(runs: Sequence[Run]) -> Markup:
    rows = comparison(runs)
    if not rows:
        return Markup()
    names = short_names(runs)
    marked = any(cell.best for row in rows for cell in row.cells)
    caption = "Results of the run." if len(runs) == 1 else "Results of the runs side by side."
    if marked:
        caption += " ★ marks the best value of a row, unless most runs share it; bars compare a row's values."
    head = element("tr", element("th", "Measure", scope="col"), *_column_heads(names))
    body = [_result_row(row) for row in rows]
    table = element(
        "table",
        element("caption", caption, id="results-caption"),
        element("thead", head),
        element("tbody", *body),
        class_="results" if len(runs) > 1 else "results single",
    )
    broad = "scroll broad" if len(runs) > _BROAD_ABOVE else "scroll"
    return element("div", table, class_=broad, tabindex="0", role="region", aria_labelledby="results-caption")


def _column_heads(names: Sequence[str]) -> list[Markup]:
    return [element("th", name, scope="col") for name in names]


def _result_row(row: ComparisonRow) -> Markup:
    compared = len(row.cells) > 1 and bool(row.better)
    label = joined(row.label)
    if compared:
        hint = "less is better" if row.better == "low" else "more is better"
        label = joined(row.label, " ", element("span", hint, class_="hint"))
    return element(
        "tr", element("th", label, scope="row"), *(_result_cell(cell, compared) for cell in row.cells)
    )


def _result_cell(cell: Cell, compared: bool) -> Markup:
    bar = element("span", class_="bar", style=f"--part:{cell.part:.3f}") if compared else Markup()
    if not cell.best:
        return element("td", cell.text, bar)
    mark = joined(element("span", "★ ", aria_hidden="true"), element("span", "best: ", class_="hidden"))
    return element("td", mark, cell.text, bar, class_="best")


def _figure(kind: Kind, runs: Sequence[Run]) -> Markup:
    """Return the figure of one kind, drawn for wide and for narrow screens; nothing if it would be empty."""
    shown = panels_of(kind, runs, WIDE).runs
    if not shown:
        return Markup()
    besides = COMPARING.get(kind, "") if len(shown) > 1 else ""
    caption = element("figcaption", READING[kind], besides, _missing(kind, runs, shown))
    pictures = [
        _picture(kind, runs, shown, form, name) for form, name in ((WIDE, "wide"), (NARROW, "narrow"))
    ]
    return element("figure", caption, *pictures)


def _picture(kind: Kind, runs: Sequence[Run], shown: Sequence[Run], form: Format, name: str) -> Markup:
    svg = drawn_svg(lambda: stacked(kind, runs, form))
    description = alternative(kind, shown, HEADINGS[kind])
    return Markup(page_svg(svg, name=f"{kind}-{name}", description=description, css_class=f"plot {name}"))


def _missing(kind: Kind, runs: Sequence[Run], shown: Sequence[Run]) -> str:
    """Return a sentence about the runs that have no panel in the figure."""
    absent = [name for name, run in zip(short_names(runs), runs, strict=True) if run not in shown]
    if not absent:
        return ""
    if kind == "sent":
        return " Without feedback every run's sources send the same, so one panel stands for all."
    return f" Nothing of the kind happened with {listed(absent)}."


def _runs(runs: Sequence[Run]) -> Markup:
    common = [fact for fact in runs[0].facts if all(fact in run.facts for run in runs)] if runs else []
    parts = [element("dl", *pairs(common))] if common else []
    if common and len(runs) > 1:
        parts.insert(0, element("p", "The same for all runs:"))
    for name, run in zip(short_names(runs), runs, strict=True):
        own = [fact for fact in run.facts if fact not in common]
        parts.append(element("h3", f"{name}: {run.title}"))
        if run.name in MECHANISMS:
            parts.append(element("p", MECHANISMS[run.name]))
        if own:
            parts.append(element("dl", *pairs(own)))
        if run.parameters:
            parts.append(_parameters(name, run))
    return joined(*parts)


def _parameters(name: str, run: Run) -> Markup:
    head = element("tr", *_column_heads(("Parameter", "Value", "What it is")))
    body = [
        element(
            "tr", element("th", element("code", key), scope="row"), element("td", text), element("td", doc)
        )
        for key, text, doc in run.parameters
    ]
    table = element(
        "table",
        element("caption", f"Parameters of {name}", class_="hidden"),
        element("thead", head),
        element("tbody", *body),
    )
    return element(
        "details", element("summary", f"Parameters of {name}"), element("div", table, class_="scroll")
    )


def _notes(notes: Sequence[str]) -> Markup:
    return element("ul", *(element("li", note) for note in notes)) if notes else Markup()


def pairs(rows: Sequence[tuple[str, str]]) -> list[Markup]:
    """Return the terms and texts of a list of definitions."""
    return [joined(element("dt", label), element("dd", text)) for label, text in rows]
