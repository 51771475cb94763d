"""Network namespaces that are always removed at the end, and programs that run in these namespaces.

A guardian process waits for the end of this process, and then removes the remaining namespaces.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from ecmproto.control.live.privileges import run_in_realtime
from ecmproto.errors import InterfaceError, MissingDependencyError
from ecmproto.frames.capture.linux.interface import OFFLOADS, Offload, switch_off

_Made = TypeVar("_Made")

_FOLDER = Path("/run/netns")
_PR_SET_PDEATHSIG = 1
_GUARDIAN = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.read()
from ecmproto.control.live.testbed.namespaces import remove
for name in sys.argv[1:]:
    remove(name)
"""
_WAIT_S = 5.0


class Namespaces:
    """Namespaces with names that contain the number of this process.

    The end of the context terminates the programs and removes the namespaces. Raises InterfaceError if the
    process may not create namespaces, and MissingDependencyError without pyroute2.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._full = {name: f"ecmproto-{os.getpid()}-{name}" for name in names}
        self._programs: list[subprocess.Popen[Any]] = []
        self._guardian: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Namespaces:
        _pyroute2()
        self._guardian = subprocess.Popen(
            [sys.executable, "-c", _GUARDIAN, *self._full.values()],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a signal to this process's group must not end it before it is ready
        )
        try:
            for name in self._full.values():
                _create(name)
        except BaseException:
            self.__exit__()
            raise
        for name in self._full:
            self.inside(name, _be_quiet)
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.terminate()
        for program in self._programs:
            try:
                program.wait(_WAIT_S)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
        for name in self._full.values():
            remove(name)
        if self._guardian is not None and self._guardian.stdin is not None:
            self._guardian.stdin.close()
            self._guardian.wait()

    def connect(self, one: tuple[str, str], other: tuple[str, str], *, mtu_octets: int) -> None:
        """Create a veth pair between two ends, and set both ends up.

        An end is a namespace and an interface name.
        """
        pyroute2 = _pyroute2()
        with pyroute2.IPRoute() as ip:
            ip.link(
                "add", ifname=one[1], kind="veth", mtu=mtu_octets, net_ns_fd=self._full[one[0]],
                peer={"ifname": other[1], "mtu": mtu_octets, "net_ns_fd": self._full[other[0]]},
            )  # fmt: skip
        for namespace, interface in (one, other):
            self.inside(namespace, functools.partial(_set, interface, state="up"))

    def address(self, name: str, interface: str, *, mac: str, ip: str, mtu_octets: int) -> None:
        """Set the addresses of an interface in a namespace."""
        self.inside(name, functools.partial(_set, interface, ip=ip, address=mac, mtu=mtu_octets))

    def inside(self, name: str, do: Callable[[], _Made]) -> _Made:
        """Call ``do`` in a namespace and return the result; a temporary thread enters the namespace."""

        def enter_and_call() -> _Made:
            _enter(self._full[name])
            return do()

        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(enter_and_call).result()

    def processor_ns(self) -> dict[str, int]:
        """Return the processor time of each thread of the programs; the keys are thread numbers."""
        times = {}
        for program in self._programs:
            for task in Path(f"/proc/{program.pid}/task").glob("*/schedstat"):
                with suppress(OSError):  # the thread has just ended
                    times[task.parent.name] = int(task.read_text(encoding="ascii").split()[0])
        return times

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        output: IO[Any] | int | None = None,
        errors: IO[Any] | int | None = None,
        realtime: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a program in a namespace; the program ends with this process or with the context.

        A ``realtime`` program runs before ordinary processes, but after the devices.
        """
        full = self._full[name]

        def prepare() -> None:
            _enter(full)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if realtime:
                run_in_realtime(below_devices=True)

        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, preexec_fn=prepare
        )
        self._programs.append(program)
        return program


def check_rights() -> None:
    """Create and remove a namespace, to check that this is possible.

    Raises InterfaceError if the process may not create namespaces, and MissingDependencyError without
    pyroute2.
    """
    name = f"ecmproto-{os.getpid()}-trial"
    _create(name)
    remove(name)


def _create(name: str) -> None:
    try:
        _pyroute2().netns.create(name)
    except PermissionError as error:
        raise InterfaceError(
            interface="testbed",
            needed="permission to create network namespaces",
            got="a process without that permission",
            remedy="run it as root",
        ) from error


def remove(name: str) -> None:
    """Remove a namespace if the namespace exists."""
    with suppress(OSError):
        if (_FOLDER / name).exists():
            _pyroute2().netns.remove(name)


def leftover_namespaces() -> list[str]:
    """Return the names of testbed namespaces whose process has ended."""
    names = []
    for path in _FOLDER.glob("ecmproto-*-*") if _FOLDER.is_dir() else ():
        number = path.name.split("-")[1]
        if number.isdigit() and not Path(f"/proc/{number}").exists():
            names.append(path.name)
    return names


def _enter(name: str) -> None:
    with open(_FOLDER / name, "rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)


def _set(interface: str, *, ip: str | None = None, **facts: str | int) -> None:
    """Set attributes and the IPv4 address of an interface in this thread's namespace."""
    # pyroute2 forks to enter a namespace, and a signal would unwind this program's stack in the child.
    with _pyroute2().IPRoute() as route:
        index = route.link_lookup(ifname=interface)[0]
        route.link("set", index=index, **facts)
        if ip is not None:
            route.addr("add", index=index, address=ip, prefixlen=24)


def _be_quiet() -> None:
    """Turn off IPv6 in this thread's namespace, because the kernel would send IPv6 frames without traffic."""
    for scope in ("all", "default"):
        with suppress(OSError):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1", encoding="ascii")


def _pyroute2() -> Any:
    try:
        return importlib.import_module("pyroute2")
    except ImportError:
        raise MissingDependencyError(package="pyroute2", extra="live", purpose="a testbed") from None


_OFFLOAD_KEYWORDS = ("tso", "gso", "gro", "tx", "rx", "sg")
_SCATTER_GATHER = Offload(keyword="sg", title="scatter-gather", ask=0x18, set=0x19)


def turn_off(interface: str) -> None:
    """Turn off checksum and segmentation offloads of an interface in this thread's namespace.

    With offloads, the kernel passes frames between namespaces without checksums and as segments of up to 64
    KiB. A packet socket needs frames as on a wire.
    """
    for offload in (*OFFLOADS, _SCATTER_GATHER):
        if offload.keyword in _OFFLOAD_KEYWORDS:
            with suppress(InterfaceError):  # an interface without the offload reports an error
                switch_off(interface, offload)
