"""The least that still fails: fewer items, then fewer and simpler octets.

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002): parts are
left out, large ones first, as long as what is left fails.  A budget of tries bounds what a slow target costs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

DEFAULT_TRIES = 500


class Budget:
    """How often, and for how long, something may still be tried."""

    def __init__(self, tries: int = DEFAULT_TRIES, *, seconds: float = math.inf) -> None:
        self.left = tries
        self._end = time.monotonic() + seconds

    def spend(self) -> bool:
        """Return whether there was a try left, and take it."""
        self.left = self.left - 1 if time.monotonic() < self._end else -1
        return self.left >= 0


def fewest(items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: Budget) -> Sequence[T]:
    """Return a part of ``items``, in order, that fails though none of its items is left out in vain.

    ``items`` as a whole fail.  With the budget used up, the least found so far.
    """
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            rest = [*items[:start], *items[start + size :]]
            if rest and budget.spend() and fails(rest):
                items = rest
                parts = max(2, parts - 1)
                break
        else:
            if size == 1 or budget.left <= 0:
                break
            parts = min(len(items), 2 * parts)
    return items


def simplest(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return the least of ``octets`` that fail, as many of them zero as can be.

    ``octets`` as a whole fail.  They are cut at the end first, since that keeps the meaning of what is left.
    """
    octets = _cut(octets, fails, budget)
    octets = bytes(fewest(octets, lambda part: fails(bytes(part)), budget))
    return _zeroed(octets, fails, budget)


def _cut(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return the shortest beginning that halving finds."""
    step = len(octets) // 2
    while step:
        while len(octets) > step and budget.spend() and fails(octets[:-step]):
            octets = octets[:-step]
        step //= 2
    return octets


def _zeroed(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return ``octets`` with zeros wherever they do not matter, stretch by stretch."""
    size = len(octets)
    while size:
        for start in range(0, len(octets), size):
            part = octets[start : start + size]
            zeroed = octets[:start] + bytes(len(part)) + octets[start + size :]
            if any(part) and budget.spend() and fails(zeroed):
                octets = zeroed
        size //= 2
    return octets
