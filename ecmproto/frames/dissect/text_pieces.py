"""The batch forms of lines and trees, as pieces of text that kernels render.

For frames with the same layers (a `Path`) the text that `ecmproto.frames.dissect.lines` and
`dissect.tree` give of one frame is taken apart into constant text and values.  This module loads
numba, so that the forms import it for large captures alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ecmproto.frames.capture.batch import linktype_name
from ecmproto.frames.columns.layers import SHOWN_AS
from ecmproto.frames.columns.text.pieces import (
    Binary,
    Decimal,
    Hex,
    HexNumber,
    Mark,
    Moment,
    Number,
    Octets,
    Padded,
    Path,
    Piece,
    Pieces,
    Power,
    RecordNumber,
    Seconds,
    Size,
    Stretch,
    Sum,
    When,
    Widest,
    Word,
)
from ecmproto.frames.dissect.form import Paint
from ecmproto.frames.dissect.lines import painted, prefixed
from ecmproto.frames.dissect.single import MOST, if_suspicious, octets_piece, where_ethernet
from ecmproto.frames.dissect.tree import (
    INDENT,
    LENGTH,
    MOST_VALUE_WIDTH,
    NO_LIMIT,
    NOT_ENABLED,
    SHOWN_OCTETS,
    TAILS,
    bit_pattern,
    ethertype_text,
    of_message,
    part_meaning,
    pause_text,
    special_meaning,
    word_of,
)
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY, RATE_UNITS, TIME_UNITS
from ecmproto.wire.codec.frame import SUSPICIOUS
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ecm import ECM, CMTag, timestamp_ns
from ecmproto.wire.formats.ethertypes import MAX_LENGTH, EtherTypes
from ecmproto.wire.formats.infiniband import ICRC
from ecmproto.wire.formats.lldp import TLV
from ecmproto.wire.formats.mac_control import PFC
from ecmproto.wire.formats.schema import BitPart, Field
from ecmproto.wire.formats.text import meaning_of

_MAC_WIDTH = 17
_IPV4_WIDTHS, _IPV6_WIDTHS = (7, 15), (2, 39)
_FCS_OCTETS = 4

Format: TypeAlias = type[Layer]


def tree_pieces(path: Path, paint: Paint, ethertypes: EtherTypes) -> list[Piece] | None:
    """Return the pieces of the trees of frames with a path; None if no program can write them.

    A TLV's text is of any length, what a message shows may be a message itself, and a CRC is to be computed.
    """
    inner = path.sampled
    unsaid = {TLV, ICRC}
    if not unsaid.isdisjoint(path.layers):
        return None
    if inner is not None and (inner.layers[-1] in SHOWN_AS or not unsaid.isdisjoint(inner.layers)):
        return None
    teller = _TreeLayers(paint, ethertypes)
    return [
        *_tree_head(path, paint), *teller.layers(path, ""), *_tree_tail(path, paint),
        When(RecordNumber.CUT, 1, MOST, [*_tree_cut(paint), "\n"]),
        When(RecordNumber.ERROR, 1, MOST, [*painted(paint, "error", "[malformed: ", Mark.ERROR, "]"), "\n"]),
        "\n",
    ]  # fmt: skip


def _tree_cut(paint: Paint) -> list[Piece]:
    captured, original = Decimal(RecordNumber.CAPTURED), Decimal(RecordNumber.ORIGINAL)
    return painted(paint, "dim", "[cut: ", captured, " of ", original, " octets were captured]")


def _tree_head(path: Path, paint: Paint) -> Iterator[Piece]:
    """Yield the lines of the record."""
    yield from painted(paint, "title", "Frame ", Decimal(RecordNumber.NUMBER))
    yield from ("  ", Decimal(RecordNumber.ORIGINAL), " octets on the wire, ")
    yield from (
        Decimal(RecordNumber.CAPTURED),
        " captured, interface ",
        Decimal(RecordNumber.INTERFACE),
        "\n",
    )
    link: list[Piece] = [f"{INDENT}link type  ", Word(_linktype_text, (RecordNumber.LINKTYPE,)), "\n"]
    yield from where_ethernet(path, [], link)
    time: list[Piece] = [
        Moment(RecordNumber.TIME_NS), " UTC (", Seconds(RecordNumber.TIME_NS), "), ",
        Seconds(RecordNumber.SINCE_NS), " s since the first frame",
    ]  # fmt: skip
    yield f"{INDENT}time       "
    yield from (When(RecordNumber.TIMED, 1, 1, time, ["none in the capture"]), "\n")


def _linktype_text(number: int) -> str:
    return f"{linktype_name(number)} ({number})"


def _tree_tail(path: Path, paint: Paint) -> Iterator[Piece]:
    """Yield the pieces after the last layer; frames with a wrong FCS have no program."""
    for (name, what), stretch in zip(TAILS, (path.padding, path.trailer, path.fcs), strict=True):
        title = where_ethernet(path, [paint(name, "title")], [paint(name.removeprefix("eth."), "title")])
        where = (Decimal(_at(stretch.begin)), "–", Decimal(_at(stretch.end, -1)))
        pieces = [*title, *painted(paint, "dim", "  octets ", *where, f"  {what}"), f"\n{INDENT}"]
        pieces += _octets_pieces(stretch)
        if name == "eth.fcs":
            good = When(Size(stretch), _FCS_OCTETS, _FCS_OCTETS, [When(RecordNumber.CUT, 0, 0, ["  good"])])
            pieces += where_ethernet(path, [good], [])
        yield When(Size(stretch), 1, MOST, [*pieces, "\n"])


def _at(mark: int, more: int = 0) -> Number:
    """Return how far behind the frame's first octet a mark is, and ``more``."""
    size = Size(Stretch(0, 0, mark, 0))
    return Sum(size, more=more) if more else size


def _octets_pieces(stretch: Octets) -> list[Piece]:
    """Return the first octets of a stretch in hex, and how many there are."""
    first = Hex(stretch.part(0, SHOWN_OCTETS))
    shown = When(Size(stretch), SHOWN_OCTETS + 1, MOST, [first, "…"], [Hex(stretch)])
    plural = When(Size(stretch), 1, 1, [" octet)"], [" octets)"])
    return [shown, "  (", Decimal(Size(stretch)), plural]


class _TreeRow:
    """A line of a layer: name, bits, value and meaning."""

    def __init__(
        self,
        name: str,
        bits: tuple[Number, int, int, int] | None,
        value: Pieces,
        widths: tuple[int, int],
        meaning: Pieces = (),
        *,
        certain: bool = True,
    ) -> None:
        self.name = name
        self.bits = bits
        """A number in bits, how many, where in a word of bits, and how many that has."""
        self.value = value
        self.widths = widths
        """Of how many characters the value is at least and at most."""
        self.meaning = meaning
        self.certain = certain
        """Whether a meaning is never empty."""

    @property
    def pattern(self) -> str:
        """The bits, all of them 0."""
        if self.bits is None:
            return ""
        _, bits, offset, width = self.bits
        return bit_pattern(0, offset, bits, width)


class _TreeLayers:
    """Makes pieces of layers."""

    def __init__(self, paint: Paint, ethertypes: EtherTypes) -> None:
        self._paint = paint
        self._ethertypes = ethertypes

    def layers(self, path: Path, indent: str) -> Iterator[Piece]:
        """Yield the lines of a frame's layers, and of the frame that the last one shows."""
        for layer in range(len(path.layers)):
            yield from self._layer(path, layer, indent)
        inner = path.sampled
        if inner is None:
            return
        octets = path.stretch(len(path.layers) - 1, path.layers[-1].layout[-1].key)
        yield f"{INDENT}{self._paint('Sampled frame', 'title')}"
        first = ("  the first ", Decimal(Size(octets)), f" octets{of_message(path.layers[-1])}")
        yield from (*painted(self._paint, "dim", *first), "\n")
        warning = 2 * INDENT + self._paint(f"[suspicious: {SUSPICIOUS}]", "error") + "\n"
        yield from if_suspicious(path, inner, warning)
        yield from self.layers(inner, 2 * INDENT)
        rest = Stretch(inner.padding.begin, 0, inner.trailer.end, 0)
        yield When(Size(rest), 1, MOST, [f"{2 * INDENT}rest  ", *_octets_pieces(rest), "\n"])

    def _layer(self, path: Path, layer: int, indent: str) -> Iterator[Piece]:
        cls = path.layers[layer]
        yield indent + self._paint(cls.title, cls.colour)
        mark = path.first + layer
        begin, last = Decimal(_at(mark)), Decimal(_at(mark + 1, -1))
        where: Pieces = ["  octets ", begin, "–", last]
        if not cls.fixed_octets:
            whole = Size(Stretch(mark, 0, mark + 1, 0))
            where = [When(whole, 1, MOST, where, ["  at octet ", begin, ", empty"])]
        yield from (*painted(self._paint, "dim", *where, f"  [{cls.source}]"), "\n")
        yield from self._fields(path, layer, indent, list(cls.layout), [])

    def _fields(
        self, path: Path, layer: int, indent: str, fields: list[Field], rows: list[_TreeRow]
    ) -> Pieces:
        """Return the lines of a layer with ``rows`` of its first fields, and those of the other ``fields``.

        Which rows there are, and what they are called, says how wide the columns are: lines with another
        name, or without some octets that are not there, are others from the first on.
        """
        if not fields:
            return self._lines(rows, indent)
        field, *left = fields
        if field.bits is None:
            stretch = path.stretch(layer, field.key)
            row = _TreeRow(field.name, None, _octets_pieces(stretch), _octets_widths())
            there = self._fields(path, layer, indent, left, [*rows, row])
            return [When(Size(stretch), 1, MOST, there, self._fields(path, layer, indent, left, rows))]
        if field.meta.length_name and field.meta.base == "hex":
            number = path.number(layer, field.key)
            length = _TreeRow(
                field.meta.length_name, None, [Decimal(number)], (1, len(str(MAX_LENGTH))), [LENGTH]
            )
            then = self._fields(path, layer, indent, left, [*rows, length])
            other = self._fields(path, layer, indent, left, [*rows, *self._rows(path, layer, field)])
            return [When(number, 0, MAX_LENGTH, then, other)]
        return self._fields(path, layer, indent, left, [*rows, *self._rows(path, layer, field)])

    def _lines(self, rows: Sequence[_TreeRow], indent: str) -> Pieces:
        name_width = max((len(row.name) for row in rows), default=0)
        bits_width = max((len(row.pattern) for row in rows), default=0)
        least = min(MOST_VALUE_WIDTH, max((row.widths[0] for row in rows), default=0))
        wider = [row.value for row in rows if row.widths[1] > least]
        varies = least < MOST_VALUE_WIDTH and bool(wider)
        pieces: list[Piece] = []
        if varies and any(row.meaning for row in rows):
            pieces.append(Widest(wider, least, MOST_VALUE_WIDTH))
        for row in rows:
            pieces.append(f"{indent}{INDENT}{self._paint(f'{row.name:<{name_width}}', 'name')}  ")
            if bits_width:
                pieces += _bit_pattern_pieces(row, bits_width)
            if not row.meaning:
                pieces += row.value
            elif not varies and row.widths[0] == row.widths[1]:
                pieces += [*row.value, " " * (least - row.widths[0])]
            elif not varies:
                pieces += [Widest([], least, MOST_VALUE_WIDTH), Padded(row.value)]
            else:
                pieces.append(Padded(row.value))
            if row.meaning:
                pieces += ["  ", *row.meaning, *([] if row.certain else [Mark.STRIP])]
            pieces.append("\n")
        return pieces

    def _rows(self, path: Path, layer: int, field: Field) -> Iterator[_TreeRow]:
        """Yield the rows of a field of fixed size."""
        cls = path.layers[layer]
        value, widths = _tree_value(path, layer, field)
        word = word_of(cls.layout, field)
        pattern = None
        if word is not None and field.is_number and field.bits is not None:
            first, width = word
            pattern = (path.number(layer, field.key), field.bits, field.bit_offset - first, width)
        meaning, certain = self._meaning(path, layer, field) if field.is_number else ([], True)
        yield _TreeRow(field.name, pattern, value, widths, meaning, certain=certain)
        width = field.bits or 0
        for part in field.meta.parts:
            first = width - part.bits - part.low
            number = path.number(layer, field.key, drop=first, bits=part.bits)
            told: Pieces = [Word(_named_part(part), (number,))] if part.names else []
            digits = len(str((1 << part.bits) - 1))
            place = (number, part.bits, first, width)
            yield _TreeRow(part.name, place, [Decimal(number)], (1, digits), told, certain=not told)

    def _meaning(self, path: Path, layer: int, field: Field) -> tuple[Pieces, bool]:
        """Return the pieces of a number's `dissect.tree.meaning`, and whether it is never empty."""
        cls = path.layers[layer]
        if field.kind == "cpid":
            octets = path.stretch(layer, field.key)
            return [Hex(octets.part(0, 6), ":"), "/", Decimal(octets.part(6, 8).as_number())], True
        number = path.number(layer, field.key)
        if (field.meta.base == "hex" and field.meta.length_name) or field.key == "etype":
            return [Word(_ethertype(self._ethertypes), (number,))], False
        unit = field.meta.unit
        if unit.startswith("quanta"):
            pause: Pieces = [Word(pause_text, (number,))]
            if cls is not PFC:
                return pause, True
            drop = 15 - int(field.key.removeprefix("time"))
            enabled = path.number(layer, "class_enable_vector", drop=drop, bits=1)
            return [When(enabled, 1, 1, pause, [NOT_ENABLED])], True
        if unit == "8 octets":
            return [f"× {unit} = ", Decimal(number, times=8), " octets"], True
        tell = special_meaning(cls, field.key)  # type: ignore[arg-type]  # classes can be hashed
        if tell is not None:
            return [Word(tell, (number,))], False
        if issubclass(cls, ECM | CMTag) and field.key == "timestamp":
            exponent = path.number(layer, "unit")
            time = prefixed(Power(number, exponent), timestamp_ns(1, 0), TIME_UNITS)
            return ["ticks of 2^", Decimal(exponent), " µs = ", *time], True
        if unit == "64 octets":
            return [f"× {unit} = ", Decimal(number, times=QUEUE_UNIT_OCTETS), " octets"], True
        if unit == "kb/s":
            rate = ["kb/s = ", *prefixed(number, 1000, RATE_UNITS)]
            if field.key == "rate":
                return [When(number, RATE_INFINITY, RATE_INFINITY, [NO_LIMIT], rate)], True
            return rate, True
        if unit == "ns":
            return ["= ", *prefixed(number, 1, TIME_UNITS)], True
        if field.meta.names:
            return [Word(_named(cls, field.key), (number,))], False  # type: ignore[arg-type]
        return ([unit] if unit else []), True


def _octets_widths() -> tuple[int, int]:
    return len("00  (1 octet)"), MOST_VALUE_WIDTH


def _tree_value(path: Path, layer: int, field: Field) -> tuple[Pieces, tuple[int, int]]:
    """Return a field's value as `ecmproto.wire.formats.text.text_of` has it, and its widths."""
    if field.kind not in ("uint", "sint"):
        stretch = path.stretch(layer, field.key)
        digits = 2 * (field.bits or 0) // 8
        widths = {"mac": (_MAC_WIDTH, _MAC_WIDTH), "ipv4": _IPV4_WIDTHS, "ipv6": _IPV6_WIDTHS}
        return [octets_piece(field, stretch)], widths.get(field.kind, (digits, digits))
    number = path.number(layer, field.key)
    if field.meta.base == "hex":
        digits = -(-(field.bits or 0) // 4)
        return ["0x", HexNumber(number, digits)], (2 + digits, 2 + digits)
    return [Decimal(number)], (1, max(len(str(field.minimum)), len(str(field.maximum))))


def _bit_pattern_pieces(row: _TreeRow, width: int) -> Iterator[Piece]:
    """Yield the bits of a row as `bit_pattern` draws them, filled up to a width, and two spaces."""
    pattern = row.pattern
    if row.bits is None:
        yield " " * (width + 2)
        return
    number, bits, offset, _ = row.bits
    begin, end = pattern.index("0"), pattern.rindex("0") + 1
    yield from (pattern[:begin], Binary(number, bits, offset), f"{pattern[end:]:<{width - end}}  ")


@functools.cache
def _ethertype(ethertypes: EtherTypes) -> Callable[[int], str]:
    return functools.partial(ethertype_text, ethertypes)


@functools.cache
def _named_part(part: BitPart) -> Callable[[int], str]:
    return functools.partial(part_meaning, part)


@functools.cache
def _named(cls: Format, key: str) -> Callable[[int], str]:
    field = next(field for field in cls.layout if field.key == key)
    return functools.partial(meaning_of, field)
