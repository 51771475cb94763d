"""Frame pool: all frames in use, and frame queues as linked lists in the pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.kernels.structs import Struct

NOWHERE = -1
"""Marker for no frame: the end of a queue or of the free list."""


class Frame:
    """Frame between its station and its destination; a record (``kernels.record``)."""

    serial: int
    """Frame number in the capture or among all offers; a probe has the number of the preceding frame."""
    following: int
    """Next frame of the queue or of the free list."""
    station: int
    flow: int
    priority: int
    octets: int
    """Length in octets, without FCS and with tags."""
    probe: int
    sampled: int
    answerable: int
    tagged: int
    tag: int
    mark: int
    arrival_ns: int
    """Arrival time at the port in ns, while the frame is on its station's link."""
    limit_bps: float
    """Rate in bit/s of the limiter that the frame passed; 0 without a limiter."""
    rtt_average_ns: float
    """Average round-trip time of the limiter that the frame passed, in ns; NO_AVERAGE without a limiter."""
    destination: int
    """Destination station; NOWHERE if there is only one path."""
    path: int
    """Hash input that selects one of several paths of equal length."""
    input: int
    """Input of the current switch on which the frame arrived; NOWHERE without an input."""
    input_queue: int
    """Queue in which the frame waited at the previous device, which PFC of the current switch stops."""
    source: int
    """Number of the source that offered the frame; NOWHERE without a source."""
    number: int
    """Frame number at the source; for a message, the number of its sender (ports, then stations)."""
    echo: int
    """Second number of the source, as in `Offer.echo`."""
    sent_ns: int
    """Departure time from the station's queue, in ns."""
    carries: int
    """Whether the frame carries a message."""


class Stock:
    """Number of a pool's frames in use, and list of its free frames; a record."""

    used: int
    free: int
    """Head of the list of freed frames, which is the last frame freed; NOWHERE for an empty list."""
    fresh: int
    """First frame never used; this frame and all later frames are free, and their memory is untouched."""


class Pool(Struct):
    """All frames in use; their number is limited by the capacity of the queues."""

    stock: Stock
    frames: Sequence[Frame]


class Queue:
    """Queue of frames; a record."""

    head: int
    tail: int
    octets: int
    length: int


def new_pool(size: int) -> Pool:
    """Return a pool of ``size`` free frames."""
    stock = new_record(Stock)
    stock.free = NOWHERE
    return Pool(stock, new_records(Frame, size))


def enlarge_pool(pool: Pool) -> None:
    """Double the capacity of ``pool``."""
    grown = new_records(Frame, 2 * len(pool.frames))
    # The copy is in bytes, because numpy copies records field by field.
    old = columns(pool.frames)[: pool.stock.fresh].view(np.uint8)
    columns(grown).view(np.uint8)[: len(old)] = old
    pool.frames = grown


def new_queues(count: int) -> Sequence[Queue]:
    """Return ``count`` empty queues."""
    queues = new_records(Queue, count)
    columns(queues)["head"] = columns(queues)["tail"] = NOWHERE
    return queues


@inlined
def is_used_up(pool: Pool, count: int) -> bool:
    """Return whether fewer than ``count`` frames are free."""
    return bool(pool.stock.used + count > len(pool.frames))


@inlined
def take(pool: Pool) -> int:
    """Mark a free frame as in use and return its index; the frame has no source and no tag.

    The pool must not be exhausted.
    """
    stock = pool.stock
    index = stock.free
    if index == NOWHERE:
        index = stock.fresh
        stock.fresh += 1
    else:
        stock.free = pool.frames[index].following
    stock.used += 1
    frame = pool.frames[index]
    frame.following = frame.input = frame.source = frame.destination = NOWHERE
    frame.probe = frame.sampled = frame.answerable = frame.carries = 0
    frame.tagged = frame.tag = frame.mark = frame.path = 0
    return index


@inlined
def give_back(pool: Pool, index: int) -> None:
    """Free a frame."""
    pool.frames[index].following = pool.stock.free
    pool.stock.free = index
    pool.stock.used -= 1


@compiled
def append(pool: Pool, queue: Queue, index: int) -> None:
    """Append a frame to ``queue``."""
    if queue.length == 0:
        queue.head = index
    else:
        pool.frames[queue.tail].following = index
    queue.tail = index
    queue.length += 1
    queue.octets += pool.frames[index].octets


@compiled
def take_first(pool: Pool, queue: Queue) -> int:
    """Remove the first frame of ``queue`` and return its index; the queue must not be empty."""
    index = queue.head
    queue.head = pool.frames[index].following
    queue.length -= 1
    queue.octets -= pool.frames[index].octets
    pool.frames[index].following = NOWHERE
    return index
