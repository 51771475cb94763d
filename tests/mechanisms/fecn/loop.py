"""A closed loop of FECN's machines: sources that always have frames, one switch, and the return path of tags.

``python -m tests.mechanisms.fecn.loop`` prints the trace of a short run.
"""

from __future__ import annotations

import heapq

import numpy as np

from ecmproto.control.mechanisms.fecn import congestion_point as cp
from ecmproto.control.mechanisms.fecn import reaction_point as rp
from ecmproto.control.mechanisms.fecn.parameters import (
    FECNCongestionPointParameters,
    FECNReactionPointParameters,
)
from ecmproto.control.mechanisms.limiter import leaves_ns
from ecmproto.kernels.record import new_record, new_records
from ecmproto.units import NS_PER_S, RATE_INFINITY

OCTETS = 1_500
MS = 1_000_000
_LINK_NS = 1_700
"""From a source's departure to the switch: a frame at 10 Gb/s and half a microsecond."""
_BACK_NS = 3_000
"""From the switch through the receiver to the source."""

_TICK, _RETURN, _ARRIVAL, _DEPARTURE = range(4)


class Loop:
    """``sources`` sources of one queue each, all starting at 0, into an output queue at ``capacity_bps``."""

    def __init__(
        self,
        sources: int,
        *,
        n0: int,
        capacity_bps: float = 1e10,
        buffer_octets: int = 150_000,
        random_phase: bool = False,
        seed: int = 1,
    ) -> None:
        self.capacity_bps = capacity_bps
        self.buffer_octets = buffer_octets
        self.generator = np.random.default_rng(seed)
        switch = FECNCongestionPointParameters(initial_sources=n0, random_phase=random_phase)
        source = FECNReactionPointParameters(initial_sources=n0, queues=1, random_phase=random_phase)
        self.switch_settings = cp.settings_record(switch)
        self.switch = new_record(cp.FECNPointState)
        cp.start(self.switch, self.switch_settings, self.generator, 0, capacity_bps)
        self.settings = rp.settings_record(source)
        self.sources = [new_record(rp.FECNSource) for _ in range(sources)]
        self.tables = [new_records(rp.FECNQueue, source.queues) for _ in range(sources)]
        self.queues = [table[0] for table in self.tables]
        self.idle_at_ns = 0
        self.drops = 0
        self.peak_octets = 0
        self.served_octets = 0
        self.sequence = 0
        self.events: list[tuple[int, int, int, int, int]] = []
        self.push(cp.next_timer_ns(self.switch), _TICK, 0, 0)
        for index, state in enumerate(self.sources):
            rp.start(state, 1e10)
            self.offer(index, 0)
            self.push(0, _DEPARTURE, index, 0)

    def offer(self, index: int, now_ns: int) -> None:
        source, queues = self.sources[index], self.tables[index]
        rp.join(source, queues, self.settings, self.generator, rp.route(source, queues, 0, now_ns))

    def push(self, time_ns: int, kind: int, index: int, value: int) -> None:
        """Schedule an event. Of simultaneous events, ticks are first, and equal events keep their order."""
        heapq.heappush(self.events, (time_ns, kind, self.sequence, index, value))
        self.sequence += 1

    def qlen_octets(self, now_ns: int) -> int:
        return -(-max(0, self.idle_at_ns - now_ns) * int(self.capacity_bps) // (8 * NS_PER_S))

    def run_until(self, end_ns: int) -> None:
        while self.events[0][0] < end_ns:
            now_ns, kind, _, index, value = heapq.heappop(self.events)
            if kind == _TICK:
                cp.on_timer(self.switch, self.switch_settings, now_ns, self.qlen_octets(now_ns))
                self.push(cp.next_timer_ns(self.switch), _TICK, 0, 0)
            elif kind == _RETURN:
                returned = rp.FECNFields(1, value)
                rp.on_return(self.sources[index], self.tables[index], self.settings, returned, now_ns)
                self.push(leaves_ns(self.queues[index], now_ns), _DEPARTURE, index, 0)
            elif kind == _ARRIVAL:
                self.arrival(now_ns, index, bool(value))
            else:
                self.departure(now_ns, index)

    def departure(self, now_ns: int, index: int) -> None:
        queue = self.queues[index]
        if leaves_ns(queue, now_ns) > now_ns:
            return  # the rate fell since this was scheduled, or another event was first
        tagged = rp.leave(self.sources[index], queue, self.settings, now_ns, OCTETS)
        self.push(now_ns + _LINK_NS, _ARRIVAL, index, tagged)
        self.offer(index, now_ns)
        self.push(leaves_ns(queue, now_ns), _DEPARTURE, index, 0)

    def arrival(self, now_ns: int, index: int, tagged: bool) -> None:
        octets = OCTETS + rp.TAG_OCTETS * tagged
        cp.count(self.switch, octets, now_ns)
        qlen_octets = self.qlen_octets(now_ns)
        if qlen_octets + octets > self.buffer_octets:
            self.drops += 1
            return
        self.peak_octets = max(self.peak_octets, qlen_octets + octets)
        self.served_octets += octets
        service_ns = -(-8 * NS_PER_S * octets // int(self.capacity_bps))
        self.idle_at_ns = max(self.idle_at_ns, now_ns) + service_ns
        if tagged:
            self.push(self.idle_at_ns + _BACK_NS, _RETURN, index, cp.lowered(self.switch, RATE_INFINITY))

    def rates_bps(self) -> list[float]:
        return [float(queue.rate_bps) for queue in self.queues]


def trace(seed: int) -> list[str]:
    """Return the results of a run with random phases, number by number."""
    loop = Loop(3, n0=30, capacity_bps=1e9, random_phase=True, seed=seed)
    lines = []
    for step in range(1, 13):
        loop.run_until(step * MS)
        lines.append(f"{loop.rates_bps()} {loop.switch} {loop.queues}")
    return lines


if __name__ == "__main__":
    print("\n".join(trace(7)))
