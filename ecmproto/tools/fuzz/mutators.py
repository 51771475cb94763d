"""Mutators of frames and other octets.

Octet mutators do not depend on the meaning of the octets. Layer mutators change fields, lengths, EtherTypes
and tags of a decoded frame, or join parts of two frames. Other mutators use the structure of captures or
text.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest

from ecmproto.errors import EncodeError
from ecmproto.frames.capture.batch import INTERFACE_DESCRIPTION, ByteOrder
from ecmproto.frames.capture.pcapng import IF_SPEED, IF_TSOFFSET, IF_TSRESOL
from ecmproto.wire.codec.frame import Frame
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import VLAN, STag
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.registry import FORMATS, announcement
from ecmproto.wire.formats.schema import Field

OctetMutator = Callable[[bytes, random.Random], bytes]

JUMBO_OCTETS = 9216
_LONGEST_PART = 16
_EDGES = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xfe", b"\xff")


def flip_bit(octets: bytes, rng: random.Random) -> bytes:
    """Flip one bit."""
    bit = rng.randrange(8 * len(octets) or 1)
    return _with(octets, bit // 8, octets[bit // 8] ^ 1 << bit % 8) if octets else octets


def flip_octet(octets: bytes, rng: random.Random) -> bytes:
    """Flip all bits of an octet."""
    at = rng.randrange(len(octets) or 1)
    return _with(octets, at, octets[at] ^ 0xFF) if octets else octets


def set_edge(octets: bytes, rng: random.Random) -> bytes:
    """Fill up to four octets with a boundary value."""
    start = rng.randrange(len(octets) or 1)
    count = min(rng.randint(1, 4), len(octets) - start)
    return octets[:start] + rng.choice(_EDGES) * count + octets[start + count :]


def set_random(octets: bytes, rng: random.Random) -> bytes:
    """Replace a span by random octets."""
    start, stop = _random_span(octets, rng)
    return octets[:start] + rng.randbytes(stop - start) + octets[stop:]


def add_small(octets: bytes, rng: random.Random) -> bytes:
    """Add a small number to a 16-bit word, because lengths are often wrong by one."""
    if len(octets) < 2:
        return octets
    at = rng.randrange(len(octets) - 1)
    word = int.from_bytes(octets[at : at + 2]) + rng.choice((-4, -2, -1, 1, 2, 4))
    return octets[:at] + (word & 0xFFFF).to_bytes(2, "big") + octets[at + 2 :]


def take_out(octets: bytes, rng: random.Random) -> bytes:
    """Remove a span."""
    start, stop = _random_span(octets, rng)
    return octets[:start] + octets[stop:]


def put_in(octets: bytes, rng: random.Random) -> bytes:
    """Insert random octets."""
    start = rng.randrange(len(octets) + 1)
    return octets[:start] + rng.randbytes(rng.randint(1, _LONGEST_PART)) + octets[start:]


def double(octets: bytes, rng: random.Random) -> bytes:
    """Repeat a span."""
    start, stop = _random_span(octets, rng)
    return octets[:stop] + octets[start:]


def cut_off(octets: bytes, rng: random.Random) -> bytes:
    """Truncate the frame."""
    return octets[: rng.randrange(len(octets) or 1)]


def run_on(octets: bytes, rng: random.Random) -> bytes:
    """Append octets to the frame, sometimes up to the length of a jumbo frame."""
    more = rng.randint(1, 64) if rng.randrange(4) else max(0, JUMBO_OCTETS - len(octets) - rng.randrange(8))
    return octets + (bytes(more) if rng.getrandbits(1) else rng.randbytes(more))


OCTET_MUTATORS = (
    flip_bit, flip_octet, set_edge, set_random, add_small, take_out, put_in, double, cut_off, run_on,
)  # fmt: skip


def _with(octets: bytes, at: int, value: int) -> bytes:
    return octets[:at] + bytes((value,)) + octets[at + 1 :]


def _random_span(octets: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(octets) + 1)
    return start, min(len(octets), start + rng.randint(1, _LONGEST_PART))


_WORDS_32 = (0, 1, 3, 4, 8, 12, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
_WORDS_16 = (0, 1, 2, 9, 0x7FFF, 0x8000, 0xFFFF)
_SIGNS = b"()[]{}<>=!&|~\"'\\.,:/-+*#0123456789 \n"


def set_word(octets: bytes, rng: random.Random) -> bytes:
    """Set an aligned word of 32 or 16 bits in either byte order, such as a length, count or block type."""
    size, words = (4, _WORDS_32) if rng.getrandbits(1) else (2, _WORDS_16)
    if len(octets) < size:
        return octets
    at = rng.randrange(len(octets) // size) * size
    return octets[:at] + rng.choice(words).to_bytes(size, rng.choice(("big", "little"))) + octets[at + size :]


def take_out_words(octets: bytes, rng: random.Random) -> bytes:
    """Remove aligned words, which changes the offset of the following words."""
    at = rng.randrange(len(octets) // 4 + 1) * 4
    return octets[:at] + octets[at + 4 * rng.randint(1, 8) :]


def repeat(octets: bytes, rng: random.Random) -> bytes:
    """Repeat the whole input, which adds a second header at a wrong offset."""
    return octets + octets


_CLOCKS = (
    (IF_TSRESOL, 1, (0, 6, 9, 19, 29, 0x80, 0xA2, 0xC0, 0xFF)),
    (IF_TSOFFSET, 8, (0, 1, 1 << 32, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, 3 << 62, (1 << 64) - 1)),
    (IF_SPEED, 8, (0, 1, 10**10, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)),
)
"""Interface options that are used in calculations: code, length in octets, and boundary values."""
_MIN_DESCRIPTION = 20


def set_clock(octets: bytes, rng: random.Random) -> bytes:
    """Set the time resolution, time offset or speed of an interface in a pcapng capture."""
    order: ByteOrder = "big" if octets[8:12] == b"\x1a\x2b\x3c\x4d" else "little"
    described = list(_descriptions(octets, order))
    if not described:
        return octets
    at, total = rng.choice(described)
    code, size, values = rng.choice(_CLOCKS)
    value = rng.choice(values).to_bytes(size, order)
    option = code.to_bytes(2, order) + size.to_bytes(2, order) + value + bytes(-size % 4)
    length = (total + len(option)).to_bytes(4, order)
    rest = octets[at + 16 : at + total - 4]
    return (
        octets[: at + 4] + length + octets[at + 8 : at + 16] + option + rest + length + octets[at + total :]
    )


def _descriptions(octets: bytes, order: ByteOrder) -> Iterator[tuple[int, int]]:
    """Yield the offset and length of each interface description of a pcapng capture."""
    at = 0
    while at + _MIN_DESCRIPTION <= len(octets):
        kind, total = (int.from_bytes(octets[start : start + 4], order) for start in (at, at + 4))
        if total < _MIN_DESCRIPTION:
            return
        if kind == INTERFACE_DESCRIPTION and at + total <= len(octets):
            yield at, total
        at += total


def put_sign(octets: bytes, rng: random.Random) -> bytes:
    """Insert a punctuation character or digit, sometimes with many repetitions."""
    at = rng.randrange(len(octets) + 1)
    sign = bytes((rng.choice(_SIGNS),))
    return octets[:at] + sign * (1 if rng.randrange(8) else rng.randint(2, 2_000)) + octets[at:]


def move_word(octets: bytes, rng: random.Random) -> bytes:
    """Move a word."""
    parts = octets.split(b" ")
    parts.insert(rng.randrange(len(parts)), parts.pop(rng.randrange(len(parts))))
    return b" ".join(parts)


def double_word(octets: bytes, rng: random.Random) -> bytes:
    """Repeat a word."""
    parts = octets.split(b" ")
    at = rng.randrange(len(parts))
    return b" ".join([*parts[: at + 1], *parts[at:]])


def set_number(octets: bytes, rng: random.Random) -> bytes:
    """Insert a boundary value as a decimal number."""
    number = (1 << rng.choice((0, 1, 8, 16, 31, 32, 53, 63, 64, 128))) - rng.randrange(2)
    at = rng.randrange(len(octets) + 1)
    return (
        octets[:at] + (b"" if rng.randrange(4) else b"-") + b"%d" % number + octets[at + rng.randrange(4) :]
    )


CAPTURE_MUTATORS: tuple[OctetMutator, ...] = (
    *OCTET_MUTATORS, set_word, set_word, take_out_words, repeat, set_clock,
)  # fmt: skip
TEXT_MUTATORS: tuple[OctetMutator, ...] = (*OCTET_MUTATORS, put_sign, move_word, double_word, set_number)


TAGS: tuple[type[Layer], ...] = tuple(cls for cls in FORMATS if cls.role == "tag" and cls.next_key)
_DEEPEST = 40
_JUMBO_OF, _FULL_OCTETS = 2, 1514
_FULL_OF = 24
"""Average number of deep tag stacks per stack that fills a frame.

On average, one of `_JUMBO_OF` full frames is a jumbo frame with 2,000 tags.
"""
_ODD_TYPES = (0, 1, 1500, 1501, 1535, 1536, 0xFFFF)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number field for mutation. The attributes are computed once per format."""

    key: str
    bits: int
    bit_offset: int
    minimum: int
    maximum: int
    edges: tuple[int, ...]
    """Boundary values of the field."""


NumberAt = tuple[int, Number]
"""A number in a frame: the layer index and the field."""


Numbers = Mapping[type[Layer], Sequence[Number]]
"""Number fields of each format, in wire order."""


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
    """Return the number fields of each format for which ``choose`` returns true."""
    return {cls: [number for number in numbers if choose(cls, number)] for cls, numbers in NUMBERS.items()}


def _counted(cls: type[Layer]) -> set[str]:
    """Return the keys of length fields, including length fields that the encoder computes."""
    by_schema = {field.count.key for field in cls.layout if field.count is not None}
    return by_schema | {"len", "length", "plen", "ihl", "data_offset"}


NUMBERS: Numbers = {cls: [_number(field) for field in cls.layout if field.is_number] for cls in FORMATS}
_RESERVED = _chosen(lambda cls, number: number.key in ("reserved", "version", "encap_reserved"))
_COUNTING = _chosen(lambda cls, number: number.key in _counted(cls))
_ANNOUNCING = _chosen(lambda cls, number: number.key == cls.next_key)
_SETTABLE = _chosen(lambda cls, number: number.key != cls.next_key)


def set_field(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Set a number field of a layer to a boundary value or a random value."""
    return _set_one_of(_numbers(frame, NUMBERS), frame, octets, rng)


def set_reserved(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Set reserved bits or a version field."""
    return _set_one_of(_numbers(frame, _RESERVED), frame, octets, rng)


def lie_about_length(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Set a length field to a value near the correct length, or to an extreme value."""
    counted = _numbers(frame, _COUNTING)
    if not counted:
        return octets
    index, number = choice = rng.choice(counted)
    right = int(getattr(frame.layers[index], number.key))
    near = (right - 1, right + 1, 0, right * 2, number.maximum, len(octets))
    value = max(number.minimum, min(number.maximum, rng.choice(near)))
    return _written(frame, octets, choice, value)


def change_type(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Change a type field, so that it does not match the next layer."""
    announcing = _numbers(frame, _ANNOUNCING)
    if not announcing:
        return octets
    known = _announcements(frame.ethertypes)
    value = rng.choice(known) if rng.randrange(4) else rng.choice(_ODD_TYPES)
    return _written(frame, octets, rng.choice(announcing), value)


def insert_tags(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Insert tags at a random position.

    Sometimes dozens of tags are inserted.  Rarely, tags are inserted until the frame is full.
    """
    if not frame.layers:
        return octets
    count = 1 if rng.randrange(4) else rng.randint(2, _DEEPEST)
    at = rng.randint(1, len(frame.layers))
    if count > 1 and not rng.randrange(_FULL_OF):
        full_octets = _FULL_OCTETS if rng.randrange(_JUMBO_OF) else JUMBO_OCTETS
        tags = _filling(full_octets - len(octets), rng)
    else:
        tags = [_tag(rng.choice(TAGS), rng) for _ in range(count)]
    return _relinked([*frame.layers[:at], *tags, *frame.layers[at:]], frame, octets)


def remove_layer(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Remove a layer. The type field before the next layer is corrected at random."""
    at = rng.randrange(len(frame.layers))
    return _rebuilt([*frame.layers[:at], *frame.layers[at + 1 :]], frame, octets, rng)


def double_layer(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Repeat a layer."""
    at = rng.randrange(len(frame.layers))
    return _rebuilt([*frame.layers[: at + 1], *frame.layers[at:]], frame, octets, rng)


def swap_layers(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Swap two layers."""
    if len(frame.layers) < 2:
        return octets
    layers = list(frame.layers)
    one, other = rng.randrange(len(layers)), rng.randrange(len(layers))
    layers[one], layers[other] = layers[other], layers[one]
    return _rebuilt(layers, frame, octets, rng)


def splice(frame: Frame, octets: bytes, rng: random.Random, others: Sequence[Frame]) -> bytes:
    """Join the first layers of a frame to the last layers of another frame."""
    if not others:
        return octets
    other = rng.choice(others)
    head = frame.layers[: rng.randint(1, max(1, len(frame.layers)))]
    return _rebuilt([*head, *other.layers[rng.randrange(len(other.layers) or 1) :]], frame, octets, rng)


LAYER_MUTATORS = (
    set_field, set_reserved, lie_about_length, change_type, insert_tags, remove_layer, double_layer,
    swap_layers, splice,
)  # fmt: skip


@functools.lru_cache(maxsize=32)
def _announcements(ethertypes: EtherTypes) -> tuple[int, ...]:
    result = (announcement(cls, ethertypes) for cls in FORMATS)
    return tuple(value for value in result if value is not None)


def _numbers(frame: Frame, of: Numbers) -> list[NumberAt]:
    return [(index, number) for index, value in enumerate(frame.layers) for number in of[type(value)]]


def _set_one_of(positions: Sequence[NumberAt], frame: Frame, octets: bytes, rng: random.Random) -> bytes:
    if not positions:
        return octets
    position = rng.choice(positions)
    return _written(frame, octets, position, _value(position[1], rng))


def _value(number: Number, rng: random.Random) -> int:
    if rng.randrange(3):
        return rng.choice(number.edges)
    return number.minimum + rng.getrandbits(number.bits)


def _written(frame: Frame, octets: bytes, position: NumberAt, value: int) -> bytes:
    """Return ``octets`` with a number field set to ``value``, or unchanged if the field is truncated."""
    index, number = position
    first = 8 * frame.boundaries()[index] + number.bit_offset
    start, stop = first // 8, -(-(first + number.bits) // 8)
    part = octets[start:stop]
    if len(part) < stop - start:
        return octets
    shift = 8 * stop - first - number.bits
    mask = (1 << number.bits) - 1
    word = int.from_bytes(part) & ~(mask << shift) | (value & mask) << shift
    return octets[:start] + word.to_bytes(len(part), "big") + octets[stop:]


def _tag(cls: type[Layer], rng: random.Random) -> Layer:
    drawn = {number.key: _value(number, rng) for number in _SETTABLE[cls] if rng.getrandbits(1)}
    return cls(**{key: value for key, value in drawn.items() if key not in ("protocol", "type")})


def _filling(octets_left: int, rng: random.Random) -> list[Layer]:
    """Return tags that fill ``octets_left``. The tags have one format, only VLAN formats, or all formats."""
    types = rng.choice(((rng.choice(TAGS),), (VLAN, STag), TAGS))
    tags: list[Layer] = []
    while octets_left > 0:
        tags.append(_tag(rng.choice(types), rng))
        octets_left -= len(tags[-1].build())
    return tags


def _rebuilt(layers: list[Layer], frame: Frame, octets: bytes, rng: random.Random) -> bytes:
    return _relinked(layers, frame, octets) if rng.getrandbits(1) else _joined(layers, frame, octets)


def _relinked(layers: list[Layer], frame: Frame, octets: bytes) -> bytes:
    """Return the octets of layers whose type fields match the next layer, if possible."""
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
