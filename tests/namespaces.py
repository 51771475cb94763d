"""Network namespaces for tests, with a veth pair that carries no other traffic."""

from __future__ import annotations

import ctypes
import itertools
import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ecmproto.frames.capture.linux.interface import interface_facts
from tests.conftest import CI, requires

_ETH_P_ALL = 3
NEAR, FAR = "near", "far"
PATIENCE_S = 120.0
"""Maximum waiting time in seconds for conditions that an idle machine reaches immediately."""
_GUARDIAN = """
trap '' INT TERM HUP
read -r word
for name; do
    [ "$word" ] || for number in $(ip netns pids "$name"); do kill -9 "$number"; done
    ip netns del "$name"
done
"""
_numbers = itertools.count()


@dataclass(frozen=True)
class Network:
    """A network namespace with the veth pair `NEAR` and `FAR`."""

    namespace: str

    def ip(self, arguments: str) -> None:
        """Run ``ip`` in the namespace."""
        subprocess.run(["ip", "-n", self.namespace, *arguments.split()], check=True, capture_output=True)

    def unplug(self, name: str) -> None:
        """Set an interface down, and wait until the other end has no link."""
        self.ip(f"link set {name} down")
        other = FAR if name == NEAR else NEAR
        until = time.monotonic() + PATIENCE_S
        while interface_facts(other).running:
            assert time.monotonic() < until, "the link does not go down"
            time.sleep(0.01)

    def command(self, *words: str) -> list[str]:
        """Return a command that runs ``words`` in the namespace."""
        return ["ip", "netns", "exec", self.namespace, *words]


@contextmanager
def guarded(*names: str) -> Iterator[None]:
    """Create namespaces, and remove the namespaces at the end, even if this process is killed.

    A process in a separate session, which signals to this process do not reach, removes the namespaces. It
    kills the processes in the namespaces only if this process was killed.
    """
    guardian = subprocess.Popen(
        ["sh", "-c", _GUARDIAN, "guardian", *names],
        stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert guardian.stdin is not None
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        yield
    finally:
        guardian.communicate(b"done\n", timeout=PATIENCE_S)


@contextmanager
def network() -> Iterator[Network]:
    """Create a namespace, run this thread in the namespace, and remove the namespace at the end."""
    requires("ip")
    if os.geteuid() != 0:
        why = "not root: network namespaces cannot be made"
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    made = Network(f"ecmproto-{os.getpid()}-{next(_numbers)}")
    with guarded(made.namespace):
        made.ip(f"link add name {NEAR} type veth peer name {FAR}")
        with _inside(made.namespace):
            for name in (NEAR, FAR):
                # without addresses, the kernel sends no frames
                made.ip(f"link set {name} addrgenmode none")
                made.ip(f"link set {name} arp off up")
            _carry(NEAR, FAR)
            _carry(FAR, NEAR)
            yield made


def _carry(sending: str, receiving: str) -> None:
    """Send frames until a frame arrives, because a new link loses frames at first."""
    kind, protocol = socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(_ETH_P_ALL)
    with (
        socket.socket(socket.AF_PACKET, kind, 0) as source,
        socket.socket(socket.AF_PACKET, kind, protocol) as sink,
    ):
        source.bind((sending, 0))
        sink.bind((receiving, _ETH_P_ALL))
        until = time.monotonic() + PATIENCE_S
        while not select.select([sink], [], [], 0.01)[0]:
            source.send(bytes(60))
            assert time.monotonic() < until, "the veth pair carries nothing"


@contextmanager
def _inside(namespace: str) -> Iterator[None]:
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(Path("/run/netns") / namespace, os.O_RDONLY)
    try:
        _enter(there)
        try:
            yield
        finally:
            _enter(before)
    finally:
        os.close(there)
        os.close(before)


def _enter(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0):
        raise OSError(ctypes.get_errno(), "setns")
