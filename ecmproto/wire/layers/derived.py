"""Scapy fields and layers that are derived from formats.

The layers of ecmproto's own formats use these fields and have hand-written methods. Formats of other packages
get a complete layer, which computes missing lengths and EtherTypes and shows the sampled frame.

The fields have the names of their keys, except that ``payload`` is named ``sample``. Scapy packets already
have an attribute ``payload``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scapy.fields import (
    BitEnumField,
    BitField,
    BitFieldLenField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FieldLenField,
    IntEnumField,
    IntField,
    IPField,
    LongField,
    MACField,
    ShortEnumField,
    ShortField,
    SignedByteField,
    SignedIntField,
    SignedLongField,
    SignedShortField,
    StrFixedLenField,
    XBitField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
    XStrField,
    XStrLenField,
)
from scapy.packet import Packet

from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import MSDU
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.layers.parts import (
    CPIDField,
    EtypeField,
    LastLayer,
    Tag,
    frame_of,
    over_ether,
    raw_octets,
    whole_or_raw,
)

RENAMED = {"payload": "sample"}
"""Names of Scapy fields whose key is already an attribute of Scapy's Packet."""

_ETYPE = "etype"
_SIGNED = {8: SignedByteField, 16: SignedShortField, 32: SignedIntField, 64: SignedLongField}
_PLAIN = {8: ByteField, 16: ShortField, 32: IntField, 64: LongField}
_HEX = {8: XByteField, 16: XShortField, 32: XIntField, 64: XLongField}
_NAMED = {8: ByteEnumField, 16: ShortEnumField, 32: IntEnumField}
_LENGTHS = {8: "B", 16: "!H", 32: "!I"}


def layer_of(cls: type[Layer]) -> type[Packet]:
    """Return the Scapy layer for a format. Raises TypeError for a signed field without a Scapy type."""
    is_tag = cls.next_key == _ETYPE and cls.layout[-1].key == _ETYPE
    counted = cls.layout[-1].count
    base: type[Packet] = Packet
    if is_tag:
        base = Tag
    elif not cls.next_key and (counted is None or counted.key):
        base = LastLayer
    attributes: dict[str, Any] = {"mysummary": lambda self: over_ether(summary_text(self, 4))}
    if cls.shows is not None:
        attributes["encapsulated"] = _encapsulated(cls, _name(cls.layout[-1].key))
    return layer_on(base, cls, **attributes)


def layer_on(base: type[Packet], cls: type[Layer], **attributes: Any) -> type[Packet]:
    """Return the Scapy layer for a format, as a subclass of ``base`` with additional attributes."""
    attributes |= {
        "__module__": cls.__module__, "__doc__": cls.__doc__, "name": cls.title, "of": cls,
        "fields_desc": fields_of(cls), "dispatch_hook": classmethod(whole_or_raw),
    }  # fmt: skip
    return type(cls.__name__, (base,), attributes)


def summary_text(packet: Packet, count: int) -> str:
    """Return the name of a layer and its first ``count`` fields as text."""
    shown = " ".join(f"{field.name}=%{field.name}%" for field in packet.fields_desc[:count])
    return str(packet.sprintf(f"{type(packet).__name__} {shown}"))


def fields_of(cls: type[Layer], **names: Mapping[int, str]) -> list[Any]:
    """Return the Scapy fields of a format in wire order.

    ``names`` replaces the names of values, by key of the field.
    """
    lengths = {
        field.count.key: field
        for field in cls.layout
        if field.count and field.count.key and field.count.scale
    }
    return [
        _described(field, _field(cls, field, lengths.get(field.key), names.get(field.key, field.meta.names)))
        for field in cls.layout
    ]


def _described(field: Field, scapy_field: Any) -> Any:
    """Return a Scapy field whose class name includes the field's meaning, which Scapy's ``ls`` prints."""
    inner = scapy_field.fld if isinstance(scapy_field, ConditionalField) else scapy_field
    cls = type(inner)
    inner.__class__ = type(f"{cls.__name__}: {field.described}", (cls,), {"__slots__": []})
    return scapy_field


def _field(cls: type[Layer], field: Field, counts: Field | None, names: Mapping[int, str]) -> Any:
    default: Any = field.meta.default
    name, bits = _name(field.key), field.bits
    if bits is None:
        return _variable(cls, field, name)
    if counts is not None and counts.count is not None:
        scale, minus = counts.count.scale, counts.count.minus
        counted: dict[str, Any] = {
            "length_of": _name(counts.key), "adjust": lambda pkt, octets: (octets + minus) // scale
        }  # fmt: skip
        if bits in _LENGTHS and field.bit_offset % 8 == 0:
            return FieldLenField(name, None, fmt=_LENGTHS[bits], **counted)
        return BitFieldLenField(name, None, bits, **counted)
    if field.kind == "cpid":
        return CPIDField(name, default)
    if field.kind == "mac":
        return MACField(name, bytes(default).hex(":"))
    if field.kind == "ipv4":
        return IPField(name, ".".join(map(str, bytes(default))))
    if not field.is_number:
        return StrFixedLenField(name, default, length=bits // 8)
    if field.key == cls.next_key == _ETYPE:
        return EtypeField(name)
    aligned = field.bit_offset % 8 == 0 and bits in _PLAIN
    if field.kind == "sint":
        if not aligned:
            raise TypeError(f"{field.name}: Scapy has no signed field of {bits} bits")
        return _SIGNED[bits](name, default)
    if names:
        if aligned and bits in _NAMED:
            return _NAMED[bits](name, default, dict(names))
        return BitEnumField(name, default, bits, dict(names))
    if field.meta.base == "hex":
        return _HEX[bits](name, default) if aligned else XBitField(name, default, bits)
    return _PLAIN[bits](name, default) if aligned else BitField(name, default, bits)


def _variable(cls: type[Layer], field: Field, name: str) -> Any:
    count = field.count
    assert count is not None
    default: Any = field.meta.default
    octets: Any = XStrField(name, default)
    if count.key:
        key = _name(count.key)
        maximum = [limit.high * count.scale - count.minus for limit in cls.limits if limit.key == count.key]
        octets = XStrLenField(
            name,
            default,
            length_from=lambda pkt: max(0, getattr(pkt, key) * count.scale - count.minus),
            max_length=min(maximum, default=None),
        )
    if count.when is None:
        return octets
    on, values = count.when
    return ConditionalField(octets, lambda pkt: getattr(pkt, on) in values)


def _name(key: str) -> str:
    return RENAMED.get(key, key)


def _encapsulated(cls: type[Layer], name: str) -> Any:
    missing = bytes(12) if cls.shows is MSDU else b""

    def encapsulated(self: Packet) -> Packet | None:
        """Return the part of the sampled frame in the message, or ``None`` without a sampled frame."""
        octets = raw_octets(self, name)
        return frame_of(missing + octets) if octets else None

    return encapsulated


def lower_of(cls: type[Layer]) -> list[tuple[type[Packet], dict[str, Any]]]:
    """Return the layers that announce a format by UDP port or IP protocol, with the values of the fields."""
    if not cls.udp_ports and cls.ip_protocol is None:
        return []
    from scapy.layers.inet import IP, UDP

    lower: list[tuple[type[Packet], dict[str, Any]]] = [
        (UDP, {"dport": port}) for port in cls.udp_ports[::-1]
    ]
    return lower if cls.ip_protocol is None else [*lower, (IP, {"proto": cls.ip_protocol})]
