"""Reports of replays and experiments as one HTML page, as PNG or SVG, by the suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ecmproto.frames.capture.writer import open_sink
from ecmproto.tools.report.figures import KINDS, Kind, listed, overview, panels_of, short_names, stacked
from ecmproto.tools.report.page import (
    Block,
    Cell,
    Facts,
    Heading,
    Notes,
    Page,
    Section,
    Table,
    Text,
    file_forms,
    form_of,
    page_html,
    picture,
)
from ecmproto.tools.report.run import ComparisonRow, Report, ReportTable, Run, comparison
from ecmproto.tools.report.sheet import WIDE, require_matplotlib
from ecmproto.tools.report.words import GLOSSARY, MECHANISMS, alternative, summary

_BROAD_ABOVE = 5
"""Number of runs above which a table is broader than the text, if the screen is."""


def html_page(report: Report) -> str:
    """Return ``report`` as the text of an HTML file; the same report gives the same text.

    Raises MissingDependencyError without matplotlib or jinja2.
    """
    return page_html(
        Page(
            title=report.title or report.capture or "Replay",
            heading=report.title,
            kicker=report.kicker,
            leads=[" ".join(summary(report))],
            sections=[
                Section("results", "Results", _results(report.runs)),
                *(
                    Section(f"table-{number}", table.heading, [_table(table, number)])
                    for number, table in enumerate(report.tables, 1)
                ),
                *(
                    Section(kind, each.heading, list(_figure(kind, report.runs)))
                    for kind, each in KINDS.items()
                ),
                Section("runs", "Setup", list(_runs(report.runs))),
                Section("words", "Glossary", [Facts(GLOSSARY)]),
                Section("notes", "Notes", [Notes(report.notes)] if report.notes else []),
            ],
        )
    )


def _results(runs: Sequence[Run]) -> list[Block]:
    rows = comparison(runs)
    if not rows:
        return []
    caption = "Results of the run." if len(runs) == 1 else "Results of the runs side by side."
    if any(cell.best for row in rows for cell in row.cells):
        caption += " ★ marks the best value of a row, unless most runs share it; bars compare a row's values."
    table = Table(
        name="results", caption=caption, columns=("Measure", *short_names(runs)),
        rows=[_result_row(row) for row in rows], is_broad=len(runs) > _BROAD_ABOVE,
        css_class="results" if len(runs) > 1 else "results single",
    )  # fmt: skip
    return [table]


def _result_row(row: ComparisonRow) -> list[str | Cell]:
    if len(row.cells) < 2 or not row.better:
        return [row.label, *(Cell(cell.text, best=cell.best) for cell in row.cells)]
    label = Cell(row.label, hint="less is better" if row.better == "low" else "more is better")
    return [label, *(Cell(cell.text, part=cell.part, best=cell.best) for cell in row.cells)]


def _table(table: ReportTable, number: int) -> Table:
    return Table(name=f"table-{number}", caption=table.caption, columns=table.columns, rows=table.rows)


def _figure(kind: Kind, runs: Sequence[Run]) -> Iterator[Block]:
    """Yield the figure of one kind; none if it would be empty."""
    shown = panels_of(kind, runs, WIDE).runs
    if shown:
        caption = KINDS[kind].reading + (KINDS[kind].comparing if len(shown) > 1 else "")
        description = alternative(kind, shown, KINDS[kind].heading)
        yield picture(
            kind,
            caption + _missing(kind, runs, shown),
            lambda form: stacked(kind, runs, form),
            lambda form: description,
        )


def _missing(kind: Kind, runs: Sequence[Run], shown: Sequence[Run]) -> str:
    """Return a sentence about the runs without a panel in the figure."""
    absent = [name for name, run in zip(short_names(runs), runs, strict=True) if run not in shown]
    if not absent:
        return ""
    if kind == "sent":
        return " Without feedback the sources send the same in every run, so one panel is valid for all."
    return f" Nothing of the kind happened with {listed(absent)}."


def _runs(runs: Sequence[Run]) -> Iterator[Block]:
    common = [fact for fact in runs[0].facts if all(fact in run.facts for run in runs)] if runs else []
    if common and len(runs) > 1:
        yield Text("The same for all runs:")
    if common:
        yield Facts(common)
    for number, (name, run) in enumerate(zip(short_names(runs), runs, strict=True), 1):
        own = [fact for fact in run.facts if fact not in common]
        yield Heading(f"{name}: {run.title}")
        if run.name in MECHANISMS:
            yield Text(MECHANISMS[run.name])
        if own:
            yield Facts(own)
        if run.parameters:
            title = f"Parameters of {name}"
            yield Table(
                name=f"parameters-{number}", caption=title, folded=title, rows=run.parameters,
                columns=("Parameter", "Value", "Meaning"),
            )  # fmt: skip


FORMS = file_forms(html_page, overview, lambda report: report.title)
"""The functions that make a report's octets, by the suffix of the file's name; all need matplotlib."""

report_html, report_png, report_svg = (FORMS[suffix] for suffix in (".html", ".png", ".svg"))


def report_form(path: str) -> Callable[[Report], bytes]:
    """Return the function that makes the octets of a file ``path``, also with a suffix .gz or .zst.

    Call it before the work that fills the report.  Raises OutputError for a suffix that is none of FORMS and
    MissingDependencyError where matplotlib is missing.
    """
    form = form_of(path, FORMS)
    require_matplotlib()
    return form


def write_report(report: Report, path: str, *, force: bool = False) -> None:
    """Write ``report`` to ``path``, in the form of its suffix: beside it first, then renamed.

    Raises as :func:`report_form` does, and OutputError where the file cannot be written, or exists already
    and ``force`` is not set.
    """
    octets = report_form(path)(report)
    with open_sink(path, force=force) as sink:
        sink.write(octets)
