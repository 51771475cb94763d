"""Pieces of a line of text: literal text, and values of the frame in one of few notations.

An output form makes a list of pieces for each sequence of layers (`Path`). The list is the same for all
frames with that path, so values that differ between frames are `Number`s or `Span`s of octets:

>>> def line(path: Path) -> list[Piece] | None:
...     return [Decimal(RecordNumber.NUMBER, width=5), " ", Hex(path.span(0, "src"), separator=":"), "\\n"]

The classes have no slots, because slots would make the class definitions, and so each start of the program,
six times slower.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ecmproto.values import dataclass
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import field_of
from ecmproto.wire.formats.schema import bit_field


class RecordNumber(enum.IntEnum):
    """A number in the record of a frame, independent of the layers."""

    NUMBER = 0
    """Frame number, from 1."""
    TIME_NS = 1
    """Time in ns since 1970; 0 if the record has no time."""
    TIMED = 2
    """Whether the record has a time: 0 or 1."""
    SINCE_NS = 3
    """Time in ns since the renderer's origin; 0 if the record has no time."""
    ORIGINAL = 4
    CAPTURED = 5
    CUT = 6
    """Number of octets removed by the snap length."""
    INTERFACE = 7
    INTERFACE_ID = 8
    LINKTYPE = 9
    ERROR = 10
    """Index of the error text, from 1; 0 without an error, or if no program writes the error."""
    FLAWED = 11
    """Whether the frame is truncated or malformed: 0 or 1."""
    SINCE_FIRST_NS = 12
    SINCE_PREVIOUS_NS = 13
    SINCE_DISPLAYED_NS = 14
    """Time in ns since the first, the previous, or the previously displayed frame of the capture."""
    INVARIANT_CRC = 15
    """Index in ``CRC_STATES`` of the state of the invariant CRC, for frames that contain one."""


@dataclass(frozen=True)
class Bits:
    """A big-endian number that starts ``at`` octets after a boundary."""

    boundary: int
    at: int
    octets: int
    shift: int
    bits: int
    signed: bool = False


@dataclass(frozen=True)
class Span:
    """The octets between two positions.

    The first position is ``begin_at`` octets after boundary ``begin``. The end is ``end_at`` octets after
    boundary ``end``.
    """

    begin: int
    begin_at: int
    end: int
    end_at: int

    @property
    def octets(self) -> int | None:
        """Number of octets; ``None`` if the number differs between frames."""
        return self.end_at - self.begin_at if self.begin == self.end else None

    def as_number(self) -> Bits:
        """Return the octets as a number; the number of octets is fixed and at most seven."""
        assert self.octets is not None, "a number of octets that differs between frames"
        return Bits(self.begin, self.begin_at, self.octets, 0, 8 * self.octets)

    def part(self, first: int, last: int) -> Span:
        """Return the octets from ``first`` to ``last`` (exclusive)."""
        return Span(self.begin, self.begin_at + first, self.begin, self.begin_at + last)


@dataclass(frozen=True)
class OfLayer:
    """An attribute, or part of one, of a layer without a fixed offset; not supported by programs."""

    boundary: int
    key: str
    first: int = 0
    last: int | None = None

    octets = None

    def as_number(self) -> OfLayer:
        """Return the attribute as a number; −1 for no octets."""
        return self

    def part(self, first: int, last: int) -> OfLayer:
        """Return the octets from ``first`` to ``last`` (exclusive)."""
        return OfLayer(self.boundary, self.key, first, last)


Octets: TypeAlias = "Span | OfLayer"


@dataclass(frozen=True)
class Size:
    """The number of octets of a span."""

    span: Octets


@dataclass(frozen=True)
class Sum:
    """The sum of ``more`` and ``times`` the number ``first``; programs do not support sums of sums."""

    first: Term | Sum
    second: Term | None = None
    times: int = 1
    more: int = 0


@dataclass(frozen=True)
class Power:
    """The product of ``times``, a number and 2^``exponent``."""

    first: Term
    exponent: Term
    times: int = 1


Term: TypeAlias = "RecordNumber | Bits | Size | OfLayer"
Number: TypeAlias = "Term | Sum | Power"


@dataclass(frozen=True)
class Decimal:
    """A number, multiplied by ``times``, in decimal.

    Leading spaces pad the text to ``width``. ``plus`` formats the number as ``:+d`` does.
    """

    number: Number
    width: int = 0
    plus: bool = False
    times: int = 1


@dataclass(frozen=True)
class HexNumber:
    """A number as ``digits`` lower-case hex digits."""

    number: Number
    digits: int


@dataclass(frozen=True)
class Hex:
    """Octets in lower-case hex, with ``separator`` (one character) between octets."""

    span: Octets
    separator: str = ""


@dataclass(frozen=True)
class Dotted:
    """The four octets of an IPv4 address, written in dotted notation."""

    span: Octets


@dataclass(frozen=True)
class Grouped:
    """The sixteen octets of an IPv6 address, written in the usual notation."""

    span: Octets


@dataclass(frozen=True)
class Significant:
    """A number with four significant digits, as ``:.4g`` formats it.

    The number is multiplied by ``times`` and divided by 10^``exponent``. The quotient is less than 9999.5 and
    at least 1, or at least 0 with exponent 0.
    """

    number: Number
    exponent: int
    times: int = 1


@dataclass(frozen=True)
class Seconds:
    """A number of ns as seconds with nine decimals, padded with leading spaces to ``width``."""

    number: Number
    width: int = 0


@dataclass(frozen=True)
class Moment:
    """A number of ns since 1970 as UTC: ``2024-05-01 12:00:00.000000001``."""

    number: Number


@dataclass(frozen=True)
class Binary:
    """A number as ``bits`` binary digits in groups of four.

    The first group lacks ``offset`` digits.
    """

    number: Number
    bits: int
    offset: int = 0


@dataclass(frozen=True)
class Word:
    """The text that the Python function ``function`` returns for ``values``, cached for each combination of
    values.

    The function receives numbers as int and spans as bytes. Spans must have a fixed size. The function must
    be pure. Functions are distinguished by identity, so a new lambda for each path must be avoided. The
    function is called for the values of every frame of the path, even if the condition of an enclosing `When`
    is false.
    """

    function: Callable[..., str]
    values: tuple[Number | Octets, ...]


@dataclass(frozen=True)
class When:
    """``then`` if the number is from ``low`` to ``high``, ``otherwise`` in all other cases."""

    number: Number
    low: int
    high: int
    then: Pieces
    otherwise: Pieces = ()


@dataclass(frozen=True)
class Cell:
    """The pieces of a table cell.

    With ``quoted``, a cell with a comma is put in quotation marks. With ``lone``, an empty cell is quoted
    too.
    """

    pieces: Pieces
    quoted: bool = False
    lone: bool = False


@dataclass(frozen=True)
class Widest:
    """The width of the following `Padded`: the width of the widest text in ``texts``.

    The width is limited to the range from ``minimum`` to ``maximum``.
    """

    texts: Sequence[Pieces]
    minimum: int
    maximum: int


@dataclass(frozen=True)
class Padded:
    """Pieces padded with trailing spaces to the width set by the previous `Widest`.

    The pieces are ASCII and contain no `Cell`.
    """

    pieces: Pieces


@dataclass(frozen=True)
class Stripped:
    """Pieces without trailing spaces; another character must precede the pieces."""

    pieces: Pieces


@dataclass(frozen=True)
class OfFrame:
    """The text that a Python function returns for a record and a frame in the record.

    The frame is given by its first boundary. ``in_batches`` is the text of all frames that programs write, or
    ``None`` if no program writes the text.
    """

    function: Callable[[Any, Any], str]
    first: int = 0
    in_batches: str | None = None


class Mark(enum.Enum):
    """A piece that depends on the preceding text, or on the batch."""

    COMMA = "comma"
    """A comma, unless the cell is still empty."""
    ERROR = "error"
    """The error text; allowed only if `RecordNumber.ERROR` is not 0."""


Piece: TypeAlias = (
    str | Decimal | HexNumber | Hex | Dotted | Grouped | Significant | Seconds | Moment | Binary | Word
    | When | Cell | Widest | Padded | Stripped | OfFrame | Mark
)  # fmt: skip
Pieces: TypeAlias = Sequence[Piece]


@dataclass(frozen=True, kw_only=True)
class Path:
    """The layers of a frame, outermost first, with their boundaries.

    Layer k starts at boundary ``first + k``. Four boundaries follow the layers: the starts of the padding,
    the trailer and the FCS, and the end of the frame.
    """

    layers: tuple[type[Layer], ...]
    first: int = 0
    sampled: Path | None = None
    """Path of the frame quoted by a CNM, ECM, BCN or E²CM message."""

    @property
    def goes_on(self) -> bool:
        """Whether the quoted frame is also a message that may quote a frame."""
        return self.sampled is not None and self.sampled.layers[-1].shows is not None

    @property
    def padding(self) -> Span:
        """Zero octets that fill a short frame."""
        return self._tail(0)

    @property
    def trailer(self) -> Span:
        """Octets after the last layer that are not padding."""
        return self._tail(1)

    @property
    def fcs(self) -> Span:
        """The frame check sequence."""
        return self._tail(2)

    @property
    def whole(self) -> Span:
        """All octets of the frame; for a sampled frame, the quoted octets."""
        return Span(self.first, 0, self.first + len(self.layers) + 3, 0)

    def _tail(self, tail: int) -> Span:
        boundary = self.first + len(self.layers) + tail
        return Span(boundary, 0, boundary + 1, 0)

    def number(self, layer: int, key: str, *, drop: int = 0, bits: int | None = None) -> Bits:
        """Return a field as a number.

        With ``bits``, only ``bits`` bits after the first ``drop`` bits are used. Programs support at most 64
        bits.
        """
        field = field_of(self.layers[layer], key)
        assert field.bits is not None, f"{field.name} is no number"
        used = field.bits - drop if bits is None else bits
        start, stop = field.bit_offset + drop, field.bit_offset + drop + used
        at, end = start // 8, -(-stop // 8)
        signed = field.kind == "sint" and used == field.bits
        return Bits(self.first + layer, at, end - at, 8 * end - stop, used, signed)

    def span(self, layer: int, key: str) -> Octets:
        """Return the octets of the field ``key`` of a layer.

        The field is an address, octets or a number of whole octets.
        """
        cls = self.layers[layer]
        field = field_of(cls, key)
        boundary = self.first + layer
        if field in cls.moving:
            return OfLayer(boundary, key)
        if field.bits is None:
            return Span(boundary, cls.fixed_octets, boundary + 1, 0)
        position = bit_field(field)
        assert 8 * position.octets == field.bits, f"{field.name}: no whole octets"
        return Span(boundary, position.at, boundary, position.at + position.octets)
