"""FECN's frames, the RD tag and the returning frame, its edge and its machine (wire-formats 1.2 and 7).

Tags are inserted, changed and removed without a change of any other octet: a length after the tags (802.3)
stays unchanged. Frames are given from their DA on, as far as they were captured, without FCS.
"""

from __future__ import annotations

from typing import TypeVar

from ecmproto.control.mechanisms.api.frames import framed, headers, outer_vlan
from ecmproto.control.mechanisms.api.machine import AboutFlow
from ecmproto.control.mechanisms.fecn.reaction_point import FECNDiscards
from ecmproto.wire.codec import Ethernet, EtherTypes, Frame, Layer, RDTag, UnknownMessage, decode_lax
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.ethertypes import DEFAULT

_Answer = TypeVar("_Answer", bound=Layer)
_ADDRESS_OCTETS = 6
_GROUP_BIT = 1


TAG = TagFormat(format=RDTag, tag="rate", mark=("rlq_id",))


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
    """Return the destination's answer to ``octets`` with ``body``, in the form of `reply`.

    A group has no address to answer from: ``port_mac`` replaces it.
    """
    is_group = octets[:1] and octets[0] & _GROUP_BIT
    station_mac = port_mac if is_group else octets[:_ADDRESS_OCTETS]
    return reply(octets, body, station_mac=station_mac, priority=priority, ethertypes=ethertypes)


def received(
    octets: bytes,
    kind: type[_Answer],
    source: FECNDiscards,
    *,
    station_mac: bytes,
    ethertypes: EtherTypes = DEFAULT,
) -> _Answer | None:
    """Return the answer of ``kind`` in the frame ``octets`` to the source with ``station_mac``.

    None, counted in ``source``, for one to a group or another station or from a group, and for one that
    cannot be decoded; None for any other frame.
    """
    frame = decode_lax(octets, ethertypes=ethertypes)
    message = frame.get(kind)
    if message is None:
        source.malformed_returns += is_malformed(frame, kind)
        return None
    header = frame[Ethernet]
    if header.dst != station_mac or header.src[0] & _GROUP_BIT:
        source.foreign_returns += 1
        return None
    return message


def answering(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> AboutFlow:
    """Return the flow of a destination's answer, from its headers.

    The priority in its VLAN tag is its own: the data's is unknown.
    """
    frame = headers(octets, ethertypes)
    vlan = outer_vlan(frame)
    source = frame[Ethernet].src
    return AboutFlow(source, None, 0) if vlan is None else AboutFlow(source, vlan.id, None)


def is_malformed(frame: Frame, message: type[Layer]) -> bool:
    """Return whether ``frame`` is too short for the experimental message that it announces."""
    return frame.error is not None and frame.error.layer in (message.prefix, UnknownMessage.prefix)
