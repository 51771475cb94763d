"""The ECM reaction point, rule by rule (algorithms §1, RP), and against S000's pseudo-code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.reaction_point import (
    ACTIVE,
    FREE,
    TIMED_OUT,
    depart,
    join,
    next_timer_ns,
    on_timer,
)
from ecmproto.control.mechanisms.api.protocol import NO_AVERAGE, NO_LIMITER
from ecmproto.control.mechanisms.ecm.parameters import ECMReactionPointParameters
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields, receive, settings_record, ticks
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import ParameterError
from tests.mechanisms.aimd.station import Station, new_reaction_point
from tests.mechanisms.ecm import literal

LINK = 10_000_000_000
CP, OTHER_CP = 7, -8
MS = 1_000_000


def station(*, seed: int = 1, link: int = LINK, **options: Any) -> Station:
    parameters = ECMReactionPointParameters(**({"limiters": 4} | options))
    settings = settings_record(parameters, link)
    return Station(new_reaction_point(parameters, settings, 0), settings, receive, seed)


def message(q_off: int = 0, q_delta: int = 0, *, cpid: int = CP, q: int = 0, stamp: int | None = None,
            unit: int = 0) -> ECMFields:  # fmt: skip
    return ECMFields(cpid, q_off, q_delta, q, stamp or 0, unit, stamp is not None)


STOP = message()
SLOWER = message(100)
FASTER = message(-100)


# Rule 1


@pytest.mark.parametrize(
    ("w", "q_off", "q_delta", "fb"),
    [(2.0, 100, 10, -120), (2.0, -100, 10, 80), (0.125, 3, -16, -1), (8.0, -80, 10, 0), (1.375, 0, -8, 11)],
)
def test_rule_1_feedback(w: float, q_off: int, q_delta: int, fb: int) -> None:
    subject = station(weight=w, increase_gain=1.0, decrease_gain=0.001)
    subject.receive(SLOWER)
    subject.receive(message(q_off, q_delta))
    expected = LINK / 2 * (1 + fb * 0.001) if fb < 0 else LINK / 2 + fb * 4e6
    assert subject.rate() == pytest.approx(expected, rel=1e-12)


def test_rule_1_zero_feedback_changes_no_flow() -> None:
    subject = station()
    assert subject.receive(message(-20, 10)) == NO_LIMITER
    subject.receive(SLOWER)
    subject.receive(message(-20, 10, cpid=OTHER_CP))
    assert (subject.rate(), subject.limiter().cpid) == (LINK / 2, CP)
    assert (subject.point.unlimited, subject.point.neutral) == (1, 1)


# Rule 2


def test_rule_2_negative_feedback_creates_limiter_at_ri() -> None:
    subject = station(initial_share=0.25)
    subject.receive(SLOWER)
    assert subject.rate() == LINK / 4
    assert subject.limiter().cpid == CP


def test_rule_2_decrease_precedes_release_at_ri_1() -> None:
    subject = station(initial_share=1.0, decrease_gain=0.001)
    for _ in range(10):
        subject.receive(SLOWER)
        subject.send(octets=100)
    assert (subject.point.allocated, subject.point.decreased, subject.point.released) == (1, 9, 0)
    assert subject.rate() == pytest.approx(LINK * 0.9**10)


def test_rule_2_ecm_0_0_stops_unknown_flow() -> None:
    subject = station()
    subject.receive(STOP)
    assert subject.limiter().status == TIMED_OUT
    assert subject.rate() == 0
    assert subject.point.allocated == 1


def test_rule_2_positive_feedback_creates_no_limiter() -> None:
    subject = station()
    assert subject.receive(FASTER) == NO_LIMITER
    assert subject.rate() is None
    assert subject.point.unlimited == 1


def test_rule_2_only_negative_feedback_moves_the_association() -> None:
    subject = station()
    subject.receive(SLOWER)
    subject.receive(message(-100, cpid=OTHER_CP))
    assert subject.rate() == LINK / 2
    assert subject.point.unassociated == 1
    subject.receive(message(100, cpid=OTHER_CP))
    assert subject.limiter().cpid == OTHER_CP
    slower = subject.rate()
    subject.receive(FASTER)
    assert subject.rate() == slower
    subject.receive(message(-100, cpid=OTHER_CP))
    rate = subject.rate()
    assert rate is not None
    assert slower is not None
    assert rate > slower


def test_rule_2_flows_have_limiters_of_their_own() -> None:
    subject = station()
    subject.receive(SLOWER, flow=1)
    subject.receive(SLOWER, flow=2)
    subject.receive(SLOWER, flow=2)
    assert subject.rate(1) == LINK / 2
    assert subject.rate(2) == pytest.approx(LINK / 2 * (1 - 100 * 0.0124 * 64 / 1500))
    assert subject.rate(3) is None


# Rule 3


def test_rule_3_decrease_saturates_at_alpha() -> None:
    subject = station(largest_decrease=0.25, decrease_gain=0.01)
    subject.receive(SLOWER)
    subject.receive(SLOWER)
    assert subject.rate() == LINK / 2 * 0.75
    assert subject.point.saturated == 1


def test_rule_3_increase_saturates_at_beta_of_capacity() -> None:
    subject = station(largest_increase=0.01, increase_gain=100.0)
    subject.receive(SLOWER)
    subject.receive(FASTER)
    assert subject.rate() == LINK / 2 + LINK * 0.01
    assert subject.point.saturated == 1


def test_rule_3_increase_is_capped_at_the_capacity() -> None:
    subject = station(increase_gain=1000.0)
    subject.receive(SLOWER)
    subject.receive(FASTER)
    assert subject.rate() == LINK
    assert subject.point.capped == 1


@pytest.mark.parametrize(
    ("q_off", "q_delta", "expected"),
    # w = 2, so Fb has the other sign than Qdelta's in the middle rows.
    [(0, 200, 0.5), (-500, 200, 0.5), (500, -200, 1.2), (0, -200, 1.2), (500, 0, 1.0)],
)
def test_rule_3_q_bit_doubles_weight_of_qdelta(q_off: int, q_delta: int, expected: float) -> None:
    subject = station(largest_decrease=0.25, largest_increase=0.05)
    subject.receive(SLOWER)
    subject.receive(message(q_off, q_delta, q=1))
    assert subject.rate() == pytest.approx(LINK / 2 * expected)


def test_rule_3_q_bit_decides_limiter_and_association() -> None:
    subject = station()
    assert subject.receive(message(500, -200, q=1)) == NO_LIMITER
    assert subject.receive(message(-500, 200, q=1)) != NO_LIMITER
    subject.receive(message(500, -200, q=1, cpid=OTHER_CP))
    assert subject.point.unassociated == 1
    subject.receive(message(-500, 200, q=1, cpid=OTHER_CP))
    assert subject.limiter().cpid == OTHER_CP


def test_rule_3_twice_alpha_is_at_most_all() -> None:
    subject = station(largest_decrease=0.75)
    subject.receive(SLOWER)
    subject.receive(message(0, 200, q=1))
    assert subject.rate() == subject.settings.floor_bps


def test_rule_3_ecm_0_0_ignores_q_bit() -> None:
    subject = station()
    subject.receive(message(q=1))
    assert subject.rate() == 0


def test_rule_3_trap_floor_bounds_the_rate() -> None:
    subject = station(rate_unit_bps=3_000_000)
    for _ in range(500):
        subject.receive(message(375, 750))
    assert subject.rate() == 3e6
    assert subject.point.floored > 0


def test_rule_3_trap_floor_is_independent_of_rmin() -> None:
    subject = station(restart_bps=8_000_000, self_increase_ns=10 * MS)
    for _ in range(4):
        subject.receive(STOP)
        subject.advance(MS // 2)
    assert subject.rate() == 4e6
    for _ in range(100):
        subject.receive(message(375, 750))
    assert subject.rate() == 4e6
    # The flow recovers: it is still sampled at 4 Mb/s, but would not be sampled at a minimum rate of 1 Mb/s.
    subject.receive(FASTER)
    assert subject.rate() == pytest.approx(4e6 + 100 * 4 * 64 / 1500 * 4e6)


# Rule 4


def time_outs(**options: Any) -> list[int]:
    found = []
    for seed in range(200):
        subject = station(seed=seed, **options)
        subject.receive(STOP)
        found.append(int(subject.limiter().expires_ns))
    return found


def test_rule_4_time_out_is_uniform_within_tmax() -> None:
    found = time_outs(tmax_ns=10_000)
    assert 0 <= min(found) < 300
    assert 9_700 < max(found) < 10_000
    assert abs(sum(found) / 200 - 5_000) < 700


def test_rule_4_stopped_limiter_restarts_at_rmin() -> None:
    subject = station(tmax_ns=5 * MS)
    subject.receive(STOP)
    expires_ns = int(subject.limiter().expires_ns)
    subject.send()
    assert next_timer_ns(subject.limiters) <= expires_ns
    subject.advance(expires_ns - 1)
    assert (subject.sent, subject.rate()) == ([], 0)
    subject.advance(1)
    assert [sent.time_ns for sent in subject.sent] == [expires_ns]
    assert subject.rate() == 100e6


@pytest.mark.parametrize("ignored", [STOP, SLOWER, FASTER, message(100, cpid=OTHER_CP), message(0, 9, q=1)])
def test_rule_4_trap_time_out_ignores_every_message(ignored: ECMFields) -> None:
    subject = station(tmax_ns=MS // 2)
    subject.receive(STOP)
    before = subject.limiter().tolist()  # type: ignore[attr-defined]
    assert before[0] == 0
    assert subject.receive(ignored) == NO_LIMITER
    assert subject.limiter().tolist() == before  # type: ignore[attr-defined]
    assert subject.point.in_time_out == 1


def test_rule_4_time_out_suspends_self_increase() -> None:
    subject = station(tmax_ns=1000 * MS, seed=3)
    subject.receive(STOP)
    assert subject.limiter().expires_ns > 50 * MS
    subject.advance(50 * MS)
    assert subject.rate() == 0


def test_rule_4_rmin_halves_and_tmax_doubles() -> None:
    subject = station(self_increase_ns=10 * MS, floor_bps=1_000, seed=3)
    seen = []
    for _ in range(20):
        subject.receive(STOP)
        subject.advance(int(subject.limiter().expires_ns) - subject.now_ns)
        seen.append((float(subject.limiter().restart_bps), int(subject.limiter().tmax_ns)))
    rmins, longest = zip(*seen, strict=True)
    assert rmins == tuple(max(100e6 / 2 ** (n + 1), 1e6) for n in range(20))
    assert longest == tuple(min(10_000 * 2 ** (n + 1), 10**9) for n in range(20))


def test_rule_4_the_first_positive_feedback_restores_both() -> None:
    subject = station()
    for _ in range(3):
        subject.receive(STOP)
        subject.advance(MS)
    assert (subject.limiter().restart_bps, subject.limiter().tmax_ns) == (12.5e6, 80_000)
    subject.receive(message(-100, cpid=OTHER_CP))
    assert subject.limiter().tmax_ns == 80_000
    subject.receive(FASTER)
    assert (subject.limiter().restart_bps, subject.limiter().tmax_ns) == (100e6, 10_000)


def test_rule_4_restart_is_never_above_link() -> None:
    subject = station(link=50_000_000)
    subject.send()
    subject.receive(STOP)
    subject.send()
    subject.send()
    subject.advance(10_000)
    assert subject.rate() == 50e6


# Rule 5


def test_rule_5_active_limiters_gain_rd_every_td() -> None:
    subject = station(self_increase_ns=2 * MS, self_increase_bps=3_000_000)
    subject.advance(MS)
    subject.receive(SLOWER)
    subject.advance(MS - 1)
    assert subject.rate() == LINK / 2
    subject.advance(1)
    assert subject.rate() == LINK / 2 + 3e6
    subject.advance(4 * MS)
    assert subject.rate() == LINK / 2 + 9e6


def test_rule_5_self_increase_is_capped_at_capacity() -> None:
    subject = station(link=100_000_000)
    subject.receive(SLOWER)
    for _ in range(30):
        subject.send()
    subject.advance(3 * MS)
    assert subject.rate() == 53e6
    for _ in range(1_000):
        subject.send()
    subject.advance(46 * MS)
    assert subject.rate() == 99e6
    subject.advance(5 * MS)
    assert subject.rate() == 100e6


def test_rule_5_self_increase_ticks_keep_their_phase() -> None:
    subject = station()
    subject.advance(10 * MS + 5)
    subject.receive(SLOWER)
    assert next_timer_ns(subject.limiters) == 11 * MS


# Rule 6


def test_rule_6_full_rate_releases_an_empty_limiter() -> None:
    subject = station(increase_gain=1000.0)
    subject.receive(SLOWER)
    subject.receive(FASTER)
    assert subject.rate() == LINK
    subject.advance(MS)
    assert subject.rate() is None
    assert next_timer_ns(subject.limiters) == NEVER_NS
    assert subject.point.released == 1


def test_rule_6_release_waits_for_the_last_departure() -> None:
    subject = station(increase_gain=1000.0)
    subject.receive(SLOWER)
    for _ in range(3):
        subject.send()
    subject.receive(FASTER)
    assert subject.rate() == LINK
    subject.advance(1_300)
    assert subject.rate() == LINK
    subject.advance(1_300)
    assert subject.rate() is None
    assert len(subject.sent) == 3


def test_rule_6_stale_limiter_rises_and_is_released() -> None:
    subject = station()
    subject.receive(SLOWER)
    subject.advance(5_000 * MS)
    assert subject.rate() is None
    assert subject.slots[0].status == FREE


# Rule 7


def test_rule_7_ticks_of_the_timestamp() -> None:
    assert ticks(999, 0) == 0
    assert ticks(65_536_000 + 1_000, 0) == 1
    assert ticks(8_000 * 5 + 7_999, 3) == 5


def test_rule_7_rtt_average_starts_with_first_sample() -> None:
    subject = station(rtt_shift=3)
    subject.now_ns = 70_000_000
    subject.receive(SLOWER)
    assert subject.limiter().rtt_average_ns == NO_AVERAGE
    subject.receive(message(100, stamp=ticks(70_000_000 - 40_000, 0)))
    assert subject.limiter().rtt_average_ns == 40_000
    subject.receive(message(-1, stamp=ticks(70_000_000 - 80_000, 0)))
    assert subject.limiter().rtt_average_ns == 45_000
    # feedback 0 shows the round-trip time as well
    subject.receive(message(-2, 1, stamp=ticks(70_000_000 - 45_000, 0)))
    assert subject.limiter().rtt_average_ns == 45_000


def test_rule_7_the_message_says_the_unit() -> None:
    subject = station()
    subject.now_ns = 10**9
    subject.receive(message(100))
    subject.receive(message(100, stamp=ticks(10**9 - 16_000 * 20, 4), unit=4))
    assert subject.limiter().rtt_average_ns == 320_000


def test_rule_7_another_congestion_point_restarts_the_average() -> None:
    subject = station()
    subject.now_ns = 10**9
    subject.receive(SLOWER)
    subject.receive(message(1, stamp=ticks(10**9 - 40_000, 0)))
    subject.receive(message(-1, cpid=OTHER_CP, stamp=ticks(10**9 - 90_000, 0)))
    assert subject.limiter().rtt_average_ns == 40_000
    subject.receive(message(1, cpid=OTHER_CP, stamp=ticks(10**9 - 90_000, 0)))
    assert subject.limiter().rtt_average_ns == 90_000
    subject.receive(message(1, cpid=CP))
    assert subject.limiter().rtt_average_ns == NO_AVERAGE


# Rule 8


def full_station(**options: Any) -> Station:
    """Both fine limiters in use, flow 1 of priority 3 and flow 2 of priority 5, at C/2."""
    subject = station(limiters=2, **options)
    subject.receive(SLOWER, flow=1, priority=3)
    subject.receive(SLOWER, flow=2, priority=5)
    return subject


def test_rule_8_full_table_creates_a_coarse_limiter() -> None:
    subject = full_station()
    subject.receive(message(100, cpid=OTHER_CP), flow=3, priority=3)
    coarse = subject.limiter(3, 3)
    assert (coarse.rate_bps, coarse.cpid, coarse.flow) == (LINK / 2, OTHER_CP, -1)
    assert subject.point.coarse_allocated == 1
    # The limiter applies to all flows of the priority, and to no flow of another priority.
    assert subject.rate(4, 3) == subject.rate(-1, 3) == LINK / 2
    assert subject.rate(3, 4) is None


def test_rule_8_other_priorities_keep_their_fine_limiters() -> None:
    subject = full_station()
    subject.receive(SLOWER, flow=3, priority=3)
    assert [slot.status for slot in subject.slots[:2]] == [FREE, ACTIVE]
    assert subject.limiter(2, 5).rate_bps == LINK / 2
    assert subject.limiter(2, 5).draining == 0


def test_rule_8_flow_moves_after_fine_queue_drains() -> None:
    subject = full_station()
    for _ in range(3):
        subject.send(1, 3)
    subject.receive(SLOWER, flow=3, priority=3)
    fine = subject.limiter(1, 3)
    assert (fine.flow, fine.rate_bps, fine.draining) == (1, LINK, 1)
    subject.send(1, 3)
    subject.check()
    subject.advance(3 * 1_300)
    assert subject.limiter(1, 3).flow == -1
    subject.check()


def test_rule_8_coarse_limiter_takes_feedback_during_drain() -> None:
    subject = full_station()
    for _ in range(3):
        subject.send(1, 3)
    subject.receive(SLOWER, flow=3, priority=3)
    subject.receive(message(200), flow=1, priority=3)
    assert subject.limiter(1, 3).rate_bps == LINK
    assert subject.limiter(3, 3).rate_bps < LINK / 2
    subject.check()


def test_rule_8_coarse_limiter_prevents_new_fine_ones() -> None:
    subject = full_station()
    subject.receive(SLOWER, flow=3, priority=3)
    subject.receive(SLOWER, flow=4, priority=3)
    assert subject.slots[0].status == FREE
    assert subject.point.allocated == 3
    assert subject.point.decreased == 1


def test_rule_8_fine_time_out_ends_before_draining() -> None:
    subject = full_station(tmax_ns=20 * MS, seed=5)
    subject.receive(STOP, flow=1, priority=3)
    expires_ns = int(subject.limiter(1, 3).expires_ns)
    assert expires_ns > MS
    subject.send(1, 3)
    subject.receive(SLOWER, flow=3, priority=3)
    subject.receive(SLOWER, flow=1, priority=3)
    assert subject.point.in_time_out == 1
    subject.advance(expires_ns - 1)
    assert (subject.rate(1, 3), subject.sent) == (0, [])
    subject.check()
    subject.advance(1)
    assert len(subject.sent) == 1
    assert subject.limiter(1, 3).flow == -1
    subject.check()


def test_rule_8_rule_6_releases_the_coarse_limiter() -> None:
    subject = full_station(increase_gain=1000.0)
    subject.receive(SLOWER, flow=3, priority=3)
    subject.receive(FASTER, flow=9, priority=3)
    assert subject.rate(3, 3) == LINK
    subject.advance(MS)
    assert subject.rate(3, 3) is None


def test_rule_8_surviving_fine_limiter_becomes_ordinary_again() -> None:
    subject = full_station(increase_gain=1000.0)
    for _ in range(1000):
        subject.send(1, 3)
    subject.receive(SLOWER, flow=3, priority=3)
    subject.receive(FASTER, flow=3, priority=3)
    subject.advance(MS)
    assert subject.rate(3, 3) is None
    assert subject.limiter(1, 3).draining == 0
    subject.receive(SLOWER, flow=1, priority=3)
    rate = subject.rate(1, 3)
    assert rate is not None
    assert rate < LINK
    subject.check()


def test_rule_8_empty_table_uses_coarse_limiters_only() -> None:
    subject = station(limiters=0)
    subject.receive(SLOWER, flow=1, priority=2)
    assert subject.rate(1, 2) == LINK / 2
    assert subject.rate(1, 1) is None
    subject.check()


def test_rule_8_unlimited_frames_are_never_queued() -> None:
    subject = station()
    subject.receive(STOP, flow=1)
    subject.send(1)
    subject.send(2)
    assert [(sent.flow, sent.cpid) for sent in subject.sent] == [(2, None)]


# Rule 9


def test_rule_9_what_leaves_limiter_carries_its_cpid() -> None:
    subject = station()
    subject.receive(SLOWER)
    subject.send()
    subject.receive(message(100, cpid=OTHER_CP))
    subject.send()
    subject.advance(MS)
    assert [sent.cpid for sent in subject.sent] == [CP, OTHER_CP]


# Enabled priorities, links, unknown flows


def test_messages_for_unlimited_priorities_are_ignored() -> None:
    subject = station(enabled=frozenset({3}))
    for priority in (-1, 0, 2, 8, 10**9):
        assert subject.receive(STOP, priority=priority) == NO_LIMITER
    assert subject.point.disabled == 5
    assert subject.receive(STOP, priority=3) != NO_LIMITER


def test_messages_about_unknown_flows_change_nothing() -> None:
    subject = full_station()
    subject.receive(SLOWER, flow=3, priority=3)
    before = np.asarray(subject.slots).tolist()
    for kind in (STOP, SLOWER, FASTER):
        assert subject.receive(kind, flow=-1, priority=3) == NO_LIMITER
    assert np.asarray(subject.slots).tolist() == before
    assert subject.point.unknown_flow == 3


def test_message_flood_stays_within_the_table() -> None:
    subject = station(limiters=4)
    for flow in range(5_000):
        subject.receive((SLOWER, STOP)[flow % 2], flow=flow, priority=flow % 8)
    assert subject.point.active <= 4 + 8
    subject.check()


def test_floor_above_initial_rate_is_refused() -> None:
    parameters = ECMReactionPointParameters(rate_unit_bps=4_000_000)
    with pytest.raises(ParameterError, match=r"floor: expected at most the initial rate ri·C \(500 kb/s\)"):
        settings_record(parameters, 1_000_000)


# Timers


def test_timers_that_are_late_catch_up_exactly() -> None:
    prompt, late = (station(seed=4, tmax_ns=3 * MS) for _ in range(2))
    for subject in (prompt, late):
        subject.receive(SLOWER, flow=1)
        subject.receive(STOP, flow=2)
        subject.send(1)
        subject.send(1)
    for _ in range(2_000):
        prompt.advance(10_000)
    late.now_ns = prompt.now_ns
    on_timer(late.limiters, late.settings, late.now_ns)
    for one, other in zip(prompt.slots, late.slots, strict=True):
        assert (one.rate_bps, one.status, one.tmax_ns) == (other.rate_bps, other.status, other.tmax_ns)
    assert prompt.point.tick_ns == late.point.tick_ns


def test_a_departure_counts_the_timers_due_before_it() -> None:
    prompt, late = (station(link=100_000_000) for _ in range(2))
    for subject in (prompt, late):
        subject.receive(SLOWER)
        for _ in range(2):
            join(subject.limiters, 0)
            depart(subject.limiters, subject.settings, 0, 0, 9_000)
            join(subject.limiters, 0)
    for tick in (1, 2):
        on_timer(prompt.limiters, prompt.settings, tick * MS)
    for subject in (prompt, late):
        depart(subject.limiters, subject.settings, 0, 2 * MS + 5, 9_000)
    assert prompt.limiter().tolist() == late.limiter().tolist()  # type: ignore[attr-defined]


def test_very_late_timers_skip_unchanging_ticks() -> None:
    subject = station(link=100_000_000, self_increase_ns=1_000)
    subject.receive(SLOWER)
    subject.send()
    subject.send()
    subject.queues.clear()  # frames wait and never leave, so the limiter remains
    on_timer(subject.limiters, subject.settings, 10**18)
    assert subject.rate() == 100e6
    assert subject.point.tick_ns == 10**18 + 1_000


# All of it

_FIELDS = st.integers(-40, 40)
_EVENTS = st.one_of(
    st.tuples(
        st.just("message"), st.integers(0, 2), st.sampled_from([CP, OTHER_CP]), _FIELDS, _FIELDS,
        st.integers(0, 1), st.one_of(st.none(), st.integers(0, 0xFFFF)),
    ),
    st.tuples(st.just("message"), st.integers(0, 2), st.just(CP), st.just(0), st.just(0), st.just(0),
              st.none()),
    st.tuples(st.just("wait"), st.integers(0, 3 * MS)),
)  # fmt: skip


@given(
    seed=st.integers(0, 2**32),
    w=st.sampled_from([0.125, 1.0, 2.0, 8.0]),
    alpha=st.sampled_from([0.1, 0.5, 1.0]),
    beta=st.sampled_from([0.001, 0.1, 1.0]),
    rd=st.sampled_from([1, 50]),
    events=st.lists(_EVENTS, max_size=60),
)
def test_equals_the_literal_transcription(
    seed: int, w: float, alpha: float, beta: float, rd: int, events: list[tuple[Any, ...]]
) -> None:
    subject = station(
        seed=seed, weight=w, largest_decrease=alpha, largest_increase=beta, increase_gain=2.0,
        decrease_gain=0.01, self_increase_bps=rd * 1_000_000, link=1_000_000_000,
    )  # fmt: skip
    slow = literal.LiteralReactionPoint(
        urand=np.random.default_rng(seed).random, c=1e9, w=w, gi=2.0, gd=0.01, ru=4e6, alpha=alpha,
        beta=beta, ri=5e8, floor=4e6, rmin=1e8, tmax=10_000, td=MS, rd=rd * 1e6, wrtt=3,
    )  # fmt: skip
    status = {literal.INACTIVE: FREE, literal.ACTIVE: ACTIVE, literal.TIMEOUT: TIMED_OUT}
    for kind, *values in events:
        if kind == "wait":
            subject.advance(values[0])
            slow.advance(slow.now + values[0])
        else:
            flow, cpid, q_off, q_delta, q, stamp = values
            subject.advance(0)
            subject.receive(ECMFields(cpid, q_off, q_delta, q, stamp or 0, 2, stamp is not None), flow)
            slow.advance(slow.now)
            slow.process_ecm_frame(flow, cpid, q_off, q_delta, q, stamp, 2)
        for flow, rl in slow.rl.items():
            if rl.state == literal.INACTIVE:
                assert subject.rate(flow) is None
                continue
            found = subject.limiter(flow)
            assert (found.status, found.cpid) == (status[rl.state], rl.cpid)
            assert found.rate_bps == pytest.approx(rl.rate, rel=1e-12)
            if rl.rtt_avg is None:
                assert found.rtt_average_ns == NO_AVERAGE
            else:
                assert found.rtt_average_ns == pytest.approx(rl.rtt_avg, rel=1e-9, abs=1e-6)
            if rl.state == literal.TIMEOUT:
                assert found.expires_ns == rl.expires
