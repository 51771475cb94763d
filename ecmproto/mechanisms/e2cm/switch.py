"""The E²CM congestion points of a port as they are driven (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.formats.text import cpid
from ecmproto.kernel import expanded, inlined
from ecmproto.mechanisms.aimd.parameters import PRIORITIES, WEIGHT_DENOMINATOR
from ecmproto.mechanisms.aimd.sampling import Sampler
from ecmproto.mechanisms.cpid import NO_CPID, signed_cpid
from ecmproto.mechanisms.e2cm.congestion_point import (
    REGULAR,
    SATURATED,
    SEVERE,
    Feedback,
    Point,
    Settings,
    State,
    count_arrival,
    sample,
    settings_record,
    start,
)
from ecmproto.mechanisms.e2cm.parameters import CongestionPointParameters
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import Place
from ecmproto.mechanisms.protocol import Arrival, Outbox, post
from ecmproto.record import new_records
from ecmproto.structs import Draws, Struct

BCN_KIND, BCN_MAX_KIND, BCN_ZERO_KIND = REGULAR, SATURATED, SEVERE

_KINDS_OF_FRAMES = 2


class Points(Struct):
    """The congestion points of a port, one for each priority."""

    meters: Sequence[State]
    samplers: Sequence[Sampler]
    """By priority, for frames that are not rate limited and for those that are."""
    enabled: NDArray[np.bool_]
    settings: Settings
    generator: Draws

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count a frame, enqueued or dropped; post a message, or a silent sample, if it was sampled."""
        priority = arrival.priority
        if not (arrival.sampled and self.enabled[priority]):
            return
        tagged = 1 if arrival.tagged else 0
        point, octets, qlen_octets = _point(self, priority), arrival.octets, arrival.qlen_octets
        if not count_arrival(point, self.settings, tagged, octets, qlen_octets, arrival.enqueued):
            return
        tag_cpid = arrival.tag if arrival.tagged else NO_CPID
        found = sample(point, self.settings, self.generator, tagged, qlen_octets, tag_cpid)
        message = post(outbox, found.kind, arrival.now_ns, arrival.station, arrival.flow, priority)
        message.qlen_octets = qlen_octets
        message.qoff_octets = found.qoff_octets
        message.qdelta_octets = found.qdelta_octets
        message.fb_octets = feedback_octets(self.settings, found)
        message.cpid = point.meter.cpid
        message.q = found.q
        message.q_off = found.q_off
        message.q_delta = found.q_delta
        if arrival.tagged:
            message.tagged = 1
            message.timestamp = arrival.mark & 0xFFFF
            message.unit = arrival.mark >> 16
        if message.sent == 1 and not arrival.answerable:
            message.sent = 0
            point.meter.unanswerable += 1

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


@expanded
def _point(points: Points, priority: int) -> Point:
    first = priority * _KINDS_OF_FRAMES
    return Point(points.meters[priority], points.samplers[first : first + _KINDS_OF_FRAMES])


@inlined
def feedback_octets(settings: Settings, found: Feedback) -> float:
    """Return Fb = −(Qoff + w·Qdelta) of the clamped values; BCN_ZERO's is the least there is."""
    qoff, qdelta = found.qoff_octets, found.qdelta_octets
    if found.kind == SEVERE:
        qoff, qdelta = settings.meter.qeq_octets, 2 * settings.meter.qeq_octets
    return -(qoff * WEIGHT_DENOMINATOR + settings.meter.weight_8 * qdelta) / WEIGHT_DENOMINATOR


def new_points(parameters: CongestionPointParameters, place: Place, generator: np.random.Generator) -> Points:
    """Return the congestion points of a port, started; priorities that are not enabled stay silent."""
    points = Points(
        new_records(State, PRIORITIES),
        new_records(Sampler, PRIORITIES * _KINDS_OF_FRAMES),
        np.isin(np.arange(PRIORITIES), list(parameters.enabled)),
        settings_record(parameters),
        Draws(generator),
    )
    for priority in sorted(parameters.enabled):
        first = priority * _KINDS_OF_FRAMES
        samplers = points.samplers[first : first + _KINDS_OF_FRAMES]
        points.meters[priority].cpid = signed_cpid(cpid(place.cp_mac, priority + 1))
        start(Point(points.meters[priority], samplers), points.settings, points.generator)
    return points
