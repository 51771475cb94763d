"""``ecmproto lab sweep``: run a scenario with many values of its parameters, on all cores."""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto.units import format_share, format_time
from ecmproto_cli.commands.lab import Setup, scenario_argument, seeds_text, setting_options
from ecmproto_cli.errors import FINDINGS, INTERRUPTED
from ecmproto_cli.options import Execution, execution_options, force_option, form_option, shard_option
from ecmproto_cli.output import check_outputs, columns_of
from ecmproto_cli.progress import TaskProgress, print_failures
from ecmproto_cli.terminal import Printed, echo, paint

if TYPE_CHECKING:
    from ecmproto.control.lab.model import Experiment
    from ecmproto.control.lab.results.sweeps import Axis, Effect, Point
    from ecmproto.executors.protocol import Shard
    from ecmproto.executors.rows import Row

FIGURES = ("queue.mean", "queue.peak", "throughput", "utilisation", "drops")
"""Figures that are shown by default, in addition to the scenario's own figures."""
CHECKED = 1000
"""Number of points that are checked before the first run; later points are checked when they are run."""


@click.command()
@scenario_argument
@setting_options
@click.option(
    "--sweep", "axes", metavar="NAME=VALUES", multiple=True,
    help="Vary a key over values or a range, such as rp.ru=4Mb/s,8Mb/s or qeq=13kB..52kB:13kB. Several keys "
    "are combined.",
)  # fmt: skip
@click.option(
    "--points", metavar="FILE", help="Read points as lines of 'KEY=VALUE KEY=VALUE'. - reads stdin."
)
@click.option(
    "--show", "figures", metavar="FIGURE", multiple=True, help="Show this figure, such as 'queue.p99'."
)
@click.option("--seed", type=click.IntRange(min=0), help="First seed.  [default: the scenario's]")
@click.option(
    "--seeds", type=click.IntRange(1, 10_000), default=3, show_default=True, metavar="K",
    help="Run each point with K seeds. Tables and pictures show the median.",
)  # fmt: skip
@execution_options
@shard_option
@click.option(
    "-w", "--write", "out", metavar="FILE",
    help="Append each finished point to this file, as a line of JSON, and skip points already in it.",
)  # fmt: skip
@click.option(
    "--report", "figure", metavar="FILE",
    help="Draw a heat map of each figure over one or two keys, as .png or .svg; needs ecmproto[report].",
)  # fmt: skip
@force_option
@click.option("--effects", is_flag=True, help="Show the effects of factors with two values (2ᵏ design).")
@form_option(
    "text", "json", "ndjson", "csv", show_default=True,
    help="Format of the report. ndjson writes each point as soon as the point is finished.",
)  # fmt: skip
def command(
    scenario: str,
    setup: Setup,
    axes: tuple[str, ...],
    points: str | None,
    figures: tuple[str, ...],
    seed: int | None,
    seeds: int,
    execution: Execution,
    shard: Shard,
    out: str | None,
    figure: str | None,
    force: bool,
    effects: bool,
    form: str,
) -> int:
    """Run SCENARIO over many values of its parameters.

    With -w, running the same command again resumes the sweep; points are identified by the scenario, its
    settings, the seed and the code.

    \b
    ecmproto lab sweep bcn-symmetric --sweep control.rp.ru=0.8Mb/s,8Mb/s --sweep control.cp.sf=15kB,150kB \\
        --seeds 3 --effects -w bcn.ndjson
    ecmproto lab sweep fecn-symmetric --sweep control.rp.n0=20,40,80,100 --shard 1/4 -w part-1.ndjson
    """
    from ecmproto.control.lab.results.sweeps import (
        PointRow,
        full_factorial,
        in_order,
        listed_points,
        parse_axis,
        run_sweep,
        sweep_call,
        with_settings,
    )
    from ecmproto.control.lab.setup.figures import parse_figure
    from ecmproto.executors.rows import RowStore
    from ecmproto.executors.running import Tally

    if bool(axes) == bool(points):
        raise click.UsageError("expected points to run: --sweep KEY=A,B,… or --points FILE")
    if effects and points:
        raise click.UsageError("--effects is for --sweep, with two values of each key")
    if figure:
        check_outputs((), reports=[figure], force=force)
    base = setup.scenario(scenario)
    parsed = [parse_axis(text) for text in axes]
    first = base.seed if seed is None else seed
    numbers = range(first, first + seeds)
    every = full_factorial(parsed, numbers) if axes else listed_points(_lines(points or "-"), numbers)
    part = shard.of(every)
    differing = itertools.groupby(part, key=lambda point: point.settings)
    for settings, _ in itertools.islice(differing, CHECKED):
        with_settings(base, settings).experiment()
    own = base.experiment()
    texts = list(figures) or _figures(own)
    for text in texts:
        parse_figure(text)
    store = RowStore(out, PointRow) if out else None
    check_outputs([out], force=True)  # rows are appended to an existing file
    progress = TaskProgress(Tally(noun="point"), store=out, shown=form != "ndjson" or not sys.stdout.isatty())
    executor = execution.executor(len(part), progress.notify)
    rows: list[Row] = []
    stopped = False
    try:
        with progress:
            for row in run_sweep(
                part, sweep_call(base, texts), executor=executor, store=store, tally=progress.tally,
                progress=progress.show,
            ):  # fmt: skip
                if form == "ndjson":
                    echo(json.dumps(row))
                else:
                    rows.append(row)
    except KeyboardInterrupt:
        stopped = True
        progress.print_interrupted()
    finally:
        if store is not None:
            store.close()
    failed = [row for row in rows if "failure" in row]
    rows = [] if form == "ndjson" else in_order((row for row in rows if "failure" not in row), part)
    effects_shown = _effects(rows, parsed, texts) if effects and not (stopped or failed) else {}
    if form == "json":
        document: dict[str, object] = {"schema": "ecmproto/lab-sweep/1", "seeds": list(numbers), "rows": rows}
        if failed:
            document["failed"] = failed
        if effects_shown:
            document["effects"] = _effects_as_dict(effects_shown)
        echo(json.dumps(document, indent=2))
    elif form != "ndjson":
        _show(rows, parsed or _axes_of(part), texts, form)
    over = f"median over {seeds_text(numbers)}" if seeds > 1 else seeds_text(numbers)
    if form == "text":
        echo(over)
        for text, each in effects_shown.items():
            echo(f"\n{_effects_table(text, each)}")
    if figure:
        from ecmproto.frames.capture.writer import write_output
        from ecmproto.tools.report.sweeps import heat_maps

        end_ns = own.measure.until_ns or own.duration_ns
        measured = f"measured {format_time(own.measure.from_ns)} to {format_time(end_ns)}"
        title = f"{base.name}: {own.control.mechanism}, {format_time(own.duration_ns)}, {measured}, {over}"
        maps = heat_maps(title, rows, parsed or _axes_of(part), texts, figure)
        write_output(figure, maps, force=force)
    has_failed = print_failures(progress.tally)
    return INTERRUPTED if stopped else FINDINGS if has_failed else 0


def _lines(path: str) -> list[str]:
    if path == "-":
        return sys.stdin.readlines()
    return Path(path).read_text().splitlines()


def _figures(experiment: Experiment) -> list[str]:
    """Return the figures of the scenario that belong to single runs, followed by `FIGURES`."""
    from ecmproto.control.lab.setup.figures import parse_figure

    measure = experiment.measure
    own = [*(band.figure for band in measure.bands), *(each.figure for each in measure.published)]
    return [text for text in dict.fromkeys((*own, *FIGURES)) if not parse_figure(text).runs]


def _axes_of(points: Sequence[Point]) -> list[Axis]:
    """Return an axis for each key in the points, with the values of this key."""
    from ecmproto.control.lab.results.sweeps import Axis

    values: dict[str, dict[str, None]] = {}
    for point in points:
        for path, value in point.settings:
            values.setdefault(path, {})[value] = None
    return [Axis(path=path, values=tuple(each)) for path, each in values.items()]


def _show(rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str], form: str) -> None:
    if form == "csv":
        writer = csv.writer(Printed(), lineterminator="\n")
        writer.writerow([*(axis.path for axis in axes), "seed", *figures])
        for row in rows:
            settings = [row["settings"].get(axis.path, "") for axis in axes]
            writer.writerow([*settings, row["seed"], *(_csv_value(row, text) for text in figures)])
    else:
        echo(_table(rows, axes, figures))


def _csv_value(row: Row, figure: str) -> str:
    return " ".join("" if value is None else repr(value) for value in row["figures"].get(figure, ()))


def _table(rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str]) -> str:
    """Return a table with a row for each combination of values, and the median over seeds for each figure."""
    import statistics

    from ecmproto.control.lab.results.sweeps import cells
    from ecmproto.control.lab.setup.figures import parse_figure

    columns = {text: cells(rows, axes, text) for text in figures}
    lines: list[tuple[str, Sequence[str]]] = [(", ".join(axis.path for axis in axes), list(figures))]
    for key in dict.fromkeys(key for each in columns.values() for key in each):
        shown = [parse_figure(text).show(statistics.median(columns[text][key])) for text in figures]
        lines.append((", ".join(key), shown))
    return columns_of(lines)


def _effects(rows: Sequence[Row], axes: Sequence[Axis], figures: Sequence[str]) -> dict[str, list[Effect]]:
    from ecmproto.control.lab.results.sweeps import effects

    return {text: effects(rows, axes, text) for text in figures}


def _effects_as_dict(results: dict[str, list[Effect]]) -> dict[str, list[dict[str, object]]]:
    """Return effects as plain data, with NaN replaced by None for JSON."""

    def known(value: float) -> float | None:
        return None if math.isnan(value) else value

    return {
        text: [
            {"factors": each.factors, "effect": known(each.effect), "explained": known(each.explained)}
            for each in effects
        ]
        for text, effects in results.items()
    }


def _effects_table(figure: str, effects: Sequence[Effect]) -> str:
    from ecmproto.control.lab.setup.figures import parse_figure

    show = parse_figure(figure).show
    lines: list[tuple[str, Sequence[str]]] = [("", ["effect", "of the variation"])]
    for each in effects:
        share = "–" if math.isnan(each.explained) else format_share(each.explained)
        if math.isnan(each.effect):
            lines.append(("the seeds", ["", share]))
        elif each.factors:
            lines.append((" × ".join(each.factors), [show(each.effect), share]))
        else:
            lines.append(("mean", [show(each.effect), ""]))
    return f"{paint(f'effects on {figure}', 'title')}\n{columns_of(lines)}"
