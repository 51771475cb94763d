"""Rotating capture files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.live.monitor import Rotation
from ecmproto.errors import OutputError
from ecmproto.frames.capture import Batch, Interface, open_capture

ETHERNET = [Interface(index=0, linktype=1, name="eth0")]


def batches(lengths: list[list[int]], every_ns: int) -> list[Batch]:
    """Return batches of frames with these lengths and different octets, ``every_ns`` apart."""
    made = []
    first = 0
    for part in lengths:
        frames = [bytes([(first + i) & 255]) * length for i, length in enumerate(part)]
        times = 10**18 + (first + np.arange(len(part))) * every_ns
        made.append(Batch.from_frames(frames, time_ns=times, first=first))
        first += len(part)
    return made


def written(folder: Path) -> list[list[tuple[bytes, int]]]:
    """Return the frames and times of each file, in the order of names."""
    files = []
    for path in sorted(folder.iterdir()):
        with open_capture(path) as reader:
            files.append([
                (octets, int(time_ns))
                for batch in reader
                for octets, time_ns in zip(batch.frames(), batch.time_ns, strict=True)
            ])  # fmt: skip
            assert reader.problem is None
    return files


LENGTHS = st.lists(st.lists(st.integers(0, 300), max_size=12), max_size=5)


@pytest.mark.parametrize("suffix", ["pcapng", "pcap"])
@given(lengths=LENGTHS, octets=st.integers(1, 1000), every_ns=st.integers(0, 10), span_ns=st.integers(1, 100))
def test_rotated_files_keep_limits_and_all_frames(
    suffix: str, lengths: list[list[int]], octets: int, every_ns: int, span_ns: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("turns")
    given = batches(lengths, every_ns)
    with Rotation(folder / f"x.{suffix}", ETHERNET, octets=octets, span_ns=span_ns) as rotation:
        for batch in given:
            rotation.write(batch)
    files = written(folder)
    everything = [
        (frame, int(time_ns))
        for batch in given
        for frame, time_ns in zip(batch.frames(), batch.time_ns, strict=True)
    ]
    assert [each for file in files for each in file] == everything
    assert rotation.frames == len(everything)
    sizes = [[size(len(frame), suffix) for frame, _ in file] for file in files]
    for file, records in zip(files, sizes, strict=True):
        assert HEADS[suffix] + sum(records) <= octets or len(file) <= 1
        assert not file or file[-1][1] - file[0][1] < span_ns
    for (file, records), (following, next_records) in zip(
        zip(files, sizes, strict=True), list(zip(files, sizes, strict=True))[1:], strict=False
    ):
        full = HEADS[suffix] + sum(records) + next_records[0] > octets
        assert full or following[0][1] - file[0][1] >= span_ns, "no file ends before it has to"


HEADS = {"pcap": 24, "pcapng": 84}
"""Octets in front of the first frame, where the interface is eth0 and no more."""


def size(captured: int, suffix: str) -> int:
    return captured + 16 if suffix == "pcap" else (captured + 3) // 4 * 4 + 32


def test_without_limits_there_is_one_file(tmp_path: Path) -> None:
    with Rotation(tmp_path / "x.pcapng", ETHERNET) as rotation:
        for batch in batches([[60] * 1000] * 3, 10**9):
            rotation.write(batch)
    assert [path.name for path in tmp_path.iterdir()] == ["x.pcapng"]
    assert list(rotation.files) == [str(tmp_path / "x.pcapng")]
    assert len(written(tmp_path)[0]) == 3000


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"octets": 24 + 2 * (60 + 16)}, [2, 2, 1]),
        ({"octets": 24 + 2 * (60 + 16) - 1}, [1, 1, 1, 1, 1]),
        ({"span_ns": 20}, [2, 2, 1]),
        ({"span_ns": 21}, [3, 2]),
        ({"octets": 24 + 2 * (60 + 16), "span_ns": 41}, [2, 2, 1]),
    ],
)
def test_files_are_filled_up_to_the_limit(options: dict[str, int], counts: list[int], tmp_path: Path) -> None:
    with Rotation(
        tmp_path / "x.pcap", ETHERNET, octets=options.get("octets"), span_ns=options.get("span_ns")
    ) as rotation:
        for batch in batches([[60] * 5], 10):
            rotation.write(batch)
    assert [len(file) for file in written(tmp_path)] == counts


def test_the_oldest_files_are_deleted(tmp_path: Path) -> None:
    with Rotation(tmp_path / "x.pcap.gz", ETHERNET, octets=200, keep=2) as rotation:
        for batch in batches([[60] * 20], 1):
            rotation.write(batch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x_00009.pcap.gz", "x_00010.pcap.gz"]
    assert [len(file) for file in written(tmp_path)] == [2, 2]
    assert [Path(name).name for name in rotation.files] == ["x_00009.pcap.gz", "x_00010.pcap.gz"]


def test_interfaces_are_described_in_every_file(tmp_path: Path) -> None:
    with Rotation(tmp_path / "x.pcapng", ETHERNET, octets=200) as rotation:
        for batch in batches([[60] * 4], 1):
            rotation.write(batch)
    for path in tmp_path.iterdir():
        with open_capture(path) as reader:
            list(reader)
            assert [each.name for each in reader.interfaces] == ["eth0"]


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x_00002.pcapng").write_bytes(b"mine")
    with (
        pytest.raises(OutputError, match="a file of that name"),
        Rotation(tmp_path / "x.pcapng", ETHERNET, octets=100) as rotation,
    ):
        rotation.write(batches([[60] * 4], 1)[0])
    assert (tmp_path / "x_00002.pcapng").read_bytes() == b"mine"
    assert (tmp_path / "x_00001.pcapng").exists()


def test_an_interrupted_file_is_kept_as_partial(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Rotation(tmp_path / "x.pcapng", ETHERNET) as rotation:
            rotation.write(batches([[60] * 4], 1)[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (partial,) = tmp_path.iterdir()
    assert partial.name.endswith(".partial")
    with open_capture(partial) as reader:
        assert sum(len(batch) for batch in reader) == 4


def test_mixed_link_types_are_refused_in_pcap(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="write pcapng instead"):
        Rotation(tmp_path / "x.pcap", [*ETHERNET, Interface(index=1, linktype=101)])


@pytest.mark.parametrize("suffix", ["pcapng", "pcap"])
def test_no_file_exceeds_the_size_limit(suffix: str, tmp_path: Path) -> None:
    with Rotation(tmp_path / f"x.{suffix}", ETHERNET, octets=1000) as rotation:
        for batch in batches([[60] * 100], 1):
            rotation.write(batch)
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert max(sizes) <= 1000
    assert min(sizes[:-1]) > 1000 - size(60, suffix)
