"""Captures as a Dask DataFrame: frames of all captures in time order, with correct divisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ecmproto.errors import CaptureError, ParameterError
from ecmproto.frames.capture import Batch, PcapngWriter, PcapWriter, open_capture
from ecmproto.frames.columns import read_table
from ecmproto.tools.dask import read_captures
from tests.conftest import REPOSITORY

FRAMES = 1200
PART_OCTETS = 30_000
FIELDS = ("frame.number", "frame.len", "eth.dst", "vlan.id", "frame.protocols", "frame.time_delta")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write consecutive captures of one host, and a capture of another host that spans the whole time."""
    folder = tmp_path_factory.mktemp("captures")
    with open_capture(REPOSITORY / "pcaps" / "mixed.pcap") as reader:
        pool = [frame for batch in reader for frame in batch.frames()]
    frames = (pool * FRAMES)[:FRAMES]
    for name, first_ns, gap_ns in (
        ("a1.pcap", 0, 1000),
        ("a2.pcap", 1000 * FRAMES, 1000),
        ("b.pcapng", 500, 2000),
    ):
        times = 10**18 + first_ns + gap_ns * np.arange(FRAMES)
        times[7] = times[5]  # a capture with a time that goes backwards
        with (PcapngWriter if name.endswith("ng") else PcapWriter)(folder / name) as writer:
            writer.write_batch(Batch.from_frames(frames, time_ns=times))
    return folder


def test_frames_of_overlapping_captures_are_time_ordered(folder: Path) -> None:
    frames = read_captures(folder, FIELDS, part_octets=PART_OCTETS)
    assert frames.known_divisions
    assert frames.npartitions > 3
    whole = frames.compute(scheduler="sync")
    assert len(whole) == 3 * FRAMES
    assert whole.index.is_monotonic_increasing
    for number in range(frames.npartitions):
        part = frames.get_partition(number).compute(scheduler="sync")
        low, high = frames.divisions[number : number + 2]
        assert part.index.min() >= low
        assert part.index.max() <= high
        assert number == frames.npartitions - 1 or part.index.max() < high
    # Each capture has the same frames as in a separate read, also in parts.
    alone = [read_table(path, FIELDS, repeated="first") for path in sorted(folder.iterdir())]
    for name in ("frame.number", "frame.len", "eth.dst", "vlan.id", "frame.protocols"):
        values = sorted(str(value) for table in alone for value in table[name].to_pylist())
        told = whole[name].astype(object)
        assert sorted(str(value) for value in told.where(told.notna(), None)) == values


def test_consecutive_captures_keep_parts_as_partitions(folder: Path) -> None:
    frames = read_captures(
        [folder / "a1.pcap", folder / "a2.pcap"], ["frame.number"], part_octets=PART_OCTETS
    )
    whole = frames.compute(scheduler="sync")
    assert whole["frame.number"].tolist() == 2 * list(range(1, FRAMES + 1))
    parts = sum(-(-(folder / name).stat().st_size // PART_OCTETS) for name in ("a1.pcap", "a2.pcap"))
    assert frames.npartitions == parts
    # Only the requested columns are built, and only the frames of the divisions are read.
    span = frames.loc[whole.index[10] : whole.index[20], "frame.number"].compute(scheduler="sync")
    assert span.tolist() == list(range(11, 22))


def test_a_filter_leaves_frames_out(folder: Path) -> None:
    frames = read_captures(folder / "b.pcapng", ["cnm.qntz_fb"], filter="cnm", part_octets=PART_OCTETS)
    alone = read_table(folder / "b.pcapng", ["cnm.qntz_fb"], filter="cnm")
    assert frames["cnm.qntz_fb"].compute(scheduler="sync").tolist() == alone["cnm.qntz_fb"].to_pylist()


def test_captures_without_frames_are_an_empty_dataframe(tmp_path: Path) -> None:
    PcapWriter(tmp_path / "none.pcap").close()
    assert len(read_captures(tmp_path / "none.pcap", ["frame.len"])) == 0


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    (tmp_path / "no.pcap").write_bytes(b"no capture")
    with pytest.raises(CaptureError, match="expected a pcap or pcapng capture"):
        read_captures(tmp_path)
    with pytest.raises(ParameterError, match="time_delta_displayed"):
        read_captures(REPOSITORY / "pcaps" / "mixed.pcap", ["frame.time_delta_displayed"])
