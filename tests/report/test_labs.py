"""Reports of experiments, from runs with known figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ecmproto.control.lab.model import Control, Flow, Pattern
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.results.outcome import Outcome
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation.simulate import simulate
from ecmproto.tools.report.html import html_page, report_svg
from ecmproto.tools.report.labs import lab_report
from ecmproto.tools.report.panels import time_axis
from ecmproto.tools.report.replay_panels import LossPanels
from ecmproto.tools.report.sheet import WIDE
from tests.lab.synthetic import MS, WINDOWS, experiment, run_result
from tests.lab.test_paths import experiment as fabric
from tests.report.wellformed import check_page


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    runs = [RunFigures(run_result(seed, settled_octets=20_000 + 2000 * seed)) for seed in (1, 2)]
    return Outcome(experiment(), runs)


def test_page_compares_published_figures_with_pictures(outcome: Outcome) -> None:
    page = check_page(html_page(lab_report([outcome])))
    text = page.text()
    for heading in ("Results and published figures", "Queue length", "Queue and rate against each other"):
        assert heading in text
    assert "4.9 5.1 Gb/s" in text
    assert "inside on all 2" in text
    assert "queue less its set point (kB)" in text
    assert "an experiment in a network" in text
    assert "capture" not in text


def test_equal_runs_keep_their_own_names(outcome: Outcome) -> None:
    report = lab_report([outcome, outcome])
    assert [run.variant for run in report.runs] == ["qcn", "qcn"]
    check_page(html_page(report))


def test_curves_equal_the_measured_values(outcome: Outcome) -> None:
    (run,) = lab_report([outcome]).runs
    assert run.queue.mean_octets[0] == 100_000
    assert run.queue.mean_octets[-1] == 22_000
    assert run.set_point_octets == 26_000
    assert run.phase.offset_octets[-1] == 22_000 - 26_000
    assert run.phase.rate_bps[-1] == 1e10
    assert run.phase.rate_bps[0] == 5e9
    assert [flow.label for flow in run.flows] == ["r1", "r2"]
    assert run.flows[1].delivered_bps[-1] == 5e9
    assert run.drops.time_ns.tolist() == [5 * MS]
    assert run.drops.count.tolist() == [7]
    assert [(pause.label, pause.stopped_ns.sum()) for pause in run.pauses] == [("a>s", 2 * MS)]
    # Totals are those of the measured half, as in the table.
    assert run.messages.totals == (WINDOWS,)
    losses = {row.label: row.total for row in LossPanels([run], time_axis([run]), WIDE).rows_of(run)}
    assert losses == {"frames dropped": "0", "a>s": "2 ms"}


def test_many_flows_are_quantiles() -> None:
    result = run_result()
    first = result.flows[0]
    flows = tuple(
        replace(first, name=f"r{number}", sent_octets=first.sent_octets * number) for number in range(41)
    )
    (run,) = lab_report([Outcome(experiment(), [RunFigures(replace(result, flows=flows))])]).runs
    assert [flow.label.partition(" of ")[0] for flow in run.flows] == [
        "maximum", "90th percentile", "median", "10th percentile", "minimum"
    ]  # fmt: skip
    assert run.flows[2].label == "median of 41 flows"
    assert [flow.sent_bps[0] / 5e9 for flow in run.flows] == [40, 36, 20, 4, 0]


def test_slowdown_is_drawn_by_size_of_flow() -> None:
    network = parse_topology("star hosts=3").network()
    flows = [
        Flow(name=name, source=name, destination="h3", pattern=Pattern.SCHEDULE, bursts=((0, octets),))
        for name, octets in (("h1", 9_000), ("h2", 90_000))
    ]
    given = replace(fabric(network, *flows), name="sized")
    report = lab_report([Outcome(given, [RunFigures(simulate(given, seed=1))])])
    slowdowns = report.runs[0].slowdowns
    assert slowdowns.up_to == ("10 kB", "100 kB")
    # An empty network takes 9.4 and 74.2 us; frames of 1.2 us alternate until the shorter flow has ended.
    assert slowdowns.p50 == pytest.approx([(9.4 + 5 * 1.2) / 9.4, (74.2 + 6 * 1.2) / 74.2])
    assert "Slowdown by size of flow" in report_svg(report).decode()


def test_fluid_model_is_drawn_over_the_run() -> None:
    flows = tuple(replace(flow, pattern=Pattern.SATURATING) for flow in experiment().flows)
    given = experiment(flows=flows, control=Control(mechanism="bcn"))
    report = lab_report([Outcome(given, [RunFigures(run_result(experiment=given))])])
    (run,) = report.runs
    assert {(curve.label, curve.of) for curve in run.theory} == {
        ("fluid model (S004)", "queue"),
        ("fluid model (S004)", "rate"),
        ("Lyapunov optimum (S004)", "rate"),
    }
    svg = report_svg(report).decode()
    assert "fluid model (S004)" in svg
    assert "Lyapunov optimum (S004)" in svg


def test_port_without_set_point_has_no_phase_plot() -> None:
    result = run_result()
    ports = tuple(replace(port, set_point_octets=None) for port in result.ports)
    report = lab_report([Outcome(experiment(), [RunFigures(replace(result, ports=ports))])])
    assert "Queue and rate against each other" not in html_page(report)
