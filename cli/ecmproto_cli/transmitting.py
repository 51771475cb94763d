"""Sending on the command line: the interface opened, interrupts held, and what ended it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from ecmproto.errors import InterfaceError
from ecmproto_cli.capturing import HeldInterrupt
from ecmproto_cli.errors import FINDINGS, INTERRUPTED, warn
from ecmproto_cli.links import check_link

if TYPE_CHECKING:
    from ecmproto.capture.linux.sender import FrameSender, SendReport


@contextmanager
def _ahead(interface: str) -> Iterator[None]:
    """Run before all ordinary processes; InterfaceError where the process may not."""
    from ecmproto.live.privileges import hurry

    try:
        hurry()
    except PermissionError:
        raise InterfaceError(
            interface=interface, needed="the capability CAP_SYS_NICE, to run before all ordinary processes",
            got="a process without it",
        ) from None  # fmt: skip
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def opened_sender(
    interface: str, *, bypass: bool, realtime: bool
) -> Iterator[tuple[FrameSender, Callable[[], None]]]:
    """Open an interface to send out of; with it goes what raises an interrupt that came.

    InterfaceError for one that is not there or down, and where the process may not do what is asked.
    """
    from ecmproto.capture.linux.sender import FrameSender

    held = HeldInterrupt(signal.SIGINT, signal.SIGTERM)
    with FrameSender(interface, bypass_queues=bypass) as sender, held:
        check_link(sender.facts)
        if bypass and not sender.bypasses:
            warn("the kernel does not let frames go past the queueing discipline")
        with _ahead(interface) if realtime else nullcontext():
            yield sender, held.check


def exit_code_after(report: SendReport, ended_by: BaseException | None) -> int:
    """Return the exit code of a report, or raise the error that ended the sending before its time."""
    if isinstance(ended_by, KeyboardInterrupt):
        return INTERRUPTED
    if ended_by is not None:
        raise ended_by
    missed = report.refused is not None or (report.gaps is not None and report.gaps.longer > 0)
    return FINDINGS if not report.frames or missed else 0
