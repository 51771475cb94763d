"""The memory of rules, which keeps events by key across the batches and the parts of a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.tools.check.rule import NO_TIME, Int64, Mask, Rows, Shift

if TYPE_CHECKING:
    from ecmproto.frames.stats.tally import CountedBatch

NO_NUMBER = -1
"""A copy of ``stats.tally.NO_NUMBER``. Listing the rules must not import `stats.tally`."""
NUMBER, TIME, INTERFACE = range(3)
"""The first columns of each event. The columns of the rule follow."""


class Pairs(NamedTuple):
    """Pairs of events with the same key, as rows of columns. ``before`` is the event before ``now``."""

    low: Int64
    """The lower half of each key; ``high`` is the upper half."""
    high: Int64
    before: Int64
    now: Int64

    def select(self, mask: Mask) -> Pairs:
        """Return the pairs that a mask selects."""
        return Pairs(*(rows_where(mask, array) for array in self))


class Chain:
    """The first and the latest event of up to ``maximum`` keys.

    Each event has ``width`` columns after the common columns.
    """

    def __init__(self, maximum: int, width: int) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self.keys: Numbering = Numbering(maximum)
        self._first: Int64 = np.zeros((maximum, 3 + width), np.int64)
        self._last: Int64 = np.zeros((maximum, 3 + width), np.int64)
        self._seen: Mask = np.zeros(maximum, np.bool_)

    @property
    def is_full(self) -> bool:
        """Whether a key was ignored because the chain was full."""
        return self.keys.is_full

    def follow(self, low: Int64, high: Int64 | int, events: Int64) -> Pairs:
        """Add events in order, and return the events that have a previous event of the same key.

        Events of ignored keys are not returned.
        """
        from ecmproto.frames.stats.tally import preceding

        upper = np.broadcast_to(np.asarray(high, np.int64), low.shape)
        numbers = self.keys.numbers(low, upper)
        latest, previous = np.full(self.keys.count, NO_NUMBER), np.empty_like(numbers)
        preceding(numbers, latest, previous)
        firsts = np.flatnonzero((previous == NO_NUMBER) & (numbers != NO_NUMBER))
        leading = numbers[firsts]
        before = events.take(previous, axis=0, mode="clip")
        before[firsts] = self._last[leading]
        has_before = numbers != NO_NUMBER
        has_before[firsts] = self._seen[leading]
        new = ~self._seen[leading]
        self._first[leading[new]] = events[firsts[new]]
        self._seen[leading] = True
        self._last[leading] = events[latest[leading]]
        return Pairs(low, upper, before, events).select(has_before)

    def join(
        self,
        later: Chain,
        shift: Shift,
        change: Callable[[Int64], Int64] = lambda rows: rows,
        *,
        keys_move: bool = True,
    ) -> Pairs:
        """Add the events of a later part, and return the pairs that span both parts.

        ``change`` is applied to the shifted events of the later part. ``keys_move`` means that the upper
        halves of the keys are interface indices, which are shifted too.
        """
        by = shift.interfaces if keys_move else 0
        count = later.keys.count
        numbers = self.keys.join(later.keys, np.ones(len(later._seen), np.int64), by)[:count]
        known = np.flatnonzero(numbers != NO_NUMBER)
        here = numbers[known]
        first, last = (change(moved(rows[known], shift)) for rows in (later._first, later._last))
        across = self._seen[here]
        pairs = Pairs(
            later.keys.low[known][across].astype(np.int64),
            later.keys.high[known][across].astype(np.int64) + by,
            self._last[here][across], first[across],
        )  # fmt: skip
        self._first[here[~across]] = first[~across]
        self._last[here] = last
        self._seen[here] = True
        return pairs

    @property
    def ends(self) -> tuple[Int64, Int64]:
        """The first events and the latest events, sorted by key number."""
        return self._first[: self.keys.count], self._last[: self.keys.count]


class CountedTimes:
    """A timeline of all frame times, which converts rows into batches for the accumulators of `stats`."""

    def __init__(self) -> None:
        from ecmproto.frames.stats.tally import Timeline

        self.timeline: Timeline = Timeline()
        self.last_ns: int = NO_TIME
        """The latest time. NO_TIME means that no frame had a time."""

    def counted(self, rows: Rows) -> CountedBatch:
        """Extend the timeline to the times of a batch, and return the rows of the batch."""
        from ecmproto.frames.stats.tally import counted_batch

        timed = rows.time_ns != NO_TIME
        times_ns = rows.time_ns[timed]
        if len(times_ns):
            self.timeline.cover(int(times_ns.min()), int(times_ns.max()))
            self.last_ns = max(self.last_ns, int(times_ns.max()))
        return counted_batch(rows.batch, rows.columns, self.timeline.slots(times_ns), timed)

    def join(self, later: CountedTimes) -> None:
        """Extend the timeline to the times of a later part. Call this method before joining the counts."""
        if later.last_ns != NO_TIME:
            self.timeline.cover(later.timeline.start_ns, later.last_ns)
            self.last_ns = max(self.last_ns, later.last_ns)


def rows_where(mask: Mask, rows: Int64) -> Int64:
    """Return the rows that a mask selects. If the mask selects all rows, the array is not copied."""
    # indices are three times as fast as a mask
    return rows if mask.all() else rows.take(np.flatnonzero(mask), axis=0)


def moved(rows: Int64, shift: Shift) -> Int64:
    """Return the events of a later part with the frame numbers and interfaces of the whole capture."""
    shifted = rows.copy()
    shifted[:, NUMBER] += shift.frames
    shifted[:, INTERFACE] += shift.interfaces
    return shifted


def first_of(rows: Int64, more: Int64, maximum: int) -> Int64:
    """Return the ``maximum`` events with the lowest frame numbers in both arrays."""
    every = np.concatenate([rows, more])
    return every[np.argsort(every[:, NUMBER], kind="stable")][:maximum]


class SeenKeys:
    """A set of up to ``maximum`` 64-bit keys."""

    def __init__(self, maximum: int) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self._keys = Numbering(maximum)
        self._maximum = maximum

    def add(self, keys: Int64) -> None:
        """Add keys."""
        if len(keys):
            self._keys.numbers(keys, np.zeros_like(keys))

    def join(self, later: SeenKeys) -> None:
        """Add the keys of a later part."""
        self._keys.join(later._keys, np.ones(self._maximum, np.int64))

    def has(self, keys: Int64) -> Mask:
        """Return a mask of the keys in the set."""
        return np.isin(keys, self.keys)

    @property
    def keys(self) -> Int64:
        """The keys in the order of addition."""
        return self._keys.low.astype(np.int64)

    @property
    def is_full(self) -> bool:
        """Whether a key was ignored because the set was full."""
        return self._keys.is_full


@plain_value
class Group(NamedTuple):
    """A group of frames: the number and time of its first frame, and the number of frames."""

    number: int
    time_ns: int
    frames: int


class FrameCounts:
    """The frames of each group, for up to ``maximum`` groups.

    A group is an interface and a number below 2^16, which are the upper and the lower bits of its key.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._groups: dict[int, Group] = {}

    def add(self, rows: Rows, mask: Mask, numbers: Int64 | int) -> None:
        """Add the frames that a mask selects. ``numbers`` has the number of each row's group."""
        chosen = np.flatnonzero(mask)
        keys = (rows.interface << 16 | numbers)[chosen]
        distinct, first, counts = np.unique(keys, return_index=True, return_counts=True)
        for key, at, frames in zip(distinct.tolist(), chosen[first].tolist(), counts.tolist(), strict=True):
            self._take(key, Group(int(rows.number[at]), int(rows.time_ns[at]), frames))

    def join(self, later: FrameCounts, shift: Shift) -> None:
        """Add the groups of a later part."""
        for key, each in later._groups.items():
            self._take(key + (shift.interfaces << 16), each._replace(number=each.number + shift.frames))

    def _take(self, key: int, more: Group) -> None:
        before = self._groups.get(key)
        if before is not None:
            self._groups[key] = before._replace(frames=before.frames + more.frames)
        elif len(self._groups) < self._maximum:
            self._groups[key] = more

    def groups(self) -> Iterator[tuple[int, int, Group]]:
        """Yield the interface, the number and the frames of each group, in this order."""
        return ((key >> 16, key & 0xFFFF, each) for key, each in sorted(self._groups.items()))


class FirstEvents:
    """The first event of each 64-bit key, for up to ``maximum`` keys."""

    def __init__(self, maximum: int, width: int) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self._keys = Numbering(maximum)
        self._events: Int64 = np.zeros((maximum, 3 + width), np.int64)

    def __len__(self) -> int:
        return self._keys.count

    def add(self, keys: Int64, *columns: Int64) -> None:
        """Add events by columns. `Rows.frames` returns the first columns."""
        if not len(keys):
            return
        before = self._keys.count
        numbers = self._keys.numbers(keys, np.zeros_like(keys))
        if self._keys.count > before:
            # the last value for an index is stored, so the reverse order stores the first event
            new = np.flatnonzero(numbers >= before)[::-1]
            self._events[numbers[new]] = np.column_stack([column[new] for column in columns])

    def join(self, later: FirstEvents, shift: Shift) -> None:
        """Add the events of a later part."""
        self.add(later.keys, *moved(later.events, shift).T)

    @property
    def keys(self) -> Int64:
        """The keys in the order of addition."""
        return self._keys.low.astype(np.int64)

    def of(self, keys: Int64, column: int, missing: int) -> Int64:
        """Return a column of the first events of the given keys, with ``missing`` for unknown keys."""
        order = np.argsort(self.keys, kind="stable")
        known = self.keys[order]
        result = np.full(len(keys), missing, np.int64)
        if len(known):
            indices = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            present = known[indices] == keys
            result[present] = self.events[order[indices[present]], column]
        return result

    @property
    def is_full(self) -> bool:
        """Whether a key was ignored because the table was full."""
        return self._keys.is_full

    @property
    def events(self) -> Int64:
        """The first event of each key, with a row for each event."""
        return self._events[: len(self)]
