"""``ecmproto lab run``: run a scenario and compare its figures with published figures and expectations."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from ecmproto_cli.commands.lab import (
    Seeding,
    Setup,
    run_experiments,
    scenario_argument,
    seed_options,
    setting_options,
)
from ecmproto_cli.errors import FINDINGS, INTERRUPTED
from ecmproto_cli.options import F, force_option, form_option, options_as, write_option
from ecmproto_cli.output import check_outputs
from ecmproto_cli.progress import work
from ecmproto_cli.terminal import Printed, echo, paint

if TYPE_CHECKING:
    from ecmproto.control.lab.results.outcome import Check, Outcome
    from ecmproto.control.lab.setup.scenario import Scenario
    from ecmproto.frames.capture import PcapngWriter
    from ecmproto.tools.report.figures import Kind


PANELS = ("queue", "losses", "delivered", "sent", "slowdown", "phase", "messages")


def report_options(function: F) -> F:
    """Return ``function`` with the options ``--report``, ``--panels``, ``--force`` and ``-T``.

    The command receives ``reports``, a `Reports`, and ``form``.
    """
    form = form_option(
        "text", "json", "ndjson", "csv", show_default=True,
        help="Format of the report. ndjson reports progress during the run, and ends with the result.",
    )  # fmt: skip
    options = (
        click.option(
            "--report", "files", metavar="FILE", multiple=True,
            help="Write a .html page with all results, or a .png or .svg picture of queues, rates, drops "
            "and pauses; needs ecmproto[report].",
        ),
        click.option(
            "--panels", metavar="KIND,…", default=",".join(PANELS), show_default=True, callback=_panels,
            help="Panels of the .png or .svg picture.",
        ),
        force_option,
    )  # fmt: skip
    return options_as(form(function), options, Reports, "reports")


def _panels(ctx: click.Context, param: click.Parameter, given: str) -> tuple[str, ...]:
    panels = tuple(each.strip() for each in given.split(","))
    for each in panels:
        if each not in PANELS:
            raise click.BadParameter(f"expected some of {', '.join(PANELS)}, got {each!r}")
    return panels


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The requested report files, and the panels of pictures."""

    files: tuple[str, ...]
    panels: tuple[Kind, ...]
    force: bool

    def check(self, trace: str | None = None) -> None:
        """Raise an error if a report, or the trace of frames, cannot be written."""
        check_outputs([trace], reports=self.files, force=self.force)

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Write the reports in the formats of their suffixes."""
        if not self.files:
            return
        from ecmproto.frames.capture.writer import write_output
        from ecmproto.tools.report.labs import picture

        for path in self.files:
            work.at(f"report {path}")
            write_output(path, picture(outcomes, path, self.panels), force=self.force)


@click.command()
@scenario_argument
@setting_options
@seed_options
@click.option(
    "--expect", "expectations", metavar="'FIGURE < VALUE'", multiple=True,
    help="Exit with 1 if this condition is false for any seed, such as 'queue.p99 < 40kB'.",
)  # fmt: skip
@click.option(
    "--show",
    "figures",
    metavar="FIGURE",
    multiple=True,
    help="Also show this figure, such as 'rate.settling(r1, 5%)'.",
)
@click.option(
    "--parts", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
    help="Divide the network into N parts, and simulate the parts of a run at the same time.",
)  # fmt: skip
@write_option("Write all frames of the first run as pcapng, with an interface for each direction of a link.")
@report_options
def command(
    scenario: str,
    setup: Setup,
    seeding: Seeding,
    expectations: tuple[str, ...],
    figures: tuple[str, ...],
    parts: int,
    output: str | None,
    reports: Reports,
    form: str,
) -> int:
    """Run SCENARIO and compare its figures with the published ones.

    SCENARIO is the name of a bundled scenario (lab list), a .toml file, or a capture. All sources in a
    capture send to one port.

    A correct implementation meets the bands for nine of ten seeds. Exits with 1 if a band is missed.  Ctrl-C
    stops the run and shows the results so far.

    \b
    ecmproto lab run bcn-parking-lot --seeds 5
    ecmproto lab run all-to-all --parts 2
    ecmproto lab run qcn-baseline-1 --mechanism pfc --report pfc.html
    ecmproto lab run mine.toml --set duration=50ms --expect 'queue.p99 < 40kB' --expect 'drops == 0'
    ecmproto lab run bcn-symmetric --set duration=20ms -w frames.pcapng
    ecmproto lab run in.pcap --mechanism qcn --set topology.rate=1G --set qeq=33kB
    """
    from ecmproto.control.lab.results.outcome import Outcome
    from ecmproto.control.lab.results.running import runs_named
    from ecmproto.control.lab.setup.figures import parse_expectation, parse_figure
    from ecmproto.control.lab.setup.scenario import load_scenario

    expected = [parse_expectation(text) for text in expectations]
    for text in figures:
        parse_figure(text)
    _check_trace(output, parts)
    reports.check(output)
    base = load_scenario(scenario, outside=setup.outside)
    applied = setup.applied(base)
    experiment = applied.experiment()
    experiments = {"": experiment}
    for name in runs_named(experiment, figures=figures, expectations=expected):
        experiments[name] = setup.named(base, name).experiment()
    seeds = seeding.all_seeds(applied)
    with _tracing(output, force=reports.force) as trace:
        runs = run_experiments(
            experiments, seeds, jobs=seeding.jobs, parts=parts, as_json=form == "ndjson", trace=trace
        )
    others = {name: each for name, each in runs.results.items() if name}
    outcome = Outcome(experiment, runs.results[""], variant=applied.variant, others=others, figures=figures)
    checks = [outcome.check(each) for each in expected]
    _show(outcome, checks, form, applied)
    reports.write([outcome])
    if runs.stopped:
        return INTERRUPTED
    return 0 if outcome.holds and all(check.holds for check in checks) else FINDINGS


def _check_trace(path: str | None, parts: int) -> None:
    """Raise UsageError for a trace to stdout, in another format, or of a divided network."""
    from ecmproto.frames.capture import format_of

    if path is None:
        return
    if path == "-" or format_of(path, "pcapng") != "pcapng":
        raise click.UsageError(f"-w {path}: expected a pcapng file, since only pcapng has interfaces")
    if parts > 1:
        raise click.UsageError(f"-w {path}: expected a run in 1 part, whose frames are in order, got {parts}")


def _tracing(path: str | None, *, force: bool) -> AbstractContextManager[PcapngWriter | None]:
    """Return a context with a writer for the frames of a run, or with None if there is no path."""
    if path is None:
        return nullcontext()
    from ecmproto.frames.capture import PcapngWriter

    return PcapngWriter(path, interfaces=(), force=force)


def _show(outcome: Outcome, checks: Sequence[Check], form: str, scenario: Scenario) -> None:
    if form == "csv":
        _write_csv(outcome)
    elif form == "text":
        echo(outcome.table(paint), wrap=True)
        for number, check in enumerate(checks):
            echo("" if number else "\n", nl=False)
            echo(paint(check.sentence(), "name" if check.holds else "error"))
    else:
        expectations = [{"text": check.text, "held": list(check.verdicts)} for check in checks]
        document = outcome.as_dict() | ({"expectations": expectations} if checks else {})
        document["values"] = [asdict(row) for row in scenario.explain()]
        echo(json.dumps(document, indent=2 if form == "json" else None))


def _write_csv(outcome: Outcome) -> None:
    from ecmproto.control.lab.results.outcome import unit_of

    writer = csv.writer(Printed(), lineterminator="\n")
    writer.writerow(
        ["scenario", "variant", "mechanism", "seed", "figure", "number", "value", "unit", "low", "high"]
    )
    for row in outcome.rows:
        low, high = (row.band.low, row.band.high) if row.band else (None, None)
        head = [outcome.experiment.name, outcome.variant, outcome.experiment.control.mechanism]
        for seed, values in zip(outcome.seeds, row.values, strict=True):
            for number, value in enumerate(values, 1):
                shown = "" if math.isnan(value) else value
                writer.writerow([*head, seed, row.figure.text, number, shown, unit_of(row.figure), low, high])
