"""``ecmproto live testbed``: senders, reaction points, a port, an edge and a receiver in namespaces."""

from __future__ import annotations

import dataclasses
import json
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import OutputError, ParameterError
from ecmproto.units import NS_PER_S, format_index, format_octets, format_rate, format_share, format_time
from ecmproto_cli.capturing import handled
from ecmproto_cli.options import RATE, TIME, assigned_to, force_option, form_option
from ecmproto_cli.output import columns_of
from ecmproto_cli.terminal import echo, paint

if TYPE_CHECKING:
    from ecmproto.control.live.testbed.run import RunOutcome
    from ecmproto.control.live.testbed.topology import Topology


@click.command()
@click.option(
    "--mechanism", "mechanisms", default="qcn,none", show_default=True, metavar="NAME,…",
    help="Mechanisms to run with the same traffic, one after the other.",
)  # fmt: skip
@click.option(
    "--senders", default=3, show_default=True, type=click.IntRange(1, 32), help="Number of senders."
)
@click.option(
    "--speed",
    "rate_bps",
    type=RATE,
    default="50M",
    show_default=True,
    help="Speed of the shared port, in bits per second.",
)
@click.option("--load", default=1.8, show_default=True, type=click.FloatRange(0.01, 100),
              help="Offered load of all senders together, as a multiple of --speed.")  # fmt: skip
@click.option("--tcp", is_flag=True, help="Send with TCP instead of UDP.")
@click.option(
    "--victim",
    "victim_bps",
    type=RATE,
    default="0",
    help="Rate of an additional flow from the first sender to a host whose path avoids the shared port.",
)
@click.option("--spec", "path", metavar="FILE", help="Read the topology and the traffic from a TOML file.")
@click.option("--duration", type=TIME, default="12s", show_default=True, help="Duration of each run.")
@click.option(
    "--set", "assignments", metavar="NAME=VALUE", multiple=True,
    help="Set a parameter of a mechanism, such as qcn:qeq=33kB.  [default: suited to the rate]",
)  # fmt: skip
@click.option(
    "--flow-control",
    type=click.Choice(["pause", "pfc"]),
    help="Send PAUSE or PFC frames from the port, in addition to the mechanism's messages.",
)
@click.option(
    "--processes", type=click.Choice(["auto", "one", "each"]), default="auto", show_default=True,
    help="Number of processes: one process with a thread per device (one), or one process per device (each).",
)  # fmt: skip
@click.option(
    "--any-rate",
    is_flag=True,
    help="Continue even if the processors of this machine are too slow for the rate.",
)
@click.option("-w", "--write", "folder", metavar="DIR", help="Folder for reports and captures.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of all random numbers.  [default: random]")
@force_option
@form_option("text", "json", help="Format of the report.")
def command(
    mechanisms: str,
    tcp: bool,
    path: str | None,
    duration: int,
    seed: int | None,
    senders: int,
    rate_bps: int,
    load: float,
    victim_bps: int,
    **options: Any,
) -> None:
    """Compare mechanisms with real traffic through live devices in network namespaces.

    The network is a dumbbell. Each sender has a reaction point, all senders share one port, and the receiver
    has an edge. iperf3 generates traffic, and ping measures delays. The command removes the network at the
    end, even after an error.

    \b
    ecmproto live testbed --mechanism qcn,ecm,fecn,none --speed 50M --duration 15s -w runs/
    """
    from ecmproto.control.live.testbed.topology import dumbbell, read_topology

    names = list(dict.fromkeys(name.strip() for name in mechanisms.split(",") if name.strip()))
    if not names:
        raise click.UsageError("--mechanism needs mechanisms, as in qcn,ecm,none")
    topology: Topology
    if path is not None:
        topology = read_topology(path)
    else:
        topology = dumbbell(
            senders=senders,
            rate_bps=rate_bps,
            load=load,
            protocol="tcp" if tcp else "udp",
            victim_bps=victim_bps,
        )
    run_all(
        TestbedRequest(
            names=names,
            topology=topology,
            duration_s=duration / NS_PER_S,
            seed=secrets.randbelow(2**31) if seed is None else seed,
            **options,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbedRequest:
    """The parsed options of the command."""

    names: list[str]
    topology: Topology
    assignments: tuple[str, ...]
    duration_s: float
    flow_control: str | None
    processes: str
    any_rate: bool
    folder: str | None
    force: bool
    seed: int
    form: str


def run_all(request: TestbedRequest) -> None:
    """Run each mechanism and print the results."""
    from ecmproto.control.live.testbed.namespaces import check_rights, leftover_namespaces, remove
    from ecmproto.control.live.testbed.run import check_programs

    chosen = {name: _assignments(request, name) for name in request.names}
    # Missing requirements are reported before code is compiled.
    check_programs()
    check_rights()
    for name in leftover_namespaces():
        remove(name)
    echo(f"ecmproto: seed {request.seed}", err=True)
    outcomes = []
    with _folder(request) as folder, _deferred() as check:
        for name in request.names:
            _precompile(request, name, chosen[name])
            check()
            echo(f"ecmproto: {name} for {request.duration_s:g} s", err=True)
            try:
                outcomes.append(_run(request, name, chosen[name], folder / name, check))
            except ParameterError:  # the machine cannot carry the rate
                if outcomes:
                    _show(request, outcomes)
                raise
    _show(request, outcomes)


def _show(request: TestbedRequest, outcomes: list[RunOutcome]) -> None:
    if request.form == "json":
        echo(json.dumps(_document(request, outcomes), indent=2))
    else:
        echo(table_of_runs(request, outcomes))


@contextmanager
def _folder(request: TestbedRequest) -> Iterator[Path]:
    if request.folder is None:
        with tempfile.TemporaryDirectory(prefix="ecmproto-") as folder:
            yield Path(folder)
        return
    target = Path(request.folder)
    if target.exists() and any(target.iterdir()) and not request.force:
        raise OutputError(path=request.folder, needed="an empty folder, or --force", got="one with files")
    yield target


@contextmanager
def _deferred() -> Iterator[Callable[[], None]]:
    """Defer SIGINT and SIGTERM, and yield a function that raises KeyboardInterrupt after a signal."""
    received: list[int] = []

    def check() -> None:
        if received:
            raise KeyboardInterrupt

    with handled((signal.SIGINT, signal.SIGTERM), lambda number, _: received.append(number)):
        yield check


def _assignments(request: TestbedRequest, name: str) -> tuple[str, ...]:
    """Return the mechanism's parameters: defaults for the link rate, followed by the user's assignments."""
    from ecmproto.control.mechanisms.registry import find_mechanism

    own = assigned_to(name, request.assignments, request.names)
    mechanism = find_mechanism(name)
    chosen = (*mechanism.low_rate_parameters(request.topology.rate_bps), *own)
    mechanism.parse(chosen)
    return chosen


def _precompile(request: TestbedRequest, name: str, assignments: tuple[str, ...]) -> None:
    """Compile the kernels once in this process, so that the devices need not compile them."""
    from ecmproto.control.engine.port import machine_on_port
    from ecmproto.control.live.edge import precompile_edge
    from ecmproto.control.live.port import buffer_of, precompile_port
    from ecmproto.control.live.reaction_point import precompile_reaction_point
    from ecmproto.control.mechanisms.api.machine import machine_of
    from ecmproto.control.mechanisms.registry import find_mechanism
    from ecmproto.wire.formats.ethertypes import DEFAULT

    mechanism = find_mechanism(name)
    machine = machine_of(mechanism, mechanism.parse(assignments))
    _, buffer_octets = buffer_of(request.topology.buffer)
    on_port = machine_on_port(
        name, assignments, buffer_octets=buffer_octets, flow_control=request.flow_control
    )
    precompile_port(on_port, DEFAULT)
    precompile_reaction_point(machine, DEFAULT)
    precompile_edge(machine, DEFAULT)


def _run(
    request: TestbedRequest, name: str, assignments: tuple[str, ...], folder: Path, check: Callable[[], None]
) -> RunOutcome:
    from ecmproto.control.live.testbed.run import RunSettings, outcome_of, run
    from ecmproto.control.mechanisms.api.machine import machine_of
    from ecmproto.control.mechanisms.registry import find_mechanism

    given = RunSettings(
        mechanism=name,
        assignments=assignments,
        duration_s=request.duration_s,
        command=(sys.executable, "-m", "ecmproto_cli"),
        folder=folder,
        seed=request.seed,
        flow_control=request.flow_control,
        any_rate=request.any_rate,
        together=None if request.processes == "auto" else request.processes == "one",
        check=check,
    )
    mechanism = find_mechanism(name)
    machine = machine_of(mechanism, mechanism.parse(assignments))
    return outcome_of(name, machine.set_point_octets, run(request.topology, given))


def _document(request: TestbedRequest, outcomes: list[RunOutcome]) -> dict[str, Any]:
    return {
        "schema": "ecmproto/testbed/1",
        "topology": dataclasses.asdict(request.topology),
        "duration_s": request.duration_s,
        "seed": request.seed,
        "runs": [dataclasses.asdict(outcome) for outcome in outcomes],
    }


def table_of_runs(request: TestbedRequest, outcomes: list[RunOutcome]) -> str:
    """Return a table that compares the results of the mechanisms."""
    topology = request.topology
    offered = ", ".join(
        sender.protocol if sender.protocol == "tcp" else format_rate(sender.rate_bps)
        for sender in topology.senders
    )
    title = f"{offered} into {format_rate(topology.rate_bps)}, buffer {topology.buffer}"
    title += f", {request.duration_s:g} s each"
    rows = [("", [outcome.mechanism for outcome in outcomes])]
    rows += [
        (f"sender {n + 1}", [format_rate(outcome.rates_bps[n]) for outcome in outcomes])
        for n in range(len(topology.senders))
    ]
    rows.append(("Jain index", [format_index(outcome.fairness) for outcome in outcomes]))
    if topology.victim_bps:
        rows.append(("victim", [format_rate(outcome.victim_bps or 0.0) for outcome in outcomes]))
    rows += [
        ("queue mean", [format_octets(outcome.queue_mean_octets) for outcome in outcomes]),
        ("set point", [format_octets(o.set_point_octets) if o.set_point_octets else "–" for o in outcomes]),
        ("queue peak", [format_octets(outcome.queue_peak_octets) for outcome in outcomes]),
        ("dropped", [str(outcome.dropped_frames) for outcome in outcomes]),
    ]
    if any(sender.protocol == "udp" for sender in topology.senders):
        rows.append(("lost in all", [_known(outcome.lost_share, format_share) for outcome in outcomes]))
    if any(sender.protocol == "tcp" for sender in topology.senders):
        rows.append(("retransmits", [_known(outcome.retransmits, str) for outcome in outcomes]))
    rows += [
        ("ping p50", [_known(outcome.ping_p50_ms, _ms) for outcome in outcomes]),
        ("ping p99", [_known(outcome.ping_p99_ms, _ms) for outcome in outcomes]),
        ("messages", [str(outcome.messages) for outcome in outcomes]),
    ]
    notes = "Rates, queue and drops exclude the start-up phase. The senders' own queues drop frames too."
    note = _starved(outcomes, request.duration_s)
    return "\n".join([*note, paint(title, "title"), "", columns_of(rows), "", notes])


def _starved(outcomes: list[RunOutcome], duration_s: float) -> list[str]:
    """Return the lines of a warning if devices were kept from the processor, else an empty list."""
    waits = [
        f"{each.mechanism} for {format_time(each.starved_ns)} of {format_time(duration_s * NS_PER_S)}"
        for each in outcomes
        if each.starved_ns
    ]
    if not waits:
        return []
    note = "these figures reflect this machine, not the mechanisms"
    return [f"Kept from the processor ({', '.join(waits)}): {note}. Run it on a less busy machine.", ""]


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return "–" if value is None else text(value)


def _ms(value: float) -> str:
    return format_time(value * NS_PER_S / 1000)
