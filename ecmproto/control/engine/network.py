"""Records and stores of a network: stations with links, switches with ports, and messages in flight.

A replay is the smallest network: stations, and one port to which all stations send. `lab` adds paths between
switches, feeds of each switch, memory that ports share, flow control on every link, messages as frames, and
sources instead of a capture.
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
from ecmproto.control.engine.mail import Mailbox
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
from ecmproto.kernels.record import columns, new_record, new_records, record_from
from ecmproto.kernels.structs import Draws, Struct
from ecmproto.units import NS_PER_S

_FIRST_FRAMES = 4096
_MESSAGES = 4096
_PASSAGES = 32_768
_TRACED = 16_384
_TRACED_AT_ONCE = 16
_NOTES = 64
_STOP_EVENTS = 4096
MESSAGE_TYPES = 16
"""Number of message types counted by sender; the last type includes all other types."""
MIN_MESSAGE_OCTETS = 60
"""Minimum length of a message frame in octets, without FCS."""

_Machines = TypeVar("_Machines")

TIMER = 0
ON_LINK = 1
OWN_QUEUES = 2
"""Indices of a station's entries in the event heap: timer, first frame on the link, own queues, limiters.

The last entry is the end of the frame on the link, if other frames are ready.
"""
ENTRIES = OWN_QUEUES + PRIORITIES

ECMP, SPRAY, FLOWLET = range(3)
"""Ways to select among paths of equal length: by hash of a flow, by frame in turn, by hash of a flowlet."""
FLOWLET_SLOTS = 1024
"""Number of flowlet slots in each switch; flows with equal hashes share a slot."""

DATA_FRAME = 0
MESSAGE_FRAME = 1
MESSAGE_OUT_OF_BAND = 2
FLOW_CONTROL_FRAME = 3
"""Types of a traced frame; a sender's probe counts as data."""

OWN_DELAYS: NDArray[np.int64] = np.zeros(0, np.int64)
"""Value of ``NetworkState.delays_ns`` that gives each message the delay of its station's link."""


class Passage:
    """Outcome of a frame at the port, or of a frame held out before the port; a record."""

    serial: int
    """Frame number in the capture; a probe has the number of the frame that it follows."""
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
    """Length in octets of the frame's queue after the frame; −1 if the frame did not reach the queue."""
    limit_bps: float
    """Rate in bit/s of the limiter that the frame passed; 0 without a limiter."""
    rtt_average_ns: float
    """Average round-trip time of the limiter that the frame passed, in ns; NO_AVERAGE without a limiter."""


class TracedFrame:
    """Frame on a link, or an out-of-band message, which is on no link; a record.

    For a frame that is not data, `NetworkState.traced_messages` contains the message at the same index.
    """

    time_ns: int
    """Time of the last bit in ns; for out-of-band messages, PAUSE and PFC, the time of posting."""
    what: int
    """DATA_FRAME, MESSAGE_FRAME, MESSAGE_OUT_OF_BAND, or FLOW_CONTROL_FRAME."""
    sender: int
    """Sender: a port, or a station, numbered after the ports. For PAUSE and PFC, the feed to stop."""
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
    """Frame number at the source; for a message frame, the number of its sender (ports, then stations)."""


class Log:
    """Numbers of passages, notes and stop events, and other counters of the loop; a record."""

    passages: int
    traced: int
    """Number of frames in `NetworkState.traced`."""
    notes: int
    stop_events: int
    delivered_frames: int
    delivered_octets: int
    limited_frames: int
    """Number of frames that waited for a limiter."""
    received_messages: int
    longest_wait_octets: int
    """Maximum number of octets that ever waited for one limiter."""


class Loop:
    """Current time, and settings of all stations; a record."""

    now_ns: int
    change_ns: int
    """Time in ns at which the loop must stop for a change, such as a rate change; NEVER_NS for no change."""
    window_ns: int
    """End of the time window of a part, in ns; NEVER_NS in an undivided network."""
    changes: int
    """1 if the loop has reached ``change_ns`` or ``window_ns``, otherwise 0."""
    part: int
    """Number of the part of a divided network; 0 in an undivided network."""
    parity: int
    """Index, 0 or 1, of the mailboxes of the current window."""
    same_delays: int
    """1 if messages have equal delays to all stations, so that messages arrive in the order of sending."""
    overhead_octets: int
    entries: int
    """Number of a station's entries in the event heap."""
    ready_each: int
    """Number of a station's entries in ``NetworkState.ready``, a power of two."""
    sent: int
    received: int
    """Number of messages received; ``sent`` is the number of messages sent."""
    stack_records: int
    """Maximum number of records that ports add to a frame."""
    watched_priority: int
    """Priority of the frames for which congestion points select queues (rule 7)."""
    isolated_queue: int
    """Queue of the isolated flows of ``watched_priority``; NOWHERE if no flows are isolated."""
    is_logging: int
    """1 if each frame's outcome is logged as a passage."""
    is_tracing: int
    """1 if frames on links are stored in `NetworkState.traced`."""
    in_band: int
    """1 if messages are frames that queue on their path."""
    message_priority: int
    paths: int
    """Method that selects among paths of equal length: ECMP, SPRAY or FLOWLET."""
    flowlet_gap_ns: int
    """Idle time in ns after which a flow may change its path."""
    exits: int
    """Number of columns of ``NetworkState.routes``."""
    tight_port: int
    """Port whose ring is almost full; NOWHERE if there is none."""
    tight_priority: int
    """Priority of the ring that is almost full at ``tight_port``."""
    serial: int
    """Number of the last offered frame; in a part, offers of all parts are numbered in order of time."""
    events: int
    source_ns: int
    """Time of the first source event, in ns."""
    report_ns: int
    """Time of the first report of a destination, in ns."""


class Link:
    """Link between a station and its switch; a record."""

    rate_bps: int
    to_port_ns: int
    """Delay in ns of a frame from its start on the link to the port."""
    to_station_ns: int
    """Delay in ns of a message from the port, or from a destination, to the station."""
    free_ns: int
    """End of the current frame, rounded up to whole ns."""
    free_early: int
    """Amount by which ``free_ns`` was rounded up, in ns / ``timed_bps``; frames start at the exact end."""
    shared_ns: int
    """End of the time in which new frames have to wait for the link (rule 1)."""
    whole: int
    """1 if a frame's start on the link is the time of its last bit, as in a capture."""
    queue_octets: int
    """Size of each queue of the station, in octets."""
    reaction_ns: int
    """Delay in ns of a message from the station's link to its reaction point."""
    switch: int
    """Switch at the end of the link; ``input`` is the input of this switch."""
    input: int
    exit: int
    """Number of the station's exit in ``NetworkState.routes``; the exit has the port to the station."""
    exit_switch: int
    """Switch or adapter with the port to the station."""
    exit_port: int
    """Port that leads to the station."""
    timed_octets: int
    timed_bps: int
    timed_ns: int
    timed_rest: int
    """Remainder of the last computed frame time: ``timed_octets`` at ``timed_bps`` take ``timed_ns``."""
    parts: int
    """Number of the station's queues to examine; later queues have never held a frame."""
    loss: float
    """Probability that a frame from the station is lost on the link."""


class Output:
    """Destination of a switch's output port; a record."""

    switch: int
    """Switch to which the port belongs."""
    next_switch: int
    """Switch at the end of the line; NOWHERE if the line ends at a station."""
    input: int
    """Input of ``next_switch`` that the port feeds."""
    station: int
    """Station at the end of the line; NOWHERE if the line ends at a switch."""
    delay_ns: int
    """Delay in ns from a frame's last bit to the end of the line."""
    next_part: int
    """Part of a divided network with the end of the line; 0 in an undivided network."""
    control: int
    """Flow control point that watches the port; NOWHERE without flow control."""
    ends: int
    """Whether frames count as delivered when they leave the port towards an adapter."""
    is_adapter: int
    """Whether the port is a host's adapter; frames after an adapter are not examined any more."""
    loss: float
    """Probability that a frame is lost on the line; 1 while the link is down."""
    counts_only: int
    """1 if frames to the station are only counted; counting can be postponed until counts are read."""


class Feed:
    """Feed of a switch's input: a station's link or another port; a record."""

    station: int
    """Station that feeds the input; NOWHERE for a port."""
    port: int
    """Port that feeds the input; NOWHERE for a station."""
    back_port: int
    """Port whose line carries PAUSE to the feed; NOWHERE if a station's line carries PAUSE."""
    back_station: int
    """Station whose line carries PAUSE to the feed; NOWHERE if a port's line carries PAUSE."""
    back_ns: int
    """Delay in ns of PAUSE to the feed, from the last bit of the PAUSE frame."""
    partition_octets: int
    partition_frames: int
    """Maximum number of buffered frames of this input, or NO_LIMIT; ``partition_octets`` limits octets."""
    buffered_octets: int
    buffered_frames: int
    peak_octets: int


class Switch:
    """Switch with its inputs, and the memory that its ports share; a record."""

    first_feed: int
    feeds: int
    first_port: int
    """Port that counts frames without a path."""
    memory_octets: int
    memory_frames: int
    """Maximum number of frames in all ports, or NO_LIMIT; ``memory_octets`` is the limit in octets."""
    buffered_octets: int
    buffered_frames: int
    alpha: float
    """Maximum share of the free ``shared_octets`` for a queue of a lossy priority; 0 means no limit."""
    shared_octets: int
    """Memory in octets, without headroom."""
    lossless_mask: int
    """Bit p: the switch sends PFC for priority p, and frames of this priority may use headroom."""
    hash_salt: int
    """32-bit salt of the switch's ECMP hashes."""


class PortCount:
    """Counts of a port; a record."""

    sent_frames: int
    sent_octets: int
    dropped_frames: int
    dropped_octets: int
    message_frames: int
    message_octets: int
    lost_messages: int
    control_octets: int
    """Number of octets of PAUSE and PFC frames on the port's line, including overhead."""
    xoff_frames: int
    """Number of PAUSE and PFC frames that stopped the port."""
    xon_frames: int
    """Number of PAUSE and PFC frames that resumed the port."""
    stopped_ns: int
    """Time in ns for which at least one priority was stopped, up to the last change."""
    stopped_since_ns: int
    """Time in ns since which a priority is stopped; NEVER_NS while no priority is stopped."""


class Watchdog:
    """Watchdog of a port against endless PAUSE and PFC; a record."""

    time_ns: int
    """Time in ns after which a stopped priority with waiting frames is served anyway; 0 means never."""
    drops: int
    """1 if the watchdog drops the frames of a priority that is served anyway; 0 if the frames are sent."""
    served_mask: int
    """Bit p: priority p is stopped, but is served anyway."""
    fired: int
    """Number of times that the watchdog began to serve a stopped priority."""
    since_ns: Annotated[NDArray[np.int64], PRIORITIES]
    """Start of each priority's stop, or last time without waiting frames; NEVER_NS if not stopped."""


class FlowCount:
    """Counts of a source's frames; a record."""

    held_out_frames: int
    held_out_octets: int
    sent_frames: int
    """Number of frames that left their host."""
    sent_octets: int
    dropped_frames: int
    dropped_octets: int
    delivered_frames: int
    delivered_octets: int
    delay_ns: int
    """Sum of the delays of frames from the host's queue to delivery, in ns."""
    longest_ns: int
    limit_bps: float
    """Rate in bit/s of the limiter that the last frame passed; 0 without a limiter."""


class StopEvent:
    """PAUSE or PFC frame at the station or port that it stops or resumes; a record."""

    time_ns: int
    station: int
    """Number of the station, or of the port, numbered after the stations."""
    priority: int
    """Priority; NOWHERE for PAUSE, which stops all priorities."""
    stops: int


class Note:
    """Note on a source's frame that has left its host or was refused there; a record."""

    source: int
    number: int
    refused: int


class NetworkState(Struct):
    """State of a network, without the state machines of stations and destinations.

    ``in_flight`` is a ring of messages whose length is a power of two. ``due_ns`` is the arrival time of each
    message at its station or port; ports are numbered after the stations.

    In ``events`` and ``queues``, the entries of station s start at s · entries. ``on_link`` contains the
    frames that have left each station and have not reached the port.

    Of n ports, port p has two entries in ``port_events``. Entry p is the port's departure, and entry n + p is
    the first frame on the port's line. Entry 2n + s is the first message that switch s has put into a frame.
    ``lines`` contains the frames on each port's line, followed by the messages of each switch.

    ``timers`` contains the congestion point of each port, the flow control points, and the end of a pause for
    each port.

    In a divided network, each part has a state (`engine.parts`). Ports, switches and stations have the same
    records in all states. A line that crosses the cut belongs to the part at its end.
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
    """Offsets in ``choices`` by switch and exit (`Link.exit`), followed by the length of ``choices``."""
    choices: NDArray[np.int32]
    forced: NDArray[np.int64]
    """Port by explicit path and switch; NOWHERE for a switch that is not on the path."""
    turns: NDArray[np.int64]
    """For SPRAY, number of frames by row of ``routes``; for FLOWLET, flowlets by switch and slot."""
    flowlet_ns: NDArray[np.int64]
    """For FLOWLET, time of the last frame by switch and slot, in ns."""
    delays_ns: NDArray[np.int64]
    """Message delays in ns, by sender (switches, then stations) and receiving station; or OWN_DELAYS."""
    flow_ends: NDArray[np.int64]
    """Destination by station and flow; empty if there is only one path."""
    pool: Pool
    queues: Sequence[Queue]
    events: EventHeap
    ready: EventHeap
    """Serial numbers of the first frames in queues that wait only for their link; one heap per station."""
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
    """Message that each frame carries, by frame."""
    stacks: NDArray[np.int64]
    """Records that ports added to each frame, by frame; each frame has `Loop.stack_records` records."""
    draws: Draws
    """Random numbers for losses."""
    lost_frames: NDArray[np.int64]
    """Number of frames lost on links, by sender (ports, then stations)."""
    outbox: Outbox
    offers: Offers
    notes: Sequence[Note]
    stop_events: Sequence[StopEvent]
    message_octets: NDArray[np.int64]
    """Length of a message's frame in octets, by type up to MESSAGE_TYPES."""
    message_counts: NDArray[np.int64]
    """Number of messages by sender (ports, then stations) and type up to MESSAGE_TYPES."""
    port_counts: Sequence[PortCount]
    watchdogs: Sequence[Watchdog]
    """Watchdog of each port; empty if there are no watchdogs."""
    flow_counts: Sequence[FlowCount]
    passages: Sequence[Passage]
    traced: Sequence[TracedFrame]
    traced_messages: MutableSequence[Message]
    part_of: NDArray[np.int64]
    """Part of each station and each port, numbered after the stations; empty in an undivided network."""
    mail: Sequence[Mailbox]
    """Two mailboxes for each part, for odd and even windows; empty in an undivided network."""


def with_obeyed(config: LoopConfig, machine: Machine) -> LoopConfig:
    """Return ``config`` with the PFC priorities that stations obey, by the parameters of ``machine``."""
    own = machine.parameters.get(Role.REACTION_POINT)
    if not isinstance(own, PFCReactionParameters):
        return config
    return dataclasses.replace(config, pfc_priorities=config.pfc_priorities & own.priorities)


def next_change_ns(changes: Sequence[RateChange]) -> int:
    """Return the time of the first rate change in ``changes``; NEVER_NS if there are no changes."""
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
    isolation: tuple[int, int] | None = None,
    total_only: bool = False,
) -> NetworkState:
    """Return empty stores for ports and for ``stations`` stations with ``limiters`` limiters each.

    Each port of ``ports`` has its congestion point in ``points``. All ports belong to one switch, and the
    overhead of the first port applies to every line. The mechanism's tag adds ``tag_octets`` to a frame, and
    has space for ``stack_records`` records of ports. ``isolation`` is as in `Machine.isolation`. With
    ``total_only``, gauges have neither statistics of priorities nor a trace.
    """
    loop = new_record(Loop)
    loop.change_ns, loop.window_ns = next_change_ns(ports[0].rate_changes), NEVER_NS
    loop.overhead_octets = ports[0].overhead_octets
    loop.stack_records = stack_records
    loop.watched_priority, loop.isolated_queue = isolation or (NOWHERE, NOWHERE)
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
        stop_events=new_records(StopEvent, _STOP_EVENTS),
        message_octets=np.full(MESSAGE_TYPES, MIN_MESSAGE_OCTETS),
        message_counts=np.zeros((count + stations) * MESSAGE_TYPES, np.int64),
        port_counts=new_port_counts(count),
        watchdogs=new_records(Watchdog, 0),
        flow_counts=new_records(FlowCount, 0),
        passages=new_records(Passage, _PASSAGES),
        traced=new_records(TracedFrame, 1),
        traced_messages=_ring(1),
        part_of=np.zeros(0, np.int64),
        mail=[],
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


def new_stores(
    network: NetworkState, part_of: NDArray[np.int64], mail: Sequence[Mailbox], draws: Draws, begun: int
) -> NetworkState:
    """Return a state with the ports, switches and stations of ``network``, and with empty stores.

    The stores are the event heaps, frames, messages and counts that a part of a divided network changes for
    stations and ports of other parts. ``begun`` is the capacity for flows that began.
    """
    stores = NetworkState(*network)
    stores.loop, stores.log = record_from(Loop, network.loop), new_record(Log)
    stores.pool = new_pool(_FIRST_FRAMES)
    stores.stacks = np.zeros(len(stores.pool.frames) * network.loop.stack_records, np.int64)
    stores.carried = _ring(len(stores.pool.frames) if network.loop.in_band else 1)
    for name in ("events", "port_events", "timers"):
        setattr(stores, name, new_event_heap(len(getattr(network, name).due_ns) // 2))
    stores.lines, stores.on_link = new_queues(len(network.lines)), new_queues(len(network.on_link))
    stores.in_flight, stores.due_ns = _ring(2 * _MESSAGES), np.zeros(2 * _MESSAGES, np.int64)
    stores.outbox, stores.offers = new_outbox(_MESSAGES), new_offers(begun=begun)
    stores.notes, stores.stop_events = new_records(Note, _NOTES), new_records(StopEvent, _STOP_EVENTS)
    stores.flow_counts = new_records(FlowCount, len(network.flow_counts))
    stores.draws, stores.part_of, stores.mail = draws, part_of, mail
    return stores


def _gates(count: int, config: LoopConfig) -> Gates:
    return new_gates(
        count, rate_bps=config.link_rate_bps, pause=config.pause, pfc_priorities=config.pfc_priorities
    )


def new_port_counts(count: int) -> Sequence[PortCount]:
    """Return the counts of ``count`` ports, which are all 0."""
    counts = new_records(PortCount, count)
    columns(counts)["stopped_since_ns"] = NEVER_NS
    return counts


def new_outputs(count: int) -> Sequence[Output]:
    """Return the outputs of ``count`` ports of one switch; all outputs lead to stations."""
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
    """Set the rates and delays of the stations' links before a run: one value for all links, or one per link.

    PAUSE and PFC times in quanta still use ``LoopConfig.link_rate_bps``.
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
    """Send messages as frames of ``priority`` that queue on their path."""
    network.loop.in_band, network.loop.message_priority = 1, priority
    network.carried = _ring(len(network.pool.frames))


@expanded
def stack_of(network: NetworkState, index: int) -> NDArray[np.int64]:
    """Return the records that ports added to a frame, including unused records."""
    first = index * network.loop.stack_records
    return network.stacks[first : first + network.loop.stack_records]


@inlined
def clear_stack(network: NetworkState, index: int) -> None:
    """Set the records of a frame to 0."""
    stack = stack_of(network, index)
    for record in range(len(stack)):
        stack[record] = 0


@inlined
def is_foreign(network: NetworkState, number: int) -> bool:
    """Return whether another part has a station or a port; ports are numbered after the stations."""
    return bool(len(network.part_of) > 0 and network.part_of[number] != network.loop.part)


@inlined
def occupy(network: NetworkState, station: int, octets: int, now_ns: int, shared: bool) -> None:
    """Occupy a station's link with a frame; if ``shared``, later frames wait for the link."""
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
    """Return an upper bound on frames traced by one event: a timer's messages, and PAUSE to all feeds."""
    return len(network.outbox.messages) + _TRACED_AT_ONCE * (2 + len(network.feeds))


def trace_frames(network: NetworkState) -> None:
    """Trace each frame on a link from now on; the caller drains the frames when a run stops for capacity."""
    network.loop.is_tracing = 1
    rows = max(_TRACED, 2 * max_traced_frames(network))
    network.traced, network.traced_messages = new_records(TracedFrame, rows), _ring(rows)


def lengthen_tight_ring(network: NetworkState) -> None:
    """Double the capacity of the ring that is almost full."""
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
    """Add stations, without changes to the existing stations.

    The last existing station must not have sent any frame. Only pauses of all stations may have stopped this
    station, and these pauses stop the new stations too.
    """
    fresh = new_network([port], config, points=[NullCongestionPoint()], stations=stations, limiters=limiters)
    for records in ("stopped", "pause_states", "pfc_states"):
        columns(getattr(fresh.gates, records))[:] = columns(getattr(network.gates, records))[-1]
    network.message_counts = lengthened(
        network.message_counts, np.zeros((len(network.ports) + stations) * MESSAGE_TYPES, np.int64)
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
    """Return ``old`` extended to the length of ``fresh``: the old stations, followed by the new stations.

    Both arguments are arrays, or structs with arrays, in which the first stations are the same.
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
