"""In-band telemetry of HPCC: per-hop records in data frames, and the message that returns the records.

Sources: SIGCOMM 2019; wire-formats 7.1.

A record has the same widths and units as in HPCC's public simulator, which reserves five records and a hop
count. All other properties are choices of this project: no document defines numbers or an octet order.
"""

from __future__ import annotations

from typing import Any

from ecmproto.wire.formats.base import Crafting, layer
from ecmproto.wire.formats.experimental import MESSAGE_PRIORITY, Proposed, UnknownTag, selector
from ecmproto.wire.formats.schema import uint
from ecmproto.wire.formats.summary import Summary

_SIMULATOR = "HPCC's public simulator"
_CHOICE = "wire-formats 7.1 (choice)"

GBPS = (25, 50, 100, 200, 400, 10, 40, 800)
"""Link rates by code, in Gb/s. The last three rates are this project's choice."""
RATE_BITS, TIME_BITS, SENT_BITS, QLEN_BITS = 3, 24, 20, 17
SENT_UNIT, QLEN_UNIT = 128, 80
"""Units of transmitted octets and queue length, in octets."""
RECORDS = 5
"""Number of records in a stack. Further hops are only counted."""
RECORD_FIELDS = tuple(
    tuple(f"{name}{hop}" for name in ("rate", "time", "sent", "qlen")) for hop in range(1, RECORDS + 1)
)
"""Fields of each record, from the highest bits down; the fields have 64 bits in total."""
_RATES = {code: f"{rate} Gb/s" for code, rate in enumerate(GBPS)}
_SEQ = "octets of the flow up to the end of the frame, modulo 2^32"
_PATH = "exclusive or of the numbers of all ports on the path"


def _rate(hop: int) -> Any:
    return uint(RATE_BITS, default=0, doc=f"hop {hop}: rate of the link", source=_SIMULATOR, names=_RATES)


def _time(hop: int) -> Any:
    return uint(TIME_BITS, default=0, unit="ns", doc=f"hop {hop}: time modulo 2^24", source=_SIMULATOR)


def _sent(hop: int) -> Any:
    doc = f"hop {hop}: transmitted octets, modulo 2^20 units"
    return uint(SENT_BITS, default=0, unit="128 octets", doc=doc, source=_SIMULATOR)


def _qlen(hop: int) -> Any:
    return uint(QLEN_BITS, default=0, unit="80 octets", doc=f"hop {hop}: queue", source=_SIMULATOR)


@layer("telemetry", title="HPCC telemetry", source=_CHOICE, protocol=5)
class Telemetry(Proposed):
    """Stack of telemetry: one record per hop in path order, measured when the frame left the hop."""

    seq: int = uint(32, default=0, unit="octets", doc=_SEQ)
    path: int = uint(16, default=0, base="hex", doc=_PATH, source="SIGCOMM 2019 (pathID); width: choice")
    rate1: int = _rate(1)
    time1: int = _time(1)
    sent1: int = _sent(1)
    qlen1: int = _qlen(1)
    rate2: int = _rate(2)
    time2: int = _time(2)
    sent2: int = _sent(2)
    qlen2: int = _qlen(2)
    rate3: int = _rate(3)
    time3: int = _time(3)
    sent3: int = _sent(3)
    qlen3: int = _qlen(3)
    rate4: int = _rate(4)
    time4: int = _time(4)
    sent4: int = _sent(4)
    qlen4: int = _qlen(4)
    rate5: int = _rate(5)
    time5: int = _time(5)
    sent5: int = _sent(5)
    qlen5: int = _qlen(5)
    nhop: int = uint(16, default=0, doc="hops passed", source=_SIMULATOR)


@layer("inttag", title="HPCC telemetry tag (INT tag)", source=_CHOICE, protocol=5)
class INTTag(Telemetry):
    """Tag of data frames with space for five records. Each port on the path fills the next record."""

    etype: int = uint(
        16, default=0, base="hex", doc="EtherType of the payload, or its length in octets if 1500 or less",
        length_name="inttag.len",
    )  # fmt: skip
    role = "tag"
    counted_as = "INT tag"
    summary = Summary(tag="INT-TAG seq {seq} hops {nhop}")
    announced_by = "tag"
    selected_by = (selector(5, 0),)
    otherwise = UnknownTag
    padded = False
    next_key = "etype"


@layer("hpcc", title="HPCC acknowledgement", source=_CHOICE, protocol=5, type=1)
class HPCCAck(Telemetry):
    """Message that returns the sequence number and stack of a data frame to the source."""

    role = "message"
    counted_as = "HPCC acknowledgement"
    summary = Summary(label="HPCC", detail_first=True, detail="seq {seq} hops {nhop}")
    announced_by = "message"
    crafting = Crafting(direction="reply", priority=MESSAGE_PRIORITY)
    selected_by = (selector(5, 1),)
