"""Frames as single lines: number, time, addresses, length, type and summary.

In a congestion message, the content precedes the tags, because a reader looks for the content first. In a
data frame, the tags precede the addresses, because the tags determine the queue of the frame.

The summaries of formats (`formats.summary`) are joined once for each sequence of layers. They are bound to
the layers and converted into pieces. `dissect.single` writes the pieces for one frame, and kernels write the
pieces for batches. This module also defines the shared clauses and styles.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from string import Formatter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import printable
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import ETHERNET, linktype_name
from ecmproto.frames.columns.text.pieces import (
    Bits,
    Decimal,
    Dotted,
    Grouped,
    Hex,
    HexNumber,
    Mark,
    Number,
    Octets,
    OfFrame,
    OfLayer,
    Padded,
    Path,
    Piece,
    Power,
    RecordNumber,
    Seconds,
    Significant,
    Size,
    Stripped,
    Sum,
    Term,
    When,
    Widest,
    Word,
)
from ecmproto.frames.dissect.form import Listing, Paint, Record, plain
from ecmproto.frames.dissect.single import MAX, Chain, Text, View, compiled, if_crc_is_bad, path_of
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY, RATE_UNITS, TIME_UNITS, format_time
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import Frame, frame_check_sequence
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.wire.formats.ecm import timestamp_ns
from ecmproto.wire.formats.ethernet import PACKET_TYPES, Data, Ethernet
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.infiniband import CE_MARK
from ecmproto.wire.formats.ip import tcp_flags_text
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.summary import Case, Clause, First
from ecmproto.wire.formats.text import address_text
from ecmproto.wire.formats.wrapper import Part, inner_frames

KIND_STYLES = {
    cls.summary.label: cls.colour
    for cls in FORMATS
    if cls.summary.label
    and (cls.role in ("message", "flow control") or cls.summary.colour)
    and cls.colour != "title"
}
"""Styles of the highlighted frame types."""
ADDRESSES_WIDTH = 37
"""Width of two MAC addresses and an arrow, in characters."""
NAME_WIDTH = 5
_FCS_OCTETS = 4
_CACHED_FRAMES = 256


class Lines(Listing):
    """One line per frame, with the time in seconds since the first frame."""

    def __init__(self, paint: Paint = plain) -> None:
        self._paint = paint
        self._texts = functools.lru_cache(maxsize=1024)(self._compiled)
        self._after_time: dict[int, tuple[Frame, str]] = {}
        """Text after the time, by the identity of the frame; repeated records may share a frame."""

    def record(self, record: Record) -> str:
        """Return the line of the frame."""
        if self.origin_ns is None:
            self.origin_ns = record.time_ns
        frame = record.frame
        view = View(record, self.origin_ns)
        cached = self._after_time.get(id(frame))
        if cached is not None and cached[0] is frame:
            text = cached[1]
        else:
            text = self._texts(view.locate(_MAX_DEPTH))(view)
            if len(self._after_time) >= _CACHED_FRAMES:
                self._after_time.clear()
            self._after_time[id(frame)] = frame, text
        return f"{_head(view)}{text}\n"

    def pieces(self, path: Path) -> list[Piece]:
        """Return the pieces of the lines of frames with the layers of ``path``."""
        return [*_HEAD, *_pieces_after_time(path, self._label, self._paint), "\n"]

    def odd(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_]:
        """Return a mask of the frames with an incomplete Ethernet header or an incorrect FCS."""
        return short_or_bad(batch, interfaces)

    def parts(self, record: Record) -> tuple[str, str, str]:
        """Return the addresses, the type and the summary of a line."""
        view = View(record)
        addresses, kind, summary, flaws = _parts(view.locate(_MAX_DEPTH))
        return addresses(view), kind(view), summary(view) + flaws(view)

    def _compiled(self, chain: Chain) -> Text:
        return compiled(_pieces_after_time(path_of(chain), self._label, self._paint))

    def _label(self, name: str) -> str:
        label = f"{name:<{NAME_WIDTH}}"
        return self._paint(label, KIND_STYLES[name]) if name in KIND_STYLES else label


@functools.lru_cache(maxsize=1024)
def _parts(chain: Chain) -> tuple[Text, ...]:
    """Return functions that write the addresses, type, summary and flaws of frames with the given formats."""
    path = path_of(chain)
    summary = summary_of(path)
    addresses = _addresses(path, summary.addresses)
    kind, detail = (_elements_pieces(path, elements) for elements in (summary.name, summary.detail))
    return tuple(map(compiled, (addresses, kind, detail, _flaws(path, plain))))


_HEAD: tuple[Piece, ...] = (
    Decimal(RecordNumber.NUMBER, width=5), " ",
    When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.SINCE_NS, width=12)], [f"{'-':>12}"]), " ",
)  # fmt: skip
_head = compiled(_HEAD)


def _pieces_after_time(path: Path, label: Callable[[str], str], paint: Paint) -> list[Piece]:
    """Return the pieces after the time; ``label`` pads and paints the type of the frame."""
    summary = summary_of(path)
    detail = _with_marks(_elements_pieces(path, summary.detail), paint)
    word = summary.name[0]
    name: list[Piece] = [Widest([], NAME_WIDTH, NAME_WIDTH), Padded(_elements_pieces(path, summary.name))]
    if isinstance(word, str):
        name = [label(word)]
    empty = not detail or isinstance(detail[-1], OfFrame)
    pieces: list[Piece] = [
        *_addresses(path, summary.addresses), " ", Decimal(RecordNumber.ORIGINAL, width=5), " ", *name, " ",
        *detail, *_flaws(path, paint),
    ]  # fmt: skip
    return [Stripped(pieces)] if empty else pieces


def _with_marks(pieces: Sequence[Piece], paint: Paint) -> list[Piece]:
    """Return pieces in which CE marks have the style of congestion."""
    marked: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, When):
            then, otherwise = (_with_marks(each, paint) for each in (piece.then, piece.otherwise))
            marked.append(dataclasses.replace(piece, then=then, otherwise=otherwise))
        else:
            marked += painted(paint, "congestion", piece) if piece == CE_MARK else [piece]
    return marked


def _flaws(path: Path, paint: Paint) -> list[Piece]:
    octets = (Decimal(RecordNumber.CAPTURED), " of ", Decimal(RecordNumber.ORIGINAL))
    cut = painted(paint, "dim", "[cut: ", *octets, " octets]")
    malformed = painted(paint, "error", "[malformed: ", Mark.ERROR, "]")
    sums: list[Piece] = [
        OfFrame(functools.partial(_bad_fcs, paint), in_batches=""),
        *if_crc_is_bad(path, [" ", *painted(paint, "error", "[ICRC bad]")]),
    ]
    flaws: list[Piece] = [
        When(RecordNumber.CUT, 1, MAX, [" ", *cut]), *sums,
        When(RecordNumber.ERROR, 1, MAX, [" ", *malformed]),
    ]  # fmt: skip
    return [When(RecordNumber.FLAWED, 1, 1, flaws, sums)]


def _bad_fcs(paint: Paint, record: Record, frame: Frame) -> str:
    return " " + paint("[FCS bad]", "error") if frame.fcs and not fcs_holds(record) else ""


def painted(paint: Paint, style: str, *pieces: Piece) -> list[Piece]:
    """Return pieces in a style."""
    before, _, after = paint(_HERE, style).partition(_HERE)
    return [before, *pieces, after]


_HERE = "."
"""Sample text that is painted to find the prefix and the suffix of a style."""


def _addresses(path: Path, elements: Elements) -> list[Piece]:
    headers = [at for at in (0, *inner_frames(path.layers)) if path.layers[at : at + 1] == (Ethernet,)]
    if headers:
        return [Hex(path.span(headers[-1], "src"), ":"), " → ", Hex(path.span(headers[-1], "dst"), ":")]
    parts, values = _word_parts(path, elements)
    others: list[Piece] = [Word(_addresses_word(parts), (*values, RecordNumber.LINKTYPE))]
    if path.layers and path.layers[0] is not Data:
        return others
    short: list[Piece] = [OfFrame(_short_pair, in_batches="")]
    return [When(RecordNumber.LINKTYPE, ETHERNET, ETHERNET, short, others)]


def _short_pair(record: Record, frame: Frame) -> str:
    """Return the text of truncated addresses."""
    pair = record.octets[:12]
    return f"{pair[6:].hex(':') or '-':>17} → {pair[:6].hex(':') or '-':<17}"


def fcs_holds(record: Record) -> bool:
    """Return whether the check sequence of the frame is correct or truncated."""
    fcs = record.frame.fcs
    return len(fcs) != _FCS_OCTETS or record.cut or frame_check_sequence(record.octets[:-4]) == fcs


def short_or_bad(batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_]:
    """Return a mask of the frames with an incomplete Ethernet header or an incorrect FCS."""
    links, used = batch.links(interfaces)
    fcs_octets = np.array([each.fcs_octets for each in links], np.int64)[used]
    ethernet = np.array([each.linktype == ETHERNET for each in links], np.bool_)[used]
    odd: NDArray[np.bool_] = ethernet & (batch.captured < Ethernet.fixed_octets + fcs_octets)
    whole = ethernet & (fcs_octets == _FCS_OCTETS) & (batch.original <= batch.captured)
    rows = np.flatnonzero(whole & ~odd)
    octets = batch.buffer.data
    ends = (batch.offset + batch.captured)[rows].tolist()
    for row, start, end in zip(rows.tolist(), batch.offset[rows].tolist(), ends, strict=True):
        check = octets[end - _FCS_OCTETS : end]
        odd[row] = frame_check_sequence(octets[start : end - _FCS_OCTETS]) != check
    return odd


def describe(frame: Frame) -> tuple[str, str]:
    """Return the type of a frame as one short word, and its summary."""
    octets = b"".join([*(value.build() for value in frame.layers), frame.padding, frame.trailer, frame.fcs])
    view = View(
        Record(
            number=0, time_ns=None, octets=octets, original_octets=len(octets), interface=0,
            linktype=ETHERNET, frame=frame,
        )
    )  # fmt: skip
    _, kind, summary, _ = _parts(view.locate(_MAX_DEPTH))
    return kind(view), summary(view)


Formats: TypeAlias = "tuple[type[Layer], ...]"
"""Formats of the layers of a frame, outermost first."""


class CompiledSummary:
    """The summary of frames with given layers, including nested quoted frames."""

    def __init__(self, chain: tuple[Formats, ...]) -> None:
        frames: list[_FrameParts] = []
        # The wrappers are followed by the summary of the innermost frame.
        first = max(inner_frames(chain[0]), default=0)
        wrappers = _FrameParts(chain[0][:first], 0, None).parts(" | ")[1]
        for formats in (chain[0][first:], *chain[1:]):
            frames.append(_FrameParts(formats, first, frames[-1] if frames else None))
            first += len(formats)
        self.name: Elements = frames[0].name
        """Type of the frame, as one word."""
        shown: Elements = ()
        for outer, inner in zip(frames[-2::-1], frames[:0:-1], strict=True):
            shown = _sample(outer, inner, _detail(inner, shown, ", "))
        self.detail: Elements = _joined([*wrappers, _detail(frames[0], shown, " | ")], " | ")
        """Remaining text of the summary."""
        self.addresses: Elements = _FrameParts(chain[0], 0, None).bound("{:addresses}", 0)
        """Addresses of a frame without an Ethernet header; empty if the frame has no addresses."""


_MAX_DEPTH = 7
"""Maximum depth of summarized messages that quote messages; only forged frames are deeper."""


@functools.lru_cache(maxsize=1024)
def summary_of(path: Path) -> CompiledSummary:
    """Return the summary of frames with the layers of ``path``."""
    chain, frame = [path.layers], path.sampled
    while frame is not None:
        chain.append(frame.layers)
        frame = frame.sampled
    return CompiledSummary(tuple(chain))


def _detail(frame: _FrameParts, shown: Elements, separator: str) -> Elements:
    """Return the detail of a frame; ``shown`` is the summary of the quoted frame."""
    detail, tags = frame.parts(separator)
    parts = [detail, *tags, shown] if frame.message else [*tags, detail]
    return _joined(parts, separator)


def _sample(outer: _FrameParts, frame: _FrameParts, detail: Elements) -> Elements:
    """Return the summary of the frame quoted by a message."""
    to = frame.addresses.get("receiver") or outer.addresses.get("shown_to")
    destination: Elements = () if to is None else (Styled((Value(((1, to),)),), "mac"),)
    source = frame.bound("of {:source}→ ", 0)
    return (*source, *destination, " ", *frame.name, *((" ", *detail) if detail else ()))


def _joined(parts: Sequence[Elements], separator: str) -> Elements:
    nonempty = [part for part in parts if part]
    return tuple(each for part in nonempty for each in (separator, *part))[1:]


class _FrameParts:
    """The summaries of one frame's layers; ``first`` is the index of its first layer in the whole chain."""

    def __init__(self, formats: Formats, first: int, outer: _FrameParts | None) -> None:
        self._formats, self._first, self._outer = formats, first, outer
        self._mentioned: set[str] = set()
        summaries = [(first + index, cls.summary) for index, cls in enumerate(formats)]
        self.addresses = {
            role: self._field(getattr(summary, role), index)
            for role in _ROLES
            for index, summary in summaries
            if getattr(summary, role)
        }
        """Fields with the addresses of the frame, by role."""
        self.message = any(summary.detail_first for _, summary in summaries)
        self._summaries = summaries
        detailed = [each for each in summaries if each[1].detail or each[1].summarize]
        ranked = [*reversed([each for each in detailed if not each[1].gives_way]), *detailed]
        self._main = ranked[0] if ranked else None

    @functools.cached_property
    def name(self) -> Elements:
        """Type of the frame, as one word."""
        if self._main is not None and self._main[1].label:
            return (self._main[1].label,)
        for index, summary in reversed(self._summaries):
            key = self._formats[index - self._first].next_key
            if summary.name or key:
                return self.bound(summary.name or f"{{{key}:ethertype}}", index)
        return ("data",)

    def parts(self, separator: str) -> tuple[Elements, list[Elements]]:
        """Return the detail of the frame, and the texts of its tags."""
        detail: Elements = ()
        if self._main is not None:
            index, summary = self._main
            summarize = summary.summarize
            detail = (
                self.bound(summary.detail, index) if summarize is None else self._odd(summarize, separator)
            )
        tags = [
            self.bound(summary.tag, index)
            for index, summary in self._summaries
            if summary.tag
            and self._formats[index - self._first].prefix not in self._mentioned
            and not (summary.gives_way and self._is_wrapped(index + 1 - self._first))
        ]
        return detail, tags

    def _is_wrapped(self, index: int) -> bool:
        """Return whether a wrapper follows at ``index``, after the remaining parts of a previous wrapper."""
        following = itertools.dropwhile(lambda cls: issubclass(cls, Part), self._formats[index:])
        return next(following, Data).role == "wrapper"

    def _odd(self, function: Callable[[Sequence[Layer]], list[str]], separator: str) -> Elements:
        return (Odd(function, self._first, separator),)

    def bound(self, clause: Clause, index: int, argument: str = "") -> Elements:
        """Return a clause of layer ``index`` with its values; raise LookupError for a missing layer."""
        if isinstance(clause, First):
            for template in clause.templates:
                with suppress(LookupError):
                    return self.bound(template, index, argument)
            raise LookupError(clause)
        if isinstance(clause, Case):
            return self._choice(clause, index, argument)
        bound: list[Element] = []
        for literal, names, style, _ in _formatter.parse(clause.replace("@", argument)):
            if literal:
                bound.append(literal)
            named = None if not style else self._clauses(index).get(style, CLAUSES.get(style))
            if named is not None:
                bound += self.bound(named, index, names or "")
            elif names:
                values = tuple(self._value(name, index) for name in names.split(","))
                bound.append(Styled(values, style or values[0].style))
        return tuple(bound)

    def _clauses(self, index: int) -> Mapping[str, Clause]:
        at = index - self._first
        # Clauses of whole frames belong to no layer.
        return self._formats[at].summary.clauses if 0 <= at < len(self._formats) else {}

    def _choice(self, case: Case, index: int, argument: str) -> Elements:
        try:
            value = self._value(case.value.replace("@", argument), index)
        except LookupError:
            return self.bound(case.otherwise, index, argument)
        then, otherwise = (self.bound(each, index, argument) for each in (case.then, case.otherwise))
        return (Choice(value, case.low, case.high, then, otherwise),)

    def _value(self, text: str, index: int) -> Value:
        terms, more = [], 0
        for sign, times, name, first, last, number in _TERM.findall(text):
            factor = -1 if sign else 1
            if number:
                more += factor * int(number)
            else:
                bits = (int(first), int(last)) if last else None
                terms.append((factor * int(times or 1), self._reference(name, index, bits)))
        return Value(tuple(terms), more)

    def _reference(self, name: str, index: int, bits: tuple[int, int] | None) -> Reference:
        role = name.removeprefix("outer.")
        if role in _ROLES:
            frame = self if role == name else self._outer
            if frame is None:
                raise LookupError(name)
            return frame.addresses[role]
        prefix, _, key = name.rpartition(".")
        if prefix:
            prefixes = [cls.prefix for cls in self._formats]
            if prefix not in prefixes:
                raise LookupError(prefix)
            # Search outwards from the layer, so that an inner packet has its own addresses.
            around = prefixes[: index - self._first + 1]
            outermost = prefix not in around
            position = prefixes.index(prefix) if outermost else len(around) - 1 - around[::-1].index(prefix)
            index = self._first + position
            self._mentioned.add(prefix)
        return dataclasses.replace(self._field(key.removeprefix("#"), index), bits=bits, size=key[0] == "#")

    def _field(self, key: str, index: int) -> Reference:
        fields = self._formats[index - self._first].layout
        return Reference(index, key, next((field for field in fields if field.key == key), None))


_ROLES = ("sender", "receiver", "addressee", "shown_to")
_TERM = re.compile(r"(-?)(?:(\d+)\*)?(?:(#?[a-z][a-z0-9_.]*)(?:\[(\d+):(\d+)\])?|(\d+))")
_formatter = Formatter()


CLAUSES: Mapping[str, Clause] = {
    "ports": First((
        "{ip.src}:{srcport} → {ip.dst}:{dstport}",
        "[{ipv6.src}]:{srcport} → [{ipv6.dst}]:{dstport}",
        "port {srcport} → {dstport}",
    )),
    # The address of a congestion point is omitted if it is also the source of the message.
    "cpid": Case(
        "cpid[0:48]-sender", 0, 0, "CPID src/{cpid[48:64]}", "CPID {cpid[0:48]:mac}/{cpid[48:64]}"
    ),
    # The source of a sampled frame is omitted if it is the destination of the message.
    "source": First(("{:other}", "")),
    "other": First(("{:stranger}", "{sender} ")),
    "stranger": Case(
        "sender-outer.addressee", 0, 0, "", "{sender} [suspicious: the message is for {outer.addressee}] "
    ),
    "queue": Case("@", 0, 0, "0 B", f"{{{QUEUE_UNIT_OCTETS}*@:signed}} B"),
    "queues": "Qoff {q_off:queue} Qdelta {q_delta:queue}",
    "saturated": Case("q", 1, 1, " (saturated)"),
    "quanta": Case("@", 0, 0, "resume", "{@} quanta"),
    "dei": Case("@", 1, 1, " dei"),
    "octets": Case("@", 1, 1, "1 octet", "{@} octets"),
    "rate": Case("@", RATE_INFINITY, RATE_INFINITY, "infinity", "{@:capacity}"),
    "addresses": First((
        "{ip.src} → {ip.dst}", "{ipv6.src} → {ipv6.dst}", "{sll.src,sll.halen:from}",
        "{sll2.src,sll2.halen:from}", "",
    )),
}  # fmt: skip


_IP_PROTOCOLS = {
    0: "hop-by-hop options", 1: "ICMP", 2: "IGMP", 4: "IP in IP", 6: "TCP", 17: "UDP", 41: "IPv6 in IP",
    43: "routing header", 44: "fragment", 47: "GRE", 50: "ESP", 51: "AH", 58: "ICMPv6", 59: "no next header",
    60: "destination options", 88: "EIGRP", 89: "OSPF", 103: "PIM", 112: "VRRP", 132: "SCTP",
}  # fmt: skip


def _mac(address: bytes | int) -> str:
    return (address if isinstance(address, bytes) else address.to_bytes(6, "big")).hex(":")


_SHOWN_ADDRESS = 20
"""Maximum number of displayed octets of an address, which is the length of an InfiniBand address."""


def _address(octets: bytes) -> str:
    more = "…" if len(octets) > _SHOWN_ADDRESS else ""
    return octets[:_SHOWN_ADDRESS].hex(":") + more if octets else "none"


_STYLES: Mapping[str, Callable[..., str]] = {
    "mac": _mac,
    "ipv4": address_text,
    "ipv6": address_text,
    "address": _address,
    "from": lambda address, octets: f"{_mac(address):>17} →" if octets == 6 else "",
    "time": format_time,
    "cm_tag": lambda protocol: "E2CM CM-TAG" if protocol == 2 else "CM-TAG",
    "e2cm_type": lambda type: E2CM_TYPES.get(type, f"type {type}"),
    "ip": lambda protocol: _IP_PROTOCOLS.get(protocol) or f"protocol {protocol}",
    "flags": tcp_flags_text,
    "packet": lambda type: PACKET_TYPES.get(type, f"packet type {type}"),
    "ethertype": lambda value: "LLC" if value <= MAX_LENGTH else f"{value:#06x}",
    # Linux defines the smaller numbers.
    "protocol": lambda value: "data" if value <= MAX_LENGTH else f"{value:#06x}",
}
STYLES: Mapping[str, Callable[..., str]] = {
    name: style
    for styles in (_STYLES, *(cls.summary.styles for cls in FORMATS))
    for name, style in styles.items()
}
"""Functions that write values of styles without a piece type; the results are words."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a field of a layer.

    The value is the whole field, the bits in the range ``bits``, or the ``size`` of the field in octets.
    """

    layer: int
    key: str
    field: Field | None
    bits: tuple[int, int] | None = None
    size: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A field, or a sum of multiples of fields and a number."""

    terms: tuple[tuple[int, Reference], ...]
    more: int = 0

    @property
    def plain(self) -> Reference | None:
        """Field, if the value is only a field; otherwise ``None``."""
        ((times, reference), *others) = self.terms
        return reference if times == 1 and not others and not self.more else None

    @property
    def style(self) -> str:
        """Default style of the value."""
        reference = self.plain
        if reference is None or reference.size or reference.bits is not None:
            return "decimal"
        kind = "mac" if reference.field is None else reference.field.kind
        return kind if kind in STYLES else "decimal"


@dataclass(frozen=True, slots=True)
class Styled:
    """Values with a style."""

    values: tuple[Value, ...]
    style: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice between two texts, by the range of a value."""

    value: Value
    low: int
    high: int
    then: Elements
    otherwise: Elements


@dataclass(frozen=True, slots=True)
class Odd:
    """An element whose text a function makes from layers; ``separator`` joins the results of the function."""

    function: Callable[[Sequence[Layer]], list[str]]
    first: int
    separator: str

    def text(self, record: Record, frame: Frame) -> str:
        """Return the text for a frame."""
        return self.separator.join(map(printable, self.function(frame.layers)))


Element: TypeAlias = "str | Styled | Choice | Odd"
Elements: TypeAlias = "tuple[Element, ...]"


def _elements_pieces(path: Path, elements: Elements) -> list[Piece]:
    return [piece for element in elements for piece in _element_pieces(path, element)]


def _element_pieces(path: Path, element: Element) -> list[Piece]:
    match element:
        case str():
            return [element]
        case Choice():
            then, otherwise = _elements_pieces(path, element.then), _elements_pieces(path, element.otherwise)
            return [When(_number(path, element.value), element.low, element.high, then, otherwise)]
        case Styled():
            return _text_pieces(path, element)
        case Odd():
            frame, _ = _layer_of(path, element.first)
            return [OfFrame(element.text, frame.first)]


def _text_pieces(path: Path, text: Styled) -> list[Piece]:
    """Return values in a style, as pieces if kernels can write the style, otherwise as words."""
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
            return [Hex(_span(path, value), ":")]
        case "ipv4":
            return [Dotted(_span(path, value))]
        case "ipv6":
            return [Grouped(_span(path, value))]
        case "capacity":
            return prefixed(_number(path, value), 1000, RATE_UNITS)
        case "time" if not _may_be_hours(path, value):
            return prefixed(_number(path, value), 1, TIME_UNITS)
        case "ticks":
            ticks, unit = (_term(path, each.terms[0][1]) for each in text.values)
            return prefixed(Power(ticks, unit), timestamp_ns(1, 0), TIME_UNITS)
    return [Word(STYLES[text.style], tuple(_argument(path, each) for each in text.values))]


def _may_be_hours(path: Path, value: Value) -> bool:
    number = _number(path, value)
    return not isinstance(number, Bits) or number.bits > _MINUTES_BITS


_MINUTES_BITS = 41
"""Maximum number of bits of a time in ns below one hour; the names of larger units differ."""


def prefixed(number: Number, times: int, units: Sequence[tuple[int, str]]) -> list[Piece]:
    """Return pieces for the product of ``times`` and a number, in the largest unit that does not exceed it.

    The product is rounded to four digits.
    """
    (exponent, unit), *smaller = units
    pieces: list[Piece] = [Significant(number, exponent, times), f" {unit}"]
    if not smaller:
        return pieces
    # A number of at least 0.99995 units is rounded up to one unit, so it is written in that unit.
    lowest, whole = -(-99_995 * 10**exponent // (100_000 * times)), -(-(10**exponent) // times)
    below = prefixed(number, times, smaller)
    if lowest < whole:
        below = [When(number, lowest, whole - 1, [f"1 {unit}"], below)]
    return [When(number, whole, MAX, pieces, below)]


def _argument(path: Path, value: Value) -> Number | Octets:
    reference = value.plain
    if reference is None or reference.size or (reference.field is not None and reference.field.is_number):
        return _number(path, value)
    return _span(path, value)


def _number(path: Path, value: Value) -> Number:
    (times, first), *others = value.terms
    term = _term(path, first)
    number: Term | Sum = term if times == 1 else Sum(term, term, times - 1)
    for factor, reference in others:
        number = Sum(number, _term(path, reference), factor)
    if value.more:
        sum_of_it = number if isinstance(number, Sum) else Sum(number)
        number = dataclasses.replace(sum_of_it, more=value.more)
    return number


def _term(path: Path, reference: Reference) -> Term:
    path, layer = _layer_of(path, reference.layer)
    if reference.size:
        return Size(path.span(layer, reference.key))
    if reference.field is not None and reference.field.is_number:
        first, last = reference.bits or (0, reference.field.bits or 0)
        return path.number(layer, reference.key, drop=first, bits=last - first)
    return _octets(path, layer, reference).as_number()


def _octets(path: Path, layer: int, reference: Reference) -> Octets:
    if reference.field is None:  # a property
        return OfLayer(path.first + layer, reference.key)
    return path.span(layer, reference.key)


def _span(path: Path, value: Value) -> Octets:
    """Return the octets of a field, or of the selected bits of a field."""
    reference = value.plain
    assert reference is not None, "octets are no sum"
    path, layer = _layer_of(path, reference.layer)
    whole = _octets(path, layer, reference)
    if reference.bits is None:
        return whole
    first, last = (bit // 8 for bit in reference.bits)
    return whole.part(first, last)


def _layer_of(path: Path, layer: int) -> tuple[Path, int]:
    """Return the path of the frame that contains layer ``layer``, and the index of the layer in that frame.

    ``layer`` counts the layers of the frame and of all quoted frames.
    """
    while layer >= len(path.layers):
        layer -= len(path.layers)
        assert path.sampled is not None, "a layer of a frame"
        path = path.sampled
    return path, layer


_Parts: TypeAlias = "tuple[str | tuple[Callable[..., str], int], ...]"
"""Parts of a word: text, or a style function with the number of its values."""


def _word_parts(path: Path, elements: Elements) -> tuple[_Parts, list[Number | Octets]]:
    """Return elements as parts of a single word, and the values on which the word depends."""
    parts: list[str | tuple[Callable[..., str], int]] = []
    values: list[Number | Octets] = []
    for element in elements:
        if isinstance(element, str):
            parts.append(element)
        elif isinstance(element, Styled):
            parts.append((STYLES[element.style], len(element.values)))
            values += [_argument(path, value) for value in element.values]
        else:
            raise TypeError(f"expected text and values in a frame's name or addresses, got {element!r}")
    return tuple(parts), values


# Equal parts must return the same function, because words are identified by their function.
@functools.cache
def _addresses_word(parts: _Parts) -> Callable[..., str]:
    def text(*values: Any) -> str:
        *own, linktype = values
        shown = _joined_word(parts, own) or f"link type {linktype_name(linktype)} ({linktype})"
        return f"{shown:<{ADDRESSES_WIDTH}}"

    return text


def _joined_word(parts: _Parts, values: Sequence[Any]) -> str:
    left = iter(values)
    texts = (part if isinstance(part, str) else part[0](*islice(left, part[1])) for part in parts)
    return "".join(texts)
