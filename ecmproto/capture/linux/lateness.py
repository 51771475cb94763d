"""How late frames left behind their times: percentiles in bounded memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITS = 7
_STEPS = 1 << _BITS
"""Buckets for each doubling: percentiles are right to 1 in 128."""
_PENDING = 4096


class Lateness:
    """Counts of ns in buckets: those below 256 one by one, larger ones 128 for each doubling."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros((64 - _BITS) * _STEPS, dtype=np.int64)
        self._due: list[int] = []
        self._left: list[int] = []
        self.greatest_ns = 0

    def add(self, left_ns: int, each_ns: int, due_ns: list[int]) -> None:
        """Count frames due at ``due_ns``, the first of which left at ``left_ns`` and the others ``each_ns``
        apart."""
        self._due += due_ns
        self._left += range(left_ns, left_ns + each_ns * len(due_ns), each_ns)
        if len(self._due) >= _PENDING:
            self._settle()

    def _settle(self) -> None:
        if not self._due:
            return
        late = np.maximum(np.array(self._left, dtype=np.int64) - np.array(self._due, dtype=np.int64), 0)
        self._due.clear()
        self._left.clear()
        self.greatest_ns = max(self.greatest_ns, int(late.max()))
        # frexp gives the position of the highest bit; what lies below it by 8 bits is not looked at
        shift = np.maximum(np.frexp(late.astype(np.float64))[1].astype(np.int64) - _BITS - 1, 0)
        self._counts += np.bincount(shift * _STEPS + (late >> shift), minlength=len(self._counts))

    def percentile_ns(self, percent: int) -> int:
        """Return the nearest-rank percentile, at most 1 in 128 too large; 0 where nothing was counted."""
        self._settle()
        total = int(self._counts.sum())
        if not total:
            return 0
        rank = -(-total * percent // 100)
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        shift = max(0, bucket // _STEPS - 1)
        upper = ((bucket - shift * _STEPS + 1) << shift) - 1
        return min(upper, self.greatest_ns)
