"""Differences between captures: frames per second of whole processes, compared with tshark and diff.

The second capture is a copy of the first capture with times from another clock. One frame in a thousand is
missing, and one frame in five thousand has a flipped bit. tshark writes a line of fields per frame for each
capture, and diff compares the lines.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.stats import SLOW_FRAMES, measure, write_varied
from ecmproto.frames.capture import PcapWriter, open_capture

FRAMES = (1_000_000, int(os.environ.get("ECMPROTO_BENCH_FRAMES", "5000000")))
_FIELDS = (
    "frame.len", "eth.src", "eth.dst", "eth.type", "vlan.id", "ip.src", "ip.dst", "ip.id", "ip.ttl",
    "udp.srcport", "udp.dstport", "data.data",
)  # fmt: skip


def write_edited(source: Path, path: Path) -> None:
    """Write a copy of a pcap with times from another clock, missing frames and changed frames."""
    with open_capture(source) as reader, PcapWriter(path, force=True) as writer:
        for batch in reader:
            low, high = int(batch.offset[0]), int(batch.offset[-1] + batch.captured[-1])
            buffer = batch.buffer[low:high].copy()
            offset, numbers = batch.offset - low, batch.numbers
            buffer[offset[numbers % 5000 == 77] + 20] ^= 1
            edited = dataclasses.replace(
                batch, buffer=buffer, offset=offset, record_offset=offset, record_length=batch.captured,
                records=None, time_ns=batch.time_ns + 1500,
            )  # fmt: skip
            writer.write_batch(edited.select(np.flatnonzero(numbers % 1000 != 7)))


def run() -> None:
    """Print the speeds."""
    ours = [str(Path(sys.executable).with_name("ecmproto")), "diff"]
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder) / "one.pcap", Path(folder) / "other.pcap"
        for frames in (SLOW_FRAMES, *FRAMES):
            write_varied(one, frames)
            write_edited(one, other)
            print(f"\ndifferences of two captures of {frames:,} varied frames, whole process")
            for name, pair, options in (
                ("ecmproto diff", (one, other), []),
                ("ecmproto diff --ignore ip.ttl", (one, other), ["--ignore", "ip.ttl"]),
                ("ecmproto diff, the same file", (one, one), []),
            ):
                _show(name, [*ours, *map(str, pair), "--stat", *options], frames)
            if frames == SLOW_FRAMES:
                fields = " ".join(f"-e {name}" for name in _FIELDS)
                parts = [f"tshark -n -r {path} -T fields {fields} > {path}.txt" for path in (one, other)]
                command = "; ".join([*parts, f"diff {one}.txt {other}.txt"])
                _show("tshark -T fields twice, diff", ["sh", "-c", command], frames)


def _show(name: str, command: list[str], frames: int) -> None:
    seconds, cpu_s, peak_mb = measure(command, 2, exits=(0, 1))
    print(
        f"  {name:<30} {frames / seconds:>12,.0f} frames/s of each {frames / cpu_s:>12,.0f} a CPU second "
        f"{peak_mb:6.0f} MB peak"
    )
