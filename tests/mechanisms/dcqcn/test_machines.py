"""DCQCN's machines: known answers, random sequences compared with the literal transcription, and all states
and events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ecmproto.control.mechanisms.api.machine import Machine, PortContext, machine_of
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER, Arrival, Delivery, Departure, new_outbox
from ecmproto.control.mechanisms.dcqcn.parameters import (
    DCQCN,
    DCQCNCongestionPointParameters,
    DCQCNReactionPointParameters,
)
from ecmproto.control.mechanisms.dcqcn.reaction_point import (
    depart,
    new_reaction_point,
    next_timer_ns,
    on_timer,
    receive,
    settings_record,
    update_alpha,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import ParameterError
from ecmproto.wire.codec.tags import NO_IP_HEADER
from ecmproto.wire.formats.ip import CE, ECT0, ECT1, NOT_ECT
from tests.mechanisms.dcqcn.literal import LiteralNic, LiteralNotifier, LiteralPaper, LiteralPoint

US = 1_000
GBPS = 10**9
PLACE = PortContext(
    rate_bps=25 * GBPS, link_rate_bps=40 * GBPS, cp_mac=bytes.fromhex("8200000000cc"), stations=4, flows=4
)


def machine(*assignments: str) -> Machine:
    return machine_of(DCQCN, DCQCN.parse(assignments))


class Station:
    """One station's reaction points."""

    def __init__(self, *assignments: str, link_bps: int = 40 * GBPS, flows: int = 1) -> None:
        self.settings = settings_record(
            DCQCNReactionPointParameters.parse(assignments), link_rate_bps=link_bps
        )
        self.limiters = new_reaction_point(flows)

    def cnp(self, now_ns: int, flow: int = 0) -> None:
        receive(self.limiters, self.settings, flow, now_ns)

    def sent(self, octets: int, now_ns: int, flow: int = 0) -> None:
        if self.limiters.slots[flow].active:
            depart(self.limiters, self.settings, flow, now_ns, octets)

    def at(self, now_ns: int, flow: int = 0) -> tuple[float, float, float]:
        """Return target, current rate, both in Gb/s, and α."""
        on_timer(self.limiters, self.settings, now_ns)
        limiter = self.limiters.slots[flow]
        update_alpha(self.settings, limiter, now_ns)
        return limiter.target_bps / GBPS, limiter.rate_bps / GBPS, limiter.alpha


def test_the_papers_known_answers_at_40_gbps() -> None:
    station = Station()
    station.cnp(0)
    assert station.at(0) == (40, 20, 1)
    station.cnp(50 * US)
    assert station.at(50 * US) == (20, 10, 1)
    for stage, rate in enumerate((15, 17.5, 18.75, 19.375), 1):
        assert station.at((50 + 55 * stage) * US - 1)[1] < rate
        assert station.at((50 + 55 * stage) * US) == (20, rate, (255 / 256) ** stage)
    target, rate, alpha = station.at((50 + 55 * 5) * US)
    assert (target, rate) == (20.04, 19.7075)
    assert alpha == pytest.approx((255 / 256) ** 5, rel=1e-15)


def test_hyper_increase_counts_its_steps() -> None:
    station = Station("byte_counter=1kB", "f=1")
    station.cnp(0)
    station.cnp(1)
    target, stages = 20.0, []
    for step in range(1, 4):
        station.sent(1_000, 1)
        target += 0 if step < 1 else 0.04
    assert station.at(1)[0] == pytest.approx(target)
    for stage in range(1, 5):
        # The byte stage is 3: at time stages 2 and 3 both are above F.
        low = min(stage, 3)
        target += 0.04 if low <= 1 else (low - 1 + 1) * 0.4
        stages.append(station.at(1 + stage * 55 * US)[0])
        assert stages[-1] == pytest.approx(target)


def test_cards_known_answers_at_100_gbps() -> None:
    station = Station("variant=nic", link_bps=100 * GBPS)
    station.cnp(10 * US)
    assert station.at(10 * US) == (100, 100, 1)
    assert station.at(14 * US - 1)[1] == 100
    alpha = (255 / 256) ** 4
    target, rate, found = station.at(14 * US)
    assert target == 100
    assert found == pytest.approx(alpha)
    assert rate == pytest.approx(100 * (1 - alpha / 2))
    # No look finds a CNP before the next one; the timer counts from the cut.
    first = rate
    assert station.at(314 * US - 1)[1] == first
    target, rate, _ = station.at(314 * US)
    assert target == 100
    assert rate == pytest.approx((100 + first) / 2)
    # The second expiry, of stage 1 = F, is additive: the target is the line's already.
    assert station.at(614 * US)[1] == pytest.approx((100 + rate) / 2)
    # With clamp_target off, the stage not 0: the target becomes the rate.
    before = station.at(615 * US)[1]
    station.cnp(615 * US)
    target, rate, alpha = station.at(618 * US)
    assert target == pytest.approx(before)
    assert rate == pytest.approx(before * (1 - alpha / 2))
    # The point remains at stage 0.
    station.cnp(619 * US)
    assert station.at(622 * US)[0] == target
    assert station.at(622 * US)[1] < rate


PARAMETERS = {
    "paper": {"f": "f", "k": "alpha_interval", "t": "timer", "b": "byte_counter"},
    "nic": {"f": "f", "alpha_interval": "alpha_interval", "decrease_interval": "decrease_interval",
            "timer": "timer", "clamp_target": "clamp_target", "rate_on_first_cnp": "rate_on_first_cnp"},
}  # fmt: skip
_VALUES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "paper": st.fixed_dictionaries(
        {"f": st.integers(1, 6), "k": st.sampled_from([20 * US, 55 * US]),
         "t": st.sampled_from([17 * US, 55 * US]), "b": st.sampled_from([5_000, 100_000])}
    ),
    "nic": st.fixed_dictionaries(
        {"f": st.integers(1, 3), "alpha_interval": st.sampled_from([1 * US, 55 * US]),
         "decrease_interval": st.sampled_from([4 * US, 50 * US]),
         "timer": st.sampled_from([40 * US, 300 * US]),
         "clamp_target": st.booleans(), "rate_on_first_cnp": st.sampled_from([1.0, 0.5])}
    ),
}  # fmt: skip
_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["cnp", "cnp", "sent", "wait"]),
        st.sampled_from([0, 1, 999, 1_000, 4_000, 20 * US, 55 * US, 300 * US, 3_000 * US]),
        st.integers(64, 9_000),
    ),
    max_size=60,
)


def assignments(variant: str, values: dict[str, Any]) -> list[str]:
    def text(value: Any) -> str:
        return ("yes" if value else "no") if isinstance(value, bool) else str(value)

    units = {"alpha_interval": "ns", "timer": "ns", "decrease_interval": "ns", "byte_counter": "B"}
    names = PARAMETERS[variant]
    return [f"variant={variant}"] + [
        f"{names[key]}={text(value)}{units.get(names[key], '')}" for key, value in values.items()
    ]


def check_sequence(variant: str, values: dict[str, Any], events: list[tuple[str, int, int]]) -> None:
    """Send the same events to a reaction point and to its transcription."""
    station = Station(*assignments(variant, values))
    literal: Any = {"paper": LiteralPaper, "nic": LiteralNic}[variant](40e9, **values)
    now_ns = 0
    for kind, wait_ns, octets in events:
        now_ns += wait_ns
        if kind == "cnp":
            station.cnp(now_ns)
            literal.cnp(now_ns)
        elif kind == "sent":
            station.sent(octets, now_ns)
            literal.sent(octets, now_ns)
        literal.advance(now_ns)
        target, rate, alpha = station.at(now_ns)
        if not station.limiters.slots[0].active:
            assert (literal.current, literal.target, literal.alpha) == (40e9, 40e9, 1)
            continue
        assert rate * GBPS == pytest.approx(literal.current, rel=1e-9)
        assert target * GBPS == pytest.approx(literal.target, rel=1e-9)
        assert alpha == pytest.approx(literal.alpha, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("variant", ["paper", "nic"])
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_equals_the_literal_transcription(variant: str, data: st.DataObject) -> None:
    check_sequence(variant, data.draw(_VALUES[variant]), data.draw(_EVENTS))


SEQUENCE = [
    ("wait", 300 * US, 0), ("cnp", 0, 0), ("sent", 1_000, 9_000), ("wait", 60 * US, 0), ("cnp", 0, 0),
    ("cnp", 20 * US, 0),
    *[("sent", 5 * US, 9_000)] * 40, ("wait", 50 * US, 0), ("cnp", 10 * US, 0), ("wait", 30 * US, 0),
    *[("sent", 30 * US, 9_000)] * 40, ("wait", 3_000 * US, 0), ("cnp", 700, 0), ("wait", 55 * US, 0),
]  # fmt: skip
FIXED: dict[str, dict[str, Any]] = {
    "paper": {"f": 2, "k": 55 * US, "t": 55 * US, "b": 40_000},
    "nic": {
        "f": 1, "alpha_interval": 1 * US, "decrease_interval": 4 * US, "timer": 40 * US,
        "clamp_target": False, "rate_on_first_cnp": 1.0,
    },
}  # fmt: skip
"""A run that every rule takes part in."""


@pytest.mark.parametrize("variant", ["paper", "nic"])
def test_a_run_that_every_rule_takes_part_in(variant: str) -> None:
    check_sequence(variant, FIXED[variant], SEQUENCE)


MARK_RUN = [(codepoint, queue) for queue in range(0, 500_000, 7_001) for codepoint in (0, 1, 2, 3)]


def check_marks(*, seed: int = 1, ask_behind: bool = False, run: list[tuple[int, int]] = MARK_RUN) -> None:
    """Drive a port and its transcription through arrivals: codepoint and queue."""
    point = machine().congestion_point(PLACE, np.random.default_rng(seed))
    literal = LiteralPoint(100_000, 400_000, 0.2, np.random.default_rng(seed).random)
    outbox = new_outbox(4)
    for number, (codepoint, queue) in enumerate(run):
        came = Arrival(number, 0, 0, 3, 1_000, True, True, True, True, codepoint, 0, queue, queue + 10**6)
        point.on_arrival(came, outbox)
        if ask_behind:
            # The queue at departure decides nothing.
            point.on_dequeue(number, 0, 3, 1_000, 10**6, outbox)
        assert point.rewrite_tag(3, codepoint) == literal.enqueued(codepoint, queue)
    assert outbox.posted.count == 0


@pytest.mark.parametrize("ask_behind", [False, True])
def test_marks_as_the_literal_transcription_does(ask_behind: bool) -> None:
    check_marks(ask_behind=ask_behind)


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 100_000, 100_001, 250_000, 400_000, 400_001]))),
)
@settings(max_examples=60, deadline=None)
def test_marks_at_the_edges(seed: int, run: list[tuple[int, int]]) -> None:
    check_marks(seed=seed, run=run)


def test_thresholds_grow_with_the_rate() -> None:
    for gbps, kmin, kmax in ((25, 100_000, 400_000), (100, 400_000, 1_600_000), (10, 40_000, 160_000)):
        assert DCQCNCongestionPointParameters().thresholds_octets(gbps * GBPS) == (kmin, kmax)
    with pytest.raises(ParameterError, match="kmin: expected at most kmax"):
        DCQCNCongestionPointParameters.parse(["kmin=2kB", "kmax=1kB"])
    with pytest.raises(ParameterError, match="kmin: expected at most kmax, 400 kB"):
        DCQCNCongestionPointParameters.parse(["kmin=500kB"]).thresholds_octets(25 * GBPS)


def test_dropped_and_non_ip_frames_count_as_unmarked() -> None:
    own = machine()
    point, outbox = own.congestion_point(PLACE, np.random.default_rng(1)), new_outbox(4)
    full: dict[str, Any] = {
        "now_ns": 0,
        "station": 0,
        "flow": 0,
        "priority": 0,
        "octets": 1_000,
        "answerable": True,
    }
    for enqueued, tagged, tag, mark in (
        (False, True, ECT0, 0), (True, False, 0, NO_IP_HEADER), (True, True, NOT_ECT, 0),
    ):  # fmt: skip
        point.on_arrival(
            Arrival(
                **full, sampled=True, enqueued=enqueued, tagged=tagged, tag=tag, mark=mark,
                qlen_octets=10**6, port_octets=10**6,
            ), outbox,
        )  # fmt: skip
    assert own.counters(point) == {"ect_frames": 0, "marked_frames": 0, "ce_frames": 0, "not_ect_frames": 2}
    assert own.remarks(point) == ("DCQCN never marked: 2 frames are not ECT",)


def check_notifications(scope: str = "qp") -> None:
    """Deliver marked and other frames of some queue pairs to a notification point and its transcription."""
    receivers = machine(f"edge.per={scope}").receivers(PLACE, np.random.default_rng(1))
    literal, outbox = LiteralNotifier(), new_outbox(4)
    for step in range(2_000):
        now_ns = step * 7 * US // (1 + step % 3)
        now_ns = step * 1_250
        station, flow, destination = step % 3, step // 3 % 2, 3 - step // 6 % 2
        codepoint = (CE, ECT0, CE, CE, ECT1, CE, NOT_ECT)[step % 7]
        receivers.on_delivery(
            Delivery(now_ns, station, flow, 3, 1_000, False, True, codepoint, 0, destination), outbox
        )
        of = {"qp": (station, flow), "address": (station, destination), "port": destination}[scope]
        assert outbox.posted.count == literal.came(of, codepoint, now_ns)
        for message in outbox.messages[: outbox.posted.count]:
            assert (message.station, message.flow, message.time_ns) == (station, flow, now_ns)
        outbox.posted.count = 0


@pytest.mark.parametrize("scope", ["qp", "address", "port"])
def test_notifies_as_the_literal_transcription_does(scope: str) -> None:
    check_notifications(scope)


def test_queue_pairs_beyond_those_with_rate_share_last() -> None:
    senders = machine("rp.queue_pairs=2").senders(PLACE, np.random.default_rng(1))
    assert senders.limiters() == 2
    assert [senders.route(0, flow, 0, 0) for flow in range(4)] == [NO_LIMITER] * 4
    (message,) = np.recarray(1, dtype=new_outbox(1).messages.dtype)  # type: ignore[attr-defined]
    message.station, message.flow = 0, 3
    senders.on_message(message, 0)
    assert [senders.route(0, flow, 0, 0) for flow in range(4)] == [NO_LIMITER, 1, 1, 1]
    assert senders.route(1, 1, 0, 0) == NO_LIMITER


@pytest.mark.parametrize(
    ("ect", "tagged", "tag", "mark", "expected"),
    [
        (False, True, NOT_ECT, 0, (True, NOT_ECT)),
        (True, True, NOT_ECT, 0, (True, ECT0)),
        (True, True, ECT1, 0, (True, ECT1)),
        (True, True, CE, 0, (True, CE)),
        (True, False, 0, NO_IP_HEADER, (False, 0)),
        (False, False, 0, 0, (True, ECT0)),
    ],
    ids=["left alone", "made ECT", "ECT(1)", "CE", "no IP", "of a scenario"],
)
def test_stations_make_frames_ect_that_may_be(
    ect: bool, tagged: bool, tag: int, mark: int, expected: tuple[bool, int]
) -> None:
    senders = machine(f"rp.ect={'yes' if ect else 'no'}").senders(PLACE, np.random.default_rng(1))
    sent = senders.on_transmit(Departure(0, 0, NO_LIMITER, 0, 0, 1_000, tagged, tag, mark), new_outbox(1))
    assert (sent.tagged, sent.tag, sent.added_octets) == (*expected, 0)


class AnyEvents(RuleBasedStateMachine):
    """Invariants in every state and for every event, including CNP floods and unknown queue pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.variant = "paper"
        self.station = Station("byte_counter=20kB", flows=3)
        self.now_ns = 0

    @rule(ns=st.sampled_from([0, 1, 1_000, 4_000, 55_000, 10**7]))
    def pass_time(self, ns: int) -> None:
        self.now_ns += ns
        on_timer(self.station.limiters, self.station.settings, self.now_ns)

    @rule(flow=st.integers(-1, 5), count=st.integers(1, 30))
    def cnps(self, flow: int, count: int) -> None:
        for _ in range(count):
            self.station.cnp(self.now_ns, flow)

    @rule(flow=st.integers(0, 2), count=st.integers(1, 30))
    def frames(self, flow: int, count: int) -> None:
        for _ in range(count):
            self.station.sent(9_000, self.now_ns, flow)

    @invariant()
    def rates_are_between_floor_and_line(self) -> None:
        settings = self.station.settings
        active = [limiter for limiter in self.station.limiters.slots if limiter.active]
        for limiter in active:
            assert settings.min_rate_bps <= limiter.rate_bps <= settings.line_bps
            assert limiter.rate_bps <= limiter.target_bps * (1 + 1e-12) <= settings.line_bps * (1 + 1e-12)
            assert 0 <= limiter.alpha <= 1
            settled = limiter.rate_bps == limiter.target_bps == settings.line_bps
            assert limiter.timer_ns < NEVER_NS or settled or self.variant == "nic"
        due = min((min(x.timer_ns, x.decrease_ns) for x in active), default=NEVER_NS)
        assert next_timer_ns(self.station.limiters) == due
        assert due > self.now_ns

    @invariant()
    def cnps_are_of_queue_pairs_or_unknown(self) -> None:
        point = self.station.limiters.point
        assert point.unknown_flow <= point.cnps
        if self.variant == "paper":
            assert point.decreases == point.cnps - point.unknown_flow


class AnyEventsOfNic(AnyEvents):
    """The same of the cards' variant."""

    def __init__(self) -> None:
        super().__init__()
        self.variant = "nic"
        self.station = Station("variant=nic", "timer=200us", flows=3)


TestAnyEvents = AnyEvents.TestCase
TestAnyEvents.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestAnyEventsOfNic = AnyEventsOfNic.TestCase
TestAnyEventsOfNic.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
