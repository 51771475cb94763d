"""The times of a capture: its span, and which frames have none or an earlier one than those before them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.stats.statistics import Span
from ecmproto.stats.timeline import Timeline


class Clock:
    """Follows times as they come, and lets the timeline reach over them."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self.backwards = 0

    def see(self, time_ns: NDArray[np.int64]) -> None:
        """Take in the times of frames in the order in which they stand in the capture."""
        if not len(time_ns):
            return
        low, high = int(time_ns.min()), int(time_ns.max())
        latest = np.maximum.accumulate(time_ns)
        if self._last_ns is not None:
            np.maximum(latest, self._last_ns, out=latest)
        self.backwards += int((time_ns < latest).sum())
        self._timeline.cover(int(time_ns[0]), low, high)
        self._first_ns = low if self._first_ns is None else min(low, self._first_ns)
        self._last_ns = high if self._last_ns is None else max(high, self._last_ns)

    @property
    def span(self) -> Span:
        """From the earliest time to the latest."""
        return Span(first_ns=self._first_ns, last_ns=self._last_ns)
