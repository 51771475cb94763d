"""Keys, time intervals and distributions: exact, ordered and limited in size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.stats.tally import (
    FIRST_WIDTH_NS,
    MAX_INTERVALS,
    MAX_REQUESTED_INTERVALS,
    NO_NUMBER,
    Distributions,
    Numbering,
    Timeline,
)
from tests.stats.slow import distribution

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.lists(st.tuples(INT64 | st.integers(0, 2), st.integers(0, 2)), max_size=40)


@given(keys=KEYS, cut=st.integers(0, 40), most=st.integers(1, 20))
def test_numbers_equal_a_dictionarys(keys: list[tuple[int, int]], cut: int, most: int) -> None:
    numbering, numbers = Numbering(most), []
    for part in (keys[:cut], keys[cut:]):
        rows = np.array(part, np.int64).reshape(-1, 2)
        numbers += numbering.numbers(rows[:, 0], rows[:, 1]).tolist()
    known = {key: number for number, key in enumerate([*dict.fromkeys(keys)][:most])}
    assert numbers == [known.get(key, NO_NUMBER) for key in keys]
    assert numbering.count == len(known)
    assert numbering.left_out == numbers.count(NO_NUMBER)
    assert numbering.low.tolist() == [key[0] % (1 << 64) for key in known]
    assert numbering.high.tolist() == [key[1] for key in known]


TIMES = st.lists(st.integers(-(1 << 62) + 1, (1 << 62) - 1) | st.integers(0, 10**6), min_size=1, max_size=12)


def timeline_of(times: list[list[int]], interval_ns: int | None) -> tuple[Timeline, list[int]]:
    timeline = Timeline(interval_ns)
    series = timeline.series(1)
    for batch in times:
        timeline.cover(min(batch), max(batch))
        np.add.at(series.values[0], timeline.slots(np.array(batch, np.int64)), 1)
    return timeline, series.values[0, : timeline.used].tolist()


@given(times=TIMES, cut=st.integers(1, 11), interval_ns=st.sampled_from([None, 1, 3, 10**9]))
def test_batches_make_no_difference(times: list[int], cut: int, interval_ns: int | None) -> None:
    timeline, counts = timeline_of([times], interval_ns)
    other, same = timeline_of([part for part in (times[:cut], times[cut:]) if part], interval_ns)
    assert (timeline.width_ns, timeline.start_ns, counts) == (other.width_ns, other.start_ns, same)
    assert sum(counts) == len(times)
    assert counts[0] > 0
    assert counts[-1] > 0


@given(times=TIMES)
def test_every_time_lies_in_its_interval(times: list[int]) -> None:
    timeline, _ = timeline_of([times], None)
    for time, slot in zip(times, timeline.slots(np.array(times, np.int64)).tolist(), strict=True):
        start = timeline.start_ns + slot * timeline.width_ns
        assert start <= time < start + timeline.width_ns


@pytest.mark.parametrize("span_ns", [10**5, 10**6, 123_456_789, 10**12, 10**17])
def test_interval_count_stays_within_bounds(span_ns: int) -> None:
    timeline, _ = timeline_of([[0, span_ns]], None)
    assert MAX_INTERVALS // 5 <= timeline.used <= MAX_INTERVALS
    assert str(timeline.width_ns).rstrip("0") in ("1", "2")


def test_requested_width_is_kept_while_possible() -> None:
    assert timeline_of([[0, 7 * MAX_REQUESTED_INTERVALS - 1]], 7)[0].width_ns == 7
    assert timeline_of([[0, 7 * MAX_REQUESTED_INTERVALS]], 7)[0].width_ns == 14


def test_intervals_start_at_multiples_of_their_width() -> None:
    timeline, counts = timeline_of([[10**18 + 137, 10**18 + 36]], None)
    assert (timeline.width_ns, timeline.start_ns, counts) == (FIRST_WIDTH_NS, 10**18, [1, 1])
    timeline, counts = timeline_of([[-1, 10 * FIRST_WIDTH_NS]], 700)
    assert (timeline.start_ns, counts) == (-700, [1, 0, 1])


def test_rows_can_be_added_later() -> None:
    timeline = Timeline()
    series = timeline.series()
    timeline.cover(0, 1)
    series.grow(2)
    series.values[1, 0] = 5
    series.grow(3)
    timeline.cover(0, 10**9)
    assert series.values[:3, 0].tolist() == [0, 5, 0]


VALUES = st.lists(
    st.integers(-(1 << 31), (1 << 32) - 1) | st.integers(-200, 200) | st.sampled_from([63, 64, 65, 127, 128]),
    min_size=1,
    max_size=60,
)


def distribution_of(values: list[int]) -> Distributions:
    counts = Distributions()
    counts.add(np.zeros(len(values), np.int64), np.array(values, np.int64), 1)
    return counts


@given(values=VALUES)
def test_distribution_equals_the_plain_computation(values: list[int]) -> None:
    assert distribution_of(values).row(0) == distribution(values, 1)


@given(values=VALUES)
def test_percentiles_are_at_most_a_32nd_beyond(values: list[int]) -> None:
    found = distribution_of(values).row(0)
    assert found is not None
    ordered = sorted(values)
    for percent, value in ((50, found.p50), (90, found.p90), (99, found.p99)):
        exact = ordered[-(-len(ordered) * percent // 100) - 1]
        assert exact <= value <= exact + abs(exact) / 32


def test_rows_are_separate_and_skip_missing_numbers() -> None:
    counts = Distributions()
    counts.add(np.array([0, 2, NO_NUMBER, 2]), np.array([7, -5, 1000, 9]), 3)
    assert counts.row(0) == distribution([7], 1)
    assert counts.row(1) is None
    assert counts.row(2) == distribution([-5, 9], 1)
    assert counts.row(3) is None


def test_distribution_can_be_scaled() -> None:
    found = distribution_of([-3, 4, 5]).row(0)
    assert found is not None
    assert found.scaled(64) == distribution([-3, 4, 5], 64)
