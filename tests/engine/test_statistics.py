"""Sums over time bins, compared with plain sums: `TimeBins`, and the series of flows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.control.engine.port import DROPPED, ENQUEUED, HELD_OUT, PASSED_BY
from ecmproto.control.engine.statistics import (
    COARSE_BINS,
    FLOWS_SHOWN,
    MAX_BINS,
    FlowRates,
    FlowSeries,
    TimeBins,
    second_half_ns,
)
from ecmproto.units import jain_index

Event = tuple[int, int, int]
"""Row or flow, time in ns, value."""

TIMES_NS = st.one_of(st.integers(0, 10**6), st.integers(0, 10**9), st.integers(0, 2**40))
EVENTS = st.lists(st.tuples(st.integers(0, 2), TIMES_NS, st.integers(0, 9_000)), max_size=40)
PIECES = st.lists(EVENTS, max_size=4)


def columns(events: list[Event]) -> tuple[NDArray[np.int64], ...]:
    row, time_ns, value = np.array(events, np.int64).reshape(-1, 3).T
    return row, time_ns, value


@given(PIECES)
def test_time_bins_do_not_depend_on_batches(pieces: list[list[Event]]) -> None:
    bins, whole = TimeBins(3), TimeBins(3)
    for piece in pieces:
        row, time_ns, value = columns(piece)
        bins.add(row, time_ns, value.astype(np.float64))
    events = [event for piece in pieces for event in piece]
    row, time_ns, value = columns(events)
    whole.add(row, time_ns, value.astype(np.float64))
    expected = np.zeros((3, MAX_BINS))
    for one, when, amount in events:
        expected[one, when // bins.bin_ns] += amount
    assert bins.bin_ns == whole.bin_ns
    assert bins.values.tolist() == whole.values.tolist() == expected.tolist()
    latest = max((when for _, when, _ in events), default=0)
    assert bins.bin_ns == 1_024 or latest // (bins.bin_ns // 2) >= MAX_BINS


@given(EVENTS, st.integers(0, 2**40), st.integers(0, 2**40))
def test_between_sums_bins_that_begin_inside(events: list[Event], one: int, two: int) -> None:
    bins = TimeBins(3)
    row, time_ns, value = columns(events)
    bins.add(row, time_ns, value.astype(np.float64))
    start, end = sorted((one, two))
    begins = np.arange(MAX_BINS) * bins.bin_ns
    chosen = (begins >= start) & (begins < end)
    assert bins.between(start, end).tolist() == bins.values[:, chosen].sum(axis=1).tolist()


Passed = tuple[int, int, int, int, int]
"""Flow, time in ns, octets, disposition, rate of its limiter."""

PASSED = st.lists(
    st.tuples(
        st.integers(-1, FLOWS_SHOWN + 6),
        st.integers(0, 3_000_000),
        st.integers(1, 9_000),
        st.sampled_from([PASSED_BY, ENQUEUED, DROPPED, HELD_OUT]),
        st.sampled_from([0, 0, 1_000_000, 10**10]),
    ),
    max_size=120,
)


def series_of(rows: list[Passed], cut: int) -> FlowSeries:
    """Return the series of ``rows`` that were offered when they passed, in two pieces."""
    series = FlowSeries()
    for piece in (rows[:cut], rows[cut:]):
        flow, time_ns, octets, disposition, limit = np.array(piece, np.int64).reshape(-1, 5).T
        series.offered(flow, time_ns, octets)
        series.passed(flow, time_ns, octets, disposition.astype(np.uint8), limit.astype(np.float64))
    return series


def octets(rows: list[Passed], *dispositions: int) -> int:
    return sum(row[2] for row in rows if row[3] in dispositions)


def check(flow: FlowRates, rows: list[Passed], span_ns: int, duration_ns: int) -> None:
    assert flow.offered_octets == octets(rows, PASSED_BY, ENQUEUED, DROPPED, HELD_OUT)
    assert flow.passed_octets == octets(rows, ENQUEUED)
    assert flow.dropped_octets == octets(rows, DROPPED)
    assert flow.held_out_octets == octets(rows, HELD_OUT)
    begins = range(0, len(flow.passed_bps) * span_ns, span_ns)
    for index, begin in enumerate(begins):
        here = [row for row in rows if begin <= row[1] < begin + span_ns]
        for rates, dispositions in (
            (flow.offered_bps, (PASSED_BY, ENQUEUED, DROPPED, HELD_OUT)),
            (flow.sent_bps, (ENQUEUED, DROPPED)),
            (flow.passed_bps, (ENQUEUED,)),
        ):
            lasts_ns = max(1, min(span_ns, duration_ns - begin))
            assert rates[index] == pytest.approx(8e9 * octets(here, *dispositions) / lasts_ns)
        limits = [row[4] for row in here if row[3] == ENQUEUED and row[4] > 0]
        limit = sum(limits) / len(limits) if limits else np.nan
        assert flow.limit_bps[index] == pytest.approx(limit, nan_ok=True)
    half_ns = second_half_ns(duration_ns)
    late = [row for row in rows if half_ns <= row[1] < duration_ns]
    assert flow.second_half_bps == pytest.approx(8e9 * octets(late, ENQUEUED) / max(1, duration_ns - half_ns))


@given(PASSED, st.integers(0, 120))
def test_the_series_of_flows_are_plain_sums(rows: list[Passed], cut: int) -> None:
    assume(rows)
    duration_ns = max(row[1] for row in rows) + 1
    series = series_of(rows, cut)
    numbers = list(dict.fromkeys(row[0] for row in rows if row[0] >= 0))
    shown, others = numbers[:FLOWS_SHOWN], {-1, *numbers[FLOWS_SHOWN:]}
    labels = {number: f"label {number}" for number in shown if number % 2}
    flows = series.rates(labels, duration_ns)
    named = [flow for flow in flows if flow.label != "others"]
    assert [flow.label for flow in named] == [labels.get(n, f"flow {n}") for n in shown]
    for number, flow in zip(shown, named, strict=True):
        check(flow, [row for row in rows if row[0] == number], series.bin_ns, duration_ns)
    rest = [row for row in rows if row[0] in others]
    assert [flow.label for flow in flows if flow not in named] == (["others"] if rest else [])
    if rest:
        check(flows[-1], rest, series.bin_ns, duration_ns)


@given(st.integers(0, 2**62))
def test_second_half_starts_near_the_middle(
    duration_ns: int,
) -> None:
    start_ns = second_half_ns(duration_ns)
    assert duration_ns // 2 <= start_ns <= duration_ns // 2 + duration_ns / 32
    coarse = TimeBins(1, bins=COARSE_BINS, first_shift=0)
    coarse.reach(duration_ns)
    assert start_ns % coarse.bin_ns == 0


def fed(rows: list[Passed], held_back: frozenset[int] = frozenset()) -> FlowSeries:
    """Return the series of ``rows``; frames of the flows ``held_back`` came, and went nowhere yet."""
    series = FlowSeries()
    flow, time_ns, octets, disposition, limit = np.array(rows, np.int64).reshape(-1, 5).T
    series.offered(flow, time_ns, octets)
    gone = ~np.isin(flow, list(held_back))
    series.passed(
        flow[gone], time_ns[gone], octets[gone], disposition[gone].astype(np.uint8), limit[gone].astype(float)
    )
    return series


def test_fairness_covers_every_flow_not_only_first_64() -> None:
    flows = 200
    rows = [(n, 10 * t, 1000, ENQUEUED, 0) for t in range(100) for n in range(flows) if n < 100 or t < 1]
    starved = [(n, 10 * t, 1000, HELD_OUT, 0) for t in range(1, 100) for n in range(100, flows)]
    fairness = fed(sorted(rows + starved, key=lambda row: row[1])).fairness(1_000)
    assert fairness.flows == flows
    assert fairness.index == pytest.approx(0.5)


def test_fairness_leaves_out_ended_flows() -> None:
    busy = [(n, 10 * t, 1000, ENQUEUED, 0) for t in range(100) for n in range(3)]
    ended = [(n, t, 9000, ENQUEUED, 0) for t in range(9) for n in range(3, 9)]
    fairness = fed(ended + busy).fairness(1_000)
    assert (fairness.index, fairness.flows) == (1.0, 3)


def test_fairness_counts_a_flow_still_waiting() -> None:
    busy = [(n, 10 * t, 1000, ENQUEUED, 0) for t in range(100) for n in range(3)]
    waiting = [(3, 5, 1000, ENQUEUED, 0)]
    fairness = fed(waiting + busy, frozenset({3})).fairness(1_000)
    assert (fairness.index, fairness.flows) == (0.75, 4)


@given(PASSED, st.integers(0, 120))
def test_fairness_equals_jain_index_of_rates(rows: list[Passed], cut: int) -> None:
    duration_ns = 3_000_000
    asked = [(row[0], duration_ns - 1, 1, PASSED_BY, 0) for row in rows]
    series = series_of(sorted([*rows, *asked], key=lambda row: row[1]), cut)
    fairness = series.fairness(duration_ns)
    numbers = {row[0] for row in rows if row[0] >= 0}
    assert fairness.flows == len(numbers)
    if len(numbers) <= FLOWS_SHOWN:
        told = [flow.second_half_bps for flow in series.rates({}, duration_ns) if flow.number >= 0]
        assert fairness.index == pytest.approx(jain_index(np.array(told)))


@given(st.lists(st.floats(0, 1e10), min_size=1, max_size=20))
def test_jain_index_lies_between_one_nth_and_one(rates: list[float]) -> None:
    index = jain_index(np.array(rates))
    assert 1 / len(rates) - 1e-9 <= index <= 1 + 1e-9


@pytest.mark.parametrize(
    ("rates", "index"),
    [([], 1.0), ([0.0, 0.0], 1.0), ([7.0], 1.0), ([5.0] * 9, 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25),
     ([3.0, 1.0], 0.8)],
)  # fmt: skip
def test_jain_index_of_known_rates(rates: list[float], index: float) -> None:
    assert jain_index(np.array(rates)) == pytest.approx(index)


def test_spans_double_only_when_they_must() -> None:
    bins, lengths = TimeBins(1), []
    first_ns = 1_024 * MAX_BINS
    for time_ns in (0, first_ns - 1, first_ns, 2 * first_ns - 1, 2 * first_ns, 100 * first_ns):
        bins.add(np.zeros(1, np.int64), np.array([time_ns]), np.ones(1))
        lengths.append(bins.bin_ns // 1_024)
    assert lengths == [1, 1, 2, 2, 4, 128]
    assert bins.values.sum() == 6
