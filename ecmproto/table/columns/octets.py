"""Octets of a buffer taken several at a time, in kernels.

Places are unsigned inside: numba looks at every signed one whether it is negative and counts from the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import inlined, released

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]


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
        behind = stop[i] - octets[i]
        for octet in range(octets[i]):
            out[np.uint64(behind + octet)] = buffer[np.uint64(start[i] + octet)]
