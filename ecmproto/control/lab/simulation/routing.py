"""Routes of a wired network: the ports on shortest paths, for each switch and destination.

All destinations on one switch share routes up to this switch. Routes therefore lead to exits: switches or
adapters with ports to hosts. The number of routes grows with switches times exits, not with hosts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.frame_pool import NOWHERE

_UNREACHED = 1 << 30


class RoutedPort(Protocol):
    """Interface for the properties of a port that routes depend on."""

    @property
    def switch(self) -> int:
        """The switch to which the port belongs."""

    @property
    def next_switch(self) -> int:
        """The switch at the end of the line; NOWHERE if the line ends at a host."""

    @property
    def station(self) -> int:
        """The host at the end of the line; NOWHERE if the line ends at a switch."""

    @property
    def delay_ns(self) -> int:
        """The delay in ns from a frame's last bit to the node at the end of the line."""


class Routes:
    """Shortest paths from ``switches`` switches to ``stations`` hosts, without the ports in ``dead``."""

    def __init__(
        self, ports: Sequence[RoutedPort], switches: int, stations: int, dead: Collection[int] = ()
    ) -> None:
        self.exit_port: NDArray[np.int64] = np.full(stations, NOWHERE, np.int64)
        """Port that leads to each host."""
        into: list[list[tuple[int, int]]] = [[] for _ in range(switches)]
        for number, port in enumerate(ports):
            if port.station != NOWHERE:
                self.exit_port[port.station] = number
            elif number not in dead:
                into[port.next_switch].append((port.switch, number))
        self._origin = np.array([port.switch for port in ports], np.int64)
        self._next = np.array([port.next_switch for port in ports], np.int64)
        self._delay_ns = np.array([port.delay_ns for port in ports], np.int64)
        exits, exit_of = np.unique(self._origin[self.exit_port], return_inverse=True)
        self.exit: NDArray[np.int64] = exit_of
        """Number of each host's exit."""
        self.exits: int = len(exits)
        self._distance = np.array([_distances(each, into) for each in exits.tolist()], np.int64)
        usable = np.array(sorted(number for each in into for _, number in each), np.int64)
        to_next = self._distance[:, self._next[usable]]
        leads = (to_next < _UNREACHED) & (to_next + 1 == self._distance[:, self._origin[usable]])
        exit_number, position = np.nonzero(leads)
        rows = self._origin[usable[position]] * self.exits + exit_number
        order = np.argsort(rows, kind="stable")
        self.choices = usable[position[order]].astype(np.int32)
        """Ports of all rows; each combination of switch and exit has one row."""
        starts = np.searchsorted(rows[order], np.arange(switches * self.exits + 1))
        self.offsets = starts.astype(np.int32)
        """Start of each row in ``choices``, followed by the length of ``choices``."""

    @property
    def uplinks(self) -> NDArray[np.int64]:
        """The ports among which a switch selects for a destination, sorted."""
        counts = np.diff(self.offsets)
        return np.unique(self.choices[np.repeat(counts > 1, counts)])

    def delays_ns(self) -> NDArray[np.int64]:
        """Return the delay of the first shortest path, by switch and host; 0 if there is no path."""
        switches = self._distance.shape[1]
        to_exit = np.zeros((switches, self.exits), np.int64)
        for distance in range(1, int(self._distance[self._distance < _UNREACHED].max(initial=0)) + 1):
            exit_number, switch = np.nonzero(self._distance == distance)
            port = self.choices[self.offsets[switch * self.exits + exit_number]]
            to_exit[switch, exit_number] = self._delay_ns[port] + to_exit[self._next[port], exit_number]
        delays: NDArray[np.int64] = to_exit[:, self.exit] + self._delay_ns[self.exit_port]
        return np.where(self._distance.T[:, self.exit] < _UNREACHED, delays, 0)


def _distances(end: int, into: Sequence[Sequence[tuple[int, int]]]) -> list[int]:
    """Return the number of links from each switch to ``end``; ``into`` lists the feeds by switch."""
    distance = [_UNREACHED] * len(into)
    distance[end] = 0
    ready = deque([end])
    while ready:
        switch = ready.popleft()
        for origin, _ in into[switch]:
            if distance[origin] == _UNREACHED:
                distance[origin] = distance[switch] + 1
                ready.append(origin)
    return distance
