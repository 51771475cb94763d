"""Pause storms beside peers: for how long what they hold could have run, by the receiver's stamps.

``python -m bench storms [--seconds N] [--ports N,…] [--rounds N] [--only NAME,…]``: one port and sixteen,
each on a machine at rest and beside four busy processes; the links are 400 Gb/s, a pause of 65535 quanta
lasts 83.9 µs and is renewed each 42 µs.  The ten-minute run is ``--seconds 600``.

Contenders run in turn, round after round: this project's storm, its loop for ordinary sending without and
with ``--realtime``, renewals queued a quarter of a second ahead behind the kernel's token bucket (tbf), a
plain loop that sleeps and sends (what public test suites do), Scapy's sendp, and tcpreplay where it is
installed.  Needs root, and network namespaces.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.captures import write_frames

COMMAND = str(Path(sys.executable).with_name("ecmproto"))
_NAMESPACE = "ecmproto-bench-s"
_RATE, _INTERVAL_NS = "400G", 41_942
_BUSY = 4
_FRAME = bytes.fromhex("0180c200000102000000000188080101").ljust(16, b"\0")
HOLD = (_FRAME + bytes.fromhex("0008000000000000ffff")).ljust(60, b"\0")
_RECEIVER = """
import json, os, sys
from ecmproto.tools.testing.proofs import Storming, Watch
os.nice(-20)  # what drops frames sees gaps
ports = sys.argv[1].split(",")
watch = Watch([Storming(port=port, rate_bps=400 * 10**9, priorities=(3,)) for port in ports])
print("ready", flush=True)
sys.stdin.read()
watch.end()
print(json.dumps([watch.stolen_ns, [each.figures for each in watch.proofs()]]))
"""
_LOOP = """
import socket, sys, time
seconds, ports = float(sys.argv[1]), sys.argv[2].split(",")
frame = bytes.fromhex(sys.argv[3])
ends = []
for port in ports:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.bind((port, 0))
    ends.append(end)
until = time.monotonic() + seconds
while time.monotonic() < until:
    for end in ends:
        end.send(frame)
    time.sleep(30e-6)
"""
_SENDP = """
import sys
from scapy.all import Ether, sendp
seconds, ports = float(sys.argv[1]), sys.argv[2].split(",")
count = int(seconds / 400e-6)
sendp(Ether(bytes.fromhex(sys.argv[3])), iface=ports[0], count=count, inter=42e-6, verbose=False)
"""
_BUCKET = """
import sys, time
import numpy as np
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.sender import FrameSender
seconds, port = float(sys.argv[1]), sys.argv[2].split(",")[0]
batch = Batch.from_frames([bytes.fromhex(sys.argv[3])] * 1024)
interval_ns, ahead_ns = 26_000, 250_000_000
with FrameSender(port) as sender:
    began = time.monotonic_ns()
    while (now := time.monotonic_ns() - began) < seconds * 1e9:
        due = min((now + ahead_ns) // interval_ns - sender.sent, 1024)
        if due > 0:
            sender.send(batch.buffer, batch.offset[:due], batch.captured[:due])
        time.sleep(0.005)
"""


def run(words: Sequence[str]) -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(prog="python -m bench storms", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--ports", default="1,16", help="numbers of ports")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="contenders, by the beginnings of their names")
    given = parser.parse_args(words)
    if os.geteuid() != 0:
        print("storms: needs root, to make a namespace")
        return
    titles = f"{'frames':>10} {'gaps':>8} {'lapsed':>12} {'longest':>10} {'stolen':>9}"
    for count in map(int, given.ports.split(",")):
        near, far = ([f"{side}{number}" for number in range(count)] for side in ("near", "far"))
        with _network(near, far), tempfile.TemporaryDirectory() as folder:
            contenders = _contenders(Path(folder), near, given.seconds)
            for busy in (0, _BUSY):
                about = f"{count} port{'s' if count > 1 else ''}, {busy} busy processes"
                print(f"\n{about:36} {titles}")
                for _ in range(given.rounds):
                    for name, command in contenders.items():
                        if name.startswith(tuple(given.only.split(","))):
                            with _busy(busy), _bucket(near[0], used="tbf" in name):
                                print(f"  {name:34} {_measured(command, far)}", flush=True)


def _contenders(folder: Path, near: list[str], seconds: float) -> dict[str, list[str]]:
    plan, frames = folder / "plan.toml", folder / "hold.pcap"
    plan.write_text(
        f"[[storm]]\nports = {json.dumps(near)}\npriorities = [3]\n"
        f'speed = "{_RATE}"\nduration = "{seconds}s"\n'
    )
    write_frames(frames, 1000, HOLD)
    python, rest = [sys.executable, "-c"], [str(seconds), ",".join(near), HOLD.hex()]
    contenders = {"ecmproto send --plan": [COMMAND, "send", "--plan", str(plan)]}
    contenders["a loop that sleeps and sends"] = [*python, _LOOP, *rest]
    if len(near) == 1:
        count = int(seconds * 1e9 / _INTERVAL_NS)
        paced = ["-r", str(frames), "--rate", f"{1e9 / _INTERVAL_NS:.0f}pps", "--count", str(count)]
        contenders["ecmproto send --rate"] = [COMMAND, "send", "-i", near[0], *paced]
        contenders["ecmproto send --rate --realtime"] = [COMMAND, "send", "-i", near[0], *paced, "--realtime"]
        contenders["queued ahead behind tbf"] = [*python, _BUCKET, *rest]
        contenders["Scapy's sendp"] = [*python, _SENDP, *rest]
        if shutil.which("tcpreplay"):
            loops = str(count // 1000)
            paced = ["--pps", f"{1e9 / _INTERVAL_NS:.0f}", "--loop", loops, "--preload-pcap", str(frames)]
            contenders["tcpreplay"] = ["tcpreplay", "-q", "-i", near[0], *paced]
        else:
            print("tcpreplay is not installed: not measured")
    return contenders


def _measured(command: list[str], far: list[str]) -> str:
    """Return a row of what the receivers saw of a command."""
    receiver = subprocess.Popen(
        _within([sys.executable, "-c", _RECEIVER, ",".join(far)]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert receiver.stdout is not None
    receiver.stdout.readline()
    done = subprocess.run(_within(command), capture_output=True, text=True, check=False)
    time.sleep(0.5)
    told, _ = receiver.communicate()
    stolen_ns, figures = json.loads(told)
    seen = [each for each in figures if "gaps" in each]
    if not seen:
        return f"no frame came: {done.stderr.strip()[-200:]}"
    totals = {name: sum(each[name] for each in seen) for name in ("frames", "gaps", "lapsed_ns", "dropped")}
    longest_ns = max(each["longest_ns"] for each in seen)
    row = (
        f"{totals['frames']:>10,} {totals['gaps']:>8,} {totals['lapsed_ns'] / 1e6:>9,.1f} ms "
        f"{longest_ns / 1e6:>7,.3f} ms {stolen_ns / 1e6:>6,.0f} ms"
    )
    return row + (f", the capture dropped {totals['dropped']:,}" if totals["dropped"] else "")


@contextmanager
def _network(near: Sequence[str], far: Sequence[str]) -> Iterator[None]:
    try:
        _ip(f"netns add {_NAMESPACE}")
        for one, other in zip(near, far, strict=True):
            _ip(f"-n {_NAMESPACE} link add name {one} type veth peer name {other}")
            for name in (one, other):
                _ip(f"-n {_NAMESPACE} link set {name} addrgenmode none")
                _ip(f"-n {_NAMESPACE} link set {name} arp off up")
        time.sleep(1)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", _NAMESPACE], check=False)


@contextmanager
def _bucket(port: str, *, used: bool) -> Iterator[None]:
    """Put the kernel's token bucket on a port, with room for a second of frames, and take it away."""
    if not used:
        yield
        return
    tc = ["tc", "qdisc"]
    bits = 8 * len(HOLD) * 10**9 // 26_000
    rate = ["root", "tbf", "rate", f"{bits}bit", "burst", "64", "limit", "100mb"]
    _ip(f"-n {_NAMESPACE} link set {port} txqueuelen 100000")
    subprocess.run(_within([*tc, "add", "dev", port, *rate]), check=True)
    try:
        yield
    finally:
        subprocess.run(_within([*tc, "del", "dev", port, "root"]), check=True)


@contextmanager
def _busy(count: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


def _within(command: list[str]) -> list[str]:
    return ["ip", "netns", "exec", _NAMESPACE, *command]
