"""Frames in mirrors: `stats` and `dissect`, of all layers and of inner frames, with one and two wrappers,
compared with bare frames and tshark.

The captures contain the varied frames of ``bench.stats``: bare, in ERSPAN II, and in ERSPAN II within VXLAN.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.stats import measure, varied_frames, write_frames
from ecmproto import encode
from ecmproto.tools.craft import build

FRAMES = int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000"))
SLOW_FRAMES = 100_000
FIELDS = ("eth.dst", "ip.src", "cnm.qntz_fb")
_ROUNDS = 3


def in_erspan(frame: bytes) -> bytes:
    """Return a frame wrapped in ERSPAN II with session 12."""
    wrapped = struct.pack("!HHIHHI", 0x1000, 0x88BE, 0, 0x1000, 12, 0) + frame
    return encode(build(f"ip proto=47 data data={wrapped.hex()}"))


def in_vxlan(frame: bytes) -> bytes:
    """Return a frame wrapped in VXLAN with VNI 77."""
    wrapped = struct.pack("!II", 8 << 24, 77 << 8) + frame
    return encode(build(f"ip udp dstport=4789 data data={wrapped.hex()}"))


WRAPPED: dict[str, Callable[[bytes], bytes]] = {
    "bare": bytes,
    "in ERSPAN II": in_erspan,
    "in ERSPAN II in VXLAN": lambda frame: in_vxlan(in_erspan(frame)),
}


def run() -> None:
    """Print the rates by processor time, and their ratios to the rate of bare frames."""
    program = str(Path(sys.executable).with_name("ecmproto"))
    fields = [option for name in FIELDS for option in ("-e", name)]
    commands = {
        "ecmproto stats": [program, "stats", "-r"],
        "ecmproto dissect --inner -T fields": [program, "dissect", "--inner", "-T", "fields", *fields, "-r"],
        "ecmproto dissect -T fields": [program, "dissect", "-T", "fields", *fields, "-r"],
        "ecmproto dissect": [program, "dissect", "-r"],
    }
    frames = varied_frames()
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[str, Path] = {}
        for name, wrap in WRAPPED.items():
            paths[name] = Path(folder) / f"{len(paths)}.pcap"
            write_frames(paths[name], [wrap(frame) for frame in frames], FRAMES)
        for title, command in commands.items():
            print(f"\n{title}, {FRAMES:,} varied frames, whole process")
            _show(command, paths)
        small = Path(folder) / "small.pcap"
        print(f"\n{SLOW_FRAMES:,} of them")
        for name, wrap in WRAPPED.items():
            write_frames(small, [wrap(frame) for frame in frames], SLOW_FRAMES)
            _, cpu_s, _ = measure(["tshark", "-n", "-r", str(small), "-T", "fields", *fields[:4]], 1)
            print(f"  tshark -T fields, {name:<24} {SLOW_FRAMES / cpu_s:>14,.0f} frames a CPU second")


def _show(command: Sequence[str], paths: dict[str, Path]) -> None:
    """Measure a command on each capture alternately, and print the best results."""
    best = dict.fromkeys(paths, float("inf"))
    peak_mb = 0.0
    for _ in range(_ROUNDS):
        for name, path in paths.items():
            _, cpu_s, peak = measure([*command, str(path)], 0)
            best[name], peak_mb = min(best[name], cpu_s), max(peak_mb, peak)
    for name, cpu_s in best.items():
        print(
            f"  {name:<24} {FRAMES / cpu_s:>14,.0f} frames a CPU second  {best['bare'] / cpu_s:5.2f} × bare"
        )
    print(f"  {peak_mb:.0f} MB at most")
