"""Reduction of failing inputs to fewer items, and then to fewer and simpler octets.

The reduction uses delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input", 2002). Parts are removed while the rest fails, large parts first. A budget of tries limits the cost
for a slow target.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

DEFAULT_TRIES = 500


def unlimited() -> float:
    """Return infinity as the number of remaining seconds."""
    return math.inf


class Budget:
    """The remaining tries and time."""

    def __init__(self, tries: int = DEFAULT_TRIES, *, seconds: float = math.inf) -> None:
        self.left: int = tries
        self._end = time.monotonic() + seconds

    def spend(self) -> bool:
        """Use one try, and return whether the budget allowed the try."""
        self.left = self.left - 1 if time.monotonic() < self._end else -1
        return self.left >= 0


def fewest(items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: Budget) -> Sequence[T]:
    """Return a minimal part of ``items`` that fails, in order.

    All ``items`` together must fail. If the budget is used up, return the smallest failing part found.
    """
    return _without(items, lambda part: budget.spend() and fails(part), budget)


def shortest_beginning(
    items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: Budget
) -> Sequence[T]:
    """Return the shortest failing prefix of an input, if all longer prefixes also fail."""
    fine, failing = 0, len(items)
    while failing - fine > 1 and budget.spend():
        middle = (fine + failing) // 2
        if fails(items[:middle]):
            failing = middle
        else:
            fine = middle
    return items[:failing]


def simplest(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return the fewest octets that fail, mostly with zeros.

    The complete ``octets`` must fail. The octets are truncated first, because truncation preserves the
    meaning of the remaining octets. Octets are set to zero before octets are removed, because zeros are
    interchangeable.
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
    """Return ``items`` without items that are not needed for the failure. Large parts are removed first."""
    # tags and words have lengths of powers of two: the octets after a removed part stay aligned
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
    """Return the shortest failing prefix that truncation by halving steps finds."""
    step = len(octets) // 2
    while step:
        while len(octets) > step and fails(octets[:-step]):
            octets = octets[:-step]
        step //= 2
    return octets


def _zeroed(octets: bytes, fails: Callable[[bytes], bool], budget: Budget) -> bytes:
    """Return ``octets`` in which spans that are not needed for the failure are zero."""
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
    """Return ``octets`` with smaller length fields, and without the octets beyond these lengths."""
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
    """Yield ``octets`` with a length field reduced by ``step``.

    The octets are removed after the length field in the first result, and at the end in the second result.
    """
    following = at + size
    length = int.from_bytes(octets[at:following]) - step
    if length >= 0:
        head = octets[:at] + length.to_bytes(size)
        yield head + octets[following + step :]
        yield head + octets[following : len(octets) - step]
