"""Time differences of equal frames in two captures: offset, drift, and remaining differences."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ecmproto.tools.diff.digests import NO_TIME
from ecmproto.tools.diff.rules import Alignment

Int64 = NDArray[np.int64]

_SAMPLE = 1 << 17
"""Maximum number of pairs for a median; more pairs are sampled at equal intervals."""
_MAX_PPM = 500
_MIN_PAIRS = 8
"""Minimum number of pairs to determine a drift."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimeDifference:
    """Times of frames in the second capture relative to the same frames in the first capture, in ns."""

    pairs: int
    """Number of compared frames with a time in both captures."""
    differing: int
    """Number of frames with different times, before any correction."""
    beyond: int
    """Number of frames whose times differ by more than the tolerance, after the correction."""
    offset_ns: int
    min_ns: int
    max_ns: int
    drift_ppm: float
    """Relative rate of the second clock in parts per million; NaN for too few pairs or no elapsed time."""
    has_drift: bool
    """Whether the times drift as clocks do, rather than because of delays of frames."""
    low_ns: int
    """5th percentile of the time differences, relative to the median or, with a drift, to the drift line."""
    high_ns: int
    """95th percentile of the time differences, relative to the median or, with a drift, to the drift line."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Lead of the second capture's times over the first capture's times.

    The lead is an offset plus a fraction of the elapsed time.
    """

    offset_ns: int = 0
    drift: float = 0.0
    origin_ns: int = 0

    def ahead_ns(self, times_ns: Int64) -> Int64:
        """Return the lead in ns at times of the first capture."""
        if not self.drift:
            return np.full(len(times_ns), self.offset_ns)
        passed = (times_ns - self.origin_ns).astype(np.float64)
        return self.offset_ns + np.rint(passed * self.drift).astype(np.int64)


class TimeSample:
    """The times of pairs of frames, sampled for medians, and their minimum and maximum difference."""

    def __init__(self) -> None:
        self.pairs: int = 0
        self.differing: int = 0
        self.beyond: int = 0
        self._minimum = self._maximum = 0
        self._times: list[Int64] = []
        self._apart: list[Int64] = []

    def add(self, times_a: Int64, times_b: Int64) -> None:
        """Add pairs in which both frames have a time."""
        if not len(times_a):
            return
        apart = times_b - times_a
        self._minimum = int(min(apart.min(), self._minimum if self.pairs else apart.min()))
        self._maximum = int(max(apart.max(), self._maximum if self.pairs else apart.max()))
        self.pairs += len(apart)
        self.differing += int(np.count_nonzero(apart))
        step = -(-len(apart) // _SAMPLE)
        self._times.append(times_a[::step])
        self._apart.append(apart[::step])

    def clock(self, align_time: Alignment) -> Clock:
        """Return the offset and drift to subtract from the times of the second capture."""
        if align_time == "none" or not self.pairs:
            return Clock()
        times, apart = np.concatenate(self._times), np.concatenate(self._apart)
        if align_time == "offset":
            return Clock(offset_ns=_median(apart))
        drift, origin, offset = _line(times, apart)
        return Clock(offset_ns=offset, drift=0.0 if np.isnan(drift) else drift, origin_ns=origin)

    def difference(self) -> TimeDifference | None:
        """Return the time differences of the pairs added so far; ``None`` without pairs."""
        if not self.pairs:
            return None
        times, apart = np.concatenate(self._times), np.concatenate(self._apart)
        drift, origin, offset = _line(times, apart)
        median = _median(apart)
        low, high = _percentiles(apart - median)
        has_drift = 0 < abs(drift) * 1e6 <= _MAX_PPM  # not for NaN
        if has_drift:
            clock = Clock(offset_ns=offset, drift=drift, origin_ns=origin)
            lowest, highest = _percentiles(apart - clock.ahead_ns(times))
            has_drift = abs(drift) * int(times.max() - times.min()) > highest - lowest
            low, high = (lowest, highest) if has_drift else (low, high)
        return TimeDifference(
            pairs=self.pairs,
            differing=self.differing,
            beyond=self.beyond,
            offset_ns=median,
            min_ns=self._minimum,
            max_ns=self._maximum,
            drift_ppm=drift * 1e6,
            has_drift=has_drift,
            low_ns=low,
            high_ns=high,
        )


def _percentiles(values: Int64) -> tuple[int, int]:
    ordered = np.sort(values)
    return int(ordered[len(ordered) * 5 // 100]), int(ordered[-1 - len(ordered) * 5 // 100])


def _median(values: Int64) -> int:
    middle = len(values) // 2
    return int(np.partition(values, middle)[middle])


def _line(times: Int64, apart: Int64) -> tuple[float, int, int]:
    """Return the slope, the origin and the offset of a line through time differences.

    The line is determined from the medians of two halves. With too few pairs, or without elapsed time, the
    slope is NaN and the offset is the median.
    """
    if len(times) < _MIN_PAIRS:
        return float("nan"), 0, _median(apart)
    order = np.argsort(times, kind="stable")
    times, apart = times[order], apart[order]
    half = len(times) // 2
    early, late = _median(times[:half]), _median(times[half:])
    if late <= early:
        return float("nan"), 0, _median(apart)
    first, second = _median(apart[:half]), _median(apart[half:])
    slope = (second - first) / (late - early)
    middle = early + (late - early) // 2
    expected = np.rint((times - middle).astype(np.float64) * slope).astype(np.int64)
    return slope, middle, _median(apart - expected)


def timed_pairs(times_a: Int64, times_b: Int64) -> NDArray[np.bool_]:
    """Return a mask of the pairs with a time in both captures."""
    mask: NDArray[np.bool_] = (times_a != NO_TIME) & (times_b != NO_TIME)
    return mask
