"""The values one field is swept over: ``0..63``, ``63..0:3``, ``1,5,8..12``, ``random:1000``.

Ends of a range may be anything the field takes: numbers, MAC and IP addresses, CPIDs, octets in hex.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random

from ecmproto.craft.stack import Part
from ecmproto.errors import SpecError, shown
from ecmproto.formats.schema import Field
from ecmproto.formats.text import value_of

MAX_LISTED = 1_000_000
"""The most values a sweep may list or draw; a plain range a..b may be of any length."""

_STEP_DIGITS = 20
_NEEDED = "values such as 0..63, 0..63:2, 1,5,9 or random:1000"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Axis:
    """A swept field of one layer, with its values in order.

    ``values`` are numbers (an address as the number its octets make), or octets for a field of
    variable length.
    """

    part: Part
    field: Field
    values: Sequence[int | bytes]

    def at(self, index: int) -> int | bytes:
        """Return the field's value number ``index``."""
        value = self.values[index]
        if isinstance(value, bytes) or self.field.is_number:
            return value
        assert self.field.bits is not None
        return value.to_bytes(self.field.bits // 8, "big")

    @property
    def count(self) -> int:
        """How many values there are; unlike ``len()``, for ranges of any length."""
        values = self.values
        if isinstance(values, range):
            return max(
                0, (values.stop - values.start + values.step - (1 if values.step > 0 else -1)) // values.step
            )
        return len(values)


def axis_of(part: Part, field: Field, text: object, random: Random) -> Axis:
    """Return the axis that ``text``, or a list of values, describes.

    SpecError when it does not, EncodeError for a value the field cannot hold; ``random`` is drawn from
    for ``random:N``.
    """
    name = f"sweep {part.cls.prefix}.{field.key}"
    items = [item.strip() for item in text.split(",")] if isinstance(text, str) else text
    if not isinstance(items, list) or not items:
        raise SpecError(where=name, needed=_NEEDED, got=shown(text))
    pieces = [_piece(part, field, item, random, name) for item in items]
    if len(pieces) == 1:
        return Axis(part=part, field=field, values=pieces[0])
    counts = [Axis(part=part, field=field, values=piece).count for piece in pieces]
    if sum(counts) > MAX_LISTED:
        raise SpecError(where=name, needed=f"at most {MAX_LISTED:,} values in a list", got=f"{sum(counts):,}")
    return Axis(part=part, field=field, values=[value for piece in pieces for value in piece])


def _piece(part: Part, field: Field, item: object, random: Random, name: str) -> Sequence[int | bytes]:
    if isinstance(item, str) and item.startswith("random:"):
        return _drawn(field, item, random, name)
    if isinstance(item, str) and ".." in item:
        first, _, rest = item.partition("..")
        last, step = _end_and_step(field, rest)
        return _range(part, field, value_of(field, first), last, step, name)
    value = value_of(field, item)
    _check(part, field, value)
    return [value] if field.bits is None else [_as_number(value)]


def _end_and_step(field: Field, text: str) -> tuple[int | bytes, int]:
    """Return a range's end and step; a colon may also be part of an address."""
    try:
        return value_of(field, text), 1
    except SpecError:
        end, colon, step = text.rpartition(":")
        if not colon or not step.isascii() or not step.isdigit() or len(step) > _STEP_DIGITS:
            raise
        return value_of(field, end), int(step)


def _range(
    part: Part, field: Field, first: int | bytes, last: int | bytes, step: int, name: str
) -> Sequence[int | bytes]:
    if step < 1:
        raise SpecError(where=name, needed="a step of at least 1", got=str(step))
    _check(part, field, first)
    _check(part, field, last)
    low, high = _as_number(first), _as_number(last)
    span = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    if field.bits is not None:
        return span
    assert isinstance(first, bytes)
    assert isinstance(last, bytes)
    if len(first) != len(last):
        raise SpecError(
            where=name, needed="ends with as many octets", got=f"{len(first)} and {len(last)} octets"
        )
    if abs(high - low) // step >= MAX_LISTED:
        raise SpecError(
            where=name, needed=f"at most {MAX_LISTED:,} values", got=f"{abs(high - low) // step + 1:,}"
        )
    return [number.to_bytes(len(first), "big") for number in span]


def _drawn(field: Field, item: str, random: Random, name: str) -> Sequence[int | bytes]:
    count = item.removeprefix("random:")
    is_number = count.isascii() and count.isdigit() and len(count) <= _STEP_DIGITS
    if field.bits is None or not is_number or not 1 <= int(count) <= MAX_LISTED:
        needed = f"random:N with N in 1..{MAX_LISTED:,}, for a field of fixed width"
        raise SpecError(where=name, needed=needed, got=shown(item))
    low, high = (field.minimum, field.maximum) if field.is_number else (0, (1 << field.bits) - 1)
    return [random.randint(low, high) for _ in range(int(count))]


def _as_number(value: int | bytes) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "big")


def _check(part: Part, field: Field, value: int | bytes) -> None:
    """Let the format itself refuse what it cannot hold."""
    part.cls(**{field.key: value}).build()
