"""What ``ecmproto replay`` does once it knows what is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ecmproto.capture import Batch, CaptureCopier, CaptureReader, open_captures, open_sink
from ecmproto.errors import ParameterError
from ecmproto.mechanisms.registry import find_mechanism
from ecmproto.replay.closed_output import ClosedLoopOutput
from ecmproto.replay.marks import machine_on_port
from ecmproto.replay.output import OpenLoopOutput
from ecmproto.replay.series_output import SampleWriter, check_series_path, write_flows
from ecmproto.replay.session import Outcome, Plan, replay_capture
from ecmproto_cli.errors import warn
from ecmproto_cli.output import check_outputs
from ecmproto_cli.progress import watched, work
from ecmproto_cli.replay_table import comparison_table, replay_table

if TYPE_CHECKING:
    from ecmproto.codec import EtherTypes
    from ecmproto.filter import Filter
    from ecmproto.replay.facts import LoopFacts, PortFacts


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
class Request:
    """The options of the command, read."""

    paths: tuple[str, ...]
    filter: Filter | None
    variants: list[Variant]
    compares: bool
    """Whether these are to stand side by side: then series name the variant of each row."""
    assignments: tuple[str, ...]
    port: PortFacts
    loop: LoopFacts | None
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


def replay_all(request: Request) -> None:
    """Replay the capture through each mechanism and show what it came to."""
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


def _plan(request: Request, variant: Variant) -> Plan:
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


def _own(request: Request, name: str) -> Iterator[str]:
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
    request: Request, plan: Plan, samples: SampleWriter | None, label: str
) -> tuple[Outcome, Exception | None]:
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
def _output(request: Request, reader: CaptureReader) -> Iterator[OpenLoopOutput | ClosedLoopOutput | None]:
    if request.output is None:
        yield None
    elif request.loop is not None:
        with ClosedLoopOutput(reader, request.output, force=request.force) as written:
            yield written
    else:
        with CaptureCopier(reader, request.output, force=request.force) as copier:
            yield OpenLoopOutput(reader, copier)


def _samples(request: Request) -> AbstractContextManager[SampleWriter | None]:
    if request.samples is None:
        return nullcontext()
    return SampleWriter(request.samples, by_variant=request.compares, force=request.force)


def _show(request: Request, outcomes: list[Outcome]) -> None:
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


def _report(request: Request, path: str, outcomes: list[Outcome]) -> None:
    from ecmproto.report.output import report_form
    from ecmproto.report.replays import replay_report

    titles = [find_mechanism(variant.name).title for variant in request.variants]
    content = report_form(path)(replay_report(request.path, outcomes, titles))
    with open_sink(path, force=request.force) as sink:
        sink.write(content)
