"""Result of one run: the counts of every port and flow, over time and in total.

The simulation fills in the result, and `lab.results.measurements` computes figures from it. Time is divided
into windows of ``window_ns``, starting at 0; the last window may be shorter. A run of more than `MAX_WINDOWS`
merges windows in pairs, so that memory does not grow with simulated time.

Arrays have one entry per window unless stated otherwise. Lengths are in octets without FCS, times in ns from
the start of the run, and rates in bit/s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.gauge import TOTAL, Gauge, level_times, step_end
from ecmproto.control.lab.model import Experiment

MAX_WINDOWS = 10_000
"""Maximum number of windows of a run; an even number, for merging in pairs."""

MAX_EVENTS = 100_000
"""Maximum number of recorded PAUSE and PFC events, and of completions; later events are only counted."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def _integers() -> Integers:
    return np.zeros(0, np.int64)


def _floats() -> Floats:
    return np.zeros(0, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Time that a queue spent at each length, within the measured time.

    ``octets`` is sorted. ``octets[0]`` is 0 if the queue was ever empty. Both arrays have one entry per
    length.
    """

    octets: Integers = field(default_factory=_integers)
    level_ns: Integers = field(default_factory=_integers)


def levels_of(gauge: Gauge, before: tuple[Integers, Integers]) -> Levels:
    """Return the levels of a settled gauge, counted since a time ``before``.

    ``before`` has the steps whose `level_times` were not 0 then, and these times. A level is the upper end of
    a histogram step. Steps are 64 octets wide, and wider above 1 MiB.
    """
    level_ns = level_times(gauge, TOTAL).copy()
    level_ns[before[0]] -= before[1]
    steps = np.flatnonzero(level_ns)
    octets = np.array([step_end(gauge.bins, int(step)) for step in steps], np.int64)
    return Levels(octets=octets, level_ns=level_ns[steps])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortSeries:
    """Counts of an output port, or of an egress adapter's buffer."""

    name: str
    """Name: ``switch>peer``, ``host>peer`` for a NIC, or ``host>adapter`` for an egress adapter."""
    kind: Literal["switch", "host", "adapter"]
    buffer_octets: int = 0
    """Capacity in octets; 0 if the capacity is given in frames."""
    buffer_frames: int = 0
    is_uplink: bool = False
    """Whether the port's switch selects among this port and other ports for some destination."""
    is_watched: bool = False
    """Whether the port has a congestion point."""
    set_point_octets: int | None = None
    """Equilibrium queue (Qeq) of the congestion point, in octets; ``None`` without a congestion point."""
    xoff_octets: int | None = None
    """XOFF threshold of PAUSE or PFC, for the port or the port's input; ``None`` without such a threshold."""
    greatest_input_octets: int = 0
    """Maximum occupancy, for comparison with ``xoff_octets``."""
    octet_ns: Floats = field(default_factory=_floats)
    """Integral of the queue length over each window, in octets times ns, including the frame in service."""
    peak_octets: Integers = field(default_factory=_integers)
    level_octets: Integers = field(default_factory=_integers)
    """Queue length in octets at the end of each window."""
    sent_frames: Integers = field(default_factory=_integers)
    sent_octets: Integers = field(default_factory=_integers)
    """Octets of frames whose last bit left in the window, including in-band messages and PAUSE frames."""
    line_octets: Floats = field(default_factory=_floats)
    """Line time in octets, including overhead; frames that span two windows count partly in each window."""
    dropped_frames: Integers = field(default_factory=_integers)
    dropped_octets: Integers = field(default_factory=_integers)
    lost_messages: Integers = field(default_factory=_integers)
    """Number of in-band messages that did not fit into the buffer."""
    lost_frames: Integers = field(default_factory=_integers)
    """Number of frames lost on the link after the port."""
    paused_ns: Integers = field(default_factory=_integers)
    """Time in the window, in ns, during which PAUSE or PFC stopped at least one priority."""
    xoff_frames: Integers = field(default_factory=_integers)
    xon_frames: Integers = field(default_factory=_integers)
    """Number of PAUSE and PFC frames that resumed the port; ``xoff_frames`` counts frames that stopped it."""
    watchdogs: Integers = field(default_factory=_integers)
    """Number of times that the watchdog began to serve a stopped priority."""
    service_bps: Floats = field(default_factory=_floats)
    """Mean rate of the link, or of an adapter's service, over the window."""
    levels: Levels = field(default_factory=Levels)
    """Queue levels from ``measure.from_ns`` to ``measure.until_ns``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowSeries:
    """Counts of one flow of the experiment, over all connections of the flow."""

    name: str
    group: str
    """Group of the flow; the flow's own name if the experiment sets no group."""
    source: str
    destination: str
    path: tuple[str, ...] = ()
    """Ports on the path, from the source's NIC to the last port or egress adapter."""
    offered_frames: Integers = field(default_factory=_integers)
    offered_octets: Integers = field(default_factory=_integers)
    """Octets that the source offered; for a saturating source, octets sent."""
    sent_frames: Integers = field(default_factory=_integers)
    sent_octets: Integers = field(default_factory=_integers)
    """Octets that left the source's NIC."""
    delivered_frames: Integers = field(default_factory=_integers)
    delivered_octets: Integers = field(default_factory=_integers)
    dropped_frames: Integers = field(default_factory=_integers)
    dropped_octets: Integers = field(default_factory=_integers)
    """Octets lost in the network."""
    held_out_frames: Integers = field(default_factory=_integers)
    held_out_octets: Integers = field(default_factory=_integers)
    """Octets dropped because the flow's queue in the source was full."""
    delay_ns: Floats = field(default_factory=_floats)
    """Sum of the delays of frames delivered in the window, in ns since each frame left the source."""
    delay_max_ns: Integers = field(default_factory=_integers)
    limit_bps: Floats = field(default_factory=_floats)
    """Rate of the rate limiter at the end of the window; NaN without a limiter."""
    completed: Integers = field(default_factory=_integers)
    """Number of transactions, or flows of a size distribution, completed in the window."""
    completion_ns: Floats = field(default_factory=_floats)
    """Sum of the durations of completed transactions or flows, in ns."""


def counters_of(series: type[PortSeries | FlowSeries], *types: str) -> list[str]:
    """Return the names of fields whose type is one of ``types``; these fields have one entry per window."""
    return [each.name for each in fields(series) if each.type in types]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageSeries:
    """Messages of one type from one port or host."""

    port: str
    kind: str
    """Name that the mechanism gives the message: CNM, ECM, probe, RD tag returned, …."""
    frames: Integers = field(default_factory=_integers)
    octets: Integers = field(default_factory=_integers)
    """Octets of the messages on links; an out-of-band message counts as if it were on links."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowControlEvents:
    """PAUSE and PFC frames in time order, each with the port that the frame stopped or resumed."""

    time_ns: Integers = field(default_factory=_integers)
    port: Integers = field(default_factory=_integers)
    """Index of the stopped port in `RunResult.ports`."""
    priority: Integers = field(default_factory=_integers)
    """Stopped priority; −1 for PAUSE, which stops all priorities."""
    stops: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    omitted: int = 0
    """Number of later events, which are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completions:
    """Completed transactions and flows of a size distribution, in order of completion."""

    flow: Integers = field(default_factory=_integers)
    """Index of the flow in `RunResult.flows`."""
    start_ns: Integers = field(default_factory=_integers)
    end_ns: Integers = field(default_factory=_integers)
    octets: Integers = field(default_factory=_integers)
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conservation:
    """Balance of data frames at the end of a run, without messages."""

    sent_frames: int = 0
    """Number of frames that left a source's own queue."""
    received_frames: int = 0
    dropped_frames: int = 0
    in_flight_frames: int = 0
    """Number of frames in queues, in service and on links."""

    @property
    def missing_frames(self) -> int:
        """Return the number of unaccounted frames; a value other than 0 is a fault of the simulation."""
        return self.sent_frames - self.received_frames - self.dropped_frames - self.in_flight_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """Cycle of ports stopped by PAUSE or PFC, in which each port waits for the next port."""

    time_ns: int
    ports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult:
    """Result of one run of an experiment."""

    experiment: Experiment
    seed: int
    duration_ns: int
    """Simulated time; shorter than the experiment's duration if the run was stopped."""
    window_ns: int
    """Window length: ``measure.window_ns``, doubled each time windows are merged."""
    ports: tuple[PortSeries, ...] = ()
    flows: tuple[FlowSeries, ...] = ()
    """Flows, in the order of the experiment."""
    messages: tuple[MessageSeries, ...] = ()
    flow_control: FlowControlEvents = field(default_factory=FlowControlEvents)
    completions: Completions = field(default_factory=Completions)
    deadlocks: tuple[Deadlock, ...] = ()
    conservation: Conservation = field(default_factory=Conservation)
    events: int = 0
    elapsed_s: float = 0.0
    """Elapsed real time in seconds, without compilation."""

    @property
    def windows(self) -> int:
        """Return the number of windows."""
        return -(-self.duration_ns // self.window_ns)

    @property
    def complete(self) -> bool:
        """Return whether the run reached its end."""
        return self.duration_ns >= self.experiment.duration_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a run, reported at the end of every window, or less often."""

    now_ns: int
    duration_ns: int
    events: int
    frames: int
    """Number of frames sent by sources so far."""
    elapsed_s: float


Watch = Callable[[Progress], bool]
"""Callback that receives a run's progress; a false result stops the run, which keeps its results so far."""
