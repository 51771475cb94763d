"""Switches: selection of a port, capacity for a frame, and the effect of PAUSE on ports."""

from __future__ import annotations

from ecmproto.control.engine.event_heap import set_due
from ecmproto.control.engine.frame_pool import NOWHERE, Frame, give_back, take_first
from ecmproto.control.engine.gauge import PRIORITIES, step_of
from ecmproto.control.engine.messages import send_of_port, send_upstream, stop_feeds
from ecmproto.control.engine.network import FLOWLET, FLOWLET_SLOTS, ON_LINK, SPRAY, NetworkState, Switch
from ecmproto.control.engine.port import DROPPED, ENQUEUED, arrive, free_slots, stop
from ecmproto.control.engine.port_steps import enter, select_queue
from ecmproto.control.mechanisms.api.protocol import PFC_KIND, Arrival, Message, flow_control_payload
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.gate import is_sending, opens_ns, starts_sending
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.prefetching import prefetch

_LOW_32 = (1 << 32) - 1
_FLOWLET_STEP = 0x9E3779B1
"""Odd factor that spreads consecutive flowlet numbers."""
_FREE_SLOTS = 8
"""Upper bound on the number of frames that one event sends to a port."""


@compiled
def port_to(network: NetworkState, switch: int, destination: int, path: int) -> int:
    """Return the port of ``switch`` on a path to ``destination``; NOWHERE if there is no path."""
    if len(network.routes) == 0:
        return 0
    link, loop = network.links[destination], network.loop
    if switch == link.exit_switch:
        return int(link.exit_port)
    if path < 0:
        port = int(network.forced[(-1 - path) * len(network.switches) + switch])
        if port != NOWHERE:
            return port
    row = switch * loop.exits + link.exit
    start, count = network.routes[row], network.routes[row + 1] - network.routes[row]
    if count == 0:
        return NOWHERE
    if count > 1:
        salt, turn = network.switches[switch].hash_salt, 0
        if loop.paths == SPRAY:
            turn = network.turns[row]
            network.turns[row] += 1
        elif loop.paths == FLOWLET:
            turn = hashed(_flowlet(network, switch, hashed(path, salt)) ^ path, salt)
        else:
            turn = hashed(path, salt)
        start += turn % count
    return int(network.choices[start])


@inlined
def _flowlet(network: NetworkState, switch: int, flow: int) -> int:
    """Return the number of the current flowlet of the hash ``flow`` at ``switch``, spread over 32 bits."""
    slot = switch * FLOWLET_SLOTS + flow % FLOWLET_SLOTS
    now_ns = network.loop.now_ns
    network.turns[slot] += int(now_ns - network.flowlet_ns[slot] > network.loop.flowlet_gap_ns)
    network.flowlet_ns[slot] = now_ns
    return int(network.turns[slot] * _FLOWLET_STEP) & _LOW_32


@inlined
def hashed(path: int, salt: int) -> int:
    """Return the 32-bit ECMP hash (equal-cost multipath) of a flow's ``path`` at a switch.

    The hashes of two salts are independent. With 32 bits, no product exceeds 63 bits.
    """
    mixed = path ^ salt
    for factor in (0x45D9F3B, 0x119DE1F3):
        mixed = ((mixed ^ (mixed >> 16)) * factor) & _LOW_32
    return mixed ^ (mixed >> 16)


@compiled
def pass_to_port(
    network: NetworkState, index: int, switch: int, inlet: int, now_ns: int, limit_bps: float, rtt_ns: float
) -> None:
    """Enqueue a frame at a port of ``switch``, or drop the frame, and run the port's congestion point."""
    frame, outbox = network.pool.frames[index], network.outbox
    number = port_to(network, switch, frame.destination, frame.path)
    if number == NOWHERE:
        drop(network, index, network.switches[switch].first_port)
        return
    port, point, output = network.ports[number], network.points[number], network.outputs[number]
    memory = network.switches[switch]
    prefetch(port.gauge.level_ns, 8 * step_of(port.gauge.bins, port.gauge.total.octets))
    frame.input, frame.input_queue = inlet, frame.priority
    idle = port.line.in_service_octets == 0
    posted = outbox.posted.count
    if network.loop.isolated_queue != NOWHERE and frame.carries == 0:
        if frame.priority == network.loop.isolated_queue:
            frame.priority = network.loop.watched_priority
        frame.priority = select_queue(port, point, outbox, frame, now_ns)
        send_upstream(network, posted, number, inlet, frame.station, now_ns)
    fits = bool(
        memory.buffered_octets + frame.octets <= memory.memory_octets
        and memory.buffered_frames < memory.memory_frames
        and _fits_partition(network, memory.first_feed + inlet, inlet, frame.octets)
        and _fits_share(memory, port.gauge.queues[frame.priority].octets, frame)
    )
    if frame.carries == 1:
        enqueued = fits and arrive(port, now_ns, frame.priority, frame.octets, index, False)
    else:
        enqueued, frame.tag = enter(port, point, outbox, frame, index, fits, now_ns)
    if enqueued:
        memory.buffered_octets += frame.octets
        memory.buffered_frames += 1
        if inlet != NOWHERE:
            feed = network.feeds[memory.first_feed + inlet]
            feed.buffered_octets += frame.octets
            feed.buffered_frames += 1
            feed.peak_octets = max(feed.peak_octets, feed.buffered_octets)
        if idle and port.line.in_service_octets > 0:
            set_due(network.port_events, number, port.line.departure_ns)
        elif free_slots(port, frame.priority) < _FREE_SLOTS:
            network.loop.tight_port, network.loop.tight_priority = number, frame.priority
    if frame.carries == 0:
        set_due(network.timers, number, point.next_timer_ns())
        send_of_port(network, posted, number, now_ns)
        qlen_octets = port.gauge.queues[frame.priority].octets
        note_passage(network, frame, ENQUEUED if enqueued else DROPPED, qlen_octets, limit_bps, rtt_ns)
    if output.control != NOWHERE and enqueued:
        _watch(network, frame, number, now_ns)
    if not enqueued:
        drop(network, index, number)


@inlined
def _fits_partition(network: NetworkState, number: int, inlet: int, octets: int) -> bool:
    """Return whether a switch's partition for an input has space for ``octets``."""
    if inlet == NOWHERE:
        return True
    feed = network.feeds[number]
    return bool(
        feed.buffered_octets + octets <= feed.partition_octets
        and feed.buffered_frames < feed.partition_frames
    )


@inlined
def _fits_share(memory: Switch, queue_octets: int, frame: Frame) -> bool:
    """Return whether a frame fits into its queue's share of the free memory (Choudhury and Hahne, 1998)."""
    if memory.alpha == 0.0 or (memory.lossless_mask >> frame.priority) & 1:
        return True
    free_octets = memory.shared_octets - memory.buffered_octets
    return bool(queue_octets + frame.octets <= memory.alpha * free_octets)


@compiled
def _watch(network: NetworkState, frame: Frame, number: int, now_ns: int) -> None:
    """Pass an enqueued frame to the flow control of its port (rule 6)."""
    output, outbox = network.outputs[number], network.outbox
    if not is_sending(network.port_gates, number, frame.priority):
        starts_sending(network.port_gates, number, frame.priority, now_ns)
    control, posted = network.controls[output.control], outbox.posted.count
    gauge = network.ports[number].gauge
    control.on_arrival(
        Arrival(
            now_ns, frame.input, -1, frame.input_queue, frame.octets, False, False, True, False, 0, 0,
            gauge.queues[frame.priority].octets, gauge.total.octets,
        ),
        outbox,
    )  # fmt: skip
    set_due(network.timers, len(network.ports) + output.control, control.next_timer_ns())
    stop_feeds(network, posted, output.switch, now_ns)


@compiled
def lose(network: NetworkState, index: int, sender: int) -> None:
    """Drop a frame on the link after ``sender``, a port, or a station (numbered after the ports)."""
    frame = network.pool.frames[index]
    network.lost_frames[sender] += 1
    if frame.carries == 1 and sender < len(network.ports):
        network.port_counts[sender].lost_messages += 1
    if frame.source != NOWHERE:
        network.flow_counts[frame.source].dropped_frames += 1
        network.flow_counts[frame.source].dropped_octets += frame.octets
    give_back(network.pool, index)


@compiled
def cut_link(network: NetworkState, sender: int) -> None:
    """Drop all frames on the link after ``sender``, a port, or a station (numbered after the ports)."""
    ports = len(network.ports)
    if sender < ports:
        while network.lines[sender].length > 0:
            lose(network, take_first(network.pool, network.lines[sender]), sender)
        set_due(network.port_events, ports + sender, NEVER_NS)
        return
    station = sender - ports
    while network.on_link[station].length > 0:
        lose(network, take_first(network.pool, network.on_link[station]), sender)
    set_due(network.events, station * network.loop.entries + ON_LINK, NEVER_NS)


@compiled
def drop(network: NetworkState, index: int, number: int) -> None:
    """Count and free a frame that a port has dropped."""
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
def note_passage(
    network: NetworkState, frame: Frame, disposition: int, qlen_octets: int, limit_bps: float, rtt_ns: float
) -> None:
    """Log the outcome of a frame as a passage, if passages are logged."""
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


@inlined
def schedule_departure(network: NetworkState, number: int) -> None:
    """Update the departure time of the frame on a port's line."""
    line = network.ports[number].line
    is_busy = line.in_service_octets > 0 or line.control_octets > 0
    set_due(network.port_events, number, line.departure_ns if is_busy else NEVER_NS)


@compiled
def log_stop(network: NetworkState, message: Message, station: int, now_ns: int) -> None:
    """Count a PAUSE or PFC frame at its receiver, and log the frame if there is capacity."""
    fields, log = flow_control_payload(message), network.log
    if station >= len(network.links):
        counts = network.port_counts[station - len(network.links)]
        counts.xoff_frames += fields.quanta > 0
        counts.xon_frames += fields.quanta == 0
    if log.stop_events < len(network.stop_events):
        event = network.stop_events[log.stop_events]
        log.stop_events += 1
        event.time_ns = now_ns
        event.station = station
        event.priority = message.priority if message.kind == PFC_KIND else NOWHERE
        event.stops = int(fields.quanta > 0)


@compiled
def _watched_ns(network: NetworkState, number: int, priority: int, opens_ns: int, now_ns: int) -> int:
    """Run the watchdog of a priority that is stopped until ``opens_ns``; return the watchdog's next time."""
    watchdog, bit = network.watchdogs[number], 1 << priority
    if opens_ns <= now_ns or watchdog.time_ns == 0:
        watchdog.since_ns[priority] = NEVER_NS
        watchdog.served_mask &= ~bit
        return NEVER_NS
    if watchdog.served_mask & bit:
        return NEVER_NS
    waits = network.ports[number].gauge.queues[priority].octets > 0
    if watchdog.since_ns[priority] == NEVER_NS or not waits:
        watchdog.since_ns[priority] = now_ns
    if now_ns - watchdog.since_ns[priority] < watchdog.time_ns:
        return int(watchdog.since_ns[priority]) + watchdog.time_ns
    watchdog.served_mask |= bit
    watchdog.fired += 1
    return NEVER_NS


@inlined
def is_discarding(network: NetworkState, number: int, priority: int) -> bool:
    """Return whether a port's watchdog drops the frames of ``priority``."""
    if len(network.watchdogs) == 0:
        return False
    watchdog = network.watchdogs[number]
    return bool(watchdog.drops == 1 and (watchdog.served_mask >> priority) & 1)


@compiled
def gate_port(network: NetworkState, number: int, now_ns: int) -> None:
    """Stop or start a port's priorities according to the current state of PAUSE and PFC (rule 6)."""
    stopped, until_ns = 0, NEVER_NS
    for priority in range(PRIORITIES):
        opens = opens_ns(network.port_gates, number, priority, now_ns)
        if len(network.watchdogs) > 0:
            until_ns = min(until_ns, _watched_ns(network, number, priority, opens, now_ns))
        if opens > now_ns:
            stopped |= 1 << priority
            until_ns = min(until_ns, opens)
    if len(network.watchdogs) > 0:
        stopped &= ~network.watchdogs[number].served_mask
    if (stopped >> max(0, network.loop.watched_priority)) & 1 and network.loop.isolated_queue != NOWHERE:
        stopped |= 1 << network.loop.isolated_queue
    counts = network.port_counts[number]
    if stopped == 0 and counts.stopped_since_ns != NEVER_NS:
        counts.stopped_ns += now_ns - counts.stopped_since_ns
        counts.stopped_since_ns = NEVER_NS
    elif stopped != 0 and counts.stopped_since_ns == NEVER_NS:
        counts.stopped_since_ns = now_ns
    stop(network.ports[number], stopped, now_ns)
    schedule_departure(network, number)
    set_due(network.timers, len(network.ports) + len(network.controls) + number, until_ns)
