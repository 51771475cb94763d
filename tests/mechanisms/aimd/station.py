"""A sender for tests: one reaction point, queues at its limiters, and a simulated clock.

`check` verifies the invariants of a reaction point in any state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ecmproto.control.mechanisms.aimd.congestion_point import Meter
from ecmproto.control.mechanisms.aimd.parameters import AIMDReactionPointParameters
from ecmproto.control.mechanisms.aimd.reaction_point import (
    ACTIVE,
    FREE,
    NO_FLOW,
    TIMED_OUT,
    Limiter,
    LimiterCounters,
    Limiters,
    TableSettings,
    depart,
    join,
    new_limiters,
    next_timer_ns,
    on_timer,
    route,
)
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER, signed_cpid
from ecmproto.control.mechanisms.limiter import NEVER_NS, leaves_ns
from ecmproto.kernels.record import new_record, record_dtype

Receive = Callable[[Limiters, Any, np.random.Generator, Any, int, int, int], int]
OUTCOMES = [name for name in record_dtype(LimiterCounters).names or () if name != "messages"]

_State = TypeVar("_State", bound=Meter)


def new_state(kind: type[_State], cpid: int) -> _State:
    """The record of a congestion point with an identifier; `start` it."""
    record = new_record(kind)
    record.cpid = signed_cpid(cpid)
    return record


def new_reaction_point(
    parameters: AIMDReactionPointParameters, settings: TableSettings, now_ns: int
) -> Limiters:
    """Return a reaction point without active limiters."""
    return new_limiters(parameters.limiters, settings, now_ns)


class Sent(NamedTuple):
    """A sent frame; ``cpid`` is the CPID of its tag, or None if no limiter was used."""

    time_ns: int
    flow: int
    number: int
    cpid: int | None


class Station:
    def __init__(self, limiters: Limiters, settings: TableSettings, receive: Receive, seed: int = 1) -> None:
        self.limiters = limiters
        self.settings = settings
        self.generator = np.random.default_rng(seed)
        self.react = receive
        self.now_ns = 0
        self.queues: dict[int, deque[tuple[int, int, int]]] = {}
        self.sent: list[Sent] = []
        self.numbers = 0
        self.silent_until: dict[int, int] = {}

    @property
    def slots(self) -> Sequence[Limiter]:
        return self.limiters.slots

    @property
    def point(self) -> Any:
        return self.limiters.point

    def rate(self, flow: int = 1, priority: int = 0) -> float | None:
        """Return the rate of the limiter that a frame would join, or None if no limiter matches."""
        index = route(self.limiters, flow, priority)
        return None if index == NO_LIMITER else float(self.slots[index].rate_bps)

    def limiter(self, flow: int = 1, priority: int = 0) -> Limiter:
        index = route(self.limiters, flow, priority)
        assert index != NO_LIMITER
        return self.slots[index]

    def receive(self, message: Any, flow: int = 1, priority: int = 0) -> int:
        time_outs = int(self.point.time_outs)
        index = self.react(self.limiters, self.settings, self.generator, message, flow, priority, self.now_ns)
        if self.point.time_outs > time_outs:
            self.silent_until[index] = int(self.slots[index].expires_ns)
        return index

    def send(self, flow: int = 1, priority: int = 0, octets: int = 1500) -> None:
        index = route(self.limiters, flow, priority)
        self.numbers += 1
        if index == NO_LIMITER:
            self.sent.append(Sent(self.now_ns, flow, self.numbers, None))
            return
        join(self.limiters, index)
        self.queues.setdefault(index, deque()).append((flow, self.numbers, octets))
        self.advance(0)

    def advance(self, by_ns: int) -> None:
        """Advance the clock, and process each timer and departure at its time."""
        until_ns = self.now_ns + by_ns
        while True:
            on_timer(self.limiters, self.settings, self.now_ns)
            timer_ns = next_timer_ns(self.limiters)
            leaving_ns, index = min(
                (
                    (leaves_ns(self.limiters.slots[index], self.now_ns), index)
                    for index, queue in self.queues.items()
                    if queue
                ),
                default=(NEVER_NS, NO_LIMITER),
            )
            if min(timer_ns, leaving_ns) > until_ns:
                break
            self.now_ns = max(self.now_ns, int(min(timer_ns, leaving_ns)))
            if timer_ns <= leaving_ns:
                on_timer(self.limiters, self.settings, self.now_ns)
            else:
                self._leave(index)
        self.now_ns = until_ns

    def _leave(self, index: int) -> None:
        assert self.silent_until.get(index, 0) <= self.now_ns, "a frame left during a time-out"
        flow, number, octets = self.queues[index].popleft()
        self.sent.append(Sent(self.now_ns, flow, number, int(self.slots[index].cpid)))
        depart(self.limiters, self.settings, index, self.now_ns, octets)

    def check(self) -> None:
        point, slots, settings = self.point, self.slots, self.settings
        fine = len(slots) - 8
        assert point.messages == sum(getattr(point, name) for name in OUTCOMES)
        assert point.active == sum(slot.status != FREE for slot in slots)
        assert all(slot.status == FREE for slot in slots[point.span : fine])
        assert point.restarts <= point.time_outs
        flows = [slot.flow for slot in slots[:fine] if slot.status != FREE]
        assert len(flows) == len(set(flows))
        for index, slot in enumerate(slots):
            assert slot.waiting == len(self.queues.get(index, ()))
            assert slot.debt_bits >= 0.0
            if slot.status == FREE:
                assert slot.waiting == 0
                assert slot.flow == NO_FLOW
            elif slot.status == ACTIVE:
                assert settings.floor_bps <= slot.rate_bps <= settings.link_bps
                assert slot.expires_ns == NEVER_NS
                assert self.silent_until.get(index, 0) <= self.now_ns, "woke up early"
            else:
                assert slot.status == TIMED_OUT
                assert slot.rate_bps == 0.0
                assert slot.expires_ns == self.silent_until[index] >= point.expires_ns
                assert slot.expires_ns > self.now_ns or next_timer_ns(self.limiters) <= self.now_ns
            if slot.status != FREE and slot.draining:
                assert index < fine
                assert slots[fine + slot.priority].status != FREE
        self.check_order()

    def check_order(self) -> None:
        """Assert that no frame overtakes another frame of its flow (S000 3.3)."""
        last: dict[int, int] = {}
        for sent in self.sent:
            assert sent.number > last.get(sent.flow, 0)
            last[sent.flow] = sent.number
