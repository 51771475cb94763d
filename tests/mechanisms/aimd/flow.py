"""The flow of a single frame by its headers, by which ECM, BCN and E²CM distinguish flows (S000 3.3)."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from ecmproto.control.mechanisms.aimd.parameters import AIMDReactionPointParameters
from ecmproto.control.mechanisms.api.frames import headers, outer_vlan
from ecmproto.wire.codec import Ethernet, EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT

_NO_VLAN = b"\xff\xff"
_HASH_OCTETS = 4


class Flow(NamedTuple):
    """A flow's key, matched exactly, and the priority of the frame it was found in."""

    key: bytes
    priority: int


def flow_of(octets: bytes, parameters: AIMDReactionPointParameters, ethertypes: EtherTypes = DEFAULT) -> Flow:
    """Return the flow of a frame. ``octets`` contains at least the headers from the DA to the VLAN tag.

    The key consists of the VLAN id (or none), DA, SA and priority (0 if untagged), if the parameters include
    these parts. With ``hash_bits``, the key is part of a CRC-32 of these values.
    """
    frame = headers(octets, ethertypes)
    ethernet = frame[Ethernet]
    vlan = outer_vlan(frame)
    priority = 0 if vlan is None else vlan.priority
    parts = []
    if parameters.key_vlan:
        parts.append(_NO_VLAN if vlan is None else vlan.id.to_bytes(2))
    if parameters.key_dst:
        parts.append(ethernet.dst)
    if parameters.key_src:
        parts.append(ethernet.src)
    if parameters.key_priority:
        parts.append(bytes([priority]))
    key = b"".join(parts)
    if parameters.hash_bits:
        hashed = zlib.crc32(key) & ((1 << parameters.hash_bits) - 1)
        key = hashed.to_bytes(_HASH_OCTETS)
    return Flow(key, priority)
