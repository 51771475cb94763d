"""Pause storms compared with other tools: the time in which paused queues could send.

The times are from the time stamps of the receiver.

``python -m bench storms [--seconds N] [--peers N] [--ports N,…] [--only NAME,…]`` tests one port and sixteen
ports, on an idle machine and with four busy processes. A table shows all results. The links have 400 Gb/s. A
pause of 65535 quanta lasts 83.9 µs and is renewed every 42 µs. ``--seconds 600`` is the ten-minute run, which
takes 45 minutes in total.

The other tools run for ``--peers`` seconds each: a plain loop that sleeps and sends, as public test suites
do, Scapy's sendp, and tcpreplay if installed. ``--only`` also selects other contenders: ecmproto's loop for
ordinary sending (``rate``), with and without ``--precise``, and renewals that are queued a quarter of a
second ahead in the kernel's token bucket (``tbf``).

*lapsed/s* is the lapsed pause time per second and port. *left* and the columns after it count the gaps that
remain without the time that a hypervisor took from the sender's processors. Needs root and network
namespaces.
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
from typing import Any

from bench.captures import write_frames

COMMAND = str(Path(sys.executable).with_name("ecmproto"))
_NAMESPACE = "ecmproto-bench-s"
_RATE, _INTERVAL_NS = "400G", 41_942
_BUSY = 4
_OWN = "ecmproto send --plan"
_STANDARD = f"{_OWN},loop,sendp,tcpreplay"
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
import time
from scapy.all import Ether, conf, sendp
seconds, ports = float(sys.argv[1]), sys.argv[2].split(",")
frame, socket = Ether(bytes.fromhex(sys.argv[3])), conf.L2socket(iface=ports[0])
until = time.monotonic() + seconds
while time.monotonic() < until:
    sendp(frame, socket=socket, count=100, inter=42e-6, verbose=False)
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
    """Print all results."""
    parser = argparse.ArgumentParser(prog="python -m bench storms", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20, help="of this project's storm")
    parser.add_argument("--peers", type=float, default=12, help="seconds of each other contender")
    parser.add_argument("--ports", default="1,16", help="numbers of ports")
    parser.add_argument("--only", default=_STANDARD, help="contenders, by the beginnings of their names")
    given = parser.parse_args(words)
    if os.geteuid() != 0:
        print("storms: needs root, to make a namespace")
        return
    titles = ("frames", "gaps", "lapsed/s", "longest", "gaps left", "lapsed/s", "longest", "stolen/s")
    print(f"{'':34}" + "".join(f"{title:>14}" for title in titles))
    for count in map(int, given.ports.split(",")):
        near, far = ([f"{side}{number}" for number in range(count)] for side in ("near", "far"))
        with _network(near, far), tempfile.TemporaryDirectory() as folder:
            contenders = _contenders(Path(folder), near, far, given)
            for busy in (0, _BUSY):
                print(f"{count} port{'s' if count > 1 else ''}, {busy} busy processes")
                for name, command in contenders.items():
                    if name.startswith(tuple(given.only.split(","))):
                        own = name == _OWN
                        with _busy(busy), _bucket(near[0], used=name == "tbf"):
                            told, errors = _judged(command) if own else _seen(command, far)
                        seconds = given.seconds if own else given.peers
                        print(f"  {name:32}{_row(told, count * seconds, seconds) or errors}", flush=True)


def _contenders(
    folder: Path, near: list[str], far: list[str], given: argparse.Namespace
) -> dict[str, list[str]]:
    plan, frames = folder / "plan.toml", folder / "hold.pcap"
    plan.write_text(
        f"[[storm]]\nports = {json.dumps(near)}\nat = {json.dumps(far)}\npriorities = [3]\n"
        f'speed = "{_RATE}"\nduration = "{given.seconds}s"\n'
    )
    write_frames(frames, 1000, HOLD)
    python, rest = [sys.executable, "-c"], [str(given.peers), ",".join(near), HOLD.hex()]
    contenders = {_OWN: ["nice", "-n", "-20", COMMAND, "send", "--plan", str(plan), "-T", "json"]}
    contenders["loop that sleeps and sends"] = [*python, _LOOP, *rest]
    if len(near) == 1:
        count = int(given.peers * 1e9 / _INTERVAL_NS)
        pace = f"{1e9 / _INTERVAL_NS:.0f}"
        paced = [COMMAND, "send", "-i", near[0], "-r", str(frames), "--rate", f"{pace}pps"]
        paced += ["--count", str(count)]
        contenders["sendp of Scapy"] = [*python, _SENDP, *rest]
        if shutil.which("tcpreplay"):
            command = ["tcpreplay", "-q", "-i", near[0], "--pps", pace, "--loop", str(count // 1000)]
            contenders["tcpreplay"] = [*command, "--preload-pcap", str(frames)]
        else:
            print("tcpreplay is not installed: not measured")
        contenders |= {"rate": paced, "rate --precise": [*paced, "--precise"]}
        contenders["tbf"] = [*python, _BUCKET, *rest]
    return contenders


def _judged(command: list[str]) -> tuple[list[Any], str]:
    """Return ecmproto's report on its storm: stolen time, and figures for each port."""
    done = subprocess.run(_within(command), capture_output=True, text=True, check=False)
    if not done.stdout:
        return [0, []], done.stderr.strip()[-200:]
    document = json.loads(done.stdout)
    return [document["stolen_ns"], [each["figures"] for each in document["verdicts"]]], ""


def _seen(command: list[str], far: list[str]) -> tuple[list[Any], str]:
    """Return the report of a process that captures the frames of another contender, and the contender's
    errors.
    """
    receiver = subprocess.Popen(
        _within([sys.executable, "-c", _RECEIVER, ",".join(far)]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert receiver.stdout is not None
    receiver.stdout.readline()
    done = subprocess.run(_within(command), capture_output=True, text=True, check=False)
    time.sleep(0.5)
    told, _ = receiver.communicate()
    return json.loads(told), done.stderr.strip()[-200:]


def _row(told: list[Any], port_seconds: float, seconds: float) -> str:
    """Return the table cells of a contender, or an empty string if no frame arrived."""
    stolen_ns, figures = told
    seen = [each for each in figures if "gaps" in each]
    if not seen:
        return ""
    cells = [f"{sum(each['frames'] for each in seen):,}"]
    for parts in (seen, [each["remaining"] for each in seen if "remaining" in each]):
        gaps, lapsed_ns = (sum(each[name] for each in parts) for name in ("gaps", "lapsed_ns"))
        longest_ns = max((each["longest_ns"] for each in parts), default=0)
        row = [f"{gaps:,}", f"{lapsed_ns / 1e3 / port_seconds:,.1f} µs", f"{longest_ns / 1e3:,.1f} µs"]
        cells += row if parts else ["-"] * 3
    cells.append(f"{stolen_ns / 1e6 / seconds:,.2f} ms")
    dropped = sum(each["dropped"] for each in seen)
    return "".join(f"{cell:>14}" for cell in cells) + (f", {dropped:,} not captured" if dropped else "")


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
    """Attach the kernel's token bucket with a queue for one second of frames to a port during the context."""
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
