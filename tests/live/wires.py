"""Namespaces and veth pairs for tests with real interfaces, created and removed by each test."""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import requires
from tests.namespaces import PATIENCE_S, guarded

READY_S = 300.0
_SO_RCVBUFFORCE = 33
_PACKET_STATISTICS = 6
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 263, 8, 23
_VLAN_VALID = 1 << 4


Socket = socket.socket


def requires_namespaces() -> None:
    """Skip the test by name where namespaces cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make network namespaces")
    requires("ip")


class Wires:
    """One namespace, in which veth pairs lead from ``NAME`` (the device's end) to ``NAME-far``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.programs: list[subprocess.Popen[str]] = []

    def ip(self, *arguments: str) -> None:
        subprocess.run(["ip", "-n", self.name, *arguments], check=True)

    def pair(self, name: str, *, mtu: int = 1600) -> None:
        self.ip(
            "link", "add", "name", name, "mtu", str(mtu), "type", "veth", "peer", "name", f"{name}-far",
            "mtu", str(mtu),
        )  # fmt: skip
        for end in (name, f"{name}-far"):
            self.ip("link", "set", "dev", end, "arp", "off", "up")

    def kernel_counters(self) -> dict[str, tuple[int, ...]]:
        """Return the number of received, sent and dropped frames of each interface, according to the
        kernel.
        """
        words = ["ip", "-n", self.name, "-s", "-j", "link", "show"]
        shown = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
        counts = {each["ifname"]: (each["stats64"]["rx"], each["stats64"]["tx"]) for each in shown}
        return {
            name: (into["packets"], out["packets"], into["dropped"], out["dropped"])
            for name, (into, out) in counts.items()
        }

    def socket(self, interface: str) -> socket.socket:
        """Return a packet socket that receives all frames of an interface and can send frames."""
        made = self._made(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        made.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        made.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        made.bind((interface, 3))
        made.settimeout(PATIENCE_S)
        return made

    def connecting(self, host: str, port: int) -> Socket:
        """Return a socket that connects, or would like to."""
        made = self._made(socket.AF_INET, socket.SOCK_STREAM, 0)
        made.setblocking(False)
        made.connect_ex((host, port))
        return made

    def _made(self, family: int, kind: int, protocol: int) -> Socket:
        """Return a socket in the namespace. A thread enters the namespace, creates the socket and exits."""
        made: list[Socket] = []

        def make() -> None:
            with open(f"/run/netns/{self.name}", "rb") as there:
                assert ctypes.CDLL(None).setns(there.fileno(), 0) == 0
            made.append(socket.socket(family, kind, protocol))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def start(
        self,
        *words: str,
        python: Sequence[str] = ("-m", "ecmproto_cli"),
        before: Callable[[], None] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a live device, and return the process when the device is ready.

        ``before`` is called in this process.
        """
        program = subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, *python, "live", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before,
        )  # fmt: skip
        self.programs.append(program)
        assert program.stderr is not None
        said: list[str] = []
        deadline = time.monotonic() + READY_S
        while not said or " ready: " not in said[-1]:
            said.append(program.stderr.readline())
            assert said[-1], f"the device ended: {''.join(said)}"
            assert time.monotonic() < deadline
        return program

    def documents(self, program: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
        """Yield the reports of a device with ``-T ndjson``, one a second."""
        assert program.stdout is not None
        for line in program.stdout:
            yield json.loads(line)

    def end(self, program: subprocess.Popen[str], number: int = signal.SIGTERM) -> dict[str, Any]:
        """Signal a device to end; return its summary (of ``-T ndjson``)."""
        program.send_signal(number)
        output, _ = program.communicate(timeout=PATIENCE_S)
        summary = json.loads(output.splitlines()[-1])
        assert summary["event"] == "summary"
        return dict(summary)


@contextmanager
def wires(tmp_path: Path) -> Iterator[Wires]:
    """Create a namespace, and remove the namespace and its processes at the end."""
    requires_namespaces()
    name = f"ecmproto-test-{os.getpid()}-{abs(hash(tmp_path)) % 10**6}"
    made = Wires(name)
    with guarded(name):
        for scope in ("all", "default"):
            path = f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"
            # Nothing is to be sent but by the test.
            subprocess.run(["ip", "netns", "exec", name, "sh", "-c", f"echo 1 > {path}"], check=True)
        try:
            yield made
        finally:
            for program in made.programs:
                if program.poll() is None:
                    program.kill()
                program.communicate()


def until(holds: Callable[[], bool]) -> None:
    """Wait until ``holds`` returns true. ``holds`` may also wait."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def socket_counters(sock: Socket) -> tuple[int, int]:
    """Return the number of frames that arrived at a packet socket since the last call, and the number of
    dropped frames.
    """
    packets, drops = struct.unpack("=II", sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    return packets, drops


def received(sock: socket.socket, count: int) -> list[bytes]:
    """Return the next ``count`` frames. As in the kernel, VLAN tags are removed from the frames."""
    return [sock.recv(65536) for _ in range(count)]


def received_before(sock: Socket, last: bytes) -> list[bytes]:
    """Return the frames that come before ``last``."""
    return list(iter(functools.partial(sock.recv, 65536), last))


def comes_through(one: Socket, out: Socket, octets: bytes) -> None:
    """Send a frame until it leaves through ``out``, possibly with a tag, and until no sent frame is pending.

    Each attempt has a number in its last octets. Frames of earlier attempts are discarded.
    """
    deadline = time.monotonic() + PATIENCE_S
    for attempt in itertools.count():
        sent = octets[:-2] + attempt.to_bytes(2)
        one.send(sent)
        # Each wait is longer, otherwise a device that is late by more than the first wait would stay one
        # attempt late.
        out.settimeout(0.3 * (attempt + 1))
        try:
            while True:
                got = out.recv(2048)
                if got[:12] == sent[:12] and got.endswith(sent[12:]):
                    out.settimeout(PATIENCE_S)
                    return
        except TimeoutError:
            assert time.monotonic() < deadline, "it never came through"


def with_tag(sock: socket.socket) -> bytes:
    """Return the next frame as on the wire, with its VLAN tag restored."""
    octets, beside, _, _ = sock.recvmsg(65536, 128)
    status, tci, tpid = (int.from_bytes(beside[0][2][a:b], "little") for a, b in ((0, 4), (16, 18), (18, 20)))
    tag = tpid.to_bytes(2) + tci.to_bytes(2) if status & _VLAN_VALID else b""
    return octets[:12] + tag + octets[12:]


def all_received(sock: socket.socket, *, silence_s: float = 1.0) -> list[bytes]:
    """Return all frames until none comes any more."""
    frames = []
    sock.settimeout(silence_s)
    try:
        while True:
            frames.append(sock.recv(65536))
    except TimeoutError:
        return frames
