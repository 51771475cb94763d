"""Octets put in, taken out and written over: exactly what the functions for single frames do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.batch.headers import FECN
from ecmproto.batch.tags import (
    RATE_AT,
    Removals,
    Splice,
    older_cn_tags,
    older_tags,
    spliced,
    spliced_batch,
    tags_of,
)
from ecmproto.capture.batch import Batch
from ecmproto.codec import CMTag, CNTag, Layer, RDTag, RRTTag
from ecmproto.errors import ParameterError
from ecmproto.mechanisms.aimd.messages import with_tag, without_tags
from ecmproto.mechanisms.fecn.messages import rd_tag, tagged, untagged, with_rate
from ecmproto.mechanisms.qcn.edge import insert_cn_tag
from tests.batch.frames import ANY, DA, ORDINARY, SA, batch_of, texts

FRAMES = st.lists(ANY, min_size=1, max_size=6)
OWN: dict[int, CMTag | RRTTag | RDTag] = {
    0: CMTag(cpid=0x0202030405060708, timestamp=9, unit=3),
    1: RRTTag(cpid=0xF002030405060708),
    2: CMTag(protocol=2, cpid=0x1111),
    3: RDTag(rlq_id=5, rate=6),
}


def inserted(tag: Layer, announced: int, count: int) -> NDArray[np.uint8]:
    octets = announced.to_bytes(2) + tag.build()[:-2]
    return np.tile(np.frombuffer(octets, np.uint8), (count, 1))


def with_own(frames: list[bytes], protocol: int, *, with_older: bool = True) -> list[bytes]:
    batch = batch_of(frames)
    tags = tags_of(*batch, protocol=protocol)
    more = older_tags(*batch, tags, protocol=protocol) if with_older else None
    splice = Splice(
        at=tags.tag_at,
        inserted=inserted(OWN[protocol], 0x88B6, len(frames)),
        removed_at=tags.old_at,
        removed=tags.old_octets,
        more=more,
    )
    return texts(spliced(*batch, splice))


def without_own(frames: list[bytes], protocol: int) -> list[bytes]:
    batch = batch_of(frames)
    tags = tags_of(*batch, protocol=protocol)
    splice = Splice(
        at=np.full(len(frames), -1),
        inserted=np.zeros((len(frames), 0), np.uint8),
        removed_at=tags.old_at,
        removed=tags.old_octets,
        more=older_tags(*batch, tags, protocol=protocol),
    )
    return texts(spliced(*batch, splice))


@given(frames=FRAMES, protocol=st.sampled_from([0, 1, 2]))
def test_cm_and_rrt_tags_go_in_and_out_as_in_single_frames(frames: list[bytes], protocol: int) -> None:
    tag = OWN[protocol]
    assert not isinstance(tag, RDTag)
    assert with_own(frames, protocol) == [with_tag(octets, tag)[0] for octets in frames]
    assert without_own(frames, protocol) == [
        without_tags(octets, type(tag), protocol)[0] for octets in frames
    ]


@pytest.mark.parametrize("protocol", [0, 1, 2])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_tags_at_the_edge_of_what_is_looked_at_go_in_and_out_as_in_single_frames(
    protocol: int, before: int
) -> None:
    tag = OWN[protocol]
    assert not isinstance(tag, RDTag)
    own, vlan = inserted(tag, 0x88B6, 1).tobytes(), bytes.fromhex("8100 a005")
    frames = [
        DA + SA + own * before + vlan * vlans + bytes.fromhex(odd) + own + b"\x08\0" + bytes(9)
        for vlans in range(40, 70)
        for odd in ("", "88b6 0300 0001 00000002")
    ]
    assert with_own(frames, protocol) == [with_tag(octets, tag)[0] for octets in frames]
    assert without_own(frames, protocol) == [
        without_tags(octets, type(tag), protocol)[0] for octets in frames
    ]


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_where_nothing_but_the_old_tag_was_captured_none_replaces_it(protocol: int) -> None:
    tag = OWN[protocol]
    assert not isinstance(tag, RDTag)
    whole = DA + SA + inserted(tag, 0x88B6, 1).tobytes() + b"\x08\0"
    frames = [whole[:length] for length in range(len(whole) + 1)]
    assert with_own(frames, protocol) == [with_tag(octets, tag)[0] for octets in frames]
    assert with_own(frames, protocol)[-2:] == [DA + SA + b"\x08", whole]


@given(frames=FRAMES)
def test_rd_tags_go_in_and_out_as_in_single_frames(frames: list[bytes]) -> None:
    expected = [tagged(octets, rlq_id=5, rate=6) for octets in frames]
    single = [untagged(octets) if one is None else one for octets, one in zip(frames, expected, strict=True)]
    assert with_own(frames, 3) == single
    assert without_own(frames, 3) == [untagged(octets) for octets in frames]


@given(frames=st.lists(ORDINARY, min_size=1, max_size=4), protocol=st.sampled_from([0, 1, 2, 3]))
def test_a_frame_with_one_old_tag_needs_no_list_of_older_ones(frames: list[bytes], protocol: int) -> None:
    assert with_own(frames, protocol, with_older=False) == with_own(frames, protocol)


@given(frames=FRAMES)
def test_cn_tags_go_in_as_in_single_frames(frames: list[bytes]) -> None:
    batch = batch_of(frames)
    tags = tags_of(*batch)
    splice = Splice(
        at=tags.cn_at,
        inserted=inserted(CNTag(flow_id=0xBEEF), 0x22E9, len(frames)),
        removed_at=tags.old_cn_at,
        removed=np.where(tags.cn_tags > 0, 4, 0),
        more=older_cn_tags(*batch, tags),
    )
    assert texts(spliced(*batch, splice)) == [insert_cn_tag(octets, 0xBEEF) for octets in frames]


@given(frames=FRAMES, rate=st.integers(0, 2**32 - 1))
def test_a_rate_is_written_as_in_single_frames(frames: list[bytes], rate: int) -> None:
    batch = batch_of(frames)
    tag_at = tags_of(*batch, protocol=FECN).old_at
    splice = Splice(
        at=np.full(len(frames), -1),
        inserted=np.zeros((len(frames), 0), np.uint8),
        written_at=np.where(tag_at < 0, tag_at, tag_at + RATE_AT),
        written=np.full((len(frames), 1), rate, ">u4").view(np.uint8),
    )
    result = texts(spliced(*batch, splice))
    assert result == [with_rate(octets, rate) if rd_tag(octets) else octets for octets in frames]


PLACES = st.integers(0, 12)


@given(data=st.data(), frames=st.lists(st.binary(min_size=12, max_size=30), min_size=1, max_size=5))
def test_places_count_in_the_frame_as_it_came(data: st.DataObject, frames: list[bytes]) -> None:
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


def test_cut_frames_stay_cut_and_keep_what_their_records_said() -> None:
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
        ({"at": [0, 21]}, "at of frame 1: needed -1 to 20, got 21"),
        ({"at": [-2, 0]}, "at of frame 0: needed -1 to 20, got -2"),
        ({"at": [0]}, "at: needed 2 values"),
        ({"removed_at": [0, 21]}, "removed_at of frame 1"),
        ({"removed_at": [0, 3], "removed": [0, 18]}, "removed of frame 1: needed 0 to 17, got 18"),
        ({"removed_at": [0, 3], "removed": [0, HUGE]}, "removed of frame 1"),
        ({"removed_at": [0, 3], "removed": [-1, 1]}, "removed of frame 0"),
        ({"written_at": [21, 0]}, "written_at of frame 0"),
        ({"inserted": [[0]]}, "inserted: needed 2 rows"),
        ({"written": [0, 0]}, "written: needed 2 rows"),
    ],
)
def test_places_outside_a_frame_are_refused(wrong: dict[str, list[int]], told: str) -> None:
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
def test_a_list_of_removals_is_in_order_and_within_its_frames(
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
    with pytest.raises(ParameterError, match="more: needed stretches within their frames"):
        spliced(*batch_of([bytes(20)] * 2), splice)


def test_an_empty_batch() -> None:
    splice = Splice(at=np.zeros(0, np.int64), inserted=np.zeros((0, 16), np.uint8))
    buffer, offset, captured = spliced(*batch_of([]), splice)
    assert len(buffer) == len(offset) == len(captured) == 0
