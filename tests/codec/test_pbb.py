"""Conversion of CNMs at a provider backbone edge (wire-formats 3.1)."""

from __future__ import annotations

import pytest

from ecmproto import CNM, UDP, VLAN, CNTag, Data, Ethernet, Frame, IPv4, ITag, Layer, STag, decode, encode
from ecmproto.wire.codec.pbb import convert_cnm

BACKBONE_EDGE, SWITCH = bytes.fromhex("020000000010"), bytes.fromhex("0200000000fe")
CUSTOMER_DST, CUSTOMER_SRC = bytes.fromhex("02000000000b"), bytes.fromhex("02000000000a")


def backbone_msdu(*tags: Layer) -> bytes:
    """Return the octets of a customer's frame in the backbone after the B-TAG, from the EtherType of the
    I-TAG.
    """
    itag = ITag(isid=5, cdst=CUSTOMER_DST, csrc=CUSTOMER_SRC)
    layers = (Ethernet(), itag, *tags, IPv4(), UDP(), Data(data=bytes(40)))
    return encode(Frame(layers=layers), fix=True)[12:]


def backbone_cnm(msdu: bytes) -> Frame:
    cnm = CNM(qntz_fb=20, cpid=0x0200000000FE0001, q_offset=-9, q_delta=4, encap_prio=5, msdu=msdu[:64])
    layers = (Ethernet(dst=BACKBONE_EDGE, src=SWITCH), STag(id=100, priority=6), CNTag(), cnm)
    return decode(encode(Frame(layers=layers), fix=True))


def test_customer_addresses_tags_and_priority_replace_the_backbones() -> None:
    converted = convert_cnm(backbone_cnm(backbone_msdu(VLAN(id=9, priority=3), CNTag(flow_id=77))))
    assert converted is not None
    octets = encode(converted)
    assert octets[:22].hex() == (
        "02000000000a"  # to the customer's source
        "0200000000fe"  # SA is kept
        "8100c009"  # the inner VLAN tag, a CNM's priority
        "22e9004d"  # the inner CN-TAG
        "22e7"
    )
    cnm = decode(octets)[CNM]
    assert cnm.encap_dst == CUSTOMER_DST
    assert cnm.encap_prio == 3
    assert (cnm.qntz_fb, cnm.cpid, cnm.q_offset, cnm.q_delta) == (20, 0x0200000000FE0001, -9, 4)
    assert cnm.msdu == backbone_msdu(VLAN(id=9, priority=3), CNTag(flow_id=77))[26:64]
    assert cnm.msdu_length == 64 - 26
    assert cnm.msdu[:2] == b"\x08\x00"
    assert len(octets) >= 60


@pytest.mark.parametrize(
    ("tags", "end"),
    [
        ((VLAN(id=9), CNTag()), 26),  # the end of the CN-TAG is enough
        ((CNTag(),), 22),
        ((VLAN(id=9),), 24),  # a VLAN tag needs the EtherType behind it
        ((), 20),
        ((STag(id=7), VLAN(id=9), CNTag()), 30),
    ],
)
def test_msdu_converts_once_all_tags_are_present(tags: tuple[Layer, ...], end: int) -> None:
    msdu = backbone_msdu(*tags)
    for length in range(65):
        assert (convert_cnm(backbone_cnm(msdu[:length])) is not None) == (length >= end), length


def test_untagged_customer_frame_becomes_flow_0_priority_0() -> None:
    converted = convert_cnm(backbone_cnm(backbone_msdu()))
    assert converted is not None
    assert [type(value) for value in converted.layers] == [Ethernet, CNTag, CNM]
    assert converted[CNTag].flow_id == 0
    assert converted[CNM].encap_prio == 0


def test_only_outermost_inner_tag_takes_cnm_priority() -> None:
    inner = (STag(id=7, priority=2, dei=1), VLAN(id=9, priority=3), CNTag(flow_id=1))
    converted = convert_cnm(backbone_cnm(backbone_msdu(*inner)))
    assert converted is not None
    assert converted[STag] == STag(id=7, priority=6, dei=0, etype=0x8100)
    assert converted[VLAN].priority == 3
    assert converted[CNM].encap_prio == 2


def test_non_backbone_msdu_does_not_convert() -> None:
    assert convert_cnm(backbone_cnm(bytes.fromhex("0800") + bytes(40))) is None


def test_frame_without_cnm_raises_key_error() -> None:
    with pytest.raises(KeyError):
        convert_cnm(decode(bytes(12) + b"\x08\x06" + bytes(46), original_octets=100))
