"""Columns contain the fields of LLC headers and organization-specific TLVs of every frame."""

from __future__ import annotations

import pytest

from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.tools.craft import build
from ecmproto.wire.codec import decode, encode

LLC = ("llc.dsap", "llc.ssap", "llc.control", "llc.oui", "llc.type", "llc.pid")
TLV = ("lldp.orgtlv.oui", "lldp.ieee.802_1.subtype", "lldp.ieee.802_3.subtype", "lldp.unknown_subtype")
_HEADER = bytes.fromhex("0180c2000000020000000001")
_TLVS = bytes.fromhex("88cc020704020000000001") + bytes.fromhex("040307613106020078")


def fields(octets: bytes, names: tuple[str, ...]) -> dict[str, list[int]]:
    """The fields that a frame has, as columns; the decoder has the same."""
    columns = extract(Batch.from_frames([octets]), names)
    read = {name: columns[name].values.tolist() for name in names if len(columns[name])}  # type: ignore[union-attr]
    placed = [(each.field.name, [each.value]) for each in decode(octets).fields() if each.field.name in names]
    assert read == dict(placed)
    return read


@pytest.mark.parametrize(
    ("octets", "values"),
    [
        ("0003 424203", (0x42, 0x42, 3)),  # spanning tree
        ("0008 e0e00102 01020304", (0xE0, 0xE0, 1)),  # a numbered PDU
        ("0008 aaaa03000000 9999", (0xAA, 0xAA, 3, 0, 0x9999)),
        ("0008 aaaa0300000c 2000", (0xAA, 0xAA, 3, 12, None, 0x2000)),
        ("0007 aaaa03000000 08", (0xAA, 0xAA, 3)),  # too short for SNAP
        ("0008 ffff0011 01020304", ()),  # IPX without LLC
        ("0002 4242", ()),
    ],
)
def test_fields_of_llc_headers(octets: str, values: tuple[int | None, ...]) -> None:
    present = {name: [value] for name, value in zip(LLC, values, strict=False) if value is not None}
    assert fields(_HEADER + bytes.fromhex(octets), LLC) == present


@pytest.mark.parametrize(
    ("octets", "values"),
    [
        ("fe06 0080c208 2808", (0x80C2, 8)),
        ("fe06 0080c201 0001", (0x80C2, 1)),
        ("fe04 0080c2ff", (0x80C2, 255)),
        ("fe09 00120f01 036c010010", (0x120F, None, 1)),
        ("fe06 12345607 0102", (0x123456, None, None, 7)),
        ("fe05 001b2101 00", (0x1B21,)),
        ("fe03 0080c2", ()),  # too short for a subtype
    ],
)
def test_fields_of_organizations_tlvs(octets: str, values: tuple[int | None, ...]) -> None:
    present = {name: [value] for name, value in zip(TLV, values, strict=False) if value is not None}
    assert fields(_HEADER + _TLVS + bytes.fromhex(octets) + bytes(2), TLV) == present


@pytest.mark.parametrize("line", ["llc ip udp", "llc_other", "llc_snap data data=01", "lldporg value=01"])
def test_crafted_headers_are_read_as_such(line: str) -> None:
    prefix = line.split()[0]
    assert prefix in [value.prefix for value in decode(encode(build(line))).layers]
