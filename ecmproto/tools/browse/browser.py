"""Operations of a capture browser: listing frames, filters, searches, flows, marks, and copies."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from ecmproto.errors import OutputError, counted
from ecmproto.frames.capture import Batch, CaptureCopier, exact_times, open_capture
from ecmproto.frames.dissect import records
from ecmproto.frames.dissect.form import Record, seconds_text
from ecmproto.frames.dissect.lines import KIND_STYLES, Lines
from ecmproto.frames.dissect.tree import TreeLine, tree_lines
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.frames.filter.evaluation import values_of
from ecmproto.frames.filter.fields import Constant, find
from ecmproto.frames.filter.literals import constant_text
from ecmproto.tools.browse.matches import FilterRun, Search
from ecmproto.tools.browse.pages import Pages
from ecmproto.units import NS_PER_S
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.codec.frame import Frame, encapsulated
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.infiniband import BTH
from ecmproto.wire.formats.ip import IPv4, IPv6
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.text import address_text

TimeFormat = Literal["relative", "delta", "delta shown", "utc", "epoch"]
"""Time formats: time since the first frame or the reference frame, time since the previous frame, time since
the previous displayed frame, time of day, and seconds since 1970.
"""
TIME_FORMATS: tuple[TimeFormat, ...] = get_args(TimeFormat)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrameRow:
    """A row of the frame list.

    ``style`` is the style of the frame type (`dissect.form.Paint`), which is often empty.
    """

    number: int
    time_ns: int | None
    addresses: str
    octets: int
    kind: str
    summary: str
    style: str


def time_text(time_ns: int | None, before_ns: int | None, form: TimeFormat) -> str:
    """Return a time as text in a format. ``before_ns`` is the origin of relative times."""
    if time_ns is None:
        return "-"
    if form == "epoch":
        return seconds_text(time_ns)
    if form == "utc":
        return time_of_day(time_ns)
    return seconds_text(time_ns - (time_ns if before_ns is None else before_ns))


def time_of_day(time_ns: int) -> str:
    """Return hours, minutes and seconds in UTC.

    If the year is out of range, the result is seconds since 1970.
    """
    seconds, ns = divmod(time_ns, NS_PER_S)
    try:
        moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return seconds_text(time_ns)
    return f"{moment:%H:%M:%S}.{ns:09d}"


_MESSAGES = tuple(cls for cls in FORMATS if cls.role == "message")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlowFilters:
    """A flow, with a filter for the frames of the flow and a filter for messages about the flow."""

    title: str
    is_message: bool
    """Whether the flow was found through a message."""
    frames: str
    messages: str

    @property
    def other(self) -> str:
        """The filter for the flow's frames if ``is_message`` is true, or else for the messages."""
        return self.frames if self.is_message else self.messages

    @property
    def both(self) -> str:
        """The filter for the frames of the flow and the messages about the flow."""
        return f"({self.frames}) or ({self.messages})"


def flow_of(frame: Frame) -> FlowFilters | None:
    """Return the flow of a frame or message.

    The result is ``None`` without addresses and for flow control frames.
    """
    message = next((layer for layer in frame.layers if isinstance(layer, _MESSAGES)), None)
    header = frame.get(Ethernet)
    packet = next((layer for layer in frame.layers if isinstance(layer, IPv4 | IPv6)), None)
    if isinstance(message, BTH) or (message is None and frame.get(BTH) is not None):
        if packet is None:
            return None
        return _between_addresses(packet, message is not None)
    if header is None or any(layer.role == "flow control" for layer in frame.layers):
        return None
    if message is None:
        return _between_stations(header.src, header.dst, frame.get("cntag.flow_id"), is_message=False)
    to = _shown_to(frame, message)
    flow_id = frame.get("cntag.flow_id") if to is not None else None
    return _between_stations(header.dst, to or header.src, flow_id, is_message=True)


def _shown_to(frame: Frame, message: Layer) -> bytes | None:
    """Return the destination of the frame in a message, or ``None`` without such a frame."""
    key = message.summary.shown_to
    if key:
        return bytes(getattr(message, key))
    shown = encapsulated(frame)
    header = shown.get(Ethernet) if shown is not None else None
    return header.dst if header is not None else None


def _between_stations(source: bytes, to: bytes, flow_id: int | None, *, is_message: bool) -> FlowFilters:
    src, dst = source.hex(":"), to.hex(":")
    tag = f" and cntag.flow_id == {flow_id}" if flow_id is not None else ""
    title = f"{src} → {dst}" + (f", flow {flow_id}" if flow_id is not None else "")
    return FlowFilters(
        title=title, is_message=is_message,
        frames=f"eth.src == {src} and eth.dst == {dst}{tag} and not ({' or '.join(_names(_MESSAGES))})",
        messages=f"eth.dst == {src} and ({' or '.join(_about(dst, tag))})",
    )  # fmt: skip


def _about(dst: str, tag: str) -> Iterator[str]:
    """Yield a filter for messages about the flow to ``dst``, for each group of formats."""
    showing = [cls for cls in _MESSAGES if cls.shows is Ethernet]
    plain = [cls for cls in _MESSAGES if cls.shows is None and not issubclass(cls, BTH)]
    for cls in _MESSAGES:
        if cls.summary.shown_to:
            yield f"({cls.prefix}.{cls.summary.shown_to} == {dst}{tag})"
    if showing:
        yield f"(encapsulated.eth.dst == {dst} and ({' or '.join(_names(showing))}))"
    if plain:
        yield f"(eth.src == {dst} and ({' or '.join(_names(plain))}))"


def _names(formats: Sequence[type[Layer]]) -> list[str]:
    return list(dict.fromkeys(cls.prefix for cls in formats))


def _between_addresses(packet: IPv4 | IPv6, is_message: bool) -> FlowFilters:
    """Return the flow of a RoCE packet, which includes all queue pairs between the two addresses."""
    name = type(packet).prefix
    src, dst = map(address_text, (packet.src, packet.dst))
    if is_message:
        src, dst = dst, src
    return FlowFilters(
        title=f"{src} → {dst}", is_message=is_message,
        frames=f"{name}.src == {src} and {name}.dst == {dst} and {BTH.prefix} and not cnp",
        messages=f"{name}.src == {dst} and {name}.dst == {src} and cnp",
    )  # fmt: skip


_CACHED_ROWS = 4096
Which = Literal["shown", "marked"]


class Browser:
    """A capture with a filter, marks and a time reference. Frame numbers start at 0.

    The rows are the displayed frames. Without a filter, all frames are displayed. Long operations run in
    threads that this class starts. Only one thread may use the class.
    """

    def __init__(self, pages: Pages, *, ethertypes: EtherTypes = DEFAULT) -> None:
        self.pages = pages
        self.ethertypes = ethertypes
        self.run: FilterRun | None = None
        """The current filter with the matches so far."""
        self.search: Search | None = None
        self.marks: set[int] = set()
        self.reference: int | None = None
        """The frame that is the origin of relative times. ``None`` means the first frame."""
        self._lines = Lines()
        self._cached: dict[int, FrameRow | None] = {}

    # rows

    @property
    def count(self) -> int:
        """The number of rows so far."""
        return self.pages.frames if self.run is None else len(self.run.found)

    @property
    def settled(self) -> bool:
        """Whether the number of rows is final."""
        return self.pages.complete and (self.run is None or self.run.done.is_set())

    def frame_at(self, row: int) -> int:
        """Return the frame in a row. Raises IndexError after the last row."""
        if not 0 <= row < self.count:
            raise IndexError(row)
        return row if self.run is None else self.run.found.frame_at(row)

    def row_of(self, frame: int) -> int:
        """Return the row of a frame. For a hidden frame, return the row of the next displayed frame."""
        return frame if self.run is None else self.run.found.before(frame)

    def is_known(self, frame: int) -> bool:
        """Return whether the filter has already tested a frame."""
        return frame < (self.pages.frames if self.run is None else self.run.found.scanned)

    def rows(self, first: int, count: int) -> Sequence[tuple[int, FrameRow | None]]:
        """Return up to ``count`` rows from ``first`` on, as pairs of frame number and row.

        The row is ``None`` if the frame is no longer in the file.
        """
        frames = [self.frame_at(row) for row in range(max(0, first), min(first + count, self.count))]
        missing = [frame for frame in frames if frame not in self._cached]
        if len(self._cached) + len(missing) > _CACHED_ROWS:
            self._cached.clear()
            missing = frames
        for frame in missing:
            record = self.record(frame)
            self._cached[frame] = None if record is None else self._row(record)
        return [(frame, self._cached[frame]) for frame in frames]

    def _row(self, record: Record) -> FrameRow:
        addresses, kind, summary = self._lines.parts(record)
        style = "error" if record.frame.error is not None else KIND_STYLES.get(kind, "")
        return FrameRow(
            number=record.number, time_ns=record.time_ns, addresses=addresses, octets=record.original_octets,
            kind=kind, summary=summary, style=style,
        )  # fmt: skip

    def record(self, frame: int) -> Record | None:
        """Return a decoded frame with its comments, or ``None`` if the frame is no longer in the file."""
        batch = self.pages.frame(frame)
        if batch is None:
            return None
        return next(records(batch, self.pages.interfaces, ethertypes=self.ethertypes, commented=True))

    def time_ns(self, frame: int) -> int | None:
        """Return the time of a frame, or ``None`` if the frame has no time."""
        batch = self.pages.frame(frame) if 0 <= frame < self.pages.frames else None
        if batch is None or (batch.timed is not None and not batch.timed[0]):
            return None
        return exact_times(batch, self.pages.interfaces)[0]

    def time_of(self, row: int, frame: int, form: TimeFormat) -> str:
        """Return the time of the frame in a row, as text in a format."""
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
        """Display only the frames that a display filter selects. An empty text displays all frames.

        Raises FilterError for an invalid filter.
        """
        filter = compile_filter(text) if text.strip() else None
        if self.run is not None:
            self.run.stop()
        self.run = None
        if filter is not None:
            self.run = FilterRun(self.pages, filter, self.ethertypes)
            self.run.start()

    @property
    def filter_text(self) -> str:
        """The text of the current filter, or an empty text without a filter."""
        return "" if self.run is None else self.run.filter.text

    def find(self, text: str, *, start: int, forward: bool) -> None:
        """Start a search for the next displayed frame that a display filter selects.

        Raises FilterError for an invalid filter.
        """
        self._find(compile_filter(text), start, forward)

    def find_again(self, *, start: int, forward: bool) -> bool:
        """Repeat the last search from another frame. Returns False if there was no search."""
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
        """Return the flow of a frame or message, or ``None`` without a flow."""
        record = self.record(frame)
        return None if record is None else flow_of(record.frame)

    def test_of(self, record: Record, lines: Sequence[TreeLine], at: int) -> str:
        """Return a filter for the value in a line of the frame tree, or an empty text without a field."""
        line = lines[at]
        field = find(line.name) if line.name else None
        if field is None:
            return ""
        if field.kind == "layer":
            return field.name
        values = values_of(field)(record)
        index = sum(other.name == line.name for other in lines[:at])
        if index >= len(values) or values[index] == b"":
            return field.name
        return f"{field.name} == {constant_text(Constant(kind=field.kind, value=values[index]))}"

    # marks and copies

    def mark(self, frame: int) -> bool:
        """Toggle the mark of a frame, and return whether the frame is now marked."""
        self.marks ^= {frame}
        return frame in self.marks

    def next_mark(self, frame: int, *, forward: bool) -> int | None:
        """Return the next marked frame that is displayed. The search wraps around.

        Returns ``None`` if no displayed frame is marked.
        """
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
        """Write the displayed frames or the marked frames to a capture, and return the number of frames.

        Only frames that are indexed at the start of the call are written. Records stay unchanged. Raises
        OutputError if ``stopped`` ends the writing early, or if the file exists and ``force`` is false.
        """
        frames = self.pages.frames if self.run is None else self.run.found.scanned
        marked = np.array(sorted(self.marks), np.int64)
        if not (len(marked) if which == "marked" else self.count):
            raise OutputError(path=path, needed=f"{which} frames to write", got="none")
        with open_capture(self.pages.file) as reader, CaptureCopier(reader, path, force=force) as copier:
            for item in reader.items():
                if stopped():
                    raise OutputError(path=path, needed="a complete copy", got="a stop")
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

    def messages(self) -> list[str]:
        """Return messages about work in progress and errors. The most important message is first."""
        pages, messages = self.pages, []
        if self.run is not None and self.run.error is not None:
            messages.append(f"filter: {self.run.error}")
        wrong = pages.problem or pages.defect
        if wrong is not None:
            messages.append(str(wrong))
        if not pages.complete and pages.live is None:
            messages.append(f"indexing, {counted(pages.frames, 'frame')}")
        if self.run is not None and not self.settled and self.run.found.scanned < pages.frames:
            percent = 100 * self.run.found.scanned // max(1, pages.frames)
            messages.append(f"filtering, {percent} %")
        return messages

    def close(self) -> None:
        """Stop all background work."""
        if self.run is not None:
            self.run.stop()
        if self.search is not None:
            self.search.stop()
        self.pages.close()
