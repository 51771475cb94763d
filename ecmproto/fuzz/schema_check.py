"""What the one-frame decoder promises of any octets.

`decode_lax` never raises; `decode` raises `DecodeError` alone, and for malformed frames alone; the frame of
both encodes to the same octets; its layers, and the fields in them, follow one another without gaps.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from ecmproto import codec
from ecmproto.codec.frame import Frame, encode
from ecmproto.errors import DecodeError
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.fuzz.difference import Difference
from ecmproto.fuzz.items import frames_of


class SchemaCheck:
    """Decodes laxly and strictly, encodes, and counts octets."""

    name = "schema"
    every = 1

    def __init__(self, ethertypes: EtherTypes = DEFAULT) -> None:
        self._ethertypes = ethertypes

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the promises that are broken."""
        for row, (octets, frame) in enumerate(zip(items, frames_of(items, self._ethertypes), strict=True)):
            for what, detail in self._broken(octets, frame):
                yield Difference(what=what, detail=detail, row=row)

    def _broken(self, octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
        yield from self._strictly(octets, frame)
        if encode(frame) != octets:
            yield "octets do not come back", f"{encode(frame).hex()} for {octets.hex()}"
        yield from _gaps(octets, frame)

    def _strictly(self, octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
        try:
            strict = codec.decode(octets, ethertypes=self._ethertypes)
        except DecodeError as error:
            if frame.error != error:
                yield "the strict decoder refuses something else", f"{error}; laxly {frame.error}"
            return
        if frame.error is not None:
            yield "the strict decoder takes what is malformed", str(frame.error)
        elif strict != frame:
            yield "strictly and laxly decoded frames differ", f"{strict}; laxly {frame}"


def _gaps(octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield where layers do not follow one another, or do not cover the frame."""
    at = 0
    bounds = frame.boundaries()
    for layer, start in zip(frame.layers, bounds, strict=False):
        if start != at:
            yield f"a gap in front of {layer.prefix}", f"octet {at} to {start}"
        fixed_octets, tail = _extent(type(layer))  # type: ignore[arg-type]  # classes hash
        at = start + fixed_octets + (len(getattr(layer, tail)) if tail else 0)
    end = len(octets) - len(frame.padding) - len(frame.trailer) - len(frame.fcs)
    if at != end or bounds[-1] != end or len(bounds) != len(frame.layers) + 1:
        yield "the layers do not cover the frame", f"{at} octets, ends at {bounds[-1]} of {end}"


@functools.cache
def _extent(cls: type[Layer]) -> tuple[int, str]:
    """Return the octets that a format's fields take, and the key of the last one where its length varies.

    AssertionError where its fields leave gaps.
    """
    bits = 0
    for field in cls.layout:
        assert field.bit_offset == bits, f"a gap in front of {field.name}"
        bits += field.bits or 0
    last = cls.layout[-1]
    return bits // 8, "" if last.bits is not None else last.key
