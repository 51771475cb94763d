"""Storms timed by the kernel: frames are passed to the kernel early, each with its time (SO_TXTIME).

The interface gets a queueing discipline that keeps frames until their time: `etf`, which reports and drops
late frames, or `fq`. The interface must have its default queueing discipline, which is restored at the end.
The kernels used for development have neither `etf` nor `fq`, so that the tests check only the configuration
and the sent messages. Structures and numbers are from linux/net_tstamp.h, linux/errqueue.h, tc-etf(8) and
tc-fq(8).
"""

from __future__ import annotations

import gzip
import json
import platform
import re
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path

import numpy as np

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.batch import Int64
from ecmproto.frames.capture.linux.interface import InterfaceFacts
from ecmproto.frames.capture.linux.packet_socket import PacketSocket, SocketUser
from ecmproto.frames.capture.linux.streams import Stream, StreamReport, StreamsReport
from ecmproto.frames.capture.linux.transmission import GapCounts, Jitter
from ecmproto.units import NS_PER_S

CLOCKS = {"etf": time.CLOCK_TAI, "fq": time.CLOCK_MONOTONIC}
"""Clock of the times for each discipline, in order of preference."""
_OPTIONS = {
    "etf": "clockid CLOCK_TAI delta 300000",
    "fq": "limit 100000 flow_limit 100000",
}
AHEAD_NS = 200_000_000
"""Lead time with which frames are passed to the kernel, in ns; user space may sleep for this time."""
_LEAD_NS = 5_000_000
_ROUND_S = 0.05
_SO_TXTIME = _SCM_TXTIME = 61
_REPORT_ERRORS = 2
_SO_SNDBUFFORCE, _QUEUE_OCTETS = 32, 64 << 20
_EXTENDED_ERROR = struct.Struct("=IBBBxII")
_ORIGIN_TXTIME = 6
_ANCILLARY_OCTETS = 256

Run = Callable[[Sequence[str]], str]


def run_command(arguments: Sequence[str]) -> str:
    """Return the output of a command.

    Raises OSError if the command fails.
    """
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip())
    return done.stdout


def known_disciplines() -> list[str]:
    """Return the disciplines in `CLOCKS` that the kernel or its modules support."""
    folder = Path("/lib/modules", platform.release())
    texts = [
        path.read_bytes() for name in ("builtin", "dep") if (path := folder / f"modules.{name}").exists()
    ]
    with suppress(OSError):
        texts.append(gzip.decompress(Path("/proc/config.gz").read_bytes()))
    known = b"\n".join(texts)
    return [
        kind
        for kind in CLOCKS
        if re.search(rf"sch_{kind}\.ko|^CONFIG_NET_SCH_{kind.upper()}=[ym]$".encode(), known, re.M)
    ]


@contextmanager
def time_keeping(interface: str, run: Run = run_command) -> Iterator[str]:
    """Context manager that sets a queueing discipline with times on an interface, and yields its name.

    The discipline is removed at the end. Raises InterfaceError if the present discipline could not be
    restored, or if the kernel has no suitable discipline.
    """
    where = ["dev", interface, "root"]
    (present, *_) = json.loads(run(["tc", "-j", "qdisc", "show", *where])) or [
        {"handle": "0:", "kind": "none"}
    ]
    if present["handle"] != "0:":
        needed = "its default queueing discipline, to restore it in the end"
        raise InterfaceError(interface=interface, needed=needed, got=present["kind"])
    for kind, options in _OPTIONS.items():
        try:
            run(["tc", "qdisc", "replace", *where, kind, *options.split()])
        except OSError as error:
            got = str(error)
            continue
        try:
            yield kind
        finally:
            run(["tc", "qdisc", "del", *where])
        return
    raise InterfaceError(interface=interface, needed="the queueing discipline etf or fq", got=got)


class TimedSender(SocketUser):
    """A sender of a storm, like `StreamSender`, that uses a queueing discipline of `CLOCKS`.

    The first segment of the stream holds the link. A second segment releases the link after the last renewal.
    """

    bypasses = False

    def __init__(
        self, streams: Sequence[Stream], kind: str, *, check: Callable[[], None] = lambda: None
    ) -> None:
        self.streams: tuple[Stream, ...] = tuple(streams)
        (self._stream,) = self.streams
        self._kind, self._clock, self._check = kind, CLOCKS[kind], check
        self._socket = PacketSocket(self._stream.interface)
        self._socket.bind(0)
        self.facts: dict[str, InterfaceFacts] = {self._stream.interface: self._socket.facts}
        own = self._socket.socket
        own.setsockopt(socket.SOL_SOCKET, _SO_TXTIME, struct.pack("=iI", self._clock, _REPORT_ERRORS))
        own.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _QUEUE_OCTETS)
        self._start_ns = 0
        self._handed = 0
        """Number of renewals passed to the kernel."""
        self._missed: list[int] = []
        """Times of frames that the kernel dropped."""
        self._released = False

    def run(self, prepared: Callable[[], None] = lambda: None) -> None:
        """Send the storm to its end; ``prepared`` is called before the first frame."""
        hold = self._stream.segments[0]
        count = -(-hold.until_ns // hold.interval_ns)
        prepared()
        self._start_ns = time.clock_gettime_ns(self._clock) + _LEAD_NS
        while self._handed < count:
            self._check()
            until_ns = time.clock_gettime_ns(self._clock) - self._start_ns + AHEAD_NS
            while self._handed < count and self._handed * hold.interval_ns < until_ns:
                self._send(hold.frames[0], self._handed * hold.interval_ns)
                self._handed += 1
            self._take_errors()
            time.sleep(_ROUND_S)
        self.release()

    def release(self) -> None:
        """Send the frame that ends the storm after the last renewal, and wait until all frames are sent."""
        hold, *rest = self._stream.segments
        end_ns = min(self._handed * hold.interval_ns, hold.until_ns)
        if rest and self._handed and not self._released:
            self._send(rest[0].frames[0], end_ns)
            self._released = True
        left_ns = self._start_ns + end_ns - time.clock_gettime_ns(self._clock)
        time.sleep(max(0, left_ns) / NS_PER_S + _ROUND_S)
        self._take_errors()

    def _send(self, octets: bytes, due_ns: int) -> None:
        at = struct.pack("=Q", self._start_ns + due_ns)
        self._socket.socket.sendmsg([octets], [(socket.SOL_SOCKET, _SCM_TXTIME, at)])

    def _take_errors(self) -> None:
        """Read the times of frames that the kernel reports as late."""
        while True:
            try:
                flags = socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT
                _, ancillary, _, _ = self._socket.socket.recvmsg(0, _ANCILLARY_OCTETS, flags)
            except BlockingIOError:
                return
            self._missed += missed_times(ancillary)

    @property
    def sent(self) -> int:
        """Number of frames that the kernel has accepted and not dropped."""
        return self._handed + self._released - len(self._missed)

    def steals(self) -> Int64:
        """Return no times, because no thread of this process keeps the times."""
        return np.zeros((0, 2), np.int64)

    def report(self) -> StreamsReport:
        """Return the report of the frames that the kernel has accepted and not dropped.

        There are no gaps if the kernel reports no late frames.
        """
        hold = self._stream.segments[0]
        missed = sorted((time_ns - self._start_ns) // hold.interval_ns for time_ns in self._missed)
        runs = [
            (1 + sum(1 for _ in group)) * hold.interval_ns
            for _, group in groupby(enumerate(missed), lambda pair: pair[1] - pair[0])
        ]
        longer = [gap_ns - hold.limit_ns for gap_ns in runs if gap_ns > hold.limit_ns]
        stream = StreamReport(
            name=self._stream.name, interface=self._stream.interface, frames=self.sent,
            octets=self.sent * len(hold.frames[0]), failed=0,
            duration_ns=max(0, self._handed - (not self._released)) * hold.interval_ns,
            released=self._released,
            gaps=GapCounts(
                limit_ns=hold.limit_ns, longest_ns=max(runs, default=hold.interval_ns), longer=len(longer),
                excess_ns=sum(longer), skipped=len(missed),
            ),
        )  # fmt: skip
        jitter = Jitter(p50_ns=0, p99_ns=0, max_ns=0)
        return StreamsReport(streams=(stream,), jitter=jitter, processors=(), kept_by=self._kind)


def missed_times(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """Return the times of late frames from messages of the error queue (struct sock_extended_err)."""
    results = []
    for _, _, data in ancillary:
        if len(data) >= _EXTENDED_ERROR.size:
            _, origin, _, _, low, high = _EXTENDED_ERROR.unpack_from(data)
            if origin == _ORIGIN_TXTIME:
                results.append(high << 32 | low)
    return results
