"""Batches: creation, selection and frame numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, linktype_name

FRAMES = [b"a", b"", b"ccc", b"dd"]


def test_a_batch_contains_its_frames() -> None:
    batch = Batch.from_frames(FRAMES, time_ns=[5, 6, 7, 8], first=10)
    assert list(batch.frames()) == [batch.frame(i) for i in range(4)] == FRAMES
    assert batch.numbers.tolist() == [10, 11, 12, 13]
    assert batch.original.tolist() == [1, 0, 3, 2]
    assert batch.interface.tolist() == [0] * 4
    with pytest.raises(IndexError):
        batch.frame(4)


def test_selections_keep_the_numbers() -> None:
    batch = Batch.from_frames(FRAMES, time_ns=[5, 6, 7, 8], first=10)
    once = batch.select(batch.time_ns > 5)
    twice = once.select([0, 2])
    assert (list(once.frames()), list(twice.frames())) == (FRAMES[1:], [b"", b"dd"])
    assert (once.numbers.tolist(), twice.numbers.tolist()) == ([11, 12, 13], [11, 13])
    assert twice.time_ns.tolist() == [6, 8]
    assert len(batch.select(np.zeros(4, dtype=bool))) == 0


def test_a_batch_may_be_empty() -> None:
    batch = Batch.from_frames([])
    assert (len(batch), list(batch.frames()), batch.numbers.tolist()) == (0, [], [])
    assert len(batch.select(np.empty(0, dtype=bool))) == 0


def test_a_matrix_is_not_copied() -> None:
    matrix = np.arange(12, dtype=np.uint8).reshape(3, 4)
    batch = Batch.from_matrix(matrix, time_ns=np.arange(3), interface=[1, 2, 3])
    assert np.shares_memory(batch.buffer, matrix)
    assert not batch.buffer.flags.writeable
    assert batch.frame(1) == b"\4\5\6\7"
    assert batch.interface.tolist() == [1, 2, 3]


def test_link_types_have_names() -> None:
    assert [linktype_name(n) for n in (1, 101, 113, 276, 4711)] == [
        "ETHERNET",
        "RAW_IP",
        "LINUX_SLL",
        "LINUX_SLL2",
        "LINKTYPE_4711",
    ]
