"""Rows as octets and in files: plain data between processes, and what is done kept for the next run.

Plain data is None, truth values, whole and finite numbers, text, lists (tuples become lists), dicts of text
that does not begin with ``$``, octets and numpy arrays.  It is written as JSON; octets and arrays stand
behind it as numpy writes them.  None of it is a pickle, whose reader does whatever its author wants.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ecmproto.errors import OutputError, SpecError, shown

if TYPE_CHECKING:
    import numpy as np

Row = dict[str, Any]
"""Plain data by its names; in a store, and on its way there, with the task's key as ``digest``."""

DIGEST = "digest"
"""The name in rows that is the store's own."""

_ARRAY, _OCTETS = "$array", "$octets"
_WITH_ARRAYS = re.compile(rb'\{"\$(?:array|octets)": "')
"""What only stands in JSON where octets or arrays are meant: in text the quotes have backslashes."""
_LENGTH = struct.Struct(">Q")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SYNC_S = 1.0
"""How much finished work a power cut may cost."""
_LEFT_S = 3600.0
"""A file that was written to so long ago is written by nobody any more."""


# Octets ---------------------------------------------------------------------------------------------------


def pack(value: Mapping[str, Any]) -> bytes:
    """Return plain data as octets; TypeError or ValueError for what is none."""
    _check(value)
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def apart(item: object) -> object:
        import numpy as np

        if isinstance(item, np.generic) and item.dtype.kind in "biuf":
            return item.item()
        name = str(len(arrays))
        if isinstance(item, bytes | bytearray | memoryview):
            arrays[name] = np.frombuffer(item, np.uint8)
            return {_OCTETS: name}
        if isinstance(item, np.ndarray) and not item.dtype.hasobject:
            arrays[name] = item
            return {_ARRAY: name}
        raise TypeError(f"{type(item).__name__} is no plain data")

    text = json.dumps(value, allow_nan=False, default=apart).encode()
    return _LENGTH.pack(len(text)) + text + _arrays_packed(arrays)


def _check(value: object) -> None:
    """Refuse keys that JSON would turn into text, and those that stand for arrays."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if not isinstance(key, str) or key.startswith("$"):
                raise TypeError(f"{shown(key)} is no key of plain data: needed text, without $ at its start")
            _check(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check(each)


def _arrays_packed(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    if not arrays:
        return b""
    import numpy as np

    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def unpack(octets: bytes) -> Row:
    """Return the plain data that `pack` has packed."""
    text, arrays = parts(octets)
    return _read(text, arrays)


def parts(octets: bytes) -> tuple[bytes, bytes]:
    """Return packed data as its JSON and its arrays."""
    (length,) = _LENGTH.unpack_from(octets)
    start = _LENGTH.size
    return octets[start : start + length], octets[start + length :]


def _read(text: bytes, arrays: bytes) -> Row:
    if not arrays:
        row: Row = json.loads(text)
        return row
    import numpy as np

    with np.load(io.BytesIO(arrays), allow_pickle=False) as found:

        def whole(item: dict[str, Any]) -> Any:
            if _ARRAY in item:
                return found[item[_ARRAY]]
            if _OCTETS in item:
                return found[item[_OCTETS]].tobytes()
            return item

        found_row: Row = json.loads(text, object_hook=whole)
    return found_row


def octets_at(place: Sequence[str]) -> bytes:
    """Return the octets of a row in the file where `RowStore.place_of` says that they stand."""
    import numpy as np

    file, name = place
    with np.load(file, allow_pickle=False) as found:
        octets: bytes = found[name].tobytes()
    return octets


def framed(messages: Iterator[bytes]) -> bytes:
    """Return messages one behind the other, each with its length."""
    stream = io.BytesIO()
    for message in messages:
        stream.write(_LENGTH.pack(len(message)))
        stream.write(message)
    return stream.getvalue()


def unframed(octets: bytes) -> Iterator[bytes]:
    """Yield the messages that `framed` has put one behind the other."""
    place = 0
    while place < len(octets):
        (length,) = _LENGTH.unpack_from(octets, place)
        place += _LENGTH.size
        yield octets[place : place + length]
        place += length


# Files ----------------------------------------------------------------------------------------------------


class RowStore:
    """Rows in a file that grows, a line of JSON each, under their digests; files joined are a file again.

    Arrays stand in a folder beside it, ``NAME.arrays``, a file a row, in a folder for each two characters
    that digests begin with.  In memory there is where each row begins.  A row is there as a whole or not at
    all, whenever the process, or the machine, stops: what was cut short is taken off, and done again.
    SpecError for a file of something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._arrays = self.path.with_name(f"{self.path.name}.arrays")
        self._places: dict[str, int] = {}
        self._file: int | None = None
        self._synced_s = 0.0
        self._unsynced: set[Path] = set()
        """Folders of arrays that were added to since then."""
        with suppress(FileNotFoundError):
            self._scan()

    def _scan(self) -> None:
        beside: set[str] = set()
        with suppress(FileNotFoundError):
            for folder in self._arrays.iterdir():
                with suppress(NotADirectoryError):
                    names = os.listdir(folder)
                    self._clear_up(folder, names)
                    beside.update(names)
        place = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n") or b"\0" in line:
                    break  # cut short; after a power cut octets that were not written may be read as 0
                row = self._parsed(line, f"{self.path}, line {number}")
                if not _WITH_ARRAYS.search(line) or self._arrays_path(row[DIGEST]).name in beside:
                    self._places[row[DIGEST]] = place
                place += len(line)
        if place < self.path.stat().st_size:
            os.truncate(self.path, place)

    @staticmethod
    def _clear_up(folder: Path, names: Iterable[str]) -> None:
        """Remove arrays that were being written when a process was killed, but not those of another's."""
        for name in names:
            partial = folder / name
            with suppress(OSError):
                if name.startswith(".") and partial.stat().st_mtime < time.time() - _LEFT_S:
                    partial.unlink()

    @staticmethod
    def _parsed(line: bytes, where: str) -> Row:
        with suppress(ValueError, AttributeError):
            row: Row = json.loads(line)
            if isinstance(row.get(DIGEST), str):
                return row
        got = shown(line.decode(errors="replace")[:60])
        raise SpecError(where=where, needed="a row with its digest, as a line of JSON", got=got)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        """Yield the digests."""
        return iter(self._places)

    def __getitem__(self, key: str) -> Row:
        """Return the row of a digest; KeyError if there is none."""
        line, row = self._line(key)
        if not _WITH_ARRAYS.search(line):
            return row
        return _read(line, self._arrays_path(key).read_bytes())

    def _line(self, key: str) -> tuple[bytes, Row]:
        with self.path.open("rb") as file:
            file.seek(self._places[key])
            line = file.readline()
        return line, self._parsed(line, f"{self.path}, {key}")

    def described(self, key: str) -> Row:
        """Return the row of a digest without reading its arrays: what stands for them says their names."""
        return self._line(key)[1]

    def place_of(self, key: str, name: str) -> list[str]:
        """Return where octets of a row stand, for `octets_at` in any process that sees the file."""
        return [str(self._arrays_path(key).absolute()), self.described(key)[name][_OCTETS]]

    def add(self, key: str, packed: bytes) -> None:
        """Keep a packed row, whose ``digest`` is ``key``; other processes may add to the same file."""
        text, arrays = parts(packed)
        if arrays:
            self._add_arrays(key, arrays)
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o666)
            _sync_folder(self.path.parent)
        written = os.write(self._file, text + b"\n")
        # Others may have added in the meantime.
        place = os.lseek(self._file, 0, os.SEEK_CUR) - written
        if written <= len(text):
            os.ftruncate(self._file, place)
            raise OutputError(path=str(self.path), needed="room for a row", got=f"that for {written} octets")
        self._places[key] = place
        now_s = time.monotonic()
        if now_s >= self._synced_s + _SYNC_S:
            self._sync()
            self._synced_s = now_s

    def _arrays_path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise SpecError(where="a row's digest", needed="letters, digits, dots and dashes", got=shown(key))
        return self._arrays / key[:2] / f"{key}.npz"

    def _add_arrays(self, key: str, arrays: bytes) -> None:
        path = self._arrays_path(key)
        if path.parent not in self._unsynced:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._unsynced.add(path.parent)
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            with partial.open("xb") as file:
                file.write(arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise

    def _sync(self) -> None:
        if self._file is not None:
            for folder in (*self._unsynced, self._arrays) if self._unsynced else ():
                _sync_folder(folder)
            self._unsynced.clear()
            os.fsync(self._file)

    def close(self) -> None:
        """Have the disk hold all of it."""
        if self._file is not None:
            self._sync()
            os.close(self._file)
            self._file = None

    def __enter__(self) -> RowStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _sync_folder(folder: Path) -> None:
    """Have the disk hold the names in a folder, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
