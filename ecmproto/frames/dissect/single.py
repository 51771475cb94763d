"""The text of one frame, from the pieces that programs of batches also use.

`compiled` converts pieces into a Python function, once for each sequence of layers. The function reads a
`View`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, TypeAlias

from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.columns.text.pieces import (
    Binary,
    Bits,
    Cell,
    Decimal,
    Dotted,
    Grouped,
    Hex,
    HexNumber,
    Mark,
    Moment,
    Number,
    Octets,
    OfFrame,
    OfLayer,
    Padded,
    Path,
    Piece,
    Pieces,
    Power,
    RecordNumber,
    Seconds,
    Significant,
    Size,
    Span,
    Stripped,
    Sum,
    When,
    Widest,
    Word,
)
from ecmproto.frames.dissect.form import Paint, Record, moment_text, seconds_text
from ecmproto.wire.codec.frame import Frame, encapsulated
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import Data, Ethernet, ITag
from ecmproto.wire.formats.infiniband import BAD, CRC_STATES, ICRC, UNVERIFIED, crc_status
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.text import address_text

MAX = (1 << 62) - 1
"""End of a range without an upper limit."""
TAILS = 4
"""Number of boundaries after the layers of each frame: padding, trailer, FCS, end."""


Chain: TypeAlias = "tuple[tuple[type[Layer], ...], ...]"
"""Formats of the layers of a frame, followed by the formats of each nested quoted frame."""


class View:
    """A captured frame as input for the functions that `compiled` returns."""

    __slots__ = ("boundaries", "frames", "layers", "octets", "origin_ns", "record", "width")

    width: int
    """Width set by the previous `Widest`."""

    def __init__(self, record: Record, origin_ns: int | None = None) -> None:
        self.record: Record = record
        self.octets: bytes = record.octets
        self.origin_ns: int | None = origin_ns

    def locate(self, depth: int = sys.maxsize) -> Chain:
        """Find the layers of the frame and of at most ``depth`` quoted frames; return their formats."""
        frame = self.record.frame
        self.layers: tuple[Layer | None, ...] = frame.layers
        self.boundaries: list[int] = [*frame.boundaries()]
        _add_tails(frame, self.boundaries, len(self.octets))
        self.frames: dict[int, Frame] = {0: frame}
        chain: Chain = (tuple(map(type, frame.layers)),)
        while len(chain) <= depth and frame.layers and frame.layers[-1].shows is not None:
            end = self.boundaries[-TAILS]
            shown = encapsulated(frame)
            if shown is None:
                break
            frame = shown
            self.frames[len(self.boundaries)] = frame
            starts = frame.boundaries()
            size = starts[-1] + len(frame.padding) + len(frame.trailer) + len(frame.fcs)
            begin = [end - size + start for start in starts]
            _add_tails(frame, begin, end)
            self.boundaries += begin
            self.layers += (*_NO_LAYERS, *frame.layers)
            chain += (tuple(map(type, frame.layers)),)
        return chain


def _add_tails(frame: Frame, boundaries: list[int], end: int) -> None:
    """Append the boundaries after the last layer of a frame."""
    trailer = boundaries[-1] + len(frame.padding)
    boundaries += (trailer, trailer + len(frame.trailer), end)


_NO_LAYERS = (None,) * TAILS


@functools.lru_cache(maxsize=4096)
def path_of(chain: Chain) -> Path:
    """Return the path of frames with the given layers, including the layers of quoted frames."""
    firsts = [*accumulate((len(formats) + TAILS for formats in chain[:-1]), initial=0)]
    path = None
    for formats, first in zip(reversed(chain), reversed(firsts), strict=True):
        path = Path(layers=formats, first=first, sampled=path)
    assert path is not None, "a frame"
    return path


Text: TypeAlias = "Callable[[View], str]"


def compiled(pieces: Pieces, wrong: Callable[[Any], str] = str) -> Text:
    """Return a function that writes the pieces of a frame.

    ``wrong`` is the function that returns the text of an error.
    """
    template = ""
    values: list[Callable[[View], object]] = []
    for piece in pieces:
        if piece is Mark.COMMA:
            template += ","
        elif isinstance(piece, str):
            template += piece.replace("%", "%%")
        else:
            form, value = _compiled(piece, wrong)
            template += form
            values.append(value)
    return _filled(template, values)


_CACHED_LAYERS = 1024
_CACHED_OCTETS = 64


def layer_text(pieces: Pieces) -> Callable[[bytes], str]:
    """Return a function that writes pieces of a single layer; its argument is the octets of the layer.

    The layer starts at boundary 0.
    """
    text = compiled(pieces)

    def write(octets: bytes) -> str:
        view = object.__new__(View)
        view.octets, view.boundaries = octets, [0, len(octets)]
        return text(view)

    cached = functools.lru_cache(maxsize=_CACHED_LAYERS)(write)
    return lambda octets: cached(octets) if len(octets) <= _CACHED_OCTETS else write(octets)


def _filled(template: str, values: list[Callable[[View], object]]) -> Text:
    if not values:
        text = template % ()
        return lambda view: text
    if template == "%s":
        return values[0]  # type: ignore[return-value]  # those are texts
    if len(values) == 1:
        (value,) = values
        return lambda view: template % (value(view),)
    return lambda view: template % tuple([value(view) for value in values])


def _compiled(piece: Piece, wrong: Callable[[Any], str]) -> tuple[str, Callable[[View], object]]:
    """Return the format string for the value of a piece, and a function that reads the value."""
    match piece:
        case Decimal():
            number, times = reader(piece.number), piece.times
            value = number if times == 1 else lambda view: times * number(view)
            return f"%{'+' if piece.plus else ''}{piece.width or ''}d", value
        case HexNumber():
            return f"%0{piece.digits}x", reader(piece.number)
        case Seconds():
            number = reader(piece.number)
            return f"%{piece.width or ''}s", lambda view: seconds_text(number(view))
        case Significant():
            number, times, unit = reader(piece.number), piece.times, 10**piece.exponent
            return "%.4g", lambda view: times * number(view) / unit
        case When():
            return "%s", _chosen(piece, wrong)
        case Widest():
            return "%s", _widest(piece, wrong)
        case Padded():
            text = compiled(piece.pieces, wrong)
            return "%s", lambda view: text(view).ljust(view.width)
        case Stripped():
            text = compiled(piece.pieces, wrong)
            return "%s", lambda view: text(view).rstrip(" ")
        case Cell():
            text = compiled(piece.pieces, wrong)
            return "%s", lambda view: text(view)[1:]  # each value is preceded by a comma
    return "%s", _text(piece, wrong)


def _text(piece: Piece, wrong: Callable[[Any], str]) -> Text:
    match piece:
        case Hex():
            octets, separator = octets_reader(piece.span), piece.separator
            return (
                (lambda view: octets(view).hex(separator)) if separator else lambda view: octets(view).hex()
            )
        case Dotted() | Grouped():
            octets = octets_reader(piece.span)
            return lambda view: address_text(octets(view))
        case Moment():
            number = reader(piece.number)
            return lambda view: moment_text(number(view))
        case Binary():
            number, bits, start = reader(piece.number), piece.bits, piece.offset
            return lambda view: _binary_text(number(view), bits, start)
        case Word():
            function, values = piece.function, [_value(each) for each in piece.values]
            return lambda view: function(*[value(view) for value in values])
        case OfFrame():
            function, first = piece.function, piece.first
            return lambda view: function(view.record, view.frames[first])
        case Mark.ERROR:
            return lambda view: wrong(view.record.frame.error)
    raise TypeError(f"expected a piece of one frame's text, got {piece!r}")


@functools.lru_cache(maxsize=4096)
def _binary_text(number: int, bits: int, offset: int) -> str:
    """Return a number as binary digits, in the notation of `Binary`."""
    digits = f"{number & (1 << bits) - 1:0{bits}b}"
    gaps = [bit for bit in range(1, bits) if (offset + bit) % 4 == 0]
    return " ".join(digits[i:j] for i, j in zip([0, *gaps], [*gaps, None], strict=True))


def _chosen(piece: When, wrong: Callable[[Any], str]) -> Text:
    number, low, high = reader(piece.number), piece.low, piece.high
    texts: dict[bool, Text] = {}  # compiled at first use: most frames need the same branch

    def choose(view: View) -> str:
        holds = low <= number(view) <= high
        text = texts.get(holds)
        if text is None:
            text = texts[holds] = compiled(piece.then if holds else piece.otherwise, wrong)
        return text(view)

    return choose


def _widest(piece: Widest, wrong: Callable[[Any], str]) -> Text:
    texts = [compiled(text, wrong) for text in piece.texts]

    def widen(view: View) -> str:
        view.width = min(piece.maximum, max([piece.minimum, *(len(text(view)) for text in texts)]))
        return ""

    return widen


def _value(value: Number | Octets) -> Callable[[View], Any]:
    if isinstance(value, OfLayer):
        return _attribute(value)
    return octets_reader(value) if isinstance(value, Span) else reader(value)


def _attribute(value: OfLayer) -> Callable[[View], Any]:
    boundary, key, part = value.boundary, value.key, slice(value.first, value.last)
    if part == slice(0, None):
        return lambda view: getattr(view.layers[boundary], key)
    return lambda view: getattr(view.layers[boundary], key)[part]


def octets_reader(span: Octets) -> Callable[[View], bytes]:
    """Return a function that reads octets."""
    if isinstance(span, OfLayer):
        return _attribute(span)
    begin, begin_at, end, end_at = span.begin, span.begin_at, span.end, span.end_at

    def read(view: View) -> bytes:
        boundaries = view.boundaries
        return view.octets[boundaries[begin] + begin_at : boundaries[end] + end_at]

    return read


def reader(number: Number) -> Callable[[View], int]:
    """Return a function that reads a number."""
    match number:
        case RecordNumber():
            return _OF_RECORD[number]
        case Bits():
            return _bits_reader(number)
        case Size():
            return _size_reader(number.span)
        case OfLayer():
            value = _attribute(number)
            return lambda view: _as_number(value(view))
        case Power():
            first, second, times = reader(number.first), reader(number.exponent), number.times
            return lambda view: (first(view) << second(view)) * times
        case Sum():
            first, times, more = reader(number.first), number.times, number.more
            if number.second is None:
                return lambda view: first(view) + more
            second = reader(number.second)
            return lambda view: first(view) + times * second(view) + more


def _size_reader(span: Octets) -> Callable[[View], int]:
    if isinstance(span, OfLayer):
        octets = _attribute(span)
        return lambda view: len(octets(view))
    begin, end, more = span.begin, span.end, span.end_at - span.begin_at
    return lambda view: view.boundaries[end] - view.boundaries[begin] + more


def _as_number(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    return int.from_bytes(value, "big") if value else -1  # equal to no existing address


def _bits_reader(bits: Bits) -> Callable[[View], int]:
    boundary, at, octets, shift = bits.boundary, bits.at, bits.octets, bits.shift
    mask, sign = (1 << bits.bits) - 1, 1 << bits.bits - 1 if bits.signed else 0

    def read(view: View) -> int:
        start = view.boundaries[boundary] + at
        return int.from_bytes(view.octets[start : start + octets], "big") >> shift & mask

    if not sign:
        return read
    return lambda view: (read(view) ^ sign) - sign


def _since(view: View) -> int:
    time_ns = view.record.time_ns
    return 0 if time_ns is None or view.origin_ns is None else time_ns - view.origin_ns


def _crc_state(view: View) -> int:
    frame = view.record.frame
    return CRC_STATES.index(crc_status(frame) or UNVERIFIED)


_OF_RECORD: Mapping[RecordNumber, Callable[[View], int]] = {
    RecordNumber.NUMBER: lambda view: view.record.number,
    RecordNumber.TIME_NS: lambda view: view.record.time_ns or 0,
    RecordNumber.TIMED: lambda view: view.record.time_ns is not None,
    RecordNumber.SINCE_NS: _since,
    RecordNumber.ORIGINAL: lambda view: view.record.original_octets,
    RecordNumber.CAPTURED: lambda view: len(view.octets),
    RecordNumber.CUT: lambda view: max(0, view.record.original_octets - len(view.octets)),
    RecordNumber.INTERFACE: lambda view: view.record.interface,
    RecordNumber.INTERFACE_ID: lambda view: view.record.interface_id,
    RecordNumber.LINKTYPE: lambda view: view.record.linktype,
    RecordNumber.ERROR: lambda view: view.record.frame.error is not None,
    RecordNumber.FLAWED: lambda view: view.record.cut or view.record.frame.error is not None,
    RecordNumber.SINCE_FIRST_NS: lambda view: view.record.since_first_ns or 0,
    RecordNumber.SINCE_PREVIOUS_NS: lambda view: view.record.since_previous_ns or 0,
    RecordNumber.SINCE_DISPLAYED_NS: lambda view: view.record.since_displayed_ns or 0,
    RecordNumber.INVARIANT_CRC: _crc_state,
}


def octets_piece(field: Field, span: Octets) -> Piece:
    """Return the piece for a value that is not a number: an address, a CPID or octets."""
    if field.kind == "mac":
        return Hex(span, separator=":")
    if field.kind == "ipv4":
        return Dotted(span)
    return Word(address_text, (span,)) if field.kind == "ipv6" else Hex(span)


def where_ethernet(path: Path, then: Pieces, otherwise: Pieces) -> Pieces:
    """Return ``then`` for frames that start with an Ethernet header, ``otherwise`` for all other frames."""
    if path.layers[:1] == (Ethernet,):
        return then
    if path.layers and path.layers[0] is not Data:
        return otherwise
    # The octets are too few or have an unsupported format, so only the link type decides.
    return [When(RecordNumber.LINKTYPE, ETHERNET, ETHERNET, then, otherwise)]


def if_suspicious(path: Path, sampled: Path, *pieces: Piece) -> Iterator[Piece]:
    """Yield ``pieces``, shown only if the sampled frame's source is not the message's destination."""
    headers = [index for index, cls in enumerate(path.layers) if cls in (Ethernet, ITag)]
    if not headers or sampled.layers[:1] != (Ethernet,):
        return
    key = "cdst" if path.layers[headers[-1]] is ITag else "dst"
    source, addressee = sampled.span(0, "src"), path.span(headers[-1], key)
    yield When(Sum(source.as_number(), addressee.as_number(), times=-1), 0, 0, [], pieces)


def if_crc_is_bad(path: Path, pieces: Pieces) -> list[Piece]:
    """Return ``pieces`` for packets whose invariant CRC is bad, and no piece for paths without this CRC."""
    bad = CRC_STATES.index(BAD)
    return [When(RecordNumber.INVARIANT_CRC, bad, bad, pieces)] if path.layers[-1:] == (ICRC,) else []


def crc_status_piece(paint: Paint) -> Piece:
    """Return the piece with the state of the invariant CRC."""
    return Word(_crc_status_text(paint), (RecordNumber.INVARIANT_CRC,))


@functools.lru_cache(maxsize=16)
def _crc_status_text(paint: Paint) -> Callable[[int], str]:
    """Return the function that writes a state, the same function for each call."""
    texts = [paint(word, "error") if word == BAD else word for word in CRC_STATES]
    return lambda state: texts[state]
