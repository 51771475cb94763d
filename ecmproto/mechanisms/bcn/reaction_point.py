"""The BCN reaction point: algorithms §2, on the table of limiters that it shares with ECM.

For each BCN message about one of its flows the caller does ``receive(...)``; how frames and timers go stands
in `ecmproto.mechanisms.aimd.limiters`.
"""

from __future__ import annotations

from ecmproto.formats.bcn import STOP as STOP_TYPE
from ecmproto.kernel import compiled
from ecmproto.mechanisms.aimd.departure import depart, departure_ns
from ecmproto.mechanisms.aimd.limiters import (
    Limiter,
    Limiters,
    TableSettings,
    join,
    new_limiters,
    route,
    set_table,
)
from ecmproto.mechanisms.aimd.reaction import DECREASE, INCREASE, NOTHING, STOP, Demand, react
from ecmproto.mechanisms.aimd.timers import next_timer_ns, on_timer
from ecmproto.mechanisms.bcn.messages import Message
from ecmproto.mechanisms.bcn.parameters import ReactionPointParameters
from ecmproto.record import new_record
from ecmproto.structs import Random

__all__ = [
    "Limiter", "Limiters", "Settings", "depart", "departure_ns", "join", "new_reaction_point",
    "next_timer_ns", "on_timer", "receive", "route", "settings_record",
]  # fmt: skip

REFERENCE_CAPACITY_BPS = 10_000_000_000
"""The capacity that Ru is given for."""

_RESTART_SHARE = 0.01
"""A stopped source starts again at C/100 (S004 IV.B)."""

_KILO = 1000.0


class Settings(TableSettings):
    """The parameters as the kernels read them; a record."""

    step_bps: float
    """Gi·Ru for a feedback of one unit, for a congested link of REFERENCE_CAPACITY_BPS."""
    share: float
    """Gd for a feedback of one unit."""
    capacity_scaling: int


def settings_record(parameters: ReactionPointParameters, link_rate_bps: int) -> Settings:
    """Return the record of settings for a link of ``link_rate_bps``.

    Raises ParameterError if the floor is above the initial rate on such a link.
    """
    record = new_record(Settings)
    set_table(
        record,
        parameters,
        link_rate_bps=link_rate_bps,
        floor_bps=parameters.floor_bps,
        restart_bps=int(link_rate_bps * _RESTART_SHARE),
        self_increase_bps=parameters.self_increase_bps,
    )
    record.step_bps = parameters.increase_gain * parameters.rate_unit_bps
    record.share = parameters.decrease_gain
    record.capacity_scaling = int(parameters.capacity_scaling)
    return record


def new_reaction_point(parameters: ReactionPointParameters, settings: Settings, now_ns: int) -> Limiters:
    """Return a reaction point without active limiters, started at ``now_ns``."""
    return new_limiters(Limiter, parameters.limiters, settings, now_ns)


@compiled
def receive(
    limiters: Limiters,
    settings: Settings,
    generator: Random,
    message: Message,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    """React to a BCN message about a frame of ``flow`` and ``priority``, received at ``now_ns``.

    Returns the limiter that heeded it, NO_LIMITER if none did; what was ignored is counted in the point.
    """
    return react(limiters, settings, generator, demanded(settings, message), flow, priority, now_ns)


@compiled
def demanded(settings: Settings, message: Message) -> Demand:
    """Return what ``message`` asks for: the sign of e decides, whatever queue length made it be sent.

    The rate after a STOP does not back off, since each STOP sets it.
    """
    capacity_bps = float(message.capacity) * _KILO if message.capacity > 0 else settings.link_bps
    scale = capacity_bps / REFERENCE_CAPACITY_BPS if settings.capacity_scaling != 0 else 1.0
    size = float(abs(message.e))
    kind = INCREASE if message.e > 0 else DECREASE if message.e < 0 else NOTHING
    if message.type == STOP_TYPE:
        kind = STOP
    return Demand(
        kind,
        message.cpid,
        settings.share * size,
        settings.step_bps * scale * size,
        False,
        capacity_bps * _RESTART_SHARE,
    )
