"""The loops over frames that count: kinds over time, and numbers for keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.flows import EMPTY, new_keys, slot_of
from ecmproto.batch.headers import fixed
from ecmproto.kernel import compiled

Int64 = NDArray[np.int64]

NO_SLOT = -1
NO_NUMBER = -1


@compiled
def tally(
    codes: Int64,
    slots: Int64,
    octets: Int64,
    kinds: Int64,
    bounds: Int64,
    frames: Int64,
    octets_of: Int64,
    frames_in: Int64,
    octets_in: Int64,
) -> None:
    """Count each frame with the kinds of its code: ``kinds[bounds[code]:bounds[code + 1]]``.

    ``frames`` and ``octets_of`` have an entry a kind, ``frames_in`` and ``octets_in`` one for each kind and
    interval; a frame without a time is in none of those.
    """
    for i in range(len(codes)):
        slot, size = slots[i], octets[i]
        for at in range(bounds[codes[i]], bounds[codes[i] + 1]):
            kind = kinds[at]
            frames[kind] += 1
            octets_of[kind] += size
            if slot != NO_SLOT:
                frames_in[kind, slot] += 1
                octets_in[kind, slot] += size


@compiled
def _number(
    low: Int64,
    high: Int64,
    slots_low: Int64,
    slots_high: Int64,
    slots_number: Int64,
    coefficients: Int64,
    entries: Int64,
    used: int,
    numbers: Int64,
) -> int:
    """Fill ``numbers`` for keys, new ones in the order in which they come; return how many there are."""
    most = len(entries)
    for i in range(len(low)):
        slot = slot_of(slots_low, slots_high, slots_number, coefficients, low[i], high[i])
        if slots_number[slot] == EMPTY:
            if used == most:
                numbers[i] = NO_NUMBER
                continue
            slots_low[slot], slots_high[slot], slots_number[slot] = low[i], high[i], used
            entries[used, 0], entries[used, 1] = low[i], high[i]
            used += 1
        numbers[i] = slots_number[slot]
    return used


class Numbering:
    """Numbers from 0 on for keys of two 64-bit numbers, in the order in which the keys first come.

    ``most`` keys get one; those that come later do not, which is what bounds memory, and are counted.
    """

    def __init__(self, most: int) -> None:
        self.count = 0
        self.left_out = 0
        """How many things with a key there were that has no number."""
        self._entries = np.zeros((most, 2), np.int64)
        self._keys = new_keys(1 << (2 * most).bit_length())

    def numbers(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> Int64:
        """Return the number of each key, NO_NUMBER for one without."""
        numbers = np.empty(len(low), np.int64)
        if len(low):
            self.count = _number(
                _as_int64(low), _as_int64(high), *self._keys, self._entries, self.count, numbers
            )
            self.left_out += int((numbers == NO_NUMBER).sum())
        return numbers

    @property
    def low(self) -> NDArray[np.uint64]:
        """The lower halves of the keys, in the order of their numbers."""
        return self._entries[: self.count, 0].astype(np.uint64)

    @property
    def high(self) -> NDArray[np.uint64]:
        """The higher halves."""
        return self._entries[: self.count, 1].astype(np.uint64)


def _as_int64(numbers: NDArray[np.integer]) -> Int64:
    return fixed(numbers.astype(np.int64))


def count_at(table: Int64, rows: Int64, columns: Int64, amounts: Int64 | int = 1) -> None:
    """Add to places of a table with rows and columns; a place may be there several times."""
    np.add.at(table.reshape(-1), rows * table.shape[1] + columns, amounts)
