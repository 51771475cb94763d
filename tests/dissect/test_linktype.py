"""Frames without an Ethernet header, composed octet by octet."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from ecmproto.frames.capture import PcapWriter
from ecmproto.frames.capture.batch import ERF
from ecmproto.frames.dissect import FieldReader, Lines, record_document
from ecmproto.wire.codec import UDP, Data, IPv4
from ecmproto.wire.formats.ethernet import SLL, SLL2
from ecmproto.wire.formats.infiniband import BTH, GRH, ICRC, LRH, crc_status
from tests.dissect.test_forms import record

IP_UDP = bytes.fromhex("4500001e00000000401166cd0a0000010a000002c00012b7000a00006869")
SLL_OCTETS = bytes.fromhex("00040001000602000000000100000800") + IP_UDP
BTH_OCTETS = bytes.fromhex("0400ffff0000012300000007001122331824183a")
GRH_OCTETS = bytes.fromhex("6000000000141b40" + "20010db8" + "00" * 11 + "01" + "20010db8" + "00" * 11 + "02")
SLL2_OCTETS = bytes.fromhex("0800000000000003000100060200000000010000") + IP_UDP


def infiniband(following: int, packet: bytes) -> bytes:
    """Return a packet on an InfiniBand link: LRH, the packet, and two octets of its variant CRC."""
    words = (8 + len(packet)) // 4
    return bytes([0x10, 0x30 | following, 0, 0x12, words >> 8, words & 255, 0, 0x34]) + packet + b"\xab\xcd"


@pytest.mark.parametrize(
    ("linktype", "octets", "addresses", "info"),
    [
        (247, infiniband(2, BTH_OCTETS), "link type INFINIBAND (247)", "RoCE  RC SEND only QP 0x123 PSN 7"),
        (247, infiniband(3, GRH_OCTETS + BTH_OCTETS), "link type INFINIBAND (247)",
         "RoCE  2001:db8::1 → 2001:db8::2 RC SEND only QP 0x123 PSN 7"),
        (247, infiniband(0, bytes(20)), "link type INFINIBAND (247)", "LRH   LID 52 → 18 VL 1"),
        (113, SLL_OCTETS, "10.0.0.1 → 10.0.0.2", "UDP   sent by us | 10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (276, SLL2_OCTETS, "10.0.0.1 → 10.0.0.2", "UDP   to us | 10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (101, IP_UDP, "10.0.0.1 → 10.0.0.2", "UDP   10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (228, IP_UDP, "10.0.0.1 → 10.0.0.2", "UDP   10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (113, SLL_OCTETS[:14] + b"\x00\x04abc", "02:00:00:00:00:01 →", "data  sent by us | 3 octets"),
        (101, b"\xf0abc", "link type RAW_IP (101)", "data  4 octets"),
        (189, b"usb!", "link type USB_LINUX (189)", "data  4 octets"),
        (113, SLL_OCTETS[:15], "link type LINUX_SLL (113)",
         "data  15 octets [malformed: sll at octet 0: expected 16 octets, got 15 octets]"),
    ],
)  # fmt: skip
def test_line(linktype: int, octets: bytes, addresses: str, info: str) -> None:
    line = Lines().record(record(octets, linktype=linktype))
    assert line == f"    1  0.000000000 {addresses:<37} {len(octets):>5} {info}\n"


def test_layers() -> None:
    assert [type(value) for value in record(SLL_OCTETS, linktype=113).frame.layers] == [SLL, IPv4, UDP, Data]
    assert [type(value) for value in record(SLL2_OCTETS, linktype=276).frame.layers] == [
        SLL2,
        IPv4,
        UDP,
        Data,
    ]


def test_fields_and_no_invented_ethernet() -> None:
    reader = FieldReader(["sll.ifindex", "sll.src.eth", "eth.src", "ip.src", "frame.protocols"])
    got = reader.row(record(SLL2_OCTETS, linktype=276))
    assert got == ["3", "02:00:00:00:00:01", "", "10.0.0.1", "sll2:ip:udp:data"]


def test_document_has_octets_and_decoded_layers() -> None:
    document = record_document(record(SLL_OCTETS, linktype=113))
    assert (document["linktype"], document["linktype_name"]) == (113, "LINUX_SLL")
    assert document["layers"] == [{"layer": "data", "data.data": SLL_OCTETS.hex()}]
    decoded = document["decoded"]
    assert isinstance(decoded, dict)
    assert [layer["layer"] for layer in decoded["layers"]] == ["sll", "ip", "udp", "data"]  # type: ignore[union-attr, index, call-overload]
    assert "decoded" not in record_document(record(b"usb!", linktype=189))


def test_packets_of_infiniband_end_before_their_variant_crc() -> None:
    for octets, layers in (
        (infiniband(2, BTH_OCTETS), [LRH, BTH, Data, ICRC]),
        (infiniband(3, GRH_OCTETS + BTH_OCTETS), [LRH, GRH, BTH, Data, ICRC]),
        (infiniband(1, bytes(40)), [LRH, Data]),
    ):
        frame = record(octets, linktype=247).frame
        assert [type(value) for value in frame.layers] == layers
        assert (frame.trailer, frame.error) == (b"\xab\xcd", None)
        # it covers the link header too, which is not computed
        assert crc_status(frame) == ("unverified" if ICRC in layers else None)


def test_tshark_has_the_same_fields_of_infiniband(tshark: str, tmp_path: Path) -> None:
    packets = [infiniband(2, BTH_OCTETS), infiniband(3, GRH_OCTETS + BTH_OCTETS), infiniband(0, bytes(20))]
    path = tmp_path / "dag.pcap"
    # tshark reads them in the records of DAG cards alone
    with PcapWriter(path, linktype=ERF) as writer:
        for packet in packets:
            padded = packet + bytes(-len(packet) % 8)
            head = struct.pack("<QBB", 0, 21, 4) + struct.pack("!HHH", 16 + len(padded), 0, len(packet))
            writer.write_frame(head + padded, 0)
    names = [field.name for field in LRH.layout if "reserved" not in field.name]
    names += ["infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.grh.sgid"]
    shown = [part for name in names for part in ("-e", name)]
    command = [tshark, "-n", "-r", str(path), "-T", "fields", *shown]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    reader = FieldReader(names)
    for packet, line in zip(packets, lines, strict=True):
        ours = reader.row(record(packet, linktype=247))
        for name, one, other in zip(names, ours, line.split("\t"), strict=True):
            same = one == other or (one and other and int(one, 0) == int(other, 0))
            assert same, (name, one, other)
