"""A small driver of E²CM's machines with one queue, stations and destinations, which uses only the
protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext, machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    PROBE_KIND,
    Arrival,
    CongestionPoint,
    Delivery,
    Departure,
    Message,
    Outbox,
    Receivers,
    Senders,
    Sent,
    new_outbox,
    probe_payload,
)
from ecmproto.control.mechanisms.e2cm.machine import E2CMMachine
from ecmproto.control.mechanisms.e2cm.parameters import E2CM
from ecmproto.kernels.kernel import compiled

PLACE = PortContext(
    rate_bps=10_000_000_000,
    link_rate_bps=10_000_000_000,
    cp_mac=bytes.fromhex("0200000000cc"),
    stations=3,
    flows=4,
)
PRIORITY = 3
PROBE_OCTETS = 60
PATIENCE_NS = 1_000_000_000
"""Time in ns after which a waiting frame is considered stuck."""


@compiled
def arrive(point: CongestionPoint, arrival: Arrival, outbox: Outbox) -> None:
    point.on_arrival(arrival, outbox)


@compiled
def limiter_of(senders: Senders, station: int, flow: int, priority: int, now_ns: int) -> int:
    """Return the limiter that a frame joins, or NO_LIMITER."""
    limiter = senders.route(station, flow, priority, now_ns)
    if limiter != NO_LIMITER:
        senders.on_enqueue(station, limiter)
    return limiter


@compiled
def wait(senders: Senders, station: int, limiter: int, now_ns: int) -> int:
    """Return the departure of the head of the limiter's queue, the station's timers expired until then."""
    last_ns = now_ns + PATIENCE_NS
    while True:
        leaves_ns = senders.next_tx_ns(station, limiter, now_ns)
        due_ns = senders.next_station_timer_ns(station)
        if leaves_ns < due_ns or due_ns > last_ns:
            return leaves_ns
        now_ns = max(now_ns, due_ns)
        senders.on_station_timer(station, now_ns)


@compiled
def send(senders: Senders, departure: Departure, outbox: Outbox) -> Sent:
    return senders.on_transmit(departure, outbox)


@compiled
def deliver_message(senders: Senders, message: Message, now_ns: int) -> None:
    senders.on_message(message, now_ns)


@compiled
def limit_bps(senders: Senders, station: int, limiter: int) -> float:
    return senders.limit_bps(station, limiter)


@compiled
def deliver(receivers: Receivers, delivery: Delivery, outbox: Outbox) -> None:
    receivers.on_delivery(delivery, outbox)


def machine(parameters: Mapping[Role, Parameters] | None = None) -> E2CMMachine:
    made = machine_of(E2CM, parameters or {})
    assert isinstance(made, E2CMMachine)
    return made


class Loop:
    """A queue that the port empties at its rate. All posted messages are delivered, answered and recorded."""

    def __init__(self, made: E2CMMachine, place: PortContext = PLACE, seed: int = 1) -> None:
        generator = np.random.default_rng(seed)
        # The results have protocol types, and this module reads records by name.
        self.machine, self.place = made, place
        self.point: Any = made.congestion_point(place, generator)
        self.senders: Any = made.senders(place, generator)
        self.receivers: Any = made.receivers(place, generator)
        self.outbox = new_outbox(64)
        self.posted: list[dict[str, Any]] = []
        self.now_ns = 0
        self.queue_octets = 0.0
        self.last_sent = Sent(False, 0, 0, 0)

    def data(self, station: int, flow: int = 0, octets: int = 1_500, after_ns: int = 0) -> list[Message]:
        """Deliver a frame to a station, wait, and pass the frame through the queue.

        Return the posted messages.
        """
        self.now_ns += after_ns
        limiter = int(limiter_of(self.senders, station, flow, PRIORITY, self.now_ns))
        left_ns = self.now_ns
        if limiter != NO_LIMITER:
            left_ns = int(wait(self.senders, station, limiter, self.now_ns))
        self.pass_to(left_ns)
        departure = Departure(left_ns, station, limiter, flow, PRIORITY, octets, False, 0, 0)
        sent = self.last_sent = send(self.senders, departure, self.outbox)
        probes = self.taken()
        octets += int(sent.added_octets)
        messages = self.through(station, flow, octets, bool(sent.tagged), int(sent.tag), int(sent.mark))
        for probe in probes:
            assert probe.kind == PROBE_KIND
            mark = int(probe_payload(probe).mark)
            messages += [probe, *self.through(station, flow, PROBE_OCTETS, False, 0, mark, probe=True)]
        return messages

    def through(
        self,
        station: int,
        flow: int,
        octets: int,
        tagged: bool,
        tag: int,
        mark: int,
        probe: bool = False,
    ) -> list[Message]:
        """Pass a frame through the queue, and deliver all posted messages to its station immediately."""
        self.queue_octets += octets
        qlen = int(self.queue_octets)
        arrival = Arrival(
            self.now_ns, station, flow, PRIORITY, octets, not probe, True, True, tagged, tag,
            0 if probe else mark, qlen, qlen,
        )  # fmt: skip
        arrive(self.point, arrival, self.outbox)
        leaves_ns = self.now_ns + int(qlen * 8e9 / self.place.rate_bps)
        delivery = Delivery(leaves_ns, station, flow, PRIORITY, octets, probe, tagged, tag, mark)
        deliver(self.receivers, delivery, self.outbox)
        messages = self.taken()
        for message in messages:
            if message.sent:
                deliver_message(self.senders, message, self.now_ns)
        return messages

    def pass_to(self, now_ns: int) -> None:
        """Advance the clock of the port."""
        drained = (now_ns - self.now_ns) * self.place.rate_bps / 8e9
        self.queue_octets = max(0.0, self.queue_octets - drained)
        self.now_ns = now_ns

    def taken(self) -> list[Message]:
        count = self.outbox.posted.count
        self.outbox.posted.count = 0
        messages: Any = np.array(self.outbox.messages[:count], copy=True).view(np.recarray)
        return list(messages)
