"""Pause time: for how long each sender of PAUSE and PFC stopped its link partner, by class, and PFC storms.

A pause frame stops a class of its sender's link partner until its quanta have passed, or until the sender's
next frame for the class, which takes its place: longer, shorter, or with no quanta the end (802.3 31B, 31D).
Classes 0 to 7 are priorities, class 8 is PAUSE, which stops the link.

Time goes on from frame to frame.  The time since the last one counts as paused as far as the pauses then
in force reach into it, so every union of pauses is exact: they all began before.

What was counted apart is joined exactly: the first pause frames are kept, until every pause and every storm
that may have been in force before them is over, and are applied again to what came before.  From there on
both agree, and differences of sums are added.
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
"""The column of what is true of at least one class."""

LONG_AGO = -(1 << 62)
NEVER = (1 << 63) - 1
NO_LANE = -1
NO_STORM = -1
_QUANTUM = QUANTUM_BITS * NS_PER_S
_LONGEST_QUANTA = 0xFFFF
MOST_STORMS = 256
"""Storms that are listed."""
_UNLISTED = MOST_STORMS
_CANDIDATES = 32
"""Beginnings of pauses from which on a class may turn out to be in a storm; where more come within one
detection time, every other one is dropped."""
REACTION_NS = 100_000
"""The time after the begin of a pause in which frames may still leave: one being sent, some on their way."""
DETECT_NS, RESTORE_NS = 200 * 10**6, 400 * 10**6


@plain_value
class StormRule(NamedTuple):
    """The definition of a storm: ``need_ns`` of pause in ``detect_ns``, until ``restore_ns`` without any."""

    detect_ns: int
    need_ns: int
    restore_ns: int


def storm_rule(detect_ns: int = DETECT_NS, restore_ns: int = RESTORE_NS) -> StormRule:
    """Return the rule for a detection and a restoration time: 99 % of the former are needed."""
    return StormRule(detect_ns, detect_ns - detect_ns // 100, restore_ns)


@plain_value
class PauseState(NamedTuple):
    """The state; all arrays are int64."""

    until: Int64
    """For each sender and class when the pause in force ends or ended."""
    last: Int64
    """For each sender until when time is accounted for."""
    paused: Int64
    """For each sender the ns paused of each class, then of any."""
    asked: Int64
    """By sender and class, the number of frames with a time."""
    ended: Int64
    """By sender and class, the number of frames with time 0."""
    frames: Int64
    """For each sender."""
    port: Int64
    """For each sender the row of its interface in the arrays below."""
    rate_bps: Int64
    """For each sender the rate of its link."""
    lane: Int64
    """For each sender and class the row of its time series, NO_LANE without one."""
    begun: Int64
    """For each sender and class when the pause in force, or the last one, began."""
    transitions: Int64
    """For each sender and class how often it went from not paused to paused."""
    expired: Int64
    """For each sender and class the pauses that ran out, neither renewed nor ended in time."""
    open: Int64
    """By sender and class, whether the last frame had a time."""
    left: Int64
    """For each sender and class frames that left the stopped port all the same."""
    fronts: Int64
    """For each sender and class the candidates: begin of a pause, ns paused and frames left until then."""
    candidates: Int64
    """For each sender and class how many of those there are."""
    storm: Int64
    """For each sender and class the row of the storm that it is in, NO_STORM without one."""
    calm: Int64
    """For each sender and class when there had been no pause for a restoration time, the first time since
    the first frames; NEVER so far."""
    port_until: Int64
    """For each interface and class when the last pause of any sender ends."""
    port_first: Int64
    port_last: Int64
    port_paused: Int64
    port_asked: Int64
    port_ended: Int64
    lanes: Int64
    """The numbers of lanes, of listed storms and of unlisted storms."""
    storms: Int64
    """The storms: sender, class, begin, when detected, when over (NEVER: not yet), frames that left."""


_SUMS = ("paused", "asked", "ended", "transitions", "expired", "left")
_LIVE = ("open", "fronts", "candidates")


_SHAPES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("last", "frames", "port", "rate_bps", "port_first", "port_last"), ()),
    **dict.fromkeys(("paused", "port_paused"), (CLASSES + 1,)),
    "fronts": (CLASSES, _CANDIDATES, 3),
}
"""Shapes of a sender's row in an array, other than one number a class."""
_FIRST = {
    **dict.fromkeys(("until", "last", "begun", "port_until", "port_last"), LONG_AGO), "rate_bps": 1,
    "lane": NO_LANE, "storm": NO_STORM, **dict.fromkeys(("calm", "port_first"), NEVER),
}  # fmt: skip
"""The numbers in an array before any frame, unless 0."""


def new_state(senders: int) -> PauseState:
    """Return the state before any frame, with capacity for senders, each on an interface of its own."""
    whole = {"lanes": np.zeros(3, np.int64), "storms": np.zeros((MOST_STORMS, 6), np.int64)}
    return PauseState(**whole, **{
        name: np.full((senders, *_SHAPES.get(name, (CLASSES,))), _FIRST.get(name, 0), np.int64)
        for name in PauseState._fields
        if name not in whole
    })  # fmt: skip


def _larger(state: PauseState, senders: int) -> PauseState:
    """Return the state with room for more senders."""
    larger = new_state(senders)
    for name, array in state._asdict().items():
        getattr(larger, name)[: len(array)] = array
    return larger


def _copied(state: PauseState) -> PauseState:
    return PauseState(*(array.copy() for array in state))


class Grid(NamedTuple):
    """A timeline as loops see it."""

    width_ns: int
    first: int


@inlined
def _spread(series: Int64, lane: int, begin_ns: int, end_ns: int, grid: Grid) -> None:
    """Add the time from ``begin_ns`` to ``end_ns`` to the intervals that it falls into."""
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
    """Add the time paused from ``last_ns`` to ``now_ns``, for each class and for any."""
    longest = last_ns
    for each in range(CLASSES):
        end = min(until[row, each], now_ns)
        if end > last_ns:
            paused[row, each] += end - last_ns
            longest = max(longest, end)
    paused[row, ANY] += longest - last_ns


@inlined
def _draw(until: Int64, lane: Int64, row: int, last_ns: int, now_ns: int, grid: Grid, series: Int64) -> None:
    """Count the same in the lanes of a sender."""
    for each in range(CLASSES):
        if lane[row, each] != NO_LANE:
            _spread(series, lane[row, each], last_ns, min(until[row, each], now_ns), grid)


@inlined
def _drop_first(fronts: Int64, candidates: Int64, who: int, each: int) -> None:
    candidates[who, each] -= 1
    for place in range(candidates[who, each]):
        for column in range(3):
            fronts[who, each, place, column] = fronts[who, each, place + 1, column]


@over_batches
def watch_storm(who: int, each: int, now_ns: int, rule: StormRule, state: PauseState) -> None:
    """Begin and end storms of a class up to ``now_ns``; ``paused`` counts up to the sender's ``last`` yet."""
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
        if row == MOST_STORMS:
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
        if storm[who, each] < MOST_STORMS:
            storms[storm[who, each], 4] = over
        storm[who, each] = NO_STORM


@inlined
def _is_due(who: int, each: int, now_ns: int, rule: StormRule, state: PauseState) -> bool:
    """Return whether a storm may have begun or ended up to ``now_ns``."""
    if state.asked[who, each] == 0:
        return False
    if state.candidates[who, each] > 0 and state.fronts[who, each, 0, 0] + rule.detect_ns <= now_ns:
        return True
    if state.until[who, each] + rule.restore_ns > now_ns:
        return False
    return bool(state.storm[who, each] != NO_STORM or state.calm[who, each] == NEVER)


@inlined
def _add_candidate(who: int, each: int, now_ns: int, rule: StormRule, state: PauseState) -> None:
    """Note the begin of a pause, and drop begins with too much unpaused time after them."""
    fronts, candidates, paused = state.fronts, state.candidates, state.paused
    spare = rule.detect_ns - rule.need_ns
    while candidates[who, each] > 0:
        stopped = paused[who, each] - fronts[who, each, 0, 1]
        if now_ns - fronts[who, each, 0, 0] - stopped <= spare:
            break
        _drop_first(fronts, candidates, who, each)
    if candidates[who, each] == _CANDIDATES:
        candidates[who, each] = _CANDIDATES // 2
        for place in range(1, _CANDIDATES // 2):
            for column in range(3):
                fronts[who, each, place, column] = fronts[who, each, 2 * place, column]
    place = candidates[who, each]
    fronts[who, each, place, 0] = now_ns
    fronts[who, each, place, 1] = paused[who, each]
    fronts[who, each, place, 2] = state.left[who, each]
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
    """Apply pause frames in their order: ``enabled`` has a bit, ``quanta`` a column a class.

    ``senders`` is how many there are; a sender below 0 is none.  A frame stamped before an earlier one of
    its interface is taken at that one's time.  Where ``enabled`` is negative, −1 − priority, a frame of this
    priority left the port that the sender stops.
    """
    until, last, paused, asked, ended = state.until, state.last, state.paused, state.asked, state.ended
    port_of, rate_bps, lane, lanes, opened = state.port, state.rate_bps, state.lane, state.lanes, state.open
    port_until, port_last, port_paused = state.port_until, state.port_last, state.port_paused
    for i in range(len(sender)):
        who = sender[i]
        if who < 0:
            continue
        port = port_of[who]
        now = max(time_ns[i], port_last[port])
        # All times run forward to this frame first: what a pause was until now no later frame changes.
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
            asked[who, each] += asks
            ended[who, each] += not asks
            state.port_asked[port, each] += asks
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
            # up to the next whole ns, as a machine that waits does (wire-formats 8)
            end = now - (-quanta[i, each] * _QUANTUM) // rate_bps[who]
            until[who, each] = end
            # A port is paused while any of its senders requests it. Only where the one that lasted longest
            # shortens its pause, the others have to be looked through.
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
    """Advance every sender and interface to the time of its interface, where pauses in force are cut off."""
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


MOST_SENDERS = 256
"""The maximum number of senders of pause frames: source addresses on an interface."""
MOST_LANES = 64
"""The maximum number of senders' classes with pauses over time."""
MOST_STATIONS = 4096
"""Destinations of frames with a priority that may turn out to be a sender of pauses."""
MOST_KEPT = 1 << 17
"""The maximum number of pause frames kept for another pass after earlier ones."""
_FIRST_SENDERS = 8

_PFC = tuple(f"macc.cbfc.pause_time.c{priority}" for priority in range(LINK))
PAUSE_FIELDS = ("eth.src", "eth.dst", "vlan.priority", "macc.pause_time", "macc.cbfc.enbv", *_PFC)

_FASTEST_BPS = 1 << 62


@plain_value
class _Events(NamedTuple):
    """Pause frames, and frames that left a port they stopped, in their order."""

    sender: Int64
    time_ns: Int64
    enabled: Int64
    quanta: Int64

    def part(self, low: int, high: int) -> _Events:
        """Return some of them."""
        return _Events(*(array[low:high] for array in self))


class PauseCounts:
    """The pauses of each sender; ``speed_bps`` applies to links whose interface does not state its speed."""

    def __init__(self, timeline: Timeline, speed_bps: int, rule: StormRule) -> None:
        self._timeline = timeline
        self._speed_bps = speed_bps
        self._rule = rule
        self.senders: Numbering = Numbering(MOST_SENDERS)
        self.untimed: int = 0
        """Pause frames without a time stamp, whose pauses are unknown."""
        self.cut_short: bool = False
        """Whether something was joined of which too little was kept to be sure of its first pauses."""
        self._known = 0
        self._ports: dict[int, int] = {}
        self._stated: list[bool] = []
        self._state = new_state(_FIRST_SENDERS)
        self._over_time = timeline.series()
        self._kept: list[_Events] = []
        self._kept_frames = 0
        self._before: PauseState | None = None
        """The state after the kept frames, once their number is at its maximum."""
        self._over_time_before = timeline.series()
        self._stations = Numbering(MOST_STATIONS)
        self._partner = np.full(MOST_STATIONS, NO_NUMBER, np.int64)
        """For each station the sender of pauses that it is."""
        self._seen = np.full((MOST_STATIONS, LINK), NEVER, np.int64)
        """For each station and priority when the first frame was sent to it."""
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
        """Return the frames with a priority that go to senders of pauses: frame, sender, priority."""
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
        there = to != NO_NUMBER
        return rows[there], to[there], priority[there]

    @property
    def _grid(self) -> Grid:
        return Grid(self._timeline.width_ns, self._timeline.first)

    def _meet(self, interfaces: Sequence[Interface]) -> None:
        """Note where the senders are that came since the last time."""
        high = self.senders.high.tolist()
        for number in range(self._known, self.senders.count):
            speed_bps = interfaces[high[number]].speed_bps if high[number] < len(interfaces) else 0
            stated = 0 < speed_bps <= _FASTEST_BPS
            self._enter(number, speed_bps if stated else self._speed_bps, stated)

    def _enter(self, number: int, speed_bps: int, stated: bool) -> None:
        """Note a new sender."""
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
        """Apply events, and keep them while those kept are not enough."""
        if self._before is None:
            first = events.part(0, MOST_KEPT - self._kept_frames)
            self._play(first)
            self._kept.append(_Events(*(array.copy() for array in first)))
            self._kept_frames += len(first.sender)
            events = events.part(len(first.sender), len(events.sender))
            if len(events.sender) or self._is_enough():
                self._keep_no_more()
        if len(events.sender):
            self._play(events)

    def _play(self, events: _Events) -> None:
        self._over_time.grow(MOST_LANES)
        play(*events, self._grid, self._rule, self._state, self._over_time.values, self._known)

    def _is_enough(self) -> bool:
        """Return whether all that was in force before the frames kept is over on every interface."""
        state, known = self._state, self._known
        if not known or (state.port_first[: len(self._ports)] == NEVER).any():
            return False
        slowest = int(state.rate_bps[:known].min())
        horizon = max(_LONGEST_QUANTA * _QUANTUM // slowest, self._rule.detect_ns + self._rule.restore_ns)
        ports = range(len(self._ports))
        return all(int(state.port_last[port]) - int(state.port_first[port]) > horizon + 1 for port in ports)

    def _keep_no_more(self) -> None:
        """Note the state after the kept frames."""
        self._settle_here()
        self._state.calm[:] = NEVER
        self._before = _copied(self._state)
        self._over_time.grow(MOST_LANES)
        self._over_time_before.values = self._over_time.values.copy()

    def _settle_here(self) -> None:
        """Account for the time up to each interface's last pause frame."""
        self._over_time.grow(MOST_LANES)
        ends = self._state.port_last.copy()
        settle(ends, self._grid, self._rule, self._state, self._over_time.values, self._known)

    def join(self, later: PauseCounts, shift: int) -> None:
        """Add what was counted of later frames, whose interfaces are numbered from ``shift`` on here."""
        numbers = self.senders.join(later.senders, later._state.frames, shift)
        for number in range(self._known, self.senders.count):
            there = int(np.flatnonzero(numbers == number)[0])
            self._enter(number, int(later._state.rate_bps[there]), later._stated[there])
        self.untimed += later.untimed
        self.cut_short |= later.may_cut_short
        self._join_stations(later, shift)
        for events in later._kept:
            known = numbers[events.sender] if len(numbers) else events.sender
            there = known != NO_NUMBER
            self._apply(_Events(known[there], *(array[there] for array in events[1:])))
        if later._before is not None:
            self._settle_here()
            if self._before is None:
                self._keep_no_more()
            self._add_rest(later, later._before, numbers)

    @property
    def may_cut_short(self) -> bool:
        """Whether too little was kept to be sure of its first pauses when it is joined."""
        enough = self._before is None or self._kept_frames < MOST_KEPT or self._is_enough()
        return self.cut_short or not enough

    def _join_stations(self, later: PauseCounts, shift: int) -> None:
        have = self._stations.count
        numbers = self._stations.join(later._stations, np.ones(MOST_STATIONS, np.int64), shift)
        for number in range(have, self._stations.count):
            key = int(self._stations.low[number]), int(self._stations.high[number])
            self._station_of[key] = number
            self._partner[number] = self._sender_of.get(key, NO_NUMBER)
        rows = np.flatnonzero(numbers != NO_NUMBER)
        self._seen[numbers[rows]] = np.minimum(self._seen[numbers[rows]], later._seen[rows])

    def _add_rest(self, later: PauseCounts, before: PauseState, numbers: Int64) -> None:
        """Add the frames after the ones kept by ``later``, whose state then was ``before``."""
        here, there = self._state, later._state
        ports = self._ports_of(later, numbers)
        ends = here.port_last.copy()
        for theirs, ours in ports.items():
            if before.port_first[theirs] == NEVER:
                ends[ours] = max(int(ends[ours]), int(there.port_first[theirs]))
        settle(ends, self._grid, self._rule, here, self._over_time.values, self._known)
        storms = self._add_storms(later, before, numbers)
        for who in range(later._known):
            own = int(numbers[who])
            if own == NO_NUMBER:
                continue
            here.frames[own] += there.frames[who] - before.frames[who]
            named = there.asked[who] + there.ended[who] > 0
            came = named & (before.asked[who] + before.ended[who] == 0)
            here.expired[own, came & (here.open[own] != 0)] += 1
            began = there.transitions[who] > before.transitions[who]
            here.begun[own, began] = there.begun[who, began]
            paused = there.until[who] != LONG_AGO
            here.until[own, paused] = there.until[who, paused]
            for name in _SUMS:
                getattr(here, name)[own] += getattr(there, name)[who] - getattr(before, name)[who]
            for name in _LIVE:
                getattr(here, name)[own, named] = getattr(there, name)[who, named]
            # candidates have the sums up to their start, which are the whole's here
            more = np.stack([here.paused[own, :CLASSES] - there.paused[who, :CLASSES],
                             here.left[own] - there.left[who]], axis=1)  # fmt: skip
            here.fronts[own, named, :, 1:] += more[named, None, :]
            here.storm[own] = storms[who]
            here.calm[own] = np.minimum(here.calm[own], there.calm[who])
            here.last[own] = max(int(here.last[own]), int(there.last[who]))
        self._add_ports(later, before, ports)
        self._add_lanes(later, numbers)

    def _ports_of(self, later: PauseCounts, numbers: Int64) -> dict[int, int]:
        """Return the rows here of the interfaces of ``later``."""
        return {
            int(later._state.port[who]): int(self._state.port[own])
            for who, own in enumerate(numbers[: later._known].tolist())
            if own != NO_NUMBER
        }

    def _add_ports(self, later: PauseCounts, before: PauseState, ports: dict[int, int]) -> None:
        here, there = self._state, later._state
        for theirs, ours in ports.items():
            for name in ("port_paused", "port_asked", "port_ended"):
                getattr(here, name)[ours] += getattr(there, name)[theirs] - getattr(before, name)[theirs]
            paused = there.port_until[theirs] != LONG_AGO
            here.port_until[ours, paused] = there.port_until[theirs, paused]
            here.port_first[ours] = min(int(here.port_first[ours]), int(there.port_first[theirs]))
            here.port_last[ours] = max(int(here.port_last[ours]), int(there.port_last[theirs]))

    def _add_lanes(self, later: PauseCounts, numbers: Int64) -> None:
        here, there = self._state, later._state
        rest = self._timeline.of(later._timeline, later._over_time.values)
        rest = rest - self._timeline.of(later._timeline, later._over_time_before.values)
        owners = {
            int(there.lane[who, each]): (int(numbers[who]), each)
            for who in range(later._known)
            for each in range(CLASSES)
            if there.lane[who, each] != NO_LANE and numbers[who] != NO_NUMBER
        }
        for lane, (own, each) in sorted(owners.items()):
            if here.lane[own, each] == NO_LANE and here.lanes[0] < MOST_LANES:
                here.lane[own, each] = here.lanes[0]
                here.lanes[0] += 1
            if here.lane[own, each] != NO_LANE:
                self._over_time.values[here.lane[own, each]] += rest[lane]

    def _add_storms(self, later: PauseCounts, before: PauseState, numbers: Int64) -> Int64:
        """Add storms that began after the kept frames; return the storm of each sender and class."""
        here, there = self._state, later._state
        rows = dict.fromkeys((NO_STORM, _UNLISTED), NO_STORM) | {_UNLISTED: _UNLISTED}
        until = np.full((later._known, CLASSES), LONG_AGO, np.int64)
        """Until when storms there are part of one that had begun here."""
        held = np.full((later._known, CLASSES), NO_STORM, np.int64)
        for who in range(later._known):
            own = int(numbers[who])
            for each in range(CLASSES) if own != NO_NUMBER else ():
                row, theirs = int(here.storm[own, each]), int(before.storm[who, each])
                if row == NO_STORM:
                    continue
                held[who, each] = row
                until[who, each] = there.calm[who, each]
                if theirs != NO_STORM:
                    rows[theirs] = row
                if row != _UNLISTED and there.calm[who, each] != NEVER:
                    here.storms[row, 4] = there.calm[who, each]
        for place in range(int(before.lanes[1]), int(there.lanes[1])):
            who, each, _, detected, _, _ = there.storms[place].tolist()
            own = int(numbers[who])
            if own == NO_NUMBER:
                continue
            if detected < until[who, each]:
                rows[place] = int(held[who, each])
            elif here.lanes[1] == MOST_STORMS:
                here.lanes[2] += 1
                rows[place] = _UNLISTED
            else:
                rows[place] = int(here.lanes[1])
                here.storms[rows[place]] = there.storms[place]
                here.storms[rows[place], 0] = own
                here.lanes[1] += 1
        here.lanes[2] += there.lanes[2] - before.lanes[2]
        now = np.full((later._known, CLASSES), NO_STORM, np.int64)
        for who in range(later._known):
            for each in range(CLASSES):
                theirs = int(there.storm[who, each])
                if theirs != NO_STORM:
                    now[who, each] = rows.get(theirs, NO_STORM)
                elif held[who, each] != NO_STORM and there.calm[who, each] == NEVER:
                    now[who, each] = held[who, each]
        return now

    def times(self, end_ns: int) -> PauseTimes | None:
        """Return for how long pauses were in force until ``end_ns``; None without pause frames in time."""
        if not self._known:
            return None
        state = _copied(self._state)
        self._over_time.grow(MOST_LANES)
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
                pauses=int(state.asked[number, each]),
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
            classes=tuple(of(each) for each in _named(state.asked[number] + state.ended[number])),
        )

    def _port(self, interface: int, row: int, state: PauseState) -> PauseInterface:
        return PauseInterface(
            interface=interface,
            frames=int(state.frames[: self._known][state.port[: self._known] == row].sum()),
            paused_ns=int(state.port_paused[row, ANY]),
            classes=tuple(
                ClassPause(
                    priority=None if each == LINK else each,
                    pauses=int(state.port_asked[row, each]),
                    resumes=int(state.port_ended[row, each]),
                    paused_ns=int(state.port_paused[row, each]),
                )
                for each in _named(state.port_asked[row] + state.port_ended[row])
            ),
        )


@over_batches
def first_seen(stations: Int64, priority: Int64, time_ns: Int64, seen: Int64) -> None:
    """Note when a frame of each priority first went to each station."""
    for i in range(len(stations)):
        if stations[i] != NO_NUMBER:
            before = seen[stations[i], priority[i]]
            seen[stations[i], priority[i]] = min(before, time_ns[i])


def _named(frames: Int64) -> list[int]:
    """Return the classes that any frames name: the whole link first, then priorities."""
    named = np.flatnonzero(frames).tolist()
    return [LINK] * (LINK in named) + [each for each in named if each != LINK]
