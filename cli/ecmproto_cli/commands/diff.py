"""``ecmproto diff``: two captures frame by frame and field by field."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Literal

import click

from ecmproto_cli.difference_text import DifferenceText, summary_text
from ecmproto_cli.errors import FINDINGS, warn
from ecmproto_cli.options import color_option, ethertype_option, filter_option, inner_option
from ecmproto_cli.output import Stdout
from ecmproto_cli.progress import reading, work
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ecmproto.frames.capture import Batch, CaptureReader
    from ecmproto.frames.filter import Filter
    from ecmproto.tools.diff import Comparison
    from ecmproto.wire.codec import EtherTypes

_LISTED = 50
_MIN_WINDOW, _MAX_WINDOW = 1000, 1 << 30


def _tolerances(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    tolerances = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not (name and equals and text):
            raise click.BadParameter(f"expected FIELD=VALUE, as in frame.time_epoch=1us, got {each!r}")
        tolerances[name] = text
    return tolerances


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--ignore", metavar="FIELD", multiple=True,
    help="Leave a field or a whole layer out, as ip.ttl or cntag, and the checksums that follow from it.",
)  # fmt: skip
@click.option(
    "--tolerance", metavar="FIELD=VALUE", multiple=True, callback=_tolerances,
    help="Treat numbers within a tolerance as equal: frame.time_epoch=1us, cnm.qntz_fb=2, rdtag.rate=1%.",
)  # fmt: skip
@click.option(
    "--align-time", type=click.Choice(["offset", "drift"]),
    help="Subtract the median difference of times from B's first; drift: subtract linear drift too.",
)  # fmt: skip
@click.option(
    "--per-interface", is_flag=True, help="Compare each interface by itself: only the order within it counts."
)
@click.option(
    "--snaplen", "snap_octets", metavar="N", type=click.IntRange(min=1),
    help="Compare the first N octets of frames only, for captures with different snap lengths.",
)  # fmt: skip
@filter_option("Compare only frames that this display filter selects, in both captures.")
@click.option(
    "-T",
    "form",
    type=click.Choice(["text", "json", "ndjson"]),
    default="text",
    help="Output format.",
)
@click.option("--stat", is_flag=True, help="Show the summary alone.")
@click.option("-q", "--quiet", is_flag=True, help="Show nothing: exit 1 if they differ, 0 if not.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0),
    help=f"List no more than N differences; 0: all.  [default: {_LISTED} in text, else all]",
)  # fmt: skip
@click.option(
    "--times/--no-times", "times", default=None,
    help="List frames that differ in time alone.  [default: unless they are more than half of all]",
)  # fmt: skip
@click.option(
    "--window", metavar="N", type=click.IntRange(min=_MIN_WINDOW, max=_MAX_WINDOW),
    help="Align N frames of each at a time; each takes some 100 bytes.  [default: 3000000]",
)  # fmt: skip
@inner_option
@ethertype_option
@color_option
def command(
    a: str,
    b: str,
    ignore: tuple[str, ...],
    tolerance: dict[str, str],
    align_time: Literal["offset", "drift"] | None,
    per_interface: bool,
    snap_octets: int | None,
    filter: Filter | None,
    form: str,
    stat: bool,
    quiet: bool,
    limit: int | None,
    times: bool | None,
    window: int | None,
    inner: bool,
    ethertypes: EtherTypes,
) -> int:
    """Compare the captures A and B, - for stdin: list the frames and fields that differ.

    Frames are aligned by content, and classified as missing, added, moved, changed, or unchanged at another
    time. Exits with 1 if there are differences.

    \b
    ecmproto diff before.pcap after.pcapng.gz
    ecmproto diff in.pcap out.pcapng --ignore cntag --tolerance frame.time_epoch=1us
    ecmproto diff port1.pcap port2.pcap --ignore eth --align-time drift
    ecmproto diff mirror.pcap port.pcap --inner --align-time offset
    """
    if a == b == "-":
        raise click.UsageError("stdin can be read once: expected - once, got it twice")
    if stat and quiet:
        raise click.UsageError("--stat shows the summary, --quiet nothing: expected one of them")
    from ecmproto.tools.diff import Comparison, rules_of
    from ecmproto.tools.diff.comparison import WINDOW_FRAMES

    rules = rules_of(
        ignore,
        tolerance,
        align_time=align_time or "none",
        by_interface=per_interface,
        snap_octets=snap_octets,
    )
    with Comparison(
        a, b, rules, filter=filter, ethertypes=ethertypes, inner=inner, window=window or WINDOW_FRAMES,
        list_times=times, watch=_watched,
    ) as comparison:  # fmt: skip
        out = Stdout()
        try:
            if quiet:
                comparison.run()
            elif form == "text":
                _show_text(comparison, out, 0 if stat else _LISTED if limit is None else limit or None)
            else:
                _show_json(comparison, out, 0 if stat else limit or None, lines=form == "ndjson")
        finally:
            out.flush()
        for warning in comparison.warnings:
            warn(warning)
        for line in comparison.unwrapped:
            echo(f"ecmproto: {line}", err=True)
        if comparison.problem is not None:
            raise comparison.problem
        return FINDINGS if comparison.summary.differences else 0


def _watched(batches: Iterable[Batch], reader: CaptureReader) -> Iterator[Batch]:
    reading(reader, "diff")
    yield from batches
    work.at("diff: aligning frames")


def _show_text(comparison: Comparison, out: Stdout, limit: int | None) -> None:
    """Write the differences, ``limit`` of them or all, and the summary."""
    from ecmproto.frames.dissect import Lines

    text = DifferenceText(Lines(), width=shutil.get_terminal_size().columns if sys.stdout.isatty() else 0)
    listed = 0
    comparison.listing = limit != 0
    for difference in comparison:
        if limit is None or listed < limit:
            if not listed:
                a, b = comparison.captures
                out.write(f"A {a.path}\nB {b.path}\n\n")
            listed += 1
            out.write(text.difference(difference))
        else:
            comparison.listing = False
    out.write(text.rest())
    more = _listable(comparison) - listed if limit else 0
    out.write(("\n" if listed else "") + summary_text(comparison, more=more))


def _listable(comparison: Comparison) -> int:
    """Return the number of differences that listing would have given."""
    summary = comparison.summary
    return summary.differences - (0 if comparison.lists_times else summary.kinds["retimed"])


def _show_json(comparison: Comparison, out: Stdout, limit: int | None, *, lines: bool) -> None:
    from ecmproto.tools.diff.document import SCHEMA, difference_document, summary_document
    from ecmproto.wire.codec.document import json_text

    listed = 0
    comparison.listing = limit != 0
    if not lines:
        out.write(f'{{"schema": "{SCHEMA}", "differences": [')
    for difference in comparison:
        if limit is not None and listed >= limit:
            comparison.listing = False
            continue
        document = difference_document(difference)
        if lines:
            out.write(json_text({"schema": SCHEMA, **document}) + "\n")
        else:
            out.write(("," if listed else "") + "\n" + json_text(document))
        listed += 1
    summary = summary_document(comparison)
    if lines:
        out.write(json_text({"schema": SCHEMA, "kind": "summary", **summary}) + "\n")
    else:
        out.write(f'\n], "summary": {json_text(summary)}}}\n')
