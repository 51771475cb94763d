"""The documents' models agree with hand calculations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ecmproto.control.lab.model import Control, Pattern
from ecmproto.control.lab.results.theory import (
    BCNGains,
    FluidLink,
    QCNGains,
    bcn_fluid,
    bcn_offset_bps,
    curves_of,
    proportional_rates,
    qcn_fluid,
)
from ecmproto.control.lab.simulation.series import RunResult
from tests.lab.synthetic import experiment, run_result

PARKING_LOT = [[0, 1]] * 4 + [[0], [1]]
"""The network of S004, figure 9: four flows over both bottlenecks, and one flow over each bottleneck."""
C = 1e10


def test_proportional_fairness_halves_rates_over_two_hops() -> None:
    rates = proportional_rates(PARKING_LOT, [C, C])
    np.testing.assert_allclose(rates, [C / 6] * 4 + [C / 3] * 2, rtol=1e-6)


def test_lyapunov_optimum_with_the_gains_of_s004() -> None:
    offset_bps = bcn_offset_bps(gi=4, gd=0.0124, ru_bps=4e6)
    rates = proportional_rates(PARKING_LOT, [C, C], offset_bps=offset_bps)
    np.testing.assert_allclose(rates, [1.4516e9] * 4 + [4.1935e9] * 2, rtol=1e-4)


def test_small_increase_approaches_proportional_fairness() -> None:
    rates = proportional_rates(PARKING_LOT, [C, C], offset_bps=bcn_offset_bps(gi=4, gd=0.0124, ru_bps=1e3))
    np.testing.assert_allclose(rates, [C / 6] * 4 + [C / 3] * 2, rtol=1e-3)


def test_offset_starves_crowded_flows_without_negative_rates() -> None:
    rates = proportional_rates(PARKING_LOT, [C, C], offset_bps=C)
    np.testing.assert_allclose(rates, [0.0] * 4 + [C] * 2, atol=10)


def test_a_link_that_nothing_fills_costs_nothing() -> None:
    rates = proportional_rates([[0, 1], [0, 1]], [C, 100 * C])
    np.testing.assert_allclose(rates, [C / 2, C / 2], rtol=1e-6)


LINK = FluidLink(capacity_bps=C, buffer_octets=150_000, set_point_octets=24_000)


def test_bcn_settles_at_set_point_with_equal_shares() -> None:
    curve = bcn_fluid(LINK, BCNGains(), sources=4, initial_bps=5e9, duration_ns=20_000_000)
    assert curve.queue_octets[-1] == pytest.approx(24_000, rel=1e-3)
    assert curve.rate_bps[-1] == pytest.approx(C / 4, rel=1e-3)


def test_bcn_oscillates_under_long_feedback_delay() -> None:
    late = FluidLink(capacity_bps=C, set_point_octets=24_000, feedback_delay_ns=400_000)
    curve = bcn_fluid(late, BCNGains(), sources=4, initial_bps=5e9, duration_ns=50_000_000)
    assert np.ptp(curve.queue_octets[-10_000:]) > 24_000


def test_fluid_queue_stays_between_empty_and_buffer() -> None:
    for initial_bps in (1e7, C):
        curve = bcn_fluid(LINK, BCNGains(), sources=4, initial_bps=initial_bps, duration_ns=5_000_000)
        assert curve.queue_octets.min() >= 0
        assert curve.queue_octets.max() <= 150_000
        assert len(curve.time_ns) == len(curve.rate_bps) == 5_000


def test_qcn_settles_just_above_its_set_point() -> None:
    link = FluidLink(capacity_bps=C, buffer_octets=2.4e6, set_point_octets=33_000)
    curve = qcn_fluid(link, QCNGains(), sources=10, initial_bps=2e9, duration_ns=100_000_000, step_ns=5_000)
    assert 33_000 <= curve.queue_octets[-1] <= 34_000
    assert curve.rate_bps[-1] == pytest.approx(C / 10, rel=1e-2)


def test_qcn_rate_rises_by_byte_counter_without_queue() -> None:
    """At C/10 and after five cycles of 150 kB, R_AI is added to the target in every cycle.

    Half of this increase is added to the rate in each cycle.
    """
    link = FluidLink(capacity_bps=C, set_point_octets=33_000)
    gains = QCNGains(rai_bps=5e6)
    curve = qcn_fluid(link, gains, sources=1, initial_bps=1e9, duration_ns=12_000_000)
    cycles = np.trapezoid(curve.rate_bps, curve.time_ns * 1e-9) / (8 * 150_000)
    assert math.isclose(curve.rate_bps[-1] - 1e9, (cycles - 2) * 5e6, rel_tol=0.05)


# Beside a run ---------------------------------------------------------------------------------------------


def run_with(mechanism: str, pattern: Pattern = Pattern.SATURATING, *parameters: str) -> RunResult:
    """Return a run of two flows over a port of 10 Gb/s for 100 ms."""
    flows = tuple(replace(flow, pattern=pattern) for flow in experiment().flows)
    control = Control(mechanism=mechanism, parameters=parameters)
    return run_result(experiment=experiment(flows=flows, control=control))


def test_optimum_beside_run_is_that_of_its_parameters() -> None:
    (optimum, *fluid) = curves_of(run_with("bcn"))
    assert optimum.label.startswith("Lyapunov")
    assert optimum.value.tolist() == [5e9, 5e9]
    assert [curve.of for curve in fluid] == ["queue", "rate"]
    assert fluid[0].value[-1] == pytest.approx(24_000, rel=1e-3)
    (_, queue, _) = curves_of(run_with("bcn", Pattern.SATURATING, "cp.qeq=48kB"))
    assert queue.value[-1] == pytest.approx(48_000, rel=1e-3)


def test_fecn_rise_takes_log_of_n0_over_n() -> None:
    (rise,) = curves_of(run_with("fecn", Pattern.BERNOULLI, "N0=20"))
    assert rise.value[0] == pytest.approx(C / 20)
    assert rise.value[-1] == C / 2
    reached_ns = rise.time_ns[np.flatnonzero(rise.value == C / 2)[0]]
    # S003: log of N0/N, to the multiplier of the limited increase, intervals of 1 ms
    expected_ns = math.log(20 / 2, 1.414) * 1_000_000
    assert reached_ns == pytest.approx(expected_ns, abs=200_000)


def test_models_of_greedy_sources_say_nothing_of_others() -> None:
    assert curves_of(run_with("qcn"))
    assert curves_of(run_with("qcn", Pattern.BERNOULLI)) == ()
    assert curves_of(run_with("none")) == ()


def test_models_say_nothing_of_links_whose_rate_changes() -> None:
    result = run_with("qcn")
    host, port = result.ports
    service_bps = port.service_bps.copy()
    service_bps[50:] = 1e9
    assert curves_of(replace(result, ports=(host, replace(port, service_bps=service_bps)))) == ()


def test_single_link_models_exclude_a_second_bottleneck() -> None:
    result = run_with("fecn")
    host, port = result.ports
    slower = replace(port, name="d>e", service_bps=port.service_bps / 10)
    first, second = result.flows
    longer = replace(first, path=(*first.path, "d>e"))
    assert curves_of(result)
    assert curves_of(replace(result, ports=(host, port, slower), flows=(longer, second))) == ()
