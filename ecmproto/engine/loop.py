"""A closed loop: stations with reaction points, switches with ports, destinations, and messages between.

The text of the loop, compiled once for all mechanisms.  Its rules:

1. A frame of the capture comes to its station at its time, one of a source when the source offers it.  It
   queues behind the limiter that it is routed to, in a finite queue, or leaves at once.  Where its priority
   is paused, or an earlier frame waits for that, it waits in the station's own queue of the priority.  What
   waited leaves no faster than the link.  All frames of a station share its link from when one that a limiter
   lets through is ready for it, or a probe is on it, until it falls idle: of what is ready, what came first
   leaves first.  Before that, what comes from the capture leaves as it was captured: it did fit on a link.
   Frames of sources always share it.
2. What leaves a station reaches the port as much later as its link delays it, with its tag; a probe follows
   it in band.  Of several ports, a switch takes one on a shortest way to the destination.
3. What leaves a port is at the end of its way as much later as the way delays it: at the next switch, or at
   its destination.  Messages of ports and of destinations reach their station as much later as its link, or
   the table of delays, says; they do not take bandwidth.  Where messages are frames, they do.
4. A frame of the capture that is feedback to a station, where such frames are read, is received at its time
   and takes nothing of the port.
5. At one time, a change of a port's rate comes first, then departures (by port), frames from lines (by port),
   timers of congestion points, messages, reports of destinations, the stations' timers and queues (by
   number), sources, and the capture's arrivals.
6. PAUSE and PFC of a switch reach what feeds its input as much later as its link is long: a station, or a
   port of another switch, which starts no frame that is stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.engine.arrivals import Arrivals
from ecmproto.engine.event_heap import first, first_ns, is_next_due, set_due
from ecmproto.engine.frame_pool import NOWHERE, Frame, append, give_back, is_used_up, take, take_first
from ecmproto.engine.gauge import PRIORITIES, TOTAL
from ecmproto.engine.network import (
    DATA_FRAME,
    ENTRIES,
    FLOW_CONTROL_FRAME,
    MESSAGE_FRAME,
    MESSAGE_KINDS,
    MESSAGE_OUT_OF_BAND,
    ON_LINK,
    OWN_QUEUES,
    TIMER,
    NetworkState,
    trace_room,
)
from ecmproto.engine.port import DROPPED, ENQUEUED, HELD_OUT, PASSED_BY, arrive, depart, free_slots, stop
from ecmproto.engine.traffic import MOST_OFFERS, Offer, Sources
from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_AVERAGE,
    NO_CAUSE,
    NO_LIMITER,
    NO_STATION,
    PAUSE_KIND,
    PFC_KIND,
    PROBE_KIND,
    Arrival,
    Delivery,
    Departure,
    Message,
    Receivers,
    Senders,
    flow_control_payload,
    has_room,
    probe_payload,
)
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.pause.gate import is_sending, obey, opens_ns, starts_sending
from ecmproto.units import NS_PER_S

if TYPE_CHECKING:
    from ecmproto.engine.feedback import CapturedFeedback

PROBE_OCTETS = 60
MESSAGE_OCTETS = 60
"""Of a message that is a frame: the least that a frame has."""

_ROOM = 16
"""More messages, passages and frames than one event makes; ticks and reports look for room themselves."""
_FREE_SLOTS = 8
"""More frames than one event brings to a port."""


@compiled
def run(
    network: NetworkState,
    senders: Senders,
    receivers: Receivers,
    sources: Sources,
    arrivals: Arrivals,
    feedback: CapturedFeedback,
    position: int,
    serial: int,
    last: bool,
) -> int:
    """Run the loop until ``arrivals`` from ``position`` on have come; if ``last``, till nothing is in flight.

    ``serial`` is the number of the first of them.  Returns the position of the first that has not come:
    it stops early when something has no more room, and when it is to stop for a change.
    """
    loop, count = network.loop, arrivals.time_ns.size
    timers, ports = network.timers, len(network.ports)
    ticked = False
    while has_space(network):
        port_ns = first_ns(network.port_events)
        message_ns = _message_ns(network)
        report_ns = receivers.next_report_ns()
        entry_ns = first_ns(network.events)
        source_ns = sources.next_source_ns()
        arrival_ns = NEVER_NS
        if position < count:
            arrival_ns = arrivals.time_ns[position]
        elif not last or (
            network.pool.stock.used == 0 and loop.sent == loop.received and source_ns == NEVER_NS
        ):
            return position
        tick_ns = first_ns(timers)
        other_ns = min(min(port_ns, message_ns), min(report_ns, min(entry_ns, min(source_ns, arrival_ns))))
        if min(tick_ns, other_ns) >= loop.change_ns:
            loop.changes = 1
            return position
        if tick_ns < other_ns and ticked and ports == 1 and network.ports[0].line.in_service_octets == 0:
            # At an idle port nothing changes from tick to tick: one call catches up with all.
            tick_ns = min(other_ns, loop.change_ns - 1)
        now_ns = min(tick_ns, other_ns)
        ticked = port_ns > now_ns and tick_ns <= now_ns
        loop.now_ns = now_ns
        if port_ns == now_ns:
            _on_port(network, senders, receivers, sources, now_ns)
        elif tick_ns <= now_ns:
            _on_timer(network, first(timers), now_ns)
        elif message_ns == now_ns:
            _deliver_message(network, senders, now_ns)
        elif report_ns == now_ns:
            _report(network, senders, receivers, now_ns)
        elif entry_ns == now_ns:
            _wake(network, senders, now_ns)
        elif source_ns == now_ns:
            sources.on_source_timer(now_ns, network.offers)
            _take_offers(network, senders, now_ns)
        else:
            _arrive(network, senders, arrivals, feedback, position, serial + position, now_ns)
            position += 1
        if network.note_count.noted > 0:
            _tell_sources(network, senders, sources, now_ns)
        loop.events += 1
        if loop.is_logging == 0:
            network.outbox.posted.count = 0
    return position


@inlined
def has_space(network: NetworkState) -> bool:
    """Return whether every store has room for the entries that one event can add."""
    in_flight = network.loop.sent - network.loop.received
    # A message to every station is one for each where they come at different times.
    copies = 0 if network.loop.same_delays == 1 else _ROOM * len(network.links)
    return bool(
        has_room(network.outbox, _ROOM)
        and network.log.passages + _ROOM + MOST_OFFERS <= len(network.passages)
        and not is_used_up(network.pool, _ROOM + MOST_OFFERS)
        and in_flight + len(network.outbox.messages) + copies <= len(network.in_flight)
        and network.loop.tight_port == NOWHERE
        and (network.loop.is_logging == 1 or network.stop_count.logged < len(network.stop_events))
        and network.offers.count.completed + _ROOM + MOST_OFFERS <= len(network.offers.completions)
        and (network.loop.is_tracing == 0 or network.log.traced + trace_room(network) <= len(network.traced))
    )


@inlined
def _message_ns(network: NetworkState) -> int:
    loop = network.loop
    if loop.sent == loop.received:
        return NEVER_NS
    return int(network.due_ns[loop.received & (len(network.due_ns) - 1)])


@compiled
def _on_port(
    network: NetworkState, senders: Senders, receivers: Receivers, sources: Sources, now_ns: int
) -> None:
    """Handle the first event of ports: a departure, or a frame at the end of a line."""
    entry, ports = first(network.port_events), len(network.ports)
    if entry < ports:
        _depart(network, senders, receivers, sources, entry, now_ns)
        return
    queue = network.lines[entry - ports]
    index = take_first(network.pool, queue)
    comes_ns = network.pool.frames[queue.head].comes_ns if queue.length > 0 else NEVER_NS
    set_due(network.port_events, entry, comes_ns)
    port = entry - ports
    if port >= ports:
        _pass(network, index, port - ports, NOWHERE, now_ns, 0.0, NO_AVERAGE)
        return
    way = network.ways[port]
    if way.next_switch == NOWHERE:
        _end(network, senders, receivers, sources, port, index, now_ns)
        return
    frame = network.pool.frames[index]
    if way.ends == 1 and frame.carries == 0:
        posted = network.outbox.posted.count
        _tell_receivers(network, receivers, frame, now_ns)
        _dispatch(network, senders, posted, NOWHERE, frame.destination, now_ns)
    _pass(network, index, way.next_switch, way.input, now_ns, 0.0, NO_AVERAGE)


@compiled
def _on_timer(network: NetworkState, entry: int, now_ns: int) -> None:
    """Run the timer of a port's congestion point or of flow control, or end a pause of a port."""
    ports, outbox = len(network.ports), network.outbox
    posted = outbox.posted.count
    if entry < ports:
        point = network.points[entry]
        point.on_timer(now_ns, network.ports[entry].gauge.level_octets[:PRIORITIES], outbox)
        set_due(network.timers, entry, point.next_timer_ns())
        _dispatch_own(network, posted, entry, now_ns)
        return
    number = entry - ports
    if number < len(network.controls):
        control = network.controls[number]
        control.on_timer(now_ns, network.ports[0].gauge.level_octets[:PRIORITIES], outbox)
        set_due(network.timers, entry, control.next_timer_ns())
        _stop_feeds(network, posted, _switch_of(network, number), now_ns)
        return
    _gate(network, number - len(network.controls), now_ns)


@inlined
def _switch_of(network: NetworkState, control: int) -> int:
    """Return the switch that a flow control machine is of."""
    port = 0
    while network.ways[port].control != control:
        port += 1
    return network.ways[port].switch


@compiled
def _dispatch(
    network: NetworkState, senders: Senders, posted: int, port: int, station: int, now_ns: int
) -> None:
    """Send the messages posted from index ``posted`` on by ``port``, or by ``station``."""
    if port != NOWHERE:
        _dispatch_own(network, posted, port, now_ns)
        return
    for number in range(posted, network.outbox.posted.count):
        _dispatch_one(network, senders, number, station, now_ns)


@compiled
def _dispatch_one(network: NetworkState, senders: Senders, number: int, station: int, now_ns: int) -> None:
    """Send the message ``number`` of ``station``."""
    message = network.outbox.messages[number]
    if not message.sent or message.station == NO_STATION:
        return
    _count_message(network, message, len(network.ports) + station)
    if network.loop.in_band == 1:
        index = _message_frame(network, message, station, len(network.ports) + station, now_ns)
        _route(network, senders, index, now_ns)
    else:
        _send_message(network, message, len(network.ports) + station)


@compiled
def _dispatch_own(network: NetworkState, posted: int, port: int, now_ns: int) -> None:
    """Send the messages posted from index ``posted`` on by a port's congestion point."""
    for number in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[number]
        if not message.sent or message.station == NO_STATION:
            continue
        _count_message(network, message, port)
        # What is for all has no way to queue on.
        if network.loop.in_band == 1 and message.station != EVERY_STATION:
            switch = network.ways[port].switch
            index = _message_frame(network, message, NOWHERE, port, now_ns)
            network.pool.frames[index].comes_ns = now_ns
            entry = len(network.ports) + switch
            append(network.pool, network.lines[entry], index)
            set_due(network.port_events, len(network.ports) + entry, now_ns)
        else:
            _send_message(network, message, port)


@inlined
def _count_message(network: NetworkState, message: Message, sender: int) -> None:
    network.message_counts[sender * MESSAGE_KINDS + min(message.kind, MESSAGE_KINDS - 1)] += 1


@inlined
def _message_frame(network: NetworkState, message: Message, station: int, sender: int, now_ns: int) -> int:
    """Return a new frame that carries a message of ``sender``; ``station`` is that, NOWHERE for a port."""
    index = take(network.pool)
    network.carried[index] = message
    frame = network.pool.frames[index]
    _clear(frame)
    frame.serial = message.cause
    frame.station = station
    frame.flow = NOWHERE
    frame.priority = network.loop.message_priority
    frame.octets = MESSAGE_OCTETS
    frame.destination = message.station
    frame.carries = 1
    frame.number = sender
    frame.offered_ns = now_ns
    return index


@inlined
def _clear(frame: Frame) -> None:
    """Make ``frame`` one of no source, without tag."""
    frame.probe = 0
    frame.sampled = 0
    frame.answerable = 0
    frame.tagged = 0
    frame.tag = 0
    frame.mark = 0
    frame.path = 0
    frame.input = NOWHERE
    frame.source = NOWHERE
    frame.destination = NOWHERE
    frame.carries = 0


@compiled
def _trace_frame(network: NetworkState, index: int, sender: int, time_ns: int) -> None:
    """Keep a frame whose last bit ``sender`` puts on its link at ``time_ns``."""
    frame, place = network.pool.frames[index], network.log.traced
    network.log.traced += 1
    row = network.traced[place]
    row.time_ns = time_ns
    row.what = DATA_FRAME
    row.sender = sender
    row.serial = frame.serial
    row.station = frame.station
    row.destination = frame.destination
    row.flow = frame.flow
    row.priority = frame.priority
    row.octets = frame.octets
    row.probe = frame.probe
    row.tagged = frame.tagged
    row.tag = frame.tag
    row.mark = frame.mark
    row.source = frame.source
    row.number = frame.number
    if frame.carries == 1:
        row.what = MESSAGE_FRAME
        network.traced_messages[place] = network.carried[index]


@compiled
def _trace_message(network: NetworkState, message: Message, what: int, sender: int, time_ns: int) -> None:
    """Keep a message that is no frame of the network: one out of band, or PAUSE or PFC."""
    place = network.log.traced
    network.log.traced += 1
    row = network.traced[place]
    row.time_ns = time_ns
    row.what = what
    row.sender = sender
    row.serial = message.cause
    row.station = NOWHERE
    row.destination = message.station
    row.flow = NOWHERE
    row.priority = message.priority
    row.octets = MESSAGE_OCTETS
    row.probe = row.tagged = row.tag = row.mark = 0
    row.source = row.number = NOWHERE
    network.traced_messages[place] = message


@compiled
def _send_message(network: NetworkState, message: Message, sender: int) -> None:
    """Put a message out of band in flight; ``sender`` is a port, or counted on behind these a station."""
    loop, links = network.loop, network.links
    station, stations = message.station, len(links)
    if loop.is_tracing == 1:
        _trace_message(network, message, MESSAGE_OUT_OF_BAND, sender, message.time_ns)
    if len(network.delays_ns) > 0:
        among = range(stations) if station == EVERY_STATION else range(station, station + 1)
        for each in among:
            delay_ns = network.delays_ns[sender * stations + each]
            _put_in_flight(network, message, each, message.time_ns + delay_ns)
    elif station == EVERY_STATION and loop.same_delays == 0:
        for each in range(stations):
            _put_in_flight(network, message, each, message.time_ns + links[each].to_station_ns)
    else:
        _put_in_flight(network, message, station, message.time_ns + links[max(0, station)].to_station_ns)


@inlined
def _put_in_flight(network: NetworkState, message: Message, station: int, due_ns: int) -> None:
    """Send ``message`` to ``station``, behind all that come there or elsewhere by ``due_ns``."""
    loop, mask = network.loop, len(network.in_flight) - 1
    place = loop.sent
    if loop.same_delays == 0:
        while place > loop.received and network.due_ns[(place - 1) & mask] > due_ns:
            network.in_flight[place & mask] = network.in_flight[(place - 1) & mask]
            network.due_ns[place & mask] = network.due_ns[(place - 1) & mask]
            place -= 1
    network.in_flight[place & mask] = message
    network.in_flight[place & mask].station = station
    network.due_ns[place & mask] = due_ns
    loop.sent += 1


@compiled
def _stop_feeds(network: NetworkState, posted: int, switch: int, now_ns: int) -> None:
    """Send PAUSE or PFC frames posted from index ``posted`` on to what feeds ``switch`` (rule 6)."""
    of = network.switches[switch]
    for number in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[number]
        inlet = message.station
        for each in range(of.feeds):
            if each == inlet or inlet == EVERY_STATION:
                feed = network.feeds[of.first_feed + each]
                if network.loop.is_tracing == 1:
                    _trace_message(network, message, FLOW_CONTROL_FRAME, of.first_feed + each, now_ns)
                station = feed.station if feed.port == NOWHERE else len(network.links) + feed.port
                _put_in_flight(network, message, station, now_ns + feed.back_ns)


@compiled
def _arrive(
    network: NetworkState,
    senders: Senders,
    arrivals: Arrivals,
    feedback: CapturedFeedback,
    position: int,
    serial: int,
    now_ns: int,
) -> None:
    """Take a frame of the capture at its station (rule 1)."""
    index = take(network.pool)
    frame = network.pool.frames[index]
    _clear(frame)
    frame.serial = serial
    frame.station = arrivals.station[position]
    frame.flow = arrivals.flow[position]
    frame.priority = arrivals.priority[position]
    frame.octets = arrivals.octets[position]
    frame.sampled = arrivals.sampled[position]
    frame.answerable = arrivals.answerable[position]
    frame.tagged = arrivals.tagged[position]
    frame.tag = arrivals.tag[position]
    frame.mark = arrivals.mark[position]
    if feedback.message[position] >= 0:
        for message in range(feedback.message[position], feedback.until[position]):
            _receive(network, senders, feedback.messages[message], now_ns)
        _note(network, frame, PASSED_BY, -1, 0.0, NO_AVERAGE)
        give_back(network.pool, index)
    elif not arrivals.occupies[position] or frame.octets <= 0:
        _note(network, frame, PASSED_BY, -1, 0.0, NO_AVERAGE)
        give_back(network.pool, index)
    elif frame.station < 0 or frame.flow < 0:
        _pass(network, index, 0, NOWHERE, now_ns, 0.0, NO_AVERAGE)
    else:
        _route(network, senders, index, now_ns)


@compiled
def _take_offers(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Take the frames that sources have just offered at their stations (rule 1)."""
    offers, loop = network.offers, network.loop
    for number in range(offers.count.posted):
        offer: Offer = offers.records[number]
        index = take(network.pool)
        frame = network.pool.frames[index]
        _clear(frame)
        loop.serial += 1
        frame.serial = loop.serial
        frame.station = offer.station
        frame.destination = offer.destination
        frame.flow = offer.flow
        frame.priority = offer.priority
        frame.octets = offer.octets
        frame.sampled = 1
        frame.answerable = 1
        frame.path = offer.path
        frame.source = offer.source
        frame.number = offer.number
        frame.offered_ns = now_ns
        counts = network.flow_counts[offer.source]
        counts.offered_frames += 1
        counts.offered_octets += offer.octets
        _route(network, senders, index, now_ns)
    offers.count.posted = 0


@compiled
def _tell_sources(network: NetworkState, senders: Senders, sources: Sources, now_ns: int) -> None:
    """Tell sources of their frames that left their hosts or were refused there, and take what they offer."""
    # Taking offers adds notes of refused ones at most, for which nothing is offered.
    while network.note_count.noted > 0:
        network.note_count.noted -= 1
        note = network.notes[network.note_count.noted]
        if note.refused == 1:
            sources.on_frame_refused(note.source, note.number, now_ns)
            continue
        sources.on_frame_sent(note.source, note.number, now_ns, network.offers)
        if network.offers.count.posted > 0:
            _take_offers(network, senders, now_ns)


@inlined
def _note_source(network: NetworkState, frame: Frame, refused: int) -> None:
    note = network.notes[network.note_count.noted]
    note.refused = refused
    network.note_count.noted += 1
    note.source = frame.source
    note.number = frame.number


@compiled
def _route(network: NetworkState, senders: Senders, index: int, now_ns: int) -> None:
    frame = network.pool.frames[index]
    station, priority = frame.station, frame.priority
    if not is_sending(network.gates, station, priority):
        starts_sending(network.gates, station, priority, now_ns)
    base = station * (ENTRIES + senders.limiters())
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
        _note(network, frame, HELD_OUT, -1, 0.0, NO_AVERAGE)
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
    """Return when the head of a station's queue may leave it."""
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
def _wake(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Handle the first event of the heap: a station's timer, or the head of one of its queues."""
    entry = first(network.events)
    each = ENTRIES + senders.limiters()
    station, part = entry // each, entry % each
    if part == TIMER:
        senders.on_station_timer(station, now_ns)
        _review(network, senders, station, now_ns)
        return
    if part == ON_LINK:
        _come(network, station, entry, now_ns)
        return
    link = network.links[station]
    is_shared = link.shared_ns > 0 and link.free_ns <= now_ns <= link.shared_ns
    if is_shared and is_next_due(network.events, now_ns):
        entry = _came_first(network, station * each, link.parts, entry, now_ns)
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
def _came_first(network: NetworkState, base: int, parts: int, entry: int, now_ns: int) -> int:
    """Return the due queue with the oldest head, of a station whose ``parts`` entries begin at ``base``."""
    serial = network.pool.frames[network.queues[entry].head].serial
    for other in range(base + OWN_QUEUES, base + parts):
        if network.events.due_ns[other] <= now_ns and network.queues[other].length > 0:
            came = network.pool.frames[network.queues[other].head].serial
            if came < serial:
                entry, serial = other, came
    return entry


@compiled
def _review(network: NetworkState, senders: Senders, station: int, now_ns: int) -> None:
    """Update the times at which a station's queues and timer are due."""
    each = ENTRIES + senders.limiters()
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
        _occupy(network, station, frame.octets, now_ns, True)
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
    _occupy(network, station, frame.octets, now_ns, limiter != NO_LIMITER)
    set_due(
        network.events,
        station * (ENTRIES + senders.limiters()) + TIMER,
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


@inlined
def _occupy(network: NetworkState, station: int, octets: int, now_ns: int, shared: bool) -> None:
    """Occupy a station's link with a frame; others share it from then on if it is ``shared``."""
    loop, link = network.loop, network.links[station]
    bit_ns = 8 * (octets + loop.overhead_octets) * NS_PER_S
    link.free_ns = max(link.free_ns, now_ns) + -(-bit_ns // link.rate_bps)
    if shared or (link.shared_ns > 0 and now_ns <= link.shared_ns):
        link.shared_ns = max(link.shared_ns, link.free_ns)


@compiled
def _probe(
    network: NetworkState, message: Message, serial: int, destination: int, path: int, now_ns: int
) -> None:
    message.sent = 0
    message.cause = serial
    index = take(network.pool)
    frame = network.pool.frames[index]
    _clear(frame)
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
    _occupy(network, frame.station, PROBE_OCTETS, now_ns, True)
    _put_on_link(network, index, now_ns, 0.0, NO_AVERAGE)


@inlined
def _put_on_link(network: NetworkState, index: int, now_ns: int, limit_bps: float, rtt_ns: float) -> None:
    """Send a frame to the port, where it comes at once or when its link has delayed it (rule 2)."""
    frame = network.pool.frames[index]
    station = frame.station
    link = network.links[station]
    # A capture has a frame's last bit at its time; in a network the link takes its time to send it.
    sent_ns = link.free_ns if len(network.routes) > 0 else now_ns
    if network.loop.is_tracing == 1:
        _trace_frame(network, index, len(network.ports) + station, sent_ns)
    comes_ns = sent_ns + link.to_port_ns
    if comes_ns == now_ns:
        _pass(network, index, 0, NOWHERE, now_ns, limit_bps, rtt_ns)
        return
    frame.comes_ns, frame.limit_bps, frame.rtt_average_ns = comes_ns, limit_bps, rtt_ns
    queue = network.on_link[station]
    append(network.pool, queue, index)
    if queue.length == 1:
        each = len(network.queues) // len(network.links)
        set_due(network.events, station * each + ON_LINK, frame.comes_ns)


@compiled
def _come(network: NetworkState, station: int, entry: int, now_ns: int) -> None:
    """Take the first frame on a station's link to its switch."""
    queue, link = network.on_link[station], network.links[station]
    index = take_first(network.pool, queue)
    frame = network.pool.frames[index]
    set_due(network.events, entry, network.pool.frames[queue.head].comes_ns if queue.length > 0 else NEVER_NS)
    _pass(network, index, link.switch, link.input, now_ns, frame.limit_bps, frame.rtt_average_ns)


@inlined
def _port_to(network: NetworkState, switch: int, destination: int, path: int) -> int:
    """Return the port of ``switch`` on a shortest way to ``destination``."""
    if len(network.routes) == 0:
        return 0
    row = switch * len(network.links) + destination
    start = network.routes[row]
    return int(network.choices[start + path % (network.routes[row + 1] - start)])


@compiled
def _pass(
    network: NetworkState, index: int, switch: int, inlet: int, now_ns: int, limit_bps: float, rtt_ns: float
) -> None:
    """Enqueue a frame at a port of ``switch``, or drop it, and tell the congestion point."""
    frame, outbox = network.pool.frames[index], network.outbox
    number = _port_to(network, switch, frame.destination, frame.path)
    port, point, way = network.ports[number], network.points[number], network.ways[number]
    memory = network.switches[switch]
    frame.input = inlet
    idle = port.line.in_service_octets == 0
    enqueued = bool(
        memory.held_octets + frame.octets <= memory.memory_octets
        and memory.held_frames < memory.memory_frames
        and _fits_partition(network, memory.first_feed + inlet, inlet, frame.octets)
        and arrive(port, now_ns, frame.priority, frame.octets, index, frame.tagged == 1)
    )
    if enqueued:
        memory.held_octets += frame.octets
        memory.held_frames += 1
        if inlet != NOWHERE:
            feed = network.feeds[memory.first_feed + inlet]
            feed.held_octets += frame.octets
            feed.held_frames += 1
            feed.peak_octets = max(feed.peak_octets, feed.held_octets)
        if idle and port.line.in_service_octets > 0:
            set_due(network.port_events, number, port.line.departure_ns)
        elif free_slots(port.line, frame.priority) < _FREE_SLOTS:
            network.loop.tight_port, network.loop.tight_priority = number, frame.priority
    qlen_octets = port.gauge.level_octets[frame.priority]
    posted = outbox.posted.count
    if frame.carries == 0:
        outbox.posted.cause = frame.serial
        point.on_arrival(
            Arrival(
                now_ns, frame.station, frame.flow, frame.priority, frame.octets, frame.sampled == 1,
                frame.answerable == 1, enqueued, frame.tagged == 1, frame.tag, frame.mark, qlen_octets,
                port.gauge.level_octets[TOTAL],
            ),
            outbox,
        )  # fmt: skip
        outbox.posted.cause = NO_CAUSE
        set_due(network.timers, number, point.next_timer_ns())
        _dispatch_own(network, posted, number, now_ns)
        if enqueued and frame.tagged == 1:
            frame.tag = point.rewrite_tag(frame.priority, frame.tag)
        _note(network, frame, ENQUEUED if enqueued else DROPPED, qlen_octets, limit_bps, rtt_ns)
    if way.control != NOWHERE and enqueued:
        _watch(network, frame, number, now_ns)
    if not enqueued:
        _drop(network, index, number)


@inlined
def _fits_partition(network: NetworkState, number: int, inlet: int, octets: int) -> bool:
    """Return whether what a switch holds of an input may have ``octets`` more."""
    if inlet == NOWHERE:
        return True
    feed = network.feeds[number]
    return bool(
        feed.held_octets + octets <= feed.partition_octets and feed.held_frames < feed.partition_frames
    )


@compiled
def _watch(network: NetworkState, frame: Frame, number: int, now_ns: int) -> None:
    """Tell a port's flow control of a frame that was enqueued (rule 6)."""
    way, outbox = network.ways[number], network.outbox
    if not is_sending(network.port_gates, number, frame.priority):
        starts_sending(network.port_gates, number, frame.priority, now_ns)
    control, posted = network.controls[way.control], outbox.posted.count
    levels = network.ports[number].gauge.level_octets
    control.on_arrival(
        Arrival(
            now_ns, frame.input, -1, frame.priority, frame.octets, False, False, True, False, 0, 0,
            levels[frame.priority], levels[TOTAL],
        ),
        outbox,
    )  # fmt: skip
    set_due(network.timers, len(network.ports) + way.control, control.next_timer_ns())
    _stop_feeds(network, posted, way.switch, now_ns)


@compiled
def _drop(network: NetworkState, index: int, number: int) -> None:
    """Count a frame that a port has dropped."""
    frame, counts = network.pool.frames[index], network.port_counts[number]
    if frame.carries == 1:
        counts.lost_messages += 1
    else:
        counts.dropped_frames += 1
        counts.dropped_octets += frame.octets
    if frame.source != NOWHERE:
        network.flow_counts[frame.source].dropped_frames += 1
        network.flow_counts[frame.source].dropped_octets += frame.octets
    give_back(network.pool, index)


@inlined
def _note(
    network: NetworkState, frame: Frame, disposition: int, qlen_octets: int, limit_bps: float, rtt_ns: float
) -> None:
    if network.loop.is_logging == 0:
        return
    passage = network.passages[network.log.passages]
    network.log.passages += 1
    passage.serial = frame.serial
    passage.time_ns = network.loop.now_ns
    passage.station = frame.station
    passage.flow = frame.flow
    passage.priority = frame.priority
    passage.octets = frame.octets
    passage.disposition = disposition
    passage.probe = frame.probe
    passage.tagged = frame.tagged
    passage.tag = frame.tag
    passage.mark = frame.mark
    passage.qlen_octets = qlen_octets
    passage.limit_bps = limit_bps
    passage.rtt_average_ns = rtt_ns


@compiled
def _depart(
    network: NetworkState,
    senders: Senders,
    receivers: Receivers,
    sources: Sources,
    number: int,
    now_ns: int,
) -> None:
    """Take the frame on a port's line on its way, and serve the next (rule 3)."""
    port, point, way = network.ports[number], network.points[number], network.ways[number]
    outbox, memory = network.outbox, network.switches[way.switch]
    posted = outbox.posted.count
    index = depart(port)
    _schedule(network, number)
    frame = network.pool.frames[index]
    memory.held_octets -= frame.octets
    memory.held_frames -= 1
    if frame.input != NOWHERE:
        feed = network.feeds[memory.first_feed + frame.input]
        feed.held_octets -= frame.octets
        feed.held_frames -= 1
    counts = network.port_counts[number]
    counts.sent_frames += 1
    counts.sent_octets += frame.octets
    if network.loop.is_tracing == 1 and way.is_adapter == 0:
        _trace_frame(network, index, number, now_ns)
    port_octets = port.gauge.level_octets[TOTAL]
    if frame.carries == 0:
        outbox.posted.cause = frame.serial
        point.on_dequeue(now_ns, frame.station, frame.priority, frame.octets, port_octets, outbox)
        set_due(network.timers, number, point.next_timer_ns())
    else:
        counts.message_frames += 1
        counts.message_octets += frame.octets
    if way.control != NOWHERE:
        _dispatch_own(network, posted, number, now_ns)
        posted = outbox.posted.count
        control = network.controls[way.control]
        control.on_dequeue(now_ns, frame.input, frame.priority, frame.octets, port_octets, outbox)
        set_due(network.timers, len(network.ports) + way.control, control.next_timer_ns())
        _stop_feeds(network, posted, way.switch, now_ns)
        posted = outbox.posted.count
    if way.next_switch != NOWHERE or way.delay_ns > 0:
        outbox.posted.cause = NO_CAUSE
        _dispatch_own(network, posted, number, now_ns)
        frame.comes_ns = now_ns + way.delay_ns
        queue = network.lines[number]
        append(network.pool, queue, index)
        if queue.length == 1:
            set_due(network.port_events, len(network.ports) + number, frame.comes_ns)
        return
    if len(network.routes) == 0:
        _tell_receivers(network, receivers, frame, now_ns)
        outbox.posted.cause = NO_CAUSE
        _deliver(network, sources, index, now_ns)
        _dispatch_own(network, posted, number, now_ns)
        return
    _dispatch_own(network, posted, number, now_ns)
    _end(network, senders, receivers, sources, number, index, now_ns)


@inlined
def _schedule(network: NetworkState, number: int) -> None:
    """Update when the frame on a port's line departs."""
    line = network.ports[number].line
    set_due(network.port_events, number, line.departure_ns if line.in_service_octets > 0 else NEVER_NS)


@compiled
def _end(
    network: NetworkState,
    senders: Senders,
    receivers: Receivers,
    sources: Sources,
    number: int,
    index: int,
    now_ns: int,
) -> None:
    """Take a frame at the station at the end of its way, where it is data, or carries a message."""
    frame = network.pool.frames[index]
    if frame.carries == 1:
        message, station = network.carried[index], frame.destination
        _put_in_flight(network, message, station, now_ns + network.links[station].reaction_ns)
        give_back(network.pool, index)
        return
    if network.ways[number].is_adapter == 0:
        posted, station = network.outbox.posted.count, frame.destination
        _tell_receivers(network, receivers, frame, now_ns)
        network.outbox.posted.cause = NO_CAUSE
        _dispatch(network, senders, posted, NOWHERE, station, now_ns)
    _deliver(network, sources, index, now_ns)
    if network.offers.count.posted > 0:
        _take_offers(network, senders, now_ns)


@inlined
def _tell_receivers(network: NetworkState, receivers: Receivers, frame: Frame, now_ns: int) -> None:
    network.outbox.posted.cause = frame.serial
    if frame.station >= 0 and frame.flow >= 0:
        delivery = Delivery(
            now_ns, frame.station, frame.flow, frame.priority, frame.octets, frame.probe == 1,
            frame.tagged == 1, frame.tag, frame.mark,
        )  # fmt: skip
        receivers.on_delivery(delivery, network.outbox)


@inlined
def _deliver(network: NetworkState, sources: Sources, index: int, now_ns: int) -> None:
    """Count a frame that has come to its destination, and give it to its source there."""
    frame = network.pool.frames[index]
    network.log.delivered_frames += 1
    network.log.delivered_octets += frame.octets
    if frame.source != NOWHERE:
        counts = network.flow_counts[frame.source]
        delay_ns = now_ns - frame.sent_ns
        counts.delivered_frames += 1
        counts.delivered_octets += frame.octets
        counts.delay_ns += delay_ns
        counts.longest_ns = max(counts.longest_ns, delay_ns)
        sources.on_frame_delivered(
            frame.source, frame.number, frame.octets, frame.offered_ns, now_ns, network.offers
        )
    give_back(network.pool, index)


@compiled
def _report(network: NetworkState, senders: Senders, receivers: Receivers, now_ns: int) -> None:
    """Send the reports of destinations, which pass the ports' congestion points on their way."""
    posted = network.outbox.posted.count
    receivers.post_reports(now_ns, network.outbox)
    for number in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[number]
        if len(network.routes) == 0:
            message.rate_kbps = network.points[0].rewrite_tag(message.priority, message.rate_kbps)
            continue
        stations = len(network.links)
        destination = network.flow_ends[message.station * (len(network.flow_ends) // stations) + message.flow]
        switch = network.links[message.station].switch
        while switch != NOWHERE:
            port = _port_to(network, switch, destination, 0)
            message.rate_kbps = network.points[port].rewrite_tag(message.priority, message.rate_kbps)
            switch = network.ways[port].next_switch
        _dispatch_one(network, senders, number, destination, now_ns)
    if len(network.routes) == 0:
        _dispatch_own(network, posted, 0, now_ns)


@compiled
def _deliver_message(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Deliver the first message in flight."""
    loop = network.loop
    message = network.in_flight[loop.received & (len(network.in_flight) - 1)]
    loop.received += 1
    _receive(network, senders, message, now_ns)


@compiled
def _receive(network: NetworkState, senders: Senders, message: Message, now_ns: int) -> None:
    """Deliver a message to its station, to every station, or to a port."""
    network.log.received_messages += 1
    station = message.station
    if station == EVERY_STATION:
        for each in range(len(network.links)):
            _take(network, senders, message, each, now_ns)
    elif station >= len(network.links):
        port = station - len(network.links)
        obey(network.port_gates, port, message, now_ns)
        _log_stop(network, message, station, now_ns)
        _gate(network, port, now_ns)
    elif station != NO_STATION:
        _take(network, senders, message, station, now_ns)


@compiled
def _log_stop(network: NetworkState, message: Message, station: int, now_ns: int) -> None:
    """Count a PAUSE or PFC frame at what it is for, and keep it while there is room."""
    fields, count = flow_control_payload(message), network.stop_count
    if station >= len(network.links):
        counts = network.port_counts[station - len(network.links)]
        counts.xoff_frames += fields.quanta > 0
        counts.xon_frames += fields.quanta == 0
    if count.logged < len(network.stop_events):
        event = network.stop_events[count.logged]
        count.logged += 1
        event.time_ns = now_ns
        event.station = station
        event.priority = message.priority if message.kind == PFC_KIND else NOWHERE
        event.stops = int(fields.quanta > 0)


@compiled
def _gate(network: NetworkState, number: int, now_ns: int) -> None:
    """Stop or start a port's priorities as PAUSE and PFC have it now (rule 6)."""
    stopped, until_ns = 0, NEVER_NS
    for priority in range(PRIORITIES):
        opens = opens_ns(network.port_gates, number, priority, now_ns)
        if opens > now_ns:
            stopped |= 1 << priority
            until_ns = min(until_ns, opens)
    counts = network.port_counts[number]
    if stopped == 0 and counts.stopped_since_ns != NEVER_NS:
        counts.stopped_ns += now_ns - counts.stopped_since_ns
        counts.stopped_since_ns = NEVER_NS
    elif stopped != 0 and counts.stopped_since_ns == NEVER_NS:
        counts.stopped_since_ns = now_ns
    stop(network.ports[number], stopped, now_ns)
    _schedule(network, number)
    set_due(network.timers, len(network.ports) + len(network.controls) + number, until_ns)


@compiled
def _take(network: NetworkState, senders: Senders, message: Message, station: int, now_ns: int) -> None:
    if message.kind == PAUSE_KIND or message.kind == PFC_KIND:
        obey(network.gates, station, message, now_ns)
        _log_stop(network, message, station, now_ns)
    else:
        senders.on_message(message, now_ns)
    _review(network, senders, station, now_ns)
