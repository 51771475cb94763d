"""Frames from a format name and some fields: valid defaults, kept values, and computed fields."""

from __future__ import annotations

import pytest

from ecmproto.errors import EncodeError, SpecError
from ecmproto.tools.craft import build
from ecmproto.wire.codec import (
    CNM,
    E2CM,
    PFC,
    TCP,
    UDP,
    VLAN,
    CNTag,
    CongestionNotificationTLV,
    Ethernet,
    EtherTypes,
    IPv4,
    MACControl,
    Pause,
    STag,
    decode,
    encapsulated,
    encode,
)
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.e2cm import flow_id
from ecmproto.wire.formats.registry import FORMATS


@pytest.mark.parametrize("cls", FORMATS, ids=lambda cls: cls.prefix)
def test_bare_format_name_builds_a_decodable_frame(cls: type[Layer]) -> None:
    octets = encode(build(cls.prefix))
    assert len(octets) >= 60
    assert encode(decode(octets)) == octets


@pytest.mark.parametrize("kind", ["cnm", "ecm", "bcn", "e2cm"])
def test_messages_show_sampled_frame_down_to_ports(kind: str) -> None:
    inner = encapsulated(build(kind))
    assert inner is not None
    assert inner.error is None
    assert inner[IPv4].proto == 17
    if kind == "cnm":
        assert inner[UDP].dstport == 4792


def test_the_line_of_the_interface_document() -> None:
    frame = build("cnm", qntz_fb=40, flow_id=7, vlan=5, prio=3)
    assert [type(value) for value in frame.layers] == [Ethernet, VLAN, CNTag, CNM]
    assert (frame[VLAN].id, frame[VLAN].priority) == (5, 3)
    assert frame[CNTag].flow_id == 7
    assert frame[CNM].qntz_fb == 40
    # 802.1Q 33.4, octet by octet: DA SA 8100 TCI 22e9 flow 22e7 version+reserved+Fb …
    assert encode(frame)[:26].hex() == "0200000000010200000000c18100600522e9000722e700280200"


def test_layer_chain_is_built_in_order() -> None:
    frame = build("vlan id=5 cntag flow_id=7 ip src=10.0.0.1 udp dstport=4791 data data=00ff")
    assert [value.prefix for value in frame.layers] == ["eth", "vlan", "cntag", "ip", "udp", "data"]
    assert (frame[IPv4].len, frame[UDP].length, len(frame.padding)) == (30, 10, 8)
    assert decode(encode(frame)) == frame


@pytest.mark.parametrize(
    ("line", "priority"),
    [
        ("cnm", 6), ("ecm", 7), ("bcn", 7), ("e2cm type=0", 7), ("e2cm type=4", 7), ("e2cm type=3", 0),
        ("fecn", 7), ("dbp", 7), ("ip", 0), ("cmtag", 0),
    ],
)  # fmt: skip
def test_only_the_outermost_tag_gets_the_kinds_priority(line: str, priority: int) -> None:
    frame = build(line, vlan="100,5")
    assert (frame[STag].id, frame[STag].priority) == (100, priority)
    assert (frame[VLAN].id, frame[VLAN].priority) == (5, 0)


@pytest.mark.parametrize("kind", ["pause", "pfc", "macc"])
def test_mac_control_has_its_address_and_no_tag(kind: str) -> None:
    frame = build(kind)
    assert frame[Ethernet].dst.hex(":") == "01:80:c2:00:00:01"
    assert frame[Ethernet].type == 0x8808
    for given in ("vlan=5", "prio=3", "flow=1"):
        with pytest.raises(SpecError):
            build(f"{kind} {given}")


def test_explicit_tag_before_mac_control_is_kept() -> None:
    assert [value.prefix for value in build("vlan id=5 pfc").layers] == ["eth", "vlan", "pfc"]


def test_pfc_times_set_enable_bits_unless_given() -> None:
    assert build("pfc", prio3=65535, prio6=0)[PFC].class_enable_vector == 0b1001000
    assert build("pfc", time0=1)[PFC].times == (1, 0, 0, 0, 0, 0, 0, 0)
    assert build("pfc", time0=1, class_enable_vector=0)[PFC].class_enable_vector == 0
    assert build("pfc")[PFC].enabled(3)
    assert build("pause", quanta=7)[Pause].pause_time == 7
    assert build("macc opcode=0x0102", body="00")[MACControl].opcode == 0x0102


def test_probes_of_e2cm_carry_the_flow_they_measure() -> None:
    forward, back = build("e2cm", type=3, vlan=1, prio=3), build("e2cm", type="4")
    there, here = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
    assert (forward[Ethernet].dst, forward[Ethernet].src) == (there, here)
    assert (back[Ethernet].dst, back[Ethernet].src) == (here, there)
    assert forward[E2CM].cpid == back[E2CM].cpid == 0x0200_0000_0002_0000
    assert forward[E2CM].flow_id == flow_id(there, here, 3) == 0x4EDD  # wire-formats 6
    assert forward[E2CM].payload == b""


def test_lldp_gets_mandatory_tlvs_around_given_ones() -> None:
    frame = build("lldpcn", cnpv=0x18, ready=8)
    assert [value.type for value in frame.layers[1:]] == [1, 2, 3, 127, 0]  # type: ignore[attr-defined]
    assert frame[CongestionNotificationTLV].cnpv == 0x18
    assert build("lldp").get(CongestionNotificationTLV) is not None
    named = build("lldp type=5", value="6162")
    assert [value.type for value in named.layers[1:]] == [1, 2, 3, 5, 0]  # type: ignore[attr-defined]


def test_a_cpid_follows_the_source_address_given() -> None:
    assert build("cnm", src="02:00:00:00:00:77")[CNM].cpid == 0x0200_0000_0077_0001


def test_given_values_are_kept_though_wrong() -> None:
    assert build("cnm", msdu_length=99)[CNM].msdu_length == 99
    assert build("eth type=0x1234 cnm")[Ethernet].type == 0x1234
    assert build("ip", checksum=1)[IPv4].checksum == 1
    assert build("udp", length=3)[UDP].length == 3


def _internet_sum(octets: bytes) -> int:
    octets += bytes(len(octets) % 2)
    total = sum(int.from_bytes(octets[i : i + 2], "big") for i in range(0, len(octets), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_header_checksums_cover_lengths_given_wrong() -> None:
    frame = build("ip", len=99, ihl=5, proto=200)
    assert _internet_sum(encode(frame)[14:34]) == 0xFFFF


@pytest.mark.parametrize(("line", "protocol"), [("tcp", 6), ("ipv6 udp", 17), ("ipv6 tcp", 6)])
@pytest.mark.parametrize("data", ["", "00", "ffffff"])
def test_transport_checksums_count_the_pseudo_header(line: str, protocol: int, data: str) -> None:
    frame = build(f"{line} data", data=data) if data else build(line)
    octets = encode(frame)[: frame.boundaries()[-1]]
    ip, segment = (26, 34) if frame.get(IPv4) else (22, 54), octets[34 if frame.get(IPv4) else 54 :]
    pseudo = octets[ip[0] : ip[1]] + bytes([0, protocol]) + len(segment).to_bytes(2, "big")
    assert _internet_sum(pseudo + segment) == 0xFFFF
    transport = frame.get(TCP) or frame[UDP]
    assert transport.checksum != 0


def test_raw_adds_computes_and_pads_nothing() -> None:
    assert encode(build("eth type=0x22e7 cnm", raw=True, qntz_fb=1)) == bytes(
        12
    ) + b"\x22\xe7\x00\x01" + bytes(22)
    assert encode(build("cnm", raw=True)) == bytes(24)


def test_another_ethertype_map_announces_messages() -> None:
    assert build("ecm", ethertypes=EtherTypes(message=0x88B7))[Ethernet].type == 0x88B7


_OF_CNM = "expected a field of cnm or of a layer it implies"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("cnmm", "frame: expected the name of a format, got 'cnmm' (did you mean 'cnm'?)"),
        ("cnm qntz=4", f"cnm: {_OF_CNM}, got 'qntz' (did you mean 'qntz_fb'?)"),
        ("cnm flowid=4", f"cnm: {_OF_CNM}, got 'flowid' (did you mean 'flow_id'?)"),
        ("cnm cntag.flow=1", f"cnm: {_OF_CNM}, got 'cntag.flow' (did you mean 'cntag.flow_id'?)"),
        ("cnm qntz_fb=x", "cnm.qntz_fb: expected an integer in 0..63, got 'x'"),
        ("cnm qntz_fb=1 qntz_fb=1", "cnm.qntz_fb: expected each field once, got the same field twice"),
        ("cnm vlan=1 vlan=2", "vlan: expected VLAN ids once, got them twice"),
        ("cnm encap_dst=02", "cnm.encap_dst: expected a MAC address such as 02:00:00:00:00:01, got '02'"),
        ("cnm 'x", "frame: expected a line with its quotes closed, got \"cnm 'x\""),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_a_suggestion(line: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        build(line)
    assert str(caught.value) == sentence


def test_error_for_field_without_layer_lists_layers() -> None:
    with pytest.raises(
        SpecError,
        match=r"the name of a layer in front of its fields, got 'qntz_fb=1' \(ecmproto fields lists",
    ):
        build("qntz_fb=1")


def test_only_cnm_implies_a_cn_tag() -> None:
    with pytest.raises(SpecError, match="got 'flow_id'"):
        build("ecm", flow_id=1)
    assert build("e2cm", flow_id=1)[E2CM].flow_id == 1
    assert build("cntag flow_id=7 ecm")[CNTag].flow_id == build("ecm flow=7")[CNTag].flow_id == 7
    assert build("e2cm flow_id=1 flow=7")[CNTag].flow_id == 7


def test_out_of_range_value_is_refused_by_encoder() -> None:
    with pytest.raises(EncodeError) as caught:
        build("cnm", qntz_fb=64)
    assert str(caught.value) == "cnm.qntz_fb: expected an integer in 0..63, got 64"
