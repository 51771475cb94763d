"""``ecmproto live edge``: the edge of a congestion domain between the network and a receiving host."""

from __future__ import annotations

from typing import Any

import click

from ecmproto_cli.commands.live import live, running_options, vlan_options
from ecmproto_cli.options import RATE


@click.command()
@click.option("--net", metavar="IF", required=True, help="Interface towards the network.")
@click.option("--host", metavar="IF", required=True, help="Interface towards the receiver.")
@click.option("--mechanism", metavar="NAME", default="qcn", show_default=True, help="Mechanism of the tags.")
@click.option(
    "--speed", "link_rate_bps", type=RATE, default="10G", show_default=True,
    help="Speed of the receiver's link.",
)  # fmt: skip
@click.option(
    "--mac", metavar="ADDRESS",
    help="MAC address of the edge: the source of its LLDP frames, and the destination of CNMs that it "
    "converts as a backbone edge.  "
    "[default: the address of "
    "--net]",
)  # fmt: skip
@vlan_options
@running_options
def command(**options: Any) -> int:
    """Run the edge of a domain: remove the mechanism's tags from frames to the host, answer probes and RD
    tags.

    With --mechanism qcn and --set edge.cnpv=PRIORITIES, the port to the host defends these priorities and
    advertises them by LLDP. The defence mode is set by --set edge.mode or by the host's LLDP. Without
    edge.cnpv, all CN-TAGs are removed.

    \b
    ecmproto live edge --net eth1 --host veth1 --mechanism fecn
    ecmproto live edge --net eth1 --host veth1 --set edge.cnpv=3,4
    """
    from ecmproto.control.live.net import edge

    return live(edge, options)
