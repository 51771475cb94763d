"""The common rate limiter of all reaction points (algorithms, heading).

It is a token bucket without tokens, only with a debt in bits: a frame leaves when the debt is 0 and adds its
length; the debt drains at the current rate, also when that changes; idleness earns no credit. A mechanism's
own limiter record derives from `RateLimiter`, so that these functions apply to it.
"""

from __future__ import annotations

import math

from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.units import NS_PER_S

NEVER_NS = 2**62
"""A time after all others: the departure at rate 0, the expiry of a stopped timer."""

_OCTET_BITS = 8


class RateLimiter:
    """The state of a rate limiter; a record (``kernels.record``)."""

    rate_bps: float
    """The current rate; 0 stops every frame."""
    debt_bits: float
    """The rest of the debt at ``drained_ns``."""
    drained_ns: int
    """The latest time to which the debt was updated."""


@inlined
def drain(limiter: RateLimiter, now_ns: int) -> None:
    """Update the debt to ``now_ns`` at the rate until now; earlier times change nothing."""
    if now_ns > limiter.drained_ns:
        paid_bits = limiter.rate_bps * float(now_ns - limiter.drained_ns) / NS_PER_S
        limiter.debt_bits = max(0.0, limiter.debt_bits - paid_bits)
        limiter.drained_ns = now_ns


@inlined
def set_rate(limiter: RateLimiter, now_ns: int, rate_bps: float) -> None:
    """Change the rate at ``now_ns``; the debt drained at the old one until then."""
    drain(limiter, now_ns)
    limiter.rate_bps = rate_bps


@compiled
def leaves_ns(limiter: RateLimiter, now_ns: int) -> int:
    """Return the departure time of a frame waiting at ``now_ns``, at the current rate; or NEVER_NS."""
    drain(limiter, now_ns)
    if limiter.debt_bits <= 0.0:
        return now_ns if limiter.rate_bps > 0.0 else NEVER_NS
    if limiter.rate_bps <= 0.0:
        return NEVER_NS
    wait_ns = limiter.debt_bits * NS_PER_S / limiter.rate_bps
    if wait_ns >= float(NEVER_NS - now_ns):
        return NEVER_NS
    return now_ns + math.ceil(wait_ns)


@inlined
def leave(limiter: RateLimiter, now_ns: int, octets: int) -> None:
    """Send a frame of ``octets`` at ``now_ns``: add its length to the debt."""
    drain(limiter, now_ns)
    limiter.debt_bits += float(_OCTET_BITS * octets)
