"""The sending ends of all stations, which PAUSE and PFC stop independently of a congestion mechanism.

A station that obeys both PAUSE and PFC has separate timers for the two: a PFC frame does not end a PAUSE, and
a PAUSE frame does not end a PFC stop. The caller reads ``opens_ns`` before a frame starts. A frame on the
wire is never stopped. Each ``obey`` may change ``opens_ns``.

PAUSE stops all eight priorities. The stopped time of a priority counts only from the station's first frame of
this priority (`starts_sending`). `paused_ns` returns the stopped time of a station and priority. `Standstill`
records the time in which at least one station was stopped, for each priority and for all priorities together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import total
from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND, Message, flow_control_payload
from ecmproto.control.mechanisms.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.control.mechanisms.pause.reaction_point import (
    ALL_PRIORITIES,
    KIND_PAUSE,
    KIND_PFC,
    KIND_REFUSED,
    PRIORITIES,
    PauseFrame,
    PauseReactionSettings,
    PauseTimers,
    on_frame,
    pause_reaction_settings,
)
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, new_records
from ecmproto.kernels.structs import Struct

ANY_PRIORITY = PRIORITIES
"""Row of a `Standstill` for all priorities together; rows 0 to 7 are single priorities."""

STANDSTILL_SPANS = 512

_ROWS = PRIORITIES + 1
_FIRST_SHIFT = 10


class Stopped:
    """Record of the time for which PAUSE or PFC stopped a station, by priority (``kernels.record``)."""

    sending_mask: int
    """Bit mask of the priorities of which the station has had frames."""

    settled_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """Time until which ``paused_ns`` is up to date."""
    paused_ns: Annotated[NDArray[np.int64], PRIORITIES]


class Standstill:
    """Record of the time in which at least one station was stopped, by priority and for all priorities.

    The time is divided into spans of equal length. When the time exceeds all spans, adjacent spans are merged
    and the span length doubles.
    """

    settled_ns: int
    """Time until which ``stopped_ns`` and ``over_time_ns`` are up to date."""
    stale: int
    """Whether a pause has started or ended since ``until_ns`` was computed."""
    span_shift: int
    """Binary logarithm of the span length in ns."""
    until_ns: Annotated[NDArray[np.int64], _ROWS]
    """End of the last pause in force."""
    stopped_ns: Annotated[NDArray[np.int64], _ROWS]
    over_time_ns: Annotated[NDArray[np.int64], (_ROWS, STANDSTILL_SPANS)]


class Gates(Struct):
    """The sending ends of stations 0 to n − 1."""

    stopped: Sequence[Stopped]
    standstill: Standstill
    pause_states: Sequence[PauseTimers]
    pfc_states: Sequence[PauseTimers]
    pause_settings: PauseReactionSettings
    pfc_settings: PauseReactionSettings


def new_gates(stations: int, *, rate_bps: int, pause: bool, pfc_priorities: frozenset[int]) -> Gates:
    """Return the open gates of ``stations`` stations on links of ``rate_bps``.

    ``pause`` is whether the stations obey PAUSE. ``pfc_priorities`` are the priorities for which the stations
    obey PFC. Other frames are counted as ignored.
    """
    pause_settings = pause_reaction_settings(PauseReactionParameters(), rate_bps=rate_bps)
    if not pause:
        pause_settings.kind = KIND_REFUSED
    pfc_settings = pause_reaction_settings(
        PFCReactionParameters(priorities=pfc_priorities), rate_bps=rate_bps
    )
    if not pfc_priorities:
        pfc_settings.kind = KIND_REFUSED
    standstill = new_record(Standstill)
    standstill.span_shift = _FIRST_SHIFT
    return Gates(
        new_records(Stopped, stations),
        standstill,
        new_records(PauseTimers, stations),
        new_records(PauseTimers, stations),
        pause_settings,
        pfc_settings,
    )


@compiled
def obey(gates: Gates, station: int, message: Message, now_ns: int) -> None:
    """Stop or resume ``station`` by a PAUSE_KIND or PFC_KIND message, received completely at ``now_ns``.

    A PFC_KIND message applies to the priorities in ``enable_vector``, and a PAUSE_KIND message applies to all
    priorities. A message of another kind is counted as refused.
    """
    settle_standstill(gates, now_ns)
    gates.standstill.stale = 1
    for priority in range(PRIORITIES):
        _settle(gates, station, priority, now_ns)
    fields = flow_control_payload(message)
    quanta = fields.quanta
    times = (quanta, quanta, quanta, quanta, quanta, quanta, quanta, quanta)
    if message.kind == PFC_KIND:
        frame = PauseFrame(KIND_PFC, fields.enable_vector & ALL_PRIORITIES, times)
        on_frame(gates.pfc_states[station], gates.pfc_settings, now_ns, frame)
        return
    kind = KIND_PAUSE if message.kind == PAUSE_KIND else KIND_REFUSED
    frame = PauseFrame(kind, ALL_PRIORITIES, times)
    on_frame(gates.pause_states[station], gates.pause_settings, now_ns, frame)


@inlined
def opens_ns(gates: Gates, station: int, priority: int, now_ns: int) -> int:
    """Return the earliest start of a frame of ``priority`` that is ready at ``now_ns``."""
    return int(max(now_ns, _until_ns(gates, station, priority)))


@inlined
def paused_ns(gates: Gates, station: int, priority: int, now_ns: int) -> int:
    """Return the time, up to ``now_ns``, for which ``station`` could not start a frame of ``priority``.

    The time counts from the first frame of the priority, which the caller reports with `starts_sending`.
    ``now_ns`` is not before the last message.
    """
    stopped = gates.stopped[station]
    running_ns = min(now_ns, _until_ns(gates, station, priority)) - stopped.settled_ns[priority]
    return int(stopped.paused_ns[priority] + max(0, running_ns))


@inlined
def is_sending(gates: Gates, station: int, priority: int) -> bool:
    """Return whether ``station`` has had a frame of ``priority``."""
    return bool((gates.stopped[station].sending_mask >> priority) & 1)


@compiled
def starts_sending(gates: Gates, station: int, priority: int, now_ns: int) -> None:
    """Start counting the stopped time of ``priority`` at the first frame from ``station`` at ``now_ns``."""
    settle_standstill(gates, now_ns)
    gates.standstill.stale = 1
    stopped = gates.stopped[station]
    stopped.sending_mask |= 1 << priority
    stopped.settled_ns[priority] = now_ns
    stopped.paused_ns[priority] = 0


@compiled
def settle_standstill(gates: Gates, now_ns: int) -> None:
    """Update ``gates.standstill`` to ``now_ns``, which is not before the last message."""
    still = gates.standstill
    if now_ns <= still.settled_ns:
        return
    if still.stale:
        _find_ends(gates)
    for row in range(_ROWS):
        end_ns = min(now_ns, still.until_ns[row])
        if end_ns > still.settled_ns:
            still.stopped_ns[row] += end_ns - still.settled_ns
            _spread(still, row, still.settled_ns, end_ns)
    still.settled_ns = now_ns


@inlined
def _find_ends(gates: Gates) -> None:
    still = gates.standstill
    still.stale = 0
    for row in range(_ROWS):
        still.until_ns[row] = 0
    for station in range(len(gates.stopped)):
        for priority in range(PRIORITIES):
            if is_sending(gates, station, priority):
                until_ns = _until_ns(gates, station, priority)
                still.until_ns[priority] = max(still.until_ns[priority], until_ns)
                still.until_ns[ANY_PRIORITY] = max(still.until_ns[ANY_PRIORITY], until_ns)


@inlined
def _spread(still: Standstill, row: int, start_ns: int, end_ns: int) -> None:
    """Add the time from ``start_ns`` to ``end_ns`` to the spans of a row."""
    while end_ns > STANDSTILL_SPANS << still.span_shift:
        for each in range(_ROWS):
            for span in range(STANDSTILL_SPANS // 2):
                joined_ns = still.over_time_ns[each, 2 * span] + still.over_time_ns[each, 2 * span + 1]
                still.over_time_ns[each, span] = joined_ns
            for span in range(STANDSTILL_SPANS // 2, STANDSTILL_SPANS):
                still.over_time_ns[each, span] = 0
        still.span_shift += 1
    at_ns = start_ns
    while at_ns < end_ns:
        span = at_ns >> still.span_shift
        until_ns = min(end_ns, (span + 1) << still.span_shift)
        still.over_time_ns[row, span] += until_ns - at_ns
        at_ns = until_ns


def counters(gates: Gates) -> dict[str, int]:
    """Return the counters by name (`PauseTimers`), each summed over all stations."""
    names = ("pause_frames", "pfc_frames", "ignored_frames", "ignored_times", "refused_frames")
    pause, pfc = total(gates.pause_states, *names), total(gates.pfc_states, *names)
    return {name: pause[name] + pfc[name] for name in names}


@inlined
def _until_ns(gates: Gates, station: int, priority: int) -> int:
    pause_ns = gates.pause_states[station].until_ns[priority]
    return int(max(pause_ns, gates.pfc_states[station].until_ns[priority]))


@inlined
def _settle(gates: Gates, station: int, priority: int, now_ns: int) -> None:
    # Count the time until now before the end of the pause changes.
    stopped = gates.stopped[station]
    stopped.paused_ns[priority] = paused_ns(gates, station, priority, now_ns)
    stopped.settled_ns[priority] = max(now_ns, stopped.settled_ns[priority])
