"""Exact keys: numbers as a dictionary gives them, however the table grew and whatever its coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.batch.keys import EMPTY, Keys, has_room, larger_keys, new_keys, slot_of

LIMIT = 2**63
NUMBERS = st.one_of(
    st.integers(-LIMIT, LIMIT - 1), st.integers(0, 3), st.sampled_from([-LIMIT, LIMIT - 1, -1])
)


def numbered(keys: Keys, pairs: list[tuple[int, int]]) -> tuple[list[int], Keys]:
    numbers, used = [], 0
    for low, high in pairs:
        if not has_room(keys.number, used):
            keys = larger_keys(keys)
        slot = slot_of(*keys, low, high)
        if keys.number[slot] == EMPTY:
            keys.low[slot], keys.high[slot], keys.number[slot] = low, high, used
            used += 1
        numbers.append(int(keys.number[slot]))
    return numbers, keys


@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=60))
def test_keys_are_numbered_in_order_of_appearance(pairs: list[tuple[int, int]]) -> None:
    known: dict[tuple[int, int], int] = {}
    expected = [known.setdefault(pair, len(known)) for pair in pairs]
    numbers, keys = numbered(new_keys(2), pairs)
    assert numbers == expected
    assert 2 * len(known) <= len(keys.number)


def test_keys_that_all_hash_alike_are_told_apart() -> None:
    keys = new_keys(64)
    keys.coefficients[:] = 0
    pairs = [(low, high) for low in range(5) for high in range(5)]
    assert numbered(keys, pairs + pairs)[0] == [*range(25), *range(25)]


@pytest.mark.parametrize("step", [1, 2, 1 << 8, 1 << 16, 1 << 24, 1 << 32, 1 << 40, 1 << 48, 0x010001000100])
@pytest.mark.parametrize("part", [0, 1])
def test_regular_keys_do_not_pile_up(step: int, part: int) -> None:
    keys = new_keys(4096)
    pairs = [(0, step * i) if part else (step * i, 0) for i in range(1024)]
    _, keys = numbered(keys, pairs)
    runs = np.diff(np.flatnonzero(keys.number == EMPTY))
    assert runs.max() < 200
