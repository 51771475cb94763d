"""Whole captures as columns: frames a second beside tshark, dpkt and a hand-written loop, and to a file.

Once 128-octet frames with a VLAN tag, a CN-TAG and a CNM, all the same; once frames that differ in kind,
length and everything else (`bench.varied`).  Files are mapped, and every column is looked at.
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
from bench.varied import frames as different_frames
from bench.varied import write_frames as write_varied
from ecmproto.capture import Batch, open_capture
from ecmproto.columns import Columns, extract
from ecmproto.columns.files import column_batches, write_columns
from ecmproto.kernels.kernel import compiled

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
from ecmproto.columns.files import column_batches
with open_capture(sys.argv[1]) as reader:
    batches = column_batches(reader, sys.argv[2:] or None)
    print(sum(max(column.frames for column in columns.values()) for columns in batches))
"""
_TO_FILE = """
import sys
from ecmproto.columns.files import write_columns
print(write_columns(sys.argv[1], sys.argv[2], force=True))
"""


def run() -> None:
    """Print them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uniform, varied, small = folder / "uniform.pcap", folder / "varied.pcap", folder / "small.pcap"
        write_frames(uniform, FRAMES, message())
        write_frames(small, SLOW_FRAMES, message())
        write_varied(varied, FRAMES)
        matrix = np.tile(np.frombuffer(message(), np.uint8), (BATCH_FRAMES, 1))
        _in_process("128-octet frames, all the same", Batch.from_matrix(matrix), uniform, small)
        _in_process("frames of all kinds", Batch.from_frames(different_frames(BATCH_FRAMES)), varied, None)
        _processes("128-octet frames, all the same", folder, uniform)
        _processes("frames of all kinds", folder, varied)


def _in_process(what: str, batch: Batch, path: Path, small: Path | None) -> None:
    with ThreadPoolExecutor(1) as pool:
        contenders = {
            "all fields of a batch": lambda: _looked_at(extract(batch, pool=pool)),
            "all fields of a batch, one thread": lambda: _looked_at(extract(batch)),
            "CN fields of a batch": lambda: _looked_at(extract(batch, CN_FIELDS, pool=pool)),
            "CN fields of a batch, one thread": lambda: _looked_at(extract(batch, CN_FIELDS)),
            "hand-written loop, CN fields of a batch": lambda: _loop(batch),
            "all fields of a file": lambda: _columns_of(path, None),
            "CN fields of a file": lambda: _columns_of(path, CN_FIELDS),
            "into a Parquet file, all fields that there are": lambda: _write(path, path.with_suffix(".out")),
        }
        if small is not None:
            contenders["dpkt, CN fields of a file"] = lambda: _dpkt(small)
            contenders["tshark -T fields, eth, vlan (process)"] = lambda: _tshark(small)
        show(f"columns of {what}", rates(contenders, rounds=3), "frames/s")


def _looked_at(columns: Columns) -> int:
    """Return the frames that columns have; those without values are made when somebody looks."""
    return max(column.frames for column in columns.values())


def _columns_of(path: Path, fields: tuple[str, ...] | None) -> int:
    with open_capture(str(path)) as reader:
        return sum(_looked_at(columns) for columns in column_batches(reader, fields))


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


def _processes(what: str, folder: Path, million: Path) -> None:
    path = folder / "huge.pcap"
    with million.open("rb") as source, path.open("wb") as file:
        file.write(source.read(24))
        body = source.read()
        for _ in range(PROCESS_FRAMES // FRAMES):
            file.write(body)
    frames = PROCESS_FRAMES // FRAMES * FRAMES
    print(f"\ncolumns of {frames:,} {what}, whole process")
    for name, arguments in {
        "all fields": [_PROCESS + _PEAK, str(path)],
        "CN fields": [_PROCESS + _PEAK, str(path), *CN_FIELDS],
        "into a Parquet file": [_TO_FILE + _PEAK, str(path), str(folder / "out.parquet")],
    }.items():
        start, before = time.perf_counter(), os.times()
        # its own word for its peak: what the kernel counts for a child begins with its parent's
        told = subprocess.run([sys.executable, "-c", *arguments], check=True, capture_output=True, text=True)
        seconds, peak = time.perf_counter() - start, int(told.stdout.split()[-1])
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        print(
            f"  {name:<24} {frames / seconds:>14,.0f} frames/s  {used / seconds:4.2f} cores"
            f"  {frames / used:>12,.0f} a core's second  {peak / 1000:6.0f} MB peak"
        )
