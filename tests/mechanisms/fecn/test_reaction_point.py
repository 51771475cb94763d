"""The FECN reaction point: algorithms §5 items 1 and 4, the literal source, and any events at all."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ecmproto.control.mechanisms.fecn.parameters import FECNReactionPointParameters
from ecmproto.control.mechanisms.fecn.reaction_point import (
    TAG_OCTETS,
    FECNFields,
    FECNQueue,
    FECNSource,
    join,
    leave,
    on_return,
    route,
    settings_record,
    start,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS, leaves_ns
from ecmproto.kernels.record import new_record, new_records
from ecmproto.units import RATE_INFINITY
from tests.mechanisms.fecn.literal import LiteralSource

MS = 1_000_000
C = 10e9
R0 = C / 20


class Station:
    """A source whose frames leave when they may."""

    def __init__(self, parameters: FECNReactionPointParameters | None = None, *, seed: int = 1) -> None:
        parameters = parameters or FECNReactionPointParameters(queues=8)
        self.settings = settings_record(parameters)
        self.source: FECNSource = new_record(FECNSource)
        self.queues = new_records(FECNQueue, parameters.queues)
        self.generator = np.random.default_rng(seed)
        start(self.source, C)

    def arrive(self, flow: int, now_ns: int) -> FECNQueue:
        index = route(self.source, self.queues, flow, now_ns)
        join(self.source, self.queues, self.settings, self.generator, index)
        return self.queues[index]

    def leave(self, queue: FECNQueue, now_ns: int, octets: int = 1_500) -> bool:
        return bool(leave(self.source, queue, self.settings, now_ns, octets))

    def pass_through(self, flow: int, now_ns: int) -> bool:
        """Pass a frame through the station immediately, and return whether the frame is tagged."""
        return self.leave(self.arrive(flow, now_ns), now_ns)

    def on_return(self, rlq_id: int, rate: int, now_ns: int) -> None:
        on_return(self.source, self.queues, self.settings, FECNFields(rlq_id, rate), now_ns)


def test_item_1_each_flow_gets_its_own_queue() -> None:
    station = Station()
    first, second = station.arrive(0, 0), station.arrive(1, 0)
    station.on_return(1, 1_000_000, 0)
    assert (first.rate_bps, second.rate_bps) == (1e9, R0)
    station.on_return(2, 2_000_000, 0)
    assert (first.rate_bps, second.rate_bps) == (1e9, 2e9)


def test_trap_queue_starts_at_c_over_n0() -> None:
    assert Station().arrive(0, 0).rate_bps == C / 20
    assert Station(FECNReactionPointParameters(initial_sources=200)).arrive(0, 0).rate_bps == C / 200


def test_item_1_frame_waits_for_its_predecessors_debt() -> None:
    station = Station()
    queue = station.arrive(0, 0)
    assert leaves_ns(queue, 0) == 0
    assert station.leave(queue, 0)
    # 1500 octets and the tag's 10 at 500 Mb/s
    assert leaves_ns(queue, 0) == (1_500 + TAG_OCTETS) * 16
    station.on_return(1, 1_000_000, 0)
    assert leaves_ns(queue, 0) == (1_500 + TAG_OCTETS) * 8


def test_item_1_tag_that_replaces_one_adds_nothing() -> None:
    station = Station()
    queue = station.arrive(0, 0)
    assert leave(station.source, queue, station.settings, 0, 1_500, 0)
    assert leaves_ns(queue, 0) == 1_500 * 16


def test_item_1_tau_counts_from_the_last_tag() -> None:
    station = Station()
    assert station.pass_through(0, 100)
    assert not station.pass_through(0, 100 + MS - 1)
    assert station.pass_through(1, 100 + MS - 1)
    assert station.pass_through(0, 100 + MS)
    assert not station.pass_through(0, 100 + 2 * MS - 1)
    assert station.pass_through(0, 100 + 2 * MS + 7)
    # τ counts from the tag, not from when it was due.
    assert not station.pass_through(0, 100 + 3 * MS)
    assert station.source.tags == 4


def test_item_1_every_nth_frame_is_an_option() -> None:
    station = Station(FECNReactionPointParameters(frames_per_tag=3, queues=2))
    tagged = [station.pass_through(0, n) for n in range(7)]
    assert tagged == [True, False, False, True, False, False, True]
    assert [station.pass_through(0, MS + n) for n in range(3)] == [False, False, True]


def test_item_1_queue_starts_anew_after_2t_idle() -> None:
    station = Station()
    station.pass_through(0, 0)
    station.on_return(1, 4_000_000, 10)
    assert station.arrive(0, 2 * MS - 1).rate_bps == 4e9
    station.leave(station.queues[0], 2 * MS - 1)
    assert station.arrive(0, 4 * MS - 1).rate_bps == R0
    assert station.leave(station.queues[0], 4 * MS - 1)
    assert station.source.restarts == 2


def test_item_1_waiting_frames_prevent_an_idle_restart() -> None:
    station = Station()
    queue = station.arrive(0, 0)
    station.arrive(0, 0)
    station.leave(queue, 0)
    station.on_return(1, 100, 0)
    assert station.arrive(0, 50 * MS).rate_bps == 1e5
    assert queue.waiting == 2


def test_item_1_infinity_is_the_link_rate() -> None:
    station = Station()
    queue = station.arrive(0, 0)
    station.on_return(1, RATE_INFINITY, 0)
    assert queue.rate_bps == C
    assert station.source.infinite_returns == 1


@pytest.mark.parametrize("rlq_id", [0, 2, 8, 9, 65_535])
def test_item_1_unused_id_is_ignored(rlq_id: int) -> None:
    station = Station()
    station.arrive(0, 0)
    before = [queue.rate_bps for queue in station.queues]
    station.on_return(rlq_id, 1_000_000, 0)
    assert [queue.rate_bps for queue in station.queues] == before
    assert (station.source.unknown_returns, station.source.returns) == (1, 0)


def test_item_1_rate_stays_between_minimum_and_link() -> None:
    station = Station()
    queue = station.arrive(0, 0)
    station.on_return(1, RATE_INFINITY - 1, 0)
    assert queue.rate_bps == C
    station.on_return(1, 0, 0)
    assert queue.rate_bps == 1e5
    assert (station.source.capped_returns, station.source.floored_returns) == (1, 1)
    assert leaves_ns(queue, 0) == 0


def test_item_1_flows_beyond_table_share_last_queue() -> None:
    station = Station(FECNReactionPointParameters(queues=2))
    station.arrive(0, 0)
    for flow in (1, 2, 700, -1):
        station.arrive(flow, 0)
    assert [queue.waiting for queue in station.queues] == [1, 4]
    assert station.source.shared_arrivals == 3


def test_item_4_first_frame_is_tagged_immediately() -> None:
    assert Station().pass_through(0, 12_345)


def test_item_4_a_random_phase_is_an_option() -> None:
    parameters = FECNReactionPointParameters(random_phase=True, queues=1)
    due_ns = [Station(parameters, seed=seed).arrive(0, 5 * MS).tag_due_ns - 5 * MS for seed in range(400)]
    assert 0 <= min(due_ns) < MS // 20
    assert MS - MS // 20 < max(due_ns) < MS
    station = Station(parameters)
    queue = station.arrive(0, 0)
    assert not station.leave(queue, int(queue.tag_due_ns) - 1)
    assert station.pass_through(0, int(queue.tag_due_ns))


@settings(max_examples=60, deadline=None)
@given(
    n0=st.integers(1, 1_000),
    every_n=st.integers(0, 4),
    events=st.lists(
        st.tuples(
            st.sampled_from(["frame", "frame", "return", "queued"]),
            st.one_of(st.integers(0, 3 * MS), st.sampled_from([0, MS - 1, MS, 2 * MS - 1, 2 * MS])),
            st.one_of(st.integers(0, RATE_INFINITY), st.integers(0, 20_000_000), st.just(RATE_INFINITY)),
        ),
        max_size=80,
    ),
)
def test_equals_the_literal_transcription(n0: int, every_n: int, events: list[tuple[str, int, int]]) -> None:
    station = Station(FECNReactionPointParameters(initial_sources=n0, frames_per_tag=every_n, queues=1))
    literal = LiteralSource(C / 1e6, n0, every_n)
    queue, now_ns, waiting = station.queues[0], 0, 0
    for kind, pause_ns, rate in events:
        now_ns += pause_ns
        if kind == "return":
            station.on_return(1, rate, now_ns)
            literal.returned(float("inf") if rate == RATE_INFINITY else rate / 1_000)
        else:
            station.arrive(0, now_ns)
            literal.arrive(Fraction(now_ns, MS), waiting == 0)
            waiting += 1
        if kind == "frame":
            assert station.leave(queue, now_ns) == literal.leave(Fraction(now_ns, MS))
            waiting -= 1
        assert queue.rate_bps == pytest.approx(literal.rate * 1e6)
        assert queue.waiting == waiting


class AnyEvents(RuleBasedStateMachine):
    """For every event in every state, including forged returns, rates stay in range and the state stays
    bounded.
    """

    @initialize(random_phase=st.booleans(), every_n=st.integers(0, 3), seed=st.integers(0, 99))
    def begin(self, random_phase: bool, every_n: int, seed: int) -> None:
        parameters = FECNReactionPointParameters(queues=3, random_phase=random_phase, frames_per_tag=every_n)
        self.station = Station(parameters, seed=seed)
        self.now_ns = 0
        self.returns = 0
        self.frames = 0

    @rule(pause_ns=st.one_of(st.integers(0, 10_000), st.integers(0, 200 * MS)))
    def time_passes(self, pause_ns: int) -> None:
        self.now_ns += pause_ns

    @rule(flow=st.integers(-1, 5))
    def frame_arrives(self, flow: int) -> None:
        queue = self.station.arrive(flow, self.now_ns)
        assert queue.waiting > 0
        self.frames += 1

    @rule(index=st.integers(0, 2), octets=st.integers(60, 9_000))
    def frame_leaves_when_it_may(self, index: int, octets: int) -> None:
        queue = self.station.queues[index]
        if queue.waiting == 0:
            return
        self.now_ns = max(self.now_ns, leaves_ns(queue, self.now_ns))
        rate_bps = float(queue.rate_bps)
        length = octets + TAG_OCTETS * self.station.leave(queue, self.now_ns, octets)
        self.frames -= 1
        # The next one waits for the whole debt: no rate is exceeded, and no time is lost.
        assert leaves_ns(queue, self.now_ns) - self.now_ns == pytest.approx(8e9 * length / rate_bps, abs=2)

    @rule(rlq_id=st.integers(0, 65_535) | st.integers(0, 4), rate=st.integers(0, RATE_INFINITY) | st.just(0))
    def return_comes(self, rlq_id: int, rate: int) -> None:
        before = [float(queue.rate_bps) for queue in self.station.queues]
        self.station.on_return(rlq_id, rate, self.now_ns)
        self.returns += 1
        for index, queue in enumerate(self.station.queues):
            if index + 1 != rlq_id or not queue.used:
                assert queue.rate_bps == before[index]

    @invariant()
    def holds(self) -> None:
        station = self.station
        assert station.source.returns + station.source.unknown_returns == self.returns
        assert sum(int(queue.waiting) for queue in station.queues) == self.frames
        assert len(station.queues) == 3
        for queue in station.queues:
            assert queue.debt_bits >= 0
            assert queue.frames_to_tag >= 0
            assert 1e5 <= queue.rate_bps <= C if queue.used else queue.rate_bps == 0
            assert leaves_ns(queue, self.now_ns) < NEVER_NS or not queue.used


AnyEvents.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAnyEvents = AnyEvents.TestCase
