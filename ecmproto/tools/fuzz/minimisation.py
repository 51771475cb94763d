"""The reduction of failing inputs: fewer items, then fewer and simpler octets.

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002): parts are
left out, large ones first, as long as the rest fails.  A budget of tries bounds the cost of a slow target.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

DEFAULT_TRIES = 500


def unlimited() -> float:
    """Return infinity, the seconds left without a limit."""
    return math.inf


class Budget:
    """The remaining tries and time."""

    def __init__(self, tries: int = DEFAULT_TRIES, *, seconds: float = math.inf) -> None:
        self.left: int = tries
        self._end = time.monotonic() + seconds

    def spend(self) -> bool:
        """Return whether a try was left, and use it."""
        self.left = self.left - 1 if time.monotonic() < self._end else -1
        return self.left >= 0


def fewest(items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: Budget) -> Sequence[T]:
    """Return a minimal failing part of ``items``, in order.

    ``items`` as a whole fail.  With the budget used up, the smallest part found so far.
    """
    return _without(items, lambda part: budget.spend() and fails(part), budget)


def shortest_beginning(
    items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: Budget
) -> Sequence[T]:
    """Return the shortest failing beginning of an input read in order, whose longer ones all fail."""
    fine, failing = 0, len(items)
    while failing - fine > 1 and budget.spend():
        middle = (fine + failing) // 2
        if fails(items[:middle]):
            failing = middle
        else:
            fine = middle
    return items[:failing]


def simplest(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return the fewest failing ``octets``, with most of them zero.

    ``octets`` as a whole fail.  They are truncated at the end first, since that keeps the meaning of the
    rest, and zeroed before any is removed: zeros are interchangeable.
    """
    tried: dict[bytes, bool] = {}

    def fails_too(part: bytes) -> bool:
        if part not in tried:
            tried[part] = budget.spend() and fails(part)
        return tried[part]

    octets = _cut(octets, fails_too)
    octets = _zeroed(octets, fails_too, budget)
    octets = _shortened(octets, fails_too, budget)
    octets = bytes(_without(octets, lambda part: fails_too(bytes(part)), budget))
    # moved octets may have no meaning at their new offset
    return _zeroed(octets, fails_too, budget)


def _without(items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: Budget) -> Sequence[T]:
    """Return ``items`` without those that are not needed to fail; large parts are tried first."""
    # powers of two, as tags and words have: octets after them stay aligned
    size = 1 << max(1, len(items) // 2).bit_length() - 1
    while budget.left > 0:
        before, start = len(items), 0
        while start < len(items) and budget.left > 0:
            rest = [*items[:start], *items[start + size :]]
            if rest and fails(rest):
                items = rest
            else:
                start += size
        if size == 1 and len(items) in (1, before):
            break
        size = max(1, size // 2)
    return items


def _cut(octets: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Return the shortest beginning found by halving."""
    step = len(octets) // 2
    while step:
        while len(octets) > step and fails(octets[:-step]):
            octets = octets[:-step]
        step //= 2
    return octets


def _zeroed(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return ``octets`` with zeros wherever they do not matter, span by span."""
    size = len(octets)
    while size and budget.left > 0:
        for start in range(0, len(octets), size):
            part = octets[start : start + size]
            if any(part) and budget.left > 0:
                zeroed = octets[:start] + bytes(len(part)) + octets[start + size :]
                octets = zeroed if fails(zeroed) else octets
        size //= 2
    return octets


def _shortened(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return ``octets`` with length fields and the octets they count reduced together."""
    for size in (2, 1):
        for at in range(len(octets) - size):
            step = int.from_bytes(octets[at : at + size])
            if step > len(octets) - at - size:
                continue
            while step and budget.left > 0:
                shorter = next(filter(fails, _less(octets, at, size, step)), None)
                if shorter is None:
                    step //= 2
                else:
                    octets = shorter
    return octets


def _less(octets: bytes, at: int, size: int, step: int) -> Iterator[bytes]:
    """Yield ``octets`` with a length reduced by ``step``, and the octets after it, or at the end, too."""
    behind = at + size
    length = int.from_bytes(octets[at:behind]) - step
    if length >= 0:
        head = octets[:at] + length.to_bytes(size)
        yield head + octets[behind + step :]
        yield head + octets[behind : len(octets) - step]
