"""Frames on their way through a closed loop: a pool of records, and the queues that they wait in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ecmproto.kernel import compiled, inlined
from ecmproto.record import columns, new_record, new_records
from ecmproto.structs import Struct

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


class Stock:
    """How many frames a pool has in use, and its first free one; a record."""

    used: int
    free: int


class Pool(Struct):
    """All frames under way; never more than the queues hold."""

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
    """Whether there are fewer than ``count`` free frames."""
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
