"""Frames as JSON: one document a capture, or one document a line; `ecmproto craft --from-json` reads both.

The whole capture::

    {"schema": "ecmproto/frames/1", "capture": {…}, "frames": [
    {…},
    {…}
    ]}

``capture`` says what it takes to write the file again:

``format``            ``pcap`` or ``pcapng``
``byte_order``        ``little`` or ``big``
``ticks_per_second``  of its times: 1000000 or 1000000000 in pcap, the first interface's in pcapng
``header``            pcap only: the 24 octets of the file header in hex (version, snaplen, link type word)
``interfaces``        a list of objects: ``index`` ``linktype`` ``linktype_name`` ``snaplen``
                      ``ticks_per_second`` ``offset_s`` ``fcs_octets`` and, of pcapng, ``section`` ``name``
                      ``description`` ``options`` (a list of [code, hex])

Interfaces that are described behind the first frame follow the frames as ``later_interfaces``.

Each frame is an object on a line of its own:

``number``            from 1
``time_ns``           integer ns since 1970; null where the capture has no time for it
``captured_octets``, ``original_octets``, ``interface`` (an index)
``linktype``          where it is not Ethernet, with ``linktype_name``
``comments``          where the record has some
``icrc``              "bad" where the invariant CRC of a RoCE packet does not hold
and what `ecmproto.codec.document.to_document` gives: ``layers`` ``padding`` ``trailer`` ``fcs`` ``cut``
``error`` ``encapsulated``.

A frame of another link type is one ``data`` layer; ``decoded`` beside it holds what can be said of it and,
like ``encapsulated``, says nothing that the octets do not say.

In the other form every line is such a frame with ``"schema": "ecmproto/frame/1"`` in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture import Batch, CaptureReader, Interface, linktype_name
from ecmproto.codec.document import Json as Document
from ecmproto.codec.document import json_text, to_document
from ecmproto.codec.frame import Frame
from ecmproto.dissect.form import Listing, Record, commented
from ecmproto.formats.ethernet import Data
from ecmproto.formats.infiniband import BAD, crc_is_bad

if TYPE_CHECKING:
    from ecmproto.columns.text.pieces import Path, Piece
    from ecmproto.columns.text.renderer import Renderer

FRAMES_SCHEMA = "ecmproto/frames/1"
FRAME_SCHEMA = "ecmproto/frame/1"

RECORD_KEYS = frozenset(
    (
        "schema", "number", "time_ns", "captured_octets", "original_octets", "interface", "linktype",
        "linktype_name", "comments", "decoded", "icrc",
    )
)  # fmt: skip
"""The keys a frame's document has beside those of `ecmproto.codec.document.frame_keys`."""

_Object: TypeAlias = dict[str, Document]


class _Documents(Listing):
    """A document a frame."""

    commented = True

    def odd(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_]:
        """Return which frames have a comment."""
        return commented(batch)

    def _rendering(self, head: str, tail: str) -> Renderer:
        from ecmproto.columns.text.renderer import Renderer
        from ecmproto.dissect.data_pieces import error_text, frame_pieces

        def pieces(path: Path) -> list[Piece] | None:
            frame = frame_pieces(path, head)
            return None if frame is None else [*frame, tail]

        return Renderer(pieces, sampled=True, malformed=True, wrong=error_text)


class Json(_Documents):
    """One document for the whole capture, written frame by frame."""

    def __init__(self) -> None:
        self._begun = False
        self._interfaces = 0

    def begin(self, reader: CaptureReader) -> str:
        """Return the document up to its first frame."""
        self._interfaces = len(reader.interfaces)
        capture = json_text(capture_document(reader))
        return f'{{"schema": "{FRAMES_SCHEMA}", "capture": {capture}, "frames": ['

    def record(self, record: Record) -> str:
        """Return one frame on a line of its own."""
        comma = "," if self._begun else ""
        self._begun = True
        return comma + self.among_others(record)[1:]

    def among_others(self, record: Record) -> str:
        """Return one frame behind another: a comma and a new line stand in front of it."""
        return f",\n{json_text(record_document(record))}"

    def texts(self, batch: Batch, *arguments: Any, **options: Any) -> Iterator[bytes | memoryview]:
        """Return the text of a batch's frames; see `Listing.texts`."""
        return self._told(super().texts(batch, *arguments, **options))

    def _told(self, texts: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for text in texts:
            # no comma in front of the capture's first frame
            yield text if self._begun else text[1:]
            self._begun = True

    def renderer(self) -> Renderer:
        """Return the renderer of whole batches."""
        return self._rendering(",\n{", "")

    def end(self, reader: CaptureReader) -> str:
        """Return the end of the document, after its last frame."""
        later = [
            interface_document(interface, reader.format)
            for interface in reader.interfaces[self._interfaces :]
        ]
        more = f', "later_interfaces": {json_text(later)}' if later else ""
        return f"\n]{more}}}\n"


class NdJson(_Documents):
    """One document a frame, one a line."""

    def record(self, record: Record) -> str:
        """Return the frame's line."""
        document: _Object = {"schema": FRAME_SCHEMA, **record_document(record)}
        return json_text(document) + "\n"

    def renderer(self) -> Renderer:
        """Return the renderer of whole batches."""
        return self._rendering(f'{{"schema": {json_text(FRAME_SCHEMA)}, ', "\n")


def capture_document(reader: CaptureReader) -> _Object:
    """Return the capture's own properties as plain data; see the head of this file."""
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
    """Return a frame of a capture as plain data; see the head of this file."""
    document: _Object = {
        "number": record.number,
        "time_ns": record.time_ns,
        "captured_octets": len(record.octets),
        "original_octets": record.original_octets,
        "interface": record.interface,
    }
    if record.comments:
        document["comments"] = list(record.comments)
    if record.is_ethernet:
        document |= to_document(record.frame)
        return document | {"icrc": BAD} if crc_is_bad(record.frame) else document
    document["linktype"] = record.linktype
    document["linktype_name"] = linktype_name(record.linktype)
    whole = Frame(layers=(Data(data=record.octets),), cut=record.frame.cut)
    document |= to_document(whole)
    if record.frame.layers and not isinstance(record.frame.layers[0], Data):
        document["decoded"] = to_document(record.frame)
    return document
