"""Intervals: how many there are, how wide, and that joining loses nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.stats.tally import FIRST_WIDTH_NS, MOST_ASKED_INTERVALS, MOST_INTERVALS, Timeline

TIMES = st.lists(st.integers(-(1 << 62) + 1, (1 << 62) - 1) | st.integers(0, 10**6), min_size=1, max_size=12)


def counted(times: list[list[int]], interval_ns: int | None) -> tuple[Timeline, list[int]]:
    timeline = Timeline(interval_ns)
    series = timeline.series(1)
    for batch in times:
        timeline.cover(batch[0], min(batch), max(batch))
        np.add.at(series.values[0], timeline.slots(np.array(batch, np.int64)), 1)
    return timeline, series.values[0, : timeline.used].tolist()


@given(times=TIMES, cut=st.integers(1, 11), interval_ns=st.sampled_from([None, 1, 3, 10**9]))
def test_batches_make_no_difference(times: list[int], cut: int, interval_ns: int | None) -> None:
    timeline, counts = counted([times], interval_ns)
    other, same = counted([part for part in (times[:cut], times[cut:]) if part], interval_ns)
    assert (timeline.width_ns, timeline.start_ns, counts) == (other.width_ns, other.start_ns, same)
    assert sum(counts) == len(times)
    assert counts[0] > 0
    assert counts[-1] > 0


@given(times=TIMES)
def test_every_time_lies_in_its_interval(times: list[int]) -> None:
    timeline, _ = counted([times], None)
    for time, slot in zip(times, timeline.slots(np.array(times, np.int64)).tolist(), strict=True):
        start = timeline.start_ns + slot * timeline.width_ns
        assert start <= time < start + timeline.width_ns


@pytest.mark.parametrize("span_ns", [10**5, 10**6, 123_456_789, 10**12, 10**17])
def test_there_are_neither_too_few_nor_too_many(span_ns: int) -> None:
    timeline, _ = counted([[0, span_ns]], None)
    assert MOST_INTERVALS // 5 <= timeline.used <= MOST_INTERVALS
    assert str(timeline.width_ns).rstrip("0") in ("1", "2")


def test_a_width_asked_for_stays_as_long_as_it_can() -> None:
    assert counted([[0, 7 * MOST_ASKED_INTERVALS - 1]], 7)[0].width_ns == 7
    assert counted([[0, 7 * MOST_ASKED_INTERVALS]], 7)[0].width_ns == 14


def test_the_first_time_starts_an_interval() -> None:
    timeline, counts = counted([[10**18 + 37, 10**18 + 36]], None)
    assert (timeline.start_ns, counts) == (10**18 + 37 - FIRST_WIDTH_NS, [1, 1])


def test_rows_can_be_added_later() -> None:
    timeline = Timeline()
    series = timeline.series()
    timeline.cover(0, 0, 1)
    series.grow(2)
    series.values[1, 0] = 5
    series.grow(3)
    timeline.cover(0, 0, 10**9)
    assert series.values[:3, 0].tolist() == [0, 5, 0]
