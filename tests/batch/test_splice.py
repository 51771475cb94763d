"""Insertion, removal and replacement of octets agree with the functions for single frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.frames.batch import tags
from ecmproto.frames.batch.tags import Removals, Splice, spliced, spliced_batch, tag_splice
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import VLAN, CMTag, CNTag, Layer, RDTag, RRTTag
from ecmproto.wire.codec.tags import kind_of, without_tags
from tests.batch.frames import ANY, DA, ORDINARY, SA, batch_of, texts
from tests.tags import with_tag

FRAMES = st.lists(ANY, min_size=1, max_size=6)
OWN: dict[str, Layer] = {
    "ecm": CMTag(cpid=0x0202030405060708, timestamp=9, unit=3),
    "bcn": RRTTag(cpid=0xF002030405060708),
    "e2cm": CMTag(protocol=2, cpid=0x1111),
    "fecn": RDTag(rlq_id=5, rate=6),
    "qcn": CNTag(flow_id=0xBEEF),
    "vlan": VLAN(id=5, priority=6),
}
NAMES = st.sampled_from(sorted(OWN))


def with_own(frames: list[bytes], name: str) -> list[bytes]:
    tag, batch = OWN[name], Batch.from_frames(frames)
    rows = np.tile(np.frombuffer(tag.build(), np.uint8), (len(frames), 1))
    return list(spliced_batch(batch, tag_splice(batch, rows, kind_of(tag))).frames())


def without_own(frames: list[bytes], name: str) -> list[bytes]:
    return list(tags.without_tags(Batch.from_frames(frames), kind_of(OWN[name]))[0].frames())


@given(frames=FRAMES, name=NAMES)
def test_tag_insertion_and_removal_match_single_frame_functions(frames: list[bytes], name: str) -> None:
    tag = OWN[name]
    assert with_own(frames, name) == [with_tag(octets, tag)[0] for octets in frames]
    assert without_own(frames, name) == [without_tags(octets, kind_of(tag))[0] for octets in frames]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_tags_are_inserted_and_removed_at_any_depth(name: str, before: int) -> None:
    tag = OWN[name]
    own = with_tag(DA + SA + b"\x08\0", tag)[0][12:-2]
    vlan = bytes.fromhex("88a8 a005")
    frames = [
        DA + SA + own * before + vlan * vlans + bytes.fromhex(odd) + own + b"\x08\0" + bytes(9)
        for vlans in range(40, 70)
        for odd in ("", "88b6 0300 0001 00000002")
    ]
    assert with_own(frames, name) == [with_tag(octets, tag)[0] for octets in frames]
    assert without_own(frames, name) == [without_tags(octets, kind_of(tag))[0] for octets in frames]


@pytest.mark.parametrize("name", OWN)
def test_frame_cut_within_its_tags_gets_no_tag(name: str) -> None:
    whole = with_tag(DA + SA + b"\x08\0", OWN[name])[0]
    frames = [whole[:length] for length in range(len(whole) + 1)]
    assert with_own(frames, name) == frames


@given(frames=st.lists(ORDINARY, min_size=1, max_size=4), name=st.sampled_from(["ecm", "fecn", "qcn"]))
def test_removal_undoes_insertion(frames: list[bytes], name: str) -> None:
    bare = without_own(frames, name)
    assert without_own(with_own(bare, name), name) == bare
    assert with_own(frames, name) == with_own(bare, name)


PLACES = st.integers(0, 12)


@given(data=st.data(), frames=st.lists(st.binary(min_size=12, max_size=30), min_size=1, max_size=5))
def test_offsets_refer_to_the_original_frame(data: st.DataObject, frames: list[bytes]) -> None:
    count = len(frames)

    def drawn(values: st.SearchStrategy[int]) -> NDArray[np.int64]:
        return np.array(data.draw(st.lists(values, min_size=count, max_size=count)), np.int64)

    at, removed_at, written_at = (drawn(st.integers(-1, 12)) for _ in range(3))
    stop = drawn(PLACES)
    removed = np.maximum(stop - removed_at, 0)
    marked = np.flatnonzero(stop + 2 < [len(frame) for frame in frames])
    more = Removals(marked, np.maximum(stop, 0)[marked] + 1, np.ones(len(marked), np.int64))
    splice = Splice(
        at=at,
        inserted=np.full((count, 3), 0xEE, np.uint8),
        removed=removed,
        removed_at=removed_at,
        more=more,
        written_at=written_at,
        written=np.full((count, 9), 0xDD, np.uint8),
    )
    gone = {int(frame): int(place) for frame, place in zip(more.frame, more.at, strict=True)}
    expected = []
    for i, frame in enumerate(frames):
        octets: list[int | None] = list(frame)
        if written_at[i] >= 0:
            octets[written_at[i] : written_at[i] + 9] = [0xDD] * min(9, len(frame) - int(written_at[i]))
        if removed_at[i] >= 0:
            octets[removed_at[i] : removed_at[i] + removed[i]] = [None] * int(removed[i])
        if i in gone:
            octets[gone[i]] = None
        if at[i] >= 0:
            octets[at[i] : at[i]] = [0xEE] * 3
        expected.append(bytes(octet for octet in octets if octet is not None))
    assert texts(spliced(*batch_of(frames), splice)) == expected


def test_splicing_keeps_truncation_times_and_interfaces() -> None:
    batch = Batch.from_frames([bytes(20), bytes(30)], time_ns=[5, 6], original=[1500, 30], interface=[1, 0])
    splice = Splice(
        at=np.array([12, -1]),
        inserted=np.ones((2, 4), np.uint8),
        removed_at=np.array([14, 3]),
        removed=np.array([1, 10]),
    )
    result = spliced_batch(batch.select([1, 0]).select([1, 0]), splice)
    assert result.captured.tolist() == [23, 20]
    assert result.original.tolist() == [1503, 20]
    assert result.frame(0) == bytes(12) + b"\1\1\1\1" + bytes(7)
    assert (result.time_ns.tolist(), result.interface.tolist()) == ([5, 6], [1, 0])
    assert result.numbers.tolist() == [0, 1]
    assert not result.buffer.flags.writeable


HUGE = 2**63 - 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"at": [0, 21]}, "at of frame 1: expected -1 to 20, got 21"),
        ({"at": [-2, 0]}, "at of frame 0: expected -1 to 20, got -2"),
        ({"at": [0]}, "at: expected 2 values"),
        ({"removed_at": [0, 21]}, "removed_at of frame 1"),
        ({"removed_at": [0, 3], "removed": [0, 18]}, "removed of frame 1: expected 0 to 17, got 18"),
        ({"removed_at": [0, 3], "removed": [0, HUGE]}, "removed of frame 1"),
        ({"removed_at": [0, 3], "removed": [-1, 1]}, "removed of frame 0"),
        ({"written_at": [21, 0]}, "written_at of frame 0"),
        ({"inserted": [[0]]}, "inserted: expected 2 rows"),
        ({"written": [0, 0]}, "written: expected 2 rows"),
    ],
)
def test_offsets_outside_a_frame_are_refused(wrong: dict[str, list[int]], told: str) -> None:
    arguments = {"at": np.array([-1, -1]), "inserted": np.zeros((2, 0), np.uint8)}
    arguments |= {name: np.array(values) for name, values in wrong.items()}
    with pytest.raises(ParameterError, match=told):
        spliced(*batch_of([bytes(20)] * 2), Splice(**arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("frame", "at", "octets"),
    [
        ([2], [0], [1]),
        ([-1], [0], [1]),
        ([0], [20], [1]),
        ([0], [1], [HUGE]),
        ([0], [5], [-1]),
        ([0], [-1], [1]),
        ([1, 0], [9, 9], [1, 1]),
        ([0, 0], [9, 9], [1, 1]),
        ([0, 0], [9], [1, 1]),
        ([1], [5], [1]),
    ],
)
def test_unordered_or_overrunning_removals_are_refused(
    frame: list[int], at: list[int], octets: list[int]
) -> None:
    more = Removals(np.array(frame), np.array(at), np.array(octets))
    splice = Splice(
        at=np.array([-1, -1]),
        inserted=np.zeros((2, 0), np.uint8),
        removed_at=np.array([-1, 4]),
        removed=np.array([0, 2]),
        more=more,
    )
    with pytest.raises(ParameterError, match="more: expected stretches within their frames"):
        spliced(*batch_of([bytes(20)] * 2), splice)


def test_an_empty_batch() -> None:
    splice = Splice(at=np.zeros(0, np.int64), inserted=np.zeros((0, 16), np.uint8))
    buffer, offset, captured = spliced(*batch_of([]), splice)
    assert len(buffer) == len(offset) == len(captured) == 0
