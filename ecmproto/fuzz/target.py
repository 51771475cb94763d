"""A campaign against a program that reads captures: failures reduced, told apart and kept; it goes on later.

>>> feed = Feed(frames=Cases(corpus, seed=7))
>>> campaign = TargetCampaign(Command(words=("tshark", "-Vr", "{}")), feed, Path("campaign"), jobs=2)
>>> for finding in campaign.run(lambda progress: progress.seconds < 300):
...     print(finding.outcome.signature)
"""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ecmproto.errors import ParameterError
from ecmproto.fuzz.command import Command, Outcome
from ecmproto.fuzz.feed import Feed, Trial
from ecmproto.fuzz.findings import (
    TIMED_OUT,
    Finding,
    in_memory,
    in_time,
    judged_again,
    reproduction,
    write_capture,
)
from ecmproto.fuzz.minimisation import unlimited
from ecmproto.fuzz.reduction import Reduction
from ecmproto.fuzz.runs import MOST_JOBS, RunFrames, Runs
from ecmproto.fuzz.state import Progress, State

DEFAULT_TRIES = 300
_PATIENCE_S = 5.0


class TargetCampaign:
    """Runs a program on one trial after another, ``jobs`` at once.

    ``frames_per_run`` is how many frames a capture has; by default as many as are read quickly.  ``folder``
    holds the findings and the state; a campaign that is found there goes on where it ended.  ParameterError
    for a folder of another seed or corpus.
    """

    def __init__(
        self,
        command: Command,
        feed: Feed,
        folder: Path,
        *,
        frames_per_run: int | None = None,
        jobs: int = 1,
        tries: int = DEFAULT_TRIES,
    ) -> None:
        if not 1 <= jobs <= MOST_JOBS:
            raise ParameterError(name="jobs", needed=f"1 to {MOST_JOBS}", got=str(jobs))
        self._command = command
        self._feed = feed
        self._frames = RunFrames(frames_per_run, command.seconds)
        self._jobs = jobs
        self._tries = tries
        self._left_s: Callable[[], float] = unlimited
        self.cut_short: list[str] = []
        """Findings, by name, that there was no time to reduce as far as they can be."""
        self._state = State(folder, seed=feed.seed, corpus=feed.corpus)

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return self._state.progress

    @property
    def findings(self) -> dict[str, Finding]:
        """What it found, by signature."""
        return self._state.findings

    def run(
        self, going_on: Callable[[Progress], bool], *, left_s: Callable[[], float] = unlimited
    ) -> Iterator[Finding]:
        """Run while ``going_on`` says so; yield each defect when it is first found, reduced and saved.

        Defects are reduced for as long as ``left_s`` says that there are seconds left.  Runs that have not
        ended then are not counted: the next call begins them again.
        """
        self._left_s = left_s
        trials = self._trials()
        with Runs(self._command, lambda: next(trials), jobs=self._jobs) as runs:
            while going_on(self.progress):
                with self._state.running():
                    trial, outcome = runs.next()
                    finding = self._judged(trial, outcome)
                if finding is not None:
                    yield finding

    def _trials(self) -> Iterator[Trial]:
        index, number = self.progress.index, self.progress.runs
        while True:
            trial = self._feed.trial(index=index, number=number, frames=self._frames.count)
            yield trial
            index += len(trial.items)
            number += 1

    def _judged(self, trial: Trial, outcome: Outcome) -> Finding | None:
        """Count a run; return what is new."""
        finding, failed = None, outcome.failed
        if failed and not self._state.seen(outcome.signature):
            finding = self._found(trial, outcome)
            failed = finding is not None
        if not trial.whole:
            self._frames.took(len(trial.items), outcome)
        self._state.count(len(trial.items), failed=failed)
        return finding

    def _found(self, trial: Trial, outcome: Outcome) -> Finding | None:
        """Reduce what failed, and keep it; None for what took too long once and never again."""
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / trial.file
            reduction = Reduction(
                self._command, path, signature=outcome.signature, tries=self._tries, left_s=self._left_s
            )
            reduced = reduction.least(trial)
        if reduced is None and outcome.kind == "hang":
            return None
        # what does not fail every time is kept whole
        least, last = reduced or (trial, outcome)
        finding = Finding(frames=least.items, outcome=last, seed=self._feed.seed, index=least.index)
        if reduction.out_of_time:
            self.cut_short.append(finding.name)
        self._keep(finding, least.file)
        return finding

    def _keep(self, finding: Finding, file: str) -> None:
        """Save a finding with a line that shows it again, under the limit that it went over."""
        place = self._state.folder.absolute() / "findings" / finding.name
        # some programs only run where they were called: python -m in the folder of a module
        here = f"cd {shlex.quote(str(Path.cwd()))} && "
        alone = self._limited(finding, reproduction(self._command.words, file))
        called = here + self._limited(finding, reproduction(self._command.words, str(place / file)))
        for line in (alone, called):
            self._state.keep(finding, line, name=file)
            if self._shows(finding, place):
                return
        if finding.outcome.kind == "memory":
            # all its addresses are more than that from the start, or it gets along without them
            self._state.keep(finding, here + judged_again(self._command, str(place / file)), name=file)

    def _limited(self, finding: Finding, line: str) -> str:
        limit = {"hang": in_time, "memory": in_memory}.get(finding.outcome.kind)
        return line if limit is None else limit(line, self._command)

    def _shows(self, finding: Finding, place: Path) -> bool:
        """Return whether the line that was kept shows a finding again."""
        again = self._shell(f"cd {shlex.quote(str(place))} && sh reproduce.sh")
        if finding.outcome.kind == "hang":
            return again.status == TIMED_OUT
        if finding.outcome.kind == "memory":
            return again.status != 0 and not self._empty_fails()
        return again.signature == finding.outcome.signature

    def _empty_fails(self) -> bool:
        """Return whether a capture of nothing needs more addresses than there may be memory."""
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "empty.pcap"
            write_capture(path, ())
            return (
                self._shell(in_memory(reproduction(self._command.words, str(path)), self._command)).status
                != 0
            )

    def _shell(self, line: str) -> Outcome:
        """Run a line that has limits of its own."""
        patient = dataclasses.replace(
            self._command,
            words=("sh", "-c", line),
            seconds=_PATIENCE_S + 2 * self._command.seconds,
            memory_octets=2 * self._command.memory_octets,
        )
        with tempfile.NamedTemporaryFile() as nothing:
            return patient.run(Path(nothing.name))
