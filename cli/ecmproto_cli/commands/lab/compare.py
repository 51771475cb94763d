"""``ecmproto lab compare``: run a scenario with mechanisms, without control, with PAUSE and with PFC."""

from __future__ import annotations

import csv
import json
import math
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
from ecmproto_cli.commands.lab.run import Reports, report_options
from ecmproto_cli.commands.replay import variants_of
from ecmproto_cli.errors import INTERRUPTED
from ecmproto_cli.terminal import Printed, echo, paint, prose_width

if TYPE_CHECKING:
    from ecmproto.control.lab.results.outcome import Comparison


@click.command()
@scenario_argument
@click.argument("mechanisms", nargs=-1, metavar="[MECHANISM[:NAME=VALUE…]]...")
@setting_options
@seed_options
@click.option("--no-baselines", is_flag=True, help="Omit the baselines (no control, PAUSE and PFC).")
@report_options
def command(
    scenario: str,
    mechanisms: tuple[str, ...],
    setup: Setup,
    seeding: Seeding,
    no_baselines: bool,
    reports: Reports,
    form: str,
) -> int:
    """Run SCENARIO through several mechanisms, with the same seeds, and show their figures side by side.

    The scenario's own mechanism comes first, then the named ones, then the baselines: no control, PAUSE and
    PFC.

    \b
    ecmproto lab compare bcn-parking-lot qcn e2cm fecn
    ecmproto lab compare e2cm-hotspot qcn qcn:w=4 --seeds 5 --report hotspot.html
    """
    from ecmproto.control.lab.model import BASELINES
    from ecmproto.control.lab.results.outcome import Comparison, Outcome

    reports.check()
    base = setup.scenario(scenario)
    own = base.experiment()
    experiments = {_name(own.control.mechanism, own.control.flow_control): own}
    for each in variants_of(",".join(mechanisms)):
        experiment = base.with_mechanism(each.name, each.assignments).experiment()
        if experiment != own:
            experiments[_name(each.text, experiment.control.flow_control)] = experiment
    if not no_baselines:
        for name in BASELINES:
            experiments.setdefault(name, base.with_mechanism(name).experiment())
    seeds = seeding.all_seeds(base)
    runs = run_experiments(experiments, seeds, jobs=seeding.jobs, as_json=form == "ndjson")
    outcomes = {
        name: Outcome(experiments[name], each, variant=base.variant, label=name)
        for name, each in runs.results.items()
    }
    _show(Comparison(outcomes), form)
    reports.write(list(outcomes.values()))
    return INTERRUPTED if runs.stopped else 0


def _name(mechanism: str, flow_control: str | None) -> str:
    return f"{mechanism} over {flow_control}" if flow_control else mechanism


def _show(comparison: Comparison, form: str) -> None:
    if form == "text":
        echo(comparison.table(paint, width=prose_width()), wrap=True)
    elif form == "csv":
        _write_csv(comparison)
    else:
        echo(json.dumps(comparison.as_dict(), indent=2 if form == "json" else None))


def _write_csv(comparison: Comparison) -> None:
    from ecmproto.control.lab.results.outcome import unit_of

    writer = csv.writer(Printed(), lineterminator="\n")
    writer.writerow(["mechanism", "seed", "figure", "number", "value", "unit"])
    for name, outcome in comparison.outcomes.items():
        for text in comparison.figures:
            row = outcome.row(text)
            for seed, values in zip(outcome.seeds, row.values, strict=True):
                for number, value in enumerate(values, 1):
                    shown = "" if math.isnan(value) else value
                    writer.writerow([name, seed, text, number, shown, unit_of(row.figure)])
