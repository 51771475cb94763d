"""The ECN field of frames in a batch: reading, writing, and updating the IPv4 header checksum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.frames.batch.parse_tables import parse_tables
from ecmproto.frames.batch.tags import OwnTag, own_tag, tag_layout, with_tag_values
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec.tags import NO_IP_HEADER, ECNField
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.ip import CE

MACS = "020000000001 020000000002 "
IP4 = "45 {ds:02x} 0040 1234 4000 40 11 {sum:04x} 0a000001 0a000002"
IP6 = "6{high:x} {low:02x} 2345 0008 11 40" + "20010db8000000000000000000000001" * 2
LAYOUT = tag_layout(ECNField())


def checksum(header: bytes) -> int:
    """Return the sum over a header (RFC 1071), which is 0xffff if the checksum is correct."""
    total = sum(int.from_bytes(header[at : at + 2]) for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def ipv4(ds: int, options: bytes = b"", *, source: int = 0x0A000001) -> bytes:
    head = bytes([0x45 + len(options) // 4, ds]) + bytes.fromhex("0040 1234 4000 4011 0000")
    header = head + source.to_bytes(4) + bytes.fromhex("0a000002") + options
    return header[:10] + (0xFFFF - checksum(header)).to_bytes(2) + header[12:]


def ipv6(ds: int) -> bytes:
    return (6 << 28 | ds << 20 | 0x12345).to_bytes(4) + bytes.fromhex("00081140") + bytes(range(32))


def found(octets: bytes) -> OwnTag:
    buffer = np.frombuffer(b"\x86" + octets + b"\xdd\x60", np.uint8)
    return own_tag(buffer, 1, len(octets), parse_tables(DEFAULT), LAYOUT)


def frame(packet: bytes, tags: str = "", ethertype: str = "") -> bytes:
    announced = ethertype or ("0800" if packet[0] >> 4 == 4 else "86dd")
    return bytes.fromhex(MACS + tags + announced) + packet


STACKS = ["", "8100 a005 ", "88a8 0007 8100 a005 ", "8100 0005 22e9 1234 ", "88b6 0300 0007 fffffffe "]


@pytest.mark.parametrize("stack", STACKS)
@given(
    codepoints=st.tuples(st.integers(0, 3), st.integers(0, 3)), dscp=st.integers(0, 63), is_6=st.booleans(),
    options=st.sampled_from([b"", bytes(4), b"\x94\x04\0\0" * 10]), source=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_field_is_read_and_written_and_nothing_else(
    stack: str, codepoints: tuple[int, int], dscp: int, is_6: bool, options: bytes, source: int
) -> None:
    before, after = codepoints
    packet = ipv6(dscp << 2 | before) if is_6 else ipv4(dscp << 2 | before, options, source=source)
    expected = ipv6(dscp << 2 | after) if is_6 else ipv4(dscp << 2 | after, options, source=source)
    octets = frame(packet + b"payload", stack)
    assert found(octets)[:3] == (True, before, 0)
    batch = Batch.from_frames([b"\x01" * 7, octets])
    (_, written) = with_tag_values(batch, np.array([1]), np.array([after]), ECNField()).frames()
    assert found(written)[:3] == (True, after, 0)
    wanted = frame(expected + b"payload", stack)
    if not is_6:
        assert checksum(written[-len(packet) - 7 : -7]) == 0xFFFF
        # This sum can be written as 0 or as all ones.
        at = len(written) - 7 - len(packet) + 10
        written, wanted = (whole[:at] + whole[at + 2 :] for whole in (written, wanted))
    assert written == wanted


def test_wrong_checksum_keeps_its_error() -> None:
    packet = bytearray(ipv4(2))
    packet[10] ^= 0x55
    wrong = checksum(bytes(packet))
    (written,) = with_tag_values(
        Batch.from_frames([frame(bytes(packet))]), np.array([0]), np.array([CE]), ECNField()
    ).frames()
    assert checksum(written[14:]) == wrong != 0xFFFF


@pytest.mark.parametrize(
    "octets",
    [
        frame(ipv4(2))[:33], frame(ipv6(2))[:53], frame(ipv4(2, bytes(8)))[:41], frame(ipv4(2))[:14],
        frame(ipv6(2), ethertype="0800"), frame(ipv4(2), ethertype="86dd"), frame(b"\x44" + ipv4(2)[1:]),
        frame(ipv4(2), ethertype="0806"), bytes.fromhex(MACS), b"", bytes.fromhex(MACS + "0800"),
    ],
    ids=["cut IPv4", "cut IPv6", "cut options", "no header", "IPv6 as IPv4", "IPv4 as IPv6", "short header",
         "ARP", "no EtherType", "nothing", "nothing behind"],
)  # fmt: skip
def test_frame_without_whole_ip_header_stays_unchanged(octets: bytes) -> None:
    assert found(octets) == (False, 0, NO_IP_HEADER, -1)
    batch = Batch.from_frames([octets])
    assert list(with_tag_values(batch, np.array([0]), np.array([CE]), ECNField()).frames()) == [octets]
