"""A capture contains the same frames when it is opened from different sources."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import PcapngWriter, PcapWriter, open_capture
from ecmproto.frames.capture.source import MappedSource
from tests.capture.octets import pcap_header, pcap_record, small_pcap, small_pcapng
from tests.capture.seen import Seen, flatten, read

BOTH = pytest.mark.parametrize("octets", [small_pcap(), small_pcapng()], ids=["pcap", "pcapng"])


def read_path(path: Path) -> list[Seen]:
    with open_capture(path) as reader:
        assert reader.problem is None
        return [seen for batch in reader for seen in flatten(batch)]


@BOTH
def test_mapped_and_streamed_captures_are_equal(octets: bytes, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(octets)
    expected, _ = read(octets)
    assert read_path(path) == expected
    with open_capture(path, mapped=False) as reader:
        assert [seen for batch in reader for seen in flatten(batch)] == expected
    with path.open("rb") as file, open_capture(file) as reader:
        assert [seen for batch in reader for seen in flatten(batch)] == expected
        assert reader.path == str(path)


@BOTH
@given(chunk=st.integers(1, 200), batch_frames=st.integers(1, 6))
@settings(max_examples=60)
def test_chunks_and_batches_of_any_size_are_same(octets: bytes, chunk: int, batch_frames: int) -> None:
    expected, _ = read(octets)
    seen, reader = read(octets, chunk_octets=chunk, batch_frames=batch_frames)
    assert seen == expected
    assert reader.problem is None


@BOTH
def test_a_pipe_returns_frames_as_they_arrive(octets: bytes) -> None:
    expected, _ = read(octets)
    source, target = os.pipe()

    def feed() -> None:
        with open(target, "wb", buffering=0) as pipe:
            for i in range(len(octets)):
                pipe.write(octets[i : i + 1])

    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(source, "rb") as pipe, open_capture(pipe) as reader:
        assert [seen for batch in reader for seen in flatten(batch)] == expected
        assert reader.size_octets is None
    feeder.join()


def test_frames_are_available_before_the_pipe_ends() -> None:
    source, target = os.pipe()
    with open(target, "wb", buffering=0) as feed, open(source, "rb") as pipe:
        feed.write(pcap_header() + pcap_record(b"early"))
        with open_capture(pipe) as reader:
            batches = iter(reader)
            assert next(batches).frame(0) == b"early"
            feed.write(pcap_record(b"later"))
            assert next(batches).frame(0) == b"later"


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(small_pcap())))
    with open_capture("-") as reader:
        assert sum(map(len, reader)) == 3


def test_mapped_batch_is_view_and_outlives_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(small_pcap())
    with open_capture(path) as reader:
        assert isinstance(reader._source, MappedSource)
        batch = next(iter(reader))
        assert batch.buffer is reader._source.buffer
    assert not batch.buffer.flags.writeable
    assert list(batch.frames()) == [b"one", b"", b"three"]


def test_used_pages_are_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecmproto.frames.capture.source._CACHED_OCTETS", 1 << 20)
    path = tmp_path / "large.pcap"
    with PcapWriter(path) as writer:
        writer.write_matrix(np.zeros((200_000, 100), dtype=np.uint8), np.arange(200_000))
    with open_capture(path) as reader:
        source = reader._source
        assert isinstance(source, MappedSource)
        batches = list(reader)
        assert source._released > 0.5 * path.stat().st_size
    assert batches[0].frame(0) == bytes(100)  # read in again on demand
    assert sum(map(len, batches)) == 200_000
    assert max(map(len, batches)) <= 65536


def test_long_frames_make_short_batches() -> None:
    octets = pcap_header(snaplen=1 << 20) + pcap_record(bytes(1 << 20)) * 40
    with open_capture(io.BytesIO(octets)) as reader:
        spans = [int(batch.record_length.sum()) for batch in reader]
    assert sum(spans) == len(octets) - 24
    assert max(spans) <= 18 << 20


def test_progress_counts_octets_read(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    with PcapngWriter(path) as writer:
        for i in range(10):
            writer.write_frame(b"x" * 50, i)
    with open_capture(path, batch_frames=3) as reader:
        progress = [reader.octets_read for _ in reader]
        assert progress == sorted(set(progress))
        assert reader.octets_read == reader.size_octets == path.stat().st_size


@pytest.mark.parametrize(
    ("octets", "got"),
    [
        (b"", "0 octets"),
        (b"not a capture", "a file that starts with 6e 6f 74 20 61 20 63 61"),
        (b"snoop\0\0\0" + bytes(16), "a snoop file"),
        (bytes.fromhex("d4c3b2a1"), "4 octets"),
        (bytes.fromhex("0a0d0d0a"), "4 octets"),
    ],
)
def test_files_that_are_no_captures_are_refused(octets: bytes, got: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(octets)
    for source in (path, io.BytesIO(octets)):
        with pytest.raises(CaptureError) as caught:
            open_capture(source)
        assert caught.value.got == got


def test_unreadable_files_are_refused_on_opening(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", "nul\0name"):
        with pytest.raises(CaptureError, match="a readable capture file"):
            open_capture(path)


class Failing(io.RawIOBase):
    """A stream that fails after its first octets."""

    def __init__(self, octets: bytes) -> None:
        self._octets = io.BytesIO(octets)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._octets.read(size)
        if not piece:
            raise OSError(5, "Input/output error")
        return piece

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        piece = self.read(len(target))
        target[: len(piece)] = piece
        return len(piece)


@BOTH
def test_read_errors_are_reported_as_a_problem(octets: bytes) -> None:
    with open_capture(Failing(octets)) as reader:  # type: ignore[arg-type]
        assert sum(map(len, reader)) == len(read(octets)[0])
    assert reader.problem is not None
    assert reader.problem.got == "Input/output error"


@BOTH
def test_a_claimed_length_is_not_allocated(octets: bytes) -> None:
    """A record announces 200 MiB and ends after 100 octets, and the buffer must not grow to 200 MiB."""
    claim = (200 << 20).to_bytes(4, "little")
    if octets[0] == 0x0A:
        octets = octets[: octets.rindex(b"\x0a\x0d\x0d\x0a")]
        tail = b"\x99\0\0\0" + claim
    else:
        octets = octets[:16] + b"\xff\xff\xff\x0f" + octets[20:]
        tail = bytes(8) + claim * 2
    with open_capture(io.BytesIO(octets + tail + bytes(100)), chunk_octets=4096) as reader:
        assert sum(map(len, reader)) == (4 if octets[0] == 0x0A else 3)
        assert reader.problem is not None
        assert len(reader._source.buffer) <= 8192
