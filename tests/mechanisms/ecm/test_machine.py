"""ECM through the protocol: a closed loop, and numbers that equal frames on a wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.congestion_point import count, ecm_payload, start
from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, LimiterTable
from ecmproto.control.mechanisms.api.machine import AboutFlow, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    NO_CPID,
    NO_LIMITER,
    SILENT,
    Arrival,
    fields_of,
    messages_of,
    new_outbox,
)
from ecmproto.control.mechanisms.ecm import congestion_point as cp
from ecmproto.control.mechanisms.ecm import reaction_point as rp
from ecmproto.control.mechanisms.ecm.congestion_point import (
    ECM_KIND,
    ECM_MAX_KIND,
    ECM_ZERO_KIND,
    ECMPointState,
)
from ecmproto.control.mechanisms.ecm.parameters import (
    ECMCongestionPointParameters,
    ECMReactionPointParameters,
)
from ecmproto.control.mechanisms.ecm.reaction_point import TAG_OCTETS
from ecmproto.kernels.record import columns, new_record
from ecmproto.wire.codec import CMTag, decode
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
from tests.mechanisms.ecm import machine_run
from tests.mechanisms.ecm.frames import ecm_frame, read, tag_cpid, tagged
from tests.mechanisms.parsing import parse_frame

SOURCE = bytes.fromhex("020000000002")
GROUP = bytes.fromhex("030000000002")
OLD_TAG = -7
CPIDS = {priority: int.from_bytes(CP) << 16 | priority + 1 for priority in (0, PRIORITY)}


def test_compiled_and_plain_run_the_same_loop() -> None:
    own = machine_run.run()
    assert sum("restarts" in line for line in own) == 1
    assert "\n".join(own) + "\n" == output_in_other_mode(machine_run.__name__)


def test_limited_flow_tags_frames_and_gets_increases() -> None:
    machine = made("ecm", cp={"fixed_octets": 0, "qeq_octets": 3_000}, rp={"timestamp_unit": 1})
    frames = [
        (0, 0, 0, 1_500), (1, 0, 0, 1_500), (2, 1, 2, 1_500),
        (10_000, 1, 2, 1_500), (10_100, 1, 2, 1_500, OLD_TAG), (10_200, 1, 3, 1_500, OLD_TAG),
    ]  # fmt: skip
    outcome = drive(machine, frames, where=place(2, 4), until_ns=13_000)
    found = [
        (message.time_ns, message.kind, message.station, message.flow, message.qlen_octets,
         message.fb_octets, ecm_payload(message).tagged, ecm_payload(message).timestamp,
         ecm_payload(message).unit)
        for message in outcome.messages
    ]  # fmt: skip
    assert found[:4] == [
        # No tag, and no more than the set point: nothing to say.
        (0, SILENT, 0, 0, 1_500, 1_500 - 2 * 1_500, 0, 0, 0),
        (1, SILENT, 0, 0, 3_000, -2 * 1_500, 0, 0, 0),
        # The next is too much.
        (2, ECM_KIND, 1, 2, 4_500, -1_500 - 2 * 1_500, 0, 0, 0),
        # The flow has a limiter now: its next frame names the congestion point, and may hear good news.
        (10_000, ECM_KIND, 1, 2, 1_516, 1_484 + 2 * 2_984, 1, 5, 1),
    ]
    cpid = CPIDS[PRIORITY]
    results = columns(outcome.results)[["left_ns", "limiter", "octets", "tagged", "tag", "mark"]].tolist()
    assert results[2:] == [
        (2, NO_LIMITER, 1_500, 0, 0, 0),
        (10_000, 0, 1_516, 1, cpid, 1 << 16 | 5),
        # At C/2, the 1516 octets of this frame take 2425.6 ns.  The tag of the frame is replaced …
        (12_426, 0, 1_500, 1, cpid, 1 << 16 | 6),
        # … and a frame without a limiter keeps its tag.
        (10_200, NO_LIMITER, 1_500, 1, OLD_TAG, 0),
    ]
    assert outcome.senders.limit_bps(1, 0) == LINK / 2
    counted = machine.counters(outcome.senders)
    assert (counted["messages"], counted["allocated"], counted["replaced_tags"]) == (1, 1, 1)


def test_frame_releasing_its_limiter_keeps_its_tag() -> None:
    machine = made("ecm", cp={"enabled": frozenset()})
    message = {
        "sent": 1, "kind": ECM_KIND, "station": 1, "flow": 2, "priority": PRIORITY, "cpid": 9, "q_off": 1
    }  # fmt: skip
    # The limiter is at C/2 by the first message, at C by the second, and of no use when the frame has left.
    outcome = drive(
        machine,
        [(10_000, 1, 2, 1_500), (20_000, 1, 2, 1_500)],
        until_ns=30_000,
        given=[message, message | {"q_off": -10_000}],
    )
    assert columns(outcome.results)[["limiter", "tagged", "tag"]].tolist() == [
        (0, 1, 9),
        (NO_LIMITER, 0, 0),
    ]
    assert machine.counters(outcome.senders)["released"] == 1


def test_message_for_an_unknown_station_is_ignored() -> None:
    senders: Any = made("ecm").senders(place(), np.random.default_rng(1))
    before = columns(senders.slots).tolist(), columns(senders.points).tolist()
    (message,) = messages_of([{"kind": ECM_KIND, "q_off": 100}], made("ecm").payloads)
    # Its last station is where −1 would lead.
    message.station, message.priority = -1, PRIORITY
    deliver_message(senders, message, 5)
    assert (columns(senders.slots).tolist(), columns(senders.points).tolist()) == before
    message.station = 2
    deliver_message(senders, message, 5)
    assert columns(senders.points)["allocated"].tolist() == [0, 0, 1]


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 3), st.integers(0, 20_000), st.integers(-200, 200),
        st.integers(1, 200), st.integers(1, 2), st.booleans(),
    ),
    min_size=1,
    max_size=30,
)  # fmt: skip


@settings(max_examples=40)
@given(EVENTS, st.integers(0, 2))
def test_stations_do_not_disturb_each_other(events: list[tuple[int, ...]], only: int) -> None:
    machine = made("ecm", cp={"enabled": frozenset()}, rp={"limiters": 2})
    frames, given_messages, now_ns = [], [], 0
    for station, flow, gap_ns, q_off, q_delta, cpid, follows in events:
        now_ns += gap_ns
        given_messages.append(
            {"time_ns": now_ns, "sent": 1, "kind": ECM_KIND, "station": station, "flow": flow,
             "priority": PRIORITY, "cpid": cpid, "q_off": q_off, "q_delta": q_delta}
        )  # fmt: skip
        frames += [(now_ns + 5_000, station, flow, 1_500)] * (1 + follows)
    frames.sort()
    check_alone(machine, frames, given_messages, only=only, until_ns=now_ns + 100_000)


STACKS = {
    "": 0,
    "81000005": 0,
    "81006005": PRIORITY,
    "88a870058100e006": PRIORITY,
    "8100600522e90001": PRIORITY,
}
VLANS = {"": None, "81000005": 5, "81006005": 5, "88a870058100e006": 5, "8100600522e90001": 5}
FRAMES = st.tuples(
    st.sampled_from(sorted(STACKS)),
    st.integers(1, 2),  # the destination
    st.sampled_from(["none", "own", "other"]),  # whose CM-Tag
    st.integers(0, 0xFFFF),
    st.integers(0, 15),
    st.one_of(st.integers(60, 100_000), st.just(24_000)),
    st.sampled_from([SOURCE, SOURCE, SOURCE, GROUP, CP]),
)


def sampled(stack: str, destination: int, whose: str, stamp: int, unit: int, source: bytes) -> bytes:
    cpid = CPIDS[STACKS[stack]] ^ (0 if whose == "own" else 1 << 40)
    tag = "" if whose == "none" else f"88b60000{cpid:016x}{stamp:04x}{unit << 12:04x}"
    return bytes([2, 0, 0, 0, 0, destination]) + source + bytes.fromhex(stack + tag + "9000") + bytes(80)


@settings(max_examples=80, deadline=None)
@given(
    frames=st.lists(FRAMES, min_size=1, max_size=12),
    payload=st.integers(24, 100),
    q_bit=st.booleans(),
    weight=st.sampled_from([0.125, 2.0, 8.0]),
    qscale=st.sampled_from([0.125, 1.0, 3.0]),
    qmc=st.sampled_from([0, 60_000]),
    hear=st.integers(1, 20_000),
)
def test_numbers_equal_the_frames_on_a_wire(
    frames: list[tuple[Any, ...]],
    payload: int,
    q_bit: bool,
    weight: float,
    qscale: float,
    qmc: int,
    hear: int,
) -> None:
    for_cp: dict[str, Any] = {
        "fixed_octets": 0, "payload_octets": payload, "q_bit": q_bit, "qscale": qscale, "qmc_octets": qmc,
        "qsc_octets": 90_000, "enabled": frozenset(CPIDS),
    }  # fmt: skip
    for_rp: dict[str, Any] = {"weight": weight, "limiters": 1}
    machine, where = made("ecm", cp=for_cp, rp=for_rp), place(1, 8)
    point: Any = machine.congestion_point(where, np.random.default_rng(1))
    senders: Any = machine.senders(where, np.random.default_rng(2))
    outbox = new_outbox(1)
    # The same octet by octet.
    cp_parameters = ECMCongestionPointParameters(**for_cp)
    cp_settings, cp_generator = cp.settings_record(cp_parameters), np.random.default_rng(1)
    states = {priority: new_state(ECMPointState, cpid) for priority, cpid in CPIDS.items()}
    for state in states.values():
        start(state, cp_settings, cp_generator)
    rp_parameters = ECMReactionPointParameters(**for_rp)
    rp_settings, rp_generator = rp.settings_record(rp_parameters, LINK), np.random.default_rng(2)
    limiters = new_reaction_point(rp_parameters, rp_settings, 0)
    flows: dict[bytes, int] = {}
    now_ns = 0
    for stack, destination, whose, stamp, unit, qlen, source in frames:
        now_ns += hear
        octets = sampled(stack, destination, whose, stamp, unit, source)
        priority = STACKS[stack]
        flow = flows.setdefault(flow_of(octets, rp_parameters).key, len(flows))
        own_tag = tag_cpid(octets)
        has_tag = own_tag != NO_CPID
        arrive(
            point,
            Arrival(
                now_ns, 0, flow, priority, len(octets), True, source == SOURCE, True, has_tag, own_tag,
                unit << 16 | stamp if has_tag else 0, qlen, qlen,
            ),
            outbox,
        )  # fmt: skip
        assert outbox.posted.count == 1
        outbox.posted.count = 0
        message = outbox.messages[0]
        assert count(states[priority], cp_settings, len(octets), qlen, True)
        feedback = cp.sample(states[priority], cp_settings, cp_generator, qlen, own_tag)
        assert (message.kind, message.qoff_octets, message.qdelta_octets) == feedback[:3]
        assert (message.station, message.flow, message.priority, message.time_ns) == (
            0,
            flow,
            priority,
            now_ns,
        )
        if feedback.kind == SILENT:
            assert message.sent == 0
            continue
        frame = ecm_frame(octets, feedback, state=states[priority], cp_mac=CP, parameters=cp_parameters)
        assert message.sent == (frame is not None)
        about = SampledFrame(octets, len(octets), 0)
        if frame is None:
            with pytest.raises(ValueError, match="receives no messages"):
                machine.frame(message, about, where)
            continue
        assert machine.frame(message, about, where) == frame
        found = read(frame, stations=(SOURCE,), point=limiters.point, parameters=rp_parameters)
        assert found is not None
        fields, key = found
        same = ("cpid", "q_off", "q_delta", "q", "timestamp", "unit")
        assert [fields_of(message, machine.payloads)[name] for name in same] == [
            getattr(fields, name) for name in same
        ]
        # The congestion point does not know the number of tags before a CM-Tag, and takes the tag for a
        # CM-Tag.
        shown = has_tag and payload >= 32
        assert ecm_payload(message).tagged == shown
        assert fields.tagged == shown or (len(stack) != len("81006005") and payload < 36)
        assert (flows[key.key], key.priority) == (message.flow, message.priority)
        parsed, refused = parse_frame(machine, frame, SOURCE, where)
        assert refused == {}
        assert parsed is not None
        assert {name: parsed.fields[name] for name in same} == {
            name: fields_of(message, machine.payloads)[name] for name in same
        }
        assert parsed.fields["priority"] == message.priority
        assert parsed.fields["tagged"] == fields.tagged
        assert parsed.fields["kind"] == (ECM_KIND if message.kind == ECM_MAX_KIND else message.kind)
        assert parsed.about == AboutFlow(octets[:6], VLANS[stack], priority)
        # The reaction points handle both frames in the same way.
        deliver_message(senders, message, now_ns)
        rp.receive(
            limiters, rp_settings, rp_generator, fields._replace(tagged=shown), flow, key.priority, now_ns
        )
    assert columns(senders.slots).tolist() == columns(limiters.slots).tolist()
    assert columns(senders.points).tolist() == [limiters.point.tolist()]  # type: ignore[attr-defined]
    for name, counted in machine.counters(point).items():
        assert counted == sum(getattr(state, name) for state in states.values())


def test_forged_messages_are_refused_and_counted() -> None:
    machine, message = made("ecm"), new_outbox(1).messages[0]
    message.kind, ecm_payload(message).q_off, ecm_payload(message).q_delta = ECM_KIND, 100, 200
    ecm_payload(message).cpid = 1
    data = sampled("81006005", 1, "none", 0, 0, SOURCE)
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


@pytest.mark.parametrize(
    ("qlen", "kind", "fb"),
    [
        (24_640, ECM_KIND, -640 - 2 * 24_640),
        (61_000, ECM_MAX_KIND, -5 * 24_000),
        (90_001, ECM_ZERO_KIND, -5 * 24_000),
    ],
)
def test_feedback_at_full_clamp(qlen: int, kind: int, fb: float) -> None:
    machine = made("ecm", cp={"fixed_octets": 0, "qmc_octets": 60_000, "qsc_octets": 90_000})
    outbox = new_outbox(1)
    point: Any = machine.congestion_point(place(), np.random.default_rng(1))
    # Of a station that is not known.
    arrive(point, Arrival(0, -1, -1, 3, 60, True, True, False, False, 0, 0, qlen, qlen), outbox)
    message = outbox.messages[0]
    assert (message.kind, message.fb_octets, message.station, message.sent) == (kind, fb, -1, 1)
    # What may not be sampled does not count.
    arrive(point, Arrival(0, 0, 0, 3, 60, False, True, True, False, 0, 0, qlen, qlen), outbox)
    assert outbox.posted.count == 1


@settings(max_examples=50)
@given(
    st.integers(-(2**63), 2**63 - 1).map(lambda cpid: cpid & ~(1 << 56) or 1),
    st.integers(0, 0xFFFF),
    st.integers(0, 15),
    st.sampled_from(sorted(STACKS)),
)
def test_computed_cm_tags_equal_inserted_ones(cpid: int, stamp: int, unit: int, stack: str) -> None:
    machine = made("ecm")
    fields = machine.tags(np.array([cpid, 0]), np.array([unit << 16 | stamp, 0]))
    values = {name: int(column[0]) for name, column in fields.items()}
    limiter = new_record(Limiter)
    limiter.cpid = cpid
    bare = sampled(stack, 1, "none", 0, 0, SOURCE)
    frame = tagged(bare, limiter, point=new_record(LimiterTable), timestamp=stamp, unit=unit)
    at = 12 + len(stack) // 2
    packed = b"\x88\xb6" + CMTag(**values, etype=0x9000).build()[:-2]
    assert frame == bare[:at] + packed + bare[at:]
    assert len(packed) == TAG_OCTETS
    assert tag_cpid(frame) == cpid
    found = decode(frame)[CMTag]
    assert isinstance(machine.tag, TagFormat)
    assert machine.tag.format is CMTag
    assert machine.tag.constants.get("protocol", 0) == found.protocol


def test_what_the_machine_says_of_itself() -> None:
    machine = made("ecm", cp={"qeq_octets": 30_000}, rp={"key_dst": False, "limiters": 5})
    assert machine.flow_key == (True, False, True, False, False)
    assert machine.set_point_octets == 30_000
    assert machine.kinds == {ECM_KIND: "ECM", ECM_MAX_KIND: "ECM-Max", ECM_ZERO_KIND: "ECM(0,0)"}
    assert machine.feedback_label == "Fb"
    assert not machine.answers
    assert machine.counters(made("none").senders(place(), np.random.default_rng(1))) == {}
    # No more fine limiters than flows.
    assert machine.senders(place(1, 2), np.random.default_rng(1)).limiters() == 2 + 8
    assert machine.senders(place(1, 9), np.random.default_rng(1)).limiters() == 5 + 8
