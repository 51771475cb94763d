"""Common parts of the Scapy layers.

The fields are congestion point identifiers and EtherTypes or lengths. A `Tag` is before a payload and
contains the payload's type. A `Sampling` message contains the first octets of a frame. Incomplete layers are
not dissected. Summaries include the addresses of the lower layers.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from scapy.compat import raw
from scapy.config import conf
from scapy.data import ETHER_TYPES
from scapy.fields import (
    ConditionalField,
    StrField,
    XLongField,
    XShortEnumField,
)
from scapy.layers.l2 import LLC, Ether
from scapy.packet import Packet, Raw
from scapy.volatile import VolatileValue

from ecmproto.wire import codec
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.text import meaning_of, value_of

_CPID = next(field for field in codec.CNM.layout if field.kind == "cpid")


class CPIDField(XLongField):
    """Field with a congestion point identifier: a 64-bit number, shown as ``02:00:00:00:00:01/1``.

    The field accepts a number, ``MAC/number`` or 16 hex digits. Raises SpecError for any other text.
    """

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Return the identifier as a number.

        A list stays a list, because Scapy creates a packet for each item.
        """
        if isinstance(x, list):
            return [self.any2i(pkt, member) for member in x]
        return value_of(_CPID, x) if isinstance(x, str) else x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Return the MAC address and local number as text."""
        in_range = isinstance(x, int) and _CPID.minimum <= x <= _CPID.maximum
        return meaning_of(_CPID, x) if in_range else repr(x)


class EtypeField(XShortEnumField):
    """Last field of a tag: the EtherType of the payload, or the length of the payload in octets up to 1500.

    The default ``None`` means that `ecmproto.wire.layers.parts.Tag` computes the value from the payload.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, None, ETHER_TYPES)

    def i2m(self, pkt: Packet | None, x: Any) -> int:
        """Return 0 if the tag has yet to compute the EtherType."""
        return 0 if x is None else int(x)

    def i2repr_one(self, pkt: Packet | None, x: Any) -> str:
        """Return a length as a number, or an EtherType as a name or in hex."""
        if x is None or isinstance(x, VolatileValue) or x <= MAX_LENGTH:
            return repr(x)
        return str(super().i2repr_one(pkt, x))


@cache
def _fixed_octets(cls: type[Packet]) -> int:
    """Return the number of octets of a layer without the variable last field."""
    fields: list[Any] = [each.fld if isinstance(each, ConditionalField) else each for each in cls.fields_desc]
    return int(sum(field.sz for field in fields if not isinstance(field, StrField)))


def whole_or_raw(cls: type[Packet], _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
    """Return ``cls``, or Raw for octets that are shorter than the fixed part of ``cls``.

    The function is the ``dispatch_hook`` of a layer. Each class needs a separate line for the hook, because
    Scapy ignores an inherited hook.
    """
    return conf.raw_layer if _pkt and len(_pkt) < _fixed_octets(cls) else cls


class LastLayer(Packet):
    """Layer at the end of a frame. Octets after the layer are padding, never a payload."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return the remaining octets as padding."""
        return b"", s


def over_ether(shown: str, *also: type[Packet]) -> Any:
    """Return a value for ``mysummary`` that makes Scapy show the summaries of Ether and ``also`` first.

    Scapy accepts such a pair, although the annotation of ``mysummary`` is str.
    """
    return shown, [Ether, *also]


_HEADER_OCTETS = 14


def frame_of(octets: bytes) -> Packet | None:
    """Dissect the first octets of a frame, starting with the destination address.

    The result is ``None`` for no octets, and Raw for octets shorter than an Ethernet header.
    """
    if not octets:
        return None
    return Ether(octets) if len(octets) >= _HEADER_OCTETS else Raw(octets)


class Sampling(Packet):
    """Message whose field ``sample`` contains the first octets of the sampled frame, starting with the DA.

    In the rest of this project, the field is named ``payload`` (``ecm.payload``). In Scapy, ``payload`` is
    the next layer.
    """

    def encapsulated(self) -> Packet | None:
        """Return the part of the sampled frame in the message, or ``None`` without a sampled frame."""
        return frame_of(raw_octets(self, "sample"))


def raw_octets(packet: Packet, name: str) -> bytes:
    """Return the octets of a field, with defaults computed."""
    field, value = packet.getfield_and_val(name)
    return raw(field.i2m(packet, value))


def sampled_source(lower: Packet, message: Packet) -> str | None:
    """Return the destination of a message, which is the source of the sampled frame (wire-formats 1.2)."""
    frame = message.encapsulated()
    return str(frame.src) if isinstance(frame, Packet) and "src" in frame.fields else None


_UNKNOWN_TYPE: int = Ether.type.default
"""EtherType that Scapy's Ether has before a payload without an EtherType."""


class Tag(Packet):
    """Tag whose last field is ``etype``.

    The default of ``etype`` is the EtherType of the payload under Ether or, without an EtherType, the length
    of the payload (802.3). A value that was set is kept.

    Dissection uses Scapy's table of Ether: a layer bound to ``Ether.type`` is also found after a tag.
    ``bind_layers(CNTag, Mine, etype=0x1234)`` takes precedence.
    """

    def add_payload(self, payload: Packet | bytes) -> None:
        """Add a payload after the tag, and copy the payload's EtherType."""
        super().add_payload(payload)
        if self.overloaded_fields or isinstance(self.payload, LLC):
            return
        ethertype = self.payload.overload_fields.get(Ether, {}).get("type")
        if ethertype is not None:
            self.overloaded_fields = {"etype": ethertype}

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Set the length of the payload if no EtherType is set or known."""
        if self.getfieldval("etype") is None:
            value = len(pay)
            if value > MAX_LENGTH:
                # an LLC payload that is too long for an 802.3 length has this EtherType under Ether (802.1AC
                # 12.3)
                value = int(self.payload.overload_fields.get(Ether, {}).get("type", _UNKNOWN_TYPE))
            pkt = pkt[:-2] + struct.pack("!H", value)
        return pkt + pay

    def default_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer that ``Ether`` chooses for the same EtherType."""
        if self.etype is None or self.etype <= MAX_LENGTH:
            return LLC
        for values, cls in Ether.payload_guess:
            if values == {"type": self.etype}:
                return cls
        return super().default_payload_class(payload)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Split the payload from the octets that the 802.3 length does not include."""
        if self.etype is not None and self.etype <= MAX_LENGTH:
            return s[: self.etype], s[self.etype :]
        return s, None
