"""How an algorithm's one text is compiled: ``@compiled`` is numba's ``njit`` with an honest cache.

numba's cache of compiled code looks at the time and size of the function's own file only.  That serves
stale code in two cases which happen here: a function it calls lives in another file and changed there,
and an upgraded wheel, whose files all carry the same time.  ``@compiled`` therefore adds a digest of the
function's source file, of every compiled function it calls and of the constants it takes from elsewhere.

With ``NUMBA_DISABLE_JIT=1`` the decorator returns the function itself: the same text as plain Python.
The module imports numba, so only modules that hold kernels import it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache

_Function = TypeVar("_Function", bound=Callable[..., Any])
_CONSTANTS = (bool, int, float, str, tuple)
_digests: dict[int, str] = {}


def compiled(function: _Function) -> _Function:
    """Return ``function`` compiled at its first call for each combination of argument types, and cached.

    A function calls other compiled functions by bare names (not as module attributes): that is how its
    cache learns of them.
    """
    return _compile(function, forceinline=False)


def inlined(function: _Function) -> _Function:
    """As ``compiled``, for the small steps of every frame: their code goes into the caller's."""
    return _compile(function, forceinline=True)


def _compile(function: _Function, *, forceinline: bool) -> _Function:
    # numpy's error model: no kernel divides by 0, and the check for it costs in each division.
    dispatcher: Any = numba.njit(function, error_model="numpy", forceinline=forceinline)
    if not hasattr(dispatcher, "py_func"):
        return function
    digest = source_digest(function)
    _digests[id(dispatcher)] = digest
    with suppress(RuntimeError):  # numba's word for no writable place: compiled anew in each process
        _cache_by(digest, function, dispatcher)
    typed: _Function = dispatcher
    return typed


def _cache_by(digest: str, function: Callable[..., Any], dispatcher: Any) -> None:
    """Give ``dispatcher`` a cache that holds for these sources only."""
    cache: Any = FunctionCache(function)  # type: ignore[no-untyped-call]
    index: Any = getattr(cache, "_cache_file", None)
    # A numba without these two attributes compiles anew in each process: slower, never wrong.
    if hasattr(index, "_source_stamp") and hasattr(dispatcher, "_cache"):
        index._source_stamp = (index._source_stamp, digest)
        dispatcher._cache = cache


def source_digest(function: Callable[..., Any]) -> str:
    """Return a hex digest of all that the compiled form of ``function`` depends on."""
    digest = hashlib.sha256(Path(function.__code__.co_filename).read_bytes())
    for name in sorted(function.__code__.co_names):
        value = function.__globals__.get(name)
        if id(value) in _digests:
            digest.update(_digests[id(value)].encode())
        elif isinstance(value, _CONSTANTS):
            digest.update(f"{name}={value!r};".encode())
    return digest.hexdigest()
