"""The loop of a live device: frames in, frames out at their time, asleep between; ended by time or signal."""

from __future__ import annotations

import ctypes
import io
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ecmproto.live.device import Device
from ecmproto.live.link import Link
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.units import NS_PER_S

_LONGEST_SLEEP_NS = NS_PER_S
"""Interfaces that have vanished are looked for so often; all else wakes the loop by itself."""
_PR_SET_TIMERSLACK = 29
_FINE_NS = 1
_COUNTS_OCTETS = 100
_STARVED = 50
"""A fiftieth of the time: in 20 ms of a second 50 Mb/s are 125 kB, more than any set point for that rate."""

Report = Callable[[int], None]
"""Told, at its time, the time."""


class Stop:
    """Whether a signal asked the loop to end, and which: ``number``, 0 for none."""

    def __init__(self) -> None:
        self.number = 0
        self.waker, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self.waker.setblocking(False)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.number = number

    @property
    def asked(self) -> bool:
        """Whether one came."""
        return self.number != 0

    @contextmanager
    def held(self) -> Iterator[Stop]:
        """Hold the signals."""
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        # A sleeping select is woken by what arrives here: python resumes it after a signal.
        bell = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(bell)
            for number, handler in before.items():
                signal.signal(number, handler)
            self.waker.close()
            self._bell.close()


def run(
    device: Device,
    links: Sequence[Link],
    stop: Stop,
    *,
    until_ns: int = NEVER_NS,
    report: Report | None = None,
    report_every_ns: int = NS_PER_S,
    coalesce_ns: int = 0,
) -> None:
    """Drive ``device``, whose place i is ``links[i]``, until ``stop`` is asked or ``until_ns`` has come.

    Times are those of the monotonic clock.  ``report`` is called every ``report_every_ns``.  With
    ``coalesce_ns`` whatever wakes the loop waits so long for more, which takes less of the processor.
    """
    report_ns = time.monotonic_ns() + report_every_ns if report is not None else NEVER_NS
    while not stop.asked:
        now_ns = time.monotonic_ns()
        if now_ns >= until_ns:
            break
        if report is not None and now_ns >= report_ns:
            report(now_ns)
            report_ns = max(report_ns + report_every_ns, now_ns)
        wake_ns = min(device.due_ns, report_ns, until_ns, now_ns + _LONGEST_SLEEP_NS)
        ready = _wait(links, stop, wake_ns - now_ns)
        if coalesce_ns and not stop.asked:
            time.sleep(coalesce_ns / NS_PER_S)
            ready |= _wait(links, stop, 0)
        _serve(device, links, ready)
        for link in links:
            if not link.is_open:
                link.revive(time.monotonic_ns())


def _wait(links: Sequence[Link], stop: Stop, sleep_ns: int) -> set[int]:
    """Return the descriptors where there is something, asleep for ``sleep_ns`` at most."""
    waited: list[Any] = [link.fileno() for link in links if link.is_open]
    ready, _, _ = select.select([*waited, stop.waker], [], [], max(0, sleep_ns) / NS_PER_S)
    return {each for each in ready if isinstance(each, int)}


def _serve(device: Device, links: Sequence[Link], ready: set[int]) -> None:
    # One time for all of it: what taking frames has let happen need not be looked for again.
    now_ns = time.monotonic_ns()
    for place, link in enumerate(links):
        if link.is_open and (link.is_down or link.fileno() in ready):
            batch = link.receive()
            if batch is not None:
                device.take(batch, place, now_ns)
    if device.due_ns <= now_ns:
        device.advance(now_ns)


def is_starved(waited_ns: int, missed_ns: int, elapsed_ns: int) -> bool:
    """Return whether a device was kept from the processor so much that its figures are not its mechanism's.

    It waited for a processor for ``waited_ns``, or gave up ``missed_ns`` of what was due.
    """
    return max(waited_ns, missed_ns) * _STARVED > elapsed_ns


class Waiting:
    """For how long this thread was ready to run and did not: other programs had the processors.

    Looks at what Linux counts (``/proc/thread-self/schedstat``), 0 where it does not.
    """

    def __init__(self) -> None:
        self._file: io.FileIO | None = None
        with suppress(OSError):
            self._file = io.FileIO("/proc/thread-self/schedstat")
        self._before_ns = self._count_ns()

    def _count_ns(self) -> int:
        if self._file is None:
            return 0
        _, waited_ns, *_ = os.pread(self._file.fileno(), _COUNTS_OCTETS, 0).split()
        return int(waited_ns)

    def ns(self) -> int:
        """Return the time since this was made."""
        return self._count_ns() - self._before_ns

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def sleep_precisely() -> None:
    """Ask the kernel to wake this thread when it says, not up to 50 µs later."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_FINE_NS), 0, 0, 0)
