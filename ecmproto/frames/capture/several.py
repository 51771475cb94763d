"""Several captures that are read as one, in the order of time or of files.

A folder or a pattern is one capture in several files. These files are read in the order of their names, and
only one file is open at a time. Equal interface descriptions in several files mean the same interface.
Captures with separate names are read in the order of time, and each has its own interfaces. Frames are
numbered across files.

Several files are read as a pcapng capture of one section, in which every frame is an enhanced packet block
with its interface. Blocks of little-endian pcapng files are not changed, so that comments are kept. All other
frames have times in ns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import struct
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Literal

import numpy as np

from ecmproto.errors import CaptureError
from ecmproto.frames.capture.batch import (
    FRAME_ARRAYS,
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    SECTION_HEADER,
    Batch,
    Block,
    ByteOrder,
    Format,
    Int64,
    Interface,
    RecordFormat,
)
from ecmproto.frames.capture.names import files_named, names_shown
from ecmproto.frames.capture.reader import BATCH_FRAMES, CaptureReader, ParsedReader, open_capture
from ecmproto.frames.capture.source import Parser, Shortage, Source
from ecmproto.frames.capture.writer import RecordBuilder, interface_block, section_block
from ecmproto.units import NS_PER_S

Order = Literal["time", "named"]
Name = str | os.PathLike[str]


class CaptureNames(tuple[str, ...]):
    """Names of captures that are read as one, with the order of reading."""

    order: Order = "time"

    @classmethod
    def of(cls, names: Iterable[str], order: Order) -> CaptureNames:
        """Return names with their order."""
        made = cls(names)
        made.order = order
        return made


def open_captures(
    paths: Sequence[Name | BinaryIO], *, batch_frames: int = BATCH_FRAMES, order: Order | None = None
) -> CaptureReader:
    """Open files, folders, patterns and URLs as one capture; a single file is opened as in `open_capture`.

    ``order`` is ``time``, or ``named`` for one capture after the other. ``None`` means the order of
    `CaptureNames`, or otherwise ``time``. The files of a folder or a pattern are read in the order of their
    names.

    A truncated file is read as far as possible, and the remaining files are read too. ``problem`` is the
    first error, and ``warnings`` contains the other errors.

    Raises CaptureError when a capture cannot be read or does not start like a capture, or when no file
    matches. An unreadable file in a folder does not raise CaptureError if another file in the folder is
    readable.
    """
    groups: list[list[Any]] = [
        files_named(os.fspath(path)) if isinstance(path, str | os.PathLike) else [path] for path in paths
    ]
    if (order or getattr(paths, "order", "time")) == "named":
        groups = [[name for group in groups for name in group]]
    if len(groups) == 1:
        return _open_one(groups[0], batch_frames)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(_open_one(group, batch_frames)) for group in groups]
        reader = MergedReader(_Merging(readers))
        stack.pop_all()
    return reader


def _open_one(names: Sequence[Any], batch_frames: int) -> CaptureReader:
    """Open a capture in one or several files."""
    if len(names) == 1:
        return open_capture(names[0], batch_frames=batch_frames)
    return AppendedReader(_Appending(names, batch_frames), names)


_MERGED_ORDER: ByteOrder = "little"
_MERGED_RECORDS = RecordFormat(format="pcapng", byte_order=_MERGED_ORDER, header_octets=28)
_MERGED_BUILDER = RecordBuilder(format="pcapng", byte_order=_MERGED_ORDER, resolution="ns")
_FEW_NAMES = 4
_INTERFACE_AT = 8
"""Offset of the interface in an enhanced packet block or an interface statistics block, in octets."""


class MergedReader(ParsedReader):
    """A reader of several captures as one, which `open_captures` returns."""

    def __init__(self, merging: _Merging) -> None:
        self._merging = merging
        super().__init__(merging, ", ".join(reader.path for reader in merging.readers))

    @property
    def octets_read(self) -> int:
        """Number of octets of the files used so far."""
        return sum(reader.octets_read for reader in self._merging.readers)

    @property
    def size_octets(self) -> int | None:
        """Sum of the file sizes in octets; ``None`` if one size is unknown."""
        sizes = [reader.size_octets for reader in self._merging.readers]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def warnings(self) -> list[str]:
        """Unusual properties of each file with the file name, and dropped blocks."""
        texts = [f"{reader.path}: {text}" for reader in self._merging.readers for text in reader.warnings]
        return [*texts, *self._merging.warnings]

    def items(self) -> Iterator[Batch | Block]:
        """Yield a section header, interface descriptions when they are found, other blocks, and batches."""
        yield from super().items()
        problems = (reader.problem for reader in self._merging.readers)
        self.problem: CaptureError | None = next((each for each in problems if each is not None), None)

    def close(self) -> None:
        """Close the files; returned batches stay valid."""
        super().close()
        for reader in self._merging.readers:
            reader.close()


class Joining:
    """Parser that joins several captures to one section of pcapng."""

    format: Format = "pcapng"
    byte_order: ByteOrder = _MERGED_ORDER
    frames_only: bool = False

    def __init__(self) -> None:
        self.interfaces: list[Interface] = []
        self.frames: int = 0
        self.warnings: list[str] = []
        """Warnings for dropped blocks."""
        self._pending: deque[Block] = deque()
        self.give(SECTION_HEADER, section_block(_MERGED_ORDER))

    @property
    def state(self) -> Hashable:
        """``None``, because there is no single file."""
        return None

    def resumed(self, state: Hashable, *, frames: int, compiled: bool) -> Parser:
        """Raise NotImplementedError, because the records of several files are not consecutive."""
        raise NotImplementedError

    def give(self, kind: int, octets: bytes) -> None:
        """Add a block that is returned next."""
        self._pending.append(
            Block(kind=kind, octets=octets, byte_order=_MERGED_ORDER, section=0, offset=0, frame=self.frames)
        )

    def describe(self, interface: Interface, block: Block | None) -> int:
        """Add an interface and return its number; ``block`` is its description if the block can be kept."""
        number = len(self.interfaces)
        same = dataclasses.replace(interface, index=number, section=0, local_index=number)
        if block is not None:
            self.give(INTERFACE_DESCRIPTION, block.octets)
        else:
            same = dataclasses.replace(same, ticks_per_second=NS_PER_S, offset_s=0)
            self.give(INTERFACE_DESCRIPTION, interface_block(same, _MERGED_ORDER))
        self.interfaces.append(same)
        return number

    def lose(self, what: str) -> None:
        """Add a warning about dropped blocks, unless the warning exists."""
        if what not in self.warnings:
            self.warnings.append(what)

    def _numbered(self, parts: Sequence[tuple[Batch, Int64]]) -> Batch:
        """Return the frames of the parts in order, with consecutive numbers."""
        batch = _in_order(parts, self.frames)
        self.frames += len(batch)
        return batch


class _Merging(Joining):
    """Parser that merges the frames of several readers in the order of time."""

    def __init__(self, readers: Sequence[CaptureReader]) -> None:
        super().__init__()
        self.readers = readers
        self._sources = [JoinedFile(reader, self) for reader in readers]

    @property
    def batch_frames(self) -> int:
        """Maximum number of frames in a batch of one file."""
        return self.readers[0].batch_frames

    @batch_frames.setter
    def batch_frames(self, frames: int) -> None:
        for reader in self.readers:
            reader.batch_frames = frames

    def take(self, source: Source) -> Batch | Block | Shortage:
        """Return the next batch or block, or a shortage at the end."""
        for each in self._sources:
            each.fill()
        if self._pending:
            return self._pending.popleft()
        filled = [each for each in self._sources if each.left]
        if not filled:
            return Shortage(octets=1, what="a frame")
        # the file whose available frames end first may continue with frames earlier than others' last frames
        first = min(filled, key=lambda each: each.last_ns)
        until_ns, index = first.last_ns, self._sources.index(first)
        parts = [each.take_until(until_ns, before=at > index) for at, each in enumerate(self._sources)]
        return self._numbered([part for part in parts if part is not None])


class AppendedReader(ParsedReader):
    """A reader of one capture in several consecutive files, which `open_captures` returns."""

    def __init__(self, appending: _Appending, names: Sequence[str]) -> None:
        self._appending = appending
        self._size_octets = _size_of(names)
        super().__init__(appending, names_shown(names) if len(names) <= _FEW_NAMES else f"{len(names)} files")

    @property
    def octets_read(self) -> int:
        """Number of octets of the files used so far."""
        return self._appending.octets_read

    @property
    def size_octets(self) -> int | None:
        """Sum of the file sizes in octets; ``None`` if one size is unknown."""
        return self._size_octets

    @property
    def warnings(self) -> list[str]:
        """Unusual properties of each file with the file name, and errors after the first error."""
        return [*self._appending.file_warnings, *self._appending.warnings]

    def items(self) -> Iterator[Batch | Block]:
        """Yield a section header, interface descriptions when they are found, other blocks, and batches."""
        yield from super().items()
        self.problem: CaptureError | None = self._appending.problem

    def close(self) -> None:
        """Close the open file; returned batches stay valid."""
        super().close()
        self._appending.close()


def _size_of(names: Sequence[str]) -> int | None:
    try:
        return sum(os.path.getsize(name) for name in names)
    except OSError:
        return None


class _Appending(Joining):
    """Parser that returns the frames of several files, one file after the other."""

    def __init__(self, names: Sequence[str], batch_frames: int) -> None:
        super().__init__()
        self.batch_frames = batch_frames
        self.problem: CaptureError | None = None
        self.octets_before: int = 0
        self._closed_warnings: list[str] = []
        self._left = deque(names)
        self._alike: dict[tuple[Interface, bool], list[int]] = {}
        """Numbers of the interfaces with equal descriptions."""
        self._seen: Counter[tuple[Interface, bool]] = Counter()
        """Number of interfaces with equal descriptions in the current file."""
        self._reader: CaptureReader | None = None
        self._file: JoinedFile | None = None
        self._next()
        if self._file is None and self.problem is not None:
            raise self.problem

    @property
    def octets_read(self) -> int:
        """Number of octets of the files used so far."""
        return self.octets_before + (0 if self._reader is None else self._reader.octets_read)

    @property
    def file_warnings(self) -> list[str]:
        """Warnings of files, with the file names."""
        reader = self._reader
        own = [] if reader is None else [f"{reader.path}: {text}" for text in reader.warnings]
        return [*self._closed_warnings, *own]

    def _next(self) -> None:
        """Open the next readable file, if there is one."""
        self._file = None
        while self._left and self._file is None:
            try:
                self._reader = open_capture(self._left.popleft(), batch_frames=self.batch_frames)
            except CaptureError as error:
                self._fail(error)
            else:
                self._file = JoinedFile(self._reader, self)
                self._seen.clear()

    def _fail(self, error: CaptureError) -> None:
        if self.problem is None:
            self.problem = error
        else:
            self._closed_warnings.append(str(error))

    def close(self) -> None:
        """Close the open file."""
        if self._reader is not None:
            self._closed_warnings = self.file_warnings
            self.octets_before = self.octets_read
            if self._reader.problem is not None:
                self._fail(self._reader.problem)
            self._reader.close()
            self._reader = None

    def describe(self, interface: Interface, block: Block | None) -> int:
        """Return the number of an interface, which may be an interface of an earlier file."""
        like = dataclasses.replace(interface, index=0, section=0, local_index=0), block is not None
        numbers, before = self._alike.setdefault(like, []), self._seen[like]
        self._seen[like] += 1
        if before == len(numbers):
            numbers.append(super().describe(interface, block))
        return numbers[before]

    def take(self, source: Source) -> Batch | Block | Shortage:
        """Return the next batch or block, or a shortage at the end."""
        while self._file is not None:
            if self._reader is not None:
                self._reader.batch_frames = self.batch_frames
            self._file.fill()
            if self._pending:
                return self._pending.popleft()
            part = self._file.take_until(self._file.last_ns, before=False) if self._file.left else None
            if part is not None:
                return self._numbered([part])
            self.close()
            self._next()
        return Shortage(octets=1, what="a frame")


class JoinedFile:
    """A capture in a joined capture: its available frames, and the numbers of its interfaces."""

    def __init__(self, reader: CaptureReader, merging: Joining) -> None:
        self._merging = merging
        self._reader = reader
        self._items = reader.items()
        self._numbers: list[int] = []
        self._blocks: list[Block] = []
        self._batch = Batch.from_frames([])
        self._keys: Int64 = np.zeros(0, np.int64)
        self._latest_ns = 0

    @property
    def left(self) -> int:
        """Number of available frames."""
        return len(self._batch)

    @property
    def last_ns(self) -> int:
        """Maximum time of all frames up to the last available frame."""
        return int(self._keys[-1])

    def fill(self) -> None:
        """Read until frames are available or the capture ends."""
        while not self.left:
            item = next(self._items, None)
            if item is None:
                return
            if isinstance(item, Block) and item.kind == INTERFACE_DESCRIPTION:
                self._blocks.append(item)
            self._describe()
            if isinstance(item, Batch):
                self._take(item)
            else:
                self._pass(item)

    def _describe(self) -> None:
        for index in range(len(self._numbers), len(self._reader.interfaces)):
            block = self._blocks[index] if index < len(self._blocks) else None
            block_used = block if block is not None and block.byte_order == _MERGED_ORDER else None
            self._numbers.append(self._merging.describe(self._reader.interfaces[index], block_used))

    def _pass(self, block: Block) -> None:
        """Pass on a block if it is valid in another section, but not section and interface descriptions."""
        if block.kind in (SECTION_HEADER, INTERFACE_DESCRIPTION):
            return
        if block.byte_order != _MERGED_ORDER:
            self._merging.lose(
                f"{self._reader.path}: blocks of type {block.name} are left out: other byte order"
            )
        elif block.kind == INTERFACE_STATISTICS:
            local = int.from_bytes(block.octets[_INTERFACE_AT : _INTERFACE_AT + 4], _MERGED_ORDER)
            for interface in self._reader.interfaces:
                if (interface.section, interface.local_index) == (block.section, local):
                    number = struct.pack("<I", self._numbers[interface.index])
                    head, rest = block.octets[:_INTERFACE_AT], block.octets[_INTERFACE_AT + 4 :]
                    self._merging.give(block.kind, head + number + rest)
        else:
            self._merging.give(block.kind, block.octets)

    def _take(self, batch: Batch) -> None:
        if not len(batch):
            return
        self._batch = dataclasses.replace(batch, interface=np.array(self._numbers, np.int64)[batch.interface])
        times = (
            batch.time_ns if batch.timed is None else np.where(batch.timed, batch.time_ns, self._latest_ns)
        )
        # in a file with decreasing times, each frame stays after the previous frame
        self._keys = np.maximum.accumulate(np.maximum(times, self._latest_ns))
        self._latest_ns = self.last_ns

    def take_until(self, until_ns: int, *, before: bool) -> tuple[Batch, Int64] | None:
        """Return the frames with keys up to ``until_ns`` and their keys, and remove these frames.

        With ``before``, frames at ``until_ns`` are not returned.
        """
        count = int(np.searchsorted(self._keys, until_ns, side="left" if before else "right"))
        if not count:
            return None
        chosen, keys = np.arange(count), self._keys[:count]
        batch, rest = self._batch.select(chosen), self._batch.select(np.arange(count, self.left))
        self._batch, self._keys = rest, self._keys[count:]
        return self._as_records(batch), keys

    def _as_records(self, batch: Batch) -> Batch:
        """Return frames as enhanced packet blocks in a new buffer, with the numbers of their interfaces."""
        if batch.records == _MERGED_RECORDS:
            low = int(batch.record_offset[0])
            high = int((batch.record_offset + batch.record_length).max())
            buffer = batch.buffer[low:high].copy()
            start = batch.record_offset - low
            offsets = start[:, None] + np.arange(_INTERFACE_AT, _INTERFACE_AT + 4)
            buffer[offsets] = batch.interface.astype("<u4").view(np.uint8).reshape(-1, 4)
            return dataclasses.replace(batch, buffer=buffer, offset=batch.offset - low, record_offset=start)
        octets = _MERGED_BUILDER.record_octets(batch.captured)
        start = np.cumsum(octets) - octets
        return dataclasses.replace(
            batch, buffer=_MERGED_BUILDER.from_batch(batch), offset=start + _MERGED_BUILDER.header_octets,
            record_offset=start, record_length=octets,
        )  # fmt: skip


def _in_order(parts: Sequence[tuple[Batch, Int64]], first: int) -> Batch:
    """Return the frames of all parts sorted by key; the keys of each part are sorted already."""
    batches = [batch for batch, _ in parts]
    # stable: frames with equal times are in the order of the files
    order = np.argsort(np.concatenate([keys for _, keys in parts]), kind="stable")
    sizes = np.array([len(batch.buffer) for batch in batches], np.int64)
    base = np.repeat(np.cumsum(sizes) - sizes, [len(batch) for batch in batches])
    buffer = np.concatenate([batch.buffer for batch in batches]) if len(batches) > 1 else batches[0].buffer
    buffer.flags.writeable = False
    timed = [np.ones(len(batch), np.bool_) if batch.timed is None else batch.timed for batch in batches]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(batch, name) for batch in batches])[order] for name in FRAME_ARRAYS
    }
    for name in ("offset", "record_offset"):
        arrays[name] += base[order]
    return Batch(
        buffer=buffer,
        **arrays,
        first=first,
        timed=None if all(each.all() for each in timed) else np.concatenate(timed)[order],
        records=_MERGED_RECORDS,
    )
