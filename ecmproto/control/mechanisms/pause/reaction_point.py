"""Who receives PAUSE and PFC: a timer per priority (algorithms §6), on a plain state record.

One record of :class:`PauseTimers` per link.  A frame received overwrites the timers of its enabled
priorities, from the end of its reception on; 0 resumes.  Before it starts a frame the sender asks
``starts_ns``; a frame that is on the wire is never stopped, and nothing but the start of frames is: rate
limiters drain, and every other timer runs on.  A resume needs no action but to look again, at
``next_timer_ns``.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.units import quanta_to_ns

PRIORITIES = 8
ALL_PRIORITIES = 0xFF

KIND_PAUSE, KIND_PFC, KIND_REFUSED = 0, 1, 2
"""What a received frame is: PAUSE, PFC, or neither as it should be."""

# The same text, for kernels.
_quanta_to_ns = compiled(quanta_to_ns)


class PauseTimers:
    """The pause timers of one link's sending end, per priority; a record.  Zeroed, it is at its start."""

    until_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """The priority starts no frame before this."""
    settled_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """Until when ``paused_ns`` is added up."""
    paused_ns: Annotated[NDArray[np.int64], PRIORITIES]
    pause_frames: int
    pfc_frames: int
    ignored_frames: int
    """Of the kind that this end does not obey, or with no priority enabled."""
    ignored_times: int
    """Times in obeyed frames for priorities that do not take part."""
    refused_frames: int
    """Malformed, tagged, of an unknown opcode or to a foreign address."""


class PauseReactionSettings:
    """The parameters as the kernels read them; a record."""

    rate_bps: int
    kind: int
    """The kind of frame that is obeyed; KIND_REFUSED: none is."""
    priority_mask: int
    """Bit n: priority n obeys."""


class PauseFrame(NamedTuple):
    """A received frame: its kind, and eight times in quanta of which those in ``enable_vector`` count."""

    kind: int
    enable_vector: int
    times_quanta: tuple[int, int, int, int, int, int, int, int]


def pause_reaction_settings(
    parameters: PauseReactionParameters | PFCReactionParameters, *, rate_bps: int
) -> PauseReactionSettings:
    """Return the record of settings for ``parameters`` on a link of ``rate_bps``."""
    return record_from(
        PauseReactionSettings, parameters, rate_bps=rate_bps,
        kind=KIND_PFC if isinstance(parameters, PFCReactionParameters) else KIND_PAUSE,
        priority_mask=sum(1 << priority for priority in parameters.priorities),
    )  # fmt: skip


@compiled
def on_frame(state: PauseTimers, settings: PauseReactionSettings, received_ns: int, frame: PauseFrame) -> int:
    """Take a frame whose reception ended at ``received_ns``; return the mask of the timers it overwrote."""
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


@inlined
def starts_ns(state: PauseTimers, priority: int, now_ns: int) -> int:
    """Return when a frame of ``priority`` that is ready at ``now_ns`` may start: now, or at the resume."""
    return int(max(now_ns, state.until_ns[priority]))


@compiled
def next_timer_ns(state: PauseTimers, now_ns: int) -> int:
    """Return when the next priority resumes, NEVER_NS if none is paused at ``now_ns``."""
    first_ns = NEVER_NS
    for priority in range(PRIORITIES):
        if state.until_ns[priority] > now_ns:
            first_ns = min(first_ns, state.until_ns[priority])
    return first_ns


@compiled
def paused_ns(state: PauseTimers, priority: int, now_ns: int) -> int:
    """Return how long ``priority`` was paused in all, up to ``now_ns``."""
    _settle(state, priority, now_ns)
    return int(state.paused_ns[priority])


@inlined
def _settle(state: PauseTimers, priority: int, now_ns: int) -> None:
    # A timer that ran out before now has paused for less than all the time since.
    counted_ns = min(now_ns, state.until_ns[priority]) - state.settled_ns[priority]
    if counted_ns > 0:
        state.paused_ns[priority] += counted_ns
    state.settled_ns[priority] = max(now_ns, state.settled_ns[priority])
