"""The margin of randomness that QCN's reloads share (algorithms §3, CP 3 and RP 2)."""

from __future__ import annotations

from ecmproto.kernel import inlined
from ecmproto.structs import Random


@inlined
def spread(jitter: float, generator: Random) -> float:
    """Return U(1 − jitter, 1 + jitter).

    Draws once from ``generator``; ``random()`` gives the same numbers in compiled and plain code.
    """
    return 1.0 - jitter + 2.0 * jitter * generator.random()
