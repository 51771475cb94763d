"""The machine and the process: kernel, capabilities, programs, extras."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ecmproto.capture.linux.packet_socket import REMEDY
from ecmproto.live.doctor.check import Check, State

_SYSTEM = "system"
_CAPABILITIES = {
    13: ("CAP_NET_RAW", "finding", "sending and receiving frames"),
    12: (
        "CAP_NET_ADMIN",
        "note",
        "changing interfaces (--fix), and receive buffers beyond the system's bound",
    ),
    21: ("CAP_SYS_ADMIN", "note", "network namespaces"),
}
_PROGRAMS = {
    "ip": ("iproute2", "namespaces and links"),
    "ethtool": ("ethtool", "the commands that are told below"),
    "tc": ("iproute2", "queues on the way out"),
    "iperf3": ("iperf3", "traffic of real stacks"),
    "lldpd": ("lldpd", "LLDP of a real station"),
}
_TIMEOUT_S = 10


def of_system() -> Iterator[Check]:
    """Yield what is found of the machine and the process."""
    yield _check(
        "kernel", "ok", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )
    yield from _capabilities()
    yield from _tshark()
    for program, (package, purpose) in _PROGRAMS.items():
        if shutil.which(program) is None:
            command = f"apt-get install {package}"
            yield _check(program, "note", f"{program} is not installed: {purpose}", command)
        else:
            yield _check(program, "ok", f"{program}: {purpose}")
    yield from _extras()


def _check(name: str, state: State, told: str, *commands: str) -> Check:
    return Check(subject=_SYSTEM, name=name, state=state, told=told, commands=commands)


def _capabilities() -> Iterator[Check]:
    held = _held(Path("/proc/self/status").read_text(encoding="ascii"))
    for bit, (name, state, purpose) in _CAPABILITIES.items():
        if held >> bit & 1:
            yield _check(name, "ok", f"{name}: {purpose}")
        else:
            missing: State = "finding" if state == "finding" else "note"
            yield _check(name, missing, f"this process lacks {name}: {purpose}", REMEDY)


def _held(status: str) -> int:
    """Return the effective capabilities that /proc/self/status tells, a bit each."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return int(found[1], 16) if found else 0


def _tshark() -> Iterator[Check]:
    path = shutil.which("tshark")
    if path is None:
        yield _check(
            "tshark",
            "note",
            "tshark is not installed: a second opinion on captures",
            "apt-get install tshark",
        )
        return
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    version = re.search(r"TShark \(Wireshark\) ([0-9.]*[0-9])", told)
    # the line may break between the two words
    lua = re.search(r"with\s+Lua\s+([0-9.]+[0-9])", told)
    name = f"tshark {version[1]}" if version else "tshark of unknown version"
    if lua:
        yield _check("tshark", "ok", f"{name}, with Lua {lua[1]} for dissectors")
    else:
        yield _check("tshark", "note", f"{name} without Lua: dissectors of ours cannot be loaded")


def _extras() -> Iterator[Check]:
    """Yield for each extra of this project whether all that it brings is there."""
    try:
        required = metadata.requires("ecmproto") or []
    except metadata.PackageNotFoundError:
        return
    extras: dict[str, list[str]] = {}
    for requirement in required:
        found = re.fullmatch(r"""([A-Za-z0-9_.-]+).*;\s*extra\s*==\s*['"]([a-z]+)['"]""", requirement)
        if found and found[1] != "ecmproto":
            extras.setdefault(found[2], []).append(found[1])
    for extra, packages in extras.items():
        if extra == "all":
            continue
        lacking = [package for package in packages if not _is_installed(package)]
        if lacking:
            told = f"extra {extra}: {', '.join(lacking)} not installed"
            yield _check(f"extra {extra}", "note", told, f"pip install 'ecmproto[{extra}]'")
        else:
            yield _check(f"extra {extra}", "ok", f"extra {extra}: {', '.join(packages)}")


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
