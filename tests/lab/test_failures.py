"""Links that lose frames, fail and return."""

from __future__ import annotations

import dataclasses
import math

import pytest

from ecmproto.control.lab.model import Experiment, Flow, Network, Pattern
from ecmproto.control.lab.setup.build import build
from ecmproto.control.lab.setup.keys import read_tables
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation.simulate import simulate
from ecmproto.errors import SpecError
from tests.lab.test_paths import MS, experiment, figure


def with_link(network: Network, name: str, **changes: object) -> Network:
    """Return the network with changes of the link ``a>b``."""
    links = [
        dataclasses.replace(link, **changes) if f"{link.a}>{link.b}" == name else link  # type: ignore[arg-type]
        for link in network.links
    ]
    return dataclasses.replace(network, links=tuple(links))


def two_leaves(**changes: object) -> Experiment:
    """Return two flows from leaf 1 to leaf 2 over two spines, with changes of the link leaf1>spine1."""
    network = parse_topology("clos leaves=2 spines=2 hosts=2").network()
    network = dataclasses.replace(with_link(network, "leaf1>spine1", **changes), paths="spray")
    flows = [
        Flow(name=f"f{number}", source=f"h{number}", destination=f"h{number + 2}", pattern=Pattern.SATURATING)
        for number in (1, 2)
    ]
    return experiment(network, *flows, duration_ns=10 * MS)


def test_failed_link_loses_its_frames_and_returns() -> None:
    result = simulate(two_leaves(down=((2 * MS, 5 * MS),)), seed=1)
    assert figure(result, "sum(rate[1ms..2ms])")[0] == pytest.approx(20e9, rel=0.002)
    assert figure(result, "sum(rate[3ms..5ms])")[0] == pytest.approx(10e9, rel=0.002)
    assert figure(result, "sum(rate[6ms..10ms])")[0] == pytest.approx(20e9, rel=0.002)
    assert figure(result, "throughput(leaf1>spine1)[2.1ms..5ms]") == (0.0,)
    assert figure(result, "losses(leaf1>spine1)")[0] >= 1
    assert figure(result, "losses") == figure(result, "losses(leaf1>spine1)")
    assert result.conservation.missing_frames == 0


@pytest.mark.parametrize("name", ["h1>leaf1", "leaf1>spine1"])
def test_lossy_link_loses_its_share_of_frames(name: str) -> None:
    network = with_link(parse_topology("clos leaves=2 spines=1 hosts=1").network(), name, loss=0.01)
    network = with_link(network, f"{name.partition('>')[2]}>{name.partition('>')[0]}", loss=0.01)
    flow = Flow(name="f", source="h1", destination="h2", pattern=Pattern.SATURATING)
    result = simulate(experiment(network, flow, duration_ns=20 * MS), seed=1)
    sent = result.conservation.sent_frames
    lost = figure(result, "losses")[0]
    assert abs(lost - 0.01 * sent) < 5 * math.sqrt(0.01 * sent)
    assert result.conservation.dropped_frames == lost
    assert result.conservation.missing_frames == 0
    again = simulate(experiment(network, flow, duration_ns=20 * MS), seed=1)
    other = simulate(experiment(network, flow, duration_ns=20 * MS), seed=2)
    assert figure(again, "losses")[0] == lost != figure(other, "losses")[0]


def test_host_behind_a_failed_link_is_silent() -> None:
    network = with_link(parse_topology("star hosts=2").network(), "h1>core", down=((MS, 2 * MS),))
    network = with_link(network, "core>h1", down=((MS, 2 * MS),))
    flow = Flow(name="f", source="h1", destination="h2", pattern=Pattern.SATURATING)
    result = simulate(experiment(network, flow, duration_ns=3 * MS), seed=1)
    assert figure(result, "rate(f)[1.1ms..2ms]") == (0.0,)
    assert figure(result, "rate(f)[2.1ms..3ms]")[0] == pytest.approx(10e9, rel=0.01)
    assert result.conservation.missing_frames == 0


@pytest.mark.parametrize(
    ("down", "needed"),
    [(["5ms"], "a range of times"), (["5ms..3ms"], "rising"), (["1ms..2ms", "2ms..3ms"], "rising")],
)
def test_impossible_outage_is_an_error(down: list[str], needed: str) -> None:
    tables = {
        "scenario": {"name": "t", "title": "t", "duration": "10ms", "topology": "star hosts=2"},
        "link": [{"a": "h1", "b": "core", "down": down}],
        "flow": [{"from": "h1", "to": "h2", "pattern": "saturating"}],
    }
    with pytest.raises(SpecError, match=rf"link\[0\]\.down: expected {needed}"):
        build(read_tables(tables))
