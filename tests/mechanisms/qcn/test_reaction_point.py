"""The QCN reaction point, rule by rule (algorithms §3, RP), as message sequences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from ecmproto.control.mechanisms.limiter import NEVER_NS, leaves_ns
from ecmproto.control.mechanisms.qcn.parameters import QCNReactionPointParameters
from ecmproto.control.mechanisms.qcn.reaction_point import next_timer_ns, settings_record
from ecmproto.errors import ParameterError
from tests.mechanisms.qcn.station import LINK_BPS, Station

MS = 1_000_000
GBPS = 1e9


def exact(**changes: Any) -> Station:
    """A station without jitter."""
    return Station(QCNReactionPointParameters(jitter=0.0, **changes))


def stages(station: Station, flow: int) -> tuple[int, int]:
    limiter = station.limiter(flow)
    return int(limiter.byte_stage), int(limiter.time_stage)


def one_byte_stage(station: Station, flow: int) -> None:
    """Send the remaining octets of the byte counter at a time without a timer event."""
    limiter = station.limiter(flow)
    limiter.debt_bits = 0.0
    station.frame(flow, int(limiter.byte_countdown_octets))
    limiter.debt_bits = 0.0


def test_a_flow_without_cnm_is_not_limited() -> None:
    station = Station()
    station.frame(3, 1500)
    station.frame(3, 1500)
    assert station.sent == [(0, 3, 1500), (0, 3, 1500)]
    assert next_timer_ns(station.limiters) == NEVER_NS


def test_rule_1_first_cnm_lowers_a_new_limiter() -> None:
    station = exact()
    assert station.cnm(3, 32) == 0
    limiter = station.limiter(3)
    assert limiter.rate_bps == 7.5 * GBPS
    assert limiter.target_bps == 10 * GBPS
    assert limiter.byte_countdown_octets == 150_000
    assert next_timer_ns(station.limiters) == 15 * MS
    assert not station.limited(2)


@pytest.mark.parametrize(
    ("qntz_fb", "rate_gbps", "saturated"), [(1, 9.921875, 0), (63, 5.078125, 0), (64, 5.0, 0), (127, 5.0, 1)]
)
def test_rule_1_decrease_follows_feedback_up_to_half(qntz_fb: int, rate_gbps: float, saturated: int) -> None:
    station = exact()
    station.cnm(3, qntz_fb)
    assert station.limiter(3).rate_bps == rate_gbps * GBPS
    assert station.count("saturated") == saturated


def test_rule_1_the_rate_stays_at_the_minimum() -> None:
    station = exact(min_rate_bps=2 * 10**9)
    for _ in range(4):
        station.cnm(3, 63)
    assert station.limiter(3).rate_bps == 2 * GBPS
    assert station.count("floored") == 2


def test_rule_1_cnm_in_stage_0_keeps_target() -> None:
    """✗ "target = current" on every message forgets the rate to recover to."""
    station = exact()
    station.cnm(3, 63)
    station.frame(3, 50_000)
    station.run_for(16 * MS)
    assert stages(station, 3) == (0, 1)
    station.cnm(3, 63)
    limiter = station.limiter(3)
    assert limiter.target_bps == 10 * GBPS
    assert limiter.byte_countdown_octets == 100_000
    assert stages(station, 3) == (0, 0)


def test_rule_1_later_cnm_replaces_target_and_counter() -> None:
    station = exact()
    station.cnm(3, 63)
    one_byte_stage(station, 3)
    station.frame(3, 50_000)
    rate_bps = station.limiter(3).rate_bps
    assert rate_bps == (5.078125 + 10) / 2 * GBPS
    station.cnm(3, 63)
    limiter = station.limiter(3)
    assert limiter.target_bps == rate_bps
    assert limiter.byte_countdown_octets == 150_000
    assert stages(station, 3) == (0, 0)


def test_rule_1_cnm_restarts_timer_with_full_period() -> None:
    station = exact()
    station.cnm(3, 63)
    station.run_for(7 * 15 * MS)
    assert stages(station, 3) == (0, 8)
    station.now_ns += 1
    station.cnm(3, 63)
    assert next_timer_ns(station.limiters) - station.now_ns == 15 * MS


def test_rule_1_zero_feedback_is_only_counted() -> None:
    station = Station()
    assert station.cnm(3, 0) == -1
    assert not station.limited(3)
    station.cnm(3, 63)
    before = station.limiters.slots[0].copy()  # type: ignore[attr-defined]
    station.cnm(3, 0)
    assert station.limiters.slots[0] == before
    assert (station.count("without_feedback"), station.count("messages")) == (2, 3)


@pytest.mark.parametrize("flow", [-1, 8, 2**40, -(2**40)])
def test_id_never_sent_is_counted_and_changes_nothing(flow: int) -> None:
    station = Station()
    assert station.cnm(flow, 63) == -1
    assert station.count("unknown_flow") == 1
    assert station.count("active") == 0
    assert not any(limiter.active for limiter in station.limiters.slots)


def test_rule_2_byte_counter_expires_after_its_octets() -> None:
    station = exact()
    station.cnm(3, 63)
    station.frame(3, 149_999)
    assert stages(station, 3) == (0, 0)
    station.limiter(3).debt_bits = 0.0
    station.frame(3, 1)
    assert stages(station, 3) == (1, 0)
    assert station.limiter(3).byte_countdown_octets == 150_000


def test_rule_2_overshooting_frame_makes_one_stage() -> None:
    station = exact()
    station.cnm(3, 63)
    station.frame(3, 1_000_000)
    assert stages(station, 3) == (1, 0)
    assert station.limiter(3).byte_countdown_octets == 150_000


def test_rule_2_fast_recovery_halves_distance_to_target() -> None:
    station = exact()
    station.cnm(3, 63)
    rate = station.limiter(3).rate_bps
    for stage in range(1, 6):
        one_byte_stage(station, 3)
        rate = (rate + 10 * GBPS) / 2
        assert stages(station, 3) == (stage, 0)
        assert station.limiter(3).rate_bps == rate
        assert station.limiter(3).target_bps == 10 * GBPS


def lowered(station: Station) -> None:
    """Bring flow 3's target and rate far below the maximum."""
    for _ in range(3):
        station.cnm(3, 63)
        one_byte_stage(station, 3)
    station.cnm(3, 1)


def test_rule_2_one_counters_threshold_starts_active_increase() -> None:
    station = exact()
    lowered(station)
    target = station.limiter(3).target_bps
    for _ in range(5):
        one_byte_stage(station, 3)
    assert station.limiter(3).target_bps == target
    for step in (1, 2):
        one_byte_stage(station, 3)
        assert station.limiter(3).target_bps == target + step * 5e6
        assert station.limiter(3).byte_countdown_octets == 75_000


def test_rule_2_both_thresholds_start_hyper_increase() -> None:
    station = exact()
    lowered(station)
    for _ in range(8):
        one_byte_stage(station, 3)
    station.run_for(5 * 15 * MS)
    target = station.limiter(3).target_bps
    assert stages(station, 3) == (8, 5)
    station.run_for(15 * MS)
    assert stages(station, 3) == (8, 6)
    assert station.limiter(3).target_bps == target + 50e6
    station.run_for(7_500_000)
    assert stages(station, 3) == (8, 7)
    assert station.limiter(3).target_bps == target + 50e6 + 2 * 50e6


def test_rule_2_timer_period_halves_past_its_threshold() -> None:
    station = exact()
    lowered(station)
    start_ns = station.now_ns
    expiries = []
    for _ in range(8):
        expiries.append(int(next_timer_ns(station.limiters)) - start_ns)
        station.run_until(int(next_timer_ns(station.limiters)))
    assert expiries == [15 * MS, 30 * MS, 45 * MS, 60 * MS, 75 * MS, 90 * MS, 97_500_000, 105 * MS]
    assert station.limiter(3).byte_countdown_octets == 150_000


def test_rule_2_stage_1_divides_a_distant_target() -> None:
    station = exact()
    for _ in range(4):
        station.cnm(3, 63)
    limiter = station.limiter(3)
    rate = limiter.rate_bps
    assert limiter.target_bps > 10 * rate
    station.run_for(15 * MS)
    assert limiter.target_bps == 10 * GBPS / 8
    assert limiter.rate_bps == (rate + 1.25 * GBPS) / 2
    assert station.count("cut") == 1


def test_rule_2_tenfold_target_is_not_divided() -> None:
    station = exact(min_rate_bps=10**9)
    for _ in range(5):
        station.cnm(3, 63)
    assert station.limiter(3).rate_bps == 1 * GBPS
    station.run_for(15 * MS)
    assert station.limiter(3).target_bps == 10 * GBPS


def test_rule_2_target_is_clamped_to_maximum() -> None:
    station = exact()
    station.cnm(3, 63)
    for _ in range(7):
        one_byte_stage(station, 3)
    assert station.limiter(3).target_bps == 10 * GBPS
    assert station.count("capped") == 2


def test_rule_2_almost_maximum_rate_becomes_the_maximum() -> None:
    station = exact()
    station.cnm(3, 63)
    station.limiter(3).rate_bps = 10 * GBPS * (1 - 4e-6)
    station.run_for(15 * MS)
    assert station.limiter(3).rate_bps == 10 * GBPS * (1 - 2e-6)
    for _ in range(2):
        station.limiter(3).waiting += 1
        station.run_for(15 * MS)
    assert station.limiter(3).rate_bps == 10 * GBPS


def test_rule_2_margin_is_15_percent_each_way() -> None:
    station = Station(QCNReactionPointParameters(threshold=10**6), seed=5)
    periods_ns, octets = [], []
    for _ in range(1_000):
        station.cnm(3, 1)
        periods_ns.append(int(next_timer_ns(station.limiters)) - station.now_ns)
        one_byte_stage(station, 3)
        octets.append(int(station.limiter(3).byte_countdown_octets))
    for reloads, base in ((periods_ns, 15 * MS), (octets, 150_000)):
        assert base * 0.85 <= min(reloads) < base * 0.86
        assert base * 1.14 < max(reloads) <= base * 1.15 + 1
        assert abs(sum(reloads) / len(reloads) / base - 1) < 0.01


def test_rule_3_release_at_maximum_with_empty_queue() -> None:
    station = exact()
    station.cnm(3, 63)
    station.run_for(1_000 * MS)
    assert not station.limited(3)
    assert next_timer_ns(station.limiters) == NEVER_NS
    assert (station.count("active"), station.count("released")) == (0, 1)


def test_rule_3_waiting_frames_delay_release_at_maximum() -> None:
    station = exact()
    station.cnm(3, 63)
    limiter = station.limiter(3)
    station.frame(3, 1500)
    station.frame(3, 1500)
    limiter.rate_bps = limiter.target_bps = 10 * GBPS
    leave_ns, _ = station.next_leave()
    assert station.limited(3)
    station.run_until(leave_ns)
    assert not station.limited(3)
    assert len(station.sent) == 2


def test_rule_3_a_released_flow_starts_anew() -> None:
    station = exact()
    station.cnm(3, 63)
    station.run_for(1_000 * MS)
    station.cnm(3, 32)
    assert station.limiter(3).rate_bps == 7.5 * GBPS
    assert station.limiter(3).target_bps == 10 * GBPS
    assert stages(station, 3) == (0, 0)
    assert station.count("created") == 2


def test_reallocated_limiter_belongs_to_its_new_flow() -> None:
    station = exact()
    station.cnm(3, 63)
    station.run_for(1_000 * MS)
    assert station.cnm(4, 63) == 0
    assert station.limited(4)
    assert not station.limited(3)


def test_past_max_rps_ids_share_one_limiter() -> None:
    station = exact(max_rps=2)
    for flow in range(5):
        station.cnm(flow, 32)
    assert station.limiter(0).rate_bps == station.limiter(1).rate_bps == 7.5 * GBPS
    assert station.limiter(2).rate_bps == 10 * GBPS * 0.75**3
    assert {station.limiter(flow).lease for flow in (2, 3, 4)} == {1}
    assert station.count("sharing") == 3
    station.frame(2, 1500)
    station.frame(4, 1500)
    assert len(station.sent) == 1
    station.run_for(1_000 * MS)
    assert [flow for _, flow, _ in station.sent] == [2, 4]
    assert not any(station.limited(flow) for flow in range(5))


def test_frames_leave_at_the_limited_rate() -> None:
    station = exact()
    for _ in range(3):
        station.cnm(3, 63)
    rate = station.limiter(3).rate_bps
    for _ in range(20):
        station.frame(3, 1_500)
    station.run_for(15 * MS)
    times = [time_ns for time_ns, _, _ in station.sent]
    gaps = {later - earlier for earlier, later in pairwise(times)}
    assert gaps <= {int(12_000 / rate * 1e9), int(12_000 / rate * 1e9) + 1}
    assert len(station.sent) == 20


def test_late_timers_expire_at_their_own_times() -> None:
    punctual, late = Station(seed=9), Station(seed=9)
    for station in (punctual, late):
        station.cnm(3, 63)
        station.cnm(5, 20)
    for _ in range(100):
        punctual.run_for(MS)
    late.now_ns = punctual.now_ns
    for station in (punctual, late):
        station.cnm(1, 9)
        assert station.count("time_expiries") == punctual.count("time_expiries") > 10
    assert punctual.limiters.slots == pytest.approx(late.limiters.slots)


def test_late_timers_drain_debt_at_each_rate() -> None:
    station = exact(byte_reset_octets=10**8)
    for _ in range(9):
        station.cnm(3, 63)
    station.frame(3, 1_000_000)
    rate = station.limiter(3).rate_bps
    target = station.limiter(3).target_bps
    paid = rate * 0.015
    assert target > 10 * rate
    assert paid < 8e6
    station.now_ns = 15 * MS + 1_000
    station.cnm(3, 0)
    after = (rate + target / 8) / 2
    expected_ns = 15 * MS + (8e6 - paid) / after * 1e9
    assert leaves_ns(station.limiter(3), station.now_ns) == pytest.approx(expected_ns, abs=2)


class TestStandardVariant:
    """The 802.1Q state diagram's reading."""

    @staticmethod
    def station() -> Station:
        return Station(QCNReactionPointParameters(variant="standard"))

    def test_no_jitter(self) -> None:
        station = self.station()
        station.cnm(3, 63)
        assert station.limiter(3).byte_countdown_octets == 150_000
        assert next_timer_ns(station.limiters) == 15 * MS

    def test_threshold_reached_counts_as_past_it(self) -> None:
        station = self.station()
        lowered(station)
        target = station.limiter(3).target_bps
        for _ in range(4):
            one_byte_stage(station, 3)
        assert station.limiter(3).target_bps == target
        one_byte_stage(station, 3)
        assert station.limiter(3).target_bps == target + 5e6

    def test_hyper_increase_adds_a_step_and_halves_periods(self) -> None:
        station = self.station()
        lowered(station)
        for _ in range(6):
            one_byte_stage(station, 3)
        assert station.limiter(3).byte_countdown_octets == 150_000
        station.run_for(4 * 15 * MS)
        target = station.limiter(3).target_bps
        station.run_for(15 * MS)
        assert stages(station, 3) == (6, 5)
        assert station.limiter(3).target_bps == target + 50e6
        assert next_timer_ns(station.limiters) - station.now_ns == 7_500_000
        station.run_for(7_500_000)
        assert station.limiter(3).target_bps == target + 50e6 + 2 * 50e6
        one_byte_stage(station, 3)
        assert station.limiter(3).byte_countdown_octets == 75_000


def test_maximum_is_links_rate_or_lower_one() -> None:
    def highest(max_rate_bps: int) -> float:
        parameters = QCNReactionPointParameters(max_rate_bps=max_rate_bps)
        return settings_record(parameters, link_rate_bps=LINK_BPS).max_rate_bps

    assert highest(0) == highest(10**12) == LINK_BPS
    assert highest(10**9) == 10**9


def test_a_link_below_the_minimum_rate_is_refused() -> None:
    with pytest.raises(
        ParameterError, match="min_rate: expected at most the maximum rate, 5 Mb/s, got 10 Mb/s"
    ):
        settings_record(QCNReactionPointParameters(), link_rate_bps=5_000_000)
