"""Execution of a program under test with a file, and classification of its exit status and output.

The file name replaces ``{}`` in the arguments of the program. Without ``{}``, the file is the standard input.
The output is read continuously, so the program never blocks on output. A limited part of the output is
stored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ecmproto.errors import ParameterError

Kind: TypeAlias = Literal["fine", "crash", "report", "exit", "hang", "memory", "difference", "silence"]
"""Kind of an outcome.

- ``fine``: no failure
- ``crash``: a signal ended the program
- ``report``: a sanitizer report or a traceback
- ``exit``: an exit status that counts as a failure
- ``hang``: the time limit was exceeded
- ``memory``: the memory limit was exceeded
- ``difference``: two views of the same octets differ
- ``silence``: a device sends no heartbeats
"""

PLACE = "{}"
DEFAULT_SECONDS = 5.0
DEFAULT_MEMORY_OCTETS = 1 << 30

_SHELL = 128
"""Offset that a shell adds to the number of the signal that ended a program."""
_CRASHES = (
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP,
    signal.SIGXFSZ,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """The outcome of a run.  Failures with equal ``signature`` count as one defect."""

    kind: Kind
    signature: str
    status: int = 0
    """Exit status, or the negative number of the signal that ended the program."""
    seconds: float = 0.0
    output: str
    """The end of the output, and the part after the first sign of a failure."""
    processor_s: float = dataclasses.field(default=0.0, compare=False)
    """Processor time of the run in seconds, which is not stored with a finding."""
    peak_octets: int = dataclasses.field(default=0, compare=False)
    """Peak resident memory in octets, or 0 if not `Command.measured`; not stored with a finding."""

    @property
    def failed(self) -> bool:
        """Whether the run is a finding."""
        return self.kind != "fine"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its limits. ``failing`` contains the exit statuses that count as failures.

    The memory limit applies to the resident memory of the program and its children. The address space is not
    limited, because a program with a sanitizer reserves much more memory than it uses.
    """

    arguments: tuple[str, ...]
    seconds: float = DEFAULT_SECONDS
    memory_octets: int = DEFAULT_MEMORY_OCTETS
    failing: frozenset[int] = frozenset()
    measured: bool = False
    """Whether the peak memory of each run is measured.

    A small process starts the measured program, because the peak memory of a process includes the memory of
    its parent. Sampling is not sufficient, because a process can end between two samples.
    """

    def __post_init__(self) -> None:
        if not self.arguments:
            raise ParameterError(name="command", needed="a program and its arguments", got="nothing")

    def run(self, path: Path, *, stop: threading.Event | None = None) -> CaseOutcome:
        """Run the program with a file, and end the program early if ``stop`` is set.

        Raises ParameterError if the program cannot be started.
        """
        arguments = [word.replace(PLACE, os.fspath(path)) for word in self.arguments]
        program = shutil.which(arguments[0])
        if program is None or not _has_known_format(program):
            needed = "a program, or a script with #!"
            raise ParameterError(name="command", needed=needed, got=arguments[0])
        if self.measured:
            arguments = [sys.executable, "-I", "-S", "-c", _MEASURE, *arguments]
        start = time.monotonic()
        with path.open("rb") as file:
            process = subprocess.Popen(
                [*_limited(self.seconds), *arguments],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            watched = WatchedProcess(
                process, seconds=self.seconds, memory_octets=self.memory_octets, starts=self.measured
            )
            over = watched.until_ended(stop)
        output, peak_octets = watched.printed, 0
        if self.measured:
            output, peak_octets = _measurement(output)
            over = "memory" if over == "fine" and peak_octets > self.memory_octets else over
        kind, signature = self._judged(over, process.returncode, output)
        return CaseOutcome(
            kind=kind,
            signature=signature,
            status=process.returncode,
            seconds=time.monotonic() - start,
            output=output,
            processor_s=watched.processor_s,
            peak_octets=peak_octets,
        )

    def _judged(self, over: Over, status: int, output: str) -> tuple[Kind, str]:
        if over != "fine":
            return over, over
        signature = signature_of(output)
        if status < 0 or status - _SHELL in _CRASHES:
            number = -status if status < 0 else status - _SHELL
            return "crash", f"{signal.Signals(number).name} {signature}".rstrip()
        if signature:
            return "report", signature
        return ("exit", f"exit status {status}") if status in self.failing else ("fine", "")


_PEAK = "ecmproto: peak of "
_MEASURE = f"""import os, signal, sys
ignored_here = signal.SIGPIPE, signal.SIGXFSZ
program = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, setsigdef=ignored_here)
status, usage = os.wait4(program, 0)[1:]
os.write(1, b"\\n{_PEAK}%d KiB" % usage.ru_maxrss)
code = os.waitstatus_to_exitcode(status)
if code < 0:
    code == -signal.SIGKILL or signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""Python script that runs a program, prints the peak memory, and exits with the program's status."""


def _measurement(output: str) -> tuple[str, int]:
    """Return the output of a measured program without its last line, and the memory from the last line."""
    printed, marker, peak = output.rpartition(f"\n{_PEAK}")
    return (printed, int(peak.split()[0]) * _KIB) if marker else (output, 0)


Over: TypeAlias = Literal["fine", "hang", "memory"]
"""The limit that a process exceeded."""

FILE_OCTETS = 1 << 28
"""Maximum size of files that a program writes, in octets. Core files are disabled."""

_WATCH_S = 0.02
_PIECE_OCTETS = 1 << 16
_FULL_OCTETS = _PIECE_OCTETS // 2
_LEFT_PIECES = 16
"""Maximum number of output pieces that are read after the program has ended."""
_PATIENCE = 10
"""Maximum run time as a multiple of the time limit, even on a busy system."""
_IDLE_LOOKS = 5
_PAGE_OCTETS = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


class WatchedProcess:
    """A process that is the leader of a session, and its children in this session.

    When the process ends, the whole process group is killed. ``printed`` is the output of the process. With
    ``starts``, the memory of the process is not counted, because the process only starts another process.
    Before a new process runs another program, the process appears to be as large as the current process.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], *, seconds: float, memory_octets: int, starts: bool = False
    ) -> None:
        self._starts = starts
        self._process = process
        self._start = time.monotonic()
        self._idle = 0
        self._processor_s = 0.0
        self._seconds = seconds
        self._memory_octets = memory_octets
        self._peak_octets = 0
        self._printed = BoundedOutput()

    @property
    def printed(self) -> str:
        """The stored output."""
        return self._printed.text

    @property
    def processor_s(self) -> float:
        """The used processor time in seconds, without children that the process did not wait for."""
        return self._processor_s

    def until_ended(self, stop: threading.Event | None = None) -> Over:
        """Wait until the process ends. The process is killed if it exceeds a limit or if ``stop`` is set."""
        over: Over = "fine"
        with self._process:
            while over == "fine" and not self._ended() and not (stop and stop.is_set()):
                self._read(_WATCH_S)
                over = self._exceeded()
            # children must not run longer than the process
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for _ in range(_LEFT_PIECES):
                if not self._read(0):
                    break
        return "memory" if over == "fine" and self._swelled() else over

    def _read(self, seconds: float) -> bool:
        """Read a piece of output that arrives within ``seconds``, and return whether output was received."""
        output = self._process.stdout
        assert output is not None
        if output.closed:
            # a process can close its output and continue
            time.sleep(seconds)
            return False
        ready, _, _ = select.select([output], [], [], seconds)
        if not ready:
            return False
        piece = os.read(output.fileno(), _PIECE_OCTETS)
        self._printed.add(piece)
        if len(piece) > _FULL_OCTETS:
            # the process waits until its output is read
            self._idle = 0
        if not piece:
            output.close()
            # most processes close their output at exit: wait briefly for the exit
            pause = seconds / 64
            while pause < seconds and not self._ended():
                time.sleep(pause)
                pause *= 2
        return bool(piece)

    def _ended(self) -> bool:
        """Return whether the process has ended, and note its memory and processor time."""
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
        resident_octets = sum(
            _own_octets(each) for each in islice(_family(str(self._process.pid)), int(self._starts), None)
        )
        return "memory" if resident_octets > self._memory_octets else "fine"

    def _had_its_time(self) -> bool:
        """Return whether the process used its processor time or is idle.

        A process that waits for a busy processor does not exceed its time limit.
        """
        activities = [_activity(pid) for pid in _family(str(self._process.pid))]
        self._idle = 0 if any(activity.runs for activity in activities) else self._idle + 1
        processor_s = sum(activity.processor_s for activity in activities)
        return processor_s >= self._seconds or self._idle >= _IDLE_LOOKS

    def _swelled(self) -> bool:
        """Return whether the memory of the process exceeded the limit between two samples."""
        # ru_maxrss of a process includes the memory of its parent at the start
        born = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
        return self._peak_octets > max(self._memory_octets, born)


_FORMATS = (b"#!", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
"""The first octets of scripts, and of programs for Linux, macOS and Windows."""


def _has_known_format(program: str) -> bool:
    """Return whether a file is a program. A shell would run any other file as a shell script."""
    try:
        with open(program, "rb") as file:
            return file.read(4).startswith(_FORMATS)
    except OSError:  # a program can be executable without being readable
        return True


def _limited(seconds: float) -> tuple[str, ...]:
    """Return the command that limits the file size and processor time of a program, which follows.

    The limits apply from the start of the program, and also if the current process ends early.
    """
    processor_s = math.ceil(seconds + 1) * (os.cpu_count() or 1)
    blocks = FILE_OCTETS // 512  # the unit in POSIX
    return "sh", "-c", f'ulimit -c 0; ulimit -f {blocks}; ulimit -t {processor_s}; exec "$@"', "sh"


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
    """Whether the process runs or is ready to run."""
    processor_s: float


def _activity(pid: str) -> _Activity:
    """Return the state and processor time of a process, or idle and 0 if the system does not report them."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        # the program name can contain spaces, so fields are counted after the name
        state, *fields = text.rpartition(")")[2].split()
        return _Activity(state in "RD", (int(fields[10]) + int(fields[11])) / _TICKS_PER_S)
    except (OSError, ValueError, IndexError):
        return _Activity(False, 0.0)


TAIL_OCTETS = 1 << 16
SIGN_OCTETS = 1 << 14
_LONGEST_LINE = 1 << 10
"""Maximum number of octets before a sign in which the start of the line is searched."""
_LEFT_OUT = b"\n[...]\n"


class BoundedOutput:
    """A limited part of the output of a program. The output arrives in pieces."""

    def __init__(self) -> None:
        self._tail = b""
        self._sign = b""
        self._octets = 0
        self._since = 0
        """Number of output octets before the line that contains the sign."""

    def add(self, piece: bytes) -> None:
        """Add the next piece of output."""
        if not self._sign:
            self._look(self._tail[-_LONGEST_LINE:], piece)
        elif len(self._sign) < SIGN_OCTETS:
            self._sign += piece
        self._octets += len(piece)
        self._tail = (self._tail + piece)[-TAIL_OCTETS:]

    def _look(self, before: bytes, piece: bytes) -> None:
        """Search for the first sign of a failure, and store the output from this sign.

        The sign can be split across two pieces.
        """
        window = before + piece
        results = [position for position in map(window.find, SIGNS) if position >= 0]
        if results:
            start = window.rfind(b"\n", 0, min(results)) + 1
            self._sign = window[start:]
            self._since = self._octets - len(before) + start

    @property
    def text(self) -> str:
        """The stored output in order, with a mark in place of omitted output."""
        head, lost = self._sign[:SIGN_OCTETS], self._octets - len(self._tail)
        remaining = self._tail
        if head and self._since < lost:
            met = self._since + len(head) - lost
            remaining = head + (remaining[met:] if met >= 0 else _LEFT_OUT + remaining)
        return remaining.decode("utf-8", errors="replace")


SIGNS = (
    b"Sanitizer: ", b": runtime error: ", b"Traceback (most recent call last)", b"Fatal Python error: ",
    b"Assertion `", b"Assertion failed", b"assertion failed", b"-CRITICAL **", b"panicked at ", b"panic: ",
    b"Dissector bug, ", b"Lua Error: ",
)  # fmt: skip
"""The first words of failure reports."""
_SIGNS = tuple(sign.decode() for sign in SIGNS)

_SANITIZER = re.compile(r"(?:ERROR|WARNING): (\w+Sanitizer): (.+?)(?= on |: 0x| \(|\n|$)")
_UNDEFINED = re.compile(r"^(\S+:\d+:\d+): runtime error: (.+)$", re.MULTILINE)
_SANITIZER_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ +(\S.*)$", re.MULTILINE)
_LINE = re.compile(r"[^/]+:\d+(?::\d+)?")
_OFFSET = re.compile(r"\(([^()\s]+\+0x[0-9a-f]+)\)")
_ANYWHERE = re.compile(r"stack-overflow")
"""Errors whose innermost function depends on the free stack size."""
_RUNTIME = re.compile(r"(?:__interceptor_|__asan_|__sanitizer_|__interceptor|mem\w{3,4}$|malloc$|calloc$)")
_FRAMES = 3
_PLACED_FRAMES = 2
"""Number of innermost stack frames whose line is part of the signature.

The innermost frame can be a helper that the defective function calls.
"""

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
_TRACEBACK_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)$', re.MULTILINE)
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning))\b", re.MULTILINE)
_RAISED = re.compile(r"(?:\n[ \t].*)*\n([A-Za-z_][\w.]*)(?=:|$)", re.MULTILINE)
"""The exception after the last stack frame and source line of a traceback, with any name."""
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_FATAL_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)$', re.MULTILINE)
_PYTEST = re.compile(r"^(\S+\.py):(\d+): ([A-Za-z_][\w.]*)$", re.MULTILINE)

_DISSECTOR = re.compile(r"Dissector bug, protocol ([^:,\n]+)(?:, in packet \d+)?: ([^\]\n]*)")
_LUA = re.compile(r"Lua Error: ([^\]\n]+)")
_GLIB = re.compile(
    r"ERROR:(\S{1,200}:\d+:\w+): (assertion failed.*)|(\w{1,40})-CRITICAL \*\*.*?: (\w+: assertion .* failed)"
)
_ASSERTION = re.compile(r"[\w./+-]{1,200}:\d+: .*Assertion .* failed|[Aa]ssertion failed.*")
_RUST = re.compile(r"panicked at (.*)")
_RUST_LOCATION = re.compile(r"[\w./\\-]+\.rs:\d+:\d+")
_GO = re.compile(r"^panic: (.+)$", re.MULTILINE)
_GO_FUNCTION = re.compile(r"^goroutine \d+ \[running\]:\n(?:panic\(.*\n\t.*\n)?(\S+)\(.*\)$", re.MULTILINE)

_LOCATION = re.compile(r"^\S+:\d+(?=: )")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_LONGEST = 240


def signature_of(output: str) -> str:
    """Return the signature of the failure in the output of a program, or "" if there is no failure.

    A signature is a sanitizer error with its innermost functions and lines, a Python exception with its
    innermost line, a failed assertion, or a panic.
    """
    # most output contains no failure, so searching for signs first is faster
    signatures = _SIGNATURES if any(sign in output for sign in _SIGNS) else (_pytest,)
    return next(filter(None, (signature_in(output) for signature_in in signatures)), "")[:_LONGEST]


def _sanitizer(output: str) -> str:
    match = _SANITIZER.search(output)
    if match:
        name, error = match.groups()
        placed = not _ANYWHERE.search(error)
        return " ".join([name, _same(error), *_functions(output, match.end(), placed=placed)])
    match = _UNDEFINED.search(output)
    if match:
        location, what = match.groups()
        return " ".join([f"{location}: {_same(what)}", *_functions(output, match.end(), placed=False)])
    return ""


def _functions(output: str, start: int, *, placed: bool = True) -> list[str]:
    """Return the innermost functions of a report, without functions of the sanitizer.

    With ``placed``, the first functions are shown with a line.
    """
    texts: list[str] = []
    for frame in _SANITIZER_FRAME.findall(output, start):
        parts = frame.split()
        name = parts[1] if parts[0] == "in" and len(parts) > 1 else ""
        if not _RUNTIME.match(name):
            location = _location(frame, parts[-1])
            shown = name and location and placed and len(texts) < _PLACED_FRAMES
            texts.append(f"{name} ({location})" if shown else name or location)
    return texts[:_FRAMES]


def _location(frame: str, last: str) -> str:
    """Return the source line of a stack frame, or its offset in the program."""
    base = last.rpartition("/")[2]
    if _LINE.fullmatch(base):
        return base
    offset = _OFFSET.search(frame)
    return offset[1].rpartition("/")[2] if offset else ""


def _python(output: str) -> str:
    if _TRACEBACK.search(output):
        frames = [*_TRACEBACK_FRAME.finditer(output)]
        raised = _RAISED.match(output, frames[-1].end()) if frames else None
        exceptions = [raised[1]] if raised else _EXCEPTION.findall(output)
        name = exceptions[-1] if exceptions else "exception"
        return f"{name} in {_within(*frames[-1].groups()) if frames else 'nowhere'}"
    fatal = _FATAL.search(output)
    if fatal:
        frame = _FATAL_FRAME.search(output, fatal.end())
        return f"{fatal[1]} in {_within(*frame.groups())}" if frame else fatal[1]
    return ""


def _pytest(output: str) -> str:
    lines = _PYTEST.findall(output)
    if lines:
        file, line, name = lines[-1]
        return f"{name} in {file.rpartition('/')[2]}:{line}"
    return ""


def _within(file: str, line: str, function: str) -> str:
    return f"{function} ({file.rpartition('/')[2]}:{line})"


def _tshark(output: str) -> str:
    match = _DISSECTOR.search(output)
    if match:
        protocol, what = match.groups()
        location = _LOCATION.search(what)
        return f"Dissector bug, protocol {protocol}: {location[0] if location else _same(what)}"
    match = _LUA.search(output)
    return f"Lua Error: {match[1]}" if match else ""


def _assertion(output: str) -> str:
    match = _GLIB.search(output)
    if match:
        location, what = match[1] or match[3], match[2] or match[4]
        return f"{location}: {_same(what)}"
    match = _ASSERTION.search(output)
    return match[0] if match else ""


def _panic(output: str) -> str:
    match = _RUST.search(output)
    if match:
        location = _RUST_LOCATION.search(match[1])
        return f"panicked at {location[0] if location else _same(match[1])}"
    match = _GO.search(output)
    if match:
        function = _GO_FUNCTION.search(output, match.end())
        return f"panic: {_same(match[1])}" + (f" in {function[1]}" if function else "")
    return ""


def _same(what: str) -> str:
    """Return a message in which numbers are replaced, because numbers differ between cases."""
    return _NUMBER.sub("N", what)


_SIGNATURES: tuple[Callable[[str], str], ...] = (_sanitizer, _python, _pytest, _tshark, _assertion, _panic)
