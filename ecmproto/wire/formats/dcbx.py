"""DCBX in LLDP: bandwidth shares, lossless priorities and applications at both ends of a link.

The module decodes two dialects. 802.1Qaz has one TLV per subject. CEE has a single TLV that contains one TLV
per subject. CIN, the predecessor of CEE, is only recognised by name.

Sources: 802.1Q Annex D.2; DCBX 1.01 (CEE).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ecmproto.wire.formats.base import Following, Formats, Layer, Limit, layer, shared
from ecmproto.wire.formats.lldp import (
    HEADER_OCTETS,
    OUI_8021,
    SUBTYPE_8021,
    LLDPPart,
    OrganizationalTLV,
    information,
    information_octets,
    listed_priorities,
    tlv_subtype,
)
from ecmproto.wire.formats.schema import Count, octets, uint

OUI_INTEL = 0x001B21
"""OUI of CEE and CIN."""
ETS_CONFIGURATION, ETS_RECOMMENDATION, PFC_CONFIGURATION, APPLICATIONS = range(9, 13)
"""Subtypes of the 802.1Qaz TLVs."""
CIN, CEE_VERSION = 1, 2
"""Subtypes under Intel's OUI."""
STRICT, CREDIT_BASED, ETS, VENDOR = 0, 1, 2, 255
ALGORITHMS = {
    STRICT: "strict priority", CREDIT_BASED: "credit-based shaper", ETS: "enhanced transmission selection",
    VENDOR: "vendor-specific",
}  # fmt: skip
"""Transmission selection algorithms of traffic classes."""
ETHERTYPE, TCP_PORT, UDP_PORT, EITHER_PORT, DSCP = range(1, 6)
SELECTORS = {
    ETHERTYPE: "EtherType", TCP_PORT: "TCP port", UDP_PORT: "UDP port", EITHER_PORT: "port of either",
    DSCP: "DSCP",
}  # fmt: skip
"""Types of application identifiers in 802.1Qaz. EtherType 0 means the default application."""
CEE_ETHERTYPE, CEE_PORT = range(2)
CEE_SELECTORS = {CEE_ETHERTYPE: "EtherType", CEE_PORT: "TCP or UDP port"}
"""Types of application identifiers in CEE."""
STRICT_GROUP = 15
"""Priority group of CEE that is served first and has no bandwidth share."""
CONTROL, GROUPS, CEE_PFC, CEE_APPLICATIONS = range(1, 5)
CEE_TYPES = {
    CONTROL: "control", GROUPS: "priority groups", CEE_PFC: "PFC", CEE_APPLICATIONS: "applications",
}  # fmt: skip
_ETS_OCTETS, _PFC_OCTETS, _APPLICATIONS_OCTETS, _CEE_OCTETS, _CEE_APPLICATIONS_OCTETS = 25, 6, 5, 4, 4
_QAZ, _CEE = "802.1Q D.2", "DCBX 1.01"


def _willing(name: str) -> Any:
    return uint(1, default=0, doc="whether this end accepts the neighbour's configuration", name=name)


def _group(priority: int) -> Any:
    doc = f"traffic class (CEE: priority group) of priority {priority}"
    return uint(4, default=0, doc=doc, source=_QAZ, name=f"lldp.dcbx.feature.pg.pgid_prio{priority}")


def _bandwidth(group: int) -> Any:
    doc = f"bandwidth of traffic class (CEE: priority group) {group}"
    return uint(8, default=0, unit="%", doc=doc, source=_QAZ, name=f"lldp.dcbx.feature.pg.per{group}")


def _algorithm(group: int) -> Any:
    doc = f"transmission selection algorithm of traffic class {group}"
    return uint(8, default=0, doc=doc, names=ALGORITHMS, name=f"lldp.dcbx.ieee.ets.tsa{group}")


def _enabled() -> Any:
    return uint(
        8, default=0, base="hex", doc="priorities with PFC, bit n = priority n",
        name="lldp.dcbx.feature.pfc.enable", flags="lldp.dcbx.feature.pfc.prio{}",
    )  # fmt: skip


def _protocol() -> Any:
    doc = "EtherType, port or DSCP"
    return uint(16, default=0, base="hex", doc=doc, name="lldp.dcbx.feature.app.proto")


def shares_text(bandwidth: Mapping[int, int], strict: Mapping[int, bool], noun: str = "TC") -> str:
    """Return the bandwidths of traffic classes, and the list of strict classes, as text."""
    shares = [f"{noun} {number} {share} %" for number, share in bandwidth.items() if share]
    first = [str(number) for number, is_strict in strict.items() if is_strict]
    return ", ".join([*shares, *([f"{noun} {','.join(first)} strict"] if first else [])])


@shared
class _Qaz(OrganizationalTLV):
    """Base of the 802.1Qaz TLVs."""

    __slots__ = ()

    subtype: int = tlv_subtype(0, SUBTYPE_8021)


@shared
class _Groups(LLDPPart):
    """Base of formats with a group for each priority and a bandwidth for each group."""

    __slots__ = ()

    prio0: int = _group(0)
    prio1: int = _group(1)
    prio2: int = _group(2)
    prio3: int = _group(3)
    prio4: int = _group(4)
    prio5: int = _group(5)
    prio6: int = _group(6)
    prio7: int = _group(7)
    per0: int = _bandwidth(0)
    per1: int = _bandwidth(1)
    per2: int = _bandwidth(2)
    per3: int = _bandwidth(3)
    per4: int = _bandwidth(4)
    per5: int = _bandwidth(5)
    per6: int = _bandwidth(6)
    per7: int = _bandwidth(7)

    @property
    def classes(self) -> tuple[int, ...]:
        """Traffic class (CEE: priority group) of each priority."""
        return tuple(getattr(self, f"prio{priority}") for priority in range(8))

    @property
    def bandwidths(self) -> tuple[int, ...]:
        """Bandwidth of each traffic class (CEE: priority group) in percent."""
        return tuple(getattr(self, f"per{number}") for number in range(8))


@shared
class _Allocation(_Groups):
    """Base of the TLVs for enhanced transmission selection (ETS)."""

    __slots__ = ()

    tsa0: int = _algorithm(0)
    tsa1: int = _algorithm(1)
    tsa2: int = _algorithm(2)
    tsa3: int = _algorithm(3)
    tsa4: int = _algorithm(4)
    tsa5: int = _algorithm(5)
    tsa6: int = _algorithm(6)
    tsa7: int = _algorithm(7)
    follows = "tlv"
    constants = ("type", "length", "oui", "subtype")
    limits = (Limit(key="length", low=_ETS_OCTETS, high=_ETS_OCTETS),)

    @property
    def algorithms(self) -> tuple[int, ...]:
        """Transmission selection algorithm of each traffic class."""
        return tuple(getattr(self, f"tsa{number}") for number in range(8))

    def _shares(self) -> str:
        used = sorted(set(self.classes))
        strict = {number: self.algorithms[number] == STRICT for number in used if number < 8}
        return shares_text(dict(enumerate(self.bandwidths)), strict)


@shared
class _Configured(_Qaz):
    """Base of the ETS configuration, with the fields before the shares."""

    __slots__ = ()

    willing: int = _willing("lldp.dcbx.ieee.willing")
    cbs: int = uint(
        1, default=0, doc="whether this end supports credit-based shapers", name="lldp.dcbx.ieee.ets.cbs"
    )
    reserved: int = uint(3, default=0, base="hex", doc="0")
    maxtcs: int = uint(
        3, default=0, doc="number of traffic classes supported, 0 for 8", name="lldp.dcbx.ieee.ets.maxtcs"
    )


@layer(
    "lldpets", title="DCBX ETS Configuration TLV", source=_QAZ, length=_ETS_OCTETS, subtype=ETS_CONFIGURATION
)
class ETSConfiguration(_Allocation, _Configured):
    """ETS configuration of a port: the traffic class of each priority, and each class's bandwidth share."""

    selected_by = (information(OUI_8021, ETS_CONFIGURATION),)

    @property
    def summary_text(self) -> str:
        """Bandwidth shares as text for the summary line."""
        return f"ETS {self._shares()}{_if_willing(self.willing)}"


@shared
class _Recommended(_Qaz):
    """Base of the ETS recommendation, with the fields before the shares."""

    __slots__ = ()

    reserved: int = uint(8, default=0, base="hex", doc="0")


@layer(
    "lldpetsrec",
    title="DCBX ETS Recommendation TLV",
    source=_QAZ,
    length=_ETS_OCTETS,
    subtype=ETS_RECOMMENDATION,
)
class ETSRecommendation(_Allocation, _Recommended):
    """ETS recommendation: bandwidth shares that a port recommends to a willing neighbour."""

    selected_by = (information(OUI_8021, ETS_RECOMMENDATION),)

    @property
    def summary_text(self) -> str:
        """Bandwidth shares as text for the summary line."""
        return f"ETS recommended {self._shares()}"


@layer(
    "lldppfc", title="DCBX PFC Configuration TLV", source=_QAZ, length=_PFC_OCTETS, subtype=PFC_CONFIGURATION
)
class PFCConfiguration(_Qaz):
    """Priorities that PFC protects at a port."""

    willing: int = _willing("lldp.dcbx.ieee.willing")
    mbc: int = uint(
        1, default=0, doc="MACsec bypass capability: whether MACsec does not delay responses",
        name="lldp.dcbx.ieee.pfc.mbc",
    )  # fmt: skip
    reserved: int = uint(2, default=0, base="hex", doc="0")
    capability: int = uint(
        4, default=8, doc="maximum number of priorities with PFC", name="lldp.dcbx.ieee.pfc.numtcs"
    )
    enable: int = _enabled()
    follows = "tlv"
    constants = ("type", "length", "oui", "subtype")
    limits = (Limit(key="length", low=_PFC_OCTETS, high=_PFC_OCTETS),)
    selected_by = (information(OUI_8021, PFC_CONFIGURATION),)

    @property
    def summary_text(self) -> str:
        """Protected priorities as text for the summary line."""
        return f"PFC {listed_priorities(self.enable)}{_if_willing(self.willing)}"


@layer("lldpapp.entry", title="DCBX application", source=_QAZ)
class Application(LLDPPart):
    """Priority for the frames of an application."""

    priority: int = uint(
        3, default=0, doc="priority of the application's frames", name="lldp.dcbx.ieee.app.prio"
    )
    reserved: int = uint(2, default=0, base="hex", doc="0")
    selector: int = uint(
        3, default=UDP_PORT, doc="type of the application's identifier", names=SELECTORS,
        name="lldp.dcbx.iee.app.sf",
    )  # fmt: skip
    protocol: int = _protocol()

    @property
    def summary_text(self) -> str:
        """Application and priority as text for the summary line."""
        return f"{application_text(SELECTORS, self.selector, self.protocol)}: priority {self.priority}"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next application entry, or ``None`` at the end of the TLV."""
        return (Application if end < stop else None), stop


@layer(
    "lldpapp", title="DCBX Application Priority TLV", source=_QAZ, length=_APPLICATIONS_OCTETS,
    subtype=APPLICATIONS,
)  # fmt: skip
class Applications(_Qaz):
    """Application priority TLV, with one entry per application."""

    reserved: int = uint(8, default=0, base="hex", doc="0", name="lldp.dcbx.ieee.app.reserved")
    constants = ("type", "oui", "subtype")
    limits = (Limit(key="length", low=_APPLICATIONS_OCTETS, high=511),)
    selected_by = (information(OUI_8021, APPLICATIONS),)
    holds = (Application,)

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the format of the first application entry, or ``None``, and the end of the TLV."""
        until = start + HEADER_OCTETS + self.length
        return (Application if end < min(until, stop) else None), until


@shared
class _InsideCEE(LLDPPart):
    """Base of the TLVs inside the CEE TLV."""

    __slots__ = ()

    type: int = uint(7, default=5, doc="subject of the TLV", names=CEE_TYPES, name="lldp.dcbx.type")
    length: int = uint(9, default=0, unit="octets", doc="octets after the length", name="lldp.dcbx.len")

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next inner TLV, or ``None`` at the end of the CEE TLV."""
        return _inside_cee(data, end, stop), stop

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the value of the length field."""
        return {"length": information_octets(self, rest if self.holds else b"")}


def _inside_cee(data: bytes, pos: int, stop: int) -> type[Layer] | None:
    """Return the format of the inner TLV at ``data[pos:stop]``, or ``None`` if no octets remain."""
    return _BY_TYPE.get(data[pos] >> 1, CEETLV) if pos < stop else None


@layer("lldpcee.tlv", title="CEE TLV", source=_CEE)
class CEETLV(_InsideCEE):
    """TLV inside the CEE TLV with a subject that is not decoded."""

    value: bytes = octets(Count(key="length"), default=b"", doc="the information")


@layer("lldpcee.control", title="CEE control", source=_CEE, type=CONTROL, length=10)
class CEEControl(_InsideCEE):
    """Sequence number and acknowledgement number of a port."""

    field_prefix = "lldp.dcbx.control"
    version: int = uint(8, default=0, doc="operating version of the protocol", name="lldp.dcbx.version")
    max_version: int = uint(
        8, default=0, doc="highest version of the protocol supported", name="lldp.dcbx.max_version"
    )
    seq: int = uint(32, default=0, doc="sequence number of the last local change")
    ack: int = uint(32, default=0, doc="sequence number of the last change received from the neighbour")
    constants = ("type", "length")
    limits = (Limit(key="length", low=10, high=10),)


@shared
class _Feature(_InsideCEE):
    """Base of the feature TLVs inside the CEE TLV."""

    __slots__ = ()

    version: int = uint(8, default=0, doc="operating version of the feature", name="lldp.dcbx.version")
    max_version: int = uint(
        8, default=0, doc="highest version of the feature supported", name="lldp.dcbx.max_version"
    )
    enabled: int = uint(1, default=0, doc="whether the feature is enabled", name="lldp.dcbx.feature.enabled")
    willing: int = _willing("lldp.dcbx.feature.willing")
    error: int = uint(
        1,
        default=0,
        doc="whether the configurations of the two ends are incompatible",
        name="lldp.dcbx.feature.error",
    )
    reserved: int = uint(5, default=0, base="hex", doc="0")
    subtype: int = uint(8, default=0, doc="subtype of the feature", name="lldp.dcbx.feature.subtype")


@layer("lldpcee.pg", title="CEE priority groups", source=_CEE, type=GROUPS, length=17)
class CEEGroups(_Groups, _Feature):
    """Priority group of each priority, and the bandwidth of each group.

    Priorities of group 15 are served first.
    """

    numtcs: int = uint(
        8, default=8, doc="number of traffic classes supported", name="lldp.dcbx.feature.pg.numtcs"
    )
    constants = ("type", "length")
    limits = (Limit(key="length", low=17, high=17),)

    @property
    def summary_text(self) -> str:
        """Bandwidth shares as text for the summary line."""
        strict = {STRICT_GROUP: STRICT_GROUP in self.classes}
        return shares_text(dict(enumerate(self.bandwidths)), strict, "PG") + _if_willing(self.willing)


@layer("lldpcee.pfc", title="CEE PFC", source=_CEE, type=CEE_PFC, length=6)
class CEEPFC(_Feature):
    """Priorities that PFC protects at a port, in CEE."""

    enable: int = _enabled()
    numtcs: int = uint(
        8, default=8, doc="maximum number of priorities with PFC", name="lldp.dcbx.feature.pfc.numtcs"
    )
    constants = ("type", "length")
    limits = (Limit(key="length", low=6, high=6),)

    @property
    def summary_text(self) -> str:
        """Protected priorities as text for the summary line."""
        return f"PFC {listed_priorities(self.enable)}{_if_willing(self.willing)}"


@layer("lldpcee.app.entry", title="CEE application", source=_CEE)
class CEEApplication(LLDPPart):
    """Priorities for the frames of an application, in CEE."""

    protocol: int = _protocol()
    oui_upper: int = uint(6, default=0, base="hex", doc="upper bits of the OUI")
    selector: int = uint(
        2, default=CEE_PORT, doc="type of the application's identifier", names=CEE_SELECTORS,
        name="lldp.dcbx.feature.app.sf",
    )  # fmt: skip
    oui: int = uint(
        16, default=OUI_INTEL, base="hex", doc="lower 16 bits of the OUI", name="lldp.dcbx.feature.app.oui"
    )
    priorities: int = uint(
        8, default=0, base="hex", doc="priorities of the application's frames, bit n = priority n",
        name="lldp.dcbx.feature.app.priorities", flags="lldp.dcbx.feature.app.prio{}",
    )  # fmt: skip

    @property
    def summary_text(self) -> str:
        """Application and priorities as text for the summary line."""
        application = application_text(CEE_SELECTORS, self.selector, self.protocol)
        return f"{application}: priority {listed_priorities(self.priorities)}"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next application entry, or ``None`` at the end of the TLV."""
        return (CEEApplication if end < stop else None), stop


@layer(
    "lldpcee.app", title="CEE applications", source=_CEE, type=CEE_APPLICATIONS,
    length=_CEE_APPLICATIONS_OCTETS,
)  # fmt: skip
class CEEApplications(_Feature):
    """Application TLV of CEE, with one entry per application."""

    constants = ("type",)
    limits = (Limit(key="length", low=_CEE_APPLICATIONS_OCTETS, high=511),)
    holds = (CEEApplication,)

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the format of the first application entry, or ``None``, and the end of the TLV."""
        until = start + HEADER_OCTETS + self.length
        return (CEEApplication if end < min(until, stop) else None), until


_BY_TYPE: dict[int, type[Layer]] = {
    CONTROL: CEEControl, GROUPS: CEEGroups, CEE_PFC: CEEPFC, CEE_APPLICATIONS: CEEApplications,
}  # fmt: skip


@layer("lldpcee", title="DCBX TLV of CEE or CIN", source=_CEE, oui=OUI_INTEL)
class CEE(OrganizationalTLV):
    """DCBX TLV from before 802.1Qaz.

    The CEE TLV contains one TLV per subject. The content of a CIN TLV is not decoded.
    """

    proto: int = uint(
        8, default=CEE_VERSION, base="hex", doc="DCBX version", names={CIN: "CIN", CEE_VERSION: "CEE"},
        name="lldp.dcbx.proto",
    )  # fmt: skip
    value: bytes = octets(
        Count(key="length", minus=_CEE_OCTETS, when=("proto", (CIN,))), default=b"", doc="information of CIN",
        name="lldp.dcbx.cin",
    )  # fmt: skip
    constants = ("type", "oui")
    limits = (Limit(key="length", low=_CEE_OCTETS, high=511),)
    selected_by = (information(OUI_INTEL, CIN), information(OUI_INTEL, CEE_VERSION))
    holds = (CEETLV, CEEControl, CEEGroups, CEEPFC, CEEApplications, CEEApplication)

    @property
    def summary_text(self) -> str:
        """Name of the dialect, CEE or CIN, as text for the summary line."""
        return "DCBX of CIN" if self.proto == CIN else "DCBX of CEE"

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the format of the first inner TLV, or ``None``, and the end of the CEE TLV."""
        until = start + HEADER_OCTETS + self.length
        return _inside_cee(data, end, min(until, stop)), until


def _if_willing(willing: int) -> str:
    return ", willing" if willing else ""


def application_text(selectors: Mapping[int, str], selector: int, protocol: int) -> str:
    """Return an application's identifier as text, for example ``UDP port 4791``."""
    name = selectors.get(selector, f"selector {selector}")
    return f"{name} {protocol:#06x}" if name == SELECTORS[ETHERTYPE] else f"{name} {protocol}"
