"""Linux cooked captures: what stands in front of a packet where the link layer header is not kept."""

from __future__ import annotations

from ecmproto.formats.declaration import layer
from ecmproto.formats.ethernet import Data
from ecmproto.formats.layer import Following, Formats, Layer
from ecmproto.formats.schema import mac, uint

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
    reserved: int = uint(16, default=0, doc="0", source=_SOURCE2, name="sll.reserved")
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
