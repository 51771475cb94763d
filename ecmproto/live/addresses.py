"""Which interface a station lives at: addresses learned from frames, forgotten with age, in bounded memory.

A table of fixed size in groups of four.  A new address takes the place of an aged one of its group, else of
the one that was silent for longest: a flood of forged sources makes the table forget, never grow.  How
addresses are spread depends on coefficients drawn anew for each table, so that nobody can choose addresses
that all meet in one group.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import inlined

NOWHERE = -1

_WAYS = 4
_EMPTY = -1
_COEFFICIENT_BITS = 29
_HALF_BITS = 24
_HALF = (1 << _HALF_BITS) - 1


class Addresses(NamedTuple):
    """The table: addresses as numbers, where each lives, and when it was last heard."""

    address: NDArray[np.int64]
    place: NDArray[np.int64]
    heard_ns: NDArray[np.int64]
    coefficients: NDArray[np.int64]


def new_addresses(size: int) -> Addresses:
    """Return an empty table for ``size`` addresses, a power of two of at least four."""
    drawn = [secrets.randbits(_COEFFICIENT_BITS) | 1 for _ in range(2)]
    return Addresses(
        np.full(size, _EMPTY, np.int64),
        np.full(size, NOWHERE, np.int64),
        np.zeros(size, np.int64),
        np.array(drawn, np.int64),
    )


@inlined
def learn(addresses: Addresses, address: int, place: int, now_ns: int) -> bool:
    """Take note that ``address`` lives at ``place``; return whether it is new, or lived elsewhere."""
    known, places, heard_ns, _ = addresses
    first = _group(addresses, address)
    oldest = first
    for entry in range(first, first + _WAYS):
        if known[entry] == address:
            moved = places[entry] != place
            places[entry] = place
            heard_ns[entry] = now_ns
            return bool(moved)
        if known[entry] == _EMPTY or (known[oldest] != _EMPTY and heard_ns[entry] < heard_ns[oldest]):
            oldest = entry
    known[oldest] = address
    places[oldest] = place
    heard_ns[oldest] = now_ns
    return True


@inlined
def lookup(addresses: Addresses, address: int, since_ns: int) -> int:
    """Return where ``address`` lives; NOWHERE if it was not heard from ``since_ns`` on."""
    known, places, heard_ns, _ = addresses
    first = _group(addresses, address)
    for entry in range(first, first + _WAYS):
        if known[entry] == address and heard_ns[entry] >= since_ns:
            return int(places[entry])
    return NOWHERE


@inlined
def _group(addresses: Addresses, address: int) -> int:
    """Return the first entry of the group of ``address``."""
    coefficients = addresses.coefficients
    # Halves times coefficients: no step needs more than 54 bits, so plain Python gets the same.
    mixed = (address & _HALF) * coefficients[0] + (address >> _HALF_BITS) * coefficients[1]
    return int((mixed ^ (mixed >> _HALF_BITS)) & (len(addresses.address) // _WAYS - 1)) * _WAYS
