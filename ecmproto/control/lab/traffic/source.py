"""A source's record: where its frames go, when flows come, what it counts, and what a frame's number is.

A frame's number holds all that its source, or the connection that it is of, has to know when the frame comes:
its kind, its octets as they were offered (a tag may make it longer on its way), and a value, such as the
number of a segment or of a flow.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.traffic import Offers, next_offer, post_completion
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.structs import Random, Struct

LEAST_FRAME_OCTETS = 60
"""The shortest Ethernet frame without FCS: what is left of a flow is padded to it."""
MOST_FRAME_OCTETS = 0xFFFF
LONGEST_NS = 1e17
"""Three years: the longest time that is drawn."""

_KIND_BITS = 3
_OCTET_BITS = 16
_VALUE_AT = _KIND_BITS + _OCTET_BITS
_KINDS = (1 << _KIND_BITS) - 1

DATA = 0
ACK = 1
SYN = 2
SYN_ACK = 3
REQUEST = 4


class TrafficSource:
    """One source: a flow of an experiment, or one of its TCP connections; a record (``kernels.record``)."""

    pattern: int
    station: int
    """The host that sends its data …"""
    destination: int
    """… and the one that these are for."""
    flow: int
    """Which of the station's flows its frames belong to …"""
    reverse_flow: int
    """… and which of the destination's those that answer them."""
    priority: int
    path: int
    frame_octets: int
    frame_ns: int
    """What a frame takes on the host's link."""
    stop_ns: int
    """From when on it begins nothing new."""
    timer_ns: int
    """When its next frame is due, or its next flow; of the exact time, the whole ns …"""
    timer_rest: int
    """… and what is beyond: so many times 1/``step_of`` ns."""
    step_ns: int
    """The exact distance of two frames or slots …"""
    step_rest: int
    step_of: int
    log_stay: float
    """Bernoulli: the logarithm of the chance that a slot stays empty."""
    mean_ns: float
    """Poisson: the mean distance of two frames, or of two flows."""
    exact_ns: float
    """Poisson: when the next one comes, before it is rounded."""
    pause_ns: int
    """On and off: when it goes off."""
    on_ns: float
    off_ns: float
    pareto_shape: float
    in_nic: int
    """Frames that its NIC holds, where it waits for them."""
    table: int
    """Where its schedule, or its distribution of sizes, begins …"""
    table_end: int
    """… and ends."""
    table_at: int
    """The next burst of its schedule."""
    flights: int
    """The first of its flows in flight."""
    serial: int
    """How many flows it has begun."""
    backlog_octets: int
    """What is left to send of the last one."""
    connection: int
    """Its TCP connection, −1 for none."""

    offered_frames: int
    """Data frames, those sent again included."""
    offered_octets: int
    refused_frames: int
    """Frames that a NIC had no room for, those that answer it included."""
    delivered_frames: int
    """Data frames at their destination; of TCP each segment once."""
    delivered_octets: int
    control_frames: int
    """Acknowledgements, handshakes and requests offered."""
    retransmits: int
    timeouts: int
    completed: int
    """Transactions, or flows of a given size."""
    incomplete: int
    """Flows that lost a frame: so many later ones have begun that they are given up."""
    latency_ns: int
    """The sum over those completed."""
    latency_min_ns: int
    latency_max_ns: int


class FlowTable(Struct):
    """The schedules, distributions of sizes and captured frames of all sources, one after another."""

    octets: NDArray[np.int64]
    """Sizes of bursts, of flows and of captured frames."""
    arrival_ns: NDArray[np.int64]
    """When bursts and captured frames come."""
    share: NDArray[np.float64]
    """The share of flows up to each size."""
    priority: NDArray[np.int64]
    flow: NDArray[np.int64]
    """Of captured frames: which of its station's flows each is of."""


@inlined
def exponential(draws: Random) -> float:
    """Return an exponentially distributed number of mean 1."""
    return -math.log(1.0 - draws.random())


@inlined
def next_poisson(source: TrafficSource, draws: Random) -> None:
    """Set the timer to the next time of a Poisson process."""
    source.exact_ns += min(source.mean_ns * exponential(draws), LONGEST_NS)
    source.timer_ns = math.ceil(min(source.exact_ns, float(NEVER_NS)))


@compiled
def next_arrival(table: FlowTable, source: TrafficSource, draws: Random) -> None:
    """Set the timer to when the source's next flow comes, NEVER_NS if none does."""
    if source.mean_ns > 0.0:
        next_poisson(source, draws)
    elif source.table_at < source.table_end:
        source.timer_ns = table.arrival_ns[source.table_at]
    else:
        source.timer_ns = NEVER_NS
    if source.timer_ns >= source.stop_ns:
        source.timer_ns = NEVER_NS


@compiled
def drawn_octets(table: FlowTable, source: TrafficSource, draws: Random) -> int:
    """Return the size of a flow: the distribution is linear between the points that are given."""
    share, octets = table.share, table.octets
    drawn = draws.random()
    at = source.table
    while at < source.table_end - 1 and share[at] <= drawn:
        at += 1
    size = float(octets[at])
    if at > source.table:
        low, high = share[at - 1], share[at]
        part = (drawn - low) / (high - low)
        size = float(octets[at - 1]) + part * float(octets[at] - octets[at - 1])
    return max(1, int(size + 0.5))


@inlined
def numbered(kind: int, octets: int, value: int) -> int:
    """Return the number of a frame."""
    return value << _VALUE_AT | octets << _KIND_BITS | kind


@inlined
def kind_of(number: int) -> int:
    """Return the kind of the frame of this number."""
    return number & _KINDS


@inlined
def octets_of(number: int) -> int:
    """Return the octets of the frame of this number, as it was offered."""
    return (number >> _KIND_BITS) & MOST_FRAME_OCTETS


@inlined
def value_of(number: int) -> int:
    """Return the value that the frame of this number carries."""
    return number >> _VALUE_AT


def kinds_and_values(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `kind_of` and `value_of` for each of many frames' numbers."""
    return numbers & _KINDS, numbers >> _VALUE_AT


@inlined
def offer_data(source: TrafficSource, index: int, octets: int, value: int, offers: Offers) -> None:
    """Offer a data frame of source ``index``; there is room for it."""
    offer = next_offer(offers)
    offer.source = index
    offer.station = source.station
    offer.destination = source.destination
    offer.flow = source.flow
    offer.priority = source.priority
    offer.octets = octets
    offer.number = numbered(DATA, octets, value)
    offer.path = source.path
    source.offered_frames += 1
    source.offered_octets += octets


@inlined
def offer_control(
    source: TrafficSource, index: int, kind: int, octets: int, value: int, back: bool, offers: Offers
) -> None:
    """Offer a frame of another kind, ``back`` from the destination or on the way of data; there is room."""
    offer = next_offer(offers)
    offer.source = index
    offer.station = source.destination if back else source.station
    offer.destination = source.station if back else source.destination
    offer.flow = source.reverse_flow if back else source.flow
    offer.priority = source.priority
    offer.octets = octets
    offer.number = numbered(kind, octets, value)
    offer.path = source.path
    source.control_frames += 1


@inlined
def complete(
    source: TrafficSource, index: int, octets: int, began_ns: int, now_ns: int, offers: Offers
) -> None:
    """Count and post a transaction or flow that has come whole."""
    latency_ns = now_ns - began_ns
    if source.completed == 0 or latency_ns < source.latency_min_ns:
        source.latency_min_ns = latency_ns
    source.latency_max_ns = max(source.latency_max_ns, latency_ns)
    source.latency_ns += latency_ns
    source.completed += 1
    post_completion(offers, index, octets, began_ns, now_ns)
