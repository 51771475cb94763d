"""Start-up times of whole processes in seconds."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.captures import message, write_frames

ROUNDS = 7


def run() -> None:
    """Print the start-up times of the library and the command line, and the time for a first small file."""
    command = Path(sys.executable).with_name("ecmproto")
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.pcap"
        write_frames(small, 20, message())
        _show(
            {
                "python -c pass": [sys.executable, "-c", "pass"],
                "python -c 'import ecmproto'": [sys.executable, "-c", "import ecmproto"],
                "python -c 'import scapy.all'": [sys.executable, "-c", "import scapy.all"],
                "ecmproto --help": [str(command), "--help"],
                "ecmproto dissect (20 frames)": [str(command), "dissect", "-r", str(small)],
                "tshark (20 frames)": ["tshark", "-n", "-r", str(small)],
            }
        )


def _show(commands: Mapping[str, Sequence[str]]) -> None:
    seen: dict[str, list[float]] = {name: [] for name in commands}
    environment = {**os.environ, "HOME": tempfile.gettempdir()}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seen[name].append(time.perf_counter() - start)
    print("\nstart-up, whole processes")
    for name, values in seen.items():
        print(f"  {name:<32} {statistics.median(values):6.3f} s   ({min(values):.3f}–{max(values):.3f})")
