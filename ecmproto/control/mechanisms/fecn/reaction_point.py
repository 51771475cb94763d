"""The FECN reaction point: the source of algorithms §5 item 1, with S003's enhancement 5.

A source has one record of :class:`FECNSource` and a table of :class:`FECNQueue`, rate-limited queues (RLQ)
per destination and priority; the RLQ-ID of ``queues[i]`` is i + 1. The caller has the waiting frames:
:func:`route` returns a frame's queue, :func:`join` is called when it waits there, ``limiter.leaves_ns``
returns the departure time of the first, and :func:`leave`, called at its departure, returns whether to tag
it. Returning frames go through :func:`on_return`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext, total
from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    Departure,
    Message,
    NullReactionPoints,
    Outbox,
    Sent,
)
from ecmproto.control.mechanisms.fecn.parameters import FECNReactionPointParameters, SourceParameters
from ecmproto.control.mechanisms.limiter import RateLimiter, leaves_ns, set_rate
from ecmproto.control.mechanisms.limiter import leave as indebt
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import new_records, record_from
from ecmproto.kernels.structs import Draws, Random, payload_view
from ecmproto.units import BPS_PER_KBPS, RATE_INFINITY

TAG_OCTETS = 10
"""The length that an RD tag adds to a frame (wire-formats 7)."""


class FECNDiscards:
    """Counters of refused frames, by reason; a part of a source's record (``kernels.record``)."""

    foreign_returns: int
    """Returning frames for another station or a group, or from a group: ignored."""
    malformed_returns: int
    """Returning frames that cannot be decoded: ignored."""


class FECNSource(FECNDiscards):
    """The state of a source besides its queues; a record."""

    link_rate_bps: float
    routed_flow: int
    """The flow of the last routed frame, for `join`; ``routed_ns`` is its time."""
    routed_ns: int
    restarts: int
    """Queues that started at r0, first or after an idle time."""
    shared_arrivals: int
    """Frames of flows beyond the table, which share the last queue."""
    tags: int
    """Frames that got an RD tag."""
    untaggable_frames: int
    """Frames that were to be tagged, but whose headers were truncated."""
    returns: int
    """Returning frames that set a rate."""
    infinite_returns: int
    """Returning frames with rate infinity: no switch on the path lowers rates."""
    capped_returns: int
    """Returning frames with a finite rate above the link's."""
    floored_returns: int
    """Returning frames with a rate below the minimum."""
    unknown_returns: int
    """Returning frames ignored: for an unused RLQ-ID, or not from a destination of that queue."""


class FECNQueue(RateLimiter):
    """One rate-limited queue; a record."""

    used: int
    """Whether a frame ever joined the queue."""
    waiting: int
    """The number of frames in the queue; the caller has the frames."""
    emptied_ns: int
    """The time when the last frame left."""
    tag_due_ns: int
    """The time from which on the next departure is tagged."""
    frames_to_tag: int
    """The number of departures before the next tagged one, if tags are sent by frames."""


class FECNSourceSettings:
    """The parameters as the kernels read them; a record."""

    tag_interval_ns: int
    """τ; 0 for a source that never tags."""
    frames_per_tag: int
    initial_sources: int
    idle_ns: int
    min_rate_bps: float
    random_phase: int


class FECNFields(NamedTuple):
    """A returning frame, its fields as on the wire: ``rate`` in kb/s, all ones is infinity."""

    rlq_id: int
    rate: int


def settings_record(parameters: FECNReactionPointParameters) -> FECNSourceSettings:
    """Return the record of settings for ``parameters``."""
    return record_from(FECNSourceSettings, parameters)


def source_settings_record(parameters: SourceParameters) -> FECNSourceSettings:
    """Return the record of settings of a source that never tags."""
    return record_from(FECNSourceSettings, parameters, tag_interval_ns=0, frames_per_tag=0, random_phase=0)


@inlined
def start(source: FECNSource, link_rate_bps: float) -> None:
    """Initialise ``source``; ``link_rate_bps`` is above 0."""
    source.link_rate_bps = link_rate_bps


@inlined
def route(source: FECNSource, queues: Sequence[FECNQueue], flow: int, now_ns: int) -> int:
    """Return the index of the queue for a frame of ``flow`` that comes at ``now_ns``.

    ``flow`` is the dense number of a destination and priority, −1 beyond the caller's table. Nothing is
    counted or started before the frame joins: the caller may not have the capacity for it.
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
    """Queue the last routed frame in ``queues[index]``, the result of its routing.

    A queue that is new or was idle long enough restarts, with one random number if the phase is random.
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
    """Return the index of the queue of ``flow``: its own, or the last one beyond the table."""
    last = len(queues) - 1
    return flow if 0 <= flow < last else last


@compiled
def restart(
    source: FECNSource, queue: FECNQueue, settings: FECNSourceSettings, generator: Random, now_ns: int
) -> None:
    """Start ``queue`` at r0 = C/N0; its next frame is tagged, or with a random phase one within τ."""
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
    """Send a frame of ``octets`` at ``now_ns``; return whether to tag it with rate infinity.

    ``tag_octets`` is the length added by a tag, which the limiter counts: 0 if it replaces one.
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
    """Return whether the departure at ``now_ns`` is to be tagged, and schedule the next tag."""
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
    """Set the queue of ``returned`` to its rate, within the minimum rate and the link's.

    Infinity is the link rate; an unused RLQ-ID is ignored.
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
    """The payload of a returning frame, besides its rate; a record."""

    rlq_id: int


fecn_payload: Callable[[Any], FECNPayload] = payload_view(FECNPayload, "payload")


class FECNStations(NullReactionPoints):
    """The sources of stations, with consecutive records per station; a limiter is a queue."""

    sources: Sequence[FECNSource]
    queues: Sequence[FECNQueue]
    queues_each: int
    settings: FECNSourceSettings
    generator: Draws

    def limiters(self) -> int:
        """Return the number of a station's rate-limited queues."""
        return self.queues_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the queue of ``flow``; every frame of a source has one."""
        return route(self.sources[station], queues_of(self.queues, self.queues_each, station), flow, now_ns)

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Queue the last routed frame; a queue that was idle long enough restarts."""
        queues = queues_of(self.queues, self.queues_each, station)
        join(self.sources[station], queues, self.settings, self.generator, limiter)

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the time when the head of the queue may leave."""
        return leaves_ns(self.queues[station * self.queues_each + limiter], now_ns)

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Count a frame at its limiter; tag it, at rate infinity, if the queue's next tag is due."""
        if departure.limiter != NO_LIMITER:
            queue = self.queues[departure.station * self.queues_each + departure.limiter]
            added = 0 if departure.tagged else TAG_OCTETS
            source = self.sources[departure.station]
            if leave(source, queue, self.settings, departure.now_ns, departure.octets, added):
                return Sent(True, RATE_INFINITY, departure.limiter + 1, added)
        return Sent(departure.tagged, departure.tag, departure.mark, 0)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Set the rate in a returning frame, if the queue that it names serves its flow."""
        queues = queues_of(self.queues, self.queues_each, message.station)
        rlq_id = fecn_payload(message).rlq_id
        if message.flow < 0 or queue_index(queues, message.flow) + 1 != rlq_id:
            self.sources[message.station].unknown_returns += 1
            return
        returned = FECNFields(rlq_id, message.rate_kbps)
        on_return(self.sources[message.station], queues, self.settings, returned, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the queue's current rate."""
        return self.queues[station * self.queues_each + limiter].rate_bps


@expanded
def queues_of(queues: Sequence[FECNQueue], queues_each: int, station: int) -> Sequence[FECNQueue]:
    """Return the queues of one station, of ``queues_each`` per station."""
    return queues[station * queues_each : (station + 1) * queues_each]


def new_stations(
    parameters: SourceParameters,
    settings: FECNSourceSettings,
    context: PortContext,
    generator: np.random.Generator,
) -> FECNStations:
    """Return sources, initialised.

    Flows are numbered densely, so queues beyond a station's flows would stay unused; they are left out.
    """
    each = queues_each(parameters, context)
    sources = new_records(FECNSource, context.stations)
    for source in sources:
        start(source, float(context.link_rate_bps))
    return FECNStations(
        sources, new_records(FECNQueue, context.stations * each), each, settings, Draws(generator)
    )


def queues_each(parameters: SourceParameters, context: PortContext) -> int:
    """Return the number of a station's queues."""
    return min(parameters.queues, max(1, context.flows))


def station_counters(stations: FECNStations) -> dict[str, int]:
    """Return the sums of the counters of all sources, by name."""
    return total(
        stations.sources, "restarts", "shared_arrivals", "tags", "returns", "infinite_returns",
        "capped_returns", "floored_returns", "unknown_returns",
    )  # fmt: skip
