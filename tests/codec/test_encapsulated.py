"""The sampled frame inside CNM, ECM, BCN and E²CM messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.tools.fuzz.strategies import frames, vlan_stacks
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    MSDU,
    VLAN,
    Data,
    Ethernet,
    EtherTypes,
    Frame,
    ITag,
    Layer,
    Pause,
    decode,
    encapsulated,
    encode,
)
from tests.standards.known_answers import CN_TAG, IP_UDP, LENGTH_TAGGED, PBB, QINQ, KnownAnswer


def message(value: Layer) -> Frame:
    return decode(encode(Frame(layers=(Ethernet(), value)), fix=True))


def shown(value: Layer) -> Frame:
    inner = encapsulated(message(value))
    assert inner is not None
    return inner


@pytest.mark.parametrize("make", [ECM, BCN, E2CM], ids=lambda cls: cls.prefix)
@pytest.mark.parametrize("answer", [CN_TAG, QINQ, PBB, LENGTH_TAGGED], ids=str)
def test_a_whole_sampled_frame(make: type[ECM | BCN | E2CM], answer: KnownAnswer) -> None:
    inner = shown(make(cpid=1, payload=answer.octets))
    assert inner.layers == answer.layers
    assert inner.padding == bytes(answer.padding)
    assert inner.error is None


@given(frame=frames(), tags=vlan_stacks(max_size=2), data=st.data())
def test_any_part_of_any_frame(frame: Frame, tags: list[Layer], data: st.DataObject) -> None:
    """The fields are decoded as far as the sample reaches, and a truncated sample is not malformed."""
    octets = encode(frame)
    sampled = octets[: data.draw(st.integers(28, max(28, len(octets))))].ljust(28, b"\0")
    outer = decode(encode(Frame(layers=(Ethernet(), *tags, ECM(cpid=1, payload=sampled))), fix=True))
    inner = encapsulated(outer)
    assert inner is not None
    assert encode(inner) == outer[ECM].payload
    if len(sampled) <= len(octets):
        whole = sum(stop <= len(sampled) for stop in decode(octets).starts[1:])
        assert inner.layers[:whole] == frame.layers[:whole] or isinstance(inner.layers[-1], Data)
        assert inner.error is None


def test_an_msdu_starts_with_its_type() -> None:
    inner = shown(CNM(msdu=b"\x88\xf7" + bytes(30)))
    assert inner.layers == (MSDU(type=0x88F7), Data(data=bytes(30)))


def test_i_tag_is_payload_of_backbone_msdu() -> None:
    inner = shown(CNM(msdu=PBB.octets[16:56]))
    assert [type(value).__name__ for value in inner.layers] == ["MSDU", "ITag", "VLAN", "CNTag", "Data"]
    assert inner[ITag] == PBB.layers[2]


def test_an_msdu_is_cut_and_not_malformed() -> None:
    for octets in range(3, 64):
        inner = shown(CNM(msdu=(b"\x08\x00" + IP_UDP + bytes(64))[:octets]))
        assert inner.error is None


def test_single_octet_of_msdu_is_data() -> None:
    assert shown(CNM(msdu=b"\x08")).layers == (Data(data=b"\x08"),)


def test_error_in_sampled_frame_leaves_outer_valid() -> None:
    outer = message(CNM(msdu=b"\x08\x00\x65" + bytes(30)))
    inner = encapsulated(outer)
    assert outer.error is None
    assert inner is not None
    assert str(inner.error) == "ip at octet 2: expected version 4, got 6"


def test_messages_without_sample_have_no_encapsulated_frame() -> None:
    for value in (CNM(), E2CM(type=3), Pause()):
        assert encapsulated(message(value)) is None
    assert encapsulated(Frame(layers=())) is None
    assert encapsulated(decode(CN_TAG.octets)) is None


def test_the_inside_has_the_outsides_ethertypes() -> None:
    vendor = EtherTypes(c_tag=0x9999)
    cnm = CNM(msdu_length=6, msdu=bytes.fromhex("9999 0001 88f7"))
    inner = encapsulated(Frame(layers=(Ethernet(type=0x22E7), cnm), ethertypes=vendor))
    assert inner is not None
    assert inner.layers == (MSDU(type=0x9999), VLAN(id=1, etype=0x88F7))
