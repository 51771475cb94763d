"""Digests of the sources of a compiled function. Comments and empty lines do not change the digest.

numba's own cache compares only the time and size of the file with the function. This comparison fails if a
called function in another file changes, and after the upgrade of a wheel, in which all files have the same
time.

`source_digest` therefore covers the code of the function, the code of all compiled functions that the
function calls, and the values that these functions read from modules.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from opcode import EXTENDED_ARG, hasconst, opmap
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from ecmproto.kernels.kernel import functions
from ecmproto.kernels.library import PACKAGE

COMPILERS = (
    "kernels/kernel.py",
    "kernels/compiler.py",
    "kernels/parts.py",
    "kernels/struct_types.py",
    "kernels/structs.py",
    "frames/columns/instructions.py",
)
"""Files of the package that determine the machine code of all kernels."""
_CONSTANTS = (bool, int, float, str, tuple, np.generic, np.dtype)
_RAISE = opmap["RAISE_VARARGS"]

when_compiling: list[Callable[[], None]] = []
"""Functions that are called when numba starts to compile."""


def has_file(function: Callable[..., Any]) -> bool:
    """Return whether the function's source file exists.

    The code of a function without a file, such as a function typed at a prompt, is not cached.
    """
    return Path(function.__code__.co_filename).is_file()


@functools.cache
def source_digest(function: Callable[..., Any]) -> str:
    """Return a hex digest of everything that the compiled code of ``function`` depends on.

    Call this function only after the import of all modules with functions or constants that ``function``
    uses, for example at the first call of ``function``.
    """
    parts = sorted(repr(_meaning(each)) for each in _reached(function))
    return hashlib.sha256("\n".join([_compilers(), *parts]).encode()).hexdigest()


@functools.cache
def _compilers() -> str:
    return hashlib.sha256(b"".join(Path(PACKAGE, name).read_bytes() for name in COMPILERS)).hexdigest()


def _reached(function: Callable[..., Any]) -> set[Callable[..., Any]]:
    """Return a function and all compiled functions that the function calls directly or indirectly."""
    reached, pending = {function}, [function]
    while pending:
        for _, value in _dependencies(pending.pop()):
            called = functions.get(id(value))
            if called is not None and called not in reached:
                reached.add(called)
                pending.append(called)
    return reached


def _dependencies(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a function reads from its module and from enclosing functions."""
    for name in sorted(set(_names(function.__code__)) & function.__globals__.keys()):
        yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _meaning(function: Callable[..., Any]) -> tuple[Any, ...]:
    values = [(name, _value(value)) for name, value in _dependencies(function)]
    text = _text(function.__code__)
    return function.__module__, function.__qualname__, function.__defaults__, text, values


def _text(code: CodeType) -> tuple[Any, ...]:
    """Return a function's code, with line numbers if the function raises exceptions.

    An exception of compiled code contains the line of the statement.
    """
    lines = list(code.co_lines()) if _RAISE in code.co_code[::2] else []
    return list(_instructions(code)), code.co_names, code.co_varnames, lines


def _instructions(code: CodeType) -> Iterator[tuple[int, Any]]:
    """Yield the instructions with their arguments.

    Constants replace their indices, which a docstring shifts in some versions of Python.
    """
    argument = 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = argument << 8 | low
        if operation == EXTENDED_ARG:
            continue
        value = code.co_consts[argument] if operation in hasconst else argument
        yield operation, _text(value) if isinstance(value, CodeType) else value
        argument = 0


def _value(value: Any) -> Any:
    """Return the properties of a value that compiled code depends on."""
    if isinstance(value, _CONSTANTS):
        return repr(value)
    if isinstance(value, np.ndarray):
        return repr(value.dtype), value.shape, value.tobytes()
    named = [str(getattr(value, name, None)) for name in ("__module__", "__qualname__", "_fields")]
    own = vars(value).items() if isinstance(value, type) else ()
    # Python's own attributes differ between processes (__orig_bases__ has an address) and versions.
    constants = [(name, each) for name, each in own if not name.startswith("__")]
    return named, [(name, repr(each)) for name, each in constants if isinstance(each, _CONSTANTS)]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
