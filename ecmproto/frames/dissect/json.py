"""Frames as JSON: one document per capture or per line; `ecmproto craft --from-json` reads both.

The whole capture::

    {"schema": "ecmproto/frames/1", "capture": {…}, "frames": [
    {…},
    {…}
    ]}

``capture`` contains the data that are needed to write the file again:

``format``            ``pcap`` or ``pcapng``
``byte_order``        ``little`` or ``big``
``ticks_per_second``  in pcap, 1000000 or 1000000000; in pcapng, the ticks of the first interface
``header``            pcap only: the 24 octets of the file header in hex (version, snaplen, link type word)
``interfaces``        a list of objects: ``index`` ``linktype`` ``linktype_name`` ``snaplen``
                      ``ticks_per_second`` ``offset_s`` ``fcs_octets`` and, in pcapng, ``section`` ``name``
                      ``description`` ``options`` (a list of [code, hex])

Interfaces that are described after the first frame follow the frames as ``later_interfaces``.

Each frame is an object on a separate line:

``number``            the frame number, from 1
``time_ns``           integer ns since 1970; null if the capture has no time for the frame
``captured_octets``   the number of captured octets
``original_octets``   the length on the wire
``interface``         an index into ``interfaces``
``linktype``          the link type, if it is not Ethernet, followed by ``linktype_name``
``comments``          the comments of the record, if any
``icrc``              "bad" if the invariant CRC of a RoCE packet is incorrect

The remaining members are the members of `ecmproto.wire.codec.document.to_document`: ``layers`` ``padding``
``trailer`` ``fcs`` ``cut`` ``error`` ``encapsulated``.

A frame of another link type has one ``data`` layer. Its member ``decoded`` contains the decoded headers. Like
``encapsulated``, ``decoded`` contains only information that the octets contain too.

In the other form, every line is such an object, and its first member is ``"schema": "ecmproto/frame/1"``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from ecmproto.errors import DecodeError
from ecmproto.frames.capture import Batch, CaptureReader, Interface, linktype_name
from ecmproto.frames.columns.text.pieces import (
    Decimal,
    Hex,
    Mark,
    OfFrame,
    Path,
    Piece,
    Power,
    RecordNumber,
    Size,
    When,
    Word,
)
from ecmproto.frames.dissect.form import Listing, Record
from ecmproto.frames.dissect.single import (
    MAX,
    Chain,
    Text,
    View,
    compiled,
    if_crc_is_bad,
    if_suspicious,
    octets_piece,
    path_of,
    where_ethernet,
)
from ecmproto.units import RATE_INFINITY
from ecmproto.wire.codec.document import Json as Document
from ecmproto.wire.codec.document import derived_names, error_document, is_rate, json_text, scale_of
from ecmproto.wire.codec.frame import SUSPICIOUS, Frame
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ecm import ECM, CMTag, timestamp_ns
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.infiniband import BAD
from ecmproto.wire.formats.schema import Field

FRAMES_SCHEMA = "ecmproto/frames/1"
FRAME_SCHEMA = "ecmproto/frame/1"

RECORD_KEYS = frozenset(
    (
        "schema", "number", "time_ns", "captured_octets", "original_octets", "interface", "linktype",
        "linktype_name", "comments", "decoded", "icrc",
    )
)  # fmt: skip
"""Keys of a frame's document, except the keys in `ecmproto.wire.codec.document.frame_keys`."""

_Object: TypeAlias = dict[str, Document]


def _error_text(wrong: DecodeError) -> str:
    return json_text(error_document(wrong))


class _Documents(Listing):
    """Base of forms with one document per frame, between ``head`` and ``tail``."""

    commented = True
    wrong = staticmethod(_error_text)

    def __init__(self, head: str, tail: str) -> None:
        self._head, self._tail = head, tail
        self._texts = functools.lru_cache(maxsize=1024)(self._compiled)

    def record(self, record: Record) -> str:
        """Return the document of the frame."""
        view = View(record)
        return self._texts(view.locate())(view)

    def pieces(self, path: Path) -> list[Piece]:
        """Return the pieces of the documents of frames with the layers of ``path``."""
        return [self._head, *_frame(path), self._tail]

    def _compiled(self, chain: Chain) -> Text:
        return compiled(self.pieces(path_of(chain)), _error_text)


class Json(_Documents):
    """Form with one document for the whole capture, written frame by frame."""

    def __init__(self) -> None:
        super().__init__(",\n{", "}")
        self._begun = False
        self._interfaces = 0

    def begin(self, reader: CaptureReader) -> str:
        """Return the start of the document, before the first frame."""
        self._interfaces = len(reader.interfaces)
        capture = json_text(capture_document(reader))
        return f'{{"schema": "{FRAMES_SCHEMA}", "capture": {capture}, "frames": ['

    def record(self, record: Record) -> str:
        """Return one frame on a separate line; a comma precedes every frame except the first."""
        begun, self._begun = self._begun, True
        return self.among_others(record)[not begun :]

    def among_others(self, record: Record) -> str:
        """Return one frame, preceded by a comma and a line feed."""
        return super().record(record)

    def texts(self, batch: Batch, *arguments: Any, **options: Any) -> Iterator[bytes | memoryview]:
        """Return the text of the frames of a batch; see `Listing.texts`."""
        return self._separated(super().texts(batch, *arguments, **options))

    def _separated(self, texts: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for text in texts:
            # no comma before the capture's first frame
            yield text if self._begun else text[1:]
            self._begun = True

    def end(self, reader: CaptureReader) -> str:
        """Return the end of the document, after the last frame."""
        later = [
            interface_document(interface, reader.format)
            for interface in reader.interfaces[self._interfaces :]
        ]
        more = f', "later_interfaces": {json_text(later)}' if later else ""
        return f"\n]{more}}}\n"


class NdJson(_Documents):
    """Form with one document per frame and one frame per line."""

    def __init__(self) -> None:
        super().__init__(f'{{"schema": "{FRAME_SCHEMA}", ', "}\n")


def capture_document(reader: CaptureReader) -> _Object:
    """Return the properties of the capture as plain data; see the docstring of this module."""
    document: _Object = {
        "format": reader.format,
        "byte_order": reader.byte_order,
        "ticks_per_second": reader.resolution,
    }
    if reader.header is not None:
        document["header"] = reader.header.octets.hex()
    document["interfaces"] = [interface_document(each, reader.format) for each in reader.interfaces]
    return document


def interface_document(interface: Interface, format: str) -> _Object:
    """Return an interface of the capture as plain data."""
    document: _Object = {
        "index": interface.index,
        "linktype": interface.linktype,
        "linktype_name": interface.linktype_name,
        "snaplen": interface.snaplen,
        "ticks_per_second": interface.ticks_per_second,
        "offset_s": interface.offset_s,
        "fcs_octets": interface.fcs_octets,
    }
    if format == "pcapng":
        document["section"] = interface.section
        document["name"] = interface.name
        document["description"] = interface.description
        document["options"] = [[code, value.hex()] for code, value in interface.options]
    return document


def record_document(record: Record) -> _Object:
    """Return a frame of a capture as plain data; see the docstring of this module."""
    document: _Object = json.loads(_DOCUMENT.record(record))
    return document


_DOCUMENT = _Documents("{", "}")


def _frame(path: Path) -> Iterator[Piece]:
    yield from ('"number": ', Decimal(RecordNumber.NUMBER), ', "time_ns": ')
    yield When(RecordNumber.TIMED, 1, 1, [Decimal(RecordNumber.TIME_NS)], ["null"])
    yield from (', "captured_octets": ', Decimal(RecordNumber.CAPTURED))
    yield from (', "original_octets": ', Decimal(RecordNumber.ORIGINAL))
    yield from (', "interface": ', Decimal(RecordNumber.INTERFACE), OfFrame(_comments, in_batches=""), ", ")
    crc = if_crc_is_bad(path, [f', "icrc": "{BAD}"'])
    yield from where_ethernet(path, [*_document(path), *crc], _other(path))


def _comments(record: Record, frame: Frame) -> str:
    return f', "comments": {json_text(record.comments)}' if record.comments else ""


def _other(path: Path) -> list[Piece]:
    """Return the JSON members for a frame of a link type other than Ethernet."""
    decoded: list[Piece] = []
    if path.layers and path.layers[0] is not Data:
        decoded = [', "decoded": {', *_document(path), "}"]
    return [
        '"linktype": ', Decimal(RecordNumber.LINKTYPE), ', "linktype_name": ',
        Word(_linktype_text, (RecordNumber.LINKTYPE,)), ', "layers": [{"layer": "data", "data.data": "',
        Hex(path.whole), '"}]', _CUT, *decoded,
    ]  # fmt: skip


def _linktype_text(number: int) -> str:
    return json_text(linktype_name(number))


_CUT = When(RecordNumber.CUT, 1, MAX, [', "cut": ', Decimal(RecordNumber.CUT)])
_ERROR = When(RecordNumber.ERROR, 1, MAX, [', "error": ', Mark.ERROR])


def _document(path: Path) -> list[Piece]:
    """Return the members of the JSON object that `to_document` returns."""
    pieces: list[Piece] = []
    end: list[Piece] = []
    shown: Path | None = path
    while shown is not None:
        path, shown = shown, shown.sampled
        pieces += _members(path)
        if shown is not None:
            pieces.append(', "encapsulated": {')
            end = [*if_suspicious(path, shown, f', "suspicious": {json.dumps(SUSPICIOUS)}'), "}", *end]
    return pieces + end


def _members(path: Path) -> Iterator[Piece]:
    """Yield the members, except the quoted frame."""
    yield '"layers": ['
    for layer, cls in enumerate(path.layers):
        yield ", {" if layer else "{"
        yield from _layer(cls, path.first + layer)  # type: ignore[arg-type]  # classes hash
        yield "}"
    yield "]"
    for key, span in (("padding", path.padding), ("trailer", path.trailer), ("fcs", path.fcs)):
        yield When(Size(span), 1, MAX, [f', "{key}": "', Hex(span), '"'])
    if path.first == 0:  # the original length of a quoted frame is unknown
        yield from (_CUT, _ERROR)
    else:
        yield OfFrame(_shown_error, path.first, in_batches="")


def _shown_error(record: Record, shown: Frame) -> str:
    return "" if shown.error is None else f', "error": {_error_text(shown.error)}'


@functools.lru_cache(maxsize=512)
def _layer(cls: type[Layer], boundary: int) -> tuple[Piece, ...]:
    """Return the members of the JSON object for a layer that starts at a boundary."""
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
    """Return the value of a field as `ecmproto.wire.formats.text.json_of` writes it."""
    if field.kind in ("uint", "sint"):
        return [Decimal(path.number(0, field.key))]
    return ['"', octets_piece(field, path.span(0, field.key)), '"']


def _derived(path: Path, cls: type[Layer], field: Field) -> Piece:
    """Return the value of a field as `ecmproto.wire.codec.document.scaled` writes it."""
    number = path.number(0, field.key)
    if issubclass(cls, ECM | CMTag) and field.key == "timestamp":
        return Decimal(Power(number, path.number(0, "unit"), timestamp_ns(1, 0)))
    value = Decimal(number, times=scale_of(field))
    return When(number, RATE_INFINITY, RATE_INFINITY, ["null"], [value]) if is_rate(field) else value
