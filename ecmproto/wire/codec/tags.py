"""Tags of frames: the formats that are tags, and single frames with tags inserted, removed and rewritten.

Tags follow a frame's addresses, any number of them in any order, before the payload.  A tag is complete if
its own octets, from its EtherType to its last field, were captured; the EtherType after it belongs to what
follows. Of several of a format the outermost, the newest, counts.

A tag replaces all tags of its format.  It is then inserted after the VLAN tags at the beginning of the frame,
and after the CN-TAGs among them unless it is one: before an EtherType, which stays.  A frame truncated among
its tags gets none.  `batch.tags` does the same with whole batches.
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
"""Protocol and Type in the first two octets after the experimental EtherType (wire-formats 1.1)."""
_MAX_OCTETS = 128
_UNKNOWN_LENGTH = 1 << 30


_SHARED = {value for value, count in Counter(cls.announced_by for cls in FORMATS).items() if count > 1} - {
    "tag"
}


def is_tag(kind: type[Layer]) -> bool:
    """Return whether a format is a tag of fixed length, 4 to 127 octets, before an EtherType.

    It has its own EtherType, or the experimental one.  An I-TAG begins a customer's frame, with addresses and
    tags of its own: it is payload.
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
    """Return the fields ``names`` of a format, from the highest bits of ``number`` on."""
    widths, values, shift = _widths(kind), {}, 0
    for name in reversed(names):
        values[name] = number >> shift & ((1 << widths[name]) - 1)
        shift += widths[name]
    return values


def joined_word(layer: Layer, names: Sequence[str]) -> int:
    """Return the fields ``names`` of a layer as one number, from its highest bits on."""
    widths, number = _widths(type(layer)), 0
    for name in names:
        number = number << widths[name] | getattr(layer, name)
    return number


def _widths(kind: type[Layer]) -> dict[str, int]:
    return {each.key: each.bits or 0 for each in kind.layout}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagFormat:
    """A tag's format, and the fields that a mechanism's machines read and write.

    ParameterError for a format that is no tag, or fields that are no unsigned numbers of 64 bits in all.
    """

    format: type[Layer]
    tag: str | tuple[str, ...] = ""
    """The field, or fields from the highest bits on, that machines receive as ``tag``."""
    mark: tuple[str, ...] = ()
    """The fields that machines receive as ``mark``, from the highest bits on."""
    stack: tuple[tuple[str, ...], ...] = ()
    """The fields of each record that ports on the path add, from the highest bits on."""
    constants: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Fields with constant values in all tags of the format, including its selecting ones."""

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
        """The fields of ``tag``."""
        if isinstance(self.tag, tuple):
            return self.tag
        return (self.tag,) if self.tag else ()

    @property
    def octets(self) -> int:
        """The number of octets that a tag adds to a frame: with its EtherType, without the one after it."""
        return self.format.fixed_octets

    @property
    def selector(self) -> tuple[int, int]:
        """The mask for the first two octets after the EtherType, and their value in tags of the format."""
        if self.format.announced_by != "tag":
            return 0, 0
        return SELECTOR_MASK, _selected(self.format(**self.constants))

    def bit_ranges(self, names: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return the first bit, counted from the tag's EtherType, and the width of each unsigned field."""
        by_name = {each.key: each for each in self.format.layout if each.is_number and each.minimum == 0}
        fields = [by_name[name] for name in names if name in by_name]
        return [(each.bit_offset + 8 * TYPE_OCTETS, each.bits or 0) for each in fields]

    def values(self, tag: Any, mark: Any, stack: Sequence[Any] = ()) -> dict[str, Any]:
        """Return the fields with these values: unsigned numbers of 64 bits, or arrays of such."""
        words = ((tag, self.tag_fields), (mark, self.mark), *zip(stack, self.stack, strict=False))
        return {
            name: value
            for number, names in words
            for name, value in split_word(self.format, names, number).items()
        }

    def layer(self, tag: int, mark: int) -> Layer:
        """Return a tag with these values, which are signed as in machines."""
        return self.format(**self.constants, **self.values(tag % (1 << WORD_BITS), mark % (1 << WORD_BITS)))

    def is_off(self, ethertypes: EtherTypes) -> bool:
        """Return whether its EtherType is not assigned: then no frame has such a tag."""
        return isinstance(self.format.announced_by, str) and announcement(self.format, ethertypes) is None

    def announcing(self, ethertypes: EtherTypes) -> int:
        """Return its EtherType; ParameterError without one."""
        found = announcement(self.format, ethertypes)
        if found is None:
            raise ParameterError(
                name="tag", needed="a format that an EtherType announces", got=self.format.prefix
            )
        return found


NO_IP_HEADER = -1
"""The mark of a captured frame without a complete IP header, for machines whose tag is an ECN field."""


@dataclass(frozen=True, slots=True)
class ECNField:
    """The ECN field of a frame's IP header, machines' ``tag``: it is never inserted or removed."""

    @property
    def octets(self) -> int:
        """The number of octets that it adds to a frame: 0."""
        return 0

    def values(self, tag: Any, mark: Any) -> dict[str, Any]:
        """Return the field with the value ``tag``, a number or an array of numbers."""
        return {"ecn": tag}


def _selected(tag: Layer) -> int:
    return int.from_bytes(tag.build()[:TYPE_OCTETS]) & SELECTOR_MASK


def telling_fields(kind: type[Layer]) -> tuple[str, ...]:
    """Return the fields of a tag that distinguish it from others of its EtherType."""
    return ("protocol", "type") if kind.announced_by == "tag" else ()


def kind_of(tag: Layer) -> TagFormat:
    """Return the format of a tag, with the values that distinguish it from others of its EtherType."""
    constants = {name: getattr(tag, name) for name in telling_fields(type(tag))}
    return TagFormat(format=type(tag), constants=constants)


class LocatedTag(NamedTuple):
    """A tag in a frame, and the offset of its EtherType."""

    at: int
    ethertype: int
    layer: Layer

    @property
    def end(self) -> int:
        """The offset of the EtherType after it."""
        return self.at + self.layer.fixed_octets

    def is_of(self, kind: TagFormat, ethertypes: EtherTypes) -> bool:
        """Return whether it has a format; a tag of the old S-tags' EtherType is no C-TAG."""
        mask, value = kind.selector
        return (
            type(self.layer) is kind.format
            and self.ethertype == kind.announcing(ethertypes)
            and _selected(self.layer) & mask == value
        )


def tags_in(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> tuple[list[LocatedTag], bool]:
    """Return the complete tags of a frame, outermost first, and whether it was truncated among them.

    ``octets`` are its captured octets, from its DA on.
    """
    # Two octets more: with them the EtherType after the last complete tag always exists.
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
    # The tag of this EtherType is truncated or unassigned: then it is payload.
    layers = decode_lax(octets, original_octets=_UNKNOWN_LENGTH, ethertypes=ethertypes).layers
    return tags, not any(isinstance(layer, UnknownTag) for layer in layers[1 + len(tags) :][:1])


def tag_ethertypes(ethertypes: EtherTypes) -> frozenset[int]:
    """Return the EtherTypes of tags."""
    found = {announcement(cls, ethertypes) for cls in FORMATS if is_tag(cls)}
    return frozenset(each for each in found if each is not None) | {ethertypes.old_s_tag}


def without_tags(octets: bytes, kind: TagFormat, ethertypes: EtherTypes = DEFAULT) -> tuple[bytes, int]:
    """Return a frame without its tags of ``kind``, and their number."""
    found = [tag for tag in tags_in(octets, ethertypes)[0] if tag.is_of(kind, ethertypes)]
    for tag in reversed(found):
        octets = octets[: tag.at] + octets[tag.end :]
    return octets, len(found)
