"""The ECM congestion point: algorithms §1, rules CP 1-5, on a plain state record.

Per enabled priority of an output queue there is one record of :class:`State`; all share one of
:class:`Settings`.  For each **arriving** frame, enqueued or dropped, that may be sampled the caller does::

    if count(state, settings, octets, qlen_octets, enqueued):
        feedback = sample(state, settings, generator, qlen_octets, tag_cpid)

and sends an ECM frame if ``feedback.kind`` is not SILENT.  Every decision is exact in integers.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.kernel import compiled
from ecmproto.mechanisms.aimd.measurement import (
    Thresholds,
    delta_octets,
    offset_octets,
    scaled_units,
    set_thresholds,
)
from ecmproto.mechanisms.aimd.sampling import Sampler, SamplerSettings, count, draw, set_sampling
from ecmproto.mechanisms.cpid import signed_cpid
from ecmproto.mechanisms.ecm.parameters import CongestionPointParameters
from ecmproto.record import new_record
from ecmproto.structs import Random

__all__ = [
    "REGULAR", "SATURATED", "SEVERE", "SILENT", "Feedback", "Meter", "MeterSettings", "Settings", "State",
    "count", "measure", "new_state", "sample", "settings_record", "start",
]  # fmt: skip

SILENT, REGULAR, SATURATED, SEVERE = range(4)
"""What a sample makes the congestion point send: nothing, Qoff and Qdelta, ECM-Max, ECM(0,0)."""


class Meter:
    """What measuring remembers, and what became of the samples; a record (``ecmproto.record``)."""

    cpid: int
    """Its own identifier, as `ecmproto.mechanisms.cpid` has it."""
    qlen_old_octets: int
    """Qlen at the previous sample."""
    samples: int
    regular: int
    """Regular messages; with ``saturated``, ``severe`` and the three suppressions that makes ``samples``."""
    saturated: int
    """ECM-Max."""
    severe: int
    """ECM(0,0)."""
    balanced: int
    """Suppressed because Qoff = Qdelta = 0."""
    unassociated: int
    """Suppressed because Qoff ≤ 0 and the frame carried no CM-Tag with this CPID."""
    truncated: int
    """Suppressed because both fields truncate to 0, which would read as ECM(0,0)."""
    unanswerable: int
    """Messages not sent because the sampled frame's source is a group or the congestion point itself."""


class State(Sampler, Meter):
    """What one congestion point remembers; a record."""


class MeterSettings(Thresholds):
    """A record."""

    q_bit: int
    """1 if messages say that Qdelta is saturated."""


class Settings(SamplerSettings, MeterSettings):
    """The parameters as the kernels read them; a record."""


class Feedback(NamedTuple):
    """What one sample found: Qoff and Qdelta clamped, in octets, and the fields of the message."""

    kind: int
    qoff_octets: int
    qdelta_octets: int
    q_off: int
    """In units of 64 octets, times Qscale."""
    q_delta: int
    q: int


def settings_record(parameters: CongestionPointParameters) -> Settings:
    """Return the record of settings for ``parameters``."""
    record = new_record(Settings)
    set_sampling(record, parameters, parameters.qmc_octets)
    set_thresholds(record, parameters)
    record.q_bit = int(parameters.q_bit)
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


@compiled
def sample(state: State, settings: Settings, generator: Random, qlen_octets: int, tag_cpid: int) -> Feedback:
    """Return the feedback of a sampled frame, and set up the next sample; arguments as in `measure`."""
    draw(state, settings, generator)
    return measure(state, settings, qlen_octets, tag_cpid)


@compiled
def measure(meter: Meter, settings: MeterSettings, qlen_octets: int, tag_cpid: int) -> Feedback:
    """Return what a sample with ``qlen_octets`` in the queue says (rules 2 to 4).

    ``tag_cpid`` is the CPID of the sampled frame's CM-Tag, 0 without one.  The previous Qlen follows at
    every sample, whatever becomes of it (rule 5).
    """
    qoff = offset_octets(settings, qlen_octets)
    qdelta = delta_octets(settings, qlen_octets, meter.qlen_old_octets)
    meter.qlen_old_octets = qlen_octets
    meter.samples += 1
    if qlen_octets > settings.qsc_octets:
        meter.severe += 1
        return Feedback(SEVERE, 0, 0, 0, 0, 0)
    if qlen_octets > settings.qmc_octets:
        meter.saturated += 1
        return _feedback(settings, SATURATED, settings.qeq_octets, 2 * settings.qeq_octets)
    found = _feedback(settings, REGULAR, qoff, qdelta)
    silent = Feedback(SILENT, qoff, qdelta, 0, 0, 0)
    if qoff == 0 and qdelta == 0:
        meter.balanced += 1
        return silent
    if qoff <= 0 and tag_cpid != meter.cpid:
        meter.unassociated += 1
        return silent
    if found.q_off == 0 and found.q_delta == 0:
        meter.truncated += 1
        return silent
    meter.regular += 1
    return found


@compiled
def _feedback(settings: MeterSettings, kind: int, qoff: int, qdelta: int) -> Feedback:
    q = settings.q_bit if abs(qdelta) >= 2 * settings.qeq_octets else 0
    return Feedback(kind, qoff, qdelta, scaled_units(settings, qoff), scaled_units(settings, qdelta), q)
