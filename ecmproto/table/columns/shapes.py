"""Frames that are walked over like one before them: as long, from a like link, alike in what decides.

Where the layers of a frame stand depends on its length and on few of its octets: EtherTypes, selectors,
counts, what formats refuse.  A shape is what the walk found of a frame with the values of those words; one
that has the same ones is given the same layers, at a fraction of the work.  Captures are full of such
frames.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.table.columns.threads import uncounted
from ecmproto.table.columns.transitions import DECISIVE, Transitions
from ecmproto.table.headers import two_octets

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

SHAPES = 64
NO_SHAPE = -1
_MOST_LAYERS, _MOST_WORDS = 12, 24
_LEAST_OCTETS = 22
_FREE = -1


class Shapes(NamedTuple):
    """The shapes known, a row each; a shape takes the place of another where their hashes are the same."""

    captured: Int64
    """_FREE where there is none."""
    original: Int64
    link: Int64
    """With what such frames start, the FCS they have, whether they are padded."""
    words: Int64
    """How many words decide."""
    word: Int64
    """Place in the frame, mask and value of each word, one behind the other."""
    layers: Int64
    """How many layers there are; of the last frame walked over, in the row behind the last shape."""
    layer: Int64
    """Number, place and octets of each layer, one behind the other."""
    found: Int64
    """Where the layers end, the last one's number, and its node among the paths."""


def no_shapes() -> Shapes:
    """Return room for shapes, none known."""
    rows = SHAPES + 1
    return Shapes(
        captured=np.full(rows, _FREE, np.int64),
        original=np.zeros(rows, np.int64),
        link=np.zeros(rows, np.int64),
        words=np.zeros(rows, np.int64),
        word=np.zeros((rows, 3 * _MOST_WORDS), np.int64),
        layers=np.zeros(rows, np.int64),
        layer=np.zeros((rows, 3 * _MOST_LAYERS), np.int64),
        found=np.zeros((rows, 3), np.int64),
    )


@uncounted
def slot_of(buffer: Octets, start: int, captured: int) -> int:
    """Return where the shape of such a frame would stand; NO_SHAPE for one too short to have any."""
    if captured < _LEAST_OCTETS:
        return NO_SHAPE
    mixed = two_octets(buffer, start + 12) * 31 + two_octets(buffer, start + 16) * 7
    mixed += two_octets(buffer, start + 20) * 3 + captured
    return (mixed ^ (mixed >> 6) ^ (mixed >> 12)) & (SHAPES - 1)


@uncounted
def fits(
    shapes: Shapes, slot: int, buffer: Octets, start: int, captured: int, original: int, link: int
) -> bool:
    """Whether a frame has the shape at ``slot``."""
    if shapes.captured[slot] != captured or shapes.original[slot] != original or shapes.link[slot] != link:
        return False
    for at in range(0, 3 * shapes.words[slot], 3):
        word = two_octets(buffer, start + shapes.word[slot, at])
        if word & shapes.word[slot, at + 1] != shapes.word[slot, at + 2]:
            return False
    return True


@uncounted
def trace(shapes: Shapes, index: int, layer: int, at: int, octets: int) -> None:
    """Note layer ``index`` of the frame that is being walked over."""
    if index < _MOST_LAYERS:
        shapes.layer[SHAPES, 3 * index] = layer
        shapes.layer[SHAPES, 3 * index + 1] = at
        shapes.layer[SHAPES, 3 * index + 2] = octets


@uncounted
def learn(
    shapes: Shapes,
    slot: int,
    layers: int,
    tables: Transitions,
    buffer: Octets,
    start: int,
) -> bool:
    """Make what was traced of a frame the shape at ``slot``; returns whether there is room for it."""
    shapes.captured[slot] = _FREE
    if layers > _MOST_LAYERS:
        return False
    words = 0
    for index in range(layers):
        layer = shapes.layer[SHAPES, 3 * index]
        at = shapes.layer[SHAPES, 3 * index + 1]
        shapes.layer[slot, 3 * index] = layer
        shapes.layer[slot, 3 * index + 1] = at
        shapes.layer[slot, 3 * index + 2] = shapes.layer[SHAPES, 3 * index + 2]
        for row in range(layer * DECISIVE, (layer + 1) * DECISIVE):
            mask = tables.decisive[row, 1]
            if mask == 0:
                break
            if words == _MOST_WORDS:
                return False
            place = at + tables.decisive[row, 0]
            shapes.word[slot, 3 * words] = place
            shapes.word[slot, 3 * words + 1] = mask
            shapes.word[slot, 3 * words + 2] = two_octets(buffer, start + place) & mask
            words += 1
    shapes.words[slot] = words
    shapes.layers[slot] = layers
    return True
