"""Every number equals the number of the reference implementation, for all frames and batches."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch, Interface, open_capture
from ecmproto.frames.stats import Accumulator, Statistics
from ecmproto.tools.fuzz.strategies import (
    arbitrary_octets,
    frame_of,
    frames,
    layers_of,
    message_frames,
    mutated,
    octets_of,
    pause_frames,
    pfc_frames,
)
from ecmproto.wire.codec import PFC, Ethernet, Pause
from tests.columns import spoilt
from tests.stats.slow import Slow

PCAPS = Path(__file__).parents[2] / "pcaps"
BUNDLED = sorted(path for path in PCAPS.iterdir() if ".pcap" in "".join(path.suffixes))
MAX_FRAMES = 3000

INTERFACES = (
    Interface(index=0, linktype=1, name="a"),
    Interface(index=1, linktype=1, fcs_octets=4, speed_bps=400 * 10**9),
    Interface(index=2, linktype=113, speed_bps=10**9),
)
SOURCES = st.sampled_from([bytes.fromhex("0200000000c1"), bytes.fromhex("0200000000c2"), bytes(6)])
QUANTA = st.one_of(st.integers(0, 3), st.integers(0, 0xFFFF))
TIMES = st.one_of(
    st.integers(10**18, 10**18 + 3000),
    st.integers(10**18, 10**18 + 10**8),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.none(),
)
NEAR_TIMES = st.integers(0, 40_000)


def counted(batches: Sequence[Batch], interfaces: Sequence[Interface], **options: int | None) -> Statistics:
    """Return the statistics of batches, without notes and without RoCE, which other tests cover."""
    counts = Accumulator(**options)  # type: ignore[arg-type]
    for batch in batches:
        counts.add(batch, interfaces=interfaces)
    return dataclasses.replace(counts.result(interfaces=interfaces), notes=(), roce=None, neighbours=())


def assert_same(found: Statistics, wanted: Statistics) -> None:
    for field in dataclasses.fields(Statistics):
        assert getattr(found, field.name) == getattr(wanted, field.name), field.name


@st.composite
def batches_of(
    draw: st.DrawFn, octets: st.SearchStrategy[bytes], times: st.SearchStrategy[int | None]
) -> list[Batch]:
    rows = draw(st.lists(st.tuples(octets, times, st.integers(0, 2), st.integers(0, 5)), max_size=25))
    cuts = draw(st.lists(st.integers(0, len(rows)), max_size=3))
    bounds = sorted({0, len(rows), *cuts})
    return [batch_of(rows[low:high]) for low, high in itertools.pairwise(bounds)]


def batch_of(rows: Sequence[tuple[bytes, int | None, int, int]]) -> Batch:
    """Return frames with a time, an interface and the number of truncated octets."""
    batch = Batch.from_frames(
        [row[0] for row in rows],
        time_ns=[row[1] or 0 for row in rows],
        interface=[row[2] for row in rows],
        original=[len(row[0]) + row[3] for row in rows],
    )
    return dataclasses.replace(batch, timed=np.array([row[1] is not None for row in rows]))


ANY = st.one_of(octets_of(frames()), octets_of(message_frames()), mutated(), arbitrary_octets())
PAUSES = octets_of(
    st.one_of(
        st.builds(
            lambda src, layer: frame_of([Ethernet(src=src), layer]),
            SOURCES,
            st.one_of(
                layers_of(Pause, pause_time=QUANTA),
                layers_of(
                    PFC,
                    class_enable_vector=st.integers(0, 0xFFFF),
                    **{f"time{priority}": QUANTA for priority in range(8)},
                ),
            ),
        ),
        pause_frames(),
        pfc_frames(),
    )
)


@given(batches=batches_of(ANY, TIMES))
def test_any_frames_at_any_times(batches: list[Batch]) -> None:
    assert_same(counted(batches, INTERFACES), Slow(batches, INTERFACES).result())


@given(batches=batches_of(PAUSES, NEAR_TIMES), speed_bps=st.sampled_from([1, 10**9, 10**12, 7 * 10**9]))
def test_overlapping_pauses_equal_the_slow_count(batches: list[Batch], speed_bps: int) -> None:
    wanted = Slow(batches, INTERFACES, speed_bps=speed_bps).result()
    assert_same(counted(batches, INTERFACES, speed_bps=speed_bps), wanted)


@given(batches=batches_of(PAUSES, TIMES), interval_ns=st.sampled_from([1, 7, 1000, 10**9, (1 << 62) - 1]))
def test_pauses_at_any_times(batches: list[Batch], interval_ns: int) -> None:
    wanted = Slow(batches, INTERFACES, interval_ns=interval_ns).result()
    assert_same(counted(batches, INTERFACES, interval_ns=interval_ns), wanted)


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
@pytest.mark.parametrize("batch_frames", [7, 5000])
def test_bundled_captures(path: Path, batch_frames: int) -> None:
    batches = []
    with open_capture(path, batch_frames=batch_frames) as reader:
        for batch in reader:
            batches.append(batch)
            if batch.first + len(batch) >= MAX_FRAMES:
                break
        interfaces = reader.interfaces
        assert_same(counted(batches, interfaces), Slow(batches, interfaces).result())


def test_many_spoilt_frames() -> None:
    batch = spoilt.spoilt_batch(random.Random(5), 2000)
    assert_same(counted([batch], spoilt.INTERFACES), Slow([batch], spoilt.INTERFACES).result())
