"""LLDP as a sequence of TLVs, including the Congestion Notification TLV. The DCBX TLVs are in `formats.dcbx`.

Sources: 802.1AB; 802.1Q Annex D; wire-formats 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ecmproto.errors import counted
from ecmproto.wire.formats.base import Crafting, Following, Formats, Layer, Limit, layer, shared
from ecmproto.wire.formats.schema import Count, octets, uint
from ecmproto.wire.formats.summary import Summary

DESTINATION = bytes.fromhex("0180c200000e")
"""Nearest bridge address, the default destination of LLDP frames (802.1AB 7.1)."""

OUI_8021, OUI_8023 = 0x0080C2, 0x00120F
SUBTYPE_8021 = "lldp.ieee.802_1.subtype"
CN_SUBTYPE = 0x08
TYPES = {
    0: "End of LLDPDU", 1: "Chassis ID", 2: "Port ID", 3: "Time To Live", 4: "Port Description",
    5: "System Name", 6: "System Description", 7: "System Capabilities", 8: "Management Address",
    127: "Organizationally Specific",
}  # fmt: skip
END = 0


ORGANIZATIONALLY_SPECIFIC = 127
"""Type of organizationally specific TLVs, which start with an OUI and a subtype."""


def tlv_texts(layers: Sequence[Layer]) -> list[str]:
    """Return the texts of a frame's LLDP TLVs for the summary line."""
    parts = [value for value in layers if isinstance(value, LLDPPart)]
    tlvs = sum(isinstance(value, AnyTLV) and value.type != END for value in parts)
    return [*filter(None, (value.summary_text for value in parts)), counted(tlvs, "TLV")]


def tlv_subtype(default: int, name: str) -> Any:
    """Declare the subtype field of an organizationally specific TLV."""
    return uint(8, default=default, base="hex", doc="subject of the TLV", source="802.1AB 8.6.1", name=name)


def tlv_value(octets_before: int = 0) -> Any:
    """Declare the information field of a TLV that is not decoded further.

    ``octets_before`` is the number of octets that the TLV's length includes before this field.
    """
    count = Count(key="length", minus=octets_before)
    return octets(count, default=b"", doc="the information", source="802.1AB 8.4", name="lldp.tlv.value")


_SYSTEM_NAME = 5


def listed_priorities(bits: int) -> str:
    """Return the priorities whose bits are set, separated by commas, or ``none``."""
    return ",".join(str(n) for n in range(8) if bits >> n & 1) or "none"


def information(oui: int, subtype: int) -> int:
    """Return the number that selects the format of an organizationally specific TLV."""
    return oui << 8 | subtype


def other_information(oui: int) -> int:
    """Return the number that selects the format for all other subtypes of an OUI."""
    return oui << 8 | _OTHER_SUBTYPE


_OTHER_SUBTYPE = 1 << 32
ORGANIZATION_OCTETS = 4
"""Number of octets in an OUI and a subtype."""


class LLDPPart(Layer):
    """Base of all layers in an LLDPDU."""

    __slots__ = ()

    counted_as = "LLDP"
    summary = Summary(label="LLDP", summarize=tlv_texts)
    crafting = Crafting(direction="link", destination=DESTINATION)

    @property
    def summary_text(self) -> str:
        """Text for the summary line of the frame."""
        return ""


def information_octets(value: Layer, content: bytes) -> int:
    """Return the number of octets after the type and length of a TLV.

    ``content`` contains the octets of the layers inside the TLV.
    """
    variable = (getattr(value, field.key) for field in value.layout if field.bits is None)
    return value.fixed_octets - HEADER_OCTETS + sum(map(len, variable)) + len(content)


HEADER_OCTETS = 2
"""Number of octets in the type and length of a TLV."""


@shared
class AnyTLV(LLDPPart):
    """Base of the TLVs. Each TLV of an LLDPDU is a layer."""

    __slots__ = ()

    type: int = uint(
        7, default=ORGANIZATIONALLY_SPECIFIC, doc="TLV type", source="802.1AB 8.4", names=TYPES,
        name="lldp.tlv.type",
    )  # fmt: skip
    length: int = uint(
        9, default=ORGANIZATION_OCTETS, unit="octets", doc="octets of information", source="802.1AB 8.4",
        name="lldp.tlv.len",
    )  # fmt: skip
    announced_by = "lldp"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next TLV, or ``None`` after the last TLV."""
        if end >= stop or self.type == END:
            return None, end
        return formats.announced(formats.ethertypes.lldp, data, end, stop)

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the length of the TLV's information."""
        return {"length": information_octets(self, rest if self.holds else b"")}


@shared
class OrganizationalTLV(AnyTLV):
    """Base of the TLVs that start with an OUI."""

    __slots__ = ()

    oui: int = uint(
        24, default=OUI_8021, base="hex", doc="OUI of the organization that defines the TLV",
        source="802.1AB 8.6.1", name="lldp.orgtlv.oui",
    )  # fmt: skip


@layer("lldp", title="LLDP TLV", source="802.1AB 8.4", type=END, length=0)
class TLV(AnyTLV):
    """TLV whose information is stored as octets. Type 0 ends the LLDPDU."""

    value: bytes = tlv_value()
    follows = "tlv"

    @property
    def summary_text(self) -> str:
        """System name, or empty text for other TLVs."""
        return self.value.decode("utf-8", errors="replace") if self.type == _SYSTEM_NAME else ""


class OtherOrganizationTLV(OrganizationalTLV):
    """Base of organizationally specific TLVs that are not decoded further."""

    __slots__ = ()

    follows = "tlv"
    limits = (Limit(key="length", low=ORGANIZATION_OCTETS, high=511),)


@layer("lldp8021", title="LLDP TLV of 802.1", source="802.1Q Annex D")
class IEEE8021TLV(OtherOrganizationTLV):
    """TLV of 802.1 whose information is stored as octets."""

    subtype: int = tlv_subtype(1, SUBTYPE_8021)
    value: bytes = tlv_value(ORGANIZATION_OCTETS)
    constants = ("type", "oui")
    selected_by = (other_information(OUI_8021),)


@layer("lldp8023", title="LLDP TLV of 802.3", source="802.3 79.3", oui=OUI_8023)
class IEEE8023TLV(OtherOrganizationTLV):
    """TLV of 802.3 whose information is stored as octets."""

    subtype: int = tlv_subtype(1, "lldp.ieee.802_3.subtype")
    value: bytes = tlv_value(ORGANIZATION_OCTETS)
    constants = ("type", "oui")
    selected_by = (other_information(OUI_8023),)


@layer("lldporg", title="LLDP TLV of an organization", source="802.1AB 8.6", oui=0)
class OrganizationTLV(OtherOrganizationTLV):
    """TLV of another organization whose information is stored as octets."""

    subtype: int = tlv_subtype(0, "lldp.unknown_subtype")
    value: bytes = tlv_value(ORGANIZATION_OCTETS)
    constants = ("type",)


@layer("lldpcn", title="LLDP Congestion Notification TLV", source="802.1Q Annex D; wire-formats 9", length=6)
class CongestionNotificationTLV(OrganizationalTLV):
    """Congestion Notification TLV: the CNPVs of a port, and the priorities that are ready for CN-TAGs."""

    subtype: int = tlv_subtype(CN_SUBTYPE, SUBTYPE_8021)
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
    def summary_text(self) -> str:
        """CNPVs and ready priorities as text for the summary line."""
        return f"CN TLV CNPV {listed_priorities(self.cnpv)} ready {listed_priorities(self.ready)}"


def tlv_chooser(formats: Iterable[type[Layer]]) -> Callable[[bytes, int, int], type[Layer]]:
    """Return a function that selects the format of the TLV at ``data[pos:stop]``."""
    by_value = {value: cls for cls in formats for value in cls.selected_by}

    def choose(data: bytes, pos: int, stop: int) -> type[Layer]:
        if stop - pos < HEADER_OCTETS + ORGANIZATION_OCTETS or data[pos] >> 1 != ORGANIZATIONALLY_SPECIFIC:
            return TLV
        cls = by_value.get(int.from_bytes(data[pos + 2 : pos + 6], "big"))
        if cls is not None or (data[pos] & 1) << 8 | data[pos + 1] < ORGANIZATION_OCTETS:
            return cls or TLV
        return by_value.get(
            other_information(int.from_bytes(data[pos + 2 : pos + 5], "big")), OrganizationTLV
        )

    return choose
