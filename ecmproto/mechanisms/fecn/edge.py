"""The FECN edge receiver: it strips RD tags and sends them back (algorithms §5 item 3)."""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.codec import EtherTypes
from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.fecn.messages import is_answerable, returning, untagged
from ecmproto.mechanisms.fecn.parameters import EdgeParameters
from ecmproto.mechanisms.limiter import NEVER_NS

_ADDRESS_OCTETS = 6
_GROUP_BIT = 1


class Edge:
    """What an edge receiver counts; a record (``ecmproto.record``)."""

    stripped: int
    """Data frames whose RD tag was taken out."""
    returns: int
    """Returning frames made."""
    unanswerable: int
    """Tagged frames stripped without an answer: from a group address or from this station itself."""
    foreign: int
    """Frames for another station, left as they are."""


class Received(NamedTuple):
    """What became of a data frame: the frame without its RD tag, and the returning frame, if any."""

    octets: bytes
    returning: bytes | None


def next_timer_ns(edge: Edge) -> int:
    """Return NEVER_NS: an edge receiver has no timers."""
    return NEVER_NS


def receive(
    edge: Edge,
    octets: bytes,
    *,
    station_mac: bytes,
    parameters: EdgeParameters,
    length_octets: int = 0,
    ethertypes: EtherTypes = DEFAULT,
) -> Received:
    """Take the RD tag out of a data frame that reached ``station_mac``, and make the frame that returns it.

    ``octets`` is the frame from its DA on, without FCS, as far as it was captured; ``length_octets`` its
    length on the wire if that is more.  A whole frame is padded to 60 octets again.
    """
    destination = octets[:_ADDRESS_OCTETS]
    bare = untagged(octets, ethertypes=ethertypes)
    if bare == octets:
        return Received(octets, None)
    if destination != station_mac and not destination[0] & _GROUP_BIT:
        edge.foreign += 1
        return Received(octets, None)
    edge.stripped += 1
    if length_octets <= len(octets):
        bare = bare.ljust(MIN_OCTETS, b"\0")
    if not is_answerable(octets, station_mac=station_mac):
        edge.unanswerable += 1
        return Received(bare, None)
    answer = returning(
        octets, station_mac=station_mac, priority=parameters.return_priority, ethertypes=ethertypes
    )
    edge.returns += 1
    return Received(bare, answer)
