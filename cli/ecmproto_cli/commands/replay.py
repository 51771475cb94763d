"""``ecmproto replay``: a capture through a software switch port, and stations that react to it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from ecmproto_cli.options import (
    RATE,
    SIZE,
    TIME,
    color_option,
    ethertype_option,
    filter_option,
    force_option,
    read_option,
    write_option,
)
from ecmproto_cli.output import output_form

if TYPE_CHECKING:
    from ecmproto.codec import EtherTypes
    from ecmproto.filter import Filter


def _list_parameters(ctx: click.Context, param: click.Parameter, mechanism: str | None) -> None:
    """Print the parameters of a mechanism's roles and leave."""
    if mechanism is None or ctx.resilient_parsing:
        return
    from ecmproto.mechanisms.registry import find_mechanism

    for role, part in find_mechanism(mechanism).roles.items():
        defaults = part.parameters().as_text()
        for parameter in part.parameters.describe():
            click.echo(f"{role.value}.{parameter.name}={defaults[parameter.name]}  {parameter.doc}")
            click.echo(f"    {parameter.range_text}; {parameter.source}")
    ctx.exit()


@click.command()
@read_option()
@filter_option("Replay only the frames that this display filter selects, as if there were no others.")
@click.option("--cp", metavar="MECHANISM", help="Whose congestion point the port has.")
@click.option(
    "--rp", metavar="MECHANISM",
    help="Whose reaction points the stations have, which closes the loop; the same as --cp. With --cp none "
    "they heed the feedback that the capture holds.",
)  # fmt: skip
@click.option(
    "--compare", metavar="MECHANISM[:NAME=VALUE…],…",
    help="Run the capture through several mechanisms, or one with several parameters, closed loop, side by "
    "side.",
)  # fmt: skip
@click.option(
    "--rate", default="10G", show_default=True, metavar="RATE[,RATE@TIME…]",
    help="Rate at which the port serves its queues; 10G,1G@10ms,10G@50ms changes it so long after the first "
    "frame.",
)  # fmt: skip
@click.option(
    "--buffer", default="500kB", show_default=True,
    help="What the port's queues hold together: as 500kB, or as 100frames.",
)  # fmt: skip
@click.option(
    "--ports", "ports", default="one", show_default=True, metavar="one|dst|interface|FILTER;…",
    help="Open loop: one port, one per destination or interface, or one per display filter.",
)  # fmt: skip
@click.option("--link-rate", type=RATE, help="Rate of the stations' own links.  [default: --rate, the first]")
@click.option(
    "--feedback-delay", type=TIME, default="10us", show_default=True,
    help="From the port, or a destination, back to a station.",
)  # fmt: skip
@click.option(
    "--hops", type=int, default=1, show_default=True,
    help="Congestion points on a flow's path: what E²CM's rp.hops_exponent raises.",
)  # fmt: skip
@click.option(
    "--rp-queue", type=SIZE, default="1MB", show_default=True, help="What each queue of a station holds."
)
@click.option(
    "--flow-control", type=click.Choice(["pause", "pfc"]), help="Have the port send PAUSE or PFC as well."
)
@click.option(
    "--param", "assignments", metavar="[ROLE.]NAME=VALUE", multiple=True,
    help="A parameter of the mechanism, as in qeq=33kB or rp.gd=0.01.",
)  # fmt: skip
@click.option(
    "--params", metavar="MECHANISM", is_eager=True, expose_value=False, callback=_list_parameters,
    help="List a mechanism's parameters and leave.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), help="Seed of all that is drawn.  [default: drawn]")
@click.option("--cp-mac", default="02:00:00:00:cc:01", show_default=True, help="MAC address of the port.")
@click.option(
    "--overhead", default=24, show_default=True, type=click.IntRange(0, 1000),
    help="Octets a frame takes on the line besides its own: FCS, preamble, gap.",
)  # fmt: skip
@write_option("Write the capture as it would have been, with all generated frames in it.")
@click.option(
    "--report",
    metavar="FILE",
    multiple=True,
    help="Write a report: .html, .png or .svg; needs ecmproto[report].",
)
@click.option("--samples", metavar="FILE", help="Write every sample and message: .csv or .parquet.")
@click.option("--flows", metavar="FILE", help="Write the flows' rates over time: .csv or .parquet.")
@force_option
@click.option("-T", "form", type=click.Choice(["table", "json"]), default="table", help="How to report.")
@ethertype_option
@color_option
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    cp: str | None,
    rp: str | None,
    compare: str | None,
    rate: str,
    buffer: str,
    ports: str,
    link_rate: str | None,
    feedback_delay: str,
    hops: int,
    rp_queue: str,
    flow_control: str | None,
    assignments: tuple[str, ...],
    seed: int | None,
    cp_mac: str,
    overhead: int,
    output: str | None,
    report: tuple[str, ...],
    samples: str | None,
    flows: str | None,
    force: bool,
    form: str,
    ethertypes: EtherTypes,
) -> None:
    """Run a capture through a software congestion point, and reaction points.

    Open loop (--cp): the captured frames arrive at a port when they were captured, whatever messages it
    sends. Closed loop (--rp as well): each source is a station that sends the captured frames when its
    reaction point lets it, and the port's messages reach it. The port serves a queue per priority at --rate
    and drops what its buffer cannot hold.

    \b
    ecmproto replay -r in.pcap --cp qcn --rate 10G -w out.pcapng
    ecmproto replay -r in.pcap --cp qcn --rp qcn --report out.html
    ecmproto replay -r in.pcap --cp qcn -Y 'vlan.priority == 3 and frame.len > 1000'
    ecmproto replay -r in.pcap --compare qcn,ecm,fecn,e2cm,pfc,none --report out.html
    ecmproto replay -r in.pcap --compare qcn,qcn:w=4,qcn:w=4:rp.gd=0.01 --flows flows.csv
    """
    output_form(output, None, ("pcap", "pcapng"), text="")
    if output == "-" and form == "json":
        raise click.UsageError("-w - sends the capture to stdout, where no report can be")
    if compare is not None and (cp or rp):
        raise click.UsageError("--compare names the mechanisms itself: leave --cp and --rp out")
    if compare is not None and not compare.strip(", "):
        raise click.UsageError("--compare needs mechanisms, as in qcn,ecm,none")
    name = _mechanism(cp, rp) if compare is None else ""
    closed = rp is not None or compare is not None
    if closed and ports != "one":
        raise click.UsageError("--ports is for open loops: a closed loop has one port")

    from ecmproto.formats.text import mac_of
    from ecmproto.replay.facts import LoopFacts, PortFacts, parse_buffer, parse_port_rate
    from ecmproto.units import parse_octets, parse_rate, parse_time
    from ecmproto_cli.replaying import Request, Variant, replay_all, variants_of

    variants = variants_of(compare) if compare is not None else [Variant(name=name)]
    if len(variants) > 1 and output:
        raise click.UsageError("-w writes the capture of one replay, --compare makes several")
    drawn = secrets.randbelow(2**32) if seed is None else seed
    room = parse_buffer(buffer)
    served = parse_port_rate(rate)
    port = PortFacts(
        rate_bps=served.rate_bps,
        rate_changes=served.changes,
        buffer_octets=room.octets,
        buffer_frames=room.frames,
        overhead_octets=overhead,
        cp_mac=mac_of(cp_mac),
    )
    loop = LoopFacts(
        link_rate_bps=parse_rate(link_rate) if link_rate else served.rate_bps,
        feedback_delay_ns=parse_time(feedback_delay),
        queue_octets=parse_octets(rp_queue),
        hops=hops,
        heed_captured=cp == "none" and rp not in (None, "none"),
    )
    replay_all(
        Request(
            paths=paths,
            filter=filter,
            variants=variants,
            compares=compare is not None,
            assignments=assignments,
            port=port,
            loop=loop if closed else None,
            ports=ports,
            flow_control=flow_control,
            seed=drawn,
            ethertypes=ethertypes,
            output=output,
            reports=report,
            samples=samples,
            flows=flows,
            force=force,
            form=form,
        )
    )


def _mechanism(cp: str | None, rp: str | None) -> str:
    """Return which mechanism is to be replayed."""
    if cp is None:
        raise click.UsageError("Missing option '--cp' or '--compare': which mechanism?")
    if cp == "none" and rp is not None:
        return rp
    if rp not in (None, cp):
        raise click.UsageError(f"--rp {rp}: reaction points of {rp} do not understand {cp}'s messages")
    return cp
