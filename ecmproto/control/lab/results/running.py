"""Runs of experiments over seeds, in this process or in several processes."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ecmproto._version import __version__
from ecmproto.control.lab.model import Experiment
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.setup.figures import Expectation, check_borders, parse_figure
from ecmproto.control.lab.simulation.series import RunResult, Watch
from ecmproto.control.lab.simulation.simulate import simulate
from ecmproto.frames.capture import PcapngWriter

WatchOf = Callable[[Experiment, int], Watch]
"""Factory of a run's progress callback; the callback can stop the run, and all later runs."""


class Runs:
    """Experiments by name, all run on the same seeds, and in the same number of parts.

    ``stopped`` is true after a watch or Ctrl-C has ended a run. All frames of the first run are written to
    ``trace``.
    """

    def __init__(
        self,
        experiments: Mapping[str, Experiment],
        seeds: Sequence[int],
        *,
        jobs: int = 1,
        parts: int = 1,
        trace: PcapngWriter | None = None,
    ) -> None:
        self.experiments: dict[str, Experiment] = dict(experiments)
        self.seeds: list[int] = list(seeds)
        self.jobs = jobs
        self.parts = parts
        self.trace = trace
        self.stopped: bool = False
        self.results: dict[str, list[RunFigures]] = {}

    def run(self, watch_of: WatchOf | None = None, done: Callable[[RunResult], None] | None = None) -> None:
        """Run all experiments; a stopped run keeps its results so far, and later runs are skipped."""
        tasks = [
            (name, experiment, seed) for name, experiment in self.experiments.items() for seed in self.seeds
        ]
        try:
            for name, result in self._results(tasks, watch_of):
                self.results.setdefault(name, []).append(RunFigures(result))
                if done is not None:
                    done(result)
                if not result.complete:
                    self.stopped = True
                    return
        except KeyboardInterrupt:
            self.stopped = True

    def _results(
        self, tasks: Sequence[tuple[str, Experiment, int]], watch_of: WatchOf | None
    ) -> Iterator[tuple[str, RunResult]]:
        here = tasks if self.jobs == 1 else tasks[:1]
        for number, (name, experiment, seed) in enumerate(here):
            watch = watch_of(experiment, seed) if watch_of else None
            trace = None if number else self.trace
            yield name, simulate(experiment, seed=seed, parts=self.parts, watch=watch, trace=trace)
        if left := tasks[len(here) :]:
            context = multiprocessing.get_context("spawn")
            # Only this process handles Ctrl-C.
            with context.Pool(
                min(self.jobs, len(left)), signal.signal, (signal.SIGINT, signal.SIG_IGN)
            ) as pool:
                yield from pool.imap(partial(_run_task, self.parts), left)


def _run_task(parts: int, task: tuple[str, Experiment, int]) -> tuple[str, RunResult]:
    name, experiment, seed = task
    return name, simulate(experiment, seed=seed, parts=parts)


def runs_named(
    experiment: Experiment, *, figures: Sequence[str] = (), expectations: Sequence[Expectation] = ()
) -> list[str]:
    """Return the other runs that figures and expectations of an experiment refer to by ``@``.

    Raises SpecError for a time range that does not consist of whole windows.
    """
    measure = experiment.measure
    own = [*map(parse_figure, figures), *(figure for each in expectations for figure in each.figures)]
    for figure in own:
        check_borders(figure.times_ns, measure.window_ns, experiment.duration_ns)
    texts = [*(band.figure for band in measure.bands), *(each.figure for each in measure.published), *figures]
    named = [name for text in texts for name in sorted(parse_figure(text).runs)]
    named += [name for each in expectations for name in sorted(each.runs)]
    return list(dict.fromkeys(named))


def commit_of_code() -> str:
    """Return the commit of this code's checkout; for installed code, return the version."""
    root = Path(__file__).resolve().parents[4]
    if not (root / ".git").exists():
        return __version__
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return __version__
    return result.stdout.strip()
