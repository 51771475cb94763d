"""Frames without an Ethernet header, written octet by octet."""

from __future__ import annotations

import pytest

from ecmproto.frames.dissect import FieldReader, Lines, record_document
from ecmproto.wire.codec import UDP, Data, IPv4
from ecmproto.wire.formats.ethernet import SLL, SLL2
from tests.dissect.test_forms import record

IP_UDP = bytes.fromhex("4500001e00000000401166cd0a0000010a000002c00012b7000a00006869")
SLL_OCTETS = bytes.fromhex("00040001000602000000000100000800") + IP_UDP
SLL2_OCTETS = bytes.fromhex("0800000000000003000100060200000000010000") + IP_UDP


@pytest.mark.parametrize(
    ("linktype", "octets", "addresses", "info"),
    [
        (113, SLL_OCTETS, "10.0.0.1 → 10.0.0.2", "UDP   sent by us | 10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (276, SLL2_OCTETS, "10.0.0.1 → 10.0.0.2", "UDP   to us | 10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (101, IP_UDP, "10.0.0.1 → 10.0.0.2", "UDP   10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (228, IP_UDP, "10.0.0.1 → 10.0.0.2", "UDP   10.0.0.1:49152 → 10.0.0.2:4791 len 2"),
        (113, SLL_OCTETS[:14] + b"\x00\x04abc", "02:00:00:00:00:01 →", "data  sent by us | 3 octets"),
        (101, b"\xf0abc", "link type RAW_IP (101)", "data  4 octets"),
        (189, b"usb!", "link type USB_LINUX (189)", "data  4 octets"),
        (113, SLL_OCTETS[:15], "link type LINUX_SLL (113)",
         "data  15 octets [malformed: sll at octet 0: needed 16 octets, got 15 octets]"),
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


def test_document_is_octets_with_what_can_be_said_beside() -> None:
    document = record_document(record(SLL_OCTETS, linktype=113))
    assert (document["linktype"], document["linktype_name"]) == (113, "LINUX_SLL")
    assert document["layers"] == [{"layer": "data", "data.data": SLL_OCTETS.hex()}]
    decoded = document["decoded"]
    assert isinstance(decoded, dict)
    assert [layer["layer"] for layer in decoded["layers"]] == ["sll", "ip", "udp", "data"]  # type: ignore[union-attr, index, call-overload]
    assert "decoded" not in record_document(record(b"usb!", linktype=189))
