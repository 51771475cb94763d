"""Chance that is the same in every Python: what a seed and an index draw stays what it was."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_INDEX_BITS = 64


class Dice:
    """Draws for one case of a campaign.

    Only what Python promises to keep for a seed is used (``random`` and ``getrandbits``): ``choice``,
    ``shuffle`` and their like have changed between versions.
    """

    __slots__ = ("_bits", "_fraction")

    def __init__(self, seed: int, index: int) -> None:
        source = random.Random(seed << _INDEX_BITS | index)
        self._fraction, self._bits = source.random, source.getrandbits

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count`` − 1; 0 for a count of 0."""
        return int(self._fraction() * count)

    def between(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both included."""
        return low + int(self._fraction() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """Return one of ``items``."""
        return items[int(self._fraction() * len(items))]

    def chance(self, one_in: int) -> bool:
        """Return True once in ``one_in`` times."""
        return int(self._fraction() * one_in) == 0

    def bits(self, count: int) -> int:
        """Return a number of ``count`` bits."""
        return self._bits(count) if count else 0

    def octets(self, count: int) -> bytes:
        """Return ``count`` octets."""
        return self.bits(8 * count).to_bytes(count, "big")
