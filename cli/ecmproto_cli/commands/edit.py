"""``ecmproto edit``: edit the fields, tags, times and checksums of captured frames, or drop frames."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import counted, escaped
from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.errors import FINDINGS, warn
from ecmproto_cli.options import filter_option, force_option, read_option, with_ethertypes, write_option
from ecmproto_cli.output import check_outputs
from ecmproto_cli.progress import watched
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    from ecmproto.frames.capture import CaptureReader
    from ecmproto.frames.filter import Filter
    from ecmproto.tools.edit import Edit, Report

    Item = TypeVar("Item")


@click.command()
@read_option()
@filter_option("Edit only frames that this display filter selects, and write all other frames unchanged.")
@click.option(
    "--set", "set_fields", metavar="NAME=VALUE", multiple=True,
    help="Set the field NAME in every frame that contains the field. NAME is the first such field in a "
        "frame, NAME[1] is the second, and NAME[*] is all of them. `ecmproto fields` lists all fields.",
)  # fmt: skip
@click.option("--delete", is_flag=True, help="Drop the frames that -Y selects.")
@click.option("--keep", is_flag=True, help="Drop the frames that -Y does not select.")
@click.option(
    "--strip", metavar="TAG", multiple=True,
    help="Remove all tags of one format: vlan, ieee8021ad, cntag, cmtag, rrttag, rdtag, inttag or csig.",
)  # fmt: skip
@click.option(
    "--add-tag", "tags", metavar="'TAG FIELD=VALUE…'", multiple=True,
    help="Insert a new outermost tag, such as 'vlan id=5 priority=3'. If this option is repeated, the last "
        "tag is outermost.",
)  # fmt: skip
@click.option(
    "--replace-tags", is_flag=True,
    help="Insert the tags of --add-tag after the first VLAN tags of a frame, and replace existing tags of "
        "the same format.",
)  # fmt: skip
@click.option(
    "--decap", is_flag=True,
    help="Decapsulate mirrored and tunnelled frames. Filters and edits apply to the inner frames.",
)  # fmt: skip
@click.option(
    "--encap", "wrappers", metavar="WRAPPER[,KEY=VALUE…]", multiple=True,
    help="Encapsulate frames, as in erspan2,session=12,src=10.0.0.1. WRAPPER is gre, nvgre, erspan1, "
        "erspan2, erspan3, vxlan, gpe, geneve or tzsp. If this option is repeated, the last wrapper is "
        "outermost.",
)  # fmt: skip
@click.option(
    "--frames", "numbers", metavar="RANGES", help="Keep only frames with these numbers, such as 100-200,300-."
)
@click.option(
    "--from", "start", metavar="TIME",
    help="Drop frames before this time. TIME is a time after the first frame (1.5s), seconds since 1970, or "
        "2026-01-31T12:00:00Z.",
)  # fmt: skip
@click.option("--to", "stop", metavar="TIME", help="Drop frames at or after this time.")
@click.option("--shift", metavar="TIME", help="Add this time to all time stamps, such as 1.5s or -20ms.")
@click.option(
    "--scale-time", "scale", metavar="FACTOR", help="Multiply the time since the first frame by a factor."
)
@click.option(
    "-s",
    "--snaplen",
    "snap_octets",
    metavar="N",
    type=click.IntRange(1, 2**31 - 1),
    help="Truncate frames to N octets.",
)
@click.option(
    "--fix", is_flag=True,
    help="Correct excessive lengths, RoCE's invariant CRC, and the checksums of IPv4, UDP, TCP and GRE.",
)  # fmt: skip
@click.option(
    "--keep-checksums", "raw", is_flag=True,
    help="Do not update checksums.  [default: update checksums of edited fields]",
)  # fmt: skip
@click.option(
    "-T", "form", type=click.Choice(["pcap", "pcapng"]),
    help="Format of the output.  [default: by the suffix of the output file, else the format of the input]",
)  # fmt: skip
@write_option("Write the capture to this file; - is stdout.")
@click.option("--dry-run", is_flag=True, help="Print the report without writing a capture.")
@force_option
@with_ethertypes
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    set_fields: tuple[str, ...],
    delete: bool,
    keep: bool,
    strip: tuple[str, ...],
    tags: tuple[str, ...],
    replace_tags: bool,
    wrappers: tuple[str, ...],
    numbers: str | None,
    start: str | None,
    stop: str | None,
    shift: str | None,
    scale: str | None,
    snap_octets: int | None,
    fix: bool,
    raw: bool,
    form: str | None,
    output: str | None,
    dry_run: bool,
    force: bool,
    **options: Any,
) -> int:
    """Edit, drop or truncate the frames of a capture, or of several merged captures.

    If an edit changes a field, the command updates the checksums over this field incrementally, like a
    router. Correct checksums therefore stay correct.

    \b
    ecmproto edit -r in.pcapng -w out.pcapng --set vlan.id=7 --set eth.dst=02:00:00:00:00:01 -Y cnm
    ecmproto edit -r in.pcapng -w out.pcapng --delete -Y 'pfc or pause'
    ecmproto edit -r a.pcap -r b.pcap -w both.pcapng
    ecmproto edit -r in.pcap -w out.pcap --strip cntag --add-tag 'vlan id=5 priority=3'
    ecmproto edit -r in.pcap -w out.pcap --frames 100-200,300- --shift 1.5s
    ecmproto edit -r in.pcap -w out.pcap --from 10ms --to 20ms --snaplen 128 --fix
    ecmproto edit -r mirror.pcap -w bare.pcapng --decap
    ecmproto edit -r bare.pcapng -w mirror.pcapng --encap erspan2,session=12,dst=2001:db8::2
    """
    if output is None and not dry_run:
        raise click.UsageError("expected an output: -w FILE, -w - for stdout, or --dry-run")
    if delete and keep:
        raise click.UsageError("expected --delete or --keep, got both")
    if (delete or keep) and filter is None:
        raise click.UsageError(f"{'--delete' if delete else '--keep'} needs -Y FILTER")
    edits = set_fields or strip or tags or shift or scale or snap_octets or fix or wrappers
    if delete and edits:
        raise click.UsageError("--delete removes the frames that -Y selects: they cannot be edited too")
    if replace_tags and not tags:
        raise click.UsageError("--replace-tags needs --add-tag")
    if raw and not set_fields:
        raise click.UsageError("--keep-checksums needs --set")
    if raw and fix:
        raise click.UsageError("expected --fix or --keep-checksums, got both")
    from ecmproto.frames.capture.copier import format_of
    from ecmproto.tools.edit import Edit, assignments_from, edit_capture, frames_from, span_from, tag_from
    from ecmproto.tools.edit.records import clock_from
    from ecmproto.tools.edit.selection import tag_named
    from ecmproto.tools.edit.wrapping import wrapper_from

    if dry_run:
        form = form or (format_of(output, None) if output else None)
        output = os.devnull
    assert output is not None
    edit = Edit(
        assignments=assignments_from(set_fields),
        filter=filter,
        drop="selected" if delete else "others" if keep else "",
        frames=None if numbers is None else frames_from(numbers),
        span=span_from(start, stop),
        strip=tuple(dict.fromkeys(map(tag_named, strip))),
        tags=tuple(map(tag_from, tags)),
        replace_tags=replace_tags,
        clock=clock_from(shift, scale),
        snap_octets=snap_octets,
        fix=fix,
        update_checksums=not raw,
        wrappers=tuple(map(wrapper_from, wrappers)),
        **options,
    )
    check_outputs([output], force=force)
    with DeferredInterrupt() as interrupt:

        def watch(items: Iterable[Item], reader: CaptureReader) -> Iterator[Item]:
            for item in watched(items, reader, "edit"):
                yield item
                interrupt.check()

        report = edit_capture(paths, output, edit, format=form, force=force, watch=watch)  # type: ignore[arg-type]
    warn(*report.warnings)
    idle = _print_counts(report, edit, "would be written" if dry_run else f"written to {escaped(output)}")
    if report.problem is not None:
        raise report.problem
    return FINDINGS if idle else 0


def _print_counts(report: Report, edit: Edit, written: str) -> bool:
    """Print the counts of edited frames on stderr, and return whether an option had no effect."""
    if not report.read:
        echo(f"0 frames {written}", err=True)
        return False
    idle = not report.selected
    lines = [report.unwrapped or "unwrapped no frame"] if edit.decap else []
    idle |= edit.decap and not report.unwrapped
    if report.taken < report.read:
        lines.append(f"{counted(report.taken, 'frame')} kept of {report.read:,}")
    if edit.filter is not None:
        lines.append(f"{report.selected:,} of {counted(report.taken, 'frame')} selected")
    for each in report.assigned:
        same = f", {each.same:,} of which had it" if each.same else ""
        without = f"; {each.without:,} have no {each.name}" if each.without else ""
        lines.append(f"{escaped(each.text)}: set in {counted(each.frames, 'frame')}{same}{without}")
        idle |= not each.frames
    for kind in edit.strip:
        frames = report.stripped[kind.prefix]
        lines.append(f"{kind.prefix}: removed from {counted(frames, 'frame')}")
        idle |= not frames
    for tag in report.tagged:
        replaced = f", in {tag.replaced:,} in place of others" if tag.replaced else ""
        without = f"; {tag.without:,} cannot have one" if tag.without else ""
        lines.append(f"{tag.name}: added to {counted(tag.frames, 'frame')}{replaced}{without}")
        idle |= not tag.frames
    for wrapped in report.wrapped:
        without = f"; {wrapped.without:,} cannot have it" if wrapped.without else ""
        lines.append(f"{wrapped.name}: added around {counted(wrapped.frames, 'frame')}{without}")
        idle |= not wrapped.frames
    if edit.clock is not None:
        rounded = f", {report.rounded:,} rounded down to the file's ticks" if report.rounded else ""
        untimed = f"; {report.untimed:,} have no time" if report.untimed else ""
        lines.append(f"times: {counted(report.moved, 'frame')} moved{rounded}{untimed}")
    if edit.snap_octets is not None:
        lines.append(f"cut to {edit.snap_octets} octets: {counted(report.cut, 'frame')}")
    lines += _sums("updated", report.kept)
    lines += _sums("fixed", report.fixed) or (["fixed: nothing was wrong"] if edit.fix else [])
    lines += _sums("not computed, as octets are missing", report.unknown)
    stale = sorted(_stale(edit))
    if stale:
        warn(f"{', '.join(stale)} set: their checksums are unchanged; --fix computes them")
    lines.append(f"{counted(report.written, 'frame')} {written}, {report.changed:,} of them changed")
    for line in lines:
        echo(line, err=True)
    return idle


def _sums(what: str, frames: Counter[str]) -> list[str]:
    counts = ", ".join(
        f"{name} in {counted(count, 'frame')}" for name, count in sorted(frames.items()) if count
    )
    return [f"{what}: {counts}"] if counts else []


def _stale(edit: Edit) -> set[str]:
    """Return the assigned fields that determine the octets of a checksum that is not updated."""
    from ecmproto.tools.edit.checksums import EXTENTS

    return {
        each.name
        for each in edit.assignments
        for writing in each.writings
        if (writing.source.format, writing.source.key) in EXTENTS and edit.update_checksums and not edit.fix
    }
