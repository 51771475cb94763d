"""The cache of compiled code: its folder on disk, and the files that are loaded again.

Loading unpickles, and a pickle does whatever its author wants.  Code is therefore loaded only from files, in
folders, that belong to root or to the user who runs this and that nobody else can write to or exchange; numba
takes the first folder that it can write to, which for root is also another user's (NUMBA_CACHE_DIR, or HOME
under ``sudo -E``).  Where no folder will do, kernels are compiled in each process, and that is said once.

A file holds one compiled form.  It is named by what it was compiled for and begins with digests of what it
was compiled from and of itself: code of other sources, of another numba or cut short is never unpickled.
"""

from __future__ import annotations

import fcntl
import functools
import grp
import hashlib
import os
import pickle
import pwd
import stat
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba.core.caching import NullCache, UserProvidedCacheLocator, _cache_log
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from ecmproto.errors import CacheWarning

Sources = Callable[[Any], tuple[Iterable[str], str]]
"""From a signature to the names of the classes whose methods it calls, and a digest of all sources."""
_DIGEST_OCTETS = 32
_numba: Any = numba  # untyped
_rebuilt: Any = CompileResult._rebuild
_log: Any = _cache_log
_address_of: Callable[[str], int | None] = llvmlite.binding.address_of_symbol
_told: list[str] = []
_turns: list[_Turns] = []
_LOOK_S = 0.05
PATIENCE_S = 120.0
"""How long another process may take to compile one kernel before this one does it too."""


class KernelCache(NullCache):
    """The cache that numba asks for the compiled forms of one function: files that are safe to load."""

    def __init__(self, function: Callable[..., Any], sources: Sources) -> None:
        self._code = function.__code__
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        self._enclosed = _digest(dumps(cells) if cells else b"")  # type: ignore[no-untyped-call]
        self._name = f"{Path(self._code.co_filename).stem}.{function.__qualname__}".replace("<locals>.", "")
        self._sources = sources

    @property
    def cache_path(self) -> str | None:
        """The folder that holds the files; None where there is no safe one."""
        return folder_for(self._code.co_filename)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for one signature; None where it is this process's turn to compile."""
        found = self._loaded(sig, target_context)
        if found is None and _turns:
            _turns[-1].begin(self.cache_path)
            # another process may have compiled it meanwhile
            found = self._loaded(sig, target_context)
            if found is not None:
                _turns[-1].end()
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        folder = self.cache_path
        if folder is None:
            return None
        name, key, stamp = self._asked(sig, target_context.codegen())
        try:
            octets = _read(folder, name)
            kept, whole, pickled = _parts(octets)
            if kept != stamp or whole != _digest(pickled):
                return None
            made_for, outside, reduced = pickle.loads(pickled)
            if made_for != key:
                return None
            if not all(map(_address_of, outside)):
                # Of what compiling needs, in half the time that importing numba takes; without what it names
                # there, such as all that unpacks a numpy generator, code crashes.
                target_context.refresh()
            result = _rebuilt(target_context, *reduced)
        except Exception:
            # No such file, or whatever unpickling raises.  It is compiled, and the file replaced.
            return None
        _log("[cache] data loaded from %r", os.path.join(folder, name))
        return result

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled form ``data`` of one signature, where that is possible."""
        try:
            self._save(sig, data)
        finally:
            if _turns:
                _turns[-1].end()

    def _save(self, sig: Any, data: Any) -> None:
        folder = self.cache_path
        if folder is None or data.library.has_dynamic_globals:
            return
        name, key, stamp = self._asked(sig, data.codegen)
        pickled: bytes = dumps((key, _outside(data.library), data._reduce()))  # type: ignore[no-untyped-call]
        # A full disk, or a user given up since the folder was chosen: compiled again by the next process.
        with suppress(OSError):
            _write(folder, name, stamp + _digest(pickled) + pickled)
            _log("[cache] data saved to %r", os.path.join(folder, name))

    def _asked(self, signature: Any, codegen: Any) -> tuple[str, Any, bytes]:
        """Return a cache file's name, the target it must be compiled for, and a digest of its sources."""
        classes, sources = self._sources(signature)
        # With bounds checks the machine code is another.
        key = (signature, codegen.magic_tuple(), bool(_numba.config.BOUNDSCHECK))
        identity = (self._code.co_firstlineno, *sys.version_info[:2], sys.abiflags, *classes, *map(str, key))
        name = f"{self._name}-{_digest(repr(identity).encode()).hex()[:24]}.nbc"
        stamp = _digest(repr((_numba.__version__, sources, self._enclosed)).encode())
        return name, key, stamp


class _Turns:
    """Turns at compiling into a cache folder, held by a lock on the folder.

    The lock ends with the process that has it.  One that is held for longer than ``patience_s`` is waited
    for no more: anyone who may read the folder can take it.
    """

    def __init__(self, tell: Callable[[], None], patience_s: float) -> None:
        self._tell = tell
        self._patience_s = patience_s
        self._told = self._given_up = False
        self._depth = 0
        self._descriptor: int | None = None

    def begin(self, folder: str | None) -> None:
        """Wait for the turn, if something is to be kept; one kernel may be compiled within another."""
        self._depth += 1
        if folder is None or self._depth > 1 or self._given_up:
            return
        with suppress(OSError):  # a file system without locks, or folders that cannot be locked
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(folder, flags)
            self._wait(self._descriptor)

    def _wait(self, descriptor: int) -> None:
        end_s = time.monotonic() + self._patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                pass
            if not self._told:
                self._told = True
                self._tell()
            if time.monotonic() >= end_s:
                self._given_up = True
                return
            time.sleep(_LOOK_S)

    def end(self) -> None:
        """Give the turn to others."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def taking_turns(tell: Callable[[], None], *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Compile nothing that another process in such a context compiles just now: wait for it, and load it.

    ``tell`` is called when there is something to wait for.
    """
    turns = _Turns(tell, patience_s)
    _turns.append(turns)
    try:
        yield
    finally:
        _turns.remove(turns)
        while turns._descriptor is not None:  # what could not be compiled is not saved
            turns.end()


def _outside(library: Any) -> list[str]:
    """Return the external symbols that compiled code uses, but for LLVM's intrinsics."""
    module = library._final_module
    named = (each.name for each in (*module.functions, *module.global_variables) if each.is_declaration)
    return sorted(name for name in named if not name.startswith("llvm."))


def _parts(octets: bytes) -> tuple[bytes, bytes, bytes]:
    return octets[:_DIGEST_OCTETS], octets[_DIGEST_OCTETS : 2 * _DIGEST_OCTETS], octets[2 * _DIGEST_OCTETS :]


def _digest(octets: bytes) -> bytes:
    return hashlib.sha256(octets).digest()


def folder_for(source: str) -> str | None:
    """Return the cache folder for code compiled from the file ``source``; None if there is no safe one.

    It is numba's choice among those that are safe: NUMBA_CACHE_DIR, ``__pycache__`` beside the source, the
    cache folder of the environment's user, then that of the user whom the process runs as.  Says once when
    NUMBA_CACHE_DIR is passed over, or all of them.
    """
    return _chosen(os.path.dirname(os.path.abspath(source)), _numba.config.CACHE_DIR)


@functools.lru_cache(maxsize=256)
def _chosen(sources: str, wanted: str) -> str | None:
    refused = {}
    for place in _places(sources, wanted):
        with suppress(OSError):
            folder = os.path.realpath(place)
            why = _why_not(folder)
            if why is not None:
                refused[place] = why
            elif _made(folder):
                if wanted and refused:
                    _tell(next(iter(refused.values())), f"kept in {folder} instead")
                return folder
    if refused:
        _tell(next(iter(refused.values())), "compiled again by each process")
    return None


def _places(sources: str, wanted: str) -> Iterator[str]:
    inside: str = UserProvidedCacheLocator.get_suitable_cache_subpath(os.path.join(sources, "x.py"))  # type: ignore[no-untyped-call]
    if wanted:
        yield os.path.join(wanted, inside)
    yield os.path.join(sources, "__pycache__")
    # An empty or relative XDG_CACHE_HOME, which would mean the folder one stands in, counts as none.
    own = os.environ.get("XDG_CACHE_HOME", "")
    yield os.path.join(own if os.path.isabs(own) else os.path.expanduser("~/.cache"), "numba", inside)
    with suppress(KeyError):  # a user without a name
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
            found = each.lstat()
        except FileNotFoundError:
            return None  # it will be this user's
        sticky = each != path and bool(found.st_mode & stat.S_ISVTX)
        why = _distrusted(found, each, sticky)
        if why is not None:
            return f"{each} {why}"
    return None


def _distrusted(found: os.stat_result, path: Path, sticky: bool = False) -> str | None:
    """Return why others could change the file that ``found`` describes, or None."""
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to {_user(found.st_uid)}"
    if sticky:
        return None
    if found.st_mode & stat.S_IWOTH:
        return "can be written to by everyone"
    if found.st_mode & stat.S_IWGRP and not _alone_in_group(found, path):
        return "can be written to by its group"
    return None


def _alone_in_group(found: os.stat_result, path: Path) -> bool:
    """Whether the owner is the group: many systems give each user a group, and that group write access."""
    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
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
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _tell(why: str, instead: str) -> None:
    """Warn once in a process."""
    if not _told:
        _told.append(why)
        warnings.warn(
            f"{why}: compiled code there is not loaded, for anyone could have made it; it is {instead}. "
            "NUMBA_CACHE_DIR may name a folder that is yours and that nobody else can write to",
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
