"""Paths of files: those of outputs, and those that a document from somebody else names."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ecmproto.errors import OutputError, SpecError, shown

_MAX_LINKS = 40
"""As Linux has it; opening a path with more fails."""


def refuse_foreign_links(path: str | os.PathLike[str]) -> None:
    """Raise OutputError where a component of an output's path is a link of another user, root's apart.

    Whoever owns such a link chooses the file that is created or replaced.
    """
    name = os.fspath(path)
    trusted = (os.geteuid(), 0)
    left = os.path.join(os.getcwd(), name).split("/")[::-1]
    folder, links = "/", 0
    while left and links <= _MAX_LINKS:
        part = left.pop()
        # ".." is taken behind links that were followed, as the kernel does
        here = os.path.dirname(folder) if part == ".." else os.path.join(folder, part)
        try:
            status = os.lstat(here)
        except (OSError, ValueError):
            return  # what is missing is no link; any other trouble is that of opening it
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


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder for outputs, and those above it; return it.  OutputError as `refuse_foreign_links`."""
    refuse_foreign_links(path)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def file_below(folder: str | os.PathLike[str], name: str, where: str) -> str:
    """Return the path of a regular file that a document in ``folder`` names.

    SpecError, with ``where`` in the document, unless the name is relative, stays below the folder and leads
    through no link.
    """
    parts = name.split("/")
    if not name or "\0" in name or "://" in name or name.startswith("/") or ".." in parts:
        needed = "the name of a file below the scenario's folder"
        raise SpecError(where=where, needed=needed, got=shown(name))
    path = os.fspath(folder)
    for part in parts:
        path = os.path.join(path, part)
        try:
            mode = os.lstat(path).st_mode
        except OSError as error:
            needed = "a file that can be read"
            got = f"{shown(name)}: {error.strerror}"
            raise SpecError(where=where, needed=needed, got=got) from None
        if stat.S_ISLNK(mode):
            raise SpecError(where=where, needed="a file, no link", got=shown(name))
    if not stat.S_ISREG(mode):
        raise SpecError(where=where, needed="a regular file", got=shown(name))
    return path
