"""A report as one self-contained HTML page: no script, no network, nothing beside it; or as PNG or SVG.

HTML is well-formed and escaped by the way it is made: elements of elements and texts.  The style sheet is
one, light and dark, for wide and narrow screens and for paper.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TypeVar

from ecmproto.capture.writer import open_sink
from ecmproto.errors import OutputError
from ecmproto.report.figures import HEADINGS, KINDS, Kind, listed, overview, panels_of, short_names, stacked
from ecmproto.report.run import (
    ComparisonCell,
    ComparisonRow,
    Report,
    ReportTable,
    Run,
    comparison,
    greatest,
    measured,
    value_text,
)
from ecmproto.report.sheet import (
    COLOURS,
    NARROW,
    WIDE,
    Format,
    drawn_png,
    drawn_svg,
    page_svg,
    printable,
    require_matplotlib,
    standalone_svg,
)
from ecmproto.units import format_octets, format_time

_EMPTY = frozenset(("meta", "br", "hr"))
"""Elements that never have content and hence no end tag."""


class Markup(str):
    """Text that is HTML already; every other string is escaped where it is used."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """Return the element ``name`` with ``attributes`` around ``children``.

    Texts and attributes are escaped and made printable.  An underscore at the end of an attribute's name
    is dropped (``class_``), others become hyphens (``aria_label``).
    """
    written = "".join(f' {_attribute(key)}="{_escaped(value)}"' for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """Return ``children`` one after another, those that are plain text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _escaped(child) for child in children))


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _attribute(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")


_BROAD_ABOVE = 5
"""More runs than these make a table that is broader than the text, where the screen is."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The content that a browser may load for the page: nothing."""


def html_page(report: Report) -> str:
    """Return ``report`` as the text of an HTML file; the same report gives the same text.

    Raises MissingDependencyError without matplotlib.
    """
    parts = [
        ("results", "What came out", _results(report.runs)),
        *(
            (f"table-{number}", table.heading, _table(table, number))
            for number, table in enumerate(report.tables, 1)
        ),
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
        element("p", f"ecmproto · {report.kicker}", class_="kicker"),
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


def _table(table: ReportTable, number: int) -> Markup:
    """Return a table of texts."""
    caption = f"table-{number}-caption"
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", text) for text in texts))
        for first, *texts in table.rows
    ]
    content = element(
        "table",
        element("caption", table.caption, id=caption),
        element("thead", element("tr", *_column_heads(table.columns))),
        element("tbody", *body),
    )
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_labelledby=caption)


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


def _result_cell(cell: ComparisonCell, compared: bool) -> Markup:
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
"""The functions that make a report's octets, by the suffix of the file's name."""


def report_form(path: str) -> Callable[[Report], bytes]:
    """Return the function that makes the octets of a file ``path``, with .gz or .zst behind it or not.

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


_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.page{max-width:1088px;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1{font-size:1.9rem;line-height:1.2;margin:.2rem 0 1rem;overflow-wrap:anywhere;text-wrap:balance}
h2{font-size:1.3rem;line-height:1.3;margin:3.2rem 0 .8rem}
h3{font-size:1.05rem;margin:2rem 0 .4rem}
p,li,dd,dt,figcaption,caption{overflow-wrap:anywhere}
p,figcaption,ul{max-width:46rem}
.kicker{margin:0;color:var(--muted);font-size:.9rem}
.lead{font-size:1.13rem;margin:0}
a{color:var(--queue)}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;list-style:none;margin:1.6rem 0 0;padding:0;
 font-size:.95rem}
figure{margin:0}
figcaption{color:var(--muted);margin:0 0 1rem}
.plot{display:block;width:100%;height:auto;stroke-linejoin:round}
.plot text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif!important}
.narrow{display:none}
.scroll{overflow-x:auto;margin:0 -.2rem;padding:0 .2rem}
.broad{width:min(100vw - 4rem,84rem);margin-left:calc(50% - min(100vw - 4rem,84rem)/2)}
.scroll:focus-visible{outline:2px solid var(--queue)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.95rem}
caption{text-align:left;color:var(--muted);padding-bottom:.8rem;max-width:46rem;white-space:normal}
th,td{padding:.42rem .9rem .42rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
thead th{border-bottom:2px solid var(--muted);vertical-align:bottom}
tbody th{font-weight:400}
.results{width:100%}
.single{width:auto;min-width:min(100%,30rem)}
.results td,.results thead th+th{text-align:right;padding-left:.6rem;padding-right:.2rem}
.results td{white-space:nowrap}
.results tbody th{min-width:9.5rem}
.broad tbody th,.broad thead th:first-child{position:sticky;left:0;background:var(--paper)}
.results .best{font-weight:700}
.bar{display:block;height:4px;margin-top:3px;margin-left:auto;width:calc(4.8rem*var(--part));background:var(--others);
 border-radius:2px;opacity:.75}
.best .bar{background:var(--queue);opacity:1}
.hint{color:var(--muted);font-size:.85em;white-space:nowrap}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.25rem 1.4rem;margin:.6rem 0}
dt{color:var(--muted)}
dd{margin:0}
details{margin:.6rem 0}
summary{cursor:pointer;padding:.25rem 0}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.92em}
@media (max-width:700px){
 .page{padding:1.4rem 1.05rem 3rem}
 h1{font-size:1.5rem}
 h2{margin-top:2.6rem}
 .wide{display:none}
 .narrow{display:block}
 .broad{width:auto;margin-left:-.2rem}
 .results tbody th,.results thead th:first-child{position:sticky;left:0;background:var(--paper)}
 .results tbody th{min-width:7.5rem}
 .results .hint{display:block}
 caption{max-width:calc(100vw - 2.2rem)}
 dl{grid-template-columns:1fr;gap:0}
 dd{margin-bottom:.5rem}
}
@media print{
 .page{max-width:none;padding:0}
 .broad{width:auto;margin:0}
 .broad .results{font-size:.7rem}
 nav{display:none}
 figure{break-inside:avoid}
}
"""


def stylesheet() -> str:
    """Return the CSS, the colours of both themes in front."""
    light = "".join(f"{colour.variable}:{colour.light};" for colour in COLOURS)
    dark = "".join(f"{colour.variable}:{colour.dark};" for colour in COLOURS)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"
    )


MECHANISMS: Mapping[str, str] = {
    "qcn": (
        "The congestion point samples arriving frames and tells the source of a sampled frame how "
        "badly the queue is off its set point; the source slows down, and recovers by itself."
    ),
    "ecm": (
        "The congestion point samples arriving frames and sends their sources both increases and "
        "decreases, from how far the queue is off its set point and how fast it changes."
    ),
    "bcn": (
        "The congestion point samples arriving frames and sends their sources increases and "
        "decreases, and stops them for a moment when the queue is very long."
    ),
    "e2cm": (
        "As ECM, and in addition sources send probes that the receivers turn round, from which each "
        "source learns the rate that is fair."
    ),
    "fecn": (
        "Sources send a tag along with their frames in which each congestion point on the way "
        "writes the rate it has room for; receivers send the tag back."
    ),
    "dbp": (
        "Receivers keep sending each of their sources a report, in which every congestion point on "
        "its way lowers the rate to what it has room for; the sources' own frames carry nothing."
    ),
    "dcqcn": (
        "The congestion point marks frames that may be marked, the more the longer its queue is; the "
        "destination answers marks with notifications (CNPs), and each marked queue pair slows down."
    ),
    "csig": (
        "Frames bring a tag in which each congestion point on the way writes how it is loaded, where that "
        "is worse than what stands there; nobody here reacts to it."
    ),
    "pfc": (
        "A port whose queue grows too long tells its neighbours to stop sending one priority, until "
        "the queue is shorter again; nobody is told which flow is to blame."
    ),
    "pause": (
        "A port whose queue grows too long tells its neighbours to stop sending altogether, until "
        "the queue is shorter again."
    ),
    "none": (
        "Nobody tells the sources anything: the queue grows until the buffer is full, and then "
        "frames are lost. The others are compared with this."
    ),
}
"""How each mechanism works, in a sentence for who does not know it."""
READING: Mapping[Kind, str] = {
    "queue": (
        "How many octets waited at the port. The line is the mean of each short span of time, the "
        "shaded area reaches up to the longest queue in it. A good queue is short and stays near "
        "its set point; at the end of the buffer frames are lost. Each panel has a scale of its own; "
        "where a few peaks go far beyond the rest, triangles at the upper end mark them."
    ),
    "losses": (
        "When frames were lost because the buffer was full, and when PAUSE or PFC stopped senders. The "
        "higher a mark, the more was lost, or the greater the part of the time in which at least one "
        "sender stood still; the figure at the right is the sum. In an open loop nobody obeys: there it is "
        "the time for which the port asked for it."
    ),
    "delivered": (
        "What left the port, flow by flow; every flow has its own marker. Lines that lie close "
        "together mean that the flows share the port fairly."
    ),
    "sent": (
        "What the sources sent towards the port. A dotted line is the limit that feedback has set "
        "the source; where there is none, the source sends as it pleases."
    ),
    "phase": (
        "The queue less its set point, and what was sent to it, against each other: each point is a short "
        "span of time, the first one ringed. A loop that winds inward settles, one that stays wide swings; "
        "the cross is where it should end."
    ),
    "feedback": (
        "What the congestion point computed at each sample. Below zero it asks for less, above "
        "zero the port has room; an advertised rate is drawn as it is. Triangles mark values beyond the "
        "scale."
    ),
    "messages": (
        "Each mark is a message that told this flow's source to change its rate. The higher the "
        "mark, the stronger the request; the figure at the right counts them."
    ),
}
"""How to read each kind of figure."""
COMPARING: Mapping[Kind, str] = {
    "feedback": " Mechanisms measure different things, on scales of their own: compare the shapes, not the "
    "heights.",
}
"""A further sentence where a figure compares runs."""
GLOSSARY: Sequence[tuple[str, str]] = (
    ("Congestion point", "the queue at a switch's output port where frames wait for the line"),
    ("Reaction point", "the part of a sender that limits the rate of a flow when feedback asks for it"),
    ("Set point", "the queue length that a mechanism steers to"),
    ("Buffer", "how many octets the port can hold; frames that arrive when it is full are lost"),
    ("Feedback", "what the congestion point tells a source: how far off the queue is, or a rate"),
    ("Open and closed loop", "in an open loop the sources ignore feedback, in a closed loop they obey it"),
    (
        "Fairness",
        "Jain's index of the rates of all flows that asked for something in the second half: 1 when all are "
        "equal, 1/n when one of n has it all",
    ),
    (
        "Paused",
        "a priority of a sender stands still while PAUSE or PFC stops it: the time in which at least "
        "one did, and the sum over all senders and the priorities that they use",
    ),
    ("kB, Gb/s", "1,000 octets, and 1,000,000,000 bits a second"),
)
"""The words of a report and their meaning."""


def summary(report: Report) -> list[str]:
    """Return the sentences that open the report: what was replayed, and what came out."""
    runs = report.runs
    if not runs:
        return [f"Nothing was replayed from {report.capture}."]
    return [_replayed(report), *(_single(runs[0]) if len(runs) == 1 else _several(runs))]


def _replayed(report: Report) -> str:
    runs = report.runs
    if report.lead:
        return report.lead
    frames = measured(runs[0], "frames")
    what = "The frames" if frames is None else f"The {value_text(frames, 'frames')} frames"
    if frames == 0:
        return f"{report.capture} holds no frame that reaches the port."
    if len(runs) == 1:
        return f"{what} of {report.capture} were sent through a simulated switch port with {runs[0].title}."
    return (
        f"{what} of {report.capture} were sent through the same simulated switch port {len(runs)} times, "
        f"each time with another way to manage congestion: {listed(short_names(runs))}."
    )


def _single(run: Run) -> list[str]:
    sentences = []
    dropped, mean = measured(run, "dropped_frames"), measured(run, "queue_mean_octets")
    if dropped is not None and measured(run, "frames") != 0:
        sentences.append(f"{_capital(_lost(run, dropped))}.")
    if mean is not None:
        peak = measured(run, "queue_peak_octets")
        longest = f", and {format_octets(peak)} at its longest" if peak is not None else ""
        sentences.append(f"The queue was {format_octets(mean)} long on average{longest}.")
    return sentences + _paused(run, "Some sender")


def _several(runs: Sequence[Run]) -> list[str]:
    names = short_names(runs)
    sentences = []
    losses = [(name, run, measured(run, "dropped_frames")) for name, run in zip(names, runs, strict=True)]
    lossless = [name for name, _, dropped in losses if dropped == 0]
    lossy = [(name, run, dropped) for name, run, dropped in losses if dropped]
    if lossy:
        kept = f"No frame was lost with {listed(lossless)}; " if lossless else ""
        parts = [f"with {name} {_lost(run, dropped)}" for name, run, dropped in lossy]
        sentences.append(f"{kept}{listed(parts)}." if kept else f"{_capital(listed(parts))}.")
    elif lossless:
        sentences.append("No frame was lost with any of them." if len(lossless) == len(runs) else "")
    sentences.append(_queues(names, runs))
    for name, run in zip(names, runs, strict=True):
        sentences.extend(_paused(run, f"With {name} some sender"))
    return [sentence for sentence in sentences if sentence]


def _queues(names: Sequence[str], runs: Sequence[Run]) -> str:
    means = [(mean, name) for name, run in zip(names, runs, strict=True) if (mean := _mean(run)) is not None]
    if len(means) < 2:
        return ""
    (least, shortest), (most, longest) = min(means), max(means)
    if least == most:
        return f"The mean queue was {format_octets(most)} with each of them."
    return (
        f"On average the queue was shortest with {shortest} ({format_octets(least)}) and longest with "
        f"{longest} ({format_octets(most)})."
    )


def _mean(run: Run) -> float | None:
    return measured(run, "queue_mean_octets")


def _lost(run: Run, dropped: float) -> str:
    frames = measured(run, "frames")
    if not dropped:
        return "no frame was lost"
    share = f" ({value_text(dropped / frames, 'share')})" if frames else ""
    verb = "was" if dropped == 1 else "were"
    noun = "frame" if dropped == 1 else "frames"
    return f"{value_text(dropped, 'frames')} {noun}{share} {verb} lost"


def _paused(run: Run, who: str) -> list[str]:
    paused, summed = measured(run, "paused_ns"), measured(run, "paused_sum_ns")
    if not paused:
        return []
    together = f", {format_time(summed)} summed up over senders and priorities" if summed else ""
    return [f"{who} stood still for {format_time(paused)}{together}."]


def alternative(kind: Kind, runs: Sequence[Run], heading: str) -> str:
    """Return the text that a screen reader says instead of a figure."""
    names = listed(short_names(runs))
    if kind == "phase":
        return f"{heading} for {names}. The table of results has the figures."
    if kind != "queue":
        return f"{heading} over time for {names}. The table of results has the figures."
    peaks = [greatest(run.queue.peak_octets.tolist()) for run in runs]
    longest = [f"{name} {format_octets(peak)}" for name, peak in zip(short_names(runs), peaks, strict=True)]
    return f"{heading} over time. Longest queue: {listed(longest)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
