"""A range of a batch's frames and the shapes that they have."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.frame import Frame, decode_lax
from ecmproto.columns.assignment import assign
from ecmproto.columns.shapes import (
    BEHIND,
    FCS_AT,
    FIRST_LAYER,
    FRAMES,
    LAST,
    LAYERS,
    NODE,
    TAIL,
    ZEROS,
    no_shapes,
    roomier,
)
from ecmproto.columns.transitions import NUMBER_OF, transitions
from ecmproto.columns.walk import NO_LAYER, NO_NODE, SLOW, Errors, Frames, Paths, step
from ecmproto.formats.ethertypes import EtherTypes
from ecmproto.formats.registry import FORMATS

_SPARE = 1024
_ERROR_NUMBERS = 5


def decoded_frame(frames: Frames, ethertypes: EtherTypes, row: int) -> Frame:
    """Return a frame as the one-frame decoder has it."""
    start = int(frames.offset[row])
    frame = decode_lax(
        frames.buffer[start : start + int(frames.captured[row])].tobytes(),
        original_octets=int(frames.original[row]),
        fcs_octets=int(frames.fcs[row]),
        ethertypes=ethertypes,
        first=FORMATS[int(frames.first[row])],
    )
    if frames.padded[row]:
        return frame
    return dataclasses.replace(frame, padding=b"", trailer=frame.padding + frame.trailer)


class Part:
    """The frames ``begin`` to ``end`` of those of a batch."""

    def __init__(
        self, frames: Frames, begin: int, end: int, shape_of: NDArray[np.int32], ethertypes: EtherTypes
    ) -> None:
        self.begin, self.end = begin, end
        self.all_shapes, self.shape_of = shape_of, shape_of[begin:end]
        self.shapes = no_shapes()
        self.paths = Paths(np.ones(1, np.int64), np.zeros((_SPARE, len(FORMATS)), np.int32))
        self.errors = Errors(
            used=np.zeros(1, np.int64),
            row=np.empty(end - begin, np.int64),
            what=np.empty((end - begin, _ERROR_NUMBERS), np.int64),
        )
        self.decoded: dict[int, Frame] = {}
        """The frames that the walk could not tell."""
        self._frames, self._ethertypes = frames, ethertypes

    def find(self) -> None:
        """Find the shapes of the frames, with more room as often as it takes."""
        at = self.begin
        tables = transitions(self._ethertypes)
        while True:
            at = assign(
                self._frames, at, self.end, tables, self.errors, self.paths, self.shapes, self.all_shapes
            )
            if at == self.end:
                break
            self._grow()
        slow = np.flatnonzero(self.shape[self.shape_of, LAST] == SLOW)
        for row in slow.tolist():
            self._give_own(self.begin + row)

    @property
    def shape(self) -> NDArray[np.int64]:
        """The numbers of each shape; see `ecmproto.columns.shapes`."""
        return self.shapes.shape[: self.shapes.used[0]]

    @property
    def layer(self) -> NDArray[np.int64]:
        """The layers of all shapes, one shape's behind the other's."""
        return self.shapes.layer[: self.shapes.used[2]]

    def _grow(self) -> None:
        self.shapes = roomier(self.shapes)
        nodes = self.paths.next
        longer = np.zeros((2 * len(nodes), nodes.shape[1]), np.int32)
        longer[: len(nodes)] = nodes
        self.paths = self.paths._replace(next=longer)

    def decode(self, row: int) -> Frame:
        """Return a frame as the one-frame decoder has it."""
        return decoded_frame(self._frames, self._ethertypes, row)

    def _give_own(self, row: int) -> None:
        """Give a frame a shape of its own: what the one-frame decoder finds."""
        frame = self.decoded[row] = self.decode(row)
        numbers = [NUMBER_OF[type(value)] for value in frame.layers]
        bounds = frame.boundaries()
        behind = (frame.padding, frame.trailer, frame.fcs)
        stops = list(itertools.accumulate(map(len, behind), initial=bounds[-1]))
        layers = [*zip(numbers, itertools.pairwise(bounds), strict=True)]
        layers += [
            place
            for place in zip(BEHIND, itertools.pairwise(stops), strict=True)
            if place[1][0] < place[1][1]
        ]
        first, number = len(self.layer), len(self.shape)
        while first + len(layers) > len(self.shapes.layer) or number == len(self.shapes.shape):
            self._grow()
        while (node := self._node(numbers)) == NO_NODE:
            self._grow()
        rows = [(kind, start, stop - start) for kind, (start, stop) in layers]
        self.shapes.layer[first : first + len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
        shape = self.shapes.shape[number]
        shape[:] = 0
        shape[[FIRST_LAYER, LAYERS, TAIL, FCS_AT]] = first, len(rows), bounds[-1], stops[-2]
        shape[[ZEROS, LAST, NODE]] = len(frame.padding), numbers[-1] if numbers else NO_LAYER, node
        self.shapes.used[:] += (1, 0, len(rows))
        self.shape[self.all_shapes[row], FRAMES] -= 1
        shape[FRAMES] = 1
        self.all_shapes[row] = number

    def _node(self, numbers: list[int]) -> int:
        run = transitions(self._ethertypes).run
        node, last = 0, NO_LAYER
        for number in numbers:
            if not run[number] or last != number:
                node = step(self.paths, node, number)
            last = number
        return int(node)
