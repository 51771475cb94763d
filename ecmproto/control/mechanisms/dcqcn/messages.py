"""Functions that create and parse the CNPs of DCQCN."""

from __future__ import annotations

from ecmproto.control.mechanisms.api.frames import ADDRESS_OCTETS, framed, headers, is_group
from ecmproto.control.mechanisms.api.machine import SampledFrame, source_of
from ecmproto.control.mechanisms.dcqcn.parameters import DCQCNEdgeParameters
from ecmproto.wire.codec import TCP, UDP, EtherTypes, Frame, IPv4, IPv6, decode_lax
from ecmproto.wire.flow import Conversation
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.infiniband import BTH, CNP, DEFAULT_P_KEY, ICRC, ROCE_PORT
from ecmproto.wire.formats.ip import Extension

_UNKNOWN_LENGTH = 1 << 30
_SOURCE_PORT = 49_152
_ECN_BITS = 2


def notification(
    about: SampledFrame, *, parameters: DCQCNEdgeParameters, cp_mac: bytes, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the CNP about the flow of a frame, padded to 60 octets, without FCS.

    The CNP goes from the destination of the frame to the source, with the same VLAN tags. The queue pair in
    the CNP is the source's queue pair of the flow, or 0 until an acknowledge contains the queue pair. For
    packets without RoCEv2, a substitute number replaces the queue pair. Raises ValueError for a frame without
    an IP packet, and for a source that receives no messages.
    """
    source, destination = source_of(about, cp_mac), about.octets[:ADDRESS_OCTETS]
    frame = decode_lax(about.octets, original_octets=_UNKNOWN_LENGTH, ethertypes=ethertypes)
    packet, transport, data = (
        frame.get(IPv4) or frame.get(IPv6),
        frame.get(UDP) or frame.get(TCP),
        frame.get(BTH),
    )
    if packet is None:
        raise ValueError("a CNP needs an IP packet")
    near, far = (transport.srcport, transport.dstport) if transport is not None else (0, 0)
    queue_pair, p_key = about.queue_pair, DEFAULT_P_KEY
    if data is not None:
        p_key = data.p_key
    elif not queue_pair:
        first = packet.proto if isinstance(packet, IPv4) else packet.nxt
        protocol = [first, *(header.nxt for header in frame.all(Extension))][-1]
        queue_pair = Conversation(packet.src, packet.dst, protocol, near, far, None).stand_in
    field = parameters.cnp_dscp << _ECN_BITS
    answer = (
        IPv4(src=packet.dst, dst=packet.src, dsfield=field)
        if isinstance(packet, IPv4)
        else IPv6(src=packet.dst, dst=packet.src, tclass=field)
    )
    return framed(
        answer,
        headers(about.octets, ethertypes),
        dst=source,
        src=cp_mac if is_group(destination) else destination,
        priority=parameters.cnp_priority,
        following=(
            UDP(srcport=near or _SOURCE_PORT, dstport=ROCE_PORT),
            CNP(qp=queue_pair, p_key=p_key),
            ICRC(),
        ),
        fix=True,
        ethertypes=ethertypes,
    )


def is_sound(frame: Frame, octets: bytes) -> bool:
    """Return whether the captured part of a packet is consistent with the invariant CRC of the packet."""
    check = frame.get(ICRC)
    if check is None:
        return True
    at = frame.layers.index(check)
    compute = ICRC.covering(frame.layers[:at], frame.boundaries()[: at + 1])
    return compute is None or compute(octets) == check.crc
