"""QCN's values, compared with frames made of octets; replay tests cover the loop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import AboutFlow, Machine, PortContext, SampledFrame, machine_of
from ecmproto.control.mechanisms.api.protocol import Message, signed_cpid
from ecmproto.control.mechanisms.qcn.congestion_point import CNM_KIND, cnm_payload
from ecmproto.control.mechanisms.qcn.parameters import QCN
from ecmproto.control.mechanisms.qcn.reaction_point import LAST_FLOW_ID
from ecmproto.kernels.record import new_record
from tests.mechanisms.parsing import parse_frame

OWN, DST = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
PLACE = PortContext(
    rate_bps=10**10, link_rate_bps=10**10, cp_mac=bytes.fromhex("8200000000cc"), stations=2, flows=4
)
CPID = 0x8200_0000_00CC_0004
PRIORITY = 3
STACKS = {"": None, "81006005": 5, "88a8600781006005": 7, "81006000": 0}
"""VLAN tags, and the identifier in the outermost."""


def machine() -> Machine:
    return machine_of(QCN, {})


def cnm(
    *,
    qntz_fb: int = 31,
    qoff: int = 640,
    qdelta: int = -128,
    stack: str = "81006005",
    flow_id: int | None = 7,
    length: int = 1500,
) -> bytes:
    """Return a CNM about a frame with these tags. The first 120 octets of the frame were captured."""
    message = new_record(Message)
    message.kind, message.priority, cnm_payload(message).qntz_fb = CNM_KIND, PRIORITY, qntz_fb
    message.qoff_octets, message.qdelta_octets = qoff, qdelta
    tags = bytes.fromhex(stack) + (b"" if flow_id is None else b"\x22\xe9" + flow_id.to_bytes(2))
    octets = DST + OWN + tags + b"\x08\x00" + b"\x45" * 120
    return machine().frame(message, SampledFrame(octets, length, 12 + len(tags)), PLACE)


@given(
    st.integers(1, 63),
    st.integers(-(2**14), 2**14),
    st.integers(-(2**15), 2**15 - 1),
    st.sampled_from(sorted(STACKS)),
    st.one_of(st.none(), st.integers(0, 0xFFFF)),
)
def test_cnm_is_parsed_as_message_that_it_is(
    qntz_fb: int, qoff: int, qdelta: int, stack: str, flow_id: int | None
) -> None:
    octets = cnm(qntz_fb=qntz_fb, qoff=64 * qoff, qdelta=64 * qdelta, stack=stack, flow_id=flow_id)
    parsed, counted = parse_frame(machine(), octets, OWN, PLACE)
    assert counted == {"taken_cnms": 1}
    assert parsed is not None
    assert parsed.fields == {
        "kind": CNM_KIND,
        "priority": PRIORITY,
        "cpid": signed_cpid(CPID),
        "qntz_fb": qntz_fb,
        "qoff_octets": 64 * qoff,
        "qdelta_octets": 64 * qdelta,
    }
    assert parsed.about == AboutFlow(
        destination=DST,
        vlan=STACKS[stack],
        priority=PRIORITY,
        cn_flow=flow_id or 0,
        given=LAST_FLOW_ID - flow_id if flow_id else None,
    )


def test_queue_lengths_are_parsed_in_whole_units() -> None:
    parsed, _ = parse_frame(machine(), cnm(qoff=6_463, qdelta=-127), OWN, PLACE)
    assert parsed is not None
    assert (parsed.fields["qoff_octets"], parsed.fields["qdelta_octets"]) == (6_400, -64)


def test_parser_passes_on_quantized_feedback_of_zero() -> None:
    good = cnm(qntz_fb=31)
    at = good.index(bytes.fromhex("22e7")) + 2
    parsed, _ = parse_frame(
        machine(), good[: at + 1] + bytes([good[at + 1] & 0xC0]) + good[at + 2 :], OWN, PLACE
    )
    assert parsed is not None
    assert parsed.fields["qntz_fb"] == 0


def lying(length: int) -> bytes:
    good = cnm()
    at = good.index(bytes.fromhex("22e7")) + 2 + 22
    assert good[at : at + 2] == b"\x00\x40"
    return good[:at] + length.to_bytes(2) + good[at + 2 :]


@pytest.mark.parametrize(
    ("octets", "mac", "reason"),
    [
        (b"\x03" + cnm()[1:], OWN, "group_cnms"),
        (b"\xff" * 6 + cnm()[6:], OWN, "group_cnms"),
        (cnm(), DST, "foreign_cnms"),
        (cnm(), b"", "foreign_cnms"),
        (cnm()[:40], OWN, "short_cnms"),
        (lying(65), OWN, "long_msdu_cnms"),
        (cnm()[:-1], OWN, "lying_msdu_cnms"),
        (OWN + DST + b"\x88\xb5" + bytes(60), OWN, "not_cnms"),
    ],
)
def test_forged_cnms_are_refused_and_counted(octets: bytes, mac: bytes, reason: str) -> None:
    assert parse_frame(machine(), octets, mac, PLACE) == (None, {reason: 1})


def test_cnm_that_snap_length_cut_is_parsed() -> None:
    octets = cnm()
    parsed, _ = parse_frame(machine(), octets[:64], OWN, PLACE, length_octets=len(octets))
    assert parsed is not None
    assert parsed.fields["qntz_fb"] == 31
