"""``ecmproto live cp``: a software switch port with a congestion point."""

from __future__ import annotations

from typing import Any

import click

from ecmproto_cli.commands.live import chosen_seed, live, running, running_options
from ecmproto_cli.options import RATE, TIME


@click.command()
@click.option(
    "--in", "inputs", metavar="IF", multiple=True, required=True, help="Input interface; may be repeated."
)
@click.option("--out", "output", metavar="IF", required=True, help="Output interface, with the queues.")
@click.option("--speed", "rate", type=RATE, required=True, help="Speed of the output.")
@click.option("--mechanism", metavar="NAME", default="qcn", show_default=True, help="Mechanism of the port.")
@click.option(
    "--buffer", default="1000frames", show_default=True,
    help="Capacity of all queues together: 1000frames, or 500kB.",
)  # fmt: skip
@click.option(
    "--link-speed",
    "link_rate",
    type=RATE,
    help="Speed of the inputs, for the unit of PAUSE times.  [default: --speed]",
)
@click.option(
    "--flow-control", type=click.Choice(["pause", "pfc"]),
    help="Send PAUSE or PFC to the inputs as well, and obey it from the output.",
)  # fmt: skip
@click.option(
    "--pause-watchdog", type=TIME,
    help="Ignore pauses of a priority that was paused for this long without a break.  [default: never]",
)  # fmt: skip
@click.option("--cp-mac", default="02:00:00:00:cc:01", show_default=True, help="MAC address of the port.")
@click.option(
    "--overhead", default=24, show_default=True, type=click.IntRange(0, 1000),
    help="Octets on the line besides a frame's own: FCS, preamble, gap.",
)  # fmt: skip
@running_options
def command(
    inputs: tuple[str, ...],
    output: str,
    rate: str,
    mechanism: str,
    buffer: str,
    link_rate: str | None,
    flow_control: str | None,
    pause_watchdog: str | None,
    cp_mac: str,
    overhead: int,
    assignments: tuple[str, ...],
    **options: Any,
) -> int:
    """Run a switch port: frames from the inputs queue for the output, the mechanism's messages go back.

    Frames leave the output at --speed, highest priority first. The reverse direction, and frames between
    inputs, are bridged at once. Ends with a summary, at SIGINT, SIGTERM or after --duration.

    \b
    ecmproto live cp --in veth1 --in veth2 --out veth3 --speed 100M --mechanism qcn
    ecmproto live cp --in a --in b --out c --speed 50M --mechanism ecm --set qeq=33kB -T ndjson
    """
    from ecmproto.control.live.net import congestion_point
    from ecmproto.units import parse_rate, parse_time

    how = running(options)
    seed = chosen_seed(how)
    spec = congestion_point(
        inputs=inputs,
        output=output,
        rate_bps=parse_rate(rate),
        mechanism=mechanism,
        assignments=assignments,
        buffer=buffer,
        link_rate_bps=None if link_rate is None else parse_rate(link_rate),
        flow_control=flow_control,
        watchdog_ns=None if pause_watchdog is None else parse_time(pause_watchdog),
        cp_mac=cp_mac,
        overhead_octets=overhead,
        seed=seed,
        ethertypes=how.ethertypes,
    )
    return live(spec, how, seed)
