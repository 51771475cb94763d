"""Sums over time in bounded memory: equal spans that double, folding neighbours together, as time goes on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPANS = 512
_FIRST_SHIFT = 10


class Spans:
    """Rows of sums over ``SPANS`` spans of ``span_ns`` each, the first from time 0 on."""

    def __init__(self, rows: int) -> None:
        self.values = np.zeros((rows, SPANS))
        self._shift = _FIRST_SHIFT

    @property
    def span_ns(self) -> int:
        """Length of a span."""
        return 1 << self._shift

    def add(self, row: NDArray[np.int64], time_ns: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        """Add each ``value`` to its ``row`` at its time, which is not before 0."""
        if not len(row):
            return
        self.reach(int(time_ns.max()))
        flat = row * SPANS + (time_ns >> self._shift)
        self.values += np.bincount(flat, value, minlength=self.values.size).reshape(self.values.shape)

    def reach(self, time_ns: int) -> None:
        """Let the spans reach beyond ``time_ns``."""
        while time_ns >> self._shift >= SPANS:
            self.values[:, : SPANS // 2] = self.values[:, ::2] + self.values[:, 1::2]
            self.values[:, SPANS // 2 :] = 0.0
            self._shift += 1

    def between(self, start_ns: int, end_ns: int) -> NDArray[np.float64]:
        """Return each row's sum over the spans that begin at or after ``start_ns`` and before ``end_ns``."""
        low, high = -(-start_ns >> self._shift), -(-end_ns >> self._shift)
        total: NDArray[np.float64] = self.values[:, low:high].sum(axis=1)
        return total
