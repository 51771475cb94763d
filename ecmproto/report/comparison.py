"""The measures of several runs as rows of one table, the best value of each row known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ecmproto.report.run import Measure, Run
from ecmproto.report.scale import ABSENT, finite, measure_text, value_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value in words; whether it is the best of its row; its part of the row's greatest, 0 to 1.

    Values that read alike are best together, unless more than half of the row do: that tells none of them
    apart.
    """

    text: str
    best: bool
    part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One measure of every run; ``better`` as in Measure."""

    label: str
    better: str
    cells: tuple[Cell, ...]


def comparison(runs: Sequence[Run]) -> list[ComparisonRow]:
    """Return a row per measure, in the order in which the runs name them.

    The best values of a row are marked if some run did worse; a value that is no number is never best.
    """
    by_run = [{measure.key: measure for measure in run.measures} for run in runs]
    keys = dict.fromkeys(key for measures in by_run for key in measures)
    return [_row([measures.get(key) for measures in by_run]) for key in keys]


def measured(run: Run, key: str) -> float | int | None:
    """Return the value of the run's measure ``key`` if it has one that is a number."""
    return next((m.value for m in run.measures if m.key == key and finite(m.value)), None)


def _row(measures: list[Measure | None]) -> ComparisonRow:
    known = [measure for measure in measures if measure is not None]
    values = [measure.value for measure in known if finite(measure.value)]
    better = known[0].better
    best = ""
    if better and len(values) > 1:
        ends = value_text(min(values), known[0].unit), value_text(max(values), known[0].unit)
        best = ends[better == "high"] if ends[0] != ends[1] else ""
    most = max(map(abs, values), default=0)
    cells = tuple(_cell(measure, best, most) for measure in measures)
    if 2 * sum(cell.best for cell in cells) > len(cells):
        cells = tuple(replace(cell, best=False) for cell in cells)
    return ComparisonRow(label=known[0].label, better=better or "", cells=cells)


def _cell(measure: Measure | None, best: str, most: float) -> Cell:
    if measure is None or not finite(measure.value):
        return Cell(text=ABSENT, best=False, part=0.0)
    text = measure_text(measure)
    return Cell(text=text, best=text == best, part=abs(measure.value) / most if most else 0.0)
