"""The BCN congestion point (algorithms §2), as functions on a state record.

The functions are used like the functions of ECM (`mechanisms.ecm.congestion_point`). For each **arriving**
frame that may be sampled, the caller runs::

    if is_sample(state, settings, generator, octets, qlen_octets, enqueued):
        feedback = sample(state, settings, generator, qlen_octets, tag_cpid)

The caller sends a BCN message if ``feedback.kind`` is not SILENT. All decisions are computed exactly in
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.aimd.congestion_point import (
    OFF_OCTETS,
    SamplerSettings,
    SamplingMeter,
    Thresholds,
    count,
    delta_octets,
    draw,
    has_point,
    new_states,
    offset_octets,
    start,
    threshold_fields,
    truncated_quotient,
    withhold,
)
from ecmproto.control.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_CPID,
    PAUSE_KIND,
    Arrival,
    NullCongestionPoint,
    Outbox,
    flow_control_payload,
    has_capacity,
    post,
)
from ecmproto.control.mechanisms.bcn.parameters import BCNCongestionPointParameters
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.congestion_point import (
    FlowControlSettings,
    FlowControlState,
    OccupancyMeter,
    demand,
    flow_control_settings,
    judge,
    next_timer_ns,
    on_timer,
)
from ecmproto.control.mechanisms.pause.parameters import GenerationParameters
from ecmproto.control.mechanisms.pause.reaction_point import ALL_PRIORITIES
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, record_from
from ecmproto.kernels.structs import Draws, Random, Struct, payload_view
from ecmproto.units import QUEUE_UNIT_OCTETS
from ecmproto.wire.formats.bcn import NORMAL, STOP

SILENT = -1
"""Outcome of a sample without a message."""

_UNIT_64 = WEIGHT_DENOMINATOR * WEIGHT_DENOMINATOR * QUEUE_UNIT_OCTETS
"""Size of a 64-octet unit in the product of a feedback in 1/8 octet and Qscale in 1/8."""


_KILO = 1000


_LARGEST_CAPACITY_KBPS = 0xFFFFFFFF


def capacity_kbps(capacity_bps: int) -> int:
    """Return a link capacity in kb/s, the unit of BCN messages, clamped to 32 bits."""
    return min(capacity_bps // _KILO, _LARGEST_CAPACITY_KBPS)


class BCNPointState(SamplingMeter):
    """Record of the state and the sample counters of one congestion point."""

    normal: int
    stops: int


class BCNPointSettings(SamplerSettings, Thresholds):
    """Record of the congestion point parameters that the kernels read."""

    weight_8: int
    """Weight w in units of 1/8."""
    probability: float
    """Sampling probability Pm; 0 means that samples are taken by octets."""


class BCNFeedback(NamedTuple):
    """The result of one sample: the state of the queue and the message to send."""

    kind: int
    """Outcome of the sample: SILENT, NORMAL or STOP."""
    qoff_octets: int
    """Queue offset Qoff = Qlen − Qeq in octets, clamped."""
    qdelta_octets: int
    """Queue change Qdelta in octets, clamped."""
    e_8: int
    """Exact feedback e in units of 1/8 octet, without Qscale."""
    e: int
    """Feedback e in units of 64 octets, times Qscale; positive for an increase, and 0 in a STOP."""


def settings_record(parameters: BCNCongestionPointParameters) -> BCNPointSettings:
    """Return the settings record for ``parameters``."""
    weight_8 = int(parameters.weight * WEIGHT_DENOMINATOR)
    return record_from(BCNPointSettings, parameters, weight_8=weight_8, **threshold_fields(parameters))


@inlined
def is_sample(
    state: BCNPointState,
    settings: BCNPointSettings,
    generator: Random,
    octets: int,
    qlen_octets: int,
    enqueued: bool,
) -> bool:
    """Return whether an arrived frame is sampled, either with probability Pm or by `count`."""
    if settings.probability > 0.0:
        return bool(generator.random() < settings.probability)
    return count(state, settings, octets, qlen_octets, enqueued)


@compiled
def sample(
    state: BCNPointState, settings: BCNPointSettings, generator: Random, qlen_octets: int, tag_cpid: int
) -> BCNFeedback:
    """Return the feedback for a sampled frame, and draw the next sampling interval.

    ``tag_cpid`` is the CPID in the frame's RRT tag, or 0 for a frame without an RRT tag. Each sample updates
    the previous Qlen, even if no message is sent.
    """
    draw(state, settings, generator)
    qoff = offset_octets(settings, qlen_octets)
    qdelta = delta_octets(settings, qlen_octets, state.qlen_old_octets)
    state.qlen_old_octets = qlen_octets
    state.samples += 1
    e_8 = -(WEIGHT_DENOMINATOR * qoff + settings.weight_8 * qdelta)
    if qlen_octets > settings.qsc_octets:
        state.stops += 1
        return BCNFeedback(STOP, qoff, qdelta, e_8, 0)
    if qoff <= 0 and tag_cpid != state.cpid:
        state.unassociated += 1
        return BCNFeedback(SILENT, qoff, qdelta, e_8, 0)
    if e_8 == 0:
        state.balanced += 1
        return BCNFeedback(SILENT, qoff, qdelta, e_8, 0)
    e = truncated_quotient(e_8 * settings.qscale_8, _UNIT_64)
    if e == 0:
        state.truncated += 1
        return BCNFeedback(SILENT, qoff, qdelta, e_8, 0)
    state.normal += 1
    return BCNFeedback(NORMAL, qoff, qdelta, e_8, e)


_WHOLE_LINK = 0
"""Class that a PAUSE stops."""


class PauseThreshold(Struct):
    """Comparison of the output queue with Qst, and the PAUSE state that all upstream ports share."""

    meter: OccupancyMeter
    pause_state: FlowControlState
    settings: FlowControlSettings


def new_threshold(parameters: BCNCongestionPointParameters, link_rate_bps: int) -> PauseThreshold:
    """Return a threshold without a PAUSE in force; ``link_rate_bps`` is the rate of the upstream links."""
    settings = flow_control_settings(GenerationParameters(pause_on="output"), rate_bps=link_rate_bps)
    settings.high_octets = parameters.qst_octets or OFF_OCTETS
    settings.low_octets = parameters.qst_low_octets
    return PauseThreshold(new_record(OccupancyMeter), new_record(FlowControlState), settings)


@compiled
def _post_pause(now_ns: int, port_octets: int, quanta: int, outbox: Outbox) -> None:
    message = post(outbox, PAUSE_KIND, now_ns, EVERY_STATION, -1, 0)
    message.qlen_octets = port_octets
    fields = flow_control_payload(message)
    fields.enable_vector = ALL_PRIORITIES
    fields.quanta = quanta


@compiled
def watch(threshold: PauseThreshold, now_ns: int, port_octets: int, outbox: Outbox) -> None:
    """Post a PAUSE if the change of the output queue to ``port_octets`` requires a PAUSE."""
    change = judge(threshold.meter, threshold.settings, port_octets)
    if change != 0:
        signal = demand(threshold.pause_state, threshold.settings, now_ns, _WHOLE_LINK, change)
        _post_pause(now_ns, port_octets, signal.quanta, outbox)


@compiled
def refresh(threshold: PauseThreshold, now_ns: int, port_octets: int, outbox: Outbox) -> None:
    """Repeat the PAUSE if a refresh is due and the outbox has capacity."""
    if has_capacity(outbox, 1):
        signal = on_timer(threshold.pause_state, threshold.settings, now_ns)
        if signal.enable_vector != 0:
            _post_pause(now_ns, port_octets, signal.quanta, outbox)


KIND_OF_TYPE = 1
"""Difference between a message kind and the Type field of the message."""
BCN_KIND, BCN_STOP_KIND = NORMAL + KIND_OF_TYPE, STOP + KIND_OF_TYPE


class BCNPayload:
    """Record of a BCN message payload, in the units of the wire format."""

    cpid: int
    """CPID in the form of `ecmproto.control.mechanisms.api.protocol`."""
    e: int
    capacity: int


bcn_payload: Callable[[Any], BCNPayload] = payload_view(BCNPayload, "payload")


class BCNPoints(NullCongestionPoint):
    """The congestion points of a port by priority, and the queue threshold of PAUSE."""

    states: Sequence[BCNPointState]
    has_point: NDArray[np.bool_]
    capacity_kbps: int
    settings: BCNPointSettings
    generator: Draws
    pauses: bool
    threshold: PauseThreshold

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued or dropped frame, and post a message or silent sample if the frame is sampled.

        Post a PAUSE if the frame raised the output queue above Qst.
        """
        if self.pauses:
            watch(self.threshold, arrival.now_ns, arrival.port_octets, outbox)
        priority, qlen_octets = arrival.priority, arrival.qlen_octets
        if not (arrival.sampled and self.has_point[priority]):
            return
        state = self.states[priority]
        if not is_sample(state, self.settings, self.generator, arrival.octets, qlen_octets, arrival.enqueued):
            return
        tag_cpid = arrival.tag if arrival.tagged else NO_CPID
        feedback = sample(state, self.settings, self.generator, qlen_octets, tag_cpid)
        kind = feedback.kind + KIND_OF_TYPE
        message = post(outbox, kind, arrival.now_ns, arrival.station, arrival.flow, priority)
        message.qlen_octets = qlen_octets
        message.qoff_octets = feedback.qoff_octets
        message.qdelta_octets = feedback.qdelta_octets
        message.fb_octets = feedback_octets(self.settings, feedback)
        fields = bcn_payload(message)
        fields.cpid = state.cpid
        fields.e = feedback.e
        fields.capacity = self.capacity_kbps
        withhold(message, arrival, state)

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Post the end of the PAUSE if the output queue dropped to the XON threshold."""
        if self.pauses:
            watch(self.threshold, now_ns, port_octets, outbox)

    def next_timer_ns(self) -> int:
        """Return the time of the next PAUSE refresh, or NEVER_NS if no PAUSE is in force."""
        return next_timer_ns(self.threshold.pause_state) if self.threshold.meter.above == 1 else NEVER_NS

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Refresh the PAUSE if a refresh is due."""
        refresh(self.threshold, now_ns, qlens_octets.sum(), outbox)


@inlined
def feedback_octets(settings: BCNPointSettings, feedback: BCNFeedback) -> float:
    """Return the feedback e in octets from the clamped values; a STOP has the minimum of e."""
    e_8 = feedback.e_8
    if feedback.kind == STOP:
        e_8 = -settings.qeq_octets * (WEIGHT_DENOMINATOR + 2 * settings.weight_8)
    return e_8 / WEIGHT_DENOMINATOR


def new_points(
    parameters: BCNCongestionPointParameters, context: PortContext, generator: np.random.Generator
) -> BCNPoints:
    """Return the started congestion points of a port, without a PAUSE in force."""
    points = BCNPoints(
        new_states(BCNPointState, context.cp_mac),
        has_point(parameters.enabled),
        capacity_kbps(context.rate_bps),
        settings_record(parameters),
        Draws(generator),
        parameters.qst_octets > 0,
        new_threshold(parameters, context.link_rate_bps),
    )
    for priority in sorted(parameters.enabled):
        start(points.states[priority], points.settings, points.generator)
    return points
