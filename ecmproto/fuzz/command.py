"""A program under test: run on a file, watched, and its end told apart into fine and the ways of failing.

It gets the file by its name where its words have ``{}``, else as standard input.  What it prints is read, so
that it never waits for its reader, and the last of it is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path
from typing import Literal, TypeAlias

from ecmproto.errors import ParameterError
from ecmproto.fuzz.symptoms import signature_of

Kind: TypeAlias = Literal["fine", "crash", "report", "exit", "hang", "memory", "difference", "silence"]
"""``crash``: ended by a signal; ``report``: a sanitizer's report or a traceback; ``exit``: a status that was
said to be a failure; ``hang``: over its time; ``memory``: over its memory; ``difference``: two views of the
same octets disagree; ``silence``: a device gave no sign of life."""

PLACE = "{}"
DEFAULT_SECONDS = 5.0
DEFAULT_MEMORY_OCTETS = 1 << 30

_SHELL = 128
"""What a shell adds to the signal that ended the program it ran."""
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP)

_WATCH_S = 0.02
_KEPT_OCTETS = 1 << 16
_PAGE_OCTETS = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.  Failures with one ``signature`` are taken for one defect."""

    kind: Kind
    signature: str
    status: int
    """Exit status; below 0 the number of the signal that ended it."""
    seconds: float
    output: str
    """The last of what it printed."""

    @property
    def failed(self) -> bool:
        """Whether this is what one looks for."""
        return self.kind != "fine"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its limits.  ``failing`` are exit statuses that count as failures.

    Memory is what is resident; a program with a sanitizer has far more addresses than it uses.
    """

    words: tuple[str, ...]
    seconds: float = DEFAULT_SECONDS
    memory_octets: int = DEFAULT_MEMORY_OCTETS
    failing: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not self.words:
            raise ParameterError(name="command", needed="a program and its arguments", got="nothing")

    def run(self, path: Path) -> Outcome:
        """Run it on a file; ParameterError if it cannot be started."""
        words = [word.replace(PLACE, os.fspath(path)) for word in self.words]
        start = time.monotonic()
        with path.open("rb") as file:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ParameterError(
                    name="command", needed="a program that can be run", got=f"{words[0]}: {error.strerror}"
                ) from error
            over, output = self._watched(process, start + self.seconds)
        kind, signature = self._judged(over, process.returncode, output)
        return Outcome(
            kind=kind,
            signature=signature,
            status=process.returncode,
            seconds=time.monotonic() - start,
            output=output,
        )

    def _watched(self, process: subprocess.Popen[bytes], deadline: float) -> tuple[Kind, str]:
        """Read what a process prints until it ends or is ended; return why that was, and the last of it."""
        assert process.stdout is not None
        kept = bytearray()
        over: Kind = "fine"
        with process, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while over == "fine":
                ended = process.poll() is not None
                part = os.read(process.stdout.fileno(), _KEPT_OCTETS) if selector.select(_WATCH_S) else None
                kept = (kept + (part or b""))[-_KEPT_OCTETS:]
                # one that closed its output may go on; one that ended may leave its output to others
                if ended and not part:
                    break
                if part == b"":
                    time.sleep(_WATCH_S)
                over = self._exceeded(process.pid, deadline)
            # what it started in turn is not to outlive it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return over, kept.decode("utf-8", errors="replace")

    def _exceeded(self, pid: int, deadline: float) -> Kind:
        if time.monotonic() > deadline:
            return "hang"
        return "memory" if _resident_octets(pid) > self.memory_octets else "fine"

    def _judged(self, over: Kind, status: int, output: str) -> tuple[Kind, str]:
        if over != "fine":
            return over, over
        signature = signature_of(output)
        if status < 0 or status - _SHELL in _CRASHES:
            number = -status if status < 0 else status - _SHELL
            return "crash", f"{signal.Signals(number).name} {signature}".rstrip()
        if signature:
            return "report", signature
        return ("exit", f"exit status {status}") if status in self.failing else ("fine", "")


def _resident_octets(pid: int) -> int:
    """Return what a process has in memory; 0 once it has ended, and where there is no /proc."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_OCTETS
    except (OSError, IndexError):
        return 0
