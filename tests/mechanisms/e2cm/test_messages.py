"""E²CM's messages of congestion points and its CM-Tag as frames (wire-formats 1.2 and 6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, LimiterTable
from ecmproto.control.mechanisms.api.protocol import NO_CPID
from ecmproto.control.mechanisms.e2cm.messages import NO_TYPE, type_of
from ecmproto.control.mechanisms.e2cm.parameters import (
    E2CMCongestionPointParameters,
    E2CMReactionPointParameters,
)
from ecmproto.control.mechanisms.e2cm.reaction_point import BCN, BCN_MAX, BCN_ZERO
from ecmproto.control.mechanisms.ecm.congestion_point import REGULAR, SATURATED, SEVERE, ECMFeedback
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import E2CM, CMTag, EtherTypes, decode
from tests.mechanisms.e2cm.frames import e2cm_message, read, tag_cpid, tagged, untagged
from tests.mechanisms.e2cm.station import new_point

DST, SRC, CP = "020000000002", "020000000001", "0200000000cc"
CPID = 0x0200_0000_00CC_0001
FOUND = ECMFeedback(REGULAR, 4_000, -30_000, 62, -468, 0)
PAYLOAD = "0800" + "45" * 80


def data(header: str = "8100 6005", payload: str = PAYLOAD, src: str = SRC) -> bytes:
    return bytes.fromhex(DST + src + header.replace(" ", "") + payload)


def message_for(sampled: bytes, feedback: ECMFeedback = FOUND, **options: Any) -> bytes | None:
    options.setdefault("meter", new_point(CPID).meter)
    options.setdefault("parameters", E2CMCongestionPointParameters())
    return e2cm_message(sampled, feedback, cp_mac=bytes.fromhex(CP), **options)


def sent(sampled: bytes, *arguments: Any, **options: Any) -> bytes:
    octets = message_for(sampled, *arguments, **options)
    assert octets is not None
    return octets


def received(octets: bytes, point: LimiterTable | None = None) -> tuple[ECMFields, tuple[bytes, int]] | None:
    return read(
        octets,
        stations={bytes.fromhex(SRC)},
        point=new_record(LimiterTable) if point is None else point,
        parameters=E2CMReactionPointParameters(),
    )


def test_a_message_octet_by_octet() -> None:
    sampled = data("8100 7005")
    assert sent(sampled).hex() == (
        SRC + CP
        + "8100" + "e005"  # priority 7, the VLAN id kept
        + "88b5" + "0200"  # version 0, protocol 2, type BCN
        + "0200000000cc" + "0001"
        + "003e" + "fe2c"  # +62 and −468 units
        + "00000000"  # latency: of probes
        + "4edd"  # the flow id of wire-formats 6
        + "00000000"  # throughput: of probes
        + sampled[:48].hex()
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "type"), [(REGULAR, BCN), (SATURATED, BCN_MAX), (SEVERE, BCN_ZERO)])
def test_the_type_says_what_the_sample_found(kind: int, type: int) -> None:
    octets = sent(data(), ECMFeedback(kind, 0, 0, 1, 2, 1))
    assert (type_of(octets), decode(octets)[E2CM].q) == (type, 1)
    found = received(octets)
    assert found is not None
    assert found[0] == ECMFields(CPID, 1, 2, 1, 0, 0, False, type)


def test_what_is_sent_is_what_is_read() -> None:
    tag = CMTag(protocol=2, cpid=CPID, timestamp=7, unit=3, etype=0x0800)
    found = received(sent(data("8100 6005 88b6", payload=tag.build().hex() + "45" * 60)))
    assert found is not None
    message, flow = found
    assert message == ECMFields(CPID, 62, -468, 0, 7, 3, True, BCN)
    assert flow == (bytes.fromhex("0005" + DST + SRC + "03"), 3)


def test_the_tag_of_another_protocol_is_no_tag() -> None:
    ecms = CMTag(protocol=0, cpid=CPID, timestamp=7, unit=3, etype=0x0800)
    sampled = data("8100 6005 88b6", payload=ecms.build().hex() + "45" * 60)
    assert tag_cpid(sampled) == NO_CPID
    found = received(sent(sampled))
    assert found is not None
    assert not found[0].tagged


@pytest.mark.parametrize("src", ["030000000001", CP])
def test_group_and_own_addresses_get_no_message(src: str) -> None:
    meter = new_point(CPID).meter
    assert message_for(data(src=src), meter=meter) is None
    assert meter.unanswerable == 1


@pytest.mark.parametrize(
    ("replace", "counter"),
    [
        ((0, "020000000009"), "foreign_address"),
        ((0, "030000000001"), "group_address"),
        ((12, "0800"), "malformed"),
        ((18, "0100"), "malformed"),  # BCN's word
        ((18, "0230"), "malformed"),  # a probe
        ((48, "020000000009"), "foreign_address"),  # about another station's frame
    ],
)  # fmt: skip
def test_misaddressed_and_malformed_messages_are_counted(replace: tuple[int, str], counter: str) -> None:
    at, octets = replace[0], bytes.fromhex(replace[1])
    whole = sent(data())
    point = new_record(LimiterTable)
    assert received(whole[:at] + octets + whole[at + len(octets) :], point) is None
    assert getattr(point, counter) == 1
    assert point.malformed + point.foreign_address + point.group_address == 1


def test_reserved_bits_and_the_version_are_ignored() -> None:
    whole = sent(data())
    assert received(whole[:18] + bytes.fromhex("9203") + whole[20:]) == received(whole)


@given(st.binary(max_size=90), st.integers(0, 90))
def test_hostile_octets_are_read_or_counted(junk: bytes, cut: int) -> None:
    whole = sent(data())
    for octets in (junk, whole[:cut], whole[:18] + junk, whole[:30] + junk):
        point = new_record(LimiterTable)
        if received(octets, point) is None:
            assert point.malformed + point.foreign_address + point.group_address == 1


def test_new_cm_tag_replaces_the_old_one() -> None:
    limiter, point = new_record(Limiter), new_record(LimiterTable)
    limiter.cpid = CPID
    once = tagged(data(), limiter, point=point, timestamp=0x1234, unit=5)
    assert (
        once.hex()
        == DST + SRC + "81006005" + "88b6" + "0200" + "0200000000cc0001" + "1234" + "5000" + PAYLOAD
    )
    assert tag_cpid(once) == CPID
    assert point.replaced_tags == 0
    again = tagged(once, limiter, point=point, timestamp=0x1235, unit=5)
    assert len(again) == len(once)
    assert point.replaced_tags == 1
    assert untagged(again) == data()


def test_other_ethertypes_are_used_throughout() -> None:
    ethertypes = EtherTypes(message=0x9ABC)
    octets = sent(data(), ethertypes=ethertypes)
    assert type_of(octets) == NO_TYPE
    assert type_of(octets, ethertypes) == BCN
