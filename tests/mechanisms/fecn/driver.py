"""A small closed loop that uses only the protocol: stations, one port without priorities, and destinations.

``python -m tests.mechanisms.fecn.driver fecn`` prints a run.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import Machine, PortContext, machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    Arrival,
    CongestionPoint,
    Delivery,
    Departure,
    Outbox,
    Receivers,
    Senders,
    new_outbox,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.kernels.kernel import allocating

MS = 1_000_000
HELD_OUT, DROPPED = -1, -2
PORT_MAC = bytes.fromhex("0200000000fe")


class Track(NamedTuple):
    """Constants: a limiter's queue has space for ``held`` frames, and messages arrive after ``delay_ns``."""

    stations: int
    rate_bps: int
    buffer_octets: int
    held: int
    delay_ns: int
    until_ns: int


@allocating
def run(
    point: CongestionPoint,
    senders: Senders,
    receivers: Receivers,
    frames: NDArray[np.int64],
    track: Track,
    outbox: Outbox,
    results: NDArray[np.int64],
) -> int:
    """Run ``frames`` (time, station, flow, priority, octets), and return the maximum length of the port's
    queue.

    ``results`` receives the times at which each frame left its station and the port, or HELD_OUT or DROPPED.
    """
    each = senders.limiters()
    queues = np.zeros((track.stations * each, track.held), np.int64)
    taken = np.zeros(track.stations * each, np.int64)
    put = np.zeros(track.stations * each, np.int64)
    line = np.zeros(len(frames), np.int64)
    line_taken = line_put = arrived = delivered = octets = peak = 0
    departs_ns = NEVER_NS
    tags = np.zeros((len(frames), 4), np.int64)
    now_ns = 0
    while True:
        while delivered < outbox.posted.count and outbox.messages[delivered].sent == 0:
            delivered += 1
        message_ns = NEVER_NS
        if delivered < outbox.posted.count:
            message_ns = outbox.messages[delivered].time_ns + track.delay_ns
        leaves_ns, leaver = NEVER_NS, 0
        for index in range(len(put)):
            if put[index] > taken[index]:
                time_ns = senders.next_tx_ns(index // each, index % each, now_ns)
                if time_ns < leaves_ns:
                    leaves_ns, leaver = time_ns, index
        arrival_ns = frames[arrived, 0] if arrived < len(frames) else NEVER_NS
        tick_ns, report_ns = point.next_timer_ns(), receivers.next_report_ns()
        now_ns = min(min(departs_ns, tick_ns), min(message_ns, report_ns), min(leaves_ns, arrival_ns))
        if now_ns > track.until_ns:
            return peak
        posted = outbox.posted.count
        if departs_ns == now_ns:
            frame = line[line_taken]
            line_taken += 1
            octets -= tags[frame, 3]
            results[frame, 1] = now_ns
            _, station, flow, priority, _ = frames[frame]
            receivers.on_delivery(
                Delivery(
                    now_ns, station, flow, priority, tags[frame, 3], False, tags[frame, 0] == 1,
                    tags[frame, 1], tags[frame, 2],
                ),
                outbox,
            )  # fmt: skip
            departs_ns = NEVER_NS
            if line_put > line_taken:
                departs_ns = now_ns + -(-8_000_000_000 * tags[line[line_taken], 3] // track.rate_bps)
        elif tick_ns == now_ns:
            qlens_octets = np.zeros(8, np.int64)
            qlens_octets[3] = octets // 2
            qlens_octets[5] = octets - octets // 2
            point.on_timer(now_ns, qlens_octets, outbox)
        elif message_ns == now_ns:
            senders.on_message(outbox.messages[delivered], now_ns)
            delivered += 1
        elif report_ns == now_ns:
            receivers.post_reports(now_ns, outbox)
            for index in range(posted, outbox.posted.count):
                message = outbox.messages[index]
                message.rate_kbps = point.rewrite_tag(message.priority, message.rate_kbps)
        elif leaves_ns == now_ns:
            frame = queues[leaver, taken[leaver] % track.held]
            taken[leaver] += 1
            _, station, flow, priority, length = frames[frame]
            sent = senders.on_transmit(
                Departure(now_ns, station, leaver % each, flow, priority, length, False, 0, 0), outbox
            )
            results[frame, 0] = now_ns
            length += sent.added_octets
            enqueued = octets + length <= track.buffer_octets
            tag = sent.tag
            if enqueued:
                octets += length
                peak = max(peak, octets)
                line[line_put] = frame
                line_put += 1
                if departs_ns == NEVER_NS:
                    departs_ns = now_ns + -(-8_000_000_000 * length // track.rate_bps)
            else:
                results[frame, 1] = DROPPED
            point.on_arrival(
                Arrival(
                    now_ns, station, flow, priority, length, True, True, enqueued, sent.tagged, tag,
                    sent.mark, octets, octets,
                ),
                outbox,
            )  # fmt: skip
            if enqueued and sent.tagged:
                tag = point.rewrite_tag(priority, tag)
            tags[frame, 0] = int(sent.tagged)
            tags[frame, 1] = tag
            tags[frame, 2] = sent.mark
            tags[frame, 3] = length
        else:
            _, station, flow, priority, length = frames[arrived]
            limiter = senders.route(station, flow, priority, now_ns)
            index = station * each + limiter
            if put[index] - taken[index] < track.held:
                senders.on_enqueue(station, limiter)
                queues[index, put[index] % track.held] = arrived
                put[index] += 1
            else:
                results[arrived, 0] = HELD_OUT
            arrived += 1


class Outcome(NamedTuple):
    """A run's machines, messages and results."""

    machine: Machine
    point: Any
    senders: Any
    receivers: Any
    outbox: Outbox
    results: NDArray[np.int64]
    peak_octets: int

    def messages(self, kind: int) -> list[Any]:
        count = int(self.outbox.posted.count)
        return [message for message in self.outbox.messages[:count] if message.kind == kind]


def made(name: str, **texts: dict[str, str]) -> Machine:
    """Return the mechanism with parameters by role (``cp``, ``rp``, ``edge``), given as text."""
    mechanism = find_mechanism(name)
    return machine_of(
        mechanism,
        {Role(role): mechanism.role(Role(role)).parse(given) for role, given in texts.items()},
    )


def place(stations: int, flows: int, rate_bps: int = 10**9, link_rate_bps: int = 10**10) -> PortContext:
    return PortContext(
        rate_bps=rate_bps, link_rate_bps=link_rate_bps, cp_mac=PORT_MAC, stations=stations, flows=flows
    )


def greedy(stations: int, flows: int, until_ns: int, every_ns: int) -> NDArray[np.int64]:
    """Return frames of 1500 octets that come to each flow of each station every ``every_ns``."""
    rows = [
        (time_ns + station, station, flow, 3 + flow % 3, 1_500)
        for time_ns in range(0, until_ns, every_ns)
        for station in range(stations)
        for flow in range(flows)
    ]
    return np.array(rows, np.int64)


def drive(
    machine: Machine,
    where: PortContext,
    frames: NDArray[np.int64],
    until_ns: int,
    *,
    buffer_octets: int = 150_000,
) -> Outcome:
    """Run ``frames`` through the machines of ``machine``; a limiter's queue holds 20 frames."""
    generator = np.random.default_rng(5)
    point = machine.congestion_point(where, generator)
    senders, receivers = machine.senders(where, generator), machine.receivers(where, generator)
    outbox, results = new_outbox(20_000), np.zeros((len(frames), 2), np.int64)
    track = Track(where.stations, where.rate_bps, buffer_octets, 20, 4_000, until_ns)
    peak = run(point, senders, receivers, frames, track, outbox, results)
    return Outcome(machine, point, senders, receivers, outbox, results, int(peak))


def texts_of(name: str) -> dict[str, dict[str, str]]:
    """Return parameters with random phases and T at 1 ms."""
    edge = {"report_interval": "1ms", "active": "2ms", "random_phase": "yes"} if name == "dbp" else {}
    source = {"idle": "2ms"} if name == "dbp" else {"random_phase": "yes"}
    return {"cp": {"T": "1ms", "random_phase": "yes"}, "rp": source, "edge": edge}


def trace(name: str) -> str:
    """Return the results of 2 stations with 2 flows each, number by number."""
    frames = greedy(2, 2, 5 * MS, 10_000)
    outcome = drive(made(name, **texts_of(name)), place(2, 2), frames, 9 * MS, buffer_octets=30_000)
    count = int(outcome.outbox.posted.count)
    lines = [str(message) for message in outcome.outbox.messages[:count]]
    lines += [str(result) for result in outcome.results.tolist()]
    lines += [str(rate) for rate in np.asarray(outcome.senders.slots)["rate_bps"].tolist()]
    for part in (outcome.point, outcome.senders, outcome.receivers):
        lines.append(str(outcome.machine.counters(part)))
    return "\n".join([*lines, str(outcome.peak_octets)])


if __name__ == "__main__":
    print(trace(sys.argv[1]))
