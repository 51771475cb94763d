"""Headers of mirror sessions in GRE: ERSPAN types II and III.

Type I has no header. Source: draft-foschiano-erspan.
"""

from __future__ import annotations

from ecmproto.wire.formats.base import Limit, layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.schema import uint
from ecmproto.wire.formats.summary import Summary
from ecmproto.wire.formats.wrapper import Packet, Part, Wrapper

_SOURCE = "draft-foschiano-erspan"
_TRUNCATED = "whether the mirror truncated the frame"
_DIRECTIONS = {0: "in", 1: "out"}
GRANULARITIES = {0: "100 µs", 1: "100 ns", 2: "IEEE 1588", 3: "user"}
"""Names of the units of timestamps, by code."""
TICK_NS = {0: 100_000, 1: 100}
"""Units of timestamps in ns, by code. Codes without an entry have no usable unit."""


@layer("erspan", title="ERSPAN II", source=_SOURCE)
class ERSPAN(Wrapper):
    """Header of ERSPAN type II, with the session and port of a mirrored frame."""

    version: int = uint(4, default=1, doc="1")
    vlan: int = uint(12, default=0, doc="VLAN identifier of the frame")
    cos: int = uint(3, default=0, doc="priority of the frame")
    encapsulation: int = uint(
        2, default=0, doc="encapsulation of the frame on its trunk", name="erspan.encap"
    )
    truncated: int = uint(1, default=0, doc=_TRUNCATED)
    session: int = uint(10, default=0, doc="session of the mirror", name="erspan.spanid")
    reserved: int = uint(12, default=0, doc="0")
    index: int = uint(20, default=0, doc="port, or its index")
    limits = (Limit(key="version", low=1, high=1),)
    wraps = {0: Ethernet}
    session_key = "session"
    summary = Summary(tag="ERSPAN {session} port {index}")


@layer("erspan3.platform", title="ERSPAN III platform subheader", source=_SOURCE)
class Platform(Part):
    """Platform-specific subheader of ERSPAN type III."""

    platform: int = uint(6, default=0, doc="platform", name="erspan.platid")
    info: int = uint(26, default=0, base="hex", doc="platform-specific information")
    number: int = uint(32, default=0, base="hex", doc="platform-specific port or time")


@layer("erspan3", title="ERSPAN III", source=_SOURCE)
class ERSPAN3(Wrapper):
    """Header of ERSPAN type III, with the session, direction and timestamp of a mirrored frame."""

    field_prefix = "erspan"
    version: int = uint(4, default=2, doc="2")
    vlan: int = uint(12, default=0, doc="VLAN identifier of the frame")
    cos: int = uint(3, default=0, doc="priority of the frame")
    bso: int = uint(2, default=0, doc="integrity: good, bad, short or oversized")
    truncated: int = uint(1, default=0, doc=_TRUNCATED)
    session: int = uint(10, default=0, doc="session of the mirror", name="erspan.spanid")
    timestamp: int = uint(32, default=0, doc="time of the mirror")
    sgt: int = uint(16, default=0, doc="security group tag")
    p: int = uint(1, default=1, doc="whether the content is an Ethernet frame")
    ft: int = uint(5, default=0, doc="type of the content", names={0: "Ethernet", 2: "IP"})
    hardware: int = uint(6, default=0, doc="engine of the mirror", name="erspan.hw")
    direction: int = uint(1, default=0, doc="direction of the frame at the port", names=_DIRECTIONS)
    granularity: int = uint(
        2, default=0, doc="unit of the time stamp", name="erspan.gra", names=GRANULARITIES
    )
    o: int = uint(1, default=0, doc="whether a platform-specific subheader follows")
    limits = (Limit(key="version", low=2, high=2),)
    next_key = "ft"
    sequence_key = "o"
    sequences = {1: (Platform,)}
    wraps = {0: Ethernet, 2: Packet}
    session_key = "session"
    summary = Summary(
        tag="ERSPAN {session} {direction:direction}", styles={"direction": _DIRECTIONS.__getitem__}
    )
