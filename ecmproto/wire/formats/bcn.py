"""Enhanced BCN: the message with the link's capacity, and the RRT tag (S004 Figs 2, 3; wire-formats 5)."""

from __future__ import annotations

from ecmproto.wire.formats.base import Crafting, Feedback, layer
from ecmproto.wire.formats.experimental import (
    DEFAULT_CPID,
    MESSAGE_PRIORITY,
    Proposed,
    Sampling,
    UnknownTag,
    selector,
)
from ecmproto.wire.formats.schema import CPID, REST, octets, sint, uint
from ecmproto.wire.formats.summary import Case, Summary

NORMAL, STOP = range(2)
"""Values of the Type field in the discriminator word."""

TYPES = {NORMAL: "normal", STOP: "STOP"}


@layer("bcn", title="BCN message", source="S004 Fig. 2; wire-formats 5", protocol=1)
class BCN(Sampling):
    """BCN message with feedback e and the capacity of the congested link. Type 1 stops the flow."""

    cpid: CPID = uint(
        64, default=DEFAULT_CPID, kind="cpid", base="hex",
        doc="congestion point identifier: MAC and local number",
        source="S004 III",
    )  # fmt: skip
    e: int = sint(
        32, default=0, unit="64 octets", doc="e_i = (Qeq − Qlen) − w·ΔQ: positive means increase",
        source="S004 eq. 1; wire-formats 5",
    )  # fmt: skip
    capacity: int = uint(
        32, default=0, unit="kb/s", doc="C, capacity of the congested link", source="S004 IV; wire-formats 5"
    )
    payload: bytes = octets(
        REST, default=b"", doc="the sampled frame's first octets, from its DA", source="wire-formats 5"
    )
    counted_as = "BCN"
    as_feedback = Feedback(types=TYPES)
    summary = Summary(
        label="BCN", detail_first=True, detail="{:stop}e {e:queue} C {capacity:capacity} {:cpid}",
        clauses={"stop": Case("type", STOP, STOP, "STOP ")},
    )  # fmt: skip
    announced_by = "message"
    crafting = Crafting(priority=MESSAGE_PRIORITY, values={"capacity": 10_000_000})
    selected_by = (selector(1, 0), selector(1, 1))
    showing = (NORMAL, STOP)


@layer("rrttag", title="RRT tag", source="S004 Fig. 3; wire-formats 5", protocol=1)
class RRTTag(Proposed):
    """Rate-regulated tag, which names the congestion point that regulates the frame's flow."""

    cpid: CPID = uint(
        64,
        default=DEFAULT_CPID,
        kind="cpid",
        base="hex",
        doc="the rate regulator's congestion point",
        source="S004 Fig. 3",
    )
    etype: int = uint(
        16, default=0, base="hex", doc="EtherType of the payload, or its length in octets if 1500 or less",
        source="wire-formats 5", length_name="rrttag.len",
    )  # fmt: skip
    role = "tag"
    counted_as = "RRT tag"
    summary = Summary(tag="RRT {:cpid}")
    announced_by = "tag"
    selected_by = (selector(1, 0),)
    otherwise = UnknownTag
    has_cpid = True
    padded = False
    next_key = "etype"
