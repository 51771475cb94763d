"""Reading of captures: a reader yields batches, and reports errors at the end.

>>> with open_capture("in.pcapng.gz") as reader:
...     for batch in reader:
...         ...
...     if reader.problem:
...         print(reader.problem)
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import sys
from collections.abc import Hashable, Iterator
from typing import Any, BinaryIO, Self

from ecmproto.errors import CaptureError, ParameterError
from ecmproto.frames.capture.batch import (
    Batch,
    Block,
    ByteOrder,
    Displayed,
    Format,
    Interface,
    Timeline,
    timeline_of,
)
from ecmproto.frames.capture.erf import pcap_parser
from ecmproto.frames.capture.names import name_shown, open_file
from ecmproto.frames.capture.pcap import HEADER_OCTETS, PcapHeader, byte_order_of, parse_header
from ecmproto.frames.capture.pcapng import SECTION_MAGIC, PcapngParser
from ecmproto.frames.capture.source import (
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
from ecmproto.values import dataclass

BATCH_FRAMES = 65536


def open_capture(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    batch_frames: int = BATCH_FRAMES,
    mapped: bool = True,
    chunk_octets: int = CHUNK_OCTETS,
    most_octets: int | None = None,
) -> CaptureReader:
    """Open a pcap or pcapng capture, which may be compressed with gzip or zstd.

    ``path`` is a path, ``-`` for stdin, a binary file object, or a URL that fsspec supports; a URL needs
    ``ecmproto[remote]``.

    Batches contain at most ``batch_frames`` frames. A regular uncompressed file is mapped unless ``mapped``
    is False. Other files are read in chunks of ``chunk_octets``. A mapped file must not be truncated while it
    is read.

    Raises CaptureError when the file cannot be read or does not start like a capture. Raises ParameterError,
    also during reading, when a compressed file expands to more than ``most_octets`` octets.
    """
    opened = opened_source(path, mapped=mapped, chunk_octets=chunk_octets, max_octets=most_octets)
    with opened as (source, name):
        return CaptureReader(source, name, batch_frames=max(1, batch_frames))


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position between the records of a capture, from which reading can resume.

    ``offset`` counts octets of the uncompressed capture. ``frames`` is the number of previous frames.
    ``state`` describes the format of the records after the position.
    """

    offset: int
    frames: int
    state: Hashable


class CaptureReader:
    """A reader of a capture, which ``open_capture`` returns.

    ``interfaces`` and ``warnings`` grow as blocks are read. ``problem`` is ``None`` unless the capture
    becomes unreadable before its end. Iteration raises no exception in this case, and returns every complete
    frame before the error. Callers that need the whole capture must check ``problem`` after iteration.
    """

    def __init__(self, source: Source, path: str, *, batch_frames: int) -> None:
        self.path = path
        self.displayed: Displayed = Displayed()
        """Last displayed frame, for frames that are displayed individually."""
        self.problem: CaptureError | None = None
        self.header: PcapHeader | None = None
        """Header of a pcap file; ``None`` for pcapng, whose first block is the section header."""
        self._source = source
        self._timeline: Timeline | None = None
        self._pending: list[Block] = []
        self._parser = self._parser_for(source, Walker(_plain_size(source)), batch_frames)

    def _parser_for(self, source: Source, walker: Walker, batch_frames: int) -> Parser:
        source.extend(HEADER_OCTETS)
        head = source.buffer[source.position : source.position + HEADER_OCTETS].tobytes()
        if byte_order_of(head):
            source.position += HEADER_OCTETS
            pcap = pcap_parser(parse_header(head, self.path), walker, batch_frames)
            self.header = pcap.header
            return pcap
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
        """Format of the capture, ``pcap`` or ``pcapng``."""
        return self._parser.format

    @property
    def byte_order(self) -> ByteOrder:
        """Byte order, ``little`` or ``big``; in pcapng the byte order of the current section."""
        return self._parser.byte_order

    @property
    def interfaces(self) -> list[Interface]:
        """Interfaces described so far; the ``interface`` array of a batch contains indices of this list."""
        return self._parser.interfaces

    @property
    def resolution(self) -> int:
        """Resolution of the first interface, in ticks per second."""
        return self.interfaces[0].ticks_per_second if self.interfaces else 1_000_000

    @property
    def warnings(self) -> list[str]:
        """Unusual properties found so far that did not prevent reading."""
        return self._parser.warnings

    @property
    def frames(self) -> int:
        """Number of frames returned so far."""
        return self._parser.frames

    @property
    def batch_frames(self) -> int:
        """Maximum number of frames in a batch; a change applies to the next batches."""
        return self._parser.batch_frames

    @batch_frames.setter
    def batch_frames(self, frames: int) -> None:
        self._parser.batch_frames = frames

    @property
    def place(self) -> Position:
        """Position of the next batch, for a capture of one file."""
        source = self._source
        return Position(offset=source.base + source.position, frames=self.frames, state=self._parser.state)

    @property
    def base(self) -> int:
        """Offset of the buffer of the last batch in the uncompressed capture."""
        return self._source.base

    def parse(
        self, position: Position, octets: bytes, *, frames: int, compiled: bool = True
    ) -> Iterator[Batch]:
        """Yield the frames in ``octets``, which start at ``position``, in batches of at most ``frames``
        frames.

        Any thread may call this method to read octets again; the reader does not change. With ``compiled``
        False, the method never waits for a compiler. The method ends at an incomplete record.
        """
        parser = self._parser.resumed(position.state, frames=position.frames, compiled=compiled)
        parser.batch_frames = frames
        source = OctetsSource(octets, base=position.offset)
        while True:
            item = parser.take(source)
            if isinstance(item, Batch):
                yield item
            elif isinstance(item, Shortage | Fault):
                return

    @property
    def octets_read(self) -> int:
        """Number of octets of the file used so far, in a compressed file the compressed octets."""
        return self._source.octets_read

    @property
    def size_octets(self) -> int | None:
        """Size of the file in octets; ``None`` for a pipe."""
        return self._source.size_octets

    def __iter__(self) -> Iterator[Batch]:
        self._parser.frames_only = True
        for item in self.items():
            if isinstance(item, Batch):
                yield item

    def items(self) -> Iterator[Batch | Block]:
        """Yield batches, and the blocks of pcapng without a frame, in file order."""
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
        """Return the batch with its timeline, which includes the times of previous frames."""
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
        """Close the file; returned batches stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ParsedReader(CaptureReader):
    """A reader for a parser that does not read the octets of a single file."""

    def __init__(self, parser: Parser, path: str) -> None:
        self._given = parser
        super().__init__(StreamSource(io.BytesIO(), size=None, owned=False), path, batch_frames=0)

    def _parser_for(self, source: Source, walker: Walker, batch_frames: int) -> Parser:
        return self._given


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
    """Return the file of a capture, its name, and whether this function opened the file."""
    if not isinstance(path, str | os.PathLike):
        return path, str(getattr(path, "name", "<stream>")), False
    name = os.fspath(path)
    if name == "-":
        return sys.stdin.buffer, "-", False
    try:
        return open_file(name), name_shown(name), True
    except (OSError, ValueError) as error:
        raise unreadable(name_shown(name), error) from error


def _source_of(
    file: Any,
    name: str,
    owned: bool,
    *,
    mapped: bool,
    chunk_octets: int = CHUNK_OCTETS,
    max_octets: int | None = None,
    start: int = 0,
) -> Source:
    """Return a source for an opened file; only a plain regular file can start at octet ``start``."""
    size = regular_size(file)
    head = _peek(file, size)
    if not head:
        raise CaptureError(path=name, offset=0, frame=0, needed="a pcap or pcapng capture", got="0 octets")
    kind = is_compressed(head, name)
    if kind:
        stream = DecompressedStream(file, kind, head=b"" if size is not None else head, owned=owned)
        limit = {} if max_octets is None else {"max_octets": max_octets}
        return StreamSource(stream, size=size, owned=True, chunk_octets=chunk_octets, **limit)
    if size is not None and mapped:
        try:
            mapped_file = MappedSource(file, size, owned=owned)
            mapped_file.position = min(start, size)
            return mapped_file
        except (OSError, ValueError):
            pass  # a file system without maps: read it
    file_size = getattr(file, "size", None) if size is None else size
    source = StreamSource(
        file, size=file_size if isinstance(file_size, int) else None, owned=owned, chunk_octets=chunk_octets
    )
    source.preload(b"" if size is not None else head)
    if start:
        source.base = file.seek(start)
    return source


def _peek(file: Any, size: int | None) -> bytes:
    """Return the first octets of ``file``; a regular file is positioned at its start again."""
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
    whole = source.whole if isinstance(source, BoundedSource) else source
    return whole.size_octets if isinstance(whole, MappedSource) else None


def _foreign(head: bytes) -> str:
    known = next((what for magic, what in _FOREIGN.items() if head.startswith(magic)), None)
    return known or f"a file that starts with {head[:8].hex(' ')}"


@contextlib.contextmanager
def opened_source(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    mapped: bool = True,
    chunk_octets: int = CHUNK_OCTETS,
    max_octets: int | None = None,
    start: int = 0,
) -> Iterator[tuple[Source, str]]:
    """Open a file for a reader at octet ``start``; the file is closed if the reader cannot be created."""
    file, name, owned = opened_file(path)
    try:
        source = _source_of(
            file, name, owned, mapped=mapped, chunk_octets=chunk_octets, max_octets=max_octets, start=start
        )
        yield source, name
    except OSError as error:
        raise unreadable(name, error) from error
    except (CaptureError, ParameterError):
        if owned:
            file.close()
        raise


def unreadable(name: str, error: Exception) -> CaptureError:
    """Return the error of an unreadable file."""
    got = getattr(error, "strerror", None) or str(error)
    return CaptureError(path=name, offset=0, frame=0, needed="a readable capture file", got=got)
