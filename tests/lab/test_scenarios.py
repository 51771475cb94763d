"""The bundled scenarios."""

import pytest

from ecmproto.control.lab.setup.scenario import BY_SCENARIO, load_scenario, scenario_names
from ecmproto.control.mechanisms.registry import mechanism_names

_PUBLISHED = (
    "bcn-parking-lot", "bcn-parking-lot-late", "bcn-symmetric", "bcn-asymmetric", "bcn-six-source",
    "bcn-mixed", "bcn-bursty", "qcn-baseline-1", "qcn-baseline-2", "fecn-symmetric", "fecn-long-delay",
    "fecn-large", "fecn-bursty", "fecn-hotspot", "fecn-hotspot-long-delay", "fecn-six-source", "e2cm-hotspot",
    "e2cm-mice-elephant", "e2cm-output-hotspot", "e2cm-multi-hop", "e2cm-bursty", "e2cm-parking-lot",
)  # fmt: skip


def test_every_published_experiment_is_there() -> None:
    assert set(_PUBLISHED) <= set(scenario_names())


@pytest.mark.parametrize("name", _PUBLISHED)
def test_published_scenario_matches_its_file_name_and_document(name: str) -> None:
    experiment = load_scenario(name).experiment()
    assert experiment.name == name
    assert experiment.source[:4] in ("S001", "S002", "S003", "S004")
    assert experiment.control.mechanism == name.partition("-")[0]
    assert not experiment.control.in_band
    assert experiment.overhead_octets == 0
    assert all(band.source for band in experiment.measure.bands)
    assert all(each.source for each in experiment.measure.published)


_NOT_NUMBERS = ("name", "from", "to", "a", "b", "pattern", "group", "match", "mechanism", "topology")


@pytest.mark.parametrize("name", _PUBLISHED)
def test_every_number_cites_its_source(name: str) -> None:
    rows = load_scenario(name).explain()
    unsaid = [
        row.path
        for row in rows
        if row.set_by == BY_SCENARIO
        and not row.source
        and not row.path.startswith("measure.")
        and row.path.rpartition(".")[2] not in _NOT_NUMBERS
    ]
    assert unsaid == []


@pytest.mark.parametrize("name", _PUBLISHED)
def test_other_mechanisms_keep_network_but_drop_bands(name: str) -> None:
    scenario = load_scenario(name)
    own = scenario.experiment()
    for mechanism in mechanism_names():
        experiment = scenario.with_mechanism(mechanism).experiment()
        assert experiment.control.mechanism == mechanism
        assert (experiment.network, experiment.flows) == (own.network, own.flows)
        if mechanism == own.control.mechanism:
            assert experiment == own
        else:
            assert not experiment.measure.bands + experiment.measure.published


@pytest.mark.parametrize("name", ["none", "pause", "pfc"])
def test_a_baseline_has_no_flow_control_beneath_it(name: str) -> None:
    scenario = load_scenario("e2cm-hotspot")
    assert scenario.experiment().control.flow_control == "pause"
    assert scenario.with_mechanism(name).experiment().control.flow_control is None
    of_none = load_scenario("slow-receiver")
    assert of_none.experiment().control.flow_control == "pfc"
    assert of_none.with_mechanism(name).experiment().control.flow_control is None
    assert scenario.with_mechanism("qcn").experiment().control.flow_control == "pause"
