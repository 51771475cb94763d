"""Sampling by arriving octets, common to the congestion points of ECM, BCN and E²CM (algorithms §1, CP 1-4).

For each **arriving** frame, enqueued or dropped, the caller does::

    if count(sampler, settings, octets, qlen_octets, enqueued):
        draw(sampler, settings, generator)
        ...

With Sf = 0 the interval is only its random part: S = Sr·u. S is drawn at the start and after each sample.
Counts are integers, so counting up to ⌈S⌉ is counting up to S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.aimd.parameters import (
    PRIORITIES,
    WEIGHT_DENOMINATOR,
    AIMDCongestionPointParameters,
)
from ecmproto.control.mechanisms.api.protocol import Arrival, Message, signed_cpid
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_records
from ecmproto.kernels.structs import Random, payload_view
from ecmproto.units import QUEUE_UNIT_OCTETS
from ecmproto.wire.formats.text import cpid

OFF_OCTETS = 2**62
"""A threshold that no queue exceeds."""


class Sampler:
    """The state of byte sampling; a record (``kernels.record``)."""

    counted_octets: int
    """Octets that arrived since the last sample."""
    interval_octets: int
    """⌈S⌉: the octets between two samples, before over-sampling."""


class SamplerSettings:
    """The parameters of byte sampling as the kernels read them; a record."""

    fixed_octets: int
    """Sf, the fixed part of the interval."""
    random_octets: int
    """Sr, half the width of the random part."""
    oversampling_shift: int
    """Sscale: S is divided by 2^Sscale while the queue is empty or above Qmc."""
    qmc_octets: int
    """Qmc, or OFF_OCTETS."""


@compiled
def draw(sampler: Sampler, settings: SamplerSettings, generator: Random) -> None:
    """Start counting towards the next sample, with a new interval; one random number."""
    drawn = generator.random()
    spread = 2.0 * drawn - 1.0 if settings.fixed_octets > 0 else drawn
    sampler.interval_octets = math.ceil(float(settings.fixed_octets) + float(settings.random_octets) * spread)
    sampler.counted_octets = 0


@inlined
def count(sampler: Sampler, settings: SamplerSettings, octets: int, qlen_octets: int, enqueued: bool) -> bool:
    """Count an arrived frame of ``octets``; return whether it is a sample.

    ``qlen_octets`` is Qlen after it was ``enqueued`` or dropped; the queue is empty if it contains no other
    frame.
    """
    sampler.counted_octets += octets
    empty = qlen_octets == (octets if enqueued else 0)
    shift = settings.oversampling_shift if empty or qlen_octets > settings.qmc_octets else 0
    return bool(sampler.counted_octets << shift >= sampler.interval_octets)


class Thresholds:
    """The queue thresholds and the scale of feedback as the kernels read them; a record."""

    qeq_octets: int
    qmc_octets: int
    """Qmc, or OFF_OCTETS."""
    qsc_octets: int
    """Qsc, or OFF_OCTETS."""
    qscale_8: int
    """Qscale in 1/8."""


def threshold_fields(parameters: AIMDCongestionPointParameters) -> dict[str, int]:
    """Return the fields of `Thresholds` that differ from the parameters."""
    return {
        "qmc_octets": parameters.qmc_octets or OFF_OCTETS,
        "qsc_octets": parameters.qsc_octets or OFF_OCTETS,
        "qscale_8": int(parameters.qscale * WEIGHT_DENOMINATOR),
    }


@inlined
def clamped(value: int, limit: int) -> int:
    """Return ``value`` within ±``limit``."""
    return max(-limit, min(limit, value))


@inlined
def offset_octets(thresholds: Thresholds, qlen_octets: int) -> int:
    """Return Qoff = Qlen − Qeq within ±Qeq; S000's pseudo-code lacks the upper bound, its text has it."""
    return clamped(qlen_octets - thresholds.qeq_octets, thresholds.qeq_octets)


@inlined
def delta_octets(thresholds: Thresholds, qlen_octets: int, qlen_old_octets: int) -> int:
    """Return Qdelta = Qlen − Qlen at the previous sample, within ±2·Qeq."""
    return clamped(qlen_octets - qlen_old_octets, 2 * thresholds.qeq_octets)


@inlined
def scaled_units(thresholds: Thresholds, octets: int) -> int:
    """Return ``octets`` times Qscale in units of 64 octets, truncated toward zero (wire-formats 1.2)."""
    return truncated_quotient(octets * thresholds.qscale_8, WEIGHT_DENOMINATOR * QUEUE_UNIT_OCTETS)


@inlined
def truncated_quotient(numerator: int, denominator: int) -> int:
    """Return the quotient truncated toward zero; ``denominator`` > 0."""
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)


class ECMPayload:
    """The payload of an ECM or E²CM congestion point's message, in the units of the wire; a record."""

    cpid: int
    """The CPID, in the form of `ecmproto.control.mechanisms.api.protocol`."""
    q_off: int
    q_delta: int
    q: int
    timestamp: int
    unit: int
    tagged: int
    """1 if ``timestamp`` and ``unit`` are valid, since the sampled frame had a tag."""


ecm_payload: Callable[[Any], ECMPayload] = payload_view(ECMPayload, "payload")


class Meter:
    """The measurements of a congestion point, and counters of samples without a message; a record."""

    cpid: int
    """The congestion point's own identifier, in the form of `ecmproto.control.mechanisms.api.protocol`."""
    qlen_old_octets: int
    """Qlen at the previous sample."""
    samples: int
    """Samples, each with a message, counted by kind, or suppressed."""
    balanced: int
    """Samples suppressed because the queue is at Qeq and stays there: Qoff = Qdelta = 0, with BCN e = 0."""
    unassociated: int
    """Positive feedback suppressed: Qoff ≤ 0, and the frame carried no tag with this CPID."""
    truncated: int
    """Samples suppressed because all fields of the message truncate to 0."""
    unanswerable: int
    """Messages not sent because the sampled frame's source is a group or the congestion point itself."""


class SamplingMeter(Sampler, Meter):
    """A congestion point with one sampler; a record."""


@compiled
def start(state: SamplingMeter, settings: SamplerSettings, generator: Random) -> None:
    """Initialise ``state``: a new interval and a previous Qlen of 0."""
    state.qlen_old_octets = 0
    draw(state, settings, generator)


_State = TypeVar("_State", bound=Meter)


def new_states(kind: type[_State], cp_mac: bytes) -> Sequence[_State]:
    """Return the records of the priorities' congestion points, with local numbers from 1 on, not started."""
    states = new_records(kind, PRIORITIES)
    for priority in range(PRIORITIES):
        states[priority].cpid = signed_cpid(cpid(cp_mac, priority + 1))
    return states


def has_point(enabled: Collection[int]) -> NDArray[np.bool_]:
    """Return whether each priority has a congestion point."""
    return np.isin(np.arange(PRIORITIES), list(enabled))


@inlined
def withhold(message: Message, arrival: Arrival, state: Meter) -> None:
    """Suppress ``message``, unless it is silent anyway, if the frame's source may not be answered."""
    if message.sent == 1 and not arrival.answerable:
        message.sent = 0
        state.unanswerable += 1
