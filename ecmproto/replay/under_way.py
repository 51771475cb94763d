"""The octets of the frames that are still under way in a closed loop."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ecmproto.replay.intake import Taken


class _Stored:
    """A batch with frames that have not come to the port."""

    def __init__(self, taken: Taken, first: int) -> None:
        self.taken = taken
        self.first = first
        self.missing = len(taken.batch)


class FramesUnderWay:
    """Batches by the numbers of their frames, each kept until all its frames have passed."""

    def __init__(self) -> None:
        self._batches: deque[_Stored] = deque()
        self._count = 0

    def add(self, taken: Taken) -> None:
        """Take the next batch of the capture."""
        self._batches.append(_Stored(taken, self._count))
        self._count += len(taken.batch)

    def find(self, serial: NDArray[np.int64]) -> list[tuple[Taken, NDArray[np.int64], NDArray[np.int64]]]:
        """Return where frames are: batches, which of ``serial`` are in each, and their positions there."""
        firsts = np.array([stored.first for stored in self._batches], np.int64)
        which = np.searchsorted(firsts, serial, side="right") - 1
        found = []
        for index in np.unique(which).tolist():
            chosen = np.flatnonzero(which == index)
            stored = self._batches[index]
            found.append((stored.taken, chosen, serial[chosen] - stored.first))
        return found

    def passed(self, serial: NDArray[np.int64]) -> None:
        """Take note that frames have passed, and let go of batches that nobody will ask for again."""
        firsts = np.array([stored.first for stored in self._batches], np.int64)
        which = np.searchsorted(firsts, serial, side="right") - 1
        for index, count in zip(*np.unique(which, return_counts=True), strict=True):
            self._batches[int(index)].missing -= int(count)
        # The last one stays: what comes next may begin in it.
        self._batches = deque(
            stored for stored in self._batches if stored.missing or stored is self._batches[-1]
        )
