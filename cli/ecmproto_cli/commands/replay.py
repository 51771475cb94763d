"""``ecmproto replay``: a capture as the arrival process of a software switch port."""

from __future__ import annotations

import json
import secrets
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from ecmproto_cli.failure import warn
from ecmproto_cli.options import color_option, ethertype_option, force_option, read_option, write_option
from ecmproto_cli.progress import watched

if TYPE_CHECKING:
    from ecmproto.control.qcn.parameters import CongestionPointParameters
    from ecmproto.wire import EtherTypes


def _list_parameters(ctx: click.Context, param: click.Parameter, mechanism: str | None) -> None:
    """Print the parameters of a mechanism's congestion point and leave."""
    if mechanism is None or ctx.resilient_parsing:
        return
    from ecmproto.control.mechanism import Role
    from ecmproto.control.registry import find_mechanism

    parameters = find_mechanism(mechanism).role(Role.CONGESTION_POINT).parameters
    defaults = parameters().as_text()
    for parameter in parameters.describe():
        click.echo(f"{parameter.name}={defaults[parameter.name]}  {parameter.doc}")
        click.echo(f"    {parameter.range_text}; {parameter.source}")
    ctx.exit()


@click.command()
@read_option()
@click.option("--cp", "mechanism", metavar="MECHANISM", required=True, help="Whose congestion point: qcn.")
@click.option("--rate", default="10G", show_default=True, help="Rate at which the port serves its queues.")
@click.option("--buffer", default="500kB", show_default=True, help="Octets that the port's queues share.")
@click.option(
    "--param", "assignments", metavar="NAME=VALUE", multiple=True,
    help="A parameter of the congestion point, as in qeq=33kB.",
)  # fmt: skip
@click.option(
    "--params", metavar="MECHANISM", is_eager=True, expose_value=False, callback=_list_parameters,
    help="List a mechanism's parameters and leave.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the sampling's jitter.  [default: drawn]")
@click.option("--cp-mac", default="02:00:00:00:cc:01", show_default=True, help="MAC address CNMs come from.")
@click.option(
    "--overhead", default=24, show_default=True, type=click.IntRange(0, 1000),
    help="Octets a frame takes on the line besides its own: FCS, preamble, gap.",
)  # fmt: skip
@write_option("Write the capture with the CNMs in it, each behind the frame that caused it.")
@force_option
@click.option("-T", "form", type=click.Choice(["table", "json"]), default="table", help="How to report.")
@ethertype_option
@color_option
def command(
    path: str,
    mechanism: str,
    rate: str,
    buffer: str,
    assignments: tuple[str, ...],
    seed: int | None,
    cp_mac: str,
    overhead: int,
    output: str | None,
    force: bool,
    form: str,
    ethertypes: EtherTypes,
) -> None:
    """Run a capture through a software congestion point.

    Open loop: the captured frames arrive at one output port when they were captured, whatever messages it
    sends. The port serves a queue per priority at --rate and drops what its buffer cannot hold; its
    congestion point samples frames and answers the sampled ones' sources with CNMs.

    \b
    ecmproto replay -r in.pcap --cp qcn --rate 10G -w out.pcapng
    """
    if output == "-" and form == "json":
        raise click.UsageError("-w - sends the capture to stdout, where no report can be")
    from ecmproto.units import parse_octets, parse_rate
    from ecmproto.wire.text import mac_of

    parameters = _parameters(mechanism, assignments)
    rate_bps, buffer_octets, cp = parse_rate(rate), parse_octets(buffer), mac_of(cp_mac)
    drawn = secrets.randbelow(2**32) if seed is None else seed

    from ecmproto.capture import CaptureCopier, open_capture
    from ecmproto.replay.open_loop import replay_open_loop
    from ecmproto.replay.output import batches_of, write_replay

    with open_capture(path) as reader:
        with CaptureCopier(reader, output, force=force) if output else nullcontext() as copier:
            replay = replay_open_loop(
                watched(batches_of(reader, copier), reader, "replay"),
                rate_bps=rate_bps,
                buffer_octets=buffer_octets,
                parameters=parameters,
                seed=drawn,
                cp_mac=cp,
                overhead_octets=overhead,
                ethertypes=ethertypes,
                interfaces=reader.interfaces,
            )
            click.echo(f"ecmproto: seed {drawn}", err=True)
            write_replay(replay, reader, copier)
        for warning in [*reader.warnings, *(copier.warnings if copier else ())]:
            warn(warning)
        summary = replay.summary()
        if form == "json":
            document = {"schema": "ecmproto/replay/1", "capture": path, "mechanism": mechanism}
            click.echo(json.dumps(document | summary.as_dict(), indent=2))
        else:
            from ecmproto_cli.replay_table import replay_table

            click.echo(replay_table(summary, path), err=output == "-")
        if reader.problem is not None:
            raise reader.problem


def _parameters(mechanism: str, assignments: tuple[str, ...]) -> CongestionPointParameters:
    """Return the parameters of the mechanism's congestion point with the assignments made."""
    from ecmproto.control.mechanism import Role
    from ecmproto.control.qcn.parameters import CongestionPointParameters
    from ecmproto.control.registry import find_mechanism

    parameters = find_mechanism(mechanism).role(Role.CONGESTION_POINT).parameters.parse(assignments)
    if not isinstance(parameters, CongestionPointParameters):
        raise click.BadParameter(f"--cp: no replay runs {mechanism}'s congestion point (it runs qcn's)")
    return parameters
