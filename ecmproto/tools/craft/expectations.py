"""Expectations of a test recipe, and verdicts about the frames that arrived.

The frames of a recipe are sent from one interface, the near side. The reverse traffic of the recipe is sent
from another interface, the far side. Both interfaces capture the frames from the device under test. An
expectation applies to the frames that a display filter selects on one side, or to frames with exact octets.
An expectation defines the number of frames in a time span, which is relative to the first frame of the
recipe. An expectation can also define the rate, order and latency of frames, and whether frames may change in
transit.

Frames that the receiver needs to recognise have `MARK` and a number in the payload.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from ecmproto.errors import ParameterError, SpecError, counted, shown
from ecmproto.frames.capture.batch import Batch, Interface
from ecmproto.frames.dissect.form import Record, records
from ecmproto.frames.dissect.lines import describe
from ecmproto.tools.craft.recipe import check_keys
from ecmproto.units import NS_PER_S, exact_time, format_time, frames_per_second, parse_time
from ecmproto.wire.codec.frame import decode_lax
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.mac_control import PFC

if TYPE_CHECKING:
    from ecmproto.frames.filter import Filter

Side: TypeAlias = Literal["near", "far"]
Outcome: TypeAlias = Literal["passed", "failed", "unknown"]

SCHEMA = "ecmproto/expectation/1"
MARK = b"ecmp"
"""Prefix of a frame number in the payload of a frame. The frame number has four octets."""
MAX_FRAMES = 1_000_000
"""Maximum number of frames that a judge accepts, because the judge keeps a record of each frame in memory."""
_TAIL_OCTETS = 32
_EXCUSED_NS = 5_000_000
"""Maximum time in nanoseconds until frames arrive that were sent during a lapse of the pause."""
_UNEXPECTED = 10_000
"""Maximum number of unexpected frames in memory, which are shown next to similar missing frames."""


def marked_payload(number: int, octets: int = _TAIL_OCTETS) -> str:
    """Return a payload that contains `MARK` and a number, in hexadecimal."""
    return (MARK + number.to_bytes(4, "big")).hex().ljust(2 * octets, "0")


def number_in(octets: bytes) -> int | None:
    """Return the frame number after `MARK`, or ``None`` if the frame has no mark."""
    at = octets.find(MARK, 14)
    if at < 0 or len(octets) < at + 8:
        return None
    return int.from_bytes(octets[at + 4 : at + 8], "big")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expectation for frames that ``filter`` selects on one side, or for frames with exactly ``octets``.

    ``frames`` and ``rate_fps`` are minimum and maximum values, and ``None`` means no maximum. ``during_ns``
    is a time span relative to the first frame, and ``None`` means no end. ``latency_ns`` is the maximum
    latency of a marked frame between the sides. ``in_order`` requires increasing frame numbers. ``unchanged``
    requires that the octets of a frame do not change in transit.

    With ``after_others``, the verdict is unknown unless a matching frame arrived before the time span.
    ``pause_ns`` is the length of the pauses that the tester sends. With ``pause_ns``, a failure is reported
    as unknown if the tester did not renew its pauses in time.
    """

    name: str
    side: Side
    filter: str = ""
    octets: str = ""
    frames: tuple[int, int | None] = (0, None)
    rate_fps: tuple[float, float | None] | None = None
    during_ns: tuple[int, int | None] | None = None
    latency_ns: int | None = None
    in_order: bool = False
    unchanged: bool = False
    after_others: bool = False
    pause_ns: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the expectation as plain data."""
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }
        return {"schema": SCHEMA, "kind": "frames", "expected": self.sentence(), **given}

    def sentence(self) -> str:
        """Return the expectation as text."""
        parts = [_bounds_text(self.frames)]
        if self.during_ns is not None:
            parts.append(span_text(self.during_ns))
        if self.rate_fps is not None:
            parts.append(f"{_range_text(self.rate_fps)} frames/s")
        parts += ["in order"] * self.in_order + ["unchanged"] * self.unchanged
        if self.latency_ns is not None:
            parts.append(f"at most {format_time(self.latency_ns)} late")
        return f"{self.name}: {', '.join(parts)}"

    def item(self) -> dict[str, Any]:
        """Return the expectation as an ``[[expect]]`` item of a specification for `expectations_from`."""
        result: dict[str, Any] = {"name": self.name, "side": self.side}
        result |= {key: getattr(self, key) for key in ("filter", "octets") if getattr(self, key)}
        result["frames"] = _written(self.frames, str)
        if self.rate_fps is not None:
            result["rate"] = _written(self.rate_fps, lambda fps: f"{fps:g}pps")
        if self.during_ns is not None:
            result["during"] = _written(self.during_ns, _time_text)
        for key, ns in (("latency", self.latency_ns), ("pause", self.pause_ns)):
            if ns is not None:
                result[key] = _time_text(ns)
        return result | {key: True for key in _FLAGS if getattr(self, key)}


_FLAGS = ("in_order", "unchanged", "after_others")
_ITEM_KEYS = ("name", "side", "filter", "octets", "frames", "rate", "during", "latency", "pause", *_FLAGS)
_MAX_EXPECTATIONS = 10_000
_MAX_COUNT = 1 << 53
_T = TypeVar("_T", int, float)


def _time_text(ns: int) -> str:
    return exact_time(ns).replace(" ", "")


def _written(bounds: tuple[_T, _T | None], text: Callable[[_T], str]) -> str:
    minimum, maximum = bounds
    return (
        text(minimum)
        if minimum == maximum
        else f"{text(minimum)}..{'' if maximum is None else text(maximum)}"
    )


def _bounds(given: str, read: Callable[[str], _T]) -> tuple[_T, _T | None]:
    """Parse ``a``, ``a..`` or ``a..b``, and convert each end with ``read``.

    Raises ValueError or ParameterError for other text.
    """
    first, dots, last = given.partition("..")
    minimum = read(first.strip())
    maximum = (read(last.strip()) if last.strip() else None) if dots else minimum
    if maximum is not None and maximum < minimum:
        raise ValueError
    return minimum, maximum


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= _MAX_COUNT):
        raise ValueError
    return int(text)


def _fps(text: str) -> float:
    number = text.removesuffix("pps")
    if number == text or len(number) > 16 or not number.replace(".", "", 1).isdigit() or not number.isascii():
        raise ValueError
    return float(number)


def expectations_from(items: object, name: str) -> list[Expectation]:
    """Return the expectations of the ``[[expect]]`` items of a specification.

    Raises SpecError or FilterError for an invalid item.
    """
    if not isinstance(items, list) or len(items) > _MAX_EXPECTATIONS:
        needed = f"[[expect]], one for each, at most {_MAX_EXPECTATIONS:,}"
        raise SpecError(where=name, needed=needed, got=shown(items))
    return [_expectation(item, f"{name}: expect[{index}]") for index, item in enumerate(items)]


def _expectation(item: object, where: str) -> Expectation:
    if not isinstance(item, Mapping):
        raise SpecError(where=where, needed="a table of expected frames", got=shown(item))
    check_keys(item, _ITEM_KEYS, where, "a key of an expectation")
    given: dict[str, Any] = {}
    for key, field, needed, read in _READ:
        if key in item:
            try:
                given[field] = read(item[key])
            except (ValueError, TypeError, AttributeError, ParameterError):
                raise SpecError(where=f"{where}.{key}", needed=needed, got=shown(item[key])) from None
    if not given.get("name"):
        raise SpecError(where=where, needed="a name", got="none")
    if bool(given.get("filter")) == bool(given.get("octets")):
        got = "both" if given.get("filter") else "none"
        raise SpecError(where=where, needed="a filter, or octets of a frame", got=got)
    if "filter" in given:
        from ecmproto.frames.filter import compile_filter  # slow import: includes a grammar

        compile_filter(given["filter"])
    return Expectation(**{"side": "far"} | given)


def _valid(is_valid: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not is_valid(value):
            raise ValueError
        return value

    return read


_text = _valid(lambda value: isinstance(value, str) and len(value) <= 1000)
_hex = _valid(lambda value: isinstance(value, str) and len(value) <= 1 << 17)
_flag = _valid(lambda value: isinstance(value, bool))

_READ: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
    ("name", "name", "text of at most 1,000 characters", _text),
    ("side", "side", "near or far", _valid(lambda value: value in ("near", "far"))),
    ("filter", "filter", "a display filter", _text),
    ("octets", "octets", "octets in hex", lambda value: bytes.fromhex(_hex(value)).hex()),
    ("frames", "frames", "how many: 3, 1.. or 0..5", lambda value: _bounds(_text(value), _count)),
    ("rate", "rate_fps", "a rate such as 100pps, 100pps.. or 0pps..5pps", lambda value: _bounds(value, _fps)),
    ("during", "during_ns", "a span such as 1ms..5ms or 1ms..", lambda value: _bounds(value, parse_time)),
    ("latency", "latency_ns", "a time such as 1ms", parse_time),
    ("pause", "pause_ns", "a time such as 1ms", parse_time),
    *((key, key, "true or false", _flag) for key in _FLAGS),
)


def _range_text(bounds: tuple[float, float | None]) -> str:
    minimum, maximum = bounds
    if maximum is None:
        return f"at least {minimum:,g}"
    return (
        f"{minimum:,g}"
        if minimum == maximum
        else f"at most {maximum:,g}"
        if not minimum
        else f"{minimum:,g} to {maximum:,g}"
    )


def _bounds_text(bounds: tuple[int, int | None]) -> str:
    if bounds == (0, 0):
        return "no frame"
    if bounds == (0, None):
        return "any number of frames"
    return f"{_range_text(bounds)} frame{'s' if bounds != (1, 1) and bounds != (1, None) else ''}"


def span_text(during_ns: tuple[int, int | None]) -> str:
    """Return a time span as text."""
    first, last = during_ns
    return (
        f"from {format_time(first)} on"
        if last is None
        else f"from {format_time(first)} to {format_time(last)}"
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of an expectation, with a text about the observed frames."""

    expectation: Expectation
    outcome: Outcome
    result: str

    def document(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        return {
            "name": self.expectation.name,
            "outcome": self.outcome,
            "expected": self.expectation.sentence(),
            "found": self.result,
            "expectation": self.expectation.document(),
        }


@dataclasses.dataclass(slots=True)
class _Arrivals:
    """The frames that match an expectation, in arrival order."""

    times: list[int] = dataclasses.field(default_factory=list)
    numbers: list[int] = dataclasses.field(default_factory=list)
    """Frame numbers; −1 for a frame without a number."""
    changed: list[bool] = dataclasses.field(default_factory=list)
    first_changed: bytes = b""


class Judge:
    """Judge of expectations, based on the captured frames of both sides.

    ``sent`` contains the frames that are sent from each side, with times relative to the start of the recipe.
    A sent frame that is captured on its own side is not counted as a received frame. The first sent frame in
    a capture determines the start of the recipe.
    """

    def __init__(
        self,
        expectations: Sequence[Expectation],
        sent: Mapping[Side, Sequence[tuple[int, bytes]]],
        *,
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        if sum(map(len, sent.values())) > MAX_FRAMES:
            got = f"{sum(map(len, sent.values())):,}"
            raise ParameterError(name="expect", needed=f"a recipe of at most {MAX_FRAMES:,} frames", got=got)
        from ecmproto.frames.filter import compile_filter

        self._expectations = tuple(expectations)
        self._filters: list[Filter | None] = [
            compile_filter(each.filter) if each.filter else None for each in expectations
        ]
        self._ethertypes = ethertypes
        self._own: dict[Side, dict[bytes, int]] = {"near": {}, "far": {}}
        self._octets: dict[int, bytes] = {}
        self._due_ns: dict[int, int] = {}
        for side, frames in sent.items():
            for due_ns, octets in reversed(frames):
                self._own[side][octets] = due_ns  # if octets repeat, the first time is kept
                number = number_in(octets)
                if number is not None:
                    self._octets[number] = octets
                    self._due_ns[number] = due_ns
        self._exact: dict[tuple[Side, bytes], list[int]] = {}
        for index, each in enumerate(expectations):
            if each.octets:
                self._exact.setdefault((each.side, bytes.fromhex(each.octets)), []).append(index)
        self._arrivals = [_Arrivals() for _ in expectations]
        self._left_ns: dict[int, int] = {}
        self._pauses: list[tuple[int, bool]] = []
        self._unexpected: dict[bytes, bytes] = {}
        self._began_ns: int | None = None
        self._came_ns: int | None = None
        self.frames: dict[Side, int] = {"near": 0, "far": 0}
        """Number of frames from the device under test, by side."""
        self.seen: set[Side] = set()
        """Sides that were captured."""

    def take(self, side: Side, batch: Batch, interfaces: Sequence[Interface]) -> None:
        """Add frames that were captured on one side, in arrival order."""
        self.seen.add(side)
        for record in records(batch, interfaces, ethertypes=self._ethertypes):
            if record.time_ns is None or not record.is_ethernet:
                continue
            due_ns = self._own[side].get(record.octets)
            if due_ns is not None:
                self._leaves(record, record.time_ns, due_ns)
            else:
                self._count_arrival(side, record, record.time_ns)

    def _leaves(self, record: Record, time_ns: int, due_ns: int) -> None:
        number = number_in(record.octets)
        if self._began_ns is None:
            self._began_ns = time_ns - due_ns
        if number is not None:
            self._left_ns.setdefault(number, time_ns)
        elif PFC in record.frame:
            self._pauses.append((time_ns, any(record.frame[PFC].times)))

    def _count_arrival(self, side: Side, record: Record, time_ns: int) -> None:
        self.frames[side] += 1
        if sum(self.frames.values()) > MAX_FRAMES:
            needed = f"at most {MAX_FRAMES:,} captured frames to judge"
            raise ParameterError(name="expect", needed=needed, got="more")
        number = number_in(record.octets)
        sent = self._octets.get(number) if number is not None else None
        if self._came_ns is None:
            # an upper limit, used if the sending side was not captured
            due_ns = self._sent_octets(side).get(record.octets if sent is None else sent)
            self._came_ns = None if due_ns is None else time_ns - due_ns
        exact = self._exact.get((side, record.octets), ())
        if not exact and len(self._unexpected) < _UNEXPECTED:
            self._unexpected.setdefault(record.octets[-_TAIL_OCTETS:], record.octets)
        positions = set(exact)
        for index, filter in enumerate(self._filters):
            if filter is not None and self._expectations[index].side == side and filter.matches(record):
                positions.add(index)
        for index in positions:
            arrivals = self._arrivals[index]
            arrivals.times.append(time_ns)
            arrivals.numbers.append(-1 if number is None else number)
            known = record.octets == sent if number is not None else record.octets in self._sent_octets(side)
            arrivals.changed.append(not known)
            if not known and not arrivals.first_changed:
                arrivals.first_changed = record.octets

    def _sent_octets(self, side: Side) -> Mapping[bytes, int]:
        return self._own["far" if side == "near" else "near"]

    @property
    def anchored(self) -> bool:
        """Whether the start time of the recipe is known because a frame of the recipe was captured."""
        return self._began_ns is not None or self._came_ns is not None

    def verdicts(self) -> list[Verdict]:
        """Return the verdict of each expectation."""
        return [self._verdict(index) for index in range(len(self._expectations))]

    def _verdict(self, position: int) -> Verdict:
        expectation, arrivals = self._expectations[position], self._arrivals[position]

        def verdict(outcome: Outcome, text: str) -> Verdict:
            return Verdict(expectation=expectation, outcome=outcome, result=text)

        if expectation.side not in self.seen:
            return verdict("unknown", f"the {expectation.side} side was not captured")
        if not self.anchored and (expectation.during_ns is not None or expectation.frames[1] == 0):
            return verdict("unknown", "no frame of the recipe was seen on either side")
        began_ns = (self._began_ns if self._began_ns is not None else self._came_ns) or 0
        times = [time - began_ns for time in arrivals.times]
        rows = list(range(len(times)))
        if expectation.during_ns is not None:
            first, last = expectation.during_ns
            rows = [row for row in rows if times[row] >= first and (last is None or times[row] <= last)]
            if expectation.after_others and not any(time < first for time in times):
                return verdict("unknown", "no such frame came before, so there was nothing to stop")
        problems = self._problems(expectation, arrivals, times, rows)
        message = self._result_text(expectation, arrivals, times, rows)
        if problems and expectation.pause_ns is not None:
            lapses = self._lapses(expectation.pause_ns, began_ns)
            # frames outside of lapses arrived although they were paused
            excused = [row for row in rows if any(a <= times[row] <= b + _EXCUSED_NS for a, b in lapses)]
            if lapses and (expectation.frames != (0, 0) or len(excused) == len(rows)):
                late = f"{len(lapses):,} refresh{'es' if len(lapses) > 1 else ''}"
                return verdict(
                    "unknown",
                    f"{message}, but {late} of the tester's own frames left too late to keep it paused",
                )
        if problems:
            return verdict("failed", "; ".join([message, *problems]))
        return verdict("passed", message)

    def _lapses(self, pause_ns: int, began_ns: int) -> list[tuple[int, int]]:
        """Return the start and end of each lapse of the pauses that the tester sent."""
        return [
            (before_ns + pause_ns - began_ns, next_ns - began_ns)
            for (before_ns, holds), (next_ns, _) in pairwise(self._pauses)
            if holds and next_ns - before_ns > pause_ns
        ]

    def _latencies(self, results: _Arrivals, rows: Sequence[int]) -> list[int]:
        """Return the latencies of marked frames in nanoseconds.

        A latency is measured from the capture of the frame on the near side, or else from the scheduled time.
        """
        began_ns = self._came_ns if self._began_ns is None else self._began_ns
        late = []
        for row in rows:
            number = results.numbers[row]
            if number in self._left_ns:
                late.append(results.times[row] - self._left_ns[number])
            elif number in self._due_ns and began_ns is not None:
                late.append(results.times[row] - began_ns - self._due_ns[number])
        return late

    def _problems(
        self, expectation: Expectation, results: _Arrivals, times: Sequence[int], rows: Sequence[int]
    ) -> list[str]:
        problems = []
        minimum, maximum = expectation.frames
        if len(rows) < minimum or (maximum is not None and len(rows) > maximum):
            problems.append(f"expected {_bounds_text(expectation.frames)}")
            if expectation.octets and not rows:
                like = self._unexpected.get(bytes.fromhex(expectation.octets)[-_TAIL_OCTETS:])
                if like is not None:
                    problems.append(f"this came instead: {self._line(like)}")
        if expectation.rate_fps is not None:
            fps = _rate_of([times[row] for row in rows])
            low, high = expectation.rate_fps
            if fps is None or fps < low or (high is not None and fps > high):
                problems.append(f"expected {_range_text(expectation.rate_fps)} frames/s")
        numbers = [results.numbers[row] for row in rows if results.numbers[row] >= 0]
        if expectation.in_order:
            backwards = [b for a, b in pairwise(numbers) if b < a]
            if backwards:
                problems.append(
                    f"{counted(len(backwards), 'frame')} out of order, first number {backwards[0]}"
                )
            if len(set(numbers)) < len(numbers):
                problems.append(f"{counted(len(numbers) - len(set(numbers)), 'frame')} twice")
        if expectation.unchanged:
            changed = sum(results.changed[row] for row in rows)
            if changed:
                line = self._line(results.first_changed)
                problems.append(f"{counted(changed, 'frame')} changed on the way, such as {line}")
        if expectation.latency_ns is not None:
            late = [each for each in self._latencies(results, rows) if each > expectation.latency_ns]
            if late:
                problems.append(
                    f"{counted(len(late), 'frame')} later than {format_time(expectation.latency_ns)}"
                )
        return problems

    def _result_text(
        self, expectation: Expectation, results: _Arrivals, times: Sequence[int], rows: Sequence[int]
    ) -> str:
        parts = [f"got {counted(len(rows), 'frame')}"]
        if rows and expectation.frames == (0, 0):
            parts.append(f"the first at {format_time(times[rows[0]])}")
        fps = _rate_of([times[row] for row in rows])
        if expectation.rate_fps is not None and fps is not None:
            parts.append(frames_per_second(fps))
        latencies = self._latencies(results, rows)
        if expectation.latency_ns is not None and latencies:
            parts.append(f"at most {format_time(max(latencies))} late")
        return ", ".join(parts)

    def _line(self, octets: bytes) -> str:
        kind, text = describe(decode_lax(octets, ethertypes=self._ethertypes))
        return f"{kind} {text}"


def _rate_of(times: Sequence[int]) -> float | None:
    """Return the rate of frames with these arrival times, or ``None`` if it is unknown."""
    if len(times) < 2 or times[-1] <= times[0]:
        return None
    return (len(times) - 1) * NS_PER_S / (times[-1] - times[0])


def of_frames(expected: Iterable[Mapping[str, Any]]) -> list[Expectation]:
    """Return the expectations of a recipe whose steps define the received octets of each data frame."""
    requested = [
        Expectation(
            name=f"frame {each['frame']}: {_kind_text(each)}",
            side="far",
            octets=each["received"]["octets"],
            frames=(1, 1),
        )
        for each in expected
        if each["kind"] == "data"
    ]
    return [*requested, Expectation(name="LLDP is not forwarded", side="far", filter="lldp", frames=(0, 0))]


def _kind_text(each: Mapping[str, Any]) -> str:
    given = "untagged" if each["priority"] is None else f"priority {each['priority']}"
    tag = "CN-TAG" if each["cn_tag"] else "no CN-TAG"
    return f"{given}, {tag}, port {each['mode']}, becomes priority {each['received']['priority']}"
