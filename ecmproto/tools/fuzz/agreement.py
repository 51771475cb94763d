"""The campaign of ``fuzz decode``: checks over batches of cases in one or more processes.

A process receives one batch at a time as a range of case numbers.  The verdict depends only on these numbers.

>>> checks = [SchemaCheck(), ColumnCheck(), TextCheck()]
>>> campaign = AgreementCampaign(checks, Cases(corpus, seed=7), Path("campaign"))
>>> for finding in campaign.run(lambda progress: progress.cases < 1_000_000):
...     print(finding.outcome.signature)
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from ecmproto.errors import ParameterError
from ecmproto.tools.fuzz.cases import CaseSource
from ecmproto.tools.fuzz.checks.base import BatchCheck
from ecmproto.tools.fuzz.command import CaseOutcome
from ecmproto.tools.fuzz.findings import Campaign, CampaignState, Finding, Progress
from ecmproto.tools.fuzz.judgement import (
    Bounds,
    CaseRange,
    Disagreement,
    Judge,
    ScheduledCheck,
    first_of,
    reduced,
)
from ecmproto.tools.fuzz.minimisation import Budget, unlimited

Verdict = tuple[CaseRange, list[Disagreement]]

_AHEAD = 8
"""Maximum number of pending batches per process."""
_ENDING_SECONDS = 10.0
"""Seconds to wait for a process to exit after the pipe is closed."""


def verdicts(judge: Judge, ranges: Iterator[CaseRange], jobs: int) -> Generator[Verdict, None, None]:
    """Yield the verdict on each batch of ``ranges`` in order, computed by ``jobs`` processes.

    If ``jobs`` is 1, the current process computes the verdicts. If a signal ends a process, the verdict is a
    finding of a crash. Raises RuntimeError if a process exits early for another reason.
    """
    if jobs == 1:
        judge.load()
        for batch in ranges:
            yield batch, judge.of(batch)
        return
    with _started(judge, jobs) as workers:
        yield from _in_order(workers, ranges)


class _Workers:
    """Processes that check batches. ``busy`` has the batch of each process that is not ``idle``."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._processes: dict[Connection, BaseProcess] = {}
        self.idle: list[Connection] = []
        self.busy: dict[Connection, CaseRange] = {}

    def __len__(self) -> int:
        return len(self._processes)

    def start(self) -> None:
        here, remote = multiprocessing.Pipe()
        process = _SPAWNING.Process(target=_work, args=(remote, self._judge), daemon=True)
        # Ctrl-C reaches all processes of a terminal, but only this process should handle it.  The tracker is
        # started here, because its later start in process.start() would unblock the signal
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        remote.close()
        self._processes[here] = process
        self.idle.append(here)

    def judge(self, batch: CaseRange) -> None:
        worker = self.idle.pop()
        self.busy[worker] = batch
        # judged() handles processes that have ended
        with suppress(BrokenPipeError):
            worker.send(batch)

    def judged(self) -> Iterator[Verdict]:
        """Wait for verdicts, and yield all received verdicts."""
        for worker in wait(list(self.busy)):
            assert isinstance(worker, Connection)
            batch = self.busy.pop(worker)
            try:
                results: list[Disagreement] = worker.recv()
                self.idle.append(worker)
            except (EOFError, ConnectionResetError):
                results = [self._crash(worker)]
                self.start()
            yield batch, results

    def _crash(self, worker: Connection) -> Disagreement:
        process = self._processes.pop(worker)
        worker.close()
        process.join()
        code = process.exitcode or 0
        if code >= 0:
            raise RuntimeError(f"a process of a campaign ended with status {code}")
        what = f"a process ended by {signal.Signals(-code).name}"
        return Disagreement(kind="crash", signature=what, detail=what, check="")

    def end(self) -> None:
        """Close all pipes, wait for the last batches, and kill processes that do not exit."""
        for worker in self._processes:
            worker.close()
        for process in self._processes.values():
            process.join(_ENDING_SECONDS)
            if process.exitcode is None:
                process.kill()
                process.join()


_SPAWNING = multiprocessing.get_context("spawn")


@contextmanager
def _started(judge: Judge, jobs: int) -> Iterator[_Workers]:
    workers = _Workers(judge)
    try:
        for _ in range(jobs):
            workers.start()
        yield workers
    finally:
        workers.end()


def _in_order(workers: _Workers, ranges: Iterator[CaseRange]) -> Iterator[Verdict]:
    order: deque[CaseRange] = deque()
    done: dict[CaseRange, list[Disagreement]] = {}
    while True:
        while workers.idle and len(order) < _AHEAD * len(workers):
            batch = next(ranges, None)
            if batch is None:
                break
            workers.judge(batch)
            order.append(batch)
        if not order:
            return
        if order[0] not in done:
            done.update(workers.judged())
        else:
            yield order[0], done.pop(order.popleft())


def _work(pipe: Connection, judge: Judge) -> None:
    judge.load()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            pipe.send(judge.of(pipe.recv()))


BATCH_CASES = 512
DEFAULT_TRIES = 400
REDUCED_SECONDS = 10.0
"""Maximum number of seconds to reduce a finding, so that the campaign can continue."""


class AgreementCampaign(Campaign):
    """A campaign that runs checks over batches of cases.

    ``every[name]`` is the interval in batches between runs of a check. The default is the ``every`` of the
    check, and 0 disables the check. ``jobs`` is the number of processes. Checks and cases are pickled for
    these processes. The findings do not depend on the number of processes.

    The reduced octets of a finding are stored in a file with the name ``file``. ``line`` is the command line
    that reproduces a finding.

    ``folder`` contains findings and state. A campaign in the folder is continued. Raises ParameterError for a
    folder with another seed or corpus, and for an unknown check in ``every``.
    """

    def __init__(
        self,
        checks: Sequence[BatchCheck],
        cases: CaseSource,
        folder: Path,
        *,
        line: str,
        file: str = "case.pcap",
        bounds: Bounds | None = None,
        tries: int = DEFAULT_TRIES,
        every: Mapping[str, int] | None = None,
        batch_cases: int = BATCH_CASES,
        jobs: int = 1,
    ) -> None:
        self._judge = Judge(
            scheduled=_scheduled(checks, every or {}),
            cases=cases,
            bounds=Bounds() if bounds is None else bounds,
        )
        self._line = line
        self._file = file
        self._tries = tries
        self._batch_cases = batch_cases
        self._jobs = jobs
        self._left_s: Callable[[], float] = unlimited
        self._state = CampaignState(folder, seed=cases.seed, corpus=cases.corpus)
        self.executions: dict[str, int] = dict.fromkeys(
            (each.check.name for each in self._judge.scheduled), 0
        )
        """Number of cases per check since the campaign was opened."""

    def run(
        self,
        going_on: Callable[[Progress], bool],
        *,
        max_cases: int | None = None,
        left_s: Callable[[], float] = unlimited,
    ) -> Iterator[Finding]:
        """Run at most ``max_cases`` cases while ``going_on`` returns true, and yield new findings.

        Findings are reduced while ``left_s`` returns a positive time.
        """
        self._left_s = left_s
        with closing(verdicts(self._judge, self._ranges(going_on, max_cases), self._jobs)) as judged:
            while True:
                with self._state.running():
                    verdict = next(judged, None)
                    results = [] if verdict is None else self._noted(*verdict)
                if verdict is None:
                    return
                yield from results

    def _ranges(self, going_on: Callable[[Progress], bool], max_cases: int | None) -> Iterator[CaseRange]:
        """Yield the next batches.

        Batches can be requested before earlier batches are counted in the progress.
        """
        run, index, left = self.progress.runs, self.progress.index, max_cases
        while going_on(self.progress):
            count = self._batch_cases if left is None else min(left, self._batch_cases)
            if count <= 0:
                return
            yield CaseRange(run=run, index=index, count=count)
            run, index, left = run + 1, index + count, None if left is None else left - count

    def _noted(self, batch: CaseRange, wrongs: Sequence[Disagreement]) -> list[Finding]:
        """Add a batch to the progress, and return the new findings from its disagreements."""
        results = [
            self._new_finding(wrong, batch) for wrong in wrongs if not self._state.seen(wrong.signature)
        ]
        looked = [each.check.name for each in self._judge.scheduled if each.takes(batch)]
        for name in looked:
            self.executions[name] += batch.count
        self._state.count(batch.count, failed=bool(wrongs), checks=looked)
        return results

    def _new_finding(self, wrong: Disagreement, batch: CaseRange) -> Finding:
        """Reduce the batch of a disagreement to a small case, and store the case as a finding."""
        items: Sequence[bytes] = self._judge.items(batch)
        bounds, row, failure = self._judge.bounds, wrong.row, wrong
        check = next((each.check for each in self._judge.scheduled if each.check.name == wrong.check), None)
        if check is not None:
            budget = Budget(self._tries, seconds=min(REDUCED_SECONDS, self._left_s()))
            row, items = reduced(check, wrong, items, bounds, budget)
            failure = first_of(check, wrong, items, bounds) or wrong
        elif row >= 0:
            items = [items[row]]
        outcome = CaseOutcome(kind=wrong.kind, signature=wrong.signature, output=failure.detail + "\n")
        index = batch.index + max(row, 0)
        finding = Finding(frames=tuple(items), outcome=outcome, seed=self._judge.cases.seed, index=index)
        self._state.keep(finding, self._line, name=self._file)
        return finding


def _scheduled(checks: Sequence[BatchCheck], every: Mapping[str, int]) -> tuple[ScheduledCheck, ...]:
    known = [check.name for check in checks]
    for name in every:
        if name not in known:
            raise ParameterError(name="every", needed=f"one of {', '.join(known)}", got=name)
    scheduled = (ScheduledCheck(check=check, every=every.get(check.name, check.every)) for check in checks)
    return tuple(each for each in scheduled if each.every)
