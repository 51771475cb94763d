"""FECN's rate-discovery tag and returning frame, and the DBP rate report, as Scapy layers."""

from __future__ import annotations

import struct
from typing import Any

from scapy.fields import IntEnumField, ShortField
from scapy.packet import Packet

from ecmproto.layers.fields import EtypeField, word
from ecmproto.layers.tag import Tag
from ecmproto.layers.whole import LastLayer, over_ether, whole_or_raw
from ecmproto.units import RATE_INFINITY

_NAMED_RATES = {RATE_INFINITY: "infinity"}


class RDTag(Tag):
    """RD tag: rides in a data frame and collects the ``rate`` in kb/s that the path allows."""

    name = "Rate-discovery tag (RD tag)"
    fields_desc = [
        *word(protocol=3),
        ShortField("rlq_id", 0),
        IntEnumField("rate", RATE_INFINITY, _NAMED_RATES),
        EtypeField("etype"),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def hashret(self) -> bytes:
        """By the rate-limited queue, as the returning frame."""
        return struct.pack("!H", self.rlq_id)

    def mysummary(self) -> str:
        """Whose rate, and the type of what follows."""
        return self.sprintf("RDTag rlq_id=%rlq_id% rate=%rate% (%etype%)")


class FECNReturn(LastLayer):
    """FECN returning frame: brings an RD tag's rate back to its source.

    Scapy's Ether lets no frame answer one of another EtherType, so compare the layers:
    ``reply[FECNReturn].answers(request[RDTag])``.
    """

    name = "FECN returning frame"
    fields_desc = [
        *word(protocol=3, type=1),
        ShortField("rlq_id", 0),
        IntEnumField("rate", RATE_INFINITY, _NAMED_RATES),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """It answers the RD tag of the same rate-limited queue."""
        return int(isinstance(other, RDTag) and self.rlq_id == other.rlq_id)

    def hashret(self) -> bytes:
        """By the rate-limited queue, as the RD tag."""
        return struct.pack("!H", self.rlq_id)

    def mysummary(self) -> Any:
        """Whose rate."""
        return over_ether(self.sprintf("FECNReturn rlq_id=%rlq_id% rate=%rate%"))


class DBPRateReport(LastLayer):
    """DBP rate report: sent by a destination to each active source."""

    name = "DBP rate report"
    fields_desc = [
        *word(protocol=4),
        ShortField("rlq_id", 0),
        IntEnumField("rate", RATE_INFINITY, _NAMED_RATES),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """The rate."""
        return over_ether(self.sprintf("DBPRateReport rate=%rate%"))
