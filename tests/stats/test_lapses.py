"""Lapses of pauses: by hand, beside a slow count, and over any cut into batches."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch
from ecmproto.frames.stats.lapses import Held, Lapses
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode

RATE = 400 * 10**9
PAUSE_NS = 83_885  # 65535 quanta, rounded up


def batch_of(*frames: tuple[int, str]) -> Batch:
    batch = Batch.from_frames([encode(build(line)) for _, line in frames])
    return dataclasses.replace(batch, time_ns=np.array([time_ns for time_ns, _ in frames], np.int64))


def held_of(*batches: Batch) -> list[Held]:
    lapses = Lapses({"one": RATE})
    for batch in batches:
        lapses.take("one", batch)
    return lapses.held()


def test_a_gap_counts_from_the_end_of_the_quanta() -> None:
    full = "pfc prio3=65535 prio4=100"
    (three, four) = held_of(batch_of((0, full), (PAUSE_NS, full), (2 * PAUSE_NS + 10, full)))
    assert (three.priority, three.frames, three.gaps, three.lapsed_ns) == (3, 3, 1, 10)
    assert (three.longest_ns, three.longest_lapse_ns) == (PAUSE_NS + 10, 10)
    assert three.first_lapse_ns == 2 * PAUSE_NS
    assert (four.priority, four.gaps) == (4, 2)
    assert four.lapsed_ns == 2 * PAUSE_NS + 10 - 2 * 128


def test_a_release_ends_what_it_ends() -> None:
    (three,) = held_of(batch_of((0, "pfc prio3=65535"), (50, "pfc prio3=0"), (10**9, "pfc prio3=65535")))
    assert (three.frames, three.releases, three.gaps) == (2, 1, 0)
    assert three.longest_ns == 50
    late = batch_of((0, "pfc prio3=65535"), (PAUSE_NS + 5, "pfc prio3=0"))
    assert held_of(late)[0].lapsed_ns == 5, "a release that comes too late"


def test_the_link_and_other_frames() -> None:
    (link,) = held_of(batch_of((0, "pause quanta=65535"), (7, "cnm"), (PAUSE_NS + 1, "pause quanta=0")))
    assert (link.priority, link.frames, link.releases, link.lapsed_ns) == (None, 1, 1, 1)
    assert held_of(Batch.from_frames([b"", bytes(10), encode(build("pfc prio3=1"))[:30]])) == []


FRAMES = st.lists(st.tuples(st.integers(0, 200_000), st.sampled_from([0, 1, 1000, 65535])), min_size=1)


@given(FRAMES, st.integers(0, 50), st.sampled_from([10**9, 10**10, RATE, 8 * 10**11]))
def test_the_slow_count_agrees(steps: list[tuple[int, int]], cut: int, rate_bps: int) -> None:
    times = np.cumsum([apart for apart, _ in steps]).tolist()
    frames = [(time_ns, f"pfc prio5={quanta}") for time_ns, (_, quanta) in zip(times, steps, strict=True)]
    lapses = Lapses({"one": rate_bps})
    for part in (frames[:cut], frames[cut:]):
        if part:
            lapses.take("one", batch_of(*part))
    gaps = lapsed = longest = 0
    for number in range(1, len(steps)):
        quanta = steps[number - 1][1]
        apart = times[number] - times[number - 1]
        late = apart - math.ceil(quanta * 512 * 10**9 / rate_bps)
        if quanta:
            longest = max(longest, apart)
            gaps += late > 0
            lapsed += max(0, late)
    (held,) = lapses.held()
    assert (held.gaps, held.lapsed_ns, held.longest_ns) == (gaps, lapsed, longest)
    assert held.frames + held.releases == len(steps)


def test_ports_are_apart() -> None:
    lapses = Lapses({"one": RATE, "two": 10**9})
    frames = batch_of((0, "pfc prio3=65535"), (PAUSE_NS + 1, "pfc prio3=65535"))
    lapses.take("two", frames)
    lapses.take("one", frames)
    assert [(each.port, each.gaps) for each in lapses.held()] == [("one", 1), ("two", 0)]
    with pytest.raises(KeyError):
        lapses.take("three", frames)
