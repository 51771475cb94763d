"""``ecmproto live testbed``: senders, reaction points, a port, an edge and a receiver in namespaces."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from ecmproto_cli.options import RATE, TIME, color_option, force_option

if TYPE_CHECKING:
    from ecmproto.live.testbed.topology import Topology


@click.command()
@click.option(
    "--mechanism", "mechanisms", default="qcn,none", show_default=True, metavar="MECHANISM,…",
    help="Run the same traffic under each of these, one after the other.",
)  # fmt: skip
@click.option("--senders", default=3, show_default=True, type=click.IntRange(1, 32))
@click.option("--rate", type=RATE, default="50M", show_default=True, help="Rate of the port that they share.")
@click.option("--load", default=1.8, show_default=True, type=click.FloatRange(0.01, 100),
              help="What they offer together, as a multiple of --rate.")  # fmt: skip
@click.option("--tcp", is_flag=True, help="Send with TCP instead of UDP.")
@click.option("--victim", type=RATE, help="Have the first sender send to a host beside the port too.")
@click.option("--topology", "path", metavar="FILE", help="Take all this from a TOML file.")
@click.option("--time", "duration", type=TIME, default="12s", show_default=True, help="How long each runs.")
@click.option(
    "--param", "assignments", metavar="[MECHANISM:][ROLE.]NAME=VALUE", multiple=True,
    help="A parameter, as in qcn:qeq=33kB, instead of what suits the rate.",
)  # fmt: skip
@click.option(
    "--flow-control", type=click.Choice(["pause", "pfc"]), help="Have the port send PAUSE or PFC as well."
)
@click.option("--keep", "folder", metavar="FOLDER", help="Keep reports and captures there.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of all that is drawn.  [default: drawn]")
@force_option
@click.option("-T", "form", type=click.Choice(["table", "json"]), default="table", help="How to report.")
@color_option
def command(
    mechanisms: str,
    senders: int,
    rate: str,
    load: float,
    tcp: bool,
    victim: str | None,
    path: str | None,
    duration: str,
    assignments: tuple[str, ...],
    flow_control: str | None,
    folder: str | None,
    seed: int | None,
    force: bool,
    form: str,
) -> None:
    """Run real traffic through the live devices in namespaces of this machine, and compare mechanisms.

    A dumbbell: each sender behind a reaction point, all into one port, the receiver behind an edge. iperf3
    sends, ping measures. Everything is taken down at the end, however that comes.

    \b
    ecmproto live testbed --mechanism qcn,ecm,fecn,none --rate 50M --time 15s --keep runs/
    """
    from ecmproto.live.testbed.topology import dumbbell, read_topology
    from ecmproto.units import NS_PER_S, parse_rate, parse_time
    from ecmproto_cli.testbed import Request, run_all

    names = list(dict.fromkeys(name.strip() for name in mechanisms.split(",") if name.strip()))
    if not names:
        raise click.UsageError("--mechanism needs mechanisms, as in qcn,ecm,none")
    topology: Topology
    if path is not None:
        topology = read_topology(path)
    else:
        topology = dumbbell(
            senders=senders,
            rate_bps=parse_rate(rate),
            load=load,
            protocol="tcp" if tcp else "udp",
            victim_bps=parse_rate(victim or "0"),
        )
    run_all(
        Request(
            names=names,
            topology=topology,
            assignments=assignments,
            duration_s=parse_time(duration) / NS_PER_S,
            flow_control=flow_control,
            folder=folder,
            force=force,
            seed=secrets.randbelow(2**31) if seed is None else seed,
            form=form,
        )
    )
