"""What data frames carry: IP with and without a transport header, ARP, octets of any kind."""

from __future__ import annotations

import functools

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import SNAP, Data
from ecmproto.formats.ip import ARP, EXTENSIONS, NO_NEXT_HEADER, PROTO_TCP, PROTO_UDP, TCP, UDP, IPv4, IPv6
from ecmproto.fuzz.strategies.layers import MAX_DRAWN_OCTETS, layers_of
from ecmproto.fuzz.strategies.surroundings import unknown_ethertypes


@functools.cache
def payload_layers() -> SearchStrategy[tuple[int, list[Layer]]]:
    """Return ``(ethertype, layers)`` of a payload, the value 0 where the layers say it themselves.

    IPv4 and IPv6 with UDP, TCP or other octets, IPv6 with extension headers, ARP, octets of an unknown
    EtherType, octets behind an 802.3 length, and IP, ARP and octets behind LLC and SNAP.
    """
    return _payload()


_KINDS = tuple((kind, False) for kind in ("raw", "length", "ipv4", "ipv6", "extended", "arp"))
_SNAPPED = tuple((kind, True) for kind in ("raw", "ipv4", "extended", "arp"))


@st.composite
def _payload(draw: DrawFn) -> tuple[int, list[Layer]]:
    # one choice, which shrinks to the first
    kind, snapped = draw(st.sampled_from((*_KINDS, *_SNAPPED)))
    ethertype, layers = draw(_of_kind(kind))
    return (0, [draw(layers_of(SNAP, etype=ethertype)), *layers]) if snapped else (ethertype, layers)


@st.composite
def _of_kind(draw: DrawFn, kind: str) -> tuple[int, list[Layer]]:
    octets = draw(st.binary(max_size=MAX_DRAWN_OCTETS))
    data: list[Layer] = [Data(data=octets)] if octets else []
    if kind == "raw":
        return draw(unknown_ethertypes()), data
    if kind == "length":
        return len(octets), data
    if kind == "arp":
        return 0, [draw(layers_of(ARP))]
    udp_or_tcp: SearchStrategy[Layer] = layers_of(UDP) | layers_of(TCP)
    transport = draw(st.lists(udp_or_tcp, max_size=1))
    if kind == "ipv4":
        return 0, [draw(_ipv4(bool(transport))), *transport, *data]
    # a payload length of 0 would say that there is no length, unless there is no next header either
    other = st.just(NO_NEXT_HEADER) if not data else st.integers(0, 255).filter(_no_transport)
    last = {} if transport else {"nxt": draw(other)}
    kinds = draw(_extension_headers()) if kind == "extended" else []
    # a later fragment shows nothing
    chain = [draw(layers_of(EXTENSIONS[one], **({"offset": 0} if one == _FRAGMENT else {}))) for one in kinds]
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
    return proto not in (PROTO_TCP, PROTO_UDP, *EXTENSIONS)


@st.composite
def _ipv4(draw: DrawFn, followed: bool) -> IPv4:
    if followed:
        return draw(layers_of(IPv4, frag_offset=0))
    if draw(st.booleans()):
        return draw(layers_of(IPv4, frag_offset=st.integers(1, 0x1FFF)))
    return draw(layers_of(IPv4, proto=st.integers(0, 255).filter(_no_transport)))
