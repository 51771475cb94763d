"""Alignment by digests: the longest common order, repeated frames, and memory per frame."""

from __future__ import annotations

import bisect
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from ecmproto.tools.diff import alignment
from ecmproto.tools.diff.alignment import Pairs, align, in_order
from ecmproto.tools.diff.digests import Digests

MAX_OCTETS = 120
"""Maximum memory in octets per frame, in addition to the digest."""


def digests(contents: ArrayLike, times: ArrayLike | None = None) -> Digests:
    """Return digests whose other parts depend only on the contents."""
    whole = np.asarray(contents, np.uint64)
    count = len(whole)
    part = whole.astype(np.uint32)
    time_ns = np.arange(count) * 1000 if times is None else np.asarray(times, np.int64)
    return Digests(
        first=0, picked=None, time_ns=time_ns, interface=np.zeros(count, np.uint16), digest=whole,
        header=part, payload=part, inside=part, values={},
    )  # fmt: skip


def longest(values: list[int]) -> int:
    """Return the length of the longest ascending subsequence by the usual algorithm."""
    tails: list[int] = []
    for value in values:
        at = bisect.bisect_left(tails, value)
        tails[at : at + 1] = [value]
    return len(tails)


@pytest.mark.parametrize("interpreted", [True, False])
def test_ordered_pairs_are_the_longest_subsequence(
    interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not interpreted:
        monkeypatch.setattr(alignment, "_INTERPRETED_RUNS", 0)

    @given(st.permutations(range(30)), st.integers(1, 30))
    def check(order: list[int], count: int) -> None:
        values = order[:count]
        pairs = in_order([Pairs(a=np.arange(count, dtype=np.int32), b=np.array(values, np.int32))], count)
        assert len(pairs) == longest(values)
        assert bool((np.diff(pairs.a) > 0).all())
        assert bool((np.diff(pairs.b) > 0).all())
        assert [values[row] for row in pairs.a.tolist()] == pairs.b.tolist()

    check()


def test_missing_one_of_equal_frames_is_found() -> None:
    """The missing frame is identified by its time.

    If the clocks differ too, the frame is identified by its neighbours.
    """
    contents = np.tile([1, 1, 2, 1, 3], 40)
    for gone in (0, 17, 199):
        kept = np.delete(np.arange(200), gone)
        found = align(digests(contents), digests(contents[kept], kept * 1000))
        assert (found.missing.tolist(), len(found.same), len(found.moved)) == ([gone], 199, 0)
        later = align(digests(contents), digests(contents[kept], kept * 1000 + 5_000_333))
        assert (len(later.missing), len(later.same), len(later.added)) == (1, 199, 0)


def test_repeating_contents_align_by_time() -> None:
    """Captures with periodic contents align if a clock is ahead, or if a clock has a lower resolution."""
    rng = np.random.default_rng(5)
    contents = np.tile(rng.integers(1, 60, 500), 20)
    kept = np.delete(np.arange(10_000), np.arange(7, 10_000, 100))
    for jitter in (0, 40):
        times = kept * 1000 + 1500 + rng.integers(0, jitter + 1, len(kept))
        found = align(digests(contents), digests(contents[kept], times))
        assert len(found.same) == len(kept)
        assert (len(found.missing), len(found.moved), len(found.added)) == (100, 0, 0)
        if not jitter:
            assert found.missing.tolist() == list(range(7, 10_000, 100))


def test_moved_block_is_reported_as_moved() -> None:
    contents = np.arange(1, 1001)
    order = [*range(100, 900), *range(20, 40), *range(20), *range(40, 100), *range(900, 1000)]
    found = align(digests(contents), digests(contents[order], np.array(order) * 1000))
    assert found.moved.a.tolist() == [*range(100)] or len(found.moved) <= 100
    assert len(found.missing) == len(found.added) == len(found.changed) == 0
    assert len(align(digests(contents), digests(contents[order]), moves=False).missing) == len(found.moved)


@pytest.mark.parametrize("how", ["shifted", "permuted", "repeated", "others"])
def test_memory_is_a_few_times_the_digests(how: str) -> None:
    count = 100_000
    rng = np.random.default_rng(2)
    contents = rng.integers(0, 1 << 60, count)
    other = contents
    if how == "shifted":
        other = np.delete(contents, 7)
    elif how == "permuted":
        other = rng.permutation(contents)
    elif how == "repeated":
        contents, other = contents % 5, np.delete(contents % 5, np.arange(0, count, 100))
    else:
        other = rng.integers(0, 1 << 60, count)
    one, two = digests(contents), digests(other, np.arange(len(other)) * 1000 + 333)
    align(one.at(np.arange(10)), two.at(np.arange(10)))
    tracemalloc.start()
    found = align(one, two)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.same) + len(found.moved) + len(found.changed) + len(found.missing) == count
    assert peak < MAX_OCTETS * 2 * count
