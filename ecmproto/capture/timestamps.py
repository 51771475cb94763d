"""Ticks of a capture's clock to nanoseconds, exactly.

Everything is integer arithmetic modulo 2^64: as ticks grow, so do the nanoseconds, so it is enough to look
at the first and last of them to know that none leaves 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.units import NS_PER_S

UInt64 = NDArray[np.uint64]
Int64 = NDArray[np.int64]

_MASK = (1 << 64) - 1
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of a pcapng interface: if_tsresol as its octet stands in the file, if_tsoffset in seconds."""

    resolution: int = 6
    offset_s: int = 0

    @property
    def ticks_per_second(self) -> int:
        """10^n, or 2^n where the octet's top bit is set."""
        exponent = self.resolution & 0x7F
        return 1 << exponent if self.resolution & 0x80 else int(10**exponent)

    def ns(self, ticks: int) -> int:
        """Return ⌊10⁹·ticks/ticks_per_second⌋ + 10⁹·offset, unbounded."""
        return ticks * NS_PER_S // self.ticks_per_second + self.offset_s * NS_PER_S

    def ticks(self, time_ns: int) -> int:
        """Return the last tick at or before ``time_ns``."""
        return (time_ns - self.offset_s * NS_PER_S) * self.ticks_per_second // NS_PER_S


def ticks_to_ns(ticks: UInt64, clock: Clock) -> tuple[Int64, int]:
    """Return the times of ``ticks`` in ns and how many had to be clamped to 64 bits."""
    if not len(ticks):
        return np.empty(0, dtype=np.int64), 0
    if clock.ns(int(ticks.min())) >= _LOWEST and clock.ns(int(ticks.max())) <= _HIGHEST:
        offset = np.uint64(clock.offset_s * NS_PER_S & _MASK)
        return (_scaled(ticks, clock) + offset).view(np.int64), 0
    exact = [clock.ns(tick) for tick in ticks.tolist()]
    clamped = sum(not _LOWEST <= time <= _HIGHEST for time in exact)
    return np.array([min(max(time, _LOWEST), _HIGHEST) for time in exact], dtype=np.int64), clamped


def _scaled(ticks: UInt64, clock: Clock) -> UInt64:
    exponent = clock.resolution & 0x7F
    if clock.resolution & 0x80:
        return _from_binary(ticks, exponent)
    if exponent <= 9:
        return ticks * np.uint64(10 ** (9 - exponent))
    if exponent <= 28:
        return ticks // np.uint64(10 ** (exponent - 9))
    return np.zeros_like(ticks)  # less than 2^64 ticks of 10^-29 s are below one ns


def _from_binary(ticks: UInt64, exponent: int) -> UInt64:
    """⌊10⁹·ticks/2^exponent⌋, the fraction in two halves of which neither product leaves 64 bits."""
    whole = ticks >> np.uint64(exponent) if exponent < 64 else np.zeros_like(ticks)
    fraction = ticks & np.uint64((1 << exponent) - 1 & _MASK)
    second = np.uint64(NS_PER_S)
    if exponent <= 34:  # 2^34 · 10^9 < 2^64
        return whole * second + (fraction * second >> np.uint64(exponent))
    high, low = fraction >> np.uint64(32), fraction & np.uint64(0xFFFFFFFF)
    upper = high * second + (low * second >> np.uint64(32))
    rest = exponent - 32
    return whole * second + (upper >> np.uint64(rest) if rest < 64 else np.zeros_like(upper))
