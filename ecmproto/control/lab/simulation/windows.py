"""Counters of a run over time, in a limited number of equal windows.

Compiled functions sample the counters at the end of each window. They are stored cumulatively, and a series
of differences is computed on demand. If there are too many windows, windows are merged in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.frame_pool import NOWHERE
from ecmproto.control.engine.gauge import PRIORITIES, settle
from ecmproto.control.engine.network import MESSAGE_TYPES, NetworkState
from ecmproto.control.lab.simulation.series import MAX_WINDOWS
from ecmproto.control.lab.simulation.wiring import Wiring
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.gate import paused_ns
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import columns, new_records

_FIRST_WINDOWS = 64
_MAX_CELLS = 2_000_000
_MIN_WINDOWS = 64
_MOMENTS = frozenset({"level_octets", "queue_octets", "limit_bps"})
"""Counters measured at the end of the window."""
_PEAKS = frozenset({"peak_octets", "delay_max_ns"})
"""Counters of the maximum within the window."""


class PortSample:
    """Counters of a port at one time; a record (``kernels.record``)."""

    octet_ns: float
    peak_octets: int
    """Maximum queue length since the last sample, in octets."""
    level_octets: int
    sent_frames: int
    sent_octets: int
    line_octets: float
    """Line time in octets, including overhead and the transmitted part of the frame in service."""
    dropped_frames: int
    dropped_octets: int
    lost_messages: int
    lost_frames: int
    stopped_ns: int
    xoff_frames: int
    xon_frames: int
    watchdogs: int


@compiled
def sample_ports(network: NetworkState, now_ns: int, samples: Sequence[PortSample]) -> None:
    """Fill in ``samples`` at ``now_ns``, one sample for each port, and reset the maximum queue lengths."""
    overhead_octets = network.loop.overhead_octets
    for number in range(len(network.ports)):
        gauge, counts, sample = network.ports[number].gauge, network.port_counts[number], samples[number]
        settle(gauge, now_ns)
        sample.octet_ns = gauge.total.octet_ns
        sample.peak_octets = gauge.total.peak_octets
        sample.level_octets = gauge.total.octets
        gauge.total.peak_octets = gauge.total.octets
        sample.sent_frames = counts.sent_frames
        sample.sent_octets = counts.sent_octets
        sample.line_octets = float(counts.sent_octets + overhead_octets * counts.sent_frames)
        sample.line_octets += float(counts.control_octets)
        line = network.ports[number].line
        octets = line.control_octets
        if line.in_service_octets > 0:
            octets += line.in_service_octets + overhead_octets
        if octets > 0:
            left = float((line.served_ns - now_ns) * line.work_per_ns + line.served_rest)
            sample.line_octets += max(0.0, octets - left / line.work_per_octet) - line.control_octets
        sample.dropped_frames = counts.dropped_frames
        sample.dropped_octets = counts.dropped_octets
        sample.lost_messages = counts.lost_messages
        sample.lost_frames = network.lost_frames[number]
        running_ns = now_ns - counts.stopped_since_ns if counts.stopped_since_ns != NEVER_NS else 0
        sample.stopped_ns = counts.stopped_ns + running_ns
        sample.xoff_frames = counts.xoff_frames
        sample.xon_frames = counts.xon_frames
        if len(network.watchdogs) > 0:
            sample.watchdogs = network.watchdogs[number].fired


class StationSample:
    """Time that PAUSE and PFC stopped a host, and counters of the host's NIC; a record."""

    stopped_ns: int
    queue_octets: int
    lost_frames: int


@compiled
def sample_stations(network: NetworkState, now_ns: int, samples: Sequence[StationSample]) -> None:
    """Fill in ``samples`` at ``now_ns``, one sample for each host."""
    each = network.loop.entries
    for station in range(len(network.links)):
        longest_ns = 0
        for priority in range(PRIORITIES):
            if (network.gates.stopped[station].sending_mask >> priority) & 1:
                longest_ns = max(longest_ns, paused_ns(network.gates, station, priority, now_ns))
        samples[station].stopped_ns = longest_ns
        waiting_octets = 0
        for entry in range(station * each, (station + 1) * each):
            waiting_octets += network.queues[entry].octets
        samples[station].queue_octets = waiting_octets
        samples[station].lost_frames = network.lost_frames[len(network.ports) + station]


class Table:
    """Values of one counter, with a row per window and a column per port, host or flow."""

    def __init__(self, kind: str, columns: int, dtype: type[np.generic]) -> None:
        self._kind = kind
        self.rows: NDArray[Any] = np.zeros((_FIRST_WINDOWS, columns), dtype)
        self._series: NDArray[Any] | None = None

    def put(self, window: int, values: NDArray[Any]) -> None:
        """Set the row of ``window``."""
        if window >= len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[window] = values
        self._series = None

    def fold(self, windows: int) -> None:
        """Merge an even number of windows in pairs."""
        early, late = self.rows[:windows:2], self.rows[1:windows:2]
        folded = np.maximum(early, late) if self._kind in _PEAKS else late.copy()
        self.rows[: windows // 2] = folded

    def series(self, column: int, windows: int) -> NDArray[Any]:
        """Return a column: the increase in each window, or for some counters the value in each window."""
        # Compute all columns at once, because a network has tens of thousands of columns.
        if self._series is None:
            values = self.rows[:windows].T.copy()
            is_level = self._kind in _MOMENTS or self._kind in _PEAKS
            self._series = values if is_level else np.diff(values, prepend=values.dtype.type(0))
        series: NDArray[Any] = self._series[column]
        return series


class Windows:
    """All counters of a run; windows are ``window_ns`` long, a multiple of the requested length.

    ``rates_bps`` are the initial rates of the ports.
    """

    def __init__(self, window_ns: int, *, rates_bps: Sequence[int], hosts: int, flows: int) -> None:
        self.window_ns: int = window_ns
        self.count: int = 0
        ports = len(rates_bps)
        self._ports, self._hosts = new_records(PortSample, ports), new_records(StationSample, hosts)
        cells = max(1, ports, hosts, flows)
        maximum = min(MAX_WINDOWS, max(_MIN_WINDOWS, _MAX_CELLS // cells))
        self._max_windows = maximum - maximum % 2
        self._sizes = {"port": ports, "host": hosts, "flow": flows}
        self._tables: dict[tuple[str, str], Table] = {}
        self._messages: list[NDArray[np.int64]] = []
        self._completed = np.zeros(flows, np.int64)
        self._completion_ns = np.zeros(flows)
        self._end_ns: list[int] = []
        self._rate_ns = np.zeros(ports)
        self._rates = np.array(rates_bps, np.float64)
        self._since_ns = np.zeros(ports, np.int64)

    def next_ns(self, now_ns: int) -> int:
        """Return the end of the window that contains ``now_ns``."""
        return (now_ns // self.window_ns + 1) * self.window_ns

    def complete(self, flows: NDArray[np.int64], latency_ns: NDArray[np.int64]) -> None:
        """Count the completions of ``flows`` and add up their durations."""
        np.add.at(self._completed, flows, 1)
        np.add.at(self._completion_ns, flows, latency_ns)

    def set_rate(self, port: int, rate_bps: int, now_ns: int) -> None:
        """Change a port's rate to ``rate_bps`` at ``now_ns``."""
        self._rate_ns[port] += self._rates[port] * (now_ns - self._since_ns[port])
        self._rates[port], self._since_ns[port] = rate_bps, now_ns

    def add(self, network: NetworkState, now_ns: int, flows: Mapping[str, NDArray[Any]]) -> None:
        """End a window at ``now_ns`` with the current counters of ``network`` and of ``flows``."""
        window = self.count
        self.count += 1
        sample_ports(network, now_ns, self._ports)
        sample_stations(network, now_ns, self._hosts)
        for group, values in (("port", columns(self._ports)), ("host", columns(self._hosts))):
            for name in values.dtype.names or ():
                self._put(group, name, window, values[name])
        for name, column in flows.items():
            self._put("flow", name, window, column)
        self._put("flow", "completed", window, self._completed)
        self._put("flow", "completion_ns", window, self._completion_ns)
        served = self._rate_ns + self._rates * (now_ns - self._since_ns)
        self._put("port", "rate_ns", window, served)
        self._messages.append(np.array(network.message_counts).reshape(-1, MESSAGE_TYPES))
        self._end_ns.append(now_ns)
        if self.count >= self._max_windows:
            # Merge now, because this window's end is also the end of a window of twice the length.
            self._fold()

    def _put(self, group: str, name: str, window: int, values: NDArray[Any]) -> None:
        table = self._tables.get((group, name))
        if table is None:
            table = self._tables[group, name] = Table(name, self._sizes[group], values.dtype.type)
        table.put(window, values)

    def _fold(self) -> None:
        for table in self._tables.values():
            table.fold(self.count)
        self._messages = self._messages[1::2]
        self._end_ns = self._end_ns[1::2]
        self.count //= 2
        self.window_ns *= 2

    def _series(self, group: str, name: str, column: int, dtype: Any) -> NDArray[Any]:
        table = self._tables.get((group, name))
        if table is None:
            return np.zeros(self.count, dtype)
        return table.series(column, self.count)

    def of_port(self, name: str, port: int) -> NDArray[Any]:
        """Return a port's counter in each window."""
        return self._series("port", name, port, np.int64)

    def of_host(self, name: str, host: int) -> NDArray[Any]:
        """Return a host's counter in each window."""
        return self._series("host", name, host, np.int64)

    def of_flow(self, name: str, flow: int) -> NDArray[Any]:
        """Return a flow's counter in each window; times and rates are floats."""
        series = self._series("flow", name, flow, np.int64)
        return series.astype(np.float64) if name in ("delay_ns", "completion_ns", "limit_bps") else series

    def service_bps(self, port: int) -> NDArray[np.float64]:
        """Return a port's mean service rate in each window."""
        lengths_ns = np.diff(np.array(self._end_ns, np.float64), prepend=0.0)
        mean: NDArray[np.float64] = self.of_port("rate_ns", port) / lengths_ns
        return mean

    def messages(self) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield the sender, the type and the number of messages in each window."""
        if not self._messages:
            return
        counts = np.stack(self._messages)
        for sender, kind in np.argwhere(counts[-1]).tolist():
            yield sender, kind, np.diff(counts[:, sender, kind], prepend=0)

    def deadlock(self, wiring: Wiring) -> tuple[str, ...]:
        """Return a cycle of ports stopped during the whole last window; each port waits for the next one."""
        if self.count < 2:
            return ()
        stopped_ns = self._tables["port", "stopped_ns"].rows
        sent = self._tables["port", "sent_frames"].rows
        last, before = self.count - 1, self.count - 2
        length_ns = self._end_ns[last] - self._end_ns[before]
        stuck = (stopped_ns[last] - stopped_ns[before] >= length_ns) & (sent[last] == sent[before])
        if not stuck.any():
            return ()
        return _cycle(wiring, set(np.flatnonzero(stuck).tolist()))


def _cycle(wiring: Wiring, stuck: set[int]) -> tuple[str, ...]:
    """Return the names of ports in ``stuck`` that form a cycle; empty without a cycle."""
    after = {
        number: [p for p in wiring.switches[wiring.ports[number].next_switch].ports if p in stuck]
        for number in stuck
        if wiring.ports[number].next_switch != NOWHERE
    }
    # A port that leads to no stuck port will resume. Without such ports, only cycles and paths to cycles
    # remain.
    while True:
        dead = {number for number, targets in after.items() if not any(port in after for port in targets)}
        if not dead:
            break
        after = {number: targets for number, targets in after.items() if number not in dead}
    if not after:
        return ()
    port, visited = min(after), []
    while port not in visited:
        visited.append(port)
        port = min(each for each in after[port] if each in after)
    return tuple(wiring.ports[number].name for number in visited[visited.index(port) :])
