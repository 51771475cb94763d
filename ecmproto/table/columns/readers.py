"""Reading the fields of every layer of a format: one kernel, steered by where the schema says they stand.

It goes through the layers a block at a time, each field of the block in a loop of its own: the block's octets
are in the cache for all fields but the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.table.columns.threads import released
from ecmproto.table.columns.transitions import place_of
from ecmproto.table.headers import fixed, signed
from ecmproto.wire.layout import Field

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
_SIGNED = (np.int8, np.int16, np.int32, np.int64)


def number_dtype(bits: int, *, signed: bool) -> np.dtype[Any]:
    """Return the least dtype that holds numbers of ``bits``."""
    index = (bits > 8) + (bits > 16) + (bits > 32)
    return np.dtype((_SIGNED if signed else _UNSIGNED)[index])


_BLOCK = 512
_ADDRESS_OCTETS = 6
_OCTET, _TWO, _FOUR, _MANY, _COPY, _ADDRESS = range(6)


@released
def _read(
    buffer: Octets,
    start: Int64,
    begin: int,
    end: int,
    fields: Int64,
    out: Octets,
    out_2: NDArray[np.uint16],
    out_4: NDArray[np.uint32],
    out_8: NDArray[np.uint64],
) -> None:
    """Read fields of the layers ``begin`` to ``end``; all outputs are the same memory.

    A row of ``fields`` is: how to read, `Place`, and where in the output of its width the values go.
    """
    for first in range(begin, end, _BLOCK):
        last = min(first + _BLOCK, end)
        for field in range(len(fields)):
            how, at, octets = fields[field, 0], fields[field, 1], fields[field, 2]
            shift, mask, to = fields[field, 3], fields[field, 4], fields[field, 5]
            if how == _OCTET:
                for i in range(first, last):
                    out[to + i] = (signed(buffer[start[i] + at]) >> shift) & mask
            elif how == _TWO:
                for i in range(first, last):
                    place = start[i] + at
                    word = (signed(buffer[place]) << 8) | signed(buffer[place + 1])
                    out_2[to + i] = (word >> shift) & mask
            elif how == _FOUR:
                for i in range(first, last):
                    place = start[i] + at
                    high = (signed(buffer[place]) << 24) | (signed(buffer[place + 1]) << 16)
                    low = (signed(buffer[place + 2]) << 8) | signed(buffer[place + 3])
                    out_4[to + i] = ((high | low) >> shift) & mask
            elif how == _MANY:
                for i in range(first, last):
                    number = np.uint64(0)
                    place = start[i] + at
                    for octet in range(place, place + octets):
                        number = (number << np.uint64(8)) | np.uint64(buffer[octet])
                    out_8[to + i] = (number >> np.uint64(shift)) & np.uint64(mask)
            elif how == _ADDRESS:
                # the same as below, with a count that the compiler knows
                for i in range(first, last):
                    place = start[i] + at
                    for octet in range(_ADDRESS_OCTETS):
                        out[to + i * _ADDRESS_OCTETS + octet] = buffer[place + octet]
            else:
                for i in range(first, last):
                    place = start[i] + at
                    for octet in range(octets):
                        out[to + i * octets + octet] = buffer[place + octet]


@released
def copy_octets(buffer: Octets, start: Int64, octets: Int64, stop: Int64, out: Octets) -> None:
    """Copy stretches of ``buffer`` one behind the other: each ends in ``out`` at its ``stop``."""
    for i in range(len(start)):
        behind = stop[i] - octets[i]
        for octet in range(octets[i]):
            out[behind + octet] = buffer[start[i] + octet]


def empty_values(field: Field, count: int) -> NDArray[Any]:
    """Return where the values of a field of fixed width would be: numbers, or rows of octets."""
    assert field.bits is not None
    if not field.is_number:
        return np.empty((count, field.bits // 8), np.uint8)
    return np.empty(count, number_dtype(field.bits, signed=field.kind == "sint"))


class FieldsReading:
    """Fields of fixed width of a format's layers, on their way from the octets to arrays."""

    def __init__(self, fields: Sequence[Field], buffer: Octets, start: Int64) -> None:
        self._fields = fields
        self._buffer, self._start = buffer, fixed(start)
        rows, at = [], 0
        for field in fields:
            how, octets, width = _how(field)
            place = place_of(field)
            size = width if field.is_number else octets
            mask = int(np.uint64(place.mask).astype(np.int64)) if field.is_number else 0
            rows.append((how, place.at, octets, place.shift, mask, at // width))
            at += -(-len(start) * size // _ALIGNED) * _ALIGNED
        self._rows = fixed(np.array(rows, np.int64).reshape(-1, 6))
        self._out = np.empty(at, np.uint8)

    def __len__(self) -> int:
        return len(self._start)

    def read(self, begin: int, end: int) -> None:
        """Read the layers ``begin`` to ``end``."""
        out = self._out
        views = (out.view(np.uint16), out.view(np.uint32), out.view(np.uint64))
        _read(self._buffer, self._start, begin, end, self._rows, out, *views)

    def values(self) -> Iterator[NDArray[Any]]:
        """Yield the values of each field."""
        count = len(self._start)
        for field, (how, _, octets, _, _, to) in zip(self._fields, self._rows.tolist(), strict=True):
            if not field.is_number:
                yield self._out[to : to + count * octets].reshape(count, octets)
            else:
                yield _typed(field, self._out.view(_UNSIGNED[how])[to : to + count])


_ALIGNED = 8


def _how(field: Field) -> tuple[int, int, int]:
    """Return how a field is read, its octets, and the width of the numbers that it is read into."""
    octets = place_of(field).octets
    if not field.is_number:
        return (_ADDRESS if octets == _ADDRESS_OCTETS else _COPY), octets, 1
    assert octets <= _ALIGNED, f"{field.name}: a number in more than eight octets"
    return {1: (_OCTET, 1, 1), 2: (_TWO, 2, 2), 4: (_FOUR, 4, 4)}.get(octets, (_MANY, octets, 8))


def _typed(field: Field, read: NDArray[Any]) -> NDArray[Any]:
    """Return what was read as the numbers that it is."""
    kind = number_dtype(field.bits or 0, signed=field.kind == "sint")
    numbers = read.astype(kind.str.replace("i", "u"), copy=False).view(kind)
    unused = 8 * kind.itemsize - (field.bits or 0)
    if field.kind == "sint" and unused:
        # two's complement of fewer bits than the array's numbers have
        numbers = np.right_shift(np.left_shift(numbers, unused), unused)
    return numbers
