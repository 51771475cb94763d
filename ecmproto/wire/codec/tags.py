"""Tags of frames: the formats that are tags, and the tags of single frames.

Tags are between a frame's addresses and the payload, in any number and order. A tag is complete if all octets
from the tag's EtherType to the last field before the next EtherType were captured. If a frame has several
tags of a format, the outermost tag counts, which is the newest.

A new tag replaces all tags of the same format. The new tag is inserted after the VLAN tags at the start of
the frame, and also after CN-TAGs there unless the new tag is a CN-TAG. A frame that is truncated within the
tags gets no new tag. `batch.tags` applies these rules to whole batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, NamedTuple

from ecmproto.errors import ParameterError
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import decode_lax
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import Ethernet, ITag
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.experimental import UnknownTag
from ecmproto.wire.formats.registry import FORMATS, announcement

TYPE_OCTETS = 2
TYPE_AT = 12
WORD_BITS = 64
SELECTOR_MASK = 0x07F0
"""Mask for Protocol and Type in the first two octets after the experimental EtherType (wire-formats 1.1)."""
_MAX_OCTETS = 128
_UNKNOWN_LENGTH = 1 << 30


_SHARED = {value for value, count in Counter(cls.announced_by for cls in FORMATS).items() if count > 1} - {
    "tag"
}


def is_tag(kind: type[Layer]) -> bool:
    """Return whether a format is a tag with a fixed length of 4 to 127 octets, followed by an EtherType.

    A tag has an EtherType that no other format uses, or the experimental EtherType for tags. An I-TAG is
    payload, because the I-TAG starts a customer's frame with separate addresses and tags.
    """
    last = kind.layout[-1]
    return (
        kind.role == "tag"
        and kind is not ITag
        and kind.announced_by not in _SHARED
        and kind.next_key == last.key
        and last.bits == 8 * TYPE_OCTETS
        and 2 * TYPE_OCTETS <= kind.fixed_octets < _MAX_OCTETS
    )


def split_word(kind: type[Layer], names: Sequence[str], number: Any) -> dict[str, Any]:
    """Split ``number`` into the fields ``names`` of a format. The first field has the highest bits."""
    widths, values, shift = _widths(kind), {}, 0
    for name in reversed(names):
        values[name] = number >> shift & ((1 << widths[name]) - 1)
        shift += widths[name]
    return values


def joined_word(layer: Layer, names: Sequence[str]) -> int:
    """Join the fields ``names`` of a layer into one number. The first field has the highest bits."""
    widths, number = _widths(type(layer)), 0
    for name in names:
        number = number << widths[name] | getattr(layer, name)
    return number


def _widths(kind: type[Layer]) -> dict[str, int]:
    return {each.key: each.bits or 0 for each in kind.layout}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagFormat:
    """Format of a tag, and the fields of the tag that a mechanism reads and writes.

    Raises ParameterError for a format that is not a tag, and for fields that are not unsigned numbers of at
    most 64 bits in total.
    """

    format: type[Layer]
    tag: str | tuple[str, ...] = ""
    """Field, or fields from the highest bits down, that the mechanism receives as ``tag``."""
    mark: tuple[str, ...] = ()
    """Fields, from the highest bits down, that the mechanism receives as ``mark``."""
    stack: tuple[tuple[str, ...], ...] = ()
    """Fields, from the highest bits down, of each record that the ports on the path add."""
    constants: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Fields with the same value in all tags of the format, including the fields that select the format."""

    def __post_init__(self) -> None:
        if not is_tag(self.format):
            raise ParameterError(
                name="tag", needed="a tag of fixed length before an EtherType", got=self.format.prefix
            )
        for names in (self.tag_fields, self.mark, *self.stack):
            parts = self.bit_ranges(names)
            if len(parts) != len(names) or sum(bits for _, bits in parts) > WORD_BITS:
                raise ParameterError(
                    name=f"{self.format.prefix} fields",
                    needed="unsigned numbers of the format, of 64 bits in all",
                    got=", ".join(names),
                )

    @property
    def tag_fields(self) -> tuple[str, ...]:
        """Names of the fields in ``tag``."""
        if isinstance(self.tag, tuple):
            return self.tag
        return (self.tag,) if self.tag else ()

    @property
    def octets(self) -> int:
        """Number of octets that a tag adds to a frame, from the tag's EtherType to the next EtherType."""
        return self.format.fixed_octets

    @property
    def selector(self) -> tuple[int, int]:
        """Mask for the first two octets after the EtherType, and the masked value in tags of the format."""
        if self.format.announced_by != "tag":
            return 0, 0
        return SELECTOR_MASK, _selected(self.format(**self.constants))

    def bit_ranges(self, names: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return the first bit and the width of each unsigned field.

        Bits count from the start of the tag's EtherType.
        """
        by_name = {each.key: each for each in self.format.layout if each.is_number and each.minimum == 0}
        fields = [by_name[name] for name in names if name in by_name]
        return [(each.bit_offset + 8 * TYPE_OCTETS, each.bits or 0) for each in fields]

    def values(self, tag: Any, mark: Any, stack: Sequence[Any] = ()) -> dict[str, Any]:
        """Return the values of the fields by name.

        ``tag``, ``mark`` and the items of ``stack`` are unsigned numbers of 64 bits, or arrays of such
        numbers.
        """
        words = ((tag, self.tag_fields), (mark, self.mark), *zip(stack, self.stack, strict=False))
        return {
            name: value
            for number, names in words
            for name, value in split_word(self.format, names, number).items()
        }

    def layer(self, tag: int, mark: int) -> Layer:
        """Return a tag with the signed values ``tag`` and ``mark`` of a mechanism."""
        return self.format(**self.constants, **self.values(tag % (1 << WORD_BITS), mark % (1 << WORD_BITS)))

    def is_off(self, ethertypes: EtherTypes) -> bool:
        """Return whether the tag's EtherType is not assigned, so that no frame contains the tag."""
        return isinstance(self.format.announced_by, str) and announcement(self.format, ethertypes) is None

    def announcing(self, ethertypes: EtherTypes) -> int:
        """Return the tag's EtherType. Raises ParameterError if no EtherType is assigned."""
        announced = announcement(self.format, ethertypes)
        if announced is None:
            raise ParameterError(
                name="tag", needed="a format that an EtherType announces", got=self.format.prefix
            )
        return announced


NO_IP_HEADER = -1
"""Mark of a captured frame without a complete IP header, for mechanisms whose tag is the ECN field."""


@dataclass(frozen=True, slots=True)
class ECNField:
    """ECN field of a frame's IP header as a mechanism's ``tag``. The field is never inserted or removed."""

    @property
    def octets(self) -> int:
        """Number of octets that the field adds to a frame, always 0."""
        return 0

    def values(self, tag: Any, mark: Any) -> dict[str, Any]:
        """Return the field with the value ``tag``, a number or an array of numbers."""
        return {"ecn": tag}


def _selected(tag: Layer) -> int:
    return int.from_bytes(tag.build()[:TYPE_OCTETS]) & SELECTOR_MASK


def telling_fields(kind: type[Layer]) -> tuple[str, ...]:
    """Return the fields that distinguish a tag from other tags with the same EtherType."""
    return ("protocol", "type") if kind.announced_by == "tag" else ()


def kind_of(tag: Layer) -> TagFormat:
    """Return the format of a tag, with the values that distinguish it from tags with its EtherType."""
    constants = {name: getattr(tag, name) for name in telling_fields(type(tag))}
    return TagFormat(format=type(tag), constants=constants)


class LocatedTag(NamedTuple):
    """Tag of a frame, with the offset of the tag's EtherType."""

    at: int
    ethertype: int
    layer: Layer

    @property
    def end(self) -> int:
        """Offset of the EtherType after the tag."""
        return self.at + self.layer.fixed_octets

    def is_of(self, kind: TagFormat, ethertypes: EtherTypes) -> bool:
        """Return whether the tag has the format ``kind``.

        A tag with the old EtherType for S-tags does not count as a C-TAG.
        """
        mask, value = kind.selector
        return (
            type(self.layer) is kind.format
            and self.ethertype == kind.announcing(ethertypes)
            and _selected(self.layer) & mask == value
        )


def tags_in(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> tuple[list[LocatedTag], bool]:
    """Return the complete tags of a frame, outermost first, and whether the tags were truncated.

    ``octets`` are the captured octets of the frame, starting with the DA.
    """
    # With two added octets, an EtherType always follows the last complete tag.
    padded = octets + bytes(TYPE_OCTETS)
    frame = decode_lax(padded, original_octets=_UNKNOWN_LENGTH, ethertypes=ethertypes)
    if not frame.layers or type(frame.layers[0]) is not Ethernet or len(octets) < TYPE_AT:
        return [], True
    tags: list[LocatedTag] = []
    for start, layer in zip(frame.boundaries()[1:], frame.layers[1:], strict=False):
        if not is_tag(type(layer)):
            break
        at = start - TYPE_OCTETS
        tags.append(LocatedTag(at, int.from_bytes(octets[at:start]), layer))
    end = tags[-1].end if tags else TYPE_AT
    if end + TYPE_OCTETS > len(octets):
        return tags, True
    if int.from_bytes(octets[end : end + TYPE_OCTETS]) not in tag_ethertypes(ethertypes):
        return tags, False
    # The tag with this EtherType is truncated, or is payload because the tag is unassigned.
    layers = decode_lax(octets, original_octets=_UNKNOWN_LENGTH, ethertypes=ethertypes).layers
    return tags, not any(isinstance(layer, UnknownTag) for layer in layers[1 + len(tags) :][:1])


def tag_ethertypes(ethertypes: EtherTypes) -> frozenset[int]:
    """Return the EtherTypes that announce tags."""
    result = {announcement(cls, ethertypes) for cls in FORMATS if is_tag(cls)}
    return frozenset(each for each in result if each is not None) | {ethertypes.old_s_tag}


def without_tags(octets: bytes, kind: TagFormat, ethertypes: EtherTypes = DEFAULT) -> tuple[bytes, int]:
    """Return a frame without the tags of ``kind``, and the number of removed tags."""
    results = [tag for tag in tags_in(octets, ethertypes)[0] if tag.is_of(kind, ethertypes)]
    for tag in reversed(results):
        octets = octets[: tag.at] + octets[tag.end :]
    return octets, len(results)
