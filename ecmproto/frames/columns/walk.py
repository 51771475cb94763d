"""The walk over a frame, which finds its layers, their offsets and its first error.

The walk does the same as `codec.frame`, but it uses tables and handles one frame at a time. The layers are
recorded in the frame's future layout (`columns.layout_cache`). `assign` assigns a layout to each frame of a
batch: an existing layout, or a new layout from a walk. A `BatchPart` is a range of frames in a batch, with
their layouts.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import signed
from ecmproto.frames.batch.parse_tables import (
    CHAINS_ROW,
    CLOSED_BY,
    CONTENT,
    DATA_NUMBER,
    MAX_MOVING,
    MOVING_FIELD,
    MOVING_FIELDS,
    MOVING_TAIL,
    NO_CHAIN,
    NO_DOUBT,
    NUMBER_OF,
    OTHERWISE,
    PORT,
    REST_TAIL,
    SELECTED,
    SHOWN_OCTETS,
    TAIL_KIND,
    UNKNOWN,
    UNSHOWN_OCTETS,
    WIRE_OCTETS,
    ParseTables,
    parse_tables,
)
from ecmproto.frames.batch.steps import (
    NO_ERROR,
    NO_LAYER,
    SAMPLE,
    SHORT,
    SLOW,
    content_format,
    doubted,
    moving_octets,
    next_format,
    number_in,
    refused,
    shows,
    variable_part,
)
from ecmproto.frames.columns.layout_cache import (
    FCS_AT,
    FIRST_LAYER,
    FRAMES,
    LAST,
    LAYERS,
    MIN_SHARED_OCTETS,
    NO_LAYOUT,
    NO_LENGTH,
    NODE,
    NOWHERE,
    TAIL,
    TAIL_KINDS,
    ZEROS,
    LayoutCache,
    WalkResult,
    add_layout,
    find_layout,
    has_layout,
    hashed,
    new_cache,
    trace,
    variant,
    with_doubled_capacity,
)
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.kernels.prefetching import CACHE_LINE, prefetch
from ecmproto.wire.codec.frame import MIN_OCTETS, Frame, decode_lax
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.registry import FORMATS

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

NO_NODE = -1
_ETHERNET = NUMBER_OF[Ethernet]


class Frames(NamedTuple):
    """The frames to walk over; each array except ``buffer`` has one entry per frame."""

    buffer: Octets
    offset: Int64
    captured: Int64
    original: Int64
    first: NDArray[np.int8]
    """Number of the first format of the frame."""
    fcs: NDArray[np.int8]
    """Number of FCS octets at the end of the frame."""
    padded: NDArray[np.bool_]
    """Whether the frame is padded to 60 octets."""


class Errors(NamedTuple):
    """The malformed frames: their number in ``used``, and one entry per frame."""

    used: Int64
    row: Int64
    what: Int64
    """Rows with the number of the format, the offset, the error, and two numbers with details."""


class Paths(NamedTuple):
    """The sequences of layers found, as a tree; node 0 is the empty sequence."""

    used: Int64
    next: Int32
    """Successor of each node by format; 0 if the node has no such successor yet."""


@inlined
def _trace_moving(
    cache: LayoutCache,
    traced: int,
    buffer: Octets,
    begin: int,
    start: int,
    stop: int,
    layer: int,
    tables: ParseTables,
) -> int:
    """Record the fields without a fixed offset of the layer from ``start`` to ``stop``.

    Returns the number of recorded fields.
    """
    count = 0
    at = start + tables.fixed[layer]
    for index in range(layer * MAX_MOVING, (layer + 1) * MAX_MOVING):
        if tables.moving[index, MOVING_FIELD] == 0:
            break
        octets = min(moving_octets(buffer, start, index, tables.moving), stop - at)
        if octets > 0:
            trace(cache, traced + count, tables.moving[index, MOVING_FIELD], at - begin, octets)
            count += 1
            at += octets
    return count


@inlined
def _record_error(errors: Errors, row: int, layer: int, at: int, what: int, first: int, second: int) -> None:
    """Record an error, unless the frame already has an error."""
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


@inlined
def step(paths: Paths, node: int, layer: int) -> int:
    """Return the node that follows ``node`` for a layer.

    Returns NO_NODE if the capacity is exceeded, or if ``node`` is NO_NODE.
    """
    if node == NO_NODE:
        return NO_NODE
    following = signed(paths.next[node, layer])
    if following == 0:
        following = paths.used[0]
        if following == len(paths.next):
            return NO_NODE
        paths.next[node, layer] = following
        paths.used[0] = following + 1
    return following


@inlined
def walk(
    frames: Frames,
    row: int,
    tables: ParseTables,
    errors: Errors,
    paths: Paths,
    cache: LayoutCache,
) -> WalkResult:
    """Walk over a frame and record its layers and its first error.

    This function is a copy of `codec.frame._decode` and uses the same names.
    """
    # Positions in the buffer during the processing of one layer, in this order unless lengths are wrong:
    #
    #     begin            pos           after              stop       end   reach
    #       | earlier layers | fixed part | variable part ... | padding | FCS | not captured
    #
    # stop is the end allowed by the lengths of earlier layers, end the end of the captured octets, reach the
    # end on the wire: octets between end and reach are truncated, octets missing after reach are an error.
    #
    #     layer ── octets are none of it ──> its OTHERWISE, which is tried next
    #       │ ──── a rule of its own ──────> SLOW: left to the one-frame decoder
    #       │ ──── too short, forbidden ───> Data up to end: the error is recorded, the walk ends
    #       │ ──── names a sequence ───────> the formats of its chain, then the closing format
    #       │ ──── announces another ──────> that one; a length lowers stop and reach
    #       └ ──── nothing left ───────────> done
    #
    # The result becomes the layout of all frames with equal decisive words. Hence the flags: settled: nothing
    # else decides; exact: the length decides too; open_ended: longer frames have a longer last layer;
    # bounded: a length that is not the layout's own truncated it.
    buffer = frames.buffer
    begin = frames.offset[row]
    captured = frames.captured[row]
    # The FCS is last on the wire, so a truncated frame loses its FCS first.
    gone = max(0, frames.original[row] - captured)
    end = begin + captured - max(0, min(signed(frames.fcs[row]) - gone, captured))
    # after the captured octets: the FCS first, then the octets removed by a snap length
    reach = end + max(0, gone - signed(frames.fcs[row]))
    pos, stop = begin, end
    layer = signed(frames.first[row])
    last = NO_LAYER
    node = layers = 0
    settled = True
    # whether the last layer extends to the frame's end, and the length field that determines it, if any
    open_ended, bounded, length_at = False, False, NO_LENGTH
    # whether longer frames may have other layers
    exact = False
    # the rest of the sequence of formats named by a layer; the maximum end of the format that closes it
    chain, closing = NO_CHAIN, NO_LAYER
    whole_stop, whole_reach = stop, reach
    # the wrapper whose parts follow, its start, and the value that selected these parts
    wrapper, wrapper_at, selected = NO_LAYER, begin, 0
    # whether the layer is in a frame inside another, and the start of the innermost Ethernet header
    wrapped, ethernet_at = False, begin
    port_at = NO_LENGTH
    errors_before = errors.used[0]
    while layer >= 0 and (pos < stop or layer != DATA_NUMBER):
        if tables.follows[layer] == UNKNOWN:
            layer = SLOW
            break
        if tables.doubts[layer, OTHERWISE] != NO_DOUBT:
            if doubted(buffer, layer, pos, stop, reach, tables):
                wire_octets = tables.doubts[layer, WIRE_OCTETS]
                exact = exact or (wire_octets != 0 and reach - pos < wire_octets)
                layer = tables.doubts[layer, OTHERWISE]
            elif tables.doubts[layer, UNSHOWN_OCTETS] != 0 and not shows(buffer, layer, pos, stop, tables):
                exact = True
        fixed = tables.fixed[layer]
        if stop - pos < fixed:
            if reach - pos < fixed:
                _record_error(errors, row, layer, pos - begin, SHORT, fixed, stop - pos)
            elif reach - pos - fixed < tables.tail[layer, SHOWN_OCTETS] and shows(
                buffer, layer, pos, stop, tables
            ):
                _record_error(errors, row, layer, pos - begin, SAMPLE, reach - pos - fixed, 0)
            broken = True
            after = pos
        else:
            got, missing = variable_part(buffer, layer, pos, stop, tables)
            after = pos + fixed + max(0, got)
            trace(cache, layers, layer, pos - begin, after - pos)
            layers += 1
            if tables.tail[layer, TAIL_KIND] == MOVING_TAIL:
                layers += _trace_moving(cache, layers, buffer, begin, pos, after, layer, tables)
            open_ended = tables.tail[layer, TAIL_KIND] == REST_TAIL and got > 0 and not bounded
            settled = settled and bool(tables.settled[layer])
            if not tables.run[layer] or last != layer:
                node = step(paths, node, layer)
            last = layer
            broken = missing > 0
            if tables.refuses[layer]:
                wrong = refused(buffer, layer, pos, got, reach, tables)
                if wrong.what != NO_ERROR:
                    broken = True
                    _record_error(errors, row, layer, pos - begin, wrong.what, wrong.first, wrong.second)
            # Only the first error of a frame is recorded.
            if after + missing > reach:
                _record_error(errors, row, layer, pos - begin, SHORT, after + missing - pos, after - pos)
        if not broken and tables.sequenced[layer, CLOSED_BY] != NO_LAYER:
            closing = tables.sequenced[layer, CLOSED_BY]
            value = number_in(buffer, pos, tables.sequenced, layer, SELECTED)
            chain = tables.chains[tables.sequenced[layer, CHAINS_ROW], value]
            whole_stop, whole_reach = stop, reach
            fixed = tables.fixed[closing]
            reach -= fixed
            if reach < after:
                _record_error(errors, row, closing, after - begin, SHORT, fixed, stop - after)
                broken = True
            else:
                stop = min(stop, reach)
        if broken:
            settled = False
            if after < end:
                trace(cache, layers, DATA_NUMBER, after - begin, end - after)
                layers += 1
                node = step(paths, node, DATA_NUMBER)
                last = DATA_NUMBER
            pos = end
            break
        if closing != NO_LAYER:
            pos = after
            layer = tables.chain[chain]
            if layer != NO_LAYER:
                chain += 1
            elif pos < stop:
                layer = DATA_NUMBER
            if layer == NO_LAYER:
                layer, closing = closing, NO_LAYER
                stop, reach = whole_stop, whole_reach
                if stop == pos and pos < reach:
                    layer = NO_LAYER
            continue
        if wrapper == NO_LAYER and tables.follows[layer] == CONTENT:
            wrapper, wrapper_at = layer, pos
            selected = number_in(buffer, pos, tables.sequenced, layer, SELECTED)
            chain = tables.chains[tables.sequenced[layer, CHAINS_ROW], selected]
        if wrapper != NO_LAYER:
            pos = after
            if tables.chain[chain] != NO_LAYER:
                layer = tables.chain[chain]
                chain += 1
                continue
            following = content_format(buffer, wrapper, wrapper_at, selected, pos, stop, tables)
            layer, wrapper, wrapped = following.layer, NO_LAYER, True
            settled = settled and following.settled
            if layer == _ETHERNET:
                ethernet_at = pos
            continue
        if tables.follows[layer] == PORT:
            port_at = pos + tables.next_at[layer] - begin
        following = next_format(buffer, layer, pos, after, stop, tables)
        if following.length_at != NO_LENGTH:
            if following.bound == end and following.length_at != NOWHERE and not bounded:
                length_at = following.length_at - begin
            else:
                bounded = True
            if following.bound > reach and wrapped:
                reach = following.bound
            elif following.bound > reach:
                _record_error(errors, row, layer, pos - begin, SHORT, following.bound - pos, reach - pos)
            stop = min(stop, following.bound)
            reach = min(reach, following.bound)
        layer = following.layer
        settled = settled and following.settled
        pos = after
    if layer == SLOW:
        last = SLOW
    settled = settled and layer != SLOW and errors.used[0] == errors_before
    padded_to = ethernet_at - begin + MIN_OCTETS if frames.padded[row] or ethernet_at != begin else 0
    if bounded:
        length_at = NO_LENGTH
    return WalkResult(
        layers,
        last,
        node,
        pos - begin,
        end - begin,
        padded_to,
        settled,
        open_ended,
        exact,
        length_at,
        port_at,
    )


_AHEAD = 16
"""Number of frames ahead whose memory is prefetched; a memory load takes longer than one frame."""
_RUN_FRAMES = 4
"""Number of consecutive frames with one layout after which the next frames are processed as a run."""


@over_batches
def assign(
    frames: Frames,
    begin: int,
    end: int,
    tables: ParseTables,
    errors: Errors,
    paths: Paths,
    cache: LayoutCache,
    layout_of: NDArray[np.int32],
) -> int:
    """Assign layouts to frames ``begin`` to ``end``; return the first frame that exceeds the capacity."""
    buffer, offset, lengths, originals = frames.buffer, frames.offset, frames.captured, frames.original
    firsts, fcs, padded, layout = frames.first, frames.fcs, frames.padded, cache.layout
    ports = tables.ports
    before, alike = NO_LAYOUT, 0
    last = end - 1
    row = begin
    while row < end:
        at = np.uint64(row)
        start, captured, original = offset[at], lengths[at], originals[at]
        soon = offset[np.uint64(min(row + _AHEAD, last))]
        prefetch(buffer, soon)
        prefetch(buffer, soon + CACHE_LINE)
        first = signed(firsts[at])
        link = (first << 8 | signed(fcs[at])) << 1 | int(padded[at])
        bucket = hashed(tables, buffer, start, captured, link, first)
        number = NO_LAYOUT
        if bucket != NO_LAYOUT:
            cut = max(0, original - captured)
            number = find_layout(cache, bucket, ports, buffer, start, captured, cut, link)
        known = number
        if number == NO_LAYOUT:
            errors_before = errors.used[0]
            result = walk(frames, row, tables, errors, paths, cache)
            if result.node != NO_NODE:
                number = add_layout(cache, bucket, result, tables, buffer, start, captured, original, link)
            if number == NO_LAYOUT:
                errors.used[0] = errors_before
                return row
        number = variant(cache, number, buffer, start)
        layout[np.uint64(number), FRAMES] += 1
        layout_of[at] = number
        row += 1
        # Runs of one layout are common, so the next frames are first compared with the current layout.
        alike = alike + 1 if number == before and number == known else 0
        before = number
        if alike >= _RUN_FRAMES:
            row = _assign_run(frames, row, end, number, ports, cache, layout_of)
            alike = 0
    return end


@inlined
def _assign_run(
    frames: Frames,
    begin: int,
    end: int,
    number: int,
    ports: NDArray[np.int8],
    cache: LayoutCache,
    layout_of: NDArray[np.int32],
) -> int:
    """Assign the layout ``number`` to frames from ``begin`` until a frame differs; return that frame."""
    buffer, offset, lengths, originals = frames.buffer, frames.offset, frames.captured, frames.original
    firsts, fcs, padded, layout = frames.first, frames.fcs, frames.padded, cache.layout
    last = end - 1
    row = begin
    while row < end:
        at = np.uint64(row)
        start, captured = offset[at], lengths[at]
        soon = offset[np.uint64(min(row + _AHEAD, last))]
        prefetch(buffer, soon)
        prefetch(buffer, soon + CACHE_LINE)
        link = (signed(firsts[at]) << 8 | signed(fcs[at])) << 1 | int(padded[at])
        cut = max(0, originals[at] - captured)
        if captured < MIN_SHARED_OCTETS:
            break
        if not has_layout(cache, number, ports, buffer, start, captured, cut, link):
            break
        if variant(cache, number, buffer, start) != number:
            break
        layout_of[at] = number
        row += 1
    layout[np.uint64(number), FRAMES] += row - begin
    return row


_SPARE = 1024
_ERROR_NUMBERS = 5


def decoded_frame(frames: Frames, ethertypes: EtherTypes, row: int) -> Frame:
    """Return a frame decoded by the one-frame decoder."""
    start = int(frames.offset[row])
    frame = decode_lax(
        frames.buffer[start : start + int(frames.captured[row])].tobytes(),
        original_octets=int(frames.original[row]),
        fcs_octets=int(frames.fcs[row]),
        ethertypes=ethertypes,
        first=FORMATS[int(frames.first[row])],
    )
    if frames.padded[row] or frame.padded_at()[0]:
        return frame
    return dataclasses.replace(frame, padding=b"", trailer=frame.padding + frame.trailer)


def _moving_fields(layers: Sequence[Layer], bounds: Sequence[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the number and the bounds of each field without a fixed offset."""
    for value, end in zip(layers, bounds[1:], strict=True):
        # These fields are the last fields of their layer.
        for field in reversed(type(value).moving):
            start = end - len(getattr(value, field.key))
            yield MOVING_FIELDS[type(value), field.key], (start, end)
            end = start


class BatchPart:
    """The frames ``begin`` to ``end`` of a batch."""

    def __init__(
        self, frames: Frames, begin: int, end: int, layout_of: NDArray[np.int32], ethertypes: EtherTypes
    ) -> None:
        self.begin = begin
        self.end = end
        self.all_layouts = layout_of
        self.layout_of: NDArray[np.int32] = layout_of[begin:end]
        self.cache: LayoutCache = new_cache()
        self.paths: Paths = Paths(np.ones(1, np.int64), np.zeros((_SPARE, len(FORMATS)), np.int32))
        self.errors: Errors = Errors(
            used=np.zeros(1, np.int64),
            row=np.empty(end - begin, np.int64),
            what=np.empty((end - begin, _ERROR_NUMBERS), np.int64),
        )
        self.decoded: dict[int, Frame] = {}
        """Frames decoded by the one-frame decoder, by index."""
        self._frames, self._ethertypes = frames, ethertypes

    def find(self) -> None:
        """Find the layouts of the frames; enlarge the tables when they are full."""
        at = self.begin
        tables = parse_tables(self._ethertypes)
        while True:
            at = assign(
                self._frames, at, self.end, tables, self.errors, self.paths, self.cache, self.all_layouts
            )
            if at == self.end:
                break
            self._grow()
        slow = self.layouts[:, LAST] == SLOW
        if slow.any():
            for row in np.flatnonzero(slow[self.layout_of]).tolist():
                self._add_own_layout(self.begin + row)

    @property
    def layouts(self) -> NDArray[np.int64]:
        """All layouts, one per row; see `ecmproto.frames.columns.layout_cache` for the columns."""
        return self.cache.layout[: self.cache.used[0]]

    @property
    def layer(self) -> NDArray[np.int64]:
        """Layers of all layouts, concatenated."""
        return self.cache.layer[: self.cache.used[2]]

    def _grow(self) -> None:
        """Double the capacity of the full table: the paths if they are full, otherwise the layouts."""
        nodes = self.paths.next
        if self.paths.used[0] < len(nodes):
            self.cache = with_doubled_capacity(self.cache)
            return
        longer = np.zeros((2 * len(nodes), nodes.shape[1]), np.int32)
        longer[: len(nodes)] = nodes
        self.paths = self.paths._replace(next=longer)

    def decode(self, row: int) -> Frame:
        """Return a frame decoded by the one-frame decoder."""
        return decoded_frame(self._frames, self._ethertypes, row)

    def _add_own_layout(self, row: int) -> None:
        """Decode a frame with the one-frame decoder, and give it a separate layout."""
        frame = self.decoded[row] = self.decode(row)
        numbers = [NUMBER_OF[type(value)] for value in frame.layers]
        bounds = frame.boundaries()
        tails = (frame.padding, frame.trailer, frame.fcs)
        stops = list(itertools.accumulate(map(len, tails), initial=bounds[-1]))
        layers = [*zip(numbers, itertools.pairwise(bounds), strict=True)]
        layers += [
            (number, bounds_)
            for number, bounds_ in (
                *zip(TAIL_KINDS, itertools.pairwise(stops), strict=True),
                *_moving_fields(frame.layers, bounds),
            )
            if bounds_[0] < bounds_[1]
        ]
        first, number = len(self.layer), len(self.layouts)
        while first + len(layers) > len(self.cache.layer) or number == len(self.cache.layout):
            self._grow()
        while (node := self._node(numbers)) == NO_NODE:
            self._grow()
        rows = [(kind, start, stop - start) for kind, (start, stop) in layers]
        self.cache.layer[first : first + len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
        layout = self.cache.layout[number]
        layout[:] = 0
        layout[[FIRST_LAYER, LAYERS, TAIL, FCS_AT]] = first, len(rows), bounds[-1], stops[-2]
        layout[[ZEROS, LAST, NODE]] = len(frame.padding), numbers[-1] if numbers else NO_LAYER, node
        self.cache.used[:] += (1, 0, len(rows))
        self.layouts[self.all_layouts[row], FRAMES] -= 1
        layout[FRAMES] = 1
        self.all_layouts[row] = number

    def _node(self, numbers: list[int]) -> int:
        run = parse_tables(self._ethertypes).run
        node, last = 0, NO_LAYER
        for number in numbers:
            if not run[number] or last != number:
                node = step(self.paths, node, number)
            last = number
        return int(node)
