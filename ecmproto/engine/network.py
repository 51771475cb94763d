"""Records and stores of a network: the frame pool, stations' queues and links, messages in flight.

Everything but the port itself (`ecmproto.engine.port`) and the mechanism's machines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableSequence, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.engine.config import LoopConfig, PortConfig, RateChange
from ecmproto.engine.event_heap import EventHeap, new_event_heap
from ecmproto.engine.gauge import PRIORITIES
from ecmproto.engine.port import Port, lengthen_ring, new_port
from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.api.machine import Machine
from ecmproto.mechanisms.api.mechanism import Role
from ecmproto.mechanisms.api.protocol import Message, Outbox, new_outbox
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.pause.gate import Gates, new_gates
from ecmproto.mechanisms.pause.parameters import PFCReactionParameters
from ecmproto.record import columns, new_record, new_records
from ecmproto.structs import Draws, Struct

NOWHERE = -1
"""No frame: the end of a queue or of the free ones."""


class Frame:
    """A frame between its station and its destination; a record (``ecmproto.record``)."""

    serial: int
    """Its number in the capture, or the number of the frame that a probe follows."""
    following: int
    """The next frame of the same queue, or the next free one."""
    station: int
    flow: int
    priority: int
    octets: int
    """Without FCS, with its tags."""
    probe: int
    sampled: int
    answerable: int
    tagged: int
    tag: int
    mark: int
    comes_ns: int
    """When it comes to the port, while it is on its station's link."""
    limit_bps: float
    """The rate of the limiter that it left through; 0 for none."""
    rtt_average_ns: float
    """That limiter's average round-trip time; NO_AVERAGE for none."""


class Stock:
    """The number of frames that a pool has in use, and its first free one; a record."""

    used: int
    free: int


class Pool(Struct):
    """All frames in use; never more than the queues hold."""

    stock: Stock
    frames: Sequence[Frame]


class Queue:
    """A queue of frames; a record."""

    head: int
    tail: int
    octets: int
    length: int


def new_pool(size: int) -> Pool:
    """Return a pool of ``size`` free frames."""
    frames = new_records(Frame, size)
    columns(frames)["following"] = np.append(np.arange(1, size), NOWHERE)
    return Pool(new_record(Stock), frames)


def enlarge_pool(pool: Pool) -> None:
    """Give ``pool`` room for twice as many frames."""
    old, grown = len(pool.frames), new_pool(2 * len(pool.frames)).frames
    columns(grown)[:old] = columns(pool.frames)
    columns(grown)["following"][-1] = pool.stock.free
    pool.frames, pool.stock.free = grown, old


def new_queues(count: int) -> Sequence[Queue]:
    """Return ``count`` empty queues."""
    queues = new_records(Queue, count)
    columns(queues)["head"] = columns(queues)["tail"] = NOWHERE
    return queues


@inlined
def is_used_up(pool: Pool, count: int) -> bool:
    """Return whether there are fewer than ``count`` free frames."""
    return bool(pool.stock.used + count > len(pool.frames))


@inlined
def take(pool: Pool) -> int:
    """Return the index of a free frame, which is in use now; there is one."""
    index = pool.stock.free
    pool.stock.free = pool.frames[index].following
    pool.stock.used += 1
    pool.frames[index].following = NOWHERE
    return index


@inlined
def give_back(pool: Pool, index: int) -> None:
    """Free a frame."""
    pool.frames[index].following = pool.stock.free
    pool.stock.free = index
    pool.stock.used -= 1


@compiled
def append(pool: Pool, queue: Queue, index: int) -> None:
    """Put a frame at the end of ``queue``."""
    if queue.length == 0:
        queue.head = index
    else:
        pool.frames[queue.tail].following = index
    queue.tail = index
    queue.length += 1
    queue.octets += pool.frames[index].octets


@compiled
def take_first(pool: Pool, queue: Queue) -> int:
    """Take the first frame out of ``queue``, which is not empty, and return it."""
    index = queue.head
    queue.head = pool.frames[index].following
    queue.length -= 1
    queue.octets -= pool.frames[index].octets
    pool.frames[index].following = NOWHERE
    return index


_FIRST_FRAMES = 4096
_MESSAGES = 4096
_PASSAGES = 32_768

_Machines = TypeVar("_Machines")

TIMER = 0
ON_LINK = 1
OWN_QUEUES = 2
"""Where a station's entries in the event heap stand: its timer, the first frame on its link, its own queues,
then its limiters'."""
ENTRIES = OWN_QUEUES + PRIORITIES


class Passage:
    """The outcome of a frame that came to the port or never will; a record (``ecmproto.record``)."""

    serial: int
    """Its number in the capture; a probe's is that of the frame that it follows."""
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
    """Of its priority's queue after it; −1 if it did not come there."""
    limit_bps: float
    """The rate of the limiter that it came through; 0 for none."""
    rtt_average_ns: float
    """That limiter's average round-trip time; NO_AVERAGE for none."""


class Log:
    """The number of passages, and the loop's other counters; a record."""

    passages: int
    delivered_frames: int
    delivered_octets: int
    limited_frames: int
    """Frames that waited behind a limiter."""
    received_messages: int
    """Messages that reached a station."""
    longest_wait_octets: int
    """The most that ever stood behind one limiter."""


class Loop:
    """The time, and settings of all stations; a record."""

    now_ns: int
    change_ns: int
    """When the port's rate next changes; NEVER_NS if it does not any more."""
    changes: int
    """1 if the loop has come to that time, and waits for the change; else 0."""
    same_delays: int
    """1 if messages take the same time to every station: then they come in the order of sending."""
    queue_octets: int
    """The size of a queue of a station."""
    overhead_octets: int
    sent: int
    received: int
    """Messages ever sent, and those of them that were received."""


class Link:
    """The link between a station and the port; a record."""

    rate_bps: int
    to_port_ns: int
    """How long what a frame begins takes to the port."""
    to_station_ns: int
    """How long a message takes from the port, or from a destination, to the station."""
    free_ns: int
    """When the frame that it sends is through."""
    shared_ns: int
    """Until when frames that come have to wait for it (rule 1)."""


class NetworkState(Struct):
    """The state of a closed loop, without the mechanism's machines.

    ``in_flight`` is a ring of messages, its length a power of two, and ``due_ns`` when each comes to its
    station.  Station s has the entries from s · (ENTRIES + limiters) on in ``events`` and ``queues``;
    ``on_link`` has the frames that have left each station and not come to the port.
    """

    loop: Loop
    log: Log
    port: Port
    pool: Pool
    queues: Sequence[Queue]
    events: EventHeap
    links: Sequence[Link]
    on_link: Sequence[Queue]
    gates: Gates
    in_flight: MutableSequence[Message]
    due_ns: NDArray[np.int64]
    outbox: Outbox
    passages: Sequence[Passage]


def with_obeyed(config: LoopConfig, machine: Machine) -> LoopConfig:
    """Return ``config`` with the priorities of PFC that the parameters of ``machine`` say stations obey."""
    own = machine.parameters.get(Role.REACTION_POINT)
    if not isinstance(own, PFCReactionParameters):
        return config
    return dataclasses.replace(config, pfc_priorities=config.pfc_priorities & own.priorities)


def next_change_ns(changes: Sequence[RateChange]) -> int:
    """Return the time of the first of ``changes`` of a port's rate, NEVER_NS without one."""
    return changes[0].time_ns if changes else NEVER_NS


def new_network(
    port: PortConfig, config: LoopConfig, *, stations: int, limiters: int, tag_octets: int = 0
) -> NetworkState:
    """Return the stores for ``stations`` stations of ``limiters`` limiters each, everything empty.

    The mechanism's own tag adds ``tag_octets`` to a frame.
    """
    loop = new_record(Loop)
    loop.change_ns = next_change_ns(port.rate_changes)
    loop.queue_octets = config.queue_octets
    loop.overhead_octets = port.overhead_octets
    entries = stations * (ENTRIES + limiters)
    pool = new_pool(_FIRST_FRAMES)
    network = NetworkState(
        loop=loop,
        log=new_record(Log),
        port=new_port(port, tag_octets=tag_octets),
        pool=pool,
        queues=new_queues(entries),
        events=new_event_heap(entries),
        links=new_records(Link, stations),
        on_link=new_queues(stations),
        gates=new_gates(
            stations,
            rate_bps=config.link_rate_bps,
            pause=config.pause,
            pfc_priorities=config.pfc_priorities,
        ),
        in_flight=_ring(2 * _MESSAGES),
        due_ns=np.zeros(2 * _MESSAGES, np.int64),
        outbox=new_outbox(_MESSAGES),
        passages=new_records(Passage, _PASSAGES),
    )
    _add_slots(network.port, len(pool.frames))
    set_links(
        network,
        rate_bps=config.link_rate_bps,
        to_port_ns=config.propagation_ns,
        to_station_ns=config.feedback_delay_ns,
    )
    return network


def set_links(
    network: NetworkState,
    *,
    rate_bps: int | Sequence[int],
    to_port_ns: int | Sequence[int],
    to_station_ns: int | Sequence[int],
) -> None:
    """Give the stations' links their rates and delays, each one's own or the same for all, before a run.

    Times that PAUSE and PFC give in quanta stay those of ``LoopConfig.link_rate_bps``.
    """
    links = columns(network.links)
    links["rate_bps"], links["to_port_ns"], links["to_station_ns"] = rate_bps, to_port_ns, to_station_ns
    _compare_delays(network)


def _compare_delays(network: NetworkState) -> None:
    delays_ns = columns(network.links)["to_station_ns"]
    network.loop.same_delays = int((delays_ns == delays_ns[:1]).all())


def add_frames(network: NetworkState) -> None:
    """Make room for twice as many frames."""
    enlarge_pool(network.pool)
    _add_slots(network.port, len(network.pool.frames))


def lengthen_in_flight(network: NetworkState) -> None:
    """Make room for twice as many messages in flight."""
    size = len(network.in_flight)
    in_flight, due_ns = _ring(2 * size), np.zeros(2 * size, np.int64)
    numbers = np.arange(network.loop.received, network.loop.sent)
    old, new = numbers & (size - 1), numbers & (2 * size - 1)
    columns(in_flight)[new], due_ns[new] = columns(network.in_flight)[old], network.due_ns[old]
    network.in_flight, network.due_ns = in_flight, due_ns


def add_stations(
    network: NetworkState, port: PortConfig, config: LoopConfig, stations: int, limiters: int
) -> None:
    """Make room for more stations, all that there were as they are.

    The last of these has sent nothing yet: it was stopped by what stops all stations, as are the fresh ones.
    """
    fresh = new_network(port, config, stations=stations, limiters=limiters)
    for records in ("stopped", "pause_states", "pfc_states"):
        columns(getattr(fresh.gates, records))[:] = columns(getattr(network.gates, records))[-1]
    network.queues = lengthened(network.queues, fresh.queues)
    network.links = lengthened(network.links, fresh.links)
    network.on_link = lengthened(network.on_link, fresh.on_link)
    _compare_delays(network)
    network.gates = lengthened(network.gates, fresh.gates)
    _add_entries(network.events, len(fresh.queues))


def lengthened(old: _Machines, fresh: _Machines) -> _Machines:
    """Return ``old`` with the length of ``fresh``: the old stations, then the new ones.

    Both are arrays, or structs of arrays and others, whose first parts are the same stations.
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
    # Plain numbers say how things are laid out now; records and generators are what they have become.
    return fresh if isinstance(old, bool | int | float) else old


def _add_entries(events: EventHeap, entries: int) -> None:
    more = np.arange(len(events.due_ns), entries)
    events.due_ns = np.append(events.due_ns, np.full(len(more), NEVER_NS))
    events.heap = np.append(events.heap, more)
    events.position = np.append(events.position, more)


def _add_slots(port: Port, frames: int) -> None:
    """Give every ring of ``port`` a slot for each of ``frames``: none is ever full."""
    for priority in range(PRIORITIES):
        while int(port.line.slot_mask[priority]) + 1 < frames:
            lengthen_ring(port, priority)


def _ring(size: int) -> MutableSequence[Message]:
    ring: Any = new_records(Message, size)
    typed: MutableSequence[Message] = ring
    return typed
