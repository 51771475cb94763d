"""Curves and points: inconsistent data is refused, and reduction keeps extreme values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.tools.report.panels import (
    PausedSpan,
    bin_of,
    coarse_edges,
    coarse_means,
    coarse_peaks,
    drawable,
    extremes,
    highest,
    paused_shares,
    shares_of,
    time_axis,
)
from ecmproto.tools.report.replay_panels import RatePanels
from ecmproto.tools.report.run import Drops, Feedback, FlowCurves, Messages, QueueCurve, Run
from ecmproto.tools.report.sheet import WIDE, new_figure
from tests.report.sample import floats, integers

SLOTS = st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 1e9)), min_size=1, max_size=60)


@given(SLOTS, st.integers(1, 70))
def test_joined_slots_keep_the_area_and_the_peak(slots: list[tuple[int, float]], most: int) -> None:
    edges = np.cumsum([0, *(width for width, _ in slots)])
    values = floats(*(value for _, value in slots))
    joined = coarse_edges(edges, most)
    means, peaks = coarse_means(edges, values, most), coarse_peaks(values, most)
    assert len(means) == len(peaks) == len(joined) - 1 <= most
    assert (joined[0], joined[-1]) == (0, edges[-1])
    assert np.isclose(np.sum(means * np.diff(joined)), np.sum(values * np.diff(edges)))
    assert peaks.max() == values.max()
    assert np.all(means <= peaks * (1 + 1e-12))


def test_mean_leaves_out_missing_values() -> None:
    edges = integers(0, 1, 3, 4, 5)
    means = coarse_means(edges, floats(4, np.nan, np.inf, np.nan), 2)
    assert means[0] == 4
    assert np.isnan(means[1])
    assert np.isnan(coarse_peaks(floats(np.nan, np.inf), 1)).all()


def test_a_slot_without_length_has_its_value() -> None:
    assert coarse_means(integers(7, 7), floats(3), 10).tolist() == [3]


def test_empty_curves_stay_empty() -> None:
    none = integers()
    assert not len(coarse_edges(none, 5))
    assert not len(coarse_means(none, floats(), 5))
    assert not len(coarse_peaks(floats(), 5))


def test_numbers_whose_sums_overflow_are_not_drawn() -> None:
    assert drawable(floats(1, -1e29, 1e300, np.nan, -np.inf)).tolist() == [True, True, False, False, False]
    assert highest(floats(5, 1e300, np.nan)) == 5
    assert highest(floats(np.nan)) == 0


def test_times_outside_the_run_are_clamped() -> None:
    assert bin_of(integers(-5, 0, 50, 99, 100, 10**18), 100, 10).tolist() == [0, 0, 5, 9, 9, 9]
    assert bin_of(integers(0), 0, 10).tolist() == [0]


def test_many_points_keep_extremes_of_each_span() -> None:
    time = np.arange(10_000, dtype=np.int64)
    values: NDArray[np.float64] = np.sin(time / 50) * time
    kept_time, kept = extremes(time, values, 10_000, 20)
    assert len(kept) <= 40
    assert (kept.min(), kept.max()) == (values.min(), values.max())
    assert np.all(np.diff(kept_time) > 0)
    spans = [values[first : first + 500] for first in range(0, 10_000, 500)]
    assert {value for span in spans for value in (span.min(), span.max())} == set(kept.tolist())


def test_few_points_lose_only_missing_values() -> None:
    time, values = extremes(integers(1, 2, 3), floats(5, np.nan, 7), 10, 20)
    assert (time.tolist(), values.tolist()) == ([1, 3], [5, 7])


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=12))
def test_shares_of_pauses_add_up_to_time_paused(spans: list[tuple[int, int]]) -> None:
    pauses = [PausedSpan(start_ns=start, end_ns=end) for start, end in spans]
    paused = {ns for start, end in spans for ns in range(start, end)}
    shares = paused_shares(pauses, 100, 10)
    counted = [sum(10 * place <= ns < 10 * place + 10 for ns in paused) / 10 for place in range(10)]
    np.testing.assert_allclose(shares, counted, atol=1e-9)


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0, 1)), min_size=1, max_size=12), st.integers(1, 40))
def test_shares_of_slots_keep_time_stopped_in_them(slots: list[tuple[int, float]], bins: int) -> None:
    edges = np.cumsum([0, *(width for width, _ in slots)])
    stopped = floats(*(width * share for width, share in slots))
    shares = shares_of(edges, stopped, int(edges[-1]), bins)
    assert shares.max() <= 1
    assert np.isclose(shares.sum() * edges[-1] / bins, stopped.sum())


def test_rate_axis_fits_the_averaged_curve() -> None:
    slots = 10 * WIDE.bins
    edges = np.arange(slots + 1, dtype=np.int64)
    bursts = np.where(np.arange(slots) % 10 == 0, 1e10, 0.0)
    flow = FlowCurves(label="a", edges_ns=edges, sent_bps=bursts, delivered_bps=bursts)
    run = Run(name="a", title="a", duration_ns=slots, flows=(flow,))
    axes = new_figure(100, 100).add_subplot()
    RatePanels([run], time_axis([run]), WIDE).draw(axes, run)
    assert axes.get_ylim() == (0, 1.06)


def test_curves_have_one_value_per_slot() -> None:
    QueueCurve(edges_ns=integers(0, 1, 2), mean_octets=floats(1, 2), peak_octets=floats(1, 2))
    with pytest.raises(ValueError, match="one value for each sample or slot, got"):
        QueueCurve(edges_ns=integers(0, 1, 2), mean_octets=floats(1, 2), peak_octets=floats(1))
    with pytest.raises(ValueError, match="one value for each sample or slot, got"):
        FlowCurves(
            label="a",
            edges_ns=integers(0, 1),
            sent_bps=floats(1),
            delivered_bps=floats(1),
            limit_bps=floats(),
        )


def test_columns_have_one_length() -> None:
    with pytest.raises(ValueError, match="one value for each sample or slot, got"):
        Feedback(time_ns=integers(1), value=floats(), priority=integers(1))
    with pytest.raises(ValueError, match="one value for each sample or slot, got"):
        Drops(time_ns=integers(1), count=integers())


def test_messages_go_to_rows_that_have_a_label() -> None:
    with pytest.raises(ValueError, match="expected 0 to 0"):
        Messages(labels=("a",), time_ns=integers(1), row=integers(1))
    with pytest.raises(ValueError, match="expected 0 to 0"):
        Messages(labels=("a",), time_ns=integers(1), row=integers(-1))
