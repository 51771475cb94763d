"""The layers of a batch's frames, format by format, and what else the walk finds."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ecmproto.filter.reading import protocols
from ecmproto.table.columns.column import Texts
from ecmproto.table.columns.shapes import no_shapes
from ecmproto.table.columns.threads import together
from ecmproto.table.columns.transitions import NUMBER_OF, transitions
from ecmproto.table.columns.walk import NO_LAYER, SLOW, Ends, Errors, Frames, Lists, Paths, walk
from ecmproto.wire.decoder import decode_lax
from ecmproto.wire.ethertypes import EtherTypes
from ecmproto.wire.formats import FORMATS
from ecmproto.wire.frame import Frame
from ecmproto.wire.layer import Layer

Int64 = NDArray[np.int64]

_SPARE = 4096
_ODD = 40
"""Keeps the lists of formats from starting at the same place of a page, which caches do not like."""
_ERROR_NUMBERS = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entries:
    """Every layer of one format: the frame that has it, where it starts in the buffer, its octets."""

    row: NDArray[np.int32]
    start: Int64
    octets: NDArray[np.int32]

    def select(self, picks: NDArray[np.bool_]) -> Entries:
        """Return those where a mask is True."""
        return Entries(row=self.row[picks], start=self.start[picks], octets=self.octets[picks])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayersFound:
    """What the walk found of some formats."""

    frames: Frames
    ends: Ends
    entries: dict[type[Layer], Entries]
    """Of the formats asked for of which there are any."""
    error_rows: NDArray[np.int32]
    errors: Texts
    """What is malformed, a value for each of ``error_rows``."""
    protocols: Texts
    """The names of each frame's layers."""


class _Part:
    """A range of the frames with the room for what is found in it."""

    def __init__(self, frames: Frames, begin: int, end: int, wanted: NDArray[np.bool_]) -> None:
        self.begin, self.end = begin, end
        self._frames = frames
        count, capacity = end - begin, end - begin + _SPARE + _ODD
        formats = len(FORMATS)
        self.lists = Lists(
            wanted=wanted,
            counts=np.zeros(formats, np.int64),
            entry=np.empty((formats, 2 * capacity), np.int64),
        )
        self.errors = Errors(
            used=np.zeros(1, np.int64),
            row=np.empty(count, np.int64),
            what=np.empty((count, _ERROR_NUMBERS), np.int64),
        )
        self.shapes = no_shapes()
        self.paths = Paths(used=np.ones(1, np.int64), next=np.zeros((_SPARE, formats), np.int32))

    def walk(self, ethertypes: EtherTypes, ends: Ends) -> None:
        """Walk over the range, with more room as often as it takes."""
        at = self.begin
        tables = transitions(ethertypes)
        while True:
            at = walk(
                self._frames, at, self.end, tables, self.lists, ends, self.errors, self.paths, self.shapes
            )
            if at == self.end:
                return
            self._grow(int(self._frames.captured[at]))

    def _grow(self, more: int) -> None:
        lists, used = self.lists, int(self.lists.counts.max())
        room = lists.entry.shape[1] // 2
        if room < used + more:
            wider = np.empty((len(lists.entry), 2 * max(2 * room, used + 2 * more)), np.int64)
            wider[:, : 2 * room] = lists.entry
            self.lists = lists._replace(entry=wider)
        nodes = self.paths.next
        if len(nodes) < int(self.paths.used[0]) + more:
            longer = np.zeros((2 * len(nodes) + 2 * more, nodes.shape[1]), np.int32)
            longer[: len(nodes)] = nodes
            self.paths = self.paths._replace(next=longer)


def find_layers(
    frames: Frames,
    wanted: Collection[type[Layer]],
    ethertypes: EtherTypes,
    pool: ThreadPoolExecutor | None,
) -> LayersFound:
    """Walk over frames and return where the layers of the formats ``wanted`` stand."""
    count = len(frames.offset)
    ends = Ends(
        tail=np.empty(count, np.int64),
        trailer=np.empty(count, np.int64),
        fcs=np.empty(count, np.int64),
        last=np.empty(count, np.int8),
        path=np.empty(count, np.int32),
    )
    mask = np.array([cls in wanted for cls in FORMATS])
    cuts = (0, count) if pool is None else (0, count // 2, count)
    parts = [_Part(frames, begin, end, mask) for begin, end in itertools.pairwise(cuts)]
    together([partial(part.walk, ethertypes, ends) for part in parts], pool)
    entries = {
        cls: _joined([part.lists for part in parts], NUMBER_OF[cls])
        for cls in wanted
        if any(part.lists.counts[NUMBER_OF[cls]] for part in parts)
    }
    decode = partial(decoded_frame, frames, ethertypes)
    told = _told(parts, decode)
    words = _named(parts, ends)
    slow = np.flatnonzero(ends.last == SLOW)
    if len(slow):
        return _with_slow(
            frames, ends, entries, told, words, {int(row): decode(int(row)) for row in slow}, wanted
        )
    return LayersFound(
        frames=frames,
        ends=ends,
        entries=entries,
        error_rows=told[0],
        errors=told[1],
        protocols=words,
    )


def _joined(lists: list[Lists], number: int) -> Entries:
    parts = [each.entry[number, : 2 * each.counts[number]] for each in lists]
    pairs = (parts[0] if len(parts) == 1 else np.concatenate(parts)).reshape(-1, 2)
    words = pairs.view(np.int32)
    low, high = (2, 3) if sys.byteorder == "little" else (3, 2)
    return Entries(
        row=np.ascontiguousarray(words[:, high]),
        start=np.ascontiguousarray(pairs[:, 0]),
        octets=words[:, low],
    )


def decoded_frame(frames: Frames, ethertypes: EtherTypes, row: int) -> Frame:
    """Return a frame as the one-frame decoder has it."""
    start = int(frames.offset[row])
    frame = decode_lax(
        frames.buffer[start : start + int(frames.captured[row])].tobytes(),
        original_octets=int(frames.original[row]),
        fcs_octets=int(frames.fcs[row]),
        ethertypes=ethertypes,
        first=FORMATS[int(frames.first[row])],
    )
    if frames.padded[row]:
        return frame
    return dataclasses.replace(frame, padding=b"", trailer=frame.padding + frame.trailer)


def _told(parts: list[_Part], decode: Callable[[int], Frame]) -> tuple[NDArray[np.int32], Texts]:
    """Return which frames are malformed and how: each way is put in words once, by the decoder."""
    rows = np.concatenate([part.errors.row[: part.errors.used[0]] for part in parts])
    what = np.concatenate([part.errors.what[: part.errors.used[0]] for part in parts])
    if not len(rows):
        return rows.astype(np.int32), Texts(codes=np.empty(0, np.int32), words=())
    _, first, inverse = np.unique(what, axis=0, return_index=True, return_inverse=True)
    words = [str(decode(int(rows[index])).error) for index in first]
    return rows.astype(np.int32), _coded(inverse, words)


def _coded(places: NDArray[np.integer], words: Iterable[str]) -> Texts:
    """Return texts whose words are each there once, of places among words that may repeat."""
    codes: dict[str, int] = {}
    code_of = np.array([codes.setdefault(word, len(codes)) for word in words], np.int32)
    return Texts(codes=code_of[places.reshape(-1)], words=tuple(codes))


class _Path:
    """The layers of a path, as far as their names go."""

    def __init__(self, layers: tuple[type[Layer], ...]) -> None:
        self.layers = layers


def _named(parts: list[_Part], ends: Ends) -> Texts:
    """Return each frame's protocols, and the paths' nodes of all parts as places among all their words."""
    words: list[str] = []
    places = np.empty(len(ends.path), np.int64)
    for part in parts:
        places[part.begin : part.end] = ends.path[part.begin : part.end] + np.int64(len(words))
        words += _words(part.paths)
    return _coded(places, words) if words else Texts(codes=np.empty(0, np.int32), words=())


def _words(paths: Paths) -> list[str]:
    """Return the text of each node, in order: a node comes behind the one it follows."""
    count = int(paths.used[0])
    layers: list[tuple[type[Layer], ...]] = [()] * count
    for node, number in np.argwhere(paths.next[:count]):
        layers[paths.next[node, number]] = (*layers[node], FORMATS[number])
    return [protocols(_Path(path)) for path in layers]  # type: ignore[arg-type]


def _with_slow(
    frames: Frames,
    ends: Ends,
    entries: dict[type[Layer], Entries],
    told: tuple[NDArray[np.int32], Texts],
    words: Texts,
    decoded: dict[int, Frame],
    wanted: Collection[type[Layer]],
) -> LayersFound:
    """Return what was found with ``decoded`` in place of what the walk could not tell."""
    is_slow = ends.last == SLOW
    merged = {cls: _merged(cls, entries.get(cls), is_slow, frames, decoded) for cls in wanted}
    for row, frame in decoded.items():
        start = int(frames.offset[row])
        ends.fcs[row] = start + int(frames.captured[row]) - len(frame.fcs)
        ends.trailer[row] = ends.fcs[row] - len(frame.trailer)
        ends.tail[row] = ends.trailer[row] - len(frame.padding)
        ends.last[row] = NUMBER_OF[type(frame.layers[-1])] if frame.layers else NO_LAYER
    rows, errors = told
    kept = ~is_slow[rows]
    wrong = {row: str(frame.error) for row, frame in decoded.items() if frame.error is not None}
    all_rows = np.concatenate([rows[kept], np.array(list(wrong), np.int32)])
    order = np.argsort(all_rows, kind="stable")
    texts = [*errors.select(kept), *wrong.values()]
    names = list(words)
    for row, frame in decoded.items():
        names[row] = protocols(frame)
    return LayersFound(
        frames=frames,
        ends=ends,
        entries={cls: found for cls, found in merged.items() if len(found.row)},
        error_rows=all_rows[order],
        errors=_coded(order, texts) if texts else Texts(codes=np.empty(0, np.int32), words=()),
        protocols=_coded(np.arange(len(names)), names),
    )


def _merged(
    cls: type[Layer],
    found: Entries | None,
    is_slow: NDArray[np.bool_],
    frames: Frames,
    decoded: dict[int, Frame],
) -> Entries:
    rows: list[tuple[int, int, int]] = []
    for row, frame in decoded.items():
        start = int(frames.offset[row])
        bounds = frame.boundaries()
        rows += [
            (row, start + bounds[i], bounds[i + 1] - bounds[i])
            for i, value in enumerate(frame.layers)
            if type(value) is cls
        ]
    added = np.array(rows, np.int64).reshape(-1, 3)
    if found is not None:
        kept = ~is_slow[found.row]
        old = np.stack([found.row[kept], found.start[kept], found.octets[kept]], axis=1)
        added = np.concatenate([old, added])
        # stable: the layers of one frame stay in order
        added = added[np.argsort(added[:, 0], kind="stable")]
    return Entries(
        row=added[:, 0].astype(np.int32), start=added[:, 1].copy(), octets=added[:, 2].astype(np.int32)
    )
