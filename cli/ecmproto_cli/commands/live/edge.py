"""``ecmproto live edge``: the edge of a domain in the wire beside a receiver."""

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
    help="Address of the edge: in its LLDP, and for CNMs to a backbone's edge.  [default: the address of "
    "--net]",
)  # fmt: skip
@vlan_options
@running_options
def command(**options: Any) -> int:
    """Run the edge of a domain: remove the mechanism's tags before the host, answer probes and RD tags.

    With --mechanism qcn and --set edge.cnpv=PRIORITIES the port to the host defends these priorities, in the
    mode that --set edge.mode or the host's LLDP selects, and announces its own. Otherwise all CN-TAGs end
    here.

    \b
    ecmproto live edge --net eth1 --host veth1 --mechanism fecn
    ecmproto live edge --net eth1 --host veth1 --set edge.cnpv=3,4
    """
    from ecmproto.control.live.net import edge

    return live(edge, options)
