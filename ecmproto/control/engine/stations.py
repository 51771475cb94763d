"""Stations: queues, limiters and links, from a frame's arrival to the switch.

This module implements rules 1 and 2 of `ecmproto.control.engine.loop`.
"""

from __future__ import annotations

from ecmproto.control.engine.event_heap import (
    entry_due_ns,
    first,
    is_next_due,
    set_due,
    set_due_below,
)
from ecmproto.control.engine.frame_pool import NOWHERE, Frame, append, give_back, take, take_first
from ecmproto.control.engine.messages import trace_frame
from ecmproto.control.engine.network import (
    ENTRIES,
    ON_LINK,
    OWN_QUEUES,
    TIMER,
    NetworkState,
    clear_stack,
    occupy,
)
from ecmproto.control.engine.port import HELD_OUT
from ecmproto.control.engine.switches import gate_port, log_stop, lose, note_passage, pass_to_port
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
    """Queue a frame at its station, or send the frame at once (rule 1)."""
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
        _schedule(network, senders, station, limiter, entry, now_ns)


@compiled
def _schedule(
    network: NetworkState, senders: Senders, station: int, limiter: int, entry: int, now_ns: int
) -> None:
    """Set the time at which the first frame of a queue may leave, or let the frame wait for the link only."""
    link, head = network.links[station], network.pool.frames[network.queues[entry].head]
    due_ns = now_ns if limiter == NO_LIMITER else max(now_ns, senders.next_tx_ns(station, limiter, now_ns))
    if due_ns != NEVER_NS:
        due_ns = opens_ns(network.gates, station, head.priority, due_ns)
    if limiter != NO_LIMITER and due_ns <= now_ns:
        link.shared_ns = max(link.shared_ns, link.free_ns)
    if due_ns <= link.free_ns and now_ns < link.free_ns:
        _set_ready(network, station, entry, head.serial)
        set_due(network.events, entry, NEVER_NS)
        set_due(network.events, (station + 1) * network.loop.entries - 1, link.free_ns)
    elif due_ns <= now_ns and _is_ready(network, station, entry):
        return  # the end of the frame on the link is also due
    else:
        _set_ready(network, station, entry, NEVER_NS)
        set_due(network.events, entry, due_ns)


@inlined
def _is_ready(network: NetworkState, station: int, entry: int) -> bool:
    """Return whether a queue waits only for its station's link."""
    loop = network.loop
    ready = station * loop.ready_each + entry - station * loop.entries
    return bool(entry_due_ns(network.ready, ready) != NEVER_NS)


@inlined
def _set_ready(network: NetworkState, station: int, entry: int, serial: int) -> None:
    """Make a queue wait for its station's link. ``serial`` is the number of the first frame in the queue.

    The number NEVER_NS ends the wait.
    """
    loop, leaves = network.loop, len(network.ready.due_ns) >> 1
    ready = station * loop.ready_each + entry - station * loop.entries
    set_due_below(network.ready, ready, serial, leaves // loop.ready_each + station)


@compiled
def wake_station(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Process the first event of the heap: a timer, the first frame of a queue, or the end of a frame."""
    entry = first(network.events)
    each = network.loop.entries
    station, part = entry // each, entry % each
    if part == TIMER:
        senders.on_station_timer(station, now_ns)
        _review(network, senders, station, now_ns)
    elif part == ON_LINK:
        _arrive(network, station, entry, now_ns)
    elif part == each - 1:
        _serve_link(network, senders, station, now_ns)
    elif is_next_due(network.events, now_ns) and network.links[station].free_ns <= now_ns:
        # If several queues are ready, the end of the frame on the link selects a queue.
        set_due(network.events, entry, NEVER_NS)
        _set_ready(network, station, entry, network.pool.frames[network.queues[entry].head].serial)
        set_due(network.events, (station + 1) * each - 1, now_ns)
    else:
        _try_head(network, senders, station, entry, now_ns)


@compiled
def _serve_link(network: NetworkState, senders: Senders, station: int, now_ns: int) -> None:
    """Send the oldest ready frames while the link is free."""
    loop, link = network.loop, network.links[station]
    top = (len(network.ready.due_ns) >> 1) // loop.ready_each + station
    base, free_entry = station * loop.entries, (station + 1) * loop.entries - 1
    while link.free_ns <= now_ns and network.ready.due_ns[top] != NEVER_NS:
        part = network.ready.earliest[top] - station * loop.ready_each
        if now_ns > link.shared_ns:
            part = OWN_QUEUES
            while entry_due_ns(network.ready, station * loop.ready_each + part) == NEVER_NS:
                part += 1
        _set_ready(network, station, base + part, NEVER_NS)
        _try_head(network, senders, station, base + part, now_ns)
    is_waiting = network.ready.due_ns[top] != NEVER_NS
    set_due(network.events, free_entry, link.free_ns if is_waiting else NEVER_NS)


@compiled
def _try_head(network: NetworkState, senders: Senders, station: int, entry: int, now_ns: int) -> None:
    """Send the first frame of a queue if it may leave now, and schedule the next frame."""
    part, queue = entry - station * network.loop.entries, network.queues[entry]
    limiter = part - ENTRIES if part >= ENTRIES else NO_LIMITER
    _schedule(network, senders, station, limiter, entry, now_ns)
    if entry_due_ns(network.events, entry) > now_ns:
        return
    set_due(network.events, entry, NEVER_NS)
    index = take_first(network.pool, queue)
    _send(network, senders, index, limiter, now_ns)
    if queue.length > 0:
        _schedule(network, senders, station, limiter, entry, now_ns)


@compiled
def _review(network: NetworkState, senders: Senders, station: int, now_ns: int) -> None:
    """Update the due times of a station's queues and timer."""
    base = station * network.loop.entries
    for part in range(OWN_QUEUES, network.links[station].parts):
        if network.queues[base + part].length > 0:
            limiter = part - ENTRIES if part >= ENTRIES else NO_LIMITER
            _schedule(network, senders, station, limiter, base + part, now_ns)
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
    clear_stack(network, index)
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
    """Send a frame to the port, at once or after the delay of the link (rule 2)."""
    frame = network.pool.frames[index]
    station = frame.station
    link = network.links[station]
    sent_ns = now_ns if link.whole == 1 else link.free_ns
    if network.loop.is_tracing == 1:
        trace_frame(network, index, len(network.ports) + station, sent_ns)
    if link.loss > 0.0 and network.draws.random() < link.loss:
        lose(network, index, len(network.ports) + station)
        return
    arrival_ns = sent_ns + link.to_port_ns
    if arrival_ns == now_ns:
        pass_to_port(network, index, link.switch, link.input, now_ns, limit_bps, rtt_ns)
        return
    frame.arrival_ns, frame.limit_bps, frame.rtt_average_ns = arrival_ns, limit_bps, rtt_ns
    queue = network.on_link[station]
    append(network.pool, queue, index)
    if queue.length == 1:
        set_due(network.events, station * network.loop.entries + ON_LINK, frame.arrival_ns)


@compiled
def _arrive(network: NetworkState, station: int, entry: int, now_ns: int) -> None:
    """Move the first frame on a station's link to the switch."""
    queue, link = network.on_link[station], network.links[station]
    index = take_first(network.pool, queue)
    frame = network.pool.frames[index]
    set_due(
        network.events, entry, network.pool.frames[queue.head].arrival_ns if queue.length > 0 else NEVER_NS
    )
    pass_to_port(network, index, link.switch, link.input, now_ns, frame.limit_bps, frame.rtt_average_ns)


@inlined
def _note_source(network: NetworkState, frame: Frame, refused: int) -> None:
    note = network.notes[network.log.notes]
    note.refused = refused
    network.log.notes += 1
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
        if message.kind == PAUSE_KIND or message.kind == PFC_KIND:
            obey(network.port_gates, port, message, now_ns)
            log_stop(network, message, station, now_ns)
            gate_port(network, port, now_ns)
        else:
            network.points[port].on_message(message, now_ns)
            set_due(network.timers, port, network.points[port].next_timer_ns())
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
