"""FECN's rate-discovery tag and returning frame (S003), and the DBP rate report (S002; wire-formats 7)."""

from __future__ import annotations

from ecmproto.units import RATE_INFINITY
from ecmproto.wire.formats.base import Crafting, layer
from ecmproto.wire.formats.experimental import MESSAGE_PRIORITY, Proposed, UnknownTag, selector
from ecmproto.wire.formats.schema import uint
from ecmproto.wire.formats.summary import Summary

_RATE = "minimum rate of the switches so far; all ones means infinity: no limit yet"
_MESSAGE = "RLQ {rlq_id} rate {rate:rate}"
_RLQ = "rate-limited queue of the source, from 1"


@layer("rdtag", title="Rate-discovery tag (RD tag)", source="S003; wire-formats 7", protocol=3)
class RDTag(Proposed):
    """Tag of data frames that collects the rate that the switches on the path allow."""

    rlq_id: int = uint(16, default=0, doc=_RLQ)
    rate: int = uint(32, default=RATE_INFINITY, unit="kb/s", doc=_RATE)
    etype: int = uint(
        16, default=0, base="hex", doc="EtherType of the payload, or its length in octets if 1500 or less",
        source="wire-formats 7", length_name="rdtag.len",
    )  # fmt: skip
    role = "tag"
    counted_as = "RD tag"
    summary = Summary(tag="RD-TAG RLQ {rlq_id} rate {rate:rate}")
    announced_by = "tag"
    selected_by = (selector(3, 0),)
    otherwise = UnknownTag
    padded = False
    next_key = "etype"


@layer("fecn", title="FECN returning frame", source="S003; wire-formats 7", protocol=3, type=1)
class FECNReturn(Proposed):
    """Message that returns the rate of an RD tag to the source."""

    rlq_id: int = uint(16, default=0, doc=_RLQ)
    rate: int = uint(32, default=RATE_INFINITY, unit="kb/s", doc=_RATE)
    role = "message"
    counted_as = "FECN return"
    summary = Summary(label="FECN", detail_first=True, detail=_MESSAGE)
    announced_by = "message"
    crafting = Crafting(direction="reply", priority=MESSAGE_PRIORITY)
    selected_by = (selector(3, 1),)


@layer("dbp", title="DBP rate report", source="S002 (M. Seaman); wire-formats 7", protocol=4)
class DBPRateReport(Proposed):
    """Message from a destination to each active source. Each switch on the way back may reduce the rate."""

    rlq_id: int = uint(16, default=0, doc="0", source="wire-formats 7")
    rate: int = uint(32, default=RATE_INFINITY, unit="kb/s", doc=_RATE, source="wire-formats 7")
    role = "message"
    counted_as = "DBP rate report"
    summary = Summary(label="DBP", detail_first=True, detail=_MESSAGE)
    announced_by = "message"
    crafting = Crafting(direction="reply", priority=MESSAGE_PRIORITY)
    selected_by = (selector(4, 0),)
