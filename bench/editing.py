"""Editing a capture: setting a field in 10 million frames, whole processes, compared with tcprewrite and
editcap.

The programs run alternately in several rounds. The output shows frames per second and processor time, which a
busy machine affects less. tcprewrite sets the destination address, as ecmproto does. editcap cannot set
fields, so editcap shifts times.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.captures import message, write_frames
from bench.memory import peak_kb

FRAMES = int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000"))
ROUNDS = 3
_PART_FRAMES = 1_000_000
_ADDRESS = "02:00:00:00:00:99"


@dataclasses.dataclass(slots=True)
class _Runs:
    """The durations of a command in several rounds, and its processor times."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    processor: list[float] = dataclasses.field(default_factory=list)


def run() -> None:
    """Print the rates."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("ECMPROTO_BENCH_FOLDER")) as folder:
        path, out = Path(folder) / "in.pcap", Path(folder) / "out.pcap"
        parts = max(1, FRAMES // _PART_FRAMES)
        write_frames(path, min(FRAMES, _PART_FRAMES), message())
        body = path.read_bytes()[24:]
        with path.open("ab") as file:
            for _ in range(parts - 1):
                file.write(body)
        del body
        frames = parts * min(FRAMES, _PART_FRAMES)
        ours = [sys.executable, "-m", "ecmproto_cli", "edit", "-r", str(path), "-w", str(out), "--force"]
        commands = {
            "edit --set vlan.id=7": [*ours, "--set", "vlan.id=7"],
            "edit --set eth.dst": [*ours, "--set", f"eth.dst={_ADDRESS}"],
            "edit --shift 1s": [*ours, "--shift", "1s"],
            "tcprewrite --enet-dmac": [
                "tcprewrite", f"--enet-dmac={_ADDRESS}", f"--infile={path}", f"--outfile={out}",
            ],
            "editcap -t 1 (no field)": ["editcap", "-F", "nsecpcap", "-t", "1", str(path), str(out)],
        }  # fmt: skip
        commands = {name: command for name, command in commands.items() if shutil.which(command[0])}
        print(f"\nediting {frames:,} frames, {path.stat().st_size / 1e9:.2f} GB, whole process")
        runs = {name: _Runs() for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                out.unlink(missing_ok=True)
                start, before = time.perf_counter(), os.times()
                subprocess.run(command, check=True, capture_output=True)
                after = os.times()
                runs[name].seconds.append(time.perf_counter() - start)
                used = after.children_user - before.children_user
                runs[name].processor.append(used + after.children_system - before.children_system)
        for name, each in runs.items():
            seconds, processor = statistics.median(each.seconds), statistics.median(each.processor)
            rate, of_core = frames / seconds, frames / processor
            print(f"  {name:<26} {rate:>12,.0f} frames/s  {of_core:>12,.0f} a core's second")
        print(f"  peak of edit --set vlan.id=7: {peak_kb(commands['edit --set vlan.id=7']) / 1000:.0f} MB")
