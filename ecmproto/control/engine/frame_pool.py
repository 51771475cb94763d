"""The frame pool: all frames in use, and their queues as linked lists in the pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.kernels.structs import Struct

NOWHERE = -1
"""No frame: the end of a queue or of the free list."""


class Frame:
    """A frame between its station and its destination; a record (``kernels.record``)."""

    serial: int
    """The frame's number in the capture or among all offers; for a probe, the followed frame's."""
    following: int
    """The next frame of the queue, or of the free list."""
    station: int
    flow: int
    priority: int
    octets: int
    """The length without FCS, with tags."""
    probe: int
    sampled: int
    answerable: int
    tagged: int
    tag: int
    mark: int
    comes_ns: int
    """The arrival time at the port, while the frame is on its station's link."""
    limit_bps: float
    """The rate of the limiter that the frame passed; 0 for none."""
    rtt_average_ns: float
    """The average round-trip time of the limiter that the frame passed; NO_AVERAGE for none."""
    destination: int
    """The destination station; NOWHERE if there is only one path."""
    path: int
    """The hash input that selects one of several paths of equal length."""
    input: int
    """The input of the current switch through which the frame came; NOWHERE for none."""
    source: int
    """The number of the source that offered the frame, NOWHERE for none."""
    number: int
    """The frame's number at its source; for a message, the number of its sender (ports, then stations)."""
    echo: int
    """A second number of the source, as `Offer.echo`."""
    sent_ns: int
    """The departure time from the station's queue."""
    carries: int
    """Whether the frame carries a message."""


class Stock:
    """The number of a pool's frames in use, and its free frames; a record."""

    used: int
    free: int
    """The head of the list of freed frames, the last one freed; NOWHERE for none."""
    fresh: int
    """The first frame never used: all from there on are free, and their memory is untouched."""


class Pool(Struct):
    """All frames in use, at most the capacity of the queues."""

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
    stock = new_record(Stock)
    stock.free = NOWHERE
    return Pool(stock, new_records(Frame, size))


def enlarge_pool(pool: Pool) -> None:
    """Double the capacity of ``pool``."""
    grown = new_records(Frame, 2 * len(pool.frames))
    # As bytes: numpy copies records field by field.
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
    """Return the index of a free frame, now in use, without source and tag; the pool is not exhausted."""
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
    """Remove the first frame of ``queue``, which is not empty, and return it."""
    index = queue.head
    queue.head = pool.frames[index].following
    queue.length -= 1
    queue.octets -= pool.frames[index].octets
    pool.frames[index].following = NOWHERE
    return index
