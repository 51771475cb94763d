"""A simple simulation of a closed loop with PAUSE, PFC or neither, with lists, deques and exact fractions.

The simulation follows the rules of `ecmproto.control.engine.loop`, and uses no code of ecmproto. PAUSE is not
refreshed, so no pause may last until its expiry.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.replay.loops import Sent

PASSED_BY, ENQUEUED, DROPPED, HELD_OUT = range(4)
NEVER = math.inf
LONGEST_STOP_QUANTA = 65_535


@dataclass
class SlowStation:
    queues: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    opens: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    free: Fraction = Fraction(0)


@dataclass
class SlowLoop:
    frames: Sequence[Sent]
    kind: str
    rate: int
    link: int
    buffer: int
    overhead: int
    delay: int
    queue: int
    high: int = 0
    low: int = 0
    changes: Sequence[tuple[int, int]] = ()
    """Times, and the rate of the port's line after each time. A frame in transmission keeps the old rate."""
    passages: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Serial, time, disposition, length of the priority's queue after it."""
    messages: list[tuple[int, int, bool]] = field(default_factory=list)
    """Time, class, whether it stops."""

    def run(self) -> None:
        self.stations: dict[int, SlowStation] = defaultdict(SlowStation)
        self.numbers: dict[int, int] = {}
        self.waiting: dict[int, deque[int]] = defaultdict(deque)
        self.on_line: int | None = None
        self.levels: dict[int, int] = defaultdict(int)
        self.occupancy: dict[int, int] = defaultdict(int)
        self.above: dict[int, bool] = defaultdict(bool)
        self.delivered = self.arrived = self.changed = 0
        self.departure: float = NEVER
        while True:
            times = [self.departure, self.message_time(), *min(self.entries(), default=(NEVER,))[:1]]
            times.append(self.frames[self.arrived].time_ns if self.arrived < len(self.frames) else NEVER)
            now = min(times)
            if now == NEVER:
                return
            if self.changed < len(self.changes) and self.changes[self.changed][0] <= now:
                self.change_rate()
                continue
            # Simultaneous events happen in the order of the list.
            (self.depart, self.deliver, self.wake, self.arrive)[times.index(now)](int(now))

    def message_time(self) -> float:
        return self.messages[self.delivered][0] + self.delay if self.delivered < len(self.messages) else NEVER

    def entries(self) -> list[tuple[int, int, int, int]]:
        return [
            (max(station.opens[priority], math.ceil(station.free)), self.numbers[address], priority, address)
            for address, station in self.stations.items()
            for priority, queue in station.queues.items()
            if queue
        ]

    def arrive(self, now: int) -> None:
        serial, self.arrived = self.arrived, self.arrived + 1
        frame = self.frames[serial]
        if frame.to_group:
            self.enter(serial, now)
            return
        self.numbers.setdefault(frame.station, len(self.numbers))
        station = self.stations[frame.station]
        queue = station.queues[frame.priority]
        if not queue and station.opens[frame.priority] <= now:
            self.send(serial, now)
        elif sum(self.frames[other].octets for other in queue) + frame.octets > self.queue:
            self.passages.append((serial, now, HELD_OUT, -1))
        else:
            queue.append(serial)

    def wake(self, now: int) -> None:
        _, _, priority, address = min(self.entries())
        self.send(self.stations[address].queues[priority].popleft(), now)

    def send(self, serial: int, now: int) -> None:
        station = self.stations[self.frames[serial].station]
        bits = 8 * (self.frames[serial].octets + self.overhead)
        begins = station.free if math.ceil(station.free) >= now else Fraction(now)
        station.free = begins + Fraction(bits * 10**9, self.link)
        self.enter(serial, now)

    def enter(self, serial: int, now: int) -> None:
        frame = self.frames[serial]
        if sum(self.levels.values()) + frame.octets > self.buffer:
            self.passages.append((serial, now, DROPPED, self.levels[frame.priority]))
            return
        self.levels[frame.priority] += frame.octets
        self.passages.append((serial, now, ENQUEUED, self.levels[frame.priority]))
        self.waiting[frame.priority].append(serial)
        if self.on_line is None:
            self.served = Fraction(now)
            self.serve()
        self.watch(frame, frame.octets, now)

    def serve(self) -> None:
        priority = max(priority for priority, queue in self.waiting.items() if queue)
        self.on_line = self.waiting[priority].popleft()
        octets = self.frames[self.on_line].octets + self.overhead
        self.served += Fraction(8 * 10**9 * octets, self.rate)
        self.departure = math.ceil(self.served)

    def change_rate(self) -> None:
        _, self.rate = self.changes[self.changed]
        self.changed += 1
        if self.on_line is not None:
            self.served = Fraction(self.departure)

    def depart(self, now: int) -> None:
        assert self.on_line is not None
        frame = self.frames[self.on_line]
        self.levels[frame.priority] -= frame.octets
        self.on_line, self.departure = None, NEVER
        if any(self.waiting.values()):
            self.serve()
        self.watch(frame, -frame.octets, now)

    def watch(self, frame: Sent, octets: int, now: int) -> None:
        number = frame.priority if self.kind == "pfc" else 0
        self.occupancy[number] += octets
        stops = self.occupancy[number] > self.high
        starts = self.occupancy[number] <= self.low
        if self.kind != "none" and (starts if self.above[number] else stops):
            self.above[number] = stops
            self.messages.append((now, number, stops))

    def deliver(self, now: int) -> None:
        _, number, stops = self.messages[self.delivered]
        self.delivered += 1
        stopped = math.ceil(Fraction(512 * LONGEST_STOP_QUANTA * 10**9, self.link))
        for frame in self.frames:
            for priority in [number] if self.kind == "pfc" else range(8):
                self.stations[frame.station].opens[priority] = now + stopped * stops
