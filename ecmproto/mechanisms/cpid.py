"""Congestion point identifiers: 64 bits, MAC (48) and local identifier (16), equal when all bits are.

State records hold signed 64-bit numbers, so a CPID whose first bit is set is a negative number there.
0 is never a congestion point's: local identifiers start at 1 (wire-formats 1.2); kernels read it as "none".
"""

from __future__ import annotations

NO_CPID = 0

_BITS = 64


def signed_cpid(cpid: int) -> int:
    """Return an unsigned 64-bit ``cpid`` as kernels hold it: the signed number of the same bits."""
    return cpid - (1 << _BITS) if cpid >> (_BITS - 1) else cpid


def unsigned_cpid(number: int) -> int:
    """Return the CPID as messages carry it, of what `signed_cpid` gave."""
    return int(number) % (1 << _BITS)
