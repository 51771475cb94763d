"""What the tags of data frames share: they stand before any payload and say what it is."""

from __future__ import annotations

import struct

from scapy.layers.l2 import LLC, Ether
from scapy.packet import Packet

from ecmproto.formats.ethertypes import MAX_LENGTH

_UNKNOWN_TYPE: int = Ether.type.default
"""What Scapy's Ether says of a payload that it has no EtherType for."""


class Tag(Packet):
    """A tag whose last field is ``etype``.

    Left out, ``etype`` is the EtherType that the payload has under Ether, else the payload's length
    (802.3); given, it is kept.  Dissection asks the same table: whatever is bound to ``Ether.type``
    is found behind a tag too, and ``bind_layers(CNTag, Mine, etype=0x1234)`` comes before it.
    """

    def add_payload(self, payload: Packet | bytes) -> None:
        """Put a payload behind the tag and take over its EtherType."""
        super().add_payload(payload)
        if self.overloaded_fields or isinstance(self.payload, LLC):
            return
        ethertype = self.payload.overload_fields.get(Ether, {}).get("type")
        if ethertype is not None:
            self.overloaded_fields = {"etype": ethertype}

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in a length where nothing said what follows."""
        if self.getfieldval("etype") is None:
            value = len(pay) if len(pay) <= MAX_LENGTH else _unbounded(self.payload)
            pkt = pkt[:-2] + struct.pack("!H", value)
        return pkt + pay

    def default_payload_class(self, payload: bytes) -> type[Packet]:
        """Return what ``Ether`` would take the same EtherType for."""
        if self.etype is None or self.etype <= MAX_LENGTH:
            return LLC
        for values, cls in Ether.payload_guess:
            if values == {"type": self.etype}:
                return cls
        return super().default_payload_class(payload)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Split off what an 802.3 length does not count."""
        if self.etype is not None and self.etype <= MAX_LENGTH:
            return s[: self.etype], s[self.etype :]
        return s, None


def _unbounded(payload: Packet) -> int:
    # LLC's EtherType under Ether is the one for frames too long for a length (802.1AC 12.3)
    return int(payload.overload_fields.get(Ether, {}).get("type", _UNKNOWN_TYPE))
