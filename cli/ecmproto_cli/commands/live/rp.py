"""``ecmproto live rp``: a reaction point between a sending host and the network."""

from __future__ import annotations

from typing import Any

import click

from ecmproto_cli.commands.live import live, mechanism_option, running_options, vlan_options
from ecmproto_cli.options import RATE, SIZE


@click.command()
@click.option("--host", metavar="IF", required=True, help="Interface towards the sender.")
@click.option("--net", metavar="IF", required=True, help="Interface towards the network.")
@mechanism_option("the reaction point")
@click.option(
    "--speed",
    "link_rate_bps",
    type=RATE,
    required=True,
    help="Speed of the sender's link, which is also the initial rate of the limiters.",
)
@click.option(
    "--rp-queue",
    "queue_octets",
    type=SIZE,
    default="1MB",
    show_default=True,
    help="Capacity of the queue of each rate limiter.",
)
@click.option(
    "--hops", type=int, default=1, show_default=True,
    help="Number of congestion points on the path of a flow, which E²CM needs for rp.hops_exponent.",
)  # fmt: skip
@vlan_options
@running_options
def command(**options: Any) -> int:
    """Run a reaction point, which limits the rates of a host's flows according to feedback.

    A flow is identified by source, destination, VLAN and priority. Each flow has a rate limiter. The reaction
    point adds the mechanism's tag to departing frames, sends probes, and consumes feedback. If the tag would
    make a frame longer than the network's MTU, the reaction point sends and counts the frame without a tag.

    \b
    ecmproto live rp --host veth1 --net eth1 --mechanism qcn --speed 1G
    """
    from ecmproto.control.live.net import reaction_point

    return live(reaction_point, options)
