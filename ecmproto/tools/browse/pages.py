"""A capture whose frames can be read by number while the capture is being indexed.

The index contains pages, which are ranges of some thousand consecutive frames. The index stores only the
start of each page in 16 bytes, so that memory use grows little with the capture. A page is read and parsed on
each access, and the latest pages are cached.

A plain file is read directly. Compressed files, pipes, merged files and interfaces are copied uncompressed
into a temporary file in TMPDIR, which is deleted at the end of the process.
"""

from __future__ import annotations

import os
import tempfile
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, BinaryIO

from ecmproto.errors import CaptureError, OutputError
from ecmproto.frames.batch.inner import InnerReader, open_unwrapped
from ecmproto.frames.capture import Batch, Block, CaptureReader, Interface, PcapngWriter, Sink, open_capture
from ecmproto.frames.capture.names import is_remote, is_single, names_shown
from ecmproto.frames.capture.reader import Position
from ecmproto.frames.capture.source import DecompressedStream, is_compressed, regular_size
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

PAGE_FRAMES = 1024
"""The number of frames in a page. Interpreted code reads a page in a few milliseconds."""
_PAGE_OCTETS = 4 << 20
"""The maximum size in octets of a page that is filled by several batches."""
_INDEXED_FRAMES = 1 << 16
_CACHED_OCTETS = 48 << 20
_HEAD_OCTETS = 8
_PIPE_OCTETS = 1 << 20


class Pages:
    """The frames of a capture by number, created by `open_pages` or `live_pages`.

    Only frames that are already indexed can be read. ``start`` starts the indexing in a thread. Any thread
    may call the other methods.
    """

    def __init__(
        self,
        reader: CaptureReader,
        descriptor: int,
        path: str,
        *,
        spooled: bool,
        origin: CaptureReader | None = None,
        stream: BinaryIO | None = None,
    ) -> None:
        self.path = path
        """The displayed name."""
        self.file: str = f"/proc/self/fd/{descriptor}" if spooled else path
        """The path for reading the capture again, up to the end so far."""
        self.complete: bool = False
        """Whether the whole capture is indexed."""
        self.live: Callable[[], None] | None = None
        """A function that ends the capture of an interface. ``None`` for other captures."""
        self.defect: Exception | None = None
        """The exception that ended the indexing because of a bug."""
        self._reader = reader
        self._origin = origin or reader
        """The reader of the original input, which has the errors and warnings."""
        self._descriptor = descriptor
        self._stream = stream
        self._firsts = array("q")
        self._offsets = array("q")
        self._states: list[tuple[int, Hashable]] = []
        self._ends = (0, 0)
        """The end offset of the last page, and the number of frames."""
        self._grew = threading.Condition()
        self._stopping = False
        self._cache: OrderedDict[tuple[int, int], tuple[tuple[Batch, ...], int]] = OrderedDict()
        self._cached_octets = 0
        self._batches = iter(reader)
        self._thread = threading.Thread(target=self._index, name="index", daemon=True)

    @property
    def frames(self) -> int:
        """The number of frames so far."""
        return self._ends[1]

    @property
    def count(self) -> int:
        """The number of pages so far. The last page may still grow."""
        return len(self._firsts)

    @property
    def interfaces(self) -> Sequence[Interface]:
        """The interfaces of the capture so far."""
        return self._reader.interfaces

    @property
    def warnings(self) -> list[str]:
        """Warnings about the capture so far."""
        return list(self._origin.warnings)

    @property
    def unwrapped(self) -> str:
        """A line on the frames that were unwrapped so far, or an empty text."""
        return getattr(self._origin, "summary", "")

    @property
    def problem(self) -> CaptureError | None:
        """The error that ended the capture early. The error is set when the capture is complete."""
        return self._origin.problem or self._reader.problem

    @property
    def progress(self) -> float:
        """The indexed share of the capture, from 0 to 1. The value is 0 if the size is unknown."""
        size = self._origin.size_octets
        return min(1.0, self._origin.octets_read / size) if size else 0.0

    def start(self, *, first: bool = False) -> None:
        """Start the indexing. With ``first``, the first page is indexed before this method returns."""
        if first:
            self._step()
        self._thread.start()

    def wait(self, frames: int, seconds: float | None = None) -> bool:
        """Wait until the capture has more than ``frames`` frames, and return whether this is the case.

        The wait ends early after ``seconds``, or when the capture is complete.
        """
        with self._grew:
            self._grew.wait_for(lambda: self.frames > frames or self.complete, seconds)
            return self.frames > frames

    def finish(self, seconds: float | None = None) -> bool:
        """Wait until the capture is complete, and return whether the capture is complete."""
        with self._grew:
            return self._grew.wait_for(lambda: self.complete, seconds)

    def close(self) -> None:
        """Stop the indexing and close the file."""
        self._stopping = True
        if self.live is not None:
            self.live()
        if self._thread.is_alive():
            self._thread.join(2)
        if self._thread.is_alive():
            return  # the thread waits for a pipe, and ends with the process
        self._reader.close()
        if self._stream is not None:
            self._stream.close()
        with suppress(OSError):
            os.close(self._descriptor)

    # indexing

    def _index(self) -> None:
        try:
            while not self._stopping and self._step():
                pass
        except Exception as error:
            self.defect = error
        finally:
            with self._grew:
                self.complete = True
                self._grew.notify_all()

    def _step(self) -> bool:
        """Index the next batch, and return whether there was a batch."""
        position = self._reader.place
        batch = next(self._batches, None)
        self._reader.batch_frames = _INDEXED_FRAMES
        if batch is None:
            return False
        with self._grew:
            self._add(position, batch)
            self._grew.notify_all()
        return True

    def _add(self, before: Position, batch: Batch) -> None:
        after = self._reader.place
        if self._fills_up(before, after):
            self._ends = after.offset, after.frames
            return
        starts = [(before.frames, before.offset)]
        if after.state == before.state:  # otherwise only the start of the batch can be read separately
            cuts = range(PAGE_FRAMES, len(batch), PAGE_FRAMES)
            offsets = (batch.record_offset[PAGE_FRAMES::PAGE_FRAMES] + self._reader.base).tolist()
            starts += zip((before.frames + cut for cut in cuts), offsets, strict=True)
        if not self._states or self._states[-1][1] != before.state:
            self._states.append((self.count, before.state))
        for first, offset in starts:
            self._offsets.append(offset)
            self._firsts.append(first)
        self._ends = after.offset, after.frames

    def _fills_up(self, before: Position, after: Position) -> bool:
        """Return whether the new batch fits into the last page."""
        return (
            self.count > 0
            and self._states[-1][1] == before.state == after.state
            and after.frames - self._firsts[-1] <= PAGE_FRAMES
            and after.offset - self._offsets[-1] <= _PAGE_OCTETS
        )

    # reading

    def page_of(self, frame: int) -> int:
        """Return the page that contains a frame. Frame numbers start at 0."""
        return bisect_right(self._firsts, frame) - 1

    def first_of(self, page: int) -> int:
        """Return the number of the first frame in a page, or the number of frames after the last page."""
        return self._firsts[page] if page < self.count else self.frames

    def batches(self, page: int, stop: int, *, compiled: bool = False) -> Iterator[Batch]:
        """Yield the frames of pages from ``page`` to ``stop`` (exclusive), read from the file.

        ``compiled`` uses batches of maximum length, and may wait for a compiler.
        """
        # Pages are read with the state of the first page, so a range ends where the state changes.
        bounds = [at for at, _ in self._states if page < at < stop]
        for first, last in zip([page, *bounds], [*bounds, stop], strict=True):
            position, octets = self._read(first, last)
            frames = _INDEXED_FRAMES if compiled else PAGE_FRAMES
            yield from self._reader.parse(position, octets, frames=frames, compiled=compiled)

    def page(self, page: int) -> tuple[Batch, ...]:
        """Return the frames of a page, from the cache if possible."""
        key = page, self.first_of(page + 1)
        with self._grew:
            cached = self._cache.get(key)
            if cached is not None:
                self._cache.move_to_end(key)
                return cached[0]
        position, octets = self._read(page, page + 1)
        frames = max(PAGE_FRAMES, key[1] - position.frames)
        batches = tuple(self._reader.parse(position, octets, frames=frames, compiled=False))
        with self._grew:
            self._cache[key] = batches, len(octets)
            self._cached_octets += len(octets)
            while self._cached_octets > _CACHED_OCTETS and len(self._cache) > 1:
                _, (_, size) = self._cache.popitem(last=False)
                self._cached_octets -= size
        return batches

    def frame(self, frame: int) -> Batch | None:
        """Return a batch with a single frame, or ``None`` if the frame is no longer in the file."""
        for batch in self.page(self.page_of(frame)):
            if batch.first <= frame < batch.first + len(batch):
                return batch.select([frame - batch.first])
        return None

    def _read(self, page: int, stop: int) -> tuple[Position, bytes]:
        with self._grew:
            end = self._offsets[stop] if stop < self.count else self._ends[0]
            offset, frames = self._offsets[page], self._firsts[page]
            state = self._states[bisect_right(self._states, page, key=lambda each: each[0]) - 1][1]
        pieces = []
        at = offset
        while at < end:
            piece = os.pread(self._descriptor, end - at, at)
            if not piece:
                break  # the file was truncated
            pieces.append(piece)
            at += len(piece)
        octets = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return Position(offset=offset, frames=frames, state=state), octets


class _Tee:
    """A stream that copies all octets that are read from it into a spool file."""

    def __init__(self, stream: Any, spool: int, name: str) -> None:
        self._stream = stream
        self._spool = spool
        self.name = name

    @property
    def octets_read(self) -> int:
        """The number of octets read from the compressed file so far."""
        return int(self._stream.octets_read)

    def fileno(self) -> int:
        """Return the file descriptor to wait for. Raises AttributeError for streams without waiting."""
        return int(self._stream.fileno())

    def readinto(self, target: memoryview) -> int:
        count = int(self._stream.readinto(target) or 0)
        left = target[:count]
        while left:
            left = left[os.write(self._spool, left) :]
        return count

    def read(self, octets: int) -> bytes:
        buffer = bytearray(octets)
        return bytes(buffer[: self.readinto(memoryview(buffer))])


def open_pages(
    paths: Sequence[str],
    *,
    pipe: BinaryIO | None = None,
    outer: bool = False,
    ethertypes: EtherTypes = DEFAULT,
) -> Pages:
    """Open captures for reading by number. Several captures are merged in order of time.

    ``pipe`` is the stream for the path ``-``. Frames are unwrapped as in `open_unwrapped`. Raises
    CaptureError if a file cannot be read or is not a capture.
    """
    path = paths[0]
    is_several = len(paths) > 1 or is_remote(path) or not is_single(path)
    if is_several or not outer:
        given = [pipe if each == "-" and pipe is not None else each for each in paths]
        frames = open_unwrapped(given, outer=outer, ethertypes=ethertypes)
        if is_several or isinstance(frames, InnerReader):
            return _copied(frames, names_shown(paths))
        frames.close()
    if path == "-":
        assert pipe is not None
        return _spooled(pipe, "-")
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 (its reader closes it)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        plain = regular_size(file) is not None
        head = file.read(_HEAD_OCTETS) if plain else b""
        if plain:
            file.seek(0)
        if plain and not is_compressed(head, path):
            with file:
                # The first batches are small, so that the compiler is not loaded.
                reader = open_capture(path, batch_frames=PAGE_FRAMES)
                return Pages(reader, os.dup(file.fileno()), path, spooled=False)
    except OSError as error:
        file.close()
        raise _unreadable(path, error) from error
    except CaptureError:
        file.close()
        raise
    return _spooled(file, path)


def _unreadable(path: str, error: Exception) -> CaptureError:
    got = getattr(error, "strerror", None) or str(error)
    return CaptureError(path=path, offset=0, frame=0, needed="a readable capture file", got=got)


def live_pages(
    reader: CaptureReader,
    stop: Callable[[], None],
    name: str,
    *,
    outer: bool = False,
    ethertypes: EtherTypes = DEFAULT,
) -> Pages:
    """Return the pages of an interface that ``reader`` captures. ``stop`` ends the capture."""
    pages = _copied(reader if outer else InnerReader(reader, ethertypes=ethertypes), name)
    pages.live = stop
    return pages


def _spooled(file: BinaryIO, name: str, origin: CaptureReader | None = None) -> Pages:
    """Return the pages of a plain or compressed stream. Closing the pages closes the stream."""
    with ExitStack() as opened:
        opened.callback(file.close)
        head = b""
        try:
            while len(head) < _HEAD_OCTETS and (piece := file.read(_HEAD_OCTETS - len(head))):
                head += piece
        except OSError as error:
            raise _unreadable(name, error) from error
        kind = is_compressed(head, name)
        spool = _spool()
        opened.callback(os.close, spool)
        stream = DecompressedStream(file, kind, head=head) if kind else _Headed(file, head)
        reader = open_capture(_Tee(stream, spool, name), batch_frames=PAGE_FRAMES)  # type: ignore[arg-type]
        opened.pop_all()
    return Pages(reader, spool, name, spooled=True, origin=origin, stream=file)


class _Headed:
    """A stream whose first octets were already read."""

    def __init__(self, file: BinaryIO, head: bytes) -> None:
        self._file = file
        self._head = head

    def fileno(self) -> int:
        return self._file.fileno()

    def readinto(self, target: memoryview) -> int:
        """Read the first octets, then the remaining octets of the stream."""
        if self._head:
            piece, self._head = self._head[: len(target)], self._head[len(target) :]
        else:
            piece = os.read(self._file.fileno(), len(target))
        target[: len(piece)] = piece
        return len(piece)


def _copied(reader: CaptureReader, name: str) -> Pages:
    """Return the pages of a reader, whose frames are copied through a pipe as pcapng."""
    read, write = os.pipe()
    with suppress(ImportError, OSError):
        import fcntl  # only Linux has the option

        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_OCTETS)
    threading.Thread(target=_copy, args=(reader, write), name="capture", daemon=True).start()
    return _spooled(os.fdopen(read, "rb", buffering=0), name, reader)


def _copy(reader: CaptureReader, descriptor: int) -> None:
    """Write a capture into a pipe until the capture ends or the pipe is closed."""
    with reader, suppress(BrokenPipeError, OutputError), os.fdopen(descriptor, "wb") as pipe:
        writer = PcapngWriter(Sink("", pipe), interfaces=reader.interfaces, bare=True)
        writer.interfaces = reader.interfaces
        for item in reader.items():
            if isinstance(item, Block):
                writer.write_block(item.octets)
            elif item.records is not None:
                writer.write_records(item)
            elif len(item):
                writer.write_batch(item)
            pipe.flush()


def _spool() -> int:
    """Create a temporary file without a name, and return its file descriptor."""
    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())
