"""``ecmproto live rp``: a reaction point in the wire beside a sender."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.commands.live import Role, live, running, running_options, vlan_options
from ecmproto_cli.options import RATE, SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecmproto.live.device import Device, LiveInterface, Send


@click.command()
@click.option("--host", metavar="IF", required=True, help="Where the sender is.")
@click.option("--net", metavar="IF", required=True, help="Where the network is.")
@click.option("--mechanism", default="qcn", show_default=True, help="Whose reaction point it is.")
@click.option(
    "--link-rate", type=RATE, required=True, help="Rate of the sender's link: what limiters start from."
)
@click.option("--queue", type=SIZE, default="1MB", show_default=True, help="What each limiter's queue holds.")
@click.option(
    "--hops", type=int, default=1, show_default=True,
    help="Congestion points on a flow's path: what E²CM's rp.hops_exponent raises.",
)  # fmt: skip
@vlan_options
@running_options
def command(
    host: str,
    net: str,
    mechanism: str,
    link_rate: str,
    queue: str,
    hops: int,
    vlan: int | None,
    assignments: tuple[str, ...],
    **options: Any,
) -> int:
    """Be a reaction point: limit the host's flows as the network's feedback says.

    Frames from the host are told apart by source, destination, VLAN and priority, wait behind their flow's
    rate limiter, and leave with the mechanism's tag; probes follow them. Feedback is taken off the wire. A
    frame that its tag would make too long for the network's MTU leaves without it, and is counted.

    \b
    ecmproto live rp --host veth1 --net eth1 --mechanism qcn --link-rate 1G
    """
    from ecmproto.engine.config import LoopConfig
    from ecmproto.live.reaction_point import ReactionPoint, precompile_reaction_point
    from ecmproto.mechanisms.api.machine import machine_of
    from ecmproto.mechanisms.registry import find_mechanism
    from ecmproto.units import parse_octets, parse_rate

    how = running(options)
    if host == net:
        raise click.UsageError("--host and --net are two interfaces")
    chosen_seed = secrets.randbelow(2**32) if how.seed is None else how.seed
    found = find_mechanism(mechanism)
    machine = machine_of(found, found.parse(assignments))
    facts = LoopConfig(link_rate_bps=parse_rate(link_rate), queue_octets=parse_octets(queue), hops=hops)

    def make(links: Sequence[LiveInterface], send: Send, start_ns: int) -> Device:
        return ReactionPoint(
            machine,
            facts,
            seed=chosen_seed,
            start_ns=start_ns,
            send=send,
            longest_octets=links[1].facts.longest_octets,
            vlan=vlan,
            ethertypes=how.ethertypes,
        )

    click.echo(f"ecmproto: seed {chosen_seed}", err=True)
    return live(
        Role(name="rp", title=f"{host} to {net}, reaction point of {machine.name}"),
        [host, net],
        how,
        precompile=lambda: precompile_reaction_point(machine, how.ethertypes),
        make=make,
    )
