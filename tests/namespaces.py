"""Network namespaces of a test's own, with a veth pair that nothing else talks on."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import CI, requires

NEAR, FAR = "near", "far"
_numbers = itertools.count()


@dataclass(frozen=True)
class Network:
    """A namespace with a veth pair, `NEAR` and `FAR`."""

    namespace: str

    def ip(self, arguments: str) -> None:
        """Run ``ip`` in the namespace."""
        subprocess.run(["ip", "-n", self.namespace, *arguments.split()], check=True, capture_output=True)

    def command(self, *words: str) -> list[str]:
        """Return the command that runs ``words`` in the namespace."""
        return ["ip", "netns", "exec", self.namespace, *words]


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
    subprocess.run(["ip", "netns", "add", made.namespace], check=True)
    try:
        made.ip(f"link add name {NEAR} type veth peer name {FAR}")
        with _inside(made.namespace):
            for name in (NEAR, FAR):
                # without addresses the machine sends nothing of its own
                made.ip(f"link set {name} addrgenmode none")
                made.ip(f"link set {name} arp off up")
            yield made
    finally:
        subprocess.run(["ip", "netns", "del", made.namespace], check=True)


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
