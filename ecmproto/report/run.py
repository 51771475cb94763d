"""What a report is drawn from: replays of one capture as plain values and arrays.

Times are ns from the first arrival of the replay.  Curves are given in slots, already reduced to what a
page can show: a few hundred to a few thousand slots a run, whatever the capture's size.  Everything may be
empty: a capture without frames makes a report as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Unit = Literal["octets", "frames", "bit/s", "ns", "share", "index", "count"]
"""What a measure counts; "share" is a part of 1, "index" a number of its own such as Jain's."""

FLOWS_SHOWN = 16
"""The most flows of a run that a figure can tell apart; whoever makes a Run folds the rest into one."""


def _floats() -> NDArray[np.float64]:
    return np.empty(0, dtype=np.float64)


def _integers() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure of the table that compares runs; runs are matched by ``key``.

    ``better`` says which end is the good one, None where neither is.  The opening sentences of a report
    use the keys in :data:`SUMMARY_KEYS` where a run has them; any other key is shown in the table only.
    """

    key: str
    label: str
    value: float | int
    unit: Unit
    better: Literal["low", "high"] | None = None


SUMMARY_KEYS = {
    "frames": "frames of the capture",
    "dropped_frames": "frames that found the buffer full",
    "queue_mean_octets": "mean queue length over the whole run",
    "queue_peak_octets": "greatest queue length",
    "delivered_bps": "what left the port",
    "utilisation": "share of the time in which the line was busy",
    "messages": "feedback messages sent to sources",
    "paused_ns": "time in which PAUSE or PFC stopped at least one sender",
    "paused_sum_ns": "the same summed up over senders and priorities",
    "fairness": "Jain's index of the flows' delivered rates, 1 when all are equal",
}
"""Keys of measures that reports know the meaning of."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueueCurve:
    """Queue length over time, in n slots: slot i lasts from ``edges_ns[i]`` to ``edges_ns[i + 1]``.

    ``edges_ns`` has n + 1 entries (none for n = 0), the others n.
    """

    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    mean_octets: NDArray[np.float64] = field(default_factory=_floats)
    peak_octets: NDArray[np.float64] = field(default_factory=_floats)

    def __post_init__(self) -> None:
        _slots(self.edges_ns, self.mean_octets, self.peak_octets)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowCurves:
    """Rates of one flow over time, means over slots as in :class:`QueueCurve`.

    ``limit_bps`` is the reaction point's current limit, NaN in slots where the flow has no limiter; None
    where the mechanism has none at all, as in an open loop.
    """

    label: str
    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    sent_bps: NDArray[np.float64] = field(default_factory=_floats)
    """What the flow put on the wire towards the congestion point."""
    delivered_bps: NDArray[np.float64] = field(default_factory=_floats)
    """What of it left the congestion point's port."""
    limit_bps: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        limit = (self.limit_bps,) if self.limit_bps is not None else ()
        _slots(self.edges_ns, self.sent_bps, self.delivered_bps, *limit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feedback:
    """What the congestion point computed, one entry per sample, all of one length."""

    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    value: NDArray[np.float64] = field(default_factory=_floats)
    priority: NDArray[np.int64] = field(default_factory=_integers)
    """0 to 7; −1 for a congestion point that serves all priorities together."""

    def __post_init__(self) -> None:
        _equal(self.time_ns, self.value, self.priority)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Messages:
    """Which flow got a message when: message i went to ``labels[row[i]]`` at ``time_ns[i]``.

    ``strength``, if given, is a part of the strongest feedback possible: 0 for none (or for positive
    feedback), 1 for the strongest.
    """

    labels: tuple[str, ...] = ()
    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    row: NDArray[np.int64] = field(default_factory=_integers)
    strength: NDArray[np.float64] | None = None
    totals: tuple[int, ...] | None = None
    """How many messages each label got, where not all of them are here."""

    def __post_init__(self) -> None:
        if self.totals is not None and len(self.totals) != len(self.labels):
            raise ValueError(f"totals of messages: needed {len(self.labels)}, got {len(self.totals)}")
        _equal(self.time_ns, self.row, *((self.strength,) if self.strength is not None else ()))
        if self.row.size and not (self.row.min() >= 0 and self.row.max() < len(self.labels)):
            raise ValueError(f"rows of messages: needed 0 to {len(self.labels) - 1}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drops:
    """How many frames were dropped when: per drop, or already summed over short spans."""

    time_ns: NDArray[np.int64] = field(default_factory=_integers)
    count: NDArray[np.int64] = field(default_factory=_integers)

    def __post_init__(self) -> None:
        _equal(self.time_ns, self.count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PauseCurve:
    """For how much of each slot (as in :class:`QueueCurve`) PAUSE or PFC stopped what ``label`` names."""

    label: str
    """As in "priority 3"."""
    edges_ns: NDArray[np.int64] = field(default_factory=_integers)
    stopped_ns: NDArray[np.float64] = field(default_factory=_floats)

    def __post_init__(self) -> None:
        _slots(self.edges_ns, self.stopped_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One replay of the capture through one mechanism.  Raises ValueError where lengths do not fit."""

    name: str
    """The mechanism's name as on a command line: "qcn", "qcn over pfc"."""
    title: str
    """A line for a person: "QCN, closed loop"."""
    duration_ns: int
    """From the first arrival to the end of the run: how far the time axis reaches."""
    variant: str = ""
    """What it is called beside other runs of its mechanism, "qcn:w=4"; empty for the mechanism's name."""
    facts: tuple[tuple[str, str], ...] = ()
    """(label, text): port rate, seed, loop, feedback delay and so on."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """(name, value as text, what it is)."""
    measures: tuple[Measure, ...] = ()
    queue: QueueCurve = field(default_factory=QueueCurve)
    buffer_octets: int | None = None
    set_point_octets: int | None = None
    feedback: Feedback = field(default_factory=Feedback)
    feedback_label: str = "feedback"
    """What the feedback is, with its unit in parentheses: "Fb (octets)", "advertised rate (bit/s)"."""
    flows: tuple[FlowCurves, ...] = ()
    """At most FLOWS_SHOWN, the last one being "others" where flows were folded."""
    messages: Messages = field(default_factory=Messages)
    pauses: tuple[PauseCurve, ...] = ()
    drops: Drops = field(default_factory=Drops)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """One capture replayed once or several times, in the order in which the runs are shown."""

    title: str
    capture: str
    """The capture's name as the user gave it."""
    runs: tuple[Run, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences that belong to the whole report: what was left out, warnings, the command line."""


def _slots(edges_ns: NDArray[np.int64], *curves: NDArray[Any]) -> None:
    needed = max(0, len(edges_ns) - 1)
    if any(len(curve) != needed for curve in curves):
        raise ValueError(f"curves: needed one value per slot, {needed}, got {[len(c) for c in curves]}")


def _equal(*columns: NDArray[Any]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"columns: needed one length, got {[len(column) for column in columns]}")
