"""FECN's frames, octet by octet (wire-formats 1.2 and 7), as they go from source to receiver and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.fecn.congestion_point import FECNPointState, lowered, settings_record, start
from ecmproto.control.mechanisms.fecn.parameters import FECNCongestionPointParameters, FECNEdgeParameters
from ecmproto.control.mechanisms.fecn.reaction_point import FECNFields, FECNSource
from ecmproto.kernels.record import new_record
from ecmproto.units import RATE_INFINITY
from ecmproto.wire.codec import (
    VLAN,
    CMTag,
    CNTag,
    Ethernet,
    EtherTypes,
    FECNReturn,
    RDTag,
    RRTTag,
    STag,
    decode,
)
from tests.mechanisms.fecn.frames import (
    Edge,
    FECNDelivered,
    answer,
    rd_tag,
    receive,
    received,
    returning,
    tagged,
    untagged,
    with_rate,
)

A, B, OTHER = "020000000001", "020000000002", "020000000003"
GROUP = "01005e000001"
PAYLOAD = "1234" + "45" * 80
TAG = "88b6 0300 0007 ffffffff"


def octets(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts).replace(" ", ""))


def at_receiver(frame: bytes, *, station: str = B, length_octets: int = 0) -> tuple[Edge, FECNDelivered]:
    edge = new_record(Edge)
    got = receive(
        edge, frame, station_mac=octets(station), parameters=FECNEdgeParameters(), length_octets=length_octets
    )
    return edge, got


def tag(frame: bytes) -> bytes:
    """Return the frame with the tag ``TAG``."""
    made = tagged(frame, rlq_id=7)
    assert made is not None
    return made


def test_item_1_an_rd_tag_octet_by_octet() -> None:
    assert tag(octets(B, A, PAYLOAD)) == octets(B, A, TAG, PAYLOAD)


@pytest.mark.parametrize(
    ("stack", "behind"),
    [
        ("8100 6005", ""),
        ("88a8 6005 8100 2006", ""),
        ("9100 6005 8100 2006", ""),
        ("8100 6005 22e9 beef", ""),
        ("22e9 beef", ""),
        ("8100 6005", "88b6 0000 0202030405060708 0000 0000"),
        ("22e9 beef", "88b6 0100 0202030405060708"),
    ],
)
def test_rd_tag_follows_vlan_and_cn_tags(stack: str, behind: str) -> None:
    bare = octets(B, A, stack, behind, PAYLOAD)
    assert tag(bare) == octets(B, A, stack, TAG, behind, PAYLOAD)
    assert untagged(tag(bare)) == bare


def test_length_behind_tags_counts_what_it_counted() -> None:
    # 802.3: a length of 3, LLC of 3 octets, 43 octets of padding
    bare = octets(B, A, "0003 424203", "00" * 43)
    assert tag(bare) == octets(B, A, TAG, "0003 424203", "00" * 43)
    frame = decode(tag(bare))
    assert frame[RDTag].etype == 3
    _, (back, _) = at_receiver(tag(bare))
    assert back == bare


@pytest.mark.parametrize(
    "old",
    ["88b6 0300 0001 00000005", "88b6 0300 0001 00000005 88b6 0300 0002 00000006"],
)
def test_a_new_rd_tag_replaces_the_old_one(old: str) -> None:
    cm_tag = "88b6 0000 0202030405060708 0000 0000"
    frame = octets(B, A, "8100 6005", cm_tag, old, PAYLOAD)
    assert tag(frame) == octets(B, A, "8100 6005", TAG, cm_tag, PAYLOAD)
    assert [type(layer) for layer in decode(tag(frame)).layers[:4]] == [Ethernet, VLAN, RDTag, CMTag]


def test_an_i_tag_is_payload() -> None:
    backbone = octets(B, A, "88a8 6005 88e7 00000001", B, A, "88b6 0300 0001 00000005", PAYLOAD)
    assert tag(backbone) == backbone[:16] + octets(TAG) + backbone[16:]
    assert rd_tag(backbone) is None
    assert untagged(backbone) == backbone


@pytest.mark.parametrize("captured", [0, 6, 13, 14, 15, 17, 18, 19, 21])
def test_frame_with_truncated_headers_takes_no_tag(captured: int) -> None:
    assert tagged(octets(B, A, "8100 6005 22e9 beef", PAYLOAD)[:captured], rlq_id=7) is None


def test_what_was_captured_is_enough() -> None:
    assert tag(octets(B, A, "8100 6005 0800 45")) == octets(B, A, "8100 6005", TAG, "0800 45")


def test_item_2_switch_changes_only_the_rate() -> None:
    state = new_record(FECNPointState)
    record = settings_record(FECNCongestionPointParameters())
    start(state, record, np.random.default_rng(1), 0, 1e9)
    # A version, a Q bit and reserved bits that this version of the word does not know stay as they are.
    frame = octets(B, A, "8100 6005 88b6 1b0f 0007 ffffffff", PAYLOAD)
    found = rd_tag(frame)
    assert found is not None
    assert found.rate == RATE_INFINITY
    rate = lowered(state, found.rate)
    assert with_rate(frame, rate) == octets(B, A, "8100 6005 88b6 1b0f 0007 0000c350", PAYLOAD)


def test_item_2_untagged_frame_has_no_rate() -> None:
    for bare in (octets(B, A, PAYLOAD), octets(B, A), b"", octets(B, A, "88b6 0300 0007 ff")):
        assert rd_tag(bare) is None
        assert with_rate(bare, 1) == bare


def test_item_3_receiver_strips_and_returns_the_tag() -> None:
    frame = octets(B, A, "8100 6005 22e9 beef 88b6 0300 0007 0000c350", PAYLOAD)
    edge, (stripped, back) = at_receiver(frame)
    assert stripped == octets(B, A, "8100 6005 22e9 beef", PAYLOAD)
    # the VLAN tag with priority 7, then word (protocol 3, type 1), RLQ-ID, rate, and padding to 60
    assert back == octets(A, B, "8100 e005 88b5 0310 0007 0000c350").ljust(60, b"\0")
    assert (edge.stripped, edge.returns) == (1, 1)


def test_item_3_only_outer_priority_and_dei_change() -> None:
    _, (_, back) = at_receiver(octets(B, A, "88a8 7005 8100 3006", TAG, PAYLOAD))
    assert back is not None
    frame = decode(back)
    assert (frame[STag].priority, frame[STag].dei, frame[STag].id) == (7, 0, 5)
    assert (frame[VLAN].priority, frame[VLAN].dei, frame[VLAN].id) == (1, 1, 6)
    assert frame[FECNReturn].rate == RATE_INFINITY


def test_item_3_reply_copies_no_other_tags() -> None:
    _, (_, back) = at_receiver(octets(B, A, "22e9 0001 88b6 0100 0202030405060708", TAG, PAYLOAD))
    assert back == octets(A, B, "88b5 0310 0007 ffffffff").ljust(60, b"\0")


def test_item_3_stripped_frame_is_padded_to_60() -> None:
    _, (stripped, _) = at_receiver(octets(B, A, TAG, "0800", "45" * 36))
    assert stripped == octets(B, A, "0800", "45" * 36).ljust(60, b"\0")


def test_item_3_truncated_frame_is_not_padded() -> None:
    _, (stripped, _) = at_receiver(octets(B, A, TAG, "0800", "45" * 10), length_octets=1_514)
    assert stripped == octets(B, A, "0800", "45" * 10)


def test_item_3_group_and_own_address_are_unanswered() -> None:
    for source in (GROUP, B):
        edge, (stripped, back) = at_receiver(octets(B, source, TAG, PAYLOAD))
        assert back is None
        assert stripped == octets(B, source, PAYLOAD)
        assert (edge.unanswerable, edge.returns) == (1, 0)


def test_item_3_group_frame_is_answered_from_station() -> None:
    _, (_, back) = at_receiver(octets(GROUP, A, TAG, PAYLOAD))
    assert back is not None
    assert decode(back)[Ethernet].src == octets(B)


def test_item_3_foreign_frame_passes_unchanged() -> None:
    frame = octets(OTHER, A, TAG, PAYLOAD)
    edge, got = at_receiver(frame)
    assert got == (frame, None)
    assert (edge.foreign, edge.stripped) == (1, 0)


def test_item_3_a_frame_without_tag_passes() -> None:
    for frame in (octets(B, A, PAYLOAD), octets(B), b"", octets(B, A, "88b6 0300 00")):
        edge, got = at_receiver(frame)
        assert got == (frame, None)
        assert (edge.stripped, edge.foreign, edge.unanswerable) == (0, 0, 0)


def test_item_1_source_reads_what_receiver_sent() -> None:
    source = new_record(FECNSource)
    _, (_, back) = at_receiver(with_rate(tag(octets(B, A, "8100 6005", PAYLOAD)), 12_345))
    assert back is not None
    assert received(back, source, station_mac=octets(A)) == FECNFields(7, 12_345)


@pytest.mark.parametrize("destination", [OTHER, GROUP, "ffffffffffff"])
def test_foreign_and_group_returns_are_counted(destination: str) -> None:
    source = new_record(FECNSource)
    frame = octets(destination, B, "88b5 0310 0007 0000c350").ljust(60, b"\0")
    assert received(frame, source, station_mac=octets(A)) is None
    assert (source.foreign_returns, source.malformed_returns) == (1, 0)


def test_return_from_group_address_is_refused_and_counted() -> None:
    source = new_record(FECNSource)
    frame = octets(A, GROUP, "88b5 0310 0007 0000c350").ljust(60, b"\0")
    assert received(frame, source, station_mac=octets(A)) is None
    assert (source.foreign_returns, source.malformed_returns) == (1, 0)


def test_truncated_returns_are_refused_and_counted() -> None:
    source = new_record(FECNSource)
    for length in range(14, 22):
        frame = octets(A, B, "88b5 0310 0007 0000c350")[:length]
        assert received(frame, source, station_mac=octets(A)) is None
    assert source.malformed_returns == 8


def test_frames_other_than_returns_are_not_counted() -> None:
    source = new_record(FECNSource)
    bad_ip, other_message = octets(A, B, "0800 4f"), octets(A, B, "88b5 0320 0007 0000c350").ljust(60, b"\0")
    for other in (octets(A, B, PAYLOAD), bad_ip, other_message, octets(A, B), b""):
        assert received(other, source, station_mac=octets(A)) is None
    assert (source.foreign_returns, source.malformed_returns) == (0, 0)


def test_other_ethertypes_are_used_throughout() -> None:
    ethertypes = EtherTypes(tag=0x9ABC, message=0x9ABD)
    bare = octets(B, A, PAYLOAD)
    frame = tagged(bare, rlq_id=7, ethertypes=ethertypes)
    assert frame == octets(B, A, "9abc 0300 0007 ffffffff", PAYLOAD)
    assert rd_tag(frame) is None
    back = returning(frame, station_mac=octets(B), priority=7, ethertypes=ethertypes)
    assert back is not None
    assert back[12:14] == octets("9abd")
    source = new_record(FECNSource)
    got = received(back, source, station_mac=octets(A), ethertypes=ethertypes)
    assert got == FECNFields(7, RATE_INFINITY)


def test_a_reply_needs_no_more_than_the_headers() -> None:
    body = FECNReturn(rlq_id=1, rate=2)
    whole = octets(B, A, "8100 6005", PAYLOAD)
    for length in (18, 20, len(whole)):
        back = answer(whole[:length], body, port_mac=octets(B), priority=7)
        assert back == octets(A, B, "8100 e005 88b5 0310 0001 00000002").ljust(60, b"\0")


_TAGS = st.sampled_from(
    [
        "8100 6005",
        "88a8 7001",
        "22e9 beef",
        "88b6 0000 0202030405060708 0000 0000",
        "88b6 0100 0202030405060708",
    ]
)


@given(st.lists(_TAGS, max_size=5), st.integers(0, 3), st.sampled_from([PAYLOAD, "0030" + "42" * 48]))
def test_stripping_undoes_tagging_in_any_stack(tags: list[str], at: int, payload: str) -> None:
    bare = octets(B, A, *tags, payload)
    old = [*tags[:at], "88b6 0300 0001 00000002", *tags[at:]]
    for frame in (bare, octets(B, A, *old, payload)):
        made = tag(frame)
        assert len(made) == len(bare) + 10
        assert untagged(made) == bare
        layers = decode(made).layers
        assert sum(isinstance(layer, RDTag) for layer in layers) == 1
        first = next(i for i, layer in enumerate(layers) if isinstance(layer, CMTag | RRTTag | RDTag))
        assert isinstance(layers[first], RDTag)
        assert all(isinstance(layer, VLAN | STag | CNTag) for layer in layers[1:first])


@given(st.binary(max_size=90))
def test_no_octets_at_all_make_trouble(data: bytes) -> None:
    source = new_record(FECNSource)
    for header in ("", B + A, B + A + "88b6 0300", A + B + "88b5 0310"):
        frame = octets(header) + data
        made = tagged(frame, rlq_id=1)
        assert made is None or rd_tag(made) == rd_tag(made) is not None
        at_receiver(frame)
        with_rate(frame, 5)
        received(frame, source, station_mac=octets(A))
