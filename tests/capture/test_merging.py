"""Several captures read as one: all frames in time order, with separate interfaces for each capture."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import (
    CaptureCopier,
    Interface,
    PcapngWriter,
    PcapWriter,
    comments,
    open_capture,
    open_captures,
)
from tests.conftest import requires


def write_pcap(path: Path, times_ns: list[int], mark: int, *, resolution: str = "ns") -> Path:
    with PcapWriter(path, resolution="us" if resolution == "us" else "ns") as writer:
        for number, time_ns in enumerate(times_ns):
            writer.write_frame(bytes([mark, number]) * 30, time_ns)
    return path


def write_pcapng(path: Path, times_ns: list[int], mark: int, *, byte_order: str = "little") -> Path:
    interfaces = [
        Interface(index=0, linktype=1, name=f"{mark}a"),
        Interface(index=1, linktype=1, name=f"{mark}b"),
    ]
    order = "big" if byte_order == "big" else "little"
    with PcapngWriter(path, interfaces=interfaces, byte_order=order) as writer:  # type: ignore[arg-type]
        for number, time_ns in enumerate(times_ns):
            octets = bytes([mark, number]) * 30
            writer.write_frame(octets, time_ns, interface=number % 2, comment=f"{mark}-{number}")
    return path


def read(paths: list[Path], *, batch_frames: int = 65536) -> list[tuple[int, bytes, str, tuple[str, ...]]]:
    found: list[tuple[int, bytes, str, tuple[str, ...]]] = []
    with open_captures(paths, batch_frames=batch_frames) as reader:
        for batch in reader:
            assert batch.numbers.tolist() == list(range(len(found), len(found) + len(batch)))
            found += [
                (
                    int(time),
                    batch.frame(i),
                    reader.interfaces[int(batch.interface[i])].name,
                    comments(batch, i),
                )
                for i, time in enumerate(batch.time_ns)
            ]
        assert reader.problem is None
    return found


@pytest.mark.parametrize("batch_frames", [1, 3, 1000])
def test_merged_frames_are_in_order_of_time(tmp_path: Path, batch_frames: int) -> None:
    rng = np.random.default_rng(batch_frames)
    times = [np.sort(rng.integers(0, 200, 40)).tolist() for _ in range(3)]
    one = write_pcap(tmp_path / "one.pcap", times[0], 1)
    two = write_pcapng(tmp_path / "two.pcapng", times[1], 2)
    three = write_pcapng(tmp_path / "three.pcapng", times[2], 3, byte_order="big")
    found = read([one, two, three], batch_frames=batch_frames)
    assert len(found) == 120
    # of the same time, in the order in which the files are named
    assert [(time, octets[0]) for time, octets, _, _ in found] == sorted(
        (time, mark) for mark, each in enumerate(times, 1) for time in each
    )
    for mark in (1, 2, 3):
        assert [octets[1] for _, octets, _, _ in found if octets[0] == mark] == list(range(40))
    names = {(octets[0], octets[1] % 2): name for _, octets, name, _ in found}
    assert names == {(1, 0): "", (1, 1): "", (2, 0): "2a", (2, 1): "2b", (3, 0): "3a", (3, 1): "3b"}
    assert all(said == (f"2-{octets[1]}",) for _, octets, _, said in found if octets[0] == 2)


def test_a_file_with_decreasing_times_keeps_order(tmp_path: Path) -> None:
    one = write_pcap(tmp_path / "one.pcap", [10, 50, 20, 60], 1)
    two = write_pcap(tmp_path / "two.pcap", [30, 55], 2)
    assert [time for time, *_ in read([one, two], batch_frames=2)] == [10, 30, 50, 20, 55, 60]


def test_a_merged_copy_equals_that_of_mergecap(tmp_path: Path) -> None:
    paths = [
        write_pcap(tmp_path / "one.pcap", [10_000, 30_000, 50_000], 1, resolution="us"),
        write_pcapng(tmp_path / "two.pcapng", [5_000, 29_000, 70_000], 2),
        write_pcapng(tmp_path / "three.pcapng", [1_000, 30_001, 60_000], 3, byte_order="big"),
    ]
    copy, theirs = tmp_path / "copy.pcapng", tmp_path / "theirs.pcapng"
    with open_captures(paths) as reader, CaptureCopier(reader, copy) as copier:
        for item in reader.items():
            copier.write(item)
    assert [time for time, *_ in read([copy])] == sorted(time for time, *_ in read(paths))
    subprocess.run([requires("mergecap"), "-I", "none", "-w", theirs, *paths], check=True)
    ours = read([copy])
    assert [each[:2] for each in ours] == [each[:2] for each in read([theirs])]
    fields = [requires("tshark"), "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.comment"]
    shown = [
        subprocess.run([*fields, "-r", path], check=True, capture_output=True).stdout
        for path in (copy, theirs)
    ]
    told = [[line.split(b"\t")[0] for line in text.splitlines()] for text in shown]
    assert told[0] == told[1]
    assert shown[0].count(b"2-") == 3
    with open_capture(copy) as reader:
        list(reader)
        assert [each.name for each in reader.interfaces] == ["", "2a", "2b", "3a", "3b"]


def test_a_truncated_file_is_merged_until_its_end(tmp_path: Path) -> None:
    one = write_pcap(tmp_path / "one.pcap", [10, 30], 1)
    two = write_pcap(tmp_path / "two.pcap", [20, 40], 2)
    one.write_bytes(one.read_bytes()[:-1])
    with open_captures([one, two]) as reader:
        assert [int(time) for batch in reader for time in batch.time_ns] == [10, 20, 40]
        assert reader.problem is not None
        assert str(reader.problem).startswith(str(one))


def test_a_missing_file_is_refused_before_reading(tmp_path: Path) -> None:
    one, none = write_pcap(tmp_path / "one.pcap", [10], 1), tmp_path / "none.pcap"
    with pytest.raises(CaptureError, match="expected a readable capture file"):
        open_captures([one, none])
