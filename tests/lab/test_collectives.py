"""Collectives and lists of flows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ecmproto.control.lab.model import Experiment
from ecmproto.control.lab.setup.build import build
from ecmproto.control.lab.setup.keys import read_tables
from ecmproto.control.lab.simulation.simulate import simulate
from ecmproto.errors import SpecError
from tests.lab.test_paths import figure


def star(**flow: Any) -> Experiment:
    """Return an experiment of four hosts of 10 Gb/s with one table of flows."""
    tables: dict[str, Any] = {
        "scenario": {
            "name": "t",
            "title": "t",
            "duration": "1ms",
            "topology": "star hosts=4 propagation=500ns",
        },
        "flow": [{"from": "h*", "to": "all others", "name": "f", **flow}],
        "measure": {"from": "0ms"},
    }
    return build(read_tables(tables))


def test_ring_takes_its_steps_one_after_another() -> None:
    result = simulate(star(pattern="all-reduce", octets="60kB"), seed=1)
    # Six steps of ten frames of 1.2 us. The switch stores one frame of each step. Two links delay by 500 ns
    # each.
    assert figure(result, "max(fct.max(f))") == (6 * (11 * 1200 + 1000),)
    assert len(result.completions.octets) == 24
    assert result.conservation.missing_frames == 0


def test_tree_goes_up_and_down() -> None:
    given = star(pattern="all-reduce", algorithm="tree", octets="15kB", **{"from": "h1..h3", "to": "h1..h3"})
    result = simulate(given, seed=1)
    # Both children fill the root's link with twenty frames; then the root's twenty frames come back.
    assert figure(result, "max(fct.max(f))") == (2 * (21 * 1200 + 1000),)


def test_parts_of_a_tree_overlap() -> None:
    whole = simulate(star(pattern="all-reduce", algorithm="tree", octets="150kB"), seed=1)
    parts = simulate(star(pattern="all-reduce", algorithm="tree", octets="150kB", chunks=10), seed=1)
    assert figure(parts, "max(fct.max(f))")[0] < 0.8 * figure(whole, "max(fct.max(f))")[0]


def test_list_of_flows_is_read_for_its_hosts(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(
        "time,source,destination,octets\n0ms,h1,h2,3000\n1us,h1,h2,1kB\n2us,h3,h4,1500\n0ms,x,y,1\n"
    )
    experiment = star(pattern="schedule", list=str(path))
    assert {(flow.source, flow.destination): flow.bursts for flow in experiment.flows} == {
        ("h1", "h2"): ((0, 3000), (1000, 1000)), ("h3", "h4"): ((2000, 1500),),
    }  # fmt: skip
    result = simulate(experiment, seed=1)
    assert sorted(result.completions.octets.tolist()) == [1000, 1500, 3000]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("0ms,h1,h2\n", "lines of time, source, destination, octets"),
        ("0,h1,h2,many\n", "a size with its unit"),
        ("0,x,y,1\n", "flows between hosts"),
    ],
)
def test_wrong_list_of_flows_is_an_error(tmp_path: Path, text: str, needed: str) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(text)
    with pytest.raises(SpecError, match=needed):
        star(pattern="schedule", list=str(path))


@pytest.mark.parametrize(
    ("flow", "needed"),
    [
        ({"pattern": "schedule"}, "bursts: expected either bursts or list"),
        ({"pattern": "schedule", "list": "/none.csv"}, "list: expected a readable file"),
        ({"pattern": "all-reduce", "octets": "1kB", "to": "h1"}, "to: expected all others"),
        ({"pattern": "all-reduce", "octets": "1kB", "chunks": 2}, "chunks: expected algorithm"),
    ],
)
def test_impossible_collective_is_an_error(flow: dict[str, Any], needed: str) -> None:
    with pytest.raises(SpecError, match=needed):
        star(**flow)
