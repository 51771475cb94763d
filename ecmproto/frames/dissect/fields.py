"""Selected fields of frames as rows: tab-separated as by Wireshark, or CSV.

If a field occurs several times, its values are comma-separated, outermost first. A missing field is empty.
``encapsulated.NAME`` is a field of the frame quoted by a message. ``inner.NAME`` is a field of the innermost
frame in wrappers, and ``outer.NAME`` is a field of the outermost frame.
"""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Iterable, Iterator, Sequence

from ecmproto.errors import SpecError, did_you_mean
from ecmproto.frames.capture import CaptureReader
from ecmproto.frames.columns.text.pieces import (
    Cell,
    Decimal,
    Hex,
    HexNumber,
    Mark,
    Number,
    Octets,
    OfFrame,
    Path,
    Piece,
    Pieces,
    RecordNumber,
    Seconds,
    Size,
    When,
)
from ecmproto.frames.dissect.form import Listing, Record, plain
from ecmproto.frames.dissect.single import (
    MAX,
    Chain,
    Text,
    View,
    compiled,
    crc_status_piece,
    octets_piece,
    path_of,
)
from ecmproto.frames.filter.fields import Nesting, frames_within, nested
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import Frame, protocols
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.infiniband import BTH, CRC_STATUS, crc_status
from ecmproto.wire.formats.registry import ALIASES, FORMATS, catalogue
from ecmproto.wire.formats.schema import BitPart, Field

_OF_RECORD: dict[str, Piece] = {
    "frame.number": Decimal(RecordNumber.NUMBER),
    "frame.time_epoch": When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.TIME_NS)]),
    "frame.time_relative": When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.SINCE_FIRST_NS)]),
    "frame.time_delta": When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.SINCE_PREVIOUS_NS)]),
    "frame.time_delta_displayed": When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.SINCE_DISPLAYED_NS)]),
    "frame.len": Decimal(RecordNumber.ORIGINAL),
    "frame.cap_len": Decimal(RecordNumber.CAPTURED),
    "frame.interface_id": Decimal(RecordNumber.INTERFACE_ID),
}
_TAILS = {f"eth.{name}": name for name in ("padding", "trailer", "fcs")}
"""Names of `Path`'s spans after the layers."""
_OF_FRAME = frozenset(("frame.protocols", "frame.error", CRC_STATUS, *_TAILS))
_INNER = "encapsulated."


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a format that a name selects: a field, some bits of a field, or some values of a field."""

    format: type[Layer]
    field: Field
    bits: BitPart | None = None
    named: str = ""
    """Name that selects the values: the name of the EtherType, or of the 802.3 length."""


@dataclass(frozen=True, slots=True)
class FieldRequest:
    """A requested name and the parts of formats that it selects.

    A name of the record or the whole frame selects no parts.
    """

    name: str
    inner: bool
    """Whether the name is a field of the quoted frame."""
    nesting: Nesting
    """Frames inside wrappers whose fields are requested."""
    parts: tuple[Part, ...]


class FieldReader:
    """Reader of fields by name; raises SpecError, with the nearest name, for an unknown name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.requests: tuple[FieldRequest, ...] = tuple(_request(name) for name in names)
        self._columns: dict[type[Layer] | None, set[int]] = {}
        """Indices of the requests of each format's fields; None stands for names without a format."""
        for column, each in enumerate(self.requests):
            formats: Iterable[type[Layer] | None] = [part.format for part in each.parts] or [None]
            for cls in formats:
                self._columns.setdefault(cls, set()).add(column)
        self._depth = int(any(each.inner for each in self.requests))
        self._cells = functools.lru_cache(maxsize=1024)(self._compiled)

    def row(self, record: Record) -> list[str]:
        """Return the value of each field of the record."""
        view = View(record)
        row = [""] * len(self.requests)
        for column, text in self._cells(view.locate(self._depth)):
            row[column] = text(view)
        return row

    def _compiled(self, chain: Chain) -> list[tuple[int, Text]]:
        """Return the columns that frames with the given formats may have, each with its text."""
        path = path_of(chain)
        formats = {None, *(cls for layers in chain for cls in layers)}
        columns = {column for cls in formats for column in self._columns.get(cls, ())}
        cells = [(column, list(_cell_values(path, self.requests[column]))) for column in sorted(columns)]
        return [(column, compiled([_cell(values)])) for column, values in cells if values]


def _request(name: str) -> FieldRequest:
    if name in _OF_RECORD:
        return FieldRequest(name, False, "", ())
    nesting, plain = nested(name)
    inner, of_frame = plain.startswith(_INNER) and not nesting, plain.removeprefix(_INNER)
    parts = _parts().get(ALIASES.get(of_frame, of_frame), ())
    if not parts and (nesting or of_frame not in _OF_FRAME):
        names = [entry.name for entry in catalogue()] + list(_OF_RECORD)
        raise SpecError(
            where="-e",
            needed="the name of a field",
            got=repr(of_frame),
            hint=did_you_mean(of_frame, names) or "`ecmproto fields` lists them",
        )
    return FieldRequest(of_frame, inner, nesting, parts)


@functools.cache
def _parts() -> dict[str, tuple[Part, ...]]:
    """Return the parts of formats by the name that selects them."""
    parts: dict[str, tuple[Part, ...]] = {}
    for cls in FORMATS:
        for field in cls.layout:
            meta = field.meta
            if meta.length_name:
                named = [Part(cls, field, named=name) for name in (field.name, meta.length_name)]
            else:
                named = [Part(cls, field)]
            for part in (*named, *(Part(cls, field, bits=bits) for bits in meta.parts)):
                name = part.bits.name if part.bits else part.named or field.name
                parts[name] = (*parts.get(name, ()), part)
    return parts


@dataclass(frozen=True, slots=True)
class _CellValue:
    """A value of a frame, which is present always, or only if a number is in a range."""

    pieces: Pieces
    number: Number | None = None
    low: int = 0
    high: int = 0

    def after(self, *mark: Piece) -> list[Piece]:
        """Return the pieces of the value, preceded by ``mark``.

        If the value is not always present, the pieces are conditional.
        """
        pieces = [*mark, *self.pieces]
        return pieces if self.number is None else [When(self.number, self.low, self.high, pieces)]


def _cell(values: Iterable[_CellValue], *, quoted: bool = False, lone: bool = False) -> Cell:
    """Return a cell with all values of a field, comma-separated."""
    pieces = [piece for value in values for piece in value.after(Mark.COMMA)]
    return Cell(pieces, quoted=quoted, lone=lone)


def row_pieces(path: Path, requests: Sequence[FieldRequest], between: str, *, quoted: bool) -> list[Piece]:
    """Return the pieces of a row; ``quoted`` puts values with commas in quotation marks, as in CSV."""
    pieces: list[Piece] = []
    lone = quoted and len(requests) == 1
    for column, each in enumerate(requests):
        values = list(_cell_values(path, each))
        if column:
            pieces.append(between)
        if len(values) > 1 or lone:
            pieces.append(_cell(values, quoted=quoted, lone=lone))
        else:
            pieces += [piece for value in values for piece in value.after()]
    return [*pieces, "\n"]


def _cell_values(path: Path, request: FieldRequest) -> Iterator[_CellValue]:
    if request.name in _OF_RECORD and not request.inner:
        yield _CellValue([_OF_RECORD[request.name]])
        return
    frame = path.sampled if request.inner else path
    if frame is None:
        return
    if request.name == "frame.protocols":
        yield _CellValue([protocols(frame.layers)])
    elif request.name == "frame.error":
        yield _CellValue([OfFrame(_error, frame.first, in_batches="")])
    elif request.name == CRC_STATUS and any(issubclass(cls, BTH) for cls in frame.layers):
        yield _CellValue([OfFrame(_crc_status, frame.first) if frame.first else crc_status_piece(plain)])
    elif request.name in _TAILS:
        span = getattr(frame, _TAILS[request.name])
        yield _unless_empty(span, Hex(span))
    for layer in range(len(frame.layers))[frames_within(request.nesting, frame.layers)]:
        for part in request.parts:
            if part.format is frame.layers[layer]:
                yield _cell_value(frame, layer, part)


def _error(record: Record, frame: Frame) -> str:
    return "" if frame.error is None else str(frame.error)


def _crc_status(record: Record, frame: Frame) -> str:
    return crc_status(frame) or ""


def _cell_value(frame: Path, layer: int, part: Part) -> _CellValue:
    """Return the value that ``part`` selects in a layer."""
    field = part.field
    if not field.is_number:
        span = frame.span(layer, field.key)
        return _unless_empty(span, octets_piece(field, span))
    if field.kind == "cpid":
        return _CellValue([Hex(frame.span(layer, field.key))])
    number = frame.number(layer, field.key)
    if part.bits is not None:
        drop = number.bits - part.bits.bits - part.bits.low
        return _CellValue([Decimal(frame.number(layer, field.key, drop=drop, bits=part.bits.bits))])
    if part.named and part.named == field.meta.length_name:
        return _CellValue([Decimal(number)], number, 0, MAX_LENGTH)
    text: list[Piece] = [Decimal(number)]
    if field.meta.base == "hex":
        text = ["0x", HexNumber(number, -(-number.bits // 4))]
    return _CellValue(text, number, MAX_LENGTH + 1, MAX) if part.named else _CellValue(text)


def _unless_empty(span: Octets, piece: Piece) -> _CellValue:
    return _CellValue([piece], None if span.octets else Size(span), 1, MAX)


class _Rows(Listing):
    """Base of forms with one row per frame."""

    between = ","
    """Separator of values."""
    quoted = True
    """Whether values with commas are quoted."""

    def __init__(self, names: Sequence[str]) -> None:
        self._reader = FieldReader(names)
        self.sampled: bool = any(each.inner for each in self._reader.requests)
        self.malformed: bool = all(each.name != "frame.error" for each in self._reader.requests)

    def pieces(self, path: Path) -> list[Piece]:
        """Return the pieces of a row for frames with the layers of ``path``."""
        return row_pieces(path, self._reader.requests, self.between, quoted=self.quoted)


class Tabs(_Rows):
    """Rows with tabs between values, as ``tshark -T fields`` writes them; the header is optional."""

    between = "\t"
    quoted = False

    def __init__(self, names: Sequence[str], *, header: bool = False) -> None:
        super().__init__(names)
        self._header = header

    def begin(self, reader: CaptureReader) -> str:
        """Return the header, if requested."""
        return "\t".join(self._reader.names) + "\n" if self._header else ""

    def record(self, record: Record) -> str:
        """Return the row of a frame."""
        return "\t".join(self._reader.row(record)) + "\n"


class Csv(_Rows):
    """Rows as CSV (RFC 4180 quoting, LF line ends) with a header."""

    def begin(self, reader: CaptureReader) -> str:
        """Return the header."""
        return _csv_row(self._reader.names)

    def record(self, record: Record) -> str:
        """Return the row of a frame."""
        return _csv_row(self._reader.row(record))


def _csv_row(values: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
