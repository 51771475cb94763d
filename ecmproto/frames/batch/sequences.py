"""Sequence numbers of mirrors and agents: what is missing of streams that count what they send."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

_SEQUENCES = 1 << 32
_MAX_LOSS = 1 << 31
"""Sequence numbers that advance by more went back: out of order, or a sender that started anew."""
_MAX_STREAMS = 65536
"""Streams whose sequence numbers are followed from batch to batch."""


class SequenceGaps:
    """The gaps in sequence numbers of 32 bits, by stream."""

    def __init__(self) -> None:
        self.lost = 0
        """Sequence numbers that are missing."""
        self._last: dict[int, int] = {}

    def __bool__(self) -> bool:
        """Return whether any stream was counted."""
        return bool(self._last)

    def add(self, streams: Int64, numbers: Int64) -> None:
        """Count the gaps of sequence numbers, each of a stream, in the order in which they came."""
        if not len(streams):
            return
        order = np.argsort(streams, kind="stable")
        streams, numbers = streams[order], numbers[order]
        starts = np.flatnonzero(np.diff(streams, prepend=streams[0] - 1))
        keys, before = streams[starts].tolist(), np.roll(numbers, 1)
        before[starts] = [
            self._last.get(key, number - 1)
            for key, number in zip(keys, numbers[starts].tolist(), strict=True)
        ]
        steps = (numbers - before) % _SEQUENCES
        self.lost += int((steps[(steps > 1) & (steps < _MAX_LOSS)] - 1).sum())
        ends = np.append(starts[1:], len(streams)) - 1
        for key, number in zip(keys, numbers[ends].tolist(), strict=True):
            if key in self._last or len(self._last) < _MAX_STREAMS:
                self._last[key] = number
