"""When a BCN switch sends PAUSE to its upstream ports (S004 IV.A and B; algorithms §2 and §6).

What counts is the port's whole output queue, all priorities: PAUSE stops the links whole.  Marks, times and
refreshing are the PAUSE mechanism's.
"""

from __future__ import annotations

from ecmproto.kernel import compiled
from ecmproto.mechanisms.aimd.sampling import OFF_OCTETS
from ecmproto.mechanisms.bcn.parameters import CongestionPointParameters
from ecmproto.mechanisms.pause.generation import (
    Meter,
    Settings,
    State,
    demand,
    judge,
    on_timer,
    settings_record,
)
from ecmproto.mechanisms.pause.parameters import GenerationParameters
from ecmproto.mechanisms.pause.reaction import ALL_PRIORITIES
from ecmproto.mechanisms.protocol import EVERY_STATION, PAUSE_KIND, Outbox, has_room, post
from ecmproto.record import new_record
from ecmproto.structs import Struct

_WHOLE_LINK = 0
"""The class that PAUSE stops."""


class Threshold(Struct):
    """The output queue against Qst, and what the upstream ports, all alike, have been told."""

    meter: Meter
    told: State
    settings: Settings


def new_threshold(parameters: CongestionPointParameters, link_rate_bps: int) -> Threshold:
    """Return the threshold with nobody paused; the upstream links are of ``link_rate_bps``."""
    settings = settings_record(GenerationParameters(pause_on="output"), rate_bps=link_rate_bps)
    settings.high_octets = parameters.qst_octets or OFF_OCTETS
    settings.low_octets = parameters.qst_low_octets
    return Threshold(new_record(Meter), new_record(State), settings)


@compiled
def _tell(now_ns: int, port_octets: int, quanta: int, outbox: Outbox) -> None:
    message = post(outbox, PAUSE_KIND, now_ns, EVERY_STATION, -1, 0)
    message.qlen_octets = port_octets
    message.enable_vector = ALL_PRIORITIES
    message.quanta = quanta


@compiled
def watch(threshold: Threshold, now_ns: int, port_octets: int, outbox: Outbox) -> None:
    """Post the PAUSE that a change of the output queue to ``port_octets`` asks for, if it does."""
    change = judge(threshold.meter, threshold.settings, port_octets)
    if change != 0:
        signal = demand(threshold.told, threshold.settings, now_ns, _WHOLE_LINK, change)
        _tell(now_ns, port_octets, signal.quanta, outbox)


@compiled
def refresh(threshold: Threshold, now_ns: int, port_octets: int, outbox: Outbox) -> None:
    """Post the PAUSE anew if that is due and there is room."""
    if has_room(outbox, 1):
        signal = on_timer(threshold.told, threshold.settings, now_ns)
        if signal.enable_vector != 0:
            _tell(now_ns, port_octets, signal.quanta, outbox)
