"""First headers of frames: Ethernet, VLAN tags, the PBB I-TAG, LLC with SNAP, Linux cooked headers.

Each header and tag of this module contains the EtherType or 802.3 length of the next header or payload
(802.3; 802.1Q clause 9; 802.2; RFC 1042). A cooked header replaces the link layer header in some Linux
captures.
"""

from __future__ import annotations

from ecmproto.wire.formats.base import Following, Formats, Layer, layer, shared
from ecmproto.wire.formats.schema import REST, Address, mac, octets, uint
from ecmproto.wire.formats.summary import Summary

_TYPE = "EtherType of the payload, or its length in octets if 1500 or less"
_PCP = "priority code point"
_DEI = "drop eligible indicator"
_SNAP_SAP, _UNNUMBERED = 0xAA, 3


@layer("eth", title="Ethernet", source="802.3 3.2")
class Ethernet(Layer):
    """Ethernet header: destination, source, and the type or length of the content."""

    dst: Address = mac(default=bytes(6), doc="destination address", source="802.3 3.2.3")
    src: Address = mac(default=bytes(6), doc="source address", source="802.3 3.2.3")
    type: int = uint(16, default=0, doc=_TYPE, source="802.3 3.2.6", base="hex", length_name="eth.len")
    summary = Summary(sender="src", receiver="dst", addressee="dst")
    next_key = "type"


@layer("vlan", title="VLAN tag (C-TAG)", source="802.1Q 9.6")
class VLAN(Layer):
    """Customer VLAN tag."""

    priority: int = uint(3, default=0, doc=_PCP)
    dei: int = uint(1, default=0, doc=_DEI)
    id: int = uint(12, default=0, doc="VLAN identifier")
    etype: int = uint(16, default=0, doc=_TYPE, base="hex", length_name="vlan.len")
    counted_as = "VLAN tag"
    summary = Summary(tag="vlan {id} prio {priority}{dei:dei}")
    announced_by = "c_tag"
    next_key = "etype"


@layer("ieee8021ad", title="Service VLAN tag (S-TAG)", source="802.1Q 9.6")
class STag(Layer):
    """Service VLAN tag: the outer tag of provider bridges, or the B-TAG of PBB."""

    priority: int = uint(3, default=0, doc=_PCP)
    dei: int = uint(1, default=0, doc=_DEI)
    id: int = uint(12, default=0, doc="service VLAN identifier")
    etype: int = uint(16, default=0, doc=_TYPE, base="hex", length_name="ieee8021ad.len")
    counted_as = "S-TAG"
    summary = Summary(tag="S-vlan {id} prio {priority}{dei:dei}")
    announced_by = "s_tag"
    next_key = "etype"


@layer("ieee8021ah", title="Backbone service instance tag (I-TAG)", source="802.1Q 9.7")
class ITag(Layer):
    """I-TAG of PBB, including the customer addresses after the I-TCI."""

    priority: int = uint(3, default=0, doc=_PCP)
    drop: int = uint(1, default=0, doc=_DEI)
    nca: int = uint(1, default=0, doc="use customer addresses")
    res1: int = uint(1, default=0, doc="reserved 1")
    res2: int = uint(2, default=0, doc="reserved 2")
    isid: int = uint(24, default=0, doc="backbone service instance identifier")
    cdst: Address = mac(default=bytes(6), doc="customer destination address")
    csrc: Address = mac(default=bytes(6), doc="customer source address")
    etype: int = uint(16, default=0, doc=_TYPE, base="hex", length_name="ieee8021ah.len")
    counted_as = "I-TAG"
    summary = Summary(tag="I-SID {isid} prio {priority} {csrc} → {cdst}", addressee="cdst")
    announced_by = "i_tag"
    next_key = "etype"


@shared
class LLC(Layer):
    """Base of the headers after an 802.3 length, with service access points and control."""

    __slots__ = ()
    field_prefix = "llc"

    dsap: int = uint(
        8, default=_SNAP_SAP, base="hex", doc="destination service access point", source="802.2 3.3.1"
    )
    ssap: int = uint(
        8, default=_SNAP_SAP, base="hex", doc="source service access point", source="802.2 3.3.1"
    )
    control: int = uint(
        8, default=_UNNUMBERED, base="hex", doc="control field; for numbered PDUs, its first octet",
        source="802.2 5.4",
    )  # fmt: skip

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return `Data`, because the content is not decoded."""
        return Data, stop


@layer("llc_other", title="LLC", source="802.2", dsap=0x42, ssap=0x42)
class OtherLLC(LLC):
    """LLC header without SNAP, for example of the spanning tree protocol."""

    follows = "data"


@shared
class _Organization(LLC):
    """Base of the LLC headers with SNAP."""

    __slots__ = ()

    oui: int = uint(24, default=0, base="hex", doc="organization", source="RFC 1042")


@layer("llc_snap", title="LLC and SNAP of an organization", source="802 10.3", oui=0x00000C)
class OtherSNAP(_Organization):
    """LLC and SNAP headers with the protocol of an organization, for example of Cisco."""

    pid: int = uint(16, default=0, base="hex", doc="protocol of the organization")
    follows = "data"
    constants = ("dsap", "ssap", "control")


@layer("llc", title="LLC and SNAP", source="802.2; RFC 1042")
class SNAP(_Organization):
    """LLC and SNAP headers after an 802.3 length, with an EtherType that announces IPv4, IPv6 or ARP."""

    etype: int = uint(
        16, default=0, base="hex", doc="EtherType of the payload", source="RFC 1042", name="llc.type"
    )
    next_key = "etype"
    follows = "snap"
    constants = ("dsap", "ssap", "control", "oui")

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format that the EtherType announces, or `Data` for formats not allowed after SNAP."""
        if self.etype not in formats.after_snap:
            return Data, stop
        return formats.announced(self.etype, data, end, stop)

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the EtherType of the next layer, or no value if the next layer has no EtherType."""
        ethertype = formats.ethertype_of(following)
        return {} if ethertype is None else {"etype": ethertype}


SNAP_START = bytes((_SNAP_SAP, _SNAP_SAP, _UNNUMBERED))
"""First octets of LLC and SNAP headers, before the OUI and the protocol."""
NOVELL = b"\xff\xff"
"""First octets of a packet without LLC after an 802.3 length."""


def llc_at(data: bytes, pos: int, stop: int) -> type[Layer]:
    """Return the format of the octets ``data[pos:stop]``, which follow an 802.3 length."""
    if stop - pos < OtherLLC.fixed_octets or data.startswith(NOVELL, pos):
        return Data
    if stop - pos < SNAP.fixed_octets or not data.startswith(SNAP_START, pos):
        return OtherLLC
    return OtherSNAP if any(data[pos + 3 : pos + 6]) else SNAP


@layer("msdu", title="MSDU", source="802.1Q; wire-formats 3")
class MSDU(Layer):
    """Start of an Encapsulated MSDU: the EtherType or length of the sampled frame's payload.

    The MSDU does not contain the addresses.
    """

    type: int = uint(16, default=0, doc=_TYPE, source="802.3 3.2.6", base="hex", length_name="msdu.len")
    next_key = "type"


@layer("data", title="Data", source="802.3 3.2.7")
class Data(Layer):
    """Octets without a known format: a payload, the remainder of a truncated layer, or malformed octets."""

    data: bytes = octets(REST, default=b"", doc="the octets")
    summary = Summary(gives_way=True, detail="{#data:octets}")

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return no values, because `Data` has no computed fields."""
        return {}


_SLL = "LINKTYPE_LINUX_SLL"
_SLL2 = "LINKTYPE_LINUX_SLL2"
PACKET_TYPES = {0: "to us", 1: "broadcast", 2: "multicast", 3: "to someone else", 4: "sent by us"}
_MIN_ETHERTYPE = 0x0600


class Cooked(Layer):
    """Base of both cooked headers."""

    __slots__ = ()

    pkttype: int
    halen: int
    src: bytes
    etype: int
    summary = Summary(tag="{pkttype:packet}", name="{etype:protocol}", sender="sender")
    follows = "cooked"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format that the EtherType announces.

        Values below 0x0600 are codes of Linux instead of lengths.
        """
        return (Data, stop) if self.etype < _MIN_ETHERTYPE else formats.announced(self.etype, data, end, stop)

    @property
    def sender(self) -> bytes:
        """MAC address of the sender, empty if the link has no MAC addresses."""
        return self.src if self.halen == 6 else b""


@layer("sll", title="Linux cooked capture", source=_SLL)
class SLL(Cooked):
    """Linux cooked header, version 1, which replaces the link layer header."""

    pkttype: int = uint(16, default=0, doc="direction of the packet", names=PACKET_TYPES)
    hatype: int = uint(16, default=1, doc="ARPHRD type of the device")
    halen: int = uint(16, default=6, unit="octets", doc="length of the sender's address")
    src: Address = mac(default=bytes(6), doc="sender's address", name="sll.src.eth")
    unused: int = uint(16, default=0, base="hex", doc="rest of the address field")
    etype: int = uint(16, default=0, base="hex", doc="protocol")
    next_key = "etype"


@layer("sll2", title="Linux cooked capture v2", source=_SLL2)
class SLL2(Cooked):
    """Linux cooked header, version 2, which also contains the interface."""

    field_prefix = "sll"
    etype: int = uint(16, default=0, base="hex", doc="protocol")
    reserved: int = uint(16, default=0, doc="0")
    ifindex: int = uint(32, default=0, doc="index of the interface")
    hatype: int = uint(16, default=1, doc="ARPHRD type of the device")
    pkttype: int = uint(8, default=0, doc="direction of the packet", names=PACKET_TYPES)
    halen: int = uint(8, default=6, unit="octets", doc="length of the sender's address")
    src: Address = mac(default=bytes(6), doc="sender's address", name="sll.src.eth")
    unused: int = uint(16, default=0, base="hex", doc="rest of the address field")
    next_key = "etype"
