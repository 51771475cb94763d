"""``ecmproto stats``: the statistics of a capture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.counting import counted
from ecmproto_cli.errors import warn
from ecmproto_cli.options import (
    count_option,
    filter_option,
    force_option,
    form_option,
    outer_option,
    print_unwrapped,
    rates_options,
    read_option,
    sampled_option,
    storm_options,
    trailer_option,
    with_ethertypes,
)
from ecmproto_cli.output import check_outputs
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecmproto.frames.filter import Filter
    from ecmproto.frames.stats import Statistics
    from ecmproto.wire.codec import EtherTypes


@click.command()
@read_option()
@filter_option(
    "Count only frames that this display filter selects. Rates still refer to the duration of the whole "
    "capture."
)
@form_option("text", "json", help="Format of the statistics.")
@click.option(
    "--report",
    metavar="FILE",
    multiple=True,
    help="Also write the statistics to a .json, .html, .png or .svg file; all but .json need "
    "ecmproto[report].",
)
@rates_options
@storm_options
@count_option
@outer_option
@trailer_option
@sampled_option
@force_option
@with_ethertypes
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    form: str,
    report: tuple[str, ...],
    count: int | None,
    outer: bool,
    trailer: str | None,
    force: bool,
    ethertypes: EtherTypes,
    **counting: Any,
) -> None:
    """Show the statistics of a capture: frame types, rates, feedback, probes and pause times.

    \b
    ecmproto stats -r in.pcapng
    ecmproto stats -r in.pcapng -Y 'cnm or pfc' --interval 1ms
    ecmproto stats -r in.pcapng --speed 400G --lossless 3,4 --report out.html
    """
    from ecmproto.frames.batch.inner import sflow_reports
    from ecmproto.frames.capture.names import names_shown
    from ecmproto.frames.capture.writer import write_output
    from ecmproto.frames.stats import Accumulator

    writers = _writers(report)
    check_outputs(report, force=force)
    path = names_shown(paths)
    new = partial(Accumulator, ethertypes=ethertypes, **counting)
    with counted(
        "stats", new, paths, filter=filter, limit=count, outer=outer, trailer=trailer, ethertypes=ethertypes
    ) as (counts, reader, interrupted):
        statistics = counts.result(
            interfaces=reader.interfaces, problem=reader.problem, sflow=sflow_reports(reader)
        )
        warn(*reader.warnings)
        print_unwrapped(reader)
        _show(statistics, path, form)
        for name, write in zip(report, writers, strict=True):
            write_output(name, write(statistics, path), force=force)
        if interrupted:
            raise KeyboardInterrupt
        if reader.problem is not None:
            raise reader.problem


def _writers(names: tuple[str, ...]) -> list[Callable[[Statistics, str], bytes]]:
    """Return a writer for each report.

    Raises an error for a report name with an unsupported suffix.
    """
    if not names:
        return []
    from ecmproto.tools.report.capture_page import statistics_form

    return [statistics_form(name) for name in names]


def _show(statistics: Statistics, path: str, form: str) -> None:
    from ecmproto.frames.stats import document_text

    if form == "json":
        echo(document_text(statistics, path), nl=False)
        return
    if not statistics.frames:
        read = statistics.read_frames
        echo(f"0 of {read} frames selected" if read else "0 frames")
        return
    from ecmproto_cli.stats_table import stats_table

    echo(stats_table(statistics, path), wrap=True)
