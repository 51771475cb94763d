"""Finds the states and transitions of control machines by running the machines.

The state diagrams therefore show the behaviour of the code. A station with one flow sends through a port,
whose line is alternately slow and fast. The machines of a mechanism run as plain Python. After each call of a
machine, and after time has passed, the state of its records is compared with the previous state. A difference
is a transition, which is named by its cause and by the counters that increased.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.machine import Machine, PortContext, machine_of
from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    PAUSE_KIND,
    PFC_KIND,
    PROBE_KIND,
    SILENT,
    Arrival,
    Delivery,
    Departure,
    Message,
    flow_control_payload,
    new_outbox,
    probe_payload,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause import gate
from ecmproto.control.mechanisms.registry import find_mechanism

LINK_BPS = 10**10
FRAME_OCTETS = 9_000
BUFFER_OCTETS = 1_500_000
LINES_BPS = (5 * 10**8, 2 * 10**9, 8 * 10**9, 4 * 10**10, 4 * 10**10)
"""Line rates in bit/s, which alternate."""
STEPS_A_TURN = 40
PAUSE_NS = 50_000_000
PRIORITY = 3
STEPS = 1_000
SEEDS = (4, 5, 6)
TIME_PASSES = "time passes"
EVERY_CALL = frozenset({"messages", "made_ect", "delivered_frames"})
"""Counters that only count calls of a machine, and are ignored."""


def machine_with(name: str, assignments: Iterable[str] = ()) -> Machine:
    """Return the machine of a mechanism with parameters such as ``rp.byte_reset=10kB``."""
    mechanism = find_mechanism(name)
    return machine_of(mechanism, mechanism.parse(assignments))


def place_of(rate_bps: int = LINK_BPS) -> PortContext:
    """Return a port with one station and one flow."""
    return PortContext(
        rate_bps=rate_bps,
        link_rate_bps=LINK_BPS,
        cp_mac=bytes.fromhex("0200000000c1"),
        stations=1,
        flows=1,
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """A machine whose states are drawn, with the names of its states; the first state is the initial
    state.
    """

    mechanism: str
    part: str
    """The observed part of the loop: ``point``, ``senders``, ``receivers`` or ``gates``."""
    title: str
    states: tuple[str, ...]
    state: Callable[[Loop, str, frozenset[str]], str]
    """Function that returns the state from the loop, the previous state and the changed counters."""
    assignments: tuple[str, ...] = ()
    losses: float = 0.0
    """Fraction of messages that are lost."""


@dataclass(slots=True)
class Transition:
    """A change of state, or an event that does not change the state, with its causes."""

    before: str
    after: str
    causes: dict[str, set[str]] = field(default_factory=dict)
    """The counters that changed, by cause."""


@dataclass(slots=True)
class _Queued:
    octets: int
    probe: bool
    tagged: bool
    tag: int
    mark: int


class _Observer:
    """Records the transitions of a subject in a loop."""

    def __init__(self, subject: Subject, loop: Loop) -> None:
        self.transitions: dict[tuple[str, str], Transition] = {}
        self._subject = subject
        self._loop = loop
        self._state = subject.states[0]
        self._counted = self._counters()

    def _counters(self) -> dict[str, int]:
        if self._subject.part == "gates":
            return gate.counters(self._loop.gates)
        return self._loop.machine.counters(getattr(self._loop, self._subject.part))

    def observe(self, part: str, cause: str) -> None:
        """Record a transition after the loop has called ``part``, or after time has passed."""
        counted = self._counted
        if part == self._subject.part:
            counted = self._counters()
        elif part:
            return
        changed = (
            frozenset(name for name, value in counted.items() if value != self._counted[name]) - EVERY_CALL
        )
        state = self._subject.state(self._loop, self._state, changed)
        if state != self._state or changed:
            found = self.transitions.setdefault((self._state, state), Transition(self._state, state))
            found.causes.setdefault(cause, set()).update(changed)
        self._state, self._counted = state, counted


class Loop:
    """A station, a port and a destination with random traffic; all subjects have the same parameters."""

    def __init__(self, subjects: Sequence[Subject], seed: int) -> None:
        first = subjects[0]
        self.machine = machine_with(first.mechanism, first.assignments)
        place, generator = place_of(), np.random.default_rng(seed)
        self.point: Any = self.machine.congestion_point(place, generator)
        self.senders: Any = self.machine.senders(place, generator)
        self.receivers: Any = self.machine.receivers(place, generator)
        pfc = frozenset(range(8)) if first.mechanism == "pfc" else frozenset()
        self.gates = gate.new_gates(1, rate_bps=LINK_BPS, pause=True, pfc_priorities=pfc)
        self.now_ns = 0
        self._losses = first.losses
        self._random = random.Random(seed)
        self._outbox = new_outbox(16)
        self._queue: list[_Queued] = []
        self._served_ns = NEVER_NS
        self._line_bps = LINES_BPS[-1]
        self._observers = [_Observer(subject, self) for subject in subjects]

    def run(self, steps: int) -> list[list[Transition]]:
        """Run ``steps`` steps of the loop, and return the transitions of each subject."""
        for _ in range(steps):
            if self._random.random() < 1 / STEPS_A_TURN:
                self._line_bps = int(self._random.choice(LINES_BPS))
            drawn = self._random.random()
            if drawn < 0.8:
                self._send()
            elif drawn < 0.998:
                self._advance(min(self._next_ns(), self.now_ns + int(self._random.random() * 5_000_000)))
            else:
                self._advance(self.now_ns + PAUSE_NS)
        return [list(each.transitions.values()) for each in self._observers]

    def _observe(self, part: str, cause: str) -> None:
        for each in self._observers:
            each.observe(part, cause)

    def _next_ns(self) -> int:
        timers = (
            self.point.next_timer_ns(),
            self.receivers.next_report_ns(),
            self.senders.next_station_timer_ns(0),
        )
        return int(min(*timers, self._served_ns))

    def _advance(self, until_ns: int) -> None:
        """Process all events that are due by ``until_ns``."""
        while self._next_ns() <= until_ns:
            due_ns = self._next_ns()
            self._at(due_ns)
            if self._served_ns <= due_ns:
                self._serve()
            elif self.point.next_timer_ns() <= due_ns:
                qlens = np.zeros(8, np.int64)
                qlens[PRIORITY] = self._octets()
                self.point.on_timer(self.now_ns, qlens, self._outbox)
                self._observe("point", "the port's timer")
                self._deliver()
            elif self.receivers.next_report_ns() <= due_ns:
                self.receivers.post_reports(self.now_ns, self._outbox)
                self._observe("receivers", "the destination's timer")
                self._deliver()
            else:
                self.senders.on_station_timer(0, self.now_ns)
                self._observe("senders", "the station's timer")
        self._at(until_ns)

    def _at(self, now_ns: int) -> None:
        self.now_ns = max(self.now_ns, now_ns)
        self._observe("", TIME_PASSES)

    def _send(self) -> None:
        """Send a frame from the station at the earliest permitted time, after all earlier events."""
        limiter = self.senders.route(0, 0, PRIORITY, self.now_ns)
        if limiter != NO_LIMITER:
            self.senders.on_enqueue(0, limiter)
            self._observe("senders", "a frame queues")
        for _ in range(STEPS):
            leaves_ns = self.now_ns
            if limiter != NO_LIMITER:
                leaves_ns = int(self.senders.next_tx_ns(0, limiter, self.now_ns))
            leaves_ns = gate.opens_ns(self.gates, 0, PRIORITY, leaves_ns)
            if leaves_ns <= self.now_ns and self._next_ns() > self.now_ns:
                break
            self._advance(min(leaves_ns, self._next_ns()))
        departure = Departure(self.now_ns, 0, limiter, 0, PRIORITY, FRAME_OCTETS, False, 0, 0)
        sent = self.senders.on_transmit(departure, self._outbox)
        self._observe("senders", "a frame leaves")
        entries = [_Queued(FRAME_OCTETS + sent.added_octets, False, sent.tagged, sent.tag, sent.mark)]
        probes = [each for each in self._posted() if each.kind == PROBE_KIND]
        entries += [_Queued(64, True, False, 0, probe_payload(each).mark) for each in probes]
        for entry in entries:
            self._arrive(entry)
        self._advance(self.now_ns + FRAME_OCTETS * 8 * 10**9 // LINK_BPS)

    def _arrive(self, entry: _Queued) -> None:
        fits = self._octets() + entry.octets <= BUFFER_OCTETS
        if fits:
            self._queue.append(entry)
            if self._served_ns == NEVER_NS:
                self._served_ns = self.now_ns + self._service_ns(entry)
        if entry.probe:
            return
        qlen = self._octets()
        arrival = Arrival(
            self.now_ns, 0, 0, PRIORITY, entry.octets, True, True, fits, entry.tagged, entry.tag, entry.mark,
            qlen, qlen,
        )  # fmt: skip
        self.point.on_arrival(arrival, self._outbox)
        self._observe("point", "a frame arrives")
        if entry.tagged:
            entry.tag = self.point.rewrite_tag(PRIORITY, entry.tag)
        self._deliver()

    def _serve(self) -> None:
        entry = self._queue.pop(0)
        self._served_ns = self.now_ns + self._service_ns(self._queue[0]) if self._queue else NEVER_NS
        if not entry.probe:
            qlen = self._octets()
            self.point.on_dequeue(self.now_ns, 0, PRIORITY, entry.octets, qlen, self._outbox)
            self._observe("point", "a frame is served")
            self._deliver()
        delivery = Delivery(
            self.now_ns, 0, 0, PRIORITY, entry.octets, entry.probe, entry.tagged, entry.tag, entry.mark
        )
        self.receivers.on_delivery(delivery, self._outbox)
        self._observe("receivers", "a probe comes" if entry.probe else "a frame comes")
        self._deliver()

    def _deliver(self) -> None:
        """Deliver the pending messages to the station, except for lost messages."""
        for message in self._posted():
            if message.kind == SILENT or not message.sent or self._random.random() < self._losses:
                continue
            if message.kind in (PAUSE_KIND, PFC_KIND):
                quanta = flow_control_payload(message).quanta
                gate.obey(self.gates, 0, message, self.now_ns)
                self._observe("gates", "a pause comes" if quanta else "a resume comes")
            else:
                message.station, message.flow = 0, 0
                self.senders.on_message(message, self.now_ns)
                self._observe("senders", self.machine.kinds[int(message.kind)])

    def _posted(self) -> list[Message]:
        count, self._outbox.posted.count = int(self._outbox.posted.count), 0
        return [self._outbox.messages[index] for index in range(count)]

    def _octets(self) -> int:
        return sum(each.octets for each in self._queue)

    def _service_ns(self, entry: _Queued) -> int:
        return entry.octets * 8 * 10**9 // self._line_bps


def transitions_of(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, list[Transition]]]:
    """Yield each subject with its transitions, in the order of its states.

    Subjects with the same parameters are observed in the same loop. The results of several loops are merged.
    """
    for _, alike in groupby(subjects, key=lambda each: (each.mechanism, each.assignments, each.losses)):
        together = list(alike)
        runs = [Loop(together, seed).run(STEPS) for seed in SEEDS]
        for subject, *found in zip(together, *runs, strict=True):
            yield subject, _merged(subject, found)


def _merged(subject: Subject, runs: Sequence[Sequence[Transition]]) -> list[Transition]:
    merged: dict[tuple[str, str], Transition] = {}
    for each in chain.from_iterable(runs):
        whole = merged.setdefault((each.before, each.after), Transition(each.before, each.after))
        for cause, counters in each.causes.items():
            whole.causes.setdefault(cause, set()).update(counters)
    order = {name: index for index, name in enumerate(subject.states)}
    return sorted(merged.values(), key=lambda each: (order[each.before], order[each.after]))
