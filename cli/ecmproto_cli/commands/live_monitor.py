"""``ecmproto live monitor``: a running table of what an interface carries, and captures that take turns."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from ecmproto_cli.capturing import captured
from ecmproto_cli.errors import INTERRUPTED, warn
from ecmproto_cli.monitoring import Watch
from ecmproto_cli.options import (
    RATE,
    SIZE,
    TIME,
    color_option,
    ethertype_option,
    filter_option,
    force_option,
    write_option,
)
from ecmproto_cli.output import check_outputs, output_form
from ecmproto_cli.progress import told_when_compiling

if TYPE_CHECKING:
    from ecmproto.capture.linux.reader import InterfaceReader
    from ecmproto.codec import EtherTypes
    from ecmproto.filter import Filter
    from ecmproto.live.monitor import Rotation


@click.command()
@click.option("-i", "--interface", metavar="IF", required=True, help="Interface to watch.")
@filter_option("Count, and with -w write, only frames that this display filter selects.")
@click.option("--every", type=TIME, default="1s", show_default=True, help="How often to tell.")
@click.option("--time", "duration", type=TIME, help="Stop after this time.  [default: at Ctrl-C]")
@click.option(
    "-T", "form", type=click.Choice(["table", "line", "ndjson"]),
    help="How to tell: a table that is drawn anew, a line, a JSON document.  [default: table on a terminal]",
)  # fmt: skip
@write_option("Write the frames to this capture, pcapng or pcap.")
@click.option(
    "--rotate-size",
    type=SIZE,
    metavar="SIZE",
    help="Begin another file of -w before one is longer, as 100MB.",
)
@click.option("--rotate-time", type=TIME, help="Begin another file of -w after so much time, as 60s.")
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the last N files of -w.")
@click.option("--snap", type=click.IntRange(min=64), metavar="N", help="Keep N octets of a frame at most.")
@click.option(
    "--speed", type=RATE, default="10G", show_default=True, help="Speed of the link where it tells none."
)
@click.option("--no-promiscuous", is_flag=True, help="Leave out what is for other stations.")
@force_option
@ethertype_option
@color_option
def command(
    interface: str,
    filter: Filter | None,
    every: str,
    duration: str | None,
    form: str | None,
    output: str | None,
    rotate_size: str | None,
    rotate_time: str | None,
    keep: int | None,
    snap: int | None,
    speed: str,
    no_promiscuous: bool,
    force: bool,
    ethertypes: EtherTypes,
) -> int:
    """Watch an interface: kinds of frames, rates, messages by congestion point, and pauses as time.

    At the end it tells everything as `ecmproto stats` does.

    \b
    ecmproto live monitor -i eth0
    ecmproto live monitor -i eth0 -Y 'cnm or pfc' -w feedback.pcapng
    ecmproto live monitor -i eth0 -w all.pcapng --rotate-size 100MB --keep 10
    """
    from ecmproto.capture.linux.interface import interface_facts
    from ecmproto.stats import Accumulator
    from ecmproto.units import parse_rate, parse_time

    if output is None and (rotate_size, rotate_time, keep) != (None, None, None):
        raise click.UsageError("--rotate-size, --rotate-time and --keep belong to -w")
    if keep is not None and rotate_size is None and rotate_time is None:
        raise click.UsageError("--keep belongs to --rotate-size or --rotate-time")
    output_form(output, None, ("pcap", "pcapng"), text="")
    if rotate_size is None and rotate_time is None:
        check_outputs([output], force=force)
    if output == "-":
        raise click.UsageError("-w -: stdout tells what is seen; `ecmproto dissect -i` writes captures there")
    watch = Watch(
        Accumulator(speed_bps=parse_rate(speed), ethertypes=ethertypes),
        form or ("table" if sys.stdout.isatty() else "line"),
        filter=filter,
        ethertypes=ethertypes,
        every_ns=parse_time(every),
        duration_ns=parse_time(duration) if duration else None,
    )
    interface_facts(interface)  # one that is not there is said to be before the work
    with told_when_compiling():
        watch.warm_up()
    with captured(
        interface,
        filter=filter,
        ethertypes=ethertypes,
        snap_octets=snap,
        promiscuous=not no_promiscuous,
        idle_batches=True,
    ) as reader:
        writer = (
            nullcontext()
            if output is None
            else _rotation(output, reader, rotate_size, rotate_time, keep, force)
        )
        with writer as rotation:
            watch.run(reader, rotation)
    for warning in reader.warnings:
        warn(warning)
    if rotation is not None:
        files = f"{len(rotation.files)} files" if len(rotation.files) > 1 else rotation.files[0]
        click.echo(f"{rotation.frames:,} frames written to {files}", err=True)
    if reader.problem is not None:
        raise reader.problem
    return INTERRUPTED if watch.interrupted else 0


def _rotation(
    output: str,
    reader: InterfaceReader,
    rotate_size: str | None,
    rotate_time: str | None,
    keep: int | None,
    force: bool,
) -> Rotation:
    from ecmproto.live.monitor import Rotation
    from ecmproto.units import parse_octets, parse_time

    return Rotation(
        output,
        reader.interfaces,
        octets=parse_octets(rotate_size) if rotate_size else None,
        span_ns=parse_time(rotate_time) if rotate_time else None,
        keep=keep,
        force=force,
    )
