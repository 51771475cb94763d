"""BCN's frames: the BCN message and the RRT tag (S004 Figs 2 and 3; wire-formats 1.2 and 5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ecmproto.codec import BCN, EtherTypes, Frame, RRTTag
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.envelope import Received, Refusals, answer, received
from ecmproto.mechanisms.aimd.flow import Flow
from ecmproto.mechanisms.aimd.tags import headers, tag_of, with_tag, without_tags
from ecmproto.mechanisms.bcn.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.mechanisms.cpid import NO_CPID, signed_cpid, unsigned_cpid

if TYPE_CHECKING:
    from ecmproto.mechanisms.aimd.limiters import Limiter, Point
    from ecmproto.mechanisms.bcn.congestion_point import Feedback, State

PROTOCOL = 1
"""BCN in the discriminator word."""

_KILO = 1000
_LARGEST_CAPACITY_KBPS = 0xFFFFFFFF


class Message(NamedTuple):
    """A BCN message's fields as a reaction point reads them, in the units of the wire."""

    type: int
    """NORMAL or STOP."""
    cpid: int
    """As `ecmproto.mechanisms.cpid` has it."""
    e: int
    capacity: int
    """C in kb/s; 0 stands for the reaction point's own link."""


def tag_cpid(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the CPID of a frame's RRT tag as kernels take it, NO_CPID without one."""
    tag = tag_of(headers(octets, ethertypes), RRTTag, PROTOCOL)
    return NO_CPID if tag is None else signed_cpid(tag.cpid)


def bcn_message(
    sampled: bytes,
    feedback: Feedback,
    *,
    capacity_bps: int,
    state: State,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the BCN message that answers a sampled frame, without FCS; None, counted, if none may be sent.

    ``sampled`` is what was captured of the frame from its DA on; ``capacity_bps`` is the congested link's.
    """
    message = Message(feedback.kind, state.cpid, feedback.e, capacity_kbps(capacity_bps))
    octets = frame_of(message, sampled, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)
    if octets is None:
        state.unanswerable += 1
    return octets


def capacity_kbps(capacity_bps: int) -> int:
    """Return a link's capacity as messages carry it."""
    return min(capacity_bps // _KILO, _LARGEST_CAPACITY_KBPS)


def frame_of(
    message: Message,
    sampled: bytes,
    *,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the frame that carries ``message`` to the source of ``sampled``; None if none may be sent."""
    bcn = BCN(type=message.type, cpid=unsigned_cpid(message.cpid), e=message.e, capacity=message.capacity)
    return answer(sampled, bcn, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: Refusals,
    parameters: ReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[Message, Flow] | None:
    """Return a received BCN message's fields and the flow it is about; None, counted, if it is refused.

    ``stations`` are the addresses whose frames this reaction point limits.  Where Ru follows the congested
    link's capacity, a message without one is malformed.
    """
    found = open_message(octets, stations=stations, point=point, parameters=parameters, ethertypes=ethertypes)
    return None if found is None else (found.fields, found.flow)


def open_message(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: Refusals,
    parameters: ReactionPointParameters,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Received[Message] | None:
    """Return what `read` does, and the headers of the sampled frame.

    ``length_octets`` is the frame's length on the wire where a snap length may have cut it.
    """
    return received(
        octets,
        BCN,
        _fields,
        stations=stations,
        counters=point,
        parameters=parameters,
        admits=lambda bcn: bcn.capacity > 0 or not parameters.capacity_scaling,
        length_octets=length_octets,
        ethertypes=ethertypes,
    )


def _fields(bcn: BCN, sampled: Frame) -> Message:
    return Message(bcn.type, signed_cpid(bcn.cpid), bcn.e, bcn.capacity)


def tagged(octets: bytes, limiter: Limiter, *, point: Point, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return a frame that leaves ``limiter`` with its RRT tag; an older one is replaced, and counted."""
    tag = RRTTag(cpid=unsigned_cpid(limiter.cpid))
    octets, replaced = with_tag(octets, tag, ethertypes)
    point.replaced_tags += replaced
    return octets


def untagged(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return a frame as it leaves the BCN-aware region: without RRT tag (S004 IV.C)."""
    return without_tags(octets, RRTTag, PROTOCOL, ethertypes)[0]
