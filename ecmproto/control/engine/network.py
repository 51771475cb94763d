"""Records and stores of a network: stations and their links, switches and their ports, messages in flight.

A replay is the smallest network: stations, and one port to which they all send. `lab` adds the rest: paths
between switches, feeds of each switch, memory that ports share, flow control on every link, messages as
frames, and sources instead of a capture.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableSequence, Sequence
from typing import Annotated, Any, TypeVar

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
from ecmproto.kernels.kernel import expanded, inlined
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
"""The number of kinds of messages counted by sender; the last one is all other kinds."""
MIN_MESSAGE_OCTETS = 60
"""The minimum length of a message frame, without FCS."""

_Machines = TypeVar("_Machines")

TIMER = 0
ON_LINK = 1
OWN_QUEUES = 2
"""Indices of a station's entries in the event heap: timer, first frame on the link, own queues, limiters.

The last one is the end of the frame on the link, if others are ready.
"""
ENTRIES = OWN_QUEUES + PRIORITIES

ECMP, SPRAY, FLOWLET = range(3)
"""Selections among paths of equal length: by a flow's hash, frame by frame in turn, by hash of a flowlet."""
FLOWLET_SLOTS = 1024
"""The slots of flowlets in each switch; flows share one if their hashes do."""

DATA_FRAME = 0
MESSAGE_FRAME = 1
MESSAGE_OUT_OF_BAND = 2
FLOW_CONTROL_FRAME = 3
"""Types of a traced frame; a sender's probe is data."""

OWN_DELAYS: NDArray[np.int64] = np.zeros(0, np.int64)
"""``NetworkState.delays_ns`` for messages that have the delay of their station's link."""


class Passage:
    """The outcome of a frame at the port, or of one held out before it; a record (``kernels.record``)."""

    serial: int
    """The frame's number in the capture; for a probe, the number of the frame that it follows."""
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
    """The length of the frame's queue after it; −1 if the frame did not reach the queue."""
    limit_bps: float
    """The rate of the limiter that the frame passed; 0 for none."""
    rtt_average_ns: float
    """The average round-trip time of the limiter that the frame passed; NO_AVERAGE for none."""


class TracedFrame:
    """A frame on a link, or a message out of band, which is on none; a record.

    Unless it is data, its message is in `NetworkState.traced_messages`, at the same index.
    """

    time_ns: int
    """The time of the last bit; for a message out of band, PAUSE or PFC, the time of posting."""
    what: int
    """DATA_FRAME, MESSAGE_FRAME, MESSAGE_OUT_OF_BAND, or FLOW_CONTROL_FRAME."""
    sender: int
    """The sender, a port or, numbered after the ports, a station; for PAUSE and PFC, the feed to stop."""
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
    """The frame's number at its source; for a message frame, its sender (ports, then stations)."""


class Log:
    """The number of passages, and the loop's other counters; a record."""

    passages: int
    traced: int
    """The number of frames in `NetworkState.traced`."""
    delivered_frames: int
    delivered_octets: int
    limited_frames: int
    """The number of frames that waited for a limiter."""
    received_messages: int
    longest_wait_octets: int
    """The maximum number of octets that ever waited for one limiter."""


class Loop:
    """The time, and settings of all stations; a record."""

    now_ns: int
    change_ns: int
    """The time when the loop must stop for a change, such as of a port's rate; NEVER_NS for none."""
    changes: int
    """1 if the loop has reached ``change_ns`` and waits for the change, else 0."""
    same_delays: int
    """1 if messages have the same delay to every station, so that they arrive in the order of sending."""
    overhead_octets: int
    entries: int
    """The number of a station's entries in the event heap."""
    ready_each: int
    """The number of a station's entries in ``NetworkState.ready``, a power of two."""
    sent: int
    received: int
    """The number of messages received; ``sent`` is the number of messages sent."""
    stack_records: int
    """The maximum number of records that ports add to a frame."""
    is_logging: int
    """1 if each frame's outcome becomes a passage."""
    is_tracing: int
    """1 if frames on links are kept in `NetworkState.traced`."""
    in_band: int
    """1 if messages are frames that queue on their path."""
    message_priority: int
    paths: int
    """The selection among paths of equal length: ECMP, SPRAY or FLOWLET."""
    flowlet_gap_ns: int
    """The gap after which a flow may take another path."""
    exits: int
    """The number of columns of ``NetworkState.routes``."""
    tight_port: int
    """The port whose ring is almost full; NOWHERE for none."""
    tight_priority: int
    """The priority of the ring that is almost full at ``tight_port``."""
    serial: int
    """The number of offered frames."""
    events: int
    source_ns: int
    """The time of the first source event."""
    report_ns: int
    """The time of the first report of a destination."""


class Link:
    """The link between a station and its switch; a record."""

    rate_bps: int
    to_port_ns: int
    """The delay of a frame from the link to the port, from its start."""
    to_station_ns: int
    """The delay of a message from the port, or from a destination, to the station."""
    free_ns: int
    """The end of the current frame, rounded up to whole ns."""
    free_early: int
    """The rounding of ``free_ns``, in ns / ``timed_bps``: the next frame starts at the exact end."""
    shared_ns: int
    """The end of the time in which frames that come have to wait for the link (rule 1)."""
    whole: int
    """1 if a frame's start on the link is the time of its last bit, as in a capture."""
    queue_octets: int
    """The size of each queue of the station."""
    reaction_ns: int
    """The delay of a message from the station's link to its reaction point."""
    switch: int
    """The switch at the end of the link; ``input`` is the switch's input."""
    input: int
    exit: int
    """The number of the switch or adapter with the port to the station, in ``NetworkState.routes``."""
    exit_switch: int
    """That switch, or adapter."""
    exit_port: int
    """The port to the station."""
    timed_octets: int
    timed_bps: int
    timed_ns: int
    timed_rest: int
    """The remainder of the last computed frame time: ``timed_octets`` at ``timed_bps`` take ``timed_ns``."""
    parts: int
    """The number of the station's queues to look at: none from there on has ever held a frame."""
    loss: float
    """The probability that a frame from the station is lost on the link."""


class Output:
    """The destination of a switch's output port; a record."""

    switch: int
    """The switch that has the port."""
    next_switch: int
    """The switch at the end of the line, NOWHERE if a station is there."""
    input: int
    """The input of ``next_switch`` that the port feeds."""
    station: int
    """The station at the end of the line, NOWHERE for none."""
    delay_ns: int
    """The delay of a frame to the end of the line, from its last bit."""
    control: int
    """The flow control machine that watches the port, NOWHERE for none."""
    ends: int
    """Whether frames count as delivered when they leave the port on their path to an adapter."""
    is_adapter: int
    """Whether the port is a host's adapter, after which frames are not examined any more."""
    loss: float
    """The probability that a frame is lost on the line; 1 while the link is down."""
    counts_only: int
    """1 if frames to the station are only counted, which can be postponed until counts are read."""


class Feed:
    """A feed of a switch's input, a station's link or another port; a record."""

    station: int
    """The feeding station; NOWHERE for a port."""
    port: int
    """The feeding port; NOWHERE for a station."""
    back_port: int
    """The port whose line carries PAUSE to the feed; NOWHERE if a station's does."""
    back_station: int
    """The station whose line carries PAUSE to the feed; NOWHERE if a port's does."""
    back_ns: int
    """The delay of PAUSE to the feed, from its last bit."""
    partition_octets: int
    partition_frames: int
    """The maximum number of this input's buffered frames, as ``partition_octets`` of octets; or NO_LIMIT."""
    held_octets: int
    held_frames: int
    peak_octets: int


class Switch:
    """A switch: its inputs, and the memory that its ports share; a record."""

    first_feed: int
    feeds: int
    first_port: int
    """The port that counts frames without a path."""
    memory_octets: int
    memory_frames: int
    """The maximum number of frames in all ports, as ``memory_octets`` for octets; or NO_LIMIT."""
    held_octets: int
    held_frames: int
    alpha: float
    """The share of the free ``shared_octets`` that a queue of a lossy priority may have; 0 for no limit."""
    shared_octets: int
    """The memory without headroom."""
    lossless_mask: int
    """Bit p: the switch sends PFC for priority p, whose frames may use headroom."""
    hash_salt: int
    """The switch's 32-bit salt of ECMP hashes."""


class PortCount:
    """The counts of a port; a record."""

    sent_frames: int
    sent_octets: int
    dropped_frames: int
    dropped_octets: int
    message_frames: int
    message_octets: int
    lost_messages: int
    control_octets: int
    """Octets of PAUSE and PFC frames on the port's line, overhead included."""
    xoff_frames: int
    """The number of PAUSE and PFC frames that stopped the port."""
    xon_frames: int
    """The number of PAUSE and PFC frames that resumed the port."""
    stopped_ns: int
    """The time for which at least one priority was stopped, up to the last change."""
    stopped_since_ns: int
    """The time since which a priority is stopped; NEVER_NS while none is."""


class Watchdog:
    """The watchdog of a port against endless PAUSE and PFC; a record."""

    time_ns: int
    """The time of a stop after which a priority with waiting frames is served nevertheless; 0 for never."""
    drops: int
    """1 if frames that are served nevertheless are dropped, 0 if they are sent."""
    served_mask: int
    """Bit p: priority p is stopped, and served nevertheless."""
    fired: int
    """The number of priorities that began to be served nevertheless."""
    since_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """The start of the stop of each priority, or the last time it had no frames; NEVER_NS if not stopped."""


class FlowCount:
    """The counts of a source's frames; a record."""

    held_out_frames: int
    held_out_octets: int
    sent_frames: int
    """Frames that left their host."""
    sent_octets: int
    dropped_frames: int
    dropped_octets: int
    delivered_frames: int
    delivered_octets: int
    delay_ns: int
    """The sum of the frames' delays from their hosts' queues to their delivery."""
    longest_ns: int
    limit_bps: float
    """The rate of the limiter that the last frame passed; 0 for none."""


class StopEvent:
    """A PAUSE or PFC frame at the station or port that it stops or resumes; a record."""

    time_ns: int
    station: int
    """The station; or, numbered after the stations, the port."""
    priority: int
    """The priority; NOWHERE for PAUSE, which stops all."""
    stops: int


class StopEventCount:
    """The number of stop events; a record."""

    logged: int


class Note:
    """A source's frame that has left its host, or was refused there; a record."""

    source: int
    number: int
    refused: int


class NoteCount:
    """The number of notes; a record."""

    noted: int


class NetworkState(Struct):
    """The state of a network, without the machines of its stations and destinations.

    ``in_flight`` is a ring of messages, its length a power of two; ``due_ns`` has the arrival time of each at
    its station or, numbered after the stations, its port. Station s has the entries from s · entries on
    in ``events`` and ``queues``; ``on_link`` has the frames that have left each station and not
    reached the port. Of n ports, port p has the entries p (its departure) and n + p (the first frame on its
    line) in ``port_events``; after these, 2n + s is the first message that switch s has put into a frame.
    ``timers`` has the congestion point of each port, the flow control machines, and for each port the end of
    a pause. ``lines`` has the frames on each port's line, then those messages.
    """

    loop: Loop
    log: Log
    ports: Sequence[Port]
    points: Sequence[CongestionPoint]
    controls: Sequence[CongestionPoint]
    outputs: Sequence[Output]
    switches: Sequence[Switch]
    feeds: Sequence[Feed]
    routes: NDArray[np.int32]
    """The offsets in ``choices`` by switch and exit (`Link.exit`), and at the end their number."""
    choices: NDArray[np.int32]
    forced: NDArray[np.int64]
    """The port by explicit path and switch; NOWHERE for a switch that is not on the path."""
    turns: NDArray[np.int64]
    """spray: the number of frames by row of ``routes``; flowlet: of flowlets by switch and slot."""
    flowlet_ns: NDArray[np.int64]
    """flowlet: the time of the last frame by switch and slot."""
    delays_ns: NDArray[np.int64]
    """Delays of messages, by sender (switches, then stations) and receiving station; or OWN_DELAYS."""
    flow_ends: NDArray[np.int64]
    """The destination by station and flow; empty if there is only one path."""
    pool: Pool
    queues: Sequence[Queue]
    events: EventHeap
    ready: EventHeap
    """The serial number of the head of each queue that waits for its station's link alone; a heap each."""
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
    """The message in each frame, by frame."""
    stacks: NDArray[np.int64]
    """The records that ports added to each frame, `Loop.stack_records` each, by frame."""
    draws: Draws
    """Random numbers of losses."""
    lost_frames: NDArray[np.int64]
    """Frames lost on links, by sender (ports, then stations)."""
    outbox: Outbox
    offers: Offers
    notes: Sequence[Note]
    note_count: NoteCount
    stop_events: Sequence[StopEvent]
    stop_count: StopEventCount
    message_octets: NDArray[np.int64]
    """The length of a message's frame, by kind up to MESSAGE_KINDS."""
    message_counts: NDArray[np.int64]
    """The number of messages by sender (ports, then stations) and kind up to MESSAGE_KINDS."""
    port_counts: Sequence[PortCount]
    watchdogs: Sequence[Watchdog]
    """The watchdog of each port; empty without any."""
    flow_counts: Sequence[FlowCount]
    passages: Sequence[Passage]
    traced: Sequence[TracedFrame]
    traced_messages: MutableSequence[Message]


def with_obeyed(config: LoopConfig, machine: Machine) -> LoopConfig:
    """Return ``config`` with the PFC priorities that stations obey by the parameters of ``machine``."""
    own = machine.parameters.get(Role.REACTION_POINT)
    if not isinstance(own, PFCReactionParameters):
        return config
    return dataclasses.replace(config, pfc_priorities=config.pfc_priorities & own.priorities)


def next_change_ns(changes: Sequence[RateChange]) -> int:
    """Return the time of the first rate change in ``changes``; NEVER_NS for none."""
    return changes[0].time_ns if changes else NEVER_NS


def new_network(
    ports: Sequence[PortConfig],
    config: LoopConfig,
    *,
    points: Sequence[CongestionPoint],
    stations: int,
    limiters: int,
    tag_octets: int = 0,
    stack_records: int = 0,
    total_only: bool = False,
) -> NetworkState:
    """Return empty stores of ports and of ``stations`` stations with ``limiters`` limiters each.

    Each of ``ports`` has its congestion point in ``points``; all belong to one switch, and the first one's
    overhead holds for every line. The mechanism's own tag adds ``tag_octets`` to a frame, and has space for
    ``stack_records`` records of ports. Gauges of the ``total_only`` have neither statistics of priorities nor
    a trace.
    """
    loop = new_record(Loop)
    loop.change_ns = next_change_ns(ports[0].rate_changes)
    loop.overhead_octets = ports[0].overhead_octets
    loop.stack_records = stack_records
    loop.is_logging = 1
    loop.entries = ENTRIES + limiters + 1
    loop.ready_each = 1 << (int(loop.entries) - 1).bit_length()
    loop.tight_port = NOWHERE
    entries, count = stations * loop.entries, len(ports)
    switches: Any = new_records(Switch, 1)
    columns(switches)["memory_octets"] = columns(switches)["memory_frames"] = NO_LIMIT
    pool = new_pool(_FIRST_FRAMES)
    network = NetworkState(
        loop=loop,
        log=new_record(Log),
        ports=[new_port(port, tag_octets=tag_octets, total_only=total_only) for port in ports],
        points=list(points),
        controls=[],
        outputs=new_outputs(count),
        switches=switches,
        feeds=new_records(Feed, 0),
        routes=np.zeros(0, np.int32),
        choices=np.zeros(0, np.int32),
        forced=np.zeros(0, np.int64),
        turns=np.zeros(0, np.int64),
        flowlet_ns=np.zeros(0, np.int64),
        delays_ns=OWN_DELAYS,
        flow_ends=np.zeros(0, np.int64),
        pool=pool,
        queues=new_queues(entries),
        events=new_event_heap(entries),
        ready=new_event_heap(stations * int(loop.ready_each)),
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
        stacks=np.zeros(len(pool.frames) * stack_records, np.int64),
        draws=Draws(np.random.default_rng(0)),
        lost_frames=np.zeros(count + stations, np.int64),
        outbox=new_outbox(_MESSAGES),
        offers=new_offers(),
        notes=new_records(Note, _NOTES),
        note_count=new_record(NoteCount),
        stop_events=new_records(StopEvent, _STOP_EVENTS),
        stop_count=new_record(StopEventCount),
        message_octets=np.full(MESSAGE_KINDS, MIN_MESSAGE_OCTETS),
        message_counts=np.zeros((count + stations) * MESSAGE_KINDS, np.int64),
        port_counts=new_port_counts(count),
        watchdogs=new_records(Watchdog, 0),
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
    """Return the counts of ``count`` ports, all 0."""
    counts = new_records(PortCount, count)
    columns(counts)["stopped_since_ns"] = NEVER_NS
    return counts


def new_outputs(count: int) -> Sequence[Output]:
    """Return the outputs of ``count`` ports of one switch, all to stations."""
    outputs = new_records(Output, count)
    for name in ("next_switch", "input", "station", "control"):
        columns(outputs)[name] = NOWHERE
    return outputs


def schedule_points(network: NetworkState) -> None:
    """Set the first due times of the timers of congestion points and flow control."""
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
    """Set the rates and delays of the stations' links, one for all or one each, before a run.

    Times that PAUSE and PFC give in quanta still use ``LoopConfig.link_rate_bps``.
    """
    links = columns(network.links)
    links["rate_bps"], links["to_port_ns"], links["to_station_ns"] = rate_bps, to_port_ns, to_station_ns
    _compare_delays(network)


def _compare_delays(network: NetworkState) -> None:
    delays_ns = columns(network.links)["to_station_ns"]
    network.loop.same_delays = int(not len(network.delays_ns) and (delays_ns == delays_ns[:1]).all())


def set_delays(network: NetworkState, delays_ns: NDArray[np.int64]) -> None:
    """Set the delays of messages, by sender (switches, then stations) and receiving station."""
    network.delays_ns = np.ascontiguousarray(delays_ns).reshape(-1)
    _compare_delays(network)


def add_frames(network: NetworkState) -> None:
    """Double the capacity for frames."""
    enlarge_pool(network.pool)
    network.stacks = np.concatenate([network.stacks, np.zeros_like(network.stacks)])
    if network.loop.in_band:
        carried = _ring(len(network.pool.frames))
        columns(carried)[: len(network.carried)] = columns(network.carried)
        network.carried = carried


def carry_messages(network: NetworkState, priority: int) -> None:
    """Make messages frames of ``priority`` that queue on their path."""
    network.loop.in_band, network.loop.message_priority = 1, priority
    network.carried = _ring(len(network.pool.frames))


@expanded
def stack_of(network: NetworkState, index: int) -> NDArray[np.int64]:
    """Return the records that ports added to a frame, with those not yet used."""
    first = index * network.loop.stack_records
    return network.stacks[first : first + network.loop.stack_records]


@inlined
def clear_stack(network: NetworkState, index: int) -> None:
    """Set the records of a frame to 0."""
    stack = stack_of(network, index)
    for record in range(len(stack)):
        stack[record] = 0


@inlined
def occupy(network: NetworkState, station: int, octets: int, now_ns: int, shared: bool) -> None:
    """Occupy a station's link with a frame; later frames share it if it is ``shared``."""
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
def max_traced_frames(network: NetworkState) -> int:
    """Return a bound on the frames that one event traces: a timer's messages, and PAUSE to all feeds."""
    return len(network.outbox.messages) + _TRACED_AT_ONCE * (2 + len(network.feeds))


def trace_frames(network: NetworkState) -> None:
    """Trace each frame on a link from now on; the caller takes them whenever a run stops for capacity."""
    network.loop.is_tracing = 1
    rows = max(_TRACED, 2 * max_traced_frames(network))
    network.traced, network.traced_messages = new_records(TracedFrame, rows), _ring(rows)


def lengthen_tight_ring(network: NetworkState) -> None:
    """Double the ring that is almost full."""
    loop = network.loop
    if loop.tight_port != NOWHERE:
        lengthen_ring(network.ports[loop.tight_port], loop.tight_priority)
        loop.tight_port = NOWHERE


def lengthen_in_flight(network: NetworkState) -> None:
    """Double the capacity for messages in flight."""
    size = len(network.in_flight)
    in_flight, due_ns = _ring(2 * size), np.zeros(2 * size, np.int64)
    numbers = np.arange(network.loop.received, network.loop.sent)
    old, new = numbers & (size - 1), numbers & (2 * size - 1)
    columns(in_flight)[new], due_ns[new] = columns(network.in_flight)[old], network.due_ns[old]
    network.in_flight, network.due_ns = in_flight, due_ns


def add_stations(
    network: NetworkState, port: PortConfig, config: LoopConfig, stations: int, limiters: int
) -> None:
    """Add stations, with the present ones unchanged.

    The last of the present ones has sent nothing yet; it was stopped only by pauses of all stations, which
    stop the new ones too.
    """
    fresh = new_network([port], config, points=[NullCongestionPoint()], stations=stations, limiters=limiters)
    for records in ("stopped", "pause_states", "pfc_states"):
        columns(getattr(fresh.gates, records))[:] = columns(getattr(network.gates, records))[-1]
    network.message_counts = lengthened(
        network.message_counts, np.zeros((len(network.ports) + stations) * MESSAGE_KINDS, np.int64)
    )
    network.lost_frames = lengthened(network.lost_frames, np.zeros(len(network.ports) + stations, np.int64))
    network.queues = lengthened(network.queues, fresh.queues)
    network.links = lengthened(network.links, fresh.links)
    network.on_link = lengthened(network.on_link, fresh.on_link)
    _compare_delays(network)
    network.gates = lengthened(network.gates, fresh.gates)
    network.events = with_entries(network.events, len(fresh.queues))
    network.ready = with_entries(network.ready, stations * int(network.loop.ready_each))


def lengthened(old: _Machines, fresh: _Machines) -> _Machines:
    """Return ``old`` extended to the length of ``fresh``: the old stations, then the new ones.

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
    # Plain numbers describe the new layout; records and generators keep their state.
    return fresh if isinstance(old, bool | int | float) else old


def _ring(size: int) -> MutableSequence[Message]:
    ring: Any = new_records(Message, size)
    typed: MutableSequence[Message] = ring
    return typed
