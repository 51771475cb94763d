"""The CNM for a sampled frame (wire-formats 1.2 and 3); the expected octets are written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ecmproto.control.mechanisms.api.machine import SampledFrame
from ecmproto.control.mechanisms.qcn.messages import notification
from ecmproto.control.mechanisms.qcn.parameters import QCNCongestionPointParameters
from ecmproto.wire.codec import CNM, VLAN, CNTag, Ethernet, EtherTypes, STag, decode
from ecmproto.wire.formats.text import cpid

DA = "020000000001"
SA = "020000000002"
CP = bytes.fromhex("0200000000cc")
PAYLOAD = "0800" + "45" * 80


def cnm_for(header: str, *, payload: str = PAYLOAD, length: int | None = None, **options: Any) -> bytes:
    """Return the CNM for DA SA ``header`` ``payload``; the MSDU starts at ``payload``."""
    octets = bytes.fromhex(DA + SA + header.replace(" ", "") + payload)
    sampled = SampledFrame(octets, length or len(octets), 12 + len(header.replace(" ", "")) // 2)
    found = {"priority": 3, "qntz_fb": 31, "qoff_octets": 4_000, "qdelta_octets": -30_000} | options
    found.setdefault("parameters", QCNCongestionPointParameters())
    return notification(sampled, cpid=cpid(CP, 4), cp_mac=CP, **found)


def test_a_cnm_octet_by_octet() -> None:
    assert cnm_for("8100 7123 22e9 beef").hex() == (
        SA + CP.hex()
        + "8100" + "c123"  # priority 6, DEI 0, the VLAN id kept
        + "22e9" + "beef"  # CN-TAG copied
        + "22e7" + "001f"  # version 0, reserved 0, quantized feedback 31
        + "0200000000cc" + "0004"  # CPID: MAC and local identifier
        + "ffc2"  # Qeq − Qlen = −4000 octets = −62 units, truncated toward zero
        + "fe2c"  # Qdelta = −30000 octets = −468 units
        + "6000" + DA + "0040" + PAYLOAD[:128]
    )  # fmt: skip


def test_frame_without_cn_tag_gives_flow_0() -> None:
    frame = decode(cnm_for("", priority=0))
    assert [type(layer) for layer in frame.layers] == [Ethernet, CNTag, CNM]
    assert frame[CNTag].flow_id == 0
    assert frame[CNM].encap_prio == 0


def test_vlan_stack_is_copied_with_outer_priority_set() -> None:
    frame = decode(cnm_for("88a8 7005 8100 b006 22e9 0001"))
    assert frame[Ethernet].type == 0x88A8
    assert (frame[STag].priority, frame[STag].dei, frame[STag].id) == (6, 0, 5)
    assert (frame[VLAN].priority, frame[VLAN].dei, frame[VLAN].id) == (5, 1, 6)
    assert frame[CNTag].flow_id == 1


def test_experimental_tags_are_omitted_and_order_restored() -> None:
    cm_tag = "88b6 0000 0202030405060708 0000 0000"
    frame = decode(cnm_for(f"{cm_tag} 22e9 0009 8100 2007"))
    assert [type(layer) for layer in frame.layers] == [Ethernet, VLAN, CNTag, CNM]
    assert (frame[VLAN].id, frame[CNTag].flow_id) == (7, 9)


def test_the_fields_saturate_at_16_bits() -> None:
    high = decode(cnm_for("", qoff_octets=10**9, qdelta_octets=10**9))[CNM]
    low = decode(cnm_for("", qoff_octets=-(10**9), qdelta_octets=-(10**9)))[CNM]
    assert (high.q_offset, high.q_delta) == (-32_768, 32_767)
    assert (low.q_offset, low.q_delta) == (32_767, -32_768)


@pytest.mark.parametrize(("limit", "expected"), [(64, 64), (63, 63), (2, 2), (0, 0)])
def test_the_msdu_limit(limit: int, expected: int) -> None:
    cnm = cnm_for("8100 6001", parameters=QCNCongestionPointParameters(msdu_limit_octets=limit))
    assert decode(cnm)[CNM].msdu_length == expected
    assert len(cnm) == max(60, 12 + 4 + 4 + 2 + 24 + expected)


def test_short_cnms_are_padded_with_zeros() -> None:
    cnm = cnm_for("", payload="08004500")
    assert len(cnm) == 60
    assert decode(cnm)[CNM].msdu.hex() == "08004500"
    assert cnm[12 + 4 + 2 + 24 + 4 :] == bytes(14)


def test_what_was_not_captured_is_not_in_msdu() -> None:
    assert decode(cnm_for("8100 6001", payload="0800aabb", length=1514))[CNM].msdu.hex() == "0800aabb"


def test_tag_with_truncated_ethertype_is_still_copied() -> None:
    frame = decode(cnm_for("8100 6001", payload="", length=1514))
    assert frame[VLAN].id == 1
    assert frame[CNM].msdu_length == 0


def test_an_802_3_length_tells_padding_from_msdu() -> None:
    assert decode(cnm_for("", payload="0003" + "424203" + "00" * 43))[CNM].msdu.hex() == "0003424203"


def test_other_ethertypes_are_used_throughout() -> None:
    ethertypes = EtherTypes(cnm=0x9ABC, cn_tag=0x9ABD)
    frame = decode(cnm_for("9abd 0005", ethertypes=ethertypes), ethertypes=ethertypes)
    assert frame[CNTag].flow_id == 5
    assert frame[CNTag].etype == 0x9ABC
