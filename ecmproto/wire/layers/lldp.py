"""Scapy layers for LLDP: a sequence of TLVs, including the Congestion Notification TLV and the DCBX TLVs.

``scapy.contrib.lldp`` has no Congestion Notification TLV, requires complete LLDPDUs with the mandatory TLVs,
and binds its layers on import. The layers of this module accept any octets, and `bind` binds the layers.
"""

from __future__ import annotations

from typing import Any, ClassVar

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
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.lldp import CN_SUBTYPE, END, HEADER_OCTETS, OUI_8021, TYPES, LLDPPart
from ecmproto.wire.formats.registry import FORMATS, dispatch
from ecmproto.wire.layers.derived import layer_on
from ecmproto.wire.layers.parts import over_ether, whole_or_raw

_CN_OCTETS = 6
_PRIORITIES = [f"p{priority}" for priority in range(8)]


class LLDPLayer(Packet):
    """Base of TLVs and of the layers inside some TLVs. Another TLV or layer follows."""

    of: type[Layer]
    """Format of the layer."""

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer of the next TLV or, inside a TLV, the layer of the next part."""
        if not all(limit.low <= getattr(self, limit.key) <= limit.high for limit in self.of.limits):
            raw: type[Packet] = conf.raw_layer
            return raw
        around: Any = self
        while isinstance(around, LLDPLayer):
            octets = around.original
            read = around.of.parse(octets, 0, len(octets)) if around.of.holds else None
            if read is not None:
                inside, _ = read[0].inside(octets, 0, len(octets) - len(payload), len(octets))
                if inside is not None:
                    return PARTS[inside]
            around = around.underlayer
        formats = dispatch()
        return PARTS[formats.announced(formats.ethertypes.lldp, payload, 0, len(payload))[0]]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Compute the length from the layers inside the TLV if no length is set."""
        if self.of.holds and "length" not in self.fields:
            octets, part = len(pkt) - HEADER_OCTETS, self.payload
            while isinstance(part, LLDPLayer) and part.of in self.of.holds:
                octets += len(part.self_build())
                part = part.payload
            pkt = (int.from_bytes(pkt[:HEADER_OCTETS]) & ~0x1FF | octets).to_bytes(HEADER_OCTETS) + pkt[2:]
        return pkt + pay

    def mysummary(self) -> Any:
        """Return the name of the layer as summary."""
        return over_ether(type(self).__name__)


class LLDPTLV(LLDPLayer):
    """TLV whose information is stored as octets.

    ``type`` 0 ends the LLDPDU, and the remaining octets are padding.

    The default of ``length`` is the length of ``value``.
    """

    name = "LLDP TLV"
    fields_desc: ClassVar[list[Any]] = [
        BitEnumField("type", END, 7, TYPES),
        BitFieldLenField("length", None, 9, length_of="value"),
        XStrLenField("value", b"", length_from=lambda pkt: pkt.length, max_length=511),
    ]
    dispatch_hook: Any = classmethod(whole_or_raw)
    of = codec.TLV

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return the octets after the end of the LLDPDU as padding."""
        return (b"", s) if self.type == END else (s, None)

    def mysummary(self) -> Any:
        """Return the type of the TLV as summary."""
        return over_ether(self.sprintf("LLDPTLV %type%"), *PARTS.values())


class LLDPCongestionNotification(LLDPLayer):
    """Congestion Notification TLV (802.1Q Annex D): a port's CNPVs, and the priorities ready for CN-TAGs.

    >>> LLDPCongestionNotification(cnpv="p3+p4", ready="p3") / LLDPTLV()
    """

    name = "LLDP Congestion Notification TLV"
    fields_desc: ClassVar[list[Any]] = [
        BitEnumField("type", 127, 7, TYPES),
        BitField("length", _CN_OCTETS, 9),
        XBitField("oui", OUI_8021, 24),
        XByteField("subtype", CN_SUBTYPE),
        FlagsField("cnpv", 0, 8, _PRIORITIES),
        FlagsField("ready", 0, 8, _PRIORITIES),
    ]
    dispatch_hook: Any = classmethod(whole_or_raw)
    of = codec.CongestionNotificationTLV

    def mysummary(self) -> Any:
        """Return the CNPVs and the ready priorities as summary."""
        return over_ether(self.sprintf("LLDPCongestionNotification cnpv=%cnpv% ready=%ready%"))


PARTS: dict[type[Layer], type[Packet]] = {
    codec.TLV: LLDPTLV, codec.CongestionNotificationTLV: LLDPCongestionNotification,
}  # fmt: skip
PARTS |= {cls: layer_on(LLDPLayer, cls) for cls in FORMATS if issubclass(cls, LLDPPart) and cls not in PARTS}
"""Layers for all parts of an LLDPDU, by format."""
