"""TCP, compared with hand calculations and the formulas of its documents; no connection stalls under any
loss.

In the tiny network, a frame of 1,500 octets takes 1,200 ns and a frame of 60 octets 48 ns, followed by a
delay of 1,000 ns, so a round trip takes 3,248 ns.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.lab.model import TCP, Pattern
from ecmproto.control.lab.traffic import tcp
from ecmproto.control.lab.traffic.source import ACK, DATA, REQUEST, SYN, SYN_ACK, kind_of, value_of
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import ParameterError
from ecmproto.kernels.record import new_record
from tests.lab.one_link import driven, flow
from tests.lab.tcp_oracle import Sender
from tests.lab.tiny_network import Seen, TinyNetwork, sources_of

MS = 1_000_000
ROUND_TRIP_NS = 3248
ALGORITHMS = ("reno", "newreno", "cubic", "dctcp")


def bulk(*, until_ns: int | None = None, **parameters: Any) -> Any:
    return flow(Pattern.TCP, tcp=TCP(**({"sack": False} | parameters)), stop_ns=until_ns)


def sent(network: TinyNetwork, kind: int = DATA) -> list[tuple[int, int]]:
    """Return the times and the values of offered frames of a type."""
    return [
        (frame.time_ns, value_of(frame.number)) for frame in network.offered if kind_of(frame.number) == kind
    ]


def losing(*segments: int, kind: int = DATA) -> Callable[[Seen], bool]:
    """Return a function that drops each of these segments once per occurrence in the list."""
    left = list(segments)

    def lose(frame: Seen) -> bool:
        if kind_of(frame.number) == kind and value_of(frame.number) in left:
            left.remove(value_of(frame.number))
            return True
        return False

    return lose


def assert_all_came(network: TinyNetwork) -> None:
    """Assert that each connection has delivered and acknowledged all data, and is idle."""
    assert network.sources.next_source_ns() == NEVER_NS
    for source in network.sources.records:
        end = network.sources.connections.records[source.connection]
        assert end.acked == end.received == end.sent_end == source.delivered_frames
        assert (end.beyond, end.recovering) == (0, 0)
        assert source.offered_frames == source.delivered_frames + source.retransmits
    assert not network.sources.connections.segments.any()


def test_slow_start_by_hand() -> None:
    network = TinyNetwork(sources_of(bulk(window=8))).run(13_000)
    assert sent(network, SYN) == [(0, 1)]
    assert sent(network, SYN_ACK) == [(1048, 1)]
    assert sent(network, ACK) == [
        (4296, 1), (7544, 2), (8744, 3), (10_792, 4), (11_992, 5),
    ]  # fmt: skip
    assert sent(network) == [
        (2096, 0), (5344, 1), (5344, 2), (8592, 3), (8592, 4), (9792, 5), (9792, 6), (11_840, 7), (11_840, 8),
    ]  # fmt: skip


def test_window_of_one_sends_one_segment_per_rtt() -> None:
    network = TinyNetwork(sources_of(bulk(window=1, syn=False))).run(10 * ROUND_TRIP_NS)
    assert sent(network) == [(ROUND_TRIP_NS * k, k) for k in range(11)]


@pytest.mark.parametrize("window", [2, 5, 20])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_throughput_is_the_window_for_each_round_trip(window: int, algorithm: str) -> None:
    sources = sources_of(bulk(window=window, algorithm=algorithm, syn=False, initial_window=window))
    network = driven(sources, until_ns=10 * MS, delay_ns=50_000)
    round_trip_ns = 1200 + 50_000 + 48 + 50_000
    # Segments leave without gaps, and so do their acknowledgements, because one link carries both here.
    assert sources.records[0].delivered_frames == pytest.approx(10 * MS / round_trip_ns * window, rel=0.02)
    assert network.link.taken == pytest.approx(2 * sources.records[0].delivered_frames, abs=2 * window)


def test_acknowledgements_use_reverse_flow_and_data_priority() -> None:
    given = flow(Pattern.TCP, tcp=TCP(ack_octets=84), priority=5, connections=2)
    sources = sources_of(given)
    sources.records[1].reverse_flow = 77
    offers = TinyNetwork(sources).offers
    sources.on_frame_delivered(1, 0 << 19 | 1500 << 3 | DATA, 0, False, 10, offers)
    (ack,) = offers.records[: offers.count.posted]
    assert (ack.source, ack.station, ack.destination) == (1, 3, 2)
    assert (ack.flow, ack.priority, ack.octets, ack.path) == (77, 5, 84, 1)
    # The octets of a tag that is added on the path are not octets that the source offered.
    assert (sources.records[1].delivered_frames, sources.records[1].delivered_octets) == (1, 1500)


def test_congestion_avoidance_by_hand() -> None:
    # ssthresh 2 after a first time-out at a window of 1: from 2 on, each acknowledgement adds 1/cwnd.
    network = TinyNetwork(sources_of(bulk(window=64, syn=False, rto_max_ns=MS)), lose=losing(0))
    second_ns, third_ns = MS + ROUND_TRIP_NS, MS + 2 * ROUND_TRIP_NS
    network.run(third_ns - 1)
    assert sent(network) == [(0, 0), (MS, 0), (second_ns, 1), (second_ns, 2)]
    end = network.sources.connections.records[0]
    assert (end.ssthresh, end.cwnd) == (2.0, 2.0)
    network.run(third_ns)
    assert end.cwnd == 2.5
    network.run(third_ns + 1200)
    assert end.cwnd == pytest.approx(2.5 + 1 / 2.5)


def test_fast_retransmit_by_hand() -> None:
    # Ten segments leave at once and the third is lost. The third duplicate acknowledgement is for segment 5.
    given = bulk(window=10, initial_window=10, syn=False, algorithm="newreno")
    network = TinyNetwork(sources_of(given), lose=losing(2)).run(40_000)
    third_duplicate_ns = 6 * 1200 + 1000 + 48 + 1000
    assert [time_ns for time_ns, segment in sent(network) if segment == 2] == [0, third_duplicate_ns]
    source = network.sources.records[0]
    assert (source.retransmits, source.timeouts) == (1, 0)


def test_the_window_in_fast_recovery_by_hand() -> None:
    given = bulk(window=64, initial_window=10, syn=False)
    seen = []

    class Watched(TinyNetwork):
        def _take(self, now_ns: int) -> None:
            super()._take(now_ns)
            end = self.sources.connections.records[0]
            seen.append((int(end.recovering), float(end.cwnd), float(end.ssthresh), int(end.duplicates)))

    Watched(sources_of(given), lose=losing(0)).run(30_000)
    changes = [each for each, before in zip(seen[1:], seen, strict=False) if each != before]
    # Two duplicates release segments 10 and 11 (RFC 3042), which are not counted: 10 segments were in flight.
    assert changes[:9] == [
        (0, 10.0, 64.0, 1), (0, 10.0, 64.0, 2), (1, 8.0, 5.0, 3), (1, 9.0, 5.0, 4), (1, 10.0, 5.0, 5),
        (1, 11.0, 5.0, 6), (1, 12.0, 5.0, 7), (1, 13.0, 5.0, 8), (1, 14.0, 5.0, 9),
    ]  # fmt: skip
    # Of 14 segments, 12 are sent first. Segments 12 and 13 are sent when the window grows to 13 and 14. The
    # acknowledgement of all segments ends the recovery with ssthresh, or with one more than the segments in
    # flight.
    after = next(each for each in changes if each[0] == 0 and each[3] == 0)
    assert after == (0, 5.0, 5.0, 0)


@pytest.mark.parametrize(("algorithm", "ssthresh"), [("newreno", 17 / 2), ("cubic", 17 * 0.7)])
def test_partial_acknowledgements_retransmit_one_segment_each_round_trip(
    algorithm: str, ssthresh: float
) -> None:
    given = bulk(window=20, initial_window=20, syn=False, algorithm=algorithm, until_ns=50_000)
    network = TinyNetwork(sources_of(given), delay_ns=100_000, lose=losing(3, 7, 11)).run(10 * MS)
    again = [time_ns for time_ns, segment in sent(network) if segment in (3, 7, 11)][3:]
    assert len(again) == 3
    for one, other in pairwise(again):
        assert other - one == 1200 + 100_000 + 48 + 100_000
    assert (network.sources.records[0].retransmits, network.sources.records[0].timeouts) == (3, 0)
    # One loss event for all three: 17 segments were in flight, as segments 0 to 2 were acknowledged.
    assert network.sources.connections.records[0].ssthresh == pytest.approx(ssthresh)
    assert_all_came(network)


def test_reno_reduces_its_window_for_each_loss() -> None:
    given = bulk(window=40, initial_window=40, syn=False, algorithm="reno", until_ns=400_000)
    network = TinyNetwork(sources_of(given), delay_ns=100_000, lose=losing(3, 30)).run(10 * MS)
    # With 40 segments in flight, the sender sends half as many and one per duplicate acknowledgement. RFC
    # 5681 has no state for a single event.
    assert network.sources.connections.records[0].ssthresh < 20.0
    assert_all_came(network)


def test_only_the_first_partial_acknowledgement_restarts_the_timer() -> None:
    # One of these segments is retransmitted in each round trip of 200 µs. RTO is 1 ms.
    lost = range(2, 14)
    given = bulk(window=30, initial_window=30, syn=False, until_ns=1000)
    network = TinyNetwork(sources_of(given), delay_ns=100_000, lose=losing(*lost)).run(20 * MS)
    assert network.sources.records[0].timeouts == 1
    # The third duplicate is that of segment 16; a round trip later comes the first partial acknowledgement.
    third_duplicate_ns = 17 * 1200 + 200_048
    restarted_ns = third_duplicate_ns + 1200 + 200_048
    timed_out = [time_ns for time_ns, segment in sent(network) if time_ns >= restarted_ns + MS]
    assert timed_out[0] == restarted_ns + MS
    assert_all_came(network)


def test_retransmission_time_outs_double_up_to_their_limit() -> None:
    given = bulk(window=4, rto_min_ns=MS, rto_max_ns=5 * MS)
    network = TinyNetwork(sources_of(given), lose=lambda frame: frame.time_ns > 5000).run(40 * MS)
    # Segments 1 and 2 went at 5,344, after a sample of 3,248 ns.
    first_ns = 5344
    resent = [time_ns - first_ns for time_ns, segment in sent(network) if segment == 1]
    assert resent == [0, MS, 3 * MS, 7 * MS, 12 * MS, 17 * MS, 22 * MS, 27 * MS, 32 * MS, 37 * MS]
    assert network.sources.records[0].timeouts == 9


def test_rto_backs_off_until_unretransmitted_segment_is_acknowledged() -> None:
    network = TinyNetwork(sources_of(bulk(window=1, syn=False, rto_max_ns=4 * MS)), lose=losing(0, 0, 1))
    network.run(4 * MS)
    end = network.sources.connections.records[0]
    # 1 s before the first sample, or the most; twice lost.
    assert [time_ns for time_ns, _ in sent(network)] == [0, 4 * MS]
    network.run(8 * MS + ROUND_TRIP_NS)
    assert [segment for _, segment in sent(network)] == [0, 0, 0, 1]
    assert (end.rto_ns, end.srtt_ns) == (4 * MS, 0.0)
    network.run(16 * MS)
    assert (end.rto_ns, end.srtt_ns) == (MS, ROUND_TRIP_NS)


def test_timer_waits_for_segments_queued_in_their_host() -> None:
    # 40 segments of 120 µs: each is in its host for up to 4.7 ms, where the longest time-out is 1 ms.
    given = bulk(window=40, initial_window=40, syn=False, rto_max_ns=MS, until_ns=20 * MS)
    network = TinyNetwork(sources_of(given), link_bps=10**8).run(10**9)
    assert (network.sources.records[0].timeouts, network.sources.records[0].retransmits) == (0, 0)
    assert network.sources.records[0].delivered_frames > 160
    assert_all_came(network)


def test_rto_of_lost_segment_counts_from_its_departure() -> None:
    given = bulk(window=2, initial_window=2, syn=False, rto_max_ns=MS, until_ns=1)
    network = TinyNetwork(sources_of(given), link_bps=10**7, lose=losing(0, 1)).run(10**9)
    # A frame takes 1.2 ms, and the timer counts from 1.2 ms on.
    assert sent(network)[:3] == [(0, 0), (0, 1), (2_200_000, 0)]
    assert_all_came(network)


def test_rto_by_the_formulas_of_rfc_6298() -> None:
    end = new_record(tcp.Connection)
    end.rto_min_ns, end.rto_max_ns = 1, 10**9
    samples = []
    for rtt_ns in (1000, 2000, 1000):
        tcp.measure_rtt(end, rtt_ns)
        samples.append((end.srtt_ns, end.rttvar_ns, end.rto_ns))
    # RTTVAR: 500, ¾·500 + ¼·1,000 = 625, ¾·625 + ¼·125 = 500; SRTT: 1,000, 1,125, 1,109.375.
    assert samples == [(1000.0, 500.0, 3000), (1125.0, 625.0, 3625), (1109.375, 500.0, 3110)]
    tcp.measure_rtt(end, 10**10)
    assert end.rto_ns == 10**9
    end.rto_min_ns = end.rto_max_ns = 77
    tcp.measure_rtt(end, 1)
    assert end.rto_ns == 77


def test_delayed_acknowledgements_by_hand() -> None:
    given = bulk(window=3, initial_window=3, syn=False, delayed_ack=True, until_ns=10_000)
    network = TinyNetwork(sources_of(given)).run(5 * MS)
    # Segments 0, 1 and 2 come at 2,200, 3,400 and 4,600: 1 is a second one; 3 and 4 go at 4,448 and make the
    # next pair with 2, and so on; the last one has no second and waits for 500 µs.
    acks = sent(network, ACK)
    assert acks[:3] == [(3400, 2), (6648, 4), (9896, 6)]
    assert all(value % 2 == 0 for _, value in acks[:-1])
    last_ns = max(time_ns for time_ns, _ in sent(network))
    assert acks[-1][0] - last_ns > 500_000
    assert_all_came(network)


def test_reordered_and_gap_filling_data_is_acknowledged_immediately() -> None:
    given = bulk(window=6, initial_window=6, syn=False, delayed_ack=True, until_ns=1000)
    network = TinyNetwork(sources_of(given), lose=losing(2)).run(5 * MS)
    # 0 and 1 make a pair; 3, 4 and 5 are out of order; 2 fills the gap.
    assert [value for _, value in sent(network, ACK)] == [2, 2, 2, 2, 6]
    assert sent(network, ACK)[-1][0] < 20_000


def test_transactions_by_hand() -> None:
    # SYN, its answer and the request take 1,048 each; then 1, 2 and 4 segments: the first comes after 2,200
    # and is acknowledged after 1,048; so are the two; four are 6, in the row that two started.
    given = flow(Pattern.TRANSACTIONS, tcp=TCP(window=10), response_octets=10_000)
    network = TinyNetwork(sources_of(given)).run(60_000)
    third_flight_ns = 3 * 1048 + 2 * ROUND_TRIP_NS
    # Segments 3 to 6, of which the last has 1,000 octets (800 ns): two in a row at once, and two a
    # segment's time later which the first two still delay.
    latency_ns = third_flight_ns + 3 * 1200 + 800 + 1000
    # Each later transfer begins after the last acknowledgement of the previous transfer.
    assert [done.latency_ns for done in network.completed] == [latency_ns, latency_ns + 48, latency_ns + 48]
    assert {done.octets for done in network.completed} == {10_000}
    began = [0, *(done.time_ns for done in network.completed)]
    assert sent(network, SYN) == list(zip(began, (1, 2, 3, 4), strict=True))
    assert [time_ns for time_ns, _ in sent(network, REQUEST)][:2] == [2096, began[1] + 2096 + 48]
    source = network.sources.records[0]
    assert source.latency_ns == 3 * latency_ns + 96
    assert (source.latency_min_ns, source.latency_max_ns) == (latency_ns, latency_ns + 48)


def test_transaction_without_request_ends_with_last_acknowledgement() -> None:
    given = flow(
        Pattern.TRANSACTIONS, tcp=TCP(window=10), response_octets=3000, request_octets=0, stop_ns=9000
    )
    network = TinyNetwork(sources_of(given)).run(60_000)
    assert [done.latency_ns for done in network.completed] == [2096 + 2 * ROUND_TRIP_NS] * 2
    assert not sent(network, REQUEST)
    assert network.offered[0].station == 0


def test_transaction_window_persists_until_a_long_idle_time() -> None:
    given = flow(Pattern.TRANSACTIONS, tcp=TCP(window=10, syn=False), response_octets=7 * 1500)
    network = TinyNetwork(sources_of(given)).run(60_000)
    first, second, *_ = network.completed
    assert first.latency_ns == 1048 + 2 * ROUND_TRIP_NS + 4 * 1200 + 1000
    # The request waits for the previous acknowledgement.
    assert second.latency_ns == 48 + 1048 + 7 * 1200 + 1000
    idle = flow(Pattern.TRANSACTIONS, tcp=TCP(window=10, syn=False), response_octets=7 * 1500, idle_ns=10**10)
    later = TinyNetwork(sources_of(idle)).run(50 * 10**9)
    assert len(later.completed) > 2
    assert {done.latency_ns for done in later.completed} == {first.latency_ns}


def test_flows_of_one_connection_follow_one_another() -> None:
    sizes = ((1500, 0.0), (15_000, 1.0))
    given = flow(Pattern.SIZES, sizes=sizes, rate_bps=2 * 10**9, tcp=TCP(), connections=2, stop_ns=20 * MS)
    network = TinyNetwork(sources_of(given, seed=3)).run(40 * MS)
    assert_all_came(network)
    octets = [done.octets for done in network.completed]
    # 606 flows of 8,250 octets on average, a standard deviation of 25.
    assert len(octets) == pytest.approx(606, abs=70)
    assert sum(octets) / len(octets) == pytest.approx(8250, rel=0.05)
    assert {done.source for done in network.completed} == {0, 1}
    for source in (0, 1):
        mine = [done for done in network.completed if done.source == source]
        begins = [done.time_ns - done.latency_ns for done in mine]
        assert begins == sorted(begins)
        waited = [done.time_ns > begin for done, begin in zip(mine, begins[1:], strict=False)]
        assert 10 < sum(waited) < len(mine) - 10
    # The shortest latency is that of a flow that meets none: a handshake, and slow start.
    one_segment_ns = 2096 + ROUND_TRIP_NS - 1200
    assert min(done.latency_ns for done in network.completed) >= one_segment_ns


def test_idle_times_are_exponential() -> None:
    given = flow(Pattern.TRANSACTIONS, tcp=TCP(), response_octets=1500, idle_ns=20_000)
    sources = sources_of(given)
    network = driven(sources, most=12_000)
    count = network.offers.count.completed
    records = network.offers.completions[:count]
    begins = [each.time_ns - each.latency_ns for each in records]
    idle = [one - other.time_ns for one, other in zip(begins[1:], records, strict=False)]
    assert count > 2000
    assert sum(idle) / len(idle) == pytest.approx(20_000, rel=0.06)
    assert sum(each**2 for each in idle) / len(idle) == pytest.approx(2 * 20_000**2, rel=0.15)


@pytest.mark.parametrize(
    ("kind", "frames", "asks"),
    [
        (SYN, 1, True), (SYN, 1, False), (SYN_ACK, 1, True), (SYN_ACK, 1, False), (REQUEST, 1, True),
        (ACK, 7, True), (ACK, 7, False), (DATA, 7, True), (DATA, 7, False),
    ],
)  # fmt: skip
def test_a_transaction_survives_the_loss_of_any_frame(kind: int, frames: int, asks: bool) -> None:
    for lost in range(frames):
        value = lost + (1 if kind != DATA else 0)
        given = flow(
            Pattern.TRANSACTIONS,
            tcp=TCP(rto_max_ns=2 * MS),
            request_octets=60 if asks else 0,
            stop_ns=20_000,
        )
        network = TinyNetwork(sources_of(given), lose=losing(value, kind=kind)).run(50 * MS)
        assert network.lost == 1
        assert len(network.completed) >= 1
        assert_all_came(network)


@given(st.sampled_from(ALGORITHMS), st.integers(0, 150))
def test_single_loss_times_out_only_near_the_end(algorithm: str, segment: int) -> None:
    given_flow = bulk(window=16, algorithm=algorithm, rto_max_ns=10 * MS, until_ns=100_000)
    network = TinyNetwork(sources_of(given_flow), lose=losing(segment)).run(100 * MS)
    assert_all_came(network)
    source = network.sources.records[0]
    last = source.delivered_frames
    if network.lost:
        assert source.retransmits >= 1
        # Slow start has 1, 2 and 4 segments in flight at first; nothing follows the last three.
        if 3 <= segment < last - 3:
            assert (source.timeouts, source.retransmits) == (0, 1)
        if segment >= last - 2:
            assert source.timeouts == 1
    else:
        assert segment >= last
        assert (source.timeouts, source.retransmits) == (0, 0)


@given(
    st.sampled_from(ALGORITHMS),
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 10),
    st.floats(0.0, 0.4),
    st.sampled_from([0, 2000, 30_000]),
    st.integers(1, 16),
    st.integers(0, 2**32),
)
def test_no_connection_ever_stalls(
    algorithm: str, delays: bool, window: int, first: int, loss: float, spread_ns: int, room: int, seed: int
) -> None:
    parameters = TCP(
        algorithm=algorithm,
        window=max(window, first),
        initial_window=first,
        delayed_ack=delays,
        rto_max_ns=4 * MS,
        syn=seed % 2 == 0,
        sack=seed % 3 > 0,
    )
    chance = random.Random(seed)
    flows = [
        flow(Pattern.TCP, tcp=parameters, stop_ns=100_000),
        flow(Pattern.TRANSACTIONS, tcp=parameters, stop_ns=100_000, idle_ns=2000),
        flow(Pattern.TRANSACTIONS, tcp=parameters, stop_ns=100_000, idle_ns=2000, request_octets=0),
        flow(Pattern.SIZES, tcp=parameters, stop_ns=100_000, sizes=((1, 0.0), (9000, 1.0)), rate_bps=10**9),
    ]
    network = TinyNetwork(
        sources_of(*flows, seed=seed),
        lose=lambda frame: chance.random() < loss,
        later_ns=lambda frame: chance.randrange(spread_ns + 1),
        room=max(room, 3),
    )
    network.run(10**12)
    assert_all_came(network)
    for source in (1, 2):
        completed = sum(done.source == source for done in network.completed)
        end = network.sources.connections.records[source]
        assert completed == network.sources.records[source].completed == end.transfer >= 1
        assert end.sent_end == completed * 7
    flows_done = sum(done.source == 3 for done in network.completed)
    assert flows_done == network.sources.connections.records[3].transfer


class Compared(TinyNetwork):
    """A network that compares the sender of its connection with the reference sender, step by step."""

    def __init__(self, *arguments: Any, oracle: Sender, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.oracle = oracle
        self.steps = 0

    def _handle(self, what: str, frame: Seen, now_ns: int) -> None:
        before = len(self.offered)
        super()._handle(what, frame, now_ns)
        if what == "delivered" and kind_of(frame.number) == ACK:
            self._compare(self.oracle.acknowledged(value_of(frame.number), now_ns), before)

    def timer(self, now_ns: int) -> None:
        before, timeouts = len(self.offered), self.sources.records[0].timeouts
        super().timer(now_ns)
        if self.oracle.highest_sent < 0:
            self._compare(self.oracle.start(now_ns), before)
        elif self.sources.records[0].timeouts > timeouts:
            assert self.oracle.timer_ns == now_ns
            self._compare(self.oracle.timer_expired(now_ns), before)
        else:
            assert len(self.offered) == before

    def _compare(self, expected: list[int], before: int) -> None:
        self.steps += 1
        end = self.sources.connections.records[0]
        assert [value_of(frame.number) for frame in self.offered[before:]] == expected
        assert end.cwnd == pytest.approx(float(self.oracle.cwnd))
        assert end.ssthresh == pytest.approx(float(self.oracle.ssthresh))
        assert end.rto_ns == pytest.approx(self.oracle.rto_ns, abs=1)
        assert end.rto_due_ns == pytest.approx(self.oracle.timer_ns, abs=1)


@given(
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 10),
    st.floats(0.0, 0.3),
    st.sampled_from([0, 3000, 20_000]),
    st.integers(0, 2**32),
)
def test_sender_matches_the_rfc_oracle_step_by_step(
    newreno: bool, window: int, initial: int, loss: float, spread_ns: int, seed: int
) -> None:
    window, limits = max(window, initial), (100_000, MS)
    parameters = TCP(
        algorithm="newreno" if newreno else "reno",
        window=window,
        initial_window=initial,
        rto_min_ns=limits[0],
        rto_max_ns=limits[1],
        syn=False,
        sack=False,
    )
    chance = random.Random(seed)
    network = Compared(
        sources_of(flow(Pattern.TCP, tcp=parameters)),
        oracle=Sender(newreno=newreno, window=window, initial=initial, rto_ns=limits[1], limits=limits),
        lose=lambda frame: chance.random() < loss,
        later_ns=lambda frame: chance.randrange(spread_ns + 1),
        room=200,
        # No frame waits in the host, because the documents have no rule for this case.
        link_bps=10**13,
    )
    network.run(2 * MS)
    assert network.steps >= 2


def test_a_nic_that_refuses_frames_loses_them() -> None:
    given = bulk(window=8, initial_window=8, syn=False, until_ns=5000, rto_max_ns=MS)
    network = TinyNetwork(sources_of(given), nic_frames=3).run(50 * MS)
    source = network.sources.records[0]
    assert source.refused_frames == 5
    assert_all_came(network)


def test_offers_beyond_capacity_follow_in_next_call() -> None:
    given = bulk(window=40, initial_window=40, syn=False, until_ns=1)
    network = TinyNetwork(sources_of(given)).run(0)
    assert [segment for _, segment in sent(network)] == list(range(40))


def congestion_avoidance(end: Any, seconds: int, rtt_ns: int) -> list[tuple[float, float]]:
    """Return the windows over time of a connection whose segments are all acknowledged."""
    windows = []
    now_ns, until_ns = 0, seconds * 10**9
    while now_ns < until_ns:
        in_round = int(end.cwnd)
        for each in range(in_round):
            tcp._grow(end, 1, now_ns + rtt_ns * each // in_round)
        now_ns += rtt_ns
        windows.append((now_ns / 1e9, float(end.cwnd)))
    return windows


def cubic_connection(cwnd: float, w_max: float) -> Any:
    end = new_record(tcp.Connection)
    end.algorithm, end.window = tcp.ALGORITHMS["cubic"], 10**6
    end.cwnd = end.ssthresh = cwnd
    end.w_max = end.prior = w_max
    end.epoch_ns = tcp._NO_EPOCH
    end.srtt_ns = 1e8
    return end


def test_cubic_grows_as_its_formula_says() -> None:
    # After a loss at 1,000 segments: W(t) = 0.4·(t − K)³ + 1,000 with K = (300 / 0.4)^(1/3) = 9.086 s, for
    # which the window aims a round trip of 100 ms ahead.
    end = cubic_connection(700.0, 1000.0)
    for time_s, cwnd in congestion_avoidance(end, 14, 10**8)[2:]:
        assert cwnd == pytest.approx(0.4 * (time_s - 750 ** (1 / 3)) ** 3 + 1000, rel=0.01)


def test_cubic_is_never_slower_than_reno_would_be() -> None:
    # At a round trip of 1 ms a window of 20 grows by α = 0.529 a round trip up to where it was, then by 1.
    end = cubic_connection(14.0, 20.0)
    end.srtt_ns = 1e6
    windows = congestion_avoidance(end, 1, 10**6)
    rounds_to_prior = next(count for count, (_, cwnd) in enumerate(windows, 1) if cwnd >= 20.0)
    assert rounds_to_prior == pytest.approx((20 - 14) / (3 * 0.3 / 1.7), abs=2)
    assert windows[rounds_to_prior + 99][1] - windows[rounds_to_prior - 1][1] == pytest.approx(100, abs=4)


def test_cubic_gives_way_faster_when_its_window_shrinks() -> None:
    end = cubic_connection(100.0, 0.0)
    tcp._reduce(end, 100)
    assert (end.ssthresh, end.w_max) == (pytest.approx(70.0), 100.0)
    end.cwnd = 80.0
    tcp._reduce(end, 80)
    assert (end.ssthresh, end.w_max, end.prior) == (pytest.approx(56.0), pytest.approx(68.0), 80.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": "vegas"},
        {"window": 0},
        {"window": 4, "initial_window": 5},
        {"rto_min_ns": 2, "rto_max_ns": 1},
        {"ack_octets": 10**6},
    ],
)
def test_parameters_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="flow f: tcp: expected"):
        sources_of(bulk(**wrong))


def test_a_request_is_one_frame() -> None:
    with pytest.raises(ParameterError, match="request_octets: expected"):
        sources_of(flow(Pattern.TRANSACTIONS, request_octets=1501))
    with pytest.raises(ParameterError, match="response_octets: expected"):
        sources_of(flow(Pattern.TRANSACTIONS, response_octets=0))
