"""Records and stores of a network: stations and their links, switches and their ports, messages in flight.

A replay is the smallest one: stations, and one port to which they all send.  What a network has besides,
`lab` fills in: ways from switch to switch, what feeds each switch, memory that ports share, flow
control on every link, messages that are frames, and sources instead of a capture.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableSequence, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.config import LoopConfig, PortConfig, RateChange
from ecmproto.control.engine.event_heap import EventHeap, new_event_heap, set_all_due, with_entries
from ecmproto.control.engine.frame_pool import NOWHERE, Pool, Queue, enlarge_pool, new_pool, new_queues
from ecmproto.control.engine.gauge import PRIORITIES
from ecmproto.control.engine.port import NO_LIMIT, Port, lengthen_ring, new_port
from ecmproto.control.engine.traffic import Offers, new_offers
from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    CongestionPoint,
    Message,
    NullCongestionPoint,
    Outbox,
    new_outbox,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.gate import Gates, new_gates
from ecmproto.control.mechanisms.pause.parameters import PFCReactionParameters
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.kernels.structs import Draws, Struct
from ecmproto.units import NS_PER_S

_FIRST_FRAMES = 4096
_MESSAGES = 4096
_PASSAGES = 32_768
_TRACED = 16_384
_TRACED_AT_ONCE = 16
_NOTES = 64
_STOP_EVENTS = 4096
MESSAGE_KINDS = 16
"""Kinds of messages that are counted by what sends them; the last is all others."""
LEAST_MESSAGE_OCTETS = 60
"""Of a message that is a frame, without FCS."""

_Machines = TypeVar("_Machines")

TIMER = 0
ON_LINK = 1
OWN_QUEUES = 2
"""Where a station's entries in the event heap stand: its timer, the first frame on its link, its own queues,
then its limiters'."""
ENTRIES = OWN_QUEUES + PRIORITIES

DATA_FRAME = 0
MESSAGE_FRAME = 1
MESSAGE_OUT_OF_BAND = 2
FLOW_CONTROL_FRAME = 3
"""What a traced frame is; a sender's probe is data."""

OWN_DELAYS: NDArray[np.int64] = np.zeros(0, np.int64)
"""``NetworkState.delays_ns`` where messages take what the link of their station has."""


class Passage:
    """The outcome of a frame that came to the port or never will; a record (``kernels.record``)."""

    serial: int
    """Its number in the capture; a probe's is that of the frame that it follows."""
    time_ns: int
    station: int
    flow: int
    priority: int
    octets: int
    disposition: int
    """PASSED_BY, ENQUEUED, DROPPED or HELD_OUT."""
    probe: int
    tagged: int
    tag: int
    mark: int
    qlen_octets: int
    """Of its priority's queue after it; −1 if it did not come there."""
    limit_bps: float
    """The rate of the limiter that it came through; 0 for none."""
    rtt_average_ns: float
    """That limiter's average round-trip time; NO_AVERAGE for none."""


class TracedFrame:
    """A frame on a link, or a message out of band, which is on none; a record.

    Where it is no data, its message stands beside it (`NetworkState.traced_messages`).
    """

    time_ns: int
    """Of its last bit; when a message out of band, PAUSE or PFC was posted."""
    what: int
    """DATA_FRAME, MESSAGE_FRAME, MESSAGE_OUT_OF_BAND, or FLOW_CONTROL_FRAME."""
    sender: int
    """The port, or counted on behind these the station, that sent it; of PAUSE and PFC, the feed it stops."""
    serial: int
    station: int
    destination: int
    flow: int
    priority: int
    octets: int
    probe: int
    tagged: int
    tag: int
    mark: int
    source: int
    number: int
    """Its source's; of a message that is a frame, the port, or the station behind these, that made it."""


class Log:
    """The number of passages, and the loop's other counters; a record."""

    passages: int
    traced: int
    """Frames that stand in `NetworkState.traced`."""
    delivered_frames: int
    delivered_octets: int
    limited_frames: int
    """Frames that waited behind a limiter."""
    received_messages: int
    """Messages that reached a station."""
    longest_wait_octets: int
    """The most that ever stood behind one limiter."""


class Loop:
    """The time, and settings of all stations; a record."""

    now_ns: int
    change_ns: int
    """When the loop must stop for a change, such as of a port's rate; NEVER_NS if it need not any more."""
    changes: int
    """1 if the loop has come to that time, and waits for the change; else 0."""
    same_delays: int
    """1 if messages take the same time to every station: then they come in the order of sending."""
    overhead_octets: int
    entries: int
    """How many a station has in the event heap."""
    sent: int
    received: int
    """Messages ever sent, and those of them that were received."""
    is_logging: int
    """1 if each frame's outcome becomes a passage."""
    is_tracing: int
    """1 if frames on links are kept in `NetworkState.traced`."""
    in_band: int
    """1 if messages are frames that queue on their way …"""
    message_priority: int
    """… in this priority."""
    tight_port: int
    """The port that has hardly room for more frames; NOWHERE for none …"""
    tight_priority: int
    """… and its priority."""
    serial: int
    """The number of frames that were offered."""
    events: int
    source_ns: int
    """When the first source is due …"""
    report_ns: int
    """… and when the first report of a destination is."""


class Link:
    """The link between a station and its switch; a record."""

    rate_bps: int
    to_port_ns: int
    """How long what a frame begins takes to the port."""
    to_station_ns: int
    """How long a message takes from the port, or from a destination, to the station."""
    free_ns: int
    """The end of the frame that it sends, rounded up to whole ns …"""
    free_early: int
    """… and how much earlier the exact one is, in ns / ``timed_bps``: the next frame follows that one."""
    shared_ns: int
    """Until when frames that come have to wait for it (rule 1)."""
    whole: int
    """1 if a frame that it begins has left whole: a capture has a frame's last bit at its time."""
    queue_octets: int
    """The size of each queue of the station."""
    reaction_ns: int
    """How long a message takes from the station's link to its reaction point."""
    switch: int
    """Where it leads, and through which input."""
    input: int
    timed_octets: int
    timed_bps: int
    timed_ns: int
    timed_rest: int
    """The time of a frame of so many octets at that rate, and what is left over: that of the last one."""
    parts: int
    """Behind the last of the station's queues that ever held a frame: those from there on need no look."""


class Way:
    """Where a switch's output port leads; a record."""

    switch: int
    """The switch that it is of."""
    next_switch: int
    """The one at its end, NOWHERE if a station is there."""
    input: int
    """Which input of that one it feeds."""
    station: int
    """The station at its end, NOWHERE for none."""
    delay_ns: int
    """How long a frame takes to there, from its last bit on."""
    control: int
    """The flow control machine that watches it, NOWHERE for none."""
    ends: int
    """Whether frames count as delivered when they leave it on their way to an adapter."""
    is_adapter: int
    """Whether it is a host's adapter, behind which nobody looks at frames any more."""
    counts_only: int
    """1 if what comes to the station at its end is only counted, which can wait until somebody looks."""


class Feed:
    """What feeds an input of a switch: a station's link or another port; a record."""

    station: int
    """NOWHERE if it is a port."""
    port: int
    """NOWHERE if it is a station."""
    back_port: int
    """The port whose line PAUSE takes to it …"""
    back_station: int
    """… or the station; of each NOWHERE if it is the other."""
    back_ns: int
    """How long PAUSE takes to it from its last bit on."""
    partition_octets: int
    partition_frames: int
    """The most that frames of this input hold; NO_LIMIT for what is not limited."""
    held_octets: int
    held_frames: int
    peak_octets: int


class Switch:
    """A switch: its inputs, and the memory that its ports share; a record."""

    first_feed: int
    feeds: int
    memory_octets: int
    memory_frames: int
    """The most that its ports hold together; NO_LIMIT for what is not limited."""
    held_octets: int
    held_frames: int
    hash_salt: int
    """Its part in ECMP hashes: 32 bits."""


class PortCount:
    """What a port did; a record."""

    sent_frames: int
    sent_octets: int
    dropped_frames: int
    dropped_octets: int
    message_frames: int
    """Messages that were frames here."""
    message_octets: int
    lost_messages: int
    control_octets: int
    """Octets of PAUSE and PFC frames on its line, overhead included."""
    xoff_frames: int
    """PAUSE and PFC frames that stopped it …"""
    xon_frames: int
    """… and that let it go on."""
    stopped_ns: int
    """For how long at least one priority was stopped, up to the last change …"""
    stopped_since_ns: int
    """… and since when it is, NEVER_NS while none is."""


class FlowCount:
    """What became of a source's frames; a record."""

    held_out_frames: int
    held_out_octets: int
    sent_frames: int
    """That left their host."""
    sent_octets: int
    dropped_frames: int
    dropped_octets: int
    delivered_frames: int
    delivered_octets: int
    delay_ns: int
    """The sum of the times from when frames left their hosts' queues to when they were delivered."""
    longest_ns: int
    limit_bps: float
    """The rate of the limiter that its last frame came through, 0 for none."""


class StopEvent:
    """A PAUSE or PFC frame that has come to what it stops or lets go on; a record."""

    time_ns: int
    station: int
    """The station; counted on behind the stations, the port."""
    priority: int
    """NOWHERE for PAUSE, which is for all of them."""
    stops: int


class StopEventCount:
    """How many such events there are; a record."""

    logged: int


class Note:
    """A frame of a source that has left its host, or was refused there; a record."""

    source: int
    number: int
    refused: int


class NoteCount:
    """How many notes there are; a record."""

    noted: int


class NetworkState(Struct):
    """The state of a network, without the machines of its stations and destinations.

    ``in_flight`` is a ring of messages, its length a power of two, and ``due_ns`` when each comes to its
    station, or, counted on behind the stations, to its port.  Station s has the entries from
    s · (ENTRIES + limiters) on in ``events`` and ``queues``; ``on_link`` has the frames that have left each
    station and not come to the port.  Of n ports, port p has the entries p (its departure) and n + p (the
    first frame on its line) in ``port_events``; behind these, 2n + s is the first message that switch s has
    made a frame of.  ``timers`` has the congestion point of each port, the flow control machines, and for
    each port the end of a pause.  ``lines`` are the frames on each port's line, then those messages.
    """

    loop: Loop
    log: Log
    ports: Sequence[Port]
    points: Sequence[CongestionPoint]
    controls: Sequence[CongestionPoint]
    ways: Sequence[Way]
    switches: Sequence[Switch]
    feeds: Sequence[Feed]
    routes: NDArray[np.int64]
    """By switch and destination: where its ways begin in ``choices``, and at the end their number."""
    choices: NDArray[np.int64]
    delays_ns: NDArray[np.int64]
    """How long messages take, by port and then by station that sends them, and station; or OWN_DELAYS."""
    flow_ends: NDArray[np.int64]
    """By station and flow: the flow's destination; empty where there is but one way."""
    pool: Pool
    queues: Sequence[Queue]
    events: EventHeap
    port_events: EventHeap
    timers: EventHeap
    lines: Sequence[Queue]
    links: Sequence[Link]
    on_link: Sequence[Queue]
    gates: Gates
    port_gates: Gates
    in_flight: MutableSequence[Message]
    due_ns: NDArray[np.int64]
    carried: MutableSequence[Message]
    """By frame: the message that it carries."""
    outbox: Outbox
    offers: Offers
    notes: Sequence[Note]
    note_count: NoteCount
    stop_events: Sequence[StopEvent]
    stop_count: StopEventCount
    message_octets: NDArray[np.int64]
    """How long the frame of a message is, by kind up to MESSAGE_KINDS."""
    message_counts: NDArray[np.int64]
    """Messages by what sends them, a port or behind these a station, and kind, up to MESSAGE_KINDS."""
    port_counts: Sequence[PortCount]
    flow_counts: Sequence[FlowCount]
    passages: Sequence[Passage]
    traced: Sequence[TracedFrame]
    traced_messages: MutableSequence[Message]


def with_obeyed(config: LoopConfig, machine: Machine) -> LoopConfig:
    """Return ``config`` with the priorities of PFC that the parameters of ``machine`` say stations obey."""
    own = machine.parameters.get(Role.REACTION_POINT)
    if not isinstance(own, PFCReactionParameters):
        return config
    return dataclasses.replace(config, pfc_priorities=config.pfc_priorities & own.priorities)


def next_change_ns(changes: Sequence[RateChange]) -> int:
    """Return the time of the first of ``changes`` of a port's rate, NEVER_NS without one."""
    return changes[0].time_ns if changes else NEVER_NS


def new_network(
    ports: Sequence[PortConfig],
    config: LoopConfig,
    *,
    points: Sequence[CongestionPoint],
    stations: int,
    limiters: int,
    tag_octets: int = 0,
) -> NetworkState:
    """Return stores of ``stations`` stations of ``limiters`` limiters each, and of ports, everything empty.

    Each of ``ports`` has its congestion point in ``points``; all are of one switch, and frames take on every
    line what the first one says besides their own octets.  The mechanism's own tag adds ``tag_octets`` to a
    frame.
    """
    loop = new_record(Loop)
    loop.change_ns = next_change_ns(ports[0].rate_changes)
    loop.overhead_octets = ports[0].overhead_octets
    loop.is_logging = 1
    loop.entries = ENTRIES + limiters
    loop.tight_port = NOWHERE
    entries, count = stations * loop.entries, len(ports)
    switches: Any = new_records(Switch, 1)
    columns(switches)["memory_octets"] = columns(switches)["memory_frames"] = NO_LIMIT
    pool = new_pool(_FIRST_FRAMES)
    network = NetworkState(
        loop=loop,
        log=new_record(Log),
        ports=[new_port(port, tag_octets=tag_octets) for port in ports],
        points=list(points),
        controls=[],
        ways=new_ways(count),
        switches=switches,
        feeds=new_records(Feed, 0),
        routes=np.zeros(0, np.int64),
        choices=np.zeros(0, np.int64),
        delays_ns=OWN_DELAYS,
        flow_ends=np.zeros(0, np.int64),
        pool=pool,
        queues=new_queues(entries),
        events=new_event_heap(entries),
        port_events=new_event_heap(2 * count + 1),
        timers=new_event_heap(2 * count),
        lines=new_queues(count + 1),
        links=new_records(Link, stations),
        on_link=new_queues(stations),
        gates=_gates(stations, config),
        port_gates=_gates(count, config),
        in_flight=_ring(2 * _MESSAGES),
        due_ns=np.zeros(2 * _MESSAGES, np.int64),
        carried=_ring(1),
        outbox=new_outbox(_MESSAGES),
        offers=new_offers(),
        notes=new_records(Note, _NOTES),
        note_count=new_record(NoteCount),
        stop_events=new_records(StopEvent, _STOP_EVENTS),
        stop_count=new_record(StopEventCount),
        message_octets=np.full(MESSAGE_KINDS, LEAST_MESSAGE_OCTETS),
        message_counts=np.zeros((count + stations) * MESSAGE_KINDS, np.int64),
        port_counts=new_port_counts(count),
        flow_counts=new_records(FlowCount, 0),
        passages=new_records(Passage, _PASSAGES),
        traced=new_records(TracedFrame, 1),
        traced_messages=_ring(1),
    )
    columns(network.links)["queue_octets"] = config.queue_octets
    columns(network.links)["input"], columns(network.links)["whole"] = NOWHERE, 1
    set_links(
        network,
        rate_bps=config.link_rate_bps,
        to_port_ns=config.propagation_ns,
        to_station_ns=config.feedback_delay_ns,
    )
    schedule_points(network)
    return network


def _gates(count: int, config: LoopConfig) -> Gates:
    return new_gates(
        count, rate_bps=config.link_rate_bps, pause=config.pause, pfc_priorities=config.pfc_priorities
    )


def new_port_counts(count: int) -> Sequence[PortCount]:
    """Return the counts of ``count`` ports that have done nothing."""
    counts = new_records(PortCount, count)
    columns(counts)["stopped_since_ns"] = NEVER_NS
    return counts


def new_ways(count: int) -> Sequence[Way]:
    """Return the ways of ``count`` ports of one switch, all to stations."""
    ways = new_records(Way, count)
    for name in ("next_switch", "input", "station", "control"):
        columns(ways)[name] = NOWHERE
    return ways


def schedule_points(network: NetworkState) -> None:
    """Set when the timers of congestion points and flow control are due first."""
    due_ns = [machine.next_timer_ns() for machine in (*network.points, *network.controls)]
    due_ns += [NEVER_NS] * len(network.ports)
    network.timers = new_event_heap(len(due_ns))
    set_all_due(network.timers, due_ns)


def set_links(
    network: NetworkState,
    *,
    rate_bps: int | Sequence[int],
    to_port_ns: int | Sequence[int],
    to_station_ns: int | Sequence[int],
) -> None:
    """Give the stations' links their rates and delays, each one's own or the same for all, before a run.

    Times that PAUSE and PFC give in quanta stay those of ``LoopConfig.link_rate_bps``.
    """
    links = columns(network.links)
    links["rate_bps"], links["to_port_ns"], links["to_station_ns"] = rate_bps, to_port_ns, to_station_ns
    _compare_delays(network)


def _compare_delays(network: NetworkState) -> None:
    delays_ns = columns(network.links)["to_station_ns"]
    network.loop.same_delays = int(not len(network.delays_ns) and (delays_ns == delays_ns[:1]).all())


def set_delays(network: NetworkState, delays_ns: NDArray[np.int64]) -> None:
    """Have messages take ``delays_ns``, by port and then by station that sends them, and station."""
    network.delays_ns = np.ascontiguousarray(delays_ns).reshape(-1)
    _compare_delays(network)


def add_frames(network: NetworkState) -> None:
    """Make room for twice as many frames."""
    enlarge_pool(network.pool)
    if network.loop.in_band:
        carried = _ring(len(network.pool.frames))
        columns(carried)[: len(network.carried)] = columns(network.carried)
        network.carried = carried


def carry_messages(network: NetworkState, priority: int) -> None:
    """Have messages be frames of ``priority`` that queue on their way."""
    network.loop.in_band, network.loop.message_priority = 1, priority
    network.carried = _ring(len(network.pool.frames))


@inlined
def occupy(network: NetworkState, station: int, octets: int, now_ns: int, shared: bool) -> None:
    """Occupy a station's link with a frame; others share it from then on if it is ``shared``."""
    loop, link = network.loop, network.links[station]
    if octets != link.timed_octets or link.rate_bps != link.timed_bps:
        if link.rate_bps != link.timed_bps:
            link.free_early = 0
        bit_ns = 8 * (octets + loop.overhead_octets) * NS_PER_S
        link.timed_octets, link.timed_bps = octets, link.rate_bps
        link.timed_ns, link.timed_rest = bit_ns // link.rate_bps, bit_ns % link.rate_bps
    if link.free_ns < now_ns:
        link.free_ns, link.free_early = now_ns, 0
    link.free_ns += link.timed_ns
    link.free_early -= link.timed_rest
    if link.free_early < 0:
        link.free_ns += 1
        link.free_early += link.rate_bps
    if shared or (link.shared_ns > 0 and now_ns <= link.shared_ns):
        link.shared_ns = max(link.shared_ns, link.free_ns)


@inlined
def trace_room(network: NetworkState) -> int:
    """Return more frames than one event puts on links: all messages of a timer, and PAUSE to all feeds."""
    return len(network.outbox.messages) + _TRACED_AT_ONCE * (2 + len(network.feeds))


def trace_frames(network: NetworkState) -> None:
    """Keep each frame on a link from now on, for a caller that takes them whenever a run stops for room."""
    network.loop.is_tracing = 1
    rows = max(_TRACED, 2 * trace_room(network))
    network.traced, network.traced_messages = new_records(TracedFrame, rows), _ring(rows)


def lengthen_tight_ring(network: NetworkState) -> None:
    """Make room for more frames at the port that has hardly any."""
    loop = network.loop
    if loop.tight_port != NOWHERE:
        lengthen_ring(network.ports[loop.tight_port], loop.tight_priority)
        loop.tight_port = NOWHERE


def lengthen_in_flight(network: NetworkState) -> None:
    """Make room for twice as many messages in flight."""
    size = len(network.in_flight)
    in_flight, due_ns = _ring(2 * size), np.zeros(2 * size, np.int64)
    numbers = np.arange(network.loop.received, network.loop.sent)
    old, new = numbers & (size - 1), numbers & (2 * size - 1)
    columns(in_flight)[new], due_ns[new] = columns(network.in_flight)[old], network.due_ns[old]
    network.in_flight, network.due_ns = in_flight, due_ns


def add_stations(
    network: NetworkState, port: PortConfig, config: LoopConfig, stations: int, limiters: int
) -> None:
    """Make room for more stations, all that there were as they are.

    The last of these has sent nothing yet: it was stopped by what stops all stations, as are the fresh ones.
    """
    fresh = new_network([port], config, points=[NullCongestionPoint()], stations=stations, limiters=limiters)
    for records in ("stopped", "pause_states", "pfc_states"):
        columns(getattr(fresh.gates, records))[:] = columns(getattr(network.gates, records))[-1]
    network.message_counts = lengthened(
        network.message_counts, np.zeros((len(network.ports) + stations) * MESSAGE_KINDS, np.int64)
    )
    network.queues = lengthened(network.queues, fresh.queues)
    network.links = lengthened(network.links, fresh.links)
    network.on_link = lengthened(network.on_link, fresh.on_link)
    _compare_delays(network)
    network.gates = lengthened(network.gates, fresh.gates)
    network.events = with_entries(network.events, len(fresh.queues))


def lengthened(old: _Machines, fresh: _Machines) -> _Machines:
    """Return ``old`` with the length of ``fresh``: the old stations, then the new ones.

    Both are arrays, or structs of arrays and others, whose first parts are the same stations.
    """
    if isinstance(old, Draws):
        return old
    if isinstance(old, Struct) and isinstance(fresh, Struct):
        for name, other in zip(old.parts(), fresh, strict=True):
            setattr(old, name, lengthened(getattr(old, name), other))
        return old
    if isinstance(old, np.ndarray) and isinstance(fresh, np.ndarray) and old.ndim and len(fresh) > len(old):
        fresh[: len(old)] = old
        return fresh
    # Plain numbers say how things are laid out now; records and generators are what they have become.
    return fresh if isinstance(old, bool | int | float) else old


def _ring(size: int) -> MutableSequence[Message]:
    ring: Any = new_records(Message, size)
    typed: MutableSequence[Message] = ring
    return typed
