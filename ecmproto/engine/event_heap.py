"""Event heap: numbered entries, each with a time that may change, the earliest first.

A binary heap with the position of every entry, so that a time changes in a few steps.  Of entries due at one
time the lowest number comes first, which makes a run the same however it was scheduled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.structs import Struct


class EventHeap(Struct):
    """Entries 0 to n − 1: ``due_ns`` of each, the entries as a heap, and the position of each in it."""

    due_ns: NDArray[np.int64]
    heap: NDArray[np.int64]
    position: NDArray[np.int64]


def new_event_heap(entries: int) -> EventHeap:
    """Return an event heap of which no entry is due."""
    order = np.arange(entries)
    return EventHeap(np.full(entries, NEVER_NS), order.copy(), order.copy())


@inlined
def first(events: EventHeap) -> int:
    """Return the entry that is due first."""
    return int(events.heap[0])


@inlined
def first_ns(events: EventHeap) -> int:
    """Return when the first entry is due."""
    return int(events.due_ns[events.heap[0]])


@inlined
def is_next_due(events: EventHeap, now_ns: int) -> bool:
    """Return whether another entry than the first is due by ``now_ns``."""
    heap = events.heap
    if len(heap) > 1 and events.due_ns[heap[1]] <= now_ns:
        return True
    return bool(len(heap) > 2 and events.due_ns[heap[2]] <= now_ns)


@compiled
def set_due(events: EventHeap, entry: int, due_ns: int) -> None:
    """Set when ``entry`` is due; NEVER_NS: not at all."""
    if events.due_ns[entry] == due_ns:
        return
    events.due_ns[entry] = due_ns
    _rise(events, events.position[entry])
    _sink(events, events.position[entry])


@inlined
def _before(events: EventHeap, one: int, other: int) -> bool:
    one_ns, other_ns = events.due_ns[one], events.due_ns[other]
    return bool(one_ns < other_ns or (one_ns == other_ns and one < other))


@inlined
def _rise(events: EventHeap, position: int) -> None:
    heap = events.heap
    entry = heap[position]
    while position > 0:
        above = (position - 1) // 2
        if not _before(events, entry, heap[above]):
            break
        heap[position] = heap[above]
        events.position[heap[position]] = position
        position = above
    heap[position] = entry
    events.position[entry] = position


@inlined
def _sink(events: EventHeap, position: int) -> None:
    heap = events.heap
    entry = heap[position]
    while 2 * position + 1 < len(heap):
        below = 2 * position + 1
        if below + 1 < len(heap) and _before(events, heap[below + 1], heap[below]):
            below += 1
        if not _before(events, heap[below], entry):
            break
        heap[position] = heap[below]
        events.position[heap[position]] = position
        position = below
    heap[position] = entry
    events.position[entry] = position
