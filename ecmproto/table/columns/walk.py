"""The walk over the frames of a batch: which layers each has, where they stand, and what is malformed.

It is `ecmproto.wire.decoder` over tables, for a range of a batch's frames at a time.  Each layer found goes
to the list of its format, so that what reads fields afterwards goes through one format after another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.table.columns.rules import (
    ANNOUNCED,
    CN_TLV,
    COOKED,
    DATA,
    IPV4,
    IPV6,
    NOTHING,
    TLVS,
    UNKNOWN,
)
from ecmproto.table.columns.shapes import NO_SHAPE, Shapes, fits, learn, slot_of, trace
from ecmproto.table.columns.threads import released, uncounted
from ecmproto.table.columns.transitions import (
    CONDITIONS,
    COUNTED_TAIL,
    DATA_NUMBER,
    LLDP,
    NO_TAIL,
    NUMBER_OF,
    OPCODE,
    STRANGE,
    WHOLE_ARP,
    Transitions,
)
from ecmproto.table.headers import signed, two_octets
from ecmproto.wire.ethertypes import MAX_LENGTH
from ecmproto.wire.frame import MIN_OCTETS
from ecmproto.wire.ip import NO_NEXT_HEADER
from ecmproto.wire.lldp import CN_SUBTYPE, END, OUI_8021, TLV, CongestionNotificationTLV

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

NO_LAYER, SLOW = -1, -2
NO_ERROR, SHORT, SAMPLE, TOTAL_LENGTH, CONDITION = range(5)
"""What is wrong with a frame; CONDITION and what follows it are those of the format in order."""

_TLV, _CN_TLV = NUMBER_OF[TLV], NUMBER_OF[CongestionNotificationTLV]
_CN_INFORMATION = (OUI_8021 << 8) | CN_SUBTYPE
_LEAST_ETHERTYPE = 0x0600
_LEAST_OCTETS = 2
_SPECIFIC = 127


class Frames(NamedTuple):
    """The frames to walk over; an entry a frame in all arrays but ``buffer``."""

    buffer: Octets
    offset: Int64
    captured: Int64
    original: Int64
    first: NDArray[np.int8]
    """The number of the format a frame starts with."""
    fcs: NDArray[np.int8]
    """Octets of FCS at its end."""
    padded: NDArray[np.bool_]
    """Whether it is filled up to 60 octets."""


class Lists(NamedTuple):
    """The layers found: a row a format in each array, filled up to the format's count."""

    wanted: NDArray[np.bool_]
    """Of which formats; the layers of others are walked over only."""
    counts: Int64
    entry: Int64
    """Two numbers a layer, next to each other for the sake of caches: where it starts in the buffer; then
    which frame has it, times 2^32, and its octets."""


class Ends(NamedTuple):
    """What stands behind the layers, an entry a frame: places in the buffer."""

    tail: Int64
    """Where the layers end and padding starts."""
    trailer: Int64
    fcs: Int64
    last: NDArray[np.int8]
    """The number of the last layer; NO_LAYER without one, SLOW for a frame that the walk cannot tell."""
    path: Int32
    """The node of ``Paths`` that stands for its layers."""


class Errors(NamedTuple):
    """What is malformed: the count in ``used``, then an entry a frame that is."""

    used: Int64
    row: Int64
    what: Int64
    """Rows of a format's number, the octet, what is wrong and two numbers that say more."""


class Paths(NamedTuple):
    """The sequences of layers found, as a tree: node 0 is the empty one."""

    used: Int64
    """How many nodes there are."""
    next: Int32
    """For each node and format the node that follows; 0: none so far."""


@uncounted
def _number(buffer: Octets, start: int, table: Int64, row: int, column: int) -> int:
    """Return the number of the layer at ``start`` that the `Place` at ``column`` of a table's row names."""
    number = 0
    first = start + table[row, column]
    for octet in range(first, first + table[row, column + 1]):
        number = (number << 8) | signed(buffer[octet])
    return int((number >> table[row, column + 2]) & table[row, column + 3])


@uncounted
def _tail_octets(buffer: Octets, start: int, left: int, layer: int, tail: Int64) -> int:
    """Return the octets that the variable part should have, of ``left`` there; −1 where it is not wanted."""
    if tail[layer, 0] == NO_TAIL:
        return 0
    if tail[layer, 11] != 0 and (tail[layer, 11] >> _number(buffer, start, tail, layer, 7)) & 1 == 0:
        return -1
    if tail[layer, 0] == COUNTED_TAIL:
        return int(max(0, _number(buffer, start, tail, layer, 1) * tail[layer, 5] - tail[layer, 6]))
    return left


class _Next(NamedTuple):
    layer: int
    bound: int
    settled: bool
    """Whether words of the layers alone decided on it."""


@uncounted
def _tlv(buffer: Octets, pos: int, stop: int) -> int:
    if stop - pos < 6 or signed(buffer[pos]) >> 1 != _SPECIFIC:
        return _TLV
    information = (two_octets(buffer, pos + 2) << 16) | two_octets(buffer, pos + 4)
    return _CN_TLV if information == _CN_INFORMATION else _TLV


@uncounted
def _announced(buffer: Octets, value: int, pos: int, stop: int, tables: Transitions) -> _Next:
    """Return the format at ``pos`` that EtherType or length ``value`` announces, and how far it may reach."""
    layer = signed(tables.announced[value])
    if layer == DATA_NUMBER:
        return _Next(layer, pos + value if value <= MAX_LENGTH else stop, True)
    if layer >= 0:
        return _Next(layer, stop, True)
    if layer == STRANGE:
        return _Next(SLOW, stop, True)
    if layer == LLDP:
        return _Next(_tlv(buffer, pos, stop), stop, True)
    if layer == WHOLE_ARP:
        if stop - pos < 6:
            return _Next(tables.short[3], stop, False)
        if two_octets(buffer, pos + 4) == tables.arp[1]:
            return _Next(tables.arp[0], stop, True)
        return _Next(tables.arp[2], stop, False)
    which = 2 if layer == OPCODE else 0 if value == tables.tag_ethertypes[0] else 1
    if stop - pos < 2:
        return _Next(tables.short[which], stop, True)
    return _Next(signed(tables.words[which, two_octets(buffer, pos)]), stop, True)


@uncounted
def _following(buffer: Octets, layer: int, start: int, end: int, stop: int, tables: Transitions) -> _Next:
    """Return what follows ``layer`` at ``start``, and how far it may reach."""
    kind = tables.follows[layer]
    if kind == ANNOUNCED:
        return _announced(buffer, two_octets(buffer, start + tables.next_at[layer]), end, stop, tables)
    if kind == NOTHING:
        return _Next(NO_LAYER, end, True)
    if kind == DATA:
        return _Next(DATA_NUMBER, stop, True)
    if kind == IPV4:
        return _after_ipv4(buffer, start, end, stop, tables)
    if kind == IPV6:
        return _after_ipv6(buffer, start, end, stop, tables)
    if kind == COOKED:
        value = two_octets(buffer, start + tables.next_at[layer])
        if value < _LEAST_ETHERTYPE:
            return _Next(DATA_NUMBER, stop, True)
        return _announced(buffer, value, end, stop, tables)
    if kind in (TLVS, CN_TLV):
        if end >= stop or (kind == TLVS and signed(buffer[start]) >> 1 == END):
            return _Next(NO_LAYER, end, True)
        return _Next(_tlv(buffer, end, stop), stop, True)
    return _Next(SLOW, stop, True)


@uncounted
def _after_ipv4(buffer: Octets, start: int, end: int, stop: int, tables: Transitions) -> _Next:
    length = _number(buffer, start, tables.ip, 1, 0)
    bound = stop
    if length != 0:
        bound = end + length - 4 * _number(buffer, start, tables.ip, 0, 0)
    if _number(buffer, start, tables.ip, 3, 0) != 0:
        return _Next(DATA_NUMBER, bound, True)
    return _Next(signed(tables.transport[0, _number(buffer, start, tables.ip, 2, 0)]), bound, True)


@uncounted
def _after_ipv6(buffer: Octets, start: int, end: int, stop: int, tables: Transitions) -> _Next:
    length = _number(buffer, start, tables.ip, 4, 0)
    following = _number(buffer, start, tables.ip, 5, 0)
    bound = stop
    if length != 0 or following == NO_NEXT_HEADER:
        bound = end + length
    return _Next(signed(tables.transport[1, following]), bound, True)


class _Wrong(NamedTuple):
    what: int
    first: int
    second: int


@uncounted
def _refused(buffer: Octets, layer: int, start: int, tail: int, cut: bool, tables: Transitions) -> _Wrong:
    """Return what makes the layer at ``start`` one that its format forbids; ``tail`` octets are variable."""
    within = tables.within
    for index in range(layer * CONDITIONS, (layer + 1) * CONDITIONS):
        if within[index, 1] == 0:
            break
        number = _number(buffer, start, within, index, 0)
        if number < within[index, 4] or number > within[index, 5]:
            return _Wrong(CONDITION + index, number, 0)
    if tail >= 0 and tail < tables.tail[layer, 12] and not cut:
        return _Wrong(SAMPLE, tail, 0)
    if tables.follows[layer] == IPV4:
        header = 4 * _number(buffer, start, tables.ip, 0, 0)
        length = _number(buffer, start, tables.ip, 1, 0)
        if 0 < length < header:
            return _Wrong(TOTAL_LENGTH, header, length)
    return _Wrong(NO_ERROR, 0, 0)


@uncounted
def _keep(lists: Lists, layer: int, row: int, start: int, end: int) -> None:
    count = lists.counts[layer]
    lists.entry[layer, 2 * count] = start
    lists.entry[layer, 2 * count + 1] = (row << 32) | (end - start)
    lists.counts[layer] = count + 1


@uncounted
def _tell(errors: Errors, row: int, layer: int, at: int, what: int, first: int, second: int) -> None:
    """Note what is malformed, unless something in front of it is already."""
    count = errors.used[0]
    if count > 0 and errors.row[count - 1] == row:
        return
    errors.row[count] = row
    errors.what[count, 0] = layer
    errors.what[count, 1] = at
    errors.what[count, 2] = what
    errors.what[count, 3] = first
    errors.what[count, 4] = second
    errors.used[0] = count + 1


@uncounted
def _step(paths: Paths, node: int, layer: int) -> int:
    following = signed(paths.next[node, layer])
    if following == 0:
        following = paths.used[0]
        paths.next[node, layer] = following
        paths.used[0] = following + 1
    return following


class _State(NamedTuple):
    """Where the walk over a frame ended."""

    pos: int
    last: int
    node: int
    layers: int
    settled: bool
    """Whether frames with the same decisive words are walked over the same way."""


@uncounted
def _walk_frame(
    frames: Frames,
    row: int,
    end: int,
    tables: Transitions,
    lists: Lists,
    errors: Errors,
    paths: Paths,
    shapes: Shapes,
) -> _State:
    """Walk over the frame whose octets, but for the FCS, go up to ``end``; returns where its layers end.

    The names are those of `ecmproto.wire.decoder._decode`, whose text this is.
    """
    buffer = frames.buffer
    begin = frames.offset[row]
    captured = frames.captured[row]
    # beyond what was captured: the FCS first, then what a snap length cut off
    reach = end + max(0, max(0, frames.original[row] - captured) - signed(frames.fcs[row]))
    pos, stop = begin, end
    layer = signed(frames.first[row])
    last = NO_LAYER
    node = layers = 0
    settled = True
    told = errors.used[0]
    while layer >= 0 and (pos < stop or layer != DATA_NUMBER):
        if tables.follows[layer] == UNKNOWN:
            layer = SLOW
            break
        fixed = tables.fixed[layer]
        if stop - pos < fixed:
            if reach - pos < fixed:
                _tell(errors, row, layer, pos - begin, SHORT, fixed, stop - pos)
            broken = True
            after = pos
        else:
            layers += 1
            after = pos + fixed
            missing, got = 0, 0
            if tables.tail[layer, 0] != NO_TAIL:
                wanted = _tail_octets(buffer, pos, stop - after, layer, tables.tail)
                missing = max(0, after + max(0, wanted) - stop)
                got = -1 if wanted < 0 else wanted - missing
                after += max(0, got)
            trace(shapes, layers - 1, layer, pos - begin, after - pos)
            settled = settled and tables.settled[layer]
            if lists.wanted[layer]:
                _keep(lists, layer, row, pos, after)
            if not tables.run[layer] or last != layer:
                node = _step(paths, node, layer)
            last = layer
            broken = missing > 0
            if tables.refuses[layer]:
                cut = broken or stop < reach
                wrong = _refused(buffer, layer, pos, got, cut, tables)
                if wrong.what != NO_ERROR:
                    broken = True
                    _tell(errors, row, layer, pos - begin, wrong.what, wrong.first, wrong.second)
            # a second error in one frame is not told
            if after + missing > reach:
                _tell(errors, row, layer, pos - begin, SHORT, after + missing - pos, after - pos)
        if broken:
            settled = False
            if after < end:
                layers += 1
                if lists.wanted[DATA_NUMBER]:
                    _keep(lists, DATA_NUMBER, row, after, end)
                node = _step(paths, node, DATA_NUMBER)
                last = DATA_NUMBER
            pos = end
            break
        following = _following(buffer, layer, pos, after, stop, tables)
        if following.bound != stop:
            if following.bound > reach:
                _tell(errors, row, layer, pos - begin, SHORT, following.bound - pos, reach - pos)
            stop = min(stop, following.bound)
            reach = min(reach, following.bound)
        layer = following.layer
        settled = settled and following.settled
        pos = after
    if layer == SLOW:
        last = SLOW
    settled = settled and layer != SLOW and errors.used[0] == told
    return _State(pos, last, node, layers, settled)


@uncounted
def _padding_end(buffer: Octets, pos: int, least: int, end: int) -> int:
    """Return where the zero octets end that fill a frame up to ``least``; ``pos`` where others are there."""
    stop = min(least, end)
    for octet in range(pos, stop):
        if buffer[octet] != 0:
            return pos
    return max(pos, stop)


@uncounted
def _room(lists: Lists, paths: Paths) -> int:
    """Return how many layers more there is room for, of whatever formats."""
    room = len(paths.next) - int(paths.used[0])
    for layer in range(len(lists.counts)):
        room = min(room, lists.entry.shape[1] // 2 - int(lists.counts[layer]))
    return room


class _Place(NamedTuple):
    """A frame's place in the buffer."""

    start: int
    stop: int
    """Where its FCS starts."""


@uncounted
def _place(frames: Frames, row: int) -> _Place:
    start = frames.offset[row]
    captured = frames.captured[row]
    cut = max(0, frames.original[row] - captured)
    fcs = max(0, min(signed(frames.fcs[row]) - cut, captured))
    return _Place(start, start + captured - fcs)


@uncounted
def _recall(frames: Frames, row: int, start: int, slot: int, lists: Lists, shapes: Shapes) -> _State:
    """Give a frame the layers of the shape that it has."""
    for at in range(0, 3 * shapes.layers[slot], 3):
        layer = shapes.layer[slot, at]
        if lists.wanted[layer]:
            first = start + shapes.layer[slot, at + 1]
            _keep(lists, layer, row, first, first + shapes.layer[slot, at + 2])
    found = shapes.found
    return _State(start + found[slot, 0], found[slot, 1], found[slot, 2], shapes.layers[slot], False)


@released
def walk(
    frames: Frames,
    begin: int,
    end: int,
    tables: Transitions,
    lists: Lists,
    ends: Ends,
    errors: Errors,
    paths: Paths,
    shapes: Shapes,
) -> int:
    """Walk over frames ``begin`` to ``end`` and return the first for which there was no more room."""
    room = 0
    for row in range(begin, end):
        captured = frames.captured[row]
        # each layer takes two octets at least; and one more for what is malformed
        most = captured // _LEAST_OCTETS + 2
        if room < most:
            room = _room(lists, paths)
            if room < most:
                return row
        place = _place(frames, row)
        start = place.start
        original = frames.original[row]
        link = (signed(frames.first[row]) << 8 | signed(frames.fcs[row])) << 1 | int(frames.padded[row])
        slot = slot_of(frames.buffer, start, captured)
        if slot != NO_SHAPE and fits(shapes, slot, frames.buffer, start, captured, original, link):
            state = _recall(frames, row, start, slot, lists, shapes)
        else:
            state = _walk_frame(frames, row, place.stop, tables, lists, errors, paths, shapes)
            learnt = slot != NO_SHAPE and state.settled
            if learnt and learn(shapes, slot, state.layers, tables, frames.buffer, start):
                shapes.captured[slot] = captured
                shapes.original[slot] = original
                shapes.link[slot] = link
                shapes.found[slot, 0] = state.pos - start
                shapes.found[slot, 1] = state.last
                shapes.found[slot, 2] = state.node
        room -= state.layers
        ends.tail[row] = state.pos
        least = start + MIN_OCTETS if frames.padded[row] else start
        ends.trailer[row] = _padding_end(frames.buffer, state.pos, least, place.stop)
        ends.fcs[row] = place.stop
        ends.last[row] = state.last
        ends.path[row] = state.node
    return end
