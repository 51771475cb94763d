"""``ecmproto live rp``: a reaction point between a sending host and the network."""

from __future__ import annotations

from typing import Any

import click

from ecmproto_cli.commands.live import live, running_options, vlan_options
from ecmproto_cli.options import RATE, SIZE


@click.command()
@click.option("--host", metavar="IF", required=True, help="Interface towards the sender.")
@click.option("--net", metavar="IF", required=True, help="Interface towards the network.")
@click.option(
    "--mechanism", metavar="NAME", default="qcn", show_default=True, help="Mechanism of the reaction point."
)
@click.option(
    "--speed",
    "link_rate_bps",
    type=RATE,
    required=True,
    help="Speed of the sender's link, and initial rate of the limiters.",
)
@click.option(
    "--rp-queue",
    "queue_octets",
    type=SIZE,
    default="1MB",
    show_default=True,
    help="Capacity of each limiter's queue.",
)
@click.option(
    "--hops", type=int, default=1, show_default=True,
    help="Number of congestion points on a flow's path, for E²CM's rp.hops_exponent.",
)  # fmt: skip
@vlan_options
@running_options
def command(**options: Any) -> int:
    """Run a reaction point that limits a host's flows by the network's feedback.

    A flow is identified by source, destination, VLAN and priority. Its frames wait in its rate limiter, and
    leave with the mechanism's tag, followed by probes. Feedback is consumed here. A frame that would exceed
    the network's MTU with its tag leaves untagged, and is counted.

    \b
    ecmproto live rp --host veth1 --net eth1 --mechanism qcn --speed 1G
    """
    from ecmproto.control.live.net import reaction_point

    return live(reaction_point, options)
