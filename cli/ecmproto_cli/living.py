"""What the live devices do once they are made: run, report, and end with a summary."""

from __future__ import annotations

import gc
import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import click

from ecmproto.kernel_cache import taking_turns
from ecmproto.live.device import Device, Send, Snapshot
from ecmproto.live.link import Link
from ecmproto.live.loop import Stop, Waiting, is_starved, run, sleep_precisely
from ecmproto.live.privileges import become, check_user, hurry
from ecmproto.live.prometheus import served
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.units import NS_PER_S, format_time, parse_time
from ecmproto_cli.errors import INTERRUPTED, warn
from ecmproto_cli.live_options import Running
from ecmproto_cli.live_table import live_line, live_table

_SLOW_NS = 2 * NS_PER_S

Make = Callable[[Sequence[Link], Send, int], Device]
"""Makes the device, given its interfaces, where frames go, and the time at which it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a device is called, and what a person is told of it."""

    name: str
    title: str


def live(
    role: Role, interfaces: Sequence[str], running: Running, *, warm_up: Callable[[], None], make: Make
) -> int:
    """Run a device on ``interfaces`` until it is told to stop; return the exit code."""
    if running.user:
        check_user(running.user)
    with _opened(interfaces):
        pass  # what cannot be opened is said before anything is compiled
    with taking_turns(_tell_of_waiting):
        _warm(warm_up)
    with Stop().held() as stop, _opened(interfaces) as links, Waiting() as waiting:

        def send(place: int, octets: Any, offset: Any, length: Any) -> None:
            links[place].send(octets, offset, length)

        for link in links:
            link.warm_up()
        start_ns = time.monotonic_ns()
        device = make(links, send, start_ns)
        reporter = Reporter(role, device, links, running, start_ns, waiting)
        if running.realtime:
            hurry()
        endpoint = (
            served(running.prometheus, role.name, reporter.look) if running.prometheus else nullcontext(0)
        )
        sleep_precisely()
        with endpoint as port:
            # Last of all: whom it becomes may not be able to read this project's own files.
            if running.user:
                reporter.rehearse()
                become(running.user)
            gc.freeze()
            if port:
                click.echo(f"ecmproto: metrics on port {port}", err=True)
            click.echo(f"ecmproto: live {role.name} ready: {role.title}", err=True)
            run(
                device, links, stop,
                until_ns=start_ns + parse_time(running.time) if running.time else NEVER_NS,
                report=reporter.report if reporter.every_ns else reporter.warn,
                report_every_ns=reporter.every_ns or NS_PER_S,
                coalesce_ns=parse_time(running.coalesce),
            )  # fmt: skip
            reporter.summary()
        return INTERRUPTED if stop.number == signal.SIGINT else 0


def _tell_of_waiting() -> None:
    click.echo("ecmproto: another process compiles what this one needs: waiting for it", err=True)


def _warm(warm_up: Callable[[], None]) -> None:
    """Have everything compiled before frames come."""
    start_ns = time.monotonic_ns()
    warm_up()
    elapsed_ns = time.monotonic_ns() - start_ns
    if elapsed_ns > _SLOW_NS:
        click.echo(f"ecmproto: compiled and loaded, {elapsed_ns / NS_PER_S:.1f} s", err=True)


@contextmanager
def _opened(interfaces: Sequence[str]) -> Iterator[list[Link]]:
    with ExitStack() as stack:
        links = []
        for name in interfaces:
            links.append(Link(name))
            stack.callback(links[-1].close)
        yield links


class Reporter:
    """Says what a device has come to, now and then and at its end."""

    def __init__(
        self,
        role: Role,
        device: Device,
        links: Sequence[Link],
        running: Running,
        start_ns: int,
        waiting: Waiting,
    ) -> None:
        self._role = role
        self._device = device
        self._links = links
        self._form = running.form
        self._realtime = running.realtime
        self._waiting = waiting
        self._warned: tuple[str, ...] = ()
        self._start_ns = start_ns
        self._start_processor_ns = time.process_time_ns()
        self._before: tuple[int, Snapshot] | None = None
        every = running.stats_interval or ("1s" if running.form == "ndjson" else None)
        self.every_ns = parse_time(every) if every else 0

    def look(self) -> tuple[Snapshot, dict[str, Any]]:
        """Return the device's state and its interfaces'."""
        snapshot = self._device.snapshot(time.monotonic_ns())
        return snapshot, {link.name: link.counts() for link in self._links}

    def rehearse(self) -> None:
        """Load what reports and the summary need."""
        snapshot, links = self.look()
        live_line(1, 1, snapshot, None)
        live_table(self._role.title, 1, snapshot, links)
        self._text("summary", self._start_ns, snapshot, links)

    def report(self, now_ns: int) -> None:
        """Say what it has come to by ``now_ns``."""
        snapshot, links = self.look()
        self._warn(snapshot)
        if self._form == "ndjson":
            click.echo(self._text("stats", now_ns, snapshot, links))
        else:
            before_ns, before = self._before or (self._start_ns, None)
            click.echo(live_line(now_ns - self._start_ns, now_ns - before_ns, snapshot, before))
        self._before = now_ns, snapshot

    def summary(self) -> None:
        """Say what it came to in all."""
        now_ns = time.monotonic_ns()
        snapshot, links = self.look()
        self._warn(snapshot)
        if self._form == "ndjson":
            click.echo(self._text("summary", now_ns, snapshot, links))
        else:
            elapsed_ns = now_ns - self._start_ns
            starved = self._starved(elapsed_ns, snapshot)
            if starved:
                click.echo(starved + "\n")
            click.echo(live_table(self._role.title, elapsed_ns, snapshot, links))

    def warn(self, now_ns: int) -> None:
        """Say what is new of what a person should know."""
        self._warn(self._device.snapshot(now_ns))

    def _warn(self, snapshot: Snapshot) -> None:
        for sentence in snapshot.warnings:
            if sentence not in self._warned:
                warn(sentence)
        self._warned += tuple(each for each in snapshot.warnings if each not in self._warned)

    def _starved(self, elapsed_ns: int, snapshot: Snapshot) -> str:
        """Return what to say of a device that other programs kept from the processor; nothing if hardly."""
        waited_ns, missed_ns = self._waiting.ns(), snapshot.counters.get("missed_ns", 0)
        if not is_starved(waited_ns, missed_ns, elapsed_ns):
            return ""
        told = f"it waited {format_time(waited_ns)} for a processor" if waited_ns else ""
        gave_up = f"gave up {format_time(missed_ns)} of what was due" if missed_ns else ""
        advice = "" if self._realtime else "; --realtime runs it before ordinary ones"
        why = " and ".join(each for each in (told, gave_up) if each)
        return f"These figures are this machine's and not the mechanism's: {why}{advice}."

    def _text(self, event: str, now_ns: int, snapshot: Snapshot, links: dict[str, Any]) -> str:
        """Return the report as a line of JSON."""
        document = {
            "schema": "ecmproto/live/1",
            "role": self._role.name,
            "event": event,
            "time_ns": time.time_ns(),
            "elapsed_ns": now_ns - self._start_ns,
            "processor_ns": time.process_time_ns() - self._start_processor_ns,
            "waited_ns": self._waiting.ns(),
            **asdict(snapshot),
            "links": {name: asdict(counts) for name, counts in links.items()},
        }
        return json.dumps(document)
