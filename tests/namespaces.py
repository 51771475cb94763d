"""Network namespaces of a test's own, with a veth pair that nothing else talks on."""

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
"""For what comes at once on an idle machine; tests wait for conditions, and this ends those that fail."""
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
    """A namespace with a veth pair, `NEAR` and `FAR`."""

    namespace: str

    def ip(self, arguments: str) -> None:
        """Run ``ip`` in the namespace."""
        subprocess.run(["ip", "-n", self.namespace, *arguments.split()], check=True, capture_output=True)

    def unplug(self, name: str) -> None:
        """Set an interface down, and wait until the kernel reports at the other end that there is no link."""
        self.ip(f"link set {name} down")
        other = FAR if name == NEAR else NEAR
        until = time.monotonic() + PATIENCE_S
        while interface_facts(other).running:
            assert time.monotonic() < until, "the link does not go down"
            time.sleep(0.01)

    def command(self, *words: str) -> list[str]:
        """Return the command that runs ``words`` in the namespace."""
        return ["ip", "netns", "exec", self.namespace, *words]


@contextmanager
def guarded(*names: str) -> Iterator[None]:
    """Make namespaces, and remove them at the end, also where this process is killed: with what runs there.

    What waits for the end is a process of a session of its own, which no signal to this one reaches.  What
    runs there at an end as it should be may be this process's own helper, and stays.
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
    """Make a namespace, let this thread be in it, and remove it at the end."""
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
    """Wait until a frame gets through: a link that was just set up loses them for a while."""
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
