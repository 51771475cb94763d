"""What the one-frame decoder promises of any octets.

`decode_lax` never raises; `decode` raises `DecodeError` alone, and for malformed frames alone; the frame of
both encodes to the same octets; its fields follow one another without gaps; its document gives it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ecmproto.errors import DecodeError
from ecmproto.fuzz.difference import Difference
from ecmproto.wire import decoder
from ecmproto.wire.document import from_document, to_document
from ecmproto.wire.encoder import encode
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.frame import Frame


class SchemaCheck:
    """Decodes, encodes, and goes through a document."""

    name = "schema"
    every = 1

    def __init__(self, ethertypes: EtherTypes = DEFAULT) -> None:
        self._ethertypes = ethertypes

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the promises that are broken."""
        for row, octets in enumerate(items):
            for what, detail in self._broken(octets):
                yield Difference(what=what, detail=detail, row=row)

    def _broken(self, octets: bytes) -> Iterator[tuple[str, str]]:
        frame = decoder.decode_lax(octets, ethertypes=self._ethertypes)
        yield from self._strictly(octets, frame)
        if encode(frame) != octets:
            yield "octets do not come back", f"{encode(frame).hex()} for {octets.hex()}"
        yield from _gaps(octets, frame)
        document = json.loads(json.dumps(to_document(frame)))
        again, _ = from_document(document, ethertypes=self._ethertypes)
        if encode(again) != octets:
            yield "a document does not give the octets back", f"{encode(again).hex()} for {octets.hex()}"

    def _strictly(self, octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
        try:
            strict = decoder.decode(octets, ethertypes=self._ethertypes)
        except DecodeError as error:
            if frame.error != error:
                yield "the strict decoder refuses something else", f"{error}; laxly {frame.error}"
            return
        if frame.error is not None:
            yield "the strict decoder takes what is malformed", str(frame.error)
        elif strict != frame:
            yield "strictly and laxly decoded frames differ", f"{strict}; laxly {frame}"


def _gaps(octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield where fields do not follow one another, or do not cover the frame."""
    at = 0
    for placed in frame.fields():
        if placed.span.bit_start != at:
            yield f"a gap in front of {placed.field.name}", f"bit {at} to {placed.span.bit_start}"
        at = placed.span.bit_stop
    end = len(octets) - len(frame.padding + frame.trailer + frame.fcs)
    if at != 8 * end or frame.boundaries()[-1] != end:
        yield "the layers do not cover the frame", f"{at} bits, {frame.boundaries()[-1]} octets of {end}"
