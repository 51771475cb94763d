"""What a row of chosen fields is made of: `ecmproto.dissect.fields` as pieces of text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ecmproto.columns.text.pieces import (
    Cell,
    Decimal,
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
    When,
)
from ecmproto.dissect.fields import Asked, Part
from ecmproto.dissect.json_pieces import octets_piece
from ecmproto.filter.evaluation import protocols
from ecmproto.formats.ethertypes import MAX_LENGTH

_MOST = (1 << 62) - 1
_OF_RECORD: dict[str, Piece] = {
    "frame.number": Decimal(RecordNumber.NUMBER),
    "frame.time_epoch": When(RecordNumber.TIMED, 1, 1, [Seconds(RecordNumber.TIME_NS)]),
    "frame.len": Decimal(RecordNumber.ORIGINAL),
    "frame.cap_len": Decimal(RecordNumber.CAPTURED),
    "frame.interface_id": Decimal(RecordNumber.INTERFACE_ID),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Value:
    """A value that a frame has: always, or where a number is in a range."""

    pieces: Pieces
    number: Number | None = None
    low: int = 0
    high: int = 0

    def behind(self, *mark: Piece) -> list[Piece]:
        """Return what is written of it, behind a mark."""
        pieces = [*mark, *self.pieces]
        return pieces if self.number is None else [When(self.number, self.low, self.high, pieces)]


def row_pieces(path: Path, asked: Sequence[Asked], between: str, *, quoted: bool) -> list[Piece]:
    """Return the pieces of a row; ``quoted`` as in CSV."""
    pieces: list[Piece] = []
    lone = quoted and len(asked) == 1
    for column, each in enumerate(asked):
        values = list(_values(path, each))
        if column:
            pieces.append(between)
        if len(values) > 1 or lone:
            listed = [piece for value in values for piece in value.behind(Mark.COMMA)]
            pieces.append(Cell(listed, quoted=quoted, lone=lone))
        else:
            pieces += [piece for value in values for piece in value.behind()]
    return [*pieces, "\n"]


def _values(path: Path, asked: Asked) -> Iterator[_Value]:
    if asked.name in _OF_RECORD and not asked.inner:
        yield _Value([_OF_RECORD[asked.name]])
        return
    frame = path.sampled if asked.inner else path
    if frame is None:
        return
    whole = {"eth.padding": frame.padding, "eth.trailer": frame.trailer, "eth.fcs": frame.fcs}
    if asked.name == "frame.protocols":
        yield _Value([protocols(frame)])  # type: ignore[arg-type]  # it asks for the layers alone
    elif asked.name in whole:
        yield _unless_empty(whole[asked.name], Hex(whole[asked.name]))
    for layer, cls in enumerate(frame.layers):
        for part in asked.parts:
            if part.format is cls:
                yield _value(frame, layer, part)


def _value(frame: Path, layer: int, part: Part) -> _Value:
    """Return what `Part.read` gives."""
    field = part.field
    if not field.is_number:
        stretch = frame.stretch(layer, field.key)
        return _unless_empty(stretch, octets_piece(field, stretch))
    if field.kind == "cpid":
        return _Value([Hex(frame.stretch(layer, field.key))])
    number = frame.number(layer, field.key)
    if part.bit is not None:
        return _Value([Decimal(frame.number(layer, field.key, drop=number.bits - 1 - part.bit, bits=1))])
    if part.named and part.named == field.meta.length_name:
        return _Value([Decimal(number)], number, 0, MAX_LENGTH)
    text: list[Piece] = [Decimal(number)]
    if field.meta.base == "hex":
        text = ["0x", HexNumber(number, -(-number.bits // 4))]
    return _Value(text, number, MAX_LENGTH + 1, _MOST) if part.named else _Value(text)


def _unless_empty(stretch: Stretch, piece: Piece) -> _Value:
    return _Value([piece], None if stretch.octets else Size(stretch), 1, _MOST)
