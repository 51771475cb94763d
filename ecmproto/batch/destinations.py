"""Destinations of a capture's frames, numbered from 0 on in the order of their first frames.

A replay takes each for an output port of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import ADDRESS_OCTETS, address, fixed, is_group
from ecmproto.batch.keys import EMPTY, Keys, has_room, larger_keys, new_keys, slot_of
from ecmproto.errors import ParameterError
from ecmproto.kernel import compiled
from ecmproto.record import new_record

NO_NUMBER = -1
GROUPS = b"\xff" * ADDRESS_OCTETS
"""Stands for all group addresses where they share a number."""

_FIRST_SLOTS = 256
_MOST = (1 << 31) - 1
_ALL_ONES = (1 << 48) - 1


class DestinationCounts:
    """What a table has counted; a record.  All but the first count frames that got no number."""

    destinations: int
    groups: int
    """Frames to group addresses, where these have no number."""
    cut: int
    """Frames cut off before the end of their destination."""
    beyond: int
    """Frames to destinations that came when all numbers were taken."""


class DestinationTable:
    """Numbers the destination MAC addresses of the frames that it is given, batch by batch.

    It takes up to ``max_destinations``.  Group addresses have no number; with ``with_groups``, one for all
    of them, which counts as a destination like any other.  ParameterError for no destination at all, or
    for 2**31 or more.
    """

    def __init__(self, *, max_destinations: int = 4096, with_groups: bool = False) -> None:
        if not 1 <= max_destinations <= _MOST:
            raise ParameterError(name="max_destinations", needed=f"1 to {_MOST}", got=str(max_destinations))
        self.counts = new_record(DestinationCounts)
        self._limit = max_destinations
        self._with_groups = bool(with_groups)
        self._keys = new_keys(_FIRST_SLOTS)
        self._addresses = np.zeros(_FIRST_SLOTS // 2, np.int64)

    @property
    def count(self) -> int:
        """How many destinations have a number."""
        return int(self.counts.destinations)

    def number(
        self, buffer: NDArray[np.uint8], offset: NDArray[np.int64], captured: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the destinations of the Ethernet frames at ``offset``, ``captured`` octets each.

        NO_NUMBER for none.
        """
        numbers = np.full(len(offset), NO_NUMBER, np.int32)
        frames = fixed(buffer), fixed(offset), fixed(captured)
        position = 0
        while position < len(offset):
            position = _number(
                *frames, self._limit, self._with_groups, self._keys, self._addresses, self.counts, numbers,
                position,
            )  # fmt: skip
            if not has_room(self._keys.number, self.count):
                self._keys = larger_keys(self._keys)
                self._addresses = np.concatenate([self._addresses, np.zeros_like(self._addresses)])
        return numbers

    def address(self, number: int) -> bytes:
        """Return a destination's address; IndexError for a number that none has."""
        if not 0 <= number < self.count:
            raise IndexError(number)
        return int(self._addresses[number]).to_bytes(ADDRESS_OCTETS)


@compiled
def _number(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    limit: int,
    with_groups: bool,
    keys: Keys,
    addresses: NDArray[np.int64],
    counts: DestinationCounts,
    numbers: NDArray[np.int32],
    first: int,
) -> int:
    """Number frames from ``first`` on; return the first that ``keys`` has no room for, or the end."""
    low, high, number, mix = keys
    for i in range(first, len(offset)):
        if captured[i] < ADDRESS_OCTETS:
            counts.cut += 1
            continue
        destination = address(buffer, offset[i])
        if is_group(destination):
            if not with_groups:
                counts.groups += 1
                continue
            destination = _ALL_ONES
        slot = slot_of(low, high, number, mix, destination, 0)
        if number[slot] == EMPTY:
            if counts.destinations == limit:
                counts.beyond += 1
                continue
            if not has_room(number, counts.destinations):
                return i
            low[slot], number[slot] = destination, counts.destinations
            addresses[counts.destinations] = destination
            counts.destinations += 1
        numbers[i] = number[slot]
    return len(offset)
