"""Ways to spoil a frame by its layers: fields, lengths, EtherTypes, tags, and halves of two frames."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from ecmproto.codec.frame import Frame
from ecmproto.errors import EncodeError
from ecmproto.formats.base import Layer
from ecmproto.formats.bcn import RRTTag
from ecmproto.formats.cn import CNTag
from ecmproto.formats.ecm import CMTag
from ecmproto.formats.ethernet import VLAN, ITag, STag
from ecmproto.formats.ethertypes import EtherTypes
from ecmproto.formats.fecn import RDTag
from ecmproto.formats.registry import FORMATS, announcement
from ecmproto.formats.schema import Field
from ecmproto.fuzz.dice import Dice

TAGS: tuple[type[Layer], ...] = (VLAN, STag, ITag, CNTag, CMTag, RRTTag, RDTag)
_DEEPEST = 40
_FULL_OCTETS = 1514
_FULL_OF = 24
"""Of so many deep stacks of tags one fills the frame: some 350 tags, which a decoder that recurses feels."""
_ODD_TYPES = (0, 1, 1500, 1501, 1535, 1536, 0xFFFF)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A field that is a number, as far as spoiling it needs: worked out once a format, not once a frame."""

    key: str
    bits: int
    bit_offset: int
    minimum: int
    maximum: int
    edges: tuple[int, ...]
    """Boundary values."""


Place = tuple[int, Number]
"""A number of a frame: the index of its layer, and which it is."""


Numbers = Mapping[type[Layer], Sequence[Number]]
"""Numbers of each format, in wire order."""


def _number(field: Field) -> Number:
    assert field.bits is not None
    low, high = field.minimum, field.maximum
    edges = (low, low + 1, -1, 0, 1, high // 2, high - 1, high)
    return Number(
        key=field.key,
        bits=field.bits,
        bit_offset=field.bit_offset,
        minimum=low,
        maximum=high,
        edges=tuple(max(low, min(high, edge)) for edge in edges),
    )


def _chosen(choose: Callable[[type[Layer], Number], bool]) -> Numbers:
    """Return the numbers of each format that ``choose`` takes."""
    return {cls: [number for number in numbers if choose(cls, number)] for cls, numbers in NUMBERS.items()}


def _counted(cls: type[Layer]) -> set[str]:
    """Return the keys of what says how long something is: by the schema, or by what encoding computes."""
    by_schema = {field.count.key for field in cls.layout if field.count is not None}
    return by_schema | {"len", "length", "plen", "ihl", "data_offset"}


NUMBERS: Numbers = {cls: [_number(field) for field in cls.layout if field.is_number] for cls in FORMATS}
_RESERVED = _chosen(lambda cls, number: number.key in ("reserved", "version", "encap_reserved"))
_COUNTING = _chosen(lambda cls, number: number.key in _counted(cls))
_ANNOUNCING = _chosen(lambda cls, number: number.key == cls.next_key)
_DRAWN = _chosen(lambda cls, number: number.key != cls.next_key)


def set_field(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Give a number of a layer a boundary value, or any."""
    return _set_one_of(_numbers(frame, NUMBERS), frame, octets, dice)


def set_reserved(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Set reserved bits, or a version."""
    return _set_one_of(_numbers(frame, _RESERVED), frame, octets, dice)


def lie_about_length(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Give a field that counts octets a value near the right one, or an extreme."""
    counted = _numbers(frame, _COUNTING)
    if not counted:
        return octets
    index, number = place = dice.pick(counted)
    right = int(getattr(frame.layers[index], number.key))
    near = (right - 1, right + 1, 0, right * 2, number.maximum, len(octets))
    value = max(number.minimum, min(number.maximum, dice.pick(near)))
    return _written(frame, octets, place, value)


def change_type(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Announce something else than what follows."""
    announcing = _numbers(frame, _ANNOUNCING)
    if not announcing:
        return octets
    known = _announcements(frame.ethertypes)
    value = dice.pick(known) if dice.below(4) else dice.pick(_ODD_TYPES)
    return _written(frame, octets, dice.pick(announcing), value)


def insert_tags(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Put tags where none belong, sometimes dozens of them, now and then as many as a frame holds."""
    if not frame.layers:
        return octets
    count = 1 if dice.below(4) else dice.between(2, _DEEPEST)
    at = dice.between(1, len(frame.layers))
    if count > 1 and dice.chance(_FULL_OF):
        tags = _filling(_FULL_OCTETS - len(octets), dice)
    else:
        tags = [_tag(dice.pick(TAGS), dice) for _ in range(count)]
    return _relinked([*frame.layers[:at], *tags, *frame.layers[at:]], frame, octets)


def remove_layer(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Leave a layer out, the announcement of what follows put right or not."""
    at = dice.below(len(frame.layers))
    return _rebuilt([*frame.layers[:at], *frame.layers[at + 1 :]], frame, octets, dice)


def double_layer(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Write a layer twice."""
    at = dice.below(len(frame.layers))
    return _rebuilt([*frame.layers[: at + 1], *frame.layers[at:]], frame, octets, dice)


def swap_layers(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Let two layers change places."""
    if len(frame.layers) < 2:
        return octets
    layers = list(frame.layers)
    one, other = dice.below(len(layers)), dice.below(len(layers))
    layers[one], layers[other] = layers[other], layers[one]
    return _rebuilt(layers, frame, octets, dice)


def splice(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Join the first layers of one frame to the last ones of another."""
    if not others:
        return octets
    other = dice.pick(others)
    head = frame.layers[: dice.between(1, max(1, len(frame.layers)))]
    return _rebuilt([*head, *other.layers[dice.below(len(other.layers)) :]], frame, octets, dice)


LAYER_MUTATORS = (
    set_field, set_reserved, lie_about_length, change_type, insert_tags, remove_layer, double_layer,
    swap_layers, splice,
)  # fmt: skip


@functools.lru_cache(maxsize=32)
def _announcements(ethertypes: EtherTypes) -> tuple[int, ...]:
    found = (announcement(cls, ethertypes) for cls in FORMATS)
    return tuple(value for value in found if value is not None)


def _numbers(frame: Frame, of: Numbers) -> list[Place]:
    return [(index, number) for index, value in enumerate(frame.layers) for number in of[type(value)]]


def _set_one_of(places: Sequence[Place], frame: Frame, octets: bytes, dice: Dice) -> bytes:
    if not places:
        return octets
    place = dice.pick(places)
    return _written(frame, octets, place, _value(place[1], dice))


def _value(number: Number, dice: Dice) -> int:
    if dice.below(3):
        return dice.pick(number.edges)
    return number.minimum + dice.bits(number.bits)


def _written(frame: Frame, octets: bytes, place: Place, value: int) -> bytes:
    """Return ``octets`` with a number set to ``value``; as they are where its place was cut off."""
    index, number = place
    first = 8 * frame.boundaries()[index] + number.bit_offset
    start, stop = first // 8, -(-(first + number.bits) // 8)
    part = octets[start:stop]
    if len(part) < stop - start:
        return octets
    shift = 8 * stop - first - number.bits
    mask = (1 << number.bits) - 1
    word = int.from_bytes(part) & ~(mask << shift) | (value & mask) << shift
    return octets[:start] + word.to_bytes(len(part), "big") + octets[stop:]


def _tag(cls: type[Layer], dice: Dice) -> Layer:
    """Return a tag with values of which some are boundaries."""
    drawn = {number.key: _value(number, dice) for number in _DRAWN[cls] if dice.chance(2)}
    return cls(**{key: value for key, value in drawn.items() if key not in ("protocol", "type")})


def _filling(room_octets: int, dice: Dice) -> list[Layer]:
    """Return tags that fill some room: of one kind, VLAN tags, or of all kinds."""
    kinds = dice.pick(((dice.pick(TAGS),), (VLAN, STag), TAGS))
    tags: list[Layer] = []
    while room_octets > 0:
        tags.append(_tag(dice.pick(kinds), dice))
        room_octets -= len(tags[-1].build())
    return tags


def _rebuilt(layers: list[Layer], frame: Frame, octets: bytes, dice: Dice) -> bytes:
    return _relinked(layers, frame, octets) if dice.chance(2) else _joined(layers, frame, octets)


def _relinked(layers: list[Layer], frame: Frame, octets: bytes) -> bytes:
    """Return layers as octets, each announcing what follows it where it can."""
    linked: list[Layer] = []
    for value, following in zip_longest(layers, layers[1:]):
        ethertype = None if following is None else announcement(type(following), frame.ethertypes)
        key = value.next_key
        if key and ethertype and getattr(value, key) != ethertype:
            value = value.replace(**{key: ethertype})
        linked.append(value)
    return _joined(linked, frame, octets)


def _joined(layers: list[Layer], frame: Frame, octets: bytes) -> bytes:
    try:
        built = b"".join(value.build() for value in layers)
    except EncodeError:
        return octets
    return built + frame.padding + frame.trailer + frame.fcs
