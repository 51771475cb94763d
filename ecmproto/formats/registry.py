"""Every format, listed once, and which of them an EtherType announces.

A new format is one class and one entry in ``FORMATS``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from ecmproto.formats.bcn import BCN, RRTTag
from ecmproto.formats.cn import CNM, CNTag
from ecmproto.formats.cooked import SLL, SLL2
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.ecm import ECM, CMTag
from ecmproto.formats.ethernet import MSDU, SNAP, SNAP_START, VLAN, Data, Ethernet, ITag, STag
from ecmproto.formats.ethertypes import DEFAULT, MAX_LENGTH, EtherTypes
from ecmproto.formats.experimental import UnknownMessage, UnknownTag, selector
from ecmproto.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.formats.ip import (
    AH,
    ARP,
    TCP,
    UDP,
    DestinationOptions,
    FragmentHeader,
    HopByHop,
    IPv4,
    IPv6,
    Routing,
)
from ecmproto.formats.layer import Layer
from ecmproto.formats.layout import Field
from ecmproto.formats.lldp import TLV, CongestionNotificationTLV, tlv_at
from ecmproto.formats.mac_control import PFC, MACControl, Pause

FORMATS: tuple[type[Layer], ...] = (
    Ethernet, VLAN, STag, ITag, CNTag, CNM, ECM, CMTag, BCN, RRTTag, E2CM, RDTag, FECNReturn, DBPRateReport,
    UnknownMessage, UnknownTag, Pause, PFC, MACControl, TLV, CongestionNotificationTLV, ARP, IPv4, IPv6,
    HopByHop, Routing, FragmentHeader, DestinationOptions, AH, TCP, UDP, SNAP, MSDU, SLL, SLL2, Data,
)  # fmt: skip

BY_PREFIX: dict[str, type[Layer]] = {cls.prefix: cls for cls in FORMATS}


def all_fields() -> Iterator[tuple[type[Layer], Field]]:
    """Yield every format's every field."""
    for cls in FORMATS:
        for field in cls.layout:
            yield cls, field


Chooser = Callable[[bytes, int, int], type[Layer]]


@dataclasses.dataclass(frozen=True, slots=True)
class Dispatch:
    """The formats under one EtherType map; see `ecmproto.formats.layer.Formats`."""

    ethertypes: EtherTypes
    plain: dict[int, type[Layer]]
    chosen: dict[int, Chooser]

    def announced(self, value: int, data: bytes, pos: int, stop: int) -> tuple[type[Layer], int]:
        """Return the format at ``data[pos:stop]`` that ``value``, an EtherType or length, announces."""
        cls = self.plain.get(value)
        if cls is not None:
            return cls, stop
        choose = self.chosen.get(value)
        if choose is not None:
            return choose(data, pos, stop), stop
        if value > MAX_LENGTH:
            return Data, stop
        bound = pos + value
        whole = min(stop, bound) - pos >= SNAP.fixed_octets
        return SNAP if whole and data.startswith(SNAP_START, pos) else Data, bound

    def ethertype_of(self, following: Layer | None) -> int | None:
        """Return the EtherType that announces ``following``, None when none does."""
        return None if following is None else announcement(type(following), self.ethertypes)


def announcement(cls: type[Layer], ethertypes: EtherTypes) -> int | None:
    """Return the EtherType that announces a format, None for one that no EtherType does."""
    role = cls.announced_by
    if isinstance(role, int):
        return role
    return getattr(ethertypes, role) if role else None


def dispatch(ethertypes: EtherTypes = DEFAULT) -> Dispatch:
    """Return the formats under ``ethertypes``."""
    # hashing a map takes longer than decoding a tag, and it is nearly always this one
    return _DEFAULT if ethertypes is DEFAULT else _dispatch(ethertypes)


@functools.lru_cache(maxsize=32)
def _dispatch(ethertypes: EtherTypes) -> Dispatch:
    groups: dict[int, list[type[Layer]]] = {}
    for cls in FORMATS:
        value = announcement(cls, ethertypes)
        if value is not None:
            groups.setdefault(value, []).append(cls)
    plain = {value: members[0] for value, members in groups.items() if len(members) == 1}
    plain[ethertypes.old_s_tag] = VLAN
    del plain[0x0806]
    chosen = {
        ethertypes.message: _by_selector(groups[ethertypes.message], 2, _discriminator, UnknownMessage),
        ethertypes.tag: _by_selector(groups[ethertypes.tag], 2, _discriminator, UnknownTag),
        ethertypes.mac_control: _by_selector(groups[ethertypes.mac_control], 2, _opcode, MACControl),
        ethertypes.lldp: tlv_at,
        0x0806: _by_selector(groups[0x0806], 6, _arp_sizes, Data),
    }
    return Dispatch(ethertypes, plain, chosen)


def _by_selector(
    members: list[type[Layer]], octets: int, select: Callable[[bytes, int], int], other: type[Layer]
) -> Chooser:
    by_value = {value: cls for cls in members for value in cls.selected_by}
    # too short to say which: one that the octets cannot fill, so that this is an error and not Data
    short = other if other.fixed_octets else members[0]

    def choose(data: bytes, pos: int, stop: int) -> type[Layer]:
        return short if stop - pos < octets else by_value.get(select(data, pos), other)

    return choose


def _discriminator(data: bytes, pos: int) -> int:
    return selector(data[pos] & 7, data[pos + 1] >> 4)


def _opcode(data: bytes, pos: int) -> int:
    return data[pos] << 8 | data[pos + 1]


def _arp_sizes(data: bytes, pos: int) -> int:
    return data[pos + 4] << 8 | data[pos + 5]


_DEFAULT = _dispatch(DEFAULT)
