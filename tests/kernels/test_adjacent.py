"""Records next to each other in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ecmproto.kernels.prefetching import prefetch
from ecmproto.kernels.record import adjacent, columns, new_records, zeros


class _Pair:
    first: int
    second: float


def test_adjacent_arrays_are_zeroed_and_side_by_side() -> None:
    with adjacent():
        pairs, row, none = new_records(_Pair, 3), zeros(5), zeros(0)
    assert len(none) == 0
    assert columns(pairs).ctypes.data - row.ctypes.data == row.nbytes
    columns(pairs)["first"] = row[:] = 7
    assert columns(pairs)["second"].tolist() == [0, 0, 0]
    assert [pair.first for pair in pairs] == [7, 7, 7]
    assert not np.shares_memory(zeros(5), row)


def test_other_threads_have_their_own_memory() -> None:
    with adjacent(), ThreadPoolExecutor(1) as others:
        rows = zeros(5), others.submit(zeros, 5).result()
        assert [row.base is None for row in rows] == [False, True]


def test_prefetching_changes_nothing() -> None:
    numbers = zeros(20)
    prefetch(numbers, 64)
    assert not numbers.any()
