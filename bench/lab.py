"""Networks in virtual time: frames of sources a second, beside plain Python and a bare event loop."""

from __future__ import annotations

import dataclasses
import heapq
import os
import subprocess
import sys
import time

from bench.contest import rates, show
from ecmproto.lab.setup.scenario import load_scenario
from ecmproto.lab.simulation.simulate import simulate

MS = 1_000_000
SCENARIOS = (
    ("bcn-parking-lot", 300), ("qcn-baseline-1", 100), ("fecn-symmetric", 100), ("e2cm-hotspot", 100),
    ("fecn-large", 100), ("bcn-six-source", 100),
)  # fmt: skip
"""And how many ms of each."""
PLAIN_MS = 2
FRAME_NS, LINK_NS = 1_200, 500


def run() -> None:
    """Print the figures of each scenario, then of one beside its peers."""
    print("\nnetworks in virtual time, compiled, one core, building of the network included")
    for name, duration_ms in SCENARIOS:
        print(f"  {name:18} {_best(name, duration_ms):>12,.0f} frames of sources a second of processor time")
    contenders = {
        "ecmproto, bcn-parking-lot": lambda: _frames("bcn-parking-lot", 100),
        "a bare event loop in Python, three hops": lambda: _bare_loop(20),
    }
    show("frames of sources", rates(contenders, rounds=3), "frames/s")
    own = f"from bench.lab import print_plain; print_plain({PLAIN_MS})"
    shown = subprocess.run(
        [sys.executable, "-c", own], env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    print(f"  the same loop as plain Python: {float(shown.stdout):,.0f} frames/s")


def print_plain(duration_ms: int) -> None:
    """Print the frames a second of a run, for a process without compiled code."""
    start = time.process_time()
    frames = _frames("bcn-parking-lot", duration_ms)
    print(frames / (time.process_time() - start))


def _best(name: str, duration_ms: int) -> float:
    _frames(name, duration_ms)
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        frames = _frames(name, duration_ms)
        best = max(best, frames / (time.process_time() - start))
    return best


def _frames(name: str, duration_ms: int) -> int:
    experiment = load_scenario(name).experiment()
    short = dataclasses.replace(experiment, duration_ns=min(experiment.duration_ns, duration_ms * MS))
    return simulate(short, seed=1).conservation.sent_frames


def _bare_loop(duration_ms: int) -> int:
    """Send frames of four sources through three output queues each, without control; return how many."""
    events: list[tuple[int, int, int, int]] = []
    free_ns: dict[tuple[int, int], int] = {}
    sent = number = 0
    for source in range(4):
        events.append((0, number, source, 0))
        number += 1
    heapq.heapify(events)
    while events:
        now_ns, _, source, hop = heapq.heappop(events)
        if hop == 0:
            if now_ns >= duration_ms * MS:
                continue
            sent += 1
            number += 1
            heapq.heappush(events, (now_ns + 4 * FRAME_NS, number, source, 0))
        port = (source if hop == 0 else 9, hop)
        done_ns = max(now_ns, free_ns.get(port, 0)) + FRAME_NS
        free_ns[port] = done_ns
        if hop < 2:
            number += 1
            heapq.heappush(events, (done_ns + LINK_NS, number, source, hop + 1))
    return sent
