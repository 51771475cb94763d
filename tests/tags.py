"""A slow reference implementation of `frames.batch.tags`: finding and inserting tags in single frames."""

from __future__ import annotations

from itertools import takewhile

from ecmproto.wire.codec import VLAN, CNTag, Layer, STag
from ecmproto.wire.codec.tags import (
    TYPE_AT,
    TYPE_OCTETS,
    LocatedTag,
    TagFormat,
    kind_of,
    tags_in,
    without_tags,
)
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes


def find_tag(octets: bytes, kind: TagFormat, ethertypes: EtherTypes = DEFAULT) -> LocatedTag | None:
    """Return the newest tag of ``kind`` in a frame, or None if the frame has no such tag."""
    return next((tag for tag in tags_in(octets, ethertypes)[0] if tag.is_of(kind, ethertypes)), None)


def with_tag(octets: bytes, tag: Layer, ethertypes: EtherTypes = DEFAULT) -> tuple[bytes, int]:
    """Return a frame in which ``tag`` replaces all tags of the same format, and the number of replaced tags.

    A frame with truncated tags is returned unchanged. The last field of ``tag``, the next type, is ignored.
    """
    kind = kind_of(tag)
    if tags_in(octets, ethertypes)[1]:
        return octets, 0
    octets, replaced = without_tags(octets, kind, ethertypes)
    before = (VLAN, STag) if kind.format is CNTag else (VLAN, STag, CNTag)
    at = TYPE_AT
    for each in takewhile(lambda found: isinstance(found.layer, before), tags_in(octets, ethertypes)[0]):
        at = each.end
    row = kind.announcing(ethertypes).to_bytes(TYPE_OCTETS) + tag.build()[:-TYPE_OCTETS]
    return octets[:at] + row + octets[at:], replaced
