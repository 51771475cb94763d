"""``ecmproto fleet``: process many captures in many processes or on many machines."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import counted, escaped
from ecmproto.units import NS_PER_S, format_octets
from ecmproto_cli.errors import CAPTURE, FINDINGS, INTERRUPTED, warn
from ecmproto_cli.options import (
    SIZE,
    Execution,
    F,
    columns_settings,
    execution_options,
    fields_option,
    filter_option,
    form_option,
    options_as,
    outer_option,
    rates_options,
    select_options,
    shard_option,
    split_assignments,
    storm_options,
    with_ethertypes,
)
from ecmproto_cli.output import columns_of, pairs
from ecmproto_cli.progress import TaskProgress
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.executors.protocol import Shard
    from ecmproto.frames.filter import Filter
    from ecmproto.tools.fleet.jobs import Job
    from ecmproto.tools.fleet.run import Plan, Summary
    from ecmproto.wire.codec import EtherTypes

_ERRORS_SHOWN = 20


@click.group()
def command() -> None:
    """Process many captures: on all cores, as shards of a batch job, or on a Dask cluster.

    PATHS are captures, folders, patterns such as '/captures/**/*.pcapng', and URLs.  The folder -w receives
    the results of each capture, the combined result, and a manifest. Running the same command again
    completes missing results.
    """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The captures, and the folder for their results."""

    paths: tuple[str, ...]
    out: str
    name_pattern: str | None
    part_size: int
    plan: bool
    force: bool
    shard: Shard


def fleet_options(function: F) -> F:
    """Return ``function`` with the argument ``PATHS``, the option ``-w`` and other common options.

    The command receives ``fleet``, a `Fleet`, and ``execution``, an `Execution`.
    """
    options = (
        click.argument("paths", nargs=-1, required=True, metavar="PATHS..."),
        click.option("-w", "--write", "out", metavar="DIR", required=True, help="Folder of the results."),
        click.option(
            "--name-pattern", metavar="PATTERN",
            help="Pattern of the file names, such as '{host}-{date}.pcap'. The parts name Parquet folders "
            "and appear in the manifest.",
        ),
        click.option(
            "--part-size", type=SIZE, default="256MB", show_default=True, metavar="SIZE",
            help="Split larger captures into parts of this size; 0 never splits.",
        ),
        click.option("--dry-run", "plan", is_flag=True, help="Print the pending work, and exit."),
        click.option("--force", is_flag=True, help="Use a folder that contains other results."),
        shard_option,
    )  # fmt: skip
    return options_as(execution_options(function), options, Fleet, "fleet")


@command.command()
@fleet_options
@filter_option(
    "Count only frames that this display filter selects. Rates still refer to the duration of the whole "
    "capture."
)
@form_option("text", "json", help="Format of the statistics.")
@rates_options
@storm_options
@outer_option
@with_ethertypes
def stats(
    fleet: Fleet,
    execution: Execution,
    filter: Filter | None,
    form: str,
    ethertypes: EtherTypes,
    **counting: Any,
) -> int:
    """Compute the statistics of each capture (DIR/files/NAME.json), and of all captures together
    (DIR/all.json).

    \b
    ecmproto fleet stats /captures -w stats
    ecmproto fleet stats '/captures/**/*.pcapng' -w stats --shard 3/40
    ecmproto fleet stats /captures -w stats --scheduler tcp://head:8786
    """
    from ecmproto.tools.fleet.jobs import StatsJob

    job = StatsJob(filter=_text(filter), ethertypes=_changed(ethertypes), **counting)
    return _run(job, fleet, execution, form)


@command.command()
@fleet_options
@filter_option("Check only the frames that this display filter selects.")
@select_options
@click.option("--rules", metavar="FILE", multiple=True, help="Add your own rules from a .py or .toml file.")
@click.option(
    "--set",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=split_assignments,
    help="Set a rule parameter, such as qcn.w=2.",
)
@outer_option
@with_ethertypes
def check(
    fleet: Fleet,
    execution: Execution,
    filter: Filter | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    rules: tuple[str, ...],
    parameters: dict[str, str],
    outer: bool,
    ethertypes: EtherTypes,
) -> int:
    """Check each capture against rules (DIR/files/NAME.ndjson, DIR/findings.ndjson, DIR/all.json).

    Exits with 1 if a capture breaks a rule.

    \b
    ecmproto fleet check /captures -w checked --select qcn,pfc
    """
    from ecmproto.tools.fleet.jobs import CheckJob

    job = CheckJob(
        filter=_text(filter), ethertypes=_changed(ethertypes), outer=outer, select=select, ignore=ignore,
        own_rules=[str(Path(path).resolve()) for path in rules],
        own_digests=[hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in rules],
        parameters=parameters,
    )  # fmt: skip
    job.checker()  # raises errors before the work
    return _run(job, fleet, execution)


@command.command()
@fleet_options
@filter_option("Write only frames that this display filter selects.")
@click.option(
    "-e", "fields", metavar="FIELD", multiple=True,
    help="Write this column. `ecmproto fields` lists the columns.  [default: frames, addresses, tags and "
    "messages]",
)  # fmt: skip
@fields_option
@with_ethertypes
def parquet(
    fleet: Fleet,
    execution: Execution,
    filter: Filter | None,
    fields: tuple[str, ...],
    settings: dict[str, str],
    ethertypes: EtherTypes,
) -> int:
    """Write all captures as one Parquet data set in DIR/frames, partitioned by day and by parts of the file
    names.

    \b
    ecmproto fleet parquet /captures -w lake --name-pattern '{host}-{date}.pcap'
    ecmproto fleet parquet /captures -w cnms -Y cnm -e cnm.cpid -e cnm.qntz_fb
    """
    from ecmproto.frames.columns.column import fields_named
    from ecmproto.tables import arrow
    from ecmproto.tools.fleet.jobs import ParquetJob
    from ecmproto.wire.formats.registry import USUAL_FIELDS

    arrow()
    job = ParquetJob(
        filter=_text(filter), ethertypes=_changed(ethertypes),
        fields=tuple(field.name for field in fields_named(fields or USUAL_FIELDS)),
        **columns_settings(settings),
    )  # fmt: skip
    return _run(job, fleet, execution)


@command.command()
@fleet_options
@filter_option("Copy the frames that this display filter selects.")
@click.option("--merge", is_flag=True, help="Also merge all copies in time order into DIR/all.pcapng.")
@with_ethertypes
def filter(
    fleet: Fleet, execution: Execution, filter: Filter | None, merge: bool, ethertypes: EtherTypes
) -> int:
    """Copy the frames that -Y selects from each capture to DIR/NAME; write no file if it selects none.

    \b
    ecmproto fleet filter /captures -w cnms -Y 'cnm or pfc'
    ecmproto fleet filter /captures -w cnms -Y 'cnm or pfc' --merge
    """
    from ecmproto.tools.fleet.jobs import FilterJob

    if filter is None:
        raise click.UsageError("expected a filter: -Y FILTER")
    job = FilterJob(filter=_text(filter), ethertypes=_changed(ethertypes))
    return _run(job, fleet, execution, merge=merge)


def _text(filter: Filter | None) -> str | None:
    return None if filter is None else filter.text


def _changed(ethertypes: EtherTypes) -> dict[str, int]:
    usual = dataclasses.asdict(type(ethertypes)())
    return {role: value for role, value in dataclasses.asdict(ethertypes).items() if value != usual[role]}


def _run(job: Job, fleet: Fleet, execution: Execution, form: str = "text", *, merge: bool = False) -> int:
    from ecmproto.executors.running import Tally
    from ecmproto.tools.fleet.members import roster
    from ecmproto.tools.fleet.names import NamePattern, captures_named
    from ecmproto.tools.fleet.run import FleetRun

    pattern = NamePattern(fleet.name_pattern) if fleet.name_pattern is not None else None
    folder = Path(fleet.out)
    listed = roster(captures_named(fleet.paths, folder), folder, job, pattern, force=fleet.force)
    progress = TaskProgress(Tally(noun="part"), store=fleet.out)
    run = FleetRun(
        job, listed, folder, executor=execution.executor(_MANY, progress.notify, apart=True),
        shard=fleet.shard, part_octets=fleet.part_size, merge=merge, tally=progress.tally,
        notify=progress.show,
    )  # fmt: skip
    if fleet.plan:
        echo(_plan(run.plan()))
        return 0
    try:
        with progress:
            run.run()
    except KeyboardInterrupt:
        progress.print_interrupted()
        return INTERRUPTED
    if fleet.shard.count > 1:
        shard = fleet.shard
        echo(
            f"shard {shard.number} of {shard.count} done: run it again without --shard to combine all "
            "results",
            err=True,
        )
        return CAPTURE if any(member.trouble for member in run.members) else 0
    summary = run.write()
    _show(job, summary, folder, form)
    if summary.troubles:
        return CAPTURE
    return FINDINGS if any(wrong for _, wrong, _ in summary.findings.values()) else 0


_MANY = 1 << 20
"""Maximum number of parts."""


def _plan(plan: Plan) -> str:
    missing = f"{counted(plan.missing, 'capture')}, {format_octets(plan.missing_octets)}"
    return pairs(
        [
            ("fleet", f"{counted(plan.captures, 'capture')}, {format_octets(plan.octets)}"),
            ("done before", f"{plan.known:,}"),
            ("to do", f"{missing}, in {counted(plan.parts, 'part')}"),
        ]
    )


def _show(job: Job, summary: Summary, folder: Path, form: str) -> None:
    """Print the combined result, and warn of captures that could not be read completely."""
    for outcome, problem in summary.troubles[:_ERRORS_SHOWN]:
        warn(f"{outcome}: {problem}")
    more = len(summary.troubles) - _ERRORS_SHOWN
    if more > 0:
        warn(f"{more:,} more; the manifest lists all: {folder / 'manifest.ndjson'}")
    if summary.warned:
        what = f"warnings or unwrapped frames in {counted(summary.warned, 'capture')}"
        echo(f"ecmproto: {what}, see {escaped(str(folder / 'manifest.ndjson'))}", err=True)
    if form == "json":
        echo((folder / "all.json").read_text(encoding="utf-8"), nl=False)
        return
    counts = [f"{count:,} {outcome}" for outcome, count in summary.outcomes.items()]
    known = f" ({summary.known:,} before)" if summary.known else ""
    frames = f"{summary.frames:,}"
    if summary.selected != summary.frames:
        frames += f", {summary.selected:,} selected"
    rows = [
        ("captures", f"{summary.captures:,}, {format_octets(summary.octets)}: {', '.join(counts)}{known}"),
        ("frames", frames),
    ]
    if summary.first_ns is not None and summary.last_ns is not None:
        rows.append(("times", f"{_utc(summary.first_ns)} to {_utc(summary.last_ns)}"))
    if job.kind == "check":
        wrong = sum(wrong for _, wrong, _ in summary.findings.values())
        rows.append(("findings", f"{wrong:,} of {counted(len(summary.findings), 'rule')}"))
    rows.append(("results", f"{counted(summary.outputs, 'file')} in {escaped(str(folder))}"))
    echo(pairs(rows), wrap=True)
    failed = {rule: each for rule, each in summary.findings.items() if each[1]}
    if failed:
        table: list[tuple[str, list[str]]] = [("", ["looked", "findings", "captures"])]
        table += [(rule, [f"{each:,}" for each in counts]) for rule, counts in failed.items()]
        echo(f"\n{columns_of(table)}")


def _utc(time_ns: int) -> str:
    from ecmproto.tools.fleet.names import day_of

    seconds = time_ns // NS_PER_S
    return f"{day_of(time_ns)} {seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"
