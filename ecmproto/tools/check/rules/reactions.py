"""Reactions of sources: the octets that a flow sends after strong feedback, compared with the octets before.

A gap between the two windows allows for the round trip and the queue. A single message proves little. The
rule therefore adds up all strong messages to a flow. The rule judges flows with several messages, if another
flow in the capture reacts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecmproto.control.mechanisms.api.parameters import Parameters, flag
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import NO_TIME, SENDER, Int64, Judged, Mask, Rows, Rule, Settings, Shift, Where
from ecmproto.tools.check.rules.drafts import SHOWN, mixed
from ecmproto.units import format_share

WINDOW_NS, DELAY_NS = 200_000, 100_000
_MAX_ROWS = 1 << 16
"""The maximum number of kept data frames of the latest window."""
_MAX_WAITING = 1 << 12
"""The maximum number of messages with an incomplete window."""
_MAX_FLOWS = 1 << 12
_REACTS, _IGNORES = 0.8, 0.9
"""The maximum share for a flow that reacts, and the minimum share for a flow that does not react.

A share is the octets after the messages divided by the octets before.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Parameters):
    """The base class for parameters of families with a reaction rule."""

    closed: bool = flag(
        "closed", False, source="choice",
        doc="assume that every source receives the messages. Otherwise the rule applies only if at least one "
        "flow slows down",
    )  # fmt: skip


FIELDS = (
    "eth.src", "eth.dst", "cntag.flow_id", "cnm.qntz_fb", "ecm.cpid", "ecm.q_off", "ecm.q_delta", "bcn.cpid",
    "bcn.type", "e2cm.cpid", f"{SHOWN}eth.src", f"{SHOWN}eth.dst",
)  # fmt: skip
_MESSAGES = ("cnm.qntz_fb", "ecm.cpid", "bcn.cpid", "e2cm.cpid")


_Data = tuple[Int64, Int64, Int64]
_NO_DATA: _Data = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
_NO_MESSAGES: Int64 = np.zeros((0, 5), np.int64)
_HEAD_NS = 2 * WINDOW_NS + DELAY_NS
"""The time from the start of a part for which all data frames are kept.

These frames complete the windows of messages in the previous part and in the first window of this part.
"""


class Reactions:
    """The sums of each flow's octets before and after strong messages. Each rule has a subclass."""

    RULE = ""
    MESSAGE = ""
    """The field that identifies messages."""
    MIN = 3
    """The minimum number of strong messages for judging a flow."""
    PARAMETERS: type[Closed] = Closed

    def __init__(self, settings: Settings, report: Report) -> None:
        self._closed = settings.of(self.PARAMETERS).closed
        self._first_ns = self._last_ns = NO_TIME
        self._data = _NO_DATA
        """Times, flows and octets of the latest data frames."""
        self._waiting: Int64 = _NO_MESSAGES
        """Strong messages with an incomplete window: time, flow, subject, number and interface."""
        self._flows: dict[int, list[int]] = {}
        """The sums of each flow.

        Each entry contains the number of messages, the octets before, the octets after, the subject, and the
        number, time and interface of the first message.
        """
        self._first_data = _NO_DATA
        """The data frames in the first `_HEAD_NS` of this part."""
        self._first_messages: Int64 = _NO_MESSAGES
        """Strong messages in the first window, which may start in the previous part (see `join`)."""

    def strong(self, rows: Rows) -> Mask:
        """Return a mask of the strong messages among the rows with `MESSAGE`."""
        raise NotImplementedError

    def flows_and_subjects(self, rows: Rows) -> tuple[Int64, Int64]:
        """Return the flow and the subject of each message."""
        source = rows[f"{SHOWN}eth.src"]
        return mixed(source, rows[f"{SHOWN}eth.dst"]), source

    def sent(self, rows: Rows, at: Int64) -> Int64:
        """Return the flows of the data frames in the given rows."""
        return mixed(rows["eth.src"][at], rows["eth.dst"][at])

    def add(self, rows: Rows) -> None:
        """Add the data frames and messages of a batch, and sum the complete windows."""
        timed = rows.time_ns != NO_TIME
        if not timed.any():
            return
        if self._first_ns == NO_TIME:
            self._first_ns = int(rows.time_ns[timed.argmax()])
        last_ns = max(self._last_ns, int(rows.time_ns[timed].max()))
        messages = self._messages(rows, timed)
        is_data = timed
        for name in _MESSAGES:
            if len(rows.columns[name]):
                is_data = is_data & ~rows.has(name)
        if not len(self._waiting) and not len(messages):
            # most captures have no such message, so only the latest and the first window are kept
            latest = rows.time_ns >= last_ns - WINDOW_NS
            is_data = is_data & (latest | (rows.time_ns < self._first_ns + _HEAD_NS))
        new = np.flatnonzero(is_data)
        self._take((rows.time_ns[new], self.sent(rows, new), rows.octets[new]), messages, last_ns)

    def _messages(self, rows: Rows, timed: Mask) -> Int64:
        if not len(rows.columns[self.MESSAGE]):
            return _NO_MESSAGES
        at = np.flatnonzero(timed & rows.has(self.MESSAGE) & self.strong(rows))
        flow, subject = (key[at] for key in self.flows_and_subjects(rows))
        return np.column_stack([rows.time_ns[at], flow, subject, rows.number[at], rows.interface[at]])

    def _take(self, data: _Data, messages: Int64, last_ns: int) -> None:
        """Add data frames and messages up to ``last_ns``, and sum the complete windows."""
        is_first = data[0] < self._first_ns + _HEAD_NS
        if is_first.any():
            space = max(0, _MAX_ROWS - len(self._first_data[0]))
            self._first_data = _joined(self._first_data, _some(data, np.flatnonzero(is_first)[:space]))
        is_first = messages[:, 0] < self._first_ns + WINDOW_NS
        self._first_messages = np.concatenate([self._first_messages, messages[is_first]])[:_MAX_WAITING]
        waiting = np.concatenate([self._waiting, messages[~is_first]])[:_MAX_WAITING]
        result = _joined(self._data, data)
        over = waiting[:, 0] + DELAY_NS + WINDOW_NS < last_ns
        if over.any():
            _sum(waiting[over], result, self._flows)
        self._waiting, self._last_ns = waiting[~over], last_ns
        since = min([last_ns, *self._waiting[:, 0].tolist()]) - WINDOW_NS
        self._data = _some(result, np.flatnonzero(result[0] >= since)[-_MAX_ROWS:])

    def join(self, later: Reactions, shift: Shift) -> None:
        """Add a later part. Its first frames are processed again, after the frames of this part."""
        if later._first_ns == NO_TIME:
            return
        if self._first_ns == NO_TIME:
            self._first_ns = later._first_ns
        messages = np.concatenate([later._first_messages, later._waiting])
        messages[:, 3] += shift.frames
        messages[:, 4] += shift.interfaces
        self._take(later._first_data, messages, max(self._last_ns, later._last_ns))
        if later._last_ns >= later._first_ns + _HEAD_NS:
            # waiting messages arrived after the first frames, and therefore need the latest frames
            self._data = later._data
        for flow, (count, before, after, subject, number, time_ns, interface) in later._flows.items():
            shifted = [number + shift.frames, time_ns, interface + shift.interfaces]
            _count(self._flows, flow, [count, before, after, subject, *shifted])

    def _summed(self) -> dict[int, list[int]]:
        """Return the sums of all messages with complete windows, including the first messages."""
        flows: dict[int, list[int]] = {}
        over = self._first_messages[:, 0] + DELAY_NS + WINDOW_NS < self._last_ns
        _sum(self._first_messages[over], self._first_data, flows)
        for flow, sums in self._flows.items():
            _count(flows, flow, list(sums))
        return flows

    def end(self, report: Report) -> None:
        """Report flows that do not slow down although other flows slow down."""
        flows = self._summed()
        if not flows:
            return
        counts, before, after, subject, number, time_ns, interface = np.array(
            list(flows.values()), np.int64
        ).T
        share = after / before
        if not (self._closed or (share <= _REACTS).any()):
            return
        report.record(
            self.RULE, Where(number, time_ns, interface, subject),
            Judged(
                share >= _IGNORES, "the flow does not slow down after the messages",
                lambda row: f"{format_share(share[row])} of the octets before the messages",
                lambda row: f"less than {format_share(_IGNORES)} in total for {counts[row]} messages",
                about=counts >= self.MIN,
            ),
        )  # fmt: skip


def _some(data: _Data, indices: Int64) -> _Data:
    times, keys, octets = data
    return times[indices], keys[indices], octets[indices]


def _joined(one: _Data, other: _Data) -> _Data:
    (a, b, c), (d, e, f) = one, other
    return np.concatenate([a, d]), np.concatenate([b, e]), np.concatenate([c, f])


def _sum(messages: Int64, data: _Data, flows: dict[int, list[int]]) -> None:
    """Add the octets in the complete windows of messages to ``flows``."""
    times, keys, octets = data
    requested = np.flatnonzero(np.isin(keys, messages[:, 1]))
    order = requested[np.lexsort((times[requested], keys[requested]))]
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
            before, after = (int((sums[edge + 1] - sums[edge])[sent].sum()) for edge in (0, 2))
            time_ns, _, subject, number, interface = mine[sent[0]].tolist()
            _count(flows, flow, [len(sent), before, after, subject, number, time_ns, interface])


def _count(flows: dict[int, list[int]], flow: int, more: list[int]) -> None:
    sums = flows.get(flow)
    if sums is not None:
        sums[:3] = [one + other for one, other in zip(sums, more[:3], strict=False)]
    elif len(flows) < _MAX_FLOWS:
        flows[flow] = more


def comparison(message: str, minimum: int, family: str) -> str:
    """Return sentences on the octets that the rule compares, and on the flows to which the rule applies."""
    return (
        f"The rule counts the flow's octets in the 0.2 ms before {message}. The rule also counts the flow's "
        f"octets in the 0.2 ms that begin 0.1 ms after {message}. The rule reports a flow if the second sum "
        f"is at least {100 * _IGNORES:.0f} % of the first sum. The rule applies to flows with at least "
        f"{minimum} of these messages. The rule also needs at least one flow in the capture that slows down. "
        "If no flow slows down, the sources probably do not receive the messages (open loop). With --set "
        f"{family}.closed=yes, the rule applies even if no flow slows down."
    )


def silence(stop: str, *, memory: type[Reactions], clause: str) -> Rule:
    """Return the rule for flows after messages that stop the flow."""
    return Rule(
        id=memory.RULE,
        name="silence",
        sentence=f"A source stops a flow when the source receives {stop}.",
        why="The source stops the flow for a random time and then restarts the flow at about 1 % of the link "
        "speed. "
        f"{comparison('each ' + stop.split(maxsplit=1)[1], memory.MIN, memory.MESSAGE.split('.')[0])}",
        clause=clause,
        severity="error",
        subject=SENDER,
        optional=FIELDS,
        parameters=("closed",),
        memory=memory,
    )
