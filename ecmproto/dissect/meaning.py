"""What a field's value means to a person, beside the value itself."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ecmproto.codec.document import scaled, scaled_key
from ecmproto.dissect.form import printable
from ecmproto.formats.base import Layer
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.formats.ecm import ECM, CMTag, ticks_to_ns
from ecmproto.formats.ethertypes import MAX_LENGTH, EtherTypes
from ecmproto.formats.ip import EXTENSIONS, PROTO_AH, PROTO_TCP, PROTO_UDP, TCP, Extension, IPv4, IPv6
from ecmproto.formats.lldp import TLV
from ecmproto.formats.mac_control import PFC
from ecmproto.formats.registry import FORMATS, announcement
from ecmproto.formats.schema import Field
from ecmproto.formats.text import meaning_of
from ecmproto.units import QUEUE_UNIT_OCTETS, format_rate, format_time, quanta_to_ns

_LINK_BPS = 10_000_000_000
"""The rate pause times are shown for: a frame does not say how fast its link is."""
_TEXT_TLVS = (4, 5, 6)
_TCP_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")


def meaning(value: Layer, field: Field, got: int | bytes, ethertypes: EtherTypes) -> str:
    """Return what ``got``, the value of a layer's field, means; "" where it says all itself."""
    if not isinstance(got, int):
        return _text_of_tlv(value, field, got)
    if (field.meta.base == "hex" and field.meta.length_name) or field.key == "etype":
        return ethertype_text(ethertypes, got)
    if field.meta.unit.startswith("quanta"):
        return _pause_time(value, field, got)
    if field.meta.unit == "8 octets":
        return f"× 8 octets = {8 * got} octets"
    special = _special(value, field, got)
    return special or _scaled(value, field, got) or meaning_of(field, got)


def _scaled(value: Layer, field: Field, got: int) -> str:
    name = scaled_key(type(value), field)
    if not name:
        return ""
    number = scaled(value, field)
    if number is None:
        return NO_LIMIT
    if name.endswith("_octets"):
        return f"× {QUEUE_UNIT_OCTETS} octets = {number} octets"
    return f"kb/s = {format_rate(number)}" if name.endswith("_bps") else f"= {format_time(number)}"


NO_LIMIT = "infinity: no limit yet"


def _special(value: Layer, field: Field, got: int) -> str:
    if isinstance(value, ECM | CMTag) and field.key == "timestamp":
        return f"ticks of 2^{value.unit} µs = {format_time(ticks_to_ns(value))}"
    tell = told_by(type(value), field.key)  # type: ignore[arg-type]  # classes can be hashed
    return "" if tell is None else tell(got)


@functools.lru_cache(maxsize=512)
def told_by(cls: type[Layer], key: str) -> Callable[[int], str] | None:
    """Return the function that tells a number of a format that has its own way to be told, None otherwise."""
    if cls is E2CM and key == "type":
        return lambda got: E2CM_TYPES.get(got, "unassigned")
    if cls is IPv4 and key == "proto":
        return lambda got: _IPV4_PROTOCOLS.get(got, "")
    if issubclass(cls, IPv6 | Extension) and key == "nxt":
        return lambda got: _NEXT_HEADERS.get(got, "")
    if cls is IPv4 and key == "flags":
        return lambda got: ", ".join(
            name for bit, name in ((2, "don't fragment"), (1, "more fragments")) if got & bit
        )
    if cls is TCP and key == "flags":
        return lambda got: ", ".join(name for bit, name in enumerate(_TCP_FLAGS) if got >> bit & 1)
    return None


_PROTOCOLS = {PROTO_TCP: "TCP", PROTO_UDP: "UDP"}
_IPV4_PROTOCOLS = _PROTOCOLS | {PROTO_AH: EXTENSIONS[PROTO_AH].title}
_NEXT_HEADERS = _PROTOCOLS | {nxt: cls.title for nxt, cls in EXTENSIONS.items()}


def _pause_time(value: Layer, field: Field, got: int) -> str:
    if isinstance(value, PFC) and not value.enabled(int(field.key.removeprefix("time"))):
        return NOT_ENABLED
    return pause_text(got)


NOT_ENABLED = "quanta, not enabled"


def pause_text(quanta: int) -> str:
    """Return what a pause time that counts means."""
    if not quanta:
        return "quanta: resume"
    return f"quanta = {format_time(quanta_to_ns(quanta, _LINK_BPS))} at 10 Gb/s"


def _text_of_tlv(value: Layer, field: Field, got: bytes) -> str:
    if isinstance(value, TLV) and field.key == "value" and value.type in _TEXT_TLVS and got:
        return f'"{printable(got.decode("utf-8", errors="replace"))}"'
    return ""


def ethertype_text(ethertypes: EtherTypes, value: int) -> str:
    """Return what the number in the place of an EtherType announces, "" where that is not known."""
    return LENGTH if value <= MAX_LENGTH else ethertype_names(ethertypes).get(value, "")


LENGTH = "octets, an 802.3 length"


@functools.lru_cache(maxsize=32)
def ethertype_names(ethertypes: EtherTypes) -> dict[int, str]:
    """Return what each known EtherType announces."""
    names: dict[int, str] = {}
    for cls in FORMATS:
        value = announcement(cls, ethertypes)
        if value is not None:
            names.setdefault(value, cls.title)
    return names | {
        ethertypes.message: "message of a pre-standard proposal",
        ethertypes.tag: "tag of a pre-standard proposal",
        ethertypes.mac_control: "MAC Control",
        ethertypes.lldp: "LLDP",
        ethertypes.old_s_tag: "VLAN tag (service, before 0x88a8)",
    }
