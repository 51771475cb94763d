"""FECN's sources as replay, laboratory and live drive them (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ecmproto.kernel import expanded
from ecmproto.mechanisms.fecn.parameters import SourceParameters
from ecmproto.mechanisms.fecn.reaction_point import (
    TAG_OCTETS,
    Queue,
    Return,
    Settings,
    Source,
    join,
    leave,
    next_timer_ns,
    on_return,
    queue_index,
    route,
    start,
)
from ecmproto.mechanisms.limiter import leaves_ns
from ecmproto.mechanisms.machine import Place, total
from ecmproto.mechanisms.protocol import NO_AVERAGE, NO_LIMITER, Departure, Message, Outbox, Sent
from ecmproto.record import new_records
from ecmproto.structs import Draws, Struct
from ecmproto.units import RATE_INFINITY


class FECNStations(Struct):
    """The sources of stations, their records one station after the other; a limiter is a queue."""

    sources: Sequence[Source]
    queues: Sequence[Queue]
    queues_each: int
    settings: Settings
    generator: Draws

    def limiters(self) -> int:
        """Return how many rate-limited queues a station has."""
        return self.queues_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the queue of ``flow``: no frame of a source goes without one."""
        return route(self.sources[station], queues_of(self.queues, self.queues_each, station), flow, now_ns)

    def join(self, station: int, limiter: int) -> None:
        """Take note that the frame that was routed last queues there; a queue may start anew by it."""
        queues = queues_of(self.queues, self.queues_each, station)
        join(self.sources[station], queues, self.settings, self.generator, limiter)

    def leaves_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return when the head of the queue may leave."""
        return leaves_ns(self.queues[station * self.queues_each + limiter], now_ns)

    def sent(self, departure: Departure, outbox: Outbox) -> Sent:
        """Let the limiter count a frame; tag it, at rate infinity, if the queue's next tag is due."""
        if departure.limiter != NO_LIMITER:
            queue = self.queues[departure.station * self.queues_each + departure.limiter]
            added = 0 if departure.tagged else TAG_OCTETS
            source = self.sources[departure.station]
            if leave(source, queue, self.settings, departure.now_ns, departure.octets, added):
                return Sent(True, RATE_INFINITY, departure.limiter + 1, added)
        return Sent(departure.tagged, departure.tag, departure.mark, 0)

    def heed(self, message: Message, now_ns: int) -> None:
        """Take the rate that a returning frame brings, if the queue that it names serves its flow."""
        queues = queues_of(self.queues, self.queues_each, message.station)
        if message.flow < 0 or queue_index(queues, message.flow) + 1 != message.rlq_id:
            self.sources[message.station].unknown_returns += 1
            return
        returned = Return(message.rlq_id, message.rate)
        on_return(self.sources[message.station], queues, self.settings, returned, now_ns)

    def timer_ns(self, station: int) -> int:
        """Return NEVER_NS."""
        return next_timer_ns(self.sources[station])

    def expire(self, station: int, now_ns: int) -> None:
        """Do nothing: a source has no timers."""

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the queue's current rate."""
        return self.queues[station * self.queues_each + limiter].rate_bps

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return NO_AVERAGE: sources measure no round-trip time."""
        return NO_AVERAGE


@expanded
def queues_of(queues: Sequence[Queue], queues_each: int, station: int) -> Sequence[Queue]:
    """Return the queues of one station, of which each has ``queues_each``."""
    return queues[station * queues_each : (station + 1) * queues_each]


def new_stations(
    parameters: SourceParameters, settings: Settings, place: Place, generator: np.random.Generator
) -> FECNStations:
    """Return sources at their start.

    Flows are numbered densely, so queues beyond a station's flows would stay unused; they are left out.
    """
    each = queues_each(parameters, place)
    sources = new_records(Source, place.stations)
    for source in sources:
        start(source, float(place.link_rate_bps))
    return FECNStations(sources, new_records(Queue, place.stations * each), each, settings, Draws(generator))


def queues_each(parameters: SourceParameters, place: Place) -> int:
    """Return how many queues a station has."""
    return min(parameters.queues, max(1, place.flows))


def station_counters(stations: FECNStations) -> dict[str, int]:
    """Return what the sources have counted together, by name."""
    return total(
        stations.sources, "restarts", "shared_arrivals", "tags", "returns", "infinite_returns",
        "capped_returns", "floored_returns", "unknown_returns",
    )  # fmt: skip
