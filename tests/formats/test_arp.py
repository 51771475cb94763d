"""ARP with addresses of any kind and length, in every output, compared with tshark."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.errors import DecodeError, EncodeError
from ecmproto.frames.capture import Batch, PcapWriter
from ecmproto.frames.columns import batch_from, extract, frames_from
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.columns.text import renderer
from ecmproto.frames.dissect import Csv, Json, Lines, NdJson, Tabs, Trees, records
from ecmproto.frames.dissect.form import Listing
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.stats import capture_stats
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.checks.frames import ETHERNET_ONLY
from ecmproto.tools.fuzz.strategies.layers import ARPS, layers_of
from ecmproto.wire.codec import (
    ARP,
    Data,
    Ethernet,
    EthernetARP,
    Frame,
    IPv4ARP,
    OtherARP,
    decode,
    decode_lax,
    encode,
)
from ecmproto.wire.codec.document import from_document, to_document
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import catalogue
from tests.columns.reference import assert_equal
from tests.conftest import requires

HEADER = b"\xff" * 6 + b"\x02" * 6 + b"\x08\x06"
NAMES = [
    entry.name
    for entry in catalogue()
    if entry.name.startswith(("arp.", "eth.", "frame.")) and entry.name != "frame.error"
]
FIELDS = [
    f"arp.{name}"
    for name in (
        "hw.type", "proto.type", "hw.size", "proto.size", "opcode", "src.hw", "src.hw_mac", "src.proto",
        "src.proto_ipv4", "dst.hw", "dst.hw_mac", "dst.proto", "dst.proto_ipv4",
    )
]  # fmt: skip


def packet(hardware: int, protocol: int, hw_size: int, proto_size: int, *, opcode: int = 1) -> bytes:
    """Return an ARP frame whose address octets count up."""
    octets = (bytes(range(1, 256)) * 5)[: 2 * (hw_size + proto_size)]
    return HEADER + struct.pack(">HHBBH", hardware, protocol, hw_size, proto_size, opcode) + octets


KINDS: dict[str, tuple[bytes, type[Layer]]] = {
    "ethernet": (packet(1, 0x0800, 6, 4), ARP),
    "IEEE 802": (packet(6, 0x0800, 6, 4), ARP),
    "amateur IP": (packet(1, 0x00CC, 6, 4), ARP),
    "nothing": (packet(1, 0x0800, 0, 0), OtherARP),
    "long hardware": (packet(1, 0x0800, 8, 4), IPv4ARP),
    "FireWire": (packet(24, 0x0800, 8, 4, opcode=2), IPv4ARP),
    "InfiniBand": (packet(32, 0x0800, 20, 4), IPv4ARP),
    "no hardware": (packet(1, 0x0800, 0, 4), IPv4ARP),
    "six octets that are no MAC": (packet(2, 0x0800, 6, 4), IPv4ARP),
    "IPv6": (packet(1, 0x86DD, 6, 16), EthernetARP),
    "another protocol of four octets": (packet(1, 0x1234, 6, 4, opcode=2), EthernetARP),
    "no protocol": (packet(1, 0x0800, 6, 0), EthernetARP),
    "neither": (packet(15, 0x1234, 2, 3, opcode=9), OtherARP),
    "longest": (packet(1, 0x0800, 255, 255), OtherARP),
}  # fmt: skip
WHOLE = [octets for octets, _ in KINDS.values()]
CUT = [
    packet(32, 0x0800, 20, 4)[:stop]
    for stop in (14, 15, 18, 19, 20, 21, 22, 23, 41, 42, 43, 45, 46, 47, 66, 69)
] + [packet(1, 0x86DD, 6, 16)[:stop] for stop in (22, 25, 28, 40, 44, 50, 65)]  # fmt: skip
CUT += [packet(1, 0x0800, 255, 255)[:100], packet(1, 0x0800, 255, 255)[:22]]


@pytest.mark.parametrize(("octets", "cls"), KINDS.values(), ids=list(KINDS))
def test_types_and_sizes_select_the_format(octets: bytes, cls: type[Layer]) -> None:
    frame = decode(octets)
    assert [type(layer) for layer in frame.layers] == [Ethernet, cls]
    assert encode(frame) == octets
    assert encode(frame, fix=True)[: len(octets)] == octets


def test_field_after_variable_one_has_its_span() -> None:
    frame = decode(packet(32, 0x0800, 20, 4))
    places = [(*frame.spans(name), frame[name]) for name in ("arp.src.proto_ipv4", "arp.dst.hw")]
    counted = bytes(range(1, 49))
    assert [(span.start, span.stop, value) for span, value in places] == [
        (42, 46, counted[20:24]),
        (46, 66, counted[24:44]),
    ]
    assert frame.spans("arp.dst.proto_ipv4")[0].stop == 70


@pytest.mark.parametrize("octets", CUT, ids=lambda octets: str(len(octets)))
def test_truncated_packet_is_error_and_keeps_octets(octets: bytes) -> None:
    frame = decode_lax(octets)
    assert encode(frame) == octets
    assert frame.error is not None
    assert frame.error.offset == 14
    with pytest.raises(DecodeError, match=r"octet 14: expected [0-9]+ octets, got"):
        decode(octets)


@pytest.mark.parametrize("octets", CUT, ids=lambda octets: str(len(octets)))
def test_packet_cut_by_snap_length_is_wellformed(octets: bytes) -> None:
    whole = 14 + (28 if len(octets) < 20 else 8 + 2 * (octets[18] + octets[19]))
    frame = decode(octets, original_octets=whole)
    assert encode(frame) == octets
    assert (
        isinstance(frame.layers[1], OtherARP)
        if len(octets) >= 22
        else frame.layers[1:] == tuple([Data(data=octets[14:])] if octets[14:] else [])
    )


def test_address_of_wrong_length_is_not_encoded() -> None:
    with pytest.raises(EncodeError, match="dst_proto: expected 4 octets, got 3 octets"):
        encode(Ethernet(), IPv4ARP(dst_proto=b"\1\2\3"))
    with pytest.raises(EncodeError, match="src_hw: expected octets"):
        encode(Ethernet(), OtherARP(src_hw=7), fix=False)  # type: ignore[arg-type]


def test_sizes_are_computed_from_the_sender() -> None:
    layer = IPv4ARP(hw_type=24, hw_size=0, src_hw=b"\1" * 8, src_proto="192.0.2.1", dst_hw=bytes(8))
    frame = decode(encode(Ethernet(), layer))
    assert frame[IPv4ARP] == layer.replace(hw_size=8)
    assert frame["arp.src.proto_ipv4"] == bytes((192, 0, 2, 1))


ARP_FRAMES = st.one_of(*map(layers_of, ARPS)).map(lambda layer: encode(Ethernet(), layer))
CUT_FRAMES = st.builds(lambda octets, stop: octets[: 14 + stop], ARP_FRAMES, st.integers(0, 60))
OCTETS = st.binary(max_size=90).map(lambda octets: HEADER + octets)
ANY = st.one_of(ARP_FRAMES, CUT_FRAMES, OCTETS)


@given(st.one_of(*map(layers_of, ARPS)))
def test_drawn_layers_survive_encoding(layer: Layer) -> None:
    frame = decode(encode(Ethernet(), layer))
    assert frame.layers[1] == layer
    assert from_document(to_document(frame))[0] == frame


@given(st.lists(ANY, min_size=1, max_size=6), st.integers(0, 30))
@example(WHOLE + CUT, 0)
@example(WHOLE + CUT, 9)
def test_columns_equal_the_single_frame_decoder(octets: list[bytes], more: int) -> None:
    assert_equal(Batch.from_frames(octets, original=[len(each) + more for each in octets]))


@given(st.lists(ANY, min_size=1, max_size=6))
@example(WHOLE)
@example(CUT)
def test_columns_rebuild_the_frames(octets: list[bytes]) -> None:
    assert list(batch_from(extract(Batch.from_frames(octets))).frames()) == octets


def test_compiled_walk_decodes_every_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Frame:
        raise AssertionError("decoded by itself")

    monkeypatch.setattr("ecmproto.frames.columns.walk.decoded_frame", never)
    columns = extract(Batch.from_frames(WHOLE), ["arp.src.hw_mac", "arp.src.hw"])
    assert [len(column) for column in columns.values()] == [6, 6]


FILTERS = (
    "arp", "arp.hw.size == 8", "arp.proto.size > 4", "arp.opcode == reply", "arp.src.hw", "arp.src.hw_mac",
    "arp.src.hw == 01:02", "arp.src.hw[0:2] == 01:02", "arp.dst.proto_ipv4 == 21.22.23.24", "arp.dst.proto",
    "arp.src.proto_ipv4 in {9.10.11.12, 7.0.0.0/8}", "arp.dst.hw_mac == 0b:0c:0d:0e:0f:10",
    "arp.src.proto contains 0a:0b", "arp[4] == 8", "arp[0:2] == 00:20", "not arp.dst.proto_ipv4",
    "arp_other", "arp_ipv4 or arp_mac", 'frame.protocols == "eth:arp_mac"', "arp.src.hw[19]",
)  # fmt: skip


@pytest.mark.parametrize("text", FILTERS)
def test_column_filters_equal_frame_filters(text: str) -> None:
    batch = Batch.from_frames(WHOLE + CUT)
    wanted = compile_filter(text)
    told = [wanted.matches(record) for record in records(batch, ETHERNET_ONLY)]
    assert selected(batch, wanted).tolist() == told
    assert len(set(told)) == 2 or text == "arp"


FORMS: dict[str, Callable[[], Listing]] = {
    "lines": Lines, "trees": Trees, "json": Json, "ndjson": NdJson, "tabs": lambda: Tabs(NAMES),
    "csv": lambda: Csv(NAMES),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_batch_output_equals_single_frames(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "WORTH_FRAMES", 1)
    batch = Batch.from_frames(2 * (WHOLE + CUT))
    one = FORMS[form]()
    each = "".join(one.record(record) for record in records(batch, ETHERNET_ONLY)).encode()
    assert b"".join(bytes(text) for text in FORMS[form]().batch(batch, ETHERNET_ONLY)) == each


def test_lines_show_requests_and_replies() -> None:
    batch = Batch.from_frames([KINDS[name][0] for name in ("FireWire", "IPv6", "neither", "nothing")])
    told = [Lines().record(record).split("ARP   ")[1] for record in records(batch, ETHERNET_ONLY)]
    assert told == [
        "9.10.11.12 is at 01:02:03:04:05:06:07:08\n",
        "who has 1d:1e:1f:20:21:22:23:24:25:26:27:28:29:2a:2b:2c? "
        "tell 07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13:14:15:16\n",
        "opcode 9 03:04:05 → 08:09:0a\n",
        "who has none? tell none\n",
    ]


def test_columns_of_addresses_of_any_length_make_frames() -> None:
    senders = [bytes([1]) * 8, bytes([2]) * 20, b""]
    targets = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    template = Frame(layers=(Ethernet(), IPv4ARP()))
    columns = {"arp.src.hw": senders, "arp.dst.hw": senders, "arp.dst.proto_ipv4": targets}
    batch = frames_from(template, 3, columns)
    layers = [decode(octets)[IPv4ARP] for octets in batch.frames()]
    assert [layer.hw_size for layer in layers] == [8, 20, 0]
    assert [layer.src_hw for layer in layers] == senders
    assert [layer.dst_proto[3] for layer in layers] == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "cls", "octets"),
    [
        ({"hw_type": 24, "src_hw": "0102030405060708"}, IPv4ARP, 8 + 2 * 12),
        ({"dst_proto": "0102"}, EthernetARP, 8 + 2 * 8),
        ({}, OtherARP, 8 + 2 * 36),
    ],
)
def test_crafted_packets_are_whole(given: dict[str, Any], cls: type[Layer], octets: int) -> None:
    frame = build(cls.prefix, **given)
    assert decode(encode(frame)) == frame
    assert type(frame.layers[1]) is cls
    assert len(frame.layers[1].build()) == octets
    assert frame[Ethernet].dst == b"\xff" * 6


def test_statistics_count_them_as_arp(tmp_path: Path) -> None:
    path = _capture(tmp_path, WHOLE)
    kinds = {kind.kind.title: kind.frames for kind in capture_stats(str(path)).kinds}
    assert kinds["ARP"] == len(WHOLE)


def _capture(folder: Path, frames: Sequence[bytes], original: Sequence[int] | None = None) -> Path:
    path = folder / "arp.pcap"
    with PcapWriter(path) as writer:
        writer.write_batch(Batch.from_frames(frames, original=original))
    return path


def _columns(frames: Sequence[bytes], names: Sequence[str]) -> list[list[str]]:
    """Return columns as tshark writes numbers, and octets in hex."""
    columns = extract(Batch.from_frames(frames), names)
    return [[_text(values) for values in columns[name].lists()] for name in names]


def _text(values: list[Any]) -> str:
    return ",".join(value.hex() if isinstance(value, bytes) else str(value) for value in values)


def test_addresses_equal_those_of_tshark(tmp_path: Path) -> None:
    """Only complete packets are compared, because tshark shows no addresses of other packets and no partial
    addresses.
    """
    asked = [word for name in FIELDS for word in ("-e", name)]
    command = [requires("tshark"), "-n", "-r", str(_capture(tmp_path, WHOLE)), "-T", "fields", *asked]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    mine = _columns(WHOLE, FIELDS)
    for number, row in enumerate(rows):
        theirs = [_plain(name, cell) for name, cell in zip(FIELDS, row.split("\t"), strict=True)]
        assert [column[number] for column in mine] == theirs, list(KINDS)[number]
    assert len(rows) == len(WHOLE)


def _plain(name: str, cell: str) -> str:
    if name.endswith("ipv4"):
        return bytes(map(int, cell.split("."))).hex() if cell else ""
    if name.startswith(("arp.src", "arp.dst")):
        return cell.replace(":", "")
    return str(int(cell, 0))


@pytest.mark.parametrize("original", [0, 30])
def test_cut_packets_have_tsharks_sizes(original: int, tmp_path: Path) -> None:
    frames = [octets for octets in CUT if len(octets) >= 22]
    path = _capture(tmp_path, frames, [len(octets) + original for octets in frames])
    asked = [word for name in FIELDS[:5] for word in ("-e", name)]
    command = [requires("tshark"), "-n", "-r", str(path), "-T", "fields", *asked]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    mine = zip(*_columns(frames, FIELDS[:5]), strict=True)
    assert [tuple(str(int(cell, 0)) for cell in row.split("\t")) for row in rows] == list(mine)
