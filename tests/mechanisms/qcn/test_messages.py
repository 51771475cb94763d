"""Accepted and discarded messages of a receiver (wire-formats 3); the octets are written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.qcn.messages import CNMReceiver, Discard, ReceivedCNM, read_cnm
from ecmproto.control.mechanisms.qcn.reaction_point import CNMFeedback
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import CNM, EtherTypes

OWN = bytes.fromhex("020000000002")
CP = "0200000000cc"
TAGS = "8100 c123 22e9 beef 22e7"


def pdu(*, fb: str = "001f", prio: str = "6000", length: str = "0004", msdu: str = "08004500") -> str:
    return f"{fb} {CP}0004 ffc2 fe2c {prio} 020000000001 {length} {msdu}"


def cnm(body: str, *, dst: str = OWN.hex(), tags: str = TAGS, pad: int = 60) -> bytes:
    return bytes.fromhex(dst + CP + tags + body).ljust(pad, b"\0")


def read(octets: bytes, **options: int) -> tuple[ReceivedCNM | Discard, dict[str, int]]:
    """Return the parsed feedback, and the counters that are not 0."""
    receiver = new_record(CNMReceiver)
    found = read_cnm(receiver, octets, OWN, length_octets=options.get("length_octets"))
    names = CNMReceiver.__annotations__
    return found, {name: int(getattr(receiver, name)) for name in names if getattr(receiver, name)}


def test_a_cnm_gives_its_flow_priority_and_feedback() -> None:
    found, counted = read(cnm(pdu()))
    assert isinstance(found, ReceivedCNM)
    assert found.feedback == CNMFeedback(flow_id=0xBEEF, encap_prio=3, qntz_fb=31)
    assert found.frame[CNM].cpid == 0x0200000000CC0004
    assert counted == {"taken_cnms": 1}


def test_without_cn_tag_it_is_about_flow_0() -> None:
    found, _ = read(cnm(pdu(prio="0000"), tags="22e7"))
    assert isinstance(found, ReceivedCNM)
    assert found.feedback == CNMFeedback(flow_id=0, encap_prio=0, qntz_fb=31)


def test_version_and_reserved_bits_are_ignored() -> None:
    found, _ = read(cnm(pdu(fb="ffdf", prio="7fff")))
    assert isinstance(found, ReceivedCNM)
    assert found.feedback == CNMFeedback(flow_id=0xBEEF, encap_prio=3, qntz_fb=31)


def test_cnm_with_zero_feedback_is_accepted() -> None:
    found, counted = read(cnm(pdu(fb="0000")))
    assert isinstance(found, ReceivedCNM)
    assert found.feedback.qntz_fb == 0
    assert counted == {"taken_cnms": 1}


def test_msdu_length_is_trusted_and_not_frame_length() -> None:
    found, _ = read(cnm(pdu(length="0000", msdu=""), pad=1514))
    assert isinstance(found, ReceivedCNM)
    assert found.frame[CNM].msdu == b""


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (cnm(pdu(), dst="030000000002"), Discard.GROUP_ADDRESS),
        (cnm(pdu(), dst="ffffffffffff"), Discard.GROUP_ADDRESS),
        (cnm(pdu(), dst="020000000003"), Discard.FOREIGN_ADDRESS),
        (cnm(pdu(), pad=0)[:45], Discard.SHORT_PDU),
        (cnm("", pad=0), Discard.SHORT_PDU),
        (cnm("", tags="22e7", pad=0), Discard.SHORT_PDU),
        (cnm(pdu(length="0041"), pad=200), Discard.MSDU_TOO_LONG),
        (cnm(pdu(length="ffff"), pad=0), Discard.MSDU_TOO_LONG),
        (cnm(pdu(length="0005"), pad=0), Discard.MSDU_NOT_PRESENT),
        (cnm(pdu(length="0040"), pad=60), Discard.MSDU_NOT_PRESENT),
        (cnm(pdu(), tags="0800"), Discard.NOT_A_CNM),
        (cnm(pdu(), tags="88e7 00000001 020000000002 020000000009 22e7"), Discard.NOT_A_CNM),
        (OWN, Discard.NOT_A_CNM),
        (b"", Discard.NOT_A_CNM),
    ],
    ids=lambda value: value.name if isinstance(value, Discard) else "",
)
def test_discards_are_counted_by_their_reason(octets: bytes, reason: Discard) -> None:
    found, counted = read(octets)
    assert found is reason
    assert counted == {reason.value: 1}


def test_what_snap_length_cut_off_is_no_lie() -> None:
    whole = cnm(pdu(length="0028", msdu="0800" + "45" * 38))
    found, _ = read(whole[:60], length_octets=len(whole))
    assert isinstance(found, ReceivedCNM)
    assert read(whole[:60])[0] is Discard.MSDU_NOT_PRESENT
    assert read(whole[:40], length_octets=len(whole))[0] is Discard.SHORT_PDU


def test_other_ethertypes() -> None:
    octets = cnm(pdu(), tags="9abd beef 9abc")
    receiver = new_record(CNMReceiver)
    assert read_cnm(receiver, octets, OWN) is Discard.NOT_A_CNM
    ethertypes = EtherTypes(cn_tag=0x9ABD, cnm=0x9ABC)
    found = read_cnm(receiver, octets, OWN, ethertypes=ethertypes)
    assert isinstance(found, ReceivedCNM)
    assert found.feedback.flow_id == 0xBEEF


_ANYTHING = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=120).map(lambda tail: cnm("", pad=0) + tail),
    st.tuples(st.integers(0, 59), st.integers(1, 255)).map(
        lambda flip: bytes(
            octet ^ (flip[1] if place == flip[0] else 0) for place, octet in enumerate(cnm(pdu()))
        )
    ),
)


@given(_ANYTHING)
def test_any_octets_are_counted_exactly_once(octets: bytes) -> None:
    found, counted = read(octets)
    assert sum(counted.values()) == 1
    if isinstance(found, ReceivedCNM):
        assert octets[:6] == OWN
        assert 0 <= found.feedback.qntz_fb <= 63
        assert 0 <= found.feedback.encap_prio <= 7
        assert len(found.frame[CNM].msdu) == found.frame[CNM].msdu_length <= 64
