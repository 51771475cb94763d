"""Replaying: a port with QCN in memory, the whole command, the closed loop, and compilation.

No other tool replays a capture through a congestion point, so the other programs only read the same file.
``tcpdump --count`` looks at each record, and a loop over dpkt's reader returns each frame.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dpkt
import numpy as np

from bench.contest import rates, show
from bench.memory import peak_kb
from ecmproto.control.engine.arrivals import Arrivals
from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.port import lengthen_ring, new_port
from ecmproto.control.mechanisms.api.machine import PortContext, machine_of
from ecmproto.control.mechanisms.api.protocol import new_outbox
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.control.replay.open_loop import Outcomes
from ecmproto.control.replay.open_loop import run_port as run_port
from ecmproto.frames.capture import PcapWriter
from pcaps.incast import data_frame
from pcaps.incast import write as write_incast
from pcaps.manifest import FOLDER

FRAMES = 10_000_000
DPKT_FRAMES = 300_000
CLOSED_DURATION_NS = 305_000_000
COMMAND = str(Path(sys.executable).with_name("ecmproto"))
_RATE_BPS = 10**10
_SHARE_OF_SIZES = {64: 0.4, 576: 0.2, 1500: 0.4}


def run() -> None:
    """Print all results."""
    # Processes are measured first, because the peak memory of a child includes its parent's memory.
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "large.pcap")
        _write(path, FRAMES)
        _whole(path)
        _closed(path)
    _in_memory()
    _compiling()


def _in_memory() -> None:
    """Measure frames of mixed sizes at 102 % of the port's rate, with queue depths after each frame and all
    samples.
    """
    generator = np.random.default_rng(1)
    octets = generator.choice(list(_SHARE_OF_SIZES), FRAMES, p=list(_SHARE_OF_SIZES.values())).astype(
        np.int64
    )
    gap_ns = (octets.mean() + 24) * 0.8 / 1.02
    yes, no, none = np.ones(FRAMES, np.bool_), np.zeros(FRAMES, np.bool_), np.zeros(FRAMES, np.int64)
    unknown = np.full(FRAMES, -1, np.int32)
    arrivals = Arrivals(
        time_ns=np.cumsum(generator.exponential(gap_ns, FRAMES)).astype(np.int64), octets=octets,
        priority=np.full(FRAMES, 3, np.uint8), occupies=yes, sampled=yes, answerable=yes,
        tagged=no, tag=none, mark=none, station=unknown, flow=unknown,
    )  # fmt: skip
    outcomes = Outcomes(np.zeros(FRAMES, np.uint8), none.copy(), none.copy())
    machine = machine_of(find_mechanism("qcn"), {})
    place = PortContext(rate_bps=_RATE_BPS, link_rate_bps=_RATE_BPS, cp_mac=bytes(6), stations=1, flows=1)

    def port() -> int:
        state = new_port(PortConfig(rate_bps=_RATE_BPS, buffer_octets=500_000))
        for _ in range(6):
            lengthen_ring(state, 3)
        point = machine.congestion_point(place, np.random.default_rng(1))
        done, outbox = 0, new_outbox(65_536)
        while done < FRAMES:
            done = run_port(state, point, arrivals, outcomes, outbox, done, NEVER_NS)
            outbox.posted.count = 0
        return FRAMES

    show(
        "QCN congestion point with its queue and statistics, in memory", rates({"ecmproto": port}), "frames/s"
    )


def _write(path: str, frames: int) -> None:
    template = np.frombuffer(data_frame(1)[:64], np.uint8)
    step = 1_000_000
    with PcapWriter(path, snaplen=64) as writer:
        for first in range(0, frames, step):
            times_ns = np.arange(first, first + step, dtype=np.int64) * 1200
            writer.write_matrix(np.broadcast_to(template, (step, 64)), times_ns, original=1500)


def _whole(path: str) -> None:
    arguments = [COMMAND, "replay", "-r", path, "--cp", "qcn", "--seed", "1"]

    def replay() -> int:
        subprocess.run(arguments, check=True, capture_output=True)
        return FRAMES

    def tcpdump() -> int:
        subprocess.run(["tcpdump", "--count", "-r", path], check=True, capture_output=True)
        return FRAMES

    def read() -> int:
        with open(path, "rb") as file:
            for number, _ in enumerate(dpkt.pcap.Reader(file), 1):
                if number == DPKT_FRAMES:
                    break
        return DPKT_FRAMES

    contenders = {
        "ecmproto replay --cp qcn (process)": replay,
        "tcpdump --count": tcpdump,
        "dpkt, read": read,
    }
    show(f"whole capture of {FRAMES:,} frames, file to table", rates(contenders, rounds=3), "frames/s")
    print(f"  peak memory of the replay {peak_kb(arguments) / 1000:.0f} MB")


def _closed(path: str) -> None:
    """Measure an incast of a million frames in a closed loop in one process, including the reading of the
    capture.
    """
    from ecmproto.control.engine.config import LoopConfig
    from ecmproto.control.replay.session import Plan, replay_capture
    from ecmproto.frames.capture import open_capture

    write_incast(path, CLOSED_DURATION_NS)

    def through(name: str) -> int:
        plan = Plan(
            machine=machine_of(find_mechanism(name), {}),
            port=PortConfig(rate_bps=_RATE_BPS, buffer_octets=500_000),
            loop=LoopConfig(link_rate_bps=_RATE_BPS),
            seed=1,
        )
        with open_capture(path) as reader:
            return replay_capture(reader, plan).summary.frames

    names = ("qcn", "ecm", "fecn", "e2cm", "pfc", "none")
    contenders = {name: lambda name=name: through(name) for name in names}
    show("closed loop over the incast capture", rates(contenders, rounds=3), "frames/s")


def _compiling() -> None:
    """Measure a replay of few frames as a process, with compilation and with the cache."""
    path = str(FOLDER / "qcn_rp.pcap")
    print("\nfirst and later starts, seconds of a whole process over 7 frames")
    with tempfile.TemporaryDirectory() as cache:
        for title, options in {
            "open loop, QCN": ["--cp", "qcn"],
            "closed loop, QCN": ["--cp", "qcn", "--rp", "qcn"],
            "closed loop, E²CM": ["--cp", "e2cm", "--rp", "e2cm"],
        }.items():
            seconds = []
            for _ in range(2):
                start = time.perf_counter()
                subprocess.run(
                    [COMMAND, "replay", "-r", path, *options],
                    check=True, capture_output=True, env=os.environ | {"NUMBA_CACHE_DIR": cache},
                )  # fmt: skip
                seconds.append(time.perf_counter() - start)
            print(f"  {title:<20} compiling {seconds[0]:6.2f}   from the cache {seconds[1]:6.2f}")
