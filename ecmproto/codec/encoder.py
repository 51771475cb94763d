"""From a `Frame` to octets, exactly as it says, or with its computed fields put right on request."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from ecmproto.codec.frame import MIN_OCTETS, Frame
from ecmproto.formats.layer import Layer
from ecmproto.formats.registry import dispatch


def encode(frame: Frame, fix: bool = False) -> bytes:
    """Return the frame's octets.

    Every field is written as it stands; nothing is repaired silently.  With ``fix``, types, lengths and
    header checksums are first computed and the frame padded to 60 octets.  EncodeError for a value out
    of its field's range.
    """
    if fix:
        frame = fixed(frame)
    return b"".join([value.build() for value in frame.layers]) + frame.padding + frame.trailer + frame.fcs


def fixed(frame: Frame, given: Sequence[Collection[str]] = ()) -> Frame:
    """Return the frame with its type, length and checksum fields computed and padded to 60 octets.

    ``given[i]`` names the fields of layer i that stay as they are.
    """
    formats = dispatch(frame.ethertypes)
    layers: list[Layer] = []
    rest = b""
    following: Layer | None = None
    for index in reversed(range(len(frame.layers))):
        value = frame.layers[index]
        keep = given[index] if index < len(given) else ()
        computed = value.computed(rest, following, formats)
        changes = {key: number for key, number in computed.items() if key not in keep}
        if changes:
            value = value.replace(**changes)
        layers.insert(0, value)
        rest = value.build() + rest
        following = value
    short = max(0, MIN_OCTETS - len(rest) - len(frame.trailer))
    padding = frame.padding if len(frame.padding) >= short else bytes(short)
    return dataclasses.replace(frame, layers=tuple(layers), padding=padding, error=None)
