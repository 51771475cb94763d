"""Divided networks: a run in parts equals the run in one part, and never depends on the threads."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecmproto.control.engine.config import RateChange
from ecmproto.control.lab.model import (
    TCP,
    Control,
    Experiment,
    Flow,
    Host,
    Measure,
    Network,
    Pattern,
)
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation import parts as parts_module
from ecmproto.control.lab.simulation.parts import Division, Part
from ecmproto.control.lab.simulation.series import RunResult
from ecmproto.control.lab.simulation.simulate import Simulation, simulate
from ecmproto.control.lab.simulation.wiring import Wiring
from ecmproto.errors import SpecError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TREE = parse_topology("fat-tree k=4 buffer=100kB").network()
WINDOW_NS = 50_000
DURATION_NS = 200_000
PER_HOST = 3
STEPS = (1, 5, 9)
"""Distances from a host to its destinations, within the pod and in other pods."""


def experiment(network: Network = TREE, flows: Any = (), **control: Any) -> Experiment:
    return Experiment(
        name="parts",
        title="parts",
        duration_ns=DURATION_NS,
        network=network,
        flows=tuple(flows),
        control=Control(**control),
        measure=Measure(from_ns=0, window_ns=WINDOW_NS),
    )


def flows(pattern: Pattern, network: Network = TREE, per_host: int = PER_HOST, **values: Any) -> list[Flow]:
    """Return flows from each host to hosts at the distances STEPS, and from all hosts to the first host."""
    names = [host.name for host in network.hosts]
    made = [
        Flow(name=f"{source}.{step}", source=source, destination=names[(number + step) % len(names)],
             pattern=pattern, **values)
        for number, source in enumerate(names)
        for step in STEPS[:per_host]
    ]  # fmt: skip
    return made + [
        Flow(name=f"{source}.first", source=source, destination=names[0], pattern=pattern, **values)
        for source in names[1:]
        if per_host == PER_HOST
    ]


def differences(first: Any, second: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all values that differ, except the number of events and the elapsed time."""
    if isinstance(first, np.ndarray):
        if not np.array_equal(first, second, equal_nan=first.dtype.kind == "f"):
            yield path
    elif dataclasses.is_dataclass(first):
        for field in dataclasses.fields(first):
            if field.name not in ("events", "elapsed_s"):
                mine, other = getattr(first, field.name), getattr(second, field.name)
                yield from differences(mine, other, f"{path}.{field.name}")
    elif isinstance(first, tuple):
        if len(first) != len(second):
            yield path
        for number, (mine, other) in enumerate(zip(first, second, strict=False)):
            yield from differences(mine, other, f"{path}[{number}]")
    elif first != second:
        yield path


def sorted_events(result: RunResult) -> RunResult:
    """Return a result whose PAUSE events and completions at one time are in the order of their values."""

    def ordered(rows: Any, names: tuple[str, ...]) -> Any:
        order = np.lexsort([getattr(rows, name) for name in names[::-1]])
        return dataclasses.replace(rows, **{name: getattr(rows, name)[order] for name in names})

    return dataclasses.replace(
        result,
        flow_control=ordered(result.flow_control, ("time_ns", "port", "priority", "stops")),
        completions=ordered(result.completions, ("end_ns", "flow", "start_ns", "octets")),
    )


def check_equal(of: Experiment, *, parts: tuple[int, ...] = (2, 3)) -> RunResult:
    """Check that runs in parts equal the run in one part, and return the latter."""
    whole = sorted_events(simulate(of, seed=1))
    for count in parts:
        divided = simulate(of, seed=1, parts=count)
        assert list(differences(whole, sorted_events(divided))) == []
        assert divided.conservation.missing_frames == 0
    return whole


RATED: dict[str, Any] = {"rate_bps": 3 * 10**9}
BURSTS: dict[str, Any] = {"on_ns": 5_000, "off_ns": 5_000, "rate_bps": 6 * 10**9}


@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        (Pattern.CBR, RATED),
        (Pattern.POISSON, RATED),
        (Pattern.BERNOULLI, RATED),
        (Pattern.ON_OFF, BURSTS),
        (Pattern.SATURATING, {}),
    ],
)
@pytest.mark.parametrize("mechanism", ["none", "pause", "pfc"])
def test_parts_equal_the_whole_network(pattern: Pattern, values: dict[str, Any], mechanism: str) -> None:
    result = check_equal(experiment(flows=flows(pattern, priority=3, **values), mechanism=mechanism))
    assert sum(int(flow.delivered_frames.sum()) for flow in result.flows) > 1000
    if mechanism == "none":
        assert result.conservation.dropped_frames > 0
    else:
        stopped = {result.ports[number].name for number in result.flow_control.port.tolist()}
        assert any(name.startswith("c") for name in stopped), "no PAUSE crosses the cut"


@pytest.mark.parametrize("paths", ["spray", "flowlet"])
def test_parts_equal_the_whole_network_on_all_paths(paths: str) -> None:
    network = dataclasses.replace(TREE, paths=paths)
    check_equal(experiment(network, flows(Pattern.POISSON, **RATED)))


def test_explicit_paths_lead_through_both_parts() -> None:
    via = Flow(
        name="via", source="h1", destination="h16", pattern=Pattern.SATURATING,
        via=("e1", "a1", "c2", "a7", "e8"),
    )  # fmt: skip
    result = check_equal(experiment(flows=[via]))
    assert result.flows[0].delivered_frames.sum() > 0


def test_flows_complete_at_the_same_times() -> None:
    scheduled = flows(
        Pattern.SCHEDULE, per_host=1, bursts=((0, 90_000), (1_000, 10), (90_000, 30_000)), priority=3
    )
    result = check_equal(experiment(flows=scheduled, mechanism="pfc"))
    assert len(result.completions.flow) == 3 * len(TREE.hosts)


def test_a_collective_completes_at_the_same_times() -> None:
    scenario = load_scenario("all-reduce")
    result = check_equal(dataclasses.replace(scenario.experiment(), duration_ns=1_000_000), parts=(2,))
    assert len(result.completions.flow) > 16


def test_full_stores_and_mailboxes_grow() -> None:
    links = [
        dataclasses.replace(link, propagation_ns=100_000) if link.b.startswith("c") else link
        for link in TREE.links
    ]
    network = dataclasses.replace(TREE, links=tuple(links))
    short = flows(
        Pattern.SCHEDULE, network, per_host=2, bursts=tuple((ns, 60) for ns in range(0, 90_000, 30))
    )
    saturating = [
        dataclasses.replace(flow, name=f"{flow.name}.more") for flow in flows(Pattern.SATURATING, network)
    ]
    of = experiment(network, [*saturating, *short])
    simulation = Simulation(of, seed=1, parts=2)
    capacity = len(simulation._parts[0].network.mail[2].frames)
    divided = simulation.run()
    assert len(simulation._parts[0].network.mail[2].frames) > capacity
    assert list(differences(divided, simulate(of, seed=1, parts=2))) == []
    assert divided.conservation.missing_frames == 0


def test_rates_change_in_a_divided_network() -> None:
    slower = (RateChange(75_000, 10**9),)
    links = tuple(
        dataclasses.replace(link, rate_changes=slower, rate_changes_back=slower) for link in TREE.links
    )
    network = dataclasses.replace(TREE, links=links)
    check_equal(experiment(network, flows(Pattern.CBR, **RATED)))


@pytest.mark.parametrize("in_band", [True, False])
@pytest.mark.parametrize("mechanism", ["qcn", "dcqcn", "fecn", "e2cm", "hpcc", "swift", "isolation"])
def test_messages_cross_the_cut(mechanism: str, in_band: bool) -> None:
    of = experiment(
        flows=flows(Pattern.CBR, priority=3, **RATED),
        mechanism=mechanism,
        in_band=in_band,
    )
    first, second = simulate(of, seed=1, parts=2), simulate(of, seed=1, parts=2)
    assert list(differences(first, second)) == []
    assert first.conservation.missing_frames == 0
    assert sum(int(series.frames.sum()) for series in first.messages) > 0
    whole = simulate(of, seed=1)
    delivered = [sum(float(flow.delivered_octets.sum()) for flow in run.flows) for run in (whole, first)]
    assert delivered[1] == pytest.approx(delivered[0], rel=0.05)


def test_random_sizes_are_another_draw_with_equal_load() -> None:
    sizes = ((1_000, 0.0), (10_000, 0.5), (100_000, 1.0))
    of = experiment(flows=flows(Pattern.SIZES, sizes=sizes, rate_bps=3 * 10**9))
    first, second = simulate(of, seed=1, parts=2), simulate(of, seed=1, parts=2)
    assert list(differences(first, second)) == []
    assert first.conservation.missing_frames == 0
    assert len(first.completions.flow) > 20
    assert list(differences(first, simulate(of, seed=1)))
    assert list(differences(first, simulate(of, seed=2, parts=2)))


def test_losses_on_links_balance() -> None:
    links = tuple(dataclasses.replace(link, loss=0.01) for link in TREE.links)
    of = experiment(dataclasses.replace(TREE, links=links), flows(Pattern.POISSON, **RATED))
    first, second = simulate(of, seed=1, parts=2), simulate(of, seed=1, parts=2)
    assert list(differences(first, second)) == []
    assert first.conservation.missing_frames == 0
    assert first.conservation.dropped_frames > 0


def test_plain_python_equals_compiled_code() -> None:
    code = "from tests.lab.test_parts import of_few_flows; print(of_few_flows())"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == of_few_flows()


def of_few_flows() -> str:
    """Return the balance and the queues of a short divided run."""
    of = experiment(flows=flows(Pattern.POISSON, **RATED)[:12], mechanism="pfc")
    run = simulate(of, seed=1, parts=2)
    return f"{run.conservation} {sum(float(port.octet_ns.sum()) for port in run.ports)}"


def division(network: Network, parts: int) -> Division:
    of = experiment(network)
    return Division(of, Wiring(of, seed=1), parts)


@pytest.mark.parametrize("parts", [2, 4])
def test_pods_stay_together_and_cores_are_shared(parts: int) -> None:
    found = division(TREE, parts).of_switch
    cores, pods = found[:4], found[4:].reshape(4, 4)
    assert (pods == pods[:, :1]).all()
    assert np.bincount(pods[:, 0]).tolist() == [4 // parts] * parts
    assert np.bincount(cores).tolist() == [4 // parts] * parts


def test_the_cut_avoids_links_with_short_delays() -> None:
    network = parse_topology("clos leaves=4 spines=2 hosts=4").network()
    pairs = {("leaf1", "spine2"), ("leaf3", "spine2"), ("leaf2", "spine1"), ("leaf4", "spine1")}
    links = [
        dataclasses.replace(link, propagation_ns=5 if (link.a, link.b) in pairs else 800)
        for link in network.links
    ]
    network = dataclasses.replace(network, links=tuple(links))
    found = division(network, 2)
    assert found.lookahead_ns(np.full((10 + 12, 16), 10**6)[: 6 + 16]) == 800
    names = [switch.name for switch in network.switches]
    part = dict(zip(names, found.of_switch.tolist(), strict=True))
    assert part["leaf1"] == part["leaf3"] == part["spine2"] != part["leaf2"] == part["spine1"]


TCP_FLOW = Flow(name="t", source="h1", destination="h16", pattern=Pattern.TCP, tcp=TCP())
CHANGED_LINK = dataclasses.replace(TREE.links[0], down=((10, 20),))
BROKEN_HOST: Host = dataclasses.replace(TREE.hosts[0], storms=((10, 20),))


@pytest.mark.parametrize(
    ("of", "parts", "text"),
    [
        (experiment(flows=[TCP_FLOW]), 2, "TCP connections within one part"),
        (experiment(dataclasses.replace(TREE, links=(CHANGED_LINK, *TREE.links[1:]))), 2, "goes down"),
        (experiment(dataclasses.replace(TREE, hosts=(BROKEN_HOST, *TREE.hosts[1:]))), 2, "no broken host"),
        (experiment(mechanism="dbp"), 2, "a mechanism without reports"),
        (experiment(mechanism="qcn", message_delay_ns=0), 2, "more than 0 ns"),
        (experiment(parse_topology("star hosts=3").network()), 2, "divided into 2 parts"),
        (experiment(), 40, "divided into 40 parts"),
    ],
)
def test_a_network_that_cannot_be_divided_is_refused(of: Experiment, parts: int, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        Simulation(of, seed=1, parts=parts)


def test_flows_that_await_another_part_are_refused() -> None:
    first, second = flows(Pattern.SCHEDULE, per_host=1, bursts=((0, 1500),))[:2]
    second = dataclasses.replace(second, source="h16", after=(first.name,), lead=0)
    with pytest.raises(SpecError, match="wait only for flows to their own part"):
        Simulation(experiment(flows=[first, second]), seed=1, parts=2)


def test_tcp_within_a_part_runs() -> None:
    near = dataclasses.replace(TCP_FLOW, destination="h2")
    result = check_equal(experiment(flows=[near, *flows(Pattern.CBR, **RATED)]))
    assert result.flows[0].delivered_frames.sum() > 0


def test_a_trace_of_a_divided_network_is_refused(tmp_path: Any) -> None:
    with pytest.raises(SpecError, match="parts: expected 1"):
        simulate(experiment(flows=flows(Pattern.CBR, **RATED)), seed=1, parts=2, trace=tmp_path / "a.pcapng")


def test_an_error_in_one_thread_ends_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(experiment(flows=flows(Pattern.CBR, **RATED)), seed=1, parts=3)
    run, broken = Part.run, simulation._parts[2]

    def failing(part: Part, spins: int) -> int:
        if part is broken:
            raise RuntimeError("broken")
        return run(part, spins)

    monkeypatch.setattr(parts_module.Part, "run", failing)
    with pytest.raises(RuntimeError, match="broken"):
        simulation.run()


def test_a_watch_stops_a_divided_run() -> None:
    of = experiment(flows=flows(Pattern.CBR, **RATED))
    result = simulate(of, seed=1, parts=2, watch=lambda progress: progress.now_ns < 2 * WINDOW_NS)
    assert result.duration_ns == 2 * WINDOW_NS
    assert result.conservation.missing_frames == 0
