"""Octets of a buffer taken, copied and written several at a time, in kernels.

Places are unsigned inside: numba looks at every signed one whether it is negative and counts from the end.
The functions from `copy` on are for kernels that write text: an array's elements are read and written one by
one there, and a loop over them takes as long for each as for eight.  Each says in Python what it does and,
compiled, becomes one or two instructions.  None looks whether its octets are inside the array, unless numba
is asked to: that is its caller's to see to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ecmproto.kernel import inlined, released

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_WORD = 8


@inlined
def eight_octets(buffer: Octets, start: int) -> np.uint64:
    """Return the 64-bit number at ``start``; the compiler makes one load of it."""
    at = np.uint64(start)
    high = (
        (np.uint64(buffer[at]) << np.uint64(56))
        | (np.uint64(buffer[at + np.uint64(1)]) << np.uint64(48))
        | (np.uint64(buffer[at + np.uint64(2)]) << np.uint64(40))
        | (np.uint64(buffer[at + np.uint64(3)]) << np.uint64(32))
    )
    low = (
        (np.uint64(buffer[at + np.uint64(4)]) << np.uint64(24))
        | (np.uint64(buffer[at + np.uint64(5)]) << np.uint64(16))
        | (np.uint64(buffer[at + np.uint64(6)]) << np.uint64(8))
        | np.uint64(buffer[at + np.uint64(7)])
    )
    return high | low


@released
def copy_octets(buffer: Octets, start: Int64, octets: Int64, stop: Int64, out: Octets) -> None:
    """Copy stretches of ``buffer`` one behind the other: each ends in ``out`` at its ``stop``."""
    for i in range(len(start)):
        count = octets[i]
        here, there = np.uint64(start[i]), np.uint64(stop[i] - count)
        left = np.uint64(count)
        while left >= np.uint64(_WORD):
            # all eight are taken before any is put down, so that they go together
            a, b, c, d = _four(buffer, here)
            e, f, g, h = _four(buffer, here + np.uint64(4))
            _put_four(out, there, a, b, c, d)
            _put_four(out, there + np.uint64(4), e, f, g, h)
            here += np.uint64(_WORD)
            there += np.uint64(_WORD)
            left -= np.uint64(_WORD)
        while left > np.uint64(0):
            out[there] = buffer[here]
            here += np.uint64(1)
            there += np.uint64(1)
            left -= np.uint64(1)


@inlined
def _four(buffer: Octets, at: np.uint64) -> tuple[np.uint8, np.uint8, np.uint8, np.uint8]:
    return (
        buffer[at],
        buffer[at + np.uint64(1)],
        buffer[at + np.uint64(2)],
        buffer[at + np.uint64(3)],
    )


@inlined
def _put_four(out: Octets, at: np.uint64, a: np.uint8, b: np.uint8, c: np.uint8, d: np.uint8) -> None:
    out[at] = a
    out[at + np.uint64(1)] = b
    out[at + np.uint64(2)] = c
    out[at + np.uint64(3)] = d


_Function = TypeVar("_Function", bound=Callable[..., Any])

BLOCK = 32
"""How many octets `copy` takes at a time: it writes, and reads, up to so many beyond those asked for."""
_LITTLE = sys.byteorder == "little"


def _compiled_as(typing: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Put instructions in the place of a Python function that does the same, unless nothing is compiled."""

    def compiled(function: _Function) -> _Function:
        config: Any = numba.config
        if config.DISABLE_JIT:
            return function
        instructions: Any = intrinsic(typing)
        typed: _Function = instructions
        return typed

    return compiled


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any, octets: int) -> Any:
    """Return where an array's octet ``at`` is, as a pointer to as many ``octets``.

    With numba's ``NUMBA_BOUNDSCHECK=1`` all of them must be inside the array, as with its own indexing.
    """
    made = context.make_array(kind)(context, builder, array)
    if context.enable_boundscheck:
        code: Any = cgutils  # untyped
        (length,) = code.unpack_tuple(builder, made.shape, count=1)
        for each in (at, builder.add(at, at.type(octets - 1))):
            code.do_boundscheck(context, builder, each, length)
    return builder.bitcast(builder.gep(made.data, [at]), _element(octets).as_pointer())


def _element(octets: int) -> Any:
    return ir.IntType(8 * octets) if octets <= _WORD else ir.VectorType(ir.IntType(8), octets)


def _storing(octets: int) -> Callable[..., Any]:
    def store(_: Any, out: Any, at: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.trunc(arguments[2], _element(octets)) if octets < _WORD else arguments[2]
            value = value if _LITTLE else builder.bswap(value)
            place = _place(context, builder, signature.args[0], arguments[0], arguments[1], octets)
            builder.store(value, place, align=1)
            return context.get_dummy_value()

        return types.void(out, types.intp, types.int64), codegen

    return store


def _loading(_: Any, source: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1], 4)
        value = builder.load(place, align=1)
        value = value if _LITTLE else builder.bswap(value)
        return builder.zext(value, ir.IntType(64))

    return types.int64(source, types.intp), codegen


def _loading_number(_: Any, source: Any, at: Any, shift: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1], _WORD)
        value = builder.load(place, align=1)
        value = builder.bswap(value) if _LITTLE else value
        return builder.lshr(value, arguments[2])

    return types.int64(source, types.intp, types.int64), codegen


def _copying(_: Any, out: Any, at: Any, source: Any, start: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        there = _place(context, builder, signature.args[2], arguments[2], arguments[3], BLOCK)
        here = _place(context, builder, signature.args[0], arguments[0], arguments[1], BLOCK)
        builder.store(builder.load(there, align=1), here, align=1)
        return context.get_dummy_value()

    return types.void(out, types.intp, source, types.intp), codegen


@_compiled_as(_copying)
def _copy_block(out: Octets, at: int, source: Octets, start: int) -> None:
    out[at : at + BLOCK] = source[start : start + BLOCK]


@_compiled_as(_storing(4))
def _store_4(out: Octets, at: int, word: int) -> None:
    out[at : at + 4] = np.frombuffer(int(word).to_bytes(4, "little"), np.uint8)


@_compiled_as(_storing(8))
def _store_8(out: Octets, at: int, word: int) -> None:
    out[at : at + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)


@_compiled_as(_loading)
def _load_4(source: Octets, at: int) -> int:
    return int.from_bytes(source[at : at + 4].tobytes(), "little")


@_compiled_as(_loading_number)
def _load_number(source: Octets, at: int, shift: int) -> int:
    return int.from_bytes(source[at : at + 8].tobytes(), "big") >> int(shift)


@inlined
def copy(out: Octets, at: int, source: Octets, start: int, octets: int) -> int:
    """Copy octets, a `BLOCK` at a time; returns where they end."""
    for done in range(0, octets, BLOCK):
        _copy_block(out, at + done, source, start + done)
    return at + octets


@inlined
def store_4(out: Octets, at: int, word: int) -> None:
    """Write the four octets of ``word``, 0 ≤ word < 2^32, the least significant first."""
    _store_4(out, at, word)


@inlined
def store_8(out: Octets, at: int, word: int) -> None:
    """Write the eight octets of ``word``, 0 ≤ word < 2^63, the least significant first."""
    _store_8(out, at, word)


@inlined
def load_4(source: Octets, at: int) -> int:
    """Return the four octets at ``at``, the least significant first."""
    return _load_4(source, at)


@inlined
def load_number(source: Octets, at: int, shift: int) -> int:
    """Return the eight octets at ``at``, the most significant first, without the last ``shift`` > 0 bits.

    What stands behind the end of ``source`` is 0.
    """
    if at + 8 > len(source):
        number = 0
        for octet in range(at, at + 7):
            number <<= 8
            if octet < len(source):
                number |= int(np.int64(source[octet]))
        return number >> (shift - 8)
    return _load_number(source, at, shift)
