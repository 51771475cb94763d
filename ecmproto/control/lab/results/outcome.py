"""Outcome of an experiment over seeds: measured and published figures, bands, and missing events."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ecmproto.control.lab.model import BASELINES, Band, Experiment, Measure, Published
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.results.published import are_met, published_ratios
from ecmproto.control.lab.results.sizes import HEADINGS as SIZE_HEADINGS
from ecmproto.control.lab.results.sizes import Size, by_size
from ecmproto.control.lab.setup.figures import Expectation, Figure, parse_figure
from ecmproto.control.mechanisms.api.machine import machine_of
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.errors import counted
from ecmproto.tables import Paint, Tabular, columns_of, pairs, plain, queue_curves
from ecmproto.units import format_octets, format_share, format_time, one_precision

STANDARD = (
    "queue.mean", "queue.std", "queue.p50", "queue.p99", "queue.peak", "queue.settling(25%)", "throughput",
    "utilisation", "jain(rate(*))", "drops", "pause.count", "pause.time", "control.frames", "control.lost",
    "control.octets", "control.overhead",
)  # fmt: skip
"""Figures shown for every experiment; figures of flows and transactions are appended."""

PASSING = 0.9
"""Minimum share of seeds on which a band must hold."""

_FLOWS_SHOWN = 16


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """Figure on all seeds, with published values and band."""

    figure: Figure
    values: tuple[tuple[float, ...], ...]
    """Values for each seed: one value, or one value per flow."""
    published: tuple[Published, ...] = ()
    band: Band | None = None

    @property
    def medians(self) -> tuple[float, ...]:
        """Return the median of each value over the seeds; infinity for an event that never happened."""
        return tuple(_median(column) for column in zip(*self.values, strict=True))

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """Return the minimum and the maximum of each value over the seeds, without missing values."""
        return tuple((_minimum(column), _maximum(column)) for column in zip(*self.values, strict=True))

    @property
    def inside(self) -> tuple[bool, ...]:
        """Return whether each compared value, of a seed or a group of seeds, is in the band."""
        return tuple(all(self.outside_by(value) == 0.0 for value in each) for each in self._compared)

    @property
    def _compared(self) -> tuple[tuple[float, ...], ...]:
        """The values to compare with the band: a value per seed, or a median per complete group of seeds."""
        size = self.band.median_of if self.band else 1
        if size == 1 or len(self.values) < size:
            return self.values
        groups = [self.values[at : at + size] for at in range(0, len(self.values) - size + 1, size)]
        return tuple(tuple(map(_median, zip(*group, strict=True))) for group in groups)

    @property
    def judged(self) -> bool:
        """Return whether the figure has a band and enough seeds for the band's median."""
        return self.band is not None and len(self.values) >= self.band.median_of

    @property
    def holds(self) -> bool:
        """Return whether the band holds on enough seeds; True if the band cannot be checked."""
        return not self.judged or sum(self.inside) >= PASSING * len(self.inside)

    def outside_by(self, value: float) -> float:
        """Return the distance of a value from the band, as a fraction of the exceeded limit.

        The distance is 0 inside the band, and negative below the band.
        """
        band = self.band
        if band is None:
            return 0.0
        if math.isnan(value):
            return math.nan
        if band.low is not None and value < band.low:
            return (value - band.low) / abs(band.low) if band.low else -math.inf
        if band.high is not None and value > band.high:
            return (value - band.high) / abs(band.high) if band.high else math.inf
        return 0.0

    def ours_text(self) -> str:
        """Return the measured medians as text."""
        return self._texts(self.medians)

    def range_text(self) -> str:
        """Return the minimum and the maximum as text; empty if all seeds have equal values."""
        if len(self.values) < 2:
            return ""
        show = self.figure.show
        if len(self.medians) > 1:
            low = _minimum(low for low, _ in self.ranges)
            high = _maximum(high for _, high in self.ranges)
        else:
            low, high = self.ranges[0] if self.ranges else (math.nan, math.nan)
        return "" if show(low) == show(high) else f"{show(low)} … {show(high)}"

    def band_text(self) -> str:
        """Return the band as text; empty if there is no band."""
        return band_text(self.band) if self.band is not None else ""

    def published_text(self) -> str:
        """Return the published values, separated by commas."""
        return ", ".join(each.value for each in self.published)

    @cached_property
    def published_ratios(self) -> tuple[float, ...]:
        """The medians divided by the published numbers; empty if there are no published numbers."""
        texts = (each.value for each in self.published)
        ratios = (published_ratios(text, self.figure.dimension, self.medians) for text in texts)
        return next(filter(None, ratios), ())

    def verdict_text(self) -> str:
        """Return the verdict on the band and on the published numbers."""
        return "; ".join(filter(None, (self._band_verdict(), self._published_verdict())))

    def _published_verdict(self) -> str:
        ratios = self.published_ratios
        if not ratios:
            return ""
        if are_met(ratios):
            return "published: met"
        worst = max(ratios, key=lambda ratio: abs(math.log(ratio)) if ratio > 0 else math.inf)
        return f"published: not met, {worst:.3g} ×" if math.isfinite(worst) else "published: not met"

    def cells(self) -> tuple[str, ...]:
        """Return the row's cells under `HEADINGS`."""
        return (
            self.figure.text, self.ours_text(), self.range_text(), self.published_text(),
            self.band_text(), self.verdict_text(),
        )  # fmt: skip

    def _band_verdict(self) -> str:
        """Return whether the band holds, on how many seeds, and the worst deviation."""
        if self.band is None:
            return ""
        if not self.judged:
            return f"for the median of {self.band.median_of} seeds"
        met, seeds = sum(self.inside), len(self.inside)
        if met == seeds:
            return "inside" if seeds == 1 else f"inside on all {seeds}"
        distances = [self.outside_by(value) for each in self._compared for value in each]
        if any(math.isnan(each) for each in distances):
            how = "no value"
        else:
            worst = max(distances, key=abs)
            side = "above" if worst > 0 else "below"
            how = f"{format_share(abs(worst))} {side}" if math.isfinite(worst) else side
        return f"outside, {how}" if seeds == 1 else f"inside on {met} of {seeds}; worst {how}"

    def _texts(self, values: Sequence[float]) -> str:
        ((*texts,),) = one_precision([[self.figure.show(value) for value in values]])
        if len(texts) > 1 and len(set(texts)) == 1:
            return f"{len(texts)} × {texts[0]}"
        units = {text.rpartition(" ")[2] for text in texts if " " in text}
        if len(texts) > 1 and len(units) == 1 and all(" " in text for text in texts):
            return " ".join(text.rpartition(" ")[0] for text in texts) + f" {units.pop()}"
        return ", ".join(texts)

    def as_dict(self) -> dict[str, Any]:
        """Return the row for JSON; a missing or infinite value becomes null."""
        row: dict[str, Any] = {
            "figure": self.figure.text,
            "unit": unit_of(self.figure),
            "values": [[finite_or_none(value) for value in each] for each in self.values],
            "median": [finite_or_none(value) for value in self.medians],
            "shown": self.ours_text(),
        }
        if self.published:
            row["published"] = [{"value": each.value, "source": each.source} for each in self.published]
        if self.band is not None:
            row["band"] = {"low": self.band.low, "high": self.band.high, "source": self.band.source}
            row["inside"] = list(self.inside)
        if verdict := self.verdict_text():
            row["verdict"] = verdict
        return row


def band_text(band: Band) -> str:
    """Return a band as text: ``20 kB … 30 kB``, ``≥ 0.95``."""
    show = parse_figure(band.figure).show
    if band.low is None:
        text = f"≤ {show(band.high)}" if band.high is not None else ""
    else:
        text = f"≥ {show(band.low)}" if band.high is None else f"{show(band.low)} … {show(band.high)}"
    return f"{text} (median of {band.median_of})" if band.median_of > 1 else text


def unit_of(figure: Figure) -> str:
    """Return the unit of a figure's values in JSON and CSV; empty for plain numbers."""
    octets, rate, time = figure.dimension
    named = {(1, 0, 0): "octets", (0, 1, 0): "bit/s", (0, 0, 1): "ns", (0, 0, 0): ""}
    parts = (("octets", octets), ("bit/s", rate), ("ns", time))
    return named.get((octets, rate, time)) or " ".join(f"({name})^{power}" for name, power in parts if power)


def finite_or_none(value: float) -> float | None:
    """Return a value for JSON; ``None`` replaces infinity and NaN."""
    return value if math.isfinite(value) else None


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan
    return statistics.median_low(known) if any(map(math.isinf, known)) else statistics.median(known)


def _minimum(values: Iterable[float]) -> float:
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def _maximum(values: Iterable[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def figure_rows(
    measure: Measure, values: Mapping[str, tuple[tuple[float, ...], ...]], more: Iterable[str]
) -> tuple[FigureRow, ...]:
    """Return the rows of an experiment: bands first, then published figures without a band, then ``more``.

    ``values`` contains the values of each figure on each seed.
    """
    published: dict[str, list[Published]] = {}
    for each in measure.published:
        published.setdefault(each.figure, []).append(each)

    def row(text: str, band: Band | None = None) -> FigureRow:
        texts = tuple(published.get(text, ()))
        return FigureRow(figure=parse_figure(text), values=values[text], band=band, published=texts)

    rows = [row(band.figure, band) for band in measure.bands]
    shown = {band.figure for band in measure.bands}
    rows += [row(text) for text in dict.fromkeys((*published, *more)) if text not in shown]
    return tuple(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Result of an expectation on each seed, with the compared values as text."""

    text: str
    verdicts: tuple[bool, ...]
    shown: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Return whether the expectation held on all seeds."""
        return all(self.verdicts)

    def sentence(self) -> str:
        """Return the result as a sentence, with the values of the first seed that failed."""
        if self.holds:
            return f"holds: {self.text} ({self.shown[0]})"
        first = self.verdicts.index(False)
        seeds = (
            f" on {self.verdicts.count(False)} of {len(self.verdicts)} seeds"
            if len(self.verdicts) > 1
            else ""
        )
        return f"does not hold{seeds}: {self.text} ({self.shown[first]})"


class Outcome(Tabular):
    """Runs of one experiment on several seeds.

    ``others`` are runs, on the same seeds, that figures refer to by ``@``. ``figures`` are shown in addition
    to the experiment's own figures.
    """

    def __init__(
        self,
        experiment: Experiment,
        runs: Sequence[RunFigures],
        *,
        variant: str = "",
        label: str = "",
        others: Mapping[str, Sequence[RunFigures]] | None = None,
        figures: Sequence[str] = (),
    ) -> None:
        self.experiment = experiment
        self.variant = variant
        self.label = label
        """Name that distinguishes this outcome from others; an empty text means the mechanism's name."""
        self.runs: list[RunFigures] = list(runs)
        self._others = others or {}
        self._figures = figures

    @property
    def name(self) -> str:
        """The scenario's name, with its variant if there is one."""
        return f"{self.experiment.name}:{self.variant}" if self.variant else self.experiment.name

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds; all values are in this order."""
        return tuple(run.result.seed for run in self.runs)

    @cached_property
    def sizes(self) -> list[Size]:
        """Completion times of flows by size, of all seeds."""
        return by_size(self.runs)

    @cached_property
    def rows(self) -> tuple[FigureRow, ...]:
        """All figures: first the experiment's own figures, then the standard figures."""
        measure = self.experiment.measure
        own = [*(band.figure for band in measure.bands), *(each.figure for each in measure.published)]
        texts = dict.fromkeys((*own, *self._figures, *self._standard()))
        values = {text: self.values(text) for text in texts}
        return figure_rows(measure, values, [*self._figures, *self._standard()])

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each value of each figure: median and range over the seeds, band and verdict."""
        return [
            {
                "figure": row.figure.text,
                "index": index,
                "unit": unit_of(row.figure),
                "median": finite_or_none(median),
                "minimum": finite_or_none(low),
                "maximum": finite_or_none(high),
                "band": row.band_text() if row.band is not None else None,
                "published": row.published_text() or None,
                "verdict": row.verdict_text() or None,
            }
            for row in self.rows
            for index, (median, (low, high)) in enumerate(zip(row.medians, row.ranges, strict=True))
        ]

    def __repr__(self) -> str:
        return self.table()

    def values(self, text: str) -> tuple[tuple[float, ...], ...]:
        """Return the values of a figure on each seed."""
        figure = parse_figure(text)
        values = []
        for index, run in enumerate(self.runs):
            others = self._others_of(index)
            known = figure.runs <= set(others)  # a stopped run omits some
            values.append(figure.evaluate(run, others) if known else (math.nan,))
        return tuple(values)

    def row(self, text: str) -> FigureRow:
        """Return the row of a figure on all seeds, without published values and band."""
        return FigureRow(figure=parse_figure(text), values=self.values(text))

    def _others_of(self, index: int) -> dict[str, RunFigures]:
        return {name: each[index] for name, each in self._others.items() if index < len(each)}

    def check(self, expectation: Expectation) -> Check:
        """Return whether an expectation holds on each seed."""
        verdicts, shown = [], []
        for index, run in enumerate(self.runs):
            others = self._others_of(index)
            if not expectation.runs <= set(others):
                verdicts.append(False)
                shown.append("another run is missing")
                continue
            holds, values = expectation.check(run, others)
            verdicts.append(holds)
            pieces = [
                ", ".join(map(figure.show, each))
                for figure, each in zip(expectation.figures, values, strict=True)
                if figure.readings
            ]
            shown.append("; ".join(pieces))
        return Check(text=expectation.text, verdicts=tuple(verdicts), shown=tuple(shown))

    def _standard(self) -> Iterator[str]:
        """Yield the standard figures that apply to this experiment."""
        first = self.runs[0]
        messages = any(run.result.messages for run in self.runs)
        stopped = any(len(run.result.flow_control.time_ns) for run in self.runs)
        for text in STANDARD:
            if not (
                (text.startswith("control") and not messages)
                or (text.startswith("pause") and not stopped)
                or (text == "control.lost" and not self.experiment.control.in_band)
            ):
                yield text
        groups: dict[str, list[str]] = {}
        for flow in first.result.flows:
            groups.setdefault(flow.group, []).append(flow.name)
        is_each_shown = len(first.result.flows) <= _FLOWS_SHOWN
        if is_each_shown:
            yield from (f"rate({flow.name})" for flow in first.result.flows)
        alone = [group for group, names in groups.items() if len(names) == 1]
        if not is_each_shown and len(alone) <= _FLOWS_SHOWN:
            yield from (f"rate({name})" for group in alone for name in groups.pop(group))
        elif not is_each_shown:
            groups = {"*": [flow.name for flow in first.result.flows]}
        for group, names in groups.items():
            if len(names) > 1:
                yield f"mean(rate({group}))"
                if not is_each_shown:
                    yield from (f"{name}(rate({group}))" for name in ("min", "median", "max"))
        for group, names in groups.items():
            if len(names) > 1 and all(self._completes(each) and not self._transacts(each) for each in names):
                yield f"max(fct.max({group}))"
        for flow in first.result.flows if is_each_shown else ():
            if self._completes(flow.name) and self._transacts(flow.name):
                yield from (f"{name}({flow.name})" for name in ("tps", "latency", "latency.p99"))
            elif self._completes(flow.name) and len(groups[flow.group]) == 1:
                names_of_sizes = ("tps", "fct", "fct.p99", "slowdown", "slowdown.p99")
                yield from (f"{name}({flow.name})" for name in names_of_sizes)

    def _completes(self, name: str) -> bool:
        return any(run.measure("tps", name, (), None, None) > 0 for run in self.runs)

    def _transacts(self, name: str) -> bool:
        return any(
            flow.name == name and flow.pattern.value == "transactions" for flow in self.experiment.flows
        )

    @property
    def holds(self) -> bool:
        """Return whether all bands hold."""
        return all(row.holds for row in self.rows)

    def table(self, paint: Paint = plain) -> str:
        """Return the outcome as text: measured and published figures, then missing events."""
        experiment = self.experiment
        seeds = ", ".join(map(str, self.seeds))
        facts = [
            ("source", experiment.source or "–"),
            ("control", control_text(experiment)),
            ("time", self.time_text()),
            ("queue of", self.runs[0].main_port),
            ("seeds" if len(self.seeds) > 1 else "seed", seeds),
        ]
        parts = [
            f"{paint(self.name, 'title')}: {experiment.title}\n{pairs(facts, paint=paint)}",
            figure_table(self.rows, paint=paint),
        ]
        if sizes := self.sizes:
            rows = [(size, cells) for size, *cells in (SIZE_HEADINGS, *(each.cells() for each in sizes))]
            parts.append(f"{paint('completion times by size', 'title')}\n{columns_of(rows, paint=paint)}")
        if lines := [*problems(self.runs), *explanations(self.runs)]:
            parts.append("\n".join(lines))
        return "\n\n".join(parts)

    def time_text(self) -> str:
        """Return the simulated time and the measured time as text."""
        first = self.runs[0]
        measured = f"measured {format_time(first.from_ns)} to {format_time(first.until_ns)}"
        text = f"{format_time(first.result.duration_ns)}, {measured}"
        return text if first.result.complete else f"{text} (stopped)"

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome for JSON."""
        first = self.runs[0]
        return {
            "schema": "ecmproto/lab/1",
            "scenario": self.experiment.name,
            "variant": self.variant,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "mechanism": self.experiment.control.mechanism,
            "flow_control": self.experiment.control.flow_control,
            "parameters": list(self.experiment.control.parameters),
            "in_band": self.experiment.control.in_band,
            "seeds": list(self.seeds),
            "duration_ns": first.result.duration_ns,
            "measured_ns": [first.from_ns, first.until_ns],
            "complete": all(run.result.complete for run in self.runs),
            "port": first.main_port,
            "figures": [row.as_dict() for row in self.rows],
            "sizes": [each._asdict() for each in self.sizes],
            "problems": list(problems(self.runs)),
            "explanations": list(explanations(self.runs)),
            "events": sum(run.result.events for run in self.runs),
            "elapsed_s": sum(run.result.elapsed_s for run in self.runs),
        }


def control_text(experiment: Experiment) -> str:
    """Return the mechanism with its parameters, the flow control, and the transport of messages as text."""
    control = experiment.control
    text = " ".join((control.mechanism, *control.parameters))
    if control.flow_control:
        text += f", over {control.flow_control}"
    if control.mechanism in BASELINES:
        return text
    return f"{text}, messages {'in band' if control.in_band else 'out of band'}"


HEADINGS = ("figure", "result", "range", "published", "band", "verdict")
"""Column headings of tables of figures."""


def cells_of(rows: Sequence[FigureRow]) -> list[tuple[str, ...]]:
    """Return the cells of rows under `HEADINGS`. Results and ranges have one precision."""
    texts = [row.cells() for row in rows]
    even = one_precision([row[1:3] for row in texts])
    return [(row[0], *own, *row[3:]) for row, own in zip(texts, even, strict=True)]


def used_columns(cells: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the indices of columns that are not empty; the first two columns are always included."""
    return [column for column in range(len(HEADINGS)) if column < 2 or any(row[column] for row in cells)]


def figure_table(rows: Sequence[FigureRow], *, paint: Paint = plain) -> str:
    """Return figures as lines of text, without empty columns."""
    cells = cells_of(rows)
    used = used_columns(cells)
    widths = {column: max(len(row[column]) for row in (HEADINGS, *cells)) for column in used}
    lines = []
    for number, row in enumerate((HEADINGS, *cells)):
        style = "title" if not number else ""
        previous_holds = number == 0 or rows[number - 1].holds
        texts = []
        for column in used:
            text = row[column].rjust(widths[column]) if column == 1 else row[column].ljust(widths[column])
            name = style or ("name" if column == 0 else "error" if column == 5 and not previous_holds else "")
            texts.append(paint(text, name) if name and text.strip() else text)
        lines.append(f"  {'  '.join(texts)}".rstrip())
    return "\n".join(lines)


_WIDTH = 80


class Comparison:
    """Outcomes of one scenario side by side: the scenario's own mechanism, other mechanisms, and the
    baselines.

    Queue figures of all outcomes use the main port of the first outcome.
    """

    def __init__(self, outcomes: Mapping[str, Outcome]) -> None:
        self.outcomes: dict[str, Outcome] = dict(outcomes)
        main_port = next(iter(self.outcomes.values())).runs[0].main_port
        for outcome in self.outcomes.values():
            for run in outcome.runs:
                run.main_port = main_port

    @property
    def figures(self) -> list[str]:
        """The figures of all outcomes, in the order of the first outcome."""
        texts = [row.figure.text for outcome in self.outcomes.values() for row in outcome.rows]
        return [text for text in dict.fromkeys(texts) if not parse_figure(text).runs]

    def table(self, paint: Paint = plain, *, width: int = _WIDTH) -> str:
        """Return a line for each figure, with a column for each outcome and a column for published values."""
        first = next(iter(self.outcomes.values()))
        published = {row.figure.text: row.published_text() for row in first.rows}
        names = list(self.outcomes)
        lines: list[tuple[str, list[str]]] = [("", [*names, "published"])]
        quoted = 1
        for text in self.figures:
            medians = [outcome.row(text).ours_text() for outcome in self.outcomes.values()]
            lines.append((text, [*medians, published.get(text, "")]))
        if not any(cells[-1] for _, cells in lines[1:]):
            lines, quoted = [(text, cells[:-1]) for text, cells in lines], 0
        seeds = ", ".join(map(str, first.seeds))
        title = f"{paint(first.experiment.name, 'title')}: {first.experiment.title}; {', '.join(names)}"
        facts = [
            ("time", first.time_text()),
            ("queue of", first.runs[0].main_port),
            ("seeds" if len(first.seeds) > 1 else "seed", seeds),
        ]
        table = "\n".join(
            line.rstrip() for line in columns_of(lines, quoted=quoted, paint=paint).splitlines()
        )
        parts = [f"{title}\n{pairs(facts, paint=paint)}", table, self._curves(paint, width)]
        remarks = [
            f"{name}: {line}"
            for name, outcome in self.outcomes.items()
            for line in (*problems(outcome.runs), *explanations(outcome.runs))
        ]
        return "\n\n".join([*parts, "\n".join(remarks)] if remarks else parts)

    def _curves(self, paint: Paint, width: int) -> str:
        """Return the queue curve of each outcome over the whole time of the first seed, on a common scale."""
        ports = [(name, outcome.runs[0].port("")) for name, outcome in self.outcomes.items()]
        queues = [(name, port.peak_octets.astype(int).tolist()) for name, port in ports]
        return queue_curves(queues, width=width, paint=paint)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        runs = {name: outcome.as_dict() for name, outcome in self.outcomes.items()}
        return {"schema": "ecmproto/lab-comparison/1", "runs": runs}


# Problems and missing events -------------------------------------------------------------------------------


def problems(runs: Sequence[RunFigures]) -> Iterator[str]:
    """Yield sentences about runs that are invalid, were stopped, or deadlocked."""
    distrust = "its figures are not reliable"
    for run in runs:
        result = run.result
        seed = f"seed {result.seed}"
        missing = result.conservation.missing_frames
        if missing:
            lost = "lost" if missing > 0 else "created"
            yield f"{seed}: the simulation itself {lost} {counted(abs(missing), 'frame')}: {distrust}"
        for port in result.ports:
            if min(port.octet_ns.min(initial=0), port.level_octets.min(initial=0)) < 0:
                yield f"{seed}: {port.name} had a negative queue: {distrust}"
        for deadlock in result.deadlocks[:1]:
            circle = " → ".join((*deadlock.ports, deadlock.ports[0]))
            yield f"{seed}: a pause deadlock from {format_time(deadlock.time_ns)} on: {circle}"
        if not result.complete:
            reached, whole = result.duration_ns, result.experiment.duration_ns
            yield f"{seed}: stopped at {format_time(reached)} of {format_time(whole)}"


def explanations(runs: Sequence[RunFigures]) -> Iterator[str]:
    """Yield a sentence for each expected event that happened in no run, with the reason."""
    if not runs:
        return
    yield from _no_flow_control(runs)
    yield from _no_messages(runs)
    yield from _no_drops(runs)
    idle: dict[str, list[str]] = {}
    for name, why in _idle_flows(runs):
        idle.setdefault(why, []).append(name)
    for why, names in idle.items():
        subject = f"flow {names[0]}" if len(names) == 1 else f"{len(names):,} flows, such as {names[0]},"
        yield f"{subject} delivered nothing: {why}"


def _no_flow_control(runs: Sequence[RunFigures]) -> Iterator[str]:
    control = runs[0].result.experiment.control
    kind = control.flow_control or (control.mechanism if control.mechanism in ("pause", "pfc") else None)
    fired = any(port.xoff_frames.any() for run in runs for port in run.result.ports)
    if kind is None or fired or any(len(run.result.flow_control.time_ns) for run in runs):
        return
    ports = [port for run in runs for port in run.result.ports if port.xoff_octets]
    if not ports:
        yield f"{kind.upper()} was never sent: no port has thresholds"
        return
    nearest = max(ports, key=lambda port: port.greatest_input_octets / (port.xoff_octets or 1))
    peak, xoff = format_octets(nearest.greatest_input_octets), format_octets(nearest.xoff_octets or 0)
    yield f"{kind.upper()} was never sent: peak {peak}, XOFF {xoff}, at {nearest.name}"


def _no_messages(runs: Sequence[RunFigures]) -> Iterator[str]:
    experiment = runs[0].result.experiment
    mechanism = experiment.control.mechanism
    if mechanism in BASELINES or any(each.frames.any() for run in runs for each in run.result.messages):
        return
    declared = find_mechanism(mechanism)
    machine = machine_of(declared, declared.parse(experiment.control.parameters))
    if not machine.kinds:
        yield f"no {mechanism} message: the mechanism sends none"
        return
    ports = [port for run in runs for port in run.result.ports if port.set_point_octets is not None]
    if not ports:
        watched = any(port.is_watched for run in runs for port in run.result.ports)
        why = "nothing caused one" if watched else "no port has a congestion point"
        paused = {port.name for run in runs for port in run.result.ports if port.paused_ns.any()}
        xoff = [port.xoff_octets for run in runs for port in run.result.ports if port.xoff_octets]
        if watched and paused and xoff:
            lowest = format_octets(min(xoff))
            why += f", although pauses stopped {counted(len(paused), 'port')} (lowest XOFF: {lowest})"
        watched_priority = machine.isolation[0] if machine.isolation else None
        if machine.isolation and all(flow.priority != watched_priority for flow in experiment.flows):
            why = f"the ports watch priority {watched_priority}, which no flow has (flow.priority)"
        yield f"no {mechanism} message: {why}"
        return
    longest = max(ports, key=lambda port: int(port.peak_octets.max(initial=0)) / (port.set_point_octets or 1))
    peak, set_point = int(longest.peak_octets.max(initial=0)), longest.set_point_octets or 0
    text = f"peak {format_octets(peak)}, Qeq {format_octets(set_point)}, at {longest.name}"
    if peak <= set_point:
        yield f"no {mechanism} message: no queue exceeded Qeq ({text})"
    else:
        sent = format_octets(int(longest.sent_octets.sum()))
        yield f"no {mechanism} message: no sample was taken while a queue was above Qeq ({text}, {sent} sent)"


def _no_drops(runs: Sequence[RunFigures]) -> Iterator[str]:
    ports = [port for run in runs for port in run.result.ports if port.kind != "host"]
    if any(port.dropped_frames.any() for port in ports):
        return
    sized = [port for port in ports if port.buffer_octets]
    if not sized:
        return
    fullest = max(sized, key=lambda port: int(port.peak_octets.max(initial=0)) / port.buffer_octets)
    peak, buffer = int(fullest.peak_octets.max(initial=0)), fullest.buffer_octets
    text = (
        f"no frame was dropped: peak {format_octets(peak)}, buffer {format_octets(buffer)}, at {fullest.name}"
    )
    discarded = sum(int(flow.held_out_frames.sum()) for run in runs for flow in run.result.flows)
    yield f"{text}; full NIC queues rejected {counted(discarded, 'frame')}" if discarded else text


def _idle_flows(runs: Sequence[RunFigures]) -> Iterator[tuple[str, str]]:
    """Yield the flows that delivered nothing, with the reason."""
    first = runs[0].result
    for index, flow in enumerate(first.experiment.flows[: len(first.flows)]):
        series = [run.result.flows[index] for run in runs]
        if any(each.delivered_frames.any() for each in series):
            continue
        if flow.start_ns >= first.duration_ns:
            why = (
                f"it starts at {format_time(flow.start_ns)}, but the run ends at "
                f"{format_time(first.duration_ns)}"
            )
        elif not any(each.offered_frames.any() for each in series):
            why = "its source had nothing to send"
        elif not any(each.sent_frames.any() for each in series):
            why = "nothing left its host: its limiter, PAUSE or a window held it back"
        else:
            dropped = sum(int(each.dropped_frames.sum()) for each in series)
            why = f"{counted(dropped, 'frame')} dropped on the path"
        yield flow.name, why
