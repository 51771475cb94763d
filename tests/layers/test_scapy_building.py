"""Building frames layer by layer, and dissecting whole frames, as Scapy's users do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from scapy.fields import ConditionalField
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import LLC, STP, Dot1AD, Dot1AH, Dot1Q, Dot3, Ether
from scapy.packet import Packet, Padding, Raw, fuzz, ls
from scapy.utils import mac2str

from ecmproto.tools.fuzz.strategies import frames
from ecmproto.wire import codec
from ecmproto.wire.codec import Frame, Layer, decode, encode
from ecmproto.wire.layers import (
    BCN,
    CNM,
    E2CM,
    ECM,
    LLDPTLV,
    PFC,
    CMTag,
    CNTag,
    DBPRateReport,
    FECNReturn,
    LLDPCongestionNotification,
    MACControl,
    Pause,
    RDTag,
    RRTTag,
    UnknownMessage,
    UnknownTag,
    bound,
)
from ecmproto.wire.layers.bindings import LAYERS
from tests.layers.test_scapy_fields import wire_values

A, B, SWITCH = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:fe"
HEADER = "020000000002020000000001"

pytestmark = pytest.mark.usefixtures("bindings")


def ether() -> Ether:
    return Ether(dst=B, src=A)


def test_tagged_frame_has_each_ethertype() -> None:
    frame = ether() / Dot1Q(prio=3, vlan=5) / CNTag(flow_id=7) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP()
    octets = bytes(frame)
    assert octets[:22].hex() == HEADER + "8100" + "6005" + "22e9" + "0007" + "0800"
    assert Ether(octets).layers() == [Ether, Dot1Q, CNTag, IP, UDP]
    assert codec.UDP in decode(octets)


def test_any_number_of_experimental_tags_precedes_payload() -> None:
    tags = CNTag(flow_id=1) / RDTag(rlq_id=2, rate=1000) / RRTTag(cpid=3) / CMTag(cpid=4, protocol=2)
    octets = bytes(ether() / Dot1AD(vlan=9) / Dot1Q() / tags / IP(src="10.0.0.1", dst="10.0.0.2"))
    assert Ether(octets).layers() == [Ether, Dot1AD, Dot1Q, CNTag, RDTag, RRTTag, CMTag, IP]
    found = [type(value) for value in decode(octets).layers]
    assert found[1:-1] == [codec.STag, codec.VLAN, codec.CNTag, codec.RDTag, codec.RRTTag, codec.CMTag]
    assert found[-1] is codec.IPv4


@pytest.mark.parametrize("tag", [CNTag, CMTag, RRTTag, RDTag])
def test_tag_before_8023_frame_carries_its_length(tag: type[Packet]) -> None:
    octets = bytes(ether() / tag() / LLC() / STP()) + bytes(8)
    packet = Ether(octets)
    assert packet.layers() == [Ether, tag, LLC, STP, Padding]
    assert packet[tag].etype == len(bytes(LLC() / STP()))
    assert bytes(packet) == octets


def test_payload_without_ethertype_is_announced_by_its_length() -> None:
    assert bytes(CNTag() / Raw(b"abc"))[2:] == b"\0\3abc"
    assert bytes(CNTag() / Raw(bytes(1501)))[2:4] == b"\x90\0"  # as Scapy's Ether would
    assert bytes(CNTag() / LLC() / Raw(bytes(1501)))[2:4] == b"\x88\x70"


def test_a_given_etype_or_length_is_kept() -> None:
    assert bytes(CNTag(etype=0x1234) / IP())[2:4] == b"\x12\x34"
    assert bytes(CNTag(etype=5) / Raw(b"abc"))[2:] == b"\0\5abc"
    assert bytes(CNM(msdu_length=9, msdu=b"abc"))[22:] == b"\0\x09abc"
    assert bytes(LLDPTLV(type=5, length=9, value=b"abc"))[:2] == b"\x0a\x09"
    assert bytes(LLDPCongestionNotification(length=9))[:2] == b"\xfe\x09"


def test_a_length_left_out_is_computed() -> None:
    assert bytes(CNM(msdu=b"abc"))[22:] == b"\0\3abc"
    assert bytes(LLDPTLV(type=5, value=b"abc")) == b"\x0a\3abc"


def test_changing_a_tags_payload_changes_its_type() -> None:
    tag = CNTag() / IP()
    tag.remove_payload()
    assert tag.etype is None
    tag.add_payload(CMTag())
    assert tag.etype == 0x88B6


def test_users_payload_binding_takes_precedence() -> None:
    CNTag.payload_guess = [({"etype": 0x0800}, Pause)]
    try:
        assert CNTag(b"\0\7\x08\0\0\1\0\0").layers() == [CNTag, Pause]
    finally:
        del CNTag.payload_guess


@pytest.mark.parametrize(
    ("message", "ethertype"),
    [
        (CNM(), "22e7"),
        *(
            (message, "88b5")
            for message in (ECM(), BCN(), E2CM(), FECNReturn(), DBPRateReport(), UnknownMessage())
        ),
        *((tag, "88b6") for tag in (CMTag(), RRTTag(), RDTag(), UnknownTag())),
    ],
)
def test_every_message_and_tag_is_announced(message: Packet, ethertype: str) -> None:
    for below in (ether(), ether() / Dot1Q(), ether() / Dot1AD() / Dot1Q(), ether() / Dot1Q() / CNTag()):
        octets = bytes(below / message)
        assert octets[len(bytes(below)) - 2 :].hex().startswith(ethertype)
        assert Ether(octets).layers() == [*below.layers(), type(message)]


@pytest.mark.parametrize("message", [MACControl(opcode=5), Pause(), PFC()])
def test_mac_control_goes_to_its_own_address(message: Packet) -> None:
    octets = bytes(Ether(src=A) / message)
    assert octets[:14].hex() == "0180c2000001" + "020000000001" + "8808"
    assert Ether(octets).layers() == [Ether, type(message)]
    assert bytes(Ether(src=A, dst=B) / message)[:6] == mac2str(B)


def test_lldp_goes_to_the_nearest_bridge() -> None:
    octets = bytes(Ether(src=A) / LLDPCongestionNotification(cnpv="p3+p4", ready="p3") / LLDPTLV())
    assert octets.hex() == "0180c200000e" + "020000000001" + "88cc" + "fe060080c2081808" + "0000"
    assert Ether(octets + bytes(3)).layers() == [Ether, LLDPCongestionNotification, LLDPTLV, Padding]


def test_message_goes_to_the_sampled_source() -> None:
    sampled = bytes(ether() / Dot1Q() / IP(src="10.0.0.1", dst="10.0.0.2"))
    for message in (ECM(sample=sampled), BCN(sample=sampled), E2CM(sample=sampled)):
        assert bytes(Ether(src=SWITCH) / Dot1Q() / message)[:6] == mac2str(A)


@pytest.mark.parametrize(
    "packet",
    [CNM(msdu=b"abc"), Pause(), PFC(), FECNReturn(), DBPRateReport(), E2CM(type="BCN_PROBE_FWD"), LLDPTLV()],
)
def test_octets_after_a_fixed_body_are_padding(packet: Packet) -> None:
    octets = bytes(packet) + b"\0\0\x01"
    dissected = type(packet)(octets)
    assert dissected.layers() == [type(packet), Padding]
    assert bytes(dissected) == octets


@pytest.mark.parametrize("packet", [ECM(), BCN(), E2CM(type="BCN_MAX")])
def test_message_takes_all_remaining_octets_as_its_sample(packet: Packet) -> None:
    dissected = type(packet)(bytes(packet) + b"\0\0\x01")
    assert dissected.layers() == [type(packet)]
    assert dissected.sample == b"\0\0\x01"


def test_lldp_after_wrong_length_tlv_is_raw() -> None:
    assert LLDPCongestionNotification(bytes(LLDPCongestionNotification(length=9) / LLDPTLV())).layers() == [
        LLDPCongestionNotification,
        Raw,
    ]


PACKETS = [layer() for layer in LAYERS.values()]


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: type(packet).__name__)
def test_scapys_tools_work_on_every_layer(packet: Packet, capsys: pytest.CaptureFixture[str]) -> None:
    packet.show()
    packet.show2()
    ls(type(packet))
    shown = capsys.readouterr().out
    always = [field for field in packet.fields_desc if not isinstance(field, ConditionalField)]
    assert all(shown.count(field.name) >= 3 for field in always if field.name != "sample")
    assert type(packet).__name__ in packet.summary()
    assert eval(packet.command(), globals() | {type(packet).__name__: type(packet)}) == packet
    for _ in range(20):
        octets = bytes(fuzz(packet.copy()))
        assert len(octets) >= len(bytes(packet))
    fuzz(packet).show()


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: type(packet).__name__)
def test_building_does_not_change_a_packet(packet: Packet) -> None:
    frame = ether() / Dot1Q() / CNTag() / packet
    before = repr(frame)
    octets = bytes(frame)
    assert repr(frame) == before
    assert bytes(frame) == octets
    dissected = Ether(octets)
    shown = repr(dissected)
    assert bytes(dissected) == octets
    assert repr(dissected) == shown
    assert dissected.layers() == Ether(bytes(dissected)).layers()


def test_summaries_show_the_important_fields() -> None:
    frame = Ether(dst=A, src=SWITCH) / Dot1Q() / CNTag(flow_id=7)
    cnm = CNM(qntz_fb=40, cpid="02:00:00:00:00:fe/1", q_offset=-12, q_delta=3)
    assert (frame / cnm).summary() == (
        "02:00:00:00:00:fe > 02:00:00:00:00:01 (n_802_1Q) / Dot1Q / CNTag flow_id=7 (0x22e7) / "
        "CNM qntz_fb=40 cpid=02:00:00:00:00:fe/1 q_offset=-12 q_delta=3"
    )
    assert ECM(cpid=1, q_off=5).summary() == "ECM cpid=00:00:00:00:00:00/1 q_off=5 q_delta=0"
    assert E2CM(type=3, latency=9).summary() == (
        "E2CM BCN_PROBE_FWD cpid=02:00:00:00:00:01/1 flow_id=0x0 latency=9ns"
    )
    assert RDTag().summary() == "RDTag rlq_id=0 rate=infinity (None)"
    assert PFC.pausing({3: 100, 4: 0}).summary() == "PFC c3=100 c4=0"
    assert PFC().summary() == "PFC no priority"


def test_the_frame_in_a_cnm_is_a_packet() -> None:
    data = ether() / Dot1Q(prio=5) / CNTag(flow_id=7) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=4791)
    cnm = CNM(encap_prio=5, encap_dst=B, msdu=bytes(data)[20:84])
    shown = (Ether(dst=A, src=SWITCH) / CNTag(flow_id=7) / cnm)[CNM].encapsulated()
    assert shown is not None
    assert shown.layers()[:3] == [Ether, IP, UDP]
    assert (shown.dst, shown.src, shown[UDP].dport) == (B, A, 4791)
    assert cnm.encapsulated() is not None  # not in a frame: no source address to show


@pytest.mark.parametrize("octets", range(65))
def test_frame_in_message_may_be_cut_anywhere(octets: int) -> None:
    data = bytes(ether() / CNTag() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / bytes(40))
    for packet, sample in (
        (CNM(msdu=data[16 : 16 + octets]), data[16 : 16 + octets]),
        (ECM(sample=data[:octets]), data[:octets]),
        (BCN(sample=data[:octets]), data[:octets]),
        (E2CM(sample=data[:octets]), data[:octets]),
    ):
        shown = packet.encapsulated()
        assert (shown is None) == (octets == 0)
        assert shown is None or bytes(shown).endswith(sample)


def test_probes_show_no_frame() -> None:
    assert E2CM(type="BCN_PROBE_REV", sample=b"abc").encapsulated() is None


SCAPYS_OWN: dict[type[Layer], tuple[type[Packet], dict[str, str]]] = {
    codec.VLAN: (Dot1Q, {"priority": "prio", "id": "vlan", "etype": "type"}),
    codec.STag: (Dot1AD, {"priority": "prio", "id": "vlan", "etype": "type"}),
    codec.ITag: (Dot1AH, {"priority": "prio", "drop": "dei"}),
}


@given(frame=frames())
def test_scapy_and_codec_agree_on_whole_frames(frame: Frame) -> None:
    octets = encode(frame)
    with bound():
        packet: Packet = Ether(octets)
    assert bytes(packet) == octets
    for value in decode(octets).layers:
        if not _same(value, packet):
            break
        # the customer addresses are Scapy's next layer, the I-TAG's last fields here
        packet = packet.payload.payload if isinstance(value, codec.ITag) else packet.payload
    else:
        assert packet.layers() in ([], [Padding])


def _same(value: Layer, packet: Any) -> bool:
    """Assert that a typed layer and Scapy's are equal; False where Scapy's own layers continue."""
    if isinstance(value, codec.Ethernet):
        return _same_header(packet, value.dst, value.src, value.type)
    if type(value) in SCAPYS_OWN:
        cls, names = SCAPYS_OWN[type(value)]
        assert type(packet) is cls
        if isinstance(value, codec.ITag):
            _same_header(packet.payload, value.cdst, value.csrc, value.etype)
        for field in value.layout[: 6 if isinstance(value, codec.ITag) else None]:
            assert packet.getfieldval(names.get(field.key, field.key)) == getattr(value, field.key)
        return True
    if type(value) not in LAYERS:
        return False
    assert type(packet) is LAYERS[type(value)]
    assert wire_values(packet, type(value)) == {f.key: getattr(value, f.key) for f in value.layout}
    return True


def _same_header(packet: Packet, dst: bytes, src: bytes, ethertype: int) -> bool:
    assert type(packet) is (Dot3 if ethertype <= 1500 else Ether)
    assert mac2str(packet.getfieldval("dst")) == dst
    assert mac2str(packet.getfieldval("src")) == src
    assert packet.getfieldval("len" if ethertype <= 1500 else "type") == ethertype
    return True
