"""The E²CM reaction points of many stations as they are driven (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ecmproto.kernel import expanded
from ecmproto.mechanisms.aimd.limiters import NO_LIMITER, Limiter, Limiters, Point, join, route
from ecmproto.mechanisms.aimd.timers import next_timer_ns, on_timer
from ecmproto.mechanisms.e2cm.messages import Message as Feedback
from ecmproto.mechanisms.e2cm.probing import NO_LATENCY, ProbeCounters, Probing
from ecmproto.mechanisms.e2cm.reaction_parameters import OWN_PRIORITY, ReactionPointParameters
from ecmproto.mechanisms.e2cm.reaction_point import (
    Settings,
    Source,
    depart,
    new_source,
    pass_by,
    probe_on_timer,
    receive,
    receive_reply,
    settings_record,
)
from ecmproto.mechanisms.e2cm.receivers import REPLY_KIND
from ecmproto.mechanisms.e2cm.switch import BCN_KIND, BCN_ZERO_KIND
from ecmproto.mechanisms.ecm.reaction_point import ticks
from ecmproto.mechanisms.limiter import leaves_ns
from ecmproto.mechanisms.machine import Place
from ecmproto.mechanisms.protocol import PROBE_KIND, Departure, Message, Outbox, Sent, post
from ecmproto.record import columns, new_records
from ecmproto.structs import Draws, Struct

TAG_OCTETS = 16
"""What a CM-Tag adds to a frame."""
UNIT_SHIFT = 16
"""The mark of a frame is the tag's unit above the 16 bits of its timestamp."""

_TIMESTAMPS = 2**32


class Stations(Struct):
    """The reaction points of stations, their records one station after the other."""

    points: Sequence[Point]
    slots: Sequence[Limiter]
    counters: Sequence[ProbeCounters]
    probings: Sequence[Probing]
    slots_each: int
    probings_each: int
    """Flows of a station that can be probed: its first ones."""
    timestamp_unit: int
    probe_priority: int
    settings: Settings
    generator: Draws

    def limiters(self) -> int:
        """Return how many limiters a station has, the coarse ones included."""
        return self.slots_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of ``flow``, its own or its priority's."""
        return route(_limiters(self, station), flow, priority)

    def join(self, station: int, limiter: int) -> None:
        """Take note that a frame queues behind ``limiter``."""
        join(_limiters(self, station), limiter)

    def leaves_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return when the head of the queue may leave."""
        return leaves_ns(self.slots[station * self.slots_each + limiter], now_ns)

    def sent(self, departure: Departure, outbox: Outbox) -> Sent:
        """Give a rate-limited frame its CM-Tag; post the probe that follows the frame, if one is due.

        The limiter counts the frame with its tag, and probes not at all.  A probe that is due by time goes
        behind the flow's next frame.
        """
        station, flow, now_ns = departure.station, departure.flow, departure.now_ns
        source = _source(self, station)
        if 0 <= flow < self.probings_each:
            source.probings[flow].priority = departure.priority
        tagged, tag, mark, added = departure.tagged, departure.tag, departure.mark, 0
        if departure.limiter == NO_LIMITER:
            probed = pass_by(source, self.settings, flow, now_ns, departure.octets)
        else:
            # Before it leaves: a limiter that it releases has no congestion point any more.
            tag = self.slots[station * self.slots_each + departure.limiter].cpid
            mark = self.timestamp_unit << UNIT_SHIFT | ticks(now_ns, self.timestamp_unit)
            added = 0 if tagged else TAG_OCTETS
            self.points[station].replaced_tags += 1 if tagged else 0
            tagged = True
            octets = departure.octets + added
            probed = depart(source, self.settings, departure.limiter, now_ns, octets)
        if not probed and self.settings.probe_interval_ns > 0:
            probed = probe_on_timer(source, self.settings, flow, now_ns)
        if probed:
            own = self.probe_priority == OWN_PRIORITY
            priority = departure.priority if own else self.probe_priority
            probe = post(outbox, PROBE_KIND, now_ns, station, flow, priority)
            probe.latency = now_ns % _TIMESTAMPS
        return Sent(tagged, tag, mark, added)

    def heed(self, message: Message, now_ns: int) -> None:
        """React to a congestion point's message, or to a probe's reply."""
        if message.station < 0:
            return
        source = _source(self, message.station)
        if message.kind == REPLY_KIND:
            receive_reply(source, self.settings, message.flow, message.latency, message.throughput, now_ns)
        elif BCN_KIND <= message.kind <= BCN_ZERO_KIND:
            feedback = Feedback(
                message.kind - BCN_KIND,
                message.cpid,
                message.q_off,
                message.q_delta,
                message.q,
                message.timestamp,
                message.unit,
                message.tagged == 1,
            )
            flow, priority = message.flow, message.priority
            receive(source, self.settings, self.generator, feedback, flow, priority, now_ns)

    def timer_ns(self, station: int) -> int:
        """Return when the first timer of the station's limiters is due."""
        return next_timer_ns(_limiters(self, station))

    def expire(self, station: int, now_ns: int) -> None:
        """Let the timers that are due expire."""
        on_timer(_limiters(self, station), self.settings, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the limiter's current rate."""
        return self.slots[station * self.slots_each + limiter].rate_bps

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return RTTavg (S000), NO_AVERAGE before the first sample and where tags have no timestamps."""
        return self.slots[station * self.slots_each + limiter].rtt_average_ns


@expanded
def _limiters(stations: Stations, station: int) -> Limiters:
    slot = station * stations.slots_each
    return Limiters(stations.points[station], stations.slots[slot : slot + stations.slots_each])


@expanded
def _source(stations: Stations, station: int) -> Source:
    probing = station * stations.probings_each
    return Source(
        _limiters(stations, station),
        stations.counters[station],
        stations.probings[probing : probing + stations.probings_each],
    )


def new_stations(
    parameters: ReactionPointParameters, place: Place, generator: np.random.Generator
) -> Stations:
    """Return stations without active limiters, whose paths have ``place.hops`` and unknown flight times.

    Raises ParameterError if the floor is above the initial rate on such a link.
    """
    settings = settings_record(parameters, place.link_rate_bps)
    probed = max(1, min(place.flows, parameters.max_flows))
    one = new_source(replace(parameters, max_flows=probed), settings, 0, congested_hops=place.hops)
    stations = Stations(
        new_records(Point, place.stations),
        new_records(Limiter, place.stations * len(one.limiters.slots)),
        new_records(ProbeCounters, place.stations),
        new_records(Probing, place.stations * probed),
        len(one.limiters.slots),
        probed,
        parameters.timestamp_unit,
        parameters.probe_priority,
        settings,
        Draws(generator),
    )
    point: Any = one.limiters.point
    columns(stations.points)[:] = np.asarray(point)
    columns(stations.slots)[:] = np.tile(columns(one.limiters.slots), place.stations)
    columns(stations.probings)[:] = np.tile(columns(one.probings), place.stations)
    return stations


def set_flight(stations: Stations, flight_ns: int) -> None:
    """Say what latency the unloaded path has, NO_LATENCY if the clocks at its ends are not one.

    It holds for all flows, each from when its probing next starts (algorithms §4, rule 4).
    """
    known_ns = NO_LATENCY if flight_ns == NO_LATENCY else flight_ns % _TIMESTAMPS
    columns(stations.probings)["known_flight_ns"] = known_ns
