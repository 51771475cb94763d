"""What of the layers found is wanted, and its way into arrays.

A *kind* is what can be gathered by itself: the layers of a format, its variable fields, what stands behind
the layers.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.columns.column import every_row
from ecmproto.columns.gathering import (
    BLOCK_FRAMES,
    BLOCK_START,
    CURSOR,
    FIRST_FIELD,
    KIND,
    LAST_FIELD,
    LENGTH_TO,
    ROW_TO,
    START_TO,
    STRIDE,
    UNWANTED,
    Gathered,
    Layers,
    gather,
)
from ecmproto.columns.memory import borrow
from ecmproto.columns.parts import Part
from ecmproto.columns.readers import MASK, OCTETS, TO, WIDTH, memory_of
from ecmproto.columns.shapes import FRAMES, LAYERS
from ecmproto.columns.threads import together
from ecmproto.columns.transitions import NUMBER_OF
from ecmproto.columns.walk import Frames
from ecmproto.formats.base import Layer
from ecmproto.formats.registry import FORMATS

Int64 = NDArray[np.int64]
Values = NDArray[np.uint8]

_TAILS = len(FORMATS) + 3
KINDS = _TAILS + len(FORMATS)
_FIXED = fixed(np.array([cls.fixed_octets for cls in FORMATS] + [1 << 40] * 3, np.int64))
"""More than any has behind the layers: there is no variable field."""
_NUMBERS = LAST_FIELD + 1


def tail_of(cls: type[Layer]) -> int:
    """Return the kind that is the variable field of a format, where it is not empty."""
    return _TAILS + NUMBER_OF[cls]


@dataclasses.dataclass(slots=True, kw_only=True)
class Want:
    """What is wanted of a kind, besides which frames have it."""

    places: bool = False
    """Where it starts and its octets."""
    fields: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    """How its fields are read; see `ecmproto.columns.readers`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collected:
    """All of a kind: the frames that have it, where it starts in the buffer, its octets, and its fields."""

    row: NDArray[np.int32]
    start: Int64
    octets: Int64
    """Empty, as ``start`` is, unless wanted."""
    values: list[Values]
    """The octets of a field's values."""


class Census:
    """What there is in a part of the frames: the layers of its shapes, by kind, and how many of each kind."""

    def __init__(self, part: Part) -> None:
        self.part = part
        shape, layer = part.shape, part.layer
        owner = np.repeat(np.arange(len(shape)), shape[:, LAYERS])
        number, place, octets = layer.T
        tails = np.flatnonzero((octets > _FIXED[number]) | ((octets < 0) & (number < len(FORMATS))))
        size = _FIXED[number[tails]]
        self._owner = np.concatenate([owner, owner[tails]])
        self._kind = np.concatenate([number, number[tails] + _TAILS])
        self._place = np.concatenate([place, place[tails] + size])
        self._octets = np.concatenate([octets, octets[tails] - size])
        self._frames = shape[:, FRAMES]
        self.count = np.bincount(self._kind, self._frames[self._owner], KINDS).astype(np.int64)
        """How many there are of each kind."""
        self.least_at = np.full(KINDS, _FAR)
        """In front of each of a kind there are so many octets of its frame at least."""
        np.minimum.at(self.least_at, self._kind, self._place)

    def layers(self, kinds: Sequence[int]) -> tuple[Int64, Int64]:
        """Return the bounds and the layers of each shape that are of some ``kinds``, which are renumbered."""
        new = np.full(KINDS, UNWANTED)
        new[list(kinds)] = np.arange(len(kinds))
        kind = new[self._kind]
        picks = np.flatnonzero(kind != UNWANTED)
        group = self._owner[picks] * len(kinds) + kind[picks]
        # stable: those of one kind and shape stay in order
        order = np.argsort(group, kind="stable")
        picks, group = picks[order], group[order]
        heads = np.flatnonzero(np.diff(group, prepend=-1))
        sizes = np.diff(heads, append=len(group))
        stride = np.repeat(sizes, sizes)
        nth = np.arange(len(group)) - np.repeat(heads, sizes)
        rows = np.stack([kind[picks], self._place[picks], self._octets[picks], stride, nth], axis=1)
        return np.searchsorted(self._owner[picks], np.arange(len(self._frames) + 1)), rows

    def has_each_once(self, bound: Int64, layer: Int64, kinds: int) -> NDArray[np.bool_]:
        """Return for each kind whether every frame has it exactly once."""
        used = self._frames > 0
        single = used[np.repeat(np.arange(len(used)), np.diff(bound))] & (layer[:, STRIDE] == 1)
        once: NDArray[np.bool_] = np.bincount(layer[single, KIND], minlength=kinds) == np.count_nonzero(used)
        return once


_FAR = 1 << 40


def collect(
    frames: Frames,
    censuses: Sequence[Census],
    wants: Mapping[int, Want],
    pool: ThreadPoolExecutor | None,
) -> dict[int, Collected]:
    """Return what is wanted of each of some kinds."""
    return _Collection(frames, censuses, wants).collected(pool) if wants else {}


class _Collection:
    """The arrays that are filled, and the tables that say with what."""

    def __init__(self, frames: Frames, censuses: Sequence[Census], wants: Mapping[int, Want]) -> None:
        self._frames, self._censuses, self._wants = frames, censuses, wants
        kinds = list(wants)
        self._plans = [census.layers(kinds) for census in censuses]
        whole = [
            census.has_each_once(*plan, len(kinds))
            for census, plan in zip(censuses, self._plans, strict=True)
        ]
        self._whole = np.all(whole, axis=0)
        self._counts = [census.count[kinds] for census in censuses]
        self._total = np.sum(self._counts, axis=0)
        self._bases = list(itertools.accumulate(self._counts, initial=np.zeros(len(kinds), np.int64)))
        places = np.array([want.places for want in wants.values()])
        self._row_to, rows = _bounds(np.where(self._whole, 0, self._total))
        self._place_to, octets = _bounds(np.where(places, self._total, 0))
        self._places = places
        # the starts that are of use for a block only, of each part, stand behind those that are wanted
        self._block_to, block = self._blocks(octets)
        self._fields, self._value_to, size = self._fields_of(wants)
        bounds = list(itertools.accumulate((size, 8 * block, 8 * octets, 4 * rows)))
        memory = borrow(bounds[-1])
        start, lengths, row = (memory[first:last] for first, last in itertools.pairwise(bounds))
        self._out = Gathered(
            start=start.view(np.int64),
            row=row.view(np.int32),
            octets=lengths.view(np.int64),
            values=memory_of(memory[:size]),
        )

    def _blocks(self, first: int) -> tuple[list[Int64], int]:
        tables = []
        for _, layer in self._plans:
            most = np.zeros(len(self._total), np.int64)
            np.maximum.at(most, layer[:, KIND], layer[:, STRIDE])
            to, size = _bounds(np.where(self._places, 0, most * BLOCK_FRAMES))
            tables.append(np.where(self._places, UNWANTED, to[:-1] + first))
            first += size
        return tables, first

    def _fields_of(self, wants: Mapping[int, Want]) -> tuple[Int64, list[list[tuple[int, int]]], int]:
        rows: list[tuple[int, ...]] = []
        places: list[list[tuple[int, int]]] = []
        at = 0
        for want, count in zip(wants.values(), self._total.tolist(), strict=True):
            places.append([])
            for field in want.fields:
                size = count * (field[WIDTH] if field[MASK] else field[OCTETS])
                rows.append((*field, at // field[WIDTH]))
                places[-1].append((at, at + size))
                at += -(-size // _ALIGNED) * _ALIGNED
        return np.array(rows, np.int64).reshape(-1, TO + 1), places, at

    def collected(self, pool: ThreadPoolExecutor | None) -> dict[int, Collected]:
        together([partial(self._gather, number) for number in range(len(self._plans))], pool)
        every = every_row(len(self._frames.offset))
        return {
            kind: Collected(
                row=every if self._whole[number] else self._part_of(self._out.row, self._row_to, number),
                start=self._part_of(self._out.start, self._place_to, number),
                octets=self._part_of(self._out.octets, self._place_to, number),
                values=[self._out.values.one[first:last] for first, last in self._value_to[number]],
            )
            for number, kind in enumerate(self._wants)
        }

    def _part_of(self, array: NDArray[Any], to: Int64, number: int) -> NDArray[Any]:
        return array[to[number] : to[number + 1]]

    def _gather(self, number: int) -> None:
        """Gather a part's."""
        part = self._censuses[number].part
        bound, layer = self._plans[number]
        kind = np.empty((len(self._total), _NUMBERS), np.int64)
        kind[:, CURSOR] = self._bases[number]
        kind[:, START_TO] = self._place_to[:-1]
        kind[:, BLOCK_START] = self._block_to[number]
        kind[:, ROW_TO] = np.where(self._whole, UNWANTED, self._row_to[:-1])
        kind[:, LENGTH_TO] = np.where(self._places, self._place_to[:-1], UNWANTED)
        fields = np.cumsum([0, *(len(want.fields) for want in self._wants.values())])
        kind[:, FIRST_FIELD], kind[:, LAST_FIELD] = fields[:-1], fields[1:]
        gather(
            self._frames.buffer,
            self._frames.offset,
            self._frames.captured,
            part.all_shapes,
            part.begin,
            part.end,
            Layers(bound, layer, kind, self._fields),
            self._out,
        )


def _bounds(sizes: Int64) -> tuple[Int64, int]:
    """Return where stretches of such sizes start that stand one behind the other, and end."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds, int(bounds[-1])


_ALIGNED = 64
