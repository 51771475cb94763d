"""A network in plain Python for tests of sources: one NIC per host, a delay, loss and reordering.

Each NIC is a queue that is served at link rate. A frame arrives ``delay_ns`` after its last bit was sent.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ecmproto.control.engine.traffic import Offer, new_offers
from ecmproto.control.lab.model import Flow
from ecmproto.control.lab.traffic.sources import Endpoints, TrafficSources, new_sources, source_count
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.record import new_records
from ecmproto.units import NS_PER_S

LINK_BPS = 10**10


class Seen(NamedTuple):
    """An offered frame."""

    time_ns: int
    source: int
    station: int
    octets: int
    number: int
    echo: int
    is_ect: bool


class Done(NamedTuple):
    """A completed transfer."""

    time_ns: int
    source: int
    octets: int
    latency_ns: int


def sources_of(*flows: Flow, seed: int = 1, link_bps: int = LINK_BPS, overhead: int = 0) -> TrafficSources:
    """Return the sources of ``flows``: source n sends from host 2n to host 2n + 1."""
    count = sum(source_count(flow) for flow in flows)
    places = [
        Endpoints(
            station=2 * n, destination=2 * n + 1, flow=n, reverse_flow=n, path=n, link_rate_bps=link_bps
        )
        for n in range(count)
    ]
    return new_sources(flows, places, np.random.default_rng(seed), overhead_octets=overhead)


class TinyNetwork:
    """A run; ``lose`` and ``later_ns`` are called with each frame that leaves a NIC."""

    def __init__(
        self,
        sources: TrafficSources,
        *,
        delay_ns: int = 1000,
        link_bps: int = LINK_BPS,
        lose: Callable[[Seen], bool] = lambda frame: False,
        mark: Callable[[Seen], bool] = lambda frame: False,
        later_ns: Callable[[Seen], int] = lambda frame: 0,
        nic_frames: int = 10**6,
        room: int = 16,
    ) -> None:
        self.sources = sources
        self.offers = new_offers()
        self.offers.records = new_records(Offer, room)
        self.delay_ns, self.link_bps, self.nic_frames = delay_ns, link_bps, nic_frames
        self.lose, self.later_ns, self.mark = lose, later_ns, mark
        self.offered: list[Seen] = []
        self.completed: list[Done] = []
        self.lost = 0
        self._order = itertools.count()
        self._events: list[tuple[int, int, str, Seen]] = []
        self._free_ns: dict[int, Fraction] = {}
        self._held: dict[int, int] = {}

    def run(self, until_ns: int) -> TinyNetwork:
        """Run until all events until ``until_ns`` are processed."""
        while (now_ns := min(self.sources.next_source_ns(), self._next_ns())) <= until_ns:
            if self._next_ns() == now_ns:
                _, _, what, frame = heapq.heappop(self._events)
                self._handle(what, frame, now_ns)
            else:
                self.timer(now_ns)
        return self

    def timer(self, now_ns: int) -> None:
        """Let the sources process due events."""
        self.sources.on_source_timer(now_ns, self.offers)
        self._take(now_ns)

    def _next_ns(self) -> int:
        return self._events[0][0] if self._events else NEVER_NS

    def _handle(self, what: str, frame: Seen, now_ns: int) -> None:
        if what == "sent":
            self._held[frame.station] -= 1
            if self.lose(frame):
                self.lost += 1
            else:
                self._at(now_ns + self.delay_ns + self.later_ns(frame), "delivered", frame)
            self.sources.on_frame_sent(frame.source, frame.number, now_ns, self.offers)
        else:
            self.sources.on_frame_delivered(
                frame.source, frame.number, frame.echo, frame.is_ect and self.mark(frame), now_ns, self.offers
            )
        self._take(now_ns)

    def _take(self, now_ns: int) -> None:
        count: Any = self.offers.count
        for offer in self.offers.records[: count.posted]:
            source, station, octets = int(offer.source), int(offer.station), int(offer.octets)
            number, echo, is_ect = int(offer.number), int(offer.echo), bool(offer.is_ect)
            frame = Seen(now_ns, source, station, octets, number, echo, is_ect)
            self.offered.append(frame)
            if self._held.get(frame.station, 0) >= self.nic_frames:
                self.sources.on_frame_refused(frame.source, frame.number, now_ns)
                continue
            self._held[frame.station] = self._held.get(frame.station, 0) + 1
            free_ns = self._free_ns.get(frame.station, Fraction(0))
            begins_ns = free_ns if math.ceil(free_ns) >= now_ns else now_ns
            self._free_ns[frame.station] = begins_ns + Fraction(8 * NS_PER_S * frame.octets, self.link_bps)
            self._at(math.ceil(self._free_ns[frame.station]), "sent", frame)
        for each in self.offers.completions[: count.completed]:
            self.completed.append(
                Done(int(each.time_ns), int(each.source), int(each.octets), int(each.latency_ns))
            )
        count.posted = count.completed = 0

    def _at(self, time_ns: int, what: str, frame: Seen) -> None:
        heapq.heappush(self._events, (time_ns, next(self._order), what, frame))


def times(frames: Iterable[Seen], source: int = 0) -> list[int]:
    """Return the times at which the frames of a source were offered."""
    return [frame.time_ns for frame in frames if frame.source == source]
