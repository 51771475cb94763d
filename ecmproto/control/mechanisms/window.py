"""Windows of octets in flight, which HPCC and Swift share: acknowledged octets, time-outs and counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER, Message, NullReactionPoints
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import columns, new_records

SEQUENCES = 1 << 32
"""Number of values of a sequence number in octets."""
STALE = -1


class Window:
    """Record of the octets of one flow (``kernels.record``)."""

    started: int
    """1 from the first frame on, otherwise 0."""
    next_octets: int
    """Number of octets sent so far (snd_nxt)."""
    acked_octets: int
    progress_ns: int
    """Time of the last acknowledgement, or of the first frame in flight."""


class WindowStation:
    """Record of a station's timer and counters."""

    due_ns: int
    acks: int
    unknown_flow: int
    """Number of acknowledgements ignored because the flow has not sent any frames."""
    stale: int
    """Number of acknowledgements of octets that were acknowledged before or never sent."""
    timeouts: int


@inlined
def send(station: WindowStation, window: Window, octets: int, timeout_ns: int, now_ns: int) -> None:
    """Count a sent frame, and start the timer of the octets in flight."""
    if window.next_octets == window.acked_octets:
        window.progress_ns = now_ns
    station.due_ns = min(station.due_ns, window.progress_ns + timeout_ns)
    window.next_octets += octets


@inlined
def acknowledged(station: WindowStation, window: Window, seq: int, now_ns: int) -> int:
    """Return the number of octets that an acknowledgement adds to the acknowledged octets, or STALE."""
    added = (seq - window.acked_octets) % SEQUENCES
    if window.acked_octets + added > window.next_octets:
        station.stale += 1
        return STALE
    window.acked_octets += added
    window.progress_ns = now_ns
    return added


@compiled
def times_out(station: WindowStation, window: Window, timeout_ns: int, now_ns: int) -> bool:
    """Treat the octets in flight as lost after the timeout. Otherwise, continue the timer of the station."""
    if window.next_octets == window.acked_octets:
        return False
    if now_ns - window.progress_ns < timeout_ns:
        station.due_ns = min(station.due_ns, window.progress_ns + timeout_ns)
        return False
    window.acked_octets = window.next_octets
    station.timeouts += 1
    return True


_Station = TypeVar("_Station", bound=WindowStation)
_Window = TypeVar("_Window", bound=Window)


def new_windows(
    station: type[_Station], window: type[_Window], max_flows: int, context: PortContext
) -> tuple[Sequence[_Station], Sequence[_Window], int]:
    """Return the records of all stations, the windows of their flows, and their number per station."""
    slots_each = min(max_flows, max(1, context.flows))
    points = new_records(station, context.stations)
    columns(points)["due_ns"] = NEVER_NS
    return points, new_records(window, context.stations * slots_each), slots_each


class WindowStations(NullReactionPoints):
    """Reaction points of all stations, with the same number of consecutive records per station."""

    points: Sequence[WindowStation]
    slots: Sequence[Window]
    slots_each: int

    def limiters(self) -> int:
        """Return the number of flows that a station distinguishes."""
        return self.slots_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of ``flow``; all flows beyond the table share the last limiter."""
        return NO_LIMITER if flow < 0 else min(flow, self.slots_each - 1)

    def next_station_timer_ns(self, station: int) -> int:
        """Return a lower bound of the next time at which an acknowledgement is overdue."""
        return self.points[station].due_ns


@inlined
def slot_of(stations: WindowStations, message: Message) -> int:
    """Return the slot of an acknowledged flow, or NO_LIMITER for a flow that has not sent any frames."""
    point = stations.points[message.station]
    point.acks += 1
    slot = message.station * stations.slots_each + min(message.flow, stations.slots_each - 1)
    if message.flow < 0 or stations.slots[slot].started == 0:
        point.unknown_flow += 1
        return NO_LIMITER
    return slot
