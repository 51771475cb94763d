"""Percentiles of lateness, held to the sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.capture.linux.lateness import Lateness

BURSTS = st.lists(
    st.tuples(
        st.integers(0, 1 << 50),
        st.integers(1, 10**6),
        st.lists(st.integers(0, 1 << 50), min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=20,
)


@given(BURSTS, st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_are_right_to_1_in_128(bursts: list[tuple[int, int, list[int]]], percent: int) -> None:
    lateness = Lateness()
    late = []
    for left, each, due in bursts:
        lateness.add(left, each, due)
        late += [max(0, left + i * each - time) for i, time in enumerate(due)]
    exact = sorted(late)[-(-len(late) * percent // 100) - 1]
    told = lateness.percentile_ns(percent)
    assert exact <= told <= exact + exact / 128
    assert lateness.greatest_ns == max(late)
    assert lateness.percentile_ns(100) == max(late)


def test_small_numbers_are_exact() -> None:
    lateness = Lateness()
    lateness.add(0, 1, [0] * 256)
    assert [lateness.percentile_ns(percent) for percent in (50, 99, 100)] == [127, 253, 255]


def test_nothing_was_late_where_nothing_left() -> None:
    assert Lateness().percentile_ns(99) == 0


def test_many_are_counted_as_few_are() -> None:
    lateness = Lateness()
    for _ in range(10_000):
        lateness.add(1000, 1, [0])
    lateness.add(50_000, 1, [0])
    assert lateness.percentile_ns(50) == 1003
    assert lateness.percentile_ns(100) == 50_000
