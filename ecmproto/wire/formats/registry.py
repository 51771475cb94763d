"""Registry of formats: all formats, the formats of each EtherType, and all fields by name.

A new format is a class with an entry in ``OWN``. Other packages add formats through the entry point group
``ecmproto.formats``: the value of each entry point is the class. Scripts add formats with
`ecmproto.formats.base.register`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from ecmproto.errors import ParameterError, shown, warn_of_plugin
from ecmproto.values import dataclass
from ecmproto.wire.formats.base import ADDED, Layer
from ecmproto.wire.formats.bcn import BCN, RRTTag
from ecmproto.wire.formats.cn import CNM, CNTag
from ecmproto.wire.formats.csig import CSIG
from ecmproto.wire.formats.dcbx import (
    CEE,
    CEEPFC,
    CEETLV,
    Application,
    Applications,
    CEEApplication,
    CEEApplications,
    CEEControl,
    CEEGroups,
    ETSConfiguration,
    ETSRecommendation,
    PFCConfiguration,
)
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.ecm import ECM, CMTag
from ecmproto.wire.formats.erspan import ERSPAN, ERSPAN3, Platform
from ecmproto.wire.formats.ethernet import (
    MSDU,
    SLL,
    SLL2,
    SNAP,
    VLAN,
    Data,
    Ethernet,
    ITag,
    OtherLLC,
    OtherSNAP,
    STag,
    llc_at,
)
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH, OFF, EtherTypes
from ecmproto.wire.formats.experimental import UnknownMessage, UnknownTag, selector
from ecmproto.wire.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.wire.formats.geneve import Geneve
from ecmproto.wire.formats.gre import GRE, GREChecksum, GREKey, GRESequence
from ecmproto.wire.formats.hpcc import HPCCAck, INTTag
from ecmproto.wire.formats.infiniband import (
    AETH,
    BTH,
    CNP,
    CRC_STATUS,
    DETH,
    GRH,
    ICRC,
    IETH,
    LRH,
    RDETH,
    RETH,
    AtomicAckETH,
    AtomicETH,
    ImmDt,
)
from ecmproto.wire.formats.ip import (
    AH,
    ARP,
    ARP_ETHERTYPE,
    TCP,
    UDP,
    DestinationOptions,
    EthernetARP,
    FragmentHeader,
    HopByHop,
    IPv4,
    IPv4ARP,
    IPv6,
    OtherARP,
    Routing,
    arp_at,
)
from ecmproto.wire.formats.isolation import CIM
from ecmproto.wire.formats.keyframe import KeyFrame
from ecmproto.wire.formats.lldp import (
    IEEE8021TLV,
    IEEE8023TLV,
    TLV,
    CongestionNotificationTLV,
    OrganizationTLV,
    tlv_chooser,
)
from ecmproto.wire.formats.mac_control import PFC, MACControl, Pause
from ecmproto.wire.formats.mpls import MPLS, ControlWord
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.tzsp import TZSP, Mark, Tag
from ecmproto.wire.formats.vxlan import GPE, VXLAN

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OWN: tuple[type[Layer], ...] = (
    Ethernet, VLAN, STag, ITag, CNTag, CNM, ECM, CMTag, BCN, RRTTag, E2CM, RDTag, FECNReturn, DBPRateReport,
    INTTag, HPCCAck, CIM, UnknownMessage, UnknownTag, Pause, PFC, MACControl, TLV, CongestionNotificationTLV,
    ARP, EthernetARP, IPv4ARP, OtherARP, IPv4, IPv6, HopByHop, Routing, FragmentHeader, DestinationOptions,
    AH, TCP, UDP, SNAP, CSIG, BTH, CNP, RDETH, DETH, RETH, AtomicETH, AETH, AtomicAckETH, ImmDt, IETH, ICRC,
    GRH, LRH, MSDU, SLL, SLL2, Data, ETSConfiguration, ETSRecommendation, PFCConfiguration, Applications,
    Application, CEE, CEEControl, CEEGroups, CEEPFC, CEEApplications, CEEApplication, CEETLV, GRE,
    GREChecksum, GREKey, GRESequence, ERSPAN, ERSPAN3, Platform, VXLAN, GPE, Geneve, MPLS, ControlWord, TZSP,
    Tag, Mark, KeyFrame, OtherLLC, OtherSNAP, IEEE8021TLV, IEEE8023TLV, OrganizationTLV,
)  # fmt: skip

"""Formats that ecmproto contains."""

ENTRY_POINT_GROUP = "ecmproto.formats"
MAX_FORMATS = 120
"""Maximum number of formats. The constant keeps compiled code independent of added formats."""


def _added() -> Iterator[tuple[type[Layer], EntryPoint | None]]:
    """Yield the formats of other packages with the entry points, then the registered formats."""
    if any(map(_names_formats, sys.path)):
        # imported only if needed, because the import takes longer than the rest of this module
        from importlib.metadata import entry_points

        for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
            try:
                cls = entry.load()
            except (Exception, SystemExit) as error:  # importing another package may raise any exception
                warn_of_plugin(entry, f"{type(error).__name__}: {error}")
                continue
            if isinstance(cls, type) and issubclass(cls, Layer) and hasattr(cls, "layout"):
                yield cls, entry
            else:
                warn_of_plugin(entry, f"expected a format, got {shown(cls)}")
    yield from ((cls, None) for cls in ADDED)


def _names_formats(folder: str) -> bool:
    """Return whether a folder contains an installed package with entry points for formats."""
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return False
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            with suppress(OSError), open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                if f"[{ENTRY_POINT_GROUP}]".encode() in file.read():
                    return True
    return False


def _with_added(own: tuple[type[Layer], ...]) -> tuple[type[Layer], ...]:
    """Return ``own`` and the added formats.

    Raises ParameterError for a registered format with the name or selector of another format. A format from
    an entry point that has such a conflict is ignored with a warning.
    """
    formats = list(own)
    for cls, entry in _added():
        if cls in formats:
            continue
        try:
            for other in formats:
                _refuse_same(cls, other)
            if len(formats) >= MAX_FORMATS:
                got = f"{cls.prefix} as well"
                raise ParameterError(name="formats", needed=f"at most {MAX_FORMATS}", got=got)
        except ParameterError as error:
            if entry is None:
                raise
            warn_of_plugin(entry, str(error))
        else:
            formats.append(cls)
    return tuple(formats)


def _refuse_same(cls: type[Layer], other: type[Layer]) -> None:
    """Raise ParameterError if two formats have the same name, UDP port, IP protocol or EtherType."""
    same = ""
    if cls.prefix == other.prefix:
        same = "name"
    elif set(cls.udp_ports) & set(other.udp_ports):
        same = "UDP port"
    elif cls.ip_protocol is not None and cls.ip_protocol in (other.ip_protocol, other.next_header):
        same = "IP protocol"
    elif announcement(cls, DEFAULT) in {announcement(other, DEFAULT)} - {None} and not _differ(cls, other):
        same = "EtherType"
    if same:
        raise ParameterError(
            name=cls.prefix, needed=f"a {same} that no other format has", got=f"the {same} of {other.prefix}"
        )


def announcement(cls: type[Layer], ethertypes: EtherTypes) -> int | None:
    """Return the EtherType that announces a format, or ``None`` for a format without an EtherType."""
    role = cls.announced_by
    if isinstance(role, int):
        return role
    value = getattr(ethertypes, role) if role else OFF
    return None if value == OFF else value


def _differ(cls: type[Layer], other: type[Layer]) -> bool:
    """Return whether selectors distinguish an added format from another format with the same EtherType."""
    if not cls.selected_by or set(cls.selected_by) & set(other.selected_by):
        return False
    if other in OWN:
        return cls.announced_by == other.announced_by in _SELECTING
    return bool(other.selected_by)


_SELECTING = ("message", "tag", "mac_control", "lldp")
"""Attributes of `EtherTypes` whose EtherType any number of formats may share."""

FORMATS: tuple[type[Layer], ...] = _with_added(OWN)
"""All formats. The index of a format in this tuple is the format's number in tables."""

BY_PREFIX: dict[str, type[Layer]] = {cls.prefix: cls for cls in FORMATS}


def all_fields() -> Iterator[tuple[type[Layer], Field]]:
    """Yield all fields of all formats."""
    for cls in FORMATS:
        for field in cls.layout:
            yield cls, field


Chooser = Callable[[bytes, int, int], type[Layer]]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Formats for one EtherType map. `ecmproto.wire.formats.base.Formats` describes the methods."""

    ethertypes: EtherTypes
    plain: dict[int, type[Layer]]
    chosen: dict[int, Chooser]
    after_snap: frozenset[int]

    def announced(self, value: int, data: bytes, pos: int, stop: int) -> tuple[type[Layer], int]:
        """Return the format at ``data[pos:stop]`` that an EtherType or length announces, and the end."""
        cls = self.plain.get(value)
        if cls is not None:
            return cls, stop
        choose = self.chosen.get(value)
        if choose is not None:
            return choose(data, pos, stop), stop
        if value > MAX_LENGTH:
            return Data, stop
        return llc_at(data, pos, min(stop, pos + value)), pos + value

    def ethertype_of(self, following: Layer | None) -> int | None:
        """Return the EtherType that announces ``following``, or ``None``."""
        return None if following is None else announcement(type(following), self.ethertypes)

    def after_ip(self, version: int, protocol: int) -> type[Layer]:
        """Return the format that an IPv4 protocol or IPv6 next header announces, or `Data`."""
        return (AFTER_IPV4 if version == 4 else AFTER_IPV6).get(protocol, Data)

    def after_port(self, port: int, data: bytes, pos: int, stop: int) -> type[Layer]:
        """Return the format at ``data[pos:stop]`` that a UDP port announces, or `Data`."""
        choose = AFTER_PORTS.get(port)
        return Data if choose is None else choose(data, pos, stop)


AFTER_IPV4 = {cls.ip_protocol: cls for cls in FORMATS if cls.ip_protocol is not None}
AFTER_IPV6 = AFTER_IPV4 | {cls.next_header: cls for cls in FORMATS if cls.next_header is not None}
"""Formats by IPv4 protocol and by IPv6 next header."""


def dispatch(ethertypes: EtherTypes = DEFAULT) -> Dispatch:
    """Return the formats for an EtherType map."""
    # hashing a map takes longer than decoding a tag, and nearly all callers use the default map
    return _DEFAULT if ethertypes is DEFAULT else _dispatch(ethertypes)


@functools.lru_cache(maxsize=32)
def _dispatch(ethertypes: EtherTypes) -> Dispatch:
    groups: dict[int, list[type[Layer]]] = {}
    for cls in FORMATS:
        value = announcement(cls, ethertypes)
        if value is not None:
            groups.setdefault(value, []).append(cls)
            if any(other.announced_by != cls.announced_by for other in groups[value]):
                raise ParameterError(
                    name="ethertype",
                    needed="an unused value",
                    got=f"{value:#06x}, which is {cls.prefix}'s",
                )
    plain = {value: members[0] for value, members in groups.items() if len(members) == 1}
    plain |= {value: cls for cls in FORMATS for value in cls.further_ethertypes if value not in groups}
    plain[ethertypes.old_s_tag] = VLAN
    chosen = {
        ethertypes.message: _by_selector(groups[ethertypes.message], _discriminator, UnknownMessage),
        ethertypes.tag: _by_selector(groups[ethertypes.tag], _discriminator, UnknownTag),
        ethertypes.mac_control: _by_selector(groups[ethertypes.mac_control], _first_two, MACControl),
        ethertypes.lldp: tlv_chooser(groups[ethertypes.lldp]),
        ARP_ETHERTYPE: arp_at,
    }
    for value, members in groups.items():
        if len(members) > 1 and value not in chosen:
            chosen[value] = _by_selector(members, _first_two, Data)
    snapped = frozenset(value for value, members in groups.items() if members[0].after_snap)
    return Dispatch(ethertypes, plain, chosen, snapped)


def _by_selector(
    members: list[type[Layer]], select: Callable[[bytes, int], int], other: type[Layer]
) -> Chooser:
    by_value = {value: cls for cls in members for value in cls.selected_by}
    # too few octets to select: a format that needs more octets, so that decoding fails
    short = other if other.fixed_octets else members[0]

    def choose(data: bytes, pos: int, stop: int) -> type[Layer]:
        return short if stop - pos < 2 else by_value.get(select(data, pos), other)

    return choose


def _after_ports() -> dict[int, Chooser]:
    groups: dict[int, list[type[Layer]]] = {}
    for cls in FORMATS:
        for port in cls.udp_ports:
            groups.setdefault(port, []).append(cls)
    return {
        port: _by_selector(members, _first_two, next((cls for cls in members if not cls.selected_by), Data))
        for port, members in groups.items()
    }


def _discriminator(data: bytes, pos: int) -> int:
    return selector(data[pos] & 7, data[pos + 1] >> 4)


def _first_two(data: bytes, pos: int) -> int:
    return data[pos] << 8 | data[pos + 1]


AFTER_PORTS = _after_ports()
"""Functions that select a format, by UDP destination port."""

_DEFAULT = _dispatch(DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Field name with type (``uint6``, ``sint16``, ``mac``, ``octets``, ``bit``), meaning and source."""

    name: str
    type: str
    unit: str
    doc: str
    source: str
    formats: tuple[str, ...]
    """Names of the formats with this field."""

    def as_dict(self) -> dict[str, object]:
        """Return the entry as plain data."""
        return dataclasses.asdict(self)


CAPTURE_FIELDS = (
    ("frame.number", "uint", "", "number of the frame in the capture, from 1"),
    ("frame.time_epoch", "time", "s", "time of capture in seconds since 1970, nine decimal places"),
    ("frame.time_relative", "duration", "s", "time since the first frame of the capture"),
    ("frame.time_delta", "duration", "s", "time since the frame before it in the capture"),
    ("frame.time_delta_displayed", "duration", "s", "time since the frame displayed before it"),
    ("frame.len", "uint", "octets", "length on the wire"),
    ("frame.cap_len", "uint", "octets", "octets captured"),
    ("frame.interface_id", "uint", "", "interface of its section of the capture, from 0"),
    ("frame.protocols", "text", "", "the layers, outermost first"),
    ("frame.error", "text", "", "error of a malformed frame"),
    (CRC_STATUS, "text", "", "status of RoCE's invariant CRC: good, bad, or unverified if truncated"),
    ("eth.padding", "octets", "", "zero octets that fill the frame up to 60"),
    ("eth.trailer", "octets", "", "other octets after the last layer"),
    ("eth.fcs", "octets", "", "frame check sequence, where the capture has it"),
)
"""Fields of every frame: name, type, unit and meaning."""


ALIASES = {
    **{f"pfc.prio{n}": f"macc.cbfc.pause_time.c{n}" for n in range(8)},
    **{f"pfc.enabled.{n}": f"macc.cbfc.enbv.c{n}" for n in range(8)},
}
"""Short names of fields. Wherever a field is named, the short name is accepted too."""


USUAL_FIELDS = (
    "frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_id", "frame.protocols",
    "frame.error",
    "eth.dst", "eth.src", "eth.type", "vlan.id", "vlan.priority",
    "ip.src", "ip.dst", "ip.dsfield.ecn", "ipv6.src", "ipv6.dst", "ipv6.tclass.ecn",
    "udp.srcport", "udp.dstport", "tcp.srcport", "tcp.dstport",
    "macc.opcode", "macc.pause_time", "macc.cbfc.enbv",
    *(f"macc.cbfc.pause_time.c{priority}" for priority in range(8)),
    "cntag.flow_id", "cnm.cpid", "cnm.qntz_fb", "cnm.q_offset", "cnm.q_delta",
    "ecm.cpid", "ecm.q_off", "ecm.q_delta", "bcn.cpid", "bcn.e", "e2cm.cpid", "e2cm.q_off", "e2cm.q_delta",
    "fecn.rate", "dbp.rate", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn",
)  # fmt: skip
"""Default columns of a file, the same for every capture."""


@functools.cache
def catalogue() -> tuple[Entry, ...]:
    """Return one entry per field name: first the fields of the frame, then the fields of each format."""
    entries: dict[str, Entry] = {
        name: Entry(name=name, type=kind, unit=unit, doc=doc, source="capture", formats=("frame",))
        for name, kind, unit, doc in CAPTURE_FIELDS
    }
    for cls in FORMATS:
        for field in cls.layout:
            for entry in _entries(field, cls.prefix):
                known = entries.setdefault(entry.name, entry)
                if known is not entry:
                    entries[entry.name] = dataclasses.replace(known, formats=(*known.formats, cls.prefix))
    return tuple(entries.values())


def _entries(field: Field, prefix: str) -> list[Entry]:
    meta = field.meta
    base = Entry(
        name=field.name, type=type_of(field), unit=meta.unit, doc=meta.doc, source=field.source,
        formats=(prefix,),
    )  # fmt: skip
    entries = [base]
    if meta.length_name:
        doc = "802.3 length of what follows, where the value is at most 1500"
        entries.append(
            dataclasses.replace(base, name=meta.length_name, unit="octets", doc=doc, source="802.3 3.2.6")
        )
    return entries + [
        dataclasses.replace(
            base,
            name=part.name,
            type="bit" if part.bits == 1 else f"uint{part.bits}",
            unit="",
            doc=part.doc,
        )
        for part in meta.parts
    ]


def type_of(field: Field) -> str:
    """Return a field's type as one word: ``uint6``, ``sint16``, ``mac``, ``octets``."""
    return f"{field.kind}{field.bits}" if field.kind in ("uint", "sint") else field.kind


def field_of(cls: type[Layer], key: str) -> Field:
    """Return the field ``key`` of a format."""
    return _FIELDS[cls, key]


_FIELDS = {(cls, field.key): field for cls in FORMATS for field in cls.layout}
