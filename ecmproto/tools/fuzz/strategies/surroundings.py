"""Strategies for addresses, EtherTypes, tag stacks and payloads."""

from __future__ import annotations

import functools

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.tools.fuzz.strategies.layers import (
    ARPS,
    MAX_DRAWN_OCTETS,
    cm_tags,
    cn_tags,
    layers_of,
    rd_tags,
    rrt_tags,
)
from ecmproto.wire.formats import lldp
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.cn import CNTag
from ecmproto.wire.formats.ethernet import NOVELL, SNAP, VLAN, Data, ITag, OtherLLC, OtherSNAP, STag
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH
from ecmproto.wire.formats.hpcc import INTTag
from ecmproto.wire.formats.ip import EXTENSIONS, NO_NEXT_HEADER, TCP, UDP, IPv4, IPv6
from ecmproto.wire.formats.registry import AFTER_IPV6, FORMATS, OWN, announcement

RESERVED_TYPES = frozenset(
    value for cls in FORMATS if (value := announcement(cls, DEFAULT)) is not None
).union({DEFAULT.old_s_tag}, *(cls.further_ethertypes for cls in FORMATS))  # fmt: skip


@functools.cache
def unknown_ethertypes() -> SearchStrategy[int]:
    """Return values above 1500 that select no format in the default EtherType map."""
    likely = st.sampled_from([0x88F7, 0x88E5, 0x0600, 0xFFFF, MAX_LENGTH + 1])
    return likely | st.integers(MAX_LENGTH + 1, 0xFFFF).filter(lambda value: value not in RESERVED_TYPES)


@functools.cache
def addresses() -> SearchStrategy[bytes]:
    """Return MAC addresses: individual, group, all zeros, broadcast."""
    likely = [bytes.fromhex("020000000001"), bytes.fromhex("020000000002"), bytes(6), b"\xff" * 6]
    return st.sampled_from([*likely, lldp.DESTINATION]) | st.binary(min_size=6, max_size=6)


@functools.cache
def vlan_stacks(*, max_size: int = 3) -> SearchStrategy[list[Layer]]:
    """Return stacks of C-TAGs and S-TAGs, outermost first. In half of the stacks, S-TAGs precede C-TAGs."""
    tag: SearchStrategy[Layer] = layers_of(VLAN) | layers_of(STag)
    return _stacks(tag, max_size)


@functools.cache
def tag_stacks(*, max_size: int = 5) -> SearchStrategy[list[Layer]]:
    """Return stacks of all tags: VLAN tags, I-TAGs, CN-TAGs and experimental tags.

    Half of the stacks have the order of wire-formats 1.2 (S-TAGs, PBB I-TAG, C-TAGs, CN-TAG, experimental
    tags). The other half of the stacks has any order.
    """
    tag: SearchStrategy[Layer] = st.one_of(
        layers_of(VLAN),
        layers_of(STag),
        cn_tags(),
        layers_of(ITag),
        cm_tags(),
        rrt_tags(),
        rd_tags(),
        layers_of(INTTag),
        *(layers_of(cls) for cls in FORMATS[len(OWN) :] if cls.role == "tag"),
    )
    return _stacks(tag, max_size)


_ORDER = {STag: 0, ITag: 1, VLAN: 2, CNTag: 3}


def _stacks(tag: SearchStrategy[Layer], max_size: int) -> SearchStrategy[list[Layer]]:
    # the list is sorted after it is drawn, so that shrinking can remove any tag
    return st.builds(_ordered, st.lists(tag, max_size=max_size), st.booleans())


def _ordered(tags: list[Layer], sensibly: bool) -> list[Layer]:
    return sorted(tags, key=lambda tag: _ORDER.get(type(tag), len(_ORDER))) if sensibly else tags


@functools.cache
def payload_layers() -> SearchStrategy[tuple[int, list[Layer]]]:
    """Return ``(ethertype, layers)`` of a payload.

    The EtherType is 0 if the layers determine their EtherType.

    A payload is IPv4 or IPv6 with UDP, TCP or other octets, IPv6 with extension headers, ARP, octets of an
    unknown EtherType, octets or LLC after an 802.3 length, or IP, ARP or octets after LLC and SNAP.
    """
    return _payload()


_ARPS = {cls.prefix: cls for cls in ARPS}
_SURROUNDINGS = tuple((kind, False) for kind in ("raw", "length", "llc", "ipv4", "ipv6", "extended", *_ARPS))
_SNAPPED = tuple((kind, True) for kind in ("raw", "ipv4", "extended", "arp"))


@st.composite
def _payload(draw: DrawFn) -> tuple[int, list[Layer]]:
    # a single choice, which shrinks to the first element
    kind, snapped = draw(st.sampled_from((*_SURROUNDINGS, *_SNAPPED)))
    ethertype, layers = draw(_of_kind(kind))
    return (0, [draw(layers_of(SNAP, etype=ethertype)), *layers]) if snapped else (ethertype, layers)


@st.composite
def _of_kind(draw: DrawFn, kind: str) -> tuple[int, list[Layer]]:
    octets = draw(st.binary(max_size=MAX_DRAWN_OCTETS))
    data: list[Layer] = [Data(data=octets)] if octets else []
    if kind == "raw":
        return draw(unknown_ethertypes()), data
    if kind == "length":
        return 2 + len(octets), [Data(data=NOVELL + octets)]
    if kind == "llc":
        return 0, [draw(layers_of(OtherLLC) | layers_of(OtherSNAP)), *data]
    if kind in _ARPS:
        return 0, [draw(layers_of(_ARPS[kind]))]
    udp_or_tcp: SearchStrategy[Layer] = layers_of(UDP) | layers_of(TCP)
    transport = draw(st.lists(udp_or_tcp, max_size=1))
    if kind == "ipv4":
        return 0, [draw(_ipv4(bool(transport))), *transport, *data]
    # a payload length of 0 means an unknown length, unless there is also no next header
    other = st.just(NO_NEXT_HEADER) if not data else st.integers(0, 255).filter(_no_transport)
    last = {} if transport else {"nxt": draw(other)}
    types = draw(_extension_headers()) if kind == "extended" else []
    # only the first fragment contains the payload header
    chain = [draw(layers_of(EXTENSIONS[one], **({"offset": 0} if one == _FRAGMENT else {}))) for one in types]
    if chain:
        chain[-1] = chain[-1].replace(**last)
        last = {}
    return 0, [draw(layers_of(IPv6, **last)), *chain, *transport, *data]


_FRAGMENT = 44


@functools.cache
def _extension_headers() -> SearchStrategy[list[int]]:
    ordered = st.lists(st.sampled_from(sorted(EXTENSIONS)), min_size=1, max_size=4)
    return ordered | st.permutations(sorted(EXTENSIONS))


def _no_transport(proto: int) -> bool:
    return proto not in AFTER_IPV6


@st.composite
def _ipv4(draw: DrawFn, followed: bool) -> IPv4:
    if followed:
        return draw(layers_of(IPv4, frag_offset=0))
    if draw(st.booleans()):
        return draw(layers_of(IPv4, frag_offset=st.integers(1, 0x1FFF)))
    return draw(layers_of(IPv4, proto=st.integers(0, 255).filter(_no_transport)))
