"""The receivers of PAUSE and PFC, with a timer per priority (algorithms §6).

A link has a record of type :class:`PauseTimers`. A received frame overwrites the timers of the enabled
priorities. The timers start at the end of the frame's reception, and a time of 0 ends the pause. A pause
prevents only the start of frames, and never stops a frame on the wire. Rate limiters and all other timers
continue during a pause. The caller checks again at the end of the pause.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.units import quanta_to_ns

PRIORITIES = 8
ALL_PRIORITIES = 0xFF

KIND_PAUSE, KIND_PFC, KIND_REFUSED = 0, 1, 2
"""Type of a received frame: PAUSE, PFC, or invalid."""

# The function for kernels.
_quanta_to_ns = compiled(quanta_to_ns)


class PauseTimers:
    """Record of the pause timers at the sending end of a link, by priority; all fields are initially 0."""

    until_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """Time before which no frame of the priority starts."""
    settled_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """Time until which ``paused_ns`` is up to date."""
    paused_ns: Annotated[NDArray[np.int64], PRIORITIES]
    pause_frames: int
    pfc_frames: int
    ignored_frames: int
    """Number of frames of a type that the station does not obey, or without an enabled priority."""
    ignored_times: int
    """Number of times in obeyed frames for priorities that do not participate."""
    refused_frames: int
    """Number of frames that are malformed, tagged, for a foreign address, or have an unknown opcode."""


class PauseReactionSettings:
    """Record of the reaction parameters that the kernels read."""

    rate_bps: int
    kind: int
    """Type of frame that the station obeys; KIND_REFUSED for no type."""
    priority_mask: int
    """Bit mask of the priorities that obey."""


class PauseFrame(NamedTuple):
    """A received frame with eight times in quanta, valid for the priorities in ``enable_vector``."""

    kind: int
    enable_vector: int
    times_quanta: tuple[int, int, int, int, int, int, int, int]


def pause_reaction_settings(
    parameters: PauseReactionParameters | PFCReactionParameters, *, rate_bps: int
) -> PauseReactionSettings:
    """Return the settings record for ``parameters`` on a link of ``rate_bps``."""
    return record_from(
        PauseReactionSettings, parameters, rate_bps=rate_bps,
        kind=KIND_PFC if isinstance(parameters, PFCReactionParameters) else KIND_PAUSE,
        priority_mask=sum(1 << priority for priority in parameters.priorities),
    )  # fmt: skip


@compiled
def on_frame(state: PauseTimers, settings: PauseReactionSettings, received_ns: int, frame: PauseFrame) -> int:
    """Process a frame, received completely at ``received_ns``; return a mask of the overwritten timers."""
    if frame.kind == KIND_REFUSED:
        state.refused_frames += 1
        return 0
    if frame.kind != settings.kind or frame.enable_vector == 0:
        state.ignored_frames += 1
        return 0
    if frame.kind == KIND_PFC:
        state.pfc_frames += 1
    else:
        state.pause_frames += 1
    overwritten = 0
    for priority in range(PRIORITIES):
        if not (frame.enable_vector >> priority) & 1:
            continue
        if not (settings.priority_mask >> priority) & 1:
            state.ignored_times += 1
            continue
        _settle(state, priority, received_ns)
        state.until_ns[priority] = received_ns + _quanta_to_ns(
            frame.times_quanta[priority], settings.rate_bps
        )
        overwritten |= 1 << priority
    return overwritten


@compiled
def paused_ns(state: PauseTimers, priority: int, now_ns: int) -> int:
    """Return the total paused time of ``priority`` up to ``now_ns``."""
    _settle(state, priority, now_ns)
    return int(state.paused_ns[priority])


@inlined
def _settle(state: PauseTimers, priority: int, now_ns: int) -> None:
    # A timer may have expired before now.
    counted_ns = min(now_ns, state.until_ns[priority]) - state.settled_ns[priority]
    if counted_ns > 0:
        state.paused_ns[priority] += counted_ns
    state.settled_ns[priority] = max(now_ns, state.settled_ns[priority])
