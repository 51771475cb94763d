"""Alignment of the frames of two captures by their digests: kept, moved, changed, missing, added.

First, equal frames are paired. Frames that occur once in each capture, and equal frames with equal times,
serve as guides. The longest list of pairs in order is *kept* (a longest increasing subsequence, computed over
runs of adjacent frames). Then more pairs are found between each two kept pairs: frames that are unique there,
adjacent equal frames, and runs of equal frames. An equal frame at another position has *moved*. Of the
remaining frames, two frames between the same kept pairs have *changed* if they have the same payload,
addresses, or time and length. All other frames are *missing* or *added*.

All steps are array operations over all gaps at once. The memory required is a few times the size of the
digests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.tools.diff.digests import NO_TIME, Digests

Int64 = NDArray[np.int64]
Rows = NDArray[np.int32]
Uint64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]

MAX_FRAMES = 1 << 30
"""Maximum number of frames of one capture aligned at a time, because row numbers have 32 bits."""

ALONE = -1
"""Partner of a frame without a partner."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alignment:
    """The pairs of frames, as rows in each capture; rows ascend, except in ``moved``."""

    same: Pairs
    moved: Pairs
    changed: Pairs
    missing: Rows
    added: Rows
    ordered: Pairs
    """Kept and changed pairs."""
    end_a: int
    """Number of settled frames of the first capture; ``end_b`` is the same for the second capture."""
    end_b: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Rows in the first capture, and the rows of their partners in the second capture."""

    a: Rows
    b: Rows

    def __len__(self) -> int:
        return len(self.a)

    def select(self, selection: Any) -> Pairs:
        """Return the selected pairs."""
        return Pairs(a=self.a[selection], b=self.b[selection])


_NO_ROWS = np.empty(0, np.int32)
_NO_PAIRS = Pairs(a=_NO_ROWS, b=_NO_ROWS)


def rows_where(mask: Mask) -> Rows:
    """Return the rows selected by a mask."""
    return np.flatnonzero(mask).astype(np.int32)


class Parts(NamedTuple):
    """The first rows of parts, in the same order in both captures; each part is aligned separately."""

    a: Rows
    b: Rows


WHOLE = Parts(np.zeros(1, np.int32), np.zeros(1, np.int32))
"""Both captures as a single part."""


def align(
    a: Digests, b: Digests, *, reach: int | None = None, moves: bool = True, parts: Parts = WHOLE
) -> Alignment:
    """Return the alignment of the frames of two captures.

    A ``reach`` means that more frames follow. Frames after the last common frame are then left out, unless
    there are more than ``reach`` such frames. With ``moves`` False, an equal frame at another position is
    missing and added. Frames of different ``parts`` must have different digests.
    """
    if len(a) == len(b) and bool((a.digest == b.digest).all()):
        rows = np.arange(len(a), dtype=np.int32)
        both = Pairs(a=rows, b=rows)
        return Alignment(
            same=both, moved=_NO_PAIRS, changed=_NO_PAIRS, missing=_NO_ROWS, added=_NO_ROWS, ordered=both,
            end_a=len(a), end_b=len(b),
        )  # fmt: skip
    work = _Work(a, b, parts)
    work.keep_ends()
    elsewhere = work.guide()
    work.extend()
    same = work.pairs()
    moved = work.moved(elsewhere) if moves else _NO_PAIRS
    likeness = (work.payload, work.inside, work.header)
    for key in (*likeness, work.length):
        work.pair_by(work.timed(key))
    end_a, end_b = len(a), len(b)
    if reach is not None:
        end_a, end_b = _ends(work.pairs(), end_a, end_b, reach)
        moved = work.leave_out(end_a, end_b, moved)
    moved_pairs = [moved]
    if moves:
        moved_pairs += [work.moved_by(work.timed(work.digest)), work.moved_by(work.digest)]
    for key in likeness:
        work.pair_by(key)
    ordered = work.pairs()
    is_matched = np.zeros(len(a), np.bool_)
    is_matched[same.a] = True
    missing, added = work.left()
    return Alignment(
        same=same, moved=_by_rows(moved_pairs, len(a)), changed=ordered.select(~is_matched[ordered.a]),
        missing=missing, added=added, ordered=ordered, end_a=end_a, end_b=end_b,
    )  # fmt: skip


def _ends(ordered: Pairs, frames_a: int, frames_b: int, reach: int) -> tuple[int, int]:
    """Return the number of settled frames of each capture, if more frames follow."""
    if not len(ordered):
        return frames_a, frames_b
    end_a, end_b = int(ordered.a[-1]) + 1, int(ordered.b[-1]) + 1
    return (frames_a, frames_b) if max(frames_a - end_a, frames_b - end_b) > reach else (end_a, end_b)


def _same_ends(a: Digests, b: Digests) -> tuple[int, int]:
    """Return the number of frames at the start, and at the end, with equal digests and equal times."""
    shorter = min(len(a), len(b))
    same = (a.digest[:shorter] == b.digest[:shorter]) & (a.time_ns[:shorter] == b.time_ns[:shorter])
    first = shorter if same.all() else int(np.argmin(same))
    left = shorter - first
    same = a.digest[len(a) - left :] == b.digest[len(b) - left :]
    same &= a.time_ns[len(a) - left :] == b.time_ns[len(b) - left :]
    last = left if same.all() else int(np.argmin(same[::-1]))
    return first, last


def median_offset(times_a: Int64, times_b: Int64) -> int | None:
    """Return the median of the time differences in ns; ``None`` if no pair has times."""
    timed = (times_a != NO_TIME) & (times_b != NO_TIME)
    apart = times_b[timed] - times_a[timed]
    if not len(apart):
        return None
    middle = len(apart) // 2
    return int(np.partition(apart, middle)[middle])


def matched(keys_a: Uint64, keys_b: Uint64, *, unique: bool) -> Pairs:
    """Return pairs of equal keys, in no particular order.

    With ``unique``, only keys that occur once in each capture are paired. Otherwise, the n-th occurrences of
    a key are paired.
    """
    runs_a, runs_b = _Runs(keys_a, unique=unique), _Runs(keys_b, unique=unique)
    if not len(runs_a.key) or not len(runs_b.key):
        return _NO_PAIRS
    at = np.searchsorted(runs_b.key, runs_a.key).astype(np.int32)
    at[at == len(runs_b.key)] = 0
    hit = np.flatnonzero(runs_b.key[at] == runs_a.key)
    at = at[hit]
    if unique:
        return Pairs(a=runs_a.row[hit], b=runs_b.row[at])
    first_a, first_b = runs_a.start[hit], runs_b.start[at]
    count = np.minimum(runs_a.count[hit], runs_b.count[at])
    if not len(count) or count.max() == 1:
        return Pairs(a=runs_a.row[first_a], b=runs_b.row[first_b])
    nth = np.arange(int(count.sum()), dtype=np.int32)
    nth -= np.repeat((np.cumsum(count) - count).astype(np.int32), count)
    return Pairs(
        a=runs_a.row[np.repeat(first_a, count) + nth],
        b=runs_b.row[np.repeat(first_b, count) + nth],
    )


class _Runs:
    """The rows of keys, and the distinct keys in ascending order; rows with the same key ascend.

    With ``unique``, only keys that occur once are included, and ``start`` and ``count`` are missing.
    """

    def __init__(self, keys: Uint64, *, unique: bool) -> None:
        self.row: Rows = np.argsort(keys, kind="stable").astype(np.int32)
        ordered = keys[self.row]
        heads = np.ones(len(keys) + 1, np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=heads[1:-1])
        if unique:
            once = heads[:-1] & heads[1:]
            if not once.all():
                self.row, ordered = self.row[once], ordered[once]
            self.key = ordered
            return
        self.start = rows_where(heads[:-1])
        self.key = ordered[self.start]
        self.count = np.diff(self.start, append=np.int32(len(keys)))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xC2B2AE3D27D4EB4F)


def mixed(one: NDArray[Any], other: NDArray[Any]) -> Uint64:
    """Return hashes of pairs of numbers."""
    numbers = one.astype(np.uint64)
    numbers *= _GOLDEN
    numbers ^= numbers >> np.uint64(29)
    numbers += other.astype(np.uint64)
    numbers *= _OTHER
    numbers ^= numbers >> np.uint64(32)
    return numbers


Key = Callable[[bool, Rows], "tuple[Uint64, Rows]"]
"""Function that returns the keys of rows, and the rows that have a key.

The first argument is True for the second capture. The second argument is the rows.
"""

_ROUNDS = 64
_FIRST_A, _FIRST_B = 512, 4096
"""Number of first differing frames from which the time offset is determined, in each capture."""
_CONTEXT = 8
"""Number of consecutive frames that distinguish positions where each frame occurs many times."""


class _Work:
    """An alignment in progress, with the partner of each frame of the first capture."""

    def __init__(self, a: Digests, b: Digests, parts: Parts) -> None:
        self._a, self._b = a, b
        self._parts = parts
        self._partner = np.full(len(a), ALONE, np.int32)
        """Partners of the first capture's frames; partners ascend."""
        self._free_a = np.ones(len(a), np.bool_)
        self._free_b = np.ones(len(b), np.bool_)
        self._offset_ns = 0

    def keep(self, pairs: Pairs) -> None:
        """Add pairs that are in order with the existing pairs."""
        self._partner[pairs.a] = pairs.b
        self._use(pairs)

    def _use(self, pairs: Pairs) -> None:
        self._free_a[pairs.a] = False
        self._free_b[pairs.b] = False

    def left(self) -> tuple[Rows, Rows]:
        """Return the frames without a partner."""
        return rows_where(self._free_a), rows_where(self._free_b)

    def pairs(self) -> Pairs:
        """Return the pairs that are in order."""
        rows = rows_where(self._partner != ALONE)
        return Pairs(a=rows, b=self._partner[rows])

    def gaps(self, rows_a: Rows, rows_b: Rows) -> tuple[Rows, Rows]:
        """Return the number of the gap that contains each frame.

        A gap lies between two adjacent pairs in order, within a part.
        """
        ordered = self.pairs()
        # A pair belongs to one part, so that equal sums mean the same gap of the same part.
        gaps = (
            np.searchsorted(pairs, rows) + np.searchsorted(starts, rows, side="right")
            for pairs, starts, rows in zip((ordered.a, ordered.b), self._parts, (rows_a, rows_b), strict=True)
        )
        of_a, of_b = (each.astype(np.int32) for each in gaps)
        return of_a, of_b

    # Keys of frames.

    def digest(self, second: bool, rows: Rows) -> tuple[Uint64, Rows]:
        """Return the digests of whole frames."""
        return (self._b if second else self._a).digest[rows], rows

    def context(self, second: bool, rows: Rows) -> tuple[Uint64, Rows]:
        """Return hashes of each frame and some following frames."""
        digests = (self._b if second else self._a).digest
        keys = digests[rows]
        for step in range(1, _CONTEXT):
            keys = mixed(keys, digests[np.minimum(rows + step, len(digests) - 1)])
        return keys, rows

    def payload(self, second: bool, rows: Rows) -> tuple[Uint64, Rows]:
        """Return the digests of the MSDUs."""
        return (self._b if second else self._a).payload[rows].astype(np.uint64), rows

    def inside(self, second: bool, rows: Rows) -> tuple[Uint64, Rows]:
        """Return the digests of the inner parts of the MSDUs, for frames with an inner part."""
        keys = (self._b if second else self._a).inside[rows].astype(np.uint64)
        nonzero = keys != 0
        return keys[nonzero], rows[nonzero]

    def header(self, second: bool, rows: Rows) -> tuple[Uint64, Rows]:
        """Return hashes of the addresses and the EtherType after all tags."""
        return (self._b if second else self._a).header[rows].astype(np.uint64) >> np.uint64(16), rows

    def length(self, second: bool, rows: Rows) -> tuple[Uint64, Rows]:
        """Return the lengths of the frames."""
        return (self._b if second else self._a).header[rows].astype(np.uint64) & np.uint64(0xFFFF), rows

    def timed(self, key: Key) -> Key:
        """Return a key that also includes the time of a frame; frames without a time have no key."""

        def with_time(second: bool, rows: Rows) -> tuple[Uint64, Rows]:
            keys, rows = key(second, rows)
            times = (self._b if second else self._a).time_ns[rows]
            some = times != NO_TIME
            if not some.all():
                keys, rows, times = keys[some], rows[some], times[some]
            times -= self._offset_ns if second else 0
            return mixed(keys, times.view(np.uint64)), rows

        return with_time

    # Steps.

    def keep_ends(self) -> None:
        """Keep equal frames with equal times at the start and at the end."""
        first, last = _same_ends(self._a, self._b)
        rows = np.arange(first, dtype=np.int32)
        self.keep(Pairs(a=rows, b=rows))
        rows = np.arange(-last, 0, dtype=np.int32)
        self.keep(Pairs(a=rows + np.int32(len(self._a)), b=rows + np.int32(len(self._b))))

    def guide(self) -> Pairs:
        """Keep guide frames that are in order; return the unique pairs that are in another order.

        Guide frames are unique, or equal with equal times.
        """
        rest_a, rest_b = self.left()
        unique = matched(self._a.digest[rest_a], self._b.digest[rest_b], unique=True)
        unique = Pairs(a=rest_a[unique.a], b=rest_b[unique.b])
        offset_ns = self._usual_offset(rest_a[:_FIRST_A], rest_b[:_FIRST_B])
        if offset_ns is None:
            offset_ns = median_offset(self._a.time_ns[unique.a], self._b.time_ns[unique.b])
        self._offset_ns = offset_ns or 0
        candidates = [unique]
        others = np.ones(len(self._a), np.bool_), np.ones(len(self._b), np.bool_)
        others[0][unique.a] = False
        others[1][unique.b] = False
        rest_a, rest_b = rest_a[others[0][rest_a]], rest_b[others[1][rest_b]]
        if len(rest_a) and len(rest_b):
            candidates.append(self._matched(self.timed(self.digest), rest_a, rest_b))
        self.keep(in_order(candidates, len(self._a)))
        return unique.select(self._free_a[unique.a])

    def leave_out(self, end_a: int, end_b: int, moved: Pairs) -> Pairs:
        """Exclude the frames from rows ``end_a`` and ``end_b``; return the remaining pairs of ``moved``."""
        inside = (moved.a < end_a) & (moved.b < end_b)
        self._free_a[moved.a[~inside]] = True
        self._free_b[moved.b[~inside]] = True
        self._free_a[end_a:] = False
        self._free_b[end_b:] = False
        return moved.select(inside)

    def _usual_offset(self, rows_a: Rows, rows_b: Rows) -> int | None:
        """Return the time offset of equal frames if more than half of a sample have exactly that offset."""
        one, other = np.nonzero(self._a.digest[rows_a][:, None] == self._b.digest[rows_b])
        times_a, times_b = self._a.time_ns[rows_a[one]], self._b.time_ns[rows_b[other]]
        timed = (times_a != NO_TIME) & (times_b != NO_TIME)
        apart, frames = np.unique(times_b[timed] - times_a[timed], return_counts=True)
        if not len(apart) or 2 * frames.max() <= len(rows_a):
            return None
        return int(apart[np.argmax(frames)])

    def _matched(self, key: Key, rest_a: Rows, rest_b: Rows) -> Pairs:
        """Return pairs of the n-th frames with the same key."""
        keys_a, rest_a = key(False, rest_a)
        keys_b, rest_b = key(True, rest_b)
        pairs = matched(keys_a, keys_b, unique=False)
        return Pairs(a=rest_a[pairs.a], b=rest_b[pairs.b])

    def extend(self) -> None:
        """Keep more equal frames between kept pairs: adjacent frames, unique frames, then all other
        frames.
        """
        for _ in range(_ROUNDS):
            rest = self._open(self.digest)
            if rest is None:
                return
            neighbours = self._neighbours(rest.a)
            if len(neighbours):
                self.keep(neighbours)
                continue
            steps = (
                (self.digest, True), (self.context, True), (self.context, False), (self.digest, False)
            )  # fmt: skip
            if not any(self._pair(key, rest, unique=unique) for key, unique in steps):
                return

    def pair_by(self, key: Key) -> None:
        """Pair frames that have the same key in the same gap."""
        for unique in (True, False):
            rest = self._open(key)
            if rest is None:
                return
            self._pair(key, rest, unique=unique)

    def _open(self, key: Key) -> _Rest | None:
        """Return remaining frames that may have a common key in the same gap, according to a hash.

        Returns ``None`` if there are no such frames.
        """
        rest_a, rest_b = self.left()
        if not len(rest_a) or not len(rest_b):
            return None
        keys_a, rest_a = key(False, rest_a)
        keys_b, rest_b = key(True, rest_b)
        gap_a, gap_b = self.gaps(rest_a, rest_b)
        hash_a, hash_b = mixed(gap_a, keys_a), mixed(gap_b, keys_b)
        slots = 1 << min(_MAX_HASH_BITS, (8 * max(len(hash_a), len(hash_b))).bit_length())
        hash_a &= np.uint64(slots - 1)
        hash_b &= np.uint64(slots - 1)
        used_a, used_b = np.zeros(slots, np.bool_), np.zeros(slots, np.bool_)
        used_a[hash_a] = True
        used_b[hash_b] = True
        in_a, in_b = used_b[hash_a], used_a[hash_b]
        rest = _Rest(rest_a[in_a], rest_b[in_b], gap_a[in_a], gap_b[in_b])
        return rest if len(rest.a) and len(rest.b) else None

    def _pair(self, key: Key, rest: _Rest, *, unique: bool) -> bool:
        """Keep pairs with the same key in the same gap that are in order; return whether any pair was
        kept.
        """
        keys_a, keys_b = key(False, rest.a)[0], key(True, rest.b)[0]
        pairs = matched(mixed(rest.gap_a, keys_a), mixed(rest.gap_b, keys_b), unique=unique)
        pairs_in_order = in_order([Pairs(a=rest.a[pairs.a], b=rest.b[pairs.b])], len(self._a))
        self.keep(pairs_in_order)
        return bool(len(pairs_in_order))

    def _neighbours(self, rows_a: Rows) -> Pairs:
        """Return pairs of equal frames that directly follow a kept pair or directly precede the next pair."""
        ordered = self.pairs()
        gaps = np.unique(np.searchsorted(ordered.a, rows_a))
        first_a, last_a = _bounds(ordered.a, len(self._a), gaps)
        first_b, last_b = _bounds(ordered.b, len(self._b), gaps)
        common = np.minimum(last_a - first_a, last_b - first_b)
        gap, step = _steps(common)
        leading = self._unbroken(gap, first_a[gap] + step, first_b[gap] + step)
        matches = np.bincount(gap[leading], minlength=len(gaps))
        left = common - matches
        end, back = _steps(left)
        ending = self._unbroken(end, last_a[end] - 1 - back, last_b[end] - 1 - back)
        same_a = (first_a[gap] + step)[leading], (last_a[end] - 1 - back)[ending]
        same_b = (first_b[gap] + step)[leading], (last_b[end] - 1 - back)[ending]
        return Pairs(a=np.concatenate(same_a).astype(np.int32), b=np.concatenate(same_b).astype(np.int32))

    def _unbroken(self, gap: Int64, rows_a: Int64, rows_b: Int64) -> Mask:
        """Return a mask of the frames that are equal and follow only equal frames in the same gap."""
        other = self._a.digest[rows_a] != self._b.digest[rows_b]
        broken = np.cumsum(other)
        heads = np.flatnonzero(np.diff(gap, prepend=-1))
        base = (broken - other)[heads]
        unbroken: Mask = broken == np.repeat(base, np.diff(heads, append=len(gap)))
        return unbroken

    def moved(self, pairs: Pairs) -> Pairs:
        """Add pairs that are in another order if both frames have no partner yet; return the added pairs."""
        used = pairs.select(self._free_a[pairs.a] & self._free_b[pairs.b])
        self._use(used)
        return used

    def moved_by(self, key: Key) -> Pairs:
        """Pair remaining frames with the same key at any position."""
        rest_a, rest_b = self.left()
        if not len(rest_a) or not len(rest_b):
            return _NO_PAIRS
        return self.moved(self._matched(key, rest_a, rest_b))


class _Rest(NamedTuple):
    """Remaining frames of both captures, and the gap of each frame."""

    a: Rows
    b: Rows
    gap_a: Rows
    gap_b: Rows


_MAX_HASH_BITS = 26
"""Maximum number of bits of the hash that excludes frames without a partner."""


def _bounds(ordered: Rows, frames: int, gaps: NDArray[Any]) -> tuple[Int64, Int64]:
    """Return the starts and stops of gaps between rows in order."""
    ends = np.concatenate([np.array([-1], np.int32), ordered, np.array([frames], np.int32)])
    return ends[gaps].astype(np.int64) + 1, ends[gaps + 1].astype(np.int64)


def _steps(counts: Int64) -> tuple[Int64, Int64]:
    """Return two arrays with one entry for each step of each count.

    The first array has the index of the count. The second array has the index of the step within the count.
    """
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)


_INTERPRETED_RUNS = 4096
"""Maximum number of runs for which Python is faster than loading compiled code."""


def in_order(parts: Sequence[Pairs], frames: int) -> Pairs:
    """Return the longest selection of pairs that ascends in both captures.

    Rows of ``a`` must be unique.
    """
    pairs = _by_rows(parts, frames)
    if len(pairs) < 2 or bool((pairs.b[1:] > pairs.b[:-1]).all()):
        return pairs
    rank = np.empty(len(pairs), np.int32)
    rank[np.argsort(pairs.b, kind="stable")] = np.arange(len(pairs), dtype=np.int32)
    # Some longest subsequence keeps rows together that are adjacent in both captures.
    heads = np.flatnonzero(np.diff(rank, prepend=np.int32(-2)) != 1)
    weight = np.diff(heads, append=len(pairs))
    position = np.empty(len(heads), np.int64)
    position[np.argsort(rank[heads], kind="stable")] = np.arange(len(heads))
    return pairs.select(np.repeat(_heaviest(position, weight), weight))


def _by_rows(parts: Sequence[Pairs], frames: int) -> Pairs:
    """Return pairs sorted by row in the first capture; all rows are less than ``frames``."""
    partner = np.full(frames, ALONE, np.int32)
    for part in parts:
        partner[part.a] = part.b
    rows = rows_where(partner != ALONE)
    return Pairs(a=rows, b=partner[rows])


def _heaviest(position: Int64, weight: Int64) -> Mask:
    """Return a mask of the runs in the heaviest subsequence with ascending, distinct positions."""
    count = len(position)
    if count <= _INTERPRETED_RUNS:
        chosen = [False] * count
        _choose(position.tolist(), weight.tolist(), [0] * count, [0] * count, [0] * (count + 1), chosen)
        return np.array(chosen)
    from ecmproto.kernels.kernel import released

    mask = np.zeros(count, np.bool_)
    best, before, tree = (np.zeros(count + 1, np.int64) for _ in range(3))
    released(_choose)(position, weight, best, before, tree, mask)
    return mask


def _choose(position: Any, weight: Any, best: Any, before: Any, tree: Any, chosen: Any) -> None:
    """Select the runs of the heaviest subsequence.

    ``tree`` is a Fenwick tree over positions. It contains the number of the best run, counted from 1, or 0
    for no run.
    """
    count = len(position)
    last, maximum = 0, 0
    for run in range(count):
        node, top, total = position[run], 0, 0
        while node > 0:
            other = tree[node]
            if other > 0 and best[other - 1] > total:
                total, top = best[other - 1], other
            node -= node & -node
        total += weight[run]
        best[run], before[run] = total, top
        if total > maximum:
            last, maximum = run + 1, total
        node = position[run] + 1
        while node <= count:
            other = tree[node]
            if other == 0 or best[other - 1] < total:
                tree[node] = run + 1
            node += node & -node
    while last > 0:
        chosen[last - 1] = True
        last = before[last - 1]
