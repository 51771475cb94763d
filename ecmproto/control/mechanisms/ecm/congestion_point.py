"""The ECM congestion point (algorithms §1, rules CP 1-5), as functions on a state record.

Each enabled priority of an output queue has a record of type :class:`ECMPointState`. All priorities share one
record of type :class:`ECMPointSettings`. For each **arriving** frame, enqueued or dropped, that may be
sampled, the caller runs::

    if count(state, settings, octets, qlen_octets, enqueued):
        feedback = sample(state, settings, generator, qlen_octets, tag_cpid)

The caller sends an ECM frame if ``feedback.kind`` is not SILENT. All decisions are computed exactly in
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.aimd.congestion_point import (
    Meter,
    SamplerSettings,
    SamplingMeter,
    Thresholds,
    count,
    delta_octets,
    draw,
    ecm_payload,
    has_point,
    new_states,
    offset_octets,
    scaled_units,
    start,
    threshold_fields,
    withhold,
)
from ecmproto.control.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NO_CPID, Arrival, NullCongestionPoint, Outbox, post
from ecmproto.control.mechanisms.ecm.parameters import ECMCongestionPointParameters
from ecmproto.control.mechanisms.ecm.reaction_point import TIMESTAMP_BITS, TIMESTAMP_MASK
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.kernels.structs import Draws, Random

SILENT, REGULAR, SATURATED, SEVERE = range(4)
"""Outcome of a sample: no message, a message with Qoff and Qdelta, ECM-Max, or ECM(0,0)."""


MIN_SHOWN_OCTETS = 32
"""Minimum payload in octets that contains a complete CM-Tag after one VLAN tag (wire-formats 4)."""


class ECMMeter(Meter):
    """Record of queue measurements and of sample counters by outcome (``kernels.record``)."""

    regular: int
    saturated: int
    """Number of ECM-Max samples."""
    severe: int
    """Number of ECM(0,0) samples."""


class ECMPointState(SamplingMeter, ECMMeter):
    """Record of a congestion point's state."""


class ECMMeterSettings(Thresholds):
    """Record of the measuring parameters that the kernels read."""

    q_bit: int
    """1 if messages report that Qdelta is saturated, otherwise 0."""


class ECMPointSettings(SamplerSettings, ECMMeterSettings):
    """Record of the congestion point parameters that the kernels read."""


class ECMFeedback(NamedTuple):
    """The result of one sample: clamped Qoff and Qdelta in octets, and the fields of the message."""

    kind: int
    qoff_octets: int
    qdelta_octets: int
    q_off: int
    """Queue offset Qoff in units of 64 octets, times Qscale."""
    q_delta: int
    q: int


def settings_record(parameters: ECMCongestionPointParameters) -> ECMPointSettings:
    """Return the settings record for ``parameters``."""
    return record_from(ECMPointSettings, parameters, **threshold_fields(parameters))


@compiled
def sample(
    state: ECMPointState, settings: ECMPointSettings, generator: Random, qlen_octets: int, tag_cpid: int
) -> ECMFeedback:
    """Return the feedback of `measure` for a sampled frame, and draw the next sampling interval."""
    draw(state, settings, generator)
    return measure(state, settings, qlen_octets, tag_cpid)


@compiled
def measure(meter: ECMMeter, settings: ECMMeterSettings, qlen_octets: int, tag_cpid: int) -> ECMFeedback:
    """Return the feedback for a sample with ``qlen_octets`` in the queue (rules 2 to 4).

    ``tag_cpid`` is the CPID in the sampled frame's CM-Tag, or 0 for a frame without a CM-Tag. Each sample
    updates the previous Qlen, even if no message is sent (rule 5).
    """
    qoff = offset_octets(settings, qlen_octets)
    qdelta = delta_octets(settings, qlen_octets, meter.qlen_old_octets)
    meter.qlen_old_octets = qlen_octets
    meter.samples += 1
    if qlen_octets > settings.qsc_octets:
        meter.severe += 1
        return ECMFeedback(SEVERE, 0, 0, 0, 0, 0)
    if qlen_octets > settings.qmc_octets:
        meter.saturated += 1
        return _feedback(settings, SATURATED, settings.qeq_octets, 2 * settings.qeq_octets)
    feedback = _feedback(settings, REGULAR, qoff, qdelta)
    silent = ECMFeedback(SILENT, qoff, qdelta, 0, 0, 0)
    if qoff == 0 and qdelta == 0:
        meter.balanced += 1
        return silent
    # Suppress positive feedback for a frame without a CM-Tag of this point (algorithms §1, CP rule 3).
    if qoff <= 0 and tag_cpid != meter.cpid:
        meter.unassociated += 1
        return silent
    if feedback.q_off == 0 and feedback.q_delta == 0:
        # Both fields are truncated to 0, which would mean ECM(0,0).
        meter.truncated += 1
        return silent
    meter.regular += 1
    return feedback


@compiled
def _feedback(settings: ECMMeterSettings, kind: int, qoff: int, qdelta: int) -> ECMFeedback:
    q = settings.q_bit if abs(qdelta) >= 2 * settings.qeq_octets else 0
    return ECMFeedback(kind, qoff, qdelta, scaled_units(settings, qoff), scaled_units(settings, qdelta), q)


ECM_KIND, ECM_MAX_KIND, ECM_ZERO_KIND = REGULAR, SATURATED, SEVERE


class ECMPoints(NullCongestionPoint):
    """The congestion points of a port by priority."""

    states: Sequence[ECMPointState]
    has_point: NDArray[np.bool_]
    shows_tags: bool
    """Whether the sampled part of a frame in a message is long enough for a CM-Tag after one VLAN tag."""
    weight_8: int
    """Weight w of the reaction points in units of 1/8."""
    settings: ECMPointSettings
    generator: Draws

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued or dropped frame, and post a message or silent sample if the frame is sampled."""
        priority, qlen_octets = arrival.priority, arrival.qlen_octets
        if not (arrival.sampled and self.has_point[priority]):
            return
        state = self.states[priority]
        if not count(state, self.settings, arrival.octets, qlen_octets, arrival.enqueued):
            return
        tag_cpid = arrival.tag if arrival.tagged else NO_CPID
        feedback = sample(state, self.settings, self.generator, qlen_octets, tag_cpid)
        fb_octets = feedback_octets(self.settings, self.weight_8, feedback)
        post_feedback(outbox, arrival, feedback, fb_octets, state, self.shows_tags)


@compiled
def post_feedback(
    outbox: Outbox,
    arrival: Arrival,
    feedback: ECMFeedback,
    fb_octets: float,
    meter: ECMMeter,
    shows_tags: bool,
) -> None:
    """Post the message or silent sample about a sampled frame, with the timestamp of the CM-Tag."""
    message = post(outbox, feedback.kind, arrival.now_ns, arrival.station, arrival.flow, arrival.priority)
    message.qlen_octets = arrival.qlen_octets
    message.qoff_octets = feedback.qoff_octets
    message.qdelta_octets = feedback.qdelta_octets
    message.fb_octets = fb_octets
    fields = ecm_payload(message)
    fields.cpid = meter.cpid
    fields.q_off = feedback.q_off
    fields.q_delta = feedback.q_delta
    fields.q = feedback.q
    if arrival.tagged:
        fields.timestamp = arrival.mark & TIMESTAMP_MASK
        fields.unit = arrival.mark >> TIMESTAMP_BITS
        fields.tagged = int(shows_tags)
    withhold(message, arrival, meter)


@inlined
def feedback_octets(settings: ECMMeterSettings, weight_8: int, feedback: ECMFeedback) -> float:
    """Return Fb = −(Qoff + w·Qdelta) in octets from the clamped values; ECM(0,0) has the minimum of Fb."""
    qoff, qdelta = feedback.qoff_octets, feedback.qdelta_octets
    if feedback.kind == SEVERE:
        qoff, qdelta = settings.qeq_octets, 2 * settings.qeq_octets
    return -(qoff * WEIGHT_DENOMINATOR + weight_8 * qdelta) / WEIGHT_DENOMINATOR


def new_points(
    parameters: ECMCongestionPointParameters,
    weight: float,
    context: PortContext,
    generator: np.random.Generator,
) -> ECMPoints:
    """Return the started congestion points of a port; ``weight`` is the weight w of the reaction points."""
    points = ECMPoints(
        new_states(ECMPointState, context.cp_mac),
        has_point(parameters.enabled),
        parameters.payload_octets >= MIN_SHOWN_OCTETS,
        int(weight * WEIGHT_DENOMINATOR),
        settings_record(parameters),
        Draws(generator),
    )
    for priority in sorted(parameters.enabled):
        start(points.states[priority], points.settings, points.generator)
    return points
