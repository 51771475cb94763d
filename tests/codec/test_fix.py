"""``encode(frame, fix=True)`` sets types, lengths, header checksums and padding, and changes nothing else."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import EncodeError
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, layers_of
from ecmproto.wire.codec import (
    CNM,
    ECM,
    TCP,
    TLV,
    UDP,
    VLAN,
    CNTag,
    CongestionNotificationTLV,
    Data,
    Ethernet,
    Frame,
    IPv4,
    IPv6,
    Pause,
    RDTag,
    decode,
    decode_lax,
    encode,
)
from ecmproto.wire.codec.frame import fixed

DATA = Data(data=b"x" * 50)


@given(frames())
def test_fix_leaves_valid_frames_unchanged(frame: Frame) -> None:
    assert fixed(decode(encode(frame))) == frame


@given(arbitrary_octets())
def test_fixing_twice_changes_nothing_more(octets: bytes) -> None:
    frame = decode_lax(octets)
    try:
        once = fixed(frame)
    except EncodeError:
        return  # more octets than a length field holds
    assert fixed(once) == once
    assert len(encode(once)) >= 60


def test_fix_sets_types_of_following_layers() -> None:
    frame = Frame(layers=(Ethernet(), VLAN(), CNTag(), RDTag(), IPv4(), UDP(), DATA))
    octets = encode(frame, fix=True)
    types = [getattr(value, value.next_key) for value in decode(octets).layers if value.next_key]
    assert types == [0x8100, 0x22E9, 0x88B6, 0x0800]
    assert decode(octets)[IPv4].proto == 17


def test_fix_keeps_type_of_unknown_payload() -> None:
    assert fixed(Frame(layers=(Ethernet(type=0x88F7), DATA))).layers == (Ethernet(type=0x88F7), DATA)


def test_802_3_length_counts_the_payload() -> None:
    for tags in ((), (VLAN(),), (VLAN(), CNTag())):
        last = fixed(Frame(layers=(Ethernet(), *tags, DATA))).layers[len(tags)]
        assert getattr(last, last.next_key) == 50
    long = fixed(Frame(layers=(Ethernet(type=7), Data(data=bytes(1501)))))
    assert long[Ethernet].type == 7  # no length says so much, and no type is known


def test_the_old_s_tag_type_stays() -> None:
    frame = Frame(layers=(Ethernet(type=0x9100), VLAN(etype=0x88F7), DATA))
    assert fixed(frame) == frame


def test_lengths() -> None:
    assert fixed(Frame(layers=(Ethernet(), CNM(msdu=b"abc"))))[CNM].msdu_length == 3
    assert fixed(Frame(layers=(Ethernet(), TLV(type=1, value=b"abc"), TLV())))[TLV].length == 3
    wrong = CongestionNotificationTLV(length=7)
    assert fixed(Frame(layers=(Ethernet(), wrong))).layers[1] == CongestionNotificationTLV()
    frame = fixed(Frame(layers=(Ethernet(), IPv4(options=bytes(8)), TCP(options=bytes(4)), DATA)))
    assert (frame[IPv4].ihl, frame[IPv4].len, frame[TCP].data_offset) == (7, 28 + 24 + 50, 6)
    frame = fixed(Frame(layers=(Ethernet(), IPv6(), UDP(), DATA)))
    assert (frame[IPv6].plen, frame[IPv6].nxt, frame[UDP].length) == (58, 17, 58)


def test_length_too_large_for_field_is_refused() -> None:
    for layers, field in (
        ((IPv4(), Data(data=bytes(65536))), "len"),
        ((IPv4(options=bytes(44)),), "ihl"),
        ((TLV(type=1, value=bytes(512)), TLV()), "length"),
        ((CNM(msdu=bytes(65536)),), "msdu_length"),
    ):
        with pytest.raises(EncodeError, match=rf"\.{field}: expected an integer"):
            encode(Frame(layers=(Ethernet(), *layers)), fix=True)


@pytest.mark.parametrize(("octets", "padding"), [(0, 46), (1, 45), (45, 1), (46, 0), (47, 0)])
def test_padding_fills_up_to_60(octets: int, padding: int) -> None:
    frame = fixed(Frame(layers=(Ethernet(), *([Data(data=b"x" * octets)] if octets else []))))
    assert frame.padding == bytes(padding)


def test_fix_keeps_existing_padding() -> None:
    frame = Frame(layers=(Ethernet(type=0x8808), Pause()), padding=b"abc" * 20, trailer=b"t", fcs=b"fcs!")
    assert encode(frame, fix=True) == encode(frame)


def test_given_fields_stay() -> None:
    frame = Frame(layers=(Ethernet(type=5), CNM(msdu_length=9, msdu=b"a")))
    kept = fixed(frame, given=(frozenset({"type"}), frozenset({"msdu_length"})))
    assert kept.layers == frame.layers
    assert fixed(frame, given=(frozenset(), frozenset({"msdu_length"}))).layers == (
        Ethernet(type=0x22E7),
        CNM(msdu_length=9, msdu=b"a"),
    )


def test_encoding_without_fix_repairs_nothing() -> None:
    frame = Frame(layers=(Ethernet(type=7), CNM(msdu_length=9), ECM()))
    assert encode(frame) == Ethernet(type=7).build() + CNM(msdu_length=9).build() + ECM().build()


@given(header=layers_of(IPv4), data=st.binary(max_size=40))
def test_the_header_checksum_is_scapys(header: IPv4, data: bytes) -> None:
    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False
    from scapy.layers.inet import IP
    from scapy.packet import Raw

    layers = (Ethernet(), header.replace(frag_offset=0, proto=200), *([Data(data=data)] if data else []))
    ours = fixed(Frame(layers=layers))[IPv4]
    theirs = IP(ours.build())
    del theirs.chksum, theirs.len, theirs.ihl
    theirs = IP(bytes(theirs / Raw(data)))
    assert (ours.checksum, ours.len, ours.ihl) == (theirs.chksum, theirs.len, theirs.ihl)
