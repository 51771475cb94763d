"""The BCN congestion points of a port as they are driven (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import inlined
from ecmproto.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.mechanisms.aimd.switch import has_point, new_states, withhold
from ecmproto.mechanisms.bcn.congestion_point import (
    NORMAL,
    STOP,
    Feedback,
    Settings,
    State,
    is_sample,
    sample,
    settings_record,
    start,
)
from ecmproto.mechanisms.bcn.messages import capacity_kbps
from ecmproto.mechanisms.bcn.parameters import CongestionPointParameters
from ecmproto.mechanisms.bcn.pause_threshold import Threshold, new_threshold, refresh, watch
from ecmproto.mechanisms.cpid import NO_CPID
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import Place, total
from ecmproto.mechanisms.pause.generation import next_timer_ns
from ecmproto.mechanisms.protocol import Arrival, Outbox, post
from ecmproto.structs import Draws, Struct

KIND_OF_TYPE = 1
"""How far a kind of message is from the Type on the wire."""
BCN_KIND, BCN_STOP_KIND = NORMAL + KIND_OF_TYPE, STOP + KIND_OF_TYPE


class Points(Struct):
    """The congestion points of a port, by priority, and the threshold above which all of it is paused."""

    states: Sequence[State]
    has_point: NDArray[np.bool_]
    capacity_kbps: int
    settings: Settings
    generator: Draws
    pauses: bool
    threshold: Threshold

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count a frame, enqueued or dropped; post a message, or a silent sample, if it was sampled.

        Post PAUSE if it brought the output queue above Qst.
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
        found = sample(state, self.settings, self.generator, qlen_octets, tag_cpid)
        kind = found.kind + KIND_OF_TYPE
        message = post(outbox, kind, arrival.now_ns, arrival.station, arrival.flow, priority)
        message.qlen_octets = qlen_octets
        message.qoff_octets = found.qoff_octets
        message.qdelta_octets = found.qdelta_octets
        message.fb_octets = feedback_octets(self.settings, found)
        message.cpid = state.cpid
        message.e = found.e
        message.capacity = self.capacity_kbps
        withhold(message, arrival, state)

    def forwarded(self, priority: int, tag: int) -> int:
        """Return the RRT tag's CPID as it came."""
        return tag

    def left(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Post the end of the pause if the frame brought the output queue down to the lower mark."""
        if self.pauses:
            watch(self.threshold, now_ns, port_octets, outbox)

    def tick_ns(self) -> int:
        """Return when the PAUSE is next refreshed, NEVER_NS while there is none."""
        return next_timer_ns(self.threshold.told) if self.threshold.meter.above == 1 else NEVER_NS

    def tick(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Refresh the PAUSE if it is due."""
        refresh(self.threshold, now_ns, qlens_octets.sum(), outbox)


@inlined
def feedback_octets(settings: Settings, found: Feedback) -> float:
    """Return e of the clamped values; that of a STOP is the least there is."""
    e_8 = found.e_8
    if found.kind == STOP:
        e_8 = -settings.qeq_octets * (WEIGHT_DENOMINATOR + 2 * settings.weight_8)
    return e_8 / WEIGHT_DENOMINATOR


def new_points(parameters: CongestionPointParameters, place: Place, generator: np.random.Generator) -> Points:
    """Return the congestion points of a port, started, with nobody paused."""
    points = Points(
        new_states(State, place.cp_mac),
        has_point(parameters.enabled),
        capacity_kbps(place.rate_bps),
        settings_record(parameters),
        Draws(generator),
        parameters.qst_octets > 0,
        new_threshold(parameters, place.link_rate_bps),
    )
    for priority in sorted(parameters.enabled):
        start(points.states[priority], points.settings, points.generator)
    return points


def point_counters(points: Points) -> dict[str, int]:
    """Return what the congestion points and the threshold have counted together, by name."""
    found = total(
        points.states, "samples", "normal", "stops", "balanced", "unassociated", "truncated", "unanswerable"
    )
    return found | total(points.threshold.told, "xoff_frames", "xon_frames", "refresh_frames")
