"""Endurance: live devices run for minutes or an hour under many disturbances of links and processes.

``python -m bench endurance [--minutes N] [--seed N]`` runs a reaction point, a port and an edge in a row in a
network namespace. Traffic arrives in bursts, and includes a million source addresses, stacks of VLAN tags,
jumbo frames, groups and link-local frames. Interfaces go down, vanish and are renamed. Devices are stopped
for a while, or are killed and restarted.

When a device ends, its counters must balance: each received frame was sent, is queued, or was dropped for a
counted reason. The memory of a device must not grow. Needs root.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMESPACE = f"ecmproto-endure-{os.getpid()}"
MTU_OCTETS = 9100
PAIRS = ("h", "n", "b", "m", "g")
"""Names of veth pairs: frames enter at h-far and b-far and leave at g-far. The pairs n and m connect
devices.
"""
GROWTH_KIB = 1024
READY_S, DRAIN_S, END_S = 300.0, 2.0, 30.0
_SETTLED_S = 60.0
"""Age in seconds after which the memory of a device is checked."""
_SMALL_PAGES = {"NUMPY_MADVISE_HUGEPAGE": "0"}
"""Environment without huge pages, because the first use of a huge page looks like a growth of 2 MB."""
_SAID_LINES = 40
_LONG_S, _BACKLOG_S = 120.0, 2.0
"""Minimum duration of runs in which memory is checked, and time for which a stopped device collects a
backlog.
"""
_QUIET_SHARE, _MAX_QUIET_S = 0.1, 10.0
"""Share and maximum duration in seconds of the times without disturbances at the start and at the end."""
DEVICES = {
    "point": ("rp", "--host", "h", "--net", "n", "--speed", "100M", "--rp-queue", "20kB"),
    "port": ("cp", "--in", "n-far", "--in", "b", "--out", "m", "--speed", "20M", "--buffer", "200frames"),
    "edge": ("edge", "--net", "m-far", "--host", "g"),
}
_TRAFFIC = """
import os, sys, time
import numpy as np
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.errors import EcmprotoError
name, seed, stations, fps, longest = sys.argv[1], *map(int, sys.argv[2:])
os.nice(5)
draws = np.random.default_rng(seed)
sender = None
SINK, GROUP, LINK_LOCAL = map(bytes.fromhex, ("0200000000fa", "03000000000b", "0180c2000003"))
TAGS = [*map(bytes.fromhex, ("", "", "81006005", "88a820148100600a", "810000018100000181000001"))]
while True:
    start = time.monotonic()
    count = int(draws.integers(1, fps // 5))
    frames = []
    for number in range(count):
        chance = draws.random()
        to = SINK if chance < 0.93 else GROUP if chance < 0.97 else LINK_LOCAL
        station = int(draws.integers(stations)) if stations > 20 and chance < 0.9 else number % 8
        octets = int(draws.integers(60, 1500)) if chance < 0.85 else int(draws.integers(60, longest))
        head = to + b"\\x02\\x01" + station.to_bytes(4) + TAGS[number % len(TAGS)] + b"\\x99\\x99"
        frames.append(head.ljust(octets, b"\\xa5"))
    length = np.array([len(each) for each in frames], np.int64)
    octets = np.frombuffer(b"".join(frames), np.uint8)
    try:
        if sender is None:
            sender = FrameSender(name)
        sender.send(octets, np.cumsum(length) - length, length)
    except EcmprotoError:
        if sender is not None:
            sender.close()
        sender = None
    time.sleep(max(0.0, start + count / fps - time.monotonic()))
"""
_HELLO = """
import sys, time
import numpy as np
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.errors import EcmprotoError
hello = np.frombuffer(bytes.fromhex("0300000000010200000000fa9999").ljust(60, b"\\0"), np.uint8)
while True:
    try:
        with FrameSender("g-far") as sender:
            sender.send(hello, np.zeros(1, np.int64), np.array([60]))
    except EcmprotoError:
        pass
    time.sleep(0.5)
"""


def balance(role: str, document: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return pairs of frame counts that must be equal in the summary of a device, by name."""
    counters, links = Counter(document["counters"]), document["links"]

    def received(*names: str) -> int:
        return sum(int(links[name]["received_frames"]) for name in names)

    def left(*names: str) -> int:
        counted = ("sent_frames", "unsent_frames", "refused_frames")
        return sum(int(links[name][each]) for name in names for each in counted)

    first, *inner, last = links
    if role == "cp":
        inputs = (first, *inner)
        queued = counters["queued_frames"] + counters["dropped_frames"]
        others = ("bridged_frames", "filtered_frames", "link_local_frames", "refused_frames")
        waiting = int(document["gauges"]["queue_frames"])
        return {
            # All frames that arrive at the output have group addresses.
            "received": (received(*inputs), queued + sum(counters[each] for each in others)),
            "queued": (counters["queued_frames"], counters["departed_frames"] + waiting),
            "departed": (counters["departed_frames"], left(last)),
        }
    net, host = (last, first) if role == "rp" else (first, last)
    if role == "rp":
        refused = counters["refused_frames"]
        gone = ("past_frames", "held_out_frames", "overflow_frames", "left_frames")
        waiting = int(document["gauges"]["waiting_frames"])
        kept = sum(counters[each] for each in gone) + waiting
        back = counters["net_frames"] - counters["consumed_frames"]
        return {
            "received": (received(host, net), counters["host_frames"] + counters["net_frames"]),
            "limited": (counters["host_frames"], kept + refused),
            "sent": (counters["left_frames"] + counters["past_frames"], left(net)),
            "handed on": (back, left(host)),
        }
    taken = counters["probes"] + counters["consumed_frames"] + counters["refused_frames"]
    both = counters["net_frames"] + counters["host_frames"]
    return {"received": (received(net, host), both), "handed on": (both - taken, left(net, host))}


@dataclass
class Device:
    """A device process, with its last report and its memory use over time."""

    name: str
    program: subprocess.Popen[str]
    started_s: float = field(default_factory=time.monotonic)
    document: dict[str, Any] = field(default_factory=dict)
    memory: list[tuple[float, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)

    def read(self) -> None:
        """Start threads that read the reports of the device."""
        self.readers = [threading.Thread(target=each, args=(self,)) for each in (_read, _read_errors)]
        for reader in self.readers:
            reader.start()

    def close(self) -> None:
        """Kill the device if it still runs, and read its remaining reports."""
        self.program.kill()
        self.program.wait()
        for reader in self.readers:
            reader.join()
        for stream in (self.program.stdout, self.program.stderr):
            if stream is not None:
                stream.close()

    @property
    def role(self) -> str:
        """Return the role of the device: ``rp``, ``cp`` or ``edge``."""
        return DEVICES[self.name][0]

    def look(self) -> None:
        """Record the memory use of the device."""
        try:
            status = Path(f"/proc/{self.program.pid}/status").read_text(encoding="ascii")
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("RssAnon:"):
                self.memory.append((time.monotonic() - self.started_s, int(line.split()[1])))

    def growth_kib(self) -> int:
        """Return the growth of memory in KiB since the device had settled, or 0 for a device that ended
        early.
        """
        before = [kib for age_s, kib in self.memory if age_s <= _SETTLED_S]
        after = [kib for age_s, kib in self.memory if age_s > _SETTLED_S]
        return after[-1] - max(before) if before and after else 0


class Endurance:
    """The devices, the disturbances and the faults that were found."""

    def __init__(self, seconds: float, seed: int, tell: Callable[[str], None]) -> None:
        self.found: list[str] = []
        self.happened: Counter[str] = Counter()
        self.frames: Counter[str] = Counter()
        self._seconds = seconds
        self._tell = tell
        self._draws = random.Random(seed)
        self._devices: dict[str, Device] = {}
        self._traffic: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        """Run the devices with disturbances for the whole time."""
        with _namespace():
            for pair in PAIRS:
                _pair(pair)
            try:
                for name in DEVICES:
                    self._start(name)
                self._start_traffic()
                if self._seconds > _LONG_S:
                    for name in DEVICES:
                        self._fill(name)
                self._mishaps()
                self._stop_traffic()
                time.sleep(DRAIN_S)
                for name in DEVICES:
                    self._end(name)
            finally:
                self._stop_traffic()
                for device in self._devices.values():
                    device.close()

    def _start(self, name: str) -> None:
        words = [*DEVICES[name], "--mechanism", "qcn", "-T", "ndjson", "--seed", "1"]
        program = subprocess.Popen(
            [*_inside(), sys.executable, "-m", "ecmproto_cli", "live", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **_SMALL_PAGES},
        )  # fmt: skip
        assert program.stderr is not None
        deadline = time.monotonic() + READY_S
        while " ready: " not in (line := program.stderr.readline()):
            if not line or time.monotonic() > deadline:
                raise RuntimeError(f"{name} does not become ready")
        device = Device(name, program)
        device.read()
        self._devices[name] = device
        if self._traffic and self._seconds > _LONG_S:
            self._fill(name)

    def _fill(self, name: str) -> None:
        """Make a device use all its buffers, because unused buffers occupy no memory."""
        device = self._devices[name]
        for interface in ("", *_interfaces(name)):
            if interface:
                _ip("link", "set", "dev", interface, "down")
            device.program.send_signal(signal.SIGSTOP)
            time.sleep(_BACKLOG_S)
            device.program.send_signal(signal.SIGCONT)
            time.sleep(_BACKLOG_S / 2)
            if interface:
                _ip("link", "set", "dev", interface, "up")
        for pair in {interface.removesuffix("-far") for interface in _interfaces(name)}:
            _ip("link", "del", "dev", pair)
            _pair(pair)
            time.sleep(_BACKLOG_S)

    def _start_traffic(self) -> None:
        for words in (
            (_TRAFFIC, "h-far", "1", "12", "2000", "9000"),
            (_TRAFFIC, "b-far", "2", str(10**6), "3000", "1500"),
            (_HELLO,),
        ):
            code, *arguments = words
            self._traffic.append(subprocess.Popen([*_inside(), sys.executable, "-c", code, *arguments]))

    def _stop_traffic(self) -> None:
        for program in self._traffic:
            program.kill()
            program.wait()
        self._traffic.clear()

    def _mishaps(self) -> None:
        """Cause disturbances until the time is over."""
        start_s = time.monotonic()
        mishaps = (self._flap, self._delete, self._rename, self._suspend, self._kill)
        weights = (12, 9, 9, 12, 1 if self._seconds > _LONG_S else 4)
        while (age_s := time.monotonic() - start_s) < self._seconds:
            for device in self._devices.values():
                device.look()
                if device.program.poll() is not None:
                    self.happened["end"] += 1
                    device.close()
                    said = "".join(device.said[-_SAID_LINES:])
                    self.found.append(f"{device.name} ended with {device.program.returncode}: {said}")
                    self._start(device.name)
            time.sleep(self._draws.uniform(0.2, 2.0))
            if min(age_s, self._seconds - age_s) > min(_MAX_QUIET_S, self._seconds * _QUIET_SHARE):
                (chosen,) = self._draws.choices(mishaps, weights)
                self.happened[chosen.__name__.strip("_")] += 1
                chosen()

    def _interface(self) -> str:
        return self._draws.choice(("h", "n", "n-far", "b", "m", "m-far", "g"))

    def _flap(self) -> None:
        name = self._interface()
        for _ in range(self._draws.randint(1, 5)):
            _ip("link", "set", "dev", name, "down")
            time.sleep(self._draws.uniform(0.0, 0.3))
            _ip("link", "set", "dev", name, "up")
            time.sleep(self._draws.uniform(0.0, 0.3))

    def _delete(self) -> None:
        pair = self._draws.choice(PAIRS)
        _ip("link", "del", "dev", pair)
        time.sleep(self._draws.uniform(0.0, 2.5))
        _pair(pair)

    def _rename(self) -> None:
        name = self._interface()
        for before, after in ((name, "other"), ("other", name)):
            _ip("link", "set", "dev", before, "down")
            _ip("link", "set", "dev", before, "name", after)
            _ip("link", "set", "dev", after, "up")
            time.sleep(self._draws.uniform(0.0, 2.0))

    def _suspend(self) -> None:
        device = self._devices[self._draws.choice(list(DEVICES))]
        device.program.send_signal(signal.SIGSTOP)
        time.sleep(self._draws.uniform(0.01, 3.0))
        device.program.send_signal(signal.SIGCONT)

    def _kill(self) -> None:
        """Kill or stop a device, and restart it."""
        name = self._draws.choice(list(DEVICES))
        if self._draws.random() < 0.5:
            self._end(name)
        else:
            self._devices[name].close()
            self._grew(self._devices[name])
        self._start(name)

    def _end(self, name: str) -> None:
        """Stop a device, and check its summary."""
        device = self._devices[name]
        device.look()
        device.program.send_signal(signal.SIGTERM)
        try:
            code = device.program.wait(END_S)
        except subprocess.TimeoutExpired:
            self.found.append(f"{name} does not end")
            code = -signal.SIGKILL
        device.close()
        if code or device.document.get("event") != "summary":
            self.found.append(f"{name} ended with {code} and {device.document.get('event')}")
            return
        self._grew(device)
        for what, (one, other) in balance(device.role, device.document).items():
            self.frames[name] += one
            if one != other:
                self.found.append(f"{name}: {what}: {one} and {other}: {json.dumps(device.document)}")

    def _grew(self, device: Device) -> None:
        growth_kib = device.growth_kib()
        self._tell(f"{device.name}: {device.memory[-1][1] if device.memory else 0} KiB, grew by {growth_kib}")
        if growth_kib > GROWTH_KIB:
            self.found.append(f"{device.name} grew by {growth_kib} KiB: {device.memory}")


def _read(device: Device) -> None:
    assert device.program.stdout is not None
    for line in device.program.stdout:
        device.document = json.loads(line)


def _read_errors(device: Device) -> None:
    assert device.program.stderr is not None
    for line in device.program.stderr:
        device.said.append(line)


def _interfaces(name: str) -> list[str]:
    words = DEVICES[name]
    flags = ("--host", "--net", "--in", "--out")
    return [after for before, after in itertools.pairwise(words) if before in flags]


def _inside() -> list[str]:
    return ["ip", "netns", "exec", NAMESPACE]


def _ip(*words: str) -> None:
    subprocess.run(["ip", "-n", NAMESPACE, *words], check=True)


def _pair(name: str) -> None:
    mtu = ("mtu", str(MTU_OCTETS))
    _ip("link", "add", "name", name, *mtu, "type", "veth", "peer", "name", f"{name}-far", *mtu)
    for end in (name, f"{name}-far"):
        _ip("link", "set", "dev", end, "arp", "off", "up")


@contextmanager
def _namespace() -> Iterator[None]:
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        for scope in ("all", "default"):
            path = f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"
            subprocess.run([*_inside(), "sh", "-c", f"echo 1 > {path}"], check=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=False)


def run(words: Sequence[str] = ()) -> None:
    """Run for the requested time, and print the faults."""
    parser = argparse.ArgumentParser(prog="python -m bench endurance")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    if os.geteuid() != 0:
        print("endurance: needs root, to make a namespace")
        return
    print(f"endurance: {asked.minutes:g} minutes, seed {asked.seed}", flush=True)
    endurance = Endurance(60 * asked.minutes, asked.seed, lambda said: print(said, flush=True))
    endurance.run()
    print("happened:", ", ".join(f"{name} {count}" for name, count in endurance.happened.items()))
    print("frames accounted for:", ", ".join(f"{name} {n:,}" for name, n in endurance.frames.items()))
    for said in endurance.found:
        print("WRONG:", said)
    if endurance.found:
        sys.exit(1)
    print("nothing was lost that is not counted, and no memory grew")
