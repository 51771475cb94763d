"""Division of a network into parts, which threads simulate at the same time (`control.engine.parts`).

Each switch belongs to one part, together with its hosts. The cut avoids links with short delays, because the
shortest delay across the cut is the time for which parts can run without exchange.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import Arrivals
from ecmproto.control.engine.feedback import no_feedback
from ecmproto.control.engine.frame_pool import NOWHERE
from ecmproto.control.engine.loop import enlarge_stores, run, spare_events
from ecmproto.control.engine.network import NetworkState
from ecmproto.control.engine.parts import FINISHED, FULL, WAITING, Exchange, enlarge_part, run_part
from ecmproto.control.engine.traffic import Sources
from ecmproto.control.lab.model import Experiment, Flow, connected
from ecmproto.control.lab.simulation.wiring import Wiring
from ecmproto.control.lab.traffic.sources import Endpoints, TrafficSources
from ecmproto.control.lab.traffic.tcp import connection_count
from ecmproto.control.mechanisms.api.protocol import Receivers, Senders
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import SpecError
from ecmproto.kernels.kernel import is_disabled
from ecmproto.kernels.record import columns, new_arrays
from ecmproto.kernels.structs import as_interface

_MAX_SHARE = 1.25
"""Maximum weight of a part, relative to the mean weight."""
_HOST_WEIGHT = 2
"""Weight of a host, relative to a port of a switch."""
_SPINS = 1_000_000
"""Number of looks at a slower part, some 0.5 ms, before a thread lets other programs run."""


class Division:
    """Division of a network into ``parts`` parts of similar size.

    Raises SpecError if there is no such division, or if the network changes in ways that affect all parts.
    """

    def __init__(self, experiment: Experiment, wiring: Wiring, parts: int) -> None:
        self.parts = parts
        self.of_switch: NDArray[np.int64] = _parts_of_switches(wiring, parts)
        self.of_host: NDArray[np.int64] = self.of_switch[[line.switch for line in wiring.host_lines]]
        self.of_port: NDArray[np.int64] = self.of_switch[[port.switch for port in wiring.ports]]
        ends = [port.switch if port.next_switch == NOWHERE else port.next_switch for port in wiring.ports]
        self.of_line: NDArray[np.int64] = self.of_switch[ends]
        """Part at the end of each port's line."""
        self._experiment, self._wiring = experiment, wiring
        for host in experiment.network.hosts:
            if host.storms:
                raise refused("no broken host", f"storms of {host.name}")
        for link in experiment.network.links:
            if link.down:
                raise refused("no link that goes down", f"{link.a} to {link.b}")

    def check_sources(self, flows: Sequence[Flow], endpoints: Sequence[Endpoints]) -> None:
        """Raise SpecError if parts would have to share a source's state."""
        of_source = {
            flow.name: (self.of_host[end.station], self.of_host[end.destination])
            for flow, end in zip(flows, endpoints, strict=True)
        }
        for flow in flows:
            sender, receiver = of_source[flow.name]
            if connection_count(flow) and sender != receiver:
                raise refused("TCP connections within one part", f"flow {flow.name} between two parts")
            for name in flow.after:
                if of_source[name][1] != sender:
                    needed = "flows that wait only for flows to their own part"
                    raise refused(needed, f"flow {flow.name} after {name}")

    def lookahead_ns(self, delays_ns: NDArray[np.int64]) -> int:
        """Return the shortest delay across the cut; ``delays_ns`` are as in `Wiring.message_delays_ns`."""
        ports = self._wiring.ports
        crossing_ns = [ports[number].delay_ns for number in np.flatnonzero(self.of_port != self.of_line)]
        for number, switch in enumerate(self._wiring.switches):
            crossing_ns += [
                feed.back_ns
                for feed in switch.feeds
                if feed.port != NOWHERE and self.of_port[feed.port] != self.of_switch[number]
            ]
        senders = np.concatenate([self.of_switch, self.of_host])
        crosses = senders[:, None] != self.of_host
        lookahead_ns = int(delays_ns[crosses].min(initial=min(crossing_ns, default=NEVER_NS)))
        if lookahead_ns <= 0:
            raise refused("delays of more than 0 ns between parts", f"{lookahead_ns} ns")
        return lookahead_ns


class Part:
    """Part of a simulation: an undivided network, or one of the parts that run at the same time."""

    def __init__(
        self,
        network: NetworkState,
        senders: Senders,
        receivers: Receivers,
        sources: TrafficSources,
        exchange: Exchange | None = None,
    ) -> None:
        self.network, self.sources = network, sources
        self._senders, self._receivers, self._exchange = senders, receivers, exchange
        self._completions: list[NDArray[Any]] = []
        self._stops: list[NDArray[Any]] = []

    def set_end(self, until_ns: int) -> None:
        """Set the time up to which the next call of `run` runs the part."""
        self.network.loop.change_ns, self.network.loop.changes = until_ns, 0

    def run(self, spins: int) -> int:
        """Run the part, and return a result of `run_part`; ``spins`` is the argument of `run_part`.

        If a store is full, the caller drains the store, and calls `enlarge` before the next call.
        """
        loop, exchange = self.network.loop, self._exchange
        interfaces = (
            as_interface(self._senders, Senders),
            as_interface(self._receivers, Receivers),
            as_interface(self.sources, Sources),
        )
        if exchange is not None:
            return run_part(self.network, *interfaces, _NO_ARRIVALS, _NO_FEEDBACK, exchange, spins)
        run(self.network, *interfaces, _NO_ARRIVALS, _NO_FEEDBACK, 0, 0, True)
        return FULL if not loop.changes and spare_events(self.network) == 0 else FINISHED

    def enlarge(self) -> None:
        """Enlarge the exhausted stores that cannot be drained."""
        if self._exchange is None:
            enlarge_stores(self.network)
        else:
            enlarge_part(self.network, self._exchange)

    def drain(self) -> None:
        """Move completions and PAUSE events out of the network's stores."""
        counts, log = self.network.offers.count, self.network.log
        if counts.completed:
            self._completions.append(columns(self.network.offers.completions)[: counts.completed].copy())
            counts.completed = 0
        if log.stop_events:
            self._stops.append(columns(self.network.stop_events)[: log.stop_events].copy())
            log.stop_events = 0

    def taken(self) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Return the drained completions and PAUSE events, which are then forgotten."""
        drained = self._completions, self._stops
        self._completions, self._stops = [], []
        return drained


def run_together(parts: Sequence[Part]) -> None:
    """Run all parts to their ends, one thread for each part; in plain Python, the parts take turns."""
    if is_disabled():
        left = list(parts)
        while left:
            left = [part for part in left if _progress(part, 1) != FINISHED]
        return
    stop = Event()

    def run_one(part: Part) -> None:
        try:
            while not stop.is_set() and (result := _progress(part, _SPINS)) != FINISHED:
                if result == WAITING:
                    time.sleep(0)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(len(parts) - 1) as pool:
        others = [pool.submit(run_one, part) for part in parts[1:]]
        run_one(parts[0])
    for other in others:
        other.result()


def _progress(part: Part, spins: int) -> int:
    """Run a part until it has finished, waits for another part, or has enlarged its stores."""
    result = part.run(spins)
    if result != WAITING:
        part.drain()
    if result == FULL:
        part.enlarge()
    return result


def refused(needed: str, got: str) -> SpecError:
    """Return the error for a network that cannot be divided."""
    return SpecError(where="parts", needed=f"{needed} in a divided network", got=got)


def _parts_of_switches(wiring: Wiring, parts: int) -> NDArray[np.int64]:
    """Return the part of each switch and each adapter.

    Switches with a link of a short delay between them stay together, as long as parts of similar size remain.
    """
    count = len(wiring.switches)
    weights = np.zeros(count, np.int64)
    np.add.at(weights, [port.switch for port in wiring.ports], 1)
    np.add.at(weights, [line.switch for line in wiring.host_lines], _HOST_WEIGHT)
    has_hosts = np.zeros(count, np.bool_)
    has_hosts[[line.switch for line in wiring.host_lines]] = True
    links = [
        (port.switch, port.next_switch, port.delay_ns) for port in wiring.ports if port.next_switch != NOWHERE
    ]
    for shortest_ns in sorted({delay_ns for _, _, delay_ns in links if delay_ns > 0}, reverse=True):
        groups = _groups(count, [(a, b) for a, b, delay_ns in links if delay_ns < shortest_ns], wiring)
        of_switch = _divided(groups, links, weights, has_hosts, parts)
        shares = np.bincount(of_switch, weights, minlength=parts)
        if shares.min() > 0 and shares.max() <= _MAX_SHARE * shares.mean():
            return of_switch
    needed = f"a number of switches that can be divided into {parts} parts of similar size"
    raise SpecError(where="parts", needed=needed, got=str(len(wiring.switches)))


def _groups(count: int, together: Sequence[tuple[int, int]], wiring: Wiring) -> NDArray[np.int64]:
    """Return the lowest switch of each switch's group; pairs of switches in ``together``, and switches with
    their hosts' adapters, are in one group.
    """
    adapters = [
        (port.switch, port.next_switch)
        for port in wiring.ports
        if port.next_switch != NOWHERE and wiring.switches[port.next_switch].is_adapter
    ]
    return np.array(connected(count, [*together, *adapters]), np.int64)


def _divided(
    groups: NDArray[np.int64],
    links: Sequence[tuple[int, int, int]],
    weights: NDArray[np.int64],
    has_hosts: NDArray[np.bool_],
    parts: int,
) -> NDArray[np.int64]:
    """Return the part of each switch, with groups of switches in one part.

    Groups with hosts are divided in the order of their numbers, so that neighbours such as the pod of a fat
    tree stay together. Then the neighbours of divided groups join the part with most of their links, or the
    smallest such part, and so on.
    """
    group_weights = np.bincount(groups, weights, minlength=len(groups))
    of_group = np.full(len(groups), NOWHERE, np.int64)
    hosting = np.unique(groups[has_hosts])
    before = np.cumsum(group_weights[hosting]) - group_weights[hosting] / 2
    of_group[hosting] = np.minimum(parts - 1, before * parts // group_weights[hosting].sum())
    totals = np.bincount(of_group[hosting], group_weights[hosting], minlength=parts)
    near = np.zeros((len(groups), parts), np.int64)
    neighbours: dict[int, list[int]] = {}
    for a, b, _ in links:
        neighbours.setdefault(int(groups[a]), []).append(int(groups[b]))
    left, joined = set(np.unique(groups).tolist()) - set(hosting.tolist()), hosting.tolist()
    while left:
        for group in joined:
            for other in neighbours.get(group, ()):
                near[other, of_group[group]] += 1
        joined = sorted(group for group in left if near[group].any()) or sorted(left)
        left -= set(joined)
        for group in joined:
            candidates = np.flatnonzero(near[group] == near[group].max())
            of_group[group] = candidates[np.argmin(totals[candidates])]
            totals[of_group[group]] += group_weights[group]
    return of_group[groups]


_NO_ARRIVALS = new_arrays(Arrivals, 0)
_NO_FEEDBACK = no_feedback(0)
