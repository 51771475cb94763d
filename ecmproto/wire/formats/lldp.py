"""LLDP as TLVs, with the Congestion Notification TLV (802.1AB; 802.1Q Annex D; wire-formats 9)."""

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


def _type(default: int) -> int:
    value: int = uint(
        7, default=default, doc="TLV type", source="802.1AB 8.4", names=TYPES, name="lldp.tlv.type"
    )
    return value


def _length(default: int) -> int:
    value: int = uint(
        9, default=default, unit="octets", doc="octets of information", source="802.1AB 8.4",
        name="lldp.tlv.len",
    )  # fmt: skip
    return value


def tlv_texts(layers: Sequence[Layer]) -> list[str]:
    """Return the texts of a frame's LLDP TLVs for its summary line."""
    said, count = [], 0
    for value in layers:
        if isinstance(value, TLV):
            count += value.type != END
            if value.type == _SYSTEM_NAME:
                said.append(value.value.decode("utf-8", errors="replace"))
        elif isinstance(value, CongestionNotificationTLV):
            count += 1
            said.append(f"CN TLV CNPV {_priorities(value.cnpv)} ready {_priorities(value.ready)}")
    return [*said, counted(count, "TLV")]


_SYSTEM_NAME = 5


def _priorities(bits: int) -> str:
    return ",".join(str(n) for n in range(8) if bits >> n & 1) or "none"


class _AnyTLV(Layer):
    """Base of the TLVs: every one of an LLDPDU is a layer."""

    __slots__ = ()

    counted_as = "LLDP"
    summary = Summary(label="LLDP", told_by=tlv_texts)
    announced_by = "lldp"
    crafting = Crafting(direction="link", destination=DESTINATION)


@layer("lldp", title="LLDP TLV", source="802.1AB 8.4")
class TLV(_AnyTLV):
    """Any TLV, its information as octets; type 0 ends the LLDPDU."""

    type: int = _type(END)
    length: int = _length(0)
    value: bytes = octets(
        Count(key="length"), default=b"", doc="the information", source="802.1AB 8.4", name="lldp.tlv.value"
    )
    follows = "tlv"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next TLV; the last one ends the LLDPDU."""
        return (None, end) if self.type == END or end >= stop else (tlv_at(data, end, stop), stop)

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the length of the information."""
        return {"length": len(self.value)}


@layer("lldpcn", title="LLDP Congestion Notification TLV", source="802.1Q Annex D; wire-formats 9")
class CongestionNotificationTLV(_AnyTLV):
    """The CNPVs of this port, and the priorities ready for CN-TAGs."""

    type: int = _type(127)
    length: int = _length(6)
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
    follows = "cn tlv"
    constants = ("type", "length", "oui", "subtype")
    limits = (Limit(key="length", low=6, high=6),)

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next TLV."""
        return (None, end) if end >= stop else (tlv_at(data, end, stop), stop)

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the format's own length."""
        return {"length": 6}


_CN_INFORMATION = OUI_8021.to_bytes(3, "big") + bytes([CN_SUBTYPE])


def tlv_at(data: bytes, pos: int, stop: int) -> type[Layer]:
    """Return the format of the TLV at ``data[pos:stop]``."""
    if stop - pos >= 6 and data[pos] >> 1 == 127 and data[pos + 2 : pos + 6] == _CN_INFORMATION:
        return CongestionNotificationTLV
    return TLV
