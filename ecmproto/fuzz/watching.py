"""A process watched until it ends, or has to be ended: its time, its memory, what it prints."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ecmproto.fuzz.printed import Printed

Over: TypeAlias = Literal["fine", "hang", "memory"]
"""Which limit a process went over."""

FILE_OCTETS = 1 << 28
"""No file that a program writes may be longer; its cores are not written at all."""

_WATCH_S = 0.02
_PIECE_OCTETS = 1 << 16
_FULL_OCTETS = _PIECE_OCTETS // 2
_LEFT_PIECES = 16
"""So much is still read of what stands in the pipe when the program has ended."""
_PATIENCE = 10
"""How many times as long as it may a program takes at most, however busy the machine is."""
_IDLE_LOOKS = 5
_PAGE_OCTETS = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


class Watched:
    """A process that leads a session, and all that it starts there.

    At the end everything in its process group is killed; what it printed is in ``printed``.
    """

    def __init__(self, process: subprocess.Popen[bytes], *, seconds: float, memory_octets: int) -> None:
        self._process = process
        self._start = time.monotonic()
        self._idle = 0
        self._processor_s = 0.0
        self._seconds = seconds
        self._memory_octets = memory_octets
        self._peak_octets = 0
        self._printed = Printed()
        _limit(process.pid, seconds)

    @property
    def printed(self) -> str:
        """What was kept of its output."""
        return self._printed.text

    @property
    def processor_s(self) -> float:
        """Processor time that it took; that of a process which was not waited for does not count."""
        return self._processor_s

    def until_ended(self, stop: threading.Event | None = None) -> Over:
        """Wait for its end; end it where it takes too much, or once ``stop`` is set."""
        over: Over = "fine"
        with self._process:
            while over == "fine" and not self._ended() and not (stop and stop.is_set()):
                self._read(_WATCH_S)
                over = self._exceeded()
            # what it started in turn is not to outlive it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for _ in range(_LEFT_PIECES):
                if not self._read(0):
                    break
        return "memory" if over == "fine" and self._swelled() else over

    def _read(self, seconds: float) -> bool:
        """Read a piece of output that comes within some time; return whether there was one."""
        output = self._process.stdout
        assert output is not None
        if output.closed:
            # one that closed its output may go on
            time.sleep(seconds)
            return False
        ready, _, _ = select.select([output], [], [], seconds)
        if not ready:
            return False
        piece = os.read(output.fileno(), _PIECE_OCTETS)
        self._printed.add(piece)
        if len(piece) > _FULL_OCTETS:
            # it waits for its reader
            self._idle = 0
        if not piece:
            output.close()
            self._ended_soon(seconds)
        return bool(piece)

    def _ended_soon(self, seconds: float) -> None:
        """Wait a little for one that closed its output: most do so when they end."""
        pause = seconds / 64
        while pause < seconds and not self._ended():
            time.sleep(pause)
            pause *= 2

    def _ended(self) -> bool:
        """Return whether it ended, and how much memory it had taken then."""
        if self._process.returncode is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if not pid:
                return False
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._peak_octets = usage.ru_maxrss * _KIB
            self._processor_s = usage.ru_utime + usage.ru_stime
        return True

    def _exceeded(self) -> Over:
        passed = time.monotonic() - self._start
        if passed > self._seconds and (passed > _PATIENCE * self._seconds or self._had_its_time()):
            return "hang"
        return "memory" if _resident_octets(self._process.pid) > self._memory_octets else "fine"

    def _had_its_time(self) -> bool:
        """Return whether it ran for as long as it may, or waits: a busy machine is not its fault."""
        activities = [_activity(pid) for pid in _family(str(self._process.pid))]
        self._idle = 0 if any(activity.runs for activity in activities) else self._idle + 1
        processor_s = sum(activity.processor_s for activity in activities)
        return processor_s >= self._seconds or self._idle >= _IDLE_LOOKS

    def _swelled(self) -> bool:
        """Return whether it had too much memory between two looks at it."""
        # a process is born with the memory of the one that starts it, which counts as its own
        born = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
        return self._peak_octets > max(self._memory_octets, born)


def _limit(pid: int, seconds: float) -> None:
    """Bound what a process may write, and its processor time, should nobody be left to watch it."""
    processor_s = math.ceil(seconds + 1) * (os.cpu_count() or 1)
    limits = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_OCTETS),
        (resource.RLIMIT_CPU, processor_s),
    )
    # it may have ended, or be somebody else's by now
    with contextlib.suppress(OSError):
        for which, most in limits:
            resource.prlimit(pid, which, (most, most))


def _resident_octets(pid: int) -> int:
    """Return what a process and those that it started have in memory; 0 where there is no /proc."""
    return sum(_own_octets(each) for each in _family(str(pid)))


def _family(pid: str) -> Iterator[str]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text(encoding="ascii").split():
                yield from _family(child)


def _own_octets(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_OCTETS
    except (OSError, IndexError):
        return 0


class _Activity(NamedTuple):
    runs: bool
    """Whether it runs, or would if it could."""
    processor_s: float


def _activity(pid: str) -> _Activity:
    """Return what a process is at; that of one which ended where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        # a program may have any name, so fields count from behind it
        state, *fields = text.rpartition(")")[2].split()
        return _Activity(state in "RD", (int(fields[10]) + int(fields[11])) / _TICKS_PER_S)
    except (OSError, ValueError, IndexError):
        return _Activity(False, 0.0)
