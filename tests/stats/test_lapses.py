"""Lapses of pauses, compared with hand calculations and a slow count, for all batches."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

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


def level_times(*batches: Batch) -> list[Held]:
    lapses = Lapses({"one": RATE})
    for batch in batches:
        lapses.take("one", batch)
    return lapses.held()


def test_gap_counts_from_end_of_quanta() -> None:
    full = "pfc prio3=65535 prio4=100"
    (three, four) = level_times(batch_of((0, full), (PAUSE_NS, full), (2 * PAUSE_NS + 10, full)))
    assert (three.priority, three.frames, three.gaps, three.lapsed_ns) == (3, 3, 1, 10)
    assert (three.longest_ns, three.longest_lapse_ns) == (PAUSE_NS + 10, 10)
    assert three.first_lapse_ns == 2 * PAUSE_NS
    assert (four.priority, four.gaps) == (4, 2)
    assert four.lapsed_ns == 2 * PAUSE_NS + 10 - 2 * 128


def test_excluded_spans_shorten_the_gaps() -> None:
    full = "pfc prio3=65535"
    frames = [(0, full), (100_000, full), (300_000, full), (310_000, full)]
    taken = np.array([[10_000, 20_000], [90_000, 120_000], [250_000, 300_000]], np.int64)
    for cut in range(4):
        (three,) = level_times(batch_of(*frames[:cut]), batch_of(*frames[cut:]))
        assert (three.gaps, three.lapsed_ns) == (2, 300_000 - 2 * PAUSE_NS)
        none = three.remaining(np.zeros((0, 2), np.int64))
        assert (none.gaps, none.lapsed_ns, none.longest_ns) == (2, three.lapsed_ns, 200_000)
        left = three.remaining(taken)
        assert (left.gaps, left.lapsed_ns, left.longest_ns) == (1, 130_000 - PAUSE_NS, 130_000)
        assert left.first == ((0, 100_000, 20_000), (100_000, 200_000, 70_000))


@given(st.lists(st.integers(1, 60_000), min_size=2), st.lists(st.integers(1, 90_000), max_size=30))
def test_excluded_spans_equal_the_slow_count(apart: list[int], changes: list[int]) -> None:
    times = np.cumsum(apart).tolist()
    edges = np.cumsum(changes).tolist()
    taken = list(zip(edges[::2], edges[1::2], strict=False))
    (held,) = level_times(batch_of(*((time_ns, "pfc prio5=20000") for time_ns in times)))
    limit_ns, rests = math.ceil(20_000 * 512 / 400), []
    for before, after in pairwise(times):
        rest = after - before - sum(max(0, min(after, b) - max(before, a)) for a, b in taken)
        rests.append(rest if after - before > limit_ns else 0)
    left = held.remaining(np.array(taken, np.int64).reshape(-1, 2))
    assert left.gaps == sum(rest > limit_ns for rest in rests)
    assert left.lapsed_ns == sum(max(0, rest - limit_ns) for rest in rests)


def test_release_ends_the_held_span() -> None:
    (three,) = level_times(batch_of((0, "pfc prio3=65535"), (50, "pfc prio3=0"), (10**9, "pfc prio3=65535")))
    assert (three.frames, three.releases, three.gaps) == (2, 1, 0)
    assert three.longest_ns == 50
    late = batch_of((0, "pfc prio3=65535"), (PAUSE_NS + 5, "pfc prio3=0"))
    assert level_times(late)[0].lapsed_ns == 5, "a release that comes too late"


def test_pause_holds_link_other_frames_are_ignored() -> None:
    (link,) = level_times(batch_of((0, "pause quanta=65535"), (7, "cnm"), (PAUSE_NS + 1, "pause quanta=0")))
    assert (link.priority, link.frames, link.releases, link.lapsed_ns) == (None, 1, 1, 1)
    assert level_times(Batch.from_frames([b"", bytes(10), encode(build("pfc prio3=1"))[:30]])) == []


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


def test_ports_are_counted_separately() -> None:
    lapses = Lapses({"one": RATE, "two": 10**9})
    frames = batch_of((0, "pfc prio3=65535"), (PAUSE_NS + 1, "pfc prio3=65535"))
    lapses.take("two", frames)
    lapses.take("one", frames)
    assert [(each.port, each.gaps) for each in lapses.held()] == [("one", 1), ("two", 0)]
    with pytest.raises(KeyError):
        lapses.take("three", frames)
