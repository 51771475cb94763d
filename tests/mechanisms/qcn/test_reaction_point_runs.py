"""The QCN reaction point in random runs: the literal transcription, invariants, and plain Python."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ecmproto.control.mechanisms.api.protocol import NO_LIMITER
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.qcn.parameters import QCNReactionPointParameters
from ecmproto.control.mechanisms.qcn.reaction_point import next_timer_ns, route
from tests.mechanisms.qcn.literal_reaction_point import LiteralReactionPoint
from tests.mechanisms.qcn.station import LINK_BPS, Station

FLOWS = 5
_MS = 1_000_000

_FLOW = st.integers(0, FLOWS - 1)
_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("cnm"), st.integers(-1, FLOWS), st.sampled_from([0, 1, 7, 31, 63])),
        st.tuples(st.just("burst of cnms"), _FLOW, st.integers(1, 9)),
        st.tuples(st.just("frames"), _FLOW, st.integers(1, 200)),
        st.tuples(
            st.just("pause"), st.just(0), st.sampled_from([0, 1_000, 2 * _MS, 15 * _MS, 70 * _MS, 300 * _MS])
        ),
    ),
    max_size=60,
)


class Pair:
    """A station and its literal counterpart. A frame leaves both at the same time."""

    def __init__(self, seed: int, *, standard: bool, max_rps: int, threshold: int) -> None:
        parameters = QCNReactionPointParameters(
            variant="standard" if standard else "pseudocode", max_rps=max_rps, threshold=threshold
        )
        self.station = Station(parameters, flows=FLOWS, seed=seed)
        self.literal = LiteralReactionPoint(
            np.random.default_rng(seed).random,
            LINK_BPS,
            FLOWS,
            variant=parameters.variant,
            max_rps=max_rps,
            threshold=threshold,
        )

    def cnm(self, flow: int, qntz_fb: int) -> None:
        self.station.cnm(flow, qntz_fb)
        self.literal.cnm(flow, qntz_fb, self.station.now_ns)

    def frames(self, flow: int, number: int) -> None:
        for _ in range(number):
            before = len(self.station.sent)
            queued = self.literal.joined(flow)
            assert queued == self.station.limited(flow)
            self.station.frame(flow, 9_000)
            self.departed(before, queued)

    def pause(self, ns: int) -> None:
        before = len(self.station.sent)
        self.station.run_for(ns)
        self.departed(before, True)

    def departed(self, before: int, queued: bool) -> None:
        for time_ns, flow, octets in self.station.sent[before:]:
            if queued:
                self.literal.advance(time_ns)
                limiter = self.literal.limiter(flow)
                assert limiter is not None
                owed = limiter.debt - limiter.rate * (time_ns - limiter.drained) / 10**9
                assert owed < Fraction(1, 10**3)
                self.literal.sent(flow, octets, time_ns)

    def same(self) -> None:
        self.literal.advance(self.station.now_ns)
        for flow in range(FLOWS):
            limiter = self.literal.limiter(flow)
            assert (limiter is not None) == self.station.limited(flow)
            if limiter is not None:
                real = self.station.limiter(flow)
                assert real.rate_bps == pytest.approx(float(limiter.rate), rel=1e-9)
                assert real.target_bps == pytest.approx(float(limiter.target), rel=1e-9)
                assert (real.byte_stage, real.time_stage) == (limiter.byte_stage, limiter.time_stage)
                assert real.expires_ns == limiter.timer
                assert math.ceil(limiter.byte_counter) == real.byte_countdown_octets
                assert real.waiting == limiter.queue


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    standard=st.booleans(),
    max_rps=st.integers(1, FLOWS),
    threshold=st.integers(1, 5),
    events=_EVENTS,
)
def test_equals_the_literal_transcription(
    seed: int, standard: bool, max_rps: int, threshold: int, events: list[tuple[str, int, int]]
) -> None:
    pair = Pair(seed, standard=standard, max_rps=max_rps, threshold=threshold)
    for kind, flow, number in events:
        if kind == "cnm":
            pair.cnm(flow, number)
        elif kind == "burst of cnms":
            for _ in range(number):
                pair.cnm(flow, 63)
        elif kind == "frames":
            pair.frames(flow, number)
        else:
            pair.pause(number)
        pair.same()


class AnyEvents(RuleBasedStateMachine):
    """Invariants in every state and for every event, including feedback floods and feedback for other
    stations' flows.
    """

    @initialize(standard=st.booleans(), max_rps=st.integers(1, 3), seed=st.integers(0, 99))
    def begin(self, standard: bool, max_rps: int, seed: int) -> None:
        parameters = QCNReactionPointParameters(
            variant="standard" if standard else "pseudocode", max_rps=max_rps, min_rate_bps=50_000_000
        )
        self.station = Station(parameters, flows=FLOWS, seed=seed)
        self.offered = 0

    @rule(flow=st.integers(-2, FLOWS + 1), qntz_fb=st.integers(-1, 200), times=st.integers(1, 5))
    def cnms(self, flow: int, qntz_fb: int, times: int) -> None:
        station = self.station
        for _ in range(times):
            decreases = 0 <= flow < FLOWS and qntz_fb > 0
            before = [float(r.rate_bps) if r.active else LINK_BPS for r in station.limiters.slots]
            timer_due = next_timer_ns(station.limiters) <= station.now_ns
            counted = station.count("messages")
            index = station.cnm(flow, qntz_fb)
            assert station.count("messages") == counted + 1
            assert (index == NO_LIMITER) == (not decreases)
            if timer_due:
                continue
            after = [float(r.rate_bps) if r.active else LINK_BPS for r in station.limiters.slots]
            if decreases:
                assert max(before[index] / 2, 50e6) <= after[index] <= before[index]
                after[index] = before[index]
            assert after == before

    @rule(flow=st.integers(-1, FLOWS), octets=st.integers(1, 200_000))
    def frame(self, flow: int, octets: int) -> None:
        self.station.frame(flow, octets)
        self.offered += 1

    @rule(ns=st.sampled_from([0, 1, 999, 10**5, 5 * 10**6, 10**7, 10**9]))
    def pass_time(self, ns: int) -> None:
        self.station.run_for(ns)

    @invariant()
    def a_limiter_stays_between_the_minimum_and_the_maximum(self) -> None:
        for limiter in self.station.limiters.slots:
            if limiter.active:
                assert 50e6 <= limiter.rate_bps <= LINK_BPS
                assert 50e6 <= limiter.target_bps <= LINK_BPS
                assert limiter.byte_countdown_octets > 0
                assert limiter.time_stage >= 0
                assert limiter.byte_stage >= 0
                assert limiter.debt_bits >= 0.0

    @invariant()
    def timers_are_in_the_future_and_the_first_is_known(self) -> None:
        station = self.station
        expiries = [limiter.expires_ns for limiter in station.limiters.slots if limiter.active]
        assert next_timer_ns(station.limiters) == min(expiries, default=NEVER_NS)
        assert all(limiter.expires_ns == NEVER_NS for limiter in station.limiters.slots if not limiter.active)

    @invariant()
    def every_message_and_every_frame_is_accounted_for(self) -> None:
        station, point = self.station, self.station.limiters.point
        assert point.messages == point.decreased + point.without_feedback + point.unknown_flow
        assert point.active == sum(limiter.active for limiter in station.limiters.slots)
        assert point.active == point.created - point.released
        assert min(int(value) for value in point.item()) >= 0  # type: ignore[attr-defined]
        waiting = {index: len(queue) for index, queue in station.queues.items() if queue}
        assert waiting == {
            index: limiter.waiting for index, limiter in enumerate(station.limiters.slots) if limiter.waiting
        }
        assert self.offered == len(station.sent) + sum(waiting.values())

    @invariant()
    def only_free_limiters_are_idle_at_the_maximum(self) -> None:
        for index, limiter in enumerate(self.station.limiters.slots):
            if limiter.active and limiter.rate_bps == LINK_BPS:
                assert limiter.waiting > 0, index

    @invariant()
    def a_flow_goes_through_a_limiter_in_use_or_none(self) -> None:
        limiters = self.station.limiters
        for flow in range(FLOWS):
            index = route(limiters, flow)
            assert index == NO_LIMITER or limiters.slots[index].active


TestAnyEvents = AnyEvents.TestCase
TestAnyEvents.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_cnm_flood_stays_within_the_table() -> None:
    station = Station(flows=300)
    for flow in range(-5, 305):
        for _ in range(12):
            station.cnm(flow, 63)
    assert station.count("active") == len(station.limiters.slots) == 101
    assert station.count("sharing") == 200
    assert station.count("unknown_flow") == 10 * 12
    assert {float(limiter.rate_bps) for limiter in station.limiters.slots} == {1e7}


_RUN = """
import json
import numpy as np
from tests.mechanisms.qcn.station import Station
from ecmproto.control.mechanisms.qcn.parameters import QCNReactionPointParameters
events = np.random.default_rng(77)
found = []
for variant in ("pseudocode", "standard"):
    station = Station(QCNReactionPointParameters(variant=variant, max_rps=3), flows=6, seed=4)
    for kind, flow, number in zip(events.integers(0, 10, 1500), events.integers(-1, 7, 1500),
                                  events.integers(0, 64, 1500)):
        if kind < 1:
            station.cnm(int(flow), int(number))
        elif kind < 9:
            station.frame(int(flow), 150 * int(number) + 60)
        else:
            station.run_for(int(number) * 300_000)
    found += [station.limiters.slots.tolist(), station.limiters.point.tolist(), station.sent]
print(json.dumps(found))
"""


def test_compiled_and_plain_runs_are_equal() -> None:
    runs = []
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", _RUN],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"NUMBA_DISABLE_JIT": disabled},
        )
        runs.append(json.loads(done.stdout))
    assert runs[0] == runs[1]
    assert len(runs[0][2]) > 1_000
