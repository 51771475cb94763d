"""Values in capture names, and the names of results.

A pattern such as ``{host}-{date}.pcap`` extracts the host and the day from the name of a capture. Each word
in braces is a folder level in a Parquet set with Hive partitions, such as ``date=2026-03-01/host=sw1``.
"""

from __future__ import annotations

import datetime
import itertools
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from urllib.parse import quote, urlsplit

from ecmproto.errors import CaptureError, ParameterError, shown
from ecmproto.frames.capture.names import files_named, name_shown
from ecmproto.units import NS_PER_S

DATE = "date"
"""The first partition key, which is the day in the name, or else the day of the first frame (UTC)."""
UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
"""The partition value for null."""

_DATE = r"\d{4}[-_.]?\d{2}[-_.]?\d{2}"
_WORD = re.compile(r"\{([^{}]*)\}|(\*)")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_PACKED = (".gz", ".zst")


class NamePattern:
    """A pattern for capture names. Raises ParameterError for an invalid pattern.

    ``{word}`` extracts text within a name, ``*`` skips text, and all other characters are literal. A pattern
    with n slashes also matches the names of n folders above the capture. The suffixes .gz and .zst may be
    omitted.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = text.count("/") + 1
        names: list[str] = []
        written = ""
        end = 0
        for match in _WORD.finditer(text):
            written += re.escape(text[end : match.start()])
            end = match.end()
            if match[2]:
                written += "[^/]*"
                continue
            if not _NAME.fullmatch(match[1]) or match[1] in names:
                raise ParameterError(
                    name="name pattern",
                    needed="distinct words in lower case, such as {host}",
                    got=shown(match[0]),
                )
            names.append(match[1])
            written += f"(?P<{match[1]}>{_DATE if match[1] == DATE else '[^/]+?'})"
        if not names or "{" in text[end:] or "}" in text[end:]:
            raise ParameterError(
                name="name pattern", needed="words in braces, such as {host}-{date}.pcap", got=shown(text)
            )
        self.names: tuple[str, ...] = tuple(names)
        self._pattern = re.compile(written + re.escape(text[end:]))

    def values(self, path: str) -> dict[str, str] | None:
        """Return the values in a capture name by word, or ``None`` if the name does not match."""
        name = "/".join(_path_of(path).parts[-self._parts :])
        packed = next((suffix for suffix in _PACKED if name.endswith(suffix)), "")
        match = self._pattern.fullmatch(name) or self._pattern.fullmatch(name.removesuffix(packed))
        if match is None:
            return None
        values = match.groupdict()
        if DATE in values:
            day = _day(values[DATE])
            if day is None:
                return None
            values[DATE] = day
        return values


def _day(text: str) -> str | None:
    """Return a day in the form 2026-03-01, or ``None`` for an invalid day."""
    try:
        return datetime.date.fromisoformat(re.sub("[-_.]", "", text)).isoformat()
    except ValueError:
        return None


def day_of(time_ns: int) -> str:
    """Return the day of a time (UTC) in the form 2026-03-01."""
    epoch = datetime.date(1970, 1, 1)
    try:
        return (epoch + datetime.timedelta(seconds=time_ns // NS_PER_S)).isoformat()
    except OverflowError:
        return UNKNOWN


def partition_folder(values: Mapping[str, str | None]) -> str:
    """Return the folder of a partition, such as ``date=2026-03-01/host=sw1``. ``None`` is a missing value."""
    return "/".join(
        f"{name}={UNKNOWN if value is None else quote(value, safe=' ')}" for name, value in values.items()
    )


def captures_named(paths: Iterable[str], results: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the captures that ``paths`` names, without duplicates.

    A folder names all captures in and below it.

    Files below the folder ``results`` are skipped if a path is a folder or a pattern that includes this
    folder. Raises CaptureError for a folder or a pattern without captures.
    """
    captures: dict[str, None] = {}
    for path in paths:
        below: list[str] = []
        for folder, folders, _ in os.walk(path) if os.path.isdir(path) else ():
            folders.sort()
            with suppress(CaptureError):
                below += files_named(folder)
        every = below or files_named(path)
        is_around = results is not None and every != [path] and not _is_below(path, results)
        remaining = [each for each in every if not (is_around and _is_below(each, results))]
        if not remaining:
            needed = "captures beside the folder of results"
            raise CaptureError(path=name_shown(path), offset=0, frame=0, needed=needed, got="none")
        captures |= dict.fromkeys(remaining)
    return list(captures)


def _is_below(path: str, folder: str | os.PathLike[str] | None) -> bool:
    """Return whether a file or folder is the given folder or below this folder."""
    return folder is not None and _path_of(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def common_folder(paths: Iterable[str]) -> str:
    """Return the common parent folder of all captures."""
    common: tuple[str, ...] | None = None
    for path in paths:
        folder = _path_of(path).parent.parts
        if common is not None:
            same = (one == other for one, other in zip(common, folder, strict=False))
            folder = folder[: sum(itertools.takewhile(bool, same))]
        common = folder
    return PurePosixPath(*(common or "/")).as_posix()


def result_name(path: str, base: str) -> str:
    """Return the name of a capture's results, which is the path relative to ``base`` or to the root."""
    location = _path_of(path)
    below = location.relative_to(base if location.is_relative_to(base) else "/")
    return below.as_posix()


def _path_of(path: str) -> PurePosixPath:
    """Return the absolute path of a capture, without the scheme and parent references of a URL."""
    if "://" in path:
        parts = urlsplit(path)
        pieces = (word for word in (parts.netloc, *parts.path.split("/")) if word not in ("", ".", ".."))
        return PurePosixPath("/", *pieces)
    return PurePosixPath(os.path.abspath(path))
