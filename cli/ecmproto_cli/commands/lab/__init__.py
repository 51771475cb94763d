"""``ecmproto lab``: experiments in simulated networks of hosts and switches.

This module has the subcommands ``list``, ``show`` and ``new``, and the common parts of all subcommands. The
other subcommands are modules, which are imported when they are called.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import TYPE_CHECKING

import click

from ecmproto.errors import counted
from ecmproto_cli.capturing import handled
from ecmproto_cli.main import LazyGroup
from ecmproto_cli.options import F, force_option, form_option, jobs_option, options_as, processors
from ecmproto_cli.output import pairs
from ecmproto_cli.progress import is_enabled, work
from ecmproto_cli.terminal import echo, echo_over, paint

if TYPE_CHECKING:
    from ecmproto.control.lab.model import Experiment
    from ecmproto.control.lab.results.running import Runs
    from ecmproto.control.lab.setup.changes import Changes
    from ecmproto.control.lab.setup.scenario import Scenario
    from ecmproto.control.lab.simulation.series import Progress, RunResult
    from ecmproto.frames.capture import PcapngWriter

COMMANDS = {
    "list": "List the bundled scenarios.",
    "show": "Show a scenario: its network, flows, parameters and bands.",
    "new": "Write a commented scenario as a starting point.",
    "run": "Run a scenario, and compare its figures with the published ones.",
    "compare": "Run a scenario through several mechanisms, side by side.",
    "sweep": "Run a scenario over many values of its parameters.",
    "papers": "",
}


@click.group(cls=LazyGroup, table=COMMANDS, prefix="lab.")
def command() -> None:
    """Simulate networks of hosts and switches in virtual time.

    A SCENARIO is the name of a bundled scenario (lab list), a TOML file, or a capture. All sources in a
    capture send to one port.
    """


def setting_options(function: F) -> F:
    """Return ``function`` with the options that change a scenario, from ``--variant`` to ``--outside``.

    The command receives ``setup``, a `Setup`.
    """
    options = (
        click.option("--variant", metavar="NAME", help="Variant of the scenario (see lab show)."),
        click.option(
            "--mechanism", metavar="NAME", help="Use another mechanism. none disables congestion control."
        ),
        click.option(
            "--flow-control", type=click.Choice(["none", "pause", "pfc"]),
            help="Use PAUSE, PFC or no flow control together with the mechanism.",
        ),
        click.option(
            "--set", "settings", metavar="NAME=VALUE", multiple=True,
            help="Set a value of the scenario, such as control.rp.ru=8Mb/s or duration=50ms (see lab show).",
        ),
        click.option(
            "--outside", is_flag=True,
            help="Allow the scenario to use URLs and files outside its folder.",
        ),
    )  # fmt: skip
    return options_as(function, options, Setup, "setup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The changes that options make to a scenario."""

    variant: str | None = None
    mechanism: str | None = None
    flow_control: str | None = None
    settings: tuple[str, ...] = ()
    outside: bool = False

    def scenario(self, name: str) -> Scenario:
        """Load a scenario by name or file, and return the scenario with the changes.

        Raises SpecError for unknown settings.
        """
        from ecmproto.control.lab.setup.scenario import load_scenario

        return self.applied(load_scenario(name, outside=self.outside))

    def applied(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the changes."""
        return self._changes().applied(scenario)

    def named(self, scenario: Scenario, name: str) -> Scenario:
        """Return the changed scenario for the run to which a figure refers as ``@name``."""
        return self._changes().named(scenario, name)

    def _changes(self) -> Changes:
        from ecmproto.control.lab.setup.changes import Changes

        return Changes(
            variant=self.variant,
            mechanism=self.mechanism,
            flow_control=self.flow_control,
            settings=self.settings,
        )


def seed_options(function: F) -> F:
    """Return ``function`` with the options ``--seed``, ``--seeds`` and ``--jobs``.

    The command receives ``seeding``, a `Seeding`.
    """
    options = (
        click.option(
            "--seed", type=click.IntRange(min=0),
            help="Seed of all random numbers.  [default: the scenario's]",
        ),
        click.option(
            "--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="K",
            help="Run with K consecutive seeds, and report median and range.",
        ),
        jobs_option,
    )  # fmt: skip
    return options_as(function, options, Seeding, "seeding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeding:
    """The first seed, the number of seeds, and the number of concurrent runs."""

    seed: int | None = None
    seeds: int = 1
    jobs: int | None = None

    def all_seeds(self, scenario: Scenario) -> list[int]:
        """Return consecutive seeds, and print the seeds on stderr.

        The first seed is the seed from ``--seed``, or the scenario's seed.
        """
        first = scenario.seed if self.seed is None else self.seed
        seeds = [first + number for number in range(self.seeds)]
        echo(f"ecmproto: {seeds_text(seeds)}", err=True)
        return seeds


def seeds_text(seeds: Sequence[int]) -> str:
    """Return a text with the first and the last of consecutive seeds."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


scenario_argument = click.argument("scenario")


# Running --------------------------------------------------------------------------------------------------

_REPORT_INTERVAL_S = 0.5
"""Minimum interval between progress reports in seconds."""


@dataclass
class ProgressReporter:
    """Reports the progress of runs as lines of JSON on stdout, or in a line on stderr that is overwritten.

    The first Ctrl-C sets ``stopped``. Then the current run ends after its current window, and its results are
    kept.
    """

    as_json: bool
    runs: int
    stopped: bool = False
    _number: int = 0
    _reported_s: float = 0.0
    _line: bool = False

    def watch_of(self, experiment: Experiment, seed: int) -> Callable[[Progress], bool]:
        """Return a function that reports the progress of the next run.

        The function returns False if the run should stop.
        """
        self._number += 1
        label = f"{experiment.name}, {experiment.control.mechanism}, seed {seed}"
        if self.runs > 1:
            label += f" ({self._number} of {self.runs})"
        work.at(f"lab {label}")

        def watch(progress: Progress) -> bool:
            if self.as_json:
                self._show_json(experiment, seed, progress)
            elif is_enabled() and sys.stderr.isatty():
                self._show(label, progress)
            return not self.stopped

        return watch

    def _to_go_s(self, progress: Progress) -> float:
        left_ns = progress.duration_ns - progress.now_ns
        return progress.elapsed_s * left_ns / progress.now_ns if progress.now_ns else 0.0

    def _show_json(self, experiment: Experiment, seed: int, progress: Progress) -> None:
        rate = progress.events / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
        document = {
            "schema": "ecmproto/lab-progress/1",
            "scenario": experiment.name,
            "mechanism": experiment.control.mechanism,
            "seed": seed,
            "time_ns": progress.now_ns,
            "duration_ns": progress.duration_ns,
            "frames": progress.frames,
            "events": progress.events,
            "events_per_s": round(rate),
            "to_go_s": round(self._to_go_s(progress), 3),
        }
        work.end()
        echo(json.dumps(document))

    def _show(self, label: str, progress: Progress) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s < _REPORT_INTERVAL_S or progress.elapsed_s < _REPORT_INTERVAL_S:
            return
        self._reported_s = now_s
        from ecmproto.units import format_time

        work.end()
        rate = progress.events / progress.elapsed_s
        text = (
            f"{label}: {format_time(progress.now_ns)} of {format_time(progress.duration_ns)}, "
            f"{rate / 1e6:.2f} million events/s, {self._to_go_s(progress):.0f} s to go"
        )
        echo_over(text)
        self._line = True

    def end(self) -> None:
        """Clear the progress line."""
        if self._line:
            echo_over()
            self._line = False

    @contextmanager
    def interruptible(self, runs: Runs) -> Iterator[None]:
        """Stop the run after its current window on the first Ctrl-C, and at once on the second."""

        def stop(signum: int, frame: FrameType | None) -> None:
            if self.stopped or runs.jobs > 1:
                raise KeyboardInterrupt
            self.stopped = True
            echo("\necmproto: stopping; Ctrl-C once more to exit at once", err=True)

        try:
            with handled((signal.SIGINT,), stop):
                yield
        finally:
            self.end()


def run_experiments(
    experiments: Mapping[str, Experiment],
    seeds: Sequence[int],
    *,
    jobs: int | None,
    parts: int = 1,
    as_json: bool,
    trace: PcapngWriter | None = None,
) -> Runs:
    """Run experiments with all seeds, and return the results.

    By default, the number of processes times ``parts`` is at most the number of cores. Ctrl-C ends the runs,
    but keeps the finished results. ``trace`` receives the frames of the first run.
    """
    from ecmproto.control.lab.results.running import Runs

    count = len(experiments) * len(seeds)
    jobs = min(jobs or max(1, processors() // parts), count)
    runs = Runs(experiments, seeds, jobs=jobs, parts=parts, trace=trace)
    reporter = ProgressReporter(as_json=as_json, runs=count)

    def done(result: RunResult) -> None:
        reporter.end()

    with reporter.interruptible(runs):
        runs.run(reporter.watch_of, done)
    work.end()
    if not runs.results:
        raise click.Abort
    return runs


# Commands without a run -----------------------------------------------------------------------------------


@command.command("list")
@form_option("text", "json", help="Format of the list.")
def list_command(form: str) -> None:
    """List the bundled scenarios with title, source and variants."""
    from ecmproto.control.lab.setup.scenario import load_scenario, scenario_names

    rows = []
    for name in scenario_names():
        scenario = load_scenario(name)
        head = scenario.document.scenario
        rows.append(
            {
                "name": name,
                "title": head.get("title", ""),
                "source": head.get("source", ""),
                "mechanism": scenario.document.control.get("mechanism", "none"),
                "variants": dict(scenario.variants),
            }
        )
    if form == "json":
        echo(json.dumps({"schema": "ecmproto/lab-list/1", "scenarios": rows}, indent=2))
        return
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        source = f" ({row['source']})" if row["source"] else ""
        echo(f"{paint(str(row['name']).ljust(width), 'name')}  {row['title']}{source}", wrap=True)
        for variant, title in dict(row["variants"]).items():
            echo(f"{' ' * width}    {paint(f':{variant}', 'name')}  {title}", wrap=True)


@command.command("show")
@scenario_argument
@setting_options
@form_option(
    "text", "json", "toml", show_default=True,
    help="Format of the output. toml prints the scenario file.",
)  # fmt: skip
def show_command(scenario: str, setup: Setup, form: str) -> None:
    """Show a scenario: each value with its source, bands, published figures and variants."""
    base = setup.scenario(scenario)
    experiment = base.experiment()
    if form == "toml":
        echo(base.toml(), nl=False)
        return
    rows = base.explain()
    if form == "json":
        document = {
            "schema": "ecmproto/lab-scenario/1",
            "name": base.name,
            "title": experiment.title,
            "source": experiment.source,
            "values": [asdict(row) for row in rows],
            "bands": [asdict(band) for band in experiment.measure.bands],
            "published": [asdict(each) for each in experiment.measure.published],
            "variants": dict(base.variants),
        }
        echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    _show_scenario(base, experiment)


def _show_scenario(scenario: Scenario, experiment: Experiment) -> None:
    from ecmproto.control.lab.results.outcome import band_text

    network, measure = experiment.network, experiment.measure
    source = f" ({experiment.source})" if experiment.source else ""
    echo(f"{paint(scenario.name, 'title')}: {experiment.title}{source}", wrap=True)
    sizes = [
        counted(len(network.hosts), "host"),
        counted(len(network.switches), "switch").replace("switchs", "switches"),
        counted(len(network.links), "link"),
        counted(len(experiment.flows), "flow"),
    ]
    echo(f"{', '.join(sizes)}\n")
    rows = scenario.explain()
    width = max(len(row.path) for row in rows)
    values = max(len(row.value) for row in rows)
    for row in rows:
        by = row.set_by if not row.source else f"{row.set_by}, {row.source}"
        echo(
            f"  {paint(row.path.ljust(width), 'name')}  {row.value.ljust(values)}  {paint(by, 'dim')}",
            wrap=True,
        )
    if measure.bands:
        echo(f"\n{paint('bands', 'title')}")
        lines = [(band.figure, f"{band_text(band)}  {band.source}".rstrip()) for band in measure.bands]
        echo(pairs(lines), wrap=True)
    if measure.published:
        echo(f"\n{paint('published', 'title')}")
        lines = [(each.figure, f"{each.value}  {each.source}".rstrip()) for each in measure.published]
        echo(pairs(lines), wrap=True)
    if scenario.variants:
        echo(f"\n{paint('variants', 'title')}")
        echo(pairs(list(scenario.variants.items())), wrap=True)


@command.command("new")
@click.argument("file")
@click.option(
    "--mechanism", metavar="NAME", default="qcn", show_default=True, help="Mechanism of the scenario."
)
@click.option(
    "--topology", metavar="LINE", help="Network, such as 'fat-tree k=4'.  [default: dumbbell sources=4]"
)
@click.option("--like", metavar="SCENARIO", help="Start from a copy of this scenario instead.")
@force_option
def new_command(file: str, mechanism: str, topology: str | None, like: str | None, force: bool) -> None:
    """Write a commented scenario to FILE (- for stdout): a network, a flow, all parameters and a band.

    \b
    ecmproto lab new mine.toml
    ecmproto lab new tree.toml --topology 'fat-tree k=4 buffer=300kB'
    ecmproto lab run mine.toml
    """
    if like and topology:
        raise click.UsageError("--like already defines the network: omit --topology")
    from ecmproto.control.lab.setup.scenario import load_scenario, template
    from ecmproto.frames.capture.writer import write_output

    text = load_scenario(like).toml() if like else template(mechanism, topology)
    write_output(file, text, force=force)
    if file != "-":
        echo(f"ecmproto: wrote {file}; next: ecmproto lab run {file}", err=True)
