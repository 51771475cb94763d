"""By what formats that share an EtherType are told from one another, and values that a format insists on."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ecmproto.formats import lldp, mac_control
from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import SNAP
from ecmproto.formats.experimental import Proposed, Word, selector
from ecmproto.formats.ip import AH, ARP, IPv4, IPv6
from ecmproto.formats.lldp import CongestionNotificationTLV
from ecmproto.formats.mac_control import PFC, MACControl, Pause
from ecmproto.formats.registry import FORMATS
from ecmproto.fuzz.strategies.fields import values_of

SELECTING = ("protocol", "type", "opcode")
"""Keys of the fields that say which format of an EtherType it is, or which message of a format."""


def selection(cls: type[Layer]) -> SearchStrategy[dict[str, Any]]:
    """Return the values by which a format is told from others of its EtherType."""
    if issubclass(cls, Word):
        return st.sampled_from(
            [dict(zip(("protocol", "type"), pair, strict=True)) for pair in selectors(cls)]
        )
    if cls is MACControl:
        known = set(mac_control.OPCODES)
        return st.integers(0, 0xFFFF).filter(lambda opcode: opcode not in known).map(lambda o: {"opcode": o})
    return st.just({})


def selectors(cls: type[Word]) -> list[tuple[int, int]]:
    """Return each (protocol, type) that means this format; of an unknown one, each that means no other."""
    pairs = [(protocol, type) for protocol in range(8) for type in range(16)]
    if cls.selected_by:
        return [pair for pair in pairs if selector(*pair) in cls.selected_by]
    taken = {v for other in FORMATS if other.announced_by == cls.announced_by for v in other.selected_by}
    return sorted((pair for pair in pairs if selector(*pair) not in taken), reverse=True)


def _possible_cpids(cls: type[Layer]) -> SearchStrategy[int]:
    """Return any CPIDs but those that no congestion point has: zero, and those of groups."""
    field = next(field for field in cls.layout if field.key == "cpid")
    return values_of(field).map(possible_cpid)


def possible_cpid(number: int) -> int:
    """Return the CPID nearest to ``number`` that a congestion point may have."""
    return number & ~_GROUP_BIT or 1


_GROUP_BIT = 1 << 56

INSISTED: dict[type[Layer], dict[str, SearchStrategy[Any]]] = {
    Pause: {"opcode": st.just(mac_control.PAUSE_OPCODE)},
    PFC: {"opcode": st.just(mac_control.PFC_OPCODE)},
    CongestionNotificationTLV: {
        "type": st.just(127),
        "length": st.just(6),
        "oui": st.just(lldp.OUI_8021),
        "subtype": st.just(lldp.CN_SUBTYPE),
    },
    ARP: {"hw_size": st.just(6), "proto_size": st.just(4)},
    IPv4: {"version": st.just(4), "len": st.just(0) | st.integers(60, 0xFFFF)},
    IPv6: {"version": st.just(6)},
    SNAP: {"dsap": st.just(0xAA), "ssap": st.just(0xAA), "control": st.just(3), "oui": st.just(0)},
    AH: {"length": st.integers(1, 255)},
    **{cls: {"cpid": _possible_cpids(cls)} for cls in FORMATS if issubclass(cls, Proposed) and cls.has_cpid},
}
"""Values that formats insist on."""
