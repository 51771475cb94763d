"""The frame pool and its queues, compared with lists and deques."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.engine.frame_pool import (
    NOWHERE,
    append,
    enlarge_pool,
    give_back,
    is_used_up,
    new_pool,
    new_queues,
    take,
    take_first,
)

QUEUES = 3
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "get"]), st.integers(0, QUEUES - 1), st.integers(1, 9_000)),
    max_size=60,
)


@given(STEPS)
def test_queues_match_deques_and_share_no_frame(steps: list[tuple[str, int, int]]) -> None:
    pool, queues = new_pool(4), new_queues(QUEUES)
    model: list[deque[tuple[int, int]]] = [deque() for _ in range(QUEUES)]
    for what, number, octets in steps:
        if what == "put":
            if is_used_up(pool, 1):
                enlarge_pool(pool)
            index = take(pool)
            assert all(index != other for queue in model for other, _ in queue)
            pool.frames[index].octets = octets
            append(pool, queues[number], index)
            model[number].append((index, octets))
        elif model[number]:
            index, octets = model[number].popleft()
            assert take_first(pool, queues[number]) == index
            assert pool.frames[index].octets == octets
            give_back(pool, index)
        for queue, kept in zip(queues, model, strict=True):
            assert (queue.length, queue.octets) == (len(kept), sum(octets for _, octets in kept))
            assert not kept or (queue.head, queue.tail) == (kept[0][0], kept[-1][0])
        assert pool.stock.used == sum(map(len, model)) <= len(pool.frames)


@given(st.integers(1, 9), st.integers(0, 9))
def test_pool_is_used_up_below_requested_count(size: int, taken: int) -> None:
    pool = new_pool(size)
    for _ in range(min(size, taken)):
        take(pool)
    free = size - min(size, taken)
    for count in range(size + 2):
        assert is_used_up(pool, count) == (count > free)


def test_enlarged_pool_keeps_frames_and_duplicates_none() -> None:
    pool = new_pool(4)
    used = [take(pool) for _ in range(4)]
    give_back(pool, used.pop(1))
    for index in used:
        pool.frames[index].serial = 100 + index
    enlarge_pool(pool)
    assert [pool.frames[index].serial for index in used] == [100 + index for index in used]
    fresh = [take(pool) for _ in range(5)]
    assert sorted([*used, *fresh]) == list(range(8))
    assert is_used_up(pool, 1)


@pytest.mark.parametrize("rounds", [1, 3])
def test_pools_grow_more_than_once(rounds: int) -> None:
    pool = new_pool(1)
    for _ in range(rounds):
        enlarge_pool(pool)
    assert sorted(take(pool) for _ in range(2**rounds)) == list(range(2**rounds))
    assert pool.stock.free == NOWHERE


def test_reused_frame_ends_its_queue() -> None:
    pool, (queue, *_) = new_pool(3), new_queues(1)
    for _ in range(3):
        append(pool, queue, take(pool))
    for _ in range(3):
        give_back(pool, take_first(pool, queue))
    append(pool, queue, take(pool))
    take_first(pool, queue)
    assert (queue.head, queue.length) == (NOWHERE, 0)
