"""Distributions: exact ends and means, percentiles as coarse as they say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.stats.tally import NO_NUMBER, Distributions
from tests.stats.slow import distribution

VALUES = st.lists(
    st.integers(-(1 << 31), (1 << 32) - 1) | st.integers(-200, 200) | st.sampled_from([63, 64, 65, 127, 128]),
    min_size=1,
    max_size=60,
)


def counted(values: list[int]) -> Distributions:
    counts = Distributions()
    counts.add(np.zeros(len(values), np.int64), np.array(values, np.int64), 1)
    return counts


@given(values=VALUES)
def test_as_plain_reckoning(values: list[int]) -> None:
    assert counted(values).row(0) == distribution(values, 1)


@given(values=VALUES)
def test_percentiles_are_at_most_a_32nd_beyond(values: list[int]) -> None:
    found = counted(values).row(0)
    assert found is not None
    ordered = sorted(values)
    for percent, value in ((50, found.p50), (90, found.p90), (99, found.p99)):
        exact = ordered[-(-len(ordered) * percent // 100) - 1]
        assert exact <= value <= exact + abs(exact) / 32


def test_rows_are_apart_and_what_has_no_number_is_in_none() -> None:
    counts = Distributions()
    counts.add(np.array([0, 2, NO_NUMBER, 2]), np.array([7, -5, 1000, 9]), 3)
    assert counts.row(0) == distribution([7], 1)
    assert counts.row(1) is None
    assert counts.row(2) == distribution([-5, 9], 1)
    assert counts.row(3) is None


def test_scaled() -> None:
    found = counted([-3, 4, 5]).row(0)
    assert found is not None
    assert found.scaled(64) == distribution([-3, 4, 5], 64)
