"""Sampling by arriving octets, shared by the congestion points of ECM, BCN and E²CM (algorithms §1, CP 1-4).

For each **arriving** frame, enqueued or dropped, the caller runs::

    if count(sampler, settings, octets, qlen_octets, enqueued):
        draw(sampler, settings, generator)
        ...

If Sf = 0, the interval is entirely random: S = Sr·u. A new S is drawn at the start and after each sample.
Octet counts are integers, so a count up to ⌈S⌉ is equivalent to a count up to S.
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
"""Threshold in octets that no queue exceeds."""


class Sampler:
    """Record of the byte sampling state (``kernels.record``)."""

    counted_octets: int
    """Number of octets that arrived since the previous sample."""
    interval_octets: int
    """Number of octets between two samples without over-sampling, ⌈S⌉."""


class SamplerSettings:
    """Record of the byte sampling parameters that the kernels read."""

    fixed_octets: int
    """Fixed part of the sampling interval in octets (Sf)."""
    random_octets: int
    """Half the width of the random part of the sampling interval, in octets (Sr)."""
    oversampling_shift: int
    """Over-sampling exponent Sscale: S is divided by 2^Sscale while the queue is empty or above Qmc."""
    qmc_octets: int
    """Threshold Qmc in octets, or OFF_OCTETS if Qmc is disabled."""


@compiled
def draw(sampler: Sampler, settings: SamplerSettings, generator: Random) -> None:
    """Draw a new sampling interval with one random number, and reset the octet counter."""
    drawn = generator.random()
    spread = 2.0 * drawn - 1.0 if settings.fixed_octets > 0 else drawn
    sampler.interval_octets = math.ceil(float(settings.fixed_octets) + float(settings.random_octets) * spread)
    sampler.counted_octets = 0


@inlined
def count(sampler: Sampler, settings: SamplerSettings, octets: int, qlen_octets: int, enqueued: bool) -> bool:
    """Count an arrived frame of ``octets``, and return whether the frame is sampled.

    ``qlen_octets`` is Qlen after the frame was ``enqueued`` or dropped. The queue counts as empty if no other
    frame is in the queue.
    """
    sampler.counted_octets += octets
    empty = qlen_octets == (octets if enqueued else 0)
    shift = settings.oversampling_shift if empty or qlen_octets > settings.qmc_octets else 0
    return bool(sampler.counted_octets << shift >= sampler.interval_octets)


class Thresholds:
    """Record of the queue thresholds and the feedback scale that the kernels read."""

    qeq_octets: int
    qmc_octets: int
    """Threshold Qmc in octets, or OFF_OCTETS if Qmc is disabled."""
    qsc_octets: int
    """Threshold Qsc in octets, or OFF_OCTETS if Qsc is disabled."""
    qscale_8: int
    """Scale factor Qscale in units of 1/8."""


def threshold_fields(parameters: AIMDCongestionPointParameters) -> dict[str, int]:
    """Return the fields of `Thresholds` whose values differ from the parameters of the same name."""
    return {
        "qmc_octets": parameters.qmc_octets or OFF_OCTETS,
        "qsc_octets": parameters.qsc_octets or OFF_OCTETS,
        "qscale_8": int(parameters.qscale * WEIGHT_DENOMINATOR),
    }


@inlined
def clamped(value: int, limit: int) -> int:
    """Return ``value`` clamped to the range from −``limit`` to ``limit``."""
    return max(-limit, min(limit, value))


@inlined
def offset_octets(thresholds: Thresholds, qlen_octets: int) -> int:
    """Return Qoff = Qlen − Qeq, clamped to ±Qeq.

    The upper bound is in the text of S000, but not in the pseudo-code of S000.
    """
    return clamped(qlen_octets - thresholds.qeq_octets, thresholds.qeq_octets)


@inlined
def delta_octets(thresholds: Thresholds, qlen_octets: int, qlen_old_octets: int) -> int:
    """Return Qdelta, the change of Qlen since the previous sample, clamped to ±2·Qeq."""
    return clamped(qlen_octets - qlen_old_octets, 2 * thresholds.qeq_octets)


@inlined
def scaled_units(thresholds: Thresholds, octets: int) -> int:
    """Return ``octets`` times Qscale in units of 64 octets, truncated toward zero (wire-formats 1.2)."""
    return truncated_quotient(octets * thresholds.qscale_8, WEIGHT_DENOMINATOR * QUEUE_UNIT_OCTETS)


@inlined
def truncated_quotient(numerator: int, denominator: int) -> int:
    """Return the quotient, truncated toward zero, of a numerator and a ``denominator`` above 0."""
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)


class ECMPayload:
    """Record of an ECM or E²CM message payload, in the units of the wire format."""

    cpid: int
    """CPID in the form of `ecmproto.control.mechanisms.api.protocol`."""
    q_off: int
    q_delta: int
    q: int
    timestamp: int
    unit: int
    tagged: int
    """1 if the sampled frame had a tag, which makes ``timestamp`` and ``unit`` valid; otherwise 0."""


ecm_payload: Callable[[Any], ECMPayload] = payload_view(ECMPayload, "payload")


class Meter:
    """Record of a congestion point's measurements and of counters for samples without a message."""

    cpid: int
    """CPID of this congestion point, in the form of `ecmproto.control.mechanisms.api.protocol`."""
    qlen_old_octets: int
    """Qlen in octets at the previous sample."""
    samples: int
    """Number of samples, including suppressed samples."""
    balanced: int
    """Number of samples suppressed because the queue stays at Qeq: Qoff = Qdelta = 0, for BCN also e = 0."""
    unassociated: int
    """Number of positive feedbacks suppressed because Qoff ≤ 0 and the frame has no tag with this CPID."""
    truncated: int
    """Number of samples suppressed because all fields of the message would be truncated to 0."""
    unanswerable: int
    """Number of unsent messages because the frame's source is a group address or the congestion point."""


class SamplingMeter(Sampler, Meter):
    """Record of a congestion point with one sampler."""


@compiled
def start(state: SamplingMeter, settings: SamplerSettings, generator: Random) -> None:
    """Initialise ``state`` with a new sampling interval and a previous Qlen of 0."""
    state.qlen_old_octets = 0
    draw(state, settings, generator)


_State = TypeVar("_State", bound=Meter)


def new_states(kind: type[_State], cp_mac: bytes) -> Sequence[_State]:
    """Return the records of the congestion points of all priorities, with CPIDs but not yet started.

    The local number in the CPID is the priority plus 1.
    """
    states = new_records(kind, PRIORITIES)
    for priority in range(PRIORITIES):
        states[priority].cpid = signed_cpid(cpid(cp_mac, priority + 1))
    return states


def has_point(enabled: Collection[int]) -> NDArray[np.bool_]:
    """Return an array with one flag per priority: whether the priority has a congestion point."""
    return np.isin(np.arange(PRIORITIES), list(enabled))


@inlined
def withhold(message: Message, arrival: Arrival, state: Meter) -> None:
    """Suppress ``message`` and count the suppression if the source of the frame may not be answered."""
    if message.sent == 1 and not arrival.answerable:
        message.sent = 0
        state.unanswerable += 1
