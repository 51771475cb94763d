"""The IP packet of a frame, found by the kernels of flow tables, messages and ECN marks.

`packet_at` follows the rules of `ecmproto.wire.codec.frame`: tags, an I-TAG, LLC and SNAP, IPv4 with options,
IPv6 with extension headers, GRH, UDP and TCP, and the base transport header of RoCE.  Lengths in headers
bound what follows them, so that a trailer is never taken for a packet.  `tests/batch/test_packets.py`
compares it with the codec over drawn, mutated and captured frames.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import (
    AUTHENTICATION,
    EXTENSION,
    FRAGMENT,
    I_TAG,
    SNAP_OCTETS,
    TCP_HEADER,
    TYPE_AT,
    UDP_HEADER,
    headers_of,
    is_snap,
    rule_of,
    signed,
    two_octets,
)
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.wire.formats.ethernet import ITag
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.infiniband import BTH, IBA_TRANSPORT, ROCE_ETHERTYPE, ROCE_PORT
from ecmproto.wire.formats.ip import NO_NEXT_HEADER, UDP, IPv4, IPv6

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NOWHERE = -1
"""The offset of a header that a frame does not have."""
NO_NETWORK, IP4, IP6, GLOBAL = 0, 4, 6, 1
"""Kinds of the network header after a frame's tags: neither IP nor a GRH, IPv4, IPv6, a GRH."""

_IPV4, _IPV6 = 0x0800, 0x86DD
_IPV4_OCTETS, _IPV6_OCTETS = IPv4.fixed_octets, IPv6.fixed_octets
_UDP_OCTETS, _BTH_OCTETS = UDP.fixed_octets, BTH.fixed_octets
_MIN_BTH_OCTETS = BTH.least_octets
_PORTS_OCTETS = 4
_FRAGMENT_OCTETS, _MIN_EXTENSION_OCTETS, _MIN_AH_OCTETS = 8, 8, 12
_I_TAG_OCTETS = ITag.fixed_octets


class Packet(NamedTuple):
    """The packet of one frame; all offsets are from the start of the buffer."""

    kind: int
    """NO_NETWORK, IP4, IP6 or GLOBAL."""
    network: int
    """Offset of the network header; NOWHERE without a complete one."""
    protocol: int
    """IP protocol after all extension headers; 0 without a network header."""
    payload: int
    """Offset of the octets that ``protocol`` announces; NOWHERE without them, as in later fragments."""
    transport: int
    """Offset of the UDP or TCP header; NOWHERE without its two ports."""
    bth: int
    """Offset of the base transport header; NOWHERE without one."""
    stop: int
    """End of the packet's captured octets."""


@inlined
def packet_at(buffer: Octets, start: int, end: int, reach: int, roles: Octets) -> Packet:
    """Return the packet of the frame at ``start``, captured up to ``end``, on the wire up to ``reach``.

    ``roles`` are `ecmproto.frames.batch.headers.roles_of`.
    """
    headers = headers_of(buffer, start, end, roles)
    while headers.role == I_TAG and headers.msdu_at + 2 + _I_TAG_OCTETS <= end:
        headers = headers_of(buffer, headers.msdu_at + _I_TAG_OCTETS - TYPE_AT, end, roles)
    at = headers.msdu_at
    if at + 2 > end:
        return _no_packet(end)
    ethertype = two_octets(buffer, at)
    network, stop = at + 2, end
    if ethertype <= MAX_LENGTH:
        stop, reach = min(end, network + ethertype), min(reach, network + ethertype)
        if not is_snap(buffer, network, stop):
            return _no_packet(end)
        network += SNAP_OCTETS
        ethertype = two_octets(buffer, network - 2)
        if ethertype == ROCE_ETHERTYPE:
            return _no_packet(end)
    if ethertype == _IPV4:
        return _ip4_packet(buffer, network, stop, reach, roles)
    if ethertype == _IPV6:
        return _ip6_packet(buffer, network, stop, reach, roles)
    if ethertype == ROCE_ETHERTYPE:
        return _global_packet(buffer, network, stop, reach)
    return _no_packet(end)


@inlined
def ip_packet_at(buffer: Octets, network: int, stop: int, reach: int, roles: Octets) -> Packet:
    """Return the IP packet whose header starts at ``network``; other arguments as in `packet_at`."""
    version = signed(buffer[network]) >> 4 if network < stop else 0
    if version == IP4:
        return _ip4_packet(buffer, network, stop, reach, roles)
    if version == IP6:
        return _ip6_packet(buffer, network, stop, reach, roles)
    return _no_packet(stop)


@inlined
def _no_packet(end: int) -> Packet:
    return Packet(NO_NETWORK, NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE, end)


@inlined
def _ip4_packet(buffer: Octets, network: int, stop: int, reach: int, roles: Octets) -> Packet:
    if network + _IPV4_OCTETS > stop or signed(buffer[network]) >> 4 != IP4:
        return _no_packet(stop)
    header = 4 * (signed(buffer[network]) & 15)
    length = two_octets(buffer, network + 2)
    if header < _IPV4_OCTETS or network + header > stop or 0 < length < header:
        return _no_packet(stop)
    if length > 0:
        stop, reach = min(stop, network + length), min(reach, network + length)
    protocol = signed(buffer[network + 9])
    if two_octets(buffer, network + 6) & 0x1FFF != 0:
        return Packet(IP4, network, protocol, NOWHERE, NOWHERE, NOWHERE, stop)
    rule = rule_of(roles, IP4, protocol)
    return _behind_ip(buffer, IP4, network, network + header, protocol, rule, stop, reach, roles)


@inlined
def _ip6_packet(buffer: Octets, network: int, stop: int, reach: int, roles: Octets) -> Packet:
    if network + _IPV6_OCTETS > stop or signed(buffer[network]) >> 4 != IP6:
        return _no_packet(stop)
    length, protocol = two_octets(buffer, network + 4), signed(buffer[network + 6])
    behind = network + _IPV6_OCTETS
    if length > 0 or protocol == NO_NEXT_HEADER:
        stop, reach = min(stop, behind + length), min(reach, behind + length)
    rule = rule_of(roles, IP6, protocol)
    return _behind_ip(buffer, IP6, network, behind, protocol, rule, stop, reach, roles)


@inlined
def _behind_ip(
    buffer: Octets, kind: int, network: int, at: int, protocol: int, rule: int, stop: int, reach: int,
    roles: Octets,
) -> Packet:  # fmt: skip
    """Return the packet whose header with ``protocol`` starts at ``at``; skip extension headers."""
    while rule >= FRAGMENT:
        octets = _FRAGMENT_OCTETS
        if at + octets > stop:
            return Packet(kind, network, protocol, NOWHERE, NOWHERE, NOWHERE, stop)
        if rule == EXTENSION:
            octets = _MIN_EXTENSION_OCTETS + 8 * signed(buffer[at + 1])
        elif rule == AUTHENTICATION:
            octets = max(_MIN_AH_OCTETS, 8 + 4 * signed(buffer[at + 1]))
        if at + octets > stop:
            return Packet(kind, network, protocol, NOWHERE, NOWHERE, NOWHERE, stop)
        protocol = signed(buffer[at])
        # The ports of a packet stand in its first fragment alone.
        if rule == FRAGMENT and two_octets(buffer, at + 2) >> 3 != 0:
            return Packet(kind, network, protocol, NOWHERE, NOWHERE, NOWHERE, stop)
        rule = rule_of(roles, IP6, protocol)
        at += octets
    if (rule != UDP_HEADER and rule != TCP_HEADER) or at + _PORTS_OCTETS > stop:
        return Packet(kind, network, protocol, at, NOWHERE, NOWHERE, stop)
    bth = NOWHERE
    if rule == UDP_HEADER and at + _UDP_OCTETS <= stop and two_octets(buffer, at + 2) == ROCE_PORT:
        bth = _bth_at(buffer, at + _UDP_OCTETS, stop, reach)
    return Packet(kind, network, protocol, at, at, bth, stop)


@inlined
def _global_packet(buffer: Octets, network: int, stop: int, reach: int) -> Packet:
    """Return the packet after a GRH, which has the layout of an IPv6 header."""
    if network + _IPV6_OCTETS > stop or signed(buffer[network]) >> 4 != IP6:
        return _no_packet(stop)
    length, protocol = two_octets(buffer, network + 4), signed(buffer[network + 6])
    behind = network + _IPV6_OCTETS
    if length > 0:
        stop, reach = min(stop, behind + length), min(reach, behind + length)
    bth = _bth_at(buffer, behind, stop, reach) if protocol == IBA_TRANSPORT else NOWHERE
    return Packet(GLOBAL, network, protocol, behind, NOWHERE, bth, stop)


@inlined
def _bth_at(buffer: Octets, at: int, stop: int, reach: int) -> int:
    """Return ``at`` if a base transport header starts there; see `ecmproto.wire.formats.infiniband.BTH`."""
    if at + _BTH_OCTETS > stop or at + _MIN_BTH_OCTETS > reach:
        return NOWHERE
    is_none = two_octets(buffer, at) == 0 and two_octets(buffer, at + 2) == 0
    return NOWHERE if is_none else at


@inlined
def is_udp_message(
    buffer: Octets, start: int, end: int, reach: int, roles: Octets, port: int, first_octet: int
) -> bool:
    """Return whether the frame is a UDP datagram to ``port`` whose payload starts with ``first_octet``.

    Arguments as in `packet_at`.
    """
    packet = packet_at(buffer, start, end, reach, roles)
    at = packet.transport + _UDP_OCTETS
    if packet.transport == NOWHERE or rule_of(roles, IP4, packet.protocol) != UDP_HEADER or at >= packet.stop:
        return False
    return two_octets(buffer, packet.transport + 2) == port and signed(buffer[at]) == first_octet


@over_batches
def find_udp_messages(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    original: Int64,
    roles: Octets,
    port: int,
    first_octet: int,
    found: NDArray[np.bool_],
) -> None:
    """Fill ``found``: whether each frame is a UDP datagram to a port that starts with an octet."""
    for i in range(len(offset)):
        start = offset[i]
        reach = start + max(captured[i], original[i])
        found[i] = is_udp_message(buffer, start, start + captured[i], reach, roles, port, first_octet)
