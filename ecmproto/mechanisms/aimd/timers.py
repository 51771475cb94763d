"""The timers of a reaction point: ends of time-outs and self-increase (algorithms §1, RP 4 and 5).

Due timers fire in the order of their times, whenever the caller gets round to it; of two at the same time
the end of a time-out comes first.
"""

from __future__ import annotations

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd.limiters import (
    ACTIVE,
    LEAST_RESTART_BPS,
    LONGEST_TMAX_NS,
    Limiter,
    Limiters,
    TableSettings,
    release_idle,
)
from ecmproto.mechanisms.limiter import NEVER_NS, set_rate


@compiled
def next_timer_ns(limiters: Limiters) -> int:
    """Return when the next timer is due, NEVER_NS if none is."""
    point = limiters.point
    return min(point.expires_ns, point.tick_ns) if point.active > 0 else NEVER_NS


@compiled
def on_timer(limiters: Limiters, settings: TableSettings, now_ns: int) -> None:
    """Fire what is due by ``now_ns``, each at its own time."""
    point = limiters.point
    while next_timer_ns(limiters) <= now_ns:
        if point.expires_ns <= point.tick_ns:
            _expire(limiters, settings, point.expires_ns)
        else:
            changed = _tick(limiters, settings, point.tick_ns)
            point.tick_ns += settings.tick_ns
            if not changed:
                # Further ticks change nothing either until a time-out ends.
                skip_ticks(limiters, settings, min(now_ns + 1, point.expires_ns))
    if point.active == 0:
        skip_ticks(limiters, settings, now_ns + 1)


@inlined
def skip_ticks(limiters: Limiters, settings: TableSettings, until_ns: int) -> None:
    """Put the next self-increase at or after ``until_ns``, in step."""
    behind_ns = until_ns - limiters.point.tick_ns
    if behind_ns > 0:
        limiters.point.tick_ns += -(-behind_ns // settings.tick_ns) * settings.tick_ns


@compiled
def _tick(limiters: Limiters, settings: TableSettings, now_ns: int) -> bool:
    """Raise every active limiter by Rd; return whether anything changed."""
    changed = False
    for index in range(len(limiters.slots)):
        limiter = limiters.slots[index]
        if limiter.status == ACTIVE:
            rate_bps = min(settings.link_bps, limiter.rate_bps + settings.self_increase_bps)
            if rate_bps != limiter.rate_bps:
                set_rate(limiter, now_ns, rate_bps)
                changed = True
            if release_idle(limiters, settings, index):
                changed = True
    return changed


@compiled
def _expire(limiters: Limiters, settings: TableSettings, now_ns: int) -> None:
    limiters.point.expires_ns = NEVER_NS
    for index in range(len(limiters.slots)):
        limiter = limiters.slots[index]
        if limiter.expires_ns <= now_ns:
            _restart(limiters, settings, limiter, now_ns)
            release_idle(limiters, settings, index)
        limiters.point.expires_ns = min(limiters.point.expires_ns, limiter.expires_ns)


@inlined
def _restart(limiters: Limiters, settings: TableSettings, limiter: Limiter, now_ns: int) -> None:
    # Rule 4: the rate never starts below the floor, so S000's halved Rmin cannot keep a flow from recovering.
    restart_bps = max(limiter.restart_bps, settings.floor_bps)
    if limiter.draining == 1:
        restart_bps = settings.link_bps
    set_rate(limiter, now_ns, min(restart_bps, settings.link_bps))
    limiter.restart_bps = max(0.5 * limiter.restart_bps, LEAST_RESTART_BPS)
    limiter.tmax_ns = min(2 * limiter.tmax_ns, LONGEST_TMAX_NS)
    limiter.status = ACTIVE
    limiter.expires_ns = NEVER_NS
    limiters.point.restarts += 1
