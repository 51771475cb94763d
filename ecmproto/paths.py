"""Checks of file paths: output files, and file names in documents written by other users."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from ecmproto.errors import OutputError, SpecError, shown

if TYPE_CHECKING:
    from pathlib import Path

_NAME_OCTETS, _PATH_OCTETS = 255, 4000
_MAX_LINKS = 40
"""Linux's maximum number of symbolic links in a path."""


def refuse_foreign_links(path: str | os.PathLike[str]) -> None:
    """Raise OutputError if a component of an output's path is a symbolic link of another user except root.

    The owner of such a link chooses the file that is created or replaced.
    """
    name = os.fspath(path)
    if not hasattr(os, "geteuid"):
        return  # links have no owners here
    trusted = (os.geteuid(), 0)
    left = os.path.join(os.getcwd(), name).split("/")[::-1]
    folder, links = "/", 0
    while left and links <= _MAX_LINKS:
        part = left.pop()
        # ".." is applied after links are followed, as the kernel does
        here = os.path.dirname(folder) if part == ".." else os.path.join(folder, part)
        try:
            status = os.lstat(here)
        except (OSError, ValueError):
            return  # a missing path is no link; any other error comes from opening it
        if not stat.S_ISLNK(status.st_mode):
            folder = os.path.normpath(here)
            continue
        if status.st_uid not in trusted:
            needed = "a path without links of other users"
            got = f"{here}, a link of user {status.st_uid}"
            raise OutputError(path=name, needed=needed, got=got)
        links += 1
        target = os.readlink(here)
        folder = "/" if target.startswith("/") else folder
        left += target.split("/")[::-1]


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a file in lower case, without .gz and .zst, or empty text without a suffix."""
    name, suffix = os.path.splitext(os.fspath(path))
    return suffix_of(name) if suffix in (".gz", ".zst") else suffix.lower()


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder for outputs and its parents. Raises OutputError for links of other users."""
    from pathlib import Path

    refuse_foreign_links(path)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def path_below(folder: Path, name: str, where: str = "") -> Path:
    """Return the path below ``folder`` for a file name from a document. The file need not exist.

    Raises SpecError, with the position ``where``, if ``name`` is absolute, leads out of the folder, passes a
    symbolic link, or names anything but a regular file.
    """
    from pathlib import PurePosixPath

    needed = "the name of a regular file below the folder, without links"
    parts = PurePosixPath(name).parts
    with suppress(UnicodeEncodeError):
        longest = max((len(os.fsencode(part)) for part in parts), default=0)
        if (
            0 < longest <= _NAME_OCTETS
            and len(os.fsencode(name)) <= _PATH_OCTETS
            and not {"/", "//", ".."}.intersection(parts)
            and "\0" not in name
        ):
            path, mode = folder, stat.S_IFDIR
            for part in parts:
                path = path / part
                mode = _mode_of(path) if stat.S_ISDIR(mode) else mode
            if mode == 0 or stat.S_ISREG(mode):
                return path
    raise SpecError(where=where or str(folder), needed=needed, got=shown(name))


def _mode_of(path: Path) -> int:
    """Return the mode of a file, without following links; 0 if the file does not exist."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0
