"""Pause times per class and sender of PAUSE and PFC frames, and PFC storms.

A pause frame stops a class of the sender's link partner until the quanta of the frame have elapsed. The next
frame of the same sender for the class replaces the pause: the new pause can be longer or shorter, and a frame
with 0 quanta ends the pause (802.3 31B, 31D). Classes 0 to 7 are priorities. Class 8 is PAUSE, which stops
the whole link.

Time advances from frame to frame. Each step adds the part of the elapsed time that the current pauses cover.
All of these pauses started before the step, so the union of several pauses is exact.

Two counts can be joined exactly. Each count stores its first pause frames, until every pause and every storm
that may have started earlier is over. The join applies the stored frames to the earlier count. After these
frames, both counts have the same state, and the join adds the differences of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ecmproto.frames.capture.batch import Int64, Interface
from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.frames.stats.statistics import ClassPause, PauseInterface, PauseSender, PauseStorm, PauseTimes
from ecmproto.frames.stats.tally import NO_NUMBER, NO_SLOT, CountedBatch, Numbering, Timeline, address_octets
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.units import NS_PER_S, QUANTUM_BITS

LINK = 8
CLASSES = 9
ANY = 9
"""Column for the union of all classes."""

LONG_AGO = -(1 << 62)
NEVER = (1 << 63) - 1
NO_LANE = -1
NO_STORM = -1
_QUANTUM = QUANTUM_BITS * NS_PER_S
_LONGEST_QUANTA = 0xFFFF
MAX_STORMS = 256
"""Maximum number of listed storms."""
_UNLISTED = MAX_STORMS
_CANDIDATES = 32
"""Maximum number of stored candidates for the start of a storm, per sender and class. If more pauses start
within one detection time, every other candidate is dropped.
"""
REACTION_NS = 100_000
"""Time in ns in which frames that were in transmission at the start of a pause may still arrive."""
DETECT_NS, RESTORE_NS = 200 * 10**6, 400 * 10**6


@plain_value
class StormRule(NamedTuple):
    """The definition of a storm.

    A storm starts after ``need_ns`` of pause within ``detect_ns``. A storm ends after ``restore_ns`` without
    pause.
    """

    detect_ns: int
    need_ns: int
    restore_ns: int


def storm_rule(detect_ns: int = DETECT_NS, restore_ns: int = RESTORE_NS) -> StormRule:
    """Return the rule for a detection time and a restoration time.

    A storm needs pause for 99 % of the detection time.
    """
    return StormRule(detect_ns, detect_ns - detect_ns // 100, restore_ns)


@plain_value
class PauseState(NamedTuple):
    """The state of all senders and interfaces. All arrays are int64."""

    until: Int64
    """End of the latest pause, by sender and class."""
    last: Int64
    """Time up to which pauses have been counted, by sender."""
    paused: Int64
    """Pause time in ns, by sender and class. An additional column is the pause time of any class."""
    requested: Int64
    """Number of frames with a pause time greater than 0, by sender and class."""
    ended: Int64
    """Number of frames with pause time 0, by sender and class."""
    frames: Int64
    """Number of pause frames, by sender."""
    port: Int64
    """Row of the sender's interface in the arrays of interfaces, by sender."""
    rate_bps: Int64
    """Link rate in bit/s, by sender."""
    lane: Int64
    """Row of the time series, by sender and class. NO_LANE means that there is no time series."""
    begun: Int64
    """Start of the latest pause, by sender and class."""
    transitions: Int64
    """Number of transitions from not paused to paused, by sender and class."""
    expired: Int64
    """Number of expired pauses, neither renewed nor ended by a frame, by sender and class."""
    open: Int64
    """Whether the latest frame had a pause time greater than 0, by sender and class."""
    left: Int64
    """Number of frames that left the stopped port during a pause, by sender and class."""
    fronts: Int64
    """Candidates for the start of a storm, by sender and class: a time, and ``paused`` and ``left`` then."""
    candidates: Int64
    """Number of candidates, by sender and class."""
    storm: Int64
    """Row of the current storm, by sender and class. NO_STORM means that there is no storm."""
    calm: Int64
    """First time after a restoration time without pause, by sender and class. NEVER means none so far."""
    port_until: Int64
    """End of the latest pause of any sender, by interface and class."""
    port_first: Int64
    port_last: Int64
    port_paused: Int64
    port_requested: Int64
    port_ended: Int64
    lanes: Int64
    """Number of time series, number of listed storms and number of unlisted storms."""
    storms: Int64
    """Listed storms: sender, class, start, detection time, end, and number of frames that left the stopped
    port. The end is NEVER while the storm continues.
    """


_SUMS = ("paused", "requested", "ended", "transitions", "expired", "left")
_LIVE = ("open", "fronts", "candidates")


_SHAPES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("last", "frames", "port", "rate_bps", "port_first", "port_last"), ()),
    **dict.fromkeys(("paused", "port_paused"), (CLASSES + 1,)),
    "fronts": (CLASSES, _CANDIDATES, 3),
}
"""Shape of one row in each array. Arrays that are not listed here have one number per class."""
_FIRST = {
    **dict.fromkeys(("until", "last", "begun", "port_until", "port_last"), LONG_AGO), "rate_bps": 1,
    "lane": NO_LANE, "storm": NO_STORM, **dict.fromkeys(("calm", "port_first"), NEVER),
}  # fmt: skip
"""Initial value of each array. Arrays that are not listed here start with 0."""


def new_state(senders: int) -> PauseState:
    """Return the initial state with capacity for ``senders`` senders, each on a different interface."""
    whole = {"lanes": np.zeros(3, np.int64), "storms": np.zeros((MAX_STORMS, 6), np.int64)}
    return PauseState(**whole, **{
        name: np.full((senders, *_SHAPES.get(name, (CLASSES,))), _FIRST.get(name, 0), np.int64)
        for name in PauseState._fields
        if name not in whole
    })  # fmt: skip


def _larger(state: PauseState, senders: int) -> PauseState:
    """Return a copy of the state with capacity for ``senders`` senders."""
    larger = new_state(senders)
    for name, array in state._asdict().items():
        getattr(larger, name)[: len(array)] = array
    return larger


def _copied(state: PauseState) -> PauseState:
    return PauseState(*(array.copy() for array in state))


class Grid(NamedTuple):
    """The width and the first interval of a timeline, for compiled loops."""

    width_ns: int
    first: int


@inlined
def _spread(series: Int64, lane: int, begin_ns: int, end_ns: int, grid: Grid) -> None:
    """Add the time from ``begin_ns`` to ``end_ns`` to the overlapping intervals of a time series."""
    slot = begin_ns // grid.width_ns - grid.first
    left = grid.width_ns - begin_ns % grid.width_ns
    while begin_ns < end_ns:
        step = min(left, end_ns - begin_ns)
        series[lane, slot] += step
        begin_ns += step
        slot += 1
        left = grid.width_ns


@inlined
def _pass(until: Int64, row: int, last_ns: int, now_ns: int, paused: Int64) -> None:
    """Add the pause time between ``last_ns`` and ``now_ns``, for each class and for any class."""
    longest = last_ns
    for each in range(CLASSES):
        end = min(until[row, each], now_ns)
        if end > last_ns:
            paused[row, each] += end - last_ns
            longest = max(longest, end)
    paused[row, ANY] += longest - last_ns


@inlined
def _draw(until: Int64, lane: Int64, row: int, last_ns: int, now_ns: int, grid: Grid, series: Int64) -> None:
    """Add the pause time between ``last_ns`` and ``now_ns`` to the time series of a sender."""
    for each in range(CLASSES):
        if lane[row, each] != NO_LANE:
            _spread(series, lane[row, each], last_ns, min(until[row, each], now_ns), grid)


@inlined
def _drop_first(fronts: Int64, candidates: Int64, who: int, each: int) -> None:
    candidates[who, each] -= 1
    for index in range(candidates[who, each]):
        for column in range(3):
            fronts[who, each, index, column] = fronts[who, each, index + 1, column]


@over_batches
def watch_storm(who: int, each: int, now_ns: int, rule: StormRule, state: PauseState) -> None:
    """Start and end storms of a class up to ``now_ns``.

    ``state.paused`` must include the pause time up to ``state.last`` of the sender.
    """
    until, last, paused, left = state.until, state.last, state.paused, state.left
    fronts, candidates, storm, lanes, storms = (
        state.fronts, state.candidates, state.storm, state.lanes, state.storms
    )  # fmt: skip
    while storm[who, each] == NO_STORM and candidates[who, each] > 0:
        begin = fronts[who, each, 0, 0]
        at = begin + rule.detect_ns
        if at > now_ns:
            break
        rest = max(0, min(until[who, each], at) - last[who])
        if paused[who, each] + rest - fronts[who, each, 0, 1] < rule.need_ns:
            _drop_first(fronts, candidates, who, each)
            continue
        candidates[who, each] = 0
        row = lanes[1]
        if row == MAX_STORMS:
            lanes[2] += 1
            storm[who, each] = _UNLISTED
            break
        lanes[1] += 1
        storm[who, each] = row
        storms[row, 0] = who
        storms[row, 1] = each
        storms[row, 2] = begin
        storms[row, 3] = at
        storms[row, 4] = NEVER
        storms[row, 5] = left[who, each] - fronts[who, each, 0, 2]
    if until[who, each] == LONG_AGO:
        return
    over = until[who, each] + rule.restore_ns
    if over > now_ns:
        return
    state.calm[who, each] = min(state.calm[who, each], over)
    if storm[who, each] != NO_STORM:
        if storm[who, each] < MAX_STORMS:
            storms[storm[who, each], 4] = over
        storm[who, each] = NO_STORM


@inlined
def _is_due(who: int, each: int, now_ns: int, rule: StormRule, state: PauseState) -> bool:
    """Return whether a storm may have started or ended up to ``now_ns``."""
    if state.requested[who, each] == 0:
        return False
    if state.candidates[who, each] > 0 and state.fronts[who, each, 0, 0] + rule.detect_ns <= now_ns:
        return True
    if state.until[who, each] + rule.restore_ns > now_ns:
        return False
    return bool(state.storm[who, each] != NO_STORM or state.calm[who, each] == NEVER)


@inlined
def _add_candidate(who: int, each: int, now_ns: int, rule: StormRule, state: PauseState) -> None:
    """Add the start of a pause as a candidate, and drop candidates with too much time without pause."""
    fronts, candidates, paused = state.fronts, state.candidates, state.paused
    spare = rule.detect_ns - rule.need_ns
    while candidates[who, each] > 0:
        stopped = paused[who, each] - fronts[who, each, 0, 1]
        if now_ns - fronts[who, each, 0, 0] - stopped <= spare:
            break
        _drop_first(fronts, candidates, who, each)
    if candidates[who, each] == _CANDIDATES:
        candidates[who, each] = _CANDIDATES // 2
        for index in range(1, _CANDIDATES // 2):
            for column in range(3):
                fronts[who, each, index, column] = fronts[who, each, 2 * index, column]
    index = candidates[who, each]
    fronts[who, each, index, 0] = now_ns
    fronts[who, each, index, 1] = paused[who, each]
    fronts[who, each, index, 2] = state.left[who, each]
    candidates[who, each] += 1


@over_batches
def play(
    sender: Int64,
    time_ns: Int64,
    enabled: Int64,
    quanta: Int64,
    grid: Grid,
    rule: StormRule,
    state: PauseState,
    series: Int64,
    senders: int,
) -> None:
    """Apply pause frames in their order.

    ``enabled`` has one bit per class, and ``quanta`` has one column per class. ``senders`` is the number of
    senders. A frame with a negative ``sender`` is ignored. A frame with an earlier time than a previous frame
    of the same interface is applied at the time of the previous frame. A negative ``enabled`` marks a frame
    that left the port which the sender stops. The value is then −1 minus the priority of the frame.
    """
    until, last, paused, requested, ended = state[:5]
    port_of, rate_bps, lane, lanes, opened = state.port, state.rate_bps, state.lane, state.lanes, state.open
    port_until, port_last, port_paused = state.port_until, state.port_last, state.port_paused
    for i in range(len(sender)):
        who = sender[i]
        if who < 0:
            continue
        port = port_of[who]
        now = max(time_ns[i], port_last[port])
        # First advance all times to this frame. Later frames cannot change the pause time up to now.
        if enabled[i] < 0:
            each = -1 - enabled[i]
            if _is_due(who, each, now, rule, state):
                watch_storm(who, each, now, rule, state)
            if until[who, each] > now and now - state.begun[who, each] >= REACTION_NS:
                state.left[who, each] += 1
            continue
        for each in range(CLASSES):
            if _is_due(who, each, now, rule, state):
                watch_storm(who, each, now, rule, state)
        _draw(until, lane, who, last[who], now, grid, series)
        _pass(until, who, last[who], now, paused)
        _pass(port_until, port, port_last[port], now, port_paused)
        last[who] = now
        port_last[port] = now
        state.port_first[port] = min(state.port_first[port], now)
        state.frames[who] += 1
        for each in range(CLASSES):
            if (enabled[i] >> each) & 1 == 0:
                continue
            asks = quanta[i, each] > 0
            requested[who, each] += asks
            ended[who, each] += not asks
            state.port_requested[port, each] += asks
            state.port_ended[port, each] += not asks
            if asks and lane[who, each] == NO_LANE and lanes[0] < len(series):
                lane[who, each] = lanes[0]
                lanes[0] += 1
            before = until[who, each]
            state.expired[who, each] += opened[who, each] != 0 and before < now
            opened[who, each] = asks
            if before < now:
                if not asks:
                    continue
                state.begun[who, each] = now
                state.transitions[who, each] += 1
                if state.storm[who, each] == NO_STORM:
                    _add_candidate(who, each, now, rule, state)
            # Round up to the next whole ns, in the same way as a paused port (wire-formats 8).
            end = now - (-quanta[i, each] * _QUANTUM) // rate_bps[who]
            until[who, each] = end
            # A port is paused while any of its senders requests a pause. A search through all senders is
            # necessary only if the sender with the longest pause shortens this pause.
            if end >= port_until[port, each]:
                port_until[port, each] = end
            elif before == port_until[port, each]:
                latest = end
                for other in range(senders):
                    if port_of[other] == port:
                        latest = max(latest, until[other, each])
                port_until[port, each] = latest


@over_batches
def settle(
    ends_ns: Int64, grid: Grid, rule: StormRule, state: PauseState, series: Int64, senders: int
) -> None:
    """Advance every sender and every interface to the end time of the interface.

    Pauses that are still in force are counted only up to this time.
    """
    until, last, port_of, port_last = state.until, state.last, state.port, state.port_last
    for who in range(senders):
        port = port_of[who]
        now = max(ends_ns[port], last[who])
        for each in range(CLASSES):
            if _is_due(who, each, now, rule, state):
                watch_storm(who, each, now, rule, state)
        _draw(until, state.lane, who, last[who], now, grid, series)
        _pass(until, who, last[who], now, state.paused)
        last[who] = now
        now = max(ends_ns[port], port_last[port])
        _pass(state.port_until, port, port_last[port], now, state.port_paused)
        port_last[port] = now


MAX_SENDERS = 256
"""Maximum number of senders of pause frames. Source addresses are counted per interface."""
MAX_LANES = 64
"""Maximum number of time series. Each time series is for one class of one sender."""
MAX_STATIONS = 4096
"""Maximum number of destinations of priority-tagged frames. A destination may later send pause frames."""
MAX_STORED = 1 << 17
"""Maximum number of pause frames that are stored for a join with an earlier count."""
_FIRST_SENDERS = 8

_PFC = tuple(f"macc.cbfc.pause_time.c{priority}" for priority in range(LINK))
PAUSE_FIELDS = ("eth.src", "eth.dst", "vlan.priority", "macc.pause_time", "macc.cbfc.enbv", *_PFC)

_FASTEST_BPS = 1 << 62


@plain_value
class _Events(NamedTuple):
    """Pause frames, and frames that left a stopped port, in their order."""

    sender: Int64
    time_ns: Int64
    enabled: Int64
    quanta: Int64

    def part(self, low: int, high: int) -> _Events:
        """Return the events from index ``low`` up to and excluding index ``high``."""
        return _Events(*(array[low:high] for array in self))


class PauseCounts:
    """Pause counts of each sender.

    ``speed_bps`` is the link speed of interfaces that do not state their speed.
    """

    def __init__(self, timeline: Timeline, speed_bps: int, rule: StormRule) -> None:
        self._timeline = timeline
        self._speed_bps = speed_bps
        self._rule = rule
        self.senders: Numbering = Numbering(MAX_SENDERS)
        self.untimed: int = 0
        """Number of pause frames without a time. The pauses of these frames are unknown."""
        self.cut_short: bool = False
        """Whether a joined count stored too few frames to count its first pauses exactly."""
        self._known = 0
        self._ports: dict[int, int] = {}
        self._stated: list[bool] = []
        self._state = new_state(_FIRST_SENDERS)
        self._over_time = timeline.series()
        self._stored: list[_Events] = []
        self._stored_frames = 0
        self._before: PauseState | None = None
        """State after the stored frames. ``None`` means that frames are still being stored."""
        self._over_time_before = timeline.series()
        self._stations = Numbering(MAX_STATIONS)
        self._partner = np.full(MAX_STATIONS, NO_NUMBER, np.int64)
        """Sender number of each station, or NO_NUMBER if the station has not sent pause frames."""
        self._seen = np.full((MAX_STATIONS, LINK), NEVER, np.int64)
        """Time of the first frame to each station, by priority."""
        self._station_of: dict[tuple[int, int], int] = {}
        self._sender_of: dict[tuple[int, int], int] = {}

    def add(self, counted: CountedBatch, interfaces: Sequence[Interface]) -> None:
        """Apply the pause frames of a batch."""
        batch = counted.batch
        pause, pfc = counted.columns["macc.pause_time"].rows, counted.columns["macc.cbfc.enbv"].rows
        rows = np.concatenate([pause, pfc])
        timed = counted.slots[rows] != NO_SLOT
        self.untimed += int((~timed).sum())
        addresses = counted.addresses("eth.src", rows)
        order = np.argsort(rows, kind="stable")
        order = order[timed[order]]
        sender = np.full(len(rows), NO_NUMBER, np.int64)
        sender[order] = self.senders.numbers(addresses[order], batch.interface[rows[order]])
        self._meet(interfaces)
        left, to, priority = self._frames_to_senders(counted)
        if not len(order) and not len(left):
            return
        enabled = np.full(len(rows), 1 << LINK, np.int64)
        enabled[len(pause) :] = counted.values("macc.cbfc.enbv", pfc) & 0xFF
        quanta = np.zeros((len(rows) + len(left), CLASSES), np.int64)
        quanta[: len(pause), LINK] = counted.values("macc.pause_time", pause)
        for number, name in enumerate(_PFC):
            quanta[len(pause) : len(rows), number] = counted.values(name, pfc)
        sender, enabled = np.concatenate([sender, to]), np.concatenate([enabled, -1 - priority])
        rows = np.concatenate([rows, left])
        order = np.argsort(rows, kind="stable")
        order = order[sender[order] != NO_NUMBER]
        self._apply(_Events(sender[order], batch.time_ns[rows[order]], enabled[order], quanta[order]))

    def _frames_to_senders(self, counted: CountedBatch) -> tuple[Int64, Int64, Int64]:
        """Return the priority-tagged frames to senders of pause frames: frame, sender and priority."""
        tags = counted.columns["vlan.priority"].outermost()
        rows = tags.rows[counted.slots[tags.rows] != NO_SLOT].astype(np.int64)
        if not len(rows):
            return rows, rows, rows
        priority = counted.values("vlan.priority", rows.astype(np.int32))
        address, interface = (
            counted.addresses("eth.dst", rows.astype(np.int32)),
            counted.batch.interface[rows],
        )
        have = self._stations.count
        stations = self._stations.numbers(address, interface)
        for number in range(have, self._stations.count):
            key = int(self._stations.low[number]), int(self._stations.high[number])
            self._station_of[key] = number
            self._partner[number] = self._sender_of.get(key, NO_NUMBER)
        first_seen(stations, priority, counted.batch.time_ns[rows], self._seen)
        to = np.where(stations == NO_NUMBER, NO_NUMBER, self._partner[stations])
        present = to != NO_NUMBER
        return rows[present], to[present], priority[present]

    @property
    def _grid(self) -> Grid:
        return Grid(self._timeline.width_ns, self._timeline.first)

    def _meet(self, interfaces: Sequence[Interface]) -> None:
        """Add the interfaces and link speeds of new senders to the state."""
        high = self.senders.high.tolist()
        for number in range(self._known, self.senders.count):
            speed_bps = interfaces[high[number]].speed_bps if high[number] < len(interfaces) else 0
            stated = 0 < speed_bps <= _FASTEST_BPS
            self._enter(number, speed_bps if stated else self._speed_bps, stated)

    def _enter(self, number: int, speed_bps: int, stated: bool) -> None:
        """Add a new sender to the state."""
        if number == len(self._state.last):
            self._state = _larger(self._state, 2 * number)
            if self._before is not None:
                self._before = _larger(self._before, 2 * number)
        interface = int(self.senders.high[number])
        self._stated.append(stated)
        self._state.rate_bps[number] = speed_bps
        self._state.port[number] = self._ports.setdefault(interface, len(self._ports))
        key = int(self.senders.low[number]), interface
        self._sender_of[key] = number
        if key in self._station_of:
            self._partner[self._station_of[key]] = number
        self._known = number + 1

    def _apply(self, events: _Events) -> None:
        """Apply events, and store these events until the stored events are sufficient for a join."""
        if self._before is None:
            first = events.part(0, MAX_STORED - self._stored_frames)
            self._play(first)
            self._stored.append(_Events(*(array.copy() for array in first)))
            self._stored_frames += len(first.sender)
            events = events.part(len(first.sender), len(events.sender))
            if len(events.sender) or self._is_enough():
                self._keep_no_more()
        if len(events.sender):
            self._play(events)

    def _play(self, events: _Events) -> None:
        self._over_time.grow(MAX_LANES)
        play(*events, self._grid, self._rule, self._state, self._over_time.values, self._known)

    def _is_enough(self) -> bool:
        """Return whether every pause and storm from before the stored frames has ended on every interface."""
        state, known = self._state, self._known
        if not known or (state.port_first[: len(self._ports)] == NEVER).any():
            return False
        slowest = int(state.rate_bps[:known].min())
        horizon = max(_LONGEST_QUANTA * _QUANTUM // slowest, self._rule.detect_ns + self._rule.restore_ns)
        ports = range(len(self._ports))
        return all(int(state.port_last[port]) - int(state.port_first[port]) > horizon + 1 for port in ports)

    def _keep_no_more(self) -> None:
        """Copy the state after the stored frames, and stop storing frames."""
        self._settle_here()
        self._state.calm[:] = NEVER
        self._before = _copied(self._state)
        self._over_time.grow(MAX_LANES)
        self._over_time_before.values = self._over_time.values.copy()

    def _settle_here(self) -> None:
        """Count the pause time up to the latest pause frame of each interface."""
        self._over_time.grow(MAX_LANES)
        ends = self._state.port_last.copy()
        settle(ends, self._grid, self._rule, self._state, self._over_time.values, self._known)

    def join(self, later: PauseCounts, shift: int) -> None:
        """Add the counts of ``later``, a counter of later frames.

        ``shift`` is added to the interface numbers of ``later``.
        """
        numbers = self.senders.join(later.senders, later._state.frames, shift)
        for number in range(self._known, self.senders.count):
            row = int(np.flatnonzero(numbers == number)[0])
            self._enter(number, int(later._state.rate_bps[row]), later._stated[row])
        self.untimed += later.untimed
        self.cut_short |= later.may_cut_short
        self._join_stations(later, shift)
        for events in later._stored:
            known = numbers[events.sender] if len(numbers) else events.sender
            row = known != NO_NUMBER
            self._apply(_Events(known[row], *(array[row] for array in events[1:])))
        if later._before is not None:
            self._settle_here()
            if self._before is None:
                self._keep_no_more()
            self._add_rest(later, later._before, numbers)

    @property
    def may_cut_short(self) -> bool:
        """Whether a join with an earlier count would be inexact because too few frames were stored."""
        enough = self._before is None or self._stored_frames < MAX_STORED or self._is_enough()
        return self.cut_short or not enough

    def _join_stations(self, later: PauseCounts, shift: int) -> None:
        have = self._stations.count
        numbers = self._stations.join(later._stations, np.ones(MAX_STATIONS, np.int64), shift)
        for number in range(have, self._stations.count):
            key = int(self._stations.low[number]), int(self._stations.high[number])
            self._station_of[key] = number
            self._partner[number] = self._sender_of.get(key, NO_NUMBER)
        rows = np.flatnonzero(numbers != NO_NUMBER)
        self._seen[numbers[rows]] = np.minimum(self._seen[numbers[rows]], later._seen[rows])

    def _add_rest(self, later: PauseCounts, before: PauseState, numbers: Int64) -> None:
        """Add the counts after the stored frames of ``later``.

        ``before`` is the state of ``later`` after the stored frames.
        """
        here, other = self._state, later._state
        ports = {  # the interface row of each interface row of ``later``
            int(other.port[who]): int(here.port[own])
            for who, own in enumerate(numbers[: later._known].tolist())
            if own != NO_NUMBER
        }
        ends = here.port_last.copy()
        for theirs, ours in ports.items():
            if before.port_first[theirs] == NEVER:
                ends[ours] = max(int(ends[ours]), int(other.port_first[theirs]))
        settle(ends, self._grid, self._rule, here, self._over_time.values, self._known)
        storms = self._add_storms(later, before, numbers)
        for who in range(later._known):
            own = int(numbers[who])
            if own == NO_NUMBER:
                continue
            here.frames[own] += other.frames[who] - before.frames[who]
            named = other.requested[who] + other.ended[who] > 0
            came = named & (before.requested[who] + before.ended[who] == 0)
            here.expired[own, came & (here.open[own] != 0)] += 1
            began = other.transitions[who] > before.transitions[who]
            here.begun[own, began] = other.begun[who, began]
            paused = other.until[who] != LONG_AGO
            here.until[own, paused] = other.until[who, paused]
            for name in _SUMS:
                getattr(here, name)[own] += getattr(other, name)[who] - getattr(before, name)[who]
            for name in _LIVE:
                getattr(here, name)[own, named] = getattr(other, name)[who, named]
            # Candidates store sums up to their start. Convert these sums to the sums of this count.
            more = np.stack([here.paused[own, :CLASSES] - other.paused[who, :CLASSES],
                             here.left[own] - other.left[who]], axis=1)  # fmt: skip
            here.fronts[own, named, :, 1:] += more[named, None, :]
            here.storm[own] = storms[who]
            here.calm[own] = np.minimum(here.calm[own], other.calm[who])
            here.last[own] = max(int(here.last[own]), int(other.last[who]))
        self._add_ports(later, before, ports)
        self._add_lanes(later, numbers)

    def _add_ports(self, later: PauseCounts, before: PauseState, ports: dict[int, int]) -> None:
        here, other = self._state, later._state
        for theirs, ours in ports.items():
            for name in ("port_paused", "port_requested", "port_ended"):
                getattr(here, name)[ours] += getattr(other, name)[theirs] - getattr(before, name)[theirs]
            paused = other.port_until[theirs] != LONG_AGO
            here.port_until[ours, paused] = other.port_until[theirs, paused]
            here.port_first[ours] = min(int(here.port_first[ours]), int(other.port_first[theirs]))
            here.port_last[ours] = max(int(here.port_last[ours]), int(other.port_last[theirs]))

    def _add_lanes(self, later: PauseCounts, numbers: Int64) -> None:
        here, other = self._state, later._state
        rest = self._timeline.of(later._timeline, later._over_time.values)
        rest = rest - self._timeline.of(later._timeline, later._over_time_before.values)
        owners = {
            int(other.lane[who, each]): (int(numbers[who]), each)
            for who in range(later._known)
            for each in range(CLASSES)
            if other.lane[who, each] != NO_LANE and numbers[who] != NO_NUMBER
        }
        for lane, (own, each) in sorted(owners.items()):
            if here.lane[own, each] == NO_LANE and here.lanes[0] < MAX_LANES:
                here.lane[own, each] = here.lanes[0]
                here.lanes[0] += 1
            if here.lane[own, each] != NO_LANE:
                self._over_time.values[here.lane[own, each]] += rest[lane]

    def _add_storms(self, later: PauseCounts, before: PauseState, numbers: Int64) -> Int64:
        """Add storms that started after the stored frames, and return the storm of each sender and class."""
        here, other = self._state, later._state
        rows = dict.fromkeys((NO_STORM, _UNLISTED), NO_STORM) | {_UNLISTED: _UNLISTED}
        until = np.full((later._known, CLASSES), LONG_AGO, np.int64)
        """Time up to which the storms of ``later`` continue an earlier storm."""
        stored = np.full((later._known, CLASSES), NO_STORM, np.int64)
        for who in range(later._known):
            own = int(numbers[who])
            for each in range(CLASSES) if own != NO_NUMBER else ():
                row, theirs = int(here.storm[own, each]), int(before.storm[who, each])
                if row == NO_STORM:
                    continue
                stored[who, each] = row
                until[who, each] = other.calm[who, each]
                if theirs != NO_STORM:
                    rows[theirs] = row
                if row != _UNLISTED and other.calm[who, each] != NEVER:
                    here.storms[row, 4] = other.calm[who, each]
        for index in range(int(before.lanes[1]), int(other.lanes[1])):
            who, each, _, detected, _, _ = other.storms[index].tolist()
            own = int(numbers[who])
            if own == NO_NUMBER:
                continue
            if detected < until[who, each]:
                rows[index] = int(stored[who, each])
            elif here.lanes[1] == MAX_STORMS:
                here.lanes[2] += 1
                rows[index] = _UNLISTED
            else:
                rows[index] = int(here.lanes[1])
                here.storms[rows[index]] = other.storms[index]
                here.storms[rows[index], 0] = own
                here.lanes[1] += 1
        here.lanes[2] += other.lanes[2] - before.lanes[2]
        now = np.full((later._known, CLASSES), NO_STORM, np.int64)
        for who in range(later._known):
            for each in range(CLASSES):
                theirs = int(other.storm[who, each])
                if theirs != NO_STORM:
                    now[who, each] = rows.get(theirs, NO_STORM)
                elif stored[who, each] != NO_STORM and other.calm[who, each] == NEVER:
                    now[who, each] = stored[who, each]
        return now

    def times(self, end_ns: int) -> PauseTimes | None:
        """Return the pause times up to ``end_ns``, or ``None`` if no pause frame has a time."""
        if not self._known:
            return None
        state = _copied(self._state)
        self._over_time.grow(MAX_LANES)
        series = self._over_time.values.copy()
        settle(np.full(len(state.last), end_ns, np.int64), self._grid, self._rule, state, series, self._known)
        senders = [self._sender(number, state, series, end_ns) for number in range(self._known)]
        ports = [self._port(interface, row, state) for interface, row in self._ports.items()]
        storms = [self._storm(row) for row in state.storms[: state.lanes[1]].tolist()]
        return PauseTimes(
            senders=tuple(sorted(senders, key=lambda sender: -sender.paused_ns)),
            interfaces=tuple(sorted(ports, key=lambda port: port.interface)),
            storms=tuple(sorted(storms, key=lambda storm: (storm.detected_ns, storm.begun_ns))),
            more_storms=int(state.lanes[2]),
            detect_ns=self._rule.detect_ns,
            restore_ns=self._rule.restore_ns,
        )

    def _storm(self, row: list[int]) -> PauseStorm:
        who, each, begun_ns, detected_ns, over_ns, left = row
        interface, address = int(self.senders.high[who]), int(self.senders.low[who])
        station = self._station_of.get((address, interface))
        seen = each != LINK and station is not None and int(self._seen[station, each]) < begun_ns
        return PauseStorm(
            interface=interface,
            source=address_octets(address),
            priority=None if each == LINK else each,
            begun_ns=begun_ns,
            detected_ns=detected_ns,
            restored_ns=None if over_ns == NEVER else over_ns,
            frames_left=left if seen or left else None,
        )

    def _sender(self, number: int, state: PauseState, series: Int64, end_ns: int) -> PauseSender:
        used = self._timeline.used

        def over_time(each: int) -> tuple[int, ...]:
            lane = int(state.lane[number, each])
            return () if lane == NO_LANE else tuple(series[lane, :used].tolist())

        def of(each: int) -> ClassPause:
            begun_ns, until_ns = int(state.begun[number, each]), int(state.until[number, each])
            ran_out = state.open[number, each] != 0 and until_ns < end_ns
            return ClassPause(
                priority=None if each == LINK else each,
                pauses=int(state.requested[number, each]),
                resumes=int(state.ended[number, each]),
                paused_ns=int(state.paused[number, each]),
                transitions=int(state.transitions[number, each]),
                recent_ns=None if begun_ns == LONG_AGO else begun_ns,
                recent_paused_ns=0 if begun_ns == LONG_AGO else max(0, min(until_ns, end_ns) - begun_ns),
                expired=int(state.expired[number, each]) + bool(ran_out),
                paused_ns_over_time=over_time(each),
            )

        return PauseSender(
            interface=int(self.senders.high[number]),
            source=address_octets(int(self.senders.low[number])),
            frames=int(state.frames[number]),
            speed_bps=int(state.rate_bps[number]),
            speed_is_stated=self._stated[number],
            paused_ns=int(state.paused[number, ANY]),
            classes=tuple(of(each) for each in _named(state.requested[number] + state.ended[number])),
        )

    def _port(self, interface: int, row: int, state: PauseState) -> PauseInterface:
        return PauseInterface(
            interface=interface,
            frames=int(state.frames[: self._known][state.port[: self._known] == row].sum()),
            paused_ns=int(state.port_paused[row, ANY]),
            classes=tuple(
                ClassPause(
                    priority=None if each == LINK else each,
                    pauses=int(state.port_requested[row, each]),
                    resumes=int(state.port_ended[row, each]),
                    paused_ns=int(state.port_paused[row, each]),
                )
                for each in _named(state.port_requested[row] + state.port_ended[row])
            ),
        )


@over_batches
def first_seen(stations: Int64, priority: Int64, time_ns: Int64, seen: Int64) -> None:
    """Update ``seen``, the time of the first frame to each station by priority."""
    for i in range(len(stations)):
        if stations[i] != NO_NUMBER:
            before = seen[stations[i], priority[i]]
            seen[stations[i], priority[i]] = min(before, time_ns[i])


def _named(frames: Int64) -> list[int]:
    """Return the classes with frames: the whole link first, then the priorities."""
    named = np.flatnonzero(frames).tolist()
    return [LINK] * (LINK in named) + [each for each in named if each != LINK]
