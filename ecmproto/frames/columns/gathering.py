"""Arrays from layouts: the offsets of the layers of each format, and the values of their fields.

`collect` gathers the requested values (``Want``) of each layer type. A layer type (``kind`` in the code) is a
format, a variable field of a format, or the octets after the layers. The kernel processes a block of frames
at a time. First, it records the layers of the block. Then it reads each field in a separate loop, at the
offset given by the schema, while offsets and octets are in the cache.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.parse_tables import MOVING_FIELDS, NUMBER_OF
from ecmproto.frames.columns.column import every_row
from ecmproto.frames.columns.layout_cache import FCS, FRAMES, FROM_END, LAYERS
from ecmproto.frames.columns.octets import eight_octets
from ecmproto.frames.columns.threads import together
from ecmproto.frames.columns.walk import BatchPart, Frames
from ecmproto.frames.filter.fields import NESTINGS, Nesting
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.kernels.prefetching import prefetch
from ecmproto.values import dataclass
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import FORMATS, MAX_FORMATS
from ecmproto.wire.formats.schema import BitField, Field, bit_field
from ecmproto.wire.formats.wrapper import FIRST_FORMATS

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
_SIGNED = (np.int8, np.int16, np.int32, np.int64)

WORD = 8
_ONE, _TWO, _FOUR, _EIGHT, _BY_OCTET, _ADDRESS, _COPY = range(7)
"""Methods of reading a field. The first four load the eight octets around the field and store a number of 1,
2, 4 or 8 bytes. ``_BY_OCTET`` reads a number octet by octet, for layers that may be too short for a load of
eight octets. ``_ADDRESS`` copies six octets. ``_COPY`` copies any number of octets.
"""
HOW, AT, OCTETS, SHIFT, MASK, WIDTH, TO = range(7)
"""Columns of an instruction for reading a field: the method; the offset in the layer and the length in
octets; the shift and the mask of the number; the width of the output in bytes; the index of the first value
in the output of that width.
"""
_ADDRESS_OCTETS = 6


def dtype_of(field: Field) -> np.dtype[Any]:
    """Return the narrowest dtype for the numbers of a field of fixed width, or ``uint8`` for octets."""
    if not field.is_number:
        return np.dtype(np.uint8)
    bits = field.bits or 0
    index = (bits > 8) + (bits > 16) + (bits > 32)
    return np.dtype((_SIGNED if field.kind == "sint" else _UNSIGNED)[index])


def empty_values(field: Field, count: int) -> NDArray[Any]:
    """Return an uninitialized array for ``count`` values of a field of fixed width.

    The array contains numbers, or rows of octets.
    """
    assert field.bits is not None
    if not field.is_number:
        return np.empty((count, field.bits // 8), np.uint8)
    return np.empty(count, dtype_of(field))


def read_instruction(
    cls: type[Layer], field: Field, part: tuple[int, int] | None, *, preceded: bool
) -> tuple[int, ...]:
    """Return the instruction for reading a field of a format, without its output index.

    ``part`` selects at most 8 bits by the position of the lowest bit and the number of bits. ``None`` selects
    the whole field. ``preceded`` means that at least WORD octets precede each layer.
    """
    position = bit_field(field)
    if not field.is_number:
        how = _ADDRESS if position.octets == _ADDRESS_OCTETS else _COPY
        at = 0 if field in cls.moving else position.at
        return how, at, position.octets, 0, 0, 1
    assert position.octets <= WORD, f"{field.name}: a number in more than eight octets"
    if part is not None:
        low, bits = part
        position = position._replace(shift=position.shift + low, mask=(1 << bits) - 1)
    width = 1 if part is not None else dtype_of(field).itemsize
    how, at, shift = _window(cls, position, width, preceded)
    return how, at, position.octets, shift, int(np.uint64(position.mask).astype(np.int64)), width


def _window(cls: type[Layer], position: BitField, width: int, preceded: bool) -> tuple[int, int, int]:
    """Return the method, the offset and the shift for reading a number.

    The eight octets loaded are within the layer or end with the field.
    """
    stop = position.at + position.octets
    how = (1, 2, 4, 8).index(width)
    if cls.fixed_octets >= WORD:
        at = min(position.at, cls.fixed_octets - WORD)
        return how, at, position.shift + 8 * (at + WORD - stop)
    if preceded:
        return how, stop - WORD, position.shift
    return _BY_OCTET, position.at, position.shift


class Memory(NamedTuple):
    """Views of the same memory as numbers of every width."""

    one: Octets
    two: NDArray[np.uint16]
    four: NDArray[np.uint32]
    eight: NDArray[np.uint64]


def memory_of(octets: Octets) -> Memory:
    """Return views of ``octets`` as numbers of every width; the length is a multiple of eight."""
    return Memory(octets, octets.view(np.uint16), octets.view(np.uint32), octets.view(np.uint64))


@inlined
def read(buffer: Octets, start: Int64, first: int, count: int, to: int, field: Int64, out: Memory) -> None:
    """Read a field of ``count`` layers into output values from index ``to``.

    The starts of the layers begin at index ``first`` of ``start``.
    """
    how, at, octets = field[HOW], field[AT], field[OCTETS]
    shift, mask, width = np.uint64(field[SHIFT]), np.uint64(field[MASK]), field[WIDTH]
    one, two, four, eight = out.one, out.two, out.four, out.eight
    base = field[TO] + to
    if how == _ONE:
        for i in range(count):
            position = start[np.uint64(first + i)] + at
            one[np.uint64(base + i)] = (eight_octets(buffer, position) >> shift) & mask
    elif how == _TWO:
        for i in range(count):
            position = start[np.uint64(first + i)] + at
            two[np.uint64(base + i)] = (eight_octets(buffer, position) >> shift) & mask
    elif how == _FOUR:
        for i in range(count):
            position = start[np.uint64(first + i)] + at
            four[np.uint64(base + i)] = (eight_octets(buffer, position) >> shift) & mask
    elif how == _EIGHT:
        for i in range(count):
            position = start[np.uint64(first + i)] + at
            eight[np.uint64(base + i)] = (eight_octets(buffer, position) >> shift) & mask
    elif how == _ADDRESS:
        _read_addresses(buffer, start, first, count, at, one, field[TO] + to * _ADDRESS_OCTETS)
    elif how == _COPY:
        base = field[TO] + to * octets
        for i in range(count):
            position = start[np.uint64(first + i)] + at
            for octet in range(octets):
                one[np.uint64(base + i * octets + octet)] = buffer[np.uint64(position + octet)]
    else:
        for i in range(count):
            number = np.uint64(0)
            position = start[np.uint64(first + i)] + at
            for octet in range(octets):
                number = (number << np.uint64(8)) | np.uint64(buffer[np.uint64(position + octet)])
            _store(out, width, base + i, (number >> shift) & mask)


@inlined
def _read_addresses(
    buffer: Octets, start: Int64, first: int, count: int, at: int, out: Octets, base: int
) -> None:
    """Copy six octets of each layer.

    All six octets are loaded before any octet is stored, so that the compiler can combine the loads.
    """
    one, two, three, four, five = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(5)
    for i in range(count):
        position = np.uint64(start[np.uint64(first + i)] + at)
        a, b, c = buffer[position], buffer[position + one], buffer[position + two]
        d, e, f = buffer[position + three], buffer[position + four], buffer[position + five]
        to = np.uint64(base + i * _ADDRESS_OCTETS)
        out[to], out[to + one], out[to + two] = a, b, c
        out[to + three], out[to + four], out[to + five] = d, e, f


@inlined
def _store(out: Memory, width: int, at: int, number: np.uint64) -> None:
    if width == 1:
        out.one[at] = number
    elif width == 2:
        out.two[at] = number
    elif width == 4:
        out.four[at] = number
    else:
        out.eight[at] = number


def typed(field: Field, read: NDArray[Any]) -> NDArray[Any]:
    """Return the octets of values as numbers of the field."""
    kind = dtype_of(field)
    numbers = read.view(kind)
    unused = 8 * kind.itemsize - (field.bits or 0)
    if field.kind == "sint" and unused:
        # sign extension from the field's width to the width of the array's numbers
        numbers = np.right_shift(np.left_shift(numbers, unused), unused)
    return numbers


Int32 = NDArray[np.int32]

BLOCK_FRAMES = 512
_RUN_FRAMES = 8
"""Minimum number of consecutive frames of one layout that are recorded together, layer by layer."""

KIND, PLACE, LENGTH, STRIDE, NTH = range(5)
"""Columns of a layer in a layout: the index of its type; the offset in the frame and the length in octets
(see FROM_END); the number of layers of its type in the layout; the index of the layer among the layers of its
type.
"""

CURSOR, BEFORE, START_TO, BLOCK_START, ROW_TO, LENGTH_TO, FIRST_FIELD, LAST_FIELD = range(8)
"""Columns of a layer type: the number of layers gathered, and the number before the current block; the output
indices of the first start, the first frame and the first length (UNWANTED if not requested); the first and
the last field. Starts that are not requested are stored for one block only, from BLOCK_START.
"""
UNWANTED = -1


class Layers(NamedTuple):
    """The layers to gather."""

    bound: Int64
    """Index of the first layer of each layout, followed by the number of layers."""
    layer: Int64
    kind: Int64
    field: Int64
    """Fields to read, one instruction per row; see `ecmproto.frames.columns.gathering`."""


class Gathered(NamedTuple):
    """The output arrays."""

    start: Int64
    row: Int32
    octets: Int64
    values: Memory


@over_batches
def gather(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    layout_of: Int32,
    begin: int,
    end: int,
    layers: Layers,
    gathered: Gathered,
) -> None:
    """Gather the layers of frames ``begin`` to ``end``."""
    kind, field = layers.kind, layers.field
    start, values = gathered.start, gathered.values
    kind_count = len(kind)
    for first in range(begin, end, BLOCK_FRAMES):
        last = min(first + BLOCK_FRAMES, end)
        for number in range(kind_count):
            if kind[number, BLOCK_START] != UNWANTED:
                kind[number, START_TO] = kind[number, BLOCK_START] - kind[number, CURSOR]
            kind[number, BEFORE] = kind[number, CURSOR]
        row = first
        while row < last:
            stop = row + 1
            layout = layout_of[row]
            while stop < last and layout_of[stop] == layout:
                stop += 1
            begin_layer, end_layer = (
                layers.bound[np.uint64(layout)],
                layers.bound[np.uint64(layout) + np.uint64(1)],
            )
            if stop - row < _RUN_FRAMES:
                while row < stop:
                    _record_layers(buffer, offset, captured, row, layers, begin_layer, end_layer, gathered)
                    row += 1
            else:
                _record_run(offset, captured, row, stop, layers, begin_layer, end_layer, gathered)
                row = stop
        for number in range(kind_count):
            before = kind[number, BEFORE]
            count = kind[number, CURSOR] - before
            for index in range(kind[number, FIRST_FIELD], kind[number, LAST_FIELD]):
                read(buffer, start, before + kind[number, START_TO], count, before, field[index], values)


@inlined
def _record_layers(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    frame: int,
    layers: Layers,
    begin: int,
    end: int,
    gathered: Gathered,
) -> None:
    """Record the layers ``begin`` to ``end`` of one frame."""
    layer, kind = layers.layer, layers.kind
    start, row, octets = gathered.start, gathered.row, gathered.octets
    first, more = offset[np.uint64(frame)], captured[np.uint64(frame)] + FROM_END
    for index in range(begin, end):
        line = np.uint64(index)
        of = np.uint64(layer[line, KIND])
        at = kind[of, CURSOR]
        kind[of, CURSOR] = at + 1
        position = layer[line, PLACE]
        begins = first + (position if position >= 0 else position + more)
        prefetch(buffer, begins)
        start[np.uint64(kind[of, START_TO] + at)] = begins
        if kind[of, ROW_TO] != UNWANTED:
            row[np.uint64(kind[of, ROW_TO] + at)] = frame
        if kind[of, LENGTH_TO] != UNWANTED:
            length = layer[line, LENGTH]
            octets[np.uint64(kind[of, LENGTH_TO] + at)] = length if length >= 0 else length + more


@inlined
def _record_run(
    offset: Int64,
    captured: Int64,
    first: int,
    last: int,
    layers: Layers,
    begin: int,
    end: int,
    gathered: Gathered,
) -> None:
    """Record the layers ``begin`` to ``end`` of consecutive frames with the same layout."""
    layer, kind = layers.layer, layers.kind
    start, row, octets = gathered.start, gathered.row, gathered.octets
    count = last - first
    for index in range(begin, end):
        number, position, length = layer[index, KIND], layer[index, PLACE], layer[index, LENGTH]
        stride = layer[index, STRIDE]
        at = kind[number, CURSOR] + layer[index, NTH]
        to = kind[number, START_TO] + at
        if position >= 0:
            for i in range(count):
                start[np.uint64(to + i * stride)] = offset[np.uint64(first + i)] + position
        else:
            for i in range(count):
                frame = np.uint64(first + i)
                start[np.uint64(to + i * stride)] = offset[frame] + captured[frame] + position + FROM_END
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


@over_batches
def look_up(table: Int32, layout_of: Int32, out: Int32) -> None:
    """Set ``out`` to the table entry for the layout of each frame."""
    for row in range(len(layout_of)):
        out[row] = table[layout_of[row]]


Values = NDArray[np.uint8]

_TAILS = FCS + 1 + len(MOVING_FIELDS)
KINDS = _TAILS + MAX_FORMATS
"""Number of layer types. The layers of innermost frames and of outermost frames have separate types."""
_FAR = 1 << 40
_FIXED = np.full(_TAILS, _FAR, np.int64)
_FIXED[: len(FORMATS)] = [_FAR if cls.moving else cls.fixed_octets for cls in FORMATS]
"""Fixed size in octets of each layer type, larger than any frame for types without a variable field."""
_NUMBERS = LAST_FIELD + 1


def kind_of(cls: type[Layer], field: Field | None = None, nesting: Nesting = "") -> int:
    """Return the type number of a format's layers, or of a field with variable size or offset."""
    again = KINDS * NESTINGS.index(nesting)
    if field is not None and field in cls.moving:
        return again + MOVING_FIELDS[cls, field.key]
    return again + NUMBER_OF[cls] + (_TAILS if field is not None and field.bits is None else 0)


_WRAPPERS = [NUMBER_OF[cls] for cls in FORMATS if cls.role == "wrapper"]
_BEGINS, _WRAPS = (np.zeros(MAX_FORMATS, np.bool_) for _ in range(2))
_BEGINS[[NUMBER_OF[cls] for cls in FIRST_FORMATS]] = True
_WRAPS[_WRAPPERS] = True


def _nested(owner: Int64, number: Int64) -> Sequence[NDArray[np.bool_]]:
    """Return a mask of the layers in the innermost frame, and a mask of the layers in the outermost frame."""
    layers = np.flatnonzero(number < MAX_FORMATS)
    before, after = layers[:-1], layers[1:]
    starts = _BEGINS[number[after]] & _WRAPS[number[before]] & (owner[after] == owner[before])
    inner = after[starts]
    layouts = int(owner[-1]) + 1
    first, last = np.zeros(layouts, np.int64), np.full(layouts, len(owner))
    np.maximum.at(first, owner[inner], inner)
    np.minimum.at(last, owner[inner], inner)
    index = np.arange(len(owner))
    return index >= first[owner], index < last[owner]


@dataclasses.dataclass(slots=True, kw_only=True)
class Want:
    """The requested values of a layer type; frame indices are always included."""

    positions: bool = False
    """Whether the starts and lengths of the layers are requested."""
    fields: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    """Instructions for reading the requested fields; see `ecmproto.frames.columns.gathering`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collected:
    """All layers of one type: their frames, starts in the buffer, lengths in octets, and field values."""

    row: NDArray[np.int32]
    start: Int64
    octets: Int64
    """Length of each layer in octets; empty, like ``start``, unless requested."""
    values: list[Values]
    """Octets of the values of each field."""


class Listed(NamedTuple):
    """The layers of all layouts: layout, type, offset and length of each layer."""

    owner: Int64
    kind: Int64
    position: Int64
    octets: Int64
    counts: Int64
    """Number of layers of each type."""
    min_offsets: Int64
    """Minimum number of octets before a layer of each type."""


class Census:
    """The layers in a part of the frames by layout and type."""

    def __init__(self, part: BatchPart) -> None:
        self.part = part
        layout, layer = part.layouts, part.layer
        owner = np.repeat(np.arange(len(layout)), layout[:, LAYERS])
        number, position, octets = layer.T
        self._tails = np.flatnonzero((octets > _FIXED[number]) | ((octets < 0) & (number < MAX_FORMATS)))
        tails, size = self._tails, _FIXED[number[self._tails]]
        self._frames = layout[:, FRAMES]
        self._every = self._listed(
            np.concatenate([owner, owner[tails]]),
            np.concatenate([number, number[tails] + _TAILS]),
            np.concatenate([position, position[tails] + size]),
            np.concatenate([octets, octets[tails] - size]),
        )

    def _listed(self, owner: Int64, kind: Int64, position: Int64, octets: Int64) -> Listed:
        min_offset = np.full(KINDS, _FAR)
        np.minimum.at(min_offset, kind, position)
        count = np.bincount(kind, self._frames[owner], KINDS).astype(np.int64)
        return Listed(owner, kind, position, octets, count, min_offset)

    def listed(self, nesting: int) -> Listed:
        """Return the layers of a nesting, by index. Without outer headers, all nestings are equal."""
        is_nested = nesting and self._every.counts[_WRAPPERS].any()
        return self._nestings[nesting - 1] if is_nested else self._every

    @functools.cached_property
    def _nestings(self) -> list[Listed]:
        """The layers of innermost frames, and the layers of outermost frames."""
        columns, before_tails = self._every[:4], slice(len(self.part.layer))
        masks = _nested(*(column[before_tails] for column in columns[:2]))
        both = [np.concatenate([mask, mask[self._tails]]) for mask in masks]
        return [self._listed(*(column[mask] for column in columns)) for mask in both]

    def layers(self, types: Sequence[int]) -> tuple[Int64, Int64]:
        """Return the bounds and the layers of each layout, restricted to ``types``.

        The types are renumbered by their position in ``types``.
        """
        new = np.full(KINDS * len(NESTINGS), UNWANTED)
        new[list(types)] = np.arange(len(types))
        columns = []
        for nesting in sorted({each // KINDS for each in types}):
            listed = self.listed(nesting)
            kinds = new[KINDS * nesting :][listed.kind]
            chosen = np.flatnonzero(kinds != UNWANTED)
            others = listed.owner, listed.position, listed.octets
            columns.append((kinds[chosen], *(column[chosen] for column in others)))
        kind, owner, position, octets = (np.concatenate(each) for each in zip(*columns, strict=True))
        group = owner * len(types) + kind
        # A stable sort keeps layers of one type and layout in order.
        order = np.argsort(group, kind="stable")
        owner, group = owner[order], group[order]
        heads = np.flatnonzero(np.diff(group, prepend=-1))
        sizes = np.diff(heads, append=len(group))
        stride = np.repeat(sizes, sizes)
        nth = np.arange(len(group)) - np.repeat(heads, sizes)
        rows = np.stack([kind[order], position[order], octets[order], stride, nth], axis=1)
        return np.searchsorted(owner, np.arange(len(self._frames) + 1)), rows

    def has_each_once(self, bound: Int64, layer: Int64, count: int) -> NDArray[np.bool_]:
        """Return, for each type, whether every frame has exactly one such layer."""
        used = self._frames > 0
        single = used[np.repeat(np.arange(len(used)), np.diff(bound))] & (layer[:, STRIDE] == 1)
        once: NDArray[np.bool_] = np.bincount(layer[single, KIND], minlength=count) == np.count_nonzero(used)
        return once


def collect(
    frames: Frames,
    censuses: Sequence[Census],
    wants: Mapping[int, Want],
    pool: ThreadPoolExecutor | None,
) -> dict[int, Collected]:
    """Return the requested values of some layer types."""
    return _Collection(frames, censuses, wants).collected(pool) if wants else {}


class _Collection:
    """The output arrays and the tables of their contents."""

    def __init__(self, frames: Frames, censuses: Sequence[Census], wants: Mapping[int, Want]) -> None:
        self._frames, self._censuses, self._wants = frames, censuses, wants
        types = list(wants)
        self._plans = [census.layers(types) for census in censuses]
        whole = [
            census.has_each_once(*plan, len(types))
            for census, plan in zip(censuses, self._plans, strict=True)
        ]
        self._whole = np.all(whole, axis=0)
        self._counts = [
            np.array([census.listed(kind // KINDS).counts[kind % KINDS] for kind in types])
            for census in censuses
        ]
        self._total = np.sum(self._counts, axis=0)
        self._bases = list(itertools.accumulate(self._counts, initial=np.zeros(len(types), np.int64)))
        positions = np.array([want.positions for want in wants.values()])
        self._row_to, rows = _bounds(np.where(self._whole, 0, self._total))
        self._place_to, octets = _bounds(np.where(positions, self._total, 0))
        self._positions = positions
        # The requested starts are followed by the starts that each part needs for one block only.
        self._block_to, block = self._blocks(octets)
        self._fields, self._value_to, size = self._fields_of(wants)
        bounds = list(itertools.accumulate((size, 8 * block, 8 * octets, 4 * rows)))
        memory = np.empty(bounds[-1], np.uint8)
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
            highest = np.zeros(len(self._total), np.int64)
            np.maximum.at(highest, layer[:, KIND], layer[:, STRIDE])
            to, size = _bounds(np.where(self._positions, 0, highest * BLOCK_FRAMES))
            tables.append(np.where(self._positions, UNWANTED, to[:-1] + first))
            first += size
        return tables, first

    def _fields_of(self, wants: Mapping[int, Want]) -> tuple[Int64, list[list[tuple[int, int]]], int]:
        rows: list[tuple[int, ...]] = []
        ranges: list[list[tuple[int, int]]] = []
        at = 0
        for want, count in zip(wants.values(), self._total.tolist(), strict=True):
            ranges.append([])
            for field in want.fields:
                size = count * (field[WIDTH] if field[MASK] else field[OCTETS])
                rows.append((*field, at // field[WIDTH]))
                ranges[-1].append((at, at + size))
                at += -(-size // _ALIGNED) * _ALIGNED
        return np.array(rows, np.int64).reshape(-1, TO + 1), ranges, at

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
        part = self._censuses[number].part
        bound, layer = self._plans[number]
        kind = np.empty((len(self._total), _NUMBERS), np.int64)
        kind[:, CURSOR] = self._bases[number]
        kind[:, START_TO] = self._place_to[:-1]
        kind[:, BLOCK_START] = self._block_to[number]
        kind[:, ROW_TO] = np.where(self._whole, UNWANTED, self._row_to[:-1])
        kind[:, LENGTH_TO] = np.where(self._positions, self._place_to[:-1], UNWANTED)
        fields = np.cumsum([0, *(len(want.fields) for want in self._wants.values())])
        kind[:, FIRST_FIELD], kind[:, LAST_FIELD] = fields[:-1], fields[1:]
        gather(
            self._frames.buffer,
            self._frames.offset,
            self._frames.captured,
            part.all_layouts,
            part.begin,
            part.end,
            Layers(bound, layer, kind, self._fields),
            self._out,
        )


def _bounds(sizes: Int64) -> tuple[Int64, int]:
    """Return the offsets of consecutive slices with the given sizes, and the total size.

    The total size also follows the last offset.
    """
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds, int(bounds[-1])


_ALIGNED = 64
