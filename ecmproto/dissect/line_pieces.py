"""What a frame's line is made of: the sentence of its layers as pieces that kernels render."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeAlias

from ecmproto.columns.layers import SHOWN_AS
from ecmproto.columns.text.pieces import (
    Bits,
    Decimal,
    Dotted,
    Grouped,
    Hex,
    HexNumber,
    Mark,
    Number,
    Path,
    Piece,
    Power,
    RecordNumber,
    Seconds,
    Significant,
    Size,
    Stretch,
    Sum,
    When,
    Word,
)
from ecmproto.dissect.elements import Choice, Element, Elements, Reference, Text, Value
from ecmproto.dissect.form import Paint
from ecmproto.dissect.sentence import sentence
from ecmproto.dissect.summary import ADDRESSES_WIDTH, NAME_WIDTH, unknown_text
from ecmproto.dissect.summary_templates import STYLES
from ecmproto.formats.ecm import timestamp_ns
from ecmproto.formats.ethernet import Ethernet
from ecmproto.units import RATE_UNITS, TIME_UNITS

_MOST = (1 << 62) - 1


class _UnsaidError(Exception):
    """No program says this."""


def line_pieces(path: Path, label: Callable[[str], str], paint: Paint) -> list[Piece] | None:
    """Return the pieces of the lines of frames with a path; None where no program says them.

    ``label`` fills up and paints what a frame is.
    """
    inner = path.sampled
    if inner is not None and inner.layers[-1] in SHOWN_AS:
        return None  # it may show a frame itself
    said = sentence((path.layers,) if inner is None else (path.layers, inner.layers))
    try:
        told = _pieces(path, said.told)
        name = label(said.name[0]) if isinstance(said.name[0], str) else _name(path, said.name)
        addresses = _addresses(path, said.addresses)
    except _UnsaidError:
        return None
    return [
        Decimal(RecordNumber.NUMBER, width=5), " ",
        When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.SINCE_NS, width=12)], [f"{'-':>12}"]), " ",
        *addresses, " ", Decimal(RecordNumber.ORIGINAL, width=5), " ", name, " ", *told,
        When(RecordNumber.FLAWED, 1, 1, _flaws(paint)), *([] if told else [Mark.STRIP]), "\n",
    ]  # fmt: skip


def _flaws(paint: Paint) -> list[Piece]:
    octets = (Decimal(RecordNumber.CAPTURED), " of ", Decimal(RecordNumber.ORIGINAL))
    cut = painted(paint, "dim", "[cut: ", *octets, " octets]")
    malformed = painted(paint, "error", "[malformed: ", Mark.ERROR, "]")
    return [
        When(RecordNumber.CUT, 1, _MOST, [" ", *cut]), When(RecordNumber.ERROR, 1, _MOST, [" ", *malformed])
    ]  # fmt: skip


def painted(paint: Paint, style: str, *pieces: Piece) -> list[Piece]:
    """Return pieces in a style."""
    before, _, behind = paint(_HERE, style).partition(_HERE)
    return [before, *pieces, behind]


_HERE = "."
"""Painted to see what a style puts in front of a text and behind it."""


def _addresses(path: Path, elements: Elements) -> list[Piece]:
    if path.layers[:1] == (Ethernet,):
        return [Hex(path.stretch(0, "src"), ":"), " → ", Hex(path.stretch(0, "dst"), ":")]
    parts, values = _word(path, elements)
    return [Word(_addresses_word(parts), (*values, RecordNumber.LINKTYPE))]


def _pieces(path: Path, elements: Elements) -> list[Piece]:
    return [piece for element in elements for piece in _piece(path, element)]


def _piece(path: Path, element: Element) -> list[Piece]:
    match element:
        case str():
            return [element]
        case Choice():
            then, otherwise = _pieces(path, element.then), _pieces(path, element.otherwise)
            return [When(_number(path, element.value), element.low, element.high, then, otherwise)]
        case Text():
            return _text(path, element)
    raise _UnsaidError


def _text(path: Path, text: Text) -> list[Piece]:
    """Return values in a style: those that kernels write themselves, words for all others."""
    value = text.values[0]
    match text.style:
        case "decimal" | "signed":
            plus = text.style == "signed"
            (times, reference), *others = value.terms
            if others or value.more:
                return [Decimal(_number(path, value), plus=plus)]
            return [Decimal(_term(path, reference), plus=plus, times=times)]
        case "hex":
            return ["0x", HexNumber(_number(path, value), 4)]
        case "mac":
            return [Hex(_stretch(path, value), ":")]
        case "ipv4":
            return [Dotted(_stretch(path, value))]
        case "ipv6":
            return [Grouped(_stretch(path, value))]
        case "capacity":
            return prefixed(_number(path, value), 1000, RATE_UNITS)
        case "time":
            return prefixed(_number(path, value), 1, TIME_UNITS)
        case "ticks":
            ticks, unit = (_term(path, each.terms[0][1]) for each in text.values)
            return prefixed(Power(ticks, unit), timestamp_ns(1, 0), TIME_UNITS)
    return [Word(STYLES[text.style], tuple(_argument(path, each) for each in text.values))]


def prefixed(number: Number, times: int, units: Sequence[tuple[int, str]]) -> list[Piece]:
    """Return ``times`` a number in the largest unit of which it has, rounded, at least one."""
    (exponent, unit), *smaller = units
    pieces: list[Piece] = [Significant(number, exponent, times), f" {unit}"]
    if not smaller:
        return pieces
    # what four digits round up to a whole unit is written in it: 0.99995 of it and more
    least, whole = -(-99_995 * 10**exponent // (100_000 * times)), -(-(10**exponent) // times)
    below = prefixed(number, times, smaller)
    if least < whole:
        below = [When(number, least, whole - 1, [f"1 {unit}"], below)]
    return [When(number, whole, _MOST, pieces, below)]


def _argument(path: Path, value: Value) -> Number | Stretch:
    reference = value.plain
    if reference is None or reference.size or (reference.field is not None and reference.field.is_number):
        return _number(path, value)
    return _stretch(path, value)


def _number(path: Path, value: Value) -> Number:
    (times, first), *others = value.terms
    if times != 1 or len(others) > 1:
        raise _UnsaidError
    if not others and not value.more:
        return _term(path, first)
    if not others:
        return Sum(_term(path, first), more=value.more)
    ((factor, second),) = others
    return Sum(_term(path, first), _term(path, second), factor, value.more)


def _term(path: Path, reference: Reference) -> Bits | Size:
    path, layer = _place(path, reference)
    if reference.size:
        return Size(path.stretch(layer, reference.key))
    if reference.field is None:
        raise _UnsaidError
    if reference.field.is_number:
        first, last = reference.bits or (0, reference.field.bits or 0)
        return path.number(layer, reference.key, drop=first, bits=last - first)
    stretch = path.stretch(layer, reference.key)
    if stretch.octets is None:
        raise _UnsaidError
    return stretch.as_number()


def _stretch(path: Path, value: Value) -> Stretch:
    """Return the octets of a field, or those that some of its bits are."""
    reference = value.plain
    if reference is None or reference.field is None:
        raise _UnsaidError
    path, layer = _place(path, reference)
    whole = path.stretch(layer, reference.key)
    if reference.bits is None:
        return whole
    first, last = (bit // 8 for bit in reference.bits)
    return dataclasses.replace(whole, begin_at=whole.begin_at + first, end_at=whole.begin_at + last)


def _place(path: Path, reference: Reference) -> tuple[Path, int]:
    """Return which frame's path a layer is of, and its place there."""
    if reference.layer < len(path.layers):
        return path, reference.layer
    if path.sampled is None:
        raise _UnsaidError
    return path.sampled, reference.layer - len(path.layers)


_Parts: TypeAlias = "tuple[str | tuple[Callable[..., str], int], ...]"
"""Text, and styles with how many values they take."""


def _word(path: Path, elements: Elements) -> tuple[_Parts, list[Number | Stretch]]:
    """Return elements as parts of a single word, and the values that it depends on."""
    parts: list[str | tuple[Callable[..., str], int]] = []
    values: list[Number | Stretch] = []
    for element in elements:
        if isinstance(element, str):
            parts.append(element)
        elif isinstance(element, Text):
            parts.append((STYLES[element.style], len(element.values)))
            values += [_argument(path, value) for value in element.values]
        else:
            raise _UnsaidError
    return tuple(parts), values


def _name(path: Path, elements: Elements) -> Word:
    parts, values = _word(path, elements)
    return Word(_name_word(parts), tuple(values))


# The same function for the same parts: by that, words are known.
@functools.cache
def _name_word(parts: _Parts) -> Callable[..., str]:
    return lambda *values: f"{_spelt(parts, values):<{NAME_WIDTH}}"


@functools.cache
def _addresses_word(parts: _Parts) -> Callable[..., str]:
    return lambda *values: f"{_spelt(parts, values[:-1]) or unknown_text(values[-1]):<{ADDRESSES_WIDTH}}"


def _spelt(parts: _Parts, values: Sequence[Any]) -> str:
    left = iter(values)
    spelt = (part if isinstance(part, str) else part[0](*islice(left, part[1])) for part in parts)
    return "".join(spelt)
