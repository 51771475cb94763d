"""Frames whose fields have boundary values, so few and so full of them that a hundred examples show them all.

A frame of these has about every field at one end of its range: four of a stack of layers show both ends of
each, in changing company, and in two of the four versions and reserved bits are as they should be, since a
receiver may ignore the others.  Hypothesis draws nothing twice, so that these frames come early and then
leave the examples to others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.codec.frame import Frame, decode, encode
from ecmproto.errors import EcmprotoError
from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import Ethernet
from ecmproto.formats.schema import Field
from ecmproto.fuzz.strategies.assembly import frame_of
from ecmproto.fuzz.strategies.selection import SELECTING, possible_cpid

_ROWS = 4
_ORDINARY = 3
"""Of choices that are no frame of boundary values, so many lead to one drawn like any other."""
_CHECKED = ("version", "reserved")
"""What a receiver may ignore a frame for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A field of a stack, and how far from its default it goes."""

    layer: int
    field: Field
    low: int
    high: int

    def put(self, layers: list[Layer], distance: int) -> None:
        """Set the field so far from its default; octets that far by exclusive or."""
        layer, key = layers[self.layer], self.field.key
        default = getattr(layer, key)
        if isinstance(default, bytes):
            value: int | bytes = (int.from_bytes(default) ^ distance).to_bytes(len(default))
        elif key == "cpid" and getattr(layer, "has_cpid", False):
            value = possible_cpid(default + distance)
        else:
            value = default + distance
        layers[self.layer] = layer.replace(**{key: value})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """Layers with values of their own for what has no valid default, and the fields that may be others."""

    layers: tuple[Layer, ...]
    places: tuple[_Place, ...]

    def with_distances(self, distances: Sequence[int]) -> list[Layer]:
        layers = list(self.layers)
        for place, distance in zip(self.places, distances, strict=True):
            place.put(layers, distance)
        return layers


def edges_first(
    stacks: Sequence[Sequence[Layer]], ordinary: SearchStrategy[Frame], fcs_octets: int
) -> SearchStrategy[Frame]:
    """Return ``ordinary`` frames, and among them those of each stack with its fields at their boundaries."""
    return _frames([_stack(layers) for layers in stacks], ordinary, fcs_octets)


def _stack(layers: Sequence[Layer]) -> _Stack:
    """Return a stack with those fields whose ends are valid by themselves."""
    places = tuple(place for place in _places(layers) if _either_end(layers, place))
    return _Stack(layers=tuple(layers), places=places)


def _places(layers: Sequence[Layer]) -> Iterator[_Place]:
    for index, layer in enumerate(layers):
        if isinstance(layer, Ethernet):
            continue
        counting = {field.count.key for field in layer.layout if field.count is not None}
        for field in layer.layout:
            if field.bits is None or field.count is not None or field.key in counting:
                continue
            if field.key == layer.next_key or field.key in SELECTING:
                continue
            low, high = 0, (1 << field.bits) - 1
            if field.is_number:
                default = getattr(layer, field.key)
                low, high = field.minimum - default, field.maximum - default
            yield _Place(layer=index, field=field, low=low, high=high)


def _either_end(layers: Sequence[Layer], place: _Place) -> bool:
    for distance in (place.low, place.high):
        changed = list(layers)
        place.put(changed, distance)
        if _valid(changed, 0) is None:
            return False
    return True


def _row(stack: _Stack, number: int) -> list[int]:
    """Return how far each field is from its default in the frame ``number`` of a stack."""
    ends = []
    for index, place in enumerate(stack.places):
        # from the third on in other company: neighbours that had different ends have the same one
        high = (index >> (number >> 1)) + number & 1
        if place.field.key.rstrip("0123456789").endswith(_CHECKED):
            ends.append(place.high if number >= 2 else 0)
        else:
            ends.append(place.high if high else place.low)
    return ends


@st.composite
def _frames(
    draw: DrawFn, stacks: Sequence[_Stack], ordinary: SearchStrategy[Frame], fcs_octets: int
) -> Frame:
    # one choice for all, so that each frame of boundary values is one example; of another kind than the draws
    # of values, since Hypothesis tries the values of one draw in others of its kind
    choice = draw(st.sampled_from(range(len(stacks) * _ROWS + 1)))
    if not choice:
        if draw(st.integers(0, _ORDINARY)):
            return draw(ordinary)
        stack = stacks[draw(st.integers(0, len(stacks) - 1))]
        distances = [draw(st.integers(place.low, place.high)) for place in stack.places]
    else:
        # drawn too, from one value each: with 0 for the first choice this is the same frame, and shrinks
        which, number = divmod(choice - 1, _ROWS)
        draw(st.integers(0, 0))
        stack = stacks[draw(st.integers(which, which))]
        distances = [draw(st.integers(value, value)) for value in _row(stack, number)]
    frame = _valid(stack.with_distances(distances), fcs_octets)
    return reject() if frame is None else frame


def _valid(layers: list[Layer], fcs_octets: int) -> Frame | None:
    """Return the frame of these layers, if a decoder reads it as that."""
    try:
        frame = frame_of(layers, fcs_octets=fcs_octets)
        return frame if decode(encode(frame), fcs_octets=fcs_octets) == frame else None
    except EcmprotoError:
        return None
