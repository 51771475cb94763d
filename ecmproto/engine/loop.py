"""A closed loop around one port: stations with reaction points, the port, destinations, and messages between.

The text of the loop, compiled for each mechanism.  Its rules:

1. A frame of the capture comes to its station at its time.  It queues behind the limiter that it is routed
   to, in a finite queue, or leaves at once.  Where its priority is paused, or an earlier frame waits for
   that, it waits in the station's own queue of the priority.  What waited leaves no faster than the link.
   All frames of a station share its link from when one that a limiter lets through is ready for it, or a
   probe is on it, until it falls idle: of what is ready, what came first leaves first.  Before that, what
   comes from the capture leaves as it was captured: it did fit on a link.
2. What leaves a station reaches the port as much later as its link delays it, with its tag; a probe follows
   it in band.
3. What leaves the port is at its destination at that time.  Messages of the port and of destinations reach
   their station as much later as its link delays them; they do not take the port's bandwidth.
4. A frame of the capture that is feedback to a station, where such frames are read, is received at its time
   and takes nothing of the port.
5. At one time, a change of the port's rate comes first, then departures, the congestion point's timer,
   messages, reports of destinations, the stations' timers and queues (by number), and the capture's arrivals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.engine.arrivals import Arrivals
from ecmproto.engine.event_heap import first, first_ns, set_due
from ecmproto.engine.gauge import PRIORITIES, TOTAL
from ecmproto.engine.network import (
    ENTRIES,
    ON_LINK,
    OWN_QUEUES,
    TIMER,
    Frame,
    NetworkState,
    append,
    give_back,
    is_used_up,
    take,
    take_first,
)
from ecmproto.engine.port import DROPPED, ENQUEUED, HELD_OUT, PASSED_BY, arrive, depart
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
    CongestionPoint,
    Delivery,
    Departure,
    Message,
    Receivers,
    Senders,
    has_room,
    probe_payload,
)
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.pause.gate import is_sending, obey, opens_ns, starts_sending
from ecmproto.units import NS_PER_S

if TYPE_CHECKING:
    from ecmproto.engine.feedback import CapturedFeedback

PROBE_OCTETS = 60

_ROOM = 16
"""More messages, passages and frames than one event makes; ticks and reports look for room themselves."""


@compiled
def run(
    network: NetworkState,
    point: CongestionPoint,
    senders: Senders,
    receivers: Receivers,
    arrivals: Arrivals,
    feedback: CapturedFeedback,
    position: int,
    serial: int,
    last: bool,
) -> int:
    """Run the loop until ``arrivals`` from ``position`` on have come; if ``last``, till nothing is in flight.

    ``serial`` is the number of the first of them.  Returns the position of the first that has not come:
    it stops early when something has no more room, and when the port's rate is to change.
    """
    loop, count = network.loop, arrivals.time_ns.size
    line = network.port.line
    ticked = False
    while has_space(network):
        departure_ns = line.departure_ns if line.in_service_octets > 0 else NEVER_NS
        message_ns = _message_ns(network)
        report_ns = receivers.next_report_ns()
        entry_ns = first_ns(network.events)
        arrival_ns = NEVER_NS
        if position < count:
            arrival_ns = arrivals.time_ns[position]
        elif not last or (network.pool.stock.used == 0 and loop.sent == loop.received):
            return position
        tick_ns = point.next_timer_ns()
        other_ns = min(min(departure_ns, message_ns), min(report_ns, min(entry_ns, arrival_ns)))
        if min(tick_ns, other_ns) >= loop.change_ns:
            loop.changes = 1
            return position
        if tick_ns < other_ns and ticked and line.in_service_octets == 0:
            # At an idle port nothing changes from tick to tick: one call catches up with all.
            tick_ns = min(other_ns, loop.change_ns - 1)
        now_ns = min(tick_ns, other_ns)
        ticked = departure_ns > now_ns and tick_ns <= now_ns
        loop.now_ns = now_ns
        if departure_ns == now_ns:
            _depart(network, point, receivers, now_ns)
        elif tick_ns <= now_ns:
            posted = network.outbox.posted.count
            point.on_timer(now_ns, network.port.gauge.level_octets[:PRIORITIES], network.outbox)
            _dispatch(network, posted)
        elif message_ns == now_ns:
            _deliver_message(network, senders, now_ns)
        elif report_ns == now_ns:
            _report(network, point, receivers, now_ns)
        elif entry_ns == now_ns:
            _wake(network, point, senders, now_ns)
        else:
            _arrive(network, point, senders, arrivals, feedback, position, serial + position, now_ns)
            position += 1
    return position


@inlined
def has_space(network: NetworkState) -> bool:
    """Return whether every store has room for the entries that one event can add."""
    in_flight = network.loop.sent - network.loop.received
    # A message to every station is one for each where they come at different times.
    copies = 0 if network.loop.same_delays == 1 else _ROOM * len(network.links)
    return bool(
        has_room(network.outbox, _ROOM)
        and network.log.passages + _ROOM <= len(network.passages)
        and not is_used_up(network.pool, _ROOM)
        and in_flight + len(network.outbox.messages) + copies <= len(network.in_flight)
    )


@inlined
def _message_ns(network: NetworkState) -> int:
    loop = network.loop
    if loop.sent == loop.received:
        return NEVER_NS
    return int(network.due_ns[loop.received & (len(network.due_ns) - 1)])


@compiled
def _dispatch(network: NetworkState, posted: int) -> None:
    """Put the messages posted from index ``posted`` on in flight."""
    loop, links = network.loop, network.links
    for index in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[index]
        station = message.station
        if not message.sent or station == NO_STATION:
            continue
        if station == EVERY_STATION and loop.same_delays == 0:
            for each in range(len(links)):
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
def _arrive(
    network: NetworkState,
    point: CongestionPoint,
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
    frame.serial = serial
    frame.station = arrivals.station[position]
    frame.flow = arrivals.flow[position]
    frame.priority = arrivals.priority[position]
    frame.octets = arrivals.octets[position]
    frame.probe = 0
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
        _pass(network, point, index, now_ns, 0.0, NO_AVERAGE)
    else:
        _route(network, point, senders, index, now_ns)


@inlined
def _route(network: NetworkState, point: CongestionPoint, senders: Senders, index: int, now_ns: int) -> None:
    frame = network.pool.frames[index]
    station, priority = frame.station, frame.priority
    if not is_sending(network.gates, station, priority):
        starts_sending(network.gates, station, priority, now_ns)
    base = station * (ENTRIES + senders.limiters())
    limiter = senders.route(station, frame.flow, priority, now_ns)
    own = base + OWN_QUEUES + priority
    entry = base + ENTRIES + limiter
    if limiter == NO_LIMITER:
        if (
            network.queues[own].length == 0
            and network.links[station].shared_ns <= now_ns
            and opens_ns(network.gates, station, priority, now_ns) <= now_ns
        ):
            _send(network, point, senders, index, NO_LIMITER, now_ns)
            return
        entry = own
    queue = network.queues[entry]
    if queue.octets + frame.octets > network.loop.queue_octets:
        _note(network, frame, HELD_OUT, -1, 0.0, NO_AVERAGE)
        give_back(network.pool, index)
        return
    if limiter != NO_LIMITER:
        senders.on_enqueue(station, limiter)
        network.log.limited_frames += 1
    append(network.pool, queue, index)
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
def _wake(network: NetworkState, point: CongestionPoint, senders: Senders, now_ns: int) -> None:
    """Handle the first event of the heap: a station's timer, or the head of one of its queues."""
    entry = first(network.events)
    each = ENTRIES + senders.limiters()
    station, part = entry // each, entry % each
    if part == TIMER:
        senders.on_station_timer(station, now_ns)
        _review(network, senders, station, now_ns)
        return
    if part == ON_LINK:
        _come(network, point, station, entry, now_ns)
        return
    link = network.links[station]
    if link.shared_ns > 0 and link.free_ns <= now_ns <= link.shared_ns:
        entry = _came_first(network, station * each, each, entry, now_ns)
        part = entry % each
    limiter = part - ENTRIES if part >= ENTRIES else NO_LIMITER
    leaves_ns = _leaves_ns(network, senders, station, limiter, entry, now_ns)
    if leaves_ns <= now_ns:
        queue = network.queues[entry]
        index = take_first(network.pool, queue)
        _send(network, point, senders, index, limiter, now_ns)
        leaves_ns = NEVER_NS
        if queue.length > 0:
            leaves_ns = _leaves_ns(network, senders, station, limiter, entry, now_ns)
    set_due(network.events, entry, leaves_ns)


@inlined
def _came_first(network: NetworkState, base: int, each: int, entry: int, now_ns: int) -> int:
    """Return the due queue with the oldest head, of a station whose entries begin at ``base``."""
    serial = network.pool.frames[network.queues[entry].head].serial
    for other in range(base + OWN_QUEUES, base + each):
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
    for part in range(OWN_QUEUES, each):
        if network.queues[base + part].length > 0:
            limiter = part - ENTRIES if part >= ENTRIES else NO_LIMITER
            leaves_ns = _leaves_ns(network, senders, station, limiter, base + part, now_ns)
            set_due(network.events, base + part, leaves_ns)
    set_due(network.events, base + TIMER, senders.next_station_timer_ns(station))


@compiled
def _send(
    network: NetworkState, point: CongestionPoint, senders: Senders, index: int, limiter: int, now_ns: int
) -> None:
    """Send a frame from its station (rule 2)."""
    frame = network.pool.frames[index]
    station = frame.station
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
    _occupy(network, station, frame.octets, now_ns, limiter != NO_LIMITER)
    set_due(
        network.events,
        station * (ENTRIES + senders.limiters()) + TIMER,
        senders.next_station_timer_ns(station),
    )
    serial = frame.serial
    _put_on_link(network, point, index, now_ns, limit_bps, rtt_ns)
    for probe in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[probe]
        if message.kind == PROBE_KIND:
            _probe(network, point, message, serial, now_ns)


@inlined
def _occupy(network: NetworkState, station: int, octets: int, now_ns: int, shared: bool) -> None:
    """Occupy a station's link with a frame; others share it from then on if it is ``shared``."""
    loop, link = network.loop, network.links[station]
    bit_ns = 8 * (octets + loop.overhead_octets) * NS_PER_S
    link.free_ns = max(link.free_ns, now_ns) + -(-bit_ns // link.rate_bps)
    if shared or (link.shared_ns > 0 and now_ns <= link.shared_ns):
        link.shared_ns = link.free_ns


@compiled
def _probe(network: NetworkState, point: CongestionPoint, message: Message, serial: int, now_ns: int) -> None:
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
    frame.sampled = 0
    frame.answerable = 1
    frame.tagged = 0
    frame.tag = 0
    frame.mark = probe_payload(message).mark
    _occupy(network, frame.station, PROBE_OCTETS, now_ns, True)
    _put_on_link(network, point, index, now_ns, 0.0, NO_AVERAGE)


@inlined
def _put_on_link(
    network: NetworkState, point: CongestionPoint, index: int, now_ns: int, limit_bps: float, rtt_ns: float
) -> None:
    """Send a frame to the port, where it comes at once or when its link has delayed it (rule 2)."""
    frame = network.pool.frames[index]
    station = frame.station
    delay_ns = network.links[station].to_port_ns
    if delay_ns == 0:
        _pass(network, point, index, now_ns, limit_bps, rtt_ns)
        return
    frame.comes_ns, frame.limit_bps, frame.rtt_average_ns = now_ns + delay_ns, limit_bps, rtt_ns
    queue = network.on_link[station]
    append(network.pool, queue, index)
    if queue.length == 1:
        each = len(network.queues) // len(network.links)
        set_due(network.events, station * each + ON_LINK, frame.comes_ns)


@compiled
def _come(network: NetworkState, point: CongestionPoint, station: int, entry: int, now_ns: int) -> None:
    """Take the first frame on a station's link to the port."""
    queue = network.on_link[station]
    index = take_first(network.pool, queue)
    frame = network.pool.frames[index]
    set_due(network.events, entry, network.pool.frames[queue.head].comes_ns if queue.length > 0 else NEVER_NS)
    _pass(network, point, index, now_ns, frame.limit_bps, frame.rtt_average_ns)


@compiled
def _pass(
    network: NetworkState, point: CongestionPoint, index: int, now_ns: int, limit_bps: float, rtt_ns: float
) -> None:
    """Enqueue a frame at the port, or drop it, and tell the congestion point."""
    frame, port, outbox = network.pool.frames[index], network.port, network.outbox
    enqueued = arrive(port, now_ns, frame.priority, frame.octets, index, frame.tagged == 1)
    qlen_octets = port.gauge.level_octets[frame.priority]
    posted = outbox.posted.count
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
    _dispatch(network, posted)
    if enqueued and frame.tagged == 1:
        frame.tag = point.rewrite_tag(frame.priority, frame.tag)
    _note(network, frame, ENQUEUED if enqueued else DROPPED, qlen_octets, limit_bps, rtt_ns)
    if not enqueued:
        give_back(network.pool, index)


@inlined
def _note(
    network: NetworkState, frame: Frame, disposition: int, qlen_octets: int, limit_bps: float, rtt_ns: float
) -> None:
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
def _depart(network: NetworkState, point: CongestionPoint, receivers: Receivers, now_ns: int) -> None:
    """Deliver the frame on the port's line to its destination, and serve the next (rule 3)."""
    posted = network.outbox.posted.count
    index = depart(network.port)
    frame = network.pool.frames[index]
    network.outbox.posted.cause = frame.serial
    port_octets = network.port.gauge.level_octets[TOTAL]
    point.on_dequeue(now_ns, frame.station, frame.priority, frame.octets, port_octets, network.outbox)
    network.log.delivered_frames += 1
    network.log.delivered_octets += frame.octets
    if frame.station >= 0 and frame.flow >= 0:
        delivery = Delivery(
            now_ns, frame.station, frame.flow, frame.priority, frame.octets, frame.probe == 1,
            frame.tagged == 1, frame.tag, frame.mark,
        )  # fmt: skip
        receivers.on_delivery(delivery, network.outbox)
    network.outbox.posted.cause = NO_CAUSE
    give_back(network.pool, index)
    _dispatch(network, posted)


@compiled
def _report(network: NetworkState, point: CongestionPoint, receivers: Receivers, now_ns: int) -> None:
    """Send the reports of destinations, which pass the port's congestion point on their way."""
    posted = network.outbox.posted.count
    receivers.post_reports(now_ns, network.outbox)
    for index in range(posted, network.outbox.posted.count):
        message = network.outbox.messages[index]
        message.rate_kbps = point.rewrite_tag(message.priority, message.rate_kbps)
    _dispatch(network, posted)


@compiled
def _deliver_message(network: NetworkState, senders: Senders, now_ns: int) -> None:
    """Deliver the first message in flight."""
    loop = network.loop
    message = network.in_flight[loop.received & (len(network.in_flight) - 1)]
    loop.received += 1
    _receive(network, senders, message, now_ns)


@compiled
def _receive(network: NetworkState, senders: Senders, message: Message, now_ns: int) -> None:
    """Deliver a message to its station, or to every station."""
    network.log.received_messages += 1
    station = message.station
    if station == EVERY_STATION:
        for each in range(len(network.links)):
            _take(network, senders, message, each, now_ns)
    elif station != NO_STATION:
        _take(network, senders, message, station, now_ns)


@compiled
def _take(network: NetworkState, senders: Senders, message: Message, station: int, now_ns: int) -> None:
    if message.kind == PAUSE_KIND or message.kind == PFC_KIND:
        obey(network.gates, station, message, now_ns)
    else:
        senders.on_message(message, now_ns)
    _review(network, senders, station, now_ns)
