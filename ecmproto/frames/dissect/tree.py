"""The complete text of a frame: every layer with its octets and source, every field with bits, value and
meaning.

For frames with the same layers (a `Path`), the text is split into constant text and values, called pieces.
`ecmproto.frames.dissect.single` writes the pieces for one frame, and kernels write the pieces for batches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from textwrap import indent
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import printable
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import linktype_name
from ecmproto.frames.columns.text.pieces import (
    Binary,
    Decimal,
    Hex,
    HexNumber,
    Mark,
    Moment,
    Number,
    Octets,
    OfFrame,
    Padded,
    Path,
    Piece,
    Pieces,
    Power,
    RecordNumber,
    Seconds,
    Size,
    Span,
    Stripped,
    Sum,
    When,
    Widest,
    Word,
)
from ecmproto.frames.dissect.form import Listing, Paint, Record, commented, plain
from ecmproto.frames.dissect.lines import fcs_holds, painted, prefixed, short_or_bad
from ecmproto.frames.dissect.single import (
    MAX,
    Chain,
    Text,
    View,
    compiled,
    crc_status_piece,
    if_suspicious,
    layer_text,
    octets_piece,
    path_of,
    where_ethernet,
)
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY, RATE_UNITS, TIME_UNITS, format_time, quanta_to_ns
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import SUSPICIOUS, Frame
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.wire.formats.ecm import ECM, CMTag, timestamp_ns
from ecmproto.wire.formats.ethernet import MSDU
from ecmproto.wire.formats.ethertypes import MAX_LENGTH, EtherTypes
from ecmproto.wire.formats.hpcc import QLEN_UNIT, SENT_UNIT
from ecmproto.wire.formats.infiniband import BAD, UNVERIFIED, crc_status
from ecmproto.wire.formats.ip import (
    EXTENSIONS,
    PROTO_AH,
    PROTO_TCP,
    PROTO_UDP,
    TCP,
    Extension,
    IPv4,
    IPv6,
    tcp_flags_text,
)
from ecmproto.wire.formats.lldp import TLV
from ecmproto.wire.formats.mac_control import PFC
from ecmproto.wire.formats.registry import FORMATS, announcement
from ecmproto.wire.formats.schema import BitPart, Field, bit_field
from ecmproto.wire.formats.text import meaning_of

SHOWN_OCTETS = 32
_FCS_OCTETS = 4
_MAC_WIDTHS, _IPV4_WIDTHS, _IPV6_WIDTHS = (17, 17), (7, 15), (2, 39)
INDENT = "    "
MAX_VALUE_WIDTH = 24
"""Maximum width of values before the column of meanings, in characters."""
TAILS = (
    ("eth.padding", "zero octets that fill the frame"),
    ("eth.trailer", "octets after the last layer"),
    ("eth.fcs", "frame check sequence"),
)
"""Names and descriptions of the fields after the last layer."""


class Trees(Listing):
    """Form with one tree and an empty line per frame.

    ``deep`` returns an additional tree of the octets of an Ethernet frame.
    """

    commented = True
    wrong = str

    def __init__(self, paint: Paint = plain, *, deep: Callable[[bytes], str] | None = None) -> None:
        self._paint = paint
        self._deep = deep
        self.columnar: bool = deep is None

    def record(self, record: Record) -> str:
        """Return the tree of the frame."""
        if self.origin_ns is None:
            self.origin_ns = record.time_ns
        text = tree_text(record, self._paint, origin_ns=self.origin_ns)
        if self._deep is not None and record.is_ethernet:
            text += self._paint("Scapy", "title") + "\n" + indent(self._deep(record.octets), INDENT) + "\n"
        return text + "\n"

    def pieces(self, path: Path) -> list[Piece]:
        """Return the pieces of the trees of frames with the layers of ``path``."""
        return [*_Layout(self._paint, self.ethertypes).tree(path), "\n"]

    def odd(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_]:
        """Return a mask of the frames with a comment, an incomplete Ethernet header or an incorrect FCS."""
        return commented(batch) | short_or_bad(batch, interfaces)


class TreeLine(NamedTuple):
    """A line of a frame's tree; ``text`` has no indentation, and ``depth`` is the indentation level.

    The line describes octets ``start`` to ``stop`` (exclusive) of the frame. If ``start`` and ``stop`` are
    equal, the line describes no octets. ``name`` is the filter name of a field or layer, and "" for all other
    lines.
    """

    text: str
    depth: int = 0
    start: int = 0
    stop: int = 0
    name: str = ""


def tree_lines(record: Record, paint: Paint = plain, *, origin_ns: int | None = None) -> Iterator[TreeLine]:
    """Yield the lines of a frame's tree; ``origin_ns`` is the origin of the relative time."""
    for line in _text(record, paint, origin_ns, placed=True).splitlines():
        name, start, stop, shown = line.split("\t")
        text = shown.lstrip(" ")
        yield TreeLine(text, (len(shown) - len(text)) // len(INDENT), int(start), int(stop), name)


def tree_text(record: Record, paint: Paint = plain, *, origin_ns: int | None = None) -> str:
    """Return the tree of a frame; ``origin_ns`` is the origin of the relative time."""
    return _text(record, paint, origin_ns, placed=False)


def _text(record: Record, paint: Paint, origin_ns: int | None, *, placed: bool) -> str:
    view = View(record, origin_ns)
    return _compiled(view.locate(), paint, record.frame.ethertypes, origin_ns is not None, placed)(view)


@functools.lru_cache(maxsize=1024)
def _compiled(chain: Chain, paint: Paint, ethertypes: EtherTypes, since: bool, placed: bool) -> Text:
    """Return a function that writes the trees of frames with the given formats."""
    layout = _Layout(paint, ethertypes, since=since, placed=placed, apart=not placed)
    return compiled(layout.tree(path_of(chain)))


@functools.lru_cache(maxsize=1024)
def _fields_text(
    cls: type[Layer], depth: int, paint: Paint, ethertypes: EtherTypes
) -> Callable[[bytes], str]:
    """Return a function that writes the fields of a layer; its argument is the octets of the layer."""
    return layer_text(_Layout(paint, ethertypes).fields(Path(layers=(cls,)), 0, depth))


_NOWHERE: Pieces = ("0\t0",)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line for a field of a layer: name, bits, value and meaning."""

    name: str
    where: Pieces
    """Range of the octets described by the line."""
    value: Pieces
    widths: tuple[int, int]
    """Minimum and maximum width of the value in characters."""
    meaning: Pieces = ()
    certain: bool = True
    """Whether the meaning is never empty."""
    bits: tuple[Number, int, int, int] | None = None
    """The number, its width in bits, its offset in a word of bits, and the width of the word."""

    @property
    def pattern(self) -> str:
        """Bit pattern of the field, with all bits 0."""
        if self.bits is None:
            return ""
        _, bits, offset, width = self.bits
        return bit_pattern(0, offset, bits, width)


class _Layout:
    """Builder of the pieces of trees.

    With ``since``, times are also written relative to an origin. With ``placed``, the name and the octets
    that a line describes precede the line, separated by tabs. With ``apart``, the text of a layer is a word,
    which frames with the same octets in the layer share.
    """

    def __init__(
        self,
        paint: Paint,
        ethertypes: EtherTypes,
        *,
        since: bool = True,
        placed: bool = False,
        apart: bool = False,
    ) -> None:
        self._paint, self._ethertypes = paint, ethertypes
        self._since, self._placed, self._apart = since, placed, apart

    def tree(self, path: Path) -> list[Piece]:
        """Return the pieces of the trees of frames with the layers of ``path``."""
        captured, original = Decimal(RecordNumber.CAPTURED), Decimal(RecordNumber.ORIGINAL)
        cut = self._painted("dim", "[cut: ", captured, " of ", original, " octets were captured]")
        error = self._painted("error", "[malformed: ", Mark.ERROR, "]")
        where = (OfFrame(_error_bounds, in_batches=""),)
        return [
            *self._about(path), *self._frames(path), *self._tail(path),
            When(RecordNumber.CUT, 1, MAX, self._line(0, *cut)),
            When(RecordNumber.ERROR, 1, MAX, self._line(0, *error, name="frame.error", where=where)),
        ]  # fmt: skip

    def _painted(self, style: str, *pieces: Piece) -> list[Piece]:
        return painted(self._paint, style, *pieces)

    def _line(self, depth: int, *pieces: Piece, name: str = "", where: Pieces = _NOWHERE) -> list[Piece]:
        prefix = (f"{name}\t", *where, "\t") if self._placed else ()
        return [*prefix, INDENT * depth, *pieces, "\n"]

    def _line_of(self, depth: int, text: str) -> str:
        """Return a line of constant text that describes no octets."""
        return "".join(map(str, self._line(depth, text)))

    def _about(self, path: Path) -> Iterator[Piece]:
        lengths = (
            "  ", Decimal(RecordNumber.ORIGINAL), " octets on the wire, ", Decimal(RecordNumber.CAPTURED),
            " captured, interface ", Decimal(RecordNumber.INTERFACE),
        )  # fmt: skip
        yield from self._line(0, *self._painted("title", "Frame ", Decimal(RecordNumber.NUMBER)), *lengths)
        link = self._line(1, "link type  ", Word(_linktype_text, (RecordNumber.LINKTYPE,)))
        yield from where_ethernet(path, [], link)
        time: list[Piece] = [Moment(RecordNumber.TIME_NS), " UTC (", Seconds(RecordNumber.TIME_NS), ")"]
        if self._since:
            time += [", ", Seconds(RecordNumber.SINCE_NS), " s since the first frame"]
        yield from self._line(1, "time       ", When(RecordNumber.TIMED, 1, 1, time, ["none in the capture"]))
        yield OfFrame(functools.partial(_comments, self._line_of(1, "comment    @")), in_batches="")

    def _tail(self, path: Path) -> Iterator[Piece]:
        """Yield the lines of the octets after the last layer."""
        for (name, description), span in zip(TAILS, (path.padding, path.trailer, path.fcs), strict=True):
            titles = ([self._paint(each, "title")] for each in (name, name.removeprefix("eth.")))
            octets = ("  octets ", Decimal(_at(span.begin)), "–", Decimal(_at(span.end, -1)))
            title = [*where_ethernet(path, *titles), *self._painted("dim", *octets, f"  {description}")]
            where = _between(_at(span.begin), _at(span.end))
            verdict: list[Piece] = []
            if name == "eth.fcs":
                check = OfFrame(functools.partial(_fcs_verdict, self._paint), in_batches="  good")
                whole = When(RecordNumber.CUT, 0, 0, [check])
                verdict = [When(Size(span), _FCS_OCTETS, _FCS_OCTETS, [whole])]
            lines = self._line(0, *title, name=name, where=where)
            lines += self._line(1, *_octets_pieces(span), *verdict, name=name, where=where)
            yield When(Size(span), 1, MAX, lines)

    def _frames(self, path: Path) -> list[Piece]:
        """Return the lines of a frame's layers, and the lines of its nested quoted frames."""
        pieces: list[Piece] = []
        end: list[Piece] = []
        shown: Path | None = path
        depth = 0
        while shown is not None:
            path, shown = shown, shown.sampled
            for layer in range(len(path.layers)):
                pieces += self._layer(path, layer, depth)
            if shown is not None:
                pieces += self._sampled(path, shown, depth + 1)
                depth += 2
                end = [*self._end_of_sampled(shown, depth), *end]
        return pieces + end

    def _sampled(self, path: Path, shown: Path, depth: int) -> Iterator[Piece]:
        """Yield the first lines of a frame quoted by a message."""
        message = path.layers[-1]
        octets = path.span(len(path.layers) - 1, message.layout[-1].key)
        begin = _at(path.first + len(path.layers) - 1, message.fixed_octets)
        where = _between(begin, _at(path.first + len(path.layers)))
        of_message = " of its MSDU" if message.shows is MSDU else ""
        first = self._painted("dim", "  the first ", Decimal(Size(octets)), f" octets{of_message}")
        name = "encapsulated" if depth == 1 else ""
        yield from self._line(depth, self._paint("Sampled frame", "title"), *first, name=name, where=where)
        warning = self._line(depth + 1, self._paint(f"[suspicious: {SUSPICIOUS}]", "error"))
        yield from if_suspicious(path, shown, *warning)

    def _end_of_sampled(self, shown: Path, depth: int) -> Iterator[Piece]:
        """Yield the last lines of a frame quoted by a message."""
        rest = Span(shown.padding.begin, 0, shown.trailer.end, 0)
        where = _between(_at(rest.begin), _at(rest.end))
        yield When(Size(rest), 1, MAX, self._line(depth, "rest  ", *_octets_pieces(rest), where=where))
        error = self._paint("[malformed: @, counted in the sampled frame]", "error")
        yield OfFrame(
            functools.partial(_shown_error, self._line_of(depth, error)), shown.first, in_batches=""
        )

    def _layer(self, path: Path, layer: int, depth: int) -> Iterator[Piece]:
        cls = path.layers[layer]
        mark = path.first + layer
        begin, end = _at(mark), _at(mark + 1)
        octets: Pieces = ("  octets ", Decimal(begin), "–", Decimal(_at(mark + 1, -1)))
        if not cls.fixed_octets:
            empty: Pieces = ["  at octet ", Decimal(begin), ", empty"]
            octets = [When(Size(_of_layer(path, layer)), 1, MAX, octets, empty)]
        title = [self._paint(cls.title, cls.colour), *self._painted("dim", *octets, f"  [{cls.source}]")]
        yield from self._line(depth, *title, name=_name(depth, cls.prefix), where=_between(begin, end))
        yield from self.fields(path, layer, depth)

    def fields(self, path: Path, layer: int, depth: int) -> Pieces:
        """Return the lines of the fields of a layer."""
        cls = path.layers[layer]
        if self._apart and not (cls.moving or cls.covers or issubclass(cls, TLV)):
            text = _fields_text(cls, depth, self._paint, self._ethertypes)  # type: ignore[arg-type]
            return [Word(text, (_of_layer(path, layer),))]
        return self._fields(path, layer, depth, list(cls.layout), [])

    def _fields(self, path: Path, layer: int, depth: int, fields: list[Field], rows: list[_Row]) -> Pieces:
        """Return the lines of a layer: ``rows`` for its first fields, and lines for the remaining ``fields``.

        The widths of the columns depend on the rows and their names. If a value has alternative names, or if
        octets may be missing, the result has alternatives for all lines.
        """
        if not fields:
            return self._lines(rows, depth)
        field, *left = fields
        more = [*rows, *self._rows(path, layer, field)]
        then = self._fields(path, layer, depth, left, more)
        if field.bits is None or field in path.layers[layer].moving:
            # Empty options and payloads have no line.
            without = self._fields(path, layer, depth, left, rows)
            return [When(Size(path.span(layer, field.key)), 1, MAX, then, without)]
        if field.meta.length_name and field.meta.base == "hex":
            number = path.number(layer, field.key)
            widths = (1, len(str(MAX_LENGTH)))
            length = _Row(field.meta.length_name, more[-1].where, [Decimal(number)], widths, [LENGTH])
            other = self._fields(path, layer, depth, left, [*rows, length])
            return [When(number, 0, MAX_LENGTH, other, then)]
        return then

    def _lines(self, rows: Sequence[_Row], depth: int) -> list[Piece]:
        name_width = max((len(row.name) for row in rows), default=0)
        bits_width = max((len(row.pattern) for row in rows), default=0)
        minimum = min(MAX_VALUE_WIDTH, max((row.widths[0] for row in rows), default=0))
        wider = [row.value for row in rows if row.widths[1] > minimum]
        varies = minimum < MAX_VALUE_WIDTH and bool(wider)
        pieces: list[Piece] = []
        if varies and any(row.meaning for row in rows):
            pieces.append(Widest(wider, minimum, MAX_VALUE_WIDTH))
        for row in rows:
            line: list[Piece] = [self._paint(f"{row.name:<{name_width}}", "name"), "  "]
            if bits_width:
                line += _bit_pattern_pieces(row, bits_width)
            if not row.meaning:
                line += row.value
            elif not varies and row.widths[0] == row.widths[1]:
                line += [*row.value, " " * (minimum - row.widths[0])]
            elif not varies:
                line += [Widest([], minimum, MAX_VALUE_WIDTH), Padded(row.value)]
            else:
                line.append(Padded(row.value))
            if row.meaning:
                line += ["  ", *row.meaning]
            if not row.certain:
                line = [Stripped(line)]
            pieces += self._line(depth + 1, *line, name=_name(depth, row.name), where=row.where)
        return pieces

    def _rows(self, path: Path, layer: int, field: Field) -> Iterator[_Row]:
        cls = path.layers[layer]
        where = _between(*_field_bounds(path, layer, field)) if self._placed else _NOWHERE
        value, widths = _value(path, layer, field)
        word = word_of(cls.layout, field)
        bits = None
        if word is not None and field.is_number and field.bits is not None:
            first, width = word
            bits = (path.number(layer, field.key), field.bits, field.bit_offset - first, width)
        meaning, certain = self._meaning(path, layer, field)
        yield _Row(field.name, where, value, widths, meaning, certain, bits)
        width = field.bits or 0
        for part in field.meta.parts:
            first = width - part.bits - part.low
            number = path.number(layer, field.key, drop=first, bits=part.bits)
            named: Pieces = [Word(_named_part(part), (number,))] if part.names else []
            widths = (1, len(str((1 << part.bits) - 1)))
            position = (number, part.bits, first, width)
            yield _Row(part.name, where, [Decimal(number)], widths, named, not named, position)

    def _meaning(self, path: Path, layer: int, field: Field) -> tuple[Pieces, bool]:
        """Return the pieces of the meaning of a value, and whether the meaning is never empty."""
        cls = path.layers[layer]
        if field.key == cls.covers:
            if path.first:
                return [OfFrame(functools.partial(_crc_verdict, self._paint), path.first)], True
            return [crc_status_piece(self._paint)], True
        if not field.is_number:
            is_text = issubclass(cls, TLV) and field.key == "value"
            return (
                [OfFrame(functools.partial(_tlv_text, layer), path.first)] if is_text else []
            ), not is_text
        if field.kind == "cpid":
            octets = path.span(layer, field.key)
            return [Hex(octets.part(0, 6), ":"), "/", Decimal(octets.part(6, 8).as_number())], True
        number = path.number(layer, field.key)
        if (field.meta.base == "hex" and field.meta.length_name) or field.key == "etype":
            return [Word(_ethertype(self._ethertypes), (number,))], False
        unit = field.meta.unit
        if unit.startswith("quanta"):
            pause: Pieces = [Word(_pause_text, (number,))]
            if cls is not PFC:
                return pause, True
            drop = 15 - int(field.key.removeprefix("time"))
            enabled = path.number(layer, "class_enable_vector", drop=drop, bits=1)
            return [When(enabled, 1, 1, pause, [NOT_ENABLED])], True
        special = _special_meaning(cls, field.key)  # type: ignore[arg-type]  # classes can be hashed
        if special is not None:
            return [Word(special, (number,))], False
        if issubclass(cls, ECM | CMTag) and field.key == "timestamp":
            exponent = path.number(layer, "unit")
            time = prefixed(Power(number, exponent), timestamp_ns(1, 0), TIME_UNITS)
            return ["ticks of 2^", Decimal(exponent), " µs = ", *time], True
        if unit in _UNITS_OCTETS:
            return [f"× {unit} = ", Decimal(number, times=_UNITS_OCTETS[unit]), " octets"], True
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


_UNITS_OCTETS = {f"{octets} octets": octets for octets in (8, QUEUE_UNIT_OCTETS, QLEN_UNIT, SENT_UNIT)}


def _name(depth: int, name: str) -> str:
    """Return the filter name of a field of a frame; "" for a frame nested too deeply for filters."""
    return "" if depth > 2 else f"encapsulated.{name}" if depth else name


def _at(mark: int, more: int = 0) -> Size | Sum:
    """Return the offset of a boundary in the frame plus ``more``."""
    size = Size(Span(0, 0, mark, 0))
    return Sum(size, more=more) if more else size


def _between(begin: Number, end: Number) -> Pieces:
    """Return the pieces for the range of octets described by a line."""
    return (Decimal(begin), "\t", Decimal(end))


def _of_layer(path: Path, layer: int) -> Span:
    return Span(path.first + layer, 0, path.first + layer + 1, 0)


def _field_bounds(path: Path, layer: int, field: Field) -> tuple[Number, Number]:
    """Return the start offset and the end offset of a field."""
    cls, boundary = path.layers[layer], path.first + layer
    if field not in cls.moving:
        if field.bits is None:
            return _at(boundary, cls.fixed_octets), _at(boundary + 1)
        position = bit_field(field)
        return _at(boundary, position.at), _at(boundary, position.at + position.octets)
    begin = end = _at(boundary, cls.fixed_octets)
    for each in cls.moving[: cls.moving.index(field) + 1]:
        begin, end = end, Sum(end, Size(path.span(layer, each.key)))
    return begin, end


def _octets_pieces(span: Octets) -> list[Piece]:
    """Return pieces for the first octets of a span in hex and the total number of octets."""
    first = Hex(span.part(0, SHOWN_OCTETS))
    shown = When(Size(span), SHOWN_OCTETS + 1, MAX, [first, "…"], [Hex(span)])
    plural = When(Size(span), 1, 1, [" octet)"], [" octets)"])
    return [shown, "  (", Decimal(Size(span)), plural]


def _value(path: Path, layer: int, field: Field) -> tuple[Pieces, tuple[int, int]]:
    """Return the value of a field as `ecmproto.wire.formats.text.text_of` writes it.

    The second result is the minimum and maximum width of the value.
    """
    if field.kind == "octets":
        return _octets_pieces(path.span(layer, field.key)), (len("00  (1 octet)"), MAX_VALUE_WIDTH)
    if field.kind not in ("uint", "sint"):
        digits = 2 * (field.bits or 0) // 8
        widths = {"mac": _MAC_WIDTHS, "ipv4": _IPV4_WIDTHS, "ipv6": _IPV6_WIDTHS}
        return [octets_piece(field, path.span(layer, field.key))], widths.get(field.kind, (digits, digits))
    number = path.number(layer, field.key)
    if field.meta.base == "hex":
        digits = -(-(field.bits or 0) // 4)
        return ["0x", HexNumber(number, digits)], (2 + digits, 2 + digits)
    return [Decimal(number)], (1, max(len(str(field.minimum)), len(str(field.maximum))))


def _bit_pattern_pieces(row: _Row, width: int) -> Iterator[Piece]:
    """Yield the bits of a row as `bit_pattern` writes them, padded to ``width``, followed by two spaces."""
    pattern = row.pattern
    if row.bits is None:
        yield " " * (width + 2)
        return
    number, bits, offset, _ = row.bits
    begin, end = pattern.index("0"), pattern.rindex("0") + 1
    yield from (pattern[:begin], Binary(number, bits, offset), f"{pattern[end:]:<{width - end}}  ")


def word_of(layout: tuple[Field, ...], field: Field) -> tuple[int, int] | None:
    """Return the first bit and the width of the run of sub-octet fields that contains ``field``.

    Returns ``None`` if the field fills whole octets.
    """
    first = stop = 0
    run: list[Field] = []
    for other in layout:
        if other.bits is None:
            break
        if stop % 8 == 0:
            first, run = stop, []
        run.append(other)
        stop += other.bits
        if stop % 8 == 0 and field in run:
            return (first, stop - first) if len(run) > 1 else None
    return None


def bit_pattern(value: int, offset: int, bits: int, width: int) -> str:
    """Return the bits of a field in a word of ``width`` bits, in Wireshark's notation: ``011. ....``."""
    digits = f"{value & (1 << bits) - 1:0{bits}b}"
    row = "." * offset + digits + "." * (width - offset - bits)
    return " ".join(row[i : i + 4] for i in range(0, width, 4))


def _linktype_text(number: int) -> str:
    return f"{linktype_name(number)} ({number})"


def _comments(line: str, record: Record, frame: Frame) -> str:
    return "".join(line.replace("@", printable(comment)) for comment in record.comments)


def _error_bounds(record: Record, frame: Frame) -> str:
    size = len(record.octets)
    return "" if frame.error is None else f"{min(frame.error.offset, size)}\t{size}"


def _shown_error(line: str, record: Record, shown: Frame) -> str:
    return "" if shown.error is None else line.replace("@", str(shown.error))


def _fcs_verdict(paint: Paint, record: Record, frame: Frame) -> str:
    return "  good" if fcs_holds(record) else "  " + paint("bad", "error")


def _crc_verdict(paint: Paint, record: Record, frame: Frame) -> str:
    status = crc_status(frame) or UNVERIFIED
    return paint(status, "error") if status == BAD else status


def _tlv_text(layer: int, record: Record, frame: Frame) -> str:
    value = frame.layers[layer]
    if not isinstance(value, TLV) or value.type not in _TEXT_TLVS:
        return ""
    return f'"{printable(value.value.decode("utf-8", errors="replace"))}"'


_LINK_BPS = 10_000_000_000
"""Link rate assumed for pause times in bit/s; a frame does not contain the rate of its link."""
_TEXT_TLVS = (4, 5, 6)
NO_LIMIT = "infinity: no limit yet"


@functools.lru_cache(maxsize=512)
def _special_meaning(cls: type[Layer], key: str) -> Callable[[int], str] | None:
    """Return a function from the numbers of a field to text; ``None`` if the field has no such function."""
    if cls is E2CM and key == "type":
        return lambda got: E2CM_TYPES.get(got, "unassigned")
    if cls is IPv4 and key == "proto":
        return lambda got: _IPV4_PROTOCOLS.get(got, "")
    if issubclass(cls, IPv6 | Extension) and key == "nxt":
        return lambda got: _NEXT_HEADERS.get(got, "")
    if cls is IPv4 and key == "flags":
        return lambda got: ", ".join(
            name for bit, name in ((2, "don't fragment"), (1, "more fragments")) if got & bit
        )
    if cls is TCP and key == "flags":
        return tcp_flags_text
    return None


_PROTOCOLS = {PROTO_TCP: "TCP", PROTO_UDP: "UDP"}
_IPV4_PROTOCOLS = _PROTOCOLS | {PROTO_AH: EXTENSIONS[PROTO_AH].title}
_NEXT_HEADERS = _PROTOCOLS | {nxt: cls.title for nxt, cls in EXTENSIONS.items()}


NOT_ENABLED = "quanta, not enabled"


def _pause_text(quanta: int) -> str:
    """Return the meaning of an effective pause time: its duration at 10 Gb/s, or resume."""
    if not quanta:
        return "quanta: resume"
    return f"quanta = {format_time(quanta_to_ns(quanta, _LINK_BPS))} at 10 Gb/s"


@functools.cache
def _ethertype(ethertypes: EtherTypes) -> Callable[[int], str]:
    """Return a function from an EtherType or 802.3 length to its meaning; "" if unknown."""
    return lambda value: LENGTH if value <= MAX_LENGTH else ethertype_names(ethertypes).get(value, "")


@functools.cache
def _named_part(part: BitPart) -> Callable[[int], str]:
    return lambda number: part.names.get(number, "")


@functools.cache
def _named(cls: type[Layer], key: str) -> Callable[[int], str]:
    field = next(field for field in cls.layout if field.key == key)
    return functools.partial(meaning_of, field)


LENGTH = "octets, an 802.3 length"


@functools.lru_cache(maxsize=32)
def ethertype_names(ethertypes: EtherTypes) -> dict[int, str]:
    """Return the protocol name for each known EtherType."""
    names: dict[int, str] = {}
    for cls in FORMATS:
        value = announcement(cls, ethertypes)
        if value is not None:
            names.setdefault(value, cls.title)
    return names | {
        ethertypes.message: "message of a pre-standard proposal",
        ethertypes.tag: "tag of a pre-standard proposal",
        ethertypes.mac_control: "MAC Control",
        ethertypes.lldp: "LLDP",
        ethertypes.old_s_tag: "VLAN tag (service, before 0x88a8)",
    }
