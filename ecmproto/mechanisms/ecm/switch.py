"""The ECM congestion points of a port as they are driven (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import inlined
from ecmproto.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.mechanisms.aimd.switch import has_point, new_states, withhold
from ecmproto.mechanisms.cpid import NO_CPID
from ecmproto.mechanisms.ecm.congestion_point import (
    REGULAR,
    SATURATED,
    SEVERE,
    Feedback,
    Settings,
    State,
    count,
    sample,
    settings_record,
    start,
)
from ecmproto.mechanisms.ecm.messages import LEAST_SHOWN_OCTETS
from ecmproto.mechanisms.ecm.parameters import CongestionPointParameters
from ecmproto.mechanisms.ecm.stations import TIMESTAMP_BITS, TIMESTAMP_MASK
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import Place, total
from ecmproto.mechanisms.protocol import Arrival, Outbox, post
from ecmproto.structs import Draws, Struct

ECM_KIND, ECM_MAX_KIND, ECM_ZERO_KIND = REGULAR, SATURATED, SEVERE


class Points(Struct):
    """The congestion points of a port, by priority."""

    states: Sequence[State]
    has_point: NDArray[np.bool_]
    shows_tags: bool
    """Whether messages carry so much of the sampled frame that its CM-Tag is in it, behind one VLAN tag."""
    weight_8: int
    """The reaction points' w in 1/8."""
    settings: Settings
    generator: Draws

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count a frame, enqueued or dropped; post a message, or a silent sample, if it was sampled."""
        priority, qlen_octets = arrival.priority, arrival.qlen_octets
        if not (arrival.sampled and self.has_point[priority]):
            return
        state = self.states[priority]
        if not count(state, self.settings, arrival.octets, qlen_octets, arrival.enqueued):
            return
        tag_cpid = arrival.tag if arrival.tagged else NO_CPID
        found = sample(state, self.settings, self.generator, qlen_octets, tag_cpid)
        message = post(outbox, found.kind, arrival.now_ns, arrival.station, arrival.flow, priority)
        message.qlen_octets = qlen_octets
        message.qoff_octets = found.qoff_octets
        message.qdelta_octets = found.qdelta_octets
        message.fb_octets = feedback_octets(self.settings, self.weight_8, found)
        message.cpid = state.cpid
        message.q_off = found.q_off
        message.q_delta = found.q_delta
        message.q = found.q
        if arrival.tagged:
            message.timestamp = arrival.mark & TIMESTAMP_MASK
            message.unit = arrival.mark >> TIMESTAMP_BITS
            message.tagged = int(self.shows_tags)
        withhold(message, arrival, state)

    def forwarded(self, priority: int, tag: int) -> int:
        """Return the CM-Tag's CPID as it came."""
        return tag

    def left(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Do nothing: departures are none of its business."""

    def tick_ns(self) -> int:
        """Return NEVER_NS: it has no timers."""
        return NEVER_NS

    def tick(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Do nothing."""


@inlined
def feedback_octets(settings: Settings, weight_8: int, found: Feedback) -> float:
    """Return Fb = −(Qoff + w·Qdelta) of the clamped values; that of ECM(0,0) is the least there is."""
    qoff, qdelta = found.qoff_octets, found.qdelta_octets
    if found.kind == SEVERE:
        qoff, qdelta = settings.qeq_octets, 2 * settings.qeq_octets
    return -(qoff * WEIGHT_DENOMINATOR + weight_8 * qdelta) / WEIGHT_DENOMINATOR


def new_points(
    parameters: CongestionPointParameters, weight: float, place: Place, generator: np.random.Generator
) -> Points:
    """Return the congestion points of a port, started; ``weight`` is the reaction points' w."""
    points = Points(
        new_states(State, place.cp_mac),
        has_point(parameters.enabled),
        parameters.payload_octets >= LEAST_SHOWN_OCTETS,
        int(weight * WEIGHT_DENOMINATOR),
        settings_record(parameters),
        Draws(generator),
    )
    for priority in sorted(parameters.enabled):
        start(points.states[priority], points.settings, points.generator)
    return points


def point_counters(points: Points) -> dict[str, int]:
    """Return what the congestion points have counted together, by name."""
    return total(
        points.states, "samples", "regular", "saturated", "severe", "balanced", "unassociated", "truncated",
        "unanswerable",
    )  # fmt: skip
