"""``ecmproto replay``: a capture through a software switch port, and stations that react to it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import ParameterError, escaped
from ecmproto.units import NS_PER_S, format_octets, format_rate, format_time
from ecmproto_cli.errors import warn
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
from ecmproto_cli.output import bars, check_outputs, columns_of, output_form, paint, pairs, sparkline
from ecmproto_cli.progress import watched, work

if TYPE_CHECKING:
    from ecmproto.capture import Batch, CaptureReader
    from ecmproto.codec import EtherTypes
    from ecmproto.engine.config import LoopConfig, PortConfig
    from ecmproto.engine.gauge import QueueStatistics, QueueTrace
    from ecmproto.engine.statistics import FlowRates
    from ecmproto.filter import Filter
    from ecmproto.replay.closed_output import ClosedLoopOutput
    from ecmproto.replay.output import OpenLoopOutput
    from ecmproto.replay.series import SampleWriter
    from ecmproto.replay.session import Outcome, Plan
    from ecmproto.replay.summary import (
        PortSummary,
        ReplaySummary,
        StationsSummary,
    )

_WIDTH = 80
_NAMES = 13
_FB_STEP = 8
_FLOWS_SHOWN = 16


def _list_parameters(ctx: click.Context, param: click.Parameter, mechanism: str | None) -> None:
    """Print the parameters of a mechanism's roles and leave."""
    from ecmproto.mechanisms.registry import find_mechanism

    if mechanism is None or ctx.resilient_parsing:
        return

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

    from ecmproto.engine.config import LoopConfig, PortConfig, parse_buffer, parse_port_rate
    from ecmproto.formats.text import mac_of
    from ecmproto.units import parse_octets, parse_rate, parse_time

    variants = variants_of(compare) if compare is not None else [Variant(name=name)]
    if len(variants) > 1 and output:
        raise click.UsageError("-w writes the capture of one replay, --compare makes several")
    drawn = secrets.randbelow(2**32) if seed is None else seed
    room = parse_buffer(buffer)
    served = parse_port_rate(rate)
    port = PortConfig(
        rate_bps=served.rate_bps,
        rate_changes=served.changes,
        buffer_octets=room.octets,
        buffer_frames=room.frames,
        overhead_octets=overhead,
        cp_mac=mac_of(cp_mac),
    )
    loop = LoopConfig(
        link_rate_bps=parse_rate(link_rate) if link_rate else served.rate_bps,
        feedback_delay_ns=parse_time(feedback_delay),
        queue_octets=parse_octets(rp_queue),
        hops=hops,
        captured_feedback=cp == "none" and rp not in (None, "none"),
    )
    replay_all(
        ReplayRequest(
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A mechanism to replay, with parameters of its own: ``qcn``, or ``qcn:w=4:rp.gd=0.01``."""

    name: str
    assignments: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What it is called: as `variants_of` reads it."""
        return ":".join((self.name, *self.assignments))


def variants_of(text: str) -> list[Variant]:
    """Return what ``--compare`` names: mechanisms, commas between them, each with its own parameters.

    A part that begins with a digit goes on with the value before it: ``pfc:priorities=3,5-7``.
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
    """The options of the command, read."""

    paths: tuple[str, ...]
    filter: Filter | None
    variants: list[Variant]
    compares: bool
    """Whether these are to stand side by side: then series name the variant of each row."""
    assignments: tuple[str, ...]
    port: PortConfig
    loop: LoopConfig | None
    ports: str
    flow_control: str | None
    seed: int
    ethertypes: EtherTypes
    output: str | None
    reports: tuple[str, ...]
    samples: str | None
    flows: str | None
    force: bool
    form: str

    @property
    def path(self) -> str:
        """The captures' names, for titles."""
        return ", ".join(self.paths)


def replay_all(request: ReplayRequest) -> None:
    """Replay the capture through each mechanism and show what it came to."""
    from ecmproto.replay.series import check_series_path, write_flows

    if "-" in request.paths and len(request.variants) > 1:
        raise click.UsageError("--compare reads the capture several times: stdin can be read once")
    plans = [_plan(request, variant) for variant in request.variants]
    _check_that_all_differ(request.variants, plans)
    for path in filter(None, (request.samples, request.flows)):
        check_series_path(path)
    _check_reports(request.reports)
    check_outputs([request.output, request.samples, request.flows, *request.reports], force=request.force)
    click.echo(f"ecmproto: seed {request.seed}", err=True)
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


def _check_reports(paths: tuple[str, ...]) -> None:
    """Find out before the work whether reports can be drawn."""
    if paths:
        from ecmproto.report.output import report_form

        for path in paths:
            report_form(path)


def _check_that_all_differ(variants: list[Variant], plans: list[Plan]) -> None:
    """Raise UsageError for two replays that would be the same, octet for octet."""
    settled: dict[str, Variant] = {}
    for variant, plan in zip(variants, plans, strict=True):
        machine = plan.machine
        first = settled.setdefault(f"{machine.name} {machine.parameters_as_text()}", variant)
        if first is not variant:
            other = f", or give one other parameters, as in {variant.name}:NAME=VALUE"
            raise click.UsageError(
                f"--compare: {first.text} and {variant.text} are the same replay: leave one out"
                f"{other if machine.parameters else ''}"
            )


def _plan(request: ReplayRequest, variant: Variant) -> Plan:
    from ecmproto.engine.port import machine_on_port
    from ecmproto.replay.session import Plan

    machine = machine_on_port(
        variant.name,
        [*_own(request, variant.name), *variant.assignments],
        buffer_octets=request.port.buffer_octets,
        flow_control=request.flow_control,
    )
    return Plan(
        machine=machine,
        port=request.port,
        loop=request.loop,
        seed=request.seed,
        variant=variant.text + machine.name.removeprefix(variant.name),
        ports=request.ports,
        with_flows=bool(request.reports or request.flows),
        filter=request.filter,
        ethertypes=request.ethertypes,
    )


def _own(request: ReplayRequest, name: str) -> Iterator[str]:
    """Yield the assignments for a mechanism: of several mechanisms ``name:parameter=value`` is for one."""
    names = list(dict.fromkeys(variant.name for variant in request.variants))
    for assignment in request.assignments:
        target, colon, rest = assignment.partition(":")
        if not colon or "=" in target:
            yield assignment
        elif target == name:
            yield rest
        elif target not in names:
            raise ParameterError(
                name="param",
                needed=f"a mechanism that is replayed ({', '.join(names)})",
                got=repr(target),
            )


def _replay(
    request: ReplayRequest, plan: Plan, samples: SampleWriter | None, label: str
) -> tuple[Outcome, Exception | None]:
    from ecmproto.capture import open_captures
    from ecmproto.replay.session import replay_capture

    sink = samples.rows_of(plan.machine, plan.variant) if samples else None
    with open_captures(request.paths) as reader:
        with _output(request, reader) as output:

            def watch(batches: Iterable[Batch]) -> Iterator[Batch]:
                return watched(batches, reader, label)

            outcome = replay_capture(reader, plan, output=output, sink=sink, watch=watch)
        for warning in [*reader.warnings, *(output.warnings if output else ())]:
            warn(warning)
        return outcome, reader.problem


@contextmanager
def _output(
    request: ReplayRequest, reader: CaptureReader
) -> Iterator[OpenLoopOutput | ClosedLoopOutput | None]:
    from ecmproto.capture import CaptureCopier
    from ecmproto.replay.closed_output import ClosedLoopOutput
    from ecmproto.replay.output import OpenLoopOutput

    if request.output is None:
        yield None
    elif request.loop is not None:
        with ClosedLoopOutput(reader, request.output, force=request.force) as written:
            yield written
    else:
        with CaptureCopier(reader, request.output, force=request.force) as copier:
            yield OpenLoopOutput(reader, copier)


def _samples(request: ReplayRequest) -> AbstractContextManager[SampleWriter | None]:
    from ecmproto.replay.series import SampleWriter

    if request.samples is None:
        return nullcontext()
    return SampleWriter(request.samples, by_variant=request.compares, force=request.force)


def _show(request: ReplayRequest, outcomes: list[Outcome]) -> None:
    from ecmproto.mechanisms.registry import find_mechanism

    summaries = [outcome.summary for outcome in outcomes]
    if request.form == "json":
        documents: list[dict[str, Any]] = [
            {"schema": "ecmproto/replay/1", "capture": request.path} | summary.as_dict()
            for summary in summaries
        ]
        joint = {"schema": "ecmproto/replay-comparison/1", "capture": request.path, "replays": documents}
        click.echo(json.dumps(documents[0] if len(documents) == 1 else joint, indent=2))
        return
    if len(summaries) == 1:
        title = find_mechanism(request.variants[0].name).title
        text = replay_table(summaries[0], request.path, title)
    else:
        text = comparison_table(summaries, request.path)
    click.echo(text, err=request.output == "-")


def _report(request: ReplayRequest, path: str, outcomes: list[Outcome]) -> None:
    from ecmproto.capture import open_sink
    from ecmproto.mechanisms.registry import find_mechanism
    from ecmproto.report.output import report_form
    from ecmproto.report.replays import replay_report

    titles = [find_mechanism(variant.name).title for variant in request.variants]
    content = report_form(path)(replay_report(request.path, outcomes, titles))
    with open_sink(path, force=request.force) as sink:
        sink.write(content)


def replay_table(summary: ReplaySummary, path: str, title: str) -> str:
    """Return the summary as a table, the queues over time and the histogram of the feedback."""
    parts = [
        paint(f"{escaped(path)} through {title}, {summary.loop} loop", "title"),
        pairs(_facts(summary), width=_NAMES),
    ]
    parts.append(pairs(_arrivals(summary), width=_NAMES))
    for port in summary.ports:
        if len(summary.ports) > 1:
            parts.append(paint(port.name, "title"))
        parts.append(pairs([*_counts(port), *_queues(port, summary)], width=_NAMES))
        if summary.duration_ns:
            parts.append(_trace(port.trace))
        if port.fb_histogram:
            parts.append(_feedback(port.fb_histogram))
    if summary.stations is not None:
        parts.append(pairs(_stations(summary.stations), width=_NAMES))
    if summary.flows and summary.duration_ns:
        parts.append(_flows(summary.flows, summary.duration_ns))
    return "\n\n".join(parts)


def _facts(summary: ReplaySummary) -> list[tuple[str, str]]:
    rows = [
        ("port", f"{summary.rate}, {summary.overhead_octets} octets of overhead a frame"),
        ("buffer", summary.buffer),
    ]
    shown = {"cp"} if summary.stations is None else set(summary.parameters)
    for role, values in summary.parameters.items():
        if role in shown and values:
            text = ", ".join(f"{name} {value}" for name, value in values.items())
            rows.append((f"{role} parameters", text))
    return [*rows, ("seed", str(summary.seed))]


def _arrivals(summary: ReplaySummary) -> list[tuple[str, str]]:
    offered = ""
    if summary.duration_ns:
        rate_bps = 8 * summary.octets * NS_PER_S / summary.duration_ns
        offered = f" in {format_time(summary.duration_ns)} ({format_rate(rate_bps)})"
    rows = [
        ("frames", f"{summary.frames:,}, {format_octets(summary.octets)}{offered}"),
        *([("time", _window(summary))] if summary.duration_ns else []),
    ]
    others = (
        ("passed by", summary.passed_by, "frames that occupy no queue: MAC Control, link-local, of no port"),
        ("backwards", summary.backwards, "frames stamped before an earlier one, taken at that one's time"),
        ("untimed", summary.untimed, "frames without a time, taken at the time of the one before"),
    )
    return rows + _noted(others)


def _window(summary: ReplaySummary) -> str:
    """Return which time the figures are about."""
    return (
        f"{format_time(summary.duration_ns)}, first frame to last, in all figures; "
        f"second half from {format_time(summary.second_half_ns)}"
    )


def _noted(rows: Sequence[tuple[str, int, str]]) -> list[tuple[str, str]]:
    return [(name, f"{count:,}  ({meaning})") for name, count, meaning in rows if count]


def _counts(port: PortSummary) -> list[tuple[str, str]]:
    rows = [("dropped", f"{port.dropped_frames:,}, {format_octets(port.dropped_octets)}")]
    if port.samples:
        rows.append(("samples", f"{port.samples:,}"))
    rows += [(f"{name} sent", f"{count:,}") for name, count in port.messages.items()]
    unanswered = "congested samples whose source no message can or may reach"
    return rows + _noted([("unanswered", port.unanswered, unanswered)])


def _queues(port: PortSummary, summary: ReplaySummary) -> list[tuple[str, str]]:
    rows = [("queue", _lengths(port.queue))]
    if summary.stations is not None:
        rows.append(("second half", f"mean {format_octets(port.second_half_mean_octets)}"))
    if len(port.queue_by_priority) > 1:
        rows += [
            (f"priority {priority}", _lengths(queue)) for priority, queue in port.queue_by_priority.items()
        ]
    return [*rows, ("line busy", f"{100 * port.utilisation:.1f} %")]


def _lengths(queue: QueueStatistics) -> str:
    values = (
        ("mean", queue.mean_octets),
        ("p50", queue.p50_octets),
        ("p90", queue.p90_octets),
        ("p99", queue.p99_octets),
        ("peak", queue.peak_octets),
    )
    return ", ".join(f"{name} {format_octets(value)}" for name, value in values)


def _stations(stations: StationsSummary) -> list[tuple[str, str]]:
    rows = [
        ("stations", f"{stations.stations:,} on {format_rate(stations.link_rate_bps)}, "
         f"{stations.flows:,} flows"),
        ("feedback", f"{stations.messages:,} messages, {format_time(stations.feedback_delay_ns)} on their "
         "way"),
        ("held out", f"{stations.held_out_frames:,}, {format_octets(stations.held_out_octets)}"
         f"  (frames that found their station's queue of {format_octets(stations.queue_octets)} full)"),
        ("limited", f"{stations.limited_frames:,} frames waited, at most "
         f"{format_octets(stations.longest_wait_octets)} behind one limiter"),
        ("delivered", f"{stations.delivered_frames:,}, {format_octets(stations.delivered_octets)}"),
    ]  # fmt: skip
    if stations.waiting_frames or stations.queued_frames:
        waiting = f"{stations.waiting_frames:,}, {format_octets(stations.waiting_octets)}, at stations"
        rows.append(("waiting", f"{waiting}, {stations.queued_frames:,} in the port when the time was over"))
    rows.append(("fairness", _fairness(stations)))
    if stations.probes:
        rows.append(("probes", f"{stations.probes:,}"))
    if stations.paused_ns:
        together = f"{format_time(stations.paused_ns)} in which some station stood still"
        summed = f"{format_time(stations.paused_sum_ns)} summed over stations and priorities"
        rows.append(("paused", f"{together}, {summed}"))
    counted = ", ".join(
        f"{name.replace('_', ' ')} {count:,}" for name, count in stations.counters.items() if count
    )
    return [*rows, *([("counted", counted)] if counted else [])]


def _fairness(stations: StationsSummary) -> str:
    if not stations.fairness_flows:
        return "no flow asked for anything in the second half"
    flows = "1 flow that" if stations.fairness_flows == 1 else f"{stations.fairness_flows:,} flows that"
    index = _fairness_text(stations)
    return f"{index}  (Jain's index of the rates of {flows} asked for something in the second half)"


def _fairness_text(stations: StationsSummary) -> str:
    from ecmproto.report.scale import value_text

    return value_text(stations.fairness, "index")


def _trace(trace: QueueTrace) -> str:
    top = max(trace.peak_octets)
    line = sparkline(trace.peak_octets, top=top, width=_WIDTH)
    end = format_time(trace.span_ns * len(trace.peak_octets))
    scale = f"0{end.rjust(len(line) - 1)}"
    title = paint(f"queue over time, full height {format_octets(top)}", "title")
    return f"{title}\n  {paint(line, 'congestion')}\n  {scale}"


def _feedback(histogram: Sequence[int]) -> str:
    """Return the histogram: no feedback by itself, then in the steps that shorten the sampling."""
    counts = [("0", histogram[0])]
    for first in range(0, len(histogram), _FB_STEP):
        low = max(1, first)
        last = first + _FB_STEP - 1
        counts.append((f"{low}–{last}", sum(histogram[low : last + 1])))
    return f"{paint('samples by quantized feedback', 'title')}\n{bars(counts, width=40)}"


def _flows(flows: Sequence[FlowRates], duration_ns: int) -> str:
    rows = []
    for flow in flows[:_FLOWS_SHOWN]:
        offered = format_rate(8 * flow.offered_octets * NS_PER_S / duration_ns)
        text = f"offered {offered}, in the second half {format_rate(flow.second_half_bps)} through"
        if flow.dropped_octets:
            text += f", {format_octets(flow.dropped_octets)} dropped"
        rows.append((flow.label, text))
    if len(flows) > _FLOWS_SHOWN:
        rows.append(("…", f"and {len(flows) - _FLOWS_SHOWN} more"))
    return f"{paint('flows', 'title')}\n{pairs(rows)}"


def comparison_table(summaries: Sequence[ReplaySummary], path: str) -> str:
    """Return several mechanisms side by side: a line a figure, then each queue over time."""
    names = [summary.variant for summary in summaries]
    first = summaries[0]
    rows = [("", names)] + [(label, [show(summary) for summary in summaries]) for label, show in _MEASURES]
    if all(summary.stations is not None for summary in summaries):
        rows += [(label, [show(summary) for summary in summaries]) for label, show in _STATION_MEASURES]
    top = max(max(summary.ports[0].trace.peak_octets, default=0) for summary in summaries)
    name_width = max(map(len, names))
    curves = [
        f"  {name.ljust(name_width)}  "
        + paint(sparkline(s.ports[0].trace.peak_octets, top=top, width=_WIDTH - name_width), "congestion")
        for name, s in zip(names, summaries, strict=True)
    ]
    title = f"{escaped(path)} through {', '.join(names)}, {first.loop} loop"
    port = f"{first.rate}, buffer {first.buffer}, seed {first.seed}"
    facts = [("port", port), *([("time", _window(first))] if first.duration_ns else [])]
    return "\n\n".join(
        [
            paint(title, "title"),
            pairs(facts),
            columns_of(rows),
            paint(f"queues over time, full height {format_octets(top)}", "title") + "\n" + "\n".join(curves),
        ]
    )


_MEASURES: Sequence[tuple[str, Callable[[ReplaySummary], str]]] = (
    ("dropped frames", lambda s: f"{s.ports[0].dropped_frames:,}"),
    ("mean queue", lambda s: format_octets(s.ports[0].queue.mean_octets)),
    ("second half", lambda s: format_octets(s.ports[0].second_half_mean_octets)),
    ("p99 queue", lambda s: format_octets(s.ports[0].queue.p99_octets)),
    ("peak queue", lambda s: format_octets(s.ports[0].queue.peak_octets)),
    ("line busy", lambda s: f"{100 * s.ports[0].utilisation:.1f} %"),
    ("messages", lambda s: f"{sum(s.ports[0].messages.values()):,}"),
)

_STATION_MEASURES: Sequence[tuple[str, Callable[[ReplaySummary], str]]] = (
    ("through", lambda s: format_rate(sum(flow.second_half_bps for flow in s.flows))),
    ("fairness", lambda s: _fairness_text(s.stations) if s.stations else ""),
    ("held out", lambda s: f"{s.stations.held_out_frames:,}" if s.stations else ""),
    ("time paused", lambda s: format_time(s.stations.paused_ns) if s.stations else ""),
    ("pauses summed", lambda s: format_time(s.stations.paused_sum_ns) if s.stations else ""),
)
