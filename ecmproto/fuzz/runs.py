"""Runs of a program, several at once and the next prepared meanwhile; they are judged in their order."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from ecmproto.fuzz.command import Command, Outcome
from ecmproto.fuzz.feed import Trial

MOST_JOBS = 256
FIRST_FRAMES = 64
MOST_FRAMES = 8192
_QUICK_S = 0.5
_QUICK_OF_LIMIT = 4
_STARTS = 2
"""A run may take so many times as long as the program takes to start."""


class Runs:
    """Runs a program on one trial after another, ``jobs`` at once; leaving ends those that still run."""

    def __init__(self, command: Command, upcoming: Callable[[], Trial], *, jobs: int = 1) -> None:
        self._command = command
        self._upcoming = upcoming
        self._jobs = jobs
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(jobs)
        self._folder = TemporaryDirectory()
        self._started: deque[tuple[Trial, Future[Outcome]]] = deque()
        self._number = 0

    def __enter__(self) -> Runs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._threads.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def next(self) -> tuple[Trial, Outcome]:
        """Return the next trial and how it ended; ParameterError where the program cannot be started."""
        # one more than run at once, so that a capture is made while programs read others
        while len(self._started) <= self._jobs:
            self._start(self._upcoming())
        trial, ending = self._started.popleft()
        return trial, ending.result()

    def _start(self, trial: Trial) -> None:
        path = Path(self._folder.name) / f"{self._number}-{trial.file}"
        self._number += 1
        trial.write(path)
        self._started.append((trial, self._threads.submit(self._run, path)))

    def _run(self, path: Path) -> Outcome:
        try:
            return self._command.run(path, stop=self._stop)
        finally:
            path.unlink()


class RunFrames:
    """How many frames a run gets: starting a program takes longer than reading a frame.

    So many that most of a run is reading while it stays quick, and half as many after a failure: behind it
    nothing may have been read.
    """

    def __init__(self, fixed: int | None, limit_s: float) -> None:
        self._fixed = fixed is not None
        self.count = FIRST_FRAMES if fixed is None else fixed
        self._limit_s = limit_s
        self._start_s = math.inf

    def took(self, frames: int, outcome: Outcome) -> None:
        """Take note of a run of so many frames."""
        if self._fixed:
            return
        # what it took itself: on a busy machine all runs are long
        self._start_s = min(self._start_s, outcome.processor_s)
        quick_s = min(max(_QUICK_S, _STARTS * self._start_s), self._limit_s / _QUICK_OF_LIMIT)
        if outcome.failed:
            self.count = max(1, min(self.count, frames) // 2)
        elif outcome.processor_s > 2 * quick_s:
            self.count = max(min(self.count, FIRST_FRAMES), self.count // 2)
        elif outcome.processor_s < quick_s and outcome.seconds < self._limit_s / 2 and frames >= self.count:
            self.count = min(MOST_FRAMES, 2 * self.count)
