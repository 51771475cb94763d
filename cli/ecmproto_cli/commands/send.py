"""``ecmproto send``: frames from a capture, a line or a specification out of an interface."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import EcmprotoError, EncodeError, InterfaceError, ParameterError, SpecError, counted
from ecmproto.units import format_octets, format_rate, format_time, parse_time
from ecmproto_cli.capturing import HeldInterrupt
from ecmproto_cli.errors import FINDINGS, INTERRUPTED, USAGE, CommandError, warn
from ecmproto_cli.options import (
    READ_HELP,
    TIME,
    captures_named,
    color_option,
    ethertype_option,
    force_option,
    order_option,
)
from ecmproto_cli.output import check_outputs, pairs
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
    storm_document,
    storm_from,
    storm_options,
    storm_rows,
    taken_options,
)
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.frames.capture import Batch
    from ecmproto.frames.capture.linux.interface import InterfaceFacts
    from ecmproto.frames.capture.linux.schedule import Schedule
    from ecmproto.frames.capture.linux.sender import FrameSender, Sendable
    from ecmproto.frames.capture.linux.streams import Stream, StreamSender, StreamsReport
    from ecmproto.frames.capture.linux.transmission import (
        GapCounts,
        Jitter,
        SendReport,
        Spacing,
        Transmission,
    )
    from ecmproto.frames.capture.several import Order
    from ecmproto.tools.craft.recipe import Chunk, Recipe
    from ecmproto.tools.craft.sequences import Storm
    from ecmproto.tools.craft.spec import Reading
    from ecmproto.wire.formats.ethertypes import EtherTypes


SCHEMA = "ecmproto/send/1"
_NAMES = 9
_SHORT = 0.995
"""A rate that is reached to less than this is said to have been missed."""


_OWN_SPEED = "the interface's"


@click.command()
@click.argument("words", nargs=-1, metavar="[LAYER [FIELD=VALUE]...]...")
@click.option("-i", "--interface", metavar="IF", help="Interface to send out of.")
@click.option("-r", "--read", "read", metavar="FILE", multiple=True, help=f"Send what it holds. {READ_HELP}")
@order_option
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
@click.option(
    "--spin", type=TIME, default="120us", show_default=True,
    help="End sleeping so long before a frame's time, and look at the clock until then.",
)  # fmt: skip
@click.option("--bypass", is_flag=True, help="Go past the interface's queueing discipline.")
@click.option(
    "--realtime",
    is_flag=True,
    help="Run before all ordinary processes, to be late more rarely; needs root.",
)
@click.option(
    "--expect", "far", metavar="IF",
    help="With a sequence of which something is expected: capture here too, behind the device under test, "
    "send what returns from here, and say whether it does what is expected.",
)  # fmt: skip
@click.option(
    "--expect-from", "captured", metavar="FILE",
    help="Send nothing: judge a capture made behind the device under test.",
)  # fmt: skip
@click.option(
    "--expect-near", "near_captured", metavar="FILE",
    help="With --expect-from: the capture made where the sequence was sent from, both directions.",
)  # fmt: skip
@click.option("--junit", metavar="FILE", help="With --expect and --expect-from: write the verdicts as JUnit.")
@force_option
@click.option("-T", "form", type=click.Choice(["table", "json"]), default="table", help="How to report.")
@click.option("--seed", type=int, help="Seed of random:N (default: a new one, printed).")
@ethertype_option
@color_option
def command(
    words: tuple[str, ...],
    interface: str | None,
    read: tuple[str, ...],
    order: Order,
    spec: str | None,
    rate: str | None,
    speed: str | None,
    count: int | None,
    loop: bool,
    storm: str | None,
    pacing: str,
    spin: str,
    bypass: bool,
    realtime: bool,
    far: str | None,
    captured: str | None,
    near_captured: str | None,
    junit: str | None,
    force: bool,
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
    ecmproto send -i eth0 pfc-storm prio=3,4 --expect eth1 --junit storm.xml
    ecmproto send pfc-storm prio=3,4 --expect-from behind.pcapng --expect-near before.pcapng
    """
    from ecmproto.frames.capture.linux.schedule import schedule_of
    from ecmproto.frames.capture.linux.sender import Sendable
    from ecmproto.frames.capture.linux.transmission import MANY_FRAMES

    options = taken_options(line)
    many = "max" not in (rate, speed) and (loop or (count or 0) >= MANY_FRAMES)
    keeping = Keeping(even=pacing == "even", spin_ns=parse_time(spin), many=many)
    paths = captures_named(read, order, required=False)
    others = {"count": count, "rate": rate, "speed": speed, "read": paths or None, "spec": spec}
    others["pacing"] = None if pacing == "rate" else pacing
    check_storm(storm, words, options, others | {"sweep": line["sweeps"]})
    if far is not None or captured is not None or near_captured is not None:
        check_sources({"-r": paths or None, "--spec": spec}, words, line)
        others |= {"loop": loop, "storm": storm, "sweep": line["sweeps"], "spec": None}
        _check_expecting(words, spec, others)
        return _judged(
            words, line, spec, interface, far, captured, near_captured, junit=junit, force=force,
            keeping=keeping, bypass=bypass, realtime=realtime, form=form, ethertypes=ethertypes,
        )  # fmt: skip
    for name, given in (("junit", junit is not None), ("force", force)):
        if given:
            raise click.UsageError(f"--{name} belongs to --expect and --expect-from")
    if interface is None:
        raise click.UsageError("needed -i IF, the interface to send out of")
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
        report, ended_by = _send(sender, check, _frames(source, count, loop), schedule, keeping)
    if report.frames or not isinstance(ended_by, Exception):
        _say(report, sendable, form)
    return exit_code_after(report, ended_by)


def _check_expecting(words: tuple[str, ...], spec: str | None, others: dict[str, Any]) -> None:
    """Refuse whatever says nothing of expectations, or anything else of which frames leave when."""
    if not is_sequence(words) and not (spec is not None and spec.endswith(".toml")):
        known = "a sequence, such as pfc-storm (ecmproto craft --list), or a .toml with [[expect]]"
        raise click.UsageError(f"--expect belongs to {known}")
    given = [name for name, value in others.items() if value not in (None, (), False)]
    if given:
        raise click.UsageError(f"a sequence that is judged has times of its own: needed no --{given[0]}")


def _judged(
    words: tuple[str, ...],
    line: dict[str, Any],
    spec: str | None,
    near: str | None,
    far: str | None,
    captured: str | None,
    near_captured: str | None,
    *,
    junit: str | None,
    force: bool,
    keeping: Keeping,
    bypass: bool,
    realtime: bool,
    form: str,
    ethertypes: EtherTypes,
) -> int:
    """Send a sequence, or read what came of one, and say whether that is what is expected."""
    from ecmproto.frames.capture.linux.schedule import schedule_of
    from ecmproto.tools.testing.verdicts import judge_captures, judge_interfaces
    from ecmproto_cli.verdicts import check_sides, described_test, no_frame_judged, tell

    check_sides(near, far, captured, near_captured)
    check_outputs([junit], force=force)
    try:
        test = described_test(words, line, spec, ethertypes)
    except (SpecError, EncodeError, ParameterError) as error:
        raise CommandError(str(error), exit_code=USAGE, help=help_on(error, "send")) from None
    sent = None
    if captured is not None:
        judge_captures(test, captured, near_captured, warn)
    elif near is None:
        raise click.UsageError("needed -i IF, the interface to send out of")
    else:
        assert far is not None
        with opened_sender(near, bypass=bypass, realtime=realtime) as (sender, check):

            def send(batches: Iterable[Batch]) -> tuple[SendReport, BaseException | None]:
                return _send(sender, check, batches, schedule_of(), keeping)

            report, ended_by = judge_interfaces(test, near, far, send, warn)
        if ended_by is not None:
            return exit_code_after(report, ended_by)
        sent = report_document(report)
        if form == "table":
            echo(report_table(report))
    nothing = no_frame_judged(test)
    if nothing is not None:
        raise nothing
    return tell(test, form=form, junit=junit, force=force, sent=sent)


def _captured(paths: tuple[str, ...], sendable: Sendable) -> Callable[[], Iterable[Batch]]:
    """Return a function that reads the captures anew at each call."""
    from ecmproto.frames.capture import open_captures

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
    """Return a function that builds the same frames anew at each call."""
    from ecmproto.tools.craft.recipe import chunks
    from ecmproto.tools.craft.spec import Reading

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
                echo(f"ecmproto: seed {drawn}", err=True)

    return source


def _told(
    words: tuple[str, ...], spec: str | None, line: dict[str, Any], reading: Reading, files: ExitStack
) -> Iterator[Recipe | Chunk]:
    """Return the frames that a sequence, a line of layers or a specification file describes."""
    if is_sequence(words):
        steps = sequence_steps(words, line, ethertypes=reading.ethertypes)
        return from_steps((step for step in steps if not step.reverse), words[0], reading)
    return iter([from_line(words, line, reading)]) if words else from_file(str(spec), reading, files)


def _frames(source: Callable[[], Iterable[Batch]], count: int | None, loop: bool) -> Iterable[Batch]:
    from ecmproto.frames.capture.linux.sender import repeated

    return source() if count is None and not loop else repeated(source, frames=count)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How frames keep to their times, and whether they will be many."""

    even: bool = False
    spin_ns: int
    many: bool = False

    def transmission(
        self, sender: FrameSender, schedule: Schedule, check: Callable[[], None]
    ) -> Transmission:
        """Return the transmission that sends by a schedule."""
        from ecmproto.frames.capture.linux.transmission import Transmission

        work.at(lambda: "send")
        return Transmission(
            sender, schedule, even=self.even, spin_ns=self.spin_ns, many=self.many, check=check,
            prepared=work.end,  # a thread that writes would make frames late
        )  # fmt: skip


def _send(
    sender: FrameSender,
    check: Callable[[], None],
    batches: Iterable[Batch],
    schedule: Schedule,
    keeping: Keeping,
) -> tuple[SendReport, BaseException | None]:
    """Send the frames; return the report, and the interrupt or error that ended it early."""
    transmission = keeping.transmission(sender, schedule, check)
    try:
        transmission.run(batches)
    except (KeyboardInterrupt, EcmprotoError, CommandError) as error:
        return transmission.report(), error
    return transmission.report(), None


def _speed_of(interface: str) -> int:
    """Return the speed of an interface's link."""
    from ecmproto.frames.capture.linux.interface import interface_facts, speed_bps

    found = speed_bps(interface_facts(interface).name)
    if not found:
        needed = "the link's speed, as in --storm 10G"
        raise ParameterError(name="storm", needed=needed, got=f"{interface}, which tells none")
    return found


def _say(report: SendReport, sendable: Sendable, form: str) -> None:
    """Print the report, and warn on stderr of frames that were not sent as they are in the capture."""
    if sendable.foreign:
        warn(f"{counted(sendable.foreign, 'frame')} of other link types than Ethernet not sent")
    if sendable.cut:
        warn(f"{counted(sendable.cut, 'frame')} cut by the capture, sent as far as it has them")
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


def send_storm(
    interface: str,
    storm: Storm,
    *,
    duration_ns: int | None,
    release: bool,
    bypass: bool,
    realtime: bool,
    form: str,
    ethertypes: EtherTypes,
) -> int:
    """Send a storm, until interrupted without a duration; report, and return the exit code."""
    if duration_ns is not None:
        storm.check_duration(duration_ns)
    stream = storm_stream(interface, storm, duration_ns, release=release, ethertypes=ethertypes)
    with opened_streams([stream], bypass=bypass, realtime=realtime) as sender:
        ended_by = send_streams(sender)
        kept = sender.report()
        mtu_octets = sender.facts[interface].mtu_octets
    report, released = _storm_report(kept, storm, mtu_octets), release and kept.streams[0].released
    if form == "json":
        document = report_document(report) | {"storm": storm_document(storm), "released": released}
        echo(json.dumps(document | {"processors": kept.processors}, indent=2))
    else:
        rows = [*storm_rows(storm, duration_ns), *report_rows(report), ("kept by", kept_by(kept))]
        rows.append(("released", "at the end" if released else "no: the last pause runs out by itself"))
        echo(pairs(rows, width=max(len(name) for name, _ in rows)))
    if report.gaps is not None and report.gaps.longer and not kept.processors:
        warn("frames came too late to hold all the time: with CAP_SYS_NICE real-time threads send them")
    return exit_code_after(report, ended_by)


def storm_stream(
    interface: str, storm: Storm, duration_ns: int | None, *, release: bool, ethertypes: EtherTypes
) -> Stream:
    """Return the stream of a storm that holds for a time (None: without end)."""
    from ecmproto.frames.capture.linux.streams import FOREVER_NS, Segment, Stream
    from ecmproto.tools.craft import build
    from ecmproto.wire.codec import encode

    hold, last = (
        encode(build(line, raw=storm.raw, ethertypes=ethertypes)) for line in (storm.hold, storm.release)
    )
    end_ns = FOREVER_NS if duration_ns is None else duration_ns
    renewal = storm.renewal
    segments = [
        Segment(frames=(hold,), until_ns=end_ns, interval_ns=renewal.interval_ns, limit_ns=renewal.pause_ns),
        Segment(frames=(last,), first_ns=end_ns, limit_ns=renewal.pause_ns),
    ]
    return Stream(name="storm", interface=interface, segments=tuple(segments[: 1 + release]))


@contextmanager
def opened_streams(
    streams: Sequence[Stream], *, bypass: bool, realtime: bool = False
) -> Iterator[StreamSender]:
    """Open the interfaces of streams; InterfaceError as `opened_sender`."""
    from ecmproto.frames.capture.linux.streams import StreamSender, may_run_ahead

    held = HeldInterrupt(signal.SIGINT, signal.SIGTERM)
    with StreamSender(streams, bypass_queues=bypass, check=held.check) as sender, held:
        for facts in sender.facts.values():
            check_link(facts)
        if bypass and not sender.bypasses:
            _warn_of_queues()
        if realtime and not may_run_ahead():
            raise _not_ahead(streams[0].interface)
        yield sender


def send_streams(sender: StreamSender) -> BaseException | None:
    """Send streams, and release what they hold also at an interrupt; return what ended them early."""
    work.at(lambda: "send")
    try:
        sender.run(work.end)
    except KeyboardInterrupt as interrupt:
        sender.release()
        return interrupt
    except EcmprotoError as error:
        return error
    return None


def _storm_report(kept: StreamsReport, storm: Storm, mtu_octets: int) -> SendReport:
    """Return the report of a storm as of other sending."""
    from ecmproto.frames.capture.linux.schedule import FrameRate
    from ecmproto.frames.capture.linux.transmission import SendReport

    stream, frames_per_s = kept.streams[0], storm.renewal.frames_per_s
    return SendReport(
        interface=stream.interface, mtu_octets=mtu_octets, asked=str(FrameRate(frames_per_s)),
        asked_fps=float(frames_per_s), asked_bps=None, frames=stream.frames, octets=stream.octets,
        duration_ns=stream.duration_ns, jitter=kept.jitter if stream.frames else None, gaps=stream.gaps,
        full=stream.failed,
    )  # fmt: skip


def kept_by(kept: StreamsReport) -> str:
    """Return the threads that kept streams, in words."""
    if not kept.processors:
        return "ordinary threads"
    named = " and ".join(map(str, kept.processors))
    return f"real-time threads on processor{'s' if len(kept.processors) > 1 else ''} {named}"


def check_link(facts: InterfaceFacts) -> None:
    """Warn of an interface without a link; InterfaceError for one that is down."""
    name = facts.name
    if not facts.up:
        raise InterfaceError(
            interface=name,
            needed="an interface that is up",
            got="one that is down",
            remedy=f"ip link set {name} up",
        )
    if not facts.running:
        warn(f"{name} has no link: what is sent may go nowhere")


@contextmanager
def _ahead(interface: str) -> Iterator[None]:
    """Run before all ordinary processes; InterfaceError where the process may not."""
    from ecmproto.control.live.privileges import run_in_realtime

    try:
        run_in_realtime()
    except PermissionError:
        raise _not_ahead(interface) from None
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _not_ahead(interface: str) -> InterfaceError:
    needed = "the capability CAP_SYS_NICE, to run before all ordinary processes"
    return InterfaceError(interface=interface, needed=needed, got="a process without it")


@contextmanager
def opened_sender(
    interface: str, *, bypass: bool, realtime: bool
) -> Iterator[tuple[FrameSender, Callable[[], None]]]:
    """Open an interface to send out of; return the sender and the function that raises a held interrupt.

    InterfaceError for one that is not there or down, and where the process may not do what is asked.
    """
    from ecmproto.frames.capture.linux.sender import FrameSender

    held = HeldInterrupt(signal.SIGINT, signal.SIGTERM)
    with FrameSender(interface, bypass_queues=bypass) as sender, held:
        check_link(sender.facts)
        if bypass and not sender.bypasses:
            _warn_of_queues()
        with _ahead(interface) if realtime else nullcontext():
            yield sender, held.check


def _warn_of_queues() -> None:
    warn("the kernel does not let frames go past the queueing discipline")


def exit_code_after(report: SendReport, ended_by: BaseException | None) -> int:
    """Return the exit code of a report, or raise the error that ended the sending before its time."""
    if isinstance(ended_by, KeyboardInterrupt):
        return INTERRUPTED
    if ended_by is not None:
        raise ended_by
    missed = report.refused is not None or (report.gaps is not None and report.gaps.longer > 0)
    return FINDINGS if not report.frames or missed else 0


def report_table(report: SendReport) -> str:
    """Return the report for a person."""
    return pairs(report_rows(report), width=_NAMES)


def report_rows(report: SendReport) -> list[tuple[str, str]]:
    """Return the report as rows of a name and a text."""
    told = f"{_count_text(report.frames)}, {format_octets(report.octets)}, out of {report.interface}"
    rows = [("sent", told), ("asked", report.asked)]
    if report.rate_fps is not None and report.rate_bps is not None:
        reached = f"{report.rate_fps:,.6g} frames/s, {format_rate(report.rate_bps)} on the wire"
        if report.reached is not None and report.reached < _SHORT:
            reached += f": {report.reached:.1%} of what was asked"
        rows += [("reached", reached), ("time", format_time(report.duration_ns))]
    if report.jitter is not None:
        rows.append(("jitter", f"{_distribution(report.jitter)} late"))
    if report.spacing is not None and report.gaps is None:  # which tell what matters of a storm
        rows.append(("apart", _distribution(report.spacing)))
    if report.gaps is not None:
        rows.append(("held", _held(report.gaps)))
        if report.gaps.skipped:
            rows.append(("left out", f"{_count_text(report.gaps.skipped)} that would have come too late"))
    if report.full:
        rows.append(("no room", f"{report.full:,} times, tried again"))
    if report.down:
        rows.append(("link down", f"{report.down:,} times, tried again"))
    if report.refused is not None:
        rows.append(("refused", _count_text(report.refused.frames)))
    return rows


def _distribution(of: Jitter | Spacing) -> str:
    values = (("p50", of.p50_ns), ("p99", of.p99_ns), ("max", of.max_ns))
    return ", ".join(f"{name} {format_time(value)}" for name, value in values)


def _held(gaps: GapCounts) -> str:
    """Return whether each frame came before the pause of the one before it was over."""
    limit, longest = format_time(gaps.limit_ns), format_time(gaps.longest_ns)
    if not gaps.longer:
        return f"all the time: longest gap {longest}, a pause is {limit}"
    times = "once" if gaps.longer == 1 else f"{gaps.longer:,} times"
    return (
        f"not all the time: {times} a gap of more than {limit}, the longest {longest}; "
        f"up to {format_time(gaps.excess_ns)} free to run"
    )


def _count_text(count: int) -> str:
    return "1 frame" if count == 1 else f"{count:,} frames"


def report_document(report: SendReport, sendable: Sendable | None = None) -> dict[str, object]:
    """Return the report as plain data; ``sendable`` counts a capture's frames not sent as they are."""
    return {
        "schema": SCHEMA,
        **dataclasses.asdict(report),
        "rate_fps": report.rate_fps,
        "rate_bps": report.rate_bps,
        "reached": report.reached,
        "other_link_types": sendable.foreign if sendable is not None else 0,
        "cut": sendable.cut if sendable is not None else 0,
    }
