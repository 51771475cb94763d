"""``ecmproto live cp``: run a software switch port with a congestion point."""

from __future__ import annotations

from typing import Any

import click

from ecmproto_cli.commands.live import live, mechanism_option, running_options
from ecmproto_cli.options import RATE, TIME


@click.command()
@click.option(
    "--in",
    "inputs",
    metavar="IF",
    multiple=True,
    required=True,
    help="Input interface. Repeat this option for several inputs.",
)
@click.option("--out", "output", metavar="IF", required=True, help="Output interface, which has the queues.")
@click.option(
    "--speed", "rate_bps", type=RATE, required=True, help="Speed of the output link, in bits per second."
)
@mechanism_option("the port")
@click.option(
    "--buffer", default="1000frames", show_default=True,
    help="Capacity shared by all queues, such as 1000frames or 500kB.",
)  # fmt: skip
@click.option(
    "--link-speed",
    "link_rate_bps",
    type=RATE,
    help="Speed of the input links, which determines the length of a pause quantum.  [default: --speed]",
)
@click.option(
    "--flow-control", type=click.Choice(["pause", "pfc"]),
    help="Send PAUSE or PFC frames to the inputs, and obey PAUSE or PFC frames from the output.",
)  # fmt: skip
@click.option(
    "--pause-watchdog", "watchdog_ns", type=TIME,
    help="Ignore pauses of a priority after the priority has been paused for this time without "
        "interruption.  [default: never]",
)  # fmt: skip
@click.option("--cp-mac", default="02:00:00:00:cc:01", show_default=True, help="MAC address of the port.")
@click.option(
    "--overhead", "overhead_octets", default=24, show_default=True, type=click.IntRange(0, 1000),
    help="Octets that the line adds to each frame: FCS, preamble and gap.",
)  # fmt: skip
@running_options
def command(**options: Any) -> int:
    """Run a switch port with a congestion point between real interfaces.

    The port queues frames from the inputs at the output, and sends the mechanism's messages to the senders.
    Frames leave the output at --speed, highest priority first. The port immediately forwards frames from the
    output, and frames between inputs. On SIGINT or SIGTERM, or after --duration, the port stops and prints a
    summary.

    \b
    ecmproto live cp --in veth1 --in veth2 --out veth3 --speed 100M --mechanism qcn
    ecmproto live cp --in a --in b --out c --speed 50M --mechanism ecm --set qeq=33kB -T ndjson
    """
    from ecmproto.control.live.net import congestion_point

    return live(congestion_point, options)
