"""The tags of frames in a batch: offsets, the position for a new tag, and the values of the newest tag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.protocol import signed_cpid
from ecmproto.errors import ParameterError
from ecmproto.frames.batch.parse_tables import parse_tables
from ecmproto.frames.batch.tags import (
    NOWHERE,
    FrameTags,
    OwnTag,
    older_tags,
    own_tag,
    tag_layout,
    tag_splice,
    tags_of,
    with_tag_values,
)
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import BCN, VLAN, CMTag, CNTag, EtherTypes, RDTag, RRTTag
from ecmproto.wire.codec.tags import TagFormat, tags_in
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.batch.frames import ANY, batch_of
from tests.mechanisms.fecn.frames import with_fields
from tests.tags import find_tag

MACS = "020000000001 020000000002 "
CM = "88b6 0800 8202030405060708 abcd 5000 "
E2CM = "88b6 0200 0000000000000009 0001 0000 "
RRT = "88b6 0100 feffffffffffffff "
RD = "88b6 0300 0007 fffffffe "
CN = "22e9 1234 "
VLAN_TAG = "8100 a005 "
KINDS = {
    "ecm": TagFormat(format=CMTag, tag="cpid", mark=("unit", "timestamp")),
    "e2cm": TagFormat(format=CMTag, tag="cpid", mark=("unit", "timestamp"), constants={"protocol": 2}),
    "bcn": TagFormat(format=RRTTag, tag="cpid"),
    "fecn": TagFormat(format=RDTag, tag="rate", mark=("rlq_id",)),
    "qcn": TagFormat(format=CNTag, tag="flow_id"),
    # no mechanism's: fields of bits that begin anywhere
    "vlan": TagFormat(format=VLAN, tag="id", mark=("dei", "priority")),
}
FRAMES = st.lists(ANY, min_size=1, max_size=6)
NOTHING = (False, 0, 0)
CM_FOUND = (True, 0x8202030405060708 - 2**64, 0x5ABCD)


def octets_of(frame: str | bytes) -> bytes:
    return frame if isinstance(frame, bytes) else bytes.fromhex(MACS + frame)


def of(*frames: str | bytes, kind: str, ethertypes: EtherTypes = DEFAULT) -> FrameTags:
    return tags_of(*batch_of([octets_of(frame) for frame in frames]), KINDS[kind], ethertypes=ethertypes)


def row(tags: FrameTags) -> tuple[int, ...]:
    return tuple(int(column[0]) for column in tags)


def own(frame: str | bytes, kind: str, ethertypes: EtherTypes = DEFAULT) -> OwnTag:
    octets = np.frombuffer(b"\x81" + octets_of(frame) + b"\x22", np.uint8)
    return own_tag(octets, 1, len(octets) - 2, parse_tables(ethertypes), tag_layout(KINDS[kind], ethertypes))


def values(kind: str, layer: Any) -> tuple[bool, int, int]:
    """Return the values of a tag in the form that machines receive."""
    if kind == "fecn":
        return True, layer.rate, layer.rlq_id
    if kind == "qcn":
        return True, layer.flow_id, 0
    if kind == "vlan":
        return True, layer.id, layer.dei << 3 | layer.priority
    mark = 0 if kind == "bcn" else layer.unit << 16 | layer.timestamp
    return True, signed_cpid(layer.cpid), mark


@pytest.mark.parametrize(
    ("frame", "kind", "found"),
    [
        ("0800 4500", "ecm", (12, -1, 0)),
        (VLAN_TAG + "0800", "qcn", (16, -1, 0)),
        (VLAN_TAG * 2 + CN + "0800", "ecm", (24, -1, 0)),
        (VLAN_TAG * 2 + CN + "0800", "qcn", (20, 20, 1)),
        (CM + "0800", "ecm", (12, 12, 1)),
        (CM + E2CM + "0800", "e2cm", (12, 28, 1)),
        (E2CM + CM + "0800", "bcn", (12, -1, 0)),
        (VLAN_TAG + RRT + RRT + "0800", "bcn", (16, 16, 2)),
        (VLAN_TAG + RD + "0800", "fecn", (16, 16, 1)),
        (RD + VLAN_TAG + "0800", "fecn", (26, 12, 1)),
        (RD + VLAN_TAG + "0800", "ecm", (12, -1, 0)),
        (CN + VLAN_TAG + "0800", "qcn", (20, 12, 1)),
        (VLAN_TAG + "88b6 0f00 0000", "fecn", (16, -1, 0)),
        ("88e7 00000001", "ecm", (12, -1, 0)),
    ],
)
def test_offsets_of_tags_and_of_insertion(frame: str, kind: str, found: tuple[int, ...]) -> None:
    assert row(of(frame, kind=kind)) == found


@pytest.mark.parametrize(
    ("frame", "kind", "found"),
    [
        ("0800 4500", "ecm", NOTHING),
        (CM + "0800", "ecm", CM_FOUND),
        (CM + "0800", "e2cm", NOTHING),
        (CM + E2CM + "0800", "e2cm", (True, 9, 1)),
        (E2CM + CM + CM + "0800", "ecm", CM_FOUND),
        (VLAN_TAG + RRT + RRT + "0800", "bcn", (True, 0xFEFFFFFFFFFFFFFF - 2**64, 0)),
        (VLAN_TAG + RD + "0800", "fecn", (True, 0xFFFFFFFE, 7)),
        (RD + VLAN_TAG + "0800", "vlan", (True, 5, 5)),
        ("9100 a005 0800", "vlan", NOTHING),
    ],
)
def test_values_of_the_newest_tag(frame: str, kind: str, found: tuple[bool, int, int]) -> None:
    assert own(frame, kind)[:3] == found


@pytest.mark.parametrize("kind", KINDS)
def test_tag_is_complete_once_all_octets_are_captured(kind: str) -> None:
    tag = bytes.fromhex({"ecm": CM, "e2cm": E2CM, "bcn": RRT, "fecn": RD, "qcn": CN, "vlan": VLAN_TAG}[kind])
    for captured in range(len(tag) + 3):
        frame = (bytes.fromhex(MACS) + tag + b"\x08\0")[: 12 + captured]
        assert own(frame, kind).tagged == (captured >= len(tag))
        # The EtherType after the tag shows that no other tag follows, so the new tag would be inserted before
        # it.
        assert (of(frame, kind=kind).tag_at[0] >= 0) == (captured == len(tag) + 2)


@pytest.mark.parametrize("length", range(12, 19))
def test_cut_header_has_no_insertion_offset(length: int) -> None:
    whole = bytes.fromhex(MACS + VLAN_TAG + "0800")
    assert of(whole[:length], kind="ecm").tag_at.tolist() == [16 if length >= 18 else -1]


def test_a_map_of_ethertypes_replaces_the_default_one() -> None:
    frame, ethertypes = RD.replace("88b6", "9abc") + "0800", EtherTypes(tag=0x9ABC)
    assert of(frame, kind="fecn", ethertypes=ethertypes).old_at.tolist() == [12]
    assert own(frame, "fecn", ethertypes)[:3] == (True, 0xFFFFFFFE, 7)
    assert of(frame, kind="fecn").old_at.tolist() == [-1]


@given(frames=FRAMES, kind=st.sampled_from(sorted(KINDS)))
def test_tags_equal_those_of_single_frames(frames: list[bytes], kind: str) -> None:
    tags = of(*frames, kind=kind)
    for octets, tag_at, old_at, count in zip(frames, *(column.tolist() for column in tags), strict=True):
        whole, cut = tags_in(octets)
        mine = [tag for tag in whole if tag.is_of(KINDS[kind], DEFAULT)]
        assert (old_at, count) == (mine[0].at if mine else -1, len(mine))
        assert (tag_at == -1) == cut
        found = own(octets, kind)
        assert found[:3] == (values(kind, mine[0].layer) if mine else NOTHING)
        assert found.at == old_at


@given(frames=FRAMES, kind=st.sampled_from(sorted(KINDS)))
def test_older_tags_exclude_the_newest(frames: list[bytes], kind: str) -> None:
    batch, size = batch_of(frames), KINDS[kind].octets
    tags = tags_of(*batch, KINDS[kind])
    others = older_tags(*batch, tags, KINDS[kind])
    assert (np.bincount(others.frame, minlength=len(frames)) == np.maximum(tags.old_tags - 1, 0)).all()
    assert (others.at >= tags.old_at[others.frame] + size).all()
    assert (others.octets == size).all()


@given(frames=FRAMES, kind=st.sampled_from(sorted(KINDS)), number=st.integers(-(2**63), 2**63 - 1))
def test_rewriting_equals_that_of_single_frames(frames: list[bytes], kind: str, number: int) -> None:
    own = KINDS[kind]
    written = {name: own.values(number % 2**64, 0)[name] for name in own.tag_fields}
    batch = Batch.from_frames(frames)
    every = np.arange(len(frames))
    changed = with_tag_values(batch, every, np.full(len(frames), number), own)
    for position, octets in enumerate(frames):
        assert changed.frame(position) == with_fields(octets, own, **written)
        found = find_tag(changed.frame(position), own)
        assert found is None or {name: getattr(found.layer, name) for name in written} == written


def test_tag_format_needs_unsigned_fields_of_tag() -> None:
    for wrong in (
        {"format": BCN},
        {"format": RDTag, "tag": "speed"},
        {"format": CMTag, "mark": ("cpid", "unit")},
    ):
        with pytest.raises(ParameterError):
            TagFormat(**wrong)


def test_an_empty_batch() -> None:
    assert len(of(kind="ecm").tag_at) == 0


def test_outermost_tag_needs_a_captured_ethertype() -> None:
    batch = Batch.from_frames([octets_of(VLAN_TAG)[:octets] for octets in (13, 14)])
    splice = tag_splice(batch, np.zeros((2, 4), np.uint8), KINDS["qcn"], outermost=True)
    assert splice.at.tolist() == [NOWHERE, 12]
