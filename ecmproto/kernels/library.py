"""The library of kernels: a shared library with a C ABI, which `kernels.building` builds and ctypes calls.

The library contains a function for each kernel and each combination of argument types that commands use::

    int32_t name(int64_t *returned, const char **error, …)

The kernel's arguments follow as words. A number is one word, and a struct or record is one word with the
address. An array is the address, the lengths and the strides. A tuple is the words of its elements.

The function writes the words of the result to ``returned``. The returned status is 0 for success. Otherwise
``error`` is the address of a text with five lines: class of the exception, function, file, line and message.

The library also contains methods of structs that the engine calls by address. These methods have the calling
convention of compiled code.

The library contains checksums of the sources. The library is not used if the sources have changed, because
changed sources might pass other arrays. The library is also not used if the environment requests other code
from numba (``NUMBA_BOUNDSCHECK``, another CPU).
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pickle
import struct
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any, NoReturn

from ecmproto.errors import CacheWarning
from ecmproto.kernels.arguments import append_scalars, describe

PACKAGE = os.path.dirname(os.path.dirname(__file__))
PATH = os.path.join(PACKAGE, "kernels", "ecmproto-kernels.so")
INFORMATION = "ecmproto_library"
"""Name of a symbol in the library. The symbol contains information about the build as JSON text."""
RETURNS = ".returns"
"""Suffix of the symbols that describe the results of kernels. `_FORMATS` contains the type codes."""
_FORMATS = {"q": "q", "Q": "Q", "d": "d", "?": "q"}
_HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT"}


class _Library:
    """Loaded library, for calls that release the interpreter lock and for calls that do not."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.released = ctypes.CDLL(str(path))
        self.held = ctypes.PyDLL(str(path))
        self.information: Mapping[str, Any] = json.loads(self.text(INFORMATION) or "{}")

    def text(self, name: str) -> str | None:
        """Return the text at a symbol, or ``None`` if the library has no such symbol."""
        try:
            return ctypes.string_at(_address(self.released, name)).decode()
        except ValueError:
            return None


@functools.cache
def _loaded() -> _Library | str:
    """Return the library, or the reason why no library is used."""
    unusual = sorted({name for name in os.environ if name.startswith("NUMBA_")} - _HARMLESS)
    if unusual:
        return f"{unusual[0]} requires other code"
    try:
        library = _Library(PATH)
    except OSError as error:
        return (
            f"no library of kernels can be loaded: {error}"
            if os.path.exists(PATH)
            else "no library of kernels is installed"
        )
    sources = library.information.get("sources")
    changed = _changed(sources if isinstance(sources, dict) else {"": 0})  # older versions have no dict
    if changed is not None:
        why = (
            f"the library of kernels was built from other sources than {os.path.join(PACKAGE, changed)};"
            " `make kernels`, or a new installation, replaces it"
        )
        warnings.warn(why, CacheWarning, stacklevel=2)
        return why
    return library


def is_loaded() -> bool:
    """Return whether a library is loaded that was built from the present sources."""
    return isinstance(_loaded(), _Library)


def is_ready() -> bool:
    """Return whether kernels can run without first importing numba."""
    return is_loaded() or "numba" in sys.modules


def why_not() -> str:
    """Return the reason why no library is used, or empty text."""
    library = _loaded()
    return "" if isinstance(library, _Library) else library


def information() -> Mapping[str, Any]:
    """Return the library's sources, compiler versions and processor. Empty without a library."""
    library = _loaded()
    return {**library.information, "path": str(library.path)} if isinstance(library, _Library) else {}


def checksum(path: str | os.PathLike[str]) -> int | None:
    """Return the checksum of a file, or ``None`` if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return zlib.crc32(file.read())
    except OSError:
        return None


def _changed(sources: Mapping[str, int]) -> str | None:
    """Return the first source file with a different checksum, as a path in the package, or ``None``.

    The check takes about 4 ms. A library of other sources might receive arrays of an unexpected length.
    """
    return next(
        (path for path, expected in sources.items() if checksum(f"{PACKAGE}/{path}") != expected), None
    )


def symbol(function: Callable[..., Any], described: str) -> str | None:
    """Return the symbol of a kernel in the library.

    The result is ``None`` if the function is not an attribute of a module.
    """
    if not _is_of_module(function):
        return None
    return f"{function.__module__}.{function.__qualname__}.{zlib.crc32(described.encode()):08x}"


def method_symbol(struct: type[Any], protocol: type[Any], name: str) -> str | None:
    """Return the symbol of a method that is called by address.

    The result is ``None`` if a class is not an attribute of a module.
    """
    if not (_is_of_module(struct) and _is_of_module(protocol)):
        return None
    return f"{struct.__module__}.{struct.__qualname__}.{name}.{protocol.__qualname__}"


def _is_of_module(made: Any) -> bool:
    """Return whether a function or class is an attribute of the module that defines the function or class."""
    attribute = getattr(sys.modules.get(made.__module__), made.__qualname__, None)
    return attribute is made or getattr(attribute, "py_func", None) is made


def entry(
    function: Callable[..., Any], arguments: tuple[Any, ...], *, released: bool
) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return a callable that runs a kernel with these types, or ``None`` if the library has none."""
    library = _loaded()
    described = describe(arguments) if isinstance(library, _Library) else None
    name = None if described is None else symbol(function, described)
    if name is None or not isinstance(library, _Library):
        return None
    returns = library.text(name + RETURNS)
    if returns is None:
        return None
    called = getattr(library.released if released else library.held, name)
    given: list[Any] = []
    append_scalars(arguments, given)
    types = [ctypes.c_double if isinstance(each, float) else ctypes.c_int64 for each in given]
    called.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *types]
    return _caller(called, returns)


def method(struct: type[Any], protocol: type[Any], name: str) -> int | None:
    """Return the address of a method, or ``None`` if the library does not contain the method."""
    library = _loaded()
    symbol = method_symbol(struct, protocol, name)
    if symbol is None or not isinstance(library, _Library):
        return None
    try:
        return _address(library.released, symbol)
    except ValueError:
        return None


def _address(library: ctypes.CDLL, name: str) -> int:
    """Return the address of a symbol in the library. Raises ValueError if the symbol is missing."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(library, name))
    except ValueError:
        raise ValueError(f"expected {name} in the library") from None


def _caller(function: Any, returns: str) -> Callable[[tuple[Any, ...]], Any]:
    unpacked = struct.Struct("=" + "".join(_FORMATS[each] for each in returns if each in _FORMATS))
    size = unpacked.size // 8 + 1
    new = ctypes.c_int64 * size  # the last word is the address of the error
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
    """Return the result of a kernel from the result's words."""
    if shape[0] != "(":
        value = next(values)
        return bool(value) if shape == "?" else value
    return tuple(_value(each, values) for each in shape[1:-1])


_FRAME_LENGTH_AT = 3
"""Offset of the frame length in a pickle, after the protocol and the opcode of the frame."""


def _raise(address: int) -> NoReturn:
    """Raise the exception of compiled code, with the line of the statement that raised the exception."""
    if not address:
        raise SystemError("a kernel failed without an exception")
    if ctypes.string_at(address, 1) != pickle.PROTO:
        from pkgutil import resolve_name

        kind, name, path, line, *message = ctypes.string_at(address).decode().split("\n", 4)
        error: Exception = resolve_name(kind)(*message)
    else:  # a method compiled by numba: a pickle of one frame with class, arguments and location
        octets = ctypes.c_uint64.from_address(address + _FRAME_LENGTH_AT).value
        made, values, location = pickle.loads(ctypes.string_at(address, _FRAME_LENGTH_AT + 8 + octets))
        error = made(*values or ())
        name, path, line = map(str, location or ("", "", 1))
    if not name:
        raise error
    file = os.path.join(os.path.dirname(PACKAGE), path)
    code: CodeType = compile("\n" * (int(line) - 1) + "raise error", file, "exec")
    exec(code.replace(co_name=name), {"error": error})
    raise error
