"""DCBX: nested TLVs and application entries, decoded from hand-written octets and encoded again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import DecodeError
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.strategies import lldp_frames
from ecmproto.wire.codec import TLV, CongestionNotificationTLV, Ethernet, Frame, decode, decode_lax, encode
from ecmproto.wire.codec.document import from_document, to_document
from ecmproto.wire.formats.dcbx import (
    CEE,
    CEEPFC,
    CEETLV,
    Application,
    Applications,
    CEEApplication,
    CEEApplications,
    CEEControl,
    CEEGroups,
    ETSConfiguration,
    PFCConfiguration,
)
from ecmproto.wire.layers import to_scapy

HEAD = bytes.fromhex("0180c200000e 020000000001 88cc 0207 04 020000000001 0402 0731 0602 0078")
END = bytes(2)
QAZ = bytes.fromhex("""
    fe19 0080c2 09 84 0003 0000 3200 0032 0000 0000 0200 0002 0000 0000
    fe06 0080c2 0b 88 08
    fe0e 0080c2 0c 00 63 12b7 c5 0030 a1 8906
""")
"""ETS: willing, 4 classes. Priority 3 is in class 3, and classes 0 and 3 have 50 % each and use ETS. PFC:
willing, 8 priorities, priority 3 is protected. Applications: UDP port 4791 in priority 3, DSCP 48 in priority
6, FCoE in priority 5.
"""
CEE_TLV = bytes.fromhex("""
    fe3d 001b21 02
        020a 00 00 00000007 00000006
        0411 00 00 c0 00 0001 f000 3c28 0000 0000 0000 08
        0606 00 00 c0 00 08 08
        0810 00 00 c0 00 8906 00 1b21 08 12b7 01 1b21 80
""")
"""Control: 7 changes, 6 acknowledged. Groups: enabled, willing, priority 3 in group 1, priority 4 in group
15, 60 % and 40 %. PFC: enabled, willing, priority 3. Applications: FCoE in priority 3, port 4791 in priority
7.
"""
CN = CongestionNotificationTLV(cnpv=8)


def read(tlvs: bytes) -> Frame:
    return decode(HEAD + tlvs + CN.build() + END)


def test_8021qaz_is_read() -> None:
    frame = read(QAZ)
    classes = [type(value) for value in frame.layers[4:]]
    assert classes == [
        ETSConfiguration, PFCConfiguration, Applications, *[Application] * 3, CongestionNotificationTLV, TLV
    ]  # fmt: skip
    ets, pfc = frame[ETSConfiguration], frame[PFCConfiguration]
    assert (ets.willing, ets.cbs, ets.maxtcs) == (1, 0, 4)
    assert (ets.classes, ets.bandwidths) == ((0, 0, 0, 3, 0, 0, 0, 0), (50, 0, 0, 50, 0, 0, 0, 0))
    assert ets.algorithms == (2, 0, 0, 2, 0, 0, 0, 0)
    assert (pfc.willing, pfc.mbc, pfc.capability, pfc.enable) == (1, 0, 8, 8)
    entries = [(each.priority, each.selector, each.protocol) for each in frame.all(Application)]
    assert entries == [(3, 3, 4791), (6, 5, 48), (5, 1, 0x8906)]


def test_cee_is_read() -> None:
    frame = read(CEE_TLV)
    assert [type(value) for value in frame.layers[4:]] == [
        CEE, CEEControl, CEEGroups, CEEPFC, CEEApplications, CEEApplication, CEEApplication,
        CongestionNotificationTLV, TLV,
    ]  # fmt: skip
    assert (frame[CEEControl].seq, frame[CEEControl].ack) == (7, 6)
    groups = frame[CEEGroups]
    assert (groups.enabled, groups.willing, groups.error, groups.numtcs) == (1, 1, 0, 8)
    assert (groups.classes, groups.bandwidths[:2]) == ((0, 0, 0, 1, 15, 0, 0, 0), (60, 40))
    assert (frame[CEEPFC].enable, frame[CEEPFC].numtcs) == (8, 8)
    entries = [
        (each.protocol, each.selector, each.oui, each.priorities) for each in frame.all(CEEApplication)
    ]
    assert entries == [(0x8906, 0, 0x1B21, 8), (4791, 1, 0x1B21, 0x80)]


def test_cin_tlv_keeps_its_octets() -> None:
    octets = bytes.fromhex("fe0a 001b21 01 0204 00 00 00 00")
    frame = read(octets)
    assert (frame[CEE].proto, frame[CEE].value.hex()) == (1, "020400000000")
    assert frame[CongestionNotificationTLV] == CN


@pytest.mark.parametrize(
    ("tlvs", "error"),
    [
        ("fe18 0080c2 09" + "00" * 20, "lldpets at octet 31: expected length 25, got 24"),
        ("fe07 0080c2 0b 0808 00", "lldppfc at octet 31: expected length 6, got 7"),
        ("fe04 0080c2 0c", "lldpapp at octet 31: expected length 5..511, got 4"),
        ("fe07 0080c2 0c 00 63 12", "lldpapp.entry at octet 38: expected 3 octets, got 2 octets"),
        ("fe0c 001b21 02 0607 00 00 00 00 08 08", "lldpcee.pfc at octet 37: expected length 6, got 7"),
        ("fe0c 001b21 02 0a20 00000000 08 08", "lldpcee.tlv at octet 37: expected 34 octets, got 8 octets"),
        ("fe0d 001b21 02 0810 00 00 00 00 08 08 01", "lldpcee.app at octet 37: expected 18 octets, got 9"),
    ],
)  # fmt: skip
def test_a_wrong_length_is_an_error(tlvs: str, error: str) -> None:
    octets = HEAD + bytes.fromhex(tlvs) + CN.build() + END
    with pytest.raises(DecodeError, match=error):
        decode(octets)
    assert encode(decode_lax(octets)) == octets


def test_lengths_cover_the_nested_tlvs() -> None:
    header = Ethernet(dst=HEAD[:6], src=HEAD[6:12])
    inside = (CEEControl(), CEEApplications(), CEEApplication(), CEEApplication(), CEETLV(value=b"abc"))
    frame = decode(encode(header, CEE(), *inside, Applications(), Application(), TLV()))
    lengths = [value.length for value in frame.layers if hasattr(value, "length")]
    assert lengths == [4 + 12 + 6 + 12 + 5, 10, 4 + 12, 3, 5 + 3, 0]


@given(lldp_frames())
def test_json_and_back(frame: Frame) -> None:
    assert from_document(to_document(frame))[0] == frame


@given(st.lists(lldp_frames(), min_size=1, max_size=8), st.booleans())
def test_columns_have_the_values_of_single_frames(frames: list[Frame], spoilt: bool) -> None:
    names = ("lldp.dcbx.ieee.app.prio", "lldp.dcbx.type", "lldp.dcbx.feature.pg.per3", "lldp.tlv.type")
    octets = [encode(frame)[: len(encode(frame)) - 5 * spoilt] for frame in frames]
    columns = extract(Batch.from_frames(octets), names)
    for name in names:
        values = np.asarray(columns[name].values).tolist()
        bounds = columns[name].bounds
        for row, each in enumerate(octets):
            expected = [placed.value for placed in decode_lax(each).fields() if placed.field.name == name]
            assert values[bounds[row] : bounds[row + 1]] == expected


def test_crafted_tlvs_have_their_given_values(tmp_path: Path) -> None:
    frame = build(
        "lldpets willing=1 per3=100 prio3=3 tsa3=2 lldpapp lldpapp.entry priority=3 protocol=4791 "
        "lldpcee lldpcee.pfc enable=8"
    )
    assert frame[ETSConfiguration].bandwidths[3] == 100
    assert decode(encode(frame)) == frame
    assert frame.layers[0] == Ethernet(dst=HEAD[:6], src=frame[Ethernet].src, type=0x88CC)


def test_scapy_dissects_the_nested_tlvs() -> None:
    for tlvs in (QAZ, CEE_TLV):
        octets = HEAD + tlvs + CN.build() + END
        names = [type(value).__name__ for value in decode(octets).layers[4:-2]]
        packet = to_scapy(octets)
        assert [layer.__name__ for layer in packet.layers()][4:-2] == names
        assert bytes(packet) == octets
