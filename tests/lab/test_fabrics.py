"""Bands of the bundled scenarios of fabrics and their workloads."""

from __future__ import annotations

import pytest

from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.setup.figures import parse_figure
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.simulation.simulate import simulate


@pytest.mark.parametrize(
    "name",
    [
        "lossy-link", "dctcp-pair", "dynamic-thresholds", "dynamic-thresholds:eighth", "lossy-and-lossless",
        "misconfigured-priority", "misconfigured-priority:mended", "pfc-storm", "pfc-storm:no-watchdog",
        "pfc-storm:forward", "slow-receiver", "all-reduce", "all-to-all", "all-to-all:64", "hpcc-incast",
        "hpcc-incast:steps", "hpcc-long-short", "swift-incast", "swift-incast:unscaled",
        "swift-incast:unscaled-50us", "swift-many", "swift-many:packet", "swift-join",
        "swift-join:one-target",
        "storage-incast", "storage-incast:pfc-only", "isolation-victim", "isolation-victim:pfc-only",
    ],
)  # fmt: skip
def test_bands_of_the_scenario_hold(name: str) -> None:
    experiment = load_scenario(name).experiment()
    result = simulate(experiment, seed=1)
    assert result.conservation.missing_frames == 0
    for band in experiment.measure.bands:
        values = parse_figure(band.figure).evaluate(RunFigures(result))
        low = -float("inf") if band.low is None else band.low
        high = float("inf") if band.high is None else band.high
        assert all(low <= value <= high for value in values), (band.figure, values)
