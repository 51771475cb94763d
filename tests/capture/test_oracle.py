"""Real captures compared with Wireshark's programs: time, lengths, interface and link type of every frame.

Files with one interface are merged and read by one tshark process, because tshark takes longer to start than
to read. All other files are read separately.
"""

from __future__ import annotations

import csv
import io
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Batch, CaptureReader, open_capture
from tests.conftest import SHARED_CAPTURES, requires

Row = tuple[str, str, str, str]

ENCAPSULATIONS = {
    "ether": {1},
    "null": {0},
    "rawip": {12, 14, 101},
    "linux-sll": {113},
    "slip": {8},
    "socketcan": {227},
    "chdlc": {104},
    "frelay": {107},
    "ieee-802-11-radiotap": {127},
}

DIFFERENCES = {
    "dns.pcap.xz": "neither reads xz",
    "dns.pcap.lz4": "tshark reads lz4, we name it and the command to run",
    "sipmsg.log": "a text, refused by both",
    "fuzz.pcap": "tshark guesses another record layout and shows a second frame that is none; "
    "we stop at the impossible length",
    "ns3tcp-": "tshark refuses link types with reserved bits; the records are sound, so we warn and go on",
    "linktype-reserved-field-not-zero.pcap": "the same, with no record",
    "hoobr_juniper3.pcap": "the same, with a link type tshark does not know",
    "vtp_asan-": "tshark does not know link type 182; the records are sound",
    "brcm-tag": "tshark 4.0 does not know link type 281; the records are sound",
    "dsa.pcap": "tshark 4.0 does not know link type 284; the records are sound",
    "pcap-invalid-version-1.pcap": "tshark refuses version 1.4; we warn and read its sound record",
    "pcapng-invalid-vers-2.pcapng": "tshark refuses version 1.1; we warn and read its sound blocks",
}

MANIFEST_MISSES = {
    "dns.pcap.zst": "the manifest's reader did not decompress it",
    "caneth.pcapng.zst": "the manifest's reader did not decompress it",
    "dns.pcap.xz": "the manifest's reader decompressed it",
    "test007.ntar": "counts a block whose length is no multiple of four, as neither we nor tshark do",
}


@dataclass
class Reading:
    """The result of reading a file with ecmproto."""

    rows: list[Row] = field(default_factory=list)
    linktypes: list[int] = field(default_factory=list)
    format: str = ""
    problem: str = ""
    carries: bool = False
    """Whether a fraction of a second is 1 s or more: ecmproto adds it to the seconds, tshark overflows 32
    bits.
    """


def read(path: Path) -> Reading:
    reading = Reading()
    try:
        with open_capture(path) as reader:
            for batch in reader:
                _collect(reading, reader, batch)
            reading.linktypes = [interface.linktype for interface in reader.interfaces]
            reading.format = reader.format
            reading.problem = str(reader.problem or "")
    except CaptureError as error:
        reading.problem = str(error)
    return reading


def _collect(reading: Reading, reader: CaptureReader, batch: Batch) -> None:
    for i in range(len(batch)):
        time_ns = int(batch.time_ns[i])
        # tshark numbers interfaces within a section, we number them over the whole capture.
        interface = reader.interfaces[int(batch.interface[i])].local_index
        row = (f"{time_ns // 10**9}.{time_ns % 10**9:09d}", str(batch.original[i]), str(batch.captured[i]))
        reading.rows.append((*row, str(interface)))
        fraction = int.from_bytes(batch.record(i)[4:8], reader.byte_order)
        reading.carries |= reader.format == "pcap" and fraction >= reader.resolution


def tshark(path: Path) -> list[Row]:
    fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_id", "frame.encap_type"]
    command = [requires("tshark"), "-n", "-r", str(path), "-T", "fields"]
    result = subprocess.run(
        [*command, *(part for f in fields for part in ("-e", f))], capture_output=True, text=True
    )
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    # tshark also lists blocks that hold no frame, without an encapsulation.  A simple packet block has no
    # time, a pcap file no interface.
    return [(row[0] or "0.000000000", row[1], row[2], row[3] or "0") for row in rows if row[4]]


def differs(path: Path) -> bool:
    return any(path.name.startswith(name) for name in DIFFERENCES)


@pytest.fixture(scope="module")
def readings() -> dict[Path, Reading]:
    if not SHARED_CAPTURES.is_dir():
        pytest.skip(f"the real captures are not there: no folder {SHARED_CAPTURES}")
    paths = sorted(path for path in SHARED_CAPTURES.glob("*/*") if path.is_file())
    assert paths
    return {path: read(path) for path in paths}


def merges(reading: Reading) -> bool:
    """Return whether a file can be checked in a merged capture: the file is complete and has one
    interface.
    """
    return len(reading.linktypes) == 1 and not reading.problem


def test_frames_equal_those_of_tshark(readings: dict[Path, Reading], tmp_path: Path) -> None:
    paths = [path for path, reading in readings.items() if merges(reading) and not differs(path)]
    assert len(paths) > 180
    merged = tmp_path / "merged.pcapng"
    command = [requires("mergecap"), "-a", "-I", "none", "-F", "pcapng", "-w", str(merged), *map(str, paths)]
    subprocess.run(command, check=True, capture_output=True)
    theirs = iter(tshark(merged))
    for index, path in enumerate(paths):
        start = 1 if readings[path].carries else 0
        for ours in readings[path].rows:
            # In the merged file each file is one interface.
            assert next(theirs)[start:] == (*ours[:3], str(index))[start:], path
    assert list(theirs) == []


def test_frames_of_unmergeable_files_equal_tsharks(readings: dict[Path, Reading]) -> None:
    requires("tshark")
    paths = [path for path, reading in readings.items() if not merges(reading) and not differs(path)]
    assert len(paths) > 20
    with ThreadPoolExecutor(2) as pool:
        for path, theirs in zip(paths, pool.map(tshark, paths), strict=True):
            assert readings[path].rows == theirs, path


def test_counts_and_link_types_equal_capinfos(readings: dict[Path, Reading]) -> None:
    command = [requires("capinfos"), "-T", "-m", "-r", "-Q", "-c", "-E", *map(str, readings)]
    table = subprocess.run(command, capture_output=True, text=True).stdout
    compared = 0
    for name, encapsulation, count in csv.reader(io.StringIO(table)):
        ours = readings[Path(name)]
        if differs(Path(name)):
            continue
        assert len(ours.rows) == int(count), name
        if encapsulation in ENCAPSULATIONS:
            assert set(ours.linktypes) <= ENCAPSULATIONS[encapsulation], name
            compared += 1
    assert compared > 200


def test_counts_equal_those_of_the_manifest(readings: dict[Path, Reading]) -> None:
    with (SHARED_CAPTURES / "MANIFEST.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            ours = len(readings[SHARED_CAPTURES / row["file"]].rows)
            misses = Path(row["file"]).name in MANIFEST_MISSES
            assert (ours != int(row["frames"])) == misses, row["file"]


def test_every_listed_difference_still_exists(readings: dict[Path, Reading]) -> None:
    requires("tshark")
    paths = [path for path in readings if differs(path)]
    for name in DIFFERENCES:
        assert any(path.name.startswith(name) for path in paths), name
    one_of_each = list({next(n for n in DIFFERENCES if p.name.startswith(n)): p for p in paths}.values())
    with ThreadPoolExecutor(2) as pool:
        for path, theirs in zip(one_of_each, pool.map(tshark, one_of_each), strict=True):
            ours = readings[path]
            assert theirs != ours.rows or ours.problem or not ours.rows, path
