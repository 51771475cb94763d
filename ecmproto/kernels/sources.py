"""What compiled code depends on: a digest of all sources that a function is compiled from.

numba's own cache of compiled code looks at the time and size of the function's own file only.  That serves
stale code in two cases which happen here: a function it calls lives in another file and changed there,
and an upgraded wheel, whose files all carry the same time.  `source_digest` therefore goes over the
function's source file, those of all compiled functions it reaches and the constants they take from elsewhere.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_COMPILERS = (
    "kernels/kernel.py",
    "kernels/compiler.py",
    "kernels/entry.py",
    "kernels/parts.py",
    "kernels/passes.py",
    "structs.py",
    "columns/instructions.py",
)
"""The files of the package that machine code depends on."""
_CONSTANTS = (bool, int, float, str, tuple)
_functions: dict[int, Callable[..., Any]] = {}
"""The Python functions that compiled ones were made from, by the identity of these."""

when_compiling: list[Callable[[], None]] = []
"""Called whenever numba begins to compile something."""


def follow(compiled: Any, function: Callable[..., Any]) -> None:
    """Have the cache of kernels that call ``compiled`` go by the file of ``function`` that it is made of."""
    _functions[id(compiled)] = function


def has_file(function: Callable[..., Any]) -> bool:
    """Whether there is a file to compare with; what was typed at a prompt has none, and is not kept."""
    return Path(function.__code__.co_filename).is_file()


@functools.cache
def source_digest(function: Callable[..., Any]) -> str:
    """Return a hex digest of all that the compiled form of ``function`` depends on.

    Ask only when all modules are imported that it takes functions or constants from: at its first call.
    """
    called, constants = reached(function)
    parts = {_file_digest(str(_PACKAGE / name)) for name in _COMPILERS}
    parts.update(constants, (_file_digest(each.__code__.co_filename) for each in called))
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


@functools.cache
def reached(function: Callable[..., Any]) -> tuple[frozenset[Callable[..., Any]], frozenset[str]]:
    """Return a function and all that it calls, however deep, and what the constants are that they take."""
    found, pending, constants = {function}, [function], set()
    while pending:
        current = pending.pop()
        for name in _names(current.__code__):
            value = current.__globals__.get(name)
            called = _functions.get(id(value))
            if called is not None and called not in found:
                found.add(called)
                pending.append(called)
            elif isinstance(value, _CONSTANTS):
                constants.add(f"{current.__module__}.{name}={value!r}")
    return frozenset(found), frozenset(constants)


@functools.cache
def _file_digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
