"""Network of an experiment for the engine: numbers of hosts, switches and ports, paths and routes.

Hosts are stations, in the order of the model. A host's egress adapter is a separate switch with one port,
numbered after all other switches. Ports are numbered by switch, in the order of links; ports of adapters are
last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.config import Buffer, RateChange
from ecmproto.control.engine.frame_pool import NOWHERE
from ecmproto.control.engine.switches import hashed
from ecmproto.control.lab.model import Experiment, Host, Line, Thresholds, directions
from ecmproto.control.lab.setup.thresholds import default_thresholds
from ecmproto.control.lab.simulation.routing import Routes
from ecmproto.errors import SpecError, shown
from ecmproto.units import serialisation_ns

MAX_PORTS = 8_192
"""Maximum number of output ports of a network; a fat tree with k = 16 has 5,120 ports."""
_PROBE_OCTETS = 60
_DATA_OCTETS = 1500
_SALTS = 5
"""Random stream for the salts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredPort:
    """Output port of a switch, or of a host's egress adapter."""

    name: str
    switch: int
    rate_bps: int
    rate_changes: tuple[RateChange, ...]
    buffer: Buffer
    station: int = NOWHERE
    """Host at the end of the line; NOWHERE if the line ends at a switch or an adapter."""
    leads_to: int = NOWHERE
    """Host at the end of the line, even if the host has an adapter."""
    next_switch: int = NOWHERE
    inlet: int = NOWHERE
    """Number of the next switch's input that the port feeds."""
    delay_ns: int = 0
    """Delay in ns from a frame's last bit to the node at the end of the line."""
    is_adapter: bool = False
    ends: bool = False
    """Whether the port leads to an adapter; frames at an adapter have reached their host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredFeed:
    """Feed of a switch's input: a host or another port."""

    station: int = NOWHERE
    port: int = NOWHERE
    back_port: int = NOWHERE
    """Port that sends PAUSE to the feed; NOWHERE if the host with the adapter sends PAUSE."""
    back_station: int = NOWHERE
    back_ns: int
    """Delay in ns of PAUSE to the feed, from the last bit of the PAUSE frame."""
    thresholds: Thresholds | None = None
    """Default thresholds of the input, for a switch without configured thresholds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredSwitch:
    """Switch or adapter, with feeds, shared memory and thresholds."""

    name: str
    memory: Buffer | None
    partition: Buffer | None
    pause: Thresholds | None
    buffer: Buffer
    lossless: frozenset[int] | None = None
    """Priorities for which the switch sends PFC; ``None`` means all priorities with flow control."""
    feeds: tuple[WiredFeed, ...]
    ports: tuple[int, ...]
    is_adapter: bool = False
    hash_salt: int = 0
    """Salt of the switch's ECMP hashes; an adapter has only one path and needs no salt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """Link from a host to its switch."""

    name: str
    rate_bps: int
    rate_changes: tuple[RateChange, ...]
    delay_ns: int
    """Delay in ns from a frame's last bit to the switch's queue."""
    switch: int
    inlet: int


def host_mac(station: int) -> bytes:
    """Return the Ethernet address of the host with number ``station``."""
    return bytes([2, 0, *station.to_bytes(4)])


class Wiring:
    """Network of ``experiment``, with ECMP hashes that depend on ``seed``.

    Raises SpecError for a network that cannot be wired.
    """

    def __init__(self, experiment: Experiment, *, seed: int) -> None:
        network = experiment.network
        salts = np.random.default_rng([seed, _SALTS]).integers(1 << 32, size=len(network.switches))
        self._salts: list[int] = salts.tolist()
        self.hosts: tuple[Host, ...] = network.hosts
        self.station_of: dict[str, int] = {host.name: number for number, host in enumerate(network.hosts)}
        self._experiment, self._overhead_octets = experiment, experiment.overhead_octets
        self._switches = network.switches
        self._switch_of = {switch.name: number for number, switch in enumerate(network.switches)}
        self._adapter_of = {
            host.name: len(network.switches) + number
            for number, host in enumerate(host for host in network.hosts if host.adapter)
        }
        self._delay_ns = {host.name: host.delay_ns for host in network.hosts}
        self._delay_ns |= {switch.name: switch.delay_ns for switch in network.switches}
        lines = [line for link in network.links for line in directions(link)]
        self._check(lines)
        self._ends = {(line.origin, line.end) for line in lines}
        self._inlets = _numbered_inlets(lines, self._switch_of)
        self.host_lines: tuple[HostLine, ...] = self._host_lines(lines)
        self.ports: tuple[WiredPort, ...] = self._wired_ports(lines)
        if len(self.ports) > MAX_PORTS:
            needed = f"at most {MAX_PORTS:,} output ports of switches"
            raise SpecError(where="network", needed=needed, got=f"{len(self.ports):,}")
        self._port_of = {port.name: number for number, port in enumerate(self.ports)}
        self.switches: tuple[WiredSwitch, ...] = self._wired_switches(lines)
        self.routes: Routes = Routes(self.ports, len(self.switches), len(self.hosts))
        self._routes: tuple[list[int], list[int]] = self.routes.offsets.tolist(), self.routes.choices.tolist()
        self.forced: list[NDArray[np.int64]] = []
        """Port at each switch, for the explicit paths −1, −2, …; NOWHERE for a switch not on the path."""

    def _check(self, lines: list[Line]) -> None:
        links_of = dict.fromkeys(self.station_of, 0)
        for line in lines:
            if line.origin not in self._delay_ns:
                raise SpecError(where="link", needed="names of hosts and switches", got=shown(line.origin))
            if line.origin in links_of:
                links_of[line.origin] += 1
                if line.end in links_of:
                    needed = "a switch at one end of each link"
                    raise SpecError(where="link", needed=needed, got=f"{line.origin} to {line.end}")
        for host, links in links_of.items():
            if links != 1:
                raise SpecError(where=f"host {shown(host)}", needed="one link", got=str(links))

    def _host_lines(self, lines: list[Line]) -> tuple[HostLine, ...]:
        of = {line.origin: line for line in lines if line.origin in self.station_of}
        return tuple(
            HostLine(
                name=f"{host.name}>{line.end}",
                rate_bps=line.rate_bps,
                rate_changes=line.rate_changes,
                delay_ns=line.propagation_ns + self._delay_ns[line.end],
                switch=self._switch_of[line.end],
                inlet=self._inlets[line.origin, line.end],
            )
            for host in self.hosts
            for line in [of[host.name]]
        )

    def _wired_ports(self, lines: list[Line]) -> tuple[WiredPort, ...]:
        by_origin: dict[str, list[Line]] = {switch.name: [] for switch in self._switches}
        for line in lines:
            by_origin.get(line.origin, []).append(line)
        ports = [
            self._wired_port(number, switch.buffer, line)
            for number, switch in enumerate(self._switches)
            for line in by_origin[switch.name]
        ]
        ports += [
            WiredPort(
                name=f"{host.name}>adapter",
                switch=self._adapter_of[host.name],
                rate_bps=host.adapter.rate_bps,
                rate_changes=host.adapter.rate_changes,
                buffer=host.adapter.buffer,
                station=self.station_of[host.name],
                is_adapter=True,
            )
            for host in self.hosts
            if host.adapter is not None
        ]
        return tuple(ports)

    def _wired_port(self, switch: int, buffer: Buffer, line: Line) -> WiredPort:
        ends = line.end in self._adapter_of
        next_switch = self._adapter_of.get(line.end, self._switch_of.get(line.end, NOWHERE))
        return WiredPort(
            name=f"{line.origin}>{line.end}",
            switch=switch,
            rate_bps=line.rate_bps,
            rate_changes=line.rate_changes,
            buffer=buffer,
            station=NOWHERE if ends else self.station_of.get(line.end, NOWHERE),
            leads_to=self.station_of.get(line.end, NOWHERE),
            next_switch=next_switch,
            inlet=0 if ends else self._inlets.get((line.origin, line.end), NOWHERE),
            delay_ns=line.propagation_ns + self._delay_ns[line.end],
            ends=ends,
        )

    def _wired_switches(self, lines: list[Line]) -> tuple[WiredSwitch, ...]:
        back = {(line.origin, line.end): line for line in lines}
        port_of = self._port_of
        by_default = default_thresholds(self._experiment)
        by_end: dict[str, list[Line]] = {switch.name: [] for switch in self._switches}
        for line in lines:
            by_end.get(line.end, []).append(line)
        ports_of: dict[int, list[int]] = {number: [] for number in self._switch_of.values()}
        for number, port in enumerate(self.ports):
            ports_of.get(port.switch, []).append(number)
        switches = [
            WiredSwitch(
                name=switch.name,
                memory=switch.memory,
                partition=switch.partition,
                pause=switch.pause,
                buffer=switch.buffer,
                lossless=switch.lossless,
                hash_salt=self._salts[self._switch_of[switch.name]],
                feeds=tuple(
                    WiredFeed(
                        station=self.station_of.get(line.origin, NOWHERE),
                        port=port_of.get(f"{line.origin}>{line.end}", NOWHERE),
                        back_port=port_of[f"{line.end}>{line.origin}"],
                        back_ns=back[line.end, line.origin].propagation_ns,
                        thresholds=by_default[line.origin, line.end].thresholds,
                    )
                    for line in by_end[switch.name]
                ),
                ports=tuple(ports_of[self._switch_of[switch.name]]),
            )
            for switch in self._switches
        ]
        feed_of = {line.end: line for line in lines if line.end in self.station_of}
        for host in self.hosts:
            if host.adapter is not None:
                feed = feed_of[host.name]
                number = port_of[f"{feed.origin}>{host.name}"]
                switches.append(
                    WiredSwitch(
                        name=f"{host.name}>adapter",
                        memory=None,
                        partition=None,
                        pause=host.adapter.pause,
                        buffer=host.adapter.buffer,
                        feeds=(
                            WiredFeed(
                                port=number,
                                back_station=self.station_of[host.name],
                                back_ns=back[host.name, feed.origin].propagation_ns,
                            ),
                        ),
                        ports=(port_of[f"{host.name}>adapter"],),
                        is_adapter=True,
                    )
                )
        return tuple(switches)

    @property
    def link_rate_bps(self) -> int:
        """Rate of the fastest host link."""
        return max((line.rate_bps for line in self.host_lines), default=10**10)

    def path(self, source: int, destination: int, number: int) -> list[int]:
        """Return the ports on the path with number ``number`` from host ``source`` to host ``destination``.

        Raises SpecError if there is no path.
        """
        switch, (offsets, choices) = self.host_lines[source].switch, self._routes
        exit_port, own = int(self.routes.exit_port[destination]), int(self.routes.exit[destination])
        end, exits = self.ports[exit_port].switch, self.routes.exits
        ports: list[int] = []
        while switch != end:
            port = int(self.forced[-1 - number][switch]) if number < 0 else NOWHERE
            if port == NOWHERE:
                row = switch * exits + own
                start, stop = offsets[row], offsets[row + 1]
                if start == stop:
                    names = f"{self.hosts[source].name} to {self.hosts[destination].name}"
                    raise SpecError(where="network", needed=f"a path from {names}", got="none")
                port = choices[start + hashed(number, self._salts[switch]) % (stop - start)]
            ports.append(port)
            switch = self.ports[port].next_switch
        return [*ports, exit_port]

    def add_route(self, source: int, destination: int, via: Sequence[str]) -> int:
        """Return the number of a path through the switches ``via``; the path back has the next lower number.

        Raises SpecError unless links connect all nodes of the path.
        """
        nodes = [self.hosts[source].name, *via, self.hosts[destination].name]
        for row in (nodes, nodes[::-1]):
            ports = np.full(len(self.switches), NOWHERE, np.int64)
            for before, here, following in zip(row, row[1:], row[2:], strict=False):
                if here not in self._switch_of or not {(before, here), (here, following)} <= self._ends:
                    got = f"{before} to {here} to {following}"
                    raise SpecError(where="flow.via", needed="linked switches between the hosts", got=got)
                ports[self._switch_of[here]] = self._port_of[f"{here}>{following}"]
            self.forced.append(ports)
        return 1 - len(self.forced)

    def unloaded_ns(self, source: int, ports: list[int], *, whole: bool = False) -> int:
        """Return the time in ns of a probe that follows a full frame from host ``source`` through idle
        ``ports``.

        The time ends before the destination's adapter, if there is one. ``whole`` is true for a host whose
        frames enter the link at the time of their last bits.
        """
        line = self.host_lines[source]
        through = [port for port in map(self.ports.__getitem__, ports) if not port.is_adapter]
        data = _DATA_OCTETS + self._overhead_octets
        total_ns = line.delay_ns + (0 if whole else serialisation_ns(data, line.rate_bps))
        total_ns += sum(serialisation_ns(data, port.rate_bps) + port.delay_ns for port in through[:-1])
        # The two frames are back to back, so their times on the last link are rounded together.
        both = data + _PROBE_OCTETS + self._overhead_octets
        return total_ns + serialisation_ns(both, through[-1].rate_bps) + through[-1].delay_ns

    def message_delays_ns(self, fixed_ns: int | None) -> NDArray[np.int64]:
        """Return the delays of messages, by sender (switches, then hosts) and receiving host.

        The delay is ``fixed_ns`` if given, otherwise the delay of the path. The host's reaction delay is
        added.
        """
        reaction_ns = np.array([host.reaction_delay_ns for host in self.hosts], np.int64)
        if fixed_ns is not None:
            return np.tile(fixed_ns + reaction_ns, (len(self.switches) + len(self.hosts), 1))
        from_switch = self.routes.delays_ns()
        own_ns = np.array([line.delay_ns for line in self.host_lines], np.int64)
        by_host = from_switch[[line.switch for line in self.host_lines]] + own_ns[:, None]
        delays_ns: NDArray[np.int64] = np.concatenate([from_switch, by_host]) + reaction_ns
        return delays_ns


def _numbered_inlets(lines: list[Line], switches: dict[str, int]) -> dict[tuple[str, str], int]:
    """Return the number of each line to a switch, counted among the lines to this switch."""
    numbers: dict[tuple[str, str], int] = {}
    counts = dict.fromkeys(switches, 0)
    for line in lines:
        if line.end in counts:
            numbers[line.origin, line.end] = counts[line.end]
            counts[line.end] += 1
    return numbers
