"""``ecmproto live cp``: a software switch port with a congestion point."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.commands.live import Role, live, running, running_options
from ecmproto_cli.options import RATE, TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecmproto.live.device import Device, LiveInterface, Send


@click.command()
@click.option("--in", "inputs", metavar="IF", multiple=True, required=True, help="An input; several may be.")
@click.option("--out", "output", metavar="IF", required=True, help="The output, before which frames queue.")
@click.option("--rate", type=RATE, required=True, help="Rate at which the output serves its queues.")
@click.option("--mechanism", default="qcn", show_default=True, help="Whose congestion point it has.")
@click.option(
    "--buffer", default="1000frames", show_default=True,
    help="What the queues hold together: as 1000frames, or as 500kB.",
)  # fmt: skip
@click.option(
    "--link-rate", type=RATE, help="Rate of the inputs, which PAUSE times count in.  [default: --rate]"
)
@click.option(
    "--flow-control", type=click.Choice(["pause", "pfc"]),
    help="Send PAUSE or PFC to the inputs as well, and obey it from the output.",
)  # fmt: skip
@click.option(
    "--pause-watchdog", type=TIME,
    help="Start frames again after so long without a break, whatever stops the output.  [default: obey]",
)  # fmt: skip
@click.option("--cp-mac", default="02:00:00:00:cc:01", show_default=True, help="MAC address of the port.")
@click.option(
    "--overhead", default=24, show_default=True, type=click.IntRange(0, 1000),
    help="Octets a frame takes on the line besides its own: FCS, preamble, gap.",
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
    """Be a switch port: frames from the inputs queue for the output, the mechanism's messages go back.

    Frames leave the output at --rate, highest priority first. The reverse direction, and frames between
    inputs, are bridged at once. Ends with a summary, at SIGINT, SIGTERM or after --time.

    \b
    ecmproto live cp --in veth1 --in veth2 --out veth3 --rate 100M --mechanism qcn
    ecmproto live cp --in a --in b --out c --rate 50M --mechanism ecm --param qeq=33kB -T ndjson
    """
    from ecmproto.engine.config import PortConfig, parse_buffer
    from ecmproto.engine.port import FLOW_CONTROLS, machine_on_port
    from ecmproto.formats.text import mac_of
    from ecmproto.live.port import LEAD_NS, SwitchPort, buffer_of, precompile_port, slot_octets
    from ecmproto.units import format_rate, parse_rate, parse_time

    how = running(options)
    names = [*inputs, output]
    if len(set(names)) < len(names):
        raise click.UsageError("an interface is given twice: each has one place")
    chosen_seed = secrets.randbelow(2**32) if how.seed is None else how.seed
    frames, buffer_octets = buffer_of(buffer)
    facts = PortConfig(
        rate_bps=parse_rate(rate),
        buffer_octets=buffer_octets,
        buffer_frames=parse_buffer(buffer).frames,
        overhead_octets=overhead,
        cp_mac=mac_of(cp_mac),
    )
    machine = machine_on_port(mechanism, assignments, buffer_octets=buffer_octets, flow_control=flow_control)
    link_rate_bps = parse_rate(link_rate or rate)
    obeys = mechanism if mechanism in FLOW_CONTROLS else flow_control

    watchdog_ns = None if pause_watchdog is None else parse_time(pause_watchdog)
    if watchdog_ns is not None and obeys is None:
        raise click.UsageError("--pause-watchdog belongs to --flow-control, or --mechanism pause or pfc")
    if watchdog_ns == 0:
        raise click.UsageError("--pause-watchdog 0: needed a time such as 200ms; without it all is obeyed")

    def make(links: Sequence[LiveInterface], send: Send, start_ns: int) -> Device:
        return SwitchPort(
            machine,
            facts,
            inputs=len(inputs),
            frames=frames,
            seed=chosen_seed,
            start_ns=start_ns,
            send=send,
            link_rate_bps=link_rate_bps,
            lead_ns=LEAD_NS,
            obeys=obeys,
            watchdog_ns=watchdog_ns,
            largest_octets=slot_octets(max(link.facts.longest_octets for link in links)),
            ethertypes=how.ethertypes,
        )

    click.echo(f"ecmproto: seed {chosen_seed}", err=True)
    title = f"{', '.join(inputs)} to {output} at {format_rate(facts.rate_bps)}, {machine.name}"
    return live(
        Role(name="cp", title=title),
        names,
        how,
        precompile=lambda: precompile_port(machine, how.ethertypes, obeys=obeys),
        make=make,
    )
