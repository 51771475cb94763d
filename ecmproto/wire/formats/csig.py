"""CSIG's compact tag, which shows the congestion of the most congested hop on a path (draft-ravi-ippm-csig).

No EtherType is assigned to the tag. The tag is decoded only if the `EtherTypes` map contains an EtherType for
CSIG.
"""

from __future__ import annotations

from ecmproto.wire.formats.base import Layer, layer
from ecmproto.wire.formats.schema import uint
from ecmproto.wire.formats.summary import Summary

_SOURCE = "draft-ravi-ippm-csig"

AVAILABLE, SHARE, DELAY, DEPTH = range(4)
SIGNALS = {
    AVAILABLE: "available bandwidth", SHARE: "available share of capacity", DELAY: "per-hop delay",
    DEPTH: "queue depth",
}  # fmt: skip
"""Names of the signals. A tag contains the path's minimum for the first two, and otherwise the maximum."""


@layer("csig", title="CSIG compact tag", source=_SOURCE)
class CSIG(Layer):
    """Tag of data frames. Each hop that is more congested than the tag's value replaces the value."""

    t: int = uint(3, default=AVAILABLE, doc="signal type", names=SIGNALS)
    r: int = uint(1, default=0, doc="reserved")
    s: int = uint(5, default=0, doc="the signal's value, as the number of a bucket")
    lm: int = uint(7, default=0, doc="locator of the hop that set it")
    etype: int = uint(
        16, default=0, base="hex", doc="EtherType of the payload, or its length in octets if 1500 or less",
        length_name="csig.len",
    )  # fmt: skip
    counted_as = "CSIG tag"
    summary = Summary(
        tag="CSIG {t:signal} {s} at {lm}",
        styles={"signal": lambda signal: SIGNALS.get(signal) or f"signal {signal}"},
    )
    announced_by = "csig"
    next_key = "etype"
