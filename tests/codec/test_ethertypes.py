"""Changed EtherType maps, and invalid maps."""

from __future__ import annotations

import dataclasses

import pytest

from ecmproto.errors import ParameterError
from ecmproto.wire.codec import (
    ARP,
    VLAN,
    Data,
    Ethernet,
    EtherTypes,
    Frame,
    IPv4,
    Layer,
    STag,
    decode,
    encode,
)
from ecmproto.wire.formats.registry import FORMATS, announcement
from tests.standards.known_answers import KNOWN_ANSWERS, KnownAnswer

ROLES = [field.name for field in dataclasses.fields(EtherTypes)]
VENDOR = EtherTypes(**{role: 0xA000 + index for index, role in enumerate(ROLES)})


def in_vendors_types(layers: tuple[Layer, ...]) -> Frame:
    return Frame(layers=layers, ethertypes=VENDOR)


@pytest.mark.parametrize("answer", KNOWN_ANSWERS, ids=str)
def test_every_format_under_a_changed_map(answer: KnownAnswer) -> None:
    octets = encode(in_vendors_types(answer.layers), fix=True)
    frame = decode(octets, ethertypes=VENDOR)
    assert [type(value) for value in frame.layers] == [type(value) for value in answer.layers]
    assert frame.ethertypes is VENDOR
    assert encode(frame, fix=True) == octets
    announced = [
        value for value in answer.layers if isinstance(value.announced_by, str) and value.announced_by
    ]
    if announced or answer.layers[-1].prefix == "lldp":
        assert octets != answer.octets
        assert isinstance(decode(octets).layers[1], Data)


@pytest.mark.parametrize("role", ROLES)
def test_changed_role_announces_its_formats(role: str) -> None:
    changed = EtherTypes(**{role: 0xABCD})
    announced = [cls for cls in FORMATS if cls.announced_by == role and cls.prefix != "lldpcn"]
    for cls in announced:
        assert announcement(cls, changed) == 0xABCD
        frame = Frame(layers=(Ethernet(), cls()), ethertypes=changed)
        assert encode(frame, fix=True)[12:14] == b"\xab\xcd"


def test_old_s_tag_is_read_like_c_tag() -> None:
    octets = bytes(12) + bytes.fromhex("9100 e064 8100 0001 88f7") + bytes(40)
    assert decode(octets).layers[:3] == (
        Ethernet(type=0x9100), VLAN(priority=7, id=100, etype=0x8100), VLAN(id=1, etype=0x88F7),
    )  # fmt: skip
    assert encode(decode(octets), fix=True) == octets


def test_a_value_may_move_between_roles() -> None:
    """A bridge sends S-TAGs as 0x9100 and does not use 0x88A8."""
    swapped = EtherTypes(s_tag=0x9100, old_s_tag=0x9200)
    octets = bytes(12) + bytes.fromhex("9100 0001 88f7") + bytes(42)
    assert isinstance(decode(octets, ethertypes=swapped).layers[1], STag)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("value", [0x0800, 0x0806, 0x86DD])
def test_ip_and_arp_keep_their_values(role: str, value: int) -> None:
    with pytest.raises(ParameterError, match=f"ethertype {role}: expected a value no other role has, got 0x"):
        EtherTypes(**{role: value})


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("value", [-1, 0, 1500, 0x05FF, 0x10000, "0x8100", None, 1.5])
def test_values_out_of_range(role: str, value: object) -> None:
    with pytest.raises(ParameterError, match=rf"ethertype {role}: expected 0x0600\.\.0xffff, got "):
        EtherTypes(**{role: value})  # type: ignore[arg-type]  # what is refused


def test_two_roles_cannot_share_an_ethertype() -> None:
    with pytest.raises(ParameterError, match=r"ethertype cnm: .*, got 0x22e9, which is cn_tag's"):
        EtherTypes(cnm=0x22E9)


def test_ip_and_arp_are_read_under_any_map() -> None:
    for value in (IPv4(), ARP()):
        octets = encode(in_vendors_types((Ethernet(), value)), fix=True)
        assert type(decode(octets, ethertypes=VENDOR).layers[1]) is type(value)
