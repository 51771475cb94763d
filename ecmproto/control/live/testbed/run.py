"""One run of a testbed, which starts devices and hosts, sends traffic and computes the results."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

import numpy as np

from ecmproto.control.live.device import is_starved
from ecmproto.control.live.testbed.namespaces import Namespaces, turn_off
from ecmproto.control.live.testbed.topology import Topology
from ecmproto.control.mechanisms.api.machine import machine_of
from ecmproto.control.mechanisms.api.protocol import PROBE_KIND
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.errors import MissingDependencyError, OutputError, ParameterError
from ecmproto.paths import make_folder
from ecmproto.units import NS_PER_S, format_rate, format_time, jain_index

USABLE = 0.8
"""The usable share of the processors; above this share, processes often wait long for a processor."""
FRAME_OCTETS = 1442


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficCost:
    """The processor time of all programs of a testbed while the hosts sent ``frames`` frames.

    The programs run before ordinary programs, whose time does not count. ``busiest_ns`` is the time of the
    busiest thread, which can use only one processor.
    """

    elapsed_ns: int
    processor_ns: int
    busiest_ns: int
    frames: int


def carried_bps(topology: Topology, cost: TrafficCost, *, processors: int) -> float:
    """Return the maximum rate of the port that ``processors`` processors can forward."""
    share = max(cost.processor_ns / processors, cost.busiest_ns) / cost.elapsed_ns
    offered_frames = _offered_fps(topology) * cost.elapsed_ns / NS_PER_S
    return topology.rate_bps * USABLE / share * cost.frames / offered_frames


def check_rate(topology: Topology, cost: TrafficCost, *, processors: int) -> None:
    """Raise ParameterError, with the maximum rate of this machine, if the rate of ``topology`` is higher."""
    if not cost.frames or not cost.processor_ns:
        return
    limit_bps = carried_bps(topology, cost, processors=processors)
    if limit_bps >= topology.rate_bps:
        return
    each = format_time(round(cost.processor_ns / cost.frames, -2))
    maximum = format_rate(_rounded(int(limit_bps)))
    why = f"a frame takes {each} of its {processors} processors"
    needed = f"at most {maximum} on this machine ({why}), or --any-rate"
    raise ParameterError(name="rate", needed=needed, got=format_rate(topology.rate_bps))


def _offered_fps(topology: Topology) -> float:
    """Return the number of frames per second that all hosts offer.

    With TCP, the result is at least the port's frame rate.
    """
    offered_bps = sum(sender.rate_bps for sender in topology.senders if sender.protocol == "udp")
    return (max(offered_bps, topology.rate_bps) + topology.victim_bps) / (8 * FRAME_OCTETS)


def _rounded(rate_bps: int) -> int:
    """Return a rate rounded to two significant digits."""
    unit = int(10 ** max(0, len(str(rate_bps)) - 2))
    return rate_bps // unit * unit


LINK_MTU_OCTETS = 1600
"""The MTU of the devices' links, which is the length of a full frame and tags."""
HOST_MTU_OCTETS = 1500
PAYLOAD_OCTETS = 1400
STATS_INTERVAL = "500ms"

_DEVICES = "net"
_RECEIVER, _VICTIM, _PINGER = "receiver", "victim", "pinger"
"""The hosts that receive and that send pings.

The host that sends pings has no reaction point, so the pings measure only the port's queue.
"""
_READY_S = 120.0
_PING_INTERVAL_S = 0.05
_GRACE_S = 10.0
_FINAL_EXCHANGE_S = 30.0
"""The time for iperf3's final exchange, which waits for the queued data of the sender."""
_LOOK_S = 0.02
_MEET_S = 5.0
_FIRST_PORT = 5201
_CONGESTION = "cubic"
"""The congestion control of TCP, which must not depend on this machine's default."""
_ECT0 = "2"
"""The type of service of flows, which permits a port to mark the frames."""
_SHOWN_OCTETS = 128
_LISTEN_S, _SETTLE_S, _WARM_UP_S = 0.3, 0.4, 1.0
"""The times until receivers listen, until traffic begins, and for the measurement of the cost of frames."""
_TOGETHER = "net.ndjson"
_RECEIVED, _SENT = "flow{}.json", "flow{}-sent.json"
"""Names of the reports of a flow's two ends, by the number of the flow from 1 on."""
_UNTIL_THE_END = "a device that runs until the end"
_HOST_PROCESSORS = 2
_COALESCED_FRAMES = {"cp": 2, "edge": 4, "rp": 2}
"""The coalescing time of devices, in full frames at the port, because the devices share the processors.

With longer times, devices would send bursts, and mechanisms that measure a rate would misjudge the rate.
"""
_FULL_FRAME_BITS = 12_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a run, except the topology.

    ``command`` starts this project's command line. ``folder`` is the folder for reports and captures.
    """

    mechanism: str
    assignments: tuple[str, ...]
    duration_s: float
    command: tuple[str, ...]
    folder: Path
    seed: int
    flow_control: str | None = None
    any_rate: bool = False
    """Whether to continue if the machine cannot forward the configured rate."""
    together: bool | None = None
    """Whether devices are threads of one process or separate processes; ``None`` is an automatic choice."""
    check: Callable[[], None] = lambda: None
    """A function that is called often, and that may raise an exception to end the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The unchanged reports of the programs of a run."""

    senders: tuple[dict[str, Any], ...]
    """Reports of iperf3's receiving end."""
    sent: tuple[dict[str, Any], ...]
    """Reports of iperf3's sending end, which contain the retransmissions."""
    victim: dict[str, Any] | None
    ping: str
    port: list[dict[str, Any]]
    """The JSON documents of ``live cp``; the last document is the summary."""
    edge: list[dict[str, Any]]
    points: tuple[list[dict[str, Any]], ...]


def check_programs() -> None:
    """Raise MissingDependencyError if a program that generates traffic is missing."""
    for program, purpose in (("iperf3", "traffic"), ("ping", "latency")):
        if which(program) is None:
            raise MissingDependencyError(package=program, extra="live", purpose=f"a testbed's {purpose}")


def run(topology: Topology, given: RunSettings) -> RunReport:
    """Build the network, run the traffic, and remove the network.

    Raises InterfaceError if the process may not create namespaces, and ParameterError for a rate that this
    machine cannot forward.
    """
    check_programs()
    make_folder(given.folder)
    names = [_DEVICES, *(name for name, _ in _hosts(topology))]
    with Namespaces(names) as spaces:
        _wire(spaces, topology)
        with _devices(spaces, topology, given) as watched:
            _capture(spaces, watched)
            _traffic(spaces, topology, watched)
    return _Reader(topology, given).report()


def _sender_names(topology: Topology) -> list[str]:
    return [f"sender{number + 1}" for number in range(len(topology.senders))]


def _hosts(topology: Topology) -> list[tuple[str, int]]:
    """Return the hosts' names, with the last part of each host's address."""
    hosts = [(name, n + 1) for n, name in enumerate(_sender_names(topology))]
    hosts += [(_RECEIVER, 250), (_PINGER, 251)]
    return [*hosts, (_VICTIM, 252)] if topology.victim_bps else hosts


def _wire(spaces: Namespaces, topology: Topology) -> None:
    """Connect the hosts to their devices, and the devices to the port.

    All devices are in one namespace; each host has a separate namespace.
    """
    hosts = _hosts(topology)
    for name, number in hosts:
        spaces.connect((name, "eth0"), (_DEVICES, name), mtu_octets=LINK_MTU_OCTETS)
        spaces.address(
            name, "eth0", mac=f"02:00:00:00:00:{number:02x}", ip=_ip(number), mtu_octets=HOST_MTU_OCTETS
        )  # fmt: skip
        spaces.inside(name, lambda: turn_off("eth0"))
        spaces.inside(name, _use_ecn)
    pairs = [(f"net{n + 1}", f"in{n + 1}") for n in range(len(topology.senders))] + [("out", "edge")]
    pairs += [("aside", "edge2")] if topology.victim_bps else []
    for one, other in pairs:
        spaces.connect((_DEVICES, one), (_DEVICES, other), mtu_octets=LINK_MTU_OCTETS)
    ends = [name for name, _ in hosts] + [end for pair in pairs for end in pair]
    for end in ends:
        spaces.inside(_DEVICES, lambda end=end: turn_off(end))  # type: ignore[misc]


def _use_ecn() -> None:
    """Configure TCP connections of this namespace to send ECT frames, which a port may mark."""
    Path("/proc/sys/net/ipv4/tcp_ecn").write_text("1", encoding="ascii")


def _ip(number: int) -> str:
    return f"10.77.0.{number}"


class _Device(NamedTuple):
    """A live device: the role, and the options by the names in a TOML file."""

    role: str
    options: dict[str, Any]

    def arguments(self) -> list[str]:
        """Return the arguments of the device's command line."""
        arguments = [self.role]
        for name, value in self.options.items():
            for each in [value] if isinstance(value, str) else value:
                arguments += [f"--{name.replace('_', '-')}", each]
        return arguments


def _net_text(mechanism: str, devices: Mapping[str, _Device]) -> str:
    """Return the text of a file for ``live net`` with these devices."""
    lines = [f"mechanism = {json.dumps(mechanism)}"]
    for name, device in devices.items():
        lines += ["", f"[{device.role}.{name}]"]
        lines += [f"{option} = {json.dumps(value)}" for option, value in device.options.items()]
    return "\n".join([*lines, ""])


def _suits_one_process(devices: int, given: RunSettings) -> bool:
    """Return whether ``devices`` devices should run as threads of one process.

    Threads of one process use less processor time than separate processes, and wait a fifth as long for a
    shared processor. If each device and each host can have a separate processor, no device waits for another
    device. If ports lower rates in messages, or if edges answer probes, threads wait for one another, because
    this code is not compiled.
    """
    mechanism = find_mechanism(given.mechanism)
    machine = machine_of(mechanism, mechanism.parse(given.assignments))
    is_compiled = PROBE_KIND not in machine.kinds and not any(
        message.lowered for message in machine.messages.values()
    )
    return is_compiled and len(os.sched_getaffinity(0)) <= devices + _HOST_PROCESSORS


def _part_reports(folder: Path, devices: Iterable[str]) -> None:
    """Write a file with the reports of each device, as a separate process of the device would do."""
    lines = (folder / _TOGETHER).read_text(encoding="utf-8").splitlines(keepends=True)
    own: dict[str, list[str]] = {name: [] for name in devices}
    for line in lines:
        with suppress(ValueError):  # the last line may be truncated
            own[json.loads(line)["device"]].append(line)
    for name, reports in own.items():
        (folder / f"{name}.ndjson").write_text("".join(reports), encoding="utf-8")
    (folder / _TOGETHER).unlink()


@contextmanager
def _devices(spaces: Namespaces, topology: Topology, given: RunSettings) -> Iterator[RunSettings]:
    """Start the devices, wait until all devices are ready, and terminate them at the end of the context.

    Yield the settings with a ``check`` that also raises OutputError if a device has ended. At the end, the
    devices write their summaries.
    """
    inputs = [f"in{n + 1}" for n in range(len(topology.senders))]
    inputs += [_PINGER, *(["aside"] if topology.victim_bps else [])]
    rate = f"{topology.rate_bps}b/s"
    devices: dict[str, _Device] = {
        "port": _Device("cp", {"in": inputs, "out": "out", "rate": rate, "buffer": topology.buffer}),
        "edge": _Device("edge", {"net": "edge", "host": _RECEIVER, "link_rate": rate}),
    }
    if given.flow_control:
        devices["port"].options["flow_control"] = given.flow_control
    if topology.victim_bps:
        devices["edge2"] = _Device("edge", {"net": "edge2", "host": _VICTIM, "link_rate": rate})
    for n in range(len(topology.senders)):
        own = {"host": f"sender{n + 1}", "net": f"net{n + 1}", "link_rate": rate}
        devices[f"point{n + 1}"] = _Device("rp", own)
    for device in devices.values():
        coalesced_bits = _COALESCED_FRAMES[device.role] * _FULL_FRAME_BITS
        device.options["coalesce"] = f"{coalesced_bits * NS_PER_S // topology.rate_bps}ns"
    together = _suits_one_process(len(devices), given) if given.together is None else given.together
    if together:
        path = given.folder / "net.toml"
        path.write_text(_net_text(given.mechanism, devices), encoding="utf-8")
        commands = {"net": ["net", str(path)]}
    else:
        commands = {
            name: [*device.arguments(), "--mechanism", given.mechanism] for name, device in devices.items()
        }
    started = []
    for number, (name, command) in enumerate(commands.items()):
        parameters = [word for text in given.assignments for word in ("--set", text)]
        arguments = [
            *given.command, "live", *command, *parameters, "--seed", str(given.seed + number), "--precise",
            "-T", "ndjson", "--interval", STATS_INTERVAL,
        ]  # fmt: skip
        with (
            open(given.folder / f"{name}.ndjson", "wb") as output,
            open(_log(given, name), "wb") as errors,
        ):
            started.append((name, spaces.start(_DEVICES, arguments, output=output, errors=errors)))
    _wait_ready(given, started)

    def check() -> None:
        given.check()
        for name, program in started:
            if program.poll() is not None:
                raise _failed(given, name, _UNTIL_THE_END)

    try:
        yield replace(given, check=check)
    finally:
        for _, program in started:
            program.terminate()
        for _, program in started:
            program.wait(_GRACE_S)
    if together:
        _part_reports(given.folder, devices)


def _wait_ready(given: RunSettings, started: Sequence[tuple[str, subprocess.Popen[bytes]]]) -> None:
    deadline = time.monotonic() + _READY_S
    for name, program in started:
        while " ready: " not in _log(given, name).read_text(encoding="utf-8", errors="replace"):
            if program.poll() is not None or time.monotonic() > deadline:
                raise _failed(given, name, "a device that becomes ready")
            given.check()
            time.sleep(_LOOK_S)


def _log(given: RunSettings, name: str) -> Path:
    return given.folder / f"{name}.log"


def _failed(given: RunSettings, name: str, needed: str) -> OutputError:
    """Return the error of a device, with the last line of the device's log."""
    log = _log(given, name)
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    return OutputError(path=str(log), needed=needed, got=text.splitlines()[-1] if text else "nothing")


def _wait(program: subprocess.Popen[bytes], seconds: float, given: RunSettings) -> None:
    """Wait until ``program`` ends, and terminate ``program`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while program.poll() is None:
        given.check()
        if time.monotonic() > deadline:
            program.kill()
            program.wait()
            return
        time.sleep(_LOOK_S)


def _capture(spaces: Namespaces, given: RunSettings) -> None:
    """Capture the frames at the port and at the receiver, if tcpdump is installed."""
    if which("tcpdump") is None:
        return
    for namespace, interface, name in ((_DEVICES, "out", "middle"), (_RECEIVER, "eth0", "receiver")):
        arguments = ["tcpdump", "-n", "-i", interface, "-s", str(_SHOWN_OCTETS), "-w"]
        path = given.folder / f"{name}.pcap"
        path.unlink(missing_ok=True)
        spaces.start(
            namespace, [*arguments, str(path), "-Z", "root"],
            output=subprocess.DEVNULL, errors=subprocess.DEVNULL,
        )  # fmt: skip


class _Flow(NamedTuple):
    sender: str
    receiver: str
    ip: str
    rate_bps: int
    protocol: str


def _flows(topology: Topology) -> list[_Flow]:
    flows = [
        _Flow(name, _RECEIVER, _ip(250), sender.rate_bps, sender.protocol)
        for name, sender in zip(_sender_names(topology), topology.senders, strict=True)
    ]
    if topology.victim_bps:
        flows.append(_Flow("sender1", _VICTIM, _ip(252), topology.victim_bps, "udp"))
    return flows


def _traffic(spaces: Namespaces, topology: Topology, given: RunSettings) -> None:
    """Send traffic and pings for the requested time."""
    flows = _flows(topology)
    _meet(spaces, [(_PINGER, _ip(250)), *((flow.sender, flow.ip) for flow in flows)], given)
    _start_receivers(spaces, flows, given)
    time.sleep(_LISTEN_S)
    clients = _start_senders(spaces, flows, given)
    count = str(int(given.duration_s / _PING_INTERVAL_S))
    with open(given.folder / "ping.txt", "wb") as output:
        arguments = ["ping", "-n", "-i", str(_PING_INTERVAL_S), "-c", count, _ip(250)]
        ping = spaces.start(_PINGER, arguments, output=output, realtime=True)
    if not given.any_rate:
        _check_rate(spaces, topology)
    _wait(ping, given.duration_s + _GRACE_S, given)
    deadline = time.monotonic() + _FINAL_EXCHANGE_S
    for client in clients:
        _wait(client, deadline - time.monotonic(), given)
    time.sleep(0.2)


def _meet(spaces: Namespaces, pairs: Sequence[tuple[str, str]], given: RunSettings) -> None:
    """Ping each pair once without load, so that hosts learn addresses and the port learns stations."""
    arguments = ["ping", "-n", "-c", "1", "-w", f"{_MEET_S:.0f}"]
    pings = [spaces.start(name, [*arguments, ip], output=subprocess.DEVNULL) for name, ip in pairs]
    for ping in pings:
        _wait(ping, 2 * _MEET_S, given)


def _check_rate(spaces: Namespaces, topology: Topology) -> None:
    """Raise ParameterError if the cost of the first frames shows that the machine cannot forward the rate."""
    names = _sender_names(topology)

    def sent() -> int:
        return spaces.inside(_DEVICES, lambda: _received_frames(names))

    time.sleep(_SETTLE_S)
    start_ns, before_ns, before = time.monotonic_ns(), spaces.processor_ns(), sent()
    time.sleep(_WARM_UP_S)
    took_ns = [now - before_ns.get(thread, 0) for thread, now in spaces.processor_ns().items()]
    cost = TrafficCost(
        elapsed_ns=time.monotonic_ns() - start_ns,
        processor_ns=sum(took_ns),
        busiest_ns=max(took_ns, default=0),
        frames=sent() - before,
    )
    check_rate(topology, cost, processors=len(os.sched_getaffinity(0)))


def _received_frames(interfaces: Sequence[str]) -> int:
    """Return the number of frames that interfaces of this thread's namespace received."""
    lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()
    fields = (line.split(":") for line in lines if ":" in line)
    return sum(int(counts.split()[1]) for name, counts in fields if name.strip() in interfaces)


def _start_receivers(spaces: Namespaces, flows: Sequence[_Flow], given: RunSettings) -> None:
    quiet = subprocess.DEVNULL
    for number, flow in enumerate(flows):
        arguments = ["iperf3", "-s", "-1", "-J", "-p", str(_FIRST_PORT + number)]
        with open(given.folder / _RECEIVED.format(number + 1), "wb") as output:
            spaces.start(flow.receiver, arguments, output=output, errors=quiet, realtime=True)


def _start_senders(
    spaces: Namespaces, flows: Sequence[_Flow], given: RunSettings
) -> list[subprocess.Popen[bytes]]:
    quiet, clients = subprocess.DEVNULL, []
    for number, flow in enumerate(flows):
        arguments = ["iperf3", "-c", flow.ip, "-p", str(_FIRST_PORT + number), "-J"]
        arguments += ["-t", f"{given.duration_s:.0f}", "-S", _ECT0]
        if flow.protocol == "udp":
            arguments += ["-u", "-b", str(flow.rate_bps), "-l", str(PAYLOAD_OCTETS)]
        else:
            arguments += ["-C", _CONGESTION]
        with open(given.folder / _SENT.format(number + 1), "wb") as output:
            clients.append(spaces.start(flow.sender, arguments, output=output, errors=quiet, realtime=True))
    return clients


@dataclass(frozen=True, slots=True)
class _Reader:
    topology: Topology
    given: RunSettings

    def report(self) -> RunReport:
        senders = len(self.topology.senders)
        return RunReport(
            senders=tuple(self.document(_RECEIVED.format(n + 1)) for n in range(senders)),
            sent=tuple(self.document(_SENT.format(n + 1)) for n in range(senders)),
            victim=self.document(_RECEIVED.format(senders + 1)) if self.topology.victim_bps else None,
            ping=(self.given.folder / "ping.txt").read_text(encoding="utf-8", errors="replace"),
            port=self.documents("port"),
            edge=self.documents("edge"),
            points=tuple(self.documents(f"point{n + 1}") for n in range(senders)),
        )

    def documents(self, name: str) -> list[dict[str, Any]]:
        path = self.given.folder / f"{name}.ndjson"
        lines = path.read_text(encoding="utf-8").splitlines()
        documents = [json.loads(line) for line in lines if line.endswith("}")]
        for each in documents:
            if each.get("event") == "failed":
                raise OutputError(path=str(path), needed=_UNTIL_THE_END, got=each["error"])
        return documents

    def document(self, name: str) -> dict[str, Any]:
        try:
            result = json.loads((self.given.folder / name).read_text(encoding="utf-8", errors="replace"))
        except ValueError:
            return {}
        return result if isinstance(result, dict) else {}


SETTLING_S = 5.0
"""The settling time before the queue and losses count; the settling time is at most half of the run."""
_BUSY_FRAMES = 50
"""The minimum number of frames that leave the port between two reports while there is traffic."""
_ROUND_TRIP = re.compile(r"time=([0-9.]+) ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The results of a run after settling, with rates in bit/s at the receivers.

    ``lost_share`` is the fraction of frames that UDP senders lost. ``retransmits`` is the number of
    retransmissions of TCP senders. Both values cover the whole run, and are ``None`` without such senders.
    ``dropped_frames`` are drops at the port after settling. Ping times cover the whole run, and are ``None``
    if no reply was received. ``starved_ns`` is the maximum time in which a device was ready but did not run,
    or 0 if the time is negligible.
    """

    mechanism: str
    rates_bps: tuple[float, ...]
    fairness: float
    victim_bps: float | None
    lost_share: float | None
    retransmits: int | None
    queue_mean_octets: float
    queue_peak_octets: float
    set_point_octets: int | None
    dropped_frames: int
    messages: int
    ping_p50_ms: float | None
    ping_p99_ms: float | None
    starved_ns: int = 0


def outcome_of(mechanism: str, set_point_octets: int | None, report: RunReport) -> RunOutcome:
    """Return the results of a run from the reports of the run."""
    rates = tuple(_rate_bps(flow) for flow in report.senders)
    trips = [float(text) for text in _ROUND_TRIP.findall(report.ping)]
    lost = [share for flow in report.senders if (share := _lost_share(flow)) is not None]
    again = [count for flow in report.sent if (count := _retransmits(flow)) is not None]
    settled = _settled(report.port)
    queue = [document["gauges"]["queue_octets"] for document in settled]
    return RunOutcome(
        mechanism=mechanism,
        rates_bps=rates,
        fairness=jain_index(rates),
        victim_bps=None if report.victim is None else _rate_bps(report.victim),
        lost_share=float(np.mean(lost)) if lost else None,
        retransmits=sum(again) if again else None,
        queue_mean_octets=_mean_queue(settled),
        queue_peak_octets=float(max(queue, default=0)),
        set_point_octets=set_point_octets,
        dropped_frames=_grown(settled, "dropped_frames"),
        messages=sum(
            sum(documents[-1]["messages"].values()) for documents in (report.port, report.edge) if documents
        ),
        ping_p50_ms=float(np.percentile(trips, 50)) if trips else None,
        ping_p99_ms=float(np.percentile(trips, 99)) if trips else None,
        starved_ns=max(map(_starved_ns, (report.port, report.edge, *report.points))),
    )


def _starved_ns(documents: list[dict[str, Any]]) -> int:
    """Return the time for which a device waited for the processor, or 0 if the time is negligible."""
    if not documents:
        return 0
    last = documents[-1]
    # Processors taken by the hypervisor are not available to devices.
    waited_ns: int = max(last.get("waited_ns", 0), last.get("stolen_ns", 0))
    return waited_ns if is_starved(waited_ns, last.get("elapsed_ns", NS_PER_S)) else 0


def _settled(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the port's reports under traffic, without the reports of the settling time."""
    busy = [
        later
        for earlier, later in pairwise(documents)
        if later["counters"]["departed_frames"] > earlier["counters"]["departed_frames"] + _BUSY_FRAMES
    ]
    if not busy:
        return []
    start_ns, end_ns = busy[0]["elapsed_ns"], busy[-1]["elapsed_ns"]
    from_ns = start_ns + min(SETTLING_S * NS_PER_S, (end_ns - start_ns) / 2)
    # The last report may extend beyond the end of the traffic.
    return [document for document in busy[:-1] if document["elapsed_ns"] >= from_ns]


def _mean_queue(settled: list[dict[str, Any]]) -> float:
    if len(settled) < 2:
        return 0.0
    elapsed_s = (settled[-1]["elapsed_ns"] - settled[0]["elapsed_ns"]) / NS_PER_S
    sums = [document["gauges"]["queue_octet_seconds"] for document in (settled[0], settled[-1])]
    return float((sums[1] - sums[0]) / elapsed_s)


def _grown(settled: list[dict[str, Any]], name: str) -> int:
    return int(settled[-1]["counters"][name] - settled[0]["counters"][name]) if settled else 0


def _rate_bps(flow: dict[str, Any]) -> float:
    """Return the rate after settling at iperf3's receiving end."""
    spans = [interval["sum"] for interval in flow.get("intervals", [])]
    from_s = min(SETTLING_S, spans[-1]["end"] / 2) if spans else 0.0
    # The last interval is incomplete, and includes late frames.
    settled = [span for span in spans[:-1] if span["start"] >= from_s]
    seconds = sum(span["seconds"] for span in settled)
    return 8 * sum(span["bytes"] for span in settled) / seconds if seconds else _rate_in_all_bps(flow)


def _rate_in_all_bps(flow: dict[str, Any]) -> float:
    end = flow.get("end", {})
    for name in ("sum_received", "sum"):
        totals = end.get(name, {})
        if "bits_per_second" in totals:
            return float(totals["bits_per_second"])
    return 0.0


def _lost_share(flow: dict[str, Any]) -> float | None:
    percent = flow.get("end", {}).get("sum", {}).get("lost_percent")
    return None if percent is None else float(percent) / 100


def _retransmits(flow: dict[str, Any]) -> int | None:
    count = flow.get("end", {}).get("sum_sent", {}).get("retransmits")
    return None if count is None else int(count)
