"""The tags in a batch: where they stand, and where one goes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.batch.tags import FrameTags, older_cn_tags, older_tags, tags_of
from ecmproto.codec import EtherTypes
from ecmproto.errors import ParameterError
from tests.batch.frames import ANY, batch_of

MACS = "020000000001 020000000002 "
CM = "88b6 0800 8202030405060708 abcd 5000 "
E2CM = "88b6 0200 0000000000000009 0001 0000 "
RRT = "88b6 0100 feffffffffffffff "
RD = "88b6 0300 0007 fffffffe "
CN = "22e9 1234 "
VLAN = "8100 a005 "
FRAMES = st.lists(ANY, min_size=1, max_size=6)


def of(*frames: str | bytes, protocol: int | None = None) -> FrameTags:
    octets = [frame if isinstance(frame, bytes) else bytes.fromhex(MACS + frame) for frame in frames]
    return tags_of(*batch_of(octets), protocol=protocol)


def row(tags: FrameTags, i: int = 0) -> dict[str, int]:
    return {name: int(getattr(tags, name)[i]) for name in FrameTags._fields}


NONE = {
    "tag_at": 12, "old_at": -1, "old_octets": 0, "old_tags": 0, "cn_at": 12, "old_cn_at": -1, "cn_tags": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "protocol", "found"),
    [
        ("0800 4500", None, {}),
        (VLAN + "0800", None, {"tag_at": 16, "cn_at": 16}),
        (VLAN * 2 + CN + "0800", 0, {"tag_at": 24, "cn_at": 20, "old_cn_at": 20, "cn_tags": 1}),
        (CM + "0800", None, {}),
        (CM + "0800", 0, {"old_at": 12, "old_octets": 16, "old_tags": 1}),
        (CM + E2CM + "0800", 2, {"old_at": 28, "old_octets": 16, "old_tags": 1}),
        (E2CM + CM + "0800", 1, {}),
        (VLAN + RRT + RRT + "0800", 1,
         {"tag_at": 16, "cn_at": 16, "old_at": 16, "old_octets": 12, "old_tags": 2}),
        (VLAN + RD + "0800", 3, {"tag_at": 16, "cn_at": 16, "old_at": 16, "old_octets": 10, "old_tags": 1}),
    ],
)  # fmt: skip
def test_what_is_found(frame: str, protocol: int | None, found: dict[str, int]) -> None:
    assert row(of(frame, protocol=protocol)) == NONE | found


def test_a_tag_goes_behind_the_stack_that_is_left_when_old_ones_are_gone() -> None:
    assert row(of(RD + VLAN + "0800", protocol=3))["tag_at"] == 26
    assert row(of(RD + VLAN + "0800", protocol=0))["tag_at"] == 12


@pytest.mark.parametrize("length", range(12, 16))
def test_where_the_header_was_cut_off_no_tag_goes(length: int) -> None:
    whole = bytes.fromhex(MACS + VLAN + "0800")
    assert of(whole[:length]).tag_at.tolist() == [12 if length >= 14 else -1]
    assert of(whole[:length], protocol=3).tag_at.tolist() == [-1]


def test_protocols_are_0_to_3() -> None:
    with pytest.raises(ParameterError, match="protocol: needed 0 to 3, or none, got 4"):
        of("0800", protocol=4)


def test_a_map_of_ethertypes_replaces_the_default_one() -> None:
    frame = bytes.fromhex(MACS + RD.replace("88b6", "9abc") + "0800")
    assert tags_of(*batch_of([frame]), protocol=3, ethertypes=EtherTypes(tag=0x9ABC)).old_at.tolist() == [12]
    assert of(frame, protocol=3).old_at.tolist() == [-1]


@given(frames=FRAMES, protocol=st.sampled_from([0, 1, 2, 3]))
def test_older_tags_are_the_others(frames: list[bytes], protocol: int) -> None:
    batch = batch_of(frames)
    tags = tags_of(*batch, protocol=protocol)
    octets = {0: 16, 1: 12, 2: 16, 3: 10}[protocol]
    for count, newest, others, size in (
        (tags.old_tags, tags.old_at, older_tags(*batch, tags, protocol=protocol), octets),
        (tags.cn_tags, tags.old_cn_at, older_cn_tags(*batch, tags), 4),
    ):
        assert ((count > 0) == (newest >= 0)).all()
        assert (np.bincount(others.frame, minlength=len(frames)) == np.maximum(count - 1, 0)).all()
        assert (others.at >= newest[others.frame] + size).all()
        assert (others.octets == size).all()
    assert (tags.old_octets == np.where(tags.old_tags > 0, octets, 0)).all()


def test_an_empty_batch() -> None:
    assert len(of().tag_at) == 0
