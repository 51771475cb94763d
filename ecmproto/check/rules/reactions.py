"""Whether sources slow down: what a flow sends behind strong feedback, beside what it sent before.

The round trip and what stands in queues pass between the two; behind them a source that was told to stop, or
to send a quarter less, is seen to.  A single message proves little: what is judged are the sums over all
strong messages to a flow, of flows that got several, in captures in which another flow does react.  Messages
within a window of the seam between two parts that were checked apart are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecmproto.check.report import Report
from ecmproto.check.rule import NO_TIME, Int64, Judged, Mask, Rows, Settings, Shift, Where
from ecmproto.check.rules.drafts import SHOWN, mixed
from ecmproto.mechanisms.api.parameters import Parameters, flag

WINDOW_NS, DELAY_NS = 200_000, 100_000
_MOST_ROWS = 1 << 16
"""Data frames of the latest window that are kept."""
_MOST_WAITING = 1 << 12
"""Messages whose window is not over."""
_MOST_FLOWS = 1 << 12
_REACTS, _IGNORES = 0.8, 0.9
"""What is sent behind, as a share of what was sent before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Parameters):
    """Base of the parameters of families with such a rule."""

    closed: bool = flag(
        "closed", False, source="choice",
        doc="whether sources are known to react, so that each is judged; else where another one does",
    )  # fmt: skip


FIELDS = (
    "eth.src", "eth.dst", "cntag.flow_id", "cnm.qntz_fb", "ecm.cpid", "ecm.q_off", "ecm.q_delta", "bcn.cpid",
    "bcn.type", "e2cm.cpid", f"{SHOWN}eth.src", f"{SHOWN}eth.dst",
)  # fmt: skip
_MESSAGES = ("cnm.qntz_fb", "ecm.cpid", "bcn.cpid", "e2cm.cpid")


class Reactions:
    """Sums what each flow sends before and behind strong messages to it; a class of its own for each rule."""

    RULE = ""
    MESSAGE = ""
    """The field that its messages have."""
    LEAST = 3
    """How many strong messages a flow got that is judged."""
    PARAMETERS: type[Closed] = Closed

    def __init__(self, settings: Settings, report: Report) -> None:
        self._closed = settings.of(self.PARAMETERS).closed
        none = np.zeros(0, np.int64)
        self._data = (none, none, none)
        """Of the latest data frames the times, their flows and their octets."""
        self._waiting: Int64 = np.zeros((0, 5), np.int64)
        """Strong messages whose window is not over: time, flow, subject, number and interface."""
        self._flows: dict[int, list[int]] = {}
        """By flow: messages, octets before and behind; subject; number, time and interface of the first."""

    def strong(self, rows: Rows) -> Mask:
        """Return which rows are messages that ask for much: those with the field alone are asked about."""
        raise NotImplementedError

    def told(self, rows: Rows) -> tuple[Int64, Int64]:
        """Return the flow that each message is about, and the subject of the rule."""
        source = rows[f"{SHOWN}eth.src"]
        return mixed(source, rows[f"{SHOWN}eth.dst"]), source

    def sent(self, rows: Rows, at: Int64) -> Int64:
        """Return the flows of the data frames at some rows."""
        return mixed(rows["eth.src"][at], rows["eth.dst"][at])

    def add(self, rows: Rows) -> None:
        """Take data frames, and judge the messages whose windows are over."""
        timed = rows.time_ns != NO_TIME
        if not timed.any():
            return
        last_ns = int(rows.time_ns[timed].max())
        self._wait(rows, timed)
        is_data = timed
        for name in _MESSAGES:
            if len(rows.columns[name]):
                is_data = is_data & ~rows.has(name)
        if not len(self._waiting):
            # most captures have no such message: only the latest window may be asked for
            is_data = is_data & (rows.time_ns >= last_ns - WINDOW_NS)
        new = np.flatnonzero(is_data)
        times, keys, octets = self._data
        times = np.concatenate([times, rows.time_ns[new]])
        keys = np.concatenate([keys, self.sent(rows, new)])
        octets = np.concatenate([octets, rows.octets[new]])
        self._data = times, keys, octets
        over = self._waiting[:, 0] + DELAY_NS + WINDOW_NS < last_ns
        if over.any():
            self._sum(self._waiting[over])
            self._waiting = self._waiting[~over]
        since = min([last_ns, *self._waiting[:, 0].tolist()]) - WINDOW_NS
        keep = np.flatnonzero(times >= since)[-_MOST_ROWS:]
        self._data = times[keep], keys[keep], octets[keep]

    def _wait(self, rows: Rows, timed: Mask) -> None:
        """Note the strong messages of a batch."""
        if not len(rows.columns[self.MESSAGE]):
            return
        at = np.flatnonzero(timed & rows.has(self.MESSAGE) & self.strong(rows))
        flow, subject = (key[at] for key in self.told(rows))
        found = np.column_stack([rows.time_ns[at], flow, subject, rows.number[at], rows.interface[at]])
        self._waiting = np.concatenate([self._waiting, found[: _MOST_WAITING - len(self._waiting)]])

    def _sum(self, messages: Int64) -> None:
        """Sum the windows of messages, which are over."""
        times, keys, octets = self._data
        asked = np.flatnonzero(np.isin(keys, messages[:, 1]))
        order = asked[np.lexsort((times[asked], keys[asked]))]
        times, keys = times[order], keys[order]
        until = np.concatenate([[0], np.cumsum(octets[order])])
        for flow in np.unique(messages[:, 1]).tolist():
            first, end = np.searchsorted(keys, flow, "left"), np.searchsorted(keys, flow, "right")
            mine = messages[messages[:, 1] == flow]
            at = mine[:, 0]
            edges = (at - WINDOW_NS, at, at + DELAY_NS, at + DELAY_NS + WINDOW_NS)
            sums = [until[first + np.searchsorted(times[first:end], edge, "left")] for edge in edges]
            sent = np.flatnonzero(sums[1] > sums[0])
            if len(sent):
                before, behind = (int((sums[edge + 1] - sums[edge])[sent].sum()) for edge in (0, 2))
                time_ns, _, subject, number, interface = mine[sent[0]].tolist()
                self._count(flow, [len(sent), before, behind, subject, number, time_ns, interface])

    def _count(self, flow: int, more: list[int]) -> None:
        sums = self._flows.get(flow)
        if sums is not None:
            sums[:3] = [one + other for one, other in zip(sums, more[:3], strict=False)]
        elif len(self._flows) < _MOST_FLOWS:
            self._flows[flow] = more

    def join(self, later: Reactions, shift: Shift) -> None:
        """Add the sums of a later part, and wait for what follows it."""
        for flow, (count, before, behind, subject, number, time_ns, interface) in later._flows.items():
            place = [number + shift.frames, time_ns, interface + shift.interfaces]
            self._count(flow, [count, before, behind, subject, *place])
        self._data = later._data
        self._waiting = later._waiting.copy()
        self._waiting[:, 3] += shift.frames
        self._waiting[:, 4] += shift.interfaces

    def end(self, report: Report) -> None:
        """Tell of flows that send on, where others do not."""
        if not self._flows:
            return
        counts, before, behind, subject, number, time_ns, interface = np.array(
            list(self._flows.values()), np.int64
        ).T
        share = behind / before
        if not (self._closed or (share <= _REACTS).any()):
            return
        report.tell(
            self.RULE, Where(number, time_ns, interface, subject),
            Judged(
                share >= _IGNORES, "it sends on", lambda row: f"{share[row]:.0%} of before",
                lambda row: f"less than {_IGNORES:.0%}, over {counts[row]} messages",
                about=counts >= self.LEAST,
            ),
        )  # fmt: skip
