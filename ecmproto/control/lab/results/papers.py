"""Page for each source document: published figures and claims next to measured figures, over fixed seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from ecmproto.control.lab.model import Experiment
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.results.outcome import (
    HEADINGS,
    FigureRow,
    control_text,
    explanations,
    figure_rows,
    problems,
)
from ecmproto.control.lab.results.published import READING, are_met
from ecmproto.control.lab.results.running import runs_named
from ecmproto.control.lab.results.sweeps import seeds_of
from ecmproto.control.lab.setup.figures import parse_figure
from ecmproto.control.lab.setup.scenario import Scenario, load_scenario, scenario_names
from ecmproto.control.lab.simulation.simulate import simulate
from ecmproto.errors import counted
from ecmproto.executors.protocol import Call, Task
from ecmproto.executors.rows import Row
from ecmproto.executors.running import task_key
from ecmproto.units import format_time

DOCUMENTS: Mapping[str, str] = {
    "S000": "D. Bergamasco: Ethernet Congestion Manager, draft 0.1 (2007)",
    "S001": "P. Thaler and R. Pan: IEEE 802.1Q Congestion Notification, and QCN (IETF 87, 2013)",
    "S002": "M. Gusat et al.: E²CM, per-path ECM (IBM, 2007)",
    "S003": "J. Jiang, R. Jain, C. So-In: FECN (2007)",
    "S004": "J. Jiang, R. Jain: Analysis of Backward Congestion Notification (2008)",
}
"""Source documents, by their names in scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Scenario, or a variant of a scenario, with its results on all seeds."""

    name: str
    """Name of the scenario, with its variant if there is one."""
    title: str
    experiment: Experiment
    seeds: tuple[int, ...]
    rows: tuple[FigureRow, ...]
    lines: tuple[str, ...]
    """Sentences about problems and missing events."""

    @property
    def missed(self) -> list[FigureRow]:
        """Return the rows whose band does not hold."""
        return [row for row in self.rows if not row.holds]

    @property
    def judged(self) -> list[FigureRow]:
        """Return the rows whose band was checked."""
        return [row for row in self.rows if row.judged]


def document_of(experiment: Experiment) -> str:
    """Return the source document of an experiment: the first word of the experiment's source."""
    word = experiment.source.replace(",", " ").split(maxsplit=1)
    return word[0] if word and word[0] in DOCUMENTS else ""


def entries_of(document: str) -> Iterator[Scenario]:
    """Yield the scenarios of a document, each followed by its variants."""
    for name in scenario_names():
        scenario = load_scenario(name)
        if document_of(scenario.experiment()) == document:
            yield scenario
            for variant in scenario.variants:
                yield scenario.with_variant(variant)


def tasks_of(scenario: Scenario, commit: str, seeds: int) -> list[Task]:
    """Return the tasks of a scenario's entry; the seeds follow from the scenario's name and the commit."""
    tasks = []
    for seed in seeds_of(scenario.name, commit, seeds):
        data = {"scenario": scenario.name, "seed": seed}
        key = task_key(CALL, scenario.toml(), data)
        tasks.append(Task(key=key, data=data, name=f"{scenario.name}, seed {seed}"))
    return tasks


class EntryRow(TypedDict):
    """Row of a run, as returned by `run_entry`."""

    digest: str
    scenario: str
    seed: int
    figures: Mapping[str, Sequence[float | str | None]]
    problems: Sequence[str]
    explanations: Sequence[str]
    events: int
    elapsed_s: float


def run_entry(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Run a scenario on one seed, with all runs that its figures refer to; return figures and sentences."""
    scenario = load_scenario(data["scenario"])
    experiment = scenario.experiment()
    seed = data["seed"]
    run = RunFigures(simulate(experiment, seed=seed))
    others = {}
    for name in runs_named(experiment):
        other = named_run(scenario, name)
        others[name] = RunFigures(simulate(other.experiment(), seed=seed))
    figures = {}
    for text in texts_of(experiment):
        values = parse_figure(text).evaluate(run, others)
        figures[text] = [_stored(value) for value in values]
    return {
        "scenario": scenario.name,
        "seed": seed,
        "figures": figures,
        "problems": list(problems([run])),
        "explanations": list(explanations([run])),
        "events": run.result.events,
        "elapsed_s": round(run.result.elapsed_s, 3),
    }


CALL = Call(f"{__name__}:{run_entry.__name__}")
"""Call for each task of an entry."""


def named_run(scenario: Scenario, name: str) -> Scenario:
    """Return the run that figures call ``@name``: a variant, or the scenario with another mechanism."""
    base, _, _ = scenario.name.partition(":")
    if name in scenario.variants:
        return load_scenario(base).with_variant(name)
    return scenario.with_mechanism(name)


_NEVER, _NONE = "never", None


def _stored(value: float) -> float | str | None:
    """Return a value for JSON: infinity becomes a word, and NaN becomes null."""
    if math.isnan(value):
        return _NONE
    return value if math.isfinite(value) else _NEVER


def _value(stored: float | str | None) -> float:
    return math.nan if stored is None else math.inf if isinstance(stored, str) else stored


STANDARD = (
    "queue.mean",
    "queue.std",
    "queue.peak",
    "utilisation",
    "jain(rate(*))",
    "drops",
    "control.overhead",
)
"""Figures of every entry, in addition to the entry's own figures."""


def texts_of(experiment: Experiment) -> list[str]:
    """Return the expressions of an entry's figures."""
    measure = experiment.measure
    own = [*(band.figure for band in measure.bands), *(each.figure for each in measure.published)]
    return list(dict.fromkeys((*own, *STANDARD)))


def entry_of(scenario: Scenario, rows: Sequence[Row]) -> Entry:
    """Return the entry of a scenario, from the rows of its runs."""
    experiment = scenario.experiment()
    values = {
        text: tuple(tuple(map(_value, row["figures"].get(text, (None,)))) for row in rows)
        for text in texts_of(experiment)
    }
    sentences = [line for row in rows for line in row["problems"]]
    sentences += _common([row["explanations"] for row in rows])
    return Entry(
        name=scenario.name,
        title=experiment.title,
        experiment=experiment,
        seeds=tuple(row["seed"] for row in rows),
        rows=figure_rows(experiment.measure, values, STANDARD),
        lines=tuple(sentences),
    )


def _common(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return sentences of the first seed whose start, up to the colon, appears on every seed."""
    starts = [{line.partition(":")[0] for line in each} for each in lines]
    return [line for line in lines[0] if all(line.partition(":")[0] in each for each in starts)]


# Pages ----------------------------------------------------------------------------------------------------


def page_name(document: str) -> str:
    """Return the file name of a document's page."""
    return f"{document}.md"


def page(document: str, entries: Sequence[Entry], *, commit: str, pictures: Mapping[str, str]) -> str:
    """Return a document's page as Markdown; ``pictures`` contains picture files by entry name."""
    judged = [row for entry in entries for row in entry.judged]
    rows_met = sum(row.holds for row in judged)
    published = [row.published_ratios for entry in entries for row in entry.rows if row.published_ratios]
    met = f" {sum(map(are_met, published))} of {counted(len(published), 'published number')}"
    parts = [
        f"# {document}: {DOCUMENTS[document]}",
        f"`make papers` generated this page with the code of commit `{commit}`. The seeds are words of "
        f"SHA-256(scenario + commit). {rows_met} of {counted(len(judged), 'band')} hold, each on at least "
        "nine of ten seeds." + f"{met} are met within {READING:.0%}." * bool(published),
        *(_section(entry, pictures.get(entry.name, "")) for entry in entries),
    ]
    return "\n\n".join(parts) + "\n"


def _section(entry: Entry, picture: str) -> str:
    experiment = entry.experiment
    measure = experiment.measure
    until_ns = measure.until_ns or experiment.duration_ns
    about = [
        f"{entry.title}. {experiment.source}.",
        f"Control: {control_text(experiment)}. Duration: {format_time(experiment.duration_ns)}, measured "
        f"from {format_time(measure.from_ns)} to {format_time(until_ns)}. "
        f"{counted(len(entry.seeds), 'seed')}: {', '.join(map(str, entry.seeds))}.",
    ]
    parts = [f"## {entry.name}", "\n".join(about), table(entry.rows)]
    notes = [f"- Outside its band: `{row.figure.text}`, {row.verdict_text()}." for row in entry.missed]
    noted = [(band.note, band.figure) for band in measure.bands]
    noted += [(each.note, each.figure) for each in measure.published]
    for note in dict.fromkeys(note for note, _ in noted if note):
        about_it = dict.fromkeys(f"`{figure}`" for own, figure in noted if own == note)
        notes.append(f"- {', '.join(about_it)}: {note}.")
    notes += [f"- {line}." for line in entry.lines]
    if notes:
        parts.append("\n".join(notes))
    if picture:
        parts.append(f"![Queue and rates of {entry.name}]({picture})")
    return "\n\n".join(parts)


def table(rows: Iterable[FigureRow]) -> str:
    """Return figures as a Markdown table."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    for row in rows:
        figure, ours, span, published, *verdicts = row.cells()
        sources = "; ".join(dict.fromkeys(each.source for each in row.published if each.source))
        published += f" ({sources})" if sources else ""
        cells = [f"`{figure}`", ours, span, published, *verdicts]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def index(entries: Mapping[str, Sequence[Entry]]) -> str:
    """Return the index page: links to the documents' pages, and the number of bands that hold by scenario."""
    lines = [
        "# Published and measured figures",
        "",
        "These pages compare the published figures of each document with the results of the laboratory. "
        "`make papers` generates the pages.",
        "",
        "| document | scenario | bands that hold |",
        "|---|---|---|",
    ]
    for document, each in entries.items():
        for entry in each:
            met = f"{len(entry.judged) - len(entry.missed)} of {len(entry.judged)}" if entry.judged else "–"
            lines.append(f"| [{document}]({page_name(document)}) | {entry.name} | {met} |")
    return "\n".join(lines) + "\n"
