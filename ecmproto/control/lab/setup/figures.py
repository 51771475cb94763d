"""Figures of an experiment, as expressions: ``queue.p99``, ``mean(rate(r5, r6)) / mean(rate(r1..r4))``.

::

    queue.mean[50ms..90ms]           a measurement over a part of the time
    queue.p99(CS>ES5)                a measurement of a port; the default is the experiment's main port
    rate(r1..r4)                     a value for each flow; also rate(ST*), rate(GROUP), rate(r1, r4)
    queue.settling(18kB..30kB, 0.5ms)[10ms..]    with limits
    mean(…) median min max sum std jain ratio    functions of values
    tps(SR1) / tps(SR1)@none         a measurement in another run: a variant of the scenario, or a mechanism
    queue.p99 < 40kB                 an expectation; 1.8 <= ratio(one_hop, two_hop) <= 2.3

Values are octets, bit/s, ns or plain numbers. Numbers in expressions have a unit (``40kB``, ``5G``, ``15ms``,
``16frames``, ``90%``). Values of different units cannot be added or compared. :class:`Figures` provides the
measurements.
"""

from __future__ import annotations

import ast
import contextlib
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple, NoReturn, Protocol

from ecmproto.control.lab.model import FRAME_OCTETS
from ecmproto.errors import ParameterError, SpecError, hint_on_name, shown
from ecmproto.units import (
    exact_time,
    format_octets,
    format_rate,
    format_share,
    format_time,
    jain_index,
    parse_octets,
    parse_rate,
    parse_time,
)


class Figures(Protocol):
    """Interface for the measurements of a run."""

    @property
    def flows(self) -> Mapping[str, str]:
        """The names of all flows, each with its group; the group is empty for a flow without a group."""

    @property
    def ports(self) -> Sequence[str]:
        """The names of all ports, such as ``switch>peer``."""

    def measure(
        self, name: str, subject: str, limits: tuple[float, ...], from_ns: int | None, until_ns: int | None
    ) -> float:
        """Return the measurement ``name`` of ``subject``; ``name`` is one of `MEASUREMENTS`.

        ``subject`` is a flow or a port. An empty subject means the experiment's main port, or the whole
        network. ``limits`` are the other values in the measurement's parentheses. Without ``from_ns`` and
        ``until_ns``, the experiment's own measured time applies. Infinity means that the event never
        happened, for example that a queue did not settle. NaN means that there is no value, for example no
        latency without transactions.
        """


class Dimension(NamedTuple):
    """Unit of a value, as exponents."""

    octets: int = 0
    rate: int = 0
    time: int = 0


NUMBER, OCTETS, RATE, TIME = Dimension(), Dimension(octets=1), Dimension(rate=1), Dimension(time=1)
_NAMED: Mapping[Dimension, tuple[str, str]] = {
    NUMBER: ("a number", "1.5 or 95%"),
    OCTETS: ("a size", "40kB"),
    RATE: ("a rate", "5G"),
    TIME: ("a time", "15ms"),
}


class Limits(NamedTuple):
    """Limits of a measurement, in parentheses after the subject."""

    dimensions: tuple[Dimension, ...]
    """Dimension of each value; a range such as ``18kB..30kB`` has two values."""
    shape: str
    """Example of the limits as text."""
    min_values: int
    """Minimum number of values; optional values are at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Definition of a measurement: subject, unit and limits."""

    of: str
    """Type of the subject: ``port``, ``flow`` (one value for each flow), or ``network``."""
    dimension: Dimension
    doc: str
    limits: tuple[Limits, ...] = ()
    """Allowed forms of the limits; empty for a measurement without limits."""


_AVERAGED = "the averaging time, by default 1 ms"
_OF_QUEUE = (
    Limits((OCTETS, OCTETS, TIME), "18kB..30kB, 1ms", 2),
    Limits((NUMBER, TIME), "25%, 1ms", 1),
)
_OF_RATE = (
    Limits((RATE, RATE, TIME), "2.4G..2.6G, 1ms", 2),
    Limits((NUMBER, TIME), "5%, 1ms", 1),
)
_SETTLING = (
    "time until the average of {} stays within limits until the end of the range; a percentage means limits "
    f"around the mean over the last tenth of the range (S002); the last value is {_AVERAGED}"
)
_REACHES = (
    "time from the start of the range until {} reaches the first argument. "
    f"The second argument is {_AVERAGED}"
)


def _of(of: str, dimension: Dimension, doc: str, *limits: Limits) -> Measurement:
    return Measurement(of=of, dimension=dimension, doc=doc, limits=limits)


MEASUREMENTS: Mapping[str, Measurement] = {
    "queue.mean": _of("port", OCTETS, "mean length of the queue over time, including the frame in service"),
    "queue.std": _of("port", OCTETS, "standard deviation of the queue's length over time"),
    "queue.min": _of("port", OCTETS, "minimum length of the queue"),
    "queue.peak": _of("port", OCTETS, "maximum length of the queue"),
    "queue.p99": _of("port", OCTETS, "a percentile of the queue's length; also p50, p99.9 and so on"),
    "queue.within": _of(
        "port", NUMBER, "fraction of the time in which the queue's length is within limits",
        Limits((OCTETS, OCTETS), "18kB..30kB", 2),
    ),
    "queue.settling": _of("port", TIME, _SETTLING.format("the queue"), *_OF_QUEUE),
    "throughput": _of("port", RATE, "rate at which a port sends"),
    "throughput.settling": _of("port", TIME, _SETTLING.format("the rate of a port"), *_OF_RATE),
    "throughput.reaches": _of(
        "port", TIME, _REACHES.format("a port's average rate"), Limits((RATE, TIME), "8G, 1ms", 1)
    ),
    "utilisation": _of("port", NUMBER, "rate at which a port sends, as a fraction of its line rate"),
    "share": _of("port", NUMBER, "octets of a port, as a fraction of the octets of all ports on equal "
    "paths at its switch"),
    "drops": _of("port", NUMBER, "dropped frames; without a port, in the whole network"),
    "losses": _of("port", NUMBER, "frames lost on the link of a port; without a port, on all links"),
    "watchdogs": _of("port", NUMBER, "actions of the watchdog of a port on paused priorities; without a "
    "port, of all watchdogs"),
    "pause.count": _of("port", NUMBER, "number of times that PAUSE or PFC paused a port; without a port, "
    "the sum for all ports"),
    "pause.time": _of("port", TIME, "time for which a port was paused; without a port, the sum for all "
    "ports"),
    "control.frames": _of("network", NUMBER, "messages of the mechanism"),
    "control.lost": _of("network", NUMBER, "in-band messages that a full port dropped"),
    "control.octets": _of("network", OCTETS, "octets of the mechanism's messages"),
    "control.overhead": _of("network", NUMBER, "octets of messages, divided by octets of delivered data"),
    "rate": _of("flow", RATE, "rate of a flow at its destination"),
    "rate.settling": _of("flow", TIME, _SETTLING.format("the rate of a flow"), *_OF_RATE),
    "rate.reaches": _of(
        "flow", TIME, _REACHES.format("a flow's average rate"), Limits((RATE, TIME), "2G, 1ms", 1)
    ),
    "offered": _of("flow", RATE, "rate that a flow offered"),
    "lost": _of("flow", NUMBER, "frames of a flow that were lost"),
    "delay": _of("flow", TIME, "mean time of a flow's frames from the sending host's NIC to the destination"),
    "tps": _of("flow", NUMBER, "transactions completed per second"),
    "latency": _of("flow", TIME, "mean time of a transaction"),
    "latency.p99": _of("flow", TIME, "a percentile of a transaction's time; also p50, p99.9 and so on"),
    "fct": _of("flow", TIME, "mean completion time of flows of given sizes"),
    "fct.p99": _of("flow", TIME, "a percentile of the completion time"),
    "fct.max": _of("flow", TIME, "maximum completion time, such as the completion time of a collective"),
    "slowdown": _of("flow", NUMBER, "mean ratio of the completion time to the completion time in an "
    "empty network"),
    "slowdown.p99": _of("flow", NUMBER, "a percentile of the slowdown"),
}  # fmt: skip
"""All measurements, by name."""

_PERCENTILE = re.compile(r"(.*\.)p[0-9]{1,2}(?:\.[0-9]{1,4})?")


def find_measurement(name: str) -> Measurement | None:
    """Return the measurement called ``name``, including any percentile; ``None`` for an unknown name."""
    match = _PERCENTILE.fullmatch(name)
    return MEASUREMENTS.get(f"{match[1]}p99" if match else name)


def _over(function: Callable[[Sequence[float]], float]) -> Callable[[Sequence[float]], float]:
    return lambda values: function(values) if values else math.nan


_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": _over(statistics.fmean),
    "median": _over(statistics.median),
    "min": _over(min),
    "max": _over(max),
    "sum": math.fsum,
    "std": _over(statistics.pstdev),
    "jain": lambda values: jain_index(values, math.nan),
}
_RATIO = "ratio"
RESERVED = frozenset({*_AGGREGATES, _RATIO})
"""Names that no flow may have, in addition to the names of measurements."""


@dataclass(frozen=True, slots=True)
class _Constant:
    value: float

    def of(self, runs: _Runs) -> tuple[float, ...]:
        return (self.value,)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Measurement with its ``subjects``."""

    name: str
    subjects: tuple[str, ...]
    limits: tuple[float, ...]
    from_ns: int | None
    until_ns: int | None
    run: str

    def of(self, runs: _Runs) -> tuple[float, ...]:
        figures = runs.named(self.run)
        measurement = find_measurement(self.name)
        assert measurement is not None  # the parser has checked the name
        subjects: Sequence[str] = ("",)
        if measurement.of == "flow":
            subjects = expand_flows(self.subjects, figures.flows)
        elif self.subjects:
            subjects = expand_ports(self.subjects, figures.ports)
        read = figures.measure
        return tuple(
            read(self.name, subject, self.limits, self.from_ns, self.until_ns) for subject in subjects
        )


@dataclass(frozen=True, slots=True)
class _Aggregate:
    function: str
    parts: tuple[_Node, ...]

    def of(self, runs: _Runs) -> tuple[float, ...]:
        parts = [part.of(runs) for part in self.parts]
        if self.function == _RATIO:
            mean = _AGGREGATES["mean"]
            return (_quotient(mean(parts[0]), mean(parts[1])),)
        return (_AGGREGATES[self.function]([value for part in parts for value in part]),)


@dataclass(frozen=True, slots=True)
class _Operation:
    operator: str
    left: _Node
    right: _Node

    def of(self, runs: _Runs) -> tuple[float, ...]:
        left, right = self.left.of(runs), self.right.of(runs)
        if len(left) != len(right):
            if 1 not in (len(left), len(right)):
                got = f"{len(left)} and {len(right)}"
                raise SpecError(
                    where="figure",
                    needed=f"equal numbers of values on both sides of {self.operator}",
                    got=got,
                )
            many = max(len(left), len(right))
            left, right = left * (many // len(left)), right * (many // len(right))
        calculate = _OPERATORS[self.operator]
        return tuple(calculate(a, b) for a, b in zip(left, right, strict=True))


_Node = _Constant | _Reading | _Aggregate | _Operation


def _quotient(dividend: float, divisor: float) -> float:
    if divisor:
        return dividend / divisor
    return math.nan if not dividend or math.isnan(dividend) else math.copysign(math.inf, dividend)


_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


class _Runs(NamedTuple):
    """The run to which figures refer by default, and other runs by name."""

    own: Figures
    others: Mapping[str, Figures]

    def named(self, name: str) -> Figures:
        if not name:
            return self.own
        if name not in self.others:
            known = ", ".join(self.others) or "no other run"
            raise SpecError(where="figure", needed="an existing run", got=f"@{name}", hint=known)
        return self.others[name]


@dataclass(frozen=True, slots=True)
class Figure:
    """Parsed expression."""

    text: str
    dimension: Dimension
    node: _Node

    @property
    def runs(self) -> frozenset[str]:
        """The names of the other runs in the expression: variants or mechanisms."""
        return frozenset(each.run for each in _readings(self.node) if each.run)

    @property
    def readings(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The measurements in the expression, each with the written names of its subjects."""
        return tuple((each.name, each.subjects) for each in _readings(self.node))

    @property
    def times_ns(self) -> frozenset[int]:
        """The start and end times of all time ranges."""
        ends = (end for each in _readings(self.node) for end in (each.from_ns, each.until_ns))
        return frozenset(end for end in ends if end is not None)

    def evaluate(self, figures: Figures, others: Mapping[str, Figures] | None = None) -> tuple[float, ...]:
        """Return the values of the expression: one value, or one value for each of several flows.

        ``others`` are the runs that the expression refers to by ``@``. Raises SpecError for unknown flows,
        ports and runs. Also raises SpecError if the two sides of an operator have different numbers of
        values.
        """
        return self.node.of(_Runs(figures, others or {}))

    def show(self, value: float) -> str:
        """Return a value of the expression as text."""
        settled = value == 0 and re.match(r"\w+\.settling\(", self.text)
        return "at once" if settled else show_value(value, self.dimension)


def check_borders(times_ns: Iterable[int], window_ns: int, duration_ns: int, where: str = "figure") -> None:
    """Raise SpecError for times that are not window edges; counts within a window cannot be divided."""
    inside = sorted(each for each in times_ns if each % window_ns and each < duration_ns)
    if inside:
        fitting_ns = math.gcd(window_ns, *inside)
        raise SpecError(
            where=where,
            needed=f"times that are multiples of measure.window, {exact_time(window_ns)}",
            got=exact_time(inside[0]),
            hint=f"measure.window={exact_time(fitting_ns).replace(' ', '')} fits",
        )


def show_value(value: float, dimension: Dimension) -> str:
    """Return a value as text, such as ``24 kB``, ``2.35 Gb/s``, ``5 ms`` or ``0.9991``.

    NaN becomes "–". An infinite time becomes "never", and any other infinite value becomes "∞".
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "never" if dimension == TIME else "∞"
    show = {OCTETS: format_octets, RATE: format_rate, TIME: format_time}.get(dimension, _show_number)
    return show(value)


def _show_number(value: float) -> str:
    """Return a number as text with four significant digits; a whole number keeps all digits."""
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) < 1e-3:
        return format_share(value)
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class Expectation:
    """Comparison of figures: ``left < right``, or a chain such as ``1.8 <= left <= 2.3``."""

    text: str
    figures: tuple[Figure, ...]
    comparisons: tuple[str, ...]

    @property
    def runs(self) -> frozenset[str]:
        """The names of the other runs in the expectation."""
        return frozenset().union(*(figure.runs for figure in self.figures))

    def check(
        self, figures: Figures, others: Mapping[str, Figures] | None = None
    ) -> tuple[bool, tuple[tuple[float, ...], ...]]:
        """Return whether each value meets the expectation, and the values of each figure.

        NaN never meets an expectation. Raises SpecError for the same reasons as `Figure.evaluate`.
        """
        values = tuple(figure.evaluate(figures, others) for figure in self.figures)
        is_met = all(
            bool(left and right) and all(_COMPARISONS[sign](a, b) for a in left for b in right)
            for sign, left, right in zip(self.comparisons, values, values[1:], strict=False)
        ) and not any(math.isnan(value) for each in values for value in each)
        return is_met, values


def parse_figure(text: str) -> Figure:
    """Return the parsed expression of ``text``.

    Raises SpecError with the offset of the invalid character.
    """
    reader = _Reader(text)
    figure, *others = reader.figures()
    if others:
        reader.fail("the end, or one of + - * /", at=reader.comparisons[0].start())
    return figure


def parse_expectation(text: str) -> Expectation:
    """Return the parsed comparison of ``text``.

    Raises SpecError with the offset of the invalid character.
    """
    reader = _Reader(text)
    first, *others = figures = reader.figures()
    if not others:
        reader.fail(f"a comparison ({', '.join(_SIGNS)}) after the figure, as queue.p99 < 40kB", "none")
    for sign, figure in zip(reader.comparisons, others, strict=True):
        if figure.dimension != first.dimension and not _is_zero(figure.node):
            reader.fail(_named(first.dimension), _bare(figure.text), sign.end())
    return Expectation(text.strip(), tuple(figures), tuple(sign[0] for sign in reader.comparisons))


def parse_value(text: str, dimension: Dimension) -> float:
    """Return the number of ``dimension`` in ``text``, such as ``40kB`` or ``95%``.

    Raises ParameterError for other text.
    """
    with contextlib.suppress(SpecError):
        figure = parse_figure(text)
        if isinstance(figure.node, _Constant) and (figure.dimension == dimension or _is_zero(figure.node)):
            return figure.node.value
    raise ParameterError(name="value", needed=_named(dimension), got=shown(text))


def expand_flows(patterns: Sequence[str], flows: Mapping[str, str]) -> list[str]:
    """Return the flows that match the patterns: a name, ``r1..r4``, ``ST*``, or a group.

    No pattern means all flows. Raises SpecError for a pattern without matches.
    """
    chosen: dict[str, None] = {}
    for pattern in patterns or ("*",):
        names = expand_range(pattern)
        matches = [flow for flow in flows if any(fnmatchcase(flow, name) for name in names)]
        matches = matches or [flow for flow, group in flows.items() if group and fnmatchcase(group, pattern)]
        if not matches:
            known = sorted({*flows, *filter(None, flows.values())})
            hint = hint_on_name(pattern, known)
            raise SpecError(where="figure", needed="a flow or a group", got=pattern, hint=hint)
        chosen.update(dict.fromkeys(matches))
    return list(chosen)


_RANGE = re.compile(r"(.*?)([0-9]{1,6})\.\.(.*?)([0-9]{1,6})")
_LONG_RANGE = re.compile(r"[^.]*?[0-9]+\.\.[^.]*?[0-9]{7,}")
_MAX_NAMES = 100_000


def expand_range(text: str) -> list[str]:
    """Return the names in a range such as ``h1..h4``, or the text itself.

    Raises SpecError for an empty range, and for too many names.
    """
    match = _RANGE.fullmatch(text)
    if not match or match[3] not in ("", match[1]):
        if _LONG_RANGE.fullmatch(text):
            raise SpecError(where="names", needed=f"a range of at most {_MAX_NAMES:,} names", got=shown(text))
        return [text]
    first, last = int(match[2]), int(match[4])
    if not 0 <= last - first < _MAX_NAMES:
        raise SpecError(where="names", needed="a rising range such as h1..h4", got=shown(text))
    width = len(match[2]) if match[2].startswith("0") else 0
    return [f"{match[1]}{number:0{width}d}" for number in range(first, last + 1)]


def expand_ports(patterns: Sequence[str], ports: Sequence[str]) -> list[str]:
    """Return the ports that match the patterns: ``CS>ES5``, ``CS>*``, or ``DT`` for all ports to DT."""
    chosen: dict[str, None] = {}
    for pattern in patterns:
        whole = pattern if ">" in pattern else f"*>{pattern}"
        matches = [port for port in ports if fnmatchcase(port, whole)]
        if not matches:
            raise SpecError(where="figure", needed="a port", got=pattern, hint=hint_on_name(pattern, ports))
        chosen.update(dict.fromkeys(matches))
    return list(chosen)


def _is_zero(node: _Node) -> bool:
    """Return whether an expression is 0; the number 0 needs no unit."""
    return isinstance(node, _Constant) and not node.value


def _readings(node: _Node) -> list[_Reading]:
    match node:
        case _Reading():
            return [node]
        case _Aggregate():
            return [each for part in node.parts for each in _readings(part)]
        case _Operation():
            return [*_readings(node.left), *_readings(node.right)]
    return []


def _named(dimension: Dimension) -> str:
    if dimension in _NAMED:
        name, example = _NAMED[dimension]
        return f"{name}, as {example}"
    return "a figure of the same unit"


def _bare(text: str) -> str:
    return shown(text.strip()[:40])


_SIGNS = ("<=", ">=", "==", "!=", "<", ">")
_SIGN = re.compile(rf"\s+|{'|'.join(_SIGNS)}|[-+*/,()]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?)\s*(%|[A-Za-zµ]+(?:/s)?)?")
_ARGUMENT = re.compile(r"(?:,|[a-z]\s*\()\s*$")
_FLOWS = re.compile(r"[A-Za-z_][A-Za-z0-9_.*?>-]*(?=\s*[,)\[])")
_ARGUMENTS = re.compile(r"\s*\(([^()\[\]]*)(\)?)")
_TIMES = re.compile(r"\s*\[([^\]]*)(\]?)")
_RUN = re.compile(r"\s*@\s*([A-Za-z0-9_][A-Za-z0-9_.+-]*)?")
_MAX_DEPTH = 50
_MAX_LENGTH = 2000
_MAX_OPERATORS = 200
"""Maximum number of operators, which keeps expressions within Python's recursion limit."""
_FIGURE = "a figure, such as queue.mean, or a number"
_END = "the end, or one of + - * /"
_OPERATOR_SIGNS: Mapping[type[ast.operator], tuple[str, int]] = {
    ast.Add: ("+", 0), ast.Sub: ("-", 0), ast.Mult: ("*", 1), ast.Div: ("/", -1),
}  # fmt: skip
"""All operators, with the exponent that each operator gives to the right side's unit."""
_TIME_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "min", "h"})
_FRAME_UNITS = frozenset({"frame", "frames"})


class _Reader:
    """Parser of an expression, which first translates the text into Python.

    In the Python text, ``xxx`` replaces each number, measurement and flow pattern. Functions and operators
    remain, at unchanged offsets.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            raise SpecError(where="figure", needed=f"at most {_MAX_LENGTH} characters", got=str(len(text)))
        self.text = text
        self.at = 0
        self.comparisons: list[re.Match[str]] = []
        self._python = ""
        self._operands: dict[int, tuple[Dimension, _Node]] = {}
        while self.at < len(text):
            start, sign = self.at, _SIGN.match(text, self.at)
            python = self._sign(sign) if sign else self._operand()
            self._python += python.ljust(self.at - start)
        if self._depth() > 0:
            self.fail(shown(")"))

    def figures(self) -> list[Figure]:
        """Return the figures between the comparison operators."""
        try:
            # The parentheses are needed because a line of Python must not begin with a space.
            tree = ast.parse(f"({self._python})", mode="eval").body
        except SyntaxError as error:
            self.fail(_FIGURE, at=min((error.offset or 0) - 2, len(self.text)))
        parts = [tree.left, *tree.comparators] if isinstance(tree, ast.Compare) else [tree]
        starts = [0, *(sign.end() for sign in self.comparisons)]
        ends = [*(sign.start() for sign in self.comparisons), len(self.text)]
        read = [self._node(part) for part in parts]
        texts = [self.text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        return [Figure(text, *figure) for text, figure in zip(texts, read, strict=True)]

    def fail(self, needed: str, got: str | None = None, at: int | None = None, hint: str = "") -> NoReturn:
        at = self.at if at is None else at
        if got is None:
            got = shown(self.text[at : at + 20]) if self.text[at:].strip() else "the end"
        where = f"figure {shown(self.text.strip())} at character {at + 1}"
        raise SpecError(where=where, needed=needed, got=got, hint=hint)

    def _depth(self) -> int:
        return self._python.count("(") - self._python.count(")")

    def _sign(self, sign: re.Match[str]) -> str:
        text = sign[0].strip()
        if text == ")" and not self._depth():
            self.fail(_END)
        if text == "(" and self._depth() == _MAX_DEPTH:
            self.fail(f"at most {_MAX_DEPTH} nested brackets", "more")
        if text in _SIGNS:
            self.comparisons.append(sign)
        if sum(map(self._python.count, "+-*/")) > _MAX_OPERATORS:
            self.fail(f"at most {_MAX_OPERATORS} operators", "more")
        self.at = sign.end()
        return text

    def _operand(self) -> str:
        if self._python.rstrip().endswith(("x", ")")):
            self.fail(shown(")") if self._depth() else _END)
        start, name = self.at, _NAME.match(self.text, self.at)
        if name and name[0] in RESERVED:
            self.at = name.end()
            if not self.text[self.at :].lstrip().startswith("("):
                self.fail(shown("("))
            return name[0]
        quantity = _QUANTITY.match(self.text, start)
        self._operands[start] = self._quantity(quantity) if quantity else self._measured(name)
        return "x" * (self.at - start)

    def _quantity(self, match: re.Match[str]) -> tuple[Dimension, _Node]:
        value = _value(match[1], match[2] or "")
        if value is None:
            self.fail("a number with a unit (kB, G, ms, %, frames) or none", shown(match[0]))
        self.at = match.end()
        return value[0], _Constant(value[1])

    def _measured(self, name: re.Match[str] | None) -> tuple[Dimension, _Node]:
        """Return a measurement, or the rates of flows for a name that is not a measurement."""
        if not name:
            self.fail(_FIGURE)
        if measurement := find_measurement(name[0]):
            self.at = name.end()
            return measurement.dimension, self._reading(name, measurement)
        flows = _FLOWS.match(self.text, self.at)
        if not flows or not _ARGUMENT.search(self.text[: self.at]):
            known = [*MEASUREMENTS, *_AGGREGATES, _RATIO]
            self.fail("a figure", shown(name[0]), hint=hint_on_name(name[0], known))
        self.at = flows.end()
        return RATE, _Reading("rate", (flows[0],), (), *self._time_range(), self._run())

    def _reading(self, name: re.Match[str], measurement: Measurement) -> _Reading:
        """Return a measurement with its suffixes: ``(subjects, limits)[from..until]@run``."""
        subjects: list[str] = []
        limits: list[tuple[Dimension, float]] = []
        arguments = self._enclosed(_ARGUMENTS, shown(")"))
        for word in map(str.strip, arguments.split(",") if arguments is not None else ()):
            limit = _limit(word)
            if len(word.split()) != 1:
                self.fail("a name, or a limit", shown(word), name.end())
            if limit is None and limits:
                self.fail("limits after the names", shown(word), name.end())
            limits += limit or []
            subjects += [word] if limit is None else []
        self._check_limits(name, measurement, tuple(each for each, _ in limits))
        if subjects and measurement.of == "network":
            needed = f"{name[0]} without names, since it covers the whole network"
            self.fail(needed, shown(subjects[0]), name.start())
        values = tuple(value for _, value in limits)
        return _Reading(name[0], tuple(subjects), values, *self._time_range(), self._run())

    def _check_limits(
        self, name: re.Match[str], measurement: Measurement, got: tuple[Dimension, ...]
    ) -> None:
        for form in measurement.limits:
            if len(got) >= form.min_values and got == form.dimensions[: len(got)]:
                return
        if got or measurement.limits:
            forms = " or ".join(f"{name[0]}({form.shape})" for form in measurement.limits)
            self.fail(forms or f"{name[0]} without limits", "others" if got else "no limits", name.start())

    def _enclosed(self, pattern: re.Pattern[str], needed: str) -> str | None:
        match = pattern.match(self.text, self.at)
        if not match:
            return None
        if not match[2]:
            self.fail(needed, at=match.end())
        self.at = match.end()
        return match[1]

    def _time_range(self) -> tuple[int | None, int | None]:
        start, needed = self.at, "a time range such as [50ms..90ms], [10ms..] or [..80ms]"
        enclosed = self._enclosed(_TIMES, needed)
        if enclosed is None:
            return None, None
        first, dots, last = enclosed.partition("..")
        if not dots:
            self.fail(needed, shown(enclosed), start)
        try:
            from_ns = parse_time(first) if first.strip() else None
            until_ns = parse_time(last) if last.strip() else None
        except ParameterError as error:
            self.fail(error.needed, error.got, start)
        if until_ns is not None and until_ns <= (from_ns or 0):
            self.fail("a time range that ends after it begins", shown(enclosed), start)
        return from_ns, until_ns

    def _run(self) -> str:
        match = _RUN.match(self.text, self.at)
        if not match:
            return ""
        self.at = match.end()
        return match[1] or self.fail("a variant of the scenario, or a mechanism, after @")

    def _node(self, tree: ast.expr) -> tuple[Dimension, _Node]:
        """Return the figure of a Python expression; Python offsets exceed offsets in the text by 1."""
        start = tree.col_offset - 1
        match tree:
            case ast.Name() if start in self._operands:
                return self._operands[start]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                dimension, node = self._node(operand)
                if isinstance(node, _Constant):
                    return dimension, _Constant(-node.value)
                return dimension, _Operation("*", _Constant(-1.0), node)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                return self._operation(tree)
            case ast.Call(func=ast.Name(id=function), args=arguments) if function in RESERVED:
                return self._aggregate(function, [self._node(each) for each in arguments], start)
        return self.fail(_FIGURE, at=start)

    def _operation(self, tree: ast.BinOp) -> tuple[Dimension, _Node]:
        (dimension, left), (other, right) = self._node(tree.left), self._node(tree.right)
        sign, exponent = _OPERATOR_SIGNS[type(tree.op)]
        if not exponent and other != dimension:
            start, end = tree.right.col_offset - 1, (tree.right.end_col_offset or 0) - 1
            needed = f"{_named(dimension)}, on both sides of {sign}"
            self.fail(needed, _bare(self.text[start:end]), start)
        return _power_product(dimension, other, exponent), _Operation(sign, left, right)

    def _aggregate(
        self, function: str, arguments: list[tuple[Dimension, _Node]], start: int
    ) -> tuple[Dimension, _Node]:
        dimensions = [dimension for dimension, _ in arguments]
        node = _Aggregate(function, tuple(each for _, each in arguments))
        if function == _RATIO:
            if len(arguments) != 2:
                needed = "two figures, or two groups of flows, in ratio(…)"
                self.fail(needed, str(len(arguments)), start)
            return _power_product(dimensions[0], dimensions[1], -1), node
        if len(set(dimensions)) != 1:
            self.fail(f"figures of one unit in {function}(…)", "several" if dimensions else "none", start)
        return NUMBER if function == "jain" else dimensions[0], node


def _power_product(left: Dimension, right: Dimension, exponent: int) -> Dimension:
    """Return the dimension of ``left`` multiplied by a power of ``right``."""
    return Dimension(*(a + exponent * b for a, b in zip(left, right, strict=True)))


def _limit(text: str) -> list[tuple[Dimension, float]] | None:
    """Return the one or two values of a limit such as ``25%`` or ``18kB..30kB``; ``None`` for a name."""
    first, dots, last = text.partition("..")
    values = []
    for part in (first, last) if dots else (first,):
        match = _QUANTITY.fullmatch(part)
        value = _value(match[1], match[2] or "") if match else None
        if value is None:
            return None
        values.append(value)
    return values


def _value(number: str, unit: str) -> tuple[Dimension, float] | None:
    """Return dimension and value in base units of a number with a unit; ``None`` for an unknown unit."""
    value = float(number)
    if not unit or unit == "%":
        return NUMBER, value / 100 if unit else value
    if unit in _FRAME_UNITS:
        return OCTETS, value * FRAME_OCTETS
    if unit in _TIME_UNITS:
        dimension, parse = TIME, parse_time
    elif unit.endswith(("B", "octets")):
        dimension, parse = OCTETS, parse_octets
    else:
        dimension, parse = RATE, parse_rate
    try:
        # This is the size of one unit, because values may be fractions.
        return dimension, value * parse(f"1000{unit}") / 1000
    except ParameterError:
        return None
