"""Captures read in parts equal captures read as a whole, for all boundaries and contents."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Interface, PcapngWriter, PcapWriter, open_capture
from ecmproto.frames.capture.parts import (
    Extent,
    Part,
    Reached,
    linked,
    open_part,
    read_through,
    split_capture,
)
from ecmproto.frames.capture.reader import CaptureReader
from pcaps.manifest import FOLDER

Rows = list[tuple[Any, ...]]


def rows_of(reader: CaptureReader) -> Rows:
    """Return all data that a capture contains about each frame."""
    rows: Rows = []
    for batch in reader:
        links = [reader.interfaces[each] for each in batch.interface.tolist()]
        rows += zip(
            batch.numbers.tolist(), batch.time_ns.tolist(), batch.original.tolist(), batch.interface.tolist(),
            links, batch.since_first_ns().tolist(), batch.since_previous_ns().tolist(), batch.frames(),
            strict=True,
        )  # fmt: skip
    return rows


def whole_of(path: Path) -> tuple[Rows, str, list[str], list[Interface]]:
    with open_capture(path) as reader:
        return rows_of(reader), str(reader.problem), reader.warnings, list(reader.interfaces)


def assert_parts_are_the_whole(path: Path, parts: list[Part], seed: int = 0) -> int:
    """Read parts in random order, as other processes would, and return the number of parts that were read."""
    reached: dict[Extent, Reached] = {}
    rng, read = random.Random(seed), 0
    while (links := linked(parts, reached)).missing:
        for part in rng.sample(links.missing, len(links.missing)):
            sent = Part.of_dict(json.loads(json.dumps(part.as_dict())))
            reached[sent.place] = Reached.of_dict(json.loads(json.dumps(read_through(sent).as_dict())))
            read += 1
    rows, problem, warnings, interfaces = whole_of(path)
    found: Rows = []
    for part, _ in links.parts:
        with open_part(part, batch_frames=7) as reader:
            found += rows_of(reader)
            known = list(reader.interfaces)
    assert found == rows
    assert known == interfaces
    assert links.frames == len(rows)
    assert (str(links.problem), links.warnings) == (problem, warnings)
    return read


def record(octets: bytes, order: str = "<", time_s: int = 1_700_000_000) -> bytes:
    return struct.pack(f"{order}IIII", time_s, 5, len(octets), len(octets)) + octets


PAYLOADS = st.one_of(
    st.binary(max_size=40),
    # what looks like records: true to the end of the frame, and broken off
    st.integers(1, 6).map(lambda count: b"".join(record(bytes(20 + each)) for each in range(count))),
    st.integers(1, 6).map(lambda count: b"".join(record(bytes(20)) for _ in range(count))[:-7]),
)


def block(kind: int, body: bytes, order: str) -> bytes:
    body += bytes(-len(body) % 4)
    total = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + total + body + total


def section(order: str) -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(order: str, linktype: int) -> bytes:
    return block(1, struct.pack(f"{order}HHI", linktype, 0, 0), order)


@st.composite
def pcap_files(draw: st.DrawFn) -> bytes:
    order = draw(st.sampled_from("<>"))
    header = struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [
        record(octets, order, 1_700_000_000 + at) for at, octets in enumerate(draw(st.lists(PAYLOADS)))
    ]
    return header + b"".join(records) + draw(st.sampled_from([b"", b"\x01", bytes(12), b"\xff" * 40]))


@st.composite
def pcapng_files(draw: st.DrawFn) -> bytes:
    """Return sections in both byte orders, in which interfaces are described at random positions."""
    octets = b""
    for _ in range(draw(st.integers(1, 3))):
        order, described = draw(st.sampled_from("<>")), 0
        octets += section(order)
        for kind in draw(
            st.lists(st.sampled_from(["interface", "frame", "frame", "frame", "simple", "other"]))
        ):
            if kind == "interface":
                octets, described = octets + interface(order, 1 + described), described + 1
            elif kind == "other":
                octets += block(0xBAD, draw(st.binary(max_size=9)), order)
            elif described:
                payload = draw(PAYLOADS)
                if draw(st.booleans()):
                    payload += block(6, struct.pack(f"{order}IIIII", 0, 0, 1, 0, 0), order) * 4
                fields = struct.pack(
                    f"{order}IIIII", draw(st.integers(0, described - 1)), 1, 7, *[len(payload)] * 2
                )
                enhanced = kind == "frame"
                head = fields if enhanced else struct.pack(f"{order}I", len(payload))
                octets += block(6 if enhanced else 3, head + payload, order)
    return octets + draw(st.sampled_from([b"", bytes(8), b"\xff" * 40]))


@given(
    octets=st.one_of(pcap_files(), pcapng_files()), cuts=st.sets(st.integers(0, 3000)), seed=st.integers(0, 9)
)
def test_parts_at_any_boundary_equal_the_whole(
    tmp_path_factory: pytest.TempPathFactory, octets: bytes, cuts: set[int], seed: int
) -> None:
    """Parts may begin within frames, within headers, or after the end of the file."""
    path = tmp_path_factory.mktemp("parts") / "capture"
    path.write_bytes(octets)
    starts = [0, *sorted(cut for cut in cuts if cut > 28)]
    parts = [
        Part(path=str(path), start=start, stop=stop, described=b"" if not start else octets[:24])
        for start, stop in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert_parts_are_the_whole(path, parts, seed)
    for count in (2, 3, 9):
        assert_parts_are_the_whole(path, split_capture(path, count=count), seed)


@pytest.mark.parametrize("format", ["pcap", "pcapng"])
def test_correctly_guessed_boundaries_are_read_once(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"capture.{format}"
    writer: PcapWriter | PcapngWriter = (
        PcapWriter(path)
        if format == "pcap"
        else PcapngWriter(path, interfaces=[Interface(index=0, linktype=1)])
    )
    with writer:
        for number in range(4000):
            writer.write_frame(bytes([number & 0xFF]) * (60 + number % 97), number * 1000)
    for octets in (10_000, 37_777):
        parts = split_capture(path, octets)
        assert len(parts) == -(-path.stat().st_size // octets)
        assert max(abs(part.octets - octets) for part in parts[:-1]) < 200
        assert assert_parts_are_the_whole(path, parts) == len(parts)


def test_records_inside_a_frame_are_not_a_boundary(tmp_path: Path) -> None:
    """A frame of two parts' length contains a whole capture, which must not be read as records."""
    path = tmp_path / "capture.pcap"
    trap = b"".join(record(bytes([7]) * 30) for _ in range(1000))
    with PcapWriter(path) as writer:
        writer.write_frame(b"first" * 12, 1_700_000_000 * 10**9)
        writer.write_frame(trap, 1_700_000_001 * 10**9)
        for number in range(500):
            writer.write_frame(bytes(60), (1_700_000_002 + number) * 10**9)
    parts = split_capture(path, 20_000)
    assert parts[1].start < len(trap)
    assert assert_parts_are_the_whole(path, parts) > len(parts)


def test_a_capture_damaged_in_a_part_is_read(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    octets = (FOLDER / "mixed.pcap").read_bytes()
    path.write_bytes(octets[:1900] + b"\xff" * 16 + octets[1900:])
    parts = split_capture(path, 100)
    assert_parts_are_the_whole(path, parts)
    links = linked(parts, {part.place: read_through(part) for part in parts[:1]})
    assert links.missing
    assert links.problem is None


def test_compressed_and_complex_captures_are_not_split(tmp_path: Path) -> None:
    assert [part.stop for part in split_capture(FOLDER / "hotspot.pcap.gz", 1000)] == [None]
    with pytest.raises(CaptureError, match="No such file"):
        split_capture(tmp_path / "none.pcap")
    # more interfaces than are carried from part to part: the whole is read as one
    path = tmp_path / "many.pcapng"
    described = (
        interface("<", 1)
        + block(1, struct.pack("<HHI", 1, 0, 0) + b"\x02\0\xf0\xff" + b"x" * 65520, "<") * 20
    )
    frame = block(6, struct.pack("<IIIII", 0, 0, 1, 20, 20) + bytes(20), "<")
    path.write_bytes(section("<") + interface("<", 1) + frame * 1000 + described + frame * 1000)
    parts = split_capture(path, count=5)
    assert len(parts) > 1
    assert_parts_are_the_whole(path, parts)
