"""The common parts of ECM, BCN and E²CM frames: tags, flows, headers of messages (wire-formats 1.2)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

from ecmproto.codec import (
    BCN,
    E2CM,
    ECM,
    VLAN,
    CMTag,
    CNTag,
    Ethernet,
    EtherTypes,
    Frame,
    RRTTag,
    STag,
    decode,
)
from ecmproto.errors import DecodeError
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.parameters import AIMDCongestionPointParameters, AIMDReactionPointParameters
from ecmproto.mechanisms.api.frames import framed, headers, is_group, outer_vlan, tags

_Tag = TypeVar("_Tag", CMTag, RRTTag)

_TYPE_OCTETS = 2


def tag_of(frame: Frame, kind: type[_Tag], protocol: int) -> _Tag | None:
    """Return the newest tag of ``kind`` and ``protocol``, None without one."""
    for layer in tags(frame):
        if isinstance(layer, kind) and layer.protocol == protocol:
            return layer
    return None


def without_tags(
    octets: bytes, kind: type[Layer], protocol: int, ethertypes: EtherTypes = DEFAULT
) -> tuple[bytes, int]:
    """Return ``octets`` without the tags of ``kind`` and ``protocol``, and how many there were.

    A tag goes with the EtherType before it; the type or length after it takes that one's place.
    """
    frame = headers(octets, ethertypes)
    starts = frame.boundaries()
    found = [
        index
        for index, layer in enumerate(tags(frame), start=1)
        if isinstance(layer, kind) and getattr(layer, "protocol", protocol) == protocol
    ]
    for index in reversed(found):
        octets = octets[: starts[index] - _TYPE_OCTETS] + octets[starts[index + 1] - _TYPE_OCTETS :]
    return octets, len(found)


def with_tag(octets: bytes, tag: CMTag | RRTTag, ethertypes: EtherTypes = DEFAULT) -> tuple[bytes, int]:
    """Return ``octets`` with ``tag`` behind the VLAN stack and CN-TAG, and how many of its kind it replaced.

    Frames cut off before their first EtherType are returned as they are.
    """
    octets, replaced = without_tags(octets, type(tag), tag.protocol, ethertypes)
    if len(octets) < _HEADER_OCTETS:
        return octets, replaced
    frame = headers(octets, ethertypes)
    outer = list(takewhile(lambda layer: isinstance(layer, VLAN | STag | CNTag), frame.layers[1:]))
    at = frame.boundaries()[1 + len(outer)] - _TYPE_OCTETS
    # The tag's own last field announces what it was put in front of: those octets stand there already.
    inserted = ethertypes.tag.to_bytes(_TYPE_OCTETS) + tag.build()[:-_TYPE_OCTETS]
    return octets[:at] + inserted + octets[at:], replaced


_NO_VLAN = b"\xff\xff"
_HASH_OCTETS = 4


class Flow(NamedTuple):
    """A flow's key, matched exactly, and the priority of the frame it was found in."""

    key: bytes
    priority: int


def flow_of(octets: bytes, parameters: AIMDReactionPointParameters, ethertypes: EtherTypes = DEFAULT) -> Flow:
    """Return the flow of a frame; ``octets`` are its first ones, from its DA to the VLAN tag at least."""
    return flow_of_frame(headers(octets, ethertypes), parameters)


def flow_of_frame(frame: Frame, parameters: AIMDReactionPointParameters) -> Flow:
    """Return the flow of a decoded frame.

    The key is made of VLAN id (or none), DA, SA and priority (0 when untagged), as far as the parameters
    ask for them; with ``hash_bits``, of a CRC-32 of that.
    """
    ethernet = frame[Ethernet]
    vlan = outer_vlan(frame)
    priority = 0 if vlan is None else vlan.priority
    parts = []
    if parameters.key_vlan:
        parts.append(_NO_VLAN if vlan is None else vlan.id.to_bytes(2))
    if parameters.key_dst:
        parts.append(ethernet.dst)
    if parameters.key_src:
        parts.append(ethernet.src)
    if parameters.key_priority:
        parts.append(bytes([priority]))
    key = b"".join(parts)
    if parameters.hash_bits:
        hashed = zlib.crc32(key) & ((1 << parameters.hash_bits) - 1)
        key = hashed.to_bytes(_HASH_OCTETS)
    return Flow(key, priority)


_Message = TypeVar("_Message", bound=ECM | BCN | E2CM)
_Fields = TypeVar("_Fields")

_ADDRESS_OCTETS = 6
_TYPE_AT = 12
_HEADER_OCTETS = 14
_TAG_CONTROL_OCTETS = 2
_LEAST_PAYLOAD_OCTETS = 24
_LEAST_PAYLOAD_UNTAGGED_OCTETS = 28
"""What makes a whole frame of 60 octets without the four of a VLAN tag (wire-formats 4)."""


class AIMDDiscards:
    """Counters of refused messages, by reason; a part of a reaction point's record."""

    group_address: int
    """To a group address."""
    foreign_address: int
    """To another station, or about another station's frame."""
    malformed: int
    """Not decodable, or no message of this kind."""


class Received(NamedTuple, Generic[_Fields]):
    """A parsed message, the flow it is about, and the headers of the sampled frame that it encapsulates."""

    fields: _Fields
    flow: Flow
    sampled: Frame


def _admits_all(message: object) -> bool:
    return True


def answer(
    sampled: bytes,
    message: _Message,
    *,
    cp_mac: bytes,
    parameters: AIMDCongestionPointParameters,
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


def received(
    octets: bytes,
    kind: type[_Message],
    fields: Callable[[_Message, Frame], _Fields],
    *,
    stations: Collection[bytes],
    counters: AIMDDiscards,
    parameters: AIMDReactionPointParameters,
    admits: Callable[[_Message], bool] = _admits_all,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Received[_Fields] | None:
    """Return the parsed message of ``kind`` and the flow it is about; None, counted, if it is refused.

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
