"""Requests and replies in Scapy's sr()."""

from __future__ import annotations

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from ecmproto.wire.layers import CNM, E2CM, CNTag, FECNReturn, RDTag

pytestmark = pytest.mark.usefixtures("bindings")

A, B, SWITCH = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:fe"


def data(flow_id: int = 7, sport: int = 1000) -> Packet:
    ip = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=sport) / bytes(80)
    return Ether(dst=B, src=A) / Dot1Q(prio=3) / CNTag(flow_id=flow_id) / ip


def cnm(msdu: bytes, flow_id: int = 7, encap_dst: str = B) -> Packet:
    message = CNM(qntz_fb=9, encap_dst=encap_dst, msdu=msdu)
    return Ether(dst=A, src=SWITCH) / Dot1Q(prio=6) / CNTag(flow_id=flow_id) / message


@pytest.mark.parametrize("octets", [0, 1, 2, 24, 64])
def test_cnm_answers_its_sampled_frame(octets: int) -> None:
    request, reply = data(), Ether(bytes(cnm(bytes(data())[20 : 20 + octets])))
    assert reply.answers(request)
    assert reply.hashret() == request.hashret()


@pytest.mark.parametrize(
    "reply",
    [
        cnm(bytes(data())[20:84], flow_id=8),
        cnm(bytes(data(sport=1001))[20:84]),
        cnm(bytes(data())[20:84], encap_dst=SWITCH),
        data(),
    ],
)
def test_a_cnm_does_not_answer_another_frame(reply: Packet) -> None:
    if CNM in reply:
        assert not reply.answers(data())
    assert not cnm(b"").answers(cnm(b""))


def test_reply_with_other_cn_tag_is_answer() -> None:
    tagged = Ether(dst=B, src=A) / CNTag(flow_id=1)
    request = tagged / IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(id=4, seq=5)
    reply = tagged / IP(src="10.0.0.2", dst="10.0.0.1") / ICMP(type="echo-reply", id=4, seq=5)
    reply[CNTag].flow_id = 9
    assert reply.answers(request)
    assert reply.hashret() == request.hashret()
    reply[ICMP].seq = 6
    assert not reply.answers(request)


def test_reverse_probe_answers_forward_probe_of_its_flow() -> None:
    forward = Ether(dst=B, src=A) / Dot1Q(prio=3) / E2CM(type="BCN_PROBE_FWD", cpid=f"{B}/0", flow_id=0x4EDD)
    reverse = Ether(dst=A, src=B) / Dot1Q(prio=7) / E2CM(type="BCN_PROBE_REV", cpid=f"{B}/0", flow_id=0x4EDD)
    assert Ether(bytes(reverse)).answers(forward)
    assert reverse.hashret() == forward.hashret()
    assert not forward.answers(reverse)
    for field, value in (("flow_id", 1), ("cpid", f"{A}/0"), ("type", "BCN")):
        other = reverse.copy()
        setattr(other[E2CM], field, value)
        assert not other.answers(forward), field
    reverse[E2CM].cpid = f"{B}/3"  # a source looks at the CPID's address only
    assert reverse.answers(forward)


def test_fecn_return_answers_rd_tag_of_its_queue() -> None:
    assert FECNReturn(rlq_id=4).answers(RDTag(rlq_id=4) / IP())
    assert FECNReturn(rlq_id=4).hashret() == (RDTag(rlq_id=4) / IP()).hashret()
    assert not FECNReturn(rlq_id=5).answers(RDTag(rlq_id=4))
    assert not FECNReturn(rlq_id=4).answers(FECNReturn(rlq_id=4))
