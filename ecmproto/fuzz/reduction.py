"""A failing trial reduced to the least that fails the same way, by running the program on parts of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from ecmproto.fuzz.command import Command, Outcome
from ecmproto.fuzz.feed import Trial
from ecmproto.fuzz.minimisation import Budget, fewest, shortest_beginning, simplest, unlimited

REDUCED_SECONDS = 60.0
"""A campaign is to go on."""
_STARTS = 4
"""A hang is what takes so many times as long as the program takes to start."""
_LEAST_S = 0.1


_ADDING_UP = ("memory", "hang")
"""What frames may take together though none of them does alone."""
_SLACK = 8
"""Of so many frames that add up one more is kept: what each takes is not the same in every run."""


class Reduction:
    """Runs ``command`` on what is left of a trial; ``path`` is the file that it gets.

    Frames are left out within ``tries`` and some time, and octets of what is left again; no longer than
    ``left_s`` says.
    """

    def __init__(
        self,
        command: Command,
        path: Path,
        *,
        signature: str,
        tries: int,
        left_s: Callable[[], float] = unlimited,
    ) -> None:
        self._patient = self._command = command
        self._path = path
        self._signature = signature
        self._tries = tries
        self._left_s = left_s
        self._budget = self._another()

    def outcome(self, trial: Trial) -> Outcome:
        """Return how the program ends on a trial."""
        trial.write(self._path)
        return self._command.run(self._path)

    def least(self, trial: Trial) -> tuple[Trial, Outcome] | None:
        """Return the least trial found, and how the program ends on it; None where it does not fail again."""
        first = self.outcome(trial)
        if first.signature != self._signature:
            return None
        if self.out_of_time:
            return trial, first
        empty = self.outcome(trial.part(()))
        if empty.signature == self._signature:
            # it fails whatever it reads
            return trial.part(()), empty
        self._hasten(empty)
        least = self._fewest(trial)
        self._budget = self._another()
        least = self._simplest(least)
        self._command = self._patient
        last = self.outcome(least)
        return (least, last) if last.signature == self._signature else (trial, first)

    @property
    def out_of_time(self) -> bool:
        """Whether no time is left, though there might have been something to leave out."""
        return self._left_s() <= 0

    def _another(self) -> Budget:
        return Budget(self._tries, seconds=min(REDUCED_SECONDS, self._left_s()))

    def _hasten(self, empty: Outcome) -> None:
        """Wait no longer for a hang than it takes to know it from a start."""
        if self._signature == "hang" and not empty.failed:
            seconds = min(self._patient.seconds, max(_LEAST_S, _STARTS * empty.processor_s))
            self._command = dataclasses.replace(self._patient, seconds=seconds)

    def _fails(self, trial: Trial) -> bool:
        return self.outcome(trial).signature == self._signature

    def _fewest(self, trial: Trial) -> Trial:
        def fails(rows: Sequence[int]) -> bool:
            return self._fails(trial.part(rows))

        rows = shortest_beginning(range(len(trial.items)), fails, self._budget)
        last = rows[-1:]
        if len(rows) == 1 or (self._budget.spend() and fails(last)):
            return trial.part(last)
        if self._signature in _ADDING_UP:
            # each takes as much as in the run that failed
            self._command = self._patient
            alike = self._alike(trial, fails)
            if alike:
                return trial.part(alike)
        return trial.part(fewest(rows, fails, self._budget))

    def _alike(self, trial: Trial, fails: Callable[[Sequence[int]], bool]) -> Sequence[int]:
        """Return one row as often as it takes: of frames that add up, one that takes no less than most do.

        Of two halves, each repeated until it is as many frames as all were, one takes as much as all did.
        Empty where none does.
        """
        rows: Sequence[int] = range(len(trial.items))
        total = len(rows)
        while len(rows) > 1:
            middle = len(rows) // 2
            for part in (rows[:middle], rows[middle:]):
                if self._budget.spend() and fails([*part] * -(-total // len(part))):
                    rows = part
                    break
            else:
                return ()
        enough = shortest_beginning([*rows] * total, fails, self._budget)
        return [*rows] * min(total, len(enough) + -(-len(enough) // _SLACK))

    def _simplest(self, trial: Trial) -> Trial:
        if len(trial.items) > 1 and len(set(trial.items)) == 1:
            return trial.filled(
                simplest(trial.items[0], lambda octets: self._fails(trial.filled(octets)), self._budget)
            )
        for row in range(len(trial.items)):
            before = trial

            def fails(octets: bytes, row: int = row, before: Trial = before) -> bool:
                return self._fails(before.changed(row, octets))

            trial = before.changed(row, simplest(before.items[row], fails, self._budget))
        return trial
