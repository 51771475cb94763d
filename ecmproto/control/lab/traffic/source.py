"""A source's record: addresses, times and counters of its flows, and the layout of a frame's number.

A frame's number contains all that its source or connection needs at the frame's arrival: its kind, its
offered octets (a tag may lengthen it on the path), and a value, such as the number of a segment or of a flow.
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
"""The minimum Ethernet frame without FCS, to which the end of a flow is padded."""
MAX_FRAME_OCTETS = 0xFFFF
LONGEST_NS = 1e17
"""Three years in ns, the maximum of random times."""

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
    """The host that sends the data."""
    destination: int
    flow: int
    """The flow of the source's frames among the station's."""
    reverse_flow: int
    """The flow of the answers among the destination's."""
    priority: int
    path: int
    frame_octets: int
    frame_ns: int
    """The time of a frame on the host's link."""
    stop_ns: int
    """The time from which nothing new begins."""
    timer_ns: int
    """The time of the next frame, or flow, in whole ns."""
    timer_rest: int
    """The fraction of ``timer_ns``, in units of 1/``step_of`` ns."""
    step_ns: int
    """The exact interval of two frames or slots, in whole ns; ``step_rest`` / ``step_of`` is its fraction."""
    step_rest: int
    step_of: int
    log_stay: float
    """Bernoulli: the logarithm of the probability that a slot is empty."""
    mean_ns: float
    """Poisson: the mean interval of two frames, or of two flows."""
    exact_ns: float
    """Poisson: the time of the next one before rounding."""
    pause_ns: int
    """On and off: the time of the next off."""
    on_ns: float
    off_ns: float
    pareto_shape: float
    in_nic: int
    """The number of frames in the NIC, for sources that wait for it or drop frames."""
    backlog_frames: int
    """The number of frames in the NIC from which on the source drops others; 0 for no limit."""
    table: int
    """The offset of the source's schedule, or distribution of sizes, in the table."""
    table_end: int
    """The end of the source's part of the table."""
    table_at: int
    """The index of the next burst of the schedule."""
    flights: int
    """The index of the source's first flow in flight."""
    serial: int
    """The number of flows begun."""
    lead: int
    """Schedule: the number of bursts that wait for no other source."""
    awaits: int
    """Schedule: the index of the first awaited source, ``awaits_end`` that after the last."""
    awaits_end: int
    releases: int
    """Schedule: the index of the first source that awaits this one, ``releases_end`` that after the last."""
    releases_end: int
    backlog_octets: int
    """Octets of the last flow that are not yet sent."""
    connection: int
    """The TCP connection, −1 for none."""

    offered_frames: int
    """Data frames offered, with retransmissions."""
    offered_octets: int
    excess_frames: int
    """Offered frames that the source dropped, as too many others waited."""
    excess_octets: int
    refused_frames: int
    """Frames refused by a NIC, answers included."""
    delivered_frames: int
    """Data frames at their destination; for TCP each segment once."""
    delivered_octets: int
    control_frames: int
    """Acknowledgements, handshakes and requests offered."""
    retransmits: int
    timeouts: int
    completed: int
    """Completed transactions, or flows of a given size."""
    incomplete: int
    """Flows that lost a frame, abandoned after enough later ones began."""
    latency_ns: int
    """The sum of the latencies of completed transactions or flows."""
    latency_min_ns: int
    latency_max_ns: int


class FlowTable(Struct):
    """The schedules, distributions of sizes and captured frames of all sources, concatenated."""

    octets: NDArray[np.int64]
    """Sizes of bursts, flows and captured frames."""
    arrival_ns: NDArray[np.int64]
    """Arrival times of bursts and captured frames."""
    share: NDArray[np.float64]
    """The share of flows up to each size."""
    priority: NDArray[np.int64]
    flow: NDArray[np.int64]
    """The flow of each captured frame among its station's."""


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
    """Set the timer to the arrival of the source's next flow, NEVER_NS for none."""
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
    """Return the size of a flow, from a distribution that is linear between its points."""
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
    """Return the kind in a frame's number."""
    return number & _KINDS


@inlined
def octets_of(number: int) -> int:
    """Return the offered octets in a frame's number."""
    return (number >> _KIND_BITS) & MAX_FRAME_OCTETS


@inlined
def value_of(number: int) -> int:
    """Return the value in a frame's number."""
    return number >> _VALUE_AT


def split_numbers(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `kind_of` and `value_of` for an array of frames' numbers."""
    return numbers & _KINDS, numbers >> _VALUE_AT


@inlined
def offer_data(source: TrafficSource, index: int, octets: int, value: int, offers: Offers) -> Offer:
    """Offer a data frame of source ``index``, and return it; the caller has checked the capacity."""
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
    """Offer a frame of another kind, forward or ``back``; the caller has checked the capacity."""
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
    """Count and post a completed transaction or flow."""
    latency_ns = now_ns - began_ns
    if source.completed == 0 or latency_ns < source.latency_min_ns:
        source.latency_min_ns = latency_ns
    source.latency_max_ns = max(source.latency_max_ns, latency_ns)
    source.latency_ns += latency_ns
    source.completed += 1
    post_completion(offers, index, octets, began_ns, now_ns)
