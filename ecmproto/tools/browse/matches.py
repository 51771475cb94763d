"""What filters select of a capture, found in the background: which frames, and where the next one is.

The first frames are looked at one by one, so that something is there at once; the many behind them column by
column, once there are so many that loading the kernels pays.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture import Batch
from ecmproto.frames.dissect import records
from ecmproto.frames.filter import Filter
from ecmproto.kernels import library
from ecmproto.tools.browse.background import Background
from ecmproto.tools.browse.pages import Pages
from ecmproto.wire.codec import EtherTypes

Mask = NDArray[np.bool_]

_BLOCK_FRAMES = 8192
_MANY_FRAMES = 24_576
"""From so many frames on, loading kernels takes less time than looking at them one by one."""
_LOADED_FRAMES = 512
"""The same, where they are loaded."""
_PAGES_AT_ONCE = 64


class FrameSet:
    """Some of a capture's frames, a bit for each; the frames come in order and are never taken back."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._before = array("q", [0])
        """How many are in the blocks in front of each block."""
        self._tail = np.zeros(_BLOCK_FRAMES, np.bool_)
        self._tail_frames = 0
        self._tail_count = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._before[-1] + self._tail_count

    @property
    def scanned(self) -> int:
        """Of how many frames it is known whether they are in it."""
        return len(self._blocks) * _BLOCK_FRAMES + self._tail_frames

    def extend(self, mask: Mask) -> None:
        """Say of the next frames whether they are in it."""
        with self._lock:
            while len(mask):
                part = mask[: _BLOCK_FRAMES - self._tail_frames]
                self._tail[self._tail_frames : self._tail_frames + len(part)] = part
                self._tail_frames += len(part)
                self._tail_count += int(part.sum())
                mask = mask[len(part) :]
                if self._tail_frames == _BLOCK_FRAMES:
                    self._blocks.append(np.packbits(self._tail).tobytes())
                    self._before.append(self._before[-1] + self._tail_count)
                    self._tail_frames = self._tail_count = 0

    def frame_at(self, row: int) -> int:
        """Return the frame (from 0) that is the ``row``-th (from 0) in it; IndexError behind the last."""
        with self._lock:
            block = bisect_right(self._before, row) - 1
            inside = np.flatnonzero(self._bits(block))
            return block * _BLOCK_FRAMES + int(inside[row - self._before[block]])

    def before(self, frame: int) -> int:
        """Return how many of the frames in front of ``frame`` are in it."""
        with self._lock:
            block = min(frame // _BLOCK_FRAMES, len(self._blocks))
            return self._before[block] + int(self._bits(block)[: frame - block * _BLOCK_FRAMES].sum())

    def __contains__(self, frame: int) -> bool:
        with self._lock:
            block, place = divmod(frame, _BLOCK_FRAMES)
            bits = self._bits(block)
            return place < len(bits) and bool(bits[place])

    def masked(self, first: int, frames: int) -> Mask:
        """Return for ``frames`` frames from ``first`` on whether they are in it."""
        mask = np.zeros(frames, np.bool_)
        at = first
        while at < first + frames:
            block, place = divmod(at, _BLOCK_FRAMES)
            with self._lock:
                bits = self._bits(block)[place : place + first + frames - at]
            if not len(bits):
                break
            mask[at - first : at - first + len(bits)] = bits
            at += len(bits)
        return mask

    def _bits(self, block: int) -> Mask:
        if block < len(self._blocks):
            return np.unpackbits(np.frombuffer(self._blocks[block], np.uint8)).astype(np.bool_)
        return self._tail[: self._tail_frames if block == len(self._blocks) else 0]


class Tester:
    """Says of batches which frames a filter selects, one by one or column by column."""

    def __init__(self, filter: Filter, pages: Pages, ethertypes: EtherTypes) -> None:
        self._filter = filter
        self._pages = pages
        self._ethertypes = ethertypes

    def mask(self, batch: Batch, *, columns: bool) -> Mask:
        """Return which frames of a batch it selects."""
        interfaces = self._pages.interfaces
        if columns:
            from ecmproto.frames.columns.selection import selected

            return selected(batch, self._filter, interfaces=interfaces, ethertypes=self._ethertypes)
        matches = self._filter.matches
        each = records(batch, interfaces, ethertypes=self._ethertypes)
        return np.fromiter((matches(record) for record in each), np.bool_, len(batch))


def many(frames: int) -> bool:
    """Return whether so many frames are better looked at column by column."""
    return frames >= (_LOADED_FRAMES if library.is_ready() else _MANY_FRAMES)


class FilterRun(Background):
    """A filter applied to all frames of a capture from the first on, in a thread, as they come.

    ``found`` grows; ``done`` is set when all frames of a complete capture were looked at, or it was stopped.
    ``error`` is what ended it otherwise.
    """

    def __init__(self, pages: Pages, filter: Filter, ethertypes: EtherTypes) -> None:
        super().__init__("filter")
        self.filter = filter
        self.found = FrameSet()
        self._pages = pages
        self._tester = Tester(filter, pages, ethertypes)

    def _work(self) -> None:
        pages, found = self._pages, self.found
        while not self._stopping:
            if found.scanned == pages.frames:
                # a capture of an interface may wait for hours
                if not pages.wait(found.scanned, 0.5) and pages.complete:
                    return
                continue
            page = pages.page_of(found.scanned)
            columns = found.scanned > 0 and many(pages.frames - found.scanned)
            stop = min(page + (_PAGES_AT_ONCE if columns else 1), pages.count)
            self._look(page, stop, columns)

    def _look(self, page: int, stop: int, columns: bool) -> None:
        found = self.found
        until = self._pages.first_of(stop)
        for batch in self._pages.batches(page, stop, compiled=columns):
            if self._stopping:
                return
            # a page may have grown since a part of it was looked at
            rest = _from(batch, found.scanned)
            if len(rest):
                found.extend(self._tester.mask(rest, columns=columns))
        if found.scanned < until:  # gone from the file
            found.extend(np.zeros(until - found.scanned, np.bool_))


def _from(batch: Batch, frame: int) -> Batch:
    """Return the frames of a batch from ``frame`` on."""
    return batch if frame <= batch.first else batch.select(np.arange(frame - batch.first, len(batch)))


class Search(Background):
    """The search for the next frame that a filter selects, in a thread.

    ``frame`` is it (from 0), None when there is none; that is known once ``done`` is set.
    """

    def __init__(
        self,
        pages: Pages,
        filter: Filter,
        ethertypes: EtherTypes,
        *,
        start: int,
        forward: bool,
        within: FrameSet | None = None,
    ) -> None:
        super().__init__("search")
        self.filter = filter
        self.frame: int | None = None
        self.at = start
        """How far it has come."""
        self._pages = pages
        self._tester = Tester(filter, pages, ethertypes)
        self._start = start
        self._forward = forward
        self._within = within

    def _work(self) -> None:
        self.frame = self._find()

    def _find(self) -> int | None:
        looked = 0
        for page, stop in self._parts():
            columns = looked > 0 and many(_PAGES_AT_ONCE * looked)
            batches: Sequence[Batch] = list(self._pages.batches(page, stop, compiled=columns))
            for batch in batches if self._forward else reversed(batches):
                self.at = batch.first
                if self._stopping:
                    return None
                place = self._in(batch, columns)
                if place is not None:
                    return place
                looked += len(batch)
        return None

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Yield runs of pages on the way, short ones first."""
        pages = self._pages
        size = 1
        if self._forward:
            page = pages.page_of(self._start)
            while page < pages.count:
                stop = min(page + size, pages.count)
                yield page, stop
                page, size = stop, min(2 * size, _PAGES_AT_ONCE)
        else:
            stop = pages.page_of(self._start) + 1
            while stop > 0:
                page = max(0, stop - size)
                yield page, stop
                stop, size = page, min(2 * size, _PAGES_AT_ONCE)

    def _in(self, batch: Batch, columns: bool) -> int | None:
        """Return the nearest frame of a batch that is asked for."""
        numbers = batch.numbers
        there = numbers > self._start if self._forward else numbers < self._start
        if self._within is not None:
            there &= self._within.masked(batch.first, len(batch))
        places = np.flatnonzero(there)
        if not len(places):
            return None
        if columns:
            hits = places[self._tester.mask(batch.select(places), columns=True)]
            return int(numbers[hits[0 if self._forward else -1]]) if len(hits) else None
        for place in (places if self._forward else places[::-1]).tolist():
            if self._tester.mask(batch.select([place]), columns=False)[0]:
                return int(numbers[place])
        return None
