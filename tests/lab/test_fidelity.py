"""Rows of docs/fidelity.md that are not bands of a scenario."""

from __future__ import annotations

import pytest

from ecmproto.control.lab.model import Flow, Pattern
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation.simulate import simulate
from tests.lab.test_paths import MS, experiment, figure

SOURCES = 100


@pytest.mark.parametrize(("load", "within"), [(0.5, 0.05), (0.8, 0.05), (0.9, 0.1)])
def test_queue_of_poisson_sources_is_an_md1_queue(load: float, within: float) -> None:
    network = parse_topology(f"star hosts={SOURCES + 1} rate=10G buffer=10MB").network()
    flows = [
        Flow(
            name=f"f{number}", source=f"h{number}", destination=f"h{SOURCES + 1}",
            pattern=Pattern.POISSON, rate_bps=int(load * 10**10 / SOURCES),
        )
        for number in range(1, SOURCES + 1)
    ]  # fmt: skip
    result = simulate(experiment(network, *flows, duration_ns=200 * MS), seed=1)
    (mean_octets,) = figure(result, f"queue.mean(core>h{SOURCES + 1})[10ms..200ms]")
    expected = load + load**2 / (2 * (1 - load))
    assert mean_octets / 1500 == pytest.approx(expected, rel=within)


def test_dynamic_thresholds_share_memory_equally() -> None:
    result = simulate(load_scenario("dynamic-thresholds").experiment(), seed=1)
    # Sixteen inputs with x = 734 kB - 16 x, plus the octets that arrive after XOFF: 1 us at 100 Gb/s, and a
    # frame.
    share = 734_000 / 17
    assert figure(result, "queue.peak(core>h17)")[0] == pytest.approx(16 * (share + 14_000), rel=0.01)
