"""BCN's frames octet by octet (wire-formats 1.2 and 5); the expected octets are written by hand."""

from __future__ import annotations

import pytest

from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, LimiterTable
from ecmproto.control.mechanisms.bcn.congestion_point import BCNFeedback, BCNPointState
from ecmproto.control.mechanisms.bcn.parameters import (
    BCNCongestionPointParameters,
    BCNReactionPointParameters,
)
from ecmproto.control.mechanisms.bcn.reaction_point import BCNFields
from ecmproto.kernels.record import new_record
from ecmproto.wire.formats.bcn import NORMAL, STOP
from tests.mechanisms.aimd.station import new_state
from tests.mechanisms.bcn.frames import bcn_message, read, tag_cpid, tagged, untagged

DA, SA, CP = "020000000001", "020000000002", "0200000000cc"
CPID = 0x0200_0000_00CC_0004
PAYLOAD = "9000" + "45" * 80
RRT_TAG = "88b6 0100 0200000000cc0004"


def sampled(header: str = "") -> bytes:
    return bytes.fromhex((DA + SA + header + PAYLOAD).replace(" ", ""))


def answered(frame: bytes, kind: int = NORMAL, e: int = -75, capacity_bps: int = 10_000_000_999) -> bytes:
    found = bcn_message(
        frame, BCNFeedback(kind, 0, 0, 0, e), capacity_bps=capacity_bps, state=new_state(BCNPointState, CPID),
        cp_mac=bytes.fromhex(CP), parameters=BCNCongestionPointParameters(),
    )  # fmt: skip
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "e", "word", "field"), [(NORMAL, -75, "0100", "ffffffb5"), (STOP, 0, "0110", "00000000")]
)
def test_a_bcn_message_octet_by_octet(kind: int, e: int, word: str, field: str) -> None:
    frame = sampled("8100 7123" + RRT_TAG)
    assert answered(frame, kind, e).hex() == (
        SA + CP + "8100" + "e123" + "88b5" + word + "0200000000cc0004" + field
        + "00989680"  # 10 000 000 kb/s
        + frame[:48].hex()
    )  # fmt: skip


def test_a_capacity_beyond_the_field_saturates() -> None:
    assert answered(sampled(), capacity_bps=10**16)[28:32].hex() == "ffffffff"


def test_no_message_goes_to_a_group() -> None:
    state = new_state(BCNPointState, CPID)
    frame = bytes.fromhex(DA + "030000000002" + PAYLOAD)
    found = bcn_message(
        frame, BCNFeedback(STOP, 0, 0, 0, 0), capacity_bps=10**10, state=state, cp_mac=bytes.fromhex(CP),
        parameters=BCNCongestionPointParameters(),
    )  # fmt: skip
    assert found is None
    assert state.unanswerable == 1


def received(frame: bytes, point: LimiterTable, *, scaling: bool = True) -> BCNFields | None:
    parameters = BCNReactionPointParameters(capacity_scaling=scaling)
    found = read(frame, stations=(bytes.fromhex(SA),), point=point, parameters=parameters)
    return None if found is None else found[0]


def test_a_message_reads_back() -> None:
    point = new_record(LimiterTable)
    assert received(answered(sampled()), point) == BCNFields(NORMAL, CPID, -75, 10_000_000)
    assert received(answered(sampled(), STOP, 0), point) == BCNFields(STOP, CPID, 0, 10_000_000)


def test_message_without_capacity_is_malformed_where_capacity_counts() -> None:
    point = new_record(LimiterTable)
    frame = answered(sampled(), capacity_bps=0)
    assert received(frame, point) is None
    assert point.malformed == 1
    assert received(frame, point, scaling=False) == BCNFields(NORMAL, CPID, -75, 0)


@pytest.mark.parametrize(
    ("at", "value", "counter"),
    [(0, 0x03, "group_address"), (5, 0x99, "foreign_address"), (14, 0, "malformed")],
)
def test_foreign_group_and_malformed_messages_are_refused(at: int, value: int, counter: str) -> None:
    frame = bytearray(answered(sampled()))
    frame[at] = value
    point = new_record(LimiterTable)
    assert received(bytes(frame), point) is None
    assert getattr(point, counter) == 1


def test_rrt_tag_follows_vlan_tags_until_the_edge() -> None:
    limiter = new_record(Limiter)
    limiter.cpid = CPID
    point = new_record(LimiterTable)
    frame = sampled("88a8 0001 22e9 0003")
    once = tagged(frame, limiter, point=point)
    assert once == sampled("88a8 0001 22e9 0003" + RRT_TAG)
    assert tag_cpid(once) == CPID
    assert tag_cpid(frame) == 0
    assert tagged(once, limiter, point=point) == once
    assert point.replaced_tags == 1
    assert untagged(once) == frame
    assert untagged(frame) == frame


def test_the_edge_leaves_tags_of_other_protocols_alone() -> None:
    cm_tag = "88b6 0000 0202030405060708 0001 0000"
    assert untagged(sampled(RRT_TAG + cm_tag)) == sampled(cm_tag)
