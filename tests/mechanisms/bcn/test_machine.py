"""BCN through the protocol: a closed loop, and numbers that equal frames on a wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.congestion_point import count, start
from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, LimiterTable
from ecmproto.control.mechanisms.api.machine import AboutFlow, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_CPID,
    NO_LIMITER,
    PAUSE_KIND,
    SILENT,
    Arrival,
    fields_of,
    flow_control_payload,
    messages_of,
    new_outbox,
)
from ecmproto.control.mechanisms.bcn import congestion_point as cp
from ecmproto.control.mechanisms.bcn import reaction_point as rp
from ecmproto.control.mechanisms.bcn.congestion_point import (
    BCN_KIND,
    BCN_STOP_KIND,
    KIND_OF_TYPE,
    BCNPointState,
    bcn_payload,
)
from ecmproto.control.mechanisms.bcn.parameters import (
    BCNCongestionPointParameters,
    BCNReactionPointParameters,
)
from ecmproto.control.mechanisms.bcn.reaction_point import TAG_OCTETS
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.messages import read_flow_control as read_pause
from ecmproto.kernels.record import columns, new_record
from ecmproto.wire.codec import RRTTag, decode
from ecmproto.wire.codec.tags import TagFormat
from tests.mechanisms.aimd.driver import (
    CP,
    LINK,
    PRIORITY,
    arrive,
    check_alone,
    deliver_message,
    drive,
    made,
    place,
)
from tests.mechanisms.aimd.flow import flow_of
from tests.mechanisms.aimd.other_mode import output_in_other_mode
from tests.mechanisms.aimd.station import new_reaction_point, new_state
from tests.mechanisms.bcn import machine_run
from tests.mechanisms.bcn.frames import bcn_message, read, tag_cpid, tagged
from tests.mechanisms.parsing import parse_frame

SOURCE = bytes.fromhex("020000000002")
GROUP = bytes.fromhex("030000000002")
OLD_TAG = -7
CPIDS = {priority: int.from_bytes(CP) << 16 | priority + 1 for priority in (0, PRIORITY)}


def test_compiled_and_plain_run_the_same_loop() -> None:
    own = machine_run.run()
    assert sum("xoff_frames': 0" in line for line in own) == 0
    assert "\n".join(own) + "\n" == output_in_other_mode(machine_run.__name__)


def test_stop_pause_and_restart_follow_port_capacity() -> None:
    machine = made(
        "bcn",
        cp={"fixed_octets": 0, "qeq_octets": 2_000, "qsc_octets": 4_000, "qst_octets": 5_000,
            "qst_low_octets": 1_500},
        rp={"self_increase_bps": 0},
    )  # fmt: skip
    frames = [
        (0, 0, 0, 1_500), (1, 0, 0, 1_500), (2, 1, 2, 1_500), (3, 1, 3, 1_500, OLD_TAG),
        (4_100, 1, 2, 1_500, OLD_TAG),
    ]  # fmt: skip
    # The port is a tenth as fast as the stations' links: 12 µs a frame.
    where = place(2, 4, rate_bps=LINK // 10)
    outcome = drive(machine, frames, where=where, until_ns=2_000_000)
    found = [
        tuple(
            fields_of(message, machine.payloads).get(name, 0)
            for name in (
                "time_ns", "kind", "station", "flow", "qlen_octets", "fb_octets", "e", "capacity", "quanta"
            )
        )
        for message in outcome.messages
    ]  # fmt: skip
    assert found[:5] == [
        (0, SILENT, 0, 0, 1_500, 500 - 2 * 1_500, 0, 1_000_000, 0),
        (1, BCN_KIND, 0, 0, 3_000, -1_000 - 2 * 1_500, -62, 1_000_000, 0),
        (2, BCN_STOP_KIND, 1, 2, 4_500, -5 * 2_000, 0, 1_000_000, 0),
        # The fourth frame is one too many for the port: everybody is paused.
        (3, PAUSE_KIND, EVERY_STATION, -1, 6_000, 0, 0, 0, 0xFFFF),
        (3, BCN_STOP_KIND, 1, 3, 6_000, -5 * 2_000, 0, 1_000_000, 0),
    ]
    # The flows may continue when at most one of five frames remains.
    pauses = [
        (message.time_ns, flow_control_payload(message).quanta)
        for message in outcome.messages
        if message.kind == PAUSE_KIND
    ]
    assert pauses == [(3, 0xFFFF), (48_000, 0)]
    results = columns(outcome.results)[["limiter", "octets", "tagged", "tag"]].tolist()
    assert results[3] == (NO_LIMITER, 1_500, 1, OLD_TAG)
    # The stopped flow waits for its time-out, and its frame leaves with a new tag instead of the old tag.
    assert results[4] == (0, 1_500, 1, CPIDS[PRIORITY])
    assert 4_100 < outcome.results[4].left_ns < 4_002 + 10_000
    # The flow restarts at a hundredth of the rate in the message, and not of its link's rate.
    each = outcome.senders.slots_each
    assert columns(outcome.senders.slots)["rate_bps"][each : each + 2].tolist() == [1e9 / 100] * 2
    counted = machine.counters(outcome.senders)
    assert (counted["allocated"], counted["stopped"], counted["restarts"]) == (3, 1, 3)
    assert counted["replaced_tags"] == 1
    counted = machine.counters(outcome.point)
    assert (counted["xoff_frames"], counted["xon_frames"], counted["refresh_frames"]) == (1, 1, 0)


def test_a_pause_is_refreshed_by_the_timer() -> None:
    machine = made("bcn", cp={"enabled": frozenset(), "qst_octets": 200_000})
    # So slow a port that the pause lasts.
    where = place(1, 1, rate_bps=10**6)
    outcome = drive(machine, [(0, 0, 0, 250_000)], where=where, until_ns=5_000_000)
    half_ns = 0xFFFF * 512 // 10 // 2
    assert [(message.time_ns, flow_control_payload(message).quanta) for message in outcome.messages] == [
        (0, 0xFFFF), (half_ns, 0xFFFF), (2 * half_ns, 0xFFFF),
    ]  # fmt: skip
    message = outcome.messages[0]
    frame = machine.frame(message, SampledFrame(b"", 0, 0), where)
    assert read_pause(frame).times_quanta == (0xFFFF,) * 8
    assert (frame[6:12], len(frame)) == (CP, 60)
    assert outcome.machine.counters(outcome.point)["refresh_frames"] == 2


def test_message_for_an_unknown_station_is_ignored() -> None:
    senders: Any = made("bcn").senders(place(), np.random.default_rng(1))
    before = columns(senders.slots).tolist(), columns(senders.points).tolist()
    (message,) = messages_of([{"kind": BCN_KIND, "e": -100, "capacity": 10**6}], made("bcn").payloads)
    # Its last station is where −1 would lead.
    message.station, message.priority = -1, PRIORITY
    deliver_message(senders, message, 5)
    assert (columns(senders.slots).tolist(), columns(senders.points).tolist()) == before
    message.station = 2
    deliver_message(senders, message, 5)
    assert columns(senders.points)["allocated"].tolist() == [0, 0, 1]


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 3), st.integers(0, 20_000), st.integers(-400, 400),
        st.sampled_from([10**6, 10**7, 0]), st.integers(1, 2), st.booleans(),
    ),
    min_size=1,
    max_size=30,
)  # fmt: skip


@settings(max_examples=40)
@given(EVENTS, st.integers(0, 2))
def test_stations_do_not_disturb_each_other(events: list[tuple[int, ...]], only: int) -> None:
    machine = made("bcn", cp={"enabled": frozenset()}, rp={"limiters": 2})
    frames, given_messages, now_ns = [], [], 0
    for station, flow, gap_ns, e, capacity, cpid, follows in events:
        now_ns += gap_ns
        given_messages.append(
            {"time_ns": now_ns, "sent": 1, "kind": BCN_KIND, "station": station, "flow": flow,
             "priority": PRIORITY, "cpid": cpid, "e": e, "capacity": capacity}
        )  # fmt: skip
        frames += [(now_ns + 5_000, station, flow, 1_500)] * (1 + follows)
    frames.sort()
    check_alone(machine, frames, given_messages, only=only, until_ns=now_ns + 100_000)


STACKS = {"": 0, "81000005": 0} | dict.fromkeys(
    ("81006005", "88a870058100e006", "8100600522e90001"), PRIORITY
)
"""The priority of frames with these headers."""
VLANS = {stack: 5 if stack.startswith("8100") else None for stack in STACKS} | {"88a870058100e006": 5}
FRAMES = st.tuples(
    st.sampled_from(sorted(STACKS)),
    st.integers(1, 2),  # the destination
    st.sampled_from(["none", "own", "other"]),  # whose RRT tag
    st.one_of(st.integers(60, 100_000), st.just(24_000)),
    st.sampled_from([SOURCE, SOURCE, SOURCE, GROUP, CP]),
)


def sampled(stack: str, destination: int, whose: str, source: bytes) -> bytes:
    cpid = CPIDS[STACKS[stack]] ^ (0 if whose == "own" else 1 << 40)
    tag = "" if whose == "none" else f"88b60100{cpid:016x}"
    return bytes([2, 0, 0, 0, 0, destination]) + source + bytes.fromhex(stack + tag + "9000") + bytes(80)


@settings(max_examples=80)
@given(
    frames=st.lists(FRAMES, min_size=1, max_size=12),
    payload=st.integers(24, 100),
    weight=st.sampled_from([0.125, 2.0, 8.0]),
    qscale=st.sampled_from([0.125, 1.0, 3.0]),
    rate_bps=st.sampled_from([999, 10**9, LINK, 10**14]),
    scaling=st.booleans(),
    hear=st.integers(1, 20_000),
)
def test_numbers_equal_the_frames_on_a_wire(
    frames: list[tuple[Any, ...]], payload: int, weight: float, qscale: float, rate_bps: int, scaling: bool,
    hear: int,
) -> None:  # fmt: skip
    for_cp: dict[str, Any] = {
        "fixed_octets": 0, "payload_octets": payload, "weight": weight, "qscale": qscale,
        "qsc_octets": 90_000, "enabled": frozenset(CPIDS),
    }  # fmt: skip
    for_rp: dict[str, Any] = {"limiters": 1, "capacity_scaling": scaling}
    machine, where = made("bcn", cp=for_cp, rp=for_rp), place(1, 8, rate_bps=rate_bps)
    point: Any = machine.congestion_point(where, np.random.default_rng(1))
    senders: Any = machine.senders(where, np.random.default_rng(2))
    outbox = new_outbox(1)
    # The same octet by octet.
    cp_parameters = BCNCongestionPointParameters(**for_cp)
    cp_settings, cp_generator = cp.settings_record(cp_parameters), np.random.default_rng(1)
    states = {priority: new_state(BCNPointState, cpid) for priority, cpid in CPIDS.items()}
    for state in states.values():
        start(state, cp_settings, cp_generator)
    rp_parameters = BCNReactionPointParameters(**for_rp)
    rp_settings, rp_generator = rp.settings_record(rp_parameters, LINK), np.random.default_rng(2)
    limiters = new_reaction_point(rp_parameters, rp_settings, 0)
    flows: dict[bytes, int] = {}
    now_ns = 0
    for stack, destination, whose, qlen, source in frames:
        now_ns += hear
        octets = sampled(stack, destination, whose, source)
        priority = STACKS[stack]
        flow = flows.setdefault(flow_of(octets, rp_parameters).key, len(flows))
        own_tag = tag_cpid(octets)
        arrive(
            point,
            Arrival(
                now_ns, 0, flow, priority, len(octets), True, source == SOURCE, True, own_tag != NO_CPID,
                own_tag, 0, qlen, qlen,
            ),
            outbox,
        )  # fmt: skip
        assert outbox.posted.count == 1
        outbox.posted.count = 0
        message = outbox.messages[0]
        assert count(states[priority], cp_settings, len(octets), qlen, True)
        feedback = cp.sample(states[priority], cp_settings, cp_generator, qlen, own_tag)
        assert (message.kind, bcn_payload(message).e) == (feedback.kind + KIND_OF_TYPE, feedback.e)
        assert (message.qoff_octets, message.qdelta_octets) == feedback[1:3]
        assert (message.station, message.flow, message.priority, message.time_ns) == (
            0,
            flow,
            priority,
            now_ns,
        )
        if feedback.kind == cp.SILENT:
            assert message.sent == 0
            continue
        frame = bcn_message(
            octets, feedback, capacity_bps=rate_bps, state=states[priority], cp_mac=CP,
            parameters=cp_parameters,
        )  # fmt: skip
        assert message.sent == (frame is not None)
        about = SampledFrame(octets, len(octets), 0)
        if frame is None:
            with pytest.raises(ValueError, match="receives no messages"):
                machine.frame(message, about, where)
            continue
        assert machine.frame(message, about, where) == frame
        # The reaction points handle both messages in the same way, or refuse both.
        deliver_message(senders, message, now_ns)
        found = read(frame, stations=(SOURCE,), point=limiters.point, parameters=rp_parameters)
        assert (found is None) == (rate_bps < 1_000 and scaling)
        parsed, refused = parse_frame(machine, frame, SOURCE, where)
        if found is None:
            assert (parsed, refused) == (None, {"malformed": 1})
            continue
        assert parsed is not None
        told = ("kind", "priority", "cpid", "e", "capacity")
        assert parsed.fields == {name: fields_of(message, machine.payloads)[name] for name in told}
        assert parsed.about == AboutFlow(octets[:6], VLANS[stack], priority)
        fields, key = found
        assert fields == (
            message.kind - KIND_OF_TYPE,
            bcn_payload(message).cpid,
            bcn_payload(message).e,
            bcn_payload(message).capacity,
        )
        assert (flows[key.key], key.priority) == (message.flow, message.priority)
        rp.receive(limiters, rp_settings, rp_generator, fields, flow, key.priority, now_ns)
    assert columns(senders.slots).tolist() == columns(limiters.slots).tolist()
    assert columns(senders.points).tolist() == [limiters.point.tolist()]  # type: ignore[attr-defined]
    for name, counted in machine.counters(point).items():
        assert counted == sum(int(getattr(state, name, 0)) for state in states.values())


def test_forged_messages_are_refused_and_counted() -> None:
    machine, message = made("bcn"), new_outbox(1).messages[0]
    message.kind, bcn_payload(message).e, bcn_payload(message).capacity = BCN_KIND, -5, 10**6
    bcn_payload(message).cpid = 1
    data = sampled("81006005", 1, "none", SOURCE)
    good = machine.frame(message, SampledFrame(data, len(data), 16), place())
    parsed, _ = parse_frame(machine, good, SOURCE, place())
    assert parsed is not None
    at = good.index(data[:12])
    about_another = good[: at + 6] + CP + good[at + 12 :]
    for octets, mac, reason in (
        (GROUP + good[6:], GROUP, "group_address"),
        (good, CP, "foreign_address"),
        (good, b"", "foreign_address"),
        (about_another, SOURCE, "foreign_address"),
        (good[: at + 23], SOURCE, "malformed"),
        (data, SOURCE, "malformed"),
    ):
        assert parse_frame(machine, octets, mac, place()) == (None, {reason: 1})


@settings(max_examples=50)
@given(
    st.integers(-(2**63), 2**63 - 1).map(lambda cpid: cpid & ~(1 << 56) or 1), st.sampled_from(sorted(STACKS))
)
def test_computed_rrt_tags_equal_inserted_ones(cpid: int, stack: str) -> None:
    machine = made("bcn")
    fields = machine.tags(np.array([cpid, 0]), np.array([0, 0]))
    values = {name: int(column[0]) for name, column in fields.items()}
    limiter = new_record(Limiter)
    limiter.cpid = cpid
    bare = sampled(stack, 1, "none", SOURCE)
    frame = tagged(bare, limiter, point=new_record(LimiterTable))
    at = 12 + len(stack) // 2
    packed = b"\x88\xb6" + RRTTag(**values, etype=0x9000).build()[:-2]
    assert frame == bare[:at] + packed + bare[at:]
    assert len(packed) == TAG_OCTETS
    assert tag_cpid(frame) == cpid
    found = decode(frame)[RRTTag]
    assert isinstance(machine.tag, TagFormat)
    assert machine.tag.format is RRTTag
    assert machine.tag.constants.get("protocol", 0) == found.protocol


def test_what_the_machine_says_of_itself() -> None:
    machine = made("bcn", cp={"qeq_octets": 30_000}, rp={"key_vlan": False, "limiters": 5})
    assert machine.flow_key == (False, True, True, False, False)
    assert machine.set_point_octets == 30_000
    assert machine.kinds == {BCN_KIND: "BCN", BCN_STOP_KIND: "BCN STOP"}
    assert machine.feedback_label == "e"
    assert machine.counters(made("none").senders(place(), np.random.default_rng(1))) == {}
    point = machine.congestion_point(place(), np.random.default_rng(1))
    assert point.next_timer_ns() == NEVER_NS
