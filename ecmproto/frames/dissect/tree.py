"""A frame in full: every layer with its octets and source, every field with its bits, value and meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from textwrap import indent
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import printable
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import linktype_name
from ecmproto.frames.dissect.form import Listing, Paint, Record, commented, moment_text, plain, seconds_text
from ecmproto.frames.dissect.lines import fcs_holds, short_or_bad
from ecmproto.units import QUEUE_UNIT_OCTETS, format_rate, format_time, quanta_to_ns
from ecmproto.wire.codec.document import scaled, scaled_key
from ecmproto.wire.codec.frame import SUSPICIOUS, Frame, encapsulated, is_suspicious
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.wire.formats.ecm import ECM, CMTag, ticks_to_ns
from ecmproto.wire.formats.ethernet import MSDU
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH, EtherTypes
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
from ecmproto.wire.formats.schema import BitPart, Field
from ecmproto.wire.formats.text import meaning_of, text_of

if TYPE_CHECKING:
    from ecmproto.frames.columns.text.renderer import Renderer


SHOWN_OCTETS = 32
INDENT = "    "
MOST_VALUE_WIDTH = 24
"""What a value means stands no further behind it, however long others are."""
TAILS = (
    ("eth.padding", "zero octets that fill the frame"),
    ("eth.trailer", "octets behind the last layer"),
    ("eth.fcs", "frame check sequence"),
)
"""What stands behind the last layer: names, and what they are."""


class Trees(Listing):
    """One tree a frame, with an empty line behind it.

    ``deep`` gives the text of a deeper tree of an Ethernet frame's octets, shown behind this one.
    """

    commented = True

    def __init__(self, paint: Paint = plain, *, deep: Callable[[bytes], str] | None = None) -> None:
        self._paint = paint
        self._deep = deep
        self._ethertypes = DEFAULT

    def record(self, record: Record) -> str:
        """Return the frame's tree."""
        if self.origin_ns is None:
            self.origin_ns = record.time_ns
        text = tree_text(record, self._paint, origin_ns=self.origin_ns)
        if self._deep is not None and record.is_ethernet:
            text += self._paint("Scapy", "title") + "\n" + indent(self._deep(record.octets), INDENT) + "\n"
        return text + "\n"

    def texts(
        self,
        batch: Batch,
        interfaces: Sequence[Interface],
        *,
        ethertypes: EtherTypes = DEFAULT,
        pool: ThreadPoolExecutor | None = None,
    ) -> Iterator[bytes | memoryview]:
        """Return the text of a batch's frames; see `Listing.texts`."""
        if ethertypes != self._ethertypes:  # programs say what EtherTypes announce
            self._ethertypes, self._renderer = ethertypes, None
        return super().texts(batch, interfaces, ethertypes=ethertypes, pool=pool)

    @property
    def columnar(self) -> bool:
        """Whether batches are more than their frames one by one: with deeper trees they are not."""
        return self._deep is None

    def renderer(self) -> Renderer | None:
        """Return the renderer of whole batches."""
        if self._deep is not None:
            return None
        from ecmproto.frames.columns.text.renderer import Renderer
        from ecmproto.frames.dissect.text_pieces import tree_pieces

        paint, ethertypes = self._paint, self._ethertypes
        return Renderer(
            lambda path: tree_pieces(path, paint, ethertypes), sampled=True, malformed=True, wrong=str
        )

    def odd(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_]:
        """Return which frames have a comment, no whole Ethernet header, or an FCS that does not hold."""
        return commented(batch) | short_or_bad(batch, interfaces)


class TreeLine(NamedTuple):
    """A line of a frame's tree: ``text`` without the indent that ``depth`` stands for.

    It is about octets ``start`` to ``stop`` (exclusive) of the frame; about none in particular where these
    are equal.  ``name`` is that of a field or layer as filters know it, "" for lines that are of neither.
    """

    text: str
    depth: int = 0
    start: int = 0
    stop: int = 0
    name: str = ""


def tree_lines(record: Record, paint: Paint = plain, *, origin_ns: int | None = None) -> Iterator[TreeLine]:
    """Yield the lines of a frame's tree; ``origin_ns`` is the time that its relative time counts from."""
    for depth, title, texts, start, stop, name, frame, index in _blocks(record, paint, origin_ns):
        yield TreeLine(title, depth, start, stop, name)
        if frame is None:
            continue
        # of a frame shown by one that is shown no filter knows a name
        prefix = "encapsulated." if depth else ""
        base = start - frame.boundaries()[index]
        for text, (name, first, last) in zip(texts, _places(frame, index), strict=True):
            yield TreeLine(text, depth + 1, first + base, last + base, prefix + name if depth <= 2 else "")


def tree_text(record: Record, paint: Paint = plain, *, origin_ns: int | None = None) -> str:
    """Return the tree of a frame; ``origin_ns`` is the time that its relative time counts from."""
    lines: list[str] = []
    for depth, title, texts, *_ in _blocks(record, paint, origin_ns):
        lines.append(INDENT * depth + title)
        if texts:
            indent = INDENT * (depth + 1)
            lines += [indent + text for text in texts]
    return "\n".join(lines) + "\n"


_Block: TypeAlias = "tuple[int, str, Sequence[str], int, int, str, Frame | None, int]"
"""A line: depth, text, lines of fields below it, first octet, octet behind the last, name; and the layer that
the fields are of, by its frame and place there, or None.  Where these fields stand is found out for those
alone who ask: that takes longer than all their text.
"""


def _line(depth: int, text: str, start: int = 0, stop: int = 0, name: str = "") -> _Block:
    return depth, text, (), start, stop, name, None, 0


def _blocks(record: Record, paint: Paint, origin_ns: int | None) -> Iterator[_Block]:
    """Yield the lines of a frame's tree, those of a layer's fields together."""
    for text in _about(record, paint, origin_ns):
        yield _line(int(text.startswith(INDENT)), text.removeprefix(INDENT))
    yield from _layers(record.frame, paint, base=0, depth=0)
    yield from _tail(record, paint)
    if record.cut:
        captured, original = len(record.octets), record.original_octets
        yield _line(0, paint(f"[cut: {captured} of {original} octets were captured]", "dim"))
    error = record.frame.error
    if error is not None:
        stop = len(record.octets)
        told = paint(f"[malformed: {error}]", "error")
        yield _line(0, told, min(error.offset, stop), stop, "frame.error")


def _about(record: Record, paint: Paint, origin_ns: int | None) -> Iterator[str]:
    captured = len(record.octets)
    lengths = (
        f"{record.original_octets} octets on the wire, {captured} captured, interface {record.interface}"
    )
    yield paint(f"Frame {record.number}", "title") + f"  {lengths}"
    if not record.is_ethernet:
        yield f"{INDENT}link type  {linktype_name(record.linktype)} ({record.linktype})"
    if record.time_ns is None:
        yield f"{INDENT}time       none in the capture"
    else:
        since = (
            f", {seconds_text(record.time_ns - origin_ns)} s since the first frame"
            if origin_ns is not None
            else ""
        )
        yield f"{INDENT}time       {moment_text(record.time_ns)} UTC ({seconds_text(record.time_ns)}){since}"
    for comment in record.comments:
        yield f"{INDENT}comment    {printable(comment)}"


def _layers(frame: Frame, paint: Paint, *, base: int, depth: int) -> Iterator[_Block]:
    """Yield the lines of a frame's layers; it starts at octet ``base`` of the one that was captured."""
    boundaries = frame.boundaries()
    prefix = "encapsulated." if depth else ""
    for index, value in enumerate(frame.layers):
        start, stop = boundaries[index] + base, boundaries[index + 1] + base
        title, texts = layer_lines(value, start, stop, paint, frame)
        if value.covers:
            texts = _with_status(texts, frame, paint)
        yield depth, title, texts, start, stop, prefix + value.prefix if depth <= 2 else "", frame, index
    inner = encapsulated(frame)
    if inner is not None:
        message = frame.layers[-1]
        shown = boundaries[-2] + message.fixed_octets + base
        end = boundaries[-1] + base
        said = paint("Sampled frame", "title")
        said += paint(f"  the first {end - shown} octets{of_message(type(message))}", "dim")
        yield _line(depth + 1, said, shown, end, "" if depth else "encapsulated")
        if is_suspicious(frame, inner):
            yield _line(depth + 2, paint(f"[suspicious: {SUSPICIOUS}]", "error"))
        yield from _layers(inner, paint, base=shown, depth=depth + 2)
        rest = inner.padding + inner.trailer
        if rest:
            yield _line(depth + 2, f"rest  {_octets_text(rest)}", end - len(rest), end)
        if inner.error is not None:
            told = f"[malformed: {inner.error}, counted in the sampled frame]"
            yield _line(depth + 2, paint(told, "error"))


def _places(frame: Frame, index: int) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the first octet and the octet behind the last of each line of a layer's fields."""
    for placed in frame.fields_of(index):
        if placed.value == b"":
            continue  # has no line
        first, last = placed.span.start, placed.span.stop
        yield placed.field.name_for(placed.value), first, last
        if isinstance(placed.value, int):
            for part in placed.field.meta.parts:
                yield part.name, first, last


def _with_status(lines: Sequence[str], frame: Frame, paint: Paint) -> list[str]:
    """Return the lines of an invariant CRC, the last with whether it holds."""
    *others, last = lines
    status = crc_status(frame.layers, frame.boundaries()) or UNVERIFIED
    return [*others, f"{last}  {paint(status, 'error') if status == BAD else status}"]


def of_message(cls: type[Layer]) -> str:
    """Return which octets a message of a format shows, "" where they are those of a frame."""
    return " of its MSDU" if cls.shows is MSDU else ""


def layer_lines(value: Layer, start: int, stop: int, paint: Paint, frame: Frame) -> tuple[str, Sequence[str]]:
    """Return the title of one layer, in octets ``start`` to ``stop`` (exclusive), and its fields' lines."""
    where = f"octets {start}–{stop - 1}" if stop > start else f"at octet {start}, empty"
    told = _layer_text(type(value), frame.ethertypes, paint)  # type: ignore[arg-type]  # classes can be hashed
    return told.title + paint(f"  {where}{told.source}", "dim"), told.lines(value)


class _LayerText:
    """The tree of layers of one format; keeps the lines of layers, and the rows of numbers, seen before."""

    def __init__(self, cls: type[Layer], ethertypes: EtherTypes, paint: Paint) -> None:
        self.title = paint(cls.title, cls.colour)
        self.source = f"  [{cls.source}]"
        self._ethertypes = ethertypes
        self._paint = paint
        self._fields: list[tuple[Field, tuple[int, int] | None, dict[int, list[_Row]] | None]] = [
            (field, word_of(cls.layout, field), {} if field.is_number and _says_itself(cls, field) else None)
            for field in cls.layout
        ]
        self._fixed = all(field.bits is not None for field in cls.layout)
        self._lines: dict[Layer, tuple[str, ...]] = {}
        self._shapes: dict[tuple[str, ...], tuple[list[str], int]] = {}
        """Of rows with these names: the names as they are shown, and how wide patterns are."""

    def lines(self, value: Layer) -> tuple[str, ...]:
        """Return the lines of a layer's fields."""
        if not self._fixed:
            return self._made(value)
        lines = self._lines.get(value)
        if lines is None:
            lines = _kept(self._lines, value, self._made(value))
        return lines

    def _made(self, value: Layer) -> tuple[str, ...]:
        rows: list[_Row] = []
        for field, word, known in self._fields:
            got = getattr(value, field.key)
            if got == b"":
                continue  # options and payloads that are not there need no line
            if known is None:
                rows += _rows(value, field, word, got, self._ethertypes)
                continue
            found = known.get(got)
            if found is None:
                found = _kept(known, got, list(_rows(value, field, word, got, self._ethertypes)))
            rows += found
        names = tuple(row.name for row in rows)
        shape = self._shapes.get(names)
        if shape is None:
            name_width = max(map(len, names), default=0)
            padded = [self._paint(f"{name:<{name_width}}", "name") for name in names]
            shape = _kept(self._shapes, names, (padded, max((len(row.bits) for row in rows), default=0)))
        heads, bits_width = shape
        value_width = min(MOST_VALUE_WIDTH, max((len(row.value) for row in rows), default=0))
        lines = []
        for head, (_, bits, text, told) in zip(heads, rows, strict=True):
            if bits_width:
                head = f"{head}  {bits:<{bits_width}}"
            lines.append(f"{head}  {text:<{value_width}}  {told}" if told else f"{head}  {text}".rstrip())
        return tuple(lines)


_layer_text = functools.lru_cache(maxsize=256)(_LayerText)
_MOST_KEPT = 4096
"""Layers of a format, and values of a field, whose text is kept at a time."""


def _kept(known: dict[_Key, _Text], key: _Key, text: _Text) -> _Text:
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[key] = text
    return text


def _says_itself(cls: type[Layer], field: Field) -> bool:
    """Return whether the meaning of a number depends on no other field of its layer."""
    return not (issubclass(cls, ECM | CMTag) and field.key == "timestamp") and not issubclass(cls, PFC)


class _Row(NamedTuple):
    name: str
    bits: str
    value: str
    meaning: str


_Key = TypeVar("_Key")
_Text = TypeVar("_Text")


def _rows(
    value: Layer, field: Field, word: tuple[int, int] | None, got: int | bytes, ethertypes: EtherTypes
) -> Iterator[_Row]:
    """Yield the rows of a field; ``word`` is that of `word_of`."""
    name, pattern = field.name_for(got), ""
    if word is not None and isinstance(got, int) and field.bits is not None:
        first, width = word
        pattern = bit_pattern(got, field.bit_offset - first, field.bits, width)
    text = _octets_text(got) if field.kind == "octets" and isinstance(got, bytes) else text_of(field, got)
    yield _Row(name, pattern, text, meaning(value, field, got, ethertypes))
    if field.meta.parts and isinstance(got, int):
        width = field.bits or 0
        for part in field.meta.parts:
            number = part.of(got)
            pattern = bit_pattern(number, width - part.bits - part.low, part.bits, width)
            yield _Row(part.name, pattern, str(number), part_meaning(part, number))


def part_meaning(part: BitPart, number: int) -> str:
    """Return the name of a value of some bits, "" for one without a name."""
    return part.names.get(number, "")


def word_of(layout: tuple[Field, ...], field: Field) -> tuple[int, int] | None:
    """Return the first bit and the width of the run of sub-octet fields that ``field`` is in, if any.

    A field that fills whole octets by itself is in none.
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
    """Return a field's bits in a word of ``width`` bits as Wireshark draws them: ``011. .... .... ....``."""
    digits = f"{value & (1 << bits) - 1:0{bits}b}"
    row = "." * offset + digits + "." * (width - offset - bits)
    return " ".join(row[i : i + 4] for i in range(0, width, 4))


def _octets_text(octets: bytes) -> str:
    shown = octets[:SHOWN_OCTETS].hex()
    more = "…" if len(octets) > SHOWN_OCTETS else ""
    return f"{shown}{more}  ({len(octets)} octet{'s' if len(octets) > 1 else ''})"


def _tail(record: Record, paint: Paint) -> Iterator[_Block]:
    frame = record.frame
    start = frame.boundaries()[-1]
    for (name, what), octets in zip(TAILS, (frame.padding, frame.trailer, frame.fcs), strict=True):
        if not octets:
            continue
        stop = start + len(octets)
        shown = name if record.is_ethernet else name.removeprefix("eth.")
        title = paint(shown, "title") + paint(f"  octets {start}–{stop - 1}  {what}", "dim")
        yield _line(0, title, start, stop, name)
        verdict = ""
        if name == "eth.fcs" and len(octets) == 4 and not record.cut:
            verdict = "  good" if fcs_holds(record) else "  " + paint("bad", "error")
        yield _line(1, f"{_octets_text(octets)}{verdict}", start, stop, name)
        start = stop


_LINK_BPS = 10_000_000_000
"""The rate pause times are shown for: a frame does not say how fast its link is."""
_TEXT_TLVS = (4, 5, 6)


def meaning(value: Layer, field: Field, got: int | bytes, ethertypes: EtherTypes) -> str:
    """Return the meaning of ``got``, the value of a layer's field; "" where the value needs none."""
    if not isinstance(got, int):
        return _text_of_tlv(value, field, got)
    if (field.meta.base == "hex" and field.meta.length_name) or field.key == "etype":
        return ethertype_text(ethertypes, got)
    if field.meta.unit.startswith("quanta"):
        return _pause_time(value, field, got)
    if field.meta.unit == "8 octets":
        return f"× 8 octets = {8 * got} octets"
    special = _special(value, field, got)
    return special or _scaled(value, field, got) or meaning_of(field, got)


def _scaled(value: Layer, field: Field, got: int) -> str:
    name = scaled_key(type(value), field)
    if not name:
        return ""
    number = scaled(value, field)
    if number is None:
        return NO_LIMIT
    if name.endswith("_octets"):
        return f"× {QUEUE_UNIT_OCTETS} octets = {number} octets"
    return f"kb/s = {format_rate(number)}" if name.endswith("_bps") else f"= {format_time(number)}"


NO_LIMIT = "infinity: no limit yet"


def _special(value: Layer, field: Field, got: int) -> str:
    if isinstance(value, ECM | CMTag) and field.key == "timestamp":
        return f"ticks of 2^{value.unit} µs = {format_time(ticks_to_ns(value))}"
    tell = special_meaning(type(value), field.key)  # type: ignore[arg-type]  # classes can be hashed
    return "" if tell is None else tell(got)


@functools.lru_cache(maxsize=512)
def special_meaning(cls: type[Layer], key: str) -> Callable[[int], str] | None:
    """Return the function that words a field's numbers, if the field has its own; else None."""
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


def _pause_time(value: Layer, field: Field, got: int) -> str:
    if isinstance(value, PFC) and not value.enabled(int(field.key.removeprefix("time"))):
        return NOT_ENABLED
    return pause_text(got)


NOT_ENABLED = "quanta, not enabled"


def pause_text(quanta: int) -> str:
    """Return the meaning of a pause time that is in effect: its duration at 10 Gb/s, or resume."""
    if not quanta:
        return "quanta: resume"
    return f"quanta = {format_time(quanta_to_ns(quanta, _LINK_BPS))} at 10 Gb/s"


def _text_of_tlv(value: Layer, field: Field, got: bytes) -> str:
    if isinstance(value, TLV) and field.key == "value" and value.type in _TEXT_TLVS and got:
        return f'"{printable(got.decode("utf-8", errors="replace"))}"'
    return ""


def ethertype_text(ethertypes: EtherTypes, value: int) -> str:
    """Return the meaning of a number in an EtherType field: a protocol, or an 802.3 length; "" if unknown."""
    return LENGTH if value <= MAX_LENGTH else ethertype_names(ethertypes).get(value, "")


LENGTH = "octets, an 802.3 length"


@functools.lru_cache(maxsize=32)
def ethertype_names(ethertypes: EtherTypes) -> dict[int, str]:
    """Return the name of the protocol that each known EtherType announces."""
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
