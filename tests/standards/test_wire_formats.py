"""The sentences of wire-formats.md: a test for each sentence about the codec, named by its clause."""

from __future__ import annotations

import random

import pytest

from ecmproto.errors import DecodeError
from ecmproto.units import quanta_to_ns, queue_units
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    MSDU,
    PFC,
    VLAN,
    CMTag,
    CNTag,
    CongestionNotificationTLV,
    Data,
    DBPRateReport,
    Ethernet,
    EtherTypes,
    FECNReturn,
    Frame,
    ITag,
    Layer,
    Pause,
    RDTag,
    RRTTag,
    STag,
    UnknownMessage,
    UnknownTag,
    decode,
    decode_lax,
    encapsulated,
    encode,
)
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto.wire.codec.pbb import convert_cnm
from ecmproto.wire.formats.e2cm import flow_id
from ecmproto.wire.formats.ecm import ticks_to_ns
from ecmproto.wire.formats.ethernet import OtherLLC
from ecmproto.wire.formats.lldp import IEEE8021TLV, TLV, OrganizationTLV
from ecmproto.wire.formats.text import cpid
from tests.standards import known_answers as known
from tests.standards.known_answers import CP, CPID, ONE, TWO
from tests.standards.octets import octets

HEADER = TWO + ONE


def behind(ethertype: int, body: str | bytes) -> bytes:
    """Return a frame with this EtherType and body, untagged."""
    return HEADER + ethertype.to_bytes(2, "big") + (octets(body) if isinstance(body, str) else body)


A_CPID = bytes.fromhex("0200000000c10001")

# 1 EtherTypes


@pytest.mark.parametrize(
    ("ethertype", "cls", "size"),
    [
        (0x8100, VLAN, 4), (0x88A8, STag, 4), (0x88E7, ITag, 18), (0x22E9, CNTag, 4), (0x22E7, CNM, 24),
        (0x9100, VLAN, 4),
    ],
)  # fmt: skip
def test_1_ethertypes_select_the_layer(ethertype: int, cls: type[Layer], size: int) -> None:
    assert isinstance(decode(behind(ethertype, bytes(size))).layers[1], cls)


def test_1_mac_control_opcodes_select_the_layer() -> None:
    assert isinstance(decode(behind(0x8808, "0001 0000")).layers[1], Pause)
    assert isinstance(decode(behind(0x8808, b"\x01\x01" + bytes(18))).layers[1], PFC)


def test_1_lldp_contains_the_congestion_notification_tlv() -> None:
    frame = decode(behind(0x88CC, "fe06 0080c2 08 ff 0f 0000"))
    assert frame[CongestionNotificationTLV] == CongestionNotificationTLV(cnpv=0xFF, ready=0x0F)


@pytest.mark.parametrize(
    ("word", "cls"),
    [("00", ECM), ("01", BCN), ("02", E2CM), ("0310", FECNReturn), ("04", DBPRateReport)],
)
def test_1_messages_of_the_proposals_share_0x88b5(word: str, cls: type[Layer]) -> None:
    body = bytes.fromhex(word.ljust(4, "0")) + A_CPID + bytes(38)
    assert isinstance(decode(behind(0x88B5, body)).layers[1], cls)


@pytest.mark.parametrize(("word", "cls"), [("00", CMTag), ("02", CMTag), ("01", RRTTag), ("03", RDTag)])
def test_1_tags_of_the_proposals_share_0x88b6(word: str, cls: type[Layer]) -> None:
    body = bytes.fromhex(word.ljust(4, "0")) + A_CPID + bytes(36)
    assert isinstance(decode(behind(0x88B6, body)).layers[1], cls)


def test_1_every_entry_point_accepts_a_different_map() -> None:
    """A switch under test may use a vendor's values."""
    vendor = EtherTypes(message=0x9001, tag=0x9002, cnm=0x9003, cn_tag=0x9004)
    frame = Frame(layers=(Ethernet(), CNTag(flow_id=1), CNM(cpid=CPID)), ethertypes=vendor)
    data = encode(frame, fix=True)
    assert data[12:18] == bytes.fromhex("9004 0001 9003")
    assert decode(data, ethertypes=vendor).layers[1:] == (CNTag(flow_id=1, etype=0x9003), CNM(cpid=CPID))
    assert [type(value) for value in decode(data).layers] == [Ethernet, Data]


# 1.1 the discriminator word


def test_1_1_messages_and_tags_share_a_header() -> None:
    for cls in (ECM, BCN, E2CM, FECNReturn, DBPRateReport, CMTag, RRTTag, RDTag, UnknownMessage, UnknownTag):
        assert [(field.key, field.bit_offset, field.bits) for field in cls.layout[:5]] == [
            ("version", 0, 4), ("q", 4, 1), ("protocol", 5, 3), ("type", 8, 4), ("reserved", 12, 4),
        ]  # fmt: skip


@pytest.mark.parametrize("protocol", [5, 6, 7])
def test_1_1_unassigned_protocols_keep_their_octets(protocol: int) -> None:
    body = bytes([protocol, 0x35, *range(44)])
    message = decode(behind(0x88B5, body)).layers[1]
    tag = decode(behind(0x88B6, body)).layers[1]
    kept = bytes(range(44))
    assert message == UnknownMessage(protocol=protocol, type=3, reserved=5, body=kept)
    assert tag == UnknownTag(protocol=protocol, type=3, reserved=5, body=kept)


@pytest.mark.parametrize("word", ["0010", "0120", "0250", "0300", "0320", "0410"])
def test_1_1_unassigned_types_keep_their_octets(word: str) -> None:
    frame = decode(behind(0x88B5, bytes.fromhex(word) + bytes(44)))
    assert isinstance(frame.layers[1], UnknownMessage)
    assert frame[UnknownMessage].body == bytes(44)


@pytest.mark.parametrize("cpid", [bytes(8), bytes.fromhex("0100000000c10001"), b"\xff" * 8], ids=bytes.hex)
@pytest.mark.parametrize("word", ["0000", "0100", "0110", "0200", "0230", "0240"])
def test_1_1_messages_with_impossible_cpid_are_unknown(word: str, cpid: bytes) -> None:
    body = bytes.fromhex(word) + cpid + bytes(40)
    for frame in (decode(behind(0x88B5, body)), decode_lax(behind(0x88B5, body))):
        assert isinstance(frame.layers[1], UnknownMessage)
        assert frame[UnknownMessage].body == body[2:]
        assert encode(frame) == behind(0x88B5, body)
        assert frame.error is None
        assert encapsulated(frame) is None


@pytest.mark.parametrize("cpid", [bytes(8), bytes.fromhex("0100000000c10001")], ids=bytes.hex)
@pytest.mark.parametrize("word", ["0000", "0100", "0200"])
def test_1_1_tags_with_impossible_cpid_are_unknown(word: str, cpid: bytes) -> None:
    frame = decode(behind(0x88B6, bytes.fromhex(word) + cpid + bytes(36)))
    assert [type(value) for value in frame.layers] == [Ethernet, UnknownTag]


def test_1_1_fifty_zero_octets_are_unknown() -> None:
    assert [type(value) for value in decode(behind(0x88B5, bytes(50))).layers] == [Ethernet, UnknownMessage]


@pytest.mark.parametrize("cpid", [b"\x02" + bytes(7), bytes(7) + b"\x01"], ids=bytes.hex)
def test_1_1_cpid_may_have_one_nonzero_octet(cpid: bytes) -> None:
    assert ECM in decode(behind(0x88B5, b"\0\0" + cpid + bytes(40)))


@pytest.mark.parametrize(("word", "cls"), [("0310", FECNReturn), ("0400", DBPRateReport), ("0230", E2CM)])
def test_1_1_long_messages_without_payload_are_unknown(word: str, cls: type[Layer]) -> None:
    body = bytes.fromhex(word) + A_CPID + bytes(54)
    assert cls in decode(behind(0x88B5, body))
    assert UnknownMessage in decode(behind(0x88B5, body + b"\0"))
    # Truncated octets are counted, except for a sampled frame, whose length is unknown.
    assert UnknownMessage in decode(behind(0x88B5, body), original_octets=14 + 65)
    shown = encapsulated(decode(behind(0x88B5, ECM(payload=behind(0x88B5, body)).build())))
    assert shown is not None
    assert cls in shown


def test_1_1_random_payloads_are_rarely_recognised() -> None:
    """7.5 % were messages, 3 % tags, by the word alone; INT tags are 0.8 %, and CIMs 0.3 %."""
    chance = random.Random(5)
    for ethertype, other, most in ((0x88B5, UnknownMessage, 0.031), (0x88B6, UnknownTag, 0.031)):
        bodies = [chance.randbytes(chance.randint(46, 1500)) for _ in range(20_000)]
        named = sum(other not in decode_lax(behind(ethertype, body)) for body in bodies)
        assert named < most * len(bodies)


@pytest.mark.parametrize("make", [ECM, BCN, E2CM], ids=lambda cls: cls.prefix)
def test_1_1_cut_short_samples_are_malformed(
    make: type[ECM | BCN | E2CM],
) -> None:
    octets = behind(0x88B5, make(payload=bytes(range(60))).build())
    shown_at = 14 + make.fixed_octets
    for captured in (15, 16, shown_at - 1, shown_at, shown_at + 23):
        short = decode_lax(octets[:captured], original_octets=shown_at + 23).error
        if captured == 15:  # the type is unknown
            assert short is None
            continue
        assert short is not None
        assert str(short).endswith("expected 24 octets of the sampled frame, got 23 octets")
        assert decode_lax(octets[:captured], original_octets=shown_at + 24).error is None


@pytest.mark.parametrize(
    "answer", [known.ECM_ZERO, known.BCN_NORMAL, known.RD_TAG, known.DBP_REPORT], ids=str
)
def test_1_1_higher_versions_are_decoded_alike(answer: known.KnownAnswer) -> None:
    data = bytearray(answer.octets)
    data[14] |= 0xF0
    expected = answer.layers[1].replace(version=15)
    assert decode(data).layers == (answer.layers[0], expected, *answer.layers[2:])


def test_1_1_reserved_bits_are_ignored_on_reception() -> None:
    data = bytearray(known.ECM_ZERO.octets)
    data[15] |= 0x0F
    assert decode(data)[ECM] == known.ECM_ZERO.layers[1].replace(reserved=15)


# 1.2 rules for all frames


def test_1_2_decoders_accept_any_order_of_tags() -> None:
    data = HEADER + octets("""
        22e9 0001                                # CN-TAG first
        88b6 0300 0001 00000001                  # RD tag
        8100 2002                                # VLAN tag
        88b6 0000 0200000000cc0001 0000 0000     # CM-Tag
        88a8 4003                                # S-TAG
        88f7 aabb
    """)  # fmt: skip
    kinds = [type(value) for value in decode(data).layers]
    assert kinds == [Ethernet, CNTag, RDTag, VLAN, CMTag, STag, Data]


def test_1_2_decoders_accept_any_depth() -> None:
    data = HEADER + bytes.fromhex("8100 0001") * 1000 + b"\x88\xf7" + b"payload"
    frame = decode(data)
    assert len(frame.all(VLAN)) == 1000
    assert frame.layers[-1] == Data(data=b"payload")
    assert encode(frame) == data == encode(frame, fix=True)


@pytest.mark.parametrize("value", [0, 4, 46, 1500])
def test_1_2_values_up_to_1500_are_lengths(value: int) -> None:
    data = HEADER + value.to_bytes(2, "big") + b"\x42" * value + bytes(max(0, 46 - value))
    frame = decode(data)
    assert b"".join(layer.build() for layer in frame.layers[1:]) == b"\x42" * value
    assert frame.padding == bytes(max(0, 46 - value))


def test_1_2_values_above_1500_are_no_lengths() -> None:
    assert decode(behind(1501, bytes(46))).layers[1:] == (Data(data=bytes(46)),)


def test_1_2_tags_go_before_the_length() -> None:
    assert decode(known.LENGTH_TAGGED.octets).layers[-3:] == (
        CNTag(flow_id=1, etype=4),
        OtherLLC(dsap=0xAA, ssap=0xAA),
        Data(data=b"\x00"),
    )


def test_1_2_msdus_may_start_with_a_length() -> None:
    cnm = CNM(msdu_length=6, msdu=bytes.fromhex("0004 aaaa0300"))
    inner = encapsulated(Frame(layers=(Ethernet(type=0x22E7), cnm)))
    assert inner is not None
    assert inner.layers == (MSDU(type=4), OtherLLC(dsap=0xAA, ssap=0xAA), Data(data=b"\0"))


@pytest.mark.parametrize(
    ("octets_", "units"), [(63, 0), (64, 1), (-63, 0), (-64, -1), (-129, -2), (6400, 100)]
)
def test_1_2_units_are_truncated_toward_zero(octets_: int, units: int) -> None:
    assert queue_units(octets_) == units


def test_1_2_cpid_is_mac_and_local_identifier() -> None:
    assert cpid(CP, 1) == cpid("02:00:00:00:00:cc", 1) == CPID
    assert decode(known.CNM_SHORT.octets)[CNM].cpid == CPID


def test_1_2_only_a_declared_fcs_is_decoded() -> None:
    data = known.PAUSE.octets
    assert decode(data).fcs == b""
    fcs = frame_check_sequence(data)
    frame = decode(data + fcs, fcs_octets=4)
    assert (frame.layers, frame.padding, frame.fcs) == (known.PAUSE.layers, bytes(42), fcs)
    assert decode(data + fcs).trailer == fcs


def test_1_2_fcs_equals_the_published_value() -> None:
    """802.3 3.2.9 is CRC-32, least significant octet first on the wire: of "123456789" it is cbf43926."""
    assert frame_check_sequence(b"123456789") == bytes.fromhex("2639f4cb")


def test_1_2_length_field_separates_padding() -> None:
    for answer in (known.CNM_SHORT, known.LLDP_CN, known.FECN_RETURN, known.PAUSE, known.ARP_REQUEST):
        frame = decode(answer.octets)
        assert frame.layers == answer.layers
        assert frame.padding == bytes(answer.padding)
        assert len(frame.padding) > 0


def test_1_2_octets_beyond_the_length_are_trailer() -> None:
    data = known.CNM_SHORT.octets + b"\x00trailer"
    frame = decode(data)
    assert (frame.padding, frame.trailer) == (bytes(12), b"\x00trailer")
    assert encode(frame) == data


def test_1_2_nonzero_padding_is_trailer() -> None:
    data = known.CNM_SHORT.octets[:-1] + b"\x01"
    frame = decode(data)
    assert (frame.padding, frame.trailer) == (b"", bytes(11) + b"\x01")
    assert encode(frame) == data


@pytest.mark.parametrize("answer", known.KNOWN_ANSWERS, ids=str)
def test_1_2_cut_frames_are_never_malformed(answer: known.KnownAnswer) -> None:
    for kept in range(len(answer.octets)):
        frame = decode(answer.octets[:kept], original_octets=len(answer.octets))
        assert frame.cut == len(answer.octets) - kept


# 2 CN-TAG


def test_2_cn_tag_of_four_octets_follows_vlans() -> None:
    data = known.QINQ.octets
    frame = decode(data)
    (span,) = frame.spans("cntag.flow_id")
    assert (span.start, span.stop) == (22, 24)
    assert data[20:24] == bytes.fromhex("22e9 002a")


def test_2_frame_without_cn_tag_is_legal() -> None:
    assert CNTag not in decode(HEADER + b"\x08\x00" + known.IP_UDP)


# 3 CNM


@pytest.mark.parametrize("octets_", [0, 1, 23])
def test_3_fewer_than_24_pdu_octets_are_malformed(octets_: int) -> None:
    with pytest.raises(DecodeError, match=f"cnm at octet 14: expected 24 octets, got {octets_} octets"):
        decode(behind(0x22E7, bytes(octets_)))


def test_3_an_msdu_length_above_64_is_malformed() -> None:
    body = bytes(22) + (65).to_bytes(2, "big") + bytes(65)
    with pytest.raises(DecodeError, match=r"cnm at octet 36: expected msdu_length 0\.\.64, got 65"):
        decode(behind(0x22E7, body))


def test_3_msdu_length_above_octets_present_is_malformed() -> None:
    body = bytes(22) + (64).to_bytes(2, "big") + bytes(63)
    with pytest.raises(DecodeError, match="cnm at octet 14: expected 88 octets, got 87 octets"):
        decode(behind(0x22E7, body))


def test_3_msdu_length_determines_the_msdu() -> None:
    frame = decode(known.CNM_SHORT.octets)
    assert frame[CNM].msdu == b"\x08\x00"
    assert frame.padding == bytes(12)


@pytest.mark.parametrize("version", range(16))
def test_3_any_version_is_read_as_0(version: int) -> None:
    data = bytearray(known.CNM_LONG.octets)
    data[18] |= version << 4
    assert decode(data)[CNM] == known.CNM_LONG.layers[2].replace(version=version)


def test_3_six_reserved_bits_follow_the_version() -> None:
    data = bytearray(known.CNM_LONG.octets)
    data[18] |= 0x0F
    data[19] |= 0xC0
    assert decode(data)[CNM] == known.CNM_LONG.layers[2].replace(reserved=63)


def test_3_congestion_is_negative_in_qcn_offsets() -> None:
    assert decode(known.CNM_SHORT.octets)[CNM].q_offset == -100
    assert decode(known.ECM_TAGGED.octets)[ECM].q_off == 25


def test_3_truncated_msdus_are_decoded_partially() -> None:
    msdu = b"\x08\x00" + known.IP_UDP[:26]
    frame = Frame(layers=(Ethernet(type=0x22E7), CNM(msdu_length=28, msdu=msdu)))
    inner = encapsulated(frame)
    assert inner is not None
    assert inner.layers == (MSDU(type=0x0800), known.IP_UDP_LAYERS[0], Data(data=known.IP_UDP[20:26]))
    assert inner.error is None


# 3.1 conversion at a provider backbone edge

_BACKBONE_MSDU = octets("""
    88e7 60 001234 02 00 00 00 00 02 02 00 00 00 00 01   # I-TAG: priority 3, C-DA, C-SA
    8100 60 64                                           # inner VLAN tag
    22e9 00 2a                                           # inner CN-TAG
    0800 4500
""")  # fmt: skip


def _backbone_cnm(msdu: bytes) -> Frame:
    cnm = CNM(
        qntz_fb=40, cpid=CPID, q_offset=-100, q_delta=12, encap_prio=4, encap_dst=CP, msdu_length=len(msdu),
        msdu=msdu,
    )  # fmt: skip
    edge = bytes.fromhex("0200000000ba")
    layers = (Ethernet(dst=edge, src=CP), STag(priority=6, id=10), CNTag(), cnm)
    return decode(encode(Frame(layers=layers), fix=True))


def test_3_1_cnm_is_converted_for_customer() -> None:
    converted = convert_cnm(_backbone_cnm(_BACKBONE_MSDU))
    assert converted is not None
    assert converted.layers == (
        Ethernet(dst=ONE, src=CP, type=0x8100),
        VLAN(priority=6, id=100, etype=0x22E9),
        CNTag(flow_id=42, etype=0x22E7),
        CNM(
            qntz_fb=40, cpid=CPID, q_offset=-100, q_delta=12, encap_prio=3, encap_dst=TWO, msdu_length=4,
            msdu=bytes.fromhex("08004500"),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("kept", range(26))
def test_3_1_msdus_without_whole_tags_are_unconvertible(kept: int) -> None:
    assert convert_cnm(_backbone_cnm(_BACKBONE_MSDU[:kept])) is None


def test_3_1_msdus_of_26_octets_are_convertible() -> None:
    converted = convert_cnm(_backbone_cnm(_BACKBONE_MSDU[:26]))
    assert converted is not None
    assert (converted[CNM].msdu_length, converted[CNM].msdu) == (0, b"")


# 4 ECM


def test_4_smallest_ecm_frame_has_64_octets() -> None:
    """DA 6 + SA 6 + 802.1Q 4 + EtherType 2 + 18 + N 24 + FCS 4."""
    assert len(known.ECM_TAGGED.octets) + 4 == 64
    assert ECM.fixed_octets == 18


def test_4_payload_is_every_octet_that_is_left() -> None:
    data = known.ECM_ZERO.octets + bytes(100)
    frame = decode(data)
    assert len(frame[ECM].payload) == 128
    assert frame.padding == frame.trailer == b""


@pytest.mark.parametrize("answer", [known.ECM_TAGGED, known.BCN_STOP, known.E2CM_BCN], ids=str)
def test_4_samples_below_24_octets_are_malformed(answer: known.KnownAnswer) -> None:
    with pytest.raises(DecodeError, match="expected 24 octets of the sampled frame, got 23 octets"):
        decode(answer.octets[:-1])


def test_4_samples_of_24_octets_show_the_vlan() -> None:
    inner = encapsulated(decode(known.ECM_TAGGED.octets))
    assert inner is not None
    assert inner.layers[:2] == (
        Ethernet(dst=TWO, src=ONE, type=0x8100),
        VLAN(priority=3, id=100, etype=0x0800),
    )
    assert len(encode(inner)) == 24


def test_4_samples_of_32_octets_contain_cm_tag() -> None:
    """The CM-Tag's EtherType and its body of 14 octets end at octet 32.

    The following octets announce the payload.
    """
    sampled = known.CM_TAG.octets[:34]
    inner = encapsulated(Frame(layers=(Ethernet(type=0x88B5), ECM(payload=sampled))))
    assert inner is not None
    assert inner.layers[2] == known.CM_TAG.layers[2]
    assert known.CM_TAG.octets[16:32] == bytes.fromhex("88b6 0000 0200000000cc0001 00ff 3000")


def test_4_cm_tag_has_16_octets() -> None:
    assert CMTag.fixed_octets == 16  # including the next EtherType, without its own EtherType


@pytest.mark.parametrize(
    ("ticks", "unit", "ns"), [(1, 0, 1000), (255, 3, 2_040_000), (0x1234, 5, 149_120_000)]
)
def test_4_timestamp_tick_follows_the_unit(ticks: int, unit: int, ns: int) -> None:
    assert ticks_to_ns(CMTag(timestamp=ticks, unit=unit)) == ns
    assert ticks_to_ns(ECM(timestamp=ticks, unit=unit)) == ns


def test_4_ecm_max_saturates_with_q_set() -> None:
    message = decode(known.ECM_MAX.octets)[ECM]
    assert (message.q, message.q_off, message.q_delta) == (1, 16383, 2 * 16383)


# 5 BCN and RRT tag


def test_5_bcn_message_has_18_octets_of_ecm() -> None:
    assert BCN.fixed_octets == ECM.fixed_octets == 18


def test_5_e_is_signed_and_capacity_is_kbps() -> None:
    message = decode(known.BCN_NORMAL.octets)[BCN]
    assert (message.e, message.capacity) == (-5, 10_000_000)


def test_5_type_1_is_stop() -> None:
    assert decode(known.BCN_STOP.octets)[BCN].type == 1


def test_5_rrt_tag_has_12_octets() -> None:
    assert RRTTag.fixed_octets == 12


# 6 E²CM


@pytest.mark.parametrize("type_", range(5))
def test_6_probes_have_no_payload(type_: int) -> None:
    body = bytes([2, type_ << 4]) + A_CPID + bytes(14) + b"\x01" * 30
    frame = decode(behind(0x88B5, body))
    assert frame[E2CM].payload == (b"\x01" * 30 if type_ < 3 else b"")
    assert frame.trailer == (b"" if type_ < 3 else b"\x01" * 30)


def test_6_flow_id_equals_the_worked_example() -> None:
    """DA 02:00:00:00:00:02, SA 02:00:00:00:00:01 and priority 3 have the Flow ID 0x4EDD."""
    assert flow_id(TWO, ONE, 3) == 0x4EDD
    assert decode(known.E2CM_PROBE_REV.octets)[E2CM].flow_id == 0x4EDD


def test_6_flow_id_is_crc_16_ccitt_false() -> None:
    """The published check value of this CRC is 0x29B1 for "123456789".

    The test passes these octets as 6 and 3 octets.
    """
    assert flow_id(b"123456", b"78", ord("9")) == 0x29B1


def test_6_cpid_of_probes_is_the_destination() -> None:
    assert decode(known.E2CM_PROBE_FWD.octets)[E2CM].cpid == cpid(TWO, 0)


def test_6_frames_shorter_than_60_octets_are_padded() -> None:
    probe = known.E2CM_PROBE_FWD
    assert encode(Frame(layers=probe.layers), fix=True) == probe.octets
    assert len(probe.octets) == 60


def test_6_cm_tag_of_data_has_protocol_2() -> None:
    assert decode(known.CM_TAG_E2CM.octets)[CMTag].protocol == 2


# 7 FECN and DBP


def test_7_rd_tag_has_10_octets() -> None:
    assert RDTag.fixed_octets == 10


@pytest.mark.parametrize("cls", [RDTag, FECNReturn, DBPRateReport])
def test_7_all_ones_is_the_initial_rate_infinity(cls: type[RDTag | FECNReturn | DBPRateReport]) -> None:
    assert cls().rate == 0xFFFFFFFF


def test_7_the_returning_frame_is_padded_to_60() -> None:
    frame = Frame(layers=known.FECN_RETURN_INFINITY.layers)
    assert len(encode(frame)) == 22
    assert encode(frame, fix=True) == known.FECN_RETURN_INFINITY.octets


def test_7_dbp_report_equals_fecn_return() -> None:
    def places(cls: type[Layer]) -> list[tuple[str, int, int | None]]:
        return [(field.key, field.bit_offset, field.bits) for field in cls.layout]

    assert places(DBPRateReport) == places(FECNReturn)


# 8 MAC Control


@pytest.mark.parametrize(
    ("gbps", "ten_quanta_ns"), [(1, 5120), (10, 512), (25, 205), (40, 128), (100, 52)]
)  # fmt: skip
def test_8_the_sum_of_quanta_is_rounded(gbps: int, ten_quanta_ns: int) -> None:
    """One lasts 512, 51.2, 20.48, 12.8 and 5.12 ns; the sum is rounded up to whole ns, not each."""
    assert quanta_to_ns(10, gbps * 10**9) == ten_quanta_ns


@pytest.mark.parametrize(("gbps", "ns"), [(1, 512), (10, 52), (25, 21), (40, 13), (100, 6)])
def test_8_one_quantum_lasts_512_bit_times(gbps: int, ns: int) -> None:
    assert quanta_to_ns(1, gbps * 10**9) == ns


def test_8_the_longest_pause_lasts_3_355_us() -> None:
    assert quanta_to_ns(0xFFFF, 10**10) == 3_355_392


def test_8_all_eight_pfc_times_are_written() -> None:
    """A widely used generator writes seven."""
    message = PFC(**{f"time{priority}": priority + 1 for priority in range(8)})
    assert message.build()[4:] == bytes.fromhex("0001000200030004 0005000600070008")
    assert decode(known.PFC_FRAME.octets)[PFC].times == (1, 2, 3, 0xFFFF, 5, 6, 7, 8)


def test_8_bit_n_enables_priority_n() -> None:
    message = decode(known.PFC_FRAME.octets)[PFC]
    assert [priority for priority in range(8) if message.enabled(priority)] == [3, 7]


# 9 LLDP


def test_9_congestion_notification_tlv_octets_are_exact() -> None:
    """Type 127, length 6, OUI 00-80-C2, subtype 8, CNPV and Ready, least significant bit priority 0."""
    assert CongestionNotificationTLV(cnpv=0x48, ready=0x40).build() == bytes.fromhex("fe06 0080c2 08 48 40")


@pytest.mark.parametrize("length", [4, 5, 7, 8])
def test_9_other_tlv_lengths_are_refused(length: int) -> None:
    body = bytes([0xFE, length]) + bytes.fromhex("0080c208 4840 0000 0000")
    with pytest.raises(DecodeError, match=f"lldpcn at octet 14: expected length 6, got {length}"):
        decode(behind(0x88CC, body))


def test_9_other_tlvs_are_kept_as_octets() -> None:
    frame = decode(behind(0x88CC, "fe06 0080c2 01 0064 fe05 001b22 0102 0000"))
    assert [type(value) for value in frame.layers[1:]] == [IEEE8021TLV, OrganizationTLV, TLV]
    assert (frame[IEEE8021TLV].value, frame[OrganizationTLV].value) == (b"\0\x64", b"\2")
    assert encode(frame) == behind(0x88CC, "fe06 0080c2 01 0064 fe05 001b22 0102 0000")
