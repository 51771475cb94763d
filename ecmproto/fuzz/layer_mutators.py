"""Ways to spoil a frame by its layers: fields, lengths, EtherTypes, tags, and halves of two frames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from ecmproto.errors import EncodeError
from ecmproto.fuzz.dice import Dice
from ecmproto.wire.bcn import RRTTag
from ecmproto.wire.cn import CNTag
from ecmproto.wire.ecm import CMTag
from ecmproto.wire.ethernet import VLAN, ITag, STag
from ecmproto.wire.ethertypes import EtherTypes
from ecmproto.wire.fecn import RDTag
from ecmproto.wire.formats import FORMATS, announcement
from ecmproto.wire.frame import Frame, Placed
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field

TAGS: tuple[type[Layer], ...] = (VLAN, STag, ITag, CNTag, CMTag, RRTTag, RDTag)
_DEEPEST = 40
_ODD_TYPES = (0, 1, 1500, 1501, 1535, 1536, 0xFFFF)


def set_field(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Give a number of a layer a boundary value, or any."""
    numbers = _numbers(frame)
    if not numbers:
        return octets
    placed = dice.pick(numbers)
    return _written(octets, placed, _value(placed.field, dice))


def set_reserved(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Set reserved bits, or a version."""
    return _set_one_of(("reserved", "version", "encap_reserved"), frame, octets, dice)


def lie_about_length(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Give a field that counts octets a value near the right one, or an extreme."""
    counted = [placed for placed in _numbers(frame) if _counts(frame.layers[placed.layer], placed.field)]
    if not counted:
        return octets
    placed = dice.pick(counted)
    right = int(placed.value)
    near = (right - 1, right + 1, 0, right * 2, placed.field.maximum, len(octets))
    value = max(placed.field.minimum, min(placed.field.maximum, dice.pick(near)))
    return _written(octets, placed, value)


def change_type(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Announce something else than what follows."""
    announcing = [
        placed for placed in _numbers(frame) if placed.field.key == frame.layers[placed.layer].next_key
    ]
    if not announcing:
        return octets
    known = [value for cls in FORMATS if (value := announcement(cls, frame.ethertypes)) is not None]
    value = dice.pick(known) if dice.below(4) else dice.pick(_ODD_TYPES)
    return _written(octets, dice.pick(announcing), value)


def insert_tags(frame: Frame, octets: bytes, dice: Dice, others: Sequence[Frame]) -> bytes:
    """Put tags where none belong, sometimes dozens of them."""
    if not frame.layers:
        return octets
    count = 1 if dice.below(4) else dice.between(2, _DEEPEST)
    at = dice.between(1, len(frame.layers))
    tags = [_tag(dice.pick(TAGS), dice, frame.ethertypes) for _ in range(count)]
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


def _numbers(frame: Frame) -> list[Placed]:
    return [placed for placed in frame.fields() if placed.field.is_number]


def _set_one_of(keys: Sequence[str], frame: Frame, octets: bytes, dice: Dice) -> bytes:
    chosen = [placed for placed in _numbers(frame) if placed.field.key in keys]
    if not chosen:
        return octets
    placed = dice.pick(chosen)
    return _written(octets, placed, _value(placed.field, dice))


def _counts(value: Layer, field: Field) -> bool:
    """Whether a field says how long something is: by the schema, or by what encoding would compute."""
    by_schema = any(other.count is not None and other.count.key == field.key for other in value.layout)
    return by_schema or field.key in ("len", "length", "plen", "ihl", "data_offset")


def _value(field: Field, dice: Dice) -> int:
    assert field.bits is not None
    edges = (field.minimum, field.minimum + 1, -1, 0, 1, field.maximum // 2, field.maximum - 1, field.maximum)
    if dice.below(3):
        return max(field.minimum, min(field.maximum, dice.pick(edges)))
    return field.minimum + dice.bits(field.bits)


def _written(octets: bytes, placed: Placed, value: int) -> bytes:
    """Return ``octets`` with a field set to ``value``; as they are where its place was cut off."""
    span, bits = placed.span, placed.field.bits or 0
    part = octets[span.start : span.stop]
    if len(part) < span.stop - span.start:
        return octets
    shift = 8 * span.stop - span.bit_stop
    mask = (1 << bits) - 1
    number = int.from_bytes(part) & ~(mask << shift) | (value & mask) << shift
    return octets[: span.start] + number.to_bytes(len(part), "big") + octets[span.stop :]


def _tag(cls: type[Layer], dice: Dice, ethertypes: EtherTypes) -> Layer:
    """Return a tag with values of which some are boundaries."""
    numbers = [field for field in cls.layout if field.is_number and field.key != cls.next_key]
    drawn = {field.key: _value(field, dice) for field in numbers if dice.chance(2)}
    return cls(**{key: value for key, value in drawn.items() if key not in ("protocol", "type")})


def _rebuilt(layers: list[Layer], frame: Frame, octets: bytes, dice: Dice) -> bytes:
    return _relinked(layers, frame, octets) if dice.chance(2) else _joined(layers, frame, octets)


def _relinked(layers: list[Layer], frame: Frame, octets: bytes) -> bytes:
    """Return layers as octets, each announcing what follows it where it can."""
    linked: list[Layer] = []
    for value, following in zip_longest(layers, layers[1:]):
        ethertype = None if following is None else announcement(type(following), frame.ethertypes)
        linked.append(value.replace(**{value.next_key: ethertype}) if value.next_key and ethertype else value)
    return _joined(linked, frame, octets)


def _joined(layers: list[Layer], frame: Frame, octets: bytes) -> bytes:
    try:
        built = b"".join(value.build() for value in layers)
    except EncodeError:
        return octets
    return built + frame.padding + frame.trailer + frame.fcs
