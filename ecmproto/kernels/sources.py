"""Digests of all sources that a function is compiled from, by their meaning.

numba's own cache of compiled code compares the time and size of the function's own file only.  That serves
stale code in two cases which happen here: a change in another file with a function that it calls, and an
upgraded wheel, whose files all have the same time.  `source_digest` therefore covers the function's source
file, the files of all compiled functions it reaches, and the constants they take from elsewhere.

The digest of cached code covers the syntax of these files, without comments, docstrings and line numbers.
Parsing takes longer than loading compiled code: the digests of parsed files are stored beside that code.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterator
from opcode import opmap
from pathlib import Path
from types import CodeType
from typing import Any

from ecmproto.kernels import folder
from ecmproto.kernels.kernel import functions

_PACKAGE = Path(__file__).parents[1]
_COMPILERS = (
    "kernels/kernel.py",
    "kernels/compiler.py",
    "kernels/parts.py",
    "kernels/passes.py",
    "kernels/struct_types.py",
    "kernels/structs.py",
    "frames/columns/instructions.py",
)
"""The files of the package that machine code depends on."""
_CONSTANTS = (bool, int, float, str, tuple)
_RAISE = opmap["RAISE_VARARGS"]
_MEANINGS = "meanings", folder.NOTES_SUFFIX
_MEANINGS_KEPT = 2048
when_compiling: list[Callable[[], None]] = []
"""Called whenever numba begins to compile something."""


def has_file(function: Callable[..., Any]) -> bool:
    """Whether there is a file to compare with; what was typed at a prompt has none, and is not kept."""
    return Path(function.__code__.co_filename).is_file()


@functools.cache
def source_digest(function: Callable[..., Any]) -> str:
    """Return a hex digest of all that the compiled form of ``function`` depends on.

    Call it when all modules are imported that ``function`` takes functions or constants from: at its first
    call.
    """
    called, constants = reached(function)
    code = [each.__code__ for each in called]
    files = {*(str(_PACKAGE / name) for name in _COMPILERS), *(each.co_filename for each in code)}
    parts = {_meaning(path).hex() for path in files}
    # An exception that compiled code raises has the line of its statement.
    parts.update(constants, (str(list(each.co_lines())) for each in code if _RAISE in each.co_code[::2]))
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def own_text(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the parts of a function's code that identify it, except nested code."""
    code = function.__code__
    constants = [each for each in code.co_consts if each != function.__doc__ and not hasattr(each, "co_code")]
    return code.co_code, code.co_names, code.co_varnames, constants


@functools.cache
def reached(function: Callable[..., Any]) -> tuple[frozenset[Callable[..., Any]], frozenset[str]]:
    """Return a function and all that it calls, however deep, and what the constants are that they take."""
    found, pending, constants = {function}, [function], set()
    while pending:
        current = pending.pop()
        for name in _names(current.__code__):
            value = current.__globals__.get(name)
            called = functions.get(id(value))
            if called is not None and called not in found:
                found.add(called)
                pending.append(called)
            elif isinstance(value, _CONSTANTS):
                constants.add(f"{current.__module__}.{name}={value!r}")
    return frozenset(found), frozenset(constants)


@functools.cache
def _octets_digest(path: str) -> bytes:
    return folder.digest(Path(path).read_bytes())


@functools.cache
def _meaning(path: str) -> bytes:
    """Return the digest of the syntax of a file."""
    octets, known = _octets_digest(path), _meanings()
    if octets not in known:
        known[octets] = folder.digest(_syntax(Path(path).read_bytes()))
        newest = list(known.items())[-_MEANINGS_KEPT:]
        folder.save(__file__, _MEANINGS, _meanings_stamp(), b"".join(map(b"".join, newest)))
    return known[octets]


def _syntax(octets: bytes) -> bytes:
    """Return a module's syntax without comments, docstrings and lines; its octets where it has none."""
    import ast

    try:
        tree = ast.parse(octets)
    except (SyntaxError, ValueError):
        return octets
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [
                each
                for each in body
                if not isinstance(each, ast.Expr) or not isinstance(each.value, ast.Constant)
            ]
    return ast.dump(tree).encode()


@functools.cache
def _meanings() -> dict[bytes, bytes]:
    """Return the known digests of syntax by digests of octets, the newest last."""
    kept = folder.load(__file__, _MEANINGS, _meanings_stamp()) or b""
    return {kept[at : at + 32]: kept[at + 32 : at + 64] for at in range(0, len(kept), 64)}


@functools.cache
def _meanings_stamp() -> bytes:
    return folder.digest(sys.version.encode() + _octets_digest(__file__))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
