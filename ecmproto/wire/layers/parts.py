"""Common parts of the layers: fields, tags, sampled frames, and dissection of complete layers only.

Fields are congestion point identifiers and EtherTypes or lengths; a `Tag` precedes any payload and contains
its type; `Sampling` messages contain the first octets of a frame; every summary includes the addresses below.
"""

from __future__ import annotations

import struct
from functools import lru_cache
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
    """A congestion point identifier: a 64-bit number, shown as ``02:00:00:00:00:01/1``.

    Accepts the number, ``MAC/number`` or 16 hex digits; SpecError for any other text.
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
    """The last field of a tag: EtherType of the payload or, up to 1500, its length in octets.

    None (the default) is computed from what follows; see `ecmproto.wire.layers.parts.Tag`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, None, ETHER_TYPES)

    def i2m(self, pkt: Packet | None, x: Any) -> int:
        """Return 0 for an EtherType that the tag has yet to compute."""
        return 0 if x is None else int(x)

    def i2repr_one(self, pkt: Packet | None, x: Any) -> str:
        """Return a length as a number, an EtherType by name or in hex."""
        if x is None or isinstance(x, VolatileValue) or x <= MAX_LENGTH:
            return repr(x)
        return str(super().i2repr_one(pkt, x))


def is_variable(field: Any) -> bool:
    """Return whether a field is a layer's variable last one."""
    return isinstance(field.fld if isinstance(field, ConditionalField) else field, StrField)


def fixed_octets(cls: type[Packet]) -> int:
    """Return the octets of a layer without its variable last field."""
    widths: list[float] = [field.sz for field in cls.fields_desc if not is_variable(field)]
    return int(sum(widths))


_fixed_octets = lru_cache(maxsize=None)(fixed_octets)


def whole_or_raw(cls: type[Packet], _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
    """Return ``cls``, or Raw for octets with an incomplete fixed part.

    This is a layer's ``dispatch_hook``, one line in each class because Scapy does not look for an inherited
    one.
    """
    return conf.raw_layer if _pkt and len(_pkt) < _fixed_octets(cls) else cls


class LastLayer(Packet):
    """A layer that ends the frame: octets after its body are padding, never a payload."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return the rest as padding."""
        return b"", s


def over_ether(shown: str, *also: type[Packet]) -> Any:
    """Return a value of ``mysummary`` with which Scapy puts the summaries of Ether and ``also`` first.

    Scapy accepts such a pair, though its annotation is str.
    """
    return shown, [Ether, *also]


_HEADER_OCTETS = 14


def frame_of(octets: bytes) -> Packet | None:
    """Dissect the first octets of a frame, from its destination address on, as far as they go.

    None for no octets, Raw for fewer than an Ethernet header has.
    """
    if not octets:
        return None
    return Ether(octets) if len(octets) >= _HEADER_OCTETS else Raw(octets)


class Sampling(Packet):
    """A message whose field ``sample`` contains the sampled frame's first octets, from its DA.

    The field is ``payload`` elsewhere in this project (``ecm.payload``); in Scapy ``payload`` is the next
    layer.
    """

    def encapsulated(self) -> Packet | None:
        """Return the sampled frame as far as the message contains it, None without one."""
        return frame_of(raw_octets(self, "sample"))


def raw_octets(packet: Packet, name: str) -> bytes:
    """Return an octet field's value as it would be built."""
    field, value = packet.getfield_and_val(name)
    return raw(field.i2m(packet, value))


def sampled_source(lower: Packet, message: Packet) -> str | None:
    """Return the destination of a message: the sampled frame's source (wire-formats 1.2)."""
    frame = message.encapsulated()
    return str(frame.src) if isinstance(frame, Packet) and "src" in frame.fields else None


_UNKNOWN_TYPE: int = Ether.type.default
"""The EtherType in Scapy's Ether before a payload without one."""


class Tag(Packet):
    """A tag whose last field is ``etype``.

    It defaults to the payload's EtherType under Ether, else the payload's length (802.3); a given one is
    kept. Dissection uses the same table: any layer bound to ``Ether.type`` is found after a tag too, and
    ``bind_layers(CNTag, Mine, etype=0x1234)`` takes precedence.
    """

    def add_payload(self, payload: Packet | bytes) -> None:
        """Add a payload after the tag and copy its EtherType."""
        super().add_payload(payload)
        if self.overloaded_fields or isinstance(self.payload, LLC):
            return
        ethertype = self.payload.overload_fields.get(Ether, {}).get("type")
        if ethertype is not None:
            self.overloaded_fields = {"etype": ethertype}

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in a length if neither the user nor the payload gave an EtherType."""
        if self.getfieldval("etype") is None:
            value = len(pay) if len(pay) <= MAX_LENGTH else _unbounded(self.payload)
            pkt = pkt[:-2] + struct.pack("!H", value)
        return pkt + pay

    def default_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer that ``Ether`` would choose for the same EtherType."""
        if self.etype is None or self.etype <= MAX_LENGTH:
            return LLC
        for values, cls in Ether.payload_guess:
            if values == {"type": self.etype}:
                return cls
        return super().default_payload_class(payload)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Split off the octets that an 802.3 length does not count."""
        if self.etype is not None and self.etype <= MAX_LENGTH:
            return s[: self.etype], s[self.etype :]
        return s, None


def _unbounded(payload: Packet) -> int:
    # LLC's EtherType under Ether is the one for frames too long for a length (802.1AC 12.3)
    return int(payload.overload_fields.get(Ether, {}).get("type", _UNKNOWN_TYPE))
