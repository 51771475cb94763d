"""One run of an experiment: a network on the engine, flows as traffic sources, and the results.

>>> result = simulate(experiment, seed=1)
>>> result.ports, result.flows

Memory grows with the number of frames in the network, and with a limited number of windows.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import flow_table
from ecmproto.control.engine.config import Buffer, LoopConfig, PortConfig, check_seed
from ecmproto.control.engine.event_heap import new_event_heap
from ecmproto.control.engine.frame_pool import NOWHERE, new_queues
from ecmproto.control.engine.gauge import TOTAL, level_times, settle
from ecmproto.control.engine.network import (
    FLOWLET,
    FLOWLET_SLOTS,
    MESSAGE_TYPES,
    MIN_MESSAGE_OCTETS,
    SPRAY,
    Feed,
    FlowCount,
    NetworkState,
    Output,
    Switch,
    carry_messages,
    is_foreign,
    new_network,
    schedule_points,
    set_delays,
    trace_frames,
    with_obeyed,
)
from ecmproto.control.engine.parts import FINISHED, divide
from ecmproto.control.engine.port import NO_LIMIT
from ecmproto.control.engine.statistics import kind_name
from ecmproto.control.lab.model import FRAME_OCTETS, PATHS, Experiment, Flow, Pattern
from ecmproto.control.lab.setup.captured import captured_frames
from ecmproto.control.lab.simulation.changes import Changes
from ecmproto.control.lab.simulation.flow_control import FlowControl, watchdogs
from ecmproto.control.lab.simulation.parts import Division, Part, refused, run_together
from ecmproto.control.lab.simulation.series import (
    MAX_EVENTS,
    Completions,
    Conservation,
    Deadlock,
    FlowControlEvents,
    FlowSeries,
    Levels,
    MessageSeries,
    PortSeries,
    Progress,
    RunResult,
    Watch,
    counters_of,
    levels_of,
)
from ecmproto.control.lab.simulation.trace import Trace
from ecmproto.control.lab.simulation.windows import Windows
from ecmproto.control.lab.simulation.wiring import Wiring, host_mac
from ecmproto.control.lab.traffic.sources import (
    Endpoints,
    TrafficSources,
    acts_on_deliveries,
    new_sources,
    source_count,
    sources_of_part,
)
from ecmproto.control.mechanisms.api.machine import UNKNOWN_NS, Machine, PortContext, SampledFrame, machine_of
from ecmproto.control.mechanisms.api.protocol import (
    CongestionPoint,
    Message,
    NullCongestionPoint,
    Senders,
    reports,
    takes_deliveries,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.lossless import FLOW_CONTROLS
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.errors import SpecError, shown
from ecmproto.frames.batch.tags import tag_layout
from ecmproto.frames.capture import Batch, PcapngWriter
from ecmproto.kernels.record import adjacent, columns, new_record, new_records
from ecmproto.kernels.structs import Draws, method_errors
from ecmproto.wire.codec.tags import ECNField
from ecmproto.wire.formats.ethertypes import DEFAULT

_LARGEST_FLOWS = 4096
_ETHERTYPE = b"\x08\x00"
_FIRST_PORT = 0xCC0001
"""Number of the first port in the addresses of congestion points, which start at 02:00:00:cc:00:01."""
_POINTS, _SENDERS, _RECEIVERS, _SOURCES = range(4)
"""Random streams for congestion points, reaction points, destinations and sources."""
_LOSSES = 7
"""Random stream for losses on links."""
_TURNS = 6
"""Random stream for the first turns of sprayed frames."""


@method_errors()
def simulate(
    experiment: Experiment,
    *,
    seed: int,
    parts: int = 1,
    watch: Watch | None = None,
    trace: str | os.PathLike[str] | PcapngWriter | None = None,
) -> RunResult:
    """Return the result of ``experiment`` with the random numbers of ``seed``.

    The network is divided into ``parts`` parts, which run at the same time (`lab.simulation.parts`).
    ``watch`` receives the progress after each window, and returns whether to continue. All frames on links
    are written to ``trace``, a new pcapng file or an open pcapng writer (`lab.simulation.trace`). Raises
    SpecError or ParameterError for an invalid experiment, OutputError for an unwritable file, and MethodError
    for an exception in a method of the mechanism.
    """
    simulation = Simulation(experiment, seed=seed, parts=parts)
    if trace is None:
        return simulation.run(watch)
    if isinstance(trace, PcapngWriter):
        simulation.trace_to(trace)
        return simulation.run(watch)
    with PcapngWriter(trace, interfaces=()) as writer:
        simulation.trace_to(writer)
        return simulation.run(watch)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector, which would search the many new objects of a large network for cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Simulation:
    """Simulation in progress."""

    @_uncollected()
    def __init__(self, experiment: Experiment, *, seed: int, parts: int = 1) -> None:
        check_seed(seed)
        if parts < 1:
            raise SpecError(where="parts", needed="1 or more", got=str(parts))
        self.experiment = experiment
        self.seed = seed
        self.wiring: Wiring = Wiring(experiment, seed=seed)
        machine, self._flow_control = _machines(experiment)
        self.machine: Machine = machine
        _check_isolated_queue(experiment, machine.isolation)
        self._sources_of = [flow for flow in experiment.flows for _ in range(source_count(flow))]
        self._first_source = np.cumsum([0, *(source_count(flow) for flow in experiment.flows)])
        self._captured = captured_frames(self._sources_of, self.machine)
        self._whole = self._stations_of_captures()
        self._endpoints = self._numbered_flows()
        self._unloaded_ns = [self._path_ns(each) for each in self._endpoints]
        self._division = Division(experiment, self.wiring, parts) if parts > 1 else None
        self._contexts = [self._context(number) for number in range(len(self.wiring.ports))]
        self._points = self._congestion_points(self._contexts)
        self._senders = [self._new_senders(part) for part in range(parts)]
        self._receivers = [
            self.machine.receivers(self._general, self._generator(_RECEIVERS, part)) for part in range(parts)
        ]
        self.sources: TrafficSources = new_sources(
            experiment.flows,
            self._endpoints,
            self._generator(_SOURCES),
            overhead_octets=experiment.overhead_octets,
            captured=self._captured,
        )
        if not isinstance(self.machine.tag, ECNField):
            columns(self.sources.connections.records)["ecn"] = 0
        with adjacent():
            self.network: NetworkState = self._new_network()
        self._parts = [Part(self.network, self._senders[0], self._receivers[0], self.sources)]
        if self._division is not None:
            self._parts = self._divided(self._division)
        self._changes = Changes(experiment, self.wiring, self.network, self._flow_control)
        self._windows = Windows(
            experiment.measure.window_ns,
            rates_bps=[port.rate_bps for port in self.wiring.ports],
            hosts=len(self.wiring.hosts),
            flows=len(experiment.flows),
        )
        self._levels_before: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._levels: list[Levels] = []
        self._completions: list[NDArray[Any]] = []
        self._completed = self._omitted = 0
        self._stops: list[NDArray[Any]] = []
        self._stopped = self._stops_omitted = 0
        self._deadlocks: list[Deadlock] = []
        self._trace: Trace | None = None

    def trace_to(self, writer: PcapngWriter) -> None:
        """Write all frames on links to ``writer``, on new interfaces.

        Raises SpecError for a divided network.
        """
        if self._division is not None:
            raise SpecError(where="parts", needed="1 for a trace of all frames", got=str(len(self._parts)))
        self._trace = Trace(
            writer,
            wiring=self.wiring,
            machine=self.machine,
            contexts=self._contexts,
            general=self._general,
            flows=self._sources_of,
            endpoints=self._endpoints,
        )
        trace_frames(self.network)

    def _stations_of_captures(self) -> set[int]:
        """Return the hosts that send only captured frames; these frames leave at their captured times."""
        captures, others = set(), set()
        for flow in self._sources_of:
            if flow.pattern is Pattern.CAPTURE:
                captures.add(self._station(flow, flow.source))
            else:
                others |= {self._station(flow, end) for end in (flow.source, flow.destination)}
        return captures - others

    def _numbered_flows(self) -> list[Endpoints]:
        """Return the endpoints of each source, and number the flows of hosts.

        Flows of captured frames have separate numbers, after the other flows of their host.
        """
        wiring = self.wiring
        ends = [
            (self._station(flow, flow.source), self._station(flow, flow.destination), flow.priority)
            for flow in self._sources_of
        ]
        frames = [_frame(*end) for end in ends] + [_frame(end[1], end[0], end[2]) for end in ends]
        own_frames = np.array([index not in self._captured for index in range(len(ends))] * 2, np.bool_)
        stations = max(1, len(wiring.hosts))
        table = flow_table(self.machine, stations=stations, flows=_LARGEST_FLOWS)
        batch = Batch.from_frames(frames)
        numbers = table.number(batch.buffer, batch.offset, batch.captured, chosen=own_frames)
        offset = np.zeros(stations, np.int64)
        for (station, destination, _), forward, here in zip(
            ends, numbers.flow, numbers.flow[len(ends) :], strict=False
        ):
            offset[station] = max(offset[station], forward + 1)
            offset[destination] = max(offset[destination], here + 1)
        for index, captured in self._captured.items():
            captured.flow[:] += offset[ends[index][0]]
            offset[ends[index][0]] = 1 + captured.flow.max(initial=offset[ends[index][0]] - 1)
        self._max_flows = max(1, int(offset.max(initial=1)))
        own, back = numbers.flow[: len(ends)], numbers.flow[len(ends) :]
        connections: Counter[str] = Counter()
        endpoints = []
        for index, (flow, (station, destination, _)) in enumerate(zip(self._sources_of, ends, strict=True)):
            connections[flow.name] += 1
            endpoints.append(
                Endpoints(
                    station=station,
                    destination=destination,
                    flow=max(0, int(own[index])),
                    reverse_flow=max(0, int(back[index])),
                    path=wiring.add_route(station, destination, flow.via)
                    if flow.via
                    else zlib.crc32(f"{flow.name} {connections[flow.name]}".encode()),
                    link_rate_bps=wiring.host_lines[station].rate_bps,
                )
            )
        return endpoints

    def _path_ns(self, ends: Endpoints) -> int:
        """Return the time in ns of a probe that follows a full frame on a source's idle path."""
        path = self.wiring.path(ends.station, ends.destination, ends.path)
        return self.wiring.unloaded_ns(ends.station, path, whole=ends.station in self._whole)

    def _flows_of(self, index: int) -> list[int]:
        """Return the flow numbers, within the host, of a source's frames."""
        captured = self._captured.get(index)
        return [self._endpoints[index].flow] if captured is None else np.unique(captured.flow).tolist()

    def _station(self, flow: Flow, host: str) -> int:
        if host not in self.wiring.station_of:
            raise SpecError(where=f"flow {shown(flow.name)}", needed="names of hosts", got=shown(host))
        return self.wiring.station_of[host]

    def _context(self, number: int) -> PortContext:
        port, mac = self.wiring.ports[number], bytes([2, 0]) + (_FIRST_PORT + number).to_bytes(4)
        return dataclasses.replace(self._general, rate_bps=port.rate_bps, cp_mac=mac, flight_ns=UNKNOWN_NS)

    @cached_property
    def _general(self) -> PortContext:
        """Context shared by all hosts."""
        link_rate_bps = self.wiring.link_rate_bps
        return PortContext(
            rate_bps=min((port.rate_bps for port in self.wiring.ports), default=link_rate_bps),
            link_rate_bps=link_rate_bps,
            cp_mac=bytes([2, 0, 0, 0xCC, 0, 1]),
            stations=len(self.wiring.hosts),
            flows=self._max_flows,
            flight_ns=max(self._unloaded_ns, default=0),
            hops=self.experiment.control.hops,
        )

    def _generator(self, stream: int, part: int = 0) -> np.random.Generator:
        """Return the random numbers of a stream; each part of a divided network has its own numbers."""
        return np.random.default_rng([self.seed, stream, part] if part else [self.seed, stream])

    def _new_senders(self, part: int) -> Senders:
        """Return the reaction points of a part, with the path properties of each flow."""
        senders = self.machine.senders(self._general, self._generator(_SENDERS, part))
        for index, (flow, ends) in enumerate(zip(self._sources_of, self._endpoints, strict=True)):
            for number in self._flows_of(index):
                self.machine.set_path(
                    senders,
                    ends.station,
                    number,
                    hops=flow.hops or self.experiment.control.hops,
                    flight_ns=self._unloaded_ns[index],
                )
        return senders

    def _divided(self, division: Division) -> list[Part]:
        """Return the parts of a divided network.

        Raises SpecError if the parts would have to share state.
        """
        division.check_sources(self._sources_of, self._endpoints)
        if reports(self._receivers[0]):
            needed = "a mechanism without reports that change on their whole path,"
            raise refused(needed, self.experiment.control.mechanism)
        delays_ns = self.wiring.message_delays_ns(self.experiment.control.message_delay_ns)
        lookahead_ns = division.lookahead_ns(delays_ns)
        draws = [self._generator(_LOSSES, part) for part in range(division.parts)]
        part_of = np.concatenate([division.of_host, division.of_port])
        of_sources = np.array([division.of_host[each.station] for each in self._endpoints], np.int64)
        columns(self.network.outputs)["next_part"] = division.of_line
        parts = []
        for part, (network, exchange) in enumerate(divide(self.network, part_of, draws, lookahead_ns)):
            generator = self._generator(_SOURCES, part + 1)
            sources = sources_of_part(self.sources, self.experiment.flows, of_sources == part, generator)
            parts.append(Part(network, self._senders[part], self._receivers[part], sources, exchange))
        return parts

    def _congestion_points(self, contexts: list[PortContext]) -> list[CongestionPoint]:
        division, parts = self._division, range(1 if self._division is None else self._division.parts)
        generators = [self._generator(_POINTS, part) for part in parts]
        of_port = [0] * len(contexts) if division is None else division.of_port.tolist()
        chosen, points = set(self.experiment.control.points), []
        names = {switch.name for switch in self.wiring.switches}
        for name in chosen - {port.name for port in self.wiring.ports} - names:
            raise SpecError(where="control.points", needed="a switch or a port", got=shown(name))
        for context, port, part in zip(contexts, self.wiring.ports, of_port, strict=True):
            switch = self.wiring.switches[port.switch].name
            watched = not port.is_adapter and (not chosen or port.name in chosen or switch in chosen)
            point = (
                self.machine.congestion_point(context, generators[part]) if watched else NullCongestionPoint()
            )
            points.append(point)
        return points

    def _new_network(self) -> NetworkState:
        experiment, wiring, control = self.experiment, self.wiring, self.experiment.control
        rate_bps = self.wiring.link_rate_bps
        mechanism = find_mechanism(control.mechanism)
        own = machine_of(mechanism, mechanism.parse(control.parameters))
        config = with_obeyed(LoopConfig(link_rate_bps=rate_bps), own)
        ports = [
            PortConfig(
                rate_bps=port.rate_bps,
                buffer_octets=port.buffer.octets,
                buffer_frames=port.buffer.frames,
                overhead_octets=experiment.overhead_octets,
            )
            for port in wiring.ports
        ]
        network = new_network(
            ports,
            config,
            points=self._points,
            stations=len(wiring.hosts),
            limiters=self._senders[0].limiters(),
            tag_octets=self.machine.tag_octets,
            stack_records=self.machine.stack_records,
            isolation=self.machine.isolation,
            total_only=True,  # `Windows` stores values per window
        )
        network.loop.is_logging = 0
        network.message_octets[:] = self._message_octets()
        self._wire(network)
        self._set_routes(network)
        network.flow_counts = new_records(FlowCount, max(1, len(self._sources_of)))
        network.port_events = new_event_heap(2 * len(wiring.ports) + len(wiring.switches))
        network.lines = new_queues(len(wiring.ports) + len(wiring.switches))
        flow_ends = np.zeros((len(wiring.hosts), self._max_flows), np.int64)
        for index, each in enumerate(self._endpoints):
            flow_ends[each.station, self._flows_of(index)] = each.destination
            if index not in self._captured:
                flow_ends[each.destination, each.reverse_flow] = each.station
        network.flow_ends = flow_ends.reshape(-1)
        network.draws = Draws(self._generator(_LOSSES))
        set_delays(network, wiring.message_delays_ns(control.message_delay_ns))
        if control.in_band:
            carry_messages(network, control.message_priority)
        return network

    def _set_routes(self, network: NetworkState) -> None:
        """Set the routes of all switches, and the method that selects among paths of equal length."""
        of, routes, loop = self.experiment.network, self.wiring.routes, network.loop
        network.routes, network.choices, loop.exits = routes.offsets, routes.choices, routes.exits
        network.forced = np.concatenate([np.zeros(0, np.int64), *self.wiring.forced])
        loop.paths, loop.flowlet_gap_ns = PATHS.index(of.paths), of.flowlet_gap_ns
        if loop.paths == SPRAY:
            draws = np.random.default_rng([self.seed, _TURNS])
            network.turns = draws.integers(1 << 16, size=len(routes.offsets))
        elif loop.paths == FLOWLET:
            slots = len(network.switches) * FLOWLET_SLOTS
            network.turns, network.flowlet_ns = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        links, exit_port = columns(network.links), routes.exit_port
        links["exit"], links["exit_port"] = routes.exit, exit_port
        links["exit_switch"] = columns(network.outputs)["switch"][exit_port]

    def _message_octets(self) -> NDArray[np.int64]:
        """Return the length of each type of message frame, for a sampled frame that exceeds the message's
        excerpt.

        Message frames include the VLAN tag and the CN-TAG of data frames. Data frames have a VLAN tag if any
        flow has a priority.
        """
        octets = np.full(MESSAGE_TYPES, MIN_MESSAGE_OCTETS)
        priority = max((flow.priority for flow in self._sources_of), default=0)
        head = host_mac(1) + host_mac(0) + (_vlan_tag(priority) if priority else b"")
        if tag_layout(self.machine.tag, DEFAULT).is_cn:
            head += DEFAULT.cn_tag.to_bytes(2) + bytes(2)
        head += _ETHERTYPE
        about = SampledFrame(head.ljust(FRAME_OCTETS, b"\0"), FRAME_OCTETS, len(head) - len(_ETHERTYPE))
        message = new_record(Message)
        for kind in self.machine.kinds:
            message.kind = kind
            frame = self.machine.frame(message, about, self._general)
            octets[min(kind, MESSAGE_TYPES - 1)] = len(frame)
        return octets

    def _wire(self, network: NetworkState) -> None:
        """Fill in the records of outputs, switches, feeds and host links."""
        wiring = self.wiring
        outputs = new_records(Output, len(wiring.ports))
        acting = self._acting_stations()
        for output, port in zip(outputs, wiring.ports, strict=True):
            output.switch, output.next_switch, output.input = port.switch, port.next_switch, port.inlet
            output.station, output.delay_ns, output.control = port.station, port.delay_ns, NOWHERE
            output.ends, output.is_adapter = int(port.ends), int(port.is_adapter)
            output.counts_only = int(port.next_switch == NOWHERE and port.station not in acting)
        switches = new_records(Switch, len(wiring.switches))
        feeds = new_records(Feed, sum(len(switch.feeds) for switch in wiring.switches))
        first = 0
        for record, switch in zip(switches, wiring.switches, strict=True):
            record.first_feed, record.feeds = first, len(switch.feeds)
            record.hash_salt, record.first_port = switch.hash_salt, switch.ports[0]
            record.memory_octets, record.memory_frames = _limits(switch.memory)
            for feed, wired in zip(feeds[first : first + len(switch.feeds)], switch.feeds, strict=True):
                feed.station, feed.port = wired.station, wired.port
                feed.back_port, feed.back_station = wired.back_port, wired.back_station
                feed.back_ns = wired.back_ns
                feed.partition_octets, feed.partition_frames = _limits(switch.partition)
            first += len(switch.feeds)
        network.outputs, network.switches, network.feeds = outputs, switches, feeds
        network.watchdogs = watchdogs(self.experiment, wiring)
        if self._flow_control is not None:
            control = FlowControl(self.experiment, wiring, self._flow_control, self.seed)
            control.share_memories(switches)
            network.controls = control.points(outputs)
        for link, line, host in zip(network.links, wiring.host_lines, wiring.hosts, strict=True):
            link.rate_bps, link.to_port_ns = line.rate_bps, line.delay_ns
            link.switch, link.input = line.switch, line.inlet
            link.queue_octets, link.reaction_ns = host.queue_octets, host.reaction_delay_ns
            # Frames of sources always share their host's link; captured frames did fit on one link.
            link.whole, link.shared_ns = 0, NEVER_NS
        for station in self._whole:
            network.links[station].whole, network.links[station].shared_ns = 1, 0
        schedule_points(network)

    def _acting_stations(self) -> set[int]:
        """Return the hosts that do more with received frames than count the frames."""
        control = self.experiment.control
        if control.in_band or takes_deliveries(self._receivers[0]):
            return set(range(len(self.wiring.hosts)))
        ends = zip(self._sources_of, self._endpoints, strict=True)
        acting = [end for flow, end in ends if acts_on_deliveries(flow)]
        return {station for end in acting for station in (end.station, end.destination)}

    def run(self, watch: Watch | None = None) -> RunResult:
        """Run the simulation to its end, or until ``watch`` stops it, and return the result."""
        experiment, measure = self.experiment, self.experiment.measure
        until_ns = min(experiment.duration_ns, measure.until_ns or experiment.duration_ns)
        from_ns = min(measure.from_ns, until_ns)
        now_ns, elapsed_s = 0, 0.0
        if from_ns == 0:
            self._begin_levels(0)
        while now_ns < experiment.duration_ns:
            stops = [self._windows.next_ns(now_ns), experiment.duration_ns]
            stops += [each for each in (from_ns, until_ns) if each > now_ns]
            now_ns = min(*stops, self._changes.next_ns())
            began = time.perf_counter()
            self._advance(now_ns)
            elapsed_s += time.perf_counter() - began
            if now_ns == from_ns:
                self._begin_levels(now_ns)
            if now_ns == until_ns:
                self._end_levels(now_ns)
            if now_ns == experiment.duration_ns or now_ns == self._windows.next_ns(now_ns - 1):
                self._end_window(now_ns)
                if watch is not None and not watch(self._progress(now_ns, elapsed_s)):
                    break
            # Rates change after the window's end, because the transmitted part of a frame had the old rate.
            self._changes.apply(now_ns, self.machine, self._points, self._windows)
        if not self._levels:
            self._end_levels(now_ns)
        if self._trace is not None:
            self._trace.finish()
        return self._result(now_ns, elapsed_s)

    def _progress(self, now_ns: int, elapsed_s: float) -> Progress:
        return Progress(
            now_ns=now_ns,
            duration_ns=self.experiment.duration_ns,
            events=self._events(),
            frames=int(self._flow_counts()["sent_frames"].sum()),
            elapsed_s=elapsed_s,
        )

    def _advance(self, until_ns: int) -> None:
        """Run the network up to, but not including, ``until_ns``."""
        for part in self._parts:
            part.set_end(until_ns)
        if self._division is not None:
            run_together(self._parts)
            self._record()
            return
        (part,) = self._parts
        while True:
            result = part.run(0)
            if self._trace is not None:
                self._trace.drain(self.network)
            part.drain()
            self._record()
            if result == FINISHED:
                return
            part.enlarge()

    def _record(self) -> None:
        """Record the drained completions and PAUSE events of all parts in order of time."""
        drained = [part.taken() for part in self._parts]
        completions = _in_order([each for own, _ in drained for each in own])
        if completions is not None:
            recorded = completions[: max(0, MAX_EVENTS - self._completed)]
            self._completions.append(recorded)
            self._completed += len(recorded)
            self._omitted += len(completions) - len(recorded)
            flows = np.searchsorted(self._first_source, completions["source"], side="right") - 1
            self._windows.complete(flows, completions["latency_ns"])
        events = _in_order([each for _, own in drained for each in own])
        if events is not None:
            recorded = events[: max(0, MAX_EVENTS - self._stopped)]
            self._stops.append(recorded)
            self._stopped += len(recorded)
            self._stops_omitted += len(events) - len(recorded)

    def _begin_levels(self, now_ns: int) -> None:
        self._settle(now_ns)
        self._levels_before = [_nonzero(level_times(port.gauge, TOTAL)) for port in self.network.ports]

    def _end_levels(self, now_ns: int) -> None:
        self._settle(now_ns)
        before = self._levels_before or [_nonzero(np.zeros(0, np.int64))] * len(self.network.ports)
        self._levels = [
            levels_of(port.gauge, own) for port, own in zip(self.network.ports, before, strict=True)
        ]

    def _settle(self, now_ns: int) -> None:
        for port in self.network.ports:
            settle(port.gauge, now_ns)

    def _end_window(self, now_ns: int) -> None:
        network, first = self.network, self._first_source[:-1]
        by_flow = _by_flow(self._flow_counts(), self._source_counts(), first, len(self._sources_of))
        self._windows.add(network, now_ns, by_flow)
        for part in self._parts:
            columns(part.network.flow_counts)["longest_ns"] = 0
        cycle = self._windows.deadlock(self.wiring)
        if cycle and (not self._deadlocks or self._deadlocks[-1].ports != cycle):
            self._deadlocks.append(Deadlock(time_ns=now_ns, ports=cycle))

    def _result(self, now_ns: int, elapsed_s: float) -> RunResult:
        windows = self._windows
        return RunResult(
            experiment=self.experiment,
            seed=self.seed,
            duration_ns=now_ns,
            window_ns=windows.window_ns,
            ports=self._port_series(),
            flows=self._flow_series(),
            messages=self._message_series(),
            flow_control=self._flow_control_events(),
            completions=self._completion_rows(),
            deadlocks=tuple(self._deadlocks),
            conservation=self._conservation(),
            events=self._events(),
            elapsed_s=elapsed_s,
        )

    def _events(self) -> int:
        return sum(int(part.network.loop.events) for part in self._parts)

    def _flow_counts(self) -> NDArray[Any]:
        """Return the counts of each source's frames in all parts."""
        each = [columns(part.network.flow_counts) for part in self._parts]
        if len(each) == 1:
            return each[0]
        total = np.zeros_like(each[0])
        for name in total.dtype.names or ():
            merge = np.maximum if name == "longest_ns" else np.add
            total[name] = merge.reduce([counts[name] for counts in each])
        return total

    def _source_counts(self) -> NDArray[Any]:
        """Return the counters of each source, which its part and its destination's part have counted."""
        each = [columns(part.sources.records) for part in self._parts]
        if self._division is None:
            return each[0]
        total, rows = each[0].copy(), np.arange(len(self._endpoints))
        senders = self._division.of_host[[ends.station for ends in self._endpoints]]
        receivers = self._division.of_host[[ends.destination for ends in self._endpoints]]
        for names, of in ((_COUNTERS_OF_SENDER, senders), (_COUNTERS_OF_RECEIVER, receivers)):
            for name in names:
                total[name][rows] = np.array([records[name] for records in each])[of, rows]
        return total

    def _port_series(self) -> tuple[PortSeries, ...]:
        windows, series = self._windows, []
        uplinks = set(self.wiring.routes.uplinks.tolist())
        for number, port in enumerate(self.wiring.ports):
            watched = type(self._points[number]) is not NullCongestionPoint
            control = int(self.network.outputs[number].control)
            xoff_octets = greatest_octets = None
            if control != NOWHERE:
                point: Any = self.network.controls[control]
                settings = columns(point.settings)
                dynamic_octets = (settings["alpha"] * settings["shared_octets"]).astype(np.int64)
                high_octets = np.where(settings["alpha"] > 0, dynamic_octets, settings["high_octets"])
                peak_octets = windows.of_port("peak_octets", number).max(initial=0, keepdims=True)
                if point.by_station:
                    record = self.network.switches[port.switch]
                    feeds = self.network.feeds[record.first_feed : record.first_feed + record.feeds]
                    peak_octets = columns(feeds)["peak_octets"]
                nearest = int(np.argmax(peak_octets / high_octets))
                xoff_octets, greatest_octets = int(high_octets[nearest]), int(peak_octets[nearest])
            series.append(
                PortSeries(
                    name=port.name,
                    kind="adapter" if port.is_adapter else "switch",
                    buffer_octets=0 if port.buffer.frames else port.buffer.octets,
                    buffer_frames=port.buffer.frames,
                    is_uplink=number in uplinks,
                    is_watched=watched,
                    set_point_octets=self.machine.set_point_octets if watched else None,
                    xoff_octets=xoff_octets,
                    greatest_input_octets=greatest_octets or 0,
                    octet_ns=windows.of_port("octet_ns", number),
                    line_octets=windows.of_port("line_octets", number).astype(np.float64),
                    service_bps=windows.service_bps(number),
                    levels=self._levels[number],
                    **_counters(windows.of_port, number, _COUNTERS_OF_PORT),
                )
            )
        for station, line in enumerate(self.wiring.host_lines):
            series.append(
                PortSeries(
                    name=line.name,
                    kind="host",
                    octet_ns=np.zeros(windows.count),
                    line_octets=np.zeros(windows.count),
                    service_bps=np.full(windows.count, float(line.rate_bps)),
                    **_counters(windows.of_host, station, _COUNTERS_OF_HOST),
                )
            )
        return tuple(series)

    def _flow_series(self) -> tuple[FlowSeries, ...]:
        wiring, series = self.wiring, []
        names = counters_of(FlowSeries, "Integers", "Floats")
        for number, flow in enumerate(self.experiment.flows):
            end = self._endpoints[int(self._first_source[number])]
            ports = wiring.path(end.station, end.destination, end.path)
            series.append(
                FlowSeries(
                    name=flow.name,
                    group=flow.group or flow.name,
                    source=flow.source,
                    destination=flow.destination,
                    path=(wiring.host_lines[end.station].name, *(wiring.ports[port].name for port in ports)),
                    **{name: self._windows.of_flow(name, number) for name in names},
                )
            )
        return tuple(series)

    def _message_series(self) -> tuple[MessageSeries, ...]:
        names = [port.name for port in self.wiring.ports] + [host.name for host in self.wiring.hosts]
        return tuple(
            MessageSeries(
                port=names[sender],
                kind=kind_name(self.machine, kind),
                frames=frames,
                octets=frames * int(self.network.message_octets[kind]),
            )
            for sender, kind, frames in self._windows.messages()
        )

    def _flow_control_events(self) -> FlowControlEvents:
        if not self._stops:
            return FlowControlEvents()
        events = np.concatenate(self._stops)
        hosts, ports = len(self.wiring.hosts), len(self.wiring.ports)
        station = events["station"]
        return FlowControlEvents(
            time_ns=events["time_ns"].copy(),
            port=np.where(station >= hosts, station - hosts, ports + station),
            priority=events["priority"].copy(),
            stops=events["stops"] == 1,
            omitted=self._stops_omitted,
        )

    def _completion_rows(self) -> Completions:
        if not self._completions:
            return Completions()
        rows = np.concatenate(self._completions)
        flows = np.searchsorted(self._first_source, rows["source"], side="right") - 1
        return Completions(
            flow=flows,
            start_ns=rows["time_ns"] - rows["latency_ns"],
            end_ns=rows["time_ns"].copy(),
            octets=rows["octets"].copy(),
            omitted=self._omitted,
        )

    def _conservation(self) -> Conservation:
        counts = self._flow_counts()
        return Conservation(
            sent_frames=int(counts["sent_frames"].sum()),
            received_frames=int(counts["delivered_frames"].sum()),
            dropped_frames=int(counts["dropped_frames"].sum()),
            in_flight_frames=sum(_frames_in_flight(part.network) for part in self._parts),
        )


_COUNTERS_OF_PORT = {"paused_ns": "stopped_ns"}
_COUNTERS_OF_HOST = {"paused_ns": "stopped_ns", "peak_octets": "queue_octets", "level_octets": "queue_octets"}
"""Names of counters that differ between series and samples; hosts have only a few counters."""
_COUNTERS_OF_SENDER = ("offered_frames", "offered_octets", "excess_frames", "excess_octets")
_COUNTERS_OF_RECEIVER = ("delivered_frames", "delivered_octets")


def _counters(
    column: Callable[[str, int], NDArray[Any]], number: int, renamed: Mapping[str, str]
) -> dict[str, Any]:
    """Return the counters for the series of a port or host."""
    return {name: column(renamed.get(name, name), number) for name in counters_of(PortSeries, "Integers")}


def _machines(experiment: Experiment) -> tuple[Machine, str | None]:
    """Return the mechanism's state machine, and the name of the additional flow control."""
    control = experiment.control
    if control.mechanism in FLOW_CONTROLS:
        none = find_mechanism("none")
        return machine_of(none, none.parse([])), control.mechanism
    mechanism = find_mechanism(control.mechanism)
    return machine_of(mechanism, mechanism.parse(control.parameters)), control.flow_control


def _check_isolated_queue(experiment: Experiment, isolation: tuple[int, int] | None) -> None:
    """Raise SpecError if a flow has the priority of the isolated queue."""
    for flow in experiment.flows:
        if isolation is not None and flow.priority == isolation[1]:
            needed = f"a priority other than {isolation[1]}, the queue of isolated flows"
            raise SpecError(where=f"flow {shown(flow.name)}", needed=needed, got=str(flow.priority))


def _frame(source: int, destination: int, priority: int) -> bytes:
    """Return the start of a frame between two hosts; this start identifies the frame's flow."""
    return host_mac(destination) + host_mac(source) + _vlan_tag(priority) + _ETHERTYPE + bytes(46)


def _vlan_tag(priority: int) -> bytes:
    return bytes([0x81, 0, priority << 5, 0])


def _limits(memory: Buffer | None) -> tuple[int, int]:
    if memory is None:
        return NO_LIMIT, NO_LIMIT
    return (NO_LIMIT, memory.frames) if memory.frames else (memory.octets, NO_LIMIT)


def _nonzero(level_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    steps = np.flatnonzero(level_ns)
    return steps, level_ns[steps]


def _in_order(rows: list[NDArray[Any]]) -> NDArray[Any] | None:
    """Return the drained rows of all parts in order of time; ``None`` without rows."""
    if not rows:
        return None
    joined = np.concatenate(rows)
    return joined[np.argsort(joined["time_ns"], kind="stable")]


def _frames_in_flight(network: NetworkState) -> int:
    """Return the number of sources' frames in queues, in service and on links."""
    frames = columns(network.pool.frames)
    in_flight, hosts = np.zeros(len(frames), np.bool_), len(network.links)
    for queue in [*network.lines, *network.on_link]:
        index = int(queue.head) if queue.length else NOWHERE
        while index != NOWHERE:
            in_flight[index] = True
            index = int(frames["following"][index])
    for number, port in enumerate(network.ports):
        if not is_foreign(network, hosts + number):
            in_flight[_in_port(port)] = True
    return int((in_flight & (frames["source"] != NOWHERE)).sum())


def _in_port(port: Any) -> NDArray[np.int64]:
    """Return the pool indices of frames that wait in a port or are on the port's line."""
    line = port.line
    indices = [int(line.in_service_token)] if line.in_service_octets > 0 else []
    for ring in port.rings:
        numbers = np.arange(ring.dequeued_frames, ring.put_frames)
        slots = ring.first_slot + (numbers & ring.slot_mask)
        indices += (port.slots[slots] >> 32).tolist()
    return np.array(indices, np.int64)


def _by_flow(
    counts: NDArray[Any], own: NDArray[Any], first: NDArray[np.int64], sources: int
) -> dict[str, NDArray[Any]]:
    """Return the counters of sources, summed by flow."""
    if not sources:
        return {}
    summed = {
        name: np.add.reduceat(counts[name][:sources], first)
        for name in ("sent_frames", "sent_octets", "dropped_frames", "dropped_octets", "held_out_frames",
                     "held_out_octets", "delay_ns")
    }  # fmt: skip
    summed |= {
        name: np.add.reduceat(own[name][:sources], first)
        for name in (*_COUNTERS_OF_SENDER[:2], *_COUNTERS_OF_RECEIVER)
    }
    for name in ("frames", "octets"):
        summed[f"held_out_{name}"] += np.add.reduceat(own[f"excess_{name}"][:sources], first)
    summed["delay_max_ns"] = np.maximum.reduceat(counts["longest_ns"][:sources], first)
    limits = counts["limit_bps"][:sources]
    total = np.add.reduceat(limits, first)
    summed["limit_bps"] = np.where(total > 0, total, math.nan)
    return summed
