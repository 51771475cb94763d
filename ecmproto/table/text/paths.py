"""Which path each frame of a batch has, and its marks: where its layers start and end.

A path's number is the same in all batches of a renderer.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import released
from ecmproto.table.columns.framing import sampled_frames
from ecmproto.table.columns.layers import LayersFound, find_layers
from ecmproto.table.headers import fixed
from ecmproto.table.text.pieces import Path
from ecmproto.wire.ethertypes import EtherTypes
from ecmproto.wire.formats import FORMATS
from ecmproto.wire.layer import Layer

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

TAILS = 4
"""Marks behind the layers: padding, trailer, FCS, end."""
_MOST_LAYERS = 12
_BITS = 5
_MANY_LAYERS = -1
_MOST_PATHS = 2048
_SLOTS = 4 * _MOST_PATHS
UNTOLD = -1
"""Instead of the number of a path: that of a frame with more layers, or of one more path, than are told."""

assert len(FORMATS) < 1 << _BITS, "more formats than a path's key can tell apart"


@released
def _place(
    row: Int32,
    start: Int64,
    number: int,
    first: Int64,
    count: Int32,
    marks: Int64,
    kinds: NDArray[np.int8],
) -> None:
    """Put the layers of one format among those of their frames, in the order in which they stand.

    Each frame's marks start at ``first``, and ``count`` are there.
    """
    for i in range(len(row)):
        which = row[i]
        at = first[which] + count[which]
        count[which] += 1
        here = start[i]
        while at > first[which] and marks[at - 1] > here:
            marks[at] = marks[at - 1]
            kinds[at] = kinds[at - 1]
            at -= 1
        marks[at] = here
        kinds[at] = number


@released
def _conclude(
    first: Int64,
    count: Int32,
    tail: Int64,
    trailer: Int64,
    fcs: Int64,
    offset: Int64,
    captured: Int64,
    marks: Int64,
    kinds: NDArray[np.int8],
    keys: Int64,
) -> None:
    """Set the marks behind the layers, and the key that says which layers a frame has."""
    for row in range(len(first)):
        begin = first[row]
        stop = begin + count[row]
        marks[stop] = tail[row]
        marks[stop + 1] = trailer[row]
        marks[stop + 2] = fcs[row]
        marks[stop + 3] = offset[row] + captured[row]
        key = np.int64(0)
        for at in range(begin, stop):
            key = (key << _BITS) | np.int64(kinds[at] + 1)
        keys[row] = key if count[row] <= _MOST_LAYERS else _MANY_LAYERS


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
    """Whether there is an error in a frame, or in the one it shows."""


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
        """Return the paths and marks of frames in which the layers of all formats were found.

        ``sampled`` tells the frames that messages show, too.
        """
        count = len(found.frames.offset)
        layers = _counts(found)
        sizes = layers + TAILS
        malformed = np.zeros(count, np.bool_)
        malformed[found.error_rows] = True
        rows, inside = np.empty(0, np.int32), None
        if sampled:
            rows, frames = sampled_frames(found)
            inside = find_layers(frames, FORMATS, ethertypes, None) if len(rows) else None
        if inside is not None:
            sizes[rows] += _counts(inside) + TAILS
            malformed[rows[inside.error_rows]] = True
        mark_at = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        marks, kinds = np.empty(total, np.int64), np.empty(total, np.int8)
        outer_keys = _filled(found, mark_at, marks, kinds)
        inner_keys = np.zeros(count, np.int64)
        if inside is not None:
            inner_keys[rows] = _filled(inside, (mark_at + layers + TAILS)[rows], marks, kinds)
        paths = np.empty(count, np.int32)
        self._used = _identify(outer_keys, inner_keys, self._keys, self._slots, self._used, paths)
        return Marked(
            found=found, paths=paths, mark_at=fixed(mark_at), marks=fixed(marks), malformed=malformed
        )


def _counts(found: LayersFound) -> Int64:
    """Return how many layers each frame has."""
    count = len(found.frames.offset)
    counts = np.zeros(count, np.int64)
    for entries in found.entries.values():
        counts += np.bincount(entries.row, minlength=count)
    return counts


def _filled(found: LayersFound, first: Int64, marks: Int64, kinds: NDArray[np.int8]) -> Int64:
    """Set the marks of frames, which start at ``first``; return the keys of their paths."""
    count = np.zeros(len(first), np.int32)
    first = fixed(first)
    for number, cls in enumerate(FORMATS):
        entries = found.entries.get(cls)
        if entries is not None:
            _place(fixed(entries.row), fixed(entries.start), number, first, count, marks, kinds)
    ends, frames = found.ends, found.frames
    keys = np.empty(len(first), np.int64)
    _conclude(
        first, count, fixed(ends.tail), fixed(ends.trailer), fixed(ends.fcs), frames.offset, frames.captured,
        marks, kinds, keys,
    )  # fmt: skip
    return keys


def _formats_of(key: int) -> tuple[type[Layer], ...]:
    numbers = []
    while key:
        numbers.append((key & (1 << _BITS) - 1) - 1)
        key >>= _BITS
    return tuple(FORMATS[number] for number in reversed(numbers))
