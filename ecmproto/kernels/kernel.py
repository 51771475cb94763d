"""Kernels: functions that run as machine code or as plain Python.

A decorator marks each kernel. A call from Python selects the code by the types of the arguments:

1. machine code in the library, which was built beforehand and does not need numba (`kernels.library`)
2. machine code that numba compiles and caches, if numba is installed (`kernels.compiler`)
3. plain Python, which is slower; one warning reports the use of plain Python

Kernels call other kernels by name, not as attributes of modules, so that the caches find the called kernels.
Kernels can also call methods of structs (`kernels.structs`). With ``NUMBA_DISABLE_JIT=1``, the decorators
return the undecorated functions, which run as plain Python.
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
"""Python functions of all compiled functions, by the id of the compiled function."""
_interpreted: list[str] = []
"""Kernels that currently run as plain Python. Kernels that these kernels call run as plain Python too."""


def compiled(function: _Function) -> _Function:
    """Return ``function`` as a kernel."""
    return _made(function, _Kernel, forceinline=False)


def allocating(function: _Function) -> _Function:
    """Return ``function`` as a kernel that may create arrays. The library does not contain such kernels."""
    return _made(function, _Kernel, forceinline=False, _nrt=True)


def released(function: _Function) -> _Function:
    """Return ``function`` as a kernel that releases the interpreter lock."""
    return _made(function, _Kernel, forceinline=False, nogil=True)


over_batches = released


def inlined(function: _Function) -> _Function:
    """Return ``function`` as a kernel whose code is inlined into the calling kernels."""
    return _made(function, _Kernel, forceinline=True)


def expanded(function: _Function) -> _Function:
    """Return ``function`` as a function that is expanded in kernels. Calls from Python run plain Python.

    Compiled functions cannot return a part of an array, or a tuple that contains a record. Expanded functions
    can. From Python, an expanded function returns the record itself, but a compiled function would return a
    copy.
    """
    return _made(function, _Expanded)


def instruction(typing: Callable[[], Any]) -> Callable[[_Function], _Function]:
    """Return a decorator that replaces calls of a function in kernels by generated instructions.

    ``typing`` returns the typing function of a numba intrinsic. ``typing`` imports numba.
    """

    def decorated(function: _Function) -> _Function:
        return function if is_disabled() else _followed(_Instruction(function, typing), function)

    return decorated


@functools.cache
def is_disabled() -> bool:
    """Return whether all kernels run as plain Python.

    The environment can disable compilation. Kernels also run as plain Python if both library and numba are
    missing.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    if library.is_loaded() or _has_numba():
        return False
    _warn("kernels run", library.why_not())
    return True


def compiler() -> Any:
    """Return the module `kernels.compiler`, or ``None`` without numba."""
    if not _has_numba():
        return None
    from ecmproto.kernels import compiler

    return compiler


def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def _warn(what: str, why: str) -> None:
    """Warn once per process."""
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
    """Kernel that Python can call. The types of the arguments select the machine code."""

    def __init__(self, function: Callable[..., Any], options: dict[str, bool]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._entries: dict[Any, _Entry] = {}
        self._lock = threading.RLock()

    @functools.cached_property
    def dispatcher(self) -> Any:
        """numba's dispatcher for the function."""
        from ecmproto.kernels.compiler import dispatcher

        return dispatcher(self.py_func, **self._options)

    @property
    def _numba_type_(self) -> Any:
        """Type of the function in other kernels."""
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
    """Function that is expanded in the kernels that call the function."""

    @functools.cached_property
    def dispatcher(self) -> Any:
        """numba's dispatcher for the function."""
        from ecmproto.kernels.compiler import expanded

        return expanded(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


class _Instruction:
    """Python function that kernels replace by generated instructions."""

    def __init__(self, function: Callable[..., Any], typing: Callable[[], Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._typing = typing

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """Type of the function in kernels."""
        from ecmproto.kernels.compiler import instruction_type

        return instruction_type(self._typing())

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)
