"""``ecmproto live net``: several live devices in one process."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import InterfaceError
from ecmproto.units import NS_PER_S, parse_time
from ecmproto_cli.commands.live import (
    Reporter,
    Role,
    Running,
    chosen_seed,
    made,
    opened,
    precompiled,
    running_of,
    running_options,
)
from ecmproto_cli.errors import INTERRUPTED, warn
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.control.live.device import LiveInterface, Stop
    from ecmproto.control.live.net import DevicePart, NetDevice

_FAILED = 1
_SWITCH_S = 0.0005


@click.command()
@click.argument("path", metavar="FILE", required=False)
@click.option("--example", is_flag=True, help="Print a template with all keys, and exit.")
@running_options
def command(path: str | None, example: bool, assignments: tuple[str, ...], **options: Any) -> int:
    """Run the devices that a TOML file describes, each in a thread of one process.

    All devices share one summary, one stream of reports and one metrics endpoint, which contain the name of
    each device. SIGINT and SIGTERM stop all devices. If a device fails, an error message contains the name of
    the device, and the other devices continue.

    \b
    ecmproto live net --example > net.toml
    ecmproto live net net.toml -T ndjson
    """
    from ecmproto.control.live.net import EXAMPLE, read_net

    if example:
        echo(EXAMPLE, nl=False)
        return 0
    if path is None:
        raise click.UsageError("expected a FILE that describes devices; --example prints one")
    how = running_of(options)
    seed = chosen_seed(how)
    devices = read_net(path, seed=seed, assignments=assignments, ethertypes=how.ethertypes)
    echo(f"ecmproto: seed {seed}", err=True)
    if how.cpu is not None:
        os.sched_setaffinity(
            0, {how.cpu}
        )  # threads inherit this; the file can set another processor for a device
    return _Net(devices, how).run()


class _Net:
    """The devices that a TOML file describes."""

    def __init__(self, devices: list[NetDevice], running: Running) -> None:
        self._devices = devices
        self._running = running
        self._reporters: dict[str, Reporter] = {}
        self._closings: dict[str, tuple[str, str]] = {}

    def run(self) -> int:
        from ecmproto.control.live.device import Stop
        from ecmproto.control.live.net import run_together
        from ecmproto.control.live.privileges import check_user, drop_privileges, run_in_realtime
        from ecmproto.control.live.prometheus import Scraped, served

        how = self._running
        if how.user:
            check_user(how.user)
        with self._opened():
            pass  # raises errors of the interfaces before code is compiled
        precompiled(device.spec for device in self._devices)
        with Stop().handled() as stop, self._opened() as links:
            start_ns = time.monotonic_ns()
            parts = {each.name: self._part(each, links[each.name], start_ns) for each in self._devices}
            if how.realtime:
                run_in_realtime()
            scraped = [
                Scraped(each.spec.role, self._reporters[each.name].scrape, each.name)
                for each in self._devices
            ]
            with served(how.prometheus, scraped) if how.prometheus else nullcontext(0) as port:
                # Before threads start, because each thread has its own privileges.
                if how.user:
                    for reporter in self._reporters.values():
                        reporter.rehearse()
                    drop_privileges(how.user)
                gc.freeze()
                # A thread that returns from compiled code must not wait long for the interpreter lock.
                sys.setswitchinterval(_SWITCH_S)
                if port:
                    echo(f"ecmproto: metrics on port {port}", err=True)
                echo(f"ecmproto: live net ready: {', '.join(parts)}", err=True)
                failed = run_together(parts, stop, self._report_failure)
                self._print_summary()
            if stop.number == signal.SIGINT:
                return INTERRUPTED
            return _FAILED if failed else 0

    @contextmanager
    def _opened(self) -> Iterator[dict[str, list[LiveInterface]]]:
        """Open the interfaces of all devices for the duration of the context.

        Raises InterfaceError with the location of the device in the file.
        """
        with ExitStack() as stack:
            links = {}
            for device in self._devices:
                try:
                    links[device.name] = stack.enter_context(opened(device.spec.interfaces))
                except InterfaceError as error:
                    where = f"{device.where}: {error.interface}"
                    raise InterfaceError(
                        interface=where,
                        needed=error.needed,
                        got=error.got,
                        hint=error.hint,
                        remedy=error.remedy,
                    ) from error
            yield links

    def _part(self, named: NetDevice, links: list[LiveInterface], start_ns: int) -> DevicePart:
        from ecmproto.control.live.device import ProcessorWait, Stop, run, sleep_precisely
        from ecmproto.control.live.net import DevicePart
        from ecmproto.control.mechanisms.limiter import NEVER_NS

        how, spec = self._running, named.spec
        device = made(spec, links, start_ns)
        role = Role(name=spec.role, title=spec.title)
        reporter = Reporter(role, device, links, how, start_ns, ProcessorWait(), name=named.name)
        self._reporters[named.name] = reporter
        coalesce_ns = parse_time(how.coalesce) if named.coalesce_ns is None else named.coalesce_ns
        spin_ns = parse_time(how.spin) if named.spin_ns is None else named.spin_ns

        def work(stop: Stop) -> None:
            sleep_precisely()
            with ProcessorWait() as waiting:
                reporter.count_thread(waiting)
                run(
                    device, links, stop,
                    until_ns=NEVER_NS if how.time is None else start_ns + how.time,
                    report=reporter.report if reporter.every_ns else reporter.warn,
                    report_every_ns=reporter.every_ns or NS_PER_S,
                    coalesce_ns=coalesce_ns,
                    spin_ns=spin_ns,
                )  # fmt: skip
                self._closings[named.name] = reporter.closing()

        return DevicePart(work, Stop(), named.cpu)

    def _report_failure(self, name: str, error: BaseException) -> None:
        message = f"{type(error).__name__}: {error}"
        warn(f"the device {name} failed; the others continue: {message}")
        if self._running.form == "ndjson":
            document = {"schema": "ecmproto/live/1", "device": name, "event": "failed", "error": message}
            echo(json.dumps({**document, "time_ns": time.time_ns()}))

    def _print_summary(self) -> None:
        """Print the names of devices that failed or lacked processor time, and all summaries."""
        first = [starved for starved, _ in self._closings.values() if starved]
        first += [f"{each.name} failed." for each in self._devices if each.name not in self._closings]
        closings = [self._closings[each.name][1] for each in self._devices if each.name in self._closings]
        if self._running.form == "ndjson":
            echo("\n".join(closings))
        else:
            echo("\n\n".join([*(["\n".join(first)] if first else []), *closings]))
