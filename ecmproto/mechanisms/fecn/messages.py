"""FECN's frames: the RD tag in data frames and the returning frame (wire-formats 1.2 and 7).

Tags are put in, changed and taken out without touching any other octet: what a length behind the tags counts
(802.3) stays what it counted.  Frames are given from their DA on, as far as they were captured, without FCS.
"""

from __future__ import annotations

from ecmproto.codec import (
    VLAN,
    CMTag,
    CNTag,
    Ethernet,
    EtherTypes,
    FECNReturn,
    Frame,
    Layer,
    RDTag,
    RRTTag,
    STag,
    UnknownMessage,
    decode_lax,
)
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.envelope import framed
from ecmproto.mechanisms.aimd.tags import headers, outer_vlan
from ecmproto.mechanisms.fecn.reaction_point import Refusals, Return
from ecmproto.mechanisms.machine import AboutFlow
from ecmproto.units import RATE_INFINITY

_TYPE_OCTETS = 2
_ADDRESS_OCTETS = 6
_HEADER_OCTETS = 14
_GROUP_BIT = 1
_STACK = (VLAN, STag, CNTag)
_TAGS = (*_STACK, RDTag, CMTag, RRTTag)


def tagged(
    octets: bytes, *, rlq_id: int, rate: int = RATE_INFINITY, ethertypes: EtherTypes = DEFAULT
) -> bytes | None:
    """Return the data frame ``octets`` with an RD tag behind its VLAN stack and CN-TAG.

    It replaces an old RD tag.  None if that place was cut off the captured frame.
    """
    bare = untagged(octets, ethertypes=ethertypes)
    frame = decode_lax(bare, ethertypes=ethertypes)
    if not isinstance(frame.layers[0] if frame.layers else None, Ethernet):
        return None
    last = 0
    while last + 1 < len(frame.layers) and isinstance(frame.layers[last + 1], _STACK):
        last += 1
    end = frame.boundaries()[last + 1]
    etype = int.from_bytes(bare[end - _TYPE_OCTETS : end])
    if etype in (ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag, ethertypes.cn_tag):
        return None
    tag = RDTag(rlq_id=rlq_id, rate=rate, etype=etype)
    return bare[: end - _TYPE_OCTETS] + ethertypes.tag.to_bytes(_TYPE_OCTETS) + tag.build() + bare[end:]


def untagged(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the data frame ``octets`` without its RD tags; it may be shorter than 60 octets then."""
    frame = decode_lax(octets, ethertypes=ethertypes)
    starts = frame.boundaries()
    for index in reversed(range(_tag_run(frame))):
        if isinstance(frame.layers[index], RDTag):
            # The tag goes with the type that announces it and leaves its own in that place.
            start, end = starts[index] - _TYPE_OCTETS, starts[index + 1] - _TYPE_OCTETS
            octets = octets[:start] + octets[end:]
    return octets


def rd_tag(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> RDTag | None:
    """Return the RD tag of the data frame ``octets``, the outermost of several, None if it has none."""
    frame = decode_lax(octets, ethertypes=ethertypes)
    index = _rd_tag_index(frame)
    found = frame.layers[index] if index else None
    return found if isinstance(found, RDTag) else None


def with_rate(octets: bytes, rate: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the data frame ``octets`` with ``rate``, in kb/s, in its (outermost) RD tag."""
    frame = decode_lax(octets, ethertypes=ethertypes)
    index = _rd_tag_index(frame)
    return with_layer(octets, frame, index, frame.layers[index].replace(rate=rate)) if index else octets


def with_layer(octets: bytes, frame: Frame, index: int, layer: Layer) -> bytes:
    """Return ``octets``, which decoded to ``frame``, with ``layer`` in place of its layer ``index``."""
    start, end = frame.boundaries()[index : index + 2]
    return octets[:start] + layer.build() + octets[end:]


def returning(
    octets: bytes, *, station_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes | None:
    """Return the frame that brings the RD tag of the data frame ``octets`` back to its source, padded to 60.

    None if it has none.
    """
    tag = rd_tag(octets, ethertypes=ethertypes)
    if tag is None:
        return None
    body = FECNReturn(rlq_id=tag.rlq_id, rate=tag.rate)
    return reply(octets, body, station_mac=station_mac, priority=priority, ethertypes=ethertypes)


def is_answerable(octets: bytes, *, station_mac: bytes) -> bool:
    """Return whether ``station_mac`` may answer the frame: to no group address, and not to itself."""
    source = octets[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS]
    return len(octets) >= _HEADER_OCTETS and not source[0] & _GROUP_BIT and source != station_mac


def reply(
    octets: bytes, body: Layer, *, station_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the frame with ``body`` from ``station_mac`` to the source of ``octets``, padded to 60.

    The VLAN stack is copied, its outermost priority set to ``priority``, its DEI to 0; untagged stays
    untagged.
    """
    source = octets[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS]
    like = headers(octets, ethertypes)
    return framed(body, like, dst=source, src=station_mac, priority=priority, ethertypes=ethertypes)


def answer(
    octets: bytes, body: Layer, *, port_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the frame with ``body`` that the destination of ``octets`` answers with, as `reply` makes it.

    A group has no address to answer from: ``port_mac`` stands for it.
    """
    is_group = octets[:1] and octets[0] & _GROUP_BIT
    station_mac = port_mac if is_group else octets[:_ADDRESS_OCTETS]
    return reply(octets, body, station_mac=station_mac, priority=priority, ethertypes=ethertypes)


def received(
    octets: bytes, source: Refusals, *, station_mac: bytes, ethertypes: EtherTypes = DEFAULT
) -> Return | None:
    """Return what the returning frame ``octets`` says to the source with ``station_mac``.

    None, counted in ``source``, for one to a group or another station or from a group, and for one that
    cannot be decoded; None for any other frame.
    """
    frame = decode_lax(octets, ethertypes=ethertypes)
    found = frame.get(FECNReturn)
    if found is None:
        source.malformed_returns += is_malformed(frame, FECNReturn)
        return None
    header = frame[Ethernet]
    if header.dst != station_mac or header.src[0] & _GROUP_BIT:
        source.foreign_returns += 1
        return None
    return Return(found.rlq_id, found.rate)


def answering(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> AboutFlow:
    """Return what the headers of a destination's answer tell of the flow that it is about.

    In a VLAN tag they have a priority of their own: the data's is not told.
    """
    frame = headers(octets, ethertypes)
    vlan = outer_vlan(frame)
    source = frame[Ethernet].src
    return AboutFlow(source, None, 0) if vlan is None else AboutFlow(source, vlan.id, None)


def is_malformed(frame: Frame, message: type[Layer]) -> bool:
    """Return whether ``frame`` is too short for the experimental message that it announces."""
    return frame.error is not None and frame.error.layer in (message.prefix, UnknownMessage.prefix)


def _tag_run(frame: Frame) -> int:
    """Return how many layers the Ethernet header and the tags behind it are."""
    if not isinstance(frame.layers[0] if frame.layers else None, Ethernet):
        return 0
    length = 1
    while length < len(frame.layers) and isinstance(frame.layers[length], _TAGS):
        length += 1
    return length


def _rd_tag_index(frame: Frame) -> int:
    """Return the index of the outermost RD tag among the layers, 0 if there is none."""
    return next((i for i in range(_tag_run(frame)) if isinstance(frame.layers[i], RDTag)), 0)
