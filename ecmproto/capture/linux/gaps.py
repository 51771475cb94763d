"""Gaps between frames that were sent: whether what each does for a time was ever left undone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCounts:
    """The longest gap between two frames; how many were longer than ``limit_ns``.

    ``excess_ns`` is the time in all that lay beyond the limit, ``skipped`` how many frames were left out
    because the next one's time had come.  All but the last may be less, none more.
    """

    limit_ns: int
    longest_ns: int
    longer: int
    excess_ns: int
    skipped: int


class Gaps:
    """Counts gaps, each as long as it can have been.

    A frame leaves between the beginning and the end of the call that takes it: a gap is from the earliest
    moment of one frame to the latest of the next.
    """

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._longest_ns = self._longer = self._excess_ns = 0
        self._earliest_ns: int | None = None
        self._counted_to_ns = 0
        self.skipped = 0

    def add(self, earliest_ns: int, latest_ns: int) -> None:
        """Take in the next frame, which left between these moments."""
        if self._earliest_ns is not None:
            gap_ns = latest_ns - self._earliest_ns
            self._longest_ns = max(self._longest_ns, gap_ns)
            if gap_ns > self._limit_ns:
                self._longer += 1
                # gaps overlap by the time that a call took, which counts once
                self._excess_ns += latest_ns - max(self._earliest_ns + self._limit_ns, self._counted_to_ns)
                self._counted_to_ns = latest_ns
        self._earliest_ns = earliest_ns

    def counts(self) -> GapCounts:
        """Return what was counted until now."""
        return GapCounts(
            limit_ns=self._limit_ns,
            longest_ns=self._longest_ns,
            longer=self._longer,
            excess_ns=self._excess_ns,
            skipped=self.skipped,
        )
