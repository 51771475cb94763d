"""Functions that create and parse RD tags and returning frames of FECN (wire-formats 1.2 and 7).

A change of a tag leaves all other octets of the frame unchanged, even a length field after the tags (802.3).
Frames start at the DA, end with the last captured octet, and have no FCS.
"""

from __future__ import annotations

from typing import TypeVar

from ecmproto.control.mechanisms.api.frames import framed, headers, outer_vlan
from ecmproto.control.mechanisms.api.machine import AboutFlow
from ecmproto.control.mechanisms.fecn.reaction_point import FECNDiscards
from ecmproto.wire.codec import Ethernet, EtherTypes, Layer, RDTag, UnknownMessage, decode_lax
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.ethertypes import DEFAULT

_Answer = TypeVar("_Answer", bound=Layer)
_ADDRESS_OCTETS = 6
_GROUP_BIT = 1


TAG = TagFormat(format=RDTag, tag="rate", mark=("rlq_id",))


def answer(
    octets: bytes, body: Layer, *, port_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the destination's answer to ``octets`` with ``body``, padded to 60 octets.

    The VLAN tags are copied. The outermost VLAN tag gets ``priority`` and DEI 0. An untagged frame stays
    untagged. If the destination is a group address, the answer is sent from ``port_mac``.
    """
    is_group = octets[:1] and octets[0] & _GROUP_BIT
    return framed(
        body,
        headers(octets, ethertypes),
        dst=octets[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS],
        src=port_mac if is_group else octets[:_ADDRESS_OCTETS],
        priority=priority,
        ethertypes=ethertypes,
    )


def received(
    octets: bytes,
    kind: type[_Answer],
    source: FECNDiscards,
    *,
    station_mac: bytes,
    ethertypes: EtherTypes = DEFAULT,
) -> _Answer | None:
    """Return the answer of type ``kind`` in the frame ``octets`` to ``station_mac``, or ``None``.

    An answer is refused and counted in ``source`` if it cannot be decoded, is for another station or a group
    address, or is from a group address.
    """
    frame = decode_lax(octets, ethertypes=ethertypes)
    message = frame.get(kind)
    if message is None:
        cut = frame.error is not None and frame.error.layer in (kind.prefix, UnknownMessage.prefix)
        source.malformed_returns += cut
        return None
    header = frame[Ethernet]
    if header.dst != station_mac or header.src[0] & _GROUP_BIT:
        source.foreign_returns += 1
        return None
    return message


def answering(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> AboutFlow:
    """Return the flow of a destination's answer, from the headers of the answer.

    The VLAN tag contains the priority of the answer, so the priority of the data is unknown.
    """
    frame = headers(octets, ethertypes)
    vlan = outer_vlan(frame)
    source = frame[Ethernet].src
    return AboutFlow(source, None, 0) if vlan is None else AboutFlow(source, vlan.id, None)
