"""Rules for FECN and DBP, which check rates in RD tags, returned rates, and reports every 10 ms."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ecmproto.control.mechanisms.api.parameters import Parameters, duration
from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.tools.check.keyed import (
    INTERFACE,
    NUMBER,
    TIME,
    Chain,
    FirstEvents,
    Pairs,
    first_of,
    moved,
)
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    NO_TIME,
    PRIORITY_FIELDS,
    SENDER,
    STATION,
    Family,
    Int64,
    Judged,
    Mask,
    Rows,
    Rule,
    Settings,
    Shift,
    Subject,
    Where,
    mac_of_key,
)
from ecmproto.tools.check.rules import drafts
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.units import RATE_INFINITY, format_rate, format_time

_MS, _SECOND = 10**6, 10**9
_KBPS = 1000
_MIN_KBPS = 100
_FORWARD, _RETURN = 0, 1
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNRules(Parameters):
    """Settings of the FECN network in a capture."""

    interval_ns: int = duration(
        "interval", _MS, (1000, _SECOND), source="S003; algorithms 5",
        doc="time between two RD tags from the same rate-limited queue (τ)",
    )  # fmt: skip
    report_ns: int = duration(
        "report", 10 * _MS, (1000, 10 * _SECOND), source="S002 (DBP); algorithms 5",
        doc="time between two rate reports to an active source",
    )  # fmt: skip
    jitter_ns: int = duration(
        "jitter", _MS, (0, _SECOND), source="choice: a queue of 100 frames at 1 Gb/s",
        doc="time by which a rate report may be early or late",
    )  # fmt: skip


def _bits(prefix: str, kind: int, rows: Rows, parameters: FECNRules) -> Judged:
    judged = drafts.reserved_bits(prefix, ("version", "q", "reserved"), rows, parameters)
    return judged._replace(about=rows[f"{prefix}.type"] == kind)


def _rate(field: str, rows: Rows, parameters: FECNRules) -> Judged:
    rate = rows[field]
    return Judged(
        rate < _MIN_KBPS, "the rate is lower than the minimum that a switch advertises",
        lambda row: _rate_text(int(rate[row])), _rate_text(_MIN_KBPS) + " or more",
    )  # fmt: skip


def _rate_text(kbps: int) -> str:
    return "no limit" if kbps == RATE_INFINITY else format_rate(kbps * _KBPS)


def _queue_key(rows: Rows) -> Int64:
    """Return a key with the source and the number of each frame's rate-limited queue."""
    return rows["eth.src"] << 16 | rows["rdtag.rlq_id"]


def _queue_text(key: int) -> str:
    return f"{mac_of_key(key >> 16)} RLQ {key & 0xFFFF}"


QUEUE = Subject(name="queue", fields=("eth.src", "rdtag.rlq_id"), key=_queue_key, text=_queue_text)


class AlongPaths:
    """A comparison of each RD tag with the same tag on an earlier interface (FECN003).

    A source sends a tagged frame every τ. A tagged frame on another interface within τ/2 is therefore the
    same frame, some hops later. Queues with more frequent tags are not judged.
    """

    _MAX = 1 << 13
    _MAX_RAISED = 1000

    def __init__(self, settings: Settings, report: Report) -> None:
        self._within_ns = settings.of(FECNRules).interval_ns // 2
        self._chain = Chain(self._MAX, 3)
        self._same = Chain(self._MAX, 1)
        self._often: set[int] = set()
        """Queues with tags more often than every τ."""
        self._lowered: dict[int, int] = {}
        self._raised: Int64 = np.zeros((0, 7), np.int64)
        """Tags with an increased rate. The last column is the previous rate."""

    def add(self, rows: Rows) -> None:
        """Process the tags of each queue."""
        tags = np.flatnonzero(rows.time_ns != NO_TIME)
        key = _queue_key(rows)[tags]
        path_key = drafts.mixed(key, rows["eth.dst"][tags] << 3 | rows.priority[tags])
        rate, octets = rows["rdtag.rate"][tags], rows.octets[tags]
        self._take(self._chain.follow(path_key, 0, rows.events(tags, rate, octets, key)))
        self._count(self._same.follow(path_key, rows.interface[tags], rows.events(tags, key)))

    def _take(self, pairs: Pairs) -> None:
        before, now = pairs.before, pairs.now
        elsewhere = (now[:, INTERFACE] != before[:, INTERFACE]) & (now[:, 4] == before[:, 4])
        near = np.flatnonzero(elsewhere & (now[:, TIME] - before[:, TIME] <= self._within_ns))
        raised = near[now[near, 3] > before[near, 3]]
        for key, many in zip(*np.unique(now[near, 5], return_counts=True), strict=True):
            self._lowered[int(key)] = self._lowered.get(int(key), 0) + int(many)
        if len(raised):
            more = np.column_stack([now[raised], before[raised, 3]])
            self._raised = first_of(self._raised, more, self._MAX_RAISED)

    def _count(self, pairs: Pairs) -> None:
        often = pairs.now[:, TIME] - pairs.before[:, TIME] <= self._within_ns
        self._often |= set(np.unique(pairs.now[often, 3]).tolist())

    def join(self, later: AlongPaths, shift: Shift) -> None:
        """Add the queues of a later part."""
        # the keys of this chain contain no interface
        self._take(self._chain.join(later._chain, shift, keys_move=False))
        self._count(self._same.join(later._same, shift))
        self._often |= later._often
        for key, many in later._lowered.items():
            self._lowered[key] = self._lowered.get(key, 0) + many
        self._raised = first_of(self._raised, moved(later._raised, shift), self._MAX_RAISED)

    def end(self, report: Report) -> None:
        """Report the results for queues that do not have too frequent tags."""
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
        report.record(
            "FECN003", Where(number, time_ns, interface, key),
            Judged(
                np.ones(len(raised), np.bool_), "a switch increased the rate in the RD tag",
                lambda row: _rate_text(int(rate[row])), lambda row: f"{_rate_text(int(before[row]))} at most",
            ),
        )  # fmt: skip


def _destined_key(rows: Rows) -> Int64:
    return rows["eth.dst"] << 16 | rows["fecn.rlq_id"]


DESTINED = Subject(name="queue", fields=("eth.dst", "fecn.rlq_id"), key=_destined_key, text=_queue_text)


class Returns:
    """A comparison of each returned rate with the rates in earlier RD tags (FECN004).

    A returned rate is at most the rate in the tag, because later switches may lower the rate. A tag within
    τ/2 on another interface is the same tag, some hops later. The lowest rate of the tag counts.
    """

    _MAX = 1 << 13
    _TAGS = 8
    """The maximum number of kept tags of a queue. A new tag may be sent before the previous tag returns."""
    _HEAD = 64

    def __init__(self, settings: Settings, report: Report) -> None:
        self._within_ns = settings.of(FECNRules).interval_ns // 2
        self._report = report
        self._queues: dict[int, _Queue] = {}

    def add(self, rows: Rows) -> None:
        """Process the tags and the returned rates of a batch.

        The loop is in Python, because there are few frames.
        """
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
                if len(self._queues) == self._MAX:
                    continue
                queue = self._queues[key] = _Queue(deque(maxlen=self._TAGS))
            due += self._take(queue, key, tag, rate, event)
        self._judge(self._report, due)

    def _take(self, queue: _Queue, key: int, tag: bool, rate: int, event: list[int]) -> list[list[int]]:
        """Add an event to the first events of a queue. If the list is full, return the entries to judge."""
        if queue.is_full or len(queue.head) == self._HEAD:
            return self._meet(queue, key, tag, rate, event)
        queue.head.append((tag, rate, event))
        if tag:
            self._meet(queue, key, tag, rate, event)
            queue.is_full = len(queue.tags) == self._TAGS
        return []

    def _meet(self, queue: _Queue, key: int, tag: bool, rate: int, event: list[int]) -> list[list[int]]:
        """Process an event of a queue.

        A tag is added to the latest tags. For a returned rate, the result is an entry with the highest rate
        of the latest tags.
        """
        if not tag:
            return [[*event, key, rate, max(each[1] for each in queue.tags)]] if queue.tags else []
        latest = queue.tags[-1] if queue.tags else None
        is_near = latest is not None and abs(event[TIME] - latest[0]) <= self._within_ns
        if latest is not None and is_near:
            # an interface sees each tag once, so this queue has tags more often than every τ
            queue.often |= event[INTERFACE] in latest[2:]
        if latest is None or not is_near or queue.often:
            queue.tags.append([event[TIME], rate, event[INTERFACE]])
        else:
            latest[1] = min(latest[1], rate)
            latest.append(event[INTERFACE])
        return []

    @staticmethod
    def _judge(report: Report, due: list[list[int]]) -> None:
        """Judge returned rates.

        Each entry contains the frame, the queue, the returned rate, and the highest rate of the latest tags.
        """
        number, time_ns, interface, key, rate, maximum = np.array(due, np.int64).reshape(-1, 6).T
        report.record(
            "FECN004", Where(number, time_ns, interface, key),
            Judged(
                rate > maximum, "the returned rate is higher than the rate in the RD tags",
                lambda row: _rate_text(int(rate[row])),
                lambda row: f"{_rate_text(int(maximum[row]))} at most", about=maximum < RATE_INFINITY,
            ),
        )  # fmt: skip

    def join(self, later: Returns, shift: Shift) -> None:
        """Add the queues of a later part, and process their first events again."""
        due: list[list[int]] = []
        for key, other in later._queues.items():
            here = self._queues.get(key)
            if here is None:
                if len(self._queues) == self._MAX:
                    continue
                here = self._queues[key] = _Queue(deque(maxlen=self._TAGS))
            here.often |= other.often
            for tag, rate, event in other.head:
                shifted = [event[NUMBER] + shift.frames, event[TIME], event[INTERFACE] + shift.interfaces]
                due += self._take(here, key, tag, rate, shifted)
            if other.is_full or len(other.head) == self._HEAD:
                here.tags.clear()
                for time_ns, rate, *interfaces in other.tags:
                    here.tags.append([time_ns, rate, *(each + shift.interfaces for each in interfaces)])
        self._judge(self._report, due)

    def end(self, report: Report) -> None:
        """Judge the first events of each queue."""
        due: list[list[int]] = []
        for key, queue in self._queues.items():
            first = _Queue(deque(maxlen=self._TAGS), often=queue.often)
            for tag, rate, event in queue.head:
                due += self._meet(first, key, tag, rate, event)
        self._judge(report, due)


class UnknownQueues:
    """The queues of returned rates, compared with the queues of earlier tags (FECN006)."""

    _MAX = 1 << 13

    def __init__(self, settings: Settings, report: Report) -> None:
        self._interval_ns = settings.of(FECNRules).interval_ns
        self._tagged, self._returned = FirstEvents(self._MAX, 0), FirstEvents(self._MAX, 0)
        """The first tag and the first returned rate of each queue."""

    def add(self, rows: Rows) -> None:
        """Record the queues of tags and of returned rates."""
        for name, first, key in (
            ("rdtag.rate", self._tagged, _queue_key), ("fecn.rate", self._returned, _destined_key)
        ):  # fmt: skip
            at = np.flatnonzero(rows.has(name) & (rows.time_ns != NO_TIME))
            first.add(key(rows)[at], *rows.frames(at))

    def join(self, later: UnknownQueues, shift: Shift) -> None:
        """Add the queues of a later part."""
        self._tagged.join(later._tagged, shift)
        self._returned.join(later._returned, shift)

    def end(self, report: Report) -> None:
        """Report queues with a returned rate and no earlier tag."""
        if self._tagged.is_full:
            return
        tagged_ns = dict(zip(self._tagged.keys.tolist(), self._tagged.events[:, TIME].tolist(), strict=True))
        since_ns: dict[int, int] = {}
        for key, time_ns in tagged_ns.items():
            since_ns[key >> 16] = min(time_ns, since_ns.get(key >> 16, time_ns))
        keys = self._returned.keys
        number, time_ns, interface = self._returned.events.T
        # the tag of this returned rate may precede the capture
        begun = [since_ns.get(key >> 16, _NEVER_NS) + self._interval_ns for key in keys.tolist()]
        report.record(
            "FECN006", Where(number, time_ns, interface, keys),
            Judged(
                np.array([tagged_ns.get(key, _NEVER_NS) for key in keys.tolist()], np.int64) > time_ns,
                "the capture contains no earlier RD tag for this queue",
                about=np.array(begun, np.int64) <= time_ns,
            ),
        )  # fmt: skip


_NEVER_NS = 1 << 62


@plain_value
@dataclass(slots=True)
class _Queue:
    """The latest tags of a queue, and the first events of the queue until this list is full."""

    tags: deque[list[int]]
    """The first time, the lowest rate and the interfaces of each tag."""
    head: list[tuple[bool, int, list[int]]] = field(default_factory=list)
    is_full: bool = False
    often: bool = False
    """Whether the queue has tags more often than every τ, so that tags on two interfaces may differ."""


@plain_value
@dataclass(slots=True)
class _Reported:
    """The reports from a destination to a source on an interface.

    The times of data frames are NO_TIME if there was no data frame.
    """

    station: int
    first: list[int]
    """The number, time and interface of the first report."""
    before_ns: int
    """The time of the first data frame before the first report."""
    last: list[int]
    first_data_ns: int = NO_TIME
    """The time of the first data frame after the last report."""


class Reports:
    """A check of the time between rate reports while the source sends data (DBP002)."""

    _MAX = 1 << 13

    def __init__(self, settings: Settings, report: Report) -> None:
        parameters = settings.of(FECNRules)
        self._interval_ns, self._jitter_ns = parameters.report_ns, parameters.jitter_ns
        self._report = report
        self._data = FirstEvents(self._MAX, 0)
        """The first data frame from each source to each destination.

        Before the first report, data frames are recorded only in the first two intervals of the capture.
        """
        self._reported: dict[tuple[int, int], _Reported] = {}
        """Reports by the pair of source and destination, and by interface."""
        self._head_ns = self._last_ns = NO_TIME

    def add(self, rows: Rows) -> None:
        """Record data frames, and process the reports for each source, destination and interface."""
        timed = rows.time_ns != NO_TIME
        if not timed.any():
            return
        if self._last_ns == NO_TIME:
            self._head_ns = int(rows.time_ns[timed.argmax()]) + 2 * self._interval_ns
        self._last_ns = max(self._last_ns, int(rows.time_ns[timed].max()))
        reports = np.flatnonzero(timed & rows.has("dbp.rate")) if len(rows.columns["dbp.rate"]) else _NONE
        is_data = timed & (bool(self._reported) | (rows.time_ns < self._head_ns))
        if len(reports):
            is_data[reports[0] :] = timed[reports[0] :]
            is_data[reports] = False
        data = np.flatnonzero(is_data)
        source, dst = rows["eth.src"], rows["eth.dst"]
        pair = drafts.mixed(dst[data], source[data])
        self._data.add(pair, *rows.frames(data))
        if not (len(reports) or self._reported):
            return
        keys = drafts.mixed(source[reports], dst[reports])
        followed = [*keys.tolist(), *(key for key, _ in self._reported)]
        known = np.isin(pair, np.array(followed, np.int64))
        self._follow(rows, reports, keys, _Sent(pair[known], data[known], rows.time_ns))

    def _follow(self, rows: Rows, reports: Int64, keys: Int64, sent: _Sent) -> None:
        """Process the reports of a batch. ``sent`` contains the data frames of the batch."""
        due: list[list[int]] = []
        latest: dict[tuple[int, int], int] = {}
        before = np.where(
            self._data.of(keys, NUMBER, 0) < rows.number[reports], self._data.of(keys, TIME, NO_TIME), NO_TIME
        )
        for at, key, before_ns in zip(reports.tolist(), keys.tolist(), before.tolist(), strict=True):
            event = [int(column[at]) for column in (rows.number, rows.time_ns, rows.interface)]
            link = key, event[INTERFACE]
            known = self._reported.get(link)
            if known is None:
                if len(self._reported) == self._MAX:
                    continue
                station = int(rows["eth.dst"][at])
                known = self._reported[link] = _Reported(station, event, before_ns, event)
            else:
                if known.first_data_ns == NO_TIME:
                    known.first_data_ns = sent.first_ns(key, latest.get(link, -1), at)
                due.append([*event, known.station, known.last[TIME], known.first_data_ns])
            known.last, known.first_data_ns = event, NO_TIME
            latest[link] = at
        for link, known in self._reported.items():
            if known.first_data_ns == NO_TIME:
                known.first_data_ns = sent.first_ns(link[0], latest.get(link, -1), len(rows))
        self._judge(due)

    def _judge(self, due: list[list[int]]) -> None:
        """Judge reports.

        Each entry contains the report, the time of the previous report, and the time of the first data frame
        after the previous report.
        """
        number, time_ns, interface, station, last_ns, data_ns = np.array(due, np.int64).reshape(-1, 6).T
        passed = time_ns - last_ns
        low, high = self._interval_ns - self._jitter_ns, self._interval_ns + self._jitter_ns
        late = self._is_late(time_ns, last_ns, data_ns)
        # without captured data, a report after a long gap may be for a source that sends again
        late |= (data_ns == NO_TIME) & (passed > high) & (passed < low + self._interval_ns)
        self._report.record(
            "DBP002", Where(number, time_ns, interface, station),
            Judged(
                (passed < low) | late, "the time since the previous report is wrong",
                lambda row: format_time(int(passed[row])), f"{format_time(low)} to {format_time(high)}",
            ),
        )  # fmt: skip

    def _is_late(self, time_ns: Int64, last_ns: Int64, data_ns: Int64) -> Mask:
        """Return a mask of the late reports.

        ``last_ns`` is the time of the previous report, and ``data_ns`` is the time of the first data frame
        after this report.
        """
        interval_ns, jitter_ns = self._interval_ns, self._jitter_ns
        # if a source sends again, the next report is due an interval later
        began = data_ns > last_ns + interval_ns - jitter_ns
        late: Mask = time_ns > np.where(began, data_ns, last_ns) + interval_ns + jitter_ns
        late &= data_ns != NO_TIME
        return late

    def join(self, later: Reports, shift: Shift) -> None:
        """Add the reports of a later part."""
        due: list[list[int]] = []
        moved_on = {
            (key, interface + shift.interfaces): each for (key, interface), each in later._reported.items()
        }
        here_ns, later_ns = (_data_times(each._data, (*self._reported, *moved_on)) for each in (self, later))
        for link, other in moved_on.items():
            first, last = moved(np.array([other.first, other.last], np.int64), shift).tolist()
            here = self._reported.get(link)
            if here is None:
                if len(self._reported) < self._MAX:
                    before_ns = here_ns[link[0]] if here_ns[link[0]] != NO_TIME else other.before_ns
                    self._reported[link] = _Reported(
                        other.station, first, before_ns, last, other.first_data_ns
                    )
                continue
            data_ns = here.first_data_ns if here.first_data_ns != NO_TIME else other.before_ns
            due.append([*first, here.station, here.last[TIME], data_ns])
            here.last, here.first_data_ns = last, other.first_data_ns
        for link, here in self._reported.items():
            if here.first_data_ns == NO_TIME and link not in moved_on:
                here.first_data_ns = later_ns[link[0]]
        self._data.join(later._data, shift)
        if self._last_ns == NO_TIME:
            self._head_ns = later._head_ns
        self._last_ns = max(self._last_ns, later._last_ns)
        self._judge(due)

    def end(self, report: Report) -> None:
        """Report sources that continue to send data without a further report."""
        table = [[*each.last, each.station, each.first_data_ns] for each in self._reported.values()]
        number, time_ns, interface, station, data_ns = np.array(table, np.int64).reshape(-1, 5).T
        late = self._is_late(np.full(len(table), self._last_ns), time_ns, data_ns)
        report.record(
            "DBP002", Where(number, time_ns, interface, station),
            Judged(
                late, "the reports end, although the source continues to send",
                lambda row: f"last report {format_time(self._last_ns - int(time_ns[row]))} before the end",
                about=late,
            ),
        )  # fmt: skip


class _Sent:
    """The data frames of a batch, sorted by key. A key is a pair of source and destination."""

    def __init__(self, keys: Int64, rows: Int64, time_ns: Int64) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys, self._rows, self._time_ns = keys[order], rows[order], time_ns

    def first_ns(self, key: int, after: int, before: int) -> int:
        """Return the time of the first data frame of a key between two rows, or NO_TIME if there is none."""
        start, end = np.searchsorted(self._keys, key, "left"), np.searchsorted(self._keys, key, "right")
        position = start + np.searchsorted(self._rows[start:end], after, "right")
        present = position < end and self._rows[position] < before
        return int(self._time_ns[self._rows[position]]) if present else NO_TIME


def _data_times(data: FirstEvents, positions: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the time of the first data frame for each key, or NO_TIME if the key has no data frame."""
    keys = np.array([key for key, _ in positions], np.int64)
    return dict(zip(keys.tolist(), data.of(keys, TIME, NO_TIME).tolist(), strict=True))


_BITS = ("version", "q", "reserved", "type")

_returned_rule = partial(
    Rule, clause="S003; algorithms 5", subject=DESTINED, on=("fecn.rate", "rdtag.rate"),
    optional=("rdtag.rlq_id", "fecn.rlq_id", "eth.src", "eth.dst"), parameters=("interval",),
)  # fmt: skip
RULES = (
    malformed(
        "FECN",
        "A FECN or DBP message or tag",
        ("fecn", "rdtag", "dbp"),
        right=("fecn.rate", "dbp.rate"),
        clause="S003; S002; wire-formats 7",
    ),
    Rule(
        id="FECN001",
        name="version and reserved bits",
        sentence=drafts.zero_fields("a FECN message", has_q=True),
        why=drafts.IGNORED,
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
        sentence=drafts.zero_fields("an RD tag", has_q=True),
        why=drafts.IGNORED,
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
        sentence="A switch never increases the rate in an RD tag.",
        why=(
            "An RD tag collects the lowest rate on the path. A switch that increases the rate lets the "
            "source overload another switch on the path. The rule needs a capture from at least two "
            "interfaces. Two RD tags on two interfaces count as the same tag if the frames have equal "
            "lengths and are at most half of fecn.interval apart. The rule ignores queues that send a second "
            "RD tag on the same interface within half of fecn.interval."
        ),
        clause="S003; algorithms 5",
        severity="error",
        subject=QUEUE,
        on=("rdtag.rate",),
        fields=("rdtag.rlq_id", "eth.src", "eth.dst"),
        optional=PRIORITY_FIELDS,
        parameters=("interval",),
        memory=AlongPaths,
    ),
    _returned_rule(
        id="FECN004",
        name="feedback in return",
        sentence="The rate in a returning frame is not higher than the rates in the queue's RD tags.",
        why=(
            "The destination's edge copies the rate from an RD tag into the returning frame. Switches only "
            "reduce the rate in an RD tag. The rule compares the returned rate with the highest rate in the "
            "queue's last eight RD tags. If the capture contains an RD tag on several interfaces, the lowest "
            "rate of this tag counts. The rule ignores a queue while an RD tag of the queue requests an "
            "unlimited rate, as on the source's own link."
        ),
        severity="error",
        memory=Returns,
    ),
    Rule(
        id="FECN005",
        name="minimum rate",
        sentence="The rate in a returning frame is at least 100 kb/s.",
        why="A switch never advertises a rate below 100 kb/s. At a lower rate, a source would need too long "
        "to send the next RD tag, and would not receive a higher rate.",
        clause="S003; algorithms 5",
        severity="warning",
        subject=STATION,
        on=("fecn.rate",),
        expression=partial(_rate, "fecn.rate"),
    ),
    _returned_rule(
        id="FECN006",
        name="queue of a returning frame",
        sentence="A returning frame refers to a queue that has sent an RD tag.",
        why=(
            "A station ignores a rate for an unknown queue, so the intended queue keeps the old rate. The "
            "rule applies to stations that send RD tags in the capture. The rule ignores returning frames "
            "within fecn.interval of the station's first RD tag. The rule reports each queue once."
        ),
        severity="warning",
        memory=UnknownQueues,
    ),
    Rule(
        id="DBP001",
        name="bits of the rate report",
        sentence="The Version field, the Q bit, the reserved bits and the RLQ-ID of a rate report are 0.",
        why=drafts.IGNORED,
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
        sentence="A destination sends a rate report to each active source every 10 ms.",
        why=(
            "Additional rate reports displace data, and missing rate reports slow the control loop down. A "
            "source is active if the capture contains data from the source to the destination. The rule "
            "detects a missing rate report at the next rate report, or at the end of the capture. Without "
            "data between two rate reports, the rule accepts an interval of 19 ms or more, because the "
            "source may have been idle."
        ),
        clause="S002; algorithms 5",
        severity="warning",
        subject=STATION,
        optional=("dbp.rate", "eth.src", "eth.dst"),
        parameters=("report", "jitter"),
        memory=Reports,
    ),
    Rule(
        id="DBP003",
        name="minimum rate",
        sentence="The rate in a rate report is at least 100 kb/s.",
        why="A switch never advertises a rate below 100 kb/s.",
        clause="S002; algorithms 5",
        severity="warning",
        subject=STATION,
        on=("dbp.rate",),
        expression=partial(_rate, "dbp.rate"),
    ),
)

FAMILY = Family(name="fecn", title="FECN and DBP", parameters=FECNRules, rules=RULES)
