"""The operations on a capture: list its frames, filter, search, follow flows, mark, write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from ecmproto.errors import OutputError, counted
from ecmproto.frames.capture import Batch, CaptureCopier, exact_times, open_capture
from ecmproto.frames.dissect import Record, records
from ecmproto.frames.dissect.tree import TreeLine, tree_lines
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.frames.filter.evaluation import values_of
from ecmproto.frames.filter.fields import Constant, find
from ecmproto.frames.filter.literals import constant_text
from ecmproto.tools.browse.flows import FlowFilters, flow_of
from ecmproto.tools.browse.matches import FilterRun, Search
from ecmproto.tools.browse.pages import Pages
from ecmproto.tools.browse.rows import FrameRow, Rows, TimeFormat, time_text
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT

_CACHED_ROWS = 4096
Which = Literal["shown", "marked"]


class Browser:
    """A capture and its view: the filter, marks, times; frames are counted from 0.

    Rows are the frames shown, all without a filter.  Long operations run in threads of their own; the methods
    are for one thread.
    """

    def __init__(self, pages: Pages, *, ethertypes: EtherTypes = DEFAULT) -> None:
        self.pages = pages
        self.ethertypes = ethertypes
        self.run: FilterRun | None = None
        """The applied filter, with its matches so far."""
        self.search: Search | None = None
        """The last search."""
        self.marks: set[int] = set()
        self.reference: int | None = None
        """The reference frame of relative times; None: the first."""
        self._rows = Rows()
        self._known: dict[int, FrameRow | None] = {}

    # rows

    @property
    def count(self) -> int:
        """The number of rows so far."""
        return self.pages.frames if self.run is None else len(self.run.found)

    @property
    def settled(self) -> bool:
        """Whether no more rows will come."""
        return self.pages.complete and (self.run is None or self.run.done.is_set())

    def frame_at(self, row: int) -> int:
        """Return the frame in a row; IndexError after the last."""
        if not 0 <= row < self.count:
            raise IndexError(row)
        return row if self.run is None else self.run.found.frame_at(row)

    def row_of(self, frame: int) -> int:
        """Return the row of a frame; for a hidden one, of the next shown."""
        return frame if self.run is None else self.run.found.before(frame)

    def is_known(self, frame: int) -> bool:
        """Return whether the filter has reached a frame."""
        return frame < (self.pages.frames if self.run is None else self.run.found.scanned)

    def rows(self, first: int, count: int) -> Sequence[tuple[int, FrameRow | None]]:
        """Return the frames in rows from ``first`` on, with their list entries: None for a missing one."""
        frames = [self.frame_at(row) for row in range(max(0, first), min(first + count, self.count))]
        missing = [frame for frame in frames if frame not in self._known]
        if len(self._known) + len(missing) > _CACHED_ROWS:
            self._known.clear()
            missing = frames
        for frame in missing:
            record = self.record(frame)
            self._known[frame] = None if record is None else self._rows.row(record)
        return [(frame, self._known[frame]) for frame in frames]

    def record(self, frame: int) -> Record | None:
        """Return a frame decoded, with its comments; None if it is missing in the file."""
        batch = self.pages.frame(frame)
        if batch is None:
            return None
        return next(records(batch, self.pages.interfaces, ethertypes=self.ethertypes, commented=True))

    def time_ns(self, frame: int) -> int | None:
        """Return the time of a frame; None without one."""
        batch = self.pages.frame(frame) if 0 <= frame < self.pages.frames else None
        if batch is None or (batch.timed is not None and not batch.timed[0]):
            return None
        return exact_times(batch, self.pages.interfaces)[0]

    def time_of(self, row: int, frame: int, form: TimeFormat) -> str:
        """Return the time of the frame in a row in a format."""
        match form:
            case "relative":
                before = 0 if self.reference is None else self.reference
            case "delta":
                before = max(0, frame - 1)
            case "delta shown":
                before = self.frame_at(max(0, row - 1))
            case _:
                before = frame
        return time_text(self.time_ns(frame), self.time_ns(before), form)

    def tree(self, record: Record) -> Iterator[TreeLine]:
        """Yield the lines of a frame's tree."""
        origin = self.time_ns(0 if self.reference is None else self.reference)
        return tree_lines(record, origin_ns=origin)

    # filters

    def apply(self, text: str) -> None:
        """Show only the frames that a display filter selects; all with an empty one.  FilterError."""
        filter = compile_filter(text) if text.strip() else None
        if self.run is not None:
            self.run.stop()
        self.run = None
        if filter is not None:
            self.run = FilterRun(self.pages, filter, self.ethertypes)
            self.run.start()

    @property
    def filter_text(self) -> str:
        """The applied filter as text; empty without one."""
        return "" if self.run is None else self.run.filter.text

    def find(self, text: str, *, start: int, forward: bool) -> None:
        """Begin to search for the next shown frame that a display filter selects.  FilterError."""
        self._find(compile_filter(text), start, forward)

    def find_again(self, *, start: int, forward: bool) -> bool:
        """Begin to repeat the search from another frame; False without an earlier one."""
        if self.search is None:
            return False
        self._find(self.search.filter, start, forward)
        return True

    def _find(self, filter: Filter, start: int, forward: bool) -> None:
        if self.search is not None:
            self.search.stop()
        within = None if self.run is None else self.run.found
        self.search = Search(self.pages, filter, self.ethertypes, start=start, forward=forward, within=within)
        self.search.start()

    def flow(self, frame: int) -> FlowFilters | None:
        """Return the flow of a frame, or of a message's subject; None without one."""
        record = self.record(frame)
        return None if record is None else flow_of(record.frame)

    def test_of(self, record: Record, lines: Sequence[TreeLine], at: int) -> str:
        """Return the filter for a line of a frame's tree; "" for a line without a field."""
        line = lines[at]
        field = find(line.name) if line.name else None
        if field is None:
            return ""
        if field.kind == "layer":
            return field.name
        values = values_of(field)(record)
        place = sum(other.name == line.name for other in lines[:at])
        if place >= len(values) or values[place] == b"":
            return field.name
        return f"{field.name} == {constant_text(Constant(kind=field.kind, value=values[place]))}"

    # marks and copies

    def mark(self, frame: int) -> bool:
        """Mark or unmark a frame; return whether it is marked now."""
        self.marks ^= {frame}
        return frame in self.marks

    def next_mark(self, frame: int, *, forward: bool) -> int | None:
        """Return the next marked frame that is shown, beginning anew at the end; None without one."""
        shown = [each for each in sorted(self.marks) if self.run is None or each in self.run.found]
        if not shown:
            return None
        ahead = (
            [each for each in shown if each > frame] if forward else [each for each in shown if each < frame]
        )
        if forward:
            return (ahead or shown)[0]
        return (ahead or shown)[-1]

    def write(
        self, path: str, which: Which, *, force: bool = False, stopped: Callable[[], bool] = lambda: False
    ) -> int:
        """Write the frames that are shown, or marked, to a capture; return their number.

        Only frames known at the start are written, as unchanged records.  ``stopped`` ends it early, with an
        OutputError and no file; an existing file is an OutputError too unless ``force``.
        """
        frames = self.pages.frames if self.run is None else self.run.found.scanned
        marked = np.array(sorted(self.marks), np.int64)
        if not (len(marked) if which == "marked" else self.count):
            raise OutputError(path=path, needed=f"{which} frames to write", got="none")
        with open_capture(self.pages.file) as reader, CaptureCopier(reader, path, force=force) as copier:
            for item in reader.items():
                if stopped():
                    raise OutputError(path=path, needed="time to write it", got="a stop")
                if not isinstance(item, Batch):
                    copier.write(item)
                    continue
                if item.first >= frames:
                    break
                part = item.select(self._mask(item, which, marked, frames))
                if len(part):
                    copier.write(part)
            return copier.frames

    def _mask(
        self, batch: Batch, which: Which, marked: np.ndarray[tuple[int], np.dtype[np.int64]], frames: int
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if which == "marked":
            return np.isin(batch.numbers, marked)
        if self.run is not None:
            return self.run.found.masked(batch.first, len(batch))
        return batch.numbers < frames

    # state

    def told(self) -> list[str]:
        """Return sentences on running operations and errors, the most important first."""
        pages, told = self.pages, []
        if self.run is not None and self.run.error is not None:
            told.append(f"filter: {self.run.error}")
        wrong = pages.problem or pages.defect
        if wrong is not None:
            told.append(str(wrong))
        if not pages.complete and pages.live is None:
            told.append(f"indexing, {counted(pages.frames, 'frame')}")
        if self.run is not None and not self.settled and self.run.found.scanned < pages.frames:
            percent = 100 * self.run.found.scanned // max(1, pages.frames)
            told.append(f"filtering, {percent} %")
        return told

    def close(self) -> None:
        """End all running operations."""
        if self.run is not None:
            self.run.stop()
        if self.search is not None:
            self.search.stop()
        self.pages.close()
