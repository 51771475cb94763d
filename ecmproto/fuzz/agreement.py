"""A campaign in this process: cases that several views must agree on; what differs is reduced and kept.

>>> checks = [SchemaCheck(), ColumnCheck(), TextCheck()]
>>> campaign = AgreementCampaign(checks, Cases(corpus, seed=7), Path("campaign"))
>>> for finding in campaign.run(lambda progress: progress.cases < 1_000_000):
...     print(finding.outcome.signature)
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Protocol

from ecmproto.fuzz.bounds import Bounds, TooLargeError, TooSlowError
from ecmproto.fuzz.cases import Case
from ecmproto.fuzz.command import Kind, Outcome
from ecmproto.fuzz.difference import Check
from ecmproto.fuzz.findings import Finding
from ecmproto.fuzz.minimisation import Budget, fewest, simplest
from ecmproto.fuzz.state import Progress, State
from ecmproto.fuzz.symptoms import signature_of

BATCH_CASES = 512
TRACED_FACTOR = 10
"""How many times as long work takes at most while its memory is measured."""
MEASURED_EVERY = 64
"""Memory is measured in one batch in so many."""
DEFAULT_TRIES = 400
LOADING_SECONDS = 120.0
"""What loading and compiling may take of the processor's time."""
REDUCED_SECONDS = 10.0
"""How long a finding is reduced at most: a campaign is to go on."""


class CaseSource(Protocol):
    """Where cases come from: `Cases`, `OctetCases`."""

    @property
    def seed(self) -> int:
        """What the cases follow from."""

    @property
    def corpus(self) -> str:
        """Tells the corpus from others."""

    def starting_at(self, index: int) -> Iterator[Case]:
        """Yield every case from ``index`` on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Something wrong with a batch: ``signature`` is the same for the same defect."""

    kind: Kind
    signature: str
    detail: str
    check: Check
    row: int = -1


class AgreementCampaign:
    """Runs checks over one batch of cases after another.

    The least octets of a finding are kept in a file called ``file``, with ``line``, which shows it again.

    ``folder`` holds findings and state; a campaign that is found there goes on where it ended.
    ParameterError for one of another seed or corpus.
    """

    def __init__(
        self,
        checks: Sequence[Check],
        cases: CaseSource,
        folder: Path,
        *,
        line: str,
        file: str = "case.pcap",
        bounds: Bounds | None = None,
        tries: int = DEFAULT_TRIES,
    ) -> None:
        self._checks = tuple(checks)
        self._cases = cases
        self._line = line
        self._file = file
        self._bounds = Bounds() if bounds is None else bounds
        self._tries = tries
        self._state = State(folder, seed=cases.seed, corpus=cases.corpus)
        self.executions = dict.fromkeys((check.name for check in self._checks), 0)
        """How many cases each check has seen since the campaign was opened."""

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return self._state.progress

    @property
    def findings(self) -> dict[str, Finding]:
        """What it found, by signature."""
        return self._state.findings

    def run(
        self, going_on: Callable[[Progress], bool], *, most_cases: int | None = None
    ) -> Iterator[Finding]:
        """Run while ``going_on`` says so, over ``most_cases`` more; yield what is new."""
        self._load()
        last = None if most_cases is None else self.progress.cases + most_cases
        while going_on(self.progress):
            left = BATCH_CASES if last is None else last - self.progress.cases
            if left <= 0:
                return
            with self._state.running():
                found = self._next(min(left, BATCH_CASES))
            yield from found

    def _load(self) -> None:
        """Let the checks load and compile what they need, which is not to count as their time."""
        case = next(self._cases.starting_at(self.progress.index))
        patient = dataclasses.replace(self._bounds, seconds=LOADING_SECONDS)
        for check in self._checks:
            disagreements(check, [case.octets], patient)

    def _next(self, count: int) -> list[Finding]:
        """Check the next cases; return what is new."""
        index, run = self.progress.index, self.progress.runs
        cases = list(islice(self._cases.starting_at(index), count))
        items = [case.octets for case in cases]
        found, failed = [], False
        for check in self._checks:
            if run % check.every:
                continue
            self.executions[check.name] += count
            for wrong in disagreements(check, items, self._bounds, measured=run % MEASURED_EVERY == 0):
                # what took too long once may have had to wait for something
                if wrong.kind == "hang" and first_of(wrong, items, self._bounds) is None:
                    continue
                failed = True
                if not self._state.seen(wrong.signature):
                    found.append(self._found(wrong, items, index))
        self._state.count(count, failed=failed)
        return found

    def _found(self, wrong: Disagreement, items: list[bytes], index: int) -> Finding:
        """Reduce what is wrong with a batch, and keep it."""
        row, least = reduced(wrong, items, self._bounds, Budget(self._tries, seconds=REDUCED_SECONDS))
        again = first_of(wrong, least, self._bounds) or wrong
        outcome = Outcome(
            kind=wrong.kind, signature=wrong.signature, status=0, seconds=0.0, output=again.detail + "\n"
        )
        finding = Finding(
            frames=tuple(least), outcome=outcome, seed=self._cases.seed, index=index + max(row, 0)
        )
        self._state.keep(finding, self._line, name=self._file)
        return finding


def disagreements(
    check: Check, items: Sequence[bytes], bounds: Bounds, *, measured: bool = False
) -> list[Disagreement]:
    """Return what a check finds wrong with a batch, each kind once; exceptions and excesses among it."""
    found: dict[str, Disagreement] = {}

    def note(kind: Kind, what: str, detail: str, row: int = -1) -> None:
        signature = f"{check.name}: {what}"
        found.setdefault(
            signature, Disagreement(kind=kind, signature=signature, detail=detail, check=check, row=row)
        )

    try:
        with ExitStack() as limits:
            if measured:
                limits.enter_context(bounds.in_memory())
            limits.enter_context(bounds.in_time(TRACED_FACTOR if measured else 1))
            for each in check.differences(items):
                note("difference", each.what, each.detail, each.row)
    except TooSlowError:
        note("hang", f"more than {bounds.seconds:g} s", traceback.format_exc())
    except TooLargeError as error:
        note("memory", f"more than {bounds.memory_octets:,} octets of memory", str(error))
    except Exception:
        told = traceback.format_exc()
        note("report", signature_of(told) or told.splitlines()[-1], told)
    return list(found.values())


def first_of(wrong: Disagreement, items: Sequence[bytes], bounds: Bounds) -> Disagreement | None:
    """Return how the same thing is wrong with ``items``; None where it is not."""
    found = disagreements(wrong.check, items, bounds, measured=wrong.kind == "memory")
    return next((each for each in found if each.signature == wrong.signature), None)


def reduced(
    wrong: Disagreement, items: Sequence[bytes], bounds: Bounds, budget: Budget
) -> tuple[int, list[bytes]]:
    """Return the least octets with which the same is wrong, and the item that does it alone (−1: none)."""

    def fails(rows: Sequence[int]) -> bool:
        return first_of(wrong, [items[row] for row in rows], bounds) is not None

    rows: Sequence[int] = [wrong.row]
    if wrong.row < 0 or not fails(rows):
        rows = range(len(items))
        if not fails(rows):
            # it is not wrong every time: then all of them are kept
            return -1, list(items)
        rows = fewest(rows, fails, budget)
    if len(rows) > 1:
        return -1, [items[row] for row in rows]
    least = simplest(items[rows[0]], lambda octets: first_of(wrong, [octets], bounds) is not None, budget)
    return rows[0], [least]
