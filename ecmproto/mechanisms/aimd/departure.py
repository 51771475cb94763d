"""How frames leave the queues behind rate limiters, with the timers due by then fired first."""

from __future__ import annotations

from ecmproto.kernel import compiled
from ecmproto.mechanisms.aimd.limiters import Limiters, TableSettings, release_idle
from ecmproto.mechanisms.aimd.timers import on_timer
from ecmproto.mechanisms.limiter import leave, leaves_ns


@compiled
def departure_ns(limiters: Limiters, settings: TableSettings, index: int, now_ns: int) -> int:
    """Return when the head of limiter ``index``'s queue may leave: now, later, or NEVER_NS.

    That holds until the next timer or message; ask again then.
    """
    on_timer(limiters, settings, now_ns)
    return leaves_ns(limiters.slots[index], now_ns)


@compiled
def depart(limiters: Limiters, settings: TableSettings, index: int, now_ns: int, octets: int) -> None:
    """Let the head of limiter ``index``'s queue, a frame of ``octets``, leave at ``now_ns``.

    `departure_ns` said now.  The limiter may be released by it (rule 6).
    """
    on_timer(limiters, settings, now_ns)
    limiter = limiters.slots[index]
    leave(limiter, now_ns, octets)
    limiter.waiting -= 1
    release_idle(limiters, settings, index)
