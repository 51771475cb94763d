"""Compiled filters and their reference evaluation: a test as a function of one captured frame.

`compile_filter` compiles text into a `Filter`. `values_of` returns a function that reads the values of a
field in a captured frame, outermost first. `predicate` returns a test as a function of a captured frame.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

from ecmproto.errors import DecodeError
from ecmproto.frames.filter.fields import (
    DISPLAYED,
    And,
    Comparison,
    Constant,
    FieldSource,
    FilterField,
    Interval,
    Item,
    Masked,
    Match,
    Membership,
    Nesting,
    Network,
    Not,
    Operand,
    Or,
    Present,
    Range,
    Relation,
    Slice,
    Test,
    Value,
    frames_within,
    rank,
)
from ecmproto.frames.filter.language import checked
from ecmproto.frames.filter.literals import expression
from ecmproto.frames.filter.syntax import parse
from ecmproto.units import elapsed_ns
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import Frame, encapsulated, protocols
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.infiniband import CRC_STATUS, crc_status


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A display filter with its original ``text`` and its parsed ``test``; created by `compile_filter`.

    Filters are equal if their texts are equal. Filters can be copied and pickled.
    """

    text: str
    test: Test = dataclasses.field(compare=False, repr=False)
    fields: tuple[str, ...] = dataclasses.field(compare=False)
    """Names of the fields and layers that the filter uses, without duplicates, in order."""
    matches: Predicate = dataclasses.field(compare=False, repr=False)
    """Function ``matches(captured)`` that returns whether the filter selects a decoded frame (`Captured`)."""

    def __reduce__(self) -> tuple[object, ...]:
        return compile_filter, (self.text,)


def compile_filter(text: str) -> Filter:
    """Return the filter written in ``text``; raise FilterError, with the position, for invalid text."""
    test = checked(text, parse(text))
    names = tuple(dict.fromkeys(field.name for field in fields_of(test)))
    matches = _sequential_predicate(test) if DISPLAYED in names else predicate(test)
    return Filter(text=text, test=test, fields=names, matches=matches)


def _sequential_predicate(test: Test) -> Predicate:
    """Return ``test`` as a function of frames that remembers the time of the last selected frame.

    The function must be called with the frames in order. The time is forgotten when frame numbers restart.
    """
    number, last_ns = 0, None

    @dataclasses.dataclass(slots=True)
    class InSequence:
        """A frame, with the time of the previously selected frame."""

        captured: Captured

        def __getattr__(self, name: str) -> Any:
            return getattr(self.captured, name)

        @property
        def since_displayed_ns(self) -> int | None:
            time_ns = self.captured.time_ns
            return None if time_ns is None else elapsed_ns(time_ns, time_ns if last_ns is None else last_ns)

    holds = predicate(test)

    def matches(captured: Captured) -> bool:
        nonlocal number, last_ns
        if captured.number <= number:
            last_ns = None
        number = captured.number
        selected = holds(InSequence(captured))  # other attributes are read from the frame
        if selected and captured.time_ns is not None:
            last_ns = captured.time_ns
        return selected

    return matches


class Captured(Protocol):
    """Interface of a captured frame for filters, such as `ecmproto.frames.dissect.Record`."""

    @property
    def number(self) -> int:
        """Frame number in the capture, from 1."""

    @property
    def time_ns(self) -> int | None:
        """Time of capture in ns since 1970; ``None`` if the frame has no time."""

    @property
    def since_first_ns(self) -> int | None:
        """Time in ns since the first frame of the capture; ``None`` if the frame has no time."""

    @property
    def since_previous_ns(self) -> int | None:
        """Time in ns since the previous frame of the capture."""

    @property
    def since_displayed_ns(self) -> int | None:
        """Time in ns since the previously displayed frame."""

    @property
    def octets(self) -> bytes:
        """Captured octets."""

    @property
    def original_octets(self) -> int:
        """Length on the wire in octets."""

    @property
    def interface_id(self) -> int:
        """Number of the interface in its section of the capture, from 0."""

    @property
    def frame(self) -> Frame:
        """Decoded frame."""


Reader: TypeAlias = Callable[[Captured], Sequence[Value]]

FrameReader: TypeAlias = Callable[[Frame], Sequence[Value]]

_OF_RECORD: dict[str, Reader] = {
    "frame": lambda captured: (captured.octets,),
    "frame.number": lambda captured: (captured.number,),
    "frame.time_epoch": lambda captured: () if captured.time_ns is None else (captured.time_ns,),
    "frame.time_relative": lambda captured: _timed(captured, captured.since_first_ns),
    "frame.time_delta": lambda captured: _timed(captured, captured.since_previous_ns),
    DISPLAYED: lambda captured: _timed(captured, captured.since_displayed_ns),
    "frame.len": lambda captured: (captured.original_octets,),
    "frame.cap_len": lambda captured: (len(captured.octets),),
    "frame.interface_id": lambda captured: (captured.interface_id,),
}
_OF_FRAME: dict[str, FrameReader] = {
    "frame.protocols": lambda frame: (protocols(frame.layers),),
    "frame.error": lambda frame: _error_text(frame.error),
    CRC_STATUS: lambda frame: tuple(filter(None, (crc_status(frame),))),
    "eth.padding": lambda frame: (frame.padding,) if frame.padding else (),
    "eth.trailer": lambda frame: (frame.trailer,) if frame.trailer else (),
    "eth.fcs": lambda frame: (frame.fcs,) if frame.fcs else (),
}


def _timed(captured: Captured, since_ns: int | None) -> Sequence[Value]:
    return () if captured.time_ns is None or since_ns is None else (since_ns,)


def _error_text(error: DecodeError | None) -> tuple[str, ...]:
    return () if error is None else (str(error),)


def values_of(field: FilterField) -> Reader:
    """Return a function that reads the values of ``field`` from a captured frame.

    The value of a layer is the octets of the layer without the following layers.
    """
    if field.origin == "record":
        return _OF_RECORD[field.name]
    if field.kind == "layer":
        return _of(field, _own_octets(field))
    return _of(field, values_in_frame(field) if field.origin == "frame" else _of_layers(field))


def values_in_frame(field: FilterField) -> FrameReader:
    """Return a function that reads a field of whole frames from the frame that has the field."""
    return _OF_FRAME[field.name.removeprefix("encapsulated.")]


def octets_from(field: FilterField) -> Reader:
    """Return a function that reads the octets from the start of a layer to the end of the frame's last layer.

    ``frame`` is the whole frame. ``encapsulated`` is all layers of the quoted frame.
    """
    return _OF_RECORD["frame"] if field.origin == "record" else _of(field, _octets_from(field))


def has_field(field: FilterField) -> Callable[[Captured], bool]:
    """Return a function that tests whether a frame has ``field``, which may be a layer."""
    if field.kind != "layer":
        read = values_of(field)
        return lambda captured: len(read(captured)) > 0
    if field.origin == "record":
        return lambda captured: True
    if field.origin == "frame":
        return lambda captured: encapsulated(captured.frame) is not None
    formats = frozenset(field.formats)
    if not field.inner:
        return lambda captured: any(
            type(value) in formats for value in _layers(captured.frame, field.nesting)
        )

    def inside(captured: Captured) -> bool:
        frame = encapsulated(captured.frame)
        return frame is not None and any(type(value) in formats for value in frame.layers)

    return inside


def _of(field: FilterField, read: FrameReader) -> Reader:
    """Return ``read`` as a function of a captured frame that reads the frame or its quoted frame."""
    if not field.inner:
        return lambda captured: read(captured.frame)

    def inside(captured: Captured) -> Sequence[Value]:
        frame = encapsulated(captured.frame)
        return () if frame is None else read(frame)

    return inside


def _layers(frame: Frame, nesting: Nesting) -> Sequence[Layer]:
    """Return the layers of a frame, restricted to the innermost or outermost frame by ``nesting``."""
    return frame.layers[frames_within(nesting, [*map(type, frame.layers)])] if nesting else frame.layers


def _own_octets(field: FilterField) -> FrameReader:
    formats, nesting = frozenset(field.formats), field.nesting
    return lambda frame: [value.build() for value in _layers(frame, nesting) if type(value) in formats]


def _octets_from(field: FilterField) -> FrameReader:
    if field.origin == "frame":
        return lambda frame: (b"".join(value.build() for value in frame.layers),)
    formats, nesting = frozenset(field.formats), field.nesting

    def read(frame: Frame) -> list[bytes]:
        layers = frame.layers
        within = frames_within(nesting, [*map(type, layers)])
        return [
            b"".join(value.build() for value in layers[index:])
            for index in range(len(layers))[within]
            if type(layers[index]) in formats
        ]

    return read


def _of_layers(field: FilterField) -> FrameReader:
    sources, nesting = field.sources, field.nesting
    if not nesting and len(sources) == 1 and sources[0].part == "whole" and field.kind != "octets":
        cls, get = sources[0].format, attrgetter(sources[0].key)
        return lambda frame: [get(value) for value in frame.layers if type(value) is cls]
    parts: dict[type[Layer], list[Callable[[Layer], Sequence[Value]]]] = {}
    for source in sources:
        parts.setdefault(source.format, []).append(part_of(source))

    def read(frame: Frame) -> list[Value]:
        layers = _layers(frame, nesting)
        return [got for value in layers for part in parts.get(type(value), ()) for got in part(value)]

    return read


def part_of(source: FieldSource) -> Callable[[Layer], Sequence[Value]]:
    """Return a function that reads a field from a layer; it returns one value or no value."""
    get, low, mask = attrgetter(source.key), source.low, (1 << source.bits) - 1
    match source.part:
        case "bits":
            return lambda value: (get(value) >> low & mask,)
        case "length":
            return lambda value: (get(value),) if get(value) <= MAX_LENGTH else ()
        case "type":
            return lambda value: (get(value),) if get(value) > MAX_LENGTH else ()
    # An empty octet string is no value.
    return lambda value: () if get(value) == b"" else (get(value),)


Predicate: TypeAlias = Callable[[Captured], bool]

Holds: TypeAlias = Callable[[Any], bool]
"""Test of one value."""

RELATIONS: dict[Relation, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "contains": operator.contains,
}  # fmt: skip

_OCTETS = frozenset(("mac", "ipv4", "ipv6", "octets"))


def predicate(test: Test) -> Predicate:
    """Return ``test`` as a function of a captured frame."""
    match test:
        case Present(operand=FilterField() as field):
            return has_field(field)
        case Present():
            return _some(_reader(test.operand), _is_set if isinstance(test.operand, Masked) else bool)
        case Comparison():
            return _comparison(test)
        case Match():
            return _of_values(_searched(test.operand), pattern_test(test.pattern), test.every)
        case Membership():
            return _of_values(_reader(test.operand), membership_test(test.items), test.every)
        case Not():
            inverted = predicate(test.test)
            return lambda captured: not inverted(captured)
        case And():
            parts = tuple(map(predicate, test.tests))
            return lambda captured: all(part(captured) for part in parts)
        case Or():
            parts = tuple(map(predicate, test.tests))
            return lambda captured: any(part(captured) for part in parts)


def _comparison(test: Comparison) -> Predicate:
    read = _searched(test.left) if test.relation == "contains" else _reader(test.left)
    relation, right = _relation(test), test.right
    if isinstance(right, Constant):
        value = right.value
        if test.relation == "==" and not test.every:
            return lambda captured: value in read(captured)
        return _of_values(read, lambda got: relation(got, value), test.every)
    if isinstance(right, Network):
        mask, address = _mask(right), int.from_bytes(right.address)
        return _of_values(read, lambda got: relation(int.from_bytes(got) & mask, address), test.every)
    other = _reader(right)
    combined = all if test.every else any

    def compare(captured: Captured) -> bool:
        lefts, rights = read(captured), other(captured)
        present = bool(lefts) and bool(rights)
        return present and combined(relation(left, right) for left in lefts for right in rights)

    return compare


def _relation(test: Comparison) -> Callable[[Any, Any], bool]:
    relation = RELATIONS[test.relation]
    if test.relation in ("==", "!=", "contains") or test.left.kind not in _OCTETS:
        return relation
    # Octets can differ in length, and so can masked addresses.
    return lambda left, right: relation(rank(left), rank(right))


def _of_values(read: Reader, holds: Holds, every: bool) -> Predicate:
    return _each(read, holds) if every else _some(read, holds)


def _some(read: Reader, holds: Holds) -> Predicate:
    def some(captured: Captured) -> bool:
        for value in read(captured):  # noqa: SIM110 (a generator would take twice the time)
            if holds(value):
                return True
        return False

    return some


def _each(read: Reader, holds: Holds) -> Predicate:
    def each(captured: Captured) -> bool:
        values = read(captured)
        return bool(values) and all(map(holds, values))

    return each


def _is_set(value: Value) -> bool:
    """Return whether a masked value has any bit set."""
    return any(value) if isinstance(value, bytes) else bool(value)


def pattern_test(pattern: bytes) -> Holds:
    """Return a function that tests whether a value matches the regular expression ``pattern``."""
    holds = expression(pattern)
    return lambda value: holds(value.encode() if isinstance(value, str) else value)


def membership_test(items: Sequence[Item]) -> Holds:
    """Return a function that tests whether a value is one of ``items`` or within one of ``items``."""
    single = frozenset(item.value for item in items if isinstance(item, Constant))
    networks = [(_mask(item), int.from_bytes(item.address)) for item in items if isinstance(item, Network)]
    intervals = [
        (rank(item.first.value), rank(item.last.value)) for item in items if isinstance(item, Interval)
    ]

    def is_one(value: Any) -> bool:
        if value in single:
            return True
        if any(int.from_bytes(value) & mask == address for mask, address in networks):
            return True
        return any(first <= rank(value) <= last for first, last in intervals)

    return is_one


def _mask(network: Network) -> int:
    """Return the mask of a network's prefix."""
    width = 8 * len(network.address)
    return (1 << width) - (1 << width - network.bits)


# values


def _searched(operand: Operand) -> Reader:
    """Return a function that reads the octets that ``contains`` and ``matches`` search.

    For a layer, the octets extend to the end of the last layer.
    """
    return (
        octets_from(operand)
        if isinstance(operand, FilterField) and operand.kind == "layer"
        else _reader(operand)
    )


def _reader(operand: Operand) -> Reader:
    match operand:
        case FilterField():
            return values_of(operand)
        case Slice():
            return _sliced(operand)
        case Masked():
            return _masked(operand)


def _sliced(operand: Slice) -> Reader:
    inner, ranges = _reader(operand.of), operand.ranges
    is_number = operand.of.kind == "cpid"

    def read(captured: Captured) -> list[Value]:
        values = inner(captured)
        whole = [value.to_bytes(8) for value in values] if is_number else values  # type: ignore[union-attr]
        return [cut(value, ranges) for value in whole]

    return read


def cut(value: Any, ranges: Sequence[Range]) -> Any:
    """Return the concatenated parts of ``value`` (octets or text) in ``ranges``.

    Ranges that extend beyond the end are left out.
    """
    size = len(value)
    parts = value[:0]
    for part in ranges:
        start = part.start + size if part.start < 0 else part.start
        if part.length is not None:
            stop = start + part.length
        elif part.stop is not None:
            stop = (part.stop + size if part.stop < 0 else part.stop) + 1
        else:
            stop = size
        if 0 <= start < stop <= size:
            parts += value[start:stop]
    return parts


def _masked(operand: Masked) -> Reader:
    inner, mask = _reader(operand.of), operand.mask
    if isinstance(mask, Constant):
        constant = mask.value
        return lambda captured: [_bitwise_and(value, constant) for value in inner(captured)]
    other = _reader(mask)
    return lambda captured: [
        _bitwise_and(value, bits) for value in inner(captured) for bits in other(captured)
    ]


def _bitwise_and(value: Any, mask: Any) -> Any:
    if isinstance(value, bytes):
        return bytes(one & other for one, other in zip(value, mask, strict=False))
    return value & mask


def fields_of(test: Test) -> Iterator[FilterField]:
    """Yield the fields and layers that a test uses, in the order of the text."""
    match test:
        case And(tests=tests) | Or(tests=tests):
            for each in tests:
                yield from fields_of(each)
        case Not():
            yield from fields_of(test.test)
        case Comparison():
            yield from _of_operand(test.left)
            if not isinstance(test.right, Constant | Network):
                yield from _of_operand(test.right)
        case _:
            yield from _of_operand(test.operand)


def _of_operand(operand: Operand) -> Iterator[FilterField]:
    match operand:
        case FilterField():
            yield operand
        case Slice():
            yield from _of_operand(operand.of)
        case Masked():
            yield from _of_operand(operand.of)
            if not isinstance(operand.mask, Constant):
                yield from _of_operand(operand.mask)
