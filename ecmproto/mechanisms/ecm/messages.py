"""ECM's frames: the ECM frame and the CM-Tag (S000 3.1; wire-formats 1.2 and 4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ecmproto.codec import ECM, CMTag, EtherTypes, Frame
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.envelope import Received, Refusals, answer, received
from ecmproto.mechanisms.aimd.flow import Flow
from ecmproto.mechanisms.aimd.tags import headers, tag_of, with_tag, without_tags
from ecmproto.mechanisms.cpid import NO_CPID, signed_cpid, unsigned_cpid
from ecmproto.mechanisms.ecm.parameters import CongestionPointParameters, ReactionPointParameters

if TYPE_CHECKING:
    from ecmproto.mechanisms.aimd.limiters import Limiter, Point
    from ecmproto.mechanisms.ecm.congestion_point import Feedback, State

PROTOCOL = 0
"""ECM in the discriminator word."""

LEAST_SHOWN_OCTETS = 32
"""The payload that shows a whole CM-Tag behind one VLAN tag (wire-formats 4)."""


class Message(NamedTuple):
    """An ECM frame's fields as a reaction point reads them, in the units of the wire."""

    cpid: int
    """As `ecmproto.mechanisms.cpid` has it."""
    q_off: int
    q_delta: int
    q: int
    timestamp: int
    unit: int
    tagged: bool
    """Whether its payload shows a CM-Tag, so that ``timestamp`` means something."""


def tag_cpid(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the CPID of a frame's CM-Tag as kernels take it, NO_CPID without one."""
    tag = tag_of(headers(octets, ethertypes), CMTag, PROTOCOL)
    return NO_CPID if tag is None else signed_cpid(tag.cpid)


def ecm_frame(
    sampled: bytes,
    feedback: Feedback,
    *,
    state: State,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the ECM frame that answers a sampled frame, without FCS; None, counted, if none may be sent.

    ``sampled`` is what was captured of the frame from its DA on.  Timestamp and Unit come from its CM-Tag.
    """
    tag = tag_of(headers(sampled, ethertypes), CMTag, PROTOCOL)
    message = Message(
        cpid=state.cpid,
        q_off=feedback.q_off,
        q_delta=feedback.q_delta,
        q=feedback.q,
        timestamp=0 if tag is None else tag.timestamp,
        unit=0 if tag is None else tag.unit,
        tagged=tag is not None,
    )
    octets = frame_of(message, sampled, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)
    if octets is None:
        state.unanswerable += 1
    return octets


def frame_of(
    message: Message,
    sampled: bytes,
    *,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the frame that carries ``message`` to the source of ``sampled``; None if none may be sent."""
    ecm = ECM(
        q=message.q,
        cpid=unsigned_cpid(message.cpid),
        q_off=message.q_off,
        q_delta=message.q_delta,
        timestamp=message.timestamp,
        unit=message.unit,
    )
    return answer(sampled, ecm, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: Refusals,
    parameters: ReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[Message, Flow] | None:
    """Return a received ECM frame's fields and the flow it is about; None, counted, if it is refused.

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
        ECM,
        _fields,
        stations=stations,
        counters=point,
        parameters=parameters,
        length_octets=length_octets,
        ethertypes=ethertypes,
    )


def _fields(ecm: ECM, sampled: Frame) -> Message:
    return Message(
        cpid=signed_cpid(ecm.cpid),
        q_off=ecm.q_off,
        q_delta=ecm.q_delta,
        q=ecm.q,
        timestamp=ecm.timestamp,
        unit=ecm.unit,
        tagged=tag_of(sampled, CMTag, PROTOCOL) is not None,
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
    """Return a frame that leaves ``limiter`` with its CM-Tag (rule 9); an older one is replaced, and counted.

    ``timestamp`` is in ticks of 2^``unit`` µs, as `reaction_point.ticks` gives them.
    """
    tag = CMTag(cpid=unsigned_cpid(limiter.cpid), timestamp=timestamp, unit=unit)
    octets, replaced = with_tag(octets, tag, ethertypes)
    point.replaced_tags += replaced
    return octets


def untagged(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return a frame as its destination hands it on: without CM-Tag."""
    return without_tags(octets, CMTag, PROTOCOL, ethertypes)[0]
