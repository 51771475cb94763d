"""The FECN reaction point: the source of algorithms §5 item 1, with enhancement 5 of S003.

A source has a record of type :class:`FECNSource` and a table of :class:`FECNQueue`, the rate-limited queues
(RLQ) per destination and priority. The RLQ-ID of ``queues[i]`` is i + 1. The caller stores waiting frames.
:func:`route` returns the queue of a frame, and :func:`join` counts a frame that enters the queue.
``limiter.leaves_ns`` returns the departure time of the first frame. At the departure, :func:`leave` returns
whether to tag the frame. The caller passes returning frames to :func:`on_return`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    Departure,
    LimiterStations,
    Message,
    Outbox,
    Sent,
)
from ecmproto.control.mechanisms.fecn.parameters import FECNReactionPointParameters, SourceParameters
from ecmproto.control.mechanisms.limiter import RateLimiter, set_rate
from ecmproto.control.mechanisms.limiter import leave as indebt
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import new_records, record_from
from ecmproto.kernels.structs import Draws, Random, payload_view
from ecmproto.units import BPS_PER_KBPS, RATE_INFINITY

TAG_OCTETS = 10
"""Number of octets that an RD tag adds to a frame (wire-formats 7)."""


class FECNDiscards:
    """Part of a source's record with the counters of refused frames by reason (``kernels.record``)."""

    foreign_returns: int
    """Number of returning frames ignored because of a foreign or group destination, or a group source."""
    malformed_returns: int
    """Number of returning frames ignored because they cannot be decoded."""


class FECNSource(FECNDiscards):
    """Record of a source's counters and its state outside the queues."""

    link_rate_bps: float
    routed_flow: int
    """Flow of the last routed frame, which `join` reads; ``routed_ns`` is the time of the routing."""
    routed_ns: int
    restarts: int
    """Number of starts of a queue at r0, at the first frame or after an idle time."""
    shared_arrivals: int
    """Number of frames of flows outside the table, which share the last queue."""
    tags: int
    """Number of frames that got an RD tag."""
    returns: int
    """Number of returning frames that set a rate."""
    infinite_returns: int
    """Number of returning frames with rate infinity, which no switch on the path lowered."""
    capped_returns: int
    """Number of returning frames with a finite rate above the link rate."""
    floored_returns: int
    """Number of returning frames with a rate below the minimum rate."""
    unknown_returns: int
    """Number of returning frames ignored because the RLQ-ID is unused or belongs to another destination."""


class FECNQueue(RateLimiter):
    """Record of a rate-limited queue."""

    used: int
    """Whether a frame has ever entered the queue."""
    waiting: int
    """Number of frames in the queue; the caller stores the frames."""
    emptied_ns: int
    """Time when the last frame left the queue."""
    tag_due_ns: int
    """Time after which the next departing frame is tagged."""
    frames_to_tag: int
    """Number of departures before the next tagged frame, if tags are sent by frames."""


class FECNSourceSettings:
    """Record of the source parameters that the kernels read."""

    tag_interval_ns: int
    """Tag interval τ in ns; 0 for a source that never tags."""
    frames_per_tag: int
    initial_sources: int
    idle_ns: int
    min_rate_bps: float
    random_phase: int


class FECNFields(NamedTuple):
    """The fields of a returning frame; ``rate`` is in kb/s, and all ones mean infinity."""

    rlq_id: int
    rate: int


def settings_record(parameters: FECNReactionPointParameters) -> FECNSourceSettings:
    """Return the settings record for ``parameters``."""
    return record_from(FECNSourceSettings, parameters)


@inlined
def start(source: FECNSource, link_rate_bps: float) -> None:
    """Initialise ``source`` for a link of ``link_rate_bps``, which is above 0."""
    source.link_rate_bps = link_rate_bps


@inlined
def route(source: FECNSource, queues: Sequence[FECNQueue], flow: int, now_ns: int) -> int:
    """Return the index of the queue for a frame of ``flow`` that arrives at ``now_ns``.

    ``flow`` is the number of a destination and priority, or −1 outside the caller's table. This function
    counts nothing and starts no queue, since the caller may drop the frame.
    """
    source.routed_flow = flow
    source.routed_ns = now_ns
    return queue_index(queues, flow)


@compiled
def join(
    source: FECNSource,
    queues: Sequence[FECNQueue],
    settings: FECNSourceSettings,
    generator: Random,
    index: int,
) -> None:
    """Count the last routed frame in ``queues[index]``, where ``index`` is the result of the routing.

    A new queue and an idle queue start at r0. If the phase is random, the start draws one random number.
    """
    now_ns = source.routed_ns
    if index != source.routed_flow:
        source.shared_arrivals += 1
    queue = queues[index]
    if queue.used == 0 or (queue.waiting == 0 and now_ns - queue.emptied_ns >= settings.idle_ns):
        restart(source, queue, settings, generator, now_ns)
    queue.waiting += 1


@inlined
def queue_index(queues: Sequence[FECNQueue], flow: int) -> int:
    """Return the index of the queue of ``flow``; all flows outside the table share the last queue."""
    last = len(queues) - 1
    return flow if 0 <= flow < last else last


@compiled
def restart(
    source: FECNSource, queue: FECNQueue, settings: FECNSourceSettings, generator: Random, now_ns: int
) -> None:
    """Start ``queue`` at r0 = C/N0 and schedule the first tag.

    The next frame is tagged. If the phase is random, a frame within τ is tagged instead.
    """
    initial_bps = source.link_rate_bps / settings.initial_sources
    set_rate(queue, now_ns, min(source.link_rate_bps, max(settings.min_rate_bps, initial_bps)))
    queue.used = 1
    queue.emptied_ns = now_ns
    queue.tag_due_ns = now_ns
    queue.frames_to_tag = 0
    if settings.random_phase:
        queue.tag_due_ns += math.floor(generator.random() * settings.tag_interval_ns)
    source.restarts += 1


@compiled
def leave(
    source: FECNSource,
    queue: FECNQueue,
    settings: FECNSourceSettings,
    now_ns: int,
    octets: int,
    tag_octets: int = TAG_OCTETS,
) -> bool:
    """Send a frame of ``octets`` at ``now_ns``; return whether to tag the frame with rate infinity.

    ``tag_octets`` is the number of octets that a tag adds, or 0 if the tag replaces another tag.
    """
    tagged = takes_tag(queue, settings, now_ns)
    if tagged:
        source.tags += 1
        octets += tag_octets
    indebt(queue, now_ns, octets)
    queue.waiting = max(0, queue.waiting - 1)
    queue.emptied_ns = now_ns
    return tagged


@inlined
def takes_tag(queue: FECNQueue, settings: FECNSourceSettings, now_ns: int) -> bool:
    """Return whether to tag the frame that departs at ``now_ns``, and schedule the next tag."""
    if settings.frames_per_tag > 0:
        if queue.frames_to_tag > 0:
            queue.frames_to_tag -= 1
            return False
        queue.frames_to_tag = settings.frames_per_tag - 1
        return True
    if settings.tag_interval_ns == 0 or now_ns < queue.tag_due_ns:
        return False
    queue.tag_due_ns = now_ns + settings.tag_interval_ns
    return True


@compiled
def on_return(
    source: FECNSource,
    queues: Sequence[FECNQueue],
    settings: FECNSourceSettings,
    returned: FECNFields,
    now_ns: int,
) -> None:
    """Set the queue of ``returned`` to the returned rate, clamped to the minimum rate and the link rate.

    Infinity means the link rate. An unused RLQ-ID is ignored.
    """
    index = returned.rlq_id - 1
    if index < 0 or index >= len(queues) or queues[index].used == 0:
        source.unknown_returns += 1
        return
    source.returns += 1
    rate_bps = float(returned.rate) * BPS_PER_KBPS
    if returned.rate == RATE_INFINITY:
        source.infinite_returns += 1
        rate_bps = source.link_rate_bps
    elif rate_bps > source.link_rate_bps:
        source.capped_returns += 1
        rate_bps = source.link_rate_bps
    elif rate_bps < settings.min_rate_bps:
        source.floored_returns += 1
        rate_bps = min(source.link_rate_bps, settings.min_rate_bps)
    set_rate(queues[index], now_ns, rate_bps)


class FECNPayload:
    """Record of a returning frame's payload, except the rate."""

    rlq_id: int


fecn_payload: Callable[[Any], FECNPayload] = payload_view(FECNPayload, "payload")


class FECNStations(LimiterStations):
    """Sources of all stations, with equally many consecutive records per station; each limiter is a queue."""

    slots: Sequence[FECNQueue]
    sources: Sequence[FECNSource]
    settings: FECNSourceSettings
    generator: Draws

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the index of the queue of ``flow``."""
        return route(self.sources[station], queues_of(self.slots, self.slots_each, station), flow, now_ns)

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Count the last routed frame in the queue; a queue that was idle long enough restarts."""
        queues = queues_of(self.slots, self.slots_each, station)
        join(self.sources[station], queues, self.settings, self.generator, limiter)

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Count a frame at the limiter; tag the frame with rate infinity if the queue's next tag is due."""
        if departure.limiter != NO_LIMITER:
            queue = self.slots[departure.station * self.slots_each + departure.limiter]
            added = 0 if departure.tagged else TAG_OCTETS
            source = self.sources[departure.station]
            if leave(source, queue, self.settings, departure.now_ns, departure.octets, added):
                return Sent(True, RATE_INFINITY, departure.limiter + 1, added)
        return Sent(departure.tagged, departure.tag, departure.mark, 0)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Apply the rate in a returning frame if the flow belongs to the queue in the returning frame."""
        queues = queues_of(self.slots, self.slots_each, message.station)
        rlq_id = fecn_payload(message).rlq_id
        if message.flow < 0 or queue_index(queues, message.flow) + 1 != rlq_id:
            self.sources[message.station].unknown_returns += 1
            return
        returned = FECNFields(rlq_id, message.rate_kbps)
        on_return(self.sources[message.station], queues, self.settings, returned, now_ns)


@expanded
def queues_of(queues: Sequence[FECNQueue], queues_each: int, station: int) -> Sequence[FECNQueue]:
    """Return the queues of one station; each station has ``queues_each`` queues."""
    return queues[station * queues_each : (station + 1) * queues_each]


def new_stations(
    parameters: SourceParameters,
    settings: FECNSourceSettings,
    context: PortContext,
    generator: np.random.Generator,
) -> FECNStations:
    """Return the initialised sources of all stations.

    Flows are numbered from 0, so a station never needs more queues than flows.
    """
    each = queues_each(parameters, context)
    sources = new_records(FECNSource, context.stations)
    for source in sources:
        start(source, float(context.link_rate_bps))
    return FECNStations(
        new_records(FECNQueue, context.stations * each), each, sources, settings, Draws(generator)
    )


def queues_each(parameters: SourceParameters, context: PortContext) -> int:
    """Return the number of queues per station."""
    return min(parameters.queues, max(1, context.flows))
