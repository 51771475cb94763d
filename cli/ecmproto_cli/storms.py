"""Sending pause storms and test plans, and checking the frames at the receivers."""

from __future__ import annotations

import dataclasses
import json
import secrets
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ecmproto.errors import EcmprotoError, SpecError, counted
from ecmproto.units import format_octets, format_time
from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.errors import FINDINGS, INTERRUPTED, USAGE, CommandError, warn
from ecmproto_cli.output import pairs
from ecmproto_cli.progress import work
from ecmproto_cli.recipes import storm_document, storm_rows
from ecmproto_cli.sending import (
    check_link,
    exit_code_after,
    not_ahead,
    report_document,
    report_rows,
    warn_of_queues,
)
from ecmproto_cli.terminal import echo
from ecmproto_cli.verdicts import VerdictOutput, print_verdicts, verdict_code

if TYPE_CHECKING:
    from ecmproto.frames.capture.linux.streams import Stream, StreamReport, StreamSender, StreamsReport
    from ecmproto.frames.capture.linux.timed_departures import TimedSender
    from ecmproto.frames.capture.linux.transmission import SendReport
    from ecmproto.tools.craft.sequences import Storm
    from ecmproto.tools.testing.plan import Plan
    from ecmproto.tools.testing.proofs import Numbered, Proof, Storming
    from ecmproto.wire.formats.ethertypes import EtherTypes

SCHEMA = "ecmproto/plan-report/1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The result of sending streams: report, error that ended the sending, and receivers' proofs."""

    report: StreamsReport
    mtu_octets: int
    ended_by: BaseException | None
    proofs: list[Proof]
    stolen_ns: int


def send_storm(
    interface: str,
    storm: Storm,
    *,
    duration_ns: int | None,
    release: bool,
    at: str | None,
    bypass: bool,
    realtime: bool,
    kernel_time: bool,
    output: VerdictOutput,
    ethertypes: EtherTypes,
) -> int:
    """Send a pause storm, print a report, and return the exit code.

    If ``duration_ns`` is None, the storm lasts until an interrupt. ``at`` is the interface at which the storm
    is checked. With ``kernel_time``, the kernel sends each frame at its departure time.
    """
    from ecmproto.frames.capture.linux.streams import FOREVER_NS, Stream
    from ecmproto.tools.testing.plan import storm_segments
    from ecmproto.tools.testing.proofs import Storming

    if duration_ns is not None:
        storm.check_duration(duration_ns)
    end_ns = FOREVER_NS if duration_ns is None else duration_ns
    segments = storm_segments(storm, 0, end_ns, release=release, ethertypes=ethertypes)
    stream = Stream(name="storm", interface=interface, segments=tuple(segments))
    rate_bps, priorities = storm.renewal.rate_bps, storm.priorities or (None,)
    judged = [] if at is None else [Storming(port=at, rate_bps=rate_bps, priorities=priorities)]
    sent = _sent([stream], judged, [], bypass=bypass, realtime=realtime, kernel_time=kernel_time)
    combined, report = sent.report, _storm_report(sent, storm)
    released = release and combined.streams[0].released
    if output.form == "json":
        document = report_document(report) | {"storm": storm_document(storm), "released": released}
        echo(json.dumps(document | _proof_document(sent) | {"processors": combined.processors}, indent=2))
    rows = [*storm_rows(storm, duration_ns), *report_rows(report), ("sent by", thread_text(combined))]
    rows.append(("released", "at the end" if released else "no: the last pause expires"))
    if output.form == "text" and not output.quiet:
        echo(pairs(rows, width=max(len(name) for name, _ in rows)), wrap=True)
    if report.gaps is not None and report.gaps.longer and not (combined.processors or combined.kept_by):
        warn("frames were too late to keep the link paused: with CAP_SYS_NICE, real-time threads send them")
    if at is None or sent.ended_by is not None:
        return exit_code_after(report, sent.ended_by)
    return _report("storm", sent, output, rows)


def send_plan(path: str, *, seed: int | None, bypass: bool, realtime: bool, output: VerdictOutput) -> int:
    """Send the streams of a plan, print reports on sent and received frames, and return the exit code."""
    plan = _plan(path, seed)
    sent = _sent(plan.streams, plan.storms, plan.data, bypass=bypass, realtime=realtime)
    if output.form == "json":
        document = {"schema": SCHEMA, "plan": path, "seed": plan.seed, **dataclasses.asdict(sent.report)}
        echo(json.dumps(document | _proof_document(sent), indent=2))
    rows = [(each.name, _stream_text(each)) for each in sent.report.streams]
    rows += [("sent by", thread_text(sent.report)), ("seed", str(plan.seed))]
    if output.form == "text" and not output.quiet:
        echo(pairs(rows, width=max(len(name) for name, _ in rows)), wrap=True)
    if isinstance(sent.ended_by, KeyboardInterrupt):
        return INTERRUPTED
    if sent.ended_by is not None:
        raise sent.ended_by
    if sent.proofs:
        return _report(path, sent, output, rows)
    lapsed = any(each.gaps.longer for each in sent.report.streams)
    return FINDINGS if lapsed or not all(each.frames for each in sent.report.streams) else 0


def _plan(path: str, seed: int | None) -> Plan:
    from ecmproto.tools.testing.plan import read_plan

    try:
        with open(path, "rb") as stream:
            return read_plan(stream, path, seed=secrets.randbits(32) if seed is None else seed)
    except SpecError as error:
        raise CommandError(str(error), exit_code=USAGE, help="ecmproto send --help") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", exit_code=USAGE) from None


def _sent(
    streams: Sequence[Stream],
    storms: Sequence[Storming],
    data: Sequence[Numbered],
    *,
    bypass: bool,
    realtime: bool,
    kernel_time: bool = False,
) -> _Sent:
    """Send streams, capture frames at the receivers that are checked, and return the results."""
    with ExitStack() as opened:
        sender = _opened(streams, opened, bypass=bypass, realtime=realtime, kernel_time=kernel_time)
        watch = None
        if storms or data:
            from ecmproto.tools.testing.proofs import Watch

            watch = Watch(storms, data)
        try:
            ended_by = _send_streams(sender)
        finally:
            if watch is not None:
                watch.end(warn)
        return _Sent(
            report=sender.report(), mtu_octets=sender.facts[streams[0].interface].mtu_octets,
            ended_by=ended_by, proofs=[] if watch is None else watch.proofs(sender.steals()),
            stolen_ns=0 if watch is None else watch.stolen_ns,
        )  # fmt: skip


def _opened(
    streams: Sequence[Stream], opened: ExitStack, *, bypass: bool, realtime: bool, kernel_time: bool
) -> StreamSender | TimedSender:
    """Return a sender of streams, which ``opened`` closes. With ``kernel_time``, the kernel keeps the times.

    Raises InterfaceError under the conditions of `opened_sender`, and if the kernel cannot keep the times.
    """
    from ecmproto.frames.capture.linux.streams import StreamSender, may_run_ahead

    interrupt = DeferredInterrupt(signal.SIGINT, signal.SIGTERM)
    sender: StreamSender | TimedSender
    if kernel_time:
        from ecmproto.frames.capture.linux.timed_departures import TimedSender, time_keeping

        kind = opened.enter_context(time_keeping(streams[0].interface))
        sender = opened.enter_context(TimedSender(streams, kind, check=interrupt.check))
    else:
        sender = StreamSender(streams, bypass_queues=bypass, check=interrupt.check)
        opened.enter_context(sender)
    opened.enter_context(interrupt)
    for facts in sender.facts.values():
        check_link(facts)
    if isinstance(sender, StreamSender):
        if bypass and not sender.bypasses:
            warn_of_queues()
        if realtime and not may_run_ahead():
            raise not_ahead(streams[0].interface)
    return sender


def _send_streams(sender: StreamSender | TimedSender) -> BaseException | None:
    """Send streams, and return the error that ended the sending, or None.

    An interrupt also releases the pauses of the streams.
    """
    work.at(lambda: "send")
    try:
        sender.run(work.end)
    except KeyboardInterrupt as interrupt:
        sender.release()
        return interrupt
    except EcmprotoError as error:
        return error
    return None


def _report(name: str, sent: _Sent, output: VerdictOutput, rows: Sequence[tuple[str, str]]) -> int:
    """Print the proofs, write the JUnit file, and return the exit code."""
    verdicts = [(each.outcome, each.name, each.result) for each in sent.proofs]
    if output.form != "json":
        print_verdicts(verdicts, quiet=output.quiet)
        if sent.stolen_ns and not output.quiet:
            echo(f"the hypervisor took each processor for {format_time(sent.stolen_ns)} on average")
    output.write_junit(name, verdicts, rows)
    return verdict_code([each.outcome for each in sent.proofs])


def _proof_document(sent: _Sent) -> dict[str, Any]:
    if not sent.proofs:
        return {}
    return {"stolen_ns": sent.stolen_ns, "verdicts": [each.document() for each in sent.proofs]}


def _storm_report(sent: _Sent, storm: Storm) -> SendReport:
    """Return the report on a storm in the form that `ecmproto send` uses for other frames."""
    from ecmproto.frames.capture.linux.schedule import FrameRate
    from ecmproto.frames.capture.linux.transmission import SendReport

    stream, frames_per_s = sent.report.streams[0], storm.renewal.frames_per_s
    return SendReport(
        interface=stream.interface, mtu_octets=sent.mtu_octets, asked=str(FrameRate(frames_per_s)),
        asked_fps=float(frames_per_s), asked_bps=None, frames=stream.frames, octets=stream.octets,
        duration_ns=stream.duration_ns, jitter=sent.report.jitter if stream.frames else None,
        gaps=stream.gaps, full=stream.failed,
    )  # fmt: skip


def _stream_text(stream: StreamReport) -> str:
    """Return a text with the numbers of frames and octets of a stream, and with its late frames."""
    text = f"{counted(stream.frames, 'frame')}, {format_octets(stream.octets)}"
    if stream.gaps.limit_ns:
        longer = counted(stream.gaps.longer, "gap") if stream.gaps.longer else "no gap"
        text += f"; {longer} that a pause does not cover, the longest {format_time(stream.gaps.longest_ns)}"
    return text + (f"; queue full {stream.failed:,} times" if stream.failed else "")


def thread_text(report: StreamsReport) -> str:
    """Return the name of the threads or the queueing discipline that kept the departure times."""
    if report.kept_by:
        return f"the kernel's {report.kept_by}" + (
            ", which reports late frames" if report.kept_by == "etf" else ""
        )
    if not report.processors:
        return "ordinary threads"
    named = " and ".join(map(str, report.processors))
    return f"real-time threads on processor{'s' if len(report.processors) > 1 else ''} {named}"
