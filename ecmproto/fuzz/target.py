"""A campaign against a program: cases in captures, failures reduced, told apart and kept; it can be resumed.

The cases of a run are a capture of several frames, since starting a program takes longer than reading them.
The state is one number, the index of the next case: everything else follows from the seed.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from ecmproto.errors import ParameterError
from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.command import Command, Outcome
from ecmproto.fuzz.findings import Finding, findings_in, save, write_capture, write_document
from ecmproto.fuzz.minimisation import Budget, fewest, simplest

STATE_SCHEMA = "ecmproto/campaign/1"
DEFAULT_FRAMES = 64
DEFAULT_TRIES = 300


@dataclasses.dataclass(slots=True, kw_only=True)
class Progress:
    """How far a campaign has come."""

    index: int = 0
    """Of the next case."""
    runs: int = 0
    frames: int = 0
    failures: int = 0
    """Runs that failed, those with a known signature too."""
    seconds: float = 0.0


class TargetCampaign:
    """Runs a program on one capture of cases after another.

    ``folder`` holds the findings and the state; a campaign of the same seed that is found there goes on
    where it ended.  ParameterError for one of another seed.
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
        self._folder = folder
        self._frames_per_run = frames_per_run
        self._tries = tries
        self._state = folder / "campaign.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.progress = self._resumed()
        self.findings = findings_in(folder / "findings")
        """By signature."""

    def _resumed(self) -> Progress:
        if not self._state.exists():
            return Progress()
        document = json.loads(self._state.read_text(encoding="utf-8"))
        if document["seed"] != self._cases.seed:
            raise ParameterError(
                name="seed",
                needed=f"{document['seed']}, of the campaign in {self._folder}, or another folder",
                got=str(self._cases.seed),
            )
        return Progress(**document["progress"])

    def run(self, going_on: Callable[[Progress], bool]) -> Iterator[Finding]:
        """Run while ``going_on`` says so; yield each defect when it is first found, reduced and saved."""
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "case.pcap"
            start, before = time.monotonic(), self.progress.seconds
            while going_on(self.progress):
                index = self.progress.index
                cases = list(islice(self._cases.starting_at(index), self._frames_per_run))
                frames = [case.octets for case in cases]
                outcome = self._outcome(path, frames)
                self._count(len(frames), outcome)
                if outcome.failed:
                    yield from self._found(path, frames, outcome, index)
                self.progress.seconds = before + time.monotonic() - start
                self._save()

    def _outcome(self, path: Path, frames: Sequence[bytes]) -> Outcome:
        write_capture(path, frames)
        return self._command.run(path)

    def _count(self, frames: int, outcome: Outcome) -> None:
        self.progress.index += frames
        self.progress.runs += 1
        self.progress.frames += frames
        self.progress.failures += outcome.failed

    def _found(self, path: Path, frames: list[bytes], outcome: Outcome, index: int) -> Iterator[Finding]:
        known = self.findings.get(outcome.signature)
        if known is not None:
            again = dataclasses.replace(known, count=known.count + 1)
            self.findings[outcome.signature] = again
            write_document(self._folder / "findings" / again.name, again)
            return
        least = self._reduced(path, frames, outcome.signature)
        # as it ends on what is left, which is what is kept
        finding = Finding(
            frames=tuple(least), outcome=self._outcome(path, least), seed=self._cases.seed, index=index
        )
        if finding.outcome.signature != outcome.signature:
            # it does not fail every time: then all frames are kept
            finding = Finding(frames=tuple(frames), outcome=outcome, seed=self._cases.seed, index=index)
        self.findings[outcome.signature] = finding
        save(finding, self._folder / "findings", self._command.words)
        yield finding

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

    def _save(self) -> None:
        document = {
            "schema": STATE_SCHEMA,
            "seed": self._cases.seed,
            "progress": dataclasses.asdict(self.progress),
        }
        beside = self._state.with_suffix(".part")
        beside.write_text(json.dumps(document) + "\n", encoding="utf-8")
        beside.replace(self._state)
