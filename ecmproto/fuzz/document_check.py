"""What is made from a frame: its document gives it back, and its fields have their places without gaps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ecmproto.codec.document import from_document, to_document
from ecmproto.codec.frame import Frame, encode
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.fuzz.difference import Difference
from ecmproto.fuzz.items import frames_of


class DocumentCheck:
    """Goes through JSON, and through every field's span."""

    name = "documents"
    every = 16

    def __init__(self, ethertypes: EtherTypes = DEFAULT) -> None:
        self._ethertypes = ethertypes

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield documents that give other octets, and fields that do not stand one behind the other."""
        for row, (octets, frame) in enumerate(zip(items, frames_of(items, self._ethertypes), strict=True)):
            for what, detail in (*self._lost(octets, frame), *_gaps(frame)):
                yield Difference(what=what, detail=detail, row=row)

    def _lost(self, octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
        document = json.loads(json.dumps(to_document(frame)))
        again, _ = from_document(document, ethertypes=self._ethertypes)
        if encode(again) != octets:
            yield "a document does not give the octets back", f"{encode(again).hex()} for {octets.hex()}"


def _gaps(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield where fields do not follow one another, or do not reach the end of the last layer."""
    at = 0
    for placed in frame.fields():
        if placed.span.bit_start != at:
            yield f"a gap in front of {placed.field.name}", f"bit {at} to {placed.span.bit_start}"
        at = placed.span.bit_stop
    if at != 8 * frame.boundaries()[-1]:
        yield "the fields do not reach the end", f"bit {at} of octet {frame.boundaries()[-1]}"
