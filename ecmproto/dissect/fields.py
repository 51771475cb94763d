"""Chosen fields of frames as rows: tab-separated with Wireshark's semantics, or CSV.

A field that a frame has several times gives its values comma-separated, outermost first; one that it does
not have gives nothing.  ``encapsulated.NAME`` is the field of the frame that a message shows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from ecmproto.capture import CaptureReader
from ecmproto.dissect.form import Listing, seconds_text
from ecmproto.dissect.record import Record
from ecmproto.errors import SpecError
from ecmproto.filter.reading import protocols
from ecmproto.wire.catalogue import catalogue
from ecmproto.wire.decoder import encapsulated
from ecmproto.wire.document import nearest
from ecmproto.wire.formats import FORMATS
from ecmproto.wire.frame import Frame
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field
from ecmproto.wire.text import text_of

_OF_RECORD: dict[str, Callable[[Record], str]] = {
    "frame.number": lambda record: str(record.number),
    "frame.time_epoch": lambda record: "" if record.time_ns is None else seconds_text(record.time_ns),
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
}
_INNER = "encapsulated."

_Reader = Callable[[Layer], str | None]
"""Reads one field of a layer as text; None where the layer's value goes by another name."""


class FieldReader:
    """Reads fields by name; SpecError with the nearest name for one that does not exist."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._of_record: list[tuple[int, Callable[[Record], str]]] = []
        self._outer = _FrameFields()
        self._inner = _FrameFields()
        for column, name in enumerate(names):
            if name in _OF_RECORD:
                self._of_record.append((column, _OF_RECORD[name]))
            elif name.startswith(_INNER):
                self._inner.add(name.removeprefix(_INNER), column)
            else:
                self._outer.add(name, column)

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

    def __init__(self) -> None:
        self._of_frame: list[tuple[int, Callable[[Frame], str]]] = []
        self._of_layer: dict[type[Layer], list[tuple[int, _Reader]]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_frame or self._of_layer)

    def add(self, name: str, column: int) -> None:
        if name in _OF_FRAME:
            self._of_frame.append((column, _OF_FRAME[name]))
            return
        found = list(_readers(name))
        if not found:
            known = [entry.name for entry in catalogue()] + list(_OF_RECORD)
            raise SpecError(where="-e", needed="the name of a field", got=repr(name), hint=_hint(name, known))
        for cls, read in found:
            self._of_layer.setdefault(cls, []).append((column, read))

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


def _hint(name: str, known: list[str]) -> str:
    hint = nearest(name, known)
    return hint if hint.startswith("did") else "`ecmproto fields` lists them"


def _readers(name: str) -> Iterator[tuple[type[Layer], _Reader]]:
    for cls in FORMATS:
        for field in cls.layout:
            meta = field.meta
            if name == field.name and not meta.length_name:
                yield cls, _value(field)
            elif name in (field.name, meta.length_name):
                yield cls, _named(field, name)
            elif meta.flags:
                for bit in range(8):
                    if name == meta.flags.format(bit):
                        yield cls, _flag(field, bit)


def _value(field: Field) -> _Reader:
    key = field.key
    if field.kind in ("uint", "sint") and field.meta.base == "dec":
        return lambda value: str(getattr(value, key))
    # an empty octet string is no value, as in Wireshark
    return lambda value: text_of(field, getattr(value, key)) or None


def _named(field: Field, name: str) -> _Reader:
    """Read a field that goes by two names: an EtherType, or an 802.3 length."""

    def read(value: Layer) -> str | None:
        got = getattr(value, field.key)
        return text_of(field, got) if field.name_for(got) == name else None

    return read


def _flag(field: Field, bit: int) -> _Reader:
    return lambda value: str(getattr(value, field.key) >> bit & 1)


class Tabs(Listing):
    """Rows with tabs between the values, as ``tshark -T fields`` writes them; a header on request."""

    def __init__(self, names: Sequence[str], *, header: bool = False) -> None:
        self._reader = FieldReader(names)
        self._header = header

    def begin(self, reader: CaptureReader) -> str:
        """Return the header, where one is wanted."""
        return "\t".join(self._reader.names) + "\n" if self._header else ""

    def record(self, record: Record) -> str:
        """Return the frame's row."""
        return "\t".join(self._reader.row(record)) + "\n"


class Csv(Listing):
    """Rows as CSV (RFC 4180 quoting, LF line ends) with a header."""

    def __init__(self, names: Sequence[str]) -> None:
        self._reader = FieldReader(names)

    def begin(self, reader: CaptureReader) -> str:
        """Return the header."""
        return _csv_row(self._reader.names)

    def record(self, record: Record) -> str:
        """Return the frame's row."""
        return _csv_row(self._reader.row(record))


def _csv_row(values: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
