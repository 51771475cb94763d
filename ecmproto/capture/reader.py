"""Reading captures, one or several as one: iterate over batches, look at what was wrong at the end.

>>> with open_capture("in.pcapng.gz") as reader:
...     for batch in reader:
...         ...
...     if reader.problem:
...         print(reader.problem)

Several captures are read in the order of time.  To whoever reads them, they are a pcapng capture of one
section: each file's interfaces stay apart, numbered one behind the other, and every frame is an enhanced
packet block on the interface that it came from.  What stands in little-endian pcapng files is kept as it
is, comments too; other frames get times in ns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import struct
import sys
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

from ecmproto.capture.batch import (
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    SECTION_HEADER,
    Batch,
    Block,
    ByteOrder,
    Displayed,
    Format,
    Int64,
    Interface,
    RecordFormat,
    Timeline,
    timeline_of,
)
from ecmproto.capture.pcap import HEADER_OCTETS, PcapHeader, PcapParser, byte_order_of, parse_header
from ecmproto.capture.pcapng import SECTION_MAGIC, PcapngParser
from ecmproto.capture.source import (
    CHUNK_OCTETS,
    BoundedSource,
    DecompressedStream,
    Fault,
    MappedSource,
    OctetsSource,
    Parser,
    Shortage,
    Source,
    StreamSource,
    Walker,
    is_compressed,
    regular_size,
)
from ecmproto.capture.writer import PcapngWriter, RecordBuilder, Sink
from ecmproto.errors import CaptureError
from ecmproto.units import NS_PER_S

BATCH_FRAMES = 65536


def open_capture(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    batch_frames: int = BATCH_FRAMES,
    mapped: bool = True,
    chunk_octets: int = CHUNK_OCTETS,
) -> CaptureReader:
    """Open a pcap or pcapng capture, plain, gzip or zstd: a path, ``-`` for stdin, or a binary file object.

    Batches hold at most ``batch_frames`` frames.  A regular uncompressed file is mapped unless ``mapped`` is
    False; all else is read ``chunk_octets`` at a time.  A mapped file must not be cut while it is read.
    Raises CaptureError when the file cannot be read or does not start like a capture.
    """
    file, name, owned = opened_file(path)
    try:
        source = source_of(file, name, owned, mapped=mapped, chunk_octets=chunk_octets)
        return CaptureReader(source, name, batch_frames=max(1, batch_frames))
    except OSError as error:
        raise unreadable(name, error) from error
    except CaptureError:
        if owned:
            file.close()
        raise


def open_captures(
    paths: Sequence[str | os.PathLike[str]], *, batch_frames: int = BATCH_FRAMES
) -> CaptureReader:
    """Open captures to be read as one in the order of time; one alone is read as it is.

    CaptureError when one cannot be read or does not start like a capture.  One that turns out to break off is
    read as far as it goes, as are the others; ``problem`` is the first such.
    """
    if len(paths) == 1:
        return open_capture(paths[0], batch_frames=batch_frames)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(open_capture(path, batch_frames=batch_frames)) for path in paths]
        reader = MergedReader(_Merging(readers))
        stack.pop_all()
    return reader


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place between the records of a capture, from which on it can be read again.

    ``offset`` counts octets of the (uncompressed) capture, ``frames`` those in front; ``state`` is what the
    capture had said there of the records to come, equal where they are read alike.
    """

    offset: int
    frames: int
    state: Hashable


class CaptureReader:
    """A capture being read; made by ``open_capture``.

    ``interfaces`` and ``warnings`` grow as blocks are read.  ``problem`` is None until the end of what can be
    read turns out not to be the end of the capture: nothing is raised while iterating, every whole frame in
    front of the trouble has been given.  Whoever needs the whole capture looks at ``problem`` afterwards.
    """

    def __init__(self, source: Source, path: str, *, batch_frames: int) -> None:
        self.path = path
        self.displayed = Displayed()
        """The last frame that was displayed, for who shows frames one by one."""
        self.problem: CaptureError | None = None
        self.header: PcapHeader | None = None
        """The header of a pcap file; None for pcapng, whose first block is its section header."""
        self._source = source
        self._timeline: Timeline | None = None
        self._pending: list[Block] = []
        self._parser = self._parser_for(source, Walker(_plain_size(source)), batch_frames)

    def _parser_for(self, source: Source, walker: Walker, batch_frames: int) -> Parser:
        source.extend(HEADER_OCTETS)
        head = source.buffer[source.position : source.position + HEADER_OCTETS].tobytes()
        if byte_order_of(head):
            self.header = parse_header(head, self.path)
            source.position += HEADER_OCTETS
            return PcapParser(self.header, walker, batch_frames)
        if head.startswith(SECTION_MAGIC):
            parser = PcapngParser(walker, batch_frames)
            self._pending.append(self._first_section(parser, source))
            return parser
        if not head and source.fault:
            raise self._error(source, 0, 0, "the start of a capture", source.fault)
        raise self._error(source, 0, 0, "a pcap or pcapng capture", _foreign(head))

    def _first_section(self, parser: PcapngParser, source: Source) -> Block:
        item = parser.take(source)
        while isinstance(item, Shortage) and source.extend(item.octets):
            item = parser.take(source)
        if isinstance(item, Block):
            return item
        if isinstance(item, Fault):
            raise self._error(source, item.at, 0, item.needed, item.got)
        left = len(source.buffer) - source.position
        needed = item.what if isinstance(item, Shortage) else "a section header"
        raise self._error(source, source.position, 0, needed, source.fault or f"{left} octets")

    @property
    def format(self) -> Format:
        """``pcap`` or ``pcapng``."""
        return self._parser.format

    @property
    def byte_order(self) -> ByteOrder:
        """``little`` or ``big``; in pcapng that of the section being read."""
        return self._parser.byte_order

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces described so far; a batch's ``interface`` is an index into it."""
        return self._parser.interfaces

    @property
    def resolution(self) -> int:
        """Ticks per second of the first interface."""
        return self.interfaces[0].ticks_per_second if self.interfaces else 1_000_000

    @property
    def warnings(self) -> list[str]:
        """Unusual things so far that did not keep anything from being read."""
        return self._parser.warnings

    @property
    def frames(self) -> int:
        """How many frames were given so far."""
        return self._parser.frames

    @property
    def batch_frames(self) -> int:
        """How many frames a batch holds at most; to be changed as one likes, for the next batches."""
        return self._parser.batch_frames

    @batch_frames.setter
    def batch_frames(self, frames: int) -> None:
        self._parser.batch_frames = frames

    @property
    def place(self) -> Place:
        """Where the next batch starts; of a capture of one file."""
        source = self._source
        return Place(offset=source.base + source.position, frames=self.frames, state=self._parser.state)

    @property
    def base(self) -> int:
        """The octet of the (uncompressed) capture with which the buffer of the last batch starts."""
        return self._source.base

    def parse(self, place: Place, octets: bytes, *, frames: int, compiled: bool = True) -> Iterator[Batch]:
        """Yield the frames in ``octets``, the capture's from ``place`` on, ``frames`` a batch at most.

        For whoever reads a place again that this reader has passed; it may be done in any thread, and moves
        nothing here.  ``compiled`` False never waits for a compiler.  It ends where a record is not whole.
        """
        parser = self._parser.resumed(place.state, frames=place.frames, compiled=compiled)
        parser.batch_frames = frames
        source = OctetsSource(octets, base=place.offset)
        while True:
            item = parser.take(source)
            if isinstance(item, Batch):
                yield item
            elif isinstance(item, Shortage | Fault):
                return

    @property
    def octets_read(self) -> int:
        """Octets of the file used so far (of the compressed file, where it is compressed)."""
        return self._source.octets_read

    @property
    def size_octets(self) -> int | None:
        """The file's size; None for a pipe."""
        return self._source.size_octets

    def __iter__(self) -> Iterator[Batch]:
        self._parser.frames_only = True
        for item in self.items():
            if isinstance(item, Batch):
                yield item

    def items(self) -> Iterator[Batch | Block]:
        """Yield batches and, of pcapng, the blocks that hold no frame, in file order."""
        while self._pending:
            yield self._pending.pop(0)
        while self.problem is None:
            item = self._parser.take(self._source)
            if isinstance(item, Shortage):
                if not self._source.extend(item.octets):
                    self._end(item)
                    return
            elif isinstance(item, Fault):
                self.problem = self._error(self._source, item.at, self.frames, item.needed, item.got)
            else:
                if item is not None:
                    yield self._followed(item) if isinstance(item, Batch) else item
                self._source.release()

    def _followed(self, batch: Batch) -> Batch:
        """Return a batch that knows the times of the frames before it."""
        self._timeline = timeline_of(
            batch.time_ns, batch.timed, before=self._timeline, displayed=self.displayed
        )
        return dataclasses.replace(batch, timeline=self._timeline)

    def _end(self, shortage: Shortage) -> None:
        source = self._source
        left = len(source.buffer) - source.position
        if source.fault:
            needed = shortage.what if left else "the rest of the capture"
            self.problem = self._error(source, len(source.buffer), self.frames, needed, source.fault)
        elif left:
            self.problem = self._error(source, source.position, self.frames, shortage.what, f"{left} octets")

    def _error(self, source: Source, at: int, frame: int, needed: str, got: str) -> CaptureError:
        return CaptureError(path=self.path, offset=source.base + at, frame=frame, needed=needed, got=got)

    def close(self) -> None:
        """Close the file; batches already given stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_FOREIGN = {
    b"snoop\0\0\0": "a snoop file",
    b"RTSS": "a Network Monitor 1 file",
    b"GMBU": "a Network Monitor 2 file",
    b"\xab\x01\x00\x1c": "an IXIA lcap file",
    b"\xac\x01\x00\x1c": "an IXIA lcap file",
    b"TRSNIFF data": "a Sniffer file",
    b"XCP\0": "a NetXRay file",
}


def opened_file(path: str | os.PathLike[str] | BinaryIO) -> tuple[Any, str, bool]:
    """Return a capture's file, its name, and whether it was opened here."""
    if not isinstance(path, str | os.PathLike):
        return path, str(getattr(path, "name", "<stream>")), False
    name = os.fspath(path)
    if name == "-":
        return sys.stdin.buffer, "-", False
    try:
        return open(name, "rb", buffering=0), name, True
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from error


def source_of(
    file: Any, name: str, owned: bool, *, mapped: bool, chunk_octets: int = CHUNK_OCTETS, start: int = 0
) -> Source:
    """Return the octets of an opened file, decompressed, or of a plain regular one from ``start`` on."""
    size = regular_size(file)
    head = _peek(file, size)
    if not head:
        raise CaptureError(path=name, offset=0, frame=0, needed="a pcap or pcapng capture", got="0 octets")
    kind = is_compressed(head, name)
    if kind:
        stream = DecompressedStream(file, kind, head=b"" if size is not None else head, owned=owned)
        return StreamSource(stream, size=size, owned=True, chunk_octets=chunk_octets)
    if size is not None and mapped:
        try:
            mapped_file = MappedSource(file, size, owned=owned)
            mapped_file.position = min(start, size)
            return mapped_file
        except (OSError, ValueError):
            pass  # a file system that maps nothing: read it
    source = StreamSource(file, size=size, owned=owned, chunk_octets=chunk_octets)
    source.preload(b"" if size is not None else head)
    if start:
        source.base = file.seek(start)
    return source


def _peek(file: Any, size: int | None) -> bytes:
    """Return the first octets of ``file``, put back where it can be; a pipe may give them one by one."""
    head = b""
    while len(head) < 8:
        piece = file.read(8 - len(head))
        if not piece:
            break
        head += piece
    if size is not None:
        file.seek(0)
    return head


def _plain_size(source: Source) -> int | None:
    return source.size_octets if isinstance(source, MappedSource | BoundedSource) else None


def _foreign(head: bytes) -> str:
    known = next((what for magic, what in _FOREIGN.items() if head.startswith(magic)), None)
    return known or f"a file that starts with {head[:8].hex(' ')}"


def unreadable(name: str, error: Exception) -> CaptureError:
    """Return what is said of a file that cannot be read."""
    got = getattr(error, "strerror", None) or str(error)
    return CaptureError(path=name, offset=0, frame=0, needed="a readable capture file", got=got)


_MERGED_ORDER: ByteOrder = "little"
_MERGED_RECORDS = RecordFormat(format="pcapng", byte_order=_MERGED_ORDER, header_octets=28)
_MERGED_BUILDER = RecordBuilder(format="pcapng", byte_order=_MERGED_ORDER, resolution="ns")
_INTERFACE_AT = 8
"""Where an enhanced packet block, and one of statistics, names its interface."""


class MergedReader(CaptureReader):
    """Captures being read as one; made by `open_captures`."""

    def __init__(self, merging: _Merging) -> None:
        self._merging = merging
        path = ", ".join(reader.path for reader in merging.readers)
        super().__init__(StreamSource(io.BytesIO(), size=None, owned=False), path, batch_frames=0)

    def _parser_for(self, source: Source, walker: Walker, batch_frames: int) -> Parser:
        return self._merging

    @property
    def octets_read(self) -> int:
        """Octets of the files used so far."""
        return sum(reader.octets_read for reader in self._merging.readers)

    @property
    def size_octets(self) -> int | None:
        """The files' sizes together; None where one is a pipe."""
        sizes = [reader.size_octets for reader in self._merging.readers]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def warnings(self) -> list[str]:
        """Unusual things in each file, with its name, and blocks that are left out."""
        told = [f"{reader.path}: {text}" for reader in self._merging.readers for text in reader.warnings]
        return [*told, *self._merging.warnings]

    def items(self) -> Iterator[Batch | Block]:
        """Yield a section header, interface descriptions as they are found, other blocks, and batches."""
        yield from super().items()
        problems = (reader.problem for reader in self._merging.readers)
        self.problem = next((problem for problem in problems if problem is not None), None)

    def close(self) -> None:
        """Close the files; batches already given stay valid."""
        super().close()
        for reader in self._merging.readers:
            reader.close()


class _Merging:
    """The parser of several captures: takes the earliest frames of what their readers give."""

    format: Format = "pcapng"
    byte_order: ByteOrder = _MERGED_ORDER
    frames_only: bool = False

    def __init__(self, readers: Sequence[CaptureReader]) -> None:
        self.readers = readers
        self.interfaces: list[Interface] = []
        self.frames = 0
        self._pending: deque[Block] = deque()
        self.warnings: list[str] = []
        """Blocks that are left out."""
        self._described = _Descriptions()
        self._sources = [_File(reader, self) for reader in readers]
        self.give(SECTION_HEADER, self._described.section())

    @property
    def batch_frames(self) -> int:
        """How many frames a batch of one file holds at most."""
        return self.readers[0].batch_frames

    @batch_frames.setter
    def batch_frames(self, frames: int) -> None:
        for reader in self.readers:
            reader.batch_frames = frames

    @property
    def state(self) -> Hashable:
        """Nothing: what comes is not read from one place."""
        return None

    def resumed(self, state: Hashable, *, frames: int, compiled: bool) -> Parser:
        """Refuse: the records of several files are in none of them one behind the other."""
        raise NotImplementedError

    def take(self, source: Source) -> Batch | Block | Shortage:
        """Return the next batch or block; a shortage at the end."""
        for each in self._sources:
            each.fill()
        if self._pending:
            return self._pending.popleft()
        filled = [each for each in self._sources if each.left]
        if not filled:
            return Shortage(octets=1, what="a frame")
        # what comes next from the file whose frames at hand end first may be earlier than the others' last
        first = min(filled, key=lambda each: each.last_ns)
        until_ns, place = first.last_ns, self._sources.index(first)
        parts = [each.taken(until_ns, before=at > place) for at, each in enumerate(self._sources)]
        batch = _in_order([part for part in parts if part is not None], self.frames)
        self.frames += len(batch)
        return batch

    def give(self, kind: int, octets: bytes) -> None:
        """Give a block next."""
        self._pending.append(
            Block(kind=kind, octets=octets, byte_order=_MERGED_ORDER, section=0, offset=0, frame=self.frames)
        )

    def describe(self, interface: Interface, block: Block | None) -> int:
        """Describe one more interface, as ``block`` does where it can stay; return its number."""
        number = len(self.interfaces)
        same = dataclasses.replace(interface, index=number, section=0, local_index=number)
        if block is not None:
            self.give(INTERFACE_DESCRIPTION, block.octets)
        else:
            same = dataclasses.replace(same, ticks_per_second=NS_PER_S, offset_s=0)
            self.give(INTERFACE_DESCRIPTION, self._described.interface(same))
        self.interfaces.append(same)
        return number

    def lose(self, what: str) -> None:
        """Warn once of what is left out."""
        if what not in self.warnings:
            self.warnings.append(what)


class _File:
    """One of the captures: its frames at hand, and which numbers its interfaces have."""

    def __init__(self, reader: CaptureReader, merging: _Merging) -> None:
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
        """How many frames are at hand."""
        return len(self._batch)

    @property
    def last_ns(self) -> int:
        """The latest time up to the last frame at hand."""
        return int(self._keys[-1])

    def fill(self) -> None:
        """Read on until frames are at hand, or the end is reached."""
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
            kept = block if block is not None and block.byte_order == _MERGED_ORDER else None
            self._numbers.append(self._merging.describe(self._reader.interfaces[index], kept))

    def _pass(self, block: Block) -> None:
        """Give a block that describes neither section nor interface, if it may stand in another section."""
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
        # of a file that goes back in time each frame stays behind the one before it
        self._keys = np.maximum.accumulate(np.maximum(times, self._latest_ns))
        self._latest_ns = self.last_ns

    def taken(self, until_ns: int, *, before: bool) -> tuple[Batch, Int64] | None:
        """Return the frames up to a time, or before it, with their keys; they are no longer at hand."""
        count = int(np.searchsorted(self._keys, until_ns, side="left" if before else "right"))
        if not count:
            return None
        picks, keys = np.arange(count), self._keys[:count]
        batch, rest = self._batch.select(picks), self._batch.select(np.arange(count, self.left))
        self._batch, self._keys = rest, self._keys[count:]
        return self._as_records(batch), keys

    def _as_records(self, batch: Batch) -> Batch:
        """Return frames in a buffer of their own, in enhanced packet blocks on their interface."""
        if batch.records == _MERGED_RECORDS:
            low = int(batch.record_offset[0])
            high = int((batch.record_offset + batch.record_length).max())
            buffer = batch.buffer[low:high].copy()
            start = batch.record_offset - low
            places = start[:, None] + np.arange(_INTERFACE_AT, _INTERFACE_AT + 4)
            buffer[places] = batch.interface.astype("<u4").view(np.uint8).reshape(-1, 4)
            return dataclasses.replace(batch, buffer=buffer, offset=batch.offset - low, record_offset=start)
        octets = _MERGED_BUILDER.record_octets(batch.captured)
        start = np.cumsum(octets) - octets
        return dataclasses.replace(
            batch, buffer=_MERGED_BUILDER.from_batch(batch), offset=start + _MERGED_BUILDER.header_octets,
            record_offset=start, record_length=octets,
        )  # fmt: skip


def _in_order(parts: Sequence[tuple[Batch, Int64]], first: int) -> Batch:
    """Return the frames of parts, each in order of its keys, in the order of all keys."""
    batches = [batch for batch, _ in parts]
    # stable: of the same time, the file named first comes first
    order = np.argsort(np.concatenate([keys for _, keys in parts]), kind="stable")
    sizes = np.array([len(batch.buffer) for batch in batches], np.int64)
    base = np.repeat(np.cumsum(sizes) - sizes, [len(batch) for batch in batches])
    buffer = np.concatenate([batch.buffer for batch in batches]) if len(batches) > 1 else batches[0].buffer
    buffer.flags.writeable = False
    timed = [np.ones(len(batch), np.bool_) if batch.timed is None else batch.timed for batch in batches]

    def joined(name: str) -> Int64:
        values: Int64 = np.concatenate([getattr(batch, name) for batch in batches])[order]
        return values

    return Batch(
        buffer=buffer,
        offset=joined("offset") + base[order],
        captured=joined("captured"),
        original=joined("original"),
        time_ns=joined("time_ns"),
        interface=joined("interface"),
        record_offset=joined("record_offset") + base[order],
        record_length=joined("record_length"),
        first=first,
        timed=None if all(each.all() for each in timed) else np.concatenate(timed)[order],
        records=_MERGED_RECORDS,
    )


class _Descriptions:
    """The blocks that begin a pcapng capture, as they are written."""

    def __init__(self) -> None:
        self._octets = io.BytesIO()
        self._writer = PcapngWriter(Sink("-", self._octets), interfaces=(), byte_order=_MERGED_ORDER)

    def section(self) -> bytes:
        """Return the section header."""
        return self._taken()

    def interface(self, interface: Interface) -> bytes:
        """Return the description of an interface with times in ns."""
        self._writer.add_interface(interface)
        return self._taken()

    def _taken(self) -> bytes:
        octets = self._octets.getvalue()
        self._octets.seek(0)
        self._octets.truncate()
        return octets
