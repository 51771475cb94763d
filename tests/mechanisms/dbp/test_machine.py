"""DBP through the protocol: who gets reports when, and numbers that equal frames on a wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import Delivery, Departure, Outbox, Sent, new_outbox
from ecmproto.control.mechanisms.dbp.machine import REPORT_KIND
from ecmproto.control.mechanisms.fecn.congestion_point import lowered
from ecmproto.control.mechanisms.fecn.reaction_point import FECNSource, fecn_payload
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.record import new_record
from tests.mechanisms.dbp.frames import Destination, report, with_rate
from tests.mechanisms.fecn.driver import DROPPED, MS, PORT_MAC, drive, greedy, made, place
from tests.mechanisms.fecn.frames import DBPReport, received_report
from tests.mechanisms.parsing import parse_frame

A = bytes.fromhex("020000000001")
GROUP = bytes.fromhex("01005e000001")
PAYLOAD = bytes.fromhex("1234") + bytes(60)
FAST = {"cp": {"T": "1ms"}, "rp": {"idle": "2ms"}, "edge": {"report_interval": "1ms", "active": "2ms"}}


def receivers_of(where: PortContext, **edge: str) -> Any:
    return made("dbp", edge=edge).receivers(where, np.random.default_rng(1))


def deliver(receivers: Any, station: int, flow: int, now_ns: int, outbox: Outbox) -> None:
    receivers.on_delivery(Delivery(now_ns, station, flow, 3, 1_500, False, False, 0, 0), outbox)


def reported(receivers: Any, until_ns: int, outbox: Outbox) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return the reports up to ``until_ns``: when, and about which station's which flow."""
    reports = []
    while receivers.next_report_ns() <= until_ns:
        now_ns = int(receivers.next_report_ns())
        receivers.post_reports(now_ns, outbox)
        messages = outbox.messages[: outbox.posted.count]
        assert {(message.kind, message.time_ns, message.sent) for message in messages} <= {
            (REPORT_KIND, now_ns, 1)
        }
        if len(messages):
            reports.append((now_ns // MS, [(int(m.station), int(m.flow)) for m in messages]))
        outbox.posted.count = 0
    return reports


def test_first_reports_end_losses_and_equalize_shares() -> None:
    outcome = drive(made("dbp", **FAST), place(3, 2), greedy(3, 2, 30 * MS, 15_000), 30 * MS)
    rates = np.asarray(outcome.senders.slots)["rate_bps"]
    assert rates.tolist() == pytest.approx([1e9 / 6] * 6, rel=0.12)
    assert rates.max() == rates.min()
    # Six queues start at a twentieth of their links, three times the port; the first reports end that.
    lost = outcome.results[outcome.results[:, 1] == DROPPED]
    assert 0 < lost[:, 0].max() <= MS + 4_000
    reports = outcome.messages(REPORT_KIND)
    assert len(reports) == 30 * 6
    assert outcome.machine.counters(outcome.receivers) == {"reports": 30 * 6, "unheard_frames": 0}
    counters = outcome.machine.counters(outcome.senders)
    # The last round's reports are still under way.
    assert (counters["tags"], counters["returns"]) == (0, 29 * 6)
    assert outcome.machine.counters(outcome.point)["tags"] == 30 * 6


def test_reported_rate_is_lowered_by_switch_and_obeyed() -> None:
    where = place(2, 3)
    machine, outbox = made("dbp"), new_outbox(4)
    generator = np.random.default_rng(1)
    point, senders = machine.congestion_point(where, generator), machine.senders(where, generator)
    receivers = machine.receivers(where, generator)
    # Station 1 sends an untagged frame to its destination 2, at C/N0 of its link.
    assert senders.route(1, 2, 5, 1_000) == 2
    senders.on_enqueue(1, 2)
    assert senders.limit_bps(1, 2) == 10e9 / 20
    departure = Departure(1_000, 1, 2, 2, 5, 1_500, False, 0, 0)
    assert senders.on_transmit(departure, outbox) == Sent(False, 0, 0, 0)
    # The destination receives the frame, and reports its link's speed at the next multiple of 10 ms.
    assert receivers.next_report_ns() == NEVER_NS
    deliver(receivers, 1, 2, 14_000, outbox)
    assert (receivers.next_report_ns(), outbox.posted.count) == (10 * MS, 0)
    receivers.post_reports(10 * MS, outbox)
    assert outbox.posted.count == 1
    message = outbox.messages[0]
    assert (message.kind, message.time_ns, message.station, message.flow) == (REPORT_KIND, 10 * MS, 1, 2)
    assert (message.rate_kbps, fecn_payload(message).rlq_id) == (10_000_000, 0)
    # The switch allows C/N0 of the port on which it arrives.
    message.rate_kbps = point.rewrite_tag(message.priority, message.rate_kbps)
    assert message.rate_kbps == 50_000
    # All frames to this destination are limited, and no other frames.
    senders.on_message(message, 10 * MS + 4_000)
    assert [senders.limit_bps(n // 3, n % 3) for n in range(6)] == [0, 0, 0, 0, 0, 50e6]
    assert machine.counters(senders)["returns"] == 1
    assert machine.counters(point)["lowered_tags"] == 1
    # The source is silent from now on: one more report, and no more after that.
    assert reported(receivers, 100 * MS, new_outbox(4)) == [(20, [(1, 2)])]


def test_reports_wait_for_capacity_and_precede_late_frames() -> None:
    receivers, outbox = receivers_of(place(2, 2)), new_outbox(2)
    for station, flow in ((0, 1), (1, 0), (1, 1)):
        deliver(receivers, station, flow, 5, outbox)
    # Data from another source arrive at 10 ms, too late for the reports of this time.
    deliver(receivers, 0, 0, 10 * MS, outbox)
    assert receivers.next_report_ns() == 10 * MS
    receivers.post_reports(10 * MS, outbox)
    assert [(int(m.station), int(m.flow)) for m in outbox.messages] == [(0, 1), (1, 0)]
    receivers.post_reports(10 * MS, outbox)
    assert (outbox.posted.count, receivers.next_report_ns()) == (2, 10 * MS)
    outbox.posted.count = 0
    assert reported(receivers, 10 * MS, outbox) == [(10, [(1, 1)])]
    assert receivers.next_report_ns() == 20 * MS
    assert reported(receivers, 20 * MS, new_outbox(4)) == [(20, [(0, 0), (0, 1), (1, 0), (1, 1)])]
    assert reported(receivers, 99 * MS, new_outbox(4)) == [(30, [(0, 0)])]


def test_waiting_reports_survive_the_next_due_time() -> None:
    receivers, outbox = receivers_of(place(1, 3)), new_outbox(2)
    for flow in range(3):
        deliver(receivers, 0, flow, 5, outbox)
    receivers.post_reports(10 * MS, outbox)
    deliver(receivers, 0, 0, 20 * MS, outbox)
    outbox.posted.count = 0
    assert receivers.next_report_ns() == 10 * MS
    receivers.post_reports(20 * MS, outbox)
    assert [int(message.flow) for message in outbox.messages[: outbox.posted.count]] == [2]
    assert receivers.next_report_ns() == 20 * MS


def test_stations_beyond_table_of_sources_get_no_reports() -> None:
    receivers, outbox = receivers_of(place(3, 2), sources="2"), new_outbox(4)
    for station in range(3):
        deliver(receivers, station, 1, 5, outbox)
    assert reported(receivers, 10 * MS, outbox) == [(10, [(0, 1), (1, 1)])]
    assert made("dbp").counters(receivers) == {"reports": 2, "unheard_frames": 1}


FRAMES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from([0, 1, MS, 5 * MS, 10 * MS, 30 * MS])),
    max_size=30,
)


@settings(max_examples=50)
@given(FRAMES)
def test_reports_to_one_source_ignore_other_sources(frames: list[tuple[int, int, int]]) -> None:
    """A single table of all destinations gives the same results as a separate destination for each flow."""
    where = place(3, 2)
    pairs = [(station, flow) for station in range(3) for flow in range(2)]
    together, alone = receivers_of(where), {pair: receivers_of(where) for pair in pairs}
    outbox, now_ns = new_outbox(8), 0
    got: list[tuple[int, list[tuple[int, int]]]] = []
    expected: list[tuple[int, tuple[int, int]]] = []
    for station, flow, pause_ns in frames:
        now_ns += pause_ns
        got += reported(together, now_ns - 1, outbox)
        deliver(together, station, flow, now_ns, outbox)
        single = alone[station, flow]
        expected += [(ms, pair) for ms, (pair,) in reported(single, now_ns - 1, outbox)]
        deliver(single, station, flow, now_ns, outbox)
    got += reported(together, now_ns + 50 * MS, outbox)
    for single in alone.values():
        expected += [(ms, pair) for ms, (pair,) in reported(single, now_ns + 50 * MS, outbox)]
    assert sorted((ms, pair) for ms, each in got for pair in each) == sorted(expected)


@settings(max_examples=50)
@given(
    stack=st.sampled_from(["", "81006005", "88a8600581002006", "22e9beef"]),
    flow=st.integers(0, 3),
    rates_bps=st.tuples(*[st.sampled_from([10**8, 10**10, 10**14])] * 2),
    priority=st.integers(0, 7),
)
def test_numbers_equal_the_frames_on_a_wire(
    stack: str, flow: int, rates_bps: tuple[int, int], priority: int
) -> None:
    where = place(1, 4, *rates_bps)
    machine, outbox = made("dbp", edge={"report_priority": str(priority)}), new_outbox(1)
    generator = np.random.default_rng(1)
    macs = [bytes([2, 0, 0, 0, 1, number]) for number in range(4)]
    data = macs[flow] + A + bytes.fromhex(stack) + PAYLOAD
    receivers = machine.receivers(where, generator)
    point: Any = machine.congestion_point(where, generator)
    deliver(receivers, 0, flow, 5, outbox)
    receivers.post_reports(10 * MS, outbox)
    message = outbox.messages[0]
    made_here = report(
        data,
        new_record(Destination),
        station_mac=macs[flow],
        link_rate_bps=rates_bps[1],
        priority=priority,
    )
    assert made_here is not None
    about = SampledFrame(data, len(data), 12)
    assert machine.frame(message, about, where) == made_here
    on_the_way = with_rate(made_here, lowered(point.state, int(message.rate_kbps)))
    message.rate_kbps = point.rewrite_tag(message.priority, message.rate_kbps)
    built = machine.frame(message, about, where)
    assert built == on_the_way
    source = new_record(FECNSource)
    assert received_report(built, source, station_mac=A) == DBPReport(macs[message.flow], message.rate_kbps)
    assert source.foreign_returns == source.malformed_returns == 0
    parsed, refused = parse_frame(machine, built, A, where)
    assert refused == {}
    assert parsed is not None
    assert parsed.fields == {"kind": REPORT_KIND, "rate_kbps": message.rate_kbps}
    assert parsed.about is not None
    assert parsed.about.destination == macs[message.flow]
    for octets, mac, reason in (
        (built, macs[0], "foreign_returns"),
        (built, b"", "foreign_returns"),
        (GROUP + built[6:], A, "foreign_returns"),
        (built[:6] + GROUP + built[12:], A, "foreign_returns"),
        (built[: built.index(b"\x88\xb5") + 6], A, "malformed_returns"),
    ):
        assert parse_frame(machine, octets, mac, where) == (None, {reason: 1})
    assert parse_frame(machine, data, A, where) == (None, {})


def test_report_about_group_comes_from_ports_address() -> None:
    message = new_outbox(1).messages[0]
    message.kind = REPORT_KIND
    frame = made("dbp").frame(message, SampledFrame(GROUP + A + PAYLOAD, 76, 12), place(1, 1))
    assert frame[:12] == A + PORT_MAC


def test_what_the_machine_says_of_itself() -> None:
    machine = made("dbp", cp={"qeq": "30kB"})
    assert machine.flow_key == (False, True, False, False, False)
    assert machine.set_point_octets == 30_000
    assert machine.kinds == {REPORT_KIND: "DBP rate report"}
    assert machine.answers == {REPORT_KIND}
    assert machine.tag is None
    assert machine.tags(np.zeros(1, np.int64), np.zeros(1, np.int64)) == {}
    assert machine.counters(made("none").receivers(place(1, 1), np.random.default_rng(1))) == {}
