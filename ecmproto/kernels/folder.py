"""Folder for compiled code, and safe access to the files in the folder.

Compiled code can run anything. Code is therefore loaded only from files and folders that belong to root or to
the current user, and that no other user can write to or replace.

numba itself uses the first writable folder. For root, this folder may belong to another user
(NUMBA_CACHE_DIR, or HOME under ``sudo -E``). Without a safe folder, each process compiles the kernels, and
one warning reports the reason.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ecmproto.errors import CacheWarning

MAX_FORMS = 4
"""Maximum number of files per name. The newest files are kept, so that switching between branches is fast."""
_warned: list[str] = []
_DIGEST_OCTETS = 32

Name = tuple[str, str]
"""Prefix and suffix of a file name. The digest of the sources is between prefix and suffix."""


def load(source: str, name: Name, stamp: bytes) -> bytes | None:
    """Return the content that was saved for code of the file ``source``, or ``None``.

    ``name`` and ``stamp`` must be the same as in `save`. ``stamp`` is a digest of the sources.
    """
    folder = folder_for(source)
    if folder is None:
        return None
    path = _named(name, stamp)
    try:
        octets = _read(folder, path)
    except OSError:
        return None
    body = octets[2 * _DIGEST_OCTETS :]
    if octets[: 2 * _DIGEST_OCTETS] != stamp + digest(body):
        return None
    _log("loaded from", folder, path)
    return body


def save(source: str, name: Name, stamp: bytes, body: bytes) -> None:
    """Save ``body`` for other processes if possible, and remove old files."""
    folder = folder_for(source)
    if folder is None:
        return
    # If writing fails, for example because the disk is full, the next process compiles again.
    with suppress(OSError):
        _write(folder, _named(name, stamp), stamp + digest(body) + body)
        _log("saved to", folder, _named(name, stamp))
        _remove_older(folder, name)


def _named(name: Name, stamp: bytes) -> str:
    return f"{name[0]}-{stamp.hex()[:24]}{name[1]}"


def _remove_older(folder: str, name: Name) -> None:
    """Remove the oldest files of a name."""
    start, end = name
    with _opened(folder) as inside, os.scandir(inside) as files:
        forms = [each for each in files if each.name.startswith(f"{start}-") and each.name.endswith(end)]
        forms.sort(key=lambda each: each.stat(follow_symlinks=False).st_mtime_ns)
        for each in forms[:-MAX_FORMS]:
            os.unlink(each.name, dir_fd=inside)


def digest(octets: bytes) -> bytes:
    """Return the SHA-256 digest of octets."""
    return hashlib.sha256(octets).digest()


def _log(what: str, folder: str, name: str) -> None:
    if os.environ.get("NUMBA_DEBUG_CACHE", "0") not in ("", "0"):
        print(f"[cache] data {what} {os.path.join(folder, name)!r}")


def folder_for(source: str) -> str | None:
    """Return the cache folder for code compiled from the file ``source``, or ``None`` if no folder is safe.

    The candidates match numba's candidates, in this order: NUMBA_CACHE_DIR, ``__pycache__`` next to the
    source, the cache folder of the environment's user, and the cache folder of the process's user. One
    warning reports that NUMBA_CACHE_DIR was skipped or that no folder is safe.
    """
    return _chosen(os.path.dirname(os.path.abspath(source)), os.environ.get("NUMBA_CACHE_DIR", ""))


@functools.lru_cache(maxsize=256)
def _chosen(sources: str, user_folder: str) -> str | None:
    if not hasattr(os, "geteuid"):
        return None  # the permissions of files are unknown on this system
    refused = {}
    for candidate in _candidates(sources, user_folder):
        with suppress(OSError):
            folder = os.path.realpath(candidate)
            why = _why_not(folder)
            if why is not None:
                refused[candidate] = why
            elif _made(folder):
                if user_folder and refused:
                    _warn(next(iter(refused.values())), f"kept in {folder} instead")
                return folder
    if refused:
        _warn(next(iter(refused.values())), "compiled again by each process")
    return None


def _candidates(sources: str, user_folder: str) -> Iterator[str]:
    # numba's name for the folder: the last part of the source folder, and a digest of the whole path
    inside = f"{os.path.basename(sources)}_{hashlib.sha1(sources.encode()).hexdigest()}"
    if user_folder:
        yield os.path.join(user_folder, inside)
    yield os.path.join(sources, "__pycache__")
    # An empty or relative XDG_CACHE_HOME, which would mean the current folder, is ignored.
    own = os.environ.get("XDG_CACHE_HOME", "")
    yield os.path.join(own if os.path.isabs(own) else os.path.expanduser("~/.cache"), "numba", inside)
    with suppress(KeyError):  # a user without a name
        import pwd

        yield os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".cache", "numba", inside)


def _made(folder: str) -> bool:
    """Create ``folder`` and missing parent folders, not writable by other users.

    The result is False if this process cannot write to the folder.
    """
    path = Path(folder)
    for each in (*reversed(path.parents), path):
        if not each.exists():
            with suppress(FileExistsError):  # another process created the folder
                each.mkdir(mode=0o755)
    return path.is_dir() and os.access(folder, os.W_OK | os.X_OK, effective_ids=True)


def _why_not(folder: str) -> str | None:
    """Return the reason why other users could put files into ``folder``, or ``None`` if other users cannot.

    ``folder`` is an absolute path without links. Another user can replace the folder if the user may rename a
    parent folder. In a sticky folder such as /tmp, users can rename only their own files. Raises OSError if
    this user cannot read the status of a folder.
    """
    path = Path(folder)
    for each in (*reversed(path.parents), path):
        try:
            status = each.lstat()
        except FileNotFoundError:
            return None  # this user will create and own the folder
        sticky = each != path and bool(status.st_mode & stat.S_ISVTX)
        why = _distrusted(status, each, sticky)
        if why is not None:
            return f"{each} {why}"
    return None


def _distrusted(status: os.stat_result, path: Path, sticky: bool = False) -> str | None:
    """Return the reason why other users could change the file with this status, or ``None``."""
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to {_user(status.st_uid)}"
    if sticky:
        return None
    if status.st_mode & stat.S_IWOTH:
        return "can be written to by everyone"
    if status.st_mode & stat.S_IWGRP and not _alone_in_group(status, path):
        return "can be written to by its group"
    return None


def _alone_in_group(status: os.stat_result, path: Path) -> bool:
    """Return whether the owner is the only member of the file's group.

    Many systems create a group for each user and let this group write.
    """
    import grp
    import pwd

    try:
        group, owner = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
    except KeyError:
        return False
    alone = owner.pw_gid == group.gr_gid and group.gr_name == owner.pw_name
    # With an access control list, the group's permission is the mask of the list, which may include others.
    return alone and set(group.gr_mem) <= {owner.pw_name} and not _has_list(path)


def _has_list(path: Path) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:  # a file system without extended attributes
        return False


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _warn(why: str, instead: str) -> None:
    """Warn once per process."""
    if not _warned:
        _warned.append(why)
        warnings.warn(
            f"{why}: compiled code in it is not loaded, because anyone could have written it; it is "
            f"{instead}. "
            "NUMBA_CACHE_DIR may name a folder of yours that no other user can write to",
            CacheWarning,
            stacklevel=2,
        )


@contextmanager
def _opened(folder: str) -> Iterator[int]:
    """Open the chosen folder, and check the permissions again.

    Files must be opened relative to the returned descriptor, so that the folder cannot be replaced in
    between.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _refuse_unsafe(descriptor, Path(folder))
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_unsafe(descriptor: int, path: Path) -> None:
    """Raise PermissionError with the reason if other users can write to an open file."""
    why = _distrusted(os.fstat(descriptor), path)
    if why is not None:
        _warn(f"{path} {why}", "compiled again")
        raise PermissionError(why)


def _read(folder: str, name: str) -> bytes:
    """Return the content of a file.

    Raises OSError if the file is missing, and PermissionError if other users can write to the file.
    """
    with _opened(folder) as inside:
        # O_NONBLOCK avoids waiting for a writer if the file is a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=inside), "rb") as file:
            _refuse_unsafe(file.fileno(), Path(folder, name))
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileNotFoundError(name)
            return file.read()


def _write(folder: str, name: str, octets: bytes) -> None:
    """Write a file into a folder atomically."""
    with _opened(folder) as inside:
        partial = f"{name}.{uuid.uuid4().hex[:16]}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(partial, flags, 0o644, dir_fd=inside)
        try:
            with open(descriptor, "wb") as file:
                file.write(octets)
            os.replace(partial, name, src_dir_fd=inside, dst_dir_fd=inside)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial, dir_fd=inside)
            raise
