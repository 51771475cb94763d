"""The E²CM congestion point: ECM's, with two octet counters (algorithms §4, rule 1).

Rate-limited frames, those with an E²CM CM-Tag, are counted and sampled by themselves and more often: one
counter for all starves a fast flow of the samples that its limiter needs.  Per enabled priority of an output
queue there is one :class:`Point`.  For each **arriving** frame, enqueued or dropped, that may be sampled::

    if count_arrival(point, settings, tagged, octets, qlen_octets, enqueued):
        feedback = sample(point, settings, generator, tagged, qlen_octets, tag_cpid)

and the caller sends a message if ``feedback.kind`` is not SILENT: BCN for REGULAR, BCN_MAX for SATURATED,
BCN_ZERO for SEVERE.  ``tagged`` is 1 for rate-limited frames, else 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd.measurement import set_thresholds
from ecmproto.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.mechanisms.aimd.sampling import Sampler, SamplerSettings, count, draw, set_sampling
from ecmproto.mechanisms.cpid import signed_cpid
from ecmproto.mechanisms.e2cm.parameters import CongestionPointParameters
from ecmproto.mechanisms.ecm.congestion_point import (
    REGULAR,
    SATURATED,
    SEVERE,
    SILENT,
    Feedback,
    Meter,
    MeterSettings,
    measure,
)
from ecmproto.record import new_record, new_records
from ecmproto.structs import Random, Struct

__all__ = [
    "REGULAR", "SATURATED", "SEVERE", "SILENT", "Feedback", "Point", "Settings", "count_arrival", "new_point",
    "sample", "settings_record", "start",
]  # fmt: skip

_KINDS_OF_FRAMES = 2


class State(Meter):
    """What measuring remembers, as ECM's; a record."""

    withheld: int
    """Regular messages not sent because they would increase a rate; ``regular`` does not count them."""


class PointSettings(MeterSettings):
    """A record."""

    increase_signals: int
    weight_8: int
    """w in 1/8."""


class Point(NamedTuple):
    """One congestion point: its meter, and its samplers for other (0) and tagged (1) frames."""

    meter: State
    samplers: Sequence[Sampler]


class Settings(Struct):
    """The parameters as the kernels read them: records."""

    meter: PointSettings
    samplers: Sequence[SamplerSettings]


def settings_record(parameters: CongestionPointParameters) -> Settings:
    """Return the records of settings for ``parameters``."""
    meter = new_record(PointSettings)
    set_thresholds(meter, parameters)
    meter.q_bit = int(parameters.q_bit)
    meter.increase_signals = int(parameters.increase_signals)
    meter.weight_8 = int(parameters.weight * WEIGHT_DENOMINATOR)
    samplers = new_records(SamplerSettings, _KINDS_OF_FRAMES)
    set_sampling(samplers[0], parameters, parameters.qmc_octets)
    set_sampling(samplers[1], parameters.tagged_sampling(), parameters.qmc_octets)
    return Settings(meter, samplers)


def new_point(cpid: int) -> Point:
    """Return a congestion point with the 64-bit identifier ``cpid``; `start` it."""
    meter = new_record(State)
    meter.cpid = signed_cpid(cpid)
    return Point(meter, new_records(Sampler, _KINDS_OF_FRAMES))


@compiled
def start(point: Point, settings: Settings, generator: Random) -> None:
    """Bring ``point`` to its start: an interval of its own for each counter and a previous Qlen of 0."""
    point.meter.qlen_old_octets = 0
    for tagged in range(_KINDS_OF_FRAMES):
        draw(point.samplers[tagged], settings.samplers[tagged], generator)


@inlined
def count_arrival(
    point: Point, settings: Settings, tagged: int, octets: int, qlen_octets: int, enqueued: bool
) -> bool:
    """Count an arrived frame of ``octets`` by its kind; True makes it a sample.

    ``qlen_octets`` is Qlen after it was ``enqueued`` or dropped.
    """
    return count(point.samplers[tagged], settings.samplers[tagged], octets, qlen_octets, enqueued)


@compiled
def sample(
    point: Point,
    settings: Settings,
    generator: Random,
    tagged: int,
    qlen_octets: int,
    tag_cpid: int,
) -> Feedback:
    """Return the feedback of a sampled frame, and set up the next sample of its kind.

    ``tag_cpid`` is the CPID of the frame's CM-Tag, 0 without one.  Qdelta is the change since the previous
    sample of either kind: it is the queue's, not the frames'.
    """
    draw(point.samplers[tagged], settings.samplers[tagged], generator)
    found = measure(point.meter, settings.meter, qlen_octets, tag_cpid)
    if settings.meter.increase_signals == 1 or found.kind != REGULAR:
        return found
    if found.qoff_octets * WEIGHT_DENOMINATOR + settings.meter.weight_8 * found.qdelta_octets >= 0:
        return found
    point.meter.regular -= 1
    point.meter.withheld += 1
    return Feedback(SILENT, found.qoff_octets, found.qdelta_octets, 0, 0, 0)
