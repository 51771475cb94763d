"""The batch forms of JSON and of rows of fields, as pieces of text that kernels render.

For frames with the same layers (a `Path`) the text that `ecmproto.dissect.json` and
`ecmproto.dissect.fields` give of one frame is taken apart into constant text and values.  This module loads
numba, so that the forms import it for large captures alone.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence

from ecmproto.capture import linktype_name
from ecmproto.capture.batch import ETHERNET
from ecmproto.codec.document import derived_names, error_document, json_text, scaled
from ecmproto.codec.frame import SUSPICIOUS
from ecmproto.columns.layers import SHOWN_AS
from ecmproto.columns.text.pieces import (
    Cell,
    Decimal,
    Dotted,
    Hex,
    HexNumber,
    Mark,
    Number,
    Path,
    Piece,
    Pieces,
    RecordNumber,
    Seconds,
    Size,
    Stretch,
    Sum,
    When,
    Word,
)
from ecmproto.dissect.fields import Asked, Part
from ecmproto.errors import DecodeError
from ecmproto.filter.evaluation import protocols
from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import Data, Ethernet, ITag
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.infiniband import BTH, CRC_STATUS
from ecmproto.formats.schema import Field
from ecmproto.formats.text import address_text
from ecmproto.values import dataclass

MOST = (1 << 62) - 1


def frame_pieces(path: Path, head: str) -> list[Piece] | None:
    """Return the pieces of a frame's document; ``head`` is what stands in front of its number.

    None where the frame that a message shows is such a message itself, which may go on.
    """
    if path.sampled is not None and path.sampled.layers[-1] in SHOWN_AS:
        return None
    if path.layers and path.layers[0] is Ethernet:
        body: list[Piece] = [*_document(path)]
    elif path.layers and path.layers[0] is not Data:
        body = [*_other(path)]
    else:  # of whatever link type, the octets are too few or of no format known
        body = [When(RecordNumber.LINKTYPE, ETHERNET, ETHERNET, [*_document(path)], [*_other(path)])]
    return [
        f'{head}"number": ',
        Decimal(RecordNumber.NUMBER),
        ', "time_ns": ',
        When(RecordNumber.TIMED, 1, 1, [Decimal(RecordNumber.TIME_NS)], ["null"]),
        ', "captured_octets": ',
        Decimal(RecordNumber.CAPTURED),
        ', "original_octets": ',
        Decimal(RecordNumber.ORIGINAL),
        ', "interface": ',
        Decimal(RecordNumber.INTERFACE),
        ", ",
        *body,
        "}",
    ]


def _other(path: Path) -> Iterator[Piece]:
    """Yield the pieces for a frame of a link type other than Ethernet."""
    yield from ('"linktype": ', Decimal(RecordNumber.LINKTYPE), ', "linktype_name": ')
    yield from (
        Word(_linktype_text, (RecordNumber.LINKTYPE,)),
        ', "layers": [{"layer": "data", "data.data": "',
    )
    yield from (Hex(path.whole), '"}]', _CUT)
    if path.layers and path.layers[0] is not Data:
        yield from (', "decoded": {', *_document(path), "}")


def _linktype_text(number: int) -> str:
    return json_text(linktype_name(number))


_CUT = When(RecordNumber.CUT, 1, MOST, [', "cut": ', Decimal(RecordNumber.CUT)])
_ERROR = When(RecordNumber.ERROR, 1, MOST, [', "error": ', Mark.ERROR])


def error_text(wrong: DecodeError) -> str:
    """Return a decoding error as JSON."""
    return json_text(error_document(wrong))


def _document(path: Path) -> Iterator[Piece]:
    """Yield the members of the JSON object of `to_document`."""
    yield '"layers": ['
    for layer, cls in enumerate(path.layers):
        yield ", {" if layer else "{"
        yield from _layer(cls, path.first + layer)  # type: ignore[arg-type]  # classes hash
        yield "}"
    yield "]"
    for key, stretch in (("padding", path.padding), ("trailer", path.trailer), ("fcs", path.fcs)):
        yield When(Size(stretch), 1, MOST, [f', "{key}": "', Hex(stretch), '"'])
    if path.first == 0:  # how much a message leaves out of the frame that it shows is not known
        yield from (_CUT, _ERROR)
    if path.sampled is not None:
        yield ', "encapsulated": {'
        yield from _document(path.sampled)
        yield from if_suspicious(path, path.sampled, f', "suspicious": {json.dumps(SUSPICIOUS)}')
        yield "}"


def if_suspicious(path: Path, sampled: Path, *pieces: Piece) -> Iterator[Piece]:
    """Yield pieces for where a sampled frame is from another than whom the message is for."""
    headers = [index for index, cls in enumerate(path.layers) if cls in (Ethernet, ITag)]
    if not headers or sampled.layers[:1] != (Ethernet,):
        return
    key = "cdst" if path.layers[headers[-1]] is ITag else "dst"
    source, addressee = sampled.stretch(0, "src"), path.stretch(headers[-1], key)
    yield When(Sum(source.as_number(), addressee.as_number(), times=-1), 0, 0, [], pieces)


@functools.lru_cache(maxsize=512)
def _layer(cls: type[Layer], boundary: int) -> tuple[Piece, ...]:
    """Return the members of the JSON object of a layer that starts at a boundary."""
    path = Path(layers=(cls,), first=boundary)
    pieces: list[Piece] = [f'"layer": {json.dumps(cls.prefix)}']
    for field, derived in zip(cls.layout, derived_names(cls), strict=True):  # type: ignore[arg-type]
        pieces += [", ", *_json_name(path, field), *_json_value(path, field)]
        if derived:
            pieces += [f", {json.dumps(derived)}: ", _derived(path, cls, field)]
    return tuple(pieces)


def _json_name(path: Path, field: Field) -> list[Piece]:
    name, other = (f"{json.dumps(each)}: " for each in (field.name, field.meta.length_name))
    if field.meta.length_name:
        return [When(path.number(0, field.key), 0, MAX_LENGTH, [other], [name])]
    return [name]


def _json_value(path: Path, field: Field) -> list[Piece]:
    """Return a field's value as `ecmproto.formats.text.json_of` has it."""
    if field.kind in ("uint", "sint"):
        return [Decimal(path.number(0, field.key))]
    return ['"', octets_piece(field, path.stretch(0, field.key)), '"']


def octets_piece(field: Field, stretch: Stretch) -> Piece:
    """Return the piece for a value that is not a number: an address, a CPID, octets."""
    if field.kind == "mac":
        return Hex(stretch, separator=":")
    if field.kind == "ipv4":
        return Dotted(stretch)
    return Word(address_text, (stretch,)) if field.kind == "ipv6" else Hex(stretch)


def _derived(path: Path, cls: type[Layer], field: Field) -> Piece:
    """Return a field's value in the unit of its derived entry."""
    number = path.number(0, field.key)
    if field.key == "timestamp":
        return Word(_scaled_time(cls), (number, path.number(0, "unit")))  # type: ignore[arg-type]
    one, most = (_scaled(cls, field, value) for value in (1, field.maximum))
    assert one is not None, f"{field.name}: 1 is no number in its unit"
    assert _scaled(cls, field, 3) == 3 * one, f"{field.name}: not in proportion"
    value = Decimal(number, times=one)
    if most is None:
        return When(number, field.maximum, field.maximum, ["null"], [value])
    return value


def _scaled(cls: type[Layer], field: Field, value: int) -> int | None:
    make: Callable[..., Layer] = cls
    return scaled(make(**{field.key: value}), field)


@functools.cache
def _scaled_time(cls: type[Layer]) -> Callable[[int, int], str]:
    """Return the function that writes a format's timestamp in ns; one for all paths."""
    make: Callable[..., Layer] = cls
    field = next(field for field in cls.layout if field.key == "timestamp")
    return lambda timestamp, unit: str(scaled(make(timestamp=timestamp, unit=unit), field))


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


@dataclass(frozen=True, slots=True)
class _CellValue:
    """A value that a frame has: always, or where a number is in a range."""

    pieces: Pieces
    number: Number | None = None
    low: int = 0
    high: int = 0

    def behind(self, *mark: Piece) -> list[Piece]:
        """Return the cell's pieces after a separator, for frames whose value has the cell's name."""
        pieces = [*mark, *self.pieces]
        return pieces if self.number is None else [When(self.number, self.low, self.high, pieces)]


def row_pieces(path: Path, asked: Sequence[Asked], between: str, *, quoted: bool) -> list[Piece] | None:
    """Return the pieces of a row, ``quoted`` as in CSV; None where no program can tell what is asked."""
    told = [path.sampled if each.inner else path for each in asked if each.name == CRC_STATUS]
    if any(frame is not None and _has_packet(frame.layers) for frame in told):
        return None
    pieces: list[Piece] = []
    lone = quoted and len(asked) == 1
    for column, each in enumerate(asked):
        values = list(_cell_values(path, each))
        if column:
            pieces.append(between)
        if len(values) > 1 or lone:
            listed = [piece for value in values for piece in value.behind(Mark.COMMA)]
            pieces.append(Cell(listed, quoted=quoted, lone=lone))
        else:
            pieces += [piece for value in values for piece in value.behind()]
    return [*pieces, "\n"]


def _has_packet(formats: Sequence[type[Layer]]) -> bool:
    return any(issubclass(cls, BTH) for cls in formats)


def _cell_values(path: Path, asked: Asked) -> Iterator[_CellValue]:
    if asked.name in _OF_RECORD and not asked.inner:
        yield _CellValue([_OF_RECORD[asked.name]])
        return
    frame = path.sampled if asked.inner else path
    if frame is None:
        return
    whole = {"eth.padding": frame.padding, "eth.trailer": frame.trailer, "eth.fcs": frame.fcs}
    if asked.name == "frame.protocols":
        yield _CellValue([protocols(frame)])  # type: ignore[arg-type]  # it asks for the layers alone
    elif asked.name in whole:
        yield _unless_empty(whole[asked.name], Hex(whole[asked.name]))
    for layer, cls in enumerate(frame.layers):
        for part in asked.parts:
            if part.format is cls:
                yield _cell_value(frame, layer, part)


def _cell_value(frame: Path, layer: int, part: Part) -> _CellValue:
    """Return the pieces that write the text that `Part.read` returns."""
    field = part.field
    if not field.is_number:
        stretch = frame.stretch(layer, field.key)
        return _unless_empty(stretch, octets_piece(field, stretch))
    if field.kind == "cpid":
        return _CellValue([Hex(frame.stretch(layer, field.key))])
    number = frame.number(layer, field.key)
    if part.bits is not None:
        drop = number.bits - part.bits.bits - part.bits.low
        return _CellValue([Decimal(frame.number(layer, field.key, drop=drop, bits=part.bits.bits))])
    if part.named and part.named == field.meta.length_name:
        return _CellValue([Decimal(number)], number, 0, MAX_LENGTH)
    text: list[Piece] = [Decimal(number)]
    if field.meta.base == "hex":
        text = ["0x", HexNumber(number, -(-number.bits // 4))]
    return _CellValue(text, number, MAX_LENGTH + 1, MOST) if part.named else _CellValue(text)


def _unless_empty(stretch: Stretch, piece: Piece) -> _CellValue:
    return _CellValue([piece], None if stretch.octets else Size(stretch), 1, MOST)
