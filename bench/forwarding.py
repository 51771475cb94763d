"""Forwarding on veth: the live devices, Scapy's bridge, tcpreplay's tcpbridge and a recv/send loop.

A sender sends 128-octet frames to one interface, and the kernel counts the frames that leave the other
interface. All processes share the processors of this machine, so frames per second of the forwarder's
processor time are more reliable. Latency is measured with one frame per millisecond, minus the latency of the
veth pairs without a forwarder. At the end, the processor time of the devices without traffic is measured.
Needs root.
"""

from __future__ import annotations

import os
import shutil
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
READY_SECONDS = 300.0
PROBES = 1000
IDLE_SECONDS = 10.0
_STEADY_LOOKS = 5
_SCAPY_NAME = "Scapy's bridge"
_SENDING, _SWITCH, _COUNTING = "ecmproto-bench-a", "ecmproto-bench-b", "ecmproto-bench-c"
_FRAME = bytes.fromhex("0200000000030200000000018100600a9999").ljust(128, b"\xa5")

_SENDER = f"""
import numpy as np
from ecmproto.frames.capture.linux.sender import FrameSender
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
while True:
    other.send(one.recv(2048))
"""
_SCAPY = """
from scapy.all import bridge_and_sniff
bridge_and_sniff("in", "out", store=False)
"""


def run() -> None:
    """Print all results."""
    if os.geteuid() != 0:
        print("forwarding: needs root, to make namespaces")
        return
    with _network():
        direct_us = _latency_us(direct=True)
        print(f"veth alone takes {direct_us[0]:.0f} µs")
        print(f"{'forwarder':18}  frames/s  of CPU time  CPU s/s  added latency p50      p99")
        rates = {}
        for name, command in _forwarders().items():
            with _forwarding(command) as process:
                p50_us, p99_us = _latency_us(direct=False)
                rate, load = _rate(process.pid)
            rates[name] = rate
            added = f"{p50_us - direct_us[0]:8.0f} µs        {p99_us - direct_us[0]:6.0f} µs"
            print(f"{name:18}  {rate:8,.0f}  {rate / load:11,.0f}  {load:7.2f}  {added}", flush=True)
        for name, rate in rates.items():
            if name.startswith("live cp"):
                print(f"{name} forwards {rate / rates[_SCAPY_NAME]:.0f} times as many as {_SCAPY_NAME}")
        print(f"\nidle for {IDLE_SECONDS:.0f} s        CPU s/s")
        for name, command in _idle().items():
            with _forwarding(command) as process:
                print(f"{name:18}  {_idle_share(process.pid):.2%}", flush=True)


def _device(*words: str) -> list[str]:
    return [COMMAND, "live", *words]


def _forwarders() -> dict[str, list[str]]:
    """Return the command of each forwarder by name, and print the names of missing programs."""
    port = ("cp", "--in", "in", "--out", "out", "--speed", "40G", "--buffer", "4000frames")
    point = ("rp", "--host", "in", "--net", "out", "--speed", "40G")
    edge = ("edge", "--net", "in", "--host", "out")
    forwarders = {
        f"live {words[0]}, {mechanism}": _device(*words, "--mechanism", mechanism)
        for words, mechanisms in (
            (port, ("none", "qcn", "ecm", "bcn", "e2cm", "fecn", "dbp")),
            (point, ("qcn", "ecm")),
            (edge, ("qcn", "ecm", "e2cm", "fecn")),
        )
        for mechanism in mechanisms
    }
    forwarders["recv and send"] = [sys.executable, "-c", _LOOP]
    if shutil.which("tcpbridge"):
        forwarders["tcpbridge"] = ["tcpbridge", "-i", "in", "-I", "out", "--unidir"]
    else:
        print("tcpbridge (of tcpreplay) is not installed: not measured")
    forwarders[_SCAPY_NAME] = [sys.executable, "-c", _SCAPY]
    return forwarders


def _idle() -> dict[str, list[str]]:
    """Return the commands of devices whose processor time without traffic is measured."""
    forwarders = _forwarders()
    chosen = ("live cp, qcn", "live cp, fecn", "live rp, qcn", "live edge, qcn")
    idle = {name: forwarders[name] for name in chosen}
    idle["live monitor"] = _device("monitor", "-i", "in", "-T", "line")
    return idle


def _idle_share(pid: int) -> float:
    """Return the fraction of a processor that an idle process uses, including its reports."""
    time.sleep(SETTLING_SECONDS)
    before, start = _cpu_ns(pid), time.monotonic_ns()
    time.sleep(IDLE_SECONDS)
    return (_cpu_ns(pid) - before) / (time.monotonic_ns() - start)


@contextmanager
def _network() -> Iterator[None]:
    """Create namespaces for a sender, a forwarder and a receiver, and remove the namespaces at the end."""
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
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        _wait_for_sockets(process, 1 if "monitor" in command else 2)
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait_for_sockets(process: subprocess.Popen[str], count: int) -> None:
    """Wait until a process has had ``count`` sockets open for a while, because processes open test sockets
    first.
    """
    until, seen = time.monotonic() + READY_SECONDS, 0
    while seen < _STEADY_LOOKS:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{process.args!r} does not forward")
        time.sleep(0.1)
        command = ["ip", "netns", "exec", _SWITCH, "cat", "/proc/net/packet"]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        seen = seen + 1 if len(told.splitlines()) > count else 0


def _rate(pid: int) -> tuple[float, float]:
    """Return the number of forwarded frames per second, and the forwarder's share of a processor."""
    sender = subprocess.Popen(["ip", "netns", "exec", _SENDING, sys.executable, "-c", _SENDER])
    try:
        time.sleep(SETTLING_SECONDS)
        before, cpu_ns, start_ns = _counted(), _cpu_ns(pid), time.monotonic_ns()
        time.sleep(SECONDS)
        elapsed_ns = time.monotonic_ns() - start_ns
        return 1e9 * (_counted() - before) / elapsed_ns, (_cpu_ns(pid) - cpu_ns) / elapsed_ns
    finally:
        sender.kill()
        sender.wait()


def _counted() -> int:
    path = "/sys/class/net/e0/statistics/rx_packets"
    shown = subprocess.run(
        ["ip", "netns", "exec", _COUNTING, "cat", path], stdout=subprocess.PIPE, check=True
    )
    return int(shown.stdout)


def _cpu_ns(pid: int) -> int:
    """Return the processor time in ns of all threads in a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)


def _latency_us(*, direct: bool) -> tuple[float, float]:
    """Return the median and the 99th percentile of the latency in µs."""
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
    """Return a packet socket in another namespace, opened by a thread that enters the namespace."""
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
