"""The E²CM reaction point (algorithms §4, rules 2, 4 and 6), and against the literal transcription."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.reaction_point import ACTIVE, FREE, TIMED_OUT, join, on_timer
from ecmproto.control.mechanisms.api.protocol import NO_CPID
from ecmproto.control.mechanisms.e2cm import reaction_point as rp
from ecmproto.control.mechanisms.e2cm.parameters import E2CMReactionPointParameters
from ecmproto.control.mechanisms.e2cm.reaction_point import BCN, BCN_ZERO, NO_LATENCY, Reaction
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields
from ecmproto.control.mechanisms.limiter import NEVER_NS, leaves_ns
from ecmproto.errors import ParameterError
from ecmproto.kernels.record import columns
from tests.conftest import REPOSITORY
from tests.mechanisms.e2cm.literal import LiteralReactionPoint
from tests.mechanisms.e2cm.station import CPID, LARGEST, LINK, OTHER, STOP, Station, bcn
from tests.mechanisms.e2cm.trace import next_probe, trace

SKIPPED = Reaction(False, 0.0, 0.0)
FULL_UNITS = 1171 + 2 * 2343
"""The largest feedback of a message: 5·75 KB in units of 64 octets, each field truncated."""


def limited(parameters: E2CMReactionPointParameters | None = None, flight_ns: int = NO_LATENCY) -> Station:
    """Return a station whose flow 0 is rate limited at C/2 and has had its first reply."""
    station = Station(parameters)
    station.path(0, flight_ns=flight_ns)
    assert station.message(0, LARGEST) == 0
    assert station.reply(0, 1_000) == SKIPPED
    return station


def queued(station: Station, octets: int, now_ns: int = 0, flow: int = 0) -> Reaction:
    """Reply as if ``octets`` of the flow were queued after a flight time of 1000 ns at 10 Gb/s."""
    return station.reply(now_ns, 1_000 + octets * 4 // 5, flow=flow)


def test_2_message_starts_probing_of_its_flow_alone() -> None:
    station = Station()
    assert not any(station.sends(0) for _ in range(200))
    station.message(1_000, bcn(10), flow=0)
    assert (station.probing(0).active, station.probing(1).active) == (1, 0)
    assert [index + 1 for index in range(150) if station.sends(1_000)] == [50, 100, 150]
    assert not any(station.sends(1_000, flow=1) for _ in range(200))


def test_2_message_that_limits_nothing_starts_no_probing() -> None:
    station = Station()
    assert station.message(0, bcn(-10)) == -1
    assert station.probing().active == 0


def test_2_further_messages_leave_the_probes_in_step() -> None:
    station = limited()
    assert not any(station.sends(0) for _ in range(49))
    station.message(0, bcn(5))
    assert station.sends(0)
    assert station.probing().replies == 1


def test_2_probing_ends_with_the_limiter() -> None:
    station = limited()
    station.limiter().rate_bps = LINK
    station.sends(10)
    assert station.index() == -1
    assert station.probing().active == 0
    assert queued(station, 15_000) == SKIPPED
    assert station.source.counters.idle_replies == 1


def test_2_timer_release_of_limiter_ends_probing() -> None:
    station = limited(E2CMReactionPointParameters(max_flows=4, probe_interval_ns=1_000_000))
    assert next_probe(station.source, station.settings) == (0, 1_000_000)
    station.limiter().rate_bps = LINK
    # The next tick of Td finds the queue empty.
    on_timer(station.source.limiters, station.settings, 999_999 + 1)
    assert station.index() == -1
    assert not rp.probe_on_timer(station.source, station.settings, 0, 1_000_000)
    assert next_probe(station.source, station.settings) == (-1, NEVER_NS)


def test_2_probes_by_time() -> None:
    parameters = E2CMReactionPointParameters(max_flows=4, probe_octets=0, probe_interval_ns=1_000)
    station = Station(parameters)
    station.message(500, LARGEST, flow=2)
    station.message(700, LARGEST, flow=1)
    assert next_probe(station.source, station.settings) == (2, 1_500)
    assert rp.probe_on_timer(station.source, station.settings, 2, 1_500)
    assert next_probe(station.source, station.settings) == (1, 1_700)


def test_2_autonomous_probes_start_with_first_frame() -> None:
    station = Station(E2CMReactionPointParameters(max_flows=16, autonomous=True))
    station.path(0, flight_ns=1_000)
    assert sum(station.sends(0) for _ in range(100)) == 2
    assert queued(station, 0) == SKIPPED
    assert queued(station, 10_000, 5).reacts
    assert station.index() == 0
    assert station.rate_bps() == LINK / 2
    assert station.limiter().cpid == NO_CPID
    # The flow is still probed after its limiter ends.
    station.limiter().rate_bps = LINK
    station.sends(10)
    assert station.index() == -1
    assert station.probing().active == 1
    assert queued(station, 0, 20).feedback_octets > 0
    assert station.index() == -1
    assert station.source.counters.allocated == 1


def test_4_gains_of_probes_on_shared_limiter() -> None:
    station = limited(flight_ns=1_000)
    assert queued(station, 15_000).feedback_octets == -30_000
    # 2.5 / 375 000 of the rate per octet.
    assert station.rate_bps() == pytest.approx(LINK / 2 * (1 - 0.2))
    assert queued(station, 15_000).feedback_octets == 0
    assert station.rate_bps() == pytest.approx(4e9)
    assert queued(station, 0).feedback_octets == 45_000
    # 0.025 of the link for 375 000 octets.
    assert station.rate_bps() == pytest.approx(4e9 + 0.025 * LINK * 45_000 / 375_000)
    assert queued(station, 60_000).feedback_octets == -75_000
    assert station.rate_bps() == pytest.approx((4e9 + 3e7) / 2)


def test_4_messages_use_ecm_gains_of_s002() -> None:
    station = limited()
    station.message(0, LARGEST)
    assert station.rate_bps() == pytest.approx(LINK / 2 * (1 - 0.5 * FULL_UNITS * 64 / 375_000))
    before = station.rate_bps()
    station.message(0, bcn(-100, -200))
    assert station.rate_bps() == pytest.approx(before + 0.005 * LINK * 500 * 64 / 375_000)


def test_4_probes_never_touch_the_association() -> None:
    station = limited(flight_ns=1_000)
    for octets in (0, 15_000, 60_000, 0):
        queued(station, octets)
        assert station.limiter().cpid == CPID


def test_4_positive_messages_still_need_the_matching_cpid() -> None:
    station = limited()
    before = station.rate_bps()
    station.message(0, bcn(-100, 0, OTHER))
    assert station.rate_bps() == before
    assert station.source.limiters.point.unassociated == 1
    station.message(0, bcn(1, 0, OTHER))
    assert station.limiter().cpid == OTHER
    assert station.rate_bps() < before
    before = station.rate_bps()
    station.message(0, bcn(-100, 0, CPID))
    assert station.rate_bps() == before


def test_4_floor_and_links_capacity_hold_for_probes() -> None:
    station = limited(flight_ns=1_000)
    for _ in range(100):
        queued(station, 60_000)
    assert station.rate_bps() == 1_000_000
    for _ in range(1_000):
        queued(station, 0)
    assert station.rate_bps() == LINK


def test_4_state_resets_when_probing_restarts() -> None:
    station = limited()
    queued(station, 20_000)
    station.limiter().rate_bps = LINK
    station.sends(10)
    station.message(100, LARGEST)
    probing = station.probing()
    assert (probing.active, probing.replies, probing.queue_octets) == (1, 0, 0.0)
    assert probing.flight_ns == NO_LATENCY
    assert station.reply(200, 50_000) == SKIPPED


def test_4_release_by_timer_also_resets_state() -> None:
    station = limited()
    queued(station, 20_000)
    station.limiter().rate_bps = LINK
    station.message(10**9, LARGEST)
    assert station.source.limiters.point.released == 1
    assert (station.probing().active, station.probing().replies) == (1, 0)
    assert station.probing().flight_ns == NO_LATENCY


def test_4_known_flight_time_survives_a_restart() -> None:
    station = limited(flight_ns=400)
    assert queued(station, 0).queue_octets == 750
    station.limiter().rate_bps = LINK
    station.sends(10)
    station.message(100, LARGEST)
    assert station.probing().flight_ns == 400


def test_4_known_flight_time_corrects_first_probe() -> None:
    known, learned = Station(), Station()
    known.path(0, flight_ns=1_000)
    for station in (known, learned):
        station.message(0, LARGEST)
        queued(station, 30_000)
        queued(station, 30_000)
    assert known.rate_bps() < LINK / 2 < learned.rate_bps()


def test_6_flow_qeq_by_congested_hops() -> None:
    station = Station(E2CMReactionPointParameters(max_flows=3, hops_exponent=1))
    for flow, hops in ((0, 1), (1, 2), (2, 4)):
        station.path(flow, hops, flight_ns=1_000)
        station.message(0, LARGEST, flow)
        for octets in (0, 15_000 * hops, 15_000 * hops):
            reaction = queued(station, octets, flow=flow)
        assert reaction.feedback_octets == 0
        assert queued(station, 56_001 * hops, flow=flow).feedback_octets == -5 * 15_000 * hops


def test_a_type_says_what_ecm_tells_by_zeros() -> None:
    station = limited()
    before = station.rate_bps()
    station.message(0, bcn(0, 0))
    assert station.rate_bps() == before
    assert station.source.limiters.point.neutral == 1
    station.message(0, bcn(7, 7, type=BCN_ZERO))
    assert station.rate_bps() == 0
    assert station.limiter().status == TIMED_OUT


def test_time_out_ignores_replies_as_it_does_messages() -> None:
    station = limited(flight_ns=1_000)
    station.message(0, STOP)
    assert queued(station, 0).reacts
    assert station.rate_bps() == 0
    assert station.source.counters.held_replies == 1
    expires_ns = int(station.limiter().expires_ns)
    queued(station, 0, expires_ns)
    assert station.rate_bps() > 0


def test_no_self_increase() -> None:
    station = limited()
    before = station.rate_bps()
    on_timer(station.source.limiters, station.settings, 10**10)
    assert station.rate_bps() == before


def test_flows_sharing_a_limiter_are_not_probed() -> None:
    station = Station(E2CMReactionPointParameters(max_flows=4, limiters=1))
    station.path(0, flight_ns=1_000)
    station.message(0, LARGEST, flow=0)
    join(station.source.limiters, 0)
    station.message(0, LARGEST, flow=1)
    assert station.probing(1).active == 0
    assert not any(station.sends(0, flow=1) for _ in range(200))
    # The priority's limiter replaces the limiter of flow 0, so replies no longer change its rate.
    queued(station, 0)
    assert queued(station, 60_000).reacts
    assert station.rate_bps(0) == LINK
    assert station.source.counters.held_replies == 1


def test_replies_for_unknown_flows_are_only_counted() -> None:
    station = limited()
    before = columns(station.source.limiters.slots).tobytes()
    for flow in (-1, 16, 10**9):
        assert queued(station, 60_000, flow=flow) == SKIPPED
    assert queued(station, 60_000, flow=5) == SKIPPED
    assert columns(station.source.limiters.slots).tobytes() == before
    assert (station.source.counters.unknown_replies, station.source.counters.idle_replies) == (3, 1)


def test_flows_beyond_table_are_limited_but_not_probed() -> None:
    station = Station(E2CMReactionPointParameters(max_flows=1))
    assert station.message(0, LARGEST, flow=7) == 0
    join(station.source.limiters, 0)
    assert not rp.depart(station.source, station.settings, 0, 0, 100_000)
    with pytest.raises(ParameterError, match="flow: expected 0 to 0, got 7"):
        station.path(7)


def test_round_trip_time_comes_from_payload_tag() -> None:
    station = limited()
    station.message(50_000, ECMFields(CPID, 1, 0, 0, 20, 0, True, BCN))
    assert station.limiter().rtt_average_ns == 30_000


_REPLIES = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 200_000), st.integers(0, 2**32 - 1)),
        st.one_of(st.just(0), st.integers(1, 10_000_000), st.integers(1, 2**32 - 1)),
    ),
    max_size=40,
)


@given(replies=_REPLIES, known=st.booleans(), hops=st.integers(1, 4))
def test_equals_the_literal_transcription(replies: list[tuple[int, int]], known: bool, hops: int) -> None:
    station = Station(E2CMReactionPointParameters(max_flows=1, hops_exponent=1))
    station.path(0, hops, flight_ns=1_000 if known else NO_LATENCY)
    station.message(0, LARGEST)
    gi0 = 10_000 / 375_000
    literal = LiteralReactionPoint(
        LINK / 2,
        flight=1_000 if known else None,
        flow_qeq=15_000 * hops,
        flow_qmax=56_000 * hops,
        flow_gi=0.025 * gi0,
        flow_gd=2.5 / 375_000,
        rate_unit=1e6,
        capacity=LINK,
        floor=1e6,
    )
    for latency_ns, throughput_kbps in replies:
        literal.reply(latency_ns, throughput_kbps)
        reaction = station.reply(0, latency_ns, throughput_kbps)
        if reaction.reacts:
            assert reaction.feedback_octets == pytest.approx(float(literal.feedback), rel=1e-9, abs=1e-3)
        assert station.rate_bps() == pytest.approx(literal.rate, rel=1e-6)


_EVENTS = st.one_of(
    st.tuples(
        st.just("message"),
        st.builds(
            bcn,
            st.integers(-(2**15), 2**15 - 1),
            st.integers(-(2**15), 2**15 - 1),
            st.sampled_from([CPID, OTHER, 77]),
            st.sampled_from([0, 1, 2]),
        ),
    ),
    st.tuples(st.just("reply"), st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))),
    st.tuples(st.just("send"), st.integers(60, 9_000)),
    st.tuples(st.just("timer"), st.integers(0, 3_000_000)),
)


@given(
    autonomous=st.booleans(),
    events=st.lists(st.tuples(st.integers(0, 50_000), st.integers(-1, 7), _EVENTS), max_size=60),
)
def test_rates_stay_bounded_and_events_are_counted(
    autonomous: bool, events: list[tuple[int, int, tuple[str, object]]]
) -> None:
    station = Station(
        E2CMReactionPointParameters(
            max_flows=6, limiters=3, autonomous=autonomous, probe_octets=3_000, probe_interval_ns=40_000
        )
    )
    source = station.source
    messages = replies = probes = now_ns = 0
    silent_until_ns: dict[int, int] = {}
    for gap_ns, flow, (what, detail) in events:
        now_ns += gap_ns
        if what == "message" and isinstance(detail, ECMFields):
            station.message(now_ns, detail, flow)
            messages += 1
        elif what == "reply" and isinstance(detail, tuple):
            station.reply(now_ns, detail[0], detail[1], flow)
            replies += 1
        elif what == "send" and isinstance(detail, int):
            index = station.index(flow)
            if index < 0 or leaves_ns(source.limiters.slots[index], now_ns) <= now_ns:
                probes += station.sends(now_ns, detail, flow)
        elif isinstance(detail, int):
            now_ns += detail
            on_timer(source.limiters, station.settings, now_ns)
            probes += rp.probe_on_timer(source, station.settings, flow, now_ns)
        for index, slot in enumerate(source.limiters.slots):
            assert slot.waiting == 0
            if slot.status == TIMED_OUT:
                assert slot.rate_bps == 0
                silent_until_ns[index] = int(slot.expires_ns)
            elif slot.status == ACTIVE:
                assert 1e6 <= slot.rate_bps <= LINK
                assert silent_until_ns.get(index, 0) <= now_ns
            else:
                assert slot.status == FREE
        if not autonomous:
            own = {int(slot.flow) for slot in source.limiters.slots[:3] if slot.status != FREE}
            next_probe(source, station.settings)
            probed = {flow for flow in range(6) if station.probing(flow).active}
            # What was released by a timer is noticed at the flow's next frame, reply or timer.
            assert own - {-1, 6, 7} <= probed
    point, counters = source.limiters.point, source.counters
    assert point.messages == messages
    assert messages == sum(
        int(getattr(point, name))
        for name in (
            "allocated", "decreased", "increased", "stopped", "neutral", "in_time_out", "unassociated",
            "unlimited", "unknown_flow", "disabled",
        )
    )  # fmt: skip
    outcomes = ("reactions", "unknown_replies", "idle_replies", "first_replies", "unmeasured_replies")
    assert replies == sum(int(getattr(counters, name)) for name in outcomes)
    assert counters.probes == probes
    assert counters.held_replies <= counters.reactions


def test_compiled_and_plain_runs_are_identical() -> None:
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT", "0") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.e2cm.trace", "11"],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == trace(11)
