"""The keys of flows: the header fields that tell flows, conversations and queue pairs apart."""

from __future__ import annotations

import zlib
from typing import NamedTuple


class FlowKey(NamedTuple):
    """The header fields that tell the flows of one station apart, besides their source address.

    With ``cn_tag`` a frame that has a CN-TAG belongs to the flow of its priority and Flow ID, whatever its
    addresses; with ``conversation`` an IP packet to that of its `Conversation`, whatever its tags.
    """

    vlan: bool = True
    dst: bool = True
    priority: bool = True
    cn_tag: bool = False
    conversation: bool = False


class Conversation(NamedTuple):
    """The 5-tuple of IP packets, and the queue pair that RoCEv2's are to."""

    source: bytes
    destination: bytes
    protocol: int
    source_port: int
    """0 where the protocol has no ports, or a packet does not show them."""
    destination_port: int
    queue_pair: int | None

    @property
    def stand_in(self) -> int:
        """A number for its sender's queue pair, where it has none: 24 bits that both ends can tell."""
        ports = self.source_port.to_bytes(2) + self.destination_port.to_bytes(2)
        return zlib.crc32(self.source + self.destination + bytes([self.protocol]) + ports) >> 8 or 1


class QueuePair(NamedTuple):
    """A queue pair by which a message names a flow, and the IP addresses of the flow's own packets."""

    source: bytes
    destination: bytes
    number: int
    """Its sender's, 0 if that is not known."""


class FlowHash(NamedTuple):
    """The ``bits`` of a CRC-32 that replace a flow's key, so that flows of one hash are one; 0: no hashing.

    ``src`` is whether the source is a part of what is hashed.
    """

    bits: int = 0
    src: bool = True
