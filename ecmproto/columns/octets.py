"""Octets of a buffer taken several at a time, in kernels.

Places are unsigned inside: numba looks at every signed one whether it is negative and counts from the end.
"""

from __future__ import annotations

import numpy as np
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
