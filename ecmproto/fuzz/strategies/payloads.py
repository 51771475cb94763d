"""What data frames carry: IP with and without a transport header, ARP, octets of any kind."""

from __future__ import annotations

import functools

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.fuzz.strategies.layers import MAX_DRAWN_OCTETS, layers_of
from ecmproto.fuzz.strategies.surroundings import unknown_ethertypes
from ecmproto.wire.ethernet import Data
from ecmproto.wire.ip import ARP, EXTENSIONS, NO_NEXT_HEADER, PROTO_TCP, PROTO_UDP, TCP, UDP, IPv4, IPv6
from ecmproto.wire.layer import Layer


@functools.cache
def payload_layers() -> SearchStrategy[tuple[int, list[Layer]]]:
    """Return ``(ethertype, layers)`` of a payload, the value 0 where the layers say it themselves.

    IPv4 and IPv6 with UDP, TCP or other octets, ARP, octets of an unknown EtherType, octets behind an 802.3
    length.
    """
    return _payload()


@st.composite
def _payload(draw: DrawFn) -> tuple[int, list[Layer]]:
    kind = draw(st.sampled_from(("raw", "length", "ipv4", "ipv6", "arp")))
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
    kinds = draw(st.lists(st.sampled_from(sorted(EXTENSIONS)), max_size=3))
    # a later fragment shows nothing
    chain = [
        draw(layers_of(EXTENSIONS[kind], **({"offset": 0} if kind == _FRAGMENT else {}))) for kind in kinds
    ]
    if chain:
        chain[-1] = chain[-1].replace(**last)
        last = {}
    return 0, [draw(layers_of(IPv6, **last)), *chain, *transport, *data]


_FRAGMENT = 44


def _no_transport(proto: int) -> bool:
    return proto not in (PROTO_TCP, PROTO_UDP, *EXTENSIONS)


@st.composite
def _ipv4(draw: DrawFn, followed: bool) -> IPv4:
    if followed:
        return draw(layers_of(IPv4, frag_offset=0))
    if draw(st.booleans()):
        return draw(layers_of(IPv4, frag_offset=st.integers(1, 0x1FFF)))
    return draw(layers_of(IPv4, proto=st.integers(0, 255).filter(_no_transport)))
