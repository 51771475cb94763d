"""Scapy fields of this field's own values: congestion point identifiers, and EtherType or length."""

from __future__ import annotations

from typing import Any

from scapy.data import ETHER_TYPES
from scapy.fields import (
    BitEnumField,
    BitField,
    ConditionalField,
    Field,
    StrField,
    XLongField,
    XShortEnumField,
)
from scapy.packet import Packet
from scapy.volatile import VolatileValue

from ecmproto import codec
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.experimental import PROTOCOLS
from ecmproto.formats.text import meaning_of, value_of

_CPID = next(field for field in codec.CNM.layout if field.kind == "cpid")


class CPIDField(XLongField):
    """A congestion point identifier: a 64-bit number, shown as ``02:00:00:00:00:01/1``.

    Takes the number, ``MAC/number`` or 16 hex digits; SpecError for any other text.
    """

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Return the number; a list stays one, since Scapy makes a packet of each member."""
        if isinstance(x, list):
            return [self.any2i(pkt, member) for member in x]
        return value_of(_CPID, x) if isinstance(x, str) else x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Return MAC and local number."""
        in_range = isinstance(x, int) and _CPID.minimum <= x <= _CPID.maximum
        return meaning_of(_CPID, x) if in_range else repr(x)


class EtypeField(XShortEnumField):
    """The last field of a tag: EtherType of what follows or, up to 1500, its length in octets.

    None (the default) is computed from what follows; see `ecmproto.layers.tag.Tag`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, None, ETHER_TYPES)

    def i2m(self, pkt: Packet | None, x: Any) -> int:
        """Return 0 for what the tag has yet to compute."""
        return 0 if x is None else int(x)

    def i2repr_one(self, pkt: Packet | None, x: Any) -> str:
        """Return a length as a number, an EtherType by name or in hex."""
        if x is None or isinstance(x, VolatileValue) or x <= MAX_LENGTH:
            return repr(x)
        return str(super().i2repr_one(pkt, x))


def word(protocol: int, type: int = 0, types: dict[int, str] | None = None) -> list[Field[Any, Any]]:
    """Return the fields of the discriminator word that experimental messages and tags start with.

    ``types`` names the protocol's Type values (wire-formats 1.1).
    """
    return [
        BitField("version", 0, 4),
        BitField("q", 0, 1),
        BitEnumField("protocol", protocol, 3, PROTOCOLS),
        BitEnumField("type", type, 4, types or {}),
        BitField("reserved", 0, 4),
    ]


def is_variable(field: Any) -> bool:
    """Return whether a field is a layer's variable last one."""
    return isinstance(field.fld if isinstance(field, ConditionalField) else field, StrField)


def fixed_octets(cls: type[Packet]) -> int:
    """Return the octets of a layer without its variable last field."""
    widths: list[float] = [field.sz for field in cls.fields_desc if not is_variable(field)]
    return int(sum(widths))
