"""Reports of replays and experiments as one HTML page, PNG or SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ecmproto.frames.capture.writer import write_output
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
from ecmproto.tools.report.run import (
    ComparisonRow,
    Report,
    ReportTable,
    Run,
    comparison,
    greatest,
    measured,
    value_text,
)
from ecmproto.tools.report.sheet import WIDE, require_matplotlib
from ecmproto.units import format_octets, format_time, one_precision

MECHANISMS: Mapping[str, str] = {
    "qcn": (
        "The congestion point samples arriving frames and sends the queue's offset from its set point to "
        "a sampled frame's source. The source slows down, and recovers without messages."
    ),
    "ecm": (
        "The congestion point samples arriving frames and sends increases and decreases to their sources,"
        " from the queue's offset from its set point and its change."
    ),
    "bcn": (
        "The congestion point samples arriving frames and sends increases and decreases to their sources,"
        " and stops them briefly when the queue is very long."
    ),
    "e2cm": (
        "As in ECM, but sources also send probes, which receivers return. From these, each source computes "
        "its fair rate."
    ),
    "fecn": (
        "Sources send a tag with their frames, in which each congestion point on the path lowers the rate"
        " to its own; receivers return the tag."
    ),
    "dbp": (
        "Receivers send regular reports to their sources, in which each congestion point on the path "
        "lowers the rate to its own; the sources' frames have no tags."
    ),
    "dcqcn": (
        "The congestion point marks ECN-capable frames, more of them the longer its queue is. The "
        "destination answers marks with notifications (CNPs), and each notified queue pair slows down."
    ),
    "ecn": (
        "The congestion point marks ECN-capable frames, more of them the longer its queue is; the hosts' own "
        "transport reacts."
    ),
    "hpcc": (
        "Each congestion point on the path adds its load to a frame, and the destination returns them. "
        "The source sets its window so that no link is fuller than the target."
    ),
    "swift": (
        "Destinations acknowledge each frame. The source increases its window while the delay of the "
        "acknowledgements is below the target, and otherwise reduces the window. Switches only count hops."
    ),
    "isolation": (
        "Congestion points move the flows that congest a port to a queue of their own, as do the neighbours "
        "upstream after a message. PFC then stops only this queue."
    ),
    "csig": (
        "Frames have a tag, in which each congestion point on the path writes its load if it is worse than "
        "the load in the tag. No station reacts to it."
    ),
    "pfc": (
        "A port with a long queue pauses one priority of its neighbours until the queue is shorter, without "
        "regard to flows."
    ),
    "pause": ("A port with a long queue pauses its neighbours until the queue is shorter."),
    "none": (
        "Sources get no feedback: the queue grows until the buffer is full, and then frames are lost. "
        "This is the baseline for the others."
    ),
}
"""A sentence that introduces each mechanism to the reader."""
GLOSSARY: Sequence[tuple[str, str]] = (
    ("Congestion point", "the queue at a switch's output port where frames wait for the line"),
    ("Reaction point", "the rate limiter of a sender, which obeys feedback about a flow"),
    ("Set point", "the queue length that a mechanism aims at"),
    ("Buffer", "the port's capacity in octets; frames that arrive at a full buffer are lost"),
    ("Feedback", "a message from a congestion point to a source: the queue's offset, or a rate"),
    ("Open and closed loop", "in an open loop the sources ignore feedback, in a closed loop they obey it"),
    (
        "Fairness",
        (
            "Jain's index of the rates of all active flows in the second half: 1 for equal rates, 1/n if one "
            "of n flows has all"
        ),
    ),
    (
        "Paused",
        (
            "a sender's priority is paused by PAUSE or PFC: the time with at least one paused, and the sum "
            "over all senders and their priorities"
        ),
    ),
    ("kB, Gb/s", "1,000 octets, and 1,000,000,000 bits a second"),
)
"""Terms of a report with their meanings."""


def summary(report: Report) -> list[str]:
    """Return the opening sentences of the report, with the replay and the results."""
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
        return f"{report.capture} contains no frame that reaches the port."
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
        span = f"{run.measured.capitalize()} the" if run.measured else "The"
        sentences.append(f"{span} queue was {format_octets(mean)} long on average{longest}.")
    return sentences + _paused(run, "Some sender")


def _several(runs: Sequence[Run]) -> list[str]:
    names = short_names(runs)
    sentences = []
    losses = [(name, run, measured(run, "dropped_frames")) for name, run in zip(names, runs, strict=True)]
    lossless = [name for name, _, dropped in losses if dropped == 0]
    lossy = [(name, run, dropped) for name, run, dropped in losses if dropped]
    if lossy:
        prefix = f"No frame was lost with {listed(lossless)}; " if lossless else ""
        parts = [f"with {name} {_lost(run, dropped)}" for name, run, dropped in lossy]
        sentences.append(f"{prefix}{listed(parts)}." if prefix else f"{_capital(listed(parts))}.")
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
    (minimum, shortest), (maximum, longest) = min(means), max(means)
    if minimum == maximum:
        return f"The mean queue was {format_octets(maximum)} with each of them."
    return (
        f"On average the queue was shortest with {shortest} ({format_octets(minimum)}) and longest with "
        f"{longest} ({format_octets(maximum)})."
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
    return [f"{who} was stopped for {format_time(paused)}{together}."]


def alternative(kind: Kind, runs: Sequence[Run], heading: str) -> str:
    """Return the text of a figure for screen readers."""
    names = listed(short_names(runs))
    if kind in ("phase", "slowdown"):
        return f"{heading} for {names}. The table of results has the figures."
    if kind != "queue":
        return f"{heading} over time for {names}. The table of results has the figures."
    peaks = [greatest(run.queue.peak_octets.tolist()) for run in runs]
    longest = [f"{name} {format_octets(peak)}" for name, peak in zip(short_names(runs), peaks, strict=True)]
    return f"{heading} over time. Longest queue: {listed(longest)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_BROAD_ABOVE = 5
"""The maximum number of runs for which a table is not wider than the text on wide screens."""


def html_page(report: Report) -> str:
    """Return a report as HTML text. Equal reports result in equal texts.

    Raises MissingDependencyError if matplotlib or jinja2 is missing.
    """
    return page_html(
        Page(
            title=report.title or report.capture or "Replay",
            heading=report.title,
            kicker=report.kicker,
            leads=[" ".join(summary(report))],
            sections=[
                Section("results", "What came out", _results(report.runs)),
                *(
                    Section(f"table-{number}", table.heading, [_table(table, number)])
                    for number, table in enumerate(report.tables, 1)
                ),
                *(
                    Section(kind, each.heading, list(_figure(kind, report.runs)))
                    for kind, each in KINDS.items()
                ),
                Section("runs", "What was run", list(_runs(report.runs))),
                Section("words", "Words used", [Facts(GLOSSARY)]),
                Section("notes", "Notes", [Notes(report.notes)] if report.notes else []),
            ],
        )
    )


def _results(runs: Sequence[Run]) -> list[Block]:
    rows = comparison(runs)
    if not rows:
        return []
    span = f", {runs[0].measured}" if len({run.measured for run in runs}) == 1 and runs[0].measured else ""
    caption = f"Results of the run{span}." if len(runs) == 1 else f"Results of the runs{span}, side by side."
    if any(cell.best for row in rows for cell in row.cells):
        caption += " ★ marks the best value of a row, unless most runs share it; bars compare a row's values."
    even = one_precision([[cell.text for cell in row.cells] for row in rows])
    table = Table(
        name="results", caption=caption, columns=("Measure", *short_names(runs)),
        rows=[*map(_result_row, rows, even)], is_broad=len(runs) > _BROAD_ABOVE,
        css_class="results" if len(runs) > 1 else "results single",
    )  # fmt: skip
    return [table]


def _result_row(row: ComparisonRow, texts: Sequence[str]) -> list[str | Cell]:
    compared = len(row.cells) > 1 and bool(row.better)
    label = Cell(row.label, hint="less is better" if row.better == "low" else "more is better")
    return [label if compared else row.label, *(
        Cell(text, part=cell.part if compared else None, best=cell.best)
        for text, cell in zip(texts, row.cells, strict=True)
    )]  # fmt: skip


def _table(table: ReportTable, number: int) -> Table:
    return Table(name=f"table-{number}", caption=table.caption, columns=table.columns, rows=table.rows)


def _figure(kind: Kind, runs: Sequence[Run]) -> Iterator[Block]:
    """Yield the figure of a panel type, or nothing if no run has data."""
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
    """Return a sentence about the runs that have no panel in the figure."""
    absent = [name for name, run in zip(short_names(runs), runs, strict=True) if run not in shown]
    if not absent:
        return ""
    if kind == "sent":
        return " Without feedback every run's sources send the same, so one panel stands for all."
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
                columns=("Parameter", "Value", "What it is"),
            )  # fmt: skip


FORMS = file_forms(html_page, overview, lambda report: report.title)
"""Functions that return the content of a report, by file name suffix. All functions require matplotlib."""

report_html: Callable[..., bytes] = FORMS[".html"]
report_png: Callable[..., bytes] = FORMS[".png"]
report_svg: Callable[..., bytes] = FORMS[".svg"]


def report_form(path: str) -> Callable[[Report], bytes]:
    """Return the function that creates the content of file ``path``.

    The suffix may be followed by .gz or .zst.

    Call this function before the replays. Raises OutputError for a suffix that is not in FORMS, and
    MissingDependencyError if matplotlib is missing.
    """
    form = form_of(path, FORMS)
    require_matplotlib()
    return form


def write_report(report: Report, path: str, *, force: bool = False) -> None:
    """Write a report to ``path``, in the format of the suffix, through a temporary file.

    Raises the same errors as :func:`report_form`. Raises OutputError if the file cannot be written, or if the
    file exists and ``force`` is false.
    """
    write_output(path, report_form(path)(report), force=force)
