"""What a guided campaign finds, reduced and kept: in the process that atheris drives."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ecmproto.fuzz.agreement import DEFAULT_TRIES, REDUCED_SECONDS
from ecmproto.fuzz.bounds import Bounds
from ecmproto.fuzz.command import Outcome
from ecmproto.fuzz.difference import Check
from ecmproto.fuzz.findings import Finding
from ecmproto.fuzz.guided.target import Target
from ecmproto.fuzz.items import Items
from ecmproto.fuzz.judgement import LOADING_SECONDS, Disagreement, disagreements, first_of, reduced
from ecmproto.fuzz.kinds import SUBJECTS
from ecmproto.fuzz.minimisation import Budget
from ecmproto.fuzz.state import State

PLAIN = "NUMBA_DISABLE_JIT=1"
"""What makes kernels plain Python, whose lines guide."""


def line_of(target: Target) -> str:
    """Return the line that shows a finding of a target again, in its folder."""
    what = "" if target.subject == "frames" else f" --what {target.subject}"
    return f"{PLAIN} ecmproto fuzz decode{what} --as-is -r {SUBJECTS[target.subject].file}"


class Keeper:
    """Tries one input after another, and keeps what is wrong with them in the campaign of ``folder``."""

    def __init__(self, target: Target, folder: Path, *, seed: int, corpus: str, bounds: Bounds) -> None:
        self._target = target
        self._checks = target.checks()
        self._seed = seed
        self._bounds = bounds
        self._state = State(folder, seed=seed, corpus=corpus)
        self._tried = 0

    def load(self) -> None:
        """Let the checks load what they need, which is not to count as their time."""
        patient = dataclasses.replace(self._bounds, seconds=LOADING_SECONDS)
        items = Items(self._target.items(self._target.starts()[0]))
        for check in self._checks:
            disagreements(check, items, patient)

    def one(self, octets: bytes) -> None:
        """Try an input."""
        self._tried += 1
        items = Items(self._target.items(octets))
        for check in self._checks:
            for wrong in disagreements(check, items, self._bounds):
                # what took too long once may have had to wait for something
                if wrong.kind == "hang" and first_of(check, wrong, items, self._bounds) is None:
                    continue
                if not self._state.seen(wrong.signature):
                    self._keep(check, wrong, items)

    def _keep(self, check: Check, wrong: Disagreement, items: Items) -> None:
        budget = Budget(DEFAULT_TRIES, seconds=REDUCED_SECONDS)
        _, least = reduced(check, wrong, items, self._bounds, budget)
        again = first_of(check, wrong, least, self._bounds) or wrong
        outcome = Outcome(
            kind=wrong.kind, signature=wrong.signature, status=0, seconds=0.0, output=again.detail + "\n"
        )
        finding = Finding(frames=tuple(least), outcome=outcome, seed=self._seed, index=self._tried)
        self._state.keep(finding, line_of(self._target), name=SUBJECTS[self._target.subject].file)
