"""Hostile octets: no layer raises an error, and dissected frames are built again unchanged."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from ecmproto.tools.fuzz.strategies import arbitrary_octets
from ecmproto.wire import codec
from ecmproto.wire.codec import Frame, Layer, encode
from ecmproto.wire.layers import bound, payload_tree, to_scapy
from ecmproto.wire.layers.bindings import DOORS, LAYERS

ETHERNET = codec.Ethernet(dst=bytes.fromhex("020000000002"), src=bytes.fromhex("020000000001"))
CPID = 0x0200000000FE0001
STACKS: list[tuple[Layer, ...]] = [
    (
        codec.VLAN(priority=6, id=5),
        codec.CNTag(flow_id=7),
        codec.CNM(qntz_fb=40, cpid=CPID, msdu=b"\x88\xf7" + bytes(62)),
    ),
    (codec.VLAN(id=5), codec.ECM(cpid=CPID, q_off=-3, payload=bytes(range(48)))),
    (codec.BCN(cpid=CPID, e=-9, capacity=10**7, payload=bytes(range(48))),),
    (codec.E2CM(cpid=CPID, type=1, payload=bytes(range(48))),),
    (codec.E2CM(cpid=CPID, type=3, flow_id=0x4EDD),),
    (codec.FECNReturn(rlq_id=3),),
    (codec.DBPRateReport(rate=1000),),
    (codec.CNTag(), codec.RDTag(rlq_id=1), codec.RRTTag(cpid=CPID), codec.CMTag(), codec.Data(data=bytes(9))),
    (codec.PFC(class_enable_vector=0xFF, time7=9),),
    (codec.Pause(pause_time=9),),
    (codec.CongestionNotificationTLV(cnpv=8), codec.TLV(type=5, value=b"switch"), codec.TLV()),
]  # fmt: skip
SAMPLES = [encode(Frame(layers=(ETHERNET, *stack)), fix=True) for stack in STACKS]


@pytest.mark.parametrize("sample", SAMPLES, ids=[type(stack[-1]).__name__ for stack in STACKS])
def test_every_truncation_of_every_sample_is_dissected(sample: bytes) -> None:
    with bound():
        for octets in range(len(sample) + 1):
            packet = to_scapy(sample[:octets])
            assert bytes(packet) == sample[:octets]
            packet.summary()


@pytest.mark.parametrize("sample", SAMPLES, ids=[type(stack[-1]).__name__ for stack in STACKS])
def test_every_flipped_bit_of_every_sample_is_dissected(sample: bytes) -> None:
    with bound():
        for bit in range(8 * len(sample)):
            flipped = bytearray(sample)
            flipped[bit // 8] ^= 0x80 >> bit % 8
            assert bytes(to_scapy(bytes(flipped))) == flipped


LAST = [cls for cls in LAYERS.values() if "etype" not in {field.name for field in cls.fields_desc}]


ENDS = [*LAST, DOORS["message"], DOORS["mac_control"], DOORS["lldp"]]


@given(cls=st.sampled_from(ENDS), octets=st.binary(max_size=120))
def test_any_octets_are_dissected_as_any_layer(cls: type[Packet], octets: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # else Scapy turns what our dissectors raise into Raw
        patch.setattr(conf, "debug_dissector", True)
        packet = cls(octets)
    assert bytes(packet) == octets or not octets
    assert bytes(packet.copy()) == bytes(packet)
    assert packet.summary()
    assert packet.show(dump=True)


@given(octets=arbitrary_octets())
def test_any_octets_are_dissected_as_a_frame(octets: bytes) -> None:
    assert bytes(to_scapy(octets)) == octets


@given(octets=arbitrary_octets())
def test_any_octets_have_a_payload_tree(octets: bytes) -> None:
    assert payload_tree(octets) or not octets


@pytest.mark.parametrize("cls", LAYERS.values(), ids=lambda cls: cls.__name__)
def test_truncated_layer_is_raw(cls: type[Packet]) -> None:
    whole = bytes(cls())
    for octets in range(1, len(whole)):
        assert type(cls(whole[:octets])) is Raw
    assert type(cls(whole)) is cls


@pytest.mark.parametrize("role", sorted(DOORS))
def test_frame_ending_after_ethertype_has_no_payload(role: str, bindings: None) -> None:
    header = ETHERNET.replace(type=getattr(codec.EtherTypes(), role)).build()
    assert to_scapy(header).layers() == [Ether]
    assert to_scapy(header + b"\0").layers() == [Ether, Raw]


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(ETHERNET.replace(type=0x22E9).build() + bytes.fromhex("000122e9") * 2200, id="CN-TAGs"),
        pytest.param(ETHERNET.replace(type=0x88CC).build() + b"\x0a\0" * 745, id="TLVs"),
        pytest.param((ETHERNET.replace(type=0x88B5).build() + bytes(18)) * 281, id="ECM in ECM"),
    ],
)
def test_frames_nested_hundreds_deep_are_dissected_and_shown(octets: bytes) -> None:
    packet = to_scapy(octets)
    assert bytes(packet) == octets
    assert bytes(packet.copy()) == octets
    assert packet.summary()
    assert packet.show(dump=True)
    assert payload_tree(octets)


def test_scapy_logs_nothing_about_hostile_octets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for sample in SAMPLES:
            payload_tree(sample[: len(sample) // 2])
    assert not caplog.records
