"""Frames without an Ethernet header, as far as something can be said of them: Linux cooked, raw IP.

Nothing is invented for the addresses they do not have; a frame of any other link type is its octets.
"""

from __future__ import annotations

import dataclasses

from ecmproto.capture.linktypes import COOKED_TYPES, ETHERNET, LINUX_SLL, LINUX_SLL2, RAW_IP_TYPES
from ecmproto.wire.decoder import _decode
from ecmproto.wire.ethernet import Data
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.frame import Frame
from ecmproto.wire.ip import IPv4, IPv6
from ecmproto.wire.schema import Following, Formats, Layer, layer, mac, uint

_SOURCE = "LINKTYPE_LINUX_SLL"
_SOURCE2 = "LINKTYPE_LINUX_SLL2"
PACKET_TYPES = {0: "to us", 1: "broadcast", 2: "multicast", 3: "to someone else", 4: "sent by us"}
_LEAST_ETHERTYPE = 0x0600


class Cooked(Layer):
    """Base of the two cooked headers."""

    __slots__ = ()

    pkttype: int
    halen: int
    src: bytes
    etype: int

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """What the EtherType announces; smaller values are Linux's own and mean no length."""
        return (
            (Data, stop) if self.etype < _LEAST_ETHERTYPE else formats.announced(self.etype, data, end, stop)
        )

    @property
    def sender(self) -> bytes:
        """The sender's MAC address, empty where the link has no such addresses."""
        return self.src if self.halen == 6 else b""


@layer("sll", title="Linux cooked capture", source=_SOURCE)
class SLL(Cooked):
    """What Linux gives instead of a link layer header: version 1."""

    pkttype: int = uint(
        16, default=0, doc="where the packet went", source=_SOURCE, names=PACKET_TYPES, name="sll.pkttype"
    )
    hatype: int = uint(16, default=1, doc="ARPHRD type of the device", source=_SOURCE)
    halen: int = uint(16, default=6, unit="octets", doc="length of the sender's address", source=_SOURCE)
    src: bytes = mac(default=bytes(6), doc="sender's address", source=_SOURCE, name="sll.src.eth")
    unused: int = uint(16, default=0, base="hex", doc="rest of the address field", source=_SOURCE)
    etype: int = uint(16, default=0, base="hex", doc="protocol", source=_SOURCE, name="sll.etype")
    next_key = "etype"


@layer("sll2", title="Linux cooked capture v2", source=_SOURCE2)
class SLL2(Cooked):
    """What Linux gives instead of a link layer header: version 2, with the interface."""

    etype: int = uint(16, default=0, base="hex", doc="protocol", source=_SOURCE2, name="sll.etype")
    reserved: int = uint(16, default=0, doc="0", source=_SOURCE2)
    ifindex: int = uint(32, default=0, doc="index of the interface", source=_SOURCE2, name="sll.ifindex")
    hatype: int = uint(16, default=1, doc="ARPHRD type of the device", source=_SOURCE2, name="sll.hatype")
    pkttype: int = uint(
        8, default=0, doc="where the packet went", source=_SOURCE2, names=PACKET_TYPES, name="sll.pkttype"
    )
    halen: int = uint(
        8, default=6, unit="octets", doc="length of the sender's address", source=_SOURCE2, name="sll.halen"
    )
    src: bytes = mac(default=bytes(6), doc="sender's address", source=_SOURCE2, name="sll.src.eth")
    unused: int = uint(
        16, default=0, base="hex", doc="rest of the address field", source=_SOURCE2, name="sll.unused"
    )
    next_key = "etype"


FORMATS: tuple[type[Layer], ...] = (SLL, SLL2)
"""The headers that only link types other than Ethernet have."""

KNOWN = frozenset((ETHERNET,)) | COOKED_TYPES | RAW_IP_TYPES
"""The link types of which something can be said."""


def decode_linktype(
    linktype: int, octets: bytes, *, original_octets: int = 0, ethertypes: EtherTypes = DEFAULT
) -> Frame:
    """Decode a frame of a link type other than Ethernet as far as its headers are known here, laxly."""
    cut = max(0, original_octets - len(octets))
    first = _first_format(linktype, octets)
    if first is Data:
        layers = (Data(data=octets),) if octets else ()
        starts = (0, len(octets)) if octets else (0,)
        return Frame(layers=layers, starts=starts, cut=cut, ethertypes=ethertypes)
    frame = _decode(octets, first, len(octets), len(octets) + cut, cut, ethertypes)
    # the 60 octets that padding fills up to are Ethernet's
    return dataclasses.replace(frame, padding=b"", trailer=frame.padding + frame.trailer)


def _first_format(linktype: int, octets: bytes) -> type[Layer]:
    if linktype == LINUX_SLL:
        return SLL
    if linktype == LINUX_SLL2:
        return SLL2
    if linktype in RAW_IP_TYPES and octets:
        return {4: IPv4, 6: IPv6}.get(octets[0] >> 4, Data)
    return Data
