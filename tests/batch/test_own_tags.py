"""A mechanism's own tag in frames: which of several counts, as the functions for single frames have it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.batch.headers import BCN, E2CM, ECM, FECN, roles_of
from ecmproto.batch.tags import own_tag
from ecmproto.codec import CMTag, EtherTypes, RRTTag
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.messages import tag_of
from ecmproto.mechanisms.api.frames import headers
from ecmproto.mechanisms.api.protocol import signed_cpid
from ecmproto.mechanisms.fecn.messages import rd_tag
from tests.batch.frames import ANY, batch_of

MACS = "020000000001 020000000002 "
CM = "88b6 0800 8202030405060708 abcd 5000 "
E2CM_TAG = "88b6 0200 0000000000000009 0001 0000 "
RRT = "88b6 0100 feffffffffffffff "
RD = "88b6 0300 0007 fffffffe "
VLAN = "8100 a005 "
FRAMES = st.lists(ANY, min_size=1, max_size=6)
NOTHING = (False, 0, 0)
CM_FOUND = (True, 0x8202030405060708 - 2**64, 0x5ABCD)


def of(frames: list[bytes], protocol: int, ethertypes: EtherTypes = DEFAULT) -> list[tuple[bool, int, int]]:
    buffer, offset, captured = batch_of(frames)
    roles = roles_of(ethertypes)
    places = zip(offset.tolist(), captured.tolist(), strict=True)
    return [own_tag(buffer, start, octets, roles, protocol)[:3] for start, octets in places]


def expected(octets: bytes, protocol: int) -> tuple[bool, int, int]:
    """Return what the functions for single frames say."""
    if protocol == FECN:
        rd = rd_tag(octets)
        return NOTHING if rd is None else (True, rd.rate, rd.rlq_id)
    if protocol == BCN:
        rrt = tag_of(headers(octets), RRTTag, protocol)
        return NOTHING if rrt is None else (True, signed_cpid(rrt.cpid), 0)
    cm = tag_of(headers(octets), CMTag, protocol)
    return NOTHING if cm is None else (True, signed_cpid(cm.cpid), cm.unit << 16 | cm.timestamp)


@pytest.mark.parametrize(
    ("frame", "protocol", "found"),
    [
        ("0800 4500", ECM, NOTHING),
        (CM + "0800", ECM, CM_FOUND),
        (CM + "0800", E2CM, NOTHING),
        (CM + E2CM_TAG + "0800", E2CM, (True, 9, 1)),
        (E2CM_TAG + CM + CM + "0800", ECM, CM_FOUND),
        (VLAN + RRT + RRT + "0800", BCN, (True, 0xFEFFFFFFFFFFFFFF - 2**64, 0)),
        (VLAN + RD + "0800", FECN, (True, 0xFFFFFFFE, 7)),
        (VLAN + RD, FECN, NOTHING),
    ],
)
def test_what_is_found(frame: str, protocol: int, found: tuple[bool, int, int]) -> None:
    assert of([bytes.fromhex(MACS + frame)], protocol) == [found]


def test_a_map_of_ethertypes_replaces_the_default_one() -> None:
    frame = bytes.fromhex(MACS + RD.replace("88b6", "9abc") + "0800")
    assert of([frame], FECN, EtherTypes(tag=0x9ABC)) == [(True, 0xFFFFFFFE, 7)]
    assert of([frame], FECN) == [NOTHING]


@given(frames=FRAMES, protocol=st.sampled_from([ECM, BCN, E2CM, FECN]))
def test_tags_count_as_for_single_frames(frames: list[bytes], protocol: int) -> None:
    assert of(frames, protocol) == [expected(octets, protocol) for octets in frames]


@pytest.mark.parametrize(("tag", "protocol"), [(CM, ECM), (E2CM_TAG, E2CM), (RRT, BCN), (RD, FECN)])
def test_tags_count_as_far_into_a_frame_as_for_single_frames(tag: str, protocol: int) -> None:
    frames = [bytes.fromhex(MACS + VLAN * n + tag + "0800") for n in range(50, 66)]
    found = of(frames, protocol)
    assert found == [expected(octets, protocol) for octets in frames]
    assert (NOTHING in found) == (protocol != FECN)


@given(octets=ANY)
def test_a_rate_stands_where_it_says(octets: bytes) -> None:
    found = own_tag(np.frombuffer(octets, np.uint8), 0, len(octets), roles_of(DEFAULT), FECN)
    assert (found.rate_at >= 0) == found.tagged
    if found.tagged:
        assert int.from_bytes(octets[found.rate_at : found.rate_at + 4]) == found.tag
