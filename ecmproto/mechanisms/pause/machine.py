"""PAUSE and PFC as replay, laboratory and live drive them (`ecmproto.mechanisms.protocol`).

The congestion point alone: stations obey beneath any mechanism (`ecmproto.mechanisms.pause.gate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import compiled
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import Machine, Place, SampledFrame, total
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.pause.generation import (
    CLASSES,
    Meter,
    Settings,
    Signal,
    State,
    demand,
    judge,
    next_timer_ns,
    on_timer,
    settings_record,
)
from ecmproto.mechanisms.pause.messages import flow_control_frame
from ecmproto.mechanisms.pause.parameters import GenerationParameters
from ecmproto.mechanisms.pause.reaction import ALL_PRIORITIES
from ecmproto.mechanisms.protocol import (
    EVERY_STATION,
    PAUSE_KIND,
    PFC_KIND,
    Arrival,
    CongestionPoint,
    Message,
    Outbox,
    Receivers,
    Senders,
    has_room,
    post,
)
from ecmproto.record import new_record, new_records
from ecmproto.structs import Struct


class Clock:
    """When stops are refreshed; a record (``ecmproto.record``)."""

    stops: int
    """How many classes are stopped, of all links."""
    refresh_ns: int
    """While that is not 0: no stop is due before this."""


class Point(Struct):
    """The occupancy of a port against the marks, by input and class or by class alone.

    ``octets`` and ``meters`` have CLASSES entries for each link of ``links``, one link after the other.  A
    link is a station's, or all of them together.
    """

    octets: NDArray[np.int64]
    meters: Sequence[Meter]
    links: Sequence[State]
    clock: Clock
    settings: Settings
    kind: int
    by_priority: bool
    """Whether classes are priorities; else there is class 0 alone."""
    by_station: bool
    """Whether each station's frames count by themselves, and it alone is stopped."""

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued frame; post XOFF if that exceeds the high mark."""
        if arrival.enqueued:
            _change(self, arrival.now_ns, arrival.station, arrival.priority, arrival.octets, outbox)

    def forwarded(self, priority: int, tag: int) -> int:
        """Return the tag as it came."""
        return tag

    def left(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Take the frame off; post XON if that reaches the low mark."""
        _change(self, now_ns, station, priority, -octets, outbox)

    def tick_ns(self) -> int:
        """Return when the next refresh may be due: never later than it is."""
        return self.clock.refresh_ns if self.clock.stops > 0 else NEVER_NS

    def tick(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Refresh the stops that are due."""
        _refresh(self, now_ns, outbox)


@compiled
def _change(point: Point, now_ns: int, station: int, priority: int, octets: int, outbox: Outbox) -> None:
    """Let the occupancy of a link grow or shrink by a frame, and tell its stations what changed."""
    link = station if point.by_station else 0
    if link < 0:
        return
    number = priority if point.by_priority else 0
    index = link * CLASSES + number
    point.octets[index] += octets
    change = judge(point.meters[index], point.settings, point.octets[index])
    if change == 0:
        return
    signal = demand(point.links[link], point.settings, now_ns, number, change)
    if signal.enable_vector == 0:
        return
    if point.clock.stops == 0:
        # Later stops are due later: this is the first until it has been refreshed.
        point.clock.refresh_ns = point.links[link].refresh_ns[number]
    point.clock.stops += change
    _tell(point, now_ns, link, number, signal, outbox)


@compiled
def _refresh(point: Point, now_ns: int, outbox: Outbox) -> None:
    first_ns = NEVER_NS
    for link in range(len(point.links)):
        due_ns = next_timer_ns(point.links[link])
        if due_ns <= now_ns:
            if not has_room(outbox, 1):
                return
            signal = on_timer(point.links[link], point.settings, now_ns)
            _tell(point, now_ns, link, _lowest(signal.enable_vector), signal, outbox)
            due_ns = next_timer_ns(point.links[link])
        first_ns = min(first_ns, due_ns)
    point.clock.refresh_ns = first_ns


@compiled
def _tell(point: Point, now_ns: int, link: int, number: int, signal: Signal, outbox: Outbox) -> None:
    station = link if point.by_station else EVERY_STATION
    message = post(outbox, point.kind, now_ns, station, -1, number)
    message.qlen_octets = point.octets[link * CLASSES + number]
    message.enable_vector = signal.enable_vector if point.by_priority else ALL_PRIORITIES
    message.quanta = signal.quanta


@compiled
def _lowest(enable_vector: int) -> int:
    number = 0
    while not (enable_vector >> number) & 1:
        number += 1
    return number


class FlowControlMachine(Machine):
    """PAUSE or PFC with its parameters set; no mechanism by itself.

    A message's ``priority`` is its class, the lowest if it refreshes several; its ``qlen_octets`` the
    occupancy that was judged: of the station's frames at the port, or of all.
    """

    kind: int
    by_priority: bool

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: GenerationParameters = parameters[Role.CONGESTION_POINT]
        self.knows_stations = self._cp.pause_on == "input"

    def congestion_point(self, place: Place, generator: np.random.Generator) -> CongestionPoint:
        """Return the port's occupancy, watched against the marks; nothing is stopped."""
        links = place.stations if self.knows_stations else 1
        return Point(
            octets=np.zeros(links * CLASSES, np.int64),
            meters=new_records(Meter, links * CLASSES),
            links=new_records(State, links),
            clock=new_record(Clock),
            settings=settings_record(self._cp, rate_bps=place.link_rate_bps),
            kind=self.kind,
            by_priority=self.by_priority,
            by_station=self.knows_stations,
        )

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the PAUSE or PFC frame; ``about`` has no part in it."""
        return flow_control_frame(message, src=place.cp_mac, ethertypes=place.ethertypes)

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return how many frames the congestion point has sent."""
        if not isinstance(machine, Point):
            return {}
        return total(machine.links, "xoff_frames", "xon_frames", "refresh_frames")


class PauseMachine(FlowControlMachine):
    """PAUSE with its parameters set."""

    kind = PAUSE_KIND
    by_priority = False


class PFCMachine(FlowControlMachine):
    """PFC with its parameters set."""

    kind = PFC_KIND
    by_priority = True
