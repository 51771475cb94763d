"""Rows as octets and in files, for transfer between processes and for storage of finished work.

Plain data is None, truth values, whole and finite numbers, text, octets, numpy arrays, lists (tuples become
lists), and dicts whose keys are text that does not begin with ``$``. Plain data is written as JSON, followed
by octets and arrays in numpy's format. Pickles are not used, because loading a pickle can run any code.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import struct
import time
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ecmproto.errors import OutputError, SpecError, shown
from ecmproto.executors.checked import checked, lines_of, table_of
from ecmproto.paths import path_below

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = dict[str, Any]
"""Plain data by name. In a store, and in transfer, ``digest`` is the task's key."""

DIGEST = "digest"
"""Name in rows that is reserved for the store."""

_ARRAY, _OCTETS = "$array", "$octets"
_WITH_ARRAYS = re.compile(rb'\{"\$(?:array|octets)": "')
"""Pattern that occurs in JSON only for octets or arrays, because text has backslashes before quotes."""
_LENGTH = struct.Struct(">Q")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SYNC_S = 1.0
"""Maximum age in seconds of finished work that a power failure may destroy."""
_LEFT_S = 3600.0
"""Age in seconds from which a partial file is considered abandoned."""


# Octets ---------------------------------------------------------------------------------------------------


def pack(value: Mapping[str, Any]) -> bytes:
    """Return plain data as octets. Raises TypeError or ValueError for other data."""
    _check(value)
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def separated(item: object) -> object:
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
        raise TypeError(
            f"{type(item).__name__} is not plain data: expected numbers, text, lists, dicts or arrays"
        )

    text = json.dumps(value, allow_nan=False, default=separated).encode()
    return _LENGTH.pack(len(text)) + text + _arrays_packed(arrays)


def _check(value: object) -> None:
    """Raise an error for keys that JSON would turn into text, and for keys reserved for arrays."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if not isinstance(key, str) or key.startswith("$"):
                raise TypeError(f"{shown(key)} is not a key of plain data: expected text without a leading $")
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
    """Return the plain data packed by `pack`."""
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
    return _filled(text, io.BytesIO(arrays), "a row's arrays")


def _filled(text: bytes, arrays: BinaryIO, where: str) -> Row:
    """Return the row in JSON ``text`` with its arrays. Raises SpecError for missing arrays."""
    by_name = _arrays_of(arrays, where)

    def whole(item: dict[str, Any]) -> Any:
        if _ARRAY in item:
            return by_name[item[_ARRAY]]
        if _OCTETS in item:
            return by_name[item[_OCTETS]].tobytes()
        return item

    try:
        row: Row = json.loads(text, object_hook=whole)
    except (KeyError, TypeError) as error:
        raise SpecError(where=where, needed="the arrays referred to by a row", got=str(error)) from None
    return row


def octets_at(position: Sequence[str]) -> bytes:
    """Return the octets of a row at the position given by `RowStore.position_of`."""
    path, name = position
    with open(path, "rb") as file:
        octets: bytes = _filled(json.dumps({_OCTETS: name}).encode(), file, path)  # type: ignore[assignment]
    return octets


def _arrays_of(file: BinaryIO, where: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file. Raises SpecError if the file is compressed or smaller than its arrays."""
    try:
        with zipfile.ZipFile(file) as archive:
            listed = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in listed):
                raise ValueError("compressed arrays")
            if sum(info.file_size for info in listed) > file.seek(0, os.SEEK_END):
                raise ValueError("arrays larger than their file")
            return {info.filename.removesuffix(".npy"): _array(archive.read(info)) for info in listed}
    except (
        ArithmeticError,
        EOFError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        raise SpecError(where=where, needed="arrays as numpy writes them", got=str(error)) from None


def _array(octets: bytes) -> NDArray[Any]:
    """Return the array in a file. A declared shape larger than the octets allocates no memory."""
    import numpy as np

    stream = io.BytesIO(octets)
    reads = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, is_fortran, dtype = reads[np.lib.format.read_magic(stream)](stream)
    array = np.frombuffer(bytearray(stream.read()), dtype, math.prod(shape))
    return array.reshape(shape, order="F" if is_fortran else "C")


# Files ----------------------------------------------------------------------------------------------------


class RowStore:
    """Rows by digest, in an append-only file with one line of JSON per row.

    Concatenated files are a valid file.

    The arrays of a row are in a separate file in the folder ``NAME.arrays``, in subfolders named by the first
    two characters of the digest. Memory contains only the offset of each row. If the process or the machine
    stops, a row is either complete or missing: the next row overwrites a truncated last row. ``row`` is the
    typed dict against which rows are checked. Raises SpecError for a file of another type, and leaves the
    file unchanged. Symbolic links are not followed.
    """

    def __init__(self, path: str | os.PathLike[str], row: type = dict) -> None:
        self.path: Path = Path(path)
        path_below(self.path.parent, self.path.name)
        self._row = row
        self._arrays = self.path.with_name(f"{self.path.name}.arrays")
        self._offsets: dict[str, int] = {}
        self._file: int | None = None
        self._whole_octets = self._scanned_octets = 0
        self._synced_s = 0.0
        self._unsynced: set[Path] = set()
        """Folders with arrays added since the last sync."""
        with suppress(FileNotFoundError):
            self._scan()

    def _scan(self) -> None:
        beside: set[str] = set()
        with suppress(FileNotFoundError, NotADirectoryError):
            for folder in () if self._arrays.is_symlink() else os.scandir(self._arrays):
                if folder.is_dir(follow_symlinks=False):
                    names = os.listdir(folder)
                    self._clear_up(Path(folder), names)
                    beside.update(names)
        with self.path.open("rb") as file:
            for number, line in enumerate(lines_of(file, str(self.path)), 1):
                self._scanned_octets = file.tell()
                if not line.endswith(b"\n") or b"\0" in line:
                    break  # truncated; after a power failure unwritten octets may be read as 0
                row = self._parsed(line, f"{self.path}, line {number}")
                if not _WITH_ARRAYS.search(line) or self._arrays_path(row[DIGEST]).name in beside:
                    self._offsets[row[DIGEST]] = self._whole_octets
                self._whole_octets = self._scanned_octets
            self._scanned_octets = file.seek(0, os.SEEK_END)
        if self._scanned_octets and not self._whole_octets:
            raise SpecError(
                where=str(self.path), needed="complete rows, or an empty file", got="no complete row"
            )

    @staticmethod
    def _clear_up(folder: Path, names: Iterable[str]) -> None:
        """Remove partial files of arrays that killed processes left, but keep the recent ones of others."""
        for name in names:
            partial = folder / name
            with suppress(OSError):
                if name.startswith(".") and partial.stat().st_mtime < time.time() - _LEFT_S:
                    partial.unlink()

    @staticmethod
    def _parsed(line: bytes, where: str) -> Row:
        row = table_of(line, where)
        checked(row.get(DIGEST), str, f"{where}, {DIGEST}")
        return row

    def __contains__(self, key: str) -> bool:
        return key in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[str]:
        """Yield the digests."""
        return iter(self._offsets)

    def __getitem__(self, key: str) -> Row:
        """Return the row of a digest. Raises KeyError for an unknown digest."""
        line, row = self._line(key)
        if _WITH_ARRAYS.search(line):
            path = self._arrays_path(key)
            with path.open("rb") as file:
                row = _filled(line, file, str(path))
        return row if self._row is dict else checked(row, self._row, f"{self.path}, {key}")

    def _line(self, key: str) -> tuple[bytes, Row]:
        with self.path.open("rb") as file:
            file.seek(self._offsets[key])
            line = file.readline()
        return line, self._parsed(line, f"{self.path}, {key}")

    def described(self, key: str) -> Row:
        """Return the row of a digest, with the names of arrays in place of the arrays."""
        return self._line(key)[1]

    def position_of(self, key: str, name: str) -> list[str]:
        """Return the position of octets in a row, for `octets_at` in any process that can read the file."""
        position = checked(self.described(key).get(name), Mapping[str, str], f"{self.path}, {key}, {name}")
        return [str(self._arrays_path(key).absolute()), position.get(_OCTETS, "")]

    def add(self, key: str, packed: bytes) -> None:
        """Store a packed row with the digest ``key``. Other processes may add rows to the same file."""
        text, arrays = parts(packed)
        if arrays:
            self._add_arrays(key, arrays)
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self.path, flags, 0o666)
            # unless another process has added to it in the meantime
            if self._whole_octets < self._scanned_octets == os.fstat(self._file).st_size:
                os.ftruncate(self._file, self._whole_octets)
            _sync_folder(self.path.parent)
        written = os.write(self._file, text + b"\n")
        # Other processes may have added rows meanwhile.
        offset = os.lseek(self._file, 0, os.SEEK_CUR) - written
        if written <= len(text):
            os.ftruncate(self._file, offset)
            raise OutputError(path=str(self.path), needed="space for a row", got=f"{written} octets")
        self._offsets[key] = offset
        now_s = time.monotonic()
        if now_s >= self._synced_s + _SYNC_S:
            self._sync()
            self._synced_s = now_s

    def _arrays_path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise SpecError(where="a row's digest", needed="letters, digits, dots and dashes", got=shown(key))
        return path_below(self.path.parent, f"{self._arrays.name}/{key[:2]}/{key}.npz")

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
        """Write all data to disk and close the files."""
        if self._file is not None:
            self._sync()
            os.close(self._file)
            self._file = None

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sync_folder(folder: Path) -> None:
    """Write the entries of a folder to disk if the file system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
