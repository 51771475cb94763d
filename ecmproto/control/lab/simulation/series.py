"""The result of one run: what was counted at every port and flow, over time and in all.

The simulation fills it in; `lab.results.measurements` reads figures off it.  Time is cut into
windows of ``window_ns``, the first from 0 on; the last may be shorter.  A run that outgrows `MOST_WINDOWS`
folds them by two, so that memory does not grow with simulated time.  Arrays have one entry for each window
unless said otherwise; lengths are octets without FCS, times ns from the start of the run, rates bit/s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.gauge import TOTAL, Gauge, step_end
from ecmproto.control.lab.model import Experiment

MOST_WINDOWS = 10_000
"""Windows of a run at most; an even number, for folding."""

MOST_EVENTS = 100_000
"""PAUSE and PFC events, and completions, that are kept one by one; others are only counted."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def _integers() -> Integers:
    return np.zeros(0, np.int64)


def _floats() -> Floats:
    return np.zeros(0, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """For how long a queue stood at which length, within the time that is measured.

    ``octets`` rises; ``octets[0]`` is 0 if the queue ever was empty.  Both arrays have one entry a length.
    """

    octets: Integers = field(default_factory=_integers)
    held_ns: Integers = field(default_factory=_integers)


def levels_of(gauge: Gauge, before_ns: Integers | None = None, row: int = TOTAL) -> Levels:
    """Return the levels that a settled gauge has counted since its ``held_ns[row]`` was ``before_ns``.

    A level is the end of its step: 64 octets wide, coarser above 1 MiB.
    """
    held_ns = np.array(gauge.bins.held_ns[row], np.int64)
    if before_ns is not None:
        held_ns -= before_ns
    steps = np.flatnonzero(held_ns)
    octets = np.array([step_end(gauge.bins, int(step)) for step in steps], np.int64)
    return Levels(octets=octets, held_ns=held_ns[steps])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortSeries:
    """What happened at one output port, or at the buffer of an egress adapter."""

    name: str
    """``switch>peer``, ``host>peer`` for a NIC, ``host>adapter`` for an egress adapter."""
    kind: Literal["switch", "host", "adapter"]
    buffer_octets: int = 0
    """What it may hold; 0 where it counts frames."""
    buffer_frames: int = 0
    is_watched: bool = False
    """Whether it has a congestion point."""
    set_point_octets: int | None = None
    """The equilibrium queue (Qeq) of its congestion point; None where it has none."""
    xoff_octets: int | None = None
    """The threshold above which it, or its input, asks for PAUSE or PFC; None where nobody does."""
    greatest_input_octets: int = 0
    """The greatest occupancy that was held against ``xoff_octets``."""
    octet_ns: Floats = field(default_factory=_floats)
    """The integral of the queue's length, frame in service included, over each window."""
    peak_octets: Integers = field(default_factory=_integers)
    level_octets: Integers = field(default_factory=_integers)
    """The length at each window's end."""
    sent_frames: Integers = field(default_factory=_integers)
    sent_octets: Integers = field(default_factory=_integers)
    """Frames and octets whose last bit left in the window; messages and PAUSE that went in band too."""
    line_octets: Floats = field(default_factory=_floats)
    """What its line took, overhead included: of a frame across a window's edge, each window's part."""
    dropped_frames: Integers = field(default_factory=_integers)
    dropped_octets: Integers = field(default_factory=_integers)
    lost_messages: Integers = field(default_factory=_integers)
    """Messages in band that found its buffer full."""
    paused_ns: Integers = field(default_factory=_integers)
    """For how much of the window PAUSE or PFC stopped at least one priority of it."""
    xoff_frames: Integers = field(default_factory=_integers)
    xon_frames: Integers = field(default_factory=_integers)
    """PAUSE and PFC frames that stopped it, and that let it go on."""
    service_bps: Floats = field(default_factory=_floats)
    """The rate of its link, or at which an adapter empties it: the mean over the window."""
    levels: Levels = field(default_factory=Levels)
    """From ``measure.from_ns`` to ``measure.until_ns``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowSeries:
    """What became of one flow of the experiment; all its connections together."""

    name: str
    group: str
    """The flow's own name where the experiment gives it no group."""
    source: str
    destination: str
    path: tuple[str, ...] = ()
    """The ports that it crosses, the source's NIC first, with an egress adapter last."""
    offered_frames: Integers = field(default_factory=_integers)
    offered_octets: Integers = field(default_factory=_integers)
    """What its source asked to send; what a saturating one did send."""
    sent_frames: Integers = field(default_factory=_integers)
    sent_octets: Integers = field(default_factory=_integers)
    """What left the source's NIC."""
    delivered_frames: Integers = field(default_factory=_integers)
    delivered_octets: Integers = field(default_factory=_integers)
    dropped_frames: Integers = field(default_factory=_integers)
    dropped_octets: Integers = field(default_factory=_integers)
    """What was lost in the network."""
    held_out_frames: Integers = field(default_factory=_integers)
    held_out_octets: Integers = field(default_factory=_integers)
    """What found its own queue in the source full."""
    delay_ns: Floats = field(default_factory=_floats)
    """The sum of the delays of the frames that were delivered in the window, from leaving the source on."""
    delay_max_ns: Integers = field(default_factory=_integers)
    limit_bps: Floats = field(default_factory=_floats)
    """The rate of its limiter at the window's end; NaN where it has none."""
    completed: Integers = field(default_factory=_integers)
    """Transactions, or flows of a size distribution, that were completed in the window."""
    completion_ns: Floats = field(default_factory=_floats)
    """The sum of the times that these took."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageSeries:
    """Messages of one kind that one port (or host) generated."""

    port: str
    kind: str
    """CNM, ECM, probe, RD tag returned, …: the mechanism's own name of it."""
    frames: Integers = field(default_factory=_integers)
    octets: Integers = field(default_factory=_integers)
    """What they take on links; out of band what they would take."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowControlEvents:
    """PAUSE and PFC frames one by one, in order of time: when which port was stopped or let go on."""

    time_ns: Integers = field(default_factory=_integers)
    port: Integers = field(default_factory=_integers)
    """The port that is stopped, a number of `RunResult.ports`."""
    priority: Integers = field(default_factory=_integers)
    """−1 for PAUSE, which stops all of them."""
    stops: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    not_kept: int = 0
    """Later events, that are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completions:
    """Transactions and flows of a size distribution one by one, in order of their end."""

    flow: Integers = field(default_factory=_integers)
    """A number of `RunResult.flows`."""
    start_ns: Integers = field(default_factory=_integers)
    end_ns: Integers = field(default_factory=_integers)
    octets: Integers = field(default_factory=_integers)
    not_kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conservation:
    """Data frames at the end of a run; messages are not among them."""

    sent_frames: int = 0
    """That left a source's own queue."""
    received_frames: int = 0
    dropped_frames: int = 0
    in_flight_frames: int = 0
    """In queues, in service and on links."""

    @property
    def missing_frames(self) -> int:
        """Return how many frames are unaccounted for: 0, or the simulation is wrong."""
        return self.sent_frames - self.received_frames - self.dropped_frames - self.in_flight_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """Ports that PAUSE or PFC stopped in a circle: each waits for the next one."""

    time_ns: int
    ports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult:
    """One experiment, run once."""

    experiment: Experiment
    seed: int
    duration_ns: int
    """How far it came: less than the experiment's where it was stopped."""
    window_ns: int
    """``measure.window_ns``, doubled as often as windows were folded."""
    ports: tuple[PortSeries, ...] = ()
    flows: tuple[FlowSeries, ...] = ()
    """In the order of the experiment."""
    messages: tuple[MessageSeries, ...] = ()
    flow_control: FlowControlEvents = field(default_factory=FlowControlEvents)
    completions: Completions = field(default_factory=Completions)
    deadlocks: tuple[Deadlock, ...] = ()
    conservation: Conservation = field(default_factory=Conservation)
    events: int = 0
    elapsed_s: float = 0.0
    """Time of the machine that it took, compiling left out."""

    @property
    def windows(self) -> int:
        """Return the number of windows."""
        return -(-self.duration_ns // self.window_ns)

    @property
    def complete(self) -> bool:
        """Return whether it ran to its end."""
        return self.duration_ns >= self.experiment.duration_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is; the simulation tells it at the end of every window, or more seldom."""

    now_ns: int
    duration_ns: int
    events: int
    frames: int
    """That sources have sent so far."""
    elapsed_s: float


Watch = Callable[[Progress], bool]
"""Called with the progress of a run; returns whether to go on: without, the result is what there is."""
