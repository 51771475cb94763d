"""The start of probing, and the contents of replies (algorithms §4, rules 2 and 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.e2cm.parameters import E2CMReactionPointParameters
from ecmproto.control.mechanisms.e2cm.reaction_point import (
    NO_LATENCY,
    ProbeCounters,
    ProbeSettings,
    Probing,
    Reaction,
    on_departure,
    on_probe_timer,
    on_reply,
    signed_difference,
    start_probing,
    stop_probing,
)
from ecmproto.kernels.record import new_record, record_from

SKIPPED = Reaction(False, 0.0, 0.0)
GBPS_10 = 10_000_000
"""In kb/s: 1.25 octets a ns."""


class Flow:
    """One flow whose probing has started at time 0."""

    def __init__(
        self, parameters: E2CMReactionPointParameters | None = None, *, flight_ns: int = NO_LATENCY
    ) -> None:
        parameters = parameters or E2CMReactionPointParameters()
        self.settings = record_from(ProbeSettings, parameters, weight_8=int(8 * parameters.weight))
        self.counters: ProbeCounters = new_record(ProbeCounters)
        self.probing: Probing = new_record(Probing)
        self.probing.qeq_octets = 15_000
        self.probing.qmax_octets = 56_000
        self.probing.known_flight_ns = flight_ns
        self.start(0)

    def start(self, now_ns: int) -> None:
        start_probing(self.probing, self.settings, now_ns)

    def sends(self, octets: int) -> bool:
        return on_departure(self.probing, self.counters, self.settings, octets)

    def timer(self, now_ns: int) -> bool:
        return on_probe_timer(self.probing, self.counters, self.settings, now_ns)

    def reply(self, latency_ns: int, throughput_kbps: int = GBPS_10) -> Reaction:
        return on_reply(self.probing, self.counters, self.settings, latency_ns % 2**32, throughput_kbps)

    def queue(self, octets: int) -> Reaction:
        """Reply as if ``octets`` of the flow were queued after a flight time of 1000 ns at 10 Gb/s."""
        return self.reply(1_000 + octets * 4 // 5)


@pytest.mark.parametrize(("x", "frames"), [(75_000, 50), (15_000, 10)])
def test_2_one_probe_per_x_kb_sent(x: int, frames: int) -> None:
    flow = Flow(E2CMReactionPointParameters(probe_octets=x))
    due = [index + 1 for index in range(4 * frames) if flow.sends(1_500)]
    assert due == [frames, 2 * frames, 3 * frames, 4 * frames]
    assert flow.counters.probes == 4


def test_2_one_probe_per_x_whatever_the_lengths() -> None:
    flow = Flow(E2CMReactionPointParameters(probe_octets=10_000))
    assert sum(flow.sends(9_000) for _ in range(100)) == 90
    assert sum(flow.sends(64) for _ in range(10_000)) == 64
    # A frame longer than X is followed by one probe, not by several.
    assert flow.sends(35_000)
    assert flow.counters.probes == 155


def test_2_per_n_frames_as_an_option() -> None:
    flow = Flow(E2CMReactionPointParameters(probe_octets=0, probe_frames=3))
    assert [flow.sends(64) for _ in range(7)] == [False, False, True, False, False, True, False]


def test_2_timed_probes_stay_in_step_when_late() -> None:
    flow = Flow(E2CMReactionPointParameters(probe_octets=0, probe_interval_ns=1_000))
    assert flow.probing.due_ns == 1_000
    assert not flow.timer(999)
    assert flow.timer(1_000)
    assert flow.probing.due_ns == 2_000
    assert flow.timer(4_500)
    assert not flow.timer(4_500)
    assert flow.probing.due_ns == 5_000
    assert not flow.sends(10**6)
    assert flow.counters.probes == 2


def test_2_octet_and_frame_counts_share_one_probe() -> None:
    flow = Flow(E2CMReactionPointParameters(probe_octets=3_000, probe_frames=4))
    assert [flow.sends(1_000) for _ in range(6)] == [False, False, True, True, False, True]
    assert [flow.sends(1_000) for _ in range(6)] == [False, True, True, False, False, True]


def test_2_unprobed_flow_has_no_timer_or_probe() -> None:
    flow = Flow(E2CMReactionPointParameters(probe_interval_ns=1_000))
    stop_probing(flow.probing)
    assert not flow.probing.active
    assert not flow.timer(10**9)
    assert not flow.sends(10**9)
    assert flow.reply(5) == SKIPPED
    assert (flow.counters.probes, flow.counters.idle_replies) == (0, 1)


def test_4_feedback_vanishes_at_flow_qeq() -> None:
    flow = Flow(flight_ns=1_000)
    flow.queue(0)
    assert flow.queue(15_000) == Reaction(True, 15_000.0, -2 * 15_000.0)
    assert flow.queue(15_000) == Reaction(True, 15_000.0, 0.0)
    assert flow.queue(0) == Reaction(True, 0.0, 15_000.0 + 2 * 15_000.0)
    assert flow.queue(0) == Reaction(True, 0.0, 15_000.0)


def test_4_feedback_is_clamped_and_full_above_qmax() -> None:
    flow = Flow(flight_ns=1_000)
    flow.queue(0)
    assert flow.queue(50_000).feedback_octets == -15_000 - 2 * 30_000
    assert flow.queue(50_000).feedback_octets == -15_000
    assert flow.queue(56_000).feedback_octets == -15_000 - 2 * 6_000
    # Above Qmax the change no longer counts.
    assert flow.queue(60_000).feedback_octets == -(1 + 2 * 2) * 15_000
    assert flow.queue(60_000).feedback_octets == -(1 + 2 * 2) * 15_000
    assert flow.queue(0).feedback_octets == 15_000 + 2 * 30_000


def test_4_little_s_formula() -> None:
    flow = Flow(flight_ns=1_000)
    flow.queue(0)
    assert flow.reply(1_000 + 80_000, 2_500_000).queue_octets == pytest.approx(25_000)
    assert flow.reply(1_000 + 80_000, 1_000_000).queue_octets == pytest.approx(10_000)


def test_4_first_reply_only_tells_flight_time() -> None:
    flow = Flow()
    assert flow.reply(5_000) == SKIPPED
    assert flow.probing.flight_ns == 5_000
    assert flow.counters.first_replies == 1
    assert flow.reply(5_000 + 12_000).queue_octets == 15_000


def test_4_reply_without_throughput_counts_latency_only() -> None:
    flow = Flow()
    flow.reply(5_000)
    assert flow.reply(4_000, 0) == SKIPPED
    assert (flow.probing.flight_ns, flow.counters.unmeasured_replies) == (4_000, 1)


def test_4_flight_time_is_least_latency_seen() -> None:
    flow = Flow()
    for latency_ns, least_ns in [(9_000, 9_000), (12_000, 9_000), (7_000, 7_000), (8_000, 7_000)]:
        flow.reply(latency_ns)
        assert flow.probing.flight_ns == least_ns


def test_4_known_flight_time_reveals_a_standing_queue() -> None:
    # If the flight time were learned from this probe, it would hide the queue, and the flow would get up to
    # twice its share.
    known, learned = Flow(flight_ns=1_000), Flow()
    for flow in (known, learned):
        flow.reply(1_000 + 24_000)
    assert known.reply(1_000 + 24_000).feedback_octets < 0
    assert learned.reply(1_000 + 24_000).feedback_octets > 0


def test_4_a_latency_of_0_is_a_latency() -> None:
    # S002's `flightTime == 0.0` would mean "not yet measured" and discard the minimum latency.
    flow = Flow()
    flow.reply(0)
    flow.reply(12_000)
    assert flow.probing.flight_ns == 0


def test_4_the_state_resets_when_probing_restarts() -> None:
    flow = Flow()
    flow.reply(1_000)
    flow.reply(1_000 + 24_000)
    flow.sends(70_000)
    stop_probing(flow.probing)
    flow.start(99)
    assert flow.probing.flight_ns == NO_LATENCY
    assert flow.probing.queue_octets == 0.0
    assert not flow.sends(70_000)
    assert flow.reply(50_000) == SKIPPED
    assert flow.reply(50_000).queue_octets == 0.0


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (5, 3, 2),
        (3, 5, -2),
        (0, 2**32 - 1, 1),
        (2**32 - 1, 0, -1),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31, 0, -(2**31)),
    ],
)
def test_4_latencies_compare_as_signed_32_bits(one: int, other: int, difference: int) -> None:
    assert signed_difference(one, other) == difference


_REPLIES = st.lists(
    st.tuples(st.integers(0, 2_000_000), st.one_of(st.just(0), st.integers(1, 2 * GBPS_10))), max_size=30
)


@given(replies=_REPLIES, offset_ns=st.integers(0, 2**32 - 1))
def test_4_clocks_need_not_agree(replies: list[tuple[int, int]], offset_ns: int) -> None:
    agreeing, apart = Flow(), Flow()
    for latency_ns, throughput_kbps in replies:
        assert agreeing.reply(latency_ns, throughput_kbps) == apart.reply(
            latency_ns + offset_ns, throughput_kbps
        )


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=40))
def test_replies_are_counted_and_feedback_is_bounded(
    replies: list[tuple[int, int]],
) -> None:
    flow = Flow()
    for latency_ns, throughput_kbps in replies:
        reaction = flow.reply(latency_ns, throughput_kbps)
        assert abs(reaction.feedback_octets) <= 5 * 15_000
        assert reaction.queue_octets >= 0
    counters = flow.counters
    assert counters.first_replies + counters.unmeasured_replies + counters.reactions == len(replies)
