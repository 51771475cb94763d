"""Sums over time in bounded memory: equal spans that double, folding neighbours together, as time goes on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPANS = 512
_FIRST_SHIFT = 10
COARSE_SPANS = 64
"""Spans of what is kept for every flow; the second half begins where one of them does."""


def second_half_ns(duration_ns: int) -> int:
    """Return when the second half of ``duration_ns`` begins, for everything that is said of it.

    That is the first of the at most ``COARSE_SPANS`` equal spans of the time, their length a power of two,
    that begins in the second half: at most a thirty-second of the time after its middle.
    """
    shift = max(0, duration_ns.bit_length() - COARSE_SPANS.bit_length() + 1)
    return -(-(duration_ns // 2) >> shift) << shift


class Spans:
    """Rows of sums over ``spans`` spans of ``span_ns`` each, an even number, the first from time 0 on."""

    def __init__(self, rows: int, *, spans: int = SPANS, first_shift: int = _FIRST_SHIFT) -> None:
        self.values = np.zeros((rows, spans))
        self._shift = first_shift

    @property
    def span_ns(self) -> int:
        """Length of a span."""
        return 1 << self._shift

    def add(self, row: NDArray[np.int64], time_ns: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        """Add each ``value`` to its ``row`` at its time, which is not before 0."""
        if not len(row):
            return
        self.reach(int(time_ns.max()))
        flat = row * self.values.shape[1] + (time_ns >> self._shift)
        np.add.at(self.values.reshape(-1), flat, value)

    def reach(self, time_ns: int) -> None:
        """Have the spans reach beyond ``time_ns``."""
        spans = self.values.shape[1]
        while time_ns >> self._shift >= spans:
            self.values[:, : spans // 2] = self.values[:, ::2] + self.values[:, 1::2]
            self.values[:, spans // 2 :] = 0.0
            self._shift += 1

    def grow(self, rows: int) -> None:
        """Have at least ``rows`` rows, the new ones 0."""
        if rows > len(self.values):
            more = np.zeros((max(rows, 2 * len(self.values)) - len(self.values), self.values.shape[1]))
            self.values = np.concatenate([self.values, more])

    def between(self, start_ns: int, end_ns: int) -> NDArray[np.float64]:
        """Return each row's sum over the spans that begin at or after ``start_ns`` and before ``end_ns``."""
        low, high = -(-start_ns >> self._shift), -(-end_ns >> self._shift)
        total: NDArray[np.float64] = self.values[:, low:high].sum(axis=1)
        return total
