"""``ecmproto lab run``: a scenario's figures beside the published ones, with bands and expectations."""

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
    seed_options,
    setting_options,
)
from ecmproto_cli.errors import FINDINGS, INTERRUPTED
from ecmproto_cli.options import F, color_option, force_option, inner_option, options_as, write_option
from ecmproto_cli.output import check_outputs
from ecmproto_cli.progress import work
from ecmproto_cli.terminal import Printed, echo, paint

if TYPE_CHECKING:
    from ecmproto.control.lab.results.outcome import Check, Outcome
    from ecmproto.control.lab.setup.scenario import Scenario
    from ecmproto.frames.capture import PcapngWriter
    from ecmproto.tools.report.figures import Kind


PANELS = ("queue", "losses", "delivered", "sent", "phase", "messages")


def report_options(function: F) -> F:
    """Add ``--html``, ``--figure``, ``--panels`` and ``--force``; the command gets a `Reports`."""
    options = (
        click.option(
            "--html", metavar="FILE", multiple=True,
            help="Write one page with all results; needs ecmproto[report].",
        ),
        click.option(
            "--figure", metavar="FILE", multiple=True,
            help="Draw queues, rates, drops and pauses over time: .png or .svg; needs ecmproto[report].",
        ),
        click.option(
            "--panels", metavar="KIND,…", default=",".join(PANELS), show_default=True, callback=_panels,
            help="Panels of --figure.",
        ),
        force_option,
    )  # fmt: skip
    return options_as(function, options, Reports, "reports")


def _panels(ctx: click.Context, param: click.Parameter, given: str) -> tuple[str, ...]:
    panels = tuple(each.strip() for each in given.split(","))
    for each in panels:
        if each not in PANELS:
            raise click.BadParameter(f"expected some of {', '.join(PANELS)}, got {each!r}")
    return panels


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The report files of runs."""

    html: tuple[str, ...]
    figure: tuple[str, ...]
    panels: tuple[Kind, ...]
    force: bool

    def check(self, trace: str | None = None) -> None:
        """Check before the work that they, and a trace of the frames, can be written."""
        if self.html or self.figure or trace:
            check_outputs([*self.html, *self.figure, trace], force=self.force)
        if self.html or self.figure:
            from ecmproto.tools.report.html import report_form

            for path in (*self.html, *self.figure):
                report_form(path)

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Write them, each by the suffix of its name."""
        if not (self.html or self.figure):
            return
        from ecmproto.frames.capture import open_sink
        from ecmproto.tools.report.html import write_report
        from ecmproto.tools.report.labs import lab_report, picture

        for path in self.html:
            work.at(f"report {path}")
            write_report(lab_report(outcomes), path, force=self.force)
        for path in self.figure:
            work.at(f"figure {path}")
            content = picture(outcomes, path, self.panels)
            with open_sink(path, force=self.force) as sink:
                sink.write(content)


@click.command()
@click.argument("scenario", required=False)
@click.option(
    "--capture", metavar="FILE",
    help="Replace SCENARIO by one port to which all sources of this capture send, as in replay.",
)  # fmt: skip
@click.option(
    "--rate", metavar="RATE[,RATE@TIME…]",
    help="With --capture: rate of the port, and initially of its sources' links.  [default: 10G]",
)  # fmt: skip
@click.option(
    "--buffer", metavar="SIZE", help="With --capture: buffer of the port, as 500kB or 100frames.  [default: "
    "500kB]"
)  # fmt: skip
@inner_option
@setting_options
@seed_options
@click.option(
    "--expect", "expectations", metavar="'FIGURE < VALUE'", multiple=True,
    help="Exit with 1 unless this holds on every seed, as 'queue.p99 < 40kB'.",
)  # fmt: skip
@click.option(
    "--show",
    "figures",
    metavar="FIGURE",
    multiple=True,
    help="Show this figure too, as 'rate.settling(r1, 5%)'.",
)
@write_option("Write all frames of the (first) run as pcapng: an interface for each direction of a link.")
@report_options
@click.option(
    "-T", "form", type=click.Choice(["text", "json", "ndjson", "csv"]), default="text", show_default=True,
    help="Format of the report: ndjson reports progress during the run, and ends with the result.",
)  # fmt: skip
@color_option
def command(
    scenario: str | None,
    capture: str | None,
    rate: str | None,
    buffer: str | None,
    inner: bool,
    setup: Setup,
    seeding: Seeding,
    expectations: tuple[str, ...],
    figures: tuple[str, ...],
    output: str | None,
    reports: Reports,
    form: str,
) -> int:
    """Run SCENARIO and show its figures beside the published ones.

    A correct implementation meets the bands on nine seeds of ten; exits with 1 where one is missed.  Ctrl-C
    stops the run and shows the results so far.

    \b
    ecmproto lab run bcn-parking-lot --seeds 5
    ecmproto lab run qcn-baseline-1 --mechanism pfc --html pfc.html
    ecmproto lab run mine.toml --set duration=50ms --expect 'queue.p99 < 40kB' --expect 'drops == 0'
    ecmproto lab run bcn-symmetric --set duration=20ms -w frames.pcapng
    ecmproto lab run --capture in.pcap --mechanism qcn --rate 1G --set qeq=33kB
    """
    from ecmproto.control.lab.results.outcome import Outcome
    from ecmproto.control.lab.results.running import runs_named
    from ecmproto.control.lab.setup.figures import parse_expectation, parse_figure

    expected = [parse_expectation(text) for text in expectations]
    for text in figures:
        parse_figure(text)
    _check_trace(output)
    reports.check(output)
    base = _base(scenario, capture, rate, buffer, inner=inner, outside=setup.outside)
    found = setup.applied(base)
    experiment = found.experiment()
    experiments = {"": experiment}
    for name in runs_named(experiment, figures=figures, expectations=expected):
        experiments[name] = setup.named(base, name).experiment()
    seeds = seeding.all_seeds(found)
    with _tracing(output, force=reports.force) as trace:
        runs = run_experiments(experiments, seeds, jobs=seeding.jobs, as_json=form == "ndjson", trace=trace)
    others = {name: each for name, each in runs.results.items() if name}
    outcome = Outcome(experiment, runs.results[""], variant=found.variant, others=others, figures=figures)
    checks = [outcome.check(each) for each in expected]
    _show(outcome, checks, form, found)
    reports.write([outcome])
    if runs.stopped:
        return INTERRUPTED
    return 0 if outcome.holds and all(check.holds for check in checks) else FINDINGS


def _base(
    scenario: str | None,
    capture: str | None,
    rate: str | None,
    buffer: str | None,
    *,
    inner: bool,
    outside: bool,
) -> Scenario:
    """Return the named scenario, or one made from a capture; UsageError for neither or both."""
    from ecmproto.control.lab.setup.scenario import capture_scenario, load_scenario

    if capture is None:
        if scenario is None:
            raise click.UsageError("Missing argument 'SCENARIO', or option '--capture'.")
        if inner:
            raise click.UsageError("--inner goes with --capture: of a scenario --set flow.capture_inner=true")
        for name, given, path in (("--rate", rate, "topology.rate"), ("--buffer", buffer, "topology.buffer")):
            if given is not None:
                raise click.UsageError(f"{name} goes with --capture: of a scenario --set {path}={given}")
        return load_scenario(scenario, outside=outside)
    if scenario is not None:
        raise click.UsageError(f"--capture is a scenario of its own: leave {scenario!r} out")
    return capture_scenario(capture, rate=rate or "10G", buffer=buffer or "500kB", inner=inner)


def _check_trace(path: str | None) -> None:
    """Raise UsageError for a trace in a format without interfaces, or on the stdout of the figures."""
    from ecmproto.frames.capture import format_of

    if path is not None and (path == "-" or format_of(path, "pcapng") != "pcapng"):
        raise click.UsageError(f"-w {path}: expected a file for pcapng, which has interfaces")


def _tracing(path: str | None, *, force: bool) -> AbstractContextManager[PcapngWriter | None]:
    """Open the capture of a run's frames."""
    if path is None:
        return nullcontext()
    from ecmproto.frames.capture import PcapngWriter

    return PcapngWriter(path, interfaces=(), force=force)


def _show(outcome: Outcome, checks: Sequence[Check], form: str, scenario: Scenario) -> None:
    if form == "csv":
        _write_csv(outcome)
    elif form == "text":
        echo(outcome.table(paint))
        for number, check in enumerate(checks):
            echo("" if number else "\n", nl=False)
            echo(paint(check.sentence(), "name" if check.holds else "error"))
    else:
        expectations = [{"text": check.text, "held": list(check.held)} for check in checks]
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
