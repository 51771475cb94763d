"""A station with QCN reaction points and the queues before the reaction points, for tests."""

from __future__ import annotations

from collections import deque

import numpy as np

from ecmproto.control.mechanisms.api.protocol import NO_LIMITER
from ecmproto.control.mechanisms.limiter import leaves_ns
from ecmproto.control.mechanisms.qcn.parameters import QCNReactionPointParameters
from ecmproto.control.mechanisms.qcn.reaction_point import (
    CNMFeedback,
    QCNLimiter,
    depart,
    join,
    new_reaction_point,
    next_timer_ns,
    on_timer,
    receive,
    route,
    settings_record,
)

LINK_BPS = 10_000_000_000


class Station:
    def __init__(
        self, parameters: QCNReactionPointParameters | None = None, *, flows: int = 8, seed: int = 1
    ) -> None:
        self.parameters = parameters or QCNReactionPointParameters()
        self.settings = settings_record(self.parameters, link_rate_bps=LINK_BPS)
        self.limiters = new_reaction_point(self.parameters, flows=flows)
        self.generator = np.random.default_rng(seed)
        self.now_ns = 0
        self.queues: dict[int, deque[tuple[int, int]]] = {}
        self.sent: list[tuple[int, int, int]] = []
        """Time, flow and length of each sent frame."""

    @property
    def point(self) -> object:
        return self.limiters.point

    def limiter(self, flow: int) -> QCNLimiter:
        index = route(self.limiters, flow)
        assert index != NO_LIMITER, f"flow {flow} is not limited"
        return self.limiters.slots[index]

    def limited(self, flow: int) -> bool:
        return route(self.limiters, flow) != NO_LIMITER

    def count(self, counter: str) -> int:
        return int(getattr(self.limiters.point, counter))

    def cnm(self, flow: int, qntz_fb: int) -> int:
        feedback = CNMFeedback(max(flow, 0), 3, qntz_fb)
        return int(receive(self.limiters, self.settings, self.generator, feedback, flow, self.now_ns))

    def frame(self, flow: int, octets: int) -> None:
        """Pass a new frame for ``flow`` to the station, which sends or queues the frame."""
        index = int(route(self.limiters, flow))
        if index == NO_LIMITER:
            self.sent.append((self.now_ns, flow, octets))
            return
        join(self.limiters, index)
        self.queues.setdefault(index, deque()).append((flow, octets))
        self.run_until(self.now_ns)

    def next_leave(self) -> tuple[int, int]:
        """Return the time of the next permitted frame, and its limiter."""
        return min(
            (
                (int(leaves_ns(self.limiters.slots[index], self.now_ns)), index)
                for index, queue in self.queues.items()
                if queue
            ),
            default=(2**62, NO_LIMITER),
        )

    def run_until(self, now_ns: int) -> None:
        """Process timers and send frames, each at its time, until ``now_ns``."""
        while True:
            leave_ns, index = self.next_leave()
            timer_ns = int(next_timer_ns(self.limiters))
            if min(leave_ns, timer_ns) > now_ns:
                self.now_ns = now_ns
                return
            self.now_ns = max(self.now_ns, min(leave_ns, timer_ns))
            if timer_ns <= leave_ns:
                on_timer(self.limiters, self.settings, self.generator, self.now_ns)
                continue
            flow, octets = self.queues[index].popleft()
            depart(self.limiters, self.settings, self.generator, index, self.now_ns, octets)
            self.sent.append((self.now_ns, flow, octets))

    def run_for(self, ns: int) -> None:
        self.run_until(self.now_ns + ns)
