"""The folder of compiled code, and its files, which are loaded only where no other user can write.

Compiled code can do anything.  It is therefore loaded only from files, in folders, that belong to root or to
the current user and that no other user can write to or exchange; numba uses the first folder that it can
write to, which for root may be another user's (NUMBA_CACHE_DIR, or HOME under ``sudo -E``).  Without a safe
folder kernels are compiled in each process, and one warning reports that.
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

FORMS_KEPT = 4
"""The number of files kept of one name, the newest, for switching between branches."""
_told: list[str] = []
_DIGEST_OCTETS = 32

Name = tuple[str, str]
"""The beginning and the end of a file's name, around the digest of the sources."""


def load(source: str, name: Name, stamp: bytes) -> bytes | None:
    """Return the contents saved for code of the file ``source`` under ``name`` and ``stamp``; None otherwise.

    A stamp is a digest of the sources of the code.
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
    """Keep ``body`` for the next process, where that is possible, and no more forms than some."""
    folder = folder_for(source)
    if folder is None:
        return
    # A full disk, or a user given up since the folder was chosen: compiled again by the next process.
    with suppress(OSError):
        _write(folder, _named(name, stamp), stamp + digest(body) + body)
        _log("saved to", folder, _named(name, stamp))
        _remove_older(folder, name)


def _named(name: Name, stamp: bytes) -> str:
    return f"{name[0]}-{stamp.hex()[:24]}{name[1]}"


def _remove_older(folder: str, name: Name) -> None:
    """Remove the older of the files of one name."""
    start, end = name
    with _opened(folder) as inside, os.scandir(inside) as files:
        forms = [each for each in files if each.name.startswith(f"{start}-") and each.name.endswith(end)]
        forms.sort(key=lambda each: each.stat(follow_symlinks=False).st_mtime_ns)
        for each in forms[:-FORMS_KEPT]:
            os.unlink(each.name, dir_fd=inside)


def digest(octets: bytes) -> bytes:
    """Return the digest of octets."""
    return hashlib.sha256(octets).digest()


def _log(what: str, folder: str, name: str) -> None:
    if os.environ.get("NUMBA_DEBUG_CACHE", "0") not in ("", "0"):
        print(f"[cache] data {what} {os.path.join(folder, name)!r}")


def folder_for(source: str) -> str | None:
    """Return the cache folder for code compiled from the file ``source``; None if there is no safe one.

    It is numba's choice among the safe ones: NUMBA_CACHE_DIR, ``__pycache__`` beside the source, the cache
    folder of the environment's user, then of the process's user.  One warning reports a skipped
    NUMBA_CACHE_DIR, or the lack of any safe folder.
    """
    return _chosen(os.path.dirname(os.path.abspath(source)), os.environ.get("NUMBA_CACHE_DIR", ""))


@functools.lru_cache(maxsize=256)
def _chosen(sources: str, user_folder: str) -> str | None:
    if not hasattr(os, "geteuid"):
        return None  # files do not show here who else can write to them
    refused = {}
    for candidate in _candidates(sources, user_folder):
        with suppress(OSError):
            folder = os.path.realpath(candidate)
            why = _why_not(folder)
            if why is not None:
                refused[candidate] = why
            elif _made(folder):
                if user_folder and refused:
                    _tell(next(iter(refused.values())), f"kept in {folder} instead")
                return folder
    if refused:
        _tell(next(iter(refused.values())), "compiled again by each process")
    return None


def _candidates(sources: str, user_folder: str) -> Iterator[str]:
    # numba's own name of it: a folder's last part, for readers, and a digest of all
    inside = f"{os.path.basename(sources)}_{hashlib.sha1(sources.encode()).hexdigest()}"
    if user_folder:
        yield os.path.join(user_folder, inside)
    yield os.path.join(sources, "__pycache__")
    # An empty or relative XDG_CACHE_HOME, which would mean the current folder, counts as none.
    own = os.environ.get("XDG_CACHE_HOME", "")
    yield os.path.join(own if os.path.isabs(own) else os.path.expanduser("~/.cache"), "numba", inside)
    with suppress(KeyError):  # a user without a name
        import pwd

        yield os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".cache", "numba", inside)


def _made(folder: str) -> bool:
    """Make ``folder`` and those above it, none writable by others; False when it cannot be written to."""
    path = Path(folder)
    for each in (*reversed(path.parents), path):
        if not each.exists():
            with suppress(FileExistsError):  # another process was faster
                each.mkdir(mode=0o755)
    return path.is_dir() and os.access(folder, os.W_OK | os.X_OK, effective_ids=True)


def _why_not(folder: str) -> str | None:
    """Return why others could put files into ``folder``, an absolute path without links; None if they cannot.

    They can where a folder above it is theirs to rename.  In a sticky one, such as /tmp, everyone renames
    their own only.  Raises OSError where this user cannot look.
    """
    path = Path(folder)
    for each in (*reversed(path.parents), path):
        try:
            status = each.lstat()
        except FileNotFoundError:
            return None  # it will be this user's
        sticky = each != path and bool(status.st_mode & stat.S_ISVTX)
        why = _distrusted(status, each, sticky)
        if why is not None:
            return f"{each} {why}"
    return None


def _distrusted(status: os.stat_result, path: Path, sticky: bool = False) -> str | None:
    """Return why others could change the file that ``status`` describes, or None."""
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
    """Whether the owner is the group: many systems give each user a group, and that group write access."""
    import grp
    import pwd

    try:
        group, owner = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
    except KeyError:
        return False
    alone = owner.pw_gid == group.gr_gid and group.gr_name == owner.pw_name
    # With an access control list the group's bit is the list's mask, and may stand for other users.
    return alone and set(group.gr_mem) <= {owner.pw_name} and not _has_list(path)


def _has_list(path: Path) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:  # a file system without any
        return False


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _tell(why: str, instead: str) -> None:
    """Warn once in a process."""
    if not _told:
        _told.append(why)
        warnings.warn(
            f"{why}: compiled code in it is not loaded, because anyone could have written it; it is "
            f"{instead}. "
            "NUMBA_CACHE_DIR may name a folder of yours that no other user can write to",
            CacheWarning,
            stacklevel=2,
        )


@contextmanager
def _opened(folder: str) -> Iterator[int]:
    """Open a folder that was chosen, and look at it again: it is this one that files are opened in."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _refuse_unsafe(descriptor, Path(folder))
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_unsafe(descriptor: int, path: Path) -> None:
    """Raise PermissionError with the reason if others can write to an open file."""
    why = _distrusted(os.fstat(descriptor), path)
    if why is not None:
        _tell(f"{path} {why}", "compiled again")
        raise PermissionError(why)


def _read(folder: str, name: str) -> bytes:
    """Return a file's octets.  Raises OSError where there is none, or others can write to it."""
    with _opened(folder) as inside:
        # Not to wait for who writes to a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=inside), "rb") as file:
            _refuse_unsafe(file.fileno(), Path(folder, name))
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileNotFoundError(name)
            return file.read()


def _write(folder: str, name: str, octets: bytes) -> None:
    """Put a file into a folder, whole or not at all."""
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
