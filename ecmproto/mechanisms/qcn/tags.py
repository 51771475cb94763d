"""The tags at the head of a data frame: CN-TAG in and out, another priority (wire-formats 1.2 and 2).

All functions take and return octets from the DA on, without FCS.  A frame whose Ethernet header is not
whole comes back as it is.  What follows the tags, an 802.3 length with its payload included, is not touched.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ecmproto.codec import (
    VLAN,
    CMTag,
    CNTag,
    Ethernet,
    EtherTypes,
    Frame,
    RDTag,
    RRTTag,
    STag,
    decode_lax,
    encode,
)
from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.formats.ethertypes import DEFAULT

_Tag: TypeAlias = VLAN | STag | CNTag | CMTag | RRTTag | RDTag
_UNBOUNDED = 1 << 32


class _Head(NamedTuple):
    """A frame's header: each tag stands with the EtherType that announces it, as old tags have old ones."""

    ethernet: Ethernet
    tags: list[tuple[int, _Tag]]
    payload_type: int
    payload: bytes


def insert_cn_tag(octets: bytes, flow_id: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame with a CN-TAG for ``flow_id`` behind its VLAN stack, in place of any it had.

    Raises EncodeError unless ``flow_id`` is in 0..65535.
    """
    head = _head(octets, ethertypes)
    if head is None:
        return octets
    tags = _without_cn_tags(head)
    behind = max((n for n, (_, tag) in enumerate(tags, 1) if isinstance(tag, VLAN | STag)), default=0)
    tags.insert(behind, (ethertypes.cn_tag, CNTag(flow_id=flow_id)))
    return _joined(head, tags, ethertypes)


def strip_cn_tag(
    octets: bytes, *, length_octets: int | None = None, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the frame without CN-TAG, padded to 60 octets if that made it shorter.

    ``length_octets`` is the frame's length where a snap length may have cut it: such a frame is not padded.
    """
    head = _head(octets, ethertypes)
    if head is None:
        return octets
    tags = _without_cn_tags(head)
    if len(tags) == len(head.tags):
        return octets
    stripped = _joined(head, tags, ethertypes)
    if len(octets) < max(MIN_OCTETS, length_octets or 0):
        return stripped
    return stripped.ljust(MIN_OCTETS, b"\0")


def with_priority(octets: bytes, priority: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame with ``priority`` in its outermost VLAN tag; an untagged one as it is."""
    head = _head(octets, ethertypes)
    if head is None:
        return octets
    for index, (announced_by, tag) in enumerate(head.tags):
        if isinstance(tag, VLAN | STag):
            tags = list(head.tags)
            tags[index] = (announced_by, tag.replace(priority=priority))
            return _joined(head, tags, ethertypes)
    return octets


def received_priority(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the priority in the outermost VLAN tag, 0 for an untagged frame."""
    head = _head(octets, ethertypes)
    tags = [] if head is None else [tag for _, tag in head.tags if isinstance(tag, VLAN | STag)]
    return tags[0].priority if tags else 0


def _head(octets: bytes, ethertypes: EtherTypes) -> _Head | None:
    frame = decode_lax(octets, original_octets=_UNBOUNDED, ethertypes=ethertypes)
    if not frame.layers or not isinstance(frame.layers[0], Ethernet):
        return None
    ethernet = frame.layers[0]
    tags: list[tuple[int, _Tag]] = []
    announced = ethernet.type
    for layer in frame.layers[1:]:
        if not isinstance(layer, _Tag):
            break
        tags.append((announced, layer))
        announced = layer.etype
    return _Head(ethernet, tags, announced, octets[frame.boundaries()[1 + len(tags)] :])


def _without_cn_tags(head: _Head) -> list[tuple[int, _Tag]]:
    return [(announced_by, tag) for announced_by, tag in head.tags if not isinstance(tag, CNTag)]


def _joined(head: _Head, tags: list[tuple[int, _Tag]], ethertypes: EtherTypes) -> bytes:
    types = [*(announced_by for announced_by, _ in tags), head.payload_type]
    layers = (
        head.ethernet.replace(type=types[0]),
        *(tag.replace(etype=etype) for (_, tag), etype in zip(tags, types[1:], strict=True)),
    )
    return encode(Frame(layers=layers, ethertypes=ethertypes)) + head.payload
