"""``ecmproto live edge``: the edge of a domain in the wire beside a receiver."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.commands.live import Role, live, running, running_options, vlan_options
from ecmproto_cli.options import RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecmproto.live.device import Device, LiveInterface, Send


@click.command()
@click.option("--net", metavar="IF", required=True, help="Where the network is.")
@click.option("--host", metavar="IF", required=True, help="Where the receiver is.")
@click.option("--mechanism", default="qcn", show_default=True, help="Whose tags end here.")
@click.option("--link-rate", type=RATE, default="10G", show_default=True, help="Rate of the receiver's link.")
@click.option(
    "--mac", metavar="ADDRESS",
    help="Address of the edge: of its LLDP, and of a backbone's edge that CNMs are sent to.  "
    "[default: that of --net]",
)  # fmt: skip
@vlan_options
@running_options
def command(
    net: str,
    host: str,
    mechanism: str,
    link_rate: str,
    mac: str | None,
    vlan: int | None,
    assignments: tuple[str, ...],
    **options: Any,
) -> int:
    """Be the edge of a domain: frames to the host lose the mechanism's tags, probes and RD tags are answered.

    With --mechanism qcn and --param edge.cnpv=PRIORITIES the port to the host defends these priorities, by
    --param edge.mode or by what the host's LLDP says, and says its own. Without, all CN-TAGs end here.

    \b
    ecmproto live edge --net eth1 --host veth1 --mechanism fecn
    ecmproto live edge --net eth1 --host veth1 --param edge.cnpv=3,4
    """
    from ecmproto.formats.text import mac_of
    from ecmproto.live.edge import Edge, precompile_edge
    from ecmproto.mechanisms.api.machine import machine_of
    from ecmproto.mechanisms.registry import find_mechanism
    from ecmproto.units import parse_rate

    how = running(options)
    if host == net:
        raise click.UsageError("--host and --net are two interfaces")
    chosen_seed = secrets.randbelow(2**32) if how.seed is None else how.seed
    found = find_mechanism(mechanism)
    machine = machine_of(found, found.parse(assignments))
    own = None if mac is None else mac_of(mac)
    link_rate_bps = parse_rate(link_rate)

    def make(links: Sequence[LiveInterface], send: Send, start_ns: int) -> Device:
        return Edge(
            machine,
            link_rate_bps=link_rate_bps,
            mac=own or links[0].facts.address,
            seed=chosen_seed,
            start_ns=start_ns,
            send=send,
            port=host,
            vlan=vlan,
            ethertypes=how.ethertypes,
        )

    click.echo(f"ecmproto: seed {chosen_seed}", err=True)
    return live(
        Role(name="edge", title=f"{net} to {host}, edge of {machine.name}"),
        [net, host],
        how,
        precompile=lambda: precompile_edge(machine, how.ethertypes),
        make=make,
    )
