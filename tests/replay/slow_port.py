"""A simple event simulation of a port with QCN congestion points, with an event heap and exact fractions.

The simulation follows the documents (algorithms, heading and §3), and uses no code of ecmproto.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tests.mechanisms.qcn.literal import LiteralCongestionPoint

CHANGE, DEPARTURE, ARRIVAL = 0, 1, 2  # in this order at one instant


class Arriving(NamedTuple):
    time_ns: int
    octets: int
    priority: int
    occupies: bool = True
    sampled: bool = True


@dataclass
class Level:
    """A level, with the duration of each value."""

    now: int = 0
    since: int = 0
    peak: int = 0
    held: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def change(self, time: int, octets: int) -> None:
        self.held[self.now] += time - self.since
        self.since = time
        self.now += octets
        self.peak = max(self.peak, self.now)

    def mean(self) -> Fraction:
        total = sum(self.held.values())
        return Fraction(sum(level * ns for level, ns in self.held.items()), total) if total else Fraction(0)

    def percentile(self, percent: int) -> int:
        total = sum(self.held.values())
        seen = 0
        for level, ns in sorted(self.held.items()):
            seen += ns
            if 100 * seen >= percent * total and ns:
                return level
        return 0


@dataclass
class SlowPort:
    rate: int
    buffer: int
    overhead: int
    seed: int
    queues: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    levels: dict[int, Level] = field(default_factory=lambda: defaultdict(Level))
    total: Level = field(default_factory=Level)
    in_service: tuple[int, int] | None = None
    busy_start: int = 0
    busy_octets: int = 0
    changes: dict[int, int] = field(default_factory=dict)
    """Rate of the line after each time. A frame in transmission keeps the old rate."""
    departures: list[int] = field(default_factory=list)
    dispositions: list[str] = field(default_factory=list)
    qlens: list[int] = field(default_factory=list)
    samples: list[tuple[int, int, int, Fraction, int]] = field(default_factory=list)

    def run(self, frames: Sequence[Arriving]) -> None:
        draw = np.random.default_rng(self.seed).random
        points = {priority: LiteralCongestionPoint(draw) for priority in range(8)}
        self.events: list[tuple[int, int, int]] = []
        latest = 0
        for index, frame in enumerate(frames):
            latest = max(latest, frame.time_ns)
            heapq.heappush(self.events, (latest, ARRIVAL, index))
        for time, rate in self.changes.items():
            heapq.heappush(self.events, (time, CHANGE, rate))
        while self.events and self.events[0][0] <= latest:
            time, kind, index = heapq.heappop(self.events)
            if kind == CHANGE:
                self.rate = index
                if self.in_service is not None:
                    self.busy_start, self.busy_octets = self.departure, 0
            elif kind == DEPARTURE:
                self.depart(time)
            else:
                self.arrive(time, index, frames[index], points)
        for level in (self.total, *self.levels.values()):
            level.change(latest, 0)

    def arrive(
        self, time: int, index: int, frame: Arriving, points: dict[int, LiteralCongestionPoint]
    ) -> None:
        level = self.levels[frame.priority]
        if not frame.occupies:
            self.dispositions.append("passed by")
            self.qlens.append(-1)
            return
        if self.total.now + frame.octets > self.buffer:
            self.dispositions.append("dropped")
            self.qlens.append(level.now)
            return
        self.dispositions.append("enqueued")
        level.change(time, frame.octets)
        self.total.change(time, frame.octets)
        self.qlens.append(level.now)
        self.queues[frame.priority].append(frame.octets)
        if self.in_service is None:
            self.busy_start, self.busy_octets = time, 0
            self.serve()
        if frame.sampled:
            feedback = points[frame.priority].enqueue(frame.octets, level.now)
            if feedback is not None:
                self.samples.append((index, *feedback))

    def serve(self) -> None:
        priority = max(priority for priority, queue in self.queues.items() if queue)
        octets = self.queues[priority].popleft()
        self.in_service = (priority, octets)
        self.busy_octets += octets + self.overhead
        service = math.ceil(Fraction(8 * 10**9 * self.busy_octets, self.rate))
        self.departure = self.busy_start + service
        heapq.heappush(self.events, (self.departure, DEPARTURE, -1))

    def depart(self, time: int) -> None:
        assert self.in_service is not None
        priority, octets = self.in_service
        self.levels[priority].change(time, -octets)
        self.total.change(time, -octets)
        self.departures.append(time)
        self.in_service = None
        if any(self.queues.values()):
            self.serve()
