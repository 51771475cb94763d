"""The receivers of PAUSE and PFC: a timer per priority (algorithms §6), on a plain state record.

A link has one record of :class:`PauseTimers`. A received frame overwrites the timers of its enabled
priorities, from the end of its reception on; 0 resumes. The sender starts a frame at the resume; a frame
on the wire is never stopped, and a stop affects only the start of frames: rate limiters drain, and every
other timer continues. A resume requires only a new check, at ``next_timer_ns``.
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
"""The type of a received frame: PAUSE, PFC, or invalid."""

# The function for kernels.
_quanta_to_ns = compiled(quanta_to_ns)


class PauseTimers:
    """The pause timers of one link's sending end, per priority; a record. Its initial state is all zero."""

    until_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """The time before which the priority starts no frame."""
    settled_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """The time up to which ``paused_ns`` is added up."""
    paused_ns: Annotated[NDArray[np.int64], PRIORITIES]
    pause_frames: int
    pfc_frames: int
    ignored_frames: int
    """Frames of a kind that this end does not obey, or without an enabled priority."""
    ignored_times: int
    """Times in obeyed frames for priorities that do not participate."""
    refused_frames: int
    """Frames that are malformed, tagged, of an unknown opcode or to a foreign address."""


class PauseReactionSettings:
    """The parameters as the kernels read them; a record."""

    rate_bps: int
    kind: int
    """The kind of frame to obey; KIND_REFUSED for none."""
    priority_mask: int
    """Bit n: priority n obeys."""


class PauseFrame(NamedTuple):
    """A received frame: its kind, and eight times in quanta, valid for priorities in ``enable_vector``."""

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
    """Process a frame received until ``received_ns``; return the mask of the timers that it overwrote."""
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
def next_timer_ns(state: PauseTimers, now_ns: int) -> int:
    """Return the time of the next resume, NEVER_NS if no priority is paused at ``now_ns``."""
    first_ns = NEVER_NS
    for priority in range(PRIORITIES):
        if state.until_ns[priority] > now_ns:
            first_ns = min(first_ns, state.until_ns[priority])
    return first_ns


@compiled
def paused_ns(state: PauseTimers, priority: int, now_ns: int) -> int:
    """Return the total pause of ``priority``, up to ``now_ns``."""
    _settle(state, priority, now_ns)
    return int(state.paused_ns[priority])


@inlined
def _settle(state: PauseTimers, priority: int, now_ns: int) -> None:
    # A timer that expired before now has paused for less than the whole time since.
    counted_ns = min(now_ns, state.until_ns[priority]) - state.settled_ns[priority]
    if counted_ns > 0:
        state.paused_ns[priority] += counted_ns
    state.settled_ns[priority] = max(now_ns, state.settled_ns[priority])
