"""Received messages of ECM, BCN and E²CM (wire-formats 1.2)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ecmproto.control.mechanisms.api.frames import is_group
from ecmproto.control.mechanisms.api.machine import HEADER_OCTETS, MessageDiscards
from ecmproto.errors import DecodeError
from ecmproto.wire.codec import Ethernet, EtherTypes, Frame, decode
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT

_TYPE_AT = 12
_TAG_CONTROL_OCTETS = 2


def addressed(
    octets: bytes,
    admits: Callable[[Any], bool],
    kind: type[Layer],
    *,
    stations: Collection[bytes],
    refusals: MessageDiscards,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Frame | None:
    """Return the decoded frame if it is a message of ``kind`` to one of ``stations``.

    Otherwise count the refusal and return ``None``.

    A message that ``admits`` rejects is counted as malformed. ``length_octets`` is the frame length on the
    wire, for a frame that a snap length may have truncated.
    """
    try:
        frame = decode(octets, original_octets=length_octets, ethertypes=ethertypes)
    except DecodeError:
        frame = None
    if frame is None or kind not in frame or not admits(frame[kind]):
        refusals.malformed += 1
        return None
    station = frame[Ethernet].dst
    if is_group(station):
        refusals.group_address += 1
        return None
    if station not in stations:
        refusals.foreign_address += 1
        return None
    return frame


def shows_flow(sampled: bytes, ethertypes: EtherTypes) -> bool:
    """Return whether the octets of a sampled frame include the complete outermost VLAN tag."""
    if len(sampled) < HEADER_OCTETS:
        return False
    announced = int.from_bytes(sampled[_TYPE_AT:HEADER_OCTETS])
    tagged = announced in (ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag)
    return not tagged or len(sampled) >= HEADER_OCTETS + _TAG_CONTROL_OCTETS
