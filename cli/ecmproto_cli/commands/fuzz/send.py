"""``ecmproto fuzz send``: send malformed frames to a switch, and check that the switch still works."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import InterfaceError, ParameterError, counted
from ecmproto.units import NS_PER_S, format_time, parse_time
from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.commands.fuzz import (
    Session,
    campaign_options,
    captured_frames,
    check_single,
    corpus_filter_option,
    corpus_option,
    duration_of,
    ended,
    folder_option,
    run_session,
    seed_for,
    stored_line,
    timeout_of,
)
from ecmproto_cli.errors import FINDINGS, INTERRUPTED, CommandError, warn
from ecmproto_cli.options import with_options
from ecmproto_cli.output import pairs
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.frames.capture.linux.interface import InterfaceFacts
    from ecmproto.frames.capture.linux.schedule import Schedule
    from ecmproto.frames.capture.linux.sender import FrameSender
    from ecmproto.frames.capture.linux.transmission import Transmission
    from ecmproto.frames.filter import Filter
    from ecmproto.tools.fuzz.device import Patience, WiredDevice
    from ecmproto.tools.fuzz.device_campaign import DeviceCampaign, FrameFitter, HeartbeatSchedule

_SHORTEST, _HEADER, _MIN_MTU = 60, 14, 46


_MAX_TOGETHER = 64
_LOOKS_PER_S = 100
_USUAL_OCTETS = 125


device_options = with_options(
    click.option(
        "--pad", metavar="OCTETS", type=click.IntRange(_HEADER, _SHORTEST), default=_SHORTEST,
        show_default=True, help="Pad shorter frames to this length with zeros.",
    ),
    click.option(
        "--mtu", metavar="OCTETS", type=click.IntRange(min=_MIN_MTU),
        help="Skip frames longer than this length.  [default: the interface's maximum]",
    ),
    click.option(
        "--heartbeat", "heartbeats", metavar="SIGN", multiple=True,
        help="Heartbeat to check: ping:ADDRESS, frame:IF (the device forwards a frame from -i to IF), or "
        "command:CMD (CMD exits with 0).  If repeated, all are required.",
    ),
    click.option(
        "--heartbeat-every", "every", metavar="N|TIME", default="1s", show_default=True,
        help="Number of cases, or time, between heartbeats.",
    ),
    click.option(
        "--heartbeat-timeout", "timeout", metavar="TIME", default="500ms", show_default=True,
        help="Maximum wait for a heartbeat.",
    ),
    click.option(
        "--heartbeat-retries", "retries", type=click.IntRange(0, 1000), default=2,
        show_default=True, help="Number of retries before the heartbeat fails.",
    ),
    click.option(
        "--settle", metavar="TIME", default="100ms", show_default=True,
        help="Time to wait between sending suspects and checking the heartbeat.",
    ),
    click.option(
        "--recover", "recovery", metavar="CMD", default="", help="Command that recovers the device."
    ),
    click.option(
        "--recover-wait", "recovery_wait", metavar="TIME", default="30s", show_default=True,
        help="Maximum time for the device to recover.",
    ),
)  # fmt: skip
"""Options for frame sizes, heartbeats and recovery; `DeviceOptions` stores the values."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """The values of `device_options`, before parsing."""

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
        """The command that sends the frames of a finding again with the same heartbeats."""
        arguments = ["ecmproto", "fuzz", "send", "-i", self.interface, "--as-is", "-r", "case.pcap"]
        arguments += ["--rate", self.rate]
        arguments += ["--pad", str(self.pad)] if self.pad != _SHORTEST else []
        arguments += ["--mtu", str(self.mtu)] if self.mtu is not None else []
        for heartbeat in self.heartbeats:
            arguments += ["--heartbeat", heartbeat]
        arguments += ["--heartbeat-timeout", self.timeout, "--heartbeat-retries", str(self.retries)]
        return shlex.join([*arguments, "--settle", self.settle])

    def pulse(self) -> HeartbeatSchedule:
        """Return the schedule of heartbeats."""
        from ecmproto.tools.fuzz.device_campaign import HeartbeatSchedule

        if self.every.isdecimal() and int(self.every):
            return HeartbeatSchedule(every_frames=int(self.every), retries=self.retries)
        return HeartbeatSchedule(every_s=timeout_of(parse_time(self.every)), retries=self.retries)

    def patience(self) -> Patience:
        """Return the times to wait for a heartbeat, for a recovery, and before a retry."""
        from ecmproto.tools.fuzz.device import Patience

        return Patience(
            beat_s=timeout_of(parse_time(self.timeout)),
            settle_s=parse_time(self.settle) / NS_PER_S,
            recover_s=parse_time(self.recovery_wait) / NS_PER_S,
        )

    def fitting(self, facts: InterfaceFacts) -> FrameFitter:
        """Return an object that fits cases to the frame sizes of an interface.

        Raises ParameterError if ``--mtu`` exceeds the MTU of the interface.
        """
        from ecmproto.tools.fuzz.device_campaign import FrameFitter

        less = 0 if self.mtu is None else facts.mtu_octets - self.mtu
        if less < 0:
            needed = f"at most the {facts.mtu_octets} octets of {facts.name}"
            raise ParameterError(name="mtu", needed=needed, got=str(self.mtu))
        return FrameFitter(
            longest_octets=facts.longest_octets - less,
            longest_tagged_octets=facts.longest_tagged_octets - less,
            shortest_octets=self.pad,
        )


@click.command()
@click.option("-i", "--interface", metavar="IF", required=True, help="Interface to send from.")
@corpus_option("Mutate the frames of this capture.  [default: the templates of craft]")
@corpus_filter_option
@click.option(
    "--rate", metavar="RATE", default="1000pps", show_default=True,
    help="Frames per second (1000pps), bits per second on the line (100M), or max.",
)  # fmt: skip
@campaign_options("cases")
@click.option("--index", type=click.IntRange(min=0, max=(1 << 64) - 1), help="Send only this case.")
@click.option("--as-is", is_flag=True, help="Send the frames of -r unchanged, once.")
@device_options
@folder_option("fuzz-send")
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    seed: int | None,
    duration: int | None,
    runs: int | None,
    index: int | None,
    as_is: bool,
    out: str,
    **device: Any,
) -> int:
    """Send malformed frames to a switch at a given rate, and find the frames that silence it.

    The device is checked for a heartbeat every --heartbeat-every. If a heartbeat is missing, the frames
    since the previous one are suspects. The device is recovered, subsets of the suspects are sent again, and
    the smallest subset that silences the device is stored.

    \b
    ecmproto fuzz send -i eth0 --rate 5kpps --duration 60s
    ecmproto fuzz send -i eth0 --heartbeat ping:192.0.2.1 --seed 7
    ecmproto fuzz send -i eth0 --heartbeat frame:eth1 --heartbeat-every 500 --recover './power-cycle 3'
    ecmproto fuzz send -i eth0 --seed 7 --index 4711 --heartbeat ping:192.0.2.1
    """
    from ecmproto.frames.capture.linux.schedule import schedule_of
    from ecmproto.tools.fuzz.cases import Cases, PrefetchedCases
    from ecmproto.tools.fuzz.device_campaign import DeviceCampaign

    check_single(paths, seed, index, as_is, runs, duration, "sends the frames", "frames that are sent once")
    options = DeviceOptions(**device)
    seconds = duration_of(duration, runs)
    schedule = schedule_of(options.rate)
    corpus = captured_frames(paths, filter)
    if as_is:
        return _once(options, schedule, corpus)
    if index is not None and seed is not None:
        case = Cases(corpus, seed=seed)[index]
        echo(f"case {index} of seed {seed}: {', '.join(case.mutations)}")
        return _once(options, schedule, [case.octets])
    folder, interrupt = Path(out), DeferredInterrupt()
    with opened(options, schedule, interrupt) as open_device:
        cases = Cases(corpus, seed=seed_for(folder, seed))
        with closing(PrefetchedCases(cases)) as ahead:
            campaign = DeviceCampaign(
                open_device.device,
                cases,
                open_device.fitting,
                folder,
                pulse=open_device.pulse,
                line=options.line,
                part_frames=_together(schedule),
                octets_from=ahead.starting_at,
                report=lambda sentence: echo(f"ecmproto: {sentence}", err=True),
            )
            _begin(open_device)
            session = Session(duration_s=seconds, noun="frames", interrupt=interrupt)
            return _run(open_device, campaign, session, folder, runs)


def _once(options: DeviceOptions, schedule: Schedule, items: list[bytes]) -> int:
    interrupt = DeferredInterrupt()
    with opened(options, schedule, interrupt) as open_device, interrupt:
        device, silence = open_device.device, ""
        try:
            _begin(open_device)
            frames = [open_device.fitting.frame(octets) for octets in items]
            device.send([frame for frame in frames if frame is not None])
            device.settle()
            silence = open_device.pulse.silence(device)
        except KeyboardInterrupt:
            echo(pairs(open_device.rows()), wrap=True)
            return INTERRUPTED
        echo(pairs(open_device.rows()), wrap=True)
        if silence:
            echo(f"\nsilence: {silence}")
        return FINDINGS if silence or _nothing_sent(open_device) else 0


def _begin(open_device: OpenDevice) -> None:
    """Check that the device works before frames are sent.

    If the device does not work, recover the device. Raises CommandError if recovery is impossible.
    """
    silence = open_device.pulse.silence(open_device.device)
    if silence and not (open_device.device.recovers and open_device.device.recover()):
        raise CommandError(
            f"{silence}, before any frame was sent",
            exit_code=FINDINGS,
            help="--heartbeat must succeed while the device works; --recover CMD can restore the device",
        )


def _nothing_sent(open_device: OpenDevice) -> bool:
    if open_device.sender.sent:
        return False
    echo("ecmproto: no frame was sent", err=True)
    return True


def _together(schedule: Schedule) -> int:
    """Return the number of cases sent between two readings of the clock, which takes a few milliseconds."""
    from ecmproto.frames.capture.linux.schedule import BitRate, FrameRate

    if isinstance(schedule, FrameRate):
        frames_per_s = float(schedule.frames_per_s)
    elif isinstance(schedule, BitRate):
        frames_per_s = schedule.rate_bps / (8 * _USUAL_OCTETS)
    else:
        return _MAX_TOGETHER
    return max(1, min(_MAX_TOGETHER, int(frames_per_s / _LOOKS_PER_S)))


def _run(
    open_device: OpenDevice, campaign: DeviceCampaign, session: Session, folder: Path, runs: int | None
) -> int:
    failed: InterfaceError | None = None
    interrupted = False
    failures = campaign.run(session.going_on, max_cases=runs)
    try:
        interrupted = run_session(session, failures, folder)
    except InterfaceError as error:
        failed = error
    rows = open_device.rows()
    if campaign.trials:
        counts = f"{counted(campaign.trials, 'time')}, {counted(campaign.trial_frames, 'frame')}"
        rows.append(("sent again", counts))
    progress = campaign.progress
    rows.append(("campaign", f"{progress.cases:,} cases in {progress.seconds:.1f} s so far"))
    rows.append(("findings", str(len(campaign.findings))))
    echo(pairs(rows), wrap=True)
    code = ended(campaign.findings, partial(stored_line, folder), interrupted=interrupted)
    if failed is not None:
        raise failed
    if campaign.lost:
        echo("ecmproto: the device did not recover; the same command continues after these cases", err=True)
        return FINDINGS
    return code if interrupted or not _nothing_sent(open_device) else FINDINGS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenDevice:
    """A device under test, with open interface and heartbeats."""

    sender: FrameSender
    transmission: Transmission
    device: WiredDevice
    fitting: FrameFitter
    pulse: HeartbeatSchedule

    def rows(self) -> list[tuple[str, str]]:
        """Return the rows of the report on sent, refused, padded and omitted cases, and on heartbeats."""
        from ecmproto_cli.sending import report_rows

        rows = report_rows(self.transmission.report())
        fitting, device = self.fitting, self.device
        if self.sender.refused:
            rows.append(("refused", counted(self.sender.refused, "frame")))
        if fitting.padded:
            padded = f"{counted(fitting.padded, 'case')} shorter than {fitting.shortest_octets} octets"
            rows.append(("padded", padded))
        if fitting.left_out:
            padded = f"{counted(fitting.left_out, 'case')} longer than {fitting.longest_octets} octets"
            rows.append(("left out", padded))
        if device.beats or device.missed:
            padded = f"{device.beats:,} came, {device.missed:,} did not"
            if self.transmission.rested_ns:
                padded += f"; sending stalled for {format_time(self.transmission.rested_ns)}"
            rows.append(("heartbeats", padded))
        return rows


@contextmanager
def opened(options: DeviceOptions, schedule: Schedule, interrupt: DeferredInterrupt) -> Iterator[OpenDevice]:
    """Open the interface and the heartbeats for the duration of the context.

    Raises InterfaceError if the interface or a heartbeat cannot be opened.
    """
    from ecmproto.frames.capture.batch import ETHERNET
    from ecmproto.frames.capture.linux.sender import FrameSender
    from ecmproto.frames.capture.linux.transmission import Transmission
    from ecmproto.tools.fuzz.device import WiredDevice, heartbeat_of
    from ecmproto_cli.sending import check_link

    pulse, patience, name = options.pulse(), options.patience(), options.interface
    with ExitStack() as stack:
        sender = stack.enter_context(FrameSender(name))
        check_link(sender.facts)
        if sender.facts.linktype != ETHERNET:
            raise InterfaceError(interface=name, needed="frames of Ethernet", got="an interface of bare IP")
        fitting = options.fitting(sender.facts)
        heartbeats = []
        for text in options.heartbeats:
            heartbeats.append(heartbeat_of(text, name, interrupt.check))
            stack.callback(heartbeats[-1].close)
        transmission = Transmission(sender, schedule, check=interrupt.check)
        device = WiredDevice(
            transmission, name, heartbeats,
            patience=patience, recovery=options.recovery, check=interrupt.check, report=warn,
        )  # fmt: skip
        yield OpenDevice(
            sender=sender, transmission=transmission, device=device, fitting=fitting, pulse=pulse
        )
