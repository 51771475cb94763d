"""ECM's frames octet by octet (wire-formats 1.2 and 4); the expected octets are written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, LimiterTable
from ecmproto.control.mechanisms.ecm.congestion_point import REGULAR, ECMFeedback, ECMPointState
from ecmproto.control.mechanisms.ecm.parameters import (
    ECMCongestionPointParameters,
    ECMReactionPointParameters,
)
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import ECM, VLAN, CMTag, EtherTypes, STag, decode
from tests.mechanisms.aimd.station import new_state
from tests.mechanisms.ecm.frames import ecm_frame, read, tag_cpid, tagged, untagged

DA, SA, CP = "020000000001", "020000000002", "0200000000cc"
STATION = bytes.fromhex(SA)
CPID = 0xF200_0000_00CC_0004
PAYLOAD = "9000" + "45" * 80
CM_TAG = "88b6 0000 f2000000 00cc0004 1234 5000"
FEEDBACK = ECMFeedback(REGULAR, 6400, -1280, 100, -20, 0)


def sampled(header: str = "", payload: str = PAYLOAD) -> bytes:
    return bytes.fromhex((DA + SA + header + payload).replace(" ", ""))


def answer(frame: bytes, feedback: ECMFeedback = FEEDBACK, **options: Any) -> bytes | None:
    parameters = ECMCongestionPointParameters(**options)
    state = new_state(ECMPointState, CPID)
    found = ecm_frame(frame, feedback, state=state, cp_mac=bytes.fromhex(CP), parameters=parameters)
    assert state.unanswerable == (found is None)
    return found


def answered(frame: bytes, feedback: ECMFeedback = FEEDBACK, **options: Any) -> bytes:
    found = answer(frame, feedback, **options)
    assert found is not None
    return found


def test_an_ecm_frame_octet_by_octet() -> None:
    frame = sampled("8100 7123" + CM_TAG)
    assert answered(frame, ECMFeedback(REGULAR, 0, 0, 100, -20, 1)).hex() == (
        SA + CP
        + "8100" + "e123"  # priority 7, DEI 0, the VLAN id kept
        + "88b5" + "0800"  # version 0, Q, protocol 0, type 0
        + "f200000000cc0004" + "0064" + "ffec"  # CPID, Qoff, Qdelta
        + "1234" + "5000"  # timestamp and unit of the CM-Tag
        + frame[:48].hex()
    )  # fmt: skip


def test_an_untagged_frame_is_answered_untagged_without_timestamp() -> None:
    found = decode(answered(sampled()))
    assert [type(layer) for layer in found.layers[1:]] == [ECM]
    assert (found[ECM].timestamp, found[ECM].unit) == (0, 0)
    assert len(found[ECM].payload) == 48


def test_vlan_stack_is_copied_with_outer_priority_set() -> None:
    found = decode(answered(sampled("88a8 7005 22e9 0001 9100 b006" + CM_TAG), message_priority=5))
    assert [type(layer) for layer in found.layers[1:]] == [STag, VLAN, ECM]
    assert (found[STag].priority, found[STag].dei, found[STag].id) == (5, 0, 5)
    assert (found[VLAN].priority, found[VLAN].dei, found[VLAN].id) == (5, 1, 6)
    assert found[STag].etype == 0x9100
    assert found[ECM].timestamp == 0x1234


def test_the_sampled_frames_priority_can_be_kept() -> None:
    assert decode(answered(sampled("8100 7123"), keep_priority=True))[VLAN].priority == 3


@pytest.mark.parametrize(
    ("header", "payload", "asked", "octets"),
    [
        ("", PAYLOAD, 48, 48), ("", PAYLOAD, 24, 28), ("8100 0001", PAYLOAD, 24, 24),
        ("8100 0001", PAYLOAD, 60, 60), ("8100 0001", "0800", 48, 24), ("", "0800", 48, 28),
        ("", PAYLOAD, 1400, 94),
    ],
)  # fmt: skip
def test_payload_is_truncated_or_padded_to_its_minimum(
    header: str, payload: str, asked: int, octets: int
) -> None:
    frame = answered(sampled(header, payload), payload_octets=asked)
    assert len(decode(frame)[ECM].payload) == octets
    assert decode(frame)[ECM].payload == sampled(header, payload)[:octets].ljust(octets, b"\0")
    assert len(frame) >= 60
    assert len(frame) == 12 + 2 + 18 + len(header.replace(" ", "")) // 2 + octets


@pytest.mark.parametrize("source", ["030000000002", "ffffffffffff", CP])
def test_no_message_goes_to_group_or_to_generator(source: str) -> None:
    assert answer(bytes.fromhex(DA + source + PAYLOAD)) is None


def test_frame_without_captured_header_is_not_answered() -> None:
    for octets in range(14):
        assert answer(sampled()[:octets]) is None


def test_cpid_of_cm_tag_wherever_it_stands() -> None:
    for header in (
        CM_TAG,
        "8100 0001" + CM_TAG,
        CM_TAG + "8100 0001",
        "88a8 0001 8100 0002 22e9 0003" + CM_TAG,
    ):
        assert tag_cpid(sampled(header)) == CPID - 2**64
    assert tag_cpid(sampled("8100 0001")) == 0
    assert tag_cpid(sampled(CM_TAG.replace("88b6 0000", "88b6 0200"))) == 0  # E²CM's


def test_cm_tag_needs_all_its_octets_captured() -> None:
    whole = 12 + 4 + 16
    frame = sampled("8100 0001" + CM_TAG)
    assert tag_cpid(frame[:whole]) == CPID - 2**64
    assert tag_cpid(frame[: whole - 1]) == 0


def received(
    frame: bytes, point: LimiterTable | None = None, **options: Any
) -> tuple[ECMFields, bytes, int] | None:
    found = read(
        frame,
        stations=(STATION,),
        point=new_record(LimiterTable) if point is None else point,
        parameters=ECMReactionPointParameters(**options),
    )
    return None if found is None else (found[0], found[1].key, found[1].priority)


def test_a_message_reads_back_with_its_flow() -> None:
    found = received(answered(sampled("8100 7123" + CM_TAG)))
    assert found == (
        ECMFields(CPID - 2**64, 100, -20, 0, 0x1234, 5, True), bytes.fromhex("0123" + DA + SA + "03"), 3
    )  # fmt: skip
    found = received(answered(sampled()))
    assert found == (
        ECMFields(CPID - 2**64, 100, -20, 0, 0, 0, False),
        bytes.fromhex("ffff" + DA + SA + "00"),
        0,
    )


def test_payload_of_24_octets_hides_the_cm_tag() -> None:
    found = received(answered(sampled("8100 7123" + CM_TAG), payload_octets=24))
    assert found is not None
    assert (found[0].tagged, found[0].timestamp) == (False, 0x1234)


def test_payload_of_32_octets_shows_the_cm_tag() -> None:
    for octets, shown in ((31, False), (32, True)):
        found = received(answered(sampled("8100 7123" + CM_TAG), payload_octets=octets))
        assert found is not None
        assert found[0].tagged == shown


@pytest.mark.parametrize(
    ("at", "value", "counter"),
    [
        (0, 0x03, "group_address"),
        (5, 0x99, "foreign_address"),  # to another station
        (12 + 2 + 18 + 11, 0x99, "foreign_address"),  # about another station's frame
        (14, 0x01, "malformed"),  # a BCN message
        (13, 0xB6, "malformed"),  # not a message at all
    ],
)
def test_misaddressed_and_malformed_messages_are_counted(at: int, value: int, counter: str) -> None:
    frame = bytearray(answered(sampled()))
    frame[at] = value
    point = new_record(LimiterTable)
    assert received(bytes(frame), point) is None
    assert getattr(point, counter) == 1


def test_every_truncation_is_refused_and_counted_or_read() -> None:
    frame = answered(sampled("8100 7123"))
    point = new_record(LimiterTable)
    refused = sum(received(frame[:octets], point) is None for octets in range(len(frame)))
    assert refused == point.malformed + point.foreign_address + point.group_address == 18 + 18 + 24


def test_later_version_is_read_as_version_0() -> None:
    frame = bytearray(answered(sampled()))
    frame[14] |= 0xF0
    assert received(bytes(frame)) == received(answered(sampled()))


def limiter(cpid: int = CPID) -> Limiter:
    record = new_record(Limiter)
    record.cpid = cpid - 2**64 if cpid >> 63 else cpid
    return record


def tag(frame: bytes, point: LimiterTable | None = None, **options: Any) -> bytes:
    record = new_record(LimiterTable) if point is None else point
    return tagged(frame, limiter(), point=record, timestamp=0x1234, unit=5, **options)


@pytest.mark.parametrize(
    ("before", "after", "behind"),
    [
        ("", "", PAYLOAD), ("8100 0001", "", PAYLOAD), ("88a8 0001 8100 0002 22e9 0003", "", PAYLOAD),
        # Another protocol's tag remains after the newer tag.
        ("8100 0001", "88b6 0100 0202030405060708", PAYLOAD),
        # An 802.3 length counts the octets after it, and precedes these octets.
        ("8100 0001", "", "0003424203" + "00" * 43),
    ],
)  # fmt: skip
def test_rule_9_tag_follows_vlan_and_cn_tags(before: str, after: str, behind: str) -> None:
    frame = sampled(before + after, behind)
    assert tag(frame) == sampled(before + CM_TAG + after, behind)
    assert untagged(tag(frame)) == frame
    assert decode(tag(frame))[CMTag].cpid == CPID


def test_rule_9_older_tag_is_replaced_and_counted() -> None:
    point = new_record(LimiterTable)
    older = "88b6 0000 0202030405060708 0001 0000"
    assert tag(sampled("8100 0001" + older), point) == sampled("8100 0001" + CM_TAG)
    assert tag(sampled(older + "8100 0001" + older), point) == sampled("8100 0001" + CM_TAG)
    assert point.replaced_tags == 3


def test_truncated_frames_can_be_tagged_and_untagged() -> None:
    frame = sampled("88a8 0001 8100 0002")
    for octets in range(14, len(frame)):
        assert untagged(tag(frame[:octets])) == frame[:octets]
    assert tag(frame[:13]) == frame[:13]


def test_other_ethertypes_are_used_throughout() -> None:
    ethertypes = EtherTypes(message=0x9ABC, tag=0x9ABD)
    frame = tag(sampled("8100 7123"), ethertypes=ethertypes)
    assert frame[16:18].hex() == "9abd"
    state = new_state(ECMPointState, CPID)
    found = ecm_frame(
        frame, FEEDBACK, state=state, cp_mac=bytes.fromhex(CP), parameters=ECMCongestionPointParameters(),
        ethertypes=ethertypes,
    )  # fmt: skip
    assert found is not None
    assert decode(found, ethertypes=ethertypes)[ECM].timestamp == 0x1234
    again = read(
        found, stations=(STATION,), point=new_record(LimiterTable), parameters=ECMReactionPointParameters(),
        ethertypes=ethertypes,
    )  # fmt: skip
    assert again is not None
    assert again[0].tagged
