"""Verdicts of checks about a batch under time and memory limits, and reduction of failing batches."""

from __future__ import annotations

import dataclasses
import signal
import sys
import threading
import traceback
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from types import FrameType

from ecmproto.tools.fuzz.cases import CaseSource
from ecmproto.tools.fuzz.checks.base import BatchCheck, Items
from ecmproto.tools.fuzz.command import Kind, signature_of
from ecmproto.tools.fuzz.minimisation import Budget, fewest, simplest

DEFAULT_SECONDS = 10.0
DEFAULT_MEMORY_OCTETS = 256_000_000


class TooSlowError(Exception):
    """Error for work that exceeded its time limit."""


class TooLargeError(Exception):
    """Error for work that exceeded its memory limit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Time and memory limits of each check of a batch.

    The time limit applies to processor time, so other programs have no effect. The limit is enforced only in
    the main thread while Python code runs. The memory limit applies to memory that Python and numpy allocate.
    A check takes several times longer while memory is measured.
    """

    seconds: float = DEFAULT_SECONDS
    memory_octets: int = DEFAULT_MEMORY_OCTETS

    @contextmanager
    def in_time(self, factor: float = 1) -> Iterator[None]:
        """Raise TooSlowError in a ``with`` block that takes longer than ``factor`` times the time limit."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGVTALRM, _ring)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds * factor)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    @contextmanager
    def in_memory(self) -> Iterator[None]:
        """Raise TooLargeError after a ``with`` block whose peak memory exceeded the limit."""
        tracemalloc.start()
        try:
            yield
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        if peak > self.memory_octets:
            raise TooLargeError(f"{peak:,} octets")


def _ring(number: int, frame: FrameType | None) -> None:
    raise TooSlowError


TRACED_FACTOR = 10
"""Factor for the time limit while memory is measured."""
MEASURED_EVERY = 128
MEASURED_CASES = 256
"""Number of cases whose memory is measured in one of `MEASURED_EVERY` batches. The measurement is slow."""
LOADING_SECONDS = 120.0
"""Time limit in seconds while imports and compilation can occur."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaseRange:
    """The cases of a batch: ``count`` cases from ``index``.

    ``run`` is the batch number, which determines the checks.
    """

    run: int
    index: int
    count: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A defect that a batch caused. Equal defects have equal ``signature``."""

    kind: Kind
    signature: str
    detail: str
    check: str
    """Name of the check that found the defect; "" for a defect that occurred before the checks."""
    row: int = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledCheck:
    """A check that runs on one of ``every`` batches."""

    check: BatchCheck
    every: int

    def takes(self, batch: CaseRange) -> bool:
        """Return whether the check runs on a batch."""
        return batch.run % self.every == 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Creator and checker of cases. A judge can be pickled if its checks can be pickled."""

    scheduled: tuple[ScheduledCheck, ...]
    cases: CaseSource
    bounds: Bounds

    def load(self) -> None:
        """Run the checks once, so that imports and compilation do not count towards the time limit."""
        items = self.items(CaseRange(run=0, index=0, count=1))
        for each in self.scheduled:
            disagreements(each.check, items, self._patient)

    @property
    def _patient(self) -> Bounds:
        return dataclasses.replace(self.bounds, seconds=max(LOADING_SECONDS, self.bounds.seconds))

    def items(self, batch: CaseRange) -> Items:
        """Return the octets of a batch. The octets are empty for cases that cannot be created."""
        return Items([made if isinstance(made, bytes) else b"" for made in self._made(batch)])

    def _made(self, batch: CaseRange) -> Iterator[bytes | str]:
        """Yield the octets of each case, or a traceback if the decoder failed while the case was created."""
        end = batch.index + batch.count
        index = batch.index
        while index < end:
            try:
                for case in islice(self.cases.starting_at(index), end - index):
                    yield case.octets
                    index += 1
            except Exception:
                yield traceback.format_exc()
                index += 1

    def of(self, batch: CaseRange) -> list[Disagreement]:
        """Return the disagreements of a batch."""
        made = list(self._made(batch))
        items = Items([each if isinstance(each, bytes) else b"" for each in made])
        traced = Items(items[:MEASURED_CASES]) if batch.run % MEASURED_EVERY == 0 else None
        unmade = [_unmade(reason, row) for row, reason in enumerate(made) if isinstance(reason, str)]
        result = list({wrong.signature: wrong for wrong in unmade}.values())
        for each in self.scheduled:
            if each.takes(batch):
                result += self._wrong(each.check, items)
                if traced is not None:
                    wrongs = disagreements(each.check, traced, self.bounds, measured=True)
                    result += [wrong for wrong in wrongs if wrong.kind == "memory"]
        return result

    def _wrong(self, check: BatchCheck, items: Items) -> Iterator[Disagreement]:
        compiled = _compiled()
        failures = disagreements(check, items, self.bounds)
        if any(wrong.kind == "hang" for wrong in failures):
            if _compiled() > compiled:  # these cases required the compilation of kernels
                disagreements(check, items, self._patient)
            # a check that was too slow once may have waited for another process
            failures = disagreements(check, items, self.bounds)
        yield from failures


def _compiled() -> int:
    """Return the number of kernels that this process has compiled."""
    return len(getattr(sys.modules.get("ecmproto.kernels.cache"), "compiled", ()))


def _unmade(reported: str, row: int) -> Disagreement:
    what = f"making a case: {signature_of(reported) or reported.splitlines()[-1]}"
    return Disagreement(kind="report", signature=what, detail=reported, check="", row=row)


def disagreements(
    check: BatchCheck, items: Sequence[bytes], bounds: Bounds, *, measured: bool = False
) -> list[Disagreement]:
    """Return the disagreements that a check finds in a batch, including exceptions and exceeded limits.

    Each signature is returned once.
    """
    result: dict[str, Disagreement] = {}

    def note(kind: Kind, what: str, detail: str, row: int = -1) -> None:
        signature = f"{check.name}: {what}"
        result.setdefault(
            signature, Disagreement(kind=kind, signature=signature, detail=detail, check=check.name, row=row)
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
        text = traceback.format_exc()
        note("report", signature_of(text) or text.splitlines()[-1], text)
    return list(result.values())


def first_of(
    check: BatchCheck, wrong: Disagreement, items: Sequence[bytes], bounds: Bounds
) -> Disagreement | None:
    """Return the disagreement of ``items`` with the same signature, or ``None`` without one."""
    failures = disagreements(check, items, bounds, measured=wrong.kind == "memory")
    return next((each for each in failures if each.signature == wrong.signature), None)


def reduced(
    check: BatchCheck, wrong: Disagreement, items: Sequence[bytes], bounds: Bounds, budget: Budget
) -> tuple[int, list[bytes]]:
    """Return the index of the only remaining item, and the fewest octets with the same defect.

    The index is −1 if several items remain.
    """

    def fails(rows: Sequence[int]) -> bool:
        return first_of(check, wrong, [items[row] for row in rows], bounds) is not None

    rows: Sequence[int] = [wrong.row]
    if wrong.row < 0 or not fails(rows):
        rows = range(len(items))
        if not fails(rows):
            # the defect is not reproducible: all items are stored
            return -1, list(items)
        rows = fewest(rows, fails, budget)
    if len(rows) > 1:
        return -1, [items[row] for row in rows]
    smallest = simplest(
        items[rows[0]], lambda octets: first_of(check, wrong, [octets], bounds) is not None, budget
    )
    return rows[0], [smallest]
