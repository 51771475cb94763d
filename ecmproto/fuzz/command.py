"""A program under test: run on a file, watched, and its end told apart into fine and the ways of failing.

It gets the file by its name where its words have ``{}``, else as standard input.  What it prints is read, so
that it never waits for its reader, and a bounded part of it is kept.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Literal, TypeAlias

from ecmproto.errors import ParameterError
from ecmproto.fuzz.symptoms import signature_of
from ecmproto.fuzz.watching import Over, Watched

Kind: TypeAlias = Literal["fine", "crash", "report", "exit", "hang", "memory", "difference", "silence"]
"""``crash``: ended by a signal; ``report``: a sanitizer's report or a traceback; ``exit``: a status that was
said to be a failure; ``hang``: over its time; ``memory``: over its memory; ``difference``: two views of the
same octets disagree; ``silence``: a device gave no sign of life."""

PLACE = "{}"
DEFAULT_SECONDS = 5.0
DEFAULT_MEMORY_OCTETS = 1 << 30

_SHELL = 128
"""What a shell adds to the signal that ended the program it ran."""
_CRASHES = (
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP,
    signal.SIGXFSZ,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.  Failures with one ``signature`` are taken for one defect."""

    kind: Kind
    signature: str
    status: int
    """Exit status; below 0 the number of the signal that ended it."""
    seconds: float
    output: str
    """What it printed: of much the last, and what stands behind the first sign of a failure."""
    processor_s: float = dataclasses.field(default=0.0, compare=False)
    """Processor time that it took; not kept with a finding."""

    @property
    def failed(self) -> bool:
        """Whether this is what one looks for."""
        return self.kind != "fine"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its limits.  ``failing`` are exit statuses that count as failures.

    Memory is what is resident, of it and of what it starts; a program with a sanitizer has far more addresses
    than it uses.
    """

    words: tuple[str, ...]
    seconds: float = DEFAULT_SECONDS
    memory_octets: int = DEFAULT_MEMORY_OCTETS
    failing: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not self.words:
            raise ParameterError(name="command", needed="a program and its arguments", got="nothing")

    def run(self, path: Path, *, stop: threading.Event | None = None) -> Outcome:
        """Run it on a file; it is ended once ``stop`` is set.  ParameterError if it cannot be started."""
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
            watched = Watched(process, seconds=self.seconds, memory_octets=self.memory_octets)
            over = watched.until_ended(stop)
        output = watched.printed
        kind, signature = self._judged(over, process.returncode, output)
        return Outcome(
            kind=kind,
            signature=signature,
            status=process.returncode,
            seconds=time.monotonic() - start,
            output=output,
            processor_s=watched.processor_s,
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
