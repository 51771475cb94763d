"""Parts of a divided network, which run at the same time: conservative parallel simulation.

Each part has its switches, their hosts, and its own event heaps, frames and messages. A part runs for one
time window. A window is as long as the shortest delay across the cut (`Turn.lookahead_ns`), so nothing sent
in a window arrives in the same window. At the end of a window, a part waits until all other parts have
finished the window. The part then takes the frames and messages from its mailboxes, in the order of the
sending parts. The result therefore does not depend on the speed of the threads.

There are two mailboxes from each part to each other part. A part fills one mailbox while the other part may
still read the mailbox of the previous window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import Arrivals
from ecmproto.control.engine.event_heap import first_ns, set_all_due, set_due
from ecmproto.control.engine.frame_pool import append, take
from ecmproto.control.engine.loop import enlarge_stores, next_message_ns, run, spare_events
from ecmproto.control.engine.mail import Mailbox, clear_mailbox, new_mailbox
from ecmproto.control.engine.messages import put_in_flight
from ecmproto.control.engine.network import (
    NetworkState,
    add_frames,
    lengthen_in_flight,
    new_stores,
    stack_of,
)
from ecmproto.control.engine.traffic import MAX_OFFERS, Sources
from ecmproto.control.mechanisms.api.protocol import EVENT_MESSAGES, Receivers, Senders
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.atomics import load_acquire, store_release
from ecmproto.kernels.kernel import compiled, inlined, released
from ecmproto.kernels.record import columns, new_record
from ecmproto.kernels.structs import Draws, Struct

if TYPE_CHECKING:
    from ecmproto.control.engine.feedback import CapturedFeedback

FINISHED, FULL, WAITING = range(3)
"""Results of `run_part`: the end of the run, an exhausted store, or a part that is slower than this part."""
_STRIDE = 16
"""Number of words per part in shared arrays, so that no two parts write to the same cache line."""
_FRAMES = 1024
_MESSAGES = 256
_BEGUN = 1024


class Turn:
    """Progress of a part; a record."""

    part: int
    parts: int
    lookahead_ns: int
    windows: int
    """Number of finished windows."""
    waits: int
    """1 while the part waits for other parts."""


class Exchange(Struct):
    """Connection of a part with the other parts."""

    turn: Turn
    finished: NDArray[np.int64]
    """Number of windows that each part has finished, ``_STRIDE`` words apart."""
    next_ns: NDArray[np.int64]
    """Time of each part's next event after even and odd windows, and of the next arrival that it sent."""
    incoming: Sequence[Mailbox]
    """Mailboxes to the part: two for each sending part."""


@released
def run_part(
    network: NetworkState,
    senders: Senders,
    receivers: Receivers,
    sources: Sources,
    arrivals: Arrivals,
    feedback: CapturedFeedback,
    exchange: Exchange,
    spins: int,
) -> int:
    """Run a part up to, but not including, `Loop.change_ns`; return FINISHED, FULL or WAITING.

    Call the function again unless the result is FINISHED. Enlarge and drain the stores first if the result is
    FULL. ``spins`` is the number of times that the function examines whether other parts have finished.
    """
    loop, turn = network.loop, exchange.turn
    while True:
        if turn.waits == 0:
            loop.changes = 0
            run(network, senders, receivers, sources, arrivals, feedback, 0, 0, True)
            if loop.changes == 0:
                return FULL
            _finish_window(network, exchange)
        if not _have_finished(exchange, spins):
            return WAITING
        if not _has_capacity(network, exchange):
            return FULL
        _take_mail(network, sources, exchange)
        turn.waits = 0
        at_end = loop.window_ns >= loop.change_ns
        next_ns = loop.change_ns if at_end else _next_ns(exchange, loop.parity)
        loop.window_ns = min(next_ns + turn.lookahead_ns, NEVER_NS)
        loop.parity = 1 - loop.parity
        for number in range(loop.parity, len(network.mail), 2):
            clear_mailbox(network.mail[number])
        if at_end:
            return FINISHED


@compiled
def _finish_window(network: NetworkState, exchange: Exchange) -> None:
    """Publish the mailboxes of a window, and the time of the part's next event."""
    loop, turn, offers = network.loop, exchange.turn, network.offers
    next_ns = min(first_ns(network.port_events), next_message_ns(network))
    next_ns = min(next_ns, min(first_ns(network.events), first_ns(network.timers)))
    next_ns = min(next_ns, min(loop.report_ns, loop.source_ns))
    for number in range(loop.parity, len(network.mail), 2):
        mailbox = network.mail[number]
        next_ns = min(next_ns, mailbox.count.first_ns)
        for each in range(offers.count.begun):
            mailbox.begun[each] = offers.begun[each]
        mailbox.count.begun = offers.count.begun
    offers.count.begun = 0
    exchange.next_ns[(2 * turn.part + loop.parity) * _STRIDE] = next_ns
    turn.windows += 1
    turn.waits = 1
    store_release(exchange.finished, turn.part * _STRIDE, turn.windows)


@compiled
def _have_finished(exchange: Exchange, spins: int) -> bool:
    """Return whether all parts have finished the window, after at most ``spins`` looks at each part."""
    turn = exchange.turn
    for part in range(turn.parts):
        left = spins
        while load_acquire(exchange.finished, part * _STRIDE) < turn.windows:
            left -= 1
            if left <= 0:
                return False
    return True


@inlined
def _next_ns(exchange: Exchange, parity: int) -> int:
    """Return the time of the first event of all parts."""
    first = NEVER_NS
    for part in range(exchange.turn.parts):
        first = min(first, exchange.next_ns[(2 * part + parity) * _STRIDE])
    return first


@compiled
def _has_capacity(network: NetworkState, exchange: Exchange) -> bool:
    """Return whether the part has capacity for the frames and messages in its mailboxes."""
    frames, messages = EVENT_MESSAGES + MAX_OFFERS, 1
    for number in range(network.loop.parity, len(exchange.incoming), 2):
        frames += exchange.incoming[number].count.frames
        messages += exchange.incoming[number].count.messages
    in_flight = network.loop.sent - network.loop.received
    return bool(
        network.pool.stock.used + frames <= len(network.pool.frames)
        and in_flight + messages <= len(network.in_flight)
    )


@compiled
def _take_mail(network: NetworkState, sources: Sources, exchange: Exchange) -> None:
    """Schedule the frames and messages in the part's mailboxes, and expect the flows that began."""
    for number in range(network.loop.parity, len(exchange.incoming), 2):
        mailbox = exchange.incoming[number]
        if mailbox.count.first_ns < network.loop.window_ns:
            raise ValueError("expected no arrival within the window of its departure")
        for each in range(mailbox.count.frames):
            _take_frame(network, mailbox, each)
        for each in range(mailbox.count.messages):
            message = mailbox.messages[each]
            put_in_flight(network, message, message.station, mailbox.due_ns[each])
        if number >> 1 != exchange.turn.part:
            for each in range(mailbox.count.begun):
                sources.on_flow_begun(mailbox.begun[each])


@compiled
def _take_frame(network: NetworkState, mailbox: Mailbox, number: int) -> None:
    """Put a frame of a mailbox on the line that leads to the part."""
    index, port = take(network.pool), mailbox.ports[number]
    frames: Any = network.pool.frames
    frames[index] = mailbox.frames[number]
    frame = frames[index]
    if frame.carries == 1:
        network.carried[index] = mailbox.carried[number]
    stack = stack_of(network, index)
    for record in range(len(stack)):
        stack[record] = mailbox.stacks[number * len(stack) + record]
    queue = network.lines[port]
    append(network.pool, queue, index)
    if queue.length == 1:
        set_due(network.port_events, len(network.ports) + port, frame.arrival_ns)


def enlarge_part(network: NetworkState, exchange: Exchange) -> None:
    """Enlarge the exhausted stores of a part that cannot be drained."""
    if spare_events(network) == 0:
        enlarge_stores(network)
    while exchange.turn.waits and not _has_capacity(network, exchange):
        add_frames(network)
        lengthen_in_flight(network)


def divide(
    network: NetworkState, part_of: NDArray[np.int64], draws: Sequence[np.random.Generator], lookahead_ns: int
) -> list[tuple[NetworkState, Exchange]]:
    """Return the parts of a network before its run, each with its connection to the other parts.

    ``part_of`` is the part of each station and each port, numbered after the stations. ``draws`` are the
    random numbers of each part for losses. The parts share all records of ports, switches and stations with
    ``network``.
    """
    parts, stations = len(draws), len(network.links)
    mail = [
        [new_mailbox(_FRAMES, _MESSAGES, _BEGUN, network.loop.stack_records) for _ in range(2 * parts)]
        for _ in range(parts)
    ]
    finished, next_ns = np.zeros(parts * _STRIDE, np.int64), np.zeros(2 * parts * _STRIDE, np.int64)
    due_ns = network.timers.due_ns[len(network.timers.due_ns) // 2 :]
    of_timers = part_of[stations:]
    control_parts = [
        int(of_timers[_port_of_control(network, number)]) for number in range(len(network.controls))
    ]
    timer_parts = np.concatenate([of_timers, np.array(control_parts, np.int64), of_timers])
    divided = []
    for part in range(parts):
        stores = new_stores(network, part_of, mail[part], Draws(draws[part]), _BEGUN)
        stores.loop.part, stores.loop.window_ns = part, lookahead_ns
        own_ns = np.where(timer_parts == part, due_ns[: len(timer_parts)], NEVER_NS)
        set_all_due(stores.timers, own_ns)
        turn = new_record(Turn)
        turn.part, turn.parts, turn.lookahead_ns = part, parts, lookahead_ns
        incoming = [mail[sender][2 * part + parity] for sender in range(parts) for parity in range(2)]
        divided.append((stores, Exchange(turn, finished, next_ns, incoming)))
    return divided


def _port_of_control(network: NetworkState, control: int) -> int:
    return int(np.flatnonzero(columns(network.outputs)["control"] == control)[0])
