"""Sources of the octets of a capture: a mapped file, or a stream in chunks, which may be decompressed.

A source is a window of the capture. ``buffer`` contains the octets from offset ``base``, and ``position`` is
the end of the used octets in ``buffer``. ``extend`` adds octets at the end of the window and releases used
octets.

gzip and zstd streams are recognized by their first octets and decompressed in bounded steps. Consecutive gzip
members or zstd frames are one stream, and zero padding after a gzip member is ignored. A broken stream
returns all octets before the error and then raises EOFError or ValueError with a message.

The `Parser` of a format converts these octets to batches and blocks. The parser finds records by a walk from
the start of one record to the start of the next record, up to the end of the buffer. Each walk is one
function. Small captures run the function interpreted, because importing a compiler would take longer than the
walk. Large captures run the same function compiled. `Walker` selects between the two. A walk stops before the
first questionable record, and the parser then reports an error or requests more octets.
"""

from __future__ import annotations

import functools
import importlib
import io
import mmap
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import CaptureError, MissingDependencyError, ParameterError
from ecmproto.frames.capture.batch import Batch, Block, ByteOrder, Format, Int64, Interface, Octets
from ecmproto.kernels import library
from ecmproto.values import dataclass

CHUNK_OCTETS = 8 << 20
_RELEASE_OCTETS = 4 << 20
_CACHED_OCTETS = 64 << 20
"""Number of recently used octets of a mapped file that stay in memory, for batches that are read ahead."""
_READ_OCTETS = 1 << 20
_NO_STOP = 1 << 62


class Source(Protocol):
    """A window of the octets of a capture."""

    position: int

    @property
    def buffer(self) -> NDArray[np.uint8]:
        """Available octets."""

    @property
    def base(self) -> int:
        """Offset of the first available octet in the capture."""

    @property
    def fault(self) -> str:
        """Error that ended the octets early (a read error or a broken stream), or an empty string."""

    @property
    def size_octets(self) -> int | None:
        """Size of the file in octets; ``None`` if unknown."""

    @property
    def octets_read(self) -> int:
        """Number of octets of the file used so far, comparable with ``size_octets``."""

    def extend(self, needed: int) -> bool:
        """Extend the window to at least ``needed`` octets after ``position``.

        Return False if the capture ends before.
        """

    def release(self) -> None:
        """Release the memory of the octets before ``position``."""

    def close(self) -> None:
        """Close all files that the source opened."""


class OctetsSource:
    """A source of octets in memory, from offset ``base`` of a capture; the window never grows."""

    def __init__(self, octets: bytes | mmap.mmap, *, base: int) -> None:
        self.buffer: NDArray[np.uint8] = np.frombuffer(octets, dtype=np.uint8)
        self.base = base
        self.position = 0
        self.fault = ""
        self.size_octets: int | None = len(octets)

    @property
    def octets_read(self) -> int:
        """Number of octets used so far."""
        return self.position

    def extend(self, needed: int) -> bool:
        """Return whether ``needed`` octets are available."""
        return len(self.buffer) - self.position >= needed

    def release(self) -> None:
        """Do nothing, because batches are views of the octets."""

    def close(self) -> None:
        """Do nothing."""


class MappedSource(OctetsSource):
    """A source for a mapped regular file; the window is the whole file, and batches are views of the map.

    Used pages are returned to the kernel. Access to an old batch reads these pages again.
    """

    def __init__(self, file: BinaryIO, size: int, *, owned: bool) -> None:
        self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        self._map.madvise(mmap.MADV_SEQUENTIAL)
        self._released = 0
        super().__init__(self._map, base=0)
        if owned:
            file.close()

    def release(self) -> None:
        """Release the pages before ``position``, except for the last ``_CACHED_OCTETS``."""
        upto = (self.position - _CACHED_OCTETS) & -mmap.PAGESIZE
        if upto - self._released >= _RELEASE_OCTETS:
            self._map.madvise(mmap.MADV_DONTNEED, self._released, upto - self._released)
            self._released = upto

    def close(self) -> None:
        """Close the source; the map is freed with the last batch that is a view of it."""
        self.position: int = min(self.position, len(self.buffer))


class StreamSource:
    """A source for a pipe, a file object or a decompressed stream, which is read in chunks.

    A chunk is filled in place, and octets that a batch may view are never overwritten. Unused octets are
    moved to the next chunk, which is large enough for the longest record.
    """

    def __init__(
        self,
        stream: Any,
        *,
        size: int | None,
        owned: bool,
        chunk_octets: int = CHUNK_OCTETS,
        max_octets: int = _NO_STOP,
    ) -> None:
        # enlarge a pipe beyond its usual 64 KiB, so that it is read in fewer pieces
        with suppress(ImportError, AttributeError, OSError, ValueError, io.UnsupportedOperation):
            import fcntl  # missing on some systems

            fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, _READ_OCTETS)
        self._stream = stream
        self._owned = owned
        self._chunk = chunk_octets
        self._max_octets = max_octets
        self._store = np.empty(chunk_octets, dtype=np.uint8)
        self._filled = 0
        self._ended = False
        self.buffer: NDArray[np.uint8] = self._store[:0]
        self.base: int = 0
        self.position: int = 0
        self._reported = 0
        self.fault: str = ""
        self.size_octets = size

    def preload(self, head: bytes) -> None:
        """Insert ``head`` before the remaining octets of the stream; ``head`` was already read."""
        self._store = np.empty(max(self._chunk, len(head)), dtype=np.uint8)
        self._store[: len(head)] = np.frombuffer(head, dtype=np.uint8)
        self._filled = len(head)
        self.buffer = self._store[: self._filled]

    @property
    def octets_read(self) -> int:
        """Number of octets of the file used so far; in a compressed file, an estimate of the compressed
        octets.
        """
        used = self.base + self.position
        octets = getattr(self._stream, "octets_read", None)
        if octets is None:
            return used
        # better compression of later octets could decrease the estimate
        self._reported = max(self._reported, int(octets) * used // max(1, self.base + self._filled))
        return self._reported

    def extend(self, needed: int) -> bool:
        """Read until ``needed`` octets follow ``position``, and all further octets that are available."""
        if len(self.buffer) - self.position >= needed:
            return True
        if self.position + needed > len(self._store):
            self._move(needed)
        while not self._ended and self._filled < len(self._store):
            if self._filled - self.position >= needed and not _ready(self._stream):
                break
            self._read()
            if len(self._store) == self._filled < self.position + needed:
                self._move(needed)
        view = self._store[: self._filled]
        view.flags.writeable = False
        self.buffer = view
        return self._filled - self.position >= needed

    def _move(self, needed: int) -> None:
        """Start a new chunk with the unused octets; the size at most doubles, regardless of ``needed``."""
        left = self._filled - self.position
        store = np.empty(max(self._chunk, min(2 * left, needed)), dtype=np.uint8)
        store[:left] = self._store[self.position : self._filled]
        self.base += self.position
        self._store, self._filled, self.position = store, left, 0

    def _read(self) -> None:
        target = self._store.data[self._filled :]
        try:
            count = _read_into(self._stream, target)
        except (OSError, EOFError, ValueError) as error:
            self.fault = getattr(error, "strerror", None) or str(error)
            count = 0
        self._ended = count == 0
        self._filled += count
        if self.base + self._filled > self._max_octets:
            needed = f"up to {self._max_octets:,} octets; larger ones are read when they are unpacked"
            raise ParameterError(name="a compressed capture", needed=needed, got="more")

    def release(self) -> None:
        """Do nothing, because a chunk is freed with the last batch that is a view of it."""

    def close(self) -> None:
        """Close the stream if the source owns it."""
        if self._owned:
            self._stream.close()


class BoundedSource:
    """A source of the records that begin before octet ``stop``; ``None`` means all records.

    The source starts at the current position of another source. After ``stop``, the window contains only the
    rest of the last record.
    """

    def __init__(self, source: Source, stop: int | None) -> None:
        self.whole = source
        self._start = source.base + source.position
        self._stop = _NO_STOP if stop is None else stop
        self._end = self._stop

    @property
    def buffer(self) -> NDArray[np.uint8]:
        """Octets up to the end of the last requested record."""
        return self.whole.buffer[: max(0, self._end - self.whole.base)]

    @property
    def base(self) -> int:
        """Offset of the window in the capture."""
        return self.whole.base

    @property
    def position(self) -> int:
        """End of the used octets in the window."""
        return self.whole.position

    @position.setter
    def position(self, position: int) -> None:
        self.whole.position = position

    @property
    def _is_over(self) -> bool:
        return self.base + self.position >= self._stop

    @property
    def fault(self) -> str:
        """Error that ended the octets before the end of the records, or an empty string."""
        return "" if self._is_over else self.whole.fault

    @property
    def size_octets(self) -> int | None:
        """Number of octets to read; ``None`` if unknown."""
        size = self.whole.size_octets
        return None if size is None else max(0, min(size, self._stop) - self._start)

    @property
    def octets_read(self) -> int:
        """Number of octets used so far."""
        return self.base + self.position - self._start

    def extend(self, needed: int) -> bool:
        """Extend the window to ``needed`` octets, unless the last record has ended."""
        if self._is_over:
            return False
        available = self.whole.extend(needed)
        at = self.base + self.position + needed
        # the available part of an incomplete record is reported
        self._end = max(self._end, at if available else _NO_STOP)
        return available

    def release(self) -> None:
        """Release the memory of the used octets."""
        self.whole.release()

    def close(self) -> None:
        """Close the source."""
        self.whole.close()


def _read_into(stream: Any, target: memoryview) -> int:
    read = getattr(stream, "read1", None)
    if read is None and hasattr(stream, "readinto"):
        return int(stream.readinto(target) or 0)
    # Only read1 returns the octets of a buffered stream without waiting for more octets.
    data: bytes = (read or stream.read)(min(len(target), _READ_OCTETS))
    target[: len(data)] = data
    return len(data)


def _ready(stream: Any) -> bool:
    """Return whether a read would return at once; False for streams without a descriptor."""
    try:
        descriptor = stream.fileno()
        return bool(select.select([descriptor], [], [], 0)[0])
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        return True


def regular_size(file: Any) -> int | None:
    """Return the size of a regular file that is positioned at its start; ``None`` for other files."""
    try:
        status = os.fstat(file.fileno())
        return status.st_size if stat.S_ISREG(status.st_mode) and file.tell() == 0 else None
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        return None


_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_REFUSED = {
    b"\x04\x22\x4d\x18": ("an lz4 file", "lz4 -dc"),
    b"\xfd7zXZ\x00": ("an xz file", "xz -dc"),
    b"BZh": ("a bzip2 file", "bzip2 -dc"),
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
}
_INPUT_OCTETS = 1 << 20
# A zstd block has at least 4 octets and at most 128 KiB of content: a KiB of input has at most 32 MiB.
_ZSTD_STEP_OCTETS = 1 << 10
_GZIP_STEP_OCTETS = 1 << 20


class _Decompressor(Protocol):
    """Generator of the octets of each step, and the number of unused octets of the current piece."""

    def __call__(self, pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]: ...


def is_compressed(magic: bytes, path: str) -> str:
    """Return ``gzip``, ``zstd`` or an empty string for a file that starts with ``magic`` (at least 8 octets).

    Raises CaptureError for an unsupported compression, with a command to use instead.
    """
    if magic.startswith(_GZIP):
        return "gzip"
    skippable = magic[1:4] == b"\x2a\x4d\x18" and magic[0] >> 4 == 5
    if magic.startswith(_ZSTD) or skippable:
        return "zstd"
    for start, (what, command) in _REFUSED.items():
        if magic.startswith(start):
            needed = f"a pcap or pcapng capture, plain or in gzip or zstd (run: {command} {path} | … -r -)"
            raise CaptureError(path=path, offset=0, frame=0, needed=needed, got=what)
    return ""


class DecompressedStream:
    """The decompressed octets of ``file``; ``head`` contains octets that were already read from ``file``."""

    def __init__(self, file: Any, kind: str, *, head: bytes = b"", owned: bool = False) -> None:
        self._file = file
        self._owned = owned
        self._head = head
        self._used = self._unused = 0
        decompress: _Decompressor = _gunzip if kind == "gzip" else _unzstd
        self._pieces = decompress(self._input())
        self._rest = memoryview(b"")
        self._error: Exception | None = None

    @property
    def octets_read(self) -> int:
        """Number of compressed octets whose contents were all returned."""
        return self._used - self._unused

    def _input(self) -> Iterator[bytes]:
        read = getattr(self._file, "read1", self._file.read)
        piece = self._head or read(_INPUT_OCTETS)
        while piece:
            self._used += len(piece)
            yield piece
            piece = read(_INPUT_OCTETS)

    def readinto(self, target: memoryview) -> int:
        """Fill ``target`` with the octets of one step; return their number, 0 at the end."""
        while not self._rest:
            piece, self._unused = next(self._pieces, (None, 0))
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Close the file if the stream owns it."""
        if self._owned:
            self._file.close()


def _gunzip(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    member: Any = None
    started = False
    for piece in pieces:
        data = piece
        while data:
            if member is None:
                data = data.lstrip(b"\0") if started else data
                if not data:
                    break
                member, started = zlib.decompressobj(wbits=31), True
            before = member.copy()
            try:
                out = member.decompress(data, _GZIP_STEP_OCTETS)
            except zlib.error as error:
                yield from ((out, 0) for out in _salvage(before, data))
                raise ValueError(f"a broken gzip stream ({error})") from None
            data = member.unused_data if member.eof else member.unconsumed_tail
            if out:
                yield out, len(data)
            if member.eof:
                member = None
    if member is not None:
        yield member.flush(), 0
        raise EOFError("a truncated gzip stream")


def _salvage(member: Any, data: bytes) -> Iterator[bytes]:
    """Yield the octets of ``data`` before the first invalid octet, with steps that become shorter."""
    step = len(data) // 16 or 1
    for i in range(0, len(data), step):
        before = member.copy()
        try:
            out = member.decompress(data[i : i + step])
        except zlib.error:
            if step > 1:
                yield from _salvage(before, data[i : i + step])
            return
        if out:
            yield out


def zstd_module() -> Any:
    """Return the zstd module of the standard library, or its backport before Python 3.14."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(package=name, extra="", purpose="zstd") from error


def _unzstd(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    module = zstd_module()
    frame: Any = None
    for piece in pieces:
        for at in range(0, len(piece), _ZSTD_STEP_OCTETS):
            data = piece[at : at + _ZSTD_STEP_OCTETS]
            while data:
                frame = frame or module.ZstdDecompressor()
                try:
                    out = frame.decompress(data)
                except module.ZstdError as error:
                    raise ValueError(f"a broken zstd stream ({error})") from None
                if out:
                    yield out, max(0, len(piece) - at - _ZSTD_STEP_OCTETS)
                data = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = None
    if frame is not None:
        raise EOFError("a truncated zstd stream")


MAX_RECORD_OCTETS = 256 << 20
"""Maximum length of a record in octets; a longer length is reported as an error."""

BATCH_OCTETS = 16 << 20
"""Size limit of a batch in octets; only the last record of a batch may exceed the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A record at the current position that needs ``octets`` octets; ``what`` describes the record."""

    octets: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An invalid record at the current position; ``at`` is the offset of the error in the window."""

    at: int
    needed: str
    got: str


class Parser(Protocol):
    """Parser that converts the octets of a source to batches and blocks, and moves the position of the
    source.
    """

    format: Format
    byte_order: ByteOrder
    interfaces: list[Interface]
    warnings: list[str]
    frames: int
    batch_frames: int
    """Maximum number of frames in a batch."""
    frames_only: bool
    """Whether only batches are requested, so that a batch may continue after blocks of other types."""

    @property
    def state(self) -> Hashable:
        """State that describes the format of the next records; equal states mean equal formats."""

    def resumed(self, state: Hashable, *, frames: int, compiled: bool) -> Parser:
        """Return a parser that continues from ``state`` after ``frames`` frames.

        With ``compiled`` False, the parser uses only interpreted walks, which never wait for a compiler.
        """

    def take(self, source: Source) -> Batch | Block | Shortage | Fault | None:
        """Return the next batch or block, or the reason for its absence.

        ``None`` means that the caller should call again.
        """


def uint32_rows(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], count: int, byte_order: ByteOrder
) -> NDArray[np.uint32]:
    """Return ``count`` consecutive 32-bit words at each of ``starts``, as an array (len(starts), count).

    The starts may have any alignment.
    """
    octets = 4 * count
    # An array with one void item per octet copies whole headers when indexed: the fastest gather in numpy.
    headers = np.ndarray((len(buffer) - octets + 1,), dtype=f"V{octets}", buffer=buffer, strides=(1,))
    rows = headers[starts].view("<u4" if byte_order == "little" else ">u4")
    return rows.reshape(len(starts), count)


def word(source: Source, at: int, byte_order: ByteOrder) -> int:
    """Return the 32-bit word at offset ``at`` of the window."""
    return int.from_bytes(source.buffer[at : at + 4].tobytes(), byte_order)


COMPILE_FROM_OCTETS = 48 << 20
"""Minimum size for compiled walks, in octets: an interpreted walk is then as slow as importing the compiler.
"""
_FEW_RECORDS = 1024
"""Maximum number of records in a walk that does not wait for the compiler."""


_LAP_OCTETS = 1 << 20
"""Number of octets that are loaded into the cache at once."""
_LINE_OCTETS = 64
_SPARSE_OCTETS = 2048
"""Mean length of records above which loading whole records is slower than loading their headers."""


class Walker:
    """Runner of the walks over one capture, interpreted at first and compiled if the capture is large.

    If the library of kernels is ready, all walks are compiled. ``size_octets`` is the size of the capture, or
    ``None`` if unknown. ``compiled`` False prevents compilation. Many small captures count as a large
    capture.
    """

    _walked_before: ClassVar[int] = 0
    """Number of octets in interpreted walks of this process, over all captures."""

    def __init__(self, size_octets: int | None, *, compiled: bool = True) -> None:
        large = size_octets is not None and size_octets >= COMPILE_FROM_OCTETS
        # Compiled walks are faster from the first frame if nothing has to be loaded.
        many = Walker._walked_before > COMPILE_FROM_OCTETS
        self._large = compiled and (large or many or library.is_ready())
        self._grows = compiled and size_octets is None
        self._walked = 0
        self._records: Int64 = np.empty((0, 0), np.int64)

    def run(
        self,
        walk: Callable[..., tuple[int, int]],
        fields: int,
        octets: Octets,
        position: int,
        stop: int,
        capacity: int,
        *rest: Any,
    ) -> tuple[Int64, int]:
        """Return the records between ``position`` and ``stop``, and the start of the next record.

        The first row contains the starts of the records. The other rows contain the first ``fields`` 32-bit
        fields of the records.
        """
        end = len(octets)
        stop = min(stop, end)
        capacity = max(1, min(capacity, (stop - position) // 16 + 1))
        # There may be many short runs: the array for the longest run is allocated once.
        if self._records.shape[1] < capacity:
            self._records = np.empty((1 + fields, capacity), np.int64)
        records = self._records
        if self._large and (capacity > _FEW_RECORDS or library.is_ready()) and _compiled(walk) is not walk:
            count, after, lap_end = 0, position, position
            while after >= lap_end and after < stop and count < capacity:
                lap_end = stop
                if after - position <= _SPARSE_OCTETS * count:
                    # The start of a record depends on the previous record. Without this read into the cache,
                    # each step would wait for memory.
                    lap_end = min(stop, after + _LAP_OCTETS)
                    octets[after:lap_end:_LINE_OCTETS].max()
                count, after = _compiled(walk)(octets, after, lap_end, end, records, count, capacity, *rest)
            return records[:, :count].copy(), int(after)
        # A memoryview returns Python integers, which an interpreted loop handles several times faster.
        count, after = walk(octets.data, position, stop, end, records.data, 0, capacity, *rest)
        self._walked += after - position
        Walker._walked_before += after - position
        self._large = self._large or (self._grows and self._walked >= COMPILE_FROM_OCTETS)
        return records[:, :count].copy(), after


@functools.cache
def _compiled(walk: Callable[..., tuple[int, int]]) -> Callable[..., tuple[int, int]]:
    """Return ``walk`` as a kernel."""
    from ecmproto.kernels.kernel import over_batches

    return over_batches(walk)
