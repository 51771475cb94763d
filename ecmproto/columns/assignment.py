"""Which shape each frame of a batch has: that of one before it, or a new one from a walk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import signed
from ecmproto.columns.shapes import (
    FRAMES,
    NO_SHAPE,
    Shapes,
    find,
    hashed,
    hashed_with_lengths,
    learn,
    variant,
)
from ecmproto.columns.transitions import Transitions
from ecmproto.columns.walk import NO_NODE, Errors, Frames, Paths, walk
from ecmproto.kernel import released


@released
def assign(
    frames: Frames,
    begin: int,
    end: int,
    tables: Transitions,
    errors: Errors,
    paths: Paths,
    shapes: Shapes,
    shape_of: NDArray[np.int32],
) -> int:
    """Give frames ``begin`` to ``end`` their shapes; returns the first for which there was no more room."""
    buffer, offset, lengths, originals = frames.buffer, frames.offset, frames.captured, frames.original
    firsts, fcs, padded, shape = frames.first, frames.fcs, frames.padded, shapes.shape
    for row in range(begin, end):
        at = np.uint64(row)
        start, captured, original = offset[at], lengths[at], originals[at]
        first = signed(firsts[at])
        link = (first << 8 | signed(fcs[at])) << 1 | int(padded[at])
        place = hashed(tables, buffer, start, captured, link, first)
        number = NO_SHAPE
        if place != NO_SHAPE:
            number = find(shapes, place, buffer, start, captured, original, link)
            if number == NO_SHAPE:
                again = hashed_with_lengths(place, captured, original)
                number = find(shapes, again, buffer, start, captured, original, link)
        if number == NO_SHAPE:
            told = errors.used[0]
            found = walk(frames, row, tables, errors, paths, shapes)
            if found.node != NO_NODE:
                number = learn(shapes, place, found, tables, buffer, start, captured, original, link)
            if number == NO_SHAPE:
                errors.used[0] = told
                return row
        number = variant(shapes, number, buffer, start)
        shape[np.uint64(number), FRAMES] += 1
        shape_of[at] = number
    return end
