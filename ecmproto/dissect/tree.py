"""A frame in full: every layer with its octets and source, every field with its bits, value and meaning."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator
from textwrap import indent

from ecmproto.capture.linktypes import linktype_name
from ecmproto.dissect.form import Listing, Paint, plain, printable, seconds_text
from ecmproto.dissect.meaning import meaning
from ecmproto.dissect.record import Record
from ecmproto.dissect.summary import fcs_holds
from ecmproto.wire.cn import CNM
from ecmproto.wire.decoder import SUSPICIOUS, encapsulated, is_suspicious
from ecmproto.wire.frame import Frame
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field
from ecmproto.wire.mac_control import PFC, MACControl, Pause
from ecmproto.wire.text import text_of

_SHOWN_OCTETS = 32
_INDENT = "    "
_BITS_WIDTH = 19
"""Sixteen bits in groups of four; only IPv6's first word is wider."""
_CONGESTION = frozenset(("cnm", "ecm", "bcn", "e2cm", "fecn", "dbp"))


class Trees(Listing):
    """One tree a frame, with an empty line behind it.

    ``deep`` gives the text of a deeper tree of an Ethernet frame's octets, shown behind this one.
    """

    def __init__(self, paint: Paint = plain, *, deep: Callable[[bytes], str] | None = None) -> None:
        self._paint = paint
        self._deep = deep

    def record(self, record: Record) -> str:
        """Return the frame's tree."""
        if self.origin_ns is None:
            self.origin_ns = record.time_ns
        text = tree_text(record, self._paint, origin_ns=self.origin_ns)
        if self._deep is not None and record.is_ethernet:
            text += self._paint("Scapy", "title") + "\n" + indent(self._deep(record.octets), _INDENT) + "\n"
        return text + "\n"


def tree_text(record: Record, paint: Paint = plain, *, origin_ns: int | None = None) -> str:
    """Return the tree of a frame; ``origin_ns`` is the time that its relative time counts from."""
    lines = [*_about(record, paint, origin_ns), *_layers(record.frame, paint, base=0)]
    lines += _tail(record, paint)
    if record.cut:
        captured, original = len(record.octets), record.original_octets
        lines.append(paint(f"[cut: {captured} of {original} octets were captured]", "dim"))
    if record.frame.error is not None:
        lines.append(paint(f"[malformed: {record.frame.error}]", "error"))
    return "\n".join(lines) + "\n"


def _about(record: Record, paint: Paint, origin_ns: int | None) -> Iterator[str]:
    captured = len(record.octets)
    lengths = (
        f"{record.original_octets} octets on the wire, {captured} captured, interface {record.interface}"
    )
    yield paint(f"Frame {record.number}", "title") + f"  {lengths}"
    if not record.is_ethernet:
        yield f"{_INDENT}link type  {linktype_name(record.linktype)} ({record.linktype})"
    if record.time_ns is None:
        yield f"{_INDENT}time       none in the capture"
    else:
        since = (
            f", {seconds_text(record.time_ns - origin_ns)} s since the first frame"
            if origin_ns is not None
            else ""
        )
        yield f"{_INDENT}time       {_utc(record.time_ns)} UTC ({seconds_text(record.time_ns)}){since}"
    for comment in record.comments:
        yield f"{_INDENT}comment    {printable(comment)}"


def _utc(time_ns: int) -> str:
    seconds, ns = divmod(time_ns, 1_000_000_000)
    try:
        moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"second {seconds}"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ns:09d}"


def _layers(frame: Frame, paint: Paint, *, base: int) -> Iterator[str]:
    boundaries = frame.boundaries()
    for index, value in enumerate(frame.layers):
        start, stop = boundaries[index], boundaries[index + 1]
        yield from layer_lines(value, start + base, stop + base, paint, frame)
    inner = encapsulated(frame)
    if inner is not None:
        message = frame.layers[-1]
        shown = boundaries[-2] + message.fixed_octets + base
        octets = boundaries[-1] + base - shown
        yield (
            _INDENT
            + paint("Sampled frame", "title")
            + paint(f"  the first {octets} octets{_of(message)}", "dim")
        )
        if is_suspicious(frame, inner):
            yield 2 * _INDENT + paint(f"[suspicious: {SUSPICIOUS}]", "error")
        for line in _layers(inner, paint, base=shown):
            yield 2 * _INDENT + line
        if inner.padding or inner.trailer:
            yield 2 * _INDENT + f"rest  {_octets_text(inner.padding + inner.trailer)}"
        if inner.error is not None:
            yield 2 * _INDENT + paint(f"[malformed: {inner.error}, counted in the sampled frame]", "error")


def _of(message: Layer) -> str:
    return " of its MSDU" if isinstance(message, CNM) else ""


def layer_lines(value: Layer, start: int, stop: int, paint: Paint, frame: Frame) -> Iterator[str]:
    """Yield the lines of one layer that stands in octets ``start`` to ``stop`` (exclusive)."""
    where = f"octets {start}–{stop - 1}" if stop > start else f"at octet {start}, empty"
    yield paint(value.title, _style(value)) + paint(f"  {where}  [{value.source}]", "dim")
    # options and payloads that are not there need no line
    fields = [field for field in value.layout if getattr(value, field.key) != b""]
    rows = [row for field in fields for row in _rows(value, field, frame)]
    name_width = max((len(row.name) for row in rows), default=0)
    bits_width = max((len(row.bits) for row in rows), default=0)
    value_width = min(24, max((len(row.value) for row in rows), default=0))
    for row in rows:
        bits = f"  {row.bits:<{bits_width}}" if bits_width else ""
        told = f"  {row.meaning}" if row.meaning else ""
        line = f"{paint(f'{row.name:<{name_width}}', 'name')}{bits}  {row.value:<{value_width}}{told}"
        yield (_INDENT + line).rstrip()


def _style(value: Layer) -> str:
    if value.prefix in _CONGESTION:
        return "congestion"
    if isinstance(value, Pause | PFC | MACControl):
        return "pause"
    return "tag" if "tag" in value.prefix or value.prefix.startswith("ieee8021") else "title"


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    name: str
    bits: str
    value: str
    meaning: str


def _rows(value: Layer, field: Field, frame: Frame) -> Iterator[_Row]:
    got: int | bytes = getattr(value, field.key)
    name = field.name_for(got)
    text = _octets_text(got) if field.kind == "octets" and isinstance(got, bytes) else text_of(field, got)
    yield _Row(name, _bits(value, field, got), text, meaning(value, field, got, frame.ethertypes))
    if field.meta.flags and isinstance(got, int):
        width = field.bits or 0
        for bit in range(8):
            pattern = bit_pattern(got >> bit & 1, width - 1 - bit, 1, width)
            yield _Row(field.meta.flags.format(bit), pattern, str(got >> bit & 1), "")


def _bits(value: Layer, field: Field, got: int | bytes) -> str:
    """Return the pattern of a field that does not fill whole octets, "" for one that does."""
    if not isinstance(got, int) or field.bits is None:
        return ""
    word = _word(value.layout, field)
    if word is None:
        return ""
    first, width = word
    return bit_pattern(got, field.bit_offset - first, field.bits, width)


def _word(layout: tuple[Field, ...], field: Field) -> tuple[int, int] | None:
    """Return the first bit and the width of the run of sub-octet fields that ``field`` is in, if any."""
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
    shown = octets[:_SHOWN_OCTETS].hex()
    more = "…" if len(octets) > _SHOWN_OCTETS else ""
    return f"{shown}{more}  ({len(octets)} octet{'s' if len(octets) > 1 else ''})"


def _tail(record: Record, paint: Paint) -> Iterator[str]:
    frame = record.frame
    end = frame.boundaries()[-1]
    for name, octets, what in (
        ("eth.padding", frame.padding, "zero octets that fill the frame"),
        ("eth.trailer", frame.trailer, "octets behind the last layer"),
        ("eth.fcs", frame.fcs, "frame check sequence"),
    ):
        if not octets:
            continue
        name = name if record.is_ethernet else name.replace("eth.", "")
        yield paint(name, "title") + paint(f"  octets {end}–{end + len(octets) - 1}  {what}", "dim")
        verdict = ""
        if name == "eth.fcs" and len(octets) == 4 and not record.cut:
            verdict = "  good" if fcs_holds(record) else "  " + paint("bad", "error")
        yield f"{_INDENT}{_octets_text(octets)}{verdict}"
        end += len(octets)
