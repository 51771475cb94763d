"""Chain walks: from the start of one record to the start of the next, as far as the buffer goes.

Each walk is one text.  Small captures run it interpreted (importing a compiler would cost more than the
walk), large ones run the same function compiled; ``Walker`` decides.  A walk stops in front of the first
record it cannot vouch for and leaves it to the caller to say what is wrong, or that more octets are needed.
"""

from __future__ import annotations

import functools
import sys
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Octets = NDArray[np.uint8]

COMPILE_FROM_OCTETS = 48 << 20
"""Walking less than this interpreted takes about as long as importing the compiler."""


def walk_pcap(
    octets: Any,
    position: int,
    stop: int,
    end: int,
    positions: Any,
    room: int,
    header: int,
    largest: int,
    lengths: int,
    big: bool,
) -> tuple[int, int]:
    """Walk pcap records from ``position``; return how many start in ``positions`` and where the next is.

    Records start before ``stop`` and end by ``end``; ``header`` is the record header's length in octets,
    ``largest`` the captured length above which a record is not believed, ``lengths`` which of a record's
    two lengths is the captured one: the first (0), the second (1), the smaller (2).
    """
    s0, s1, s2, s3 = (24, 16, 8, 0) if big else (0, 8, 16, 24)
    count = 0
    while count < room and position < stop and position + header <= end:
        at = position + 12 if lengths == 1 else position + 8
        captured = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
        if lengths == 2:
            at = position + 12
            other = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
            captured = min(captured, other)
        if captured > largest or position + header + captured > end:
            break
        positions[count] = position
        count += 1
        position += header + captured
    return count, position


def walk_pcapng(
    octets: Any,
    position: int,
    stop: int,
    end: int,
    positions: Any,
    room: int,
    interfaces: int,
    big: bool,
    largest: int,
) -> tuple[int, int]:
    """Walk a run of pcapng blocks that hold frames (EPB 6, SPB 3, obsolete PB 2); return as walk_pcap.

    ``interfaces`` is how many the section has described so far.  Blocks that neither hold a frame nor
    describe a section or interface are passed over as long as they have no more than ``largest`` octets (0:
    none is).  Any other block, and any block whose lengths or interface do not hold, ends the run.
    """
    s0, s1, s2, s3 = (24, 16, 8, 0) if big else (0, 8, 16, 24)
    h0, h1 = (8, 0) if big else (0, 8)
    count = 0
    while count < room and position < stop and position + 16 <= end:
        at = position
        kind = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
        holds = kind == 6 or kind == 3 or kind == 2
        if not holds and (largest == 0 or kind == 1 or kind == 0x0A0D0D0A):
            break
        at = position + 4
        total = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
        if total < 12 or total & 3 or position + total > end:
            break
        at = position + total - 4
        if total != octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3:
            break
        if not holds:
            if total > largest:
                break
            position += total
            continue
        if total < 16:
            break
        interface = 0
        if kind != 3:
            if total < 32:
                break
            at = position + 20
            captured = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
            if captured > total - 32:
                break
            at = position + 8
            interface = octets[at] << h0 | octets[at + 1] << h1
            if kind == 6:
                interface = (
                    octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
                )
        if interface >= interfaces:
            break
        positions[count] = position
        count += 1
        position += total
    return count, position


class Walker:
    """Runs walks over one capture, interpreted at first and compiled once it turns out to be large.

    ``size_octets`` is the capture's size where it is known beforehand.
    """

    def __init__(self, size_octets: int | None) -> None:
        large = size_octets is not None and size_octets >= COMPILE_FROM_OCTETS
        # Where numba is loaded anyway, compiled walks pay from the first frame.
        self._large = large or "numba" in sys.modules
        self._grows = size_octets is None
        self._walked = 0
        self._room = array("q")

    def run(
        self,
        walk: Callable[..., tuple[int, int]],
        octets: Octets,
        position: int,
        stop: int,
        room: int,
        *rest: Any,
    ) -> tuple[Int64, int]:
        """Return the starts of the records between ``position`` and ``stop``, and where the next one is."""
        end = len(octets)
        stop = min(stop, end)
        room = max(1, min(room, (stop - position) // 16 + 1))
        # Runs may be short and many: room for the longest is made once.
        if len(self._room) < room:
            self._room = array("q", bytes(8 * room))
        if self._large and compiled(walk) is not walk:
            positions = np.frombuffer(self._room, dtype=np.int64)
            count, after = compiled(walk)(octets, position, stop, end, positions, room, *rest)
            return positions[:count].copy(), int(after)
        # A memoryview gives Python integers, which an interpreted loop handles several times faster.
        count, after = walk(octets.data, position, stop, end, self._room, room, *rest)
        self._walked += after - position
        self._large = self._grows and self._walked >= COMPILE_FROM_OCTETS
        return np.array(self._room[:count], dtype=np.int64), after


@functools.cache
def compiled(walk: Callable[..., tuple[int, int]]) -> Callable[..., tuple[int, int]]:
    """Return ``walk`` compiled, from the on-disk cache where one can be kept; this imports numba."""
    from ecmproto.kernel import released

    return released(walk)
