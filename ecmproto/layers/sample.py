"""The sampled frame that a message shows, as a Scapy packet."""

from __future__ import annotations

from scapy.compat import raw
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

_HEADER_OCTETS = 14


def frame_of(octets: bytes) -> Packet | None:
    """Dissect the first octets of a frame, from its destination address on, as far as they go.

    None for no octets, Raw for fewer than an Ethernet header has.
    """
    if not octets:
        return None
    return Ether(octets) if len(octets) >= _HEADER_OCTETS else Raw(octets)


class Sampling(Packet):
    """A message whose field ``sample`` holds the sampled frame's first octets, from its DA.

    The field is ``payload`` elsewhere in this project (``ecm.payload``); in Scapy ``payload`` is the
    layer behind this one.
    """

    def encapsulated(self) -> Packet | None:
        """Return the sampled frame as far as the message shows it, None when it shows nothing."""
        return frame_of(raw_octets(self, "sample"))


def raw_octets(packet: Packet, name: str) -> bytes:
    """Return an octet field's value as it would be built."""
    field, value = packet.getfield_and_val(name)
    return raw(field.i2m(packet, value))


def sampled_source(lower: Packet, message: Packet) -> str | None:
    """Return the address a message goes to: the sampled frame's source (wire-formats 1.2)."""
    frame = message.encapsulated()
    return str(frame.src) if isinstance(frame, Packet) and "src" in frame.fields else None
