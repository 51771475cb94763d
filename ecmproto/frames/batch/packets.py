"""Kernels that find the tags and the packet of a frame.

Ports, flow tables, messages and ECN marks use these kernels.

The kernels use the rules of `ecmproto.frames.batch.steps` and stop as early as possible. The tags are VLAN
tags, CN-TAGs, experimental tags and the tags of other formats (`ecmproto.wire.codec.tags.is_tag`), in any
order and number (wire-formats 1.2). The tags end at the EtherType or length of the payload, which is the
start of the MSDU (wire-formats 3). An I-TAG is payload. An experimental tag with an unassigned Protocol or
Type is also payload, because its length is unknown. The packet is the outermost packet. Lengths in headers
limit the following octets, so that a trailer is never part of a packet.

Parameters of the kernels: ``start`` is the offset of the frame in the buffer, ``end`` is the offset after the
last captured octet, and ``tables`` is the result of `parse_tables` for the EtherTypes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import HEADER_OCTETS, TYPE_AT, signed, two_octets
from ecmproto.frames.batch.parse_tables import (
    BASE_TRANSPORT,
    CN_TAG,
    EXTENSION_HEADER,
    IP4,
    IP6,
    IP_LEN,
    IP_PROTO,
    LINK_HEADER,
    NO_DOUBT,
    NO_NETWORK,
    NUMBER_OF,
    OTHER,
    OTHERWISE,
    PAYLOAD,
    PORT,
    PORTS,
    TAG_HEADER,
    VLAN_TAG,
    ParseTables,
)
from ecmproto.frames.batch.steps import (
    NO_ERROR,
    NO_LENGTH,
    after_port,
    announced,
    doubted,
    is_later_fragment,
    next_format,
    refused,
    variable_part,
)
from ecmproto.kernels.kernel import compiled, inlined, over_batches
from ecmproto.wire.formats.ethernet import Data, Ethernet
from ecmproto.wire.formats.ip import UDP, IPv4, IPv6

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NOWHERE = -1
"""Offset of a missing header."""
NO_VLAN = -1

_ETHERNET, _IPV4, _IPV6, _UDP, _DATA = (NUMBER_OF[cls] for cls in (Ethernet, IPv4, IPv6, UDP, Data))
_UDP_OCTETS = UDP.fixed_octets
_PORTS_OCTETS = 4
_IPV4_OCTETS, _IPV4_TYPE = IPv4.fixed_octets, IPv4.announced_by
PLAIN_IPV4 = 0x45
"""First octet of an IPv4 header without options."""


class Headers(NamedTuple):
    """Values from the tags of one frame."""

    vlan: int
    """VLAN identifier in the outermost VLAN tag, or NO_VLAN without a VLAN tag."""
    priority: int
    """Priority of the outermost VLAN tag, or 0 without a VLAN tag."""
    cn_tagged: bool
    flow_id: int
    """Flow ID of the outermost CN-TAG, or 0 without a CN-TAG."""
    role: int
    """Role of the EtherType after the tags."""
    msdu_at: int
    """Offset of the MSDU in the buffer, limited to the end of the frame."""


@inlined
def role_at(buffer: Octets, at: int, tables: ParseTables) -> int:
    """Return the role of the EtherType at ``at``."""
    return signed(tables.roles[two_octets(buffer, at)])


@inlined
def tag_octets(buffer: Octets, at: int, end: int, tables: ParseTables) -> int:
    """Return the length in octets of the tag whose EtherType is at ``at``, or 0 if there is no tag.

    The result is 0 for the EtherType of any other format, and for truncated control information. An
    experimental tag must also have an assigned type and, if the type requires a CPID, a valid CPID.
    """
    if at + 4 > end or role_at(buffer, at, tables) < VLAN_TAG:
        return 0
    layer = announced(buffer, two_octets(buffer, at), at + 2, end, tables).layer
    if layer < 0 or tables.parts[layer] != TAG_HEADER:
        return 0
    named = tables.doubts[layer, OTHERWISE] == NO_DOUBT or not doubted(
        buffer, layer, at + 2, end, end, tables
    )
    return int(tables.fixed[layer]) if named else 0


@inlined
def headers_of(buffer: Octets, start: int, end: int, tables: ParseTables) -> Headers:
    """Return the values from the tags of a frame."""
    at = start + TYPE_AT
    vlan = NO_VLAN
    priority = flow_id = 0
    cn_tagged = False
    role = OTHER
    while at + 2 <= end:
        role = role_at(buffer, at, tables)
        octets = tag_octets(buffer, at, end, tables)
        if octets == 0:
            break
        control = two_octets(buffer, at + 2)
        if role == CN_TAG and not cn_tagged:
            cn_tagged = True
            flow_id = control
        elif role == VLAN_TAG and vlan == NO_VLAN:
            vlan = control & 0xFFF
            priority = control >> 13
        at += octets
        role = OTHER
    return Headers(vlan, priority, cn_tagged, flow_id, role, min(at, end))


class Packet(NamedTuple):
    """The packet of one frame. Offsets are relative to the start of the buffer."""

    kind: int
    """Type of the network header: NO_NETWORK, IP4, IP6 or GLOBAL (`parse_tables`)."""
    network: int
    """Offset of the network header, or NOWHERE without a complete network header."""
    protocol: int
    """IP protocol after all extension headers, or 0 without a network header."""
    payload: int
    """Offset of the payload that ``protocol`` announces, NOWHERE without a payload, as in later fragments."""
    transport: int
    """Offset of the UDP or TCP header, or NOWHERE if the two ports are not captured."""
    bth: int
    """Offset of the base transport header, or NOWHERE without a base transport header."""
    stop: int
    """End of the captured octets of the packet."""


@inlined
def packet_at(buffer: Octets, start: int, end: int, reach: int, tables: ParseTables) -> Packet:
    """Return the packet of the frame at ``start``.

    ``end`` is the end of the captured octets, and ``reach`` is the end on the wire.
    """
    return _packet_from(buffer, _ETHERNET, start, end, reach, tables)


@inlined
def ip_packet_at(buffer: Octets, network: int, stop: int, reach: int, tables: ParseTables) -> Packet:
    """Return the IP packet whose header starts at ``network``.

    All other parameters are the same as for `packet_at`.
    """
    version = signed(buffer[network]) >> 4 if network < stop else 0
    layer = _IPV4 if version == IP4 else _IPV6 if version == IP6 else _DATA
    return _packet_from(buffer, layer, network, stop, reach, tables)


@inlined
def _plain_packet(
    buffer: Octets, layer: int, start: int, stop: int, reach: int, tables: ParseTables
) -> Packet:
    """Return a simple IPv4 packet, or a packet without a network header for any other packet.

    A simple packet has no options, no extension headers and no fragmentation. Most frames contain such a
    packet, and the general walk would take four times as long.
    """
    network = start + HEADER_OCTETS if layer == _ETHERNET else start
    payload = network + _IPV4_OCTETS
    none = Packet(NO_NETWORK, NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE, stop)
    if payload + _PORTS_OCTETS > stop or signed(buffer[network]) != PLAIN_IPV4:
        return none
    if layer != _IPV4 and (layer != _ETHERNET or two_octets(buffer, start + TYPE_AT) != _IPV4_TYPE):
        return none
    end, protocol = network + two_octets(buffer, network + IP_LEN.at), signed(buffer[network + IP_PROTO.at])
    following = signed(tables.transport[0, protocol])
    part = signed(tables.parts[following])
    if end < payload + _PORTS_OCTETS or is_later_fragment(buffer, _IPV4, network, tables):
        return none
    if part == EXTENSION_HEADER:
        return none
    stop, bth = min(stop, end), NOWHERE
    if part != PORTS:
        return Packet(IP4, network, protocol, payload, NOWHERE, NOWHERE, stop)
    if tables.follows[following] == PORT:
        port = two_octets(buffer, payload + tables.next_at[following])
        after = payload + tables.fixed[following]
        above = after_port(buffer, port, after, stop, tables).layer
        if above < 0:
            return none
        if tables.parts[above] == BASE_TRANSPORT:
            if doubted(buffer, above, after, stop, min(reach, end), tables):
                return none
            bth = after
    return Packet(IP4, network, protocol, payload, payload, bth, stop)


@compiled
def _packet_from(
    buffer: Octets, layer: int, start: int, stop: int, reach: int, tables: ParseTables
) -> Packet:
    """Return the packet in the octets from ``start`` on. The first layer has the format ``layer``."""
    #     tags, LLC … ──> network header ──> extension headers ──> payload: ports ──> base transport header
    #
    # A truncated or rejected header ends the walk, and so does any other format.
    plain = _plain_packet(buffer, layer, start, stop, reach, tables)
    if plain.kind != NO_NETWORK:
        return plain
    pos, end = start, stop
    kind, network, protocol = NO_NETWORK, NOWHERE, 0
    payload = transport = bth = NOWHERE
    while layer >= 0:
        if tables.doubts[layer, OTHERWISE] != NO_DOUBT and doubted(buffer, layer, pos, stop, reach, tables):
            layer = tables.doubts[layer, OTHERWISE]
        part = signed(tables.parts[layer])
        if network == NOWHERE:
            if part == PAYLOAD or part > LINK_HEADER:
                break
        elif part != EXTENSION_HEADER:
            payload = pos if payload == NOWHERE else payload
            if part == PORTS and pos + _PORTS_OCTETS <= stop:
                transport = pos
            if part == BASE_TRANSPORT:
                bth = pos
            if tables.follows[layer] != PORT:
                break
        if stop - pos < tables.fixed[layer]:
            break
        variable = variable_part(buffer, layer, pos, stop, tables)
        if variable.missing > 0:
            break
        if tables.refuses[layer]:
            wrong = refused(buffer, layer, pos, variable.octets, reach, tables)
            if wrong.what != NO_ERROR:
                break
        if network == NOWHERE and part <= IP6:
            kind, network = part, pos
        if part <= IP6 or part == EXTENSION_HEADER:
            protocol = signed(buffer[pos + tables.next_at[layer]])
        after = pos + tables.fixed[layer] + max(0, variable.octets)
        following = next_format(buffer, layer, pos, after, stop, tables)
        if following.length_at != NO_LENGTH:
            stop, reach = min(stop, following.bound), min(reach, following.bound)
        if is_later_fragment(buffer, layer, pos, tables):
            break
        layer, pos = following.layer, after
    return Packet(kind, network, protocol, payload, transport, bth, end if network == NOWHERE else stop)


@inlined
def is_udp_message(
    buffer: Octets, start: int, end: int, reach: int, tables: ParseTables, port: int, first_octet: int
) -> bool:
    """Return whether the frame is a UDP datagram to ``port`` whose payload starts with ``first_octet``.

    All other parameters are the same as for `packet_at`.
    """
    packet = packet_at(buffer, start, end, reach, tables)
    at = packet.transport + _UDP_OCTETS
    if packet.transport == NOWHERE or tables.transport[0, packet.protocol] != _UDP or at >= packet.stop:
        return False
    return two_octets(buffer, packet.transport + 2) == port and signed(buffer[at]) == first_octet


@over_batches
def find_udp_messages(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    original: Int64,
    tables: ParseTables,
    port: int,
    first_octet: int,
    matches: NDArray[np.bool_],
) -> None:
    """Set ``matches`` for each UDP datagram to ``port`` whose payload starts with ``first_octet``."""
    for i in range(len(offset)):
        start = offset[i]
        reach = start + max(captured[i], original[i])
        matches[i] = is_udp_message(buffer, start, start + captured[i], reach, tables, port, first_octet)
