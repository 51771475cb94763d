"""The E²CM congestion point: the ECM congestion point with two octet counters (algorithms §4, rule 1).

Rate-limited frames have an E²CM CM-Tag. A separate counter samples rate-limited frames more often, because
with a single counter a fast flow would get too few samples for its limiter. Each enabled priority of an
output queue has an :class:`E2CMPoint`. For each **arriving** frame, enqueued or dropped, that may be sampled,
the caller runs::

    if count_arrival(point, settings, tagged, octets, qlen_octets, enqueued):
        feedback = sample(point, settings, generator, tagged, qlen_octets, tag_cpid)

The caller sends a message if ``feedback.kind`` is not SILENT: BCN for REGULAR, BCN_MAX for SATURATED, or
BCN_ZERO for SEVERE. ``tagged`` is 1 for rate-limited frames, otherwise 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.aimd.congestion_point import (
    Sampler,
    SamplerSettings,
    count,
    draw,
    has_point,
    new_states,
    threshold_fields,
)
from ecmproto.control.mechanisms.aimd.parameters import PRIORITIES, WEIGHT_DENOMINATOR
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NO_CPID, Arrival, NullCongestionPoint, Outbox
from ecmproto.control.mechanisms.e2cm.parameters import E2CMCongestionPointParameters
from ecmproto.control.mechanisms.ecm.congestion_point import (
    REGULAR,
    SATURATED,
    SEVERE,
    SILENT,
    ECMFeedback,
    ECMMeter,
    ECMMeterSettings,
    feedback_octets,
    measure,
    post_feedback,
)
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import new_records, record_from
from ecmproto.kernels.structs import Draws, Random, Struct

_FRAME_TYPES = 2


class E2CMPointState(ECMMeter):
    """Record of a congestion point's measurements and sample counters."""

    withheld: int
    """Number of messages suppressed because of positive feedback; ``regular`` excludes this number."""


class PointSettings(ECMMeterSettings):
    """Record of the measuring parameters that the kernels read."""

    increase_signals: int
    weight_8: int
    """Weight w in units of 1/8."""


class E2CMPoint(NamedTuple):
    """A congestion point with a meter and two samplers, for frames without (0) and with a tag (1)."""

    meter: E2CMPointState
    samplers: Sequence[Sampler]


class E2CMPointSettings(Struct):
    """Records of the congestion point parameters that the kernels read."""

    meter: PointSettings
    samplers: Sequence[SamplerSettings]


def settings_record(parameters: E2CMCongestionPointParameters) -> E2CMPointSettings:
    """Return the settings records for ``parameters``."""
    fields = threshold_fields(parameters)
    weight_8 = int(parameters.weight * WEIGHT_DENOMINATOR)
    samplers: Any = new_records(SamplerSettings, _FRAME_TYPES)
    for tagged, sampling in enumerate((parameters, parameters.tagged_sampling())):
        samplers[tagged] = record_from(SamplerSettings, sampling, qmc_octets=fields["qmc_octets"])
    return E2CMPointSettings(record_from(PointSettings, parameters, weight_8=weight_8, **fields), samplers)


@compiled
def start(point: E2CMPoint, settings: E2CMPointSettings, generator: Random) -> None:
    """Initialise ``point`` with a new interval for each sampler and a previous Qlen of 0."""
    point.meter.qlen_old_octets = 0
    for tagged in range(_FRAME_TYPES):
        draw(point.samplers[tagged], settings.samplers[tagged], generator)


@inlined
def count_arrival(
    point: E2CMPoint, settings: E2CMPointSettings, tagged: int, octets: int, qlen_octets: int, enqueued: bool
) -> bool:
    """Count an arrived frame of ``octets`` in a sampler; return whether the frame is sampled.

    ``qlen_octets`` is Qlen after the frame was ``enqueued`` or dropped.
    """
    return count(point.samplers[tagged], settings.samplers[tagged], octets, qlen_octets, enqueued)


@compiled
def sample(
    point: E2CMPoint,
    settings: E2CMPointSettings,
    generator: Random,
    tagged: int,
    qlen_octets: int,
    tag_cpid: int,
) -> ECMFeedback:
    """Return the feedback for a sampled frame, and draw the next interval of the sampler for ``tagged``.

    ``tag_cpid`` is the CPID in the frame's CM-Tag, or 0 for a frame without a CM-Tag. Qdelta is the change of
    the queue since the previous sample of either sampler.
    """
    draw(point.samplers[tagged], settings.samplers[tagged], generator)
    feedback = measure(point.meter, settings.meter, qlen_octets, tag_cpid)
    if settings.meter.increase_signals == 1 or feedback.kind != REGULAR:
        return feedback
    if feedback.qoff_octets * WEIGHT_DENOMINATOR + settings.meter.weight_8 * feedback.qdelta_octets >= 0:
        return feedback
    point.meter.regular -= 1
    point.meter.withheld += 1
    return ECMFeedback(SILENT, feedback.qoff_octets, feedback.qdelta_octets, 0, 0, 0)


BCN_KIND, BCN_MAX_KIND, BCN_ZERO_KIND = REGULAR, SATURATED, SEVERE


class E2CMPoints(NullCongestionPoint):
    """The congestion points of a port, one per priority."""

    meters: Sequence[E2CMPointState]
    samplers: Sequence[Sampler]
    """Two samplers per priority, first for frames that are not rate limited, then for rate-limited frames."""
    enabled: NDArray[np.bool_]
    settings: E2CMPointSettings
    generator: Draws

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued or dropped frame, and post a message or silent sample if the frame is sampled."""
        priority = arrival.priority
        if not (arrival.sampled and self.enabled[priority]):
            return
        tagged = 1 if arrival.tagged else 0
        point, octets, qlen_octets = _point(self, priority), arrival.octets, arrival.qlen_octets
        if not count_arrival(point, self.settings, tagged, octets, qlen_octets, arrival.enqueued):
            return
        tag_cpid = arrival.tag if arrival.tagged else NO_CPID
        feedback = sample(point, self.settings, self.generator, tagged, qlen_octets, tag_cpid)
        meter = self.settings.meter
        fb_octets = feedback_octets(meter, meter.weight_8, feedback)
        post_feedback(outbox, arrival, feedback, fb_octets, point.meter, True)


@expanded
def _point(points: E2CMPoints, priority: int) -> E2CMPoint:
    first = priority * _FRAME_TYPES
    return E2CMPoint(points.meters[priority], points.samplers[first : first + _FRAME_TYPES])


def new_points(
    parameters: E2CMCongestionPointParameters, context: PortContext, generator: np.random.Generator
) -> E2CMPoints:
    """Return the started congestion points of a port; a priority that is not enabled sends no messages."""
    points = E2CMPoints(
        new_states(E2CMPointState, context.cp_mac),
        new_records(Sampler, PRIORITIES * _FRAME_TYPES),
        has_point(parameters.enabled),
        settings_record(parameters),
        Draws(generator),
    )
    for priority in sorted(parameters.enabled):
        start(_point(points, priority), points.settings, points.generator)
    return points
