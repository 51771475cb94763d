"""A resumable campaign against a program that reads captures.  Failures are reduced, sorted and stored.

>>> feed = Feed(frames=Cases(corpus, seed=7))
>>> campaign = TargetCampaign(Command(arguments=("tshark", "-Vr", "{}")), feed, Path("campaign"), jobs=2)
>>> for finding in campaign.run(lambda progress: progress.seconds < 300):
...     print(finding.outcome.signature)
"""

from __future__ import annotations

import dataclasses
import math
import shlex
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from ecmproto.errors import ParameterError
from ecmproto.tools.fuzz.cases import CaseSource
from ecmproto.tools.fuzz.command import CaseOutcome, Command
from ecmproto.tools.fuzz.findings import (
    TIMED_OUT,
    Campaign,
    CampaignState,
    Finding,
    Progress,
    capture_of,
    in_memory,
    in_time,
    judged_again,
    reproduction,
)
from ecmproto.tools.fuzz.minimisation import Budget, fewest, shortest_beginning, simplest, unlimited


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The file for one run, which contains frames or the octets of a mutated capture."""

    items: tuple[bytes, ...]
    """Frames, or the octets of the capture file if ``whole`` is true."""
    index: int
    """Index of the first case."""
    whole: bool = False
    """Whether the item is a complete capture file."""

    @property
    def file(self) -> str:
        """The file name for a finding of this trial."""
        return "case.capture" if self.whole else "case.pcap"

    def part(self, rows: Sequence[int]) -> Trial:
        """Return a trial with some of the items, in order."""
        first = rows[0] if rows else 0
        return dataclasses.replace(
            self, items=tuple(self.items[row] for row in rows), index=self.index + first
        )

    def changed(self, row: int, octets: bytes) -> Trial:
        """Return a copy in which ``octets`` replace one item."""
        return dataclasses.replace(self, items=(*self.items[:row], octets, *self.items[row + 1 :]))

    def filled(self, octets: bytes) -> Trial:
        """Return a copy in which ``octets`` replace every item."""
        return dataclasses.replace(self, items=(octets,) * len(self.items))

    def repeated(self, times: int) -> Trial:
        """Return a copy in which the sequence of items is repeated."""
        return dataclasses.replace(self, items=self.items * times)

    def write(self, path: Path) -> None:
        """Write the file for the program."""
        if self.whole:
            path.write_bytes(b"".join(self.items))
        else:
            path.write_bytes(capture_of(self.items))


class Feed:
    """The trials of a seed. If there are frames and captures, the trials alternate between both.

    Raises ParameterError if both are missing or if they have different seeds.
    """

    def __init__(self, *, frames: CaseSource | None = None, captures: CaseSource | None = None) -> None:
        sources = [source for source in (frames, captures) if source is not None]
        if not sources:
            raise ParameterError(name="feed", needed="frames, captures or both", got="neither")
        if sources[0].seed != sources[-1].seed:
            raise ParameterError(
                name="captures", needed=f"seed {sources[0].seed}, as frames have", got=str(sources[-1].seed)
            )
        self.seed: int = sources[0].seed
        self.corpus: str = "+".join(source.corpus for source in sources)
        """The digest that identifies all corpora."""
        self.unspoilt: tuple[bytes, ...] = () if frames is None else frames.unspoilt
        """Original frames from which the cases are created."""
        self._frames = frames
        self._captures = captures

    def trial(self, *, index: int, number: int, frames: int) -> Trial:
        """Return trial ``number`` with ``frames`` frames or one capture.

        ``index`` is the index of the first case.
        """
        if self._frames is None or (self._captures is not None and number % 2):
            assert self._captures is not None
            case = next(self._captures.starting_at(index))
            return Trial(items=(case.octets,), index=index, whole=True)
        cases = islice(self._frames.starting_at(index), frames)
        return Trial(items=tuple(case.octets for case in cases), index=index)


MAX_JOBS = 256
FIRST_FRAMES = 64
MAX_FRAMES = 8192
_QUICK_S = 0.5
_QUICK_OF_LIMIT = 4
_QUICK_STARTS = 2
"""Maximum duration of a run as a multiple of the program start time."""


class Runs:
    """Runner of a program, with ``jobs`` concurrent trials. Leaving the context ends all running programs."""

    def __init__(self, command: Command, upcoming: Callable[[], Trial], *, jobs: int = 1) -> None:
        self._command = command
        self._upcoming = upcoming
        self._jobs = jobs
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(jobs)
        self._folder = TemporaryDirectory()
        self._started: deque[tuple[Trial, Future[CaseOutcome]]] = deque()
        self._number = 0

    def __enter__(self) -> Runs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._threads.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def next(self) -> tuple[Trial, CaseOutcome]:
        """Return the next trial and its outcome. Raises ParameterError if the program cannot be started."""
        # one more than the concurrent runs, so that a capture is written while programs read other captures
        while len(self._started) <= self._jobs:
            self._start(self._upcoming())
        trial, ending = self._started.popleft()
        return trial, ending.result()

    def _start(self, trial: Trial) -> None:
        path = Path(self._folder.name) / f"{self._number}-{trial.file}"
        self._number += 1
        trial.write(path)
        self._started.append((trial, self._threads.submit(self._run, path)))

    def _run(self, path: Path) -> CaseOutcome:
        try:
            return self._command.run(path, stop=self._stop)
        finally:
            path.unlink()


class RunFrames:
    """The number of frames per run.

    The number is large because starting a program is slower than reading a frame.

    While runs are quick, the number increases until reading takes most of the run time. After a failure, the
    number is halved, because the program may not have read the frames after the failure.
    """

    def __init__(self, fixed: int | None, limit_s: float) -> None:
        self._fixed = fixed is not None
        self.count: int = FIRST_FRAMES if fixed is None else fixed
        self._limit_s = limit_s
        self._start_s = math.inf

    def took(self, frames: int, outcome: CaseOutcome) -> None:
        """Adapt the number after a run of ``frames`` frames."""
        if self._fixed:
            return
        # processor time, because all runs are long on a busy system
        self._start_s = min(self._start_s, outcome.processor_s)
        quick_s = min(max(_QUICK_S, _QUICK_STARTS * self._start_s), self._limit_s / _QUICK_OF_LIMIT)
        if outcome.failed:
            self.count = max(1, min(self.count, frames) // 2)
        elif outcome.processor_s > 2 * quick_s:
            self.count = max(min(self.count, FIRST_FRAMES), self.count // 2)
        elif outcome.processor_s < quick_s and outcome.seconds < self._limit_s / 2 and frames >= self.count:
            self.count = min(MAX_FRAMES, 2 * self.count)


REDUCED_SECONDS = 60.0
"""Maximum number of seconds to reduce a finding, so that the campaign can continue."""
_HANG_STARTS = 4
"""Minimum duration of a hang as a multiple of the program start time."""
_MIN_S = 0.1


_ADDING_UP = ("memory", "hang")
"""Kinds of failures that several frames can cause together."""
_SLACK = 8
"""Number of repeated frames per additional frame.

Additional frames are needed because the cost of a frame varies between runs.
"""


class Reduction:
    """The reduction of a trial.

    ``command`` runs on smaller and smaller parts of the trial, which are written to ``path``.

    First frames are removed, and then octets of the remaining frames. ``tries`` limits the number of runs.
    The reduction ends when ``left_s`` returns no remaining time.
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

    def outcome(self, trial: Trial) -> CaseOutcome:
        """Return the outcome of the program for a trial."""
        trial.write(self._path)
        return self._command.run(self._path)

    def smallest(self, trial: Trial) -> tuple[Trial, CaseOutcome] | None:
        """Return the smallest failing trial and its outcome, or ``None`` if the trial does not fail again."""
        first = self.outcome(trial)
        if first.signature != self._signature:
            return None
        if self.out_of_time:
            return trial, first
        empty = self.outcome(trial.part(()))
        if empty.signature == self._signature:
            # the program fails with any input
            return trial.part(()), empty
        if self._signature == "hang" and not empty.failed:
            seconds = min(self._patient.seconds, max(_MIN_S, _HANG_STARTS * empty.processor_s))
            self._command = dataclasses.replace(self._patient, seconds=seconds)
        smallest = self._fewest(trial)
        self._budget = self._another()
        smallest = self._simplest(smallest)
        self._command = self._patient
        last = self.outcome(smallest)
        return (smallest, last) if last.signature == self._signature else (trial, first)

    @property
    def out_of_time(self) -> bool:
        """Whether no time remains for the reduction."""
        return self._left_s() <= 0

    def _another(self) -> Budget:
        return Budget(self._tries, seconds=min(REDUCED_SECONDS, self._left_s()))

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
            # the limits of the failed run apply, so that each frame has the same cost
            self._command = self._patient
            alike = self._alike(trial, fails)
            if alike:
                return trial.part(alike)
        return trial.part(fewest(rows, fails, self._budget))

    def _alike(self, trial: Trial, fails: Callable[[Sequence[int]], bool]) -> Sequence[int]:
        """Return repetitions of one row that cause the same failure, or an empty sequence if no row is found.

        Rows are searched by halving. A row must cost as much as most rows.
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


DEFAULT_TRIES = 300
_PATIENCE_S = 5.0


class TargetCampaign(Campaign):
    """A campaign that runs a program on trials, with ``jobs`` concurrent runs.

    ``frames_per_run`` is the number of frames in a capture. By default, the number of frames is adapted so
    that a run is quick. ``folder`` contains findings and state. A campaign in the folder is continued. Raises
    ParameterError for a folder with another seed or corpus.
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
        if not 1 <= jobs <= MAX_JOBS:
            raise ParameterError(name="jobs", needed=f"1 to {MAX_JOBS}", got=str(jobs))
        self._command = command
        self._feed = feed
        self._frames = RunFrames(frames_per_run, command.seconds)
        self._jobs = jobs
        self._tries = tries
        self._left_s: Callable[[], float] = unlimited
        self.cut_short: list[str] = []
        """Names of findings whose reduction ran out of time."""
        self._state = CampaignState(folder, seed=feed.seed, corpus=feed.corpus)

    def run(
        self, going_on: Callable[[Progress], bool], *, left_s: Callable[[], float] = unlimited
    ) -> Iterator[Finding]:
        """Run while ``going_on`` returns true, and yield each new defect after it was reduced and saved.

        Defects are reduced while ``left_s`` returns a positive time. Incomplete runs are not counted. The
        next call repeats incomplete runs.
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

    def _judged(self, trial: Trial, outcome: CaseOutcome) -> Finding | None:
        """Add a run to the progress, and return a new finding or ``None``."""
        finding, failed = None, outcome.failed
        if failed and not self._state.seen(outcome.signature):
            finding = self._new_finding(self._command, trial, outcome)
            failed = finding is not None
        elif not failed and self._is_leak_due(trial):
            finding = self._leak(trial)
            failed = finding is not None
        if not trial.whole:
            self._frames.took(len(trial.items), outcome)
        self._state.count(len(trial.items), failed=failed)
        return finding

    def _is_leak_due(self, trial: Trial) -> bool:
        """Return whether a leak check is due.

        Leak checks are due after 1, 2, 4, … runs, until a leak is found.
        """
        runs = self.progress.runs + 1
        return not trial.whole and runs & (runs - 1) == 0 and "memory" not in self.findings

    def _leak(self, trial: Trial) -> Finding | None:
        """Return a reduced and saved finding if the frames of a trial cause a memory leak."""
        result = leaking(self._command, trial, self._feed.unspoilt)
        if result is None:
            return None
        command, trial = result
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / trial.file
            trial.write(path)
            outcome = command.run(path)
        return self._new_finding(command, trial, outcome) if outcome.kind == "memory" else None

    def _new_finding(self, command: Command, trial: Trial, outcome: CaseOutcome) -> Finding | None:
        """Reduce and store a failing trial. Return ``None`` for a hang that does not occur again."""
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / trial.file
            reduction = Reduction(
                command, path, signature=outcome.signature, tries=self._tries, left_s=self._left_s
            )
            reduced = reduction.smallest(trial)
        if reduced is None and outcome.kind == "hang":
            return None
        # a failure that is not reproducible is stored without reduction
        smallest, last = reduced or (trial, outcome)
        finding = Finding(frames=smallest.items, outcome=last, seed=self._feed.seed, index=smallest.index)
        if reduction.out_of_time:
            self.cut_short.append(finding.name)
        self._keep(command, finding, smallest.file)
        return finding

    def _keep(self, command: Command, finding: Finding, file: str) -> None:
        """Save a finding with a command line that reproduces it under the exceeded limit."""
        folder = self._state.folder.absolute() / "findings" / finding.name
        # some programs only run in the current folder, such as python -m with a module in the current folder
        here = f"cd {shlex.quote(str(Path.cwd()))} && "
        alone = _limited(command, finding, reproduction(command.arguments, file))
        called = here + _limited(command, finding, reproduction(command.arguments, str(folder / file)))
        for line in (alone, called):
            self._state.keep(finding, line, name=file)
            if self._shows(command, finding, folder):
                return
        if finding.outcome.kind == "memory":
            # the program reserves more memory from the start, or handles a failed allocation
            self._state.keep(finding, here + judged_again(command, str(folder / file)), name=file)

    def _shows(self, command: Command, finding: Finding, folder: Path) -> bool:
        """Return whether the stored command line reproduces a finding."""
        again = self._shell(f"cd {shlex.quote(str(folder))} && sh reproduce.sh")
        if finding.outcome.kind == "hang":
            return again.status == TIMED_OUT
        if finding.outcome.kind == "memory":
            return again.status != 0 and not self._empty_fails(command)
        return again.signature == finding.outcome.signature

    def _empty_fails(self, command: Command) -> bool:
        """Return whether the program exceeds the memory limit with an empty capture."""
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "empty.pcap"
            path.write_bytes(capture_of(()))
            return self._shell(in_memory(reproduction(command.arguments, str(path)), command)).status != 0

    def _shell(self, line: str) -> CaseOutcome:
        """Run a shell line that contains its own limits."""
        patient = dataclasses.replace(
            self._command,
            arguments=("sh", "-c", line),
            seconds=_PATIENCE_S + 2 * self._command.seconds,
            memory_octets=2 * self._command.memory_octets,
        )
        with tempfile.NamedTemporaryFile() as nothing:
            return patient.run(Path(nothing.name))


def _limited(command: Command, finding: Finding, line: str) -> str:
    """Return a shell line with the limit of ``command`` that a finding exceeded."""
    limit = {"hang": in_time, "memory": in_memory}.get(finding.outcome.kind)
    return line if limit is None else limit(line, command)


_TIMES = 8
_MIN_GROWTH_OCTETS = 4_000_000
_RATIO = 2
"""Minimum ratio between the memory growth of mutated frames and of original frames in a leak."""


def leaking(command: Command, trial: Trial, unspoilt: tuple[bytes, ...]) -> tuple[Command, Trial] | None:
    """Return a command and a trial that show a memory leak, or ``None`` if there is no leak.

    The trial is repeated. The memory limit of the command is lower than the memory use of the repeated trial,
    and higher than for original frames.
    """
    patient = dataclasses.replace(command, measured=True)
    few, many = _peaks(patient, trial)
    if many - few < _MIN_GROWTH_OCTETS or not any(unspoilt):
        return None
    few_sound, many_sound = _peaks(patient, _as_much(trial, unspoilt))
    allowed = _RATIO * (many_sound - few_sound) + _MIN_GROWTH_OCTETS
    if not many_sound or many - few < allowed or many <= many_sound:
        return None
    return dataclasses.replace(patient, memory_octets=(many + many_sound) // 2), trial.repeated(_TIMES)


def _peaks(command: Command, trial: Trial) -> tuple[int, int]:
    """Return the peak memory of a run on a trial and on `_TIMES` repetitions.

    Both values are 0 if a run fails.
    """
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / trial.file
        for times in (1, _TIMES):
            trial.repeated(times).write(path)
            outcome = command.run(path)
            if outcome.failed:
                return 0, 0
            peaks.append(outcome.peak_octets)
    return peaks[0], peaks[1]


def _as_much(trial: Trial, unspoilt: tuple[bytes, ...]) -> Trial:
    """Return a trial of original frames with no fewer frames and octets than ``trial``."""
    octets = sum(map(len, trial.items))
    items: list[bytes] = []
    for item in cycle(unspoilt):
        if len(items) >= len(trial.items) and octets <= 0:
            break
        items.append(item)
        octets -= len(item)
    return dataclasses.replace(trial, items=tuple(items))
