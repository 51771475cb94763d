"""Names of captures: files, folders of files, patterns, and URLs, which fsspec opens.

A folder name means all files in the folder with a capture suffix. A pattern means all matching files. Files
are sorted by name, and numbers in names are compared by value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from ecmproto.errors import CaptureError, MissingDependencyError

_WILD = "[*?[]"
_SUFFIX = r"(?i)\.(pcap|pcapng|cap|ntar)\d*(\.\d+)?(\.gz|\.zst)?$"
"""Suffixes of captures; tcpdump -C writes x.pcap, x.pcap1 and so on."""
_NOT_FOUND = 404
_BLOCK_OCTETS = 8 << 20
"""Size of a request to a remote file, in octets."""


def is_remote(name: str) -> bool:
    """Return whether a name is a URL, such as ``s3://bucket/x.pcap``, and not an existing file."""
    return "://" in name and not os.path.lexists(name)


def is_single(name: str) -> bool:
    """Return whether a name is one file, not a folder or a pattern."""
    if name == "-" or os.path.isfile(name):
        return True
    if is_remote(name):
        return not re.search(_WILD, _without_query(name)) and not name.endswith("/")
    return not os.path.isdir(name) and not (re.search(_WILD, name) and not os.path.lexists(name))


def is_pipe(name: str | os.PathLike[str]) -> bool:
    """Return whether a name is stdin, a pipe or a device, which can be read only once."""
    text = os.fspath(name)
    return text == "-" or (os.path.exists(text) and not os.path.isfile(text) and not os.path.isdir(text))


def files_named(name: str) -> list[str]:
    """Return the sorted files of a name.

    Raises CaptureError if there is no file, and MissingDependencyError for a URL without fsspec.
    """
    if is_single(name):
        return [name]
    if is_remote(name):
        names, what = _remote_files(name)
    elif os.path.isdir(name):
        with os.scandir(name) as entries:
            names = [entry.path for entry in entries if entry.is_file() and _is_capture(entry.name)]
        what = "a folder with captures (.pcap, .pcapng, .cap, also .gz and .zst)"
    else:
        import glob

        names = [path for path in glob.glob(name, recursive=True) if os.path.isfile(path)]
        what = "a file that matches"
    if not names:
        raise CaptureError(path=name_shown(name), offset=0, frame=0, needed=what, got="none")
    return sorted(names, key=_in_order)


def _is_capture(name: str) -> bool:
    return not name.startswith(".") and re.search(_SUFFIX, name) is not None


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return the sorting key of a name, with numbers compared by value: x.pcap9 is before x.pcap10."""
    return [(int(text), "") if text.isdigit() else (-1, text) for text in re.split(r"(\d+)", name)]


def name_shown(name: str) -> str:
    """Return a name without the secrets of a URL, such as a password or a signature."""
    if "://" not in name:
        return name
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(name)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def names_shown(names: Iterable[str | os.PathLike[str]]) -> str:
    """Return names for display, separated by commas; see `name_shown`."""
    return ", ".join(name_shown(os.fspath(name)) for name in names)


def open_file(name: str) -> BinaryIO:
    """Open a file or a URL for reading in binary mode.

    Raises OSError or ValueError like ``open``, also for errors of a server, and MissingDependencyError for a
    URL without fsspec.
    """
    if not is_remote(name):
        return open(name, "rb", buffering=0)
    system, path = _system_of(name)
    return _RemoteFile(_result(lambda: system.open(path, "rb", block_size=_BLOCK_OCTETS)))  # type: ignore[return-value]


def size_and_time(name: str) -> tuple[int, int]:
    """Return the size of a file or URL in octets, and its modification time in ns.

    For a URL, the time is a number that identifies the version on the server. Raises OSError like ``open``.
    """
    if not is_remote(name):
        status = os.stat(name)
        return status.st_size, status.st_mtime_ns
    system, path = _system_of(name)
    facts = _result(lambda: system.info(path))
    marks = [str(facts.get(key, "")) for key in ("ETag", "etag", "LastModified", "mtime", "created")]
    import hashlib

    digest = hashlib.sha256("".join(marks).encode()).digest()
    return int(facts.get("size") or 0), int.from_bytes(digest[:6])


def _remote_files(name: str) -> tuple[list[str], str]:
    system, path = _system_of(name)
    if re.search(_WILD, _without_query(name)):
        result = _result(lambda: system.glob(path))
        return [system.unstrip_protocol(each) for each in result], "a file that matches"
    result = _result(lambda: system.ls(path, detail=False))
    return [system.unstrip_protocol(each) for each in result if _is_capture(each)], "a folder with captures"


def _without_query(name: str) -> str:
    """Return a name without the query of a web URL; other names are unchanged."""
    return name.partition("?")[0] if name.startswith(("http://", "https://")) else name


def _system_of(name: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in the file system."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingDependencyError(package="fsspec", extra="remote", purpose=name_shown(name)) from None
    try:
        system, path = _result(lambda: url_to_fs(name))
    except ImportError as error:
        # fsspec's message contains the package for the protocol
        named = re.search(r"[Ii]nstall \W?([\w-]+)|No module named '(\w+)", str(error))
        package = (named[1] or named[2]) if named else str(error)
        extra = "remote" if package in ("aiohttp", "requests") else ""
        raise MissingDependencyError(package=package, extra=extra, purpose=name_shown(name)) from error
    return system, path


def _result(operation: Callable[[], Any]) -> Any:
    """Return the result of ``operation``; exceptions of a file system become OSError, as for a local file."""
    try:
        return operation()
    except (OSError, ImportError) as error:
        if isinstance(error, OSError) and not error.strerror:
            raise OSError(_reason(error)) from error
        raise
    except Exception as error:
        raise OSError(_reason(error)) from error


def _reason(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(error, FileNotFoundError):
        # fsspec raises this error also for an unreachable or refusing server
        if cause is None or getattr(cause, "status", None) == _NOT_FOUND or isinstance(cause, KeyError):
            return "no such file"
        error = cause if isinstance(cause, Exception) else error
    text = re.sub(r"\S+://\S+", lambda match: name_shown(match[0]), str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _RemoteFile:
    """A remote file that is read from start to end."""

    def __init__(self, file: Any) -> None:
        self._file = file
        size = getattr(file, "size", None)
        self.size: int | None = size if isinstance(size, int) else None

    def read(self, octets: int) -> bytes:
        """Return the next octets, at most ``octets``."""
        return bytes(_result(lambda: self._file.read(octets)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
