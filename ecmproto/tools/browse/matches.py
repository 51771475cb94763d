"""Filters and searches that run in the background.

The first frames are tested one by one, so that results appear immediately. If there are enough frames, the
remaining frames are tested column by column, because loading the compiled code takes time.
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
_MIN_FRAMES = 24_576
"""The minimum number of frames for which loading compiled code is faster than testing frames one by one."""
_MIN_LOADED_FRAMES = 512
"""The minimum number of frames for using compiled code that is already loaded."""
_PAGES_AT_ONCE = 64


class FrameSet:
    """A set of frames, stored as one bit for each frame.

    Frames are added in order, and do not change afterwards.
    """

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._before = array("q", [0])
        """The number of selected frames before each block."""
        self._tail = np.zeros(_BLOCK_FRAMES, np.bool_)
        self._tail_frames = 0
        self._tail_count = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._before[-1] + self._tail_count

    @property
    def scanned(self) -> int:
        """The number of frames that were tested."""
        return len(self._blocks) * _BLOCK_FRAMES + self._tail_frames

    def extend(self, mask: Mask) -> None:
        """Add the mask of the next frames."""
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
        """Return the selected frame in a row.

        Rows and frames start at 0. Raises IndexError after the last row.
        """
        with self._lock:
            block = bisect_right(self._before, row) - 1
            inside = np.flatnonzero(self._bits(block))
            return block * _BLOCK_FRAMES + int(inside[row - self._before[block]])

    def before(self, frame: int) -> int:
        """Return the number of selected frames before ``frame``."""
        with self._lock:
            block = min(frame // _BLOCK_FRAMES, len(self._blocks))
            return self._before[block] + int(self._bits(block)[: frame - block * _BLOCK_FRAMES].sum())

    def __contains__(self, frame: int) -> bool:
        with self._lock:
            block, offset = divmod(frame, _BLOCK_FRAMES)
            bits = self._bits(block)
            return offset < len(bits) and bool(bits[offset])

    def masked(self, first: int, frames: int) -> Mask:
        """Return the mask of ``frames`` consecutive frames that start at ``first``."""
        mask = np.zeros(frames, np.bool_)
        at = first
        while at < first + frames:
            block, offset = divmod(at, _BLOCK_FRAMES)
            with self._lock:
                bits = self._bits(block)[offset : offset + first + frames - at]
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
    """A filter that tests batches frame by frame or column by column."""

    def __init__(self, filter: Filter, pages: Pages, ethertypes: EtherTypes) -> None:
        self._filter = filter
        self._pages = pages
        self._ethertypes = ethertypes

    def mask(self, batch: Batch, *, columns: bool) -> Mask:
        """Return a mask of the frames of a batch that the filter selects."""
        interfaces = self._pages.interfaces
        if columns:
            from ecmproto.frames.columns.selection import selected

            return selected(batch, self._filter, interfaces=interfaces, ethertypes=self._ethertypes)
        matches = self._filter.matches
        each = records(batch, interfaces, ethertypes=self._ethertypes)
        return np.fromiter((matches(record) for record in each), np.bool_, len(batch))


def many(frames: int) -> bool:
    """Return whether this number of frames should be tested column by column."""
    return frames >= (_MIN_LOADED_FRAMES if library.is_ready() else _MIN_FRAMES)


class FilterRun(Background):
    """A thread that applies a filter to all frames of a capture, including frames that arrive later.

    ``found`` contains the matches so far. ``done`` is set when all frames of a complete capture are tested,
    or when the thread is stopped. ``error`` is the exception that ended the thread early.
    """

    def __init__(self, pages: Pages, filter: Filter, ethertypes: EtherTypes) -> None:
        super().__init__("filter")
        self.filter = filter
        self.found: FrameSet = FrameSet()
        self._pages = pages
        self._tester = Tester(filter, pages, ethertypes)

    def _work(self) -> None:
        pages, result = self._pages, self.found
        while not self._stopping:
            if result.scanned == pages.frames:
                # A live capture may have no new frames for hours.
                if not pages.wait(result.scanned, 0.5) and pages.complete:
                    return
                continue
            page = pages.page_of(result.scanned)
            columns = result.scanned > 0 and many(pages.frames - result.scanned)
            stop = min(page + (_PAGES_AT_ONCE if columns else 1), pages.count)
            self._test(page, stop, columns)

    def _test(self, page: int, stop: int, columns: bool) -> None:
        result = self.found
        until = self._pages.first_of(stop)
        for batch in self._pages.batches(page, stop, compiled=columns):
            if self._stopping:
                return
            # A page may have grown since a part of it was tested.
            rest = _from(batch, result.scanned)
            if len(rest):
                result.extend(self._tester.mask(rest, columns=columns))
        if result.scanned < until:  # the frames are no longer in the file
            result.extend(np.zeros(until - result.scanned, np.bool_))


def _from(batch: Batch, frame: int) -> Batch:
    return batch if frame <= batch.first else batch.select(np.arange(frame - batch.first, len(batch)))


class Search(Background):
    """A thread that searches for the next frame that a filter selects.

    ``frame`` is the number of the found frame, which starts at 0, or ``None`` if no frame matches. The result
    is final when ``done`` is set.
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
        self.at: int = start
        """The current frame of the search."""
        self._pages = pages
        self._tester = Tester(filter, pages, ethertypes)
        self._start = start
        self._forward = forward
        self._within = within

    def _work(self) -> None:
        self.frame = self._find()

    def _find(self) -> int | None:
        tested = 0
        for page, stop in self._parts():
            columns = tested > 0 and many(_PAGES_AT_ONCE * tested)
            batches: Sequence[Batch] = list(self._pages.batches(page, stop, compiled=columns))
            for batch in batches if self._forward else reversed(batches):
                self.at = batch.first
                if self._stopping:
                    return None
                frame = self._in(batch, columns)
                if frame is not None:
                    return frame
                tested += len(batch)
        return None

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of pages in the direction of the search. The first ranges are short."""
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
        """Return the nearest matching frame in a batch."""
        numbers = batch.numbers
        candidates = numbers > self._start if self._forward else numbers < self._start
        if self._within is not None:
            candidates &= self._within.masked(batch.first, len(batch))
        rows = np.flatnonzero(candidates)
        if not len(rows):
            return None
        if columns:
            hits = rows[self._tester.mask(batch.select(rows), columns=True)]
            return int(numbers[hits[0 if self._forward else -1]]) if len(hits) else None
        for row in (rows if self._forward else rows[::-1]).tolist():
            if self._tester.mask(batch.select([row]), columns=False)[0]:
                return int(numbers[row])
        return None
