"""Compilation of kernels: ``@compiled`` is numba's ``njit`` with a cache that depends on all sources.

numba's own cache of compiled code looks at the time and size of the function's own file only.  That serves
stale code in two cases which happen here: a function it calls lives in another file and changed there,
and an upgraded wheel, whose files all carry the same time.  ``@compiled`` therefore goes by a digest of the
function's source file, of those of all compiled functions it reaches and of the constants they take from
elsewhere; `kernel_cache` says where the code is kept and what of it may be loaded.  A function that kernels
call is none itself for that: they take a part in (`kernel_parts`).

Kernels also call methods of structs (`ecmproto.structs`), and the cache holds while these stay.

With ``NUMBA_DISABLE_JIT=1`` the decorators return what they were given: the same text as plain Python.
The module imports numba, so only modules that hold kernels import it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import types
from numba.core.ccallback import CFunc
from numba.core.registry import CPUDispatcher

# Both are made of numba's insides.  Where a numba has others, kernels are plain njit: they take longer to
# compile, and are compiled by each process, but compute the same.
_cache: Any = None
try:
    from ecmproto.kernel_parts import AS_PART
except (ImportError, AttributeError):
    AS_PART = {}
try:
    from ecmproto import kernel_cache

    _cache = kernel_cache.KernelCache
except (ImportError, AttributeError):
    pass

_Function = TypeVar("_Function", bound=Callable[..., Any])
# numpy's error model: no kernel divides by 0, and the check for it costs in each division.  No reference
# counts either: a kernel makes no arrays, its caller holds those that it is given, and counting takes half of
# the time of a loop over small functions.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
PART_OPTIONS: dict[str, Any] = _OPTIONS | AS_PART
"""How what kernels take in is compiled: methods of structs, for one."""
_ENTRY_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_COMPILERS = ("kernel.py", "kernel_parts.py", "structs.py")
"""The files here that machine code depends on."""
_CONSTANTS = (bool, int, float, str, tuple)
_LEAST, _BEYOND = -(1 << 63), 1 << 63
_types: dict[Any, types.Type] = {}
"""Types of arguments by what they depend on; a type that is here stays the one that code was compiled for."""
_functions: dict[int, Callable[..., Any]] = {}
"""The Python functions that compiled ones were made from, by the identity of these."""


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


def inlined(function: _Function) -> _Function:
    """As ``compiled``, for the small steps of every frame: their code goes into the caller's."""
    return _made(function, forceinline=True)


def expanded(function: _Function) -> _Function:
    """Expand ``function`` in kernels as if its text stood in theirs; called from Python it is plain Python.

    That is how a kernel gets a part of an array, or a tuple that holds a record, which compiled functions
    cannot return, and how Python gets a record itself where a compiled function would return a copy.
    """
    dispatcher: Any = numba.njit(function, **_OPTIONS, inline="always")
    return _registered(function, dispatcher, _Expanded)


def follow(function: Callable[..., Any]) -> None:
    """Have the cache of kernels that call ``function``, which is none itself, go by its file too."""
    _functions[id(function)] = function


class _Compiled(CPUDispatcher):
    """A compiled function: Python, calling it, calls a kernel, and kernels take in a part of theirs."""

    part_options: dict[str, Any]

    @functools.cached_property
    def _part(self) -> Any:
        return numba.njit(self.py_func, **self.part_options)

    def typeof_pyval(self, value: Any) -> Any:
        """Return the type of an argument; numba asks for named tuples and structs at every call.

        It would put their types together anew from their parts, which takes longer than many a kernel.
        """
        key = _typing_key(value)
        if key is None:
            return super().typeof_pyval(value)
        found = _types.get(key)
        if found is None:
            found = _types[key] = super().typeof_pyval(value)
        return found

    def get_call_template(self, args: Any, kws: Any) -> Any:
        # Called with a constant, it is the one for any number: without this numba would compile it anew for
        # every constant, and what is inlined knows the constant anyway.
        plain = [types.unliteral(argument) for argument in args]  # type: ignore[no-untyped-call]
        return self._part.get_call_template(plain, kws)

    def get_overload(self, sig: Any) -> Any:
        return self._part.get_overload(sig)


def _typing_key(value: Any) -> Any:
    """Return the key of an argument's type; None where only numba can tell the type.

    Objects that kernels take by the type of their class have it as ``_typing_key``.
    """
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype, value.ndim, value.flags.num
    if kind is int:
        return kind if _LEAST <= value < _BEYOND else None
    if kind is bool or kind is float or value is None:
        return kind
    if isinstance(value, tuple):
        keys = tuple([_typing_key(each) for each in value])
        return None if None in keys else (kind, keys)
    if isinstance(value, np.generic):
        return kind, value.dtype
    return getattr(value, "_typing_key", None)


class _Expanded(CPUDispatcher):
    """An expanded function as kernels see it; Python, calling it, calls the function itself."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def _made(function: _Function, **options: bool) -> _Function:
    """Return ``function`` as Python and kernels call it; itself where nothing is to be compiled."""
    chosen = _OPTIONS | options
    dispatcher: Any = numba.njit(function, **chosen)
    if hasattr(dispatcher, "py_func"):
        dispatcher.part_options = chosen | AS_PART
        _keep(dispatcher, function)
    return _registered(function, dispatcher, _Compiled)


def _registered(function: _Function, dispatcher: Any, kind: type[CPUDispatcher]) -> _Function:
    if hasattr(dispatcher, "py_func"):
        dispatcher.__class__ = kind
        _functions[id(dispatcher)] = function
    typed: _Function = dispatcher
    return typed


def _keep(compiler: Any, function: Callable[..., Any]) -> None:
    """Have ``compiler``, which makes the code of ``function``, keep it for other processes.

    What was typed at a prompt has no file to compare with, and is not kept.
    """
    if _cache is not None and Path(function.__code__.co_filename).is_file():
        compiler._cache = _cache(function, functools.partial(_sources, function))


def cached_entry(function: Callable[..., Any], returned: Any, arguments: tuple[Any, ...]) -> CFunc:
    """Return ``function`` compiled for these types of arguments, to be called by its address; cached."""
    entry: Any = CFunc(function, (arguments, returned), {}, _ENTRY_OPTIONS)
    _keep(entry, function)
    entry.compile()
    made: CFunc = entry
    return made


def _sources(function: Callable[..., Any], signature: Any) -> tuple[list[str], str]:
    """Return the classes whose methods ``function`` calls, and a digest of all that it is compiled from.

    Each combination of them is cached by itself, so that one that changed does not discard the others.
    """
    structs = sorted(set(_structs(getattr(signature, "args", signature))), key=repr)
    digest = hashlib.sha256(source_digest(function).encode())
    for struct in structs:
        for name in sorted(_methods(struct)):
            digest.update(source_digest(getattr(struct, name)).encode())
    return [f"{struct.__module__}.{struct.__qualname__}" for struct in structs], digest.hexdigest()


def _structs(arguments: Any) -> Iterator[type[Any]]:
    """Yield the classes with methods among ``arguments``, those inside others too."""
    for argument in arguments:
        struct = getattr(argument, "struct", None)
        if struct is not None:
            if _methods(struct):
                yield struct
            yield from _structs(kind for _, kind in argument.parts)


def _methods(struct: type[Any]) -> set[str]:
    """Return the names of the methods that a class of structs adds to those of all structs."""
    return {
        name
        for kind in struct.__mro__[:-2]
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and kind.__module__ != "ecmproto.structs"
    }


@functools.cache
def source_digest(function: Callable[..., Any]) -> str:
    """Return a hex digest of all that the compiled form of ``function`` depends on.

    Ask only when all modules are imported that it takes functions or constants from: at its first call.
    """
    parts = {_file_digest(str(Path(__file__).with_name(name))) for name in _COMPILERS}
    reached, pending = {function}, [function]
    while pending:
        current = pending.pop()
        parts.add(_file_digest(current.__code__.co_filename))
        for name in _names(current.__code__):
            value = current.__globals__.get(name)
            called = _functions.get(id(value))
            if called is not None and called not in reached:
                reached.add(called)
                pending.append(called)
            elif isinstance(value, _CONSTANTS):
                parts.add(f"{current.__module__}.{name}={value!r}")
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


@functools.cache
def _file_digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
