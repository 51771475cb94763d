"""The BCN congestion point: algorithms §2, on a plain state record.

Used as ECM's (`ecmproto.mechanisms.ecm.congestion_point`): for each **arriving** frame that may be sampled::

    if is_sample(state, settings, generator, octets, qlen_octets, enqueued):
        feedback = sample(state, settings, generator, qlen_octets, tag_cpid)

and a BCN message is sent if ``feedback.kind`` is not SILENT.  Every decision is exact in integers.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.formats.bcn import NORMAL, STOP
from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd.measurement import (
    Thresholds,
    delta_octets,
    offset_octets,
    set_thresholds,
    truncated_quotient,
)
from ecmproto.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.mechanisms.aimd.sampling import Sampler, SamplerSettings, count, draw, set_sampling
from ecmproto.mechanisms.bcn.parameters import CongestionPointParameters
from ecmproto.mechanisms.cpid import signed_cpid
from ecmproto.record import new_record
from ecmproto.structs import Random
from ecmproto.units import QUEUE_UNIT_OCTETS

__all__ = [
    "NORMAL", "SILENT", "STOP", "Feedback", "Settings", "State", "count", "is_sample", "new_state", "sample",
    "settings_record", "start",
]  # fmt: skip

SILENT = -1
"""What a sample makes the congestion point send when that is neither NORMAL nor STOP."""

_UNIT_64 = WEIGHT_DENOMINATOR * WEIGHT_DENOMINATOR * QUEUE_UNIT_OCTETS
"""One unit of 64 octets in the product of a feedback in 1/8 octet and Qscale in 1/8."""


class State(Sampler):
    """What one congestion point remembers, and what became of its samples; a record."""

    cpid: int
    """Its own identifier, as `ecmproto.mechanisms.cpid` has it."""
    qlen_old_octets: int
    """Qlen at the previous sample."""
    samples: int
    normal: int
    """Normal messages; with ``stops`` and the three suppressions that makes ``samples``."""
    stops: int
    balanced: int
    """Suppressed because e = 0."""
    unassociated: int
    """Suppressed because Qlen ≤ Qeq and the frame carried no RRT tag with this CPID."""
    truncated: int
    """Suppressed because e truncates to 0."""
    unanswerable: int
    """Messages not sent because the sampled frame's source is a group or the congestion point itself."""


class Settings(SamplerSettings, Thresholds):
    """The parameters as the kernels read them; a record."""

    weight_8: int
    """w in 1/8."""
    probability: float
    """Pm; 0: frames are sampled by octets."""


class Feedback(NamedTuple):
    """What one sample found."""

    kind: int
    """SILENT, NORMAL or STOP."""
    qoff_octets: int
    """Qlen − Qeq, clamped."""
    qdelta_octets: int
    """Clamped."""
    e_8: int
    """e in 1/8 octet, exact, before Qscale."""
    e: int
    """In units of 64 octets, times Qscale; positive means increase; 0 in a STOP."""


def settings_record(parameters: CongestionPointParameters) -> Settings:
    """Return the record of settings for ``parameters``."""
    record = new_record(Settings)
    set_sampling(record, parameters, parameters.qmc_octets)
    set_thresholds(record, parameters)
    record.weight_8 = int(parameters.weight * WEIGHT_DENOMINATOR)
    record.probability = float(parameters.probability)
    return record


def new_state(cpid: int) -> State:
    """Return the record of a congestion point with the 64-bit identifier ``cpid``; `start` it."""
    record = new_record(State)
    record.cpid = signed_cpid(cpid)
    return record


@compiled
def start(state: State, settings: Settings, generator: Random) -> None:
    """Bring ``state`` to its start: an interval of its own and a previous Qlen of 0."""
    state.qlen_old_octets = 0
    draw(state, settings, generator)


@inlined
def is_sample(
    state: State,
    settings: Settings,
    generator: Random,
    octets: int,
    qlen_octets: int,
    enqueued: bool,
) -> bool:
    """Return whether an arrived frame is a sample: by chance with Pm, else as `count` has it."""
    if settings.probability > 0.0:
        return bool(generator.random() < settings.probability)
    return count(state, settings, octets, qlen_octets, enqueued)


@compiled
def sample(state: State, settings: Settings, generator: Random, qlen_octets: int, tag_cpid: int) -> Feedback:
    """Return what a sampled frame makes the congestion point say, and set up the next sample.

    ``tag_cpid`` is the CPID of the sampled frame's RRT tag, 0 without one.  The previous Qlen follows at
    every sample, whatever becomes of it.
    """
    draw(state, settings, generator)
    qoff = offset_octets(settings, qlen_octets)
    qdelta = delta_octets(settings, qlen_octets, state.qlen_old_octets)
    state.qlen_old_octets = qlen_octets
    state.samples += 1
    e_8 = -(WEIGHT_DENOMINATOR * qoff + settings.weight_8 * qdelta)
    if qlen_octets > settings.qsc_octets:
        state.stops += 1
        return Feedback(STOP, qoff, qdelta, e_8, 0)
    if qoff <= 0 and tag_cpid != state.cpid:
        state.unassociated += 1
        return Feedback(SILENT, qoff, qdelta, e_8, 0)
    if e_8 == 0:
        state.balanced += 1
        return Feedback(SILENT, qoff, qdelta, e_8, 0)
    e = truncated_quotient(e_8 * settings.qscale_8, _UNIT_64)
    if e == 0:
        state.truncated += 1
        return Feedback(SILENT, qoff, qdelta, e_8, 0)
    state.normal += 1
    return Feedback(NORMAL, qoff, qdelta, e_8, e)
