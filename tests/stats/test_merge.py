"""Statistics of merged parts equal the statistics of the whole, for all boundaries."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError
from ecmproto.frames.capture import Batch, Interface, open_capture
from ecmproto.frames.stats import Accumulator, Statistics
from ecmproto.frames.stats.plain_data import restore, state_of
from pcaps.manifest import FOLDER
from tests.plain import sent
from tests.stats.test_against_slow import (
    ANY,
    INTERFACES,
    PAUSES,
    TIMES,
    assert_same,
    batch_of,
    batches_of,
)
from tests.stats.test_pauses import EAST, LINKS, START_NS, WEST, other, pfc

Part = Sequence[Batch]


def counted(batches: Part, interfaces: Sequence[Interface], **options: int | None) -> Accumulator:
    counts = Accumulator(**options)  # type: ignore[arg-type]
    for batch in batches:
        counts.add(batch, interfaces=interfaces)
    return counts


def assert_joins(parts: Sequence[Part], interfaces: Sequence[Interface], **options: int | None) -> Statistics:
    """Merge the parts from the left and from the right.

    Both results equal the statistics of all parts together.
    """
    whole = counted([batch for part in parts for batch in part], interfaces, **options)
    wanted = whole.result(interfaces=interfaces)
    # parts may have been counted by other processes
    left = [Accumulator.of_state(sent(counted(part, interfaces, **options).state())) for part in parts]
    for later in left[1:]:
        left[0].merge(later)
    assert_same(left[0].result(interfaces=interfaces), wanted)
    right = [counted(part, interfaces, **options) for part in parts]
    for earlier, later in reversed([*itertools.pairwise(right)]):
        earlier.merge(later)
    assert_same(right[0].result(interfaces=interfaces), wanted)
    # Merged statistics continue to count without a difference.
    for counts in (whole, left[0], right[0]):
        counts.add(batch_of([(other(), START_NS + 10**9, 0, 0)]), interfaces=interfaces)
    assert_same(left[0].result(), whole.result())
    assert_same(right[0].result(), whole.result())
    return wanted


@given(batches=batches_of(ANY, TIMES))
def test_any_frames_at_any_times(batches: list[Batch]) -> None:
    assert_joins([[batch] for batch in batches] or [[]], INTERFACES)


@st.composite
def rising(draw: st.DrawFn) -> list[Batch]:
    """Return pause frames in time order, as in most captures."""
    batches = []
    for batch in draw(batches_of(PAUSES, st.integers(0, 400_000))):
        order = sorted(range(len(batch)), key=lambda row: int(batch.time_ns[row]))
        batches.append(batch.select(order))
    start = 0
    for place, batch in enumerate(batches):
        batches[place] = dataclasses.replace(batch, time_ns=batch.time_ns + start)
        start = int(batches[place].time_ns.max(initial=start))
    return batches


@given(batches=rising(), detect_ns=st.sampled_from([100, 1000, 20_000]), kept=st.sampled_from([1 << 16, 200]))
def test_pauses_and_storms_across_the_cut(batches: list[Batch], detect_ns: int, kept: int) -> None:
    """Pauses last up to 34 us here, so that only the first of the frames are kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ecmproto.frames.stats.pauses.MAX_STORED", kept)
        links = [dataclasses.replace(each, speed_bps=0) for each in INTERFACES]
        assert_joins(
            [[batch] for batch in batches] or [[]], links, speed_bps=10**12, detect_ns=detect_ns,
            restore_ns=2 * detect_ns,
        )  # fmt: skip


def test_short_pause_after_an_earlier_storm_is_none() -> None:
    """Only the paused time of a part determines whether its pause can become a storm."""
    first = [(pfc(time3=65535), START_NS, 0, 0)]
    # behind the first frame nothing of the part before can be in force
    later = [(pfc(time3=0), START_NS + 4_000_000, 0, 0), (pfc(time3=3), START_NS + 9_000_000, 0, 0)]
    options = {"detect_ns": 999, "restore_ns": 2000}
    found = assert_joins([[batch_of(first)], [batch_of(later)]], LINKS, **options)
    assert found.pauses is not None
    assert [storm.begun_ns for storm in found.pauses.storms] == [START_NS]


def test_storm_continues_after_the_cut() -> None:
    """A storm is refreshed every 3 ms for two seconds.

    Each of its three parts is longer than the stored history.
    """
    frames = [(pfc(time3=65535), START_NS + 3_000_000 * number, 0, 0) for number in range(667)]
    frames += [(pfc(time3=0), START_NS + 2_001_000_000, 0, 0), (other(), START_NS + 3 * 10**9, 0, 0)]
    parts = [[batch_of(frames[low:high])] for low, high in ((0, 250), (250, 500), (500, None))]
    found = assert_joins(parts, LINKS)
    assert found.pauses is not None
    (storm,) = found.pauses.storms
    assert storm.begun_ns == START_NS
    assert storm.detected_ns == START_NS + 200_000_000
    assert storm.restored_ns == START_NS + 2_001_000_000 + 400_000_000


@pytest.mark.parametrize("name", ["mixed.pcap", "qcn_cp.pcapng", "pfc.pcap", "e2cm_edge.pcap"])
def test_bundled_captures(name: str) -> None:
    path = FOLDER / name
    with open_capture(path, batch_frames=11) as reader:
        batches = list(reader)
        interfaces = reader.interfaces
    middle = len(batches) // 2
    assert_joins([batches[:1], batches[1:middle], batches[middle:]], interfaces)


def test_another_capture_has_interfaces_of_its_own() -> None:
    east = counted([batch_of([(pfc(EAST, time3=100), START_NS, 0, 0)])], LINKS[:1])
    frames = [(pfc(WEST, time4=100), START_NS + 9, 0, 0), (other(), START_NS + 10**6, 0, 0)]
    west = counted([batch_of(frames)], LINKS[1:2])
    east.merge(west, other_interfaces=True)
    found = east.result()
    assert [each.speed_bps for each in found.interfaces] == [10 * 10**9, 100 * 10**9]
    assert [each.frames for each in found.interfaces] == [1, 2]
    assert found.pauses is not None
    assert {(each.interface, each.paused_ns) for each in found.pauses.senders} == {(0, 5120), (1, 512)}


def test_options_must_be_the_same() -> None:
    with pytest.raises(ParameterError):
        Accumulator().merge(Accumulator(interval_ns=5))


@pytest.mark.parametrize("octets", [b"", bytes(9), "text", zlib.compress(bytes(8))])
def test_array_state_with_other_octets_is_refused(octets: object) -> None:
    class Counter:
        def __init__(self) -> None:
            self.counts = np.arange(1, 3, dtype=np.int32)

    state = state_of(Counter())
    restore(Counter(), state)
    state["of"]["counts"]["of"] = octets
    with pytest.raises(ParameterError, match="one of Counter"):
        restore(Counter(), state)


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300), max_size=3),
    st.sampled_from(["<i8", ">i8", "<u8", "<i2", "<f8", "|b1"]),
    st.sampled_from([1, 200]),
)
def test_arrays_are_restored_with_their_types(numbers: list[int], dtype: str, times: int) -> None:
    class Counter:
        def __init__(self) -> None:
            self.counts = np.zeros(0)

    counter, found = Counter(), Counter()
    counter.counts = np.array([*numbers, 0], np.int64).astype(dtype).repeat(times)
    restore(found, state_of(counter))
    np.testing.assert_array_equal(found.counts, counter.counts)
    assert found.counts.dtype == counter.counts.dtype
