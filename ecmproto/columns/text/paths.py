"""Which path each frame of a batch has, and its marks: where its layers start and end.

Both are told of shapes first, of which there are few, or of a shape with that of the frame that a message of
it shows: a layout.  A path's number is the same in all batches of a renderer.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed, signed
from ecmproto.columns.framing import sampled_frames
from ecmproto.columns.gathering import look_up
from ecmproto.columns.layers import LayersFound, find_layers
from ecmproto.columns.shapes import FCS_AT, FIRST_LAYER, FROM_END, LAYERS, TAIL, ZEROS
from ecmproto.columns.text.pieces import Path
from ecmproto.columns.transitions import transitions
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import EtherTypes
from ecmproto.formats.registry import FORMATS
from ecmproto.kernel import released

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

TAILS = 4
"""Marks behind the layers: padding, trailer, FCS, end."""
_FORMATS = len(FORMATS)
_MOST_LAYERS = 10
_BITS = 6
_MANY_LAYERS = -1
_MOST_PATHS = 2048
_SLOTS = 4 * _MOST_PATHS
_DENSE_PAIRS = 1 << 16
UNTOLD = -1
"""Instead of the number of a path: that of a frame with more layers, or of one more path, than are told."""

assert len(FORMATS) < 1 << _BITS, "more formats than a path's key can tell apart"


@released
def _lay_out(shape: Int64, layer: Int64, marks: Int64, stops: Int64, keys: Int64) -> None:
    """Give each shape its marks, places as `ecmproto.columns.shapes` has them, and its key.

    ``stops`` is given where the marks of each end; the key says which layers it has.
    """
    at = 0
    for row in range(len(shape)):
        first = shape[row, FIRST_LAYER]
        key, layers = np.int64(0), 0
        for index in range(first, first + shape[row, LAYERS]):
            if layer[index, 0] < _FORMATS:
                marks[at] = layer[index, 1]
                key = (key << _BITS) | (layer[index, 0] + 1)
                layers += 1
                at += 1
        marks[at] = shape[row, TAIL]
        marks[at + 1] = shape[row, TAIL] + shape[row, ZEROS]
        marks[at + 2] = shape[row, FCS_AT]
        marks[at + 3] = -FROM_END
        at += TAILS
        stops[row] = at
        keys[row] = key if layers <= _MOST_LAYERS else _MANY_LAYERS


@released
def _join(
    outer: Int64,
    inner: Int64,
    outer_marks: Int64,
    outer_stops: Int64,
    inner_marks: Int64,
    inner_stops: Int64,
    shown_at: Int64,
    marks: Int64,
    stops: Int64,
) -> None:
    """Give each pair of shapes its marks: those of the outer one, then those of the one that it shows.

    What is shown starts ``shown_at`` octets behind the last layer's start, and ends with it.
    """
    at = 0
    for pair in range(len(outer)):
        which = outer[pair]
        first = outer_stops[which - 1] if which > 0 else 0
        for index in range(first, outer_stops[which]):
            marks[at] = outer_marks[index]
            at += 1
        start = marks[at - TAILS - 1] + shown_at[pair]
        end = marks[at - TAILS]
        which = inner[pair]
        first = inner_stops[which - 1] if which > 0 else 0
        for index in range(first, inner_stops[which]):
            mark = inner_marks[index]
            marks[at] = start + mark if mark >= 0 else end + (mark + FROM_END)
            at += 1
        stops[pair] = at


@released
def _place(
    layout_of: Int32,
    layouts: Int64,
    stops: Int64,
    offset: Int64,
    captured: Int64,
    marks: Int64,
    mark_at: Int64,
) -> None:
    """Write where the marks of each frame's layout are in the buffer."""
    at = 0
    for row in range(len(layout_of)):
        which = signed(layout_of[row])
        first = stops[which - 1] if which > 0 else 0
        start = offset[row]
        behind = start + captured[row] + FROM_END
        mark_at[row] = at
        for index in range(first, stops[which]):
            mark = layouts[index]
            marks[at] = mark + (start if mark >= 0 else behind)
            at += 1


@released
def _identify(keys: Int64, inner: Int64, known: Int64, slots: Int32, used: int, paths: Int32) -> int:
    """Number the paths; returns how many are known then."""
    mask = len(slots) - 1
    for row in range(len(keys)):
        outside, inside = keys[row], inner[row]
        paths[row] = UNTOLD
        if outside == _MANY_LAYERS or inside == _MANY_LAYERS:
            continue
        mixed = (outside ^ (inside >> 7)) & 0x3FFFFFFFFFFFFFF
        mixed ^= (mixed >> 29) ^ (mixed >> 15)
        slot = mixed & mask
        while slots[slot] != 0:
            entry = slots[slot] - 1
            if known[entry, 0] == outside and known[entry, 1] == inside:
                break
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            if used == len(known):
                continue
            known[used, 0] = outside
            known[used, 1] = inside
            used += 1
            slots[slot] = used
        paths[row] = slots[slot] - 1
    return used


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Marked:
    """The frames of a batch with their paths and marks."""

    found: LayersFound
    paths: Int32
    """The number of each frame's path, or UNTOLD."""
    mark_at: Int64
    """Where each frame's marks start."""
    marks: Int64
    """Places in the buffer, see `Path`."""
    malformed: NDArray[np.bool_]
    """Whether there is an error in a frame."""
    shows_malformed: NDArray[np.bool_]
    """Whether there is one in the frame that it shows."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Layouts:
    """The layouts of frames: marks, one layout's behind the other's, and where those of each end."""

    marks: Int64
    stops: Int64
    outer: Int64
    """The keys that say which layers each has, and which the frame that it shows has (0: none)."""
    inner: Int64
    of: Int32
    """The layout of each frame."""


class PathBook:
    """The paths that frames have had, by number."""

    def __init__(self) -> None:
        self._keys = np.zeros((_MOST_PATHS, 2), np.int64)
        self._slots = np.zeros(_SLOTS, np.int32)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, number: int) -> Path:
        outer, inner = (_formats_of(int(key)) for key in self._keys[number])
        sampled = Path(layers=inner, first=len(outer) + TAILS) if inner else None
        return Path(layers=outer, sampled=sampled)

    def mark(self, found: LayersFound, ethertypes: EtherTypes, *, sampled: bool) -> Marked:
        """Return the paths and marks of frames.

        ``sampled`` tells the frames that messages show, too: the layers that show them must be among the
        entries found.
        """
        frames = found.frames
        malformed = np.zeros(len(frames.offset), np.bool_)
        malformed[found.error_rows] = True
        shows_malformed = np.zeros_like(malformed)
        layouts = _layouts(found)
        rows, shown = sampled_frames(found) if sampled else (_NO_ROWS, None)
        if shown is not None and len(rows):
            inside = find_layers(shown, (), ethertypes, None)
            shows_malformed[rows[inside.error_rows]] = True
            layouts = _paired(layouts, _layouts(inside), rows, ethertypes)
        paths = np.empty(len(layouts.stops), np.int32)
        self._used = _identify(layouts.outer, layouts.inner, self._keys, self._slots, self._used, paths)
        sizes = np.diff(layouts.stops, prepend=0)
        marks = np.empty(int(sizes[layouts.of].sum()), np.int64)
        mark_at = np.empty(len(layouts.of), np.int64)
        _place(layouts.of, layouts.marks, layouts.stops, frames.offset, frames.captured, marks, mark_at)
        path_of = np.empty(len(layouts.of), np.int32)
        look_up(paths, layouts.of, path_of)
        return Marked(
            found=found,
            paths=path_of,
            mark_at=fixed(mark_at),
            marks=fixed(marks),
            malformed=malformed,
            shows_malformed=shows_malformed,
        )


_NO_ROWS = np.empty(0, np.int32)


def _layouts(found: LayersFound) -> _Layouts:
    """Return the shapes of frames as layouts."""
    counts = [len(part.shape) for part in found.parts]
    of = np.empty(len(found.frames.offset), np.int32)
    marks, stops, keys = [], [], []
    first = 0
    for part, add in zip(found.parts, itertools.accumulate(counts, initial=0), strict=False):
        np.add(part.shape_of, add, out=of[part.begin : part.end])
        here = np.empty(len(part.layer) + TAILS * len(part.shape), np.int64)
        ends, names = np.empty(len(part.shape), np.int64), np.empty(len(part.shape), np.int64)
        _lay_out(part.shape, part.layer, here, ends, names)
        used = int(ends[-1]) if len(ends) else 0
        marks.append(here[:used])
        stops.append(ends + first)
        keys.append(names)
        first += used
    outer = np.concatenate(keys)
    return _Layouts(
        marks=np.concatenate(marks),
        stops=np.concatenate(stops),
        outer=outer,
        inner=np.zeros_like(outer),
        of=of,
    )


def _paired(outer: _Layouts, inner: _Layouts, rows: Int32, ethertypes: EtherTypes) -> _Layouts:
    """Return the layouts of frames, of which ``rows`` show frames of others."""
    many = len(inner.stops)
    pairs = outer.of[rows] * np.int64(many) + inner.of
    if len(outer.stops) * many <= _DENSE_PAIRS:
        there = np.flatnonzero(np.bincount(pairs))
        place = np.zeros(len(outer.stops) * many, np.int64)
        place[there] = np.arange(len(there))
        places = place[pairs]
    else:
        there, places = np.unique(pairs, return_inverse=True)
    first, second = there // many, there % many
    sizes = np.diff(outer.stops, prepend=0)[first] + np.diff(inner.stops, prepend=0)[second]
    marks, stops = np.empty(int(sizes.sum()), np.int64), np.empty(len(there), np.int64)
    key = outer.outer[first]
    last = np.where(key == _MANY_LAYERS, 0, (key & (1 << _BITS) - 1) - 1)
    shown_at = transitions(ethertypes).fixed[last]
    _join(first, second, outer.marks, outer.stops, inner.marks, inner.stops, shown_at, marks, stops)
    of = outer.of.copy()
    of[rows] = len(outer.stops) + places
    return _Layouts(
        marks=np.concatenate([outer.marks, marks]),
        stops=np.concatenate([outer.stops, stops + len(outer.marks)]),
        outer=np.concatenate([outer.outer, outer.outer[first]]),
        inner=np.concatenate([outer.inner, inner.outer[second]]),
        of=of,
    )


def _formats_of(key: int) -> tuple[type[Layer], ...]:
    numbers = []
    while key:
        numbers.append((key & (1 << _BITS) - 1) - 1)
        key >>= _BITS
    return tuple(FORMATS[number] for number in reversed(numbers))
