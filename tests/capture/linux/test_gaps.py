"""Gaps between frames: each as long as it can have been, none counted twice."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.capture.linux.gaps import GapCounts, Gaps


def counted(limit_ns: int, *calls: tuple[int, int]) -> GapCounts:
    gaps = Gaps(limit_ns)
    for begun, ended in calls:
        gaps.add(begun, ended)
    return gaps.counts()


def test_one_frame_has_no_gap() -> None:
    assert counted(100, (5, 9)) == GapCounts(limit_ns=100, longest_ns=0, longer=0, excess_ns=0, skipped=0)


def test_a_gap_is_from_the_earliest_to_the_latest_moment() -> None:
    found = counted(100, (0, 10), (90, 100), (250, 270))
    assert (found.longest_ns, found.longer, found.excess_ns) == (180, 1, 80)
    assert counted(100, (0, 10), (90, 101)).longer == 1, "it may have been just too long"
    assert counted(100, (0, 10), (90, 100)).longer == 0


def test_a_call_that_takes_long_is_not_counted_on_both_sides() -> None:
    # whenever it left in 1000 ns, what ran free lies between 10 and 1000, and between 1010 and 1100
    found = counted(10, (0, 5), (20, 1000), (1090, 1100))
    assert (found.longer, found.longest_ns) == (2, 1080)
    assert found.excess_ns == (1000 - 10) + (1100 - 1000)


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60), st.floats(0, 1)), min_size=1),
)
def test_bounds_hold_whenever_the_frames_left(limit: int, steps: list[tuple[int, int, float]]) -> None:
    gaps, now, left = Gaps(limit), 0, []
    for pause, lasts, when in steps:
        begun, now = now + pause, now + pause + lasts
        gaps.add(begun, now)
        left.append(begun + int(when * lasts))
    found = gaps.counts()
    real = [after - before for before, after in pairwise(left)]
    assert found.longest_ns >= max(real, default=0)
    assert found.longer >= sum(gap > limit for gap in real)
    assert found.excess_ns >= sum(max(0, gap - limit) for gap in real)
    assert found.excess_ns <= now
