"""A small closed loop that uses only the protocol: stations, and one port whose queue has no priorities.

Stations do not obey PAUSE here, but the outbox contains the PAUSE messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import Machine, PortContext, machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_LIMITER,
    Arrival,
    CongestionPoint,
    Departure,
    Message,
    Outbox,
    Senders,
    messages_of,
    new_outbox,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.kernels.kernel import allocating, compiled
from ecmproto.kernels.record import columns, new_records, record_dtype

CP = bytes.fromhex("0200000000cc")
LINK = 10_000_000_000
PRIORITY = 3
WAITING, DROPPED = -1, -2


class Track(NamedTuple):
    """Settings: messages take ``delay_ns``, and the port serves at ``rate_bps``."""

    stations: int
    rate_bps: int
    buffer_octets: int
    delay_ns: int
    until_ns: int


class FrameResult:
    """The result of a frame, as a record."""

    left_ns: int
    """Time in ns at which the frame left the station, or WAITING."""
    through_ns: int
    """Time in ns at which the frame left the port, or DROPPED or WAITING."""
    limiter: int
    octets: int
    tagged: int
    tag: int
    mark: int


@compiled
def arrive(point: CongestionPoint, arrival: Arrival, outbox: Outbox) -> None:
    point.on_arrival(arrival, outbox)


@compiled
def deliver_message(senders: Senders, message: Message, now_ns: int) -> None:
    senders.on_message(message, now_ns)


@allocating
def run(
    point: CongestionPoint,
    senders: Senders,
    frames: NDArray[np.int64],
    track: Track,
    outbox: Outbox,
    results: Any,
) -> int:
    """Run ``frames`` (time, station, flow, priority, octets, tag), and return the peak length of the port's
    queue.

    A tag of 0 means no tag. Messages that are in the outbox at the start are also delivered, in order.
    """
    each, count = senders.limiters(), len(frames)
    queues = np.zeros((track.stations * each, count), np.int64)
    taken = np.zeros(track.stations * each, np.int64)
    put = np.zeros(track.stations * each, np.int64)
    line = np.zeros(count, np.int64)
    line_taken = line_put = arrived = delivered = octets = peak = 0
    departs_ns = NEVER_NS
    qlens_octets = np.zeros(8, np.int64)
    now_ns = 0
    while True:
        while delivered < outbox.posted.count and (
            outbox.messages[delivered].sent == 0 or outbox.messages[delivered].station == EVERY_STATION
        ):
            delivered += 1
        message_ns = NEVER_NS
        if delivered < outbox.posted.count:
            message_ns = outbox.messages[delivered].time_ns + track.delay_ns
        timer_ns, expiring = NEVER_NS, 0
        for station in range(track.stations):
            if senders.next_station_timer_ns(station) < timer_ns:
                timer_ns, expiring = senders.next_station_timer_ns(station), station
        arrival_ns = frames[arrived, 0] if arrived < count else NEVER_NS
        tick_ns = point.next_timer_ns()
        first_ns = min(min(departs_ns, tick_ns), min(message_ns, min(timer_ns, arrival_ns)))
        leaves_ns, leaver = NEVER_NS, 0
        for index in range(len(put)):
            if put[index] > taken[index]:
                time_ns = senders.next_tx_ns(index // each, index % each, now_ns)
                if time_ns < leaves_ns:
                    leaves_ns, leaver = time_ns, index
        now_ns = min(first_ns, leaves_ns)
        if now_ns > track.until_ns:
            return peak
        if departs_ns == now_ns:
            frame = line[line_taken]
            line_taken += 1
            octets -= results[frame].octets
            results[frame].through_ns = now_ns
            point.on_dequeue(
                now_ns, frames[frame, 1], frames[frame, 3], results[frame].octets, octets, outbox
            )
            departs_ns = NEVER_NS
            if line_put > line_taken:
                departs_ns = now_ns + -(-8_000_000_000 * results[line[line_taken]].octets // track.rate_bps)
            continue
        if tick_ns == now_ns:
            qlens_octets[0] = octets
            point.on_timer(now_ns, qlens_octets, outbox)
            continue
        if message_ns == now_ns:
            deliver_message(senders, outbox.messages[delivered], now_ns)
            delivered += 1
            continue
        if timer_ns == now_ns:
            senders.on_station_timer(expiring, now_ns)
            continue
        if leaves_ns == now_ns:
            frame = queues[leaver, taken[leaver]]
            taken[leaver] += 1
            limiter = leaver % each
        else:
            frame = arrived
            arrived += 1
            limiter = senders.route(frames[frame, 1], frames[frame, 2], frames[frame, 3], now_ns)
            if limiter != NO_LIMITER:
                senders.on_enqueue(frames[frame, 1], limiter)
                index = frames[frame, 1] * each + limiter
                queues[index, put[index]] = frame
                put[index] += 1
                continue
        result = results[frame]
        station, flow, priority = frames[frame, 1], frames[frame, 2], frames[frame, 3]
        departure = Departure(
            now_ns, station, limiter, flow, priority, frames[frame, 4], frames[frame, 5] != 0,
            frames[frame, 5], 0,
        )  # fmt: skip
        sent = senders.on_transmit(departure, outbox)
        result.left_ns = now_ns
        result.limiter = limiter
        result.octets = frames[frame, 4] + sent.added_octets
        result.tagged = int(sent.tagged)
        result.tag = sent.tag
        result.mark = sent.mark
        enqueued = octets + result.octets <= track.buffer_octets
        if enqueued:
            octets += result.octets
            peak = max(peak, octets)
            line[line_put] = frame
            line_put += 1
            if departs_ns == NEVER_NS:
                departs_ns = now_ns + -(-8_000_000_000 * result.octets // track.rate_bps)
        else:
            result.through_ns = DROPPED
        arrive(
            point,
            Arrival(
                now_ns, station, flow, priority, result.octets, True, True, enqueued, sent.tagged, sent.tag,
                sent.mark, octets, octets,
            ),
            outbox,
        )  # fmt: skip


class Outcome(NamedTuple):
    """The machines of a run, the messages, and the results of the frames."""

    machine: Machine
    point: Any
    senders: Any
    messages: list[Any]
    results: Any
    peak_octets: int


def made(name: str, **parameters: dict[str, Any]) -> Machine:
    """Return a mechanism with changed parameters of its roles (``cp``, ``rp``)."""
    mechanism = find_mechanism(name)
    return machine_of(
        mechanism,
        {Role(role): mechanism.role(Role(role))(**given) for role, given in parameters.items()},
    )


def place(stations: int = 3, flows: int = 4, rate_bps: int = LINK) -> PortContext:
    return PortContext(rate_bps=rate_bps, link_rate_bps=LINK, cp_mac=CP, stations=stations, flows=flows)


def drive(
    machine: Machine,
    frames: Sequence[tuple[int, ...]],
    *,
    where: PortContext | None = None,
    until_ns: int,
    delay_ns: int = 4_000,
    buffer_octets: int = 300_000,
    given: list[dict[str, int]] | None = None,
) -> Outcome:
    """Run ``frames`` (time, station, flow, octets, and optionally a tag) in time order.

    Messages with the fields ``given`` are in flight at the start.
    """
    where = where or place()
    point = machine.congestion_point(where, np.random.default_rng(5))
    senders = machine.senders(where, np.random.default_rng(6))
    outbox, results = new_outbox(10_000), new_records(FrameResult, len(frames))
    columns(results)["left_ns"] = columns(results)["through_ns"] = WAITING
    if given:
        columns(outbox.messages)[: len(given)] = columns(messages_of(given, machine.payloads))
    outbox.posted.count = len(given or [])
    rows = np.zeros((len(frames), 6), np.int64)
    rows[:, 3] = PRIORITY
    for row, (time_ns, station, flow, *rest) in zip(rows, frames, strict=True):
        row[:3] = time_ns, station, flow
        row[4 : 4 + len(rest)] = rest
    track = Track(where.stations, where.rate_bps, buffer_octets, delay_ns, until_ns)
    peak = run(point, senders, rows, track, outbox, results)
    return Outcome(machine, point, senders, list(outbox.messages[: outbox.posted.count]), results, int(peak))


def check_alone(
    machine: Machine,
    frames: Sequence[tuple[int, ...]],
    given: list[dict[str, int]],
    *,
    only: int,
    until_ns: int,
) -> None:
    """Assert that one station behaves the same with and without the other two stations.

    A congestion point must not reveal the actions of a station to other stations.
    """
    alone = [message for message in given if message["station"] == only]
    mine = [frame[1] == only for frame in frames]
    shared = drive(machine, frames, until_ns=until_ns, given=given)
    own = drive(machine, [frame for frame in frames if frame[1] == only], until_ns=until_ns, given=alone)
    # Frames of other stations delay the frame at the port.
    kept = [name for name in record_dtype(FrameResult).names or () if name != "through_ns"]
    assert columns(shared.results)[mine][kept].tolist() == columns(own.results)[kept].tolist()
    each = own.senders.slots_each
    slots = [columns(one.senders.slots)[only * each : (only + 1) * each].tolist() for one in (shared, own)]
    assert slots[0] == slots[1]
    assert columns(shared.senders.points)[only] == columns(own.senders.points)[only]


def greedy(stations: int, flows: int, until_ns: int, every_ns: int) -> list[tuple[int, int, int, int]]:
    """Return frames of 1500 octets that arrive at each flow of each station every ``every_ns``."""
    return [
        (time_ns + station, station, flow, 1_500)
        for time_ns in range(0, until_ns, every_ns)
        for station in range(stations)
        for flow in range(flows)
    ]


def trace(name: str, **parameters: dict[str, Any]) -> list[str]:
    """Return the results of three stations with two flows each as numbers."""
    machine = made(name, **parameters)
    outcome = drive(machine, greedy(3, 2, 150_000, 3_600), until_ns=300_000)
    lines = [str(message) for message in outcome.messages]
    lines += [str(result) for result in columns(outcome.results).tolist()]
    lines += [str(slot) for slot in columns(outcome.senders.slots).tolist()]
    lines += [str(machine.counters(part)) for part in (outcome.point, outcome.senders)]
    return [*lines, str(outcome.peak_octets)]
