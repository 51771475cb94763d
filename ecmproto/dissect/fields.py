"""Chosen fields of frames as rows: tab-separated with Wireshark's semantics, or CSV.

A field that a frame has several times gives its values comma-separated, outermost first; one that it does
not have gives nothing.  ``encapsulated.NAME`` is the field of the frame that a message shows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ecmproto.capture import CaptureReader
from ecmproto.codec.document import nearest
from ecmproto.codec.frame import Frame, encapsulated
from ecmproto.dissect.form import Listing, Record, seconds_text
from ecmproto.errors import SpecError
from ecmproto.filter.evaluation import protocols
from ecmproto.formats.base import Layer
from ecmproto.formats.infiniband import CRC_STATUS, crc_status
from ecmproto.formats.registry import ALIASES, FORMATS, catalogue
from ecmproto.formats.schema import BitPart, Field
from ecmproto.formats.text import text_of
from ecmproto.values import dataclass

if TYPE_CHECKING:
    from ecmproto.columns.text.renderer import Renderer

_OF_RECORD: dict[str, Callable[[Record], str]] = {
    "frame.number": lambda record: str(record.number),
    "frame.time_epoch": lambda record: "" if record.time_ns is None else seconds_text(record.time_ns),
    "frame.time_relative": lambda record: _since(record, record.since_first_ns),
    "frame.time_delta": lambda record: _since(record, record.since_previous_ns),
    "frame.time_delta_displayed": lambda record: _since(record, record.since_displayed_ns),
    "frame.len": lambda record: str(record.original_octets),
    "frame.cap_len": lambda record: str(len(record.octets)),
    "frame.interface_id": lambda record: str(record.interface_id),
}
_OF_FRAME: dict[str, Callable[[Frame], str]] = {
    "frame.protocols": protocols,
    "frame.error": lambda frame: "" if frame.error is None else str(frame.error),
    "eth.padding": lambda frame: frame.padding.hex(),
    "eth.trailer": lambda frame: frame.trailer.hex(),
    "eth.fcs": lambda frame: frame.fcs.hex(),
    CRC_STATUS: lambda frame: crc_status(frame.layers, frame.boundaries()) or "",
}
_INNER = "encapsulated."


def _since(record: Record, since_ns: int | None) -> str:
    return "" if record.time_ns is None or since_ns is None else seconds_text(since_ns)


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a format that a name selects: a field, some bits, or only the values that have the name."""

    format: type[Layer]
    field: Field
    bits: BitPart | None = None
    named: str = ""
    """The name that values must go by: an EtherType, or an 802.3 length."""

    def read(self, value: Layer) -> str | None:
        """Return the text of a layer's value; None where it goes by another name, or is empty."""
        got = getattr(value, self.field.key)
        if self.bits is not None:
            return str(self.bits.of(got))
        if self.named:
            return text_of(self.field, got) if self.field.name_for(got) == self.named else None
        if self.field.is_number:
            return text_of(self.field, got)
        # an empty octet string is no value, as in Wireshark
        return text_of(self.field, got) or None


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested name and the parts of formats that it selects: none for a name of the record or frame."""

    name: str
    inner: bool
    """Whether it is of the frame that a message shows."""
    parts: tuple[Part, ...]


class FieldReader:
    """Reads fields by name; SpecError with the nearest name for one that does not exist."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.asked = tuple(_asked(name) for name in names)
        self._of_record = [
            (column, _OF_RECORD[name]) for column, name in enumerate(names) if name in _OF_RECORD
        ]
        self._outer = _FrameFields(self.asked, inner=False)
        self._inner = _FrameFields(self.asked, inner=True)

    def row(self, record: Record) -> list[str]:
        """Return the record's value of each field."""
        cells: list[list[str]] = [[] for _ in self.names]
        for column, read in self._of_record:
            cells[column].append(read(record))
        self._outer.read(record.frame, cells)
        if self._inner:
            inner = encapsulated(record.frame)
            if inner is not None:
                self._inner.read(inner, cells)
        return [",".join(values) for values in cells]


class _FrameFields:
    """The fields wanted of a frame, by the format that has them."""

    def __init__(self, asked: Sequence[Asked], *, inner: bool) -> None:
        self._of_frame: list[tuple[int, Callable[[Frame], str]]] = []
        self._of_layer: dict[type[Layer], list[tuple[int, Callable[[Layer], str | None]]]] = {}
        for column, each in enumerate(asked):
            if each.inner != inner:
                continue
            if each.name in _OF_FRAME:
                self._of_frame.append((column, _OF_FRAME[each.name]))
            for part in each.parts:
                self._of_layer.setdefault(part.format, []).append((column, part.read))

    def __bool__(self) -> bool:
        return bool(self._of_frame or self._of_layer)

    def read(self, frame: Frame, cells: list[list[str]]) -> None:
        for column, of_frame in self._of_frame:
            text = of_frame(frame)
            if text:
                cells[column].append(text)
        wanted = self._of_layer
        for value in frame.layers:
            for column, of_layer in wanted.get(type(value), ()):
                got = of_layer(value)
                if got is not None:
                    cells[column].append(got)


def _asked(name: str) -> Asked:
    if name in _OF_RECORD:
        return Asked(name, False, ())
    inner, of_frame = name.startswith(_INNER), name.removeprefix(_INNER)
    parts = tuple(_parts(of_frame))
    if not parts and of_frame not in _OF_FRAME:
        known = [entry.name for entry in catalogue()] + list(_OF_RECORD)
        raise SpecError(
            where="-e", needed="the name of a field", got=repr(of_frame), hint=_hint(of_frame, known)
        )
    return Asked(of_frame, inner, parts)


def _hint(name: str, known: list[str]) -> str:
    hint = nearest(name, known)
    return hint if hint.startswith("did") else "`ecmproto fields` lists them"


def _parts(name: str) -> Iterator[Part]:
    name = ALIASES.get(name, name)
    for cls in FORMATS:
        for field in cls.layout:
            meta = field.meta
            if name == field.name and not meta.length_name:
                yield Part(cls, field)
            elif name in (field.name, meta.length_name):
                yield Part(cls, field, named=name)
            else:
                yield from (Part(cls, field, bits=part) for part in meta.parts if part.name == name)


class _Rows(Listing):
    """A row a frame."""

    def __init__(self, names: Sequence[str]) -> None:
        self._reader = FieldReader(names)

    def _rendering(self, between: str, *, quoted: bool) -> Renderer:
        from ecmproto.columns.text.renderer import Renderer
        from ecmproto.dissect.data_pieces import row_pieces

        asked = self._reader.asked
        return Renderer(
            lambda path: row_pieces(path, asked, between, quoted=quoted),
            sampled=any(each.inner for each in asked),
            malformed=all(each.name != "frame.error" for each in asked),
        )


class Tabs(_Rows):
    """Rows with tabs between the values, as ``tshark -T fields`` writes them; a header on request."""

    def __init__(self, names: Sequence[str], *, header: bool = False) -> None:
        super().__init__(names)
        self._header = header

    def begin(self, reader: CaptureReader) -> str:
        """Return the header, where one is wanted."""
        return "\t".join(self._reader.names) + "\n" if self._header else ""

    def record(self, record: Record) -> str:
        """Return the frame's row."""
        return "\t".join(self._reader.row(record)) + "\n"

    def renderer(self) -> Renderer:
        """Return the renderer of whole batches."""
        return self._rendering("\t", quoted=False)


class Csv(_Rows):
    """Rows as CSV (RFC 4180 quoting, LF line ends) with a header."""

    def begin(self, reader: CaptureReader) -> str:
        """Return the header."""
        return _csv_row(self._reader.names)

    def record(self, record: Record) -> str:
        """Return the frame's row."""
        return _csv_row(self._reader.row(record))

    def renderer(self) -> Renderer:
        """Return the renderer of whole batches."""
        return self._rendering(",", quoted=True)


def _csv_row(values: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
