"""All rules over large captures: frames per second of whole processes, compared with ``ecmproto stats`` and
tshark.

The first capture resembles a congested port: tagged data from eight sources, with a CNM per hundred frames
and a PFC frame per thousand frames. The second capture repeats the bundled frames of every type, as in
`bench.stats`. Nearly every frame of the second capture is a message, and most messages break a rule.
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

from bench.stats import GAP_NS, write_varied
from ecmproto.frames.capture import Batch, PcapWriter
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode

FRAMES = int(os.environ.get("ECMPROTO_BENCH_FRAMES", "5000000"))
SMALL_FRAMES, SLOW_FRAMES = 20_000, 100_000
_PIECE_FRAMES = 100_000


def write_port(path: Path, frames: int) -> None:
    """Write a pcap with ``frames`` small frames that resemble the frames of a congested port."""
    sources = [f"02:00:00:00:00:{each:02x}" for each in range(1, 9)]
    data = [
        encode(build(f"vlan id=5 priority=3 cntag flow_id={flow} ip udp dstport=9 data", src=source))
        for flow, source in enumerate(sources)
    ]
    cnms = [
        encode(build("vlan id=5 priority=6 cntag cnm", flow_id=flow, dst=source, qntz_fb=12, q_offset=-406))
        for flow, source in enumerate(sources)
    ]
    pfc = encode(build("pfc", time3=100))
    kinds = [*data, *cnms, pfc]
    chosen = np.random.default_rng(1).integers(0, 8, _PIECE_FRAMES)
    chosen[::100] += 8
    chosen[::1000] = len(kinds) - 1
    piece = [kinds[index] for index in chosen.tolist()]
    with PcapWriter(path, force=True) as writer:
        for first in range(0, frames, _PIECE_FRAMES):
            count = min(_PIECE_FRAMES, frames - first)
            times = 10**18 + GAP_NS * np.arange(first, first + count)
            writer.write_batch(Batch.from_frames(piece[:count], time_ns=times))


def run() -> None:
    """Print the speeds."""
    program = str(Path(sys.executable).with_name("ecmproto"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.pcap"
        for name, write in (("of a congested port", write_port), ("of every kind", write_varied)):
            write(path, SMALL_FRAMES)
            start = _seconds([program, "check", str(path)], compiling=True)
            write(path, FRAMES)
            print(
                f"\nall rules over {FRAMES:,} frames {name}, whole process ({path.stat().st_size:,} octets)"
            )
            taken = _seconds([program, "check", str(path)])
            _show("ecmproto check", taken, FRAMES)
            _show("  beyond its start-up", taken - start, FRAMES - SMALL_FRAMES)
            _show("ecmproto stats", _seconds([program, "stats", str(path)]), FRAMES)
            write(path, SLOW_FRAMES)
            filter = "vlan.priority == 7 || macc.cbfc.enbv > 255"
            tshark = ["tshark", "-n", "-r", str(path), "-Y", filter]
            _show(f"tshark -Y, one rule, {SLOW_FRAMES:,}", _seconds(tshark), SLOW_FRAMES)


def _seconds(command: Sequence[str], *, compiling: bool = False) -> float:
    """Return the duration of a command in seconds; a command that compiles kernels is run twice."""
    for _ in range(1 + compiling):
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        taken = time.perf_counter() - start
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{command[:2]}: {done.stderr.decode()}")
    return taken


def _show(name: str, seconds: float, frames: int) -> None:
    print(f"  {name:<36} {seconds:7.2f} s   {frames / seconds / 1e6:6.2f} M frames/s")


if __name__ == "__main__":
    run()
