"""Writing: the written octets, the frames read from the written file, and agreement of all writers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import EncodeError
from ecmproto.frames.capture import (
    Batch,
    Interface,
    PcapngWriter,
    PcapWriter,
    RecordBuilder,
    comments,
    open_capture,
)
from tests.capture.octets import enhanced, pcap_header, pcap_record
from tests.capture.seen import flatten

WRITERS: dict[str, Any] = {"pcap": PcapWriter, "pcapng": PcapngWriter}
FORMATS = pytest.mark.parametrize("format", WRITERS)
ORDERS = st.sampled_from(["little", "big"])
RESOLUTIONS = st.sampled_from(["ns", "us"])
FRAMES = st.lists(
    st.tuples(st.binary(max_size=40), st.integers(0, (1 << 32) * 10**9 - 1), st.integers(0, (1 << 32) - 1)),
    max_size=30,
)


def test_pcap_octets_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    with PcapWriter(path, linktype=113, fcs_octets=4, byte_order="big") as writer:
        writer.write_frame(b"abc", 1_000_000_002, original=9)
    header = pcap_header(big=True, magic=0xA1B23C4D, snaplen=262_144, linktype=0x24000071)
    assert path.read_bytes() == header + pcap_record(b"abc", big=True, seconds=1, ticks=2, original=9)


def test_pcapng_octets_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    tunnel = Interface(index=1, linktype=101, name="tun0", fcs_octets=4, speed_bps=25 * 10**9)
    interfaces = [Interface(index=0, linktype=1), tunnel]
    with PcapngWriter(path, interfaces=interfaces, comment="made up") as writer:
        writer.write_frame(b"abc", (1 << 32) + 5, original=9, interface=1)
    octets = path.read_bytes()
    assert octets.endswith(enhanced(b"abc", ticks=(1 << 32) + 5, original=9, interface=1))
    with open_capture(path) as reader:
        list(reader)
        assert [(i.linktype, i.name, i.fcs_octets, i.ticks_per_second) for i in reader.interfaces] == [
            (1, "", 0, 10**9),
            (101, "tun0", 4, 10**9),
        ]
        assert [each.speed_bps for each in reader.interfaces] == [0, 25 * 10**9]
    assert b"made up" in octets


@FORMATS
@given(rows=FRAMES, byte_order=ORDERS, resolution=RESOLUTIONS)
def test_written_frames_read_back(
    format: str, rows: list[tuple[bytes, int, int]], byte_order: str, resolution: str, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("round") / f"trip.{format}"
    frames = [row[0] for row in rows]
    batch = Batch.from_frames(frames, time_ns=[row[1] for row in rows], original=[row[2] for row in rows])
    with WRITERS[format](path, byte_order=byte_order, resolution=resolution) as writer:
        writer.write_batch(batch)
    with open_capture(path) as reader:
        seen = [s for part in reader for s in flatten(part)]
        assert (reader.format, reader.byte_order, reader.problem) == (format, byte_order, None)
    tick = 1 if resolution == "ns" else 1000
    assert [(s.frame, s.time_ns, s.original) for s in seen] == [(f, t // tick * tick, o) for f, t, o in rows]


@FORMATS
@given(count=st.integers(0, 40), length=st.integers(0, 20), byte_order=ORDERS)
def test_matrix_batch_and_frames_give_equal_octets(
    format: str, count: int, length: int, byte_order: str, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("same")
    matrix = np.arange(count * length, dtype=np.uint8).reshape(count, length)
    times = np.arange(count) * 1_234_567_891
    with WRITERS[format](folder / "matrix", byte_order=byte_order) as writer:
        writer.write_matrix(matrix, times, original=length + 4)
        assert writer.frames == count
    with WRITERS[format](folder / "batch", byte_order=byte_order) as writer:
        writer.write_batch(Batch.from_matrix(matrix, time_ns=times, original=length + 4))
    with WRITERS[format](folder / "single", byte_order=byte_order) as writer:
        for row, time in zip(matrix, times.tolist(), strict=True):
            writer.write_frame(row.tobytes(), time, original=length + 4)
    assert (
        (folder / "matrix").read_bytes()
        == (folder / "batch").read_bytes()
        == (folder / "single").read_bytes()
    )


@FORMATS
def test_records_of_many_lengths_are_exact(format: str) -> None:
    random = np.random.default_rng(3)
    frames = [random.bytes(int(n)) for n in random.integers(0, 12, 500)] + [random.bytes(1500)]
    picks = random.permutation(len(frames))
    batch = Batch.from_frames(frames, time_ns=np.arange(len(frames))).select(picks)
    records = RecordBuilder(format="pcap" if format == "pcap" else "pcapng").from_batch(batch).tobytes()
    make = pcap_record if format == "pcap" else enhanced
    assert records == b"".join(make(frames[i], ticks=i) for i in picks.tolist())


def test_a_large_matrix_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.arange(100, dtype=np.uint8).reshape(10, 10)
    with PcapWriter(tmp_path / "whole") as writer:
        writer.write_matrix(matrix, np.arange(10))
    monkeypatch.setattr("ecmproto.frames.capture.writer._MATRIX_OCTETS", 30)
    with PcapWriter(tmp_path / "parts") as writer:
        writer.write_matrix(matrix, np.arange(10))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_comments_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with PcapngWriter(path, byte_order="big") as writer:
        writer.write_frame(b"abcde", 7, comment="Fb = −3")
        writer.write_frame(b"none", 8)
    with open_capture(path) as reader:
        batch = next(iter(reader))
        assert [comments(batch, i) for i in range(2)] == [("Fb = −3",), ()]
        assert list(batch.frames()) == [b"abcde", b"none"]
    with PcapWriter(tmp_path / "a.pcap") as plain:
        plain.write_frame(b"x", 0, comment="lost")
        plain.write_frame(b"x", 0, comment="lost")
    assert plain.warnings == ["comments are lost: pcap cannot store them"]


@pytest.mark.parametrize(
    ("format", "time_ns", "field"),
    [("pcap", -1, "time"), ("pcapng", -1, "time"), ("pcap", (1 << 32) * 10**9, "time")],
)
def test_times_outside_the_format_are_refused(format: str, time_ns: int, field: str, tmp_path: Path) -> None:
    writer = WRITERS[format](tmp_path / "a")
    with pytest.raises(EncodeError, match=field):
        writer.write_frame(b"x", time_ns)
    writer.sink.abandon()


def test_a_frame_above_the_snaplen_is_refused(tmp_path: Path) -> None:
    with PcapWriter(tmp_path / "a", snaplen=300_000) as writer:
        writer.write_frame(bytes(300_000), 0)
        with pytest.raises(EncodeError, match="at most the snaplen of 300000"):
            writer.write_frame(bytes(300_001), 0)
    with open_capture(tmp_path / "a") as reader:
        assert [len(f) for b in reader for f in b.frames()] == [300_000]


@pytest.mark.parametrize("interface", [-1, 1])
def test_an_undescribed_interface_is_refused(interface: int, tmp_path: Path) -> None:
    with PcapngWriter(tmp_path / "a") as writer, pytest.raises(EncodeError, match="one of the 1 interfaces"):
        writer.write_frame(b"x", 0, interface=interface)


def test_an_original_length_beyond_32_bits_is_refused(tmp_path: Path) -> None:
    with PcapWriter(tmp_path / "a") as writer, pytest.raises(EncodeError, match="original length"):
        writer.write_frame(b"x", 0, original=1 << 32)


def test_an_interface_can_be_added_later(tmp_path: Path) -> None:
    with PcapngWriter(tmp_path / "a") as writer:
        writer.write_frame(b"x", 0)
        assert writer.add_interface(Interface(index=1, linktype=1, name="cp", description="messages")) == 1
        writer.write_frame(b"y", 1, interface=1)
    with open_capture(tmp_path / "a") as reader:
        assert [s.interface for b in reader for s in flatten(b)] == [0, 1]
        assert reader.interfaces[1].description == "messages"


def test_blocks_are_written_unchanged(tmp_path: Path) -> None:
    custom = struct.pack("<IIII", 0xBAD, 16, 32473, 16)
    with PcapngWriter(tmp_path / "a") as writer:
        writer.write_block(custom)
    assert (tmp_path / "a").read_bytes().endswith(custom)
