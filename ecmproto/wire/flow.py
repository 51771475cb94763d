"""The keys of flows: the header fields that identify flows, conversations and queue pairs."""

from __future__ import annotations

import zlib
from typing import NamedTuple


class FlowKey(NamedTuple):
    """The header fields, besides the source address, that identify the flows of one station.

    With ``cn_tag`` a frame that has a CN-TAG belongs to the flow of its priority and Flow ID, whatever its
    addresses; with ``conversation`` an IP packet to the flow of its `Conversation`, whatever its tags.
    """

    vlan: bool = True
    dst: bool = True
    priority: bool = True
    cn_tag: bool = False
    conversation: bool = False


class Conversation(NamedTuple):
    """The 5-tuple of IP packets, and the destination queue pair of RoCEv2 packets."""

    source: bytes
    destination: bytes
    protocol: int
    source_port: int
    """0 if the protocol has no ports, or a packet does not contain them."""
    destination_port: int
    queue_pair: int | None

    @property
    def stand_in(self) -> int:
        """A number for a sender without a queue pair: 24 bits that both ends can compute."""
        ports = self.source_port.to_bytes(2) + self.destination_port.to_bytes(2)
        return zlib.crc32(self.source + self.destination + bytes([self.protocol]) + ports) >> 8 or 1


class QueuePair(NamedTuple):
    """The queue pair of a flow in a message, and the IP addresses of the flow's own packets."""

    source: bytes
    destination: bytes
    number: int
    """The sender's queue pair, 0 if unknown."""


class FlowHash(NamedTuple):
    """The ``bits`` of a CRC-32 that replace a flow's key, so that flows with equal hashes are one; 0: no
    hashing.

    ``src``: the source address is hashed too.
    """

    bits: int = 0
    src: bool = True
