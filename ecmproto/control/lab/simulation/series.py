"""The result of one run: the counts of every port and flow, over time and in total.

The simulation fills it in; `lab.results.measurements` computes figures from it. Time is divided into windows
of ``window_ns``, the first from 0 on; the last may be shorter. A run of more than `MAX_WINDOWS` merges them
in pairs, so that memory does not grow with simulated time. Arrays have one entry per window unless stated
otherwise; lengths are octets without FCS, times ns from the start of the run, rates bit/s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.gauge import TOTAL, Gauge, held_of, step_end
from ecmproto.control.lab.model import Experiment

MAX_WINDOWS = 10_000
"""The maximum number of windows of a run; even, for merging."""

MAX_EVENTS = 100_000
"""The maximum number of recorded PAUSE and PFC events, and completions; others are only counted."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def _integers() -> Integers:
    return np.zeros(0, np.int64)


def _floats() -> Floats:
    return np.zeros(0, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """The time that a queue spent at each length, within the measured time.

    ``octets`` rises; ``octets[0]`` is 0 if the queue ever was empty. Both arrays have one entry per length.
    """

    octets: Integers = field(default_factory=_integers)
    held_ns: Integers = field(default_factory=_integers)


def levels_of(gauge: Gauge, before_ns: Integers | None = None, row: int = TOTAL) -> Levels:
    """Return the levels of a settled gauge since its `held_of` ``row`` was ``before_ns``.

    A level is the end of its step: 64 octets wide, coarser above 1 MiB.
    """
    held_ns = held_of(gauge, row).copy()
    if before_ns is not None:
        held_ns -= before_ns
    steps = np.flatnonzero(held_ns)
    octets = np.array([step_end(gauge.bins, int(step)) for step in steps], np.int64)
    return Levels(octets=octets, held_ns=held_ns[steps])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortSeries:
    """The counts of an output port, or of the buffer of an egress adapter."""

    name: str
    """``switch>peer``, ``host>peer`` for a NIC, ``host>adapter`` for an egress adapter."""
    kind: Literal["switch", "host", "adapter"]
    buffer_octets: int = 0
    """The capacity; 0 if the buffer is in frames."""
    buffer_frames: int = 0
    is_uplink: bool = False
    """Whether its switch selects among this port and others."""
    is_watched: bool = False
    """Whether the port has a congestion point."""
    set_point_octets: int | None = None
    """The equilibrium queue (Qeq) of the congestion point; None without one."""
    xoff_octets: int | None = None
    """The XOFF threshold of the port, or of its input, for PAUSE or PFC; None without one."""
    greatest_input_octets: int = 0
    """The maximum occupancy compared with ``xoff_octets``."""
    octet_ns: Floats = field(default_factory=_floats)
    """The integral of the queue's length, frame in service included, over each window."""
    peak_octets: Integers = field(default_factory=_integers)
    level_octets: Integers = field(default_factory=_integers)
    """The length at each window's end."""
    sent_frames: Integers = field(default_factory=_integers)
    sent_octets: Integers = field(default_factory=_integers)
    """Octets of the frames whose last bit left in the window, with messages and PAUSE in band."""
    line_octets: Floats = field(default_factory=_floats)
    """Octets of line time, overhead included; a frame across a window's edge counts partly in each window."""
    dropped_frames: Integers = field(default_factory=_integers)
    dropped_octets: Integers = field(default_factory=_integers)
    lost_messages: Integers = field(default_factory=_integers)
    """Messages in band for which the buffer had no space."""
    lost_frames: Integers = field(default_factory=_integers)
    """Frames lost on the link after the port."""
    paused_ns: Integers = field(default_factory=_integers)
    """The time in the window for which PAUSE or PFC stopped at least one priority."""
    xoff_frames: Integers = field(default_factory=_integers)
    xon_frames: Integers = field(default_factory=_integers)
    """PAUSE and PFC frames that resumed the port; ``xoff_frames`` stopped it."""
    watchdogs: Integers = field(default_factory=_integers)
    """Priorities that the port's watchdog began to serve in spite of a stop."""
    service_bps: Floats = field(default_factory=_floats)
    """The mean rate of the link, or of an adapter's service, over the window."""
    levels: Levels = field(default_factory=Levels)
    """The levels from ``measure.from_ns`` to ``measure.until_ns``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowSeries:
    """The counts of one flow of the experiment, over all its connections."""

    name: str
    group: str
    """The flow's own name if the experiment gives it no group."""
    source: str
    destination: str
    path: tuple[str, ...] = ()
    """The ports on the path, the source's NIC first, with an egress adapter last."""
    offered_frames: Integers = field(default_factory=_integers)
    offered_octets: Integers = field(default_factory=_integers)
    """Octets that the source offered; for a saturating one, octets sent."""
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
    """Octets for which the flow's queue in the source had no space."""
    delay_ns: Floats = field(default_factory=_floats)
    """The sum of the delays of the frames delivered in the window, since they left the source."""
    delay_max_ns: Integers = field(default_factory=_integers)
    limit_bps: Floats = field(default_factory=_floats)
    """The rate of the limiter at the window's end; NaN without one."""
    completed: Integers = field(default_factory=_integers)
    """Transactions, or flows of a size distribution, completed in the window."""
    completion_ns: Floats = field(default_factory=_floats)
    """The sum of the durations of ``completed``."""


def counters_of(series: type[PortSeries | FlowSeries], *types: str) -> list[str]:
    """Return the names of the fields of ``types``, which have an entry for each window."""
    return [each.name for each in fields(series) if each.type in types]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageSeries:
    """Messages of one kind from one port or host."""

    port: str
    kind: str
    """The mechanism's name of the message: CNM, ECM, probe, RD tag returned, …."""
    frames: Integers = field(default_factory=_integers)
    octets: Integers = field(default_factory=_integers)
    """The octets of the messages on links; out of band, as if they were on links."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowControlEvents:
    """PAUSE and PFC frames in order of time, each with the port that it stopped or resumed."""

    time_ns: Integers = field(default_factory=_integers)
    port: Integers = field(default_factory=_integers)
    """The stopped port, an index of `RunResult.ports`."""
    priority: Integers = field(default_factory=_integers)
    """The priority; −1 for PAUSE, which stops all."""
    stops: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    omitted: int = 0
    """The number of later events, which are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completions:
    """Transactions and flows of a size distribution, in order of completion."""

    flow: Integers = field(default_factory=_integers)
    """The index in `RunResult.flows`."""
    start_ns: Integers = field(default_factory=_integers)
    end_ns: Integers = field(default_factory=_integers)
    octets: Integers = field(default_factory=_integers)
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conservation:
    """Data frames at the end of a run, without messages."""

    sent_frames: int = 0
    """Frames that left a source's own queue."""
    received_frames: int = 0
    dropped_frames: int = 0
    in_flight_frames: int = 0
    """Frames in queues, in service and on links."""

    @property
    def missing_frames(self) -> int:
        """Return the number of unaccounted frames: 0, or the simulation is wrong."""
        return self.sent_frames - self.received_frames - self.dropped_frames - self.in_flight_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """A cycle of ports stopped by PAUSE or PFC, each waiting for the next one."""

    time_ns: int
    ports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult:
    """One run of one experiment."""

    experiment: Experiment
    seed: int
    duration_ns: int
    """The simulated time: less than the experiment's if the run was stopped."""
    window_ns: int
    """The window length: ``measure.window_ns``, doubled at each merging of windows."""
    ports: tuple[PortSeries, ...] = ()
    flows: tuple[FlowSeries, ...] = ()
    """The flows, in the order of the experiment."""
    messages: tuple[MessageSeries, ...] = ()
    flow_control: FlowControlEvents = field(default_factory=FlowControlEvents)
    completions: Completions = field(default_factory=Completions)
    deadlocks: tuple[Deadlock, ...] = ()
    conservation: Conservation = field(default_factory=Conservation)
    events: int = 0
    elapsed_s: float = 0.0
    """The elapsed real time, without compilation."""

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
    """The progress of a run; reported at the end of every window, or less often."""

    now_ns: int
    duration_ns: int
    events: int
    frames: int
    """Frames sent by sources so far."""
    elapsed_s: float


Watch = Callable[[Progress], bool]
"""A callback with the progress of a run; a false result stops the run with its result so far."""
