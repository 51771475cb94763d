"""Pieces of a line of text: literal text, and values of the frame in one of few notations.

An output form makes a list of pieces for each sequence of layers (`Path`). The list is the same for all
frames with that path, so values that differ between frames are `Number`s or `Span`s of octets:

>>> def line(path: Path) -> list[Piece] | None:
...     return [Decimal(RecordNumber.NUMBER, width=5), " ", Hex(path.span(0, "src"), separator=":"), "\\n"]

The classes have no slots, which would make their definition, and so each start, six times slower.
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
    """A number in the record of a frame, whatever its layers."""

    NUMBER = 0
    """Frame number, from 1."""
    TIME_NS = 1
    """Time in ns since 1970; 0 without one."""
    TIMED = 2
    """Whether the record has a time: 0 or 1."""
    SINCE_NS = 3
    """Time in ns since the renderer's origin; 0 where the record has no time."""
    ORIGINAL = 4
    CAPTURED = 5
    CUT = 6
    """Number of octets removed by the snap length."""
    INTERFACE = 7
    INTERFACE_ID = 8
    LINKTYPE = 9
    ERROR = 10
    """Index of the error text, from 1; 0 without an error, or where no program writes it."""
    FLAWED = 11
    """Whether the frame is truncated or malformed: 0 or 1."""
    SINCE_FIRST_NS = 12
    SINCE_PREVIOUS_NS = 13
    SINCE_DISPLAYED_NS = 14
    """Times in ns since the capture's first frame, the previous frame, and the previously displayed one."""


@dataclass(frozen=True)
class Bits:
    """A big-endian number, ``at`` octets after a boundary."""

    boundary: int
    at: int
    octets: int
    shift: int
    bits: int
    signed: bool = False


@dataclass(frozen=True)
class Span:
    """The octets from ``begin_at`` after boundary ``begin`` to ``end_at`` after boundary ``end``."""

    begin: int
    begin_at: int
    end: int
    end_at: int

    @property
    def octets(self) -> int | None:
        """Number of octets; None where it differs between frames."""
        return self.end_at - self.begin_at if self.begin == self.end else None

    def as_number(self) -> Bits:
        """Return the octets, at most seven and a fixed number, as a number."""
        assert self.octets is not None, "a number of octets that differs between frames"
        return Bits(self.begin, self.begin_at, self.octets, 0, 8 * self.octets)

    def part(self, first: int, last: int) -> Span:
        """Return the octets from ``first`` to ``last`` (exclusive)."""
        return Span(self.begin, self.begin_at + first, self.begin, self.begin_at + last)


@dataclass(frozen=True)
class OfLayer:
    """An attribute of a layer without a fixed offset, whole or in part; programs do not support it."""

    boundary: int
    key: str
    first: int = 0
    last: int | None = None

    octets = None

    def as_number(self) -> OfLayer:
        """Return it as a number; −1 for no octets."""
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
    """A number: ``times`` another one, plus ``more``; programs do not support sums of sums."""

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
    """``times`` the number in decimal, padded with leading spaces to ``width``; ``plus``: as ``:+d``."""

    number: Number
    width: int = 0
    plus: bool = False
    times: int = 1


@dataclass(frozen=True)
class HexNumber:
    """A number in ``digits`` lower-case hex digits."""

    number: Number
    digits: int


@dataclass(frozen=True)
class Hex:
    """Octets in lower-case hex, with ``separator`` (one character) between them."""

    span: Octets
    separator: str = ""


@dataclass(frozen=True)
class Dotted:
    """The four octets of an IPv4 address."""

    span: Octets


@dataclass(frozen=True)
class Grouped:
    """The sixteen octets of an IPv6 address."""

    span: Octets


@dataclass(frozen=True)
class Significant:
    """``times`` the number, divided by 10^``exponent``, with four significant digits: as ``:.4g``.

    The quotient is at least 1 (with exponent 0, at least 0) and less than 9999.5.
    """

    number: Number
    exponent: int
    times: int = 1


@dataclass(frozen=True)
class Seconds:
    """A number of ns in seconds with nine decimals, padded with leading spaces to ``width``."""

    number: Number
    width: int = 0


@dataclass(frozen=True)
class Moment:
    """A number of ns since 1970 as UTC: ``2024-05-01 12:00:00.000000001``."""

    number: Number


@dataclass(frozen=True)
class Binary:
    """A number in ``bits`` binary digits, in groups of four; ``offset`` digits of the first precede them."""

    number: Number
    bits: int
    offset: int = 0


@dataclass(frozen=True)
class Word:
    """The text that ``function`` returns for values: a Python function, called once for each combination.

    It is passed numbers as int, spans (which must have a fixed size) as bytes. The function must be pure
    and, since it is identified by identity, no lambda made anew for each path. It is called for the values of
    every frame of the path, also where a `When` around it does not hold.
    """

    function: Callable[..., str]
    values: tuple[Number | Octets, ...]


@dataclass(frozen=True)
class When:
    """``then`` if the number is in ``low`` to ``high``, ``otherwise`` if not."""

    number: Number
    low: int
    high: int
    then: Pieces
    otherwise: Pieces = ()


@dataclass(frozen=True)
class Cell:
    """The pieces of a table's cell; with ``quoted``, quoted if there is a comma (``lone``: or no text)."""

    pieces: Pieces
    quoted: bool = False
    lone: bool = False


@dataclass(frozen=True)
class Widest:
    """The width of the following `Padded`: the widest of ``texts``, from ``minimum`` to ``maximum``."""

    texts: Sequence[Pieces]
    minimum: int
    maximum: int


@dataclass(frozen=True)
class Padded:
    """Pieces padded with trailing spaces to the width set by the last `Widest`; ASCII, and no `Cell`."""

    pieces: Pieces


@dataclass(frozen=True)
class Stripped:
    """Pieces without their trailing spaces; they must follow some other character."""

    pieces: Pieces


@dataclass(frozen=True)
class OfFrame:
    """The text that a Python function returns for a record and one of its frames, given by its first
    boundary.

    ``in_batches`` is the text of all frames that programs write; None if no program writes it.
    """

    function: Callable[[Any, Any], str]
    first: int = 0
    in_batches: str | None = None


class Mark(enum.Enum):
    """A piece that depends on the preceding text, or on the batch."""

    COMMA = "comma"
    """A comma, unless the cell is empty so far."""
    ERROR = "error"
    """The error; only where `RecordNumber.ERROR` is not 0."""


Piece: TypeAlias = (
    str | Decimal | HexNumber | Hex | Dotted | Grouped | Significant | Seconds | Moment | Binary | Word
    | When | Cell | Widest | Padded | Stripped | OfFrame | Mark
)  # fmt: skip
Pieces: TypeAlias = Sequence[Piece]


@dataclass(frozen=True, kw_only=True)
class Path:
    """The layers of a frame from the outside in, with their boundaries.

    Layer k starts at boundary ``first + k``. After the last layer come three boundaries, the starts of
    padding, trailer and FCS; then the frame's end.
    """

    layers: tuple[type[Layer], ...]
    first: int = 0
    sampled: Path | None = None
    """Path of the frame quoted by a CNM, ECM, BCN or E²CM message."""

    @property
    def goes_on(self) -> bool:
        """Whether the quoted frame is a message too, which may quote another."""
        return self.sampled is not None and self.sampled.layers[-1].shows is not None

    @property
    def padding(self) -> Span:
        """Zero octets that fill a frame up."""
        return self._tail(0)

    @property
    def trailer(self) -> Span:
        """Other octets after the last layer."""
        return self._tail(1)

    @property
    def fcs(self) -> Span:
        """The frame check sequence."""
        return self._tail(2)

    @property
    def whole(self) -> Span:
        """All octets of the frame; of a sampled one, the quoted octets."""
        return Span(self.first, 0, self.first + len(self.layers) + 3, 0)

    def _tail(self, tail: int) -> Span:
        boundary = self.first + len(self.layers) + tail
        return Span(boundary, 0, boundary + 1, 0)

    def number(self, layer: int, key: str, *, drop: int = 0, bits: int | None = None) -> Bits:
        """Return a field as a number, or ``bits`` bits after its first ``drop``; programs take at most 56
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
        """Return the octets of the field ``key`` of a layer: an address, octets, a number in whole octets."""
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
