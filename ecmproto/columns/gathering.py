"""From shapes to arrays: where the layers of each format stand, and the values of their fields.

A block of frames at a time: their layers first, then every field of each format in a loop of its own, while
the places and the octets are in the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.readers import Memory, read
from ecmproto.columns.shapes import FROM_END
from ecmproto.kernel import inlined, released

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

BLOCK_FRAMES = 512
_RUN_FRAMES = 8
"""From how many frames of one shape in a row on each of its layers has a loop of its own."""

KIND, PLACE, LENGTH, STRIDE, NTH = range(5)
"""A layer of a shape: the number of its kind, its place in the frame and octets (see FROM_END); how many of
its kind the shape has, and the number of this one among them."""

CURSOR, BEFORE, START_TO, BLOCK_START, ROW_TO, LENGTH_TO, FIRST_FIELD, LAST_FIELD = range(8)
"""A kind of layers: how many were gathered, and in front of the block; which places of the outputs the first
one's start, frame and octets go to (UNWANTED: none); its fields.  Starts that nobody wants afterwards are
kept for a block, from BLOCK_START on."""
UNWANTED = -1


class Layers(NamedTuple):
    """What there is to gather."""

    bound: Int64
    """Where the layers of each shape start among all; then where the last one's end."""
    layer: Int64
    kind: Int64
    field: Int64
    """See `ecmproto.columns.readers`."""


class Gathered(NamedTuple):
    """Where it goes."""

    start: Int64
    row: Int32
    octets: Int64
    values: Memory


@released
def gather(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    shape_of: Int32,
    begin: int,
    end: int,
    layers: Layers,
    gathered: Gathered,
) -> None:
    """Gather the layers of frames ``begin`` to ``end``."""
    kind, field = layers.kind, layers.field
    start, values = gathered.start, gathered.values
    kinds = len(kind)
    for first in range(begin, end, BLOCK_FRAMES):
        last = min(first + BLOCK_FRAMES, end)
        for number in range(kinds):
            if kind[number, BLOCK_START] != UNWANTED:
                kind[number, START_TO] = kind[number, BLOCK_START] - kind[number, CURSOR]
            kind[number, BEFORE] = kind[number, CURSOR]
        row = first
        while row < last:
            stop = row + 1
            shape = shape_of[row]
            while stop < last and shape_of[stop] == shape:
                stop += 1
            begin_layer, end_layer = (
                layers.bound[np.uint64(shape)],
                layers.bound[np.uint64(shape) + np.uint64(1)],
            )
            if stop - row < _RUN_FRAMES:
                while row < stop:
                    _place(offset, captured, row, layers, begin_layer, end_layer, gathered)
                    row += 1
            else:
                _place_run(offset, captured, row, stop, layers, begin_layer, end_layer, gathered)
                row = stop
        for number in range(kinds):
            before = kind[number, BEFORE]
            count = kind[number, CURSOR] - before
            for index in range(kind[number, FIRST_FIELD], kind[number, LAST_FIELD]):
                read(buffer, start, before + kind[number, START_TO], count, before, field[index], values)


@inlined
def _place(
    offset: Int64,
    captured: Int64,
    frame: int,
    layers: Layers,
    begin: int,
    end: int,
    gathered: Gathered,
) -> None:
    """Note the layers ``begin`` to ``end`` of a frame."""
    layer, kind = layers.layer, layers.kind
    start, row, octets = gathered.start, gathered.row, gathered.octets
    first, more = offset[np.uint64(frame)], captured[np.uint64(frame)] + FROM_END
    for index in range(begin, end):
        line = np.uint64(index)
        of = np.uint64(layer[line, KIND])
        at = kind[of, CURSOR]
        kind[of, CURSOR] = at + 1
        place = layer[line, PLACE]
        start[np.uint64(kind[of, START_TO] + at)] = first + (place if place >= 0 else place + more)
        if kind[of, ROW_TO] != UNWANTED:
            row[np.uint64(kind[of, ROW_TO] + at)] = frame
        if kind[of, LENGTH_TO] != UNWANTED:
            length = layer[line, LENGTH]
            octets[np.uint64(kind[of, LENGTH_TO] + at)] = length if length >= 0 else length + more


@inlined
def _place_run(
    offset: Int64,
    captured: Int64,
    first: int,
    last: int,
    layers: Layers,
    begin: int,
    end: int,
    gathered: Gathered,
) -> None:
    """Note the layers ``begin`` to ``end`` of frames of one shape."""
    layer, kind = layers.layer, layers.kind
    start, row, octets = gathered.start, gathered.row, gathered.octets
    count = last - first
    for index in range(begin, end):
        number, place, length = layer[index, KIND], layer[index, PLACE], layer[index, LENGTH]
        stride = layer[index, STRIDE]
        at = kind[number, CURSOR] + layer[index, NTH]
        to = kind[number, START_TO] + at
        if place >= 0:
            for i in range(count):
                start[np.uint64(to + i * stride)] = offset[np.uint64(first + i)] + place
        else:
            for i in range(count):
                frame = np.uint64(first + i)
                start[np.uint64(to + i * stride)] = offset[frame] + captured[frame] + place + FROM_END
        if kind[number, ROW_TO] != UNWANTED:
            to = kind[number, ROW_TO] + at
            for i in range(count):
                row[np.uint64(to + i * stride)] = first + i
        if kind[number, LENGTH_TO] != UNWANTED:
            to = kind[number, LENGTH_TO] + at
            for i in range(count):
                more = captured[np.uint64(first + i)] + FROM_END if length < 0 else 0
                octets[np.uint64(to + i * stride)] = length + more
    for index in range(begin, end):
        if layer[index, NTH] == 0:
            kind[layer[index, KIND], CURSOR] += count * layer[index, STRIDE]


@released
def look_up(table: Int32, shape_of: Int32, out: Int32) -> None:
    """Fill ``out`` with what a table says of the shape of each frame."""
    for row in range(len(shape_of)):
        out[row] = table[shape_of[row]]
