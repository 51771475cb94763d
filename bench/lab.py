"""Networks in virtual time: simulated frames per second, compared with plain Python and other simulators.

All simulators run the same incast without control. Four sources of 2.5 Gb/s at equal distances, each at an
edge switch, send through two more switches to a host. Frames have 1500 octets, and links have 10 Gb/s. Slow
simulators run for less time. SimPy (dependency group ``bench``) and the Python package of ns-3 (``pip install
ns3``) take part if they are installed.
"""

from __future__ import annotations

import dataclasses
import heapq
import importlib
import importlib.util
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.contest import rates, show
from ecmproto.control.lab.setup.scenario import load_scenario, read_scenario
from ecmproto.control.lab.simulation.simulate import simulate

MS = 1_000_000
SCENARIOS = (
    ("bcn-parking-lot", 300), ("qcn-baseline-1", 100), ("fecn-symmetric", 100), ("e2cm-hotspot", 100),
    ("fecn-large", 100), ("bcn-six-source", 100),
)  # fmt: skip
"""Scenarios with their durations in ms."""
PLAIN_MS = 2
FRAME_NS, LINK_NS = 1_200, 500
SOURCES, FRAME_OCTETS = 4, 1500
INCAST_MS, SLOW_MS = 400, 20
INCAST = f"""
[scenario]
name = "incast"
title = "Four sources into one"
duration = "{INCAST_MS}ms"
topology = "dumbbell sources={SOURCES}"

[[flow]]
name = "r"
from = "s*"
to = "d1"
pattern = "cbr"
rate = "2.5G"
"""


def run() -> None:
    """Print the speed of each scenario, followed by the comparison with other simulators."""
    print("\nnetworks in virtual time, compiled, one core, building of the network included")
    for name, duration_ms in SCENARIOS:
        print(f"  {name:18} {_best(name, duration_ms):>12,.0f} frames of sources a second of processor time")
    contenders: dict[str, Callable[[], int]] = {
        "ecmproto": _incast,
        "a bare event loop in Python": lambda: _bare_loop(SLOW_MS),
    }
    for module, name, work in (("simpy", "SimPy", _simpy), ("ns", "ns-3", _ns3)):
        if importlib.util.find_spec(module) is None:
            print(f"\n  {name} is not installed: LEFT OUT below")
        else:
            contenders[name] = work
    show("frames of sources, the same incast", rates(contenders, rounds=3), "frames/s")
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


def _incast() -> int:
    experiment = read_scenario(io.BytesIO(INCAST.encode())).experiment()
    return simulate(experiment, seed=1).conservation.sent_frames


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


def _ns3() -> int:
    """Simulate the incast in ns-3, as UDP over IPv4 on point-to-point links."""
    ns: Any = importlib.import_module("ns").ns
    # UDP, IPv4 and point-to-point headers
    payload = FRAME_OCTETS - 8 - 20 - 2
    nodes = ns.NodeContainer()
    nodes.Create(2 * SOURCES + 3)
    left, right, last = (nodes.Get(2 * SOURCES + number) for number in range(3))
    ns.InternetStackHelper().Install(nodes)
    links = ns.PointToPointHelper()
    links.SetDeviceAttribute("DataRate", ns.StringValue("10Gbps"))
    links.SetChannelAttribute("Delay", ns.StringValue(f"{LINK_NS}ns"))
    pairs = [(nodes.Get(number), nodes.Get(SOURCES + number)) for number in range(SOURCES)]
    pairs += [(nodes.Get(SOURCES + number), left) for number in range(SOURCES)]
    pairs += [(left, right), (right, last)]
    addresses = ns.Ipv4AddressHelper()
    for number, pair in enumerate(pairs):
        addresses.SetBase(ns.Ipv4Address(f"10.1.{number}.0"), ns.Ipv4Mask("255.255.255.0"))
        ends = addresses.Assign(links.Install(*pair))
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    to = ns.InetSocketAddress(ends.GetAddress(1), 9)
    ns.UdpServerHelper(9).Install(ns.NodeContainer(last))
    client = ns.UdpClientHelper(to.ConvertTo())
    frames = SLOW_MS * MS // (SOURCES * FRAME_NS)
    client.SetAttribute("MaxPackets", ns.UintegerValue(frames))
    client.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(SOURCES * FRAME_NS)))
    client.SetAttribute("PacketSize", ns.UintegerValue(payload))
    for number in range(SOURCES):
        client.Install(ns.NodeContainer(nodes.Get(number))).Start(ns.Seconds(0))
    ns.Simulator.Stop(ns.NanoSeconds(SLOW_MS * MS))
    ns.Simulator.Run()
    ns.Simulator.Destroy()
    return SOURCES * frames
