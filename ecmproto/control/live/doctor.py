"""Checks of this machine's ability to send and receive frames, with commands to improve it.

>>> for check in examine():
...     print(check.subject, check.state)
"""

from __future__ import annotations

import dataclasses
import functools
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ecmproto.errors import EcmprotoError, pip_install
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.capture.linux.interface import (
    OFFLOADS,
    InterfaceFacts,
    Offload,
    driver,
    driver_statistics,
    flow_control,
    interface_facts,
    interface_names,
    is_on,
    set_mtu,
    speed_bps,
    switch_off,
)
from ecmproto.frames.capture.linux.packet_socket import REMEDY
from ecmproto.frames.capture.linux.streams import may_run_ahead, stream_processors
from ecmproto.frames.capture.linux.timed_departures import known_disciplines
from ecmproto.kernels import library
from ecmproto.kernels.kernel import is_disabled
from ecmproto.units import format_rate, format_time
from ecmproto.wire.codec.tags import is_tag
from ecmproto.wire.formats.ethernet import VLAN
from ecmproto.wire.formats.registry import FORMATS

if TYPE_CHECKING:
    from ecmproto.frames.stats.statistics import Neighbour

CheckState = Literal["ok", "note", "finding", "fixed"]
"""The state of a check.

A ``note`` is information. A ``finding`` prevents a function; ``fixed`` means that the finding was resolved.
"""
_SYSTEM = "system"
_CAPABILITIES: dict[int, tuple[str, CheckState, str]] = {
    13: ("CAP_NET_RAW", "finding", "sending and receiving frames"),
    12: (
        "CAP_NET_ADMIN",
        "note",
        "changing interfaces (--apply), and receive buffers above the system limit",
    ),
    21: ("CAP_SYS_ADMIN", "note", "network namespaces"),
}
_PROGRAMS = {
    "ip": ("iproute2", "namespaces and links"),
    "ethtool": ("ethtool", "the commands shown below"),
    "tc": ("iproute2", "queues for outgoing frames"),
    "iperf3": ("iperf3", "traffic of real stacks"),
    "lldpd": ("lldpd", "LLDP of a real station"),
}
_TIMEOUT_S = 10
PAYLOAD_OCTETS = 1500
"""The maximum payload, in octets, of stations without jumbo frames."""
MTU_OCTETS = 1600
"""The MTU to set if the current MTU is too small.

The MTU has space for every stack of tags, including the tags of provider bridges.
"""
TAG_OCTETS = VLAN.fixed_octets + max(cls.fixed_octets for cls in FORMATS if is_tag(cls))
"""The number of octets that a VLAN tag and the longest congestion tag add to a frame."""
_MERGING = frozenset(("tso", "gso", "gro", "lro"))
_SOFTWARE = frozenset(("veth", "virtio_net", "tun", "dummy", "bridge", "ifb"))
"""Drivers of virtual interfaces, for which no hardware computes the checksums that the kernel omits."""
_CONSUMED = "network cards consume PAUSE and PFC frames, so no capture shows them"
_SHOWN_COUNTERS = 16
_LOOPBACK = "lo"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of one check.

    ``subject`` is ``system`` or an interface, ``name`` is the check's name, and ``text`` is a sentence.
    ``commands`` resolve the finding. ``mend`` resolves the finding from this process; ``None`` means that
    this is not possible. ``refusal`` is the reason why ``mend`` failed.
    """

    subject: str
    name: str
    state: CheckState
    text: str
    commands: tuple[str, ...] = ()
    refusal: str = ""
    mend: Callable[[], None] | None = dataclasses.field(default=None, compare=False, repr=False)


def examine(interfaces: Sequence[str] = ()) -> Iterator[Diagnosis]:
    """Yield the results for the system, and then the results for each interface.

    Without ``interfaces``, all Ethernet interfaces that are up are examined. Raises InterfaceError for a
    missing interface.
    """
    facts = [interface_facts(name) for name in interfaces or interface_names()]
    yield from of_system()
    for each in facts:
        if interfaces or (each.up and each.linktype == ETHERNET and each.name != _LOOPBACK):
            yield from of_interface(each)


def of_neighbours(interfaces: Sequence[str], wait_ns: int) -> Iterator[Diagnosis]:
    """Yield the LLDP and DCBX advertisements of neighbours as the frames are received.

    The function waits at most ``wait_ns``. Raises InterfaceError for an interface that is missing or may not
    be opened.
    """
    from ecmproto.frames.capture.linux.reader import open_interface
    from ecmproto.frames.filter import compile_filter
    from ecmproto.frames.filter.prefilter import prefilter
    from ecmproto.frames.stats import Accumulator

    program, until_ns = prefilter(compile_filter("lldp")), time.monotonic_ns() + wait_ns
    with ExitStack() as opened:
        waiting = {}
        for name in interfaces:
            reader = open_interface(name, outgoing=False, program=program, idle_batches=True)
            opened.callback(reader.close)
            waiting[name] = iter(reader), Accumulator()
        while waiting and time.monotonic_ns() < until_ns:
            for name, (batches, counts) in list(waiting.items()):
                counts.add(next(batches))
                neighbours = counts.result().neighbours
                yield from (_neighbour(name, each) for each in neighbours)
                if neighbours:
                    del waiting[name]
    for name in waiting:
        text = f"no LLDP from the other end in {format_time(wait_ns)}: agents usually send it every 30 s"
        yield _check(name, "neighbour", "note", text)


def _neighbour(name: str, neighbour: Neighbour) -> Diagnosis:
    """Return a description of the neighbour."""
    advertised = {
        "DCBX": ", ".join(neighbour.dialects) or None, "PFC": neighbour.pfc_text, "ETS": neighbour.ets_text,
        "applications": neighbour.applications_text, "CNPV": neighbour.cnpvs_text,
    }  # fmt: skip
    parts = [f"{title} {text}" for title, text in advertised.items() if text is not None]
    named = ", ".join(filter(None, (neighbour.system, f"port {neighbour.port}")))
    text = f"the other end is {named}: {'; '.join(parts) or 'without DCBX'}"
    return _check(name, "neighbour", "ok", text)


def mended(check: Diagnosis) -> Diagnosis:
    """Return the check after ``mend`` resolved the finding; any other check is returned unchanged."""
    if check.state != "finding" or check.mend is None:
        return check
    try:
        check.mend()
    except (EcmprotoError, OSError) as error:
        return dataclasses.replace(check, refusal=str(error))
    return dataclasses.replace(check, state="fixed")


def of_system() -> Iterator[Diagnosis]:
    """Yield the results for the system and this process."""
    yield _system_check(
        "kernel", "ok", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )
    yield from _capabilities()
    yield _storms()
    yield from _tshark()
    for program, (package, purpose) in _PROGRAMS.items():
        if shutil.which(program) is None:
            command = f"apt-get install {package}"
            yield _system_check(program, "note", f"{program} is not installed: {purpose}", command)
        else:
            yield _system_check(program, "ok", f"{program}: {purpose}")
    yield from _kernels()
    yield from _extras()


def _kernels() -> Iterator[Diagnosis]:
    """Yield the results for the compiled code that processes frames."""
    built = library.information()
    if built:
        text = (
            f"library of kernels: {built['path']}, for {built['processor']}, {built['debug']}built by numba"
            f" {built['numba']} and llvmlite {built['llvmlite']} from the sources {built['digest'][:12]}"
        )
        yield _system_check("library", "ok", text)
    elif is_disabled():
        text = f"kernels run as plain Python, which is slower: {library.why_not()}"
        yield _system_check("library", "note", text, pip_install("jit"))
    else:
        yield _system_check("library", "ok", f"kernels are compiled by numba: {library.why_not()}")


def _check(
    subject: str,
    name: str,
    state: CheckState,
    text: str,
    *commands: str,
    mend: Callable[[], None] | None = None,
) -> Diagnosis:
    return Diagnosis(subject=subject, name=name, state=state, text=text, commands=commands, mend=mend)


_system_check = functools.partial(_check, _SYSTEM)


def _capabilities() -> Iterator[Diagnosis]:
    capabilities = _capability_mask(Path("/proc/self/status").read_text(encoding="ascii"))
    for bit, (name, state, purpose) in _CAPABILITIES.items():
        if capabilities >> bit & 1:
            yield _system_check(name, "ok", f"{name}: {purpose}")
        else:
            yield _system_check(name, state, f"this process lacks {name}: {purpose}", REMEDY)


def _storms() -> Diagnosis:
    known = known_disciplines()
    kernel = f"with pacing=kernel by its {known[0]}" if known else "the kernel has neither etf nor fq"
    if may_run_ahead():
        named = " and ".join(map(str, stream_processors()))
        text = f"pause storms are sent by real-time threads on processors {named}, on every interface"
        return _system_check("storms", "ok", f"{text}; {kernel}")
    why = "since this process lacks CAP_SYS_NICE for real-time threads"
    text = f"pause storms are sent by ordinary threads, {why}"
    remedy = REMEDY.replace("+net_admin", "+net_admin,+sys_nice")
    return _system_check("storms", "note", f"{text}; {kernel}", remedy)


def _capability_mask(status: str) -> int:
    """Return the effective capabilities in /proc/self/status, one bit per capability."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return int(match[1], 16) if match else 0


def _tshark() -> Iterator[Diagnosis]:
    path = shutil.which("tshark")
    if path is None:
        yield _system_check(
            "tshark",
            "note",
            "tshark is not installed (it gives a second opinion on captures)",
            "apt-get install tshark",
        )
        return
    try:
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        output = ""
    version = re.search(r"TShark \(Wireshark\) ([0-9.]*[0-9])", output)
    # the line may break between the two words
    lua = re.search(r"with\s+Lua\s+([0-9.]+[0-9])", output)
    name = f"tshark {version[1]}" if version else "tshark of unknown version"
    if lua:
        yield _system_check("tshark", "ok", f"{name}, with Lua {lua[1]} for dissectors")
    else:
        yield _system_check("tshark", "note", f"{name} without Lua: it cannot load our dissectors")


def _extras() -> Iterator[Diagnosis]:
    """Yield, for each optional extra of this project, whether all packages are installed."""
    try:
        required = metadata.requires("ecmproto") or []
    except metadata.PackageNotFoundError:
        return
    extras: dict[str, list[str]] = {}
    for requirement in required:
        match = re.fullmatch(r"""([A-Za-z0-9_.-]+).*;\s*extra\s*==\s*['"]([a-z]+)['"]""", requirement)
        if match and match[1] != "ecmproto":
            extras.setdefault(match[2], []).append(match[1])
    for extra, packages in extras.items():
        if extra == "all":
            continue
        lacking = [package for package in packages if not _is_installed(package)]
        if lacking:
            text = f"extra {extra}: {', '.join(lacking)} not installed"
            yield _system_check(f"extra {extra}", "note", text, pip_install(extra))
        else:
            yield _system_check(f"extra {extra}", "ok", f"extra {extra}: {', '.join(packages)}")


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def of_interface(facts: InterfaceFacts) -> Iterator[Diagnosis]:
    """Yield the results for an interface."""
    yield _link(facts)
    yield _mtu(facts)
    software = driver(facts.name) in _SOFTWARE
    for offload in OFFLOADS:
        if is_on(facts.name, offload):
            yield from _offload(facts.name, offload, software)
    yield from _pause(facts.name, software)


def _link(facts: InterfaceFacts) -> Diagnosis:
    name = facts.name
    if not facts.up:
        return _check(name, "link", "finding", "the interface is down", f"ip link set dev {name} up")
    if not facts.running:
        return _check(name, "link", "finding", "no link: no cable, or the other end is down")
    speed = speed_bps(name)
    kind = driver(name)
    text = f"up, {format_rate(speed)}" if speed else "up"
    return _check(name, "link", "ok", f"{text} ({kind})" if kind else text)


def _mtu(facts: InterfaceFacts) -> Diagnosis:
    needed = PAYLOAD_OCTETS + TAG_OCTETS
    if facts.mtu_octets >= needed:
        return _check(facts.name, "mtu", "ok", f"MTU {facts.mtu_octets}: large enough for tags")
    text = (
        f"MTU {facts.mtu_octets}: {PAYLOAD_OCTETS} octets, a VLAN tag and our longest tag need {needed}; "
        "frames go without tags"
    )
    command = f"ip link set dev {facts.name} mtu {MTU_OCTETS}"
    mend = functools.partial(set_mtu, facts.name, MTU_OCTETS)
    return _check(facts.name, "mtu", "finding", text, command, mend=mend)


def _offload(name: str, offload: Offload, software: bool) -> Iterator[Diagnosis]:
    text, command = f"{offload.title} is on", f"ethtool -K {name} {offload.keyword} off"
    mend = functools.partial(switch_off, name, offload)
    if offload.keyword in _MERGING:
        why = f"{text}: the interface merges received frames beyond the MTU, and they cannot be forwarded"
        yield _check(name, offload.keyword, "finding", why, command, mend=mend)
    elif offload.keyword == "tx" and software:
        why = f"{text}: frames of this machine leave without valid checksums"
        yield _check(name, offload.keyword, "finding", why, command, mend=mend)
    elif offload.keyword == "rxvlan":
        why = f"{text}: captures by ecmproto restore the tags, captures by other tools may lack them"
        yield _check(name, offload.keyword, "note", why, command)


def _pause(name: str, software: bool) -> Iterator[Diagnosis]:
    """Yield an interface's treatment of PAUSE and PFC frames, and its counters of such frames."""
    state = flow_control(name)
    counters = {
        counter: value
        for counter, value in driver_statistics(name).items()
        if "pause" in counter.lower() or "pfc" in counter.lower()
    }
    if state is None and not counters:
        if software:
            text = "PAUSE and PFC frames are visible like all others: no network card consumes them"
            yield _check(name, "pause", "ok", text)
        else:
            yield _check(name, "pause", "note", f"{_CONSUMED}, and the driver does not count them")
        return
    text = "PAUSE: "
    if state is not None:
        text += f"obeyed {_onoff(state.receive)}, sent {_onoff(state.transmit)}"
        text += f", negotiated {_onoff(state.negotiated)}; "
    text += f"{_CONSUMED}; "
    text += _counted(counters) if counters else "the driver does not count them"
    commands = [f"ethtool -S {name} | grep -iE 'pause|pfc'", f"dcb pfc show dev {name}"]
    if state is not None and (state.receive or state.transmit):
        commands.append(f"ethtool -A {name} autoneg off rx off tx off")
    yield _check(name, "pause", "note", text, *commands)


def _counted(counters: dict[str, int]) -> str:
    """Return the text of the counters that are not 0, or of all counters if all are 0."""
    busy = {counter: value for counter, value in counters.items() if value} or counters
    shown = [f"{counter} {value}" for counter, value in list(busy.items())[:_SHOWN_COUNTERS]]
    more = len(busy) - len(shown)
    return f"counters: {', '.join(shown)}{f' and {more} more' if more else ''}"


def _onoff(state: bool) -> str:
    return "on" if state else "off"
