"""A coverage-guided campaign, which restarts the atheris process if the process ends early.

>>> campaign = GuidedCampaign("columns", Path("campaign"), seed=7)
>>> for finding in campaign.run(lambda progress: progress.seconds < 600):
...     print(finding.outcome.signature)
>>> campaign.coverage.edges
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from ecmproto.errors import MissingDependencyError, OutputError
from ecmproto.tools.fuzz.command import CaseOutcome, Kind
from ecmproto.tools.fuzz.findings import Campaign, CampaignState, Finding, Progress, findings_in
from ecmproto.tools.fuzz.guided import harness
from ecmproto.tools.fuzz.guided.targets import PLAIN, committed_inputs, find_target, line_of, write_folder
from ecmproto.tools.fuzz.subjects import SUBJECTS

_LINE = re.compile(r"^#(\d+)\s.*?cov: (\d+) ft: \d+ corp: (\d+)/")
_TOTAL = re.compile(r"^stat::number_of_executed_units:\s+(\d+)")
_READ_WAIT_S = 0.2
_PIECE_OCTETS = 1 << 16
_MAX_LINES = 60


@dataclasses.dataclass(slots=True, kw_only=True)
class Coverage:
    """Coverage of the instrumented code."""

    first_edges: int = 0
    """Number of edges that the initial inputs reached."""
    edges: int = 0
    inputs: int = 0
    """Number of stored inputs. Each stored input adds coverage."""


class AtherisLog:
    """Log of an atheris process, which copies the output to a file and extracts statistics."""

    def __init__(self, path: Path, coverage: Coverage) -> None:
        self.path = path
        self.executions: int = 0
        self._coverage = coverage
        self._lines: list[str] = []
        self._unfinished = b""
        path.write_bytes(b"")

    @property
    def last(self) -> str:
        """The last lines of the process output."""
        return "\n".join(self._lines) + "\n"

    def read(self, process: subprocess.Popen[bytes]) -> bool:
        """Read the available output after a short wait, and return whether more output can follow."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(_READ_WAIT_S):
                return True
        piece = os.read(process.stdout.fileno(), _PIECE_OCTETS)
        with self.path.open("ab") as file:
            file.write(piece)
        *lines, self._unfinished = (self._unfinished + piece).split(b"\n")
        for line in lines:
            self._line(line.decode("utf-8", errors="replace"))
        return bool(piece)

    def _line(self, line: str) -> None:
        self._lines = [*self._lines, line][-_MAX_LINES:]
        if match := _TOTAL.match(line):
            self.executions = int(match.group(1))
        if match := _LINE.match(line):
            self.executions, edges, inputs = map(int, match.groups())
            self._coverage.first_edges = self._coverage.first_edges or edges
            self._coverage.edges = max(self._coverage.edges, edges)
            self._coverage.inputs = inputs


def require_atheris() -> None:
    """Raise MissingDependencyError if atheris is not installed."""
    if find_spec("atheris") is None:
        raise MissingDependencyError(package="atheris", extra="guided", purpose="coverage-guided fuzzing")


def start_harness(name: str, folder: Path, *, seed: int, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the harness for the target ``name`` and the campaign in ``folder``.

    ``arguments`` are libFuzzer arguments.

    The caller must read the output of the harness from ``stdout``, which includes the standard error output.
    A script that starts the harness is written to the folder. Users and atheris can run the script. atheris
    starts the harness again to merge corpora.
    """
    packages = ",".join(find_target(name).instrumented)
    script = (folder / harness.SCRIPT).absolute()
    command = [sys.executable, "-P", harness.__file__, name, str(script.parent), str(seed), packages]
    script.write_text(f'#!/bin/sh\n{PLAIN} exec {shlex.join(command)} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return subprocess.Popen(
        [script, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


HANG_SECONDS = 60
"""Seconds per input until atheris ends a process that Python cannot interrupt."""
MEMORY_MB = 2_000
"""Memory limit of the whole process in MB."""
_LEFT = {"crash": "crash", "timeout": "hang", "oom": "memory"}
"""Kind of a finding by the prefix of the artifact file that atheris writes."""
_WAIT_S = 20.0
_SEEDS = 1 << 31
"""Upper limit of atheris seeds."""


class GuidedCampaign(Campaign):
    """A coverage-guided campaign for the target ``name``. An earlier campaign in ``folder`` is continued.

    Raises MissingDependencyError if atheris is not installed. Raises ParameterError for a folder with another
    target or seed.
    """

    def __init__(self, name: str, folder: Path, *, seed: int) -> None:
        require_atheris()
        self._name = name
        self._target = find_target(name)
        self._folder = folder
        self._seed = seed
        self._state = CampaignState(folder, seed=seed, corpus=name)
        self.coverage: Coverage = Coverage()
        """Coverage since the campaign was opened."""

    def run(self, going_on: Callable[[Progress], bool], *, max_cases: int | None = None) -> Iterator[Finding]:
        """Run at most ``max_cases`` cases while ``going_on`` returns true, and yield new findings."""
        write_folder(self._corpus, [*committed_inputs(self._name), *self._target.starts()])
        last = None if max_cases is None else self.progress.cases + max_cases
        while going_on(self.progress) and (last is None or self.progress.cases < last):
            with self._state.running():
                yield from self._process(going_on, None if last is None else last - self.progress.cases)

    @property
    def _corpus(self) -> Path:
        return self._folder / "corpus"

    @property
    def _left(self) -> Path:
        return self._folder / "left"

    def _process(self, going_on: Callable[[Progress], bool], max_cases: int | None) -> Iterator[Finding]:
        """Run one atheris process until it ends, and yield new findings."""
        before = self.progress.cases
        self.progress.runs += 1
        self._left.mkdir(exist_ok=True)
        status = AtherisLog(self._folder / "atheris.log", self.coverage)
        stopped = False
        with self._started(max_cases) as process:
            try:
                while status.read(process):
                    self.progress.cases = before + status.executions
                    yield from self._new()
                    if not stopped and not going_on(self.progress):
                        stopped = True
                        process.send_signal(signal.SIGINT)
            finally:
                self.progress.cases = before + status.executions
                _end(process)
        yield from self._new()
        self.progress.index = self.progress.cases
        yield from self._ended(status, process.returncode, stopped=stopped)

    def _new(self) -> Iterator[Finding]:
        """Yield the findings that the process stored since the last call."""
        try:
            findings = findings_in(self._folder / "findings")
        except (OSError, ValueError):
            return  # a finding is currently being written: it is read at the next call
        new = findings.keys() - self._state.findings.keys()
        self._state.findings = findings
        for signature in new:
            self.progress.failures += 1
            yield findings[signature]

    def _started(self, max_cases: int | None) -> subprocess.Popen[bytes]:
        arguments = [
            f"-seed={1 + (self._seed + self.progress.runs) % (_SEEDS - 1)}",
            f"-max_len={self._target.longest_octets}",
            f"-timeout={HANG_SECONDS}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-artifact_prefix={self._left}/",
            "-print_final_stats=1",
            *([] if max_cases is None else [f"-runs={max_cases}"]),
            str(self._corpus),
        ]
        return start_harness(self._name, self._folder, seed=self._seed, arguments=arguments)

    def _ended(self, status: AtherisLog, code: int, *, stopped: bool) -> Iterator[Finding]:
        """Store the inputs that ended a process. Raises OutputError for any other end."""
        paths = sorted(self._left.iterdir())
        for path in paths:
            yield from self._store_input(path, status.last, code)
            path.unlink()
        if code and not paths and not stopped:
            raise OutputError(
                path=str(status.path), needed="a process that fuzzes", got=f"exit status {code}"
            )

    def _store_input(self, path: Path, output: str, code: int) -> Iterator[Finding]:
        """Store an input that ended atheris, and yield the finding.

        The input is not reduced, because running the input could end the current process too.
        """
        kind: Kind = _LEFT.get(path.name.partition("-")[0], "crash")  # type: ignore[assignment]
        outcome = CaseOutcome(kind=kind, signature=f"{self._name}: {kind}", status=code, output=output)
        if self._state.seen(outcome.signature):
            return
        self.progress.failures += 1
        frames = tuple(self._target.items(path.read_bytes()))
        finding = Finding(frames=frames, outcome=outcome, seed=self._seed, index=self.progress.cases)
        self._state.keep(finding, line_of(self._target), name=SUBJECTS[self._target.subject].file)
        yield finding


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with an interrupt, and kill the process if it does not exit."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_WAIT_S)
        return
    process.kill()
