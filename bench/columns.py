"""Whole captures as columns: frames per second of ecmproto, tshark, dpkt and hand-written loops.

The first capture repeats a 128-octet frame with a VLAN tag, a CN-TAG and a CNM. The frames of the second
capture differ in type, length and contents (`bench.varied`). Files are mapped into memory, and every column
is computed.
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

from bench import columns_by_hand as by_hand
from bench.captures import message, write_frames
from bench.columns_by_hand import CN_FIELDS, FIELDS
from bench.contest import rates, show
from bench.varied import frames as different_frames
from bench.varied import write_frames as write_varied
from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.columns import Columns, extract
from ecmproto.frames.columns.files import column_batches, write_columns

FRAMES = 1_000_000
SLOW_FRAMES = 50_000
BATCH_FRAMES = 1 << 17
PROCESS_FRAMES = int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000"))

_PEAK = """
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
_PROCESS = """
import sys
from ecmproto.frames.capture import open_capture
from ecmproto.frames.columns.files import column_batches
with open_capture(sys.argv[1]) as reader:
    batches = column_batches(reader, sys.argv[2:] or None)
    print(sum(max(column.frames for column in columns.values()) for columns in batches))
"""
_TO_FILE = """
import sys
from ecmproto.frames.columns.files import write_columns
print(write_columns(sys.argv[1], sys.argv[2], force=True))
"""


def run() -> None:
    """Print the speeds."""
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


def _beside_hand(what: str, batch: Batch) -> None:
    """Compare the values and the speed of ecmproto with hand-written loops, on one thread each."""
    loops = {"CN fields": (CN_FIELDS, by_hand.cn_fields), "fields of headers": (FIELDS, by_hand.all_fields)}
    for name, (fields, loop) in loops.items():
        by_hand.check(loop(batch), extract(batch, fields))
        contenders = {
            "ecmproto": lambda fields=fields: _looked_at(extract(batch, fields)),
            "by hand": lambda loop=loop: len(loop(batch)) and len(batch),
        }
        figures = rates(contenders)
        show(f"{len(fields)} {name} of a batch of {what}, one thread", figures, "frames/s")
        print(f"  by hand takes 1 / {figures['by hand'].median / figures['ecmproto'].median:.2f} of the time")


def _in_process(what: str, batch: Batch, path: Path, small: Path | None) -> None:
    _beside_hand(what, batch)
    with ThreadPoolExecutor(1) as pool:
        contenders = {
            "all fields of a batch": lambda: _looked_at(extract(batch, pool=pool)),
            "all fields of a batch, one thread": lambda: _looked_at(extract(batch)),
            "CN fields of a batch": lambda: _looked_at(extract(batch, CN_FIELDS, pool=pool)),
            "CN fields of a batch, one thread": lambda: _looked_at(extract(batch, CN_FIELDS)),
            "all fields of a file": lambda: _columns_of(path, None),
            "CN fields of a file": lambda: _columns_of(path, CN_FIELDS),
            "into a Parquet file, all fields that there are": lambda: _write(path, path.with_suffix(".out")),
        }
        if small is not None:
            contenders["dpkt, CN fields of a file"] = lambda: _dpkt(small)
            contenders["tshark -T fields, eth, vlan (process)"] = lambda: _tshark(small)
        show(f"columns of {what}", rates(contenders, rounds=3), "frames/s")


def _looked_at(columns: Columns) -> int:
    """Return the number of frames in columns, and compute columns that are computed on demand."""
    return max(column.frames for column in columns.values())


def _columns_of(path: Path, fields: tuple[str, ...] | None) -> int:
    with open_capture(str(path)) as reader:
        return sum(_looked_at(columns) for columns in column_batches(reader, fields))


def _write(path: Path, out: Path) -> int:
    return write_columns(str(path), str(out), force=True)


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
        # The process reports its own peak, because the kernel's value for a child starts at the parent's
        # peak.
        told = subprocess.run([sys.executable, "-c", *arguments], check=True, capture_output=True, text=True)
        seconds, peak = time.perf_counter() - start, int(told.stdout.split()[-1])
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        print(
            f"  {name:<24} {frames / seconds:>14,.0f} frames/s  {used / seconds:4.2f} cores"
            f"  {frames / used:>12,.0f} a core's second  {peak / 1000:6.0f} MB peak"
        )
