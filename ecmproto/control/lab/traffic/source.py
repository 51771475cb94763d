"""Record of a source: addresses, times and counters of the source's flows, and the layout of frame numbers.

A frame's number contains all data that the source or connection needs when the frame arrives. The number
consists of the frame's type, the offered octets, and a value, such as a segment number or a flow number. The
offered octets are needed because a tag may lengthen the frame on its path.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.traffic import Offer, Offers, next_offer, post_completion
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.structs import Random, Struct

MIN_FRAME_OCTETS = 60
"""Minimum length of an Ethernet frame without FCS; the last frame of a flow is padded to this length."""
MAX_FRAME_OCTETS = 0xFFFF
LONGEST_NS = 1e17
"""Maximum of random times: three years, in ns."""

_KIND_BITS = 3
_OCTET_BITS = 16
_VALUE_AT = _KIND_BITS + _OCTET_BITS
_KIND_MASK = (1 << _KIND_BITS) - 1

DATA = 0
ACK = 1
SYN = 2
SYN_ACK = 3
REQUEST = 4


class TrafficSource:
    """Source: a flow of an experiment, or one TCP connection of a flow; a record (``kernels.record``)."""

    pattern: int
    station: int
    """Host that sends the data."""
    destination: int
    flow: int
    """Flow number of the source's frames within the station."""
    reverse_flow: int
    """Flow number of the replies within the destination."""
    priority: int
    path: int
    frame_octets: int
    frame_ns: int
    """Transmission time of a frame on the host's link, in ns."""
    stop_ns: int
    """Time in ns from which the source begins no new frames or flows."""
    timer_ns: int
    """Time of the next frame or flow, in whole ns."""
    timer_rest: int
    """Fraction of ``timer_ns``, in units of 1/``step_of`` ns."""
    step_ns: int
    """Interval between two frames or slots, in whole ns; ``step_rest`` / ``step_of`` is the fraction."""
    step_rest: int
    step_of: int
    log_stay: float
    """Bernoulli: logarithm of the probability that a slot is empty."""
    mean_ns: float
    """Poisson: mean interval between two frames or flows, in ns."""
    exact_ns: float
    """Poisson: time of the next frame or flow in ns, before rounding."""
    pause_ns: int
    """On and off: start of the next off time, in ns."""
    on_ns: float
    off_ns: float
    pareto_shape: float
    in_nic: int
    """Number of frames in the NIC, for sources that wait for the NIC or drop frames."""
    backlog_frames: int
    """Number of frames in the NIC at which the source drops further frames; 0 means no limit."""
    table: int
    """Offset in the flow table of the source's schedule or size distribution."""
    table_end: int
    """End of the source's part of the flow table."""
    table_at: int
    """Index of the schedule's next burst."""
    flights: int
    """Index of the source's first flow in flight."""
    serial: int
    """Number of flows begun."""
    lead: int
    """Schedule: number of bursts at the start that do not wait for other sources."""
    awaits: int
    """Schedule: index of the first awaited source; ``awaits_end`` is the end of the range."""
    awaits_end: int
    releases: int
    """Schedule: index of the first source that awaits this source; ``releases_end`` ends the range."""
    releases_end: int
    backlog_octets: int
    """Number of unsent octets of the last flow."""
    connection: int
    """Number of the TCP connection; −1 for a source without TCP."""

    offered_frames: int
    """Number of data frames offered, including retransmissions."""
    offered_octets: int
    excess_frames: int
    """Number of offered frames that the source dropped because too many frames waited."""
    excess_octets: int
    refused_frames: int
    """Number of frames refused by a NIC, including replies."""
    delivered_frames: int
    """Number of data frames that reached their destination; for TCP, each segment counts once."""
    delivered_octets: int
    control_frames: int
    """Number of offered acknowledgements, handshake frames and requests."""
    retransmits: int
    timeouts: int
    completed: int
    """Number of completed transactions, or of completed flows of a given size."""
    incomplete: int
    """Number of flows that lost a frame; such a flow is abandoned after enough later flows have begun."""
    latency_ns: int
    """Sum of the latencies of completed transactions or flows, in ns."""
    latency_min_ns: int
    latency_max_ns: int


class FlowTable(Struct):
    """Schedules, size distributions and captured frames of all sources, concatenated."""

    octets: NDArray[np.int64]
    """Sizes of bursts, flows and captured frames, in octets."""
    arrival_ns: NDArray[np.int64]
    """Arrival times of bursts and captured frames, in ns."""
    share: NDArray[np.float64]
    """Share of flows up to each size."""
    priority: NDArray[np.int64]
    flow: NDArray[np.int64]
    """Flow number of each captured frame within its station."""


@inlined
def exponential(draws: Random) -> float:
    """Return an exponentially distributed random number with mean 1."""
    return -math.log(1.0 - draws.random())


@inlined
def next_poisson(source: TrafficSource, draws: Random) -> None:
    """Set the timer to the next event of a Poisson process."""
    source.exact_ns += min(source.mean_ns * exponential(draws), LONGEST_NS)
    source.timer_ns = math.ceil(min(source.exact_ns, float(NEVER_NS)))


@compiled
def next_arrival(table: FlowTable, source: TrafficSource, draws: Random) -> None:
    """Set the timer to the arrival of the source's next flow, or to NEVER_NS."""
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
    """Return a random flow size; the distribution is linear between its points."""
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
    """Return a frame's number."""
    return value << _VALUE_AT | octets << _KIND_BITS | kind


@inlined
def kind_of(number: int) -> int:
    """Return the type in a frame's number."""
    return number & _KIND_MASK


@inlined
def octets_of(number: int) -> int:
    """Return the offered octets in a frame's number."""
    return (number >> _KIND_BITS) & MAX_FRAME_OCTETS


@inlined
def value_of(number: int) -> int:
    """Return the value in a frame's number."""
    return number >> _VALUE_AT


def split_numbers(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the types and the values in an array of frame numbers."""
    return numbers & _KIND_MASK, numbers >> _VALUE_AT


@inlined
def offer_data(source: TrafficSource, index: int, octets: int, value: int, offers: Offers) -> Offer:
    """Offer a data frame of source ``index``, and return the offer; the caller has checked the capacity."""
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
    return offer


@inlined
def offer_control(
    source: TrafficSource, index: int, kind: int, octets: int, value: int, back: bool, offers: Offers
) -> Offer:
    """Offer a frame of another type, in the direction of the data or ``back``.

    The caller has checked the capacity.
    """
    offer = next_offer(offers)
    offer.source = index
    offer.station = source.destination if back else source.station
    offer.destination = source.station if back else source.destination
    offer.flow = source.reverse_flow if back else source.flow
    offer.priority = source.priority
    offer.octets = octets
    offer.number = numbered(kind, octets, value)
    # An explicit path back has the next lower number.
    offer.path = source.path - int(back and source.path < 0)
    source.control_frames += 1
    return offer


@inlined
def complete(
    source: TrafficSource, index: int, octets: int, began_ns: int, now_ns: int, offers: Offers
) -> None:
    """Count a completed transaction or flow, and record the completion."""
    latency_ns = now_ns - began_ns
    if source.completed == 0 or latency_ns < source.latency_min_ns:
        source.latency_min_ns = latency_ns
    source.latency_max_ns = max(source.latency_max_ns, latency_ns)
    source.latency_ns += latency_ns
    source.completed += 1
    post_completion(offers, index, octets, began_ns, now_ns)
