"""PAUSE and PFC: all timers, the right quantum at every speed, a stable layer tree."""

from __future__ import annotations

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Padding

from ecmproto.errors import ParameterError
from ecmproto.wire.layers import PFC, MACControl, Pause

pytestmark = pytest.mark.usefixtures("bindings")

# octet by octet from 802.3 Annex 31D
ALL_EIGHT = bytes.fromhex(
    "0180c2000001 020000000001 8808 0101 00ff"
    "0001 0203 0405 0607 0809 0a0b 0c0d 0e0f" + "00" * 26
)  # fmt: skip


def test_a_pfc_frame_carries_all_eight_timers() -> None:
    times = {0: 0x0001, 1: 0x0203, 2: 0x0405, 3: 0x0607, 4: 0x0809, 5: 0x0A0B, 6: 0x0C0D, 7: 0x0E0F}
    built = Ether(src="02:00:00:00:00:01") / PFC.pausing(times)
    assert bytes(built) == ALL_EIGHT[:34]
    assert len(ALL_EIGHT) == 60
    packet = Ether(ALL_EIGHT)
    assert packet.layers() == [Ether, PFC, Padding]
    assert packet[PFC].times == tuple(times.values())
    assert bytes(packet) == ALL_EIGHT
    assert Ether(bytes(packet)) == packet


def test_the_enable_vector_names_its_priorities() -> None:
    packet = PFC(class_enable_vector="c3+c4", time3=0xFFFF, time4=100)
    assert packet == PFC.pausing({3: 0xFFFF, 4: 100})
    assert bytes(packet)[2:4] == b"\x00\x18"
    assert packet.class_enable_vector.c3
    assert not packet.class_enable_vector.c0
    assert [n for n in range(8) if packet.enabled(n)] == [3, 4]
    packet.class_enable_vector.c0 = True
    assert bytes(packet)[2:4] == b"\x00\x19"
    assert str(PFC(class_enable_vector=0x8001).class_enable_vector) == "c0+r15"


@pytest.mark.parametrize("priority", [-1, 8])
def test_priority_outside_0_to_7_is_refused(priority: int) -> None:
    with pytest.raises(ParameterError, match="priority"):
        PFC.pausing({priority: 1})


@pytest.mark.parametrize(
    ("rate_bps", "quanta", "ns"),
    [
        (10_000_000, 1, 51_200),
        (100_000_000, 1, 5_120),
        (1_000_000_000, 1, 512),
        (2_500_000_000, 5, 1_024),
        (5_000_000_000, 5, 512),
        (10_000_000_000, 5, 256),  # 51.2 each
        (25_000_000_000, 25, 512),  # 20.48
        (40_000_000_000, 5, 64),  # 12.8
        (50_000_000_000, 25, 256),
        (100_000_000_000, 25, 128),  # 5.12
        (200_000_000_000, 25, 64),
        (400_000_000_000, 25, 32),
        (800_000_000_000, 25, 16),
        (100_000_000_000, 1, 6),  # a part of a nanosecond counts as one
        (10_000_000_000, 0xFFFF, 3_355_392),
        (400_000_000_000, 0xFFFF, 83_885),
    ],
)
def test_quantum_is_512_bit_times_at_any_rate(rate_bps: int, quanta: int, ns: int) -> None:
    assert Pause(pause_time=quanta).pause_ns(rate_bps) == ns
    assert PFC.pausing({0: quanta, 5: 0}).pause_ns(rate_bps) == {0: ns, 5: 0}
    assert PFC(time0=quanta).pause_ns(rate_bps) == {}


@pytest.mark.parametrize("rate_bps", [0, -1])
def test_a_link_has_a_speed(rate_bps: int) -> None:
    with pytest.raises(ParameterError, match="rate_bps"):
        Pause(pause_time=1).pause_ns(rate_bps)


def test_a_pause_frame_octet_by_octet() -> None:
    octets = bytes.fromhex("0180c2000001 020000000001 8808 0001 ffff" + "00" * 42)
    packet = Ether(octets)
    assert packet.layers() == [Ether, Pause, Padding]
    assert packet[Pause].pause_time == 0xFFFF
    assert bytes(Ether(src="02:00:00:00:00:01") / Pause(pause_time=0xFFFF) / Padding(bytes(42))) == octets


def test_other_opcodes_keep_their_octets() -> None:
    octets = bytes.fromhex("0180c2000001 020000000001 8808 0003 0102")
    assert Ether(octets)[MACControl].body == b"\1\2"
    assert bytes(Ether(octets)) == octets
