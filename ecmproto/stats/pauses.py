"""Pause time: for how long each sender of PAUSE and PFC stopped its link partner, by class.

A pause frame stops a class of its sender's link partner until its quanta have passed, or until the sender's
next frame for the class, which takes its place: longer, shorter, or with no quanta the end (802.3 31B, 31D).
Classes 0 to 7 are priorities, class 8 is PAUSE, which stops the link.

Time goes on from frame to frame.  The time since the last one counts as paused as far as the pauses then
in force reach into it, so every union of pauses is exact: they all began before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ecmproto.capture.batch import Int64, Interface
from ecmproto.kernel import compiled, inlined
from ecmproto.stats.statistics import ClassPause, PauseInterface, PauseSender, PauseTimes
from ecmproto.stats.tally import NO_SLOT, CountedBatch, Numbering, Timeline, address_octets
from ecmproto.units import NS_PER_S, QUANTUM_BITS

LINK = 8
CLASSES = 9
ANY = 9
"""The column of what is true of at least one class."""

LONG_AGO = -(1 << 62)
NO_LANE = -1
_QUANTUM = QUANTUM_BITS * NS_PER_S


class PauseState(NamedTuple):
    """The state; all arrays are int64."""

    until: Int64
    """For each sender and class when the pause in force ends or ended."""
    last: Int64
    """For each sender until when time is accounted for."""
    paused: Int64
    """For each sender the ns paused of each class, then of any."""
    asked: Int64
    """For each sender and class the frames that asked for a time."""
    ended: Int64
    """For each sender and class the frames that asked for none."""
    frames: Int64
    """For each sender."""
    port: Int64
    """For each sender the row of its interface in the arrays below."""
    rate_bps: Int64
    """For each sender the rate of its link."""
    lane: Int64
    """For each sender and class the row of its time series, NO_LANE without one."""
    lanes: Int64
    """How many lanes there are: one number."""
    port_until: Int64
    """For each interface and class when the last pause of any sender ends."""
    port_last: Int64
    port_paused: Int64
    port_asked: Int64
    port_ended: Int64


def new_state(senders: int) -> PauseState:
    """Return the state before any frame, with room for so many senders, each on an interface of its own."""
    return PauseState(
        until=np.full((senders, CLASSES), LONG_AGO, np.int64),
        last=np.full(senders, LONG_AGO, np.int64),
        paused=np.zeros((senders, CLASSES + 1), np.int64),
        asked=np.zeros((senders, CLASSES), np.int64),
        ended=np.zeros((senders, CLASSES), np.int64),
        frames=np.zeros(senders, np.int64),
        port=np.zeros(senders, np.int64),
        rate_bps=np.ones(senders, np.int64),
        lane=np.full((senders, CLASSES), NO_LANE, np.int64),
        lanes=np.zeros(1, np.int64),
        port_until=np.full((senders, CLASSES), LONG_AGO, np.int64),
        port_last=np.full(senders, LONG_AGO, np.int64),
        port_paused=np.zeros((senders, CLASSES + 1), np.int64),
        port_asked=np.zeros((senders, CLASSES), np.int64),
        port_ended=np.zeros((senders, CLASSES), np.int64),
    )


class Grid(NamedTuple):
    """A timeline as loops see it."""

    origin_ns: int
    width_ns: int
    first: int


@inlined
def _spread(series: Int64, lane: int, begin_ns: int, end_ns: int, grid: Grid) -> None:
    """Add the time from ``begin_ns`` to ``end_ns`` to the intervals that it falls into."""
    distance = begin_ns - grid.origin_ns
    slot = distance // grid.width_ns - grid.first
    left = grid.width_ns - distance % grid.width_ns
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


@compiled
def play(
    sender: Int64,
    time_ns: Int64,
    enabled: Int64,
    quanta: Int64,
    grid: Grid,
    state: PauseState,
    series: Int64,
    senders: int,
) -> None:
    """Apply pause frames in their order: ``enabled`` has a bit, ``quanta`` a column a class.

    ``senders`` is how many there are; a sender below 0 is none.  A frame stamped before an earlier one of
    its interface is taken at that one's time.
    """
    (
        until, last, paused, asked, ended, frames, port_of, rate_bps, lane, lanes,
        port_until, port_last, port_paused, port_asked, port_ended,
    ) = state  # fmt: skip
    for i in range(len(sender)):
        who = sender[i]
        if who < 0:
            continue
        port = port_of[who]
        now = max(time_ns[i], port_last[port])
        _draw(until, lane, who, last[who], now, grid, series)
        _pass(until, who, last[who], now, paused)
        _pass(port_until, port, port_last[port], now, port_paused)
        last[who] = now
        port_last[port] = now
        frames[who] += 1
        for each in range(CLASSES):
            if (enabled[i] >> each) & 1 == 0:
                continue
            asks = quanta[i, each] > 0
            asked[who, each] += asks
            ended[who, each] += not asks
            port_asked[port, each] += asks
            port_ended[port, each] += not asks
            if asks and lane[who, each] == NO_LANE and lanes[0] < len(series):
                lane[who, each] = lanes[0]
                lanes[0] += 1
            before = until[who, each]
            # up to the next whole ns, as a machine that waits does (wire-formats 8)
            end = now - (-quanta[i, each] * _QUANTUM) // rate_bps[who]
            until[who, each] = end
            if end >= port_until[port, each]:
                port_until[port, each] = end
            elif before == port_until[port, each]:
                latest = end
                for other in range(senders):
                    if port_of[other] == port:
                        latest = max(latest, until[other, each])
                port_until[port, each] = latest


@compiled
def settle(end_ns: int, grid: Grid, state: PauseState, series: Int64, senders: int) -> None:
    """Advance every sender and interface to ``end_ns``, where pauses in force are cut off."""
    until, last, paused, _, _, _, port_of, _, lane, _, port_until, port_last, port_paused, _, _ = state
    for who in range(senders):
        now = max(end_ns, last[who])
        _draw(until, lane, who, last[who], now, grid, series)
        _pass(until, who, last[who], now, paused)
        last[who] = now
        port = port_of[who]
        now = max(end_ns, port_last[port])
        _pass(port_until, port, port_last[port], now, port_paused)
        port_last[port] = now


MOST_SENDERS = 256
"""Senders of pause frames told apart: source addresses on an interface."""
MOST_LANES = 64
"""Classes of senders whose pauses are told over time."""

_PFC = tuple(f"macc.cbfc.pause_time.c{priority}" for priority in range(LINK))
PAUSE_FIELDS = ("eth.src", "macc.pause_time", "macc.cbfc.enbv", *_PFC)

_FASTEST_BPS = 1 << 62


class PauseCounts:
    """The pauses of each sender; ``speed_bps`` applies to links whose interface does not state its speed."""

    def __init__(self, timeline: Timeline, speed_bps: int) -> None:
        self._timeline = timeline
        self._speed_bps = speed_bps
        self.senders = Numbering(MOST_SENDERS)
        self.untimed = 0
        """Pause frames without a time: nobody knows what they stopped."""
        self._known = 0
        self._ports: dict[int, int] = {}
        self._stated: list[bool] = []
        self._state = new_state(MOST_SENDERS)
        self._over_time = timeline.series()

    def add(self, counted: CountedBatch, interfaces: Sequence[Interface]) -> None:
        """Apply the pause frames of a batch."""
        pause, pfc = counted.columns["macc.pause_time"].rows, counted.columns["macc.cbfc.enbv"].rows
        rows = np.concatenate([pause, pfc])
        if not len(rows):
            return
        enabled = np.full(len(rows), 1 << LINK, np.int64)
        enabled[len(pause) :] = counted.values("macc.cbfc.enbv", pfc) & 0xFF
        quanta = np.zeros((len(rows), CLASSES), np.int64)
        quanta[: len(pause), LINK] = counted.values("macc.pause_time", pause)
        for priority, name in enumerate(_PFC):
            quanta[len(pause) :, priority] = counted.values(name, pfc)
        timed = counted.slots[rows] != NO_SLOT
        self.untimed += int((~timed).sum())
        order = np.argsort(rows, kind="stable")
        order = order[timed[order]]
        rows = rows[order]
        batch = counted.batch
        sender = self.senders.numbers(counted.addresses("eth.src", rows), batch.interface[rows])
        self._meet(interfaces)
        self._over_time.grow(MOST_LANES)
        play(
            sender, batch.time_ns[rows], enabled[order], quanta[order], self._grid, self._state,
            self._over_time.values, self._known,
        )  # fmt: skip

    @property
    def _grid(self) -> Grid:
        return Grid(self._timeline.origin_ns or 0, self._timeline.width_ns, self._timeline.first)

    def _meet(self, interfaces: Sequence[Interface]) -> None:
        """Note where the senders are that came since the last time."""
        for number in range(self._known, self.senders.count):
            interface = int(self.senders.high[number])
            speed_bps = interfaces[interface].speed_bps if interface < len(interfaces) else 0
            stated = 0 < speed_bps <= _FASTEST_BPS
            self._stated.append(stated)
            self._state.rate_bps[number] = speed_bps if stated else self._speed_bps
            self._state.port[number] = self._ports.setdefault(interface, len(self._ports))
        self._known = self.senders.count

    def times(self, end_ns: int) -> PauseTimes | None:
        """Return for how long pauses were in force until ``end_ns``; None without pause frames in time."""
        if not self._known:
            return None
        state = PauseState(*(array.copy() for array in self._state))
        series = self._over_time.values.copy()
        settle(end_ns, self._grid, state, series, self._known)
        senders = [self._sender(number, state, series) for number in range(self._known)]
        ports = [self._port(interface, row, state) for interface, row in self._ports.items()]
        return PauseTimes(
            senders=tuple(sorted(senders, key=lambda sender: -sender.paused_ns)),
            interfaces=tuple(sorted(ports, key=lambda port: port.interface)),
        )

    def _sender(self, number: int, state: PauseState, series: Int64) -> PauseSender:
        used = self._timeline.used

        def over_time(each: int) -> tuple[int, ...]:
            lane = int(state.lane[number, each])
            return () if lane == NO_LANE else tuple(series[lane, :used].tolist())

        return PauseSender(
            interface=int(self.senders.high[number]),
            source=address_octets(int(self.senders.low[number])),
            frames=int(state.frames[number]),
            speed_bps=int(state.rate_bps[number]),
            speed_is_stated=self._stated[number],
            paused_ns=int(state.paused[number, ANY]),
            classes=tuple(
                ClassPause(
                    priority=None if each == LINK else each,
                    pauses=int(state.asked[number, each]),
                    resumes=int(state.ended[number, each]),
                    paused_ns=int(state.paused[number, each]),
                    paused_ns_over_time=over_time(each),
                )
                for each in _named(state.asked[number] + state.ended[number])
            ),
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


def _named(frames: Int64) -> list[int]:
    """Return the classes that any frames name: the whole link first, then priorities."""
    named = np.flatnonzero(frames).tolist()
    return [LINK] * (LINK in named) + [each for each in named if each != LINK]
