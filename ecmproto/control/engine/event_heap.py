"""Event heap: numbered entries with changeable times, sorted by time.

All entries are leaves, in order. An inner node is the earlier of its two children (a tournament tree). A
change of a time takes one step per level, without branches that the processor can mispredict. This is three
times as fast as a binary heap of the due entries. Among entries due at the same time, the lowest number is
first, so that the result does not depend on the scheduling of a run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.structs import Struct


class EventHeap(Struct):
    """Tournament tree in arrays: node k has the children 2k and 2k + 1, and node 1 is the root.

    Entry e is the leaf at half the array length + e. ``due_ns`` is the time of the earliest entry below each
    node, and ``earliest`` is the number of this entry.
    """

    due_ns: NDArray[np.int64]
    earliest: NDArray[np.int64]
    depth: int
    """Number of levels below the root."""


def new_event_heap(entries: int) -> EventHeap:
    """Return an event heap without due entries."""
    leaves = 1 << (max(1, int(entries)) - 1).bit_length()
    events = EventHeap(np.full(2 * leaves, NEVER_NS), np.zeros(2 * leaves, np.int64), leaves.bit_length() - 1)
    set_all_due(events, [])
    return events


def set_all_due(events: EventHeap, due_ns: ArrayLike) -> None:
    """Set the times of the entries, starting with entry 0; the remaining entries are not due."""
    times_ns = np.asarray(due_ns, np.int64)
    leaves = len(events.due_ns) // 2
    events.due_ns[leaves:] = NEVER_NS
    events.due_ns[leaves : leaves + len(times_ns)] = times_ns
    events.earliest[leaves:] = np.arange(leaves)
    while leaves > 1:
        nodes, children = slice(leaves // 2, leaves), slice(leaves, 2 * leaves)
        pairs_ns = events.due_ns[children].reshape(-1, 2)
        right = pairs_ns[:, 1] < pairs_ns[:, 0]
        events.due_ns[nodes] = pairs_ns.min(axis=1)
        events.earliest[nodes] = np.where(right, *events.earliest[children].reshape(-1, 2).T[::-1])
        leaves //= 2


def with_entries(events: EventHeap, entries: int) -> EventHeap:
    """Return a heap of ``entries`` entries with the times of ``events``, which must not be larger."""
    longer = new_event_heap(entries)
    set_all_due(longer, events.due_ns[len(events.due_ns) // 2 :][:entries])
    return longer


@inlined
def first(events: EventHeap) -> int:
    """Return the entry that is due first."""
    return int(events.earliest[1])


@inlined
def first_ns(events: EventHeap) -> int:
    """Return the time of the entry that is due first."""
    return int(events.due_ns[1])


@inlined
def entry_due_ns(events: EventHeap, entry: int) -> int:
    """Return the time of ``entry``."""
    return int(events.due_ns[(len(events.due_ns) >> 1) + entry])


@inlined
def first_beside(events: EventHeap, entry: int, level: int) -> int:
    """Return the entry that is due first in a subtree: the subtree at ``level`` that contains ``entry``."""
    node = (len(events.due_ns) >> 1) + entry
    return int(events.earliest[node >> max(0, events.depth - level)])


@inlined
def is_next_due(events: EventHeap, now_ns: int) -> bool:
    """Return whether a second entry is due at or before ``now_ns``."""
    node = (len(events.due_ns) >> 1) + events.earliest[1]
    others_ns = NEVER_NS
    while node > 1:
        others_ns = min(others_ns, events.due_ns[node ^ 1])
        node >>= 1
    return bool(others_ns <= now_ns)


@inlined
def set_due(events: EventHeap, entry: int, due_ns: int) -> None:
    """Set the time of ``entry``; NEVER_NS means never."""
    set_due_below(events, entry, due_ns, 1)


@compiled
def set_due_below(events: EventHeap, entry: int, due_ns: int, top: int) -> None:
    """Set the time of ``entry`` within the subtree of node ``top``; this subtree is a separate heap."""
    nodes_ns, earliest = events.due_ns, events.earliest
    node = (len(nodes_ns) >> 1) + entry
    if nodes_ns[node] == due_ns:
        return
    nodes_ns[node] = due_ns
    while node > top:
        beside_ns, beside = nodes_ns[node ^ 1], earliest[node ^ 1]
        # At equal times the left child is first. The left child is the sibling if this node's number is odd.
        # A mask replaces a condition, because the processor would often mispredict the branch.
        mask = -int(beside_ns < due_ns + (node & 1))
        due_ns ^= (due_ns ^ beside_ns) & mask
        entry ^= (entry ^ beside) & mask
        node >>= 1
        nodes_ns[node] = due_ns
        earliest[node] = entry
