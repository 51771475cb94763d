"""``ecmproto replay``: replay a capture through a software switch port, optionally with reacting stations."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.errors import warn
from ecmproto_cli.options import (
    RATE,
    SIZE,
    TIME,
    assigned_to,
    filter_option,
    force_option,
    form_option,
    outer_option,
    print_unwrapped,
    read_option,
    trailer_option,
    with_ethertypes,
    write_option,
)
from ecmproto_cli.output import check_outputs, output_form
from ecmproto_cli.progress import watched, work
from ecmproto_cli.terminal import echo, paint, prose_width

if TYPE_CHECKING:
    from ecmproto.control.engine.config import LoopConfig, PortConfig
    from ecmproto.control.replay.series import SampleWriter
    from ecmproto.control.replay.session import Outcome, Plan
    from ecmproto.frames.capture import Batch
    from ecmproto.frames.filter import Filter
    from ecmproto.wire.codec import EtherTypes


@click.command()
@read_option()
@filter_option("Replay only the frames that this display filter selects.")
@click.option("--cp", metavar="MECHANISM", help="Mechanism of the port's congestion point.")
@click.option(
    "--rp", metavar="MECHANISM",
    help="Close the loop: mechanism of the stations' reaction points, the same as --cp. With --cp none, the "
    "stations react to the feedback in the capture.",
)  # fmt: skip
@click.option(
    "--compare", metavar="MECHANISM[:NAME=VALUE…],…",
    help="Compare several mechanisms, or variants of a mechanism, each in a closed loop.",
)  # fmt: skip
@click.option(
    "--speed", "rate", default="10G", show_default=True, metavar="RATE[,RATE@TIME…]",
    help="Speed of the port. 10G,1G@10ms changes the speed to 1G, 10 ms after the first frame.",
)  # fmt: skip
@click.option(
    "--buffer", default="500kB", show_default=True,
    help="Capacity shared by the port's queues, such as 500kB or 100frames.",
)  # fmt: skip
@click.option(
    "--ports", "ports", default="one", show_default=True, metavar="one|dst|interface|FILTER;…",
    help="Number of ports in an open loop: one, one per destination or interface, or one per display filter.",
)  # fmt: skip
@click.option(
    "--link-speed", "link_rate_bps", type=RATE,
    help="Speed of each station's link.  [default: the first --speed]",
)  # fmt: skip
@click.option(
    "--feedback-delay", "feedback_delay_ns", type=TIME, default="10us", show_default=True,
    help="Delay of feedback from the port or a destination to a station.",
)  # fmt: skip
@click.option(
    "--hops", type=int, default=1, show_default=True,
    help="Number of congestion points on the path of a flow, which E²CM needs for rp.hops_exponent.",
)  # fmt: skip
@click.option(
    "--rp-queue", "queue_octets", type=SIZE, default="1MB", show_default=True,
    help="Capacity of each station queue.",
)  # fmt: skip
@click.option(
    "--flow-control",
    type=click.Choice(["pause", "pfc"]),
    help="Send PAUSE or PFC frames from the port, in addition to the mechanism's messages.",
)
@click.option(
    "--set", "assignments", metavar="NAME=VALUE", multiple=True,
    help="Set a parameter of the mechanism, such as qeq=33kB or rp.gd=0.01 (see ecmproto fields qcn).",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), help="Seed of all random numbers.  [default: random]")
@click.option("--cp-mac", default="02:00:00:00:cc:01", show_default=True, help="MAC address of the port.")
@click.option(
    "--overhead", default=24, show_default=True, type=click.IntRange(0, 1000),
    help="Octets that the line adds to each frame: FCS, preamble and gap.",
)  # fmt: skip
@outer_option
@trailer_option
@write_option("Write the resulting capture, including all generated frames.")
@click.option(
    "--report",
    "reports",
    metavar="FILE",
    multiple=True,
    help="Write a .html, .png or .svg report; needs ecmproto[report].",
)
@click.option("--samples", metavar="FILE", help="Write every sample and message to a .csv or .parquet file.")
@click.option("--flows", metavar="FILE", help="Write the flows' rates over time to a .csv or .parquet file.")
@force_option
@form_option("text", "json", help="Format of the report.")
@with_ethertypes
def command(
    cp: str | None,
    rp: str | None,
    compare: str | None,
    rate: str,
    buffer: str,
    ports: str,
    link_rate_bps: int | None,
    feedback_delay_ns: int,
    hops: int,
    queue_octets: int,
    seed: int | None,
    cp_mac: str,
    overhead: int,
    output: str | None,
    form: str,
    **options: Any,
) -> None:
    """Replay a capture through a software congestion point, optionally with reaction points.

    Open loop (--cp): frames arrive at the port at their captured times, whatever feedback it sends. Closed
    loop (--cp and --rp): each source is a station that receives the port's feedback, and sends its captured
    frames as its reaction point permits.  The port serves one queue per priority at --speed, and drops
    frames when its buffer is full.

    \b
    ecmproto replay -r in.pcap --cp qcn --speed 10G -w out.pcapng
    ecmproto replay -r in.pcap --cp qcn --rp qcn --report out.html
    ecmproto replay -r in.pcap --cp qcn -Y 'vlan.priority == 3 and frame.len > 1000'
    ecmproto replay -r in.pcap --compare qcn,ecm,fecn,e2cm,pfc,none --report out.html
    ecmproto replay -r in.pcap --compare qcn,qcn:w=4,qcn:w=4:rp.gd=0.01 --flows flows.csv
    """
    output_form(output, None, ("pcap", "pcapng"), text="")
    if output == "-" and form == "json":
        raise click.UsageError("-w - writes the capture to stdout, so no report can be printed there")
    if compare is not None and (cp or rp):
        raise click.UsageError("--compare names the mechanisms itself: omit --cp and --rp")
    if compare is not None and not compare.strip(", "):
        raise click.UsageError("--compare needs mechanisms, as in qcn,ecm,none")
    name = _mechanism(cp, rp) if compare is None else ""
    closed = rp is not None or compare is not None
    if closed and ports != "one":
        raise click.UsageError("--ports is for open loops: a closed loop has one port")

    from ecmproto.control.engine.config import LoopConfig, PortConfig, parse_buffer, parse_port_rate
    from ecmproto.wire.formats.text import mac_of

    variants = variants_of(compare) if compare is not None else [Variant(name=name)]
    if len(variants) > 1 and output:
        raise click.UsageError("-w writes the capture of one replay, --compare makes several")
    drawn = secrets.randbelow(2**32) if seed is None else seed
    capacity = parse_buffer(buffer)
    served = parse_port_rate(rate)
    port = PortConfig(
        rate_bps=served.rate_bps,
        rate_changes=served.changes,
        buffer_octets=capacity.octets,
        buffer_frames=capacity.frames,
        overhead_octets=overhead,
        cp_mac=mac_of(cp_mac),
    )
    loop = LoopConfig(
        link_rate_bps=served.rate_bps if link_rate_bps is None else link_rate_bps,
        feedback_delay_ns=feedback_delay_ns,
        queue_octets=queue_octets,
        hops=hops,
        captured_feedback=cp == "none" and rp not in (None, "none"),
    )
    replay_all(
        ReplayRequest(
            variants=variants,
            compares=compare is not None,
            port=port,
            loop=loop if closed else None,
            ports=ports,
            seed=drawn,
            output=output,
            form=form,
            **options,
        )
    )


def _mechanism(cp: str | None, rp: str | None) -> str:
    """Return the name of the mechanism for ``--cp`` and ``--rp``.

    Raises UsageError for missing or incompatible mechanisms.
    """
    if cp is None:
        raise click.UsageError("expected a mechanism: --cp or --compare")
    if cp == "none" and rp is not None:
        return rp
    if rp not in (None, cp):
        raise click.UsageError(f"--rp {rp}: reaction points of {rp} do not understand {cp}'s messages")
    return cp


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A mechanism with its own parameters, such as ``qcn`` or ``qcn:w=4:rp.gd=0.01``."""

    name: str
    assignments: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The variant in the format that `variants_of` parses."""
        return ":".join((self.name, *self.assignments))


def variants_of(text: str) -> list[Variant]:
    """Parse the value of ``--compare``: mechanisms with parameters, separated by commas.

    A part that begins with a digit continues the previous value, as in ``pfc:priorities=3,5-7``.
    """
    parts: list[str] = []
    for part in text.split(","):
        if part[:1].isdigit() and parts and "=" in parts[-1]:
            parts[-1] += f",{part}"
        elif part.strip():
            parts.append(part)
    split = [[piece.strip() for piece in part.split(":")] for part in parts]
    return [Variant(name=name, assignments=tuple(assignments)) for name, *assignments in split]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """The parsed options of the command."""

    paths: tuple[str, ...]
    filter: Filter | None
    variants: list[Variant]
    compares: bool
    """Whether several variants are compared, so that each row of a series names its variant."""
    assignments: tuple[str, ...]
    port: PortConfig
    loop: LoopConfig | None
    ports: str
    flow_control: str | None
    seed: int
    ethertypes: EtherTypes
    outer: bool
    """Whether mirrored and tunnelled frames are replayed without unwrapping."""
    trailer: str | None
    """The device that added time stamps to the frames, or None."""
    output: str | None
    reports: tuple[str, ...]
    samples: str | None
    flows: str | None
    force: bool
    form: str

    @property
    def path(self) -> str:
        """The names of the captures, for titles."""
        from ecmproto.frames.capture.names import names_shown

        return names_shown(self.paths)


def replay_all(request: ReplayRequest) -> None:
    """Replay the captures through each mechanism and print the results."""
    from ecmproto.control.replay.series import check_series_path, write_flows

    if "-" in request.paths and len(request.variants) > 1:
        raise click.UsageError("--compare reads the capture several times, but stdin can be read only once")
    plans = [_plan(request, variant) for variant in request.variants]
    _check_that_all_differ(request.variants, plans)
    for path in filter(None, (request.samples, request.flows)):
        check_series_path(path)
    outputs = (request.output, request.samples, request.flows)
    check_outputs(outputs, reports=request.reports, force=request.force)
    echo(f"ecmproto: seed {request.seed}", err=True)
    outcomes = []
    problem: Exception | None = None
    with _samples(request) as samples:
        for number, plan in enumerate(plans, 1):
            of_many = f", {number} of {len(plans)}" if len(plans) > 1 else ""
            outcome, problem = _replay(request, plan, samples, f"replay {plan.variant}{of_many}")
            outcomes.append(outcome)
    if request.flows:
        summaries = [outcome.summary for outcome in outcomes]
        write_flows(request.flows, summaries, by_variant=request.compares, force=request.force)
    _show(request, outcomes)
    for path in request.reports:
        work.at(f"report {path}")
        _report(request, path, outcomes)
    if problem is not None:
        raise problem


def _check_that_all_differ(variants: list[Variant], plans: list[Plan]) -> None:
    """Raise UsageError if two variants have the same mechanism and the same parameters."""
    settled: dict[str, Variant] = {}
    for variant, plan in zip(variants, plans, strict=True):
        machine = plan.machine
        first = settled.setdefault(f"{machine.name} {machine.parameters_as_text()}", variant)
        if first is not variant:
            other = f", or give one other parameters, as in {variant.name}:NAME=VALUE"
            raise click.UsageError(
                f"--compare: {first.text} and {variant.text} are the same replay: omit one"
                f"{other if machine.parameters else ''}"
            )


def _plan(request: ReplayRequest, variant: Variant) -> Plan:
    from ecmproto.control.engine.port import machine_on_port
    from ecmproto.control.mechanisms.registry import find_mechanism
    from ecmproto.control.replay.session import Plan

    names = list(dict.fromkeys(variant.name for variant in request.variants))
    machine = machine_on_port(
        variant.name,
        [*assigned_to(variant.name, request.assignments, names), *variant.assignments],
        buffer_octets=request.port.buffer_octets,
        flow_control=request.flow_control,
    )
    return Plan(
        machine=machine,
        port=request.port,
        loop=request.loop,
        seed=request.seed,
        variant=variant.text + machine.name.removeprefix(variant.name),
        title=find_mechanism(variant.name).title,
        ports=request.ports,
        with_flows=bool(request.reports or request.flows),
        filter=request.filter,
        ethertypes=request.ethertypes,
    )


def _replay(
    request: ReplayRequest, plan: Plan, samples: SampleWriter | None, label: str
) -> tuple[Outcome, Exception | None]:
    from ecmproto.control.replay.session import output_of, replay_capture
    from ecmproto.frames.batch.inner import open_unwrapped

    sink = samples.rows_of(plan.machine, plan.variant) if samples else None
    with open_unwrapped(
        request.paths, outer=request.outer, trailer=request.trailer, ethertypes=request.ethertypes
    ) as reader:
        with output_of(reader, plan, request.output, force=request.force) as output:

            def watch(batches: Iterable[Batch]) -> Iterator[Batch]:
                return watched(batches, reader, label)

            outcome = replay_capture(
                reader, plan, output=output, sink=sink, watch=watch, capture=request.path
            )
        warn(*reader.warnings, *(output.warnings if output else ()))
        print_unwrapped(reader)
        if any(each.sampling != 1 for each in reader.interfaces):
            warn("the frames are a sample, and load the port less than all frames: its queues are not theirs")
        return outcome, reader.problem


def _samples(request: ReplayRequest) -> AbstractContextManager[SampleWriter | None]:
    from ecmproto.control.replay.series import SampleWriter

    if request.samples is None:
        return nullcontext()
    return SampleWriter(request.samples, by_variant=request.compares, force=request.force)


def _show(request: ReplayRequest, outcomes: list[Outcome]) -> None:
    from ecmproto.control.replay.session import Comparison

    shown = outcomes[0] if len(outcomes) == 1 else Comparison(outcomes)
    if request.form == "json":
        echo(json.dumps(shown.as_dict(), indent=2))
        return
    echo(shown.table(paint, width=prose_width()), err=request.output == "-", wrap=True)


def _report(request: ReplayRequest, path: str, outcomes: list[Outcome]) -> None:
    from ecmproto.control.mechanisms.registry import find_mechanism
    from ecmproto.tools.report.html import write_report
    from ecmproto.tools.report.replays import replay_report

    titles = [find_mechanism(variant.name).title for variant in request.variants]
    write_report(replay_report(request.path, outcomes, titles), path, force=request.force)
