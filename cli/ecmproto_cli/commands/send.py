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
from ecmproto_cli.errors import USAGE, CommandError, warn
from ecmproto_cli.options import READ_HELP, captures_named, color_option, ethertype_option
from ecmproto_cli.progress import work
from ecmproto_cli.recipes import (
    check_sources,
    check_storm,
    from_file,
    from_line,
    from_steps,
    help_on,
    is_sequence,
    line_options,
    sequence_steps,
    storm_from,
    storm_options,
    taken_options,
)
from ecmproto_cli.sent import report_document, report_table
from ecmproto_cli.storm_sending import send_storm
from ecmproto_cli.transmitting import exit_code_after, opened_sender

if TYPE_CHECKING:
    from ecmproto.capture import Batch
    from ecmproto.capture.linux.schedule import Schedule
    from ecmproto.capture.linux.sender import FrameSender, Sendable, SendReport
    from ecmproto.craft.recipe import Chunk, Recipe
    from ecmproto.craft.spec import Reading
    from ecmproto.formats.ethertypes import EtherTypes

_OWN_SPEED = "the interface's"


@click.command()
@click.argument("words", nargs=-1, metavar="[LAYER [FIELD=VALUE]...]...")
@click.option("-i", "--interface", metavar="IF", required=True, help="Interface to send out of.")
@click.option("-r", "--read", "read", metavar="FILE", multiple=True, help=f"Send what it holds. {READ_HELP}")
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
@click.option("--loop", is_flag=True, help="Start over, or hold by a storm, until interrupted.")
@click.option(
    "--storm", metavar="[SPEED]", is_flag=False, flag_value=_OWN_SPEED,
    help="Send a pause or pfc frame so often that what it pauses on a link of this speed never runs, and say "
    "whether it did.  [default: the interface's speed]",
)  # fmt: skip
@storm_options
@click.option(
    "--pacing", type=click.Choice(["rate", "even"]), default="rate", show_default=True,
    help="Keep the rate: what is late leaves together. Or keep frames apart, each by itself, for which a "
    "processor looks at the clock.",
)  # fmt: skip
@click.option("--bypass", is_flag=True, help="Go past the interface's queueing discipline.")
@click.option(
    "--realtime",
    is_flag=True,
    help="Run before all ordinary processes, to be late more rarely; needs root.",
)
@click.option("-T", "form", type=click.Choice(["table", "json"]), default="table", help="How to report.")
@click.option("--seed", type=int, help="Seed of random:N (default: a new one, printed).")
@ethertype_option
@color_option
def command(
    words: tuple[str, ...],
    interface: str,
    read: tuple[str, ...],
    spec: str | None,
    rate: str | None,
    speed: str | None,
    count: int | None,
    loop: bool,
    storm: str | None,
    pacing: str,
    bypass: bool,
    realtime: bool,
    form: str,
    seed: int | None,
    ethertypes: EtherTypes,
    **line: Any,
) -> int:
    """Send frames, and say how many left, at which rate, and how late.

    Rates in bits count what a wire carries: frames with FCS, preamble and gap.  Frames leave as they are; the
    FCS is the network card's.

    \b
    ecmproto send -i eth0 -r frames.pcap
    ecmproto send -i eth0 -r frames.pcap --rate 1000pps --loop
    ecmproto send -i eth0 cnm qntz_fb=40 flow_id=7 --vlan 5 --prio 3 --rate 100pps --count 1000
    ecmproto send -i eth0 pfc prio3=65535 --dst 01:80:c2:00:00:01 --rate max --count 1000000
    ecmproto send -i eth0 pfc prio3=65535 prio4=65535 --storm --duration 30s
    ecmproto send -i eth0 cnd-boundary cnpv=3
    """
    from ecmproto.capture.linux.schedule import schedule_of
    from ecmproto.capture.linux.sender import Sendable

    options = taken_options(line)
    paths = captures_named(read, required=False)
    others = {"count": count, "rate": rate, "speed": speed, "read": paths or None, "spec": spec}
    others["pacing"] = None if pacing == "rate" else pacing
    check_storm(storm, words, options, others | {"sweep": line["sweeps"]})
    if count is not None and loop:
        raise click.UsageError("--count starts over by itself: needed --count or --loop, got both")
    if pacing == "even" and "max" in (rate, speed):
        raise click.UsageError("--pacing even keeps frames apart: needed a rate or times, got max")
    if "-" in (*paths, spec) and (count is not None or loop):
        raise click.UsageError("stdin can be read once: needed a file to start over, got -")
    if storm is not None:
        if loop and options.duration is not None:
            raise click.UsageError("--loop holds until interrupted: needed --duration or --loop, got both")
        speed_bps = _speed_of(interface) if storm == _OWN_SPEED else storm
        told = storm_from(words, line, speed_bps, options, ethertypes)
        duration_ns = None if loop else options.duration_ns
        release = not options.no_release
        return send_storm(
            interface, told, duration_ns=duration_ns, release=release, bypass=bypass, realtime=realtime,
            form=form, ethertypes=ethertypes,
        )  # fmt: skip
    schedule = schedule_of(rate=rate, speed=speed)
    sendable = Sendable()
    check_sources({"-r": paths or None, "--spec": spec}, words, line)
    source = _crafted(words, spec, line, seed, ethertypes) if not paths else _captured(paths, sendable)
    with opened_sender(interface, bypass=bypass, realtime=realtime) as (sender, check):
        report, ended_by = _send(sender, check, _frames(source, count, loop), schedule, pacing)
    if report.frames or not isinstance(ended_by, Exception):
        _say(report, sendable, form)
    return exit_code_after(report, ended_by)


def _captured(paths: tuple[str, ...], sendable: Sendable) -> Callable[[], Iterable[Batch]]:
    """Return what reads the captures anew at each call."""
    from ecmproto.capture import open_captures

    def source() -> Iterator[Batch]:
        with open_captures(paths) as reader:
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
                for chunk in chunks(_told(words, spec, line, reading, files)):
                    yield chunk.batch()
        except (SpecError, EncodeError, ParameterError) as error:
            raise CommandError(str(error), exit_code=USAGE, help=help_on(error, "send")) from None
        finally:
            if reading.random.getstate() != untouched and not told:
                told.append(drawn)
                click.echo(f"ecmproto: seed {drawn}", err=True)

    return source


def _told(
    words: tuple[str, ...], spec: str | None, line: dict[str, Any], reading: Reading, files: ExitStack
) -> Iterator[Recipe | Chunk]:
    """Return what the command line asks for: a sequence, a line or a file."""
    if is_sequence(words):
        steps = sequence_steps(words, line, ethertypes=reading.ethertypes)
        return from_steps(steps, words[0], reading)
    return iter([from_line(words, line, reading)]) if words else from_file(str(spec), reading, files)


def _frames(source: Callable[[], Iterable[Batch]], count: int | None, loop: bool) -> Iterable[Batch]:
    from ecmproto.capture.linux.sender import repeated

    return source() if count is None and not loop else repeated(source, frames=count)


def _send(
    sender: FrameSender,
    check: Callable[[], None],
    batches: Iterable[Batch],
    schedule: Schedule,
    pacing: str,
) -> tuple[SendReport, BaseException | None]:
    """Send, and return the report and what ended it before its time: an interrupt, or an error."""
    from ecmproto.capture.linux.sender import Transmission

    work.end()  # a thread that writes would make frames late
    transmission = Transmission(sender, schedule, even=pacing == "even", check=check)
    try:
        transmission.run(batches)
    except (KeyboardInterrupt, EcmprotoError, CommandError) as error:
        return transmission.report(), error
    return transmission.report(), None


def _speed_of(interface: str) -> int:
    """Return the speed of an interface's link."""
    from ecmproto.capture.linux.interface import interface_facts, speed_bps

    found = speed_bps(interface_facts(interface).name)
    if not found:
        needed = "the link's speed, as in --storm 10G"
        raise ParameterError(name="storm", needed=needed, got=f"{interface}, which tells none")
    return found


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
