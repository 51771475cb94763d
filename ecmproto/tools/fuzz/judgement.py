"""Verdicts of checks on a batch, in bounds of time and memory, and their minimal octets."""

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
    """Work exceeded its time limit."""


class TooLargeError(Exception):
    """Work exceeded its memory limit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The maximum time and memory of each check of a batch.

    Time is the processor's, so that other programs do not matter; it is watched in the main thread, while
    Python runs.  Memory is allocated by Python and numpy; measuring it takes a multiple of the time.
    """

    seconds: float = DEFAULT_SECONDS
    memory_octets: int = DEFAULT_MEMORY_OCTETS

    @contextmanager
    def in_time(self, factor: float = 1) -> Iterator[None]:
        """Raise TooSlowError in the middle of work that exceeds ``factor`` times the limit."""
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
        """Raise TooLargeError after the block if its peak memory was too large."""
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
"""Factor on the time limit while memory is measured."""
MEASURED_EVERY = 128
MEASURED_CASES = 256
"""The number of cases whose memory is measured, which takes long, in one of `MEASURED_EVERY` batches."""
LOADING_SECONDS = 120.0
"""The time limit while checks may load and compile."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaseRange:
    """The cases of a batch: ``count`` from ``index`` on; ``run`` counts batches, which schedules checks."""

    run: int
    index: int
    count: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A defect shown by a batch: equal defects have equal ``signature``."""

    kind: Kind
    signature: str
    detail: str
    check: str
    """The name of the check that found it; "" if it precedes checks."""
    row: int = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledCheck:
    """A check, which runs on one batch in ``every``."""

    check: BatchCheck
    every: int

    def takes(self, batch: CaseRange) -> bool:
        """Return whether it runs on a batch."""
        return batch.run % self.every == 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Makes cases and checks them; it can be pickled if its checks can."""

    scheduled: tuple[ScheduledCheck, ...]
    cases: CaseSource
    bounds: Bounds

    def load(self) -> None:
        """Run the checks once, so that loading and compiling do not count as their time."""
        items = self.items(CaseRange(run=0, index=0, count=1))
        for each in self.scheduled:
            disagreements(each.check, items, self._patient)

    @property
    def _patient(self) -> Bounds:
        return dataclasses.replace(self.bounds, seconds=max(LOADING_SECONDS, self.bounds.seconds))

    def items(self, batch: CaseRange) -> Items:
        """Return the octets of a batch; none of cases that cannot be made."""
        return Items([made if isinstance(made, bytes) else b"" for made in self._made(batch)])

    def _made(self, batch: CaseRange) -> Iterator[bytes | str]:
        """Yield the octets of each case, or the traceback of the decoder that failed while making it."""
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
        """Return the disagreements over a batch."""
        made = list(self._made(batch))
        items = Items([each if isinstance(each, bytes) else b"" for each in made])
        traced = Items(items[:MEASURED_CASES]) if batch.run % MEASURED_EVERY == 0 else None
        unmade = [_unmade(told, row) for row, told in enumerate(made) if isinstance(told, str)]
        found = list({wrong.signature: wrong for wrong in unmade}.values())
        for each in self.scheduled:
            if each.takes(batch):
                found += self._wrong(each.check, items)
                if traced is not None:
                    wrongs = disagreements(each.check, traced, self.bounds, measured=True)
                    found += [wrong for wrong in wrongs if wrong.kind == "memory"]
        return found

    def _wrong(self, check: BatchCheck, items: Items) -> Iterator[Disagreement]:
        compiled = _compiled()
        found = disagreements(check, items, self.bounds)
        if any(wrong.kind == "hang" for wrong in found):
            if _compiled() > compiled:  # these cases were the first to need some code, which takes its time
                disagreements(check, items, self._patient)
            # a check that was too slow once may have waited for something else
            found = disagreements(check, items, self.bounds)
        yield from found


def _compiled() -> int:
    """Return the number of kernels that this process has compiled."""
    return len(getattr(sys.modules.get("ecmproto.kernels.cache"), "compiled", ()))


def _unmade(reported: str, row: int) -> Disagreement:
    what = f"making a case: {signature_of(reported) or reported.splitlines()[-1]}"
    return Disagreement(kind="report", signature=what, detail=reported, check="", row=row)


def disagreements(
    check: BatchCheck, items: Sequence[bytes], bounds: Bounds, *, measured: bool = False
) -> list[Disagreement]:
    """Return a check's disagreements over a batch, each signature once, exceptions and excesses too."""
    found: dict[str, Disagreement] = {}

    def note(kind: Kind, what: str, detail: str, row: int = -1) -> None:
        signature = f"{check.name}: {what}"
        found.setdefault(
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
        told = traceback.format_exc()
        note("report", signature_of(told) or told.splitlines()[-1], told)
    return list(found.values())


def first_of(
    check: BatchCheck, wrong: Disagreement, items: Sequence[bytes], bounds: Bounds
) -> Disagreement | None:
    """Return the same disagreement on ``items``; None if they do not show it."""
    found = disagreements(check, items, bounds, measured=wrong.kind == "memory")
    return next((each for each in found if each.signature == wrong.signature), None)


def reduced(
    check: BatchCheck, wrong: Disagreement, items: Sequence[bytes], bounds: Bounds, budget: Budget
) -> tuple[int, list[bytes]]:
    """Return the fewest octets with the same defect, and the index of its only item (−1: several)."""

    def fails(rows: Sequence[int]) -> bool:
        return first_of(check, wrong, [items[row] for row in rows], bounds) is not None

    rows: Sequence[int] = [wrong.row]
    if wrong.row < 0 or not fails(rows):
        rows = range(len(items))
        if not fails(rows):
            # it is not reproducible: then all of them are stored
            return -1, list(items)
        rows = fewest(rows, fails, budget)
    if len(rows) > 1:
        return -1, [items[row] for row in rows]
    least = simplest(
        items[rows[0]], lambda octets: first_of(check, wrong, [octets], bounds) is not None, budget
    )
    return rows[0], [least]
