"""Stations: their queues, limiters and links, from a frame's arrival to the switch.

Rules 1 and 2 of `ecmproto.control.engine.loop`.
"""

from __future__ import annotations

from ecmproto.control.engine.event_heap import entry_due_ns, first, is_next_due, set_due
from ecmproto.control.engine.frame_pool import NOWHERE, Frame, append, give_back, take, take_first
from ecmproto.control.engine.messages import trace_frame
from ecmproto.control.engine.network import ENTRIES, ON_LINK, OWN_QUEUES, TIMER, NetworkState, occupy
from ecmproto.control.engine.port import HELD_OUT
from ecmproto.control.engine.switches import gate_port, log_stop, note_passage, pass_to_port
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_AVERAGE,
    NO_LIMITER,
    NO_STATION,
    PAUSE_KIND,
    PFC_KIND,
    PROBE_KIND,
    Departure,
    Message,
    Senders,
    probe_payload,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.gate import is_sending, obey, opens_ns, starts_sending
from ecmproto.kernels.kernel import compiled, inlined

PROBE_OCTETS = 60


@compiled
def route_frame(network: NetworkState, senders: Senders, index: int, now_ns: int) -> None:
    """Queue a frame at its station for its limiter, or send it at once (rule 1)."""
    frame = network.pool.frames[index]
    station, priority = frame.station, frame.priority
    if not is_sending(network.gates, station, priority):
        starts_sending(network.gates, station, priority, now_ns)
    base = station * network.loop.entries
    limiter = NO_LIMITER
    if frame.carries == 0:
        limiter = senders.route(station, frame.flow, priority, now_ns)
    own = base + OWN_QUEUES + priority
    entry = base + ENTRIES + limiter
    if limiter == NO_LIMITER:
        if (
            network.queues[own].length == 0
            and network.links[station].shared_ns <= now_ns
            and opens_ns(network.gates, station, priority, now_ns) <= now_ns
        ):
            _send(network, senders, index, NO_LIMITER, now_ns)
            return
        entry = own
    queue = network.queues[entry]
    if queue.octets + frame.octets > network.links[station].queue_octets:
        note_passage(network, frame, HELD_OUT, -1, 0.0, NO_AVERAGE)
        if frame.source != NOWHERE:
            network.flow_counts[frame.source].held_out_frames += 1
            network.flow_counts[frame.source].held_out_octets += frame.octets
            _note_source(network, frame, 1)
        give_back(network.pool, index)
        return
    if limiter != NO_LIMITER:
        senders.on_enqueue(station, limiter)
        network.log.limited_frames += 1
    append(network.pool, queue, index)
    network.links[station].parts = max(network.links[station].parts, entry - base + 1)
    network.log.longest_wait_octets = max(network.log.longest_wait_octets, queue.octets)
    if queue.length == 1:
        set_due(network.events, entry, _leaves_ns(network, senders, station, limiter, entry, now_ns))


@inlined
def _leaves_ns(
    network: NetworkState, senders: Senders, station: int, limiter: int, entry: int, now_ns: int
) -> int:
    """Return the earliest departure time of the head of a station's queue."""
    link, leaves_ns = network.links[station], now_ns
    if limiter != NO_LIMITER:
        leaves_ns = max(now_ns, senders.next_tx_ns(station, limiter, now_ns))
        if leaves_ns == NEVER_NS:
            return NEVER_NS
    priority = network.pool.frames[network.queues[entry].head].priority
    leaves_ns = opens_ns(network.gates, station, priority, leaves_ns)
    if limiter != NO_LIMITER and leaves_ns <= now_ns:
        link.shared_ns = max(link.shared_ns, link.free_ns)
    return int(max(leaves_ns, link.free_ns))


@compiled
def wake_station(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Handle the first event of the heap: a station's timer, or the head of one of its queues."""
    entry = first(network.events)
    each = network.loop.entries
    station, part = entry // each, entry % each
    if part == TIMER:
        senders.on_station_timer(station, now_ns)
        _review(network, senders, station, now_ns)
        return
    if part == ON_LINK:
        _arrive(network, station, entry, now_ns)
        return
    link = network.links[station]
    is_shared = link.shared_ns > 0 and link.free_ns <= now_ns <= link.shared_ns
    if is_shared and is_next_due(network.events, now_ns):
        entry = _oldest_head(network, station * each, link.parts, entry, now_ns)
        part = entry % each
    limiter = part - ENTRIES if part >= ENTRIES else NO_LIMITER
    leaves_ns = _leaves_ns(network, senders, station, limiter, entry, now_ns)
    if leaves_ns <= now_ns:
        queue = network.queues[entry]
        index = take_first(network.pool, queue)
        _send(network, senders, index, limiter, now_ns)
        leaves_ns = NEVER_NS
        if queue.length > 0:
            leaves_ns = _leaves_ns(network, senders, station, limiter, entry, now_ns)
    set_due(network.events, entry, leaves_ns)


@inlined
def _oldest_head(network: NetworkState, base: int, parts: int, entry: int, now_ns: int) -> int:
    """Return the due queue with the oldest head, of the station with ``parts`` entries from ``base`` on."""
    serial = network.pool.frames[network.queues[entry].head].serial
    for other in range(base + OWN_QUEUES, base + parts):
        if entry_due_ns(network.events, other) <= now_ns and network.queues[other].length > 0:
            first_serial = network.pool.frames[network.queues[other].head].serial
            if first_serial < serial:
                entry, serial = other, first_serial
    return entry


@compiled
def _review(network: NetworkState, senders: Senders, station: int, now_ns: int) -> None:
    """Update the due times of a station's queues and timer."""
    each = network.loop.entries
    base = station * each
    for part in range(OWN_QUEUES, network.links[station].parts):
        if network.queues[base + part].length > 0:
            limiter = part - ENTRIES if part >= ENTRIES else NO_LIMITER
            leaves_ns = _leaves_ns(network, senders, station, limiter, base + part, now_ns)
            set_due(network.events, base + part, leaves_ns)
    set_due(network.events, base + TIMER, senders.next_station_timer_ns(station))


@compiled
def _send(network: NetworkState, senders: Senders, index: int, limiter: int, now_ns: int) -> None:
    """Send a frame from its station (rule 2)."""
    frame = network.pool.frames[index]
    station = frame.station
    if frame.carries == 1:
        occupy(network, station, frame.octets, now_ns, True)
        _put_on_link(network, index, now_ns, 0.0, NO_AVERAGE)
        return
    limit_bps, rtt_ns = 0.0, NO_AVERAGE
    if limiter != NO_LIMITER:
        limit_bps, rtt_ns = senders.limit_bps(station, limiter), senders.rtt_average_ns(station, limiter)
    posted = network.outbox.posted.count
    departure = Departure(
        now_ns, station, limiter, frame.flow, frame.priority, frame.octets, frame.tagged == 1, frame.tag,
        frame.mark,
    )  # fmt: skip
    sent = senders.on_transmit(departure, network.outbox)
    frame.tagged = int(sent.tagged)
    frame.tag = sent.tag
    frame.mark = sent.mark
    frame.octets += sent.added_octets
    frame.sent_ns = now_ns
    occupy(network, station, frame.octets, now_ns, limiter != NO_LIMITER)
    set_due(
        network.events,
        station * network.loop.entries + TIMER,
        senders.next_station_timer_ns(station),
    )
    if frame.source != NOWHERE:
        counts = network.flow_counts[frame.source]
        counts.sent_frames += 1
        counts.sent_octets += frame.octets
        counts.limit_bps = limit_bps
        _note_source(network, frame, 0)
    serial, destination, path = frame.serial, frame.destination, frame.path
    _put_on_link(network, index, now_ns, limit_bps, rtt_ns)
    for probe in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[probe]
        if message.kind == PROBE_KIND:
            _probe(network, message, serial, destination, path, now_ns)


@compiled
def _probe(
    network: NetworkState, message: Message, serial: int, destination: int, path: int, now_ns: int
) -> None:
    message.sent = 0
    message.cause = serial
    index = take(network.pool)
    frame = network.pool.frames[index]
    frame.serial = serial
    frame.station = message.station
    frame.flow = message.flow
    frame.priority = message.priority
    frame.octets = PROBE_OCTETS
    frame.probe = 1
    frame.answerable = 1
    frame.mark = probe_payload(message).mark
    frame.destination = destination
    frame.path = path
    occupy(network, frame.station, PROBE_OCTETS, now_ns, True)
    _put_on_link(network, index, now_ns, 0.0, NO_AVERAGE)


@inlined
def _put_on_link(network: NetworkState, index: int, now_ns: int, limit_bps: float, rtt_ns: float) -> None:
    """Send a frame to the port, at once or after the delay of its link (rule 2)."""
    frame = network.pool.frames[index]
    station = frame.station
    link = network.links[station]
    sent_ns = now_ns if link.whole == 1 else link.free_ns
    if network.loop.is_tracing == 1:
        trace_frame(network, index, len(network.ports) + station, sent_ns)
    comes_ns = sent_ns + link.to_port_ns
    if comes_ns == now_ns:
        pass_to_port(network, index, link.switch, link.input, now_ns, limit_bps, rtt_ns)
        return
    frame.comes_ns, frame.limit_bps, frame.rtt_average_ns = comes_ns, limit_bps, rtt_ns
    queue = network.on_link[station]
    append(network.pool, queue, index)
    if queue.length == 1:
        set_due(network.events, station * network.loop.entries + ON_LINK, frame.comes_ns)


@compiled
def _arrive(network: NetworkState, station: int, entry: int, now_ns: int) -> None:
    """Move the first frame on a station's link to its switch."""
    queue, link = network.on_link[station], network.links[station]
    index = take_first(network.pool, queue)
    frame = network.pool.frames[index]
    set_due(network.events, entry, network.pool.frames[queue.head].comes_ns if queue.length > 0 else NEVER_NS)
    pass_to_port(network, index, link.switch, link.input, now_ns, frame.limit_bps, frame.rtt_average_ns)


@inlined
def _note_source(network: NetworkState, frame: Frame, refused: int) -> None:
    note = network.notes[network.note_count.noted]
    note.refused = refused
    network.note_count.noted += 1
    note.source = frame.source
    note.number = frame.number


@compiled
def receive_message(network: NetworkState, senders: Senders, message: Message, now_ns: int) -> None:
    """Deliver a message to its station, to every station, or to a port."""
    network.log.received_messages += 1
    station = message.station
    if station == EVERY_STATION:
        for each in range(len(network.links)):
            _take(network, senders, message, each, now_ns)
    elif station >= len(network.links):
        port = station - len(network.links)
        obey(network.port_gates, port, message, now_ns)
        log_stop(network, message, station, now_ns)
        gate_port(network, port, now_ns)
    elif station != NO_STATION:
        _take(network, senders, message, station, now_ns)


@compiled
def _take(network: NetworkState, senders: Senders, message: Message, station: int, now_ns: int) -> None:
    if message.kind == PAUSE_KIND or message.kind == PFC_KIND:
        obey(network.gates, station, message, now_ns)
        log_stop(network, message, station, now_ns)
    else:
        senders.on_message(message, now_ns)
    _review(network, senders, station, now_ns)
