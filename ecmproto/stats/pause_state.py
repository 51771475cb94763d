"""Pauses in force, as loops over pause frames see them: who stopped whom, for which class, until when.

A pause frame stops a class of its sender's link partner until its quanta have passed, or until the sender's
next frame for the class, which takes its place: longer, shorter, or with no quanta the end (802.3 31B, 31D).
Classes 0 to 7 are priorities, class 8 is PAUSE, which stops the link.

Time goes on from frame to frame.  What passed since the last one counts as paused as far as the pauses then
in force reach into it, so every union of pauses is exact: they all began before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import compiled, inlined
from ecmproto.units import NS_PER_S, QUANTUM_BITS

Int64 = NDArray[np.int64]

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
    """Count what was paused from ``last_ns`` to ``now_ns``, of each class and of any."""
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
    """Take in pause frames in their order: ``enabled`` has a bit, ``quanta`` a column a class.

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
    """Let the time of all pass until ``end_ns``, where pauses in force are cut off."""
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
