"""A campaign against a program: cases in captures, failures reduced, told apart and kept; it can be resumed.

The cases of a run are a capture of several frames, since starting a program takes longer than reading them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.command import Command, Outcome
from ecmproto.fuzz.findings import Finding, reproduction, write_capture
from ecmproto.fuzz.minimisation import Budget, fewest, simplest
from ecmproto.fuzz.state import Progress, State

DEFAULT_FRAMES = 64
DEFAULT_TRIES = 300


class TargetCampaign:
    """Runs a program on one capture of cases after another.

    ``folder`` holds the findings and the state; a campaign that is found there goes on where it ended.
    ParameterError for one of another seed or corpus.
    """

    def __init__(
        self,
        command: Command,
        cases: Cases,
        folder: Path,
        *,
        frames_per_run: int = DEFAULT_FRAMES,
        tries: int = DEFAULT_TRIES,
    ) -> None:
        self._command = command
        self._cases = cases
        self._frames_per_run = frames_per_run
        self._tries = tries
        self._state = State(folder, seed=cases.seed, corpus=cases.corpus)

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return self._state.progress

    @property
    def findings(self) -> dict[str, Finding]:
        """What it found, by signature."""
        return self._state.findings

    def run(self, going_on: Callable[[Progress], bool]) -> Iterator[Finding]:
        """Run while ``going_on`` says so; yield each defect when it is first found, reduced and saved."""
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "case.pcap"
            while going_on(self.progress):
                with self._state.running():
                    found = self._next(path)
                if found is not None:
                    yield found

    def _next(self, path: Path) -> Finding | None:
        """Run the program on the next cases; return what is new."""
        index = self.progress.index
        frames = [case.octets for case in islice(self._cases.starting_at(index), self._frames_per_run)]
        outcome = self._outcome(path, frames)
        found = None
        if outcome.failed and not self._state.seen(outcome.signature):
            found = self._found(path, frames, outcome, index)
        self._state.count(len(frames), failed=outcome.failed)
        return found

    def _outcome(self, path: Path, frames: Sequence[bytes]) -> Outcome:
        write_capture(path, frames)
        return self._command.run(path)

    def _found(self, path: Path, frames: list[bytes], outcome: Outcome, index: int) -> Finding:
        least = self._reduced(path, frames, outcome.signature)
        # as it ends on what is left, which is what is kept
        finding = Finding(
            frames=tuple(least), outcome=self._outcome(path, least), seed=self._cases.seed, index=index
        )
        if finding.outcome.signature != outcome.signature:
            # it does not fail every time: then all frames are kept
            finding = Finding(frames=tuple(frames), outcome=outcome, seed=self._cases.seed, index=index)
        self._state.keep(finding, reproduction(self._command.words, "case.pcap"))
        return finding

    def _reduced(self, path: Path, frames: list[bytes], signature: str) -> list[bytes]:
        """Return the least frames on which the program fails the same way."""

        def fails(part: Sequence[bytes]) -> bool:
            return self._outcome(path, part).signature == signature

        budget = Budget(self._tries)
        least = list(fewest(frames, fails, budget))
        for place, octets in enumerate(least):

            def fails_with(changed: bytes, place: int = place) -> bool:
                return fails([*least[:place], changed, *least[place + 1 :]])

            least[place] = simplest(octets, fails_with, budget)
        return least
