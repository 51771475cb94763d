"""Layout cache: the result of a walk over a frame, kept once for all frames with the same result.

Where the layers of a frame stand depends on few of its octets: EtherTypes, selectors, counts, what formats
refuse.  A layout is what the walk found of one frame, and the values of those octets in it; a frame that has
the same ones has the same layout, for a comparison of a few words.  Captures are full of such frames.

Frames of one layout may differ in length, where nothing but their last layer, or what is behind that, is
longer.  What goes as far as the frame does is told from the frame's end then.  A length in a header that says
no more than where the frame ends is held to that, whatever it is.  A frame that was cut has a layout that
only frames of its length have, one that is malformed has a layout of its own.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import signed, two_octets
from ecmproto.frames.columns.octets import eight_octets
from ecmproto.frames.columns.parse_tables import (
    CHOSEN,
    CPID_DECIDES,
    DATA_NUMBER,
    DECISIVE,
    DECISIVE_AT,
    DECISIVE_MASK,
    NO_DOUBT,
    NONZERO_WORDS,
    NUMBER_OF,
    OTHERWISE,
    PORT,
    ROUTED,
    ParseTables,
)
from ecmproto.kernels.kernel import inlined
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.experimental import CPID_AT, CPID_OCTETS
from ecmproto.wire.formats.registry import MOST_FORMATS

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Uint64 = NDArray[np.uint64]
_Number = TypeVar("_Number", np.int64, np.uint64)

BEHIND = PADDING, TRAILER, FCS = range(MOST_FORMATS, MOST_FORMATS + 3)
"""Padding, trailer and FCS, numbered as if they were formats; behind them, `MOVING_FIELDS`."""

NO_LAYOUT = -1
NO_LENGTH, NOWHERE = -1, -2
(
    LINK, LEAST, MOST, CUT, LENGTH_AT, LENGTH_BITS, LENGTH_LACKS, FIRST_WORD, END_WORD, PORT_AT, PORT_IS,
    ZEROS, TAIL, FRAMES, FIRST_LAYER, LAYERS, FCS_AT, LAST, NODE,
) = range(19)  # fmt: skip
"""The numbers that say what a layout is.  A frame has it that comes from such a link, of which LEAST to MOST
octets were captured and CUT more were not, whose words are these, and of which ZEROS octets behind the layers
are zero; where they are not it has the next layout.  The length at LENGTH_AT lacks LENGTH_LACKS of what was
captured, where LENGTH_BITS are set.  The UDP port at PORT_AT, unless that is NO_LENGTH, announces PORT_IS.
Then: where the layers end, how many frames have it, the layers, where the FCS starts, the last layer's
number, their node among the paths."""

FROM_END = 1 << 30
"""A place or a number of octets that depends on the length of the frame is negative: this and what was
captured are to be added."""

_SLOTS, _PROBES = 1 << 13, 8
_LAYOUTS, _WORDS, _LAYERS = 1 << 13, 1 << 15, 1 << 16
"""The room to begin with."""
_MOST_LAYERS = 32
_WORD = 8
_ANY_OCTETS = 1 << 62
_AT_ONCE = 4
"""Words are compared so many at a time: which of them differs does not matter."""
_IPV4, _IPV4_PROTOCOL_AT = 0x0800, 23
_ETHERNET, _DATA = NUMBER_OF[Ethernet], DATA_NUMBER
_MOST_NONZERO = 4
"""Octets that may tell that a packet is none of the formats that its UDP port announces."""
LEAST_OCTETS = 24
"""Shorter frames share no layout."""


class LayoutCache(NamedTuple):
    """The layouts known so far."""

    used: Int64
    """How many cache, words and layers there are."""
    slot: NDArray[np.int32]
    """By a hash of their frames: the layouts that frames are compared with."""
    recent: NDArray[np.int32]
    """By the same hash: the layout that the last of these frames had, and the next one may have."""
    layout: Int64
    """A row a layout: the numbers above."""
    word: Uint64
    """A row a word of a layout: its place in the frame, the bits of it that decide, and their values."""
    layer: Int64
    """A row a layer of a layout: its number, its place in the frame and its octets."""


def new_cache() -> LayoutCache:
    """Return room for layouts, none known.

    There is room for as many as frames of all kinds and lengths have: it takes memory where it is used, which
    making room later, and moving what is known there, takes twice.
    """
    return LayoutCache(
        used=np.zeros(3, np.int64),
        slot=np.full(_SLOTS, NO_LAYOUT, np.int32),
        recent=np.full(_SLOTS, NO_LAYOUT, np.int32),
        layout=np.empty((_LAYOUTS, NODE + 1), np.int64),
        word=np.empty((_WORDS, 3), np.uint64),
        layer=np.empty((_LAYERS, 3), np.int64),
    )


def with_more_room(cache: LayoutCache) -> LayoutCache:
    """Return the layouts with twice the room."""
    return cache._replace(
        layout=_doubled(cache.layout), word=_doubled(cache.word), layer=_doubled(cache.layer)
    )


def _doubled(rows: NDArray[_Number]) -> NDArray[_Number]:
    more = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    more[: len(rows)] = rows
    return more


@inlined
def hashed(tables: ParseTables, buffer: Octets, start: int, captured: int, link: int, first: int) -> int:
    """Return where to look for the layout of a frame that starts with format ``first``.

    NO_LAYOUT for one too short to have any but its own.
    """
    if captured < LEAST_OCTETS:
        return NO_LAYOUT
    if first != _ETHERNET:
        return int(link & (_SLOTS - 1))
    # nothing branches here: of frames in any order nobody could say which way
    more = eight_octets(buffer, start + 14)
    announced = np.int64(eight_octets(buffer, start + 12) >> np.uint64(48))
    protocol = np.int64(eight_octets(buffer, start + _IPV4_PROTOCOL_AT - 7) & np.uint64(0xFF))
    tagged = np.int64(tables.tags[np.uint64(announced)])
    second = np.int64(more >> np.uint64(32) & np.uint64(0xFFFF)) * tagged
    tagged *= np.int64(tables.tags[np.uint64(second)])
    third = np.int64(more & np.uint64(0xFFFF)) * tagged
    mixed = announced * 0x9E3B + second * 0x85EB + third * 0xC2B3
    mixed += protocol * 0xC2B3 * np.int64(announced == _IPV4)
    return int((mixed ^ (mixed >> 11) ^ (mixed >> 22)) & (_SLOTS - 1))


@inlined
def _hashed_with_lengths(place: int, captured: int, cut: int) -> int:
    """Return where to look for a layout that only frames of some lengths have."""
    return int((place + captured * 0x9E5 + cut * 0x6A7) & (_SLOTS - 1))


@inlined
def find_layout(
    cache: LayoutCache,
    place: int,
    ports: NDArray[np.int8],
    buffer: Octets,
    start: int,
    captured: int,
    cut: int,
    link: int,
) -> int:
    """Return the layout of a frame that lacks ``cut`` octets; NO_LAYOUT where it is not known."""
    slot, recent = cache.slot, cache.recent
    number = signed(recent[np.uint64(place)])
    if number != NO_LAYOUT and has_layout(cache, number, ports, buffer, start, captured, cut, link):
        return number
    for first in (place, _hashed_with_lengths(place, captured, cut)):
        for probe in range(_PROBES):
            number = signed(slot[np.uint64((first + probe) & (_SLOTS - 1))])
            if number == NO_LAYOUT:
                break
            if has_layout(cache, number, ports, buffer, start, captured, cut, link):
                recent[np.uint64(place)] = number
                return number
    return NO_LAYOUT


@inlined
def has_layout(
    cache: LayoutCache,
    number: int,
    ports: NDArray[np.int8],
    buffer: Octets,
    start: int,
    captured: int,
    cut: int,
    link: int,
) -> bool:
    """Whether a frame of LEAST_OCTETS or more has the layout ``number``, which is one that frames share."""
    layout, row = cache.layout, np.uint64(number)
    # one too short for it is looked at all the same, where it is
    length = two_octets(buffer, start + min(layout[row, LENGTH_AT], captured - 2))
    differs = (length + layout[row, LENGTH_LACKS] - captured) & layout[row, LENGTH_BITS]
    differs |= (layout[row, LINK] - link) | (layout[row, CUT] - cut)
    # below 0 outside of them
    differs |= ((captured - layout[row, LEAST]) | (layout[row, MOST] - captured)) >> 63
    if differs != 0:
        return False
    at = np.uint64(layout[row, FIRST_WORD])
    stop = np.uint64(layout[row, END_WORD])
    while at < stop:
        others = np.uint64(0)
        for index in range(_AT_ONCE):
            others |= _differs(cache.word, at + np.uint64(index), buffer, start)
        if others != np.uint64(0):
            return False
        at += np.uint64(_AT_ONCE)
    port_at = layout[row, PORT_AT]
    if port_at == NO_LENGTH:
        return True
    return bool(signed(ports[two_octets(buffer, start + port_at)]) == layout[row, PORT_IS])


@inlined
def _differs(word: Uint64, at: np.uint64, buffer: Octets, start: int) -> np.uint64:
    """Return the bits of a layout's word that a frame has not."""
    number = eight_octets(buffer, start + int(np.int64(word[at, 0])))
    return np.uint64((number & word[at, 1]) ^ word[at, 2])


@inlined
def variant(cache: LayoutCache, number: int, buffer: Octets, start: int) -> int:
    """Return a frame's layout: ``number``, or the next if the octets that may be padding are not zero."""
    zeros = cache.layout[np.uint64(number), ZEROS]
    if zeros > 0 and not all_zero(buffer, start + cache.layout[np.uint64(number), TAIL], zeros):
        return number + 1
    return number


@inlined
def all_zero(buffer: Octets, first: int, octets: int) -> bool:
    """Whether octets of the buffer are zero."""
    at, stop = first, first + octets
    while at + _WORD <= stop:
        if eight_octets(buffer, at) != np.uint64(0):
            return False
        at += _WORD
    while at < stop:
        if signed(buffer[at]) != 0:
            return False
        at += 1
    return True


@inlined
def trace(cache: LayoutCache, index: int, layer: int, at: int, octets: int) -> None:
    """Note layer ``index`` of the frame that is being walked over, as far as there is room."""
    row = cache.used[2] + index
    if row < len(cache.layer):
        cache.layer[row, 0] = layer
        cache.layer[row, 1] = at
        cache.layer[row, 2] = octets


class WalkResult(NamedTuple):
    """The result of a frame's walk, besides the layers that it traced; places count from its start."""

    layers: int
    last: int
    """The number of the last layer; NO_LAYER or SLOW."""
    node: int
    tail: int
    """Where the layers end."""
    fcs: int
    """Where the FCS starts."""
    least: int
    """Up to where zero octets behind the layers are padding."""
    settled: bool
    """Whether frames with the same decisive words that are no shorter are walked over the same way."""
    open_ended: bool
    """Whether the last layer goes as far as the frame does, however long it is."""
    exact: bool
    """Whether frames that are longer may have other layers."""
    length_at: int
    """Where a length stands that says where the frame ends; NO_LENGTH without one."""
    port_at: int
    """Where a UDP destination port stands; NO_LENGTH without one."""


@inlined
def learn(
    cache: LayoutCache,
    place: int,
    found: WalkResult,
    tables: ParseTables,
    buffer: Octets,
    start: int,
    captured: int,
    original: int,
    link: int,
) -> int:
    """Add the layout that was traced of a frame and return its number; NO_LAYOUT without room for it.

    It is two where there may be padding; this is the one with padding then.
    """
    number, first_layer = cache.used[0], cache.used[2]
    if (
        number + 2 > len(cache.layout)
        or cache.used[1] + _MOST_LAYERS * DECISIVE + _AT_ONCE > len(cache.word)
        or first_layer + 2 * (found.layers + 3) > len(cache.layer)
    ):
        return NO_LAYOUT
    zeros = max(0, min(found.least, found.fcs) - found.tail)
    shared = found.settled and place != NO_LAYOUT and found.layers <= _MOST_LAYERS
    # nothing but the last layer or what is behind it may grow, and it is there in all of them
    behind = found.fcs > found.tail + zeros and (zeros == 0 or found.fcs >= found.least)
    longer = shared and original <= captured and (found.open_ended or behind) and not found.exact
    length_at = found.length_at if longer else NO_LENGTH
    cut = max(0, original - captured)
    first_word = cache.used[1]
    if shared:
        _decide(cache, found.layers, tables, buffer, start, captured, length_at)
        _enter(cache, place if longer else _hashed_with_lengths(place, captured, cut), number)
    layout = cache.layout
    for row in range(number, number + (2 if zeros > 0 else 1)):
        layout[row, LINK] = link
        layout[row, LEAST] = captured
        layout[row, MOST] = _ANY_OCTETS if longer else captured
        layout[row, CUT] = cut
        layout[row, FIRST_WORD] = first_word
        layout[row, END_WORD] = cache.used[1]
        layout[row, LENGTH_AT] = layout[row, LENGTH_BITS] = layout[row, LENGTH_LACKS] = 0
        if length_at != NO_LENGTH:
            layout[row, LENGTH_AT], layout[row, LENGTH_BITS] = length_at, -1
            layout[row, LENGTH_LACKS] = captured - two_octets(buffer, start + length_at)
        layout[row, PORT_AT] = found.port_at
        layout[row, PORT_IS] = 0
        if found.port_at != NO_LENGTH:
            layout[row, PORT_IS] = signed(tables.ports[two_octets(buffer, start + found.port_at)])
        layout[row, LAST] = found.last
        layout[row, NODE] = found.node
        layout[row, FRAMES] = 0
        layout[row, ZEROS] = zeros if row == number else 0
        _complete(cache, row, found, captured, longer, first_layer)
    return int(number)


@inlined
def _complete(
    cache: LayoutCache, number: int, found: WalkResult, captured: int, longer: bool, first_layer: int
) -> None:
    """Complete layout ``number``: its layers and the octets after them, as far as they may reach."""
    layout, layer = cache.layout, cache.layer
    layers, zeros = found.layers, layout[number, ZEROS]
    if cache.used[2] != first_layer:
        for index in range(layers):
            for column in range(3):
                layer[cache.used[2] + index, column] = layer[first_layer + index, column]
    # what makes a place one that counts from the end
    from_end = -captured - FROM_END if longer else 0
    tail = found.tail
    if longer and found.open_ended:
        layer[cache.used[2] + layers - 1, 2] += from_end
        tail += from_end
    layout[number, FIRST_LAYER] = cache.used[2]
    layout[number, TAIL] = tail
    layout[number, FCS_AT] = found.fcs + from_end
    trailer = found.tail + zeros
    if zeros > 0:
        trace(cache, layers, PADDING, found.tail, zeros)
        layers += 1
    if found.fcs > trailer:
        trace(cache, layers, TRAILER, trailer, found.fcs - trailer + from_end)
        layers += 1
    if captured > found.fcs:
        trace(cache, layers, FCS, found.fcs + from_end, captured - found.fcs)
        layers += 1
    layout[number, LAYERS] = layers
    cache.used[0] = number + 1
    cache.used[2] += layers


@inlined
def _decide(
    cache: LayoutCache,
    layers: int,
    tables: ParseTables,
    buffer: Octets,
    start: int,
    captured: int,
    length_at: int,
) -> None:
    """Note the words that decide on the layers traced, but for a length."""
    decisive = tables.decisive
    word = cache.word
    first = cache.used[1]
    words, last = 0, -_WORD
    chosen = False
    for index in range(cache.used[2], cache.used[2] + layers):
        layer, at, octets = cache.layer[index, 0], cache.layer[index, 1], cache.layer[index, 2]
        if layer >= MOST_FORMATS:
            continue  # a field
        if chosen and layer == _DATA:
            # that these are none of the formats behind the port
            for place in range(at, at + min(_MOST_NONZERO, octets - octets % 2), 2):
                words, last = _mask(word, first, words, last, place, 0xFFFF, captured)
        chosen = _is_chosen(buffer, start + at, layer, tables)
        for row in range(layer * DECISIVE, (layer + 1) * DECISIVE):
            if decisive[row, DECISIVE_MASK] == 0:
                break
            place = at + decisive[row, DECISIVE_AT]
            if place != length_at:
                words, last = _mask(word, first, words, last, place, decisive[row, DECISIVE_MASK], captured)
            first_word = decisive[row, DECISIVE_AT] == 0
            if first_word and tables.doubts[layer, CPID_DECIDES] != 0 and octets >= CPID_AT + CPID_OCTETS:
                named = tables.doubts[layer, OTHERWISE] != NO_DOUBT
                words, last = _mask_cpid(
                    word, first, words, last, buffer, start, at + CPID_AT, named, captured
                )
    while words % _AT_ONCE != 0:
        # one that no frame differs in
        word[first + words, 0] = word[first + words, 1] = np.uint64(0)
        words += 1
    for row in range(first, first + words):
        word[row, 2] = eight_octets(buffer, start + int(np.int64(word[row, 0]))) & word[row, 1]
    cache.used[1] = first + words


@inlined
def _is_chosen(buffer: Octets, at: int, layer: int, tables: ParseTables) -> bool:
    """Whether the octets behind the layer at ``at`` decide which format they are."""
    if tables.follows[layer] == ROUTED:
        return True
    if tables.follows[layer] != PORT:
        return False
    number = signed(tables.ports[two_octets(buffer, at + tables.next_at[layer])])
    return bool(number <= CHOSEN or tables.doubts[number, NONZERO_WORDS] != 0)


@inlined
def _mask(
    word: Uint64, first: int, words: int, last: int, place: int, mask: int, captured: int
) -> tuple[int, int]:
    """Add bits of the two octets at ``place`` to those that decide.

    Return how many words decide now, and the place of the last.  Places come in order.
    """
    if place + 2 > last + _WORD:
        last = min(place, captured - _WORD)
        word[first + words, 0] = np.uint64(last)
        word[first + words, 1] = np.uint64(0)
        words += 1
    word[first + words - 1, 1] |= np.uint64(mask) << np.uint64(8 * (last + _WORD - 2 - place))
    return words, last


@inlined
def _mask_cpid(
    word: Uint64,
    first: int,
    words: int,
    last: int,
    buffer: Octets,
    start: int,
    at: int,
    named: bool,
    captured: int,
) -> tuple[int, int]:
    """Add the bits that show that a CPID is one, or none: what a format is ``named`` for, or is not.

    One is shown by the group bit and an octet that is not zero, none by the group bit or all octets.
    """
    octet = 0
    while octet < CPID_OCTETS and signed(buffer[start + at + octet]) == 0:
        octet += 1
    group = signed(buffer[start + at]) & 1 != 0
    for pair in range(0, CPID_OCTETS, 2):
        mask = 0x0100 if pair == 0 and (named or group) else 0
        if octet == CPID_OCTETS:
            mask = 0xFFFF
        elif named and octet - pair == 0:
            mask |= 0xFF00
        elif named and octet - pair == 1:
            mask |= 0x00FF
        if mask != 0:
            words, last = _mask(word, first, words, last, at + pair, mask, captured)
    return words, last


@inlined
def _enter(cache: LayoutCache, place: int, number: int) -> None:
    """Enter a layout in front of those of its slots so far, the last of which are forgotten."""
    slot = cache.slot
    following = number
    for probe in range(_PROBES):
        at = (place + probe) & (_SLOTS - 1)
        current = signed(slot[at])
        slot[at] = following
        if current == NO_LAYOUT:
            break
        following = current
