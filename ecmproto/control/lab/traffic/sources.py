"""Sources: the flows of an experiment, as driven by the engine, with one event heap for all sources.

The patterns:

- saturating: two frames are in the NIC's queue, and each departure causes another offer
- CBR: frame k is offered ⌈k · bits · 10⁹ / rate⌉ ns after the first frame. Rounding errors do not accumulate
- Bernoulli: a slot is a frame time on the link. Each slot contains a frame with the probability that yields
  the rate. Slots of sources with equal start, link rate and frame length coincide
- Poisson: intervals are exponential
- on and off: frames are offered at the rate during on times. If an on time ends within an interval, the next
  on time continues the interval. The mean rate therefore matches the shares of time, even for short times
- CBR, Bernoulli, Poisson, on and off with a backlog: while the backlog is full, new frames are dropped
- sizes and schedule: flows (bursts) start at their times, wait for earlier flows, and are sent as by
  saturating sources. A flow completes when all of its frames have arrived. The latency of a flow counts from
  its start time. A flow that lost a frame never completes
- schedule after other schedules: burst n also waits until burst n − ``lead`` of each awaited source has
  completed
- sizes over TCP: each connection sends its share of the flows, one flow after another
- capture: each frame is offered at its time since the first captured frame, with its priority. Frames below
  60 octets are padded, and frames that occupy no queue are ignored
- TCP and transactions: `ecmproto.control.lab.traffic.tcp`

A source begins at ``start_ns``, and begins no frame or flow at ``stop_ns`` or later. One generator supplies
all random numbers, in the order of events: equal seeds give equal frames.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.event_heap import (
    EventHeap,
    entry_due_ns,
    first,
    first_ns,
    new_event_heap,
    set_all_due,
    set_due,
)
from ecmproto.control.engine.traffic import BegunFlow, Offers, can_offer, post_begun
from ecmproto.control.lab.model import Flow, Pattern
from ecmproto.control.lab.setup.captured import CapturedFrames, captured_frames
from ecmproto.control.lab.traffic.scoreboard import Scoreboard
from ecmproto.control.lab.traffic.source import (
    LONGEST_NS,
    MAX_FRAME_OCTETS,
    MIN_FRAME_OCTETS,
    FlowTable,
    TrafficSource,
    complete,
    drawn_octets,
    exponential,
    next_arrival,
    next_poisson,
    octets_of,
    offer_data,
    value_of,
)
from ecmproto.control.lab.traffic.tcp import (
    ALGORITHMS,
    Connection,
    Connections,
    connection_count,
    on_tcp_frame,
    on_tcp_frame_left,
    on_tcp_timer,
    parameters_of,
    ring_length,
    set_up_connection,
    tcp_due_ns,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import ParameterError
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import columns, new_records
from ecmproto.kernels.structs import Draws, Random, Struct
from ecmproto.units import NS_PER_S, serialisation_ns

_SATURATING = 0
_CBR = 1
_BERNOULLI = 2
_POISSON = 3
_ON_OFF = 4
_SIZES = 5
_SCHEDULE = 6
_TCP = 7
_CAPTURE = 8
_NUMBERS = {
    Pattern.SATURATING: _SATURATING,
    Pattern.CBR: _CBR,
    Pattern.BERNOULLI: _BERNOULLI,
    Pattern.POISSON: _POISSON,
    Pattern.ON_OFF: _ON_OFF,
    Pattern.SIZES: _SIZES,
    Pattern.SCHEDULE: _SCHEDULE,
    Pattern.TCP: _TCP,
    Pattern.TRANSACTIONS: _TCP,
    Pattern.CAPTURE: _CAPTURE,
}
_OF_A_RATE = (Pattern.CBR, Pattern.BERNOULLI, Pattern.POISSON, Pattern.ON_OFF, Pattern.SIZES)

_IN_FLOWS = (_SIZES, _SCHEDULE)
_DEPENDENT = (Pattern.SIZES, Pattern.TRANSACTIONS)
"""Patterns that draw random numbers at times that depend on the network."""
_FROM_TIMERS = (
    Pattern.SATURATING, Pattern.CBR, Pattern.BERNOULLI, Pattern.POISSON, Pattern.ON_OFF, Pattern.CAPTURE
)  # fmt: skip
"""Patterns whose timers do not depend on the network."""

_IN_NIC = 2
"""Number of frames that a busy source keeps in its NIC: a frame in transmission and a waiting frame."""
_MAX_SLOTS = 1 << 20
"""Maximum number of slots in one step; this limit keeps the exact time within 63 bits."""
_FLIGHTS = 256
"""Maximum number of a source's flows in flight; a power of 2."""
_NO_FLOW = -1
_MAX_SEGMENTS = 1 << 20
_NO_TABLE = FlowTable(
    np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
)


def acts_on_deliveries(flow: Flow) -> bool:
    """Return whether the hosts react to a flow's delivered frames, instead of only counting the frames."""
    pattern = _NUMBERS[flow.pattern]
    return pattern == _TCP or pattern in _IN_FLOWS


class FlowInFlight:
    """Flow of a given size in flight; a record."""

    serial: int
    """Number of the flow at its source; _NO_FLOW for an unused record."""
    octets: int
    began_ns: int
    missing_frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Endpoints of a source in the network: host numbers, flow numbers and path."""

    station: int
    destination: int
    flow: int
    reverse_flow: int = 0
    """Flow number of the replies within the destination."""
    path: int
    link_rate_bps: int
    """Rate of the sending host's link, in bit/s."""


class TrafficSources(Struct):
    """Sources of an experiment (`ecmproto.control.engine.traffic.Sources`)."""

    events: EventHeap
    """Due time of each source."""
    awaited: NDArray[np.int64]
    """Numbers of awaited sources for all sources, and numbers of the sources that each source releases."""
    records: Sequence[TrafficSource]
    flights: Sequence[FlowInFlight]
    table: FlowTable
    connections: Connections
    draws: Draws

    def next_source_ns(self) -> int:
        """Return the time of the source that is due first."""
        return first_ns(self.events)

    def on_source_timer(self, now_ns: int, offers: Offers) -> None:
        """Offer the due frames, in the order of source numbers."""
        while first_ns(self.events) <= now_ns and can_offer(offers):
            index = first(self.events)
            source = self.records[index]
            if source.pattern == _SATURATING or source.pattern in _IN_FLOWS:
                due_ns = _fill_nic(self, index, now_ns, offers)
            elif source.pattern == _TCP:
                on_tcp_timer(self.connections, source, index, self.draws, now_ns, offers)
                due_ns = tcp_due_ns(self.connections.records[source.connection], now_ns)
            elif source.pattern == _CAPTURE:
                at = source.table_at
                source.priority, source.flow = self.table.priority[at], self.table.flow[at]
                offer_data(source, index, self.table.octets[at], 0, offers)
                source.table_at += 1
                next_arrival(self.table, source, self.draws)
                due_ns = source.timer_ns
            else:
                if source.in_nic < source.backlog_frames or source.backlog_frames == 0:
                    offer_data(source, index, source.frame_octets, 0, offers)
                    source.in_nic += 1
                else:
                    source.offered_frames += 1
                    source.offered_octets += source.frame_octets
                    source.excess_frames += 1
                    source.excess_octets += source.frame_octets
                due_ns = _next_frame_ns(source, self.draws)
            set_due(self.events, index, due_ns)

    def on_frame_sent(self, source: int, number: int, now_ns: int, offers: Offers) -> None:
        """Offer another frame if the source keeps its NIC busy."""
        sender = self.records[source]
        if sender.pattern == _TCP:
            _notify_connection(self, source, number, now_ns)
        elif sender.in_nic > 0:
            sender.in_nic -= 1
            if sender.pattern == _SATURATING or sender.pattern in _IN_FLOWS:
                set_due(self.events, source, _fill_nic(self, source, now_ns, offers))

    def on_frame_refused(self, source: int, number: int, now_ns: int) -> None:
        """Count a refused frame; a source that keeps its NIC busy waits for one frame time."""
        sender = self.records[source]
        sender.refused_frames += 1
        if sender.pattern == _TCP:
            _notify_connection(self, source, number, now_ns)
        elif sender.in_nic > 0:
            sender.in_nic -= 1
            if sender.pattern == _SATURATING or sender.pattern in _IN_FLOWS:
                set_due(self.events, source, now_ns + sender.frame_ns)

    def on_frame_delivered(
        self, source: int, number: int, echo: int, is_marked: bool, now_ns: int, offers: Offers
    ) -> None:
        """Count a frame, and a flow that the frame completes; a TCP connection answers the frame."""
        sender = self.records[source]
        if sender.pattern == _TCP:
            on_tcp_frame(
                self.connections, sender, source, number, echo, is_marked, self.draws, now_ns, offers
            )
            _schedule_connection(self, source, now_ns)
            return
        sender.delivered_frames += 1
        sender.delivered_octets += octets_of(number)
        if sender.pattern in _IN_FLOWS:
            serial = value_of(number)
            flight = self.flights[sender.flights + (serial & (_FLIGHTS - 1))]
            if flight.serial == serial:
                flight.missing_frames -= 1
                if flight.missing_frames == 0:
                    flight.serial = _NO_FLOW
                    complete(sender, source, flight.octets, flight.began_ns, now_ns, offers)
                    for at in range(sender.releases, sender.releases_end):
                        set_due(self.events, self.awaited[at], now_ns)

    def on_flow_begun(self, begun: BegunFlow) -> None:
        """Expect the frames of a flow that began in another part of the network."""
        source = self.records[begun.source]
        _expect_flow(self, source, begun.serial, begun.octets, begun.began_ns)


@inlined
def _notify_connection(sources: TrafficSources, index: int, number: int, now_ns: int) -> None:
    """Notify a connection that a frame has left its host."""
    on_tcp_frame_left(sources.connections, sources.records[index], number, now_ns)
    _schedule_connection(sources, index, now_ns)


@inlined
def _schedule_connection(sources: TrafficSources, index: int, now_ns: int) -> None:
    due_ns = tcp_due_ns(sources.connections.records[sources.records[index].connection], now_ns)
    # A later due time needs no update here: the source finds this time when its timer is due.
    if due_ns < entry_due_ns(sources.events, index):
        set_due(sources.events, index, due_ns)


@inlined
def _advance(source: TrafficSource, steps: int) -> None:
    """Advance the source's timer by ``steps`` steps, exactly."""
    rest = source.timer_rest + steps * source.step_rest
    source.timer_ns += steps * source.step_ns
    if rest >= source.step_of:
        source.timer_ns += rest // source.step_of
        rest %= source.step_of
    source.timer_rest = rest


@inlined
def _due_ns(source: TrafficSource) -> int:
    """Return the timer of the source, rounded up to a whole ns."""
    return source.timer_ns + int(source.timer_rest > 0)


@inlined
def _slots_to_frame(source: TrafficSource, draws: Random) -> int:
    """Return the number of slots up to and including the next slot with a frame."""
    if source.log_stay == -math.inf:
        return 1
    empty = math.log(1.0 - draws.random()) / source.log_stay
    return 1 + int(min(empty, float(_MAX_SLOTS) * _MAX_SLOTS))


@compiled
def _to_next_slot(source: TrafficSource, slots: int) -> None:
    """Advance by ``slots`` slots, but not beyond the source's stop."""
    while slots > 0 and _due_ns(source) < source.stop_ns:
        some = min(slots, _MAX_SLOTS)
        _advance(source, some)
        slots -= some


@inlined
def _duration_ns(mean_ns: float, shape: float, draws: Random) -> int:
    """Return an on or off time: Pareto with ``shape``, exponential if 0, constant if negative."""
    if shape < 0.0:
        drawn_ns = mean_ns
    elif shape == 0.0:
        drawn_ns = mean_ns * exponential(draws)
    else:
        # The minimum time is the distribution's scale.
        drawn_ns = mean_ns * (shape - 1.0) / shape * (1.0 - draws.random()) ** (-1.0 / shape)
    return int(min(drawn_ns, LONGEST_NS) + 0.5)


@compiled
def _while_on(source: TrafficSource, draws: Random) -> None:
    """Postpone the next frame by the off time if the source turns off before this frame."""
    while source.pause_ns <= _due_ns(source) < source.stop_ns:
        off_ns = _duration_ns(source.off_ns, source.pareto_shape, draws)
        source.timer_ns += off_ns
        source.pause_ns += off_ns + _duration_ns(source.on_ns, source.pareto_shape, draws)


@compiled
def _next_frame_ns(source: TrafficSource, draws: Random) -> int:
    """Return the time of a source's next frame."""
    if source.pattern == _BERNOULLI:
        _to_next_slot(source, _slots_to_frame(source, draws))
    elif source.pattern == _POISSON:
        next_poisson(source, draws)
    else:
        _advance(source, 1)
        if source.pattern == _ON_OFF:
            _while_on(source, draws)
    due_ns = _due_ns(source)
    return due_ns if due_ns < source.stop_ns else NEVER_NS


@compiled
def _fill_nic(sources: TrafficSources, index: int, now_ns: int, offers: Offers) -> int:
    """Offer frames until the source's NIC is busy; return the time of the next attempt, or NEVER_NS."""
    source = sources.records[index]
    while source.in_nic < _IN_NIC:
        if not can_offer(offers):
            return now_ns
        if source.pattern == _SATURATING:
            if now_ns >= source.stop_ns:
                return NEVER_NS
            octets = source.frame_octets
        else:
            if source.backlog_octets == 0:
                if source.timer_ns > now_ns:
                    return source.timer_ns
                if not _may_begin(sources, source):
                    return NEVER_NS
                _begin_flow(sources, source, index, offers)
            octets = min(source.frame_octets, source.backlog_octets)
            source.backlog_octets -= octets
        source.in_nic += 1
        offer_data(source, index, max(octets, MIN_FRAME_OCTETS), source.serial, offers)
    return NEVER_NS


@inlined
def _may_begin(sources: TrafficSources, source: TrafficSource) -> bool:
    """Return whether all bursts that must precede the source's next burst have completed."""
    for at in range(source.awaits, source.awaits_end):
        if sources.records[sources.awaited[at]].completed <= source.serial - source.lead:
            return False
    return True


@compiled
def _begin_flow(sources: TrafficSources, source: TrafficSource, index: int, offers: Offers) -> None:
    """Begin the flow that has arrived, and set the arrival time of the next flow."""
    if source.pattern == _SCHEDULE:
        size = sources.table.octets[source.table_at]
        source.table_at += 1
    else:
        size = drawn_octets(sources.table, source, sources.draws)
    source.serial += 1
    source.backlog_octets = size
    _expect_flow(sources, source, source.serial, size, source.timer_ns)
    post_begun(offers, index, source.serial, size, source.timer_ns)
    next_arrival(sources.table, source, sources.draws)


@inlined
def _expect_flow(
    sources: TrafficSources, source: TrafficSource, serial: int, octets: int, began_ns: int
) -> None:
    """Enter a flow into the flows in flight, in place of an incomplete earlier flow."""
    flight = sources.flights[source.flights + (serial & (_FLIGHTS - 1))]
    source.incomplete += int(flight.serial != _NO_FLOW)
    flight.serial = serial
    flight.octets = octets
    flight.began_ns = began_ns
    flight.missing_frames = -(-octets // source.frame_octets)


def source_count(flow: Flow) -> int:
    """Return the number of sources of ``flow``: 1, or the number of TCP connections."""
    return max(1, connection_count(flow))


def new_sources(
    flows: Sequence[Flow],
    endpoints: Sequence[Endpoints],
    generator: np.random.Generator,
    *,
    overhead_octets: int = 0,
    captured: Mapping[int, CapturedFrames] | None = None,
) -> TrafficSources:
    """Return the sources of ``flows``; each flow has `source_count` entries in ``endpoints``.

    ``overhead_octets`` is the overhead of a frame on a link. ``captured`` contains capture frames that were
    already read, by source. Raises ParameterError for an invalid flow, such as a flow without the rate that
    its pattern requires.
    """
    of_sources = [flow for flow in flows for _ in range(source_count(flow))]
    if len(of_sources) != len(endpoints):
        raise ValueError(f"{len(of_sources)} sources, but {len(endpoints)} endpoints")
    captured = captured_frames(of_sources) if captured is None else captured
    tables = [_table(flow, captured.get(index)) for index, flow in enumerate(of_sources)]
    rings = [ring_length(flow) if connection_count(flow) else 0 for flow in of_sources]
    flights = [_FLIGHTS if _NUMBERS[flow.pattern] in _IN_FLOWS and not connection_count(flow) else 0
               for flow in of_sources]  # fmt: skip
    sources = _new_stores(tables, rings, flights, generator)
    rows = columns(sources.records)[: len(of_sources)]
    constants = [_constants(*each, overhead_octets) for each in zip(of_sources, endpoints, strict=True)]
    for name in constants[0] if constants else ():
        rows[name] = [each[name] for each in constants]
    rows["table_end"] = np.cumsum([len(table.octets) for table in tables])
    rows["table"][1:] = rows["table_at"][1:] = rows["table_end"][:-1]
    rows["flights"] = np.cumsum(flights) - flights
    rows["connection"] = -1
    ring_at = connection = 0
    due_times_ns = []
    for index, flow in enumerate(of_sources):
        source = sources.records[index]
        due_ns = _first_ns(sources, source, flow)
        if rings[index]:
            source.connection = connection
            set_up_connection(sources.connections, source, flow, ring_at, due_ns)
            ring_at += rings[index]
            connection += 1
        due_times_ns.append(due_ns)
    set_all_due(sources.events, due_times_ns)
    _set_awaited(sources, of_sources)
    return sources


def sources_of_part(
    sources: TrafficSources,
    flows: Sequence[Flow],
    is_own: NDArray[np.bool_],
    generator: np.random.Generator,
) -> TrafficSources:
    """Return a copy of new ``sources`` for a part of a network, which sends only the frames of its hosts.

    The copy also runs the timers of other parts' sources, if these timers do not depend on the network. The
    random numbers are then the same as in an undivided network, and so is the order of frames offered at the
    same time. If other sources draw random numbers, the copy runs only own timers, with the random numbers of
    ``generator``.
    """
    of_sources = [flow for flow in flows for _ in range(source_count(flow))]
    is_run = is_own
    if not any(flow.pattern in _DEPENDENT for flow in of_sources):
        is_run = is_own | np.array([flow.pattern in _FROM_TIMERS for flow in of_sources], np.bool_)
        generator = copy.deepcopy(sources.draws.generator)
    due_ns = sources.events.due_ns[len(sources.events.due_ns) // 2 :][: len(of_sources)]
    events = new_event_heap(max(1, len(of_sources)))
    set_all_due(events, np.where(is_run, due_ns, NEVER_NS))
    tcp = sources.connections
    return TrafficSources(
        events,
        sources.awaited,
        _copied(sources.records),
        _copied(sources.flights),
        sources.table,
        Connections(_copied(tcp.records), _copied(tcp.boards), tcp.segments.copy(), tcp.table),
        Draws(generator),
    )


def _copied(records: Any) -> Any:
    return columns(records).copy()


def _set_awaited(sources: TrafficSources, flows: Sequence[Flow]) -> None:
    """Set, for each source, the awaited sources and the released sources."""
    index_of = {flow.name: index for index, flow in enumerate(flows)}
    awaited = [[index_of[name] for name in flow.after] for flow in flows]
    releases: list[list[int]] = [[] for _ in flows]
    for index, each in enumerate(awaited):
        for before in each:
            releases[before].append(index)
    lists = awaited + releases
    ends = np.cumsum([0, *map(len, lists)])
    rows, count = columns(sources.records)[: len(flows)], len(flows)
    rows["awaits"], rows["awaits_end"] = ends[:count], ends[1 : count + 1]
    rows["releases"], rows["releases_end"] = ends[count:-1], ends[count + 1 :]
    sources.awaited = np.array([index for each in lists for index in each], np.int64)


def _new_stores(
    tables: Sequence[FlowTable],
    rings: Sequence[int],
    flights: Sequence[int],
    generator: np.random.Generator,
) -> TrafficSources:
    """Return sources for ``tables``, with empty records."""
    count = max(1, len(tables))
    all_tables = [each for each in tables if len(each.octets)] or [_NO_TABLE]
    table = FlowTable(
        *(np.concatenate([getattr(each, name) for each in all_tables]) for name in _NO_TABLE.parts())
    )
    count_of_tcp = max(1, sum(1 for ring in rings if ring))
    connections, boards = new_records(Connection, count_of_tcp), new_records(Scoreboard, count_of_tcp)
    in_flight = new_records(FlowInFlight, max(1, sum(flights)))
    columns(in_flight)["serial"] = _NO_FLOW
    return TrafficSources(
        new_event_heap(count),
        np.zeros(0, np.int64),
        new_records(TrafficSource, count),
        in_flight,
        table,
        Connections(connections, boards, np.zeros(max(1, sum(rings)), np.uint8), table),
        Draws(generator),
    )


def _constants(flow: Flow, ends: Endpoints, overhead_octets: int) -> dict[str, float]:
    """Return the constants of the source of ``flow``, by field."""
    _check(flow, ends)
    link_octets = flow.frame_octets + overhead_octets
    bits, rate_bps = 8 * flow.frame_octets, flow.rate_bps
    log_stay = mean_ns = 0.0
    if flow.pattern is Pattern.BERNOULLI:
        chance = rate_bps * link_octets / (ends.link_rate_bps * flow.frame_octets)
        log_stay = math.log1p(-chance) if chance < 1.0 else -math.inf
        bits, rate_bps = 8 * link_octets, ends.link_rate_bps
    if flow.pattern is Pattern.SIZES:
        mean_ns = 8 * NS_PER_S * mean_octets(flow.sizes) * source_count(flow) / rate_bps
    elif flow.pattern in _OF_A_RATE:
        mean_ns = bits * NS_PER_S / rate_bps
    step_of = max(1, rate_bps)
    step_ns, step_rest = divmod(bits * NS_PER_S, step_of)
    return {
        "pattern": _TCP if connection_count(flow) else _NUMBERS[flow.pattern],
        "station": ends.station, "destination": ends.destination,
        "flow": ends.flow, "reverse_flow": ends.reverse_flow, "path": ends.path,
        "priority": flow.priority,
        "frame_octets": flow.frame_octets,
        "frame_ns": serialisation_ns(link_octets, ends.link_rate_bps),
        "stop_ns": NEVER_NS if flow.stop_ns is None else flow.stop_ns,
        "backlog_frames": -(-flow.backlog_octets // flow.frame_octets),
        "on_ns": flow.on_ns, "off_ns": flow.off_ns, "pareto_shape": flow.shape,
        "lead": flow.lead, "log_stay": log_stay, "mean_ns": mean_ns,
        "step_of": step_of, "step_ns": step_ns, "step_rest": step_rest,
    }  # fmt: skip


def _first_ns(sources: TrafficSources, source: TrafficSource, flow: Flow) -> int:
    """Return the first due time of the source of ``flow``."""
    start_ns = flow.start_ns
    if flow.random_start:
        start_ns += int(_period_ns(source, flow) * sources.draws.random())
    source.timer_ns, source.exact_ns = start_ns, float(start_ns)
    if flow.pattern is Pattern.BERNOULLI:
        _to_next_slot(source, _slots_to_frame(source, sources.draws) - 1)
    elif flow.pattern is Pattern.POISSON:
        next_poisson(source, sources.draws)
    elif flow.pattern is Pattern.ON_OFF:
        source.pause_ns = start_ns + _duration_ns(source.on_ns, source.pareto_shape, sources.draws)
        _while_on(source, sources.draws)
    elif flow.pattern in (Pattern.SIZES, Pattern.SCHEDULE, Pattern.CAPTURE):
        next_arrival(sources.table, source, sources.draws)
    due_ns = _due_ns(source)
    return due_ns if due_ns < source.stop_ns else NEVER_NS


def _period_ns(source: TrafficSource, flow: Flow) -> float:
    """Return the period in ns within which a source with a random start begins."""
    if flow.pattern is Pattern.ON_OFF:
        return flow.on_ns + flow.off_ns
    if flow.pattern in (Pattern.SCHEDULE, Pattern.CAPTURE):
        return 0.0
    if flow.pattern is Pattern.BERNOULLI:
        return source.frame_ns
    return source.mean_ns or source.frame_ns


def mean_octets(sizes: Sequence[tuple[int, float]]) -> float:
    """Return the mean of a size distribution that is linear between its points."""
    first_octets, first_share = sizes[0]
    mean = first_octets * first_share
    for (low, low_share), (high, high_share) in pairwise(sizes):
        mean += (high_share - low_share) * (low + high) / 2
    return mean


def _table(flow: Flow, captured: CapturedFrames | None) -> FlowTable:
    """Return the schedule, the size distribution or the captured frames of a flow."""
    octets: list[int] = []
    times_ns: list[int] = []
    shares: list[float] = []
    if captured is not None:
        came_ns = captured.time_ns + flow.start_ns
        return FlowTable(captured.octets, came_ns, np.zeros(len(came_ns)), captured.priority, captured.flow)
    if flow.pattern is Pattern.SIZES:
        octets, shares = [octets for octets, _ in flow.sizes], [share for _, share in flow.sizes]
        times_ns = [0] * len(octets)
    elif flow.pattern is Pattern.SCHEDULE:
        bursts = sorted(flow.bursts)
        octets, times_ns = [octets for _, octets in bursts], [flow.start_ns + ns for ns, _ in bursts]
        shares = [0.0] * len(octets)
    else:
        return _NO_TABLE
    none = np.zeros(len(octets), np.int64)
    return FlowTable(
        np.array(octets, np.int64), np.array(times_ns, np.int64), np.array(shares, np.float64), none, none
    )


def _check(flow: Flow, ends: Endpoints) -> None:
    """Raise ParameterError for a flow that does not fit its pattern."""
    _demand(flow, "frame_octets", MIN_FRAME_OCTETS <= flow.frame_octets <= MAX_FRAME_OCTETS,
            f"{MIN_FRAME_OCTETS} to {MAX_FRAME_OCTETS} octets")  # fmt: skip
    if flow.pattern in _OF_A_RATE:
        _demand(flow, "rate_bps", flow.rate_bps > 0, "more than 0 bit/s")
    if flow.pattern is Pattern.BERNOULLI:
        _demand(flow, "rate_bps", flow.rate_bps <= ends.link_rate_bps, "no more than its link's rate")
    if flow.pattern is Pattern.ON_OFF:
        _demand(flow, "on_ns", flow.on_ns > 0, "more than 0 ns")
        _demand(flow, "off_ns", flow.off_ns >= 0, "0 ns or more")
        _demand(flow, "shape", flow.shape <= 0 or flow.shape > 1, "more than 1, for a finite mean")
    if flow.pattern is Pattern.SIZES:
        octets, shares = [each for each, _ in flow.sizes], [each for _, each in flow.sizes]
        rising = bool(shares) and octets == sorted(octets) and shares == sorted(shares) and octets[-1] > 0
        _demand(
            flow,
            "sizes",
            rising and shares[0] >= 0 and shares[-1] == 1,
            "rising sizes, shares rising to 1",
        )
    if flow.pattern is Pattern.SCHEDULE:
        _demand(flow, "bursts", all(ns >= 0 and octets > 0 for ns, octets in flow.bursts),
                "times from 0 on and more than 0 octets")  # fmt: skip

    if connection_count(flow):
        _check_tcp(flow)


def _check_tcp(flow: Flow) -> None:
    tcp = parameters_of(flow)
    _demand(flow, "tcp", tcp.algorithm in ALGORITHMS, f"one of {', '.join(ALGORITHMS)}")
    _demand(flow, "tcp", 1 <= tcp.initial_window <= tcp.window <= _MAX_SEGMENTS,
            f"an initial window of 1 or more, and a window of up to {_MAX_SEGMENTS}")  # fmt: skip
    _demand(flow, "tcp", 0 < tcp.rto_min_ns <= tcp.rto_max_ns, "an RTO of more than 0 ns, min before max")
    _demand(flow, "tcp", tcp.ack_octets <= MAX_FRAME_OCTETS, f"ACKs of up to {MAX_FRAME_OCTETS} octets")
    if flow.pattern is Pattern.TRANSACTIONS:
        _demand(flow, "request_octets", 0 <= flow.request_octets <= flow.frame_octets, "one frame, or 0")
        _demand(flow, "response_octets", flow.response_octets > 0, "more than 0 octets")


def _demand(flow: Flow, name: str, holds: bool, needed: str) -> None:
    if not holds:
        raise ParameterError(name=f"flow {flow.name}: {name}", needed=needed, got=str(getattr(flow, name)))
