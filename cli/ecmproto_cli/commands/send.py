"""``ecmproto send``: frames from a capture, a line or a specification out of an interface."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import EcmprotoError, EncodeError, ParameterError, SpecError, counted
from ecmproto_cli.failure import FINDINGS, INTERRUPTED, USAGE, CommandError, warn
from ecmproto_cli.interrupt import HeldInterrupt
from ecmproto_cli.links import check_link
from ecmproto_cli.options import color_option, ethertype_option
from ecmproto_cli.recipes import check_sources, from_file, from_line, help_on, line_options
from ecmproto_cli.sent import report_document, report_table

if TYPE_CHECKING:
    from ecmproto.capture import Batch
    from ecmproto.capture.linux.schedule import Schedule
    from ecmproto.capture.linux.sendable import Sendable
    from ecmproto.capture.linux.transmission import SendReport
    from ecmproto.wire.ethertypes import EtherTypes


@click.command()
@click.argument("words", nargs=-1, metavar="[LAYER [FIELD=VALUE]...]...")
@click.option("-i", "--interface", metavar="IF", required=True, help="Interface to send out of.")
@click.option("-r", "--read", "path", metavar="FILE", help="Send this capture: pcap or pcapng; - is stdin.")
@click.option("--spec", metavar="FILE", help="Send the frames of a .toml or .json specification.")
@line_options
@click.option(
    "--rate", metavar="RATE",
    help="Frames a second (1000pps, 1.5Mpps), bits a second on the wire (1G), or max.",
)  # fmt: skip
@click.option(
    "--speed", metavar="FACTOR", help="By the capture's times: 1x, 0.5x, 10x, or max.  [default: 1x]"
)
@click.option(
    "--count", type=click.IntRange(min=0, max=1 << 53),
    help="Send so many frames, starting over where there are fewer.",
)  # fmt: skip
@click.option("--loop", is_flag=True, help="Start over until interrupted.")
@click.option("--bypass", is_flag=True, help="Go past the interface's queueing discipline.")
@click.option("-T", "form", type=click.Choice(["table", "json"]), default="table", help="How to report.")
@click.option("--seed", type=int, help="Seed of random:N (default: a new one, printed).")
@ethertype_option
@color_option
def command(
    words: tuple[str, ...],
    interface: str,
    path: str | None,
    spec: str | None,
    rate: str | None,
    speed: str | None,
    count: int | None,
    loop: bool,
    bypass: bool,
    form: str,
    seed: int | None,
    ethertypes: EtherTypes,
    **line: object,
) -> int:
    """Send frames, and say how many left, at which rate, and how late.

    Rates in bits count what a wire carries: frames with FCS, preamble and gap.  Frames leave as they are; the
    FCS is the network card's.

    \b
    ecmproto send -i eth0 -r frames.pcap
    ecmproto send -i eth0 -r frames.pcap --rate 1000pps --loop
    ecmproto send -i eth0 cnm qntz_fb=40 flow_id=7 --vlan 5 --prio 3 --rate 100pps --count 1000
    ecmproto send -i eth0 pfc prio3=65535 --dst 01:80:c2:00:00:01 --rate max --count 1000000
    """
    from ecmproto.capture.linux.schedule import schedule_of
    from ecmproto.capture.linux.sendable import Sendable

    if count is not None and loop:
        raise click.UsageError("--count starts over by itself: needed --count or --loop, got both")
    if "-" in (path, spec) and (count is not None or loop):
        raise click.UsageError("stdin can be read once: needed a file to start over, got -")
    schedule = schedule_of(rate=rate, speed=speed)
    sendable = Sendable()
    if path is not None:
        if words or spec is not None:
            raise click.UsageError("needed one of -r, a LAYER or --spec, got several")
        source = _captured(path, sendable)
    else:
        check_sources({"--spec": spec}, words, line)
        source = _crafted(words, spec, line, seed, ethertypes)
    report, ended_by = _send(interface, bypass, _frames(source, count, loop), schedule)
    if report.frames or not isinstance(ended_by, Exception):
        _say(report, sendable, form)
    if isinstance(ended_by, KeyboardInterrupt):
        return INTERRUPTED
    if ended_by is not None:
        raise ended_by
    return FINDINGS if not report.frames or report.refused is not None else 0


def _captured(path: str, sendable: Sendable) -> Callable[[], Iterable[Batch]]:
    """Return what reads the capture anew at each call."""
    from ecmproto.capture import open_capture

    def source() -> Iterator[Batch]:
        with open_capture(path) as reader:
            yield from sendable.of(reader)
            for warning in reader.warnings:
                warn(warning)
            if reader.problem is not None:
                raise reader.problem

    return source


def _crafted(
    words: tuple[str, ...], spec: str | None, line: dict[str, Any], seed: int | None, ethertypes: EtherTypes
) -> Callable[[], Iterable[Batch]]:
    """Return what builds the frames anew at each call, the same ones."""
    from ecmproto.craft.recipe import chunks
    from ecmproto.craft.spec import Reading

    drawn = secrets.randbits(32) if seed is None else seed
    told: list[int] = []

    def source() -> Iterator[Batch]:
        reading = Reading(ethertypes=ethertypes, random=random.Random(drawn))
        untouched = reading.random.getstate()
        try:
            with ExitStack() as files:
                told_by = [from_line(words, line, reading)] if words else from_file(str(spec), reading, files)
                for chunk in chunks(told_by):
                    yield chunk.batch()
        except (SpecError, EncodeError, ParameterError) as error:
            raise CommandError(str(error), exit_code=USAGE, help=help_on(error, "send")) from None
        finally:
            if reading.random.getstate() != untouched and not told:
                told.append(drawn)
                click.echo(f"ecmproto: seed {drawn}", err=True)

    return source


def _frames(source: Callable[[], Iterable[Batch]], count: int | None, loop: bool) -> Iterable[Batch]:
    from ecmproto.capture.linux.repetition import repeated

    return source() if count is None and not loop else repeated(source, frames=count)


def _send(
    interface: str, bypass: bool, batches: Iterable[Batch], schedule: Schedule
) -> tuple[SendReport, BaseException | None]:
    """Send, and return the report and what ended it before its time: an interrupt, or an error."""
    from ecmproto.capture.linux.sender import FrameSender
    from ecmproto.capture.linux.transmission import Transmission

    with FrameSender(interface, bypass_queues=bypass) as sender, HeldInterrupt() as held:
        check_link(sender.facts)
        if bypass and not sender.bypasses:
            warn("the kernel does not let frames go past the queueing discipline")
        transmission = Transmission(sender, schedule, check=held.check)
        try:
            transmission.run(batches)
        except (KeyboardInterrupt, EcmprotoError, CommandError) as error:
            return transmission.report(), error
        return transmission.report(), None


def _say(report: SendReport, sendable: Sendable, form: str) -> None:
    """Print the report, and say on stderr what was not sent as it is in the capture."""
    if sendable.foreign:
        warn(f"{counted(sendable.foreign, 'frame')} of other link types than Ethernet not sent")
    if sendable.cut:
        warn(f"{counted(sendable.cut, 'frame')} cut by the capture, sent as far as it has them")
    if not report.frames:
        click.echo("ecmproto: no frame was sent", err=True)
    if report.refused is not None:
        refused = report.refused
        warn(
            f"{counted(refused.frames, 'frame')} not sent: longer than the MTU of {report.interface} "
            f"({report.mtu_octets}) or shorter than a header; the first is frame {refused.number} "
            f"of {counted(refused.octets, 'octet')}"
        )
    click.echo(
        json.dumps(report_document(report, sendable), indent=2) if form == "json" else report_table(report)
    )
