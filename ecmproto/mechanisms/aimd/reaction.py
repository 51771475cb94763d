"""What a message does to a reaction point's limiters: additive increase, multiplicative decrease, stop.

Algorithms §1, RP 2 to 4.  A mechanism turns each of its messages into a :class:`Demand` and gives it to
`react`; `decrease` and `increase` also stand alone, for feedback that is no message of a congestion point.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd.limiters import (
    NO_LIMITER,
    TIMED_OUT,
    Limiter,
    Limiters,
    TableSettings,
    allocate,
    associate,
    limiter_of,
)
from ecmproto.mechanisms.aimd.parameters import PRIORITIES
from ecmproto.mechanisms.aimd.timers import on_timer
from ecmproto.mechanisms.limiter import set_rate
from ecmproto.structs import Random

NOTHING, INCREASE, DECREASE, STOP = range(4)


class Demand(NamedTuple):
    """What a message asks for."""

    kind: int
    """NOTHING, INCREASE, DECREASE or STOP."""
    cpid: int
    share: float
    """DECREASE: the share of the rate to take; α bounds it."""
    step_bps: float
    """INCREASE: what to add; β·C bounds it."""
    doubled: bool
    """INCREASE and DECREASE: go twice as far as β and α allow instead (S000 3.3.2, the Q bit)."""
    restart_bps: float
    """STOP: the rate afterwards; 0 for the limiter's own, which backs off."""


@compiled
def react(
    limiters: Limiters,
    settings: TableSettings,
    generator: Random,
    demand: Demand,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    """Do what a message about ``flow`` (``priority`` 0 to 7) demands at ``now_ns``.

    Returns the limiter that heeded it, NO_LIMITER if none did; what was ignored is counted.
    """
    on_timer(limiters, settings, now_ns)
    point, slots = limiters
    point.messages += 1
    if flow < 0:
        point.unknown_flow += 1
        return NO_LIMITER
    if priority < 0 or priority >= PRIORITIES or settings.enabled[priority] == 0:
        point.disabled += 1
        return NO_LIMITER
    index = limiter_of(limiters, flow, priority)
    if index == NO_LIMITER:
        return _begin(limiters, settings, generator, demand, flow, priority, now_ns)
    limiter = slots[index]
    if limiter.status == TIMED_OUT:
        point.in_time_out += 1
        return NO_LIMITER
    if demand.kind == INCREASE:
        if limiter.cpid != demand.cpid:
            point.unassociated += 1
            return NO_LIMITER
        point.increased += 1
        increase(limiters, settings, limiter, demand.step_bps, demand.doubled, now_ns)
        limiter.tmax_ns = settings.tmax_ns
        limiter.restart_bps = settings.restart_bps
    elif demand.kind == DECREASE:
        point.decreased += 1
        associate(limiter, demand.cpid)
        decrease(limiters, settings, limiter, demand.share, demand.doubled, now_ns)
    elif demand.kind == STOP:
        point.stopped += 1
        associate(limiter, demand.cpid)
        _stop(limiters, generator, limiter, demand.restart_bps, now_ns)
    else:
        point.neutral += 1
    return index


@compiled
def _begin(
    limiters: Limiters,
    settings: TableSettings,
    generator: Random,
    demand: Demand,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    # Rule 2: only negative feedback or a stop limits a flow; the initial rate is all that the former does.
    if demand.kind != DECREASE and demand.kind != STOP:
        limiters.point.unlimited += 1
        return NO_LIMITER
    limiters.point.allocated += 1
    index = allocate(limiters, settings, flow, priority, demand.cpid, now_ns)
    if demand.kind == DECREASE and settings.initial_bps >= settings.link_bps:
        # At the link's rate it would limit nothing, and the next departure would release it (rule 6).
        decrease(limiters, settings, limiters.slots[index], demand.share, demand.doubled, now_ns)
    if demand.kind == STOP:
        _stop(limiters, generator, limiters.slots[index], demand.restart_bps, now_ns)
    return index


@inlined
def decrease(
    limiters: Limiters, settings: TableSettings, limiter: Limiter, share: float, doubled: bool, now_ns: int
) -> None:
    """Take min(share, α) of the rate, or min(2α, 1); it never falls below the fixed floor (rule 3)."""
    if doubled:
        share = min(2.0 * settings.largest_decrease, 1.0)
    elif share > settings.largest_decrease:
        limiters.point.saturated += 1
        share = settings.largest_decrease
    rate_bps = limiter.rate_bps * (1.0 - share)
    if rate_bps < settings.floor_bps:
        limiters.point.floored += 1
        rate_bps = settings.floor_bps
    set_rate(limiter, now_ns, rate_bps)


@inlined
def increase(
    limiters: Limiters, settings: TableSettings, limiter: Limiter, step_bps: float, doubled: bool, now_ns: int
) -> None:
    """Add min(step, β·C) to the rate, or 2·β·C; it never rises above the link's (rule 3)."""
    if doubled:
        step_bps = 2.0 * settings.largest_increase_bps
    elif step_bps > settings.largest_increase_bps:
        limiters.point.saturated += 1
        step_bps = settings.largest_increase_bps
    rate_bps = limiter.rate_bps + step_bps
    if rate_bps > settings.link_bps:
        limiters.point.capped += 1
        rate_bps = settings.link_bps
    set_rate(limiter, now_ns, rate_bps)


@compiled
def _stop(limiters: Limiters, generator: Random, limiter: Limiter, restart_bps: float, now_ns: int) -> None:
    # Rule 4: silence for a time uniform in [0, Tmax).
    set_rate(limiter, now_ns, 0.0)
    limiter.status = TIMED_OUT
    limiter.expires_ns = now_ns + int(generator.random() * float(limiter.tmax_ns))
    limiters.point.expires_ns = min(limiters.point.expires_ns, limiter.expires_ns)
    limiters.point.time_outs += 1
    if restart_bps > 0.0:
        limiter.restart_bps = restart_bps
