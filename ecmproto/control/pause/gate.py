"""The sending ends of many stations, which PAUSE and PFC stop beneath any mechanism: for whoever drives them.

A station that obeys both kinds keeps their timers apart: a PFC frame does not resume what PAUSE has stopped,
nor PAUSE what PFC has.  Before a frame starts the driver asks ``opens_ns``; what is on the wire is never
stopped.  A frame received changes what ``opens_ns`` says, so the driver asks again after each ``obey``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.machine import total
from ecmproto.control.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.control.pause.reaction import (
    ALL_PRIORITIES,
    KIND_PAUSE,
    KIND_PFC,
    KIND_REFUSED,
    PRIORITIES,
    PauseFrame,
    Settings,
    State,
    on_frame,
    settings_record,
)
from ecmproto.control.protocol import PAUSE_KIND, PFC_KIND, Message
from ecmproto.kernel import compiled, inlined
from ecmproto.record import new_records


class Stopped:
    """How long one station's priorities were stopped, by either kind; a record (``ecmproto.record``)."""

    settled_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """Until when ``paused_ns`` is added up."""
    paused_ns: Annotated[NDArray[np.int64], PRIORITIES]


class Gates(NamedTuple):
    """The sending ends of stations 0 to n − 1."""

    stopped: Sequence[Stopped]
    pause_states: Sequence[State]
    pfc_states: Sequence[State]
    pause_settings: Settings
    pfc_settings: Settings


def new_gates(stations: int, *, rate_bps: int, pause: bool, pfc_priorities: frozenset[int]) -> Gates:
    """Return open gates of ``stations`` stations on links of ``rate_bps``.

    ``pause`` says whether they obey PAUSE, ``pfc_priorities`` for which priorities they obey PFC, none of it
    if that is empty.  What they do not obey is counted as ignored.
    """
    pause_settings = settings_record(PauseReactionParameters(), rate_bps=rate_bps)
    if not pause:
        pause_settings.kind = KIND_REFUSED
    pfc_settings = settings_record(PFCReactionParameters(priorities=pfc_priorities), rate_bps=rate_bps)
    if not pfc_priorities:
        pfc_settings.kind = KIND_REFUSED
    return Gates(
        new_records(Stopped, stations),
        new_records(State, stations),
        new_records(State, stations),
        pause_settings,
        pfc_settings,
    )


@compiled
def obey(gates: Gates, station: int, message: Message, now_ns: int) -> None:
    """Let ``station`` take a PAUSE_KIND or PFC_KIND message, whose reception ends at ``now_ns``.

    ``quanta`` holds for the priorities in ``enable_vector``; of a PAUSE it holds for all.  A message of
    another kind is counted as refused.
    """
    for priority in range(PRIORITIES):
        _settle(gates, station, priority, now_ns)
    quanta = message.quanta
    times = (quanta, quanta, quanta, quanta, quanta, quanta, quanta, quanta)
    if message.kind == PFC_KIND:
        frame = PauseFrame(KIND_PFC, message.enable_vector & ALL_PRIORITIES, times)
        on_frame(gates.pfc_states[station], gates.pfc_settings, now_ns, frame)
        return
    kind = KIND_PAUSE if message.kind == PAUSE_KIND else KIND_REFUSED
    frame = PauseFrame(kind, ALL_PRIORITIES, times)
    on_frame(gates.pause_states[station], gates.pause_settings, now_ns, frame)


@inlined
def opens_ns(gates: Gates, station: int, priority: int, now_ns: int) -> int:
    """Return when a frame of ``priority`` that is ready at ``now_ns`` may start, if nothing changes."""
    return int(max(now_ns, _until_ns(gates, station, priority)))


@inlined
def paused_ns(gates: Gates, station: int, priority: int, now_ns: int) -> int:
    """Return how long ``station`` could start no frame of ``priority``, in all, up to ``now_ns``.

    ``now_ns`` is not before the last message.
    """
    stopped = gates.stopped[station]
    running_ns = min(now_ns, _until_ns(gates, station, priority)) - stopped.settled_ns[priority]
    return int(stopped.paused_ns[priority] + max(0, running_ns))


def counters(gates: Gates) -> dict[str, int]:
    """Return what all stations have counted, by name (`reaction.State`)."""
    names = ("pause_frames", "pfc_frames", "ignored_frames", "ignored_times", "refused_frames")
    pause, pfc = total(gates.pause_states, *names), total(gates.pfc_states, *names)
    return {name: pause[name] + pfc[name] for name in names}


@inlined
def _until_ns(gates: Gates, station: int, priority: int) -> int:
    pause_ns = gates.pause_states[station].until_ns[priority]
    return int(max(pause_ns, gates.pfc_states[station].until_ns[priority]))


@inlined
def _settle(gates: Gates, station: int, priority: int, now_ns: int) -> None:
    # Called whenever an end is about to move: until now it was where it is.
    stopped = gates.stopped[station]
    stopped.paused_ns[priority] = paused_ns(gates, station, priority, now_ns)
    stopped.settled_ns[priority] = max(now_ns, stopped.settled_ns[priority])
