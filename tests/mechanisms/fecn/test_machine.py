"""FECN through the protocol: a closed loop, and numbers that equal frames on a wire."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_LIMITER,
    SILENT,
    Arrival,
    Delivery,
    Departure,
    Outbox,
    Sent,
    fields_of,
    new_outbox,
)
from ecmproto.control.mechanisms.fecn.congestion_point import lowered
from ecmproto.control.mechanisms.fecn.machine import RETURN_KIND
from ecmproto.control.mechanisms.fecn.parameters import FECNEdgeParameters
from ecmproto.control.mechanisms.fecn.reaction_point import FECNFields, FECNSource, fecn_payload
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.record import new_record
from ecmproto.units import RATE_INFINITY
from ecmproto.wire.codec import RDTag, decode
from ecmproto.wire.codec.tags import TagFormat
from tests.mechanisms.fecn.driver import DROPPED, HELD_OUT, MS, PORT_MAC, drive, greedy, made, place, trace
from tests.mechanisms.fecn.frames import Edge, receive, received, tagged, with_rate
from tests.mechanisms.parsing import parse_frame

A, B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
GROUP = bytes.fromhex("01005e000001")
PAYLOAD = bytes.fromhex("1234") + bytes(range(60))
QUIET = np.zeros(8, np.int64)


def senders_of(where: PortContext, **texts: dict[str, str]) -> Any:
    return made("fecn", **texts).senders(where, np.random.default_rng(1))


def point_of(where: PortContext, **texts: dict[str, str]) -> Any:
    return made("fecn", **texts).congestion_point(where, np.random.default_rng(1))


def departure(
    limiter: int, now_ns: int, *, station: int = 0, tag: tuple[int, int] | None = None
) -> Departure:
    rate, rlq_id = tag or (0, 0)
    return Departure(now_ns, station, limiter, limiter, 3, 1_500, tag is not None, rate, rlq_id)


def arrival(octets: int, *, sampled: bool = True, enqueued: bool = True) -> Arrival:
    return Arrival(0, 0, 0, 3, octets, sampled, True, enqueued, False, 0, 0, octets, octets)


@pytest.mark.parametrize("name", ["fecn", "dbp"])
def test_compiled_and_plain_run_the_same_loop(name: str) -> None:
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT", "0") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.fecn.driver", name],
        env={**os.environ, "NUMBA_DISABLE_JIT": other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == trace(name) + "\n"


def test_flows_share_the_port_equally_without_losses() -> None:
    frames = greedy(3, 2, 30 * MS, 15_000)
    outcome = drive(made("fecn"), place(3, 2), frames, 30 * MS)
    rates = np.asarray(outcome.senders.slots)["rate_bps"]
    assert rates.tolist() == pytest.approx([1e9 / 6] * 6, rel=0.12)
    assert rates.max() == rates.min()
    assert not np.any(outcome.results == DROPPED)
    assert np.any(outcome.results == HELD_OUT)
    late = outcome.results[:, 1] > 20 * MS
    assert late.sum() * 12_000 / 0.01 == pytest.approx(1e9, rel=0.05)
    assert [message.time_ns for message in outcome.messages(SILENT)] == [n * MS for n in range(1, 31)]
    assert outcome.machine.counters(outcome.point)["updates"] == 30


def test_lowered_tag_returns_and_sets_the_rate() -> None:
    where = place(2, 3)
    machine, outbox = made("fecn"), new_outbox(4)
    generator = np.random.default_rng(1)
    point, senders = machine.congestion_point(where, generator), machine.senders(where, generator)
    receivers = machine.receivers(where, generator)
    # Station 1 has a frame for its flow 2, which enters this flow's queue with C/N0 of the link.
    assert senders.route(1, 2, 5, 1_000) == 2
    senders.on_enqueue(1, 2)
    assert senders.next_tx_ns(1, 2, 1_000) == 1_000
    assert senders.limit_bps(1, 2) == 10e9 / 20
    # The frame leaves with an RD tag with RLQ-ID 3 and without a limit.
    sent = senders.on_transmit(departure(2, 1_000, station=1), outbox)
    assert sent == Sent(True, RATE_INFINITY, 3, 10)
    # The switch allows C/N0 of the port.
    point.on_arrival(arrival(1_510), outbox)
    rate = point.rewrite_tag(3, sent.tag)
    assert rate == 50_000
    # The destination sends it back.
    receivers.on_delivery(Delivery(15_000, 1, 2, 3, 1_510, False, True, rate, sent.mark), outbox)
    assert outbox.posted.count == 1
    message = outbox.messages[0]
    assert (message.kind, message.sent, message.time_ns) == (RETURN_KIND, 1, 15_000)
    assert (message.station, message.flow, fecn_payload(message).rlq_id, message.rate_kbps) == (
        1,
        2,
        3,
        50_000,
    )
    # The queue follows, and only that one.
    senders.on_message(message, 16_000)
    assert [senders.limit_bps(n // 3, n % 3) for n in range(6)] == [0, 0, 0, 0, 0, 50e6]
    assert machine.counters(senders) == {
        "restarts": 1, "shared_arrivals": 0, "tags": 1, "returns": 1, "infinite_returns": 0,
        "capped_returns": 0, "floored_returns": 0, "unknown_returns": 0,
    }  # fmt: skip
    assert machine.counters(receivers) == {"stripped": 1, "returns": 1}
    assert machine.counters(point)["lowered_tags"] == 1


def test_a_routed_frame_counts_only_when_it_joins() -> None:
    senders = senders_of(place(1, 4), rp={"queues": "2", "random_phase": "yes"})
    before = [bytes(np.asarray(senders.slots).data), senders.generator.generator.bit_generator.state]
    for flow in (0, 3):
        senders.route(0, flow, 3, 5 * MS)
    assert [bytes(np.asarray(senders.slots).data), senders.generator.generator.bit_generator.state] == before
    assert sum(made("fecn").counters(senders).values()) == 0
    assert senders.route(0, 3, 3, 6 * MS) == 1
    senders.on_enqueue(0, 1)
    # The flow beyond the table shares the last queue, which starts when the frame came.
    assert made("fecn").counters(senders)["shared_arrivals"] == 1
    assert senders.slots[1].drained_ns == 6 * MS
    assert (senders.slots[1].waiting, senders.slots[0].used) == (1, 0)


def test_refused_frame_still_lets_idle_queue_restart() -> None:
    senders, outbox = senders_of(place(1, 1)), new_outbox(1)
    for now_ns in (0, 5 * MS):
        senders.route(0, 0, 3, now_ns - 1)
        senders.route(0, 0, 3, now_ns)
        senders.on_enqueue(0, 0)
        assert senders.limit_bps(0, 0) == 5e8
        senders.on_transmit(departure(0, now_ns), outbox)
        senders.slots[0].rate_bps = 1e9


@pytest.mark.parametrize(("flows", "queues", "expected"), [(3, 1_024, 3), (3, 2, 2), (0, 5, 1)])
def test_a_station_has_no_more_queues_than_flows(flows: int, queues: int, expected: int) -> None:
    assert senders_of(place(2, flows), rp={"queues": str(queues)}).limiters() == expected


def test_sources_have_no_timers() -> None:
    senders = senders_of(place(1, 1))
    senders.on_station_timer(0, MS)
    assert senders.next_station_timer_ns(0) == NEVER_NS


def test_tag_replaces_one_that_frame_brought() -> None:
    senders, outbox = senders_of(place(1, 1)), new_outbox(1)
    for now_ns in (0, 1, 2):
        senders.route(0, 0, 3, now_ns)
        senders.on_enqueue(0, 0)
    assert senders.on_transmit(departure(0, 0, tag=(7, 9)), outbox) == Sent(True, RATE_INFINITY, 1, 0)
    # Frames leave unchanged until the next tag is due.
    assert senders.on_transmit(departure(0, 1, tag=(7, 9)), outbox) == Sent(True, 7, 9, 0)
    assert senders.on_transmit(departure(0, 2), outbox) == Sent(False, 0, 0, 0)
    assert senders.slots[0].debt_bits == pytest.approx(3 * 12_000 - 1)
    # Past no limiter nothing is counted.
    assert senders.on_transmit(departure(NO_LIMITER, 9 * MS), outbox) == Sent(False, 0, 0, 0)
    assert outbox.posted.count == 0


def test_port_controls_the_sum_of_its_queues() -> None:
    where = place(1, 1)
    whole, split = point_of(where), point_of(where)
    outbox = new_outbox(8)
    for point in (whole, split):
        point.on_arrival(arrival(100_000), outbox)
        point.on_arrival(arrival(150_000, enqueued=False), outbox)
        point.on_arrival(arrival(64, sampled=False), outbox)
        assert point.state.arrived_octets == 250_000
        point.on_dequeue(5, 0, 3, 1_500, 0, outbox)
    assert outbox.posted.count == 0
    queues = np.zeros(8, np.int64)
    queues[0] = 90_000
    whole.on_timer(MS, queues, outbox)
    split.on_timer(MS, np.array([10_000, 20_000, 0, 0, 0, 0, 0, 60_000]), outbox)
    assert whole.state.rate_bps == split.state.rate_bps < 1e9 / 20
    one, other = outbox.messages[:2]
    assert one == other
    assert (one.kind, one.sent, one.station, one.qlen_octets) == (SILENT, 0, EVERY_STATION, 90_000)
    assert one.rate_kbps == whole.state.rate_bps // 1_000
    assert whole.next_timer_ns() == 2 * MS


def test_late_ticks_run_even_with_full_outbox() -> None:
    point, outbox = point_of(place(1, 1)), new_outbox(1)
    point.on_timer(MS - 1, QUIET, outbox)
    assert (point.next_timer_ns(), outbox.posted.count) == (MS, 0)
    point.on_timer(7 * MS + 1, QUIET, outbox)
    assert (point.next_timer_ns(), outbox.posted.count) == (8 * MS, 1)
    # The mechanism also works if no station is free.
    point.on_arrival(arrival(250_000), outbox)
    point.on_timer(8 * MS, QUIET, outbox)
    assert outbox.posted.count == 1
    assert made("fecn").counters(point) == {
        "updates": 1, "idle_ticks": 7, "limited_updates": 0, "bounded_updates": 0, "capacity_losses": 0,
        "tags": 0, "lowered_tags": 0,
    }  # fmt: skip


def test_frames_without_tag_bring_nothing_back() -> None:
    receivers = made("fecn").receivers(place(1, 1), np.random.default_rng(1))
    outbox = new_outbox(1)
    receivers.on_delivery(Delivery(0, 0, 0, 3, 1_500, False, False, 0, 0), outbox)
    receivers.post_reports(NEVER_NS - 1, outbox)
    assert (receivers.next_report_ns(), outbox.posted.count) == (NEVER_NS, 0)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["frame", "held out", "leave", "return"]),
        st.integers(0, 2),
        st.integers(0, 1),
        st.integers(0, 3 * MS),
        st.one_of(st.integers(0, 20_000_000), st.just(RATE_INFINITY)),
    ),
    max_size=40,
)


@settings(max_examples=50)
@given(EVENTS, st.integers(0, 2))
def test_stations_do_not_disturb_each_other(events: list[tuple[str, int, int, int, int]], only: int) -> None:
    """A station has the same results with and without the other two stations."""
    where = place(3, 2)
    both, alone, outbox = senders_of(where), senders_of(where), new_outbox(2)
    now_ns = 0
    for kind, station, flow, pause_ns, rate in events:
        now_ns += pause_ns
        for senders in (both, alone) if station == only else (both,):
            play(senders, outbox, kind, station, flow, now_ns, rate)
    for field in ("sources", "slots"):
        shared, own = (np.asarray(getattr(senders, field)) for senders in (both, alone))
        each = len(own) // 3
        assert (
            shared[only * each : (only + 1) * each].tolist() == own[only * each : (only + 1) * each].tolist()
        )


def play(senders: Any, outbox: Outbox, kind: str, station: int, flow: int, now_ns: int, rate: int) -> None:
    if kind == "frame":
        senders.on_enqueue(station, senders.route(station, flow, 3, now_ns))
    elif kind == "held out":
        senders.route(station, flow, 3, now_ns)
    elif kind == "leave" and senders.next_tx_ns(station, flow, now_ns) == now_ns:
        senders.on_transmit(departure(flow, now_ns, station=station), outbox)
    elif kind == "return":
        message = outbox.messages[0]
        message.station, fecn_payload(message).rlq_id, message.rate_kbps = station, flow + 1, rate
        senders.on_message(message, now_ns)


STACKS = st.sampled_from(["", "81006005", "88a8600581002006", "22e9beef", "8100f00522e9beef"])
OLD_TAGS = st.sampled_from(["", "88b60300000100000005", "88b600000202030405060708" + "00000000"])


@settings(max_examples=60)
@given(
    stack=STACKS,
    old=OLD_TAGS,
    flow=st.integers(0, 3),
    port_bps=st.sampled_from([10**8, 10**9, 4 * 10**10, 10**14]),
    priority=st.integers(0, 7),
    snap=st.integers(0, 60),
)
def test_numbers_equal_the_frames_on_a_wire(
    stack: str, old: str, flow: int, port_bps: int, priority: int, snap: int
) -> None:
    where = place(1, 4, rate_bps=port_bps)
    machine, outbox = made("fecn", edge={"return_priority": str(priority)}), new_outbox(1)
    generator = np.random.default_rng(1)
    bare = B + A + bytes.fromhex(stack + old) + PAYLOAD[: 2 + snap]
    length = len(bare) + 200
    before = decode(bare).get(RDTag)
    # Out of the source…
    senders = machine.senders(where, generator)
    senders.on_enqueue(0, senders.route(0, flow, 3, 0))
    old_values = (before is not None, before.rate if before else 0, before.rlq_id if before else 0)
    sent = senders.on_transmit(Departure(0, 0, flow, flow, 3, length, *old_values), outbox)
    frame = tagged(bare, rlq_id=sent.mark, rate=sent.tag)
    assert frame is not None
    assert len(frame) - len(bare) == sent.added_octets
    fields = machine.tags(np.array([sent.tag]), np.array([sent.mark]))
    values = {name: int(column[0]) for name, column in fields.items()}
    found = decode(frame)[RDTag]
    assert found == RDTag(**values, etype=found.etype)
    assert RDTag(**values, etype=found.etype).build() in frame
    assert isinstance(machine.tag, TagFormat)
    assert machine.tag.format is RDTag
    assert machine.tag.constants.get("protocol", 3) == found.protocol
    # … through the switch …
    point = machine.congestion_point(where, generator)
    rate = point.rewrite_tag(3, sent.tag)
    behind = with_rate(frame, lowered(point_of(where).state, found.rate))
    assert decode(behind)[RDTag].rate == rate
    # … to the destination, and back.
    receivers = machine.receivers(where, generator)
    length += sent.added_octets
    receivers.on_delivery(Delivery(9, 0, flow, 3, length, False, sent.tagged, rate, sent.mark), outbox)
    message = outbox.messages[0]
    edge = new_record(Edge)
    got = receive(
        edge,
        behind,
        station_mac=B,
        parameters=FECNEdgeParameters(return_priority=priority),
        length_octets=length,
    )
    built = machine.frame(message, SampledFrame(frame, length, 12), where)
    assert built == got.returning
    assert machine.counters(receivers) == {"stripped": int(edge.stripped), "returns": int(edge.returns)}
    assert received(built, new_record(FECNSource), station_mac=A) == FECNFields(
        fecn_payload(message).rlq_id, message.rate_kbps
    )
    parsed, refused = parse_frame(machine, built, A, where)
    assert refused == {}
    assert parsed is not None
    assert parsed.fields == {
        name: fields_of(message, machine.payloads)[name] for name in ("kind", "rlq_id", "rate_kbps")
    }
    assert parsed.about is not None
    # The frame keeps its priority, unless it has no VLAN tag. The data then had no VLAN tag either.
    assert parsed.about.destination == B
    assert parsed.about.priority == (None if stack[:4] in ("8100", "88a8", "9100") else 0)
    for octets, mac, reason in (
        (built, B, "foreign_returns"),
        (built, b"", "foreign_returns"),
        (GROUP + built[6:], A, "foreign_returns"),
        (built[: built.index(b"\x88\xb5") + 6], A, "malformed_returns"),
    ):
        assert parse_frame(machine, octets, mac, where) == (None, {reason: 1})
    assert parse_frame(machine, frame, A, where) == (None, {})
    # The unchanged frame has the same effect.
    assert machine.frame(message, SampledFrame(bare, length, 12), where) == built


def test_frame_to_group_is_answered_from_ports_address() -> None:
    message = new_outbox(1).messages[0]
    message.kind = RETURN_KIND
    frame = made("fecn").frame(message, SampledFrame(GROUP + A + PAYLOAD, 76, 12), place(1, 1))
    assert frame[:12] == A + PORT_MAC


def test_what_the_machine_says_of_itself() -> None:
    machine = made("fecn", cp={"qeq": "30kB"})
    assert machine.flow_key == (False, True, True, False, False)
    assert machine.set_point_octets == 30_000
    assert machine.kinds == {RETURN_KIND: "FECN return"}
    assert machine.answers == {RETURN_KIND}
    assert machine.feedback_label == ""
    assert machine.counters(made("none").receivers(place(1, 1), np.random.default_rng(1))) == {}
