"""What a row of chosen fields is made of: `ecmproto.dissect.fields` as pieces of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ecmproto.dissect.fields import Asked, Part
from ecmproto.dissect.json_pieces import octets_piece
from ecmproto.filter.reading import protocols
from ecmproto.table.text import (
    Cell,
    Decimal,
    Hex,
    HexNumber,
    Mark,
    Path,
    Piece,
    RecordNumber,
    Seconds,
    Size,
    Stretch,
    When,
)
from ecmproto.wire.ethertypes import MAX_LENGTH

_MOST = (1 << 62) - 1
_OF_RECORD: dict[str, Piece] = {
    "frame.number": Decimal(RecordNumber.NUMBER),
    "frame.time_epoch": When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.TIME_NS)]),
    "frame.len": Decimal(RecordNumber.ORIGINAL),
    "frame.cap_len": Decimal(RecordNumber.CAPTURED),
    "frame.interface_id": Decimal(RecordNumber.INTERFACE_ID),
}


def row_pieces(path: Path, asked: Sequence[Asked], between: str, *, quoted: bool) -> list[Piece]:
    """Return the pieces of a row; ``quoted`` as in CSV."""
    pieces: list[Piece] = []
    for column, each in enumerate(asked):
        values = list(_values(path, each))
        if column:
            pieces.append(between)
        pieces.append(Cell(values, quoted=quoted, lone=quoted and len(asked) == 1))
    return [*pieces, "\n"]


def _values(path: Path, asked: Asked) -> Iterator[Piece]:
    if asked.name in _OF_RECORD and not asked.inner:
        yield _OF_RECORD[asked.name]
        return
    frame = path.sampled if asked.inner else path
    if frame is None:
        return
    whole = {"eth.padding": frame.padding, "eth.trailer": frame.trailer, "eth.fcs": frame.fcs}
    if asked.name == "frame.protocols":
        yield protocols(frame)  # type: ignore[arg-type]  # it asks for the layers alone
    elif asked.name in whole:
        yield _unless_empty(whole[asked.name], Hex(whole[asked.name]))
    for layer, cls in enumerate(frame.layers):
        for part in asked.parts:
            if part.format is cls:
                yield from _value(frame, layer, part)


def _value(frame: Path, layer: int, part: Part) -> Iterator[Piece]:
    """Yield what `Part.read` gives, behind a comma where it is not the first."""
    field = part.field
    if not field.is_number:
        stretch = frame.stretch(layer, field.key)
        yield _unless_empty(stretch, octets_piece(field, stretch))
        return
    if field.kind == "cpid":
        yield from (Mark.COMMA, Hex(frame.stretch(layer, field.key)))
        return
    number = frame.number(layer, field.key)
    if part.bit is not None:
        bit = frame.number(layer, field.key, drop=number.bits - 1 - part.bit, bits=1)
        yield from (Mark.COMMA, Decimal(bit))
        return
    text: list[Piece] = [Mark.COMMA, Decimal(number)]
    if part.named and part.named == field.meta.length_name:
        yield When(number, 0, MAX_LENGTH, text)
        return
    if field.meta.base == "hex":
        text = [Mark.COMMA, "0x", HexNumber(number, -(-number.bits // 4))]
    yield from [When(number, 0, MAX_LENGTH, [], text)] if part.named else text


def _unless_empty(stretch: Stretch, piece: Piece) -> Piece:
    return When(Size(stretch), 1, _MOST, [Mark.COMMA, piece])
