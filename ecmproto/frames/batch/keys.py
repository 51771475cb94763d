"""A hash table with open addressing and a random seed.

Each key is a pair of 64-bit numbers and is compared exactly.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import inlined, over_batches

EMPTY = -1
_COEFFICIENTS = 6
_COEFFICIENT_MASK = (1 << 29) - 1
_LOW_BITS = 0xFFFFFFFF


class Keys(NamedTuple):
    """The slots of a hash table.

    The number of slots is a power of two. Loops unpack the arrays before they start.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    number: NDArray[np.int64]
    """Number of the key in the slot, or EMPTY for an empty slot."""
    coefficients: NDArray[np.int64]


def new_keys(slots: int) -> Keys:
    """Return an empty table with ``slots`` slots. ``slots`` must be a power of two."""
    drawn = np.frombuffer(os.urandom(4 * _COEFFICIENTS), np.uint32).astype(np.int64)
    return Keys(
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int64),
        np.full(slots, EMPTY, np.int64),
        drawn & _COEFFICIENT_MASK | 1,
    )


def larger_keys(keys: Keys) -> Keys:
    """Return a table with the keys and numbers of ``keys`` and twice the number of slots."""
    larger = new_keys(2 * len(keys.number))
    _move(keys, larger)
    return larger


def longer(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a column of twice the length; the added entries are 0."""
    return np.concatenate([column, np.zeros_like(column)])


@inlined
def has_capacity(number: NDArray[np.int64], used: int) -> bool:
    """Return whether the table has a slot for another key after ``used`` keys.

    Half of the slots must remain empty.
    """
    return 2 * used < len(number)


@inlined
def slot_of(
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    number: NDArray[np.int64],
    coefficients: NDArray[np.int64],
    key_low: int,
    key_high: int,
) -> int:
    """Return the slot of a key, or the empty slot for a new key."""
    mask = len(number) - 1
    # Multiply 32-bit halves. No step exceeds 63 bits, so plain Python computes the same result.
    mixed = (
        (key_low & _LOW_BITS) * coefficients[0]
        + ((key_low >> 32) & _LOW_BITS) * coefficients[1]
        + (key_high & _LOW_BITS) * coefficients[2]
        + ((key_high >> 32) & _LOW_BITS) * coefficients[3]
    )
    mixed = (mixed & _LOW_BITS) * coefficients[4] + (mixed >> 32) * coefficients[5]
    slot = (mixed ^ (mixed >> 30)) & mask
    while number[slot] != EMPTY and (low[slot] != key_low or high[slot] != key_high):
        slot = (slot + 1) & mask
    return int(slot)


@over_batches
def _move(keys: Keys, larger: Keys) -> None:
    low, high, number, _ = keys
    to_low, to_high, to_number, coefficients = larger
    for i in range(len(number)):
        if number[i] != EMPTY:
            slot = slot_of(to_low, to_high, to_number, coefficients, low[i], high[i])
            to_low[slot], to_high[slot], to_number[slot] = low[i], high[i], number[i]
