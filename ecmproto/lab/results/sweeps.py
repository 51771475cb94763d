"""Sweeps: many points of an experiment's parameters, with seeds, on all cores, that go on where they ended.

A point is settings (``path=value``) and a seed.  An executor hands out points and takes rows; each row is a
line of the result file, under a digest of the scenario, the point, the seed and the code.  Points whose
digest stands there are done.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ecmproto.errors import ParameterError, SpecError, shown

MOST_POINTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A parameter and the values that it takes, as they are written."""

    path: str
    values: tuple[str, ...]


def parse_axis(text: str) -> Axis:
    """Return the axis that ``path=a,b,c`` is; a range of whole numbers may be written ``path=1..4``."""
    path, equals, listed = text.partition("=")
    values = tuple(value.strip() for value in listed.split(",") if value.strip())
    if not equals or not path.strip() or not values:
        raise ParameterError(
            name="sweep", needed="a parameter and its values, as rp.ru=4Mb/s,8Mb/s", got=shown(text)
        )
    if len(values) == 1 and ".." in values[0]:
        values = _whole_numbers(values[0]) or values
    if len(set(values)) < len(values):
        raise ParameterError(name="sweep", needed="each value once", got=shown(text))
    return Axis(path=path.strip(), values=values)


def _whole_numbers(text: str) -> tuple[str, ...]:
    first, _, last = text.partition("..")
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < int(first) + MOST_POINTS):
        return ()
    return tuple(str(number) for number in range(int(first), int(last) + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run: what is set, and the seed."""

    settings: tuple[tuple[str, str], ...]
    seed: int

    @property
    def text(self) -> str:
        """The settings for a person."""
        return ", ".join(f"{path}={value}" for path, value in self.settings)


def full_factorial(axes: Sequence[Axis], seeds: Sequence[int]) -> list[Point]:
    """Return every combination of the axes' values, each with every seed; the last axis runs fastest."""
    combinations = math.prod(len(axis.values) for axis in axes) * len(seeds)
    if combinations > MOST_POINTS:
        raise ParameterError(name="sweep", needed=f"at most {MOST_POINTS:,} points", got=f"{combinations:,}")
    paths = [axis.path for axis in axes]
    if len(set(paths)) < len(paths):
        raise ParameterError(name="sweep", needed="each parameter once", got=", ".join(paths))
    return [
        Point(settings=tuple(zip(paths, values, strict=True)), seed=seed)
        for values in itertools.product(*(axis.values for axis in axes))
        for seed in seeds
    ]


def listed_points(lines: Iterable[str], seeds: Sequence[int]) -> list[Point]:
    """Return a point for each line of ``path=value path=value``, each with every seed; # begins a comment."""
    points = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        settings = [word.partition("=") for word in words]
        for word, (path, equals, value) in zip(words, settings, strict=True):
            if not (path and equals and value):
                raise SpecError(where=f"line {number}", needed="path=value", got=shown(word))
        if words:
            given = tuple((path, value) for path, _, value in settings)
            points += [Point(settings=given, seed=seed) for seed in seeds]
    return points


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``number``-th of ``count`` parts of a sweep, from 1 on."""

    number: int = 1
    count: int = 1

    def of(self, points: Sequence[Point]) -> Sequence[Point]:
        """Return the points of this part: every ``count``-th."""
        return points[self.number - 1 :: self.count]


def parse_shard(text: str) -> Shard:
    """Return the part that ``3/40`` is."""
    number, slash, count = text.partition("/")
    if not (
        slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= MOST_POINTS
    ):
        raise ParameterError(name="shard", needed="a part and how many there are, as 3/40", got=shown(text))
    return Shard(int(number), int(count))


# Digests --------------------------------------------------------------------------------------------------


def code_digest() -> str:
    """Return a digest of the package's own code, which decides what a run gives."""
    root = Path(__file__).resolve().parents[2]
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(path.relative_to(root).as_posix().encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


def point_digest(scenario: str, point: Point, code: str) -> str:
    """Return the key of a point's row: of the scenario's text, the point, its seed and the code."""
    given = json.dumps([scenario, point.settings, point.seed, code])
    return hashlib.sha256(given.encode()).hexdigest()[:24]


def seeds_of(name: str, commit: str, count: int) -> tuple[int, ...]:
    """Return seeds that nobody chose: the words of 32 bits of SHA-256(``name`` + ``commit``), from the front.

    Past the eighth they come from the digest of that text with 1, 2, … behind it.
    """
    words: list[int] = []
    for block in itertools.count():
        if len(words) >= count:
            return tuple(words[:count])
        digest = hashlib.sha256(f"{name}{commit}{block or ''}".encode()).digest()
        words += [int.from_bytes(digest[at : at + 4]) for at in range(0, len(digest), 4)]
    raise AssertionError  # itertools.count does not end


# Rows -----------------------------------------------------------------------------------------------------

Row = dict[str, Any]
"""A point's line: digest, scenario, settings, seed, figures by their text, each with its values."""


class ResultFile:
    """Rows as lines of JSON in a file that grows; a last line that was cut short is done again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.rows: dict[str, Row] = {}
        whole = 0
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break
            self._take(line, number)
            whole += len(line)
        if whole < len(content):
            with self.path.open("r+b") as file:
                file.truncate(whole)

    def _take(self, line: bytes, number: int) -> None:
        try:
            row = json.loads(line)
            self.rows[row["digest"]] = row
        except (ValueError, KeyError, TypeError):
            where = f"{self.path}, line {number}"
            raise SpecError(
                where=where, needed="a row of a sweep", got=shown(line.decode(errors="replace")[:60])
            ) from None

    def add(self, row: Row) -> None:
        """Append a row, whole, so that another process may append to the same file."""
        self.rows[row["digest"]] = row
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


Work = Callable[[Point], Row]
"""Runs a point; it must be a function of a module, or a partial of one, that can be sent to a process."""


class Executor(Protocol):
    """Hands out points and takes rows: here the cores of this machine, elsewhere a cluster."""

    def run(self, points: Sequence[Point], work: Work) -> Iterator[tuple[Point, Row]]:
        """Yield each point with its row as it is done, in any order.

        Whoever closes the iterator stops the rest.
        """


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Processes of this machine, ``jobs`` of them; with 1 this process itself."""

    jobs: int = 1

    def run(self, points: Sequence[Point], work: Work) -> Iterator[tuple[Point, Row]]:
        """Yield each point with its row as it is done.

        The first point is run in this process, so that kernels are compiled, and stored, once.
        """
        first = points if self.jobs == 1 else points[:1]
        for point in first:
            yield point, work(point)
        if len(first) == len(points):
            return
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        with context.Pool(min(self.jobs, len(points) - 1), initializer=ignore_interrupts) as pool:
            yield from pool.imap_unordered(_Numbered(work), points[1:])


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Work that returns its point too."""

    work: Work

    def __call__(self, point: Point) -> tuple[Point, Row]:
        return point, self.work(point)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_sweep(
    points: Sequence[Point],
    work: Work,
    *,
    scenario: str,
    file: ResultFile | None,
    executor: Executor,
    code: str,
    done: Callable[[Row, bool], None] = lambda row, was_known: None,
) -> list[Row]:
    """Run the points that the file does not have yet and return the rows of all, in the points' order.

    ``done`` is called with each row, and whether it stood in the file.
    """
    digests = {point: point_digest(scenario, point, code) for point in points}
    rows: dict[Point, Row] = {}
    known = file.rows if file is not None else {}
    for point in points:
        if digests[point] in known:
            rows[point] = known[digests[point]]
            done(rows[point], True)
    left = [point for point in points if point not in rows]
    for point, figures in executor.run(left, work) if left else ():
        row: Row = {
            "digest": digests[point],
            "settings": dict(point.settings),
            "seed": point.seed,
            **figures,
        }
        rows[point] = row
        if file is not None:
            file.add(row)
        done(row, False)
    return [rows[point] for point in points]


# Tables ---------------------------------------------------------------------------------------------------


def value_of(row: Row, figure: str) -> float:
    """Return the mean of a figure's values in a row; NaN where it has none."""
    values = [value for value in row["figures"].get(figure, ()) if value is not None]
    return statistics.fmean(values) if values else math.nan


def cells(rows: Iterable[Row], axes: Sequence[Axis], figure: str) -> dict[tuple[str, ...], list[float]]:
    """Return the values of a figure on all seeds for each combination of the axes' values."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        settings: Mapping[str, str] = row["settings"]
        key = tuple(settings.get(axis.path, "") for axis in axes)
        found.setdefault(key, []).append(value_of(row, figure))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a factor, or several together, do to a figure: half the change from low to high."""

    factors: tuple[str, ...]
    """None for the mean."""
    effect: float
    explained: float
    """The share of the figure's variation that is due to it; NaN for the mean."""


def effects(rows: Iterable[Row], axes: Sequence[Axis], figure: str) -> list[Effect]:
    """Return the effects of a 2ᵏ design (S004 has k = 2): the mean, each factor, and what they do together.

    The second value of each axis is the high one.  What remains, of the seeds, is the last: without factors,
    its effect NaN.  ParameterError unless every axis has two values and every combination a number.
    """
    for axis in axes:
        if len(axis.values) != 2:
            got = f"{axis.path} with {len(axis.values)}"
            raise ParameterError(name="effects", needed="two values of each parameter", got=got)
    values = cells(rows, axes, figure)
    corners = list(itertools.product(*(axis.values for axis in axes)))
    if any(not values.get(corner) or any(map(math.isnan, values[corner])) for corner in corners):
        raise ParameterError(name="effects", needed=f"a value of {figure} everywhere", got="some without")
    means = {corner: statistics.fmean(values[corner]) for corner in corners}
    found = []
    for size in range(len(axes) + 1):
        for factors in itertools.combinations(range(len(axes)), size):
            signs = [_sign(corner, axes, factors) for corner in corners]
            contrast = math.fsum(sign * means[corner] for sign, corner in zip(signs, corners, strict=True))
            found.append((factors, contrast / len(corners)))
    repeats = min(len(values[corner]) for corner in corners)
    errors = math.fsum((value - means[corner]) ** 2 for corner in corners for value in values[corner])
    shares = [len(corners) * repeats * effect**2 for factors, effect in found if factors]
    total = math.fsum([*shares, errors])
    named = [
        Effect(
            factors=tuple(axes[place].path for place in factors),
            effect=effect,
            explained=len(corners) * repeats * effect**2 / total if factors and total else math.nan,
        )
        for factors, effect in found
    ]
    if repeats > 1:
        named.append(Effect(factors=(), effect=math.nan, explained=errors / total if total else math.nan))
    return named


def _sign(corner: Sequence[str], axes: Sequence[Axis], factors: Sequence[int]) -> int:
    return math.prod(1 if corner[place] == axes[place].values[1] else -1 for place in factors)
