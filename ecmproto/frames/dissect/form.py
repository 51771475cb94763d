"""The frames of a capture one by one, and the base of all output forms.

A `Record` is a captured frame with record data, octets and decoded layers. Among link types other than
Ethernet, only Linux cooked and raw IP are decoded. If such a frame has no MAC addresses, none are invented. A
form returns the text before the frames, the text of each frame, and the text after the frames. The text of a
whole batch is the same as the texts of its frames.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import DecodeError
from ecmproto.frames.batch.beginnings import first_format
from ecmproto.frames.capture import Batch, CaptureReader, Interface, comments, exact_times
from ecmproto.frames.capture.batch import ETHERNET, SIMPLE_PACKET, Displayed
from ecmproto.frames.capture.pcapng import COMMENT, END_OF_OPTIONS
from ecmproto.tables import Paint as Paint
from ecmproto.tables import plain as plain
from ecmproto.units import NS_PER_S, elapsed_ns
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import Frame, assembled, decode_lax
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ecmproto.frames.columns.text.pieces import Path, Piece
    from ecmproto.frames.columns.text.renderer import Renderer


class Form(Protocol):
    """Interface of an output form; the whole output is the three texts, joined."""

    def begin(self, reader: CaptureReader) -> str:
        """Return the text before the first frame.

        The method is called after ``reader`` has read up to the first frame.
        """

    def passed(self, record: Record) -> None:
        """Register a frame that is not shown and precedes the next frame."""

    def record(self, record: Record) -> str:
        """Return the text of a frame, with its line ends."""

    def end(self, reader: CaptureReader) -> str:
        """Return the text after the last frame."""


class Listing(ABC):
    """A form that writes only frames.

    Times are relative to the first frame of the capture, whether it is shown or not.
    """

    origin_ns: int | None = None
    """Origin of relative times, in ns since 1970."""
    ethertypes: EtherTypes = DEFAULT
    """EtherTypes of the frames in batches."""
    commented = False
    """Whether the form shows the comments of records."""
    columnar = True
    """Whether kernels can write batches; otherwise, frames are written one by one."""
    sampled = True
    """Whether the form shows quoted frames."""
    malformed = True
    """Whether the pieces show the errors of malformed frames."""
    wrong: Callable[[DecodeError], str] | None = None
    """Function from an error to its text, if the form shows the errors of quoted malformed frames."""
    _renderer: Renderer | None = None

    def begin(self, reader: CaptureReader) -> str:
        """Return an empty text."""
        return ""

    def passed(self, record: Record) -> None:
        """Use the time of the frame as the origin of times, unless an origin is set."""
        if self.origin_ns is None:
            self.origin_ns = record.time_ns

    @abstractmethod
    def record(self, record: Record) -> str:
        """Return the text of a frame, with its line ends."""

    @abstractmethod
    def pieces(self, path: Path) -> list[Piece]:
        """Return the pieces of the text of frames with the layers of ``path``."""

    def among_others(self, record: Record) -> str:
        """Return the text of a frame within the text of a batch."""
        return self.record(record)

    def end(self, reader: CaptureReader) -> str:
        """Return an empty text."""
        return ""

    def batch(
        self,
        batch: Batch,
        interfaces: Sequence[Interface],
        *,
        ethertypes: EtherTypes = DEFAULT,
        shown: NDArray[np.bool_] | None = None,
        pool: ThreadPoolExecutor | None = None,
    ) -> Iterator[bytes | memoryview]:
        """Return the text of a batch in parts of UTF-8; a part is valid until the next part is requested.

        The joined parts equal the output of `record` for the frames selected by ``shown`` and of `passed` for
        all other frames. ``None`` selects all frames. ``pool`` starts the work immediately. This method
        compiles and loads kernels, so it is intended for large captures.
        """
        self.follow(batch, interfaces)
        batch = (batch if shown is None else batch.select(shown)).displayed()
        return self.texts(batch, interfaces, ethertypes=ethertypes, pool=pool)

    def follow(self, batch: Batch, interfaces: Sequence[Interface]) -> None:
        """Use the first time in ``batch`` as the origin of times, unless an origin is set."""
        if self.origin_ns is None:
            timed = np.arange(len(batch)) if batch.timed is None else np.flatnonzero(batch.timed)
            self.origin_ns = next(iter(exact_times(batch.select(timed[:1]), interfaces)), None)

    def texts(
        self,
        batch: Batch,
        interfaces: Sequence[Interface],
        *,
        ethertypes: EtherTypes = DEFAULT,
        pool: ThreadPoolExecutor | None = None,
    ) -> Iterator[bytes | memoryview]:
        """Return the text of frames that are all displayed, as `batch` does.

        Several threads may call this method.
        """

        def single(part: Batch) -> Iterator[str]:
            each = records(part, interfaces, ethertypes=ethertypes, commented=self.commented)
            return (self.among_others(record) for record in each)

        if not self.columnar:
            return (text.encode("utf-8", errors="replace") for text in single(batch))
        from ecmproto.frames.columns.text.renderer import Renderer

        if self._renderer is None or ethertypes != self.ethertypes:
            self.ethertypes = ethertypes
            self._renderer = Renderer(
                lambda path: None if path.goes_on else self.pieces(path),
                sampled=self.sampled,
                malformed=self.malformed,
                wrong=self.wrong,
            )
        return self._renderer.batch(
            batch,
            single,
            interfaces=interfaces,
            ethertypes=ethertypes,
            odd=self.odd(batch, interfaces),
            origin_ns=self.origin_ns or 0,
            pool=pool,
        )

    def odd(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_] | None:
        """Return a mask of the frames that `record` must write, whatever their layers; ``None`` for none."""
        return commented(batch) if self.commented else None


_REPEATED_OCTETS = 128
_REPEATED_FRAMES = 256
"""Maximum number of decoded short frames in the cache; a paused link repeats the same frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A captured frame.

    ``number`` is the frame number from 1, as in Wireshark. ``time_ns`` is the time in ns since 1970, or
    ``None`` if the capture has no time for the frame. ``original_octets`` is the length on the wire.
    ``interface`` is the number of the interface in the whole capture. ``interface_id`` is its number in the
    section of the capture, as in Wireshark. ``frame`` is the result of lax decoding of the octets.
    """

    number: int
    time_ns: int | None
    octets: bytes
    original_octets: int
    interface: int
    linktype: int
    frame: Frame
    comments: tuple[str, ...] = ()
    interface_id: int = 0
    since_first_ns: int | None = 0
    since_previous_ns: int | None = 0
    since_displayed_ns: int | None = 0
    """Time in ns since the first, the previous, or the previously displayed frame of the capture."""

    def __getitem__(self, key: type[Layer] | str) -> Any:
        """Return a layer or the value of a field, as ``record.frame[key]`` does."""
        return self.frame[key]

    @property
    def is_ethernet(self) -> bool:
        """Whether the frame starts with an Ethernet header."""
        return self.linktype == ETHERNET

    @property
    def cut(self) -> bool:
        """Whether octets of the frame are missing from the capture."""
        return self.original_octets > len(self.octets)


def records(
    batch: Batch,
    interfaces: Sequence[Interface],
    *,
    ethertypes: EtherTypes = DEFAULT,
    commented: bool = False,
    displayed: Displayed | None = None,
) -> Iterator[Record]:
    """Yield the frames of ``batch`` one by one, with their comments if ``commented``.

    ``interfaces`` are the interfaces of the capture, with link types and FCS lengths. ``displayed`` is the
    reader's record of displayed frames. A caller that displays only some frames must record each displayed
    frame there before requesting the next frame.
    """
    times: Sequence[int | None] = exact_times(batch, interfaces)
    if batch.timed is not None:
        times = [time if timed else None for time, timed in zip(times, batch.timed.tolist(), strict=True)]
    repeated: dict[tuple[int, bytes], Frame] = {}
    links, used = batch.links(interfaces)
    linked = [(each.linktype, each.fcs_octets, each.local_index) for each in links]
    rows = zip(
        batch.numbers.tolist(), times, batch.original.tolist(), batch.interface.tolist(), used.tolist(),
        batch.since_first_ns().tolist(), batch.since_previous_ns().tolist(),
        batch.since_displayed_ns().tolist(), batch.frames(), strict=True,
    )  # fmt: skip
    for index, row in enumerate(rows):
        number, time_ns, original, interface, link, since_first, since_previous, since_displayed, octets = row
        if displayed is not None and time_ns is not None:
            since_displayed = elapsed_ns(time_ns, time_ns if displayed.last_ns is None else displayed.last_ns)
        linktype, fcs_octets, interface_id = linked[link]
        if linktype == ETHERNET:
            whole = original == len(octets) <= _REPEATED_OCTETS
            cached = repeated.get((fcs_octets, octets)) if whole else None
            frame = cached or decode_lax(
                octets, original_octets=original, fcs_octets=fcs_octets, ethertypes=ethertypes
            )
            if whole and cached is None and len(repeated) < _REPEATED_FRAMES:
                repeated[fcs_octets, octets] = frame
        else:
            frame = decode_linktype(linktype, octets, original_octets=original, ethertypes=ethertypes)
        yield Record(
            number=number + 1,
            time_ns=time_ns,
            octets=octets,
            original_octets=original,
            interface=interface,
            linktype=linktype,
            frame=frame,
            comments=comments(batch, index) if commented else (),
            interface_id=interface_id,
            since_first_ns=since_first,
            since_previous_ns=since_previous,
            since_displayed_ns=since_displayed,
        )


def seconds_text(time_ns: int) -> str:
    """Return a time in seconds with nine decimals, without rounding."""
    seconds, ns = divmod(abs(time_ns), NS_PER_S)
    text = f"{seconds}.{ns:09d}"
    return text if time_ns >= 0 else f"-{text}"


def moment_text(time_ns: int) -> str:
    """Return a time in ns since 1970 as UTC; years outside the calendar are written in seconds."""
    seconds, ns = divmod(time_ns, 1_000_000_000)
    try:
        moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"second {seconds}"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ns:09d}"


def decode_linktype(
    linktype: int, octets: bytes, *, original_octets: int = 0, ethertypes: EtherTypes = DEFAULT
) -> Frame:
    """Decode a frame of another link type than Ethernet laxly, as far as its headers are supported."""
    first = first_format(linktype, octets)
    frame = decode_lax(octets, first=first, original_octets=original_octets, ethertypes=ethertypes)
    # Padding to 60 octets exists only on Ethernet.
    if frame.padded_at()[0]:
        return frame
    return assembled(
        frame.layers, b"", frame.padding + frame.trailer, frame.fcs, frame.starts, frame.cut, frame.error,
        frame.ethertypes,
    )  # fmt: skip


_BLOCK_OCTETS = 28
"""Octets before the frame in an enhanced packet block."""
_END_OCTETS = 4


def commented(batch: Batch) -> NDArray[np.bool_]:
    """Return a mask of the frames of ``batch`` with comments (`ecmproto.frames.capture.comments`)."""
    mask = np.zeros(len(batch), np.bool_)
    if batch.records is None or batch.records.format != "pcapng":
        return mask
    buffer, little = batch.buffer, batch.records.byte_order == "little"

    def number(at: NDArray[np.int64], octets: int) -> NDArray[np.int64]:
        parts = [buffer[at + octet].astype(np.int64) for octet in range(octets)]
        number = np.zeros(len(at), np.int64)
        for part in reversed(parts) if little else parts:
            number = number << 8 | part
        return number

    at = batch.record_offset + _BLOCK_OCTETS + (batch.captured + 3 & ~np.int64(3))
    end = batch.record_offset + batch.record_length - _END_OCTETS
    rows = np.flatnonzero(at + 4 <= end)
    rows = rows[number(batch.record_offset[rows], 4) != SIMPLE_PACKET]
    at, end = at[rows], end[rows]
    # each step reads one option of all blocks
    while len(rows):
        code, octets = number(at, 2), number(at + 2, 2)
        whole = (code != END_OF_OPTIONS) & (at + 4 + octets <= end)
        mask[rows[whole & (code == COMMENT)]] = True
        at = at + 4 + (octets + 3 & ~np.int64(3))
        on = whole & (code != COMMENT) & (at + 4 <= end)
        rows, at, end = rows[on], at[on], end[on]
    return mask
