"""Reading, copying and writing several octets of a buffer at a time, in kernels.

Indices are unsigned, because numba tests every signed index for negative values, which count from the end.
The functions from `copy` are for kernels that write text. In such kernels, access to one array element takes
as long as access to eight octets at once. Each function is described in Python and compiled into one or two
instructions. No function checks array bounds, unless numba is configured to check them. The caller must
ensure valid bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import inlined, instruction, over_batches

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_WORD = 8


@inlined
def eight_octets(buffer: Octets, start: int) -> np.uint64:
    """Return the 64-bit number at ``start``, compiled into a single load."""
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


@over_batches
def copy_octets(buffer: Octets, start: Int64, octets: Int64, stop: Int64, out: Octets) -> None:
    """Copy slices of ``buffer`` into ``out``; each slice ends in ``out`` at its ``stop``."""
    for i in range(len(start)):
        count = octets[i]
        source, target = np.uint64(start[i]), np.uint64(stop[i] - count)
        left = np.uint64(count)
        while left >= np.uint64(_WORD):
            # All eight octets are loaded before any octet is stored, so that the compiler combines the loads.
            a, b, c, d = _four(buffer, source)
            e, f, g, h = _four(buffer, source + np.uint64(4))
            _put_four(out, target, a, b, c, d)
            _put_four(out, target + np.uint64(4), e, f, g, h)
            source += np.uint64(_WORD)
            target += np.uint64(_WORD)
            left -= np.uint64(_WORD)
        while left > np.uint64(0):
            out[target] = buffer[source]
            source += np.uint64(1)
            target += np.uint64(1)
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
"""Number of octets that `copy` moves at a time.

`copy` may read and write up to this number of octets beyond the end.
"""


def _instructions(function: _Function) -> _Function:
    def typing() -> Any:
        from ecmproto.frames.columns.instructions import TYPINGS

        return TYPINGS[function.__name__]

    return instruction(typing)(function)


@_instructions
def _copy_block(out: Octets, at: int, source: Octets, start: int) -> None:
    out[at : at + BLOCK] = source[start : start + BLOCK]


@_instructions
def _store_4(out: Octets, at: int, word: int) -> None:
    out[at : at + 4] = np.frombuffer(int(word).to_bytes(4, "little"), np.uint8)


@_instructions
def _store_8(out: Octets, at: int, word: int) -> None:
    out[at : at + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)


@_instructions
def _load_4(source: Octets, at: int) -> int:
    return int.from_bytes(source[at : at + 4].tobytes(), "little")


@_instructions
def _load_number(source: Octets, at: int, shift: int) -> int:
    return int.from_bytes(source[at : at + 8].tobytes(), "big", signed=True) >> int(shift)


@inlined
def copy(out: Octets, at: int, source: Octets, start: int, octets: int) -> int:
    """Copy octets, a `BLOCK` at a time; return the end of the copy."""
    for done in range(0, octets, BLOCK):
        _copy_block(out, at + done, source, start + done)
    return at + octets


@inlined
def store_4(out: Octets, at: int, word: int) -> None:
    """Write the four octets of ``word``, 0 ≤ word < 2^32, least significant octet first."""
    _store_4(out, at, word)


@inlined
def store_8(out: Octets, at: int, word: int) -> None:
    """Write the eight octets of ``word``, 0 ≤ word < 2^63, least significant octet first."""
    _store_8(out, at, word)


@inlined
def load_4(source: Octets, at: int) -> int:
    """Return the four octets at ``at`` as a number, least significant octet first."""
    return _load_4(source, at)


@inlined
def load_number(source: Octets, at: int, shift: int) -> int:
    """Return eight big-endian octets as a signed number, shifted right by ``shift`` bits.

    Octets beyond the end of ``source`` are 0; ``shift`` is then at least 8.
    """
    if at + 8 > len(source):
        number = 0
        for octet in range(at, at + 7):
            number <<= 8
            if octet < len(source):
                number |= int(np.int64(source[octet]))
        return number >> (shift - 8)
    return _load_number(source, at, shift)
