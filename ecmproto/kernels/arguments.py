"""Arguments of kernels: the types that determine the machine code, and the scalars that represent the values.

This module does not import numba. Code that was compiled for some argument types must not be called with
other types.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_MIN, _BEYOND = -(1 << 63), 1 << 63
_WRITABLE_ROW = 0x401
"""Flags of an array that is writable and contiguous."""
_start_of: Any = (ctypes.c_char * 0).from_buffer


def typing_key(value: Any) -> Any:
    """Return a hashable key for the type of an argument, or ``None`` if only numba can determine the type.

    The key of a struct or interface is the attribute ``_typing_key``, which is the class.
    """
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype, value.ndim, value.flags.num
    if kind is int:
        return kind if _MIN <= value < _BEYOND else None
    if kind is bool or kind is float or value is None:
        return kind
    if isinstance(value, tuple):
        keys = tuple([typing_key(each) for each in value])
        return None if None in keys else (kind, keys)
    if isinstance(value, np.generic):
        return kind, value.dtype
    return getattr(value, "_typing_key", None)


def describe(arguments: tuple[Any, ...]) -> str | None:
    """Return a text that describes the types of arguments and is the same in all processes.

    ``None`` means that kernels of the library do not accept one of the arguments.
    """
    parts = [_described(each) for each in arguments]
    return None if None in parts else " ".join(map(str, parts))


def _described(value: Any) -> str | None:
    kind = type(value)
    if kind is np.ndarray:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        access = ("" if flags.writeable else " fixed") + ("" if flags.aligned else " unaligned")
        return f"array({_named(value.dtype)} {value.ndim}{layout}{access})"
    if kind is int:
        return "int" if _MIN <= value < _BEYOND else None
    if kind is bool or kind is float or value is None:
        return kind.__name__
    if isinstance(value, np.generic):
        return _named(value.dtype) if value.dtype.names or value.dtype.kind in "iufb" else None
    if isinstance(value, tuple):
        parts = [_described(each) for each in value]
        if None in parts:
            return None
        name = "" if kind is tuple else f"{kind.__module__}.{kind.__qualname__}"
        return f"{name}({' '.join(map(str, parts))})"
    of = getattr(value, "_typing_key", None)
    return None if of is None else f"{of.__module__}.{of.__qualname__}"


def _named(kind: np.dtype[Any]) -> str:
    return str(kind) if kind.names else kind.str


def address(value: Any) -> int:
    """Return the address of the octets of an array or of a record.

    numpy's own attributes take four to forty times as long, which is more than many a kernel takes.
    """
    if not isinstance(value, np.ndarray):
        value = np.frombuffer(value, np.uint8)
    elif value.flags.num & _WRITABLE_ROW == _WRITABLE_ROW:
        return ctypes.addressof(_start_of(value))
    pointer: int = value.ctypes.data
    return pointer


def append_scalars(value: Any, scalars: list[Any]) -> None:
    """Append the scalars that represent a value in calls of the library (`kernels.library`)."""
    kind = type(value)
    if kind is int or kind is float or kind is bool:
        scalars.append(value)
    elif kind is np.ndarray:
        scalars.append(address(value))
        scalars += value.shape
        scalars += value.strides
    elif isinstance(value, tuple):
        for each in value:
            append_scalars(each, scalars)
    elif isinstance(value, np.void):
        scalars.append(address(value))
    elif isinstance(value, np.generic):
        scalars.append(value.item())
    elif value is not None:
        scalars.append(value._address)
