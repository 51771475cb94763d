"""E²CM's machines, called only through the protocol, and compared with real frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.congestion_point import ecm_payload
from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, LimiterTable
from ecmproto.control.mechanisms.api.machine import AboutFlow, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_LIMITER,
    PROBE_KIND,
    SILENT,
    Arrival,
    Delivery,
    Departure,
    Message,
    fields_of,
    new_outbox,
    probe_payload,
    signed_cpid,
)
from ecmproto.control.mechanisms.e2cm.congestion_point import BCN_KIND, BCN_MAX_KIND, BCN_ZERO_KIND
from ecmproto.control.mechanisms.e2cm.edge import REPLY_KIND, E2CMEdgeCounters, ProbeReply, reply_payload
from ecmproto.control.mechanisms.e2cm.machine import E2CMMachine
from ecmproto.control.mechanisms.e2cm.messages import (
    Reply,
    probe_frame,
    probe_reply,
    probed_flow_of,
    read_probe,
    read_reply,
)
from ecmproto.control.mechanisms.e2cm.parameters import (
    E2CMCongestionPointParameters,
    E2CMEdgeParameters,
    E2CMReactionPointParameters,
)
from ecmproto.control.mechanisms.e2cm.reaction_point import set_flight
from ecmproto.control.mechanisms.ecm.reaction_point import TAG_OCTETS
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import ParameterError
from ecmproto.kernels.record import columns, new_record
from ecmproto.wire.codec import E2CM, CMTag, decode
from tests.mechanisms.aimd.flow import flow_of
from tests.mechanisms.aimd.other_mode import output_in_other_mode
from tests.mechanisms.e2cm import machine_run
from tests.mechanisms.e2cm.frames import read, tagged
from tests.mechanisms.e2cm.loop import (
    PLACE,
    PRIORITY,
    Loop,
    arrive,
    deliver,
    deliver_message,
    limiter_of,
    machine,
    send,
)
from tests.mechanisms.parsing import parse_frame
from tests.replay.loops import machine as loops_machine

DST, SRC = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
CPID = 0x0200_0000_00CC_0004
"""The CPID of PRIORITY's congestion point."""
SMALL_CP = E2CMCongestionPointParameters(random_octets=0, tagged_random_octets=0)
EAGER: dict[str, Any] = {
    "fixed_octets": 0, "tagged_fixed_octets": 0, "qeq_octets": 30_000, "qmc_octets": 100_000, "q_bit": True,
}  # fmt: skip
"""Every frame is a sample."""
VLANS = {"": None, "8100 7005": 5, "88a8 5001 8100 b002": 1, "8100 6005 22e9 0001": 5}
"""Tags, and the identifier in the outermost."""
HEADERS = tuple(VLANS)


def data(header: str = "8100 6005", tag: CMTag | None = None) -> bytes:
    shown = "" if tag is None else "88b6" + tag.build()[:-2].hex()
    return DST + SRC + bytes.fromhex(header.replace(" ", "") + shown + "0800") + b"\x45" * 80


def about(octets: bytes) -> SampledFrame:
    return SampledFrame(octets, len(octets), 12)


def bcn(
    q_off: int = 1171, q_delta: int = 2343, station: int = 0, flow: int = 0, kind: int = BCN_KIND
) -> Message:
    message = new_record(Message)
    message.kind, message.sent, ecm_payload(message).cpid = kind, 1, CPID
    message.station, message.flow, message.priority = station, flow, PRIORITY
    ecm_payload(message).q_off, ecm_payload(message).q_delta = q_off, q_delta
    return message


# Driven through the protocol


def test_compiled_and_plain_runs_are_equal() -> None:
    own = machine_run.run(7)
    assert len(own) > 100
    assert "\n".join(own) + "\n" == output_in_other_mode(machine_run.__name__)


def test_a_run_meets_every_kind_of_message() -> None:
    loop, kinds = Loop(machine(machine_run.SMALL)), set()
    for queue_octets in (0, 75_000, 120_000):
        loop.queue_octets = queue_octets
        kinds |= {int(message.kind) for step in range(100) for message in loop.data(step % 3, step % 4)}
    assert kinds == {SILENT, BCN_KIND, BCN_MAX_KIND, BCN_ZERO_KIND, REPLY_KIND, PROBE_KIND}
    counted = loop.machine.counters(loop.senders)
    assert counted["probes"] == loop.machine.counters(loop.receivers)["probes"] > 0


def of_station(loop: Loop, station: int) -> list[Any]:
    each = len(loop.senders.slots) // PLACE.stations, len(loop.senders.probings) // PLACE.stations
    tables = ((loop.senders.points, 1), (loop.senders.slots, each[0]), (loop.senders.probings, each[1]))
    return [columns(table)[station * size : (station + 1) * size].tolist() for table, size in tables]


@pytest.mark.parametrize("station", range(3))
def test_stations_do_not_disturb_one_another(station: int) -> None:
    loop = Loop(machine())
    others = [other for other in range(3) if other != station]
    before = [of_station(loop, other) for other in others]
    for flow in range(PLACE.flows):
        deliver_message(loop.senders, bcn(station=station, flow=flow), 0)
        for _ in range(60):
            loop.data(station, flow)
    assert [of_station(loop, other) for other in others] == before
    assert of_station(loop, station)[2][PLACE.flows - 1][4] == 1  # its last flow is probed
    assert loop.machine.counters(loop.senders)["allocated"] == PLACE.flows


def test_from_a_message_to_probes_and_back() -> None:
    loop = Loop(machine({Role.CONGESTION_POINT: SMALL_CP}))
    loop.queue_octets = 200_000

    # No flow is limited, so frames leave untagged. The 50th frame completes 75 KB and is sampled: the queue
    # is too long.
    for _ in range(49):
        assert loop.data(0) == []
        assert not loop.last_sent.tagged
    (message,) = loop.data(0)
    assert (message.kind, message.station, message.flow, message.priority, message.sent) == (
        BCN_KIND, 0, 0, PRIORITY, 1,
    )  # fmt: skip
    assert ecm_payload(message).cpid == signed_cpid(CPID)
    assert message.qoff_octets == 75_000
    assert message.fb_octets == -(75_000 + 2 * message.qdelta_octets)

    # The limiter starts at half the link's rate, and other stations are not affected.
    assert loop.senders.slots[0].rate_bps == PLACE.link_rate_bps / 2

    # From now on, frames have a CM-Tag. A probe follows the frame that completes 75 KB: 50 frames of 1516
    # octets.
    posted = [message for _ in range(50) for message in loop.data(0)]
    assert loop.last_sent == (True, signed_cpid(CPID), loop.now_ns // 1000, TAG_OCTETS)
    probe, reply = [message for message in posted if message.kind in (PROBE_KIND, REPLY_KIND)]
    assert (probe.kind, probe_payload(probe).mark, probe.priority) == (PROBE_KIND, loop.now_ns, PRIORITY)

    # The first reply has no throughput and only tells the flight time; the next one changes the rate.
    assert (reply.kind, reply_payload(reply).throughput) == (REPLY_KIND, 0)
    assert loop.senders.counters[0].first_replies == 1
    while loop.senders.counters[0].reactions == 0:
        posted = loop.data(0)
    reply = posted[-1]
    assert (reply.kind, reply.sent, reply.station, reply.flow) == (REPLY_KIND, 1, 0, 0)
    assert reply_payload(reply).throughput > 0
    # Probes never touch the association.
    assert loop.senders.slots[0].cpid == signed_cpid(CPID)


# The congestion point


def sampled(
    made: E2CMMachine, qlens: list[int], *, tag: int | None = None, mark: int = 0, **fields: Any
) -> Message:
    """Enqueue frames at the queue lengths ``qlens``, and return the messages for the last frame."""
    point: Any = made.congestion_point(PLACE, np.random.default_rng(1))
    outbox = new_outbox(len(qlens))
    for qlen in qlens:
        arrival = Arrival(
            5, 0, 0, PRIORITY, 1_500, True, True, True, tag is not None, tag or 0, mark, qlen, qlen
        )
        arrive(point, arrival._replace(**fields), outbox)
    return outbox.messages[outbox.posted.count - 1]


@pytest.mark.parametrize(
    ("qlen", "kind", "fb"),
    [
        (40_000, BCN_KIND, -(10_000 + 2 * 40_000)),
        (60_001, BCN_KIND, -(30_000 + 2 * 60_000)),  # both clamped
        (100_001, BCN_MAX_KIND, -(30_000 + 2 * 60_000)),
        (200_001, BCN_ZERO_KIND, -(30_000 + 2 * 60_000)),
        (20_000, SILENT, -(-10_000 + 2 * 20_000)),  # not associated
    ],
)
def test_feedback_in_octets_and_silent_samples(qlen: int, kind: int, fb: float) -> None:
    made = machine({Role.CONGESTION_POINT: E2CMCongestionPointParameters(**EAGER, qsc_octets=200_000)})
    message = sampled(made, [qlen])
    assert (message.kind, message.fb_octets, message.sent) == (kind, fb, int(kind != SILENT))
    assert message.qlen_octets == qlen


def test_a_source_that_takes_no_messages_gets_none() -> None:
    made = machine({Role.CONGESTION_POINT: E2CMCongestionPointParameters(**EAGER)})
    message = sampled(made, [90_000], answerable=False)
    assert (message.kind, message.sent) == (BCN_KIND, 0)


def test_unsampled_frames_and_disabled_priorities_are_passed_over() -> None:
    made = machine({Role.CONGESTION_POINT: E2CMCongestionPointParameters(**EAGER, enabled=frozenset({1}))})
    point: Any = made.congestion_point(PLACE, np.random.default_rng(1))
    outbox = new_outbox(4)
    for sampled_, priority in ((False, 1), (True, PRIORITY)):
        arrive(
            point,
            Arrival(5, 0, 0, priority, 1_500, sampled_, True, True, False, 0, 0, 90_000, 90_000),
            outbox,
        )
    assert outbox.posted.count == 0
    assert made.counters(point)["samples"] == 0


def test_octets_are_counted_by_priority() -> None:
    cp = E2CMCongestionPointParameters(fixed_octets=3_000, random_octets=0)
    point: Any = machine({Role.CONGESTION_POINT: cp}).congestion_point(PLACE, np.random.default_rng(1))
    outbox, found = new_outbox(4), []
    for priority in (1, 2, 2, 1):
        arrival = Arrival(5, 0, 0, priority, 1_500, True, True, True, False, 0, 0, 90_000, 90_000)
        arrive(point, arrival, outbox)
        found.append(int(outbox.posted.count))
    assert found == [0, 0, 1, 2]
    assert [ecm_payload(message).cpid & 0xFFFF for message in outbox.messages[:2]] == [3, 2]


# The stations


def limited(parameters: E2CMReactionPointParameters | None = None) -> Loop:
    """Return a loop whose station 0 has a limiter for flow 0."""
    loop = Loop(machine({Role.REACTION_POINT: parameters or E2CMReactionPointParameters()}))
    deliver_message(loop.senders, bcn(), 0)
    return loop


def test_probes_are_charged_to_nobody() -> None:
    debts = []
    for probe_frames in (0, 1):
        loop = limited(E2CMReactionPointParameters(probe_frames=probe_frames))
        posted = loop.data(0)
        assert len([message for message in posted if message.kind == PROBE_KIND]) == probe_frames
        debts.append(float(loop.senders.slots[0].debt_bits))
    assert debts == [8 * (1_500 + TAG_OCTETS)] * 2


def test_an_older_tag_is_replaced_and_adds_nothing() -> None:
    loop = limited(E2CMReactionPointParameters(timestamp_unit=4))
    assert limiter_of(loop.senders, 0, 0, PRIORITY, 0) == 0
    departure = Departure(80_000, 0, 0, 0, PRIORITY, 1_516, True, 77, 5)
    assert send(loop.senders, departure, loop.outbox) == (True, signed_cpid(CPID), 4 << 16 | 5, 0)
    assert loop.senders.points[0].replaced_tags == 1
    unlimited = departure._replace(limiter=NO_LIMITER, flow=1)
    assert send(loop.senders, unlimited, loop.outbox) == (True, 77, 5, 0)


def test_frame_releasing_its_limiter_keeps_its_tag() -> None:
    loop = limited()
    loop.senders.slots[0].rate_bps = PLACE.link_rate_bps
    loop.data(0)
    assert loop.machine.counters(loop.senders)["released"] == 1
    assert loop.last_sent.tag == signed_cpid(CPID)


def test_due_probe_by_time_follows_next_frame() -> None:
    loop = limited(E2CMReactionPointParameters(probe_octets=0, probe_interval_ns=100_000))
    assert PROBE_KIND not in [message.kind for message in loop.data(0, after_ns=90_000)]
    assert PROBE_KIND in [message.kind for message in loop.data(0, after_ns=30_000)]
    assert PROBE_KIND not in [message.kind for message in loop.data(0, after_ns=70_000)]
    assert PROBE_KIND in [message.kind for message in loop.data(0, after_ns=20_000)]


def test_flows_without_record_are_limited_but_not_probed() -> None:
    loop = Loop(machine({Role.REACTION_POINT: E2CMReactionPointParameters(max_flows=1, probe_frames=1)}))
    for flow in (0, 1):
        deliver_message(loop.senders, bcn(flow=flow), 0)
    assert PROBE_KIND in [message.kind for message in loop.data(0, 0)]
    assert PROBE_KIND not in [message.kind for message in loop.data(0, 1)]
    assert loop.last_sent.tagged


def test_probes_may_travel_with_priority_of_their_own() -> None:
    loop = limited(E2CMReactionPointParameters(probe_frames=1, probe_priority=5))
    (probe,) = [message for message in loop.data(0) if message.kind == PROBE_KIND]
    assert probe.priority == 5


def test_probe_tells_time_modulo_2_to_32() -> None:
    loop = limited(E2CMReactionPointParameters(probe_frames=1))
    loop.now_ns = 2**32 + 5
    (probe,) = [message for message in loop.data(0) if message.kind == PROBE_KIND]
    assert (probe_payload(probe).mark, probe.time_ns) == (5, 2**32 + 5)


def test_reply_limits_autonomous_flow_in_its_priority() -> None:
    rp = E2CMReactionPointParameters(autonomous=True, probe_frames=1, enabled=frozenset({PRIORITY}))
    loop = Loop(machine({Role.REACTION_POINT: rp}))
    loop.data(0, flow=2)
    reply = bcn(flow=2, kind=REPLY_KIND)
    for latency, throughput in ((10, 0), (90_000, 9_000_000)):
        reply_payload(reply).latency, reply_payload(reply).throughput = latency, throughput
        deliver_message(loop.senders, reply, loop.now_ns)
    assert loop.machine.counters(loop.senders)["allocated_by_replies"] == 1
    assert (loop.senders.slots[0].flow, loop.senders.slots[0].priority) == (2, PRIORITY)


def test_first_probe_starts_from_known_flight_time() -> None:
    loop = Loop(machine())
    set_flight(loop.senders, 2**32 + 500)
    deliver_message(loop.senders, bcn(station=2, flow=3), 0)
    assert loop.senders.probings[2 * PLACE.flows + 3].flight_ns == 500


def test_path_sets_flight_time_and_share_of_flow() -> None:
    rp = E2CMReactionPointParameters(hops_exponent=1, flow_qeq_octets=15_000)
    loop = Loop(machine({Role.REACTION_POINT: rp}))
    loop.machine.set_path(loop.senders, 2, 3, hops=2, flight_ns=700)
    loop.machine.set_path(loop.senders, 2, PLACE.flows, hops=9, flight_ns=9)  # is not probed
    ours, others = (loop.senders.probings[2 * PLACE.flows + flow] for flow in (3, 2))
    assert (ours.qeq_octets, ours.known_flight_ns) == (30_000, 700)
    assert others.qeq_octets == 15_000 * PLACE.hops
    assert columns(loop.senders.probings)["qeq_octets"].tolist().count(30_000) == 1


def test_messages_without_known_station_or_kind_are_ignored() -> None:
    loop = Loop(machine())
    deliver_message(loop.senders, bcn(station=EVERY_STATION), 0)
    deliver_message(loop.senders, bcn(kind=SILENT), 0)
    deliver_message(loop.senders, bcn(kind=PROBE_KIND), 0)
    deliver_message(loop.senders, bcn(flow=-1), 0)
    counted = loop.machine.counters(loop.senders)
    assert (counted["messages"], counted["unknown_flow"], counted["allocated"]) == (1, 1, 0)


# The destinations


def test_edge_measures_only_flows_within_its_table() -> None:
    made = machine({Role.EDGE: E2CMEdgeParameters(max_flows=2)})
    receivers: Any = made.receivers(PLACE, np.random.default_rng(1))
    outbox = new_outbox(16)
    found = []
    for now_ns in (0, 12_000):
        for station, flow in ((0, 1), (1, 1), (2, 0)):
            before = Delivery(now_ns, station, flow, PRIORITY, 1_500, False, True, CPID, 0)
            deliver(receivers, before, outbox)
            probe = before._replace(octets=60, probe=True, tagged=False, mark=(now_ns - 700) % 2**32)
            deliver(receivers, probe, outbox)
            message = outbox.messages[outbox.posted.count - 1]
            found.append(
                (
                    int(message.station),
                    int(reply_payload(message).latency),
                    int(reply_payload(message).throughput),
                )
            )
    assert outbox.posted.count == 6
    assert found[:3] == [(0, 700, 0), (1, 700, 0), (2, 700, 0)]
    assert found[3:] == [(0, 700, 1_000_000), (1, 700, 1_000_000), (2, 700, 0)]
    assert made.counters(receivers) == {"probes": 6, "unmeasured_probes": 4, "flows": 2}


# Numbers and frames are the same


HALF_TAGS = st.tuples(
    st.integers(-(2**63), 2**63 - 1).map(lambda cpid: cpid & ~(1 << 56) or 1), st.integers(0, 2**20 - 1)
)


@given(
    st.lists(st.integers(0, 350_000), min_size=1, max_size=4),
    st.one_of(st.none(), HALF_TAGS),
    st.booleans(),
    st.sampled_from(HEADERS),
    st.sampled_from((24, 34, 48, 200)),
    st.sampled_from((0.125, 1.0, 4.0)),
)
def test_message_is_what_its_frame_is_read_as(
    qlens: list[int], carried: tuple[int, int] | None, own: bool, header: str, payload: int, qscale: float
) -> None:
    cp = E2CMCongestionPointParameters(**EAGER, qsc_octets=300_000, payload_octets=payload, qscale=qscale)
    made, tag = machine({Role.CONGESTION_POINT: cp}), None
    cpid, mark = carried or (0, 0)
    cpid = signed_cpid(CPID) if own else cpid
    if carried is not None:
        fields = {
            name: int(value[0]) for name, value in made.tags(np.array([cpid]), np.array([mark])).items()
        }
        tag = CMTag(protocol=2, **fields)
    message = sampled(made, qlens, tag=None if carried is None else cpid, mark=mark)
    frame = data(header, tag)
    if message.kind == SILENT:
        with pytest.raises(ParameterError, match="got kind 0"):
            made.frame(message, about(frame), PLACE)
        return
    octets = made.frame(message, about(frame), PLACE)
    rp = E2CMReactionPointParameters()
    found = read(octets, stations={SRC}, point=new_record(LimiterTable), parameters=rp)
    assert found is not None
    numbers, flow = found
    parsed, counted = parse_frame(made, octets, SRC, PLACE)
    assert counted == {}
    assert parsed is not None
    assert parsed.fields == {
        **{
            name: fields_of(message, made.payloads)[name]
            for name in ("kind", "cpid", "q_off", "q_delta", "q")
        },
        **{name: getattr(numbers, name) for name in ("timestamp", "unit", "tagged")},
        "priority": flow.priority,
    }
    assert parsed.about == AboutFlow(DST, VLANS[header], flow.priority)
    assert flow == flow_of(frame, rp)
    assert (numbers.type, *numbers[:4]) == (
        message.kind - BCN_KIND, ecm_payload(message).cpid, ecm_payload(message).q_off,
        ecm_payload(message).q_delta, ecm_payload(message).q,
    )  # fmt: skip
    assert decode(octets)[E2CM].cpid == CPID
    # The reaction point knows of the tag as far as the message shows it.
    shown_octets = len(decode(octets)[E2CM].payload)
    if tag is None or shown_octets >= frame.index(b"\x88\xb6") + TAG_OCTETS:
        assert numbers[4:7] == (
            ecm_payload(message).timestamp,
            ecm_payload(message).unit,
            bool(ecm_payload(message).tagged),
        )
    else:
        assert not numbers.tagged
        assert ecm_payload(message).tagged


@given(st.integers(0, 2**50), st.sampled_from(HEADERS), st.sampled_from((-1, 5)))
def test_probe_is_what_its_frame_is_read_as(now_ns: int, header: str, probe_priority: int) -> None:
    rp = E2CMReactionPointParameters(probe_priority=probe_priority)
    frame, message = data(header, CMTag(protocol=2, cpid=CPID)), new_record(Message)
    message.kind, probe_payload(message).mark = PROBE_KIND, now_ns % 2**32
    octets = machine({Role.REACTION_POINT: rp}).frame(message, about(frame), PLACE)
    assert octets == probe_frame(frame, timestamp_ns=now_ns, parameters=rp)
    found = read_probe(octets, stations={DST}, counters=new_record(E2CMEdgeCounters))
    assert found is not None
    assert (found.flow, found.timestamp_ns) == (probed_flow_of(frame), probe_payload(message).mark)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from(HEADERS), st.integers(0, 7))
def test_reply_is_what_its_frame_is_read_as(latency: int, rate: int, header: str, priority: int) -> None:
    edge = E2CMEdgeParameters(reply_priority=priority)
    frame, message = data(header, CMTag(protocol=2, cpid=CPID)), new_record(Message)
    message.kind, reply_payload(message).latency, reply_payload(message).throughput = (
        REPLY_KIND,
        latency,
        rate,
    )
    octets = machine({Role.EDGE: edge}).frame(message, about(frame), PLACE)
    probe_octets = probe_frame(frame, timestamp_ns=0, parameters=E2CMReactionPointParameters())
    probe = read_probe(probe_octets, stations={DST}, counters=new_record(E2CMEdgeCounters))
    assert probe is not None
    assert octets == probe_reply(probe, ProbeReply(latency, rate), parameters=edge)
    found = read_reply(octets, stations={SRC}, counters=new_record(LimiterTable))
    assert found == Reply(probed_flow_of(frame), latency, rate)
    parsed, counted = parse_frame(machine(), octets, SRC, PLACE)
    assert counted == {}
    assert parsed is not None
    data_priority = flow_of(frame, E2CMReactionPointParameters()).priority
    assert parsed.fields == {
        "kind": REPLY_KIND, "latency": latency, "throughput": rate, "priority": data_priority,
    }  # fmt: skip
    assert parsed.about == AboutFlow(DST, VLANS[header], data_priority)


def test_forged_messages_are_refused_and_counted() -> None:
    made, frame, message = machine(), data(), bcn()
    good = made.frame(message, about(frame), PLACE)
    message.kind, reply_payload(message).latency = REPLY_KIND, 5
    reply = made.frame(message, about(frame), PLACE)
    message.kind = PROBE_KIND
    probe = made.frame(message, about(frame), PLACE)
    at = good.index(frame[:12])
    for octets, mac, reason in (
        (b"\xff" * 6 + good[6:], SRC, "group_address"),
        (b"\xff" * 6 + reply[6:], SRC, "group_address"),
        (good, DST, "foreign_address"),
        (reply, DST, "foreign_address"),
        (good[: at + 6] + DST + good[at + 12 :], SRC, "foreign_address"),
        (good[: at + 23], SRC, "malformed"),
        (frame, SRC, "malformed"),
        (probe, DST, "forward_probes"),
    ):
        assert parse_frame(made, octets, mac, PLACE) == (None, {reason: 1})


def test_reply_with_impossible_flow_id_concerns_no_flow() -> None:
    made, message = machine(), new_record(Message)
    message.kind, reply_payload(message).throughput = REPLY_KIND, 77
    reply = made.frame(message, about(data()), PLACE)
    found = decode(reply)[E2CM].flow_id.to_bytes(2)
    at = reply.index(found, 30)
    parsed, counted = parse_frame(made, reply[:at] + b"\x12\x34" + reply[at + 2 :], SRC, PLACE)
    assert counted == {"lying_replies": 1}
    assert parsed is not None
    assert parsed.about is None
    assert parsed.fields["throughput"] == 77


def test_frame_for_source_that_takes_none_is_refused() -> None:
    frame = bytearray(data())
    frame[6] |= 1
    with pytest.raises(ValueError, match="receives no messages"):
        machine().frame(bcn(), about(bytes(frame)), PLACE)


@given(HALF_TAGS, st.sampled_from(HEADERS))
def test_tags_packed_by_hand_are_what_limiter_inserts(carried: tuple[int, int], header: str) -> None:
    cpid, mark = carried
    made, limiter = machine(), new_record(Limiter)
    limiter.cpid = cpid
    fields = made.tags(np.array([cpid]), np.array([mark]))
    assert fields["cpid"].dtype == np.uint64
    assert made.tag.format is CMTag
    assert made.tag.constants == {"protocol": 2}
    tag = CMTag(protocol=2, **{name: int(value[0]) for name, value in fields.items()})
    inserted = tagged(
        data(header), limiter, point=new_record(LimiterTable), timestamp=mark & 0xFFFF, unit=mark >> 16
    )
    assert inserted == data(header, tag)
    assert len(inserted) - len(data(header)) == TAG_OCTETS


def test_what_the_machine_says_of_itself() -> None:
    made = machine({Role.CONGESTION_POINT: E2CMCongestionPointParameters(qeq_octets=50_000)})
    assert made.set_point_octets == 50_000
    assert made.feedback_label == "Fb"
    assert made.flow_key == (True, True, True, False, False)
    key = machine({Role.REACTION_POINT: E2CMReactionPointParameters(key_vlan=False)}).flow_key
    assert key == (False, True, True, False, False)
    point = made.congestion_point(PLACE, np.random.default_rng(1))
    receivers = made.receivers(PLACE, np.random.default_rng(1))
    assert (point.rewrite_tag(3, 7), point.next_timer_ns(), receivers.next_report_ns()) == (
        7,
        NEVER_NS,
        NEVER_NS,
    )


@pytest.mark.parametrize(("exponent", "qeq"), [(-1, 5_000), (0, 15_000), (1, 45_000)])
def test_hops_of_path_set_what_flows_are_given(exponent: int, qeq: int) -> None:
    """S002's three fairness settings: throughput first, proportional, max-min."""
    made = loops_machine("e2cm", f"rp.hops_exponent={exponent}")
    place = PortContext(rate_bps=10**10, link_rate_bps=10**10, cp_mac=bytes(6), stations=2, flows=3, hops=3)
    senders: Any = made.senders(place, np.random.default_rng(1))
    assert [probing.qeq_octets for probing in senders.probings] == [qeq] * 6
    assert {probing.qmax_octets for probing in senders.probings} == {56_000 * qeq // 15_000}


def test_limiter_round_trip_times_are_a_gauge() -> None:
    made = loops_machine("e2cm")
    place = PortContext(rate_bps=10**10, link_rate_bps=10**10, cp_mac=bytes(6), stations=2, flows=3)
    senders: Any = made.senders(place, np.random.default_rng(1))
    assert made.gauges(senders) == {}
    senders.slots[0].rtt_average_ns, senders.slots[1].rtt_average_ns = 2_000.0, 5_000.0
    assert made.gauges(senders) == {"rtt_average_ns": 3_500.0}
    assert senders.rtt_average_ns(0, 1) == 5_000.0
