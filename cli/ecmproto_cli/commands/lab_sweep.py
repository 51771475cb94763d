"""``ecmproto lab sweep``: a scenario over many values of its parameters, on all cores."""

from __future__ import annotations

import csv
import functools
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto_cli.commands.lab import Setup, scenario_argument, setting_options
from ecmproto_cli.errors import INTERRUPTED
from ecmproto_cli.options import color_option, force_option
from ecmproto_cli.output import check_outputs, columns_of, paint
from ecmproto_cli.progress import is_wanted, work

if TYPE_CHECKING:
    from ecmproto.lab.model import Experiment
    from ecmproto.lab.results.sweeps import Axis, Effect, Point, Row
    from ecmproto.lab.setup.scenario import Scenario

FIGURES = ("queue.mean", "queue.peak", "throughput", "utilisation", "drops")
"""What is swept for unless figures are named: the scenario's own, and these."""


@click.command()
@scenario_argument
@setting_options
@click.option(
    "--sweep", "axes", metavar="KEY=A,B,…", multiple=True,
    help="A key and its values, as control.rp.ru=4Mb/s,8Mb/s; several are combined, each with each.",
)  # fmt: skip
@click.option("--points", metavar="FILE", help="Points, one a line, as 'KEY=VALUE KEY=VALUE'; - is stdin.")
@click.option("--show", "figures", metavar="FIGURE", multiple=True, help="A figure to take, as 'queue.p99'.")
@click.option("--seed", type=click.IntRange(min=0), help="The first seed.  [default: the scenario's]")
@click.option(
    "--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="K",
    help="Run each point with K seeds.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes.  [default: one a core]")
@click.option("--shard", metavar="I/N", help="Run only the I-th of N parts, as 3/40.")
@click.option(
    "--out", metavar="FILE",
    help="Add each finished point to this file, and skip those that it has: a line of JSON each.",
)  # fmt: skip
@click.option(
    "--figure", metavar="FILE",
    help="Draw a heat map for each figure, of one or two keys: .png or .svg; needs ecmproto[report].",
)  # fmt: skip
@force_option
@click.option("--effects", is_flag=True, help="Show what each factor does, of two values each (2ᵏ design).")
@click.option(
    "-T", "form", type=click.Choice(["text", "json", "ndjson", "csv"]), default="text", show_default=True,
    help="How to report; ndjson writes each point as it is done.",
)  # fmt: skip
@color_option
def command(
    scenario: str,
    setup: Setup,
    axes: tuple[str, ...],
    points: str | None,
    figures: tuple[str, ...],
    seed: int | None,
    seeds: int,
    jobs: int | None,
    shard: str | None,
    out: str | None,
    figure: str | None,
    force: bool,
    effects: bool,
    form: str,
) -> int:
    """Run SCENARIO over many values of its parameters.

    With --out the same command goes on where it ended: points are known by the scenario, what is set, the
    seed and the code.

    \b
    ecmproto lab sweep bcn-symmetric --sweep control.rp.ru=0.8Mb/s,8Mb/s --sweep control.cp.sf=15kB,150kB \\
        --seeds 3 --effects --out bcn.ndjson
    ecmproto lab sweep fecn-symmetric --sweep control.rp.n0=20,40,80,100 --shard 1/4 --out part-1.ndjson
    """
    from ecmproto.lab.results.sweeps import (
        LocalExecutor,
        ResultFile,
        Shard,
        code_digest,
        full_factorial,
        listed_points,
        parse_axis,
        parse_shard,
        run_sweep,
    )
    from ecmproto.lab.setup.figures import parse_figure

    if bool(axes) == bool(points):
        raise click.UsageError("needed --sweep KEY=A,B,… or --points FILE: what to run")
    if effects and points:
        raise click.UsageError("--effects is for --sweep, with two values of each key")
    if figure:
        _check_figure(figure, force)
    found = setup.scenario(scenario)
    parsed = [parse_axis(text) for text in axes]
    first = found.seed if seed is None else seed
    numbers = range(first, first + seeds)
    every = full_factorial(parsed, numbers) if axes else listed_points(_lines(points or "-"), numbers)
    part = (parse_shard(shard) if shard else Shard()).of(every)
    for point in dict.fromkeys(point.settings for point in part):
        with_settings(found, point).experiment()
    own = found.experiment()
    texts = list(figures) or _figures(own)
    for text in texts:
        parse_figure(text)
    file = ResultFile(out) if out else None
    task = functools.partial(run_point, scenario=found, figures=tuple(texts))
    executor = LocalExecutor(min(jobs or os.cpu_count() or 1, max(1, len(part))))
    teller = _Teller(len(part), form == "ndjson")
    try:
        rows = run_sweep(
            part,
            task,
            scenario=json.dumps([found.toml(), texts]),
            file=file,
            executor=executor,
            code=code_digest(),
            done=teller.done,
        )
        stopped = False
    except KeyboardInterrupt:
        rows, stopped = teller.rows, True
    work.end()
    found_effects = _effects(rows, parsed, texts) if effects and not stopped else {}
    if form == "json":
        document: dict[str, object] = {"schema": "ecmproto/lab-sweep/1", "rows": rows}
        if found_effects:
            document["effects"] = _effects_as_dict(found_effects)
        click.echo(json.dumps(document, indent=2))
    elif form != "ndjson":
        _show(rows, parsed or _axes_of(part), texts, form)
    if form == "text":
        for text, each in found_effects.items():
            click.echo(f"\n{_effects_table(text, each)}")
    if figure:
        _draw(figure, force, f"{found.name}: {own.title}", rows, parsed or _axes_of(part), texts)
    return INTERRUPTED if stopped else 0


def _check_figure(path: str, force: bool) -> None:
    """Check before the work that the picture can be written."""
    from ecmproto.report.html import report_form

    report_form(path)
    check_outputs([path], force=force)


def _draw(
    path: str, force: bool, title: str, rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str]
) -> None:
    from ecmproto.capture import open_sink
    from ecmproto.report.sweeps import heat_maps

    content = heat_maps(title, rows, axes, figures, path)
    with open_sink(path, force=force) as sink:
        sink.write(content)


def run_point(point: Point, *, scenario: Scenario, figures: Sequence[str]) -> Row:
    """Run a point of a scenario and return its figures."""
    from ecmproto.lab.results.measurements import RunFigures
    from ecmproto.lab.setup.figures import parse_figure
    from ecmproto.lab.simulation.simulate import simulate

    result = simulate(with_settings(scenario, point.settings).experiment(), seed=point.seed)
    run = RunFigures(result)
    values = {text: parse_figure(text).evaluate(run) for text in figures}
    finite = {
        text: [value if math.isfinite(value) else None for value in each] for text, each in values.items()
    }
    return {"figures": finite, "events": result.events, "elapsed_s": round(result.elapsed_s, 3)}


def with_settings(scenario: Scenario, settings: Sequence[tuple[str, str]]) -> Scenario:
    """Return a scenario at a point of the sweep; SpecError for a key or a value that it cannot have."""
    for path, value in settings:
        scenario = scenario.with_value(path, value)
    return scenario


def _lines(path: str) -> list[str]:
    if path == "-":
        return sys.stdin.readlines()
    return Path(path).read_text().splitlines()


def _figures(experiment: Experiment) -> list[str]:
    """Return the figures that a scenario is about, as far as they are of one run, and the usual ones."""
    from ecmproto.lab.setup.figures import parse_figure

    measure = experiment.measure
    own = [*(band.figure for band in measure.bands), *(each.figure for each in measure.published)]
    return [text for text in dict.fromkeys((*own, *FIGURES)) if not parse_figure(text).runs]


class _Teller:
    """Says which points are done."""

    def __init__(self, points: int, as_json: bool) -> None:
        self.rows: list[Row] = []
        self._points = points
        self._as_json = as_json
        self._known = 0

    def done(self, row: Row, was_known: bool) -> None:
        """Take a finished row."""
        self.rows.append(row)
        self._known += was_known
        if self._as_json:
            click.echo(json.dumps(row))
        elif is_wanted() and not was_known:
            work.end()
            settings = ", ".join(f"{key}={value}" for key, value in row["settings"].items())
            known = f", {self._known} of them before" if self._known else ""
            text = f"{len(self.rows)} of {self._points} done{known}: {settings}, seed {row['seed']}"
            click.echo(f"ecmproto: {text}", err=True)


def _axes_of(points: Sequence[Point]) -> list[Axis]:
    """Return the keys that listed points set, each with its values."""
    from ecmproto.lab.results.sweeps import Axis

    values: dict[str, dict[str, None]] = {}
    for point in points:
        for path, value in point.settings:
            values.setdefault(path, {})[value] = None
    return [Axis(path=path, values=tuple(each)) for path, each in values.items()]


def _show(rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str], form: str) -> None:
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([*(axis.path for axis in axes), "seed", *figures])
        for row in rows:
            settings = [row["settings"].get(axis.path, "") for axis in axes]
            writer.writerow([*settings, row["seed"], *(_csv_value(row, text) for text in figures)])
    else:
        click.echo(_table(rows, axes, figures))


def _csv_value(row: Row, figure: str) -> str:
    return " ".join("" if value is None else repr(value) for value in row["figures"].get(figure, ()))


def _table(rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str]) -> str:
    """Return a line for each combination: the median over seeds of each figure."""
    import statistics

    from ecmproto.lab.results.sweeps import cells
    from ecmproto.lab.setup.figures import parse_figure

    found = {text: cells(rows, axes, text) for text in figures}
    lines: list[tuple[str, Sequence[str]]] = [(", ".join(axis.path for axis in axes), list(figures))]
    for key in dict.fromkeys(key for each in found.values() for key in each):
        shown = [parse_figure(text).show(statistics.median(found[text][key])) for text in figures]
        lines.append((", ".join(key), shown))
    return columns_of(lines)


def _effects(rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str]) -> dict[str, list[Effect]]:
    from ecmproto.lab.results.sweeps import effects

    return {text: effects(rows, axes, text) for text in figures}


def _effects_as_dict(found: dict[str, list[Effect]]) -> dict[str, list[dict[str, object]]]:
    """Return effects for JSON, which has no NaN."""

    def known(value: float) -> float | None:
        return None if math.isnan(value) else value

    return {
        text: [
            {"factors": each.factors, "effect": known(each.effect), "explained": known(each.explained)}
            for each in effects
        ]
        for text, effects in found.items()
    }


def _effects_table(figure: str, effects: Sequence[Effect]) -> str:
    from ecmproto.lab.setup.figures import parse_figure

    show = parse_figure(figure).show
    lines: list[tuple[str, Sequence[str]]] = [("", ["effect", "of the variation"])]
    for each in effects:
        share = "–" if math.isnan(each.explained) else f"{100 * each.explained:.1f} %"
        if math.isnan(each.effect):
            lines.append(("the seeds", ["", share]))
        elif each.factors:
            lines.append((" × ".join(each.factors), [show(each.effect), share]))
        else:
            lines.append(("mean", [show(each.effect), ""]))
    return f"{paint(f'effects on {figure}', 'title')}\n{columns_of(lines)}"
