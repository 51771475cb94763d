"""E²CM's frames of congestion points: BCN, BCN_MAX, BCN_ZERO, and the CM-Tag (S002; wire-formats 1.2, 6)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ecmproto.codec import E2CM, CMTag, Ethernet, EtherTypes, Frame, decode_lax
from ecmproto.formats.e2cm import BCN_TYPES, flow_id
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.envelope import Received, Refusals, answer, received
from ecmproto.mechanisms.aimd.flow import Flow
from ecmproto.mechanisms.aimd.tags import headers, priority_of, tag_of, with_tag, without_tags
from ecmproto.mechanisms.cpid import NO_CPID, signed_cpid, unsigned_cpid
from ecmproto.mechanisms.e2cm.parameters import CongestionPointParameters
from ecmproto.mechanisms.e2cm.reaction_parameters import ReactionPointParameters

if TYPE_CHECKING:
    from ecmproto.mechanisms.aimd.limiters import Limiter, Point
    from ecmproto.mechanisms.e2cm.congestion_point import State
    from ecmproto.mechanisms.ecm.congestion_point import Feedback

PROTOCOL = 2
"""E²CM in the discriminator word."""

BCN, BCN_MAX, BCN_ZERO = BCN_TYPES
NO_TYPE = -1


class Message(NamedTuple):
    """A congestion point's message as a reaction point reads it, in the units of the wire."""

    type: int
    """BCN, BCN_MAX or BCN_ZERO."""
    cpid: int
    """As `ecmproto.mechanisms.cpid` has it."""
    q_off: int
    q_delta: int
    q: int
    timestamp: int
    """Of the CM-Tag that its payload shows; the message itself has none."""
    unit: int
    tagged: bool
    """Whether its payload shows a CM-Tag, so that ``timestamp`` means something."""


def type_of(octets: bytes, ethertypes: EtherTypes = DEFAULT, *, length_octets: int | None = None) -> int:
    """Return the type of an E²CM frame, NO_TYPE of any other; ``length_octets`` as in `open_message`."""
    found = decode_lax(octets, original_octets=length_octets, ethertypes=ethertypes).get(E2CM)
    return NO_TYPE if found is None else found.type


def tag_cpid(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the CPID of a frame's CM-Tag as kernels take it, NO_CPID without one."""
    tag = tag_of(headers(octets, ethertypes), CMTag, PROTOCOL)
    return NO_CPID if tag is None else signed_cpid(tag.cpid)


def e2cm_message(
    sampled: bytes,
    feedback: Feedback,
    *,
    meter: State,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the message that answers a sampled frame, as `e2cm_frame`; it is counted if none may be sent."""
    octets = e2cm_frame(
        sampled, feedback, cpid=meter.cpid, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes
    )
    if octets is None:
        meter.unanswerable += 1
    return octets


def e2cm_frame(
    sampled: bytes,
    feedback: Feedback,
    *,
    cpid: int,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the message that answers a sampled frame, without FCS; None if none may be sent.

    ``sampled`` is what was captured of the frame from its DA on.  ``feedback`` is not SILENT: the kinds of
    messages are in the order of their types.  ``cpid`` is as `ecmproto.mechanisms.cpid` has it.
    """
    frame = headers(sampled, ethertypes)
    ethernet = frame.get(Ethernet) or Ethernet()
    message = E2CM(
        q=feedback.q,
        type=BCN_TYPES[feedback.kind - 1],
        cpid=unsigned_cpid(cpid),
        q_off=feedback.q_off,
        q_delta=feedback.q_delta,
        flow_id=flow_id(ethernet.dst, ethernet.src, priority_of(frame)),
    )
    return answer(sampled, message, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: Refusals,
    parameters: ReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[Message, Flow] | None:
    """Return a received message's fields and the flow it is about; None, counted, if it is refused.

    ``stations`` are the addresses whose frames this reaction point limits.  Any Version is read as 0.
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
        E2CM,
        _fields,
        stations=stations,
        counters=point,
        parameters=parameters,
        admits=lambda message: message.type in BCN_TYPES,
        length_octets=length_octets,
        ethertypes=ethertypes,
    )


def _fields(e2cm: E2CM, sampled: Frame) -> Message:
    tag = tag_of(sampled, CMTag, PROTOCOL)
    return Message(
        type=e2cm.type,
        cpid=signed_cpid(e2cm.cpid),
        q_off=e2cm.q_off,
        q_delta=e2cm.q_delta,
        q=e2cm.q,
        timestamp=0 if tag is None else tag.timestamp,
        unit=0 if tag is None else tag.unit,
        tagged=tag is not None,
    )


def tagged(
    octets: bytes,
    limiter: Limiter,
    *,
    point: Point,
    timestamp: int,
    unit: int,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return a frame that leaves ``limiter`` with its CM-Tag; an older one is replaced, and counted.

    ``timestamp`` is in ticks of 2^``unit`` µs, as ECM's `reaction_point.ticks` gives them.
    """
    tag = CMTag(protocol=PROTOCOL, cpid=unsigned_cpid(limiter.cpid), timestamp=timestamp, unit=unit)
    octets, replaced = with_tag(octets, tag, ethertypes)
    point.replaced_tags += replaced
    return octets


def untagged(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return a frame as its destination hands it on: without CM-Tag."""
    return without_tags(octets, CMTag, PROTOCOL, ethertypes)[0]
