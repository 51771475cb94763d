"""Compressed captures: gzip and zstd streams, told by their first octets and decompressed in bounded steps.

Several members or frames one after the other are one stream, zero padding behind a gzip member is ignored.
A broken stream gives everything before the break and then raises EOFError or ValueError with a sentence.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from ecmproto.errors import CaptureError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_REFUSED = {
    b"\x04\x22\x4d\x18": ("an lz4 file", "lz4 -dc"),
    b"\xfd7zXZ\x00": ("an xz file", "xz -dc"),
    b"BZh": ("a bzip2 file", "bzip2 -dc"),
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
}
_INPUT_OCTETS = 1 << 20
# A zstd block takes 4 octets at least and gives 128 KiB at most: a KiB of input gives 32 MiB at most.
_ZSTD_STEP_OCTETS = 1 << 10
_GZIP_STEP_OCTETS = 1 << 20


class _Decompressor(Protocol):
    """Yields what each step gives, and how many octets of the piece at hand are still to be used."""

    def __call__(self, pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]: ...


def is_compressed(magic: bytes, path: str) -> str:
    """Return "gzip", "zstd" or "" for a file that starts with ``magic`` (8 octets or more).

    Raises CaptureError for compressions that are known but not read, with what to run instead.
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
    """The decompressed octets of ``file``; ``head`` is what was read of it already."""

    def __init__(self, file: Any, kind: str, *, head: bytes = b"", owned: bool = False) -> None:
        self._file = file
        self._owned = owned
        self._head = head
        self._taken = self._unused = 0
        decompress: _Decompressor = _gunzip if kind == "gzip" else _unzstd
        self._pieces = decompress(self._input())
        self._rest = memoryview(b"")
        self._error: Exception | None = None

    @property
    def octets_read(self) -> int:
        """Compressed octets of which everything was given so far."""
        return self._taken - self._unused

    def _input(self) -> Iterator[bytes]:
        read = getattr(self._file, "read1", self._file.read)
        piece = self._head or read(_INPUT_OCTETS)
        while piece:
            self._taken += len(piece)
            yield piece
            piece = read(_INPUT_OCTETS)

    def readinto(self, target: memoryview) -> int:
        """Fill ``target`` as far as one step gives; 0 at the end."""
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
        """Close the file if it was opened for this stream."""
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
        raise EOFError("the end of a gzip stream that is cut short")


def _salvage(member: Any, data: bytes) -> Iterator[bytes]:
    """Yield what ``data`` gives before the octet that breaks the stream, found by ever shorter steps."""
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


def _unzstd(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    import zstandard

    frame: Any = None
    for piece in pieces:
        for at in range(0, len(piece), _ZSTD_STEP_OCTETS):
            data = piece[at : at + _ZSTD_STEP_OCTETS]
            while data:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                try:
                    out = frame.decompress(data)
                except zstandard.ZstdError as error:
                    raise ValueError(f"a broken zstd stream ({error})") from None
                if out:
                    yield out, max(0, len(piece) - at - _ZSTD_STEP_OCTETS)
                data = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = None
    if frame is not None:
        raise EOFError("the end of a zstd stream that is cut short")
