"""The frame around a message: to the source of a sampled frame, and back out of it (wire-formats 1.2, 4).

ECM, BCN and E²CM messages share it: addresses, the sampled frame's VLAN stack, the message, and the sampled
frame's first octets as payload.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from ecmproto.codec import BCN, E2CM, ECM, VLAN, Ethernet, EtherTypes, Frame, STag, decode, encode
from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.errors import DecodeError
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.flow import Flow, flow_of_frame
from ecmproto.mechanisms.aimd.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.mechanisms.aimd.tags import headers, outer_vlan, tags

_Message = TypeVar("_Message", bound=ECM | BCN | E2CM)
_Fields = TypeVar("_Fields")

_ADDRESS_OCTETS = 6
_TYPE_AT = 12
_HEADER_OCTETS = 14
_TAG_CONTROL_OCTETS = 2
_LEAST_PAYLOAD_OCTETS = 24
_LEAST_PAYLOAD_UNTAGGED_OCTETS = 28
"""What makes a whole frame of 60 octets without the four of a VLAN tag (wire-formats 4)."""


class Refusals:
    """What counts refused messages; a part of a reaction point's record."""

    group_address: int
    """To a group address."""
    foreign_address: int
    """To another station, or about another station's frame."""
    malformed: int
    """Not decodable, or no message of this kind."""


class Received(NamedTuple, Generic[_Fields]):
    """What a message says, the flow it is about, and the headers of the sampled frame that it shows."""

    fields: _Fields
    flow: Flow
    sampled: Frame


def _admits_all(message: object) -> bool:
    return True


def is_group(address: bytes) -> bool:
    """Return whether a MAC address is a group's."""
    return bool(address[0] & 1)


def answer(
    sampled: bytes,
    message: _Message,
    *,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the octets, without FCS, of ``message`` on its way to the source of a sampled frame.

    ``sampled`` is what was captured of that frame from its DA on; the message's payload is filled in.
    None if no message may go there: the source is a group or the congestion point, or was not captured.
    """
    source = sampled[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS]
    if len(sampled) < _HEADER_OCTETS or is_group(source) or source == cp_mac:
        return None
    frame = headers(sampled, ethertypes)
    least = _LEAST_PAYLOAD_UNTAGGED_OCTETS if outer_vlan(frame) is None else _LEAST_PAYLOAD_OCTETS
    payload = sampled[: max(parameters.payload_octets, least)].ljust(least, b"\0")
    return framed(
        message.replace(payload=payload),
        frame,
        dst=source,
        src=cp_mac,
        priority=None if parameters.keep_priority else parameters.message_priority,
        ethertypes=ethertypes,
    )


def framed(
    message: Layer,
    like: Frame,
    *,
    dst: bytes,
    src: bytes,
    priority: int | None,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return the octets of ``message`` behind the VLAN stack of ``like``, padded to 60, without FCS.

    Of the stack only the outermost tag changes: it gets ``priority`` (None keeps its own) and DEI 0.
    """
    stack: list[tuple[int, VLAN | STag]] = []
    for before, layer in pairwise((like.layers[0], *tags(like))):
        if not isinstance(layer, VLAN | STag):
            continue
        tag: VLAN | STag = layer
        if not stack:
            tag = layer.replace(priority=layer.priority if priority is None else priority, dei=0)
        stack.append((int(getattr(before, before.next_key)), tag))
    # Each header's type announces what follows it.
    types = [*(announced for announced, _ in stack), ethertypes.message]
    layers = (
        Ethernet(dst=dst, src=src, type=types[0]),
        *(tag.replace(etype=etype) for (_, tag), etype in zip(stack, types[1:], strict=True)),
        message,
    )
    return encode(Frame(layers=layers, ethertypes=ethertypes)).ljust(MIN_OCTETS, b"\0")


def received(
    octets: bytes,
    kind: type[_Message],
    fields: Callable[[_Message, Frame], _Fields],
    *,
    stations: Collection[bytes],
    counters: Refusals,
    parameters: ReactionPointParameters,
    admits: Callable[[_Message], bool] = _admits_all,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Received[_Fields] | None:
    """Return what a received message of ``kind`` says and what it is about; None, counted, if it is refused.

    ``fields`` is given the message and the sampled frame's headers that it shows.  ``stations`` are the
    addresses whose frames the reaction point limits: the message must be to one of them, and about a frame
    of that same one.  One that ``admits`` denies is malformed, and so is one whose octets do not reach to the
    end of what tells the sampled frame's flow: its addresses and its outermost VLAN tag.  ``length_octets``
    is the frame's length on the wire where a snap length may have cut it.
    """
    try:
        frame = decode(octets, original_octets=length_octets, ethertypes=ethertypes)
    except DecodeError:
        frame = None
    if (
        frame is None
        or kind not in frame
        or not admits(frame[kind])
        or not _shows_flow(frame[kind].payload, ethertypes)
    ):
        counters.malformed += 1
        return None
    station = frame[Ethernet].dst
    if is_group(station):
        counters.group_address += 1
        return None
    sampled = headers(frame[kind].payload, ethertypes)
    if station not in stations or sampled[Ethernet].src != station:
        counters.foreign_address += 1
        return None
    return Received(fields(frame[kind], sampled), flow_of_frame(sampled, parameters), sampled)


def _shows_flow(sampled: bytes, ethertypes: EtherTypes) -> bool:
    """Return whether the octets of a sampled frame reach to the end of its outermost VLAN tag's own."""
    if len(sampled) < _HEADER_OCTETS:
        return False
    announced = int.from_bytes(sampled[_TYPE_AT:_HEADER_OCTETS])
    tagged = announced in (ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag)
    return not tagged or len(sampled) >= _HEADER_OCTETS + _TAG_CONTROL_OCTETS
