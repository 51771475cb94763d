"""Tags of frames: which formats are tags, and single frames with tags put in, taken out and rewritten.

A tag stands between a frame's addresses and its payload, in a run of tags of any number and in any order.  It
is whole if its own octets, from the EtherType that announces it to its last field, were captured; the
EtherType behind it belongs to what follows.  Of several of a kind the newest counts, the outermost.

A tag replaces all tags of its kind.  Once those are gone, it goes behind the VLAN tags that the frame begins
with, and behind the CN-TAGs among them unless it is one: in front of an EtherType, which stays where it is.
A frame that was cut off among its tags gets none.  `batch.tags` does the same with whole batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from ecmproto.errors import ParameterError
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import decode_lax
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.cn import CNTag
from ecmproto.wire.formats.ethernet import VLAN, Ethernet, ITag, STag
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.experimental import UnknownTag
from ecmproto.wire.formats.registry import FORMATS, announcement

TYPE_OCTETS = 2
TYPE_AT = 12
WORD_BITS = 64
SELECTOR_MASK = 0x07F0
"""Protocol and Type in the first two octets of what shares the experimental EtherType (wire-formats 1.1)."""
_MOST_OCTETS = 128
_UNKNOWN_LENGTH = 1 << 30


_SHARED = {value for value, count in Counter(cls.announced_by for cls in FORMATS).items() if count > 1} - {
    "tag"
}


def is_tag(kind: type[Layer]) -> bool:
    """Return whether a format is a tag of fixed length, 4 to 127 octets, before an EtherType.

    It has its own EtherType for itself, or the experimental one.  An I-TAG begins a customer's frame, with
    addresses and tags of its own: it is payload.
    """
    last = kind.layout[-1]
    return (
        kind.role == "tag"
        and kind is not ITag
        and kind.announced_by not in _SHARED
        and kind.next_key == last.key
        and last.bits == 8 * TYPE_OCTETS
        and 2 * TYPE_OCTETS <= kind.fixed_octets < _MOST_OCTETS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TagFormat:
    """A kind of tag: its format, and the fields that a mechanism's machines read and write.

    ParameterError for a format that is no tag, or fields that are no unsigned numbers of 64 bits in all.
    """

    format: type[Layer]
    tag: str | tuple[str, ...] = ""
    """The field that machines know as ``tag`` (`mechanisms.api.protocol.Arrival`), or several, the
    one of the highest bits first."""
    mark: tuple[str, ...] = ()
    """The fields that they know as ``mark``, the one of the highest bits first."""
    constants: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Fields that are the same in all tags of the kind; those that tell it from others of its EtherType count
    for what is of the kind."""

    def __post_init__(self) -> None:
        if not is_tag(self.format):
            raise ParameterError(
                name="tag", needed="a tag of fixed length before an EtherType", got=self.format.prefix
            )
        for names in (self.tag_fields, self.mark):
            parts = self.places(names)
            if len(parts) != len(names) or sum(bits for _, bits in parts) > WORD_BITS:
                raise ParameterError(
                    name=f"{self.format.prefix} fields",
                    needed="unsigned numbers of the format, of 64 bits in all",
                    got=", ".join(names),
                )

    @property
    def tag_fields(self) -> tuple[str, ...]:
        """The fields that are ``tag``."""
        if isinstance(self.tag, tuple):
            return self.tag
        return (self.tag,) if self.tag else ()

    @property
    def octets(self) -> int:
        """What a tag adds to a frame: its octets with the EtherType before it, without the one behind."""
        return self.format.fixed_octets

    @property
    def selector(self) -> tuple[int, int]:
        """The mask for the first two octets behind the EtherType, and their value in tags of the kind."""
        if self.format.announced_by != "tag":
            return 0, 0
        return SELECTOR_MASK, _selected(self.format(**self.constants))

    def places(self, names: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return the first bit, counted from the tag's EtherType, and the bits of each unsigned field."""
        by_name = {each.key: each for each in self.format.layout if each.is_number and each.minimum == 0}
        found = [by_name[name] for name in names if name in by_name]
        return [(each.bit_offset + 8 * TYPE_OCTETS, each.bits or 0) for each in found]

    def values(self, tag: Any, mark: Any) -> dict[str, Any]:
        """Return the fields with these values: unsigned numbers of 64 bits, or arrays of such."""
        found = {}
        for number, names in ((tag, self.tag_fields), (mark, self.mark)):
            shift = 0
            for name, (_, bits) in reversed(list(zip(names, self.places(names), strict=True))):
                found[name] = number >> shift & ((1 << bits) - 1)
                shift += bits
        return found

    def layer(self, tag: int, mark: int) -> Layer:
        """Return a tag with these values, which are as machines have them: signed."""
        return self.format(**self.constants, **self.values(tag % (1 << WORD_BITS), mark % (1 << WORD_BITS)))

    def is_off(self, ethertypes: EtherTypes) -> bool:
        """Return whether the EtherType that would announce it is not given: then no frame has such a tag."""
        return isinstance(self.format.announced_by, str) and announcement(self.format, ethertypes) is None

    def announcing(self, ethertypes: EtherTypes) -> int:
        """Return the EtherType that announces it; ParameterError without one."""
        found = announcement(self.format, ethertypes)
        if found is None:
            raise ParameterError(
                name="tag", needed="a format that an EtherType announces", got=self.format.prefix
            )
        return found


NO_IP_HEADER = -1
"""The mark of a captured frame that has no whole IP header, where machines know an ECN field as tag."""


@dataclass(frozen=True, slots=True)
class ECNField:
    """The ECN field of a frame's IP header, machines' ``tag``: it is never put in or taken out."""

    @property
    def octets(self) -> int:
        """What it adds to a frame: nothing."""
        return 0

    def values(self, tag: Any, mark: Any) -> dict[str, Any]:
        """Return the field with the value ``tag``, a number or an array of such."""
        return {"ecn": tag}


def _selected(tag: Layer) -> int:
    return int.from_bytes(tag.build()[:TYPE_OCTETS]) & SELECTOR_MASK


def telling_fields(kind: type[Layer]) -> tuple[str, ...]:
    """Return the fields of a tag that tell it from others of its EtherType."""
    return ("protocol", "type") if kind.announced_by == "tag" else ()


def kind_of(tag: Layer) -> TagFormat:
    """Return the kind of a tag: its format, and the values that tell it from others of its EtherType."""
    constants = {name: getattr(tag, name) for name in telling_fields(type(tag))}
    return TagFormat(format=type(tag), constants=constants)


class FoundTag(NamedTuple):
    """A tag in a frame, and where the EtherType that announces it stands."""

    at: int
    ethertype: int
    layer: Layer

    @property
    def end(self) -> int:
        """Where the EtherType behind it stands."""
        return self.at + self.layer.fixed_octets

    def is_of(self, kind: TagFormat, ethertypes: EtherTypes) -> bool:
        """Return whether it is of a kind; a tag of the old S-tags' EtherType is no C-TAG."""
        mask, value = kind.selector
        return (
            type(self.layer) is kind.format
            and self.ethertype == kind.announcing(ethertypes)
            and _selected(self.layer) & mask == value
        )


def tags_in(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> tuple[list[FoundTag], bool]:
    """Return the whole tags of a frame, outermost first, and whether it was cut off among them.

    ``octets`` are what was captured of it, from its DA on.
    """
    # Two octets more: with them the EtherType behind the last whole tag is always there.
    padded = octets + bytes(TYPE_OCTETS)
    frame = decode_lax(padded, original_octets=_UNKNOWN_LENGTH, ethertypes=ethertypes)
    if not frame.layers or type(frame.layers[0]) is not Ethernet or len(octets) < TYPE_AT:
        return [], True
    found: list[FoundTag] = []
    for start, layer in zip(frame.boundaries()[1:], frame.layers[1:], strict=False):
        if not is_tag(type(layer)):
            break
        at = start - TYPE_OCTETS
        found.append(FoundTag(at, int.from_bytes(octets[at:start]), layer))
    end = found[-1].end if found else TYPE_AT
    if end + TYPE_OCTETS > len(octets):
        return found, True
    if int.from_bytes(octets[end : end + TYPE_OCTETS]) not in tag_ethertypes(ethertypes):
        return found, False
    # What announces a tag and is none was cut off, or is unassigned: then it is payload.
    layers = decode_lax(octets, original_octets=_UNKNOWN_LENGTH, ethertypes=ethertypes).layers
    return found, not any(isinstance(layer, UnknownTag) for layer in layers[1 + len(found) :][:1])


def tag_ethertypes(ethertypes: EtherTypes) -> frozenset[int]:
    """Return the EtherTypes that announce tags."""
    found = {announcement(cls, ethertypes) for cls in FORMATS if is_tag(cls)}
    return frozenset(each for each in found if each is not None) | {ethertypes.old_s_tag}


def find_tag(octets: bytes, kind: TagFormat, ethertypes: EtherTypes = DEFAULT) -> FoundTag | None:
    """Return the newest tag of ``kind`` in a frame, None without one."""
    return next((tag for tag in tags_in(octets, ethertypes)[0] if tag.is_of(kind, ethertypes)), None)


def without_tags(octets: bytes, kind: TagFormat, ethertypes: EtherTypes = DEFAULT) -> tuple[bytes, int]:
    """Return a frame without its tags of ``kind``, and how many there were."""
    found = [tag for tag in tags_in(octets, ethertypes)[0] if tag.is_of(kind, ethertypes)]
    for tag in reversed(found):
        octets = octets[: tag.at] + octets[tag.end :]
    return octets, len(found)


def with_tag(octets: bytes, tag: Layer, ethertypes: EtherTypes = DEFAULT) -> tuple[bytes, int]:
    """Return a frame with ``tag`` in place of those of its kind, and how many these were.

    A frame whose tags were cut off comes back as it is.  The tag's own last field does not matter.
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
