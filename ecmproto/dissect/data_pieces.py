"""The batch form of JSON, as pieces of text that kernels render.

For frames with the same layers (a `Path`) the text that `ecmproto.dissect.json` gives of one frame is taken
apart into constant text and values.  This module loads numba, so that the form imports it for large captures
alone.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator

from ecmproto.capture import linktype_name
from ecmproto.capture.batch import ETHERNET
from ecmproto.codec.document import derived_names, error_document, json_text, scaled
from ecmproto.codec.frame import SUSPICIOUS
from ecmproto.columns.layers import SHOWN_AS
from ecmproto.columns.text.pieces import (
    Decimal,
    Hex,
    Mark,
    Path,
    Piece,
    RecordNumber,
    Size,
    Sum,
    When,
    Word,
)
from ecmproto.dissect.single import MOST, octets_piece
from ecmproto.errors import DecodeError
from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import Data, Ethernet, ITag
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.schema import Field


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
