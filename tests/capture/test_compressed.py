"""Compressed captures: recognition by content, several compressed pieces, and damaged files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import open_capture
from ecmproto.frames.capture.source import zstd_module
from tests.capture.octets import pcap_header, pcap_record, small_pcap, small_pcapng
from tests.capture.seen import read

ZSTD = zstd_module()
RANDOM = np.random.default_rng(5).integers(0, 256, (400, 300), dtype=np.uint8)
LONG = pcap_header() + b"".join(pcap_record(row.tobytes(), seconds=i) for i, row in enumerate(RANDOM))


def zstd(octets: bytes) -> bytes:
    """Return octets compressed into many blocks, so that a truncated file still has complete blocks."""
    compressor = ZSTD.ZstdCompressor(options={ZSTD.CompressionParameter.checksum_flag: 1})
    pieces = [
        compressor.compress(octets[i : i + 5000], compressor.FLUSH_BLOCK) for i in range(0, len(octets), 5000)
    ]
    return b"".join([*pieces, compressor.flush()])


COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd}


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("octets", [small_pcap(), small_pcapng(), LONG], ids=["pcap", "pcapng", "long"])
def test_a_compressed_capture_reads_as_the_plain_one(kind: str, octets: bytes) -> None:
    seen, reader = read(COMPRESS[kind](octets))
    assert seen == read(octets)[0]
    assert reader.problem is None


@pytest.mark.parametrize("kind", COMPRESS)
def test_several_members_are_one_capture(kind: str) -> None:
    compress = COMPRESS[kind]
    pieces = b"".join(compress(LONG[i : i + 10_000]) for i in range(0, len(LONG), 10_000))
    seen, reader = read(pieces)
    assert len(seen) == 400
    assert reader.problem is None


def test_a_leading_skippable_zstd_frame_is_ignored() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    assert len(read(skippable + zstd(small_pcap()))[0]) == 3


def test_zero_padding_after_gzip_is_ignored() -> None:
    seen, reader = read(gzip.compress(small_pcap()) + bytes(700))
    assert len(seen) == 3
    assert reader.problem is None


@pytest.mark.parametrize("kind", COMPRESS)
def test_compression_is_recognised_by_content(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(COMPRESS[kind](LONG))
    with open_capture(path) as reader:
        assert sum(map(len, reader)) == 400
        assert reader.octets_read == reader.size_octets == path.stat().st_size


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_truncated_stream_returns_its_frames(kind: str) -> None:
    compressed = COMPRESS[kind](LONG)
    whole, _ = read(LONG)
    counts = []
    for length in range(40, len(compressed), 1777):
        try:
            seen, reader = read(compressed[:length])
        except CaptureError:
            counts.append(-1)  # not even the header came out
            continue
        counts.append(len(seen))
        assert seen == whole[: len(seen)]
        assert reader.problem is not None
        assert f"a truncated {kind} stream" in reader.problem.got
    assert counts == sorted(counts)
    assert counts[-1] > 100


def test_a_wrong_checksum_loses_no_frame() -> None:
    compressed = bytearray(gzip.compress(LONG))
    compressed[-8] ^= 1
    seen, reader = read(bytes(compressed))
    assert len(seen) == 400
    assert reader.problem is not None
    assert "a broken gzip stream" in reader.problem.got


@pytest.mark.parametrize("kind", COMPRESS)
def test_flipped_octets_never_raise_while_reading(kind: str) -> None:
    compressed = COMPRESS[kind](small_pcapng())
    for i in range(4, len(compressed)):
        damaged = bytearray(compressed)
        damaged[i] ^= 0x55
        with suppress(CaptureError):  # raised by open alone: read() looks at nothing else afterwards
            read(bytes(damaged), chunk_octets=1 << 12)


@pytest.mark.parametrize(
    ("octets", "name", "command"),
    [
        (lzma.compress(b"x"), "an xz file", "xz -dc"),
        (bz2.compress(b"x"), "a bzip2 file", "bzip2 -dc"),
        (b"\x04\x22\x4d\x18" + bytes(20), "an lz4 file", "lz4 -dc"),
    ],
)
def test_other_compressions_are_refused_by_name(octets: bytes, name: str, command: str) -> None:
    with pytest.raises(CaptureError) as caught:
        read(octets)
    assert caught.value.got == name
    assert command in caught.value.needed


def test_a_compressed_non_capture_is_refused() -> None:
    with pytest.raises(CaptureError, match="a pcap or pcapng capture"):
        read(gzip.compress(b"just text, nothing else"))


def test_a_decompression_bomb_uses_bounded_memory() -> None:
    bomb = ZSTD.compress(pcap_header() + pcap_record(bytes(200_000)) * 100)
    assert len(bomb) < 200_000
    with open_capture(io.BytesIO(bomb), chunk_octets=1 << 20) as reader:
        sizes = [len(batch.buffer) for batch in reader]
        assert reader.frames == 100
    assert max(sizes) <= 1 << 20
