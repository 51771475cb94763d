"""Compiled instructions for the functions of `columns.octets`.

No instruction checks array bounds, unless numba is configured to check them. The module imports numba, so it
is imported only when a kernel is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from ecmproto.frames.columns.octets import BLOCK

_MAX_OCTETS = 8
_LITTLE = sys.byteorder == "little"


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any, octets: int) -> Any:
    """Return a pointer to octets of an array.

    With ``NUMBA_BOUNDSCHECK=1``, the pointer's bounds are checked, as in numba.
    """
    made = context.make_array(kind)(context, builder, array)
    if context.enable_boundscheck:
        code: Any = cgutils  # untyped
        (length,) = code.unpack_tuple(builder, made.shape, count=1)
        for each in (at, builder.add(at, at.type(octets - 1))):
            code.do_boundscheck(context, builder, each, length)
    return builder.bitcast(builder.gep(made.data, [at]), _element(octets).as_pointer())


def _element(octets: int) -> Any:
    return ir.IntType(8 * octets) if octets <= _MAX_OCTETS else ir.VectorType(ir.IntType(8), octets)


def _storing(octets: int) -> Callable[..., Any]:
    def store(_: Any, out: Any, at: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.trunc(arguments[2], _element(octets)) if octets < _MAX_OCTETS else arguments[2]
            value = value if _LITTLE else builder.bswap(value)
            pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], octets)
            builder.store(value, pointer, align=1)
            return context.get_dummy_value()

        return types.void(out, types.intp, types.int64), codegen

    return store


def _loading(_: Any, source: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], 4)
        value = builder.load(pointer, align=1)
        value = value if _LITTLE else builder.bswap(value)
        return builder.zext(value, ir.IntType(64))

    return types.int64(source, types.intp), codegen


def _loading_number(_: Any, source: Any, at: Any, shift: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], _MAX_OCTETS)
        value = builder.load(pointer, align=1)
        value = builder.bswap(value) if _LITTLE else value
        return builder.ashr(value, arguments[2])

    return types.int64(source, types.intp, types.int64), codegen


def _copying(_: Any, out: Any, at: Any, source: Any, start: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from_ = _pointer(context, builder, signature.args[2], arguments[2], arguments[3], BLOCK)
        to = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], BLOCK)
        builder.store(builder.load(from_, align=1), to, align=1)
        return context.get_dummy_value()

    return types.void(out, types.intp, source, types.intp), codegen


TYPINGS: dict[str, Callable[..., Any]] = {
    "_copy_block": _copying,
    "_store_4": _storing(4),
    "_store_8": _storing(8),
    "_load_4": _loading,
    "_load_number": _loading_number,
}
"""Numba typing functions by the name of the function in `columns.octets`."""
