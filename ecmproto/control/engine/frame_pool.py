"""The frame pool: all frames in use, and queues of them, each a list through the pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.kernels.structs import Struct

NOWHERE = -1
"""No frame: the end of a queue or of the free ones."""


class Frame:
    """A frame between its station and its destination; a record (``kernels.record``)."""

    serial: int
    """Its number in the capture or among all offers, or that of the frame that a probe follows."""
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
    destination: int
    """The station that it is for; NOWHERE where there is but one way."""
    path: int
    """Chooses among ways of the same length."""
    input: int
    """The input through which it came to the switch where it is; NOWHERE for none."""
    source: int
    """The number of the source that offered it, NOWHERE for none …"""
    number: int
    """… its number there; of one that carries a message the port, or behind these the station, it is of …"""
    offered_ns: int
    """… and when that was."""
    sent_ns: int
    """When it left its station's queue."""
    carries: int
    """Whether it carries a message."""


class Stock:
    """The number of frames that a pool has in use, and which are free; a record."""

    used: int
    free: int
    """The frame that was given back last, the first of a list; NOWHERE for none."""
    fresh: int
    """The first frame that was never in use: those from there on are free, their memory untouched."""


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
    stock = new_record(Stock)
    stock.free = NOWHERE
    return Pool(stock, new_records(Frame, size))


def enlarge_pool(pool: Pool) -> None:
    """Give ``pool`` room for twice as many frames."""
    grown = new_records(Frame, 2 * len(pool.frames))
    # As octets: numpy copies records field by field.
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
    """Return whether there are fewer than ``count`` free frames."""
    return bool(pool.stock.used + count > len(pool.frames))


@inlined
def take(pool: Pool) -> int:
    """Return the index of a free frame, which is in use now, of no source and without tag; there is one."""
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
