"""Keys of flows: the header fields that identify flows, conversations and queue pairs."""

from __future__ import annotations

import zlib
from typing import NamedTuple


class FlowKey(NamedTuple):
    """Header fields that, besides the source address, identify the flows of one station.

    With ``cn_tag``, the priority and Flow ID identify the flow of a frame with a CN-TAG, and the
    addresses are ignored. With ``conversation``, the `Conversation` identifies the flow of an IP packet, and
    the tags are ignored.
    """

    vlan: bool = True
    dst: bool = True
    priority: bool = True
    cn_tag: bool = False
    conversation: bool = False


class Conversation(NamedTuple):
    """5-tuple of an IP packet, and the destination queue pair of a RoCEv2 packet."""

    source: bytes
    destination: bytes
    protocol: int
    source_port: int
    """Source port, or 0 if the protocol has no ports or the packet does not contain the ports."""
    destination_port: int
    queue_pair: int | None

    @property
    def stand_in(self) -> int:
        """Number of 24 bits that replaces an unknown queue pair of the sender.

        Both ends can compute the number.
        """
        ports = self.source_port.to_bytes(2) + self.destination_port.to_bytes(2)
        return zlib.crc32(self.source + self.destination + bytes([self.protocol]) + ports) >> 8 or 1


class QueuePair(NamedTuple):
    """Queue pair in a message about a flow, and the IP addresses of the flow's packets."""

    source: bytes
    destination: bytes
    number: int
    """Queue pair of the sender, 0 if unknown."""


class FlowHash(NamedTuple):
    """Hash that replaces the key of a flow, so that flows with equal hashes are merged.

    ``bits`` is the number of bits of a CRC-32 in the hash; 0 disables hashing. With ``src``, the source
    address is hashed too.
    """

    bits: int = 0
    src: bool = True
