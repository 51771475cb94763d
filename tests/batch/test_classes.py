"""Classification of frames: tags in any order and depth, sampled frames, and frames that occupy queues."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.frames.batch.classes import FrameClasses, classify
from ecmproto.wire.codec import EtherTypes

DA, SA = "020000000001", "020000000002"
VLAN, STAG, CN = "8100 a005", "88a8 6007", "22e9 1234"
CPID = "0200000000c10001"
CM_TAG = f"88b6 0000 {CPID} 00000000"
E2CM_TAG = f"88b6 0200 {CPID} 00000000"
RRT_TAG = f"88b6 0100 {CPID}"
RD_TAG = "88b6 0300 0001 ffffffff"


def of(*frames: bytes, **options: EtherTypes | bytes) -> FrameClasses:
    lengths = np.array([len(frame) for frame in frames], np.int64)
    buffer = np.frombuffer(b"".join(frames), np.uint8)
    return classify(buffer, np.cumsum(lengths) - lengths, lengths, **options)  # type: ignore[arg-type]


def frame(*parts: str, da: str = DA, sa: str = SA) -> bytes:
    return bytes.fromhex((da + sa + "".join(parts)).replace(" ", ""))


@pytest.mark.parametrize(
    ("tags", "priority", "flow_id"),
    [
        ([], 0, None),
        ([VLAN], 5, None),
        ([STAG, VLAN], 3, None),
        ([VLAN, STAG, CN], 5, 0x1234),
        ([CN], 0, 0x1234),
        ([CN, VLAN], 5, 0x1234),
        ([VLAN, CN, CM_TAG], 5, 0x1234),
        ([RD_TAG, CM_TAG, RRT_TAG, E2CM_TAG, VLAN, CN, "22e9 9999", STAG], 5, 0x1234),
        ([VLAN] * 40 + [CN], 5, 0x1234),
        (["9100 4001"], 2, None),
    ],
)
def test_tags_in_any_order_and_depth(tags: list[str], priority: int, flow_id: int | None) -> None:
    whole = frame(*tags, "0800", "45" * 20)
    classes = of(whole)
    assert classes.priority.tolist() == [priority]
    assert classes.cn_tagged.tolist() == [flow_id is not None]
    assert classes.flow_id.tolist() == [flow_id or 0]
    assert classes.msdu_offset.tolist() == [len(whole) - 22]
    assert classes.sampled.tolist() == [True]


@pytest.mark.parametrize("tags", [[], [VLAN], [VLAN, CN], [CM_TAG]])
@pytest.mark.parametrize(
    ("etype", "sampled", "occupies"),
    [("22e7", False, True), ("88b5", False, True), ("8808", False, False), ("88cc", True, True),
     ("0026", True, True), ("88e7", True, True)],
)  # fmt: skip
def test_messages_and_mac_control_are_never_sampled(
    tags: list[str], etype: str, sampled: bool, occupies: bool
) -> None:
    classes = of(frame(*tags, etype, "00" * 46))
    assert classes.sampled.tolist() == [sampled]
    assert classes.occupies.tolist() == [occupies]


@pytest.mark.parametrize(
    ("da", "occupies"),
    [("0180c2000000", False), ("0180c200000f", False), ("0180c2000010", True), ("0180c2000100", True)],
)
def test_link_local_frames_bypass_queues_and_sampling(da: str, occupies: bool) -> None:
    classes = of(frame("88cc", "00" * 46, da=da))
    assert classes.occupies.tolist() == [occupies]
    assert classes.sampled.tolist() == [occupies]


def test_no_message_to_group_address_or_to_oneself() -> None:
    frames = [frame("0800", sa=sa) for sa in (SA, "030000000002", "ffffffffffff", "0200000000cc")]
    classes = of(*frames, own_mac=bytes.fromhex("0200000000cc"))
    assert classes.answerable.tolist() == [True, False, False, False]
    assert classes.sampled.all()


@pytest.mark.parametrize(
    "body", ["", "ff", "00" * 46, "ff" * 46, f"0000 {CPID}" + "00" * 36, "0700" + "00" * 44]
)
def test_message_ethertype_is_never_sampled(body: str) -> None:
    classes = of(frame("88b5", body), frame(VLAN, CN, CM_TAG, "88b5", body))
    assert not classes.sampled.any()
    assert classes.occupies.all()


def test_i_tag_and_unassigned_tag_are_payload() -> None:
    unassigned = "88b6 0400" + "00" * 12
    frames = [
        frame(VLAN, "88e7", "00" * 16, CN),
        frame(VLAN, unassigned, CN),
        frame(CM_TAG.replace("0000", "0010", 1), CN),
    ]
    classes = of(*frames)
    assert classes.msdu_offset.tolist() == [16, 16, 12]
    assert not classes.cn_tagged.any()


@pytest.mark.parametrize("protocol", ["0000", "0100", "0200"])
@pytest.mark.parametrize("cpid", ["00" * 8, "0100000000c10001"])
def test_a_tag_without_a_possible_cpid_is_payload(protocol: str, cpid: str) -> None:
    classes = of(frame(VLAN, "88b6", protocol, cpid, "00000000", CN, "22e7", "00" * 46))
    assert classes.msdu_offset.tolist() == [16]
    assert not classes.cn_tagged.any()
    assert classes.sampled.all()


def test_a_map_of_ethertypes_replaces_the_default_one() -> None:
    frames = [frame("22e7", "00" * 46), frame("9abc", "00" * 46)]
    assert of(*frames, ethertypes=EtherTypes(cnm=0x9ABC)).sampled.tolist() == [True, False]


def test_truncated_frame_is_classified_by_its_captured_octets() -> None:
    whole = frame(STAG, VLAN, CN, CM_TAG, "22e7", "00" * 24)
    classes = of(*(whole[:length] for length in range(len(whole) + 1)))
    lengths = np.arange(len(whole) + 1)
    assert classes.occupies.all()
    assert (classes.answerable == (lengths >= 14)).all()
    assert (classes.priority == np.where(lengths >= 16, 3, 0)).all()
    assert (classes.cn_tagged == (lengths >= 24)).all()
    assert (classes.sampled == (lengths < 42)).all()
    assert (classes.msdu_offset <= lengths).all()


@settings(max_examples=200, deadline=None)
@given(frames=st.lists(st.binary(max_size=40), min_size=1, max_size=8), data=st.data())
def test_class_does_not_depend_on_other_frames(frames: list[bytes], data: st.DataObject) -> None:
    together = of(*frames)
    i = data.draw(st.integers(0, len(frames) - 1))
    alone = of(frames[i])
    for name in FrameClasses._fields:
        assert getattr(together, name)[i] == getattr(alone, name)[0]
    assert 0 <= together.msdu_offset[i] <= len(frames[i])


def test_an_empty_batch() -> None:
    assert len(of().priority) == 0
