"""Counts over time in a bounded number of intervals, however long a capture gets.

Intervals are of one width, from the first frame on.  When the frames no longer fit into as many as there is
room for, intervals are joined, two or five at a time, so that widths go 1, 2, 10, 20, 100, …: what comes out
depends on the frames alone, not on how they were batched.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

FIRST_WIDTH_NS = 100
MOST_INTERVALS = 1000
"""How many intervals there may be; after joining there are a fifth of that or more."""
MOST_ASKED_INTERVALS = 10_000
"""The same where their width was asked for."""

_JOINED = (2, 5)


class Series:
    """Numbers over the intervals of a timeline: a row for each thing that is counted."""

    def __init__(self, most: int, rows: int = 0) -> None:
        self.values: Int64 = np.zeros((rows, most), np.int64)

    def grow(self, rows: int) -> None:
        """Make room for ``rows`` rows."""
        have = len(self.values)
        if have < rows:
            wider = np.zeros((max(rows, 2 * have), self.values.shape[1]), np.int64)
            wider[:have] = self.values
            self.values = wider

    def move(self, used: int, first: int, factor: int, new_first: int) -> None:
        """Join each ``factor`` of the ``used`` intervals, the first of which has number ``first``."""
        places = (np.arange(used) + first) // factor - new_first
        starts = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
        moved = np.zeros_like(self.values)
        moved[:, places[starts]] = np.add.reduceat(self.values[:, :used], starts, axis=1)
        self.values = moved


class Timeline:
    """The intervals, and all series over them.

    ``interval_ns`` is their width to begin with, None for one that suits the capture.
    """

    def __init__(self, interval_ns: int | None = None) -> None:
        self.width_ns = FIRST_WIDTH_NS if interval_ns is None else interval_ns
        self.most = MOST_INTERVALS if interval_ns is None else MOST_ASKED_INTERVALS
        self.origin_ns: int | None = None
        """Where interval 0 starts; None before the first frame."""
        self.first = 0
        self._last = -1
        self._factors = itertools.cycle(_JOINED)
        self._series: list[Series] = []

    def series(self, rows: int = 0) -> Series:
        """Return a new series."""
        made = Series(self.most, rows)
        self._series.append(made)
        return made

    @property
    def used(self) -> int:
        """How many intervals there are."""
        return self._last - self.first + 1

    @property
    def start_ns(self) -> int:
        """Where the first interval starts; 0 without any."""
        return (self.origin_ns or 0) + self.first * self.width_ns

    def cover(self, first_ns: int, low_ns: int, high_ns: int) -> None:
        """Let the intervals reach from ``low_ns`` to ``high_ns``; at first they start at ``first_ns``.

        Times are Python's, so that none is too far away.
        """
        if self.origin_ns is None:
            self.origin_ns = first_ns
        low = (low_ns - self.origin_ns) // self.width_ns
        high = (high_ns - self.origin_ns) // self.width_ns
        used, old_first, factor = self.used, self.first, 1
        if used:
            low, high = min(low, self.first), max(high, self._last)
        while high - low >= self.most:
            joined = next(self._factors)
            low, high, factor = low // joined, high // joined, factor * joined
        self.width_ns *= factor
        if used and (factor > 1 or low < old_first):
            for series in self._series:
                series.move(used, old_first, factor, low)
        self.first, self._last = low, high

    def slots(self, time_ns: Int64) -> Int64:
        """Return in which interval each time is, of those that the intervals cover."""
        return (time_ns - (self.origin_ns or 0)) // self.width_ns - self.first
