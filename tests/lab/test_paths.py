"""Paths through fabrics: spraying, flowlets and explicit routes."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from ecmproto.control.lab.model import Experiment, Flow, Measure, Network, Pattern
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.setup.figures import parse_figure
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation.series import RunResult
from ecmproto.control.lab.simulation.simulate import simulate
from ecmproto.control.lab.simulation.wiring import Wiring
from ecmproto.errors import SpecError

MS = 1_000_000


def experiment(network: Network, *flows: Flow, duration_ns: int = MS) -> Experiment:
    """Return an experiment that measures all of its time, in windows of 100 µs."""
    measure = Measure(from_ns=0, window_ns=MS // 10)
    return Experiment(
        name="t", title="t", duration_ns=duration_ns, network=network, flows=flows, measure=measure
    )


def figure(result: RunResult, text: str) -> tuple[float, ...]:
    """Return the values of an expression."""
    return parse_figure(text).evaluate(RunFigures(result))


@pytest.mark.parametrize("k", [4, 8])
def test_sprayed_permutation_has_full_bisection(k: int) -> None:
    network = dataclasses.replace(parse_topology(f"fat-tree k={k}").network(), paths="spray")
    hosts = [host.name for host in network.hosts]
    half = len(hosts) // 2
    flows = [
        Flow(name=f"f{number}", source=a, destination=b, pattern=Pattern.SATURATING)
        for number, (a, b) in enumerate(zip(hosts, hosts[half:] + hosts[:half], strict=True))
    ]
    result = simulate(experiment(network, *flows), seed=1)
    assert figure(result, "sum(rate[0.5ms..])")[0] == pytest.approx(len(hosts) * 10e9, rel=0.002)
    assert figure(result, "share(e1>a*)[0.5ms..]") == pytest.approx([2 / k] * (k // 2), abs=0.01)
    assert figure(result, "share(a1>c*)[0.5ms..]") == pytest.approx([2 / k] * (k // 2), abs=0.01)
    assert np.isnan(figure(result, "share(e1>h1)")[0])
    assert result.conservation.missing_frames == result.conservation.dropped_frames == 0


def test_explicit_route_carries_data_and_acknowledgements() -> None:
    network = parse_topology("fat-tree k=4").network()
    via = ("e1", "a2", "c4", "a8", "e7")
    flow = Flow(name="f", source="h1", destination="h13", pattern=Pattern.TCP, via=via)
    result = simulate(experiment(network, flow), seed=1)
    nodes = ("h1", *via, "h13")
    there = {f"{a}>{b}" for a, b in pairwise(nodes)}
    assert set(result.flows[0].path) == there
    back = {">".join(name.split(">")[::-1]) for name in there}
    used = {each.name for each in result.ports if each.sent_frames.sum()}
    assert used == {name for name in there | back if name[0] != "h"}


@pytest.mark.parametrize("via", [("e1", "c1", "e3"), ("e1", "a1"), ("e1", "h2", "e3")])
def test_explicit_route_over_missing_links_is_an_error(via: tuple[str, ...]) -> None:
    network = parse_topology("fat-tree k=4").network()
    flow = Flow(name="f", source="h1", destination="h5", pattern=Pattern.SATURATING, via=via)
    with pytest.raises(SpecError, match=r"flow\.via: expected linked switches"):
        simulate(experiment(network, flow), seed=1)


@pytest.mark.parametrize(("gap_ns", "paths"), [(20_000, 1), (9_000, 4)])
def test_flowlet_takes_another_path_only_after_a_gap(gap_ns: int, paths: int) -> None:
    network = parse_topology("clos leaves=2 spines=4 hosts=1").network()
    network = dataclasses.replace(network, paths="flowlet", flowlet_gap_ns=gap_ns)
    bursts = tuple((10_000 * number, 1_500) for number in range(100))
    flow = Flow(name="f", source="h1", destination="h2", pattern=Pattern.SCHEDULE, bursts=bursts)
    result = simulate(experiment(network, flow), seed=1)
    used = [share for share in figure(result, "share(leaf1>spine*)") if share > 0]
    assert len(used) == paths
    assert max(used) < 0.5 or paths == 1


def test_routes_without_a_port_avoid_it() -> None:
    wiring = Wiring(experiment(parse_topology("clos leaves=2 spines=2 hosts=2").network()), seed=1)
    names = [port.name for port in wiring.ports]
    every = type(wiring.routes)(wiring.ports, len(wiring.switches), len(wiring.hosts))
    fewer = type(wiring.routes)(
        wiring.ports, len(wiring.switches), len(wiring.hosts), dead={names.index("leaf1>spine1")}
    )
    assert {names[port] for port in every.uplinks} == {f"leaf{a}>spine{b}" for a in (1, 2) for b in (1, 2)}
    assert {names[port] for port in fewer.uplinks} == {"leaf2>spine1", "leaf2>spine2"}


@pytest.mark.parametrize("name", ["throughput", "utilisation"])
def test_output_of_a_host_is_an_error(name: str) -> None:
    network = parse_topology("star hosts=2").network()
    flow = Flow(name="f", source="h1", destination="h2", pattern=Pattern.SATURATING)
    result = simulate(experiment(network, flow), seed=1)
    with pytest.raises(SpecError, match=f"expected a port of a switch for {name}, got h1>core"):
        figure(result, f"{name}(h1>core)")
