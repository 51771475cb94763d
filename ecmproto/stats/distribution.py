"""Distributions of whole numbers in bounded memory: least, mean, greatest, and percentiles to 1 in 32.

Numbers are counted in buckets: those up to 63 one by one, larger ones in 32 buckets for each doubling, and
negative ones likewise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.kernel import compiled
from ecmproto.stats.tally import NO_NUMBER

Int64 = NDArray[np.int64]

_STEPS = 32
_BITS = 32
_SIDE = _STEPS * (_BITS - 5) + _STEPS
"""Buckets for numbers that are not negative."""
_LEAST, _GREATEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What became of many numbers.

    Percentiles are nearest-rank, and read off buckets: at most 1/32 of the number beyond it.
    """

    count: int
    minimum: int
    mean: float
    maximum: int
    p50: int
    p90: int
    p99: int

    def scaled(self, factor: int) -> Distribution:
        """Return the distribution of the numbers times ``factor``."""
        return Distribution(
            count=self.count,
            minimum=factor * self.minimum,
            mean=factor * self.mean,
            maximum=factor * self.maximum,
            p50=factor * self.p50,
            p90=factor * self.p90,
            p99=factor * self.p99,
        )


@compiled
def _spread(rows: Int64, values: Int64, counts: Int64, sums: Int64, least: Int64, greatest: Int64) -> None:
    for i in range(len(rows)):
        row = rows[i]
        if row == NO_NUMBER:
            continue
        value = values[i]
        sums[row] += value
        least[row] = min(least[row], value)
        greatest[row] = max(greatest[row], value)
        rest, shift = abs(value), 0
        while rest >= 2 * _STEPS:
            rest >>= 1
            shift += 1
        place = _STEPS * shift + rest
        counts[row, _SIDE + place if value >= 0 else _SIDE - 1 - place] += 1


class Distributions:
    """Distributions of numbers of at most 32 bits and a sign, one for each row."""

    def __init__(self) -> None:
        self._counts: Int64 = np.zeros((0, 2 * _SIDE), np.int64)
        self._ends: Int64 = np.zeros((3, 0), np.int64)

    def add(self, rows: Int64, values: NDArray[np.integer], count: int) -> None:
        """Add a value to each row given, NO_NUMBER for none, of the ``count`` rows that there are."""
        self._grow(count)
        _spread(fixed(rows), fixed(values.astype(np.int64)), self._counts, *self._ends)

    def row(self, row: int) -> Distribution | None:
        """Return the distribution of a row; None where it has no values."""
        if row >= len(self._counts) or not self._counts[row].any():
            return None
        counts, (total, least, greatest) = self._counts[row], (int(end[row]) for end in self._ends)
        count = int(counts.sum())
        until = np.cumsum(counts)
        ranks = [-(-count * percent // 100) for percent in (50, 90, 99)]
        p50, p90, p99 = (
            min(max(_upper_end(int(np.searchsorted(until, rank))), least), greatest) for rank in ranks
        )
        return Distribution(
            count=count, minimum=least, mean=total / count, maximum=greatest, p50=p50, p90=p90, p99=p99
        )

    def _grow(self, rows: int) -> None:
        have = len(self._counts)
        if have < rows:
            room = max(rows, 2 * have)
            counts = np.zeros((room, 2 * _SIDE), np.int64)
            counts[:have] = self._counts
            ends = np.tile(np.array([[0], [_LEAST], [_GREATEST]], np.int64), (1, room))
            ends[:, :have] = self._ends
            self._counts, self._ends = counts, ends


def _upper_end(bucket: int) -> int:
    """Return the greatest number that falls into a bucket."""
    if bucket < _SIDE:
        return -_lower_end(_SIDE - 1 - bucket)
    return _lower_end(bucket - _SIDE + 1) - 1


def _lower_end(place: int) -> int:
    """Return the least number, not negative, of the bucket at ``place`` of its side."""
    if place < 2 * _STEPS:
        return place
    shift = place // _STEPS - 1
    return (place - _STEPS * shift) << shift
