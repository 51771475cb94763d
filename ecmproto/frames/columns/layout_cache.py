"""Layout cache: the result of a walk over a frame, stored once for all frames with the same result.

The offsets of a frame's layers depend on few octets of the frame: EtherTypes, selectors, counts, refused
values. A layout is the result of one frame's walk, with the values of these octets. A frame with equal values
has the same layout, which costs only a comparison of a few words. Most frames of a capture share their layout
with other frames.

Frames of one layout may differ in length if only their last layer, or the octets after the last layer,
differ. Offsets that depend on the frame's end are then stored relative to the end. A length field that
determines the end is compared with the end, because its value is not fixed. Only truncated frames of the same
length share a layout. A malformed frame has a separate layout.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import signed, two_octets
from ecmproto.frames.batch.parse_tables import (
    CHOSEN,
    CPID_DECIDES,
    DATA_NUMBER,
    DECISIVE,
    DECISIVE_AT,
    DECISIVE_MASK,
    IP_LEN,
    IPV4,
    IPV6,
    IPV6_PLEN,
    NO_DOUBT,
    NONZERO_WORDS,
    NUMBER_OF,
    OTHERWISE,
    PORT,
    ROUTED,
    ParseTables,
)
from ecmproto.frames.columns.octets import eight_octets
from ecmproto.kernels.kernel import inlined
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.experimental import CPID_AT, CPID_OCTETS
from ecmproto.wire.formats.registry import MAX_FORMATS

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Uint64 = NDArray[np.uint64]
_Number = TypeVar("_Number", np.int64, np.uint64)

TAIL_KINDS = PADDING, TRAILER, FCS = range(MAX_FORMATS, MAX_FORMATS + 3)
"""Numbers of padding, trailer and FCS, after the numbers of the formats and before `MOVING_FIELDS`."""

NO_LAYOUT = -1
NO_LENGTH, NOWHERE = -1, -2
(
    LINK, MIN, MAX, CUT, LENGTH_AT, LENGTH_BITS, LENGTH_LACKS, FIRST_WORD, END_WORD, END_LENGTH, PORT_AT,
    PORT_IS, ZEROS, TAIL, FRAMES, FIRST_LAYER, LAYERS, FCS_AT, LAST, NODE,
) = range(20)  # fmt: skip
"""Columns of a layout. A layout applies to a frame with the given LINK, MIN to MAX captured octets, CUT
truncated octets, and the given words. ZEROS octets after the layers must be zero; otherwise the next layout
applies. The length field at LENGTH_AT is less than the captured length by LENGTH_LACKS, if LENGTH_BITS are
set. The words from END_WORD to END_LENGTH contain the lengths of inner frames: the offset of the field and
the difference from the captured length. The UDP port at PORT_AT announces PORT_IS, unless PORT_AT is
NO_LENGTH. The remaining columns are results: the end of the layers, the number of frames, the layers, the
start of the FCS, the number of the last layer, and the node among the paths.
"""

FROM_END = 1 << 30
"""Marker of offsets and lengths relative to the end of a frame.

A marked value is negative; the sum of the value, this constant and the captured length is the actual offset.
"""

_SLOTS, _PROBES = 1 << 13, 8
_LAYOUTS, _WORDS, _LAYERS = 1 << 13, 1 << 15, 1 << 16
_MAX_LAYERS = 32
_WORD = 8
_ANY_OCTETS = 1 << 62
_AT_ONCE = 4
"""Number of words compared in one step."""
_IPV4_TYPE, _IPV4_PROTOCOL_AT = 0x0800, 23
_ETHERNET, _DATA = NUMBER_OF[Ethernet], DATA_NUMBER
_MAX_NONZERO = 4
"""Number of octets that can show that a packet has none of the formats announced by its UDP port."""
MIN_SHARED_OCTETS = 24
"""Minimum length in octets of frames that share a layout."""


class LayoutCache(NamedTuple):
    """The known layouts."""

    used: Int64
    """Numbers of layouts, words and layers in use."""
    slot: NDArray[np.int32]
    """Hash table of layouts; the key is the hash of a frame."""
    recent: NDArray[np.int32]
    """Layout of the previous frame with each hash, compared first."""
    layout: Int64
    """One row per layout, with the columns above."""
    word: Uint64
    """One row per word of a layout: offset in the frame, mask of the decisive bits, and their values."""
    layer: Int64
    """One row per layer of a layout: its number, its offset in the frame, and its length in octets."""


def new_cache() -> LayoutCache:
    """Return an empty layout cache.

    The capacity suffices for frames of all formats and lengths. Unused memory costs nothing, whereas later
    growth copies the contents.
    """
    return LayoutCache(
        used=np.zeros(3, np.int64),
        slot=np.full(_SLOTS, NO_LAYOUT, np.int32),
        recent=np.full(_SLOTS, NO_LAYOUT, np.int32),
        layout=np.empty((_LAYOUTS, NODE + 1), np.int64),
        word=np.empty((_WORDS, 3), np.uint64),
        layer=np.empty((_LAYERS, 3), np.int64),
    )


def with_doubled_capacity(cache: LayoutCache) -> LayoutCache:
    """Return a copy of the cache with twice the capacity."""
    return cache._replace(
        layout=_doubled(cache.layout), word=_doubled(cache.word), layer=_doubled(cache.layer)
    )


def _doubled(rows: NDArray[_Number]) -> NDArray[_Number]:
    more = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    more[: len(rows)] = rows
    return more


@inlined
def hashed(tables: ParseTables, buffer: Octets, start: int, captured: int, link: int, first: int) -> int:
    """Return the hash for the lookup of a frame's layout.

    Returns NO_LAYOUT for a frame that is too short to share a layout.
    """
    if captured < MIN_SHARED_OCTETS:
        return NO_LAYOUT
    if first != _ETHERNET:
        return int(link & (_SLOTS - 1))
    # No branches here: the processor could not predict branches for frames in random order.
    more = eight_octets(buffer, start + 14)
    announced = np.int64(eight_octets(buffer, start + 12) >> np.uint64(48))
    protocol = np.int64(eight_octets(buffer, start + _IPV4_PROTOCOL_AT - 7) & np.uint64(0xFF))
    tagged = np.int64(tables.tags[np.uint64(announced)])
    second = np.int64(more >> np.uint64(32) & np.uint64(0xFFFF)) * tagged
    tagged *= np.int64(tables.tags[np.uint64(second)])
    third = np.int64(more & np.uint64(0xFFFF)) * tagged
    mixed = announced * 0x9E3B + second * 0x85EB + third * 0xC2B3
    mixed += protocol * 0xC2B3 * np.int64(announced == _IPV4_TYPE)
    return int((mixed ^ (mixed >> 11) ^ (mixed >> 22)) & (_SLOTS - 1))


@inlined
def _hashed_with_lengths(bucket: int, captured: int, cut: int) -> int:
    """Return the hash for a layout that applies only to frames of one length."""
    return int((bucket + captured * 0x9E5 + cut * 0x6A7) & (_SLOTS - 1))


@inlined
def find_layout(
    cache: LayoutCache,
    bucket: int,
    ports: NDArray[np.int8],
    buffer: Octets,
    start: int,
    captured: int,
    cut: int,
    link: int,
) -> int:
    """Return the layout of a frame with ``cut`` octets truncated; NO_LAYOUT if the layout is unknown."""
    slot, recent = cache.slot, cache.recent
    number = signed(recent[np.uint64(bucket)])
    if number != NO_LAYOUT and has_layout(cache, number, ports, buffer, start, captured, cut, link):
        return number
    for first in (bucket, _hashed_with_lengths(bucket, captured, cut)):
        for probe in range(_PROBES):
            number = signed(slot[np.uint64((first + probe) & (_SLOTS - 1))])
            if number == NO_LAYOUT:
                break
            if has_layout(cache, number, ports, buffer, start, captured, cut, link):
                recent[np.uint64(bucket)] = number
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
    """Return whether the shareable layout ``number`` applies to a frame.

    The frame has at least MIN_SHARED_OCTETS octets.
    """
    layout, row = cache.layout, np.uint64(number)
    # In a frame too short for the field, the last two octets are read instead.
    length = two_octets(buffer, start + min(layout[row, LENGTH_AT], captured - 2))
    differs = (length + layout[row, LENGTH_LACKS] - captured) & layout[row, LENGTH_BITS]
    differs |= (layout[row, LINK] - link) | (layout[row, CUT] - cut)
    # The differences are negative outside the limits.
    differs |= ((captured - layout[row, MIN]) | (layout[row, MAX] - captured)) >> 63
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
    stop = np.uint64(layout[row, END_LENGTH])
    while at < stop:
        lacks = captured - two_octets(buffer, start + int(np.int64(cache.word[at, 0])))
        if lacks != np.int64(cache.word[at, 1]):
            return False
        at += np.uint64(1)
    port_at = layout[row, PORT_AT]
    if port_at == NO_LENGTH:
        return True
    return bool(signed(ports[two_octets(buffer, start + port_at)]) == layout[row, PORT_IS])


@inlined
def _differs(word: Uint64, at: np.uint64, buffer: Octets, start: int) -> np.uint64:
    """Return the bits of a frame that differ from a word of a layout."""
    number = eight_octets(buffer, start + int(np.int64(word[at, 0])))
    return np.uint64((number & word[at, 1]) ^ word[at, 2])


@inlined
def variant(cache: LayoutCache, number: int, buffer: Octets, start: int) -> int:
    """Return the layout of a frame: ``number``, or the next number if possible padding is not zero."""
    zeros = cache.layout[np.uint64(number), ZEROS]
    if zeros > 0 and not all_zero(buffer, start + cache.layout[np.uint64(number), TAIL], zeros):
        return number + 1
    return number


@inlined
def all_zero(buffer: Octets, first: int, octets: int) -> bool:
    """Return whether all octets in a range of the buffer are zero."""
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
    """Record layer ``index`` of the current frame, if the capacity suffices."""
    row = cache.used[2] + index
    if row < len(cache.layer):
        cache.layer[row, 0] = layer
        cache.layer[row, 1] = at
        cache.layer[row, 2] = octets


class WalkResult(NamedTuple):
    """The result of a frame's walk, except the recorded layers; offsets are relative to the frame's start."""

    layers: int
    last: int
    """Number of the last layer; NO_LAYER or SLOW."""
    node: int
    tail: int
    """End of the layers."""
    fcs: int
    """Start of the FCS."""
    padding_end: int
    """Offset up to which zero octets after the layers are padding."""
    settled: bool
    """Whether all frames of at least this length with the same decisive words have the same walk."""
    open_ended: bool
    """Whether the last layer extends to the end of the frame for any length of the frame."""
    exact: bool
    """Whether longer frames may have other layers."""
    length_at: int
    """Offset of a length field that determines the end of the frame; NO_LENGTH without such a field."""
    port_at: int
    """Offset of a UDP destination port; NO_LENGTH if the frame has none."""


@inlined
def add_layout(
    cache: LayoutCache,
    bucket: int,
    result: WalkResult,
    tables: ParseTables,
    buffer: Octets,
    start: int,
    captured: int,
    original: int,
    link: int,
) -> int:
    """Add the layout of the recorded frame and return its number; NO_LAYOUT if the capacity is too small.

    If padding is possible, two layouts are added, and the result is the number of the layout with padding.
    """
    number, first_layer = cache.used[0], cache.used[2]
    if (
        number + 2 > len(cache.layout)
        or cache.used[1] + _MAX_LAYERS * (DECISIVE + 2) + _AT_ONCE > len(cache.word)
        or first_layer + 2 * (result.layers + 3) > len(cache.layer)
    ):
        return NO_LAYOUT
    zeros = max(0, min(result.padding_end, result.fcs) - result.tail)
    shared = result.settled and bucket != NO_LAYOUT and result.layers <= _MAX_LAYERS
    # Only the last layer or the octets after the last layer may grow, and all these frames have such octets.
    has_trailer = result.fcs > result.tail + zeros and (zeros == 0 or result.fcs >= result.padding_end)
    longer = shared and original <= captured and (result.open_ended or has_trailer) and not result.exact
    length_at = result.length_at if longer else NO_LENGTH
    cut = max(0, original - captured)
    first_word = end_word = cache.used[1]
    if shared:
        end_word = _decide(cache, result.layers, tables, buffer, start, captured, length_at, result.port_at)
        _enter(cache, bucket if longer else _hashed_with_lengths(bucket, captured, cut), number)
    layout = cache.layout
    for row in range(number, number + (2 if zeros > 0 else 1)):
        layout[row, LINK] = link
        layout[row, MIN] = captured
        layout[row, MAX] = _ANY_OCTETS if longer else captured
        layout[row, CUT] = cut
        layout[row, FIRST_WORD] = first_word
        layout[row, END_WORD] = end_word
        layout[row, END_LENGTH] = cache.used[1]
        layout[row, LENGTH_AT] = layout[row, LENGTH_BITS] = layout[row, LENGTH_LACKS] = 0
        if length_at != NO_LENGTH:
            layout[row, LENGTH_AT], layout[row, LENGTH_BITS] = length_at, -1
            layout[row, LENGTH_LACKS] = captured - two_octets(buffer, start + length_at)
        layout[row, PORT_AT] = result.port_at
        layout[row, PORT_IS] = 0
        if result.port_at != NO_LENGTH:
            layout[row, PORT_IS] = signed(tables.ports[two_octets(buffer, start + result.port_at)])
        layout[row, LAST] = result.last
        layout[row, NODE] = result.node
        layout[row, FRAMES] = 0
        layout[row, ZEROS] = zeros if row == number else 0
        _complete(cache, row, result, captured, longer, first_layer)
    return int(number)


@inlined
def _complete(
    cache: LayoutCache, number: int, result: WalkResult, captured: int, longer: bool, first_layer: int
) -> None:
    """Complete layout ``number`` with its layers and the octets after the layers."""
    layout, layer = cache.layout, cache.layer
    layers, zeros = result.layers, layout[number, ZEROS]
    if cache.used[2] != first_layer:
        for index in range(layers):
            for column in range(3):
                layer[cache.used[2] + index, column] = layer[first_layer + index, column]
    # makes an offset relative to the frame's end
    from_end = -captured - FROM_END if longer else 0
    tail = result.tail
    if longer and result.open_ended:
        layer[cache.used[2] + layers - 1, 2] += from_end
        tail += from_end
    layout[number, FIRST_LAYER] = cache.used[2]
    layout[number, TAIL] = tail
    layout[number, FCS_AT] = result.fcs + from_end
    trailer = result.tail + zeros
    if zeros > 0:
        trace(cache, layers, PADDING, result.tail, zeros)
        layers += 1
    if result.fcs > trailer:
        trace(cache, layers, TRAILER, trailer, result.fcs - trailer + from_end)
        layers += 1
    if captured > result.fcs:
        trace(cache, layers, FCS, result.fcs + from_end, captured - result.fcs)
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
    port_at: int,
) -> int:
    """Record the words that determine the recorded layers, and return the end of these words.

    The frame's length field and the port are left out. The lengths of inner frames are recorded after the
    words.
    """
    decisive = tables.decisive
    word = cache.word
    first = cache.used[1]
    count, last = 0, -_WORD
    chosen = False
    for index in range(cache.used[2], cache.used[2] + layers):
        layer, at, octets = cache.layer[index, 0], cache.layer[index, 1], cache.layer[index, 2]
        if layer >= MAX_FORMATS:
            continue  # a field
        if chosen and layer == _DATA:
            # These octets show that none of the formats announced by the port applies.
            for offset in range(at, at + min(_MAX_NONZERO, octets - octets % 2), 2):
                count, last = _mask(word, first, count, last, offset, 0xFFFF, captured)
        chosen = _is_chosen(buffer, start + at, layer, tables)
        if tables.follows[layer] == PORT and at + tables.next_at[layer] != port_at:
            count, last = _mask(word, first, count, last, at + tables.next_at[layer], 0xFFFF, captured)
        for row in range(layer * DECISIVE, (layer + 1) * DECISIVE):
            if decisive[row, DECISIVE_MASK] == 0:
                break
            offset = at + decisive[row, DECISIVE_AT]
            varies = length_at != NO_LENGTH and offset == _length_offset(at, layer, tables)
            if offset != length_at and not (varies and two_octets(buffer, start + offset) != 0):
                count, last = _mask(word, first, count, last, offset, decisive[row, DECISIVE_MASK], captured)
            first_word = decisive[row, DECISIVE_AT] == 0
            if first_word and tables.doubts[layer, CPID_DECIDES] != 0 and octets >= CPID_AT + CPID_OCTETS:
                named = tables.doubts[layer, OTHERWISE] != NO_DOUBT
                count, last = _mask_cpid(
                    word, first, count, last, buffer, start, at + CPID_AT, named, captured
                )
    while count % _AT_ONCE != 0:
        # a word that never differs
        word[first + count, 0] = word[first + count, 1] = np.uint64(0)
        count += 1
    for row in range(first, first + count):
        word[row, 2] = eight_octets(buffer, start + int(np.int64(word[row, 0]))) & word[row, 1]
    end = first + count
    if length_at != NO_LENGTH:
        for index in range(cache.used[2], cache.used[2] + layers):
            layer, at = cache.layer[index, 0], cache.layer[index, 1]
            offset = _length_offset(at, layer, tables) if layer < MAX_FORMATS else NO_LENGTH
            if offset not in (NO_LENGTH, length_at) and two_octets(buffer, start + offset) != 0:
                word[first + count, 0] = np.uint64(offset)
                word[first + count, 1] = np.uint64(captured - two_octets(buffer, start + offset))
                count += 1
    cache.used[1] = first + count
    return int(end)


@inlined
def _length_offset(at: int, layer: int, tables: ParseTables) -> int:
    """Return the offset of the length field of the IP packet that follows a layer.

    ``at`` is the offset of the packet's header. Returns NO_LENGTH if no IP packet follows.
    """
    follows = tables.follows[layer]
    if follows == IPV4:
        return int(at + IP_LEN.at)
    if follows == IPV6:
        return int(at + IPV6_PLEN.at)
    return NO_LENGTH


@inlined
def _is_chosen(buffer: Octets, at: int, layer: int, tables: ParseTables) -> bool:
    """Return whether the octets after the layer at ``at`` determine the next format."""
    if tables.follows[layer] == ROUTED:
        return True
    if tables.follows[layer] != PORT:
        return False
    number = signed(tables.ports[two_octets(buffer, at + tables.next_at[layer])])
    return bool(number <= CHOSEN or tables.doubts[number, NONZERO_WORDS] != 0)


@inlined
def _mask(
    word: Uint64, first: int, count: int, last: int, offset: int, mask: int, captured: int
) -> tuple[int, int]:
    """Add bits of two octets to the decisive words.

    Offsets must ascend. Returns the number of words and the offset of the last word.
    """
    if offset + 2 > last + _WORD:
        last = min(offset, captured - _WORD)
        word[first + count, 0] = np.uint64(last)
        word[first + count, 1] = np.uint64(0)
        count += 1
    word[first + count - 1, 1] |= np.uint64(mask) << np.uint64(8 * (last + _WORD - 2 - offset))
    return count, last


@inlined
def _mask_cpid(
    word: Uint64,
    first: int,
    count: int,
    last: int,
    buffer: Octets,
    start: int,
    at: int,
    named: bool,
    captured: int,
) -> tuple[int, int]:
    """Add the bits that prove that a CPID is present (``named``) or absent.

    The group bit and a non-zero octet prove presence. The group bit or all octets prove absence.
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
            count, last = _mask(word, first, count, last, at + pair, mask, captured)
    return count, last


@inlined
def _enter(cache: LayoutCache, bucket: int, number: int) -> None:
    """Insert a layout at the front of its hash bucket; if the bucket is full, its last layout is dropped."""
    slot = cache.slot
    following = number
    for probe in range(_PROBES):
        at = (bucket + probe) & (_SLOTS - 1)
        current = signed(slot[at])
        slot[at] = following
        if current == NO_LAYOUT:
            break
        following = current
