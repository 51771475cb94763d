"""Kernels: functions that run as machine code, from the library or compiled by numba, or as plain Python.

A decorator marks each.  Called from Python, a kernel finds its machine code by the types of its arguments:

1. in the library that was built beforehand (`kernels.library`), which needs no numba
2. compiled by numba where that is installed, and cached (`kernels.compiler`)
3. nowhere: then its text runs as plain Python, slower, and a warning reports that once

Kernels call each other by bare names, not as module attributes, so that caches find them.  They also call
methods of structs (`kernels.structs`).  With ``NUMBA_DISABLE_JIT=1`` the decorators return the functions
themselves: the same text as plain Python.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ecmproto.errors import CacheWarning
from ecmproto.kernels import library
from ecmproto.kernels.arguments import typing_key

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Entry = Callable[[tuple[Any, ...]], Any]
_warned: list[str] = []
functions: dict[int, Callable[..., Any]] = {}
"""The Python functions that compiled ones were made from, by the identity of these."""
_interpreted: list[str] = []
"""The kernels that run as plain Python at this moment: what they call does too."""


def compiled(function: _Function) -> _Function:
    """Return ``function`` as a kernel."""
    return _made(function, _Kernel, forceinline=False)


def allocating(function: _Function) -> _Function:
    """As ``compiled``, for functions that make arrays: only numba runs them, no library has them."""
    return _made(function, _Kernel, forceinline=False, _nrt=True)


def released(function: _Function) -> _Function:
    """As ``compiled``, for kernels that let other threads run Python."""
    return _made(function, _Kernel, forceinline=False, nogil=True)


over_batches = released


def inlined(function: _Function) -> _Function:
    """As ``compiled``, for the small steps of every frame: their code goes into the caller's."""
    return _made(function, _Kernel, forceinline=True)


def expanded(function: _Function) -> _Function:
    """Expand ``function`` in kernels as if its text stood in theirs; called from Python it is plain Python.

    That is how a kernel gets a part of an array, or a tuple that holds a record, which compiled functions
    cannot return, and how Python gets a record itself where a compiled function would return a copy.
    """
    return _made(function, _Expanded)


def instruction(typing: Callable[[], Any]) -> Callable[[_Function], _Function]:
    """Have kernels take instructions of their own for the function that is decorated.

    ``typing`` returns what numba calls the typing function of an intrinsic, which it imports.
    """

    def decorated(function: _Function) -> _Function:
        return function if is_disabled() else _followed(_Instruction(function, typing), function)

    return decorated


@functools.cache
def is_disabled() -> bool:
    """Return whether nothing is compiled: by the environment, or without library and numba."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    if library.is_loaded() or _has_numba():
        return False
    _warn("kernels run", library.why_not())
    return True


def compiler() -> Any:
    """Return `kernels.compiler`; None, with one warning, where numba is not installed."""
    if not _has_numba():
        return None
    from ecmproto.kernels import compiler

    return compiler


def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def _warn(what: str, why: str) -> None:
    """Warn once in a process."""
    if not _warned:
        _warned.append(what)
        text = f"{what} as plain Python, slower: {why}, and numba is not installed (ecmproto[jit])"
        warnings.warn(text, CacheWarning, stacklevel=2)


def _made(function: _Function, kind: type[_Kernel], **options: bool) -> _Function:
    return function if is_disabled() else _followed(kind(function, options), function)


def _followed(made: Any, function: _Function) -> _Function:
    functions[id(made)] = function
    typed: _Function = made
    return typed


class _Kernel:
    """A function that Python calls: its machine code is found by the types of its arguments."""

    def __init__(self, function: Callable[..., Any], options: dict[str, bool]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._entries: dict[Any, _Entry] = {}
        self._lock = threading.RLock()

    @functools.cached_property
    def dispatcher(self) -> Any:
        """numba's own object for it."""
        from ecmproto.kernels.compiler import dispatcher

        return dispatcher(self.py_func, **self._options)

    @property
    def _numba_type_(self) -> Any:
        """The numba type of the function in a kernel."""
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        if _interpreted:
            return self.py_func(*arguments)
        key = typing_key(arguments)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entry_for(key, arguments)
        return entry(arguments)

    def _entry_for(self, key: Any, arguments: tuple[Any, ...]) -> _Entry:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                nogil = self._options.get("nogil", False)
                entry = library.entry(self.py_func, arguments, released=nogil) or self._compiled(arguments)
                if key is not None:
                    self._entries[key] = entry
            return entry

    def _compiled(self, arguments: tuple[Any, ...]) -> _Entry:
        made = compiler()
        if made is None:
            name = f"{self.__module__}.{self.__qualname__}"
            _warn(f"{name} and what it calls run", "the library of kernels does not have it for these types")
            return functools.partial(self._interpret, name)
        made.emit(self.dispatcher, self.py_func, arguments)
        return lambda given: self.dispatcher(*given)

    def _interpret(self, name: str, arguments: tuple[Any, ...]) -> Any:
        _interpreted.append(name)
        try:
            return self.py_func(*arguments)
        finally:
            _interpreted.remove(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)


class _Expanded(_Kernel):
    """A function that is expanded where kernels call it."""

    @functools.cached_property
    def dispatcher(self) -> Any:
        """numba's own object for it."""
        from ecmproto.kernels.compiler import expanded

        return expanded(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


class _Instruction:
    """A function of Python for which kernels have instructions."""

    def __init__(self, function: Callable[..., Any], typing: Callable[[], Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._typing = typing

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """The numba type of the function in a kernel."""
        from ecmproto.kernels.compiler import instruction_type

        return instruction_type(self._typing())

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)
