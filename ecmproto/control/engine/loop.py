"""Closed loop: stations with reaction points, switches with ports, destinations, and messages between them.

The code of the loop is compiled once for all mechanisms. The rules of the loop:

1. A captured frame arrives at its station at its captured time, and a source's frame when it is offered. The
   frame waits for its limiter in a finite queue, or leaves at once. A frame of a paused priority waits in the
   station's own queue of this priority, and so does a frame after another paused frame. Waiting frames leave
   no faster than the link. A shared link sends the ready frames of a station in order of arrival. Sharing
   begins when a frame released by a limiter is ready for the link, or when a probe is on the link. Sharing
   ends when the link is idle. Before sharing begins, captured frames leave at their captured times, because
   these frames did fit on a link. Frames of sources always share the link. If a frame is ready within the ns
   in which the previous frame ends, there is no gap between the two frames, so that fractions of ns never add
   up.
2. A frame reaches the port after its link's delay, with its tag. A probe follows its frame in band. A switch
   with several ports selects a port on a shortest path to the destination.
3. A frame that leaves a port reaches the next switch or its destination after the delay of the line. Messages
   of ports and destinations reach their station after the delay of the station's link, or after the delay in
   the table of delays. Messages use no bandwidth, unless messages are frames.
4. If feedback in the capture is read, a captured frame that is feedback to a station is received at its
   captured time, and uses no resources of the port.
5. At equal times, events have this order: a change of a port's rate, departures (by port), frames from lines
   (by port), timers of congestion points, messages, reports of destinations, the stations' timers and queues
   (by number), sources, and the capture's arrivals.
6. PAUSE and PFC of a switch reach the feed of the switch's input after the delay of the link. The feed is a
   station, or a port of another switch. The feed starts no frame of a stopped priority. PAUSE and PFC use the
   line from the port or host to the feed: after the current frame, before all waiting frames.
7. A congestion point may isolate a flow: later frames of the flow wait in the isolated queue. The line serves
   the isolated queue after the queue of the flow's priority, and stops it whenever it stops this queue, so
   that frames of a flow are not reordered. The next switch stops the queue in which a frame waited here. The
   messages of `select_queue` use the line to a feed that is a port, in the same way as PFC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.control.engine.arrivals import Arrivals
from ecmproto.control.engine.event_heap import first, first_beside, first_ns, set_due
from ecmproto.control.engine.frame_pool import NOWHERE, append, give_back, take, take_first
from ecmproto.control.engine.gauge import step_of
from ecmproto.control.engine.mail import enlarge_mailbox, lengthened_records
from ecmproto.control.engine.messages import (
    count_message,
    message_frame,
    post_frame,
    put_in_flight,
    send_of_port,
    send_out_of_band,
    stop_feeds,
    trace_frame,
)
from ecmproto.control.engine.network import (
    ECMP,
    NetworkState,
    add_frames,
    is_foreign,
    lengthen_in_flight,
    lengthen_tight_ring,
    max_traced_frames,
    stack_of,
)
from ecmproto.control.engine.port import PASSED_BY, depart, end_control
from ecmproto.control.engine.port_steps import leave, tick
from ecmproto.control.engine.stations import receive_message, route_frame, wake_station
from ecmproto.control.engine.switches import (
    drop,
    gate_port,
    is_discarding,
    lose,
    note_passage,
    pass_to_port,
    port_to,
    schedule_departure,
)
from ecmproto.control.engine.traffic import MAX_OFFERS, Offer, Sources
from ecmproto.control.mechanisms.api.protocol import (
    EVENT_MESSAGES,
    NO_AVERAGE,
    NO_CAUSE,
    NO_STATION,
    Delivery,
    Receivers,
    Senders,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.prefetching import CACHE_LINE, prefetch
from ecmproto.wire.formats.ip import CE, ECT0

if TYPE_CHECKING:
    from ecmproto.control.engine.feedback import CapturedFeedback

_MANY_PORTS = 256
"""Number of ports above which the port state does not fit into the processor's own cache."""
_PORT_LEVEL, _FRAME_LEVEL, _NEXT_PORT_LEVEL = 6, 4, 3
"""Levels in the heap of ports whose first entries are prefetched; entries at lower levels are due sooner."""
_PORT_LINES = 14
_SERIAL_SHIFT = 12
"""Number of low bits of a serial number that distinguish offers of one time, in a part of a network."""


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
    """Run the loop until the frames of ``arrivals`` from index ``position`` on have arrived.

    ``serial`` is the number of the first such frame. With ``last``, the loop runs until nothing is in flight.
    Return the index of the first frame that has not arrived. The loop stops early if a store is full, and for
    a rate change.
    """
    loop, count = network.loop, arrivals.time_ns.size
    timers, ports = network.timers, len(network.ports)
    loop.source_ns, loop.report_ns = sources.next_source_ns(), receivers.next_report_ns()
    until_ns, is_part = min(loop.change_ns, loop.window_ns), len(network.part_of) > 0
    ticked, spare = False, 0
    while True:
        if spare == 0 or loop.tight_port != NOWHERE:
            spare = spare_events(network)
            if spare == 0:
                break
        spare -= 1
        port_ns = first_ns(network.port_events)
        message_ns = next_message_ns(network)
        entry_ns = first_ns(network.events)
        report_ns, source_ns = loop.report_ns, loop.source_ns
        arrival_ns = NEVER_NS
        if position < count:
            arrival_ns = arrivals.time_ns[position]
        elif not last or (
            network.pool.stock.used == 0
            and loop.sent == loop.received
            and source_ns == NEVER_NS
            and not is_part
        ):
            break
        tick_ns = first_ns(timers)
        other_ns = min(min(port_ns, message_ns), min(report_ns, min(entry_ns, min(source_ns, arrival_ns))))
        if min(tick_ns, other_ns) >= until_ns:
            loop.changes = 1
            if until_ns == loop.change_ns:
                _end_all_quietly(network, sources, until_ns - 1)
            break
        if tick_ns < other_ns and ticked and ports == 1 and network.ports[0].line.in_service_octets == 0:
            # Nothing changes between the ticks of an idle port, so one call processes all ticks.
            tick_ns = min(other_ns, until_ns - 1)
        now_ns = min(tick_ns, other_ns)
        ticked = port_ns > now_ns and tick_ns <= now_ns
        loop.now_ns = now_ns
        if port_ns == now_ns:
            entry = first(network.port_events)
            _on_port(network, senders, receivers, sources, now_ns)
            if ports > _MANY_PORTS:
                _prefetch(network, entry)
        elif tick_ns <= now_ns:
            _on_timer(network, first(timers), now_ns)
            spare = 0
        elif message_ns == now_ns:
            _deliver_message(network, senders, now_ns)
        elif report_ns == now_ns:
            _report(network, senders, receivers, now_ns)
            spare = 0
        elif entry_ns == now_ns:
            wake_station(network, senders, now_ns)
        elif source_ns == now_ns:
            sources.on_source_timer(now_ns, network.offers)
            loop.source_ns = sources.next_source_ns()
            _take_offers(network, senders, now_ns)
        else:
            _arrive(network, senders, arrivals, feedback, position, serial + position, now_ns)
            position += 1
        if network.log.notes > 0:
            _notify_sources(network, senders, sources, now_ns)
        loop.events += 1
        if loop.is_logging == 0:
            network.outbox.posted.count = 0
    return position


@compiled
def spare_events(network: NetworkState) -> int:
    """Return the number of further events for which every store has capacity.

    If the result is 0, call `enlarge_stores` or drain the full store. A timer or a report may fill the
    outbox, so call this function again after a timer or report.
    """
    loop, outbox = network.loop, network.outbox
    spare = _spare_frames(network)
    spare = min(spare, _spare_flights(network))
    completions = len(network.offers.completions) - network.offers.count.completed
    spare = min(spare, completions // (EVENT_MESSAGES + MAX_OFFERS))
    messages = len(outbox.messages) - outbox.posted.count
    if loop.is_logging == 1:
        spare = min(spare, messages // EVENT_MESSAGES)
        passages = len(network.passages) - network.log.passages
        spare = min(spare, passages // (EVENT_MESSAGES + MAX_OFFERS))
    else:
        # The messages of an event are sent before the next event.
        spare = spare if messages >= EVENT_MESSAGES else 0
        spare = min(spare, len(network.stop_events) - network.log.stop_events)
    if len(network.part_of) > 0:
        spare = min(spare, _spare_mail(network))
    if loop.is_tracing == 1:
        spare = min(spare, (len(network.traced) - network.log.traced) // max_traced_frames(network))
    return spare if loop.tight_port == NOWHERE else 0


@inlined
def _spare_frames(network: NetworkState) -> int:
    """Return the number of further events for which the pool has enough free frames."""
    return (len(network.pool.frames) - network.pool.stock.used) // (EVENT_MESSAGES + MAX_OFFERS)


@inlined
def _spare_flights(network: NetworkState) -> int:
    """Return the number of further events for which ``in_flight`` has capacity, before a full outbox."""
    in_flight = network.loop.sent - network.loop.received
    # A message to every station is one message per station if the delays differ.
    copies = 0 if network.loop.same_delays == 1 else EVENT_MESSAGES * len(network.links)
    spare = len(network.in_flight) - in_flight - len(network.outbox.messages)
    return max(0, spare // (EVENT_MESSAGES + copies))


@compiled
def _spare_mail(network: NetworkState) -> int:
    """Return the number of further events for which mailboxes and the list of begun flows have capacity."""
    begun = len(network.offers.begun) - network.offers.count.begun
    spare = begun // (EVENT_MESSAGES + MAX_OFFERS)
    for number in range(network.loop.parity, len(network.mail), 2):
        mailbox = network.mail[number]
        spare = min(spare, (len(mailbox.frames) - mailbox.count.frames) // EVENT_MESSAGES)
        messages = len(mailbox.messages) - mailbox.count.messages
        spare = min(spare, messages // (EVENT_MESSAGES * (1 + len(network.links))))
        if len(mailbox.begun) < len(network.offers.begun):
            spare = 0
    return spare


def enlarge_stores(network: NetworkState) -> None:
    """Enlarge the exhausted stores that cannot be drained."""
    lengthen_tight_ring(network)
    if len(network.part_of) and _spare_mail(network) == 0:
        offers = network.offers
        if offers.count.begun:
            offers.begun = lengthened_records(offers.begun)
        for mailbox in network.mail[network.loop.parity :: 2]:
            enlarge_mailbox(mailbox, len(offers.begun))
    if _spare_frames(network) == 0:
        add_frames(network)
    if _spare_flights(network) == 0:
        lengthen_in_flight(network)


@inlined
def next_message_ns(network: NetworkState) -> int:
    """Return the arrival time of the first message in flight; NEVER_NS without messages."""
    loop = network.loop
    if loop.sent == loop.received:
        return NEVER_NS
    return int(network.due_ns[loop.received & (len(network.due_ns) - 1)])


@inlined
def _prefetch(network: NetworkState, entry: int) -> None:
    """Prefetch the state that the next port events need, after a change of ``entry`` in the heap of ports.

    The first entry of a subtree changes about once per event. With n subtrees, this entry is due about n
    events later. Ports are prefetched first, then frames, then the next ports.
    """
    ports, events = len(network.ports), network.port_events
    coming = first_beside(events, entry, _PORT_LEVEL)
    if coming < ports:
        _prefetch_port(network, coming)
    elif coming < 2 * ports:
        prefetch(network.lines[coming - ports], 0)
        prefetch(network.outputs[coming - ports], 0)
    coming = first_beside(events, entry, _FRAME_LEVEL)
    if coming < ports:
        gauge = network.ports[coming].gauge
        _prefetch_frame(network, network.ports[coming].line.in_service_token)
        prefetch(gauge.level_ns, 8 * step_of(gauge.bins, gauge.total.octets))
    elif coming < 2 * ports:
        _prefetch_frame(network, max(0, network.lines[coming - ports].head))
    coming = first_beside(events, entry, _NEXT_PORT_LEVEL) - ports
    if 0 <= coming < ports and network.lines[coming].length > 0 and network.loop.paths == ECMP:
        frame, switch = network.pool.frames[network.lines[coming].head], network.outputs[coming].next_switch
        if switch != NOWHERE:
            _prefetch_port(network, max(0, port_to(network, switch, frame.destination, frame.path)))


@inlined
def _prefetch_port(network: NetworkState, port: int) -> None:
    """Prefetch the records of a port, which are adjacent in memory (`kernels.record.adjacent`)."""
    for line in range(_PORT_LINES):
        prefetch(network.ports[port], CACHE_LINE * line)
    for line in range(2):
        prefetch(network.outputs[port], CACHE_LINE * line)
        prefetch(network.port_counts[port], CACHE_LINE * line)
    prefetch(network.lines[port], 0)


@inlined
def _prefetch_frame(network: NetworkState, index: int) -> None:
    for line in range(3):
        prefetch(network.pool.frames[index], CACHE_LINE * line)


@compiled
def _on_port(
    network: NetworkState, senders: Senders, receivers: Receivers, sources: Sources, now_ns: int
) -> None:
    """Process the first port event: a departure, or a frame at the end of a line."""
    entry, ports = first(network.port_events), len(network.ports)
    if entry < ports:
        _depart(network, senders, receivers, sources, entry, now_ns)
        return
    queue = network.lines[entry - ports]
    index = take_first(network.pool, queue)
    arrival_ns = network.pool.frames[queue.head].arrival_ns if queue.length > 0 else NEVER_NS
    set_due(network.port_events, entry, arrival_ns)
    port = entry - ports
    if port >= ports:
        pass_to_port(network, index, port - ports, NOWHERE, now_ns, 0.0, NO_AVERAGE)
        return
    output = network.outputs[port]
    if output.next_switch == NOWHERE:
        _end(network, senders, receivers, sources, port, index, now_ns)
        return
    frame = network.pool.frames[index]
    if output.ends == 1 and frame.carries == 0:
        posted = network.outbox.posted.count
        _notify_receivers(network, receivers, index, now_ns)
        _send_of_station(network, senders, posted, frame.destination, now_ns)
    pass_to_port(network, index, output.next_switch, output.input, now_ns, 0.0, NO_AVERAGE)


@compiled
def _on_timer(network: NetworkState, entry: int, now_ns: int) -> None:
    """Run a timer of a congestion point or of flow control, or end a port's pause."""
    ports, outbox = len(network.ports), network.outbox
    posted = outbox.posted.count
    if entry < ports:
        point = network.points[entry]
        tick(network.ports[entry], point, outbox, now_ns)
        set_due(network.timers, entry, point.next_timer_ns())
        send_of_port(network, posted, entry, now_ns)
        return
    number = entry - ports
    if number < len(network.controls):
        control, switch = network.controls[number], _switch_of(network, number)
        tick(network.ports[network.switches[switch].first_port], control, outbox, now_ns)
        set_due(network.timers, entry, control.next_timer_ns())
        stop_feeds(network, posted, switch, now_ns)
        return
    gate_port(network, number - len(network.controls), now_ns)


@inlined
def _switch_of(network: NetworkState, control: int) -> int:
    """Return the switch of a flow control point."""
    port = 0
    while network.outputs[port].control != control:
        port += 1
    return network.outputs[port].switch


@compiled
def _send_of_station(network: NetworkState, senders: Senders, posted: int, station: int, now_ns: int) -> None:
    """Send the messages that the destination at ``station`` has posted, starting at index ``posted``."""
    for number in range(posted, network.outbox.posted.count):
        _send_one(network, senders, number, station, now_ns)


@compiled
def _send_one(network: NetworkState, senders: Senders, number: int, station: int, now_ns: int) -> None:
    """Send the posted message ``number`` of ``station``."""
    message = network.outbox.messages[number]
    if not message.sent or message.station == NO_STATION:
        return
    count_message(network, message, len(network.ports) + station)
    if network.loop.in_band == 1:
        index = message_frame(network, message, station, len(network.ports) + station, now_ns)
        route_frame(network, senders, index, now_ns)
    else:
        send_out_of_band(network, message, len(network.ports) + station)


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
    """Process a captured frame that arrives at its station (rule 1)."""
    index = take(network.pool)
    frame = network.pool.frames[index]
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
            receive_message(network, senders, feedback.messages[message], now_ns)
        note_passage(network, frame, PASSED_BY, -1, 0.0, NO_AVERAGE)
        give_back(network.pool, index)
    elif not arrivals.occupies[position] or frame.octets <= 0:
        note_passage(network, frame, PASSED_BY, -1, 0.0, NO_AVERAGE)
        give_back(network.pool, index)
    elif frame.station < 0 or frame.flow < 0:
        pass_to_port(network, index, 0, NOWHERE, now_ns, 0.0, NO_AVERAGE)
    else:
        route_frame(network, senders, index, now_ns)


@compiled
def _take_offers(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Process the newly offered frames of sources at their stations (rule 1)."""
    offers, loop = network.offers, network.loop
    for number in range(offers.count.posted):
        offer: Offer = offers.records[number]
        loop.serial += 1
        if len(network.part_of) > 0:
            loop.serial = max(loop.serial, now_ns << _SERIAL_SHIFT)
            if is_foreign(network, offer.station):
                continue
        index = take(network.pool)
        frame = network.pool.frames[index]
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
        frame.number, frame.echo = offer.number, offer.echo
        if offer.is_ect == 1:
            frame.tagged, frame.tag = 1, ECT0
        route_frame(network, senders, index, now_ns)
    offers.count.posted = 0


@compiled
def _notify_sources(network: NetworkState, senders: Senders, sources: Sources, now_ns: int) -> None:
    """Notify sources of frames that left their hosts or were refused there, and process new offers."""
    # New offers add at most notes of refused frames, and sources offer nothing for such notes.
    while network.log.notes > 0:
        network.log.notes -= 1
        note = network.notes[network.log.notes]
        if note.refused == 1:
            sources.on_frame_refused(note.source, note.number, now_ns)
            continue
        sources.on_frame_sent(note.source, note.number, now_ns, network.offers)
        if network.offers.count.posted > 0:
            _take_offers(network, senders, now_ns)
    network.loop.source_ns = sources.next_source_ns()


@compiled
def _depart(
    network: NetworkState,
    senders: Senders,
    receivers: Receivers,
    sources: Sources,
    number: int,
    now_ns: int,
) -> None:
    """Move the frame on a port's line to the next hop, and serve the next frame (rule 3)."""
    port, point, output = network.ports[number], network.points[number], network.outputs[number]
    outbox, memory = network.outbox, network.switches[output.switch]
    posted = outbox.posted.count
    if port.line.in_service_octets == 0:
        end_control(port)
        schedule_departure(network, number)
        return
    counts, index = network.port_counts[number], port.line.in_service_token
    frame = network.pool.frames[index]
    if frame.carries == 0:
        outbox.posted.cause = frame.serial
        leave(port, point, outbox, frame.station)
        set_due(network.timers, number, point.next_timer_ns())
    else:
        depart(port)
        counts.message_frames += 1
        counts.message_octets += frame.octets
    schedule_departure(network, number)
    memory.buffered_octets -= frame.octets
    memory.buffered_frames -= 1
    if frame.input != NOWHERE:
        feed = network.feeds[memory.first_feed + frame.input]
        feed.buffered_octets -= frame.octets
        feed.buffered_frames -= 1
    discards = is_discarding(network, number, frame.priority)
    if not discards:
        counts.sent_frames += 1
        counts.sent_octets += frame.octets
        if network.loop.stack_records > 0 and frame.carries == 0 and frame.tagged == 1:
            line_octets = counts.sent_octets + counts.control_octets
            line_octets += counts.sent_frames * port.line.overhead_octets
            frame.mark = point.add_record(
                now_ns, line_octets, port.gauge.total.octets, frame.mark, stack_of(network, index)
            )
    if network.loop.is_tracing == 1 and not discards and output.is_adapter == 0:
        trace_frame(network, index, number, now_ns)
    if output.control != NOWHERE:
        send_of_port(network, posted, number, now_ns)
        posted = outbox.posted.count
        control, port_octets = network.controls[output.control], port.gauge.total.octets
        control.on_dequeue(now_ns, frame.input, frame.input_queue, frame.octets, port_octets, outbox)
        set_due(network.timers, len(network.ports) + output.control, control.next_timer_ns())
        stop_feeds(network, posted, output.switch, now_ns)
        posted = outbox.posted.count
    if discards or (output.loss > 0.0 and network.draws.random() < output.loss):
        outbox.posted.cause = NO_CAUSE
        send_of_port(network, posted, number, now_ns)
        if discards:
            drop(network, index, number)
        else:
            lose(network, index, number)
        return
    if output.next_switch != NOWHERE or output.delay_ns > 0:
        outbox.posted.cause = NO_CAUSE
        send_of_port(network, posted, number, now_ns)
        frame.arrival_ns = now_ns + output.delay_ns
        if output.next_part != network.loop.part:
            post_frame(network, index, number)
            return
        queue = network.lines[number]
        if output.counts_only == 1:
            _end_quietly(network, sources, number, now_ns)
            append(network.pool, queue, index)
            return
        append(network.pool, queue, index)
        if queue.length == 1:
            set_due(network.port_events, len(network.ports) + number, frame.arrival_ns)
        return
    if len(network.routes) == 0:
        _notify_receivers(network, receivers, index, now_ns)
        _deliver(network, sources, index, now_ns)
        send_of_port(network, posted, number, now_ns)
        return
    send_of_port(network, posted, number, now_ns)
    _end(network, senders, receivers, sources, number, index, now_ns)


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
    """Process a frame at the end of its path, as data or as a message."""
    frame = network.pool.frames[index]
    if frame.carries == 1:
        message, station = network.carried[index], frame.destination
        put_in_flight(network, message, station, now_ns + network.links[station].reaction_ns)
        give_back(network.pool, index)
        return
    if network.outputs[number].is_adapter == 0:
        posted, station = network.outbox.posted.count, frame.destination
        _notify_receivers(network, receivers, index, now_ns)
        _send_of_station(network, senders, posted, station, now_ns)
    _deliver(network, sources, index, now_ns)
    if network.offers.count.posted > 0:
        _take_offers(network, senders, now_ns)


@compiled
def _end_quietly(network: NetworkState, sources: Sources, number: int, until_ns: int) -> None:
    """Count the frames that arrived by ``until_ns`` at a station with `Output.counts_only`."""
    queue, frames = network.lines[number], network.pool.frames
    while queue.length > 0 and frames[queue.head].arrival_ns <= until_ns:
        index = take_first(network.pool, queue)
        _count_delivery(network, sources, index, frames[index].arrival_ns)
        give_back(network.pool, index)
        network.loop.events += 1


@compiled
def _end_all_quietly(network: NetworkState, sources: Sources, until_ns: int) -> None:
    """Count the frames that arrived by ``until_ns`` at all stations with `Output.counts_only`.

    This call is needed before counts are read.
    """
    for number in range(len(network.ports)):
        if network.outputs[number].counts_only == 1 and not is_foreign(network, len(network.links) + number):
            _end_quietly(network, sources, number, until_ns)


@inlined
def _notify_receivers(network: NetworkState, receivers: Receivers, index: int, now_ns: int) -> None:
    """Pass a frame to the receivers; the frame is the cause of all messages that the receivers post."""
    frame = network.pool.frames[index]
    network.outbox.posted.cause = frame.serial
    if frame.station >= 0 and frame.flow >= 0:
        delivery = Delivery(
            now_ns, frame.station, frame.flow, frame.priority, frame.octets, frame.probe == 1,
            frame.tagged == 1, frame.tag, frame.mark, frame.destination, stack_of(network, index),
        )  # fmt: skip
        receivers.on_delivery(delivery, network.outbox)
        network.loop.report_ns = receivers.next_report_ns()
    network.outbox.posted.cause = NO_CAUSE


@inlined
def _deliver(network: NetworkState, sources: Sources, index: int, now_ns: int) -> None:
    """Deliver a frame to its destination."""
    _count_delivery(network, sources, index, now_ns)
    if network.pool.frames[index].source != NOWHERE:
        network.loop.source_ns = sources.next_source_ns()
    give_back(network.pool, index)


@inlined
def _count_delivery(network: NetworkState, sources: Sources, index: int, now_ns: int) -> None:
    """Count a frame that arrived at its destination at ``now_ns``, and notify its source."""
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
        is_marked = frame.tagged == 1 and frame.tag == CE
        sources.on_frame_delivered(frame.source, frame.number, frame.echo, is_marked, now_ns, network.offers)


@compiled
def _report(network: NetworkState, senders: Senders, receivers: Receivers, now_ns: int) -> None:
    """Send the reports of destinations; congestion points on the path process these reports."""
    posted = network.outbox.posted.count
    receivers.post_reports(now_ns, network.outbox)
    network.loop.report_ns = receivers.next_report_ns()
    for number in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[number]
        if len(network.routes) == 0:
            message.rate_kbps = network.points[0].rewrite_tag(message.priority, message.rate_kbps)
            continue
        stations = len(network.links)
        destination = network.flow_ends[message.station * (len(network.flow_ends) // stations) + message.flow]
        switch = network.links[message.station].switch
        while switch != NOWHERE:
            port = port_to(network, switch, destination, 0)
            if port == NOWHERE:
                break
            message.rate_kbps = network.points[port].rewrite_tag(message.priority, message.rate_kbps)
            switch = network.outputs[port].next_switch
        _send_one(network, senders, number, destination, now_ns)
    if len(network.routes) == 0:
        send_of_port(network, posted, 0, now_ns)


@compiled
def _deliver_message(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Deliver the first message in flight."""
    loop = network.loop
    message = network.in_flight[loop.received & (len(network.in_flight) - 1)]
    loop.received += 1
    receive_message(network, senders, message, now_ns)
