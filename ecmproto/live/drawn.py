"""Random numbers drawn ahead: for kernels that are called for every few frames.

Handing numpy's own generator to a compiled function takes longer than a hundred frames do.  The machines of
the mechanisms ask for ``random()`` alone; they get the same numbers in the same order from here.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import interface
from ecmproto.record import new_record

_AHEAD = 8192


@interface
class _Source(Protocol):
    def random(self) -> float:
        """Return a number in [0, 1)."""


class Taken:
    """How many numbers were taken since the last refill; a record (``ecmproto.record``)."""

    numbers: int


class Drawn(NamedTuple):
    """What stands in for a `numpy.random.Generator`."""

    ahead: NDArray[np.float64]
    taken: Taken

    def random(self) -> float:
        """Return the next number."""
        # A caller that forgets to refill gets old numbers again, never what lies behind the array.
        number = self.ahead[self.taken.numbers % len(self.ahead)]
        self.taken.numbers += 1
        return float(number)


class Draws:
    """A generator that draws ahead: its ``source`` goes into machines, `refill` is called between kernels."""

    def __init__(self, seed: int | list[int]) -> None:
        self._generator = np.random.default_rng(seed)
        self.source = Drawn(self._generator.random(_AHEAD), new_record(Taken))

    def refill(self) -> None:
        """Draw as many numbers as were taken."""
        ahead, taken = self.source
        used = min(int(taken.numbers), _AHEAD)
        if 2 * used < _AHEAD:
            return
        ahead[: _AHEAD - used] = ahead[used:].copy()
        ahead[_AHEAD - used :] = self._generator.random(used)
        taken.numbers = 0
