"""Swift's reaction point beside a literal transcription of Algorithm 1, and its windows and refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER, Departure, messages_of, new_outbox
from ecmproto.control.mechanisms.hpcc.machine import ACK_KIND
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.swift.parameters import SwiftReactionPointParameters
from ecmproto.control.mechanisms.swift.reaction_point import (
    SwiftStations,
    new_stations,
    target_ns,
)
from ecmproto.errors import ParameterError
from tests.replay.loops import machine

CONTEXT = PortContext(rate_bps=10**11, link_rate_bps=10**11, cp_mac=bytes(6), stations=2, flows=2)
PARAMETERS = SwiftReactionPointParameters()
station_counters = machine("swift").counters
TAG, PACKET = 52, 1_052
_CLOCK = 2**24


class Literal:
    """Algorithm 1 and the target of section 3.5 as they are printed, but line 27 as in htsim."""

    ai, beta, max_mdf, reset = 1.0, 0.8, 0.5, 5
    min_cwnd, max_cwnd = 0.001, 1_000.0
    base_target, hbar, fs_range, fs_min_cwnd, fs_max_cwnd = 25_000.0, 3_000.0, 100_000.0, 0.1, 100.0

    def __init__(self) -> None:
        self.cwnd, self.rtt = 10.0, self.base_target
        self.t_last_decrease = 0
        self.retransmit_cnt = 0
        self.pacing_delay = 0.0

    def target_delay(self, hops: int) -> float:
        alpha = self.fs_range / (1 / math.sqrt(self.fs_min_cwnd) - 1 / math.sqrt(self.fs_max_cwnd))
        beta = -alpha / math.sqrt(self.fs_max_cwnd)
        scaling = max(0, min(alpha / math.sqrt(self.cwnd) + beta, self.fs_range))
        return self.base_target + hops * self.hbar + scaling

    def on_event(self, event: str, now: int, delay: float = 0, hops: int = 0, num_acked: float = 0) -> None:
        self.rtt = delay or self.rtt
        cwnd_prev = self.cwnd
        can_decrease = now - self.t_last_decrease >= self.rtt
        if event == "ack":
            self.retransmit_cnt = 0
            target_delay = self.target_delay(hops)
            if delay < target_delay:
                if self.cwnd >= 1:
                    self.cwnd = self.cwnd + self.ai / self.cwnd * num_acked
                else:
                    self.cwnd = self.cwnd + self.ai * num_acked
            elif can_decrease:
                factor = max(1 - self.beta * ((delay - target_delay) / delay), 1 - self.max_mdf)
                self.cwnd = factor * self.cwnd
        elif event == "retransmit timeout":
            self.retransmit_cnt += 1
            if self.retransmit_cnt >= self.reset:
                self.cwnd = self.min_cwnd
            elif can_decrease:
                self.cwnd = (1 - self.max_mdf) * self.cwnd
        elif event == "fast recovery":
            self.retransmit_cnt = 0
            if can_decrease:
                self.cwnd = (1 - self.max_mdf) * self.cwnd
        self.cwnd = min(max(self.min_cwnd, self.cwnd), self.max_cwnd)
        if self.cwnd < cwnd_prev:
            self.t_last_decrease = now
        self.pacing_delay = self.rtt / self.cwnd if self.cwnd < 1 else 0


def started(parameters: SwiftReactionPointParameters = PARAMETERS) -> SwiftStations:
    stations = new_stations(parameters, CONTEXT)
    stations.on_enqueue(0, stations.route(0, 0, 3, 0))
    return stations


def send(stations: SwiftStations, now_ns: int = 0, octets: int = PACKET - TAG) -> int:
    """Send a frame of the flow, and return its sequence number."""
    sent = stations.on_transmit(Departure(now_ns, 0, 0, 0, 3, octets, False, 0, 0), new_outbox(2))
    assert (sent.tagged, sent.tag, sent.added_octets) == (True, now_ns % _CLOCK << 16, TAG)
    return sent.mark


def acknowledge(
    stations: SwiftStations, seq: int, now_ns: int, *, delay_ns: int = 10_000, hops: int = 1, flow: int = 0
) -> None:
    fields: dict[str, Any] = {"kind": ACK_KIND, "station": 0, "flow": flow, "mark": seq}
    fields["tag"] = (now_ns - delay_ns) % _CLOCK << 16 | hops
    (message,) = messages_of([fields], machine("swift").payloads)
    stations.on_message(message, now_ns)


_EVENTS = st.tuples(
    st.sampled_from(["ack"] * 4 + ["fast recovery"] + ["retransmit timeout"] * 4),
    st.integers(1, 60_000),  # time since the last event
    st.one_of(st.integers(1, 200_000), st.integers(20_000, 40_000)),  # delay
    st.integers(0, 6),
)


@given(st.lists(_EVENTS, max_size=80))
def test_windows_equal_algorithm_1(events: list[Any]) -> None:
    stations, literal, now = started(SwiftReactionPointParameters(timeout_ns=50_000)), Literal(), 0
    for event, elapsed, delay, hops in events:
        now += elapsed
        last = [send(stations, now) for _ in range(2)][event == "fast recovery"]
        if event == "retransmit timeout":
            now += 50_000
            stations.on_station_timer(0, now)
            literal.on_event(event, now)
        else:
            acknowledge(stations, last, now, delay_ns=delay, hops=hops)
            literal.on_event(event, now, delay, hops, num_acked=1)
            if event == "ack":
                # The frame after it is acknowledged at a later time, when the target does not matter.
                stations.slots[0].acked_octets = stations.slots[0].next_octets
        slot = stations.slots[0]
        assert slot.cwnd == pytest.approx(literal.cwnd, rel=1e-9)
        assert (slot.decreased_ns, slot.retransmits) == (literal.t_last_decrease, literal.retransmit_cnt)
        paced = stations.next_tx_ns(0, 0, slot.sent_ns) - slot.sent_ns
        if literal.cwnd < 1:
            assert paced == math.ceil(literal.pacing_delay)
        else:
            assert paced in (0, NEVER_NS - slot.sent_ns)
        assert stations.rtt_average_ns(0, 0) == literal.rtt
    counts = station_counters(stations)
    assert counts["timeouts"] + counts["acks"] == len(events)


def test_a_delay_at_the_target_is_no_increase() -> None:
    stations = started(SwiftReactionPointParameters(fs_range_ns=0))
    acknowledge(stations, send(stations), 50_000, delay_ns=28_000)
    assert stations.slots[0].cwnd == 10
    acknowledge(stations, send(stations), 50_000, delay_ns=27_999)
    assert stations.slots[0].cwnd == pytest.approx(10.1)


def test_a_frame_sent_at_the_last_decrease_decreases() -> None:
    stations, sizes = started(), [10.0]
    for now_ns, delay_ns in ((100_000, 90_000), (189_999, 90_000), (190_000, 90_000)):
        acknowledge(stations, send(stations), now_ns, delay_ns=delay_ns)
        sizes.append(stations.slots[0].cwnd)
    assert sizes[0] > sizes[1] == sizes[2] > sizes[3]


@pytest.mark.parametrize(("timeouts", "window"), [(4, 10 / 16), (5, 0.001)])
def test_five_timeouts_set_the_minimum_window(timeouts: int, window: float) -> None:
    stations = started()
    for number in range(1, timeouts + 1):
        send(stations, (number - 1) * PARAMETERS.timeout_ns)
        stations.on_station_timer(0, number * PARAMETERS.timeout_ns)
    assert stations.slots[0].cwnd == window


def test_target_delay_grows_for_small_windows() -> None:
    settings = started().settings
    targets = [target_ns(settings, cwnd, 2) for cwnd in (1_000.0, 100.0, 1.0, 0.1, 0.01)]
    assert targets == pytest.approx([31_000, 31_000, 31_000 + 29_389.9, 131_000, 131_000], abs=0.1)


def test_full_window_stops_a_flow_until_acknowledged() -> None:
    stations, sent = started(), []
    while stations.next_tx_ns(0, 0, 100) != NEVER_NS:
        sent.append(send(stations))
    assert len(sent) == 10
    acknowledge(stations, sent[0], 10_000)
    assert stations.next_tx_ns(0, 0, 10_000) == 10_000
    assert stations.slots[0].cwnd == pytest.approx(10.1)


def test_frames_of_window_below_one_are_spaced() -> None:
    stations = started(SwiftReactionPointParameters(first_cwnd=0.25))
    assert send(stations, 5_000) == PACKET
    assert stations.next_tx_ns(0, 0, 6_000) == 5_000 + 4 * 25_000
    assert stations.limit_bps(0, 0) == pytest.approx(PACKET * 8e9 / 100_000)
    acknowledge(stations, PACKET, 305_000, delay_ns=300_000)
    assert stations.next_tx_ns(0, 0, 305_000) == 5_000 + 8 * 300_000


def test_rate_of_large_window_is_the_link() -> None:
    stations = started()
    acknowledge(stations, send(stations), 1_000, delay_ns=500)
    assert stations.limit_bps(0, 0) == 10**11


def test_unusable_acknowledgements_change_no_window() -> None:
    stations = started()
    last = send(stations)
    for flow in (1, -1):
        acknowledge(stations, last, 100, flow=flow)
    acknowledge(stations, last + 1, 100)
    acknowledge(stations, 0, 100)
    counts = station_counters(stations)
    assert (counts["unknown_flow"], counts["stale"]) == (2, 1)
    assert (counts["increases"], stations.slots[0].cwnd, stations.slots[0].acked_octets) == (0, 10, 0)
    assert stations.route(0, -1, 0, 0) == NO_LIMITER
    departure = Departure(0, 0, NO_LIMITER, -1, 3, 1_000, False, 0, 0)
    assert tuple(stations.on_transmit(departure, new_outbox(2))) == (False, 0, 0, 0)


def test_acknowledgements_after_a_timeout_are_stale() -> None:
    stations = started()
    last = send(stations, 500)
    assert stations.next_station_timer_ns(0) == 500 + PARAMETERS.timeout_ns
    stations.on_station_timer(0, 500 + PARAMETERS.timeout_ns)
    acknowledge(stations, last - 1, 600 + PARAMETERS.timeout_ns)
    counts = station_counters(stations)
    assert (counts["timeouts"], counts["stale"], counts["decreases"]) == (1, 1, 1)
    assert stations.next_station_timer_ns(0) == NEVER_NS


@pytest.mark.parametrize(
    ("name", "limit"), [("fs_min_cwnd", {"fs_max_cwnd": 0.1}), ("min_cwnd", {"max_cwnd": 0.001})]
)
def test_minimum_is_below_maximum(name: str, limit: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=f"{name}: expected less than {next(iter(limit))} "):
        SwiftReactionPointParameters(**limit)  # type: ignore[arg-type]
