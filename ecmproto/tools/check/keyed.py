"""The memory of rules: the previous event of each key, across batches and across parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecmproto.tools.check.rule import NO_TIME, Int64, Mask, Rows, Shift

if TYPE_CHECKING:
    from ecmproto.frames.stats.tally import CountedBatch

NO_NUMBER = -1
"""As in `stats.tally`, which is imported when a chain is made, as listing rules needs no loops."""
NUMBER, TIME, INTERFACE = range(3)
"""Columns of each event; the columns of its rule follow."""


class Pairs(NamedTuple):
    """Events, each with the one before it of the same key, as rows of columns."""

    low: Int64
    """The key's halves."""
    high: Int64
    before: Int64
    now: Int64

    def select(self, mask: Mask) -> Pairs:
        """Return the pairs where a mask is True."""
        return Pairs(*(rows_where(mask, array) for array in self))


class Chain:
    """Follows the events of up to ``most`` keys; an event has ``width`` columns after the common ones."""

    def __init__(self, maximum: int, width: int) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self.keys: Numbering = Numbering(maximum)
        self._first: Int64 = np.zeros((maximum, 3 + width), np.int64)
        self._last: Int64 = np.zeros((maximum, 3 + width), np.int64)
        self._seen: Mask = np.zeros(maximum, np.bool_)

    @property
    def is_full(self) -> bool:
        """Whether there were more keys than it follows."""
        return self.keys.is_full

    def follow(self, low: Int64, high: Int64 | int, events: Int64) -> Pairs:
        """Take events in their order, and return those that have one before them; keys beyond have none."""
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
        """Add the events of a later part, and return the pairs across the seam.

        ``change`` is applied to the events of the later part, after their shift; with ``keys_move`` the
        higher halves of keys are interfaces.
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
        """The first and the last event of each key, in the order of the keys."""
        return self._first[: self.keys.count], self._last[: self.keys.count]


class CountedTimes:
    """Frames as the accumulators of `stats` take them, with a timeline over all of their times."""

    def __init__(self) -> None:
        from ecmproto.frames.stats.tally import Timeline

        self.timeline: Timeline = Timeline()
        self.last_ns: int = NO_TIME
        """The latest time, NO_TIME without any."""

    def counted(self, rows: Rows) -> CountedBatch:
        """Return the rows of a batch, the timeline extended to their times."""
        from ecmproto.frames.stats.tally import counted_batch

        timed = rows.time_ns != NO_TIME
        times_ns = rows.time_ns[timed]
        if len(times_ns):
            self.timeline.cover(int(times_ns.min()), int(times_ns.max()))
            self.last_ns = max(self.last_ns, int(times_ns.max()))
        return counted_batch(rows.batch, rows.columns, self.timeline.slots(times_ns), timed)

    def join(self, later: CountedTimes) -> None:
        """Extend the timeline to the times of a later part: before what it counted is joined."""
        if later.last_ns != NO_TIME:
            self.timeline.cover(later.timeline.start_ns, later.last_ns)
            self.last_ns = max(self.last_ns, later.last_ns)


def events(number: Int64, time_ns: Int64, interface: Int64, *values: Int64) -> Int64:
    """Return events as rows of columns."""
    return np.stack([number, time_ns, interface, *values], axis=1)


def rows_where(mask: Mask, rows: Int64) -> Int64:
    """Return the rows where a mask is True: the array itself if it is True everywhere."""
    # rows are taken by number three times as fast
    return rows if mask.all() else rows.take(np.flatnonzero(mask), axis=0)


def moved(rows: Int64, shift: Shift) -> Int64:
    """Return events of a later part as they are numbered in the whole."""
    shifted = rows.copy()
    shifted[:, NUMBER] += shift.frames
    shifted[:, INTERFACE] += shift.interfaces
    return shifted


def first_of(rows: Int64, more: Int64, maximum: int) -> Int64:
    """Return the ``maximum`` events with the lowest frame numbers, of both arrays."""
    every = np.concatenate([rows, more])
    return every[np.argsort(every[:, NUMBER], kind="stable")][:maximum]


class SeenKeys:
    """The set of 64-bit keys, up to ``most``."""

    def __init__(self, maximum: int) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self._keys = Numbering(maximum)
        self._most = maximum

    def add(self, keys: Int64) -> None:
        """Note keys."""
        if len(keys):
            self._keys.numbers(keys, np.zeros_like(keys))

    def join(self, later: SeenKeys) -> None:
        """Note the keys of a later part."""
        self._keys.join(later._keys, np.ones(self._most, np.int64))

    def has(self, keys: Int64) -> Mask:
        """Return a mask of the keys in the set."""
        return np.isin(keys, self.keys)

    @property
    def keys(self) -> Int64:
        """The keys in the order in which they came."""
        return self._keys.low.astype(np.int64)

    @property
    def is_full(self) -> bool:
        """Whether there were more than there is room for."""
        return self._keys.is_full


class FirstEvents:
    """The first event of each key of 64 bits, up to ``most`` of them."""

    def __init__(self, maximum: int, width: int) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self._keys = Numbering(maximum)
        self._events: Int64 = np.zeros((maximum, 3 + width), np.int64)

    def __len__(self) -> int:
        return self._keys.count

    def add(self, keys: Int64, *columns: Int64) -> None:
        """Add events with the columns of `events`."""
        if not len(keys):
            return
        before = self._keys.count
        numbers = self._keys.numbers(keys, np.zeros_like(keys))
        if self._keys.count > before:
            # of several values for one position the last one stays: the first event, in reverse order
            new = np.flatnonzero(numbers >= before)[::-1]
            self._events[numbers[new]] = np.column_stack([column[new] for column in columns])

    def join(self, later: FirstEvents, shift: Shift) -> None:
        """Take the events of a later part."""
        self.add(later.keys, *moved(later.events, shift).T)

    @property
    def keys(self) -> Int64:
        """The keys in the order in which they came."""
        return self._keys.low.astype(np.int64)

    def of(self, keys: Int64, column: int, missing: int) -> Int64:
        """Return a column of the first events of some keys, ``missing`` for keys without one."""
        order = np.argsort(self.keys, kind="stable")
        known = self.keys[order]
        found = np.full(len(keys), missing, np.int64)
        if len(known):
            places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            there = known[places] == keys
            found[there] = self.events[order[places[there]], column]
        return found

    @property
    def is_full(self) -> bool:
        """Whether there were more keys than there is room for."""
        return self._keys.is_full

    @property
    def events(self) -> Int64:
        """The first event of each key, as rows of columns."""
        return self._events[: len(self)]
