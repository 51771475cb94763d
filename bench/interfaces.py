"""Sending, capturing and counting on veth, compared with Scapy, tcpreplay, tcpdump and plain sockets.

128-octet frames with a VLAN tag and a CN-TAG are sent through a veth pair. The sender's processor time
includes the kernel's delivery at the other end. Rates refer to wall time. Frames per second of processor time
are more reliable on a busy machine. Needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.captures import write_frames

COMMAND = str(Path(sys.executable).with_name("ecmproto"))
FRAMES = 1_000_000
SLOW_FRAMES = 10_000
SECONDS = 4.0
SETTLING_SECONDS = 0.5
READY_SECONDS = 60.0
_NAMESPACE, _NEAR, _FAR = "ecmproto-bench-i", "near", "far"
_FRAME = bytes.fromhex("0200000000030200000000018100600a22e900079999").ljust(128, b"\xa5")

_LOOP_SEND = f"""
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.bind(("{_NEAR}", 0))
frame = bytes.fromhex("{_FRAME.hex()}")
for _ in range(int(sys.argv[1])):
    out.send(frame)
"""
_SCAPY_SEND = f"""
import sys
from scapy.all import Ether, sendp
sendp(Ether(bytes.fromhex("{_FRAME.hex()}")), iface="{_NEAR}", count=int(sys.argv[1]), verbose=False)
"""
_COUNTING = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
count = 0
def told():
    print(count, flush=True)
import atexit
atexit.register(told)
"""
_BATCHES = (
    _COUNTING
    + f"""
from ecmproto.frames.capture.linux.reader import open_interface
with open_interface("{_FAR}") as reader:
    for batch in reader:
        count += len(batch)
"""
)
_CALLS = (
    _COUNTING
    + f"""
import select
from ecmproto.frames.capture.linux.receiver import FrameReceiver
with FrameReceiver("{_FAR}") as receiver:
    while True:
        select.select([receiver], [], [])
        while (batch := receiver.receive()) is not None:
            count += len(batch)
"""
)
_LOOP_RECEIVE = (
    _COUNTING
    + f"""
import socket
inward = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
inward.bind(("{_FAR}", 3))
while True:
    inward.recv(2048)
    count += 1
"""
)
_SCAPY_SNIFF = (
    _COUNTING
    + f"""
from scapy.all import sniff
def seen(_):
    global count
    count += 1
sniff(iface="{_FAR}", store=False, prn=seen)
"""
)
_TIMES = f"""
import json, select, sys
import numpy as np
from ecmproto.frames.capture.linux.receiver import FrameReceiver
frames = int(sys.argv[1])
with FrameReceiver("{_FAR}", socket_octets=512 << 20) as receiver:
    times = np.zeros(0, np.int64)
    while True:
        select.select([receiver], [], [])
        while (batch := receiver.receive()) is not None:
            times = np.append(times, batch.time_ns)
        if len(times) >= frames:
            print(json.dumps(np.diff(times[:frames]).tolist()), flush=True)
            times = times[frames:]
"""
_SENDER = f"""
import numpy as np
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.sender import FrameSender
frame = np.frombuffer(bytes.fromhex("{_FRAME.hex()}"), np.uint8)
batch = Batch.from_matrix(np.tile(frame, (1024, 1)))
with FrameSender("{_NEAR}") as sender:
    while True:
        sender.send(batch.buffer, batch.offset, batch.captured)
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of a process: the number of frames, the duration and the processor time."""

    frames: int
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        per_cpu = f"{self.frames / self.cpu_seconds:>12,.0f}" if self.cpu_seconds else f"{'-':>12}"
        return f"{self.frames / self.seconds:>12,.0f} {per_cpu}"


def run() -> None:
    """Print all results."""
    if os.geteuid() != 0:
        print("interfaces: needs root, to make a namespace")
        return
    with _network(), tempfile.TemporaryDirectory() as folder:
        _sending(Path(folder))
        _gaps(Path(folder))
        _receiving(Path(folder))


def _sending(folder: Path) -> None:
    path, slow = folder / "frames.pcap", folder / "few.pcap"
    write_frames(path, FRAMES, _FRAME)
    write_frames(slow, SLOW_FRAMES, _FRAME)
    ours = [COMMAND, "send", "-i", _NEAR, "-r", str(path), "--rate"]
    contenders = {
        "ecmproto send --rate max": ([*ours, "max"], FRAMES),
        "ecmproto send --rate 500kpps": ([*ours, "500kpps"], FRAMES),
        "a loop of send()": ([sys.executable, "-c", _LOOP_SEND, str(FRAMES)], FRAMES),
        "Scapy's sendp": ([sys.executable, "-c", _SCAPY_SEND, str(SLOW_FRAMES)], SLOW_FRAMES),
    }  # fmt: skip
    if shutil.which("tcpreplay"):
        contenders["tcpreplay --topspeed"] = (["tcpreplay", "--topspeed", "-i", _NEAR, str(path)], FRAMES)
        contenders["tcpreplay --topspeed -K"] = (
            ["tcpreplay", "--topspeed", "-K", "-i", _NEAR, str(path)],
            FRAMES,
        )
    else:
        print("tcpreplay is not installed: not measured")
    print(f"\nsending, whole process          {'frames/s':>12} {'of CPU time':>12}  told")
    for name, (command, frames) in contenders.items():
        before = _sent()
        start = time.perf_counter()
        done, cpu = _finished(command)
        measured = Run(frames=_sent() - before, seconds=time.perf_counter() - start, cpu_seconds=cpu)
        short = f"  of {frames:,} sent {measured.frames:,}" if measured.frames != frames else ""
        print(f"  {name:29} {measured}  {_told(done)}{short}", flush=True)


def _gaps(folder: Path) -> None:
    """Print the differences between requested gaps and the gaps that the receiver's kernel measures."""
    path, frames, asked_ns = folder / "even.pcap", 200_000, 10_000
    write_frames(path, frames, _FRAME[:60])
    receiver = subprocess.Popen(
        _within([sys.executable, "-c", _TIMES, str(frames)]), stdout=subprocess.PIPE, text=True
    )
    _wait_for_socket()
    print(f"\n|gap - requested| at 100,000 frames/s, in µs     {'p50':>8} {'p90':>8} {'p99':>8} {'max':>10}")
    for options in ("", "--precise", "--timing pacing=even", "--timing pacing=even --precise"):
        command = f"{COMMAND} send -i {_NEAR} -r {path} --rate 100kpps {options}"
        _finished(command.split())
        assert receiver.stdout is not None
        off_us = sorted(abs(gap - asked_ns) / 1000 for gap in json.loads(receiver.stdout.readline()))
        shown = (off_us[len(off_us) * share // 100] for share in (50, 90, 99))
        print(f"  {options:42} {' '.join(f'{each:>8.3f}' for each in shown)} {off_us[-1]:>10.1f}", flush=True)
    receiver.kill()
    receiver.communicate()


def _told(output: str) -> str:
    """Return the rate from the output of a program."""
    lines = [line.strip() for line in output.splitlines() if "reached" in line or "Rated" in line]
    return lines[0] if lines else ""


def _receiving(folder: Path) -> None:
    contenders = {
        "batches of a ring": [sys.executable, "-c", _BATCHES],
        "batched calls": [sys.executable, "-c", _CALLS],
        "ecmproto live monitor": [COMMAND, "live", "monitor", "-i", _FAR, "-T", "ndjson"],
        "ecmproto dissect -i -w": [COMMAND, "dissect", "-i", _FAR, "-w", str(folder / "ours.pcap")],
        "a loop of recv()": [sys.executable, "-c", _LOOP_RECEIVE],
        "Scapy's sniff": [sys.executable, "-c", _SCAPY_SNIFF],
        "tcpdump -w": ["tcpdump", "-n", "-i", _FAR, "-w", str(folder / "out.pcap")],
    }
    print(f"\ncounting what a blasting sender sends  {'sent/s':>10} {'seen/s':>12} {'of CPU time':>12}  seen")
    for name, command in contenders.items():
        if shutil.which(command[0]) is None:
            print(f"  {command[0]} is not installed: not measured")
            continue
        sent, measured = _seen(command)
        print(
            f"  {name:36} {sent / measured.seconds:>10,.0f} {measured}  {measured.frames / sent:.1%}",
            flush=True,
        )


def _seen(command: list[str]) -> tuple[int, Run]:
    """Return the number of sent frames and the number of captured frames."""
    process = subprocess.Popen(_within(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    _wait_for_socket()
    before, cpu, start = _sent(), _cpu_seconds(process.pid), time.perf_counter()
    sender = subprocess.Popen(_within([sys.executable, "-c", _SENDER]))
    time.sleep(SECONDS)
    sender.kill()
    sender.wait()
    seconds = time.perf_counter() - start
    time.sleep(0.3)
    used, sent = _cpu_seconds(process.pid) - cpu, _sent() - before
    process.terminate()
    out, _ = process.communicate()
    return sent, Run(frames=_counted(out), seconds=seconds, cpu_seconds=used)


def _counted(output: str) -> int:
    """Return the number of frames from the output of a program."""
    lines = [line for line in output.splitlines() if line]
    if lines and lines[-1].startswith("{"):
        return int(json.loads(lines[-1])["stats"]["frames"])
    words = [word.replace(",", "") for line in lines for word in line.split()[:1]]
    numbers = [int(word) for word in words if word.isdigit()]
    return numbers[0] if numbers else 0


def _wait_for_socket() -> None:
    """Wait until a packet socket is open."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        told = subprocess.run(
            _within(["cat", "/proc/net/packet"]), capture_output=True, text=True, check=True
        )
        if len(told.stdout.splitlines()) > 1:
            break
        time.sleep(0.1)
    time.sleep(SETTLING_SECONDS)


@contextmanager
def _network() -> Iterator[None]:
    try:
        _ip(f"netns add {_NAMESPACE}")
        _ip(f"-n {_NAMESPACE} link add name {_NEAR} type veth peer name {_FAR}")
        for name in (_NEAR, _FAR):
            _ip(f"-n {_NAMESPACE} link set {name} addrgenmode none")
            _ip(f"-n {_NAMESPACE} link set {name} arp off up")
        time.sleep(1)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", _NAMESPACE], check=False)


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


def _within(command: list[str]) -> list[str]:
    return ["ip", "netns", "exec", _NAMESPACE, *command]


def _finished(command: list[str]) -> tuple[str, float]:
    """Return the output of a command and its processor time."""
    before = os.times()
    done = subprocess.run(_within(command), capture_output=True, text=True, check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return done.stdout + done.stderr, cpu


def _sent() -> int:
    path = f"/sys/class/net/{_NEAR}/statistics/tx_packets"
    return int(subprocess.run(_within(["cat", path]), capture_output=True, check=True).stdout)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    run()
