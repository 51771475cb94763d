"""Statistics of captures: frames per second of whole processes, compared with capinfos and tshark.

The captures repeat the bundled frames of every type, with a frame per 800 ns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ecmproto.frames.capture import Batch, PcapWriter, open_capture
from pcaps.manifest import FOLDER

FRAMES = (1_000_000, int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000")))
SLOW_FRAMES = 100_000
GAP_NS = 800
_PIECE_FRAMES = 100_000


def varied_frames() -> list[bytes]:
    """Return the frames of the bundled captures with frames of each type, with IPv4 frames between them."""
    frames = []
    for name in ("mixed.pcap", "qcn_cp.pcapng", "pfc.pcap", "fecn_source.pcap", "vlan_stacks.pcap"):
        with open_capture(FOLDER / name) as reader:
            frames += [frame for batch in reader for frame in batch.frames()]
    return frames


def write_varied(path: Path, frames: int) -> None:
    """Write a pcap of ``frames`` varied frames."""
    write_frames(path, varied_frames(), frames)


def write_frames(path: Path, kinds: Sequence[bytes], frames: int) -> None:
    """Write a pcap with ``frames`` random frames from ``kinds``."""
    chosen = np.random.default_rng(1).integers(0, len(kinds), _PIECE_FRAMES)
    piece = [kinds[index] for index in chosen.tolist()]
    with PcapWriter(path, force=True) as writer:
        for first in range(0, frames, _PIECE_FRAMES):
            count = min(_PIECE_FRAMES, frames - first)
            times = 10**18 + GAP_NS * np.arange(first, first + count)
            writer.write_batch(Batch.from_frames(piece[:count], time_ns=times))


def run() -> None:
    """Print the speeds."""
    ours = [str(Path(sys.executable).with_name("ecmproto")), "stats", "-r"]
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.pcap"
        write_varied(small, SLOW_FRAMES)
        measure([*ours, str(small)], 0)  # compiles
        for frames in FRAMES:
            path = Path(folder) / "large.pcap"
            write_varied(path, frames)
            print(f"\nstatistics of {frames:,} varied frames, whole process ({path.stat().st_size:,} octets)")
            _show("ecmproto stats", [*ours, str(path)], frames)
            _show("capinfos", ["capinfos", str(path)], frames)
        for name in ("io,phs", "io,stat,0.01"):
            _show(f"tshark -q -z {name}", ["tshark", "-n", "-q", "-r", str(small), "-z", name], SLOW_FRAMES)


def _show(name: str, command: Sequence[str], frames: int) -> None:
    seconds, cpu_s, peak_mb = measure(command, 2)
    print(
        f"  {name:<26} {frames / seconds:>14,.0f} frames/s {frames / cpu_s:>14,.0f} a CPU second "
        f"{peak_mb:6.0f} MB peak"
    )


def measure(command: Sequence[str], again: int, *, exits: Sequence[int] = (0,)) -> tuple[float, float, float]:
    """Return the best wall time, the best processor time and the peak memory of several runs.

    ``exits`` are exit codes that are not failures.
    """
    runs = []
    for _ in range(1 + again):
        start = time.perf_counter()
        with open(os.devnull, "wb") as nothing:
            process = subprocess.Popen(command, stdout=nothing, stderr=nothing)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in exits:
            raise subprocess.CalledProcessError(process.returncode, command)
        runs.append((time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000))
    return min(run[0] for run in runs), min(run[1] for run in runs), max(run[2] for run in runs)
