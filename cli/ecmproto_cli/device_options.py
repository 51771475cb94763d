"""The device that frames are sent to, as the options of ``fuzz send`` describe it."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from ecmproto.errors import InterfaceError, ParameterError, counted
from ecmproto.fuzz.device import DEFAULT_RETRIES
from ecmproto.units import NS_PER_S, format_time, parse_time
from ecmproto_cli.campaigning import timeout_of
from ecmproto_cli.capturing import HeldInterrupt
from ecmproto_cli.errors import warn
from ecmproto_cli.links import check_link
from ecmproto_cli.options import TIME, F
from ecmproto_cli.sent import report_rows

if TYPE_CHECKING:
    from ecmproto.capture.linux.interface import InterfaceFacts
    from ecmproto.capture.linux.schedule import Schedule
    from ecmproto.capture.linux.sender import FrameSender, Transmission
    from ecmproto.fuzz.device import Pulse
    from ecmproto.fuzz.fitting import Fitting
    from ecmproto.fuzz.wired import Patience, WiredDevice


_SHORTEST, _HEADER, _LEAST_MTU = 60, 14, 46

_OPTIONS = (
    click.option(
        "--pad", metavar="OCTETS", type=click.IntRange(_HEADER, _SHORTEST), default=_SHORTEST,
        show_default=True, help="Put zeros behind cases that are shorter.",
    ),
    click.option(
        "--mtu", metavar="OCTETS", type=click.IntRange(min=_LEAST_MTU),
        help="Leave out cases that are longer.  [default: the interface's]",
    ),
    click.option(
        "--heartbeat", "heartbeats", metavar="SIGN", multiple=True,
        help="A sign that the device is alive: ping:ADDRESS, frame:IF (a frame from -i comes out of the "
        "device to that interface), command:CMD (exits with 0).  Of several, all.",
    ),
    click.option(
        "--heartbeat-every", "every", metavar="N|TIME", default="1s", show_default=True,
        help="Ask for it after so many cases, or so long.",
    ),
    click.option(
        "--heartbeat-timeout", "timeout", metavar="TIME", default="500ms", show_default=True,
        help="How long a sign may take.",
    ),
    click.option(
        "--heartbeat-retries", "retries", type=click.IntRange(0, 1000), default=DEFAULT_RETRIES,
        show_default=True, help="How many more have to stay away.",
    ),
    click.option(
        "--settle", type=TIME, default="100ms", show_default=True,
        help="Wait between suspects and their heartbeat.",
    ),
    click.option(
        "--recover", "recovery", metavar="CMD", default="", help="Run this to bring the device back."
    ),
    click.option(
        "--recover-wait", "recovery_wait", metavar="TIME", default="30s", show_default=True,
        help="How long it may take to come back.",
    ),
)  # fmt: skip


def device_options(function: F) -> F:
    """How frames are fitted, signs of life, recovery: the fields of `DeviceOptions` but the first two."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """The options as they were given."""

    interface: str
    rate: str
    pad: int
    mtu: int | None
    heartbeats: tuple[str, ...]
    every: str
    timeout: str
    retries: int
    settle: str
    recovery: str
    recovery_wait: str

    @property
    def line(self) -> str:
        """What sends a finding's frames again, and asks for the same signs of life."""
        words = ["ecmproto", "fuzz", "send", "-i", self.interface, "--as-is", "-r", "case.pcap"]
        words += ["--rate", self.rate]
        words += ["--pad", str(self.pad)] if self.pad != _SHORTEST else []
        words += ["--mtu", str(self.mtu)] if self.mtu is not None else []
        for heartbeat in self.heartbeats:
            words += ["--heartbeat", heartbeat]
        words += ["--heartbeat-timeout", self.timeout, "--heartbeat-retries", str(self.retries)]
        return shlex.join([*words, "--settle", self.settle])

    def pulse(self) -> Pulse:
        """Return when signs of life are asked for."""
        from ecmproto.fuzz.device import Pulse

        if self.every.isdecimal() and int(self.every):
            return Pulse(every_frames=int(self.every), retries=self.retries)
        return Pulse(every_s=timeout_of(self.every), retries=self.retries)

    def patience(self) -> Patience:
        """Return how long is waited for what."""
        from ecmproto.fuzz.wired import Patience

        return Patience(
            beat_s=timeout_of(self.timeout),
            settle_s=parse_time(self.settle) / NS_PER_S,
            recover_s=parse_time(self.recovery_wait) / NS_PER_S,
        )

    def fitting(self, facts: InterfaceFacts) -> Fitting:
        """Return what makes frames of cases for an interface; ParameterError for an MTU beyond its own."""
        from ecmproto.fuzz.fitting import Fitting

        less = 0 if self.mtu is None else facts.mtu_octets - self.mtu
        if less < 0:
            needed = f"at most the {facts.mtu_octets} octets of {facts.name}"
            raise ParameterError(name="mtu", needed=needed, got=str(self.mtu))
        return Fitting(
            longest_octets=facts.longest_octets - less,
            longest_tagged_octets=facts.longest_tagged_octets - less,
            shortest_octets=self.pad,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenDevice:
    """A device that can be sent to."""

    sender: FrameSender
    transmission: Transmission
    device: WiredDevice
    fitting: Fitting
    pulse: Pulse

    def rows(self) -> list[tuple[str, str]]:
        """Return what was sent, and how, by name."""
        rows = report_rows(self.transmission.report())
        fitting, device = self.fitting, self.device
        if self.sender.refused:
            rows.append(("refused", counted(self.sender.refused, "frame")))
        if fitting.padded:
            told = f"{_cases(fitting.padded)} shorter than {fitting.shortest_octets} octets"
            rows.append(("padded", told))
        if fitting.left_out:
            told = f"{_cases(fitting.left_out)} longer than {fitting.longest_octets} octets"
            rows.append(("left out", told))
        if device.beats or device.missed:
            told = f"{device.beats:,} came, {device.missed:,} did not"
            if self.transmission.rested_ns:
                told += f"; sending stood still for {format_time(self.transmission.rested_ns)}"
            rows.append(("heartbeats", told))
        return rows


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count:,} cases"


@contextmanager
def opened(options: DeviceOptions, schedule: Schedule, held: HeldInterrupt) -> Iterator[OpenDevice]:
    """Open the interface and what signs of life need; InterfaceError where they cannot be."""
    from ecmproto.capture.linktypes import ETHERNET
    from ecmproto.capture.linux.sender import FrameSender, Transmission
    from ecmproto.fuzz.heartbeats import heartbeat_of
    from ecmproto.fuzz.wired import WiredDevice

    pulse, patience, name = options.pulse(), options.patience(), options.interface
    with ExitStack() as stack:
        sender = stack.enter_context(FrameSender(name))
        check_link(sender.facts)
        if sender.facts.linktype != ETHERNET:
            raise InterfaceError(interface=name, needed="frames of Ethernet", got="an interface of bare IP")
        fitting = options.fitting(sender.facts)
        heartbeats = []
        for text in options.heartbeats:
            heartbeats.append(heartbeat_of(text, name, held.check))
            stack.callback(heartbeats[-1].close)
        transmission = Transmission(sender, schedule, check=held.check)
        device = WiredDevice(
            transmission, name, heartbeats,
            patience=patience, recovery=options.recovery, check=held.check, say=warn,
        )  # fmt: skip
        yield OpenDevice(
            sender=sender, transmission=transmission, device=device, fitting=fitting, pulse=pulse
        )
