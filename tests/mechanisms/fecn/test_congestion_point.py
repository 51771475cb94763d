"""The FECN congestion point: algorithms §5 items 2 and 4, S003's enhancements, and the literal switch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.fecn.congestion_point import (
    LARGEST_RATE,
    FECNPointSettings,
    FECNPointState,
    count,
    lowered,
    next_timer_ns,
    on_timer,
    queue_control,
    set_capacity,
    settings_record,
    start,
)
from ecmproto.control.mechanisms.fecn.parameters import FECNCongestionPointParameters
from ecmproto.kernels.record import new_record
from ecmproto.units import RATE_INFINITY
from tests.mechanisms.fecn.literal import LiteralSwitch

MS = 1_000_000
C = 10e9
FULL = 1_250_000  # octets that C carries in T
QEQ, QSC = 24_000, 120_000


class Switch:
    """A congestion point with a separate generator."""

    def __init__(
        self,
        parameters: FECNCongestionPointParameters | None = None,
        *,
        capacity_bps: float = C,
        now_ns: int = 0,
        seed: int = 1,
    ) -> None:
        self.settings: FECNPointSettings = settings_record(parameters or FECNCongestionPointParameters())
        self.state: FECNPointState = new_record(FECNPointState)
        start(self.state, self.settings, np.random.default_rng(seed), now_ns, capacity_bps)

    def interval(self, octets: int, qlen_octets: int) -> float:
        """Let ``octets`` arrive, run the next tick, and return the advertised rate."""
        due_ns = next_timer_ns(self.state)
        count(self.state, octets, due_ns - 1)
        on_timer(self.state, self.settings, due_ns, qlen_octets)
        return float(self.state.rate_bps)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("qeq", [64, 1_000, 23_999, QEQ, 33_333, 119_999])
def test_section_7_queue_control_is_1_at_qeq(linear: bool, qeq: int) -> None:
    record = settings_record(FECNCongestionPointParameters(qeq_octets=qeq, linear=linear))
    assert queue_control(record, qeq) == 1.0
    assert queue_control(record, qeq - 1) > 1.0 > queue_control(record, qeq + 1)
    # Both branches come to 1 where they meet.
    assert queue_control(record, qeq - 1) == pytest.approx(1.0, abs=0.2 / qeq)
    assert queue_control(record, qeq + 1) == pytest.approx(1.0, abs=0.2 / qeq)


@pytest.mark.parametrize(
    ("qlen", "expected"),
    [
        (0, 1.002),
        (12_000, 1.002 * 2 / (0.002 + 2)),
        (48_000, 1.1 * 24 / (4.8 + 24)),
        (240_000, 0.55),
        (10**9, 0.1),
    ],
)
def test_enhancement_1_hyperbolic_queue_control_ends_at_c(qlen: int, expected: float) -> None:
    assert queue_control(settings_record(FECNCongestionPointParameters()), qlen) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("qlen", "expected"), [(0, 1.1), (12_000, 1.05), (48_000, 0.9), (240_000, 0.1), (10**9, 0.1)]
)
def test_enhancement_1_linear_queue_control_ends_at_c(qlen: int, expected: float) -> None:
    record = settings_record(FECNCongestionPointParameters(linear=True))
    assert queue_control(record, qlen) == pytest.approx(expected)


def test_item_2_switch_starts_at_c_over_n0() -> None:
    state = Switch(FECNCongestionPointParameters(initial_sources=200)).state
    assert state.rate_bps == state.previous_rate_bps == state.increase_bps == C / 200


def test_item_2_a_balanced_load_keeps_the_rate() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4))
    assert switch.interval(FULL, QEQ) == 2.5e9
    assert switch.interval(FULL, QEQ) == 2.5e9


def test_item_2_average_reaches_two_steps_back() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4))
    assert switch.interval(2 * FULL, QEQ) == 0.5 * 2.5e9 / 2 + 0.5 * 2.5e9
    # With "one step back" this would be 0.5·r1/2 + 0.5·r1.
    first = 1.875e9
    assert switch.interval(2 * FULL, QEQ) == 0.5 * first / 2 + 0.5 * 2.5e9


def test_enhancement_2_alpha_weighs_what_was_found() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4, averaging=0.25))
    assert switch.interval(2 * FULL, QEQ) == 0.25 * 1.25e9 + 0.75 * 2.5e9


def test_enhancement_1_long_queue_lowers_the_rate() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4))
    f = 1.1 * 24 / (0.1 * 48 + 24)
    assert switch.interval(FULL, 48_000) == pytest.approx(0.5 * 2.5e9 * f + 0.5 * 2.5e9)


def test_enhancement_3_increase_limit_grows_below_qeq() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=100))
    assert switch.interval(1_500, QEQ - 1) == pytest.approx(1e8 + 1.414e8)
    assert switch.interval(1_500, QEQ - 1) == pytest.approx(1e8 + 1.414e8 + 1.414**2 * 1e8)
    assert switch.state.limited_updates == 2


@pytest.mark.parametrize(("qlen", "factor"), [(QEQ - 1, 1.414), (QEQ, 1.0), (QSC, 1.0), (QSC + 1, 0.707)])
def test_enhancement_3_the_largest_increase_by_queue(qlen: int, factor: float) -> None:
    switch = Switch()
    switch.interval(FULL, qlen)
    assert switch.state.increase_bps == pytest.approx(5e8 * factor)


def test_enhancement_3_limits_increase_over_last_rate() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4, averaging=1.0))
    switch.state.increase_bps = 3e8
    switch.state.previous_rate_bps = 1e9
    # 0.25 Gb/s more than r_i, though 1.75 Gb/s more than r_{i−1}: not limited.
    assert switch.interval(FULL * 10 // 11, QEQ) == pytest.approx(2.75e9)
    assert switch.state.limited_updates == 0


def test_enhancement_3_decreases_are_not_limited() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=2, averaging=1.0))
    switch.state.increase_bps = 1e6
    assert switch.interval(10 * FULL, QEQ) == pytest.approx(5e8)
    assert switch.state.limited_updates == 0


def test_trap_the_largest_increase_stays_in_its_bounds() -> None:
    # Unbounded, 1.414^2100 overflows a float after two seconds of light load.
    switch = Switch()
    for _ in range(2_500):
        rate = switch.interval(1_500, 0)
        assert math.isfinite(rate)
    assert rate == C
    assert switch.state.increase_bps == C
    for _ in range(200):
        switch.interval(FULL, QSC + 1)
    assert switch.state.increase_bps == 1e6


def test_trap_an_interval_without_arrivals_updates_nothing() -> None:
    switch = Switch()
    before = (switch.state.rate_bps, switch.state.previous_rate_bps, switch.state.increase_bps)
    for qlen in (0, QEQ, 10**6):
        switch.interval(0, qlen)
    after = (switch.state.rate_bps, switch.state.previous_rate_bps, switch.state.increase_bps)
    assert after == before
    assert (switch.state.idle_ticks, switch.state.updates) == (3, 0)


def test_item_2_the_load_has_a_floor() -> None:
    # One octet in T is a load of 8e-7: without the floor the rate would jump to C.
    parameters = FECNCongestionPointParameters(initial_sources=100_000, averaging=1.0, increase_growth=1.0)
    switch = Switch(parameters)
    switch.state.increase_bps = C
    assert switch.interval(1, QEQ) == pytest.approx(1e5 * 1_000)


@pytest.mark.parametrize(("octets", "qlen", "bound"), [(1_500, 0, C), (100 * FULL, 10**7, 1e5)])
def test_item_2_rate_stays_within_its_bounds(octets: int, qlen: int, bound: float) -> None:
    switch = Switch()
    for _ in range(200):
        assert 1e5 <= switch.interval(octets, qlen) <= C
    assert switch.state.rate_bps == bound
    assert switch.state.bounded_updates > 0


def test_enhancement_4_capacity_loss_scales_both_rates() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4))
    switch.interval(2 * FULL, QEQ)
    set_capacity(switch.state, 1e9)
    assert switch.state.rate_bps == 1.875e9
    # z = 1 of the new capacity: r = r_i / 2 + r_{i−1} / 2, both a tenth.
    assert switch.interval(FULL // 10, QEQ) == pytest.approx(0.5 * 1.875e8 + 0.5 * 2.5e8)
    assert switch.state.previous_rate_bps == pytest.approx(1.875e8)
    assert switch.state.capacity_losses == 1


def test_enhancement_4_a_gained_capacity_scales_nothing() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4), capacity_bps=1e9)
    set_capacity(switch.state, 1e10)
    assert switch.interval(FULL, QEQ) == 2.5e8
    assert switch.state.capacity_losses == 0


def test_enhancement_4_happens_in_an_idle_interval_too() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=1))
    set_capacity(switch.state, 1e9)
    assert switch.interval(0, 0) == 1e9


def test_item_2_rd_tag_gets_lesser_rate() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=4))
    assert lowered(switch.state, 2_500_001) == 2_500_000
    assert lowered(switch.state, 2_500_000) == 2_500_000
    assert lowered(switch.state, 7) == 7
    assert lowered(switch.state, 0) == 0
    assert (switch.state.tags, switch.state.lowered_tags) == (4, 1)


def test_item_2_infinite_rate_exceeds_every_rate() -> None:
    assert lowered(Switch().state, RATE_INFINITY) == 500_000
    # 10 Tb/s does not fit into the field, and is still less than infinity.
    fast = Switch(FECNCongestionPointParameters(initial_sources=1), capacity_bps=1e13)
    assert lowered(fast.state, RATE_INFINITY) == LARGEST_RATE == 0xFFFFFFFE


def test_item_2_a_rate_is_floored_to_kbps() -> None:
    switch = Switch(FECNCongestionPointParameters(initial_sources=3))
    assert lowered(switch.state, RATE_INFINITY) == 3_333_333


def test_item_2_ticks_come_every_t() -> None:
    switch = Switch()
    assert next_timer_ns(switch.state) == MS
    count(switch.state, 1_500, 0)
    on_timer(switch.state, switch.settings, MS - 1, 0)
    assert switch.state.updates == 0
    on_timer(switch.state, switch.settings, MS, 0)
    assert (switch.state.updates, next_timer_ns(switch.state)) == (1, 2 * MS)


@pytest.mark.parametrize("late_intervals", [0, 1, 7])
def test_item_2_late_ticks_catch_up(late_intervals: int) -> None:
    late, punctual = Switch(), Switch()
    for switch in (late, punctual):
        count(switch.state, FULL // 2, 0)
    on_timer(late.state, late.settings, (1 + late_intervals) * MS + 5, 0)
    for interval in range(1 + late_intervals):
        on_timer(punctual.state, punctual.settings, (1 + interval) * MS, 0)
    assert late.state == punctual.state


@pytest.mark.parametrize(("came_ns", "intervals"), [(MS - 1, 1), (MS, 2), (4 * MS - 1, 4), (8 * MS, 8)])
def test_item_2_late_tick_averages_over_elapsed_time(came_ns: int, intervals: int) -> None:
    late, punctual = Switch(), Switch()
    count(late.state, intervals * FULL * 2, came_ns)
    on_timer(late.state, late.settings, 8 * MS, QEQ)
    assert late.state.rate_bps == punctual.interval(FULL * 2, QEQ)
    assert (late.state.updates, late.state.idle_ticks) == (1, 8 - intervals)
    assert next_timer_ns(late.state) == 9 * MS


def test_item_2_late_tick_hardly_raises_rate() -> None:
    late, punctual = Switch(), Switch()
    rate_bps = late.state.rate_bps
    count(late.state, FULL // 100, 8 * MS)
    on_timer(late.state, late.settings, 8 * MS, QEQ)
    assert late.state.rate_bps == rate_bps + 1_000_000 < punctual.interval(FULL // 100, QEQ)


def test_item_4_ticks_are_multiples_of_t() -> None:
    assert next_timer_ns(Switch(now_ns=5 * MS).state) == 6 * MS
    assert next_timer_ns(Switch(now_ns=5 * MS + 123).state) == 6 * MS


def test_item_4_a_random_phase_is_an_option() -> None:
    parameters = FECNCongestionPointParameters(random_phase=True)
    phases = [
        next_timer_ns(Switch(parameters, now_ns=5 * MS, seed=seed).state) - 5 * MS for seed in range(400)
    ]
    assert 0 < min(phases) < MS // 20
    assert MS - MS // 20 < max(phases) <= MS
    assert len(set(phases)) > 390


_INTERVALS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 3 * FULL), st.just(0), st.just(FULL)),
        st.one_of(st.integers(0, 150_000), st.sampled_from([0, QEQ - 1, QEQ, QEQ + 1, QSC, QSC + 1, 10**8])),
        st.sampled_from([None, None, None, 1e9, 2.5e9, 1e10]),
        st.integers(0, RATE_INFINITY),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(
    n0=st.integers(1, 200_000),
    linear=st.booleans(),
    alpha=st.sampled_from([0.25, 0.5, 1.0]),
    intervals=_INTERVALS,
)
def test_equals_the_literal_transcription(
    n0: int, linear: bool, alpha: float, intervals: list[tuple[int, int, float | None, int]]
) -> None:
    parameters = FECNCongestionPointParameters(initial_sources=n0, linear=linear, averaging=alpha)
    switch = Switch(parameters)
    literal = LiteralSwitch(C, n0, linear=linear, alpha=alpha)
    for octets, qlen, capacity_bps, rate in intervals:
        if capacity_bps is not None:
            set_capacity(switch.state, capacity_bps)
            literal.c_i = capacity_bps
        switch.interval(octets, qlen)
        literal.interval(octets, qlen)
        assert switch.state.rate_bps == pytest.approx(literal.r[-1], rel=1e-9)
        assert switch.state.increase_bps == pytest.approx(literal.delta_r, rel=1e-9)
        expected = math.inf if rate == RATE_INFINITY else rate
        assert lowered(switch.state, rate) == pytest.approx(literal.tag(expected), rel=1e-9, abs=1)
        assert 1e5 <= switch.state.rate_bps <= switch.state.capacity_bps
        assert 1e6 <= switch.state.increase_bps <= switch.state.capacity_bps
        assert lowered(switch.state, rate) <= rate
