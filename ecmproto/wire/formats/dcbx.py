"""DCBX in LLDP: bandwidth shares, lossless priorities and applications of a link's ends.

There are two dialects.  802.1Qaz has a TLV for each subject, with entries for applications.  CEE has one TLV,
with a TLV for each subject inside.  CIN, its predecessor, is recognised by name only.

Sources: 802.1Q Annex D.2; DCBX 1.01 (CEE).
"""

from __future__ import annotations

from collections.abc import Mapping

from ecmproto.wire.formats.base import Following, Formats, Layer, Limit, layer, shared
from ecmproto.wire.formats.lldp import (
    HEADER_OCTETS,
    ORGANIZATIONALLY_SPECIFIC,
    OUI_8021,
    SUBTYPE_8021,
    AnyTLV,
    LLDPPart,
    information,
    information_octets,
    listed_priorities,
    tlv_length,
    tlv_oui,
    tlv_subtype,
    tlv_type,
)
from ecmproto.wire.formats.schema import Count, octets, uint

OUI_INTEL = 0x001B21
"""The OUI that CEE and CIN have."""
ETS_CONFIGURATION, ETS_RECOMMENDATION, PFC_CONFIGURATION, APPLICATIONS = range(9, 13)
"""Subtypes of 802.1Qaz."""
CIN, CEE_VERSION = 1, 2
"""Subtypes of Intel's."""
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
"""Identifiers of applications in 802.1Qaz; EtherType 0 is the default."""
CEE_ETHERTYPE, CEE_PORT = range(2)
CEE_SELECTORS = {CEE_ETHERTYPE: "EtherType", CEE_PORT: "TCP or UDP port"}
"""The same in CEE."""
STRICT_GROUP = 15
"""The priority group of CEE that is served first, and has no share."""
CONTROL, GROUPS, CEE_PFC, CEE_APPLICATIONS = range(1, 5)
CEE_TYPES = {
    CONTROL: "control", GROUPS: "priority groups", CEE_PFC: "PFC", CEE_APPLICATIONS: "applications",
}  # fmt: skip
_ETS_OCTETS, _PFC_OCTETS, _APPLICATIONS_OCTETS, _CEE_OCTETS, _CEE_APPLICATIONS_OCTETS = 25, 6, 5, 4, 4
_QAZ, _CEE = "802.1Q D.2", "DCBX 1.01"


def _reserved(bits: int, source: str = _QAZ) -> int:
    value: int = uint(bits, default=0, base="hex", doc="0", source=source)
    return value


def _willing(source: str, name: str) -> int:
    value: int = uint(
        1, default=0, doc="whether this end accepts the neighbour's configuration", source=source, name=name
    )
    return value


def _group(priority: int) -> int:
    value: int = uint(
        4, default=0, doc=f"traffic class (CEE: priority group) of priority {priority}", source=_QAZ,
        name=f"lldp.dcbx.feature.pg.pgid_prio{priority}",
    )  # fmt: skip
    return value


def _bandwidth(group: int) -> int:
    value: int = uint(
        8, default=0, unit="%", doc=f"bandwidth of traffic class (CEE: priority group) {group}", source=_QAZ,
        name=f"lldp.dcbx.feature.pg.per{group}",
    )  # fmt: skip
    return value


def _algorithm(group: int) -> int:
    value: int = uint(
        8, default=0, doc=f"transmission selection algorithm of traffic class {group}", source=_QAZ,
        names=ALGORITHMS, name=f"lldp.dcbx.ieee.ets.tsa{group}",
    )  # fmt: skip
    return value


def _enabled(source: str) -> int:
    value: int = uint(
        8, default=0, base="hex", doc="priorities with PFC, bit n = priority n", source=source,
        name="lldp.dcbx.feature.pfc.enable", flags="lldp.dcbx.feature.pfc.prio{}",
    )  # fmt: skip
    return value


def _protocol(source: str) -> int:
    value: int = uint(
        16, default=0, base="hex", doc="EtherType, port or DSCP", source=source,
        name="lldp.dcbx.feature.app.proto",
    )  # fmt: skip
    return value


def shares_text(bandwidth: Mapping[int, int], strict: Mapping[int, bool], noun: str = "TC") -> str:
    """Return the text of the bandwidths of traffic classes, and of those that are strict."""
    shares = [f"{noun} {number} {share} %" for number, share in bandwidth.items() if share]
    first = [str(number) for number, is_strict in strict.items() if is_strict]
    return ", ".join([*shares, *([f"{noun} {','.join(first)} strict"] if first else [])])


@shared
class _Qaz(AnyTLV):
    """Base of the TLVs of 802.1Qaz."""

    __slots__ = ()

    type: int = tlv_type(ORGANIZATIONALLY_SPECIFIC)
    length: int = tlv_length(_ETS_OCTETS)
    oui: int = tlv_oui(OUI_8021)
    subtype: int = tlv_subtype(0, SUBTYPE_8021)


@shared
class _Groups(LLDPPart):
    """Base of formats with the group of each priority, and the bandwidth of each group."""

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
        """The traffic class (CEE: priority group) of each priority."""
        return tuple(getattr(self, f"prio{priority}") for priority in range(8))

    @property
    def bandwidths(self) -> tuple[int, ...]:
        """The bandwidth of each traffic class (CEE: priority group) in percent."""
        return tuple(getattr(self, f"per{number}") for number in range(8))


@shared
class _Allocation(_Groups):
    """Base of the TLVs of enhanced transmission selection."""

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
        """The transmission selection algorithm of each traffic class."""
        return tuple(getattr(self, f"tsa{number}") for number in range(8))

    def _shares(self) -> str:
        used = sorted(set(self.classes))
        strict = {number: self.algorithms[number] == STRICT for number in used if number < 8}
        return shares_text(dict(enumerate(self.bandwidths)), strict)


@shared
class _Configured(_Qaz):
    """Base of the configuration: the fields before its shares."""

    __slots__ = ()

    willing: int = _willing(_QAZ, "lldp.dcbx.ieee.willing")
    cbs: int = uint(
        1, default=0, doc="whether this end supports credit-based shapers", source=_QAZ,
        name="lldp.dcbx.ieee.ets.cbs",
    )  # fmt: skip
    reserved: int = _reserved(3)
    maxtcs: int = uint(
        3, default=0, doc="number of traffic classes supported, 0 for 8", source=_QAZ,
        name="lldp.dcbx.ieee.ets.maxtcs",
    )  # fmt: skip


@layer("lldpets", title="DCBX ETS Configuration TLV", source=_QAZ, subtype=ETS_CONFIGURATION)
class ETSConfiguration(_Allocation, _Configured):
    """Bandwidth shares of an end: the traffic class of each priority, and the share of each class."""

    selected_by = (information(OUI_8021, ETS_CONFIGURATION),)

    @property
    def summary_text(self) -> str:
        """The shares."""
        return f"ETS {self._shares()}{_if_willing(self.willing)}"


@shared
class _Recommended(_Qaz):
    """Base of the recommendation: the fields before its shares."""

    __slots__ = ()

    reserved: int = _reserved(8)


@layer("lldpetsrec", title="DCBX ETS Recommendation TLV", source=_QAZ, subtype=ETS_RECOMMENDATION)
class ETSRecommendation(_Allocation, _Recommended):
    """Bandwidth shares that an end recommends to a willing neighbour."""

    selected_by = (information(OUI_8021, ETS_RECOMMENDATION),)

    @property
    def summary_text(self) -> str:
        """The shares."""
        return f"ETS recommended {self._shares()}"


@layer(
    "lldppfc", title="DCBX PFC Configuration TLV", source=_QAZ, length=_PFC_OCTETS, subtype=PFC_CONFIGURATION
)
class PFCConfiguration(_Qaz):
    """The priorities that PFC protects at an end."""

    willing: int = _willing(_QAZ, "lldp.dcbx.ieee.willing")
    mbc: int = uint(
        1, default=0, doc="MACsec bypass capability: whether MACsec does not delay responses", source=_QAZ,
        name="lldp.dcbx.ieee.pfc.mbc",
    )  # fmt: skip
    reserved: int = _reserved(2)
    capability: int = uint(
        4, default=8, doc="maximum number of priorities with PFC", source=_QAZ,
        name="lldp.dcbx.ieee.pfc.numtcs",
    )  # fmt: skip
    enable: int = _enabled(_QAZ)
    follows = "tlv"
    constants = ("type", "length", "oui", "subtype")
    limits = (Limit(key="length", low=_PFC_OCTETS, high=_PFC_OCTETS),)
    selected_by = (information(OUI_8021, PFC_CONFIGURATION),)

    @property
    def summary_text(self) -> str:
        """The priorities."""
        return f"PFC {listed_priorities(self.enable)}{_if_willing(self.willing)}"


@layer("lldpapp.entry", title="DCBX application", source=_QAZ)
class Application(LLDPPart):
    """The priority that frames of an application are to have."""

    priority: int = uint(
        3, default=0, doc="priority of the application's frames", source=_QAZ, name="lldp.dcbx.ieee.app.prio"
    )
    reserved: int = _reserved(2)
    selector: int = uint(
        3, default=UDP_PORT, doc="type of the application's identifier", source=_QAZ, names=SELECTORS,
        name="lldp.dcbx.iee.app.sf",
    )  # fmt: skip
    protocol: int = _protocol(_QAZ)

    @property
    def summary_text(self) -> str:
        """The application and its priority."""
        return f"{application_text(SELECTORS, self.selector, self.protocol)}: priority {self.priority}"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Another entry follows, as long as the TLV goes on."""
        return (Application if end < stop else None), stop


@layer(
    "lldpapp", title="DCBX Application Priority TLV", source=_QAZ, length=_APPLICATIONS_OCTETS,
    subtype=APPLICATIONS,
)  # fmt: skip
class Applications(_Qaz):
    """The priorities of applications: an entry for each."""

    reserved: int = uint(8, default=0, base="hex", doc="0", source=_QAZ, name="lldp.dcbx.ieee.app.reserved")
    constants = ("type", "oui", "subtype")
    limits = (Limit(key="length", low=_APPLICATIONS_OCTETS, high=511),)
    selected_by = (information(OUI_8021, APPLICATIONS),)
    holds = (Application,)

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the entries."""
        until = start + HEADER_OCTETS + self.length
        return (Application if end < min(until, stop) else None), until


@shared
class _InsideCEE(LLDPPart):
    """Base of the TLVs inside CEE's."""

    __slots__ = ()

    type: int = uint(
        7, default=5, doc="subject of the TLV", source=_CEE, names=CEE_TYPES, name="lldp.dcbx.type"
    )
    length: int = uint(
        9, default=0, unit="octets", doc="octets after the length", source=_CEE, name="lldp.dcbx.len"
    )

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Another of these follows, as long as the TLV around goes on."""
        return _inside_cee(data, end, stop), stop

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the length of the octets after it."""
        return {"length": information_octets(self, rest if self.holds else b"")}


def _inside_cee(data: bytes, pos: int, stop: int) -> type[Layer] | None:
    """Return the format of the TLV at ``data[pos:stop]``, None where none is left."""
    return _BY_TYPE.get(data[pos] >> 1, CEETLV) if pos < stop else None


def _version(name: str, doc: str) -> int:
    value: int = uint(8, default=0, doc=doc, source=_CEE, name=f"lldp.dcbx.{name}")
    return value


def _flag(name: str, doc: str) -> int:
    value: int = uint(1, default=0, doc=doc, source=_CEE, name=f"lldp.dcbx.feature.{name}")
    return value


@layer("lldpcee.tlv", title="CEE TLV", source=_CEE)
class CEETLV(_InsideCEE):
    """A TLV inside CEE's with another subject."""

    value: bytes = octets(Count(key="length"), default=b"", doc="the information", source=_CEE)


@layer("lldpcee.control", title="CEE control", source=_CEE, type=CONTROL, length=10)
class CEEControl(_InsideCEE):
    """Sequence and acknowledgement numbers of an end."""

    version: int = _version("version", "operating version of the protocol")
    max_version: int = _version("max_version", "highest version of the protocol supported")
    seq: int = uint(
        32, default=0, doc="sequence number of the last local change", source=_CEE,
        name="lldp.dcbx.control.seq",
    )  # fmt: skip
    ack: int = uint(
        32, default=0, doc="sequence number of the last change received from the neighbour", source=_CEE,
        name="lldp.dcbx.control.ack",
    )  # fmt: skip
    constants = ("type", "length")
    limits = (Limit(key="length", low=10, high=10),)


@shared
class _Feature(_InsideCEE):
    """Base of the TLVs of features."""

    __slots__ = ()

    version: int = _version("version", "operating version of the feature")
    max_version: int = _version("max_version", "highest version of the feature supported")
    enabled: int = _flag("enabled", "whether the feature is enabled")
    willing: int = _willing(_CEE, "lldp.dcbx.feature.willing")
    error: int = _flag("error", "whether the configurations of the two ends are incompatible")
    reserved: int = _reserved(5, _CEE)
    subtype: int = uint(
        8, default=0, doc="subtype of the feature", source=_CEE, name="lldp.dcbx.feature.subtype"
    )


@layer("lldpcee.pg", title="CEE priority groups", source=_CEE, type=GROUPS, length=17)
class CEEGroups(_Groups, _Feature):
    """The priority group of each priority, 15 of those that go first, and the bandwidth of each group."""

    numtcs: int = uint(
        8, default=8, doc="number of traffic classes supported", source=_CEE,
        name="lldp.dcbx.feature.pg.numtcs",
    )  # fmt: skip
    constants = ("type", "length")
    limits = (Limit(key="length", low=17, high=17),)

    @property
    def summary_text(self) -> str:
        """The shares."""
        strict = {STRICT_GROUP: STRICT_GROUP in self.classes}
        return shares_text(dict(enumerate(self.bandwidths)), strict, "PG") + _if_willing(self.willing)


@layer("lldpcee.pfc", title="CEE PFC", source=_CEE, type=CEE_PFC, length=6)
class CEEPFC(_Feature):
    """The priorities that PFC protects at an end."""

    enable: int = _enabled(_CEE)
    numtcs: int = uint(
        8, default=8, doc="maximum number of priorities with PFC", source=_CEE,
        name="lldp.dcbx.feature.pfc.numtcs",
    )  # fmt: skip
    constants = ("type", "length")
    limits = (Limit(key="length", low=6, high=6),)

    @property
    def summary_text(self) -> str:
        """The priorities."""
        return f"PFC {listed_priorities(self.enable)}{_if_willing(self.willing)}"


@layer("lldpcee.app.entry", title="CEE application", source=_CEE)
class CEEApplication(LLDPPart):
    """The priorities that frames of an application are to have."""

    protocol: int = _protocol(_CEE)
    oui_upper: int = uint(6, default=0, base="hex", doc="upper bits of the OUI", source=_CEE)
    selector: int = uint(
        2, default=CEE_PORT, doc="type of the application's identifier", source=_CEE, names=CEE_SELECTORS,
        name="lldp.dcbx.feature.app.sf",
    )  # fmt: skip
    oui: int = uint(
        16, default=OUI_INTEL, base="hex", doc="lower 16 bits of the OUI", source=_CEE,
        name="lldp.dcbx.feature.app.oui",
    )  # fmt: skip
    priorities: int = uint(
        8, default=0, base="hex", source=_CEE,
        doc="priorities of the application's frames, bit n = priority n",
        name="lldp.dcbx.feature.app.priorities", flags="lldp.dcbx.feature.app.prio{}",
    )  # fmt: skip

    @property
    def summary_text(self) -> str:
        """The application and its priorities."""
        application = application_text(CEE_SELECTORS, self.selector, self.protocol)
        return f"{application}: priority {listed_priorities(self.priorities)}"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Another entry follows, as long as the TLV goes on."""
        return (CEEApplication if end < stop else None), stop


@layer(
    "lldpcee.app", title="CEE applications", source=_CEE, type=CEE_APPLICATIONS,
    length=_CEE_APPLICATIONS_OCTETS,
)  # fmt: skip
class CEEApplications(_Feature):
    """The priorities of applications: an entry for each."""

    constants = ("type",)
    limits = (Limit(key="length", low=_CEE_APPLICATIONS_OCTETS, high=511),)
    holds = (CEEApplication,)

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the entries."""
        until = start + HEADER_OCTETS + self.length
        return (CEEApplication if end < min(until, stop) else None), until


_BY_TYPE: dict[int, type[Layer]] = {
    CONTROL: CEEControl, GROUPS: CEEGroups, CEE_PFC: CEEPFC, CEE_APPLICATIONS: CEEApplications,
}  # fmt: skip


@layer("lldpcee", title="DCBX TLV of CEE or CIN", source=_CEE)
class CEE(AnyTLV):
    """DCBX before 802.1Qaz: a TLV for each subject inside; of CIN, what came before, the octets."""

    type: int = tlv_type(ORGANIZATIONALLY_SPECIFIC)
    length: int = tlv_length(_CEE_OCTETS)
    oui: int = tlv_oui(OUI_INTEL)
    proto: int = uint(
        8, default=CEE_VERSION, base="hex", doc="DCBX version", source=_CEE,
        names={CIN: "CIN", CEE_VERSION: "CEE"}, name="lldp.dcbx.proto",
    )  # fmt: skip
    value: bytes = octets(
        Count(key="length", minus=_CEE_OCTETS, when=("proto", (CIN,))), default=b"", doc="information of CIN",
        source=_CEE, name="lldp.dcbx.cin",
    )  # fmt: skip
    constants = ("type", "oui")
    limits = (Limit(key="length", low=_CEE_OCTETS, high=511),)
    selected_by = (information(OUI_INTEL, CIN), information(OUI_INTEL, CEE_VERSION))
    holds = (CEETLV, CEEControl, CEEGroups, CEEPFC, CEEApplications, CEEApplication)

    @property
    def summary_text(self) -> str:
        """The name of the dialect, CEE or CIN."""
        return "DCBX of CIN" if self.proto == CIN else "DCBX of CEE"

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the TLVs inside."""
        until = start + HEADER_OCTETS + self.length
        return _inside_cee(data, end, min(until, stop)), until


def _if_willing(willing: int) -> str:
    return ", willing" if willing else ""


def application_text(selectors: Mapping[int, str], selector: int, protocol: int) -> str:
    """Return the text of an application's identifier, as ``UDP port 4791``."""
    name = selectors.get(selector, f"selector {selector}")
    return f"{name} {protocol:#06x}" if name == SELECTORS[ETHERTYPE] else f"{name} {protocol}"
