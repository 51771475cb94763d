"""Rules of FECN and DBP: advertised rates on their way, back again, and every 10 ms."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial

import numpy as np

from ecmproto.check.keyed import INTERFACE, TIME, Chain, Pairs, events, first_of, moved
from ecmproto.check.report import Report
from ecmproto.check.rule import (
    NO_TIME,
    PRIORITY_FIELDS,
    SENDER,
    STATION,
    Family,
    Int64,
    Judged,
    Rows,
    Rule,
    Settings,
    Shift,
    Subject,
    Where,
    mac_of_key,
)
from ecmproto.check.rules import drafts
from ecmproto.check.rules.malformed import malformed
from ecmproto.mechanisms.api.parameters import Parameters, duration
from ecmproto.plain_data import plain_value
from ecmproto.units import RATE_INFINITY, format_rate, format_time

_MS, _SECOND = 10**6, 10**9
_KBPS = 1000
_LEAST_KBPS = 100
_FORWARD, _RETURN = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNRules(Parameters):
    """What the network of a capture is set to."""

    interval_ns: int = duration(
        "interval", _MS, (1000, _SECOND), source="S003; algorithms 5",
        doc="time between two RD tags of a rate-limited queue (τ)",
    )  # fmt: skip
    report_ns: int = duration(
        "report", 10 * _MS, (1000, 10 * _SECOND), source="S002 (DBP); algorithms 5",
        doc="time between two rate reports to an active source",
    )  # fmt: skip
    jitter_ns: int = duration(
        "jitter", _MS, (0, _SECOND), source="choice: a queue of 100 frames at 1 Gb/s",
        doc="by how much a report may be early or late in the capture",
    )  # fmt: skip


def _bits(prefix: str, kind: int, rows: Rows, parameters: FECNRules) -> Judged:
    judged = drafts.reserved_bits(prefix, ("version", "q", "reserved"), rows, parameters)
    return judged._replace(about=rows[f"{prefix}.type"] == kind)


def _rate(field: str, rows: Rows, parameters: FECNRules) -> Judged:
    rate = rows[field]
    return Judged(
        rate < _LEAST_KBPS, "a rate below what a switch may advertise",
        lambda row: _rate_text(int(rate[row])), _rate_text(_LEAST_KBPS) + " or more",
    )  # fmt: skip


def _rate_text(kbps: int) -> str:
    return "no limit" if kbps == RATE_INFINITY else format_rate(kbps * _KBPS)


def _queue_key(rows: Rows) -> Int64:
    """Return the source and number of each frame's rate-limited queue."""
    return rows["eth.src"] << 16 | rows["rdtag.rlq_id"]


def _queue_text(key: int) -> str:
    return f"{mac_of_key(key >> 16)} RLQ {key & 0xFFFF}"


QUEUE = Subject(name="queue", fields=("eth.src", "rdtag.rlq_id"), key=_queue_key, text=_queue_text)


class AlongPaths:
    """Holds an RD tag against the same tag on another interface before: FECN003.

    A source tags a frame every τ: what follows on another interface within half of that is the same frame,
    some hops later.  Queues that are tagged more often are not judged.
    """

    _MOST = 1 << 13
    _MOST_RAISED = 1000

    def __init__(self, settings: Settings, report: Report) -> None:
        self._within_ns = settings.of(FECNRules).interval_ns // 2
        self._chain = Chain(self._MOST, 3)
        self._same = Chain(self._MOST, 1)
        self._often: set[int] = set()
        """Queues that are tagged more often than every τ."""
        self._lowered: dict[int, int] = {}
        self._raised: Int64 = np.zeros((0, 7), np.int64)
        """Tags that were raised, with the rate before."""

    def add(self, rows: Rows) -> None:
        """Follow the tags of each queue."""
        tags = np.flatnonzero(rows.time_ns != NO_TIME)
        key = _queue_key(rows)[tags]
        place = drafts.mixed(key, rows["eth.dst"][tags] << 3 | rows.priority[tags])
        number, time_ns, interface = rows.number[tags], rows.time_ns[tags], rows.interface[tags]
        rate, octets = rows["rdtag.rate"][tags], rows.octets[tags]
        self._take(self._chain.follow(place, 0, events(number, time_ns, interface, rate, octets, key)))
        self._count(self._same.follow(place, interface, events(number, time_ns, interface, key)))

    def _take(self, pairs: Pairs) -> None:
        before, now = pairs.before, pairs.now
        elsewhere = (now[:, INTERFACE] != before[:, INTERFACE]) & (now[:, 4] == before[:, 4])
        near = np.flatnonzero(elsewhere & (now[:, TIME] - before[:, TIME] <= self._within_ns))
        raised = near[now[near, 3] > before[near, 3]]
        for key, many in zip(*np.unique(now[near, 5], return_counts=True), strict=True):
            self._lowered[int(key)] = self._lowered.get(int(key), 0) + int(many)
        if len(raised):
            more = np.column_stack([now[raised], before[raised, 3]])
            self._raised = first_of(self._raised, more, self._MOST_RAISED)

    def _count(self, pairs: Pairs) -> None:
        often = pairs.now[:, TIME] - pairs.before[:, TIME] <= self._within_ns
        self._often |= set(np.unique(pairs.now[often, 3]).tolist())

    def join(self, later: AlongPaths, shift: Shift) -> None:
        """Go on with the queues of a later part."""
        # its keys are places, and hold no interface
        self._take(self._chain.join(later._chain, shift, keys_move=False))
        self._count(self._same.join(later._same, shift))
        self._often |= later._often
        for key, many in later._lowered.items():
            self._lowered[key] = self._lowered.get(key, 0) + many
        self._raised = first_of(self._raised, moved(later._raised, shift), self._MOST_RAISED)

    def end(self, report: Report) -> None:
        """Tell of the queues that are tagged seldom enough."""
        raised = self._raised[~np.isin(self._raised[:, 5], list(self._often))]
        wrong = dict(zip(*np.unique(raised[:, 5], return_counts=True), strict=True))
        passed = {
            key: many - int(wrong.get(key, 0))
            for key, many in self._lowered.items()
            if key not in self._often
        }
        keys = np.repeat(np.array(list(passed), np.int64), np.array(list(passed.values()), np.int64))
        zeros = np.zeros(len(keys), np.int64)
        report.count("FECN003", Where(zeros, zeros, zeros, keys))
        number, time_ns, interface, rate, _, key, before = raised.T
        report.tell(
            "FECN003", Where(number, time_ns, interface, key),
            Judged(
                np.ones(len(raised), np.bool_), "the rate was raised on its way",
                lambda row: _rate_text(int(rate[row])), lambda row: f"{_rate_text(int(before[row]))} at most",
            ),
        )  # fmt: skip


def _destined_key(rows: Rows) -> Int64:
    return rows["eth.dst"] << 16 | rows["fecn.rlq_id"]


DESTINED = Subject(name="queue", fields=("eth.dst", "fecn.rlq_id"), key=_destined_key, text=_queue_text)


class Returns:
    """Holds what comes back against the RD tags that went out: FECN004.

    The rate is that of a tag that was seen on its way, or a lower one where a switch stands behind.
    """

    _MOST = 1 << 13
    _TAGS = 8
    """The latest tags of a queue; a frame with one may be on its way while the one before comes back."""
    _HEAD = 64

    def __init__(self, settings: Settings, report: Report) -> None:
        self._report = report
        self._queues: dict[int, _Queue] = {}

    def add(self, rows: Rows) -> None:
        """Look at tags and returning frames one after the other: there are few."""
        is_tag = rows.has("rdtag.rate")
        keys = np.where(is_tag, _queue_key(rows), _destined_key(rows))
        rates = np.where(is_tag, rows["rdtag.rate"], rows["fecn.rate"])
        due: list[list[int]] = []
        for key, tag, rate, *event in zip(
            keys.tolist(), is_tag.tolist(), rates.tolist(), rows.number.tolist(), rows.time_ns.tolist(),
            rows.interface.tolist(), strict=True,
        ):  # fmt: skip
            queue = self._queues.get(key)
            if queue is None:
                if len(self._queues) == self._MOST:
                    continue
                queue = self._queues[key] = _Queue(deque(maxlen=self._TAGS))
            if not queue.is_full and len(queue.head) < self._HEAD:
                queue.head.append((tag, rate, event))
                queue.is_full = len(queue.tags) + tag == self._TAGS
                if tag:
                    queue.tags.append(rate)
                continue
            if tag:
                queue.tags.append(rate)
            elif queue.tags:
                due.append([*event, key, rate, max(queue.tags)])
        self._judge(self._report, due)

    @staticmethod
    def _judge(report: Report, due: list[list[int]]) -> None:
        """Judge returning frames, with their queues, their rates and the highest of the latest tags."""
        number, time_ns, interface, key, rate, most = np.array(due, np.int64).reshape(-1, 6).T
        report.tell(
            "FECN004", Where(number, time_ns, interface, key),
            Judged(
                rate > most, "a rate that no RD tag had", lambda row: _rate_text(int(rate[row])),
                lambda row: f"{_rate_text(int(most[row]))} at most",
            ),
        )  # fmt: skip

    def join(self, later: Returns, shift: Shift) -> None:
        """Go on with the queues of a later part: their first events are looked at again."""
        for key, there in later._queues.items():
            here = self._queues.get(key)
            shifted = [
                (tag, rate, [event[0] + shift.frames, event[1], event[2] + shift.interfaces])
                for tag, rate, event in there.head
            ]
            if here is None:
                if len(self._queues) < self._MOST:
                    self._queues[key] = _Queue(deque(there.tags, self._TAGS), shifted, there.is_full)
                continue
            for tag, rate, event in shifted:
                if not here.is_full and len(here.head) < self._HEAD:
                    here.head.append((tag, rate, event))
                    here.is_full = len(here.tags) + tag == self._TAGS
                elif not tag and here.tags:
                    self._judge(self._report, [[*event, key, rate, max(here.tags)]])
                if tag:
                    here.tags.append(rate)
            if there.is_full or len(there.head) == self._HEAD:
                here.tags = deque(there.tags, self._TAGS)

    def end(self, report: Report) -> None:
        """Judge the first events of each queue."""
        due: list[list[int]] = []
        for key, queue in self._queues.items():
            tags: deque[int] = deque(maxlen=self._TAGS)
            for tag, rate, event in queue.head:
                if tag:
                    tags.append(rate)
                elif tags:
                    due.append([*event, key, rate, max(tags)])
        self._judge(report, due)


@plain_value
@dataclass(slots=True)
class _Queue:
    """The rates of a queue's latest tags, and its first events until there are as many."""

    tags: deque[int]
    head: list[tuple[bool, int, list[int]]]
    is_full: bool = False

    def __init__(
        self, tags: deque[int], head: list[tuple[bool, int, list[int]]] | None = None, is_full: bool = False
    ) -> None:
        self.tags, self.head, self.is_full = tags, head or [], is_full


class Reports:
    """Holds rate reports against those before: DBP002."""

    _MOST = 1 << 13

    def __init__(self, settings: Settings, report: Report) -> None:
        parameters = settings.of(FECNRules)
        self._interval_ns, self._jitter_ns = parameters.report_ns, parameters.jitter_ns
        self._report = report
        self._chain = Chain(self._MOST, 1)

    def add(self, rows: Rows) -> None:
        """Follow the reports to each source, from each destination, on each interface."""
        timed = np.flatnonzero(rows.time_ns != NO_TIME)
        station = rows["eth.dst"][timed]
        seen = events(rows.number[timed], rows.time_ns[timed], rows.interface[timed], station)
        self._take(
            self._chain.follow(drafts.mixed(rows["eth.src"][timed], station), rows.interface[timed], seen)
        )

    def _take(self, pairs: Pairs) -> None:
        passed = pairs.now[:, TIME] - pairs.before[:, TIME]
        low, high = self._interval_ns - self._jitter_ns, self._interval_ns + self._jitter_ns
        # a source that was silent for a while is reported to when it sends again
        late = (passed > high) & (passed < low + self._interval_ns)
        number, time_ns, interface, station = pairs.now.T
        self._report.tell(
            "DBP002", Where(number, time_ns, interface, station),
            Judged(
                (passed < low) | late, "time since the report before",
                lambda row: format_time(int(passed[row])), f"{format_time(low)} to {format_time(high)}",
            ),
        )  # fmt: skip

    def join(self, later: Reports, shift: Shift) -> None:
        """Go on with the reports of a later part."""
        self._take(self._chain.join(later._chain, shift))

    def end(self, report: Report) -> None:
        """Tell nothing more."""


_BITS = ("version", "q", "reserved", "type")

RULES = (
    malformed(
        "FECN",
        "a message or a tag of FECN or DBP",
        ("fecn", "rdtag", "dbp"),
        right=("fecn.rate", "dbp.rate"),
        clause="S003; S002; wire-formats 7",
    ),
    Rule(
        id="FECN001",
        name="version and reserved bits",
        sentence="A returning frame's Version, Q and reserved bits are 0.",
        why="Receivers ignore them, so nothing else tells of a sender that writes something there.",
        clause="S003; wire-formats 1.1, 7",
        severity="error",
        subject=STATION,
        on=("fecn.rate",),
        fields=tuple(f"fecn.{name}" for name in _BITS),
        expression=partial(_bits, "fecn", _RETURN),
    ),
    Rule(
        id="FECN002",
        name="bits of the RD tag",
        sentence="An RD tag's Version, Q and reserved bits are 0.",
        why="Receivers ignore them, so nothing else tells of a sender that writes something there.",
        clause="S003; wire-formats 1.1, 7",
        severity="error",
        subject=SENDER,
        on=("rdtag.rate",),
        fields=tuple(f"rdtag.{name}" for name in _BITS),
        expression=partial(_bits, "rdtag", _FORWARD),
    ),
    Rule(
        id="FECN003",
        name="lowered along a path",
        sentence="Switches only lower the rate in an RD tag.",
        why="The tag is to bring back the least rate of its path: a switch that raises it lets a source "
        "overload the switch before. Judged in captures of several interfaces: the same tag is one on "
        "another interface within half of fecn.interval, in a frame as long, and queues that are "
        "tagged more often are left out.",
        clause="S003; algorithms 5",
        severity="error",
        subject=QUEUE,
        on=("rdtag.rate",),
        fields=("rdtag.rlq_id", "eth.src", "eth.dst"),
        optional=PRIORITY_FIELDS,
        parameters=("interval",),
        memory=AlongPaths,
    ),
    Rule(
        id="FECN004",
        name="what comes back",
        sentence="A returning frame brings back a rate that an RD tag of its queue had, or a lower one.",
        why="The edge copies the tag, and switches behind the place of the capture only lower it. A "
        "higher rate was made up. Judged for queues whose tags are in the capture, by their latest "
        "eight.",
        clause="S003; algorithms 5",
        severity="error",
        subject=DESTINED,
        on=("fecn.rate", "rdtag.rate"),
        optional=("rdtag.rlq_id", "fecn.rlq_id", "eth.src", "eth.dst"),
        memory=Returns,
    ),
    Rule(
        id="FECN005",
        name="least rate",
        sentence="A returned rate is 100 kb/s or more.",
        why="Switches keep r above 0.1 Mb/s: with less, a source's next tag, which would bring more, is "
        "far away.",
        clause="S003; algorithms 5",
        severity="warning",
        subject=STATION,
        on=("fecn.rate",),
        expression=partial(_rate, "fecn.rate"),
    ),
    Rule(
        id="DBP001",
        name="bits of the rate report",
        sentence="A rate report's Version, Q, reserved bits and RLQ-ID are 0.",
        why="Receivers ignore them, so nothing else tells of a sender that writes something there.",
        clause="S002; wire-formats 1.1, 7",
        severity="error",
        subject=STATION,
        on=("dbp.rate",),
        fields=("dbp.version", "dbp.q", "dbp.reserved", "dbp.rlq_id"),
        expression=partial(drafts.reserved_bits, "dbp", ("version", "q", "reserved", "rlq_id")),
    ),
    Rule(
        id="DBP002",
        name="every 10 ms",
        sentence="A destination reports to an active source every 10 ms.",
        why="More often, and reports crowd out data; less often, and the loop is slower than it is "
        "reckoned to be. After a silence of the source of 10 ms and more nothing is said.",
        clause="S002; algorithms 5",
        severity="warning",
        subject=STATION,
        on=("dbp.rate",),
        fields=("eth.src", "eth.dst"),
        parameters=("report", "jitter"),
        memory=Reports,
    ),
    Rule(
        id="DBP003",
        name="least rate",
        sentence="A reported rate is 100 kb/s or more.",
        why="Switches keep r above 0.1 Mb/s.",
        clause="S002; algorithms 5",
        severity="warning",
        subject=STATION,
        on=("dbp.rate",),
        expression=partial(_rate, "dbp.rate"),
    ),
)

FAMILY = Family(name="fecn", title="FECN and DBP", parameters=FECNRules, rules=RULES)
