"""The reference evaluation: a test as a function of one captured frame."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ecmproto.filter.fields import Field
from ecmproto.filter.literals import expression
from ecmproto.filter.reading import Captured, Reader, is_there, octets_from, values_of
from ecmproto.filter.tree import (
    And,
    Comparison,
    Constant,
    Interval,
    Item,
    Masked,
    Match,
    Membership,
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
    rank,
)

Predicate: TypeAlias = Callable[[Captured], bool]

Holds: TypeAlias = Callable[[Any], bool]
"""Tells whether something holds of a value."""

RELATIONS: dict[Relation, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "contains": operator.contains,
}  # fmt: skip

_OCTETS = frozenset(("mac", "ipv4", "ipv6", "octets"))


def predicate(test: Test) -> Predicate:
    """Return the function that tells whether ``test`` holds of a captured frame."""
    match test:
        case Present(operand=Field() as field):
            return is_there(field)
        case Present():
            return _some(_reader(test.operand), _is_set if isinstance(test.operand, Masked) else bool)
        case Comparison():
            return _comparison(test)
        case Match():
            return _of_values(_searched(test.operand), matching(test.pattern), test.every)
        case Membership():
            return _of_values(_reader(test.operand), being_one(test.items), test.every)
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
        there = bool(lefts) and bool(rights)
        return there and combined(relation(left, right) for left in lefts for right in rights)

    return compare


def _relation(test: Comparison) -> Callable[[Any, Any], bool]:
    relation = RELATIONS[test.relation]
    if test.relation in ("==", "!=", "contains") or test.left.kind not in _OCTETS:
        return relation
    # octets differ in length, and so do addresses of which a field masks some octets only
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
    """Whether a bit of a masked value is."""
    return any(value) if isinstance(value, bytes) else bool(value)


def matching(pattern: bytes) -> Holds:
    """Return what tells whether a value holds the regular expression ``pattern``."""
    holds = expression(pattern)
    return lambda value: holds(value.encode() if isinstance(value, str) else value)


def being_one(items: Sequence[Item]) -> Holds:
    """Return what tells whether a value is one of ``items``."""
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
    """Return the bits that the addresses of a network share."""
    width = 8 * len(network.address)
    return (1 << width) - (1 << width - network.bits)


# values


def _searched(operand: Operand) -> Reader:
    """Read what ``contains`` and ``matches`` look at: of a layer, all that follows too."""
    return (
        octets_from(operand) if isinstance(operand, Field) and operand.kind == "layer" else _reader(operand)
    )


def _reader(operand: Operand) -> Reader:
    match operand:
        case Field():
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
    """Return the parts of ``value``, octets or text, that ``ranges`` say and that it has, maybe none."""
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
        return lambda captured: [_both(value, constant) for value in inner(captured)]
    other = _reader(mask)
    return lambda captured: [_both(value, bits) for value in inner(captured) for bits in other(captured)]


def _both(value: Any, mask: Any) -> Any:
    if isinstance(value, bytes):
        return bytes(one & other for one, other in zip(value, mask, strict=False))
    return value & mask
