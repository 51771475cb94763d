"""The octets of frames in flight, compared with a list of all frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.engine.arrivals import EngineBatch, Intake
from ecmproto.control.mechanisms.api.machine import machine_of
from ecmproto.control.mechanisms.registry import NONE
from ecmproto.control.replay.closed_output import FramesInFlight
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.formats.ethertypes import DEFAULT


def taken_of(sizes: list[int]) -> list[EngineBatch]:
    """Return batches of ``sizes`` frames with different octets."""
    intake = Intake(machine_of(NONE, {}), cp_mac=bytes(6), ethertypes=DEFAULT, interfaces=(), flows=None)
    firsts = np.cumsum([0, *sizes])
    return [
        intake.take(Batch.from_frames([bytes(12) + n.to_bytes(2) for n in range(first, first + size)]))
        for first, size in zip(firsts.tolist(), sizes, strict=False)
    ]


def octets_of(store: FramesInFlight, serials: list[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for taken, chosen, position in store.find(np.array(serials, np.int64)):
        for index, place in zip(chosen.tolist(), position.tolist(), strict=True):
            assert index not in found
            found[index] = int.from_bytes(taken.batch.frame(place)[12:])
    return found


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.data())
def test_frames_are_found_until_they_have_passed(sizes: list[int], data: Any) -> None:
    store, waiting = FramesInFlight(), list[int]()
    count = 0
    for taken in taken_of(sizes):
        store.add(taken)
        waiting += range(count, count + len(taken.batch))
        count += len(taken.batch)
        if not waiting:
            continue
        chosen = data.draw(st.permutations(waiting).map(lambda p: p[: len(p) // 2 + 1]))
        assert octets_of(store, chosen) == dict(enumerate(chosen))
        store.passed(np.array(chosen, np.int64))
        waiting = [serial for serial in waiting if serial not in chosen]
        assert octets_of(store, waiting) == dict(enumerate(waiting))


def test_a_batch_is_released_after_its_frames() -> None:
    store = FramesInFlight()
    for taken in taken_of([4, 4, 4]):
        store.add(taken)
    store.passed(np.array([0, 1, 2, 4, 5, 6, 7, 8]))
    assert len(store._batches) == 2
    store.passed(np.array([3]))
    assert len(store._batches) == 1
    # The last frame remains in flight, even if part of it has passed.
    store.passed(np.array([9, 10, 11]))
    assert len(store._batches) == 1
