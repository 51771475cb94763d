"""The library of kernels: one shared library with a C ABI, built by `kernels.building`, called by ctypes.

A kernel is a function of it for each combination of types that commands call it with::

    int32_t name(int64_t *returned, const char **error, …)

Its arguments follow: one word for a number or the address of a struct or record, and for an array its
address, lengths and strides; the elements of a tuple follow each other.  The result is in ``returned``, in
words.  The status is 0; otherwise ``error`` is the address of a text: class of the exception, function, file,
line and message, a line each.  The library also contains the methods of
structs that the engine calls by address, with the calling convention of compiled code.

The library contains checksums of its sources: with other sources, which might hand it other arrays, it is not
used, nor where the environment requests other code of numba (``NUMBA_BOUNDSCHECK``, another CPU).
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pickle
import pkgutil
import struct
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

from ecmproto.errors import CacheWarning
from ecmproto.kernels.arguments import append_scalars, describe

PACKAGE = Path(__file__).parents[1]
PATH = PACKAGE / "kernels" / "ecmproto-kernels.so"
INFORMATION = "ecmproto_library"
"""The name of a text in the library that has what it was built from, in JSON."""
RETURNS = ".returns"
"""The end of the name of a text that describes what a kernel returns: `_FORMATS`, and tuples of such."""
_FORMATS = {"q": "q", "Q": "Q", "d": "d", "?": "q"}
_HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT"}


class _Library:
    """The loaded library: with the interpreter's lock released in calls, and held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.released = ctypes.CDLL(str(path))
        self.held = ctypes.PyDLL(str(path))
        self.information: Mapping[str, Any] = json.loads(self.text(INFORMATION) or "{}")

    def text(self, name: str) -> str | None:
        """Return a text in the library; None where there is none of that name."""
        try:
            return ctypes.string_at(_address(self.released, name)).decode()
        except ValueError:
            return None


@functools.cache
def _loaded() -> _Library | str:
    """Return the library, or why there is none."""
    unusual = sorted({name for name in os.environ if name.startswith("NUMBA_")} - _HARMLESS)
    if unusual:
        return f"{unusual[0]} requires other code"
    try:
        found = _Library(PATH)
    except OSError as error:
        return (
            f"no library of kernels can be loaded: {error}"
            if PATH.exists()
            else "no library of kernels is installed"
        )
    sources = found.information.get("sources")
    changed = _changed(sources if isinstance(sources, dict) else {"": 0})  # of a former version: no dict
    if changed is not None:
        why = (
            f"the library of kernels was built from other sources than {PACKAGE / changed};"
            " `make kernels`, or a new installation, replaces it"
        )
        warnings.warn(why, CacheWarning, stacklevel=2)
        return why
    return found


def is_loaded() -> bool:
    """Whether there is a library for these sources."""
    return isinstance(_loaded(), _Library)


def is_ready() -> bool:
    """Whether kernels run without numba being imported for them first."""
    return is_loaded() or "numba" in sys.modules


def why_not() -> str:
    """Return why there is no library; empty where there is one."""
    found = _loaded()
    return "" if isinstance(found, _Library) else found


def information() -> Mapping[str, Any]:
    """Return the library's sources, compiler versions and processor; empty without a library."""
    found = _loaded()
    return {**found.information, "path": str(found.path)} if isinstance(found, _Library) else {}


def checksum(path: Path | str) -> int | None:
    """Return the checksum of a file; None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return zlib.crc32(file.read())
    except OSError:
        return None


def _changed(sources: Mapping[str, int]) -> str | None:
    """Return the first of the sources, by path in the package, that has another checksum; None without one.

    It takes some 4 ms; a library with other sources than Python might be given arrays of another size.
    """
    return next((path for path, wanted in sources.items() if checksum(f"{PACKAGE}/{path}") != wanted), None)


def symbol(function: Callable[..., Any], described: str) -> str | None:
    """Return the name of a kernel's function in the library; None for what is no module's own."""
    if not _is_of_module(function):
        return None
    return f"{function.__module__}.{function.__qualname__}.{zlib.crc32(described.encode()):08x}"


def method_symbol(struct: type[Any], protocol: type[Any], name: str) -> str | None:
    """Return the name of a method that is called by its address; None for classes of no module."""
    if not (_is_of_module(struct) and _is_of_module(protocol)):
        return None
    return f"{struct.__module__}.{struct.__qualname__}.{name}.{protocol.__qualname__}"


def _is_of_module(made: Any) -> bool:
    """Whether a function or class is what its module has by its name."""
    found = getattr(sys.modules.get(made.__module__), made.__qualname__, None)
    return found is made or getattr(found, "py_func", None) is made


def entry(
    function: Callable[..., Any], arguments: tuple[Any, ...], *, released: bool
) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return a callable for a kernel with arguments of these types; None where the library has none."""
    found = _loaded()
    described = describe(arguments) if isinstance(found, _Library) else None
    name = None if described is None else symbol(function, described)
    if name is None or not isinstance(found, _Library):
        return None
    returns = found.text(name + RETURNS)
    if returns is None:
        return None
    called = getattr(found.released if released else found.held, name)
    given: list[Any] = []
    append_scalars(arguments, given)
    kinds = [ctypes.c_double if isinstance(each, float) else ctypes.c_int64 for each in given]
    called.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *kinds]
    return _caller(called, returns)


def method(struct: type[Any], protocol: type[Any], name: str) -> int | None:
    """Return the address of a method that is called by it; None where the library has none."""
    found = _loaded()
    wanted = method_symbol(struct, protocol, name)
    if wanted is None or not isinstance(found, _Library):
        return None
    try:
        return _address(found.released, wanted)
    except ValueError:
        return None


def _address(library: ctypes.CDLL, name: str) -> int:
    """Return the address of what has a name in the library; ValueError without it."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(library, name))
    except ValueError:
        raise ValueError(f"expected {name} in the library") from None


def _caller(function: Any, returns: str) -> Callable[[tuple[Any, ...]], Any]:
    unpacked = struct.Struct("=" + "".join(_FORMATS[each] for each in returns if each in _FORMATS))
    size = unpacked.size // 8 + 1
    new = ctypes.c_int64 * size  # the last word is the error's address
    shape = returns

    def call(arguments: tuple[Any, ...]) -> Any:
        given: list[Any] = []
        append_scalars(arguments, given)
        words = new()
        start = ctypes.addressof(words)
        if function(start, start + 8 * (size - 1), *given):
            _raise(words[size - 1])
        if not shape:
            return None
        return _value(shape, iter(unpacked.unpack_from(words)))

    return call


def _value(shape: str, values: Iterator[Any]) -> Any:
    """Return the result of a kernel from its words."""
    if shape[0] != "(":
        value = next(values)
        return bool(value) if shape == "?" else value
    return tuple(_value(each, values) for each in shape[1:-1])


_FRAME_LENGTH_AT = 3
"""The offset of a frame's length in a pickle, after its protocol and the frame's opcode."""


def _raise(address: int) -> NoReturn:
    """Raise an exception of compiled code, with the line of its statement."""
    if not address:
        raise SystemError("a kernel failed without an exception")
    if ctypes.string_at(address, 1) != pickle.PROTO:
        kind, name, path, line, *message = ctypes.string_at(address).decode().split("\n", 4)
        error: Exception = pkgutil.resolve_name(kind)(*message)
    else:  # of a method that numba compiled: class, arguments and place in a pickle of one frame
        octets = ctypes.c_uint64.from_address(address + _FRAME_LENGTH_AT).value
        made, values, place = pickle.loads(ctypes.string_at(address, _FRAME_LENGTH_AT + 8 + octets))
        error = made(*values or ())
        name, path, line = map(str, place or ("", "", 1))
    if not name:
        raise error
    code: CodeType = compile("\n" * (int(line) - 1) + "raise error", str(PACKAGE.parent / path), "exec")
    exec(code.replace(co_name=name), {"error": error})
    raise error
