"""LLDP as Scapy layers: a sequence of TLVs, including the Congestion Notification TLV.

``scapy.contrib.lldp`` has no Congestion Notification TLV, requires whole LLDPDUs with their mandatory TLVs
and binds itself when imported; these accept any octets and are bound with the others.
"""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.fields import (
    BitEnumField,
    BitField,
    BitFieldLenField,
    FlagsField,
    XBitField,
    XByteField,
    XStrLenField,
)
from scapy.packet import Packet

from ecmproto.wire import codec
from ecmproto.wire.formats.lldp import CN_SUBTYPE, END, OUI_8021, TYPES, tlv_at
from ecmproto.wire.layers.parts import over_ether, whole_or_raw

_CN_OCTETS = 6
_PRIORITIES = [f"p{priority}" for priority in range(8)]


def tlv_class(octets: bytes) -> type[Packet]:
    """Return the layer of the TLV that ``octets`` start with."""
    if tlv_at(octets, 0, len(octets)) is codec.CongestionNotificationTLV:
        return LLDPCongestionNotification
    return LLDPTLV


class LLDPTLV(Packet):
    """Any TLV, its information as octets; ``type`` 0 ends the LLDPDU, what follows is padding.

    ``length`` counts ``value`` when left out.
    """

    name = "LLDP TLV"
    fields_desc = [
        BitEnumField("type", END, 7, TYPES),
        BitFieldLenField("length", None, 9, length_of="value"),
        XStrLenField("value", b"", length_from=lambda pkt: pkt.length, max_length=511),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer of the next TLV."""
        return tlv_class(payload)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return the rest as padding after the end of the LLDPDU."""
        return (b"", s) if self.type == END else (s, None)

    def mysummary(self) -> Any:
        """Return the TLV's type."""
        return over_ether(self.sprintf("LLDPTLV %type%"), LLDPCongestionNotification)


class LLDPCongestionNotification(Packet):
    """Congestion Notification TLV (802.1Q Annex D): a port's CNPVs, and those ready for CN-TAGs.

    >>> LLDPCongestionNotification(cnpv="p3+p4", ready="p3") / LLDPTLV()
    """

    name = "LLDP Congestion Notification TLV"
    fields_desc = [
        BitEnumField("type", 127, 7, TYPES),
        BitField("length", _CN_OCTETS, 9),
        XBitField("oui", OUI_8021, 24),
        XByteField("subtype", CN_SUBTYPE),
        FlagsField("cnpv", 0, 8, _PRIORITIES),
        FlagsField("ready", 0, 8, _PRIORITIES),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer of the next TLV, unless this one's length leaves that open."""
        return tlv_class(payload) if self.length == _CN_OCTETS else conf.raw_layer

    def mysummary(self) -> Any:
        """Return the CNPVs and those that are ready."""
        return over_ether(self.sprintf("LLDPCongestionNotification cnpv=%cnpv% ready=%ready%"))
