"""pcap files composed octet by octet."""

from __future__ import annotations

import pytest

from ecmproto.errors import CaptureError
from tests.capture.octets import pcap_header, pcap_record, small_pcap
from tests.capture.seen import read

LITTLE_US = bytes.fromhex(
    "d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000"  # magic, 2.4, zone, sigfigs, snaplen 256 Ki, 1
    "01000000 02000000 04000000 40000000 deadbeef"  # 1 s, 2 µs, 4 captured of 64
    "ffffffff 3f420f00 00000000 00000000"  # the last microsecond of 2106, nothing captured
)
BIG_NS = bytes.fromhex(
    "a1b23c4d 0002 0004 00000000 00000000 0000ffff 00000071"  # magic, 2.4, zone, sigfigs, snaplen, SLL
    "00000001 00000002 00000003 00000003 0a0b0c"  # 1 s, 2 ns
)


def test_little_endian_microseconds_are_read() -> None:
    seen, reader = read(LITTLE_US)
    assert (reader.format, reader.byte_order, reader.resolution) == ("pcap", "little", 1_000_000)
    assert [(s.time_ns, s.original, s.frame) for s in seen] == [
        (1_000_002_000, 64, bytes.fromhex("deadbeef")),
        (4_294_967_295_999_999_000, 0, b""),
    ]
    assert reader.interfaces[0].snaplen == 262_144
    assert reader.problem is None
    assert not reader.warnings


def test_big_endian_nanoseconds_are_read() -> None:
    seen, reader = read(BIG_NS)
    assert (reader.byte_order, reader.resolution) == ("big", 1_000_000_000)
    assert [(s.time_ns, s.original, s.frame) for s in seen] == [(1_000_000_002, 3, b"\x0a\x0b\x0c")]
    assert reader.interfaces[0].linktype_name == "LINUX_SLL"


def test_records_are_complete_and_numbered() -> None:
    seen, _ = read(LITTLE_US)
    assert [s.number for s in seen] == [0, 1]
    assert b"".join(s.record for s in seen) == LITTLE_US[24:]


def test_a_modified_record_header_has_eight_octets_more() -> None:
    header = pcap_header(magic=0xA1B2CD34)
    record = pcap_record(b"frame")
    seen, _ = read(header + record[:16] + bytes(range(8)) + record[16:])
    assert [s.frame for s in seen] == [b"frame"]


@pytest.mark.parametrize("version", [(2, 2), (543, 0)])
def test_before_2_3_the_original_length_comes_first(version: tuple[int, int]) -> None:
    record = bytes.fromhex("00000000 00000000 40000000 02000000 aabb")
    seen, reader = read(pcap_header(version=version) + record)
    assert [(s.original, s.frame) for s in seen] == [(64, b"\xaa\xbb")]
    assert len(reader.warnings) == 1


@pytest.mark.parametrize("lengths", ["40000000 02000000", "02000000 40000000"])
def test_in_2_3_smaller_length_is_captured_one(lengths: str) -> None:
    record = bytes.fromhex("00000000 00000000" + lengths + "aabb")
    seen, _ = read(pcap_header(version=(2, 3)) + record + record)
    assert [(s.original, s.frame) for s in seen] == [(64, b"\xaa\xbb")] * 2


def test_fcs_length_in_link_type_is_read() -> None:
    _, reader = read(pcap_header(linktype=0x24000001))
    assert (reader.interfaces[0].linktype, reader.interfaces[0].fcs_octets) == (1, 4)
    assert not reader.warnings
    _, reader = read(pcap_header(linktype=0x20000001))
    assert reader.interfaces[0].fcs_octets == 0


def test_reserved_link_type_bits_are_a_warning() -> None:
    seen, reader = read(pcap_header(linktype=0x00010001) + pcap_record(b"x"))
    assert reader.interfaces[0].linktype == 1
    assert len(seen) == 1
    assert reader.warnings == ["reserved bits are set in the link type word 0x00010001"]


def test_a_header_alone_is_an_empty_capture() -> None:
    seen, reader = read(pcap_header())
    assert (seen, reader.problem, reader.frames) == ([], None, 0)


@pytest.mark.parametrize("snaplen", [0, 65535, 262_144])
def test_an_implausible_captured_length_is_reported(snaplen: int) -> None:
    seen, reader = read(
        pcap_header(snaplen=snaplen) + pcap_record(b"good") + b"\0" * 8 + b"\xff" * 8 + bytes(99)
    )
    assert [s.frame for s in seen] == [b"good"]
    assert reader.problem is not None
    assert (reader.problem.offset, reader.problem.frame) == (44, 1)
    assert reader.problem.got == "4294967295"


def test_a_snaplen_above_64_kib_is_accepted() -> None:
    frame = bytes(600_000)
    seen, reader = read(pcap_header(snaplen=1 << 20) + pcap_record(frame) + pcap_record(b"after"))
    assert [len(s.frame) for s in seen] == [600_000, 5]
    assert reader.problem is None


def test_every_truncation_keeps_the_complete_records() -> None:
    octets = small_pcap()
    ends = [24, 24 + 19, 24 + 19 + 16, len(octets)]
    whole, _ = read(octets)
    for length in range(len(octets)):
        if length < 24:
            with pytest.raises(CaptureError):
                read(octets[:length])
            continue
        seen, reader = read(octets[:length])
        assert seen == whole[: sum(end <= length for end in ends[1:])]
        assert (reader.problem is None) == (length in ends)
        if reader.problem is not None:
            assert reader.problem.frame == len(seen)
            assert reader.problem.offset == max(end for end in ends if end <= length)
