"""Counting in bounded memory: counted batches, frame types, keys, time intervals and distributions.

All intervals have the same width and start at multiples of this width from 1970 on. If the number of
intervals would exceed the maximum, adjacent intervals are joined, alternately two or five at a time. The
width is thus multiplied by 2, 10, 20, 100 and so on. The result depends only on the frames, not on the
batches, and separate counts can be joined.

Distributions count numbers in buckets. Each number up to 63 has its own bucket. Larger numbers have 32
buckets per doubling. Negative numbers have the same buckets. Percentiles are exact to 1 in 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.batch.keys import EMPTY, Keys, new_keys, slot_of
from ecmproto.frames.capture.batch import Batch, Int64
from ecmproto.frames.columns import Column, Columns
from ecmproto.frames.stats.statistics import Distribution
from ecmproto.kernels.kernel import over_batches
from ecmproto.values import dataclass

NO_SLOT = -1
NO_NUMBER = -1
FARTHEST_NS = 1 << 62
"""Bound of usable times, in ns from 1970. Differences between usable times fit into 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedBatch:
    """The counted frames of a batch. Each array has one entry per frame."""

    batch: Batch
    columns: Columns
    slots: Int64
    """Interval number of each frame, or NO_SLOT for a frame without a time."""

    def values(self, name: str, rows: NDArray[np.int32]) -> Int64:
        """Return the outermost value of a numeric field for ``rows``, or 0 for a frame without the field."""
        return _of_rows(self.columns[name].outermost(), rows).astype(np.int64)

    def addresses(self, name: str, rows: NDArray[np.int32]) -> Int64:
        """Return the outermost MAC address of ``rows`` as numbers, or 0 for a frame without an address."""
        octets = np.zeros((len(rows), 8), np.uint8)
        octets[:, 2:] = _of_rows(self.columns[name].outermost(), rows)
        return octets.view(">i8").reshape(-1).astype(np.int64)


def usable_times(batch: Batch) -> NDArray[np.bool_]:
    """Return a mask of the frames with a usable time."""
    usable = (batch.time_ns < FARTHEST_NS) & (batch.time_ns > -FARTHEST_NS)
    return usable if batch.timed is None else usable & batch.timed


def counted_batch(batch: Batch, columns: Columns, slots: Int64, timed: NDArray[np.bool_]) -> CountedBatch:
    """Return a batch with its columns. ``slots`` contains the intervals of the frames in ``timed``."""
    every = np.full(len(batch), NO_SLOT, np.int64)
    every[timed] = slots
    return CountedBatch(batch=batch, columns=columns, slots=every)


def _of_rows(column: Column, rows: NDArray[np.int32]) -> NDArray[Any]:
    values = column.values
    assert isinstance(values, np.ndarray)
    if column.is_whole:
        return values[rows]
    if np.array_equal(column.rows, rows):
        return values
    indices = np.searchsorted(column.rows, rows)
    present = indices < len(column)
    present[present] = column.rows[indices[present]] == rows[present]
    result = np.zeros((len(rows), *values.shape[1:]), values.dtype)
    result[present] = values[indices[present]]
    return result


def address_octets(number: int) -> bytes | None:
    """Return the octets of a MAC address, or ``None`` for 0."""
    return number.to_bytes(6) if number else None


@over_batches
def tally(
    codes: Int64,
    slots: Int64,
    octets: Int64,
    kind_numbers: Int64,
    bounds: Int64,
    frames: Int64,
    octets_of: Int64,
    frames_in: Int64,
    octets_in: Int64,
) -> None:
    """Count each frame for all frame types of its code.

    The frame types of a code are ``kind_numbers[bounds[code]:bounds[code + 1]]``. ``frames`` and
    ``octets_of`` have one entry per frame type. ``frames_in`` and ``octets_in`` have one entry per frame type
    and interval, and exclude frames without a time.
    """
    for i in range(len(codes)):
        slot, size = slots[i], octets[i]
        for at in range(bounds[codes[i]], bounds[codes[i] + 1]):
            kind = kind_numbers[at]
            frames[kind] += 1
            octets_of[kind] += size
            if slot != NO_SLOT:
                frames_in[kind, slot] += 1
                octets_in[kind, slot] += size


def count_at(table: Int64, rows: Int64, columns: Int64, amounts: Int64 | int = 1) -> None:
    """Add ``amounts`` to cells of a table. A cell can occur several times."""
    np.add.at(table.reshape(-1), rows * table.shape[1] + columns, amounts)


class Numbering:
    """A numbering of keys from 0 on, in the order of their first appearance.

    A key is a pair of 64-bit numbers.

    At most ``capacity`` keys get a number, so that memory use is bounded. Further keys are counted.
    """

    def __init__(self, capacity: int) -> None:
        self.count: int = 0
        self.left_out: int = 0
        """Number of items whose key has no number."""
        self._entries = np.zeros((capacity, 2), np.int64)
        self._keys: Keys | None = None
        """Hash table, allocated for the first key. Many numberings never get a key."""

    @property
    def is_full(self) -> bool:
        """Whether there were more keys than numbers."""
        return self.left_out > 0

    def numbers(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> Int64:
        """Return the number of each key, or NO_NUMBER for a key without a number."""
        numbers = np.empty(len(low), np.int64)
        if len(low):
            if self._keys is None:
                self._keys = new_keys(1 << (2 * len(self._entries)).bit_length())
            self.count = _number(
                _as_int64(low), _as_int64(high), *self._keys, self._entries, self.count, numbers
            )
            self.left_out += int((numbers == NO_NUMBER).sum())
        return numbers

    def join(self, later: Numbering, things: Int64, shift: int = 0) -> Int64:
        """Number the keys of ``later`` as if they had just arrived, and return these numbers.

        ``things`` is the number of items per key. ``shift`` is added to the upper halves of the keys.
        """
        left_out = self.left_out
        low, high = later._entries[: later.count, 0], later._entries[: later.count, 1] + shift
        numbers = self.numbers(low, high)
        self.left_out = left_out + later.left_out + int(things[: later.count][numbers == NO_NUMBER].sum())
        return numbers

    def plain_state(self) -> tuple[Int64, int]:
        """Return the keys and the number of items without a number.

        The slots of the hash table are not part of the state.
        """
        return self._entries[: self.count], self.left_out

    def take_plain_state(self, state: tuple[Int64, int]) -> None:
        """Load the keys of another numbering. This numbering must be empty."""
        keys, left_out = state
        self.numbers(keys[:, 0], keys[:, 1])
        self.left_out = left_out

    @property
    def low(self) -> NDArray[np.uint64]:
        """Lower halves of the keys, in the order of their numbers."""
        return self._entries[: self.count, 0].astype(np.uint64)

    @property
    def high(self) -> NDArray[np.uint64]:
        """Upper halves of the keys, in the order of their numbers."""
        return self._entries[: self.count, 1].astype(np.uint64)


@over_batches
def preceding(numbers: Int64, latest: Int64, rows: Int64) -> None:
    """Write to ``rows`` the previous row with the same number, for each row.

    ``latest`` contains the latest row of each number and is updated. Missing rows are NO_NUMBER.
    """
    for row in range(len(numbers)):
        number = numbers[row]
        rows[row] = NO_NUMBER
        if number != NO_NUMBER:
            rows[row] = latest[number]
            latest[number] = row


@over_batches
def _number(
    low: Int64,
    high: Int64,
    slots_low: Int64,
    slots_high: Int64,
    slots_number: Int64,
    coefficients: Int64,
    entries: Int64,
    used: int,
    numbers: Int64,
) -> int:
    """Fill ``numbers`` with the numbers of keys, add new keys, and return the number of keys."""
    capacity = len(entries)
    for i in range(len(low)):
        slot = slot_of(slots_low, slots_high, slots_number, coefficients, low[i], high[i])
        if slots_number[slot] == EMPTY:
            if used == capacity:
                numbers[i] = NO_NUMBER
                continue
            slots_low[slot], slots_high[slot], slots_number[slot] = low[i], high[i], used
            entries[used, 0], entries[used, 1] = low[i], high[i]
            used += 1
        numbers[i] = slots_number[slot]
    return used


def _as_int64(numbers: NDArray[np.integer]) -> Int64:
    return fixed(numbers.astype(np.int64))


FIRST_WIDTH_NS = 100
MAX_INTERVALS = 1000
"""Maximum number of intervals. After intervals are joined, at least a fifth of this number remains."""
MAX_REQUESTED_INTERVALS = 10_000
"""Maximum number of intervals if the caller requested a width."""
_JOINED = (2, 5)


class Series:
    """Numbers over the intervals of a timeline, with one row per counted item."""

    def __init__(self, intervals: int, rows: int = 0) -> None:
        self.values: Int64 = np.zeros((rows, intervals), np.int64)

    def grow(self, rows: int) -> None:
        """Extend the array to at least ``rows`` rows."""
        have = len(self.values)
        if have < rows:
            wider = np.zeros((max(rows, 2 * have), self.values.shape[1]), np.int64)
            wider[:have] = self.values
            self.values = wider

    def move(self, used: int, first: int, factor: int, new_first: int) -> None:
        """Join groups of ``factor`` adjacent intervals.

        ``first`` is the number of the first of the ``used`` intervals.
        """
        self.values = _joined(self.values, used, first, factor, new_first)

    def join(self, values: Int64, numbers: Int64) -> None:
        """Add rows of values over the same intervals.

        ``numbers`` contains the target row of each row, or NO_NUMBER to skip the row.
        """
        known = numbers != NO_NUMBER
        if known.any():
            self.grow(int(numbers.max()) + 1)
            self.values[numbers[known]] += values[: len(numbers)][known]


def _joined(values: Int64, used: int, first: int, factor: int, new_first: int) -> Int64:
    positions = (np.arange(used) + first) // factor - new_first
    joined = np.zeros_like(values)
    if used:
        starts = np.flatnonzero(np.diff(positions, prepend=positions[0] - 1))
        joined[:, positions[starts]] = np.add.reduceat(values[:, :used], starts, axis=1)
    return joined


class Timeline:
    """Time intervals, and all series over these intervals.

    ``interval_ns`` is the initial width, and ``None`` selects a width that suits the capture.
    """

    def __init__(self, interval_ns: int | None = None) -> None:
        self.width_ns: int = FIRST_WIDTH_NS if interval_ns is None else interval_ns
        self.max_intervals = MAX_INTERVALS if interval_ns is None else MAX_REQUESTED_INTERVALS
        self.first: int = 0
        """Number of the first interval. The interval starts this number of widths after 1970."""
        self._last = -1
        self._joinings = 0
        self._series: list[Series] = []

    def series(self, rows: int = 0) -> Series:
        """Return a new series."""
        made = Series(self.max_intervals, rows)
        self._series.append(made)
        return made

    @property
    def used(self) -> int:
        """Number of intervals."""
        return self._last - self.first + 1

    @property
    def start_ns(self) -> int:
        """Start of the first interval in ns, or 0 without intervals."""
        return self.first * self.width_ns

    def cover(self, low_ns: int, high_ns: int) -> None:
        """Extend the intervals to include ``low_ns`` and ``high_ns``.

        The times are Python integers, so that no time is too large.
        """
        low, high = low_ns // self.width_ns, high_ns // self.width_ns
        used, old_first, factor = self.used, self.first, 1
        if used:
            low, high = min(low, self.first), max(high, self._last)
        while high - low >= self.max_intervals:
            joined = _JOINED[self._joinings % len(_JOINED)]
            self._joinings += 1
            low, high, factor = low // joined, high // joined, factor * joined
        self.width_ns *= factor
        if used and (factor > 1 or low < old_first):
            for series in self._series:
                series.move(used, old_first, factor, low)
        self.first, self._last = low, high

    def slots(self, time_ns: Int64) -> Int64:
        """Return the interval number of each time. All times must be within the intervals."""
        return time_ns // self.width_ns - self.first

    def of(self, other: Timeline, values: Int64) -> Int64:
        """Convert values over the intervals of ``other`` to values over the intervals of this timeline.

        The intervals of this timeline must include all intervals of ``other``.
        """
        return _joined(values, other.used, other.first, self.width_ns // other.width_ns, self.first)


_BUCKETS_PER_DOUBLING = 32
_BITS = 32
_SIDE = _BUCKETS_PER_DOUBLING * (_BITS - 5) + _BUCKETS_PER_DOUBLING
"""Number of buckets for numbers that are not negative."""
_MIN, _GREATEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@over_batches
def _add_values(
    rows: Int64, values: Int64, counts: Int64, sums: Int64, minimum: Int64, maximum: Int64
) -> None:
    for i in range(len(rows)):
        row = rows[i]
        if row == NO_NUMBER:
            continue
        value = values[i]
        sums[row] += value
        minimum[row] = min(minimum[row], value)
        maximum[row] = max(maximum[row], value)
        rest, shift = abs(value), 0
        while rest >= 2 * _BUCKETS_PER_DOUBLING:
            rest >>= 1
            shift += 1
        bucket = _BUCKETS_PER_DOUBLING * shift + rest
        counts[row, _SIDE + bucket if value >= 0 else _SIDE - 1 - bucket] += 1


class Distributions:
    """Distributions of integers with a sign and up to 32 bits, one distribution per row."""

    def __init__(self) -> None:
        self._counts: Int64 = np.zeros((0, 2 * _SIDE), np.int64)
        self._ends: Int64 = np.zeros((3, 0), np.int64)

    def add(self, rows: Int64, values: NDArray[np.integer], count: int) -> None:
        """Add one value to each row of ``rows``, skip NO_NUMBER. ``count`` is the total number of rows."""
        self._grow(count)
        _add_values(fixed(rows), fixed(values.astype(np.int64)), self._counts, *self._ends)

    def join(self, later: Distributions, numbers: Int64, count: int) -> None:
        """Add the rows of ``later``.

        ``numbers`` contains the target row of each row, or NO_NUMBER to skip the row. ``count`` is the total
        number of rows.
        """
        self._grow(count)
        numbers = numbers[: len(later._counts)]
        rows = np.flatnonzero(numbers != NO_NUMBER)
        to = numbers[rows]
        np.add.at(self._counts, to, later._counts[rows])
        total, minimum, maximum = self._ends
        np.add.at(total, to, later._ends[0, rows])
        np.minimum.at(minimum, to, later._ends[1, rows])
        np.maximum.at(maximum, to, later._ends[2, rows])

    def counts(self) -> Int64:
        """Return the number of values in each row."""
        counts: Int64 = self._counts.sum(axis=1)
        return counts

    def quarters(self, row: int) -> tuple[tuple[int, int, int], ...]:
        """Return a histogram of a row without negative values, with four buckets per doubling.

        Each bucket is a tuple of its minimum, the minimum of the next bucket, and the number of values.
        """
        counts: dict[tuple[int, int], int] = {}
        if row < len(self._counts):
            for bucket in np.flatnonzero(self._counts[row, _SIDE:]).tolist():
                low = _lower_end(bucket)
                digits = max(0, low.bit_length() - 3)
                key = low >> digits << digits, ((low >> digits) + 1) << digits
                counts[key] = counts.get(key, 0) + int(self._counts[row, _SIDE + bucket])
        return tuple((*key, count) for key, count in sorted(counts.items()))

    def row(self, row: int) -> Distribution | None:
        """Return the distribution of a row, or ``None`` for a row without values."""
        if row >= len(self._counts) or not self._counts[row].any():
            return None
        counts, (total, minimum, maximum) = self._counts[row], (int(end[row]) for end in self._ends)
        count = int(counts.sum())
        until = np.cumsum(counts)
        ranks = [-(-count * percent // 100) for percent in (50, 90, 99)]
        p50, p90, p99 = (
            min(max(_upper_end(int(np.searchsorted(until, rank))), minimum), maximum) for rank in ranks
        )
        return Distribution(
            count=count, minimum=minimum, mean=total / count, maximum=maximum, p50=p50, p90=p90, p99=p99
        )

    def _grow(self, rows: int) -> None:
        have = len(self._counts)
        if have < rows:
            space = max(rows, 2 * have)
            counts = np.zeros((space, 2 * _SIDE), np.int64)
            counts[:have] = self._counts
            ends = np.tile(np.array([[0], [_MIN], [_GREATEST]], np.int64), (1, space))
            ends[:, :have] = self._ends
            self._counts, self._ends = counts, ends


def _upper_end(bucket: int) -> int:
    """Return the greatest number in a bucket."""
    if bucket < _SIDE:
        return -_lower_end(_SIDE - 1 - bucket)
    return _lower_end(bucket - _SIDE + 1) - 1


def _lower_end(bucket: int) -> int:
    """Return the smallest number in a bucket. The bucket is counted from 0 on the non-negative side."""
    if bucket < 2 * _BUCKETS_PER_DOUBLING:
        return bucket
    shift = bucket // _BUCKETS_PER_DOUBLING - 1
    return (bucket - _BUCKETS_PER_DOUBLING * shift) << shift
