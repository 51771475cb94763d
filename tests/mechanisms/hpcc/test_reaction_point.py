"""HPCC's reaction point compared with a literal transcription of Algorithm 1: window, timer and refused
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER, Departure, messages_of, new_outbox
from ecmproto.control.mechanisms.hpcc.congestion_point import record_of
from ecmproto.control.mechanisms.hpcc.machine import ACK_KIND
from ecmproto.control.mechanisms.hpcc.parameters import HPCCReactionPointParameters
from ecmproto.control.mechanisms.hpcc.reaction_point import HPCCStations, new_stations
from ecmproto.control.mechanisms.limiter import NEVER_NS
from tests.replay.loops import machine

LINE_BPS = 10**11
CONTEXT = PortContext(rate_bps=LINE_BPS, link_rate_bps=LINE_BPS, cp_mac=bytes(6), stations=2, flows=2)
PARAMETERS = HPCCReactionPointParameters()
station_counters = machine("hpcc").counters
T = 13_000
"""The base round-trip time in ns; all rates of the transcription are in octets a ns."""
W_INIT = LINE_BPS / 8e9 * T
FRAME = 1_000
TAG = 52
RATES = (25, 50, 100, 200, 400, 10, 40, 800)


class Hop(NamedTuple):
    """The INT information of a link, as in an acknowledgement of the public simulator."""

    B: float
    ts: int
    txBytes: int  # noqa: N815  # the paper's name
    qlen: int


class Literal:
    """Algorithm 1 as it is printed, with the first acknowledgement and the bounds of the public simulator."""

    def __init__(self) -> None:
        self.W = self.Wc = W_INIT
        self.U = 1.0
        self.inc_stage = 0
        self.last_update_seq = 0
        self.L: Sequence[Hop] = ()

    def measure_inflight(self, ack: Sequence[Hop]) -> float:
        u, tau = 0.0, 0
        for new, old in zip(ack, self.L, strict=True):
            dt = (new.ts - old.ts) % 2**24
            tx_rate = (new.txBytes - old.txBytes) % 2**20 * 128 / dt
            u_of_link = min(new.qlen, old.qlen) * 80 / (new.B * T) + tx_rate / new.B
            if u_of_link > u:
                u, tau = u_of_link, dt
        tau = min(tau, T)
        self.U = (1 - tau / T) * self.U + tau / T * u
        return self.U

    def compute_wind(self, U: float, update_wc: bool) -> float:  # noqa: N803  # the paper's name
        if U >= 0.95 or self.inc_stage >= 5:
            W = self.bounded(self.Wc / (U / 0.95) + 80)  # noqa: N806
            if update_wc:
                self.inc_stage = 0
                self.Wc = W
        else:
            W = self.bounded(self.Wc + 80)  # noqa: N806
            if update_wc:
                self.inc_stage += 1
                self.Wc = W
        return W

    @staticmethod
    def bounded(window: float) -> float:
        return min(W_INIT, max(1e8 / 8e9 * T, window))

    def new_ack(self, seq: int, snd_nxt: int, ack: Sequence[Hop]) -> None:
        if self.last_update_seq == 0:
            self.last_update_seq = snd_nxt
        elif seq > self.last_update_seq:
            self.W = self.compute_wind(self.measure_inflight(ack), True)
            self.last_update_seq = snd_nxt
        else:
            self.W = self.compute_wind(self.measure_inflight(ack), False)
        self.L = ack


def started(parameters: HPCCReactionPointParameters = PARAMETERS) -> HPCCStations:
    stations = new_stations(parameters, CONTEXT)
    stations.on_enqueue(0, stations.route(0, 0, 3, 0))
    return stations


def send(stations: HPCCStations, now_ns: int = 0, octets: int = FRAME) -> int:
    """Send a frame of the flow, and return its sequence number."""
    sent = stations.on_transmit(Departure(now_ns, 0, 0, 0, 3, octets, False, 0, 0), new_outbox(2))
    assert (sent.tagged, sent.mark, sent.added_octets) == (True, 0, TAG)
    return sent.tag


def acknowledge(
    stations: HPCCStations,
    seq: int,
    records: Sequence[int] = (),
    *,
    path: int = 7,
    hops: int | None = None,
    flow: int = 0,
    now_ns: int = 1_000,
) -> None:
    number = len(records) if hops is None else hops
    fields: dict[str, Any] = {"kind": ACK_KIND, "station": 0, "flow": flow, "tag": seq}
    fields |= {"mark": number << 16 | path} | {f"record{n}": word for n, word in enumerate(records, 1)}
    (message,) = messages_of([fields], machine("hpcc").payloads)
    stations.on_message(message, now_ns)


_STEPS = st.tuples(
    st.integers(0, 3),  # frames sent before the acknowledgement
    st.integers(1, 3),  # frames that it acknowledges
    st.lists(
        st.tuples(st.integers(1, 40_000), st.floats(0, 1.2), st.integers(0, 2**17 - 1)),
        min_size=5,
        max_size=5,
    ),
)


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2**30)), min_size=1, max_size=5),
    st.lists(_STEPS, max_size=60),
)
def test_windows_equal_algorithm_1(links: list[tuple[int, int]], steps: list[Any]) -> None:
    stations, literal = started(), Literal()
    times = [start for _, start in links]
    totals = [start for _, start in links]
    sent, acked = [send(stations)], 0
    for more, taken, changes in steps:
        sent += [send(stations) for _ in range(more)]
        acked = min(acked + taken, len(sent))
        hops, records = [], []
        for hop, (code, _) in enumerate(links):
            elapsed, load, queue = changes[hop]
            times[hop] += elapsed
            totals[hop] += int(load * elapsed * RATES[code] / 8)
            records.append(record_of(code, times[hop], totals[hop], queue * 80))
            hops.append(Hop(RATES[code] / 8, times[hop] % 2**24, totals[hop] // 128 % 2**20, queue))
        acknowledge(stations, sent[acked - 1], records)
        literal.new_ack(sent[acked - 1], sent[-1], hops)
        slot = stations.slots[0]
        assert slot.window_octets == pytest.approx(literal.W, rel=1e-9)
        assert slot.reference_octets == pytest.approx(literal.Wc, rel=1e-9)
        assert slot.utilisation == pytest.approx(literal.U, rel=1e-9, abs=1e-12)
        assert (slot.stage, slot.update_octets) == (literal.inc_stage, literal.last_update_seq)
        assert stations.limit_bps(0, 0) == pytest.approx(literal.W * 8e9 / T, rel=1e-9)
    assert station_counters(stations)["acks"] == len(steps)


def test_full_window_stops_a_flow_until_acknowledged() -> None:
    stations, frames = started(), 0
    while stations.next_tx_ns(0, 0, 10**9) != NEVER_NS:
        last = send(stations)
        frames += 1
    assert (frames - 1) * (FRAME + TAG) < W_INIT <= frames * (FRAME + TAG)
    acknowledge(stations, FRAME + TAG, [record_of(2, 5, 0, 0)])
    assert stations.next_tx_ns(0, 0, 2 * 10**9) == 2 * 10**9
    acknowledge(stations, last, [record_of(2, 6, 0, 0)])
    assert stations.slots[0].acked_octets == last


def test_frames_leave_at_the_windows_rate() -> None:
    stations = started()
    assert stations.limit_bps(0, 0) == pytest.approx(LINE_BPS)
    send(stations)
    assert stations.next_tx_ns(0, 0, 0) == -(-8 * (FRAME + TAG) * 10**9 // LINE_BPS)


def test_first_acknowledgement_of_a_path_leaves_records() -> None:
    stations = started()
    last = [send(stations) for _ in range(20)]
    acknowledge(stations, last[0], [record_of(2, 100, 0, 10**6)])
    acknowledge(stations, last[1], [record_of(2, 200, 0, 10**6)], path=8)
    acknowledge(stations, last[2], [record_of(2, 300, 0, 10**6)] * 2, path=8)
    assert stations.slots[0].window_octets == W_INIT
    assert station_counters(stations)["new_paths"] == 3
    acknowledge(stations, last[3], [record_of(2, 90_000, 0, 10**6)] * 2, path=8)
    assert stations.slots[0].window_octets < W_INIT / 2


def test_records_older_than_their_clock_are_unused() -> None:
    stations = started()
    sent = [send(stations) for _ in range(3)]
    acknowledge(stations, sent[0], [record_of(2, 100, 0, 10**6)], now_ns=1_000)
    acknowledge(stations, sent[1], [record_of(2, 100 + 2**24 + 50, 0, 10**6)], now_ns=1_000 + 2**24)
    assert station_counters(stations)["new_paths"] == 2
    assert stations.slots[0].window_octets == W_INIT


def test_records_before_an_idle_time_are_unused() -> None:
    stations = started()
    acknowledge(stations, send(stations, now_ns=500), [record_of(2, 100, 0, 10**6)], now_ns=1_000)
    idle_ns = 20 * 10**6
    after = send(stations, now_ns=idle_ns)
    acknowledge(stations, after, [record_of(2, idle_ns, 10**7, 0)], now_ns=idle_ns + 13_000)
    assert station_counters(stations)["new_paths"] == 2
    assert stations.slots[0].window_octets == W_INIT


def test_octets_without_acknowledgement_are_given_up() -> None:
    stations = started()
    while stations.next_tx_ns(0, 0, 10**9) != NEVER_NS:
        send(stations, now_ns=500)
    assert stations.next_station_timer_ns(0) == 500 + PARAMETERS.timeout_ns
    acknowledge(stations, FRAME + TAG, [record_of(2, 5, 0, 0)], now_ns=2_000)
    stations.on_station_timer(0, 500 + PARAMETERS.timeout_ns)
    assert station_counters(stations)["timeouts"] == 0
    assert stations.next_station_timer_ns(0) == 2_000 + PARAMETERS.timeout_ns
    stations.on_station_timer(0, 2_000 + PARAMETERS.timeout_ns)
    assert station_counters(stations)["timeouts"] == 1
    assert stations.next_tx_ns(0, 0, 2 * 10**9) == 2 * 10**9
    assert stations.next_station_timer_ns(0) == NEVER_NS


def test_unusable_acknowledgements_change_no_window() -> None:
    stations = started()
    last = send(stations)
    busy = [record_of(2, 5, 0, 10**6)] * 5
    for flow in (1, -1):
        acknowledge(stations, last, busy, flow=flow)
    acknowledge(stations, last + 1, busy)
    acknowledge(stations, last, hops=0)
    acknowledge(stations, last, busy, hops=6)
    acknowledge(stations, last - 1, busy)
    counts = station_counters(stations)
    assert (counts["unknown_flow"], counts["stale"], counts["unmeasured"]) == (2, 2, 2)
    assert stations.slots[0].window_octets == W_INIT
    assert stations.route(0, -1, 0, 0) == NO_LIMITER


def test_sequence_numbers_pass_two_to_the_32() -> None:
    stations = started()
    for _ in range(50):
        last = send(stations, octets=10**8 - TAG)
        acknowledge(stations, last, [record_of(2, 5, 0, 0)])
    assert last == 50 * 10**8 % 2**32
    assert stations.slots[0].acked_octets == 50 * 10**8


def test_flows_without_a_number_leave_without_a_tag() -> None:
    departure = Departure(0, 0, NO_LIMITER, -1, 3, FRAME, False, 0, 0)
    assert tuple(started().on_transmit(departure, new_outbox(2))) == (False, 0, 0, 0)
