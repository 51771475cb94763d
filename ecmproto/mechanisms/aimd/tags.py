"""The tags of a data frame: found, inserted, taken out, octet by octet (wire-formats 1.2)."""

from __future__ import annotations

from functools import lru_cache
from itertools import takewhile
from typing import TypeVar

from ecmproto.codec import VLAN, CMTag, CNTag, EtherTypes, Frame, RDTag, RRTTag, STag, decode_lax
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT

_Tag = TypeVar("_Tag", CMTag, RRTTag)

_TYPE_OCTETS = 2
_HEADER_OCTETS = 14
_SHOWN_OCTETS = 256
"""More than any sane stack of tags; what follows needs no decoding."""


def headers(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> Frame:
    """Return the frame's addresses and tags, decoded laxly; the rest is not looked at.

    The last tag counts as whole even where what follows it was cut off with its EtherType.
    """
    return _headers(octets[:_SHOWN_OCTETS], ethertypes)


@lru_cache(maxsize=16)
def _headers(shown: bytes, ethertypes: EtherTypes) -> Frame:
    # Who asks for a frame's priority asks for its addresses next.
    return decode_lax(shown + bytes(_TYPE_OCTETS), original_octets=1 << 30, ethertypes=ethertypes)


def tags(frame: Frame) -> list[Layer]:
    """Return the tags that follow the addresses, outermost first."""
    kinds = (VLAN, STag, CNTag, CMTag, RRTTag, RDTag)
    return list(takewhile(lambda layer: isinstance(layer, kinds), frame.layers[1:]))


def tag_of(frame: Frame, kind: type[_Tag], protocol: int) -> _Tag | None:
    """Return the newest tag of ``kind`` and ``protocol``, None without one."""
    for layer in tags(frame):
        if isinstance(layer, kind) and layer.protocol == protocol:
            return layer
    return None


def outer_vlan(frame: Frame) -> VLAN | STag | None:
    """Return the outermost VLAN tag, None on an untagged frame."""
    return next((layer for layer in tags(frame) if isinstance(layer, VLAN | STag)), None)


def priority_of(frame: Frame) -> int:
    """Return the priority that a frame counts for: its outermost VLAN tag's, else 0."""
    vlan = outer_vlan(frame)
    return 0 if vlan is None else vlan.priority


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
