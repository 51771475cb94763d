"""Sending out of interfaces, and reports on sent frames."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from ecmproto.errors import InterfaceError, counted
from ecmproto.units import format_octets, format_rate, format_share, format_time, frames_per_second
from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.errors import FINDINGS, INTERRUPTED, warn
from ecmproto_cli.output import pairs

if TYPE_CHECKING:
    from ecmproto.frames.capture.linux.interface import InterfaceFacts
    from ecmproto.frames.capture.linux.sender import FrameSender, Sendable
    from ecmproto.frames.capture.linux.transmission import GapCounts, Jitter, SendReport, Spacing

SCHEMA = "ecmproto/send/1"
_NAMES = 9
_SHORT = 0.995
"""Fraction of the requested rate below which the requested rate counts as missed."""


def check_link(facts: InterfaceFacts) -> None:
    """Warn if an interface has no link.

    Raises InterfaceError if the interface is down.
    """
    name = facts.name
    if not facts.up:
        raise InterfaceError(
            interface=name,
            needed="an interface that is up",
            got="one that is down",
            remedy=f"ip link set {name} up",
        )
    if not facts.running:
        warn(f"{name} has no link: frames may be lost")


@contextmanager
def _ahead(interface: str) -> Iterator[None]:
    """Run the block with real-time priority.

    Raises InterfaceError if the process may not use real-time priority.
    """
    from ecmproto.control.live.privileges import run_in_realtime

    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        run_in_realtime()
    except PermissionError:
        raise not_ahead(interface) from None
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def not_ahead(interface: str) -> InterfaceError:
    """Return the error for a process that may not use real-time priority."""
    needed = "the capability CAP_SYS_NICE, for real-time priority"
    return InterfaceError(interface=interface, needed=needed, got="a process without that permission")


@contextmanager
def opened_sender(
    interface: str, *, bypass: bool, realtime: bool
) -> Iterator[tuple[FrameSender, Callable[[], None]]]:
    """Yield a sender for an interface, and the function that raises a deferred interrupt.

    Raises InterfaceError for a missing interface, an interface that is down, or missing permissions.
    """
    from ecmproto.frames.capture.linux.sender import FrameSender

    interrupt = DeferredInterrupt(signal.SIGINT, signal.SIGTERM)
    with FrameSender(interface, bypass_queues=bypass) as sender, interrupt:
        check_link(sender.facts)
        if bypass and not sender.bypasses:
            warn_of_queues()
        with _ahead(interface) if realtime else nullcontext():
            yield sender, interrupt.check


def warn_of_queues() -> None:
    """Warn that the kernel cannot bypass the queueing discipline."""
    warn("the kernel does not allow frames to bypass the queueing discipline")


def exit_code_after(report: SendReport, ended_by: BaseException | None) -> int:
    """Return the exit code for a report.

    Raises ``ended_by``, the error that ended the sending, unless the error is an interrupt.
    """
    if isinstance(ended_by, KeyboardInterrupt):
        return INTERRUPTED
    if ended_by is not None:
        raise ended_by
    missed = report.refused is not None or (report.gaps is not None and report.gaps.longer > 0)
    return FINDINGS if not report.frames or missed else 0


def report_table(report: SendReport) -> str:
    """Return the report as text."""
    return pairs(report_rows(report), width=_NAMES)


def report_rows(report: SendReport) -> list[tuple[str, str]]:
    """Return the report as rows, each with a name and a text."""
    sent = f"{counted(report.frames, 'frame')}, {format_octets(report.octets)} from {report.interface}"
    rows = [("sent", sent), ("requested", report.asked)]
    if report.rate_fps is not None and report.rate_bps is not None:
        reached = f"{frames_per_second(report.rate_fps)}, {format_rate(report.rate_bps)} on the line"
        if report.reached is not None and report.reached < _SHORT:
            reached += f": {format_share(report.reached)} of the requested rate"
        rows += [("reached", reached), ("time", format_time(report.duration_ns))]
    if report.jitter is not None:
        rows.append(("jitter", f"{_distribution(report.jitter)} late"))
    if report.spacing is not None and report.gaps is None:  # in a storm, only the gaps matter
        rows.append(("spacing", _distribution(report.spacing)))
    if report.gaps is not None:
        rows.append(("paused", _paused_text(report.gaps)))
        if report.gaps.skipped:
            rows.append(("skipped", f"{counted(report.gaps.skipped, 'frame')} that would have been too late"))
    if report.full:
        rows.append(("queue full", f"{report.full:,} times, tried again"))
    if report.down:
        rows.append(("link down", f"{report.down:,} times, tried again"))
    if report.refused is not None:
        rows.append(("refused", counted(report.refused.frames, "frame")))
    return rows


def _distribution(of: Jitter | Spacing) -> str:
    values = (("p50", of.p50_ns), ("p99", of.p99_ns), ("max", of.max_ns))
    return ", ".join(f"{name} {format_time(value)}" for name, value in values)


def _paused_text(gaps: GapCounts) -> str:
    """Return a text that states whether each frame was sent before the previous pause expired."""
    limit, longest = format_time(gaps.limit_ns), format_time(gaps.longest_ns)
    if not gaps.longer:
        return f"the whole time: longest gap {longest}, pause time {limit}"
    times = "once" if gaps.longer == 1 else f"{gaps.longer:,} times"
    return (
        f"not the whole time: {times} a gap of more than {limit}, the longest {longest}; "
        f"up to {format_time(gaps.excess_ns)} without pause"
    )


def report_document(report: SendReport, sendable: Sendable | None = None) -> dict[str, object]:
    """Return the report as plain data.

    ``sendable`` counts the frames of a capture that could not be sent unchanged.
    """
    return {
        "schema": SCHEMA,
        **dataclasses.asdict(report),
        "rate_fps": report.rate_fps,
        "rate_bps": report.rate_bps,
        "reached": report.reached,
        "other_link_types": sendable.foreign if sendable is not None else 0,
        "cut": sendable.cut if sendable is not None else 0,
    }
