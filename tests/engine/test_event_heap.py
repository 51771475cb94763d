"""The heap of due events, compared with a sorted list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.engine.event_heap import (
    entry_due_ns,
    first,
    first_beside,
    first_ns,
    is_next_due,
    new_event_heap,
    set_all_due,
    set_due,
    with_entries,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS

MAX = 20
TIMES = st.sampled_from([0, 1, 2, 3, 4, 5, 1_000, NEVER_NS])
CHANGES = st.lists(st.tuples(st.integers(0, MAX - 1), TIMES), max_size=80)


def by_sorting(due_ns: list[int]) -> tuple[int, int]:
    """Return the time and the number of the first due event; among equal times, the lowest number."""
    return min((time_ns, entry) for entry, time_ns in enumerate(due_ns))


@given(st.integers(1, MAX), CHANGES)
def test_first_entry_equals_a_sorted_lists(entries: int, changes: list[tuple[int, int]]) -> None:
    events, due_ns = new_event_heap(entries), [NEVER_NS] * entries
    assert (first_ns(events), first(events)) == (NEVER_NS, 0)
    for chosen, time_ns in changes:
        entry = chosen % entries
        set_due(events, entry, time_ns)
        due_ns[entry] = time_ns
        assert (first_ns(events), first(events)) == by_sorting(due_ns)
        assert [entry_due_ns(events, each) for each in range(entries)] == due_ns
        bound_ns = sorted(due_ns)[1] if entries > 1 else NEVER_NS
        assert is_next_due(events, bound_ns)
        assert not is_next_due(events, min(bound_ns, NEVER_NS) - 1)


@given(st.lists(TIMES, min_size=1, max_size=MAX))
def test_entries_come_in_time_and_number_order(times_ns: list[int]) -> None:
    events = new_event_heap(len(times_ns))
    for entry, time_ns in enumerate(times_ns):
        set_due(events, entry, time_ns)
    came = []
    while first_ns(events) < NEVER_NS:
        came.append((first_ns(events), first(events)))
        set_due(events, first(events), NEVER_NS)
    assert came == sorted((time, entry) for entry, time in enumerate(times_ns) if time < NEVER_NS)


def test_all_entries_due_at_once_come_by_number() -> None:
    events = new_event_heap(50)
    set_all_due(events, np.zeros(50))
    came = []
    for _ in range(50):
        came.append(first(events))
        set_due(events, came[-1], NEVER_NS)
    assert came == list(range(50))


@given(st.lists(TIMES, min_size=1, max_size=MAX), st.integers(0, MAX), CHANGES)
def test_bulk_changes_equal_single_changes(
    times_ns: list[int], more: int, changes: list[tuple[int, int]]
) -> None:
    at_once, one_by_one = new_event_heap(len(times_ns)), new_event_heap(len(times_ns) + more)
    set_all_due(at_once, times_ns)
    at_once = with_entries(at_once, len(times_ns) + more)
    for entry, time_ns in enumerate(times_ns):
        set_due(one_by_one, entry, time_ns)
    for chosen, time_ns in changes:
        for events in (at_once, one_by_one):
            set_due(events, chosen % len(times_ns), time_ns)
        assert (first_ns(at_once), first(at_once)) == (first_ns(one_by_one), first(one_by_one))


def test_first_entry_of_a_part_of_the_heap() -> None:
    events = new_event_heap(16)
    set_all_due(events, [7, 3, 9, 5, 4, 8, 6, 2])
    assert [first_beside(events, entry, 3) for entry in (0, 1, 2, 7)] == [1, 1, 3, 7]
    assert [first_beside(events, entry, 1) for entry in (0, 7)] == [7, 7]
    assert first_beside(events, 5, 4) == first_beside(events, 5, 9) == 5
