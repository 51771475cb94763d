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
    """Entries 0 to n − 1: ``due_ns`` of each, the entries as a heap, and the place of each in it."""

    due_ns: NDArray[np.int64]
    heap: NDArray[np.int64]
    place: NDArray[np.int64]


def new_event_heap(entries: int) -> EventHeap:
    """Return an agenda of which no entry is due."""
    order = np.arange(entries)
    return EventHeap(np.full(entries, NEVER_NS), order.copy(), order.copy())


@inlined
def first(agenda: EventHeap) -> int:
    """Return the entry that is due first."""
    return int(agenda.heap[0])


@inlined
def first_ns(agenda: EventHeap) -> int:
    """Return when that is."""
    return int(agenda.due_ns[agenda.heap[0]])


@compiled
def set_due(agenda: EventHeap, entry: int, due_ns: int) -> None:
    """Let ``entry`` be due at ``due_ns``; NEVER_NS: not at all."""
    if agenda.due_ns[entry] == due_ns:
        return
    agenda.due_ns[entry] = due_ns
    _rise(agenda, agenda.place[entry])
    _sink(agenda, agenda.place[entry])


@inlined
def _before(agenda: EventHeap, one: int, other: int) -> bool:
    one_ns, other_ns = agenda.due_ns[one], agenda.due_ns[other]
    return bool(one_ns < other_ns or (one_ns == other_ns and one < other))


@inlined
def _rise(agenda: EventHeap, place: int) -> None:
    heap = agenda.heap
    entry = heap[place]
    while place > 0:
        above = (place - 1) // 2
        if not _before(agenda, entry, heap[above]):
            break
        heap[place] = heap[above]
        agenda.place[heap[place]] = place
        place = above
    heap[place] = entry
    agenda.place[entry] = place


@inlined
def _sink(agenda: EventHeap, place: int) -> None:
    heap = agenda.heap
    entry = heap[place]
    while 2 * place + 1 < len(heap):
        below = 2 * place + 1
        if below + 1 < len(heap) and _before(agenda, heap[below + 1], heap[below]):
            below += 1
        if not _before(agenda, heap[below], entry):
            break
        heap[place] = heap[below]
        agenda.place[heap[place]] = place
        place = below
    heap[place] = entry
    agenda.place[entry] = place
