"""The reaction points of many stations as they are driven: what mechanisms share.

A mechanism derives its own from :class:`Stations` and adds what is left of `ecmproto.mechanisms.protocol`:
``sent`` and ``heed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ecmproto.codec import Ethernet, Frame
from ecmproto.kernel import compiled, expanded
from ecmproto.mechanisms.aimd.departure import depart
from ecmproto.mechanisms.aimd.limiters import (
    Limiter,
    Limiters,
    Point,
    TableSettings,
    join,
    new_limiters,
    route,
)
from ecmproto.mechanisms.aimd.parameters import ReactionPointParameters
from ecmproto.mechanisms.aimd.tags import outer_vlan, priority_of
from ecmproto.mechanisms.aimd.timers import next_timer_ns, on_timer
from ecmproto.mechanisms.limiter import leaves_ns
from ecmproto.mechanisms.machine import AboutFlow, FlowHash, FlowKey, Place, total
from ecmproto.mechanisms.protocol import NO_LIMITER, Departure, Sent
from ecmproto.record import columns, new_records, record_dtype
from ecmproto.structs import Draws, Struct

_Settings = TypeVar("_Settings", bound=TableSettings)
_Stations = TypeVar("_Stations", bound="Stations[Any]")

_NO_COUNTERS = ("active", "span", "tick_ns", "expires_ns")
"""What else a point's record holds."""


class Stations(Struct, Generic[_Settings]):
    """The reaction points of stations, their records one station after the other."""

    points: Sequence[Point]
    slots: Sequence[Limiter]
    slots_each: int
    timestamp_unit: int
    """Of timestamps in tags, 0 where there are none."""
    settings: _Settings
    generator: Draws

    def limiters(self) -> int:
        """Return how many limiters a station has, the coarse ones included."""
        return self.slots_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of ``flow``, its own or its priority's."""
        return route(limiters_at(self, station), flow, priority)

    def join(self, station: int, limiter: int) -> None:
        """Take note that a frame queues behind ``limiter``."""
        join(limiters_at(self, station), limiter)

    def leaves_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return when the head of the queue may leave."""
        return leaves_ns(self.slots[station * self.slots_each + limiter], now_ns)

    def timer_ns(self, station: int) -> int:
        """Return when the first timer of the station's limiters is due."""
        return next_timer_ns(limiters_at(self, station))

    def expire(self, station: int, now_ns: int) -> None:
        """Let the timers that are due expire."""
        on_timer(limiters_at(self, station), self.settings, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the limiter's current rate."""
        return self.slots[station * self.slots_each + limiter].rate_bps

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return RTTavg (S000), NO_AVERAGE before the first sample and where tags have no timestamps."""
        return self.slots[station * self.slots_each + limiter].rtt_average_ns


@expanded
def limiters_at(stations: Stations[_Settings], station: int) -> Limiters:
    """Return the limiters of ``station``."""
    slot = station * stations.slots_each
    return Limiters(stations.points[station], stations.slots[slot : slot + stations.slots_each])


@compiled
def send(stations: Stations[_Settings], departure: Departure, tag_octets: int, mark: int) -> Sent:
    """Let a frame leave a station, with a tag of ``tag_octets`` if a limiter let it through.

    The tag names the limiter's congestion point, replaces one that the frame brought, which is counted, and
    is part of what the limiter counts.
    """
    if departure.limiter == NO_LIMITER:
        return Sent(departure.tagged, departure.tag, departure.mark, 0)
    limiters = limiters_at(stations, departure.station)
    # Before it leaves: a limiter that it releases has no congestion point any more.
    cpid = limiters.slots[departure.limiter].cpid
    added = tag_octets
    if departure.tagged:
        limiters.point.replaced_tags += 1
        added = 0
    depart(limiters, stations.settings, departure.limiter, departure.now_ns, departure.octets + added)
    return Sent(True, cpid, mark, added)


def new_stations(
    kind: type[_Stations],
    parameters: ReactionPointParameters,
    settings: TableSettings,
    place: Place,
    generator: np.random.Generator,
    *,
    timestamp_unit: int = 0,
) -> _Stations:
    """Return the stations of ``place`` at time 0, without active limiters.

    Fine limiters beyond the flows that a station can have would never be used; they are left out.
    """
    one = new_limiters(Limiter, min(parameters.limiters, max(place.flows, 0)), settings, 0)
    point: Any = one.point
    points = new_records(Point, place.stations)
    columns(points)[:] = np.asarray(point)
    slots = new_records(Limiter, place.stations * len(one.slots))
    columns(slots)[:] = np.tile(columns(one.slots), place.stations)
    return kind(points, slots, len(one.slots), timestamp_unit, settings, Draws(generator))


def flow_key_of(parameters: ReactionPointParameters) -> FlowKey:
    """Return what makes frames of one station one flow; all of them have the station's source address."""
    return FlowKey(
        vlan=parameters.key_vlan, dst=parameters.key_dst, priority=parameters.key_priority, cn_tag=False
    )


def flow_hash_of(parameters: ReactionPointParameters) -> FlowHash:
    """Return what stands for a flow's key."""
    return FlowHash(parameters.hash_bits, parameters.key_src)


def about_flow(sampled: Frame) -> AboutFlow:
    """Return what the headers of a sampled frame tell of its flow."""
    vlan = outer_vlan(sampled)
    return AboutFlow(
        destination=sampled[Ethernet].dst,
        vlan=None if vlan is None else vlan.id,
        priority=priority_of(sampled),
    )


def station_counters(stations: Stations[Any]) -> dict[str, int]:
    """Return what the reaction points have counted together, by name."""
    names = record_dtype(Point).names or ()
    return total(stations.points, *(name for name in names if name not in _NO_COUNTERS))


def rtt_gauges(slots: Sequence[Limiter]) -> dict[str, float]:
    """Return the mean over limiters of their average round-trip times; nothing where none has one."""
    average_ns = columns(slots)["rtt_average_ns"]
    known_ns = average_ns[average_ns >= 0]
    return {"rtt_average_ns": float(known_ns.mean())} if len(known_ns) else {}
