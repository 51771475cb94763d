"""Forwarding on veth: the congestion point beside Scapy's bridge and a plain recv/send loop.

A sender blasts frames of 128 octets into one interface, those that leave another are counted by the kernel
behind it.  Everything shares this machine's processors, sender included; the forwarder's own time is told.
Latency is of one frame in a millisecond, the veth pairs without a forwarder taken off.  Needs root.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

COMMAND = str(Path(sys.executable).with_name("ecmproto"))
SECONDS = 4.0
SETTLING_SECONDS = 1.5
READY_SECONDS = 60.0
PROBES = 1000
_SENDING, _SWITCH, _COUNTING = "ecmproto-bench-a", "ecmproto-bench-b", "ecmproto-bench-c"
_FRAME = bytes.fromhex("0200000000030200000000018100600a9999").ljust(128, b"\xa5")

_SENDER = f"""
import numpy as np
from ecmproto.capture.linux.sender import FrameSender
frame = np.frombuffer(bytes.fromhex("{_FRAME.hex()}"), np.uint8)
frames = np.ascontiguousarray(np.tile(frame, (512, 1))).reshape(-1)
offset = np.arange(512, dtype=np.int64) * {len(_FRAME)}
length = np.full(512, {len(_FRAME)}, np.int64)
with FrameSender("e0") as sender:
    while True:
        sender.send(frames, offset, length)
"""
_LOOP = """
import socket
one, other = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
one.bind(("in", 3))
other.bind(("out", 3))
print("ready", flush=True)
while True:
    other.send(one.recv(2048))
"""
_SCAPY = """
from scapy.all import bridge_and_sniff
print("ready", flush=True)
bridge_and_sniff("in", "out", store=False)
"""


def run() -> None:
    """Print all of it."""
    if os.geteuid() != 0:
        print("forwarding: needs root, to make namespaces")
        return
    forwarders = {
        f"live cp, {mechanism}": [
            COMMAND, "live", "cp", "--in", "in", "--out", "out", "--rate", "40G", "--mechanism", mechanism,
            "--buffer", "4000frames",
        ]
        for mechanism in ("qcn", "none", "ecm", "fecn")
    }  # fmt: skip
    forwarders |= {
        "recv and send": [sys.executable, "-c", _LOOP],
        "Scapy's bridge": [sys.executable, "-c", _SCAPY],
    }
    with _network():
        direct_us = _latency_us(direct=True)
        print(f"veth alone takes {direct_us[0]:.0f} µs")
        print(f"{'forwarder':18}  frames/s  CPU s/s  added latency p50      p99")
        for name, command in forwarders.items():
            with _forwarding(command) as process:
                p50_us, p99_us = _latency_us(direct=False)
                rate, load = _rate(process.pid)
            added = f"{p50_us - direct_us[0]:8.0f} µs        {p99_us - direct_us[0]:6.0f} µs"
            print(f"{name:18}  {rate:8,.0f}  {load:7.2f}  {added}", flush=True)


@contextmanager
def _network() -> Iterator[None]:
    """A namespace with the switch between one that sends and one that counts."""
    names = (_SENDING, _SWITCH, _COUNTING)
    try:
        for name in names:
            _ip(f"netns add {name}")
        for name, port in ((_SENDING, "in"), (_COUNTING, "out")):
            _ip(f"link add name e0 netns {name} type veth peer name {port} netns {_SWITCH}")
            _ip(f"-n {name} link set e0 arp off up")
            _ip(f"-n {_SWITCH} link set {port} arp off up")
        _ip(f"link add name d0 netns {_SENDING} type veth peer name d0 netns {_COUNTING}")
        for name in (_SENDING, _COUNTING):
            _ip(f"-n {name} link set d0 arp off up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


@contextmanager
def _forwarding(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        ["ip", "netns", "exec", _SWITCH, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        while "ready" not in (line := process.stdout.readline()):
            if not line:
                raise RuntimeError(f"{command[0]} ended")
        time.sleep(0.3)
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _rate(pid: int) -> tuple[float, float]:
    """Return frames a second that come through, and the forwarder's share of a processor."""
    sender = subprocess.Popen(["ip", "netns", "exec", _SENDING, sys.executable, "-c", _SENDER])
    try:
        time.sleep(SETTLING_SECONDS)
        before, cpu, start = _counted(), _cpu_seconds(pid), time.monotonic()
        time.sleep(SECONDS)
        elapsed = time.monotonic() - start
        return (_counted() - before) / elapsed, (_cpu_seconds(pid) - cpu) / elapsed
    finally:
        sender.kill()
        sender.wait()


def _counted() -> int:
    path = "/sys/class/net/e0/statistics/rx_packets"
    shown = subprocess.run(
        ["ip", "netns", "exec", _COUNTING, "cat", path], stdout=subprocess.PIPE, check=True
    )
    return int(shown.stdout)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _latency_us(*, direct: bool) -> tuple[float, float]:
    """Return median and 99th percentile of the time that a frame takes."""
    interface = "d0" if direct else "e0"
    sending, receiving = _socket_in(_SENDING, interface), _socket_in(_COUNTING, interface)
    receiving.settimeout(1.0)
    took = []
    with sending, receiving:
        for number in range(PROBES):
            mark = number.to_bytes(8) + os.urandom(8)
            start_ns = time.monotonic_ns()
            sending.send(_FRAME[:-16] + mark)
            while not receiving.recv(2048).endswith(mark):
                pass
            took.append((time.monotonic_ns() - start_ns) / 1000)
            time.sleep(0.001)
    return statistics.median(took), float(np.percentile(took, 99))


def _socket_in(namespace: str, interface: str) -> socket.socket:
    """Return a packet socket in another namespace: a thread goes there, and does not come back."""
    made: list[socket.socket] = []

    def make() -> None:
        import ctypes

        with open(f"/run/netns/{namespace}", "rb") as there:
            ctypes.CDLL(None).setns(there.fileno(), 0)
        made.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        made[0].bind((interface, 3))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


if __name__ == "__main__":
    run()
