"""PAUSE and PFC as time: who stopped whom for how long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.container import Interface
from ecmproto.stats.moment import Moment, address_octets
from ecmproto.stats.pause_state import ANY, CLASSES, LINK, NO_LANE, Grid, PauseState, new_state, play, settle
from ecmproto.stats.statistics import ClassPause, PauseInterface, PauseSender, PauseTimes
from ecmproto.stats.tally import NO_SLOT, Numbering
from ecmproto.stats.timeline import Timeline

Int64 = NDArray[np.int64]

MOST_SENDERS = 256
"""Senders of pause frames told apart: source addresses on an interface."""
MOST_LANES = 64
"""Classes of senders whose pauses are told over time."""

_PFC = tuple(f"macc.cbfc.pause_time.c{priority}" for priority in range(LINK))
FIELDS = ("eth.src", "macc.pause_time", "macc.cbfc.enbv", *_PFC)

_FASTEST_BPS = 1 << 62


class PauseCounts:
    """Accounts of pauses; ``speed_bps`` is of links whose interface does not state it."""

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

    def add(self, moment: Moment, interfaces: Sequence[Interface]) -> None:
        """Take in the pause frames of a batch."""
        pause, pfc = moment.columns["macc.pause_time"].rows, moment.columns["macc.cbfc.enbv"].rows
        rows = np.concatenate([pause, pfc])
        if not len(rows):
            return
        enabled = np.full(len(rows), 1 << LINK, np.int64)
        enabled[len(pause) :] = moment.values("macc.cbfc.enbv", pfc) & 0xFF
        quanta = np.zeros((len(rows), CLASSES), np.int64)
        quanta[: len(pause), LINK] = moment.values("macc.pause_time", pause)
        for priority, name in enumerate(_PFC):
            quanta[len(pause) :, priority] = moment.values(name, pfc)
        timed = moment.slots[rows] != NO_SLOT
        self.untimed += int((~timed).sum())
        order = np.argsort(rows, kind="stable")
        order = order[timed[order]]
        rows = rows[order]
        batch = moment.batch
        sender = self.senders.numbers(moment.addresses("eth.src", rows), batch.interface[rows])
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
