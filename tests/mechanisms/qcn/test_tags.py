"""CN-TAG in and out of data frames (wire-formats 1.2 and 2); the octets are written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.qcn.edge import received_priority, strip_cn_tag, with_priority
from ecmproto.errors import EncodeError
from ecmproto.wire.codec import CNTag, EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.tags import with_tag

MACS = "020000000001 020000000002 "
IP = " 0800 " + "45" * 60
LLC = " 0030 424203" + "00" * 45
CM_TAG = "88b6 0000 0202030405060708 0000 0000 "


def insert_cn_tag(octets: bytes, flow_id: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame with a CN-TAG for ``flow_id`` after its VLAN tags.

    The tag replaces an existing CN-TAG.
    """
    return with_tag(octets, CNTag(flow_id=flow_id), ethertypes)[0]


def frame(header: str, payload: str = IP) -> bytes:
    return bytes.fromhex(MACS + header + payload)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "22e9 0005"),
        ("8100 6123", "8100 6123 22e9 0005"),
        ("88a8 7005 8100 b006", "88a8 7005 8100 b006 22e9 0005"),
        ("9100 7005 8100 b006", "9100 7005 8100 b006 22e9 0005"),
        ("8100 6123 22e9 beef", "8100 6123 22e9 0005"),
        ("22e9 beef 8100 6123", "8100 6123 22e9 0005"),
        ("22e9 beef 22e9 beef", "22e9 0005"),
        ("8100 6123" + CM_TAG, "8100 6123 22e9 0005" + CM_TAG),
        ("8100 6123" + CM_TAG + "22e9 beef", "8100 6123 22e9 0005" + CM_TAG),
        ("88e7 00000001 020000000007 020000000008 22e9 0009",
         "22e9 0005 88e7 00000001 020000000007 020000000008 22e9 0009"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("payload", [IP, LLC], ids=["ethertype", "length"])
def test_cn_tag_follows_vlan_tags_and_replaces_older(before: str, after: str, payload: str) -> None:
    assert insert_cn_tag(frame(before, payload), 5).hex(" ") == frame(after, payload).hex(" ")


@pytest.mark.parametrize("payload", [IP, LLC], ids=["ethertype", "length"])
@pytest.mark.parametrize("stack", ["", "8100 6123", "88a8 7005 8100 b006"])
def test_stripping_gives_back_the_frame(stack: str, payload: str) -> None:
    original = frame(stack, payload)
    assert strip_cn_tag(insert_cn_tag(original, 5)) == original
    assert strip_cn_tag(original) is original


def test_stripping_pads_only_whole_frames_to_60() -> None:
    tagged = frame("22e9 0005", " 0800 " + "45" * 42)
    assert len(tagged) == 60
    assert strip_cn_tag(tagged) == frame("", " 0800 " + "45" * 42 + "00000000")
    assert len(strip_cn_tag(tagged[:40])) == 36


def test_a_frame_cut_within_its_tags_gets_none() -> None:
    for length in range(14, 18):
        cut = frame("8100 6123", "0800")[:length]
        assert insert_cn_tag(cut, 5) == cut
    assert insert_cn_tag(frame("0800", ""), 5) == frame("22e9 0005 0800", "")


@pytest.mark.parametrize("length", range(14))
def test_a_frame_without_a_whole_header_comes_back(length: int) -> None:
    octets = frame("8100 6123")[:length]
    assert insert_cn_tag(octets, 5) == octets
    assert strip_cn_tag(octets) == octets
    assert with_priority(octets, 5) == octets
    assert received_priority(octets) == 0


@pytest.mark.parametrize("flow_id", [-1, 65_536])
def test_flow_ids_have_16_bits(flow_id: int) -> None:
    with pytest.raises(EncodeError, match="flow_id"):
        insert_cn_tag(frame(""), flow_id)


def test_priority_is_that_of_the_outermost_vlan_tag() -> None:
    stacked = frame("88a8 7005 8100 b006 22e9 0005")
    assert received_priority(stacked) == 3
    assert with_priority(stacked, 2) == frame("88a8 5005 8100 b006 22e9 0005")
    assert received_priority(frame("22e9 0005 8100 b006")) == 5
    assert received_priority(frame("22e9 0005")) == 0
    assert with_priority(frame("22e9 0005"), 2) == frame("22e9 0005")


def test_other_ethertypes() -> None:
    ethertypes = EtherTypes(cn_tag=0x9ABD)
    assert insert_cn_tag(frame("22e9 0001"), 5, ethertypes=ethertypes) == frame("9abd 0005 22e9 0001")
    assert strip_cn_tag(frame("9abd 0005"), ethertypes=ethertypes) == frame("")


_STACKS = st.lists(
    st.sampled_from(["8100 6123 ", "88a8 7005 ", "22e9 beef ", CM_TAG, "22e9 0000 ", "9100 0001 "]),
    max_size=6,
)


@given(stack=_STACKS, flow_id=st.integers(0, 65_535), cut=st.integers(0, 200))
def test_any_stack_gets_exactly_one_cn_tag(stack: list[str], flow_id: int, cut: int) -> None:
    octets = frame("".join(stack))
    tagged = insert_cn_tag(octets, flow_id)
    rest = [tag for tag in stack if not tag.startswith("22e9")]
    vlans = next((n for n, tag in enumerate(rest) if tag == CM_TAG), len(rest))
    expected = [*rest[:vlans], f"22e9 {flow_id:04x}", *rest[vlans:]]
    assert tagged == frame("".join(expected))
    assert insert_cn_tag(tagged, flow_id) == tagged
    assert strip_cn_tag(tagged) == frame("".join(rest))
    assert len(insert_cn_tag(octets[:cut], flow_id)) <= cut + 4
