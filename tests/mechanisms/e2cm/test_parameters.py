"""E²CM's parameters and their arithmetic (algorithms §4, 5 and 6; S002)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ecmproto.control.mechanisms.aimd import parameters as aimd
from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.control.mechanisms.e2cm.parameters import (
    E2CMCongestionPointParameters,
    E2CMEdgeParameters,
    E2CMReactionPointParameters,
)
from ecmproto.control.mechanisms.ecm import parameters as ecm
from ecmproto.errors import ParameterError

LINK = 10_000_000_000


def test_5_congestion_points_defaults_are_those_of_s002() -> None:
    parameters = E2CMCongestionPointParameters()
    assert (parameters.qeq_octets, parameters.qmc_octets, parameters.qsc_octets) == (75_000, 280_000, 0)
    assert (parameters.fixed_octets, parameters.tagged_fixed_octets) == (75_000, 15_000)
    assert (parameters.random_octets, parameters.tagged_random_octets) == (22_500, 4_500)
    assert parameters.increase_signals
    assert not parameters.q_bit


def test_5_reaction_points_defaults_are_those_of_s002() -> None:
    parameters = E2CMReactionPointParameters()
    assert (parameters.weight, parameters.rate_unit_bps, parameters.floor_bps) == (2.0, 1_000_000, 1_000_000)
    assert (parameters.flow_qeq_octets, parameters.flow_qmax_octets) == (15_000, 56_000)
    assert parameters.self_increase_bps == 0
    assert parameters.probe_octets == 75_000
    assert not parameters.autonomous


def test_5_the_gains_of_s002() -> None:
    gains = E2CMReactionPointParameters().gains(LINK)
    # "Gd = 1.333*10^-6" is printed.
    assert gains.decrease == pytest.approx(1.3333e-6, rel=1e-4)
    assert gains.flow_decrease == pytest.approx(5 * gains.decrease)
    # The largest feedback takes half the rate: of a queue, and of a flow.
    assert gains.decrease * 5 * 75_000 == pytest.approx(0.5)
    assert gains.flow_decrease * 5 * 15_000 == pytest.approx(0.5)


def test_5_gi0_divides_where_the_slide_multiplies() -> None:
    gains = E2CMReactionPointParameters().gains(LINK)
    gi0 = 10_000 / 375_000
    assert gains.increase == pytest.approx(0.005 * gi0)
    assert gains.flow_increase == pytest.approx(0.025 * gi0)
    # The largest feedback, 5·75 KB, adds 0.5 % of the link; the slide's product would add 10^11 links.
    assert gains.increase * 375_000 * 1e6 == pytest.approx(0.005 * LINK)


def test_5_gains_follow_link_and_not_rate_unit() -> None:
    one = E2CMReactionPointParameters().gains(10**9)
    other = E2CMReactionPointParameters(rate_unit_bps=2_000_000).gains(10**9)
    assert one.increase * 1_000_000 == pytest.approx(other.increase * 2_000_000)
    assert E2CMReactionPointParameters().gains(10**10).increase == pytest.approx(10 * one.increase)


@pytest.mark.parametrize(
    ("exponent", "hops", "qeq"),
    [
        (0, 1, 15_000), (0, 2, 15_000), (0, 7, 15_000),  # proportional: equal for all flows
        (1, 1, 15_000), (1, 2, 30_000), (1, 5, 75_000),  # max-min: in proportion to the congested hops
        (-1, 1, 15_000), (-1, 2, 7_500), (-1, 7, 2_142),  # for throughput: inversely …
        (-1, 10, 1_500), (-1, 100, 1_500),  # … but at least one frame
    ],
)  # fmt: skip
def test_6_the_three_fairness_settings(exponent: int, hops: int, qeq: int) -> None:
    parameters = E2CMReactionPointParameters(hops_exponent=exponent)
    assert parameters.path_qeq_octets(hops) == qeq


def test_6_qmax_keeps_its_distance_from_flows_qeq() -> None:
    parameters = E2CMReactionPointParameters(hops_exponent=1)
    assert parameters.path_qmax_octets(parameters.path_qeq_octets(5)) == 280_000


def test_6_frame_may_be_longer_than_whole_queue() -> None:
    parameters = E2CMReactionPointParameters(flow_qeq_octets=900, hops_exponent=-1)
    assert parameters.path_qeq_octets(3) == 900


def test_6_fewer_hops_than_one_are_refused() -> None:
    with pytest.raises(ParameterError, match="congested_hops: expected 1 or more, got 0"):
        E2CMReactionPointParameters().path_qeq_octets(0)


@pytest.mark.parametrize(
    ("kind", "assignments", "message"),
    [
        (E2CMCongestionPointParameters,
         ["qeq=280kB"], "qmc: expected more than qeq (280 kB), or 0, got 280 kB"),
        (E2CMCongestionPointParameters,
         ["qsc=280kB"], "qsc: expected more than qmc (280 kB), or 0, got 280 kB"),
        (E2CMCongestionPointParameters,
         ["tagged_sf=300kB"], "tagged_sf: expected 0 B to 256 kB, got 300 kB"),
        (E2CMCongestionPointParameters,
         ["tagged_sr=15001B"],
         "tagged_sr: expected at most tagged_sf (15 kB), got 15001 B"),
        (E2CMReactionPointParameters, ["flow_qmax=15kB"],
         "flow_qmax: expected more than flow_qeq (15 kB), got 15 kB"),
        (E2CMReactionPointParameters, ["probe_octets=0"],
         "probe_octets: expected one of probe_octets, probe_frames and probe_interval above 0, "
         "got 0 for all three"),
        (E2CMReactionPointParameters, ["hops_exponent=2"], "hops_exponent: expected -1 to 1, got 2"),
        (E2CMReactionPointParameters, ["probe_priority=8"], "probe_priority: expected -1 to 7, got 8"),
        (E2CMReactionPointParameters, ["w=0.3"], "w: expected 0.125 to 8 in steps of 0.125, got 0.3"),
        (E2CMEdgeParameters, ["reply_priority=8"], "reply_priority: expected 0 to 7, got 8"),
    ],
)  # fmt: skip
def test_bad_texts_are_refused_in_one_sentence(
    kind: type[Parameters], assignments: list[str], message: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        kind.parse(assignments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "kind", [E2CMCongestionPointParameters, E2CMReactionPointParameters, E2CMEdgeParameters]
)
def test_text_form_reads_back_and_everything_is_documented(kind: type[Parameters]) -> None:
    assert kind.parse(kind().as_text()) == kind()
    for parameter in kind.describe():
        assert parameter.doc
        assert parameter.source
        assert parameter.range_text


def test_ecm_keeps_its_own_defaults() -> None:
    assert ecm.ECMCongestionPointParameters().qeq_octets == 24_000
    assert ecm.ECMReactionPointParameters().self_increase_bps == 1_000_000
    assert aimd.SamplingParameters().fixed_octets == 150_000


def test_describing_it_imports_no_compiler() -> None:
    script = (
        "import sys, ecmproto.control.mechanisms.e2cm.parameters;"
        "print([name for name in ('numba', 'scapy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
