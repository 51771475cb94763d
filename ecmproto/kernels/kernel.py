"""Compilation of kernels: ``@compiled`` is numba's ``njit`` with a cache that depends on all sources.

`kernels.sources` says which those are, `kernels.folder` where code is kept and what of it may be loaded.  A
function that kernels call is none itself for that: they take a part in (`kernels.parts`).  Kernels also call
methods of structs (`ecmproto.kernels.structs`), and the cache holds while these stay.

``@over_batches`` is for kernels of which a process needs a dozen at once, to look at a capture: its arguments
are arrays, numbers and NamedTuples of such.  Their machine code is called without numba
(`kernels.machine_code`), of which importing this module loads nothing; it is imported when one must be
compiled, or for ``@compiled``.

With ``NUMBA_DISABLE_JIT=1`` the decorators return what they were given: the same text as plain Python.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ecmproto.kernels import folder, machine_code, prebuilt
from ecmproto.kernels.arguments import describe, typing_key
from ecmproto.kernels.folder import digest
from ecmproto.kernels.machine_code import Entry
from ecmproto.kernels.sources import follow, has_file, own_text, source_digest

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Return ``function`` compiled at its first call for each combination of argument types, and cached.

    A function calls other compiled functions by bare names (not as module attributes): that is how its
    cache learns of them.
    """
    return _made(function, forceinline=False)


def allocating(function: _Function) -> _Function:
    """As ``compiled``, for functions that make arrays."""
    return _made(function, forceinline=False, _nrt=True)


def released(function: _Function) -> _Function:
    """As ``compiled``, for kernels that let other threads run Python."""
    return _made(function, forceinline=False, nogil=True)


def over_batches(function: _Function) -> _Function:
    """As ``released``, for kernels of arrays, numbers and NamedTuples of such: called without numba."""
    return _deferred(function, _Kernel, entry=True, forceinline=False, nogil=True)


def inlined(function: _Function) -> _Function:
    """As ``compiled``, for the small steps of every frame: their code goes into the caller's."""
    return _deferred(function, _Deferred, forceinline=True)


def expanded(function: _Function) -> _Function:
    """Expand ``function`` in kernels as if its text stood in theirs; called from Python it is plain Python.

    That is how a kernel gets a part of an array, or a tuple that holds a record, which compiled functions
    cannot return, and how Python gets a record itself where a compiled function would return a copy.
    """
    if is_disabled():
        return function
    from ecmproto.kernels.compiler import expanded

    return _followed(expanded(function), function)


def is_disabled() -> bool:
    """Whether nothing is compiled."""
    # Another thread may be importing numba at this moment: then it has no configuration yet.
    config = getattr(sys.modules.get("numba"), "config", None)
    if config is not None:
        return bool(config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _made(function: _Function, **options: bool) -> _Function:
    """Return ``function`` as Python and kernels call it; itself where nothing is to be compiled."""
    if is_disabled():
        return function
    from ecmproto.kernels.compiler import dispatcher

    return _followed(dispatcher(function, **options), function)


def _deferred(function: _Function, kind: type[_Deferred], **options: bool) -> _Function:
    if is_disabled():
        return function
    return _followed(kind(function, options), function)


def _followed(made: Any, function: _Function) -> _Function:
    follow(made, function)
    typed: _Function = made
    return typed


class _Deferred:
    """A function that becomes numba's when a kernel that calls it is compiled, or Python calls it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, bool]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options

    @functools.cached_property
    def dispatcher(self) -> Any:
        """numba's own object for it."""
        from ecmproto.kernels.compiler import dispatcher

        return dispatcher(self.py_func, **self._options)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes it for where a kernel names it."""
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)


class _Kernel(_Deferred):
    """A function that Python calls: its machine code's entry is found by the types of its arguments."""

    def __init__(self, function: Callable[..., Any], options: dict[str, bool]) -> None:
        super().__init__(function, options)
        self._entries: dict[Any, Entry] = {}
        self._lock = threading.RLock()

    def __call__(self, *arguments: Any) -> Any:
        key = typing_key(arguments)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._found(key, arguments)
        return entry(arguments)

    def _found(self, key: Any, arguments: tuple[Any, ...]) -> Entry:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                place = _place(self.py_func, arguments)
                entry = None if place is None else place.loaded()
                entry = entry or self._compiled(place, arguments)
                if key is not None:
                    self._entries[key] = entry
            return entry

    def _compiled(self, place: Place | None, arguments: tuple[Any, ...]) -> Entry:
        from ecmproto.kernels.compiler import entry

        return (None if place is None else entry(self.dispatcher, place, arguments)) or self._unpacked

    def _unpacked(self, arguments: tuple[Any, ...]) -> Any:
        return self.dispatcher(*arguments)


class Place:
    """Where the machine code of a function for some types of arguments is kept."""

    def __init__(self, function: Callable[..., Any], arguments: str, stamp: bytes) -> None:
        self._function = function
        self._source = function.__code__.co_filename
        name = f"{Path(self._source).stem}.{function.__qualname__}".replace("<locals>.", "")
        identity = (*sys.version_info[:2], sys.abiflags, arguments)
        self._names = [
            (f"{name}-{digest(repr((*identity, target)).encode()).hex()[:24]}", ".nmc")
            for target in machine_code.targets()
        ]
        self._compiler = stamp

    @functools.cached_property
    def _stamp(self) -> bytes:
        made_from = self._compiler, source_digest(self._function), own_text(self._function)
        return digest(repr(made_from).encode())

    @functools.cached_property
    def _brought(self) -> bytes:
        # An image asks nothing of the numba that is here.
        sources = source_digest(self._function, exact=True)
        return digest(repr((prebuilt.FOLDER.name, sources, self._function.__code__.co_firstlineno)).encode())

    def loaded(self) -> Entry | None:
        """Return the entry of code that the wheel brought or that is kept; None where none runs here."""
        store = prebuilt.store()
        for name in self._names:
            octets = store.read(self._source, "".join(name))
            image = None if octets is None else folder.body_of(octets, self._brought)
            found = None if image is None else _entered(image)
            if found is not None:
                return found
        for name in self._names if not isinstance(store, prebuilt.Workshop) else ():
            image = folder.load(self._source, name, self._stamp)
            found = None if image is None else _entered(image)
            if found is not None:
                return found
        return None

    def save(self, image: bytes) -> None:
        """Keep an image for the next process."""
        store = prebuilt.store()
        if isinstance(store, prebuilt.Workshop):
            store.write(self._source, "".join(self._names[0]), folder.file_of(image, self._brought))
        else:
            folder.save(self._source, self._names[0], self._stamp, image)


def _entered(image: bytes) -> Entry | None:
    try:
        return machine_code.load(image)
    except (OSError, ValueError):
        return None


def _place(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Place | None:
    """Return where the code for such arguments is kept; None where only numba keeps it."""
    described = None if function.__closure__ or not has_file(function) else describe(arguments)
    stamp = None if described is None else machine_code.compiler_stamp()
    return None if described is None or stamp is None else Place(function, described, stamp)
