"""Sweeps: many points of an experiment's parameters and seeds; an interrupted sweep can be resumed.

A point consists of settings (``path=value``) and a seed. Each point has one line of figures in the result
file. The key of this line is a digest of the scenario, the figures, the point and the code
(`ecmproto.executors.running`).
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import math
import os
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, overload

from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.executors.protocol import Call, Executor, Task, TaskResult
from ecmproto.executors.rows import Row, RowStore
from ecmproto.executors.running import Tally, run_tasks, task_key

if TYPE_CHECKING:
    from ecmproto.control.lab.model import Experiment
    from ecmproto.control.lab.setup.figures import Figure
    from ecmproto.control.lab.setup.scenario import Scenario

MAX_POINTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Parameter of a sweep, with its values as text."""

    path: str
    values: tuple[str, ...]


def parse_axis(text: str) -> Axis:
    """Return the axis for ``path=a,b,c``; a value may be a range, such as ``1..4`` or ``13kB..52kB:13kB``."""
    path, equals, listed = text.partition("=")
    items = [value.strip() for value in listed.split(",") if value.strip()]
    values = tuple(itertools.chain.from_iterable(map(_values_of, items)))
    if not equals or not path.strip() or not values:
        raise ParameterError(
            name="sweep", needed="a parameter and its values, such as rp.ru=4Mb/s,8Mb/s", got=shown(text)
        )
    if len(set(values)) < len(values):
        raise ParameterError(name="sweep", needed="each value once", got=shown(text))
    return Axis(path=path.strip(), values=values)


_NUMBER = r"(-?\d+(?:\.\d+)?)\s*([^\d.:\s]*)"
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(?::{_NUMBER})?")
"""Range of numbers with units: start, end and step. Without units, the step defaults to 1."""


def _values_of(text: str) -> Iterable[str]:
    """Return the values of a range; text that is not a range is returned as the only value."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return (text,)
    first, first_unit, last, unit, step, step_unit = match.groups(default="")
    if not {first_unit, step_unit} <= {"", unit} or (unit and not step):
        needed = "one unit, and a step where there is one, as 13kB..52kB:13kB"
        raise ParameterError(name="sweep", needed=needed, got=shown(text))
    start, stop, width = Decimal(first), Decimal(last), Decimal(step or 1)
    if width <= 0 or not start <= stop <= start + width * MAX_POINTS:
        needed = f"a range that rises, of {MAX_POINTS:,} values or fewer"
        raise ParameterError(name="sweep", needed=needed, got=shown(text))
    count = int((stop - start) / width) + 1
    return (f"{(start + width * index).normalize():f}{unit}" for index in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run: settings and a seed."""

    settings: tuple[tuple[str, str], ...]
    seed: int

    @property
    def text(self) -> str:
        """The settings of the point as text."""
        return ", ".join(f"{path}={value}" for path, value in self.settings)


@dataclass(frozen=True, slots=True)
class _Combinations(Sequence[Point]):
    """Lazy sequence of points: the combinations of values at the indices ``numbers``."""

    axes: Sequence[Axis]
    seeds: Sequence[int]
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Point: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Point]: ...

    def __getitem__(self, index: int | slice) -> Point | Sequence[Point]:
        if isinstance(index, slice):
            return replace(self, numbers=self.numbers[index])
        number, seed = divmod(self.numbers[index], len(self.seeds))
        settings = []
        for axis in reversed(self.axes):
            number, value = divmod(number, len(axis.values))
            settings.append((axis.path, axis.values[value]))
        return Point(settings=tuple(reversed(settings)), seed=self.seeds[seed])


def full_factorial(axes: Sequence[Axis], seeds: Sequence[int]) -> Sequence[Point]:
    """Return every combination of the axes' values with every seed; the last axis varies fastest."""
    combinations = math.prod(len(axis.values) for axis in axes) * len(seeds)
    if combinations > MAX_POINTS:
        raise ParameterError(name="sweep", needed=f"at most {MAX_POINTS:,} points", got=f"{combinations:,}")
    paths = [axis.path for axis in axes]
    if len(set(paths)) < len(paths):
        raise ParameterError(name="sweep", needed="each parameter once", got=", ".join(paths))
    return _Combinations(axes, seeds, range(combinations))


def listed_points(lines: Iterable[str], seeds: Sequence[int]) -> list[Point]:
    """Return points for lines such as ``path=value path=value``, each with every seed; # begins a comment.

    Duplicate lines are ignored.
    """
    points = []
    for number, line in enumerate(lines, 1):
        arguments = line.partition("#")[0].split()
        settings = [word.partition("=") for word in arguments]
        for word, (path, equals, value) in zip(arguments, settings, strict=True):
            if not (path and equals and value):
                raise SpecError(where=f"line {number}", needed="path=value", got=shown(word))
        if arguments:
            given = tuple((path, value) for path, _, value in settings)
            points += [Point(settings=given, seed=seed) for seed in seeds]
    return list(dict.fromkeys(points))


def seeds_of(name: str, commit: str, count: int) -> tuple[int, ...]:
    """Return deterministic seeds: consecutive 32-bit words of SHA-256(``name`` + ``commit``).

    After eight seeds, the digest input is the same text with 1, 2, … appended.
    """
    seeds: list[int] = []
    for block in itertools.count():
        if len(seeds) >= count:
            return tuple(seeds[:count])
        digest = hashlib.sha256(f"{name}{commit}{block or ''}".encode()).digest()
        seeds += [int.from_bytes(digest[at : at + 4]) for at in range(0, len(digest), 4)]
    raise AssertionError  # itertools.count does not end


# Runs -----------------------------------------------------------------------------------------------------


def sweep_call(scenario: Scenario, figures: Sequence[str]) -> Call:
    """Return the call for each point of a sweep (`run_point`)."""
    document = scenario.document
    location = {"folder": os.path.abspath(document.folder), "outside": document.outside}
    options = {"scenario": scenario.toml(), "figures": list(figures), **location}
    return Call(f"{__name__}:{run_point.__name__}", options, outside=tuple(location))


class PointRow(TypedDict):
    """Row of a point, as returned by `run_point`."""

    digest: str
    settings: Mapping[str, str]
    seed: int
    figures: Mapping[str, Sequence[float | None]]
    events: int
    elapsed_s: float


def run_point(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Run a point of a scenario and return the figures; a figure without a finite value is ``None``."""
    from ecmproto.control.lab.results.measurements import RunFigures
    from ecmproto.control.lab.simulation.simulate import simulate

    settings = tuple((path, value) for path, value in data["settings"])
    result = simulate(
        _experiment(options["scenario"], options["folder"], options["outside"], settings), seed=data["seed"]
    )
    run = RunFigures(result)
    values = {text: _figure(text).evaluate(run) for text in options["figures"]}
    finite = {
        text: [value if math.isfinite(value) else None for value in each] for text, each in values.items()
    }
    given = {"settings": dict(data["settings"]), "seed": data["seed"]}
    return {**given, "figures": finite, "events": result.events, "elapsed_s": round(result.elapsed_s, 3)}


@functools.lru_cache(maxsize=4)
def _scenario(toml: str, folder: str, outside: bool) -> Scenario:
    from ecmproto.control.lab.setup.scenario import read_scenario

    return read_scenario(io.BytesIO(toml.encode()), folder=folder, outside=outside)


@functools.lru_cache(maxsize=4)
def _experiment(toml: str, folder: str, outside: bool, settings: tuple[tuple[str, str], ...]) -> Experiment:
    """Return the experiment of a point; the experiment is cached for all seeds of the point."""
    return with_settings(_scenario(toml, folder, outside), settings).experiment()


@functools.lru_cache(maxsize=64)
def _figure(text: str) -> Figure:
    from ecmproto.control.lab.setup.figures import parse_figure

    return parse_figure(text)


def with_settings(scenario: Scenario, settings: Iterable[Sequence[str]]) -> Scenario:
    """Return a scenario with the settings of a sweep point.

    Raises SpecError for an invalid key or value.
    """
    for path, value in settings:
        scenario = scenario.with_value(path, value)
    return scenario


def point_task(point: Point, call: Call) -> Task:
    """Return the task of a point."""
    data = {"settings": [list(each) for each in point.settings], "seed": point.seed}
    return Task(key=task_key(call, data), data=data, name=f"{point.text}, seed {point.seed}")


def row_of(result: TaskResult) -> Row:
    """Return the row of a point; a failed point has settings, seed and ``failure`` instead of figures."""
    failure = result.failure
    data = result.task.data
    point = {"digest": result.task.key, "settings": dict(data["settings"]), "seed": data["seed"]}
    if failure is None:
        return {**result.row, **point}
    return {
        **point,
        "failure": {"kind": failure.kind, "error": failure.error, "sentence": failure.sentence},
    }


def in_order(rows: Iterable[Row], points: Iterable[Point]) -> list[Row]:
    """Return rows sorted in the order of their points."""
    indices = {(tuple(dict(point.settings).items()), point.seed): index for index, point in enumerate(points)}
    return sorted(rows, key=lambda row: indices[tuple(row["settings"].items()), row["seed"]])


@dataclass(frozen=True, slots=True)
class _PointTasks(Collection[Task]):
    """Lazy sequence of the tasks of points."""

    points: Sequence[Point]
    call: Call

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Task]:
        return (point_task(point, self.call) for point in self.points)

    def __contains__(self, task: object) -> bool:
        return any(task == each for each in self)


def run_sweep(
    points: Sequence[Point],
    call: Call,
    *,
    executor: Executor,
    store: RowStore | None = None,
    tally: Tally | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Iterator[Row]:
    """Yield the row of each finished point, stored rows first; see `row_of` and `run_tasks`.

    Points must be distinct. The task of a point is created only when it is due.
    """
    counts = tally if tally is not None else Tally()
    counts.total = len(points)
    tasks = _PointTasks(points, call)
    for result in run_tasks(tasks, call, executor=executor, store=store, tally=counts, progress=progress):
        yield row_of(result)


# Tables ---------------------------------------------------------------------------------------------------


def value_of(row: Row, figure: str) -> float:
    """Return the mean of a figure's values in a row; NaN if there are no values."""
    values = [value for value in row["figures"].get(figure, ()) if value is not None]
    return statistics.fmean(values) if values else math.nan


def cells(rows: Iterable[Row], axes: Sequence[Axis], figure: str) -> dict[tuple[str, ...], list[float]]:
    """Return the values of a figure on all seeds, for each combination of the axes' values."""
    result: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        settings: Mapping[str, str] = row["settings"]
        key = tuple(settings.get(axis.path, "") for axis in axes)
        result.setdefault(key, []).append(value_of(row, figure))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Effect of a factor, or of several factors together, on a figure: half the change from low to high."""

    factors: tuple[str, ...]
    """Factors of the effect; an empty value means the mean."""
    effect: float
    explained: float
    """Share of the figure's variation that the effect explains; NaN for the mean."""


def effects(rows: Iterable[Row], axes: Sequence[Axis], figure: str) -> list[Effect]:
    """Return the effects of a 2ᵏ design: the mean, each factor, and the interactions (S004 has k = 2).

    The second value of each axis is the high value. The last entry is the residual of the seeds, without
    factors and with the effect NaN. Raises ParameterError unless every axis has two values and every
    combination has a number.
    """
    for axis in axes:
        if len(axis.values) != 2:
            got = f"{axis.path} with {len(axis.values)}"
            raise ParameterError(name="effects", needed="two values of each parameter", got=got)
    values = cells(rows, axes, figure)
    corners = list(itertools.product(*(axis.values for axis in axes)))
    if any(not values.get(corner) or any(map(math.isnan, values[corner])) for corner in corners):
        raise ParameterError(
            name="effects", needed=f"a value of {figure} in every row", got="rows without one"
        )
    means = {corner: statistics.fmean(values[corner]) for corner in corners}
    result = []
    for size in range(len(axes) + 1):
        for factors in itertools.combinations(range(len(axes)), size):
            signs = [_sign(corner, axes, factors) for corner in corners]
            contrast = math.fsum(sign * means[corner] for sign, corner in zip(signs, corners, strict=True))
            result.append((factors, contrast / len(corners)))
    repeats = min(len(values[corner]) for corner in corners)
    errors = math.fsum((value - means[corner]) ** 2 for corner in corners for value in values[corner])
    shares = [len(corners) * repeats * effect**2 for factors, effect in result if factors]
    total = math.fsum([*shares, errors])
    named = [
        Effect(
            factors=tuple(axes[index].path for index in factors),
            effect=effect,
            explained=len(corners) * repeats * effect**2 / total if factors and total else math.nan,
        )
        for factors, effect in result
    ]
    if repeats > 1:
        named.append(Effect(factors=(), effect=math.nan, explained=errors / total if total else math.nan))
    return named


def _sign(corner: Sequence[str], axes: Sequence[Axis], factors: Sequence[int]) -> int:
    return math.prod(1 if corner[index] == axes[index].values[1] else -1 for index in factors)
