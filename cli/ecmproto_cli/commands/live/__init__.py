"""``ecmproto live``: software devices between real interfaces.

Each subcommand is imported when it is called. This module has the common options, the run loop, the reports
and the summary of devices.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import re
import secrets
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TextIO

import click

from ecmproto.errors import counted
from ecmproto.units import (
    NS_PER_S,
    UNIT_TEXTS,
    format_octets,
    format_rate,
    format_share,
    format_time,
    parse_time,
)
from ecmproto_cli.errors import INTERRUPTED, warn
from ecmproto_cli.main import LazyGroup
from ecmproto_cli.options import TIME, F, form_option, timing_options, with_ethertypes, with_options
from ecmproto_cli.output import columns_of, pairs
from ecmproto_cli.terminal import echo, paint

if TYPE_CHECKING:
    from ecmproto.control.live.device import Device, InterfaceCounts, LiveInterface, ProcessorWait, Snapshot
    from ecmproto.control.live.net import DeviceSpec
    from ecmproto.wire.codec import EtherTypes


COMMANDS = {
    "cp": "Run a switch port with a congestion point.",
    "rp": "Run a reaction point in front of a sender.",
    "edge": "Run the edge in front of a receiver.",
    "net": "Run several devices from a file in one process.",
    "testbed": "Compare mechanisms with real traffic in network namespaces.",
    "monitor": "Monitor the traffic of an interface.",
}


@click.group(cls=LazyGroup, table=COMMANDS, prefix="live.")
def command() -> None:
    """Run congestion management in software between real interfaces.

    The commands open packet sockets, which need root, or CAP_NET_RAW and CAP_NET_ADMIN.
    """


_PRIORITY = "ecmproto.vlan_priority"


_NAMES = 13
_INTEGRAL = "_seconds"
"""Suffix of gauges that are useful only as differences."""
_NOT_THE_MECHANISM = "these figures reflect this machine, not the mechanism"
_LINK_FIELDS = (
    ("received", "received_frames"),
    ("sent", "sent_frames"),
    ("overflow", "overflow_frames"),
    ("unsent", "unsent_frames"),
    ("refused", "refused_frames"),
    ("lost", "lost"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The values of the options that all devices have."""

    form: str
    """Format of reports: ``text`` or ``ndjson``."""
    stats_interval: int | None
    time: int | None
    prometheus: str | None
    user: str | None
    coalesce: str
    spin: str
    realtime: bool
    cpu: int | None
    seed: int | None
    ethertypes: EtherTypes


def _checked_cpu(text: str | None) -> int | None:
    """Return the processor number in ``text``, or None if ``text`` is None.

    Raises UsageError for a processor that does not exist, or that this process may not use.
    """
    if text is None:
        return None
    allowed = os.sched_getaffinity(0)
    if not text.isdecimal() or int(text) not in allowed:
        needed = f"a processor that it may use ({', '.join(map(str, sorted(allowed)))})"
        raise click.UsageError(f"--timing cpu: expected {needed}, got {text}")
    return int(text)


running_options = with_options(
    click.option(
        "--set", "assignments", metavar="NAME=VALUE", multiple=True,
        help="Set a parameter of the mechanism, such as qeq=33kB or rp.gd=0.01.",
    ),
    form_option(
        "text", "ndjson",
        help="Format of reports: a table at the end (text), or one JSON document per line (ndjson).",
    ),
    click.option(
        "--interval", "stats_interval", type=TIME,
        help="Time between reports.  [default: 1s with -T ndjson, else only at the end]",
    ),
    click.option(
        "--duration", "time", type=TIME, help="Stop after this time.  [default: at SIGINT or SIGTERM]"
    ),
    click.option(
        "--prometheus", metavar="[HOST:]PORT",
        help="Serve Prometheus metrics at this TCP port.  [default HOST: localhost]",
    ),
    click.option("--user", metavar="NAME", help="Switch to this user after the interfaces are open."),
    timing_options(coalesce="0", spin="20us", cpu=None),
    click.option("--seed", type=click.IntRange(min=0), help="Seed of all random numbers.  [default: random]"),
    with_ethertypes,
)  # fmt: skip
"""The options that all devices have, such as ``--set``, ``-T`` and ``--duration``; see `running_of`."""


def mechanism_option(user: str) -> Callable[[F], F]:
    """Return the option ``--mechanism`` of a device; ``user`` is the part that uses the mechanism."""
    return click.option(
        "--mechanism", metavar="NAME", default="qcn", show_default=True,
        help=f"Congestion management mechanism of {user}.",
    )  # fmt: skip


def running_of(options: dict[str, Any]) -> Running:
    """Remove and return the values of `running_options`, except ``assignments``."""
    given = {name: options.pop(name) for name in Running.__dataclass_fields__}
    return Running(**given | {"cpu": _checked_cpu(given["cpu"])})


def _keep_priority(ctx: click.Context, param: click.Parameter, priority: int) -> None:
    ctx.meta[_PRIORITY] = priority


def _vlan_control(ctx: click.Context, param: click.Parameter, identifier: int | None) -> int | None:
    if identifier is None:
        return None
    from ecmproto.control.live.net import vlan_control

    return vlan_control(identifier, ctx.meta[_PRIORITY])


vlan_options = with_options(
    click.option(
        "--vlan", type=click.IntRange(0, 4094), metavar="ID", callback=_vlan_control,
        help="Add a VLAN tag with this ID to untagged frames from the host, and remove the tag from frames "
            "to the host.",
    ),
    click.option(
        "--prio", type=click.IntRange(0, 7), default=0, show_default=True, is_eager=True,
        expose_value=False, callback=_keep_priority, help="Priority in the VLAN tag of --vlan.",
    ),
)  # fmt: skip
"""The options ``--vlan`` and ``--prio``.

The command receives ``vlan``, the tag control information of a C-TAG, or None.
"""


_SLOW_NS = 2 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The name of a type of live device, and the title of its output."""

    name: str
    title: str


def chosen_seed(running: Running) -> int:
    """Return the seed from ``--seed``, or a random seed."""
    return secrets.randbelow(2**32) if running.seed is None else running.seed


def live(describe: Callable[..., DeviceSpec], options: dict[str, Any]) -> int:
    """Run the device that ``describe`` returns for the options of a command, and return the exit code."""
    from ecmproto.control.live.device import ProcessorWait, Stop, run, sleep_precisely
    from ecmproto.control.live.privileges import check_user, drop_privileges, run_in_realtime
    from ecmproto.control.live.prometheus import Scraped, served
    from ecmproto.control.mechanisms.limiter import NEVER_NS

    running = running_of(options)
    seed = chosen_seed(running)
    spec = describe(**options, seed=seed, ethertypes=running.ethertypes)
    echo(f"ecmproto: seed {seed}", err=True)
    if running.user:
        check_user(running.user)
    with opened(spec.interfaces):
        pass  # raises errors of the interfaces before code is compiled
    precompiled([spec])
    with Stop().handled() as stop, opened(spec.interfaces) as links, ProcessorWait() as waiting:
        start_ns = time.monotonic_ns()
        device = made(spec, links, start_ns)
        role = Role(name=spec.role, title=spec.title)
        reporter = Reporter(role, device, links, running, start_ns, waiting)
        if running.realtime:
            run_in_realtime()
        scraped = [Scraped(role.name, lambda: stop.call(reporter.scrape))]
        endpoint = served(running.prometheus, scraped) if running.prometheus else nullcontext(0)
        sleep_precisely()
        with endpoint as port:
            # The last step, because the new user may not be able to read the files of this project.
            if running.user:
                reporter.rehearse()
                drop_privileges(running.user)
            if running.cpu is not None:
                os.sched_setaffinity(
                    0, {running.cpu}
                )  # only this thread; the metrics thread may use other processors
            gc.freeze()
            if port:
                echo(f"ecmproto: metrics on port {port}", err=True)
            echo(f"ecmproto: live {role.name} ready: {role.title}", err=True)
            run(
                device, links, stop,
                until_ns=NEVER_NS if running.time is None else start_ns + running.time,
                report=reporter.report if reporter.every_ns else reporter.warn,
                report_every_ns=reporter.every_ns or NS_PER_S,
                coalesce_ns=parse_time(running.coalesce),
                spin_ns=parse_time(running.spin),
            )  # fmt: skip
            reporter.summary()
        return INTERRUPTED if stop.number == signal.SIGINT else 0


def made(spec: DeviceSpec, links: Sequence[LiveInterface], start_ns: int) -> Device:
    """Return the device for ``spec``, with all code compiled."""

    def send(interface: int, octets: Any, offset: Any, length: Any) -> None:
        links[interface].send(octets, offset, length)

    for link in links:
        link.precompile()
    return spec.make(links, send, start_ns)


def precompiled(specs: Iterable[DeviceSpec]) -> None:
    """Compile the code of devices before the first frame arrives.

    Code that several devices share is compiled once.
    """
    start_ns = time.monotonic_ns()
    for spec in {spec.code: spec for spec in specs}.values():
        spec.precompile()
    elapsed_ns = time.monotonic_ns() - start_ns
    if elapsed_ns > _SLOW_NS:
        echo(f"ecmproto: compiled and loaded, {format_time(elapsed_ns)}", err=True)


@contextmanager
def opened(interfaces: Sequence[str]) -> Iterator[list[LiveInterface]]:
    """Open interfaces for the duration of the context."""
    from ecmproto.control.live.device import LiveInterface

    with ExitStack() as stack:
        links = []
        for name in interfaces:
            links.append(LiveInterface(name))
            stack.callback(links[-1].close)
        yield links


def _is_writable(stream: TextIO) -> bool:
    """Return whether a report can be written to ``stream`` without waiting."""
    try:
        _, writable, _ = select.select([], [stream], [], 0)
    except (OSError, ValueError):  # the stream has no file descriptor, so writing never waits
        return True
    return bool(writable)


_printing = threading.Lock()
"""Lock that lets only one device thread print at a time."""


class Reporter:
    """Prints the reports of a device at intervals and at the end.

    ``name`` is the name of a device that shares the process with other devices. Such a device runs in a
    thread and calls `count_thread`.
    """

    def __init__(
        self,
        role: Role,
        device: Device,
        links: Sequence[LiveInterface],
        running: Running,
        start_ns: int,
        waiting: ProcessorWait,
        *,
        name: str = "",
    ) -> None:
        self._role = role
        self._name = name
        self._device = device
        self._links = links
        self._form = running.form
        self._realtime = running.realtime
        self._waiting = waiting
        self._warned: tuple[str, ...] = ()
        self._start_ns = start_ns
        self._start_processor_ns = time.process_time_ns()
        self._before: tuple[int, Snapshot] | None = None
        self._unread = 0
        self.every_ns = running.stats_interval
        if self.every_ns is None:
            self.every_ns = NS_PER_S if running.form == "ndjson" else 0

    def look(self, *, last: bool = False) -> tuple[Snapshot, dict[str, Any]]:
        """Return a snapshot of the device and the counts of its interfaces.

        ``last`` means that the device has stopped.
        """
        snapshot = self._device.snapshot(time.monotonic_ns())
        return snapshot, {link.name: link.counts(last=last) for link in self._links}

    def count_thread(self, waiting: ProcessorWait) -> None:
        """Set the source for the processor time and the waiting time of this thread."""
        self._waiting = waiting

    def scrape(self) -> tuple[Snapshot, dict[str, Any]]:
        """Return the interface counts, and a snapshot with processor and waiting time as counters."""
        snapshot, links = self.look()
        return dataclasses.replace(snapshot, counters={**snapshot.counters, **self._times()}), links

    def _times(self) -> dict[str, int]:
        return {
            "processor_ns": self._processor_ns(),
            "waited_ns": self._waiting.ns(),
            "stolen_ns": self._waiting.stolen_ns(),
        }

    def _processor_ns(self) -> int:
        if self._name:
            return self._waiting.ran_ns()
        return time.process_time_ns() - self._start_processor_ns

    def rehearse(self) -> None:
        """Create each report once without printing it, so that the code of reports is loaded."""
        snapshot, links = self.look()
        live_line(1, 1, snapshot, None)
        live_table(self._role.title, 1, snapshot, links)
        self._text("summary", self._start_ns, snapshot, links)

    def report(self, now_ns: int) -> None:
        """Print a report for the time ``now_ns``, unless stdout would block."""
        snapshot, links = self.look()
        self._warn(snapshot)
        with _printing:
            if not _is_writable(sys.stdout):
                self._unread += 1
                return
            if self._form == "ndjson":
                echo(self._text("stats", now_ns, snapshot, links))
            else:
                before_ns, before = self._before or (self._start_ns, None)
                line = live_line(now_ns - self._start_ns, now_ns - before_ns, snapshot, before)
                echo(f"{self._name:{_NAMES}} {line}" if self._name else line)
        self._before = now_ns, snapshot

    def summary(self) -> None:
        """Print a summary of the whole run."""
        starved, text = self.closing()
        if starved:
            echo(starved + "\n")
        echo(text)

    def closing(self) -> tuple[str, str]:
        """Return a warning about missing processor time or "", and the summary of the run."""
        now_ns = time.monotonic_ns()
        snapshot, links = self.look(last=True)
        self._warn(snapshot)
        if self._unread:
            warn(f"{counted(self._unread, 'report')} left out: stdout was not read in time")
        if self._form == "ndjson":
            return "", self._text("summary", now_ns, snapshot, links)
        elapsed_ns = now_ns - self._start_ns
        title = f"{self._name}: {self._role.title}" if self._name else self._role.title
        return self._starved(elapsed_ns), live_table(title, elapsed_ns, snapshot, links)

    def warn(self, now_ns: int) -> None:
        """Print the new warnings of the device."""
        self._warn(self._device.snapshot(now_ns))

    def _warn(self, snapshot: Snapshot) -> None:
        for sentence in snapshot.warnings:
            if sentence not in self._warned:
                warn(sentence)
        self._warned += tuple(each for each in snapshot.warnings if each not in self._warned)

    def _starved(self, elapsed_ns: int) -> str:
        """Return a warning if the device lacked processor time, else an empty string."""
        from ecmproto.control.live.device import is_starved

        waited_ns, stolen_ns = self._waiting.ns(), self._waiting.stolen_ns()
        if not is_starved(max(waited_ns, stolen_ns), elapsed_ns):
            return ""
        if stolen_ns > waited_ns:
            took = f"{format_time(stolen_ns)} of {format_time(elapsed_ns)}"
            return f"The hypervisor took each processor for {took}: {_NOT_THE_MECHANISM}."
        waited = processor_wait_text(waited_ns, elapsed_ns)
        text = f"{self._name} was {waited}" if self._name else waited.capitalize()
        advice = "" if self._realtime else "; --precise gives it priority over ordinary programs"
        return f"{text}: {_NOT_THE_MECHANISM}{advice}."

    def _text(self, event: str, now_ns: int, snapshot: Snapshot, links: dict[str, Any]) -> str:
        """Return a report as a line of JSON."""
        document = {
            "schema": "ecmproto/live/1",
            "role": self._role.name,
            **({"device": self._name} if self._name else {}),
            "event": event,
            "time_ns": time.time_ns(),
            "elapsed_ns": now_ns - self._start_ns,
            **self._times(),
            **asdict(snapshot),
            "links": {name: asdict(counts) for name, counts in links.items()},
        }
        return json.dumps(document)


def processor_wait_text(waited_ns: int, elapsed_ns: int) -> str:
    """Return a text for the time without a processor, in the form ``kept from the processor for …``."""
    return f"kept from the processor for {format_time(waited_ns)} of {format_time(elapsed_ns)}"


def live_table(title: str, elapsed_ns: int, snapshot: Snapshot, links: Mapping[str, InterfaceCounts]) -> str:
    """Return the summary of a device that ran for ``elapsed_ns``."""
    parts = [paint(f"{title}, {format_time(elapsed_ns)}", "title"), _links(links)]
    rows = [
        (_label(name), _value(name, value))
        for name, value in snapshot.gauges.items()
        if not name.endswith(_INTEGRAL)
    ]
    rows += [(_label(name), _value(name, value)) for name, value in snapshot.counters.items() if value]
    if rows:
        parts.append(pairs(rows, width=_NAMES, even=True))
    for heading, counts in (("messages sent", snapshot.messages), ("mechanism", snapshot.mechanism)):
        shown = [(_label(name), _value(name, value)) for name, value in counts.items() if value]
        if shown:
            parts.append(paint(heading, "title") + "\n" + pairs(shown, width=_NAMES, even=True))
    return "\n\n".join(parts)


def _links(links: Mapping[str, InterfaceCounts]) -> str:
    rows = [("", [heading for heading, _ in _LINK_FIELDS])]
    rows += [
        (name, [str(getattr(counts, field)) for _, field in _LINK_FIELDS]) for name, counts in links.items()
    ]
    return columns_of(rows)


def live_line(elapsed_ns: int, span_ns: int, snapshot: Snapshot, before: Snapshot | None) -> str:
    """Return a line about the last ``span_ns``; ``before`` is the snapshot at the start of this interval."""
    parts = [format_time(elapsed_ns).rjust(8)]
    counters = snapshot.counters
    for name, value in counters.items():
        grown = value - (before.counters[name] if before else 0)
        if name.endswith("_octets") and name[: -len("octets")] + "frames" in counters:
            parts.append(f"{_label(name[: -len('_octets')])} {format_rate(8 * grown * NS_PER_S / span_ns)}")
    if "queue_octets" in snapshot.gauges:
        parts.append(f"queue {format_octets(snapshot.gauges['queue_octets'])}")
    sent = sum(snapshot.messages.values()) - (sum(before.messages.values()) if before else 0)
    parts.append(counted(sent, "message"))
    return "  ".join(parts)


_UNIT = re.compile(r"_(bps|ns|octets)(?=_|$)")


def _label(name: str) -> str:
    return _UNIT.sub("", name).replace("_", " ")


def _value(name: str, value: float) -> str:
    unit = _UNIT.search(name)
    if unit is not None:
        return UNIT_TEXTS[unit[1]](value)
    if name == "utilisation":
        return format_share(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
