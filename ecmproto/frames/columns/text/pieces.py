"""Pieces of a line of text: words as they are, and values of the frame, written in one of few ways.

A form of output makes, for each sequence of layers that frames have (`Path`), a list of pieces.  It is the
same for all frames with that path, so whatever differs between them is a `Number` or a `Stretch` of octets:

>>> def line(path: Path) -> list[Piece] | None:
...     return [Decimal(RecordNumber.NUMBER, width=5), " ", Hex(path.stretch(0, "src"), separator=":"), "\\n"]

The classes have no slots: with them they would take six times as long to make, for which each start waits.
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
    """A number that the record of a frame has, whatever its layers."""

    NUMBER = 0
    """From 1."""
    TIME_NS = 1
    """Since 1970; 0 where the record has no time."""
    TIMED = 2
    """Whether it has one: 0 or 1."""
    SINCE_NS = 3
    """From the origin that the renderer is given; 0 where the record has no time."""
    ORIGINAL = 4
    CAPTURED = 5
    CUT = 6
    """Octets that the snap length cut off."""
    INTERFACE = 7
    INTERFACE_ID = 8
    LINKTYPE = 9
    ERROR = 10
    """Which text says what is malformed, from 1; 0 where nothing is, or where no program is to tell."""
    FLAWED = 11
    """Whether the frame is cut off or malformed: 0 or 1."""
    SINCE_FIRST_NS = 12
    SINCE_PREVIOUS_NS = 13
    SINCE_DISPLAYED_NS = 14
    """Times since the capture's first frame, the frame before, and the one displayed before it."""


@dataclass(frozen=True)
class Bits:
    """A number, big-endian, that stands ``at`` octets behind a boundary."""

    boundary: int
    at: int
    octets: int
    shift: int
    bits: int
    signed: bool = False


@dataclass(frozen=True)
class Stretch:
    """The octets from ``begin_at`` behind boundary ``begin`` to ``end_at`` behind boundary ``end``."""

    begin: int
    begin_at: int
    end: int
    end_at: int

    @property
    def octets(self) -> int | None:
        """How many they are; None where that differs from frame to frame."""
        return self.end_at - self.begin_at if self.begin == self.end else None

    def as_number(self) -> Bits:
        """Return the octets as a number: there are at most seven of them, however long the frame is."""
        assert self.octets is not None, "as many octets in all frames"
        return Bits(self.begin, self.begin_at, self.octets, 0, 8 * self.octets)

    def part(self, first: int, last: int) -> Stretch:
        """Return the octets from ``first`` to ``last`` (exclusive) of it."""
        return Stretch(self.begin, self.begin_at + first, self.begin, self.begin_at + last)


@dataclass(frozen=True)
class OfLayer:
    """An attribute of the layer at a boundary, or octets ``first`` to ``last`` of it: octets or a number.

    It stands for a field without a fixed place.  No program has it: such frames are written one by one.
    """

    boundary: int
    key: str
    first: int = 0
    last: int | None = None

    octets = None

    def as_number(self) -> OfLayer:
        """Return it as a number; −1 for no octets."""
        return self

    def part(self, first: int, last: int) -> OfLayer:
        """Return the octets from ``first`` to ``last`` (exclusive) of it."""
        return OfLayer(self.boundary, self.key, first, last)


Octets: TypeAlias = "Stretch | OfLayer"


@dataclass(frozen=True)
class Size:
    """How many octets a stretch has."""

    stretch: Octets


@dataclass(frozen=True)
class Sum:
    """A number, ``times`` another one, and ``more``; no program has a sum of sums."""

    first: Term | Sum
    second: Term | None = None
    times: int = 1
    more: int = 0


@dataclass(frozen=True)
class Power:
    """``times`` a number, times 2^``exponent``."""

    first: Term
    exponent: Term
    times: int = 1


Term: TypeAlias = "RecordNumber | Bits | Size | OfLayer"
Number: TypeAlias = "Term | Sum | Power"


@dataclass(frozen=True)
class Decimal:
    """``times`` the number in decimal, at least ``width`` wide with spaces in front; ``plus``: as ``:+d``."""

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

    stretch: Octets
    separator: str = ""


@dataclass(frozen=True)
class Dotted:
    """The four octets of an IPv4 address."""

    stretch: Octets


@dataclass(frozen=True)
class Grouped:
    """The sixteen octets of an IPv6 address."""

    stretch: Octets


@dataclass(frozen=True)
class Significant:
    """``times`` the number, divided by 10^``exponent``, with four significant digits: as ``:.4g``.

    The quotient is from 1 (with exponent 0, from 0) up to less than 9999.5.
    """

    number: Number
    exponent: int
    times: int = 1


@dataclass(frozen=True)
class Seconds:
    """A number of ns in seconds with nine places, at least ``width`` wide with spaces in front."""

    number: Number
    width: int = 0


@dataclass(frozen=True)
class Moment:
    """A number of ns since 1970 as UTC: ``2024-05-01 12:00:00.000000001``."""

    number: Number


@dataclass(frozen=True)
class Binary:
    """A number in ``bits`` binary digits, in groups of four; ``offset`` of the first group stand in front."""

    number: Number
    bits: int
    offset: int = 0


@dataclass(frozen=True)
class Word:
    """The word that ``function`` has for values: a Python function, called once for each combination of them.

    Numbers go to it as int, stretches (which must have a fixed size) as bytes.  The same function must say
    the same of the same values: it is known by its identity, so it is no lambda made anew for each path.
    It is asked about the values of every frame of the path, where a `When` around it does not hold too.
    """

    function: Callable[..., str]
    values: tuple[Number | Octets, ...]


@dataclass(frozen=True)
class When:
    """``then`` where the number is in ``low`` to ``high``, ``otherwise`` elsewhere."""

    number: Number
    low: int
    high: int
    then: Pieces
    otherwise: Pieces = ()


@dataclass(frozen=True)
class Cell:
    """The pieces of a table's cell; with ``quoted``, in quotation marks when a comma is in it.

    ``lone``, too, when it is empty.
    """

    pieces: Pieces
    quoted: bool = False
    lone: bool = False


@dataclass(frozen=True)
class Widest:
    """Writes nothing; sets the width of the `Padded` behind it: that of the widest of ``texts``.

    It is ``least`` at least and ``most`` at most.
    """

    texts: Sequence[Pieces]
    least: int
    most: int


@dataclass(frozen=True)
class Padded:
    """Pieces with spaces behind them up to the width that the last `Widest` set; ASCII, and no `Cell`."""

    pieces: Pieces


@dataclass(frozen=True)
class Stripped:
    """Pieces without the spaces that they end with; something other than spaces stands in front of these."""

    pieces: Pieces


@dataclass(frozen=True)
class OfFrame:
    """The text that a Python function makes of a record and one of its frames, given by its first boundary.

    ``in_batches`` is the text of all frames that programs write; None if no program has it.
    """

    function: Callable[[Any, Any], str]
    first: int = 0
    in_batches: str | None = None


class Mark(enum.Enum):
    """A piece that depends on the text in front of it, or on the batch."""

    COMMA = "comma"
    """A comma, unless the cell is empty so far."""
    ERROR = "error"
    """The error; only where `RecordNumber.ERROR` is not 0."""


Piece: TypeAlias = (
    "str | Decimal | HexNumber | Hex | Dotted | Grouped | Significant | Seconds | Moment | Binary | Word"
    " | When | Cell | Widest | Padded | Stripped | OfFrame | Mark"
)
Pieces: TypeAlias = "Sequence[Piece]"


@dataclass(frozen=True, kw_only=True)
class Path:
    """The layers of a frame from the outside in, and where they stand: boundaries.

    Layer k starts at boundary ``first + k``.  Behind the last layer come three boundaries, where padding, the
    trailer and the FCS start; then one where the frame ends.
    """

    layers: tuple[type[Layer], ...]
    first: int = 0
    sampled: Path | None = None
    """That of the frame that a CNM, ECM, BCN or E²CM message shows."""

    @property
    def goes_on(self) -> bool:
        """Whether the frame that a message shows is a message too, which may show one."""
        return self.sampled is not None and self.sampled.layers[-1].shows is not None

    @property
    def padding(self) -> Stretch:
        """Zero octets that fill a frame up."""
        return self._tail(0)

    @property
    def trailer(self) -> Stretch:
        """Other octets behind the last layer."""
        return self._tail(1)

    @property
    def fcs(self) -> Stretch:
        """The frame check sequence."""
        return self._tail(2)

    @property
    def whole(self) -> Stretch:
        """All octets of the frame; of a sampled one, those that are shown."""
        return Stretch(self.first, 0, self.first + len(self.layers) + 3, 0)

    def _tail(self, which: int) -> Stretch:
        boundary = self.first + len(self.layers) + which
        return Stretch(boundary, 0, boundary + 1, 0)

    def number(self, layer: int, key: str, *, drop: int = 0, bits: int | None = None) -> Bits:
        """Return the field ``key`` of a layer as a number, or the ``bits`` behind its first ``drop``.

        No program has one in more than 56 bits.
        """
        field = field_of(self.layers[layer], key)
        assert field.bits is not None, f"{field.name} is no number"
        used = field.bits - drop if bits is None else bits
        start, stop = field.bit_offset + drop, field.bit_offset + drop + used
        at, end = start // 8, -(-stop // 8)
        signed = field.kind == "sint" and used == field.bits
        return Bits(self.first + layer, at, end - at, 8 * end - stop, used, signed)

    def stretch(self, layer: int, key: str) -> Octets:
        """Return the octets of the field ``key`` of a layer: an address, octets, a number in whole octets."""
        cls = self.layers[layer]
        field = field_of(cls, key)
        boundary = self.first + layer
        if field in cls.moving:
            return OfLayer(boundary, key)
        if field.bits is None:
            return Stretch(boundary, cls.fixed_octets, boundary + 1, 0)
        place = bit_field(field)
        assert 8 * place.octets == field.bits, f"{field.name}: no whole octets"
        return Stretch(boundary, place.at, boundary, place.at + place.octets)
