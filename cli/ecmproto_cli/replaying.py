"""What ``ecmproto replay`` does once it knows what is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ecmproto.capture import Batch, CaptureCopier, CaptureReader, open_captures, open_sink
from ecmproto.control.registry import find_mechanism
from ecmproto.errors import ParameterError
from ecmproto.replay.closed_output import ClosedLoopOutput
from ecmproto.replay.marks import machine_on_port
from ecmproto.replay.output import OpenLoopOutput
from ecmproto.replay.series_output import SampleWriter, check_series_path, write_flows
from ecmproto.replay.session import Outcome, Plan, replay_capture
from ecmproto_cli.failure import warn
from ecmproto_cli.outputs import check_outputs
from ecmproto_cli.progress import watched
from ecmproto_cli.replay_table import comparison_table, replay_table

if TYPE_CHECKING:
    from ecmproto.filter import Filter
    from ecmproto.replay.facts import LoopFacts, PortFacts
    from ecmproto.wire import EtherTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of the command, read."""

    paths: tuple[str, ...]
    filter: Filter | None
    names: list[str]
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
    if "-" in request.paths and len(request.names) > 1:
        raise click.UsageError("--compare reads the capture several times: stdin can be read once")
    plans = [_plan(request, name) for name in request.names]
    for path in filter(None, (request.samples, request.flows)):
        check_series_path(path)
    _check_reports(request.reports)
    check_outputs([request.output, request.samples, request.flows, *request.reports], force=request.force)
    click.echo(f"ecmproto: seed {request.seed}", err=True)
    outcomes = []
    problem: Exception | None = None
    for plan in plans:
        outcome, problem = _replay(request, plan)
        outcomes.append(outcome)
    _show(request, outcomes)
    for path in request.reports:
        _report(request, path, outcomes)
    if problem is not None:
        raise problem


def _check_reports(paths: tuple[str, ...]) -> None:
    """Find out before the work whether reports can be drawn."""
    if paths:
        from ecmproto.report.output import report_form

        for path in paths:
            report_form(path)


def _plan(request: Request, name: str) -> Plan:
    return Plan(
        machine=machine_on_port(
            name,
            _own(request, name),
            buffer_octets=request.port.buffer_octets,
            flow_control=request.flow_control,
        ),
        port=request.port,
        loop=request.loop,
        seed=request.seed,
        ports=request.ports,
        with_flows=bool(request.reports or request.flows),
        filter=request.filter,
        ethertypes=request.ethertypes,
    )


def _own(request: Request, name: str) -> Iterator[str]:
    """Yield the assignments for a mechanism: of several mechanisms ``name:parameter=value`` is for one."""
    for assignment in request.assignments:
        target, colon, rest = assignment.partition(":")
        if not colon or "=" in target:
            yield assignment
        elif target == name:
            yield rest
        elif target not in request.names:
            raise ParameterError(
                name="param",
                needed=f"a mechanism that is replayed ({', '.join(request.names)})",
                got=repr(target),
            )


def _replay(request: Request, plan: Plan) -> tuple[Outcome, Exception | None]:
    with open_captures(request.paths) as reader:
        with _output(request, reader) as output, _samples(request, plan) as sink:

            def watch(batches: Iterable[Batch]) -> Iterator[Batch]:
                return watched(batches, reader, f"replay {plan.machine.name}")

            outcome = replay_capture(reader, plan, output=output, sink=sink, watch=watch)
            if request.flows:
                write_flows(request.flows, outcome.summary, force=request.force)
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


def _samples(request: Request, plan: Plan) -> AbstractContextManager[SampleWriter | None]:
    if request.samples is None:
        return nullcontext()
    return SampleWriter(request.samples, plan.machine, force=request.force)


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
        title = find_mechanism(request.names[0]).title
        text = replay_table(summaries[0], request.path, title)
    else:
        text = comparison_table(summaries, request.path)
    click.echo(text, err=request.output == "-")


def _report(request: Request, path: str, outcomes: list[Outcome]) -> None:
    from ecmproto.report.output import report_form
    from ecmproto.report.replays import replay_report

    titles = [find_mechanism(name).title for name in request.names]
    content = report_form(path)(replay_report(request.path, outcomes, titles))
    with open_sink(path, force=request.force) as sink:
        sink.write(content)
