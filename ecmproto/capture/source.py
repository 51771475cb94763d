"""Where the octets of a capture come from: a mapped file, or a stream read in bounded chunks.

A source shows a window onto the capture: ``buffer`` holds the octets from ``base`` on, ``position`` is how
far they have been used.  ``extend`` brings in more behind the window and lets go of what was used.
"""

from __future__ import annotations

import io
import mmap
import os
import select
import stat
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

CHUNK_OCTETS = 8 << 20
_RELEASE_OCTETS = 4 << 20
_KEPT_OCTETS = 64 << 20
"""So many octets of a mapped file that were used last are kept: batches read ahead are looked at later."""
_READ_OCTETS = 1 << 20


class Source(Protocol):
    """A window onto a capture's octets."""

    buffer: NDArray[np.uint8]
    base: int
    position: int
    fault: str
    """Why the octets ended before the capture did (a read error, a broken compressed stream), or empty."""
    size_octets: int | None

    @property
    def octets_read(self) -> int:
        """Octets of the file used so far, comparable with ``size_octets``."""

    def extend(self, needed: int) -> bool:
        """Bring at least ``needed`` octets behind ``position`` into the window; False at the end."""

    def release(self) -> None:
        """Let go of the memory of everything before ``position``."""

    def close(self) -> None:
        """Close what the source opened."""


class MappedSource:
    """A regular file, mapped: the window is the whole file, and batches of it are views.

    Pages that were used are handed back to the kernel; who still looks at an old batch reads them in again.
    """

    def __init__(self, file: BinaryIO, size: int, *, owned: bool) -> None:
        self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        self._map.madvise(mmap.MADV_SEQUENTIAL)
        self._released = 0
        self.buffer: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.base = 0
        self.position = 0
        self.fault = ""
        self.size_octets: int | None = size
        if owned:
            file.close()

    @property
    def octets_read(self) -> int:
        """Octets used so far."""
        return self.position

    def extend(self, needed: int) -> bool:
        """Return whether ``needed`` octets are there; a mapped file has no more than it has."""
        return len(self.buffer) - self.position >= needed

    def release(self) -> None:
        """Hand the pages before ``position`` back, but for the last ones."""
        upto = (self.position - _KEPT_OCTETS) & -mmap.PAGESIZE
        if upto - self._released >= _RELEASE_OCTETS:
            self._map.madvise(mmap.MADV_DONTNEED, self._released, upto - self._released)
            self._released = upto

    def close(self) -> None:
        """Let the map go when the last batch that views it goes."""
        self.position = min(self.position, len(self.buffer))


class StreamSource:
    """A pipe, a file object or a decompressed stream, read a chunk at a time.

    A chunk is filled in place and never written again where a batch may look at it; what is left of it moves
    to the next chunk, which is as large as the longest record needs.
    """

    def __init__(
        self, stream: Any, *, size: int | None, owned: bool, chunk_octets: int = CHUNK_OCTETS
    ) -> None:
        _widen(stream)
        self._stream = stream
        self._owned = owned
        self._chunk = chunk_octets
        self._store = np.empty(chunk_octets, dtype=np.uint8)
        self._filled = 0
        self._ended = False
        self.buffer: NDArray[np.uint8] = self._store[:0]
        self.base = 0
        self.position = 0
        self._told = 0
        self.fault = ""
        self.size_octets = size

    def preload(self, head: bytes) -> None:
        """Put ``head``, already read from the stream, in front of it."""
        self._store = np.empty(max(self._chunk, len(head)), dtype=np.uint8)
        self._store[: len(head)] = np.frombuffer(head, dtype=np.uint8)
        self._filled = len(head)
        self.buffer = self._store[: self._filled]

    @property
    def octets_read(self) -> int:
        """Octets of the file used so far; of a compressed one, in proportion to what was decompressed."""
        used = self.base + self.position
        taken = getattr(self._stream, "octets_read", None)
        if taken is None:
            return used
        # later octets may be compressed so much better that this would go back
        self._told = max(self._told, int(taken) * used // max(1, self.base + self._filled))
        return self._told

    def extend(self, needed: int) -> bool:
        """Read until ``needed`` octets are behind ``position``, and as many more as come without waiting."""
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
        """Start a chunk with what is left of this one; it doubles at most, whatever ``needed`` claims."""
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

    def release(self) -> None:
        """Do nothing: a chunk goes when the last batch that views it goes."""

    def close(self) -> None:
        """Close the stream if it was opened here."""
        if self._owned:
            self._stream.close()


def _widen(stream: Any) -> None:
    """Let a pipe hold more than the 64 KiB that it usually does, so that it is read in fewer pieces."""
    with suppress(ImportError, AttributeError, OSError, ValueError, io.UnsupportedOperation):
        import fcntl  # what not every system has

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, _READ_OCTETS)


def _read_into(stream: Any, target: memoryview) -> int:
    read = getattr(stream, "read1", None)
    if read is None and hasattr(stream, "readinto"):
        return int(stream.readinto(target) or 0)
    # Of a buffered stream only read1 gives what is buffered without waiting for more.
    data: bytes = (read or stream.read)(min(len(target), _READ_OCTETS))
    target[: len(data)] = data
    return len(data)


def _ready(stream: Any) -> bool:
    """Whether a read would not wait; streams without a descriptor never do."""
    try:
        descriptor = stream.fileno()
        return bool(select.select([descriptor], [], [], 0)[0])
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        return True


def regular_size(file: Any) -> int | None:
    """Return the size of the regular file behind ``file``, standing at its start; None for all else."""
    try:
        status = os.fstat(file.fileno())
        return status.st_size if stat.S_ISREG(status.st_mode) and file.tell() == 0 else None
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        return None
