"""Frames to Scapy packets and back, and deeper trees on demand."""

from __future__ import annotations

import pytest
from hypothesis import given
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Padding, Raw

from ecmproto.errors import DecodeError
from ecmproto.tools.fuzz.strategies import frames
from ecmproto.wire import codec
from ecmproto.wire.codec import EtherTypes, Frame, decode, encode
from ecmproto.wire.layers import (
    CNM,
    ECM,
    CNTag,
    bound,
    bound_ethertypes,
    from_scapy,
    payload_text,
    payload_tree,
    to_scapy,
)

A, B = "02:00:00:00:00:01", "02:00:00:00:00:02"
OTHER = EtherTypes(cnm=0x9204)


@given(frame=frames())
def test_frame_survives_conversion_to_scapy(frame: Frame) -> None:
    assert from_scapy(to_scapy(frame)) == decode(encode(frame))
    assert bytes(to_scapy(encode(frame))) == encode(frame)
    assert bound_ethertypes() is None


def test_a_frame_is_dissected_under_its_own_map() -> None:
    frame = Frame(layers=(codec.Ethernet(), codec.CNM(qntz_fb=5)), ethertypes=OTHER)
    octets = encode(frame, fix=True)
    frame = decode(octets, ethertypes=OTHER)
    assert to_scapy(frame).layers() == [Ether, CNM, Padding]
    assert to_scapy(octets).layers() == [Ether, Raw]
    assert to_scapy(octets, ethertypes=OTHER)[CNM].qntz_fb == 5
    with bound(OTHER):
        packet = to_scapy(octets)
        assert packet.layers() == [Ether, CNM, Padding]
        assert from_scapy(packet) == frame
    assert from_scapy(packet, ethertypes=OTHER) == frame


def test_few_octets_are_raw() -> None:
    assert to_scapy(b"\1\2").layers() == [Raw]
    assert bytes(to_scapy(b"")) == b""


def test_a_malformed_packet_is_no_frame(bindings: None) -> None:
    with pytest.raises(DecodeError, match="msdu_length"):
        from_scapy(Ether(dst=A, src=B) / CNM(msdu=bytes(65)))


def test_tree_includes_layers_only_scapy_decodes() -> None:
    with bound():
        query = UDP() / DNS(qd=DNSQR(qname="switch.example"))
        tagged = Ether(dst=A, src=B) / Dot1Q(prio=3) / CNTag(flow_id=7)
        octets = bytes(tagged / IP(dst="10.0.0.1", src="10.0.0.2") / query)
    tree = payload_tree(octets)
    names = ["Ethernet", "802.1Q", "Congestion notification tag (CN-TAG)", "IP", "UDP", "DNS"]
    assert [branch.name for branch in tree] == names
    assert dict(tree[2].fields)["flow_id"] == "7"
    assert dict(tree[3].fields)["dst"] == "10.0.0.1"
    assert [branch.name for branch in tree[5].branches] == ["DNS Question Record"]
    assert "switch.example" in dict(tree[5].branches[0].fields)["qname"]
    assert bound_ethertypes() is None


def test_a_tree_shows_the_frame_in_a_message() -> None:
    with bound():
        sampled = bytes(Ether(dst=B, src=A) / IP(dst="10.0.0.1", src="10.0.0.2") / UDP(dport=4791))
        octets = bytes(Ether(dst=A, src=B) / ECM(q_off=5, sample=sampled))
    message = payload_tree(octets)[1]
    assert [branch.name for branch in message.branches] == ["Ethernet", "IP", "UDP"]
    lines = payload_text(octets).splitlines()
    assert lines[0] == "Ethernet"
    assert "    q_off = 5" in lines
    assert "        dport = 4791" in lines
