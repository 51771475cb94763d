"""LLDP as a sequence of TLVs, with the Congestion Notification TLV; `formats.dcbx` has DCBX's.

Sources: 802.1AB; 802.1Q Annex D; wire-formats 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from ecmproto.errors import counted
from ecmproto.wire.formats.base import Crafting, Following, Formats, Layer, Limit, layer
from ecmproto.wire.formats.schema import Count, octets, uint
from ecmproto.wire.formats.summary import Summary

DESTINATION = bytes.fromhex("0180c200000e")
"""Nearest bridge, the default destination of LLDP frames (802.1AB 7.1)."""

OUI_8021 = 0x0080C2
CN_SUBTYPE = 0x08
TYPES = {
    0: "End of LLDPDU", 1: "Chassis ID", 2: "Port ID", 3: "Time To Live", 4: "Port Description",
    5: "System Name", 6: "System Description", 7: "System Capabilities", 8: "Management Address",
    127: "Organizationally Specific",
}  # fmt: skip
END = 0


ORGANIZATIONALLY_SPECIFIC = 127
"""The type of TLVs whose first four octets are an OUI and a subtype."""


def tlv_type(default: int) -> int:
    """Declare the type of a TLV."""
    value: int = uint(
        7, default=default, doc="TLV type", source="802.1AB 8.4", names=TYPES, name="lldp.tlv.type"
    )
    return value


def tlv_length(default: int) -> int:
    """Declare the length of a TLV."""
    value: int = uint(
        9, default=default, unit="octets", doc="octets of information", source="802.1AB 8.4",
        name="lldp.tlv.len",
    )  # fmt: skip
    return value


def tlv_texts(layers: Sequence[Layer]) -> list[str]:
    """Return the texts of a frame's LLDP TLVs for its summary line."""
    parts = [value for value in layers if isinstance(value, LLDPPart)]
    tlvs = sum(isinstance(value, AnyTLV) and value.type != END for value in parts)
    return [*filter(None, (value.told for value in parts)), counted(tlvs, "TLV")]


_SYSTEM_NAME = 5


def listed_priorities(bits: int) -> str:
    """Return the priorities that have a bit each, ``none`` without any."""
    return ",".join(str(n) for n in range(8) if bits >> n & 1) or "none"


def information(oui: int, subtype: int) -> int:
    """Return the value by which an organizationally specific TLV is selected: its OUI and subtype."""
    return oui << 8 | subtype


class LLDPPart(Layer):
    """Base of all layers in an LLDPDU."""

    __slots__ = ()

    counted_as = "LLDP"
    summary = Summary(label="LLDP", told_by=tlv_texts)
    crafting = Crafting(direction="link", destination=DESTINATION)

    @property
    def told(self) -> str:
        """Its text in the frame's summary line."""
        return ""


def information_octets(value: Layer, held: bytes) -> int:
    """Return the octets after the type and length of a TLV with ``held`` inside."""
    variable = (getattr(value, field.key) for field in value.layout if field.bits is None)
    return value.fixed_octets - HEADER_OCTETS + sum(map(len, variable)) + len(held)


HEADER_OCTETS = 2
"""The octets of a TLV's type and length."""


class AnyTLV(LLDPPart):
    """Base of the TLVs: every one of an LLDPDU is a layer."""

    __slots__ = ()

    type: int
    announced_by = "lldp"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Another TLV follows every TLV but the last."""
        if end >= stop or self.type == END:
            return None, end
        return formats.announced(formats.ethertypes.lldp, data, end, stop)

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """The length counts the information."""
        return {"length": information_octets(self, rest if self.holds else b"")}


@layer("lldp", title="LLDP TLV", source="802.1AB 8.4")
class TLV(AnyTLV):
    """Any TLV, its information as octets; type 0 ends the LLDPDU."""

    type: int = tlv_type(END)
    length: int = tlv_length(0)
    value: bytes = octets(
        Count(key="length"), default=b"", doc="the information", source="802.1AB 8.4", name="lldp.tlv.value"
    )
    follows = "tlv"

    @property
    def told(self) -> str:
        """The name of a system."""
        return self.value.decode("utf-8", errors="replace") if self.type == _SYSTEM_NAME else ""


@layer("lldpcn", title="LLDP Congestion Notification TLV", source="802.1Q Annex D; wire-formats 9")
class CongestionNotificationTLV(AnyTLV):
    """The CNPVs of this port, and the priorities ready for CN-TAGs."""

    type: int = tlv_type(ORGANIZATIONALLY_SPECIFIC)
    length: int = tlv_length(6)
    oui: int = uint(
        24,
        default=OUI_8021,
        base="hex",
        doc="00-80-C2",
        source="802.1Q Annex D",
        name="lldp.ieee.802_1qau.oui",
    )
    subtype: int = uint(
        8, default=CN_SUBTYPE, base="hex", doc="Congestion Notification", source="802.1Q Annex D",
        name="lldp.ieee.802_1.subtype",
    )  # fmt: skip
    cnpv: int = uint(
        8, default=0, base="hex", doc="per-priority CNPV indicators, bit n = priority n",
        source="802.1Q 33.5", name="lldp.ieee.802_1qau.cnpv", flags="lldp.ieee.802_1qau.cnpv.prio{}",
    )  # fmt: skip
    ready: int = uint(
        8, default=0, base="hex", doc="per-priority Ready indicators, bit n = priority n",
        source="802.1Q 33.5", name="lldp.ieee.802_1qau.ready", flags="lldp.ieee.802_1qau.ready.prio{}",
    )  # fmt: skip
    follows = "tlv"
    constants = ("type", "length", "oui", "subtype")
    limits = (Limit(key="length", low=6, high=6),)
    selected_by = (information(OUI_8021, CN_SUBTYPE),)

    @property
    def told(self) -> str:
        """The CNPVs, and those that are ready."""
        return f"CN TLV CNPV {listed_priorities(self.cnpv)} ready {listed_priorities(self.ready)}"
