"""The parts around layers: lengths, padding, trailers, FCS, and the depth of tags."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import DecodeError
from ecmproto.tools.fuzz.strategies import layers_of, octets_of
from ecmproto.wire.codec import (
    ARP,
    TCP,
    UDP,
    VLAN,
    CNTag,
    Data,
    Ethernet,
    Frame,
    IPv4,
    IPv6,
    ITag,
    Layer,
    Pause,
    STag,
    decode,
    decode_lax,
    encode,
)
from ecmproto.wire.codec.document import from_document, to_document
from ecmproto.wire.codec.frame import fixed, frame_check_sequence
from ecmproto.wire.formats.ethernet import SNAP, OtherLLC, OtherSNAP
from ecmproto.wire.formats.ip import AH, DestinationOptions, FragmentHeader, HopByHop, Routing
from tests.standards.known_answers import IP_UDP, PAUSE

PAUSE_LAYERS = (Ethernet(type=0x8808), Pause())
PAUSE_OCTETS = bytes(12) + b"\x88\x08\x00\x01\x00\x00"


@pytest.mark.parametrize(
    ("tail", "padding", "trailer"),
    [
        (b"", b"", b""),
        (bytes(10), bytes(10), b""),
        (bytes(42), bytes(42), b""),
        (bytes(43), bytes(42), bytes(1)),
        (bytes(42) + b"end", bytes(42), b"end"),
        (bytes(41) + b"\x01", b"", bytes(41) + b"\x01"),
        (b"\x01" + bytes(60), b"", b"\x01" + bytes(60)),
        (bytes(10) + b"\x01" + bytes(60), b"", bytes(10) + b"\x01" + bytes(60)),
    ],
)
def test_only_zeros_up_to_60_octets_are_padding(tail: bytes, padding: bytes, trailer: bytes) -> None:
    frame = decode(PAUSE_OCTETS + tail)
    assert (frame.layers, frame.padding, frame.trailer) == (PAUSE_LAYERS, padding, trailer)


def test_frame_of_60_octets_has_no_padding() -> None:
    octets = bytes(12) + b"\x08\x00" + IP_UDP
    assert decode(octets + bytes(4)) == decode_lax(octets + bytes(4))
    frame = decode(octets + bytes(4))
    assert (frame.padding, frame.trailer) == (b"", bytes(4))


@given(st.binary(max_size=80), st.integers(0, 4))
def test_any_tail_survives(tail: bytes, fcs_octets: int) -> None:
    octets = PAUSE_OCTETS + tail
    frame = decode_lax(octets, fcs_octets=fcs_octets)
    assert encode(frame) == octets
    if len(tail) >= fcs_octets:
        assert frame.layers == PAUSE_LAYERS
        assert frame.padding + frame.trailer + frame.fcs == tail
        assert len(frame.fcs) == fcs_octets


@pytest.mark.parametrize("cut", range(8))
def test_the_fcs_of_a_cut_frame(cut: int) -> None:
    octets = PAUSE.octets + frame_check_sequence(PAUSE.octets)
    frame = decode(octets[: len(octets) - cut], original_octets=len(octets), fcs_octets=4)
    assert len(frame.fcs) == max(0, 4 - cut)
    assert len(frame.padding) == 42 - max(0, cut - 4)


def test_original_length_below_captured_cuts_nothing() -> None:
    assert decode(PAUSE.octets, original_octets=10) == decode(PAUSE.octets)
    assert decode(PAUSE.octets, original_octets=10).cut == 0


_BEFORE_LENGTH = {
    "eth": (Ethernet(),),
    "vlan": (Ethernet(type=0x8100), VLAN(id=1)),
    "s-tag and vlan": (Ethernet(type=0x88A8), STag(id=1, etype=0x8100), VLAN(id=2)),
    "cn-tag": (Ethernet(type=0x22E9), CNTag(flow_id=1)),
    "i-tag": (Ethernet(type=0x88E7), ITag(isid=1)),
}


@pytest.mark.parametrize("outer", _BEFORE_LENGTH.values(), ids=_BEFORE_LENGTH)
@pytest.mark.parametrize(("length", "there"), [(0, 46), (3, 46), (46, 46), (1500, 1500), (46, 100)])
def test_an_802_3_length_ends_the_payload(outer: tuple[Ethernet, ...], length: int, there: int) -> None:
    head = b"".join(value.build() for value in outer)[:-2]
    octets = head + length.to_bytes(2, "big") + b"\xff" * length + bytes(there - length)
    frame = decode(octets)
    payload = frame.layers[len(outer) :]
    assert payload == ((Data(data=b"\xff" * length),) if length else ())
    assert frame.padding + frame.trailer == bytes(there - length)
    assert encode(frame) == octets


@pytest.mark.parametrize("length", [1, 47, 1500])
def test_802_3_length_beyond_the_frame_is_malformed(length: int) -> None:
    octets = bytes(12) + length.to_bytes(2, "big") + bytes(length - 1)
    with pytest.raises(
        DecodeError, match=f"eth at octet 0: expected {14 + length} octets, got {13 + length} octets"
    ):
        decode(octets)
    assert decode(octets, original_octets=14 + length).cut == 1


def test_ip_length_bounds_the_layers_inside() -> None:
    """In a padded 802.3Q frame, the IP packet ends at its total length."""
    octets = (
        bytes(12)
        + b"\x81\x00\x00\x01\x08\x00"
        + IP_UDP[:2]
        + b"\x00\x1c"
        + IP_UDP[4:24]
        + b"\x00\x08\x00\x00"
    )
    frame = decode(octets + bytes(14))
    assert [type(value).__name__ for value in frame.layers] == ["Ethernet", "VLAN", "IPv4", "UDP"]
    assert frame.padding == bytes(14)


def test_total_length_0_means_all_remaining_octets() -> None:
    """Segmentation offload produces frames with a total length of 0."""
    octets = bytes(12) + b"\x08\x00" + IP_UDP[:2] + b"\x00\x00" + IP_UDP[4:]
    assert decode(octets).layers[-1] == Data(data=bytes(range(18)))


def test_a_total_length_beyond_the_frame_is_malformed() -> None:
    octets = bytes(12) + b"\x08\x00" + IP_UDP[:2] + b"\x00\x2f" + IP_UDP[4:]
    with pytest.raises(DecodeError, match="ip at octet 14: expected 47 octets, got 46 octets"):
        decode(octets)


def test_a_later_fragment_has_no_ports() -> None:
    octets = bytes(12) + b"\x08\x00" + IP_UDP[:6] + b"\x00\x01" + IP_UDP[8:]
    assert [type(value) for value in decode(octets).layers] == [Ethernet, IPv4, Data]


@given(
    st.lists(layers_of(VLAN) | layers_of(STag) | layers_of(CNTag) | layers_of(ITag), min_size=30, max_size=60)
)
def test_deep_stacks_of_mixed_tags(tags: list[VLAN | STag | CNTag | ITag]) -> None:
    octets = encode(Frame(layers=(Ethernet(), *tags, Pause())), fix=True)
    frame = decode(octets)
    assert [type(value) for value in frame.layers[1:-1]] == [type(tag) for tag in tags]
    assert frame.layers[-1] == Pause()
    assert encode(frame) == octets


@given(octets_of())
def test_decoding_twice_gives_equal_frames(octets: bytes) -> None:
    assert decode_lax(octets) == decode_lax(octets)


EXTENDED = (
    HopByHop(), DestinationOptions(options=bytes(14)), Routing(data=bytes(20), segleft=1),
    FragmentHeader(more=1, ident=7), AH(icv=bytes(12), spi=9), DestinationOptions(),
)  # fmt: skip


def extended(*headers: Layer, last: Layer) -> Frame:
    return fixed(Frame(layers=(Ethernet(), IPv6(), *headers, last, Data(data=b"hello"))))


@pytest.mark.parametrize("count", range(len(EXTENDED) + 1))
@pytest.mark.parametrize("transport", [UDP(srcport=5), TCP(dstport=6)], ids=["UDP", "TCP"])
def test_transport_after_ipv6_extension_headers_is_decoded(transport: Layer, count: int) -> None:
    frame = extended(*EXTENDED[:count], last=transport)
    octets = encode(frame)
    found = decode(octets)
    assert [type(value) for value in found.layers] == [type(value) for value in frame.layers]
    assert found.layers[2 : 2 + count] == frame.layers[2 : 2 + count]
    assert encode(found) == octets
    document = json.loads(json.dumps(to_document(found)))
    assert encode(from_document(document)[0]) == octets


def test_only_first_ipv6_fragment_shows_its_transport() -> None:
    for offset, last in ((0, UDP), (1, Data)):
        octets = encode(extended(FragmentHeader(offset=offset), last=UDP()))
        assert type(decode(octets).layers[3]) is last


def test_an_authentication_header_of_no_length_is_malformed() -> None:
    frame = extended(AH(length=0), last=UDP())
    layers = (*frame.layers[:2], AH(length=0, nxt=17), *frame.layers[3:])
    octets = encode(dataclasses.replace(frame, layers=layers))
    assert str(decode_lax(octets).error) == "ah at octet 55: expected length 1..255, got 0"


@pytest.mark.parametrize("header", EXTENDED[:5], ids=lambda value: value.prefix)
def test_cut_extension_header_is_no_error(header: Layer) -> None:
    octets = encode(extended(header, last=UDP()))
    end = 54 + len(header.build())
    for captured in range(54, end):
        assert decode_lax(octets[:captured], original_octets=len(octets)).error is None
        # the IPv6 header's length says that there is more
        assert decode_lax(octets[:captured]).error is not None


BEHIND_SNAP: tuple[tuple[Layer, ...], ...] = (
    (IPv4(), UDP(), Data(data=b"hello")), (IPv6(), TCP()), (IPv6(), HopByHop(), UDP()), (ARP(),),
)  # fmt: skip


@pytest.mark.parametrize("tags", [(), (VLAN(),), (STag(), CNTag())], ids=["none", "VLAN", "S-VLAN, CN"])
@pytest.mark.parametrize("layers", BEHIND_SNAP, ids=["IPv4", "IPv6", "extended", "ARP"])
def test_ip_and_arp_after_snap_are_decoded(layers: tuple[Layer, ...], tags: tuple[Layer, ...]) -> None:
    frame = fixed(Frame(layers=(Ethernet(), *tags, SNAP(), *layers)))
    octets = encode(frame)
    found = decode(octets + bytes(9))
    assert [type(value) for value in found.layers] == [type(value) for value in frame.layers]
    assert (found.layers, encode(found)) == (frame.layers, octets + bytes(9))
    assert encode(from_document(json.loads(json.dumps(to_document(found))))[0]) == octets + bytes(9)


@pytest.mark.parametrize(
    "start",
    ["aaaa03 00000c 0800", "aaaa03 000000", "aaaa03", "aaab03 000000 0800", "abaa03 000000 0800",
     "aaaaf3 000000 0800", "424203", "aaaa03 0000f8 0800"],
)  # fmt: skip
def test_payload_of_other_llc_is_octets(start: str) -> None:
    octets = bytes.fromhex(start)
    found = decode(encode(fixed(Frame(layers=(Ethernet(), Data(data=octets))))) + bytes(40))
    assert {type(value) for value in found.layers[1:]} <= {OtherLLC, OtherSNAP, Data}
    assert b"".join(value.build() for value in found.layers[1:]) == octets


def test_payload_of_other_snap_ethertype_is_octets() -> None:
    for etype in (0x8137, 0x8100, 0x22E7, 46):
        frame = fixed(Frame(layers=(Ethernet(), SNAP(etype=etype), Data(data=bytes(50)))))
        assert decode(encode(frame)).layers == (Ethernet(type=58), SNAP(etype=etype), Data(data=bytes(50)))


@pytest.mark.parametrize("transport", [UDP(srcport=5), TCP(dstport=6)], ids=["UDP", "TCP"])
def test_transport_after_ipv4_authentication_header_is_decoded(transport: Layer) -> None:
    header, ip, *rest = fixed(
        Frame(layers=(Ethernet(), IPv4(), AH(icv=bytes(12)), transport, Data(data=b"hello")))
    ).layers
    for offset, kinds in ((0, [Ethernet, IPv4, AH, type(transport), Data]), (1, [Ethernet, IPv4, Data])):
        octets = encode(Frame(layers=(header, ip.replace(frag_offset=offset), *rest)))
        assert [type(value) for value in decode(octets).layers] == kinds
