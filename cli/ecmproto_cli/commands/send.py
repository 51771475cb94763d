"""``ecmproto send``: send frames from a capture, a command line or a specification out of an interface."""

from __future__ import annotations

import dataclasses
import json
import random
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import EcmprotoError, EncodeError, ParameterError, SpecError, counted
from ecmproto.units import parse_time
from ecmproto_cli.errors import USAGE, CommandError, warn
from ecmproto_cli.options import (
    READ_HELP,
    captures_named,
    force_option,
    form_option,
    timing_options,
    with_ethertypes,
)
from ecmproto_cli.output import check_outputs
from ecmproto_cli.progress import work
from ecmproto_cli.recipes import (
    StormOptions,
    check_sources,
    check_storm,
    from_file,
    from_line,
    from_steps,
    given_options,
    help_on,
    is_sequence,
    line_options,
    sequence_from,
    storm_from,
    storm_options,
)
from ecmproto_cli.sending import exit_code_after, opened_sender, report_document, report_table
from ecmproto_cli.storms import send_plan, send_storm
from ecmproto_cli.terminal import echo
from ecmproto_cli.verdicts import VerdictOutput

if TYPE_CHECKING:
    from ecmproto.frames.capture import Batch
    from ecmproto.frames.capture.linux.schedule import Schedule
    from ecmproto.frames.capture.linux.sender import FrameSender, Sendable
    from ecmproto.frames.capture.linux.transmission import (
        SendReport,
        Transmission,
    )
    from ecmproto.tools.craft.recipe import Chunk, Recipe
    from ecmproto.tools.craft.spec import Reading
    from ecmproto.wire.formats.ethertypes import EtherTypes


_OWN_SPEED = "the interface's"


@click.command()
@click.argument("arguments", nargs=-1, metavar="[LAYER [FIELD=VALUE]...]...")
@click.option("-i", "--interface", metavar="IF", help="Interface to send from.")
@click.option(
    "-r", "--read", "read", metavar="FILE", multiple=True, help=READ_HELP.replace("Read", "Send", 1)
)
@click.option("--spec", metavar="FILE", help="Send the frames of a .toml or .json specification.")
@line_options
@click.option(
    "--rate", metavar="RATE",
    help="Rate of the frames: frames per second (1000pps, 1.5Mpps), bits per second on the line (1G), a "
        "multiple of the captured rate (0.5x, 10x), or max.  [default: 1x]",
)  # fmt: skip
@click.option(
    "-c", "--count", metavar="N", type=click.IntRange(min=0, max=1 << 53),
    help="Send N frames. An input with fewer frames is repeated.",
)  # fmt: skip
@click.option(
    "--loop", is_flag=True, help="Repeat the frames, or continue the storm, until SIGINT or SIGTERM."
)
@click.option(
    "--storm", metavar="[SPEED]", is_flag=False, flag_value=_OWN_SPEED,
    help=("Repeat a PAUSE or PFC frame often enough to keep queues paused on a link with this speed, and "
        "report gaps between pauses.  [default: speed of the interface]"),
)  # fmt: skip
@storm_options
@timing_options(pacing="rate", spin="120us", bypass="no")
@click.option(
    "--plan", metavar="FILE",
    help="Send the storms and other streams that a .toml file describes, from many interfaces at once.",
)  # fmt: skip
@click.option(
    "--receive", "far", metavar="IF",
    help=(
        "Interface on the far side of the device under test. The command captures frames and sends replies "
        "on this interface, and evaluates the device by the captured frames. With --storm, the command "
        "measures gaps on this interface."
    ),
)  # fmt: skip
@click.option(
    "--received", "captured", metavar="FILE",
    help="Evaluate an existing capture from the far side of the device under test, without sending.",
)  # fmt: skip
@click.option(
    "--sent", "near_captured", metavar="FILE",
    help="Capture from the near side of the device under test, in both directions, for use with --received.",
)  # fmt: skip
@click.option(
    "--junit", metavar="FILE", help="Write the verdicts of --receive or --received to this file as JUnit XML."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the failures of --receive or --received.")
@force_option
@form_option("text", "json", help="Format of the report.")
@click.option("--seed", type=int, help="Seed of random:N.  [default: a new seed, which is printed]")
@with_ethertypes
def command(
    arguments: tuple[str, ...],
    interface: str | None,
    read: tuple[str, ...],
    spec: str | None,
    rate: str | None,
    count: int | None,
    loop: bool,
    storm: str | None,
    pacing: str,
    spin: str,
    bypass: str,
    realtime: bool,
    plan: str | None,
    far: str | None,
    captured: str | None,
    near_captured: str | None,
    junit: str | None,
    quiet: bool,
    force: bool,
    form: str,
    seed: int | None,
    options: StormOptions,
    ethertypes: EtherTypes,
    **line: Any,
) -> int:
    """Send frames, and report their number, rate and lateness.

    A rate in bits per second includes FCS, preamble and gap. The command does not change the frames. The
    network card adds the FCS.

    \b
    ecmproto send -i eth0 -r frames.pcap
    ecmproto send -i eth0 -r frames.pcap --rate 1000pps --loop
    ecmproto send -i eth0 cnm qntz_fb=40 flow_id=7 --vlan 5 --prio 3 --rate 100pps --count 1000
    ecmproto send -i eth0 pfc prio3=65535 --dst 01:80:c2:00:00:01 --rate max --count 1000000
    ecmproto send -i eth0 pfc prio3=65535 prio4=65535 --storm --duration 30s
    ecmproto send -i eth0 pfc prio3=65535 --storm 400G --receive eth1
    ecmproto send --plan storm.toml --junit storm.xml
    ecmproto send -i eth0 cnd-boundary cnpv=3
    ecmproto send -i eth0 pfc-storm prio=3,4 --receive eth1 --junit storm.xml
    ecmproto send pfc-storm prio=3,4 --received far.pcapng --sent near.pcapng
    """
    from ecmproto.frames.capture.linux.schedule import schedule_of
    from ecmproto.frames.capture.linux.sender import Sendable
    from ecmproto.frames.capture.linux.transmission import MANY_FRAMES

    bypassing = bypass == "yes"
    many = rate != "max" and (loop or (count or 0) >= MANY_FRAMES)
    keeping = Keeping(even=pacing == "even", spin_ns=parse_time(spin), many=many)
    paths = captures_named(read, required=False)
    others = {"count": count, "rate": rate, "read": paths or None, "spec": spec}
    others["timing pacing"] = None if pacing in ("rate", "kernel") else pacing
    if pacing == "kernel" and (storm is None or realtime):
        raise click.UsageError("--timing pacing=kernel needs --storm, and no --precise")
    check_storm(storm, arguments, options, others | {"sweep": line["sweeps"]})
    output = VerdictOutput(form=form, quiet=quiet, junit=junit, force=force)
    if plan is not None:
        others |= {"-i": interface, "loop": loop, "storm": storm, "receive": far, "received": captured}
        given = given_options(others)
        if given or arguments:
            raise click.UsageError(f"--plan defines the frames: expected no {given[0] if given else 'words'}")
        check_outputs([junit], force=force)
        return send_plan(plan, seed=seed, bypass=bypassing, realtime=realtime, output=output)
    if storm is None and (far is not None or captured is not None or near_captured is not None):
        check_sources({"-r": paths or None, "--spec": spec}, arguments, line)
        others |= {"loop": loop, "storm": storm, "sweep": line["sweeps"], "spec": None}
        _check_expecting(arguments, spec, others)
        return _judged(
            arguments, line, spec, interface, far, captured, near_captured, keeping=keeping, bypass=bypassing,
            realtime=realtime, output=output, ethertypes=ethertypes,
        )  # fmt: skip
    for name, is_given in (("junit", junit is not None), ("force", force), ("quiet", quiet)):
        if is_given and far is None:
            raise click.UsageError(f"--{name} needs --receive, --received or --plan")
    if interface is None:
        raise click.UsageError("expected -i IF, the interface to send from")
    if count is not None and loop:
        raise click.UsageError("--count already repeats the frames: expected --count or --loop, got both")
    if pacing == "even" and rate == "max":
        raise click.UsageError("--timing pacing=even keeps frames apart: expected a rate or times, got max")
    if "-" in (*paths, spec) and (count is not None or loop):
        raise click.UsageError("stdin can be read only once: expected a file to repeat, got -")
    if storm is not None:
        if loop and options.duration is not None:
            raise click.UsageError("--loop runs until interrupted: expected --duration or --loop, got both")
        speed_bps = _speed_of(interface) if storm == _OWN_SPEED else storm
        subject = storm_from(arguments, line, speed_bps, options, ethertypes)
        duration_ns = None if loop else options.duration_ns
        release = not options.no_release
        check_outputs([junit], force=force)
        return send_storm(
            interface, subject, duration_ns=duration_ns, release=release, at=far, bypass=bypassing,
            realtime=realtime, kernel_time=pacing == "kernel", output=output, ethertypes=ethertypes,
        )  # fmt: skip
    schedule = schedule_of(rate or "1x")
    sendable = Sendable()
    check_sources({"-r": paths or None, "--spec": spec}, arguments, line)
    source = _crafted(arguments, spec, line, seed, ethertypes) if not paths else _captured(paths, sendable)
    with opened_sender(interface, bypass=bypassing, realtime=realtime) as (sender, check):
        report, ended_by = _send(sender, check, _frames(source, count, loop), schedule, keeping)
    if report.frames or not isinstance(ended_by, Exception):
        _print_report(report, sendable, form)
    return exit_code_after(report, ended_by)


def _check_expecting(arguments: tuple[str, ...], spec: str | None, others: dict[str, Any]) -> None:
    """Raise UsageError for --receive without expectations, or with options that set times of frames."""
    if not is_sequence(arguments) and not (spec is not None and spec.endswith(".toml")):
        known = "a sequence, such as pfc-storm (ecmproto craft --list), or a .toml with [[expect]]"
        raise click.UsageError(f"--receive needs {known}")
    given = given_options(others)
    if given:
        raise click.UsageError(f"a sequence with expectations sets its own times: expected no --{given[0]}")


def _judged(
    arguments: tuple[str, ...],
    line: dict[str, Any],
    spec: str | None,
    near: str | None,
    far: str | None,
    captured: str | None,
    near_captured: str | None,
    *,
    keeping: Keeping,
    bypass: bool,
    realtime: bool,
    output: VerdictOutput,
    ethertypes: EtherTypes,
) -> int:
    """Send a sequence, or read captures of a sequence, and print whether the received frames are the expected
    frames.

    Returns the exit code.
    """
    from ecmproto.frames.capture.linux.schedule import schedule_of
    from ecmproto.tools.testing.verdicts import judge_captures, judge_interfaces
    from ecmproto_cli.verdicts import check_sides, described_test, no_frame_judged, report_verdicts

    check_sides(near, far, captured, near_captured)
    check_outputs([output.junit], force=output.force)
    try:
        test = described_test(arguments, line, spec, ethertypes)
    except (SpecError, EncodeError, ParameterError) as error:
        raise CommandError(str(error), exit_code=USAGE, help=help_on(error, "send")) from None
    sent = None
    if captured is not None:
        judge_captures(test, captured, near_captured, warn)
    elif near is None:
        raise click.UsageError("expected -i IF, the interface to send from")
    else:
        assert far is not None
        with opened_sender(near, bypass=bypass, realtime=realtime) as (sender, check):

            def send(batches: Iterable[Batch]) -> tuple[SendReport, BaseException | None]:
                return _send(sender, check, batches, schedule_of(), keeping)

            report, ended_by = judge_interfaces(test, near, far, send, warn)
        if ended_by is not None:
            return exit_code_after(report, ended_by)
        sent = report
        if output.form == "text" and not output.quiet:
            echo(report_table(report), wrap=True)
    nothing = no_frame_judged(test)
    if nothing is not None:
        raise nothing
    return report_verdicts(test, output, sent)


def _captured(paths: tuple[str, ...], sendable: Sendable) -> Callable[[], Iterable[Batch]]:
    """Return a function that reads the captures again on each call."""
    from ecmproto.frames.capture import open_captures

    def source() -> Iterator[Batch]:
        with open_captures(paths) as reader:
            yield from sendable.of(reader)
            warn(*reader.warnings)
            if reader.problem is not None:
                raise reader.problem

    return source


def _crafted(
    arguments: tuple[str, ...],
    spec: str | None,
    line: dict[str, Any],
    seed: int | None,
    ethertypes: EtherTypes,
) -> Callable[[], Iterable[Batch]]:
    """Return a function that builds the same frames again on each call."""
    from ecmproto.tools.craft.recipe import chunks
    from ecmproto.tools.craft.spec import Reading

    drawn = secrets.randbits(32) if seed is None else seed
    counts: list[int] = []

    def source() -> Iterator[Batch]:
        reading = Reading(ethertypes=ethertypes, random=random.Random(drawn))
        untouched = reading.random.getstate()
        try:
            with ExitStack() as files:
                for chunk in chunks(_recipes(arguments, spec, line, reading, files)):
                    yield chunk.batch()
        except (SpecError, EncodeError, ParameterError) as error:
            raise CommandError(str(error), exit_code=USAGE, help=help_on(error, "send")) from None
        finally:
            if reading.random.getstate() != untouched and not counts:
                counts.append(drawn)
                echo(f"ecmproto: seed {drawn}", err=True)

    return source


def _recipes(
    arguments: tuple[str, ...], spec: str | None, line: dict[str, Any], reading: Reading, files: ExitStack
) -> Iterator[Recipe | Chunk]:
    """Return the frames of a sequence, of LAYER FIELD=VALUE ..., or of a specification file."""
    if is_sequence(arguments):
        sequence, given = sequence_from(arguments, line)
        steps = sequence.steps(given, ethertypes=reading.ethertypes)
        return from_steps((step for step in steps if not step.reverse), arguments[0], reading)
    return iter([from_line(arguments, line, reading)]) if arguments else from_file(str(spec), reading, files)


def _frames(source: Callable[[], Iterable[Batch]], count: int | None, loop: bool) -> Iterable[Batch]:
    from ecmproto.frames.capture.linux.sender import repeated

    return source() if count is None and not loop else repeated(source, frames=count)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Settings for the departure times of frames."""

    even: bool = False
    spin_ns: int
    many: bool = False

    def transmission(
        self, sender: FrameSender, schedule: Schedule, check: Callable[[], None]
    ) -> Transmission:
        """Return a transmission that sends frames by ``schedule``."""
        from ecmproto.frames.capture.linux.transmission import Transmission

        work.at(lambda: "send")
        return Transmission(
            sender, schedule, even=self.even, spin_ns=self.spin_ns, many=self.many, check=check,
            prepared=work.end,  # a thread that prints progress would delay frames
        )  # fmt: skip


def _send(
    sender: FrameSender,
    check: Callable[[], None],
    batches: Iterable[Batch],
    schedule: Schedule,
    keeping: Keeping,
) -> tuple[SendReport, BaseException | None]:
    """Send the frames, and return the report and the error that ended the sending, or None."""
    transmission = keeping.transmission(sender, schedule, check)
    try:
        transmission.run(batches)
    except (KeyboardInterrupt, EcmprotoError, CommandError) as error:
        return transmission.report(), error
    return transmission.report(), None


def _speed_of(interface: str) -> int:
    """Return the link speed of an interface in bit/s.

    Raises ParameterError if the interface reports no speed.
    """
    from ecmproto.frames.capture.linux.interface import interface_facts, speed_bps

    speed = speed_bps(interface_facts(interface).name)
    if not speed:
        needed = "the link's speed, as in --storm 10G"
        raise ParameterError(name="storm", needed=needed, got=f"{interface}, which reports none")
    return speed


def _print_report(report: SendReport, sendable: Sendable, form: str) -> None:
    """Print the report, and warn of frames that were not sent or were sent truncated."""
    if sendable.foreign:
        warn(f"{counted(sendable.foreign, 'frame')} of other link types than Ethernet not sent")
    if sendable.cut:
        warn(f"{counted(sendable.cut, 'frame')} truncated by the capture, sent with the captured octets only")
    if not report.frames:
        echo("ecmproto: no frame was sent", err=True)
    if report.refused is not None:
        refused = report.refused
        warn(
            f"{counted(refused.frames, 'frame')} not sent: longer than the MTU of {report.interface} "
            f"({report.mtu_octets}) or shorter than a header; the first is frame {refused.number} "
            f"of {counted(refused.octets, 'octet')}"
        )
    echo(json.dumps(report_document(report, sendable), indent=2) if form == "json" else report_table(report))
