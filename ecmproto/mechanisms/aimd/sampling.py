"""Sampling by arriving octets (S000 3.2; algorithms §1, CP 1): a frame every S = Sf + Sr·(2u − 1) octets.

For each **arriving** frame, enqueued or dropped, the caller does::

    if count(sampler, settings, octets, qlen_octets, enqueued):
        draw(sampler, settings, generator)
        ...

With Sf = 0 the interval is its random part alone: S = Sr·u.  S is drawn at the start and after each sample.
Counts are whole, so counting up to ⌈S⌉ is counting up to S.
"""

from __future__ import annotations

import math

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd.parameters import SamplingParameters
from ecmproto.structs import Random

OFF_OCTETS = 2**62
"""A threshold that no queue is above."""


class Sampler:
    """What sampling remembers; a record (``ecmproto.record``)."""

    counted_octets: int
    """Octets that arrived since the last sample."""
    interval_octets: int
    """⌈S⌉: the octets that make a sample, before over-sampling."""


class SamplerSettings:
    """A record."""

    fixed_octets: int
    """Sf."""
    random_octets: int
    """Sr."""
    oversampling_shift: int
    """Sscale: S is divided by 2^Sscale while the queue is empty or above Qmc."""
    qmc_octets: int
    """Qmc, or OFF_OCTETS."""


def set_sampling(record: SamplerSettings, parameters: SamplingParameters, qmc_octets: int) -> None:
    """Fill ``record``; ``qmc_octets`` is Qmc, 0 for off."""
    record.fixed_octets = parameters.fixed_octets
    record.random_octets = parameters.random_octets
    record.oversampling_shift = parameters.oversampling_shift
    record.qmc_octets = qmc_octets or OFF_OCTETS


@compiled
def draw(sampler: Sampler, settings: SamplerSettings, generator: Random) -> None:
    """Start counting towards the next sample, with an interval of its own; draws once."""
    drawn = generator.random()
    spread = 2.0 * drawn - 1.0 if settings.fixed_octets > 0 else drawn
    sampler.interval_octets = math.ceil(float(settings.fixed_octets) + float(settings.random_octets) * spread)
    sampler.counted_octets = 0


@inlined
def count(sampler: Sampler, settings: SamplerSettings, octets: int, qlen_octets: int, enqueued: bool) -> bool:
    """Count an arrived frame of ``octets``; True makes it a sample.

    ``qlen_octets`` is Qlen after it was ``enqueued`` or dropped; the queue is empty when it holds no other.
    """
    sampler.counted_octets += octets
    empty = qlen_octets == (octets if enqueued else 0)
    shift = settings.oversampling_shift if empty or qlen_octets > settings.qmc_octets else 0
    return bool(sampler.counted_octets << shift >= sampler.interval_octets)
