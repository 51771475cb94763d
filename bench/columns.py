"""Whole captures as columns: frames a second beside tshark, dpkt and a hand-written loop, and to a file.

The capture is of 128-octet frames with a VLAN tag, a CN-TAG and a CNM, in a file that is mapped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dpkt
import numpy as np
from numpy.typing import NDArray

from bench.captures import message, write_frames
from bench.contest import rates, show
from ecmproto.capture import Batch, open_capture
from ecmproto.kernel import compiled
from ecmproto.table.columns import extract
from ecmproto.table.columns.capture import column_batches
from ecmproto.table.columns.files import write_columns

FRAMES = 1_000_000
SLOW_FRAMES = 50_000
BATCH_FRAMES = 1 << 17
PROCESS_FRAMES = int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000"))
CN_FIELDS = ("cntag.flow_id", "cnm.qntz_fb", "cnm.cpid", "cnm.q_offset", "cnm.q_delta")

_PEAK = """
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
_PROCESS = """
import sys
from ecmproto.capture import open_capture
from ecmproto.table.columns.capture import column_batches
with open_capture(sys.argv[1]) as reader:
    print(sum(columns.frames for columns in column_batches(reader, sys.argv[2:] or None)))
"""
_TO_FILE = """
import sys
from ecmproto.table.columns.files import write_columns
print(write_columns(sys.argv[1], sys.argv[2], force=True))
"""


def run() -> None:
    """Print them."""
    with tempfile.TemporaryDirectory() as folder:
        _in_process(Path(folder))
        _processes(Path(folder))


def _in_process(folder: Path) -> None:
    large, small = folder / "large.pcap", folder / "small.pcap"
    write_frames(large, FRAMES, message())
    write_frames(small, SLOW_FRAMES, message())
    matrix = np.tile(np.frombuffer(message(), np.uint8), (BATCH_FRAMES, 1))
    batch = Batch.from_matrix(matrix)
    with ThreadPoolExecutor(1) as pool:
        contenders = {
            "all fields of a batch": lambda: extract(batch, pool=pool).frames,
            "all fields of a batch, one thread": lambda: extract(batch).frames,
            "CN fields of a batch": lambda: extract(batch, CN_FIELDS, pool=pool).frames,
            "hand-written loop, CN fields of a batch": lambda: _loop(batch),
            "all fields of a file": lambda: _columns_of(large, None),
            "CN fields of a file": lambda: _columns_of(large, CN_FIELDS),
            "into a Parquet file, all fields that there are": lambda: _write(large, folder / "out"),
            "dpkt, CN fields of a file": lambda: _dpkt(small),
            "tshark -T fields, eth, vlan (process)": lambda: _tshark(small),
        }
        show("columns of 128-octet frames", rates(contenders, rounds=3), "frames/s")


def _columns_of(path: Path, fields: tuple[str, ...] | None) -> int:
    with open_capture(str(path)) as reader:
        return sum(columns.frames for columns in column_batches(reader, fields))


def _write(path: Path, out: Path) -> int:
    return write_columns(str(path), str(out), force=True)


def _loop(batch: Batch) -> int:
    """Read the CN fields with what one would write for these frames alone."""
    count = len(batch)
    _hand_written(
        batch.buffer, batch.offset, np.empty(count, np.uint16), np.empty(count, np.uint8),
        np.empty(count, np.uint64), np.empty(count, np.int16), np.empty(count, np.int16),
    )  # fmt: skip
    return count


@compiled
def _hand_written(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    flow_id: NDArray[np.uint16],
    feedback: NDArray[np.uint8],
    cpid: NDArray[np.uint64],
    q_offset: NDArray[np.int16],
    q_delta: NDArray[np.int16],
) -> None:
    for i in range(len(offset)):
        at = offset[i] + 12
        while buffer[at] == 0x81 and buffer[at + 1] == 0:
            at += 4
        if buffer[at] == 0x22 and buffer[at + 1] == 0xE9:
            flow_id[i] = (np.uint16(buffer[at + 2]) << 8) | buffer[at + 3]
            at += 4
        if buffer[at] == 0x22 and buffer[at + 1] == 0xE7:
            feedback[i] = buffer[at + 3] & 63
            number = np.uint64(0)
            for octet in range(at + 4, at + 12):
                number = (number << np.uint64(8)) | np.uint64(buffer[octet])
            cpid[i] = number
            q_offset[i] = np.int16((np.uint16(buffer[at + 12]) << 8) | buffer[at + 13])
            q_delta[i] = np.int16((np.uint16(buffer[at + 14]) << 8) | buffer[at + 15])


def _dpkt(path: Path) -> int:
    count = 0
    with path.open("rb") as file:
        for _, octets in dpkt.pcap.Reader(file):
            frame = dpkt.ethernet.Ethernet(octets)
            rest = bytes(frame.data)
            if frame.type == 0x22E9:
                assert rest[:2]
            count += 1
    return count


def _tshark(path: Path) -> int:
    fields = ["frame.number", "eth.dst", "eth.src", "eth.type", "vlan.id", "vlan.priority", "vlan.etype"]
    options = [word for field in fields for word in ("-e", field)]
    subprocess.run(
        ["tshark", "-n", "-r", str(path), "-T", "fields", *options], check=True, capture_output=True
    )
    return SLOW_FRAMES


def _processes(folder: Path) -> None:
    path = folder / "huge.pcap"
    write_frames(path, FRAMES, message())
    with path.open("r+b") as file:
        body = file.read()[24:]
        for _ in range(PROCESS_FRAMES // FRAMES - 1):
            file.write(body)
    frames = PROCESS_FRAMES // FRAMES * FRAMES
    print(f"\ncolumns of {frames:,} frames, whole process")
    for name, arguments in {
        "all fields": [_PROCESS + _PEAK, str(path)],
        "CN fields": [_PROCESS + _PEAK, str(path), *CN_FIELDS],
        "into a Parquet file": [_TO_FILE + _PEAK, str(path), str(folder / "out.parquet")],
    }.items():
        start = time.perf_counter()
        # its own word for its peak: what the kernel counts for a child begins with its parent's
        told = subprocess.run([sys.executable, "-c", *arguments], check=True, capture_output=True, text=True)
        seconds, peak = time.perf_counter() - start, int(told.stdout.split()[-1])
        print(f"  {name:<24} {frames / seconds:>14,.0f} frames/s  {peak / 1000:6.0f} MB peak")
