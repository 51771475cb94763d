"""Messages and tags whose Protocol or Type nobody has assigned."""

from __future__ import annotations

from typing import Any

from scapy.fields import XStrField
from scapy.packet import Packet

from ecmproto.layers.fields import word
from ecmproto.layers.whole import over_ether, whole_or_raw


class UnknownMessage(Packet):
    """An experimental message of an unassigned Protocol or Type; its octets are kept."""

    name = "Unknown experimental message"
    fields_desc = [*word(protocol=7), XStrField("body", b"")]
    dispatch_hook = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Its Protocol and Type."""
        return over_ether(self.sprintf("UnknownMessage protocol=%protocol% type=%type%"))


class UnknownTag(Packet):
    """An experimental tag of an unassigned Protocol or Type: its length is unknown, so it has all octets."""

    name = "Unknown experimental tag"
    fields_desc = [*word(protocol=7), XStrField("body", b"")]
    dispatch_hook = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Its Protocol and Type."""
        return over_ether(self.sprintf("UnknownTag protocol=%protocol% type=%type%"))
