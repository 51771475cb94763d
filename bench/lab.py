"""Networks in virtual time: simulated frames per second, compared with plain Python and other simulators.

All simulators send the same frames of 1500 octets over links of 10 Gb/s, on the same paths, without control:

- an incast: four sources of 2.5 Gb/s, each at an edge switch, send through two more switches to a host
- a fat tree with k = 8: each of 128 hosts sends 6 Gb/s to a host of another pod. No queue grows

Slow simulators run for less time. SimPy (dependency group ``bench``) takes part if it is installed. ns-3
takes part if g++ finds its headers and libraries (Debian: ``libns3-dev``), and htsim if the variable
``HTSIM`` names the folder ``sim`` of its sources, with ``libhtsim.a``. Both read the paths from stdin: a line
with the number of nodes, the rate in bit/s, the delay of a link, the interval of a flow's frames and the
duration in ns, followed by a line of node numbers for each flow. They print the number of delivered frames.
"""

from __future__ import annotations

import dataclasses
import heapq
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.contest import processor_s, rates, show
from ecmproto.control.lab.model import Experiment, Flow, Pattern
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation.simulate import simulate

MS = 1_000_000
SCENARIOS = (
    ("bcn-parking-lot", 300), ("qcn-baseline-1", 100), ("fecn-symmetric", 100), ("e2cm-hotspot", 100),
    ("fecn-large", 100), ("bcn-six-source", 100),
)  # fmt: skip
"""Scenarios with their durations in ms."""
PLAIN_MS = 2
LINK_BPS, LINK_NS = 10**10, 500
FRAME_OCTETS, FRAME_NS = 1500, 1_200
SOURCES = 4
INCAST_MS, SLOW_MS = 400, 20
PEERS = {
    "ns-3": (
        "ns3.cpp", "libns3-dev",
        [f"-lns3-{module}" for module in (
            "applications", "internet", "core", "network", "point-to-point", "traffic-control"
        )],
    ),
    "htsim": (
        "htsim.cpp", "its sources and HTSIM",
        ["-I", os.environ.get("HTSIM", "/nonexistent"), f"{os.environ.get('HTSIM')}/libhtsim.a"],
    ),
}  # fmt: skip
"""Source file, requirement, and arguments of g++, for each simulator in C++."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """Network with flows of constant rate on fixed paths."""

    topology: str
    paths: Sequence[Sequence[str]]
    """Nodes of each flow's path, from host to host."""
    interval_ns: int
    """Interval of a flow's frames in ns."""

    def simulate(self, duration_ms: int) -> int:
        """Return the number of delivered frames in our simulation."""
        rate_bps = FRAME_OCTETS * 8 * 10**9 // self.interval_ns
        flows = tuple(
            Flow(
                name=f"f{number}", source=source, destination=destination, via=tuple(switches),
                pattern=Pattern.CBR, rate_bps=rate_bps,
            )
            for number, (source, *switches, destination) in enumerate(self.paths)
        )  # fmt: skip
        network = parse_topology(self.topology).network()
        experiment = Experiment(
            name="t", title="t", duration_ns=duration_ms * MS, network=network, flows=flows
        )
        return simulate(experiment, seed=1).conservation.received_frames

    def simulate_by(self, program: Path, duration_ms: int) -> int:
        """Return the number of delivered frames in the simulation of another program."""
        numbers: dict[str, int] = {}
        rows = [" ".join(str(numbers.setdefault(node, len(numbers))) for node in path) for path in self.paths]
        head = f"{len(numbers)} {LINK_BPS} {LINK_NS} {self.interval_ns} {duration_ms * MS}"
        text = "\n".join([head, *rows, ""])
        return int(subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout)


def _fat_tree(k: int) -> Case:
    """Return a permutation between pods, in which each link carries at most one flow in each direction."""
    half, paths = k // 2, []
    hosts = half * half * k
    for number in range(hosts):
        to = (number + hosts // 2) % hosts
        upper, core = number % half, number // half % half
        switches = [
            f"e{number // half + 1}", f"a{number // half // half * half + upper + 1}",
            f"c{upper * half + core + 1}", f"a{to // half // half * half + upper + 1}", f"e{to // half + 1}",
        ]  # fmt: skip
        paths.append([f"h{number + 1}", *switches, f"h{to + 1}"])
    return Case(f"fat-tree k={k}", paths, 2_000)


INCAST = Case(
    f"dumbbell sources={SOURCES}",
    [[f"s{number}", f"e{number}", "left", "right", "d1"] for number in range(1, SOURCES + 1)],
    SOURCES * FRAME_NS,
)
FAT_TREE = _fat_tree(8)


def run() -> None:
    """Print the speed of each scenario, followed by the comparison with other simulators."""
    print("\nnetworks in virtual time, compiled, one core, building of the network included")
    for name, duration_ms in SCENARIOS:
        print(f"  {name:18} {_best(name, duration_ms):>12,.0f} frames of sources a second of processor time")
    incast: dict[str, Callable[[], int]] = {
        "ecmproto": lambda: INCAST.simulate(INCAST_MS),
        "a bare event loop in Python": lambda: _bare_loop(SLOW_MS),
    }
    tree: dict[str, Callable[[], int]] = {"ecmproto": lambda: FAT_TREE.simulate(SLOW_MS)}
    if importlib.util.find_spec("simpy") is None:
        print("\n  SimPy is not installed: LEFT OUT below")
    else:
        incast["SimPy"] = _simpy
    with tempfile.TemporaryDirectory() as folder:
        for name, (source, requirement, arguments) in PEERS.items():
            program = Path(folder, name)
            code = Path(__file__).parent / "peers" / source
            command = ["g++", "-O3", "-std=c++17", str(code), "-o", str(program)]
            if subprocess.run([*command, *arguments], capture_output=True, check=False).returncode:
                print(f"\n  {name} is not installed ({requirement}): LEFT OUT below")
                continue
            long_ms, tree_ms = (INCAST_MS, SLOW_MS) if name == "htsim" else (SLOW_MS, 1)
            incast[name] = lambda program=program, ms=long_ms: INCAST.simulate_by(program, ms)  # type: ignore[misc]
            tree[name] = lambda program=program, ms=tree_ms: FAT_TREE.simulate_by(program, ms)  # type: ignore[misc]
        for title, contenders in (("the same incast", incast), ("a fat tree with k = 8", tree)):
            figures = rates(contenders, rounds=3, clock=processor_s)
            show(f"delivered frames, {title}, by processor time", figures, "frames/s")
    own = f"from bench.lab import print_plain; print_plain({PLAIN_MS})"
    shown = subprocess.run(
        [sys.executable, "-c", own], env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    print(f"  the same loop as plain Python: {float(shown.stdout):,.0f} frames/s")


def print_plain(duration_ms: int) -> None:
    """Print the frames per second of a run in this process, which runs without compiled code."""
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
    """Send frames from four sources through three output queues each, and return the number of frames."""
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


def _simpy() -> int:
    """Simulate the incast in SimPy, with a store and a process for each output queue."""
    simpy: Any = importlib.import_module("simpy")
    environment = simpy.Environment()
    sent = 0

    def serve(queue: Any, following: Any) -> Any:
        while True:
            frame = yield queue.get()
            yield environment.timeout(FRAME_NS)
            if following is not None:
                environment.process(carry(frame, following))

    def carry(frame: Any, queue: Any) -> Any:
        yield environment.timeout(LINK_NS)
        yield queue.put(frame)

    def offer(queue: Any) -> Any:
        nonlocal sent
        while True:
            sent += 1
            yield queue.put(sent)
            yield environment.timeout(SOURCES * FRAME_NS)

    left, right = simpy.Store(environment), simpy.Store(environment)
    environment.process(serve(left, right))
    environment.process(serve(right, None))
    for _ in range(SOURCES):
        edge = simpy.Store(environment)
        environment.process(serve(edge, left))
        environment.process(offer(edge))
    environment.run(until=SLOW_MS * MS)
    return sent
