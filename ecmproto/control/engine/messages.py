"""Messages of ports and destinations, as frames or out of band, and PAUSE frames to feeds."""

from __future__ import annotations

from ecmproto.control.engine.event_heap import set_due
from ecmproto.control.engine.frame_pool import NOWHERE, append, give_back, take
from ecmproto.control.engine.network import (
    DATA_FRAME,
    FLOW_CONTROL_FRAME,
    MESSAGE_FRAME,
    MESSAGE_OUT_OF_BAND,
    MESSAGE_TYPES,
    Feed,
    NetworkState,
    is_foreign,
    occupy,
    stack_of,
)
from ecmproto.control.engine.port import send_control
from ecmproto.control.mechanisms.api.protocol import EVERY_STATION, NO_STATION, Message
from ecmproto.kernels.kernel import compiled, inlined


@compiled
def send_of_port(network: NetworkState, posted: int, port: int, now_ns: int) -> None:
    """Send the messages that a port's congestion point has posted, starting at index ``posted``."""
    for number in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[number]
        if not message.sent or message.station == NO_STATION:
            continue
        count_message(network, message, port)
        # A message to all stations has no path to queue on.
        if network.loop.in_band == 1 and message.station != EVERY_STATION:
            switch = network.outputs[port].switch
            index = message_frame(network, message, NOWHERE, port, now_ns)
            network.pool.frames[index].arrival_ns = now_ns
            entry = len(network.ports) + switch
            append(network.pool, network.lines[entry], index)
            set_due(network.port_events, len(network.ports) + entry, now_ns)
        else:
            send_out_of_band(network, message, port)


@inlined
def count_message(network: NetworkState, message: Message, sender: int) -> None:
    """Count a message by type and sender; the sender is a port, or a station, numbered after the ports."""
    network.message_counts[sender * MESSAGE_TYPES + min(message.kind, MESSAGE_TYPES - 1)] += 1


@inlined
def message_frame(network: NetworkState, message: Message, station: int, sender: int, now_ns: int) -> int:
    """Return the index of a new frame with a message of ``sender``; ``station`` is NOWHERE for a port."""
    index = take(network.pool)
    network.carried[index] = message
    frame = network.pool.frames[index]
    frame.serial = message.cause
    frame.station = station
    frame.flow = NOWHERE
    frame.priority = network.loop.message_priority
    frame.octets = network.message_octets[min(message.kind, MESSAGE_TYPES - 1)]
    frame.destination = message.station
    frame.carries = 1
    frame.number = sender
    return index


@compiled
def trace_frame(network: NetworkState, index: int, sender: int, time_ns: int) -> None:
    """Trace a frame whose last bit ``sender`` puts on its link at ``time_ns``."""
    frame, traced_index = network.pool.frames[index], network.log.traced
    network.log.traced += 1
    row = network.traced[traced_index]
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
        network.traced_messages[traced_index] = network.carried[index]
    else:
        stack = stack_of(network, index)
        for record in range(len(stack)):
            network.traced_messages[traced_index].payload[record] = stack[record]


@compiled
def _trace_message(network: NetworkState, message: Message, what: int, sender: int, time_ns: int) -> None:
    """Trace a message that is not a frame of the network: an out-of-band message, or PAUSE or PFC."""
    index = network.log.traced
    network.log.traced += 1
    row = network.traced[index]
    row.time_ns = time_ns
    row.what = what
    row.sender = sender
    row.serial = message.cause
    row.station = NOWHERE
    row.destination = message.station
    row.flow = NOWHERE
    row.priority = message.priority
    row.octets = network.message_octets[min(message.kind, MESSAGE_TYPES - 1)]
    row.probe = row.tagged = row.tag = row.mark = 0
    row.source = row.number = NOWHERE
    network.traced_messages[index] = message


@compiled
def send_out_of_band(network: NetworkState, message: Message, sender: int) -> None:
    """Send a message out of band; ``sender`` is a port, or a station, numbered after the ports."""
    loop, links = network.loop, network.links
    station, stations = message.station, len(links)
    if loop.is_tracing == 1:
        _trace_message(network, message, MESSAGE_OUT_OF_BAND, sender, message.time_ns)
    if len(network.delays_ns) > 0:
        ports = len(network.ports)
        row = network.outputs[sender].switch if sender < ports else len(network.switches) + sender - ports
        among = range(stations) if station == EVERY_STATION else range(station, station + 1)
        for each in among:
            delay_ns = network.delays_ns[row * stations + each]
            put_in_flight(network, message, each, message.time_ns + delay_ns)
    elif station == EVERY_STATION and loop.same_delays == 0:
        for each in range(stations):
            put_in_flight(network, message, each, message.time_ns + links[each].to_station_ns)
    else:
        put_in_flight(network, message, station, message.time_ns + links[max(0, station)].to_station_ns)


@inlined
def put_in_flight(network: NetworkState, message: Message, station: int, due_ns: int) -> None:
    """Send ``message`` to ``station``, after all messages in flight that are due at or before ``due_ns``."""
    if is_foreign(network, station):
        _post_message(network, message, station, due_ns)
        return
    loop, mask = network.loop, len(network.in_flight) - 1
    index = loop.sent
    if loop.same_delays == 0:
        while index > loop.received and network.due_ns[(index - 1) & mask] > due_ns:
            network.in_flight[index & mask] = network.in_flight[(index - 1) & mask]
            network.due_ns[index & mask] = network.due_ns[(index - 1) & mask]
            index -= 1
    network.in_flight[index & mask] = message
    network.in_flight[index & mask].station = station
    network.due_ns[index & mask] = due_ns
    loop.sent += 1


@compiled
def _post_message(network: NetworkState, message: Message, station: int, due_ns: int) -> None:
    """Put a message for a station or port of another part into the mailbox."""
    mailbox = network.mail[2 * network.part_of[station] + network.loop.parity]
    index = mailbox.count.messages
    mailbox.messages[index] = message
    mailbox.messages[index].station = station
    mailbox.due_ns[index] = due_ns
    mailbox.count.messages += 1
    mailbox.count.first_ns = min(mailbox.count.first_ns, due_ns)


@compiled
def post_frame(network: NetworkState, index: int, port: int) -> None:
    """Put a frame on the line after ``port``, which ends in another part, into the mailbox."""
    mailbox = network.mail[2 * network.outputs[port].next_part + network.loop.parity]
    number, frame = mailbox.count.frames, network.pool.frames[index]
    mailbox.frames[number] = frame
    mailbox.ports[number] = port
    if frame.carries == 1:
        mailbox.carried[number] = network.carried[index]
    stack = stack_of(network, index)
    for record in range(len(stack)):
        mailbox.stacks[number * len(stack) + record] = stack[record]
    mailbox.count.frames += 1
    mailbox.count.first_ns = min(mailbox.count.first_ns, frame.arrival_ns)
    give_back(network.pool, index)


@compiled
def stop_feeds(network: NetworkState, posted: int, switch: int, now_ns: int) -> None:
    """Send the PAUSE or PFC frames posted since index ``posted`` to the feeds of ``switch`` (rule 6)."""
    of = network.switches[switch]
    for number in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[number]
        inlet = message.station
        for each in range(of.feeds):
            if each == inlet or inlet == EVERY_STATION:
                _send_to_feed(network, of.first_feed + each, message, now_ns)


@compiled
def send_upstream(
    network: NetworkState, posted: int, port: int, inlet: int, station: int, now_ns: int
) -> None:
    """Send the messages posted since index ``posted`` to the device that sent the current frame (rule 7).

    Without inputs, the frame's ``station`` is this device. `send_of_port` sends these messages later.
    """
    for number in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[number]
        message.station = station
        if inlet == NOWHERE:
            continue
        feed = network.switches[network.outputs[port].switch].first_feed + inlet
        if network.feeds[feed].port != NOWHERE:
            count_message(network, message, port)
            _send_to_feed(network, feed, message, now_ns)
        message.station = NO_STATION


@compiled
def _send_to_feed(network: NetworkState, number: int, message: Message, now_ns: int) -> None:
    """Send a message on the line to feed ``number``, ahead of all waiting frames."""
    feed = network.feeds[number]
    sent_ns = _send_back(network, feed, message, now_ns)
    if network.loop.is_tracing == 1:
        _trace_message(network, message, FLOW_CONTROL_FRAME, number, sent_ns)
    loss = network.links[max(0, feed.back_station)].loss
    if feed.back_port != NOWHERE:
        loss = network.outputs[feed.back_port].loss
    if loss > 0.0 and network.draws.random() < loss:
        return
    station = feed.station if feed.port == NOWHERE else len(network.links) + feed.port
    put_in_flight(network, message, station, sent_ns + feed.back_ns)


@compiled
def send_storm(network: NetworkState, message: Message, station: int, port: int, now_ns: int) -> None:
    """Send a PAUSE or PFC frame from a broken station to the port that leads to the station."""
    octets = network.message_octets[min(message.kind, MESSAGE_TYPES - 1)]
    occupy(network, station, octets, now_ns, True)
    due_ns = network.links[station].free_ns + network.outputs[port].delay_ns
    put_in_flight(network, message, len(network.links) + port, due_ns)


@inlined
def _send_back(network: NetworkState, feed: Feed, message: Message, now_ns: int) -> int:
    """Put a PAUSE or PFC frame on the line to ``feed``; return the time when its last bit is sent."""
    octets = network.message_octets[min(message.kind, MESSAGE_TYPES - 1)]
    if feed.back_port == NOWHERE:
        occupy(network, feed.back_station, octets, now_ns, True)
        return int(network.links[feed.back_station].free_ns)
    port = network.ports[feed.back_port]
    sent_ns = send_control(port, now_ns, octets)
    network.port_counts[feed.back_port].control_octets += octets + port.line.overhead_octets
    set_due(network.port_events, feed.back_port, port.line.departure_ns)
    return sent_ns
