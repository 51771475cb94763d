"""Rate limiter that all reaction points share (algorithms, heading).

The limiter is similar to a token bucket, but counts a debt in bits. A frame leaves when the debt is 0, and
adds its length to the debt. The debt decreases at the current rate; idle time earns no credit. The limiter
record of each mechanism is a subclass of `RateLimiter`, so these functions accept such a record.
"""

from __future__ import annotations

import math

from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.units import NS_PER_S

NEVER_NS = 2**62
"""Time later than all other times, used for a departure at rate 0 and a stopped timer."""

_OCTET_BITS = 8


class RateLimiter:
    """Record of a rate limiter's state (``kernels.record``)."""

    rate_bps: float
    """Current rate in bit/s; at rate 0, no frame leaves."""
    debt_bits: float
    """Remaining debt in bits at ``drained_ns``."""
    drained_ns: int
    """Latest time for which the debt was updated."""


@inlined
def drain(limiter: RateLimiter, now_ns: int) -> None:
    """Update the debt to ``now_ns`` at the current rate; an earlier ``now_ns`` changes nothing."""
    if now_ns > limiter.drained_ns:
        paid_bits = limiter.rate_bps * float(now_ns - limiter.drained_ns) / NS_PER_S
        limiter.debt_bits = max(0.0, limiter.debt_bits - paid_bits)
        limiter.drained_ns = now_ns


@inlined
def set_rate(limiter: RateLimiter, now_ns: int, rate_bps: float) -> None:
    """Change the rate at ``now_ns``, after the debt is updated at the previous rate."""
    drain(limiter, now_ns)
    limiter.rate_bps = rate_bps


@compiled
def leaves_ns(limiter: RateLimiter, now_ns: int) -> int:
    """Return the departure time, at the current rate, of a frame that waits at ``now_ns``, or NEVER_NS."""
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
    """Send a frame of ``octets`` at ``now_ns`` and add the frame length to the debt."""
    drain(limiter, now_ns)
    limiter.debt_bits += float(_OCTET_BITS * octets)
