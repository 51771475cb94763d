"""Estimates for all frames from a sample: rates and shares with 95 % intervals.

Each sampled frame represents N frames. The estimates cover all frames between the first and the last frame of
the capture, sampled or not. There are two sampling designs:

- Random: Each frame is sampled with probability 1/N, independently of other frames. A sum S over the sample
  represents N·S, with the variance N²·(1 − 1/N)·Q. Q is the sum of squares. The order of the frames, for
  example in bursts, has no influence.
- Every N-th: Traffic that repeats in step with N can be missing from the sample or fill the whole sample.
  Sums represent N times their value, as for random samples, but the sample does not determine an interval.

A share is a quotient of two sums, and its variance is computed from residuals instead of values. The
intervals of sums are the score intervals of a Poisson variable with the same relative variance. The intervals
of shares are Wilson's intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.frames.capture.batch import Interface
from ecmproto.frames.stats.roce import ROCE_FIELD, RoceEvents
from ecmproto.frames.stats.statistics import KINDS, Estimate, Sample, Span, kind_numbers
from ecmproto.frames.stats.tally import CountedBatch
from ecmproto.units import NS_PER_S
from ecmproto.wire.formats.infiniband import CNP_OPCODE
from ecmproto.wire.formats.ip import CE

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_RATES = 16
"""Maximum number of sampling rates. Frames with further rates are in no estimate."""
_Z = 1.959964
_Z2 = _Z * _Z
NONE_SEEN = _Z2
"""Upper bound for the number of events if no event is observed."""
_FEW = 3
_MARKED, _UNMARKED = range(2)
_MESSAGES = tuple(number for number, kind in enumerate(KINDS) if kind.group in ("message", "flow control"))
_PRIORITIES = 8
_NO_ITEM = -1


class _Sums(NamedTuple):
    """Sums over the frames of an item, with one entry per sampling rate."""

    values: Floats
    squares: Floats


class _Items:
    """Sums over the frames of each item, by sampling rate. A frame has one item or no item."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._frames = np.zeros((MAX_RATES, 2, 0))
        self._octets = np.zeros((MAX_RATES, 2, 0))

    def add(self, rate: Int64, item: Int64, octets: Int64) -> None:
        """Add frames. ``rate`` and ``item`` contain the numbers of their sampling rates and items."""
        if not self._frames.size and (item == _NO_ITEM).all():
            return
        if self._frames.shape[2] < self._count:
            self._frames, self._octets = (np.zeros((MAX_RATES, 2, self._count)) for _ in range(2))
        for number in np.unique(rate).tolist():
            of_rate = rate == number
            sizes = octets[of_rate].astype(np.float64)
            for sums, values in ((self._frames, np.ones(len(sizes))), (self._octets, sizes)):
                sums[number, 0] += self._by_item(item[of_rate], values)
                sums[number, 1] += self._by_item(item[of_rate], values**2)

    def _by_item(self, item: Int64, values: Floats) -> Floats:
        present = item != _NO_ITEM
        sums: Floats = np.bincount(item[present], weights=values[present], minlength=self._count).astype(
            np.float64
        )
        return sums

    @property
    def used(self) -> list[int]:
        """Items with frames."""
        return np.flatnonzero(self._frames[:, 0].any(axis=0)).tolist() if self._frames.size else []

    def frames(self, item: int) -> _Sums:
        """Return the frame counts of an item as sums by sampling rate."""
        return self._of(self._frames, item)

    def octets(self, item: int) -> _Sums:
        """Return the sizes of an item's frames in octets as sums by sampling rate."""
        return self._of(self._octets, item)

    def _of(self, sums: Floats, item: int) -> _Sums:
        return _Sums(*(sums[:, row, item] if sums.shape[2] else np.zeros(MAX_RATES) for row in range(2)))


class SampleCounts:
    """A counter of sampled frames by sampling rate.

    ``one_in`` is the number of frames per sampled frame, in addition to the sampling rates of the interfaces.
    ``every`` has the same meaning as in `Sample`.
    """

    def __init__(self, one_in: int = 1, every: bool = False, *, queue_pairs: int) -> None:
        self._one_in = one_in
        self._every = every
        self._rates: dict[int, int] = {}
        self._frames = self._unknown = 0
        self._every_frame = _Items(1)
        self._kinds = _KindSums()
        self._priorities = _Items(_PRIORITIES)
        self._marks = _Items(2)
        self._queue_pairs = _Items(queue_pairs)

    @property
    def any(self) -> bool:
        """Whether there were sampled frames."""
        return bool(self._frames or self._unknown)

    def rates(self, counted: CountedBatch, interfaces: Sequence[Interface]) -> Int64 | None:
        """Return the numbers of the sampling rates of the frames of a batch, or ``None`` if no frame is
        sampled.

        The number is −1 if the rate is unknown.
        """
        if self._one_in == 1 and all(each.sampling == 1 for each in interfaces):
            return None
        rates = np.zeros(len(counted.batch), np.int64)
        for index in np.unique(counted.batch.interface).tolist():
            rate = self._one_in * (interfaces[index].sampling if interfaces else 1)
            if rate and rate not in self._rates and len(self._rates) < MAX_RATES:
                self._rates[rate] = len(self._rates)
            rates[counted.batch.interface == index] = self._rates.get(rate, -1)
        self._unknown += int((rates < 0).sum())
        self._frames += int((rates >= 0).sum())
        return rates

    def add(self, counted: CountedBatch, rates: Int64, priorities: Int64, *roce: RoceEvents) -> None:
        """Count the frames of a batch.

        ``rates`` contains the numbers of the sampling rates. ``priorities`` contains the priorities, and −1
        means no priority. ``roce`` contains the RoCE frames of the batch.
        """
        known = rates >= 0
        rate, octets = rates[known], counted.batch.original[known]
        if not len(rate):
            return
        self._every_frame.add(rate, np.zeros(len(rate), np.int64), octets)
        self._priorities.add(rate, priorities[known], octets)
        self._kinds.add(counted, rate, known, octets)
        marks, queue_pairs = np.full((2, len(rates)), _NO_ITEM, np.int64)
        for events in roce:
            rows = counted.columns[ROCE_FIELD].outermost().rows
            is_marked = (events.ecn == CE) & (events.opcode != CNP_OPCODE)
            marks[rows] = np.where(is_marked, _MARKED, _UNMARKED)
            queue_pairs[rows] = events.row
        self._marks.add(rate, marks[known], octets)
        self._queue_pairs.add(rate, queue_pairs[known], octets)

    def sample(self, span: Span, read_frames: int, queue_pair: Callable[[int], str]) -> Sample | None:
        """Return the estimates of the sample, or ``None`` without sampled frames.

        ``span`` covers all ``read_frames``, including frames that the filter rejects. ``queue_pair`` is a
        function that returns the name of a queue pair.
        """
        if not self.any:
            return None
        return Sample(
            one_in=tuple(sorted(self._rates)), every=self._every, frames=self._frames,
            unknown_frames=self._unknown, estimates=tuple(self._estimates(span, read_frames, queue_pair)),
        )  # fmt: skip

    def _estimates(self, span: Span, read: int, queue_pair: Callable[[int], str]) -> Iterator[Estimate]:
        if self._frames < 2:
            return
        # The span of n random frames is (n − 1)/(n + 1) of the whole time on average. For n equally spaced
        # frames, the span is (n − 1)/n of the whole time.
        seconds = span.duration_ns / NS_PER_S * (read if self._every else read + 1) / (read - 1)
        whole = self._every_frame
        if seconds:
            yield self._rate("frames", "", whole.frames(0), seconds)
            yield self._rate("rate", "", whole.octets(0), seconds / 8, bits=True)
            for title, items in self._kinds.sums():
                yield self._rate(f"{title} frames", "", items.frames(0), seconds)
        for priority in self._priorities.used:
            part = self._priorities.frames(priority)
            yield self._share("share of frames", f"priority {priority}", part, whole.frames(0))
        marked, unmarked = (self._marks.frames(item) for item in (_MARKED, _UNMARKED))
        data = _Sums(*(one + other for one, other in zip(marked, unmarked, strict=True)))
        if data.values.any():
            yield self._share("CE share", "", marked, data)
        for number in self._queue_pairs.used if seconds else ():
            name = queue_pair(number)
            yield self._rate("rate", name, self._queue_pairs.octets(number), seconds / 8, bits=True)

    @property
    def _weights(self) -> tuple[Floats, Floats]:
        """Number of frames per sampled frame, and variance factor, by sampling rate."""
        one_in = np.ones(MAX_RATES)
        one_in[: len(self._rates)] = list(self._rates)
        return one_in, one_in**2 * (1 - 1 / one_in)

    def _rate(
        self, figure: str, subject: str, sums: _Sums, seconds: float, *, bits: bool = False
    ) -> Estimate:
        """Return the estimate of the rate of a sum over all frames."""
        one_in, weight = self._weights
        value = float(one_in @ sums.values)
        # About N frames precede the first frame and follow the last frame, each with a variance of N².
        variance = float(weight @ sums.squares) + 2 * (value / self._frames) ** 2
        low, high = sum_interval(value, variance)
        if not value:
            high = NONE_SEEN * float(one_in.max())
        bounds = {} if self._every else {"low": max(0.0, low) / seconds, "high": high / seconds}
        unit: Literal["bits_per_s", "per_s"] = "bits_per_s" if bits else "per_s"
        return Estimate(figure=figure, subject=subject, unit=unit, value=value / seconds, **bounds)

    def _share(self, figure: str, subject: str, part: _Sums, whole: _Sums) -> Estimate:
        """Return the estimate of the share of ``part`` in ``whole``."""
        one_in, weight = self._weights
        total = float(one_in @ whole.values)
        share = float(one_in @ part.values) / total
        if self._every:
            return Estimate(figure=figure, subject=subject, unit="share", value=share)
        spread = part.values * (1 - share) ** 2 + (whole.values - part.values) * share**2
        variance = float(weight @ spread) / total**2
        frames = total**2 / float(weight @ whole.values)
        low, high = share_interval(share, frames if not variance else share * (1 - share) / variance)
        return Estimate(figure=figure, subject=subject, unit="share", value=share, low=low, high=high)


class _KindSums:
    """Sums of messages and flow control frames by frame type. A frame can have several types."""

    def __init__(self) -> None:
        self._items = [_Items(1) for _ in _MESSAGES]

    def add(self, counted: CountedBatch, rate: Int64, known: NDArray[np.bool_], octets: Int64) -> None:
        """Count the frames of a batch in the mask ``known``.

        ``rate`` contains the numbers of their sampling rates.
        """
        protocols = counted.columns["frame.protocols"].values
        numbers = [frozenset(kind_numbers(word)) for word in protocols.words]  # type: ignore[union-attr]
        codes = protocols.codes[known]  # type: ignore[union-attr]
        for kind, items in zip(_MESSAGES, self._items, strict=True):
            of_kind = np.array([kind in each for each in numbers], np.bool_)
            items.add(rate, np.where(of_kind[codes], 0, _NO_ITEM), octets)

    def sums(self) -> Iterator[tuple[str, _Items]]:
        """Yield the title and the sums of each frame type."""
        for kind, items in zip(_MESSAGES, self._items, strict=True):
            if items.used:
                yield KINDS[kind].title, items


def sum_interval(value: float, variance: float) -> tuple[float, float]:
    """Return the 95 % interval of an estimated sum with a variance."""
    if not value or not variance:
        return value, value
    count = value**2 / variance
    half = _Z * math.sqrt(count + _Z2 / 4)
    low, high = count + _Z2 / 2 - half, count + _Z2 / 2 + half
    if count < _FEW:  # the score interval of 1 or 2 is off by a tenth of a frame: Byar's mid-P
        middle = count + 0.5
        low = middle * max(0.0, 1 - 1 / (9 * middle) - _Z / (3 * math.sqrt(middle))) ** 3
    return value / count * low, value / count * high


def share_interval(share: float, frames: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share that was observed in ``frames`` independent frames."""
    middle = (share + _Z2 / (2 * frames)) / (1 + _Z2 / frames)
    spread = max(0.0, share * (1 - share) / frames + _Z2 / (4 * frames**2))
    half = _Z / (1 + _Z2 / frames) * math.sqrt(spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def parse_sampled(text: str) -> tuple[int, bool]:
    """Return the number of frames per sampled frame, and whether exactly every N-th frame was sampled.

    The text is ``1:N`` or ``every:N``. Raises ParameterError for any other text.
    """
    design, _, number = text.partition(":")
    if design not in ("1", "every") or not number.isdecimal() or not 1 <= int(number) < 1 << 32:
        raise ParameterError(name="sampled", needed="1:N or every:N, with N from 1 to 2^32 - 1", got=text)
    return int(number), design == "every"
