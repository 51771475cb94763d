"""``ecmproto live edge``: the edge of a congestion domain between the network and a receiving host."""

from __future__ import annotations

from typing import Any

import click

from ecmproto_cli.commands.live import live, mechanism_option, running_options, vlan_options
from ecmproto_cli.options import RATE


@click.command()
@click.option("--net", metavar="IF", required=True, help="Interface towards the network.")
@click.option("--host", metavar="IF", required=True, help="Interface towards the receiver.")
@mechanism_option("the tags")
@click.option(
    "--speed", "link_rate_bps", type=RATE, default="10G", show_default=True,
    help="Speed of the receiver's link.",
)  # fmt: skip
@click.option(
    "--mac", metavar="ADDRESS",
    help="MAC address of the edge. The edge sends LLDP frames from this address, and converts CNMs to this "
        "address at the edge of a provider backbone.  [default: address of --net]",
)  # fmt: skip
@vlan_options
@running_options
def command(**options: Any) -> int:
    """Run the edge of a congestion management domain in front of a receiver.

    The edge removes the mechanism's tags from frames to the host, and answers probes and RD tags.

    With --mechanism qcn, --set edge.cnpv=PRIORITIES lists the priorities that the port to the host defends.
    The edge advertises these priorities in LLDP frames. The parameter edge.mode or the host's LLDP frames
    determine the defence mode. Without edge.cnpv, the edge removes all CN-TAGs.

    \b
    ecmproto live edge --net eth1 --host veth1 --mechanism fecn
    ecmproto live edge --net eth1 --host veth1 --set edge.cnpv=3,4
    """
    from ecmproto.control.live.net import edge

    return live(edge, options)
