"""TCP connections: Reno, NewReno, CUBIC and DCTCP, with bulk transfers and transactions.

A segment is one frame.

A connection carries data from ``source`` to ``destination``, and acknowledgements back. One record contains
both ends, but each end acts only on frames that have reached it. Segments are numbered over all transfers of
a connection.

- RFC 5681: slow start, congestion avoidance, fast retransmit, fast recovery, limited transmit (RFC 3042), and
  the restart after idleness. Reno leaves fast recovery at the first acknowledgement of new data
- RFC 6582 (newreno, cubic): a partial acknowledgement retransmits a segment. The first partial
  acknowledgement also restarts the timer. ``recover`` prevents a second recovery after duplicate
  acknowledgements of segments that a time-out retransmitted
- RFC 6298: the retransmission timer follows from one timed segment at a time, with Karn's rule. The time-out
  doubles until a new sample. The time-out is within the configured limits, and starts at 1 s (or the upper
  limit) before the first sample. While the first unacknowledged segment is still in its own host, the timer
  waits, as in Linux. A rate limiter may delay a window for longer than the maximum time-out
- a time-out in a recovery never raises ssthresh (RFC 5681, 3.1: "no more than"; the same in Linux). Segments
  sent for duplicates do not count as in flight, and would cause permanent windows above the path's capacity
- RFC 9438 (cubic): window growth over time, with the Reno-friendly region, fast convergence, and ssthresh 0.7
- delayed acknowledgements: an acknowledgement is sent for every second segment, or 500 µs after the first
  segment. A segment that is out of order, fills a gap or is a duplicate is acknowledged at once. 500 µs is
  the maximum of RFC 5681 divided by 1,000; time-outs are divided by 1,000 too

- RFC 2018 and RFC 6675 (with ``sack``, `lab.traffic.scoreboard`): each acknowledgement has one block, the
  range of the last arrived segment. The segments in the network are counted as in Linux and ns-3. A recovery
  restarts the timer, as in Linux. A recovery retransmits the first lost segment at once, and other lost or
  new segments within the window. It ends when all segments sent before the recovery are acknowledged
- RFC 3168 (with ``ecn``): a mark halves the window (cubic: 0.7), at most once per round trip. The receiver
  echoes the mark until a segment announces the reduction
- RFC 8257 (dctcp): the receiver echoes the mark of each segment, and acknowledges at once when marks begin
  or end. The sender estimates the marked share α with the gain 1/16, and a mark reduces the window by α/2

The congestion window does not grow beyond the receiver's window. There is no FIN.

A transaction begins with a handshake if the connection has one, and then starts with the initial window. If
``destination`` sends requests, it opens the transaction and sends the request in one frame. The transaction
completes with the last octet of the response. Without requests, ``source`` opens the transaction, and the
acknowledgement of the last octet completes the transaction. Latency counts from the first frame: SYN, request
or data. An idle time follows each transaction. Flows of a size distribution are transactions without
requests. Their latency counts from the flow's arrival.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ecmproto.control.engine.traffic import Offer, Offers, can_offer
from ecmproto.control.lab.model import TCP, Flow, Pattern
from ecmproto.control.lab.traffic.scoreboard import (
    ARRIVED,
    NO_SEGMENT,
    Scoreboard,
    Segments,
    advance,
    find_losses,
    in_network,
    lose_all,
    next_lost,
    note_resent,
    take_block,
)
from ecmproto.control.lab.traffic.source import (
    ACK,
    DATA,
    MIN_FRAME_OCTETS,
    REQUEST,
    SYN,
    SYN_ACK,
    FlowTable,
    TrafficSource,
    complete,
    drawn_octets,
    exponential,
    kind_of,
    next_arrival,
    octets_of,
    offer_control,
    offer_data,
    value_of,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.structs import Draws, Struct
from ecmproto.units import NS_PER_S

DELAYED_ACK_NS = 500_000
FIRST_RTO_NS = NS_PER_S

_RENO = 0
_NEWRENO = 1
_CUBIC = 2
_DCTCP = 3
ALGORITHMS = {"reno": _RENO, "newreno": _NEWRENO, "cubic": _CUBIC, "dctcp": _DCTCP}

_IDLE = 0
"""Phase: waiting for the next transfer."""
_OPENING = 1
"""Phase: waiting for the reply to a SYN."""
_ASKING = 2
"""Phase: waiting for the reply to a request."""
_BUSY = 3
"""Phase: receiving or sending data."""

_DUPLICATES = 3
_LIMITED = 2
_MIN_SSTHRESH = 2.0

_CUBIC_C = 0.4
_CUBIC_BETA = 0.7
_CUBIC_ALPHA = 3.0 * (1.0 - _CUBIC_BETA) / (1.0 + _CUBIC_BETA)
_CUBIC_MAX_GROWTH = 1.5
_NO_EPOCH = -1

_DCTCP_GAIN = 1.0 / 16.0
_ECHO = 1
"""Bit for ECE in an acknowledgement's echo, and for CWR in a segment that announces a reduced window."""
_BLOCK_BITS = 21
"""Width in bits of each end of an acknowledgement's block; the ends count from the first missing segment."""
_BLOCK_MASK = (1 << _BLOCK_BITS) - 1


class Connection:
    """Both ends of a TCP connection; a record (``kernels.record``)."""

    algorithm: int
    window: int
    """Receiver's window, in segments."""
    initial_window: int
    rto_min_ns: int
    rto_max_ns: int
    delays_ack: int
    ack_octets: int
    sack: int
    ecn: int
    """1 if segments are ECN-capable (ECT)."""
    handshake: int
    request_octets: int
    """Length of a request in octets; 0 for data without requests."""
    transfer_octets: int
    """Length of a transfer in octets; 0 for an endless transfer."""
    transfer_segments: int
    last_octets: int
    """Number of octets in the last segment of a transfer."""
    idle_ns: float

    phase: int
    """Phase of the opening end: the destination if it sends requests, otherwise the source."""
    transfer: int
    """Number of the last transfer begun, counted from 1."""
    began_ns: int
    """Start of the last transfer begun, in ns."""
    open_ns: int
    """Time of the next transfer, or time to retransmit the SYN or request, in ns."""
    open_rto_ns: int
    opened_ns: int
    """Time of the last SYN or request, in ns."""
    open_tries: int
    syn_lost: int

    serving: int
    """Number of the transfer that is being sent."""
    end: int
    """Segment after the last segment of the transfer that is being sent."""
    acked: int
    """First unacknowledged segment."""
    following: int
    """Next segment to send."""
    sent_end: int
    """Segment after the highest segment sent so far."""
    cwnd: float
    ssthresh: float
    duplicates: int
    limited: int
    """Number of segments sent beyond the window for duplicate acknowledgements (RFC 3042)."""
    recovering: int
    recover: int
    """Value of ``sent_end`` at the start of the last recovery, or at the last time-out."""
    was_partial: int
    """Whether this recovery has received a partial acknowledgement."""
    lost_at: int
    """Segment of the last time-out; −1 without a time-out."""
    sent_ns: int
    """Time of the last sent segment, in ns."""
    blocked: int
    """Whether segments wait because the offers have no free capacity."""
    srtt_ns: float
    rttvar_ns: float
    rto_ns: int
    rto_due_ns: int
    in_host: int
    """Number of data frames that have not left their host."""
    timer_waits: int
    """Whether the retransmission timer waits until the first data frame in the host leaves."""
    timed: int
    """Segment that measures the round-trip time; −1 without such a segment."""
    timed_ns: int
    """Time at which the segment ``timed`` was sent, in ns."""
    w_max: float
    """CUBIC: window before the last reduction; 0 without a previous window."""
    prior: float
    """CUBIC: window before the last reduction, without fast convergence."""
    w_est: float
    epoch_ns: int
    """Start of the current congestion avoidance phase in ns, or _NO_EPOCH."""
    k_s: float
    reduced_to: int
    """ECN: value of ``sent_end`` at the last reduction by a mark; the next reduction waits until then."""
    announces: int
    """ECN: 1 if the next new segment announces a reduction."""
    alpha: float
    """DCTCP: estimated share of marked segments."""
    window_end: int
    """DCTCP: segment whose acknowledgement ends the current observation window."""
    seen_segments: int
    marked_segments: int
    """DCTCP: number of acknowledged segments with a mark in this window; ``seen_segments`` counts all."""

    received: int
    """First segment not yet received."""
    beyond: int
    """Number of segments received beyond ``received``."""
    requested_at: int
    """Value of ``received`` at the last request."""
    unacked: int
    """Number of received segments that are not yet acknowledged."""
    ack_due_ns: int
    block_from: int
    block_to: int
    """End (excluded) of the range that includes the last arrived segment; ``block_from`` is the start."""
    echoes: int
    """ECN: whether acknowledgements echo a mark."""


class Connections(Struct):
    """All connections of an experiment."""

    records: Sequence[Connection]
    boards: Sequence[Scoreboard]
    segments: Segments
    """Bits of segments in flight, for all connections."""
    table: FlowTable


@compiled
def on_tcp_timer(
    connections: Connections, source: TrafficSource, index: int, draws: Draws, now_ns: int, offers: Offers
) -> None:
    """Run the due actions of the connection of ``source`` (number ``index``), if offers have capacity."""
    tcp = connections.records[source.connection]
    if tcp.ack_due_ns <= now_ns and can_offer(offers):
        _acknowledge(tcp, source, index, offers)
    if tcp.rto_due_ns <= now_ns and can_offer(offers):
        _time_out(connections, tcp, source, index, now_ns, offers)
    if tcp.open_ns <= now_ns and can_offer(offers):
        if tcp.phase == _IDLE:
            _begin(connections, tcp, source, index, draws, now_ns, offers)
        else:
            source.timeouts += 1
            _open(tcp, source, index, now_ns, offers)
    _send(connections, tcp, source, index, now_ns, offers)


@inlined
def tcp_due_ns(tcp: Connection, now_ns: int) -> int:
    """Return the connection's next due time."""
    if tcp.blocked:
        return now_ns
    return min(min(tcp.open_ns, tcp.rto_due_ns), tcp.ack_due_ns)


@compiled
def on_tcp_frame(
    connections: Connections,
    source: TrafficSource,
    index: int,
    number: int,
    echo: int,
    is_marked: bool,
    draws: Draws,
    now_ns: int,
    offers: Offers,
) -> None:
    """Process a frame of the connection of ``source`` (number ``index``) at the frame's destination."""
    tcp = connections.records[source.connection]
    kind, value = kind_of(number), value_of(number)
    if kind == DATA:
        _echo_mark(tcp, source, index, echo, is_marked, offers)
        _take_segment(connections, tcp, source, index, value, octets_of(number), now_ns, offers)
        if tcp.phase == _BUSY and tcp.request_octets > 0 and tcp.received == _requested_end(tcp):
            _end_transfer(tcp, source, index, draws, now_ns, offers)
    elif kind == ACK:
        _take_ack(connections, tcp, source, index, value, echo, now_ns, offers)
        unasked = tcp.request_octets == 0 and tcp.transfer_segments > 0
        if tcp.phase == _BUSY and unasked and tcp.acked == tcp.end:
            _end_transfer(tcp, source, index, draws, now_ns, offers)
    elif kind == SYN:
        _offer(tcp, source, index, SYN_ACK, value, tcp.request_octets == 0, offers)
    elif kind == SYN_ACK:
        if tcp.phase == _OPENING and value == tcp.transfer:
            _opened(connections, tcp, source, index, now_ns, offers)
    elif value > tcp.serving:
        _start_sending(connections, tcp, source, index, value, now_ns, offers)


@inlined
def on_tcp_frame_left(connections: Connections, source: TrafficSource, number: int, now_ns: int) -> None:
    """Update the connection after a frame has left its host or was refused there."""
    tcp = connections.records[source.connection]
    if kind_of(number) == DATA:
        tcp.in_host -= 1
        if tcp.timer_waits and not _is_in_host(connections, tcp, source):
            tcp.timer_waits = 0
            if tcp.rto_due_ns == NEVER_NS and tcp.acked < tcp.sent_end:
                tcp.rto_due_ns = now_ns + tcp.rto_ns


@inlined
def _flight(connections: Connections, tcp: Connection, source: TrafficSource) -> int:
    """Return the number of segments in flight; with SACK, return the number of segments in the network."""
    if tcp.sack:
        return in_network(connections.boards[source.connection], tcp.following)
    return tcp.following - tcp.acked


@inlined
def _is_in_host(connections: Connections, tcp: Connection, source: TrafficSource) -> bool:
    """Return whether the first segment in flight is still in its host; frames leave in offer order."""
    return tcp.in_host >= max(1, _flight(connections, tcp, source))


@inlined
def _requested_end(tcp: Connection) -> int:
    return tcp.requested_at + tcp.transfer_segments


@inlined
def _offer(
    tcp: Connection, source: TrafficSource, index: int, kind: int, value: int, back: bool, offers: Offers
) -> Offer:
    octets = tcp.ack_octets
    if kind == REQUEST:
        octets = max(MIN_FRAME_OCTETS, tcp.request_octets)
    return offer_control(source, index, kind, octets, value, back, offers)


@compiled
def _begin(
    connections: Connections,
    tcp: Connection,
    source: TrafficSource,
    index: int,
    draws: Draws,
    now_ns: int,
    offers: Offers,
) -> None:
    """Begin a transfer, unless the source has stopped."""
    tcp.began_ns = now_ns
    if source.table < source.table_end:
        # The flow may have arrived during an earlier transfer.
        tcp.began_ns = source.timer_ns
        _set_size(tcp, source, drawn_octets(connections.table, source, draws))
        next_arrival(connections.table, source, draws)
    elif now_ns >= source.stop_ns:
        tcp.open_ns = NEVER_NS
        return
    tcp.transfer += 1
    tcp.open_tries = 0
    tcp.syn_lost = 0
    tcp.open_rto_ns = tcp.rto_ns
    if tcp.handshake:
        tcp.phase = _OPENING
        _open(tcp, source, index, now_ns, offers)
    else:
        _go_on(connections, tcp, source, index, now_ns, offers)


@compiled
def _set_size(tcp: Connection, source: TrafficSource, octets: int) -> None:
    """Set the length of transfers to ``octets``."""
    tcp.transfer_octets = octets
    tcp.transfer_segments = -(-octets // source.frame_octets)
    tcp.last_octets = max(MIN_FRAME_OCTETS, octets - (tcp.transfer_segments - 1) * source.frame_octets)


@compiled
def _open(tcp: Connection, source: TrafficSource, index: int, now_ns: int, offers: Offers) -> None:
    """Send or retransmit the SYN or the request."""
    if tcp.open_tries > 0:
        tcp.open_rto_ns = min(2 * tcp.open_rto_ns, tcp.rto_max_ns)
        tcp.syn_lost |= int(tcp.phase == _OPENING)
    tcp.open_tries += 1
    tcp.opened_ns = now_ns
    tcp.open_ns = now_ns + tcp.open_rto_ns
    kind = SYN if tcp.phase == _OPENING else REQUEST
    _offer(tcp, source, index, kind, tcp.transfer, tcp.request_octets > 0, offers)


@compiled
def _opened(
    connections: Connections, tcp: Connection, source: TrafficSource, index: int, now_ns: int, offers: Offers
) -> None:
    """Measure the round-trip time of the handshake, and continue with the transfer."""
    if tcp.open_tries == 1:
        measure_rtt(tcp, now_ns - tcp.opened_ns)
    tcp.open_tries = 0
    tcp.open_rto_ns = tcp.rto_ns
    _go_on(connections, tcp, source, index, now_ns, offers)


@compiled
def _go_on(
    connections: Connections, tcp: Connection, source: TrafficSource, index: int, now_ns: int, offers: Offers
) -> None:
    """Send the request; without a request, start to send data."""
    if tcp.request_octets > 0:
        tcp.phase = _ASKING
        tcp.requested_at = tcp.received
        _open(tcp, source, index, now_ns, offers)
    else:
        tcp.phase = _BUSY
        tcp.open_ns = NEVER_NS
        _start_sending(connections, tcp, source, index, tcp.transfer, now_ns, offers)


@compiled
def _end_transfer(
    tcp: Connection, source: TrafficSource, index: int, draws: Draws, now_ns: int, offers: Offers
) -> None:
    complete(source, index, tcp.transfer_octets, tcp.began_ns, now_ns, offers)
    tcp.phase = _IDLE
    if source.table < source.table_end:
        tcp.open_ns = max(now_ns, source.timer_ns)
    else:
        tcp.open_ns = now_ns + int(tcp.idle_ns * exponential(draws) + 0.5)


@compiled
def _start_sending(
    connections: Connections,
    tcp: Connection,
    source: TrafficSource,
    index: int,
    transfer: int,
    now_ns: int,
    offers: Offers,
) -> None:
    """Start to send a transfer; a new request means that the previous transfer was received."""
    first = tcp.end
    advance(connections.boards[source.connection], connections.segments, first)
    tcp.serving = transfer
    tcp.acked = tcp.following = tcp.sent_end = first
    tcp.end = first + tcp.transfer_segments
    tcp.duplicates = tcp.limited = tcp.recovering = tcp.timer_waits = 0
    tcp.timed = -1
    tcp.rto_due_ns = NEVER_NS
    if tcp.handshake or transfer == 1:
        tcp.cwnd = 1.0 if tcp.syn_lost else float(tcp.initial_window)
        tcp.ssthresh = float(tcp.window)
        tcp.recover = first - 1
        tcp.w_max = tcp.prior = 0.0
        tcp.epoch_ns = _NO_EPOCH
        tcp.alpha, tcp.reduced_to, tcp.window_end = 1.0, first, first
    elif now_ns - tcp.sent_ns > tcp.rto_ns:
        tcp.cwnd = min(tcp.cwnd, float(tcp.initial_window))
    _send(connections, tcp, source, index, now_ns, offers)


@inlined
def _has_data(tcp: Connection, source: TrafficSource, now_ns: int) -> bool:
    """Return whether a segment remains to be sent, regardless of the windows."""
    if tcp.following < tcp.sent_end:
        return True
    if tcp.serving == 0:
        return False
    return tcp.following < tcp.end if tcp.transfer_segments > 0 else now_ns < source.stop_ns


@inlined
def _is_open(connections: Connections, tcp: Connection, source: TrafficSource) -> bool:
    """Return whether the windows allow the next segment."""
    flight = tcp.following - tcp.acked
    if tcp.sack:
        in_flight = in_network(connections.boards[source.connection], tcp.following)
        return in_flight < int(tcp.cwnd) and flight < tcp.window
    allowed = int(tcp.cwnd)
    if not tcp.recovering and tcp.following >= tcp.sent_end:
        allowed += min(tcp.duplicates, _LIMITED)
    return flight < min(allowed, tcp.window)


@compiled
def _send(
    connections: Connections, tcp: Connection, source: TrafficSource, index: int, now_ns: int, offers: Offers
) -> None:
    """Send the segments that the windows allow, lost segments first, while offers have capacity."""
    tcp.blocked = 0
    if tcp.sack:
        board, segments = connections.boards[source.connection], connections.segments
        while in_network(board, tcp.following) < int(tcp.cwnd):
            lost = next_lost(board, segments)
            if lost == NO_SEGMENT:
                break
            if not can_offer(offers):
                tcp.blocked = 1
                return
            _retransmit(connections, tcp, source, index, lost, now_ns, offers)
    while _is_open(connections, tcp, source) and _has_data(tcp, source, now_ns):
        if not can_offer(offers):
            tcp.blocked = 1
            return
        if not tcp.sack and tcp.following - tcp.acked >= int(tcp.cwnd):
            tcp.limited += 1
        _send_segment(tcp, source, index, tcp.following, now_ns, offers)
        tcp.following += 1


@compiled
def _send_segment(
    tcp: Connection, source: TrafficSource, index: int, segment: int, now_ns: int, offers: Offers
) -> None:
    octets = source.frame_octets
    if tcp.transfer_segments > 0 and segment == tcp.end - 1:
        octets = tcp.last_octets
    offer = offer_data(source, index, octets, segment, offers)
    offer.is_ect = tcp.ecn
    tcp.in_host += 1
    if segment < tcp.sent_end:
        source.retransmits += 1
    else:
        tcp.sent_end = segment + 1
        offer.echo, tcp.announces = tcp.announces, 0
        if tcp.timed < 0:
            tcp.timed, tcp.timed_ns = segment, now_ns
    tcp.sent_ns = now_ns
    if tcp.rto_due_ns == NEVER_NS:
        tcp.rto_due_ns = now_ns + tcp.rto_ns


@compiled
def _retransmit(
    connections: Connections,
    tcp: Connection,
    source: TrafficSource,
    index: int,
    segment: int,
    now_ns: int,
    offers: Offers,
) -> None:
    tcp.timed = -1
    if tcp.sack:
        note_resent(connections.boards[source.connection], connections.segments, segment)
    _send_segment(tcp, source, index, segment, now_ns, offers)


@compiled
def _take_ack(
    connections: Connections,
    tcp: Connection,
    source: TrafficSource,
    index: int,
    value: int,
    echo: int,
    now_ns: int,
    offers: Offers,
) -> None:
    if value > tcp.sent_end:
        return
    count = max(0, value - tcp.acked)
    is_marked = tcp.ecn == 1 and echo & _ECHO == 1
    if tcp.algorithm == _DCTCP:
        _estimate_marks(tcp, value, count, is_marked)
    if is_marked and not tcp.recovering and value > tcp.reduced_to:
        _reduce_by_mark(tcp)
    if count > 0 and 0 <= tcp.timed < value:
        measure_rtt(tcp, now_ns - tcp.timed_ns)
        tcp.timed = -1
    if tcp.sack:
        _take_selective_ack(connections, tcp, source, index, value, echo, now_ns, offers)
    elif count > 0:
        tcp.acked = value
        tcp.following = max(tcp.following, value)
        restarts = True
        if not tcp.recovering:
            _grow(tcp, count, now_ns)
            tcp.duplicates = tcp.limited = 0
        elif tcp.algorithm == _RENO or value >= tcp.recover:
            _leave_recovery(tcp)
        else:
            restarts = not tcp.was_partial
            tcp.was_partial = 1
            tcp.cwnd = max(tcp.cwnd - count + 1.0, 1.0)
            _retransmit(connections, tcp, source, index, tcp.acked, now_ns, offers)
        _set_timer(tcp, restarts, now_ns)
    elif value == tcp.acked and tcp.acked < tcp.sent_end:
        tcp.duplicates += 1
        if tcp.recovering:
            tcp.cwnd += 1.0
        elif tcp.duplicates == _DUPLICATES and (tcp.algorithm == _RENO or tcp.acked > tcp.recover):
            _enter_recovery(tcp)
            _retransmit(connections, tcp, source, index, tcp.acked, now_ns, offers)
    _send(connections, tcp, source, index, now_ns, offers)


@inlined
def _set_timer(tcp: Connection, restarts: bool, now_ns: int) -> None:
    """Stop the timer if no segment is in flight; otherwise restart the timer if ``restarts``."""
    if tcp.acked == tcp.sent_end:
        tcp.rto_due_ns = NEVER_NS
    elif restarts:
        tcp.rto_due_ns = now_ns + tcp.rto_ns


@compiled
def _take_selective_ack(
    connections: Connections,
    tcp: Connection,
    source: TrafficSource,
    index: int,
    value: int,
    echo: int,
    now_ns: int,
    offers: Offers,
) -> None:
    """Process the block of an acknowledgement, and begin or end a recovery (RFC 6675, 5)."""
    board, segments = connections.boards[source.connection], connections.segments
    count = value - tcp.acked
    if count > 0:
        advance(board, segments, value)
        tcp.acked = value
        if tcp.recovering and value >= tcp.recover:
            tcp.recovering = 0
        elif not tcp.recovering:
            _grow(tcp, count, now_ns)
        _set_timer(tcp, True, now_ns)
    begin, end = echo >> 1 & _BLOCK_MASK, echo >> (1 + _BLOCK_BITS)
    if end > begin:
        take_block(board, segments, value + begin, value + end)
    if find_losses(board, segments) >= max(0, tcp.recover) and not tcp.recovering:
        _reduce(tcp, min(int(tcp.cwnd), tcp.following - tcp.acked))
        tcp.cwnd = tcp.ssthresh
        tcp.recover = tcp.sent_end
        tcp.recovering = 1
        _set_timer(tcp, True, now_ns)
        if can_offer(offers):
            _retransmit(connections, tcp, source, index, next_lost(board, segments), now_ns, offers)


@compiled
def _reduce_by_mark(tcp: Connection) -> None:
    """Reduce the window after a mark (RFC 3168, 6.1.2; RFC 8257, 3.3)."""
    _reduce(tcp, int(tcp.cwnd))
    if tcp.algorithm == _DCTCP:
        tcp.ssthresh = max(tcp.cwnd * (1.0 - tcp.alpha / 2.0), _MIN_SSTHRESH)
    tcp.cwnd = tcp.ssthresh
    tcp.reduced_to = tcp.sent_end
    tcp.announces = _ECHO


@compiled
def _estimate_marks(tcp: Connection, value: int, count: int, is_marked: bool) -> None:
    """Update the estimated share of marked segments, once per window (RFC 8257, 3.3)."""
    tcp.seen_segments += count
    tcp.marked_segments += count * int(is_marked)
    if value > tcp.window_end:
        share = tcp.marked_segments / max(1, tcp.seen_segments)
        tcp.alpha += _DCTCP_GAIN * (share - tcp.alpha)
        tcp.window_end = tcp.sent_end
        tcp.seen_segments = tcp.marked_segments = 0


@compiled
def _enter_recovery(tcp: Connection) -> None:
    _reduce(tcp, tcp.following - tcp.acked - tcp.limited)
    tcp.recover = tcp.sent_end
    tcp.recovering = 1
    tcp.was_partial = 0
    tcp.cwnd = tcp.ssthresh + _DUPLICATES


@compiled
def _leave_recovery(tcp: Connection) -> None:
    tcp.recovering = 0
    tcp.duplicates = tcp.limited = 0
    tcp.cwnd = tcp.ssthresh
    if tcp.algorithm != _RENO:
        # RFC 6582 has two options; this option causes no burst.
        tcp.cwnd = min(tcp.cwnd, max(tcp.following - tcp.acked, 1) + 1.0)


@compiled
def _reduce(tcp: Connection, flight: int) -> None:
    """Set ssthresh from the flight size after a detected loss."""
    if tcp.algorithm == _CUBIC:
        tcp.prior = tcp.cwnd
        converging = tcp.cwnd < tcp.w_max
        tcp.w_max = tcp.cwnd * (1.0 + _CUBIC_BETA) / 2.0 if converging else tcp.cwnd
        tcp.epoch_ns = _NO_EPOCH
    tcp.ssthresh = _reduced(tcp, flight)


@inlined
def _reduced(tcp: Connection, flight: int) -> float:
    return max(flight * (_CUBIC_BETA if tcp.algorithm == _CUBIC else 0.5), _MIN_SSTHRESH)


@compiled
def _time_out(
    connections: Connections, tcp: Connection, source: TrafficSource, index: int, now_ns: int, offers: Offers
) -> None:
    """Treat all segments in flight as lost; wait instead if the first segment is still in the host."""
    if _is_in_host(connections, tcp, source):
        tcp.timer_waits = 1
        tcp.rto_due_ns = NEVER_NS
        return
    source.timeouts += 1
    flight = tcp.following - tcp.acked - tcp.limited
    if tcp.recovering:
        # Duplicates allowed further segments, so the network has fewer segments than are unacknowledged.
        tcp.ssthresh = min(tcp.ssthresh, _reduced(tcp, flight))
    elif tcp.lost_at != tcp.acked:
        _reduce(tcp, flight)
    # CUBIC begins its next congestion avoidance without a previous window (RFC 9438, 4.8).
    tcp.w_max, tcp.epoch_ns = 0.0, _NO_EPOCH
    tcp.lost_at = tcp.acked
    tcp.cwnd = 1.0
    tcp.duplicates = tcp.limited = tcp.recovering = 0
    tcp.recover = tcp.sent_end
    tcp.timed = -1
    tcp.rto_ns = min(2 * tcp.rto_ns, tcp.rto_max_ns)
    tcp.rto_due_ns = NEVER_NS
    if tcp.sack:
        lose_all(connections.boards[source.connection], connections.segments, tcp.sent_end)
    else:
        tcp.following = tcp.acked
    _send(connections, tcp, source, index, now_ns, offers)


@compiled
def measure_rtt(tcp: Connection, rtt_ns: int) -> None:
    """Update the retransmission time-out from a round-trip time (RFC 6298, 2.2 and 2.3)."""
    if tcp.srtt_ns == 0.0:
        tcp.srtt_ns, tcp.rttvar_ns = float(rtt_ns), rtt_ns / 2.0
    else:
        tcp.rttvar_ns += (abs(tcp.srtt_ns - rtt_ns) - tcp.rttvar_ns) / 4.0
        tcp.srtt_ns += (rtt_ns - tcp.srtt_ns) / 8.0
    rto_ns = math.ceil(tcp.srtt_ns + max(1.0, 4.0 * tcp.rttvar_ns))
    tcp.rto_ns = min(max(rto_ns, tcp.rto_min_ns), tcp.rto_max_ns)


@compiled
def _grow(tcp: Connection, count: int, now_ns: int) -> None:
    """Increase the window for ``count`` acknowledged segments, unless a mark has just reduced the window."""
    if tcp.acked <= tcp.reduced_to and tcp.ecn == 1:
        return
    if tcp.cwnd < tcp.ssthresh:
        tcp.cwnd += 1.0
    elif tcp.algorithm == _CUBIC:
        _grow_cubic(tcp, count, now_ns)
    else:
        tcp.cwnd += 1.0 / tcp.cwnd
    tcp.cwnd = min(tcp.cwnd, float(tcp.window))


@compiled
def _grow_cubic(tcp: Connection, count: int, now_ns: int) -> None:
    if tcp.epoch_ns == _NO_EPOCH:
        tcp.epoch_ns = now_ns
        if tcp.w_max <= tcp.cwnd:
            tcp.w_max = tcp.cwnd
        tcp.k_s = ((tcp.w_max - tcp.cwnd) / _CUBIC_C) ** (1.0 / 3.0)
        tcp.w_est = tcp.cwnd
    tcp.w_est += (1.0 if tcp.w_est >= tcp.prior else _CUBIC_ALPHA) * count / tcp.cwnd
    elapsed_s = (now_ns - tcp.epoch_ns) / NS_PER_S
    if _cubic(tcp, elapsed_s) < tcp.w_est:
        tcp.cwnd = max(tcp.cwnd, tcp.w_est)
    else:
        target = _cubic(tcp, elapsed_s + tcp.srtt_ns / NS_PER_S)
        target = min(max(target, tcp.cwnd), _CUBIC_MAX_GROWTH * tcp.cwnd)
        tcp.cwnd += (target - tcp.cwnd) / tcp.cwnd


@inlined
def _cubic(tcp: Connection, elapsed_s: float) -> float:
    return _CUBIC_C * (elapsed_s - tcp.k_s) ** 3 + tcp.w_max


@compiled
def _take_segment(
    connections: Connections,
    tcp: Connection,
    source: TrafficSource,
    index: int,
    segment: int,
    octets: int,
    now_ns: int,
    offers: Offers,
) -> None:
    """Process a segment at its destination, and acknowledge the segment at once or later."""
    if tcp.phase == _ASKING and segment >= tcp.requested_at:
        tcp.phase = _BUSY
        tcp.open_ns = NEVER_NS
    segments, board = connections.segments, connections.boards[source.connection]
    at_once = True
    if segment >= tcp.received and not _has_arrived(segments, board, segment):
        source.delivered_frames += 1
        source.delivered_octets += octets
        if segment > tcp.received:
            segments[board.offset + (segment & board.mask)] |= ARRIVED
            tcp.beyond += 1
            _extend_block(tcp, segments, board, segment)
        else:
            at_once = tcp.beyond > 0 or not tcp.delays_ack
            tcp.received += 1
            while tcp.beyond > 0 and _has_arrived(segments, board, tcp.received):
                segments[board.offset + (tcp.received & board.mask)] &= 0xFF ^ ARRIVED
                tcp.beyond -= 1
                tcp.received += 1
    tcp.unacked += 1
    if at_once or tcp.unacked >= 2:
        _acknowledge(tcp, source, index, offers)
    else:
        tcp.ack_due_ns = now_ns + DELAYED_ACK_NS


@inlined
def _has_arrived(segments: Segments, board: Scoreboard, segment: int) -> bool:
    return bool(segments[board.offset + (segment & board.mask)] & ARRIVED > 0)


@compiled
def _extend_block(tcp: Connection, segments: Segments, board: Scoreboard, segment: int) -> None:
    """Set the block of the next acknowledgement to the range that contains ``segment``."""
    if segment != tcp.block_to:
        tcp.block_from = segment
        while tcp.block_from - 1 > tcp.received and _has_arrived(segments, board, tcp.block_from - 1):
            tcp.block_from -= 1
    tcp.block_to = segment + 1
    while tcp.block_to <= tcp.received + board.mask and _has_arrived(segments, board, tcp.block_to):
        tcp.block_to += 1


@compiled
def _echo_mark(
    tcp: Connection, source: TrafficSource, index: int, echo: int, is_marked: bool, offers: Offers
) -> None:
    """Set the echo of the next acknowledgements for a segment that has just arrived."""
    if tcp.ecn == 0:
        return
    if tcp.algorithm == _DCTCP:
        if tcp.unacked > 0 and tcp.echoes != int(is_marked):
            _acknowledge(tcp, source, index, offers)
        tcp.echoes = int(is_marked)
    elif is_marked:
        tcp.echoes = _ECHO
    elif echo & _ECHO == 1:
        tcp.echoes = 0


@inlined
def _acknowledge(tcp: Connection, source: TrafficSource, index: int, offers: Offers) -> None:
    tcp.unacked = 0
    tcp.ack_due_ns = NEVER_NS
    offer = _offer(tcp, source, index, ACK, tcp.received, True, offers)
    offer.echo = tcp.echoes
    if tcp.sack and tcp.block_to > tcp.received:
        begin, end = max(0, tcp.block_from - tcp.received), tcp.block_to - tcp.received
        offer.echo |= (end << _BLOCK_BITS | begin) << 1


def connection_count(flow: Flow) -> int:
    """Return the number of connections of ``flow``; 0 for a flow without TCP."""
    over_tcp = flow.pattern is Pattern.SIZES and flow.tcp is not None
    return flow.connections if over_tcp or flow.pattern in (Pattern.TCP, Pattern.TRANSACTIONS) else 0


def ring_length(flow: Flow) -> int:
    """Return the number of segments that a connection of ``flow`` occupies in ``Connections.segments``."""
    return 1 << (parameters_of(flow).window - 1).bit_length()


def parameters_of(flow: Flow) -> TCP:
    """Return the TCP parameters of ``flow``."""
    return flow.tcp or TCP()


def set_up_connection(
    connections: Connections, source: TrafficSource, flow: Flow, offset: int, start_ns: int
) -> None:
    """Set up the connection for a source of ``flow``; the connection opens at ``start_ns``."""
    tcp, board = connections.records[source.connection], connections.boards[source.connection]
    board.offset, board.mask = offset, ring_length(flow) - 1
    given = parameters_of(flow)
    tcp.sack = int(given.sack)
    tcp.ecn = int(given.ecn or given.algorithm == "dctcp")
    tcp.algorithm = ALGORITHMS[given.algorithm]
    tcp.window, tcp.initial_window = given.window, given.initial_window
    tcp.rto_min_ns, tcp.rto_max_ns = given.rto_min_ns, given.rto_max_ns
    tcp.delays_ack, tcp.handshake = int(given.delayed_ack), int(given.syn)
    tcp.ack_octets = max(MIN_FRAME_OCTETS, given.ack_octets)
    if flow.pattern is Pattern.TRANSACTIONS:
        tcp.request_octets, tcp.idle_ns = flow.request_octets, flow.idle_ns
        _set_size(tcp, source, flow.response_octets)
    tcp.open_ns = start_ns
    tcp.rto_ns = min(max(FIRST_RTO_NS, tcp.rto_min_ns), tcp.rto_max_ns)
    tcp.rto_due_ns = tcp.ack_due_ns = NEVER_NS
    tcp.lost_at = tcp.timed = -1
    tcp.epoch_ns = _NO_EPOCH
