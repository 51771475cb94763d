"""Memory: the peak resident size of ``dissect -T line`` on a capture of 2 GB."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.captures import message, write_frames

OCTETS = 2_000_000_000
CHUNK_FRAMES = 500_000


def run() -> None:
    """Print the peak memory of dissecting the first frames of 2 GB, and of copying all frames."""
    command = str(Path(sys.executable).with_name("ecmproto"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.pcap"
        write_frames(path, CHUNK_FRAMES, message())
        body = path.read_bytes()[24:]
        with path.open("ab") as file:
            while file.tell() < OCTETS:
                file.write(body)
        frames = (path.stat().st_size - 24) // (128 + 16)
        print(f"\nmemory over a capture of {path.stat().st_size:,} octets, {frames:,} frames")
        for name, arguments in {
            "dissect -T line": ["-T", "line"],
            "dissect -T fields -e frame.len": ["-T", "fields", "-e", "frame.len"],
        }.items():
            peak = peak_kb([command, "dissect", "-r", str(path), *arguments])
            print(f"  {name:<32} {peak / 1000:8.0f} MB peak")


def peak_kb(command: list[str]) -> int:
    """Return the peak resident size of a process in kB; its output is discarded."""
    with open(os.devnull, "wb") as nothing:
        process = subprocess.Popen(command, stdout=nothing)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss
