"""Cisco's Ethernet Congestion Manager: the ECM frame and the CM-Tag (S000 3.1; wire-formats 4)."""

from __future__ import annotations

from ecmproto.wire.formats.base import Layer, layer
from ecmproto.wire.formats.experimental import DEFAULT_CPID, Proposed, Sampling, UnknownTag, selector
from ecmproto.wire.formats.schema import CPID, REST, octets, sint, uint
from ecmproto.wire.formats.summary import Case, Summary

_UNIT = "one tick of the timestamp = 2^Unit µs"


@layer("ecm", title="ECM frame", source="S000 3.1; wire-formats 4", protocol=0)
class ECM(Sampling):
    """Message about a queue, sent to the source of a sampled frame.

    The message contains the queue's distance from the equilibrium, and the growth of the queue. ECM(0,0) has
    ``q_off == q_delta == 0`` and means that the source stops for a while.
    """

    cpid: CPID = uint(
        64, default=DEFAULT_CPID, kind="cpid", base="hex",
        doc="congestion point identifier: MAC and local number",
        source="S000 3.1",
    )  # fmt: skip
    q_off: int = sint(
        16, default=0, unit="64 octets",
        doc="Qoff = Qlen − Qeq: positive when congested (the opposite of CNM's offset)",
        source="S000 3.2; wire-formats 4",
    )  # fmt: skip
    q_delta: int = sint(
        16, default=0, unit="64 octets", doc="Qdelta, the queue's growth since the last sample",
        source="S000 3.2",
    )  # fmt: skip
    timestamp: int = uint(
        16, default=0, unit="2^unit µs", doc="copied from the sampled frame's CM-Tag, else 0",
        source="S000 3.1",
    )  # fmt: skip
    unit: int = uint(4, default=0, doc=_UNIT, source="S000 3.1")
    reserved2: int = uint(12, default=0, doc="0", source="wire-formats 4")
    payload: bytes = octets(
        REST, default=b"", doc="the sampled frame's first octets, from its DA", source="S000 3.1"
    )
    counted_as = "ECM"
    summary = Summary(
        label="ECM", detail_first=True, detail="{:ecm}{:saturated} {:cpid}{timestamp:stamp}",
        clauses={
            "ecm": Case(
                "q_off", 0, 0, Case("q_delta", 0, 0, "ECM(0,0) stop", "{:queues}"), "{:ecm_max}{:queues}"
            ),
            # ECM-Max is Qoff = Qeq, Qdelta = 2·Qeq (wire-formats 4); Qeq itself is not in the frame
            "ecm_max": Case("q_off", 1, 0x7FFF, Case("q_delta-2*q_off", 0, 0, "ECM-Max? ")),
            "stamp": Case("@", 0, 0, "", " t {timestamp,unit:ticks}"),
        },
    )  # fmt: skip
    announced_by = "message"
    selected_by = (selector(0, 0),)
    showing = (0,)


@layer("cmtag", title="CM-Tag", source="S000 3.1; wire-formats 4", protocol=0)
class CMTag(Proposed):
    """Tag of a rate-limited frame, which names the congestion point that limits the rate.

    Protocol is 2 in frames of E²CM.
    """

    cpid: CPID = uint(
        64,
        default=DEFAULT_CPID,
        kind="cpid",
        base="hex",
        doc="the rate limiter's congestion point",
        source="S000 3.1",
    )
    timestamp: int = uint(
        16, default=0, unit="2^unit µs", doc="the reaction point's timer when the frame left",
        source="S000 3.1",
    )  # fmt: skip
    unit: int = uint(4, default=0, doc=_UNIT, source="S000 3.1")
    reserved2: int = uint(12, default=0, doc="0", source="wire-formats 4")
    etype: int = uint(
        16, default=0, base="hex", doc="EtherType of the payload, or its length in octets if 1500 or less",
        source="S000 3.1", length_name="cmtag.len",
    )  # fmt: skip
    role = "tag"
    counted_as = "CM-Tag"
    summary = Summary(tag="{protocol:cm_tag} {:cpid} t {timestamp,unit:ticks}")
    announced_by = "tag"
    selected_by = (selector(0, 0), selector(2, 0))
    otherwise = UnknownTag
    has_cpid = True
    padded = False
    next_key = "etype"


def ticks_to_ns(value: Layer) -> int:
    """Return the timestamp of an ECM frame or CM-Tag in ns. A tick is 2^Unit µs (S000 3.1)."""
    assert isinstance(value, ECM | CMTag)
    return timestamp_ns(value.timestamp, value.unit)


def timestamp_ns(ticks: int, unit: int) -> int:
    """Return ``ticks`` of 2^``unit`` µs in ns."""
    return (ticks << unit) * 1000
