"""RoCE packets in batches: their ECN field, base transport header and invariant CRC, found in one pass.

`packet_at` finds the packet of one frame, for loops that walk frames themselves; `packets_of` those of a
batch, as arrays.  `mark_ce` sets what a congested switch sets; `cnp_frame` builds what its receiver answers.
The formats are those of `ecmproto.formats.infiniband`, whose limits hold here too; a packet behind IPv6
extension headers is not looked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import ecn_at, fixed, headers_of, roles_of, signed, two_octets, write_ecn
from ecmproto.capture.batch import Batch
from ecmproto.codec.frame import Frame
from ecmproto.codec.frame import fixed as put_right
from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import VLAN, Ethernet
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.infiniband import (
    BTH,
    CNP,
    CNP_DSCP,
    CNP_OPCODE,
    IBA_TRANSPORT,
    ICRC,
    ROCE_ETHERTYPE,
    ROCE_PORT,
)
from ecmproto.formats.ip import CE, NOT_ECT, PROTO_UDP, SOURCE_PORT, UDP, IPv4, IPv6
from ecmproto.kernels.kernel import compiled, inlined

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NOWHERE = -1
"""The place of what a frame does not have."""
NO_NETWORK, IP4, IP6, GLOBAL = 0, 4, 6, 1
"""What stands behind a frame's tags: neither IP nor a GRH, IPv4, IPv6, a GRH."""
UNVERIFIED, BAD, GOOD = -1, 0, 1
"""What an invariant CRC is: cut off or not to be checked, wrong, right."""

_IPV4, _IPV6 = 0x0800, 0x86DD
_IPV4_OCTETS, _IPV6_OCTETS = IPv4.fixed_octets, IPv6.fixed_octets
_UDP_OCTETS, _BTH_OCTETS, _ICRC_OCTETS = UDP.fixed_octets, BTH.fixed_octets, ICRC.fixed_octets
_LEAST_OCTETS = BTH.least_octets
_ONES = 0xFFFFFFFF
_POLYNOMIAL = 0xEDB88320
_LINK_HEADER_OCTETS = 8


def _table() -> NDArray[np.int64]:
    """Return the CRC-32 of each octet."""
    crc = np.arange(256, dtype=np.int64)
    for _ in range(8):
        crc = np.where(crc & 1, crc >> 1 ^ _POLYNOMIAL, crc >> 1)
    return fixed(crc)


_CRC_OF = _table()


class Packet(NamedTuple):
    """The packet of one frame; places count as the buffer does."""

    kind: int
    """What its network header is: NO_NETWORK, IP4, IP6 or GLOBAL."""
    network: int
    """Where that starts; NOWHERE without one, or where it is not whole."""
    bth: int
    """Where the base transport header starts; NOWHERE where there is none, or not all of it."""
    stop: int
    """Where the packet ends on the wire, behind its invariant CRC."""


@inlined
def packet_at(buffer: Octets, start: int, end: int, reach: int, roles: NDArray[np.uint8]) -> Packet:
    """Return the packet of the frame at ``start``, captured up to ``end``, on the wire up to ``reach``.

    The FCS belongs to neither.  ``roles`` are `ecmproto.batch.headers.roles_of`.
    """
    network = headers_of(buffer, start, end, roles).msdu_at + 2
    ethertype = two_octets(buffer, network - 2) if network <= end else 0
    if ethertype == _IPV4:
        if network + _IPV4_OCTETS > end or signed(buffer[network]) >> 4 != 4:
            return Packet(NO_NETWORK, NOWHERE, NOWHERE, reach)
        header = 4 * (signed(buffer[network]) & 15)
        length = two_octets(buffer, network + 2)
        if header < _IPV4_OCTETS or network + header > end or 0 < length < header:
            return Packet(NO_NETWORK, NOWHERE, NOWHERE, reach)
        stop = min(reach, network + length) if length > 0 else reach
        if signed(buffer[network + 9]) != PROTO_UDP or two_octets(buffer, network + 6) & 0x1FFF != 0:
            return Packet(IP4, network, NOWHERE, stop)
        return Packet(IP4, network, _behind_udp(buffer, network + header, end, stop), stop)
    if ethertype != _IPV6 and ethertype != ROCE_ETHERTYPE:
        return Packet(NO_NETWORK, NOWHERE, NOWHERE, reach)
    if network + _IPV6_OCTETS > end or signed(buffer[network]) >> 4 != 6:
        return Packet(NO_NETWORK, NOWHERE, NOWHERE, reach)
    length = two_octets(buffer, network + 4)
    behind = network + _IPV6_OCTETS
    stop = min(reach, behind + length) if length > 0 else reach
    following = signed(buffer[network + 6])
    if ethertype == ROCE_ETHERTYPE:
        bth = _transport_at(buffer, behind, end, stop) if following == IBA_TRANSPORT else NOWHERE
        return Packet(GLOBAL, network, bth, stop)
    bth = _behind_udp(buffer, behind, end, stop) if following == PROTO_UDP else NOWHERE
    return Packet(IP6, network, bth, stop)


@inlined
def _behind_udp(buffer: Octets, at: int, end: int, stop: int) -> int:
    if at + _UDP_OCTETS > end or two_octets(buffer, at + 2) != ROCE_PORT:
        return NOWHERE
    return _transport_at(buffer, at + _UDP_OCTETS, end, stop)


@inlined
def _transport_at(buffer: Octets, at: int, end: int, stop: int) -> int:
    """Return ``at`` if a base transport header starts there; see `ecmproto.formats.infiniband.BTH`."""
    if at + _BTH_OCTETS > end or at + _LEAST_OCTETS > stop:
        return NOWHERE
    zeros = two_octets(buffer, at) == 0 and two_octets(buffer, at + 2) == 0
    return NOWHERE if zeros else at


@inlined
def ecn_of(buffer: Octets, packet: Packet) -> int:
    """Return the ECN field of the network header, 0 without one."""
    return NOT_ECT if packet.kind == NO_NETWORK else ecn_at(buffer, packet.network)


@inlined
def mark_ce(buffer: Octets, packet: Packet) -> bool:
    """Set CE in the network header if its sender can take it; return whether it could.

    IPv4's header checksum is brought up to date (RFC 1624).
    """
    if ecn_of(buffer, packet) == NOT_ECT:
        return False
    write_ecn(buffer, packet.network, CE)
    return True


@inlined
def opcode_of(buffer: Octets, packet: Packet) -> int:
    """Return the opcode of the base transport header, NOWHERE without one."""
    return NOWHERE if packet.bth == NOWHERE else signed(buffer[packet.bth])


@inlined
def is_cnp(buffer: Octets, packet: Packet) -> bool:
    """Whether the packet is a congestion notification packet."""
    return opcode_of(buffer, packet) == CNP_OPCODE


@inlined
def queue_pair_of(buffer: Octets, packet: Packet) -> int:
    """Return the destination queue pair, NOWHERE without a base transport header."""
    return NOWHERE if packet.bth == NOWHERE else _three_octets(buffer, packet.bth + 5)


@inlined
def psn_of(buffer: Octets, packet: Packet) -> int:
    """Return the packet sequence number, NOWHERE without a base transport header."""
    return NOWHERE if packet.bth == NOWHERE else _three_octets(buffer, packet.bth + 9)


@inlined
def _three_octets(buffer: Octets, at: int) -> int:
    return signed(buffer[at]) << 16 | two_octets(buffer, at + 1)


@compiled
def invariant_crc(buffer: Octets, packet: Packet) -> int:
    """Return the invariant CRC that the packet should have, as `ecmproto.formats.infiniband.ICRC` has it.

    The packet must be whole.
    """
    first, bth, is_ip4 = packet.network, packet.bth, packet.kind == IP4
    crc = _ONES
    for _ in range(_LINK_HEADER_OCTETS):
        crc = crc >> 8 ^ _CRC_OF[(crc ^ 0xFF) & 0xFF]
    for at in range(first, packet.stop - _ICRC_OCTETS):
        octet, place = signed(buffer[at]), at - first
        if place < 12:
            changing = place == 1 or place == 8 or place >= 10 if is_ip4 else 0 < place < 4 or place == 7
            if changing:
                octet = 0xFF
            elif place == 0 and not is_ip4:
                octet |= 0x0F
        elif at == bth + 4 or (bth - 3 < at < bth and packet.kind != GLOBAL):
            octet = 0xFF
        crc = crc >> 8 ^ _CRC_OF[(crc ^ octet) & 0xFF]
    crc ^= _ONES
    return (crc & 0xFF) << 24 | (crc >> 8 & 0xFF) << 16 | (crc >> 16 & 0xFF) << 8 | crc >> 24


@compiled
def crc_state(buffer: Octets, end: int, packet: Packet) -> int:
    """Return whether the invariant CRC of a packet captured up to ``end`` is GOOD, BAD or UNVERIFIED."""
    if packet.bth == NOWHERE or packet.stop > end:
        return UNVERIFIED
    if packet.kind == IP4 and two_octets(buffer, packet.network + 6) & 0x2000 != 0:
        return UNVERIFIED
    at = packet.stop - _ICRC_OCTETS
    there = two_octets(buffer, at) << 16 | two_octets(buffer, at + 2)
    return GOOD if there == invariant_crc(buffer, packet) else BAD


class Packets(NamedTuple):
    """The packets of a batch, an entry a frame in each array."""

    kind: NDArray[np.int8]
    """NO_NETWORK, IP4, IP6 or GLOBAL."""
    network: Int64
    """Where the network header starts in the frame; NOWHERE without one."""
    ecn: NDArray[np.int8]
    """0 without a network header."""
    bth: Int64
    """Where the base transport header starts in the frame; NOWHERE without one, and so the others."""
    opcode: NDArray[np.int16]
    queue_pair: NDArray[np.int32]
    psn: NDArray[np.int32]
    crc: NDArray[np.int8]
    """GOOD, BAD or UNVERIFIED."""


def packets_of(
    batch: Batch, *, ethertypes: EtherTypes = DEFAULT, fcs_octets: int = 0, crc: bool = False
) -> Packets:
    """Return the packets of Ethernet frames with ``fcs_octets`` of FCS; with ``crc`` theirs are checked."""
    count = len(batch)
    packets = Packets(
        kind=np.zeros(count, np.int8),
        network=np.full(count, NOWHERE, np.int64),
        ecn=np.zeros(count, np.int8),
        bth=np.full(count, NOWHERE, np.int64),
        opcode=np.full(count, NOWHERE, np.int16),
        queue_pair=np.full(count, NOWHERE, np.int32),
        psn=np.full(count, NOWHERE, np.int32),
        crc=np.full(count, UNVERIFIED, np.int8),
    )
    _find_packets(
        fixed(batch.buffer), fixed(batch.offset), fixed(batch.captured), fixed(batch.original), fcs_octets,
        crc, roles_of(ethertypes), packets,
    )  # fmt: skip
    return packets


@compiled
def _find_packets(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    original: Int64,
    fcs_octets: int,
    check: bool,
    roles: NDArray[np.uint8],
    packets: Packets,
) -> None:
    for row in range(len(offset)):
        start = offset[row]
        # the FCS is last on the wire, so a cut frame loses its FCS first
        cut = max(0, original[row] - captured[row])
        end = start + captured[row] - max(0, min(fcs_octets - cut, captured[row]))
        packet = packet_at(buffer, start, end, end + max(0, cut - fcs_octets), roles)
        packets.kind[row] = packet.kind
        packets.ecn[row] = ecn_of(buffer, packet)
        packets.opcode[row] = opcode_of(buffer, packet)
        packets.queue_pair[row] = queue_pair_of(buffer, packet)
        packets.psn[row] = psn_of(buffer, packet)
        if packet.network != NOWHERE:
            packets.network[row] = packet.network - start
        if packet.bth != NOWHERE:
            packets.bth[row] = packet.bth - start
        if check:
            packets.crc[row] = crc_state(buffer, end, packet)


def cnp_frame(
    queue_pair: int,
    *,
    dst: bytes | str,
    src: bytes | str,
    dst_ip: bytes | str,
    src_ip: bytes | str,
    vlan: int | None = None,
    priority: int = CNP.crafting.priority,
    dscp: int = CNP_DSCP,
    source_port: int = SOURCE_PORT,
) -> Frame:
    """Return the CNP frame that asks the sender at ``dst`` to slow down its ``queue_pair``.

    Addresses are octets or text; both IP addresses are of one version.  With a ``vlan`` it has a tag of that
    identifier and ``priority``.
    """
    header = Ethernet(dst=dst, src=src)
    tags: list[Layer] = [] if vlan is None else [VLAN(id=vlan, priority=priority)]
    is_ip4 = len(dst_ip) == 4 if isinstance(dst_ip, bytes) else ":" not in dst_ip
    network: Layer = (
        IPv4(dsfield=dscp << 2, flags=2, src=src_ip, dst=dst_ip)
        if is_ip4
        else IPv6(tclass=dscp << 2, src=src_ip, dst=dst_ip)
    )
    layers = (header, *tags, network, UDP(srcport=source_port, dstport=ROCE_PORT), CNP(qp=queue_pair), ICRC())
    return put_right(Frame(layers=layers))
