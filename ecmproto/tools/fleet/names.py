"""What the names of captures say, and how their results are called.

A pattern such as ``{host}-{date}.pcap`` takes the host and the day from a capture's name; every word in
braces is a level of folders that a Parquet set is partitioned by, as Hive does it:
``date=2026-03-01/host=sw1``.
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
"""What every set is partitioned by first: the day of the name, else that of the first frame (UTC)."""
UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
"""What stands for no value: readers of such sets know it as null."""

_DATE = r"\d{4}[-_.]?\d{2}[-_.]?\d{2}"
_WORD = re.compile(r"\{([^{}]*)\}|(\*)")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_PACKED = (".gz", ".zst")


class NamePattern:
    """A pattern on the names of captures; ParameterError for a text that is none.

    ``{word}`` takes something within a name, ``*`` skips it, all else stands for itself.  A pattern with
    slashes is about as many folders above the capture; .gz and .zst need not be said.
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
                    needed="words in small letters, each once, as {host}",
                    got=shown(match[0]),
                )
            names.append(match[1])
            written += f"(?P<{match[1]}>{_DATE if match[1] == DATE else '[^/]+?'})"
        if not names or "{" in text[end:] or "}" in text[end:]:
            raise ParameterError(
                name="name pattern", needed="words in braces, as {host}-{date}.pcap", got=shown(text)
            )
        self.names = tuple(names)
        self._found = re.compile(written + re.escape(text[end:]))

    def values(self, path: str) -> dict[str, str] | None:
        """Return what a capture's name says by the words; None where the name is another."""
        name = "/".join(_place(path).parts[-self._parts :])
        packed = next((suffix for suffix in _PACKED if name.endswith(suffix)), "")
        match = self._found.fullmatch(name) or self._found.fullmatch(name.removesuffix(packed))
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
    """Return a day as 2026-03-01; None for one that there is not."""
    try:
        return datetime.date.fromisoformat(re.sub("[-_.]", "", text)).isoformat()
    except ValueError:
        return None


def day_of(time_ns: int) -> str:
    """Return the day of a time in UTC, as 2026-03-01."""
    epoch = datetime.date(1970, 1, 1)
    try:
        return (epoch + datetime.timedelta(seconds=time_ns // NS_PER_S)).isoformat()
    except OverflowError:
        return UNKNOWN


def partition_folder(values: Mapping[str, str | None]) -> str:
    """Return the folders of a partition, as ``date=2026-03-01/host=sw1``; None is no value."""
    return "/".join(
        f"{name}={UNKNOWN if value is None else quote(value, safe=' ')}" for name, value in values.items()
    )


def captures_named(paths: Iterable[str], results: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the captures that are named, each once: of a folder all that are in it, and below.

    What is below the folder of ``results`` is left out where a folder or a pattern around it is named.
    CaptureError for a folder or a pattern that names none.
    """
    found: dict[str, None] = {}
    for path in paths:
        below: list[str] = []
        for folder, folders, _ in os.walk(path) if os.path.isdir(path) else ():
            folders.sort()
            with suppress(CaptureError):
                below += files_named(folder)
        every = below or files_named(path)
        is_around = results is not None and every != [path] and not _is_below(path, results)
        kept = [each for each in every if not (is_around and _is_below(each, results))]
        if not kept:
            needed = "captures beside the folder of results"
            raise CaptureError(path=name_shown(path), offset=0, frame=0, needed=needed, got="none")
        found |= dict.fromkeys(kept)
    return list(found)


def _is_below(path: str, folder: str | os.PathLike[str] | None) -> bool:
    """Return whether a file, or a folder, is in another one, or is that."""
    return folder is not None and _place(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def common_folder(paths: Iterable[str]) -> str:
    """Return the folder that all captures are in, or below."""
    common: tuple[str, ...] | None = None
    for path in paths:
        folder = _place(path).parent.parts
        if common is not None:
            same = (one == other for one, other in zip(common, folder, strict=False))
            folder = folder[: sum(itertools.takewhile(bool, same))]
        common = folder
    return PurePosixPath(*(common or "/")).as_posix()


def result_name(path: str, base: str) -> str:
    """Return what the results of a capture are called: its place below a folder, else from the root on."""
    place = _place(path)
    below = place.relative_to(base if place.is_relative_to(base) else "/")
    return below.as_posix()


def _place(path: str) -> PurePosixPath:
    """Return where a capture is, of a URL without its scheme; no part of it leads upwards."""
    if "://" in path:
        parts = urlsplit(path)
        words = (word for word in (parts.netloc, *parts.path.split("/")) if word not in ("", ".", ".."))
        return PurePosixPath("/", *words)
    return PurePosixPath(os.path.abspath(path))
