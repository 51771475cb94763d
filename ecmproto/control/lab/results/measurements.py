"""Figures computed from a run: the measurements of `ecmproto.control.lab.setup.figures`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.lab.model import directions
from ecmproto.control.lab.setup.figures import check_borders, find_measurement
from ecmproto.control.lab.simulation.series import FlowSeries, Levels, PortSeries, RunResult
from ecmproto.errors import SpecError
from ecmproto.units import NS_PER_S

Floats = NDArray[np.float64]

AVERAGE_NS = 1_000_000
"""Averaging time for settling times: 1 ms (S002)."""
_REST = 0.1
"""Final share of the measured time; the mean over this share is the final value of a settling measurement."""


_SUMMED = {
    "drops": "dropped_frames", "watchdogs": "watchdogs", "losses": "lost_frames", "pause.time": "paused_ns",
}  # fmt: skip
"""Counters of ports whose sums are measurements."""


class RunFigures:
    """Measurements of one run; implements `ecmproto.control.lab.setup.figures.Figures`."""

    def __init__(self, result: RunResult) -> None:
        self.result = result
        self._ports = {port.name: port for port in result.ports}
        self._flows = {flow.name: flow for flow in result.flows}
        measure = result.experiment.measure
        # A run with merged windows is measured from the next window edge on, over complete windows.
        window_ns = result.window_ns
        self.from_ns: int = min(-(-measure.from_ns // window_ns) * window_ns, result.duration_ns)
        self.until_ns: int = result.duration_ns
        if measure.until_ns is not None and measure.until_ns < result.duration_ns:
            self.until_ns = measure.until_ns // window_ns * window_ns

    @property
    def flows(self) -> Mapping[str, str]:
        """The names of all flows, each with its group; the group is empty for a flow without a group."""
        return {each.name: each.group if each.group != each.name else "" for each in self.result.flows}

    @property
    def ports(self) -> Sequence[str]:
        """The names of all ports; ports of switches and adapters precede ports of hosts."""
        return sorted(self._ports, key=lambda name: self._ports[name].kind == "host")

    @cached_property
    def main_port(self) -> str:
        """The port for queue figures: the experiment's port, or else the port with the longest mean queue."""
        named = self.result.experiment.measure.port
        if named:
            return named
        ranked = [port for port in self.result.ports if port.kind != "host"] or list(self.result.ports)
        span = (self.from_ns, self.until_ns)
        fullest = max(ranked, key=lambda port: self._sum(port.octet_ns, span), default=None)
        return fullest.name if fullest else ""

    def port(self, name: str) -> PortSeries:
        """Return the port called ``name``; an empty name means the main port.

        Raises SpecError for an unknown port.
        """
        port_name = name or self.main_port
        if port_name not in self._ports:
            raise SpecError(
                where="figure", needed="a port of the network", got=port_name or "a network without ports"
            )
        return self._ports[port_name]

    def measure(
        self, name: str, subject: str, limits: tuple[float, ...], from_ns: int | None, until_ns: int | None
    ) -> float:
        """Return a measurement by the rules of `ecmproto.control.lab.setup.figures.Figures`.

        Over the experiment's measured time, queue percentiles, deviation and share within limits are exact.
        Over any other time, these measurements use the means of windows.
        """
        span = (
            self.from_ns if from_ns is None else min(from_ns, self.result.duration_ns),
            self.until_ns if until_ns is None else min(until_ns, self.result.duration_ns),
        )
        check_borders(span, self.result.window_ns, self.result.duration_ns)
        if span[1] <= span[0]:
            return math.nan
        kind, _, detail = name.partition(".")
        measurement = find_measurement(name)
        if measurement is None:
            raise SpecError(where="figure", needed="a measurement", got=name)
        if measurement.of == "flow":
            return self._of_flow(self._flows[subject], kind, detail, limits, span)
        if kind == "queue":
            return self._of_queue(self.port(subject), detail, limits, span)
        if kind in ("throughput", "utilisation"):
            port = self.port(subject)
            if port.kind == "host" and not subject:
                return math.nan
            if port.kind == "host":
                needed = f"a port of a switch for {kind}"
                raise SpecError(where="figure", needed=needed, got=port.name, hint="rate(FLOW) is a flow's")
            return self._of_output(port, kind, detail, limits, span)
        if kind == "share":
            return self._share(self.port(subject), span)
        if kind == "control":
            return self._of_control(detail, span)
        ports = [self.port(subject)] if subject else list(self.result.ports)
        if name == "pause.count":
            return float(sum(self._stops(port, span) for port in ports))
        if kind in ("drops", "watchdogs") and not subject:
            ports = [port for port in ports if port.kind != "host"]
        return sum(self._sum(getattr(port, _SUMMED[name]), span) for port in ports)

    # Time -------------------------------------------------------------------------------------------------

    @cached_property
    def edges_ns(self) -> NDArray[np.int64]:
        """The start of each window, and the end of the last window, in ns."""
        edges = np.arange(self.result.windows + 1, dtype=np.int64) * self.result.window_ns
        edges[-1] = self.result.duration_ns
        return edges

    def _until(self, values: NDArray[np.int64] | Floats, times_ns: Floats) -> Floats:
        """Return the sum of ``values`` up to each time; all times are window edges."""
        totals = np.concatenate(([0.0], np.cumsum(values)))
        windows = np.ceil(times_ns / self.result.window_ns).astype(np.int64)
        return totals[np.minimum(windows, len(values))]

    def _sum(self, values: NDArray[np.int64] | Floats, span: tuple[int, int]) -> float:
        first, last = self._until(values, np.array(span, np.float64))
        return float(last - first)

    def _inside(self, span: tuple[int, int]) -> slice:
        """Return the slice of windows within ``span``."""
        return slice(span[0] // self.result.window_ns, -(-span[1] // self.result.window_ns))

    def averages(
        self, values: NDArray[np.int64] | Floats, span: tuple[int, int], average_ns: float
    ) -> tuple[Floats, float]:
        """Return the means of ``values`` per ns over equal parts of ``span``, and the length of a part in ns.

        A part consists of one or more whole windows; a remainder at the end is ignored.
        """
        window_ns = self.result.window_ns
        length = float(window_ns * max(1, math.ceil(average_ns / window_ns)))
        length = min(length, float(span[1] - span[0]))
        pieces = int((span[1] - span[0]) / length)
        until = self._until(values, np.arange(pieces + 1, dtype=np.float64) * length + span[0])
        return np.diff(until) / length, length

    # Ports ------------------------------------------------------------------------------------------------

    def _of_queue(
        self, port: PortSeries, detail: str, limits: tuple[float, ...], span: tuple[int, int]
    ) -> float:
        if detail == "mean":
            return self._sum(port.octet_ns, span) / (span[1] - span[0])
        if detail == "peak":
            return float(port.peak_octets[self._inside(span)].max(initial=0))
        if detail == "settling":
            means, length = self.averages(port.octet_ns, span, _average_ns(limits))
            return settling_ns(means, length, limits)
        levels = port.levels
        if span != (self.from_ns, self.until_ns) or not len(levels.octets):
            levels = self._averaged_levels(port, span)
        if detail == "std":
            total_ns = levels.level_ns.sum()
            if not total_ns:
                return math.nan
            octets = levels.octets.astype(np.float64)
            mean = float((octets * levels.level_ns).sum() / total_ns)
            return math.sqrt(max(0.0, float(((octets - mean) ** 2 * levels.level_ns).sum() / total_ns)))
        if detail == "min":
            return float(levels.octets[0]) if len(levels.octets) else math.nan
        if detail == "within":
            return _share_within(levels, limits[0], limits[1])
        peak = float(port.peak_octets[self._inside(span)].max(initial=0))
        return min(peak, _percentile(levels, float(detail.removeprefix("p"))))

    def _averaged_levels(self, port: PortSeries, span: tuple[int, int]) -> Levels:
        """Return the levels of a queue from window means, for a time without a histogram."""
        means, length = self.averages(port.octet_ns, span, 0.0)
        order = np.sort(means)
        return Levels(octets=order.round().astype(np.int64), level_ns=np.full(len(order), int(length)))

    def _of_output(
        self, port: PortSeries, kind: str, detail: str, limits: tuple[float, ...], span: tuple[int, int]
    ) -> float:
        if kind == "utilisation":
            octets = self._sum(port.line_octets, span)
            lengths = np.diff(self.edges_ns)[: len(port.service_bps)]
            possible = self._sum(port.service_bps * lengths, span) / NS_PER_S
            return 8 * octets / possible if possible else math.nan
        return self._rate(port.sent_octets, detail, limits, span)

    def _rate(
        self, octets: NDArray[np.int64], detail: str, limits: tuple[float, ...], span: tuple[int, int]
    ) -> float:
        """Return the mean rate of ``octets``, its settling time, or the time at which it reaches a limit."""
        if not detail:
            return 8 * NS_PER_S * self._sum(octets, span) / (span[1] - span[0])
        if detail == "settling":
            means, length = self.averages(octets, span, _average_ns(limits))
            return settling_ns(8 * NS_PER_S * means, length, limits)
        level, *rest = limits
        means, length = self.averages(octets, span, rest[0] if rest else AVERAGE_NS)
        reached = np.flatnonzero(8 * NS_PER_S * means >= level)
        return float(reached[0] * length) if len(reached) else math.inf

    def _share(self, port: PortSeries, span: tuple[int, int]) -> float:
        switch = port.name.partition(">")[0]
        uplinks = [
            each for each in self.result.ports if each.is_uplink and each.name.startswith(f"{switch}>")
        ]
        sent = self._sum(port.sent_octets, span) if port in uplinks else math.nan
        return _mean(sent, sum(self._sum(each.sent_octets, span) for each in uplinks))

    def _stops(self, port: PortSeries, span: tuple[int, int]) -> int:
        """Return the number of times that a port was stopped; a frame that extends a pause does not count."""
        events = self.result.flow_control
        number = self.result.ports.index(port)
        own = events.port == number
        stops = 0
        for priority in np.unique(events.priority[own]):
            mine = own & (events.priority == priority)
            on = events.stops[mine]
            begins = on & ~np.concatenate(([False], on[:-1]))
            time_ns = events.time_ns[mine]
            stops += int(np.count_nonzero(begins & (time_ns >= span[0]) & (time_ns < span[1])))
        return stops

    def _of_control(self, detail: str, span: tuple[int, int]) -> float:
        frames = sum(self._sum(each.frames, span) for each in self.result.messages)
        if detail == "lost":
            return sum(self._sum(port.lost_messages, span) for port in self.result.ports)
        octets = sum(self._sum(each.octets, span) for each in self.result.messages)
        if detail == "frames":
            return frames
        if detail == "octets":
            return octets
        data = sum(self._sum(flow.delivered_octets, span) for flow in self.result.flows)
        return octets / data if data else math.nan

    # Flows ------------------------------------------------------------------------------------------------

    def _of_flow(
        self, flow: FlowSeries, kind: str, detail: str, limits: tuple[float, ...], span: tuple[int, int]
    ) -> float:
        match kind:
            case "rate":
                return self._rate(flow.delivered_octets, detail, limits, span)
            case "offered":
                return self._rate(flow.offered_octets, "", (), span)
            case "lost":
                return self._sum(flow.dropped_frames, span)
            case "delay":
                return _mean(self._sum(flow.delay_ns, span), self._sum(flow.delivered_frames, span))
            case "tps":
                return NS_PER_S * self._sum(flow.completed, span) / (span[1] - span[0])
            case "latency" | "fct" if not detail:
                return _mean(self._sum(flow.completion_ns, span), self._sum(flow.completed, span))
        took_ns, octets = self.completions(flow, span)
        values = self.slowdowns(flow, took_ns, octets) if kind == "slowdown" else took_ns
        if not len(values):
            return math.nan
        percent = 100.0 if detail == "max" else float(detail.removeprefix("p") or 0)
        return float(np.percentile(values, percent) if detail else values.mean())

    @cached_property
    def _completion_rows(self) -> dict[str, NDArray[np.int64]]:
        """The indices of each flow's completions, by flow name."""
        of = self.result.completions.flow
        order = np.argsort(of, kind="stable")
        borders = np.searchsorted(of[order], np.arange(1, len(self.result.flows)))
        names = (flow.name for flow in self.result.flows)
        return dict(zip(names, np.split(order, borders), strict=True))

    def completions(self, flow: FlowSeries, span: tuple[int, int]) -> tuple[Floats, Floats]:
        """Return the durations in ns and the octets of transactions or sized flows that ended in ``span``."""
        completions, rows = self.result.completions, self._completion_rows[flow.name]
        end_ns = completions.end_ns[rows]
        rows = rows[(end_ns >= span[0]) & (end_ns < span[1])]
        took_ns = (completions.end_ns[rows] - completions.start_ns[rows]).astype(np.float64)
        return took_ns, completions.octets[rows].astype(np.float64)

    def slowdowns(self, flow: FlowSeries, took_ns: Floats, octets: Floats) -> Floats:
        """Return each duration divided by the duration in an empty network."""
        slowdowns: Floats = took_ns / np.maximum(1.0, self._unloaded_ns(flow, octets))
        return slowdowns

    @cached_property
    def _links(self) -> dict[str, tuple[float, float]]:
        """The rate and the delay of each link, by port name.

        The delay includes the delay of the receiving node.
        """
        network = self.result.experiment.network
        delays_ns = {host.name: host.delay_ns for host in network.hosts}
        delays_ns |= {switch.name: switch.delay_ns for switch in network.switches}
        return {
            f"{line.origin}>{line.end}": (
                float(line.rate_bps), float(line.propagation_ns + delays_ns.get(line.end, 0))
            )
            for link in network.links
            for line in directions(link)
        }  # fmt: skip

    @cached_property
    def _frame_octets(self) -> dict[str, int]:
        return {flow.name: flow.frame_octets for flow in self.result.experiment.flows}

    def _unloaded_ns(self, flow: FlowSeries, octets: Floats) -> Floats:
        """Return the time in ns until the last bit of ``octets`` arrives through an empty network."""
        experiment = self.result.experiment
        frame = self._frame_octets[flow.name]
        known = [self._links[port] for port in flow.path if port in self._links]
        if not known:
            return np.full(len(octets), math.nan)
        rates, fixed_ns = [rate for rate, _ in known], sum(delay_ns for _, delay_ns in known)
        slowest = min(rates)
        first = np.minimum(octets, frame) + experiment.overhead_octets
        once_ns = sum(8 * NS_PER_S * first / rate for rate in rates)
        frames = np.ceil(octets / frame)
        rest = np.maximum(0.0, octets - frame) + experiment.overhead_octets * (frames - 1)
        total: Floats = fixed_ns + once_ns + 8 * NS_PER_S * rest / slowest
        return total


def settling_ns(means: Floats, length_ns: float, limits: tuple[float, ...]) -> float:
    """Return the time in ns from which averages stay within the limits.

    ``means`` are averages over ``length_ns`` each. ``limits`` are (low, high, …) or (share, …): S002's
    absolute or relative accuracy. A share refers to the mean over the last tenth. Return infinity if the last
    average is outside the limits, or if there is no average.
    """
    if not len(means):
        return math.inf
    low, high = _limits(means, limits)
    outside = np.flatnonzero((means < low) | (means > high))
    if not len(outside):
        return 0.0
    last = int(outside[-1])
    return math.inf if last == len(means) - 1 else (last + 1) * length_ns


def _limits(means: Floats, limits: tuple[float, ...]) -> tuple[float, float]:
    if _is_share(limits):
        rest = float(means[-max(1, round(_REST * len(means))) :].mean())
        return rest * (1 - limits[0]), rest * (1 + limits[0])
    return limits[0], limits[1]


def _is_share(limits: tuple[float, ...]) -> bool:
    """Return whether the limits are a share of the final value, optionally with a time: 25 %, 0.5 ms.

    Otherwise, two limits are a minimum and a maximum. These two limits are never fractions of an octet or of
    a bit/s.
    """
    return len(limits) == 1 or (len(limits) == 2 and 0 < limits[0] <= 1)


def _average_ns(limits: tuple[float, ...]) -> float:
    """Return the averaging time in ns: the last limit if present, else 1 ms."""
    rest = limits[1:] if _is_share(limits) else limits[2:]
    return rest[0] if rest else AVERAGE_NS


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan


def _share_within(levels: Levels, low: float, high: float) -> float:
    total_ns = levels.level_ns.sum()
    inside = (levels.octets >= low) & (levels.octets <= high)
    return float(levels.level_ns[inside].sum() / total_ns) if total_ns else math.nan


def _percentile(levels: Levels, percent: float) -> float:
    """Return the queue length that was not exceeded for ``percent`` of the time."""
    cumulative_ns = np.cumsum(levels.level_ns)
    if not len(cumulative_ns) or not cumulative_ns[-1]:
        return math.nan
    return float(
        levels.octets[
            min(
                len(cumulative_ns) - 1, int(np.searchsorted(cumulative_ns, percent / 100 * cumulative_ns[-1]))
            )
        ]
    )
