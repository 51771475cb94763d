"""Frames in which one field has a boundary value and all else is as it is by default.

They are few and nothing else is drawn in them, and Hypothesis draws nothing twice: within a hundred examples
most have come up, within some two hundred all, and then the other frames have the examples to themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ecmproto.errors import EcmprotoError
from ecmproto.fuzz.strategies.assembly import frame_of
from ecmproto.fuzz.strategies.selection import possible_cpid
from ecmproto.wire.decoder import decode
from ecmproto.wire.encoder import encode
from ecmproto.wire.frame import Frame
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field

_ORDINARY_OF = 8
"""Of so many examples one is drawn like any other from the start."""


def edges_first(
    headers: tuple[Layer, ...], formats: Sequence[Layer], ordinary: SearchStrategy[Frame], fcs_octets: int
) -> SearchStrategy[Frame]:
    """Return ``ordinary`` frames, and among them those of each format with one field at each boundary.

    ``formats`` are layers with values of their own for what has no valid default.
    """
    frames = [frame for layer in formats for frame in _edges(headers, layer, fcs_octets)]
    # one choice for all, so that each frame is one example; the simplest of all is one by default
    defaults = [frame for layer in formats for frame in _valid([*headers, layer], fcs_octets)]
    among: list[Frame | None] = [None] * (len(frames) // (_ORDINARY_OF - 1) + 1)
    return st.sampled_from([*defaults, *among, *frames]).flatmap(
        functools.lru_cache(maxsize=None)(lambda frame: ordinary if frame is None else st.just(frame))
    )


def _edges(headers: tuple[Layer, ...], layer: Layer, fcs_octets: int) -> Iterator[Frame]:
    for field in layer.layout:
        if field.count is None:
            for value in _values(field, layer):
                if value != getattr(layer, field.key):
                    yield from _valid([*headers, layer.replace(**{field.key: value})], fcs_octets)


def _values(field: Field, layer: Layer) -> Iterable[Any]:
    assert field.bits is not None
    if field.key == "cpid" and getattr(layer, "has_cpid", False):
        return possible_cpid(field.minimum), possible_cpid(field.maximum)
    if field.is_number:
        return field.minimum, field.maximum
    return bytes(field.bits // 8), b"\xff" * (field.bits // 8)


def _valid(layers: list[Layer], fcs_octets: int) -> Iterator[Frame]:
    """Yield the frame of these layers, if a decoder reads it as that."""
    try:
        frame = frame_of(layers, fcs_octets=fcs_octets)
        if decode(encode(frame), fcs_octets=fcs_octets) == frame:
            yield frame
    except EcmprotoError:
        return
