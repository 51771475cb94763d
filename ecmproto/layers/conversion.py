"""From this project's frames to Scapy packets and back, by way of their octets."""

from __future__ import annotations

from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from ecmproto.codec import EtherTypes, Frame, decode, encode
from ecmproto.formats.ethernet import Ethernet
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.layers.bindings import bound, bound_ethertypes


def to_scapy(frame: Frame | bytes, *, ethertypes: EtherTypes | None = None) -> Packet:
    """Return a frame as a Scapy packet with these layers, whether they are bound or not.

    ``ethertypes`` is, when left out, the frame's own map, for octets the one that is bound or else the
    default.  Fewer octets than an Ethernet header are Raw.  EncodeError for a frame that has no octets.
    """
    if isinstance(frame, Frame):
        octets, own = encode(frame), frame.ethertypes
    else:
        octets, own = bytes(frame), bound_ethertypes() or DEFAULT
    if len(octets) < Ethernet.fixed_octets:
        return Raw(octets)
    with bound(ethertypes or own):
        return Ether(octets)


def from_scapy(packet: Packet, *, ethertypes: EtherTypes | None = None) -> Frame:
    """Return a Scapy packet as a decoded frame; DecodeError when its octets are malformed.

    ``ethertypes`` is, when left out, the map that is bound, else the default.
    """
    return decode(bytes(packet), ethertypes=ethertypes or bound_ethertypes() or DEFAULT)
