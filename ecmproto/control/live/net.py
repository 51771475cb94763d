"""Descriptions of live devices: of one device by options, or of several devices in a TOML file.

::

    mechanism = "qcn"                   # default of every device
    param.cp.qeq = "33kB"               # of every device without a mechanism of its own

    [cp.port]                           # a device: its role and its name
    in = ["in1", "in2"]
    out = "out"
    rate = "50M"
    cpu = 1                             # its processor

    [rp.left]
    host = "veth1"
    net = "eth1"
    link_rate = "1G"

    [edge.right]
    net = "eth2"
    host = "veth2"

`EXAMPLE` has every key. An error names the path of the wrong value, as in ``cp.port.rate``. `run_together`
runs the devices, a thread each.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ecmproto.control.engine.config import CP_MAC, LoopConfig, PortConfig, parse_buffer
from ecmproto.control.engine.port import machine_on_port
from ecmproto.control.live.device import Device, LiveInterface, Send, Stop
from ecmproto.control.live.edge import Edge, precompile_edge
from ecmproto.control.live.port import LEAD_NS, SwitchPort, buffer_of, precompile_port, slot_octets
from ecmproto.control.live.reaction_point import ReactionPoint, precompile_reaction_point
from ecmproto.control.mechanisms.api.machine import Machine, machine_of
from ecmproto.control.mechanisms.lossless import FLOW_CONTROLS
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.documents import check_names, read_document, read_text
from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.units import format_rate, parse_octets, parse_rate, parse_time
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.text import mac_of

BUFFER, QUEUE, EDGE_LINK_RATE = "1000frames", "1MB", "10G"
OVERHEAD_OCTETS, MAX_OVERHEAD_OCTETS = 24, 1000
MAX_DEVICES = 64
_LARGEST_VLAN, _LARGEST_PRIORITY = 4094, 7
_PRIORITY_BIT = 13

Make = Callable[[Sequence[LiveInterface], Send, int], Device]
"""A factory that creates a device from its interfaces, its sender of frames and its start time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A description from which a device is created when the device's interfaces are open."""

    role: str
    title: str
    interfaces: tuple[str, ...]
    precompile: Callable[[], None]
    make: Make
    code: tuple[object, ...]
    """The key of the compiled code; devices with equal keys run the same code."""


def congestion_point(
    *,
    inputs: Sequence[str],
    output: str,
    rate_bps: int,
    mechanism: str = "qcn",
    assignments: Iterable[str] = (),
    buffer: str = BUFFER,
    link_rate_bps: int | None = None,
    flow_control: str | None = None,
    watchdog_ns: int | None = None,
    cp_mac: str = CP_MAC,
    overhead_octets: int = OVERHEAD_OCTETS,
    seed: int,
    ethertypes: EtherTypes = DEFAULT,
) -> DeviceSpec:
    """Describe a switch port; raise ParameterError for an invalid value, or SpecError for an address."""
    names = (*inputs, output)
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(name="in", needed="each interface once", got=f"{name!r} given twice")
    frames, buffer_octets = buffer_of(buffer)
    config = PortConfig(
        rate_bps=rate_bps,
        buffer_octets=buffer_octets,
        buffer_frames=parse_buffer(buffer).frames,
        overhead_octets=overhead_octets,
        cp_mac=mac_of(cp_mac),
    )
    machine = machine_on_port(
        mechanism, tuple(assignments), buffer_octets=buffer_octets, flow_control=flow_control
    )
    obeys = mechanism if mechanism in FLOW_CONTROLS else flow_control
    if watchdog_ns is not None and (obeys is None or watchdog_ns == 0):
        needed = "a time such as 200ms" if obeys else "flow control, or the mechanism pause or pfc, with it"
        raise ParameterError(name="pause_watchdog", needed=needed, got="0" if obeys else "none of these")

    def make(links: Sequence[LiveInterface], send: Send, start_ns: int) -> Device:
        return SwitchPort(
            machine,
            config,
            inputs=len(inputs),
            frames=frames,
            seed=seed,
            start_ns=start_ns,
            send=send,
            link_rate_bps=link_rate_bps or rate_bps,
            lead_ns=LEAD_NS,
            obeys=obeys,
            watchdog_ns=watchdog_ns,
            largest_octets=slot_octets(max(link.facts.longest_octets for link in links)),
            ethertypes=ethertypes,
        )

    return DeviceSpec(
        role="cp",
        title=f"{', '.join(inputs)} to {output} at {format_rate(rate_bps)}, {machine.name}",
        interfaces=names,
        precompile=lambda: precompile_port(machine, ethertypes, obeys=obeys),
        make=make,
        code=("cp", machine.name, obeys),
    )


def reaction_point(
    *,
    host: str,
    net: str,
    link_rate_bps: int,
    mechanism: str = "qcn",
    assignments: Iterable[str] = (),
    queue_octets: int | None = None,
    hops: int = 1,
    vlan: int | None = None,
    seed: int,
    ethertypes: EtherTypes = DEFAULT,
) -> DeviceSpec:
    """Describe a reaction point; raise ParameterError for an invalid value.

    ``vlan`` is the control information of a VLAN tag.
    """
    machine = _machine(host, net, mechanism, assignments)
    octets = parse_octets(QUEUE) if queue_octets is None else queue_octets
    config = LoopConfig(link_rate_bps=link_rate_bps, queue_octets=octets, hops=hops)

    def make(links: Sequence[LiveInterface], send: Send, start_ns: int) -> Device:
        return ReactionPoint(
            machine,
            config,
            seed=seed,
            start_ns=start_ns,
            send=send,
            longest_octets=links[1].facts.longest_octets,
            largest_octets=max(link.frame_octets for link in links),
            vlan=vlan,
            ethertypes=ethertypes,
        )

    return DeviceSpec(
        role="rp",
        title=f"{host} to {net}, reaction point of {machine.name}",
        interfaces=(host, net),
        precompile=lambda: precompile_reaction_point(machine, ethertypes),
        make=make,
        code=("rp", machine.name),
    )


def edge(
    *,
    net: str,
    host: str,
    mechanism: str = "qcn",
    assignments: Iterable[str] = (),
    link_rate_bps: int | None = None,
    mac: str | None = None,
    vlan: int | None = None,
    seed: int,
    ethertypes: EtherTypes = DEFAULT,
) -> DeviceSpec:
    """Describe an edge; raise ParameterError for an invalid value and SpecError for an invalid address.

    The default address is the address of ``net``. ``vlan`` is the control information of a VLAN tag.
    """
    machine = _machine(host, net, mechanism, assignments)
    own = None if mac is None else mac_of(mac)

    def make(links: Sequence[LiveInterface], send: Send, start_ns: int) -> Device:
        return Edge(
            machine,
            link_rate_bps=link_rate_bps or parse_rate(EDGE_LINK_RATE),
            mac=own or links[0].facts.address,
            seed=seed,
            start_ns=start_ns,
            send=send,
            port=host,
            vlan=vlan,
            largest_octets=max(link.frame_octets for link in links),
            ethertypes=ethertypes,
        )

    return DeviceSpec(
        role="edge",
        title=f"{net} to {host}, edge of {machine.name}",
        interfaces=(net, host),
        precompile=lambda: precompile_edge(machine, ethertypes),
        make=make,
        code=("edge", machine.name),
    )


def _machine(host: str, net: str, mechanism: str, assignments: Iterable[str]) -> Machine:
    if host == net:
        raise ParameterError(name="host", needed="two interfaces, host and net", got=f"{host!r} for both")
    named = find_mechanism(mechanism)
    return machine_of(named, named.parse(assignments))


def vlan_control(identifier: int | None, priority: int) -> int | None:
    """Return the control information of a C-TAG, or ``None`` for no tag."""
    return None if identifier is None else priority << _PRIORITY_BIT | identifier


EXAMPLE = """\
# Live devices of one process: ecmproto live net FILE
# A rate, a size and a time are texts with their units: "50M", "33kB", "500us".

mechanism = "qcn"            # default of every device
# param.cp.qeq = "33kB"      # parameters of every device without a mechanism, with or without a role

[cp.port]                    # a switch port with a congestion point, called port
in = ["in1", "in2"]
out = "out"
rate = "50M"
# mechanism = "qcn"
# param = { qeq = "33kB" }
# buffer = "1000frames"      # total capacity of all queues
# link_rate = "50M"          # of the inputs, the unit of PAUSE times; default, rate
# flow_control = "pfc"       # or pause: send and obey it as well
# pause_watchdog = "200ms"   # maximum length of an obeyed pause
# cp_mac = "02:00:00:00:cc:01"
# overhead = 24              # overhead of a frame on the line, in octets
# cpu = 0                    # the only processor of the device
# coalesce = "500us"         # wait for further events after each wake
# spin = "20us"              # time of polling the clock before an event
# seed = 1

[rp.left]                    # a reaction point at a sender
host = "veth1"
net = "eth1"
link_rate = "1G"
# queue = "1MB"              # capacity of each limiter's queue
# hops = 1
# vlan = 5                   # a tag for untagged frames of the host
# prio = 3                   # priority in that tag
# mechanism, param, cpu, coalesce, spin, seed: as above

[rp.right]
host = "veth2"
net = "eth2"
link_rate = "1G"

[edge.receiver]              # the edge at a receiver
net = "eth3"
host = "veth3"
# link_rate = "10G"
# mac = "02:00:00:00:ee:01"  # default, the address of net
# vlan, prio, mechanism, param, cpu, coalesce, spin, seed: as above
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetDevice:
    """A device with a name; ``where`` is the path of the device in the file."""

    name: str
    where: str
    spec: DeviceSpec
    cpu: int | None = None
    coalesce_ns: int | None = None
    spin_ns: int | None = None


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of a device's table: the expected value, the parser of the value, and the resulting argument."""

    needed: str
    read: Callable[[Any], Any]
    argument: str
    required: bool = False


def read_net(
    path: str,
    *,
    seed: int,
    assignments: Sequence[str] = (),
    ethertypes: EtherTypes = DEFAULT,
) -> list[NetDevice]:
    """Return the devices of a TOML file; ``assignments`` change the parameters of these devices.

    Raises SpecError, with the path of the invalid value, or OSError for an unreadable file.
    """
    with open(path, "rb") as stream:
        document = read_document(stream, path)
    check_names(path, document, {*_ROLES, "mechanism", "param"})
    mechanism = read_text(f"{path}: mechanism", document.get("mechanism", "qcn"))
    common = _parameters(f"{path}: param", document.get("param", {}))
    devices: list[NetDevice] = []
    for role in _ROLES:
        named = document.get(role, {})
        if not isinstance(named, dict) or not all(isinstance(each, dict) for each in named.values()):
            raise SpecError(where=f"{path}: {role}", needed=f"tables such as [{role}.name]", got=shown(named))
        for name, table in named.items():
            reader = _DeviceReader(f"{path}: {role}.{name}", role, table)
            parameters = [*(() if "mechanism" in table else common), *reader.parameters(), *assignments]
            number = seed + len(devices)
            devices.append(reader.device(name, mechanism, parameters, seed=number, ethertypes=ethertypes))
    _check_together(path, devices)
    return devices


def _check_together(path: str, devices: Sequence[NetDevice]) -> None:
    """Check that the file has devices, and that their names and interfaces are distinct."""
    if not 1 <= len(devices) <= MAX_DEVICES:
        needed = f"1 to {MAX_DEVICES} devices, as [cp.name], [rp.name] and [edge.name]"
        raise SpecError(where=path, needed=needed, got=str(len(devices)))
    names: dict[str, str] = {}
    interfaces: dict[str, str] = {}
    for device in devices:
        if device.name in names:
            raise SpecError(
                where=device.where, needed="a name of its own", got=f"the name of {names[device.name]}"
            )
        names[device.name] = device.where
        for interface in device.spec.interfaces:
            if interface in interfaces:
                raise SpecError(
                    where=device.where,
                    needed="interfaces of its own",
                    got=f"{interface!r}, which is {interfaces[interface]}'s",
                )
            interfaces[interface] = device.name


@dataclass(frozen=True, slots=True)
class _DeviceReader:
    where: str
    role: str
    table: Mapping[str, Any]

    def device(
        self, name: str, mechanism: str, parameters: Sequence[str], *, seed: int, ethertypes: EtherTypes
    ) -> NetDevice:
        """Return the device; ``mechanism`` and ``seed`` are defaults."""
        describe, keys = _ROLES[self.role]
        check_names(self.where, self.table, keys)
        for key, kind in keys.items():
            if kind.required and key not in self.table:
                raise SpecError(where=f"{self.where}.{key}", needed=kind.needed, got="nothing")
        values: dict[str, Any] = {"mechanism": mechanism, "seed": seed}
        values |= {key: self._value(key, keys[key]) for key in self.table}
        values["param"] = parameters
        if "vlan" in values:
            values["vlan"] = vlan_control(values["vlan"], values.get("prio", 0))
        arguments = {keys[key].argument: value for key, value in values.items() if keys[key].argument}
        try:
            spec = describe(**arguments, ethertypes=ethertypes)
        except ParameterError as error:
            raise SpecError(where=self._path(error.name), needed=error.needed, got=error.got) from None
        except SpecError as error:  # an address
            key = "mac" if "mac" in self.table else "cp_mac"
            raise SpecError(where=f"{self.where}.{key}", needed=error.needed, got=error.got) from None
        times = {f"{key}_ns": values.get(key) for key in ("coalesce", "spin")}
        return NetDevice(name=name, where=self.where, spec=spec, cpu=self._cpu(), **times)

    def parameters(self) -> list[str]:
        """Return the assignments of the device's own parameters."""
        return _parameters(f"{self.where}.param", self.table.get("param", {}))

    def _cpu(self) -> int | None:
        cpu: int | None = self.table.get("cpu")
        allowed = os.sched_getaffinity(0)
        if cpu is not None and cpu not in allowed:
            needed = f"a processor that it may use ({', '.join(map(str, sorted(allowed)))})"
            raise SpecError(where=f"{self.where}.cpu", needed=needed, got=str(cpu))
        return cpu

    def _value(self, key: str, kind: _Key) -> Any:
        value = self.table[key]
        try:
            return kind.read(value)
        except (ParameterError, ValueError, TypeError):
            raise SpecError(where=f"{self.where}.{key}", needed=kind.needed, got=shown(value)) from None

    def _path(self, name: str) -> str:
        """Return the path of the value that an error refers to."""
        keys = _ROLES[self.role][1]
        for key, kind in keys.items():
            if name in (key, kind.argument):
                return f"{self.where}.{key}"
        return f"{self.where}.param.{name}"


def _parameters(where: str, table: object) -> list[str]:
    """Return the assignments in a table of parameters, with or without roles."""
    if not isinstance(table, dict):
        raise SpecError(
            where=where, needed='a table of parameters, such as { qeq = "33kB" }', got=shown(table)
        )
    assignments = []
    for name, value in table.items():
        if isinstance(value, dict):
            assignments += [f"{name}.{each}" for each in _parameters(f"{where}.{name}", value)]
        elif isinstance(value, bool):
            assignments.append(f"{name}={'on' if value else 'off'}")
        elif isinstance(value, str | int | float):
            assignments.append(f"{name}={value}")
        else:
            raise SpecError(where=f"{where}.{name}", needed="a text or a number", got=shown(value))
    return assignments


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    return value


def _texts(value: object) -> list[str]:
    return [_text(value)] if not isinstance(value, list) or not value else [_text(each) for each in value]


def _count(maximum: int, minimum: int = 0) -> Callable[[object], int]:
    def read(value: object) -> int:
        if type(value) is not int or not minimum <= value <= maximum:
            raise ValueError(value)
        return value

    return read


def _quantity(parse: Callable[[str], int]) -> Callable[[object], int]:
    return lambda value: parse(_text(value))


def _one_of(*options: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in options:
            raise ValueError(value)
        return str(value)

    return read


_INTERFACE = "the name of an interface"
_RATE, _SIZE, _TIME = 'a rate such as "50M"', 'a size such as "33kB"', 'a time such as "500us"'
_SHARED: Mapping[str, _Key] = {
    "mechanism": _Key("the name of a mechanism", _text, "mechanism"),
    "param": _Key("a table of parameters", lambda value: value, "assignments"),
    "cpu": _Key("the number of a processor", _count(1 << 16), ""),
    "coalesce": _Key(_TIME, _quantity(parse_time), ""),
    "spin": _Key(_TIME, _quantity(parse_time), ""),
    "seed": _Key("a whole number from 0 on", _count((1 << 63) - 1), "seed"),
}
_TAG: Mapping[str, _Key] = {
    "vlan": _Key(f"0 to {_LARGEST_VLAN}", _count(_LARGEST_VLAN), "vlan"),
    "prio": _Key(f"0 to {_LARGEST_PRIORITY}", _count(_LARGEST_PRIORITY), ""),
}


_ROLES: Mapping[str, tuple[Callable[..., DeviceSpec], Mapping[str, _Key]]] = {
    "cp": (
        congestion_point,
        {
            "in": _Key("the names of interfaces", _texts, "inputs", required=True),
            "out": _Key(_INTERFACE, _text, "output", required=True),
            "rate": _Key(_RATE, _quantity(parse_rate), "rate_bps", required=True),
            "buffer": _Key('a buffer such as "1000frames" or "500kB"', _text, "buffer"),
            "link_rate": _Key(_RATE, _quantity(parse_rate), "link_rate_bps"),
            "flow_control": _Key("pause or pfc", _one_of(*FLOW_CONTROLS), "flow_control"),
            "pause_watchdog": _Key('a time such as "200ms"', _quantity(parse_time), "watchdog_ns"),
            "cp_mac": _Key("a MAC address", _text, "cp_mac"),
            "overhead": _Key(
                f"0 to {MAX_OVERHEAD_OCTETS} octets", _count(MAX_OVERHEAD_OCTETS), "overhead_octets"
            ),
            **_SHARED,
        },
    ),
    "rp": (
        reaction_point,
        {
            "host": _Key(_INTERFACE, _text, "host", required=True),
            "net": _Key(_INTERFACE, _text, "net", required=True),
            "link_rate": _Key(_RATE, _quantity(parse_rate), "link_rate_bps", required=True),
            "queue": _Key(_SIZE, _quantity(parse_octets), "queue_octets"),
            "hops": _Key("a whole number", _count(1 << 16, 1), "hops"),
            **_TAG,
            **_SHARED,
        },
    ),
    "edge": (
        edge,
        {
            "net": _Key(_INTERFACE, _text, "net", required=True),
            "host": _Key(_INTERFACE, _text, "host", required=True),
            "link_rate": _Key(_RATE, _quantity(parse_rate), "link_rate_bps"),
            "mac": _Key("a MAC address", _text, "mac"),
            **_TAG,
            **_SHARED,
        },
    ),
}


class DevicePart(NamedTuple):
    """One of several devices: the function that runs the device, the stop, and the processor."""

    run: Callable[[Stop], None]
    stop: Stop
    cpu: int | None = None


def run_together(
    parts: Mapping[str, DevicePart], stop: Stop, failed: Callable[[str, BaseException], None]
) -> list[str]:
    """Run each of ``parts`` in a separate thread until all have ended, and return the names of failed parts.

    ``stop`` stops all parts. A failure is reported to ``failed`` at once, and the other parts continue.
    """
    done, bell = socket.socketpair()
    raised: dict[str, BaseException] = {}

    def run_one(name: str) -> None:
        part = parts[name]
        try:
            if part.cpu is not None:
                os.sched_setaffinity(0, {part.cpu})
            part.run(part.stop)
        except BaseException as error:
            raised[name] = error
        bell.send(b"\0")

    threads = [threading.Thread(target=run_one, args=(name,), name=name) for name in parts]
    failures: list[str] = []
    ended, stopped = 0, False
    with done, bell:
        for thread in threads:
            thread.start()
        while ended < len(parts):
            select.select([done] if stopped else [done, stop.waker], [], [])
            if stop.requested and not stopped:
                stopped = True
                for part in parts.values():
                    part.stop.ask(stop.number)
            with suppress(BlockingIOError):
                ended += len(done.recv(len(parts), socket.MSG_DONTWAIT))
            for name, error in list(raised.items()):
                if name not in failures:
                    failures.append(name)
                    failed(name, error)
        for thread in threads:
            thread.join()
    for part in parts.values():
        part.stop.close()
    return failures
