"""RD tags, and functions that parse the answers of FECN and DBP (wire-formats 1.2 and 7).

Frames start at the DA, end with the last captured octet, and have no FCS.
"""

from __future__ import annotations

from typing import TypeVar

from ecmproto.control.mechanisms.api.frames import headers, outer_vlan
from ecmproto.control.mechanisms.api.machine import AboutFlow
from ecmproto.control.mechanisms.fecn.reaction_point import FECNDiscards
from ecmproto.wire.codec import Ethernet, EtherTypes, Layer, RDTag, UnknownMessage, decode_lax
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.ethertypes import DEFAULT

_Answer = TypeVar("_Answer", bound=Layer)
_GROUP_BIT = 1


TAG = TagFormat(format=RDTag, tag="rate", mark=("rlq_id",))


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
