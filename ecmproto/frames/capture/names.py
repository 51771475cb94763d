"""The files of names: files, folders of files, patterns, and URLs, which fsspec opens.

A folder contains its captures by their suffixes; a pattern is all matches.  Both are in the order of their
names, numbers in them by value, as in the names of files written one after the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit, urlunsplit

from ecmproto.errors import CaptureError, MissingDependencyError

_WILD = re.compile(r"[*?[]")
_SUFFIX = re.compile(r"\.(pcap|pcapng|cap|ntar)\d*(\.\d+)?(\.gz|\.zst)?$", re.IGNORECASE)
"""The suffixes of captures; tcpdump -C writes x.pcap, x.pcap1 and so on."""
_DIGITS = re.compile(r"(\d+)")
_NOT_FOUND = 404
_BLOCK_OCTETS = 8 << 20
"""The size of a request to a remote file."""


def is_remote(name: str) -> bool:
    """Return whether a name is a URL, such as ``s3://bucket/x.pcap``, and no file."""
    return "://" in name and not os.path.lexists(name)


def is_single(name: str) -> bool:
    """Return whether a name is one file: neither a folder nor a pattern."""
    if name == "-" or os.path.isfile(name):
        return True
    if is_remote(name):
        return not _WILD.search(_without_query(name)) and not name.endswith("/")
    return not os.path.isdir(name) and not (_WILD.search(name) and not os.path.lexists(name))


def is_pipe(name: str | os.PathLike[str]) -> bool:
    """Return whether a name's file can be read once only."""
    text = os.fspath(name)
    return text == "-" or (os.path.exists(text) and not os.path.isfile(text) and not os.path.isdir(text))


def files_named(name: str) -> list[str]:
    """Return the files of a name, in order; CaptureError or MissingDependencyError (fsspec) without any."""
    if is_single(name):
        return [name]
    if is_remote(name):
        found, what = _remote_files(name)
    elif os.path.isdir(name):
        found = [str(path) for path in Path(name).iterdir() if path.is_file() and _is_capture(path.name)]
        what = "a folder with captures (.pcap, .pcapng, .cap, also .gz and .zst)"
    else:
        import glob

        found = [path for path in glob.glob(name, recursive=True) if os.path.isfile(path)]
        what = "a file that matches"
    if not found:
        raise CaptureError(path=name_shown(name), offset=0, frame=0, needed=what, got="none")
    return sorted(found, key=_in_order)


def _is_capture(name: str) -> bool:
    return not name.startswith(".") and _SUFFIX.search(name) is not None


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return the sorting key of a name: x.pcap9 is before x.pcap10."""
    return [(int(text), "") if text.isdigit() else (-1, text) for text in _DIGITS.split(name)]


def name_shown(name: str) -> str:
    """Return a name without the secrets of a URL: a user's password, a signature."""
    if "://" not in name:
        return name
    parts = urlsplit(name)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def names_shown(names: Iterable[str | os.PathLike[str]]) -> str:
    """Return names one after the other, as `name_shown`."""
    return ", ".join(name_shown(os.fspath(name)) for name in names)


def open_file(name: str) -> BinaryIO:
    """Open a file or a URL, to be read in binary.

    OSError and ValueError as from ``open``, for any error of a server; MissingDependencyError for a URL
    without fsspec.
    """
    if not is_remote(name):
        return open(name, "rb", buffering=0)
    system, path = _system_of(name)
    return _RemoteFile(_answer(name, lambda: system.open(path, "rb", block_size=_BLOCK_OCTETS)))  # type: ignore[return-value]


def size_and_time(name: str) -> tuple[int, int]:
    """Return the size of a file or URL in octets, and its modification time.

    The time is in ns; for a URL it is a number that identifies the server's version.  OSError as from
    ``open``.
    """
    if not is_remote(name):
        status = os.stat(name)
        return status.st_size, status.st_mtime_ns
    system, path = _system_of(name)
    told = _answer(name, lambda: system.info(path))
    marks = [str(told.get(key, "")) for key in ("ETag", "etag", "LastModified", "mtime", "created")]
    import hashlib

    digest = hashlib.sha256("".join(marks).encode()).digest()
    return int(told.get("size") or 0), int.from_bytes(digest[:6])


def _remote_files(name: str) -> tuple[list[str], str]:
    system, path = _system_of(name)
    if _WILD.search(_without_query(name)):
        found = _answer(name, lambda: system.glob(path))
        return [system.unstrip_protocol(each) for each in found], "a file that matches"
    found = _answer(name, lambda: system.ls(path, detail=False))
    return [system.unstrip_protocol(each) for each in found if _is_capture(each)], "a folder with captures"


def _without_query(name: str) -> str:
    """Return a name without the query of a web URL, unless it is a pattern."""
    return name.partition("?")[0] if name.startswith(("http://", "https://")) else name


def _system_of(name: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path there."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingDependencyError(package="fsspec", extra="remote", purpose=name_shown(name)) from None
    try:
        system, path = _answer(name, lambda: url_to_fs(name))
    except ImportError as error:
        # fsspec names the package of the protocol
        named = re.search(r"[Ii]nstall \W?([\w-]+)|No module named '(\w+)", str(error))
        package = (named[1] or named[2]) if named else str(error)
        extra = "remote" if package in ("aiohttp", "requests") else ""
        raise MissingDependencyError(package=package, extra=extra, purpose=name_shown(name)) from error
    return system, path


def _answer(name: str, ask: Any) -> Any:
    """Return the answer of a file system; its exceptions become OSError, as for a local file."""
    try:
        return ask()
    except (OSError, ImportError) as error:
        if isinstance(error, OSError) and not error.strerror:
            raise OSError(_reason(error)) from error
        raise
    except Exception as error:
        raise OSError(_reason(error)) from error


def _reason(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(error, FileNotFoundError):
        # the error of an unreachable or refusing server too
        if cause is None or getattr(cause, "status", None) == _NOT_FOUND or isinstance(cause, KeyError):
            return "no such file"
        error = cause if isinstance(cause, Exception) else error
    text = re.sub(r"\S+://\S+", lambda match: name_shown(match[0]), str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _RemoteFile:
    """A file of another machine, read from its beginning to its end."""

    def __init__(self, file: Any) -> None:
        self._file = file
        size = getattr(file, "size", None)
        self.size: int | None = size if isinstance(size, int) else None

    def read(self, octets: int) -> bytes:
        """Return the next octets, at most ``octets``."""
        return bytes(_answer("", lambda: self._file.read(octets)))

    def close(self) -> None:
        """Close it."""
        self._file.close()
